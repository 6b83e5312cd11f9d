"""Columns of tables and logs: Arrow as NumPy numbers, texts, attributes, pandas categories."""

import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ltr_harness.data.arrays import TRUTHS
from ltr_harness.data.computable import computable_column
from ltr_harness.data.text_numbers import CategoryCodes, Offsets, TextBytes, TextNumbers, hash_each
from ltr_harness.errors import DataError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class ArrowColumns:
    """Columns of rows in memory, by name."""

    table: Any  # pyarrow.Table

    def __getitem__(self, name: str) -> Any:
        return self.table[name]

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def numbers(self, name: str) -> NDArray[np.float64]:
        """A column as float64 (n_rows,), missing as NaN."""
        return numbers_of(self.table[name], name)

    def texts(self, name: str) -> Any | None:
        """See `id_texts`."""
        return id_texts(self.table[name])

    def category(self, name: str) -> "pd.Categorical":
        """See `category_of`."""
        return category_of(self.table[name], name)

    def cell(self, name: str, row: int) -> Any:
        """One value as Python has it, for messages."""
        return values_shown(self.table[name].slice(row, 1))[0]


def codes_of(category: "pd.Categorical", missing: int = -1) -> NDArray[np.int64]:
    """Return a code for each value (n,), in the order of the categories."""
    codes = category.codes.astype(np.int64)
    codes[codes < 0] = missing
    return codes


def texts_of(category: "pd.Categorical") -> NDArray[np.str_]:
    """Return the text of each value (n,); "(missing)" for a missing one."""
    names = np.append(category.categories.to_numpy(np.str_), "(missing)")
    return np.asarray(names[category.codes])


def with_common_categories(*parts: "pd.Categorical") -> "list[pd.Categorical]":
    """Return the same values over one common list of sorted categories."""
    import pandas as pd

    names = reduce(pd.Index.union, (part.categories for part in parts))
    return [part.set_categories(names) for part in parts]


def category_of(column: Any, name: str = "") -> "pd.Categorical":
    """An Arrow column of text, numbers or truth values, its categories sorted; null and empty text are missing."""
    import pandas as pd

    chunked = computable_column(pa.chunked_array([column]) if isinstance(column, pa.Array) else column)
    if pa.types.is_dictionary(chunked.type) and _has_name(chunked.type.value_type):
        encoded = chunked.unify_dictionaries().combine_chunks()
    else:
        encoded = plain_column(chunked, name).combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.chunk(0)
    texts = utf8(encoded.dictionary.cast(pa.string()), name)
    # 8 bits may have no place for one code more
    codes = encoded.indices.cast(pa.int64()).fill_null(len(texts)).to_numpy(zero_copy_only=False)
    used = np.zeros(len(texts) + 1, dtype=bool)
    used[codes] = True  # a file's dictionary may name more than this batch holds
    used[:-1] &= texts.is_valid().to_numpy(zero_copy_only=False)
    used[:-1] &= pc.not_equal(texts, "").fill_null(False).to_numpy(zero_copy_only=False)  # CSV's missing
    used_codes = pa.array(np.flatnonzero(used[:-1]))
    order = pc.sort_indices(texts.take(used_codes))
    sorted_codes = used_codes.take(order)
    names = pd.Index(texts.take(sorted_codes).to_pandas(), dtype=str)
    if not names.is_unique:  # a dictionary that repeats itself
        return category_of(chunked.cast(chunked.type.value_type), name)
    rank = np.full(len(texts) + 1, -1, dtype=np.int32)
    rank[sorted_codes.to_numpy()] = np.arange(names.size, dtype=np.int32)
    return pd.Categorical.from_codes(rank[codes], names, validate=False)


