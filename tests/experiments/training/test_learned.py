"""Values that a model learned beside its trees go wherever it goes: temperatures, and values a library derived."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median_low
from typing import Any

import numpy as np
import pytest

from ltr_harness import evaluate, run_experiment
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.readers.memory import from_arrays
from ltr_harness.data.writers import write_dataset
from ltr_harness.errors import ConfigError
from ltr_harness.experiments.config import load_experiment
from ltr_harness.experiments.runs import Run, find_runs
from ltr_harness.experiments.runs.folder import RECORD
from ltr_harness.experiments.runs.record import Record
from ltr_harness.experiments.training.reproduce import reproduce
from ltr_harness.models.ranker import Training
from ltr_harness.workflow import final_experiment, train_on_all
from tests.experiments.training.test_real_labels import MODELS, make_dataset

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("few_timed_calls")]
Ltr = Callable[..., tuple[int, str, str]]
RACES = {"train": 150, "valid": 90, "test": 120}
METRICS: dict[str, Any] = {"report": ["log_loss", "brier", "mrr"], "cutoffs": [3], "primary": "log_loss"}


def races(part: str) -> RankingDataset:
    return make_dataset(list(RACES).index(part), RACES[part], True)


def config(folder: Path, **more: Any) -> dict[str, Any]:
    """Races in files, so that `--final` may put training and validation files together."""
    for number, part in enumerate(RACES):
        rows = races(part)
        ids = np.repeat(1_000 * number + np.arange(rows.n_queries), rows.groups.sizes)
        write_dataset(from_arrays(rows.features, rows.labels, query_ids=ids), folder / f"{part}.parquet")
    files = {part: f"{part}.parquet" for part in RACES}
    return {
        "name": "races",
        "data": {"reader": "parquet", "root": str(folder), "splits": files},
        "stopping": {"metric": "mrr@3", "max_rounds": 15},
        "metrics": METRICS,
        "models": MODELS,
        "report": {"formats": ["json"]},
        **more,
    }


def mean_at(t: float, scores: Any, part: str = "test", metric: str = "log_loss") -> float:
    """The metric's mean at a temperature, by its own name for one."""
    rows = races(part)
    name = f"{metric}(temperature={t!r})"
    return evaluate(rows.labels, scores, [name], group_sizes=rows.groups.sizes).means[name]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of races, whose T is far from 1; nothing changes them."""
    folder = tmp_path_factory.mktemp("races")
    run_experiment(config(folder), runs=folder / "runs")
    return folder


def run_of(folder: Path, model: str, experiment: str = "races") -> Run:
    (run,) = (run for run in find_runs(folder / "runs" / experiment) if run.record.model == model)
    return run


@pytest.fixture(scope="module")
def trees(folder: Path) -> Run:
    run = run_of(folder, "trees")
    t = run.record.learned["temperature"]["log_loss"]
    assert (
        abs(
            mean_at(1.0, run.model.score_split(races("test")))
            - mean_at(t, run.model.score_split(races("test")))
        )
        > 0.05
    )
    return run


# --- temperatures ---


def test_explain_measures_a_run_as_it_was_measured(trees: Run, ltr: Ltr) -> None:
    code, out, err = ltr("explain", "log_loss", trees.path, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["mean"] == pytest.approx(trees.record.metrics["log_loss"].mean, abs=1e-12)
    t = trees.record.learned["temperature"]["log_loss"]
    assert [one["text"] for one in found["cautions"]] == [f"T = {t:.6g}, from validation data"]
    query = str(trees.per_query["query_id"][3])
    code, out, _ = ltr("explain", "brier", trees.path, "--query", query, "--json")
    assert json.loads(out)["value"] == pytest.approx(trees.per_query["brier"][3], abs=1e-12)
    fixed = json.loads(ltr("explain", "log_loss(temperature=1)", trees.path, "--json")[1])
    assert fixed["mean"] == pytest.approx(mean_at(1.0, trees.model.score_split(races("test"))), abs=1e-12)
    assert fixed["cautions"] == []


def test_first_rounds_are_worth_the_same_in_report_and_command(trees: Run, ltr: Ltr) -> None:
    t = trees.record.learned["temperature"]["log_loss"]
    code, out, _ = ltr(
        "show", "trees", trees.path, "-m", "log_loss", "-m", "brier", "--json", "--documents", 5
    )
    assert code == 0
    cuts = {one["rounds"]: one for one in json.loads(out)["cuts"]}
    last = trees.record.best_round
    assert cuts[last]["log_loss"] == pytest.approx(trees.record.metrics["log_loss"].mean, abs=1e-12)
    assert cuts[last]["brier"] == pytest.approx(trees.record.metrics["brier"].mean, abs=1e-12)
    recorded = {one.rounds: one.mean for one in trees.record.latency}
    assert set(recorded) > {last}
    for rounds, mean in recorded.items():
        assert mean == pytest.approx(
            mean_at(t, trees.model.score_after(races("test").features, rounds)), abs=1e-12
        )
        assert mean == pytest.approx(cuts[rounds]["log_loss"], abs=1e-12)


def test_a_budget_decides_at_each_runs_own_temperature(folder: Path, trees: Run, ltr: Ltr) -> None:
    """The trees' scores are small: at T = 1 the other model is the better one, at their own it need not be."""
    code, out, _ = ltr(
        "show", "trees", folder / "runs" / "races", "--budget", "60s", "--documents", 5, "--json"
    )
    assert code == 0
    best = min(run_of(folder, name).record.metrics["log_loss"].mean for name in MODELS)
    found = json.loads(out)["best"]
    assert found["mean"] <= best + 1e-12
    run = next(run for run in find_runs(folder / "runs" / "races") if str(run.path) == found["run"])
    if found["rounds"] is None:
        assert found["mean"] == pytest.approx(run.record.metrics["log_loss"].mean, abs=1e-12)


