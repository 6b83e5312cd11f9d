"""Cheap labels for many queries beside sound ones for some: a mean of the sound, sharper for what the cheap tell.

With d the sound difference of a query and c the one by cheap labels, n queries that have both and M that have the
cheap alone, the estimate is mean(d) + lambda (mean of c over the M - mean of c over the n): what the n queries are off
by in c, they are off by in d as well, as far as the two go together. Whatever the cheap labels are, the mean that is
estimated is that of the sound ones; lambda = cov(d, c) / ((1 + n / M) var(c)) has the least variance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ltr_harness.stats.estimates import MeanEstimate
from ltr_harness.stats.moments import Floats, moments


@dataclass(frozen=True)
class PoweredMean(MeanEstimate):
    """A mean by sound and cheap labels together.

    Attributes:
        weight: lambda; 0 where the cheap labels tell nothing.
        n: queries that have sound labels, with a value or without.
        alone: the standard error of the sound labels by themselves.
    """

    weight: float
    n: int
    alone: float

    @property
    def worth(self) -> float:
        """How many queries with sound labels alone would say as much."""
        return self.n * (self.alone / self.error) ** 2 if self.error > 0 else float("inf")


def powered_mean(sound: Floats, cheap: Floats, rest: Floats) -> PoweredMean:
    """The mean of the sound values over all queries of this kind, with what the cheap ones add.

    Where a value is undefined the mean is one of the queries that have it, a ratio of two means: the query
    counts by its influence on that, which is 0.

    Args:
        sound: (n,) by sound labels; NaN where undefined.
        cheap: (n,) of the same queries by cheap labels; NaN where undefined.
        rest: (M,) of the queries that have the cheap labels alone.

    Returns:
        NaN throughout where fewer than three sound values are defined.

    Example:
        Cheap values that say all there is: the spread of the mean is that of all 6 queries.

        >>> powered = powered_mean(np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 2.0]), np.array([3.0, 4.0, 5.0]))
        >>> powered.mean, powered.weight
        (2.5, 0.5)

    Source: A. Angelopoulos, J. Duchi, T. Zrnic, "PPI++: Efficient prediction-powered inference" (2023).
    """
    n, m = sound.size, rest.size
    defined = ~np.isnan(sound)
    k = int(defined.sum())
    if k < 3:
        return PoweredMean(*(float("nan"),) * 5, n, float("nan"))
    mean = float(sound[defined].mean())
    influence: Floats = np.where(defined, (sound - mean) * (n / k), 0.0)
    both = np.concatenate([cheap, rest])
    centre = float(np.nanmean(both)) if not np.isnan(both).all() else 0.0
    near, far = np.nan_to_num(cheap - centre), np.nan_to_num(rest - centre)
    alone = float(np.sqrt((influence**2).sum() / (n - 1) / n))
    variance = float(near.var(ddof=1))
    if m < 2 or variance == 0:
        lean = float(moments(influence).skewness) / np.sqrt(n)
        return PoweredMean(mean, alone, k - 1.0, lean, 0.0, n, alone)
    weight = float(np.cov(influence, near)[0, 1]) / variance / (1 + n / m)
    left = influence - weight * near
    left = left - left.mean()
    terms = float((left**2).sum()) / (n - 2) / n, weight**2 * float(far.var(ddof=1)) / m
    error = float(np.sqrt(sum(terms)))
    # no surer than its parts: n - 2 as lambda is estimated as well
    freedom = (
        float(sum(terms) ** 2 / (terms[0] ** 2 / (n - 2) + terms[1] ** 2 / (m - 1))) if error else n - 2.0
    )
    third = float((left**3).mean()) / n**2 + weight**3 * float(((far - far.mean()) ** 3).mean()) / m**2
    return PoweredMean(
        mean=mean + weight * float(far.mean() - near.mean()),
        error=error,
        freedom=min(freedom, k - 1.0 if k < n else freedom),
        lean=third / error**3 if error else 0.0,
        weight=weight,
        n=n,
        alone=alone,
    )
