"""One point of a learning curve."""

from __future__ import annotations

from typing import NamedTuple


class Measured(NamedTuple):
    """One point of a learning curve: a metric's mean on one set after `round` rounds (1-based)."""

    round: int
    data: str
    metric: str
    value: float
