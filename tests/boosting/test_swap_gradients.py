"""Gradients from swap changes: against pairs written out, their sums, and what must not move them."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ltr_harness import evaluate
from ltr_harness.boosting.swap_gradients import Gradients, MetricObjective, swap_changes
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.errors import DataError, MetricError
from ltr_harness.metrics import Metric, parse_metric
from ltr_harness.metrics.core.swap_change import SwapChange
from tests.conftest import examples, named_case

METRICS = [
    "ndcg",
    "ndcg@3",
    "ndcg(gain=0_1_5_9_9,discount=letor)@4",
    "dcg(gain=linear)@4",
    "cg@3",
    "mrr",
    "mrr(relevant=2)@3",
    "map",
    "map(denominator=total)@3",
    "err(max_grade=4)",
    "err(continuation=0.85,max_grade=4,stop=linear)@3",
    "err(discount=log2,max_grade=4)",
    "pfound(max_grade=4)@4",
    "nerr(max_grade=4)@4",
    "rbp(p=0.8)",
    "rbp(graded=true,max_grade=4,p=0.5)@4",
    "q",
    "q(b=2,gain=exp)@3",
    "precision@3",
    "recall@3",
    "success@3",
    "f1@3",
    "rprec",
    "kendall_tau_distance(normalized=true)",
    "spearman",
    "gauc",
]


def make_judgments(labels: Any, sizes: Any, weights: Any = None) -> Judgments:
    return Judgments.checked(
        np.asarray(labels, dtype=float), QueryGroups.from_sizes(sizes), query_weights=weights
    )


def gradients(metric: Any, labels: Any, scores: Any, sizes: Any = None, **chosen: Any) -> tuple[Any, Any]:
    objective = MetricObjective(metric=parse_metric(metric), **chosen)
    return Gradients(objective, make_judgments(labels, [len(labels)] if sizes is None else sizes)).at_scores(
        np.asarray(scores)
    )


def written_out(
    changes: NDArray[np.float64], worth: Any, scores: Any, *, truncation: int, sigma: float, norm: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """One query, pair by pair, as the module's text says."""
    n = len(scores)
    ranked = np.argsort(-scores, kind="stable")
    gradient, hessian, total = np.zeros(n), np.zeros(n), 0.0
    for a, b in itertools.combinations(range(n), 2):
        upper, lower = ranked[a], ranked[b]
        if a >= truncation or worth[upper] == worth[lower]:
            continue
        i, j = (upper, lower) if worth[upper] > worth[lower] else (lower, upper)
        p = 1.0 / (1.0 + np.exp(sigma * (scores[i] - scores[j])))
        w = changes[a, b]
        if norm and scores[ranked[0]] != scores[ranked[-1]]:
            w /= 0.01 + abs(scores[i] - scores[j])
        gradient[i] -= sigma * p * w
        gradient[j] += sigma * p * w
        hessian[[i, j]] += sigma**2 * p * (1 - p) * w
        total += 2 * sigma * p * w
    factor = np.log2(1 + total) / total if norm and total > 0 else 1.0
    return gradient * factor, hessian * factor


@given(
    metric=st.sampled_from(METRICS),
    rows=st.lists(st.tuples(st.integers(0, 4), st.integers(-3, 3)), min_size=1, max_size=9),
    truncation=st.integers(1, 10),
    sigma=st.sampled_from([0.5, 1.0, 2.0]),
    norm=st.booleans(),
)
@examples(150)
@pytest.mark.long
def test_they_are_the_pairs_written_out(
    metric: str, rows: list[tuple[int, int]], truncation: int, sigma: float, norm: bool
) -> None:
    labels, scores = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    change = parse_metric(metric).swap_change(make_judgments(labels, [len(rows)]))
    table = swap_changes(change, make_judgments(labels, [len(rows)]), scores)[0]
    expected = written_out(table, change.worth, scores, truncation=truncation, sigma=sigma, norm=norm)
    found = gradients(metric, labels, scores, truncation_level=truncation, sigma=sigma, norm=norm)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)


def test_one_pair_by_hand() -> None:
    # NDCG of the ideal order is 1, of the other one 1 / log2(3): the change is .369; equal scores, so p is 1/2
    gradient, hessian = gradients("ndcg", [0, 1], [0.0, 0.0], norm=False)
    change = 1 - 1 / np.log2(3)
    np.testing.assert_allclose(gradient, [change / 2, -change / 2], rtol=1e-6)
    np.testing.assert_allclose(hessian, [change / 4, change / 4], rtol=1e-6)


