"""Evaluation of tables larger than the memory: batch by batch, of all queries or of a sample by hash."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import islice
from operator import add
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ltr_harness._util.cores import available_cores
from ltr_harness._util.display import Displayed
from ltr_harness._util.text import count_of
from ltr_harness.data.arrays import WORDS_AS_LABELS, Bools, Floats, KeepsArrays
from ltr_harness.data.columns import hashes_of, numbers_of, values_shown
from ltr_harness.data.logs.log import Log, open_log
from ltr_harness.data.readers.column_names import orders_by_rank
from ltr_harness.errors import DataError, Problem, UsageError
from ltr_harness.metrics import Metric, arrow
from ltr_harness.metrics.core import judged_share

if TYPE_CHECKING:
    from ltr_harness.comparison.paired_moments import PairedMoments

T = TypeVar("T")
KEPT_VALUES, KEPT_QUERIES = 1 << 24, 500_000
"""Values of one ranking, or queries of several, up to which they are kept; of more, moments."""
_ROWS = 250_000


@dataclass(frozen=True, eq=False)
class Drawn(KeepsArrays):
    """A sample of queries: those with the lowest hashes of their ids, so that a larger one contains the smaller."""

    hashes: NDArray[np.uint64]  # (n_drawn,), ascending
    n_all: int  # the queries that it was drawn from

    def includes(self, hashes: NDArray[np.uint64]) -> Bools:
        """Return whether queries, (n,) by the hashes of their ids, are in the sample."""
        place = np.searchsorted(self.hashes[:-1], hashes)
        return np.asarray(self.hashes[place] == hashes)

    def estimate(
        self,
        values: Floats,
        confidence: float = 0.95,
        counts: Floats | None = None,
        bounds: tuple[float, float] = (-np.inf, np.inf),
    ) -> tuple[float, float, float]:
        """The mean over all queries where a metric is defined, and its interval: 0 wide where all were drawn.

        The interval is that of a comparison's means, narrower by the root of 1 - n / N where n of N queries were drawn,
        and ends at the bounds. A single query with a value has none.
        `values` and `counts` are in the order of `hashes`.
        """
        # SciPy takes as long to load as five million rows, and only inference needs it
        from ltr_harness.comparison.stats.cluster_sums import ClusterSums
        from ltr_harness.comparison.stats.families import mean_intervals
        from ltr_harness.comparison.stats.method import Method

        column = values[:, np.newaxis]
        if counts is None:
            sample = ClusterSums.of(column)
        else:
            sample = ClusterSums.of_ratios(column * counts[:, np.newaxis], counts[:, np.newaxis])
        mean = float(sample.mean[0])
        equal_bounds = [bounds] if sample.error[0] == 0 else []  # other ends are narrowed first, and cut then
        ends = np.array(mean_intervals(sample, Method("skew-adjusted", confidence), equal_bounds))[:, 0]
        left = 1 - values.size / self.n_all
        if left == 0:
            return mean, mean, mean
        low, high = np.clip(mean + (ends - mean) * np.sqrt(left), *bounds).tolist()
        return mean, low, high


@dataclass(frozen=True, eq=False)
class StreamEvaluation(Displayed):
    """The results of `evaluate_stream`.

    Attributes:
        metrics: canonical names.
        n_queries: queries evaluated: all, or those of the sample.
        n_rows: their rows.
        results: column of scores to a table with a row for each query, as `ltr_harness.arrow.per_query` has them and
            `compare` takes them; empty where only moments are kept.
        moments: of the queries where all rankings have a value; None where `results` has the values.
        sample: the queries drawn; None where all were evaluated.
        judged: column of scores to metric to the mean share of judged documents among the first K of these queries;
            empty where no column says which documents are judged.
    """

    metrics: tuple[str, ...]
    n_queries: int
    n_rows: int
    results: Mapping[str, pa.Table]
    moments: PairedMoments | None = None
    sample: Drawn | None = None
    judged: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def __repr__(self) -> str:
        lines = [f"{count_of(self.n_queries, 'query')}, {count_of(self.n_rows, 'row')}"]
        for score, means in self.means.items():
            lines.append(f"{score}: {', '.join(f'{metric} {mean:.4f}' for metric, mean in means.items())}")
        return "\n".join(lines)

    @property
    def means(self) -> dict[str, dict[str, float]]:
        """Column of scores to metric to mean; to the bit that of `evaluate` where values are kept."""
        if self.moments is None:
            return {score: arrow.means(table) for score, table in self.results.items()}
        each = self.moments.mean.copy()
        each[:, 1:] += each[:, :1]
        return {
            score: dict(zip(self.metrics, model_means.tolist(), strict=True))
            for score, model_means in zip(self.moments.models, each.T, strict=True)
        }

    def estimate(
        self, metric: str, score: str, other: str | None = None, confidence: float = 0.95
    ) -> tuple[float, float, float]:
        """From the sample: the mean over all queries of the table, or of its difference to `other`; low and high end.

        Args:
            metric: one of `metrics`.
            score: the column of scores.
            other: the column that it is compared with; None for the mean itself.
            confidence: of the interval.
        """
        from ltr_harness.comparison.contrasts import bounds_of
        from ltr_harness.comparison.stats.cluster_sums import paired_differences

        if self.sample is None:
            raise UsageError("all queries were evaluated; expected a sample, with sample=N")
        table = self.results[score]
        order = np.argsort(hashes_of(table[arrow.QUERY].combine_chunks()))
        values = numbers_of(table[metric])
        low, high = bounds_of(metric)
        if other is not None:
            values = paired_differences(values, numbers_of(self.results[other][metric]))
            low, high = low - high, high - low
        counts = numbers_of(table[arrow.WEIGHT])[order] if arrow.WEIGHT in table.schema.names else None
        return self.sample.estimate(values[order], confidence, counts, (low, high))


def evaluate_stream(
    source: Any,
    metrics: Sequence[str | Metric] | str | Metric,
    scores: Sequence[str] | str = "score",
    columns: Mapping[str, str] | None = None,
    *,
    max_grade: float | None = None,
    sample: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> StreamEvaluation:
    """Metrics of a table of any size by columns of scores in it, in bounded memory.

    Each query's values equal those of `evaluate`, to the bit. Up to five million rows may have any order; a larger
    table must have each query's rows together. That is checked over the whole table.

    Args:
        source: a file or a folder of them (Parquet, CSV, Arrow, JSON lines), or a table in memory.
        metrics: as for `evaluate`.
        scores: the columns of scores, the baseline first; one that is called as ranks, such as ``rank``, has 1 for
            the best.
        columns: role to column: as for `ltr_harness.arrow.per_query`, without ``score``.
        max_grade: the scale's highest grade. None: the largest label, read first where a metric needs it.
        sample: how many queries to evaluate, drawn by a hash of their ids: the same whatever the order of the rows.
            A larger sample contains the smaller. All where there are no more.
        progress: called with the rows that were read, batch by batch.

    Raises:
        DataError: a column is not there or holds what it cannot; a query's rows stand apart; the table has no rows.
        MetricError: a metric is unknown.
        UsageError: no column of scores, or a sample of fewer than two queries.

    Example:
        >>> import pyarrow as pa
        >>> rows = {"query_id": [7, 7, 8, 9], "label": [0, 1, 1, 0], "live": [2.0, 1.0, 3.0, 1.0]}
        >>> evaluate_stream(pa.table(rows), "mrr@10", "live").means
        {'live': {'mrr@10': 0.75}}
    """
    column_of = dict(columns or {})
    score_columns = list(dict.fromkeys([scores] if isinstance(scores, str) else scores))
    if not score_columns:
        raise UsageError("no column of scores; expected at least one")
    text_columns = [column_of.get("query", arrow.QUERY)]
    if "document_id" in column_of:
        text_columns.append(column_of["document_id"])
    log = open_log(source, text_columns=text_columns)
    column_of = arrow.columns_of(log.columns, {**column_of, "score": score_columns[0]}, log.name)
    log.refuse_missing(score_columns)
    if sample is not None and sample < 2:
        raise UsageError(f"a sample of {sample}; expected 2 queries or more, because one has no interval")
    del column_of["score"]
    stream = _Stream(log, column_of.pop("query"), progress)
    try:
        parsed = arrow.parsed_metrics(metrics, max_grade)
        if any(metric.with_max_grade(1.0) != metric for metric in parsed):
            parsed = arrow.parsed_metrics(parsed, stream.largest(column_of["label"]))
        drawn = None if sample is None else stream.drawn(sample)
        return stream.evaluated(parsed, column_of, score_columns, drawn)
    except DataError as error:
        raise DataError(_placed_in(log.name, problem) for problem in error.problems) from None


def _placed_in(file: str, problem: Problem) -> Problem:
    """Return the problem with a place that begins with the file."""
    if problem.place.startswith(file):
        return problem
    return replace(problem, place=f"{file}: {problem.place}" if problem.place else file)


class _Stream:
    """A log that is read batch by batch, and evaluated on all cores."""

    def __init__(self, log: Log, query: str, progress: Callable[[int], None] | None) -> None:
        self._log, self._query, self._progress = log, query, progress

    def largest(self, label: str) -> float:
        """The largest label, at least 1."""
        numbers = (
            numbers_of(table[label], label, WORDS_AS_LABELS) for table in self._log.batches([label], None)
        )
        return max(float(np.fmax.reduce(labels, initial=1.0)) for labels in numbers)

    def drawn(self, n: int) -> Drawn:
        """The sample of `n` queries."""

        def read(part: pa.Table, in_order: bool) -> NDArray[np.uint64]:
            return hashes_of(self._grouped(part, in_order)[1])

        seen = _SeenQueries(self._log, self._query)
        for hashes in self._each(read, []):
            seen.add(hashes)
        seen.check()
        return Drawn(seen.hashes[:n].copy(), seen.hashes.size)

    def evaluated(
        self, metrics: Sequence[Metric], named: Mapping[str, str], scores: Sequence[str], drawn: Drawn | None
    ) -> StreamEvaluation:
        """Evaluate all queries, or those drawn."""

        def evaluate(part: pa.Table, in_order: bool) -> Any:
            table, ids, sizes = self._grouped(part, in_order)
            hashes = hashes_of(ids)
            if drawn is not None:
                is_drawn = drawn.includes(hashes)
                table = table.filter(pa.array(np.repeat(is_drawn, sizes)))
                ids, sizes = ids.filter(pa.array(is_drawn)), sizes[is_drawn]
            return hashes, int(sizes.sum()), arrow.of_scores(table, ids, sizes, metrics, named, scores, ranks)

        ranks = [score for score in scores if orders_by_rank(score)]
        names = tuple(map(str, metrics))
        results = _Results(scores, KEPT_VALUES // len(names) if len(scores) == 1 else KEPT_QUERIES)
        seen = _SeenQueries(self._log, self._query)
        for hashes, n_rows, tables in self._each(evaluate, [*named.values(), *scores]):
            results.add(tables, n_rows)
            if drawn is not None:
                continue
            seen.add(hashes)
            if results.are_too_many():
                if "weight" in named:
                    raise UsageError(
                        f"weights of more than {count_of(results.most, 'query')}; expected a sample, with sample=N"
                    )
                results.summarise()
        seen.check()
        if drawn is not None and results.n_queries != drawn.hashes.size:
            raise DataError.at(self._log.name, "changed while it was read", "a file that stays as it is")
        return results.evaluation(names, drawn)

    def _grouped(self, table: pa.Table, in_order: bool) -> tuple[pa.Table, pa.Array, NDArray[np.int64]]:
        """The rows query by query, with ids and sizes; in order, `_Seen` notices queries that come again."""
        if in_order:
            return table, *arrow.runs_of(table[self._query], self._query)
        return arrow.by_query(table, self._query, in_order=False)

    def _each(self, function: Callable[[pa.Table, bool], T], columns: Sequence[str]) -> Iterator[T]:
        """The function of tables of whole queries, in order, on all cores; a few tables are in memory at a time.

        It is also given whether rows of a query have to stand together: not where one table has all rows.
        """
        tables = self._log.batches(list(dict.fromkeys([self._query, *columns])), self._query, rows=_ROWS)
        ahead = deque(islice(tables, 2))
        n_rows, in_order, cores = 0, len(ahead) > 1, available_cores()
        with ThreadPoolExecutor(cores) as pool:
            waiting: deque[Future[T]] = deque()
            while ahead:
                n_rows += len(ahead[0])
                if self._progress is not None:
                    self._progress(n_rows)
                waiting.append(pool.submit(function, ahead.popleft(), in_order))
                if len(waiting) > cores:
                    yield waiting.popleft().result()
                ahead.extend(islice(tables, 1))
            while waiting:
                yield waiting.popleft().result()


class _Results:
    """Results of queries, each kept up to `most` queries, and summarised as moments and means beyond."""

    def __init__(self, scores: Sequence[str], most: int) -> None:
        self._scores = scores
        self.most = most
        self.n_queries, self._n_rows = 0, 0
        self._parts: list[dict[str, pa.RecordBatch]] = []  # column of scores to results
        self._moments: PairedMoments | None = None
        self._judged = _JudgedShares()

    def add(self, tables: Sequence[pa.RecordBatch], n_rows: int) -> None:
        """Add some queries: the results by each column of scores."""
        self.n_queries += len(tables[0])
        self._n_rows += n_rows
        self._parts.append(dict(zip(self._scores, tables, strict=True)))

    def are_too_many(self) -> bool:
        """Return whether there are more queries than are kept."""
        return self.n_queries > self.most

    def summarise(self) -> None:
        """Replace the results that are kept by their moments and means."""
        from ltr_harness.comparison.paired_moments import PairedMoments

        moments = [] if self._moments is None else [self._moments]
        self._moments = reduce(add, [*moments, *map(PairedMoments.of, self._parts)])
        self._judged.add(self._parts)
        self._parts = []

    def evaluation(self, names: tuple[str, ...], drawn: Drawn | None) -> StreamEvaluation:
        """Return the evaluation of all queries that were added."""
        tables = {}
        if self._parts:
            tables = {
                score: pa.Table.from_batches([part[score] for part in self._parts]) for score in self._scores
            }
        if self._moments is None:
            shares = {score: arrow.judged(table) for score, table in tables.items()}
        else:
            shares = self._judged.means()
        known_shares = {score: by_metric for score, by_metric in shares.items() if by_metric}
        return StreamEvaluation(
            names, self.n_queries, self._n_rows, tables, self._moments, drawn, known_shares
        )


class _JudgedShares:
    """The shares of judged documents of queries whose values are not kept, by their sums; no query has a weight."""

    def __init__(self) -> None:
        self._sums: dict[str, dict[str, tuple[float, int]]] = {}

    def add(self, parts: Sequence[Mapping[str, pa.RecordBatch]]) -> None:
        """Add the queries of some parts, each from a column of scores to its results."""
        for part in parts:
            for score, results in part.items():
                sums = self._sums.setdefault(score, {})
                for column in filter(judged_share.is_column, results.schema.names):
                    shares, metric = numbers_of(results[column], column), judged_share.metric_of(column)
                    total, n = sums.get(metric, (0.0, 0))
                    sums[metric] = total + float(np.nansum(shares)), n + int((~np.isnan(shares)).sum())

    def means(self) -> dict[str, dict[str, float]]:
        """Return the mean share by column of scores and metric."""
        return {
            score: {metric: total / n if n else np.nan for metric, (total, n) in sums.items()}
            for score, sums in self._sums.items()
        }


class _SeenQueries:
    """Queries so far by the hashes of their ids; ids with one hash are told apart by a second reading."""

    def __init__(self, log: Log, query: str) -> None:
        self._log, self._query = log, query
        self.hashes = np.empty(0, np.uint64)  # ascending; of all queries after `check`
        self._new: list[NDArray[np.uint64]] = []

    def add(self, hashes: NDArray[np.uint64]) -> None:
        """Raises DataError: rows of a query stand apart, as far as it is known."""
        self._new.append(hashes)
        if sum(map(len, self._new)) >= self.hashes.size:
            self.check()

    def check(self) -> None:
        """Raises DataError: rows of a query stand apart."""
        self.hashes = np.concatenate([self.hashes, *self._new])
        self.hashes.sort()
        self._new = []
        again = self.hashes[1:][self.hashes[1:] == self.hashes[:-1]]
        if not again.size:
            return
        ends: dict[Any, int] = {}
        n_rows, name, file = 0, self._query, self._log.name
        for table in self._log.batches([name], None):
            ids, sizes = arrow.runs_of(table[name], name)
            starts = n_rows + np.cumsum(sizes) - sizes
            for run in np.flatnonzero(np.isin(hashes_of(ids), again)).tolist():
                query, start = values_shown(ids.slice(run, 1))[0], int(starts[run])
                if ends.get(query, start) != start:
                    found = (
                        f"the rows of query {query!r} stand apart, such as {ends[query] - 1:,} and {start:,}"
                    )
                    sort = f"COPY (FROM '{file}' ORDER BY \"{name}\") TO 'sorted.parquet'"
                    cure = f"sort the rows by {name}, such as by DuckDB: {sort}"
                    raise DataError.at(file, found, "each query's rows together", cure)
                ends[query] = start + int(sizes[run])
            n_rows += len(table)
