"""`ltr-harness evaluate`: metrics for scores from anywhere."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import numpy as np

import ltr_harness
from ltr_harness._util.text import count_of, csv_text, four_decimals, plural, printable
from ltr_harness.cli import metric_names, options, rankings, streams
from ltr_harness.cli.output import counts, print_means, print_table, say, say_cautions, say_json
from ltr_harness.comparison.stats.method import Method
from ltr_harness.errors import Caution, MetricError, UsageError
from ltr_harness.metrics import Metric, parse_metric
from ltr_harness.metrics.core.binding import share_tied, tie_audit
from ltr_harness.metrics.core.cautions import cautions
from ltr_harness.metrics.core.grammar import other_name, with_tool
from ltr_harness.metrics.core.judged_share import FEW_JUDGED
from ltr_harness.metrics.core.judged_share import in_words as judged_in_words
from ltr_harness.metrics.evaluation import Evaluation, MetricValues

if TYPE_CHECKING:
    from ltr_harness.comparison.stream import StreamEvaluation
    from ltr_harness.metrics.core.headroom import MeanHeadroom
    from ltr_harness.report.data import ReportData


@options.examples("""
  ltr-harness evaluate --data test.txt --scores scores.txt
  ltr-harness evaluate --data test.parquet --scores scores.csv -m ndcg@10,mrr@10 --per-query
  ltr-harness evaluate --qrels qrels.txt --run a.run --run b.run.gz -m ndcg@10 --baseline a
  ltr-harness evaluate --qrels qrels.txt --run a.run --format trec_eval -q
  ltr-harness evaluate --data s3://bucket/test/ --scores scores.csv
  ltr-harness evaluate --data logs/ --score-column live --score-column new --sample 100000