def test_scores_that_differ_and_norm_by_hand() -> None:
    # MRR falls from 1 to 1/2; p = 1 / (1 + e), divided by .01 + 1; L = 2 lambda
    force = 0.5 / (1 + np.e) / 1.01
    gradient, _ = gradients("mrr", [1, 0], [1.0, 0.0])
    np.testing.assert_allclose(gradient[1], force * np.log2(1 + 2 * force) / (2 * force), rtol=1e-6)


def test_loss2_by_hand() -> None:
    # rows at ranks 1 and 3 are two apart: 1 - 1/2, and ten times 1/log2(3) - 1/log2(4)
    gradient, _ = gradients("ndcg", [1, 0, 0], [0.0, 0.0, 0.0], norm=False, weighting="ndcg_loss2++")
    apart = 1 / np.log2([2, 3, 4])
    weights = (
        (apart[0] - apart[1]) + 10 * (apart[0] - apart[1]),
        (apart[0] - apart[2]) + 10 * (apart[1] - apart[2]),
    )
    np.testing.assert_allclose(gradient, [-sum(weights) / 2, weights[0] / 2, weights[1] / 2], rtol=1e-6)


def test_they_sum_to_zero_and_follow_neither_row_order_nor_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    for metric in METRICS:
        with named_case(metric):
            monkeypatch.setattr("ltr_harness.boosting.swap_gradients._ROWS_PER_THREAD", 1_000)
            rng = np.random.default_rng(3)
            sizes = rng.integers(1, 60, 150)
            labels = rng.choice(5, sizes.sum(), p=[0.5, 0.3, 0.1, 0.05, 0.05]).astype(float)
            scores = rng.normal(size=labels.size)
            weights = rng.random(sizes.size)
            judgments = make_judgments(labels, sizes, weights)
            objective = MetricObjective(metric=parse_metric(metric))
            alone = Gradients(objective, judgments).at_scores(scores)
            sums = np.add.reduceat(alone[0].astype(float), judgments.groups.boundaries[:-1])
            assert np.abs(sums).max() < 1e-5
            assert np.count_nonzero(alone[0]) > 100
            assert (alone[1] >= 0).all()
            for one, other in zip(
                alone, Gradients(objective, judgments, threads=2).at_scores(scores), strict=True
            ):
                np.testing.assert_array_equal(one, other)
            query = np.repeat(np.arange(sizes.size), sizes)
            order = np.lexsort((rng.random(labels.size), query))  # rows change places within their queries
            moved = Gradients(objective, make_judgments(labels[order], sizes, weights)).at_scores(
                scores[order]
            )
            for one, other in zip(alone, moved, strict=True):
                np.testing.assert_array_equal(one[order], other)


def test_a_weight_multiplies() -> None:
    labels, scores = [1, 0, 2, 0], [0.1, 0.2, 0.3, 0.4]
    objective = MetricObjective(metric=parse_metric("ndcg@2"))
    plain = Gradients(objective, make_judgments(labels, [2, 2])).at_scores(scores)
    weighted = Gradients(objective, make_judgments(labels, [2, 2], [3.0, 0.5])).at_scores(scores)
    for one, other in zip(plain, weighted, strict=True):
        np.testing.assert_allclose(other, one * np.array([3, 3, 0.5, 0.5]), rtol=1e-6)


def test_the_cutoff_moves_them() -> None:
    labels, scores = [0, 0, 0, 1], [4.0, 3.0, 2.0, 1.0]
    found = [gradients(metric, labels, scores)[0] for metric in ("mrr@1", "mrr@2", "mrr")]
    assert [np.count_nonzero(one) for one in found] == [2, 3, 4]


def test_the_truncation_level_leaves_out_pairs_below() -> None:
    gradient, _ = gradients("ndcg", [0, 0, 1, 0], [4.0, 3.0, 2.0, 1.0], truncation_level=1)
    assert np.flatnonzero(gradient).tolist() == [0, 2]


def test_queries_without_pairs_have_no_gradient() -> None:
    for metric in METRICS:
        with named_case(metric):
            for labels in ([3], [0, 0, 0], [2, 2, 2]):
                for one in gradients(metric, labels, np.arange(len(labels))):
                    np.testing.assert_array_equal(one, 0.0)


