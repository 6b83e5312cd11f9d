"""Numbers as text, the same in the terminal, in notebooks and in every format of the report."""

import math
from collections.abc import Callable
from typing import Literal

from ltr_harness._util.text import four_decimals, p_text

NumberFormat = Literal["metric", "difference", "p", "count", "percent", "relative", "number", "seconds"]

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