def utf8(texts: Any, name: str) -> Any:
    """An Arrow column of text whose bytes are text."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        found = "holds bytes that are not UTF-8"
        raise DataError.at(f"column {name!r}", found, "text in UTF-8", "encode it again") from None
    return texts


def collected(frame: Any) -> Any:
    """A lazy frame of Polars, computed; anything else as it is."""
    return frame.collect() if _is_of_polars(frame) and hasattr(frame, "collect") else frame


def _is_of_polars(frame: Any) -> bool:
    return type(frame).__module__.partition(".")[0] == "polars"


def _narrowed(frame: Any) -> Any:
    """A frame of Polars with integers of 128 bits, which Arrow lacks, in 64; TypeError where they do not fit."""
    kinds = frame.schema if _is_of_polars(frame) and hasattr(frame, "schema") else {}
    wide = [name for name, kind in kinds.items() if str(kind) in ("Int128", "UInt128")]
    if not wide:
        return frame
    polars = sys.modules["polars"]
    try:
        return frame.with_columns(polars.col(wide).cast(polars.Int64))
    except polars.exceptions.PolarsError:
        names = ", ".join(map(repr, wide))
        raise TypeError(f"its integers of 128 bits ({names}) are beyond the range of 64") from None


def table_of(frame: Any, *, named_index: bool = False) -> Any:
    """A frame of pandas, Polars or Arrow as a `pyarrow.Table`, with a named index as columns if asked."""
    frame = _narrowed(collected(frame))
    if isinstance(frame, pa.Table):
        return frame
    if not hasattr(frame, "iloc"):
        return _handed_over(frame)
    if named_index and any(name is not None for name in frame.index.names):
        frame = frame.reset_index()
    return pa.Table.from_pandas(frame, preserve_index=False)


def _handed_over(frame: Any) -> Any:
    """The table of a frame that is not of pandas; TypeError where Polars panics, which no `except Exception` sees."""
    try:
        return pa.table(frame)
    except BaseException as problem:
        if type(problem).__name__ != "PanicException":
            raise
        raise TypeError(f"Polars cannot hand it over: {problem}") from None


def plain_column(column: Any, name: str) -> Any:
    """An Arrow column whose values have a name; dictionaries undone."""
    column = decoded(column)
    if not _has_name(column.type):
        raise DataError.at(f"column {name!r}", f"has the type {column.type}", "text or integers")
    return column


def _has_name(kind: Any) -> bool:
    """Return whether values of an Arrow type are text, numbers or the like, which have a text form."""
    types = pa.types
    binary = types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
    unnamed = types.is_nested(kind) or types.is_interval(kind) or binary
    return not (unnamed or isinstance(kind, pa.BaseExtensionType)) and _has_zone(kind)


def _has_zone(kind: Any) -> bool:
    """Return whether a type of times has a valid zone, as a file may name any text; True without a zone."""
    if getattr(kind, "tz", None) is None:
        return True
    try:
        pa.array([0], pa.int64()).cast(kind).cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def values_shown(column: Any) -> list[Any]:
    """An Arrow column as Python's values, for messages; as text where Python has none, such as times after 9999."""
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError):
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp(column.type.unit))
        return list(column.cast(pa.large_string()).to_pylist())


def names_of(ids: Any) -> Any:
    """An Arrow column of ids that NumPy has as well: times as text, because NumPy has not all of them."""
    return ids if is_numeric(ids.type) or is_text(ids.type) else ids.cast(pa.large_string())


def numbers_of(column: Any, name: str = "", cure: str = "") -> NDArray[np.float64]:
    """Return an Arrow column of numbers or truth values as float64, missing as NaN.

    Raises:
        DataError: the column has another type; `cure` is what to do about it.
    """
    column = decoded(column)
    if pa.types.is_null(column.type):
        return np.full(len(column), np.nan)
    if is_text(column.type) and (truths := truths_of(column)) is not None:
        column = truths
    if not is_numeric(column.type):
        raise DataError.at(f"column {name!r}", f"has the type {column.type}", "numbers", cure)
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy())


def array_of(column: pa.ChunkedArray) -> NDArray[Any]:
    """Return a column (n_rows,) as a frame of pandas has it.

    Arrow imports pandas, which takes a third of a second, whenever it makes an array of NumPy or one of its own. What
    NumPy takes over as it is, and texts, go without; missing values, days and categories do not.
    """
    kind = column.type
    if column.null_count == 0:
        if pa.types.is_integer(kind) or pa.types.is_floating(kind):
            return np.from_dlpack(column.chunk(0) if column.num_chunks == 1 else column.combine_chunks())
        if is_text(kind):
            return np.array(column.to_pylist(), dtype=object)
    return np.asarray(column.to_pandas().to_numpy())