@pytest.mark.parametrize("metric", ["ndcg", "map", "err(max_grade=4)", "q", "mrr"])
def test_a_query_of_ten_thousand_rows(metric: str) -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 5, 10_000).astype(float)
    gradient, hessian = gradients(metric, labels, rng.normal(size=10_000), truncation_level=20)
    assert np.isfinite(gradient).all()
    assert np.isfinite(hessian).all()
    assert abs(gradient.astype(float).sum()) < 1e-5


@pytest.mark.parametrize("scale", [1e3, 1e80])
def test_scores_far_apart_have_their_limits(scale: float) -> None:
    # the better row stands so far below that p is 1, so far above that it is 0
    gradient, hessian = gradients("mrr", [0, 1, 0], np.array([2.0, 1.0, 0.0]) * scale, norm=False)
    np.testing.assert_allclose(gradient, [0.5, -0.5, 0.0], atol=1e-6)
    np.testing.assert_allclose(hessian, 0.0, atol=1e-6)


def test_both_ways_to_exponentials_agree() -> None:
    labels = [0, 2, 1, 0, 1]
    scores = np.array([0.0, 0.5, 1.0, 1.5, 2.0])
    near = gradients("ndcg", labels, scores)
    far = gradients("ndcg", [*labels, 0], [*scores, -1000.0])
    no_norm = [
        gradients("ndcg", labels, scores, norm=False),
        gradients("ndcg", [*labels, 0], [*scores, -1000.0], norm=False),
    ]
    assert np.isfinite(near[0]).all()
    assert np.isfinite(far[0]).all()
    for one, other in zip(*no_norm, strict=True):
        np.testing.assert_allclose(one, other[:5], rtol=1e-6)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([0.0, np.inf], "score is inf in query '0'; expected finite scores"),
        ([0.0, -np.inf], "score is -inf in query '0'; expected finite scores"),
        ([0.0, np.nan], "score is NaN in query '0'"),
        ([0.0], "1 score for 2 rows"),
    ],
)
def test_scores_without_a_gradient_are_refused(scores: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        gradients("ndcg", [0, 1], scores)


@pytest.mark.parametrize(
    ("metric", "labels", "message"),
    [
        ("err(max_grade=2)", [0, 4], "is above max_grade"),
        ("ndcg", [0, 0.5], "needs integer labels"),
        ("ndcg(gain=0_1)", [0, 2], "the gain table ends at grade 1"),
    ],
)
def test_labels_outside_the_scale_are_refused(metric: str, labels: Any, message: str) -> None:
    with pytest.raises(MetricError, match=message):
        gradients(metric, labels, [0.0, 1.0])


REFUSED_OBJECTIVES = [
    ({"metric": "bpref"}, "bpref cannot be an objective: it does not define its change"),
    ({"metric": "rbp_residual(p=0.5)"}, "cannot be an objective"),
    ({"metric": "ndcg", "truncation_level": 0}, "truncation_level=0; expected an integer >= 1"),
    ({"metric": "ndcg", "truncation_level": 2.5}, "truncation_level=2.5; expected an integer >= 1"),
    ({"metric": "ndcg", "sigma": 0.0}, "sigma=0.0; expected a number above 0"),
    ({"metric": "ndcg", "sigma": float("nan")}, "sigma=nan"),
    ({"metric": "ndcg", "weighting": "loss3"}, "weighting='loss3'; expected swap or ndcg_loss2"),
    ({"metric": "mrr", "weighting": "ndcg_loss2++"}, "expected dcg or ndcg"),
    ({"metric": "ndcg(discount=1_0.5)@2", "weighting": "ndcg_loss2++"}, "with discount log2 or letor"),
]


def test_objectives_that_cannot_be_are_refused() -> None:
    for chosen, message in REFUSED_OBJECTIVES:
        with named_case(message), pytest.raises(MetricError, match=message):
            MetricObjective(**{**chosen, "metric": parse_metric(chosen["metric"])})


def test_a_divisor_that_changes_with_the_ranking_is_refused() -> None:
    with pytest.raises(MetricError, match="its divisor changes with the ranking"):
        gradients("map(denominator=retrieved,ties=stable)@3", [1, 0], [0.0, 1.0])


def test_an_objective_is_pickled() -> None:
    objective = MetricObjective(metric=parse_metric("err(max_grade=4)@10"), sigma=2)
    assert pickle.loads(pickle.dumps(objective)) == objective


@dataclass(frozen=True, kw_only=True)
class TopPair(Metric):
    """The order of the first two rows: a metric that is none of the forms."""

    name: ClassVar[str] = "top_pair"
    graded: ClassVar[bool] = True
    source: ClassVar[str] = "this test"

    def prepare(self, judgments: Judgments, cutoffs: NDArray[np.int64]) -> Callable[[Any], Any]:
        raise NotImplementedError

    def swap_change(self, judgments: Judgments) -> SwapChange:
        def changes(query: int, rows: NDArray[np.int64], n_top: int) -> NDArray[np.float64]:
            def value(order: list[int]) -> float:
                return float(judgments.labels[order[0]] >= judgments.labels[order[1]])

            out = np.zeros((n_top, rows.size))
            for a, b in itertools.combinations(range(rows.size), 2):
                if a < n_top:
                    swapped = rows.tolist()
                    swapped[a], swapped[b] = swapped[b], swapped[a]
                    out[a, b] = value(swapped) - value(rows.tolist())
            return out

        scale = np.ones(judgments.groups.n_queries)
        return SwapChange(form="own", worth=judgments.labels, scale=scale, function=changes)


def test_a_metric_of_ones_own_gives_a_function() -> None:
    gradient, _ = gradients(TopPair(), [0, 1, 0, 0, 2], [2.0, 1.0, 5.0, 4.0, 3.0], [2, 3], norm=False)
    # the first query: 0 above 1, so the pair counts; the second, 0 0 2: only ranks 2 and 3 may change places
    assert np.flatnonzero(gradient).tolist() == [0, 1, 3, 4]
    table = swap_changes(
        TopPair().swap_change(make_judgments([0, 1], [2])), make_judgments([0, 1], [2]), [2.0, 1.0]
    )[0]
    assert table[0, 1] == 1.0


def test_a_function_is_asked_for_the_ranks_that_each_query_has_and_no_more() -> None:
    asked: list[tuple[int, list[int], int]] = []

    class Asked(TopPair):
        def swap_change(self, judgments: Judgments) -> SwapChange:
            change = super().swap_change(judgments)
            own = change.function
            assert own is not None

            def function(query: int, rows: NDArray[np.int64], n_top: int) -> NDArray[np.float64]:
                asked.append((query, rows.tolist(), n_top))
                return own(query, rows, n_top)

            return replace(change, function=function)

    gradients(Asked(), [0, 1, 0, 0, 2], [1.0, 2.0, 3.0, 4.0, 5.0], [2, 3], truncation_level=30)
    gradients(Asked(), [0, 1, 0, 0, 2], [1.0, 2.0, 3.0, 4.0, 5.0], [2, 3], truncation_level=2)
    assert asked == [(0, [1, 0], 2), (1, [4, 3, 2], 3), (0, [1, 0], 2), (1, [4, 3, 2], 2)]


@pytest.mark.parametrize(
    "metric",
    ["ndcg@3", "mrr", "mrr@4", "map@4", "q(b=2)@4", "err(continuation=0.85,max_grade=2)@4", "rbp(p=0.8)"],
)
def test_a_change_is_what_swapping_two_rows_of_a_list_does(metric: str) -> None:
    labels, scores = np.array([0.0, 2, 0, 1, 1, 0]), -np.arange(6.0)
    judgments = make_judgments(labels, [6])
    (table,) = swap_changes(parse_metric(metric).swap_change(judgments), judgments, scores)
    pairs = list(itertools.combinations(range(6), 2))
    lists = np.tile(labels, (1 + len(pairs), 1))
    for swapped, pair in zip(lists[1:], pairs, strict=True):
        swapped[list(pair)] = labels[list(pair[::-1])]
    found = evaluate(
        lists.ravel(), np.tile(scores, len(lists)), group_sizes=[6] * len(lists), metrics=[metric]
    )
    values = found[metric].per_query
    np.testing.assert_allclose([table[pair] for pair in pairs], np.abs(values[1:] - values[0]), atol=1e-12)


def test_what_counts_every_rank_alike_has_no_best_order() -> None:
    judgments = make_judgments([1, 0, 1, 0], [3, 1])
    with pytest.raises(MetricError, match=r"cg counts every rank of the longest query \(3 rows\) alike"):
        MetricObjective(metric=parse_metric("cg")).resolved(judgments)
    for metric in ("cg@3", "cg@2", "dcg"):  # other parts of the data may have longer queries
        MetricObjective(metric=parse_metric(metric)).resolved(judgments)
