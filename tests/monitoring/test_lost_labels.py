"""Labels that are lost where logs hold ready labels: fewer of them, or more that say nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from ltr_harness.monitoring import monitor
from ltr_harness.monitoring.page import build_monitor_report
from ltr_harness.monitoring.result import MonitorResult

CONFIG: dict[str, Any] = {
    "columns": {"rank": "rank", "timestamp": "ts"},
    "metrics": ["ndcg@5"],
    "windows": {"min_queries": 50},
}


def log(seed: int, days: int = 6, n: int = 100, items: int = 8, start: str = "2026-01-05") -> pd.DataFrame:
    """Grades 0 to 2, better ones mostly higher up."""
    random = np.random.default_rng(seed)
    queries = days * n
    grade = random.choice(3, (queries, items), p=(0.6, 0.25, 0.15))
    order = np.argsort(-(grade + random.standard_normal(grade.shape)), axis=1)
    grades = np.take_along_axis(grade, order, axis=1).reshape(-1).astype(float)
    time = pd.Timestamp(start, tz="UTC") + pd.to_timedelta(np.repeat(np.arange(days), n * items), unit="D")
    return pd.DataFrame(
        {
            "query_id": np.repeat([f"{seed}-{i:05d}" for i in range(queries)], items),
            "rank": np.tile(np.arange(1, items + 1), queries),
            "relevance": grades,
            "ts": time,
        }
    )


def lose_labels(rows: pd.DataFrame, share: float, value: float, since: str = "2000-01-01") -> pd.DataFrame:
    random = np.random.default_rng(0)
    gone = (random.random(len(rows)) < share) & (rows["ts"] >= pd.Timestamp(since, tz="UTC"))
    return rows.assign(relevance=np.where(gone, value, rows["relevance"]))


def monitor_log(now: pd.DataFrame, **relevance: Any) -> MonitorResult:
    return monitor({**CONFIG, "relevance": relevance}, log=now, baseline=log(2))


@pytest.mark.parametrize("unlabelled", ["zero", "ignore"])
def test_a_third_of_the_labels_is_missing(unlabelled: str) -> None:
    found = monitor_log(lose_labels(log(1), 0.3, np.nan), unlabelled=unlabelled)
    alerts = {alert.text.partition(" 1.000")[0] for alert in found.alerts if alert.kind == "label_rate"}
    assert "documents with a label" in alerts
    assert found.verdict.cause == "labels"
    assert "Label outage: documents with a label went from 1.000 to 0.70" in found.verdict.what


def test_verdict_and_alerts_agree_on_an_outage() -> None:
    """A third of the labels counts 0, so the metric falls in every window: the labels' alert alone says why."""
    found = monitor_log(lose_labels(log(1), 0.33, np.nan), unlabelled="zero")
    assert found.changes[0].alert
    assert found.verdict.where.startswith("Labels, not the ranking, changed")
    assert {alert.kind for alert in found.alerts} == {"label_rate", "contract"}
    assert any("(no alert: labels are missing)" in caution.text for caution in found.cautions)


def shared_outage(seed: int, worse: bool) -> MonitorResult:
    """Whole days lose labels, by chance more or less; `worse`: documents are shuffled too."""
    random = np.random.default_rng(seed)
    rows = log(3 * seed + 100)
    share = random.uniform(0.2, 0.6, 6)[(rows["ts"].dt.day - 5).to_numpy()]
    now = rows.assign(relevance=np.where(random.random(len(rows)) < share, np.nan, rows["relevance"]))
    if worse:
        now = now.assign(
            relevance=now.groupby("query_id")["relevance"].transform(lambda v: v.to_numpy()[::-1])
        )
    return monitor({**CONFIG, "relevance": {"unlabelled": "zero"}}, log=now, baseline=log(3 * seed + 101))


@pytest.mark.slow
@pytest.mark.parametrize("worse", [False, True])
def test_no_outage_is_called_labels_beside_alerts_of_the_metric(worse: bool) -> None:
    for seed in range(40):
        found = shared_outage(seed, worse)
        assert found.verdict.cause == "labels"
        assert not [alert for alert in found.alerts if alert.kind in ("change", "slice")], seed


@pytest.mark.long
def test_a_third_of_the_labels_is_zero() -> None:
    """Nothing is missing, every list still has a relevant document, and 30 % of them were lost."""
    found = monitor_log(lose_labels(log(1), 0.3, 0.0))
    (alert,) = (alert.text for alert in found.alerts if alert.kind == "label_rate")
    assert alert.startswith("relevant documents 0.4")
    assert found.verdict.cause == "labels"
    assert found.verdict.where == (
        "Labels were lost, or other documents are retrieved: their order is not what changed."
    )
    page = "".join(str(b) for section in build_monitor_report(found).sections for b in section.blocks)
    assert "relevant per query" in page


@pytest.mark.long
def test_an_outage_is_dated() -> None:
    found = monitor_log(lose_labels(log(1), 0.4, 0.0, since="2026-01-09"))
    windows = [t.window for t in found.labels if t.alert and t.measure == "relevant documents"]
    assert windows == ["all", "2026-01-09", "2026-01-10"]


@pytest.mark.long
def test_shorter_lists_have_lost_nothing() -> None:
    short = log(1)
    found = monitor_log(short[short["rank"] <= 6])
    assert not [alert for alert in found.alerts if alert.kind == "label_rate"]


@pytest.mark.long
@pytest.mark.parametrize("runs", [4, pytest.param(10, marks=pytest.mark.slow)])
def test_healthy_labels_are_quiet(runs: int) -> None:
    logs = ((log(2 * seed + 10), log(2 * seed + 11)) for seed in range(runs))
    alarmed = sum(bool(monitor(CONFIG, log=now, baseline=before).alerts) for now, before in logs)
    assert alarmed <= 0.1 * runs


@pytest.mark.long
def test_classes_that_match_less_are_a_worse_model_not_lost_labels() -> None:
    random = np.random.default_rng(5)

    def classes(right: float) -> pd.DataFrame:
        rows = log(3)
        truth = np.where(rows["relevance"] > 0, "good", "bad")
        wrong = random.random(len(rows)) > right
        return rows.assign(truth=truth, said=np.where(wrong, "bad", truth))

    rule = {"mode": "match", "prediction": "said", "label": "truth", "positive": "good"}
    found = monitor({**CONFIG, "relevance": rule}, log=classes(0.6), baseline=classes(0.95))
    assert "relevant documents" not in {test.measure for test in found.labels}
