"""Labels that are lost or late, pages that change: what must not be mistaken for a change of the ranking."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ltr_harness.monitoring import monitor
from ltr_harness.monitoring.labels import CLICK_BIAS
from ltr_harness.monitoring.result import MonitorResult
from ltr_harness.monitoring.synthetic import SyntheticLog

pytestmark = pytest.mark.long

COLUMNS = {"query_id": "request_id", "item_id": "sku", "rank": "position", "timestamp": "ts"}
CLICKS = {"columns": COLUMNS, "relevance": {"events": {"click": 1}}, "metrics": ["ndcg@10", "mrr@10"]}
PURCHASES = {"columns": COLUMNS, "relevance": {"events": {"click": 1, "buy": 4}}, "metrics": ["ndcg@10"]}


@cache
def baseline() -> pa.Table:
    return SyntheticLog(seed=1, days=14, queries_per_day=400, items=10).table()


def monitor_plants(config: dict[str, Any], **plants: Any) -> MonitorResult:
    """Return the result for a log with such defects; each is made and monitored once, whoever asks."""
    return _monitor_plants(json.dumps(config), tuple(plants.items()))


@cache
def _monitor_plants(config: str, plants: tuple[tuple[str, Any], ...]) -> MonitorResult:
    log = SyntheticLog(seed=2, start="2026-01-19", days=14, queries_per_day=400, items=10, **dict(plants))
    return monitor(json.loads(config), log=log, baseline=baseline())


def test_lost_clicks_are_a_label_outage_and_no_improvement() -> None:
    found = monitor_plants(CLICKS, lost_clicks=0.3)
    assert "label_rate" in {alert.kind for alert in found.alerts}
    assert found.verdict.cause == "labels"
    assert "Label outage" in found.verdict.what
    assert "improved" not in found.verdict.text
    assert found.presentation is not None
    assert found.presentation.signature == "proportional"


def test_the_rule_that_counts_empty_queries_as_one_would_have_risen() -> None:
    found = monitor_plants(CLICKS, lost_clicks=0.3)
    production, baseline = found.empty_rules
    assert (production.log, baseline.log) == ("production", "baseline")
    assert production.one > baseline.one
    assert monitor_plants({**CLICKS, "empty": "one"}, lost_clicks=0.3).verdict.cause == "labels"


def test_an_outage_in_a_few_windows_is_dated() -> None:
    found = monitor_plants(CLICKS, lost_clicks=0.6, since=10)
    windows = [test.window for test in found.labels if test.alert and test.window != "all"]
    assert windows[0] == "2026-01-29"
    assert found.verdict.cause == "labels"


def test_late_purchases_are_not_taken_for_a_drop() -> None:
    patient = monitor_plants(
        {**PURCHASES, "relevance": {**PURCHASES["relevance"], "maturity": "7d"}}, purchase_delay=2.0
    )
    assert patient.healthy
    assert [w.status for w in patient.windows[-7:]] == ["immature"] * 7
    assert patient.n_immature > 0
    left_out = f"{patient.n_immature:,} queries are left out because labels are still arriving"
    assert left_out in patient.verdict.caution.text


def test_without_maturity_the_fall_is_shown_and_called_immature() -> None:
    found = monitor_plants(PURCHASES, purchase_delay=2.0)
    assert [t for t in found.labels if t.alert and t.measure == "buy per query"]
    assert found.verdict.cause == "immature"
    assert "set relevance.maturity" in found.verdict.where


def test_the_same_model_on_a_page_that_shows_more() -> None:
    found = monitor_plants(CLICKS, examination=0.5)
    assert found.changes[0].difference.value < -0.02  # click NDCG falls
    assert found.presentation is not None
    assert found.presentation.changed
    assert found.presentation.signature == "page"
    assert found.verdict.cause == "unclear"  # a worse ranking below rank 1 does the same
    assert any(CLICK_BIAS in caution.text for caution in found.cautions)
    assert found.exit_code == 4
    # without the page the ratio is known to .014, of .63: a fall of a hundredth is not excluded, one of .03 is
    weighted = monitor_plants({**CLICKS, "propensity": {"column": "examination"}}, examination=0.5)
    assert (weighted.verdict.cause, weighted.exit_code) == ("unclear", 4)
    assert "Whether the page or the ranking changed cannot be told" in weighted.verdict.where
    large = {**CLICKS, "propensity": {"column": "examination"}, "compare": {"min_drop": 0.03}}
    weighted = monitor_plants(large, examination=0.5)
    assert weighted.presentation is not None
    assert weighted.presentation.ips_normalised is not None
    assert weighted.presentation.ips_normalised.low < 0 < weighted.presentation.ips_normalised.high
    assert weighted.healthy
    assert weighted.verdict.cause == "presentation"


def test_a_worse_model_on_a_steeper_page() -> None:
    found = monitor_plants({**CLICKS, "propensity": {"column": "examination"}}, examination=1.7, drop=0.9)
    seen = found.presentation
    assert seen is not None
    assert seen.ips is not None
    assert found.changes[0].difference.value > 0  # clicks say it got better
    assert seen.ips.high < 0  # and it did not
    assert "The ranking got worse. Self-normalised IPS-DCG fell: " in found.verdict.what
    assert found.alerts[0].text.startswith("self-normalised IPS-DCG -")
    assert seen.effective_gains is not None
    assert seen.effective_gains[0] > 100


def test_tables_of_propensities_do_what_the_column_does() -> None:
    ranks = np.arange(1, 11, dtype=float)
    tables = {"table": (ranks**-0.5).tolist(), "baseline_table": (1 / ranks).tolist()}
    by_table = monitor_plants({**CLICKS, "propensity": tables}, examination=0.5)
    by_column = monitor_plants({**CLICKS, "propensity": {"column": "examination"}}, examination=0.5)
    assert by_table.presentation == by_column.presentation


def test_a_worse_model_on_the_same_page_keeps_its_alert() -> None:
    found = monitor_plants(CLICKS, drop=2.5)
    assert found.presentation is not None
    assert found.presentation.signature == "ranking"
    assert found.alerts[0].kind == "change"


def test_few_queries_never_silence_an_alert() -> None:
    """Rank 1 of a small log has not *significantly* moved; that is no proof that it stood still."""
    silenced = 0
    for seed in range(3):
        small = SyntheticLog(seed=seed, start="2026-01-19", days=2, queries_per_day=400, items=10, drop=3.0)
        found = monitor({**CLICKS, "windows": {"min_queries": 100}}, log=small, baseline=baseline())
        assert found.presentation is not None
        silenced += found.presentation.signature == "page"
    assert silenced == 0


def test_ips_dcg_is_dcg_where_everything_is_looked_at() -> None:
    everything = {**CLICKS, "propensity": {"table": [1.0]}, "metrics": ["dcg(gain=linear)@10"]}
    found = monitor_plants(everything, examination=0.0)
    assert found.presentation is not None
    production = found.empty_rules[0]
    assert found.presentation.ips_now == pytest.approx(production.zero, abs=1e-12)


def test_ips_dcg_does_not_depend_on_the_page() -> None:
    """Unbiased: the same lists on two pages give the same IPS-DCG, although clicks differ by a half."""
    means, small = [], SyntheticLog(seed=1, days=1, queries_per_day=400, items=10)
    for power in (1.0, 0.5):
        log = SyntheticLog(seed=5, days=10, queries_per_day=1000, items=10, examination=power)
        found = monitor({**CLICKS, "propensity": {"column": "examination"}}, log=log, baseline=small)
        assert found.presentation is not None
        means.append(found.presentation.ips_now)
    assert means[0] == pytest.approx(means[1], rel=0.03)


WEIGHTED = {**CLICKS, "propensity": {"column": "examination"}}
BETTER_GRADES = (0.3, 0.25, 0.2, 0.15, 0.1)


def test_what_ips_dcg_says_is_said_in_its_own_direction() -> None:
    """More relevant items on another page, at rank 1 too: IPS-DCG is +.48, and was said not to have moved."""
    found = monitor_plants(WEIGHTED, examination=0.5, grade_shares=BETTER_GRADES)
    assert found.presentation is not None
    assert found.presentation.ips is not None
    assert found.presentation.ips.low > 0
    assert found.verdict.what.startswith("The ranking got better. IPS-DCG rose: 1.3087 -> 1.7912, +0.4825")
    assert "measurably" not in found.verdict.text
    assert found.verdict.cause == "improved"
    why = "(no alert: corrected for the page, the ranking did not get worse)"
    assert any(why in caution.text for caution in found.cautions)


def test_a_better_ranking_is_no_changed_page() -> None:
    """Ranks 1 to 3 get better items on the same page: with propensities the page was blamed."""
    for propensity in ({}, {"propensity": {"column": "examination"}}):
        found = monitor_plants({**CLICKS, **propensity}, grade_shares=BETTER_GRADES)
        assert found.presentation is not None
        assert found.presentation.changed
        assert found.presentation.signature == "ranking"
        assert found.verdict.cause == "improved", found.verdict
        assert "The page changed" not in found.verdict.text
        assert found.healthy


def test_a_page_alone_leaves_ips_dcg_where_it_was() -> None:
    found = monitor_plants({**WEIGHTED, "compare": {"min_drop": 0.03}}, examination=0.5)
    still = "The page changed. Self-normalised IPS-DCG did not measurably change: "
    assert found.verdict.what.startswith(still)


def test_lost_clicks_are_an_outage_with_propensities_too() -> None:
    """Every rank lost 30 %: IPS-DCG adds up clicks and falls with them, which is no news of the ranking."""
    found = monitor_plants(WEIGHTED, lost_clicks=0.3)
    assert found.presentation is not None
    assert not found.presentation.changed
    assert found.verdict.cause == "labels"
    assert "got worse" not in found.verdict.text
    assert not any("IPS-DCG" in alert.text for alert in found.alerts)
    assert "label_rate" in {alert.kind for alert in found.alerts}
