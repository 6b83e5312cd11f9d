"""What chance alone makes of a studentised mean: the statistic `normal_of_t(hall(mean / error))` beside seeded draws.

The draws flip each unit's contribution, less the mean that it has under the hypothesis: of a weighted sum of samples,
the closest to what was seen that makes the sum 0. They are the same on any machine and number of threads: 64-bit words
of PCG64's stream, and values are put on a grid of whole multiples of a power of two, so fine that it matters nowhere,
so coarse that every sum is an integer below 2**53: without rounding error in whatever order, and ties are ties.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ltr_harness._util.compiled import compiled
from ltr_harness.comparison.stats.contributions import Contributions, WeightedSum
from ltr_harness.data.queries import Bools, Floats, Ints

Bytes = NDArray[np.uint8]

EXACT_UP_TO = 16  # non-zero differences: 65,536 sign patterns, no more work than drawing 10,000
_BLOCK_VALUES = 1 << 22  # of a block of draws: 32 MB as float64
_BLOCK_SIGNS = 1 << 25  # of a block of draws: 4 MB as bits
_BYTES_AT_ONCE = 32  # of a draw: a table of what every byte adds, 256 kB for four columns, stays in the cache
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
    """Integers (n, m) in proportion to (n, m) values (NaN becomes 0), whose sums stay below 2**52, and (m,) units."""
    filled = np.where(np.isnan(values), 0.0, values)
    bits = _MANTISSA - int(np.ceil(np.log2(max(len(values), 2))))
    _, exponent = np.frexp(np.abs(filled).max(axis=0, initial=0.0))
    grid: Floats = np.rint(np.ldexp(filled, bits - exponent))
    unit: Floats = np.ldexp(1.0, exponent - bits)
    return grid, unit


def flipped_sums(grid: Floats, draws: int, seed: int, there: Bools | None = None) -> Iterator[Floats]:
    """Column sums under random sign patterns, one pattern for all columns, in blocks (block, m) of draws.

    `there` (n, m) is False where a column is 0 for sure: slices of the queries take the time of their own rows.
    """
    n, m = grid.shape
    words = -(-n // 64)
    generator = np.random.PCG64(seed)
    values = np.ascontiguousarray(grid.T)
    parts = [] if there is None or np.count_nonzero(there) > _SPARSE * there.size else _columns_by_rows(there)
    of_parts = [(rows, columns, np.ascontiguousarray(values[columns][:, rows])) for rows, columns in parts]
    size = min(_BLOCK_SIGNS // n, _BLOCK_VALUES // max(m, 1))
    for block in _blocks(size, draws):
        raw = generator.random_raw(block * words).astype("<u8", copy=False).view(np.uint8)
        signs = raw.reshape(block, words * 8)
        sums = np.zeros((m, block))
        if not of_parts:
            _add_flipped(signs, values, sums)
        else:
            of_rows = turned(signs)  # (8 bytes, block / 8): the signs of each row
            for rows, columns, own in of_parts:
                added = np.zeros((columns.size, block))
                _add_flipped(turned(of_rows[rows])[:block], own, added)
                sums[columns] = added
        yield sums.T


def _columns_by_rows(there: Bools) -> list[tuple[Ints, Ints]]:
    """Columns that are there in the same rows, with these rows."""
    _, which = np.unique(np.packbits(there, axis=0), axis=1, return_inverse=True)
    groups = (np.flatnonzero(which == one) for one in range(int(which.max(initial=-1)) + 1))
    return [(np.flatnonzero(there[:, columns[0]]), columns) for columns in groups]


def turned(bits: Bytes) -> Bytes:
    """The transpose of a matrix of bits, eight to a byte, the highest first; its rows end in zeros, to whole bytes.

    NumPy, which unpacks them, takes twenty times as long.
    """
    rows, width = bits.shape
    out = np.zeros((8 * width, -(-rows // 8)), dtype=np.uint8)
    _turn(bits, out)
    return out


@compiled
def _turn(bits: Bytes, out: Bytes) -> None:
    """Eight by eight bits at a time, in a word: swaps of single bits, of pairs and of fours across its diagonal."""
    rows, width = bits.shape
    for i in range(out.shape[1]):
        for j in range(width):
            word = np.uint64(0)
            for row in range(8 * i, min(8 * i + 8, rows)):
                word |= np.uint64(bits[row, j]) << np.uint64(56 - 8 * (row - 8 * i))
            for shift, mask in ((7, 0x00AA00AA00AA00AA), (14, 0x0000CCCC0000CCCC), (28, 0x00000000F0F0F0F0)):
                swapped = (word ^ (word >> np.uint64(shift))) & np.uint64(mask)
                word ^= swapped ^ (swapped << np.uint64(shift))
            for row in range(8):
                out[8 * j + row, i] = np.uint8((word >> np.uint64(56 - 8 * row)) & np.uint64(255))


@compiled
def _add_flipped(signs: Bytes, values: Floats, sums: Floats) -> None:
    """Adds (m, n) values to (m, block) sums under (block, n / 8) signs, eight at a time by the byte of their signs."""
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


def half_of_flipped_sums(grid: Floats) -> Floats:
    """Column sums under the 2**(n - 1) sign patterns of which no two are opposites; for n up to `EXACT_UP_TO`.

    The last value's sign stays: (2**(n - 1), m); (1, m) where n is 0.
    """
    others = grid[:-1]
    sums = np.empty((grid.shape[1], 1 << len(others)))
    sums[:, 0] = grid[-1:].sum(axis=0) - others.sum(axis=0)
    for at, values in enumerate(2 * others):  # each pattern so far, once more with another sign
        done = 1 << at
        np.add(sums[:, :done], values[:, None], out=sums[:, done : 2 * done])
    return sums.T


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


def hall(t: Floats, lean: Floats) -> Floats:
    """Hall's transformation t + a t**2 / 3 + a**2 t**3 / 27 + a / 6; a is the skewness of the mean."""
    return np.asarray(t + lean * t**2 / 3 + lean**2 * t**3 / 27 + lean / 6)


