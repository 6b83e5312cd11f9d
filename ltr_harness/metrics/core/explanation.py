"""One query's arithmetic as people read it: in a terminal and in a notebook."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ltr_harness._util.display import Displayed
from ltr_harness._util.number_text import plain_number
from ltr_harness._util.tables import text_table
from ltr_harness._util.text import count_of


@dataclass(frozen=True)
class PresetValue:
    """The same query as another tool measures it."""

    tool: str  # name of the preset
    name: str  # the metric with the tool's conventions, spelt out
    value: float | None  # None where the tool cannot compute it; NaN where it leaves the query out
    reason: str  # the conventions that make the difference; empty where the value is the same


@dataclass(frozen=True, repr=False)
class Explanation(Displayed):
    """A metric's arithmetic on one query."""

    metric: Any  # a `Metric`, with everything it takes from the data fixed
    value: float  # its value; NaN where it is undefined
    columns: tuple[str, ...]  # headings of `rows`
    # one per rank, best first: rank, tie group, row or document, label, score, whether anybody judged it (where not
    # all are), what the metric sees
    rows: tuple[tuple[str | float, ...], ...]
    n_hidden: int  # documents below the cutoff that are not shown
    steps: tuple[str, ...]  # from the contributions to the value, one line each
    ideal: tuple[float, ...]  # labels of the ideal order, as far as the cutoff
    presets: tuple[PresetValue, ...]  # the same under every tool that computes the metric
    # the smallest and the largest value over the orders of equal scores; None where none matters
    interval: tuple[float, float] | None
    missed_columns: tuple[str, ...] = ()  # headings of `missed`
    # the judged documents without a rank, best label first: row or document, label, and what each, after those above
    # it, adds to what the metric divides by (where it adds anything)
    missed: tuple[tuple[str | float, ...], ...] = ()

    @property
    def heading(self) -> str:
        """The metric and its value."""
        return f"{self.metric} = {self.text_of(self.value)}"

    @property
    def hidden_text(self) -> str:
        """The number of documents below the cutoff; "" where all are shown."""
        return f"({count_of(self.n_hidden, 'more document')} below the cutoff)" if self.n_hidden else ""

    @property
    def lines_below(self) -> tuple[str, ...]:
        """The lines below the rows: from the contributions to the value, and what ties could make of it."""
        if self.interval is None:
            return self.steps
        low, high = map(self.text_of, self.interval)
        return (*self.steps, f"from {low} to {high} over the orders of equal scores")

    def __repr__(self) -> str:
        parts = [self.heading, "", *_lines(self.columns, self.texts)]
        if self.hidden_text:
            parts.append(self.hidden_text)
        missed, unshown = self.missed_texts()
        if missed:
            parts += ["", *_lines(self.missed_columns, missed)]
        parts += [*unshown, "", self.ideal_text(), *self.lines_below]
        if self.presets:
            parts += ["", *_lines(PRESET_COLUMNS, self.preset_texts)]
        return "\n".join(parts)

    def text_of(self, value: float | None) -> str:
        """A value of this metric for people: counts whole, shares with four decimals."""
        return number(value, self.metric.counts)

    @property
    def texts(self) -> list[list[str]]:
        """`rows` for people."""
        return [[cell(*pair) for pair in zip(self.columns, row, strict=True)] for row in self.rows]

    def missed_texts(self, limit: int | None = None) -> tuple[list[list[str]], list[str]]:
        """`missed` for people, at most so many and none with the label 0, and a line on the others."""
        listed = [row for row in self.missed if row[1]][:limit]
        texts = [[cell(*pair) for pair in zip(self.missed_columns, row, strict=True)] for row in listed]
        n_left_out = len(self.missed) - len(listed)
        labels = {row[1] for row in self.missed[len(listed) :]}
        label_note = " with the label 0" if labels == {0.0} else ""
        if not n_left_out:
            return texts, []
        return texts, [f"({count_of(n_left_out, 'missed document')}{label_note})"]

    @property
    def preset_texts(self) -> list[list[str]]:
        """`presets` for people, under `PRESET_COLUMNS`."""
        return [
            [preset.tool, self.text_of(preset.value), preset.reason or "the same"] for preset in self.presets
        ]

    def ideal_text(self, limit: int | None = None) -> str:
        """The ideal order's line, with at most so many labels."""
        if self.metric.uses_subtopics:
            return "a document's label is its highest grade for any subtopic"
        labels = " ".join(cell("label", label) for label in self.ideal[:limit])
        text = f"ideal order of labels: {labels}"
        if limit is not None and len(self.ideal) > limit:
            text += f" … ({len(self.ideal) - limit:,} more)"
        return text


@dataclass(frozen=True)
class MeanExplanation:
    """A metric's mean over a whole set of queries, and the tools' means of the same."""

    metric: Any  # a `Metric`, with everything it takes from the data fixed
    # over the queries it is defined for, weighted where they have weights; NaN where it is for none
    mean: float
    n_queries: int  # all queries
    n_defined: int  # those in the mean
    # the same under every tool that computes the metric; a reason names each convention with what it does to the mean
    # by itself
    presets: tuple[PresetValue, ...]
    counts: Mapping[str, int]  # tool to the number of queries in its mean
    # the smallest and the largest mean over the orders of equal scores; None where none matters
    interval: tuple[float, float] | None

    @property
    def heading(self) -> str:
        """The mean, the queries it is over and what ties could make of it, in one line."""
        over = f"over {self.n_defined:,} of {count_of(self.n_queries, 'query')}"
        text = f"{self.metric} = {number(self.mean)} {over}"
        if self.interval is None:
            return text
        low, high = map(number, self.interval)
        return f"{text}; from {low} to {high} over the orders of equal scores"

    @property
    def preset_texts(self) -> list[list[str]]:
        """`presets` for people, under `MEAN_COLUMNS`."""
        rows = []
        for preset in self.presets:
            count = f"{self.counts[preset.tool]:,}" if preset.tool in self.counts else "-"
            rows.append([preset.tool, number(preset.value), count, preset.reason or "the same"])
        return rows

    def __str__(self) -> str:
        return "\n".join([self.heading, "", *_lines(MEAN_COLUMNS, self.preset_texts)])


MEAN_COLUMNS = ("as", "mean", "queries", "why")
PRESET_COLUMNS = ("as", "value", "why")
LEFT = ("as", "why", "document", "missed document")
"""Columns of words."""


def number(value: float | None, as_integer: bool = False) -> str:
    """A value with four decimals, or as an integer; "-" for None, "undefined" for NaN."""
    if value is None:
        return "-"
    if math.isnan(value):
        return "undefined"
    return str(int(value)) if as_integer and value == int(value) else f"{value:z.4f}"


def cell(column: str, value: str | float) -> str:
    """Return a value of a column of `Explanation.rows` as people read it."""
    if isinstance(value, str):
        return value
    if column == "contribution" or column.startswith("adds to ideal"):
        return f"{value:z.4f}"
    if math.isfinite(value) and value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return plain_number(value) if len(plain_number(value)) <= 8 else f"{value:.5g}"


def _lines(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return text_table(columns, rows, left=[i for i, column in enumerate(columns) if column in LEFT])
