"""The content of a report without its look: blocks, which sections build and renderers turn into formats.

Names from data are plain strings here, control characters escapes: the rest of escaping is the renderer's, once.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from itertools import groupby
from operator import attrgetter, is_
from typing import Any, Literal, NamedTuple, TypeVar

from ltr_harness._util.escapes import printable
from ltr_harness._util.json_values import none_if_undefined
from ltr_harness._util.number_text import NumberFormat
from ltr_harness.comparison.caution_choice import ChosenCautions
from ltr_harness.comparison.contrasts import Estimated
from ltr_harness.errors import labelled

OURS = "written by ltr-harness report"
"""A mark in every table and picture, by which a later report may replace the file."""

T = TypeVar("T")
Style = Literal["plain", "strong", "emphasis", "code"]
Format = NumberFormat | Literal["text", "code", "tally"]
Mark = Literal["", "better", "worse"]
Best = Literal["max", "min"]
Tone = Literal["good", "bad", "neutral", "muted"]


@dataclass(frozen=True)
class Span:
    """A run of text in one style."""

    text: str
    style: Style = "plain"


Text = str | tuple[Span | str, ...]
"""Plain words, or runs of them in several styles."""


def spans(text: Text) -> tuple[Span, ...]:
    """Return the text as styled runs; words between backticks are code."""
    parts = (text,) if isinstance(text, str) else text
    runs: list[Span] = []
    for part in parts:
        if isinstance(part, Span):
            runs.append(part)
        else:
            runs += with_code(part)
    return tuple(runs)


def with_code(text: str) -> tuple[Span, ...]:
    """Return a text's words, and as code what stands between backticks, one or two of them."""
    pieces = re.split(r"``([^`]+)``|`([^`]+)`", text)  # with two groups, one of three pieces is prose
    return tuple(
        Span(piece, "code" if number % 3 else "plain") for number, piece in enumerate(pieces) if piece
    )


def plain_text(text: Text) -> str:
    """Return the text without styles, for a terminal: words that are code keep the backticks that they have."""
    if isinstance(text, str):
        return text
    parts = []
    for part in text:
        parts.append(part.text if isinstance(part, Span) else part)
    return "".join(parts)


def code(text: str) -> Span:
    """Return the text as code."""
    return Span(text, "code")


def strong(text: str) -> Span:
    """Return the text in bold."""
    return Span(text, "strong")


@dataclass(frozen=True)
class Estimate:
    """A number with its interval, and a mark that the table's footnotes explain."""

    value: float
    low: float | None = None
    high: float | None = None
    mark: Mark = ""

    @classmethod
    def of(cls, one: Estimated) -> "Estimate":
        """Return a difference with its interval."""
        return cls(one.difference, one.ci_low, one.ci_high)


@dataclass(frozen=True)
class Badge:
    """One word of judgement."""

    text: str
    tone: Tone = "neutral"


@dataclass(frozen=True)
class ModelName:
    """A model, in the colour it has in every chart."""

    name: str
    colour: int
    note: str = ""


@dataclass(frozen=True)
class Link:
    """Words that lead to a file beside the page, in formats that can; `href` is an encoded relative address."""

    text: str
    href: str


_HEIGHTS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Trend:
    """The history of a number, as blocks of eight heights; a line on a page."""

    values: tuple[float, ...]  # the oldest first, at least two

    @property
    def text(self) -> str:
        """The values as blocks, the lowest block for the lowest value; all of middle height where they are equal."""
        low, span = min(self.values), max(self.values) - min(self.values)
        if span == 0:
            return _HEIGHTS[3] * len(self.values)
        return "".join(_HEIGHTS[round(7 * (value - low) / span)] for value in self.values)


Cell = str | int | float | None | Estimate | Badge | ModelName | Link | Trend
"""The content of a cell of a table; None is an empty cell."""


def sort_value(cell: Cell) -> float | str | None:
    """Return the value by which a column is ordered; None where there is nothing to order."""
    match cell:
        case Estimate(value=value):
            return none_if_undefined(value)
        case Badge(text=text) | Link(text=text):
            return text
        case ModelName(name=name):
            return name
        case Trend(values=values):
            return values[-1]
        case float() if math.isnan(cell):
            return None
        case _:
            return cell


class _BaseBlock:
    """The base of all blocks."""

    @property
    def kind(self) -> str:
        """The name by which templates distinguish blocks: heading, banner …"""
        return type(self).__name__.lower()


@dataclass(frozen=True)
class Heading(_BaseBlock):
    """A title; that of a section may carry its finding, and `matters` where a reader should not miss it."""

    text: str
    level: Literal[2, 3] = 2
    finding: str = ""  # a few words, such as "2 of 15 differ"
    matters: bool = False  # the finding can change what a reader concludes: its section is not folded
    asked: bool = False  # the experiment was set up to answer this: its section is not folded either


@dataclass(frozen=True)
class Banner(_BaseBlock):
    """The answer: its status as a badge, and a line of at most twenty words."""

    status: Badge
    text: str
    title: str = "Verdict"  # what the navigation calls it


