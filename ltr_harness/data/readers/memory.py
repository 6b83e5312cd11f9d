"""Data in memory: NumPy arrays, and frames of pandas, Polars or Arrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ltr_harness._util.catalog import did_you_mean
from ltr_harness._util.text import count_of
from ltr_harness.data.alignment import refuse_unaligned
from ltr_harness.data.arrays import (
    WORDS_AS_LABELS,
    Floats,
    all_numbers,
    as_column,
    as_floats,
    keep_array,
    number_matrix,
    sealed,
    truths_as_numbers,
    unmasked,
)
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.features import Features, SparseFeatures
from ltr_harness.data.judgments import OneLabel
from ltr_harness.data.queries import QueryGroups
from ltr_harness.data.readers.column_names import ROLES, column_for
from ltr_harness.data.readers.reader import Beyond
from ltr_harness.data.readers.rows import Rows, assembled, blocks_of
from ltr_harness.errors import DataError, Problem, UsageError


def from_arrays(
    features: ArrayLike,
    labels: ArrayLike | None,
    *,
    query_ids: ArrayLike | None = None,
    group_sizes: ArrayLike | None = None,
    feature_names: Sequence[str] | None = None,
    weights: ArrayLike | None = None,
    positions: ArrayLike | None = None,
    document_ids: ArrayLike | None = None,
    attributes: Mapping[str, ArrayLike] | None = None,
    subtopics: ArrayLike | None = None,
    retrieved: ArrayLike | None = None,
    judgments: Any = None,
    several: OneLabel | None = None,
    regroup: bool = False,
    source: str = "arrays",
) -> RankingDataset:
    """A ranking dataset from arrays with one entry per row.

    Args:
        features: (n_rows, n_features); NaN means missing. Stored as float32. A sparse matrix of SciPy stays sparse
            (`SparseFeatures`), and what it leaves out is 0, as in SciPy and LightGBM: XGBoost, which would take it for
            missing, is given 0 as well.
        labels: (n_rows,), finite; None where they are those of `judgments`.
        query_ids: (n_rows,), the query of each row; or
        group_sizes: (n_queries,), rows per query, in row order.
        feature_names: one per column; default ``"0"``, ``"1"``, …
        weights: (n_rows,) >= 0, what rows count in training; a query's weight is the mean of its rows'.
        positions: (n_rows,) integers.
        document_ids: (n_rows,).
        attributes: name to (n_rows,) values that are equal within a query.
        subtopics: (n_rows, n_subtopics), each row's grade for each subtopic of its query.
        retrieved: (n_rows,), 1 for candidates and 0 for missed documents, which count as judged; their features may
            be anything.
        judgments: the truth, of which the rows are candidates: a frame, ``{query: {document: grade}}``, a file, or
            whatever `evaluate_runs` takes. Judged documents without a row were missed.
        several: ``majority`` (of equals the lowest), ``mean``, ``max`` or ``median``: the label of a document with
            several judgments, which are an error otherwise.
        regroup: bring scattered queries together, with a caution; otherwise they are an error.
        source: how messages call this data.

    Raises:
        DataError: every array whose shape or values do not fit.

    Example:
        >>> data = from_arrays([[0.5], [1.0], [0.1]], [1, 0, 2], query_ids=["a", "a", "b"])
        >>> data.n_queries, data.features.dtype
        (2, dtype('float32'))
    """
    if labels is None and judgments is None:
        raise DataError("labels is None; expected labels, or judgments with document_ids")
    flags = None if retrieved is None else _flags(source, retrieved)
    matrix = _matrix(features, flags)
    n_rows = len(matrix) if flags is None else flags.size
    starts, ids = _starts_and_ids(n_rows, query_ids, group_sizes)
    names = tuple(map(str, range(matrix.shape[1]) if feature_names is None else feature_names))
    attributes = attributes or {}
    labels_or_zeros = np.zeros(n_rows) if labels is None else labels
    columns = {
        "labels": labels_or_zeros,
        "weights": weights,
        "positions": positions,
        "document_ids": document_ids,
        **{f"attribute {name!r}": values for name, values in attributes.items()},
    }
    other_columns = {"query_ids": query_ids, "subtopics": subtopics, "retrieved": retrieved}
    refuse_unaligned({"features": features, **other_columns, **columns, "labels": labels})
    checked = _checked_columns(source, columns, n_rows, names, matrix.shape[1], flags)
    rows = Rows(
        features=matrix,
        feature_names=names,
        labels=checked["labels"].astype(np.float64),
        weights=_numbers(checked, "weights", np.float64),
        positions=_numbers(checked, "positions", np.int32),
        document_ids=_objects_as_texts(checked["document_ids"]) if "document_ids" in checked else None,
        retrieved=flags,
        block_starts=np.asarray(starts, dtype=np.int64),
        block_ids=ids,
        place=lambda row: f"{source}: row {row}",
        attributes={name: _objects_as_texts(checked[f"attribute {name!r}"]) for name in attributes},
        subtopics=subtopics,
    )
    dataset = assembled(rows, source, regroup=regroup)
    if judgments is None:
        return dataset
    from ltr_harness.data.readers.truth import judgments_of, with_judgments

    return with_judgments(dataset, judgments_of(judgments, None, several), labelled=labels is not None)


def _checked_columns(
    source: str,
    columns: Mapping[str, ArrayLike | None],
    n_rows: int,
    names: Sequence[str],
    n_features: int,
    retrieved: NDArray[np.bool_] | None,
) -> dict[str, NDArray[Any]]:
    """Return the columns that are not None as arrays (n_rows,), every value checked."""
    checked = {name: as_column(values, name) for name, values in columns.items() if values is not None}
    checked["labels"] = truths_as_numbers(checked["labels"])
    _refuse_shapes(source, checked, n_rows, names, n_features)
    DataError.refuse(_value_problems(source, checked, retrieved))
    if retrieved is not None and "positions" in checked:
        checked["positions"] = np.where(retrieved, checked["positions"], 0)
    return checked


def _refuse_shapes(
    source: str, columns: Mapping[str, NDArray[Any]], n_rows: int, names: Sequence[str], n_features: int
) -> None:
    """Raise where columns have not one value per row, or the names of features are not one per feature."""
    problems = [
        Problem(source, f"{len(values):,} {name}", f"{n_rows:,}, one for each row of features")
        for name, values in columns.items()
        if len(values) != n_rows
    ]
    if len(names) != n_features or len(set(names)) != len(names):
        text = f"{count_of(len(names), 'feature name')}, {len(set(names))} of them different"
        problems.append(Problem(source, text, f"{n_features} different ones, one per column"))
    DataError.refuse(problems)


def _numbers(columns: Mapping[str, NDArray[Any]], name: str, kind: type[np.generic]) -> Any:
    """Return a column as an array of a kind of numbers; None where it is absent."""
    return columns[name].astype(kind) if name in columns else None


def _starts_and_ids(
    n_rows: int, query_ids: ArrayLike | None, group_sizes: ArrayLike | None
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the first row of each block of rows of a query, and the blocks' query ids."""
    if (query_ids is None) == (group_sizes is None):
        raise DataError("give either query_ids, one per row, or group_sizes, one per query")
    if group_sizes is not None:
        groups = QueryGroups.from_sizes(group_sizes)
        if groups.n_rows != n_rows:
            found = f"group_sizes add up to {groups.n_rows:,}"
            raise DataError(f"{found}; expected {n_rows:,}, the rows of features")
        return groups.boundaries[:-1], groups.ids
    rows = as_column(query_ids, "query_ids")  # type: ignore[arg-type]
    if len(rows) != n_rows:
        raise DataError(f"{len(rows):,} query_ids; expected {n_rows:,}, one for each row of features")
    if n_rows:
        QueryGroups.from_ids(rows)  # refuses missing ids
    return blocks_of(_objects_as_texts(rows), [0])


