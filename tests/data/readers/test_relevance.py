"""Labels made of what users did: the rule that `monitor` has, for the rows that a reader reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from ltr_harness import evaluate, run_experiment
from ltr_harness.data.cache import DataCache
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.readers.csv import Csv
from ltr_harness.data.readers.memory import from_frame
from ltr_harness.data.readers.parquet import Parquet
from ltr_harness.data.readers.reader import ValueOptions
from ltr_harness.errors import ConfigError, DataError
from ltr_harness.experiments.config import load_experiment
from ltr_harness.experiments.runs import find_runs
from ltr_harness.monitoring import monitor
from tests.conftest import named_case

WEIGHTS = {"click": 1, "buy": 4}


def shown_lists(n_queries: int = 40, seed: int = 0) -> pd.DataFrame:
    """Lists of five in the order of their ranks, with clicks, purchases, dwell times and a feature."""
    random = np.random.default_rng(seed)
    n = 5 * n_queries
    click = (random.random(n) < 0.4).astype(int)
    return pd.DataFrame(
        {
            "query_id": np.repeat([f"q{at:03}" for at in range(n_queries)], 5),
            "sku": np.tile(list("abcde"), n_queries),
            "rank": np.tile(np.arange(1, 6), n_queries),
            "click": click,
            "buy": click * (random.random(n) < 0.3),
            "stayed": np.where(click, random.integers(1, 60, n), np.nan),
            "device": np.repeat(random.choice(["phone", "desk"], n_queries), 5),
            "user": np.repeat([f"u{at % 7}" for at in range(n_queries)], 5),
            "time": np.repeat(pd.date_range("2026-01-01", periods=n_queries, freq="h"), 5),
            "price": random.random(n),
        }
    )


def read_labelled(frame: pd.DataFrame, relevance: dict[str, Any], **columns: Any) -> RankingDataset:
    roles = {"document_id": "sku", "position": "rank", "features": ["price"]}
    return from_frame(frame, **{**roles, **columns}, relevance=relevance)


# ---- labels ---------------------------------------------------------------------------------------------


def test_a_row_is_worth_the_highest_weight_that_happened_and_events_are_no_features(tmp_path: Path) -> None:
    rows = pd.DataFrame(
        {"query_id": list("aab"), "click": [1, 2, 0], "buy": [0, 1, 0], "price": [1.0, 2.0, 3.0]}
    )
    rows.to_csv(tmp_path / "rows.csv", index=False)
    rows.to_parquet(tmp_path / "rows.parquet")
    for reader, name in ((Csv, "rows.csv"), (Parquet, "rows.parquet")):
        data = reader.model_validate({"relevance": {"events": WEIGHTS}}).read([name], tmp_path)
        assert data.labels.tolist() == [1.0, 4.0, 0.0]
        assert data.feature_names == ("price",)
        assert str(data.cautions[-1]) == (
            "labels by `relevance`: the highest weight among the events that happened (click 1, buy 4)"
        )


RULES: dict[str, dict[str, Any]] = {
    "a ladder of columns": {"ladder": [{"when": "stayed >= 30", "grade": 2}, {"when": "stayed >= 1", "grade": 1}]},
    "max": {"events": WEIGHTS},
    "counts": {"events": WEIGHTS, "mode": "weighted_sum", "count": "log1p"},
    "sum": {"mode": "sum", "positive": ["click", "buy"]},
    "ladder": {"ladder": [{"when": "buy", "grade": 3}, {"when": "stayed >= 30", "grade": 2}]},
    "dwell": {"events": WEIGHTS, "dwell": {"column": "stayed", "satisfied": 20, "by": {"device": {"phone": 40}}}},
    "return": {"events": {"click": 1}, "negative": ["buy"]},
    "label": {"mode": "label", "label": "click", "max_grade": 1},
    "match": {"mode": "match", "prediction": "device", "label": "device", "positive": ["phone"]},
}  # fmt: skip


def test_a_reader_and_monitor_mean_the_same_by_relevance() -> None:
    rows, metric = shown_lists().sample(frac=1, random_state=1), "ndcg(gain=linear)@3"  # rows in any order
    for name, rule in RULES.items():
        with named_case(name):
            data = read_labelled(rows, rule, regroup=True)
            columns = {"rank": "rank", "segments": ["device"]}
            config = {"columns": columns, "relevance": rule, "metrics": [metric]}
            watched = monitor(config, log=rows).windows[0].means[metric]
            assert data.positions is not None
            measured = evaluate(data.labels, -data.positions, group_sizes=data.groups.sizes, metrics=[metric])
            assert measured[metric].mean == pytest.approx(watched, abs=1e-12)


@pytest.mark.parametrize("by", ["query", "user"])
def test_an_event_log_says_the_same_as_columns_of_events(
    tmp_path: Path, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ltr_harness.data.logs.log.BATCH_ROWS", 7)  # files of Parquet pass by in batches
    rows = shown_lists()
    expected = np.maximum(rows.click, 4 * rows.buy).tolist()
    events = pd.concat([rows.loc[rows[name] > 0].assign(event=name) for name in WEIGHTS], ignore_index=True)
    join: dict[str, Any] = {"path": "events.csv", "item_id": "sku"}
    if by == "user":  # a minute after the look, and nothing says after which
        events["time"] += pd.Timedelta("1min")
        events = events.drop(columns="query_id")
        join |= {"query_id": None, "user": "user", "timestamp": "time"}
    events[[c for c in ("query_id", "user", "sku", "time", "event") if c in events]].to_csv(
        tmp_path / "events.csv", index=False
    )
    rows = rows.drop(columns=["click", "buy"])
    rows.iloc[:30].to_parquet(tmp_path / "rows.parquet")
    rows.iloc[30:].to_parquet(tmp_path / "more.parquet")
    reader = Parquet(
        document_id="sku",
        user="user",
        timestamp="time",
        features=("price",),
        relevance={"events": WEIGHTS, "event_log": join},  # type: ignore[arg-type]
    )
    data = reader.read(["rows.parquet", "more.parquet"], tmp_path)
    assert data.labels.tolist() == expected
    assert [path.name for path in reader.inputs(["rows.parquet"], tmp_path)] == ["rows.parquet", "events.csv"]


def test_lists_of_events_and_events_that_nobody_named() -> None:
    rows = pd.DataFrame(
        {
            "query_id": ["a", "a", "b"],
            "price": [1.0, 2.0, 3.0],
            "what": [["click"], ["click", "buy"], ["share"]],
        }
    )
    data = from_frame(rows, features=["price"], relevance={"events": WEIGHTS, "list_column": "what"})
    assert data.labels.tolist() == [1.0, 4.0, 0.0]
    assert str(data.cautions[-1]) == (
        "relevance: 1 of 4 events have names that the rule does not have, such as 'share'; "
        "add them to relevance.events, or to negative"
    )
    with pytest.raises(DataError, match="event 'bought' never happens; known: buy, click, share"):
        from_frame(rows, features=["price"], relevance={"events": {"bought": 1}, "list_column": "what"})


def test_rows_below_the_last_click_and_young_ones_are_not_judged() -> None:
    rows = shown_lists(2).assign(click=[0, 1, 0, 0, 0, 1, 0, 0, 0, 1])
    data = read_labelled(rows, {"events": {"click": 1}, "unseen": "ignore_below_last_click"})
    assert data.judgments.judged is not None
    assert data.judgments.judged.tolist() == [True, True, False, False, False, *[True] * 5]
    assert "3 of 10 documents not judged, by `relevance`" in map(str, data.cautions)
    young = read_labelled(
        rows, {"events": {"click": 1}, "maturity": "1h"}, timestamp="time"
    )  # the second query is an hour younger, the first one old enough
    assert young.judgments.judged is not None
    assert young.judgments.judged.tolist() == [True] * 5 + [False] * 5
    assert young.labels.tolist() == [0, 1, 0, 0, 0, 0, 0, 0, 0, 0]
    assert young.training_rows().n_queries == 1
    missing = read_labelled(rows.assign(grade=[1, np.nan] * 5), {"label": "grade", "unlabelled": "ignore"})
    assert missing.judgments.judged is not None
    assert missing.judgments.judged.sum() == 5


def test_bad_events_are_named_by_file_and_row(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("query_id,click,price\na,1,0.5\na,-1,0.1\nb,0.5,0.2\n")
    with pytest.raises(DataError) as error:
        Csv.model_validate({"relevance": {"events": {"click": 1}}}).read(["rows.csv"], tmp_path)
    assert str(error.value) == (
        "rows.csv: 2 of 3 event counts are negative or not numbers, such as "
        f"{tmp_path}/rows.csv:3, {tmp_path}/rows.csv:4; 0, 1, 2 … per row"
    )


# ---- configuration ----------------------------------------------------------------------------------------


def experiment(tmp_path: Path, data: dict[str, Any], **sections: Any) -> dict[str, Any]:
    return {
        "name": "e",
        "data": {
            "reader": "csv",
            "root": str(tmp_path),
            "splits": {"train": "train.csv", "test": "test.csv"},
            **data,
        },
        "metrics": {"report": ["ndcg", "err"], "cutoffs": [5], "primary": "ndcg@5"},
        "models": {"lgb": {"ranker": "lightgbm", "objective": "lambdarank", "rounds": 3}},
        "report": {"formats": ["md", "json"]},
        **sections,
    }


EVENTS = {"events": {"click": 1}}
LOG = {**EVENTS, "event_log": {"path": "events.csv"}}
BY_USER = {**EVENTS, "event_log": {"path": "events.csv", "query_id": None}}


UNFIT = [
    (
        {"reader": "letor", "relevance": EVENTS},
        "data.relevance with reader 'letor', whose files have ready labels and no columns of events; write the "
        "rows as a table with what users did, and use reader: csv or parquet",
    ),
    (
        {"relevance": EVENTS, "label": "grade", "grades": {"bad": 0}},
        "data: label and grades beside relevance; expected one of them: the rule says what a row is worth",
    ),
    (
        {"relevance": EVENTS, "features": ["price", "click"]},
        "data: features names click, of which relevance makes labels; expected other columns",
    ),
    (
        {"relevance": LOG},
        "data: relevance.event_log without document_id; expected the column that names the item",
    ),
    (
        {"relevance": BY_USER, "document_id": "sku", "user": "user"},
        "data: relevance.event_log without query_id; expected user and timestamp there and in data",
    ),
    (
        {"relevance": {**EVENTS, "dwell": {"column": "stayed"}}},
        "data: relevance.dwell and relevance.unseen without position; expected the column with the rank shown",
    ),
    (
        {"relevance": {**EVENTS, "maturity": "7d"}},
        "data: relevance.maturity without timestamp; expected the column with the time",
    ),
    (
        {"relevance": {"mode": "sum"}},
        "data.relevance: mode sum without events; expected such as positive: [click, buy]",
    ),
    (
        {"relevance": {"mode": "ladder", "negative": ["bounce"]}},
        "data.relevance: mode ladder without ladder; expected such as ladder: [{when: buy, grade: 4}]",
    ),
    (
        {"relevance": {"mode": "sum", "events": {"click": 1, "buy": 2}, "positive": ["clik"]}},
        "data.relevance: positive event 'clik' is not among events; expected one of them; did you mean 'click'?",
    ),
    (
        {"label": "grade", "grades": {"bins": ["a"]}},
        "data.grades: bins is not a list of numbers; expected such as bins: [2, 4]",
    ),
    (
        {"relevance": {"mode": "match", "prediction": "won"}},
        "data.relevance: mode match lacks a part; expected prediction: (a column), positive: (the class that",
    ),
    (
        {"relevance": {**LOG, "list_column": "clicked"}},
        "data.relevance: list_column with event_log; expected one of them",
    ),
    (
        {"relevance": {"mode": "label", "label": "grade", "list_column": "clicked"}},
        "data.relevance: mode label does not look at events; expected no list_column, event_log, dwell, ladder; "
        "or say what events are worth, as in events: {click: 1, buy: 4}, or mode: sum",
    ),
    (
        {"relevance": {**EVENTS, "dwell": {"column": "stayed", "event": "clik"}}},
        "data.relevance: dwell.event 'clik' is not an event; expected one of the rule's; did you mean 'click'?",
    ),
    (
        {
            "relevance": {**LOG, "event_log": {**LOG["event_log"], "baseline_path": "old.csv"}},
            "document_id": "sku",
        },
        "data: relevance.event_log.baseline_path is of monitor; expected one log of events for all splits",
    ),
    (
        {"relevance": {**EVENTS, "mode": "ips", "propensity": {"table": [1.0, 0.5]}}},
        "data: relevance.mode ips without position; expected the column with the rank shown",
    ),
    (
        {"relevance": {"events": {"click": float("inf")}}},
        "data.relevance.events.click is Infinity; expected a number",
    ),
]


def test_what_does_not_go_together_is_refused_with_a_cure(tmp_path: Path) -> None:
    for data, message in UNFIT:
        with named_case(message):
            with pytest.raises(ConfigError) as error:
                load_experiment(experiment(tmp_path, data), check_rankers=False)
            assert message in str(error.value)


def test_the_rule_fixes_the_scale_of_grades(tmp_path: Path) -> None:
    loaded = load_experiment(experiment(tmp_path, {"relevance": {"events": WEIGHTS}}), check_rankers=False)
    assert loaded.data.max_grade == 4
    assert "err(max_grade=4)@5" in [str(metric) for metric in loaded.metrics.metrics]


@pytest.mark.long
def test_another_rule_or_another_log_of_events_is_other_data(tmp_path: Path) -> None:
    rows = shown_lists()
    rows.drop(columns=["click", "buy"]).to_csv(tmp_path / "rows.csv", index=False)
    events = rows.loc[rows.click > 0].assign(event="click")[["query_id", "sku", "event"]]
    events.to_csv(tmp_path / "events.csv", index=False)
    cache = DataCache(tmp_path / "cache")

    def digest(weight: int) -> str:
        reader = Csv.model_validate(
            {
                "document_id": "sku",
                "features": ("price",),
                "relevance": {
                    "events": {"click": weight},
                    "event_log": {"path": "events.csv", "item_id": "sku"},
                },
            }
        )
        return cache.read(reader, ["rows.csv"], tmp_path).fingerprints.judgments

    first = digest(1)
    assert digest(1) == first
    assert digest(2) != first
    events.iloc[1:].to_csv(tmp_path / "events.csv", index=False)
    assert digest(1) != first


# ---- from the file to the report --------------------------------------------------------------------------


@pytest.mark.long
def test_a_run_labels_train_and_test_alike_records_the_rule_and_is_reproduced(
    tmp_path: Path, ltr: Callable[..., tuple[int, str, str]]
) -> None:
    shown_lists(60).to_csv(tmp_path / "train.csv", index=False)
    shown_lists(30, seed=1).assign(query_id=lambda rows: "t" + rows.query_id).to_csv(
        tmp_path / "test.csv", index=False
    )
    data = {
        "relevance": {"events": WEIGHTS},
        "document_id": "sku",
        "position": "rank",
        "attributes": ["device"],
        "features": ["price"],
    }
    run_experiment(experiment(tmp_path, data), runs=tmp_path / "runs")
    (run,) = find_runs(tmp_path / "runs" / "e")
    assert run.record.reading["relevance"]["events"] == {"click": 1.0, "buy": 4.0}
    assert run.record.data["test"].n_features == 1  # price; no event, no outcome, no id
    page = (tmp_path / "runs" / "e" / "report" / "report.md").read_text()
    assert (
        "Labels come from user events, alike in all splits: the highest weight among the events that happened "
        "(click 1, buy 4)." in page
    )
    assert "err(max_grade=4)@5" in json.loads((run.path / "record.json").read_text())["metrics"]
    assert ltr("reproduce", run.path)[1].startswith("identical: ")
    shown_lists(5).drop(columns=[*WEIGHTS, "stayed"]).to_csv(tmp_path / "new.csv", index=False)
    assert ltr("predict", run.path, tmp_path / "new.csv", "-o", tmp_path / "scores.csv")[0] == 0


def test_bins_of_grades_are_limits() -> None:
    with pytest.raises(
        ValidationError, match=r"bins is a number; expected the limits, such as bins: \[2, 4\]"
    ):
        ValueOptions(grades={"bins": 5})
