"""The random draws behind randomisation tests and bootstraps: seeded, shared by all columns, exact.

Two decisions make a p-value depend on its seed and its own data alone:

* The draws come straight from PCG64's stream, which NumPy never changes, and each draw uses a whole number
  of its 64-bit words; so block sizes, other columns, processors and threads change nothing.
* Values are first put on a grid of whole multiples of a power of two, so fine (2**-39 of the largest value
  for 6,000 queries) that it matters nowhere, yet coarse enough that every sum is an integer below 2**53.
  Such sums have no rounding error in whatever order they are taken, and ties between sums,
  frequent with reciprocal ranks, are ties on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ltr_harness.compiled import compiled
from ltr_harness.stats.moments import Floats

EXACT_UP_TO = 16  # non-zero differences: 65,536 sign patterns, no more work than drawing 10,000
_BLOCK_VALUES = 1 << 22  # of a block of draws: 32 MB as float64
_BLOCK_SIGNS = 1 << 25  # of a block of draws: 4 MB as bits
_BYTES_AT_ONCE = 32  # of a draw: a table of what every byte adds, 256 kB for four columns, stays in the cache
_MANTISSA = 52

# Sums closer than this, relative to the sum of absolute values, are the same: the inputs' own last digits
# (metric values carry about 1e-16) must not decide whether a random sum "reaches" the observed one.
SAME_SUM = 1e-9


def on_grid(values: Floats) -> tuple[Floats, Floats]:
    """Whole numbers in proportion to `values` (NaN becomes 0), and the size of one unit per column.

    Shapes: `values` (n, m).

    Returns:
        float64 (n, m) of integers, such that any sum of n of one column is below 2**52, and (m,) units.
    """
    filled = np.where(np.isnan(values), 0.0, values)
    bits = _MANTISSA - int(np.ceil(np.log2(max(len(values), 2))))
    _, exponent = np.frexp(np.abs(filled).max(axis=0, initial=0.0))
    grid: Floats = np.rint(np.ldexp(filled, bits - exponent))
    unit: Floats = np.ldexp(1.0, exponent - bits)
    return grid, unit


def flipped_sums(grid: Floats, draws: int, seed: int) -> Iterator[Floats]:
    """Column sums under `draws` random sign patterns, one pattern for all columns, in blocks of draws.

    Shapes: `grid` (n, m).

    Yields:
        float64 (block, m); the blocks add up to `draws`.
    """
    n = len(grid)
    words = -(-n // 64)
    generator = np.random.PCG64(seed)
    values = np.ascontiguousarray(grid.T)
    size = min(_BLOCK_SIGNS // n, _BLOCK_VALUES // max(len(values), 1))
    for block in _blocks(size, draws):
        raw = generator.random_raw(block * words).astype("<u8", copy=False).view(np.uint8)
        sums = np.zeros((len(values), block))
        _add_flipped(raw.reshape(block, words * 8), values, sums)
        yield sums.T


@compiled
def _add_flipped(signs: NDArray[np.uint8], values: Floats, sums: Floats) -> None:
    """Adds each column's values under each draw's signs: eight at a time, whose sum the byte of their signs finds.

    Shapes: `signs` (block, at least n / 8), `values` (m, n), `sums` (m, block).
    """
    m, n = values.shape
    table = np.zeros((_BYTES_AT_ONCE, 256, 4))
    for first in range(0, m, 4):
        width = min(4, m - first)
        for start in range(0, -(-n // 8), _BYTES_AT_ONCE):
            stop = min(start + _BYTES_AT_ONCE, -(-n // 8))
            for place in range(start, stop):
                for column in range(width):
                    own = values[first + column, 8 * place : 8 * place + 8]
                    table[place - start, 0, column] = 0.0
                    for value in own:  # not `own.sum()`, whose code has numba import SciPy's linear algebra
                        table[place - start, 0, column] -= value
                    for bit in range(8):
                        value = own[7 - bit] if 7 - bit < len(own) else 0.0
                        for byte in range(1 << bit):
                            table[place - start, byte + (1 << bit), column] = (
                                table[place - start, byte, column] + 2 * value
                            )
            for draw in range(len(signs)):
                one = two = three = four = 0.0
                for place in range(stop - start):
                    byte = signs[draw, start + place]
                    one += table[place, byte, 0]
                    two += table[place, byte, 1]
                    three += table[place, byte, 2]
                    four += table[place, byte, 3]
                sums[first, draw] += one
                if width > 1:
                    sums[first + 1, draw] += two
                if width > 2:
                    sums[first + 2, draw] += three
                if width > 3:
                    sums[first + 3, draw] += four


def all_flipped_sums(grid: Floats) -> Floats:
    """Column sums under every one of the 2**n sign patterns: (2**n, m); for n up to `EXACT_UP_TO`."""
    sums = np.empty((grid.shape[1], 1 << len(grid)))
    sums[:, 0] = -grid.sum(axis=0)
    for at, values in enumerate(2 * grid):  # each pattern so far, once more with another sign
        done = 1 << at
        np.add(sums[:, :done], values[:, None], out=sums[:, done : 2 * done])
    return sums.T


def half_of_flipped_sums(grid: Floats) -> Floats:
    """Those of `all_flipped_sums` of which no two are opposites: (2**(n - 1), m); (1, m) where n is 0."""
    return all_flipped_sums(grid[:-1]) + (grid[-1] if len(grid) else 0.0)


def resample_counts(n: int, draws: int, seed: int) -> Iterator[Floats]:
    """How often each of n queries occurs in each resample: float64 (block, n)."""
    generator = np.random.PCG64(seed)
    for block in _blocks(_BLOCK_VALUES // n, draws):
        cells = uniform_below(generator, n, block, n)
        cells += np.arange(block)[:, None] * n
        yield np.bincount(cells.ravel(), minlength=block * n).reshape(block, n).astype(np.float64)


def uniform_below(generator: np.random.PCG64, n: int, rows: int, columns: int) -> NDArray[np.int64]:
    """(rows, columns) random integers in 0..n-1; each row takes a whole number of the stream's words."""
    words = -(-columns // 2)
    raw = generator.random_raw(rows * words).astype("<u8", copy=False).view("<u4")
    # The high half of a 32-bit number times n is uniform up to n / 2**32.
    scaled = raw.reshape(rows, 2 * words)[:, :columns].astype(np.uint64)
    scaled *= np.uint64(n)  # in place: these are the largest arrays of a comparison
    scaled >>= np.uint64(32)
    return scaled.view(np.int64)


def _blocks(size: int, draws: int) -> Iterator[int]:
    """Sizes of blocks of at most `size` draws, if that is one or more, that together make `draws`."""
    for start in range(0, draws, max(1, size)):
        yield min(max(1, size), draws - start)
