"""How numbers are written, the same in every format of the report."""

from __future__ import annotations

import math

from ltr_harness.comparison.sentence import p_text
from ltr_harness.numbers import four_decimals
from ltr_harness.report.blocks import Badge, Cell, Estimate, Format, Link, ModelName

MISSING = four_decimals(None)


metric = four_decimals
"""A metric's value or mean."""


def difference(value: float | None) -> str:
    """A difference: signed, four decimals; a sign on zero only when it is not exactly zero.

    Example:
        >>> difference(0.0123), difference(-0.0123), difference(0.0)
        ('+0.0123', '-0.0123', '0.0000')
    """
    if value is None or math.isnan(value):
        return MISSING
    return "0.0000" if value == 0 else f"{value:+.4f}"


def p_value(value: float | None) -> str:
    """A p-value: never zero, because no test can say so.

    Example:
        >>> p_value(0.03), p_value(1e-7)
        ('0.0300', '<0.0001')
    """
    return MISSING if value is None or math.isnan(value) else p_text(value)


def count(value: float | None) -> str:
    """An integer with thousands separated: ``1,984``."""
    return MISSING if value is None or math.isnan(value) else f"{int(value):,}"


def percent(value: float | None) -> str:
    """A share of one as per cent: ``28.1 %``."""
    return MISSING if value is None or math.isnan(value) else f"{100 * value:.1f} %"


def relative(value: float | None) -> str:
    """A signed share: ``+2.5 %``."""
    return MISSING if value is None or math.isnan(value) else f"{100 * value:+.1f} %"


def number(value: float | None) -> str:
    """A quantity without a natural scale, such as an effect size: two decimals."""
    if value is None or math.isnan(value):
        return MISSING
    text = f"{value:.2f}"
    return "0.00" if text == "-0.00" else text


def seconds(value: float | None) -> str:
    """Seconds with three significant digits at most, and never more than two decimals."""
    if value is None or math.isnan(value):
        return MISSING
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def interval(low: float | None, high: float | None, *, signed: bool = False) -> str:
    """Both ends in brackets; empty where there is none.

    Example:
        >>> interval(0.42, 0.44), interval(-0.01, 0.02, signed=True), interval(None, None)
        ('[0.4200, 0.4400]', '[-0.0100, +0.0200]', '')
    """
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return ""
    write = difference if signed else metric
    return f"[{write(low)}, {write(high)}]"


_WRITERS = {
    "metric": metric,
    "difference": difference,
    "p": p_value,
    "count": count,
    "percent": percent,
    "relative": relative,
    "number": number,
    "seconds": seconds,
}


def value_text(value: float | None, form: Format) -> str:
    """A number in a column's format."""
    writer = _WRITERS.get(form)
    if writer is None:
        return MISSING if value is None or math.isnan(value) else f"{value:g}"
    return writer(value)


def cell_text(cell: Cell, form: Format) -> str:
    """A cell in words, without marks: the text every renderer starts from."""
    match cell:
        case None:
            return MISSING
        case Badge(text=text) | Link(text=text):
            return text
        case ModelName(name=name):
            return name
        case Estimate(value=value, low=low, high=high):
            tail = interval(low, high, signed=form == "difference")
            return f"{value_text(value, form)} {tail}".rstrip()
        case str():
            return cell
        case _:
            return value_text(cell, form)
