"""Blends of an experiment's models: trained after their parts, which are trained once. `test_cluster.py` has one."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from ltr_harness import load_run, run_experiment
from ltr_harness.errors import ConfigError, DataError, UsageError
from ltr_harness.experiments.config import load_experiment
from ltr_harness.experiments.runs import Run
from ltr_harness.experiments.training.progress import Progress
from ltr_harness.experiments.training.reproduce import reproduce
from ltr_harness.workflow import ExperimentResult, final_experiment, prepare, read
from tests.experiments.training.conftest import SMALL, TUNED

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("module_without_report")]

OWN = """
import numpy as np
from ltr_harness.models.random import RandomModel, RandomRanker

class Model(RandomModel):
    def score(self, features): return np.asarray(features, np.float64)[:, 1]

class Mine(RandomRanker):
    packages = ("pytest",)
    seed_matters = False
    def fit(self, training): return Model(seed=1)
    @classmethod
    def load(cls, folder, threads=None): return Model.load(folder, threads)
"""

BLENDS: dict[str, Any] = {
    "blend": {"ranker": "blend", "of": ["lgbm", "xgb"], "how": "z-scores"},
    "even": {
        "ranker": "blend",
        "of": ["bm25", "mine"],
        "how": "ranks",
        "weights": {"bm25": 1, "mine": 1},
    },
}


def config_of(folder: Path) -> dict[str, Any]:
    """Blends before their parts in the file; one of parts that no seed moves, and one of them from a file."""
    (folder / "mine.py").write_text(OWN)
    models = {key: SMALL["models"][key] for key in ("lgbm", "xgb")}
    others = {
        "bm25": {"ranker": "feature", "feature": "match_1"},
        "mine": {"ranker": f"{folder}/mine.py:Mine"},
    }
    return copy.deepcopy({**SMALL, "name": "blends", "models": {**BLENDS, **models, **others}})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("blends")


@pytest.fixture(scope="module")
def result(folder: Path, module_without_report: None) -> ExperimentResult:
    return run_experiment(config_of(folder), runs=folder / "runs", workers=1)


def runs_of_model(result: ExperimentResult, model: str) -> list[Run]:
    return [run for run in result.runs if run.record.model == model]


def all_but_times(runs: list[Run]) -> dict[str, Any]:
    kept = {}
    for run in sorted(runs, key=lambda run: run.path.name):
        files = {name: digest for name, digest in run.record.files.items() if name != "log.txt"}
        kept[run.path.name] = (files, run.record.metrics, run.record.cautions, run.record.learned)
    return kept


def test_parts_are_trained_once_and_a_blend_has_the_seeds_of_its_parts(result: ExperimentResult) -> None:
    names = [(run.record.model, run.record.seed) for run in result.runs]
    assert names == [
        ("lgbm", 1), ("lgbm", 2), ("xgb", 1), ("xgb", 2), ("bm25", 1), ("mine", 1),
        ("blend", 1), ("blend", 2), ("even", 1),
    ]  # fmt: skip
    assert runs_of_model(result, "even")[0].record.deterministic
    assert not runs_of_model(result, "blend")[0].record.deterministic
    one, two = (run.model.score_split(split_of(run)) for run in runs_of_model(result, "blend"))
    assert not np.array_equal(one, two)


def split_of(run: Run) -> Any:
    from ltr_harness.experiments.training.reproduce import fold_of

    return fold_of(run).test


def test_the_scores_are_those_of_the_stored_parts(result: ExperimentResult) -> None:
    """Weighted and standardised again by SciPy, from the scores that the parts' own runs keep."""
    from scipy import stats

    for blend, lgbm, xgb in zip(
        *(runs_of_model(result, name) for name in ("blend", "lgbm", "xgb")), strict=True
    ):
        weights = blend.record.learned["weights"]
        assert (
            f"lgbm {weights['lgbm']:.2f}, xgb {weights['xgb']:.2f}" in blend.record.training_cautions[0].text
        )
        frame = blend.test_scores
        frame["expected"] = sum(
            weights[run.record.model]
            * run.test_scores.groupby(frame["query_id"])["score"].transform(
                lambda own: stats.zscore(own) if own.nunique() > 1 else 0.0 * own
            )
            for run in (lgbm, xgb)
        )
        np.testing.assert_allclose(frame["score"], frame["expected"], atol=1e-9)
    assert runs_of_model(result, "even")[0].record.learned == {"weights": {"bm25": 0.5, "mine": 0.5}}


