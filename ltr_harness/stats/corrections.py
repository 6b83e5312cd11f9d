"""Of many comparisons, which still count? Corrections of the p-values of one family of hypotheses.

A p-value of NaN (nothing to test, such as the baseline against itself) is no hypothesis: it stays NaN and
does not make the family larger.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from ltr_harness.stats.moments import Floats


def bonferroni(p: ArrayLike) -> Floats:
    """Each p times the size of the family: the chance of any false alarm stays below alpha. Holm is never worse.

    Shapes: `p` (m,).

    Example:
        >>> bonferroni([0.01, 0.04, np.nan]).tolist()
        [0.02, 0.08, nan]
    """
    return _within_family(p, lambda family: family * family.size)


def holm(p: ArrayLike) -> Floats:
    """Holm's step-down: the chance of any false alarm in the family stays below alpha.

    The i-th smallest of m is multiplied by m - i + 1; none may be below the one before it.

    Shapes: `p` (m,).

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

    Shapes: `p` (m,).

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


def _within_family(p: ArrayLike, correct: Callable[[Floats], Floats]) -> Floats:
    """Applies `correct` to the p-values that are there, and keeps them at or below 1."""
    values = np.array(p, dtype=np.float64)
    tested = ~np.isnan(values)
    values[tested] = np.minimum(correct(values[tested]), 1.0)
    return values
