"""No sentence of a page contradicts another: status, headline, verdict, tables, JSON, alerts and exit code."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest

from ltr_harness.monitoring import MonitorResult, monitor
from ltr_harness.monitoring.page import banner, build_monitor_report
from ltr_harness.monitoring.synthetic import SyntheticLog
from ltr_harness.report.blocks import Badge, Block, Details, Paragraph, Table

CONFIG: dict[str, Any] = {
    "columns": {
        "query_id": "request_id", "rank": "position", "timestamp": "ts",
        "segments": ["country", "device"], "features": ["f3", "f7"],
    },
    "metrics": ["ndcg@10", "mrr@10"],
    "windows": {"min_queries": 15},
}  # fmt: skip
CLICKS = {"relevance": {"events": {"click": 1}}}
GRADES = {"relevance": {"mode": "label", "label": "relevance", "max_grade": 4}}
CALM = ("healthy", "improved", "presentation", "none")


def draw(seed: int) -> MonitorResult:
    """A log of which chance decides what is planted, when, and how it is watched."""
    random = np.random.default_rng(seed)
    days = int(random.choice([1, 6, 14]))
    planted: dict[str, Any] = {}
    choices: list[dict[str, Any]] = [
        {}, {}, {"drop": float(random.choice([0.3, 0.8, 4.0]))}, {"wrong_first": 0.4}, {"shuffled_rest": 1.0},
        {"slice_country": "B", "slice_noise": 6.0}, {"examination": 0.6}, {"lost_clicks": 0.35},
        {"lost_clicks": 0.7, "lost_from_rank": 4}, {"f3_shift": 1.0}, {"f7_shift": 1.0}, {"noise": 0.3},
    ]  # fmt: skip
    for one in random.choice(len(choices), 2):
        planted |= choices[int(one)]
    if days > 1:
        planted["since"] = int(random.choice([0, days // 2, days - 1]))
    config: dict[str, Any] = {**CONFIG, **(CLICKS if random.random() < 0.7 else GRADES)}
    if random.random() < 0.4:
        config["propensity"] = {"column": "examination"}
    config["compare"] = {"min_drop": float(random.choice([0.0, 0.01, 0.04]))}
    if random.random() < 0.2:
        config["compare"]["alternative"] = "change"
    if random.random() < 0.1:
        config["alerts"] = {"on": ["slice", "label_rate", "limit"]}
    if random.random() < 0.3:
        below = {"ndcg@10": float(random.choice([0.3, 0.45, 0.6, 0.9]))}
        config["alerts"] = config.get("alerts", {}) | {"below": below}
    size: dict[str, Any] = {"queries_per_day": 60, "items": 10}
    before = SyntheticLog(seed=2 * seed, days=14, **size)
    return monitor(
        config,
        log=SyntheticLog(seed=2 * seed + 1, start="2026-02-02", days=days, **size, **planted),
        baseline=before,
    )


def texts(block: Block) -> Iterator[str]:
    if isinstance(block, Paragraph):
        yield block.text if isinstance(block.text, str) else "".join(map(str, block.text))
    if isinstance(block, Details):
        for inner in block.blocks:
            yield from texts(inner)


def contradictions(result: MonitorResult) -> list[str]:
    """Name the facts of which two places of a result say different things."""
    found: list[str] = []

    def refuse(name: str, holds: bool) -> None:
        if holds:
            found.append(name)

    head, verdict, document = banner(result), result.verdict, json.loads(result.to_json())
    alerts, undecided = bool(result.alerts), bool(result.undecided)
    # status, JSON and exit code are one fact
    refuse("exit code", result.exit_code != (4 if alerts else 0))
    refuse("healthy in JSON", document["healthy"] is not (False if alerts else None if undecided else True))
    status = f"{len(result.alerts)} alert" if alerts else "undecided" if undecided else "healthy"
    refuse("status", not head.status.text.startswith(status))
    refuse("alerts in JSON", len(document["alerts"]) != len(result.alerts))
    # the cause fits the status
    refuse("healthy verdict beside alerts", alerts and verdict.cause in ("healthy", "improved", "none"))
    refuse("cause beside no alert", not alerts and not undecided and verdict.cause not in CALM)
    refuse("healthy cause, undecided", undecided and verdict.cause in ("healthy", "improved", "none"))
    worse = "The ranking got worse" in verdict.what
    refuse("worse, and no alert", worse and not alerts and "alerts.on" not in result.undecided)
    refuse("undecided in the verdict", undecided != ("Undecided: " in verdict.where))
    # the headline
    fell = "fell by" in head.text
    refuse("healthy over a fall", status == "healthy" and fell and "less than min_drop" not in head.text)
    refuse("outage of labels without their alert", head.text.startswith("Label outage") and not alerts)
    refuse("labels and the metric", verdict.cause == "labels" and result.n_alerts("change") > 0)
    worst = head.text.rpartition(", worst in ")[2] if ", worst in " in head.text else ""
    refuse("worst segment", bool(worst) and worst != result.slices[0].predicate)
    if result.examined is not None and fell and head.text.startswith(result.metrics[0]):
        size = f"{abs(result.examined.difference.value):.4f}"
        refuse("headline's number", size not in head.text)
        refuse("verdict's number", f"{result.examined.difference}" not in verdict.text)
    # intervals of alerts
    for w in result.windows:
        for by, raised in ((w.change, w.alert), (w.trailing, w.trailing_alert), (w.running, w.running_alert)):
            refuse("an alert's interval holds 0", raised and by is not None and not by.direction)
    for change in result.changes:
        refuse("the change's interval holds 0", change.alert and not change.difference.direction)
    # limits
    missed = any(
        test.alert for limit in result.limits for test in (limit.whole, *limit.windows, *limit.segments)
    )
    refuse("limit missed without an alert", missed != (result.n_alerts("limit") > 0))
    refuse("limit missed, and not in the verdict", missed != ("Below a limit: " in verdict.where))
    below = any(limit.whole.below for limit in result.limits)
    refuse("healthy below a limit", below and status == "healthy")
    # where and why
    found += _location_contradictions(result)
    return found


def _location_contradictions(result: MonitorResult) -> Iterator[str]:
    verdict = result.verdict
    stands_out = "No segment stands out" in verdict.where
    if stands_out and result.slices:
        yield "no segment stands out, and one does"
    if "equally everywhere" in verdict.text:
        yield "equally everywhere was not tested"
    for feature in result.drift:
        if f"{feature.name} moved" in verdict.where and not feature.drifted:
            yield f"{feature.name} moved and is stable"
    sections = {section.name: section.blocks for section in build_monitor_report(result).sections}
    tables = [b for blocks in sections.values() for b in blocks if isinstance(b, Table)]
    badges = [cell.text for t in tables for row in t.rows for cell in row if isinstance(cell, Badge)]
    if not result.alerts and "alert" in badges:
        yield "a badge says alert"
    paragraphs = [text for blocks in sections.values() for b in blocks for text in texts(b)]
    if any(text.startswith("None of ") for b in sections.get("slices", ()) for text in texts(b)) and any(
        alert.kind == "slice" for alert in result.alerts
    ):
        yield "slices: none, and an alert"
    if any("nan" in text.split() for text in paragraphs):
        yield "nan"


def bad(draws: Callable[[int], MonitorResult], seeds: Iterable[int]) -> dict[int, list[str]]:
    known = {seed: contradictions(draws(seed)) for seed in seeds}
    return {seed: found for seed, found in known.items() if found}


@pytest.mark.long
def test_pages_do_not_contradict_themselves() -> None:
    """As many of the first twenty as enter all but a few branches that these twenty enter."""
    assert bad(draw, (0, 1, 2, 4, 5, 7, 9, 11, 13, 16)) == {}


@pytest.mark.slow
def test_five_hundred_pages_do_not_contradict_themselves() -> None:
    assert bad(draw, range(500)) == {}
