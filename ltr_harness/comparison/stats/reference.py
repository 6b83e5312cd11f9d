"""The reference of a studentised mean: the statistic `normal_of_t(hall_transform(mean / error))` beside seeded draws.

The draws flip each unit's contribution, less the mean that it has under the hypothesis: of a weighted sum of samples,
the closest to what was seen that makes the sum 0. They are the same on any machine and number of threads: 64-bit words
of PCG64's stream, and values are put on a grid of whole multiples of a power of two, so fine that it matters nowhere,
so coarse that every sum is an integer below 2**53: without rounding error in whatever order, and ties are ties.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ltr_harness._util.compiled import compiled, compiled_elementwise
from ltr_harness.comparison.stats.cluster_sums import ClusterSums, LinearCombination
from ltr_harness.data.arrays import Bools, Floats, Ints

Words = NDArray[np.uint64]

EXACT_UP_TO = 16  # non-zero differences: 65,536 sign patterns, no more work than drawing 10,000
_BLOCK_VALUES = 1 << 22  # of a block of draws: 32 MB as float64
_BLOCK_SIGNS = 1 << 25  # of a block of draws: 4 MB as bits
_COLUMNS_AT_ONCE = (
    16  # that are flipped: a table of what every byte of a word adds to them, 256 kB, stays in the cache
)
_SPARSE = 0.6  # share of all rows and columns: below it, the signs of each part are put side by side
_MANTISSA = 52
_CURVED = 0.01  # sd of skewness under flips, from which on it is computed draw by draw

# Variances below this share of the raw squares leave too few digits for a skewness, whose error grows as their power
# of 1.5. Such differences are all but equal: their mean lies a hundred standard deviations from 0.
_ROUNDED_VARIANCE = 1e-4

# Sums closer than this, relative to the sum of absolute values, are the same: the inputs' own last digits
# (metric values carry about 1e-16) must not decide whether a random sum "reaches" the observed one.
SAME_SUM = 1e-9


def on_grid(values: Floats) -> tuple[Floats, Floats]:
    """Return integers in proportion to (n, m) values, whose sums stay below 2**52, and their (m,) units."""
    bits = _MANTISSA - int(np.ceil(np.log2(max(len(values), 2))))
    _, exponent = np.frexp(np.abs(values).max(axis=0, initial=0.0))
    unit: Floats = np.ldexp(1.0, np.maximum(exponent - bits, np.finfo(np.float64).minexp))
    grid: Floats = np.rint(values / unit)  # exact, as the unit is a power of two
    return grid, unit


class FlippedRows(NamedTuple):
    """Values in whole units that are flipped, of some rows of all."""

    rows: Ints
    columns: Ints  # their places among all columns
    grid: Floats  # (rows, columns)


def flipped_sums(parts: Sequence[FlippedRows], n: int, draws: int, seed: int) -> Iterator[Floats]:
    """Yield column sums under random sign patterns of n rows, one for all columns, in blocks (block, m) of draws.

    Each block is overwritten by the next: new pages would cost a third as much as the sums.
    """
    m, n_words = sum(part.columns.size for part in parts), -(-n // 64)
    generator = np.random.PCG64(seed)
    padded = [_padded(part.grid) for part in parts]
    blocks = list(_blocks(min(_BLOCK_SIGNS // n, _BLOCK_VALUES // max(m, 1)), draws))
    values = np.empty(m * blocks[0])
    for block in blocks:
        words = np.ascontiguousarray(generator.random_raw(block * n_words).reshape(block, n_words).T)
        sums = values[: m * block].reshape(m, block)
        for part, grid in zip(parts, padded, strict=True):
            part_words = words
            if part.rows.size < n:
                part_words = np.zeros((-(-part.rows.size // 64), block), dtype=np.uint64)
                _copy_signs(words, part.rows, part_words)
            _write_flipped(part_words, grid, part.columns, sums)
        yield sums.T


def parts_of_grid(grid: Floats, defined: Bools) -> list[FlippedRows]:
    """Return the parts of a sparse (n, m) grid, which is 0 where it is not `defined`, or the whole."""
    if np.count_nonzero(defined) > _SPARSE * defined.size:
        return [FlippedRows(np.arange(len(grid)), np.arange(grid.shape[1]), grid)]
    first, group_of = distinct_columns(np.packbits(defined, axis=0))
    groups = [np.flatnonzero(group_of == group) for group in range(first.size)]
    all_rows = [np.flatnonzero(defined[:, columns[0]]) for columns in groups]
    return [
        FlippedRows(rows, columns, grid[np.ix_(rows, columns)])
        for rows, columns in zip(all_rows, groups, strict=True)
    ]


def distinct_columns(matrix: NDArray[Any]) -> tuple[Ints, Ints]:
    """Return the place of the first of each kind of column, and (m,) the number of each column's kind."""
    first: dict[bytes, int] = {}
    columns = [column.tobytes() for column in matrix.T]
    for place, column in enumerate(columns):
        first.setdefault(column, place)
    number = {column: kind for kind, column in enumerate(first)}
    return (
        np.array(list(first.values()), dtype=np.int64),
        np.array([number[column] for column in columns], dtype=np.int64),
    )


