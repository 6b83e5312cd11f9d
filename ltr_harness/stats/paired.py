"""Are two rankers different? Tests and sizes of paired per-query differences.

Every function takes differences ``d = values of one - values of the other``, shape (n,) or (n, m) for m pairs
at once, NaN where a query is undefined, and returns one number per column. p-values are two-sided.

Which test: sign flips, the t test and the bootstrap test the difference of means and agree (Smucker, Allan &
Carterette, CIKM 2007). Wilcoxon and the sign test ask something else and err more the more queries there are
(Ihemelandu & Ekstrand, SIGIR 2023); they are here for those who must reproduce them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, ndtr, ndtri, stdtr, stdtrit

from ltr_harness.stats.moments import Floats, moments
from ltr_harness.stats.resampling import (
    EXACT_UP_TO,
    SAME_SUM,
    all_flipped_sums,
    bootstrap_means,
    flipped_sums,
    on_grid,
    slack,
)

TIE = 1e-9  # metric values this close are equal: 1/3 + 1/3 must not lose to 2/3
SMALLEST_P = float(np.finfo(np.float64).tiny)  # a p-value of 0 claims more than any sample can


def paired_differences(one: Floats, other: Floats, tolerance: float = TIE) -> Floats:
    """``one - other`` per query, with exactly 0 where they differ by no more than the tolerance.

    Rounding noise would otherwise be tested as if it were a result: two models that rank alike would differ
    in the 17th digit and could do so "significantly".

    Args:
        one: (n,) or (n, m), per-query values; NaN where undefined.
        other: the same shape (n,) or (n, m).
        tolerance: the largest difference that is rounding noise.
    """
    d: Floats = one - other
    return np.where(np.abs(d) <= tolerance, 0.0, d)


def sign_flip_p(d: Floats, *, draws: int = 10_000, seed: int = 0) -> Floats:
    """How often would swapping the two rankers' names query by query give a mean difference this large?

    If the rankers are exchangeable, each difference is as likely to have the other sign. With S the sum of
    differences, p = (#{draws with |S*| >= |S|} + 1) / (draws + 1). With at most 16 non-zero differences all
    sign patterns are enumerated instead, the observed one among them: p = #{|S*| >= |S|} / 2**n. So p is
    never 0. Differences of 0 change no sum and therefore nothing. Sums closer than 1e-9 of the sum of
    absolute differences count as equal; the same seed gives the same p on any number of threads.

    Args:
        d: (n,) or (n, m) paired differences; NaN where undefined.
        draws: random sign patterns.
        seed: of the draws.

    Returns:
        p in (0, 1]; 1 where all differences are 0, NaN where none is defined.

    Example:
        Reciprocal ranks 1/2, 1/3, 1/2, 1/3 against 1, 1/10, 1, 1/15: 12 of 16 sign patterns reach 0.5.

        >>> a, b = np.array([1/2, 1/3, 1/2, 1/3]), np.array([1, 1/10, 1, 1/15])
        >>> float(sign_flip_p(b - a))
        0.75

    Source: M. Smucker, J. Allan, B. Carterette, CIKM 2007.
    """
    columns = d.reshape(len(d), -1)
    grid, _ = on_grid(columns)
    reach = np.abs(grid.sum(axis=0)) - slack(grid)
    nonzero = np.count_nonzero(grid, axis=0)
    p = np.full(columns.shape[1], np.nan)
    for j in np.flatnonzero(nonzero <= EXACT_UP_TO):
        sums = all_flipped_sums(grid[grid[:, j] != 0, j : j + 1])
        p[j] = np.mean(np.abs(sums) >= reach[j])
    sampled = np.flatnonzero(nonzero > EXACT_UP_TO)
    if sampled.size:
        count = np.zeros(sampled.size)
        for sums in flipped_sums(grid[:, sampled], draws, seed):
            count += np.count_nonzero(np.abs(sums) >= reach[sampled], axis=0)
        p[sampled] = (count + 1) / (draws + 1)
    p[np.isnan(columns).all(axis=0)] = np.nan
    return p.reshape(d.shape[1:])


def paired_t_p(d: Floats) -> Floats:
    """Student's paired t test: is the mean difference many standard errors from 0?

    t = mean / (sd / sqrt(n)) with n - 1 degrees of freedom. Agrees with `sign_flip_p` except for few and very
    lopsided differences, at a thousandth of the cost.

    Returns:
        p in (0, 1]; 1 where all differences are 0, NaN for n < 2.
    """
    sample = moments(d)
    with np.errstate(invalid="ignore", divide="ignore"):
        t = np.where(sample.mean == 0, 0.0, np.abs(sample.mean) / sample.standard_error)
        p = 2 * stdtr(np.maximum(sample.n - 1, 1).astype(np.float64), -t)
    return np.where(sample.n > 1, np.maximum(p, SMALLEST_P), np.nan)


def bootstrap_p(d: Floats, *, draws: int = 10_000, seed: int = 0) -> Floats:
    """Bootstrap test with the shift method: how often is a resampled mean this far from the observed one?

    p = (#{|mean* - mean| >= |mean|} + 1) / (draws + 1), with mean* of queries drawn with replacement.

    Args:
        d: (n,) or (n, m) paired differences; NaN where undefined.
        draws: number of resamples.
        seed: of the resamples.

    Returns:
        p in (0, 1]; NaN where no difference is defined.
    """
    columns = d.reshape(len(d), -1)
    sample = moments(columns)
    means = bootstrap_means(columns, draws, seed)
    same = SAME_SUM * np.where(np.isnan(columns), 0.0, np.abs(columns)).sum(axis=0) / np.maximum(sample.n, 1)
    count = np.count_nonzero(np.abs(means - sample.mean) >= np.abs(sample.mean) - same, axis=0)
    p = np.where(sample.n > 0, (count + 1) / (draws + 1), np.nan)
    return p.reshape(d.shape[1:])


def wilcoxon_p(d: Floats) -> Floats:
    """Wilcoxon's signed-rank test: are larger absolute differences mostly of one sign?

    Normal approximation with continuity correction; zeros are left out; equal absolute values share their
    mean rank. It tests symmetry about 0, not the mean.

    Returns:
        p in (0, 1]; 1 where all differences are 0, NaN where none is defined.
    """
    columns = d.reshape(len(d), -1)
    p = np.full(columns.shape[1], np.nan)
    for j, column in enumerate(columns.T):
        kept = column[~np.isnan(column)]
        if kept.size == 0:
            continue
        kept = kept[kept != 0]
        n = kept.size
        if n == 0:
            p[j] = 1.0
            continue
        _, group, size = np.unique(np.abs(kept), return_inverse=True, return_counts=True)
        ranks = (np.cumsum(size) - (size - 1) / 2)[group]
        off = ranks[kept > 0].sum() - n * (n + 1) / 4
        variance = n * (n + 1) * (2 * n + 1) / 24 - (size**3 - size).sum() / 48
        z = max(abs(off) - 0.5, 0.0) / np.sqrt(variance)
        p[j] = max(2 * ndtr(-z), SMALLEST_P)
    return p.reshape(d.shape[1:])


def sign_test_p(d: Floats, *, tolerance: float = TIE) -> Floats:
    """Sign test: would a fair coin give so uneven a number of wins and losses? Exact binomial, ties left out.

    Args:
        tolerance: differences up to this size are ties.

    Returns:
        p in (0, 1]; 1 where all are ties, NaN where no difference is defined.
    """
    wins, ties, losses = win_tie_loss(d, tolerance)
    decided = wins + losses
    fewer = np.minimum(wins, losses)
    p = np.clip(2 * bdtr(fewer.astype(np.float64), np.maximum(decided, 1), 0.5), SMALLEST_P, 1.0)
    return np.where(decided > 0, p, np.where(ties > 0, 1.0, np.nan))


def win_tie_loss(
    d: Floats, tolerance: float = TIE
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """How many differences are above, within and below the tolerance; undefined ones are in none.

    Example:
        >>> tuple(int(count) for count in win_tie_loss(np.array([0.5, 0.0, 1e-12, -0.1, np.nan])))
        (1, 2, 1)
    """
    wins, losses = d > tolerance, d < -tolerance
    ties = np.abs(d) <= tolerance
    return tuple(np.asarray(part.sum(axis=0), dtype=np.int64) for part in (wins, ties, losses))  # type: ignore[return-value]


def effect_size(d: Floats) -> Floats:
    """d_z = mean / sd of the differences: how large, free of the metric's unit and of n.

    With thousands of queries nearly everything is significant; 0.2 is commonly called small, 0.8 large.

    Returns:
        0 where all differences are 0; infinite where all are equal and not 0; NaN for n < 2.
    """
    sample = moments(d)
    with np.errstate(invalid="ignore", divide="ignore"):
        size = np.where((sample.mean == 0) & (sample.n > 1), 0.0, sample.mean / sample.sd)
    return np.asarray(size)


def detectable_difference(d: Floats, *, alpha: Floats | float = 0.05, power: float = 0.8) -> Floats:
    """The smallest true difference these queries would have shown: "no difference" or "cannot tell"?

    (t(1 - alpha / 2) + z(power)) sd / sqrt(n), with Student's t of n - 1 degrees of freedom: a true difference of
    this size is found significant at level alpha with probability `power`. In the metric's unit; NaN for n < 2.

    Args:
        d: (n,) or (n, m) paired differences; NaN where undefined.
        alpha: level of the two-sided test; that of its first step where several are corrected together.
        power: chance of a significant result.
    """
    sample = moments(d)
    freedom = np.maximum(sample.n - 1, 1).astype(np.float64)
    return np.asarray((stdtrit(freedom, 1 - alpha / 2) + ndtri(power)) * sample.standard_error)


def equivalence_p(d: Floats, margin: float) -> Floats:
    """Two one-sided t tests: is the mean difference proven to lie inside ``-margin … +margin``?

    A large p of a test for difference proves nothing; a small p here does: it is the larger of the two
    p-values against "at most -margin" and "at least +margin".

    Args:
        margin: the largest difference that does not matter to you, in the metric's unit, > 0.

    Returns:
        p in (0, 1]; NaN for n < 2.

    Source: D. Schuirmann, J. Pharmacokinetics and Biopharmaceutics 15 (1987).
    """
    sample = moments(d)
    with np.errstate(invalid="ignore", divide="ignore"):
        nearest = (margin - np.abs(sample.mean)) / sample.standard_error
        p = stdtr(np.maximum(sample.n - 1, 1).astype(np.float64), -nearest)
    return np.where(sample.n > 1, np.maximum(p, SMALLEST_P), np.nan)
