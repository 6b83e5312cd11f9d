"""Scores from anywhere, brought into the row order of the data they belong to.

One number per line (or a ``.npy`` array) is in the order of the data's files by definition. A table names its rows:
by query and document, by query and ``row`` (counted from 0 within the query), or, with a query alone or nothing, by
standing in the order of the files. Columns that could name rows and are not used so are refused: rows that are
matched by their order although they say who they are may belong to others. A table without scores may have ranks.
"""

from __future__ import annotations

import tokenize
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ltr_harness.catalog import did_you_mean
from ltr_harness.compression import bare_name
from ltr_harness.errors import DataError, Problem
from ltr_harness.groups import Judgments
from ltr_harness.logs.ranks import A_RANK, are_ranks
from ltr_harness.readers.arrow_columns import numbers_of
from ltr_harness.readers.column_names import ROLES, column_among
from ltr_harness.readers.csv import Csv
from ltr_harness.readers.delimited import Delimited
from ltr_harness.readers.files import located
from ltr_harness.readers.parquet import Parquet
from ltr_harness.readers.rows import SHOWN, limited
from ltr_harness.readers.score_rows import naming_columns, rows_named, same_queries
from ltr_harness.readers.table_part import OpenedTable
from ltr_harness.readers.trec_lines import Lines
from ltr_harness.wording import count_of

_TEXT = (".csv", ".tsv", ".tab")
_TABLES = (*_TEXT, ".parquet", ".pq", ".arrow", ".feather")

NUMBER = "a number: every document needs a score"

# What NumPy raises besides where a header is damaged: it reads it as Python.
_HEADER = (tokenize.TokenError, SyntaxError, TypeError, MemoryError)


def read_scores(
    path: str | Path,
    judgments: Judgments,
    *,
    file_order: NDArray[np.int64] | None = None,
    columns: Mapping[str, str] | None = None,
    other_queries: bool = False,
    notes: list[str] | None = None,
) -> NDArray[np.float64]:
    """One score for every row of the judgments.

    Shapes: `file_order` (n_rows,).

    Returns:
        float64 (n_rows,) in the judgments' row order.

    Raises:
        DataError: a score that is no number, a row without a score or with two, scores of other rows, a table that
            names its rows in a way that the data does not know.
    """
    file = located([str(path)], Path())[0]
    order = np.arange(judgments.groups.n_rows) if file_order is None else file_order
    name = bare_name(file.name)
    if name.endswith(_TABLES):
        table = (Csv() if name.endswith(_TEXT) else Parquet()).opened(file)
        by = _ranked_by(table)
        if by != "score" and notes is not None:
            notes.append(f"{path} has no column 'score': {by!r} ranks its rows, 1 being the best")
        return _from_table(table, by, judgments, order, columns or {}, other_queries)
    if name.endswith(".npy"):
        scores = _read_array(file)
    else:
        lines = Lines(file, "score", more=False)
        scores = lines.numbers("score", NUMBER)
        lines.finish()
    _as_many(file, scores.size, judgments)
    return _placed(scores, order)


def _read_array(file: Path) -> NDArray[np.float64]:
    try:
        values = np.load(file, allow_pickle=False)
    except (ValueError, OSError, EOFError, *_HEADER) as problem:
        raise DataError(Problem(str(file), f"cannot be read as an array: {problem}")) from None
    if not isinstance(values, np.ndarray) or values.ndim != 1 or values.dtype.kind not in "fiu":
        shape = f"{values.dtype} of shape {values.shape}" if isinstance(values, np.ndarray) else "no array"
        raise DataError(Problem(str(file), f"holds {shape}", "numbers, one per row: shape (n_rows,)"))
    scores = values.astype(np.float64)
    missing = np.flatnonzero(np.isnan(scores))
    if missing.size:
        raise DataError(
            Problem(
                f"{file}: row {missing[0] + 1}",
                f"the score is NaN ({count_of(missing.size, 'such row')})",
                NUMBER,
            )
        )
    return scores


def _as_many(file: Path, n_scores: int, judgments: Judgments) -> None:
    """Refuse another number of scores than there are rows."""
    groups = judgments.groups
    if n_scores != groups.n_rows:
        cure = ""
        if n_scores == groups.n_queries:
            cure = "one per query? every document of a query has its own score"
        raise DataError(
            Problem(
                str(file),
                f"{count_of(n_scores, 'score')} for {count_of(groups.n_rows, 'row')} in "
                f"{count_of(groups.n_queries, 'query')}",
                "one score per row, in the order of the data",
                cure,
            )
        )


def _placed(scores: NDArray[np.float64], at: NDArray[np.int64]) -> NDArray[np.float64]:
    """The scores in the data's row order, `at` saying which of its rows each belongs to."""
    placed = np.empty(scores.size)
    placed[at] = scores
    return placed


def _ranked_by(table: OpenedTable) -> str:
    """The column of scores, or of ranks where nothing is called as scores are."""
    if "score" in table.columns:
        return "score"
    ranks = column_among(["rank", *ROLES["position"]], table.columns)
    if ranks is not None and not any("score" in name.lower() for name in table.columns):
        return ranks
    if isinstance(table, Delimited) and table.lacks_header:
        raise DataError(table.no_header())
    raise DataError(
        Problem(str(table.path), "has no column 'score'", cure=did_you_mean("score", table.columns))
    )


def _from_table(
    table: OpenedTable,
    by: str,
    judgments: Judgments,
    order: NDArray[np.int64],
    said: Mapping[str, str],
    other_queries: bool,
) -> NDArray[np.float64]:
    named_by = naming_columns(table, judgments, said)
    columns = table.read([by, *named_by.numbers], named_by.texts)
    scores = numbers_of(columns[by])
    wrong, found, expected = np.isnan(scores), "the score is missing or NaN", NUMBER
    if by != "score":
        wrong, found, expected = (
            ~are_ranks(scores),
            f"the {by} is missing or no rank",
            f"{A_RANK}, 1 for the best",
        )
        scores = -scores
    bad = np.flatnonzero(wrong)
    if bad.size:
        shown = bad[:SHOWN].tolist()
        listed = [Problem(table.place(row), found, expected) for row in shown]
        raise DataError(limited(listed, bad.size))
    used = np.arange(scores.size)
    if named_by.is_complete:
        at, used = rows_named(table, columns, named_by, judgments, other_queries)
    else:
        _as_many(table.path, scores.size, judgments)
        same_queries(table, columns, named_by, judgments, order)
        at = order
    if named_by.label is not None:
        _same_labels(table, numbers_of(columns[named_by.label]), at, used, judgments)
    return _placed(scores[used], at)


def _same_labels(
    table: OpenedTable,
    labels: NDArray[np.float64],
    at: NDArray[np.int64],
    used: NDArray[np.int64],
    judgments: Judgments,
) -> None:
    """A table that carries labels says which data it was made for."""
    other = np.flatnonzero(labels[used] != judgments.labels[at])
    if other.size:
        row, wanted = int(used[other[0]]), judgments.labels[at[other[0]]]
        raise DataError(
            Problem(
                table.place(row),
                f"label {labels[row]:g} where the data has {wanted:g} ({count_of(other.size, 'such row')})",
                "scores of the same rows: is this another split, or another order?",
            )
        )
