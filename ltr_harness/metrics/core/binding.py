"""Metrics bound to judgments, so that every evaluation is one pass over the scores, and how much ties decide."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ltr_harness._util.compiled import compiled
from ltr_harness._util.display import Displayed
from ltr_harness._util.text import shortened
from ltr_harness.data.alignment import refuse_unaligned
from ltr_harness.data.arrays import Floats, KeepsArrays, all_numbers, as_column, read_only
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import (
    QueryGroups,
    as_row_flags,
    as_scores,
    check_scores,
    place_of,
    refuse_score_count,
    scores_not_numbers,
)
from ltr_harness.errors import DataError, MetricError
from ltr_harness.metrics.core.grammar import as_list, parse_metric
from ltr_harness.metrics.core.metric import Metric
from ltr_harness.metrics.core.ranking import BestRows, Ranking, RowRanker, Ties

# Below this, starting a thread costs more than it saves, and the booster wants the processor.
_ROWS_PER_THREAD = 1_000_000
_Order = tuple[Ties, str, bool]
_ROWS_AT_ONCE = 250_000
"""Of queries that are bound for one evaluation alone: what is computed of so many stays small."""


class Binding:
    """Several metrics at several cutoffs over one set of judgments, sharing one pass over the scores.

    Args:
        metrics: what to compute.
        judgments: the queries and what their documents are worth.
        threads: on how many threads an evaluation may run. More than one is used from two million rows on, a
            million each at least, by splitting the queries; the values are the same, bit for bit. The default
            leaves the cores to the booster that calls.

    Attributes:
        metrics: the metrics in the given order, with everything they take from data fixed.
        names: their canonical names.
        judgments: what they are bound to.
    """

    def __init__(self, metrics: Sequence[Metric], judgments: Judgments, threads: int = 1) -> None:
        if not metrics:
            raise MetricError("no metrics given; expected at least one, such as ndcg@10")
        self.judgments, self._threads = judgments, threads
        refuse_values(metrics, judgments)
        self.metrics = tuple(metric.resolved(judgments.pool) for metric in metrics)
        self.names = tuple(str(metric) for metric in self.metrics)
        self._bind(threads)

    def _row_rankers(self) -> dict[_Order, RowRanker]:
        """Return one ranking per tie rule and precision, as deep as the deepest of its metrics looks."""
        judgments = self.judgments
        depths: dict[_Order, int] = {}
        for metric in self.metrics:
            # missed documents are in the ranking only where a metric compares whole orders
            with_missed = metric.uses_whole_order and judgments.missed is not None
            order = (metric.ties, metric.score_precision, with_missed)
            depths[order] = max(depths.get(order, 0), metric.depth)
        return {
            order: RowRanker(judgments.pool if order[2] else judgments, order[0], depth)
            for order, depth in depths.items()
        }

    def _bind(self, threads: int) -> None:
        judgments = self.judgments
        self._parts = _parts(self.metrics, judgments, threads)
        if self._parts:
            return
        # one kernel call per definition, whatever the cutoffs
        families: dict[Hashable, list[int]] = {}
        for i, metric in enumerate(self.metrics):
            families.setdefault(metric.definition, []).append(i)
        self._rankers = self._row_rankers()
        self._families = []
        for members in families.values():
            family = self.metrics[members[0]]
            cutoffs = [self.metrics[i].cutoff for i in members]
            distinct = sorted(set(cutoffs))
            # where its values go and which go there: slices where cutoffs ascend side by side, as mostly
            places: tuple[Any, Any] = members, [distinct.index(cutoff) for cutoff in cutoffs]
            neighbours = range(members[0], members[0] + len(members))
            if members == list(neighbours) and cutoffs == distinct:
                places = slice(neighbours.start, neighbours.stop), slice(None)
            order = (family.ties, family.score_precision, family.uses_whole_order)
            self._families.append((order, family.prepare(judgments.pool, np.array(distinct)), *places))

    def per_query(self, scores: ArrayLike, retrieved: ArrayLike | None = None) -> NDArray[np.float64]:
        """float64 (n_metrics, n_queries), NaN where a metric is undefined for a query.

        Args:
            scores: (n_rows,) in the judgments' row order, any real number type.
            retrieved: bool (n_rows,), rows that are in the list at all; the others have no rank and still count
                among the relevant documents. None: every document is listed.

        Raises:
            DataError: a wrong length or NaN; the message names the query.
        """
        if retrieved is None and not self._parts:  # the ranking finds NaN
            return self._per_query(as_scores(scores, self.judgments.groups), all_listed=True)
        checked = checked_scores(scores, self.judgments.groups, retrieved)
        return self._per_query(checked, all_listed=retrieved is None)

    def _per_query(self, checked: NDArray[np.float64], all_listed: bool) -> NDArray[np.float64]:
        out = np.empty((len(self.metrics), self.judgments.groups.n_queries))
        if self._parts:

            def fill(part: tuple[slice, slice, Binding]) -> None:
                queries, rows, binding = part
                out[:, queries] = binding._per_query(checked[rows], all_listed)

            with ThreadPoolExecutor(len(self._parts)) as pool:
                list(pool.map(fill, self._parts))
            return out
        rankings = self._rankings(checked, all_listed)
        for order, values_of, members, position in self._families:
            out[members] = values_of(rankings[order])[position]
        return out

    def _rankings(self, checked: NDArray[np.float64], all_listed: bool) -> dict[_Order, Ranking]:
        """By tie rule, precision, and whether documents that are not listed are in them."""
        rankings = {}
        judgments = self.judgments
        best: dict[tuple[str, bool, int], BestRows] = {}  # of rules that differ in ties alone
        for (ties, precision, with_missed), ranker in self._rankers.items():
            rule = precision, with_missed, ranker.depth
            if rule not in best:
                seen = as_seen(checked, precision)
                best[rule] = ranker.find_best(pool_rows(seen, judgments) if with_missed else seen)
            full_ranking = ranker.rank_best(best[rule])
            if with_missed:
                rankings[ties, precision, True] = full_ranking
                continue
            listed = full_ranking if all_listed else without_unlisted(full_ranking)
            if judgments.missed is None:
                rankings[ties, precision, True] = full_ranking
            rankings[ties, precision, False] = (
                listed if judgments.missed is None else listed.pool_rows(judgments)
            )
        return rankings

    def refused_metrics(self, scores: ArrayLike) -> list[Metric]:
        """The metrics of every definition that these scores cannot be evaluated by, on one thread.

        Args:
            scores: (n_rows,), as `per_query` has them.
        """
        rankings = self._rankings(checked_scores(scores, self.judgments.groups, None), all_listed=True)
        places: list[int] = []
        for order, values_of, members, _ in self._families:
            try:
                values_of(rankings[order])
            except MetricError:
                places += np.arange(len(self.metrics))[members].tolist()
        return [self.metrics[place] for place in places]

    def with_more(self, metrics: Sequence[Metric]) -> Self:
        """These and further metrics over the same judgments, sharing one pass over the scores; itself without any.

        Args:
            metrics: the further ones.
        """
        return type(self)([*self.metrics, *metrics], self.judgments, self._threads) if metrics else self

    def means(self, scores: ArrayLike) -> NDArray[np.float64]:
        """float64 (n_metrics,), the mean over defined queries, weighted where the queries have weights.

        Args:
            scores: (n_rows,), higher ranks first.
        """
        if self._parts:
            return self.means_of(self.per_query(scores))
        rankings = self._rankings(as_scores(scores, self.judgments.groups), all_listed=True)
        means = np.empty(len(self.metrics))
        # of each definition while its values are in the nearest cache
        for order, values_of, members, position in self._families:
            values = np.array(values_of(rankings[order]), dtype=np.float64, copy=None, ndmin=2)
            means[members] = self.means_of(values)[position]
        return means

    def means_of(self, per_query: NDArray[np.float64]) -> NDArray[np.float64]:
        """The means of values that `per_query` returned.

        Args:
            per_query: float64 (n_metrics, n_queries), NaN where undefined.
        """
        return means_of(per_query, self.judgments.query_weights)


class BoundOnce(Binding):
    """Metrics for one evaluation: of very many rows, some queries are bound at a time and let go of again."""

    def _bind(self, threads: int) -> None:
        if self.judgments.groups.n_rows <= 2 * _ROWS_AT_ONCE:
            super()._bind(threads)

    def per_query(self, scores: ArrayLike, retrieved: ArrayLike | None = None) -> NDArray[np.float64]:
        """See `Binding`.

        Args:
            scores: (n_rows,), as there.
            retrieved: bool (n_rows,), as there.
        """
        groups = self.judgments.groups
        if groups.n_rows <= 2 * _ROWS_AT_ONCE:
            return super().per_query(scores, retrieved)
        out = np.empty((len(self.metrics), groups.n_queries))
        for queries, part, part_scores, part_retrieved in slices_of(self.judgments, scores, retrieved):
            try:
                binding = Binding(self.metrics, part)
            except MetricError:  # of all rows it says how many
                return Binding(self.metrics, self.judgments).per_query(scores, retrieved)
            out[:, queries] = binding.per_query(part_scores, part_retrieved)
        return out

    def means(self, scores: ArrayLike) -> NDArray[np.float64]:
        """See `Binding`.

        Args:
            scores: (n_rows,), as there.
        """
        return self.means_of(self.per_query(scores))


def slices_of(
    judgments: Judgments, scores: ArrayLike, retrieved: ArrayLike | None
) -> Iterator[tuple[slice, Judgments, NDArray[Any], NDArray[np.bool_] | None]]:
    """Neighbouring queries with judgments, scores and flags (n_rows,) of their own, some 100,000 rows at a time."""
    groups = judgments.groups
    refuse_unaligned({"scores": scores, "retrieved": retrieved})
    column = as_column(scores, "scores")
    refuse_score_count(column, groups)
    listed = None if retrieved is None else as_row_flags(retrieved, "retrieved", groups)
    if groups.n_rows <= 2 * _ROWS_AT_ONCE:
        yield slice(0, groups.n_queries), judgments, column, listed
        return
    first = 0
    while first < groups.n_queries:
        start = int(groups.boundaries[first])
        last = int(np.searchsorted(groups.boundaries, start + _ROWS_AT_ONCE, side="right")) - 1
        last = min(max(last, first + 1), groups.n_queries)
        rows = slice(start, int(groups.boundaries[last]))
        part = judgments.take(np.arange(first, last))
        part_listed = None if listed is None else listed[rows]
        yield slice(first, last), part, column[rows], part_listed
        first = last


def _parts(
    metrics: Sequence[Metric], judgments: Judgments, threads: int
) -> list[tuple[slice, slice, Binding]]:
    """Parts of the queries, of about equally many rows, each with its rows; empty where one thread is as good."""
    boundaries = judgments.groups.boundaries
    n_parts = min(threads, judgments.groups.n_rows // _ROWS_PER_THREAD)
    if n_parts < 2:
        return []
    ends = np.searchsorted(boundaries, np.arange(1, n_parts + 1) * boundaries[-1] // n_parts)
    ends[-1] = judgments.groups.n_queries  # the last queries may have no rows
    cuts = np.unique(np.concatenate(([0], ends))).tolist()
    if len(cuts) < 3:
        return []
    try:
        return [
            (
                slice(first, last),
                slice(int(boundaries[first]), int(boundaries[last])),
                Binding(metrics, judgments.take(np.arange(first, last))),
            )
            for first, last in itertools.pairwise(cuts)
        ]
    except MetricError:
        return []  # bound as a whole, a refusal counts the rows of all queries


MAKE_GRADES = "`relevance: {mode: quantiles, column: ret, bins: 5, within: query}`"
"""What makes grades of a column of returns, in an experiment."""


def refuse_values(metrics: Sequence[Metric], judgments: Judgments) -> None:
    """Raise a MetricError where labels are below 0, for all metrics that need grades."""
    need = [str(metric) for metric in metrics if not metric.takes_any_label]
    if not need or judgments.lowest >= 0:
        return
    pool = judgments.pool
    rows = np.flatnonzero(pool.labels < 0)
    found = f"label {pool.labels[rows[0]]:g} is not a grade, {place_of(rows, pool.groups)}"
    raise MetricError(
        f"{shortened(need, 4)}: {found}; expected labels >= 0; in Python `np.clip(labels, 0, None)` makes losses 0, in "
        f"an experiment {MAKE_GRADES} makes grades of returns, and `unjudged: -1` marks documents as not judged; "
        "spearman, kendall_tau_distance, tau_ap, gauc and mean_label take any label"
    )


def bind(
    metrics: Sequence[Metric | str | Mapping[str, object]] | Metric | str,
    judgments: Judgments,
    threads: int = 1,
) -> Binding:
    """Bind metrics, by value or by name, to judgments; `threads` as in `Binding`.

    Args:
        metrics: one or several, each by value, by name, or as a mapping with its parameters.
        judgments: labels in query groups.
        threads: as in `Binding`.

    Example:
        >>> from ltr_harness import Judgments, QueryGroups
        >>> judgments = Judgments.checked([1, 0, 0, 1], QueryGroups.from_sizes([2, 2]))
        >>> bind(["mrr", "map@1"], judgments).means([2.0, 1.0, 2.0, 1.0]).tolist()
        [0.75, 0.5]
    """
    return Binding([parse_metric(metric) for metric in as_list(metrics)], judgments, threads)


def checked_scores(
    scores: ArrayLike, groups: QueryGroups, retrieved: ArrayLike | None
) -> NDArray[np.float64]:
    """Scores (n_rows,) as `check_scores` has them, -inf for documents that were not retrieved, bool (n_rows,)."""
    if retrieved is None:
        return check_scores(scores, groups)
    refuse_unaligned({"scores": scores, "retrieved": retrieved})
    listed = as_row_flags(retrieved, "retrieved", groups)
    column = as_column(scores, "scores")
    refuse_score_count(column, groups)
    if not all_numbers(column):
        raise scores_not_numbers(column)
    marked = check_scores(np.where(listed, column, -np.inf), groups)
    if np.count_nonzero(marked == -np.inf) > listed.size - np.count_nonzero(listed):
        raise DataError(
            "a retrieved document is scored -inf; expected a finite score for every document that is listed"
        )
    return marked


def pool_rows(scores: NDArray[np.float64], judgments: Judgments) -> NDArray[np.float64]:
    """Scores (n_rows,) of the candidates as scores of the pool's rows, -inf for missed documents."""
    if judgments.missed is None:
        return scores
    everywhere = np.full(judgments.pool.groups.n_rows, -np.inf)
    everywhere[judgments.pool_rows] = scores
    return everywhere


