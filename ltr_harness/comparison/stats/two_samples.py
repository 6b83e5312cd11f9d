"""Did a mean move between two different sets of queries? Welch's test by influences: how far each query pulls an
estimate, added up within clusters (users), of means, differences, shares and ratios alike.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from scipy.special import chdtrc, lambertw, ndtri, stdtr, stdtrit

from ltr_harness.comparison.stats.cluster_sums import (
    SMALLEST_P,
    Floats,
    UnitCodes,
    correlation_within,
    satterthwaite,
)

Alternative = Literal["drop", "rise", "change"]


@dataclass(frozen=True, eq=False)
class Sample:
    """Per-query values of one period, NaN left out beforehand."""

    values: Floats  # float64 (n,)
    # (n,) codes >= 0 of whom each query belongs to, the same coding in both samples; or None
    clusters: UnitCodes | None = None
    strata: UnitCodes | None = None  # (n,) codes such as weekdays; or None for a single stratum

    @cached_property
    def unweighted_mean(self) -> "tuple[float, Influence]":
        """The mean without regard to strata and its influence; a baseline is asked for it many times."""
        mean = float(self.values.mean()) if self.values.size else float("nan")
        return mean, Influence.of(self.values - mean, self.clusters)

    def weighted_mean(self, shares: Floats) -> "tuple[float, Influence]":
        """The mean under (n_strata,) shares of the strata, and its influence; NaN where one that counts is empty."""
        values, clusters = self.values, self.clusters
        strata = np.zeros(values.size, dtype=np.int64) if self.strata is None else self.strata
        counts = np.bincount(strata, minlength=shares.size)
        has_rows = counts > 0
        means = np.bincount(strata, values, minlength=shares.size) / np.maximum(counts, 1)
        mean = float((shares * means).sum()) if has_rows[shares > 0].all() else float("nan")
        factor = shares * values.size / np.maximum(counts, 1)
        used = (shares > 0)[strata]
        if not used.all():  # strata without weight say nothing: their queries are no degrees of freedom
            values, strata = values[used], strata[used]
            clusters = None if clusters is None else clusters[used]
            factor = factor * (values.size / self.values.size)
        return mean, Influence.of(factor[strata] * (values - means[strata]), clusters)


@dataclass(frozen=True)
class Estimate:
    """A number with its uncertainty; what is not known, or not asked, is NaN."""

    value: float
    low: float = float("nan")  # the interval's ends, of the test that p is of
    high: float = float("nan")
    p: float = float("nan")  # against 0, for the alternative asked for
    error: float = float("nan")  # standard error
    n: int = 0  # queries behind it
    df: float = float("nan")  # degrees of freedom of the t distribution

    def __str__(self) -> str:
        return f"{self.value:+.4f} [{self.low:+.4f}, {self.high:+.4f}]"

    @property
    def direction(self) -> Literal["fell", "rose", ""]:
        """In which direction the interval shows a change; empty where it holds 0."""
        if self.high < 0:
            return "fell"
        return "rose" if self.low > 0 else ""


def mean_estimate(sample: Sample, confidence: float = 0.95, alternative: Alternative = "change") -> Estimate:
    """The mean with a t interval over clusters; of paired differences, with their t test against 0."""
    mean, spread = sample.unweighted_mean
    n = sample.values.size
    return estimate_of(mean, spread.variance, spread.df, alternative, confidence, n)


@dataclass(frozen=True, eq=False)
class Influence:
    """Influences of one sample, added up within clusters: an estimate is off by about their mean."""

    totals: Floats  # per cluster code (or per query), divided by the number of queries
    clusters: UnitCodes | None  # the codes that occur; None where every query is its own
    variance: float  # of the estimate; of clusters CR2's, sum of squared totals / (1 - n_g / n)
    df: float  # units - 1; Satterthwaite's where clusters are of unlike size: few large ones decide
    units: int  # clusters, or queries

    @classmethod
    def of(cls, influence: Floats, clusters: UnitCodes | None = None) -> "Influence":
        """From one influence per query; their mean should be 0."""
        n = influence.size
        if clusters is None:
            totals, sizes = influence / n, np.ones(n)
        else:
            totals, counts = np.bincount(clusters, influence) / n, np.bincount(clusters)
            sizes = counts[counts > 0].astype(np.float64)
        units, variance, df = sizes.size, float("nan"), float(sizes.size - 1)
        if units > 1 and sizes.max() == sizes.min():
            variance = float(units / (units - 1) * (totals**2).sum())
        elif units > 1:
            nonempty = totals[counts > 0]
            correlation = correlation_within(nonempty * n, float((influence**2).sum()), sizes)
            variance = float((nonempty**2 / (1 - sizes / n)).sum())
            df = satterthwaite(sizes, sizes * (1 + (sizes - 1) * correlation))
        return cls(totals, clusters, variance, df, units)

    def covariance(self, other: "Influence") -> float:
        """Return the covariance of two estimates that share clusters (users in both periods); 0 without clusters."""
        if self.clusters is None or other.clusters is None:
            return 0.0
        shared = min(self.totals.size, other.totals.size)
        units = max(self.units, other.units)
        product = float(self.totals[:shared] @ other.totals[:shared])
        return product * units / (units - 1) if units > 1 else 0.0


def difference(
    first: Sample, second: Sample, *, alternative: Alternative = "drop", confidence: float = 0.95
) -> Estimate:
    """``one - other`` in means, where the two are different queries: Welch's t test.

    With strata, the other sample is reweighted to the strata's shares in the first (Mondays with Mondays). Users who
    occur in both samples are accounted for. NaN where a side has fewer than two units, or a stratum of `one` lacks
    in `other`.
    """
    if first.values.size == 0 or second.values.size == 0:
        return Estimate(float("nan"), n=first.values.size + second.values.size)
    if first.strata is None or second.strata is None:
        (mean, a), (reference, b) = first.unweighted_mean, second.unweighted_mean
    else:
        size = int(max(first.strata.max(), second.strata.max())) + 1
        shares = np.bincount(first.strata, minlength=size) / first.strata.size
        mean, a = first.weighted_mean(shares)
        reference, b = second.weighted_mean(shares)
    n = first.values.size + second.values.size
    return difference_of_means(mean - reference, a, b, alternative=alternative, confidence=confidence, n=n)


def difference_of_means(
    value: float,
    first: Influence,
    second: Influence,
    *,
    alternative: Alternative = "change",
    confidence: float = 0.95,
    n: int = 0,
) -> Estimate:
    """The estimate of a difference whose two sides have these influences."""
    variance = first.variance + second.variance
    df = first.df + second.df
    if variance > 0:  # neither constants nor NaN, the variance of a single unit
        a, b = first.variance / variance, second.variance / variance
        df = 1 / (a**2 / first.df + b**2 / second.df)
    # the covariance may not eat the whole variance: two noisy halves are never a certainty
    variance = max(variance - 2 * first.covariance(second), 1e-3 * variance)
    return estimate_of(value, variance, df, alternative, confidence, n)


def one_sided(t: Floats, df: Floats, alternative: Alternative) -> Floats:
    """p-values of t statistics, never 0."""
    if alternative == "change":
        p = 2 * stdtr(df, -np.abs(t))
    elif alternative == "drop":
        p = stdtr(df, t)
    else:
        p = stdtr(df, -t)
    return np.asarray(np.maximum(p, SMALLEST_P))


def profile_p(first: Floats, second: Floats) -> tuple[float, float]:
    """Wald's p of equal shares of (n, places) counts, NaN where a side has none, and their total variation distance."""
    shares, covariance = [], np.zeros((first.shape[1], first.shape[1]))
    for counts in (first, second):
        total = counts.sum()
        if total <= 0 or len(counts) < 2:
            return float("nan"), float("nan")
        share = counts.sum(axis=0) / total
        influence = (counts - np.outer(counts.sum(axis=1), share)) / total
        covariance += influence.T @ influence
        shares.append(share)
    gap = shares[0] - shares[1]
    distance = float(np.abs(gap).sum() / 2)
    used = np.diag(covariance) > 0
    # where all queries are alike, what differs is no chance
    if np.abs(gap[~used]).max(initial=0.0) > 1e-12:
        return SMALLEST_P, distance
    if not used.any():
        return 1.0, 0.0
    statistic = gap[used] @ np.linalg.pinv(covariance[np.ix_(used, used)], rcond=1e-9) @ gap[used]
    return float(chdtrc(used.sum() - 1, max(float(statistic), 0.0))), distance


