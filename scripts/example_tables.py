"""Small good tables and arrays, and the types, shapes and values that other tools give them (for fuzz_calls.py)."""

from __future__ import annotations

import array
import random
import uuid
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

SIZES = [1, 3, 8, 5, 12, 4, 6, 9]
N_ROWS = sum(SIZES)
FIRST_DAY = datetime(2026, 3, 1)


def rows() -> pa.Table:
    """Rows of eight queries with every role that a column may have."""
    draw = np.random.default_rng(20261128)
    query = np.repeat(np.arange(len(SIZES)), SIZES)
    label = draw.integers(0, 5, N_ROWS)
    return pa.table(
        {
            "query_id": [f"q{number}" for number in query],
            "document_id": [f"d{row}" for row in range(N_ROWS)],
            "label": label,
            "score": (label + draw.normal(0, 1, N_ROWS)).round(4),
            "other": draw.normal(0, 1, N_ROWS).round(4),
            "price": draw.integers(1, 100, N_ROWS),
            "colour": [("red", "green", "blue")[row % 3] for row in range(N_ROWS)],
            "day": [FIRST_DAY + timedelta(days=int(number)) for number in query],
            "rank": np.concatenate([np.arange(1, size + 1) for size in SIZES]),
            "weight": (query + 1) / 4,
            "judged": np.ones(N_ROWS, dtype=bool),
            "retrieved": np.ones(N_ROWS, dtype=bool),
        }
    )


def per_query() -> pa.Table:
    """Values of two metrics for each of twelve queries."""
    draw = np.random.default_rng(3)
    return pa.table(
        {
            "query_id": [f"q{number}" for number in range(12)],
            "ndcg@10": draw.random(12).round(4),
            "mrr": draw.random(12).round(4),
        }
    )


def experiments() -> pa.Table:
    """Twelve past experiments, as `agreement` takes them."""
    draw = np.random.default_rng(5)
    effect = draw.normal(0, 1, 12)
    return pa.table(
        {
            "experiment": [f"e{number}" for number in range(12)],
            "online": (effect + draw.normal(0, 0.2, 12)).round(4),
            "online_se": np.full(12, 0.2),
            "ndcg@10": (effect / 50 + draw.normal(0, 0.004, 12)).round(4),
            "ndcg@10_se": np.full(12, 0.004),
            "map": (effect / 40 + draw.normal(0, 0.01, 12)).round(4),
            "map_se": np.full(12, 0.01),
        }
    )


# The forms of a column with the same content: what is computed from them must be the same, too.

Form = Callable[[list[Any], random.Random], Any]


def _dictionary_array(values: list[Any], draw: random.Random) -> Any:
    """A dictionary of unusual order, with a value that no row has."""
    words = sorted({value for value in values if value is not None}, key=str, reverse=True)
    kind = draw.choice([pa.int8(), pa.uint8(), pa.int16(), pa.uint32(), pa.int64()])
    codes = pa.array([None if value is None else words.index(value) for value in values], kind)
    dictionary = pa.array(words) if not isinstance(words[0], str) else pa.array([*words, "of no row"])
    if isinstance(words[0], str):
        dictionary = dictionary.cast(draw.choice([pa.string(), pa.large_string(), pa.string_view()]))
    return pa.DictionaryArray.from_arrays(codes, dictionary, ordered=draw.random() < 0.3)


def _runs(values: list[Any], draw: random.Random) -> Any:
    return pc.run_end_encode(pa.array(values), draw.choice([pa.int16(), pa.int32(), pa.int64()]))


def _array_of(kind: pa.DataType) -> Form:
    return lambda values, draw: pa.array(values, kind)


def _decimals(values: list[Any], draw: random.Random) -> Any:
    kind = draw.choice([pa.decimal32(9, 4), pa.decimal64(18, 4), pa.decimal128(38, 4), pa.decimal256(76, 4)])
    return pa.array([None if value is None else Decimal(str(value)) for value in values], kind)