def as_seen(scores: NDArray[np.float64], precision: str) -> NDArray[np.float64]:
    """Scores as a tool of this precision tells them apart; `scores` (n_rows,)."""
    return scores.astype(np.float32).astype(np.float64) if precision == "float32" else scores


def without_unlisted(ranking: Ranking) -> Ranking:
    """The ranking without the rows scored -inf: they are each query's last, and no other row ties with them."""
    listed = ranking.scores[ranking.rows] > -np.inf
    n_listed = np.concatenate(([0], np.cumsum(listed)))
    return replace(
        ranking, offsets=n_listed[ranking.offsets], rows=ranking.rows[listed], tie_end=ranking.tie_end[listed]
    )


def means_of(values: Floats, weights: Floats | None) -> Floats:
    """Return means that do not depend on the order of the queries: sums carry their rounding errors along.

    Args:
        values: (n_metrics, n_queries), NaN where undefined.
        weights: (n_queries,); None where all queries count once.

    Returns:
        (n_metrics,), NaN where no query is defined, or none that counts.
    """
    means = np.empty(len(values))
    _write_means(
        read_only(values), read_only(np.ones(values.shape[1]) if weights is None else weights), means
    )
    return means


_LANES = 16
"""Sums that are taken side by side, and then added up: each alone would wait for its last term."""


