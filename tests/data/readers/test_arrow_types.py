"""Tables in every type that Arrow has for a text, a number and an id are the same data at every door."""

import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import csv, ipc, parquet

from ltr_harness import compare, evaluate, evaluate_runs
from ltr_harness.arrow import merge, per_query, per_query_of
from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.comparison import evaluate_stream
from ltr_harness.data import RankingDataset, from_arrays, from_frame
from ltr_harness.data.columns import category_of, decoded
from ltr_harness.data.computable import computable, computable_column
from ltr_harness.data.readers.parquet import Parquet
from ltr_harness.errors import DataError
from ltr_harness.monitoring import monitor
from tests.conftest import named_case

ROWS: dict[str, list[Any]] = {
    "query_id": ["a", "b", "a", "b", "c", "c"],
    "label": [0, 1, 1, 0, 2, 0],
    "score": [1.0, 2.0, 3.0, 1.0, 2.0, 3.0],
    "document_id": ["1", "2", "3", "4", "5", "6"],
    "colour": ["red", "green", "red", None, "blue", "green"],
}
SORTED = {name: [values[at] for at in (0, 2, 1, 3, 4, 5)] for name, values in ROWS.items()}
TABLE = pa.table(SORTED)
TEXTS = ("query_id", "document_id", "colour")


def change_columns(
    change: Callable[[str, Any], Any], names: tuple[str, ...] = TEXTS, table: pa.Table = TABLE
) -> pa.Table:
    return pa.table(
        {name: change(name, table[name]) if name in names else table[name] for name in table.schema.names}
    )


def as_views(name: str, column: Any) -> Any:
    return column.cast(pa.string_view())


def as_words(name: str, column: Any) -> Any:
    coded = column.combine_chunks().dictionary_encode()
    return pa.DictionaryArray.from_arrays(coded.indices, coded.dictionary.cast(pa.string_view()))


def as_runs(name: str, column: Any) -> Any:
    return pc.run_end_encode(column)


def of_polars(kind: Any) -> Any:
    frame = pl.DataFrame(SORTED)
    return frame.with_columns(pl.col(name).cast(kind(SORTED[name])) for name in TEXTS)


def enum(values: list[Any]) -> Any:
    return pl.Enum(sorted({value for value in values if value is not None}))


TABLES: dict[str, Any] = {
    "views": change_columns(as_views),
    "words": change_columns(as_words),
    "runs": change_columns(as_runs),
    "runs of numbers": change_columns(as_runs, ("label", "score")),
    "polars": pl.DataFrame(SORTED),
    "categorical": of_polars(lambda values: pl.Categorical),
    "enum": of_polars(enum),
    "others beside": change_columns(as_views)
    .append_column("view", pa.array([["x"]] * 6, pa.list_(pa.string_view())))
    .append_column("structure", pa.array([{"x": "y"}] * 6, pa.struct([("x", pa.string_view())])))
    .append_column(
        "union",
        pa.UnionArray.from_dense(
            pa.array([0] * 6, pa.int8()), pa.array(range(6), pa.int32()), [pa.array(range(6))]
        ),
    ),
}


def write_arrow(table: Any, tmp_path: Path) -> str:
    """The name of an Arrow file, as Polars and Arrow write it."""
    path = tmp_path / "rows.arrow"
    if isinstance(table, pl.DataFrame):
        table.write_ipc(path)
    else:
        with ipc.new_file(path, table.schema) as file:
            file.write_table(table)
    return path.name


@pytest.mark.parametrize("kind", TABLES)
def test_rows_of_frames_and_files(kind: str, tmp_path: Path) -> None:
    table, roles = (
        TABLES[kind],
        {"features": ["score"], "categorical": ["colour"], "attributes": ["query_id2"]},
    )
    frame = (
        table.with_columns(query_id2="query_id")
        if isinstance(table, pl.DataFrame)
        else table.append_column("query_id2", table["query_id"])
    )

    def facts(data: RankingDataset) -> list[Any]:
        ids = data.judgments.document_ids
        assert ids is not None
        matrix = np.nan_to_num(data.features, nan=-1).tolist()
        attributes = data.query_attributes["query_id2"].tolist()
        return [
            data.groups.ids.tolist(),
            data.labels.tolist(),
            ids.tolist(),
            matrix,
            dict(data.categories),
            attributes,
        ]

    expected = facts(from_frame(TABLE.append_column("query_id2", TABLE["query_id"]), **roles))
    assert facts(from_frame(frame, **roles)) == expected
    read = Parquet.model_validate(roles).read([write_arrow(frame, tmp_path)], tmp_path)
    assert facts(read) == expected


