"""Columns of tables and logs: Arrow as NumPy numbers, texts, attributes, pandas categories and times."""

from __future__ import annotations

import warnings
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness.errors import DataError, Problem

if TYPE_CHECKING:
    import pandas as pd


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
    import pandas as pd

    names = reduce(pd.Index.union, (part.categories for part in parts))
    return [part.set_categories(names) for part in parts]


def category_of(column: Any, name: str = "") -> pd.Categorical:
    """An Arrow column of text, numbers or truth values, its categories sorted; null and empty text are missing.

    Raises DataError: lists, structures and the like.
    """
    import pandas as pd
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

    Raises DataError: bytes that are not; Arrow itself does not look.
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

    Raises DataError: lists, structures and the like.
    """

    column = decoded(column)
    if not _has_name(column.type):
        raise DataError(Problem(f"column {name!r}", f"has the type {column.type}", "text or integers"))
    return column


def _has_name(kind: Any) -> bool:
    """Whether values of an Arrow type are text, numbers or the like, and can be written down."""
    import pyarrow as pa

    return not (pa.types.is_nested(kind) or pa.types.is_binary(kind))


def numbers_of(column: Any, name: str = "") -> NDArray[np.float64]:
    """An Arrow column of numbers or truth values as float64, missing as NaN; DataError for another type."""
    import pyarrow as pa

    column = decoded(column)
    if pa.types.is_null(column.type):
        return np.full(len(column), np.nan)
    if not is_numeric(column.type) or pa.types.is_run_end_encoded(column.type):
        raise DataError(Problem(f"column {name!r}", f"has the type {column.type}", "numbers"))
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    values: NDArray[np.float64] = column.cast(pa.float64(), safe=False).to_numpy()
    return values


def decoded(column: Any) -> Any:
    """An Arrow column without a dictionary."""
    from pyarrow import types

    return column.cast(column.type.value_type) if types.is_dictionary(column.type) else column


def is_numeric(kind: Any) -> bool:
    """Whether an Arrow type is one of numbers or truth values."""
    from pyarrow import types

    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        kind = kind.value_type
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_decimal(kind)
        or types.is_null(kind)
    )


def is_text(kind: Any) -> bool:
    """Whether an Arrow type is one of text."""
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_category(kind: Any) -> bool:
    """Whether an Arrow type is one of categories, as pandas' and Polars' are: a dictionary of texts."""
    from pyarrow import types

    return bool(types.is_dictionary(kind) and is_text(kind.value_type))


def id_texts(column: Any) -> Any | None:
    """A column of text or whole numbers as Arrow's text, null as ""; None for another type."""
    from pyarrow import large_string, types

    column = decoded(column)
    if not (types.is_integer(column.type) or is_text(column.type)):
        return None
    return column.cast(large_string()).fill_null("")


def values_of(column: Any) -> Any:
    """An attribute: numbers and truth values as they are (a NumPy array), everything else as Arrow's text.

    Raises pyarrow.ArrowException: the values of this type are no single values, or cannot be written as text.
    """
    from pyarrow import ArrowTypeError, large_string, types

    column = decoded(column)
    kind = column.type
    if types.is_floating(kind) or (types.is_integer(kind) and column.null_count):
        return numbers_of(column)
    if types.is_integer(kind) or (types.is_boolean(kind) and not column.null_count):
        return np.asarray(column.to_numpy())
    if not (is_text(kind) or is_numeric(kind) or types.is_temporal(kind) or types.is_binary(kind)):
        raise ArrowTypeError(f"{kind} is not a type of single values")
    return column.cast(large_string()).fill_null("")


_MISSING, _LAST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}

Moments = NDArray[np.int64]


def timestamps(column: Any, name: str, timezone: str) -> Moments:
    """An Arrow column of times or of ISO 8601 text as int64 nanoseconds UTC; the least int64 where missing.

    Times with a zone are moments, whatever the zone is called. Times without one are of `timezone`. What lies beyond
    the nanoseconds of int64 is the largest of them. Raises DataError: text that is no time, or has a zone in some rows
    only; another type of column, such as numbers, of which nobody says what they count.
    """
    import pyarrow as pa

    column = decoded(column)
    kind = column.type
    if pa.types.is_date(kind):
        column = column.cast(pa.timestamp("s" if kind == pa.date32() else "ms"))
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _of_text(utf8(column, name).to_pandas(), name, timezone)
    elif pa.types.is_null(kind):
        return np.full(len(column), _MISSING)
    elif not pa.types.is_timestamp(kind):
        raise DataError(_no_time(name, kind))
    counts = column.cast(pa.int64()).fill_null(_MISSING).to_numpy()
    moments = _nanoseconds(counts, column.type.unit)
    return moments if column.type.tz else _in_utc(moments, timezone)


def _no_time(name: str, kind: Any) -> Problem:
    import pyarrow as pa

    said = f"has the type {kind}"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        said = f"holds numbers ({kind}), and nothing says whether they are seconds or milliseconds"
    return Problem(f"column {name!r}", said, "timestamps, or text such as 2026-01-31T12:00:00Z")


def _nanoseconds(counts: Moments, unit: str) -> Moments:
    factor = _NANOSECONDS[unit]
    beyond = (counts > _LAST // factor) | (counts < -(_LAST // factor))
    moments: Moments = (
        np.where(beyond, _LAST, counts) if factor == 1 else np.where(beyond, 0, counts) * factor
    )
    moments[beyond] = _LAST
    moments[counts == _MISSING] = _MISSING
    return moments


def _in_utc(local: Moments, timezone: str) -> Moments:
    """Times of a zone's clock: the hour that occurs twice is the earlier one, one that does not exist moves forward."""
    import pandas as pd

    if timezone == "UTC":
        return local
    known = (local != _MISSING) & (local != _LAST)
    times = pd.DatetimeIndex(local[known].astype("datetime64[ns]"))
    moments = times.tz_localize(
        timezone, ambiguous=np.ones(len(times), dtype=bool), nonexistent="shift_forward"
    )
    in_utc = local.copy()
    in_utc[known] = (
        moments.tz_convert("UTC").tz_localize(None).to_numpy().astype("datetime64[ns]").astype(np.int64)
    )
    return in_utc


def _of_text(texts: Any, name: str, timezone: str) -> Moments:
    import pandas as pd

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)  # of several time zones; pandas 3 raises
            series = pd.to_datetime(texts, utc=False, format="ISO8601")
    except (ValueError, FutureWarning) as problem:
        if "tz" not in str(problem).lower() and "zone" not in str(problem).lower():
            first = str(problem).partition(". You might")[0]
            raise DataError(
                Problem(
                    f"column {name!r}",
                    f"holds text that is not a time: {first}",
                    "such as 2026-01-31T12:00:00Z",
                )
            ) from None
        without = ~texts.dropna().str.contains(r"(?:[zZ]|[+-][0-9][0-9]:?(?:[0-9][0-9])?)$")
        if without.any():
            raise DataError(
                Problem(
                    f"column {name!r}",
                    f"{int(without.sum()):,} of {len(texts):,} times have no time zone, the others do, such as "
                    f"{texts.dropna()[without].iloc[0]!r}",
                    "all with one, or none",
                )
            ) from None
        series = pd.to_datetime(texts, utc=True, format="ISO8601")  # several offsets
    zone = series.dt.tz
    plain = series.dt.tz_convert("UTC").dt.tz_localize(None) if zone is not None else series
    values = plain.to_numpy()
    moments = _nanoseconds(values.astype(np.int64), np.datetime_data(values.dtype)[0])
    return moments if zone is not None else _in_utc(moments, timezone)