def unhall(h: Floats, lean: Floats) -> Floats:
    """The t that `hall` turns into h; it is unique."""
    straight = np.abs(lean) < 1e-7  # as straight as numbers can tell
    bent = np.where(straight, 1.0, lean)
    return np.asarray(np.where(straight, h, 3 / bent * (np.cbrt(1 + bent * (h - bent / 6)) - 1)))


def normal_of_t(t: Floats, freedom: Floats) -> Floats:
    """The normal deviate of a t with these degrees of freedom, its size (Wallace's approximation)."""
    return (8 * freedom + 1) / (8 * freedom + 3) * np.sqrt(freedom * np.log1p(t**2 / freedom))


def t_of_normal(z: Floats, freedom: Floats) -> Floats:
    """The t that `normal_of_t` turns into z."""
    with np.errstate(over="ignore"):
        return np.sqrt(freedom * np.expm1((z * (8 * freedom + 3) / (8 * freedom + 1)) ** 2 / freedom))


class Flips:
    """Statistics of some columns under sign patterns: all of them where few units differ, else random ones."""

    def __init__(
        self,
        estimate: WeightedSum,
        *,
        skewness: bool = True,
        observed: Floats
        | None = None,  # (m,) what stands beside the draws; None: the estimate's own statistics
    ) -> None:
        self._freedom = estimate.freedom_of_sizes
        theta, variance = np.nan_to_num(estimate.mean), estimate.error**2
        own, single = [part.sums for part in estimate.parts], len(estimate.parts) == 1
        if not single:  # less the means that make the sum 0 and are the closest to those seen
            with np.errstate(invalid="ignore", divide="ignore"):
                shift = np.where(variance > 0, theta / variance, 0.0)
            own = [
                part.sums - part.counts * np.nan_to_num(part.mean - factor * part.error**2 * shift)
                for factor, part in zip(estimate.factors, estimate.parts, strict=True)
            ]
        squares = sum(np.square(part).sum(axis=0) for part in own)
        scale = np.sqrt(squares / np.maximum(sum(part.units for part in estimate.parts), 1))
        scale = np.where(scale > 0, scale, 1.0)
        parts = [
            _part(part, sums / scale, factor, skewness)
            for part, sums, factor in zip(estimate.parts, own, estimate.factors, strict=True)
        ]
        self._facts = np.stack([part.facts for part in parts])
        n, raw_squares, factor = (self._facts[:, :, at] for at in (0, 1, 6))
        with np.errstate(invalid="ignore", divide="ignore"):
            raw = np.where(n > 0, factor**2 * raw_squares / n**2, 0.0).sum(axis=0)
        is_rounded = variance <= _ROUNDED_VARIANCE * raw * scale**2
        self.lean = np.where(is_rounded, 0.0, estimate.lean) if skewness else np.zeros_like(theta)
        starts = np.cumsum([0, *[part.columns.shape[1] for part in parts]])
        self._at = np.stack(
            [np.where(part.at >= 0, part.at + start, -1) for part, start in zip(parts, starts, strict=False)]
        )
        flipped, self._there = parts[0].columns, parts[0].there
        if not single:  # each sample's columns beside zeros
            sides = [((0, 0), (start, starts[-1] - stop)) for start, stop in pairwise(starts)]
            beside = list(zip(parts, sides, strict=True))
            flipped = np.concatenate([np.pad(part.columns, side) for part, side in beside])
            self._there = np.concatenate([np.pad(part.there, side) for part, side in beside])
        differing = (flipped != 0).any(axis=1)
        self.exact = int(np.count_nonzero(differing)) <= EXACT_UP_TO
        self.about_mean: AboutMean | None = None
        if single and not (skewness or self.exact):
            counts, which = flipped_counts(estimate.parts[0])
            self.about_mean = AboutMean.of(estimate.parts[0], scale, flipped.shape[1] + which)
            flipped = np.concatenate([flipped, counts], axis=1)
            self._there = np.concatenate([self._there, counts > 0], axis=1)
        self._grid, self._unit = on_grid(flipped)
        self._differing = self._grid[differing]
        self.is_among_draws = self.exact and observed is None
        if observed is not None:
            self.observed = observed
            return
        self.observed = self._statistics(self._grid.sum(axis=0)[:, None])[:, 0]
        if skewness:  # which matters to what was observed also where it does not to the draws
            straight = np.flatnonzero((self._at[:, :, 3] < 0).all(axis=0) & (variance > 0))
            t = theta[straight] / estimate.error[straight]
            h = hall(t, self.lean[straight])
            self.observed[straight] = normal_of_t(h, self._freedom[straight])

    def blocks(self, draws: int, seed: int) -> Iterator[Floats]:
        """(m, block): the statistics of each column and pattern; of all patterns half, as the opposite has the same."""
        for sums in self._sums(draws, seed):
            yield self._statistics(sums)

    def blocks_of_both(
        self, about_mean: "AboutMean", draws: int, seed: int
    ) -> Iterator[tuple[Floats, Floats]]:
        """(m, block) each: the statistics about 0 and those about the mean, under the same patterns."""
        at, freedom = self._at, self._freedom
        for sums in self._sums(draws, seed):
            out = np.empty((at.shape[1], sums.shape[1]))
            centred = about_mean.sums(sums * self._unit[:, None])
            _studentise(centred, np.ones(len(centred)), about_mean.facts, at, freedom, out)
            yield self._statistics(sums), out

    def _sums(self, draws: int, seed: int) -> Iterator[Floats]:
        """(columns, block): flipped sums in whole units."""
        exact = [half_of_flipped_sums(self._differing)] if self.exact else []
        for sums in exact or flipped_sums(self._grid, draws, seed, self._there):
            yield np.ascontiguousarray(sums.T)

    def _statistics(self, sums: Floats) -> Floats:
        out = np.empty((self._at.shape[1], sums.shape[1]))
        _studentise(sums, self._unit, self._facts, self._at, self._freedom, out)
        return out


