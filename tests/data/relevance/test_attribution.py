"""From events to relevance: the planted table, every rule, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from ltr_harness import from_frame
from ltr_harness.data.relevance.labels import grades_from_events
from ltr_harness.data.relevance.rule import Relevance
from ltr_harness.errors import ConfigError, DataError
from ltr_harness.metrics.table import METRICS, catalog
from ltr_harness.monitoring import monitor
from ltr_harness.monitoring.load import load_monitor_config
from ltr_harness.monitoring.page import build_monitor_report

EVENTS = {
    "a": ["click"],
    "b": ["click", "favorite", "buy"],
    "c": [],
    "d": ["favorite"],
    "e": ["click", "click"],
}
WEIGHTS = {"click": 1, "favorite": 2, "buy": 4}


@pytest.fixture
def lists() -> pd.DataFrame:
    return pd.DataFrame(
        {"query_id": "q", "item": list(EVENTS), "rank": range(1, 6), "events": list(EVENTS.values())}
    )


def ndcg(rows: Any, relevance: dict[str, Any], gain: str) -> float:
    metric = f"ndcg(gain={gain})@5"
    config = {
        "columns": {"rank": "rank", "item_id": "item"},
        "relevance": {"list_column": "events", **relevance},
    }
    return (
        monitor({**config, "metrics": [metric]}, log=rows)
        .windows[0]
        .means[str(load_monitor_config({**config, "metrics": [metric]}).primary)]
    )


@pytest.mark.parametrize(
    ("relevance", "exponential", "linear"),
    [
        ({"mode": "sum", "positive": ["click"]}, 0.9469, 0.9469),
        ({"mode": "sum", "positive": ["click", "favorite", "buy"]}, 0.72814, 0.81338),
        ({"mode": "max", "events": dict.fromkeys(WEIGHTS, 1)}, 0.95583, 0.95583),  # any
        ({"mode": "max", "events": WEIGHTS}, 0.68128, 0.77059),
        ({"events": WEIGHTS}, 0.68128, 0.77059),  # max is the default
        ({"mode": "weighted_sum", "events": WEIGHTS, "clip": 30}, 0.63784, 0.72501),
    ],
)
def test_the_planted_table(
    lists: pd.DataFrame, relevance: dict[str, Any], exponential: float, linear: float
) -> None:
    assert ndcg(lists, relevance, "exp") == pytest.approx(exponential, abs=5e-6)
    assert ndcg(lists, relevance, "linear") == pytest.approx(linear, abs=5e-6)


def test_a_click_before_a_purchase_does_not_hide_it() -> None:
    # a rule that takes the first interaction with an item would call b a click
    rule = Relevance(events=WEIGHTS)
    counts = {name: np.array([1]) for name in WEIGHTS}
    assert grades_from_events(rule, counts).tolist() == [4.0]


def test_a_ladder_takes_the_first_condition_that_holds() -> None:
    rule = Relevance.model_validate(
        {
            "ladder": [
                {"when": "buy", "grade": 4},
                {"when": "dwell_s >= 30", "grade": 2},
                {"when": "click", "grade": 1},
            ]
        }
    )
    counts = {"buy": np.array([1, 0, 0, 0]), "click": np.array([1, 1, 1, 0])}
    dwell = {"dwell_s": np.array([5.0, 31.0, np.nan, 3.0])}
    assert grades_from_events(rule, counts, dwell).tolist() == [4.0, 2.0, 1.0, 0.0]


def test_negative_events_are_worth_nothing_and_never_less() -> None:
    rule = Relevance(events=WEIGHTS, negative=("hide",))
    counts = {
        "click": np.array([1, 1]),
        "favorite": np.array([0, 0]),
        "buy": np.array([0, 1]),
        "hide": np.array([0, 1]),
    }
    assert grades_from_events(rule, counts).tolist() == [1.0, 0.0]
    with pytest.raises(ConfigError, match="the event under negative, worth 0"):
        load_monitor_config({"columns": {"rank": "r"}, "relevance": {"events": {"click": 1, "hide": -1}}})


def test_double_clicks_count_once_or_by_their_logarithm() -> None:
    counts = {"click": np.array([2])}
    assert grades_from_events(Relevance(mode="sum", events={"click": 1}), counts).tolist() == [1.0]
    logarithm = grades_from_events(Relevance(mode="sum", events={"click": 1}, count="log1p"), counts)
    assert logarithm.tolist() == [np.log1p(2.0)]


def test_rows_below_the_last_click_may_be_left_out() -> None:
    """Clicked at rank 2 of 3: of two rows that were judged, one is relevant."""
    rows = pd.DataFrame({"query_id": "q", "rank": [1, 2, 3], "click": [0, 1, 0], "buy": [0, 0, 0]})
    rule = {"events": {"click": 1, "buy": 4}}
    metrics = ["precision@3", "f1@3", "ndcg@3"]
    ignored = monitor(
        {
            "columns": {"rank": "rank"},
            "relevance": {**rule, "unseen": "ignore_below_last_click"},
            "metrics": metrics,
        },
        log=rows,
    )
    assert ignored.windows[0].means == {
        "precision(denominator=min_kn)@3": pytest.approx(1 / 2),
        "f1(denominator=min_kn)@3": pytest.approx(2 / 3),  # P = 1/2, R = 1
        "ndcg@3": pytest.approx(1 / np.log2(3)),
    }
    zero = monitor({"columns": {"rank": "rank"}, "relevance": rule, "metrics": metrics}, log=rows)
    assert zero.windows[0].means == {
        "precision@3": pytest.approx(1 / 3),
        "f1@3": pytest.approx(1 / 2),
        "ndcg@3": pytest.approx(1 / np.log2(3)),
    }


@pytest.mark.long
def test_what_nobody_looked_at_is_counted_apart() -> None:
    rows = pd.DataFrame({"query_id": list("qqqqr"), "rank": [1, 2, 3, 4, 1], "click": [0, 1, 0, 0, 0]})
    rule = {"events": {"click": 1}, "unseen": "ignore_below_last_click"}
    config = {"columns": {"rank": "rank"}, "relevance": rule}
    found = monitor({**config, "metrics": ["precision@3"]}, log=rows)
    assert {f.check: (f.count, f.total) for f in found.log_checks if f.severity == "note"} == {
        "no-event": (2, 5),  # rank 1 of q, and r, of which nobody knows how far it was read
        "not-judged": (2, 5),
        "one-item": (1, 2),
        "shorter-than-k": (1, 2),
    }
    page = "".join(str(block) for section in build_monitor_report(found).sections for block in section.blocks)
    assert "20.0% of production's rows" in page
    assert "40.0% lie below the last one of their list and are not judged" in page
    assert not any("has no effect on" in caution.text for caution in found.cautions)
    for metrics in (["ndcg@3"], ["mrr", "map@5", "recall@2"]):
        found = monitor({**config, "metrics": metrics}, log=rows)
        assert any(
            "unseen: ignore_below_last_click has no effect on" in caution.text for caution in found.cautions
        )


def test_items_that_tie_with_the_last_click_were_judged() -> None:
    """The order of two equal scores is not known: neither row may be left out by its name."""
    rule = {"events": {"click": 1}, "unseen": "ignore_below_last_click"}
    config = {"columns": {"score": "s", "item_id": "item"}, "relevance": rule, "metrics": ["precision@3"]}
    for clicked in ([0, 1, 0, 0], [0, 0, 1, 0]):
        log = pd.DataFrame({"query_id": "q", "item": list("abcd"), "s": [3, 2, 2, 1], "click": clicked})
        (mean,) = monitor(config, log=log).windows[0].means.values()
        assert mean == pytest.approx(1 / 3)


MOVED = {
    "precision",
    "f1",
    "bpref",
    "brier",
    "gauc",
    "kendall_tau_distance",
    "log_loss",
    "mean_label",
    "rbp_residual",
    "spearman",
    "tau_ap",
}
"""What docs/partial-feedback.md says of `unseen: ignore_below_last_click`."""


def test_which_metrics_the_unseen_rows_can_move() -> None:
    random = np.random.default_rng(3)
    rank = np.tile(np.arange(1, 13), 60)
    click = (random.random(rank.size) < 0.5 / rank).astype(int)
    log = pd.DataFrame({"query_id": np.repeat(np.arange(60), 12), "rank": rank, "click": click})
    log["subtopic"] = click
    names = [f"{name}(p=0.8)" if name.startswith("rbp") else name for name in METRICS]
    names += [f"{name}@10" for name in names if catalog.load(name.partition("(")[0]).takes_cutoff]
    columns = {"columns": {"rank": "rank", "subtopics": ["subtopic"]}, "metrics": ["ndcg@5", *names]}
    means = []
    for unseen in ("zero", "ignore_below_last_click"):
        found = monitor({**columns, "relevance": {"events": {"click": 1}, "unseen": unseen}}, log=log)
        means.append(list(found.windows[0].means.values())[1:])
    moved = {
        name.partition("@")[0].partition("(")[0]
        for name, one, other in zip(names, *means, strict=True)
        if one != pytest.approx(other, abs=1e-12, nan_ok=True)
    }
    assert moved == MOVED


def test_a_list_that_is_cut_is_not_too_short() -> None:
    """LETOR's script gives lists shorter than K no value; cut at the last click, nearly all are."""
    rule = {"events": {"click": 1}, "unseen": "ignore_below_last_click"}
    with pytest.raises(ConfigError, match="short_list=zero"):
        load_monitor_config({"columns": {"rank": "r"}, "relevance": rule, "metrics": ["ndcg(as=letor)@10"]})


