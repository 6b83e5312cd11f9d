"""Numbers as text, the same in the terminal, in notebooks and in every format of the report."""

import math
from collections.abc import Callable
from typing import Literal

NumberFormat = Literal["metric", "difference", "p", "count", "percent", "relative", "number", "seconds"]


def plain_number(value: float) -> str:
    """Shortest text without exponent that reads back as the same number."""
    import numpy as np  # slower than the rest of this module, which every command imports

    return np.format_float_positional(value, trim="-")


def four_decimals(value: float | None) -> str:
    """A metric's value or mean, as tables of the terminal and of the report have it."""
    return "–" if value is None or math.isnan(value) else f"{value:z.4f}"


def p_text(p: float) -> str:
    """A p-value as a reader should see it: never 0."""
    if p != p:
        return "n/a"
    return "<0.0001" if p < 0.0001 else f"{p:.4f}"


def p_equals(p: float) -> str:
    """A p-value with its sign of equality."""
    return f"p = {p_text(p)}".replace("= <", "< ")


def interval_text(low: float, high: float, sign: str = "+") -> str:
    """Return the ends of an interval, such as "+0.0010 to +0.0110"; with the sign "" those of a mean."""
    return f"{low:{sign}z.4f} to {high:{sign}z.4f}"


MISSING = four_decimals(None)


def number_text(value: float | None, number_format: str) -> str:
    """Return a number in a format; a difference has a sign unless it rounds to zero, a p-value is never zero."""
    if value is None or math.isnan(value):
        return MISSING
    return _WRITERS.get(number_format, "{:g}".format)(value)


def _difference(value: float) -> str:
    return "0.0000" if abs(value) < 0.00005 else f"{value:+.4f}"


def _seconds(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


_WRITERS: dict[str, Callable[[float], str]] = {
    "metric": four_decimals,
    "difference": _difference,
    "p": p_text,
    "count": lambda value: f"{int(value):,}",
    "percent": lambda value: f"{100 * value:z.1f} %",
    "relative": lambda value: f"{100 * value:+z.1f} %",
    "number": lambda value: f"{value:z.2f}",
    "seconds": _seconds,
}
