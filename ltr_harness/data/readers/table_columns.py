"""Checked columns of one table file, with every bad value named by its row."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ltr_harness._util.text import count_of
from ltr_harness.data.columns import (
    Columns,
    coded,
    decoded,
    is_category,
    is_numeric,
    is_text,
    truths_of,
    values_of,
    values_shown,
)
from ltr_harness.data.queries import LONGEST_ID
from ltr_harness.data.readers.column_names import is_index, may_count_rows
from ltr_harness.data.readers.reader import ValueOptions
from ltr_harness.data.readers.rows import Rows, blocks_of, limited, query_ids, recoded, within_float32
from ltr_harness.data.readers.text_files import Bound
from ltr_harness.data.readers.words import NotNumeric, feature_cure, label_cure
from ltr_harness.data.times import NO_MOMENT, timestamps
from ltr_harness.errors import DataError, Problem

_FINITE = "a finite number in the range of float32, or nothing where the value is missing"


_A_DAY = 86_400 * 10**9  # nanoseconds
_FLAG = "0 or 1 (or false and true): whether the document was a candidate"
_FLAGS = {"0": 0.0, "1": 1.0, "0.0": 0.0, "1.0": 1.0, "false": 0.0, "true": 1.0}
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
        """Columns that could be features."""
        return {field.name for field in self.schema if is_numeric(field.type)}

    def category_columns(self) -> set[str]:
        """Columns whose type says that they are categories: none in text files."""
        return {field.name for field in self.schema or () if is_category(field.type)}

    def first_texts(self, names: Sequence[str]) -> dict[str, list[str]]:
        """The cells of those of these columns that are text, in the first rows; empty where nothing is."""
        kinds = {name: self.schema.field(name).type for name in names}
        texts = [name for name, kind in kinds.items() if is_text(kind)]
        if not texts:
            return {}
        first = self.first_rows(texts, FIRST_ROWS)
        return {name: first[name].cast(pa.string()).fill_null("").to_pylist() for name in texts}

    def first_rows(self, names: Sequence[str], n_rows: int) -> Any:
        """The first rows of some columns, as an Arrow table."""
        return self.read([], names).table.slice(0, n_rows)

    def index_columns(self) -> set[str]:
        """Columns with the index of a frame of pandas, which says where a row stood and nothing about it."""
        counts = [name for name in self.numeric_columns() if may_count_rows(name) and self._counts_rows(name)]
        return {name for name in self.columns if is_index(name)} | {*counts}

    def _counts_rows(self, name: str) -> bool:
        """Whether a column has whole numbers, each once."""
        try:
            values = self.read([name], []).numbers(name)
        except DataError:  # which is said with the rest of the file
            return False
        return bool((values == np.floor(values)).all() and np.unique(values).size == values.size)

    def missing_header(self) -> Problem | None:
        """That the first row looks like values, not names; None where it does not."""
        return None

    def decimal_commas(self, columns: Sequence[str]) -> list[Problem]:
        """The first cell of each column that holds numbers with a decimal comma."""
        return []

    @abstractmethod
    def read(self, numbers: Sequence[str], texts: Sequence[str]) -> Columns:
        """The named columns."""

    def read_of(self, rows: NDArray[np.bool_], numbers: Sequence[str], texts: Sequence[str]) -> Columns:
        """The named columns, whose numbers matter in the given rows (n_rows,) alone."""
        return self.read(numbers, texts)

    def place(self, row: int) -> str:
        """Where a row stands, for messages: the file, and the row counted from 1."""
        return f"{self.path}: row {row + 1}"


def type_problems(path: Path, schema: Any, numbers: Sequence[str]) -> list[Problem]:
    """The columns that should hold numbers and are neither of numbers nor of text, at which `text_problems` looks."""
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
    """The columns of an Arrow table that should hold numbers and hold text other than true and false."""
    problems: list[Problem] = []
    for name in numbers:
        column = table[name]
        if is_numeric(column.type) or truths_of(decoded(column)) is not None:
            continue
        found, texts = f"column {name!r} has the type {column.type}", decoded(column).drop_null()
        first, n = str(texts[0]) if len(texts) else "", len(texts)
        problem = NotNumeric(str(path), found, "numbers", column=name, text=first, n_texts=n, n_cells=n)
        problems.append(problem)
    return problems


def unfit_ids(texts: Any) -> NDArray[np.bool_]:
    """Which texts cannot be ids in NumPy: empty ones, very long ones, and those with a NUL byte."""
    from pyarrow.compute import binary_length, match_substring

    length = binary_length(texts).to_numpy()
    unfit: NDArray[np.bool_] = (length == 0) | (length > LONGEST_ID) | match_substring(texts, "\0").to_numpy()
    return unfit


class TableColumns:
    """The checked columns of one file; what is wrong with their values is gathered in `problems`."""

    def __init__(
        self,
        table: OpenedTable,
        features: Sequence[str],
        roles: Mapping[str, str | None],  # the values of `Rows` to their columns
        options: ValueOptions,
        categorical: Collection[str] = (),  # those of the features whose values are texts
        attributes: Sequence[str] = (),
        subtopics: Sequence[str] = (),
        query: Sequence[str] = (),  # columns whose values together are the query's id
    ) -> None:
        self.table = table
        self._options = options
        self.n_beyond = 0
        self.problems: list[Problem] = []
        names = ("labels", "weights", "positions", "document_ids", "retrieved", "days")
        label, weight, position, document, retrieved, time = map(roles.get, names)
        mapped = label if options.grades else None
        numbers = [*(name for name in (label, weight, position) if name and name != mapped), *subtopics]
        texts = [*query, *(name for name in (document, mapped, retrieved) if name), *attributes]
        quantities = [name for name in features if name not in categorical]
        try:
            if table.schema is not None:
                self._refuse_types([*quantities, *numbers])
            elif retrieved is None:
                numbers, texts = [*quantities, *numbers], [*texts, *categorical]
            # the column of times may have another role as well, where it is read as that role needs it
            if time and time not in (*numbers, *texts):
                texts.append(time)
            columns = of_features = table.read(numbers, texts)
            times = table.read([], [time]) if time in numbers else columns
            self.n_rows = len(columns)
            self.retrieved = None if retrieved is None else self._flags(columns, retrieved)
            if table.schema is None and self.retrieved is not None:
                of_features = table.read_of(self.retrieved, quantities, list(categorical))
        except DataError as error:
            problems = error.problems
            of_words = {one.column for one in problems if isinstance(one, NotNumeric) and one.is_word}
            kinds = [*categorical, *(name for name in quantities if name in of_words)]
            raise DataError(self._cured(one, label, quantities, kinds) for one in problems) from None
        rows = slice(None) if self.retrieved is None else self.retrieved

        self.query_ids = self._query_ids(columns, query) if query else None
        self.values: dict[str, NDArray[Any]] = {
            "labels": self._labels(columns, label) if label else np.zeros(self.n_rows)
        }
        if self.retrieved is not None:
            self.values["retrieved"] = self.retrieved
        n_candidates = self.n_rows if self.retrieved is None else int(self.retrieved.sum())
        self.feature_names = tuple(features)
        self.features = np.empty((n_candidates, len(features)), dtype=np.float32)
        self.categories: dict[str, tuple[str, ...]] = {}
        for j, name in enumerate(features):
            if name in categorical:
                values = of_features if table.schema is None else table.read([], [name])
                self.features[:, j] = self._codes(values, name)
                continue
            # One by one where that costs nothing: the table and the matrix need not be in memory together.
            values = of_features if table.schema is None else table.read([name], [])
            with np.errstate(over="ignore", under="ignore"):
                self.features[:, j] = values.numbers(name)[rows]
            if options.beyond_float32 == "error":
                beyond = np.zeros(self.n_rows, dtype=bool)
                beyond[rows] = np.isinf(self.features[:, j])
                self._report(beyond, name, values, _FINITE)
            else:
                self.n_beyond += within_float32(self.features[:, j], options.beyond_float32)
        if weight:
            self.values["weights"] = self._grades(columns, weight, "a weight >= 0", missed=False)
        if time:
            self.values["days"] = self._days(times, time)
        if position:
            self.values["positions"] = self._positions(columns, position)
        if document:
            self.values["document_ids"] = self._texts(columns, document, "a document id")
        self.attributes = {name: self._attribute(columns, name) for name in attributes}
        graded = [self._grades(columns, name, "a grade >= 0 for the subtopic") for name in subtopics]
        self.subtopics = np.column_stack(graded) if graded else None

    def _refuse_types(self, numbers: Sequence[str]) -> None:
        """Raise if columns that should hold numbers hold something else, all of them together."""
        table = self.table
        problems = type_problems(table.path, table.schema, numbers)
        of_text = [
            name for name in numbers if is_category(kind := table.schema.field(name).type) or is_text(kind)
        ]
        if of_text:
            try:
                table.read(of_text, [])
            except DataError as error:
                problems += error.problems
        DataError.refuse(problems)

    def _cured(
        self, problem: Problem, label: str | None, quantities: Sequence[str], categorical: Sequence[str]
    ) -> Problem:
        """The problem, with the line to write where a column of numbers holds text, by the column's role."""
        if not isinstance(problem, NotNumeric) or problem.cure:
            return problem
        if problem.column == label:
            words = self.table.read([], [label])[label].unique().drop_null().to_pylist()
            return replace(problem, cure=label_cure(problem, [word for word in words if word]))
        if problem.column in quantities and hasattr(self._options, "categorical"):
            return replace(problem, cure=feature_cure(problem, categorical))
        return problem

    def _labels(self, columns: Columns, name: str) -> NDArray[np.float64]:
        if self._options.grades is None:
            return self._grades(columns, name, "a finite label, such as 0, 1, 2", lowest=-np.inf)
        labels = self._looked_up(columns, name, self._options.graded, "labels")
        self._report(np.isnan(labels), name, columns, self._options.mapped_labels)
        return labels

    def _flags(self, columns: Columns, name: str) -> NDArray[np.bool_]:
        def flags(values: Iterable[Any]) -> NDArray[np.float64]:
            return np.array([_FLAGS.get(str(value).strip().lower(), np.nan) for value in values])

        values = self._looked_up(columns, name, flags, _FLAG)
        self._report(np.isnan(values), name, columns, _FLAG)
        return np.asarray(values == 1)

    def _looked_up(
        self,
        columns: Columns,
        name: str,
        table: Callable[[Iterable[Any]], NDArray[np.float64]],
        expected: str,
    ) -> NDArray[np.float64]:
        """What a table has for each text or number of a column (n_rows,); NaN for nothing."""
        column = columns[name]
        if (coding := coded(column)) is not None:
            codes, texts = coding
            known = np.append(table(texts), np.nan)
            return np.asarray(known[np.where(np.isnan(codes), -1, codes).astype(np.int64)])
        if is_numeric(column.type):
            distinct, which = np.unique(columns.numbers(name) + 0.0, return_inverse=True)  # -0 becomes 0
            return table(distinct.tolist())[which]
        self._refuse(f"column {name!r} has the type {column.type}", expected)
        return np.zeros(self.n_rows)

    def _codes(self, columns: Columns, name: str) -> NDArray[np.float32]:
        column = columns[name]
        coding = coded(column if self.retrieved is None else column.filter(self.retrieved))
        if coding is not None and len(coding[1]) <= MOST_CATEGORIES:
            self.categories[name] = coding[1]
            return coding[0]
        has = f"the type {column.type}" if coding is None else count_of(len(coding[1]), "distinct value")
        found, cure = f"the categorical column {name!r} has {has}", "name the columns to use with `features:`"
        self._refuse(found, f"at most {MOST_CATEGORIES:,} texts or integers", cure)
        return np.full(len(self.features), np.nan, dtype=np.float32)

    def _query_ids(self, columns: Columns, names: Sequence[str]) -> NDArray[np.str_]:
        first, *others = (self._texts(columns, name, _QUERY_ID) for name in names)
        # else two queries could be called alike
        for name, ids in zip(names[:-1], (first, *others), strict=False):
            joins = np.char.find(ids, "/") >= 0
            self._report(joins, name, columns, "no '/', which joins the columns of `query`")
        for ids in others:
            first = np.char.add(np.char.add(first, "/"), ids)
        return first

    def _texts(self, columns: Columns, name: str, expected: str) -> NDArray[np.str_]:
        column = columns[name]
        values = columns.texts(name)
        if values is None and expected == _QUERY_ID:
            values = _time_texts(column)
        if values is None:
            is_double = "double" in str(column.type)
            cure = "are the ids stored as floats? write them as integers or text" if is_double else ""
            self._refuse(f"column {name!r} has the type {column.type}", f"{expected}: integers or text", cure)
            return np.empty(self.n_rows, dtype=np.str_)
        return self._as_numpy(values, unfit_ids(values), name, columns, expected)

    def _attribute(self, columns: Columns, name: str) -> NDArray[Any]:
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
        self, texts: Any, unfit: NDArray[np.bool_], name: str, columns: Columns, expected: str
    ) -> NDArray[np.str_]:
        """Arrow's text as NumPy's, all as wide as the longest; "" throughout where some are reported."""
        import pyarrow.compute as pc

        if unfit.any():
            self._report(unfit, name, columns, f"{expected} of at most {LONGEST_ID:,} bytes")
            return np.empty(self.n_rows, dtype=np.str_)
        longest = pc.max(pc.utf8_length(texts)).as_py() or 1
        found = f"column {name!r} has a text of {longest:,} characters, so that its {self.n_rows:,} rows take"
        Bound.of_file(self.table.size).refuse(str(self.table.path), found, 4 * longest * self.n_rows)
        return np.asarray(texts.to_numpy(zero_copy_only=False), dtype=np.str_)

    def _grades(
        self, columns: Columns, name: str, expected: str, lowest: float = 0.0, missed: bool = True
    ) -> NDArray[np.float64]:
        values = columns.numbers(name)
        good = np.isfinite(values) & (values >= lowest)
        if not missed:
            good |= self._dispensable(values)
        self._report(~good, name, columns, expected)
        return values

    def _positions(self, columns: Columns, name: str) -> NDArray[np.int32]:
        values = columns.numbers(name)
        good = (values >= 0) & (values < 2**31) & (values == np.floor(values))
        self._report(~(good | self._dispensable(values)), name, columns, "an integer >= 0")
        return np.where(good, values, 0).astype(np.int32)

    def _days(self, columns: Columns, name: str) -> NDArray[np.float64]:
        """When each row was, in days since 1970."""
        try:
            moments = timestamps(columns[name], name, "UTC", self.table.place)
        except DataError as error:
            self.problems += error.problems
            return np.zeros(self.n_rows)
        days = np.where(moments == NO_MOMENT, np.nan, moments / _A_DAY)
        self._report(np.isnan(days) & ~self._dispensable(days), name, columns, "a time in every row")
        return days

    def _dispensable(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Missed documents without a value (n_rows,)."""
        return np.isnan(values) & (False if self.retrieved is None else ~self.retrieved)

    def _refuse(self, found: str, expected: str, cure: str = "") -> None:
        self.problems.append(Problem(str(self.table.path), found, expected, cure))

    def _report(self, bad: NDArray[np.bool_], name: str, columns: Columns, expected: str) -> None:
        rows = np.flatnonzero(bad)
        if not rows.size:
            return
        values = values_shown(columns[name].take(rows[:_LOOKED_AT]))
        place = self.table.place(int(rows[0]))
        self.problems.append(column_problem(place, name, values, rows.size, expected))


def joined(parts: Sequence[TableColumns], problems: Sequence[Problem] = ()) -> Rows:
    """The rows of all files; without blocks where no column names the query. Raises DataError: what is wrong."""
    problems = [*problems, *(problem for part in parts for problem in part.problems)]
    DataError.refuse(limited(problems, noun="problem"))
    starts = np.cumsum([0, *(part.n_rows for part in parts)])

    def place(row: int) -> str:
        file = int(np.searchsorted(starts, row, side="right")) - 1
        return parts[file].table.place(row - int(starts[file]))

    def column(name: str) -> Any:
        present = [values for part in parts if (values := getattr(part, name)) is not None]
        return np.concatenate(present) if present else None

    matrix = parts[0].features if len(parts) == 1 else column("features")
    categories = {}
    for name in parts[0].categories:
        at = parts[0].feature_names.index(name)
        texts = categories[name] = tuple(sorted({text for part in parts for text in part.categories[name]}))
        codes = [recoded(part.features[:, at], part.categories[name], texts) for part in parts]
        matrix[:, at] = np.concatenate(codes)
    ids = column("query_ids")
    block_starts, block_ids = (
        (starts[:0], starts[:0]) if ids is None else blocks_of(ids, starts[:-1].tolist())
    )
    return Rows(
        matrix,
        parts[0].feature_names,
        {name: np.concatenate([part.values[name] for part in parts]) for name in parts[0].values},
        block_starts,
        query_ids(block_ids),
        place,
        {name: np.concatenate([part.attributes[name] for part in parts]) for name in parts[0].attributes},
        column("subtopics"),
        categories,
        file_starts=starts,
    )


def _time_texts(column: Any) -> Any | None:
    """Dates and times as Arrow's text, null as "": dates alone where every time is midnight; None for another type."""
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
    """One problem for all `n` bad cells of a column: the place of the first, and examples of their values."""
    first, *others = dict.fromkeys(_found_in(value) for value in values)
    examples = [first, *(each.removeprefix("contains ") for each in others[:2]), *["…"][: len(others) > 2]]
    rows = f" ({n:,} rows, this is the first)" if n > 1 else ""
    return Problem(place, f"column {name!r} {', '.join(examples)}{rows}", expected)


def _found_in(value: Any) -> str:
    """What a message says of a cell: ``is empty``, ``contains 'x'``."""
    if value is None or value == "":
        return "is empty"
    if isinstance(value, str) and len(value) > _QUOTED:
        return f"contains {value[:_QUOTED] + '…'!r} ({len(value):,} characters)"
    return f"contains {value!r}"