def test_rows_without_a_label_are_in_no_denominator_either() -> None:
    rows = pd.DataFrame({"query_id": "q", "rank": [1, 2, 3], "relevance": [1, np.nan, 0]})
    config = {"columns": {"rank": "rank"}, "metrics": ["precision@3"]}
    values = {
        unlabelled: next(
            iter(
                monitor({**config, "relevance": {"unlabelled": unlabelled}}, log=rows)
                .windows[0]
                .means.values()
            )
        )
        for unlabelled in ("zero", "ignore")
    }
    assert values == {"zero": pytest.approx(1 / 3), "ignore": pytest.approx(1 / 2)}


def test_dwell_time_decides_whether_a_click_satisfied() -> None:
    rows = pd.DataFrame(
        {
            "query_id": list("aab"),
            "rank": [1, 2, 1],
            "click": [1, 1, 1],
            "dwell_s": [12.0, None, 12.0],
            "device": ["mobile", "mobile", "desktop"],
        }
    )
    rule = {"events": {"click": 1}, "dwell": {"column": "dwell_s", "by": {"device": {"mobile": 10}}}}
    found = monitor(
        {"columns": {"rank": "rank", "segments": "device"}, "relevance": rule, "metrics": ["precision@2"]},
        log=rows,
    )
    # mobile: 12 s suffice, and the missing one ended the visit; desktop: 12 s are too short
    assert found.windows[0].relevant_share == 0.5


