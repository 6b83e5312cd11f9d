"""Checks that columns of pandas for the same rows have them in the same order."""

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness.errors import DataError

_CURE = "align them, as in scores.loc[labels.index], or pass .to_numpy() to take them by place"


def _loaded_pandas() -> Any:
    """Return pandas, or None where nothing has loaded it; wait where another thread is loading it."""
    if "pandas" not in sys.modules:
        return None
    import pandas

    return pandas


def refuse_unaligned(columns: Mapping[str, Any]) -> None:
    """Raise where the indexes of two columns or frames of pandas disagree about which row stands where.

    A default index, 0 to n - 1, says nothing about rows: what has it is taken by place, unless another index has the
    same numbers in another order. Shapes: (n_rows,) or (n_rows, n_columns) each; other arrays have no index.
    """
    pandas = _loaded_pandas()
    if pandas is None:
        return
    kinds = (pandas.Series, pandas.DataFrame)
    indexes = {name: values.index for name, values in columns.items() if isinstance(values, kinds)}
    if not indexes:
        return
    defaults = {name: index for name, index in indexes.items() if _is_default(pandas, index)}
    labelled = {name: index for name, index in indexes.items() if name not in defaults}
    if not labelled:
        return
    first = next(iter(labelled))
    for name, index in labelled.items():
        if len(index) == len(labelled[first]) and not index.equals(labelled[first]):
            _refuse((first, labelled[first]), (name, index))
    for name, index in defaults.items():
        for other, labels in labelled.items():
            if len(index) == len(labels) and _is_shuffled(labels):
                _refuse((name, index), (other, labels))


def refuse_other_queries(query_weights: Any, query_ids: NDArray[Any]) -> None:
    """Raise where the index of weights has the queries (n_queries,) in another order, as a group-by sorts them."""
    pandas = _loaded_pandas()
    if pandas is None or not isinstance(query_weights, pandas.Series):
        return
    index = query_weights.index
    if _is_default(pandas, index) or len(index) != query_ids.size:
        return
    labels, queries = list(map(str, index.tolist())), list(map(str, query_ids.tolist()))
    if labels != queries and set(labels) == set(queries):
        position = next(row for row, label in enumerate(labels) if label != queries[row])
        label, query = labels[position], queries[position]
        found = f"query_weights[{position}] has the index {label!r}, and query {position} is {query!r}"
        expected = "the queries in the order in which they first appear"
        raise DataError(
            f"{found}; expected {expected}; reindex them, or pass .to_numpy() to take them by place"
        )


def _is_default(pandas: Any, index: Any) -> bool:
    return isinstance(index, pandas.RangeIndex) and index.start == 0 and index.step == 1


def _is_shuffled(index: Any) -> bool:
    """Return whether the numbers of a default index (n_rows,) are in another order."""
    numbers = index.to_numpy()
    if numbers.dtype.kind not in "iu" or not numbers.size:
        return False
    in_range = numbers.min() == 0 and numbers.max() == numbers.size - 1
    if not in_range or np.array_equal(numbers, np.arange(numbers.size)):
        return False
    return bool((np.bincount(numbers) == 1).all())


def _refuse(column: tuple[str, Any], other_column: tuple[str, Any]) -> None:
    (first, labels), (second, other_labels) = column, other_column
    pairs = zip(labels.tolist(), other_labels.tolist(), strict=True)
    row, (left, right) = next((row, pair) for row, pair in enumerate(pairs) if pair[0] != pair[1])
    found = f"{first} and {second} have different indexes of pandas: {left!r} and {right!r} in row {row}"
    raise DataError(f"{found}; expected the same rows in the same order; {_CURE}")
