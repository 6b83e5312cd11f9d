"""Missed documents: judged, not among the candidates, and counted wherever a metric divides.

The truth is a set of judgments of everything, of which the ranking lists a part: what `retrieved` says. Candidates and
missed documents held apart must give the same bits.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from numpy.typing import NDArray

from ltr_harness.boosting.swap_gradients import change_of, swap_changes
from ltr_harness.dataset import fingerprint_judgments
from ltr_harness.errors import DataError
from ltr_harness.explanation import explain_mean
from ltr_harness.groups import Judgments, QueryGroups, Subtopics
from ltr_harness.metrics.core.binding import Binding, BoundOnce, tie_audit
from ltr_harness.metrics.core.grammar import parse_metric

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
    *("kendall_tau_distance", "spearman", "gauc", "tau_ap", "alpha_ndcg@5", "err_ia(max_grade=4)@5"),
]
TIES = ["expected", "stable", "worst", "best", "id"]

Truth = tuple[NDArray[np.float64], QueryGroups, NDArray[np.bool_], NDArray[np.float64]]


def made(n_queries: int, seed: int = 1, longest: int = 40) -> Truth:
    """Labels of everything, queries, retrieved rows, and scores with ties; some queries have no candidate."""
    rng = np.random.default_rng(seed)
    groups = QueryGroups.from_sizes(rng.integers(1, longest, n_queries))
    labels = rng.integers(0, 5, groups.n_rows) * (rng.random(groups.n_rows) < 0.3)
    share = np.repeat(rng.choice([0.0, 0.3, 0.9, 1.0], n_queries), groups.sizes)
    retrieved = rng.random(groups.n_rows) < share
    retrieved[groups.boundaries[-2] :] = False
    return labels.astype(float), groups, retrieved, np.round(rng.normal(size=groups.n_rows), 1)


def judged(truth: Truth) -> tuple[Judgments, Judgments]:
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


def both(metrics: list[str], ties: str, truth: Truth) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    parsed = [dataclasses.replace(parse_metric(one), ties=ties) for one in metrics]
    (everything, candidates), (_, _, retrieved, scores) = judged(truth), truth
    return (
        Binding(parsed, everything).per_query(scores, retrieved),
        Binding(parsed, candidates).per_query(scores[retrieved]),
    )


@pytest.mark.parametrize("ties", TIES)
def test_missed_documents_count_as_documents_that_the_ranking_leaves_out(ties: str) -> None:
    by_label = ties in ("worst", "best")  # which has no meaning for some
    able = [name for name in METRICS if not (by_label and name.startswith(("judged", "alpha", "err_ia")))]
    of_everything, of_candidates = both(able, ties, made(400))
    assert np.isfinite(of_everything).any(axis=1).all()
    np.testing.assert_array_equal(of_candidates, of_everything)


@pytest.mark.slow
@pytest.mark.parametrize("ties", TIES[:2])
def test_five_thousand_queries(ties: str) -> None:
    of_everything, of_candidates = both(METRICS, ties, made(5000, seed=7, longest=120))
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


@pytest.mark.long
def test_large_sets_are_bound_in_parts_with_what_was_missed() -> None:
    truth = made(30_000)
    (_, candidates), (_, _, retrieved, scores) = judged(truth), truth
    metrics = [parse_metric("ndcg@10"), parse_metric("spearman")]
    many = Judgments.checked(
        np.tile(candidates.pool.labels, 8),
        QueryGroups.from_sizes(np.tile(candidates.pool.groups.sizes, 8)),
        retrieved=np.tile(retrieved_in_pool(candidates), 8),
    )
    scores = np.tile(scores[retrieved], 8)
    assert many.groups.n_rows > 2_000_000
    whole = Binding(metrics, many).per_query(scores)
    np.testing.assert_array_equal(BoundOnce(metrics, many).per_query(scores), whole)
    np.testing.assert_array_equal(Binding(metrics, many, threads=2).per_query(scores), whole)


def retrieved_in_pool(judgments: Judgments) -> NDArray[np.bool_]:
    flags = np.zeros(judgments.pool.groups.n_rows, dtype=bool)
    flags[judgments.in_pool] = True
    return flags


def test_some_queries_alone_keep_what_they_missed() -> None:
    _, candidates = judged(made(60))
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
    truth = made(30, seed=4, longest=12)
    _, candidates = judged(truth)
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
    truth = made(200)
    (everything, candidates), (_, _, retrieved, scores) = judged(truth), truth
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
