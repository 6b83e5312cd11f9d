"""Splits: whole queries, every query once, the same on every machine."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltr_harness.data.queries import QueryGroups
from ltr_harness.data.splits import folds, holdout, shuffled
from ltr_harness.errors import DataError


def groups(n: int) -> QueryGroups:
    return QueryGroups.from_sizes(np.arange(1, n + 1))


def test_the_same_split_for_ever() -> None:
    # The first raw draws of PCG64(1): 9441442522235856127, 17532960557476522086, 2659275481604167885, ...
    assert shuffled(3, seed=1).tolist() == [2, 0, 1]
    kept, held = holdout(groups(10), 0.3, seed=7)
    assert held.tolist() == [3, 4, 6]
    assert kept.tolist() == sorted(set(range(10)) - set(held.tolist()))


@pytest.mark.long
@given(st.integers(2, 200), st.floats(0.01, 0.99), st.integers(0, 2**31 - 1))
def test_holdout_is_a_partition(n: int, fraction: float, seed: int) -> None:
    try:
        kept, held = holdout(groups(n), fraction, seed)
    except DataError:
        assert round(fraction * n) in (0, n) or n * fraction % 1 == 0.5
        return
    assert sorted([*kept, *held]) == list(range(n))
    assert abs(len(held) - fraction * n) <= 0.5
    assert np.all(np.diff(kept) > 0)
    assert np.all(np.diff(held) > 0)
    assert kept.dtype == held.dtype == np.int64


def test_seeds_differ() -> None:
    drawn = {tuple(holdout(groups(50), 0.2, seed)[1]) for seed in range(20)}
    assert len(drawn) == 20


def test_every_query_is_about_equally_often_held_out() -> None:
    counts = np.zeros(10)
    for seed in range(1000):
        counts[holdout(groups(10), 0.3, seed)[1]] += 1
    # 1000 draws with p = 0.3: standard deviation 14.5; five of them either side.
    assert np.all(np.abs(counts - 300) < 5 * 14.5)


@pytest.mark.parametrize(
    ("n", "fraction", "message"),
    [
        (10, 0.0, "expected a share above 0 and below 1"),
        (10, 1.0, "expected a share above 0 and below 1"),
        (10, float("nan"), "expected a share above 0 and below 1"),
        (2, 0.1, "a holdout of 0.1 of 2 queries leaves none held out"),
        (2, 0.9, "a holdout of 0.9 of 2 queries leaves none kept"),
    ],
)
def test_impossible_holdouts(n: int, fraction: float, message: str) -> None:
    with pytest.raises(DataError, match=message):
        holdout(groups(n), fraction, seed=0)


@pytest.mark.long
@given(st.integers(3, 60), st.integers(3, 10), st.integers(0, 1000))
def test_folds_test_every_query_once(n_queries: int, n: int, seed: int) -> None:
    if n_queries < n:
        with pytest.raises(DataError, match=f"{n} folds of {n_queries} queries"):
            folds(groups(n_queries), n, seed)
        return
    divided = folds(groups(n_queries), n, seed)
    assert len(divided) == n
    assert sorted(np.concatenate([test for _, _, test in divided])) == list(range(n_queries))
    for i, (train, valid, test) in enumerate(divided):
        assert sorted([*train, *valid, *test]) == list(range(n_queries))
        assert min(len(train), len(valid), len(test)) >= 1
        assert valid.tolist() == divided[(i + 1) % n][2].tolist()
    sizes = [len(test) for _, _, test in divided]
    assert max(sizes) - min(sizes) <= 1


def test_two_folds_and_negative_seeds_are_refused() -> None:
    with pytest.raises(DataError, match="2 folds; expected at least 3"):
        folds(groups(10), 2, 0)
    with pytest.raises(DataError, match="seed is -1"):
        holdout(groups(10), 0.2, -1)