def test_an_export_and_shuffled_features_are_measured_at_it(trees: Run, tmp_path: Path, ltr: Ltr) -> None:
    to = ["--to", "json", "-o", tmp_path / "model.json"]
    code, out, _ = ltr("export", "model", trees.path, *to, "-m", "log_loss", "--json")
    assert code == 0
    assert json.loads(out)["agreement"]["here"] == pytest.approx(
        trees.record.metrics["log_loss"].mean, abs=1e-12
    )
    code, out, _ = ltr("show", "importance", trees.path, "-m", "log_loss", "--json", "--repeats", 1)
    loss = {one["feature"]: one["loss"] for one in json.loads(out)["features"]}
    test, t = races("test"), trees.record.learned["temperature"]["log_loss"]
    columns = np.array(test.features)
    draw = np.random.Generator(np.random.Philox(key=[0, 0]))
    columns[:, 0] = columns[draw.permutation(test.n_rows), 0]
    without = mean_at(t, trees.model.score(columns))
    assert loss["0"] == pytest.approx(without - trees.record.metrics["log_loss"].mean, abs=1e-12)


def test_show_run_has_what_the_model_learned(trees: Run, ltr: Ltr) -> None:
    assert (
        f"T of log_loss = {trees.record.learned['temperature']['log_loss']:.6g}"
        in ltr("show", "run", trees.path)[1]
    )


def test_mlflow_gets_what_the_model_learned(trees: Run) -> None:
    from ltr_harness.integrations.mlflow_export import parameters

    t = trees.record.learned["temperature"]["log_loss"]
    learned = {**trees.record.learned, "derived_params": {"learning_rate": 0.112}}
    found = parameters(trees.record.model_copy(update={"learned": learned}))
    assert (found["temperature.log_loss"], found["derived.learning_rate"]) == (json.dumps(t), "0.112")


@pytest.mark.usefixtures("without_report")
def test_a_budget_measures_all_runs_at_1_where_one_has_no_temperature(
    folder: Path, trees: Run, tmp_path: Path, ltr: Ltr
) -> None:
    metrics = {"report": ["mrr"], "cutoffs": [3], "primary": "mrr@3"}
    run_experiment(config(tmp_path, metrics=metrics), runs=tmp_path / "runs")
    runs = run_of(tmp_path, "trees").path, trees.path
    how = ["-m", "log_loss", "--budget", "60s", "--documents", 5, "--json"]
    code, out, err = ltr("show", "trees", *runs, *how)
    assert code == 0
    assert "log_loss: temperature 1 for all runs" in err
    scores = trees.model.score_after(races("test").features, json.loads(out)["best"]["rounds"])
    assert json.loads(out)["best"]["mean"] == pytest.approx(mean_at(1.0, scores), abs=1e-12)


