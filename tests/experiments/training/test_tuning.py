"""Tuning with real boosters and the real Optuna: what is tried, what is chosen, and that nothing is lost."""

from __future__ import annotations

import copy
import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ltr_harness import compare, evaluate, run_experiment
from ltr_harness.boosting.stopping import StoppingRule
from ltr_harness.data.splits import folds
from ltr_harness.errors import MissingExtraError, UsageError
from ltr_harness.experiments.config import load_experiment
from ltr_harness.experiments.config.schema import model_at
from ltr_harness.experiments.runs.record import STUDIES, STUDY, StudyRecord, Trial, TuningFacts
from ltr_harness.experiments.training.folds import Fold, FoldReader
from ltr_harness.experiments.training.job import Job, choice_of
from ltr_harness.experiments.training.progress import Progress, seconds_left
from ltr_harness.experiments.training.reproduce import reproduce
from ltr_harness.experiments.training.search import FILES, LOCK, tune
from ltr_harness.experiments.training.trials import Pruned, PruningCallback, run_trial
from ltr_harness.metrics import parse_metric
from ltr_harness.workflow import ExperimentResult, prepare, read

from .conftest import TUNED, studies, trial_outcomes  # type: ignore[import-not-found]

pytest.importorskip("optuna", reason="needs the extra `tune`")
from optuna.storages.journal._storage import JournalOperation

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("one_core")]


def search(config: dict[str, Any], runs: Path, progress: Progress | None = None, workers: int = 1) -> None:
    """The searches alone, without the runs and the report that follow."""
    prepared = prepare(read(config, runs=runs))
    job = replace(prepared, threads=1, workers=workers)
    tune(job, progress or Progress())


class Log(Progress):
    """Remembers which trials were made."""

    def __init__(self) -> None:
        self.trials: list[tuple[str, int]] = []

    def trial_ended(self, study: StudyRecord, trial: Trial) -> None:
        self.trials.append((str(study), trial.number))


# --- from the configuration to the runs ---


@pytest.fixture(scope="module")
def found_search(tmp_path_factory: pytest.TempPathFactory, one_core: None) -> tuple[ExperimentResult, Log]:
    """An experiment with a search of eight trials. To be read; what changes it takes `found_copy`."""
    log = Log()
    config = {**TUNED, "tune": {**TUNED["tune"], "trials": 8}}
    return run_experiment(config, runs=tmp_path_factory.mktemp("found"), progress=log), log


@pytest.fixture
def found_copy(
    found_search: tuple[ExperimentResult, Log], tuned_config: dict[str, Any], tmp_path: Path
) -> Path:
    """A folder of runs of one's own, with what was found and trained in it; `tuned` has its eight trials."""
    tuned_config["tune"]["trials"] = 8
    runs = tmp_path / "found"
    shutil.copytree(found_search[0].folder.parent, runs)
    return runs


def test_the_best_trial_on_validation_data_is_trained_like_any_other_model(
    found_search: tuple[ExperimentResult, Log],
) -> None:
    result, _ = found_search
    assert not result.failures
    (record,) = studies(result.folder.parent).values()
    complete = [trial for trial in record.trials if trial.status == "complete"]
    best = max(complete, key=lambda trial: trial.value or 0)
    (run,) = [run for run in result.runs if run.record.model == "lgb"]
    facts = run.record.tuning
    assert facts is not None
    assert (facts.trial, facts.value, facts.chosen) == (best.number, best.value, best.point)
    assert facts.n_trials == len(record.trials) == 8
    assert facts.n_complete == len(complete)
    params = run.record.params
    assert (params["num_leaves"], params["learning_rate"], params["objective"]) == (
        best.point["params.num_leaves"], best.point["params.learning_rate"], best.point["objective"]
    )  # fmt: skip
    assert params["bagging_fraction"] == 0.8
    # the same seed, data and rule: the run is the trial again, so what chose it can be found in its history
    curve = run.history.query("metric == 'ndcg@10'").set_index("round")["value"]
    assert curve[run.record.best_round] == pytest.approx(best.value, abs=1e-12)
    assert run.record.best_round == best.best_round
    # an untuned model is left alone, and both stay reproducible from their records
    assert [run.record.tuning for run in result.runs if run.record.model == "xgb"] == [None]
    assert reproduce(run.path).identical


def test_the_second_run_tries_and_trains_nothing(
    found_search: tuple[ExperimentResult, Log], found_copy: Path, tuned_config: dict[str, Any]
) -> None:
    first, second = found_search[1], Log()
    assert first.trials == [("lgb", number) for number in range(8)]
    again = run_experiment(tuned_config, runs=found_copy, progress=second)
    assert second.trials == []
    assert again.reused == 2


