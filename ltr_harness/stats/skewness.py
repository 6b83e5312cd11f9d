"""Are two rankers different where a few queries decide? Sign flips of a t statistic adjusted for skewness.

The plain test takes each difference for as likely with the other sign. Where most queries lose a little and few
gain much, that is far from true: a sample that holds too few of the gains has a mean too low *and* a standard
deviation too small, and 5 % become 10 to 20. Two things mend it, and change next to nothing elsewhere:

* the statistic is Hall's transformation of t, which takes the sample's own skewness out; it is flipped like the
  differences, so the test stays exact where signs are exchangeable;
* what the queries may not hold at all has a p-value of its own (`unseen_p`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from ltr_harness.stats.moments import Floats, moments
from ltr_harness.stats.resampling import EXACT_UP_TO, SAME_SUM, flipped_sums, half_of_flipped_sums, on_grid

ONE_SIDED = 0.1
"""One direction is nearly alone where the differences of the other add up to less than this share of it."""

_COLUMNS = 128  # tested at a time: their drawn statistics are kept, 10 MB for 10,000 draws
_AT_ONCE = 8192  # statistics computed together: their arrays stay in the processor's cache
_CONSTANT = 1e-12  # 1 - mean**2 / mean of squares, below which all that differs between values is rounding
_CURVED = 0.01  # sd of skewness / sqrt(n) under flips, from which on it is computed draw by draw
_SMALLEST_P = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class SkewAdjusted:
    """The outcome, column by column.

    Attributes:
        p: (m,) two-sided, never 0; NaN for fewer than two values.
        low, high: (m,) intervals of the means; NaN likewise.
    """

    p: Floats
    low: Floats
    high: Floats


def skew_adjusted(
    d: Floats,
    largest: Floats | float = np.inf,
    *,
    confidence: Floats | float = 0.95,
    draws: int = 10_000,
    seed: int = 0,
    together: bool = False,
) -> SkewAdjusted:
    """Sign flips of the skewness-adjusted t, and the interval of all means that they do not reject.

    With T = mean / (sd / sqrt(n)), skewness g and a = g / sqrt(n) the statistic is
    h = T + a T**2 / 3 + a**2 T**3 / 27 + a / 6, which is distributed more symmetrically than T;
    p = (#{|h*| >= |h|} + 1) / (draws + 1) over random sign patterns, or #/2**k over all of them with k <= 16
    non-zero differences. It is never below `unseen_p`. Where too few differ for any p below 1 - confidence, the
    interval is that of t.

    Args:
        d: (n, m) paired differences; NaN where undefined.
        largest: (m,) or one number, the largest difference that a query could have; infinite where unknown:
            then nothing is said of queries that were not seen.
        confidence: (m,) or one number, of each interval; one number, of all of them at once, where they are tested
            together.
        draws: random sign patterns, the same for all columns.
        seed: of the draws; the same seed gives the same numbers on any number of threads.
        together: correct for all columns, as `corrections.max_t` does: the largest |h| of each draw counts.

    Example:
        Gains on four queries of fifty, small losses on the others: the sign is open.

        >>> d = np.r_[np.full(46, -0.05), 0.5, 0.6, 0.4, 0.1][:, None]
        >>> bool(skew_adjusted(d).p[0] > 0.3)
        True

    Source: P. Hall, "On the removal of skewness by transformation", JRSS B 54 (1992).
    """
    sample = moments(d)
    tested = np.flatnonzero(sample.n > 1)
    p, critical = np.full(d.shape[1], np.nan), np.full(d.shape[1], np.inf)
    alpha = np.broadcast_to(1 - np.asarray(confidence), (d.shape[1],))
    if tested.size:
        draw = _together if together else _each
        p[tested], critical[tested] = draw(d[:, tested], alpha[tested], draws, seed)
    family = max(tested.size, 1) if together else 1
    unseen = unseen_p(d, largest)
    with np.errstate(invalid="ignore", divide="ignore"):
        lean = np.where(np.isinf(critical), 0.0, sample.skewness / np.sqrt(sample.n))
        freedom = np.maximum(sample.n - 1, 1).astype(np.float64)
        reach = np.where(np.isinf(critical), stdtrit(freedom, 1 - alpha / 2), critical)
        low = sample.mean - unhall(reach, lean) * sample.standard_error
        high = sample.mean - unhall(-reach, lean) * sample.standard_error
        missed = 1 - (alpha / family) ** (1 / sample.n)
        room = np.where(unseen > 0, missed * np.where(np.isinf(largest), 0.0, largest), 0.0)
    low = np.where(sample.mean > 0, np.minimum(low, sample.mean - room), low)
    high = np.where(sample.mean < 0, np.maximum(high, sample.mean + room), high)
    p = np.maximum(p, np.minimum(unseen * family, 1.0))
    return SkewAdjusted(np.where(sample.n > 1, p, np.nan), low, high)


def unseen_p(d: Floats, largest: Floats | float) -> Floats:
    """How easily could these queries lack a rare kind of query that makes up for all their differences?

    Where nearly all differences have one sign, no test of the queries at hand knows anything of those that would
    speak against it. If a share of queries has the `largest` difference the other way and the mean is 0, that
    share is |mean| / largest, and n queries hold none of them with probability p = (1 - |mean| / largest)**n.

    Args:
        d: (n, m) paired differences; NaN where undefined.
        largest: (m,) or one number, the largest difference that a query could have.

    Returns:
        (m,) p; 0 where both directions are there (`ONE_SIDED`), or where `largest` is infinite.

    Example:
        Fifty queries lose 0.0375 each; were one in 27 to gain 1 - 0.0375, fifty would hold none in 15 % of cases.

        >>> unseen_p(np.full((50, 1), -0.0375), 1.0).round(3).tolist()
        [0.148]
    """
    n = (~np.isnan(d)).sum(axis=0)
    filled = np.where(np.isnan(d), 0.0, d)
    gains, losses = np.maximum(filled, 0.0).sum(axis=0), np.maximum(-filled, 0.0).sum(axis=0)
    alone = np.minimum(gains, losses) < ONE_SIDED * np.maximum(gains, losses)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.minimum(np.abs(gains - losses) / n / largest, 1.0)
        p = np.where(alone & ~np.isinf(largest), np.maximum((1 - share) ** n, _SMALLEST_P), 0.0)
    return np.asarray(p)


def skew_adjusted_t_p(mean: Floats, error: Floats, skewness: Floats, n: NDArray[np.int64]) -> Floats:
    """One-sided p-values of "the mean is 0 or less", by Hall's transformation referred to t without any draws.

    Args:
        mean: (m,) less the mean that is tested.
        error: (m,) standard errors of the means.
        skewness: (m,) of the values.
        n: (m,) values behind each mean.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        t = np.where(mean == 0, 0.0, mean / error)
        lean = np.where(np.isinf(t), 0.0, skewness / np.sqrt(n))
        p = stdtr(np.maximum(n - 1, 1).astype(np.float64), -hall(t, lean))
    return np.where(n > 1, np.maximum(p, _SMALLEST_P), np.nan)


def hall(t: Floats, lean: Floats) -> Floats:
    """Hall's transformation of t; lean is skewness / sqrt(n)."""
    turned: Floats = t + lean * t**2 / 3 + lean**2 * t**3 / 27 + lean / 6
    return turned


def unhall(h: Floats, lean: Floats) -> Floats:
    """The t that `hall` turns into h; it is unique.

    Example:
        >>> float(unhall(hall(np.array(2.5), np.array(0.3)), np.array(0.3)).round(12))
        2.5
    """
    bent = np.where(np.abs(lean) < 1e-7, 1.0, lean)  # as straight as numbers can tell
    t = np.where(np.abs(lean) < 1e-7, h, 3 / bent * (np.cbrt(1 + bent * (h - bent / 6)) - 1))
    return np.asarray(t)


def _each(d: Floats, alpha: Floats, draws: int, seed: int) -> tuple[Floats, Floats]:
    """p and critical |h| of each column by itself."""
    p, critical = np.empty(d.shape[1]), np.empty(d.shape[1])
    few = np.count_nonzero(np.nan_to_num(d), axis=0) <= EXACT_UP_TO
    many = np.flatnonzero(~few)
    blocks = [many[start : start + _COLUMNS] for start in range(0, many.size, _COLUMNS)]
    for block in (*np.flatnonzero(few)[:, None], *blocks):
        flips = _Flips(d[:, block])
        drawn = np.concatenate(list(flips.blocks(draws, seed)), axis=1)
        p[block], critical[block] = _tail(drawn, flips, alpha[block])
    return p, critical


def _together(d: Floats, alpha: Floats, draws: int, seed: int) -> tuple[Floats, Floats]:
    """p and critical |h| where the largest |h| of all columns counts."""
    flips = _Flips(d)
    highest = np.concatenate([drawn.max(axis=0) for drawn in flips.blocks(draws, seed)])
    return _tail(highest[None], flips, alpha)


class _Flips:
    """|h| of some columns under sign patterns: all of them where few queries differ, else random ones.

    Attributes:
        times: how often each pattern counts; twice where its opposite, whose |h| is the same, is left out.
        added: the observed pattern, if it is not among them.
        observed: (m,) |h| without a flip.
    """

    def __init__(self, d: Floats) -> None:
        self._n = (~np.isnan(d)).sum(axis=0).astype(np.float64)
        known = np.where(np.isnan(d), 0.0, d)
        rms = np.sqrt(
            np.square(np.ascontiguousarray(known.T)).sum(axis=1) / self._n
        )  # whatever else is tested
        scaled = known / np.where(rms > 0, rms, 1.0)
        grid, unit = on_grid(scaled)
        cubes = scaled * scaled * scaled
        # Of flipped values, skewness / sqrt(n) is 0 but for chance; where that is too small to matter, it is not
        # looked at: half the sums for the thousands of queries that take time.
        curved = np.sqrt((cubes**2).sum(axis=0)) > _CURVED * self._n**1.5
        self._plain, self._curved = np.flatnonzero(~curved), np.flatnonzero(curved)
        third, unit_of_third = on_grid(cubes[:, curved])
        self._unit, self._unit_of_third = unit / self._n, unit_of_third / self._n[curved]
        self._grid = np.concatenate([grid, third], axis=1)
        self._differing = self._grid[(grid != 0).any(axis=1)]
        self.times, self.added = (2, 0) if len(self._differing) <= EXACT_UP_TO else (1, 1)
        exact_mean, exact_third = grid.sum(axis=0) * self._unit, cubes.mean(axis=0) * len(d) / self._n
        exact_third[curved] = third.sum(axis=0) * self._unit_of_third
        self.observed = _statistic(exact_mean, exact_third, self._n)

    def blocks(self, draws: int, seed: int) -> Iterator[Floats]:
        """(m, block): |h| of each column and pattern."""
        every = () if self.added else (half_of_flipped_sums(self._differing),)
        for sums in every or flipped_sums(self._grid, draws, seed):
            yield self._statistics(sums.T)

    def _statistics(self, sums: Floats) -> Floats:
        """(m, block) |h| from (m + curved, block) sums of values and of cubes; as many at once as stay in the cache."""
        n, unit, unit_of_third = self._n[:, None], self._unit[:, None], self._unit_of_third[:, None]
        statistics = np.empty((len(n), sums.shape[1]))
        step = max(1, _AT_ONCE // sums.shape[1])
        for start in range(0, self._plain.size, step):
            columns = self._plain[start : start + step]
            mean = sums[columns] * unit[columns]
            # |t|, which is |h| without skewness
            variance = np.maximum(1 - mean * mean, _CONSTANT)
            statistics[columns] = np.abs(mean) * np.sqrt((n[columns] - 1) / variance)
        for start in range(0, self._curved.size, step):
            columns = self._curved[start : start + step]
            part = slice(start, start + step)
            mean, third = sums[columns] * unit[columns], sums[len(n) :][part] * unit_of_third[part]
            statistics[columns] = _statistic(mean, third, n[columns])
        return statistics


def _statistic(mean: Floats, third: Floats, n: Floats) -> Floats:
    """|h| from means of values and of their cubes, where the mean of their squares is 1 (as after any flip).

    It is `hall` written as t (1 + q + q**2 / 3) + a / 6 with q = a t / 3, and in place: a power and an array more
    would take most of a test's time.
    """
    square = mean * mean
    variance = 1 - square
    constant = variance <= _CONSTANT
    any_constant = constant.any()
    if any_constant:
        variance[constant] = _CONSTANT
    inverse = np.divide(1.0, variance, out=variance)
    root = np.sqrt(inverse)
    lean = square  # third - 3 mean + 2 mean**3, over n**0.5 sd**3
    lean *= 2.0
    lean -= 3.0
    lean *= mean
    lean += third
    inverse *= root
    lean *= inverse
    lean *= 1 / np.sqrt(n)
    if any_constant:
        lean[constant] = 0.0
    t = np.multiply(mean, root, out=root)
    t *= np.sqrt(n - 1)
    bend = np.multiply(lean, t, out=inverse)
    bend *= 1 / 3
    factor = bend * (1 / 3)
    factor += 1.0
    factor *= bend
    factor += 1.0
    t *= factor
    lean *= 1 / 6
    t += lean
    return np.abs(t, out=t)


def _tail(drawn: Floats, flips: _Flips, alpha: Floats) -> tuple[Floats, Floats]:
    """p of the observed, and the smallest statistic whose p is below alpha (infinite where there is none).

    Args:
        drawn: (m, patterns), or (1, patterns) for all columns.
        flips: they were drawn from.
        alpha: (m,)
    """
    least = flips.observed * (1 - SAME_SUM)
    total = flips.times * drawn.shape[1] + flips.added
    each = zip(np.broadcast_to(drawn, (least.size, drawn.shape[1])), least, strict=True)
    reached = flips.times * np.array([np.count_nonzero(own >= at) for own, at in each])
    place = (total - np.ceil(alpha * total - 1e-9).astype(np.int64)) // flips.times
    critical = np.full(alpha.shape, np.inf)
    for at in np.unique(place[place < drawn.shape[1]]):
        columns = place == at
        critical[columns] = np.partition(drawn if len(drawn) == 1 else drawn[columns], at, axis=1)[:, at]
    return (reached + flips.added) / total, critical