@pytest.mark.usefixtures("without_report")
def test_a_metric_that_was_not_reported_has_the_temperature_of_one_that_was(tmp_path: Path, ltr: Ltr) -> None:
    """All are fitted by log loss, so metrics of the same winners share one T."""
    metrics = {"report": ["brier", "mrr"], "cutoffs": [3], "primary": "mrr@3"}
    run_experiment(config(tmp_path, metrics=metrics), runs=tmp_path / "runs")
    run = run_of(tmp_path, "trees")
    t = run.record.learned["temperature"]["brier"]
    assert set(run.record.learned["temperature"]) == {"brier"}
    expected = {
        name: mean_at(
            run_of(tmp_path, name).record.learned["temperature"]["brier"],
            run_of(tmp_path, name).model.score_split(races("test")),
        )
        for name in MODELS
    }
    code, out, _ = ltr("explain", "log_loss", run.path, "--json")
    assert json.loads(out)["mean"] == pytest.approx(
        mean_at(t, run.model.score_split(races("test"))), abs=1e-12
    )
    code, out, err = ltr("compare", tmp_path / "runs" / "races", "-m", "log_loss", "--json")
    assert code == 0
    means = {one["model"]: one["mean"] for one in json.loads(out)["summaries"]}
    assert means == pytest.approx(expected, abs=1e-12)
    assert "temperature 1" not in out + err
    # of other winners nothing is known
    code, out, _ = ltr("explain", "log_loss(relevant=2)", run.path, "--json")
    assert json.loads(out)["cautions"] == []


@pytest.mark.usefixtures("without_report")
def test_a_final_model_keeps_the_temperature_of_the_compared_one(folder: Path) -> None:
    loaded = load_experiment(config(folder))
    runs = find_runs(folder / "runs" / "races")
    final = final_experiment(loaded, runs, "trees")
    t = run_of(folder, "trees").record.learned["temperature"]["log_loss"]
    assert final["models"]["trees"]["carried"] == {"temperature": {"log_loss": t, "brier": t}}
    (run,) = run_experiment(final, runs=folder / "runs").runs
    assert run.record.learned["temperature"] == {"log_loss": t, "brier": t}
    scores = run.model.score_split(races("test"))
    for metric in ("log_loss", "brier"):
        assert run.record.metrics[metric].mean == pytest.approx(mean_at(t, scores, metric=metric), abs=1e-12)
    assert reproduce(run.path).identical
    # one that was stored at T = 1 is measured again, and not trained
    lost = run.record.model_copy(update={"learned": {}, "evaluation_identity": "0" * 64})
    (run.path / RECORD).write_text(lost.model_dump_json())
    (again,) = run_experiment(final, runs=folder / "runs").runs
    assert again.record.seconds["fit"] == run.record.seconds["fit"]
    assert again.record.metrics == run.record.metrics
    assert again.record.learned["temperature"] == run.record.learned["temperature"]


@pytest.mark.usefixtures("without_report")
def test_a_final_model_of_all_rows_keeps_the_median(tmp_path: Path) -> None:
    options = config(tmp_path)
    files = ["train.parquet", "valid.parquet", "test.parquet"]
    options["data"] = {"reader": "parquet", "root": str(tmp_path), "files": files, "folds": 3}
    result = run_experiment(options, runs=tmp_path / "runs")
    fitted = [
        run.record.learned["temperature"]["log_loss"] for run in result.runs if run.record.model == "trees"
    ]
    final = final_experiment(load_experiment(options), result.runs, "trees")
    (run,) = train_on_all(final, tmp_path / "runs").runs
    assert run.record.metrics == {}
    assert run.record.learned["temperature"] == {"log_loss": median_low(fitted), "brier": median_low(fitted)}
    lost = run.record.model_copy(update={"learned": {}, "evaluation_identity": run.record.identity})
    (run.path / RECORD).write_text(lost.model_dump_json())
    (again,) = train_on_all(final, tmp_path / "runs").runs
    assert again.record.learned["temperature"] == run.record.learned["temperature"]
    assert again.record.seconds == run.record.seconds


@pytest.mark.parametrize(
    ("temperature", "found"),
    [
        ({"logloss": 2.0}, "no reported metric 'logloss' has a fitted T; did you mean 'log_loss'"),
        ({"mrr@3": 2.0}, "no reported metric 'mrr@3' has a fitted T"),
        ({"log_loss": 0}, "expected a number > 0"),
    ],
)
def test_a_temperature_that_nothing_takes_is_refused(
    tmp_path: Path, temperature: Mapping[str, float], found: str
) -> None:
    models = {"trees": {**MODELS["trees"], "carried": {"temperature": temperature}}}
    with pytest.raises(ConfigError, match=re.escape(found)):
        load_experiment(config(tmp_path, models=models))


