"""Runs that an earlier version trained otherwise than it should: trained again, and named wherever they are shown."""

from __future__ import annotations

import copy
import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from ltr_harness import compare, load_run, run_experiment
from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.experiments.runs import find_runs, revisions
from ltr_harness.experiments.training.reproduce import reproduce
from ltr_harness.models.xgboost import XGBoostRanker
from ltr_harness.workflow import prepare, read
from tests.conftest import reports_left_out
from tests.experiments.training.conftest import SMALL, TUNED

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("one_core")]

CONFIG: dict[str, Any] = {
    **SMALL,
    "seeds": [1],
    "name": "old",
    "stopping": {"metric": "log_loss", "patience": 2, "max_rounds": 4},
    "models": {
        "order": {"ranker": "lightgbm", "params": {"num_leaves": 5}},
        "yes": {"ranker": "lightgbm", "objective": "binary", "relevant": 2, "params": {"num_leaves": 5}},
        "pairs": {"ranker": "xgboost", "params": {"max_depth": 2, "lambdarank_pair_method": "mean"}},
        "bm25": {"ranker": "feature", "feature": "match_1"},
        "mix": {"ranker": "blend", "of": ["order", "bm25"], "how": "ranks"},
    },
}
STOPPED = "training was ended by probabilities, rates or averages, not by the stored scores"
WEIGHED = "weights were chosen by other probabilities than those that are reported"
SEEDS = "one seed was trained, although XGBoost draws pairs by the seed from 3.4 on"


def none_of_them(setting: revisions.Setting) -> dict[str, int]:
    """The revisions of an earlier version."""
    return {}


@pytest.fixture(scope="module")
def stored_runs(tmp_path_factory: pytest.TempPathFactory, one_core: None) -> Path:
    """Runs of an earlier version, by XGBoost 3.4.1."""
    runs = tmp_path_factory.mktemp("stored")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(revisions, "revisions", none_of_them)
        patch.setattr(XGBoostRanker, "seed_matters", False)
        with reports_left_out():
            run_experiment(copy.deepcopy(CONFIG), runs=runs, workers=1)
    [record] = runs.glob("old/pairs--*/record.json")
    document = json.loads(record.read_text())
    document["environment"]["xgboost"] = "3.4.1"
    record.write_text(json.dumps(document))
    return runs


@pytest.fixture
def old_runs(stored_runs: Path, tmp_path: Path) -> Path:
    return shutil.copytree(stored_runs, tmp_path / "runs")


@pytest.fixture
def let_seed_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """XGBoost 3.4, where the seed decides which pairs are drawn."""
    monkeypatch.setattr(XGBoostRanker, "seed_matters", True)


def lines_with(text: str, output: str) -> int:
    return sum(text in line for line in output.splitlines())