def test_match_mode_needs_all_three_to_agree() -> None:
    rows = pd.DataFrame(
        {"query_id": "q", "rank": [1, 2, 3], "said": ["yes", "no", "yes"], "was": ["yes", "no", "no"]}
    )
    rule = {"mode": "match", "prediction": "said", "label": "was", "positive": "yes"}
    found = monitor({"columns": {"rank": "rank"}, "relevance": rule, "metrics": ["precision@3"]}, log=rows)
    assert found.windows[0].means["precision@3"] == pytest.approx(1 / 3)


def test_a_misspelt_class_is_refused_as_a_misspelt_event_is() -> None:
    rows = pd.DataFrame(
        {"query_id": "q", "rank": [1, 2, 3], "said": ["yes", "no", "yes"], "was": ["yes", "no", "no"]}
    )

    def match(*positive: str) -> dict[str, Any]:
        return {"mode": "match", "prediction": "said", "label": "was", "positive": list(positive)}

    config = {"columns": {"rank": "rank"}, "metrics": ["precision@3"]}
    with pytest.raises(DataError) as caught:
        monitor({**config, "relevance": match("yess")}, log=rows)
    told = "class 'yess' never occurs in said or was; did you mean 'yes'? (known: no, yes)"
    assert str(caught.value) == f"production log: {told}"
    with pytest.raises(DataError, match="class 'yess' never occurs in said or was"):
        from_frame(rows.assign(price=1.0), features=["price"], relevance=match("yess"))
    # a class of several may be rare
    found = monitor({**config, "relevance": match("yes", "certainly")}, log=rows)
    assert "1 of 2 positive classes occur in neither column" in str(found.cautions[0])
    # labels that are all lost are no misspelling
    lost = monitor({**config, "relevance": match("yes")}, log=rows.assign(was="no"))
    assert lost.windows[0].relevant_share == 0.0