def test_the_second_command_does_nothing_and_a_new_metric_trains_nothing(
    result: ExperimentResult, folder: Path
) -> None:
    runs = shutil.copytree(folder / "runs", folder / "again")
    job = prepare(read(config_of(folder), runs=runs))
    assert {task.state for task in job.tasks} == {"done"}
    other = config_of(folder)
    other["metrics"]["report"] = ["ndcg", "mrr"]
    job = prepare(read(other, runs=runs))
    assert {task.state for task in job.tasks} == {"score again"}
    again = run_experiment(other, runs=runs, workers=1)
    for run in runs_of_model(again, "even"):
        before = [one for one in result.runs if one.path.name == run.path.name]
        assert run.record.metrics["ndcg@10"] == before[0].record.metrics["ndcg@10"]
        assert "mrr@10" in run.record.metrics


def test_a_parts_parameter_and_the_deciding_metric_make_another_blend(folder: Path) -> None:
    def identities(**change: Any) -> dict[str, str]:
        config = config_of(folder)
        for path, value in change.items():
            place = config
            *steps, last = path.split("__")
            for step in steps:
                place = place[step]
            place[last] = value
        job = prepare(read(config, runs=folder / "nowhere"))
        return {str(task): task.identity for task in job.tasks}

    before = identities()
    leaves = identities(models__lgbm__params__num_leaves=5)
    assert {name for name in before if leaves[name] != before[name]} == {
        f"{model}, seed {seed}" for model in ("lgbm", "blend") for seed in (1, 2)
    }
    how = identities(models__even__how="scores")
    assert {name for name in before if how[name] != before[name]} == {"even"}
    stopping = identities(stopping__metric="err@10")
    assert stopping["blend, seed 1"] != before["blend, seed 1"]
    unstopped = {"stopping": None, "models__lgbm__rounds": 3, "models__xgb__rounds": 3}
    one = identities(**unstopped)
    other = identities(**unstopped, metrics__primary="err@10")
    assert {name for name in one if one[name] != other[name]} == {"blend, seed 1", "blend, seed 2"}


def test_workers_start_a_blend_when_its_parts_are_there(result: ExperimentResult, folder: Path) -> None:
    class Log(Progress):
        def __init__(self) -> None:
            self.said: list[tuple[str, str]] = []

        def started(self, task: Any) -> None:
            self.said.append(("started", str(task)))

        def finished(self, task: Any, run: Any) -> None:
            self.said.append(("finished", str(task)))

    log = Log()
    other = run_experiment(config_of(folder), runs=folder / "workers", workers=2, progress=log)
    assert all_but_times(list(other.runs)) == all_but_times(list(result.runs))
    for part in ("lgbm, seed 2", "xgb, seed 2"):
        assert log.said.index(("finished", part)) < log.said.index(("started", "blend, seed 2"))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_part_that_fails_fails_its_blends_and_nothing_else(tmp_path: Path, workers: int) -> None:
    config = config_of(tmp_path) | {"seeds": [1]}
    del config["models"]["lgbm"], config["models"]["xgb"]
    config["models"]["match"] = {"ranker": "feature", "feature": "match_2"}
    config["models"]["blend"] = {**BLENDS["blend"], "of": ["bm25", "match"]}
    (tmp_path / "mine.py").write_text(OWN.replace("return Model(seed=1)", "raise ValueError('no luck')"))
    result = run_experiment(config, runs=tmp_path / "runs", workers=workers, on_failure="keep")
    failed = {run.record.model: run.record.error for run in result.failures}
    assert failed == {
        "mine": "ValueError: no luck",
        "even": "part 'mine' failed: ValueError: no luck",
    }
    assert len(runs_of_model(result, "blend")) == 1
    assert "Traceback" not in (result.failures[-1].path / "log.txt").read_text()
    (tmp_path / "mine.py").write_text(OWN)
    assert not run_experiment(config, runs=tmp_path / "runs", workers=1).failures


