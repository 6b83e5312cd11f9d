"""Missed documents: judged, not among the candidates, and counted wherever a metric divides.

The truth is a set of judgments of everything, of which the ranking lists a part: what `retrieved` says. Candidates and
missed documents held apart must give the same bits.
"""

from __future__ import annotations

import dataclasses
import gc
import inspect
import itertools
import math
import random
import weakref

import numpy as np
import pytest
from numpy.typing import NDArray

from ltr_harness.boosting.swap_gradients import change_of, swap_changes
from ltr_harness.data.dataset import fingerprint_judgments
from ltr_harness.data.judgments import Judgments, Subtopics
from ltr_harness.data.queries import QueryGroups
from ltr_harness.errors import DataError
from ltr_harness.metrics import Metric
from ltr_harness.metrics.core import binding
from ltr_harness.metrics.core.binding import Binding, BoundOnce, tie_audit
from ltr_harness.metrics.core.grammar import parse_metric
from ltr_harness.metrics.explain import explain_mean
from ltr_harness.metrics.table import METRICS as METRIC_NAMES
from ltr_harness.metrics.table import catalog
from tests.conftest import named_case

METRICS = [
    *(
        "ndcg@10",
        "ndcg",
        "ndcg(ideal=shown)@10",
        "ndcg(short_list=zero)@10",
        "ndcg(gain=linear)@3",
        "dcg@5",
        "cg@3",
    ),
    *(
        "map@10",
        "map(denominator=total)",
        "mrr@10",
        "rprec",
        "bpref",
        "q@10",
        "rbp(p=0.8)",
        "rbp_residual(p=0.8)@10",
    ),
    *("err(max_grade=4)@10", "nerr(max_grade=4)@10", "pfound(max_grade=4)@10", "success@5", "judged@10"),
    *("precision@5", "precision(denominator=min_kn)@5", "recall@10", "f1@10", "n_relevant"),
    *("log_loss", "brier", "mean_label@5", "mean_label(minus=bottom)@3"),
    *("kendall_tau_distance", "spearman", "gauc", "tau_ap", "alpha_ndcg@5", "err_ia(max_grade=4)@5"),
]
TIES = ["expected", "stable", "worst", "best", "id"]

Truth = tuple[NDArray[np.float64], QueryGroups, NDArray[np.bool_], NDArray[np.float64]]


def make_truth(n_queries: int, seed: int = 1, longest: int = 40) -> Truth:
    """Labels of everything, queries, retrieved rows, and scores with ties; some queries have no candidate."""
    rng = np.random.default_rng(seed)
    groups = QueryGroups.from_sizes(rng.integers(1, longest, n_queries))
    labels = rng.integers(0, 5, groups.n_rows) * (rng.random(groups.n_rows) < 0.3)
    share = np.repeat(rng.choice([0.0, 0.3, 0.9, 1.0], n_queries), groups.sizes)
    retrieved = rng.random(groups.n_rows) < share
    retrieved[groups.boundaries[-2] :] = False
    return labels.astype(float), groups, retrieved, np.round(rng.normal(size=groups.n_rows), 1)


def all_and_candidates(truth: Truth) -> tuple[Judgments, Judgments]:
    """Judgments of everything, and of the candidates with what was missed."""
    labels, groups, retrieved, _ = truth
    rng = np.random.default_rng(3)
    more = {
        "document_ids": np.array([f"d{i}" for i in rng.permutation(groups.n_rows)]),
        "subtopics": Subtopics.of_matrix(rng.integers(0, 3, (groups.n_rows, 3)), groups.n_rows),
        "query_weights": rng.uniform(size=groups.n_queries),
    }
    return Judgments.checked(labels, groups, **more), Judgments.checked(
        labels, groups, **more, retrieved=retrieved
    )