def _unknown_arguments(unknown: Mapping[str, Any]) -> list[Problem]:
    """Return the problem of each argument that `from_frame` lacks, with the one whose columns have such a name."""
    arguments = [name for name in signature(from_frame).parameters if name not in ("frame", "unknown")]
    problems = []
    for name, value in unknown.items():
        role = next((role for role in arguments if role in ROLES and column_for(role, [name])), None)
        cure = (
            f"did you mean {role}={value!r}?"
            if role and isinstance(value, str)
            else did_you_mean(name, arguments)
        )
        problems.append(Problem("from_frame", f"no argument {name!r}", cure=cure))
    return problems


def from_frame(
    frame: Any,
    *,
    source: str = "frame",
    judgments: Any = None,
    several: OneLabel | None = None,
    query: str | Sequence[str] = "query_id",
    label: str = "label",
    features: Sequence[str] | None = None,
    categorical: Sequence[str] = (),
    weight: str | Mapping[str, str] | None = None,
    position: str | None = None,
    document_id: str | None = None,
    retrieved: str | None = None,
    attributes: Sequence[str] = (),
    subtopics: Sequence[str] = (),
    relevance: Mapping[str, Any] | None = None,
    user: str | None = None,
    timestamp: str | None = None,
    regroup: bool = False,
    unjudged: float | None = None,
    grades: Mapping[Any, Any] | None = None,
    beyond_float32: Beyond = "error",
    **unknown: Any,
) -> RankingDataset:
    """A ranking dataset from a frame of pandas, Polars or Arrow.

    Args:
        frame: anything that pandas or Arrow calls a table (``__arrow_c_stream__``); a LazyFrame is collected.
        source: how messages call this data.
        judgments: the truth, of which the rows are candidates: see `from_arrays`. A frame's columns are called as those
            of the rows; without a column of labels the rows have the labels of the judgments.
        several: how several judgments of a document become one label: see `from_arrays`.
        query: the column of each row's query; several are a key together.
        label: the column of grades, or of other numbers, such as returns.
        features: the columns of features; None for every numeric one without another role or the name of an id, a
            time or an outcome, and those that are categories.
        categorical: features that are texts or integers without an order.
        weight: the column of rows' weights, or ``{"half_life": "90 days", "by": "day"}`` for weights that halve with
            age.
        position: the column of the whole-number positions at which rows were shown.
        document_id: the column that names documents; None for `document_id`, if it is there and nowhere empty.
        retrieved: the column with 1 for candidates and 0 for missed documents.
        attributes: columns that describe the query, equal in all its rows, to slice results by.
        subtopics: columns with rows' grades for a subtopic of their query each.
        relevance: from what users did to labels, in place of `label`: the block of an experiment file.
        user: the column of the user, for an event log without query ids.
        timestamp: the column of the query's time, likewise.
        regroup: bring scattered queries together, with a caution; otherwise they are an error.
        unjudged: the label of documents that nobody judged.
        grades: what labels stand for, such as ``{"bad": 0, "good": 1}``.
        beyond_float32: what becomes of feature values that float32 cannot hold: ``error``, ``clip`` or ``missing``.
        unknown: none; a misspelt argument is refused with the closest one.

    Raises:
        DataError: a column is missing, or holds what it must not; rows are counted from 1.
        UsageError: there is no such argument.

    Example:
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"query_id": [7, 7], "label": [1, 0], "bm25": [2.5, 0.5]})
        >>> from_frame(frame)  # says which columns are features
        frame: 1 query, 2 rows, 1 feature: bm25
    """
    import pyarrow
    from pydantic import ValidationError

    from ltr_harness.data.columns import table_of
    from ltr_harness.data.readers.parquet import ArrowTable, Parquet

    UsageError.refuse(_unknown_arguments(unknown))
    try:
        table = table_of(frame)
    except (TypeError, ValueError, pyarrow.ArrowException) as problem:
        found, expected = f"is not a table: {problem}", "a frame of pandas, Polars or Arrow"
        raise DataError.at(source, found, expected) from None
    roles = {
        "query": query,
        "label": label,
        "features": features,
        "categorical": categorical,
        "weight": weight,
        "position": position,
        "document_id": document_id,
        "retrieved": retrieved,
        "attributes": attributes,
        "subtopics": subtopics,
        "relevance": relevance,
        "user": user,
        "timestamp": timestamp,
        "regroup": regroup,
        "unjudged": unjudged,
        "grades": grades,
        "beyond_float32": beyond_float32,
    }
    try:
        reader = Parquet.model_validate(roles)
    except ValidationError as problem:
        raise DataError(
            Problem(f"from_frame, {'.'.join(map(str, detail['loc'])) or 'columns'}", detail["msg"])
            for detail in problem.errors()
        ) from None
    opened = ArrowTable(table, Path(source))
    if judgments is None:
        return reader.assembled([opened], source)
    from ltr_harness.data.readers.truth import has_labels, judgments_of, with_judgments

    truth, labelled = judgments_of(judgments, reader, several), has_labels(reader, [opened])
    if not labelled:
        reader = reader.without_labels()
    rows = reader.assembled([opened], source)
    return with_judgments(rows, truth, labelled=labelled)