def test_calibration_shows_the_temperature_that_it_uses(tmp_path: Path) -> None:
    """Two metrics of other winners have two temperatures; the bins are those of the first that is reported."""
    from ltr_harness.report.data import experiment_data
    from ltr_harness.report.sections.calibration import section

    metrics = {
        "report": ["log_loss(relevant=0.5)", "brier"],
        "cutoffs": [3],
        "primary": "log_loss(relevant=0.5)",
    }
    options = config(tmp_path, metrics=metrics, models={"trees": MODELS["trees"]})
    run_experiment(options, runs=tmp_path / "runs")
    run = run_of(tmp_path, "trees")
    different = {"log_loss(relevant=0.5)": 3.0, "brier": 2.0}
    learned = {**run.record.learned, "temperature": dict(reversed(different.items()))}
    (run.path / RECORD).write_text(run.record.model_copy(update={"learned": learned}).model_dump_json())
    data = experiment_data(load_experiment(options), "", find_runs(tmp_path / "runs" / "races"))
    assert data is not None
    assert "T from validation data 3." in str(section(data))


# --- what a library derives ---


@pytest.mark.usefixtures("without_report")
def test_a_final_model_of_catboost_has_the_compared_models_learning_rate(tmp_path: Path) -> None:
    catboost = pytest.importorskip("catboost", reason="the extra `catboost` is not installed")
    shared = {"ranker": "catboost", "params": {"depth": 3}}
    models = {
        "rmse": {**shared, "objective": "RMSE"},
        "logloss": {**shared, "objective": "Logloss", "relevant": 1},
        "query": {**shared, "objective": "QueryRMSE"},
    }
    options = config(tmp_path, models=models, stopping={"metric": "mrr@3", "patience": 3, "max_rounds": 250})
    options["seeds"] = [1]
    result = run_experiment(options, runs=tmp_path / "runs")
    loaded = load_experiment(options)
    for name in ("rmse", "logloss"):
        [record] = [run.record for run in result.runs if run.record.model == name]
        rate, rounds = record.learned["derived_params"]["learning_rate"], record.best_round
        assert rounds is not None
        assert rounds < 200
        final = final_experiment(loaded, result.runs, name)
        # of few features, this many steps are the default for 200 rounds and more
        steps = {"leaf_estimation_iterations": 10} if name == "logloss" else {}
        assert final["models"][name]["params"] == {"depth": 3, "learning_rate": rate, **steps}
        run = run_experiment(final, runs=tmp_path / "runs").runs[0]
        assert run.record.rounds == rounds
        assert run.record.params["learning_rate"] == rate
        rows = [races(part) for part in ("train", "valid")]
        pool = catboost.Pool(
            np.concatenate([one.features for one in rows]),
            label=np.concatenate([one.labels for one in rows]),
            group_id=np.repeat(np.arange(240), np.concatenate([one.groups.sizes for one in rows])),
        )
        by_hand = catboost.CatBoost(
            {
                "loss_function": models[name]["objective"],
                "depth": 3,
                "iterations": rounds,
                "learning_rate": rate,
                **steps,
                "random_seed": 1,
                "thread_count": 1,
                "allow_writing_files": False,
                "logging_level": "Silent",
            }
        ).fit(pool)
        expected = by_hand.predict(races("test").features, prediction_type="RawFormulaVal")
        np.testing.assert_array_equal(run.model.score_split(races("test")), expected)
        text = f"CatBoost derived learning_rate {rate}"
        assert any(caution.text.startswith(text) for caution in record.cautions)
    # of runs of earlier versions, which did not record it, the stored models are asked
    finals = [final_experiment(loaded, result.runs, name)["models"][name] for name in models]
    for run in result.runs:
        learned = {key: kept for key, kept in run.record.learned.items() if key != "derived_params"}
        path = run.path / RECORD
        path.write_text(json.dumps({**json.loads(path.read_text()), "learned": learned}))
    before = find_runs(result.folder)
    assert not any("derived_params" in run.record.learned for run in before)
    assert [final_experiment(loaded, before, name)["models"][name] for name in models] == finals
    # of a loss whose rate follows from nothing, the final model is the one that it was
    assert final_experiment(loaded, result.runs, "query")["models"]["query"]["params"] == {"depth": 3}
    wrong = json.loads(result.runs[0].record.model_dump_json()) | {"learned": {"derived_params": [1]}}
    with pytest.raises(
        ValueError, match="derived_params is not a number, a text or a yes for each parameter"
    ):
        Record.model_validate(wrong)


