"""Queries of a kind so rare that n of them may hold none: how far they would have to differ."""

from __future__ import annotations

import numpy as np

from ltr_harness.stats.method import Method
from ltr_harness.wording import count_of


def rare_difference(n: int, room: float, largest: float, level: float) -> float:
    """How far queries of a rare kind would have to differ to take `room` off the mean; NaN if none can.

    n queries hold none of a kind whose share is below 1 - level**(1/n) with a probability above the level.

    Args:
        n: queries.
        room: by how much the mean would have to move.
        largest: the largest difference that a query could have.
        level: of the test.

    Example:
        >>> round(rare_difference(50, 0.03, 1.0, 0.05), 2)
        0.52
    """
    needed = room / (1 - level ** (1 / n)) if n else np.inf
    return float(needed) if needed < largest else float("nan")


def rare_text(n: int, least: float, method: Method, level: float) -> str:
    """What n queries, or units, may lack; what follows from it is the caller's to say.

    Args:
        n: queries or units.
        least: from `rare_difference`.
        method: whose `unit` says which they are.
        level: of the test.
    """
    what = count_of(n, "query") if method.unit is None else f"{n:,} of {method.unit}"
    return (
        f"{what} may hold none of a kind that is rarer than 1 in {1 / (1 - level ** (1 / n)):.0f}; "
        f"were such {'queries' if method.unit is None else 'units'} to differ by {least:.2g} the other way"
    )
