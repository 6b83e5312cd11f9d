"""What chance alone makes of a studentised mean: one statistic, and the draws that it is set beside.

The statistic is z = W(h(T)): T = mean / error; h is Hall's transformation, which takes the skewness of the sample out;
W turns a t of few units into a normal deviate, so that columns of few and of many units share one critical value.

The draws flip signs: each unit's contribution, less the mean that it has under the hypothesis, is as likely with the
other sign. Of one sample that mean is 0, and the test is exact where signs are exchangeable. Of a weighted sum of
samples (data sets, two arms) it is the closest to what was seen among those that make the sum 0.

Sources: P. Hall, "On the removal of skewness by transformation", JRSS B 54 (1992); D. Wallace, "Bounds on normal
approximations to Student's and the chi-square distributions", Annals of Mathematical Statistics 30 (1959);
R. Davidson, E. Flachaire, "The wild bootstrap, tamed at last", Journal of Econometrics 146 (2008).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ltr_harness.compiled import compiled
from ltr_harness.stats.contributions import Contributions, WeightedSum
from ltr_harness.stats.moments import Floats
from ltr_harness.stats.resampling import (
    EXACT_UP_TO,
    SAME_SUM,
    flipped_sums,
    half_of_flipped_sums,
    on_grid,
    resample_counts,
)

_CONSTANT = 1e-12  # variance as a share of the mean square, below which all that differs is rounding
_CURVED = 0.01  # sd of skewness under flips, from which on it is computed draw by draw


def hall(t: Floats, lean: Floats) -> Floats:
    """Hall's transformation t + a t**2 / 3 + a**2 t**3 / 27 + a / 6; a is the skewness of the mean."""
    turned: Floats = t + lean * t**2 / 3 + lean**2 * t**3 / 27 + lean / 6
    return turned


def unhall(h: Floats, lean: Floats) -> Floats:
    """The t that `hall` turns into h; it is unique.

    Example:
        >>> float(unhall(hall(np.array(2.5), np.array(0.3)), np.array(0.3)).round(12))
        2.5
    """
    straight = np.abs(lean) < 1e-7  # as straight as numbers can tell
    bent = np.where(straight, 1.0, lean)
    return np.asarray(np.where(straight, h, 3 / bent * (np.cbrt(1 + bent * (h - bent / 6)) - 1)))


def normal_of_t(t: Floats, freedom: Floats) -> Floats:
    """The normal deviate of a t with these degrees of freedom, its size (Wallace's approximation).

    Example:
        >>> normal_of_t(np.array([2.571, 1.96]), np.array([5.0, 1e9])).round(2).tolist()
        [1.96, 1.96]
    """
    return (8 * freedom + 1) / (8 * freedom + 3) * np.sqrt(freedom * np.log1p(t**2 / freedom))


def t_of_normal(z: Floats, freedom: Floats) -> Floats:
    """The t that `normal_of_t` turns into z."""
    with np.errstate(over="ignore"):
        return np.sqrt(freedom * np.expm1((z * (8 * freedom + 3) / (8 * freedom + 1)) ** 2 / freedom))


