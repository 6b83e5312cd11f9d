"""LETOR and LibSVM text files to one feature matrix, with every bad line named."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ltr_harness.errors import DataError, Problem
from ltr_harness.readers import svmlight_kernels as kernels
from ltr_harness.readers.files import text_bytes
from ltr_harness.readers.rows import SHOWN, limited

_NUMBER = "a number such as 0.5 or 1e-3, or NULL for a missing value"
_GRADE = "a label >= 0, such as 0, 1, 2"
_INDEX = "index:value, such as 3:0.5"

# Kernel code -> what was found ({0} is the token), what was expected, the cure.
_WORDS = {
    kernels.LABEL_NOT_A_NUMBER: ("the label is {0}", _GRADE, ""),
    kernels.LABEL_MISSING: ("the label is {0}", _GRADE, "leave out rows that nobody judged"),
    kernels.LABEL_INFINITE: ("the label is {0}", _GRADE, ""),
    kernels.LABEL_NEGATIVE: (
        "the label is {0}",
        _GRADE,
        "map negative grades to 0, or leave out rows that nobody judged",
    ),
    kernels.QID_MISSING: (
        "{0} where the query id should be",
        "qid:… as the second entry of the row",
        "use `reader: lightgbm` if group sizes are in a .query file",
    ),
    kernels.QID_EMPTY: ("the query id is empty", "qid: and an id, such as qid:10", ""),
    kernels.QID_UNEXPECTED: (
        "{0} in a file whose queries are given by sizes",
        "no query id",
        "use `reader: letor`",
    ),
    kernels.INDEX_NOT_A_NUMBER: ("{0} where a feature should be", _INDEX, ""),
    kernels.INDEX_NEGATIVE: ("the feature index of {0} is negative", "an index of 0 or more", ""),
    kernels.INDEX_TOO_SMALL: (
        "the feature index of {0} is 0",
        "an index of 1 or more",
        "set `first_index: 0` if features count from 0",
    ),
    kernels.INDEX_TOO_LARGE: ("the feature index of {0} is too large", "{1}", ""),
    kernels.VALUE_NOT_A_NUMBER: ("the value of {0} is not a number", _NUMBER, ""),
    kernels.VALUE_INFINITE: (
        "the value of {0} is infinite or beyond the range of float32",
        "a finite number",
        "write NULL where a value is missing",
    ),
}


@dataclass(frozen=True, eq=False)
class SvmlightRows:
    """The rows of several files, one after the other.

    Attributes:
        features: float32 (n_rows, n_features); 0.0 where a row leaves a feature out.
        labels: float64 (n_rows,), finite and >= 0.
        feature_names: the files' own indices.
        block_starts: int64 (n_blocks,), first row of each run of equal query ids; empty without qid.
        block_ids: text (n_blocks,).
        document_ids: text (n_rows,) where every row has one, else None.
        paths: the files.
        file_starts: first row of each file, and the end of the last.
        lines: int64 (n_rows,), the line of each row in its file.
        notes: what a reader should know.
    """

    features: NDArray[np.float32]
    labels: NDArray[np.float64]
    feature_names: tuple[str, ...]
    block_starts: NDArray[np.int64]
    block_ids: NDArray[np.str_]
    document_ids: NDArray[np.str_] | None
    paths: Sequence[Path]
    file_starts: NDArray[np.int64]
    lines: NDArray[np.int64]
    notes: tuple[str, ...]

    def place(self, row: int) -> str:
        """``file:line`` of a row."""
        file = int(np.searchsorted(self.file_starts, row, side="right")) - 1
        return f"{self.paths[file]}:{self.lines[row]}"


@dataclass(frozen=True, eq=False)
class _Surveyed:
    path: Path
    data: NDArray[np.uint8]
    n_rows: int
    smallest: int
    largest: int
    largest_line: int


@dataclass(frozen=True, eq=False)
class _Parsed:
    block_starts: NDArray[np.int64]
    block_ids: NDArray[np.str_]
    document_ids: NDArray[np.str_] | None
    n_documents: int
    problems: list[Problem]
    n_problems: int
    notes: list[str]


def read_svmlight(
    paths: Sequence[Path], *, with_qid: bool, n_features: int | None = None, first_index: int | None = None
) -> SvmlightRows:
    """Parse ``label [qid:id] index:value … [# comment]`` rows.

    Args:
        paths: existing files, plain or gzip-compressed.
        with_qid: rows carry a query id; otherwise one is an error.
        n_features: number of columns; default: as many as the largest index asks for.
        first_index: index of the first column, 0 or 1; default: 0 if any row has an index 0, else 1.

    Raises:
        DataError: every bad line of every file (the first few listed, the rest counted).
    """
    surveyed: list[_Surveyed] = []
    problems: list[Problem] = []
    for path in paths:
        try:
            data = text_bytes(path)
        except DataError as problem:
            problems += problem.problems
            continue
        facts = _Surveyed(path, data, *map(int, kernels.survey(data)))
        if facts.n_rows == 0:
            problems.append(Problem(str(path), "has no rows, only blank lines or comments", "rows"))
        surveyed.append(facts)
    if problems:
        raise DataError(problems)

    if first_index is None:
        first_index = 0 if any(file.smallest == 0 for file in surveyed) else 1
    if n_features is None:
        n_features = max(file.largest for file in surveyed) + 1 - first_index
        if n_features <= 0:
            raise DataError(Problem(str(paths[0]), "no row has a feature", _INDEX))
    n_rows = sum(file.n_rows for file in surveyed)
    features = _matrix(n_rows, n_features, max(surveyed, key=lambda file: file.largest))
    labels = np.empty(n_rows, dtype=np.float64)
    lines = np.empty(n_rows, dtype=np.int64)

    starts = np.zeros(len(surveyed) + 1, dtype=np.int64)
    np.cumsum([file.n_rows for file in surveyed], out=starts[1:])
    parsed = []
    for file, start, end in zip(surveyed, starts[:-1], starts[1:], strict=True):
        part = slice(start, end)
        parsed.append(_parse(file, with_qid, first_index, features[part], labels[part], lines[part]))
    if any(part.n_problems for part in parsed):
        listed = [problem for part in parsed for problem in part.problems]
        raise DataError(limited(listed, sum(part.n_problems for part in parsed), "bad lines"))

    notes = [note for part in parsed for note in part.notes]
    documents = [part.document_ids for part in parsed if part.document_ids is not None]
    if len(documents) < len(parsed) and (given := sum(part.n_documents for part in parsed)):
        notes.append(f"document ids are ignored: only {given:,} of {n_rows:,} rows have one")
    return SvmlightRows(
        features,
        labels,
        tuple(str(first_index + column) for column in range(n_features)),
        np.concatenate([part.block_starts + start for part, start in zip(parsed, starts, strict=False)]),
        np.concatenate([part.block_ids for part in parsed]),
        np.concatenate(documents) if len(documents) == len(parsed) else None,
        paths,
        starts,
        lines,
        tuple(notes),
    )


def _matrix(n_rows: int, n_features: int, widest: _Surveyed) -> NDArray[np.float32]:
    """Zeros, if they can fit: one mistyped index would otherwise ask for a thousand times the memory."""
    needed = 4 * n_rows * n_features
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else None
    try:
        if memory is not None and needed > memory:
            raise MemoryError
        return np.zeros((n_rows, n_features), dtype=np.float32)
    except MemoryError:
        raise DataError(
            Problem(
                f"{widest.path}:{widest.largest_line}",
                f"the largest feature index is {widest.largest:,}: {n_rows:,} rows of {n_features:,} columns "
                f"take {needed / 2**30:,.1f} GiB",
                "a matrix that fits in memory",
                "look whether that index is a slip; features with very large indices need hashing or "
                "selection first",
            )
        ) from None


def _parse(
    file: _Surveyed,
    with_qid: bool,
    first_index: int,
    features: NDArray[np.float32],
    labels: NDArray[np.float64],
    lines: NDArray[np.int64],
) -> _Parsed:
    # np.empty costs no memory until it is written, so rows are a fair bound for runs of queries.
    block_rows = np.empty(file.n_rows, dtype=np.int64)
    block_spans = np.empty((file.n_rows, 2), dtype=np.int64)
    document_spans = np.empty((file.n_rows, 2), dtype=np.int64)
    found = np.empty((SHOWN, 3), dtype=np.int64)
    n_blocks, n_documents, n_problems, n_repeats, first_repeat, hard = kernels.parse(
        file.data,
        with_qid,
        first_index,
        features,
        labels,
        lines,
        block_rows,
        block_spans,
        document_spans,
        found,
    )
    last = first_index + features.shape[1] - 1
    problems = [
        (int(line), _problem(file, int(line), int(code), int(at), last))
        for line, code, at in found[: min(n_problems, SHOWN)]
    ]
    late = _settle_hard(file, hard, features, labels, last)
    problems = sorted(problems + late, key=lambda item: item[0])
    notes = []
    if n_repeats:
        notes.append(
            f"{n_repeats:,} rows of {file.path.name} give a feature more than once (first in line "
            f"{first_repeat}); the last value counts"
        )
    complete = n_problems == 0 and n_documents == file.n_rows
    return _Parsed(
        block_rows[:n_blocks].copy(),
        _texts(file.data, block_spans[:n_blocks]),
        _texts(file.data, document_spans) if complete else None,
        n_documents,
        [problem for _, problem in problems],
        n_problems + len(late),
        notes,
    )


def _settle_hard(
    file: _Surveyed,
    hard: NDArray[np.int64],
    features: NDArray[np.float32],
    labels: NDArray[np.float64],
    last: int,
) -> list[tuple[int, Problem]]:
    """The few numbers whose rounding the kernel could not decide, by Python's exact conversion."""
    problems = []
    for row, column, start, end, line in hard.tolist():
        value = float(file.data[start:end].tobytes())
        code = -1
        if column == -1:
            labels[row] = value
            code = kernels.LABEL_INFINITE if np.isinf(value) else -1
        elif column >= 0:
            with np.errstate(over="ignore", under="ignore"):
                features[row, column] = np.float32(value)
            code = kernels.VALUE_INFINITE if np.isinf(features[row, column]) else -1
        if code >= 0:
            problems.append((line, _problem(file, line, code, start, last)))
    return problems


def _problem(file: _Surveyed, line: int, code: int, at: int, last: int) -> Problem:
    found, expected, cure = _WORDS[code]
    most = f"at most {last} (n_features)" if code == kernels.INDEX_TOO_LARGE else ""
    return Problem(f"{file.path}:{line}", found.format(_token(file.data, at)), expected.format(0, most), cure)


def _token(data: NDArray[np.uint8], at: int) -> str:
    """What stands at an offset, as messages quote it."""
    text = data[at : at + 200].tobytes().decode("utf-8", "backslashreplace")
    token = re.split(r"[ \t\r\n#]", text, maxsplit=1)[0]
    if not token:
        return "the end of the row"
    return repr(token if len(token) <= 40 else token[:40] + "…")


def _texts(data: NDArray[np.uint8], spans: NDArray[np.int64]) -> NDArray[np.str_]:
    if len(spans) == 0:
        return np.empty(0, dtype=np.str_)
    longest = int((spans[:, 1] - spans[:, 0]).max())
    letters = np.zeros((len(spans), longest), dtype=np.uint8)
    kernels.copy_spans(data, spans, letters)
    # backslashreplace keeps ids in other encodings apart, where "replace" would make them one.
    return np.char.decode(letters.view(f"S{longest}")[:, 0], "utf-8", "backslashreplace")
