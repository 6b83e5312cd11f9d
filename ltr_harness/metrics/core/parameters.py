"""What may a metric's parameter be? Its annotation says it; values and the grammar's text are read by it."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from ltr_harness.catalog import did_you_mean
from ltr_harness.errors import MetricError
from ltr_harness.numbers import plain_number

REFUSED: Any = object()
"""Stands for a value that a parameter cannot have."""

# How other tools and papers call a parameter.
_OTHER_NAMES: dict[str, str | None] = {
    "cutoff": "k",
    "g_max": "max_grade",
    "gmax": "max_grade",
    "max_rel": "max_grade",
    "patience": "p",
    "persistence": "p",
    "rel": "relevant",
    "threshold": "relevant",
    "top": "k",
}


_HINTS: dict[str, dict[str, Any]] = {}


def accepted_of(metric: type[Any]) -> dict[str, Any]:
    """What each parameter of a metric may be: its name to its annotation."""
    key = f"{metric.__module__}:{metric.__qualname__}"
    if key not in _HINTS:
        _HINTS[key] = get_type_hints(metric)
    return _HINTS[key]


def normal(accepted: Any, value: Any) -> Any:
    """The value as the annotation would have it, or `REFUSED`."""
    if accepted is Any:
        return value  # the metric's own __post_init__ has checked it
    if get_origin(accepted) is Literal:
        return value if value in get_args(accepted) else REFUSED
    options = get_args(accepted) or (accepted,)
    if value is None:
        return value if type(None) in options else REFUSED
    if isinstance(value, bool | np.bool_):
        return bool(value) if bool in options else REFUSED
    if isinstance(value, int | float | np.integer | np.floating):
        if not math.isfinite(value):
            return REFUSED
        if int in options and value == int(value):
            return int(value)
        if float in options:
            return int(value) if value == int(value) else float(value)
        return REFUSED
    return value if isinstance(value, str) and str in options else REFUSED


def in_words(accepted: Any) -> str:
    """An annotation as messages say it."""
    if get_origin(accepted) is Literal:
        return "one of " + ", ".join(get_args(accepted))
    names = {int: "an integer", float: "a number", bool: "true or false", str: "text"}
    options = [names[option] for option in get_args(accepted) or (accepted,) if option in names]
    return " or ".join(dict.fromkeys(options))


def text_of(value: Any) -> str:
    """A value as names have it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return plain_number(value)
    return str(value)


def read_value(metric: type[Any], parameter: str, text: str) -> Any:
    """A parameter's value from the grammar's text.

    Raises:
        MetricError: the metric has no such parameter; the message lists those it has.
    """
    accepted = accepted_of(metric)
    fields = {field.name for field in dataclasses.fields(metric)}
    if parameter not in fields:
        known = fields if metric.takes_cutoff else fields - {"k"}
        raise MetricError(
            f"{metric.name} has no parameter {parameter!r}; {did_you_mean(parameter, known, _OTHER_NAMES)}"
        )
    options = get_args(accepted[parameter]) or (accepted[parameter],)
    if bool in options and text in ("true", "false"):
        return text == "true"
    if (int in options or float in options) and "_" not in text:  # Python would take 1_000 for a number
        try:
            return float(text.encode())  # which are ASCII's digits alone
        except ValueError:
            pass
    return text
