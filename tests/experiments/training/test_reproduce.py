"""Training a stored run again: identical to the bit, or what differs and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ltr_harness import load_run, run_experiment
from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.errors import UsageError
from ltr_harness.experiments.training.reproduce import reproduce

pytestmark = pytest.mark.long

OWN = """
import numpy as np
from ltr_harness.models.random import RandomModel, RandomRanker

class Model(RandomModel):
    def score(self, features): return np.asarray(features, np.float64)[:, 0] + self.seed

class Mine(RandomRanker):
    def fit(self, training): return Model(seed=training.seed)
    @classmethod
    def load(cls, folder, threads=None): return Model.load(folder, threads)
"""


@pytest.fixture(scope="module")
def stored_experiment(tmp_path_factory: pytest.TempPathFactory, module_without_report: None) -> Path:
    """A finished experiment with every kind of ranker, run by two workers, one of a user's own file among them."""
    import yaml

    from tests.experiments.training.conftest import SMALL

    folder = tmp_path_factory.mktemp("reproduce")
    (folder / "mine.py").write_text(OWN)
    params = {"max_depth": 3, "subsample": 0.7}
    models = {
        **SMALL["models"],
        "xgb-xendcg": {"ranker": "xgboost", "objective": "rank_xendcg", "params": params, "drop_blank": True},
        "lgbm-small": {"ranker": "lightgbm", "objective": "rank_xendcg", "preset": "small"},
        "linear": {"ranker": "linear", "weights": {"match_1": 1.0}},
        "mine": {"ranker": "./mine.py:Mine"},
    }
    path = folder / "small.yaml"
    path.write_text(yaml.safe_dump({**SMALL, "seeds": [1], "models": models}, sort_keys=False))
    result = run_experiment(path, runs=folder / "runs", workers=2)
    assert not result.failures, [run.record.error for run in result.failures]
    return result.folder


def folder_of(stored_experiment: Path, model: str) -> Path:
    [path] = stored_experiment.glob(f"{model}--*")
    return path


@pytest.mark.parametrize("model", ["lgbm", "xgb", "random", "xgb-xendcg", "lgbm-small", "linear", "mine"])
def test_every_ranker_is_reproduced_to_the_bit(stored_experiment: Path, model: str) -> None:
    found = reproduce(folder_of(stored_experiment, model))
    assert found.identical, found
    assert found.reasons == ()
    assert found.n_scores == load_run(folder_of(stored_experiment, model)).record.data["test"].n_rows