class Flips:
    """Statistics of some columns under sign patterns: all of them where few units differ, else random ones.

    Attributes:
        observed: (m,) without a flip.
    """

    def __init__(self, estimate: WeightedSum, *, skewness: bool = True) -> None:
        self._freedom = estimate.freedom_of_sizes
        theta, variance = np.nan_to_num(estimate.mean), estimate.error**2
        with np.errstate(invalid="ignore", divide="ignore"):
            shift = np.where(variance > 0, theta / variance, 0.0)
        single = len(estimate.parts) == 1
        centres = [
            np.zeros_like(theta) if single else part.mean - factor * part.error**2 * shift
            for factor, part in zip(estimate.factors, estimate.parts, strict=True)
        ]
        own = [
            part.sums - part.counts * np.nan_to_num(centre)
            for part, centre in zip(estimate.parts, centres, strict=True)
        ]
        squares = sum(np.square(part).sum(axis=0) for part in own)
        scale = np.sqrt(squares / np.maximum(sum(part.units for part in estimate.parts), 1))
        scale = np.where(scale > 0, scale, 1.0)
        columns = [
            _part(part, sums / scale, factor, skewness)
            for part, sums, factor in zip(estimate.parts, own, estimate.factors, strict=True)
        ]
        self._facts = np.stack([facts for facts, _, _ in columns])
        starts = np.cumsum([0, *[grid.shape[1] for _, grid, _ in columns]])
        self._at = np.stack(
            [np.where(at >= 0, at + start, -1) for (_, _, at), start in zip(columns, starts, strict=False)]
        )
        rows = sum(len(grid) for _, grid, _ in columns)
        if single:
            flipped = columns[0][1]
        else:
            flipped = np.zeros((rows, int(starts[-1])))
            top = 0
            for (_, grid, _), start in zip(columns, starts, strict=False):
                flipped[top : top + len(grid), start : start + grid.shape[1]] = grid
                top += len(grid)
        self._grid, self._unit = on_grid(flipped)
        self._differing = self._grid[(self._grid != 0).any(axis=1)]
        self.exact = len(self._differing) <= EXACT_UP_TO
        self.observed = self._statistics(self._grid.sum(axis=0)[:, None])[:, 0]
        if skewness:  # which matters to what was observed also where it does not to the draws
            straight = np.flatnonzero((self._at[:, :, 3] < 0).all(axis=0) & (variance > 0))
            t = theta[straight] / estimate.error[straight]
            h = hall(t, estimate.lean[straight])
            self.observed[straight] = normal_of_t(h, self._freedom[straight])

    def blocks(self, draws: int, seed: int) -> Iterator[Floats]:
        """(m, block): the statistics of each column and pattern; of all patterns half, as the opposite has the same."""
        every = (
            (half_of_flipped_sums(self._differing),) if self.exact else flipped_sums(self._grid, draws, seed)
        )
        for sums in every:
            yield self._statistics(np.ascontiguousarray(sums.T))

    def _statistics(self, sums: Floats) -> Floats:
        out = np.empty((self._at.shape[1], sums.shape[1]))
        _studentise(sums, self._unit, self._facts, self._at, self._freedom, out)
        return out


def _part(
    part: Contributions, sums: Floats, factor: float, skewness: bool
) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """What of a sample is flipped, and what the statistic needs beside.

    Returns:
        facts: (m, 8), see `_studentise`.
        flipped: (G, columns).
        at: (m, 4), which columns of `flipped` are the sums of a column, of w n S, n**2 S and S**3; -1 where there is
            none: in even samples the second and third follow from the first; without skewness the last is not used.
    """
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
    facts = np.stack(
        [
            n,
            (w * squares).sum(axis=0),
            (w * counts**2).sum(axis=0),
            (counts * squares).sum(axis=0),
            (counts**3).sum(axis=0),
            small,
            np.full(m, factor),
            wide,
        ],
        axis=1,
    )
    at = np.full((m, 4), -1, dtype=np.int64)
    at[:, 0] = np.arange(m)
    flipped = [sums]
    if not part.even:
        at[:, 1], at[:, 2] = m + np.arange(m), 2 * m + np.arange(m)
        flipped += [w * counts * sums, counts**2 * sums]
    if skewness:
        which = np.flatnonzero(curved)
        at[which, 3] = sum(column.shape[1] for column in flipped) + np.arange(which.size)
        flipped.append(cubes[:, which])
    return facts, np.concatenate(flipped, axis=1), at


@compiled
def _studentise(
    sums: Floats, unit: Floats, facts: Floats, at: NDArray[np.int64], freedom: Floats, out: Floats
) -> None:
    """The statistic of each column under each pattern.

    Args:
        sums: (columns, block) flipped sums in whole units.
        unit: (columns,) the size of one.
        facts: (parts, m, 8): n, sum w S**2, sum w n**2, sum n S**2, sum n**3, the factor of the third cumulant, that of
            the sample, and of an even sample w.
        at: (parts, m, 4), see `_part`.
        freedom: (m,) degrees of freedom.
        out: (m, block), written.
    """
    parts, m = at.shape[0], at.shape[1]
    for j in range(m):
        bent = False
        flat = 0.0
        for s in range(parts):
            bent = bent or at[s, j, 3] >= 0
            if facts[s, j, 0] > 0:
                flat += facts[s, j, 6] ** 2 * facts[s, j, 1] / facts[s, j, 0] ** 2
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
            elif bent:
                lean = third / variance**1.5
            t = mean / np.sqrt(variance) if variance > 0 else 0.0
            h = t + lean * t * t / 3 + lean * lean * t * t * t / 27 + lean / 6
            out[j, b] = shrink * np.sqrt(df * np.log1p(h * h / df))


