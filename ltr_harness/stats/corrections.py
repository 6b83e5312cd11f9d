"""Of many comparisons, which still count? Corrections of the p-values of one family of hypotheses.

A p-value of NaN (nothing to test, such as the baseline against itself) is no hypothesis: it stays NaN and
does not make the family larger.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ltr_harness.stats.moments import Floats, moments
from ltr_harness.stats.resampling import EXACT_UP_TO, SAME_SUM, all_flipped_sums, flipped_sums, on_grid


def bonferroni(p: ArrayLike) -> Floats:
    """Each p times the size of the family: the chance of any false alarm stays below alpha. Holm is never worse.

    Args:
        p: (m,) p-values of the family; NaN is no member.

    Example:
        >>> bonferroni([0.01, 0.04, np.nan]).tolist()
        [0.02, 0.08, nan]
    """
    return _within_family(p, lambda family: family * family.size)


def holm(p: ArrayLike) -> Floats:
    """Holm's step-down: the chance of any false alarm in the family stays below alpha.

    The i-th smallest of m is multiplied by m - i + 1; none may be below the one before it.

    Args:
        p: (m,) p-values of the family; NaN is no member.

    Example:
        >>> holm([0.01, 0.03, 0.02]).tolist()
        [0.03, 0.04, 0.04]

    Source: S. Holm, Scandinavian Journal of Statistics 6 (1979).
    """

    def step_down(family: Floats) -> Floats:
        order = np.argsort(family, kind="stable")
        stepped = np.maximum.accumulate(family[order] * np.arange(family.size, 0, -1))
        return stepped[np.argsort(order, kind="stable")]

    return _within_family(p, step_down)


def bh(p: ArrayLike) -> Floats:
    """Benjamini-Hochberg: at most a share alpha of what is called significant is expected to be false.

    The i-th smallest of m is multiplied by m / i; none may be above the one after it.

    Args:
        p: (m,) p-values of the family; NaN is no member.

    Example:
        >>> bh([0.01, 0.03, 0.02]).tolist()
        [0.03, 0.03, 0.03]

    Source: Y. Benjamini, Y. Hochberg, JRSS B 57 (1995).
    """

    def step_up(family: Floats) -> Floats:
        order = np.argsort(family, kind="stable")[::-1]
        stepped = np.minimum.accumulate(family[order] * (family.size / np.arange(family.size, 0, -1)))
        return stepped[np.argsort(order, kind="stable")]

    return _within_family(p, step_up)


def uncorrected(p: ArrayLike) -> Floats:
    """The p-values as they are, for one planned comparison.

    Args:
        p: (m,) p-values.
    """
    return _within_family(p, lambda family: family)


def _within_family(p: ArrayLike, correct: Callable[[Floats], Floats]) -> Floats:
    """Applies `correct` to the p-values that are there, and keeps them at or below 1."""
    values = np.array(p, dtype=np.float64)
    tested = ~np.isnan(values)
    values[tested] = np.minimum(correct(values[tested]), 1.0)
    return values


@dataclass(frozen=True, eq=False)
class MaxT:
    """Corrected p-values and the intervals that go with them, one per column.

    Attributes:
        p: (m,), corrected over the columns.
        low, high: (m,), simultaneous intervals: all of them hold together with the given confidence.
        critical: the |t| from which on a column is significant.
    """

    p: Floats
    low: Floats
    high: Floats
    critical: float


def max_t(d: Floats, *, confidence: float = 0.95, draws: int = 10_000, seed: int = 0) -> MaxT:
    """Randomisation over the whole family at once: how often does the *largest* t get this large by chance?

    One random sign pattern flips the queries of all columns together, so comparisons that share a baseline or
    resemble each other cost less than Holm charges. Per draw the largest |t| over the columns is kept;
    p = (#{max |t*| >= |t|} + 1) / (draws + 1), and the interval is mean +- critical sd / sqrt(n) with the
    same draws' quantile: the interval excludes 0 where p is below 1 - confidence. With at most 16 queries
    that differ anywhere all sign patterns are enumerated (p = #/2**n).

    Args:
        d: (n, m) paired differences; NaN where undefined. The family is the columns with two values or more.
        confidence: of the simultaneous intervals.
        draws: random sign patterns.
        seed: of the draws; the same seed gives the same numbers.

    Source: P. Westfall, S. Young, Resampling-Based Multiple Testing (1993), single-step max-T.
    """
    sample = moments(d)
    grid, unit = on_grid(d)
    # Flipping signs changes neither n nor the sum of squares: |S| / sqrt(n sum(d**2)) is all t depends on.
    # A single value has no t; as 0 it is never the largest, and leaves the others' as they are.
    squares = (np.where(np.isnan(d), 0.0, d) ** 2).sum(axis=0)
    scale = np.where(sample.n > 1, np.sqrt(sample.n * squares), 0.0)
    freedom = np.maximum(sample.n - 1, 0)

    def t_of(sums: Floats) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.where(scale > 0, np.minimum(np.abs(sums) * unit / scale, 1.0), 0.0)
            t: Floats = share * np.sqrt(freedom / (1 - share**2))
        return t

    differing = grid[(grid != 0).any(axis=1)]
    if len(differing) <= EXACT_UP_TO:
        largest = t_of(all_flipped_sums(differing)).max(axis=1, initial=0.0)
        added = 0  # the observed pattern is among all of them
    else:
        blocks = flipped_sums(grid, draws, seed)
        largest = np.concatenate([t_of(sums).max(axis=1, initial=0.0) for sums in blocks])
        added = 1
    observed = t_of(grid.sum(axis=0))
    largest.sort()
    total = largest.size + added
    reached = largest.size - np.searchsorted(largest, observed * (1 - SAME_SUM), side="left")
    p = np.where(sample.n > 1, (reached + added) / total, np.nan)
    # The smallest |t| whose p is below 1 - confidence.
    allowed = int(np.ceil((1 - confidence) * total - 1e-9)) - 1 - added
    critical = float(largest[largest.size - 1 - allowed]) if allowed >= 0 else np.inf
    with np.errstate(invalid="ignore"):
        reach = critical * sample.standard_error
    return MaxT(p, sample.mean - reach, sample.mean + reach, critical)