def test_the_command_says_so(stored_experiment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder_of(stored_experiment, "xgb")
    assert run_command(cli, ["reproduce", str(path)]) == 0
    rows = load_run(path).record.data["test"].n_rows
    assert capsys.readouterr().out == f"identical: model file, {rows:,} test scores and every metric\n"
    assert run_command(cli, ["reproduce", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["identical"] is True


def edited_run(stored_experiment: Path, model: str, tmp_path: Path, **changes: Any) -> Path:
    """A copy of the run, its record changed: what a run made elsewhere would look like."""
    import shutil

    shutil.copy(stored_experiment / "experiment.yaml", tmp_path)
    source = folder_of(stored_experiment, model)
    target = tmp_path / source.name
    shutil.copytree(source, target)
    record = json.loads((target / "record.json").read_text())
    for key, value in changes.items():
        record[key] = {**record[key], **value} if isinstance(value, dict) else value
    (target / "record.json").write_text(json.dumps(record))
    return target


def test_a_difference_is_measured_and_what_changed_is_named(
    stored_experiment: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = edited_run(stored_experiment, "lgbm", tmp_path, seed=77, environment={"lightgbm": "3.0.0"})
    found = reproduce(path)
    assert not found.identical
    assert not found.same_model
    assert 0 < found.n_other_scores <= found.n_scores
    assert found.largest_difference > 0
    assert "ndcg@10" in found.metrics
    assert any(reason.startswith("lightgbm: 3.0.0 then, ") for reason in found.reasons)
    assert run_command(cli, ["reproduce", str(path)]) == 1
    out = capsys.readouterr().out
    assert out.startswith("not identical:\n  model file: differs\n  test scores: ")
    assert "changed since:\n  lightgbm: 3.0.0 then" in out


def test_changed_data_are_named(stored_experiment: Path, tmp_path: Path) -> None:
    path = edited_run(stored_experiment, "lgbm", tmp_path)
    record = json.loads((path / "record.json").read_text())
    record["reading"]["n_queries"]["train"] = 61
    (path / "record.json").write_text(json.dumps(record))
    assert "the train data are not what they were" in reproduce(path).reasons


def test_the_record_alone_is_enough(stored_experiment: Path, tmp_path: Path) -> None:
    path = edited_run(stored_experiment, "xgb", tmp_path)
    (tmp_path / "experiment.yaml").write_text("data: {reader: nonsense}\nmodels: [")
    found = reproduce(path)
    assert found.identical
    assert found.reasons == ()


FILES = """
def first_label(labels, scores):
    return labels[0]
"""


@pytest.fixture(scope="module")
def from_files(tmp_path_factory: pytest.TempPathFactory, module_without_report: None) -> Path:
    """A run of models with a fixed number of rounds, on text files, with a metric of the user's own."""
    import numpy as np
    import yaml

    folder = tmp_path_factory.mktemp("files")
    (folder / "data").mkdir()
    rng = np.random.default_rng(1)
    for split, first in (("train", 0), ("valid", 100), ("test", 200)):
        rows = [
            f"{rng.integers(3)} qid:{query} 1:{rng.random():.3f} 2:{rng.random():.3f}\n"
            for query in range(first, first + 40)
            for _ in range(6)
        ]
        (folder / "data" / f"{split}.txt").write_text("".join(rows))
    (folder / "own.py").write_text(FILES)
    config = {
        "name": "files",
        "data": {
            "reader": "letor",
            "root": "data",
            "splits": {"train": "train.txt", "valid": "valid.txt", "test": "test.txt"},
        },
        "metrics": {
            "cutoffs": [5],
            "report": ["ndcg", "./own.py:first_label(higher_is_better=true)"],
            "primary": "ndcg@5",
        },
        "models": {"xgb": {"ranker": "xgboost", "objective": "rank:ndcg", "rounds": 5}},
        "report": {"formats": ["json"]},
    }
    (folder / "files.yaml").write_text(yaml.safe_dump(config))
    result = run_experiment(folder / "files.yaml", runs=folder / "runs")
    assert not result.failures, [run.record.error for run in result.failures]
    [run] = result.runs
    return run.path


def test_a_run_alone_needs_only_the_folder_of_its_data(from_files: Path, tmp_path: Path) -> None:
    import shutil

    source = from_files.parents[2]
    alone = tmp_path / "alone"
    shutil.copytree(from_files, alone)
    with pytest.raises(UsageError, match="name the folder with --data-root"):
        reproduce(alone)
    moved = tmp_path / "moved"
    shutil.copytree(source / "data", moved)
    found = reproduce(alone, data_root=moved)
    assert found.identical, found
    assert found.reasons == ()
    assert load_run(alone).record.rounds == 5


def test_what_changed_in_files_is_named_by_file(from_files: Path, tmp_path: Path) -> None:
    import shutil

    source = from_files.parents[2]
    alone, moved = tmp_path / "alone", tmp_path / "moved"
    shutil.copytree(from_files, alone)
    shutil.copytree(source / "data", moved)
    with (moved / "valid.txt").open("a") as file:
        file.write("1 qid:999 1:0.5 2:0.5\n")
    own = tmp_path / "own.py"
    own.write_text(FILES + "# changed\n")
    record = json.loads((alone / "record.json").read_text())
    kept = record["own_metrics"]["first_label"]
    record["own_metrics"]["first_label"] = {**kept, "spelling": f"{own}:first_label(higher_is_better=true)"}
    (alone / "record.json").write_text(json.dumps(record))
    reasons = reproduce(alone, data_root=moved, trust=True).reasons  # a file that nobody here has named
    assert "the valid data are not what they were (valid.txt)" in reasons
    assert f"{own} is not the file it was" in reasons
    assert not any("train data" in reason or "test data" in reason for reason in reasons)


def test_what_this_version_does_not_understand_is_no_traceback(
    stored_experiment: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = edited_run(stored_experiment, "lgbm", tmp_path, config={"colour": "red"})
    assert run_command(cli, ["reproduce", str(path)]) == 2
    said = capsys.readouterr().err
    assert "lgbm.colour: this version does not take what the record says" in said
    assert "`ltr-harness export requirements`" in said


@pytest.mark.parametrize(
    ("config", "said"),
    [({"ranker": 1}, "ranker"), ({"inputs": []}, "inputs"), ({"objective": {}}, "objective.metric")],
)
def test_a_record_whose_model_is_none_is_an_error(
    stored_experiment: Path, tmp_path: Path, config: dict[str, Any], said: str
) -> None:
    """Each ended in a traceback; found by fuzzing."""
    with pytest.raises(UsageError, match=f"record.json: config.{said} is not what a run's record holds"):
        reproduce(edited_run(stored_experiment, "lgbm", tmp_path, config=config))


def test_another_number_of_threads_is_named_and_changes_nothing(stored_experiment: Path) -> None:
    path = folder_of(stored_experiment, "xgb-xendcg")
    found = reproduce(path, threads=load_run(path).record.threads + 1)
    assert not found.n_other_scores
    assert any(reason.startswith("threads: ") for reason in found.reasons)


def test_what_is_no_run_is_an_error(tmp_path: Path) -> None:
    assert run_command(cli, ["reproduce", str(tmp_path / "none")]) == 2
