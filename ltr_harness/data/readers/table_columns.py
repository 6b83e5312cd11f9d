"""Checked columns of one table file, with every bad value named by its row."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ltr_harness._util.text import count_of
from ltr_harness.data.arrays import LONGEST_ID, TRUTHS
from ltr_harness.data.columns import (
    ArrowColumns,
    coded,
    decoded,
    is_category,
    is_numeric,
    is_text,
    letters_of,
    truths_of,
    values_of,
    values_shown,
)
from ltr_harness.data.readers.column_names import is_index, may_count_rows
from ltr_harness.data.readers.rows import Rows, blocks_of, limited, query_ids, remap_codes, within_float32
from ltr_harness.data.readers.text_files import Bound
from ltr_harness.data.readers.words import NotNumeric, feature_cure, label_cure
from ltr_harness.data.times import NO_MOMENT, timestamps
from ltr_harness.errors import DataError, Problem

if TYPE_CHECKING:
    from ltr_harness.data.readers.reader import ValueOptions

_FINITE = "a finite number in the range of float32, or nothing where the value is missing"


_A_DAY = 86_400 * 10**9  # nanoseconds
_FLAG = "0 or 1 (or false and true): whether the document was a candidate"
_QUOTED = 60  # characters of a value that messages quote
_QUERY_ID = "a query id"
FIRST_ROWS = 1000
"""Rows that are looked at before a table is read."""
_LOOKED_AT = 1000  # bad cells of a column, for examples of their values


MOST_CATEGORIES = 1 << 16
"""Distinct texts of a categorical feature; more of them are names of documents, not kinds of them."""


class OpenedTable(ABC):
    """Opened table whose columns are known and whose rows can be read."""

    path: Path
    columns: list[str]
    # types of the columns, where they are stored one by one and so can be read one by one; else None
    schema: Any
    size: int  # bytes of the file
    n_rows: int | None  # where it is known before the rows are read
    streams = False  # whether `data.logs` reads the file as it lies there, batch by batch

    def numeric_columns(self) -> set[str]:
        """Return the columns that could be features."""
        return {field.name for field in self.schema if is_numeric(field.type)}

    def category_columns(self) -> set[str]:
        """Return the columns whose type is that of categories: none in text files."""
        return {field.name for field in self.schema or () if is_category(field.type)}

    def first_texts(self, names: Sequence[str]) -> dict[str, list[str]]:
        """Return the first cells of those of these columns that are text; an empty cell is an empty text."""
        kinds = {name: self.schema.field(name).type for name in names}
        texts = [name for name, kind in kinds.items() if is_text(kind)]
        if not texts:
            return {}
        first = self.first_rows(texts, FIRST_ROWS)
        return {name: first[name].cast(pa.string()).fill_null("").to_pylist() for name in texts}

    def first_rows(self, names: Sequence[str], n_rows: int) -> Any:
        """Return the first rows of some columns, as an Arrow table."""
        return self.read([], names).table.slice(0, n_rows)

    def index_columns(self) -> set[str]:
        """Return the columns with the index of a frame of pandas, which describes a row's place and not the row."""
        counts = [name for name in self.numeric_columns() if may_count_rows(name) and self._counts_rows(name)]
        return {name for name in self.columns if is_index(name)} | {*counts}

    def _counts_rows(self, name: str) -> bool:
        """Return whether a column has whole numbers, each once."""
        try:
            values = self.read([name], []).numbers(name)
        except DataError:  # which is reported with the rest of the file
            return False
        return bool((values == np.floor(values)).all() and np.unique(values).size == values.size)

    def missing_header(self) -> Problem | None:
        """Return the problem that the first row looks like values, not names; None where it does not."""
        return None

    def decimal_commas(self, columns: Sequence[str]) -> list[Problem]:
        """Return the first cell of each column that has numbers with a decimal comma."""
        return []

    @abstractmethod
    def read(self, numbers: Sequence[str], texts: Sequence[str]) -> ArrowColumns:
        """Read some columns."""

    def read_of(self, rows: NDArray[np.bool_], numbers: Sequence[str], texts: Sequence[str]) -> ArrowColumns:
        """Read some columns, whose numbers matter only in some rows, a mask (n_rows,)."""
        return self.read(numbers, texts)

    def place(self, row: int) -> str:
        """Return the place of a row for messages: the file, and the row counted from 1."""
        return f"{self.path}: row {row + 1}"


