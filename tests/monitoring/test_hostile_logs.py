"""Logs and configurations that nobody should have written: each has a message, none a traceback or a wrong number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ltr_harness.errors import ConfigError, DataError, UsageError
from ltr_harness.monitoring import monitor
from ltr_harness.monitoring.result import MonitorResult

TIMED = {"columns": {"rank": "rank", "timestamp": "ts"}}
CLICKS = {"relevance": {"events": {"click": 1}}}
DAY = "2026-01-05"
NO_TEXT = pa.Array.from_buffers(
    pa.string(), 3, [None, pa.py_buffer(np.array([0, 1, 3, 4], np.int32)), pa.py_buffer(b"a\xff\xfeb")]
)


def log(**columns: Any) -> pa.Table:
    plain = {"query_id": ["a", "a", "b"], "rank": [1, 2, 1], "relevance": [0, 1, 1]}
    return pa.table({name: pa.array(values) for name, values in plain.items()} | columns)


def monitor_table(table: pa.Table, **sections: Any) -> MonitorResult:
    return monitor({"columns": {"rank": "rank"}, "metrics": ["mrr"], **sections}, log=table)


def cast_integers(values: Any, kind: pa.DataType) -> pa.Array:
    return pa.array(values, pa.int64()).cast(kind)


@pytest.mark.parametrize("rank", [1e20, 2.0**63, 2.0**62, 1e300])
def test_a_rank_beyond_what_is_counted(rank: float) -> None:
    with pytest.raises(DataError, match="1 of 3 ranks are missing or not an integer from 1 to 10\\^9"):
        monitor_table(log(rank=pa.array([1.0, rank, 1.0])))


def test_ranks_of_a_csv_file_as_well(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text("query_id,rank,relevance\na,1,1\na,1e20,1\n")
    with pytest.raises(DataError, match="1 of 2 ranks"):
        monitor_table(tmp_path / "l.csv")
    assert monitor_table(log(rank=pa.array([1, 10**9, 1]))).windows[0].means == {"mrr": 0.75}


@pytest.mark.parametrize("text", ["1000000000000000000d", "999999999999999999999999w", "36526d"])
@pytest.mark.parametrize(
    ("section", "key"), [("windows", "size"), ("relevance", "maturity"), ("event_log", "window")]
)
def test_a_duration_of_ages(text: str, section: str, key: str) -> None:
    given: dict[str, Any] = {section: {key: text}}
    if section == "event_log":
        given = {"relevance": {"events": {"click": 1}, "event_log": {"path": "e.csv", key: text}}}
    with pytest.raises(ConfigError, match="at most 100 years, 36525d"):
        monitor_table(log(ts=cast_integers([0, 1, 2], pa.timestamp("s"))), **TIMED, **given)


@pytest.mark.long
def test_more_windows_than_anybody_looks_at() -> None:
    start = int(np.datetime64(DAY, "s").astype(int))
    minutes = start + 60 * np.arange(10_001)
    table = pa.table(
        {"query_id": minutes.astype(str), "rank": [1] * minutes.size, "relevance": [1] * minutes.size}
    )
    table = table.append_column("ts", cast_integers(minutes, pa.timestamp("s")))
    with pytest.raises(UsageError, match=r"windows.size 1m cuts the log into 10,001 windows.*at most 10,000"):
        monitor_table(table, **TIMED, windows={"size": "1m"})
    assert len(monitor_table(table, **TIMED, windows={"size": "1h"}).windows) == 167


@pytest.mark.parametrize("zone", ["Foo/Bar", "+25:00", "GMT+5", "Europe/Berlin", "+01:00"])
def test_a_moment_is_one_in_any_zone(zone: str) -> None:
    """Arrow keeps moments in UTC whatever zone is written beside: an unknown zone is no obstacle."""
    noon = int(np.datetime64(f"{DAY}T12:00", "s").astype(int))
    table = log(ts=cast_integers([noon] * 3, pa.timestamp("s", tz=zone)))
    (window,) = monitor_table(table, **TIMED).windows
    assert window.label == DAY


@pytest.mark.parametrize(
    "column",
    [
        cast_integers([1, 2, 3], pa.time64("ns")),
        cast_integers([1, 2, 3], pa.duration("s")),
        pa.array([True, False, True]),
        pa.array([{"view": 1}] * 3),
        pa.array([[1]] * 3),
        pa.array([b"2026-01-05"] * 3),
        pa.array([1.5, 2.5, 3.5]),
    ],
    ids=lambda column: str(column.type),
)
def test_what_is_no_time(column: pa.Array) -> None:
    with pytest.raises(
        DataError, match=r"column 'ts': (has the type|holds numbers).*expected timestamps, or text"
    ):
        monitor_table(log(ts=column), **TIMED)


@pytest.mark.parametrize(
    "column",
    [
        cast_integers([2**62, 0, 1], pa.timestamp("s")),
        cast_integers([18446744073709, 0, 0], pa.timestamp("ms")),
        pa.array(["9999-12-31", DAY, DAY]),
        cast_integers([2**31 - 1, 0, 0], pa.int32()).cast(pa.date32()),
    ],
    ids=["seconds", "milliseconds", "text", "days"],
)
def test_times_beyond_nanoseconds_do_not_come_round_again(column: pa.Array) -> None:
    said = "timestamps lie before 1990 or after 2100"
    with pytest.raises(DataError, match=said):
        monitor_table(log(ts=column), **TIMED)


@pytest.mark.long
def test_times_of_every_unit_are_one_moment() -> None:
    moment = int(np.datetime64(f"{DAY}T12:00", "s").astype(int))
    for unit, factor in {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}.items():
        (window,) = monitor_table(
            log(ts=cast_integers([moment * factor] * 3, pa.timestamp(unit))), **TIMED
        ).windows
        assert window.label == DAY
    days = pa.array([moment // 86_400] * 3, pa.int32()).cast(pa.date32())
    assert monitor_table(log(ts=days), **TIMED).windows[0].label == DAY
    coded = pa.array([DAY] * 3).dictionary_encode()
    assert monitor_table(log(ts=coded), **TIMED).windows[0].label == DAY


def test_text_with_and_without_a_zone_is_two_clocks() -> None:
    mixed = pa.array([f"{DAY}T00:00:00+01:00", f"{DAY}T00:00:00Z", f"{DAY}T00:00:00"])
    with pytest.raises(DataError, match="1 of 3 times have no time zone, the others do"):
        monitor_table(log(ts=mixed), **TIMED)
    offsets = pa.array([f"{DAY}T00:30:00+01:00", f"{DAY}T00:00:00Z", f"{DAY}T00:00:00Z"])
    assert [w.label for w in monitor_table(log(ts=offsets), **TIMED).windows] == ["2026-01-04", DAY]


@pytest.mark.parametrize("role", ["segments", "pair_key", "cluster_id", "item_id", "timestamp", "query_id"])
def test_text_that_is_no_text(role: str) -> None:
    columns = {"rank": "rank", role: ["x"] if role == "segments" else "x"}
    with pytest.raises(DataError, match="column 'x': holds bytes that are not UTF-8"):
        monitor_table(log(x=NO_TEXT), columns=columns)


@pytest.mark.parametrize(
    ("column", "told"),
    [
        (NO_TEXT, "column 'x': holds bytes that are not UTF-8"),
        (pa.array([[["a"]], [], []]), "column 'x': has the type list"),
        (pa.array([{"view": 1}] * 3), "column 'x': has the type struct"),
    ],
    ids=["bytes", "nested", "struct"],
)
def test_lists_of_events_that_are_none(column: pa.Array, told: str) -> None:
    with pytest.raises(DataError, match=told):
        monitor_table(log(x=column), relevance={"events": {"click": 1}, "list_column": "x"})


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["click", "", "click,buy"]),
        pa.array(["click", "", "click,buy"]).dictionary_encode(),
        pa.array(["click", "", "click,buy"], pa.string_view()),
        pa.array([["click"], [], ["click", "buy"]]),
        pa.array([["click", None], [None, None], ["click", "buy"]], pa.list_(pa.string(), 2)),
    ],
    ids=lambda column: str(column.type),
)
def test_lists_of_events_of_every_type(column: pa.Array) -> None:
    rule = {"events": {"click": 1, "buy": 1}, "list_column": "x"}
    (window,) = monitor_table(log(x=column), relevance=rule).windows
    assert window.event_rates == {"click": 1.0, "buy": 0.5}


@pytest.mark.parametrize(
    "column", [pa.array([{"view": 1}] * 3), pa.array([[1], [2], []])], ids=["struct", "list"]
)
@pytest.mark.parametrize("role", ["segments", "features", "online"])
def test_nested_attributes(role: str, column: pa.Array) -> None:
    with pytest.raises(DataError, match="column 'x': has the type"):
        monitor_table(log(x=column), columns={"rank": "rank", role: ["x"]})


def test_a_column_that_is_there_twice() -> None:
    table = log()
    twice = pa.Table.from_arrays([*table.columns, table["rank"]], names=[*table.column_names, "rank"])
    with pytest.raises(DataError, match="has the column 'rank' twice"):
        monitor_table(twice)
    other = pa.Table.from_arrays(
        [*table.columns, table["rank"], table["rank"]], names=[*table.column_names, "z", "z"]
    )
    assert monitor_table(other).windows[0].means == {"mrr": 0.75}  # nobody asked for it


def test_an_event_without_end_is_no_count() -> None:
    with pytest.raises(DataError, match="1 of 3 event counts are negative or not numbers"):
        monitor_table(log(click=pa.array([np.inf, 1.0, 2.0])), **CLICKS)
    many = monitor_table(log(click=pa.array([2**31 - 1, 2**31 - 1, 2])), **CLICKS).windows[0]
    assert many.event_rates["click"] >= 2**30  # no sum that came round again


def test_a_grade_beyond_what_is_kept() -> None:
    with pytest.raises(DataError, match="1 of 3 grades are missing, negative or not finite"):
        monitor_table(log(relevance=pa.array([1e300, 1.0, 0.0])), metrics=["ndcg(gain=linear)@3"])


@pytest.mark.parametrize(
    ("made_up", "told"),
    [
        ({"days": 1_000_000}, "at most 20,000,000 rows"),
        ({"queries_per_day": 10**12}, "at most 20,000,000 rows"),
        ({"items": 10**9}, "at most 20,000,000 rows"),
        ({"start": "Monday"}, "log.start"),
        ({"start": "9999-12-31"}, "log.start"),
    ],
)
def test_a_made_up_log_of_ages(made_up: dict[str, Any], told: str) -> None:
    with pytest.raises((ConfigError, UsageError), match=told):
        monitor(
            {"columns": {"query_id": "request_id", "rank": "position"}, "metrics": ["mrr"], "log": made_up}
        )


def test_an_average_over_more_windows_than_there_are() -> None:
    with pytest.raises(ConfigError, match=r"windows.trailing"):
        monitor_table(log(ts=pa.array([DAY] * 3)), **TIMED, windows={"trailing": 10**30})
