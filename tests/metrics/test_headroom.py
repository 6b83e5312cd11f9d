"""Random order and ceiling, against every order there is."""

from __future__ import annotations

import functools
import itertools
from dataclasses import replace

import numpy as np
import pytest

from ltr_harness.data.arrays import Floats, Ints
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.metrics import parse_metric
from ltr_harness.metrics.core.binding import Binding
from ltr_harness.metrics.core.headroom import headroom, is_best_by_label
from ltr_harness.metrics.table import METRICS

SHOWN = [
    *("ndcg", "ndcg@3", "ndcg(ideal=shown)@3", "ndcg(short_list=zero)@3", "ndcg(gain=0_1_5_5)@4", "dcg@3", "cg@2"),
    *("ndcg(discount=letor)@3", "ndcg(empty=zero)@2", "ndcg(ties=worst)@3", "mrr(ties=best)", "map", "map@3"),
    *("map(denominator=total)", "map(denominator=total)@2", "map_retrieved", "mrr@2", "mrr(relevant=2)", "rprec"),
    *("bpref", "q", "q@3", "rbp(p=0.8)", "rbp(p=0.8)@2", "err(max_grade=3)", "err(max_grade=3)@2"),
    *("nerr(max_grade=3)", "nerr(max_grade=3)@2", "pfound(max_grade=3)", "pfound(max_grade=3)@3", "success@2"),
    *("precision@3", "precision(denominator=min_kn)@3", "precision(relevant=2)@2", "recall@2", "recall", "f1@3"),
    *("mean_label@2", "mean_label(minus=bottom)@3", "mean_label(minus=bottom)"),
    *("recall(denominator=min_rk)@2", "f1(denominator=min_kn)@2"),
]  # fmt: skip
NOT_SHOWN = [
    *("kendall_tau_distance", "spearman", "gauc", "tau_ap", "alpha_ndcg@5", "err_ia(max_grade=4)@5", "judged@3"),
    *("log_loss", "brier"),
    *("n_relevant", "rbp_residual(p=0.8)@10", "ndcg(gain=0_5_1_1)", "ndcg(discount=0.5_1)@2"),
]  # fmt: skip


def lists(seed: int) -> Judgments:
    """Lists short enough for all their orders, with unjudged and missed documents and without candidates."""
    rng = np.random.default_rng(seed)
    groups = QueryGroups.from_sizes(rng.integers(1, 7, 12))
    labels = rng.integers(0, 4, groups.n_rows) * (rng.random(groups.n_rows) < 0.6)
    judged = (rng.random(groups.n_rows) < 0.8) | (labels > 0)
    retrieved = rng.random(groups.n_rows) < np.repeat(rng.choice([0.0, 0.6, 1.0], 12), groups.sizes)
    retrieved[:1] = True
    return Judgments.checked(labels, groups, judged=judged, retrieved=retrieved if seed % 3 else None)


@functools.cache
def lists_in_every_order(seed: int) -> tuple[Judgments, Judgments, Floats, Ints]:
    """The lists, and copies of them: of each query one for every order of its rows.

    Returns:
        the lists; the copies, with their scores and the first copy of each query.
    """
    judgments = lists(seed)
    orders = [np.array(list(itertools.permutations(range(n))), dtype=float) for n in judgments.groups.sizes]
    n_orders = [len(order) for order in orders]
    copies = judgments.take(np.repeat(np.arange(len(orders)), n_orders))
    scores = np.concatenate([order.ravel() for order in orders])
    return judgments, copies, scores, np.cumsum([0, *n_orders[:-1]])


@pytest.mark.parametrize("seed", range(6))
def test_mean_and_highest_value_of_all_orders(seed: int) -> None:
    judgments, copies, scores, first = lists_in_every_order(seed)
    metrics = list(map(parse_metric, SHOWN))
    of_copies = Binding([replace(metric, ties="stable") for metric in metrics], copies).per_query(scores)
    n_orders = np.diff([*first, of_copies.shape[1]])
    for metric, values in zip(metrics, of_copies, strict=True):
        found = headroom(metric, judgments)
        assert found is not None
        mean = np.add.reduceat(values, first) / n_orders
        lowest, highest = np.minimum.reduceat(values, first), np.maximum.reduceat(values, first)
        for shown, expected in ((found.random, mean), (found.ceiling, highest)):
            np.testing.assert_allclose(shown, expected, rtol=1e-6, atol=1e-9, err_msg=str(metric))
        np.testing.assert_array_equal(found.headroom > 0, highest - lowest > 1e-9, str(metric))
        if judgments.missed is None:
            assert np.isnan(found.with_all_retrieved).all(), metric


def test_every_metric_is_shown_or_has_no_best_order() -> None:
    named = {parse_metric(text).name for text in (*SHOWN, *NOT_SHOWN)}
    assert named == set(METRICS)
    for text in NOT_SHOWN:
        assert headroom(parse_metric(text), lists(1)) is None


