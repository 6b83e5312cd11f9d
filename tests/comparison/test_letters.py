"""Letters for all pairs: what they say must be what the test says, pair by pair."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltr_harness.comparison import Comparison, compare
from ltr_harness.comparison.contrasts import SystemResult, _common_letters, _letter, value_bounds
from tests.conftest import examples


def models(shifts: Sequence[float], n: int = 60, higher: bool = True) -> Comparison:
    rng = np.random.default_rng(1)
    query = rng.normal(0, 1, n)  # queries differ far more than models do
    systems = [
        SystemResult(
            f"m{at:02d}",
            np.array([f"q{q}" for q in range(n)]),
            {"ndcg@10": (query + shift + rng.normal(0, 0.1, n))[None]},
            ("1",),
            {"ndcg@10": higher},
        )
        for at, shift in enumerate(shifts)
    ]
    return compare(*systems, draws=1000)


def test_the_one_in_the_middle_has_both() -> None:
    assert models([0.0, 0.042, 0.08]).letters().groups == {"m02": ("a",), "m01": ("a", "b"), "m00": ("b",)}


def test_best_first_also_where_lower_is_better() -> None:
    assert list(models([0.5, 0.0, 1.0], higher=False).letters().groups) == ["m01", "m00", "m02"]


@pytest.mark.long
@examples(25)
@given(st.lists(st.sampled_from([0.0, 0.03, 0.06, 0.1, 0.2, 0.5]), min_size=2, max_size=8))
def test_a_common_letter_if_and_only_if_not_different(shifts: list[float]) -> None:
    comparison = models(shifts)
    found = comparison.letters()
    for pair in comparison.all_pairs():
        shared = set(found.groups[pair.model]) & set(found.groups[pair.other])
        assert bool(shared) == (not pair.p_corrected < 0.05)
        assert (pair.p_corrected < 0.05) == (pair.ci_low > 0 or pair.ci_high < 0)


def test_seeds_count_in_letters() -> None:
    """Two methods alike but for training luck, on many queries: the seeds' spread says that nothing is shown."""
    rng = np.random.default_rng(1)
    query = rng.normal(0.5, 0.1, 400)
    ids = np.array([f"q{at}" for at in range(400)])
    methods = [
        SystemResult(
            name,
            ids,
            {"mrr": query + 0.02 * luck[:, None] + 0.02 * rng.normal(size=(3, 400))},
            ("1", "2", "3"),
            {"mrr": True},
            seeded=True,
        )
        for name, luck in (("a", np.array([1.0, 0.2, -0.4])), ("b", np.array([-1.2, 0.1, 0.3])))
    ]
    comparison = compare(*methods, draws=1000)
    (pair,) = comparison.all_pairs()
    assert pair.trained_p_corrected < 0.05 < pair.p_corrected, "of the trained models, not of the methods"
    assert comparison.letters().groups == {"a": ("a",), "b": ("a",)}


def test_a_model_may_differ_from_its_neighbour_alone() -> None:
    """The one in the middle is measured closely, the others are not."""
    alike = [[True, False, True], [False, True, True], [True, True, True]]
    assert _common_letters(np.array(alike)) == [("a",), ("b",), ("a", "b")]


def test_no_pair_that_is_alike_is_without_a_letter_where_no_three_are() -> None:
    """Each differs from one alone: four pairs, four letters."""
    alike = [
        [True, True, True, False],
        [True, True, False, True],
        [True, False, True, True],
        [False, True, True, True],
    ]
    assert _common_letters(np.array(alike)) == [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]


def test_no_letter_says_what_another_does() -> None:
    alike = [[abs(i - j) <= 1 for j in range(4)] for i in range(4)]
    assert _common_letters(np.array(alike)) == [("a",), ("a", "b"), ("b", "c"), ("c",)]
    assert _common_letters(np.ones((3, 3), dtype=bool)) == [("a",)] * 3


@pytest.mark.long
def test_thirty_models_that_all_differ() -> None:
    groups = models([float(at) for at in range(30)], n=20).letters().groups
    assert groups["m29"] == ("a",)
    assert groups["m00"] == ("ad",)
    assert len(set(groups.values())) == 30


def test_the_fewest_queries_of_a_pair_are_said() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(3, 30))
    values[0] += 5
    values[0, :2] = np.nan
    ids = np.array([f"q{q}" for q in range(30)])
    found = compare(
        *(
            SystemResult(name, ids, {"mrr": row[None]}, ("1",), {"mrr": True})
            for name, row in zip("abc", values, strict=True)
        )
    ).letters()
    assert (found.n, len(ids) - found.n) == (28, 2)
    assert next(iter(found.groups)) == "a"


def test_a_few_queries_are_enough_to_test_and_fewer_are_not() -> None:
    assert models([0.0, 9.0], n=6).letters().groups == {"m01": ("a",), "m00": ("b",)}
    assert models([0.0, 9.0], n=2).letters().groups == {"m01": ("a",), "m00": ("a",)}  # p >= 1/2


@pytest.mark.parametrize("n", [0, 1])
def test_nothing_to_test(n: int) -> None:
    values = np.full(4, np.nan)
    values[:n] = 0.5
    ids = np.array(["a", "b", "c", "d"])
    found = compare(
        *(SystemResult(name, ids, {"mrr": values[None]}, ("1",), {"mrr": True}) for name in "xyz")
    ).letters()
    assert set(found.groups.values()) == {()}


def test_letters_beyond_z() -> None:
    found = [_letter(number) for number in (0, 25, 26, 27, 51, 52, 701, 702)]
    assert found == ["a", "z", "aa", "ab", "az", "ba", "zz", "aaa"]


def test_values_beyond_the_bounds_of_their_name_have_none() -> None:
    def system_of(values: list[float]) -> SystemResult:
        return SystemResult("a", np.array(["q", "r"]), {"mrr": np.array([values])}, ("1",), {"mrr": True})

    assert value_bounds([system_of([0.0, 1.0])], "mrr") == (0.0, 1.0)
    for beyond in ([0.0, 1.5], [-0.1, 1.0]):
        assert value_bounds([system_of([0.0, 1.0]), system_of(beyond)], "mrr") == (-math.inf, math.inf)