def test_a_run_is_whole_by_itself(result: ExperimentResult, folder: Path, tmp_path: Path, ltr: Any) -> None:
    """Moved, without the runs of its parts."""
    run = runs_of_model(result, "blend")[0]
    moved = shutil.copytree(run.path, tmp_path / "moved")
    test = split_of(run)
    expected = run.score_columns("score")["score"]
    np.testing.assert_array_equal(load_run(moved).score_split(test), expected)
    from ltr_harness.data.writers import write_dataset

    write_dataset(test, tmp_path / "new.parquet")
    np.testing.assert_array_equal(predict_scores(ltr, moved, tmp_path, "new.parquet"), expected)
    with pytest.raises(DataError, match="a blend of z-scores compares the rows of a query"):
        load_run(moved).score(test.features)
    assert "lightgbm==" in ltr("export", "requirements", moved)[1]
    assert "pytest==" in ltr("export", "requirements", runs_of_model(result, "even")[0].path)[1]
    code, _, err = ltr("export", "model", moved, "--to", "json", "-o", tmp_path / "model.json")
    assert code == 2
    assert "a BlendModel has no trees; expected a model of LightGBM, XGBoost or CatBoost" in err
    (tmp_path / "flat.csv").write_text("match_1,match_2\n1,2\n")
    code, _, err = ltr("predict", moved, tmp_path / "flat.csv", "-o", tmp_path / "flat.npy")
    assert code == 2
    assert "query" in err


def predict_scores(ltr: Any, run: Path, folder: Path, data: str) -> Any:
    code, _, err = ltr("predict", run, folder / data, "-o", folder / "scores.npy")
    assert code == 0, err
    return np.load(folder / "scores.npy")


@pytest.mark.parametrize("model", ["blend", "even"])
def test_a_run_is_reproduced_with_its_parts(result: ExperimentResult, model: str) -> None:
    again = reproduce(runs_of_model(result, model)[-1].path)
    assert again.identical, again
    assert again.reasons == ()


def test_a_part_that_changed_is_named(result: ExperimentResult, tmp_path: Path) -> None:
    run = runs_of_model(result, "blend")[0]
    shutil.copy(run.path.parent / "experiment.yaml", tmp_path)
    copied = shutil.copytree(run.path, tmp_path / "copied")
    record = json.loads((copied / "record.json").read_text())
    record["parts"]["lgbm"]["config"]["params"]["num_leaves"] = 3
    (copied / "record.json").write_text(json.dumps(record))
    again = reproduce(copied)
    assert not again.identical
    record["parts"]["lgbm"]["config"]["nothing"] = 3
    (copied / "record.json").write_text(json.dumps(record))
    with pytest.raises(UsageError, match=r"lgbm.nothing: this version does not take what the record says"):
        reproduce(copied)