@dataclass(frozen=True)
class Paragraph(_BaseBlock):
    """Running text; `lead` is the sentence to read when reading only one."""

    text: Text
    tone: Literal["plain", "lead", "note", "warning"] = "plain"


@dataclass(frozen=True)
class Bullets(_BaseBlock):
    """A list of short texts."""

    items: tuple[Text, ...]


def axis_of(ends: Iterable[float]) -> tuple[float, float] | None:
    """Return an axis with 0 on it and a margin beyond all these ends; None where there is nothing to draw."""
    numbers = [0.0, *(end for end in ends if math.isfinite(end))]
    margin = 0.08 * (max(numbers) - min(numbers))
    return (float(f"{min(numbers) - margin:.6g}"), float(f"{max(numbers) + margin:.6g}")) if margin else None


@dataclass(frozen=True)
class Column:
    """One column: what it holds and how its numbers are written."""

    label: str
    format: Format = "text"  # anything but text and code is aligned right
    group: str = ""  # columns of one group share a heading above theirs
    best: Best | None = None  # which end of the column is good; the best cell is set in bold
    hint: str = ""  # a sentence that explains the heading
    axis: tuple[float, float] | None = None  # estimates are drawn, too: the ends of what all rows share

    @property
    def numeric(self) -> bool:
        return self.format not in ("text", "code")


@dataclass(frozen=True)
class Table(_BaseBlock):
    """Rows of cells under columns."""

    name: str  # stable and unique in the report; names the file in ``tables/``
    caption: Text  # what the table shows, readable without the text around it
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    footer: tuple[tuple[Cell, ...], ...] = ()  # rows that stay at the bottom, such as the number of queries
    footnotes: tuple[Text, ...] = ()  # explanations of marks and conventions, below the table
    sortable: bool = True
    ten_rows: bool = False  # a page shows the first ten, and the others at a click

    @classmethod
    def of(
        cls,
        name: str,
        caption: Text,
        items: Iterable[T],
        columns: Mapping[Column, Callable[[T], Cell]],
        *,
        footnotes: tuple[Text, ...] = (),
        sortable: bool = True,
        ten_rows: bool = False,
    ) -> "Table":
        """Return a table with a row for each item.

        Args:
            name: of the table, by which formats that are files call theirs.
            caption: what it shows.
            items: one for each row.
            columns: each column to what it takes from an item.
            footnotes: explanations of marks and conventions, below the table.
            sortable: readers may sort it by its columns.
            ten_rows: a page shows the first ten rows, and the others at a click.
        """
        rows = tuple(tuple(cell(item) for cell in columns.values()) for item in items)
        return cls(name, caption, tuple(columns), rows, (), footnotes, sortable, ten_rows)

    @property
    def groups(self) -> list[tuple[str, int]]:
        """Neighbouring columns of one group, each with its number of columns; empty where no column has a group."""

        def group_or_number(numbered: tuple[int, Column]) -> str | int:
            number, column = numbered
            return column.group or number  # a column without a group is a run of its own

        sizes = []
        for group, numbered_columns in groupby(enumerate(self.columns), group_or_number):
            title = group if isinstance(group, str) else ""
            sizes.append((title, len([*numbered_columns])))
        return sizes if any(title for title, _ in sizes) else []

    @property
    def drawn(self) -> bool:
        """True where one of its columns is a picture as well."""
        return any(column.axis for column in self.columns)

    @cached_property
    def best_cells(self) -> frozenset[tuple[int, int]]:
        """The (row, column) of the best cells; none in a column of a single number, where best says nothing."""
        cells: set[tuple[int, int]] = set()
        for column_number, column in enumerate(self.columns):
            if column.best is None:
                continue
            values: dict[int, float] = {}  # by the number of their row
            for row_number, row in enumerate(self.rows):
                value = sort_value(row[column_number])
                if isinstance(value, int | float):
                    values[row_number] = value
            if len(values) > 1:
                best = max(values.values()) if column.best == "max" else min(values.values())
                cells.update((number, column_number) for number, value in values.items() if value == best)
        return frozenset(cells)


@dataclass(frozen=True, eq=False)
class Chart(_BaseBlock):
    """A Vega-Lite chart and the same in words."""

    name: str  # stable and unique in the report; names the file in ``charts/``
    title: Text  # what is drawn
    spec: Mapping[str, Any]  # without colours of text, axes and background: they belong to the page's theme
    text: str  # what a reader who cannot see the chart needs to know


@dataclass(frozen=True)
class Details(_BaseBlock):
    """Blocks for the few who want them, folded away where the format allows it."""

    summary: str
    blocks: "tuple[Block, ...]"
    page_only: bool = False  # left out of formats that cannot fold, and of the files in ``tables/``
    open: bool = False  # not folded at first


