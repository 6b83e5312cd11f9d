"""The texts of numbers, the same in every format of the report."""

import math
import re
from collections.abc import Sequence
from functools import partial

from ltr_harness._util.number_text import MISSING, four_decimals, number_text
from ltr_harness.report.blocks import Badge, Cell, Estimate, Format, Link, ModelName, Trend

metric = four_decimals  # a metric's value or mean
difference = partial(number_text, number_format="difference")
p_value = partial(number_text, number_format="p")
percent = partial(number_text, number_format="percent")


def interval(low: float | None, high: float | None, number_format: Format = "metric") -> str:
    """Return both ends in brackets, as a column writes its numbers; empty where there is none."""
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return ""
    return f"[{number_text(low, number_format)}, {number_text(high, number_format)}]"


def cell_text(cell: Cell, form: Format) -> str:
    """Return a cell in words, without marks: the text that every renderer starts from."""
    match cell:
        case None:
            return MISSING
        case Badge(text=text) | Link(text=text) | Trend(text=text):
            return text
        case ModelName(name=name):
            return name
        case Estimate(value=value, low=low, high=high):
            tail = interval(low, high, form)
            return f"{number_text(value, form)} {tail}".rstrip()
        case str():
            return cell
        case _:
            return number_text(cell, form)


def file_names(metrics: Sequence[str]) -> dict[str, str]:
    """Return a part of a file name for each metric; numbered where two would share one."""
    names: dict[str, str] = {}
    for metric in metrics:
        slug = re.sub("[^A-Za-z0-9]", "_", metric)[:60]
        n_same = sum(1 for name in names.values() if name == slug or name.startswith(f"{slug}-"))
        names[metric] = f"{slug}-{n_same + 1}" if n_same else slug
    return names
