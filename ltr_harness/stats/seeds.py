"""Would the result hold for another training seed? Query-level tests speak of the trained models at hand only."""

from __future__ import annotations

import numpy as np

from ltr_harness.stats.moments import Floats
from ltr_harness.stats.paired import TIE
from ltr_harness.stats.resampling import bootstrap_means, uniform_below


def seed_agreement(one: Floats, other: Floats, tolerance: float = TIE) -> float:
    """Of all pairs (a seed of one, a seed of the other), the share whose mean difference has the overall sign.

    1 means the winner never depended on the seeds drawn, 0.5 that they decided. Queries undefined in either
    are left out.

    Args:
        one: (seeds, n_queries) per-query values.
        other: (seeds, n_queries), with its own number of seeds.
        tolerance: mean differences up to this size have no sign; they agree with an overall difference of 0.

    Returns:
        Share in [0, 1]; NaN where there is only one pair, or no common query.

    Example:
        >>> seed_agreement(np.array([[0.5, 0.7], [0.1, 0.3]]), np.array([[0.3, 0.3]]))
        0.5
    """
    means_one, means_other = _seed_means(one, other)
    if means_one.size * means_other.size < 2 or np.isnan(means_one[0]):
        return float("nan")
    overall = _sign(np.asarray(means_one.mean() - means_other.mean()), tolerance)
    by_pair = _sign(means_one[:, None] - means_other[None, :], tolerance)
    return float(np.mean(by_pair == overall))


def two_level_interval(
    one: Floats, other: Floats, *, confidence: float = 0.95, draws: int = 10_000, seed: int = 0
) -> tuple[float, float]:
    """Interval of the mean difference for new queries *and* new seeds: both are resampled together.

    Percentile bootstrap over queries and, within each side, over seeds (independently, since seed 1 of two
    models has nothing in common but its name). r seeds resampled with replacement spread by a factor
    sqrt((r - 1) / r) too little, which matters for r = 3: their deviations are widened by its inverse. Where
    seeds matter more than queries, three of them still cover 90 % instead of 95 % (ten: 94 %). A side with
    one row (a deterministic model) has no seeds to resample.

    Args:
        one: (seeds, n_queries) per-query values.
        other: (seeds, n_queries), with its own number of seeds. Each side
            needs three or more seeds or exactly one, and one of them three: two seeds say too little.
        confidence: of the interval.
        draws: resamples of queries, and of seeds.
        seed: of the resamples.

    Returns:
        Lower and upper end, in the metric's unit; NaN where the seeds do not suffice.
    """
    defined = ~(np.isnan(one).any(axis=0) | np.isnan(other).any(axis=0))
    if not seeds_suffice(len(one), len(other)) or defined.sum() < 2:
        return float("nan"), float("nan")
    means = bootstrap_means(np.concatenate([one[:, defined], other[:, defined]]).T, draws, seed)
    return interval_of_resamples(means[:, : len(one)], means[:, len(one) :], confidence=confidence, seed=seed)


def seeds_suffice(one: int, other: int) -> bool:
    """Whether these numbers of seeds allow a two-level interval."""
    return max(one, other) >= 3 and 2 not in (one, other)


def interval_of_resamples(
    one: Floats, other: Floats, *, confidence: float = 0.95, seed: int = 0
) -> tuple[float, float]:
    """`two_level_interval` for queries that are resampled already, once for many pairs.

    Args:
        one: (draws, seeds) means of each seed over the same resampled queries; a NaN makes NaN.
        other: (draws, seeds), likewise.
        confidence: of the interval.
        seed: of the resampled seeds.
    """
    generator = np.random.PCG64([seed, 1])  # for the seeds; the queries have a stream of their own
    spread = _resample_seeds(one, generator) - _resample_seeds(other, generator)
    low, high = np.quantile(spread, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def _resample_seeds(means: Floats, generator: np.random.PCG64) -> Floats:
    """(draws,): in each draw the mean over seeds drawn with replacement, spread as `two_level_interval` says."""
    draws, r = means.shape
    centre: Floats = means.mean(axis=1)
    if r == 1:
        return centre
    picked = np.take_along_axis(means, uniform_below(generator, r, draws, r), axis=1).mean(axis=1)
    spread: Floats = centre + np.sqrt(r / (r - 1)) * (picked - centre)
    return spread


def _seed_means(one: Floats, other: Floats) -> tuple[Floats, Floats]:
    defined = ~(np.isnan(one).any(axis=0) | np.isnan(other).any(axis=0))
    if not defined.any():
        return np.full(len(one), np.nan), np.full(len(other), np.nan)
    return one[:, defined].mean(axis=1), other[:, defined].mean(axis=1)


def _sign(differences: Floats, tolerance: float) -> Floats:
    signs: Floats = np.where(np.abs(differences) <= tolerance, 0.0, np.sign(differences))
    return signs
