"""Families of comparisons: p-values, intervals and verdicts of several differences at once, all from the same draws,
which keep the family's largest statistic: p < alpha, "0 lies outside the interval" and the verdict are one fact.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from ltr_harness.stats import reference
from ltr_harness.stats.betting import bounded_means
from ltr_harness.stats.contributions import SMALLEST_P, Contributions, Floats, WeightedSum, student_p
from ltr_harness.stats.method import Method
from ltr_harness.stats.seeds import MethodDifference

_POWER = float(ndtri(0.8))
_ENDLESS = 1e50  # standard errors: resamples of a few units may have no spread
_AT_ONCE = 64  # columns looked at one by one whose draws are kept, 5 MB for 10,000 of them


class Outcome(NamedTuple):
    """Every difference of every family, (m,) each; NaN where fewer than two units have a value."""

    p: Floats  # of each difference by itself
    p_corrected: Floats  # within its family
    p_equivalence: Floats  # of lying within the margin, within its family; NaN without a margin
    low: Floats  # of the interval, which holds 0 exactly where `p_corrected` is not below the level
    high: Floats
    detectable: Floats  # the true difference that is found with 80 % probability

    @classmethod
    def unknown(cls, m: int) -> Self:
        return cls(*np.full((6, m), np.nan))

    def put(self, which: NDArray[np.integer], other: Self) -> None:
        """Writes the outcomes of some columns into their places."""
        for own, values in zip(self, other, strict=True):
            own[which] = values


def outcomes(
    estimate: WeightedSum | Contributions,  # m columns
    method: Method,
    *,
    families: Sequence[slice] | None = None,  # which columns are tested together; None: all of them
    seeds: Sequence[MethodDifference | None] = (),  # (m,) what other trainings add to a difference
    ranges: Floats | None = None,  # (m,) how far apart two values of the metric can be; `bounded` needs it
) -> Outcome:
    """Tests all differences, family by family."""
    if isinstance(estimate, Contributions):
        estimate = WeightedSum((estimate,))
    m = estimate.mean.size
    found = Outcome.unknown(m)
    widths = np.full(m, np.inf) if ranges is None else ranges
    for part in families or (slice(None),):
        family = np.arange(m)[part]
        tested = family[estimate.units[family] > 1]
        if not tested.size:
            continue
        own = estimate.columns(tested)
        if method.test == "t":
            of_family = by_t(own.mean, own.error, own.freedom, method)
        elif method.test == "bounded":
            of_family = _by_bets(own, method, widths[tested])
        else:
            of_family = _by_draws(own, method)
        if any(seeds):
            of_family = _with_seeds(of_family, [seeds[j] for j in tested], method)
        found.put(tested, of_family)
    return found


def mean_intervals(
    sample: Contributions,  # m columns
    method: Method,
    bounds: Sequence[tuple[float, float]] = (),  # (m,) of the metrics' values; infinite where there are none
) -> tuple[Floats, Floats]:
    """Ends of the intervals of the means, each by itself; of equal values by what units absent here could have."""
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
        critical = _criticals(WeightedSum((own.centred(),)), method, skewness)
        reach, lean = reference.t_of_normal(critical, own.freedom_of_sizes), own.lean * skewness
    low[tested], high[tested] = _ends(own.mean, own.error, lean, reach)
    for at, j in enumerate(tested.tolist()):
        if own.error[at] == 0 and bounds and np.isfinite(bounds[j]).all():
            share = rare_share(int(own.units[at]), method.alpha)
            low[j] -= share * (own.mean[at] - bounds[j][0])
            high[j] += share * (bounds[j][1] - own.mean[at])
    return low, high


def rare_share(units: int, alpha: float) -> float:
    """The share of a kind of unit that so many units hold none of with probability alpha: 1 - alpha**(1/n)."""
    return float(1 - alpha ** (1 / units))


def rare_kind(
    n: int,  # queries, or units of `method.unit`
    room: float,  # by how much the mean would have to move
    width: float,  # how far apart two values of the metric can be; infinite where it has no bounds
    method: Method,
    then: str = "the verdict changes",
    family: int = 1,  # comparisons that share the level
) -> str:
    """The line about a kind of unit rarer than 1 - level**(1/n), absent from n; "" where none could matter."""
    if method.test == "bounded" or not n or room != room:
        return ""
    kind, these = method.unit or "query", f"{n:,} of {method.unit}" if method.unit else f"{n:,} queries"
    share = rare_share(n, method.level(family))
    least = room / share
    if least >= width:
        return ""
    part = f"less than 1 in {1 / share:,.0f} of the traffic"
    head = f"A kind of {kind} that makes up {part} can be absent from these {these}"
    if np.isinf(width):
        return f"{head}. The metric has no known bounds, so whether {then} if there is one cannot be told."
    return f"{head}. If there is one and it differs by {least:.2g} in the other direction, {then}."


def rare_training(seeds: int, room: float, width: float, method: Method) -> str:
    """The line about a kind of training that may be absent from these seeds; "" where none could matter."""
    share = rare_share(seeds, method.alpha)
    if room / share >= width:
        return ""
    head = f"A kind of training, such as one that collapses, can be absent from {seeds} seeds"
    return f"{head} if it is rarer than {share * 100:.0f} %."


def _ends(mean: Floats, error: Floats, lean: Floats, reach: Floats) -> tuple[Floats, Floats]:
    """Interval ends `reach` standard errors off before skewness counts; infinite where no reach is enough."""
    above = np.where(reach < _ENDLESS, reference.unhall(reach, lean), np.inf)
    below = np.where(reach < _ENDLESS, reference.unhall(-reach, lean), -np.inf)
    with np.errstate(invalid="ignore"):
        return mean - np.where(error > 0, above * error, 0.0), mean - np.where(error > 0, below * error, 0.0)


def _by_draws(estimate: WeightedSum, method: Method) -> Outcome:
    """All columns as one family, by flips or resamples."""
    mean, error, m = estimate.mean, estimate.error, estimate.mean.size
    skewness = method.test == "skew-adjusted"
    drawn = (
        reference.Resamples(estimate.parts[0])
        if method.test == "bootstrap"
        else reference.Flips(estimate, skewness=skewness)
    )
    found = reference.tail(drawn, method.draws, method.seed)
    critical = found.critical(method.alpha)
    share: Callable[[Floats], Floats] = found.together
    if np.isinf(critical):  # too few units differ for any p-value below the level
        most = max(float(found.largest[-1]), float(drawn.observed.max()))
        critical = max(most * (1 + 1e-9), float(ndtri(1 - method.alpha / (2 * m))))

        def share(statistic: Floats) -> Floats:
            """p-values by the normal distribution, below the level exactly beyond the critical value."""
            p = np.clip(2 * m * ndtr(-statistic), SMALLEST_P, 1.0)
            return np.where(statistic > critical, p, np.maximum(p, method.alpha))

    p_corrected = found.together(drawn.observed)
    lean = estimate.lean * skewness
    reach = reference.t_of_normal(np.full(m, critical), estimate.freedom_of_sizes)
    low, high = _ends(mean, error, lean, reach)
    open_ = p_corrected >= method.alpha
    low, high = np.where(open_, np.minimum(low, 0.0), low), np.where(open_, np.maximum(high, 0.0), high)
    p_equivalence = np.full(m, np.nan)
    if method.margin is not None:
        with np.errstate(invalid="ignore", divide="ignore"):
            above = reference.hall((mean + method.margin) / error, lean)
            below = -reference.hall((mean - method.margin) / error, lean)
        nearest = np.fmin(above, below)
        capped = np.clip(np.nan_to_num(nearest), 0.0, 1e100)
        statistic = reference.normal_of_t(capped, estimate.freedom_of_sizes)
        p_equivalence = np.where(nearest > 0, share(statistic), 1.0)
        p_equivalence = _of_constants(p_equivalence, mean, error, method.margin)
    detectable = (reach + _POWER) * np.where(error > 0, error, np.nan)
    return Outcome(found.alone, p_corrected, p_equivalence, low, high, np.where(error == 0, 0.0, detectable))


def _criticals(estimate: WeightedSum, method: Method, skewness: bool) -> Floats:
    """(m,) critical values of columns looked at one by one, finite always."""
    critical = np.zeros(estimate.mean.size)
    differing = sum(np.count_nonzero(part.sums, axis=0) for part in estimate.parts)
    few = np.flatnonzero(differing <= reference.EXACT_UP_TO)
    many = np.flatnonzero(differing > reference.EXACT_UP_TO)
    for block in (*few[:, None], *(many[at : at + _AT_ONCE] for at in range(0, many.size, _AT_ONCE))):
        drawn = reference.Flips(estimate.columns(block), skewness=skewness)
        critical[block] = reference.criticals(drawn, method.draws, method.seed, method.alpha)
    least = float(ndtri(1 - method.alpha / 2))
    return np.where(np.isinf(critical) | (differing == 0), least, critical)


def _of_constants(p: Floats, mean: Floats, error: Floats, margin: float) -> Floats:
    """p-values of equivalence where nothing varies: whether the mean lies within the margin is plain."""
    return np.where(error > 0, p, np.where(np.abs(mean) < margin, SMALLEST_P, 1.0))


def by_t(mean: Floats, error: Floats, freedom: Floats, method: Method) -> Outcome:
    """Student's t of a family of (m,) estimates, by Bonferroni."""
    family = mean.size
    p = student_p(mean, error, freedom)
    reach = stdtrit(freedom, 1 - method.alpha / (2 * family))
    low, high = mean - reach * error, mean + reach * error
    p_equivalence = np.full_like(p, np.nan)
    if method.margin is not None:
        with np.errstate(invalid="ignore", divide="ignore"):
            sides = stdtr(freedom, -(method.margin - np.abs(mean)) / error)
        both = np.clip(2 * family * sides, SMALLEST_P, 1.0)
        p_equivalence = _of_constants(both, mean, error, method.margin)
    return Outcome(p, np.minimum(family * p, 1.0), p_equivalence, low, high, (reach + _POWER) * error)


