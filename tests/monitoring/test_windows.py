"""The cuts of time: at the midnight of the zone, whatever a clock does, and at the end of the log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ltr_harness.monitoring import monitor
from ltr_harness.monitoring.calendar import cut
from ltr_harness.monitoring.config import MonitorConfig
from ltr_harness.monitoring.load import load_monitor_config
from ltr_harness.monitoring.result import MonitorResult
from tests.conftest import examples

Table = Callable[..., pd.DataFrame]
Analyse = Callable[..., MonitorResult]


def config(size: str = "1d", timezone: str = "UTC", **relevance: Any) -> MonitorConfig:
    return load_monitor_config(
        {
            "columns": {"rank": "rank", "timestamp": "ts"},
            "windows": {"size": size, "timezone": timezone},
            "relevance": relevance,
        }
    )


def moments(*texts: str) -> np.ndarray[Any, Any]:
    """Texts with a zone as nanoseconds UTC."""
    return (
        pd.to_datetime(list(texts), utc=True)
        .tz_localize(None)
        .to_numpy()
        .astype("datetime64[ns]")
        .astype(np.int64)
    )


def test_six_hours_in_berlin_begin_at_midnight() -> None:
    """They began at 01:00, 07:00 …: at UTC's midnight."""
    time = moments(
        "2026-01-05T00:30+01:00", "2026-01-05T05:59+01:00", "2026-01-05T06:00+01:00", "2026-01-05T23:59+01:00"
    )
    found = cut(time, 4, config("6h", "Europe/Berlin"))
    assert found.labels == ("2026-01-05T00:00+0100", "2026-01-05T06:00+0100", "2026-01-05T18:00+0100")
    assert found.codes.tolist() == [0, 0, 1, 2]
    assert np.diff(found.number).tolist() == [1, 2]
    assert found.hours.tolist() == [6.0, 6.0, 6.0]


@pytest.mark.parametrize(
    ("day", "hours"), [("2026-03-29", [5, 6, 6, 6]), ("2026-10-25", [7, 6, 6, 6]), ("2026-06-01", [6] * 4)]
)
def test_a_window_is_shorter_or_longer_when_the_clocks_change(day: str, hours: list[int]) -> None:
    wall = pd.date_range(f"{day}T00:30", periods=4, freq="6h").tz_localize("Europe/Berlin")
    time = wall.tz_convert("UTC").tz_localize(None).to_numpy().astype("datetime64[ns]").astype(np.int64)
    found = cut(time, 4, config("6h", "Europe/Berlin"))
    assert found.hours.tolist() == hours
    assert np.diff(found.number).tolist() == [1, 1, 1]


@pytest.mark.long
@examples(60)
@given(
    st.lists(st.integers(1_700_000_000, 1_800_000_000), min_size=1, max_size=20),
    st.sampled_from(["1h", "2h", "6h", "12h", "1d", "2d", "7d", "30m"]),
    st.sampled_from(
        ["UTC", "Europe/Berlin", "Asia/Kolkata", "America/St_Johns", "Australia/Lord_Howe", "Asia/Kathmandu"]
    ),
)
def test_every_moment_lies_in_its_window(times: list[int], size: str, zone: str) -> None:
    time = np.array(times) * 10**9
    found = cut(time, time.size, config(size, zone))
    assert np.all(found.start[found.codes] <= time)
    assert np.all(time < found.end[found.codes])
    first = pd.Timestamp(int(found.start[0]), tz="UTC").tz_convert(zone)
    if size.endswith("d"):
        assert (first.hour, first.minute) in {(0, 0), (1, 0)}  # where midnight does not exist, one o'clock
    assert np.all(np.diff(found.number) >= 1)


# ---- where a log ends -------------------------------------------------------------------------------------


def at_days(table: pd.DataFrame, days: Any) -> pd.DataFrame:
    start = int(np.datetime64("2026-01-05", "ns").astype(np.int64))
    return table.assign(time=start + (np.asarray(days) * 86_400e9).astype(np.int64))