METRICS, COLUMN = ["ndcg@3", "mrr"], {"document_id": "document_id"}
JUDGED = pa.table({"query_id": ["a", "b", "c"], "document_id": ["3", "2", "5"], "label": [1, 1, 2]})


@pytest.fixture(scope="module")
def expected() -> tuple[Any, Any, dict[str, float], dict[str, float], pd.DataFrame]:
    """Values of the plain table: per query, in the order of their ids, of a stream, of a run, and compared."""
    values = per_query(pa.table(ROWS), METRICS, COLUMN)
    whole = merge([values])
    of_stream = evaluate_stream(TABLE, METRICS, "score").means
    of_run = evaluate_runs(JUDGED, TABLE, METRICS)["run"].means
    return values, whole, dict(of_stream), dict(of_run), compare({"one": whole, "two": whole}).frame()


@pytest.mark.parametrize("kind", TABLES)
def test_values_of_batches_streams_rankings_and_tables(kind: str, expected: Any) -> None:
    table, (values, whole, of_stream, of_run, compared) = TABLES[kind], expected
    as_table = table if isinstance(table, pa.Table) else pa.table(table)
    shuffled = pa.concat_tables(
        [as_table.slice(at, 1) for at in (0, 2, 1, 3, 4, 5)]
    )  # none of which are taken
    assert per_query(shuffled, METRICS, COLUMN).to_pydict() == values.to_pydict()
    in_order = merge(per_query_of(as_table.to_batches(max_chunksize=1), METRICS, COLUMN))
    assert in_order.to_pydict() == whole.to_pydict()
    assert evaluate_stream(table, METRICS, "score").means == of_stream
    assert evaluate_runs(JUDGED, table, METRICS)["run"].means == of_run
    found: Any = change_columns(
        {"runs": as_runs, "words": as_words}.get(kind, as_views), ("query_id",), whole
    )
    if isinstance(table, pl.DataFrame):
        found = pl.DataFrame(whole.to_pydict(), schema_overrides={"query_id": table.schema["query_id"]})
    assert compare({"one": found, "two": found}).frame().equals(compared)


def test_uuids_are_their_text(tmp_path: Path) -> None:
    ids = [uuid.UUID(int=at + 7) for at in range(3)]
    stored = pa.array([one.bytes for one in ids for _ in range(2)], pa.binary(16))
    query = pa.ExtensionArray.from_storage(pa.uuid(), stored)
    table = TABLE.set_column(0, "query_id", query).drop_columns("colour")
    texts = list(map(str, ids))
    assert from_frame(table).groups.ids.tolist() == texts
    assert Parquet().read([write_arrow(table, tmp_path)], tmp_path).groups.ids.tolist() == texts
    parquet.write_table(table, tmp_path / "rows.parquet")
    assert Parquet().read(["rows.parquet"], tmp_path).groups.ids.tolist() == texts
    assert per_query(table, "mrr")["query_id"].to_pylist() == texts
    stream = evaluate_stream(tmp_path / "rows.parquet", "mrr", "score")
    assert stream.means == evaluate_stream(TABLE, "mrr", "score").means
    column = pa.ExtensionArray.from_storage(
        pa.uuid(), pa.array([ids[0].bytes, None, ids[2].bytes], pa.binary(16))
    )
    assert decoded(column.slice(1)).to_pylist() == [None, texts[2]]
    assert decoded(pa.chunked_array([column, column.slice(2)])).to_pylist() == [
        texts[0],
        None,
        texts[2],
        texts[2],
    ]
    json = pa.ExtensionArray.from_storage(pa.json_(), pa.array(SORTED["query_id"]))
    with pytest.raises(
        DataError, match=r"'query_id': has the type extension<arrow\.json>; expected text or integers"
    ):
        per_query(TABLE.set_column(0, "query_id", json), "mrr")