@pytest.mark.parametrize(
    "names", [("Logloss", "RMSE", "QueryRMSE"), pytest.param((), marks=pytest.mark.slow, id="every loss")]
)
def test_catboost_derives_what_is_carried_and_nothing_else(names: tuple[str, ...]) -> None:
    """The installed library is asked: what changes with the number of rounds, or of rows, and what fixes it."""
    catboost = pytest.importorskip("catboost", reason="the extra `catboost` is not installed")
    from ltr_harness.models.catboost import CatBoostRanker
    from ltr_harness.models.objectives import CATBOOST

    rng = np.random.default_rng(1)

    def chosen_parameters(
        loss: str, n_rows: int, rounds: int, n_features: int = 3, **params: Any
    ) -> dict[str, Any]:
        labels = np.arange(n_rows) % (2 if loss in ("Logloss", "CrossEntropy") else 3) + (loss == "RMSPE")
        pool = catboost.Pool(
            rng.normal(size=(n_rows, n_features)), label=labels, group_id=np.arange(n_rows) // 10
        )
        how = {"thread_count": 1, "allow_writing_files": False, "logging_level": "Silent", "depth": 2}
        found = catboost.CatBoost({"loss_function": loss, "iterations": rounds, **how, **params}).fit(pool)
        return {key: value for key, value in found.get_all_params().items() if key != "iterations"}

    needed = {
        "LambdaMart": ":metric=NDCG",
        "StochasticRank": ":metric=NDCG",
        "Huber": ":delta=1",
        "Lq": ":q=2",
    }
    needed |= {"Expectile": ":alpha=0.4", "Tweedie": ":variance_power=1.5"}
    for name in names or sorted(CATBOOST.keys() - {"Focal"}):
        loss = name + needed.get(name, "")
        few, tried = chosen_parameters(loss, 80, 2), chosen_parameters(loss, 120, 2)
        others = [
            few,
            chosen_parameters(loss, 120, 200),
            chosen_parameters(loss, 4000, 2),
            chosen_parameters(loss, 120, 2, 25),
        ]
        changing = {key for one in others for key in one if one[key] != tried.get(key)}
        ranker = CatBoostRanker(objective=loss)
        derived = ranker._derived({}, few, 3)
        assert changing == set(derived), loss
        assert ("learning_rate" in ranker._derived({}, tried, 25)) == (
            name in ("RMSE", "Logloss", "MultiClass")
        )
        assert "leaf_estimation_iterations" not in ranker._derived({}, tried, 25)
        for fixed in [
            {key: tried[key]} for key in ("l2_leaf_reg", "leaf_estimation_iterations", "learning_rate")
        ]:
            short, long = chosen_parameters(loss, 120, 2, **fixed), chosen_parameters(loss, 120, 200, **fixed)
            assert {key for key in short if short[key] != long[key]} == set(
                ranker._derived(fixed, short, 3)
            ), loss


@pytest.mark.usefixtures("without_report")
def test_a_final_model_of_many_rows_stops_as_the_compared_ones_did(tmp_path: Path) -> None:
    """Histogram boosting holds rows out to stop early where there are more than 10,000."""
    pytest.importorskip("sklearn", reason="the extra `sklearn` is not installed")
    from ltr_harness.models.sklearn import SklearnRanker

    name = "sklearn.ensemble.HistGradientBoostingRegressor"
    few, many = make_dataset(1, 50, False), make_dataset(2, 1_600, False)
    assert many.n_rows > 10_000
    for rows, stops in ((few, False), (many, True)):
        ranker = SklearnRanker(estimator=name, params={"max_iter": 2})
        model = ranker.fit(Training(train=rows))
        assert model.learned == {"derived_params": {"early_stopping": stops}}
        expected = {"params": {"early_stopping": stops, "max_iter": 2}}
        assert ranker.carried([model.learned]) == expected
        assert ranker.derived_params(model.params, lambda model=model: model) == {"early_stopping": stops}
    set_by_hand = SklearnRanker(estimator=name, params={"max_iter": 2, "early_stopping": False})
    assert set_by_hand.fit(Training(train=few)).learned == {}
    assert set_by_hand.carried([{}]) == {}
