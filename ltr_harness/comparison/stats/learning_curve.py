"""The curve of a metric over the number of training queries, and a forecast for twice as many.

The mean at a share s of the training queries is modelled as a - b s^-c. Twice the queries then gain
b (1 - 2^-c), which depends on the differences between the shares alone, so that queries that are easy for every model
cancel. Its interval is the set of gains that no exponent c between 0 (each doubling gains the same) and 4 (nothing more
to gain) can reconcile with the means: a profile likelihood, whose covariance is of test queries (or their units) and of
draws of training queries together (Cox & Hinkley 1974; the law: Hestness et al. 2017).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import chdtri, ndtri, stdtrit

from ltr_harness.comparison.stats.cluster_sums import ClusterSums, UnitCodes
from ltr_harness.data.arrays import Floats

EXPONENTS = np.concatenate([np.arange(0.0, 2.0, 0.05), np.arange(2.0, 4.1, 0.25)])
FEWEST_SHARES = 4
"""Shares with the whole: three would fit any line that bends, with nothing left to tell how well."""
_POWERS = np.arange(0.0, 2.1, 0.5)
"""By which the variance over draws may grow as shares shrink."""


@dataclass(frozen=True)
class GainEstimate:
    """A gain and its interval."""

    estimate: float
    low: float
    high: float


_NO_GAIN = GainEstimate(math.nan, math.nan, math.nan)


@dataclass(frozen=True, eq=False)
class QueriesCurve:
    """The means at shares of the training queries, with what twice as many would gain.

    Of one test query, or one unit, all but the means is NaN.

    Attributes:
        shares: (n_shares,) ascending, the last one 1.
        means: (n_shares,) over test queries and draws, in the metric's own sign.
        low, high: (n_shares,) their intervals, over other test queries and draws.
        rise: from the smallest share to the whole.
        forecast: the gain of twice the training queries; NaN with fewer than four shares.
        fitted: (n_shares + 1,) the fitted curve at the shares and at twice the whole.
    """

    shares: Floats
    means: Floats
    low: Floats
    high: Floats
    rise: GainEstimate
    forecast: GainEstimate
    fitted: Floats


def learning_curve(
    shares: Sequence[float],
    values: Sequence[Floats],
    *,
    units: UnitCodes | None = None,
    weights: Floats | None = None,
    confidence: float = 0.95,
    higher_is_better: bool = True,
) -> QueriesCurve:
    """Return the learning curve of a model and its forecast.

    Args:
        shares: of the training queries, ascending, the last one 1.
        values: for each share (n_draws, n_queries) values of the test queries, NaN where undefined.
        units: (n_queries,) codes of the units that test queries belong to; None where each is its own.
        weights: (n_queries,) how much each test query counts; None where each counts once.
        confidence: of intervals.
        higher_is_better: False for a metric whose gain is a fall; `rise` and `forecast` are gains all the same.

    Example:
        >>> import numpy as np
        >>> easy = np.linspace(0, 0.3, 200)
        >>> shares = [0.125, 0.25, 0.5, 1]
        >>> draws = [np.stack([easy + 0.6 - 0.05 * share**-0.5] * (3 if share < 1 else 1)) for share in shares]
        >>> round(learning_curve(shares, draws).forecast.estimate, 4)
        0.0146
    """
    sign = 1.0 if higher_is_better else -1.0
    sizes = np.asarray(shares, dtype=np.float64)
    by_query = np.column_stack([share_values.mean(axis=0) for share_values in values])
    by_query[np.isnan(by_query).any(axis=1)] = np.nan
    sample = ClusterSums.of(by_query, units, weights)
    if sample.units[0] < 2:
        undefined = np.full(sizes.size, math.nan)
        return QueriesCurve(
            sizes, sample.mean, undefined, undefined, _NO_GAIN, _NO_GAIN, np.append(undefined, math.nan)
        )
    influence = np.sqrt(sample.weights) * sample.residuals / sample.n
    covariance = _Covariance(
        influence.T @ influence, *_of_draws(sizes, values, weights), float(sample.units[0] - 1)
    )
    means = sample.mean
    ends = np.zeros(sizes.size)
    ends[0], ends[-1] = -1.0, 1.0
    rise = covariance.interval(sign * ends, means, confidence)
    bands = [covariance.interval(row, means, confidence) for row in np.eye(sizes.size)]
    forecast, fitted = _forecast(sizes, sign * means, covariance, confidence)
    low, high = (np.array(side) for side in zip(*((band.low, band.high) for band in bands), strict=True))
    return QueriesCurve(sizes, means, low, high, rise, forecast, sign * fitted)


class _Covariance(NamedTuple):
    """The covariance of the means, of test queries and of draws, with the degrees of freedom of each."""

    of_queries: Floats  # (n_shares, n_shares)
    of_draws: Floats  # (n_shares, n_shares)
    df_of_draws: float
    df_of_queries: float

    @property
    def total(self) -> Floats:
        combined: Floats = self.of_queries + self.of_draws
        return combined

    def df(self, contrast: Floats) -> float:
        """Return the degrees of freedom of a contrast of the means, by Satterthwaite."""
        parts = [float(contrast @ part @ contrast) for part in (self.of_queries, self.of_draws)]
        below = parts[0] ** 2 / self.df_of_queries + parts[1] ** 2 / self.df_of_draws
        return sum(parts) ** 2 / below if below > 0 else math.inf

    def quantile(self, contrast: Floats, confidence: float) -> float:
        return float(stdtrit(min(self.df(contrast), 1e6), 0.5 + confidence / 2))

    def interval(self, contrast: Floats, means: Floats, confidence: float) -> GainEstimate:
        """Return a contrast of the means with its t interval."""
        estimate = float(contrast @ means)
        error = math.sqrt(max(float(contrast @ self.total @ contrast), 0.0))
        reach = self.quantile(contrast, confidence) * error
        return GainEstimate(estimate, estimate - reach, estimate + reach)


def _of_draws(shares: Floats, values: Sequence[Floats], weights: Floats | None) -> tuple[Floats, float]:
    """Return the (n_shares, n_shares) covariance of the means over draws, and its degrees of freedom.

    The variance between draws is one law of the share, v s^-p, with the p of largest likelihood: a share has few
    draws, and the whole has one.
    """
    n_draws = np.array([len(share_values) for share_values in values], dtype=np.float64)
    drawn = n_draws > 1
    variances = np.array(
        [
            ClusterSums.of(share_values.T, None, weights).mean.var(ddof=1)
            for share_values in values
            if len(share_values) > 1
        ]
    )
    df, sizes = n_draws[drawn] - 1, shares[drawn]
    best, largest = np.zeros(shares.size), -math.inf
    for power in _POWERS:
        scale = max(float((df * variances * sizes**power).sum() / df.sum()), 1e-24)
        expected = scale * sizes**-power
        likelihood = float(-0.5 * (df * (np.log(expected) + variances / expected)).sum())
        if likelihood > largest:
            best, largest = scale * shares**-power, likelihood
    return np.diag(best / n_draws), float(df.sum())


def _curves(shares: Floats) -> Floats:
    """(n_exponents, n_shares): how far below the whole a curve is where twice the queries gain 1."""
    c = EXPONENTS[1:, None]
    return np.vstack([-np.log2(shares), (shares**-c - 1) / (1 - 2**-c)])


def _forecast(
    shares: Floats, means: Floats, covariance: _Covariance, confidence: float
) -> tuple[GainEstimate, Floats]:
    """Return the gain of twice the training queries, and the (n_shares + 1,) curve of the best exponent."""
    if shares.size < FEWEST_SHARES:
        return _NO_GAIN, np.full(shares.size + 1, math.nan)
    total = covariance.total + np.eye(shares.size) * (1e-12 * np.trace(covariance.total) + 1e-18)
    whitening = np.linalg.inv(np.linalg.cholesky(total))
    curves = _curves(shares)
    size = np.abs(curves).max(axis=1)
    design = np.stack([np.ones_like(curves), -curves / size[:, None]], axis=2)  # (n_exponents, n_shares, 2)
    white = whitening @ design
    spread = np.linalg.inv(np.swapaxes(white, 1, 2) @ white)
    solution = spread @ np.swapaxes(white, 1, 2) @ whitening  # (n_exponents, 2, n_shares)
    coefficients = solution @ means
    deviance = np.square((means - (design @ coefficients[..., None])[..., 0]) @ whitening.T).sum(axis=1)
    best = int(deviance.argmin())
    gains, errors = coefficients[:, 1] / size, np.sqrt(spread[:, 1, 1]) / size
    misfit = max(1.0, float(deviance[best]) / float(chdtri(shares.size - 3, 1 - confidence)))
    limit = float(ndtri(0.5 + confidence / 2)) ** 2 * misfit
    room = np.sqrt(np.maximum(limit - (deviance - deviance[best]), 0.0))
    possible = room > 0
    low = float((gains - errors * room)[possible].min())
    # from the largest share of at most a half; where all are larger, from the smallest
    start = int(np.flatnonzero(shares <= max(0.5, shares[0]))[-1])
    doubling = np.zeros(shares.size)
    doubling[start], doubling[-1] = -1.0, 1.0
    if (doubling @ means) ** 2 <= limit * (
        doubling @ total @ doubling
    ):  # the curve may have ended before the whole
        low = min(low, 0.0)
    high = float((gains + errors * room)[possible].max())
    fitted = np.append((design @ coefficients[..., None])[best, :, 0], coefficients[best, 0] + gains[best])
    return GainEstimate(float(gains[best]), low, high), fitted
