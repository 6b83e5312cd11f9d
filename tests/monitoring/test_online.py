"""Users' actions beside the metric, and labels that cover only part of the rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ltr_harness.errors import ConfigError, DataError
from ltr_harness.monitoring import monitor
from ltr_harness.monitoring.load import load_monitor_config
from ltr_harness.monitoring.page import write_monitor_report
from ltr_harness.monitoring.synthetic import SyntheticLog

Cli = Callable[..., tuple[int, str, str]]
CONFIG: dict[str, Any] = {
    "columns": {
        "query_id": "request_id", "rank": "position", "timestamp": "ts", "online": ["click", "buy"],
    },
    "metrics": ["ndcg@10"],
}  # fmt: skip


def rows(days: int = 5) -> pd.DataFrame:
    """One query of two rows a day; the metric nearly rises with the day, clicks do, and dwell time falls."""
    day = np.repeat(np.arange(days), 2)
    return pd.DataFrame(
        {
            "query_id": [f"q{d}" for d in day],
            "rank": [1, 2] * days,
            "ts": pd.Timestamp("2026-01-05", tz="UTC") + pd.to_timedelta(day, "D"),
            "relevance": [
                grade for d in range(days) for grade in ((0, 1), (1, 2), (1, 1), (2, 1), (3, 0))[d]
            ],
            "clicks": np.where(np.tile([True, False], days), day, 0),
            "dwell": np.where(np.tile([True, False], days), 50.0 - day, np.nan),
        }
    )


def test_means_over_queries_and_the_rank_correlation_over_windows() -> None:
    columns = {"rank": "rank", "timestamp": "ts", "online": ["clicks", "dwell"]}
    found = monitor({"columns": columns, "metrics": ["dcg(gain=linear)@2"]}, log=rows())
    assert [w.online for w in found.windows] == [{"clicks": d / 2, "dwell": 50.0 - d} for d in range(5)]
    second, third = (w.interval.value for w in found.windows[1:3])
    assert second > third  # the only two out of order
    clicks, dwell = found.online
    assert (clicks.name, clicks.now, clicks.n_windows) == ("clicks", 1.0, 5)  # (0 + .5 + 1 + 1.5 + 2) / 5
    assert clicks.correlation == pytest.approx(1 - 6 * (1 + 1) / (5 * 24))
    assert dwell.correlation == pytest.approx(-0.9)
    assert np.isnan(clicks.before)


def test_three_windows_correlate_with_anything() -> None:
    columns = {"rank": "rank", "timestamp": "ts", "online": "clicks"}
    found = monitor({"columns": columns, "metrics": ["mrr"]}, log=rows(3))
    assert np.isnan(found.online[0].correlation)


@pytest.mark.long
@pytest.mark.usefixtures("empty_pictures")
def test_they_stand_in_every_file(ltr: Cli, tmp_path: Path) -> None:
    baseline = SyntheticLog(seed=1, days=5, queries_per_day=250)
    log = SyntheticLog(seed=2, days=5, queries_per_day=250, drop=2.0)
    found = monitor(CONFIG, log=log, baseline=baseline)
    click = found.online[0]
    assert click.now < click.before  # a worse ranking is clicked less
    page = write_monitor_report(found, tmp_path).read_text(encoding="utf-8")
    assert "Rank correlation with ndcg@10" in page
    assert found.document["windows"][0]["online"].keys() == {"click", "buy"}
    assert "Online" in (tmp_path / "report.md").read_text(encoding="utf-8")


# ---- labels that are missing ------------------------------------------------------------------------------


def partly_labelled(**columns: Any) -> pd.DataFrame:
    table = {"query_id": list("aaabbb"), "rank": [1, 2, 3] * 2, "relevance": [None, 1, 0, None, None, None]}
    return pd.DataFrame({**table, **columns})


@pytest.mark.parametrize(("rule", "mrr"), [("zero", 1 / 2), ("ignore", 1.0)])
@pytest.mark.usefixtures("empty_pictures")
def test_rows_without_a_label(rule: str, mrr: float, tmp_path: Path) -> None:
    config = {"columns": {"rank": "rank"}, "metrics": ["mrr"], "relevance": {"unlabelled": rule}}
    found = monitor(config, log=partly_labelled())
    assert found.windows[0].means["mrr"] == mrr
    assert found.windows[0].n_defined == 1  # b has no label at all
    check = next(f for f in found.log_checks if f.check == "grade-missing")
    assert (check.severity, check.count, check.total) == ("warning", 4, 6)
    write_monitor_report(found, tmp_path)
    assert "Labels cover 33.3% of production's rows" in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_missing_labels_are_refused_unless_somebody_says_what_they_count() -> None:
    with pytest.raises(DataError, match="4 of 6 grades are missing"):
        monitor({"columns": {"rank": "rank"}, "metrics": ["mrr"]}, log=partly_labelled())
    with pytest.raises(ConfigError, match="a row without an event is worth 0"):
        load_monitor_config(
            {"columns": {"rank": "rank"}, "relevance": {"events": {"click": 1}, "unlabelled": "zero"}}
        )


@pytest.mark.long
def test_labels_that_cover_less_than_before_raise_an_alert() -> None:
    random = np.random.default_rng(1)
    full = SyntheticLog(days=1, queries_per_day=300).table().to_pandas()
    gone = full.assign(relevance=full["relevance"].where(random.random(len(full)) < 0.9))
    config = {
        "columns": {"query_id": "request_id", "rank": "position"},
        "metrics": ["ndcg@10"],
        "relevance": {"unlabelled": "ignore"},
    }
    found = monitor(config, log=gone, baseline=full)
    assert any("grade-missing" in str(alert) for alert in found.alerts)
    assert monitor(config, log=gone, baseline=gone).healthy