def column_of(values: NDArray[Any]) -> pa.Array:
    """Return values (n_rows,) as an Arrow array: `pa.array`, without pandas for numbers and texts; see `array_of`."""
    if values.dtype.kind in "iuf" and values.dtype.isnative:
        buffers = [None, pa.py_buffer(np.ascontiguousarray(values))]
        return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), values.size, buffers)
    texts = values.tolist()
    if not texts or not all(type(text) is str for text in texts):
        return pa.array(values)
    column = text_array([[texts]], len(texts))
    if column.nbytes > np.iinfo(np.int32).max:  # Arrow divides them
        return pa.array(values)
    return column.cast(pa.string())


def text_array(blocks: Iterable[Sequence[Collection[str]]], n: int) -> Any:
    """Return `n` texts, in blocks of lists with at least one each, as Arrow's large texts: joined, in half the time.

    Raises TypeError: one is no text; UnicodeEncodeError: one is not Unicode.
    """
    letters, offsets, n_before = bytearray(), np.zeros(n + 1, dtype=np.int64), 0
    for lists in blocks:
        joined, n_texts = "\0".join(map("\0".join, lists)).encode(), sum(map(len, lists))
        nul = np.flatnonzero(np.frombuffer(joined, np.uint8) == 0)
        if nul.size < n_texts:
            ends = len(letters) + nul - np.arange(nul.size)
            letters += joined.translate(None, b"\0")
        else:  # one has a NUL byte itself
            encoded = [text.encode() for texts in lists for text in texts]
            ends = len(letters) + np.cumsum(list(map(len, encoded)))[:-1]
            letters += b"".join(encoded)
        n_before += n_texts
        offsets[n_before - ends.size : n_before] = ends
        offsets[n_before] = len(letters)
    return pa.LargeStringArray.from_buffers(n, pa.py_buffer(offsets), pa.py_buffer(letters))


def truths_of(column: Any) -> Any | None:
    """Arrow's text as 1 for true and 0 for false, null for nothing; None where other text is in it, or digits alone."""
    words = pc.utf8_lower(pc.utf8_trim_whitespace(column))
    index = pc.index_in(words, value_set=pa.array([*TRUTHS], words.type))
    is_other = pc.and_(pc.is_null(index), pc.not_equal(words, ""))
    is_word = pc.less(index, 2)
    if pc.any(is_other).as_py() or not pc.any(is_word).as_py():
        return None
    return pc.take(pa.array([*TRUTHS.values()], pa.uint8()), index)


def decoded(column: Any) -> Any:
    """An Arrow column without a dictionary, views or runs of equal values; UUIDs as their text."""
    column = computable_column(column)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return _uuid_texts(column) if isinstance(column.type, pa.UuidType) else column


def _uuid_texts(column: Any) -> Any:
    """UUIDs as people write them, such as 123e4567-e89b-12d3-a456-426614174000."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    texts = []
    for chunk in chunks:
        n, start = len(chunk), chunk.offset
        letters = (
            b"" if n == 0 else bytes(chunk.storage.buffers()[1])[16 * start : 16 * (start + n)].hex().encode()
        )
        dashed = np.insert(np.frombuffer(letters, np.uint8).reshape(n, 32), (8, 12, 16, 20), ord("-"), axis=1)
        ends = pa.array(np.arange(n + 1) * 36, pa.int64())
        buffers = ends.buffers()[1], pa.py_buffer(np.ascontiguousarray(dashed))
        hyphenated = pa.LargeStringArray.from_buffers(n, *buffers)
        texts.append(pc.if_else(chunk.is_valid(), hyphenated, None))
    return pa.chunked_array(texts, pa.large_string()) if isinstance(column, pa.ChunkedArray) else texts[0]


def is_numeric(kind: Any) -> bool:
    """Return whether an Arrow type is one of numbers or truth values."""
    types = pa.types
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        kind = kind.value_type
    numeric = types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null
    return any(is_one(kind) for is_one in numeric)


def is_text(kind: Any) -> bool:
    """Return whether an Arrow type is one of text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_category(kind: Any) -> bool:
    """Return whether an Arrow type is one of categories, as pandas' and Polars' are: a dictionary of texts."""
    return bool(pa.types.is_dictionary(kind) and is_text(kind.value_type))


