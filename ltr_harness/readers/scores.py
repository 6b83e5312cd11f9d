"""Scores from anywhere, brought into the row order of the data they belong to.

One number per line (or a ``.npy`` array) is in the data's row order by definition. A table names its rows:
by ``query_id`` and ``document_id``, by ``query_id`` and ``row`` (counted from 0 within the query), or, with
``query_id`` alone or nothing, by standing in the data's order.
"""

from __future__ import annotations

import tokenize
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness.catalog import did_you_mean
from ltr_harness.errors import DataError, Problem
from ltr_harness.groups import Judgments
from ltr_harness.readers.delimited import Delimited
from ltr_harness.readers.files import located
from ltr_harness.readers.parquet import ParquetTable
from ltr_harness.readers.rows import SHOWN, limited
from ltr_harness.readers.trec_lines import Lines

_NUMBER = "a number: every document needs a score"

# What NumPy raises besides where a header is damaged: it reads it as Python.
_HEADER = (tokenize.TokenError, SyntaxError, TypeError, MemoryError)


def read_scores(
    path: str | Path, judgments: Judgments, *, other_queries: bool = False
) -> NDArray[np.float64]:
    """One score for every row of the judgments.

    Args:
        path: text with one number per line, ``.npy``, ``.csv``, ``.tsv`` or ``.parquet``; text may be
            gzip-compressed.
        judgments: the rows that the scores belong to.
        other_queries: rows of queries that the judgments do not have are passed over; otherwise an error.

    Returns:
        float64 (n_rows,) in the judgments' row order.

    Raises:
        DataError: a score that is no number, a row without a score or with two, scores of other rows.
    """
    file = located([str(path)], Path())[0]
    name = file.name.removesuffix(".gz")
    if name.endswith(".npy"):
        return _in_row_order(file, _read_array(file), judgments)
    if name.endswith((".parquet", ".pq")):
        return _from_table(ParquetTable(file), judgments, other_queries)
    if name.endswith((".csv", ".tsv", ".tab")):
        return _from_table(Delimited(file, "," if name.endswith(".csv") else "\t"), judgments, other_queries)
    lines = Lines(file, "score", more=False)
    scores = lines.numbers("score", _NUMBER)
    lines.finish()
    return _in_row_order(file, scores, judgments)


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
                f"{file}: row {missing[0] + 1}", f"the score is NaN ({missing.size:,} such rows)", _NUMBER
            )
        )
    return scores


def _in_row_order(file: Path, scores: NDArray[np.float64], judgments: Judgments) -> NDArray[np.float64]:
    groups = judgments.groups
    if scores.size != groups.n_rows:
        cure = ""
        if scores.size == groups.n_queries:
            cure = "one per query? every document of a query has its own score"
        raise DataError(
            Problem(
                str(file),
                f"{scores.size:,} scores for {groups.n_rows:,} rows in {groups.n_queries:,} queries",
                "one score per row, in the order of the data",
                cure,
            )
        )
    return scores


def _from_table(
    table: Delimited | ParquetTable, judgments: Judgments, other_queries: bool
) -> NDArray[np.float64]:
    file = table.path
    if "score" not in table.columns:
        raise DataError(
            Problem(str(file), "has no column 'score'", cure=did_you_mean("score", table.columns))
        )
    named_by = _naming_columns(table, judgments)
    numbers = [
        "score",
        *(["row"] if "row" in named_by else []),
        *(["label"] if "label" in table.columns else []),
    ]
    texts = [name for name in ("query_id", "document_id") if name in named_by]
    columns = table.read(numbers, texts)
    scores = _floats(columns["score"])
    bad = np.flatnonzero(np.isnan(scores))
    if bad.size:
        raise DataError(
            limited(
                [
                    Problem(table.place(row), "the score is missing or NaN", _NUMBER)
                    for row in bad[:SHOWN].tolist()
                ],
                bad.size,
                "such rows",
            )
        )
    if not named_by:
        return _in_row_order(file, scores, judgments)
    query = _codes(columns["query_id"], judgments.groups.ids)
    if named_by == ["query_id"]:
        _in_row_order(file, scores, judgments)
        _same_queries(table, columns, query, judgments)
        at = used = np.arange(scores.size)
    else:
        at, used = _rows_of(table, columns, query, named_by[1], judgments, other_queries)
    if "label" in table.columns:
        _same_labels(table, _floats(columns["label"]), at, used, judgments)
    ordered = np.empty(judgments.groups.n_rows)
    ordered[at] = scores[used]
    return ordered


def _naming_columns(table: Delimited | ParquetTable, judgments: Judgments) -> list[str]:
    """Which columns say what row a score belongs to."""
    if "query_id" not in table.columns:
        return []
    if "document_id" in table.columns and judgments.document_ids is not None:
        return ["query_id", "document_id"]
    return ["query_id", "row"] if "row" in table.columns else ["query_id"]


