"""The impression that gets the event: against a search through all pairs, in any order and in any batches."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltr_harness.data.columns import Ids
from ltr_harness.data.logs.log import open_log
from ltr_harness.data.relevance.events import match_events
from ltr_harness.data.text_numbers import _hash
from ltr_harness.errors import DataError
from ltr_harness.monitoring.config import MonitorConfig
from ltr_harness.monitoring.load import load_monitor_config
from tests.conftest import examples

pytestmark = pytest.mark.long

SECOND = 10**9


@functools.cache
def config_of(**join: Any) -> MonitorConfig:
    return load_monitor_config(
        {
            "columns": {"query_id": "q", "item_id": "i", "rank": "r", "cluster_id": "u", "timestamp": "t"},
            "relevance": {"events": {"e0": 1}, "event_log": {"path": "x", "item_id": "i", **join}},
        }
    )


def join_events(log: pa.Table, events: Any, batch: int = 1000, **join: Any) -> dict[str, int]:
    """Event to its row in the log, -1 for none; every event has a name of its own."""
    config = config_of(**join)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ltr_harness.data.logs.log.BATCH_ROWS", batch)
        names, name, row, _ = match_events(
            config.relevance.event_log, config.columns, "UTC", open_log(log), events
        )
    return {names[n]: int(r) for n, r in zip(name, row, strict=True)}


BY_QUERY: dict[str, Any] = {"query_id": "q"}
LAST_TOUCH: dict[str, Any] = {"query_id": None, "user": "u", "timestamp": "t", "window": "5s"}

ids = st.sampled_from(["a", "b", "ab", "ä", "", None])
moments = st.integers(0, 12)
tables = st.lists(st.tuples(ids, ids, moments), min_size=1, max_size=25)


def table(rows: list[tuple[str | None, str | None, int]], coded: bool) -> pa.Table:
    owner, item, when = zip(*rows, strict=True)
    found = pa.table(
        {
            "q": pa.array(owner, pa.string()),
            "u": pa.array(owner, pa.string()),
            "i": pa.array(item, pa.string()),
            "t": pa.array(np.array(when) * SECOND).cast(pa.timestamp("ns", "UTC")),
            "event": [f"e{at}" for at in range(len(rows))],
        }
    )
    if coded:  # as Parquet files hold text
        for at, name in enumerate(found.column_names[:3]):
            found = found.set_column(at, name, found[name].dictionary_encode())
    return found


@examples(150)
@given(log=tables, events=tables, batch=st.integers(1, 30), coded=st.booleans())
def test_every_event_finds_what_a_search_of_all_pairs_finds(
    log: list[Any], events: list[Any], batch: int, coded: bool
) -> None:
    touch, first = {}, {}
    for at, (owner, item, when) in enumerate(events):
        mine = [
            row
            for row, (theirs, shown_item, _) in enumerate(log)
            if owner and item and (theirs, shown_item) == (owner, item)
        ]
        first[f"e{at}"] = min(mine, default=-1)
        seen = [(log[row][2], row) for row in mine if 0 <= when - log[row][2] <= 5]
        touch[f"e{at}"] = max(seen, default=(0, -1))[1]
    shown, happened = table(log, coded), table(events, not coded)
    assert join_events(shown, happened, batch, **BY_QUERY) == first
    assert join_events(shown, happened, batch, **LAST_TOUCH) == touch


def test_ids_that_are_numbers_are_what_they_are_as_text() -> None:
    log = pa.table({"q": [7, 8], "i": [10, 10], "r": [1, 1]})
    events = pa.table({"q": ["8", "7"], "i": ["10", "11"], "event": ["e0", "e1"]})
    assert join_events(log, events, **BY_QUERY) == {"e0": 1, "e1": -1}


def test_moments_that_are_missing_belong_to_nobody() -> None:
    def timestamps(*moments: int | None) -> pa.Array:
        return pa.array([None if m is None else m * SECOND for m in moments]).cast(pa.timestamp("ns", "UTC"))

    log = pa.table({"u": ["a", "a"], "i": ["x", "x"], "t": timestamps(None, 3)})
    events = pa.table({"u": ["a", "a"], "i": ["x", "x"], "t": timestamps(None, 4), "event": ["e0", "e1"]})
    assert join_events(log, events, **LAST_TOUCH) == {"e0": -1, "e1": 1}


def test_one_user_who_sees_one_item_without_end_costs_no_more_than_others() -> None:
    """Forty thousand looks and events of one pair: all pairs would be sixteen hundred million."""
    n = 40_000
    when = pa.array(np.arange(n) * SECOND).cast(pa.timestamp("ns", "UTC"))
    log = pa.table({"u": pa.array(["a"] * n), "i": pa.array(["x"] * n), "t": when})
    events = log.append_column("event", pa.array([f"e{at}" for at in range(n)]))
    assert join_events(log, events, 4_000, **LAST_TOUCH) == {f"e{at}": at for at in range(n)}


def test_a_column_that_is_no_id_is_named() -> None:
    events = pa.table({"q": ["a"], "i": ["x"], "event": ["e0"]})
    with pytest.raises(DataError, match="column 'i': has the type list"):
        join_events(pa.table({"q": ["a"], "i": [["x"]]}), events, **BY_QUERY)


def test_numbers_of_ids_stay_what_they_were_however_many_come() -> None:
    random = np.random.default_rng(0)
    known: dict[str, int] = {}
    ids = Ids()
    for _ in range(6):
        texts = np.char.add("id-", random.integers(0, 20_000, 3_000).astype(str)).tolist()
        expected = [known.setdefault(text, len(known)) for text in texts]
        assert ids.add(pa.chunked_array([texts]), "id").tolist() == expected
    assert ids.n == len(known)
    assert ids.texts() == list(known)
    assert ids.find(pa.chunked_array([[*known, "id", "id-00"]]), "id").tolist() == [
        *range(len(known)),
        -1,
        -1,
    ]


def hash_of(text: bytes) -> int:
    return int(_hash(np.frombuffer(text, dtype=np.uint8), np.uint64(0), np.uint64(len(text))))


def with_the_hash_of(text: bytes) -> bytes:
    """Another text of sixteen letters: its second half mends what its first half changed."""

    def state_after(half: bytes) -> int:
        state = ((14695981039346656037 ^ int.from_bytes(half, "little")) * 0x9E3779B97F4A7C15) % 2**64
        return state ^ (state >> 32)

    for number in range(0, 10**8, 997):
        half = b"%08d" % number
        mended = int.from_bytes(text[8:], "little") ^ state_after(half) ^ state_after(text[:8])
        found = half + mended.to_bytes(8, "little")
        if found.isascii() and found.decode().isprintable():
            return found
    raise AssertionError("no such text")


def test_two_ids_of_one_hash_are_two() -> None:
    one = b"request-00000001"
    other = with_the_hash_of(one)
    assert hash_of(one) == hash_of(other)
    ids = Ids()
    both = pa.chunked_array([[one.decode(), other.decode(), one.decode()]])
    assert ids.add(both, "id").tolist() == [0, 1, 0]
    assert ids.find(both, "id").tolist() == [0, 1, 0]


def test_a_slice_of_a_column_is_read_from_where_it_begins() -> None:
    whole = pa.chunked_array([["a", "bc", None, "d", "bc"]])
    ids = Ids()
    assert ids.add(whole.slice(1, 3), "id").tolist() == [0, -1, 1]
    coded = whole.dictionary_encode()
    assert ids.add(coded.slice(3), "id").tolist() == [1, 0]
    wide = pa.DictionaryArray.from_arrays(
        pa.array([127, None, 0], pa.int8()), pa.array([f"{at}" for at in range(127)] + ["bc"])
    )
    assert ids.find(pa.chunked_array([wide]), "id").tolist() == [0, -1, -1]  # 128 names fill eight bits
