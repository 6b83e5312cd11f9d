"""Faults that spoil a training without stopping it are printed beside its numbers; the rest is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ltr_harness import run_experiment
from ltr_harness._util.cores import available_cores, threads_of
from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.errors import HarnessError, labelled
from ltr_harness.workflow import ExperimentResult

pytestmark = pytest.mark.long


def notes_of(config: dict[str, Any], tmp_path: Path) -> tuple[list[str], str]:
    """The cautions beside the result, and the report."""
    config = {**config, "report": {"formats": ["html"]}}
    result = run_experiment(config, runs=tmp_path, accept=["identical-rows"])
    assert not result.failures
    assert result.comparison is not None
    assert result.report_path is not None
    return [*map(labelled, result.comparison.cautions)], result.report_path.read_text(encoding="utf-8")


def test_validation_rows_that_occur_in_training_are_said_beside_the_result(
    small_config: dict[str, Any], trained_experiment: ExperimentResult, tmp_path: Path
) -> None:
    assert trained_experiment.comparison is not None
    clean = map(labelled, trained_experiment.comparison.cautions)
    assert not any("have the features of a row of train" in note for note in clean)
    small_config |= {"seeds": [1], "models": {"random": small_config["models"]["random"]}}
    small_config["data"]["duplicates"] = 0.3
    with pytest.raises(
        HarnessError, match=r"train and valid: .*; 8 of its 30 queries share .*--accept identical-rows"
    ):
        run_experiment(small_config, runs=tmp_path / "refused")
    leaked, report = notes_of(small_config, tmp_path / "leaked")
    [note] = [note for note in leaked if "rows of valid" in note]
    assert note.startswith("accepted: train and valid: ")
    assert "have the features of a row of train" in note
    command = "ltr-harness data split"
    assert note.replace(f"`{command}`", f"<code>{command}</code>") in report
    tested = [note for note in leaked if "rows of test" in note]
    assert tested[0].startswith("accepted: train and test: ")


@pytest.mark.skipif(available_cores() < 2, reason="one thread repeats")
def test_a_model_that_no_run_repeats_is_said_beside_the_result(
    small_config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ltr_harness.workflow.threads_of", threads_of)
    small_config["seeds"] = [1]
    small_config["models"]["lgbm"]["params"]["bagging_by_query"] = True
    del small_config["models"]["xgb"]
    notes, report = notes_of(small_config, tmp_path)
    [note] = [note for note in notes if note.startswith("lgbm: bagging_by_query with several threads")]
    assert "gives another model in every run; one thread repeats" in note
    assert note in report


SCATTERED = "3 qid:7 1:0.5 2:1\n0 qid:8 1:0.1 2:3\n1 qid:7 1:0.2 2:2\n0 qid:8 1:0.4 2:0\n"


def test_rows_that_are_not_sorted_by_query_are_refused_or_brought_together_and_reported(
    small_config: dict[str, Any], tmp_path: Path
) -> None:
    for split in ("train", "test"):
        (tmp_path / f"{split}.txt").write_text(SCATTERED)
    small_config |= {
        "seeds": [1],
        "data": {
            "reader": "letor",
            "root": str(tmp_path),
            "splits": {"train": "train.txt", "valid": {"holdout": 0.5, "seed": 1}, "test": "test.txt"},
        },
    }
    small_config["models"] = {"best": {"ranker": "feature", "feature": 1}, "random": {"ranker": "random"}}
    del small_config["stopping"]
    with pytest.raises(HarnessError, match=r"train\.txt:3: query '7' is not contiguous"):
        run_experiment(small_config, runs=tmp_path / "runs")
    small_config["data"]["regroup"] = True
    meant = ["query-in-two-splits", "nothing-relevant"]  # four rows are no data set
    result = run_experiment(small_config, runs=tmp_path / "runs", accept=meant)
    assert not result.failures
    [regrouped] = [one for one in result.runs[0].record.cautions if one.kind == "regrouped-rows"]
    assert regrouped.text.startswith("2 of 2 queries were scattered")


OWN = '''
import json
from dataclasses import dataclass
import numpy as np
from ltr_harness.models import FittedModel, Ranker

class Sum(Ranker):
    """Adds the features up."""
    sign: float = 1.0
    def check(self, facts=None): return []
    @property
    def seed_matters(self): return True
    def fit(self, training): return Model(sign=self.sign)
    @classmethod
    def load(cls, folder, threads=None): return Model.load(folder, threads)

@dataclass(frozen=True, eq=False, kw_only=True)
class Model(FittedModel):
    sign: float
    def score(self, features): return self.sign * np.asarray(features, np.float64).sum(axis=1)
    def save(self, folder):
        (folder / "model.json").write_text(json.dumps(self.sign))
        return "model.json"
    @classmethod
    def load(cls, folder, threads=None): return cls(sign=json.loads((folder / "model.json").read_text()))
'''


@pytest.mark.usefixtures("without_report")
def test_rankers_from_outside_run_in_workers_too(
    small_config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    about = site / "sum_ranker-1.0.dist-info"
    about.mkdir(parents=True)
    (site / "sum_ranker.py").write_text(OWN)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: sum-ranker\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[ltr_harness.rankers]\nsum = sum_ranker:Sum\n")
    monkeypatch.syspath_prepend(str(site))
    names = {"entry point": "sum", "own file": f"{site / 'sum_ranker.py'}:Sum"}
    small_config["models"] = {kind: {"ranker": name, "sign": -1.0} for kind, name in names.items()}
    del small_config["stopping"]
    means = []
    for workers in (1, 2):
        result = run_experiment(small_config, runs=tmp_path / str(workers), workers=workers)
        assert [run.record.error for run in result.failures] == []
        assert len(result.runs) == 4
        means.append([run.record.metrics["ndcg@10"].mean for run in result.runs])
    assert means[0] == means[1]


@pytest.mark.usefixtures("without_report")
def test_cautions_of_a_model_that_are_texts_are_refused(small_config: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "sum_ranker.py"
    file.write_text(OWN.replace("Model(sign=self.sign)", 'Model(sign=self.sign, cautions=("few rows",))'))
    small_config["models"] = {"sum": {"ranker": f"{file}:Sum"}}
    del small_config["stopping"]
    result = run_experiment(small_config, runs=tmp_path, on_failure="keep")
    assert {run.record.error for run in result.failures} == {
        "Model: cautions of the model hold str 'few rows'; expected ltr_harness.errors.Caution, such as "
        'Caution("few-rows", "warning", "12 rows")'
    }


def test_check_says_so_before_anything_is_trained(
    small_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--set", "data.duplicates=0.3", "--runs", str(tmp_path)]
    assert run_command(cli, ["check", str(small_file), *asked]) == 2
    said = capsys.readouterr().out
    assert "error: train and valid: 325 rows of valid (28.4%) have the features of a row of train" in said


def csv_experiment(folder: Path, users: list[str], unit: str | None) -> dict[str, Any]:
    """Two rankers over queries of these users, which the comparison goes by."""
    for part in ("train", "test"):
        rows = "".join(
            f"{part}{at},{user},{grade},{grade + at / 10}\n"
            for at, user in enumerate(users)
            for grade in (0, 1, 2)
        )
        (folder / f"{part}.csv").write_text(f"query_id,user_id,label,a\n{rows}")
    return {
        "name": "shop",
        "data": {
            "reader": "csv",
            "root": str(folder),
            "splits": {"train": "train.csv", "test": "test.csv"},
            "attributes": ["user_id"],
        },
        "metrics": {"report": ["ndcg"], "cutoffs": [5]},
        "models": {"a": {"ranker": "feature", "feature": "a"}, "r": {"ranker": "random"}},
        "compare": {"unit": unit},
    }


@pytest.mark.parametrize(
    ("users", "unit", "said"),
    [
        (["u1", "u1", "u2", "u2"], "user", "test.csv has no query attribute 'user'; did you mean 'user_id'"),
        (
            ["u1", "", "u2", "u2"],
            "user_id",
            "test.csv: 1 query without a user_id; expected one for each query",
        ),
        (["u1", "u1", "u1", "u1"], "user_id", "all test queries are of one user_id; expected at least two"),
    ],
)
def test_units_that_the_test_data_lacks_are_refused_before_training(
    users: list[str], unit: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(HarnessError) as caught:
        run_experiment(
            csv_experiment(tmp_path, users, unit), runs=tmp_path / "runs", accept=["leaking-feature"]
        )
    assert f"compare.unit: {tmp_path / said}" in str(caught.value) or f"compare.unit: {said}" in str(
        caught.value
    )
    assert not list((tmp_path / "runs").glob("*/*/record.json"))


@pytest.mark.parametrize(
    ("searches", "weights", "said"),
    [
        (["1", "2", "3", "4"], "clicks", "test.csv has no query attribute 'clicks'"),
        (["1", "-2", "3", "4"], "user_id", "query 'test1' has -2; expected finite weights of at least 0"),
        (["u1", "u2", "u3", "u4"], "user_id", "'u1' is not a number; expected a number for each query"),
    ],
)
def test_weights_that_the_test_data_lacks_are_refused_before_training(
    searches: list[str], weights: str, said: str, tmp_path: Path
) -> None:
    config = csv_experiment(tmp_path, searches, None) | {"compare": {"weights": weights}}
    with pytest.raises(HarnessError) as caught:
        run_experiment(config, runs=tmp_path / "runs", accept=["leaking-feature"])
    assert "compare.weights: " in str(caught.value)
    assert said in str(caught.value)
    assert not list((tmp_path / "runs").glob("*/*/record.json"))


def test_an_experiment_is_compared_by_its_unit(tmp_path: Path) -> None:
    config = csv_experiment(tmp_path, [f"u{at // 2}" for at in range(12)], "user_id")
    result = run_experiment(config, runs=tmp_path / "runs", accept=["leaking-feature"])
    assert result.comparison is not None
    assert result.report_path is not None
    notes, report = [*map(str, result.comparison.cautions)], result.report_path.read_text(encoding="utf-8")
    assert any(
        note.startswith("tests and intervals go by user_id: 6 of 2 queries; design effect") for note in notes
    )
    assert "sign-flip test by user_id" in report