def _flags(source: str, retrieved: ArrayLike) -> NDArray[np.bool_]:
    """Return a mask (n_rows,) of the rows that are candidates."""
    column = as_column(retrieved, "retrieved")
    expected = "1 or True for candidates, 0 or False for missed documents"
    if column.dtype.kind == "O" and not all_numbers(column):
        raise DataError.at(source, f"retrieved are not numbers (dtype {column.dtype})", expected)
    bad_rows = np.flatnonzero(~np.isin(column, (0, 1)))
    if bad_rows.size:
        found = f"retrieved[{bad_rows[0]}] is {column[bad_rows[0]]} ({bad_rows.size:,} such)"
        raise DataError.at(source, found, expected)
    return column.astype(bool)


def _matrix(features: ArrayLike, retrieved: NDArray[np.bool_] | None) -> Features:
    """Return the features of the candidates."""
    expected = "expected an array (n_rows, n_features)"
    if hasattr(features, "toarray"):
        return _sparse(features, retrieved, expected)
    if retrieved is None:
        raw = number_matrix(features, expected)
    else:
        rows = np.atleast_1d(unmasked(features, expected))
        _refuse_other_length(len(rows), retrieved)
        raw = number_matrix(sealed(rows[retrieved]), expected)
    with np.errstate(over="ignore", under="ignore"):
        matrix = np.ascontiguousarray(raw, dtype=np.float32)
    matrix = keep_array(matrix) if np.may_share_memory(matrix, raw) else sealed(matrix)
    _refuse_shape(matrix.shape, retrieved)
    infinite = np.argwhere(np.isinf(matrix))
    if len(infinite):
        _refuse_infinite(infinite[0, 0], infinite[0, 1], len(infinite), retrieved)
    return matrix