@compiled
def _write_means(values: Floats, weights: Floats, means: Floats) -> None:
    lanes = np.empty((4, _LANES))
    totals, rounding_errors, weight_totals, weight_rounding_errors = lanes
    for metric in range(means.size):
        lanes[:] = 0.0
        row = values[metric]  # or the loop below would not become vector instructions
        for first in range(0, row.size, _LANES):
            lane_values = row[first : first + _LANES]
            lane_weights = weights[first : first + _LANES]
            for lane in range(lane_values.size):
                value = lane_values[lane]
                is_defined = value == value
                weight = lane_weights[lane] if is_defined else 0.0
                term = weight * value if is_defined else 0.0
                totals[lane], rounding_errors[lane] = _add_compensated(
                    totals[lane], rounding_errors[lane], term
                )
                weight_totals[lane], weight_rounding_errors[lane] = _add_compensated(
                    weight_totals[lane], weight_rounding_errors[lane], weight
                )
        total, weight = _add_up(totals, rounding_errors), _add_up(weight_totals, weight_rounding_errors)
        means[metric] = total / weight if weight > 0.0 else np.nan


@compiled
def _add_up(totals: Floats, rounding_errors: Floats) -> float:
    """Return the sum of all lanes, (lanes,) each."""
    total = rounding_error = 0.0
    for lane in range(totals.size):
        total, rounding_error = _add_compensated(total, rounding_error + rounding_errors[lane], totals[lane])
    return total + rounding_error


