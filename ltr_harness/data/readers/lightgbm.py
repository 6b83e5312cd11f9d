"""LightGBM's own layout: ``rank.train`` without query ids, and beside it ``rank.train.query`` with sizes."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ltr_harness._util.text import count_of, shortened
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.readers.letor import IndexOptions, read_svmlight
from ltr_harness.data.readers.reader import Reader
from ltr_harness.data.readers.rows import OfRow, Rows, assembled, bad_rows, limited, query_ids
from ltr_harness.data.readers.text_files import located, text_bytes
from ltr_harness.errors import Caution, DataError, Problem

_SIZES = (".query", ".group")
_OTHERS = (".weight", ".position")


class LightGbm(Reader, IndexOptions):
    """Files as LightGBM's command line takes them: LibSVM, CSV or TSV rows, the label first, no query id.

    Beside each file stands ``<file>.query`` (or ``.group``) with the number of rows of each query, one per
    line; ``<file>.weight`` (one per row, or one per query as XGBoost has them) and ``<file>.position`` (one per
    row) are used where they exist. A query's weight is the mean of its rows', as in LightGBM. Queries have no names
    in this layout and are numbered from 0. Columns of CSV and TSV rows are called by their number, counted from 0
    after the label.
    """

    header: bool = Field(default=False, description="The first row of CSV and TSV files names the columns.")

    def inputs(self, files: Sequence[str], root: Path) -> tuple[Path, ...]:
        return tuple(
            path
            for main in located(files, root, alone=False)
            for path in (main, *(_companion_path(main, suffix) for suffix in (*_SIZES, *_OTHERS)))
            if path.is_file()
        )

    def read(self, files: Sequence[str], root: Path) -> RankingDataset:
        paths = located(files, root, alone=False)
        separators = {path: _separator(path) for path in paths}
        if len(set(separators.values())) > 1:
            raise DataError(
                [Problem(str(path), f"holds {_FORMATS[sep]} rows") for path, sep in separators.items()]
                + [Problem("", "the files of a split differ in format", "one format")]
            )
        if separator := separators[paths[0]]:
            rows = self._table_rows(paths, separator)
        else:
            rows = read_svmlight(paths, self, with_qid=False)
        companions = _Companions(paths, np.diff(rows.file_starts))
        sizes = companions.sizes
        rows = replace(
            rows.with_cautions(*companions.cautions),
            weights=rows.weights if companions.weights is None else companions.weights,
            positions=companions.positions,
            block_starts=np.cumsum(sizes) - sizes,
            block_ids=np.arange(len(sizes)),
        )
        return assembled(rows, ", ".join(files), regroup=False)

    def _table_rows(self, paths: Sequence[Path], separator: str) -> Rows:
        from ltr_harness.data.readers.csv import Delimited
        from ltr_harness.data.readers.table_columns import Roles, TableColumns, joined

        parts: list[TableColumns] = []
        problems: list[Problem] = []
        names: tuple[str, ...] | None = None
        for path in paths:
            try:
                table = Delimited(path, separator, header=self.header)
                if not self.header:
                    table.columns = ["label", *table.columns[:-1]]  # features count from 0 after the label
                label, *features = table.columns
                names = names or tuple(features)
                if tuple(features) != names:
                    found = f"has the {count_of(len(features), 'feature')} {shortened(features, 5)}"
                    expected = f"the {len(names)} of {paths[0]}: {shortened(names, 5)}"
                    raise DataError.at(path, found, expected)
                parts.append(TableColumns(table, Roles(features=names, label=label), self))
            except DataError as problem:
                problems += problem.problems
        rows = joined(parts, problems)
        return rows.labelled(self, sum(part.n_beyond for part in parts))


def _separator(path: Path) -> str | None:
    """Return the separator of a file's cells; None in LibSVM rows, which LightGBM recognises by a colon."""
    lines = bytes(text_bytes(path)[: 1 << 20]).splitlines()
    first = next((line.decode("utf-8", "backslashreplace") for line in lines if line.strip()), "")
    return next((separator for separator in "\t," if separator in first and ":" not in first), None)


_FORMATS = {None: "LibSVM", ",": "comma-separated", "\t": "tab-separated"}