def fortnight(query_table: Table, strays: list[float], seed: int = 1, prefix: str = "q") -> pd.DataFrame:
    random = np.random.default_rng(seed)
    days = np.concatenate([random.uniform(0, 14, 14 * 60), strays])
    return at_days(query_table(random.beta(8, 2, days.size), prefix=prefix), days)


@pytest.mark.parametrize("strays", [[], [16.0], [400.5], [15.5, 30.0, 31.0, 9000.0]])
def test_a_clock_that_is_wrong_does_not_make_labels_old(
    strays: list[float], query_table: Table, analyse: Analyse
) -> None:
    """One timestamp in the future, and every query was old enough for its labels: maturity was off."""
    found = analyse(
        fortnight(query_table, strays),
        fortnight(query_table, [], 2, "b"),
        relevance={"events": {"click": 1}, "maturity": "7d"},
        windows={"min_queries": 20},
        columns={"rank": "rank", "timestamp": "ts"},
    )
    statuses = [w.status for w in found.windows]
    assert statuses == ["tested"] * 7 + ["immature"] * 7 + ["stray"] * len(strays)
    assert [f.count for f in found.log_checks if f.check == "time-stray"] == ([len(strays)] if strays else [])
    left_out = f"{found.n_immature:,} queries are left out because labels are still arriving"
    assert left_out in found.verdict.caution.text
    assert abs(found.n_immature - 7 * 60) < 60


@pytest.mark.long
def test_a_query_from_long_ago_is_no_first_window(query_table: Table, analyse: Analyse) -> None:
    """Alpha is spent from the first window on record: one from 1995 would have spent it all."""
    now, before = fortnight(query_table, [-11_000.0]), fortnight(query_table, [], 2, "b")
    options: dict[str, Any] = {"windows": {"min_queries": 20}, "compare": {"correct": "sequence"}}
    found = analyse(now, before, **options)
    assert found.windows[0].status == "stray"
    assert "window 14 on record" in found.family
    assert "window 14 on record" in analyse(fortnight(query_table, []), before, **options).family


def test_the_first_hour_of_today_is_no_stray(query_table: Table, analyse: Analyse) -> None:
    """A job that runs at half past midnight: a window with little in it, next to the others."""
    found = analyse(fortnight(query_table, [14.01]), None, windows={"min_queries": 20})
    assert found.windows[-1].status == "small"
    assert not [f for f in found.log_checks if f.check == "time-stray"]
    night = analyse(at_days(query_table([0.5, 0.6]), [0.0, 200.0]), None, windows={"min_queries": 1})
    assert [w.status for w in night.windows] == ["untested", "untested"]  # two of two are no exception


def test_a_stray_time_is_told_on_the_page_and_kept_out_of_the_history(tmp_path: Path) -> None:
    rows = 14 * 30
    days = np.append(np.repeat(np.arange(14), 30), 700)
    log = pd.DataFrame(
        {
            "query_id": np.arange(rows + 1).astype(str),
            "rank": 1,
            "relevance": 1,
            "ts": pd.Timestamp("2026-01-05", tz="UTC") + pd.to_timedelta(days, unit="D"),
        }
    )
    settings_ = {
        "columns": {"rank": "rank", "timestamp": "ts"},
        "metrics": ["mrr"],
        "windows": {"min_queries": 5},
    }
    found = monitor(settings_, log=log, history=tmp_path)
    assert any(
        "1 of 421 queries lie apart from the rest of the log in time" in str(f) for f in found.log_checks
    )
    text = next(tmp_path.glob("*.json")).read_text()
    assert "2027-12" not in text
    assert f'"seen_until": {moments("2026-01-18T00:00Z")[0]}' in text


def test_alerts_on_as_yaml_1_1_reads_it() -> None:
    alerts = yaml.safe_load("on: [change, arm]")
    config = load_monitor_config({"columns": {"rank": "rank"}, "alerts": alerts})
    assert config.alerts.on == ("change", "arm")
