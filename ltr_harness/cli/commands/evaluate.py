"""`ltr-harness evaluate`: metrics for scores from anywhere."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ltr_harness.cli import asked_metrics, ranking_source, rankings
from ltr_harness.cli.output import say
from ltr_harness.cli.tables import print_means, print_table
from ltr_harness.errors import UsageError
from ltr_harness.numbers import four_decimals, none_if_undefined
from ltr_harness.wording import count_of, csv_text, plural, printable

if TYPE_CHECKING:
    from ltr_harness.comparison import Comparison
    from ltr_harness.evaluation import Evaluation, MetricValues
    from ltr_harness.metrics import Metric

FORMATS = ("table", "trec_eval", "csv", "json")


@click.command(
    "evaluate",
    epilog="""\b
Examples:
  ltr-harness evaluate --data test.txt --scores scores.txt
  ltr-harness evaluate --data test.parquet --scores scores.csv -m ndcg@10,mrr@10 -q
  ltr-harness evaluate --qrels qrels.txt --run a.run --run b.run.gz -m ndcg@10 --baseline a
  ltr-harness evaluate --qrels qrels.txt --run a.run --format trec_eval -q

\b
Several --run or --scores are compared with the first, or with --baseline.
With --format trec_eval, -m takes trec_eval's names too: map, P.5,10, ndcg_cut.10, official.
""",
)
@ranking_source.options()
@asked_metrics.option
@click.option(
    "--relevant",
    type=float,
    metavar="GRADE",
    help="Lowest grade that binary metrics count as relevant (trec_eval -l).  [default: 1]",
)
@click.option("-q", "--per-query", is_flag=True, help="Print every query's value too.")
@click.option(
    "--baseline", metavar="NAME", help="The ranking the others are compared with: name, tag or file."
)
@click.option("--common-queries", is_flag=True, help="Compare the queries that all rankings have.")
@click.option("--format", "form", type=click.Choice(FORMATS), help="How to print.  [default: table]")
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
def command(
    metrics: tuple[str, ...],
    relevant: float | None,
    per_query: bool,
    baseline: str | None,
    common_queries: bool,
    form: str | None,
    as_json: bool,
    **given: Any,
) -> int:
    """Metrics for scores from anywhere: scores with labelled data, or TREC runs with qrels.

    Without -m: NDCG, MRR, ERR and MAP at 1, 3, 5 and 10. Every mean is printed with its
    number of queries.
    """
    if as_json and form not in (None, "json"):
        raise UsageError(f"--json and --format {form}; expected one of them")
    if relevant is not None and not relevant > 0:
        raise UsageError(f"--relevant {relevant:g}; expected a grade above 0")
    form = "json" if as_json else form or "table"
    if form == "trec_eval":
        return _as_trec_eval(metrics, relevant or 1, per_query, baseline or common_queries, given)
    asked = asked_metrics.asked(metrics, relevant)
    loaded = rankings.load_rankings(ranking_source.RankingSource(**given))
    if len(loaded.all) == 1 and (baseline or common_queries):
        raise UsageError("--baseline and --common-queries need a second --run or --scores to compare with")
    scaled, notes = loaded.on_scale(asked.metrics)
    primary = scaled[asked.metrics.index(asked.primary)]
    evaluations = [scored.evaluate(scaled) for scored in loaded.all]
    comparison = None
    if len(loaded.all) > 1:
        from ltr_harness.comparison import compare

        comparison = compare(
            *(loaded.entrant(*pair) for pair in zip(loaded.all, evaluations, strict=True)),
            metrics=list(dict.fromkeys([str(primary), *evaluations[0].metrics])),
            baseline=None if baseline is None else loaded.named(baseline),
            common_queries=common_queries,
        )
    from ltr_harness.metrics.core.grammar import with_tool

    typed = asked.names(scaled)
    notes = [*loaded.notes, *notes]
    if comparison is not None:
        notes += [f"{with_tool(text)} is {name}" for name, text in typed.items()]
    if form != "csv":
        notes += [*_cautions(evaluations[0]), *_ties(loaded.all, primary)]
    if form == "json":
        say(json.dumps(_document(loaded, evaluations, comparison, per_query, notes, typed), indent=2))
    elif form == "csv":
        _write_csv(loaded, evaluations, per_query)
    else:
        _print(loaded, evaluations, comparison, per_query, typed)
    if form != "json":
        for note in notes:
            say(f"note: {note}", err=True)
    return 0


def _as_trec_eval(
    metrics: Sequence[str], relevant: float, per_query: bool, compares: Any, given: dict[str, Any]
) -> int:
    from ltr_harness.cli import trec_eval_layout

    if compares:
        raise UsageError("--format trec_eval compares nothing; leave out --baseline and --common-queries")
    measures = trec_eval_layout.asked(metrics)
    source = ranking_source.RankingSource(**given)
    loaded = rankings.load_rankings(source)
    measures, notes = trec_eval_layout.completed(measures, loaded, relevant)
    for scored in loaded.all:
        for line in trec_eval_layout.lines(
            scored, measures, relevant=relevant, complete=source.all_queries, per_query=per_query
        ):
            say(line)
    for note in (*loaded.notes, *notes):
        say(f"note: {note}", err=True)
    return 0


def _print(
    loaded: rankings.Rankings,
    evaluations: Sequence[Evaluation],
    comparison: Comparison | None,
    per_query: bool,
    typed: Mapping[str, str],
) -> None:
    if per_query:
        for scored, evaluation in zip(loaded.all, evaluations, strict=True):
            if comparison is not None:
                say(f"{printable(scored.name)}:")
            print_table(
                ["query", *evaluation.metrics],
                [
                    [str(query), *(four_decimals(float(value)) for value in values)]
                    for query, values in zip(
                        evaluation.query_ids.tolist(),
                        zip(*(evaluation[name].per_query for name in evaluation.metrics), strict=True),
                        strict=True,
                    )
                ],
            )
            say()
    if comparison is not None:
        from ltr_harness.report.data import ReportData
        from ltr_harness.report.terminal import show

        show(ReportData(comparison, (), (), None, str(loaded.source)))
        say()
        print_means(comparison)
        return
    _print_one(loaded.all[0].name, evaluations[0], typed)


def _print_one(name: str, evaluation: Evaluation, typed: Mapping[str, str]) -> None:
    """Each mean with the name it was asked for by and the queries it is over; said once where all are over the same."""
    from ltr_harness.metrics.core.grammar import with_tool

    groups = evaluation.judgments.groups
    say(f"{printable(name)}: {count_of(groups.n_queries, 'query')}, {count_of(groups.n_rows, 'row')}")
    say()
    said = [_over(evaluation[metric]) for metric in evaluation.metrics]
    width = max(len(metric) for metric in evaluation.metrics)
    asked = [with_tool(typed[name]) if name in typed else "" for name in evaluation.metrics]
    for metric, text, over in zip(evaluation.metrics, asked, said, strict=True):
        line = f"{metric:<{width}}  {four_decimals(evaluation[metric].mean):>8}"
        line += f"  {printable(text):<{max(map(len, asked))}}" if typed else ""
        say((line if len(set(said)) == 1 else f"{line}  {over}").rstrip())
    if len(set(said)) == 1:
        say(f"\n{said[0]}")


def _over(values: MetricValues) -> str:
    defined = values.n_queries - values.n_undefined
    said = f"over {defined:,} of {count_of(values.n_queries, 'query')}"
    if not values.n_undefined:
        return said
    if values.metric.diagnostic or values.metric.whole_order:
        return f"{said}; {values.n_undefined:,} {plural('is', values.n_undefined)} undefined"
    return f"{said}; {values.n_undefined:,} {plural('has', values.n_undefined)} no relevant document"


def _cautions(evaluation: Evaluation) -> list[str]:
    from ltr_harness.metrics.core.cautions import cautions

    metrics = [evaluation[name].metric for name in evaluation.metrics]
    return [str(caution) for caution in cautions(metrics, evaluation.judgments)]


def _ties(scored: Sequence[rankings.Scored], metric: Metric) -> list[str]:
    """How far the order of equal scores could move the first metric, where it could."""
    from ltr_harness.errors import MetricError
    from ltr_harness.metrics.core.tie_interval import share_tied, tie_audit

    lines = []
    for one in scored:
        tied = share_tied(metric, one.judgments, one.scores, one.retrieved)
        if not (tied or metric.whole_order):  # no order of equal scores to move anything
            continue
        try:
            audit = tie_audit(metric, one.judgments, one.scores, one.retrieved)
        except MetricError:  # a metric without a worst and a best order
            return []
        if audit.share_touched > 0.0:
            lines.append(f"{one.name}: {audit}")
    return lines


def _write_csv(loaded: rankings.Rankings, evaluations: Sequence[Evaluation], per_query: bool) -> None:
    """Means, or with -q a table of per-query values that `compare` reads; full precision."""
    import numpy as np

    several = len(evaluations) > 1
    pairs = list(zip(loaded.all, evaluations, strict=True))
    rows: list[list[Any]]
    if not per_query:
        rows = [["ranking", "metric", "mean", "n_queries", "n_undefined"]]
        for scored, evaluation in pairs:
            for name in evaluation.metrics:
                values = evaluation[name]
                rows.append([scored.name, name, values.mean, values.n_queries, values.n_undefined])
        say(csv_text(rows), nl=False)
        return
    rows = [[*["ranking"] * several, "query_id", "n_relevant", *evaluations[0].metrics]]
    for scored, evaluation in pairs:
        judgments = evaluation.judgments
        relevant = np.add.reduceat(
            judgments.narrow_labels > 0, judgments.groups.boundaries[:-1], dtype=np.int64
        )
        columns = [evaluation[name].per_query.tolist() for name in evaluation.metrics]
        lines = zip(evaluation.query_ids.tolist(), relevant.tolist(), *columns, strict=True)
        rows += [[*[scored.name] * several, *line] for line in lines]
    say(csv_text(rows), nl=False)


def _document(
    loaded: rankings.Rankings,
    evaluations: Sequence[Evaluation],
    comparison: Comparison | None,
    per_query: bool,
    notes: Sequence[str],
    typed: Mapping[str, str],
) -> dict[str, Any]:
    """The same numbers for programs; undefined values are null."""
    body: dict[str, Any] = {"judgments": str(loaded.source), "rankings": [], "notes": list(notes)}
    for scored, evaluation in zip(loaded.all, evaluations, strict=True):
        part: dict[str, Any] = {"name": scored.name, "file": str(scored.path), "metrics": {}}
        for name in evaluation.metrics:
            values = evaluation[name]
            part["metrics"][name] = {
                "mean": none_if_undefined(values.mean),
                "n_queries": values.n_queries,
                "n_undefined": values.n_undefined,
                "higher_is_better": values.metric.higher_is_better,
                **({"asked": typed[name]} if name in typed else {}),
            }
        if per_query:
            queries = [str(query) for query in evaluation.query_ids.tolist()]
            part["per_query"] = {
                name: dict(
                    zip(queries, map(none_if_undefined, evaluation[name].per_query.tolist()), strict=True)
                )
                for name in evaluation.metrics
            }
        body["rankings"].append(part)
    if comparison is not None:
        from ltr_harness.report.data import ReportData
        from ltr_harness.report.json_document import document

        body["comparison"] = document(ReportData(comparison, (), (), None, str(loaded.source)))
    return body
