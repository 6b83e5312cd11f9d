"""Columns of rows from any library as arrays of NumPy, and arrays that do not change."""

from __future__ import annotations

import sys
from array import array as array_of
from collections.abc import Callable, Sequence
from mmap import mmap
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ltr_harness.errors import DataError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Texts = NDArray[np.str_]
Array = NDArray[Any]
"""Arrays by their elements, for the signatures of many arrays."""

A = TypeVar("A", bound=NDArray[Any])


def sealed(array: A) -> A:
    """Make an array read-only, of which nobody else has a view, and return it."""
    array.setflags(write=False)
    return array


def read_only(array: A) -> A:
    """Return a read-only view.

    Given to a kernel whether or not its owner may write: numba compiles the kernel again, for seconds, where one call's
    array can be written to and another's cannot.
    """
    return sealed(array.view())


def keep_array(values: A) -> A:
    """Return an array that does not change: itself where nobody can write to its memory, else a read-only copy."""
    root: Any = values
    while isinstance(root.base, np.ndarray):
        root = root.base
    # pandas and Arrow hand over read-only views of memory that changes
    lasts = root.flags.owndata or isinstance(root.base, mmap)
    is_fixed = lasts and not (root.flags.writeable or values.flags.writeable)
    return values if is_fixed else sealed(values.copy())


class KeepsArrays:
    """A frozen dataclass whose arrays stay as they are, whatever becomes of the buffers that it was made of."""

    def __post_init__(self) -> None:
        fields = vars(self)
        for name, value in list(fields.items()):
            if isinstance(value, np.ndarray):
                fields[name] = keep_array(value)
            elif isinstance(value, dict):
                fields[name] = _each_array(keep_array, value)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickle or a copy: NumPy does not store that an array is read-only."""
        vars(self).update({name: _each_array(sealed, value) for name, value in state.items()})


def _each_array(change: Callable[[Any], Any], value: Any) -> Any:
    """An array, or a mapping to arrays, with each of them changed; any other value as it is."""
    if isinstance(value, np.ndarray):
        return change(value)
    if isinstance(value, dict):
        return {key: _each_array(change, element) for key, element in value.items()}
    return value


LONGEST_ID = 1000
"""Characters, in files bytes, of an id or an attribute: one longer text makes an array as wide in every row."""


def as_column(values: ArrayLike, name: str) -> NDArray[Any]:
    """One-dimensional NumPy array from anything NumPy, pandas, Arrow or Polars would call a column."""
    array = values if type(values) is np.ndarray else _converted(values, name)
    _refuse_odd_array(array, name)
    if array.dtype.kind == "T":
        array = _with_fixed_width(array.tolist(), name)
    if array.dtype.kind == "O":
        entries = array.tolist()
        _refuse_odd_entries(entries, name)
        _text_width(entries, name)
    return array


def _converted(values: Any, name: str) -> NDArray[Any]:
    """Return anything else than a plain array as an array."""
    numbers = _listed_numbers(values)
    if numbers is not None:
        return numbers
    if _holds_bytes_to_numpy(values):
        values = [_text_or_none(entry) for entry in values.to_pylist()]
    width = _text_width(values, name) if isinstance(values, list | tuple) else 0
    refuse_masked(values, name)
    try:
        # NumPy finds the width in twice the time
        return np.asarray(values, dtype=f"U{width}" if width else None)
    except NotImplementedError:  # Arrow's views in pandas
        return _converted(_entries(values, name), name)
    except ValueError:
        raise DataError(f"{name} has rows of different lengths; expected one value per row") from None


def _text_or_none(entry: object) -> str | None:
    return None if entry is None else str(entry)


def _holds_bytes_to_numpy(values: Any) -> bool:
    """Return True for columns of which Arrow gives NumPy the bytes, or nothing."""
    kind = str(getattr(values, "type", ""))
    odd_kinds = ("extension<arrow.uuid>", "dictionary<values=string_view")
    return kind.startswith(odd_kinds) and hasattr(values, "to_pylist")


def _with_fixed_width(entries: list[Any], name: str) -> NDArray[Any]:
    """Return NumPy's texts of any length, which few of its functions take, in an array of another kind."""
    width = _text_width(entries, name)
    only_texts = set(map(type, entries)) <= {str}
    return np.array(entries, dtype=f"U{width or 1}" if only_texts else object)