@dataclass(frozen=True, eq=False)
class AboutMean:
    """What turns flipped sums of a sample's values into those of the values about their mean.

    Of units with n_g values the sum is S_g - mean n_g there, and so are its flips: nothing else has to be drawn.
    """

    mean: Floats  # (m,)
    counts: (
        Ints  # (k, m) which flipped column has n of a column, then w n**2 and n**3 unless the sample is even
    )
    facts: Floats  # (1, m, 8), see `_studentise`

    @classmethod
    def of(cls, sample: Contributions, scale: Floats, counts: Ints) -> Self:
        """From a sample whose sums are divided by (m,) scales."""
        centred = sample.centred()
        part = _part(centred, centred.sums / scale, 1.0, skewness=False)
        return cls(np.nan_to_num(sample.mean) / scale, counts, part.facts[None])

    def sums(self, sums: Floats) -> Floats:
        """(k m, block): the sums about the mean, from those about 0 and of counts, (columns, block)."""
        k, m = self.counts.shape
        return sums[: k * m] - np.tile(self.mean, k)[:, None] * sums[self.counts.ravel()]


def flipped_counts(sample: Contributions) -> tuple[Floats, Ints]:
    """(G, columns) counts that are flipped for `AboutMean`, each once, and (k, m) which of them belong to a column."""
    if (sample.counts == sample.counts[:, :1]).all():  # no value is undefined: spares a sort of whole columns
        first, at = np.zeros(1, dtype=np.int64), np.zeros(sample.counts.shape[1], dtype=np.int64)
    else:
        _, first, at = np.unique(sample.counts, axis=1, return_index=True, return_inverse=True)
    counts, at = sample.counts[:, first], at.reshape(-1)
    if sample.even:
        return counts, at[None]
    w, k = sample.weights[:, first], counts.shape[1]
    return np.concatenate([counts, w * counts**2, counts**3], axis=1), np.stack([at, at + k, at + 2 * k])