SAME: Mapping[type, Mapping[str, Form]] = {
    str: {
        "string": _array_of(pa.string()),
        "large string": _array_of(pa.large_string()),
        "string view": _array_of(pa.string_view()),
        "dictionary": _dictionary_array,
        "runs": _runs,
    },
    int: {
        **{
            f"{kind}": _array_of(kind)
            for kind in (pa.int8(), pa.int16(), pa.int64(), pa.uint8(), pa.uint64())
        },
        "double": lambda values, draw: pa.array(values, pa.float64(), from_pandas=True),
        "decimals": _decimals,
        "dictionary": _dictionary_array,
        "runs": _runs,
    },
    float: {
        "double": _array_of(pa.float64()),
        "decimals": _decimals,
        "dictionary": _dictionary_array,
        "runs": _runs,
    },
    bool: {"bool": _array_of(pa.bool_()), "runs": _runs},
    datetime: {
        **{f"timestamp[{unit}]": _array_of(pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")},
        "date32": _array_of(pa.date32()),
        "date64": _array_of(pa.date64()),
        "text": lambda values, draw: pa.array([value.date().isoformat() for value in values]),
        "dictionary": lambda values, draw: pa.array(values, pa.timestamp("us")).dictionary_encode(),
        "runs": _runs,
    },
}

# Columns of everything else.
SENTINELS: list[Any] = [
    "0001-01-01", "1677-09-21", "1970-01-01", "2262-04-12", "9999-12-31", "9999-12-31T23:59:59.999999999Z", "NaT",
    "nan", "", "0", "2026-9-1", "01/02/2026", "2026-03-29T02:30", "2026-W05", "2026-02-30", "+292277026596-12-04",
]  # fmt: skip
TEXTS: list[Any] = [
    "", " ", "x" * 1001, "\0", "\x1b[2J", "\u202e", "é🦆", "nan", "NaN", "inf", "1e400", "-0", "0x10", "1_000", "true",
]  # fmt: skip
NUMBERS = [0.0, -0.0, -1.0, 0.5, 1e300, -1e300, 5e-324, float("nan"), float("inf"), -float("inf"), 2.0**63]
WHOLE = [0, -1, 1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63)]
MOMENTS = [0, 1, -1, 2**62, -(2**62), 2**63 - 1, -(2**63), 253402300799, -62135596800]
ZONES = ["UTC", "+05:30", "Europe/Berlin", "Asia/Kolkata", "Mars/Olympus", ""]


def _drawing_from(values: list[Any]) -> Callable[[int, random.Random], list[Any]]:
    def draw_values(n: int, draw: random.Random) -> list[Any]:
        few = draw.sample(values, min(len(values), draw.choice([1, 2, 5])))
        return [draw.choice(few) for _ in range(n)]

    return draw_values


def _list_array(n: int, draw: random.Random) -> Any:
    values = [draw.choice([[], [1], [1, 2], None]) for _ in range(n)]
    kinds = [pa.list_, pa.large_list, pa.list_view, pa.large_list_view]
    return pa.array(values, draw.choice(kinds)(draw.choice([pa.int64(), pa.float32(), pa.decimal128(5, 1)])))


def _structure(n: int, draw: random.Random) -> Any:
    return pa.array([{"x": "y", "z": [row]} for row in range(n)])


def _union(n: int, draw: random.Random) -> Any:
    kinds, offsets = pa.array([row % 2 for row in range(n)], pa.int8()), pa.array(range(n), pa.int32())
    parts = [pa.array(range(n)), pa.array([str(row) for row in range(n)])]
    if draw.random() < 0.5:
        return pa.UnionArray.from_sparse(kinds, parts)
    return pa.UnionArray.from_dense(kinds, offsets, parts)


def _extension(n: int, draw: random.Random) -> Any:
    ids = pa.array([uuid.UUID(int=row // 3).bytes for row in range(n)], pa.binary(16))
    texts = pa.array(['{"a": 1}'] * n)
    return draw.choice(
        [
            lambda: pa.ExtensionArray.from_storage(pa.uuid(), ids),
            lambda: pa.ExtensionArray.from_storage(pa.json_(), texts),
            lambda: pa.ExtensionArray.from_storage(
                pa.bool8(), pa.array([row % 2 for row in range(n)], pa.int8())
            ),
            lambda: pa.ExtensionArray.from_storage(pa.opaque(pa.string(), "odd", "tool"), texts),
        ]
    )()


def _moments(n: int, draw: random.Random) -> Any:
    counts = pa.array(_drawing_from(MOMENTS)(n, draw), pa.int64())
    unit = draw.choice(["s", "ms", "us", "ns"])
    kind = draw.choice(
        [pa.timestamp(unit), pa.timestamp(unit, draw.choice(ZONES) or None), pa.duration(unit)]
    )
    return counts.cast(kind)


def _clock(n: int, draw: random.Random) -> Any:
    kind = draw.choice([pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")])
    small = pa.array(list(range(n)), pa.int32() if kind.bit_width == 32 else pa.int64())
    return small.cast(kind)


def _dates(n: int, draw: random.Random) -> Any:
    if draw.random() < 0.5:
        return pa.array(
            [draw.choice([0, -719162, 2932896, 2**31 - 1, -(2**31)]) for _ in range(n)], pa.int32()
        ).cast(pa.date32())
    return pa.array([date(2026, 1, 1 + row % 28) for row in range(n)], pa.date64())


def _huge_decimals(n: int, draw: random.Random) -> Any:
    kind = draw.choice(
        [pa.decimal128(38, 0), pa.decimal128(38, 38), pa.decimal256(76, 10), pa.decimal128(5, -3)]
    )
    values = [Decimal(row).scaleb(-kind.scale if kind.scale < 0 else 0) for row in range(n)]
    small = kind.scale == kind.precision
    return pa.array([value.scaleb(-3) for value in values] if small else values, kind)


def _binary(n: int, draw: random.Random) -> Any:
    kind = draw.choice([pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(2)])
    return pa.array([b"\xff\xfe" if row % 2 else b"ab" for row in range(n)], kind)


def _coded_by(make: Callable[[int, random.Random], Any]) -> Callable[[int, random.Random], Any]:
    def coded(n: int, draw: random.Random) -> Any:
        column = pa.array(make(n, draw))
        return draw.choice([lambda: column.dictionary_encode(), lambda: pc.run_end_encode(column)])()

    return coded


OTHER: Mapping[str, Callable[[int, random.Random], Any]] = {
    "null": lambda n, draw: pa.nulls(n, draw.choice([pa.null(), pa.string(), pa.float64(), pa.int8()])),
    "texts": _drawing_from(TEXTS),
    "sentinels": _drawing_from(SENTINELS),
    "numbers": _drawing_from(NUMBERS),
    "whole numbers": _drawing_from(WHOLE),
    "half floats": lambda n, draw: pa.array(
        np.array(_drawing_from([0, 1, 65504, np.nan])(n, draw), np.float16)
    ),
    "unsigned": lambda n, draw: pa.array(_drawing_from([0, 1, 2**64 - 1])(n, draw), pa.uint64()),
    "truth": _drawing_from([True, False, None]),
    "nested": _list_array,
    "fixed": lambda n, draw: pa.array([[1.0, 2.0]] * n, pa.list_(pa.float32(), 2)),
    "structure": _structure,
    "map": lambda n, draw: pa.array([[("a", 1)]] * n, pa.map_(pa.string(), pa.int64())),
    "union": _union,
    "extension": _extension,
    "moments": _moments,
    "clock": _clock,
    "dates": _dates,
    "interval": lambda n, draw: pa.array([(1, 2, 3)] * n, pa.month_day_nano_interval()),
    "huge decimals": _huge_decimals,
    "binary": _binary,
    "coded texts": _coded_by(_drawing_from(TEXTS)),
    "coded sentinels": _coded_by(_drawing_from(SENTINELS)),
    "coded numbers": _coded_by(_drawing_from(NUMBERS)),
    "coded moments": _coded_by(_moments),
    "coded truth": _coded_by(_drawing_from([True, False])),
}


def changed_table(table: pa.Table, draw: random.Random) -> tuple[pa.Table, bool]:
    """The table with one to three columns in other forms, and whether its content is the same."""
    same = True
    for name in draw.sample(table.column_names, draw.choice([1, 1, 2, 3])):
        values = table[name].to_pylist()
        if draw.random() < 0.5 and type(values[0]) in SAME:
            forms = SAME[type(values[0])]
            column = forms[draw.choice(sorted(forms))](values, draw)
        else:
            same = False
            column = other_column(values, draw)
        column = _in_chunks(column, draw)
        table = table.set_column(table.column_names.index(name), name, column)
    return (table, same) if draw.random() < 0.9 else (_misshape(table, draw), False)


def other_column(values: list[Any], draw: random.Random) -> Any:
    """A column of any type, or the values with some missing or odd among them."""
    if draw.random() < 0.3:
        odd = draw.choice([None, *SENTINELS, *TEXTS]) if isinstance(values[0], str) else None
        odd_rows = set(draw.sample(range(len(values)), draw.choice([1, len(values) // 3, len(values)])))
        return pa.array([odd if row in odd_rows else value for row, value in enumerate(values)])
    return pa.array(OTHER[draw.choice(sorted(OTHER))](len(values), draw))


def _in_chunks(column: Any, draw: random.Random) -> Any:
    """The column as it is, as a slice of a longer one, or in several chunks of which one is empty."""
    column = pa.array(column) if isinstance(column, list) else column
    match draw.randrange(3):
        case 0:
            return column
        case 1:
            try:
                return pa.concat_arrays([column[:2], column]).slice(2)
            except pa.ArrowException:  # of some types none are put together
                return column
        case _:
            return pa.chunked_array([column[:2], column[2:2], column[2:]])


def _misshape(table: pa.Table, draw: random.Random) -> pa.Table:
    """Without rows, without a column, with a name twice or an unusual one, or in another order."""
    name = draw.choice(table.column_names)
    match draw.randrange(5):
        case 0:
            return table.slice(0, draw.choice([0, 1]))
        case 1:
            return table.drop_columns([name])
        case 2:
            return table.append_column(name, table[draw.choice(table.column_names)])
        case 3:
            odd = draw.choice(["", " ", "\x1b[2J", "é", "x" * 5000, "a\nb", "ndcg@10", "qid"])
            return table.rename_columns([odd if column == name else column for column in table.column_names])
        case _:
            order = list(range(table.num_rows))
            draw.shuffle(order)
            try:
                return table.take(order)
            except pa.ArrowException:  # rows of some types cannot be taken
                return table


# Frames


PANDAS = [
    "object", "category", "Int64", "UInt8", "Float32", "boolean", "string", "complex128", "float16", "longdouble",
    "datetime64[s]", "datetime64[ns, Europe/Berlin]", "timedelta64[ns]", "Sparse[float]", "Sparse[int]", "S3",
    "period[D]", "string[pyarrow]", "int64[pyarrow]", "bool",
]  # fmt: skip


def without_runs(table: pa.Table) -> pa.Table:
    """The table with runs written out: in pandas, Arrow crashes on runs of times."""
    columns = [
        pc.run_end_decode(column) if pa.types.is_run_end_encoded(column.type) else column
        for column in table.columns
    ]
    return pa.table(columns, names=table.column_names)


def _pandas(table: pa.Table, draw: random.Random) -> tuple[Any, bool]:
    """A pandas frame, of which one column may have another dtype, the index or the columns another form."""
    if draw.random() < 0.3:
        return table.to_pandas(types_mapper=pd.ArrowDtype), True
    frame = without_runs(table).to_pandas()
    if draw.random() < 0.5:
        return frame, True
    name = frame.columns[draw.randrange(frame.shape[1])] if frame.shape[1] else ""
    match draw.randrange(6):
        case 0:
            frame = frame.set_index(name)
        case 1:
            frame.columns = pd.MultiIndex.from_product([["a"], frame.columns])
        case 2:
            frame = frame.rename(columns={name: draw.choice([0, None, 1.5, ("a", "b"), pd.NaT, name])})
        case 3:
            frame[name] = [
                draw.choice([1, "x", None, 2.5, [1], object, pd.NA, b"x"]) for _ in range(len(frame))
            ]
        case 4:
            frame[name] = pd.arrays.IntervalArray.from_breaks(range(len(frame) + 1))
        case _:
            frame[name] = frame[name].astype(draw.choice(PANDAS))
    return frame, False


def _polars(table: pa.Table, draw: random.Random) -> tuple[Any, bool]:
    """A Polars frame, of which one column may have another dtype."""
    import polars as pl

    frame = pl.from_arrow(table)
    if draw.random() < 0.5:
        return (frame.lazy() if draw.random() < 0.2 else frame), True
    name = draw.choice(frame.columns)
    kinds = [
        pl.Categorical, pl.Decimal(38, 4), pl.Int128, pl.UInt128, pl.Float16, pl.Binary, pl.Boolean, pl.String, pl.Null,
        pl.List(pl.Int64), pl.Date, pl.Datetime("us", "Asia/Kolkata"), pl.Datetime("ms"), pl.Duration("ns"), pl.Time,
        pl.Object,
    ]  # fmt: skip
    if draw.random() < 0.2:
        texts = frame[name].cast(pl.String)
        return frame.with_columns(texts.cast(pl.Enum(texts.drop_nulls().unique().sort()))), False
    if draw.random() < 0.1:
        return frame.with_columns(pl.struct(pl.col(name)).alias(name)), False
    return frame.with_columns(pl.col(name).cast(draw.choice(kinds), strict=False)), False


def frame_of(table: pa.Table, draw: random.Random) -> tuple[Any, bool]:
    """The table as a frame of Arrow, pandas or Polars, if it can be, and whether its content is the same."""
    make = draw.choice([None, _pandas, _pandas, _polars])
    if make is None:
        return table, True
    try:
        return make(table, draw)
    except BaseException as problem:  # Polars panics, and pandas raises all kinds
        if isinstance(problem, KeyboardInterrupt | SystemExit):
            raise
        return table, True


# Arrays

ARRAYS: Mapping[str, Callable[[Any], Any]] = {
    "list": lambda values: values.tolist(),
    "tuple": lambda values: tuple(values.tolist()),
    "strided": lambda values: np.repeat(values, 2, axis=0)[::2],
    "backwards": lambda values: values[::-1].copy()[::-1],
    "big-endian": lambda values: values.astype(values.dtype.newbyteorder(">")),
    "objects": lambda values: values.astype(object),
    "series": lambda values: (
        pd.Series(values, index=range(7, 7 + len(values))) if values.ndim == 1 else values
    ),
    "arrow": lambda values: pa.array(values) if values.ndim == 1 else values,
    "no mask": np.ma.masked_array,
    "fortran": np.asfortranarray,
}
DTYPES = [
    "?",
    "i1",
    "u8",
    "f2",
    "f4",
    "g",
    "F",
    "D",
    "G",
    "O",
    "U4",
    "S4",
    "T",
    "M8[D]",
    "M8[ns]",
    "m8[s]",
    "V4",
]


def read_only(values: Any) -> Any:
    """A copy that nobody may write to."""
    copy = np.array(values)
    copy.setflags(write=False)
    return copy


def _odd_entries(values: Any, draw: random.Random) -> Any:
    """One entry that is missing, of another type or out of range."""
    odd = draw.choice(
        [None, np.nan, np.inf, -1, 1e300, "x", b"x", 2**70, 1j, [1], {}, pd.NA, pd.NaT, Decimal("1.5")]
    )
    entries = values.astype(object)
    entries.flat[draw.randrange(entries.size)] = odd
    return entries if draw.random() < 0.5 else entries.tolist()


def _mask(values: Any, draw: random.Random) -> Any:
    mask = np.zeros(values.shape, dtype=bool)
    mask.flat[draw.sample(range(mask.size), draw.choice([1, mask.size // 2, mask.size]))] = True
    return np.ma.masked_array(values, mask, hard_mask=draw.random() < 0.5)


def _polars_series(values: Any, draw: random.Random) -> Any:
    import polars as pl

    return pl.Series(values if values.ndim == 1 else list(values))


OTHER_ARRAYS: Mapping[str, Callable[[Any, random.Random], Any]] = {
    "entries": _odd_entries,
    "masked": _mask,
    "dtype": lambda values, draw: values.astype(draw.choice(DTYPES)),
    "structured": lambda values, draw: np.zeros(len(values), dtype=[("a", "f8"), ("b", "U2")]),
    "matrix": lambda values, draw: values.reshape(-1, 1, 1) if draw.random() < 0.5 else values[None],
    "scalar": lambda values, draw: draw.choice([values.flat[0], np.array(3.0), 3, "abc", b"abc"]),
    "short": lambda values, draw: values[: draw.choice([0, 1, len(values) - 1])],
    "long": lambda values, draw: np.concatenate([values, values]),
    "ragged": lambda values, draw: [[1], [1, 2], *([[3]] * (len(values) - 2))],
    "generator": lambda values, draw: (value for value in values.tolist()),
    "set": lambda values, draw: set(values.ravel().tolist()),
    "dict": lambda values, draw: dict(enumerate(values.tolist())),
    "memory": lambda values, draw: memoryview(array.array("d", range(len(values)))),
    "polars": _polars_series,
    "frame": lambda values, draw: pd.DataFrame(values),
    "odd column": lambda values, draw: other_column(values.ravel().tolist(), draw),
    "constant": lambda values, draw: np.full_like(values, values.flat[0]),
    "huge": lambda values, draw: np.array(draw.choices(NUMBERS, k=len(values))),
}


def changed_arrays(arrays: Mapping[str, Any], draw: random.Random) -> tuple[dict[str, Any], bool]:
    """One to three arrays in other forms, and whether their content is the same."""
    changed, same = dict(arrays), True
    for name in draw.sample(sorted(arrays), min(len(arrays), draw.choice([1, 1, 2, 3]))):
        values = changed[name]
        if draw.random() < 0.4:
            forms = {**ARRAYS, "read-only": read_only}
            changed[name] = forms[draw.choice(sorted(forms))](values)
            continue
        same = False
        try:
            changed[name] = OTHER_ARRAYS[draw.choice(sorted(OTHER_ARRAYS))](values, draw)
        except (
            ValueError,
            TypeError,
            OverflowError,
            pa.ArrowException,
        ):  # there is no such array of these values
            changed[name] = None
    return changed, same