def test_code_of_a_part_is_executed_only_if_it_is_trusted(
    result: ExperimentResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for known in ("_named", "_loaded"):  # as in another process
        monkeypatch.setattr(f"ltr_harness._util.user_code.{known}", {})
    path = runs_of_model(result, "even")[0].path
    with pytest.raises(
        UsageError, match=r"needs code from .*mine.py, which is executed only if you trust it"
    ):
        _ = load_run(path).model
    assert load_run(path, trust=True).model.parts["mine"].model is not None  # type: ignore[attr-defined]


def test_a_killed_experiment_goes_on(result: ExperimentResult, folder: Path, tmp_path: Path) -> None:
    """Without the blends, one part and another's model file, as a kill or an accident may leave it."""
    runs = shutil.copytree(folder / "runs", tmp_path / "runs")
    for pattern in ("blend--*", "even--*", "lgbm--all--s2*"):
        for path in (runs / "blends").glob(pattern):
            shutil.rmtree(path)
    next((runs / "blends").glob("bm25--*/model.json")).unlink()
    job = prepare(read(config_of(folder), runs=runs))
    todo = sorted(str(task) for task in job.tasks if task.state == "train")
    assert todo == ["blend, seed 1", "blend, seed 2", "bm25", "even", "lgbm, seed 2"]
    again = run_experiment(config_of(folder), runs=runs, workers=1)
    assert all_but_times(list(again.runs)) == all_but_times(list(result.runs))


def test_a_blend_waits_for_the_search_of_its_part_on_every_fold(tmp_path: Path) -> None:
    config = copy.deepcopy(TUNED)
    config["data"] = {**config["data"], "splits": None}
    del config["data"]["splits"]
    config["tune"]["trials"] = 2
    config["models"]["both"] = {"ranker": "blend", "of": ["lgb", "xgb"], "how": "ranks"}
    assert [task.model for task in prepare(read(config, runs=tmp_path)).tasks] == ["xgb"]
    result = run_experiment(config, runs=tmp_path, workers=1)
    both = runs_of_model(result, "both")[0].record
    tuned = runs_of_model(result, "lgb")[0].record
    assert both.parts["lgb"].config == tuned.config
    assert reproduce(runs_of_model(result, "both")[0].path).identical
    assert prepare(read(config, runs=tmp_path)).count("done") == 3


def test_folds_and_a_final_blend(tmp_path: Path, ltr: Any) -> None:
    from ltr_harness.data.writers import write_dataset
    from tests.experiments.training.test_final import rows

    write_dataset(rows(1, 90), tmp_path / "all.parquet")
    models: dict[str, Any] = {
        "lgbm": {"ranker": "lightgbm", "preset": "small"},
        "a": {"ranker": "feature", "feature": "a"},
        "blend": {"ranker": "blend", "of": ["lgbm", "a"], "how": "ranks"},
    }
    config = {
        "name": "shop",
        "data": {"reader": "parquet", "files": ["all.parquet"], "folds": 3},
        "stopping": {"metric": "ndcg@10", "patience": 3, "max_rounds": 6},
        "models": models,
        "report": {"formats": ["json"]},
    }
    (tmp_path / "shop.yaml").write_text(yaml.safe_dump(config))
    runs = tmp_path / "runs"
    code, out, err = ltr("run", tmp_path / "shop.yaml", "--runs", runs, "--workers", 1, "--final", "blend")
    assert code == 0, err
    folds = [load_run(path) for path in sorted((runs / "shop").glob("blend--*"))]
    assert len(folds) == 3
    (final,) = (load_run(path) for path in (runs / "shop-final").glob("blend--*"))
    means = {
        name: float(np.mean([run.record.learned["weights"][name] for run in folds])) for name in ("lgbm", "a")
    }
    assert final.record.learned["weights"] == pytest.approx(means)
    assert final.record.data["train"].n_queries == 90
    assert f"final: blend, all 90 queries: {final.path}" in out
    rounds = [load_run(path).record.best_round for path in (runs / "shop").glob("lgbm--*")]
    assert final.record.parts["lgbm"].rounds == sorted(map(int, filter(None, rounds)))[1]
    experiment = load_experiment(tmp_path / "shop.yaml")
    with pytest.raises(UsageError, match="--final: no run of lgbm has finished"):
        final_experiment(experiment, folds, "blend")


def test_points_of_a_sweep_are_parts_and_blends(tmp_path: Path) -> None:
    config = copy.deepcopy({**SMALL, "seeds": [1]})
    config["models"] = {
        "xgb": config["models"]["xgb"],
        "bm25": {"ranker": "feature", "feature": "match_1"},
        "mix": {"ranker": "blend", "of": ["xgb max_depth=2", "bm25"], "how": "ranks"},
    }
    config["sweep"] = {
        "grid": {"models.xgb.params.max_depth": [2, 3], "models.mix.how": ["ranks", "z-scores"]}
    }
    result = run_experiment(config, runs=tmp_path, workers=1)
    names = [run.record.model for run in result.runs]
    assert names == ["xgb max_depth=2", "xgb max_depth=3", "bm25", "mix how=ranks", "mix how=z-scores"]
    config["models"]["mix"]["of"] = ["xgb", "bm25"]
    with pytest.raises(ConfigError) as caught:
        load_experiment(config)
    assert (
        "models.mix.of: 'xgb' is swept: it became 2 models; expected one of them, such as 'xgb max_depth=2'"
        in str(caught.value)
    )


def refusal(config: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        load_experiment(config)
    return str(caught.value)


@pytest.mark.parametrize(
    ("blend", "problem"),
    [
        ({"of": ["lgbm", "xbg"]}, "models.blend.of: there is no model 'xbg'; did you mean 'xgb'?"),
        ({"of": ["lgbm", "blend"]}, "models.blend.of: names itself; expected models that are trained"),
        (
            {"of": ["lgbm", "even"]},
            "models.blend.of: names 'even', which is made of others; expected models that are trained",
        ),
        ({"of": ["lgbm"]}, "models.blend.of: names lgbm; expected at least two models, each once"),
        ({"weights": {"lgbm": 1, "xgb": -1}}, "models.blend.weights.xgb: is -1; expected 0, or 0.000001 to"),
        ({"how": "sum"}, "models.blend.how is 'sum'; known: ranks, scores, z-scores"),
        ({"rounds": 5}, "models.blend.rounds: ranker 'blend' is not trained in rounds"),
    ],
)
def test_what_is_no_blend_is_said_at_its_place(folder: Path, blend: dict[str, Any], problem: str) -> None:
    config = config_of(folder)
    config["models"]["blend"] |= blend
    assert problem in refusal(config)


def test_weights_need_validation_data_and_are_not_searched(folder: Path, tmp_path: Path) -> None:
    config = config_of(folder)
    config["tune"] = {"trials": 3, "models": {"blend": "built-in"}}
    assert (
        "tune.models.blend: a model that is made of others is not searched; "
        "tune its parts; `sweep:` compares several settings"
    ) in refusal(config)
    del config["tune"]
    config |= {"stopping": None, "data": {"reader": "letor", "splits": {"train": "a", "test": "b"}}}
    for name in ("lgbm", "xgb"):
        config["models"][name]["rounds"] = 3
    message = (
        "models.blend chooses its weights on validation data, and there is none; add validation data, such as "
        "valid: {holdout: 0.2, seed: 1}, or weights: {lgbm: 1, xgb: 1}"
    )
    assert message in refusal(config)
    config["data"] = {"reader": "letor", "files": "a", "folds": {"by_time": "day", "test": "1 month"}}
    assert message in refusal(config)
    config["models"]["blend"]["weights"] = {"lgbm": 1, "xgb": 1}
    load_experiment(config)


def test_a_part_without_scores_of_validation_rows_is_found_before_training(tmp_path: Path) -> None:
    config = copy.deepcopy({**SMALL, "seeds": [1], "models": {"lgbm": SMALL["models"]["lgbm"]}})
    np.save(tmp_path / "live.npy", np.zeros(5))
    config["models"] |= {
        "live": {"ranker": "scores", "file": str(tmp_path / "live.npy")},
        "blend": {"ranker": "blend", "of": ["lgbm", "live"], "how": "ranks"},
    }
    with pytest.raises(UsageError) as caught:
        prepare(read(config, runs=tmp_path))
    assert "models.blend.of: 'live' on validation data: " in str(caught.value)
    test = read(config, runs=tmp_path).folds[0].test
    np.save(tmp_path / "live.npy", np.arange(test.n_rows, dtype=float))
    config["models"]["blend"]["weights"] = {"lgbm": 1, "live": 3}
    result = run_experiment(config, runs=tmp_path, workers=1)
    blend = runs_of_model(result, "blend")[0]
    (tmp_path / "live.npy").unlink()  # the blend has a copy
    np.testing.assert_array_equal(blend.model.score_split(test), blend.score_columns("score")["score"])


def test_a_rule_that_stops_no_part_chooses_the_weights_and_is_kept(tmp_path: Path) -> None:
    config = copy.deepcopy({**SMALL, "stopping": {"metric": "mrr@3"}})
    config["models"] = {
        "one": {"ranker": "feature", "feature": "match_1"},
        "two": {"ranker": "feature", "feature": "match_2"},
        "both": {"ranker": "blend", "of": ["one", "two"], "how": "z-scores"},
    }
    result = run_experiment(config, runs=tmp_path, workers=1)
    (both,) = runs_of_model(result, "both")
    assert both.record.training_cautions[0].text.startswith("weights chosen by mrr@3 on validation data")
    assert both.record.stopping is not None
    assert both.record.stopping.metric == "mrr@3"
    assert reproduce(both.path).identical
    config["stopping"] = None
    (both,) = runs_of_model(run_experiment(config, runs=tmp_path, workers=1), "both")
    assert both.record.training_cautions[0].text.startswith("weights chosen by ndcg@10 on validation data")
    assert reproduce(both.path).identical


def test_a_ranker_of_ones_own_is_given_other_models(tmp_path: Path) -> None:
    stacked = """
class Stacked(Mine):
    of: tuple[str, ...]
    def parts(self): return self.of
    def fit(self, training):
        scores = [part.model.score_split(training.valid) for part in training.parts.values()]
        assert all(one.shape == (training.valid.n_rows,) for one in scores)
        return Model(seed=len(scores), params={"of": list(training.parts)})
"""
    (tmp_path / "mine.py").write_text(OWN + stacked)
    config = copy.deepcopy(SMALL)
    del config["models"]["lgbm"]
    config["models"]["stacked"] = {"ranker": f"{tmp_path}/mine.py:Stacked", "of": ["random", "xgb"]}
    result = run_experiment(config, runs=tmp_path / "runs", workers=1)
    assert [run.record.params for run in runs_of_model(result, "stacked")] == 2 * [{"of": ["random", "xgb"]}]
    assert [run.record.seed for run in runs_of_model(result, "stacked")] == [1, 2]


def test_a_pickle_among_the_parts_is_read_only_if_it_is_trusted(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="needs scikit-learn")
    config = copy.deepcopy({**SMALL, "seeds": [1]})
    config["models"] = {
        "xgb": config["models"]["xgb"],
        "ridge": {"ranker": "sklearn", "estimator": "sklearn.linear_model.Ridge"},
        "blend": {"ranker": "blend", "of": ["xgb", "ridge"], "how": "z-scores"},
    }
    (run,) = runs_of_model(run_experiment(config, runs=tmp_path, workers=1), "blend")
    with pytest.raises(
        UsageError, match="its model is a pickle, and reading one executes code that it holds"
    ):
        _ = run.model
    with pytest.raises(UsageError, match="training an estimator executes code that the record names"):
        reproduce(run.path)
    trusted = load_run(run.path, trust=True)
    np.testing.assert_array_equal(trusted.score_split(split_of(run)), run.score_columns("score")["score"])
    assert reproduce(run.path, trust=True).identical
    assert any(name.startswith("scikit-learn") for name in run.record.packages)