def caution_blocks(chosen: ChosenCautions) -> "tuple[Block, ...]":
    """Return the caution that stands below a table, and the others folded."""
    found: list[Block] = []
    if chosen.below is not None:
        found.append(Paragraph(labelled(chosen.below), "note"))
    if chosen.folded:
        items = tuple(map(labelled, chosen.folded))
        found.append(Details(chosen.folded_text, (Bullets(items),)))
    return tuple(found)


@dataclass(frozen=True)
class Choice(_BaseBlock):
    """The same question answered for one of several things, of which a page shows the one that is chosen."""

    label: str  # what is chosen
    # each one's name and blocks; other formats have the first alone, and say so
    options: "tuple[tuple[str, tuple[Block, ...]], ...]"


@dataclass(frozen=True)
class TwoForms(_BaseBlock):
    """The same content twice: in a short form for the page, and complete for formats without folding."""

    page: "tuple[Block, ...]"
    files: "tuple[Block, ...]"  # Markdown, and the files in ``tables/`` and ``charts/``


@dataclass(frozen=True)
class Definitions(_BaseBlock):
    """Terms and what they mean, one paragraph each or several."""

    items: tuple[tuple[str, tuple[Text, ...]], ...]


@dataclass(frozen=True)
class Code(_BaseBlock):
    """Lines of code, or of a file."""

    text: str
    language: str = ""


Block = (
    Heading | Banner | Paragraph | Bullets | Table | Chart | Details | Choice | TwoForms | Definitions | Code
)
"""The elements of a section."""


def walk(blocks: tuple[Block, ...], *, page: bool = False) -> Iterator[Block]:
    """Yield all blocks of every format, those inside others included, in reading order."""
    for block in blocks:
        yield block
        if isinstance(block, Details) and (page or not block.page_only):
            yield from walk(block.blocks, page=page)
        elif isinstance(block, Choice):
            options = block.options if page else block.options[:1]
            for _, option_blocks in options:
                yield from walk(option_blocks, page=page)
        elif isinstance(block, TwoForms):
            yield from walk(block.page if page else block.files, page=page)


_NUMBERS, _SEQUENCES = (int, float), (list, tuple)  # a union would be made for each of many thousand values


def with_escapes(value: Any) -> Any:
    """Return the same text, block or spec with every control character in it as an escape."""
    if isinstance(value, str):
        return printable(value, lines=True)
    if value is None or isinstance(value, _NUMBERS):
        return value
    if isinstance(value, _SEQUENCES):
        parts = [with_escapes(part) for part in value]
        return value if all(map(is_, parts, value)) else type(value)(parts)
    if isinstance(value, Mapping):
        return {with_escapes(key): with_escapes(part) for key, part in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return _with_escaped_fields(value)
    return value


def _with_escaped_fields(record: Any) -> Any:
    """Return a dataclass with escapes in its fields; the same one where no field has a control character."""
    changes = {}
    for field in fields(record):
        before = getattr(record, field.name)
        after = with_escapes(before)
        if after is not before:
            changes[field.name] = after
    return replace(record, **changes) if changes else record


class SectionGroup(NamedTuple):
    """Sections that belong together, and the question that they answer."""

    title: str
    question: str

    @property
    def name(self) -> str:
        """Its anchor on the page."""
        return re.sub(r"\W+", "-", self.title.lower()).strip("-")


@dataclass(frozen=True)
class Section:
    """The answer to one question; its name is its anchor on the page."""

    name: str
    blocks: tuple[Block, ...]
    group: SectionGroup | None = None  # a section of a group is folded unless its finding matters

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocks", with_escapes(self.blocks))

    @property
    def heading(self) -> Heading:
        """The first of level 2, or one made of the banner or the name."""
        for block in self.blocks:
            if isinstance(block, Heading) and block.level == 2:
                return block
        banners = (block.title for block in self.blocks if isinstance(block, Banner))
        return Heading(next(banners, self.name))

    @property
    def charts(self) -> tuple[Chart, ...]:
        return tuple(block for block in walk(self.blocks) if isinstance(block, Chart))


@dataclass(frozen=True, eq=False)
class Report:
    """A page of sections, without a look."""

    title: str
    facts: tuple[Text, ...]  # what stands below the title, a few words each
    sections: tuple[Section, ...]
    document: Callable[[], str] = str  # the complete numbers as JSON text; nothing for a page without
    values: Callable[[], bytes] | None = None  # the per-query values behind them, for later comparisons

    def __post_init__(self) -> None:
        object.__setattr__(self, "title", with_escapes(self.title))
        object.__setattr__(self, "facts", with_escapes(self.facts))

    @property
    def groups(self) -> list[tuple[SectionGroup | None, list[Section]]]:
        """Neighbouring sections of one group."""
        return [(group, list(members)) for group, members in groupby(self.sections, attrgetter("group"))]

    @property
    def tables(self) -> tuple[Table, ...]:
        return tuple(
            block for section in self.sections for block in walk(section.blocks) if isinstance(block, Table)
        )

    @property
    def charts(self) -> tuple[Chart, ...]:
        return tuple(chart for section in self.sections for chart in section.charts)
