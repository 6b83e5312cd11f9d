"""The status and the headline of a monitoring run: one line of at most twenty words, whatever was found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ltr_harness.monitoring import monitor
from ltr_harness.monitoring.page import MAX_HEADLINE_WORDS, banner
from ltr_harness.monitoring.result import Alert, MonitorResult, Verdict
from ltr_harness.monitoring.synthetic import SyntheticLog
from ltr_harness.report.blocks import Badge

CONFIG: dict[str, Any] = {
    "columns": {"query_id": "request_id", "rank": "position", "timestamp": "ts"},
    "metrics": ["ndcg@10"],
}


@pytest.fixture(scope="module")
def healthy() -> MonitorResult:
    return monitor(CONFIG, log=SyntheticLog(seed=3, days=3), baseline=SyntheticLog(seed=4, days=3))


def with_difference(result: MonitorResult, by: float, **more: Any) -> MonitorResult:
    """The same with another difference, whose interval reaches .002 to both sides."""
    first = result.changes[0]
    difference = replace(first.difference, value=by, low=by - 0.002, high=by + 0.002)
    return replace(result, changes=(replace(first, difference=difference, **more), *result.changes[1:]))


@pytest.mark.parametrize(
    ("by", "more", "text"),
    [
        (0.0001, {}, "ndcg@10 did not measurably change: +0.0001 (90 % CI -0.0019 to +0.0021)"),
        (-0.00001, {}, "ndcg@10 did not measurably change: +0.0000 (90 % CI -0.0020 to +0.0020)"),
        (-0.01, {"alert": True}, "ndcg@10 fell by 0.0100 (90 % CI 0.0080 to 0.0120)"),
        (-0.01, {}, "ndcg@10 fell by 0.0100 (90 % CI 0.0080 to 0.0120), not significant after correction"),
        (0.01, {}, "ndcg@10 rose by 0.0100 (90 % CI 0.0080 to 0.0120)"),
        (
            -0.003,
            {"below_min_drop": True},
            "ndcg@10 fell by 0.0030 (90 % CI 0.0010 to 0.0050), less than min_drop 0.005",
        ),
    ],
)
def test_what_the_metric_did(healthy: MonitorResult, by: float, more: dict[str, bool], text: str) -> None:
    assert banner(with_difference(replace(healthy, min_drop=0.005), by, **more)).text == text


def test_the_status_says_what_the_exit_code_says(healthy: MonitorResult) -> None:
    assert banner(healthy).status == Badge("healthy", "good")
    assert banner(replace(healthy, alerts=(Alert("change", "x"),))).status == Badge("1 alert", "bad")
    alone = monitor(CONFIG, log=SyntheticLog(seed=3, days=3))
    assert banner(alone).status == Badge("no baseline", "neutral")
    assert banner(alone).text.startswith(f"ndcg@10 has a mean of {alone.mean('ndcg@10'):.4f} over ")


@pytest.mark.parametrize("cause", ["labels", "immature", "presentation", "serving", "input", "mix", "none"])
def test_every_cause_fits_into_twenty_words(healthy: MonitorResult, cause: str) -> None:
    verdict = Verdict(cause, "", "", "")
    for result in (with_difference(healthy, -0.01), with_difference(healthy, -0.01, alert=True)):
        text = banner(replace(result, verdict=verdict)).text
        assert len(text.split()) <= MAX_HEADLINE_WORDS
        assert "->" not in text
        assert "[" not in text