@pytest.mark.parametrize(
    ("sections", "told"),
    [
        ({"relevance": {"mode": "weighted_sum", "events": WEIGHTS}}, "a gain of 127"),
        ({"relevance": {"events": {"click": 0.5}}}, "needs integer labels"),
        ({"relevance": {"events": {"click": 1}, "count": "log1p"}}, "needs integer labels"),
        (
            {"relevance": {"mode": "sum", "events": {"click": 1}, "positive": ["clik"]}},
            "did you mean 'click'",
        ),
        (
            {"relevance": {"mode": "first"}},
            "known: doubly_robust, ips, label, ladder, match, max, quantiles, sum, weighted_sum",
        ),
        ({"relevance": {"mode": "max"}}, "without events"),
        ({"metrics": ["err@10"]}, "add relevance: {max_grade: 4}"),
    ],
)
def test_what_is_refused_before_any_log_is_read(sections: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        load_monitor_config({"columns": {"rank": "rank"}, **sections})


def test_weighted_sums_and_fractions_are_fine_with_linear_gain() -> None:
    load_monitor_config(
        {
            "columns": {"rank": "rank"},
            "relevance": {"mode": "weighted_sum", "events": {"click": 0.5}},
            "metrics": ["ndcg(gain=linear)@5"],
        }
    )


def test_an_event_that_never_happens_is_a_misspelt_one(lists: pd.DataFrame) -> None:
    with pytest.raises(DataError, match=r"event 'clik' never happens; did you mean 'click'\?"):
        ndcg(lists, {"events": {"clik": 1, "buy": 4}}, "exp")
    columns = pd.DataFrame({"query_id": ["q"], "rank": [1], "click": [1]})
    with pytest.raises(DataError, match=r"no column 'clik'; did you mean 'click'\?"):
        monitor({"columns": {"rank": "rank"}, "relevance": {"events": {"clik": 1}}}, log=columns)


def test_unknown_events_are_counted(lists: pd.DataFrame) -> None:
    found = monitor(
        {
            "columns": {"rank": "rank"},
            "relevance": {"events": {"click": 1}, "list_column": "events"},
            "metrics": ["mrr"],
        },
        log=lists,
    )
    check = next(f for f in found.log_checks if f.check == "unknown-event")
    assert (check.count, check.total, check.examples) == (3, 7, ("'buy'", "'favorite'"))


def test_lists_may_be_text(lists: pd.DataFrame) -> None:
    as_text = lists.assign(events=[str(names) for names in EVENTS.values()])
    assert ndcg(as_text, {"events": WEIGHTS}, "exp") == pytest.approx(0.68128, abs=5e-6)


def events_file(folder: Path, rows: list[tuple[Any, ...]], names: list[str]) -> str:
    path = folder / "events.parquet"
    pd.DataFrame(rows, columns=names).to_parquet(path)
    return str(path)


@pytest.mark.long
def test_a_long_event_table_is_joined_by_query_and_item(lists: pd.DataFrame, tmp_path: Path) -> None:
    rows = [("q", item, event) for item, events in EVENTS.items() for event in events] + [
        ("other", "a", "click")
    ]
    path = events_file(tmp_path, rows, ["query_id", "item_id", "event"])
    config = {
        "columns": {"rank": "rank", "item_id": "item"},
        "relevance": {"events": WEIGHTS, "event_log": {"path": path}},
        "metrics": ["ndcg@5"],
    }
    found = monitor(config, log=lists)
    assert found.windows[0].means["ndcg@5"] == pytest.approx(0.68128, abs=5e-6)
    orphan = next(f for f in found.log_checks if f.check == "orphan-event")
    assert (orphan.count, orphan.total) == (1, 8)


def test_the_last_touch_within_the_window_gets_the_event(tmp_path: Path) -> None:
    def timestamp(text: str) -> pd.Timestamp:
        return pd.Timestamp(f"2026-01-{text}", tz="UTC")

    log = pd.DataFrame(
        {
            "query_id": ["early", "late", "other"], "item": ["i", "i", "i"], "rank": [1, 1, 1],
            "user": ["u", "u", "v"], "ts": [timestamp("01 10:00"), timestamp("03 10:00"), timestamp("03 11:00")],
        }
    )  # fmt: skip
    happened = [
        ("u", "i", "click", timestamp("02 10:00")),  # between: the early one
        ("u", "i", "click", timestamp("04 10:00")),  # after both: the late one
        ("v", "i", "click", timestamp("20 10:00")),  # beyond the window
        ("v", "i", "click", timestamp("01 00:00")),  # before anything was shown
    ]
    path = events_file(tmp_path, happened, ["user", "item_id", "event", "when"])
    config = {
        "columns": {"rank": "rank", "item_id": "item", "timestamp": "ts", "cluster_id": "user"},
        "relevance": {
            "events": {"click": 1},
            "event_log": {"path": path, "query_id": None, "user": "user", "timestamp": "when"},
        },
        "metrics": ["mrr"],
    }
    found = monitor(config, log=log)
    assert sum(w.relevant_share * w.n_queries for w in found.windows) == 2
    assert next(f for f in found.log_checks if f.check == "orphan-event").count == 2


def test_event_columns_in_arrow_lists() -> None:
    rows = pa.table(
        {"query_id": ["q", "q"], "rank": [1, 2], "events": pa.array([["buy"], None], pa.list_(pa.string()))}
    )
    found = monitor(
        {
            "columns": {"rank": "rank"},
            "relevance": {"events": WEIGHTS, "list_column": "events"},
            "metrics": ["mrr"],
        },
        log=rows,
    )
    assert found.windows[0].means["mrr"] == 1.0


@pytest.mark.parametrize("rule", [{"events": {"click": 1}}, {"max_grade": 4}])
def test_every_metric_can_be_watched(rule: dict[str, Any]) -> None:
    """rbp without graded=true was given a scale that it refuses; diagnostics may stand beside what alerts."""
    metrics = [f"{name}(p=0.8)" if name.startswith("rbp") else name for name in sorted(METRICS)]
    log = pd.DataFrame(
        {"query_id": list("aab"), "rank": [1, 2, 1], "click": [0, 1, 1], "relevance": [0, 1, 1]}
    )
    columns = {"rank": "rank", "subtopics": ["click"]}
    found = monitor({"columns": columns, "relevance": rule, "metrics": metrics}, log=log)
    assert len(found.windows[0].means) == len(metrics)


def test_binary_rbp_by_hand() -> None:
    log = pd.DataFrame({"query_id": "q", "rank": [1, 2, 3], "click": [1, 0, 1]})
    config = {"columns": {"rank": "rank"}, "relevance": {"events": {"click": 1}}}
    metrics = ["rbp(p=0.5)", "rbp(graded=true,p=0.5)", "rbp_residual(p=0.5)"]
    found = monitor({**config, "metrics": metrics}, log=log).windows[0].means
    assert found == {
        "rbp(p=0.5)": 0.625,  # 1/2 (1 + 1/4)
        "rbp(graded=true,max_grade=1,p=0.5)": 0.625,
        "rbp_residual(p=0.5)": 0.125,  # (1/2)^3
    }


def test_a_diagnostic_cannot_raise_alerts() -> None:
    with pytest.raises(ConfigError, match="put another one first"):
        load_monitor_config({"columns": {"rank": "rank"}, "metrics": ["rbp_residual(p=0.5)", "ndcg"]})