def _by_bets(estimate: WeightedSum, method: Method, ranges: Floats) -> Outcome:
    """Bets on a family of bounded differences, by Bonferroni."""
    family = ranges.size
    level = method.alpha / family
    (sample,) = estimate.parts
    p, inside, low, high = bounded_means(sample, -ranges, ranges, level, method.seed, method.margin or 0.0)
    p_equivalence = np.full_like(p, np.nan) if method.margin is None else np.minimum(family * inside, 1.0)
    # what bets find, by the width of their interval
    detectable = (high - low) / 2 + _POWER * estimate.error
    return Outcome(p, np.minimum(family * p, 1.0), p_equivalence, low, high, detectable)


def _with_seeds(trained: Outcome, seeds: Sequence[MethodDifference | None], method: Method) -> Outcome:
    """What holds for other queries and other trainings, and for the trained models too; Bonferroni's over trainings."""
    family = len(seeds)
    level = method.alpha / family

    def facts(one: MethodDifference | None) -> tuple[float, ...]:
        if one is None:
            return (np.nan,) * 5
        sides = np.nan if method.margin is None else one.p_equivalence(method.margin)
        return one.p(), sides, *one.interval(1 - level), one.detectable(level)

    p, sides, low, high, detectable = np.array([facts(one) for one in seeds]).T
    corrected, equivalence = np.minimum(family * p, 1.0), np.minimum(2 * family * sides, 1.0)
    both = Outcome(p, corrected, equivalence, low, high, detectable)
    return Outcome(*map(np.fmax, trained, both))._replace(low=np.fmin(trained.low, low))