@compiled
def _add_compensated(total: float, rounding_error: float, term: float) -> tuple[float, float]:
    """Add a term to a sum by Knuth's two-sum; return the sum and the rounding error of all terms so far."""
    new_total = total + term
    rounded_term = new_total - total
    return new_total, rounding_error + ((total - (new_total - rounded_term)) + (term - rounded_term))


@dataclass(frozen=True, eq=False, repr=False)
class TieAudit(Displayed, KeepsArrays):
    """The interval a metric can take over all orders of equal scores.

    Attributes:
        metric: the metric, with everything it takes from the data fixed.
        low: float64 (n_queries,), the smallest value any order gives; NaN where undefined.
        high: float64 (n_queries,), the largest.
        mean: mean of the metric itself.
        mean_low: mean of `low`.
        mean_high: mean of `high`.
        share_touched: share of the defined queries whose value depends on the order of ties; NaN without any.
        share_tied_positions: share of the positions within the cutoff whose document has an equal.
    """

    metric: Metric
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    mean: float
    mean_low: float
    mean_high: float
    share_touched: float
    share_tied_positions: float

    def __repr__(self) -> str:
        positions = "positions" if self.metric.k is None else f"top-{self.metric.k} positions"
        return (
            f"{self.metric} {self.mean:z.4f}, from {self.mean_low:z.4f} to {self.mean_high:z.4f} over the orders of "
            f"equal scores, which touch {self.share_touched:.1%} of the queries; "
            f"{self.share_tied_positions:.1%} of the {positions} are tied"
        )


