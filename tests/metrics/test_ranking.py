"""The selection of the top rows gives, bit for bit, what a plain stable sort gives."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.errors import DataError, MetricError
from ltr_harness.metrics.core.ranking import Ranking, RowRanker, Ties
from tests.conftest import examples, named_case

TINY = 5e-324  # the smallest denormal


def rank_by_sorting(labels, sizes, scores, ties: Ties, depth, ids=None) -> list[tuple[list[int], list[int]]]:
    """Rows and tie ends of each query by sorting tuples; the whole list's rule in four lines."""
    lists = []
    start = 0
    for size in sizes:
        rows = list(range(start, start + size))
        if ties == "id":
            # document id descending: a stable reversal of the ascending order keeps equal ids in order
            rows.sort(key=lambda row: ids[row])
            rows = rows[::-1]
        elif ties != "stable":
            rows.sort(key=lambda row: -labels[row] if ties == "best" else labels[row])
        rows.sort(key=lambda row: -scores[row])
        want = min(depth or size, size)
        if ties == "expected":
            while want < size and scores[rows[want]] == scores[rows[want - 1]]:
                want += 1
            last = {scores[row]: rank for rank, row in enumerate(rows, start=1)}
            ends = [last[scores[row]] for row in rows[:want]]
        else:
            ends = list(range(1, want + 1))
        lists.append((rows[:want], ends))
        start += size
    return lists


def lists_of(ranking: Ranking) -> list[tuple[list[int], list[int]]]:
    bounds = list(zip(ranking.offsets[:-1], ranking.offsets[1:], strict=True))
    return [(ranking.rows[a:b].tolist(), ranking.tie_end[a:b].tolist()) for a, b in bounds]


def make_judgments(labels, sizes, ids=None) -> Judgments:
    return Judgments.checked(labels, QueryGroups.from_sizes(sizes), document_ids=ids)


