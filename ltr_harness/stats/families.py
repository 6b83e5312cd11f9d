"""Families of comparisons: p-values, intervals and verdicts of several differences at once, all from the same draws.

The draws keep the largest statistic of the whole family. A p-value is the share of draws in which it reaches the
observed one, and the interval is every mean that these draws do not reject: p < alpha, "0 lies outside the interval"
and the verdict are one fact (single-step max: P. Westfall, S. Young, Resampling-Based Multiple Testing, 1993).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from ltr_harness.stats.betting import bounded_means
from ltr_harness.stats.contributions import Contributions, WeightedSum
from ltr_harness.stats.method import Method
from ltr_harness.stats.moments import Floats
from ltr_harness.stats.reference import (
    Flips,
    Resamples,
    criticals,
    hall,
    normal_of_t,
    t_of_normal,
    tail,
    unhall,
)
from ltr_harness.stats.resampling import EXACT_UP_TO
from ltr_harness.stats.seeds import MethodDifference

SMALLEST_P = float(np.finfo(np.float64).tiny)
"""A p-value of 0 claims more than any sample can."""

_POWER = float(ndtri(0.8))
_ENDLESS = 1e50  # standard errors: resamples of a few units may have no spread
_AT_ONCE = 64  # columns looked at one by one whose draws are kept, 5 MB for 10,000 of them


@dataclass(frozen=True, eq=False)
class Outcome:
    """Every difference of every family, (m,) each; NaN where fewer than two units have a value.

    Attributes:
        p: of each difference by itself.
        p_corrected: within its family.
        p_equivalence: of lying within the margin, within its family; NaN without a margin.
        low, high: the interval; it holds 0 exactly where `p_corrected` is not below the level.
        detectable: the true difference that is found with 80 % probability.
    """

    p: Floats
    p_corrected: Floats
    p_equivalence: Floats
    low: Floats
    high: Floats
    detectable: Floats

    @classmethod
    def unknown(cls, m: int) -> Outcome:
        return cls(*(np.full(m, np.nan) for _ in range(6)))

    def put(self, which: NDArray[np.integer], other: Outcome) -> None:
        """Writes the outcomes of some columns into their places."""
        for name in self.__dataclass_fields__:
            getattr(self, name)[which] = getattr(other, name)


def outcomes(
    estimate: WeightedSum | Contributions,
    method: Method,
    *,
    families: Sequence[slice] | None = None,
    seeds: Sequence[MethodDifference | None] = (),
    ranges: Floats | None = None,
) -> Outcome:
    """Tests all differences, family by family.

    Args:
        estimate: the differences, m columns; a single sample, or a weighted sum of independent ones.
        method: test, correction, confidence, margin.
        families: which columns are tested together; None: all of them.
        seeds: (m,) what other trainings add to a difference; None where nothing is known of them.
        ranges: (m,) how far apart two values of the metric can be; `bounded` needs it.

    Example:
        Gains on four queries of fifty, small losses on the others: the sign is open.

        >>> d = np.r_[np.full(46, -0.05), 0.5, 0.6, 0.4, 0.1][:, None]
        >>> one = outcomes(Contributions.of(d), Method())
        >>> bool(one.p_corrected[0] > 0.3), bool(one.low[0] < 0 < one.high[0])
        (True, True)
    """
    if isinstance(estimate, Contributions):
        estimate = WeightedSum((estimate,))
    m = estimate.mean.size
    found = Outcome.unknown(m)
    together = [np.arange(m)[part] for part in families or (slice(None),)]
    usable = estimate.units > 1
    for family in together:
        tested = family[usable[family]]
        if not tested.size:
            continue
        if method.correction == "none":
            found.put(tested, _each(estimate.columns(tested), method, _taken(ranges, tested)))
        else:
            found.put(tested, _joint(estimate.columns(tested), method, _taken(ranges, tested)))
        if any(seeds):
            own = found_at(found, tested)
            found.put(tested, _with_seeds(own, [seeds[j] for j in tested], method))
    return found


def found_at(outcome: Outcome, which: NDArray[np.integer]) -> Outcome:
    """The outcomes of some columns."""
    return Outcome(*(getattr(outcome, name)[which] for name in outcome.__dataclass_fields__))


def mean_intervals(
    sample: Contributions, method: Method, bounds: Sequence[tuple[float, float]] = ()
) -> tuple[Floats, Floats]:
    """Ends of the intervals of the means, each by itself.

    The draws flip the units' contributions about their own mean. Where all values are equal, the interval is that of
    the values that a part of the units, small enough to be absent from these, could have within the metric's bounds.

    Args:
        sample: m columns.
        method: test, confidence, draws.
        bounds: (m,) lowest and highest value of the metrics; infinite where there is none.
    """
    low, high = np.full((2, sample.mean.size), np.nan)
    tested = np.flatnonzero(sample.units > 1)
    own = sample.columns(tested)
    if method.test == "bounded" and bounds:
        width = np.array([top - bottom for bottom, top in bounds])[tested]
        base = np.array([bottom if np.isfinite(bottom) else 0.0 for bottom, _ in bounds])[tested]
        shifted = Contributions(own.sums - own.counts * base, own.counts, own.squares)
        least = np.where(np.isfinite(width), 0.0, -np.inf)
        _, _, *ends = bounded_means(shifted, least, width, method.alpha, method.seed)
        low[tested], high[tested] = (end + base for end in ends)
        return low, high
    if method.test == "t":
        reach = np.asarray(stdtrit(own.freedom, (1 + method.confidence) / 2), dtype=np.float64)
        lean = np.zeros_like(own.mean)
    else:
        skewness = method.test == "skew-adjusted"
        _, critical = _criticals(WeightedSum((own.centred(),)), method, skewness)
        reach, lean = t_of_normal(critical, own.freedom_of_sizes), own.lean * skewness
    low[tested], high[tested] = _ends(own.mean, own.error, lean, reach)
    for at, j in enumerate(tested.tolist()):
        if own.error[at] == 0 and bounds and np.isfinite(bounds[j]).all():
            share = rare_share(int(own.units[at]), method.alpha)
            low[j] -= share * (own.mean[at] - bounds[j][0])
            high[j] += share * (bounds[j][1] - own.mean[at])
    return low, high


def rare_share(units: int, alpha: float) -> float:
    """The share of a kind of unit that so many units hold none of with probability alpha: 1 - alpha**(1/n).

    Example:
        >>> round(rare_share(50, 0.05), 4)
        0.0582
    """
    return float(1 - alpha ** (1 / units))


def _taken(ranges: Floats | None, which: NDArray[np.integer]) -> Floats:
    return np.full(which.size, np.inf) if ranges is None else ranges[which]


def _ends(mean: Floats, error: Floats, lean: Floats, reach: Floats) -> tuple[Floats, Floats]:
    """Interval ends `reach` standard errors off before skewness counts; infinite where no reach is enough."""
    above = np.where(reach < _ENDLESS, unhall(reach, lean), np.inf)
    below = np.where(reach < _ENDLESS, unhall(-reach, lean), -np.inf)
    with np.errstate(invalid="ignore"):
        return mean - np.where(error > 0, above * error, 0.0), mean - np.where(error > 0, below * error, 0.0)


def _joint(estimate: WeightedSum, method: Method, ranges: Floats) -> Outcome:
    """All columns as one family."""
    m = estimate.mean.size
    if method.test == "t":
        return _by_t(estimate, method, m)
    if method.test == "bounded":
        return _by_bets(estimate, method, ranges, m)
    skewness = method.test == "skew-adjusted"
    drawn = Resamples(estimate.parts[0]) if method.test == "bootstrap" else Flips(estimate, skewness=skewness)
    found = tail(drawn, method.draws, method.seed)
    critical = found.critical(method.alpha)
    share: Callable[[Floats], Floats] = found.together
    if np.isinf(critical):  # too few units differ for any p-value below the level
        most = max(float(found.largest[-1]), float(drawn.observed.max()))
        critical = max(most * (1 + 1e-9), float(ndtri(1 - method.alpha / (2 * m))))
        share = _of_few(critical, method.alpha, m)
    p_corrected = found.together(drawn.observed)
    return _from_critical(estimate, method, skewness, found.alone, p_corrected, np.full(m, critical), share)


def _of_few(critical: float, alpha: float, family: int) -> Callable[[Floats], Floats]:
    """p-values of statistics by the normal distribution, below the level exactly beyond the critical value."""

    def share(statistic: Floats) -> Floats:
        p = np.clip(2 * family * ndtr(-statistic), SMALLEST_P, 1.0)
        return np.where(statistic > critical, p, np.maximum(p, alpha))

    return share


def _each(estimate: WeightedSum, method: Method, ranges: Floats) -> Outcome:
    """Each column as a family of its own."""
    if method.test == "t":
        return _by_t(estimate, method, 1)
    if method.test == "bounded":
        return _by_bets(estimate, method, ranges, 1)
    parts = [_joint(estimate.columns(np.array([j])), method, ranges[[j]]) for j in range(estimate.mean.size)]
    return Outcome(
        *(np.concatenate([getattr(one, name) for one in parts]) for name in Outcome.__dataclass_fields__)
    )


def _criticals(estimate: WeightedSum, method: Method, skewness: bool) -> tuple[Floats, Floats]:
    """p-values and critical values of columns looked at one by one, finite always."""
    m = estimate.mean.size
    p, critical = np.ones(m), np.zeros(m)
    differing = sum(np.count_nonzero(part.sums, axis=0) for part in estimate.parts)
    few = np.flatnonzero(differing <= EXACT_UP_TO)
    many = np.flatnonzero(differing > EXACT_UP_TO)
    for block in (*few[:, None], *(many[at : at + _AT_ONCE] for at in range(0, many.size, _AT_ONCE))):
        drawn = Flips(estimate.columns(block), skewness=skewness)
        p[block], critical[block] = criticals(drawn, method.draws, method.seed, method.alpha)
    least = float(ndtri(1 - method.alpha / 2))
    return p, np.where(np.isinf(critical), least, np.where(differing > 0, critical, least))


def _from_critical(
    estimate: WeightedSum,
    method: Method,
    skewness: bool,
    p: Floats,
    p_corrected: Floats,
    critical: Floats,
    share: Callable[[Floats], Floats],
) -> Outcome:
    """Intervals, equivalence and detectable differences that go with critical values of the statistic."""
    mean, error = estimate.mean, estimate.error
    lean = estimate.lean * skewness
    reach = t_of_normal(critical, estimate.freedom_of_sizes)
    low, high = _ends(mean, error, lean, reach)
    open_ = p_corrected >= method.alpha
    low, high = np.where(open_, np.minimum(low, 0.0), low), np.where(open_, np.maximum(high, 0.0), high)
    p_equivalence = np.full_like(p, np.nan)
    if method.margin is not None:
        with np.errstate(invalid="ignore", divide="ignore"):
            above = hall((mean + method.margin) / error, lean)
            below = -hall((mean - method.margin) / error, lean)
        nearest = np.fmin(above, below)
        statistic = normal_of_t(np.clip(np.nan_to_num(nearest), 0.0, 1e100), estimate.freedom_of_sizes)
        p_equivalence = np.where(nearest > 0, share(statistic), 1.0)
        p_equivalence = _of_constants(p_equivalence, mean, error, method.margin)
    return Outcome(p, p_corrected, p_equivalence, low, high, (reach + _POWER) * error)


def _of_constants(p: Floats, mean: Floats, error: Floats, margin: float) -> Floats:
    """p-values of equivalence where nothing varies: whether the mean lies within the margin is plain."""
    return np.where(error > 0, p, np.where(np.abs(mean) < margin, SMALLEST_P, 1.0))


def _by_t(estimate: WeightedSum, method: Method, family: int) -> Outcome:
    """Student's t of each column; of a family by Bonferroni."""
    mean, error, freedom = estimate.mean, estimate.error, estimate.freedom
    with np.errstate(invalid="ignore", divide="ignore"):
        t = np.where(mean == 0, 0.0, np.abs(mean) / error)
    p = np.maximum(2 * stdtr(freedom, -t), SMALLEST_P)
    reach = stdtrit(freedom, 1 - method.alpha / (2 * family))
    low, high = mean - reach * error, mean + reach * error
    p_equivalence = np.full_like(p, np.nan)
    if method.margin is not None:
        with np.errstate(invalid="ignore", divide="ignore"):
            sides = stdtr(freedom, -(method.margin - np.abs(mean)) / error)
        p_equivalence = _of_constants(
            np.clip(2 * family * sides, SMALLEST_P, 1.0), mean, error, method.margin
        )
    return Outcome(p, np.minimum(family * p, 1.0), p_equivalence, low, high, (reach + _POWER) * error)