def type_problems(path: Path, schema: Any, numbers: Sequence[str]) -> list[Problem]:
    """Return the columns that should have numbers and are neither numbers nor text; for text, see `text_problems`."""
    problems = []
    for name in numbers:
        kind = schema.field(name).type
        if is_numeric(kind) or is_text(kind) or is_category(kind):
            continue
        cure = ""
        if pa.types.is_temporal(kind):
            cure = "write it as a number, such as days since a date, or leave it out"
        problems.append(Problem(str(path), f"column {name!r} has the type {kind}", "numbers", cure))
    return problems


def text_problems(path: Path, table: Any, numbers: Sequence[str]) -> list[Problem]:
    """Return the columns of an Arrow table that should have numbers and have text other than true and false."""
    problems: list[Problem] = []
    for name in numbers:
        column = table[name]
        if is_numeric(column.type) or truths_of(decoded(column)) is not None:
            continue
        found, texts = f"column {name!r} has the type {column.type}", decoded(column).drop_null()
        n = len(texts)
        first = str(texts[0]) if n else ""
        problem = NotNumeric(str(path), found, "numbers", column=name, text=first, n_texts=n, n_cells=n)
        problems.append(problem)
    return problems


def invalid_ids(texts: Any) -> NDArray[np.bool_]:
    """Return a mask of texts that cannot be ids in NumPy: empty ones, very long ones, and those with a NUL byte."""
    letters, ends = letters_of(texts.combine_chunks())
    length = np.diff(ends)
    unfit: NDArray[np.bool_] = (length == 0) | (length > LONGEST_ID)
    of_texts = letters[ends[0] : ends[-1]]
    if not of_texts.all():
        nul = ends[0] + np.flatnonzero(of_texts == 0)
        unfit[np.searchsorted(ends, nul, side="right") - 1] = True
    return unfit


@dataclass(frozen=True, kw_only=True)
class Roles:
    """The columns of a table by what they are for; None and nothing for roles that no column has."""

    features: Sequence[str] = ()
    categorical: Collection[str] = ()  # those of the features whose values are texts
    label: str | None = None
    weight: str | None = None
    position: str | None = None
    document_id: str | None = None
    retrieved: str | None = None
    time: str | None = None  # by which weights halve; it may have another role as well
    attributes: Sequence[str] = ()
    subtopics: Sequence[str] = ()
    query: Sequence[str] = ()  # columns whose values together are the query's id

    @property
    def quantities(self) -> list[str]:
        """The features that are numbers."""
        return [name for name in self.features if name not in self.categorical]

    def numbers(self, *, mapped_labels: bool) -> list[str]:
        """Return the columns of numbers besides features; labels that are mapped are texts."""
        label = None if mapped_labels else self.label
        return [*(name for name in (label, self.weight, self.position) if name), *self.subtopics]

    def texts(self, *, mapped_labels: bool) -> list[str]:
        """Return the columns of texts besides features and times."""
        label = self.label if mapped_labels else None
        named = [name for name in (self.document_id, label, self.retrieved) if name]
        return [*self.query, *named, *self.attributes]


