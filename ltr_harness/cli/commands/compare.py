"""`ltr-harness compare`: which ranking is better, over the same queries; and gates for CI."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ltr_harness.cli import options, streams
from ltr_harness.cli.output import echo, echo_cautions, print_comparison
from ltr_harness.cli.rankings import RankingSource, with_latencies
from ltr_harness.errors import GateError, Problem, UsageError, all_of

if TYPE_CHECKING:
    from ltr_harness.cli.ci_files import CheckedGate
    from ltr_harness.comparison.comparison import Comparison
    from ltr_harness.comparison.gates import Gate
    from ltr_harness.report.data import ReportData


@options.examples("""
  ltr-harness compare runs/mq2008 --metric ndcg@10
  ltr-harness compare 'runs/a/lgbm--*' 'runs/b/xgb--*' -m ndcg@10,mrr@10 --baseline lgbm -o out
  ltr-harness compare old.txt new.txt --data test.txt -m ndcg@10 --fail-if "ndcg@10 < baseline"
  ltr-harness compare runs/shop --unit user_id       # many queries of one user are not independent
  ltr-harness compare a.run b.run --qrels qrels.txt -m map --baseline a
  ltr-harness compare first.json reranked.json --qrels qrels.txt -m ndcg@10 --latency milliseconds.csv
  ltr-harness compare --data logs/ --score-column live --score-column new -m ndcg@10
  ltr-harness compare old.csv new.csv                # tables with query_id and a column per metric
  ltr-harness compare results/org__a results/org__b  # MTEB's results, over tasks
  ltr-harness compare lastweek/report.json runs/new  # a comparison kept with -o, or an experiment's report

\b
Gates: --fail-if "METRIC [of MODEL] (<|<=|>|>=) (baseline [(+|-) NUMBER]|NUMBER) [and significant]"
  "ndcg@10 < baseline"                    any model's mean is below the baseline's
  "ndcg@10 < baseline and significant"    ... and the verdict says worse
  "ndcg@10 < baseline - 0.005"            ... unless it is shown to be no more than 0.005 below (non-inferiority)
  "mrr@10 of new < 0.4"                   one model's mean is below a number
A gate that fails is exit 3. Exit 2: results that must not be compared, or an invalid gate.
""")
@click.command("compare", cls=options.Command, advanced=options.ADVANCED)
@options.inputs("RUNS-OR-SCORES…")
@options.metrics
@options.rankings("scores", "run")
@options.score_columns
@options.baseline
@options.common_queries
@click.option(
    "--fail-if", "gate_texts", multiple=True, metavar="GATE", help="Exit 3 if this holds; several times."
)
@options.latency
@options.method()
@options.no_ledger
@click.option(
    "--convention",
    metavar="TOOL",
    help="The tool whose metric names the tables use: ir_measures, pytrec_eval, ranx, trec_eval.  [default: ours]",
)
@options.output("Write a report there.")
@options.file("--junit", "Write the gates as JUnit XML.", options.FILE)
@options.summary
@options.verbose
@options.as_json
def command(
    inputs: tuple[str, ...],
    metrics: tuple[str, ...],
    score_columns: tuple[str, ...],
    sample: int | None,
    baseline: str | None,
    common_queries: bool,
    gate_texts: tuple[str, ...],
    latency: str | None,
    no_ledger: bool,
    convention: str | None,
    output: Path | None,
    junit: Path | None,
    summary: Path | None,
    verbose: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Compare rankings at a fixed K over the same queries: which is better, by how much, how sure.

    RUNS-OR-SCORES are run folders, experiments' folders, saved comparisons (report.json), tables of per-query values
    or models' results of MTEB; with --data score files, with --qrels TREC runs; none with --score-column. What must
    not be compared (another K, definition, query set, labels) is refused.
    """
    _refuse_options(junit, gate_texts, latency, score_columns)
    method, source = options.pop_method(given), RankingSource(**given)
    columns = streams.ScoreColumns.from_options(score_columns, sample, source, baseline)
    if columns is None and not inputs:
        raise UsageError("nothing to compare; expected runs, tables or scores, or --score-column of --data")
    from ltr_harness.cli.commands.compare_inputs import ComparedInputs

    gates = _parsed(gate_texts)
    compared = ComparedInputs.of(inputs, metrics, source, columns, gates)
    stream = compared.stream
    if stream is not None and stream.moments is not None:
        reports = bool(gates or output or summary)
        streams.print_moments(stream, compared.title, compared.cautions, method, reports, as_json)
        return
    comparison = compared.compared(
        method, baseline, common_queries, ledger=not no_ledger, convention=convention
    )
    checked = _checked(gates, comparison)
    data, latency_cautions = with_latencies(compared.report_data(comparison), latency, compared.rankings)
    more: dict[str, Any] = {"gates": [gate._asdict() for gate in checked]}
    if stream is not None:
        more |= streams.as_json(stream, comparison.primary, method)
    print_comparison(data, as_json, more, verbose=verbose)
    if stream is not None and not as_json:
        streams.print_sample(stream, comparison.primary, method)
    if output is not None:
        from ltr_harness.report.writing import write_report

        echo(f"report: {write_report(data, output)}", err=as_json)
    _write_for_ci(junit, summary, data, checked)
    echo_cautions([*compared.cautions, *latency_cautions])
    _pass_or_fail(checked)


def _refuse_options(
    junit: Path | None, gate_texts: Sequence[str], latency: str | None, score_columns: Sequence[str]
) -> None:
    """Raise a UsageError for options that do not go together."""
    if junit is not None and not gate_texts:
        raise UsageError("--junit without --fail-if; its test cases are the gates")
    if latency is not None and score_columns:
        raise UsageError("--latency with --score-column; expected files of rankings")


def _write_for_ci(
    junit: Path | None, summary: Path | None, data: "ReportData", gates: "Sequence[CheckedGate]"
) -> None:
    """Write the files for a CI system, whether gates pass or not."""
    from ltr_harness.cli.ci_files import append_summary, write_junit

    if junit is not None:
        write_junit(junit, data.comparison.verdict, gates)
    if summary is not None:
        append_summary(summary, data, gates)


def _parsed(texts: Sequence[str]) -> "list[Gate]":
    """Return the gates, each once; all invalid ones are refused together."""
    from ltr_harness.comparison.gates import parse_gate

    gates: list[Gate] = all_of([partial(parse_gate, text) for text in texts], UsageError)
    return list({gate.text: gate for gate in gates}.values())


def _checked(gates: "Sequence[Gate]", comparison: "Comparison") -> "list[CheckedGate]":
    """Return which models meet the condition of each gate."""
    from ltr_harness.cli.ci_files import CheckedGate

    failures = all_of([partial(gate.failures, comparison) for gate in gates], UsageError)
    return [
        CheckedGate(gate.text, lines, gate.cautions(comparison), gate.not_excluded(comparison))
        for gate, lines in zip(gates, failures, strict=True)
    ]


def _pass_or_fail(gates: "Sequence[CheckedGate]") -> None:
    """Print which gates pass. Raises GateError: others fail."""
    for gate in gates:
        if not gate.failures:
            echo(f"gate passed: {gate.passed}", err=True)
        echo_cautions(
            replace(caution, place=f"gate {gate.gate!r}: {caution.place}") for caution in gate.cautions
        )
    GateError.refuse(Problem(f"gate {gate.gate!r}", line) for gate in gates for line in gate.failures)