@pytest.mark.parametrize(
    "text", ["ndcg", "map", "recall", "mrr", "nerr(max_grade=3)", "rprec", "q", "success@2"]
)
def test_with_all_retrieved_the_best_value_is_one(text: str) -> None:
    judgments = lists(2)
    found = headroom(parse_metric(text), judgments)
    assert found is not None
    defined = ~np.isnan(found.with_all_retrieved)
    assert defined.any()
    np.testing.assert_allclose(found.with_all_retrieved[defined], 1.0)
    assert (found.ceiling[defined] <= 1 + 1e-12).all()
    assert found.ceiling[defined].min() == 0  # a query without candidates


def test_what_a_cutoff_costs_is_not_charged_to_retrieval() -> None:
    pool = Judgments.checked(
        [1, 1, 1, 1, 0], QueryGroups.from_sizes([5]), retrieved=[True, True, False, True, True]
    )
    found = headroom(parse_metric("recall@2"), pool)
    assert found is not None
    assert (found.ceiling.tolist(), found.with_all_retrieved.tolist()) == ([0.5], [0.5])
    missed = headroom(parse_metric("recall"), pool)
    assert missed is not None
    assert (missed.ceiling.tolist(), missed.with_all_retrieved.tolist()) == ([0.75], [1.0])


@pytest.mark.parametrize("seed", [0, 1])
def test_queries_of_equal_content_have_the_value_of_each_alone(seed: int) -> None:
    judgments = lists(seed)
    queries = np.random.default_rng(0).integers(0, judgments.groups.n_queries, 40)
    several = judgments.take(queries)
    single = {query: judgments.take(np.array([query])) for query in np.unique(queries)[:5]}
    for metric in map(parse_metric, SHOWN):
        found = headroom(metric, several)
        assert found is not None
        for query, of_query in single.items():
            alone = headroom(metric, of_query)
            assert alone is not None
            for values, value in zip(vars(found).values(), vars(alone).values(), strict=True):
                equal = values[queries == query]
                np.testing.assert_array_equal(equal, np.full(equal.size, value[0]), str(metric))


def test_a_refused_expectation_shows_nothing() -> None:
    n = 10_001
    judgments = Judgments.checked(np.eye(1, n)[0], QueryGroups.from_sizes([n]))
    assert headroom(parse_metric("err(max_grade=1)"), judgments) is None
    assert headroom(parse_metric("err(max_grade=1)@10"), judgments) is not None


def test_it_is_computed_once() -> None:
    judgments = lists(1)
    assert headroom(parse_metric("ndcg@3"), judgments) is headroom(parse_metric("ndcg@3"), judgments)


def test_little_to_gain() -> None:
    groups = QueryGroups.from_sizes([3] * 40)
    nearly_all = Judgments.checked([2, 2, 1] * 40, groups)
    metric = parse_metric("ndcg(gain=linear)@3")
    found = headroom(metric, nearly_all)
    assert found is not None
    said = found.little_to_gain("ndcg@3")
    # every order of 2, 2, 1: mean (5/3) (1 + 1/log2 3 + 1/2) over 2 + 2/log2 3 + 1/2
    assert said.startswith("ndcg@3 of a random order is 0.9441, 94 % of the best")
    few = Judgments.checked(([1, 0, 0] + [0, 0, 0] * 39), groups)
    zero = headroom(parse_metric("ndcg(empty=zero)@3"), few)
    assert zero is not None
    assert zero.little_to_gain("ndcg@3") == "order changes ndcg@3 in 1 of 40 queries: there is little to gain"
    much = headroom(metric, Judgments.checked([1, 0, 0] * 40, groups))
    assert much is not None
    assert not much.little_to_gain("ndcg@3")


def test_the_best_order_is_by_label_where_gains_rise_and_discounts_fall() -> None:
    tables = {
        "gain=0_1_3": True,
        "gain=0_3_1": False,
        "discount=1_0.5_0.25": True,
        "discount=0.5_1_0.25": False,
    }
    assert {said: is_best_by_label(parse_metric(f"dcg({said})@3")) for said in tables} == tables


def test_where_a_longer_list_is_worse_the_other_queries_keep_their_values() -> None:
    # of query 0 a document that is not relevant was missed, of query 1 a relevant one
    pool = Judgments.checked(
        [1, 0, 1, 0, 1, 0],
        QueryGroups.from_sizes([2, 2, 2]),
        retrieved=[True, False, False, True, True, True],
    )
    found = headroom(parse_metric("precision"), pool)
    assert found is not None
    assert found.ceiling.tolist() == [1, 0, 0.5]
    np.testing.assert_array_equal(found.with_all_retrieved, [np.nan, 0.5, 0.5])
    means = found.means(found.ceiling)
    assert means is not None
    assert np.isnan(means.out_of_reach)  # of the same queries as the other means, or of none
