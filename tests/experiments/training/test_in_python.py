"""`run_experiment` in a script or a notebook: the command's workers and progress, failures, data in memory."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ltr_harness import run_experiment
from ltr_harness import workflow as module
from ltr_harness._util.cores import let_idle_threads_sleep
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.readers.memory import from_arrays, from_frame
from ltr_harness.errors import ConfigError, DataError, TrainingError, UsageError
from ltr_harness.experiments.training.progress import Progress
from ltr_harness.report.terminal_progress import TerminalProgress
from ltr_harness.workflow import ExperimentResult

MODELS = {"one": {"ranker": "feature", "feature": "price"}, "chance": {"ranker": "random"}}
NUMBERS = {
    "models": MODELS,
    "report": {"formats": ["json"]},
}  # pages and charts are no concern of these tests

pytestmark = pytest.mark.long


def made_up(seed: int, n_queries: int = 30) -> RankingDataset:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 9, n_queries)
    n = int(sizes.sum())
    X = rng.normal(size=(n, 2))
    X[::11, 1] = np.nan
    return from_arrays(
        X,
        np.clip(np.round(X[:, 0] + rng.normal(size=n)), 0, 3),
        group_sizes=sizes,
        feature_names=["price", "age"],
        weights=np.repeat(rng.uniform(0.5, 2, n_queries), sizes),
        document_ids=[f"d{at}" for at in range(n)],
        attributes={"country": np.repeat(rng.choice(["de", "fr"], n_queries), sizes)},
    )


@pytest.mark.usefixtures("without_report")
def test_data_sets_in_memory_are_an_experiments_data(tmp_path: Path) -> None:
    train, valid, test = (made_up(seed) for seed in (1, 2, 3))
    config = {"name": "mine", "data": {"train": train, "valid": valid, "test": test}, **NUMBERS}
    config["stopping"] = {"metric": "ndcg@10"}
    result = run_experiment(config, runs=tmp_path)
    from ltr_harness import evaluate

    expected = evaluate(
        test.labels,
        test.features[:, 0],
        group_sizes=test.groups.sizes,
        metrics=["ndcg@10"],
        query_weights=test.judgments.query_weights,
    )
    (one,) = (run for run in result.runs if run.record.model == "one")
    assert one.record.primary == "ndcg@10"  # metrics may be left out
    mean = one.record.metrics["ndcg@10"].mean
    assert mean == pytest.approx(expected.means["ndcg@10"], abs=1e-12)
    written = sorted((tmp_path / "mine" / "data").iterdir())
    assert len(written) == 3
    again = run_experiment(config, runs=tmp_path)
    assert again.reused == 2
    assert sorted((tmp_path / "mine" / "data").iterdir()) == written
    changed = run_experiment({**config, "data": {**config["data"], "test": made_up(4)}}, runs=tmp_path)  # type: ignore[dict-item]
    assert changed.reused == 0


@pytest.mark.usefixtures("without_report")
def test_one_set_may_be_divided_by_folds_or_a_holdout(tmp_path: Path) -> None:
    config = {"name": "folds", "data": {"files": made_up(1), "folds": 3}, **NUMBERS}
    assert len(run_experiment(config, runs=tmp_path).runs) == 6
    data = {"train": made_up(1), "valid": {"holdout": 0.2, "seed": 1}, "test": made_up(2)}
    assert len(run_experiment({"name": "held", "data": data, **NUMBERS}, runs=tmp_path).runs) == 2


def test_one_set_as_data_is_refused_with_what_to_write(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        run_experiment({"name": "e", "data": made_up(1), **NUMBERS}, runs=tmp_path)
    assert str(caught.value) == (
        'data: is a RankingDataset; expected {"train": dataset, "test": dataset}; `data={"files": dataset, '
        '"folds": 5}` divides one data set by query'
    )


def test_sets_with_other_features_are_refused(tmp_path: Path) -> None:
    other = from_arrays(np.zeros((2, 1)), [0, 1], group_sizes=[2], feature_names=["price"])
    with pytest.raises(DataError, match=r"data\.test: its features are other ones than those of data\.train"):
        run_experiment(
            {"name": "mine", "data": {"train": made_up(1), "test": other}, "models": MODELS}, runs=tmp_path
        )


def test_runs_that_failed_are_an_error_once_the_others_are_reported(
    small_config: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "failing.py").write_text(
        "from ltr_harness.models.lightgbm import LightGBMRanker\n"
        "class Failing(LightGBMRanker):\n"
        "    def fit(self, training):\n"
        "        raise ZeroDivisionError('no tree')\n"
    )
    small_config["models"] = {
        "chance": {"ranker": "random"},
        "bad": {"ranker": f"{tmp_path}/failing.py:Failing"},
    }
    small_config["compare"] = {"baseline": "chance"}
    with pytest.raises(TrainingError, match=r"bad, all, seed 1: ZeroDivisionError: no tree"):
        run_experiment(small_config, runs=tmp_path / "runs")
    assert list((tmp_path / "runs").glob("*/report/report.json"))
    kept = run_experiment(small_config, runs=tmp_path / "runs", on_failure="keep")
    assert {run.record.model for run in kept.failures} == {"bad"}
    assert {run.record.model for run in kept.runs} == {"chance"}
    with pytest.raises(UsageError, match="on_failure='ignore'; expected 'raise' or 'keep'"):
        run_experiment(small_config, runs=tmp_path, on_failure="ignore")  # type: ignore[arg-type]


class Terminal(TerminalProgress):
    """One that somebody looks at."""

    @property
    def is_watched(self) -> bool:
        return True


def test_progress_is_shown_where_somebody_looks(
    small_config: dict[str, Any], tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    small_config |= {"seeds": [1], "models": {"random": small_config["models"]["random"]}}
    run_experiment(small_config, runs=tmp_path)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr("ltr_harness.workflow.TerminalProgress", Terminal)
    run_experiment(small_config, runs=tmp_path, force=True)
    shown = capsys.readouterr()
    assert shown.out == ""  # the result shows its table itself
    assert "to train" in shown.err
    assert "comparing and writing the report" in shown.err
    run_experiment(small_config, runs=tmp_path, force=True, progress=Progress())
    assert capsys.readouterr() == ("", "")


def test_stopping_on_another_depth_than_the_deciding_one_is_said_once(
    small_config: dict[str, Any], tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    """As `ltr-harness run` does: test_said_once."""
    monkeypatch.setattr("ltr_harness.workflow.TerminalProgress", Terminal)
    small_config |= {"seeds": [1], "models": {"xgb": small_config["models"]["xgb"]}}
    small_config["stopping"]["metric"] = "ndcg"
    run_experiment(small_config, runs=tmp_path)
    assert capsys.readouterr().err.count("caution: stopping.metric: ndcg looks at whole lists") == 1
    small_config["stopping"]["metric"] = small_config["metrics"]["primary"]
    run_experiment(small_config, runs=tmp_path)
    assert "caution" not in capsys.readouterr().err


def test_as_many_workers_as_the_command_would_take_and_none_that_spins(
    small_config: dict[str, Any], tmp_path: Path, monkeypatch: Any
) -> None:
    """A booster that is loaded reads no settings of threads any more, so one worker is a process too."""
    asked: list[Any] = []

    class StopError(Exception):
        pass

    def read(*_: Any, workers: Any, **__: Any) -> Any:
        asked.append(workers)
        return "job"

    def run_prepared(*_: Any, in_processes: bool, **__: Any) -> Any:
        asked.append(in_processes)
        raise StopError

    monkeypatch.setattr(module, "read", read)
    monkeypatch.setattr(module, "prepare", lambda *_: "prepared")
    monkeypatch.setattr(module, "run_prepared", run_prepared)
    import lightgbm  # noqa: F401

    for workers, expected in ((None, [None, True]), (1, [1, False])):
        asked.clear()
        with pytest.raises(StopError):
            run_experiment(small_config, runs=tmp_path, workers=workers)
        assert asked == expected


def test_idle_threads_are_told_to_sleep_unless_the_user_has_told_them_something(monkeypatch: Any) -> None:
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    let_idle_threads_sleep()
    assert "GOMP_SPINCOUNT" not in os.environ
    monkeypatch.delenv("OMP_WAIT_POLICY")
    for booster in ("lightgbm", "xgboost"):
        monkeypatch.delitem(sys.modules, booster, raising=False)
    assert let_idle_threads_sleep()
    assert os.environ["GOMP_SPINCOUNT"] == "10000"
    monkeypatch.setitem(sys.modules, "xgboost", sys)
    assert not let_idle_threads_sleep()


@pytest.mark.long
@pytest.mark.usefixtures("without_report")
def test_a_process_of_its_own_gives_the_same_runs(
    small_config: dict[str, Any], trained_experiment: ExperimentResult, tmp_path: Path
) -> None:
    apart = run_experiment(small_config, runs=tmp_path, workers=None)
    values = [
        {run.record.model: run.record.metrics["ndcg@10"].mean for run in result.runs}
        for result in (trained_experiment, apart)
    ]
    assert values[0] == values[1]


def test_tables_and_unknown_names_of_datasets_have_a_cure() -> None:
    table = pd.DataFrame({"q": ["a"], "y": [1]})
    with pytest.raises(
        ConfigError, match=r"data\.train is a DataFrame; expected a dataset; wrap it: from_frame"
    ):
        run_experiment({"name": "x", "data": {"train": table}})
    dataset = from_frame(table.assign(f=0.5), query="q", label="y")
    with pytest.raises(
        UsageError, match=r'data\.all: is not a split; .*`data={"files": dataset, "folds": 5}`'
    ):
        run_experiment({"name": "x", "data": {"all": dataset, "folds": 3}})
