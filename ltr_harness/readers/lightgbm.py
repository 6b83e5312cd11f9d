"""LightGBM's own layout: ``rank.train`` without query ids, and beside it ``rank.train.query`` with sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ltr_harness.dataset import RankingDataset
from ltr_harness.errors import DataError, Problem
from ltr_harness.readers.files import located, text_bytes
from ltr_harness.readers.reader import Reader
from ltr_harness.readers.rows import SHOWN, Rows, assembled, limited, query_ids
from ltr_harness.readers.svmlight import read_svmlight
from ltr_harness.readers.values import ValueOptions, beyond_notes, without_unjudged
from ltr_harness.wording import count_of

_SIZES = (".query", ".group")
_OTHERS = (".weight", ".position")


class LightGbm(Reader, ValueOptions):
    """Files as LightGBM's command line takes them: LibSVM, CSV or TSV rows, the label first, no query id.

    Beside each file stands ``<file>.query`` (or ``.group``) with the number of rows of each query, one per
    line; ``<file>.weight`` (one per row) and ``<file>.position`` (one per row) are used where they exist.
    A query's weight is the mean of its rows', as in LightGBM. Queries have no names in this layout and are
    numbered from 0. Columns of CSV and TSV rows are called by their number, counted from 0 after the label.
    """

    n_features: int | None = Field(
        default=None,
        ge=1,
        description="Number of features of LibSVM files. Default: what the largest index in a split asks for. Give "
        "it when the last features are 0 throughout the training files and so never occur there.",
    )
    first_index: Literal[0, 1] | None = Field(
        default=None,
        description="Index of the first feature of LibSVM files. Default: 0 for files that use an index 0, else 1.",
    )
    header: bool = Field(default=False, description="The first row of CSV and TSV files names the columns.")

    def inputs(self, files: Sequence[str], root: Path) -> tuple[Path, ...]:
        return tuple(
            path
            for main in located(files, root)
            for path in (main, *(_beside(main, suffix) for suffix in (*_SIZES, *_OTHERS)))
            if path.is_file()
        )

    def read(self, files: Sequence[str], root: Path) -> RankingDataset:
        paths = located(files, root)
        rows = self._rows(paths)
        companions = _Companions(paths, np.diff(rows.file_starts))
        sizes = companions.sizes
        rows = replace(
            rows,
            block_starts=np.cumsum(sizes) - sizes,
            block_ids=np.arange(len(sizes)),
            weights=companions.weights,
            positions=companions.positions,
            notes=(*rows.notes, *companions.notes),
        )
        return assembled(rows, ", ".join(files), regroup=False)

    def _rows(self, paths: Sequence[Path]) -> Rows:
        """The rows of the main files, without blocks."""
        from ltr_harness.readers.delimited import first_line

        # as LightGBM tells formats apart: a colon means LibSVM
        lines = {path: first_line(path) for path in paths}
        separators = {
            path: next((sep for sep in "\t," if sep in line and ":" not in line), None)
            for path, line in lines.items()
        }
        if len(set(separators.values())) > 1:
            raise DataError(
                [Problem(str(path), f"holds {_FORMATS[sep]} rows") for path, sep in separators.items()]
                + [Problem("", "the files of a split differ in format", "one format")]
            )
        separator = separators[paths[0]]
        if separator is not None:
            return _table_rows(paths, separator, self, header=self.header)
        return read_svmlight(
            paths, self, n_features=self.n_features, first_index=self.first_index, with_qid=False
        )


_FORMATS = {None: "LibSVM", ",": "comma-separated", "\t": "tab-separated"}


def _table_rows(paths: Sequence[Path], separator: str, options: ValueOptions, *, header: bool) -> Rows:
    from ltr_harness.readers.delimited import Delimited
    from ltr_harness.readers.table_part import ColumnRoles, TableColumns, joined

    parts: list[TableColumns] = []
    problems: list[Problem] = []
    names: tuple[str, ...] | None = None
    for path in paths:
        try:
            table = Delimited(path, separator, header=header)
            if not header:
                table.columns = ["label", *table.columns[:-1]]  # features count from 0 after the label
            label, *features = table.columns
            names = names or tuple(features)
            if tuple(features) != names:
                problems.append(
                    Problem(
                        str(path),
                        f"has the {count_of(len(features), 'feature')} {_named(features)}",
                        f"the {len(names)} of {paths[0]}: {_named(names)}",
                    )
                )
                continue
            parts.append(TableColumns(table, ColumnRoles(label, names), options))
        except DataError as problem:
            problems += problem.problems
    problems += [problem for part in parts for problem in part.problems]
    if problems:
        raise DataError(limited(problems, noun="problem"))
    rows = joined(parts, names or ())
    labels, judged, said = without_unjudged(rows.labels, options.unjudged)
    n_beyond = sum(part.n_beyond for part in parts)
    notes = (*options.grade_notes, *said, *beyond_notes(n_beyond, options.beyond_float32))
    return replace(rows, labels=labels, judged=judged, notes=notes)


def _named(features: Sequence[str]) -> str:
    return ", ".join(features[:5]) + (", …" if len(features) > 5 else "")


class _Companions:
    """Companion files: query sizes, and weights and positions where there are such files."""

    def __init__(self, paths: Sequence[Path], n_rows: NDArray[np.int64]) -> None:
        self._problems: list[Problem] = []
        self.notes: list[str] = []
        sizes = [self._sizes(path, int(n)) for path, n in zip(paths, n_rows, strict=True)]
        weights = self._per_row(paths, n_rows, ".weight")
        positions = self._per_row(paths, n_rows, ".position")
        self.weights = None if weights is None else self._weights(paths, weights)
        for path in paths:
            if _beside(path, ".init").is_file():
                self.notes.append(f"{_beside(path, '.init').name} is not used: models start from zero here")
        if self._problems:
            raise DataError(limited(self._problems, noun="problem"))
        self.sizes = np.concatenate(sizes)
        self.positions = None if positions is None else self._positions(positions)

    def _sizes(self, path: Path, n_rows: int) -> NDArray[np.int64]:
        present = [beside for suffix in _SIZES if (beside := _beside(path, suffix)).is_file()]
        if not present:
            self._problems.append(
                Problem(
                    str(path),
                    f"there is no {path.name}.query (or .group) beside it",
                    "the number of rows of each query, one per line",
                    "use `reader: letor` if rows carry qid:…, `reader: csv` if a column names the query",
                )
            )
            return np.empty(0, dtype=np.int64)
        if len(present) == 2:
            self.notes.append(f"{present[1].name} is not used: {present[0].name} gives the sizes")
        file = present[0]
        before = len(self._problems)
        values = self._numbers(file, "an integer >= 1, the number of rows of a query")
        wrong = [i for i, value in enumerate(values) if not (1 <= value < 2**53 and value == int(value))]
        self._report(
            file, wrong, "the size is {:g}", values, "an integer >= 1, the number of rows of a query"
        )
        if len(self._problems) == before and int(values.sum()) != n_rows:
            self._problems.append(
                Problem(
                    str(file),
                    f"the sizes of its {count_of(len(values), 'query')} add up to {int(values.sum()):,}",
                    f"{n_rows:,}, the number of rows of {path.name}",
                )
            )
        return values.astype(np.int64) if len(self._problems) == before else np.empty(0, dtype=np.int64)

    def _per_row(
        self, paths: Sequence[Path], n_rows: NDArray[np.int64], suffix: str
    ) -> list[list[str]] | None:
        present = [_beside(path, suffix) for path in paths if _beside(path, suffix).is_file()]
        if not present:
            return None
        if len(present) < len(paths):
            absent = [path.name for path in paths if _beside(path, suffix) not in present]
            self._problems.append(
                Problem(
                    str(present[0]), f"{', '.join(absent)} lack such a file", "one for every file or for none"
                )
            )
            return None
        columns = [_lines(file) for file in present]
        for file, path, column, n in zip(present, paths, columns, n_rows, strict=True):
            if len(column) != n:
                self._problems.append(
                    Problem(
                        str(file),
                        f"has {count_of(len(column), 'line')}",
                        f"{n:,}, one for each row of {path.name}",
                    )
                )
        return columns

    def _weights(self, paths: Sequence[Path], columns: list[list[str]]) -> NDArray[np.float64]:
        parts = []
        for path, column in zip(paths, columns, strict=True):
            file = _beside(path, ".weight")
            values = self._numbers(file, "a weight >= 0", column)
            wrong = np.flatnonzero(~(np.isfinite(values) & (values >= 0))).tolist()
            self._report(file, wrong, "the weight is {:g}", values, "a weight >= 0")
            parts.append(values)
        return np.concatenate(parts)

    def _positions(self, columns: list[list[str]]) -> NDArray[np.int32]:
        texts = [text for column in columns for text in column]
        numbers = query_ids(np.array(texts, dtype=np.str_))
        if numbers.dtype.kind == "i" and np.abs(numbers).max(initial=0) < 2**31:
            return numbers.astype(np.int32)
        # LightGBM takes any names, such as pos_1, and so do we: what counts is which rows share one.
        number_of = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        self.notes.append(
            f"positions are names ({texts[0]}, …), numbered from 0 in the order in which they come up"
        )
        return np.array([number_of[text] for text in texts], dtype=np.int32)

    def _numbers(self, file: Path, expected: str, lines: list[str] | None = None) -> NDArray[np.float64]:
        lines = _lines(file) if lines is None else lines
        values = np.ones(len(lines), dtype=np.float64)
        wrong = []
        for i, text in enumerate(lines):
            try:
                values[i] = float(
                    text.replace("_", "?").encode()
                )  # Python would take 1_000 and ٢ for numbers
            except ValueError:
                wrong.append(i)
        self._report(file, wrong, "holds {!r}", lines, expected)
        return values

    def _report(
        self,
        file: Path,
        wrong: Sequence[int],
        found: str,
        values: Sequence[Any] | NDArray[Any],
        expected: str,
    ) -> None:
        listed = [Problem(f"{file}:{i + 1}", found.format(values[i]), expected) for i in wrong[:SHOWN]]
        self._problems += limited(listed, len(wrong), "such line", f" in {file.name}")


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _lines(path: Path) -> list[str]:
    """The lines of a small file, without blanks at either end of a line or of the file."""
    text = text_bytes(path).tobytes().decode("utf-8-sig", "backslashreplace")
    return [line.strip() for line in text.rstrip().splitlines()]
