"""The random draws behind randomisation tests and bootstraps: seeded, shared by all columns, exact.

Two decisions make a p-value depend on its seed and its own data alone:

* The draws come straight from PCG64's stream, which NumPy never changes, and each draw uses a whole number
  of its 64-bit words; so block sizes, other columns, processors and threads change nothing.
* Values are first put on a grid of whole multiples of a power of two, so fine (2**-39 of the largest value
  for 6,000 queries) that it matters nowhere, yet coarse enough that every sum is an integer below 2**53.
  Such sums have no rounding error in whatever order a matrix product takes them, and ties between sums,
  frequent with reciprocal ranks, are ties on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ltr_harness.stats.moments import Floats

EXACT_UP_TO = 16  # non-zero differences: 65,536 sign patterns, no more work than drawing 10,000
_BLOCK_VALUES = 1 << 22  # of a block of draws: 32 MB as float64
_MANTISSA = 52

# Sums closer than this, relative to the sum of absolute values, are the same: the inputs' own last digits
# (metric values carry about 1e-16) must not decide whether a random sum "reaches" the observed one.
SAME_SUM = 1e-9


def on_grid(values: Floats) -> tuple[Floats, Floats]:
    """Whole numbers in proportion to `values` (NaN becomes 0), and the size of one unit per column.

    Args:
        values: (n, m), NaN where undefined.

    Returns:
        float64 (n, m) of integers, such that any sum of n of one column is below 2**52, and (m,) units.
    """
    filled = np.where(np.isnan(values), 0.0, values)
    bits = _MANTISSA - int(np.ceil(np.log2(max(len(values), 2))))
    _, exponent = np.frexp(np.abs(filled).max(axis=0, initial=0.0))
    grid: Floats = np.rint(np.ldexp(filled, bits - exponent))
    unit: Floats = np.ldexp(1.0, exponent - bits)
    return grid, unit


def slack(grid: Floats) -> Floats:
    """(m,): by how much, in grid units, two sums of a column may differ and still count as equal."""
    tolerance: Floats = len(grid) + SAME_SUM * np.abs(grid).sum(axis=0)
    return tolerance


def flipped_sums(grid: Floats, draws: int, seed: int) -> Iterator[Floats]:
    """Column sums under `draws` random sign patterns, one pattern for all columns, in blocks of draws.

    Args:
        grid: (n, m) integers from `on_grid`.
        draws: number of sign patterns.
        seed: of the patterns.

    Yields:
        float64 (block, m); the blocks add up to `draws`.
    """
    n = len(grid)
    words = -(-n // 64)
    generator = np.random.PCG64(seed)
    total = grid.sum(axis=0)
    for block in _blocks(n, draws):
        raw = generator.random_raw(block * words).astype("<u8", copy=False).view(np.uint8)
        plus = np.unpackbits(raw.reshape(block, words * 8), axis=1, count=n).astype(np.float64)
        yield 2 * (plus @ grid) - total


def all_flipped_sums(grid: Floats) -> Floats:
    """Column sums under every one of the 2**n sign patterns: (2**n, m); for n up to `EXACT_UP_TO`."""
    n = len(grid)
    plus = ((np.arange(1 << n)[:, None] >> np.arange(n)) & 1).astype(np.float64)
    sums: Floats = 2 * (plus @ grid) - grid.sum(axis=0)
    return sums


def bootstrap_means(values: Floats, draws: int, seed: int) -> Floats:
    """Means of `draws` resamples of the queries, with replacement; the same resamples for all columns.

    Columns with other undefined queries draw from their own defined ones.

    Args:
        values: (n, m), NaN where undefined.
        draws: number of resamples.
        seed: of the resamples.

    Returns:
        float64 (draws, m); NaN in a column without a defined value.
    """
    defined = ~np.isnan(values)
    means = np.full((draws, values.shape[1]), np.nan)
    patterns, group = np.unique(defined, axis=1, return_inverse=True)
    for index in range(patterns.shape[1]):
        columns = np.flatnonzero(group.reshape(-1) == index)
        rows = np.flatnonzero(patterns[:, index])
        if rows.size == 0:
            continue
        grid, unit = on_grid(values[np.ix_(rows, columns)])
        start = 0
        for counts in _resample_counts(rows.size, draws, seed):
            stop = start + len(counts)
            means[start:stop, columns] = (counts @ grid) * (unit / rows.size)
            start = stop
    return means


def _resample_counts(n: int, draws: int, seed: int) -> Iterator[Floats]:
    """How often each of n queries occurs in each resample: float64 (block, n)."""
    generator = np.random.PCG64(seed)
    for block in _blocks(n, draws):
        cells = uniform_below(generator, n, block, n)
        cells += np.arange(block)[:, None] * n
        yield np.bincount(cells.ravel(), minlength=block * n).reshape(block, n).astype(np.float64)


def uniform_below(generator: np.random.PCG64, n: int, rows: int, columns: int) -> NDArray[np.int64]:
    """(rows, columns) random integers in 0..n-1; each row takes a whole number of the stream's words.

    Args:
        generator: the stream of random words, which goes on.
        n: exclusive upper end.
        rows: of the result.
        columns: of the result.
    """
    words = -(-columns // 2)
    raw = generator.random_raw(rows * words).astype("<u8", copy=False).view("<u4")
    # The high half of a 32-bit number times n is uniform up to n / 2**32.
    scaled = raw.reshape(rows, 2 * words)[:, :columns].astype(np.uint64)
    scaled *= np.uint64(n)  # in place: these are the largest arrays of a comparison
    scaled >>= np.uint64(32)
    return scaled.view(np.int64)


def _blocks(n: int, draws: int) -> Iterator[int]:
    """Sizes of blocks of draws that together make `draws` and never hold more than `_BLOCK_VALUES` values."""
    size = max(1, _BLOCK_VALUES // n)
    for start in range(0, draws, size):
        yield min(size, draws - start)