def _padded(values: Floats) -> Floats:
    """Return (n, m) values with zeros up to whole words of signs, and to as many columns as are flipped at once."""
    n, m = values.shape
    return np.pad(values, ((0, -n % 64), (0, -m % _COLUMNS_AT_ONCE)))


@compiled
def _copy_signs(words: Words, rows: Ints, out: Words) -> None:
    """Write the signs of some rows, as if there were no others: (n / 64, draws) words to zeros of that form.

    Row r has bit r % 64 ^ 7 of its word: bytes from the low end, in each the highest bit first.
    """
    for place in range(rows.size):
        bit, new_bit = rows[place] % 64 ^ 7, place % 64 ^ 7
        sign = np.uint64(1) << np.uint64(bit)
        left, right = np.uint64(max(new_bit - bit, 0)), np.uint64(max(bit - new_bit, 0))
        old, new = words[rows[place] // 64], out[place // 64]
        for draw in range(words.shape[1]):
            new[draw] |= (old[draw] & sign) >> right << left


@compiled
def _write_flipped(words: Words, values: Floats, places: Ints, sums: Floats) -> None:
    """Write sums of padded values under (n / 64, draws) words of signs to (m,) rows of `sums`, by a word's bytes."""
    table = np.zeros((8, 256, _COLUMNS_AT_ONCE))
    for first in range(0, places.size, _COLUMNS_AT_ONCE):
        flipped = np.zeros((words.shape[1], _COLUMNS_AT_ONCE))
        for number in range(len(words)):
            block = values[64 * number : 64 * number + 64, first : first + _COLUMNS_AT_ONCE]
            _fill_table(block, table)
            for draw in range(words.shape[1]):
                word, total = words[number, draw], flipped[draw]
                byte_1, byte_2 = table[0, word & 255], table[1, word >> 8 & 255]
                byte_3, byte_4 = table[2, word >> 16 & 255], table[3, word >> 24 & 255]
                byte_5, byte_6 = table[4, word >> 32 & 255], table[5, word >> 40 & 255]
                byte_7, byte_8 = table[6, word >> 48 & 255], table[7, word >> 56 & 255]
                for column in range(_COLUMNS_AT_ONCE):
                    total[column] += (
                        byte_1[column]
                        + byte_2[column]
                        + byte_3[column]
                        + byte_4[column]
                        + (byte_5[column] + byte_6[column] + byte_7[column] + byte_8[column])
                    )
        for column in range(min(_COLUMNS_AT_ONCE, places.size - first)):
            row = sums[places[first + column]]
            for draw in range(words.shape[1]):
                row[draw] = flipped[draw, column]


@compiled
def _fill_table(values: Floats, table: Floats) -> None:
    """Write what every byte of a word of signs adds to each column, (8, 256, columns), of 64 rows of values."""
    for place in range(8):
        for column in range(_COLUMNS_AT_ONCE):
            table[place, 0, column] = 0.0
            for row in range(8 * place, 8 * place + 8):
                table[place, 0, column] -= values[row, column]
        for bit in range(8):
            for byte in range(1 << bit):
                for column in range(_COLUMNS_AT_ONCE):
                    value = 2 * values[8 * place + 7 - bit, column]
                    table[place, byte + (1 << bit), column] = table[place, byte, column] + value


def half_of_flipped_sums(grid: Floats) -> Floats:
    """Return column sums under the 2**(n - 1) sign patterns of which no two are opposites; for n up to `EXACT_UP_TO`.

    The last value's sign stays: (2**(n - 1), m); (1, m) where n is 0.
    """
    all_but_last = grid[:-1]
    sums = np.empty((grid.shape[1], 1 << len(all_but_last)))
    sums[:, 0] = grid[-1:].sum(axis=0) - all_but_last.sum(axis=0)
    for row, values in enumerate(2 * all_but_last):  # each pattern so far, once more with another sign
        n_patterns = 1 << row
        np.add(sums[:, :n_patterns], values[:, None], out=sums[:, n_patterns : 2 * n_patterns])
    return sums.T


def uniform_below(generator: np.random.PCG64, n: int, rows: int, columns: int) -> NDArray[np.int64]:
    """Return (rows, columns) random integers in 0..n-1; each row takes a whole number of the stream's words."""
    words = -(-columns // 2)
    raw = generator.random_raw(rows * words).astype("<u8", copy=False).view("<u4")
    # The high half of a 32-bit number times n is uniform up to n / 2**32.
    scaled = raw.reshape(rows, 2 * words)[:, :columns].astype(np.uint64)
    scaled *= np.uint64(n)  # in place: these are the largest arrays of a comparison
    scaled >>= np.uint64(32)
    return scaled.view(np.int64)


def _blocks(size: int, draws: int) -> Iterator[int]:
    """Yield sizes of blocks of at most `size` draws, if that is one or more, that together make `draws`."""
    for start in range(0, draws, max(1, size)):
        yield min(max(1, size), draws - start)


def hall_transform(t: Floats, skewness: Floats) -> Floats:
    """Return Hall's transformation t + a t**2 / 3 + a**2 t**3 / 27 + a / 6; a is the skewness of the mean."""
    return np.asarray(t + skewness * t**2 / 3 + skewness**2 * t**3 / 27 + skewness / 6)


def inverse_hall_transform(h: Floats, skewness: Floats) -> Floats:
    """Return the t that `hall_transform` turns into h; it is unique."""
    is_straight = np.abs(skewness) < 1e-7  # as straight as numbers can tell
    a = np.where(is_straight, 1.0, skewness)
    return np.asarray(np.where(is_straight, h, 3 / a * (np.cbrt(1 + a * (h - a / 6)) - 1)))


def normal_of_t(t: Floats, df: Floats) -> Floats:
    """Return the normal deviate of a t with these degrees of freedom, its size (Wallace's approximation)."""
    return (8 * df + 1) / (8 * df + 3) * np.sqrt(df * np.log1p(t**2 / df))


def t_of_normal(z: Floats, df: Floats) -> Floats:
    """Return the t that `normal_of_t` turns into z."""
    with np.errstate(over="ignore"):
        return np.sqrt(df * np.expm1((z * (8 * df + 3) / (8 * df + 1)) ** 2 / df))


class Flips:
    """Statistics of some columns under sign patterns: all of them where few units differ, else random ones."""

    def __init__(
        self,
        estimate: LinearCombination,
        *,
        adjust_skewness: bool = True,
        observed: Floats
        | None = None,  # (m,) what stands beside the draws; None: the estimate's own statistics
        # the places of its units among those of a family, with their number; None where it is the family
        subset: tuple[Ints, int] | None = None,
    ) -> None:
        self.estimate, self.subset = estimate, subset
        self._df = estimate.df_of_sizes
        variance = estimate.error**2
        sums = _sums_under_hypothesis(estimate)
        scale = _common_scale(estimate, sums)
        parts = [
            _part(part, part_sums / scale, factor, adjust_skewness)
            for part, part_sums, factor in zip(estimate.parts, sums, estimate.factors, strict=True)
        ]
        self._facts = np.stack([part.facts for part in parts])
        self.skewness = np.zeros_like(variance)
        if adjust_skewness:
            is_rounded = variance <= _ROUNDED_VARIANCE * _raw_variance(self._facts) * scale**2
            self.skewness = np.where(is_rounded, 0.0, estimate.skewness)
        flipped, self.defined, self._at = _side_by_side(parts)
        n_differing = sum(np.count_nonzero(part.sums, axis=0) for part in estimate.parts)
        # what all sign patterns of a column's own units would give: random ones of a larger family can come below it
        self.smallest_p = 2.0 ** (1 - np.maximum(n_differing, 1))
        self._differing = (flipped != 0).any(axis=1)
        self.exact = subset is None and int(np.count_nonzero(self._differing)) <= EXACT_UP_TO
        self.about_mean: AboutMean | None = None
        if len(parts) == 1 and not (adjust_skewness or self.exact):
            counts, which = flipped_counts(estimate.parts[0])
            self.about_mean = AboutMean.of(parts[0].facts, estimate.parts[0], scale, flipped.shape[1] + which)
            flipped = np.concatenate([flipped, counts], axis=1)
            self.defined = np.concatenate([self.defined, counts > 0], axis=1)
        self.grid, self._unit = on_grid(flipped)
        self.is_among_draws = self.exact and observed is None
        self.observed = self._observed(estimate, adjust_skewness) if observed is None else observed
        self.least = t_of_normal(self.observed * (1 - SAME_SUM), self._df)

    def _observed(self, estimate: LinearCombination, adjust_skewness: bool) -> Floats:
        """Return the normal deviates of the estimate's own statistics, (m,)."""
        observed = self.normal(self.statistics(self.grid.sum(axis=0)[:, None])[:, 0])
        if adjust_skewness:  # which matters to what was observed also where it does not to the draws
            is_straight = (self._at[:, :, 3] < 0).all(axis=0) & (estimate.error**2 > 0)
            straight = np.flatnonzero(is_straight)
            t = np.nan_to_num(estimate.mean)[straight] / estimate.error[straight]
            h = hall_transform(t, self.skewness[straight])
            observed[straight] = normal_of_t(h, self._df[straight])
        return observed

    def blocks(self, draws: int, seed: int) -> Iterator[Floats]:
        """Yield the statistics of each column and pattern, (m, block); of half the patterns, as opposites are equal."""
        for _, sums in _sums_side_by_side([self], draws, seed):
            yield self.statistics(sums)

    def sums_of_all_patterns(self) -> Floats:
        """Return the flipped sums in whole units under all patterns of few units, (columns, patterns)."""
        return np.ascontiguousarray(half_of_flipped_sums(self.grid[self._differing]).T)

    def statistics(self, sums: Floats) -> Floats:
        """Return the statistics about 0, (m, block), from flipped sums in whole units, (columns, block)."""
        out = np.empty((self._at.shape[1], sums.shape[1]))
        _studentise(sums, self._unit, self._facts, self._at, out)
        return out

    def statistics_about_mean(self, sums: Floats) -> Floats:
        """Return the statistics about the mean, (m, block), from the same sums."""
        assert self.about_mean is not None
        out = np.empty((self._at.shape[1], sums.shape[1]))
        centred = self.about_mean.sums(sums, self._unit)
        _studentise(centred, np.ones(len(centred)), self.about_mean.facts, self._at, out)
        return out

    def normal(self, statistics: Floats) -> Floats:
        """Return the normal deviates of the columns' statistics, (m,), by their degrees of freedom."""
        deviates = np.empty((statistics.size, 1))
        for j, (statistic, df) in enumerate(zip(statistics, self._df, strict=True)):
            _write_normal(statistic[None], df, deviates[j])
        return deviates[:, 0]

    def largest(self, block: Floats) -> Floats:
        """Return the largest normal deviate of all columns under each pattern, (block,)."""
        largest = np.zeros(block.shape[1])
        for df in np.unique(self._df):  # it grows with the statistic: that of the largest is the largest
            deviates = np.empty(block.shape[1])
            _write_normal(block[self._df == df].max(axis=0), df, deviates)
            np.maximum(largest, deviates, out=largest)
        return largest


def _sums_under_hypothesis(estimate: LinearCombination) -> list[Floats]:
    """Return each sample's sums less the means that make the estimate 0 and are the closest to those seen."""
    if len(estimate.parts) == 1:
        return [estimate.parts[0].sums]
    variance = estimate.error**2
    with np.errstate(invalid="ignore", divide="ignore"):
        shift = np.where(variance > 0, np.nan_to_num(estimate.mean) / variance, 0.0)
    return [
        part.sums - part.counts * np.nan_to_num(part.mean - factor * part.error**2 * shift)
        for factor, part in zip(estimate.factors, estimate.parts, strict=True)
    ]


def _common_scale(estimate: LinearCombination, sums: Sequence[Floats]) -> Floats:
    """Return (m,) numbers above 0, the root mean squares of the units' sums, by which they are divided."""
    squares = sum(np.square(part).sum(axis=0) for part in sums)
    scale = np.sqrt(squares / np.maximum(sum(part.units for part in estimate.parts), 1))
    return np.where(scale > 0, scale, 1.0)


def _raw_variance(facts: Floats) -> Floats:
    """Return the variance, (m,), that sums would have if their squares were taken about 0; see `_studentise`."""
    n, raw_squares, factor = (facts[:, :, column] for column in (0, 1, 6))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(n > 0, factor**2 * raw_squares / n**2, 0.0).sum(axis=0))


@dataclass(frozen=True, eq=False)
class AboutMean:
    """The numbers that turn flipped sums of a sample's values into those of the values about their mean.

    Of units with n_g values the sum is S_g - mean n_g there, and so are its flips: nothing else has to be drawn.
    """

    mean: Floats  # (m,)
    counts: (
        Ints  # (k, m) which flipped column has n of a column, then w n**2 and n**3 unless the sample is even
    )
    facts: Floats  # (1, m, 8), see `_studentise`

    @classmethod
    def of(cls, facts_about_0: Floats, sample: ClusterSums, scale: Floats, counts: Ints) -> Self:
        """Return them for a sample whose sums are divided by (m,) scales."""
        facts = facts_about_0.copy()
        facts[:, 1], facts[:, 3] = _sums_of_squares(sample, sample.residuals / scale)
        return cls(np.nan_to_num(sample.mean) / scale, counts, facts[None])

    def sums(self, sums: Floats, unit: Floats) -> Floats:
        """Return the sums about the mean, (k m, block), from those about 0 and of counts, (columns, block) in units."""
        k, m = self.counts.shape
        out = np.empty((k * m, sums.shape[1]))
        _centre(sums, unit, np.tile(self.mean, k), self.counts.ravel(), out)
        return out


def flipped_counts(sample: ClusterSums) -> tuple[Floats, Ints]:
    """Return (G, columns) counts that are flipped for `AboutMean`, each once, and (k, m) the columns of them."""
    if (sample.counts == sample.counts[:, :1]).all():  # no value is undefined: spares a sort of whole columns
        first, which = np.zeros(1, dtype=np.int64), np.zeros(sample.counts.shape[1], dtype=np.int64)
    else:
        first, which = distinct_columns(sample.counts)
    counts = sample.counts[:, first]
    if sample.one_value_per_unit:
        return counts, which[None]
    w, k = sample.weights[:, first], counts.shape[1]
    return np.concatenate([counts, w * counts**2, counts**3], axis=1), np.stack(
        [which, which + k, which + 2 * k]
    )


class _FlippedSample(NamedTuple):
    """The columns of a sample that are flipped, and the numbers that its statistics need beside them."""

    columns: Floats  # (G, columns), what is flipped
    defined: Bools  # (G, columns), whether the unit has values there
    # (m, 4) which of these are the sums of a column, of w n S, n**2 S and S**3; -1 where there is none: in even
    # samples two follow from the first
    at: Ints
    facts: Floats  # (m, 8), see `_studentise`


def _facts(sample: ClusterSums, sums: Floats, factor: float) -> Floats:
    """Return the numbers that no flip changes, (m, 8), see `_studentise`."""
    n, units, w, counts = sample.n, sample.units.astype(np.float64), sample.weights, sample.counts
    with np.errstate(invalid="ignore", divide="ignore"):
        small = np.where(units > 1, (units / (units - 1)) ** 1.5, 0.0)
        wide = np.where(units > 1, units / (units - 1), 0.0)
    if sample.one_value_per_unit:  # which is its own square and cube
        counts_squared, counts_cubed = (w * counts).sum(axis=0), n
    else:
        counts_squared, counts_cubed = (w * counts**2).sum(axis=0), (counts**3).sum(axis=0)
    weighted, counted = _sums_of_squares(sample, sums)
    factors = np.full(n.size, factor)
    return np.stack([n, weighted, counts_squared, counted, counts_cubed, small, factors, wide], axis=1)


def _sums_of_squares(sample: ClusterSums, sums: Floats) -> tuple[Floats, Floats]:
    """Return sum w S**2 and sum n S**2, (m,) each."""
    squares = sums**2
    counted = squares if sample.one_value_per_unit else sample.counts * squares
    return (sample.weights * squares).sum(axis=0), counted.sum(axis=0)


def _part(sample: ClusterSums, sums: Floats, factor: float, adjust_skewness: bool) -> _FlippedSample:
    m, counts = sums.shape[1], sample.counts
    columns_at = np.full((m, 4), -1, dtype=np.int64)
    columns_at[:, 0] = np.arange(m)
    flipped, defined = [sums], [counts > 0]
    if not sample.one_value_per_unit:
        columns_at[:, 1], columns_at[:, 2] = m + np.arange(m), 2 * m + np.arange(m)
        flipped += [sample.weights * counts * sums, counts**2 * sums]
        defined += [defined[0], defined[0]]
    if adjust_skewness:
        squares = sums**2
        cubes = squares * sums
        curved = np.sqrt((cubes**2).sum(axis=0)) > _CURVED * squares.sum(axis=0) ** 1.5
        which = np.flatnonzero(curved)
        columns_at[which, 3] = sum(columns.shape[1] for columns in flipped) + np.arange(which.size)
        flipped.append(cubes[:, which])
        defined.append(defined[0][:, which])
    facts = _facts(sample, sums, factor)
    return _FlippedSample(np.concatenate(flipped, axis=1), np.concatenate(defined, axis=1), columns_at, facts)


def _side_by_side(parts: Sequence[_FlippedSample]) -> tuple[Floats, Bools, Ints]:
    """Return what is flipped of all samples, the cells with values, and (parts, m, 4) columns of what is flipped.

    Each sample's columns stand beside zeros in the rows of the others.
    """
    starts = np.cumsum([0, *[part.columns.shape[1] for part in parts]])
    columns_at = np.stack(
        [np.where(part.at >= 0, part.at + start, -1) for part, start in zip(parts, starts, strict=False)]
    )
    if len(parts) == 1:
        return parts[0].columns, parts[0].defined, columns_at
    sides = [((0, 0), (start, starts[-1] - stop)) for start, stop in pairwise(starts)]
    columns = np.concatenate([np.pad(part.columns, side) for part, side in zip(parts, sides, strict=True)])
    defined = np.concatenate([np.pad(part.defined, side) for part, side in zip(parts, sides, strict=True)])
    return columns, defined, columns_at


@compiled
def _centre(sums: Floats, unit: Floats, mean: Floats, counts: Ints, out: Floats) -> None:
    """Write the sums, in units, less the mean of each column times the sum of its counts."""
    for j in range(len(out)):
        for b in range(out.shape[1]):
            out[j, b] = sums[j, b] * unit[j] - mean[j] * (sums[counts[j], b] * unit[counts[j]])


@compiled
def _studentise(
    sums: Floats,  # (columns, block) flipped sums in whole units
    unit: Floats,  # (columns,) the size of one
    # (parts, m, 8): n, sum w S**2, sum w n**2, sum n S**2, sum n**3, the factors of the third cumulant and of the
    # sample, and of an even sample w
    facts: Floats,
    columns_at: NDArray[np.int64],  # (parts, m, 4), see `_Part`
    out: Floats,  # (m, block), written
) -> None:
    """Compute the statistic of each column under each pattern: the size of Hall's transformation of Student's t."""
    parts, m = columns_at.shape[0], columns_at.shape[1]
    for j in range(m):
        bent = False
        flat = 0.0
        for s in range(parts):
            bent = bent or columns_at[s, j, 3] >= 0
            if facts[s, j, 0] > 0:
                flat += facts[s, j, 6] ** 2 * facts[s, j, 1] / facts[s, j, 0] ** 2
        rounded = flat * _ROUNDED_VARIANCE
        flat = flat * 1e-12
        if parts == 1 and not bent and columns_at[0, j, 1] < 0 and facts[0, j, 0] > 0:
            place = columns_at[0, j, 0]
            _write_t(sums[place], unit[place], facts[0, j], flat, out[j])
            continue
        for b in range(sums.shape[1]):
            mean = variance = third_cumulant = 0.0
            for s in range(parts):
                n = facts[s, j, 0]
                if n <= 0:
                    continue
                f = facts[s, j, 6]
                total = sums[columns_at[s, j, 0], b] * unit[columns_at[s, j, 0]]
                part_mean = total / n
                cross = facts[s, j, 7] * total
                square = total
                if columns_at[s, j, 1] >= 0:
                    cross = sums[columns_at[s, j, 1], b] * unit[columns_at[s, j, 1]]
                    square = sums[columns_at[s, j, 2], b] * unit[columns_at[s, j, 2]]
                mean += f * part_mean
                variance += (
                    f
                    * f
                    * (facts[s, j, 1] - 2 * part_mean * cross + part_mean * part_mean * facts[s, j, 2])
                    / (n * n)
                )
                if bent:
                    cube = 0.0
                    if columns_at[s, j, 3] >= 0:
                        cube = sums[columns_at[s, j, 3], b] * unit[columns_at[s, j, 3]]
                        cube += (
                            -3 * part_mean * facts[s, j, 3]
                            + 3 * part_mean * part_mean * square
                            - part_mean**3 * facts[s, j, 4]
                        )
                    third_cumulant += f**3 * cube * facts[s, j, 5] / n**3
            skewness = 0.0
            if variance <= flat:
                variance = flat
            elif bent and variance > rounded:
                skewness = third_cumulant / variance**1.5
            t = mean / np.sqrt(variance) if variance > 0 else 0.0
            h = t + skewness * t * t / 3 + skewness * skewness * t * t * t / 27 + skewness / 6
            out[j, b] = abs(h)


@compiled_elementwise
def _write_t(sums: Floats, unit: float, facts: Floats, flat: float, out: Floats) -> None:
    """Write the size of Student's t of an even sample, (block,): what `_studentise` does, without a branch."""
    n, squares, weights, factor, wide = facts[0], facts[1], facts[2], facts[6], facts[7]
    for b in range(sums.size):
        total = sums[b] * unit
        mean = total / n
        variance = factor * factor * (squares - 2 * mean * (wide * total) + mean * mean * weights) / (n * n)
        variance = max(variance, flat)
        t = factor * mean / np.sqrt(variance) if variance > 0 else 0.0
        out[b] = abs(t)


@compiled
def _write_normal(t: Floats, df: float, out: Floats) -> None:
    """Write `normal_of_t` of (block,) statistics, with the logarithm that all machines share."""
    shrink = (8 * df + 1) / (8 * df + 3)
    for b in range(t.size):
        out[b] = shrink * np.sqrt(df * np.log1p(t[b] * t[b] / df))


class Resamples:
    """Studentised means of resampled units about the observed mean, for the bootstrap test."""

    is_among_draws = False
    exact = False

    def __init__(self, sample: ClusterSums) -> None:
        self._sample = sample
        with np.errstate(invalid="ignore", divide="ignore"):
            t = np.where(sample.mean == 0, 0.0, np.abs(sample.mean) / sample.error)
        self.observed = np.minimum(normal_of_t(np.minimum(t, 1e100), sample.df), 1e100)
        self.least = self.observed * (1 - SAME_SUM)

    def blocks(self, draws: int, seed: int) -> Iterator[Floats]:
        """Yield the statistics of resamples, (m, block)."""
        sample = self._sample
        residuals, defined = sample.residuals, sample.counts
        stacked = np.concatenate([residuals, residuals**2, defined], axis=1)
        units, m = residuals.shape
        generator = np.random.PCG64(seed)
        for block in _blocks(_BLOCK_VALUES // units, draws):
            cells = uniform_below(generator, units, block, units)
            cells += np.arange(block)[:, None] * units
            times = np.bincount(cells.ravel(), minlength=block * units)  # a unit occurs in a resample
            totals = times.reshape(block, units).astype(np.float64) @ stacked
            total, square, n = totals[:, :m], totals[:, m : 2 * m], totals[:, 2 * m :]
            with np.errstate(invalid="ignore", divide="ignore"):
                mean = total / n
                variance = np.maximum(square / n - mean**2, 0.0) / (n - 1)
                t = np.where(mean == 0, 0.0, np.abs(mean) / np.sqrt(variance))
            t = np.where(np.isnan(t), 0.0, np.minimum(t, 1e100))
            yield np.minimum(normal_of_t(t, sample.df), 1e100).T

    def normal(self, statistics: Floats) -> Floats:
        """Return the statistics, (m,): they are normal deviates."""
        return statistics

    def largest(self, block: Floats) -> Floats:
        """Return the largest statistic of all columns in each resample, (block,)."""
        return np.asarray(block.max(axis=0, initial=0.0))


@dataclass(frozen=True, eq=False)
class Tail:
    """The shares of draws whose statistics reach those of some columns."""

    p: Floats  # (m,) share of draws in which a column's own statistic is reached
    largest: Floats  # sorted, of each draw the largest statistic of all columns
    times: int  # how often each counts
    added: int  # 1 where the draws are random, for what was observed
    is_among_draws: bool  # whether what was observed is one of them

    def family_p(self, statistics: Floats) -> Floats:
        """Return the share of draws whose largest statistic reaches each of these: p-values within the family."""
        least = statistics * (1 - SAME_SUM)
        reached = self.largest.size - np.searchsorted(self.largest, least, side="left")
        return (self.times * reached + self.added) / (self.times * self.largest.size + self.added)

    def critical(self, alpha: float) -> float:
        """Return the statistic beyond which `family_p` is below alpha; infinite where no p-value is."""
        allowed = _allowed(alpha, self.largest.size, self.times, self.added, self.is_among_draws)
        return np.inf if allowed < 0 else float(self.largest[-1 - allowed]) / (1 - SAME_SUM)


class _Tally:
    """The draws so far, counted where they reach what was observed."""

    def __init__(self, drawn: Flips | Resamples) -> None:
        self.drawn = drawn
        self.reached: list[Ints] = []  # of each block, (m,)
        self.largest: list[Floats] = []  # of each draw the largest statistic, block by block

    def add(self, block: Floats) -> None:
        """Count the statistics of a block of draws, (m, block)."""
        self.reached.append(np.count_nonzero(block >= self.drawn.least[:, None], axis=1))
        self.largest.append(self.drawn.largest(block))


def _joint_tail(tallies: Sequence[_Tally]) -> Tail:
    """Return the tail of all columns of all tallies, of the same draws."""
    drawn = tallies[0].drawn
    times, added = _counting(drawn)
    largest = np.sort(np.max([np.concatenate(tally.largest) for tally in tallies], axis=0))
    reached = np.concatenate([np.sum(tally.reached, axis=0) for tally in tallies])
    p = (times * reached + added) / (times * largest.size + added)
    return Tail(p, largest, times, added, drawn.is_among_draws)


def tail(drawn: Flips | Resamples, draws: int, seed: int) -> Tail:
    """Return the tail of all columns beside the same draws."""
    tally = _Tally(drawn)
    for block in drawn.blocks(draws, seed):
        tally.add(block)
    return _joint_tail([tally])


def tails_of_both(
    families: Sequence[Sequence[Flips]],  # of values about 0; several where each is of a subset of the units
    draws: int,
    seed: int,
    *,
    adjust_skewness: bool,
) -> list[tuple[Tail, Tail]]:
    """Return each family's tails beside flips of the values about 0, and of the values about their mean.

    All families, of the same units, have the same flips.
    """
    about_0 = [[_Tally(flips) for flips in family] for family in families]
    about_mean: list[list[_Tally]] = []
    # the second tally where the same sums give both statistics
    drawn: list[tuple[Flips, _Tally, _Tally | None]] = []
    for tallies, family in zip(about_0, families, strict=True):
        about_mean.append([])
        for tally, flips in zip(tallies, family, strict=True):
            if flips.about_mean is not None:
                second = _Tally(flips)
                drawn.append((flips, tally, second))
            else:
                centred = Flips(
                    flips.estimate.centred(),
                    adjust_skewness=adjust_skewness,
                    observed=flips.observed,
                    subset=flips.subset,
                )
                second = _Tally(centred)
                drawn += [(flips, tally, None), (centred, second, None)]
            about_mean[-1].append(second)
    for place, sums in _sums_side_by_side([flips for flips, _, _ in drawn], draws, seed):
        flips, tally, of_same_sums = drawn[place]
        tally.add(flips.statistics(sums))
        if of_same_sums is not None:
            of_same_sums.add(flips.statistics_about_mean(sums))
    return [*zip(map(_joint_tail, about_0), map(_joint_tail, about_mean), strict=True)]


def _sums_side_by_side(drawn: Sequence[Flips], draws: int, seed: int) -> Iterator[tuple[int, Floats]]:
    """Yield the place of each family and its flipped sums in whole units, (columns, block), block by block.

    Random patterns are drawn, and the signs of each part copied, once for all families.
    """
    at_random = [place for place, flips in enumerate(drawn) if not flips.exact]
    for place, flips in enumerate(drawn):
        if flips.exact:
            yield place, flips.sums_of_all_patterns()
    if not at_random:
        return
    random = [drawn[place] for place in at_random]
    ends = np.cumsum([flips.grid.shape[1] for flips in random])
    n, parts = _flipped_rows(random)
    for sums in flipped_sums(parts, n, draws, seed):
        yield from zip(at_random, np.split(sums.T, ends[:-1]), strict=True)


def _flipped_rows(drawn: Sequence[Flips]) -> tuple[int, list[FlippedRows]]:
    """Return the number of units of all, and what is flipped: columns of the same subset together."""
    ends = np.cumsum([0, *(flips.grid.shape[1] for flips in drawn)])
    by_subset: dict[int, list[int]] = {}
    for place, flips in enumerate(drawn):
        by_subset.setdefault(0 if flips.subset is None else id(flips.subset[0]), []).append(place)
    n, parts = 0, []
    for places in by_subset.values():
        grid = np.concatenate([drawn[place].grid for place in places], axis=1)
        columns = np.concatenate([np.arange(ends[place], ends[place + 1]) for place in places])
        subset = drawn[places[0]].subset
        if subset is None:
            n, defined = len(grid), np.concatenate([drawn[place].defined for place in places], axis=1)
            parts += [part._replace(columns=columns[part.columns]) for part in parts_of_grid(grid, defined)]
        else:
            rows, n = subset
            parts.append(FlippedRows(rows, columns, grid))
    return n, parts


def criticals(drawn: Flips | Resamples, draws: int, seed: int, alpha: float) -> Floats:
    """Return (m,) critical values of columns that are looked at one by one; see `Tail`."""
    every = np.concatenate(list(drawn.blocks(draws, seed)), axis=1)
    times, added = _counting(drawn)
    allowed = _allowed(alpha, every.shape[1], times, added, drawn.is_among_draws)
    if allowed < 0:
        return np.full(len(every), np.inf)
    place = every.shape[1] - 1 - allowed
    return drawn.normal(np.partition(every, place, axis=1)[:, place]) / (1 - SAME_SUM)


def _counting(drawn: Flips | Resamples) -> tuple[int, int]:
    """Return how often each draw counts, and how often what was observed counts beside them."""
    return 1 + drawn.exact, int(not drawn.exact)


def _allowed(alpha: float, draws: int, times: int, added: int, is_among_draws: bool) -> int:
    """Return how many draws may reach a statistic whose p-value is below alpha; -1 where not even none is."""
    allowed = int(np.ceil((alpha * (times * draws + added) - added) / times - 1e-9)) - 1
    return allowed - (is_among_draws and allowed == 0)  # what is among the draws is reached by itself
