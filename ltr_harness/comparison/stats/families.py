"""Families of comparisons: p-values, intervals and verdicts of several differences at once, all from the same draws,
which keep the family's largest statistic: p < alpha, "0 lies outside the interval" and the verdict are one fact.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from ltr_harness.comparison.stats import reference
from ltr_harness.comparison.stats.betting import bounded_means
from ltr_harness.comparison.stats.contributions import (
    SMALLEST_P,
    Contributions,
    Floats,
    WeightedSum,
    student_p,
)
from ltr_harness.comparison.stats.method import Method
from ltr_harness.comparison.stats.seeds import MethodDifference

_FEWEST = 2 - 1e-9  # effective units from which on there is a spread
_ENDLESS = 1e50  # standard errors: resamples of a few units may have no spread
_AT_ONCE = 64  # columns looked at one by one whose draws are kept, 5 MB for 10,000 of them


class Outcome(NamedTuple):
    """Every difference of every family, (m,) each; NaN where fewer than two units have a value."""

    p: Floats  # of each difference by itself
    p_corrected: Floats  # within its family
    p_equivalence: Floats  # of lying within the margin, within its family; NaN without a margin
    low: Floats  # of the interval, which holds 0 exactly where `p_corrected` is not below the level
    high: Floats

    @classmethod
    def unknown(cls, m: int) -> Self:
        return cls(*np.full((5, m), np.nan))

    def columns(self, which: NDArray[np.integer]) -> Self:
        """Some of the columns."""
        return type(self)(*(values[which] for values in self))

    def put(self, which: NDArray[np.integer], other: Self) -> None:
        """Writes the outcomes of some columns into their places."""
        for own, values in zip(self, other, strict=True):
            own[which] = values


def outcomes(
    estimate: WeightedSum | Contributions,  # m columns
    method: Method,
    *,
    seeds: Sequence[MethodDifference | None],  # (m,) what other trainings add to a difference; () for nothing
    widths: Floats | float,  # (m,) how far apart two values of the metric can be, as far as that is known
    families: Sequence[slice] | None = None,  # which columns are tested together; None: all of them
) -> Outcome:
    """Test all differences, family by family.

    Nothing is found where fewer than two units count, or as much as two of equal weight would.
    """
    trained = _of_trained(estimate, method, widths, families)
    return over_trainings(trained, estimate, method, seeds=seeds, widths=widths, families=families)


def over_trainings(
    trained: Outcome,  # what `outcomes` finds without seeds
    estimate: WeightedSum | Contributions,
    method: Method,
    *,
    seeds: Sequence[MethodDifference | None],
    widths: Floats | float,
    families: Sequence[slice] | None = None,
) -> Outcome:
    """Let the outcomes of trained models hold for other trainings as well; see `outcomes`."""
    if not any(seeds):
        return trained
    m = trained.p.size
    limits = np.broadcast_to(np.asarray(widths, dtype=np.float64), m)
    found = Outcome.unknown(m)
    for tested in _tested(estimate, families):
        both = _with_seeds(trained.columns(tested), [seeds[j] for j in tested], method)
        low, high = np.maximum(both.low, -limits[tested]), np.minimum(both.high, limits[tested])
        found.put(tested, both._replace(low=low, high=high))
    return found


def _tested(
    estimate: WeightedSum | Contributions, families: Sequence[slice] | None
) -> Iterator[NDArray[np.integer]]:
    """The columns of each family that can be tested."""
    for part in families or (slice(None),):
        family = np.arange(estimate.mean.size)[part]
        tested = family[estimate.effective[family] >= _FEWEST]
        if tested.size:
            yield tested


def _of_trained(
    estimate: WeightedSum | Contributions,
    method: Method,
    widths: Floats | float,
    families: Sequence[slice] | None,
) -> Outcome:
    """Test all differences of models as they were trained."""
    if isinstance(estimate, Contributions):
        estimate = WeightedSum((estimate,))
    m = estimate.mean.size
    widths = np.broadcast_to(np.asarray(widths, dtype=np.float64), m)
    found = Outcome.unknown(m)
    for tested in _tested(estimate, families):
        own = estimate.columns(tested)
        if method.test == "t":
            of_family = by_t(own.mean, own.error, own.freedom, method)
        elif method.test == "bounded":
            of_family = _by_bets(own, method, widths[tested])
        else:
            of_family = _by_draws(own, method)
        if method.test != "bounded":
            of_family = _of_equal_values(of_family, own, widths[tested], method)
        found.put(tested, _of_what_is_possible(of_family, own, widths[tested]))
    return found


FEWEST_EQUIVALENT = 6
"""Units below which nothing is equivalent: two that are equal show nothing of the others."""


def _of_what_is_possible(found: Outcome, estimate: WeightedSum, widths: Floats) -> Outcome:
    """End intervals at the largest difference that there can be; few units show no equivalence."""
    low, high = np.maximum(found.low, -widths), np.minimum(found.high, widths)
    shown = np.where(estimate.units < FEWEST_EQUIVALENT, 1.0, found.p_equivalence)
    equivalence = np.where(np.isnan(found.p_equivalence), np.nan, shown)
    return found._replace(low=low, high=high, p_equivalence=equivalence)


def mean_intervals(
    sample: Contributions,  # m columns
    method: Method,
    bounds: Sequence[tuple[float, float]] = (),  # (m,) of the metrics' values; infinite where there are none
    seeds: Sequence[MethodDifference | None] = (),  # (m,) the means as other trainings would vary them, too
) -> tuple[Floats, Floats]:
    """Ends of the intervals of the means, each by itself; of equal values by the rule of three."""
    low, high = np.full((2, sample.mean.size), np.nan)
    tested = np.flatnonzero(sample.effective >= _FEWEST)
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
        # means of sparse values lie far from 0, where skewness costs coverage, and nothing is tested
        critical = _criticals(WeightedSum((own.centred(),)), method)
        reach, lean = reference.t_of_normal(critical, own.freedom_of_sizes), own.lean
    low[tested], high[tested] = _ends(own.mean, own.error, lean, reach)
    for j, methods in enumerate(seeds):
        if methods is not None:
            lower, upper = methods.interval(method.confidence)
            low[j], high[j] = np.fmin(low[j], lower), np.fmax(high[j], upper)
    if not bounds:
        return low, high
    bottom, top = np.array(bounds, dtype=np.float64).T
    equal = tested[(own.error == 0) & np.isfinite(top[tested] - bottom[tested])]
    of_equal = sample.mean[equal], sample.units[equal], bottom[equal], top[equal]
    low[equal], high[equal] = rule_of_three(*of_equal, method.alpha)
    return np.maximum(low, bottom), np.minimum(high, top)


def rare_share(units: int | NDArray[np.integer], alpha: float) -> Floats:
    """The share of a kind of unit that so many units hold none of with probability alpha: 1 - alpha**(1/n)."""
    return np.asarray(1 - alpha ** (1 / np.asarray(units)))


def rule_of_three(
    mean: Floats,  # (m,) of what was seen
    units: NDArray[np.integer],  # (m,)
    bottom: Floats | float,  # what a value can be
    top: Floats | float,
    alpha: float,
) -> tuple[Floats, Floats]:
    """Ends of means, (m,) each, for any kind of unit that is absent from these units.

    A kind that n units hold none of with probability alpha makes up 1 - alpha**(1/n) of all, about 3/n at 5 %
    (Hanley & Lippman-Hand 1983). So the mean is at most that share of the way from the seen one to either bound.
    """
    share = rare_share(units, alpha)
    return mean - share * (mean - bottom), mean + share * (top - mean)


def furthest_against(estimate: float, d: Floats) -> float:
    """How far a value that was seen, of (n,) with NaN where undefined, goes against the sign of the estimate."""
    return float(np.fmax.reduce(-np.sign(estimate) * d, initial=-np.inf))


def rare_kind(
    n: int,  # queries, or units of `method.unit`
    room: float,  # by how much the mean would have to move
    width: float,  # how far apart two values of the metric can be; infinite where it has no bounds
    method: Method,
    then: str = "the verdict changes",
    family: int = 1,  # comparisons that share the level
    furthest: float = np.inf,  # what a query seen here differs by in the other direction, at most
) -> str:
    """The line about a kind of unit rarer than 1 - level**(1/n), absent from n; "" where none could matter.

    Nor is there one where nothing seen comes near such a kind: differences half as large as it would have to be.
    """
    if method.test == "bounded" or not n or room != room:
        return ""
    kind, these = method.unit or "query", f"{n:,} of {method.unit}" if method.unit else f"{n:,} queries"
    share = float(rare_share(n, method.level(family)))
    least = room / share
    if least >= width or furthest < least / 2:
        return ""
    part = f"less than {100 * share:.2g} % of the traffic"
    head = f"A kind of {kind} that makes up {part} can be absent from these {these}"
    if np.isinf(width):
        return f"{head}. The metric has no known bounds, so whether {then} if there is one cannot be told."
    return f"{head}. If there is one and it differs by {least:.2g} in the other direction, {then}."


def _ends(mean: Floats, error: Floats, lean: Floats, reach: Floats) -> tuple[Floats, Floats]:
    """Interval ends `reach` standard errors off before skewness counts; infinite where no reach is enough."""
    above = np.where(reach < _ENDLESS, reference.unhall(reach, lean), np.inf)
    below = np.where(reach < _ENDLESS, reference.unhall(-reach, lean), -np.inf)
    with np.errstate(invalid="ignore"):
        return mean - np.where(error > 0, above * error, 0.0), mean - np.where(error > 0, below * error, 0.0)


def _by_draws(estimate: WeightedSum, method: Method) -> Outcome:
    """All columns as one family, by flips or resamples."""
    mean, error, m = estimate.mean, estimate.error, estimate.mean.size
    reference_of = _draws_of(estimate, method)
    critical = reference_of.critical(method.alpha)
    share: Callable[[Floats], Floats] = reference_of.together
    if np.isinf(critical):  # too few units differ for any p-value below the level
        critical = max(reference_of.most * (1 + 1e-9), float(ndtri(1 - method.alpha / (2 * m))))

        def share(statistic: Floats) -> Floats:
            """p-values by the normal distribution, below the level exactly beyond the critical value."""
            p = np.clip(2 * m * ndtr(-statistic), SMALLEST_P, 1.0)
            return np.where(statistic > critical, p, np.maximum(p, method.alpha))

    p_corrected = reference_of.together(reference_of.observed)
    lean = reference_of.lean
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
    return Outcome(reference_of.alone, p_corrected, p_equivalence, low, high)


@dataclass(frozen=True, eq=False)
class _Draws:
    """Draws about 0 and draws about the estimate, of which the less favourable counts."""

    observed: Floats  # (m,)
    lean: Floats  # (m,) the skewness that the statistics have been adjusted for
    tails: tuple[reference.Tail, ...]

    @property
    def alone(self) -> Floats:
        """(m,) p-values of the columns, each by itself."""
        return np.asarray(np.max([one.alone for one in self.tails], axis=0))

    @property
    def most(self) -> float:
        """The largest statistic of all."""
        return float(max(self.observed.max(), *(one.largest[-1] for one in self.tails)))

    def together(self, statistics: Floats) -> Floats:
        """p-values within the family."""
        return np.asarray(np.max([one.together(statistics) for one in self.tails], axis=0))

    def critical(self, alpha: float) -> float:
        """The statistic beyond which `together` is below alpha."""
        return max(one.critical(alpha) for one in self.tails)


def _draws_of(estimate: WeightedSum, method: Method) -> _Draws:
    """Draw the reference of all columns.

    Flips about 0 are exact where no difference is true. Where differences are large they all flip alike, and what is
    left of the spread is too small: flips about the estimate have it.
    """
    if method.test == "bootstrap":
        drawn = reference.Resamples(estimate.parts[0])
        tail = reference.tail(drawn, method.draws, method.seed)
        return _Draws(drawn.observed, np.zeros_like(drawn.observed), (tail,))
    skewness = method.test == "skew-adjusted"
    flips = reference.Flips(estimate, skewness=skewness)
    tails = reference.tails_of_both(flips, estimate, method.draws, method.seed, skewness=skewness)
    return _Draws(flips.observed, flips.lean, tails)


def _of_equal_values(found: Outcome, estimate: WeightedSum, widths: Floats, method: Method) -> Outcome:
    """Widen what equal differences give by the rule of three; p is the level at which 0 is an end."""
    equal = np.flatnonzero((estimate.error == 0) & np.isfinite(widths))
    if not equal.size:
        return found
    mean, width, n = estimate.mean[equal], widths[equal], estimate.units[equal]
    family = estimate.mean.size
    p = np.maximum((width / (width + np.abs(mean))) ** n, found.p[equal])
    corrected = np.minimum(np.maximum(family * p, found.p_corrected[equal]), 1.0)
    low, high = rule_of_three(mean, n, -width, width, method.level(family))
    is_open = corrected >= method.alpha
    low, high = np.where(is_open, np.minimum(low, 0.0), low), np.where(is_open, np.maximum(high, 0.0), high)
    equivalence = np.full(equal.size, np.nan)
    if method.margin is not None:
        inside = np.abs(mean) < method.margin
        beyond = np.maximum(width - method.margin, 0.0) / np.maximum(width - np.abs(mean), SMALLEST_P)
        equivalence = np.where(inside, np.clip(family * beyond**n, SMALLEST_P, 1.0), 1.0)
    widened = Outcome(*(np.array(values) for values in found))
    widened.put(equal, Outcome(p, corrected, equivalence, low, high))
    return widened


def _criticals(estimate: WeightedSum, method: Method) -> Floats:
    """(m,) critical values of columns looked at one by one, finite always."""
    critical = np.zeros(estimate.mean.size)
    differing = sum(np.count_nonzero(part.sums, axis=0) for part in estimate.parts)
    few = np.flatnonzero(differing <= reference.EXACT_UP_TO)
    many = np.flatnonzero(differing > reference.EXACT_UP_TO)
    for block in (*few[:, None], *(many[at : at + _AT_ONCE] for at in range(0, many.size, _AT_ONCE))):
        drawn = reference.Flips(estimate.columns(block), skewness=True)
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
    return Outcome(p, np.minimum(family * p, 1.0), p_equivalence, low, high)


def _by_bets(estimate: WeightedSum, method: Method, ranges: Floats) -> Outcome:
    """Bets on a family of bounded differences, by Bonferroni."""
    family = ranges.size
    level = method.alpha / family
    (sample,) = estimate.parts
    p, inside, low, high = bounded_means(sample, -ranges, ranges, level, method.seed, method.margin or 0.0)
    p_equivalence = np.full_like(p, np.nan) if method.margin is None else np.minimum(family * inside, 1.0)
    return Outcome(p, np.minimum(family * p, 1.0), p_equivalence, low, high)


def _with_seeds(trained: Outcome, seeds: Sequence[MethodDifference | None], method: Method) -> Outcome:
    """What holds for other queries and other trainings, and for the trained models too; Bonferroni's over trainings."""
    family = len(seeds)
    level = method.alpha / family

    def facts(one: MethodDifference | None) -> tuple[float, ...]:
        if one is None:
            return (np.nan,) * 4
        sides = np.nan if method.margin is None else one.p_equivalence(method.margin)
        return one.p(), sides, *one.interval(1 - level)

    p, sides, low, high = np.array([facts(one) for one in seeds]).T
    corrected, equivalence = np.minimum(family * p, 1.0), np.minimum(2 * family * sides, 1.0)
    both = Outcome(p, corrected, equivalence, low, high)
    return Outcome(*map(np.fmax, trained, both))._replace(low=np.fmin(trained.low, low))