@pytest.mark.parametrize("kind", ["view", "words", "runs", "pandas", "uuid"])
def test_ids_in_arrays(kind: str) -> None:
    texts = [str(uuid.UUID(int=at // 2)) for at in range(4)]
    storage = pa.array([uuid.UUID(text).bytes for text in texts], pa.binary(16))
    column = {
        "view": pa.array(texts, pa.string_view()),
        "words": pa.DictionaryArray.from_arrays(
            pa.array([0, 0, 1, 1]), pa.array(texts[1:3], pa.string_view())
        ),
        "runs": pc.run_end_encode(pa.array(texts)),
        "pandas": pd.Series(texts, dtype=pd.ArrowDtype(pa.string_view())),
        "uuid": pa.ExtensionArray.from_storage(pa.uuid(), storage),
    }[kind]
    rows = from_arrays([[1.0]] * 4, [0, 1, 0, 1], query_ids=column, attributes={"market": column})
    assert rows.groups.ids.tolist() == texts[1:3]
    assert rows.query_attributes["market"].tolist() == texts[1:3]
    assert (
        evaluate([0, 1, 0, 1], [1, 2, 3, 4], query_ids=column, metrics="mrr").query_ids.tolist() == texts[1:3]
    )


def test_a_frame_of_pandas_with_views() -> None:
    values = pd.DataFrame({"query_id": ["a", "b", "c"], "mrr": [0.1, 0.2, 0.3]})
    views = values.astype({"query_id": pd.ArrowDtype(pa.string_view())})
    assert (
        compare({"one": views, "two": views}).frame().equals(compare({"one": values, "two": values}).frame())
    )


VIEWS = pa.array(["a", None, "b", "a", "longer than twelve letters"], pa.string_view())
LISTS = [["a", "b"], None, [], ["c", None], ["d"]]
COLUMNS = {
    "view": VIEWS,
    "bytes": pa.array([b"x", None, b"y", b"", b"z"], pa.binary_view()),
    "words": pa.DictionaryArray.from_arrays(pa.array([0, None, 2, 4, 3], pa.uint8()), VIEWS),
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 5]), pa.array(["a", None, "b"], pa.string_view())),
    "runs of words": pa.RunEndEncodedArray.from_arrays(
        pa.array([2, 3, 5], pa.int16()), pa.array(["a", None, "b"]).dictionary_encode()
    ),
    "list": pa.array(LISTS, pa.list_(pa.string_view())),
    "list view": pa.array(LISTS, pa.list_view(pa.string_view())),
    "large list view": pa.array(LISTS, pa.large_list_view(pa.string())),
    "fixed list": pa.array([["a", "b"], None, ["c", None], ["d", "e"], ["f", "g"]], pa.list_(pa.string_view(), 2)),
    "list of words": pa.LargeListArray.from_arrays(
        pa.array([0, 1, 1, 2, 5, 5], pa.int64()),
        pa.DictionaryArray.from_arrays(pa.array([0, None, 2, 4, 3]), VIEWS),
    ),
    "words of lists": pa.DictionaryArray.from_arrays(pa.array([0, None, 2, 4, 3]), pa.array(LISTS)),
    "structure": pa.array([{"a": "x"}, None, {"a": None}, {}, {"a": "z"}], pa.struct([("a", pa.string_view())])),
    "map": pa.array([[("a", "x")], None, [], [("b", "y")], [("c", None)]], pa.map_(pa.string_view(), pa.string_view())),
    "of another tool": pa.ExtensionArray.from_storage(pa.opaque(pa.string_view(), "words", "tool"), VIEWS),
}  # fmt: skip


def test_what_arrow_computes_with_has_the_same_values() -> None:
    for kind, column in COLUMNS.items():
        with named_case(kind):
            for part in (
                column,
                column.slice(1, 3),
                column.slice(0, 0),
                pa.chunked_array([column.slice(0, 2), column.slice(2)]),
            ):
                found = computable_column(part)
                assert found.to_pylist() == part.to_pylist()
                found.validate(full=True)
                taken = found.take(pa.array(range(len(found))[::-1], pa.int64()))
                assert taken.to_pylist() == part.to_pylist()[::-1]
                table = computable(pa.table({"column": part}))
                assert table["column"].to_pylist() == part.to_pylist()
                assert computable(table) is table