class TableColumns:
    """The checked columns of one file, and the `problems` of their values."""

    def __init__(self, table: OpenedTable, roles: Roles, options: "ValueOptions") -> None:
        self.table = table
        self.feature_names = tuple(roles.features)
        self.problems: list[Problem] = []
        self.n_beyond = 0
        self.categories: dict[str, tuple[str, ...]] = {}
        self.retrieved: NDArray[np.bool_] | None = None
        self._options = options
        try:
            columns, times, of_features = self._read(roles)
        except DataError as error:
            raise DataError(self._with_cures(error.problems, roles)) from None
        self.query_ids = self._query_ids(columns, roles.query) if roles.query else None
        self.labels = self._labels(columns, roles.label) if roles.label else np.zeros(self.n_rows)
        self.features = self._features(of_features, roles)
        self.weights = self.days = self.positions = self.document_ids = None
        if roles.weight:
            self.weights = self._grades(columns, roles.weight, "a weight >= 0", missed=False)
        if roles.time:
            self.days = self._days(times, roles.time)
        if roles.position:
            self.positions = self._positions(columns, roles.position)
        if roles.document_id:
            self.document_ids = self._texts(columns, roles.document_id, "a document id")
        self.attributes = {name: self._attribute(columns, name) for name in roles.attributes}
        graded = [self._grades(columns, name, "a grade >= 0 for the subtopic") for name in roles.subtopics]
        self.subtopics = np.column_stack(graded) if graded else None

    def _read(self, roles: Roles) -> tuple[ArrowColumns, ArrowColumns, ArrowColumns]:
        """Return the columns of roles, that of times, and those of features where they are not read one by one."""
        table, is_mapped = self.table, self._options.grades is not None
        numbers, texts = roles.numbers(mapped_labels=is_mapped), roles.texts(mapped_labels=is_mapped)
        if table.schema is not None:
            self._refuse_types([*roles.quantities, *numbers])
        elif roles.retrieved is None:
            numbers, texts = [*roles.quantities, *numbers], [*texts, *roles.categorical]
        if roles.time and roles.time not in (*numbers, *texts):
            texts.append(roles.time)
        columns = table.read(numbers, texts)
        # times that are numbers in another role are read again, as times
        times = table.read([], [roles.time]) if roles.time and roles.time in numbers else columns
        self.n_rows = len(columns)
        if roles.retrieved is None:
            return columns, times, columns
        self.retrieved = self._flags(columns, roles.retrieved)
        if table.schema is not None:
            return columns, times, columns
        of_features = table.read_of(self.retrieved, roles.quantities, list(roles.categorical))
        return columns, times, of_features

    def _refuse_types(self, numbers: Sequence[str]) -> None:
        """Raise if columns that should hold numbers hold something else, all of them together."""
        table = self.table
        problems = type_problems(table.path, table.schema, numbers)
        kinds = {name: table.schema.field(name).type for name in numbers}
        of_text = [name for name, kind in kinds.items() if is_category(kind) or is_text(kind)]
        if of_text:
            try:
                table.read(of_text, [])
            except DataError as error:
                problems += error.problems
        DataError.refuse(problems)

    def _with_cures(self, problems: Sequence[Problem], roles: Roles) -> list[Problem]:
        """Return the problems, those about text in columns of numbers with the line to write, by the column's role."""
        worded = [problem for problem in problems if isinstance(problem, NotNumeric) and problem.is_word]
        words = {problem.column for problem in worded}
        categorical = [*roles.categorical, *(name for name in roles.quantities if name in words)]
        cured_problems: list[Problem] = []
        for problem in problems:
            if isinstance(problem, NotNumeric) and not problem.cure:
                problem = replace(problem, cure=self._cure(problem, roles, categorical))
            cured_problems.append(problem)
        return cured_problems

    def _cure(self, problem: NotNumeric, roles: Roles, categorical: Sequence[str]) -> str:
        if problem.column == roles.label:
            words = self.table.read([], [roles.label])[roles.label].unique().drop_null().to_pylist()
            return label_cure(problem, [word for word in words if word])
        if problem.column in roles.quantities and hasattr(self._options, "categorical"):
            return feature_cure(problem, categorical)
        return ""

    def _features(self, columns: ArrowColumns, roles: Roles) -> NDArray[np.float32]:
        """Return the features of candidates; from `columns`, or read one by one where that costs nothing."""
        n_candidates = self.n_rows if self.retrieved is None else int(self.retrieved.sum())
        features = np.empty((n_candidates, len(roles.features)), dtype=np.float32)
        one_by_one = self.table.schema is not None  # so table and matrix need not be in memory together
        for j, name in enumerate(roles.features):
            if name in roles.categorical:
                values = self.table.read([], [name]) if one_by_one else columns
                features[:, j] = self._codes(values, name, n_candidates)
            else:
                values = self.table.read([name], []) if one_by_one else columns
                self._fill(features[:, j], values, name)
        return features

    def _fill(self, feature: NDArray[np.float32], columns: ArrowColumns, name: str) -> None:
        """Write a column of numbers into one of features (n_candidates,), and report what float32 cannot hold."""
        rows = slice(None) if self.retrieved is None else self.retrieved
        with np.errstate(over="ignore", under="ignore"):
            feature[:] = columns.numbers(name)[rows]
        if self._options.beyond_float32 != "error":
            self.n_beyond += within_float32(feature, self._options.beyond_float32)
            return
        is_beyond = np.zeros(self.n_rows, dtype=bool)
        is_beyond[rows] = np.isinf(feature)
        self._report(is_beyond, name, columns, _FINITE)

    def _labels(self, columns: ArrowColumns, name: str) -> NDArray[np.float64]:
        if self._options.grades is None:
            return self._grades(columns, name, "a finite label, such as 0, 1, 2", lowest=-np.inf)
        labels = self._looked_up(columns, name, self._options.graded, "labels")
        self._report(np.isnan(labels), name, columns, self._options.mapped_labels)
        return labels

    def _flags(self, columns: ArrowColumns, name: str) -> NDArray[np.bool_]:
        def flags(values: Iterable[Any]) -> NDArray[np.float64]:
            return np.array([TRUTHS.get(str(value).strip().lower(), np.nan) for value in values])

        values = self._looked_up(columns, name, flags, _FLAG)
        self._report(np.isnan(values), name, columns, _FLAG)
        return np.asarray(values == 1)

    def _looked_up(
        self,
        columns: ArrowColumns,
        name: str,
        look_up: Callable[[Iterable[Any]], NDArray[np.float64]],
        expected: str,
    ) -> NDArray[np.float64]:
        """Return the number of each text or number of a column (n_rows,) by `look_up`; NaN for empty cells."""
        column = columns[name]
        if (coding := coded(column)) is not None:
            codes, texts = coding
            value_of_code = np.append(look_up(texts), np.nan)
            return np.asarray(value_of_code[np.where(np.isnan(codes), -1, codes).astype(np.int64)])
        if is_numeric(column.type):
            distinct, codes_of_rows = np.unique(
                columns.numbers(name) + 0.0, return_inverse=True
            )  # -0 becomes 0
            return look_up(distinct.tolist())[codes_of_rows]
        self._refuse(f"column {name!r} has the type {column.type}", expected)
        return np.zeros(self.n_rows)

    def _codes(self, columns: ArrowColumns, name: str, n_candidates: int) -> NDArray[np.float32]:
        column = columns[name]
        coding = coded(column if self.retrieved is None else column.filter(self.retrieved))
        if coding is not None and len(coding[1]) <= MOST_CATEGORIES:
            self.categories[name] = coding[1]
            return coding[0]
        has = f"the type {column.type}" if coding is None else count_of(len(coding[1]), "distinct value")
        found, cure = f"the categorical column {name!r} has {has}", "name the columns to use with `features:`"
        self._refuse(found, f"at most {MOST_CATEGORIES:,} texts or integers", cure)
        return np.full(n_candidates, np.nan, dtype=np.float32)

    def _query_ids(self, columns: ArrowColumns, names: Sequence[str]) -> NDArray[np.str_]:
        first, *further_ids = (self._texts(columns, name, _QUERY_ID) for name in names)
        # else two queries could be called alike
        for name, ids in zip(names[:-1], (first, *further_ids), strict=False):
            joins = np.char.find(ids, "/") >= 0
            self._report(joins, name, columns, "no '/', which joins the columns of `query`")
        for ids in further_ids:
            first = np.char.add(np.char.add(first, "/"), ids)
        return first

    def _texts(self, columns: ArrowColumns, name: str, expected: str) -> NDArray[np.str_]:
        column = columns[name]
        values = columns.texts(name)
        if values is None and expected == _QUERY_ID:
            values = _time_texts(column)
        if values is None:
            is_double = "double" in str(column.type)
            cure = "are the ids stored as floats? write them as integers or text" if is_double else ""
            self._refuse(f"column {name!r} has the type {column.type}", f"{expected}: integers or text", cure)
            return np.empty(self.n_rows, dtype=np.str_)
        return self._as_numpy(values, invalid_ids(values), name, columns, expected)

    def _attribute(self, columns: ArrowColumns, name: str) -> NDArray[Any]:
        from pyarrow.compute import binary_length

        try:
            values = values_of(columns[name])
        except pa.ArrowException as problem:
            expected = "a number, a time or a text in every row"
            self._refuse(f"column {name!r} cannot be an attribute: {problem}", expected)
            return np.zeros(self.n_rows)
        if isinstance(values, np.ndarray):
            return values
        unfit = binary_length(values).to_numpy() > LONGEST_ID
        # In text files everything is text: numbers become numbers as query ids do.
        return query_ids(self._as_numpy(values, unfit, name, columns, "the value of an attribute"))

    def _as_numpy(
        self, texts: Any, unfit: NDArray[np.bool_], name: str, columns: ArrowColumns, expected: str
    ) -> NDArray[np.str_]:
        """Return Arrow's text as NumPy's, all as wide as the longest; "" throughout where some are reported."""
        import pyarrow.compute as pc

        if unfit.any():
            self._report(unfit, name, columns, f"{expected} of at most {LONGEST_ID:,} bytes")
            return np.empty(self.n_rows, dtype=np.str_)
        longest = pc.max(pc.utf8_length(texts)).as_py() or 1
        found = f"column {name!r} has a text of {longest:,} characters, so that its {self.n_rows:,} rows take"
        Bound.of_file(self.table.size).refuse(str(self.table.path), found, 4 * longest * self.n_rows)
        return np.asarray(texts.to_numpy(zero_copy_only=False), dtype=np.str_)

    def _grades(
        self, columns: ArrowColumns, name: str, expected: str, lowest: float = 0.0, missed: bool = True
    ) -> NDArray[np.float64]:
        values = columns.numbers(name)
        good = np.isfinite(values) & (values >= lowest)
        if not missed:
            good |= self._dispensable(values)
        self._report(~good, name, columns, expected)
        return values

    def _positions(self, columns: ArrowColumns, name: str) -> NDArray[np.int32]:
        values = columns.numbers(name)
        good = (values >= 0) & (values < 2**31) & (values == np.floor(values))
        self._report(~(good | self._dispensable(values)), name, columns, "an integer >= 0")
        return np.where(good, values, 0).astype(np.int32)

    def _days(self, columns: ArrowColumns, name: str) -> NDArray[np.float64]:
        """Return the time of each row, in days since 1970."""
        try:
            moments = timestamps(columns[name], name, "UTC", self.table.place)
        except DataError as error:
            self.problems += error.problems
            return np.zeros(self.n_rows)
        days = np.where(moments == NO_MOMENT, np.nan, moments / _A_DAY)
        self._report(np.isnan(days) & ~self._dispensable(days), name, columns, "a time in every row")
        return days

    def _dispensable(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which rows (n_rows,) are missed documents without a value."""
        if self.retrieved is None:
            return np.zeros(values.size, dtype=bool)
        return np.isnan(values) & ~self.retrieved

    def _refuse(self, found: str, expected: str, cure: str = "") -> None:
        self.problems.append(Problem(str(self.table.path), found, expected, cure))

    def _report(self, bad: NDArray[np.bool_], name: str, columns: ArrowColumns, expected: str) -> None:
        rows = np.flatnonzero(bad)
        if not rows.size:
            return
        values = values_shown(columns[name].take(rows[:_LOOKED_AT]))
        if None in values:  # among numbers, `NULL` and `nan` of a text file are empty
            texts = values_shown(self.table.read([], [name])[name].take(rows[:_LOOKED_AT]))
            for number, text in enumerate(texts):
                if values[number] is None:
                    values[number] = text
        place = self.table.place(int(rows[0]))
        self.problems.append(column_problem(place, name, values, rows.size, expected))


def joined(parts: Sequence[TableColumns], problems: Sequence[Problem] = ()) -> Rows:
    """Return the rows of all files; without blocks where no column names the query.

    Raises:
        DataError: everything that is wrong with the files.
    """
    problems = [*problems, *(problem for part in parts for problem in part.problems)]
    DataError.refuse(limited(problems, noun="problem"))
    starts = np.cumsum([0, *(part.n_rows for part in parts)])

    def place(row: int) -> str:
        file = int(np.searchsorted(starts, row, side="right")) - 1
        return parts[file].table.place(row - int(starts[file]))

    features, categories = _joined_features(parts)
    ids = _joined_column(parts, "query_ids")
    block_starts, block_ids = starts[:0], starts[:0]
    if ids is not None:
        block_starts, block_ids = blocks_of(ids, starts[:-1].tolist())
    return Rows(
        features=features,
        feature_names=parts[0].feature_names,
        labels=np.concatenate([part.labels for part in parts]),
        block_starts=block_starts,
        block_ids=query_ids(block_ids),
        place=place,
        attributes={
            name: np.concatenate([part.attributes[name] for part in parts]) for name in parts[0].attributes
        },
        subtopics=_joined_column(parts, "subtopics"),
        categories=categories,
        file_starts=starts,
        **{name: _joined_column(parts, name) for name in _OPTIONAL},
    )


_OPTIONAL = ("weights", "positions", "document_ids", "retrieved")


def _joined_column(parts: Sequence[TableColumns], name: str) -> Any:
    """Return a column of all files, one below the other; None where they have none."""
    present = [values for part in parts if (values := getattr(part, name)) is not None]
    return np.concatenate(present) if present else None


def _joined_features(
    parts: Sequence[TableColumns],
) -> tuple[NDArray[np.float32], dict[str, tuple[str, ...]]]:
    """Return the features of all files, and the texts of each category, whose codes are those of all files together."""
    features = parts[0].features if len(parts) == 1 else np.concatenate([part.features for part in parts])
    categories = {}
    for name in parts[0].categories:
        column = parts[0].feature_names.index(name)
        texts = tuple(sorted({text for part in parts for text in part.categories[name]}))
        codes = [remap_codes(part.features[:, column], part.categories[name], texts) for part in parts]
        features[:, column] = np.concatenate(codes)
        categories[name] = texts
    return features, categories


def _time_texts(column: Any) -> Any | None:
    """Return dates and times as Arrow's text, null as "": only dates where all are midnights; None for other types."""
    if not (pa.types.is_date(column.type) or pa.types.is_timestamp(column.type)):
        return None
    if not getattr(column.type, "tz", None):
        days = column.cast(pa.date32())
        # the first and the last day that nanoseconds reach are no whole ones
        midnights = days.cast(column.type, safe=False)
        column = days if midnights.equals(column) else column
    try:
        return column.cast(pa.large_string()).fill_null("")
    except pa.ArrowInvalid:  # a zone that is none
        return None


def column_problem(place: str, name: str, values: Sequence[Any], n: int, expected: str) -> Problem:
    """Return one problem for all `n` bad cells of a column: the place of the first, and examples of their values."""
    first_example, *further_examples = dict.fromkeys(_describe_cell(value) for value in values)
    examples = [first_example, *(example.removeprefix("contains ") for example in further_examples[:2])]
    if len(further_examples) > 2:
        examples.append("…")
    rows = f" ({n:,} rows, this is the first)" if n > 1 else ""
    return Problem(place, f"column {name!r} {', '.join(examples)}{rows}", expected)


def _describe_cell(value: Any) -> str:
    """Return a cell in words: ``is empty``, ``contains 'x'``."""
    if value is None or value == "":
        return "is empty"
    if isinstance(value, str) and len(value) > _QUOTED:
        start = f"{value[:_QUOTED]}…"
        return f"contains {start!r} ({len(value):,} characters)"
    return f"contains {value!r}"
