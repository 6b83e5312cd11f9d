"""An estimate whose error is known: what Student's t, allowing for skewness, says of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

from ltr_harness.stats.paired import SMALLEST_P
from ltr_harness.stats.skewness import hall, unhall


@dataclass(frozen=True)
class MeanEstimate:
    """An estimate, such as a mean difference.

    Attributes:
        mean: the estimate.
        error: its standard error.
        freedom: degrees of freedom of the error.
        lean: skewness of the estimate.
    """

    mean: float
    error: float
    freedom: float
    lean: float

    def p(self, adjusted: bool = True) -> float:
        """Two-sided, of a true value of 0; by Hall's transformation, or by t itself."""
        if self.mean == 0 or self.error == 0:
            return 1.0 if self.mean == 0 else SMALLEST_P
        t = np.array(self.mean / self.error)
        turned = abs(float(hall(t, np.array(self.lean if adjusted else 0.0))))
        return float(np.maximum(2 * stdtr(self.freedom, -turned), SMALLEST_P))

    def interval(self, confidence: float, adjusted: bool = True) -> tuple[float, float]:
        """Lower and upper end."""
        return self.within(float(stdtrit(self.freedom, (1 + confidence) / 2)), adjusted)

    def within(self, reach: float, adjusted: bool = True) -> tuple[float, float]:
        """Lower and upper end, so many standard errors off before skewness is allowed for."""
        quantile, lean = np.array(reach), np.array(self.lean if adjusted else 0.0)
        return (
            self.mean - float(unhall(quantile, lean)) * self.error,
            self.mean - float(unhall(-quantile, lean)) * self.error,
        )


def weighted_sum(parts: Sequence[MeanEstimate], weights: Sequence[float]) -> MeanEstimate:
    """Of independent estimates; the degrees of freedom are Satterthwaite's.

    Args:
        parts: the estimates.
        weights: of each.

    Example:
        >>> half = MeanEstimate(mean=0.2, error=0.1, freedom=9, lean=0.0)
        >>> total = weighted_sum([half, half], [0.5, 0.5])
        >>> round(total.mean, 9), round(total.error, 9), round(total.freedom, 9)
        (0.2, 0.070710678, 18.0)
    """
    w = np.asarray(weights, dtype=np.float64)
    error = np.array([part.error for part in parts])
    variance = w**2 * error**2
    total = float(np.sqrt(variance.sum()))
    freedom = np.array([part.freedom for part in parts])
    lean = np.array([part.lean for part in parts])
    return MeanEstimate(
        mean=float(w @ np.array([part.mean for part in parts])),
        error=total,
        freedom=float(total**4 / (variance**2 / freedom).sum()) if total else float(freedom.sum()),
        lean=float((w**3 * error**3 * lean).sum() / total**3) if total else 0.0,
    )