class Resamples:
    """Studentised means of resampled units about the observed mean, for the bootstrap test.

    Attributes:
        observed: (m,).
    """

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
        m = off.shape[1]
        for counts in resample_counts(len(off), draws, seed):
            totals = counts @ stacked
            total, square, n = totals[:, :m], totals[:, m : 2 * m], totals[:, 2 * m :]
            with np.errstate(invalid="ignore", divide="ignore"):
                mean = total / n
                variance = np.maximum(square / n - mean**2, 0.0) / (n - 1)
                t = np.where(mean == 0, 0.0, np.abs(mean) / np.sqrt(variance))
            t = np.where(np.isnan(t), 0.0, np.minimum(t, 1e100))
            yield np.minimum(normal_of_t(t, sample.freedom), 1e100).T


@dataclass(frozen=True, eq=False)
class Tail:
    """Where the statistics of some columns stand among those of the draws.

    Attributes:
        alone: (m,) share of draws in which a column's own statistic is reached.
        largest: sorted, of each draw the largest statistic of all columns.
        times: how often each counts.
        added: 1 where the observed pattern is not among the draws.
    """

    alone: Floats
    largest: Floats
    times: int
    added: int

    def together(self, statistics: Floats) -> Floats:
        """Share of draws whose largest statistic reaches each of these: p-values within the family."""
        least = statistics * (1 - SAME_SUM)
        reached = self.largest.size - np.searchsorted(self.largest, least, side="left")
        return (self.times * reached + self.added) / (self.times * self.largest.size + self.added)

    def critical(self, alpha: float) -> float:
        """The statistic beyond which `together` is below alpha; infinite where no statistic has so small a p-value."""
        allowed = _allowed(alpha, self.largest.size, self.times, self.added)
        return np.inf if allowed < 0 else float(self.largest[-1 - allowed]) / (1 - SAME_SUM)


def tail(drawn: Flips | Resamples, draws: int, seed: int) -> Tail:
    """The statistics of all columns beside the same draws."""
    reached = np.zeros(drawn.observed.size)
    least = drawn.observed * (1 - SAME_SUM)
    highest = []
    for block in drawn.blocks(draws, seed):
        reached += np.count_nonzero(block >= least[:, None], axis=1)
        highest.append(block.max(axis=0, initial=0.0))
    largest = np.sort(np.concatenate(highest))
    times, added = (2, 0) if drawn.exact else (1, 1)
    return Tail((times * reached + added) / (times * largest.size + added), largest, times, added)


def criticals(drawn: Flips | Resamples, draws: int, seed: int, alpha: float) -> tuple[Floats, Floats]:
    """(m,) p-values and critical values of columns that are looked at one by one; see `Tail`."""
    every = np.concatenate(list(drawn.blocks(draws, seed)), axis=1)
    times, added = (2, 0) if drawn.exact else (1, 1)
    least = drawn.observed * (1 - SAME_SUM)
    reached = np.count_nonzero(every >= least[:, None], axis=1)
    allowed = _allowed(alpha, every.shape[1], times, added)
    if allowed < 0:
        critical = np.full(least.size, np.inf)
    else:
        at = every.shape[1] - 1 - allowed
        critical = np.partition(every, at, axis=1)[:, at] / (1 - SAME_SUM)
    return (times * reached + added) / (times * every.shape[1] + added), critical


def _allowed(alpha: float, draws: int, times: int, added: int) -> int:
    """How many draws may reach a statistic whose p-value is below alpha; -1 where not even none is."""
    allowed = int(np.ceil((alpha * (times * draws + added) - added) / times - 1e-9)) - 1
    return allowed if allowed or added else -1  # of all patterns, the observed one is reached by itself