def id_texts(column: Any) -> Any | None:
    """A column of text or whole numbers as Arrow's text, null as ""; None for another type."""
    column = decoded(column)
    if not (pa.types.is_integer(column.type) or is_text(column.type)):
        return None
    return column.cast(pa.large_string()).fill_null("")


def coded(column: Any) -> tuple[NDArray[np.float32], tuple[str, ...]] | None:
    """The codes (n_rows,) of an Arrow column, NaN where nothing is, and the texts, sorted; None for another type."""
    texts = id_texts(column)
    if texts is None:
        return None
    category = category_of(texts)
    codes = category.codes.astype(np.float32)
    codes[category.codes < 0] = np.nan
    return codes, tuple(category.categories)


def values_of(column: Any) -> Any:
    """An attribute: numbers and truth values as they are (a NumPy array), everything else as Arrow's text."""
    column = decoded(column)
    kind = column.type
    if pa.types.is_floating(kind) or (pa.types.is_integer(kind) and column.null_count):
        return numbers_of(column)
    if pa.types.is_integer(kind) or (pa.types.is_boolean(kind) and not column.null_count):
        return np.asarray(column.to_numpy())
    if not (is_text(kind) or is_numeric(kind) or pa.types.is_temporal(kind) or pa.types.is_binary(kind)):
        raise pa.ArrowTypeError(f"{kind} is not a type of single values")
    return column.cast(pa.large_string()).fill_null("")


class Ids(TextNumbers):
    """The numbers of an Arrow column's values, batch after batch."""

    def add(self, column: Any, name: str) -> CategoryCodes:
        """The number of every value of an Arrow column; new texts get new numbers."""
        return self._numbers(column, name, new=True)

    def find(self, column: Any, name: str) -> CategoryCodes:
        """The number of every value of an Arrow column; texts that were never added count as missing."""
        return self._numbers(column, name, new=False)

    def _numbers(self, column: Any, name: str, *, new: bool) -> CategoryCodes:
        codes = np.empty(len(column), dtype=np.int32)
        start = 0
        words, of_words = None, np.empty(0, dtype=np.int32)
        for chunk in column.chunks:
            if not pa.types.is_dictionary(chunk.type):
                chunk = plain_column(chunk, name).dictionary_encode()
            if words is None or not chunk.dictionary.equals(words):  # a file repeats it chunk after chunk
                words = chunk.dictionary
                data, ends = letters_of(plain_column(words, name))
                of_words = np.append(self.numbered(data, ends[:-1], ends[1:], new=new), np.int32(-1))
            indices = chunk.indices.cast(pa.int64()).fill_null(len(words)).to_numpy()
            codes[start : start + len(chunk)] = of_words[indices]
            start += len(chunk)
        return codes


def hashes_of(ids: Any) -> NDArray[np.uint64]:
    """Return a hash of 64 bits (n,) for each id of an Arrow array, by its text: the same in every session."""
    data, ends = letters_of(ids)
    hashes = np.empty(len(ids), dtype=np.uint64)
    hash_each(data, ends, hashes)
    return hashes


def letters_of(values: Any) -> tuple[TextBytes, Offsets]:
    """Return the letters of all texts of an Arrow array, and the ends of each, after the first beginning."""
    texts = values.cast(pa.large_string()).fill_null("")
    _, offsets, letters = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    return np.frombuffer(b"" if letters is None else letters, dtype=np.uint8), ends


A_RANK = "an integer from 1 to 10^9"

_LAST_RANK = 10**9  # a list has no billion items: it is an id, or a unit of time


def are_ranks(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return a mask of the numbers that are ranks; NaN is none. Shapes: `values` (n,)."""
    return np.asarray((values >= 1) & (values <= _LAST_RANK) & (values == np.floor(values)))
