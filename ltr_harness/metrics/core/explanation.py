"""One query's arithmetic as people read it: in a terminal and in a notebook."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Protocol

from ltr_harness.metrics.core.numbers import plain_number
from ltr_harness.wording import count_of


class Explained(Protocol):
    """What is explained: a metric, whose text is its canonical name."""

    @property
    def counts(self) -> bool:
        """Whether a query's value is a number of documents or pairs."""


@dataclass(frozen=True)
class PresetValue:
    """The same query as another tool measures it.

    Attributes:
        tool: name of the preset.
        name: the metric with the tool's conventions, spelt out.
        value: None where the tool cannot compute it; NaN where it leaves the query out.
        reason: the conventions that make the difference; empty where the value is the same.
    """

    tool: str
    name: str
    value: float | None
    reason: str


@dataclass(frozen=True)
class Explanation:
    """What a metric does with one query.

    Attributes:
        metric: the metric, with everything it takes from the data fixed.
        value: its value; NaN where it is undefined.
        columns: headings of `rows`.
        rows: one per rank, best first: rank, tie group, row or document, label, score, whether anybody judged it
            (where not all are), what the metric sees.
        n_hidden: documents below the cutoff that are not shown.
        steps: from the contributions to the value, one line each.
        ideal: labels of the ideal order, as far as the cutoff.
        presets: the same under every tool that computes the metric.
        interval: the smallest and the largest value over the orders of equal scores; None where none matters.
    """

    metric: Explained
    value: float
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float, ...], ...]
    n_hidden: int
    steps: tuple[str, ...]
    ideal: tuple[float, ...]
    presets: tuple[PresetValue, ...]
    interval: tuple[float, float] | None

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is said below the rows: from the contributions to the value, and what ties could make of it."""
        if self.interval is None:
            return self.steps
        low, high = map(self.text_of, self.interval)
        return (*self.steps, f"from {low} to {high} over the orders of equal scores")

    def __str__(self) -> str:
        parts = [f"{self.metric} = {self.text_of(self.value)}", "", *_text_table(self.columns, self.rows)]
        if self.n_hidden:
            parts.append(f"({count_of(self.n_hidden, 'more document')} below the cutoff)")
        parts += [
            "",
            f"ideal order of labels: {' '.join(cell('label', label) for label in self.ideal)}",
            *self.remarks,
        ]
        if self.presets:
            parts += ["", *_text_table(_PRESET_COLUMNS, self._preset_rows())]
        return "\n".join(parts)

    def _repr_html_(self) -> str:
        parts = [f"<p><b>{escape(str(self.metric))} = {self.text_of(self.value)}</b></p>"]
        parts.append(_html_table(self.columns, self.rows))
        if self.n_hidden:
            parts.append(f"<p>{count_of(self.n_hidden, 'more document')} below the cutoff</p>")
        steps = [
            f"ideal order of labels: {' '.join(cell('label', label) for label in self.ideal)}",
            *self.remarks,
        ]
        parts.append(f"<p>{'<br>'.join(escape(step) for step in steps)}</p>")
        if self.presets:
            parts.append(_html_table(_PRESET_COLUMNS, self._preset_rows()))
        return "".join(parts)

    def text_of(self, value: float | None) -> str:
        """A value of this metric for people: counts whole, shares with four decimals."""
        return number(value, self.metric.counts)

    def _preset_rows(self) -> tuple[tuple[str, ...], ...]:
        return tuple(
            (preset.tool, self.text_of(preset.value), preset.reason or "the same") for preset in self.presets
        )


_PRESET_COLUMNS = ("as", "value", "why")


def number(value: float | None, whole: bool = False) -> str:
    """A value with four decimals, or as an integer; "-" for None, "undefined" for NaN."""
    if value is None:
        return "-"
    if math.isnan(value):
        return "undefined"
    return str(int(value)) if whole and value == int(value) else f"{value:z.4f}"


def cell(column: str, value: str | float) -> str:
    """What a column of `Explanation.rows` holds, as people read it."""
    if isinstance(value, str):
        return value
    if column == "contribution":
        return f"{value:z.4f}"
    if math.isfinite(value) and value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return plain_number(value) if len(plain_number(value)) <= 8 else f"{value:.5g}"


def _cells(columns: Sequence[str], row: Sequence[str | float]) -> list[str]:
    return [cell(column, value) for column, value in zip(columns, row, strict=True)]


def _text_table(columns: Sequence[str], rows: Sequence[Sequence[str | float]]) -> list[str]:
    cells = [list(columns), *(_cells(columns, row) for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    words = {"why", "as", "document"}
    return [
        "  ".join(
            cell.ljust(width) if columns[i] in words else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def _html_table(columns: Sequence[str], rows: Sequence[Sequence[str | float]]) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in _cells(columns, row))}</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