@pytest.mark.parametrize(("n", "codes"), [(127, pa.int8()), (128, pa.int8()), (256, pa.uint8())])
def test_codes_that_fill_their_bits(n: int, codes: Any) -> None:
    words = pa.array([f"{word:03}" for word in range(n)])
    column = pa.DictionaryArray.from_arrays(pa.array([*range(n), None], codes), words)
    assert category_of(column).codes.tolist() == [*range(n), -1]


def test_long_runs_are_refused_before_they_are_written_out(tmp_path: Path) -> None:
    ends = pa.array([10_000_000], pa.int32())
    runs = pa.RunEndEncodedArray.from_arrays(ends, pa.array(["1" * 1000]))
    with pytest.raises(DataError, match="without runs of equal values, its columns take"):
        Parquet(features=("x",)).read(
            [write_arrow(pa.table({"query_id": runs, "label": runs, "x": runs}), tmp_path)], tmp_path
        )


def test_a_log_of_polars_with_categories() -> None:
    lists = [[], ["click"], ["buy", "click"], None, ["click"], []]
    log = pl.DataFrame({**SORTED, "rank": [1, 2] * 3, "market": ["de"] * 4 + ["fr"] * 2, "events": lists})
    columns = {"item_id": "document_id", "rank": "rank", "segments": ["market"]}
    settings = {
        "columns": columns,
        "relevance": {"list_column": "events", "events": {"click": 1, "buy": 2}},
        "metrics": ["mrr@10"],
    }
    plain = monitor(settings, log=log)
    coded = log.with_columns(
        pl.col("query_id", "document_id", "market").cast(pl.Categorical),
        pl.col("events").cast(pl.List(pl.Categorical)),
    )
    views = (
        pa.table(log)
        .drop_columns("events")
        .append_column("events", pa.array(lists, pa.list_view(pa.string())))
    )
    for one in (coded, pa.table(coded), pa.table(log), views):
        assert repr(monitor(settings, log=one).windows) == repr(plain.windows)  # with NaN


def test_init_passes_over_columns_that_are_no_texts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kinds = ("list", "fixed list", "list view", "structure", "map", "words of lists")
    table = change_columns(as_views)
    for kind in kinds:
        column = pa.concat_arrays([COLUMNS[kind], COLUMNS[kind].slice(0, 1)])
        table = table.append_column(kind.replace(" ", "_"), column)
    path = tmp_path / write_arrow(table, tmp_path)
    assert run_command(cli, ["init", str(path), "-o", str(tmp_path / "a.yaml")]) == 0
    names = [kind.replace(" ", "_") for kind in kinds]
    said = " ".join(capsys.readouterr().out.split())
    assert f"ignored non-numeric columns of rows.arrow: {', '.join(['colour', *names])}" in said
    for name in names:
        code = run_command(
            cli, ["init", str(path), "-o", str(tmp_path / "b.yaml"), "--column", f"query={name}"]
        )
        assert code == 2
        assert f"column '{name}': has the type" in " ".join(capsys.readouterr().err.split())


def test_a_column_with_two_roles_is_read_once(tmp_path: Path) -> None:
    days = ["2024-01-01", "2024-01-01", "2024-01-03", "2024-01-03", "2024-01-05", "2024-01-05"]
    table = TABLE.append_column("day", pa.array(days))
    roles = {"features": ["score"], "attributes": ["day"], "weight": {"half_life": "2 days", "by": "day"}}
    for data in (
        from_frame(table, **roles),
        Parquet.model_validate(roles).read([write_arrow(table, tmp_path)], tmp_path),
    ):
        assert data.query_attributes["day"].tolist() == days[::2]
        weights = data.weights_of_rows()
        assert weights is not None
        np.testing.assert_allclose(weights, [0.25, 0.25, 0.5, 0.5, 1, 1], rtol=1e-9)


def test_a_file_of_polars_is_divided(tmp_path: Path) -> None:
    path = tmp_path / write_arrow(TABLES["others beside"].drop_columns("union"), tmp_path)
    command = ["data", "split", str(path), "-o", str(tmp_path / "parts"), "--test", "0.3"]
    assert run_command(cli, command) == 0
    parts = [pa.ipc.open_file(tmp_path / "parts" / f"{part}.arrow").read_all() for part in ("train", "test")]
    assert sorted(pa.concat_tables(parts)["document_id"].to_pylist()) == ROWS["document_id"]


