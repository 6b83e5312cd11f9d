"""Rows for a stored model: columns of frames by name, sparse matrices in blocks, and values unseen in training."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ltr_harness._util.text import count_of, plural, shortened
from ltr_harness.data.features import Features, column_ranges
from ltr_harness.errors import Caution, DataError
from ltr_harness.experiments.inspection.column_facts import FAR, is_of_another_range

if TYPE_CHECKING:
    import pandas as pd

    from ltr_harness.data.dataset import RankingDataset
    from ltr_harness.experiments.runs.record import Record

Score = Callable[[NDArray[Any]], NDArray[np.float64]]

BLOCK = 64 << 20
"""Bytes of the rows of a sparse matrix that are dense at a time."""

_QUERY, _LABEL = " query", " label"  # no names of features: the rows of a frame are one query without labels


def is_frame(features: Any) -> bool:
    """Return whether features are a frame of pandas, Polars or Arrow, whose columns have names."""
    # a lazy frame of Polars warns of whoever asks for its columns
    return hasattr(features, "collect_schema") or hasattr(features, "columns")


def rows_of_frame(frame: Any, record: Record) -> RankingDataset | None:
    """Return the rows of a frame with a model's features, found by name; None where there are no rows.

    Raises:
        DataError: a feature is missing, or holds what it must not.
    """
    from ltr_harness.data.readers.parquet import ArrowTable, Parquet

    names = record.features
    table, other_columns = _table_with(frame, names)
    lacking = [name for name in names if name not in table.column_names]
    if lacking:
        expected = f"every feature that {record.model} was trained on"
        cure = "an array, such as frame.to_numpy(), is taken by place, in the order of `record.features`"
        raise DataError.at("frame", f"lacks {_features(lacking)}", expected, cure)
    if not table.num_rows:
        return None
    table = table.select(names).append_column(_QUERY, pa.array(np.zeros(table.num_rows, np.int64)))
    reader = Parquet.model_validate(
        {
            "query": _QUERY,
            "label": _LABEL,
            "features": names,
            "categorical": [*record.categories],
            "beyond_float32": record.reading.get("beyond_float32", "error"),
        }
    )
    rows = reader.without_labels().assembled([ArrowTable(table, Path("frame"))], "frame")
    return replace(rows, cautions=(*rows.cautions, *ignored_columns(other_columns, record.model, "frame")))


def warn_of(cautions: Iterable[Caution]) -> None:
    """Warn the caller of a method that scores rows."""
    for caution in cautions:
        warnings.warn(str(caution), stacklevel=3)


def scoring_cautions(rows: RankingDataset, record: Record, ranges: pd.DataFrame | None) -> list[Caution]:
    """List the cautions about rows with a model's columns; `ranges` are those of its training rows."""
    reading_cautions = [caution for caution in rows.cautions if caution.kind != "categories"]
    return [*reading_cautions, *matrix_cautions(rows.features, record, ranges)]


def matrix_cautions(features: Features, record: Record, ranges: pd.DataFrame | None) -> list[Caution]:
    """List the cautions about values (n_rows, n_features) in the order of a model's columns."""
    cautions = missing_throughout(features, record)
    if ranges is not None:
        cautions += other_ranges(features, record.features, ranges)
    return cautions


def other_ranges(features: Features, names: Sequence[str], ranges: pd.DataFrame) -> list[Caution]:
    """Return a caution about features (n_rows, n_features) that reach far beyond the range of training."""
    column = {name: index for index, name in enumerate(names)}
    trained = ranges[ranges["feature"].isin(column)]
    columns = [column[name] for name in trained["feature"]]
    if not (columns and len(features)):
        return []
    low, high = (extreme[columns].astype(np.float64) for extreme in column_ranges(features))
    trained_low, trained_high = trained["low"].to_numpy(np.float64), trained["high"].to_numpy(np.float64)
    outside = trained["feature"][is_of_another_range(low, high, trained_low, trained_high)].tolist()
    if not outside:
        return []
    text = f"values of {_features(outside)} exceed {FAR} times their range in training"
    return [Caution("other-range", "warning", text, "check that they have the units of training")]


def missing_throughout(features: Features, record: Record) -> list[Caution]:
    """Return a caution about features (n_rows, n_features) without any value, given as many rows as a usual query."""
    train = record.data["train"]
    if not record.features or len(features) < max(train.n_rows / train.n_queries, 1):
        return []
    columns = np.flatnonzero(np.isnan(features[0]))
    names = [record.features[column] for column in columns if np.isnan(features[:, column]).all()]
    if not names:
        return []
    text = f"{_features(names)} {plural('is', len(names))} missing in all {count_of(len(features), 'row')}"
    return [Caution("missing-values", "warning", text, "check whether that is intended")]


def ignored_columns(names: Sequence[str], model: str, place: str) -> list[Caution]:
    """Return a caution about columns that a model does not know."""
    if not names:
        return []
    text = f"ignored {count_of(len(names), 'column')} that {model} was not trained on: {shortened(names, 10)}"
    return [Caution("ignored-columns", "note", text, place=place)]


def _table_with(frame: Any, names: Sequence[str]) -> tuple[Any, list[str]]:
    """Return a table with the named columns that a frame has, and the names of its other columns."""
    from ltr_harness.data.columns import table_of

    features = set(names)
    if hasattr(frame, "iloc"):  # pandas has columns that Arrow cannot take, and need not
        columns = [str(name) for name in frame.columns]
        frame = frame.iloc[:, [place for place, name in enumerate(columns) if name in features]]
        frame = frame.set_axis([name for name in columns if name in features], axis=1)
    try:
        table = table_of(frame)
    except (TypeError, ValueError, pa.ArrowException) as problem:
        found, expected = f"is not a table: {problem}", "a frame of pandas, Polars or Arrow, or an array"
        raise DataError.at("frame", found, expected) from None
    if not hasattr(frame, "iloc"):
        columns = table.column_names
    return table, [name for name in columns if name not in features]


def _features(names: Sequence[str]) -> str:
    listed = shortened(names, 5)
    return f"{count_of(len(names), 'feature')} ({listed})" if len(names) > 1 else f"the feature {listed}"


def is_sparse(features: Any) -> bool:
    """Return whether features are a sparse matrix of SciPy."""
    return hasattr(features, "toarray") and hasattr(features, "tocsr")


def scores_of_sparse(matrix: Any, score: Score) -> NDArray[np.float64]:
    """Return the scores (n_rows,) of a sparse matrix (n_rows, n_features), a block of dense rows at a time."""
    if matrix.ndim != 2:
        raise DataError(f"features of shape {matrix.shape}; expected shape (n_rows, n_features)")
    rows = matrix.tocsr()
    n_rows, n_features = rows.shape
    step = max(BLOCK // (8 * max(n_features, 1)), 1)
    # one block at least: it is where a wrong number of columns is found
    starts = range(0, max(n_rows, 1), step)
    return np.concatenate([score(rows[start : start + step].toarray()) for start in starts])
