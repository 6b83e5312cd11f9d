"""The number of threads is part of a run's identity if it can move a tree, and `check` says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ltr_harness import run_experiment
from ltr_harness._util.cores import available_cores, threads_of
from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.errors import TrainingError
from ltr_harness.experiments.training.job import Task
from ltr_harness.experiments.training.progress import Progress
from ltr_harness.workflow import ExperimentResult, prepare, read
from tests.experiments.training.conftest import runs_of

pytestmark = pytest.mark.long


def test_threads_are_in_the_identity_only_where_they_matter(
    small_config: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ltr_harness.workflow.threads_of", threads_of)
    small_config["models"] = {
        "plain": small_config["models"]["lgbm"],
        "goss": {"ranker": "lightgbm", "params": {"data_sample_strategy": "goss"}},
        "xgb": small_config["models"]["xgb"],
    }
    plans = [
        prepare(read(small_config, runs=tmp_path, workers=workers))
        for workers in (1, max(2, available_cores()))
    ]
    one, many = ({(task.model, task.seed): task.identity for task in prepared.tasks} for prepared in plans)
    moved = {model for (model, seed) in one if one[model, seed] != many[model, seed]}
    assert moved == ({"goss"} if plans[0].threads != plans[1].threads else set())
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(small_config))
    # left to itself it would be one thread per model here, which no caution is needed for
    monkeypatch.setattr("ltr_harness.workflow.sensible_workers", lambda n_runs, n_values: 1)
    assert run_command(cli, ["check", str(path), "--runs", str(tmp_path / "runs")]) == 0
    said = capsys.readouterr().out
    assert (
        f"caution: models.goss: goss trains a different model with another number of threads (here {plans[0].threads})"
        in said
    )
    assert "caution: models.plain" not in said


@pytest.mark.usefixtures("without_report")
def test_any_number_of_workers_leaves_the_same_bytes_behind(
    small_config: dict[str, Any], tmp_path: Path
) -> None:
    params = {"max_depth": 3, "subsample": 0.7}
    small_config["seeds"] = [1]
    small_config["models"]["xendcg"] = {"ranker": "xgboost", "objective": "rank_xendcg", "params": params}
    in_workers = run_experiment(small_config, runs=tmp_path / "2", workers=2)
    assert not in_workers.failures
    digests = [
        {
            (run.path.name, name): digest
            for run in runs
            for name, digest in run.record.files.items()
            if name.startswith("model.") or name.endswith(".parquet")
        }
        for runs in (in_workers.runs, runs_of(small_config, tmp_path / "1"))
    ]
    assert len(digests[0]) == 5 * 4 + 3  # four runs; importance comes with the three of trees
    assert digests[0] == digests[1]


@pytest.mark.parametrize("model", ["lgbm", "xgb"])
def test_how_busy_the_machine_is_does_not_decide_on_the_threads(
    small_config: dict[str, Any], trained_experiment: ExperimentResult, tmp_path: Path, model: str
) -> None:
    """As with OMP_DYNAMIC=true in the environment, by which OpenMP would start fewer where others work."""
    import lightgbm
    import xgboost

    library = {"lgbm": lightgbm.basic._LIB, "xgb": xgboost.core._LIB}[model]
    in_rounds: list[int] = []

    class Look(Progress):
        def round(self, task: Task, number: int, values: Any) -> None:
            in_rounds.append(library.omp_get_dynamic())

    small_config |= {"seeds": [1], "models": {model: small_config["models"][model]}}
    before = library.omp_get_dynamic()
    try:
        library.omp_set_dynamic(1)
        (run,) = runs_of(small_config, tmp_path / "dynamic", progress=Look())
        afterwards = library.omp_get_dynamic()
    finally:
        library.omp_set_dynamic(before)
    assert set(in_rounds) == {0}
    assert afterwards == 1, "the setting is the caller's again"
    (same,) = (one for one in trained_experiment.runs if one.path.name == run.path.name)
    assert run.record.files == same.record.files


def test_a_library_that_hides_its_openmp_is_refused_where_it_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    from ltr_harness.models.tree_model import fixed_threads

    monkeypatch.setenv("OMP_DYNAMIC", "TRUE")
    with pytest.raises(TrainingError, match="OMP_DYNAMIC: is set"), fixed_threads(object()):
        pass
    monkeypatch.setenv("OMP_DYNAMIC", "false")
    with fixed_threads(object()):
        pass