def _by_bets(estimate: WeightedSum, method: Method, ranges: Floats, family: int) -> Outcome:
    """Bets on bounded differences; of a family by Bonferroni."""
    level = method.alpha / family
    (sample,) = estimate.parts
    p, inside, low, high = bounded_means(sample, -ranges, ranges, level, method.seed, method.margin or 0.0)
    p_equivalence = np.full_like(p, np.nan)
    if method.margin is not None:
        p_equivalence = np.minimum(family * inside, 1.0)
    # what bets find, by the width of their interval
    detectable = (high - low) / 2 + _POWER * estimate.error
    return Outcome(p, np.minimum(family * p, 1.0), p_equivalence, low, high, detectable)


def _with_seeds(trained: Outcome, seeds: Sequence[MethodDifference | None], method: Method) -> Outcome:
    """What holds for other queries and other trainings.

    A difference of methods has to be one of the trained models, too: of two p-values the larger counts, and of two
    intervals the hull. Over trainings the family's correction is Bonferroni's.
    """
    family = 1 if method.correction == "none" else len(seeds)
    known = np.array([one is not None for one in seeds])

    def of(value: Callable[[MethodDifference], float]) -> Floats:
        return np.array([np.nan if one is None else value(one) for one in seeds])

    ends = np.array(
        [(np.nan, np.nan) if one is None else one.interval(1 - method.alpha / family) for one in seeds]
    ).reshape(-1, 2)
    own = of(lambda one: one.p())
    p_equivalence = trained.p_equivalence
    if method.margin is not None:
        margin = method.margin
        sides = of(lambda one: one.p_equivalence(margin))
        p_equivalence = np.fmax(p_equivalence, np.minimum(2 * family * sides, 1.0))
    return replace(
        trained,
        p=np.where(known, np.fmax(trained.p, own), trained.p),
        p_corrected=np.fmax(trained.p_corrected, np.minimum(family * own, 1.0)),
        p_equivalence=p_equivalence,
        low=np.fmin(trained.low, ends[:, 0]),
        high=np.fmax(trained.high, ends[:, 1]),
        detectable=np.fmax(trained.detectable, of(lambda one: one.detectable(method.alpha / family))),
    )
