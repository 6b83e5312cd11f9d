"""`ltr-harness compare`: which ranking is better, over the same queries; and gates for CI."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ltr_harness.cli import asked_metrics, ci_files, options, ranking_source, several_data_sets
from ltr_harness.cli.compared_inputs import ComparedInputs, expanded
from ltr_harness.cli.output import say
from ltr_harness.cli.tables import print_means
from ltr_harness.errors import GateError, Problem, UsageError
from ltr_harness.numbers import json_value

if TYPE_CHECKING:
    from ltr_harness.comparison import Comparison
    from ltr_harness.comparison.gates import Gate
    from ltr_harness.report.data import ReportData
    from ltr_harness.stats.method import Method


@click.command(
    "compare",
    epilog="""\b
Examples:
  ltr-harness compare runs/mq2008 --metric ndcg@10
  ltr-harness compare 'runs/a/lgbm--*' 'runs/b/xgb--*' -m ndcg@10,mrr@10 --baseline lgbm -o out
  ltr-harness compare old.txt new.txt --data test.txt -m ndcg@10 --fail-if "ndcg@10 < baseline"
  ltr-harness compare runs/shop --unit user_id       # many queries of one user are not independent
  ltr-harness compare a.run b.run --qrels qrels.txt -m map --baseline a
  ltr-harness compare old.csv new.csv                # tables with query_id and a column per metric
  ltr-harness compare sessions.parquet --interleaving   # team drafts: session_id, team, click per item shown
  ltr-harness compare a.run b.run --qrels human.txt --cheap-labels llm.txt   # human labels for some queries
  ltr-harness compare runs/mq2008 runs/web --data-sets   # the same models on several data sets
  ltr-harness compare lastweek/report.json runs/new  # a comparison kept with -o, or an experiment's report

\b
Gates: --fail-if "METRIC [of MODEL] (<|<=|>|>=) (baseline [(+|-) NUMBER]|NUMBER) [and significant]"
  "ndcg@10 < baseline"                    any model's mean is below the baseline's
  "ndcg@10 < baseline and significant"    ... and the verdict says worse
  "ndcg@10 < baseline - 0.005"            ... unless it is shown to be no more than 0.005 below (non-inferiority)
  "mrr@10 of new < 0.4"                   one model's mean is below a number
