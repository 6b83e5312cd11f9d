"""Absolute limits of metrics: alerts, notices and what is undecided, with a baseline, without, and over many runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from ltr_harness.errors import ConfigError
from ltr_harness.monitoring import MonitorResult, monitor
from ltr_harness.monitoring.load import load_monitor_config
from ltr_harness.monitoring.page import banner, build_monitor_report
from ltr_harness.monitoring.stages import run_stages
from ltr_harness.monitoring.synthetic import SyntheticLog
from ltr_harness.monitoring.windows import timeline
from ltr_harness.report.blocks import Badge, Table

Cli = Callable[..., tuple[int, str, str]]
Analyse = Callable[..., MonitorResult]
QueryTable = Callable[..., pd.DataFrame]


def limit_sections(limit: float, **sections: Any) -> dict[str, Any]:
    return {"alerts": {"below": {"ndcg@10": limit}}} | sections


def values(mean: float, n: int, seed: int = 1) -> np.ndarray[Any, Any]:
    """Values from .3 around a mean that they have exactly."""
    drawn = np.random.default_rng(seed).uniform(-0.3, 0.3, n)
    return drawn - drawn.mean() + mean


@pytest.mark.parametrize(
    ("limit", "code", "healthy", "status", "headline"),
    [
        (0.60, 4, False, Badge("1 alert", "bad"), "ndcg@10 is below its limit 0.6: 0.5000"),
        (
            0.501, 0, None, Badge("undecided", "neutral"),
            "ndcg@10 has a mean of 0.5000 over 1,000 queries, below its limit 0.501",
        ),
        (
            0.45, 0, True, Badge("within limits", "good"),
            "ndcg@10 has a mean of 0.5000 over 1,000 queries, above its limit 0.45",
        ),
    ],
)  # fmt: skip
def test_without_a_baseline(
    query_table: QueryTable, analyse: Analyse, limit: float, code: int, healthy: bool | None,
    status: Badge, headline: str,
) -> None:  # fmt: skip
    found = analyse(query_table(values(0.5, 1_000)), None, **limit_sections(limit))
    assert (found.exit_code, found.healthy) == (code, healthy)
    head = banner(found)
    assert (head.status, head.text) == (status, headline)
    (held,) = found.document["limits"]
    # 1,000 values, even over .6 in width, have an error of .6/sqrt(12)/sqrt(1000), and 95 % of t is at 1.646 of them
    reach = 1.646 * 0.6 / np.sqrt(12) / np.sqrt(1_000)
    assert held["whole"]["mean"]["high"] == pytest.approx(0.5 + reach, abs=3e-4)
    assert (held["whole"]["below"], held["whole"]["alert"]) == (limit > 0.5, code == 4)
    (table,) = (
        block for s in build_monitor_report(found).sections if s.name == "limits" for block in s.blocks
        if isinstance(block, Table)
    )  # fmt: skip
    verdicts = {4: Badge("alert", "bad"), 0: Badge("notice" if limit > 0.5 else "no alert", "neutral")}
    assert table.rows[0][2].text == verdicts[code].text


def test_a_mean_below_is_a_caution_that_says_what_would_decide_it(
    query_table: QueryTable, analyse: Analyse
) -> None:
    found = analyse(query_table(values(0.5, 1_000)), None, **limit_sections(0.501))
    # the interval reaches .009 to the limit's side and .001 is needed: 81 times as many, and the mean is rounded
    assert "about 8" in found.undecided
    assert found.verdict.cause == "unclear"
    assert [c.kind for c in found.cautions] == ["limit"]
    assert "lies below its limit 0.501 over all of production" in str(found.cautions[0])


def test_a_segment_and_a_window_below(query_table: QueryTable, analyse: Analyse) -> None:
    country = np.tile(["A", "B", "C", "D"], 1_000)
    day = np.repeat(np.arange(4), 1_000)
    of_segment = values(0.9, 4_000) - 0.2 * (country == "D")
    now = query_table(of_segment, days=day, segments={"country": country})
    found = analyse(now, None, **limit_sections(0.8))
    (alert,) = found.alerts
    assert str(alert).startswith("ALERT limit ndcg@10 0.7")
    assert str(alert).endswith("below 0.8 in country=D (1 of 4 segments below)")
    assert banner(found).text == "ndcg@10 is below its limit 0.8 in 1 of 4 segments"
    found = analyse(query_table(values(0.9, 4_000) - 0.2 * (day == 2), days=day), None, **limit_sections(0.8))
    (alert,) = found.alerts
    assert alert.window == "2026-01-07"
    assert banner(found).text == "ndcg@10 is below its limit 0.8 in 1 of 4 windows"
    assert found.verdict.cause == "limit"
    assert "1 of 4 windows, first 2026-01-07" in found.verdict.where
    chart = timeline(found)
    assert "red windows raised an alert, the dotted line is the limit" in chart.title
    assert [point["state"] for point in chart.spec["data"]["values"]].count("alert") == 1


def test_limits_spend_nothing_of_the_test_against_a_baseline(
    query_table: QueryTable, analyse: Analyse
) -> None:
    day = np.repeat(np.arange(4), 500)
    now, before = (
        query_table(values(0.5, 2_000), days=day),
        query_table(values(0.5, 2_000, 2), days=day, prefix="b"),
    )
    for rule in ("bonferroni", "sequence"):
        plain, held = (
            analyse(now, before, compare={"correct": rule}, **more) for more in ({}, limit_sections(0.6))
        )
        assert [w.p_corrected for w in held.windows] == [w.p_corrected for w in plain.windows]
        assert repr(held.changes) == repr(plain.changes)
        assert plain.exit_code == 0
        assert held.exit_code == 4
        assert {alert.kind for alert in held.alerts} == {"limit"}
        assert held.verdict.cause == "limit"
        assert banner(held).text == "ndcg@10 is below its limit 0.6: 0.5000"


def test_too_few_queries_are_not_held_to_be_within(query_table: QueryTable, analyse: Analyse) -> None:
    found = analyse(query_table(values(0.5, 199)), None, **limit_sections(0.9))
    assert (found.exit_code, found.healthy) == (0, None)
    assert "was not held against its limit 0.9: 199 queries" in found.undecided
    nothing = analyse(query_table(np.full(10, np.nan)), None, **limit_sections(0.9))
    assert (nothing.exit_code, nothing.healthy) == (0, None)


def test_two_hundred_zeros_do_not_show_a_mean_below_one_in_a_hundred(
    query_table: QueryTable, analyse: Analyse
) -> None:
    # of a mean of .01, 200 queries of 0 or 1 are all 0 in .99 ** 200 = 13 %; of one of .05, in .0035 %
    zeros = query_table(np.zeros(200), relevant=np.ones(200, np.bool_))
    assert analyse(zeros, None, **limit_sections(0.01)).exit_code == 0
    assert analyse(zeros, None, **limit_sections(0.05)).exit_code == 4
    users = query_table(
        np.zeros(400), cluster=(np.arange(400) // 2).astype(str), relevant=np.ones(400, np.bool_)
    )
    assert analyse(users, None, **limit_sections(0.01)).exit_code == 0


def false_alarms(query_table: QueryTable, logs: int, nights: int, folder: Path) -> int:
    """Count the series with an alert in any night, where the mean is the limit; several nights have a history."""
    sections = {
        "columns": {"rank": "rank", "timestamp": "ts", "segments": ["country"]},
        **limit_sections(0.5),
    }
    config, alarmed = load_monitor_config({"metrics": ["ndcg@10"], **sections}), 0
    for seed in range(logs):
        draws = np.random.default_rng(seed).uniform(0.2, 0.8, (nights + 6, 250))
        country = np.tile(["A", "B", "C", "D", "E"], 7 * 50)
        history = None if nights == 1 else folder / f"{nights}-{seed}"
        weeks = (_queries_of_week(query_table, draws, night, country) for night in range(nights))
        codes = [run_stages(week, None, config, history=history).result.exit_code for week in weeks]
        alarmed += any(codes)
    return alarmed


def _queries_of_week(query_table: QueryTable, draws: Any, night: int, country: Any) -> pd.DataFrame:
    days = np.repeat(np.arange(night, night + 7), 250)
    return query_table(draws[night : night + 7].ravel(), days=days, segments={"country": country})


@pytest.mark.long
@pytest.mark.parametrize(("logs", "most"), [(20, 4), pytest.param(60, 8, marks=pytest.mark.slow)])
def test_a_metric_at_its_limit_rarely_alarms(
    logs: int, most: int, query_table: QueryTable, tmp_path: Path
) -> None:
    # 13 tests at alpha .05 together: of 60 logs 3 on average, and more than 8 in 1 of 500; of 20 over 4 in 1 of 400
    assert false_alarms(query_table, logs, 1, tmp_path) <= most


@pytest.mark.slow
def test_thirty_nights_share_one_alpha(query_table: QueryTable, tmp_path: Path) -> None:
    # of 60 series 3 on average
    assert false_alarms(query_table, 60, 30, tmp_path) <= 8


def test_a_history_gives_limits_a_sequence_of_their_own(query_table: QueryTable, tmp_path: Path) -> None:
    config = load_monitor_config({
        "metrics": ["ndcg@10"], "columns": {"rank": "rank", "timestamp": "ts"}, **limit_sections(0.51),
    })  # fmt: skip
    reach = []
    for night in range(3):
        days = np.repeat([2 * night, 2 * night + 1], 500)
        found = run_stages(query_table(values(0.5, 1_000), days=days), None, config, history=tmp_path).result
        whole = found.limits[0].whole.mean
        reach.append(whole.high - whole.value)
    assert reach[0] < reach[1] < reach[2]  # the d-th window on record has 6 / (pi d) ** 2
    alone = run_stages(query_table(values(0.5, 1_000), days=days), None, config).result.limits[0].whole.mean
    assert alone.high - alone.value < reach[0]


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({"ndcg@10": 85}, "ndcg@10 has the limit 85; expected above 0 and at most 1; write 0.85"),
        ({"ndcg@10": 0}, "ndcg@10 has the limit 0; expected above 0 and at most 1"),
        ({"ndcg@10": -0.5}, "expected above 0 and at most 1"),
        ({"ndcg@5": 0.5}, "ndcg@5 is not computed; expected one of ndcg@10, mrr@10; add ndcg@5 to metrics"),
        ({"ndgc@10": 0.5}, "did you mean 'ndcg'"),
        ({"ndcg@10": 0.5, "NDCG@10": 0.6}, "are one metric; expected one limit"),
        ({"ndcg@10": float("nan")}, "alerts.below.ndcg@10"),
        ({"ndcg@10": "high"}, "alerts.below.ndcg@10 is 'high'"),
    ],
)
def test_limits_that_cannot_be(limits: dict[str, Any], told: str) -> None:
    config = {"columns": {"rank": "rank"}, "metrics": ["ndcg@10", "mrr@10"], "alerts": {"below": limits}}
    with pytest.raises(ConfigError) as caught:
        load_monitor_config(config)
    assert told in str(caught.value)


def test_a_limit_of_what_is_better_lower_and_one_that_may_not_alert() -> None:
    config: dict[str, Any] = {"columns": {"rank": "rank"}, "metrics": ["ndcg@10", "kendall_tau_distance"]}
    with pytest.raises(ConfigError, match="kendall_tau_distance is better where it is lower"):
        load_monitor_config({**config, "alerts": {"below": {"kendall_tau_distance": 0.2}}})
    with pytest.raises(ConfigError, match=r"expected limit among them; add limit to alerts\.on"):
        load_monitor_config({**config, "alerts": {"on": ["change"], "below": {"ndcg@10": 0.2}}})


def test_the_limit_of_a_metric_under_another_rule_for_empty_queries() -> None:
    config = load_monitor_config({"columns": {"rank": "rank"}, "empty": "zero", **limit_sections(0.8)})
    assert {str(metric): limit for metric, limit in config.limits.items()} == {"ndcg(empty=zero)@10": 0.8}


@pytest.mark.long
@pytest.mark.usefixtures("empty_pictures")
def test_the_command_says_it_with_file_and_line(ltr: Cli, tmp_path: Path) -> None:
    config = {
        "columns": {"query_id": "request_id", "rank": "position", "timestamp": "ts"},
        "log": {"seed": 3, "days": 3, "queries_per_day": 300},
        "metrics": ["ndcg@10"],
        "alerts": {"below": {"ndcg@10": 0.999}},
    }
    file = tmp_path / "m.yaml"
    file.write_text(yaml.safe_dump(config))
    code, out, err = ltr("monitor", file, "-o", tmp_path / "out")
    assert code == 4
    assert out.startswith("ALERT limit ndcg@10 0.9")
    assert err.startswith("4 alerts: ndcg@10 is below its limit 0.999: 0.9")
    page = (tmp_path / "out" / "report.md").read_text()
    assert "limit in 3 of 3 windows, from 2026-01-05 to 2026-01-07" in page.replace("**", "")
    file.write_text(yaml.safe_dump(config | {"alerts": {"below": {"ndcg@3": 0.9}}}))
    code, out, err = ltr("monitor", file)
    assert (code, out) == (2, "")
    assert "m.yaml:3" in err


def test_a_made_up_log_has_the_same_answer_everywhere() -> None:
    config = {
        "columns": {"query_id": "request_id", "rank": "position", "timestamp": "ts", "segments": ["country"]},
        "metrics": ["ndcg@10", "mrr@10"],
        **limit_sections(0.93),
    }
    log = SyntheticLog(seed=3, days=3, queries_per_day=300, slice_country="B", slice_noise=6.0)
    found = monitor(config, log=log)
    assert found.n_alerts("limit") == len(found.alerts)
    assert (found.exit_code == 4) == any(
        test.alert for held in found.limits for test in (held.whole, *held.windows, *held.segments)
    )
