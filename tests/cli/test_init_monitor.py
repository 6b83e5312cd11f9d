"""`ltr-harness init --monitor`: a monitoring file that is guessed, checked on its log, and then runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ltr_harness.monitoring import monitor
from ltr_harness.monitoring.load import load_monitor_config

Cli = Callable[..., tuple[int, str, str]]


def log(n_queries: int = 60, **columns: Any) -> pd.DataFrame:
    """A log of three rows a query: clicks at rank 1, and a country and a day for each query."""
    query = np.repeat(np.arange(n_queries), 3)
    rows = {
        "request_id": [f"q{at}" for at in query],
        "sku": [f"s{at}" for at in range(query.size)],
        "position": np.tile([1, 2, 3], n_queries),
        "ts": pd.Timestamp("2026-01-05", tz="UTC") + pd.to_timedelta(query * 3, unit="h"),
        "user_id": [f"u{at % 7}" for at in query],
        "country": np.array(["AT", "CH", "DE"])[query % 3],
        "title": [f"text {at % 9}" for at in range(query.size)],
        "price": np.linspace(1, 5, query.size),
        "click": np.tile([1, 0, 0], n_queries),
        "buy": np.tile([0, 1, 0], n_queries) * (query % 2),
        "dwell_s": np.tile([12.5, 0.0, 0.0], n_queries),
    }
    return pd.DataFrame({**rows, **columns})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_columns_are_guessed_said_and_run(ltr: Cli, folder: Path) -> None:
    (folder / "logs").mkdir()
    log().to_parquet("logs/prod.parquet")
    code, out, _ = ltr("init", "--monitor", "logs/prod.parquet")
    assert code == 0
    config = load_monitor_config(folder / "monitor.yaml")
    columns = config.columns
    assert (columns.query_id, columns.item_id, columns.rank) == ("request_id", "sku", "position")
    assert (columns.timestamp, columns.cluster_id, columns.score) == ("ts", "user_id", None)
    assert columns.segments == ("country",)  # the title differs within a query
    assert (columns.features, columns.online) == (("price",), ("dwell_s",))
    assert config.relevance.events == {"click": 1, "buy": 4}
    assert "rank: column 'position'" in out
    # half of the queries: the click, 1, above the buy, 4, is (1 + 15 / log2(3)) / (15 + 1 / log2(3))
    ndcg = (1 + (1 + 15 / np.log2(3)) / (15 + 1 / np.log2(3))) / 2
    assert f"60 queries, 180 rows, 8 windows: ndcg@10 {ndcg:.4f} over 60 queries" in out
    assert out.endswith("next: ltr-harness monitor monitor.yaml --baseline GOOD_WEEKS -o report\n")
    code, out, _ = ltr("monitor", "monitor.yaml")
    assert code == 0
    assert out.startswith(f"ndcg@10\t{ndcg:.4f}")
    text = (folder / "monitor.yaml").read_text()
    assert "log: logs/prod.parquet" in text
    assert monitor(text_with(text, "# alerts: ", "alerts: ")).limits[0].limit == 0.5


def text_with(text: str, old: str, new: str) -> Path:
    """A file beside the other one, with its commented line in effect."""
    assert text.count(old) == 1
    file = Path("uncommented.yaml")
    file.write_text(text.replace(old, new))
    return file


def test_labels_come_before_events_and_fractions_have_linear_gain(ltr: Cli, folder: Path) -> None:
    log(relevance=np.tile([0.5, 1.5, 0], 60)).to_csv("prod.csv", index=False)
    code, _, _ = ltr("init", "--monitor", "prod.csv", "-o", "mine.yaml")
    assert code == 0
    config = load_monitor_config(folder / "mine.yaml")
    assert (config.relevance.chosen, config.relevance.label) == ("label", "relevance")
    assert str(config.primary) == "ndcg(gain=linear)@10"
    assert set(config.columns.online) == {"click", "buy", "dwell_s"}


def test_a_named_column_and_one_left_out(ltr: Cli, folder: Path) -> None:
    renamed = log().rename(columns={"position": "where_shown", "ts": "date"})
    renamed["date"] = "yesterday"
    renamed.to_csv("prod.csv", index=False)
    code, _, err = ltr("init", "--monitor", "prod.csv")
    assert code == 2
    assert "no column looks like the rank (request_id, sku, where_shown" in err
    assert "name it: --column rank=COLUMN" in err
    code, _, err = ltr("init", "--monitor", "prod.csv", "--column", "rank=where_shown")
    assert code == 2
    assert "text that is not a time" in err
    assert "monitor.yaml: does not pass its check and was not written" in err
    assert "ROLE=null leaves it out" in err
    given = ["--column", "rank=where_shown", "--column", "timestamp=null", "--column", "features=[]"]
    code, _, _ = ltr("init", "--monitor", "prod.csv", *given)
    assert code == 0
    config = load_monitor_config(folder / "monitor.yaml")
    assert (config.columns.rank, config.columns.timestamp) == ("where_shown", None)
    assert config.columns.features == ()


@pytest.mark.parametrize(
    ("rows", "given", "told"),
    [
        (log(position=np.tile([0, 1, 2], 60)), [], "positions count from 1"),
        (log(click=0, buy=0), [], "60 queries, and none with a relevant document"),
        (log().drop(columns=["click", "buy"]), [], "no column looks like the label"),
        (log(), ["--column", "rank=positon"], "no column 'positon'; did you mean 'position'"),
        (
            log(),
            ["--column", "place=position"],
            "--column place: is no role of a log; expected one of query_id",
        ),
        (log(), ["--column", "rank"], "rank: not ROLE=COLUMN"),
        (log(), ["--column", "label=title"], "expected numbers"),
        (log().iloc[:0], [], "has no rows"),
        (log(), ["--reader", "csv"], "--monitor beside data of an experiment"),
    ],
)
def test_what_fails_is_not_written(
    ltr: Cli, folder: Path, rows: pd.DataFrame, given: list[str], told: str
) -> None:
    rows.to_parquet("prod.parquet")
    code, _, err = ltr("init", "--monitor", "prod.parquet", *given)
    assert code == 2
    assert told in err
    assert not (folder / "monitor.yaml").exists()


def test_a_file_is_never_overwritten(ltr: Cli, folder: Path) -> None:
    (folder / "monitor.yaml").write_text("mine")
    log().to_parquet("prod.parquet")
    code, _, err = ltr("init", "--monitor", "prod.parquet")
    assert (code, (folder / "monitor.yaml").read_text()) == (2, "mine")
    assert "monitor.yaml: exists already; nothing was written" in err


def test_monitor_of_a_log_points_at_it(ltr: Cli, folder: Path) -> None:
    log().to_csv("prod.csv", index=False)
    log().to_parquet("prod.parquet")
    (folder / "logs").mkdir()
    for name in ("prod.csv", "prod.parquet", "logs"):
        code, _, err = ltr("monitor", name)
        assert code == 2
        assert f"is it a log? `ltr-harness init --monitor {name}` writes a monitoring file for it" in err
        assert "experiment" not in err