\b
Several --run or --scores are compared with the first, or with --baseline.
With --format trec_eval, -m takes trec_eval's names too: map, P.5,10, ndcg_cut.10, official.
""")
@click.command("evaluate")
@options.rankings()
@options.score_columns
@options.metrics
@click.option(
    "--relevant",
    type=float,
    metavar="GRADE",
    help="Lowest grade that binary metrics count as relevant (trec_eval -l).  [default: 1]",
)
@options.flag(
    "--per-query", "Print every query's value too. With --format trec_eval it is also -q, as in trec_eval."
)
@click.option("-q", "short", is_flag=True, hidden=True)
@click.option(
    "--baseline", metavar="NAME", help="The ranking the others are compared with: name, tag or file."
)
@options.flag("--common-queries", "Compare the queries that all rankings have.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "trec_eval", "csv", "json"]),
    help="How to print.  [default: table]",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
def command(
    score_columns: tuple[str, ...],
    sample: int | None,
    metrics: tuple[str, ...],
    relevant: float | None,
    per_query: bool,
    short: bool,
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
    if short and form != "trec_eval":
        raise UsageError("-q without --format trec_eval; expected --per-query")
    per_query = per_query or short
    source = rankings.RankingSource(**given)
    columns = streams.ScoreColumns.of(score_columns, sample, source, baseline)
    if form == "trec_eval":
        found = "--format trec_eval"
        if columns is not None:
            raise UsageError(f"{found} with --score-column; expected --qrels and --run, or another format")
        if baseline or common_queries:
            raise UsageError(f"{found} compares nothing; leave out --baseline and --common-queries")
        from ltr_harness.cli.trec_eval import say_measures

        say_measures(metrics, source, relevant or 1, per_query)
        return 0
    asked = metric_names.parsed(metrics, relevant)
    if columns is not None:
        return _of_columns(columns, asked, form, per_query)
    loaded = rankings.load_rankings(source)
    if len(loaded.all) == 1 and (baseline or common_queries):
        raise UsageError("--baseline and --common-queries need a second --run or --scores to compare with")
    scaled, of_scale = loaded.with_max_grade(asked.metrics)
    primary = scaled[asked.metrics.index(asked.primary)]
    evaluations = [scored.evaluate(scaled) for scored in loaded.all]
    typed = asked.names(scaled)
    said = [*loaded.cautions, *of_scale]
    compared = None
    if len(loaded.all) > 1:
        from ltr_harness.report.data import ReportData

        comparison = ltr_harness.compare(
            *(loaded.system(*pair) for pair in zip(loaded.all, evaluations, strict=True)),
            metrics=list(dict.fromkeys([str(primary), *evaluations[0].metrics])),
            baseline=None if baseline is None else loaded.named(baseline),
            common_queries=common_queries,
        )
        compared = ReportData(comparison, (), (), None, str(loaded.judgments_file))
        said += [other_name(text, name) for name, text in typed.items()]
    each = [_Ranking.of(*pair) for pair in zip(loaded.all, evaluations, strict=True)]
    if form != "csv":
        first = loaded.all[0]
        said += cautions(list(dict.fromkeys(scaled)), first.judgments, first.retrieved)
        if compared is None:
            said += [one for one in evaluations[0].cautions if one.kind == FEW_JUDGED]
        said += _ties(loaded.all, primary)
        if compared is None:
            said += _headroom_cautions(evaluations[0])
    return _say(_Found(loaded.judgments_file, each, compared, typed, per_query), form, said)


def _headroom_cautions(evaluation: Evaluation) -> list[Caution]:
    """That order decides little of the first metric, or that random order beats the ranking."""
    from ltr_harness.metrics.core.headroom import LITTLE_TO_GAIN, beside_random, worse_than_random

    headroom, metric = evaluation.headroom(), evaluation.metrics[0]
    if headroom is None:
        return []
    values = evaluation[metric]
    line = headroom.little_to_gain(metric)
    found = [Caution(LITTLE_TO_GAIN, "warning", line)] if line else []
    if values.metric.higher_is_better and beside_random(headroom.random, values.per_query) < 0:
        found.append(worse_than_random(metric, headroom.random, values.per_query))
    return found


def _of_columns(
    columns: streams.ScoreColumns, asked: metric_names.NamedMetrics, form: str, per_query: bool
) -> int:
    """`evaluate` of scores that are columns of the data."""
    stream, said = columns.evaluated(asked.metrics)
    if per_query and stream.moments is not None:
        found = f"--per-query of {count_of(stream.n_queries, 'query')}, whose values are not kept"
        raise UsageError(f"{found}; expected --sample N, or fewer queries")
    compared = None
    primary = stream.metrics[asked.metrics.index(asked.primary)]
    if len(columns.names) > 1 and stream.moments is None:
        from ltr_harness.report.data import ReportData

        names = list(dict.fromkeys([primary, *stream.metrics]))
        comparison = ltr_harness.compare(stream.results, metrics=names, baseline=columns.names[0])
        compared = ReportData(comparison, (), (), None, str(columns.data))
    each, n = [], stream.n_queries
    for score in columns.names:
        table, metrics = stream.results.get(score), {}
        for at, name in enumerate(stream.metrics):
            values = np.empty(0) if table is None else table[name].to_numpy()
            n_nan = int(np.isnan(values).sum())
            undefined = n_nan if stream.moments is None else n - int(stream.moments.n[at])
            judged = stream.judged.get(score, {}).get(name)
            metric, mean = parse_metric(name), stream.means[score][name]
            metrics[name] = MetricValues(metric, values, mean, n, undefined, judged)
        ids, relevant = ([] if table is None else table[of].to_pylist() for of in ("query_id", "n_relevant"))
        each.append(_Ranking(score, columns.data, metrics, ids, relevant, stream.n_rows))
    typed = asked.names([parse_metric(name) for name in stream.metrics])
    return _say(_Found(columns.data, each, compared, typed, per_query, stream, primary), form, said)


class _Ranking(NamedTuple):
    """One ranking's values, wherever they are from."""

    name: str
    path: Path
    metrics: Mapping[str, MetricValues]
    query_ids: Sequence[Any]  # (n_queries,), as n_relevant; empty where values are not kept
    n_relevant: Sequence[int]
    n_rows: int
    headroom: "MeanHeadroom | None" = None

    @classmethod
    def of(cls, scored: rankings.Scored, evaluation: Evaluation) -> "_Ranking":
        """A ranking of data in memory."""
        ids, judgments = evaluation.query_ids.tolist(), evaluation.judgments
        metrics, headroom = (
            {name: evaluation[name] for name in evaluation.metrics},
            evaluation.mean_headroom(),
        )
        relevant, n_rows = judgments.n_relevant.tolist(), judgments.groups.n_rows
        if scored.retrieved is not None:  # other rows are judged documents that the run does not list
            n_rows = int(np.count_nonzero(scored.retrieved))
        return cls(scored.name, scored.path, metrics, ids, relevant, n_rows, headroom)