class _Part(NamedTuple):
    """What of a sample is flipped, and what the statistic needs beside."""

    columns: Floats  # (G, columns), what is flipped
    there: Bools  # (G, columns), whether the unit has values there
    # (m, 4) which of these are the sums of a column, of w n S, n**2 S and S**3; -1 where there is none: in even
    # samples two follow from the first
    at: Ints
    facts: Floats  # (m, 8), see `_studentise`


def _part(part: Contributions, sums: Floats, factor: float, skewness: bool) -> _Part:
    m = sums.shape[1]
    n, units, w = part.n, part.units.astype(np.float64), part.weights
    squares = sums**2
    with np.errstate(invalid="ignore", divide="ignore"):
        small = np.where(units > 1, (units / (units - 1)) ** 1.5, 0.0)
        wide = np.where(units > 1, units / (units - 1), 0.0)
        cubes = squares * sums
        spread = squares.sum(axis=0)
        curved = np.sqrt((cubes**2).sum(axis=0)) > _CURVED * spread**1.5
    counts = part.counts
    sums_of = (one.sum(axis=0) for one in (w * squares, w * counts**2, counts * squares, counts**3))
    facts = np.stack([n, *sums_of, small, np.full(m, factor), wide], axis=1)
    at = np.full((m, 4), -1, dtype=np.int64)
    at[:, 0] = np.arange(m)
    flipped, there = [sums], [counts > 0]
    if not part.even:
        at[:, 1], at[:, 2] = m + np.arange(m), 2 * m + np.arange(m)
        flipped += [w * counts * sums, counts**2 * sums]
        there += [there[0], there[0]]
    if skewness:
        which = np.flatnonzero(curved)
        at[which, 3] = sum(column.shape[1] for column in flipped) + np.arange(which.size)
        flipped.append(cubes[:, which])
        there.append(there[0][:, which])
    return _Part(np.concatenate(flipped, axis=1), np.concatenate(there, axis=1), at, facts)