def scores_of_shape(shape: str, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Scores of the kinds that go wrong."""
    if shape == "random":
        return rng.normal(size=n)
    if shape == "few":
        return rng.integers(0, 4, size=n).astype(float)
    if shape == "leaves":  # a model of one tree
        return rng.normal(size=31)[rng.integers(0, 31, size=n)]
    if shape == "constant":
        return np.full(n, 1.5)
    if shape == "ascending":
        return np.arange(n, dtype=float)
    if shape == "descending":
        return -np.arange(n, dtype=float)
    if shape == "period":  # every lane of the selection sees one value only
        return (np.arange(n) % 16).astype(float)
    if shape == "mostly_equal":
        return np.where(rng.random(n) < 0.03, rng.normal(size=n), 0.0)
    extremes = [np.inf, -np.inf, 0.0, -0.0, TINY, -TINY, 2 * TINY, 1e308, -1e308, 1.0, 1.0 + 2.0**-52]
    return np.array(extremes)[rng.integers(0, len(extremes), size=n)]


SHAPES = (
    "random",
    "few",
    "leaves",
    "constant",
    "ascending",
    "descending",
    "period",
    "mostly_equal",
    "extremes",
)


@pytest.mark.long
@examples(250)
@given(
    sizes=st.lists(st.integers(1, 300), min_size=1, max_size=5),
    depth=st.one_of(st.none(), st.integers(1, 70), st.integers(240, 270)),
    shape=st.sampled_from(SHAPES),
    ties=st.sampled_from(["expected", "stable", "worst", "best", "id"]),
    unit=st.sampled_from([1.0, 0.5]),
    seed=st.integers(0, 2**32 - 1),
)
def test_lists_equal_a_plain_stable_sort(sizes, depth, shape, ties, unit, seed) -> None:
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    labels = unit * rng.integers(0, 5, size=n)  # halves are no grades, which ties are ordered by otherwise
    scores = scores_of_shape(shape, n, rng)
    ids = [f"d{i:04d}" for i in rng.permutation(n)]
    ranking = RowRanker(make_judgments(labels, sizes, ids), ties, depth).rank(scores)
    lists = rank_by_sorting(labels, sizes, scores, ties, depth, ids)
    assert lists_of(ranking) == lists
    has_ties = [ends != list(range(1, len(ends) + 1)) for _, ends in lists]
    assert not np.any(has_ties & ~ranking.tied)  # loops pass over ties of the other queries


def test_nan_is_found_in_every_row() -> None:
    sizes = [1, 2, 15, 16, 17, 70]
    n = sum(sizes)
    for shape, depth in product(["random", "descending"], [1, 10, 300, None]):
        with named_case((shape, depth)):
            ranker = RowRanker(make_judgments(np.zeros(n), sizes), "expected", depth)
            for row, query in enumerate(np.repeat(np.arange(len(sizes)), sizes).tolist()):
                scores = scores_of_shape(shape, n, np.random.default_rng(0))
                scores[row] = np.nan
                with pytest.raises(DataError, match=f"score is NaN in query '{query}'"):
                    ranker.rank(scores)


@pytest.mark.parametrize("shape", SHAPES)
def test_lists_longer_than_any_run_or_lane(shape) -> None:
    rng = np.random.default_rng(5)
    sizes = [3000, 1, 129, 128, 127, 512, 16, 17]
    labels = rng.integers(0, 5, size=sum(sizes)).astype(float)
    scores = scores_of_shape(shape, sum(sizes), rng)
    judgments = make_judgments(labels, sizes)
    for depth, ties in product([1, 2, 10, 12, 13, 64, 65, 256, 257, None], ["expected", "stable"]):
        ranking = RowRanker(judgments, ties, depth).rank(scores)
        assert lists_of(ranking) == plainly_fast(labels, sizes, scores, ties, depth), (depth, ties)


def plainly_fast(labels, sizes, scores, ties, depth):
    """`plainly` with NumPy, for lists on which its counting of tie ends would take too long."""
    lists = []
    start = 0
    for size in sizes:
        own = scores[start : start + size]
        keys = np.arange(size) if ties == "stable" else labels[start : start + size]
        order = np.lexsort((np.arange(size), keys, -own))
        want = min(depth or size, size)
        ends = np.arange(1, want + 1)
        if ties == "expected":
            want = int(np.sum(own >= own[order[want - 1]]))
            ends = np.searchsorted(-own[order], -own[order[:want]], side="right")
        lists.append(((start + order[:want]).tolist(), ends.tolist()))
        start += size
    return lists


@pytest.mark.slow
def test_every_depth_on_every_size() -> None:
    rng = np.random.default_rng(11)
    sizes = list(range(1, 301))
    labels = rng.integers(0, 3, size=sum(sizes)).astype(float)
    for shape in SHAPES:
        scores = scores_of_shape(shape, sum(sizes), rng)
        for depth in range(1, 71):
            ranking = RowRanker(make_judgments(labels, sizes), "expected", depth).rank(scores)
            assert lists_of(ranking) == plainly_fast(labels, sizes, scores, "expected", depth), (shape, depth)


def test_all_rows_of_a_tie_at_the_cutoff_are_listed() -> None:
    ranking = RowRanker(make_judgments([0, 2, 1, 0], [4]), "expected", 2).rank(np.array([1.0, 3.0, 1.0, 1.0]))
    # rank 1 is alone; ranks 2 to 4 tie, lowest label first
    assert lists_of(ranking) == [([1, 0, 3, 2], [1, 4, 4, 4])]


def test_infinities_and_signed_zeros_rank_as_numbers_do() -> None:
    scores = np.array([-math.inf, 0.0, math.inf, -0.0, -TINY])
    ranking = RowRanker(make_judgments([0, 0, 0, 1, 0], [5]), "expected", None).rank(scores)
    assert lists_of(ranking) == [([2, 1, 3, 4, 0], [1, 3, 3, 4, 5])]  # 0.0 and -0.0 tie


def test_a_ranking_is_not_changed_by_the_next_one() -> None:
    ranker = RowRanker(make_judgments([0, 1, 2], [3]), "expected", 2)
    first = ranker.rank(np.array([3.0, 2.0, 1.0]))
    tied = ranker.rank(np.array([1.0, 1.0, 1.0]))
    again = ranker.rank(np.array([3.0, 2.0, 1.0]))
    assert lists_of(first) == lists_of(again) == [([0, 1], [1, 2])]
    assert lists_of(tied) == [([0, 1, 2], [3, 3, 3])]


def test_ids_are_needed_for_ties_by_id() -> None:
    with pytest.raises(
        MetricError, match="ties=id orders tied documents by document id; expected document_ids"
    ):
        RowRanker(make_judgments([0, 1], [2]), "id", 2)


def test_many_queries_of_one_row() -> None:
    n = 200_000
    ranking = RowRanker(make_judgments(np.zeros(n), np.ones(n, dtype=int)), "expected", 10).rank(np.zeros(n))
    assert np.array_equal(ranking.rows, np.arange(n))
    assert np.array_equal(ranking.tie_end, np.ones(n))


@pytest.mark.parametrize(
    ("labels", "compact"),
    [([0, 3, 1, 3], True), ([0, 255, 7, 7], True), ([0, 256, 7, 7], False), ([0, 2.5, 1, 2.5], False)],
)
def test_values_by_grade_are_the_values_by_row(labels, compact) -> None:
    ranking = RowRanker(make_judgments(labels, [4]), "expected", 3).rank(np.array([1.0, 4.0, 2.0, 3.0]))
    worth = np.sqrt(np.array(labels, dtype=float))
    table = np.sqrt(ranking.judgments.label_table)
    assert table[ranking.labels].tolist() == worth[ranking.rows].tolist() == worth[[1, 3, 2]].tolist()
    assert ranking.judgments.of_rows(table).tolist() == worth.tolist()
    flags = ranking.judgments.label_table > 2
    assert ranking.judgments.count_rows(flags).tolist() == [sum(label > 2 for label in labels)]
    assert (ranking.judgments.grades is not None) == compact
