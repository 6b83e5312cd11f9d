"""Experiments whose models optimise a metric: from the YAML to the record, again, side by side, searched."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from ltr_harness import run_experiment
from ltr_harness._util import user_code as own_files
from ltr_harness.errors import UsageError
from ltr_harness.experiments.config import as_mapping, load_experiment
from ltr_harness.experiments.training.reproduce import reproduce
from ltr_harness.workflow import prepare, read


@pytest.fixture
def optimised_config(small_config: dict[str, Any]) -> dict[str, Any]:
    small_config["seeds"] = [1]
    small_config["models"]["lgbm"]["objective"] = "primary"
    small_config["models"]["xgb"]["objective"] = {"metric": "err@3", "truncation_level": 15}
    del small_config["data"]["max_grade"]
    return small_config


@pytest.mark.long
def test_primary_is_what_decides_and_the_scale_is_the_datas(optimised_config: dict[str, Any]) -> None:
    optimised_config["metrics"]["primary"] = "ndcg(gain=linear)@3"
    models = load_experiment(optimised_config).models
    assert (models["lgbm"].objective, models["xgb"].objective) == ("ndcg(gain=linear)@3", "err@3")
    optimised_config["models"]["xgb"]["objective"]["metric"] = "primary"
    assert load_experiment(optimised_config).models["xgb"].objective == "ndcg(gain=linear)@3"
    optimised_config["models"]["xgb"]["objective"]["metric"] = "err"
    job = prepare(read(optimised_config))
    assert job.experiment.models["xgb"].objective == "err(max_grade=4)"
    assert load_experiment(as_mapping(job.experiment)) == job.experiment
    optimised_config["data"]["max_grade"] = 6
    assert load_experiment(optimised_config).models["xgb"].objective == "err(max_grade=6)"


def test_a_sweep_may_compare_objectives(optimised_config: dict[str, Any]) -> None:
    optimised_config["sweep"] = {"grid": {"models.lgbm.objective": ["lambdarank", "primary"]}}
    found = [model.objective for model in load_experiment(optimised_config).models.values()]
    assert found == ["lambdarank", "ndcg@10", "err@3", None]


def test_labels_that_it_is_not_defined_for_are_refused_before_training(
    optimised_config: dict[str, Any], tmp_path: Path
) -> None:
    optimised_config["models"]["xgb"]["objective"]["metric"] = "err(max_grade=2)"
    with pytest.raises(
        UsageError, match=r"models\.xgb\.objective: err\(max_grade=2\): label 3 .* is above max_grade"
    ):
        prepare(read(optimised_config, runs=tmp_path))


@pytest.mark.long
@pytest.mark.usefixtures("without_report")
def test_runs_repeat_here_in_workers_and_from_the_record(
    optimised_config: dict[str, Any], tmp_path: Path
) -> None:
    """Models of a metric, and of classes, of which there are as many as grades."""
    del optimised_config["models"]["random"]
    optimised_config["models"] |= {
        "multiclass": {"ranker": "lightgbm", "objective": "multiclass", "preset": "small"},
        "softprob": {"ranker": "xgboost", "objective": "multi:softprob", "preset": "small"},
    }
    result = run_experiment(optimised_config, runs=tmp_path / "one")
    assert not result.failures, [run.record.error for run in result.failures]
    records = {run.record.model: run.record for run in result.runs}
    assert records["xgb"].objective == "err(max_grade=4)@3"
    assert records["xgb"].params["objective"]["truncation_level"] == 15
    assert [records[name].params["num_class"] for name in ("multiclass", "softprob")] == [5, 5]
    both = run_experiment(optimised_config, runs=tmp_path / "two", workers=2)
    assert {run.path.name: run.record.files for run in both.runs} == {
        run.path.name: run.record.files for run in result.runs
    }
    for run in result.runs:
        assert reproduce(run.path).identical


@pytest.mark.long
@pytest.mark.usefixtures("one_core", "without_report")
def test_binary_models_are_searched_and_run_again_from_the_record(
    small_config: dict[str, Any], tmp_path: Path
) -> None:
    pytest.importorskip("optuna", reason="needs the extra `tune`")
    small_config["seeds"] = [1]
    small_config["models"] = {
        "lgbm": {"ranker": "lightgbm", "objective": "binary", "relevant": 2, "preset": "small"},
        "xgb": {"ranker": "xgboost", "objective": "binary:logistic", "relevant": 2, "preset": "small"},
    }
    with contextlib.suppress(ImportError):
        import catboost  # noqa: F401

        small_config["models"]["cat"] = {
            "ranker": "catboost",
            "objective": "Logloss",
            "relevant": 2,
            "preset": "small",
        }
    small_config["tune"] = {"models": {"lgbm": "built-in", "xgb": {"relevant": [1, 3]}}, "trials": 2}
    result = run_experiment(small_config, runs=tmp_path)
    assert not result.failures, [run.record.error for run in result.failures]
    for run in result.runs:
        assert run.record.params["relevant"] in ((1, 3) if run.record.model == "xgb" else (2,))
        assert run.record.metrics["ndcg@10"].mean > 0.5  # of the grades
        assert reproduce(run.path).identical


@pytest.mark.long
@pytest.mark.usefixtures("one_core", "without_report")
def test_its_options_are_searched(optimised_config: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("optuna", reason="needs the extra `tune`")
    optimised_config["tune"] = {"models": {"lgbm": "built-in"}, "trials": 2}
    result = run_experiment(optimised_config, runs=tmp_path)
    assert not result.failures, [run.record.error for run in result.failures]
    record = next(run.record for run in result.runs if run.record.model == "lgbm")
    assert record.tuning is not None
    assert record.params["objective"]["sigma"] == record.tuning.chosen["objective.sigma"]


OWN = """
from dataclasses import dataclass
from typing import ClassVar
from ltr_harness.metrics.precision import Precision

@dataclass(frozen=True, kw_only=True)
class Shelf(Precision):
    name: ClassVar[str] = "shelf"
"""


@pytest.mark.long
def test_a_metric_of_ones_own_is_optimised_and_its_code_belongs_to_the_run(
    optimised_config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shelf.py").write_text(OWN)
    del optimised_config["models"]["xgb"]
    optimised_config["models"]["lgbm"]["objective"] = {"metric": "./shelf.py:Shelf@3"}
    optimised_config["compare"] = {"baseline": "random"}
    result = run_experiment(optimised_config, runs=tmp_path / "runs")
    assert not result.failures, [run.record.error for run in result.failures]
    (run,) = (run for run in result.runs if run.record.model == "lgbm")
    assert run.record.objective == "shelf@3"
    assert reproduce(run.path).identical
    before = prepare(read(optimised_config, runs=tmp_path / "runs")).tasks[0]
    assert before.state == "done"
    (tmp_path / "shelf.py").write_text(OWN + "    # changed\n")
    after = prepare(read(optimised_config, runs=tmp_path / "runs")).tasks[0]
    assert (after.state, after.model) == ("train", "lgbm")
    assert "metric shelf is not the file it was" in " ".join(reproduce(run.path).reasons)
    monkeypatch.setattr(own_files, "_named", {})  # as where somebody else gave the run
    with pytest.raises(UsageError, match="which is executed only if you trust it"):
        reproduce(run.path)