@compiled
def _studentise(
    sums: Floats,  # (columns, block) flipped sums in whole units
    unit: Floats,  # (columns,) the size of one
    # (parts, m, 8): n, sum w S**2, sum w n**2, sum n S**2, sum n**3, the factors of the third cumulant and of the
    # sample, and of an even sample w
    facts: Floats,
    at: NDArray[np.int64],  # (parts, m, 4), see `_Part`
    freedom: Floats,  # (m,)
    out: Floats,  # (m, block), written
) -> None:
    """The statistic of each column under each pattern."""
    parts, m = at.shape[0], at.shape[1]
    for j in range(m):
        bent = False
        flat = 0.0
        for s in range(parts):
            bent = bent or at[s, j, 3] >= 0
            if facts[s, j, 0] > 0:
                flat += facts[s, j, 6] ** 2 * facts[s, j, 1] / facts[s, j, 0] ** 2
        rounded = flat * _ROUNDED_VARIANCE
        flat = flat * 1e-12
        df = freedom[j]
        shrink = (8 * df + 1) / (8 * df + 3)
        for b in range(sums.shape[1]):
            mean = variance = third = 0.0
            for s in range(parts):
                n = facts[s, j, 0]
                if n <= 0:
                    continue
                f = facts[s, j, 6]
                total = sums[at[s, j, 0], b] * unit[at[s, j, 0]]
                own = total / n
                cross = facts[s, j, 7] * total
                square = total
                if at[s, j, 1] >= 0:
                    cross = sums[at[s, j, 1], b] * unit[at[s, j, 1]]
                    square = sums[at[s, j, 2], b] * unit[at[s, j, 2]]
                mean += f * own
                variance += f * f * (facts[s, j, 1] - 2 * own * cross + own * own * facts[s, j, 2]) / (n * n)
                if bent:
                    cube = 0.0
                    if at[s, j, 3] >= 0:
                        cube = sums[at[s, j, 3], b] * unit[at[s, j, 3]]
                        cube += -3 * own * facts[s, j, 3] + 3 * own * own * square - own**3 * facts[s, j, 4]
                    third += f**3 * cube * facts[s, j, 5] / n**3
            lean = 0.0
            if variance <= flat:
                variance = flat
            elif bent and variance > rounded:
                lean = third / variance**1.5
            t = mean / np.sqrt(variance) if variance > 0 else 0.0
            h = t + lean * t * t / 3 + lean * lean * t * t * t / 27 + lean / 6
            out[j, b] = shrink * np.sqrt(df * np.log1p(h * h / df))


class Resamples:
    """Studentised means of resampled units about the observed mean, for the bootstrap test."""

    is_among_draws = False
    exact = False

    def __init__(self, sample: Contributions) -> None:
        self._sample = sample
        with np.errstate(invalid="ignore", divide="ignore"):
            t = np.where(sample.mean == 0, 0.0, np.abs(sample.mean) / sample.error)
        self.observed = np.minimum(normal_of_t(np.minimum(t, 1e100), sample.freedom), 1e100)

    def blocks(self, draws: int, seed: int) -> Iterator[Floats]:
        """(m, block)."""
        sample = self._sample
        off, defined = sample.off, sample.counts
        stacked = np.concatenate([off, off**2, defined], axis=1)
        units, m = off.shape
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
            yield np.minimum(normal_of_t(t, sample.freedom), 1e100).T