def test_the_same_seed_tries_the_same(tuned_config: dict[str, Any], tmp_path: Path) -> None:
    tuned_config["tune"]["trials"] = 11  # beyond the ten that are random: the sampler has begun to learn
    tuned_config["stopping"]["max_rounds"] = 2
    for folder in ("one", "two"):
        search(tuned_config, tmp_path / folder)
    assert trial_outcomes(tmp_path / "one") == trial_outcomes(tmp_path / "two")
    tuned_config["tune"] |= {"trials": 2, "seed": 2}
    search(tuned_config, tmp_path / "three")
    points = [
        trials[0][2] for folder in ("one", "three") for trials in trial_outcomes(tmp_path / folder).values()
    ]
    assert points[0] != points[1]


def test_more_budget_goes_on_and_less_takes_the_first_trials(
    tuned_config: dict[str, Any], tmp_path: Path
) -> None:
    tuned_config["tune"]["trials"] = 2
    more = copy.deepcopy(tuned_config)
    more["tune"]["trials"] = 3
    search(tuned_config, tmp_path / "grown")
    job = prepare(read(more, runs=tmp_path / "grown"))
    (study,) = job.studies
    (record,) = studies(tmp_path / "grown").values()
    assert len(job.trials_of(study)) == 2
    assert seconds_left(job, study) == pytest.approx(sum(trial.seconds for trial in record.trials) / 2)
    log = Log()
    search(more, tmp_path / "grown", log)
    assert log.trials == [("lgb", 2)]
    search(more, tmp_path / "straight")
    assert trial_outcomes(tmp_path / "grown") == trial_outcomes(tmp_path / "straight")
    less = copy.deepcopy(tuned_config)
    less["tune"]["trials"] = 1
    job = prepare(read(less, runs=tmp_path / "grown"))
    facts = choice_of(job, job.studies[0])
    assert isinstance(facts, TuningFacts)
    assert (facts.trials, facts.n_trials, facts.trial) == (1, 1, 0)


def test_the_budget_may_be_time(tuned_config: dict[str, Any], tmp_path: Path) -> None:
    tuned_config["tune"] |= {"trials": None, "minutes": 0.002}
    search(tuned_config, tmp_path)
    (record,) = studies(tmp_path).values()
    seconds = [trial.seconds for trial in record.trials]
    assert sum(seconds) >= 0.12 > sum(seconds[:-1])


@pytest.mark.usefixtures("without_report")
def test_a_record_says_by_which_search_even_if_another_found_the_same(
    tuned_config: dict[str, Any], tmp_path: Path
) -> None:
    del tuned_config["models"]["xgb"]
    tuned_config["tune"]["models"]["lgb"] = {"params.num_leaves": [7]}
    first = run_experiment(tuned_config, runs=tmp_path)
    tuned_config["tune"]["trials"] = 5
    second = run_experiment(tuned_config, runs=tmp_path)
    of_lgb = [next(r for r in result.runs if r.record.model == "lgb") for result in (first, second)]
    assert of_lgb[0].path == of_lgb[1].path
    assert [run.record.tuning.n_trials for run in of_lgb if run.record.tuning] == [4, 5]


# --- nothing sees the test data ---


def test_a_trial_works_without_any_test_data(tuned_config: dict[str, Any]) -> None:
    experiment = load_experiment(tuned_config)
    fold = FoldReader(experiment.data).read("all")
    blind = Fold(fold.name, {name: fold.splits[name] for name in ("train", "valid")}, fold.facts)
    metric = parse_metric("ndcg@10")
    rule = StoppingRule(metric, patience=3, max_rounds=6)
    job = Job(experiment, FoldReader(experiment.data), Path(), (metric,), metric, rule, threads=1)
    outcome = run_trial(job, "lgb", 0, {"params.num_leaves": 7}, blind, lambda step, value: False)
    assert outcome.status == "complete"
    valid = fold.valid
    assert valid is not None
    model = model_at(experiment.models["lgb"], {"params.num_leaves": 7}).ranker
    assert model.params["num_leaves"] == 7  # type: ignore[attr-defined]


