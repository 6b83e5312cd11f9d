"""Within and mix by hand, where cells are missing, and with the errors that plain differences have."""

from __future__ import annotations

import numpy as np
import pytest

from ltr_harness.stats.decomposition import decompose
from ltr_harness.stats.two_samples import Sample, difference


def test_cells_that_one_side_lacks_are_all_mix() -> None:
    now = Sample(np.array([0.2, 0.4, 0.9])), np.array([0, 0, 2])  # shares 2/3 and 1/3, means .3 and .9
    before = (
        Sample(np.array([0.5, 0.6, 0.8, 0.1])),
        np.array([0, 1, 1, 4]),
    )  # shares 1/4, 1/2, 1/4; means .5, .7, .1
    found = decompose(*now, *before)
    mix = (2 / 3 - 1 / 4) * 0.4 + (0 - 1 / 2) * 0.7 + 1 / 3 * 0.9 + (0 - 1 / 4) * 0.1
    assert found.mix.value == pytest.approx(mix)
    assert found.within.value == pytest.approx((2 / 3 + 1 / 4) / 2 * (0.3 - 0.5))
    assert found.total.value == pytest.approx(0.5 - 0.5)
    assert found.adjusted == pytest.approx(
        1 / 4 * 0.3 + 1 / 2 * 0.7 + 1 / 4 * 0.1
    )  # today's means, yesterday's shares
    assert found.counts.tolist() == [[2, 0, 1, 0, 0], [1, 2, 0, 0, 1]]
    np.testing.assert_allclose(found.means[0], [0.3, np.nan, 0.9, np.nan, np.nan])
    np.testing.assert_allclose(found.means[1], [0.5, 0.7, np.nan, np.nan, 0.1])
    assert found.total.n == found.mix.n == found.within.n == 7
    swapped = decompose(*before, *now)
    assert swapped.mix.value == pytest.approx(-mix)
    assert swapped.mix.error == pytest.approx(found.mix.error)
    assert swapped.counts.shape == (2, 5)


def test_where_queries_of_a_cell_are_alike_all_is_mix() -> None:
    random = np.random.default_rng(0)
    cells, other_cells = random.integers(0, 3, 40), random.integers(0, 2, 25)
    worth, users = np.array([0.1, 0.5, 0.9]), np.arange(40) // 2
    one, other = Sample(worth[cells], users), Sample(worth[other_cells], np.arange(25) // 2 + 10)
    found = decompose(one, cells, other, other_cells, confidence=0.9)
    plain = difference(one, other, alternative="change", confidence=0.9)
    assert found.total == plain
    assert (found.mix.value, found.mix.low) == pytest.approx((plain.value, plain.low))
    assert (found.within.value, found.within.error) == pytest.approx((0, 0), abs=1e-12)


def test_the_error_of_within_by_moving_one_query_after_the_other() -> None:
    """A query's influence is how far a little more of its weight moves the number."""
    random = np.random.default_rng(1)
    n, m = 12, 9
    cells, other_cells = np.arange(n) % 2, np.arange(m) % 2
    values, other_values = random.random(n), random.random(m)

    def within(weights: np.ndarray, other_weights: np.ndarray) -> float:
        total = 0.0
        for cell in (0, 1):
            (w, mean), (v, reference) = (
                (side[c == cell].sum() / side.sum(), np.average(x[c == cell], weights=side[c == cell]))
                for side, c, x in ((weights, cells, values), (other_weights, other_cells, other_values))
            )
            total += (w + v) / 2 * (mean - reference)
        return total

    at, squares = within(np.ones(n), np.ones(m)), []
    for size, which in ((n, 0), (m, 1)):
        moved = []
        for i in range(size):
            weights = [np.ones(n), np.ones(m)]
            weights[which][i] += 1e-5
            moved.append((within(*weights) - at) / 1e-5)
        squares.append(size / (size - 1) * np.sum(np.square(moved)))
    found = decompose(Sample(values), cells, Sample(other_values), other_cells)
    assert found.within.value == pytest.approx(at)
    assert found.within.error == pytest.approx(np.sqrt(sum(squares)), rel=1e-4)