def _listed_numbers(values: Any) -> NDArray[Any] | None:
    """Return a list of Python's numbers of one kind as an array; None where it is something else."""
    code = _CODES.get(type(values[0])) if isinstance(values, list | tuple) and values else None
    if code is None:
        return None
    try:
        return np.frombuffer(array_of(code, values), code)
    except (TypeError, OverflowError):  # something else is among the numbers
        return None


_CODES = {float: "d", int: "q"}


def _refuse_odd_array(array: Array, name: str) -> None:
    """Raise where it has no single value for each row, or bytes that are no text to NumPy."""
    if array.ndim != 1:
        raise DataError(f"{name} has shape {array.shape}; expected one value per row, shape (n_rows,)")
    if array.dtype.kind == "V":
        found = f"rows of several fields (dtype {array.dtype})"
        raise DataError(f"{name} has {found}; expected one value per row")
    if array.dtype.kind == "S":
        _refuse_odd_bytes(array.tolist(), name)


def _entries(values: Any, name: str) -> list[Any]:
    """The entries of a column of which NumPy makes no array; DataError where Python has no such values either."""
    try:
        return list(values)
    except (NotImplementedError, ValueError, OverflowError) as problem:  # such as times after 9999 in pandas
        raise DataError(f"{name} cannot be read: {problem}; expected one value per row") from None


def _refuse_odd_entries(entries: Sequence[Any], name: str) -> None:
    """Raise where a row has several values, or one that cannot be written down, such as pandas' times after 9999."""
    if set(map(type, entries)) <= _PLAIN:
        return
    for row, entry in enumerate(entries):
        if isinstance(entry, _COLLECTIONS):
            raise DataError(f"{name}[{row}] is a {type(entry).__name__}; expected one value per row")
        if isinstance(entry, bytes):
            _refuse_odd_bytes([entry], name, row)
        elif type(entry) not in _PLAIN:
            try:
                str(entry)
            except Exception as problem:
                raise DataError(f"{name}[{row}] has no text: {problem}; expected text or numbers") from None


def _refuse_odd_bytes(entries: Sequence[bytes], name: str, first_row: int = 0) -> None:
    """Raise where bytes are no text to NumPy."""
    for row, entry in enumerate(entries, start=first_row):
        if not entry.isascii():
            raise DataError(f"{name}[{row}] is {entry[:20]!r}, bytes beyond ASCII; expected text")


_PLAIN = {str, int, float, bool, type(None)}
_COLLECTIONS = (list, tuple, dict, set, frozenset, np.ndarray)


def _mask_of(values: Any) -> Bools | None:
    """Return the mask of a masked array of NumPy; None where it hides nothing."""
    # loaded where there is such an array; to load it takes longer than a small evaluation
    if "numpy.ma" not in sys.modules:
        return None
    import numpy.ma as masked_arrays  # waits where another thread is loading it

    if isinstance(values, masked_arrays.MaskedArray):
        mask: Bools = masked_arrays.getmaskarray(values)
        return mask if mask.any() else None
    if isinstance(values, list | tuple) and any(isinstance(row, masked_arrays.MaskedArray) for row in values):
        masks = [masked_arrays.getmaskarray(masked_arrays.asanyarray(row)) for row in values]
        if len({each.shape for each in masks}) == 1:  # others are refused as they are
            return np.array(masks) if np.any(masks) else None
    return None


