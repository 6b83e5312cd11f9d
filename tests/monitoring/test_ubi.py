"""User Behavior Insights: documents as OpenSearch and its data generator write them, read as a log."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import yaml
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from ltr_harness.data.logs.ubi import Ubi, impressions_and_events
from ltr_harness.data.readers.memory import from_frame
from ltr_harness.errors import ConfigError, DataError, HarnessError
from ltr_harness.monitoring import monitor
from ltr_harness.monitoring.load import load_monitor_config
from tests.conftest import examples

Cli = Callable[..., tuple[int, str, str]]
Documents = list[dict[str, Any]]

SETTINGS: dict[str, Any] = {
    "columns": {
        "item_id": "object_id",
        "rank": "position",
        "timestamp": "timestamp",
        "cluster_id": "client_id",
    },
    "relevance": {"events": {"click": 1, "purchase": 4}},
    "metrics": ["mrr@10"],
    "ubi": {"impressions": "hits"},
}
BY_EVENTS = {**SETTINGS, "ubi": {"impressions": "events"}}


def query(name: str, hits: Iterable[str] | None = "abc", **more: Any) -> dict[str, Any]:
    document = {
        "application": "shop",
        "query_id": name,
        "client_id": f"client of {name}",
        "user_query": "laptop",
        "query_attributes": {"variant": "A"},
        "timestamp": "2026-01-05T10:00:00.000Z",
    }
    return {**document, **({} if hits is None else {"query_response_hit_ids": list(hits)}), **more}


def event(name: str, action: str, item: Any, position: Any = None, **more: Any) -> dict[str, Any]:
    attributes = {"object": {"object_id": item, "object_id_field": "sku"}, "position": {"ordinal": position}}
    return {
        "application": "shop",
        "action_name": action,
        "query_id": name,
        "client_id": f"client of {name}",
        "timestamp": "2026-01-05T10:00:05.000Z",
        "message": None,
        "event_attributes": attributes,
        **more,
    }


QUERIES = [query("q1"), query("q2", "xyz"), query("q3", "ab")]
EVENTS = [
    event("q1", "click", "b", 2),
    event("q2", "click", "x", 1),
    event("q2", "purchase", "z", 3),
    event("q2", "product_hover", "y", 2),
]
SHOWN = [
    event(q["query_id"], "impression", item, at)
    for q in QUERIES
    for at, item in enumerate(q["query_response_hit_ids"], start=1)
]
MRR = (1 / 2 + 1) / 2  # q1: b is second; q2: x is first; q3 has no event


def bulk_lines(documents: Documents, index: str) -> str:
    lines = [line for d in documents for line in ({"index": {"_index": index, "_id": "1"}}, d)]
    return "".join(json.dumps(line) + "\n" for line in lines)


def exported_lines(documents: Documents, index: str) -> str:
    return "".join(
        json.dumps({"_index": index, "_id": "1", "_score": 1, "_source": d}) + "\n" for d in documents
    )


def write_ubi(folder: Path, queries: Documents = QUERIES, events: Documents = EVENTS) -> Path:
    (folder / "ubi_queries.ndjson").write_text("".join(json.dumps(d) + "\n" for d in queries))
    (folder / "ubi_events.ndjson").write_text("".join(json.dumps(d) + "\n" for d in events))
    return folder


def found_in(path: Path, settings: dict[str, Any] = SETTINGS) -> dict[str, float]:
    found = monitor(settings, log=path)
    (window,) = found.windows
    return {
        "mrr": window.means["mrr@10"],
        "queries": found.n_queries,
        "rows": found.n_rows,
        **window.event_rates,
    }


ALL = {"mrr": MRR, "queries": 3, "rows": 8, "click": 2 / 3, "purchase": 1 / 3}


@pytest.mark.long
def test_the_layouts_in_which_documents_come(tmp_path: Path) -> None:
    mixed = bulk_lines(QUERIES, "ubi_queries") + bulk_lines(EVENTS, "ubi_events")
    (tmp_path / "ubi_queries_events.ndjson").write_text(mixed)
    assert found_in(tmp_path / "ubi_queries_events.ndjson") == pytest.approx(ALL)
    (tmp_path / "export.jsonl").write_text(
        exported_lines(QUERIES, "ubi_queries") + "\n" + exported_lines(EVENTS, "ubi_events")
    )
    assert found_in(tmp_path / "export.jsonl") == pytest.approx(ALL)
    with gzip.open(tmp_path / "packed.ndjson.gz", "wt") as packed:
        packed.write(mixed)
    assert found_in(tmp_path / "packed.ndjson.gz") == pytest.approx(ALL)
    (tmp_path / "two").mkdir()
    assert found_in(write_ubi(tmp_path / "two")) == pytest.approx(ALL)
    (tmp_path / "parquet").mkdir()
    for name, documents in (("ubi_queries", QUERIES), ("ubi_events", EVENTS)):
        parquet.write_table(pa.Table.from_pylist(documents), tmp_path / "parquet" / f"{name}.parquet")
    assert found_in(tmp_path / "parquet") == pytest.approx(ALL)


@pytest.mark.long
def test_impressions_may_be_events(tmp_path: Path) -> None:
    """As the data generator of OpenSearch writes them: queries without hits, and an impression for each object."""
    without = [{k: v for k, v in q.items() if k != "query_response_hit_ids"} for q in QUERIES]
    assert found_in(write_ubi(tmp_path, without, SHOWN + EVENTS), BY_EVENTS) == pytest.approx(ALL)
    moved = [event(e["query_id"], "impression", e["event_attributes"]["object"]["object_id"], at - 1)
             for e in SHOWN for at in [e["event_attributes"]["position"]["ordinal"]]]  # fmt: skip
    told = r"3 impressions with the ordinal 0; expected ordinals from 1.*set ubi\.first_position: 0"
    with pytest.raises(DataError, match=told):
        found_in(write_ubi(tmp_path, without, moved + EVENTS), BY_EVENTS)
    from_0 = {**BY_EVENTS, "ubi": {"impressions": "events", "first_position": 0}}
    assert found_in(write_ubi(tmp_path, without, moved + EVENTS), from_0) == pytest.approx(ALL)
    nested = [event(e["query_id"], "impression", e["event_attributes"]["object"]["object_id"],
                    {"index": e["event_attributes"]["position"]["ordinal"]}) for e in SHOWN]  # fmt: skip
    assert found_in(write_ubi(tmp_path, without, nested + EVENTS), BY_EVENTS) == pytest.approx(ALL)
    assert found_in(write_ubi(tmp_path, [], SHOWN + EVENTS), BY_EVENTS) == pytest.approx(ALL)


@pytest.mark.long
def test_what_is_known_of_a_query_are_columns(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    arms = random.choice(["A", "B"], 200)
    queries = [query(f"q{at}", query_attributes={"variant": arm}) for at, arm in enumerate(arms)]
    events = [event(f"q{at}", "click", item) for at, item in enumerate(random.choice(list("abc"), 200))]
    shown = [
        event(f"q{at}", "impression", item, rank) for at in range(200) for rank, item in enumerate("abc", 1)
    ]
    settings = {
        "columns": {**SETTINGS["columns"], "pair_key": "user_query", "segments": "application"},
        "arms": {"column": "query_attributes.variant", "control": "A"},
    }
    first = monitor({**SETTINGS, **settings}, log=write_ubi(tmp_path, queries, events))
    other = monitor({**BY_EVENTS, **settings}, log=write_ubi(tmp_path, queries, shown + events))
    assert first.arms is not None
    assert first.document["arms"] == other.document["arms"]
    assert [arm.n_units for arm in first.arms.arms] == [int((arms == "A").sum()), int((arms == "B").sum())]


@pytest.mark.long
def test_ids_may_be_numbers_and_times_milliseconds(tmp_path: Path) -> None:
    """Version 1.0 had milliseconds, and another name for hits; ids are integers, or text here and integers there."""
    then = 1_767_607_200_000  # 2026-01-05 10:00 UTC
    queries = [query("q1", ["1", "2"], timestamp=then), query("q2", [3, 4], timestamp=then + 1000)]
    events = [event("q1", "click", 2, timestamp=then + 5), event("q2", "click", "3", timestamp=then + 6)]
    (tmp_path / "a").mkdir()
    assert found_in(write_ubi(tmp_path / "a", queries, events))["mrr"] == (1 / 2 + 1) / 2
    assert monitor(SETTINGS, log=tmp_path / "a").windows[0].label == "2026-01-05"
    of_old = [{"query_response_objects_ids" if k == "query_response_hit_ids" else k: v for k, v in q.items()}
              for q in queries]  # fmt: skip
    assert found_in(write_ubi(tmp_path / "a", of_old, events))["mrr"] == (1 / 2 + 1) / 2
    for name, documents in (("ubi_queries", [query("q", [7, 8])]), ("ubi_events", [event("q", "click", 8)])):
        (tmp_path / "b").mkdir(exist_ok=True)
        parquet.write_table(pa.Table.from_pylist(documents), tmp_path / "b" / f"{name}.parquet")
    assert found_in(tmp_path / "b")["mrr"] == 1 / 2


def test_pages_of_a_query_follow_each_other(tmp_path: Path) -> None:
    second = query("q1", "cde", timestamp="2026-01-05T10:01:00.000Z")
    assert found_in(write_ubi(tmp_path, [second, query("q1", "abc")], [event("q1", "click", "d")])) == {
        "mrr": 1 / 4, "queries": 1, "rows": 5, "click": 1.0, "purchase": 0.0,
    }  # fmt: skip


def test_events_that_belong_to_nothing_shown_are_counted(tmp_path: Path) -> None:
    lost = [event("q1", "click", "nowhere"), event(None, "purchase", "a")]
    found = monitor(SETTINGS, log=write_ubi(tmp_path, QUERIES, EVENTS + lost))
    (orphans,) = (f for f in found.log_checks if f.check == "orphan-event")
    assert (orphans.count, orphans.total) == (2, 5)  # the hover is no event that counts
    assert found.windows[0].orphan_events == 2


@pytest.mark.parametrize(
    ("settings", "queries", "events", "told"),
    [
        (SETTINGS, [query("q", None)], SHOWN + EVENTS,
         "holds no query with query_response_hit_ids; expected what was shown; set ubi.impressions: events"),
        (BY_EVENTS, QUERIES, [EVENTS[0], EVENTS[3]],
         "holds no event 'impression' with an object_id; expected what was shown; known: click, product_hover"),
        (SETTINGS, QUERIES, [event("q1", "on_click", "a")],
         "holds no event 'click'; expected what users did; did you mean 'on_click'? (known: on_click)"),
        (SETTINGS, QUERIES, [*EVENTS[:2], event("q1", "purchased", "a")],
         "holds no event 'purchase'; expected what users did; did you mean 'purchased'? (known: click, purchased)"),
        (SETTINGS, QUERIES, [], "holds no event 'click'; expected what users did"),
        (SETTINGS, [query("q", timestamp="yesterday")], EVENTS, "holds text that is not a time"),
        (BY_EVENTS, QUERIES, [event("q1", "impression", "a", "first"), *EVENTS], "expected positions such as 3"),
        (SETTINGS, [query(None)], EVENTS, "rows without a query id"),
        ({**SETTINGS, "columns": {**SETTINGS["columns"], "segments": "query_attributes.varient"}}, QUERIES, EVENTS,
         "has no column 'query_attributes.varient'; did you mean 'query_attributes.variant'?"),
    ],
)  # fmt: skip
def test_exports_that_are_refused(
    settings: dict[str, Any], queries: Documents, events: Documents, told: str, tmp_path: Path
) -> None:
    write_ubi(tmp_path, queries, events)
    if not events:
        (tmp_path / "ubi_events.ndjson").unlink()
    with pytest.raises(DataError) as caught:
        monitor(settings, log=tmp_path)
    assert told in str(caught.value)


def test_lines_that_are_no_documents_are_named(tmp_path: Path) -> None:
    deep = '{"a":' * 100_000
    (tmp_path / "log.ndjson").write_text(f'{{"query_id": "q"}}\n[1]\n{{"query_id":\n{deep}\n')
    with pytest.raises(DataError) as caught:
        monitor(SETTINGS, log=tmp_path / "log.ndjson")
    assert [p.place.rpartition(":")[2] for p in caught.value.problems] == ["2", "3", "4"]
    (tmp_path / "log.ndjson").write_text(json.dumps(query("\ud800")) + "\n")
    with pytest.raises(DataError, match="'query_id': holds text that is not Unicode"):
        monitor(SETTINGS, log=tmp_path / "log.ndjson")
    (tmp_path / "log.ndjson").write_text("\n")
    with pytest.raises(DataError, match="has no rows"):
        monitor(SETTINGS, log=tmp_path / "log.ndjson")
    (tmp_path / "log.ndjson.gz").write_bytes(b"\x1f\x8b no gzip")
    with pytest.raises(DataError, match="cannot be read"):
        monitor(SETTINGS, log=tmp_path / "log.ndjson.gz")
    with pytest.raises(DataError, match="with ubi, a path of its documents"):
        monitor(SETTINGS, log=pd.DataFrame({"query_id": ["q"]}))


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (
            {"relevance": {}},
            "ubi with relevance.mode label; expected events, such as {click: 1, purchase: 4}",
        ),
        (
            {"relevance": {"events": {"click": 1}, "event_log": {"path": "x"}}},
            "ubi with relevance.event_log; expected",
        ),
        (
            {"relevance": {"events": {"click": 1}, "list_column": "x"}},
            "ubi with relevance.list_column; expected",
        ),
        ({"columns": {"rank": "position"}}, "ubi with columns.item_id None; expected item_id: object_id"),
        (
            {
                "ubi": None,
                "relevance": {"events": {"a": 1}, "event_log": {"path": "x", "ubi": True, "event": "e"}},
            },
            "event beside ubi; expected none of them: its documents name them",
        ),
        ({"ubi": {}}, "ubi has no 'impressions'"),
        ({"ubi": {"impressions": "views"}}, "ubi.impressions is 'views'"),
    ],
)
def test_configurations_that_are_refused(more: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_monitor_config({**SETTINGS, **more})
    assert told in str(caught.value)


@pytest.mark.long
@pytest.mark.usefixtures("empty_pictures")
def test_from_the_command_line_with_a_baseline(ltr: Cli, tmp_path: Path) -> None:
    for name in ("now", "before"):
        (tmp_path / name).mkdir()
        queries = [query(f"{name}{at}") for at in range(300)]
        item = "a" if name == "before" else "c"
        write_ubi(
            tmp_path / name,
            queries,
            [event(f"{name}{at}", "click", item if at % 3 else "b") for at in range(300)],
        )
    (tmp_path / "m.yaml").write_text(yaml.safe_dump({**SETTINGS, "log": "now", "baseline": "before"}))
    code, out, _ = ltr("monitor", tmp_path / "m.yaml", "-o", tmp_path / "out")
    assert code == 4
    assert out.startswith("ALERT change mrr@10 -0.4444 [")
    provenance = json.loads((tmp_path / "out" / "provenance.json").read_text())
    assert [Path(file).name for file in provenance["files"]["log"]] == [
        "ubi_events.ndjson",
        "ubi_queries.ndjson",
    ]


@pytest.mark.parametrize("layout", ["bulk", "parquet"])
def test_events_alone_are_an_event_log_of_any_table(layout: str, tmp_path: Path) -> None:
    """For `monitor` and for training data alike, beside actions that do not count and documents of queries."""
    rows = [
        (q["query_id"], item, at) for q in QUERIES for at, item in enumerate(q["query_response_hit_ids"], 1)
    ]
    log = pd.DataFrame(rows, columns=["query_id", "sku", "rank"]).assign(price=1.0)
    if layout == "bulk":
        (tmp_path / "ubi.ndjson").write_text(
            bulk_lines(QUERIES, "ubi_queries") + bulk_lines(EVENTS + SHOWN, "ubi_events")
        )
    else:
        parquet.write_table(pa.Table.from_pylist(EVENTS), tmp_path / "ubi.ndjson")
        (tmp_path / "ubi.ndjson").rename(tmp_path / "ubi.parquet")
    path = str(next(tmp_path.glob("ubi.*")))
    rule = {"events": {"click": 1, "purchase": 4}, "event_log": {"path": path, "ubi": True}}
    settings = {"columns": {"rank": "rank", "item_id": "sku"}, "relevance": rule, "metrics": ["mrr@10"]}
    found = monitor(settings, log=log)
    assert found.windows[0].means["mrr@10"] == MRR
    assert not any(f.check == "unknown-event" for f in found.log_checks)
    data = from_frame(log, document_id="sku", position="rank", features=["price"], relevance=rule)
    assert data.labels.tolist() == [0, 1, 0, 1, 0, 4, 0, 0]


def test_fields_within_objects_are_columns(tmp_path: Path) -> None:
    """Their names have dots, in JSON lines as in Parquet."""
    clicks = [e for e in EVENTS if e["action_name"] == "click"]
    (tmp_path / "events.ndjson").write_text(exported_lines(clicks, "ubi_events"))
    parquet.write_table(pa.Table.from_pylist(clicks), tmp_path / "events.parquet")
    rows = [
        (q["query_id"], item, at) for q in QUERIES for at, item in enumerate(q["query_response_hit_ids"], 1)
    ]
    for name in ("events.ndjson", "events.parquet"):
        join = {
            "path": str(tmp_path / name),
            "event": "action_name",
            "item_id": "event_attributes.object.object_id",
        }
        settings = {
            "columns": {"rank": "rank", "item_id": "sku"},
            "relevance": {"events": {"click": 1}, "event_log": join},
            "metrics": ["mrr@10"],
        }
        log = pd.DataFrame(rows, columns=["query_id", "sku", "rank"])
        assert monitor(settings, log=log).windows[0].means["mrr@10"] == MRR


@pytest.mark.long
def test_the_engines_own_query_is_not_kept_for_every_hit(tmp_path: Path) -> None:
    long = [query(f"q{at}", [str(item) for item in range(200)], query="x" * 100_000) for at in range(50)]
    settings = {"impressions": "hits"}
    shown, _ = impressions_and_events(
        write_ubi(tmp_path, long, [event("q0", "click", "0")]), Ubi.model_validate(settings), ["click"], "UTC"
    )
    assert "query" not in shown.column_names
    assert shown.nbytes < 5e6


def test_hits_that_are_no_ids_are_refused(tmp_path: Path) -> None:
    for at, hits in enumerate(([{"id": 1}], "a,b", 3)):
        documents = [{**query("q"), "query_response_hit_ids": hits}]
        parquet.write_table(pa.Table.from_pylist(documents), tmp_path / f"{at}.parquet")
        with pytest.raises(
            DataError, match=r"'query_response_hit_ids': has the type .*; expected a list of ids"
        ):
            monitor(SETTINGS, log=tmp_path / f"{at}.parquet")


ODD = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.lists(st.text(), max_size=2),
    st.just({}), st.just({"index": 1}), st.just([{"a": 1}]), st.just([1, "a", None]), st.just("2026-01-05T10:00:00Z"),
)  # fmt: skip
FIELDS = [
    ("query_id",), ("timestamp",), ("client_id",), ("action_name",), ("query_response_hit_ids",), ("event_attributes",),
    ("event_attributes", "object"), ("event_attributes", "object", "object_id"), ("event_attributes", "position"),
    ("event_attributes", "position", "ordinal"), ("query_attributes",), ("_source",), ("index",),
]  # fmt: skip


@pytest.mark.long
@examples(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, 13), st.sampled_from(FIELDS), ODD), min_size=1, max_size=4),
    st.sampled_from([SETTINGS, BY_EVENTS]),
    st.booleans(),
)
def test_odd_documents_are_an_error_or_a_log(
    tmp_path: Path, odd: list[tuple[int, tuple[str, ...], Any]], chosen: dict[str, Any], as_parquet: bool
) -> None:
    documents = json.loads(json.dumps(QUERIES + EVENTS + SHOWN))
    for at, path, value in odd:
        inner = documents[at]
        for key in path[:-1]:
            inner = inner.get(key) if isinstance(inner, dict) else None
        if isinstance(inner, dict):
            inner[path[-1]] = value
    for old in tmp_path.glob("log.*"):
        old.unlink()
    if as_parquet:
        try:
            table = pa.Table.from_pylist(documents)
            parquet.write_table(table, tmp_path / "log.parquet")
        except (pa.ArrowException, OverflowError, TypeError):
            return
    else:
        (tmp_path / "log.ndjson").write_text("".join(json.dumps(d) + "\n" for d in documents))
    with contextlib.suppress(HarnessError):
        monitor({**chosen, "windows": {"min_queries": 1}}, log=tmp_path)


SAMPLE = (
    Path(os.environ.get("LTR_HARNESS_DATA", Path(__file__).parents[3] / "shared" / "data")) / "search_teams"
)


@pytest.mark.skipif(not SAMPLE.is_dir(), reason="no samples of search teams")
def test_the_projects_own_sample_is_read_as_it_lies() -> None:
    """Its times are texts and milliseconds, its ordinals begin at 0."""
    path = SAMPLE / "ubi_queries_events.ndjson"
    settings = Ubi(impressions="events", first_position=0)
    shown, events = impressions_and_events(path, settings, ["add_to_cart"], "UTC")
    assert (len(shown), pa.compute.min(shown["position"]).as_py()) == (1999, 1)
    moments = events["timestamp"].to_pandas()
    assert len(moments) == 234
    # seven are milliseconds in the file: 1717527765773 is the first of these
    assert pd.Timestamp("2024-06-04T19:02:45.773Z") in set(moments)
