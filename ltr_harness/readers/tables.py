"""Tables with named columns to rows: which column is the query, the label, a feature."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PrivateAttr, model_validator

from ltr_harness.catalog import did_you_mean
from ltr_harness.dataset import RankingDataset
from ltr_harness.errors import DataError, Problem
from ltr_harness.readers.reader import FileReader
from ltr_harness.readers.rows import SHOWN, Rows, assembled, blocks_of, limited, query_ids

_FINITE = "a finite number in the range of float32, or nothing where the value is missing"


class Table(Protocol):
    """An opened file whose columns are known and whose rows can be read."""

    path: Path
    columns: list[str]
    schema: Any
    """The types of the columns, where they are stored one by one and so can be read one by one; else None."""

    def numeric_columns(self) -> set[str]:
        """Columns that could be features."""

    def read(self, numbers: Sequence[str], texts: Sequence[str]) -> Any:
        """The named columns, a `pyarrow.Table`."""

    def place(self, row: int) -> str:
        """Where a row stands, for messages."""


class TableReader(FileReader):
    """A reader of tables with one row per document of a query."""

    query: str = Field(default="query_id", description="Column that says which query a row belongs to.")
    label: str = Field(default="label", description="Column with the grade of the row, a number >= 0.")
    features: tuple[str, ...] | None = Field(
        default=None,
        description="Columns to use as features. Default: every numeric column that has no other role.",
    )
    weight: str | None = Field(
        default=None,
        description="Column with row weights; a query's weight is the mean of its rows' weights.",
    )
    position: str | None = Field(
        default=None, description="Column with the whole-number position at which the row was shown."
    )
    document_id: str | None = Field(default=None, description="Column that names the document.")
    attributes: tuple[str, ...] = Field(
        default=(),
        description="Columns that describe the query, equal in all its rows, to slice results by.",
    )

    @model_validator(mode="after")
    def _one_role_each(self) -> Self:
        roles = [*self._roles(), *(self.features or ())]
        twice = sorted({name for name in roles if roles.count(name) > 1})
        if twice:
            raise ValueError(
                f"{', '.join(map(repr, twice))} named more than once; expected one role for each column"
            )
        if self.features == ():
            raise ValueError("features is empty; expected at least one column, or leave it out for all")
        return self

    _labelled: bool = PrivateAttr(default=True)

    def without_labels(self) -> Self:
        """The same reader for rows that nobody has judged, to be scored: their labels read as 0."""
        reader = self.model_copy()
        reader._labelled = False
        return reader

    @abstractmethod
    def opened(self, path: Path) -> Table:
        """A file, ready to be read."""

    def read(self, files: Sequence[str], root: Path) -> RankingDataset:
        tables: list[Table] = []
        problems: list[Problem] = []
        for path in self.paths(files, root):
            try:
                tables.append(self.opened(path))
            except DataError as problem:
                problems += problem.problems
        if problems:
            raise DataError(problems)
        return self.assembled(tables, ", ".join(files))

    def assembled(self, tables: Sequence[Table], source: str) -> RankingDataset:
        """The rows of opened tables, one after the other."""
        problems: list[Problem] = []
        features, notes = self._feature_columns(tables)
        parts = []
        for table in tables:
            try:
                parts.append(
                    Part(
                        table,
                        label=self.label if self._labelled else None,
                        features=features,
                        query=self.query,
                        weight=self.weight,
                        position=self.position,
                        document_id=self.document_id,
                        attributes=self.attributes,
                    )
                )
            except DataError as problem:
                problems += problem.problems
        problems += [problem for part in parts for problem in part.problems]
        if problems:
            raise DataError(limited(problems, len(problems), "problems"))
        return assembled(_joined(parts, features, notes), source, regroup=self.regroup)

    def _roles(self) -> list[str]:
        optional = [name for name in (self.weight, self.position, self.document_id) if name is not None]
        labels = [self.label] if self._labelled else []
        return [self.query, *labels, *optional, *self.attributes]

    def _feature_columns(self, tables: Sequence[Table]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The feature columns, the same for all files, and a note on columns that are none."""
        roles = self._roles()
        notes: tuple[str, ...] = ()
        problems = []
        features = self.features
        if features is None:
            first = tables[0]
            numeric = first.numeric_columns()
            rest = [name for name in first.columns if name not in roles]
            features = tuple(name for name in rest if name in numeric)
            if left_out := [name for name in rest if name not in numeric]:
                notes = (
                    f"columns of {first.path.name} that are no numbers are no features: {', '.join(left_out)}",
                )
        for table in tables:
            problems += [
                Problem(
                    str(table.path),
                    f"has no column {name!r}",
                    cure=did_you_mean(name, table.columns)
                    + ("" if len(table.columns) > 1 else "; is the separator right?"),
                )
                for name in (*roles, *features)
                if name not in table.columns
            ]
        if problems:
            raise DataError(limited(problems, len(problems), "missing columns"))
        if not features:
            raise DataError(
                Problem(str(tables[0].path), "no column is left that could be a feature", "a numeric column")
            )
        return features, notes