def as_kind(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Whole numbers in an Arrow type."""
    if pa.types.is_float16(kind):
        return pa.array(np.array(values, dtype=np.float16))
    return pa.array([Decimal(value) for value in values], kind)


NUMBERS = {
    "half": pa.float16(),
    "decimal32": pa.decimal32(9, 2),
    "decimal64": pa.decimal64(18, 2),
    "negative scale": pa.decimal128(5, -1),
}


@pytest.mark.parametrize("kind", NUMBERS)
def test_small_numbers_are_ids_and_numbers_as_any(kind: str) -> None:
    """Arrow compares no half floats, and makes no dictionaries of small decimals."""
    ids, labels = (
        as_kind([10, 10, 20, 20, 30, 30], NUMBERS[kind]),
        as_kind([0, 10, 10, 0, 20, 0], NUMBERS[kind]),
    )
    table = TABLE.set_column(0, "query_id", ids).set_column(1, "label", labels).select(range(3))
    plain = TABLE.set_column(0, "query_id", pa.array([10, 10, 20, 20, 30, 30])).select(range(3))
    plain = plain.set_column(1, "label", pa.array([0, 10, 10, 0, 20, 0]))
    metrics = ["ndcg@3", "mrr"]
    found, expected = per_query(table, metrics), per_query(plain, metrics)
    assert found.drop_columns(["query_id"]).equals(expected.drop_columns(["query_id"]))
    assert list(map(float, found["query_id"].to_pylist())) == [10, 20, 30]
    batches = table.to_batches(max_chunksize=1)
    assert merge(per_query_of(batches, metrics)).drop_columns(["query_id"]).num_rows == 3
    assert evaluate_stream(table, metrics, "score").means == evaluate_stream(plain, metrics, "score").means
    assert len(category_of(ids).categories) == 3


@pytest.mark.parametrize(
    "ids",
    [
        pa.array([(0, at // 2, 0) for at in range(6)], pa.month_day_nano_interval()),
        pa.array([b"\xff\xfe"] * 6, pa.binary(2)),
        pa.array([at // 2 for at in range(6)], pa.int64()).cast(pa.timestamp("s", "Mars/Olympus")),
    ],
)
def test_ids_of_types_without_names_are_refused(ids: Any) -> None:
    table = TABLE.set_column(0, "query_id", ids)
    calls: list[Callable[[], Any]] = [
        lambda: per_query(table, "mrr"),
        lambda: list(per_query_of(table.to_batches(), "mrr")),
        lambda: evaluate_stream(table, "mrr", "score"),
        lambda: category_of(ids, "query_id"),
    ]
    for call in calls:
        with pytest.raises(DataError, match=r"column 'query_id': has the type .*; expected text or integers"):
            call()


def test_ids_that_are_times_python_has_not() -> None:
    """Nanoseconds of a clock, and days in the year 5 million."""
    clock = pa.array([1, 1, 2, 2, 3, 3], pa.int64()).cast(pa.time64("ns"))
    days = pa.array([2**31 - 1] * 2 + [0] * 4, pa.int32()).cast(pa.date32())
    for ids, n in ((clock, 3), (days, 2)):
        assert per_query(TABLE.set_column(0, "query_id", ids), "mrr").num_rows == n
    parts = [per_query(TABLE.set_column(0, "query_id", days), "mrr")] * 2
    with pytest.raises(DataError, match=r"query .* is in two parts"):
        merge(parts)
    moments = pa.array([-(2**63)] * 6, pa.int64()).cast(pa.timestamp("ns", "Mars/Olympus"))
    with pytest.raises(DataError, match=r"column 'day' contains '1677-09-21 00:12:43\.145224192'"):
        from_frame(TABLE.append_column("day", moments), weight={"half_life": "1 day", "by": "day"})


def test_ids_that_are_the_first_moment_that_there_is() -> None:
    moments = pa.array([-(2**63) + 1] * 2 + [0] * 4, pa.int64()).cast(pa.timestamp("ns"))
    ids = from_frame(TABLE.set_column(0, "query_id", moments)).groups.ids
    assert ids.tolist() == ["1677-09-21 00:12:43.145224193", "1970-01-01 00:00:00.000000000"]


def test_frames_of_pandas_in_types_of_arrow() -> None:
    values = pa.table({"query_id": ["a", "a", "b", "c"], "mrr": [0.1, 0.1, 0.2, 0.3]}).slice(1)
    expected = compare({"one": values, "two": values}).frame()
    for name in values.column_names:
        runs = change_columns(as_runs, (name,), values).to_pandas(types_mapper=pd.ArrowDtype)
        assert compare({"one": runs, "two": runs}).frame().equals(expected)
    interval = pd.arrays.ArrowExtensionArray(pa.array([(1, 2, 3)] * 3, pa.month_day_nano_interval()))
    union = pd.arrays.ArrowExtensionArray(
        pa.UnionArray.from_sparse(pa.array([0] * 3, pa.int8()), [pa.array([1, 2, 3])])
    )
    far = pd.array([2**31 - 1] * 3, dtype=pd.ArrowDtype(pa.int32())).astype(pd.ArrowDtype(pa.date32()))
    for odd in (union, far):
        with pytest.raises(DataError, match="column mrr cannot be read"):
            compare({"one": values, "two": values.to_pandas().assign(mrr=odd)})
    with pytest.raises(DataError, match="column mrr has a value that is not a number"):
        compare({"one": values, "two": values.to_pandas().assign(mrr=interval)})


@pytest.mark.parametrize("odd", [[1j, 2j, 3j], np.array([1, 2, 3], "M8[s]"), np.array([1, 2, 3], "m8[s]")])
def test_values_of_metrics_are_real_numbers(odd: Any) -> None:
    """NumPy makes numbers of times, and drops imaginary parts."""
    values = pd.DataFrame({"query_id": ["a", "b", "c"], "mrr": [0.1, 0.2, 0.3]})
    with pytest.raises(DataError, match="column mrr has a value that is not a number"):
        compare({"one": values, "two": values.assign(mrr=odd)})


def test_columns_that_pandas_cannot_read() -> None:
    values = pd.DataFrame({"query_id": ["a", "b", "c"], "mrr": [0.1, 0.2, 0.3]})
    moments = pa.array([2**42] * 3, pa.int64()).cast(pa.timestamp("s", "Europe/Berlin"))
    of_arrow = pd.Series(pd.arrays.ArrowExtensionArray(moments))
    of_numpy = pd.Series(np.array([2**42] * 3, "M8[s]")).dt.tz_localize("UTC").dt.tz_convert("Europe/Berlin")
    for far in (of_arrow, of_numpy):
        with pytest.raises(DataError, match="column query_id cannot be read"):
            compare({"one": values, "two": values.assign(query_id=far)})


def test_unions_are_no_grades() -> None:
    union = pa.UnionArray.from_sparse(pa.array([0] * 3, pa.int8()), [pa.array([1, 2, 3])])
    rows = {"labels": [0, 1, 0], "group_sizes": [3]}
    with pytest.raises(DataError, match="subtopics cannot be read"):
        from_arrays([[1.0]] * 3, **rows, subtopics=union)
    with pytest.raises(DataError, match="features are not numbers"):
        from_arrays(union, **rows)


class PanicException(BaseException):  # as Polars calls it
    """The exception that some versions of Polars raise for decimals that Arrow has and Polars has not."""


def test_what_polars_cannot_hand_over() -> None:
    class Frame:
        columns = ("query_id", "label", "score")

        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            raise PanicException("assertion failed: *precision <= 38")

    calls: list[Callable[[], Any]] = [
        lambda: from_frame(Frame()),
        lambda: per_query(Frame(), "mrr"),  # type: ignore[arg-type]
        lambda: evaluate_stream(Frame(), "mrr"),
        lambda: evaluate_runs(Frame(), TABLE, ["mrr"]),
        lambda: compare({"one": Frame(), "two": Frame()}),
    ]
    for call in calls:
        with pytest.raises(DataError, match=r"Polars cannot hand it over: .*precision <= 38"):
            call()


def test_ids_without_a_text() -> None:
    """Pandas has times of which it cannot write the date."""
    far = (
        pd.Series(np.array([2**40, 2**40 + 1, 2**41], "M8[s]")).dt.tz_localize("Asia/Kolkata").astype(object)
    )
    values = pd.DataFrame({"query_id": far, "mrr": [0.1, 0.2, 0.3]})
    rows = [[1.0]] * 3, [0, 1, 1]
    calls: list[Callable[[], Any]] = [
        lambda: compare({"one": values, "two": values}),
        lambda: evaluate([0, 1, 1], [1, 2, 3], ["mrr"], query_ids=far),
        lambda: from_arrays(*rows, query_ids=far),
        lambda: from_arrays(*rows, group_sizes=[3], document_ids=far),
        lambda: from_arrays(*rows, group_sizes=[1] * 3, attributes={"day": far}),
    ]
    for call in calls:
        with pytest.raises(DataError, match=r"\[0\] has no text: .*; expected text or numbers"):
            call()


def test_a_query_twice_in_two_types() -> None:
    values = pd.DataFrame({"query_id": ["1", 1], "mrr": [0.1, 0.2]})
    with pytest.raises(DataError, match="query '1' has several rows"):
        compare({"one": values, "two": values})


def test_a_label_of_structures_is_refused() -> None:
    labels = pa.array([{"x": "a"}] * 6)
    with pytest.raises(DataError, match="column 'label' has the type struct<x: string>"):
        from_frame(TABLE.set_column(1, "label", labels))


@pytest.mark.parametrize("kind", [pl.Int128, pl.UInt128])
def test_integers_of_128_bits(kind: Any) -> None:
    """Arrow has none: they are taken in 64 bits, or refused where that is not enough."""
    plain = pl.DataFrame(SORTED).select("query_id", "label", "score")
    wide = plain.with_columns(pl.col("label").cast(kind))
    assert per_query(wide, "mrr").equals(per_query(pa.table(plain), "mrr"))
    assert from_frame(wide).labels.tolist() == from_frame(plain).labels.tolist()
    assert evaluate_stream(wide, "mrr", "score").means == evaluate_stream(plain, "mrr", "score").means
    beyond = plain.with_columns(pl.Series("label", [2**100] * 6).cast(kind))
    calls: list[Callable[[], Any]] = [
        lambda: per_query(beyond, "mrr"),
        lambda: from_frame(beyond),
        lambda: evaluate_stream(beyond, "mrr", "score"),
    ]
    for call in calls:
        with pytest.raises(DataError, match=r"integers of 128 bits \('label'\) are beyond the range of 64"):
            call()


def test_names_of_columns_that_are_no_text(tmp_path: Path) -> None:
    table = pa.table({"query_id": ["a", "a"], "label": [0, 1], "score": [1.0, 2.0], "naxe": [1.0, 2.0]})
    csv.write_csv(table, tmp_path / "rows.csv")
    parquet.write_table(table, tmp_path / "rows.parquet")
    for name in ("rows.csv", "rows.parquet", write_arrow(table, tmp_path)):
        path = tmp_path / name
        path.write_bytes(path.read_bytes().replace(b"naxe", b"na\xffe"))
        with pytest.raises(DataError, match=r"rows.*: cannot be read: 'utf-8' codec"):
            evaluate_stream(path, "mrr", "score")
        if name != "rows.csv":
            with pytest.raises(DataError, match=r"file.*damaged: 'utf-8' codec"):
                Parquet().read([name], tmp_path)


@pytest.mark.long
def test_a_union_whose_places_lie_beyond_its_values_ends_no_process(tmp_path: Path) -> None:
    kind = pa.dense_union([pa.field("a", pa.int64()), pa.field("b", pa.string())])
    buffers = [None, pa.py_buffer(np.full(6, 1, np.int8)), pa.py_buffer(np.full(6, 2**30, np.int32))]
    union = pa.Array.from_buffers(kind, 6, buffers, children=[pa.array([1]), pa.array(["x"])])
    name = write_arrow(TABLE.append_column("odd", union), tmp_path)
    read = Parquet().read([name], tmp_path)  # this process, unless the places are looked at
    assert "ignored non-numeric columns of rows.arrow: colour, odd" in map(str, read.cautions)
