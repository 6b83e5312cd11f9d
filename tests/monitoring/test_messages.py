"""Logs nobody wants: a clear message and exit 2, or a sensible report; never a traceback."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from ltr_harness.data.logs.contract import Contract
from ltr_harness.errors import DataError
from ltr_harness.monitoring import monitor
from ltr_harness.monitoring.load import json_schema
from ltr_harness.monitoring.page import build_monitor_report
from ltr_harness.monitoring.synthetic import SyntheticLog
from ltr_harness.report.blocks import Paragraph

Cli = Callable[..., tuple[int, str, str]]
CONFIG: dict[str, Any] = {
    "columns": {"rank": "rank", "item_id": "item"},
    "metrics": ["ndcg@10", "mrr@10"],
    "windows": {"min_queries": 1},
}


def log(**columns: Any) -> pd.DataFrame:
    rows = {
        "query_id": list("aaabbb"),
        "item": list("xyzxyz"),
        "rank": [1, 2, 3, 1, 2, 3],
        "relevance": [1, 0, 0, 0, 1, 0],
    }
    return pd.DataFrame({**rows, **columns})


def with_columns(**roles: Any) -> dict[str, Any]:
    return {**CONFIG, "columns": {**CONFIG["columns"], **roles}}


@pytest.mark.parametrize(
    ("config", "rows", "told"),
    [
        (CONFIG, log().iloc[:0], "has no rows"),
        (CONFIG, log().drop(columns="rank"), "no column 'rank'"),
        (CONFIG, log(query_id=["a", "a", None, "b", "b", "b"]), "1 of 6 rows without a query id"),
        (
            CONFIG, log(item=["x", "x", "z", "x", "y", "z"]),
            "1 of 6 rows repeat an item of the same query, such as query 'a' item 'x'",
        ),
        (CONFIG, log(rank=[1, 2, 0, 1, 2, 3]), "ranks are missing or not an integer"),
        (CONFIG, log(rank=[1, 2, 2.5, 1, 2, 3]), "ranks are missing or not an integer"),
        (CONFIG, log(relevance=[1, 0, -1, 0, 1, 0]), "negative or not finite"),
        (CONFIG, log(relevance=[1, 0, None, 0, 1, 0]), "1 of 6 grades are missing"),
        (CONFIG, log(relevance=[1, 0, 0.5, 0, 1, 0]), "use ndcg(gain=linear)@K"),
        (CONFIG, log(relevance=["a", "b", "c", "d", "e", "f"]), "expected numbers"),
        ({**CONFIG, "relevance": {"max_grade": 1}}, log(relevance=[2, 0, 0, 0, 1, 0]), "above the top of the scale"),
        (
            with_columns(rank=None, score="s"), log(s=[1, 2, np.nan, 1, 2, 3]),
            "1 of 6 scores are missing or NaN, such as query 'a'",
        ),
        (with_columns(timestamp="t"), log(t=["yesterday"] * 6), "text that is not a time"),
        (with_columns(timestamp="t"), log(t=[1, 2, 3, 4, 5, 6]), "seconds or milliseconds"),
        (with_columns(timestamp="t"), log(t=pd.to_datetime(["1970-01-20"] * 6, utc=True)), "before 1990"),
        (
            with_columns(timestamp="t"), log(t=pd.to_datetime(["2026-01-20"] * 5 + [None], utc=True)),
            "1 of 6 timestamps are missing",
        ),
        ({**CONFIG, "relevance": {"events": {"click": 1}}}, log(click=[1, -1, 0, 0, 0, 0]), "negative or not numbers"),
        (CONFIG, log(query_id=[[1]] * 6), "column 'query_id': has the type list<item: int64>; expected text"),
        (CONFIG, log(query_id=["", "a", "a", "b", "b", "b"]), "1 of 6 rows without a query id"),
        (CONFIG, pd.concat([log(), log()[["rank"]]], axis=1), "Duplicate column names"),
        (with_columns(features="f"), log(f=list("abcdef")), "column 'f': has the type"),
        (with_columns(timestamp="t"), log(t=[None] * 6), "6 of 6 timestamps are missing"),
        ({**CONFIG, "propensity": {"column": "p"}}, log(p=[1, 0, 0.5, 1, 1, 1]), "propensities are missing or outside"),
    ],
)  # fmt: skip
def test_unfit_logs(config: dict[str, Any], rows: pd.DataFrame, told: str) -> None:
    with pytest.raises(DataError) as caught:
        monitor(config, log=rows)
    assert told in str(caught.value)


def test_what_is_no_table() -> None:
    with pytest.raises(DataError, match="is a dict; expected a path, or a pandas"):
        monitor(CONFIG, log={"query_id": ["a"]})


def test_infinite_features_count_as_missing_and_are_told() -> None:
    rows = log(f=[np.inf, 1, 2, 3, -np.inf, np.nan])
    found = monitor(with_columns(features="f"), log=rows, baseline=rows)
    assert next(f for f in found.log_checks if f.check == "feature-infinite").count == 2
    assert np.isfinite(found.drift[0].psi)


def test_every_problem_of_a_log_in_one_go() -> None:
    with pytest.raises(DataError) as caught:
        monitor(
            CONFIG,
            log=log(
                item=["x", "x", "z", "x", "y", "z"], rank=[1, 2, 0, 1, 2, 3], relevance=[1, 0, -1, 0, 1, 0]
            ),
        )
    assert len(caught.value.problems) == 3


def test_the_command_says_it_in_one_line(ltr: Cli, tmp_path: Path) -> None:
    log(rank=[1, 2, 0, 1, 2, 3]).to_csv(tmp_path / "log.csv", index=False)
    (tmp_path / "m.yaml").write_text(yaml.safe_dump(CONFIG))
    code, out, err = ltr("monitor", tmp_path / "m.yaml", "--log", tmp_path / "log.csv")
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert "positions count from 1" in err
    code, _, err = ltr("monitor", tmp_path / "m.yaml", "--log", tmp_path / "nothing.parquet")
    assert code == 2
    assert "no such file or folder" in err
    code, _, err = ltr("monitor", tmp_path / "m.yaml")
    assert code == 2
    assert "no log given" in err
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 this is not")
    code, _, err = ltr("monitor", tmp_path / "m.yaml", "--log", tmp_path / "broken.parquet")
    assert code == 2
    (tmp_path / "empty.csv").write_bytes(b"")
    code, _, err = ltr("monitor", tmp_path / "m.yaml", "--log", tmp_path / "empty.csv")
    assert code == 2
    assert "is empty" in err


@pytest.mark.long
def test_configurations_are_mended_from_the_message(ltr: Cli, tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text("colums: {rank: r}\nmetrics: [ndgc@10]\nwindows: {size: 5h}\n")
    code, _, err = ltr("monitor", tmp_path / "m.yaml", "--log", "x")
    assert code == 2
    assert "did you mean 'columns'?" in err
    assert "did you mean 'ndcg'?" in err
    assert "m.yaml:3:17" in err


WRONG: dict[str, Any] = {
    "name": 3, "log": {"sed": 1}, "baseline": ["a"], "history": {}, "empty": "zeros",
    "metrics": ["ndgc@10"],
    "columns": {
        "query_id": 1, "item_id": 1, "rank": 1, "score": 1, "timestamp": 1, "cluster_id": 1, "pair_key": 1,
        "retrieved": 1, "segments": 1, "features": 1, "online": 1, "subtopics": 1,
    },
    "relevance": {
        "from": 1, "mode": "maxx", "events": {"click": "x"}, "maturity": "7x", "count": "none", "unseen": "all",
        "clip": 0, "max_grade": -1, "unlabelled": "drop", "ladder": [{"when": "buy"}], "dwell": {"event": "click"},
        "event_log": {"event": "e"}, "label": 1, "prediction": 1, "positive": 1, "negative": 1, "list_column": 1,
        "propensity": {"clip": 0}, "bins": 1, "within": "all",
    },
    "windows": {"size": "5h", "timezone": "berlin", "trailing": -1, "min_queries": 0, "season": "day"},
    "compare": {
        "alternative": "dropp", "alpha": 5, "min_drop": -1, "correct": "bonf", "confidence": 95, "adjust": 1,
    },
    "labels": {"alpha": 2, "min_drop": 0},
    "slices": {
        "max_predicates": 3, "min_queries": 5, "alpha": 0, "numeric_bins": 1, "features": "maybe", "confirm_split": "x",
    },
    "drift": {"bins": 1, "psi_floor": 0, "alpha": 1, "model": 3},
    "propensity": {
        "errors": ["x"],
        "baseline_errors": 3,
        "column": 1, "table": 1, "baseline_table": 1, "source": 1, "clip": 0, "estimate": {"design": "swap"},
    },
    "arms": {"column": 1, "control": [], "shares": {"A": 0}},
    "parity": {"model": 1, "score": 1, "features": 1, "tolerance": -1, "max_share": 2, "trust": "maybe"},
    "ubi": {"impressions": "views", "impression_event": 1, "first_position": 2},
    "alerts": {"on": ["chance"], "below": 1},
}  # fmt: skip


@pytest.mark.long
def test_every_key_is_checked_and_all_at_once(ltr: Cli, tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(yaml.safe_dump(WRONG, sort_keys=False, default_flow_style=None))
    code, out, err = ltr("monitor", tmp_path / "m.yaml", "--log", "x")
    assert (code, out) == (2, "")
    schema = json_schema()
    assert {*WRONG, "extends"} == {*schema["properties"]}
    for section, value in WRONG.items():
        parts = schema["$defs"].get(section.capitalize(), {"properties": {}})["properties"]
        assert set(value if parts else ()) == {*parts}
        for key in [f"{section}.{part}" for part in parts] or [section]:
            told = [line for line in err.splitlines() if re.search(rf" {re.escape(key)}\b| in {key}\b", line)]
            assert told, key
            assert re.search(r"m\.yaml:\d+:\d+: .*(; expected |; did you mean |known: )", told[0]), told[0]


RANK = {"rank": "rank"}


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"columns": {}}, "columns: neither rank nor score; expected the column with the position or the score"),
        (
            {"columns": {**RANK, "segments": ["a", "a"]}},
            "columns: 'a' given twice; expected each once among segments and features",
        ),
        ({"columns": {**RANK, "features": ["price", ""]}}, "columns.features.1 is ''; expected text that is not empty"),
        (
            {"columns": RANK, "relevance": {"events": {"buy": 1}, "event_log": {"path": "x", "query_id": ""}}},
            "relevance.event_log.query_id is ''; expected text that is not empty",
        ),
        ({"columns": RANK, "metrics": []}, "metrics is []; expected at least one metric"),
        (
            {"columns": RANK, "arms": {"column": "v", "control": "A", "shares": {"B": 1}}},
            "arms: shares of B; expected one of 'A', the control, and of every other arm",
        ),
        ({"columns": RANK, "windows": {"timezone": "berlin"}}, "time zone such as UTC or Europe/Berlin; did you mean"),
        ({"columns": RANK, "propensity": {"table": [2]}}, "propensity: table has 2 at rank 1; expected prob"),
        ({"columns": RANK, "relevance": {"mode": "max"}}, "relevance: mode max without events; expected such as ev"),
        ({"columns": RANK, "relevance": {"events": {"click": -1}}}, "a negative weight; expected weights >= 0, and"),
        (
            {"columns": RANK, "relevance": {"events": {"buy": 1}, "event_log": {"path": "x", "query_id": "q"}}},
            "relevance.event_log without columns.item_id; expected the column that names the item",
        ),
        (
            {
                "columns": {**RANK, "item_id": "sku"},
                "relevance": {"events": {"buy": 1}, "event_log": {"path": "x", "item_id": "sku", "query_id": None}},
            },
            "relevance.event_log without query_id; expected user and timestamp there, cluster_id and timestamp in",
        ),
        (
            {
                "columns": {**RANK, "segments": ["market"]},
                "relevance": {"events": {"click": 1}, "dwell": {"column": "stayed", "by": {"markt": {"DE": 20}}}},
            },
            "relevance.dwell.by: 'markt' is not a segment; did you mean 'market'?",
        ),
        (
            {"columns": RANK, "relevance": {"events": {"click": 1}, "maturity": "7d"}},
            "relevance.maturity without columns.timestamp; expected the column with the time",
        ),
    ],
)  # fmt: skip
def test_rules_between_fields_say_what_is_wrong_and_what_was_expected(
    config: dict[str, Any], told: str, ltr: Cli, tmp_path: Path
) -> None:
    (tmp_path / "m.yaml").write_text(yaml.safe_dump(config))
    code, _, err = ltr("monitor", tmp_path / "m.yaml", "--log", "x")
    assert code == 2
    assert told in err


def test_examples_are_three_different_ones_however_the_log_is_read() -> None:
    bad = np.ones(40, dtype=bool)
    whole, pieces = Contract("production", "log"), Contract("production", "log")
    whole.check("score-invalid", bad, lambda row: f"query {row // 10}")
    for part in range(8):
        pieces.check("score-invalid", bad[:5], lambda row, first=5 * part: f"query {(first + row) // 10}")  # type: ignore[misc]
    assert whole.log_checks[0].examples == pieces.log_checks[0].examples == ("query 0", "query 1", "query 2")
    for row in (30, 4, 100, 9):
        whole.check("query-missing", np.ones(1, dtype=bool), lambda _, row=row: f"row {row}")  # type: ignore[misc]
    assert whole.log_checks[0].examples == ("row 4", "row 9", "row 30")


def test_a_missing_model_is_refused_before_any_log_is_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such run folder"):
        monitor({**CONFIG, "drift": {"model": str(tmp_path / "run")}}, log=tmp_path / "unread.parquet")


def test_too_few_queries_to_compare(ltr: Cli, tmp_path: Path) -> None:
    log().to_csv(tmp_path / "log.csv", index=False)
    (tmp_path / "m.yaml").write_text(yaml.safe_dump({**CONFIG, "windows": {}}))
    code, _, err = ltr(
        "monitor", tmp_path / "m.yaml", "--log", tmp_path / "log.csv", "--baseline", tmp_path / "log.csv"
    )
    assert code == 2
    assert (
        "2 queries have a value of ndcg@10 (2 in all, 0 without a relevant document); expected at least 200"
        in err
    )


def test_one_query_one_item_all_zero() -> None:
    one = pd.DataFrame({"query_id": ["q"], "item": ["i"], "rank": [1], "relevance": [1]})
    found = monitor(CONFIG, log=one)
    assert found.windows[0].means["ndcg@10"] == 1.0
    assert {f.check for f in found.log_checks} == {"one-item", "shorter-than-k"}
    nothing = monitor(CONFIG, log=log(relevance=0))
    assert np.isnan(nothing.windows[0].means["ndcg@10"])
    assert nothing.windows[0].relevant_share == 0
    assert nothing.document["windows"][0]["means"]["ndcg@10"] is None
    with pytest.raises(DataError, match="2 without a relevant document"):
        monitor(CONFIG, log=log(relevance=0), baseline=log())
    assert (
        monitor({**CONFIG, "empty": "zero"}, log=log(relevance=0)).windows[0].means["ndcg(empty=zero)@10"]
        == 0.0
    )


def test_lists_shorter_than_k_are_as_long_as_they_are() -> None:
    found = monitor(CONFIG, log=log())
    assert found.windows[0].means["ndcg@10"] == pytest.approx((1 + 1 / np.log2(3)) / 2)


def test_truncated_and_tied_ranks_are_warned_of() -> None:
    found = monitor(CONFIG, log=log(rank=[2, 3, 4, 1, 1, 2]))
    assert {f.check: f.count for f in found.log_checks if f.severity == "warning"} == {
        "rank-tied": 1,
        "rank-gap": 1,
    }


def test_segments_that_change_within_a_query_are_warned_of() -> None:
    found = monitor(with_columns(segments=["country"]), log=log(country=list("DEDEEE")))
    assert next(f for f in found.log_checks if f.check == "segment-varies").examples == (
        "query 'a' (country)",
    )


def test_days_are_23_and_25_hours_long_when_clocks_change() -> None:
    times = pd.date_range("2026-03-28", "2026-03-31", freq="h", tz="Europe/Berlin", inclusive="left")
    autumn = pd.date_range("2026-10-24", "2026-10-27", freq="h", tz="Europe/Berlin", inclusive="left")
    for moments, hours in ((times, [24, 23, 24]), (autumn, [24, 25, 24])):
        rows = pd.DataFrame(
            {"query_id": [f"q{i:03d}" for i in range(len(moments))], "rank": 1, "relevance": 1, "t": moments}
        )
        config = {
            "columns": {"rank": "rank", "timestamp": "t"},
            "windows": {"timezone": "Europe/Berlin"},
            "metrics": ["mrr"],
        }
        found = monitor(config, log=rows)
        assert [w.hours for w in found.windows] == hours
        assert [w.n_queries for w in found.windows] == hours


def test_mixed_offsets_and_naive_times_in_any_order() -> None:
    rows = log(t=["2026-01-02T00:30:00+01:00"] * 3 + ["2026-01-01T10:00:00Z"] * 3)
    found = monitor(with_columns(timestamp="t"), log=rows)
    assert [w.label for w in found.windows] == ["2026-01-01"]
    naive = log(t=pd.to_datetime(["2026-01-02 00:30"] * 3 + ["2026-01-01 10:00"] * 3))
    found = monitor({**with_columns(timestamp="t"), "windows": {"timezone": "Asia/Tokyo"}}, log=naive)
    assert [w.label for w in found.windows] == ["2026-01-01", "2026-01-02"]


@pytest.mark.long
def test_hours_and_weeks() -> None:
    table = SyntheticLog(days=14, queries_per_day=30).table()
    config = {
        "columns": {"query_id": "request_id", "rank": "position", "timestamp": "ts"},
        "metrics": ["mrr"],
    }
    assert len(monitor({**config, "windows": {"size": "6h"}}, log=table).windows) == 56
    assert sum(w.n_queries for w in monitor({**config, "windows": {"size": "7d"}}, log=table).windows) == 420


@pytest.mark.long
def test_constant_scores_alert_where_the_baseline_had_none() -> None:
    table = SyntheticLog(days=1, queries_per_day=300).table().to_pandas()
    config = {"columns": {"query_id": "request_id", "score": "score"}, "metrics": ["ndcg@10"]}
    found = monitor(config, log=table.assign(score=0.0), baseline=table)
    assert "contract" in {alert.kind for alert in found.alerts}
    quiet = monitor({**config, "alerts": {"on": []}}, log=table.assign(score=0.0), baseline=table)
    assert quiet.exit_code == 0
    assert quiet.healthy is None  # the metric fell, and change is not in alerts.on
    assert any(caution.kind == "constant-score" for caution in quiet.cautions)
    constant = "300 of 300 queries have one score for all their items"
    verdict = build_monitor_report(quiet).sections[0]
    (caution,) = [block for block in verdict.blocks if isinstance(block, Paragraph) and block.tone == "note"]
    assert isinstance(caution.text, str)
    assert caution.text.startswith(f"production: {constant}")  # in view, before what is folded
    assert caution.text.endswith("is the model answering at all?")  # and no full stop behind the question
    both = monitor(config, log=table.assign(score=0.0), baseline=table.assign(score=0.0))
    assert {c.place for c in both.cautions if c.kind == "constant-score"} == {"production", "baseline"}
    assert constant not in str(build_monitor_report(both).sections[0])  # the log's section has it


def _with_score(column: str, values: Any) -> list[str]:
    table = SyntheticLog(days=1, queries_per_day=40, items=8).table().to_pandas()
    config = {
        "columns": {"query_id": "request_id", "score": column},
        "relevance": {"events": {"click": 1}},
        "metrics": ["ndcg@10"],
    }
    result = monitor(config, log=table.assign(**{column: values(table)}))
    return [str(caution) for caution in result.cautions if caution.kind == "score-is-rank"]


def test_a_score_that_is_a_rank_has_a_caution_with_the_line_that_repairs_it() -> None:
    (caution,) = _with_score("Ranks", lambda table: table.position)
    assert "40 of 40 queries have scores that count their rows, the more relevant the lower" in caution
    assert "such as 'Ranks'; write it as `columns: {rank: …}` in place of `score: …`" in caution
    assert _with_score("Ranks", lambda table: table.position - 1)  # from 0 on


def test_scores_that_are_no_ranks_have_no_such_caution() -> None:
    assert not _with_score("points", lambda table: 9 - table.position)  # 8 for the best row
    assert not _with_score("s", lambda table: table.score)
    assert not _with_score("loss", lambda table: 2 * table.position)  # counts no rows
    shuffled = np.random.default_rng(0).permuted(np.tile(np.arange(1, 9), (40, 1)), axis=1)
    assert not _with_score("chance", lambda table: shuffled.ravel())  # in no order of relevance


def test_ids_may_be_numbers_and_null_segments_have_a_name() -> None:
    found = monitor(with_columns(segments=["country"]), log=log(query_id=[10, 10, 10, 9, 9, 9], country=None))
    assert found.n_queries == 2