def test_other_test_data_changes_no_trial(tuned_config: dict[str, Any], tmp_path: Path) -> None:
    before = prepare(read(tuned_config, runs=tmp_path)).studies
    tuned_config["data"]["n_queries"]["test"] = 55
    assert [study.identity for study in prepare(read(tuned_config, runs=tmp_path)).studies] == [
        study.identity for study in before
    ]
    tuned_config["data"]["n_queries"]["valid"] = 31
    assert prepare(read(tuned_config, runs=tmp_path)).studies[0].identity != before[0].identity


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 5},
        {"sampler": "random"},
        {"pruner": "none"},
        {"inner_folds": 3},
        {"storage": "sqlite"},
        {"models": {"lgb": {"params.num_leaves": [7, 9]}}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_another_search_is_another_study(
    change: dict[str, Any], tuned_config: dict[str, Any], tmp_path: Path
) -> None:
    before = prepare(read(tuned_config, runs=tmp_path)).studies[0].identity
    tuned_config["tune"] |= change
    assert prepare(read(tuned_config, runs=tmp_path)).studies[0].identity != before


# --- folds ---


def test_every_fold_has_a_choice_of_its_own(tuned_config: dict[str, Any], tmp_path: Path) -> None:
    tuned_config["data"] |= {"files": ["train"], "folds": 3}
    tuned_config["tune"]["trials"] = 2
    result = run_experiment(tuned_config, runs=tmp_path / "runs")
    assert not result.failures
    searches = studies(tmp_path / "runs")
    assert list(searches) == ["lgb, fold1", "lgb, fold2", "lgb, fold3"]
    chosen = {run.record.fold: run.record.tuning for run in result.runs if run.record.model == "lgb"}
    for name, record in searches.items():
        facts = chosen[name.removeprefix("lgb, ")]
        best = record.best(record.trials)
        assert facts is not None
        assert best is not None
        assert facts.chosen == best.point
    # the folds' models differ in what was found and are one model all the same
    comparison = result.comparison
    assert comparison is not None
    assert comparison.models == ("lgb", "xgb")
    (note,) = [note for note in map(str, comparison.cautions) if note.startswith("tuned on validation data")]
    assert "lgb by 2 trials in each of 3 folds" in note
    assert note.endswith("Not tuned: xgb")
    # stored runs tell it too, without the experiment
    again = compare(*(str(run.path) for run in result.runs))
    assert note in [*map(str, again.cautions)]


@pytest.mark.usefixtures("without_report")
def test_models_with_different_budgets_are_told_apart(
    found_search: tuple[ExperimentResult, Log], tuned_config: dict[str, Any], tmp_path: Path
) -> None:
    one, _ = found_search
    del tuned_config["models"]["xgb"]
    tuned_config["tune"]["trials"] = 2
    other = run_experiment({**tuned_config, "name": "other"}, runs=tmp_path)
    runs = [run for result in (one, other) for run in result.runs if run.record.model == "lgb"]
    notes = " ".join(map(str, compare(*runs).cautions))
    assert "tuned/lgb by 8 trials" in notes
    assert "other/lgb by 2 trials" in notes
    assert "the tuned models had different budgets" in notes


def test_nested_cross_validation_judges_by_the_training_queries_alone(
    tuned_config: dict[str, Any], tmp_path: Path
) -> None:
    tuned_config["tune"] |= {"trials": 1, "inner_folds": 3}
    search(tuned_config, tmp_path)
    (record,) = studies(tmp_path).values()
    (trial,) = record.trials
    experiment = load_experiment(tuned_config)
    train = FoldReader(experiment.data).read("all").train
    config = model_at(experiment.models["lgb"], trial.point)
    rule = StoppingRule(parse_metric("ndcg@10"), patience=3, max_rounds=6)
    values: list[float] = []
    from ltr_harness.models.ranker import Training

    for one, two, held in folds(train.groups, 3, 1):
        inner, valid = train.take(np.sort(np.concatenate([one, two]))), train.take(held)
        fitted = config.ranker.fit(
            Training(train=inner, valid=valid, seed=1, stopping=rule, metrics=(rule.metric,))
        )
        result = evaluate(
            valid.labels, fitted.score(valid.features), group_sizes=valid.groups.sizes, metrics=["ndcg@10"]
        )
        values += result["ndcg@10"].per_query.tolist()
    assert trial.value == pytest.approx(np.nanmean(values), abs=1e-12)
    assert len(values) == 60  # every training query once


# --- pruning ---


def watch_values(
    rule: StoppingRule | None, values: list[float], rounds: int, until: int = 10**9
) -> list[Any]:
    """Steps and values that were reported, and whether the training was ended."""
    said: list[Any] = []

    def report(step: int, value: float) -> bool:
        said.append((step, value))
        return step >= until

    metric = rule.metric if rule else parse_metric("ndcg@10")
    monitor = PruningCallback(metric, rule, rounds, report)
    try:
        for number, value in enumerate(values, start=1):
            monitor(number, {"whatever it is called": value, "another": -1.0})
    except Pruned as pruned:
        said.append(pruned.value)
    return said


def test_the_monitor_reports_the_model_that_would_be_kept() -> None:
    higher = StoppingRule(parse_metric("ndcg@10"), patience=3)
    assert watch_values(higher, [0.2, 0.5, 0.4, 0.6], 4) == [(1, 0.2), (2, 0.5), (3, 0.5), (4, 0.6)]
    delta = StoppingRule(parse_metric("ndcg@10"), patience=3, min_delta=0.2)
    assert watch_values(delta, [0.2, 0.5, 0.4, 0.6], 4) == [(1, 0.2), (2, 0.5), (3, 0.5), (4, 0.5)]
    lower = StoppingRule(parse_metric("kendall_tau_distance"), patience=3)
    assert watch_values(lower, [0.5, 0.2, 0.4], 3) == [(1, 0.5), (2, 0.2), (3, 0.2)]
    assert watch_values(None, [0.2, 0.5, 0.4], 3) == [(1, 0.2), (2, 0.5), (3, 0.4)]  # the last round is kept


def test_the_monitor_asks_at_most_25_times_and_ends_a_training() -> None:
    rule = StoppingRule(parse_metric("ndcg@10"), patience=3)
    values = [0.5 + 0.001 * at for at in range(200)]
    assert [step for step, _ in watch_values(rule, values, 200)] == list(range(8, 201, 8))
    assert watch_values(rule, values, 200, until=16)[-1] == values[15]
    assert len(watch_values(rule, values, 200, until=16)) == 3


def test_a_trial_that_ended_by_itself_is_held_against_later_ones_at_every_step() -> None:
    said: list[tuple[int, float]] = []
    rule = StoppingRule(parse_metric("ndcg@10"), patience=1)
    monitor = PruningCallback(rule.metric, rule, 5, lambda step, value: bool(said.append((step, value))))
    monitor(1, {"x": 0.3})
    monitor(2, {"x": 0.2})
    monitor.finished(0.3)
    assert said == [(1, 0.3), (2, 0.3), (3, 0.3), (4, 0.3), (5, 0.3)]


@pytest.mark.parametrize("ranker", ["lightgbm", "xgboost"])
def test_hopeless_trials_end_early_and_are_not_chosen(
    ranker: str, tuned_config: dict[str, Any], tmp_path: Path
) -> None:
    small, rate = {"lightgbm": ({"num_leaves": 4}, "learning_rate"), "xgboost": ({"max_depth": 2}, "eta")}[
        ranker
    ]
    tuned_config["models"] = {"m": {"ranker": ranker, "params": small}}
    tuned_config["stopping"] |= {"patience": 2, "max_rounds": 12}
    tuned_config["tune"] = {
        "trials": 8,
        "sampler": "random",
        "models": {"m": {f"params.{rate}": {"low": 0.01, "high": 0.5, "log": True}}},
    }
    search(tuned_config, tmp_path / "median")
    (record,) = studies(tmp_path / "median").values()
    pruned = [trial for trial in record.trials if trial.status == "pruned"]
    complete = [trial for trial in record.trials if trial.status == "complete"]
    assert pruned
    assert all(trial.status == "complete" for trial in record.trials[:5])
    assert {trial.status for trial in record.trials} == {"pruned", "complete"}
    best = record.best(record.trials)
    assert best in complete
    tuned_config["tune"]["pruner"] = "none"
    search(tuned_config, tmp_path / "none")
    (whole,) = studies(tmp_path / "none").values()
    assert [trial.point for trial in whole.trials] == [trial.point for trial in record.trials]
    assert {trial.status for trial in whole.trials} == {"complete"}
    to_the_end = {trial.number: trial.value or 0 for trial in whole.trials}
    # what was ended would not have been the choice, and was at that point no better than where it would have got
    assert all(to_the_end[trial.number] >= (trial.value or 0) - 1e-12 for trial in pruned)
    assert best is not None
    assert best.value == max(to_the_end[trial.number] for trial in complete)


# --- what can go wrong ---

FRAGILE = """
from typing import Any
from ltr_harness.models.random import RandomRanker
from ltr_harness.errors import TrainingError

class Fragile(RandomRanker):
    size: int = 1

    def fit(self, training: Any) -> Any:
        if self.size > {limit}:
            raise TrainingError(f"size {{self.size}} is too large")
        return super().fit(training)
"""


def fragile_config(tuned_config: dict[str, Any], tmp_path: Path, limit: int) -> dict[str, Any]:
    (tmp_path / "fragile.py").write_text(FRAGILE.format(limit=limit))
    tuned_config["models"] = {
        "f": {"ranker": f"{tmp_path}/fragile.py:Fragile"},
        "chance": {"ranker": "random"},
    }
    tuned_config["tune"] = {"trials": 5, "models": {"f": {"size": {"low": 1, "high": 10}}}}
    return tuned_config


def test_a_trial_that_fails_costs_itself_alone(tuned_config: dict[str, Any], tmp_path: Path) -> None:
    search(fragile_config(tuned_config, tmp_path, limit=5), tmp_path)
    (record,) = studies(tmp_path).values()
    by_status = {
        status: [t for t in record.trials if t.status == status] for status in ("complete", "failed")
    }
    assert by_status["complete"]
    assert by_status["failed"]
    assert all(t.point["size"] <= 5 for t in by_status["complete"])
    assert {t.error for t in by_status["failed"]} == {
        f"size {t.point['size']} is too large" for t in by_status["failed"]
    }


@pytest.mark.usefixtures("without_report")
def test_a_search_that_finds_nothing_is_a_failed_model_and_the_others_go_on(
    tuned_config: dict[str, Any], tmp_path: Path
) -> None:
    result = run_experiment(fragile_config(tuned_config, tmp_path, limit=0), runs=tmp_path, on_failure="keep")
    assert [run.record.model for run in result.runs] == ["chance"]
    (failed,) = result.failures
    error = failed.record.error
    assert error is not None
    assert error.startswith("tuning found nothing: none of 5 trials could be trained (size ")
    # what is not tuned any more is not taken for what failed
    del tuned_config["tune"]
    assert (
        len(run_experiment(tuned_config, runs=tmp_path, on_failure="keep").failures) == 1
    )  # limit 0 refuses size 1 as well


@pytest.mark.usefixtures("without_report")
def test_without_optuna_it_says_what_to_install_and_finished_searches_need_none(
    found_copy: Path, tuned_config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert run_experiment(tuned_config, runs=found_copy).reused == 2
    tuned_config["tune"]["trials"] = 9
    with pytest.raises(
        MissingExtraError, match=r"`tune` needs the package optuna; pip install 'optuna>=4.2'"
    ):
        prepare(read(tuned_config, runs=found_copy))


def test_a_space_that_the_data_refuses_is_said_before_the_first_trial(
    tuned_config: dict[str, Any], tmp_path: Path
) -> None:
    tuned_config["tune"]["models"]["lgb"] = {"params.min_data_in_leaf": {"low": 5, "high": 100_000}}
    with pytest.raises(UsageError, match=r"tune\.models\.lgb\.params\.min_data_in_leaf: .* cannot be split"):
        prepare(read(tuned_config, runs=tmp_path))


@pytest.mark.usefixtures("without_report")
def test_the_number_of_rounds_can_be_searched_where_nothing_stops(
    tuned_config: dict[str, Any], tmp_path: Path
) -> None:
    tuned_config["stopping"] = None
    tuned_config["models"] = {"lgb": {**tuned_config["models"]["lgb"], "rounds": 3}}
    tuned_config["tune"] |= {"models": {"lgb": {"rounds": {"low": 2, "high": 6}}}, "trials": 3}
    result = run_experiment(tuned_config, runs=tmp_path)
    (run,) = result.runs
    assert run.record.tuning is not None
    assert run.record.best_round == run.record.tuning.chosen["rounds"]
    assert run.record.rounds == run.record.best_round
    assert reproduce(run.path).identical


def test_the_folder_of_a_search_is_laid_out_as_documented(found_search: tuple[ExperimentResult, Log]) -> None:
    (folder,) = (found_search[0].folder / STUDIES).iterdir()
    assert {path.name for path in folder.iterdir()} == {STUDY, FILES["journal"], LOCK}
    assert StudyRecord.model_validate_json((folder / STUDY).read_bytes()).environment["optuna"]


def test_a_trial_does_not_read_the_search_anew(found_search: tuple[ExperimentResult, Log]) -> None:
    """Each time costs what all trials before it have written; Optuna notes who opens a study."""
    (journal,) = (found_search[0].folder / STUDIES).glob(f"*/{FILES['journal']}")
    entries = [json.loads(line)["op_code"] for line in journal.read_text().splitlines()]
    assert entries.count(JournalOperation.CREATE_STUDY) == 1
    assert entries.count(JournalOperation.CREATE_TRIAL) == 8
