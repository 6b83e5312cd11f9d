"""Within and mix by hand, where cells are missing, and with the errors that plain differences have."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from ltr_harness.comparison.stats.two_samples import Sample, difference
from ltr_harness.monitoring.stats.adjustment import Decomposition, decompose
from tests.conftest import examples


def test_cells_that_one_side_lacks_are_no_mix() -> None:
    now = Sample(np.array([0.2, 0.4, 0.9])), np.array([0, 0, 2])  # shares 2/3 and 1/3, means .3 and .9
    before = (
        Sample(np.array([0.5, 0.6, 0.8, 0.1])),
        np.array([0, 1, 1, 4]),
    )  # shares 1/4, 1/2, 1/4; means .5, .7, .1
    found = decompose(*now, *before)
    assert found.within.value == pytest.approx(0.3 - 0.5)  # cell 0, the only one that both have
    assert found.mix.value == 0.0
    # what else there is now is better than cell 0 by .6, a third of all; what else there was, by 0
    assert found.unmatched.value == pytest.approx(1 / 3 * (0.9 - 0.3) - 3 / 4 * (0.5 - 0.5))
    assert found.total.value == pytest.approx(0.5 - 0.5)
    assert found.unmatched_share == pytest.approx(1 / 3)
    assert found.adjusted == pytest.approx(0.3)  # today's mean, yesterday's shares
    assert found.counts.tolist() == [[2, 0, 1, 0, 0], [1, 2, 0, 0, 1]]
    np.testing.assert_allclose(found.means[0], [0.3, np.nan, 0.9, np.nan, np.nan])
    np.testing.assert_allclose(found.means[1], [0.5, 0.7, np.nan, np.nan, 0.1])
    assert found.total.n == found.mix.n == found.within.n == found.unmatched.n == 7
    swapped = decompose(*before, *now)
    assert swapped.unmatched.value == pytest.approx(-found.unmatched.value)
    assert swapped.unmatched.error == pytest.approx(found.unmatched.error)
    assert swapped.counts.shape == (2, 5)


def test_nothing_in_common_is_nothing_to_compare() -> None:
    found = decompose(
        Sample(np.array([0.1, 0.3])), np.array([2, 3]), Sample(np.array([0.5, 0.9])), np.array([0, 1])
    )
    assert found.total.value == pytest.approx(-0.5)
    assert np.isnan([found.mix.value, found.within.value, found.unmatched.value, found.adjusted]).all()
    assert (found.unmatched_share, found.mix_p, found.unmatched_p) == (1.0, 1.0, 1.0)


def test_cells_may_be_set_apart() -> None:
    """One missing value before and a hundred now are no cell that both sides have."""
    random = np.random.default_rng(5)
    values, cells = random.random(300), np.repeat([0, 1, 2], 100)
    other, other_cells = random.random(101), np.append(np.repeat([0, 1], 50), 2)
    apart = decompose(
        Sample(values), cells, Sample(other), other_cells, excluded=np.array([False, False, True])
    )
    gone = decompose(Sample(values), cells, Sample(other[:100]), other_cells[:100])
    assert apart.mix.value == pytest.approx(gone.mix.value)
    assert apart.within.value == pytest.approx(gone.within.value)
    assert apart.unmatched_share == gone.unmatched_share == pytest.approx(1 / 3)


def test_where_queries_of_a_cell_are_alike_all_is_mix() -> None:
    random = np.random.default_rng(0)
    cells, other_cells = random.integers(0, 2, 40), random.integers(0, 2, 25)
    worth, users = np.array([0.1, 0.5, 0.9]), np.arange(40) // 2
    one, other = Sample(worth[cells], users), Sample(worth[other_cells], np.arange(25) // 2 + 10)
    found = decompose(one, cells, other, other_cells, confidence=0.9)
    plain = difference(one, other, alternative="change", confidence=0.9)
    assert found.total == plain
    assert (found.mix.value, found.mix.low) == pytest.approx((plain.value, plain.low))
    assert (found.within.value, found.within.error) == pytest.approx((0, 0), abs=1e-12)
    assert (found.unmatched.value, found.unmatched.error) == pytest.approx((0, 0), abs=1e-12)


@pytest.mark.long
@examples(60)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 6))
def test_the_parts_are_the_whole_and_change_sign(seed: int, n_cells: int, m_cells: int) -> None:
    random = np.random.default_rng(seed)
    one, other = Sample(random.random(20)), Sample(random.random(15))
    cells, other_cells = random.integers(0, n_cells, 20), random.integers(0, m_cells, 15)
    found = decompose(one, cells, other, other_cells)
    parts = found.within, found.mix, found.unmatched
    if found.unmatched_share == 1:
        assert np.isnan([part.value for part in parts]).all()
        return
    assert sum(part.value for part in parts) == pytest.approx(found.total.value, abs=1e-12)
    back = decompose(other, other_cells, one, cells)
    for part, mirrored in zip(parts, (back.within, back.mix, back.unmatched), strict=True):
        assert mirrored.value == pytest.approx(-part.value, abs=1e-12)
        assert mirrored.error == pytest.approx(part.error, nan_ok=True)
    assert (back.mix_p, back.unmatched_p) == pytest.approx((found.mix_p, found.unmatched_p))


@pytest.mark.long
def test_a_cell_of_few_queries_explains_nothing_by_chance() -> None:
    """Ten queries of a value before, and half of all now: their mean is luck, and the mix made of it is too."""
    random = np.random.default_rng(7)
    rejected = 0
    for _ in range(150):
        now, before = random.beta(8, 2, 1000) - 0.05, random.beta(8, 2, 1000)
        cells, other_cells = (np.arange(1000) % 2), (np.arange(1000) >= 990).astype(int)
        rejected += decompose(Sample(now), cells, Sample(before), other_cells).mix_p <= 0.05
    assert rejected <= 0.08 * 150


@pytest.mark.long
def test_users_who_repeat_themselves_are_chance_too() -> None:
    random = np.random.default_rng(8)
    rejected = 0
    for _ in range(150):
        users = np.repeat(np.arange(60), 10)
        cell, other_cell = random.integers(0, 2, 60)[users], (random.random(60) < 0.3).astype(int)[users]
        one, other = (
            Sample(random.normal(0.7, 0.1, 60)[users] + 0.05 * random.standard_normal(600), users + shift)
            for shift in (0, 60)
        )
        rejected += decompose(one, cell, other, other_cell).mix_p <= 0.05
    assert rejected <= 0.09 * 150


def test_the_error_of_within_by_moving_one_query_after_the_other() -> None:
    """A query's influence is how far a little more of its weight moves the number."""
    random = np.random.default_rng(1)
    n, m = 12, 9
    cells, other_cells = np.arange(n) % 2, np.arange(m) % 2
    values, other_values = random.random(n), random.random(m)

    def within_cells(weights: np.ndarray, other_weights: np.ndarray) -> float:
        total = 0.0
        for cell in (0, 1):
            (w, mean), (v, reference) = (
                (side[c == cell].sum() / side.sum(), np.average(x[c == cell], weights=side[c == cell]))
                for side, c, x in ((weights, cells, values), (other_weights, other_cells, other_values))
            )
            total += (w + v) / 2 * (mean - reference)
        return total

    at, squares = within_cells(np.ones(n), np.ones(m)), []
    for size, which in ((n, 0), (m, 1)):
        moved = []
        for i in range(size):
            weights = [np.ones(n), np.ones(m)]
            weights[which][i] += 1e-5
            moved.append((within_cells(*weights) - at) / 1e-5)
        squares.append(size / (size - 1) * np.sum(np.square(moved)))
    found = decompose(Sample(values), cells, Sample(other_values), other_cells)
    assert found.within.value == pytest.approx(at)
    assert found.within.error == pytest.approx(np.sqrt(sum(squares)), rel=1e-4)


@pytest.mark.parametrize("cells", [[0, 0, 1, 1], [0, 0, 1, 2]])
def test_chance_is_that_of_every_order(cells: list[int]) -> None:
    """All 4! 3! orders: their mean and variance are known exactly, and a normal distribution is laid over them."""
    values, other = np.array([0.1, 0.4, 0.5, 0.9]), np.array([0.2, 0.3, 0.8])

    def parts(one: Sequence[int], two: Sequence[int]) -> Decomposition:
        now, before = Sample(values[list(one)]), Sample(other[list(two)])
        return decompose(now, np.array(cells), before, np.array([0, 1, 1]))

    found = parts(range(4), range(3))
    orders = [parts(one, two) for one, two in product(permutations(range(4)), permutations(range(3)))]
    for part, chance in (("mix", found.mix_p), ("unmatched", found.unmatched_p)):
        by_order = np.array([getattr(one, part).value for one in orders])
        if np.abs(by_order).max() < 1e-12:  # all cells are of both
            assert (part, chance) == ("unmatched", 1.0)
            continue
        off = abs(getattr(found, part).value - by_order.mean()) / by_order.std()
        assert chance == pytest.approx(2 * ndtr(-off))