class Part:
    """The checked columns of one file; what is wrong with their values is gathered in `problems`."""

    def __init__(
        self,
        table: Table,
        *,
        label: str | None,
        features: Sequence[str],
        query: str | None = None,
        weight: str | None = None,
        position: str | None = None,
        document_id: str | None = None,
        attributes: Sequence[str] = (),
    ) -> None:
        self.table = table
        self.problems: list[Problem] = []
        numbers = [name for name in (label, weight, position) if name]
        texts = [*(name for name in (query, document_id) if name), *attributes]
        if table.schema is None:
            numbers = [*features, *numbers]
        else:
            refuse_types(table.path, table.schema, [*features, *numbers])
        columns = table.read(numbers, texts)
        self.n_rows = columns.num_rows

        self.query_ids = self._texts(columns, query, "a query id") if query else None
        self.labels = (
            self._grades(columns, label, "a label >= 0, such as 0, 1, 2") if label else np.zeros(self.n_rows)
        )
        self.features = np.empty((self.n_rows, len(features)), dtype=np.float32)
        for j, name in enumerate(features):
            # One by one where that costs nothing: the table and the matrix need not be in memory together.
            values = columns if table.schema is None else table.read([name], [])
            with np.errstate(over="ignore", under="ignore"):
                self.features[:, j] = _numbers(values[name])
            infinite = np.isinf(self.features[:, j])
            self._report(infinite, name, values, _FINITE)
        self.weights = self._grades(columns, weight, "a weight >= 0") if weight else None
        self.positions = self._positions(columns, position) if position else None
        self.document_ids = self._texts(columns, document_id, "a document id") if document_id else None
        self.attributes = {name: _values(columns[name]) for name in attributes}

    def _texts(self, columns: Any, name: str, expected: str) -> NDArray[np.str_]:
        column = columns[name]
        values = _text(column)
        if values is None:
            self.problems.append(
                Problem(
                    str(self.table.path),
                    f"column {name!r} has the type {column.type}",
                    f"{expected}: whole numbers or text",
                    "ids became fractions? write them as integers or text"
                    if "double" in str(column.type)
                    else "",
                )
            )
            return np.empty(self.n_rows, dtype=np.str_)
        self._report((values == "") | _with_nul(column), name, columns, expected)
        return values

    def _grades(self, columns: Any, name: str, expected: str) -> NDArray[np.float64]:
        values = _numbers(columns[name])
        self._report(~(np.isfinite(values) & (values >= 0)), name, columns, expected)
        return values

    def _positions(self, columns: Any, name: str) -> NDArray[np.int32]:
        values = _numbers(columns[name])
        good = (values >= 0) & (values < 2**31) & (values == np.floor(values))
        self._report(~good, name, columns, "a whole number >= 0")
        return np.where(good, values, 0).astype(np.int32)

    def _report(self, bad: NDArray[np.bool_], name: str, columns: Any, expected: str) -> None:
        rows = np.flatnonzero(bad)
        listed = [
            Problem(
                self.table.place(int(row)),
                f"column {name!r} holds {_shown(columns[name][int(row)])}",
                expected,
            )
            for row in rows[:SHOWN]
        ]
        self.problems += limited(listed, len(rows), f"such rows in column {name!r}")