def refuse_masked(values: Any, name: str) -> None:
    """Raise where a masked array of NumPy has no value: the numbers below its mask mean nothing."""
    if (mask := _mask_of(values)) is not None:
        masked = np.argwhere(mask)
        place = ", ".join(map(str, masked[0].tolist()))
        expected = "expected a value in every row: leave out the rows without one, or fill them"
        raise DataError(f"{name}[{place}] is masked ({len(masked):,} such); {expected}")


_NO_NUMBERS = (str, bytes, complex, np.complexfloating, np.character, np.datetime64, np.timedelta64)


WORDS_AS_LABELS = "where they are words, number them, worst first"


def all_numbers(values: Array) -> bool:
    """Return whether all are real numbers, or None: NumPy converts texts and times, and drops imaginary parts."""
    if values.dtype.kind != "O":
        return values.dtype.kind in "biuf"
    return all(
        value is None or (hasattr(value, "__float__") and not isinstance(value, _NO_NUMBERS))
        for value in values.ravel().tolist()
    )


def unmasked(features: Any, expected: str) -> Array:
    """Features as an array, NaN below a mask of NumPy; a DataError where its rows have different lengths."""
    if (mask := _mask_of(features)) is not None:
        features = np.asarray(features)
        features = np.array(features, dtype=np.result_type(features.dtype, np.float32))
        features[mask] = np.nan
    try:
        return np.asarray(features)
    except (TypeError, ValueError, NotImplementedError):
        raise DataError(f"features are not numbers; {expected}") from None


def number_matrix(features: Any, expected: str) -> Array:
    """Features as an array of numbers, NaN below a mask of NumPy; a DataError where they are none."""
    if hasattr(features, "toarray"):
        raise DataError(f"features are a sparse matrix; {expected}, such as .toarray() gives")
    matrix = numbers_in(unmasked(features, expected))
    if matrix.dtype.kind not in "biuf":
        raise DataError(f"features are not numbers (dtype {matrix.dtype}); {expected}")
    return matrix


def numbers_in(values: Array) -> Array:
    """Objects that are numbers as float64; anything else as it is."""
    if values.dtype.kind != "O":
        return values
    numbers = as_floats(values)
    return values if numbers is None else numbers


def as_floats(values: Array, *, copy: bool | None = None) -> Floats | None:
    """float64, contiguous; None where they are no numbers."""
    try:
        return np.array(values, dtype=np.float64, order="C", copy=copy) if all_numbers(values) else None
    except (TypeError, ValueError):
        return None


TRUTHS = {"false": 0, "true": 1, "0": 0, "1": 1, "0.0": 0, "1.0": 1}
"""The numbers that texts stand for in a column with true or false among them; their case does not matter."""


def truths_as_numbers(labels: Array) -> Array:
    """Labels (n_rows,) as 1 and 0 where they are the texts true and false, NaN for nothing; others as they are."""
    if labels.dtype.kind not in "OSU":
        return labels
    entries = labels.astype(np.str_) if labels.dtype.kind == "S" else labels
    words = [str(entry).strip().lower() for entry in entries.tolist()]
    distinct = set(words)
    if not {"true", "false"} & distinct or not distinct <= {*TRUTHS, "", "none", "nan"}:
        return labels
    return np.array([TRUTHS.get(word, np.nan) for word in words], dtype=np.float64)


def _text_width(values: Sequence[Any], name: str) -> int:
    """Characters of the longest text, which is no longer than `LONGEST_ID`; 0 where not all are texts."""
    kinds = set(map(type, values))
    if not any(issubclass(kind, str | bytes) for kind in kinds):
        return 0
    texts = values if kinds == {str} else [value for value in values if isinstance(value, str | bytes)]
    longest = max(map(len, texts))
    if longest > LONGEST_ID:
        index = next(
            index
            for index, value in enumerate(values)
            if isinstance(value, str | bytes) and len(value) == longest
        )
        raise DataError(f"{name}[{index}] has {longest:,} characters; expected at most {LONGEST_ID:,}")
    return longest if kinds == {str} else 0