@dataclass(frozen=True, eq=False)
class Tail:
    """Where the statistics of some columns stand among those of the draws."""

    alone: Floats  # (m,) share of draws in which a column's own statistic is reached
    largest: Floats  # sorted, of each draw the largest statistic of all columns
    times: int  # how often each counts
    added: int  # 1 where the draws are random, for what was observed
    is_among_draws: bool  # whether what was observed is one of them

    def together(self, statistics: Floats) -> Floats:
        """Share of draws whose largest statistic reaches each of these: p-values within the family."""
        least = statistics * (1 - SAME_SUM)
        reached = self.largest.size - np.searchsorted(self.largest, least, side="left")
        return (self.times * reached + self.added) / (self.times * self.largest.size + self.added)

    def critical(self, alpha: float) -> float:
        """The statistic beyond which `together` is below alpha; infinite where no statistic has so small a p-value."""
        allowed = _allowed(alpha, self.largest.size, self.times, self.added, self.is_among_draws)
        return np.inf if allowed < 0 else float(self.largest[-1 - allowed]) / (1 - SAME_SUM)


def tail(drawn: Flips | Resamples, draws: int, seed: int) -> Tail:
    """The statistics of all columns beside the same draws."""
    (found,) = _tails(drawn, ((block,) for block in drawn.blocks(draws, seed)))
    return found


def tails_of_both(
    about_0: Flips, estimate: WeightedSum, draws: int, seed: int, *, skewness: bool
) -> tuple[Tail, Tail]:
    """The statistics beside flips of the values about 0 and beside the same flips of the values about their mean."""
    if about_0.about_mean is not None:
        first, second = _tails(about_0, about_0.blocks_of_both(about_0.about_mean, draws, seed))
        return first, second
    about_mean = Flips(estimate.centred(), skewness=skewness, observed=about_0.observed)
    return tail(about_0, draws, seed), tail(about_mean, draws, seed)


def _tails(drawn: Flips | Resamples, blocks: Iterable[tuple[Floats, ...]]) -> list[Tail]:
    """Each kind of block's tail, beside the same observed statistics."""
    least = drawn.observed * (1 - SAME_SUM)
    reached, highest = [], []
    for kinds in blocks:
        reached.append([np.count_nonzero(block >= least[:, None], axis=1) for block in kinds])
        highest.append([block.max(axis=0, initial=0.0) for block in kinds])
    times, added = _counting(drawn)
    found = []
    for of_blocks, largest_of_blocks in zip(
        zip(*reached, strict=True), zip(*highest, strict=True), strict=True
    ):
        largest = np.sort(np.concatenate(largest_of_blocks))
        alone = (times * np.sum(of_blocks, axis=0) + added) / (times * largest.size + added)
        found.append(Tail(alone, largest, times, added, drawn.is_among_draws))
    return found


def criticals(drawn: Flips | Resamples, draws: int, seed: int, alpha: float) -> Floats:
    """(m,) critical values of columns that are looked at one by one; see `Tail`."""
    every = np.concatenate(list(drawn.blocks(draws, seed)), axis=1)
    times, added = _counting(drawn)
    allowed = _allowed(alpha, every.shape[1], times, added, drawn.is_among_draws)
    if allowed < 0:
        return np.full(len(every), np.inf)
    at = every.shape[1] - 1 - allowed
    return np.partition(every, at, axis=1)[:, at] / (1 - SAME_SUM)


def _counting(drawn: Flips | Resamples) -> tuple[int, int]:
    """How often each draw counts, and how often what was observed counts beside them."""
    return 1 + drawn.exact, int(not drawn.exact)


def _allowed(alpha: float, draws: int, times: int, added: int, is_among_draws: bool) -> int:
    """How many draws may reach a statistic whose p-value is below alpha; -1 where not even none is."""
    allowed = int(np.ceil((alpha * (times * draws + added) - added) / times - 1e-9)) - 1
    return allowed - (is_among_draws and allowed == 0)  # what is among the draws is reached by itself
