"""Arrow columns of a log as pandas categories and NumPy numbers, and what can be neither."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ltr_harness.errors import DataError, Problem


def codes_of(category: pd.Categorical, missing: int = -1) -> NDArray[np.int64]:
    """(n,) a code for each value, in the order of the categories."""
    codes = category.codes.astype(np.int64)
    codes[codes < 0] = missing
    return codes


def texts_of(category: pd.Categorical) -> NDArray[np.str_]:
    """(n,) the text of each value; "(missing)" for a missing one."""
    names = np.append(category.categories.to_numpy(np.str_), "(missing)")
    texts: NDArray[np.str_] = names[category.codes]
    return texts


def together(*parts: pd.Categorical) -> list[pd.Categorical]:
    """The same values over one common list of sorted categories."""
    names = reduce(pd.Index.union, (part.categories for part in parts))
    return [part.set_categories(names) for part in parts]


def category_of(column: Any, name: str = "") -> pd.Categorical:
    """An Arrow column of text, numbers or truth values, its categories sorted; null and empty text are missing.

    Raises:
        DataError: lists, structures and the like.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    chunked = pa.chunked_array([column]) if isinstance(column, pa.Array) else column
    if pa.types.is_dictionary(chunked.type) and _has_name(chunked.type.value_type):
        encoded = chunked.unify_dictionaries().combine_chunks()
    else:
        encoded = plain_column(chunked, name).combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.chunk(0)
    texts = utf8(encoded.dictionary.cast(pa.string()), name)
    codes = encoded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
    used = np.zeros(len(texts) + 1, dtype=bool)
    used[codes] = True  # a file's dictionary may name more than this batch holds
    used[:-1] &= texts.is_valid().to_numpy(zero_copy_only=False)
    used[:-1] &= pc.not_equal(texts, "").fill_null(False).to_numpy(zero_copy_only=False)  # CSV's missing
    kept = pa.array(np.flatnonzero(used[:-1]))
    order = pc.sort_indices(texts.take(kept))
    at = kept.take(order)
    names = pd.Index(texts.take(at).to_pandas(), dtype=str)
    if not names.is_unique:  # a dictionary that repeats itself
        return category_of(chunked.cast(chunked.type.value_type), name)
    rank = np.full(len(texts) + 1, -1, dtype=np.int32)
    rank[at.to_numpy()] = np.arange(names.size, dtype=np.int32)
    return pd.Categorical.from_codes(rank[codes], names, validate=False)


def utf8(texts: Any, name: str) -> Any:
    """An Arrow column of text whose bytes are text.

    Raises:
        DataError: bytes that are not; Arrow itself does not look.
    """
    import pyarrow as pa

    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        raise DataError(
            Problem(f"column {name!r}", "holds bytes that are not UTF-8", "text in UTF-8", "encode it again")
        ) from None
    return texts


def plain_column(column: Any, name: str) -> Any:
    """An Arrow column whose values have a name; dictionaries undone.

    Raises:
        DataError: lists, structures and the like.
    """
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not _has_name(column.type):
        raise DataError(Problem(f"column {name!r}", f"has the type {column.type}", "text or integers"))
    return column


def _has_name(kind: Any) -> bool:
    """Whether values of an Arrow type are text, numbers or the like, and can be written down."""
    import pyarrow as pa

    return not (pa.types.is_nested(kind) or pa.types.is_binary(kind))


def numbers_of(column: Any, name: str) -> NDArray[np.float64]:
    """An Arrow column of numbers or truth values as float64, missing as NaN."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    elif pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise DataError(Problem(f"column {name!r}", f"has the type {kind}", "numbers"))
    values: NDArray[np.float64] = column.cast(pa.float64(), safe=False).to_numpy()
    return values
