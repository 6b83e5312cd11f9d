"""Is a number a rank?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

A_RANK = "an integer from 1 to 10^9"

_LAST_RANK = 10**9  # a list has no billion items: it is an id, or a unit of time


def are_ranks(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which numbers are ranks, NaN being none.

    Shapes: `values` (n,).

    Example:
        >>> import numpy as np
        >>> are_ranks(np.array([1.0, 0.0, 2.5, np.nan, 1e12])).tolist()
        [True, False, False, False, False]
    """
    return np.asarray((values >= 1) & (values <= _LAST_RANK) & (values == np.floor(values)))
