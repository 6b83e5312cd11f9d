"""Numbers as text and as JSON."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np


def plain_number(value: float) -> str:
    """Shortest text without exponent that reads back as the same number.

    Example:
        >>> plain_number(0.1), plain_number(3.0), plain_number(1e-7)
        ('0.1', '3', '0.0000001')
    """
    return np.format_float_positional(value, trim="-")


def four_decimals(value: float | None) -> str:
    """A metric's value or mean, as tables of the terminal and of the report have it.

    Example:
        >>> four_decimals(0.43125), four_decimals(-0.00001), four_decimals(float("nan"))
        ('0.4313', '0.0000', '–')
    """
    return "–" if value is None or math.isnan(value) else f"{value:z.4f}"


def none_if_undefined(value: float) -> float | None:
    """NaN and infinities, which JSON does not know, as None.

    Example:
        >>> none_if_undefined(0.5), none_if_undefined(float("nan")), none_if_undefined(float("-inf"))
        (0.5, None, None)
    """
    return value if math.isfinite(value) else None


def json_value(value: Any) -> Any:
    """What JSON has for a value and all that it holds: objects for dataclasses, null for numbers it does not know.

    Example:
        >>> json_value({"mean": float("nan"), "range": (0.5, float("inf"))})
        {'mean': None, 'range': [0.5, None]}
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): json_value(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(part) for part in value]
    return none_if_undefined(value) if isinstance(value, float) else value