class _Found(NamedTuple):
    """What is printed, in whatever form."""

    judgments_file: Path
    each: Sequence[_Ranking]
    compared: "ReportData | None"  # where there are several
    typed: Mapping[str, str]  # canonical name to the one that was typed
    per_query: bool
    stream: "StreamEvaluation | None" = None  # where scores are columns of the data
    primary: str = ""  # what its differences are about


def _say(found: _Found, form: str, said: Sequence[Caution]) -> int:
    """Results in their form, with what a stream of scores has besides; then the cautions."""
    if form == "json":
        rest = {} if found.stream is None else streams.as_json(found.stream, found.primary, Method())
        say_json(_document(found, said) | rest)
        return 0
    if form == "csv":
        _write_csv(found)
    else:
        _print(found)
        if found.stream is not None:
            streams.say_rest(found.stream, found.primary, Method())
    say_cautions(said)
    return 0


def _print(found: _Found) -> None:
    if found.per_query:
        for ranking in found.each:
            _print_queries(ranking, with_name=len(found.each) > 1)
    if found.compared is not None:
        from ltr_harness.report.terminal import show

        show(found.compared)
        say()
        print_means(found.compared.comparison)
        return
    for ranking in found.each:
        _print_ranking(ranking, found.typed)


def _print_queries(ranking: _Ranking, *, with_name: bool) -> None:
    """Print a table of the values of each query."""
    if with_name:
        say(f"{printable(ranking.name)}:")
    columns = [values.per_query.tolist() for values in ranking.metrics.values()]
    lines = zip(ranking.query_ids, *columns, strict=True)
    rows = [[str(query), *map(four_decimals, values)] for query, *values in lines]
    print_table(["query", *ranking.metrics], rows)
    say()


def _print_ranking(ranking: _Ranking, typed: Mapping[str, str]) -> None:
    """Print the mean of each metric, then how the first one spreads and what is left to gain by it."""
    name, first = next(iter(ranking.metrics.items()))
    say(f"{printable(ranking.name)}: {counts(query=first.n_queries, row=ranking.n_rows)}\n")
    _print_means(ranking.metrics, typed)
    lines = []
    values = first.per_query[~np.isnan(first.per_query)]
    if values.size > 1:
        low, median, high = (four_decimals(float(end)) for end in np.quantile(values, [0.1, 0.5, 0.9]))
        zeros = f"0 in {100 * float(np.mean(values == 0)):.1f} % of the queries"
        lines.append(f"{name} by query: p10 {low}, median {median}, p90 {high}; {zeros}")
    if ranking.headroom is not None:
        lines.append(f"{name}: {ranking.headroom}")
    if lines:
        say()
    for line in lines:
        say(line)


def _print_means(metrics: Mapping[str, MetricValues], typed: Mapping[str, str]) -> None:
    """Print each mean with the name that was typed and with its queries, which stand below where all have the same."""
    queries = [_over(values) for values in metrics.values()]
    are_the_same = len(set(queries)) == 1
    typed_names = [with_tool(typed[name]) if name in typed else "" for name in metrics]
    width, typed_width = max(map(len, metrics)), max(map(len, typed_names))
    for (name, values), typed_name, over in zip(metrics.items(), typed_names, queries, strict=True):
        line = f"{name:<{width}}  {four_decimals(values.mean):>8}"
        if typed:
            line += f"  {printable(typed_name):<{typed_width}}"
        if not are_the_same:
            line += f"  {over}"
        say(line.rstrip())
    if are_the_same:
        say(f"\n{queries[0]}")


