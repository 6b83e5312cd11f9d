"""The state of the labels window by window: in the values, the tables and on the page."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from ltr_harness.monitoring import monitor

Cli = Callable[..., tuple[int, str, str]]

# Two days in Berlin, the second one young; user u looks at a and b at noon of both.
LOG = pd.DataFrame(
    {
        "query_id": ["q1", "q1", "q2", "q2", "q3"],
        "sku": ["a", "b", "a", "b", "a"],
        "rank": [1, 2, 1, 2, 1],
        "user": ["u", "u", "u", "u", "v"],
        "ts": pd.to_datetime(["2026-01-05T11:00Z"] * 2 + ["2026-01-06T11:00Z"] * 2 + ["2026-01-06T22:00Z"]),
    }
)
EVENTS = pd.DataFrame(
    [
        ("u", "a", "q1", "2026-01-05T11:05Z", "click"),
        ("u", "a", "q1", "2026-01-05T11:06Z", "buy"),
        ("u", "b", "q2", "2026-01-06T11:05Z", "click"),
        ("u", "c", "q9", "2026-01-05T12:00Z", "click"),  # nobody was shown c
        ("w", "a", "q9", "2026-01-05T22:59Z", "click"),  # still the 5th in Berlin
        ("w", "a", "q9", "2026-01-05T23:00Z", "click"),  # the 6th by then
        ("w", "a", "q9", "2026-01-04T12:00Z", "click"),  # before the log begins: in no window
    ],
    columns=["user", "sku", "query_id", "ts", "event"],
)
CONFIG: dict[str, Any] = {
    "columns": {"item_id": "sku", "rank": "rank", "timestamp": "ts", "cluster_id": "user"},
    "relevance": {"events": {"click": 1, "buy": 4}, "maturity": "11h"},
    "metrics": ["ndcg@10"],
    "windows": {"timezone": "Europe/Berlin", "min_queries": 1},
}


def config(path: Path, **join: Any) -> dict[str, Any]:
    EVENTS.assign(ts=pd.to_datetime(EVENTS["ts"])).to_parquet(path)
    rule = {"path": str(path), "item_id": "sku", **join}
    return {**CONFIG, "relevance": {**CONFIG["relevance"], "event_log": rule}}


BY_USER = {"query_id": None, "user": "user", "timestamp": "ts"}


@pytest.mark.long
@pytest.mark.parametrize("join", [BY_USER, {"timestamp": "ts"}])
def test_orphans_are_counted_in_the_window_in_which_they_happened(join: Any, tmp_path: Path) -> None:
    found = monitor(config(tmp_path / "e.parquet", **join), log=LOG)
    assert [(w.label, w.orphan_events) for w in found.windows] == [("2026-01-05", 2), ("2026-01-06", 1)]
    assert next(f.count for f in found.log_checks if f.check == "orphan-event") == 4
    assert [w.event_rates for w in found.windows] == [
        {"click": 1.0, "buy": 1.0},
        {"click": 0.5, "buy": 0.0},
    ]
    assert [w.immature_share for w in found.windows] == [0.0, 0.5]  # 11 hours before 22:00 is 11:00


@pytest.mark.long
def test_without_times_of_events_nobody_can_tell(tmp_path: Path) -> None:
    found = monitor(config(tmp_path / "e.parquet"), log=LOG)
    assert [w.orphan_events for w in found.windows] == [None, None]
    timeless = {
        **CONFIG,
        "columns": {"item_id": "sku", "rank": "rank"},
        "relevance": {"events": {"click": 1, "buy": 4}},
    }
    timeless["relevance"]["event_log"] = {
        "path": str(tmp_path / "e.parquet"),
        "item_id": "sku",
        "timestamp": "ts",
    }
    assert [w.orphan_events for w in monitor(timeless, log=LOG).windows] == [4]


@pytest.mark.long
def test_batches_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = config(tmp_path / "e.parquet", **BY_USER)
    whole = monitor(settings, log=LOG).to_json()
    for name in ("IN_MEMORY_ROWS", "BATCH_ROWS"):
        monkeypatch.setattr(f"ltr_harness.data.logs.log.{name}", 2)
    assert monitor(settings, log=LOG).to_json() == whole


@pytest.mark.long
@pytest.mark.usefixtures("empty_pictures")
def test_the_files_say_it(ltr: Cli, tmp_path: Path) -> None:
    LOG.to_parquet(tmp_path / "log.parquet")
    (tmp_path / "m.yaml").write_text(yaml.safe_dump(config(tmp_path / "e.parquet", **BY_USER)))
    out = tmp_path / "out"
    code, told, _ = ltr("monitor", tmp_path / "m.yaml", "--log", tmp_path / "log.parquet", "-o", out)
    assert (code, "ALERT" in told) == (0, False)  # nothing to compare with: a caution, no alert
    document = json.loads((out / "report.json").read_text())
    assert any(caution["kind"] == "orphan-event" for caution in document["cautions"])
    with (out / "windows.csv").open() as file:
        rows = list(csv.DictReader(file))
    kept = ("n_queries", "items_per_query", "relevant_share", "click_per_query", "buy_per_query", "orphan_events",
            "immature_share")  # fmt: skip
    assert [[float(row[name]) for name in kept] for row in rows] == [
        [1, 2, 1, 1, 1, 2, 0],
        [2, 1.5, 0.5, 0.5, 0, 1, 0.5],
    ]
    assert [(w["orphan_events"], w["immature_share"]) for w in document["windows"]] == [(2, 0.0), (1, 0.5)]
    inputs = json.loads((out / "provenance.json").read_text())["files"]
    assert {role: [Path(file).name for file in files] for role, files in inputs.items()} == {
        "log": ["log.parquet"],
        "events": ["e.parquet"],
    }
    page = (out / "report.md").read_text()
    assert "Orphan events" in page
    assert "Labels window by window" in (out / "report.html").read_text()