def tie_audit(
    metric: Metric | str, judgments: Judgments, scores: ArrayLike, retrieved: ArrayLike | None = None
) -> TieAudit:
    """Evaluate under the worst and the best order of equal scores, beside the metric itself.

    Args:
        metric: the metric, or its name, under whatever tie rule.
        judgments: the queries.
        scores: (n_rows,) in the judgments' row order.
        retrieved: bool (n_rows,), rows the ranking lists; None where all are.

    Raises:
        MetricError: the metric has no worst and best order.

    Example:
        >>> from ltr_harness import QueryGroups
        >>> judgments = Judgments.checked([1, 0, 1, 0], QueryGroups.from_sizes([2, 2]))
        >>> audit = tie_audit("mrr", judgments, [1.0, 1.0, 2.0, 1.0])
        >>> (audit.mean_low, audit.mean, audit.mean_high, audit.share_touched)
        (0.75, 0.875, 1.0, 0.5)
    """
    [audit] = tie_audits(metric, judgments, [scores], retrieved)
    return audit


def tie_audits(
    metric: Metric | str,
    judgments: Judgments,
    rankings: Iterable[ArrayLike],
    retrieved: ArrayLike | None = None,
) -> Iterator[TieAudit]:
    """The audit of each of several rankings, scores (n_rows,), of the same queries; a metric is bound once for all."""
    resolved_metric = parse_metric(metric).resolved(judgments)
    rules = [resolved_metric, *(replace(resolved_metric, ties=ties) for ties in ("worst", "best"))]
    bindings: dict[int, Binding] = {}
    for scores in rankings:
        share = share_tied(resolved_metric, judgments, scores, retrieved)
        # where nothing that counts ties, every order is the same one
        n = 3 if share or resolved_metric.uses_whole_order else 1
        if n not in bindings:
            bindings[n] = BoundOnce(rules[:n], judgments)
        per_query = bindings[n].per_query(scores, retrieved)
        means = bindings[n].means_of(per_query).tolist()
        if n == 1:
            per_query, means = np.repeat(per_query, 3, axis=0), 3 * means
        mean, worst, best = means
        low, high = np.minimum(per_query[1], per_query[2]), np.maximum(per_query[1], per_query[2])
        defined = ~np.isnan(low)
        touched = float((low[defined] < high[defined]).mean()) if defined.any() else float("nan")
        yield TieAudit(resolved_metric, low, high, mean, min(worst, best), max(worst, best), touched, share)


def share_tied(metric: Metric, judgments: Judgments, scores: ArrayLike, retrieved: ArrayLike | None) -> float:
    """Share of the positions within the cutoff whose document has an equal, from scores and flags (n_rows,)."""
    n_tied = n_listed = 0
    for _, part, part_scores, retrieved_rows in slices_of(judgments, scores, retrieved):
        seen = as_seen(checked_scores(part_scores, part.groups, retrieved_rows), metric.score_precision)
        ranking = RowRanker(part, "expected", metric.k).rank(seen)
        rank = np.arange(ranking.rows.size) - np.repeat(ranking.offsets[:-1], np.diff(ranking.offsets))
        listed = ranking.scores[ranking.rows] > -np.inf  # what was not retrieved holds no position
        if metric.k is not None:
            listed &= rank < metric.k
        # a document is alone if its group ends right after it, and any document above belongs to another group
        new_group = np.concatenate(([True], (ranking.tie_end[1:] != ranking.tie_end[:-1]) | (rank[1:] == 0)))
        alone = new_group & (ranking.tie_end == rank + 1)
        n_tied += int((listed & ~alone).sum())
        n_listed += int(listed.sum())
    return n_tied / n_listed if n_listed else 0.0