A gate that fails is exit 3. Exit 2: results that must not be compared, or an invalid gate.
""",
)
@click.argument("inputs", nargs=-1, required=True, metavar="RUNS-OR-SCORES…")
@asked_metrics.option
@ranking_source.options("scores", "run")
@click.option(
    "--baseline",
    metavar="NAME",
    help="The model the others are compared with.  [default: what an experiment declares, else the first]",
)
@click.option("--common-queries", is_flag=True, help="Compare the queries that all have.")
@click.option(
    "--fail-if", "gates", multiple=True, metavar="GATE", help="Exit 3 if this holds; several times."
)
@options.method
@click.option(
    "--convention",
    metavar="TOOL",
    help="The tool whose metric names the tables use: ir_measures, pytrec_eval, ranx, trec_eval.  [default: ours]",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, file_okay=False), help="Write a report there."
)
@ci_files.options
@click.option(
    "--interleaving",
    is_flag=True,
    help="The input is a log of interleaved lists: session_id, team and click in every row.",
)
@click.option(
    "--data-sets",
    is_flag=True,
    help="Each input is a data set: the same models on all, by their average and on each.",
)
@click.option("--weights", metavar="NAME=N,…", help="Of the data sets in the average.  [default: equal]")
@click.option(
    "--cheap-labels",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Labels of a language model or of clicks for the queries of --data or --qrels and many more, in the same "
    "form; scores are of its rows.",
)
@options.as_json
def command(
    inputs: tuple[str, ...],
    metrics: tuple[str, ...],
    baseline: str | None,
    common_queries: bool,
    gates: tuple[str, ...],
    convention: str | None,
    output: Path | None,
    interleaving: bool,
    cheap_labels: Path | None,
    as_json: bool,
    **given: Any,
) -> int:
    """Which ranking is better, by how much, how sure: at a fixed K, over the same queries.

    RUNS-OR-SCORES are run folders, experiments' folders, saved comparisons (report.json) or tables of per-query
    values; with --data score files, with --qrels TREC runs. What must not be compared (another K, definition,
    query set, labels) is refused.
    """
    from ltr_harness.comparison import compare
    from ltr_harness.report.data import ReportData

    method = options.taken_method(given)
    files = ci_files.taken(given, gates, interleaving)
    data_sets, weights = given.pop("data_sets"), given.pop("weights")
    if data_sets:
        _refuse_with_data_sets(gates, convention, cheap_labels, interleaving, files.summary)
        given |= {"baseline": baseline, "common_queries": common_queries, "weights": weights}
        return several_data_sets.compared(inputs, metrics, method, given, output, as_json)
    if weights is not None:
        raise UsageError("--weights without --data-sets; the weights are those of data sets")
    if interleaving:
        return _votes(inputs, method, as_json)
    conditions = _parsed(gates, cheap_labels)
    paths, notes = expanded(inputs)
    compared = ComparedInputs(paths, metrics, conditions, given, cheap_labels)
    comparison = compare(
        *compared.items,
        metrics=compared.metrics,
        baseline=compared.declared_baseline if baseline is None else compared.named(baseline),
        common_queries=common_queries,
        convention=convention,
        **asdict(method),
    )
    comparison, cheap = _with_cheap_labels(comparison, compared)
    failures = _failures(conditions, comparison)
    cautions = {gate.text: gate.cautions(comparison) for gate in conditions}
    complete = [run for run in compared.runs if run.record.status == "complete"]
    failed = [run.record for run in compared.runs if run.record.status == "failed"]
    data = ReportData(comparison, complete, failed, None, compared.title)
    if as_json:
        held = [
            {"gate": gate, "failures": lines, "cautions": cautions[gate]} for gate, lines in failures.items()
        ]
        _say_json(data, {"gates": held, **cheap})
    else:
        _show(data)
    if output is not None:
        from ltr_harness.report import write_report

        say(f"report: {write_report(data, output)}", err=as_json)
    files.write(data, failures, cautions)
    for note in (*notes, *compared.notes):
        say(f"note: {note}", err=True)
    _refuse_failures(failures, cautions)
    return 0


def _refuse_with_data_sets(*values: Any) -> None:
    names = ("--fail-if", "--convention", "--cheap-labels", "--interleaving", "--summary")
    for name in (name for name, value in zip(names, values, strict=True) if value):
        raise UsageError(f"{name} with --data-sets; {name} is about one data set")


def _show(data: ReportData) -> None:
    from ltr_harness.report.terminal import show

    show(data)
    if len(data.comparison.metrics) > 1:
        say()
        print_means(data.comparison)


def _say_json(data: ReportData, more: dict[str, Any]) -> None:
    from ltr_harness.report.json_document import document

    say(json.dumps(document(data) | more, indent=2))


def _with_cheap_labels(comparison: Comparison, compared: ComparedInputs) -> tuple[Comparison, dict[str, Any]]:
    """The comparison with what cheap labels add among its notes, and the same as JSON."""
    if compared.cheap is None:
        return comparison, {}
    from ltr_harness.comparison.cheap_labels import with_cheap_labels

    powered = with_cheap_labels(comparison, *compared.cheap)
    noted = replace(comparison, notes=(*powered.lines(), *comparison.notes))
    return noted, {"cheap_labels": json_value(powered)}


def _refuse_failures(failures: Mapping[str, Sequence[str]], cautions: Mapping[str, Sequence[str]]) -> None:
    """Raises GateError where a gate fails; those that pass are named, with what the queries may lack."""
    for gate, lines in failures.items():
        if not lines:
            say(f"gate passed: {gate}", err=True)
        for line in cautions[gate]:
            say(f"note: gate {gate!r}: {line}", err=True)
    problems = [Problem(f"gate {gate!r}", line) for gate, lines in failures.items() for line in lines]
    if problems:
        raise GateError(problems)


def _votes(inputs: Sequence[str], method: Method, as_json: bool) -> int:
    from ltr_harness.comparison.interleaving import interleaved

    if method.unit is not None:
        raise UsageError("--unit with --interleaving; the votes go by the log's user_id where it has one")
    if len(inputs) != 1:
        raise UsageError(
            f"--interleaving with {len(inputs)} inputs; expected one log of both rankers' sessions"
        )
    votes = interleaved(Path(inputs[0]), method.confidence)
    say(json.dumps(json_value(votes)) if as_json else str(votes))
    return 0


def _parsed(texts: Sequence[str], cheap_labels: Path | None) -> list[Gate]:
    from ltr_harness.comparison.gates import parse_gate

    if texts and cheap_labels is not None:
        raise UsageError("--fail-if with --cheap-labels; a gate goes by human labels alone")
    gates = []
    problems: list[Problem] = []
    for text in texts:
        try:
            gates.append(parse_gate(text))
        except UsageError as error:
            problems += error.problems
    if problems:
        raise UsageError(problems)
    return gates


def _failures(gates: Sequence[Gate], comparison: Comparison) -> dict[str, list[str]]:
    problems: list[Problem] = []
    failures = {}
    for gate in gates:
        try:
            failures[gate.text] = gate.failures(comparison)
        except UsageError as error:
            problems += error.problems
    if problems:
        raise UsageError(problems)
    return failures