def evaluate_both(
    metrics: list[str], ties: str, truth: Truth
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    parsed = [dataclasses.replace(parse_metric(one), ties=ties) for one in metrics]
    (everything, candidates), (_, _, retrieved, scores) = all_and_candidates(truth), truth
    return (
        Binding(parsed, everything).per_query(scores, retrieved),
        Binding(parsed, candidates).per_query(scores[retrieved]),
    )


@pytest.mark.parametrize("ties", TIES)
def test_missed_documents_count_as_documents_that_the_ranking_leaves_out(ties: str) -> None:
    by_label = ties in ("worst", "best")  # which has no meaning for some
    able = [name for name in METRICS if not (by_label and name.startswith(("judged", "alpha", "err_ia")))]
    of_everything, of_candidates = evaluate_both(able, ties, make_truth(400))
    assert np.isfinite(of_everything).any(axis=1).all()
    np.testing.assert_array_equal(of_candidates, of_everything)


@pytest.mark.slow
@pytest.mark.parametrize("ties", TIES[:2])
def test_five_thousand_queries(ties: str) -> None:
    of_everything, of_candidates = evaluate_both(METRICS, ties, make_truth(5000, seed=7, longest=120))
    np.testing.assert_array_equal(of_candidates, of_everything)


def test_by_hand() -> None:
    groups = QueryGroups.from_sizes([3, 1])
    judgments = Judgments.checked([1, 0, 3, 2], groups, retrieved=[True, True, False, False])
    names = ["ndcg@2", "ndcg(ideal=shown)@2", "recall@2", "map(denominator=total)", "precision@2", "mrr"]
    metrics = [parse_metric(name) for name in names]
    values = Binding(metrics, judgments).per_query([0.1, 0.2])
    discount = 1 / np.log2(3)
    np.testing.assert_allclose(
        values[:, 0], [discount / (7 + discount), discount, 0.5, 0.25, 0.5, 0.5], rtol=1e-15
    )
    np.testing.assert_array_equal(values[[0, 2, 3, 4, 5], 1], 0)  # nothing was retrieved for it
    assert np.isnan(values[1, 1])  # and nothing shown is an ideal without gain


def test_large_sets_are_bound_in_parts_with_what_was_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of 1,000 rows and of half a million are cut alike."""
    truth = make_truth(600)
    (_, candidates), (_, _, retrieved, scores) = all_and_candidates(truth), truth
    metrics = [parse_metric("ndcg@10"), parse_metric("spearman")]
    whole = Binding(metrics, candidates).per_query(scores[retrieved])
    monkeypatch.setattr(binding, "_ROWS_AT_ONCE", 250)
    monkeypatch.setattr(binding, "_ROWS_PER_THREAD", 1000)
    assert candidates.groups.n_rows > 2000
    np.testing.assert_array_equal(BoundOnce(metrics, candidates).per_query(scores[retrieved]), whole)
    in_threads = Binding(metrics, candidates, threads=2)
    np.testing.assert_array_equal(in_threads.per_query(scores[retrieved]), whole)


def test_some_queries_alone_keep_what_they_missed() -> None:
    _, candidates = all_and_candidates(make_truth(60))
    numbers = np.array([5, 7, 0, 59, 58])
    part = candidates.take(numbers)
    metric = [parse_metric("ndcg@3"), parse_metric("n_relevant"), parse_metric("alpha_ndcg@3")]
    scores = np.random.default_rng(5).normal(size=candidates.groups.n_rows)
    _, rows = candidates.groups.take(numbers)
    np.testing.assert_array_equal(
        Binding(metric, part).per_query(scores[rows]),
        Binding(metric, candidates).per_query(scores)[:, numbers],
    )


@pytest.mark.parametrize("name", ["ndcg@5", "map@5", "nerr(max_grade=4)@5", "recall@5", "q@5", "rprec"])
def test_the_change_of_a_swap_divides_by_the_ideal_of_everything(name: str) -> None:
    truth = make_truth(6, seed=4, longest=12)
    _, candidates = all_and_candidates(truth)
    metric = parse_metric(name)
    scores = np.random.default_rng(2).permutation(candidates.groups.n_rows).astype(float)
    found = swap_changes(change_of(metric, candidates), candidates, scores)
    binding = Binding([metric], candidates)
    base = binding.per_query(scores)[0]
    for query, table in enumerate(found):
        start, end = candidates.groups.boundaries[query : query + 2]
        order = start + np.argsort(-scores[start:end])
        for a in range(end - start):
            for b in range(a + 1, end - start):
                swapped = scores.copy()
                swapped[order[[a, b]]] = scores[order[[b, a]]]
                change = abs(binding.per_query(swapped)[0, query] - base[query])
                assert table[a, b] == pytest.approx(np.nan_to_num(change), abs=1e-12)


def test_ties_and_explanations_see_what_was_missed() -> None:
    truth = make_truth(200)
    (everything, candidates), (_, _, retrieved, scores) = all_and_candidates(truth), truth
    metric = parse_metric("ndcg@10")
    told, found = (
        tie_audit(metric, everything, scores, retrieved),
        tie_audit(metric, candidates, scores[retrieved]),
    )
    np.testing.assert_array_equal(found.low, told.low)
    np.testing.assert_array_equal(found.high, told.high)
    assert found.share_tied_positions == told.share_tied_positions
    assert str(explain_mean(metric, candidates, scores[retrieved])) == str(
        explain_mean(metric, everything, scores, retrieved)
    )


def test_the_fingerprint_is_of_missed_documents_too() -> None:
    pool = [1, 0, 3, 2], QueryGroups.from_sizes([3, 1])
    ids = list("abcd")
    one = Judgments.checked(*pool, document_ids=ids, retrieved=[True, True, False, True])
    other = Judgments.checked([1, 0, 4, 2], pool[1], document_ids=ids, retrieved=[True, True, False, True])
    none = Judgments.checked([1, 0, 2], QueryGroups.from_sizes([2, 1]))
    assert len({fingerprint_judgments(each) for each in (one, other, none)}) == 3


def test_nothing_retrieved_is_refused() -> None:
    with pytest.raises(DataError, match="no row was retrieved; expected at least one candidate"):
        Judgments.checked([1], QueryGroups.from_sizes([1]), retrieved=[False])


def alone_and_with_missed(
    metric: Metric, candidates: Judgments, scores: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Values by the candidates alone, where there are some, and with what was missed."""
    alone = dataclasses.replace(candidates, missed=None).take(np.flatnonzero(candidates.groups.has_rows))
    few = np.full(candidates.groups.n_queries, np.nan)
    few[candidates.groups.has_rows] = Binding([metric], alone).per_query(scores)[0]
    return few, Binding([metric], candidates).per_query(scores)[0]


SAID = {
    "the value stays": lambda few, all_: bool((few == all_).all()),
    "the value falls or rises": lambda few, all_: bool((few > all_).any() and (few < all_).any()),
    "the value falls": lambda few, all_: bool((few >= all_).all() and (few > all_).any()),
    "the value rises": lambda few, all_: bool((few <= all_).all() and (few < all_).any()),
}


@pytest.fixture(scope="module")
def candidates_of_300() -> Judgments:
    return all_and_candidates(make_truth(300, seed=9))[1]


def test_what_the_page_of_a_metric_says_of_missed_documents(candidates_of_300: Judgments) -> None:
    """Some relevant, some not; the queries are those in which the candidates alone define a value."""
    for name in METRIC_NAMES:
        with named_case(name):
            text = " ".join(
                inspect.getdoc(catalog.load(name)).split("Missed documents: ")[1].split("\n\n")[0].split()
            )
            said = next(one for one in SAID if one in text)
            candidates = candidates_of_300
            options = {"rbp": "(p=0.8)", "rbp_residual": "(p=0.8)"}.get(name, "")
            if name in ("err", "nerr", "pfound", "err_ia"):
                options = "(max_grade=4)"
            metric = parse_metric(f"{name}{options}")
            scores = np.random.default_rng(1).normal(size=candidates.groups.n_rows)
            few, every = alone_and_with_missed(metric, candidates, scores)
            both = ~np.isnan(few) & ~np.isnan(every)
            assert SAID[said](few[both], every[both]), text
            # queries whose relevant documents were all missed
            relevant, shown = candidates.pool.labels >= 1, candidates.labels >= 1
            lost = candidates.pool.groups.any(relevant) & ~candidates.groups.any(shown)
            assert lost.sum() > 20
            if "It is 0, not undefined" in text:
                assert np.isnan(few[lost]).all()
                assert (every[lost] == 0).all()
            if "defined, too" in text:
                assert np.isnan(few[lost]).all()
                assert not np.isnan(every[lost]).any()


@pytest.mark.parametrize(
    "name", ["map(denominator=retrieved)", "map(denominator=retrieved)@3", "ndcg(ideal=shown)@3"]
)
def test_choices_that_missed_documents_do_not_touch(name: str) -> None:
    _, candidates = all_and_candidates(make_truth(300, seed=9))
    scores = np.random.default_rng(1).normal(size=candidates.groups.n_rows)
    few, every = alone_and_with_missed(parse_metric(name), candidates, scores)
    both = ~np.isnan(few) & ~np.isnan(every)
    assert both.sum() > 100
    np.testing.assert_array_equal(few[both], every[both])


# ---- an independent brute force: definitions in plain Python, averaged over the orders of equal scores

K, TOP = 3, 3


def dcg_of(gains: list[float]) -> float:
    return sum(gain / math.log2(rank + 2) for rank, gain in enumerate(gains))


def err_of(labels: list[int]) -> float:
    value, unsatisfied = 0.0, 1.0
    for rank, label in enumerate(labels, start=1):
        chance = (2**label - 1) / 2**TOP
        value, unsatisfied = value + unsatisfied * chance / rank, unsatisfied * (1 - chance)
    return value


def by_definition(listed: list[int], missed: list[int]) -> dict[str, float]:
    """Take labels in rank order and those that have no rank; at least one is above 0."""
    ideal = sorted(listed + missed, reverse=True)
    n_relevant = sum(label > 0 for label in ideal)
    n_against = len(ideal) - n_relevant
    hits = [sum(label > 0 for label in listed[: rank + 1]) for rank in range(len(listed))]
    found = hits[min(K, len(listed)) - 1] if listed else 0
    precisions = [hits[rank] / (rank + 1) for rank in range(len(listed)) if listed[rank]]
    at_k = [hits[rank] / (rank + 1) for rank in range(min(K, len(listed))) if listed[rank]]
    cg = [sum(listed[: rank + 1]) for rank in range(len(listed))]
    best = [sum(ideal[: rank + 1]) for rank in range(len(listed))]
    q = [(cg[r] + hits[r]) / (best[r] + r + 1) for r in range(min(K, len(listed))) if listed[r]]
    against = [
        1
        - (
            min(rank + 1 - hits[rank], n_relevant) / min(n_relevant, n_against)
            if rank + 1 > hits[rank]
            else 0
        )
        for rank in range(len(listed))
        if listed[rank]
    ]
    at_r = hits[min(n_relevant, len(listed)) - 1] if listed else 0
    return {
        f"ndcg@{K}": dcg_of([2.0**one - 1 for one in listed[:K]])
        / dcg_of([2.0**one - 1 for one in ideal[:K]]),
        f"ndcg(gain=linear)@{K}": dcg_of(list(map(float, listed[:K]))) / dcg_of(list(map(float, ideal[:K]))),
        "map": sum(precisions) / n_relevant,
        f"map@{K}": sum(at_k) / min(n_relevant, K),
        f"map(denominator=total)@{K}": sum(at_k) / n_relevant,
        f"recall@{K}": found / n_relevant,
        f"recall(denominator=min_rk)@{K}": found / min(n_relevant, K),
        f"f1@{K}": 2 * found / (K + n_relevant),
        f"q@{K}": sum(q) / min(n_relevant, K),
        f"nerr(max_grade={TOP})@{K}": err_of(listed[:K]) / err_of(ideal[:K]),
        "rprec": at_r / n_relevant,
        "bpref": sum(against) / n_relevant,
        f"precision@{K}": found / K,
        f"mrr@{K}": next((1 / (rank + 1) for rank, label in enumerate(listed[:K]) if label), 0.0),
        "n_relevant": float(n_relevant),
    }


@pytest.mark.long
def test_every_order_of_equal_scores_by_definition() -> None:
    rng = random.Random(6)
    queries = []
    while len(queries) < 400:
        size = rng.randint(1, 7)
        rows = [(rng.choice([0, 0, 1, 2, TOP]), rng.random() < 0.6, rng.randint(0, 2)) for _ in range(size)]
        if any(label for label, _, _ in rows):
            queries.append(rows)
    assert sum(not any(listed for _, listed, _ in rows) for rows in queries) > 20
    flat = [row for rows in queries for row in rows]
    groups = QueryGroups.from_sizes([len(rows) for rows in queries])
    retrieved = np.array([listed for _, listed, _ in flat])
    judgments = Judgments.checked([label for label, _, _ in flat], groups, retrieved=retrieved)
    scores = np.array([float(score) for _, _, score in flat])[retrieved]
    names = list(by_definition([1], []))
    found = Binding([parse_metric(name) for name in names], judgments).per_query(scores)
    for at, rows in enumerate(queries):
        listed, missed = ([row for row in rows if row[1] == flag] for flag in (True, False))
        orders = [
            by_definition([label for label, _, _ in order], [label for label, _, _ in missed])
            for order in itertools.permutations(listed)
            if all(a[2] >= b[2] for a, b in itertools.pairwise(order))
        ]
        expected = [sum(order[name] for order in orders) / len(orders) for name in names]
        np.testing.assert_allclose(found[:, at], expected, rtol=0, atol=1e-12, err_msg=str(rows))


def test_judgments_are_freed_without_the_garbage_collector() -> None:
    gc.disable()
    try:
        judgments = Judgments.checked([2, 0, 1], QueryGroups.from_sizes([2, 1]))
        Binding([parse_metric("ndcg@10")], judgments)
        reference = weakref.ref(judgments)
        del judgments
        assert reference() is None
    finally:
        gc.enable()
