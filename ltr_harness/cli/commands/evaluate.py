"""`ltr-harness evaluate`: metrics for scores from anywhere."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import numpy as np

import ltr_harness
from ltr_harness._util.escapes import printable
from ltr_harness._util.number_text import four_decimals
from ltr_harness._util.tables import csv_text
from ltr_harness._util.text import count_of, plural
from ltr_harness.cli import metric_names, options, rankings, streams
from ltr_harness.cli.output import counts, echo, echo_cautions, echo_json, print_means, print_table
from ltr_harness.comparison.stats.method import Method
from ltr_harness.errors import Caution, MetricError, UsageError
from ltr_harness.metrics import Metric, parse_metric
from ltr_harness.metrics.core.binding import share_tied, tie_audit
from ltr_harness.metrics.core.cautions import cautions as metric_cautions
from ltr_harness.metrics.core.grammar import other_name, with_tool
from ltr_harness.metrics.core.judged_share import FEW_JUDGED
from ltr_harness.metrics.core.judged_share import in_words as judged_in_words
from ltr_harness.metrics.evaluation import Evaluation, MetricValues

if TYPE_CHECKING:
    from ltr_harness.comparison.comparison import Comparison
    from ltr_harness.comparison.stream import StreamEvaluation
    from ltr_harness.metrics.core.headroom import MeanHeadroom
    from ltr_harness.report.data import ReportData


@options.examples("""
  ltr-harness evaluate --data test.txt --scores scores.txt
  ltr-harness evaluate --data test.parquet --scores scores.csv -m ndcg@10,mrr@10 --per-query
  ltr-harness evaluate --qrels qrels.txt --run a.run --run b.run.gz -m ndcg@10 --baseline a
  ltr-harness evaluate --qrels qrels.txt --run reranked.parquet -m ndcg@10 --latency ms
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
@options.latency
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "trec_eval", "csv", "json"]),
    help="How to print.  [default: table]",
)
@options.verbose
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
    latency: str | None,
    form: str | None,
    verbose: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Metrics for scores from anywhere: scores with labelled data, or TREC runs with qrels.

    Without -m: NDCG, MRR, ERR and MAP at 1, 3, 5 and 10. Every mean is printed with its
    number of queries.
    """
    _refuse_contradictions(form, as_json, short, relevant)
    if latency is not None:
        _refuse_with_latency(form, score_columns)
    source = rankings.RankingSource(**given)
    columns = streams.ScoreColumns.from_options(score_columns, sample, source, baseline)
    if form == "trec_eval":
        _refuse_with_trec_eval(columns, baseline, common_queries)
        from ltr_harness.cli.trec_eval import print_measures

        print_measures(metrics, source, relevant or 1, per_query or short)
        return 0
    if as_json:
        form = "json"
    requested = metric_names.parsed(metrics, relevant)
    if columns is not None:
        result, cautions = _evaluate_columns(columns, requested, per_query)
    else:
        result, cautions = _evaluate_files(
            source, requested, baseline, common_queries, latency, with_audit=form != "csv"
        )
    _print_result(result, form or "table", per_query, cautions, verbose=verbose)
    return 0


def _refuse_contradictions(form: str | None, as_json: bool, short: bool, relevant: float | None) -> None:
    """Raise a UsageError for options of the output that do not go together, and for a grade of 0 or below."""
    if as_json and form not in (None, "json"):
        raise UsageError(f"--json and --format {form}; expected one of them")
    if relevant is not None and not relevant > 0:
        raise UsageError(f"--relevant {relevant:g}; expected a grade above 0")
    if short and form != "trec_eval":
        raise UsageError("-q without --format trec_eval; expected --per-query")


def _refuse_with_latency(form: str | None, score_columns: Sequence[str]) -> None:
    """Raise a UsageError for an output that has no place for latencies, and for scores without rankings in files."""
    if form in ("csv", "trec_eval") or score_columns:
        other = "--score-column" if score_columns else f"--format {form}"
        raise UsageError(f"--latency with {other}; expected files of rankings, and a table or JSON")


def _refuse_with_trec_eval(
    columns: streams.ScoreColumns | None, baseline: str | None, common_queries: bool
) -> None:
    """Raise a UsageError for options that trec_eval has no counterpart of."""
    option = "--format trec_eval"
    if columns is not None:
        raise UsageError(f"{option} with --score-column; expected --qrels and --run, or another format")
    if baseline or common_queries:
        raise UsageError(f"{option} compares nothing; leave out --baseline and --common-queries")


class _RankingMetrics(NamedTuple):
    """The values of one ranking, from files or from a column."""

    name: str
    path: Path
    metrics: Mapping[str, MetricValues]
    query_ids: Sequence[Any]  # (n_queries,), as n_relevant; empty where values are not kept
    n_relevant: Sequence[int]
    n_rows: int
    headroom: "MeanHeadroom | None" = None

    @classmethod
    def of(cls, ranking: rankings.ScoredRanking, evaluation: Evaluation) -> "_RankingMetrics":
        """Return the values of a ranking in memory."""
        judgments = evaluation.judgments
        n_rows = judgments.groups.n_rows
        if ranking.retrieved is not None:  # other rows are judged documents that the run does not list
            n_rows = int(np.count_nonzero(ranking.retrieved))
        return cls(
            ranking.name,
            ranking.path,
            {name: evaluation[name] for name in evaluation.metrics},
            evaluation.query_ids.tolist(),
            judgments.n_relevant.tolist(),
            n_rows,
            evaluation.mean_headroom(),
        )

    @classmethod
    def of_column(cls, stream: "StreamEvaluation", score: str, path: Path) -> "_RankingMetrics":
        """Return the values of a ranking by a column of scores."""
        table = stream.results.get(score)
        if table is None:
            query_ids, n_relevant = [], []
        else:
            query_ids, n_relevant = table["query_id"].to_pylist(), table["n_relevant"].to_pylist()
        metrics = {}
        for number, name in enumerate(stream.metrics):
            values = np.empty(0) if table is None else table[name].to_numpy()
            n_undefined = int(np.isnan(values).sum())
            if stream.moments is not None:
                n_undefined = stream.n_queries - int(stream.moments.n[number])
            mean, judged = stream.means[score][name], stream.judged.get(score, {}).get(name)
            metrics[name] = MetricValues(
                parse_metric(name), values, mean, stream.n_queries, n_undefined, judged
            )
        return cls(score, path, metrics, query_ids, n_relevant, stream.n_rows)


class _EvaluationResult(NamedTuple):
    """The values of all rankings, as each form of output takes them."""

    judgments_file: Path
    rankings: Sequence[_RankingMetrics]
    compared: "ReportData | None"  # where there are several, or a latency
    typed: Mapping[str, str]  # canonical name to the one that was typed
    stream: "StreamEvaluation | None" = None  # where scores are columns of the data
    primary: str = ""  # the metric of its differences


def _evaluate_files(
    source: rankings.RankingSource,
    requested: metric_names.NamedMetrics,
    baseline: str | None,
    common_queries: bool,
    latency: str | None,
    *,
    with_audit: bool,
) -> tuple[_EvaluationResult, list[Caution]]:
    """Evaluate scores or runs in files; the cautions on ties and the like are those of the audit."""
    loaded = rankings.load_rankings(source)
    is_single = len(loaded.all) == 1
    if is_single and (baseline or common_queries):
        raise UsageError("--baseline and --common-queries need a second --run or --scores to compare with")
    scaled, scale_cautions = loaded.with_max_grade(requested.metrics)
    primary = scaled[requested.metrics.index(requested.primary)]
    evaluations = [ranking.evaluate(scaled) for ranking in loaded.all]
    typed = requested.names(scaled)
    cautions = [*loaded.cautions, *scale_cautions]
    compared = None
    if not is_single or latency is not None:
        systems = [loaded.system(*pair) for pair in zip(loaded.all, evaluations, strict=True)]
        comparison = ltr_harness.compare(
            *systems,
            metrics=list(dict.fromkeys([str(primary), *evaluations[0].metrics])),
            baseline=None if baseline is None else loaded.resolve_name(baseline),
            common_queries=common_queries,
        )
        compared, latency_cautions = rankings.with_latencies(
            _report_data(comparison, loaded.judgments_file), latency, loaded
        )
        cautions += latency_cautions
    if not is_single:
        cautions += [other_name(text, name) for name, text in typed.items()]
    if with_audit:
        cautions += _audit(loaded.all, evaluations, scaled, primary)
    values = [_RankingMetrics.of(*pair) for pair in zip(loaded.all, evaluations, strict=True)]
    return _EvaluationResult(loaded.judgments_file, values, compared, typed), cautions


def _report_data(comparison: "Comparison", judgments_file: Path) -> "ReportData":
    from ltr_harness.report.data import ReportData

    return ReportData(comparison, (), (), None, str(judgments_file))


def _audit(
    ranked: Sequence[rankings.ScoredRanking],
    evaluations: Sequence[Evaluation],
    metrics: Sequence[Metric],
    primary: Metric,
) -> list[Caution]:
    """Return the cautions on the metrics, on equal scores, and on the headroom of a single ranking."""
    first, evaluation = ranked[0], evaluations[0]
    found = metric_cautions(list(dict.fromkeys(metrics)), first.judgments, first.retrieved)
    if len(ranked) == 1:
        found += [caution for caution in evaluation.cautions if caution.kind == FEW_JUDGED]
    found += _tie_cautions(ranked, primary)
    if len(ranked) == 1:
        found += _headroom_cautions(evaluation)
    return found


def _headroom_cautions(evaluation: Evaluation) -> list[Caution]:
    """Return the cautions that order decides little of the first metric, and that random order beats the ranking."""
    from ltr_harness.metrics.core.headroom import LITTLE_TO_GAIN, sign_against_random, worse_than_random

    headroom, metric = evaluation.headroom(), evaluation.metrics[0]
    if headroom is None:
        return []
    values = evaluation[metric]
    line = headroom.little_to_gain(metric)
    found = [Caution(LITTLE_TO_GAIN, "warning", line)] if line else []
    if values.metric.higher_is_better and sign_against_random(headroom.random, values.per_query) < 0:
        found.append(worse_than_random(metric, headroom.random, values.per_query))
    return found


def _tie_cautions(ranked: Sequence[rankings.ScoredRanking], metric: Metric) -> list[Caution]:
    """Return a caution for each ranking whose value the order of equal scores could move."""
    found = []
    for ranking in ranked:
        documents = ranking.judgments, ranking.scores, ranking.retrieved
        if not (share_tied(metric, *documents) or metric.uses_whole_order):
            continue  # no order of equal scores to move anything
        try:
            audit = tie_audit(metric, *documents)
        except MetricError:  # a metric without a worst and a best order
            return []
        if audit.share_touched > 0.0:
            found.append(Caution("equal-scores", "warning", str(audit), place=ranking.name))
    return found


def _evaluate_columns(
    columns: streams.ScoreColumns, requested: metric_names.NamedMetrics, per_query: bool
) -> tuple[_EvaluationResult, list[Caution]]:
    """Evaluate scores that are columns of the data."""
    stream, cautions = columns.evaluated(requested.metrics)
    if per_query and stream.moments is not None:
        found = f"--per-query of {count_of(stream.n_queries, 'query')}, whose values are not kept"
        raise UsageError(f"{found}; expected --sample N, or fewer queries")
    compared = None
    primary = stream.metrics[requested.metrics.index(requested.primary)]
    if len(columns.names) > 1 and stream.moments is None:
        names = list(dict.fromkeys([primary, *stream.metrics]))
        comparison = ltr_harness.compare(stream.results, metrics=names, baseline=columns.names[0])
        compared = _report_data(comparison, columns.data)
    values = [_RankingMetrics.of_column(stream, score, columns.data) for score in columns.names]
    typed = requested.names([parse_metric(name) for name in stream.metrics])
    return _EvaluationResult(columns.data, values, compared, typed, stream, primary), cautions


def _print_result(
    result: _EvaluationResult, form: str, per_query: bool, cautions: Sequence[Caution], *, verbose: bool
) -> None:
    """Print the values in their form, with the differences of a stream of scores; then the cautions."""
    if form == "json":
        document = _document(result, per_query, cautions)
        if result.stream is not None:
            document |= streams.as_json(result.stream, result.primary, Method())
        echo_json(document)
        return
    if form == "csv":
        rows = _rows_of_queries(result.rankings) if per_query else _rows_of_means(result.rankings)
        echo(csv_text(rows), nl=False)
    else:
        _print_tables(result, per_query, verbose)
        if result.stream is not None:
            streams.print_sample(result.stream, result.primary, Method())
    echo_cautions(cautions)


def _print_tables(result: _EvaluationResult, per_query: bool, verbose: bool) -> None:
    """Print the values of each query where they are wanted, then the comparison, or the means of one ranking."""
    if per_query:
        for ranking in result.rankings:
            _print_queries(ranking, with_name=len(result.rankings) > 1)
    if result.compared is not None and len(result.rankings) > 1:
        from ltr_harness.report.terminal import show

        show(result.compared, verbose=verbose)
        echo()
        print_means(result.compared.comparison)
        return
    for ranking in result.rankings:
        _print_ranking(ranking, result.typed)
    if result.compared is not None:
        from ltr_harness.report.sections.cost import latency_lines

        for line in latency_lines(result.compared):
            echo(line)


def _print_queries(ranking: _RankingMetrics, *, with_name: bool) -> None:
    """Print a table of the values of each query."""
    if with_name:
        echo(f"{printable(ranking.name)}:")
    columns = [values.per_query.tolist() for values in ranking.metrics.values()]
    lines = zip(ranking.query_ids, *columns, strict=True)
    rows = [[str(query), *map(four_decimals, values)] for query, *values in lines]
    print_table(["query", *ranking.metrics], rows)
    echo()


def _print_ranking(ranking: _RankingMetrics, typed: Mapping[str, str]) -> None:
    """Print the mean of each metric, then how the first one spreads and what is left to gain by it."""
    name, first = next(iter(ranking.metrics.items()))
    echo(f"{printable(ranking.name)}: {counts(query=first.n_queries, row=ranking.n_rows)}\n")
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
        echo()
    for line in lines:
        echo(line)


def _print_means(metrics: Mapping[str, MetricValues], typed: Mapping[str, str]) -> None:
    """Print each mean with the name that was typed and with its queries, which stand below where all have the same."""
    queries = [_queries_in_words(values) for values in metrics.values()]
    are_the_same = len(set(queries)) == 1
    typed_names = {name: with_tool(text) for name, text in typed.items()}
    width, typed_width = max(map(len, metrics)), max(map(len, typed_names.values()), default=0)
    for (name, values), over_queries in zip(metrics.items(), queries, strict=True):
        line = f"{name:<{width}}  {four_decimals(values.mean):>8}"
        if typed:
            line += f"  {printable(typed_names.get(name, '')):<{typed_width}}"
        if not are_the_same:
            line += f"  {over_queries}"
        echo(line.rstrip())
    if are_the_same:
        echo(f"\n{queries[0]}")


def _queries_in_words(values: MetricValues) -> str:
    """Return the number of queries of a mean, and of those that are not in it."""
    defined = values.n_queries - values.n_undefined
    text = f"over {defined:,} of {count_of(values.n_queries, 'query')}"
    if values.judged is not None and values.judged < 1:
        text = f"{text}; {judged_in_words(values.metric.k, {'': values.judged})}"
    n = values.n_undefined
    if not n:
        return text
    if values.metric.diagnostic or values.metric.uses_whole_order:
        return f"{text}; {n:,} {plural('is', n)} undefined"
    return f"{text}; {n:,} {plural('has', n)} no relevant document"


def _rows_of_means(rankings: Sequence[_RankingMetrics]) -> list[list[Any]]:
    rows: list[list[Any]] = [["ranking", "metric", "mean", "n_queries", "n_undefined"]]
    for ranking in rankings:
        for name, values in ranking.metrics.items():
            rows.append([ranking.name, name, values.mean, values.n_queries, values.n_undefined])
    return rows


def _rows_of_queries(rankings: Sequence[_RankingMetrics]) -> list[list[Any]]:
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


def _document(result: _EvaluationResult, per_query: bool, cautions: Sequence[Caution]) -> dict[str, Any]:
    """Return the values as JSON."""
    document: dict[str, Any] = {
        "judgments": str(result.judgments_file),
        "rankings": [_ranking_values(ranking, result.typed, per_query) for ranking in result.rankings],
        "cautions": cautions,
    }
    if len(result.rankings) == 1:
        ranking = result.rankings[0]
        metric, headroom = next(iter(ranking.metrics)), ranking.headroom
        document["headroom"] = None if headroom is None else {"metric": metric, **vars(headroom)}
        if result.compared is not None:
            document["latencies"] = [asdict(model_latency) for model_latency in result.compared.latencies]
    elif result.compared is not None:
        from ltr_harness.report.json_document import document as comparison_document

        document["comparison"] = comparison_document(result.compared)
    return document


def _ranking_values(ranking: _RankingMetrics, typed: Mapping[str, str], per_query: bool) -> dict[str, Any]:
    values: dict[str, Any] = {"name": ranking.name, "file": str(ranking.path), "metrics": {}}
    for name, metric_values in ranking.metrics.items():
        values["metrics"][name] = _mean_values(metric_values)
        if name in typed:
            values["metrics"][name]["asked"] = typed[name]
    if per_query:
        queries = [str(query) for query in ranking.query_ids]
        values["per_query"] = {
            name: dict(zip(queries, metric_values.per_query.tolist(), strict=True))
            for name, metric_values in ranking.metrics.items()
        }
    return values


def _mean_values(values: MetricValues) -> dict[str, Any]:
    numbers = {key: getattr(values, key) for key in ("mean", "n_queries", "n_undefined")}
    if values.judged is not None:
        numbers["judged"] = values.judged
    return {**numbers, "higher_is_better": values.metric.higher_is_better}
