"""Families of comparisons: p-values, what remains of them after correction, and intervals that agree with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ltr_harness.stats import corrections, paired
from ltr_harness.stats.intervals import bootstrap_interval, skew_adjusted_t_interval, t_interval
from ltr_harness.stats.method import FLIPS, Method
from ltr_harness.stats.moments import Floats, moments
from ltr_harness.stats.skewness import skew_adjusted, skew_adjusted_t_p

_CORRECTIONS: dict[str, Callable[[Floats], Floats]] = {
    "holm": corrections.holm,
    "bh": corrections.bh,
    "bonferroni": corrections.bonferroni,
    "none": corrections.uncorrected,
}

OF_THE_MEAN = ("skew-adjusted", "permutation", "t", "bootstrap")
"""The tests whose p-values are about the mean, as the intervals are."""

_MORE = 2e11
"""Additions that may be spent on drawing more for large families: some ten seconds."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """Every comparison of every family, (m,) each.

    Attributes:
        p: by the method's test.
        p_corrected: within its family.
        p_equivalence: of the mean lying within the margin, at the intervals' level and corrected; NaN without one.
        low, high: intervals, as `Method.simultaneous` says.
        detectable: the mean that this test finds with 80 % probability.
    """

    p: Floats
    p_corrected: Floats
    p_equivalence: Floats
    low: Floats
    high: Floats
    detectable: Floats


def outcomes(d: Floats, largest: Floats, families: Sequence[slice], method: Method) -> Outcome:
    """Tests all columns and corrects family by family.

    Args:
        d: (n, m) paired differences; NaN where undefined.
        largest: (m,) the largest difference that a query could have; infinite where unknown.
        families: which columns are corrected together; every column is in one.
        method: test, correction, intervals, margin.
    """
    level = np.empty(d.shape[1])
    for family in families:
        level[family] = method.level(int(np.count_nonzero((~np.isnan(d[:, family])).any(axis=0))))
    adjusted = method.interval == "skew-adjusted"
    interval_level = level if method.simultaneous else np.full_like(level, method.alpha)
    by_flips = None
    if method.test == "skew-adjusted" or (adjusted and method.correction != "max-t"):
        by_flips = skew_adjusted(
            d, largest, confidence=1 - interval_level, draws=method.draws, seed=method.seed
        )
    if method.test == "skew-adjusted" and by_flips is not None:
        p = by_flips.p
    else:
        p = p_values(d, largest, method, method.draws)
    p = _drawn_again(d, largest, p, level, method)
    low, high = (by_flips.low, by_flips.high) if adjusted and by_flips else intervals(d, method)
    p_corrected = np.empty_like(p)
    for family in families:
        if method.correction == "max-t":
            p_corrected[family], low[family], high[family] = joint(d[:, family], largest[family], method)
        else:
            p_corrected[family] = corrected(p[family], method)
    if method.simultaneous and method.test in OF_THE_MEAN:
        low, high = of_one_sign(low, high, p_corrected < method.alpha)
    return Outcome(
        p,
        p_corrected,
        _equivalence(d, families, method),
        low,
        high,
        paired.detectable_difference(d, alpha=level),
    )


def corrected(p: Floats, method: Method) -> Floats:
    """(m,) p-values of one family after the method's correction, which is not max-T.

    Args:
        p: (m,); NaN is no member.
        method: which correction.
    """
    return _CORRECTIONS[method.correction](p)


def joint_p(d: Floats, largest: Floats, method: Method) -> Floats:
    """(m,) p-values corrected over all columns, whatever the method's correction: max-T for sign flips, else Holm.

    Args:
        d: (n, m) paired differences; NaN where undefined.
        largest: (m,), see `outcomes`.
        method: test, draws, seed.
    """
    if method.test in FLIPS:
        return joint(d, largest, method)[0]
    return corrections.holm(p_values(d, largest, method, method.draws))


def intervals(columns: Floats, method: Method) -> tuple[Floats, Floats]:
    """Ends of the intervals of the columns' means, each by itself, made as the method says.

    Args:
        columns: (n, m); NaN where undefined.
        method: confidence, and how intervals are made.
    """
    if method.interval == "skew-adjusted":
        return skew_adjusted_t_interval(columns, method.confidence)
    if method.interval == "t":
        return t_interval(columns, method.confidence)
    return bootstrap_interval(
        columns,
        method.confidence,
        method="bca" if method.interval == "bca" else "percentile",
        draws=method.draws,
        seed=method.seed,
    )


def p_values(d: Floats, largest: Floats, method: Method, draws: int) -> Floats:
    """(m,) p-values by the method's test.

    Args:
        d: (n, m) paired differences.
        largest: (m,), see `outcomes`.
        method: which test.
        draws: sign patterns or resamples, where it takes any.
    """
    if method.test == "skew-adjusted":
        return skew_adjusted(d, largest, draws=draws, seed=method.seed).p
    if method.test == "permutation":
        return paired.sign_flip_p(d, draws=draws, seed=method.seed)
    if method.test == "bootstrap":
        return paired.bootstrap_p(d, draws=draws, seed=method.seed)
    return {"t": paired.paired_t_p, "wilcoxon": paired.wilcoxon_p, "sign": paired.sign_test_p}[method.test](d)


def _drawn_again(d: Floats, largest: Floats, p: Floats, level: Floats, method: Method) -> Floats:
    """p-values that hardly any draw reached, of families so large that none of them could count, from more draws.

    The smallest p of B draws is 1 / (B + 1): among 500 models 10,000 draws prove nothing, whatever the models.
    """
    if method.test not in (*FLIPS, "bootstrap"):
        return p
    again = np.flatnonzero((2 / level > method.draws) & (p <= 3 / (method.draws + 1)))
    if again.size == 0:
        return p
    affordable = _MORE / (len(d) * again.size)
    draws = int(min(np.ceil(2 / level[again].min()), max(affordable, method.draws)))
    p = p.copy()
    p[again] = p_values(d[:, again], largest[again], method, draws)
    return p


def joint(d: Floats, largest: Floats, method: Method) -> tuple[Floats, Floats, Floats]:
    """p-values and intervals of all columns together by max-T, of the skewness-adjusted t or of t itself.

    Args:
        d: (n, m) paired differences; NaN where undefined.
        largest: (m,), see `outcomes`.
        method: test, confidence, draws, seed.
    """
    if method.test == "skew-adjusted":
        adjusted = skew_adjusted(
            d, largest, confidence=method.confidence, draws=method.draws, seed=method.seed, together=True
        )
        return adjusted.p, adjusted.low, adjusted.high
    family = corrections.max_t(d, confidence=method.confidence, draws=method.draws, seed=method.seed)
    return family.p, family.low, family.high


def of_one_sign(low: Floats, high: Floats, significant: np.ndarray) -> tuple[Floats, Floats]:
    """Intervals that end at 0 where a later step of the correction found a difference that they did not exclude.

    Args:
        low: (m,) lower ends.
        high: (m,) upper ends.
        significant: bool (m,), whether the corrected p-value is below the level.
    """
    upwards = significant & (low + high > 0)
    downwards = significant & (low + high < 0)
    return np.where(upwards, np.maximum(low, 0.0), low), np.where(downwards, np.minimum(high, 0.0), high)


def _equivalence(d: Floats, families: Sequence[slice], method: Method) -> Floats:
    """Two one-sided tests, each at half the level, as an interval that lies within the margin has it."""
    p = np.full(d.shape[1], np.nan)
    if method.margin is None:
        return p
    if method.interval == "skew-adjusted":
        sample = moments(d)
        sides = [
            skew_adjusted_t_p(
                method.margin + sign * sample.mean, sample.standard_error, sign * sample.skewness, sample.n
            )
            for sign in (-1, 1)
        ]
        one_sided = np.maximum(*sides)
    else:
        one_sided = paired.equivalence_p(d, method.margin)
    correct = _CORRECTIONS["holm" if method.correction == "max-t" else method.correction]
    for family in families:
        p[family] = correct(np.minimum(2 * one_sided[family], 1.0))
    return p
