"""Tables in types that Arrow computes with: without views, runs and small numbers, which few of its functions take."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def computable(table: Any) -> Any:
    """A table or batch whose views are large texts, whose runs are written out, whose half floats are float32.

    A type that another tool made of one of these is what it was made of.
    """
    if computable_schema(table.schema).equals(table.schema):
        return table
    return type(table).from_arrays(list(map(computable_column, table.columns)), names=table.schema.names)


def computable_schema(schema: Any) -> Any:
    """The schema of `computable` for a table of this one."""
    return pa.schema([field.with_type(_type(field.type)) for field in schema], schema.metadata)


def computable_column(column: Any) -> Any:
    """See `computable`."""
    kind = _type(column.type)
    if kind.equals(column.type):
        return column
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array(list(map(computable_column, column.chunks)), type=kind)
    types = pa.types
    if isinstance(column.type, pa.BaseExtensionType):
        return computable_column(column.storage)
    if types.is_dictionary(column.type) and types.is_nested(column.type.value_type):
        return computable_column(column.dictionary).take(column.indices)
    if types.is_dictionary(column.type):
        words = computable_column(column.dictionary)
        return pa.DictionaryArray.from_arrays(column.indices, words, ordered=column.type.ordered)
    if types.is_run_end_encoded(column.type):
        numbers = pa.array(np.arange(len(column.values)))
        runs = pa.RunEndEncodedArray.from_arrays(column.run_ends, numbers).slice(column.offset, len(column))
        return computable_column(column.values).take(pc.run_end_decode(runs))
    if types.is_struct(column.type):
        parts = list(map(computable_column, column.flatten()))
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=column.is_null())
    if is_list(column.type):
        return large_list(column).cast(kind)
    return column.cast(kind)


def large_list(column: Any) -> Any:
    """Lists of any form one behind the other, as Arrow's casts make them of views only where rows were never taken."""
    ends = np.cumsum(pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False))
    values = computable_column(column.flatten())
    return pa.LargeListArray.from_arrays(
        pa.array(np.append(0, ends), pa.int64()), values, mask=column.is_null()
    )


def _type(kind: Any) -> Any:
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        storage = _type(kind.storage_type)
        return kind if storage.equals(kind.storage_type) else storage
    if types.is_string_view(kind):
        return pa.large_string()
    if types.is_binary_view(kind):
        return pa.large_binary()
    if types.is_dictionary(kind):
        inner = _type(kind.value_type)
        return inner if types.is_nested(inner) else pa.dictionary(kind.index_type, inner, kind.ordered)
    if types.is_run_end_encoded(kind):
        return _type(kind.value_type)
    if types.is_struct(kind):
        return pa.struct([field.with_type(_type(field.type)) for field in kind])
    if is_list(kind):
        inner = kind.value_field.with_type(_type(kind.value_type))
        return kind if inner.type.equals(kind.value_type) else pa.large_list(inner)
    if types.is_float16(kind):
        return pa.float32()
    if types.is_decimal(kind):
        return _decimal(kind)
    if types.is_map(kind):
        return pa.map_(_type(kind.key_type), _type(kind.item_type))
    return kind


def _decimal(kind: Any) -> Any:
    """The type of 128 or 256 bits, without a negative scale, that holds the same decimals."""
    if kind.bit_width >= 128 and kind.scale >= 0:
        return kind
    digits = kind.precision + max(0, -kind.scale)
    scale = max(0, kind.scale)
    if digits > 76:  # more than Arrow has
        return kind
    return pa.decimal128(digits, scale) if digits <= 38 else pa.decimal256(digits, scale)


def is_list(kind: Any) -> bool:
    """Return whether an Arrow type is one of lists, of any form."""
    types = pa.types
    predicates = (
        types.is_list,
        types.is_large_list,
        types.is_fixed_size_list,
        types.is_list_view,
        types.is_large_list_view,
    )
    return any(predicate(kind) for predicate in predicates)
