"""The search spaces of `tune`: built-in ones, checked options, and the messages about wrong ones."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import yaml

from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.judgments import Judgments
from ltr_harness.errors import ConfigError
from ltr_harness.experiments.config import load_experiment, resolved_yaml
from ltr_harness.experiments.config.rules import probes, with_built_in
from ltr_harness.experiments.config.schema import model_at
from ltr_harness.experiments.config.tune import Range
from ltr_harness.experiments.training.folds import FoldReader
from ltr_harness.models.objectives import BINARY, METRIC
from ltr_harness.models.presets import SPACES
from ltr_harness.models.ranker import TrainingFacts
from ltr_harness.models.table import catalog

TUNED: dict[str, Any] = {
    "name": "tuned",
    "data": {"reader": "synthetic", "n_queries": {"train": 60, "valid": 30, "test": 40}, "n_features": 12},
    "stopping": {"metric": "ndcg@10", "patience": 4, "max_rounds": 15},
    "models": {
        "lgb": {"ranker": "lightgbm", "params": {"bagging_fraction": 0.8, "bagging_freq": 1}},
        "xgb": {"ranker": "xgboost", "params": {"subsample": 0.8}},
    },
    "tune": {"trials": 4, "models": {"lgb": {"params.num_leaves": {"low": 3, "high": 31, "log": True}}}},
}


@pytest.fixture
def tuned_config() -> dict[str, Any]:
    return copy.deepcopy(TUNED)


def problem_texts(source: Mapping[str, Any]) -> list[str]:
    with pytest.raises(ConfigError) as error:
        load_experiment(source)
    return [str(problem) for problem in error.value.problems]


@pytest.mark.parametrize(
    ("tune", "message"),
    [
        ({"models": {"lgb": "built-in"}}, "tune has no budget; expected trials: 50, minutes: 30, or both"),
        ({"models": {}}, "tune.models is {}; expected at least one"),
        ({"models": {"lbg": "built-in"}}, "tune.models: there is no model 'lbg'; did you mean 'lgb'?"),
        ({"models": {"lgb": "builtin"}}, "tune.models.lgb is 'builtin'"),
        (
            {"models": {"lgb": {}}},
            "tune.models.lgb searches nothing; expected at least one option, or built-in",
        ),
        (
            {"models": {"lgb": {"params.num_leavs": [3, 4]}}},
            "tune.models.lgb: params.num_leavs: LightGBM has no parameter 'num_leavs' and would ignore it; did you "
            "mean 'num_leaves'?",
        ),
        (
            {"models": {"lgb": {"parms.num_leaves": [3, 4]}}},
            "the ranker lightgbm has no option 'parms.num_leaves'; did you mean 'params'?",
        ),
        (
            {"models": {"lgb": {"num_leaves": [3, 4]}}},
            "the ranker lightgbm has no option 'num_leaves'; did you mean 'params.num_leaves'?",
        ),
        (
            {"models": {"lgb": {"params.num_leaves": {"low": 1, "high": 9}}}},
            "tune.models.lgb: params.num_leaves: 1 is refused: it requires num_leaves > 1",
        ),
        (
            {"models": {"lgb": {"objective": ["lambdarank", "rank_xendgc", "rank_xendcg"]}}},
            "tune.models.lgb: objective: unknown objective 'rank_xendgc'; did you mean 'rank_xendcg'?",
        ),
        ({"models": {"lgb": {"params.num_leaves": {"low": 9, "high": 3}}}}, "expected low < high"),
        ({"models": {"lgb": {"params.num_leaves": 9}}}, "tune.models.lgb.params.num_leaves is 9"),
        (
            {"models": {"lgb": {"rounds": [10, 20]}}},
            "tune.models.lgb.rounds with stopping; expected one of them",
        ),
        ({"models": {"chance": "built-in"}}, "there is no built-in space for the ranker random"),
        (
            {"trails": 3, "models": {"lgb": "built-in"}},
            "unknown key 'trails' in tune; did you mean 'trials'?",
        ),
        ({"parallel": 2, "storage": "sqlite", "models": {"lgb": "built-in"}}, "expected storage: journal"),
        (
            {"inner_folds": 2, "models": {"lgb": "built-in"}},
            "tune.inner_folds is 2; expected an integer >= 3",
        ),
    ],
)
def test_what_cannot_be_searched_is_said_before_anything_is(
    tune: dict[str, Any], message: str, tuned_config: dict[str, Any]
) -> None:
    budget = {} if "no budget" in message or "trails" in tune else {"trials": 3}
    tuned_config["models"]["chance"] = {"ranker": "random"}
    found = problem_texts({**tuned_config, "tune": {**budget, **tune}})
    assert any(message in problem for problem in found), found


def test_a_model_that_is_trained_across_workers_is_refused(tuned_config: dict[str, Any]) -> None:
    tuned_config["models"]["lgb"]["data_parallel"] = True
    (problem,) = problem_texts(tuned_config)
    assert (
        "tune.models.lgb: a model that is trained across workers cannot be tuned; tune it without" in problem
    )


@pytest.mark.long
def test_validation_data_or_inner_folds(tuned_config: dict[str, Any]) -> None:
    tuned_config["data"] = {"reader": "letor", "splits": {"train": "a", "test": "b"}}
    tuned_config["stopping"] = None
    tuned_config["models"] = {"lgb": {"ranker": "lightgbm", "rounds": 10}}
    tuned_config["tune"]["models"] = {"lgb": {"rounds": [10, 20]}}
    (problem,) = problem_texts(tuned_config)
    assert "split 'all' has no validation data, on which tune could choose" in problem
    tuned_config["tune"]["inner_folds"] = 5
    assert load_experiment(tuned_config).tune is not None


# --- built-in spaces ---


# CatBoost's losses that have no default of a parameter
WHOLE = [
    "StochasticRank:metric=NDCG",
    "Huber:delta=1",
    "Lq:q=3",
    "Expectile:alpha=0.3",
    "Tweedie:variance_power=1.5",
    "Focal:focal_alpha=0.3;focal_gamma=2",
]


@pytest.fixture(scope="module")
def train() -> RankingDataset:
    """The training data of `tuned_config`, of 100 queries."""
    data = TUNED["data"]
    queries = data["n_queries"] | {"train": 100}
    experiment = load_experiment({**TUNED, "data": {**data, "n_queries": queries}}, check_rankers=False)
    return FoldReader(experiment.data).read("all").train


@pytest.mark.parametrize(("library", "objective"), SPACES, ids=lambda text: text)
def test_built_in_spaces_are_sound_in_every_corner(
    library: str, objective: str, tuned_config: dict[str, Any], train: RankingDataset
) -> None:
    if library == "catboost":
        pytest.importorskip("catboost")
    written = {METRIC: {"metric": "ndcg@10"}, **{text.partition(":")[0]: text for text in WHOLE}}
    model: dict[str, Any] = {"ranker": library, "objective": written.get(objective, objective)}
    if objective in BINARY:
        model["relevant"] = 1
    problems = catalog.load(library).model_validate({"objective": model["objective"]}).check()
    newer = [str(problem) for problem in problems if "or newer" in problem.expected]
    if newer:
        pytest.skip(newer[0])
    tuned_config["models"] = {"m": model}
    tuned_config["tune"]["models"] = {"m": "built-in"}
    experiment = load_experiment(tuned_config)
    assert experiment.tune is not None
    space = experiment.tune.space("m")
    assert set(space) == set(SPACES[library, objective])
    assert all(isinstance(values, Range | tuple) for values in space.values())
    if objective in ("gamma", "reg:gamma", "RMSPE"):  # labels above 0, and below from 0 to 1
        train = replace(train, judgments=Judgments(train.labels + 1, train.groups))
    elif objective.lower().startswith(("cross", "reg:logistic")):
        train = replace(train, judgments=Judgments(train.labels / train.labels.max(), train.groups))
    for probe in probes(space):
        ranker = model_at(experiment.models["m"], probe).ranker
        assert ranker.check(TrainingFacts.of(train, stopping=True)) == []
        assert ranker.seed_matters


@pytest.mark.long
def test_built_in_spaces_stand_in_the_resolved_configuration(tuned_config: dict[str, Any]) -> None:
    tuned_config["tune"]["models"] = {"lgb": "built-in"}
    experiment = load_experiment(tuned_config)
    text = resolved_yaml(experiment)
    assert "params.num_leaves: {low: 7, high: 127, log: true" in text
    assert load_experiment(yaml.safe_load(text)) == experiment
    assert experiment.tune is not None
    assert with_built_in(experiment.tune, experiment.models) == experiment.tune


def test_a_parameter_is_replaced_under_whichever_name_it_was_given(tuned_config: dict[str, Any]) -> None:
    tuned_config["models"]["lgb"]["params"] = {"n_estimators_": 1}
    config = load_experiment({**tuned_config, "tune": None}, check_rankers=False).models["lgb"]
    config = model_at(config, {"params": {"eta": 0.5, "min_child_samples": 3}})
    at = model_at(config, {"params.learning_rate": 0.1, "params.lambda_l2": 1.0})
    assert at.ranker.params == {"min_child_samples": 3, "learning_rate": 0.1, "lambda_l2": 1.0}  # type: ignore[attr-defined]