def _over(values: MetricValues) -> str:
    defined = values.n_queries - values.n_undefined
    said = f"over {defined:,} of {count_of(values.n_queries, 'query')}"
    if values.judged is not None and values.judged < 1:
        said = f"{said}; {judged_in_words(values.metric.k, {'': values.judged})}"
    n = values.n_undefined
    if not n:
        return said
    if values.metric.diagnostic or values.metric.uses_whole_order:
        return f"{said}; {n:,} {plural('is', n)} undefined"
    return f"{said}; {n:,} {plural('has', n)} no relevant document"


def _ties(scored: Sequence[rankings.Scored], metric: Metric) -> list[Caution]:
    """How far the order of equal scores could move the first metric, where it could."""
    found = []
    for one in scored:
        tied = share_tied(metric, one.judgments, one.scores, one.retrieved)
        if not (tied or metric.uses_whole_order):  # no order of equal scores to move anything
            continue
        try:
            audit = tie_audit(metric, one.judgments, one.scores, one.retrieved)
        except MetricError:  # a metric without a worst and a best order
            return []
        if audit.share_touched > 0.0:
            found.append(Caution("equal-scores", "warning", str(audit), place=one.name))
    return found


def _write_csv(found: _Found) -> None:
    """Means, or with --per-query a table of per-query values that `compare` reads; full precision."""
    rows = _rows_of_queries(found.each) if found.per_query else _rows_of_means(found.each)
    say(csv_text(rows), nl=False)


def _rows_of_means(rankings: Sequence[_Ranking]) -> list[list[Any]]:
    rows: list[list[Any]] = [["ranking", "metric", "mean", "n_queries", "n_undefined"]]
    for ranking in rankings:
        for name, values in ranking.metrics.items():
            rows.append([ranking.name, name, values.mean, values.n_queries, values.n_undefined])
    return rows


def _rows_of_queries(rankings: Sequence[_Ranking]) -> list[list[Any]]:
    """Return the head and a row for each query, which begins with its ranking where there are several."""
    head: list[Any] = ["query_id", "n_relevant", *rankings[0].metrics]
    rows: list[list[Any]] = []
    for ranking in rankings:
        columns = [values.per_query.tolist() for values in ranking.metrics.values()]
        lines = [list(line) for line in zip(ranking.query_ids, ranking.n_relevant, *columns, strict=True)]
        if len(rankings) > 1:
            lines = [[ranking.name, *line] for line in lines]
        rows += lines
    if len(rankings) > 1:
        head = ["ranking", *head]
    return [head, *rows]


def _document(found: _Found, said: Sequence[Caution]) -> dict[str, Any]:
    body: dict[str, Any] = {"judgments": str(found.judgments_file), "rankings": [], "cautions": said}
    for ranking in found.each:
        part: dict[str, Any] = {"name": ranking.name, "file": str(ranking.path), "metrics": {}}
        for name, values in ranking.metrics.items():
            numbers = {key: getattr(values, key) for key in ("mean", "n_queries", "n_undefined")}
            if values.judged is not None:
                numbers["judged"] = values.judged
            numbers["higher_is_better"] = values.metric.higher_is_better
            asked = {"asked": found.typed[name]} if name in found.typed else {}
            part["metrics"][name] = numbers | asked
        if found.per_query:
            queries = [str(query) for query in ranking.query_ids]
            of_queries = ((name, values.per_query.tolist()) for name, values in ranking.metrics.items())
            part["per_query"] = {name: dict(zip(queries, of, strict=True)) for name, of in of_queries}
        body["rankings"].append(part)
    if len(found.each) == 1:
        first, headroom = next(iter(found.each[0].metrics)), found.each[0].headroom
        body["headroom"] = None if headroom is None else {"metric": first, **vars(headroom)}
    elif found.compared is not None:
        from ltr_harness.report.json_document import document

        body["comparison"] = document(found.compared)
    return body