@pytest.mark.usefixtures("let_seed_matter")
def test_they_are_trained_again_and_a_line_for_each_kind_says_so(
    old_runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "old.yaml"
    file.write_text(yaml.safe_dump(CONFIG, sort_keys=False))
    arguments = ["run", str(file), "--runs", str(old_runs), "--workers", "1"]
    states = {task.model: task.state for task in prepare(read(CONFIG, runs=old_runs)).tasks}
    assert states == {"order": "done", "yes": "train", "pairs": "train", "bm25": "done", "mix": "train"}

    assert run_command(cli, arguments) == 0
    output = "".join(capsys.readouterr())
    again = "; stored runs are not reused, but trained again"
    for model, text in {"yes": STOPPED, "mix": WEIGHED, "pairs": SEEDS}.items():
        assert lines_with(f"note: {model}: {text}", output) == 1
        assert lines_with(text, output) == 1
    assert lines_with(again, output) == 3
    assert "3 to train, 2 done already" in output

    assert run_command(cli, arguments) == 0
    output = "".join(capsys.readouterr())
    assert "every run exists already; nothing to train" in output
    assert not any(text in output for text in (STOPPED, WEIGHED, SEEDS))
    runs = {run.record.model: run for run in find_runs(old_runs / "old")}
    assert {name for name, run in runs.items() if revisions.KEY in run.record.config} == {"yes", "mix"}
    assert reproduce(runs["yes"].path).identical
    assert reproduce(runs["mix"].path).identical


@pytest.mark.parametrize("command", ["compare", "report --format json"])
def test_comparison_and_report_have_a_line_for_each_kind(
    command: str, old_runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*command.split(), str(old_runs / "old"), "--no-ledger"]
    assert run_command(cli, arguments) == 0
    output = " ".join("".join(capsys.readouterr()).split())  # a line of any length is broken at 80 columns
    assert output.count("; run the experiment again") == 1
    assert "2 more cautions: `--verbose`" in output
    assert run_command(cli, [*arguments, "--verbose"]) == 0
    output = " ".join("".join(capsys.readouterr()).split())
    for model, text in {"yes": STOPPED, "mix": WEIGHED, "pairs": SEEDS}.items():
        assert output.count(f"Note: {model}: {text}") == 1
        assert output.count(text) == 1
    assert output.count("; run the experiment again") == 3


def test_a_page_and_a_comparison_keep_the_cautions(old_runs: Path) -> None:
    run_command(cli, ["report", str(old_runs / "old"), "--no-ledger", "--format", "json"])
    document = json.loads((old_runs / "old" / "report" / "report.json").read_text())
    kinds = {"ended-by-other-scores", "weights-of-other-probabilities", "one-seed-of-several"}
    assert sorted(one["kind"] for one in document["cautions"] if one["kind"] in kinds) == sorted(kinds)
    found = {one.kind: one for one in compare(old_runs / "old", ledger=False).cautions if one.kind in kinds}
    assert {kind: one.place for kind, one in found.items()} == {
        "ended-by-other-scores": "yes",
        "weights-of-other-probabilities": "mix",
        "one-seed-of-several": "pairs",
    }
    assert {one.severity for one in found.values()} == {"warning"}


def test_a_run_is_shown_with_its_caution(old_runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for model, expected in {"yes": 1, "order": 0}.items():
        [run] = (old_runs / "old").glob(f"{model}--*")
        run_command(cli, ["show", "run", str(run)])
        assert lines_with(f"warning: {model}: {STOPPED}", capsys.readouterr().out) == expected


def test_reproducing_one_names_the_reason(old_runs: Path) -> None:
    [run] = (old_runs / "old").glob("yes--*")
    assert reproduce(run).reasons[0].startswith(STOPPED)


@pytest.mark.usefixtures("without_report")
def test_a_blend_of_one_says_so_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = copy.deepcopy(CONFIG)
    config["models"] = {
        "yes": CONFIG["models"]["yes"],
        "bm25": CONFIG["models"]["bm25"],
        "both": {"ranker": "blend", "of": ["yes", "bm25"], "how": "ranks", "weights": {"yes": 1, "bm25": 1}},
    }
    with monkeypatch.context() as patch:
        patch.setattr(revisions, "revisions", none_of_them)
        run_experiment(copy.deepcopy(config), runs=tmp_path, workers=1)
    [caution] = [one for one in compare(tmp_path / "old", ledger=False).cautions if STOPPED in one.text]
    assert caution.place == "yes, both"
    assert {task.model: task.state for task in prepare(read(config, runs=tmp_path)).tasks} == {
        "yes": "train",
        "bm25": "done",
        "both": "train",
    }


def test_pairs_are_drawn_by_the_seed_from_xgboost_3_4_on(old_runs: Path) -> None:
    [run] = (old_runs / "old").glob("pairs--*")
    record = load_run(run).record
    assert set(revisions.outdated(record)) == {"one-seed-of-several"}
    for version in ("3.3.0", "none"):
        other = record.model_copy(update={"environment": {"xgboost": version}})
        assert revisions.outdated(other) == {}
    assert revisions.outdated(record.model_copy(update={"deterministic": False})) == {}


@pytest.mark.usefixtures("without_report")
def test_a_search_that_went_by_such_scores_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config = copy.deepcopy(TUNED)
    config["models"] = {"lgb": {**TUNED["models"]["lgb"], "relevant": 2, "objective": "binary"}}
    config["tune"] = {"trials": 2, "models": {"lgb": {"params.boosting": ["gbdt", "rf"]}}}
    with monkeypatch.context() as patch:
        patch.setattr(revisions, "revisions", none_of_them)
        run_experiment(copy.deepcopy(config), runs=tmp_path, workers=1)
        job = prepare(read(config, runs=tmp_path))
        assert not job.open_studies
    with caplog.at_level(logging.WARNING, "ltr_harness"):
        job = prepare(read(config, runs=tmp_path))
    assert [str(study) for study in job.open_studies] == ["lgb"]
    [message] = [record.getMessage() for record in caplog.records]
    assert message.startswith(f"tuning lgb: {STOPPED}")
    assert message.endswith("the stored search is not reused, but made again")


def test_final_models_of_catboost_had_values_of_their_own_length(old_runs: Path) -> None:
    [run] = (old_runs / "old").glob("order--*")
    record = load_run(run).record
    final = {"experiment": "old-final", "ranker": "catboost", "stopping": None, "params": {}, "rounds": 40}
    assert record.data["train"].n_features < 20  # else the steps of a leaf are the same in few rounds
    for loss in ("RMSE", "Logloss", "MultiClass", "PairLogit:max_pairs=9", "QuerySoftMax"):
        changed = record.model_copy(update={**final, "objective": loss})
        assert set(revisions.outdated(changed)) == {"values-of-the-final-length"}, loss
    rmse = record.model_copy(update={**final, "objective": "RMSE"})
    for other in (
        {"experiment": "old"},
        {"objective": "MAE"},
        {"objective": "PairLogit", "rounds": 200},
        {"params": {"learning_rate": 0.1}},
        {"params": {"eta": 0.1}},
        {"params": {"leaf_estimation_iterations": 1}},
        {"learned": {"derived_params": {"learning_rate": 0.1}}},
        {"stopping": record.stopping},
    ):
        assert revisions.outdated(rmse.model_copy(update=other)) == {}, other