def estimate_of(
    value: float, variance: float, df: float, alternative: Alternative, confidence: float, n: int
) -> Estimate:
    """The estimate with the t interval and test of its variance; none of a single unit, whose variance is NaN.

    The interval is the test's. Of a one-sided test each end is a separate bound at `confidence`, so that an
    interval at 0.95 holds 0 where p is above 0.05, and nowhere else on that side.
    """
    if np.isnan(value) or np.isnan(variance):  # of a single unit
        return Estimate(value, n=n)
    error = float(np.sqrt(variance))
    if error <= 1e-15 * abs(value):  # constants: what differs, differs for certain
        is_change = value != 0
        if alternative != "change":
            is_change = value < 0 if alternative == "drop" else value > 0
        return Estimate(value, value, value, SMALLEST_P if is_change else 1.0, 0.0, n, df)
    tails = 2 if alternative == "change" else 1
    reach = float(stdtrit(df, 1 - (1 - confidence) / tails)) * error
    p = float(one_sided(np.array(value / error), np.array(df), alternative))
    return Estimate(value, value - reach, value + reach, p, error, n, df)


_REFERENCE = 0.2  # of alpha, for what the reference is off by


def always_valid(
    estimate: Estimate,
    looks: int,
    of_reference: float,
    *,
    tightest: float,
    alpha: float,
    confidence: float,
    alternative: Alternative,
) -> tuple[Estimate, float]:
    """The difference of a growing mean from a reference, with an interval that holds at all looks; and its p-value.

    `of_reference` is the standard error of the reference, which all looks share: a fifth of alpha covers it, and the
    p-value beside the estimate is of the whole alpha.
    """
    own_error = float(np.sqrt(max(estimate.error**2 - of_reference**2, 1e-3 * estimate.error**2)))
    sides = 2 if alternative == "change" else 1
    margin = float(ndtri(1 - alpha * _REFERENCE / sides)) * of_reference
    towards = np.sign(estimate.value) * max(abs(estimate.value) - margin, 0.0)
    if own_error > 0:
        t = towards / own_error
        rare = ndtri(stdtr(estimate.df, -abs(t))) * -np.sign(t)  # as rare as t is with so few units
        z: Floats = np.array(rare, dtype=np.float64)
    else:
        z = np.array(np.sign(towards) * np.inf)
    information = np.array(float(looks))
    p = float(always_valid_p(z, information, tightest, alpha * (1 - _REFERENCE), alternative))
    unsure = 1 - confidence
    wide = float(always_valid_reach(information, tightest, unsure * (1 - _REFERENCE))) * own_error
    reach = wide + float(ndtri(1 - unsure * _REFERENCE / 2)) * of_reference
    low, high = estimate.value - reach, estimate.value + reach
    return replace(estimate, low=low, high=high, p=p), p / (1 - _REFERENCE)


