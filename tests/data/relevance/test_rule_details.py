"""Details that users of an attribution rule expect: double clicks, dwell times, hidden rows, returns, the scale."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ltr_harness.data.relevance.labels import examined, grades_from_events, satisfied_clicks
from ltr_harness.data.relevance.rule import Dwell, Relevance, Rung
from ltr_harness.data.relevance.rule_in_words import describe
from ltr_harness.errors import ConfigError, DataError
from ltr_harness.monitoring import monitor
from ltr_harness.monitoring.load import load_monitor_config
from ltr_harness.monitoring.page import write_monitor_report

CLICKS = {"columns": {"rank": "rank"}, "relevance": {"events": {"click": 1}}, "metrics": ["precision@3"]}


def one_list(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"query_id": "q", "rank": [1, 2, 3], **columns})


def value(config: dict[str, Any], rows: pd.DataFrame) -> float:
    (found,) = monitor(config, log=rows).windows[0].means.values()
    return found


def with_rule(**rule: Any) -> dict[str, Any]:
    return {**CLICKS, "relevance": {"events": {"click": 1}, **rule}}


# ---- counts -----------------------------------------------------------------------------------------------


def test_bots_that_click_a_thousand_times_are_worth_one_click_or_a_logarithm() -> None:
    often = {"click": np.array([0, 1, 2, 1000]), "buy": np.array([0, 0, 0, 1])}
    rule = Relevance(events={"click": 1, "buy": 4})
    assert grades_from_events(rule, often).tolist() == [0, 1, 1, 4]
    for mode, expected in {
        "sum": np.log1p([0, 1, 2, 1000]) + np.log1p([0, 0, 0, 1]),
        "weighted_sum": np.log1p([0, 1, 2, 1000]) + 4 * np.log1p([0, 0, 0, 1]),
        "max": np.maximum(np.log1p([0, 1, 2, 1000]), 4 * np.log1p([0, 0, 0, 1])),
    }.items():
        by_logarithm = Relevance.model_validate({**rule.model_dump(), "mode": mode, "count": "log1p"})
        assert grades_from_events(by_logarithm, often).tolist() == pytest.approx(expected.tolist())


# ---- dwell times ------------------------------------------------------------------------------------------


def satisfied_and_unknown(
    clicks: list[int], dwell: list[float], sizes: list[int]
) -> tuple[list[int], list[bool]]:
    bounds = np.concatenate(([0], np.cumsum(sizes)))
    kept, unknown = satisfied_clicks(
        np.array(clicks), np.array(dwell), Dwell(column="d", satisfied=30), {}, bounds
    )
    return kept.tolist(), unknown.tolist()


NEVER = float("nan")


@pytest.mark.parametrize(
    ("clicks", "dwell", "kept"),
    [
        ([1, 1, 1], [29.9, 30.0, 31.0], [0, 1, 1]),
        ([1, 0, 0], [NEVER, NEVER, NEVER], [1, 0, 0]),  # one click, the visit's last
        ([1, 1, 0], [5.0, NEVER, NEVER], [0, 1, 0]),
        ([1, 0, 2], [NEVER, NEVER, 5.0], [1, 0, 0]),  # came back to rank 1, and stayed
        ([1, 1, 0], [NEVER, NEVER, NEVER], [0, 1, 0]),  # only one of them was the last
    ],
)
def test_a_missing_dwell_time_is_that_of_the_last_click(
    clicks: list[int], dwell: list[float], kept: list[int]
) -> None:
    assert satisfied_and_unknown(clicks, dwell, [3])[0] == kept


def test_every_query_has_a_last_click_of_its_own() -> None:
    kept, unknown = satisfied_and_unknown([1, 1, 1, 1], [NEVER, NEVER, NEVER, 3.0], [2, 2])
    assert kept == [0, 1, 1, 0]
    assert unknown == [True, False, False, False]


def test_a_log_that_loses_its_dwell_times_raises_an_alert() -> None:
    rows = pd.DataFrame(
        {
            "query_id": np.repeat([f"q{at:03d}" for at in range(250)], 3),
            "rank": [1, 2, 3] * 250,
            "click": [1, 1, 0] * 250,
            "dwell_s": [40.0, np.nan, np.nan] * 250,
        }
    )
    config = {**with_rule(dwell={"column": "dwell_s"}), "metrics": ["ndcg@3"]}
    assert monitor(config, log=rows, baseline=rows).healthy
    lost = monitor(config, log=rows.assign(dwell_s=np.nan), baseline=rows)
    check = next(f for f in lost.log_checks if f.check == "dwell-missing")
    assert (check.count, check.total, check.severity) == (250, 750, "warning")
    assert "contract" in {alert.kind for alert in lost.alerts}


def test_the_thresholds_of_segments_are_part_of_the_rule() -> None:
    rule = {"column": "dwell_s", "by": {"device": {"mobile": 10.0}}}
    kept, _ = satisfied_clicks(
        np.ones(3, dtype=int), np.array([12.0, 9.0, 12.0]), Dwell.model_validate(rule),
        {"device": np.array(["mobile", "mobile", "desktop"])}, np.array([0, 2, 3]),
    )  # fmt: skip
    assert kept.tolist() == [1, 0, 0]
    said = describe(Relevance.model_validate({"events": {"click": 1}, "dwell": rule}))
    assert "a click counts from 30 s of dwell time on, device mobile from 10 s" in said


# ---- what nobody saw, and what nobody wanted --------------------------------------------------------------


def test_a_click_that_did_not_satisfy_was_seen_all_the_same() -> None:
    """Clicked at ranks 1 and 3, the latter for five seconds: three rows were seen, one was relevant."""
    rows = one_list(click=[1, 0, 1], dwell_s=[40.0, np.nan, 5.0])
    rule = with_rule(dwell={"column": "dwell_s"}, unseen="ignore_below_last_click")
    assert value({**rule, "metrics": ["ndcg@3"]}, rows) == 1.0
    seen = examined(np.array([True, False, True, False]), -np.arange(4.0), np.array([0, 4]))
    assert seen.tolist() == [True, True, True, False]
    low = one_list(click=[1, 0, 1], dwell_s=[5.0, np.nan, 40.0]).assign(rank=[1, 2, 3])
    assert value({**rule, "metrics": ["mrr"]}, low) == pytest.approx(1 / 3)


def test_rows_that_nobody_saw_are_left_out_only_where_clicks_are_known() -> None:
    cascade = "ignore_below_last_click"
    rows = pd.concat([one_list(click=[0, 1, 0]), one_list(click=[0, 0, 1]).assign(query_id="r")])
    for unseen, reached in {"zero": [2, 2, 2], cascade: [2, 2, 1]}.items():
        found = monitor(
            with_rule(unseen=unseen), log=rows, baseline=rows, overrides=("windows.min_queries=1",)
        )
        assert found.presentation is not None
        assert [row.shown_now for row in found.presentation.rows] == reached
    with pytest.raises(
        ConfigError, match="unseen ignore_below_last_click with mode label, which does not use clicks"
    ):
        load_monitor_config({**CLICKS, "relevance": {"unseen": cascade}})


@pytest.mark.parametrize("mode", ["max", "sum", "weighted_sum", "ladder"])
def test_what_is_returned_is_worth_nothing_under_every_rule_and_is_counted(mode: str) -> None:
    rows = one_list(click=[1, 1, 0], returned=[0, 2, 0])
    rule: dict[str, Any] = {"mode": mode, "negative": "returned"}
    rule |= {"ladder": [{"when": "click", "grade": 1}]} if mode == "ladder" else {"events": {"click": 1}}
    config: dict[str, Any] = {**CLICKS, "relevance": rule}
    if mode == "weighted_sum":
        config["relevance"]["clip"] = 3
    found = monitor(config, log=rows).windows[0]
    assert list(found.means.values()) == [pytest.approx(1 / 3)]
    assert found.event_rates == {"click": 2.0, "returned": 2.0}
    gains = monitor({**config, "metrics": ["dcg(gain=linear)@3"]}, log=rows).windows[0].means
    assert list(gains.values()) == [1.0]  # never a negative gain


def test_the_unit_is_the_impression_whoever_asked_the_same() -> None:
    rows = pd.DataFrame(
        {"query_id": ["a", "a", "b", "b"], "text": "shoes", "rank": [1, 2, 1, 2], "click": [1, 0, 0, 1]}
    )
    config = {**CLICKS, "columns": {"rank": "rank", "pair_key": "text"}, "metrics": ["mrr"]}
    found = monitor(config, log=rows)
    assert (found.n_queries, list(found.windows[0].means.values())) == (2, [0.75])


# ---- the scale of grades ----------------------------------------------------------------------------------


def test_a_weight_above_thirty_is_refused_where_the_gain_doubles_with_each_grade() -> None:
    steep = {"columns": {"rank": "rank"}, "relevance": {"events": {"click": 1, "buy": 31}}}
    with pytest.raises(
        ConfigError, match=r"'buy' is worth 31, and ndcg@10 gains 2\^grade - 1; expected grades up to 30"
    ):
        load_monitor_config({**steep, "metrics": ["ndcg@10"]})
    load_monitor_config({**steep, "metrics": ["ndcg(gain=linear)@10"]})
    steep["relevance"]["events"]["buy"] = 30  # type: ignore[index]
    load_monitor_config({**steep, "metrics": ["ndcg@10"]})
    with pytest.raises(ConfigError, match="'clip' is worth 31"):
        load_monitor_config(
            {
                **steep,
                "relevance": {"mode": "weighted_sum", "events": {"buy": 20}, "clip": 31},
                "metrics": ["ndcg@5"],
            }
        )


def test_a_label_above_thirty_is_refused_where_the_gain_doubles_with_each_grade() -> None:
    config = {"columns": {"rank": "rank"}, "metrics": ["ndcg@3"]}
    assert value(config, one_list(relevance=[30, 0, 1])) == pytest.approx(1, abs=1e-6)
    with pytest.raises(
        DataError, match="1 of 3 grades are above 30, the highest that both boosters can train on"
    ):
        monitor(config, log=one_list(relevance=[31, 0, 1]))
    assert value({**config, "metrics": ["ndcg(gain=linear)@3"]}, one_list(relevance=[31, 0, 0])) == 1.0


def test_counting_events_with_exponential_gain_is_warned_of() -> None:
    counted = with_rule(mode="sum")
    told = "three events gain 7"
    rows = one_list(click=[1, 0, 0])
    assert any(
        told in caution.text for caution in monitor({**counted, "metrics": ["ndcg@3"]}, log=rows).cautions
    )
    assert not any(
        told in caution.text
        for caution in monitor({**counted, "metrics": ["ndcg(gain=linear)@3"]}, log=rows).cautions
    )


# ---- what events cannot tell ------------------------------------------------------------------------------


def test_how_much_the_events_cover_is_said_before_any_number_is_read(tmp_path: Path) -> None:
    found = monitor(CLICKS, log=one_list(click=[0, 1, 0]))
    note = next(f for f in found.log_checks if f.check == "no-event")
    assert (note.severity, note.count, note.total) == ("note", 2, 3)
    write_monitor_report(found, tmp_path)
    page = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "Users acted on 33.3% of production's rows; all others count as not relevant" in page


@pytest.mark.parametrize(
    ("when", "condition"),
    [("dwell_s >= 30", ("dwell_s", 30.0)), ("dwell_s >= ٣٠", None), ("dwell_s >= 3²", None)],
)
def test_numbers_of_conditions_are_in_ascii(when: str, condition: tuple[str, float] | None) -> None:
    assert Rung(when=when, grade=1).condition == condition