def _sparse(matrix: Any, retrieved: NDArray[np.bool_] | None, expected: str) -> SparseFeatures:
    """Return the candidates of a sparse matrix of SciPy."""
    _refuse_shape(matrix.shape, retrieved)
    if matrix.dtype.kind not in "biuf":
        raise DataError(f"features are not numbers (dtype {matrix.dtype}); {expected}")
    if retrieved is not None:
        _refuse_other_length(matrix.shape[0], retrieved)
        matrix = matrix.tocsr()[np.flatnonzero(retrieved)]
    features = SparseFeatures.of_matrix(matrix)
    infinite = np.flatnonzero(np.isinf(features.values))
    if infinite.size:
        row = int(np.searchsorted(features.starts, infinite[0], side="right")) - 1
        _refuse_infinite(row, int(features.columns[infinite[0]]), infinite.size, retrieved)
    return features


def _refuse_shape(shape: tuple[int, ...], retrieved: NDArray[np.bool_] | None) -> None:
    sizes = shape if retrieved is None else shape[1:]
    if len(shape) != 2 or 0 in sizes:
        raise DataError(f"features have shape {shape}; expected (n_rows, n_features), both at least 1")


def _refuse_infinite(row: int, column: int, n: int, retrieved: NDArray[np.bool_] | None) -> None:
    """Raise about values that are infinite, of which the first is in a row of the candidates."""
    if retrieved is not None:
        row = int(np.flatnonzero(retrieved)[row])
    found = f"features[{row}, {column}] is infinite or beyond the range of float32"
    expected = "finite numbers, NaN where a value is missing"
    raise DataError(f"{found} ({n:,} such); expected {expected}")


def _refuse_other_length(n_rows: int, retrieved: NDArray[np.bool_]) -> None:
    if n_rows != retrieved.size:
        found = f"{count_of(retrieved.size, 'value')} of retrieved for {count_of(n_rows, 'row')}"
        raise DataError(f"{found} of features; expected one per row")


_EXPECTATIONS = {
    "labels": "finite numbers",
    "weights": "finite numbers >= 0",
    "positions": "integers >= 0",
}


def _value_problems(
    source: str, columns: Mapping[str, NDArray[Any]], retrieved: NDArray[np.bool_] | None
) -> list[Problem]:
    problems = []
    for name, expected in _EXPECTATIONS.items():
        if name not in columns:
            continue
        values = columns[name]
        numbers = as_floats(values)
        if numbers is None:
            cure = WORDS_AS_LABELS if name == "labels" else ""
            problems.append(Problem(source, f"{name} are not numbers (dtype {values.dtype})", expected, cure))
            continue
        bad = _bad_values(name, numbers, retrieved)
        if bad.any():
            row = int(np.argmax(bad))
            found = f"{name}[{row}] is {values[row]} ({int(bad.sum()):,} such)"
            problems.append(Problem(source, found, expected))
    return problems


def _bad_values(name: str, numbers: Floats, retrieved: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
    """Return which numbers (n_rows,) of a column cannot be; missed documents may lack a weight or a position."""
    bad = ~np.isfinite(numbers)
    if name == "labels":
        return bad
    bad |= numbers < 0
    if name == "positions":
        bad |= (numbers != np.floor(numbers)) | (numbers >= 2**31)
    return bad if retrieved is None else bad & (retrieved | ~np.isnan(numbers))


def _objects_as_texts(values: NDArray[Any]) -> NDArray[Any]:
    """Return objects as texts, and everything else unchanged."""
    return values.astype(np.str_) if values.dtype.kind == "O" else values
