"""Sixty thousand queries of a position-based click model: what the page does, what the ranking does, what is lost.

Twenty items could be shown, each liked with probability .911 u^1.87 where u is uniform; a model sees that through
noise and shows the ten it likes best; users look at rank r with probability r^-power. With noise .385 (good) and
.855 (worse) this gives, within .007, true ndcg .805 and .656, click ndcg .842 on the usual page, .795 on one that
shows more, .856 for the worse model on a steeper one; DCG of the worse model comes out 2 % higher than 1.80.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

from ltr_harness.monitoring import monitor
from ltr_harness.monitoring.labels import CLICK_BIAS
from ltr_harness.monitoring.synthetic import SyntheticLog

pytestmark = pytest.mark.slow

QUERIES, SHOWN, CANDIDATES = 60_000, 10, 20
GOOD, WORSE = 0.385, 0.855
USUAL, SHOWS_MORE, STEEPER = 1.0, 0.5, 1.5  # examination r^-power

CONFIG: dict[str, Any] = {
    "columns": {"rank": "rank"},
    "relevance": {"events": {"click": 1}},
    "metrics": ["ndcg@10", "mrr(empty=zero)@10"],
    "propensity": {"column": "examination"},
}


class World(NamedTuple):
    """A log, and of its ranking what no log shows: the mean ndcg@10 and dcg@10 over the probabilities to be liked."""

    log: pd.DataFrame
    ndcg: float
    dcg: float


@cache
def world(seed: int, noise: float, power: float) -> World:
    random = np.random.default_rng(seed)
    liked = 0.911 * random.random((QUERIES, CANDIDATES)) ** 1.87
    discount = 1 / np.log2(np.arange(2, SHOWN + 2))
    ideal = -np.sort(-liked, axis=1)[:, :SHOWN] @ discount
    order = np.argsort(-(liked + noise * random.standard_normal(liked.shape)), axis=1)[:, :SHOWN]
    liked = np.take_along_axis(liked, order, axis=1)
    examination = np.arange(1, SHOWN + 1.0) ** -power
    click = random.random(liked.shape) < liked * examination
    rows = {
        "query_id": np.repeat(np.char.add(f"{seed}-", np.arange(QUERIES).astype(str)), SHOWN),
        "rank": np.tile(np.arange(1, SHOWN + 1), QUERIES),
        "click": click.reshape(-1).astype(int),
        "examination": np.tile(examination, QUERIES),
    }
    dcg = liked @ discount
    return World(pd.DataFrame(rows), float((dcg / ideal).mean()), float(dcg.mean()))


def clicks_mrr(seen: World) -> float:
    return dict(monitor(CONFIG, log=seen.log).windows[0].means)["mrr(empty=zero)@10"]


def test_the_same_model_on_a_page_that_shows_more() -> None:
    before, now = world(1, GOOD, USUAL), world(2, GOOD, SHOWS_MORE)
    assert (before.ndcg, now.ndcg) == pytest.approx((0.8054, 0.8058), abs=0.007)
    found = monitor(CONFIG, log=now.log, baseline=before.log)
    clicks, seen = found.changes[0], found.presentation
    assert clicks.baseline.value == pytest.approx(0.8424, abs=0.005)
    assert clicks.production.value == pytest.approx(0.7952, abs=0.005)
    assert clicks.difference.value == pytest.approx(-0.047, abs=0.004)  # although the ranking is the same
    assert (clicks_mrr(before), clicks_mrr(now)) == pytest.approx((0.7276, 0.7595), abs=0.005)
    assert seen is not None
    assert seen.ips is not None
    assert (seen.ips_before, seen.ips_now) == pytest.approx(
        (before.dcg, now.dcg), abs=0.02
    )  # unbiased for DCG
    assert seen.ips_before == pytest.approx(2.21, abs=0.02)
    assert seen.ips.low < 0 < seen.ips.high
    assert any(
        "spread over the ranks differently" in caution.text and CLICK_BIAS in caution.text
        for caution in found.cautions
    )
    assert found.healthy
    assert found.verdict.cause == "presentation"
    by_clicks = monitor({**CONFIG, "propensity": None}, log=now.log, baseline=before.log)
    assert by_clicks.verdict.cause == "presentation"  # without propensities: rank 1 stood still
    assert "change" not in {alert.kind for alert in by_clicks.alerts}


def test_a_worse_model_on_a_steeper_page() -> None:
    before, now = world(1, GOOD, USUAL), world(3, WORSE, STEEPER)
    assert now.ndcg == pytest.approx(0.6563, abs=0.007)
    found = monitor(CONFIG, log=now.log, baseline=before.log)
    clicks, seen = found.changes[0], found.presentation
    assert clicks.production.value == pytest.approx(0.8561, abs=0.007)
    assert clicks.difference.low > 0  # clicks call it better
    assert clicks_mrr(now) == pytest.approx(0.5511, abs=0.007)
    assert seen is not None
    assert seen.ips is not None
    assert seen.ips_now == pytest.approx(now.dcg, abs=0.03)
    assert seen.ips_now == pytest.approx(1.807, abs=0.05)
    assert seen.ips.high < 0
    assert "The ranking got worse. IPS-DCG fell: " in found.verdict.what
    assert found.alerts[0].text.startswith("ips_dcg -")


def test_a_worse_model_on_the_usual_page() -> None:
    before, now = world(1, GOOD, USUAL), world(4, WORSE, USUAL)
    found = monitor(CONFIG, log=now.log, baseline=before.log)
    assert found.changes[0].production.value == pytest.approx(0.7907, abs=0.007)
    assert found.presentation is not None
    assert found.presentation.ips_now == pytest.approx(1.812, abs=0.05)
    assert found.alerts[0].text.startswith("ndcg@10 -")
    assert "The ranking got worse. IPS-DCG fell: " in found.verdict.what


# ---- clicks that never arrive -----------------------------------------------------------------------------


def graded_log(seed: int, lost: float = 0.0) -> SyntheticLog:
    """Clicks on graded items of a weak model, on a page that shows much: half of the queries have none."""
    return SyntheticLog(
        seed=seed, start="2026-01-05" if seed == 1 else "2026-01-19", days=14, queries_per_day=2000, items=10,
        grade_shares=(0.68, 0.16, 0.09, 0.05, 0.02), noise=2.5, examination=0.5, lost_clicks=lost,
    )  # fmt: skip


@pytest.mark.parametrize("empty", ["skip", "zero", "one"])
def test_three_clicks_in_ten_are_lost(empty: str) -> None:
    config = {
        "columns": {"query_id": "request_id", "rank": "position", "timestamp": "ts"},
        "relevance": {"events": {"click": 1}},
        "metrics": ["ndcg@10"],
        "empty": empty,
    }
    found = monitor(config, log=graded_log(2, 0.3), baseline=graded_log(1))
    if empty == "skip":  # the others are shown beside it
        production, baseline = found.empty_rules
        assert baseline.one == pytest.approx(0.846, abs=0.006)
        assert production.one == pytest.approx(0.872, abs=0.006)  # nothing got better
    assert "label_rate" in {alert.kind for alert in found.alerts}
    assert found.verdict.cause == "labels"
    assert found.verdict.what.startswith("Label outage")
    assert "improved" not in found.verdict.text
    assert found.presentation is not None
    assert found.presentation.signature == "proportional"  # every rank lost its share
