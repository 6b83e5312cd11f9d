"""Tests for every metric, to inherit."""

import itertools
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ltr_harness.boosting.swap_gradients import swap_changes
from ltr_harness.data.arrays import sealed
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.metrics import Metric, parse_metric
from ltr_harness.metrics.evaluation import evaluate


@cache
def _document_ids(n_rows: int) -> NDArray[np.str_]:
    return sealed(np.array([f"d{row:05d}" for row in range(n_rows)]))


@dataclass(frozen=True)
class _DrawnQueries:
    labels: NDArray[np.float64]
    scores: NDArray[np.float64]
    sizes: NDArray[np.int64]

    @property
    def documents(self) -> NDArray[np.str_]:
        return _document_ids(self.labels.size)

    @property
    def subtopics(self) -> NDArray[np.float64]:
        """A row of label 3 is about the first and the second subtopic, one of label 4 about the third: its bits."""
        bits = np.ceil(self.labels).astype(np.int64)[:, np.newaxis] >> np.arange(4) & 1
        return np.asarray(bits * self.labels.clip(0.0)[:, np.newaxis])


class MetricSuite:
    """Tests of one metric's invariances, for pytest.

    Inherit, set `metric`, and pytest runs every test. A metric for which a fact does not hold declares it by the
    class attributes below; each is also a sentence of its documentation. What subtopics rows are about follows from
    their labels.

    Attributes:
        metric: the metric, or its name.
        grades: labels to draw from; 0 must be among them.
        only_order_matters: scores count by their order alone, not by their size.
        ideal_is_best: no order is better than the one sorted by label, from the highest.
        needs_relevant: a query whose rows are all of grade 0 is undefined and follows `empty`.
        ties_matter: equal scores are resolved by `ties`; the default is the mean over all orders.
        settles_with_k: a cutoff beyond the list's end is the whole list (not so where K is a divisor).
        never_falls_with_k: a larger cutoff never lowers the value (recall; not precision or NDCG).
        top_only: ``@K`` does not look at the order of rows below K.

    Example:
        In ``test_my_metric.py``::

            class TestMyMetric(MetricSuite):
                metric = "./my_metric.py:MyMetric"
    """

    metric: ClassVar[Metric | str]
    grades: ClassVar[Sequence[float]] = (0, 0, 0, 1, 2, 3, 4)
    only_order_matters: ClassVar[bool] = True
    ideal_is_best: ClassVar[bool] = True
    needs_relevant: ClassVar[bool] = True
    ties_matter: ClassVar[bool] = True
    settles_with_k: ClassVar[bool] = True
    never_falls_with_k: ClassVar[bool] = False
    top_only: ClassVar[bool] = True

    def test_it_declares_what_every_metric_must(self) -> None:
        metric = self.made()
        assert metric.name
        assert isinstance(metric.graded, bool)
        assert isinstance(metric.higher_is_better, bool)
        assert metric.bounds[0] < metric.bounds[1]
        assert metric.source

    def test_its_name_reads_back(self) -> None:
        metric = self.made()
        if metric.digest is None or metric.spelling != str(metric):
            assert parse_metric(metric.spelling) == metric
        assert pickle.loads(pickle.dumps(metric)) == metric
        assert str(metric).startswith(metric.name)

    def test_values_are_within_the_bounds(self) -> None:
        low, high = self.made().bounds
        for ties in (False, True):
            values = self.per_query(self.drawn(seed=1, ties=ties))
            values = values[~np.isnan(values)]
            assert values.size
            assert values.min() >= low
            assert values.max() <= high

    def test_row_order_changes_no_bit(self) -> None:
        queries = self.drawn(seed=2, ties=True)
        expected = self.per_query(queries)
        ids = np.repeat(np.arange(queries.sizes.size), queries.sizes)
        for seed in range(3):
            order = np.random.default_rng(seed).permutation(queries.labels.size)
            measured = evaluate(
                queries.labels[order],
                queries.scores[order],
                query_ids=ids[order],
                metrics=[self.made()],
                document_ids=queries.documents[order],
                subtopics=queries.subtopics[order],
            )
            place = np.argsort(measured.query_ids)
            np.testing.assert_array_equal(measured[self.made()].per_query[place], expected)

    def test_only_the_order_of_scores_matters(self) -> None:
        if not self.only_order_matters:
            return
        queries = self.drawn(seed=3, ties=True)
        expected = self.per_query(queries)
        for moved in (queries.scores * 1e-3 - 7, np.exp(queries.scores), np.arctan(queries.scores)):
            np.testing.assert_array_equal(self.per_query(replace(queries, scores=moved)), expected)

    def test_queries_do_not_influence_each_other(self) -> None:
        queries = self.drawn(seed=4, ties=True, n_queries=12)
        expected = self.per_query(queries)
        ends = np.cumsum(queries.sizes)
        for query, (start, end) in enumerate(zip(ends - queries.sizes, ends, strict=True)):
            part, query_slice = slice(start, end), slice(query, query + 1)
            alone = _DrawnQueries(queries.labels[part], queries.scores[part], queries.sizes[query_slice])
            np.testing.assert_array_equal(self.per_query(alone), expected[query_slice])

    def test_the_ideal_order_is_best(self) -> None:
        if not self.ideal_is_best:
            return
        queries = self.drawn(seed=5, ties=False)
        best = self.per_query(replace(queries, scores=queries.labels))
        other = self.per_query(queries)
        defined = ~np.isnan(best)
        assert defined.any()
        np.testing.assert_array_equal(np.isnan(other), ~defined)
        gain = (best - other)[defined]
        if not self.made().higher_is_better:
            gain = -gain
        assert gain.min() >= -1e-12
        assert gain.max() > 0.0

    def test_queries_without_relevant_rows_follow_empty(self) -> None:
        queries = _DrawnQueries(np.zeros(4), np.arange(4.0), np.array([4]))
        if not self.needs_relevant:
            assert not np.isnan(self.per_query(queries)).any()
            return
        for rule, value in (("skip", np.nan), ("zero", 0.0), ("one", 1.0)):
            metric = replace(self.made(), empty=rule)  # type: ignore[arg-type]
            np.testing.assert_array_equal(self.per_query(queries, metric), [value])

    def test_a_query_of_one_row_has_a_value_or_none(self) -> None:
        row = _DrawnQueries(np.array([max(self.grades)], dtype=float), np.zeros(1), np.array([1]))
        measured = self.per_query(row)
        low, high = self.made().bounds
        assert np.isnan(measured[0]) or low <= measured[0] <= high

    def test_expected_ties_are_the_mean_over_all_orders(self) -> None:
        metric = self.made()
        if not self.ties_matter or metric.ties != "expected":
            return
        rng = np.random.default_rng(6)
        tied, strict = list[_DrawnQueries](), list[_DrawnQueries]()
        for _ in range(12):
            n = int(rng.integers(2, 6))
            labels = rng.choice(self.grades, n).astype(float)
            labels[0] = max(self.grades)
            scores = rng.integers(0, 2, n).astype(float)
            # strict orders that keep unequal scores in order
            permutations = np.array(list(itertools.permutations(range(n))), dtype=float)
            orders = [order for order in permutations if (np.diff(scores[np.argsort(order)]) >= 0).all()]
            tied.append(_DrawnQueries(labels, scores, np.array([n])))
            # one strict order per query: the larger place is the better one
            strict.append(
                _DrawnQueries(np.tile(labels, len(orders)), np.concatenate(orders), np.full(len(orders), n))
            )
        ends = np.cumsum([len(queries.sizes) for queries in strict])[:-1]
        in_order = np.split(self.per_query(_below_each_other(strict)), ends)
        for measured, each in zip(self.per_query(_below_each_other(tied)), in_order, strict=True):
            assert np.isnan(measured) == np.isnan(each).all()
            if not np.isnan(measured):
                assert abs(measured - each.mean()) <= 1e-12

    def test_cutoffs_beyond_the_list_change_nothing(self) -> None:
        metric = self.made()
        if not metric.takes_cutoff or not self.settles_with_k:
            return
        queries = self.drawn(seed=7, ties=True)
        expected = self.per_query(queries, metric.with_cutoff(25))
        for k in (26, 100, 1000):
            np.testing.assert_array_equal(self.per_query(queries, metric.with_cutoff(k)), expected)

    def test_cutoffs_at_once_are_what_each_is_alone(self) -> None:
        metric = self.made()
        if not metric.takes_cutoff:
            return
        at_each = [metric.with_cutoff(k) for k in (1, 2, 5, 10, 30)]
        for queries in (self.drawn(seed=10, ties=False), self.drawn(seed=10, ties=True)):
            for at_cutoff, values in zip(at_each, self.per_query_each(queries, at_each), strict=True):
                np.testing.assert_array_equal(values, self.per_query(queries, at_cutoff))

    def test_a_larger_cutoff_never_lowers_the_value(self) -> None:
        metric = self.made()
        if not metric.takes_cutoff or not self.never_falls_with_k:
            return
        queries = self.drawn(seed=8, ties=True)
        values = self.per_query_each(queries, [metric.with_cutoff(k) for k in (1, 2, 3, 5, 10, 30)])
        for smaller, larger in itertools.pairwise(values):
            assert np.nanmin(larger - smaller) >= -1e-12

    def test_the_order_below_the_cutoff_does_not_matter(self) -> None:
        metric = self.made()
        if not metric.takes_cutoff or not self.top_only:
            return
        queries = self.drawn(seed=9, ties=False)
        expected = self.per_query(queries, metric.with_cutoff(3))
        shuffled = replace(queries, scores=self.shuffled_below(queries, k=3))
        np.testing.assert_array_equal(self.per_query(shuffled, metric.with_cutoff(3)), expected)

    def test_changes_of_swaps_are_what_swapping_does(self) -> None:
        """Every pair of rows of a query changes places, and the metric is computed again."""
        if not self.made().has_swap_change:
            return
        queries = self.drawn(seed=11, ties=False, n_queries=12)
        judgments = Judgments.checked(queries.labels, QueryGroups.from_sizes(queries.sizes))
        resolved_metric = self.made().resolved(judgments)
        metrics = [resolved_metric]
        if resolved_metric.takes_cutoff:
            metrics.append(resolved_metric.with_cutoff(3))
        for metric in metrics:
            change = metric.swap_change(judgments)
            tables = swap_changes(change, judgments, queries.scores)
            ends = np.cumsum(queries.sizes)
            changes, swapped_lists = list[float](), list[_DrawnQueries]()
            for table, start, end in zip(tables, ends - queries.sizes, ends, strict=True):
                order = start + np.argsort(-queries.scores[start:end])
                labels = queries.labels[order]
                n = labels.size
                # where only the pair itself counts, rows between it do not: rows side by side have none
                max_distance = 1 if change.form == "pairs" else n
                pairs = [(a, b) for a, b in itertools.combinations(range(n), 2) if b - a <= max_distance]
                swapped = np.tile(labels, (len(pairs) + 1, 1))
                for number, (a, b) in enumerate(pairs, start=1):
                    swapped[number, [a, b]] = labels[[b, a]]
                scores = np.tile(-np.arange(float(n)), len(swapped))
                swapped_lists.append(_DrawnQueries(swapped.ravel(), scores, np.full(len(swapped), n)))
                changes += [0.0, *(table[pair] for pair in pairs)]  # the list itself comes first
            values = np.nan_to_num(self.per_query(_below_each_other(swapped_lists), metric))
            n_lists = [lists.sizes.size for lists in swapped_lists]
            unchanged = np.repeat(values[np.cumsum([0, *n_lists[:-1]])], n_lists)
            np.testing.assert_allclose(changes, np.abs(values - unchanged), atol=1e-12)

    # what the tests are made of

    def made(self) -> Metric:
        """The metric under test."""
        return parse_metric(self.metric)

    def per_query(self, queries: _DrawnQueries, metric: Metric | None = None) -> NDArray[np.float64]:
        return self.per_query_each(queries, [metric or self.made()])[0]

    def per_query_each(self, queries: _DrawnQueries, metrics: Sequence[Metric]) -> list[NDArray[np.float64]]:
        """Several metrics evaluated at once."""
        evaluation = evaluate(
            queries.labels,
            queries.scores,
            group_sizes=queries.sizes,
            metrics=metrics,
            document_ids=queries.documents,
            subtopics=queries.subtopics if any(metric.uses_subtopics for metric in metrics) else None,
        )
        return [evaluation[metric].per_query for metric in metrics]

    def drawn(self, seed: int, ties: bool, n_queries: int = 40) -> _DrawnQueries:
        """Queries of 1 to 25 rows, a fifth of them without relevant documents, with or without equal scores.

        Args:
            seed: of the generator.
            ties: with equal scores.
            n_queries: how many.
        """
        rng = np.random.default_rng(seed)
        sizes = rng.integers(1, 26, n_queries)
        n = int(sizes.sum())
        labels = rng.choice(self.grades, n).astype(float) * np.repeat(rng.random(n_queries) < 0.8, sizes)
        scores = rng.integers(-4, 5, n) / 4 if ties else rng.permutation(n) / n
        return _DrawnQueries(labels, scores, sizes)

    def shuffled_below(self, queries: _DrawnQueries, k: int) -> NDArray[np.float64]:
        """The same first `k` rows of every query, the rest in another order."""
        rng = np.random.default_rng(0)
        scores = queries.scores.copy()
        start = 0
        for size in queries.sizes.tolist():
            below = start + np.argsort(-scores[start : start + size])[k:]
            scores[below] = rng.permutation(scores[below])
            start += size
        return scores


def _below_each_other(parts: Sequence[_DrawnQueries]) -> _DrawnQueries:
    columns = ([getattr(part, name) for part in parts] for name in ("labels", "scores", "sizes"))
    return _DrawnQueries(*(np.concatenate(column) for column in columns))
