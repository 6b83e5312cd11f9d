"""`relevance: {from: …}`: monitor means by relevance what a run or an experiment means, and refuses what does not."""

from __future__ import annotations

from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from ltr_harness import run_experiment
from ltr_harness.data.relevance.rule import Relevance
from ltr_harness.errors import ConfigError, DataError, NotComparableError
from ltr_harness.monitoring import monitor
from ltr_harness.monitoring.load import load_monitor_config

RULE = {"events": {"click": 1, "buy": 4}}


def lists(n_queries: int, name: str, seed: int) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    n = 5 * n_queries
    click = (random.random(n) < 0.4).astype(int)
    return pd.DataFrame(
        {
            "query_id": np.repeat([f"{name}{at}" for at in range(n_queries)], 5),
            "rank": np.tile(np.arange(1, 6), n_queries),
            "click": click,
            "buy": click * (random.random(n) < 0.3),
            "score": -np.tile(np.arange(1.0, 6), n_queries),
        }
    )


def experiment(folder: Path, **data: Any) -> dict[str, Any]:
    return {
        "name": "e",
        "data": {
            "reader": "csv",
            "root": str(folder),
            "position": "rank",
            "features": ["score"],
            "splits": {"train": "train.csv", "test": "test.csv"},
            **data,
        },
        "metrics": {"report": ["ndcg", "err"], "cutoffs": [3], "primary": "ndcg@3"},
        "models": {"shown": {"ranker": "feature", "feature": "score"}},
    }


@pytest.fixture(scope="module")
def trained_folder(tmp_path_factory: pytest.TempPathFactory, module_without_report: None) -> Path:
    """A folder with an experiment file, its data and its run, labelled by `RULE`."""
    folder = tmp_path_factory.mktemp("rule")
    lists(30, "a", 1).to_csv(folder / "train.csv", index=False)
    lists(60, "b", 2).to_csv(folder / "test.csv", index=False)
    (folder / "e.yaml").write_text(yaml.safe_dump(experiment(folder, relevance=RULE)))
    run_experiment(folder / "e.yaml", runs=folder / "runs")
    return folder


def config(source: Path, **relevance: Any) -> dict[str, Any]:
    return {
        "columns": {"rank": "rank"},
        "relevance": {"from": str(source), **relevance},
        "metrics": ["ndcg@3", "err@3"],
        "windows": {"min_queries": 10},
    }


@pytest.mark.long
@pytest.mark.parametrize("source", ["e.yaml", "runs/e"])
def test_the_rule_of_an_experiment_and_of_its_run(trained_folder: Path, source: str) -> None:
    loaded = load_monitor_config(config(trained_folder / source))
    assert loaded.relevance == Relevance.model_validate(RULE)
    assert loaded.digest() == load_monitor_config(config(trained_folder) | {"relevance": RULE}).digest()


def test_the_same_lists_have_the_same_value_in_the_run_and_in_monitor(trained_folder: Path) -> None:
    log = pd.read_csv(trained_folder / "test.csv")
    result = monitor(config(trained_folder / "runs/e"), log=log, baseline=trained_folder / "runs" / "e")
    assert result.changes[0].difference.value == pytest.approx(0, abs=1e-12)
    assert [str(metric) for metric in result.metrics] == ["ndcg@3", "err(max_grade=4)@3"]


def test_a_folder_whose_runs_do_not_say_one_rule_is_refused(trained_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    with pytest.raises(ConfigError, match="has no run; expected one rule"):
        load_monitor_config(config(tmp_path / "nothing"))
    copytree(trained_folder / "runs" / "e", tmp_path / "e")
    run_experiment(experiment(trained_folder, relevance={"events": {"click": 1, "buy": 2}}), runs=tmp_path)
    (tmp_path / "e" / "plan.json").unlink()  # which names the runs of the last command
    with pytest.raises(ConfigError, match=r"has runs under several rules; expected one rule.*; name one run"):
        load_monitor_config(config(tmp_path / "e"))


def test_of_a_baseline_with_several_runs_one_is_named(trained_folder: Path, tmp_path: Path) -> None:
    two = experiment(trained_folder, relevance=RULE)
    two["models"]["other"] = {"ranker": "random"}
    run_experiment(two, runs=tmp_path)
    log = pd.read_csv(trained_folder / "test.csv")
    with pytest.raises(
        DataError, match="holds 2 finished runs; expected one to compare with; name one of them: "
    ):
        monitor(config(trained_folder / "e.yaml"), log=log, baseline=tmp_path / "e")


def test_what_was_labelled_otherwise_is_refused(trained_folder: Path) -> None:
    log = pd.read_csv(trained_folder / "test.csv")
    other = config(trained_folder) | {"relevance": {"events": {"click": 1, "buy": 3}}, "metrics": ["ndcg@3"]}
    with pytest.raises(NotComparableError) as error:
        monitor(other, log=log, baseline=trained_folder / "runs" / "e")
    assert (
        "has relevance.events = {'buy': 4.0, 'click': 1.0}, production {'click': 1.0, 'buy': 3.0}; expected the same "
        "rule of relevance; relevance: {from: " in str(error.value)
    )


@pytest.mark.parametrize(
    ("data", "relevance", "message"),
    [
        (
            {"relevance": RULE},
            {"mode": "sum"},
            "relevance.from beside mode, which the rule of e.yaml has; leave out one of them; event_log, maturity, "
            "propensity, label, prediction, list_column may stand beside it",
        ),
        (
            {"label": "grade", "grades": {"bad": 0, "good": 1}},
            {},
            "relevance.from: its labels are mapped by grades or unjudged, which a log does not allow; expected labels "
            "as they are, or a rule of relevance; write the mapped grades into the log and set relevance: {label: …}",
        ),
        (
            {"relevance": {**RULE, "event_log": {"path": "x.csv"}}, "document_id": "sku"},
            {},
            "relevance.from: e.yaml has its own log of events; expected production's; add relevance.event_log: "
            "{…} beside from",
        ),
    ],
)
def test_what_cannot_be_taken_over_is_said(
    tmp_path: Path, data: dict[str, Any], relevance: dict[str, Any], message: str
) -> None:
    (tmp_path / "e.yaml").write_text(yaml.safe_dump(experiment(tmp_path, **data)))
    (tmp_path / "m.yaml").write_text(
        yaml.safe_dump({"columns": {"rank": "rank"}, "relevance": {"from": "e.yaml", **relevance}})
    )
    with pytest.raises(ConfigError) as error:
        load_monitor_config(tmp_path / "m.yaml")
    assert message in str(error.value)


def test_ready_labels_and_the_log_of_production_s_own_events(tmp_path: Path) -> None:
    (tmp_path / "labels.yaml").write_text(yaml.safe_dump(experiment(tmp_path, label="grade", max_grade=2)))
    loaded = load_monitor_config(config(tmp_path / "labels.yaml"))
    assert loaded.relevance == Relevance(mode="label", label="grade", max_grade=2)
    rule = {**RULE, "event_log": {"path": "train_events.csv", "item_id": "sku"}}
    (tmp_path / "e.yaml").write_text(yaml.safe_dump(experiment(tmp_path, relevance=rule, document_id="sku")))
    events = {"event_log": {"path": "events.csv"}}
    loaded = load_monitor_config(
        config(tmp_path / "e.yaml", **events) | {"columns": {"rank": "rank", "item_id": "sku"}}
    )
    assert loaded.relevance.event_log is not None
    assert Path(loaded.relevance.event_log.path).name == "events.csv"
    assert loaded.relevance.event_log.item_id == "sku"  # as in training