class _Companions:
    """Companion files: query sizes, and weights and positions where there are such files."""

    def __init__(self, paths: Sequence[Path], n_rows: NDArray[np.int64]) -> None:
        self._problems: list[Problem] = []
        self.cautions: list[Caution] = []
        sizes = [self._sizes(path, int(n)) for path, n in zip(paths, n_rows, strict=True)]
        weights, positions = (self._per_row(paths, n_rows, suffix, sizes) for suffix in _OTHERS)
        parts = [
            self._weights(_companion_path(path, ".weight"), lines, of_file)
            for (path, lines), of_file in zip(weights.items(), sizes, strict=False)
        ]
        for path in paths:
            if _companion_path(path, ".init").is_file():
                self._note(
                    "unused-file",
                    f"{_companion_path(path, '.init').name} is not used: models start from zero here",
                )
        DataError.refuse(limited(self._problems, noun="problem"))
        self.sizes = np.concatenate(sizes)
        self.weights = np.concatenate(parts) if parts else None
        self.positions = self._positions([*chain(*positions.values())]) if positions else None

    def _note(self, kind: str, text: str) -> None:
        self.cautions.append(Caution(kind, "note", text))

    def _refuse(self, place: Path, found: str, expected: str, cure: str = "") -> None:
        self._problems.append(Problem(str(place), found, expected, cure))

    def _sizes(self, path: Path, n_rows: int) -> NDArray[np.int64]:
        expected, before = "an integer >= 1, the number of rows of a query", len(self._problems)
        companions = [
            companion for suffix in _SIZES if (companion := _companion_path(path, suffix)).is_file()
        ]
        if not companions:
            found = f"there is no {path.name}.query (or .group) beside it"
            cure = "use `reader: letor` if rows carry qid:…, `reader: csv` if a column names the query"
            self._refuse(path, found, "the number of rows of each query, one per line", cure)
            return np.empty(0, dtype=np.int64)
        if len(companions) == 2:
            self._note(
                "unused-file", f"{companions[1].name} is not used: {companions[0].name} gives the sizes"
            )
        file = companions[0]
        values = self._numbers(file, _lines(file), expected)
        is_size = (values >= 1) & (values < 2**53) & (values == np.floor(values))
        self._report(file, ~is_size, lambda i: f"the size is {values[i]:g}", expected)
        if len(self._problems) == before and int(values.sum()) != n_rows:
            total = f"the sizes of its {count_of(len(values), 'query')} add up to {int(values.sum()):,}"
            self._refuse(file, total, f"{n_rows:,}, the number of rows of {path.name}")
        return values.astype(np.int64) if len(self._problems) == before else np.empty(0, dtype=np.int64)

    def _per_row(
        self,
        paths: Sequence[Path],
        n_rows: NDArray[np.int64],
        suffix: str,
        sizes: Sequence[NDArray[np.int64]],  # (n_queries,) of each file; empty where they are refused
    ) -> dict[Path, list[str]]:
        """Return the lines of each file's companion, weights by row or by query; empty where there are none."""
        present = [path for path in paths if _companion_path(path, suffix).is_file()]
        absent = [path.name for path in paths if path not in present]
        if absent:
            if present:
                found = f"{', '.join(absent)} lack such a file"
                self._refuse(_companion_path(present[0], suffix), found, "one for every file or for none")
            return {}
        columns = {path: _lines(_companion_path(path, suffix)) for path in present}
        for path, n, of_file in zip(paths, n_rows, sizes, strict=True):
            column = columns[path]
            of_queries = suffix == ".weight" and len(column) == len(of_file)
            if len(column) != n and not of_queries:
                expected = f"{n:,}, one for each row of {path.name}"
                if suffix == ".weight":
                    expected += f", or {len(of_file):,}, one for each query"
                self._refuse(_companion_path(path, suffix), f"has {count_of(len(column), 'line')}", expected)
        return columns

    def _weights(self, file: Path, lines: list[str], sizes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the weight of each row; a query's weight is that of all its rows."""
        values = self._numbers(file, lines, "a weight >= 0")
        bad = ~(np.isfinite(values) & (values >= 0))
        self._report(file, bad, lambda i: f"the weight is {values[i]:g}", "a weight >= 0")
        if len(values) != len(sizes) or len(values) == sizes.sum():
            return values
        text = f"{file.name} has a weight for each query, as XGBoost reads it; all rows of a query have it"
        self._note("query-weights", text)
        return np.repeat(values, sizes)

    def _positions(self, texts: list[str]) -> NDArray[np.int32]:
        numbers = query_ids(np.array(texts, dtype=np.str_))
        if numbers.dtype.kind == "i" and np.abs(numbers).max(initial=0) < 2**31:
            return numbers.astype(np.int32)
        # LightGBM takes any names, such as pos_1, and so do we: what counts is which rows share one.
        number_of = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        numbering = "numbered from 0 in the order in which they come up"
        self._note("named-positions", f"positions are names ({texts[0]}, …), {numbering}")
        return np.array([number_of[text] for text in texts], dtype=np.int32)

    def _numbers(self, file: Path, lines: list[str], expected: str) -> NDArray[np.float64]:
        """Return the numbers of the lines, 1 where one is none, which is reported."""
        values = np.ones(len(lines), dtype=np.float64)
        bad = np.zeros(len(lines), dtype=bool)
        for i, text in enumerate(lines):
            try:  # Python would take 1_000 and ٢ for numbers
                values[i] = float(text.replace("_", "?").encode())
            except ValueError:
                bad[i] = True
        self._report(file, bad, lambda i: f"holds {lines[i]!r}", expected)
        return values

    def _report(self, file: Path, bad: NDArray[np.bool_], found: OfRow, expected: str) -> None:
        place = lambda i: f"{file}:{i + 1}"  # noqa: E731
        self._problems += bad_rows(bad, place, found, expected, f" in {file.name}", "such line")


def _companion_path(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _lines(path: Path) -> list[str]:
    """Return the lines of a small file, without blanks at either end of a line or of the file."""
    text = text_bytes(path).tobytes().decode("utf-8-sig", "backslashreplace")
    return [line.strip() for line in text.rstrip().splitlines()]