def is_numeric(kind: Any) -> bool:
    """Whether an Arrow type is one of numbers or truth values."""
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_decimal(kind)
        or types.is_null(kind)
    )


def refuse_types(path: Path, schema: Any, numbers: Sequence[str]) -> None:
    """Raise if columns that should hold numbers are of another type.

    Raises:
        DataError: every such column.
    """
    problems = [
        Problem(str(path), f"column {name!r} has the type {schema.field(name).type}", "numbers")
        for name in numbers
        if not is_numeric(schema.field(name).type)
    ]
    if problems:
        raise DataError(problems)


def place_in(parts: Sequence[Part]) -> Callable[[int], str]:
    """Where a row of the joined parts stands."""
    starts = np.cumsum([0, *(part.n_rows for part in parts)])

    def place(row: int) -> str:
        file = int(np.searchsorted(starts, row, side="right")) - 1
        return parts[file].table.place(row - int(starts[file]))

    return place


def _joined(parts: Sequence[Part], features: tuple[str, ...], notes: tuple[str, ...]) -> Rows:
    starts = np.cumsum([0, *(part.n_rows for part in parts)])

    def joined(columns: Sequence[NDArray[Any] | None]) -> Any:
        present = [column for column in columns if column is not None]
        return np.concatenate(present) if present else None

    block_starts, block_ids = blocks_of(joined([part.query_ids for part in parts]), starts[:-1].tolist())
    return Rows(
        parts[0].features if len(parts) == 1 else joined([part.features for part in parts]),
        joined([part.labels for part in parts]),
        block_starts,
        query_ids(block_ids),
        place_in(parts),
        features,
        joined([part.weights for part in parts]),
        joined([part.positions for part in parts]),
        joined([part.document_ids for part in parts]),
        {name: joined([part.attributes[name] for part in parts]) for name in parts[0].attributes},
        notes=notes,
    )


def _numbers(column: Any) -> NDArray[np.float64]:
    """A numeric or boolean Arrow column as float64, null as NaN."""
    from pyarrow import float64, types, uint8

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_boolean(column.type):
        column = column.cast(uint8())
    values: NDArray[np.float64] = column.cast(float64(), safe=False).to_numpy()
    return values


def _text(column: Any) -> NDArray[np.str_] | None:
    """A column of text or whole numbers as text, null as ""; None for another type."""
    from pyarrow import string, types

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if not (
        types.is_integer(kind) or types.is_string(kind) or types.is_large_string(kind) or "view" in str(kind)
    ):
        return None
    return np.asarray(column.cast(string()).fill_null("").to_numpy(), dtype=np.str_)


def _with_nul(column: Any) -> NDArray[np.bool_]:
    """Texts with a NUL byte: NumPy loses those at the end, which would make two ids one."""
    from pyarrow import string
    from pyarrow.compute import match_substring

    found: NDArray[np.bool_] = match_substring(column.cast(string()).fill_null(""), "\0").to_numpy()
    return found


def _values(column: Any) -> NDArray[Any]:
    """An attribute: numbers and truth values as they are, everything else as text."""
    from pyarrow import string, types

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_floating(column.type) or (types.is_integer(column.type) and column.null_count):
        return _numbers(column)
    if types.is_integer(column.type) or (types.is_boolean(column.type) and not column.null_count):
        return np.asarray(column.to_numpy())
    # In text files everything is text: numbers become numbers as query ids do.
    return query_ids(np.asarray(column.cast(string()).fill_null("").to_numpy(), dtype=np.str_))


def _shown(cell: Any) -> str:
    value = cell.as_py()
    return "nothing" if value is None or value == "" else repr(value)