def _rows_of(
    table: Delimited | ParquetTable,
    columns: Any,
    query: NDArray[np.int64],
    second: str,
    judgments: Judgments,
    other_queries: bool,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The data's row that each row of the table names, every one exactly once; and the table's rows used."""
    groups = judgments.groups
    data_query = np.repeat(np.arange(groups.n_queries), groups.sizes)
    if second == "row":
        named = _floats(columns["row"])
        data_named = np.arange(groups.n_rows) - np.repeat(groups.boundaries[:-1], groups.sizes)
        inside = (query >= 0) & (named >= 0) & (named == np.floor(named))
        inside &= named < groups.sizes[np.maximum(query, 0)]
        part = np.where(inside, named, -1).astype(np.int64)
    else:
        assert judgments.document_ids is not None  # or the table would be read by row
        values, data_named = np.unique(judgments.document_ids.astype(str), return_inverse=True)
        part = _codes(columns["document_id"], values)
    span = max(int(data_named.max()) + 1, 1)
    data_key = data_query * span + data_named
    order: NDArray[np.int64] = np.argsort(data_key, kind="stable")
    if (np.diff(data_key[order]) == 0).any():
        row = int(order[np.flatnonzero(np.diff(data_key[order]) == 0)[0]])
        raise DataError(
            Problem(
                str(table.path),
                f"names rows by document id, but document {str(judgments.document_ids[row])!r} comes more than "  # type: ignore[index]
                f"once in query {groups.name(groups.query_of(row))!r} of the data",
                "a column `row`, the row within the query from 0, instead of document_id",
            )
        )
    key = query * span + part
    at: NDArray[np.int64] = order[np.minimum(np.searchsorted(data_key, key, sorter=order), order.size - 1)]
    unknown = (query < 0) | (part < 0) | (data_key[at] != key)
    strange = unknown & (query >= 0) if other_queries else unknown
    problems = _listed(
        table, columns, np.flatnonzero(strange), second, "is no row of the data", "scores of these rows alone"
    )
    at = at[~unknown]
    times = np.bincount(at, minlength=groups.n_rows)
    source = np.flatnonzero(~unknown)
    firsts = np.unique(at, return_index=True)[1]
    again = np.setdiff1d(np.arange(at.size), firsts)
    problems += _listed(table, columns, source[again], second, "has a score already", "one score per row")
    without = np.flatnonzero(times == 0)
    if without.size:
        row = int(without[0])
        name = groups.query_of(row)
        problems.append(
            Problem(
                str(table.path),
                f"{without.size:,} of {groups.n_rows:,} rows have no score, first in query {groups.name(name)!r}, "
                f"its row {row - int(groups.boundaries[name])}",
                "a score for every row: leaving rows out would change every metric",
            )
        )
    if problems:
        raise DataError(problems)
    return at, source


def _listed(
    table: Delimited | ParquetTable,
    columns: Any,
    rows: NDArray[np.int64],
    second: str,
    found: str,
    expected: str,
) -> list[Problem]:
    def name(row: int) -> str:
        query, part = columns["query_id"][row].as_py(), columns[second][row].as_py()
        part = f"{part:g}" if isinstance(part, float) else part
        return f"query {str(query)!r}, {second.removesuffix('_id')} {part}"

    shown = [Problem(table.place(row), f"{name(row)} {found}", expected) for row in rows[:SHOWN].tolist()]
    return limited(shown, rows.size, "such rows")


def _same_queries(
    table: Delimited | ParquetTable, columns: Any, query: NDArray[np.int64], judgments: Judgments
) -> None:
    groups = judgments.groups
    wanted = np.repeat(np.arange(groups.n_queries), groups.sizes)
    other = np.flatnonzero(query != wanted)
    if other.size:
        row = int(other[0])
        raise DataError(
            Problem(
                table.place(row),
                f"query {str(columns['query_id'][row].as_py())!r} where the data has "
                f"{groups.name(int(wanted[row]))!r} ({other.size:,} such rows)",
                "the rows of the data in their order, or columns query_id and row, or query_id and document_id",
            )
        )


def _same_labels(
    table: Delimited | ParquetTable,
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
                f"label {labels[row]:g} where the data has {wanted:g} ({other.size:,} such rows)",
                "scores of the same rows: is this another split, or another order?",
            )
        )


def _codes(column: Any, names: NDArray[Any] | Sequence[str]) -> NDArray[np.int64]:
    """Where each value of an Arrow column stands among the names, -1 where it does not."""
    from pyarrow import array, string
    from pyarrow.compute import index_in

    known = array([str(name) for name in np.asarray(names).tolist()], type=string())
    found = index_in(column.cast(string()), value_set=known).fill_null(-1)
    codes: NDArray[np.int64] = found.to_numpy().astype(np.int64)
    return codes


def _floats(column: Any) -> NDArray[np.float64]:
    from pyarrow import float64

    values: NDArray[np.float64] = column.cast(float64(), safe=False).to_numpy()
    return values
