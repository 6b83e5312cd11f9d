"""How numbers stand in a metric's name and in what is said about it."""

from __future__ import annotations

import numpy as np


def plain_number(value: float) -> str:
    """Shortest text without exponent that reads back as the same number.

    Example:
        >>> plain_number(0.1), plain_number(3.0), plain_number(1e-7)
        ('0.1', '3', '0.0000001')
    """
    return np.format_float_positional(value, trim="-")