def always_valid_p(
    z: Floats, information: Floats, tightest: float, alpha: float = 0.05, alternative: Alternative = "drop"
) -> Floats:
    """p-values of a growing mean: at most a share alpha of healthy series ever has one at or below alpha.

    It may be looked at as often as one likes. The normal mixture of Robbins, for sums of independent parts whose
    variance is known or well estimated.

    Source: H. Robbins, Annals of Mathematical Statistics 41 (1970); I. Waudby-Smith, D. Arbour, R. Sinha, E. Kennedy,
        A. Ramdas, Annals of Statistics 52 (2024) for estimated variances.
    """
    r = _information(information, tightest, 2 * alpha if alternative != "change" else alpha)
    p_two_sided = np.sqrt(1 + r) * np.exp(-(z**2) * r / (2 * (1 + r)))
    if alternative == "change":
        return np.asarray(np.minimum(p_two_sided, 1.0))
    is_expected_side = z < 0 if alternative == "drop" else z > 0
    return np.asarray(np.where(is_expected_side, np.minimum(p_two_sided / 2, 1.0), 1.0))


def always_valid_reach(information: Floats, tightest: float, alpha: float = 0.05) -> Floats:
    """Standard errors by which intervals around a growing mean reach, so that all of them hold together."""
    r = _information(information, tightest, alpha)
    return np.asarray(np.sqrt(2 * (1 + r) / r * np.log(np.sqrt(1 + r) / alpha)))


def _information(information: Floats, tightest: float, level: float) -> Floats:
    """In units of the mixture's variance, such that the boundary is lowest at `tightest`."""
    return np.asarray(information / tightest * float(-lambertw(-(level**2) / np.e, -1).real - 1))
