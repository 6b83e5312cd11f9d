"""How numbers are written, the same in every format of the report."""

import math
from collections.abc import Callable, Sequence
from functools import partial

from ltr_harness._util.text import four_decimals, p_text
from ltr_harness.report.blocks import Badge, Cell, Estimate, Format, Link, ModelName, Trend

MISSING = four_decimals(None)

_WRITERS: dict[Format, Callable[[float], str]] = {
    "metric": four_decimals,
    "difference": lambda value: "0.0000" if abs(value) < 0.00005 else f"{value:+.4f}",
    "p": p_text,
    "count": lambda value: f"{int(value):,}",
    "percent": lambda value: f"{100 * value:z.1f} %",
    "relative": lambda value: f"{100 * value:+z.1f} %",
    "number": lambda value: f"{value:z.2f}",
    "seconds": lambda value: (
        f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
    ),
}


def value_text(value: float | None, form: Format) -> str:
    """A number in a column's format; a difference has a sign unless it rounds to zero, a p-value is never zero."""
    if value is None or math.isnan(value):
        return MISSING
    return _WRITERS.get(form, "{:g}".format)(value)


metric = four_decimals  # a metric's value or mean
difference = partial(value_text, form="difference")
p_value = partial(value_text, form="p")
percent = partial(value_text, form="percent")


def interval(low: float | None, high: float | None, form: Format = "metric", *, signed: bool = False) -> str:
    """Both ends in brackets, as a column writes its numbers; empty where there is none."""
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return ""
    write = difference if signed else partial(value_text, form=form)
    return f"[{write(low)}, {write(high)}]"


def cell_text(cell: Cell, form: Format) -> str:
    """A cell in words, without marks: the text every renderer starts from."""
    match cell:
        case None:
            return MISSING
        case Badge(text=text) | Link(text=text) | Trend(text=text):
            return text
        case ModelName(name=name):
            return name
        case Estimate(value=value, low=low, high=high):
            tail = interval(low, high, form)
            return f"{value_text(value, form)} {tail}".rstrip()
        case str():
            return cell
        case _:
            return value_text(cell, form)


def file_names(metrics: Sequence[str]) -> dict[str, str]:
    """A part of a file name for each metric; numbered where two would share one."""
    names: dict[str, str] = {}
    for metric in metrics:
        slug = "".join(c if c.isascii() and c.isalnum() else "_" for c in metric)[:60]
        taken = sum(1 for known in names.values() if known == slug or known.startswith(f"{slug}-"))
        names[metric] = f"{slug}-{taken + 1}" if taken else slug
    return names
