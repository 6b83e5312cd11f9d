"""Letters for all pairs: what they say must be what the test says, pair by pair."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ltr_harness.comparison import Comparison, Entrant, compare
from ltr_harness.comparison.letters import _shared
from ltr_harness.stats.blocked_tukey import blocked_tukey


def models(shifts: Sequence[float], n: int = 60, higher: bool = True) -> Comparison:
    rng = np.random.default_rng(1)
    query = rng.normal(0, 1, n)  # queries differ far more than models do
    entrants = [
        Entrant(
            f"m{at:02d}",
            np.array([f"q{q}" for q in range(n)]),
            {"ndcg@10": (query + shift + rng.normal(0, 0.1, n))[None]},
            ("1",),
            {"ndcg@10": higher},
        )
        for at, shift in enumerate(shifts)
    ]
    return compare(*entrants)


def test_the_one_in_the_middle_has_both() -> None:
    assert models([0.0, 0.042, 0.08]).letters().groups == {"m02": ("a",), "m01": ("a", "b"), "m00": ("b",)}


def test_best_first_also_where_lower_is_better() -> None:
    assert list(models([0.5, 0.0, 1.0], higher=False).letters().groups) == ["m01", "m00", "m02"]


@pytest.mark.long
@settings(deadline=None, max_examples=25)
@given(st.lists(st.sampled_from([0.0, 0.03, 0.06, 0.1, 0.2, 0.5]), min_size=2, max_size=12))
def test_a_common_letter_if_and_only_if_not_different(shifts: list[float]) -> None:
    comparison = models(shifts)
    found = comparison.letters()
    tested = blocked_tukey(np.stack([one.per_query("ndcg@10") for one in comparison.entrants], axis=1))
    for i, one in enumerate(comparison.models):
        for j, other in enumerate(comparison.models):
            shared = bool(set(found.groups[one]) & set(found.groups[other]))
            assert shared == (i == j or not tested.p[i, j] < 0.05)


def test_no_letter_says_what_another_does() -> None:
    alike = [[abs(i - j) <= 1 for j in range(4)] for i in range(4)]
    assert _shared(alike) == [("a",), ("a", "b"), ("b", "c"), ("c",)]
    assert _shared([[True] * 3] * 3) == [("a",)] * 3


@pytest.mark.long
def test_forty_models_that_all_differ() -> None:
    groups = models([float(at) for at in range(40)]).letters().groups
    assert groups["m39"] == ("a",)
    assert groups["m00"] == ("an",)
    assert len(set(groups.values())) == 40


def test_only_whole_queries_are_counted() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(3, 30))
    values[0] += 5
    values[0, :2] = np.nan
    ids = np.array([f"q{q}" for q in range(30)])
    found = compare(
        *(
            Entrant(name, ids, {"mrr": row[None]}, ("1",), {"mrr": True})
            for name, row in zip("abc", values, strict=True)
        )
    ).letters()
    assert (found.n, found.n_dropped) == (28, 2)
    assert next(iter(found.groups)) == "a"


def test_two_queries_are_enough_to_test() -> None:
    assert models([0.0, 9.0], n=2).letters().groups == {"m01": ("a",), "m00": ("b",)}


@pytest.mark.parametrize("n", [0, 1])
def test_nothing_to_test(n: int) -> None:
    values = np.full(4, np.nan)
    values[:n] = 0.5
    ids = np.array(["a", "b", "c", "d"])
    found = compare(
        *(Entrant(name, ids, {"mrr": values[None]}, ("1",), {"mrr": True}) for name in "xyz")
    ).letters()
    assert set(found.groups.values()) == {()}
