"""The draws behind p-values and intervals: numbers that were published with a seed must come again."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltr_harness.comparison.stats.reference import (
    FlippedRows,
    distinct_columns,
    flipped_sums,
    half_of_flipped_sums,
    on_grid,
    parts_of_grid,
    uniform_below,
)


def whole(grid: np.ndarray) -> list[FlippedRows]:
    return [FlippedRows(np.arange(len(grid)), np.arange(grid.shape[1]), grid)]


def test_each_resample_takes_whole_words_of_the_stream() -> None:
    words = np.random.PCG64(7).random_raw(4).tolist()
    halves = [word >> shift & 0xFFFFFFFF for word in words for shift in (0, 32)]
    first, second = halves[0:3], halves[4:7]  # the second half of each row's second word is left over
    wanted = [[half * 10 >> 32 for half in row] for row in (first, second)]
    assert uniform_below(np.random.PCG64(7), 10, 2, 3).tolist() == wanted


@pytest.mark.parametrize(("n", "words"), [(40, 1), (64, 1), (65, 2), (300, 5)])
def test_each_sign_pattern_takes_whole_words_of_the_stream(n: int, words: int) -> None:
    stream = np.random.PCG64(7).random_raw(2 * words).tolist()
    bits = [
        word >> 8 * byte + place & 1 for word in stream for byte in range(8) for place in range(7, -1, -1)
    ]
    rows = bits[:n], bits[64 * words : 64 * words + n]  # what is left of a row's last word is left over
    [sums] = flipped_sums(whole(np.eye(n)), n, draws=2, seed=7)
    assert sums.tolist() == [[2.0 * bit - 1 for bit in row] for row in rows]


@given(
    n=st.integers(1, 200),
    m=st.integers(1, 40),
    draws=st.integers(1, 40),
    parts=st.integers(1, 5),
    seed=st.integers(0, 9),
)
def test_slices_have_the_signs_of_the_whole(n: int, m: int, draws: int, parts: int, seed: int) -> None:
    """However the rows are divided, and whether a column has all of its part's rows or none."""
    rng = np.random.default_rng(seed)
    part_of, own = rng.integers(0, parts, n), rng.integers(0, parts + 1, m)
    there = part_of[:, None] == own
    grid = np.where(there, rng.integers(-9, 10, (n, m)), 0).astype(float)
    [expected] = flipped_sums(whole(grid), n, draws, seed)
    [divided] = flipped_sums(parts_of_grid(grid, there), n, draws, seed)
    np.testing.assert_array_equal(divided, expected)


def test_equal_columns_are_of_one_kind() -> None:
    matrix = np.array([[1.0, 0.0, 1.0, 1.0], [0.0, 0.0, 0.0, 1.0]])
    first, which = distinct_columns(matrix)
    assert (first.tolist(), which.tolist()) == ([0, 1, 3], [0, 1, 0, 2])
    first, which = distinct_columns(matrix[:, :0])
    assert (first.tolist(), which.tolist()) == ([], [])


@pytest.mark.parametrize(("n", "sizes"), [(10, [7]), (40, [2, 2, 2, 1]), (200, [1] * 7)])
def test_blocks_hold_a_hundred_signs_or_a_single_draw(
    n: int, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ltr_harness.comparison.stats.reference._BLOCK_SIGNS", 100)
    assert [len(sums) for sums in flipped_sums(whole(np.ones((n, 1))), n, draws=7, seed=0)] == sizes


def test_each_column_has_the_finest_grid_whose_sums_are_exact() -> None:
    values = np.random.default_rng(1).normal(size=(100, 2)) * [1.0, 1e9]
    grid, unit = on_grid(values)
    assert np.abs(grid - values / unit).max() <= 0.5
    assert (100 * np.abs(grid).max(axis=0) < 2**52).all()
    assert (
        4 * 128 * np.abs(grid).max(axis=0) >= 2**52
    ).all()  # 128 rows of at most twice the size would not fit


def test_all_sign_patterns_of_two_queries() -> None:
    half = half_of_flipped_sums(np.array([[1.0, 10.0], [2.0, 30.0]]))
    assert sorted(np.concatenate([half, -half]).tolist()) == [[-3, -40], [-1, -20], [1, 20], [3, 40]]


@pytest.mark.parametrize("n", [1, 2, 5])
def test_half_of_the_sign_patterns_and_their_opposites_are_all(n: int) -> None:
    grid = np.random.default_rng(n).integers(-50, 50, (n, 3)).astype(float)
    half = half_of_flipped_sums(grid)
    every = [(np.array(signs) @ grid).tolist() for signs in product((-1, 1), repeat=n)]
    assert sorted(np.concatenate([half, -half]).tolist()) == sorted(every)


def test_nothing_to_flip_has_one_pattern() -> None:
    assert half_of_flipped_sums(np.empty((0, 2))).tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize(("n", "bits"), [(1, 51), (2, 51), (3, 50), (4, 50), (5, 49)])
def test_numbers_are_as_fine_as_their_sum_allows(n: int, bits: int) -> None:
    """Below 2**52 for any sum of n of them; one and two have the same grid."""
    grid, unit = on_grid(np.full((n, 1), 0.5))
    assert grid.tolist() == [[2.0 ** (bits - 1)]] * n
    assert unit.tolist() == [2.0**-bits]
