"""How numbers stand in names, in texts and in JSON."""

from __future__ import annotations

import math

import numpy as np


def plain_number(value: float) -> str:
    """Shortest text without exponent that reads back as the same number.

    Example:
        >>> plain_number(0.1), plain_number(3.0), plain_number(1e-7)
        ('0.1', '3', '0.0000001')
    """
    return np.format_float_positional(value, trim="-")


def none_if_undefined(value: float) -> float | None:
    """NaN, which JSON does not know, as None.

    Example:
        >>> none_if_undefined(0.5), none_if_undefined(float("nan"))
        (0.5, None)
    """
    return None if math.isnan(value) else value


def json_value(value: object) -> object:
    """Dictionaries, lists and tuples with None for every NaN in them.

    Example:
        >>> json_value({"a": (0.5, float("nan")), "b": "c"})
        {'a': [0.5, None], 'b': 'c'}
    """
    if isinstance(value, dict):
        return {key: json_value(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(part) for part in value]
    return none_if_undefined(value) if isinstance(value, float) else value
