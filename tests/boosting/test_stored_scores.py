"""The metric reported while a model trains is that of the score it is stored with, whatever its objective."""

from __future__ import annotations

import gc
import pickle
import weakref
from contextlib import nullcontext
from inspect import signature
from types import SimpleNamespace
from typing import Any

import lightgbm
import numpy as np
import pytest
import xgboost
from packaging.version import Version

from ltr_harness.boosting import lightgbm as in_lightgbm
from ltr_harness.boosting import xgboost as in_xgboost
from ltr_harness.boosting.stopping import StoppingRule
from ltr_harness.boosting.xgboost_metrics import judgments_of
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.errors import UsageError
from ltr_harness.metrics import bind, function_metric, parse_metric
from ltr_harness.metrics.core.expected_grade import expected_grade
from ltr_harness.models import lightgbm_parameters, xgboost_parameters
from ltr_harness.models.ranker import Training
from ltr_harness.models.table import catalog


def _spread(labels: Any, scores: Any) -> float:
    return float(scores.max() - scores.min())


BY_SIZE = ("log_loss", "brier", function_metric(_spread, name="spread", higher_is_better=True))
METRICS = (*map(parse_metric, BY_SIZE[:2]), BY_SIZE[2], parse_metric("ndcg@10"))
ROUNDS = 6
SHARES = (
    "binary",
    "cross_entropy",
    "cross_entropy_lambda",
    "reg:logistic",
    "binary:logistic",
    "binary:logitraw",
)
GROWN: dict[str, Any] = {
    "metric": "None",
    "verbosity": -1,
    "num_threads": 1,
    "num_leaves": 7,
    "min_data_in_leaf": 5,
    "learning_rate": 0.3,
    "seed": 1,
}
BOOSTERS: dict[str, dict[str, Any]] = {
    "gbdt": {},
    "goss": {"data_sample_strategy": "goss"},
    "dart": {"boosting": "dart", "drop_rate": 0.5},
    "rf": {"boosting": "rf", "bagging_fraction": 0.7, "bagging_freq": 1},
}

ROUNDED = ("dart", "rf")
"""Boosters whose running sums or means are rounded otherwise than sums over trees, so that equal ones swap."""


def labels_for(objective: str, split: Any) -> Any:
    """Labels that the objective takes."""
    if objective in (*SHARES, "binary:hinge", "rank:map"):
        return (split.labels >= 2).astype(float)
    return split.labels if objective.startswith(("multi", "rank", "lambdarank")) else split.labels + 1.0


def judgments_of_split(split: Any) -> Judgments:
    return Judgments.checked(split.labels, QueryGroups.from_sizes(split.sizes))


def means(split: Any, scores: Any, metrics: Any = METRICS) -> Any:
    return bind(metrics, judgments_of_split(split)).means(scores)


def lightgbm_params(objective: str, booster: str = "gbdt") -> dict[str, Any]:
    """Parameters of an objective, whose name may end in ``+sqrt``."""
    name, _, root = objective.partition("+")
    params = {**GROWN, **BOOSTERS[booster], "objective": name, "reg_sqrt": bool(root)}
    if name == "binary":
        params["sigmoid"] = 2.0
    return {**params, "num_class": 5} if name == "multiclass" else params


def lightgbm_sets(train: Any, valid: Any, objective: str, free: bool = True) -> tuple[Any, Any]:
    data = lightgbm.Dataset(
        train.X, label=labels_for(objective.partition("+")[0], train), group=train.sizes, free_raw_data=free
    )
    held_out = lightgbm.Dataset(
        valid.X, label=valid.labels, group=valid.sizes, reference=data, free_raw_data=free
    )
    return data, held_out


def lightgbm_scores(booster: Any, X: Any, rounds: int = 0) -> Any:
    """As the model is stored: raw, of classes the expected grade."""
    if booster.num_model_per_iteration() > 1:
        return expected_grade(booster.predict(X, num_iteration=rounds))
    return booster.predict(X, raw_score=True, num_iteration=rounds)


def check(curve: dict[str, list[float]], booster: Any, split: Any, scores: Any, **accuracy: float) -> None:
    """Compare a curve with the stored model after each of its rounds; of DART after the `last`."""
    rounds = len(curve["brier"])
    assert rounds
    for round_ in [rounds] if accuracy.pop("last", False) else range(1, rounds + 1):
        found = [curve[str(metric)][round_ - 1] for metric in METRICS if str(metric) in curve]
        metrics = [metric for metric in METRICS if str(metric) in curve]
        expected = means(split, scores(booster, split.X, round_), metrics)
        np.testing.assert_allclose(found, expected, rtol=0, atol=accuracy.get("atol", 1e-12))


def curve_of(watch: Any) -> dict[str, list[float]]:
    return {str(metric): [at.value for at in watch.history if at.metric == str(metric)] for metric in METRICS}


KINDS = [
    ("binary", "gbdt"),
    ("poisson", "goss"),
    ("cross_entropy_lambda", "dart"),
    ("regression+sqrt", "gbdt"),
    ("regression", "rf"),
    ("cross_entropy", "rf"),
    ("lambdarank", "gbdt"),
    ("multiclass", "rf"),
]
LIGHTGBM = [
    *(name for name in lightgbm_parameters.OBJECTIVES),
    *(f"{name}+sqrt" for name in ("regression", "regression_l1", "fair", "quantile", "mape")),
]
every_kind = pytest.mark.parametrize(("objective", "booster"), KINDS)
every_one = pytest.mark.parametrize(
    ("objective", "booster"), [(objective, booster) for objective in LIGHTGBM for booster in BOOSTERS]
)


UNDONE = ("regression_l1+sqrt", "dart")
"""Of these the last step finds no split, and what LightGBM gives metrics is not what it stores."""


def expect_refusal(expected: bool) -> Any:
    return pytest.raises(UsageError, match="found no split") if expected else nullcontext()


def check_watch(train: Any, valid: Any, objective: str, booster: str, free: bool) -> None:
    data, held_out = lightgbm_sets(train, valid, objective, free)
    watch = in_lightgbm.Watch(*METRICS, patience=None)
    params = lightgbm_params(objective, booster)
    model = lightgbm.train(params, data, ROUNDS, valid_sets=[held_out], callbacks=[watch])
    check(curve_of(watch), model, valid, lightgbm_scores, last=booster == "dart")
    again, _ = lightgbm_sets(train, valid, objective, free)
    assert lightgbm.train(params, again, ROUNDS).model_to_string() == model.model_to_string()


def handed_over(train: Any, valid: Any, objective: str, booster: str, free: bool) -> None:
    data, held_out = lightgbm_sets(train, valid, objective, free)
    curves: dict[str, Any] = {}
    metrics = METRICS[:3] if booster == "dart" or (booster == "rf" and free) else METRICS
    model = lightgbm.train(
        lightgbm_params(objective, booster),
        data,
        ROUNDS,
        valid_sets=[held_out],
        feval=in_lightgbm.feval(*metrics),
        callbacks=[lightgbm.record_evaluation(curves)],
    )
    check(curves["valid_0"], model, valid, lightgbm_scores, last=booster == "dart")


@every_kind
def test_a_watch_sees_the_stored_score(train: Any, valid: Any, objective: str, booster: str) -> None:
    check_watch(train, valid, objective, booster, free=True)


@every_kind
def test_a_metric_of_lightgbm_is_of_the_stored_score(
    train: Any, valid: Any, objective: str, booster: str
) -> None:
    handed_over(train, valid, objective, booster, free=True)


@pytest.mark.slow
@every_one
@pytest.mark.parametrize("free", [True, False])
def test_every_objective_of_lightgbm_is_watched_by_the_stored_score(
    train: Any, valid: Any, objective: str, booster: str, free: bool
) -> None:
    check_watch(train, valid, objective, booster, free)
    with expect_refusal((objective, booster) == UNDONE and free):
        handed_over(train, valid, objective, booster, free)


def test_the_round_is_kept_whose_stored_score_is_best(train: Any, valid: Any) -> None:
    params, metrics = lightgbm_params("binary"), [parse_metric("log_loss")]
    whole = lightgbm.train(params, lightgbm_sets(train, valid, "binary")[0], 30)
    curve = [means(valid, lightgbm_scores(whole, valid.X, at), metrics)[0] for at in range(1, 31)]
    best = int(np.argmin(curve)) + 1
    assert 1 < best < 30  # by probabilities every round is better than the one before
    watch = in_lightgbm.Watch("log_loss", patience=30)
    stop = in_lightgbm.stop_early("log_loss", patience=30)
    for callback, feval in ((watch, None), (stop, in_lightgbm.feval("log_loss"))):
        data, held_out = lightgbm_sets(train, valid, "binary")
        model = lightgbm.train(params, data, 30, valid_sets=[held_out], callbacks=[callback], feval=feval)
        assert model.current_iteration() == best
        assert means(valid, lightgbm_scores(model, valid.X))[0] == pytest.approx(min(curve), abs=1e-12)
    assert watch.best_round == stop.best_round == best
    assert watch.best_value == pytest.approx(min(curve), abs=1e-12)


@pytest.mark.parametrize("objective", ["regression_l1", "multiclass"])
def test_scores_are_of_the_model_that_dart_stores_after_a_step_without_a_tree(
    train: Any, valid: Any, objective: str
) -> None:
    """LightGBM then keeps the trees turned round that it had dropped for the step, and goes on as if it had not."""
    params = {**lightgbm_params(objective, "dart"), "min_gain_to_split": 10.0}

    def trained(hook: str, free: bool) -> tuple[Any, Any]:
        data, held_out = lightgbm_sets(train, valid, objective, free)
        watch = in_lightgbm.Watch(*METRICS, patience=None, every=3 if hook == "watch" else 1)
        curves: dict[str, Any] = {"valid_0": {}}
        more: dict[str, Any] = {"callbacks": [watch]}
        if hook == "feval":
            metrics = in_lightgbm.feval(*METRICS)
            more = {"feval": metrics, "callbacks": [lightgbm.record_evaluation(curves)]}
        model = lightgbm.train(params, data, 30, valid_sets=[held_out], **more)
        return model, curve_of(watch) if hook == "watch" else curves["valid_0"]

    for hook, free in (("watch", True), ("feval", False)):
        model, curve = trained(hook, free)
        assert model.current_iteration() < 30, "some step found no split"
        last = [curve[str(metric)][-1] for metric in METRICS]
        np.testing.assert_allclose(last, means(valid, lightgbm_scores(model, valid.X)), rtol=0, atol=1e-12)
    with pytest.raises(UsageError, match=r"DART found no split.*free_raw_data"):
        trained("feval", free=True)


def test_a_curve_ends_with_the_model_that_dart_stores(train: Any, valid: Any) -> None:
    """Its last step finds no split, so that the model changes and has no round more."""
    check_watch(train, valid, *UNDONE, free=True)


@pytest.fixture(scope="module")
def separable(train: Any) -> Any:
    """Rows that a tree tells apart without error, so that probabilities come near to 1."""
    labels = np.clip(np.round(train.X[:, 0] + 2.0), 0, 4)
    return SimpleNamespace(X=train.X, labels=labels, sizes=train.sizes)


def saturating_params() -> dict[str, Any]:
    return {**GROWN, "objective": "binary", "min_sum_hessian_in_leaf": 1e-9, "learning_rate": 1.0}


@pytest.mark.long
def test_a_saturated_link_is_refused_where_the_rows_are_gone(separable: Any) -> None:
    def trained(free: bool, **more: Any) -> Any:
        data, held_out = lightgbm_sets(separable, separable, "binary", free)
        return lightgbm.train(saturating_params(), data, 25, valid_sets=[held_out], **more)

    watch, curves = in_lightgbm.Watch(*METRICS, patience=None), {}
    model = trained(True, callbacks=[watch])
    assert np.abs(lightgbm_scores(model, separable.X)).max() > 17, "the link is saturated"
    check(curve_of(watch), model, separable, lightgbm_scores)
    with pytest.raises(
        UsageError,
        match=r"objective binary, such as 0\.9999.*not its raw scores.*cannot be recovered.*expected Watch\(",
    ):
        trained(True, feval=in_lightgbm.feval("ndcg@10"))
    # where LightGBM keeps the rows, nothing has to be inverted
    model = trained(False, feval=in_lightgbm.feval(*METRICS), callbacks=[lightgbm.record_evaluation(curves)])
    check(curves["valid_0"], model, separable, lightgbm_scores)


def test_a_watch_goes_by_the_order_of_scores_that_share_a_probability(separable: Any) -> None:
    """The trees cannot tell grades 2 to 4 apart, so that their rows differ by the last bits of scores alone."""
    data, held_out = lightgbm_sets(separable, separable, "binary")
    watch = in_lightgbm.Watch("ndcg@10", patience=None)
    model = lightgbm.train(saturating_params(), data, 25, valid_sets=[held_out], callbacks=[watch])
    metric = [parse_metric("ndcg@10")]
    by_probability = [
        means(separable, model.predict(separable.X, num_iteration=at), metric)[0] for at in range(1, 26)
    ]
    by_score = [means(separable, lightgbm_scores(model, separable.X, at), metric)[0] for at in range(1, 26)]
    assert by_probability != by_score
    assert [at.value for at in watch.history] == by_score


def test_metrics_that_are_called_by_hand_refuse_those_of_size(train: Any) -> None:
    data, _ = lightgbm_sets(train, train, "lambdarank")
    matrix = xgboost.DMatrix(train.X, label=train.labels, group=train.sizes)
    scores = np.arange(len(train.X)) / len(train.X)
    cure = r"log_loss depends on the size of scores.*ltr_harness\.evaluate\("
    with pytest.raises(UsageError, match=cure):
        in_lightgbm.feval("mrr", "log_loss")(scores, data.construct())
    with pytest.raises(UsageError, match=cure):
        in_lightgbm.eval_metric("log_loss")(train.labels, scores, None, train.sizes)
    with pytest.raises(UsageError, match=cure):
        in_xgboost.custom_metric("log_loss")(scores, matrix)
    found = in_lightgbm.feval("mrr")(scores, data)[0][1]
    assert found == means(train, scores, [parse_metric("mrr")])[0]


def test_scores_that_someone_else_hands_on_are_taken_as_they_are(train: Any, valid: Any) -> None:
    """A function of your own may pass on scores whose link is inverted already: nobody can know."""
    ours = in_lightgbm.feval("ndcg@10", "log_loss")
    data, held_out = lightgbm_sets(train, valid, "binary")
    with pytest.raises(UsageError, match="outside of a booster of LightGBM these may be raw scores or"):
        lightgbm.train(
            lightgbm_params("binary"),
            data,
            2,
            valid_sets=[held_out],
            feval=lambda scores, of: ours(np.log(scores / (1 - scores)), of),
        )


def evaluation_arguments(ranker: Any, split: Any, *, grouped: bool = True) -> dict[str, Any]:
    """Arguments of an evaluation set of LightGBM's classes."""
    one_by_one = "eval_X" in signature(ranker.fit).parameters
    rows = (
        {"eval_X": split.X, "eval_y": split.labels} if one_by_one else {"eval_set": [(split.X, split.labels)]}
    )
    return {**rows, "eval_group": [split.sizes]} if grouped else rows


def in_classes(train: Any, valid: Any, objective: str, booster: str) -> None:
    params = lightgbm_params(objective, booster)
    ranker = lightgbm.LGBMRanker(n_estimators=ROUNDS, **params)
    rows = train.X, labels_for(objective.partition("+")[0], train)
    metrics = METRICS[:3] if booster in ROUNDED else METRICS
    watch = in_lightgbm.Watch(*METRICS, patience=None)
    ranker.fit(
        *rows,
        group=train.sizes,
        eval_metric=in_lightgbm.eval_metric(*metrics),
        callbacks=[watch],
        **evaluation_arguments(ranker, valid),
    )
    last = booster == "dart"
    check(curve_of(watch), ranker.booster_, valid, lightgbm_scores, last=last)
    check(ranker.evals_result_["valid_0"], ranker.booster_, valid, lightgbm_scores, last=last)


def in_other_classes(train: Any, valid: Any, objective: str, kind: type[Any]) -> None:
    watch = in_lightgbm.Watch(*METRICS, patience=None, judgments={"valid_0": judgments_of_split(valid)})
    params = lightgbm_params(objective)
    model = kind(n_estimators=ROUNDS, **params)
    binary = SimpleNamespace(X=valid.X, labels=labels_for(objective, valid))
    model.fit(
        train.X,
        labels_for(objective, train),
        callbacks=[watch],
        **evaluation_arguments(model, binary, grouped=False),
    )
    check(curve_of(watch), model.booster_, valid, lightgbm_scores)


@every_kind
def test_lightgbms_ranker_reports_the_stored_score(
    train: Any, valid: Any, objective: str, booster: str
) -> None:
    if objective != "multiclass":  # a ranker of LightGBM has one score
        in_classes(train, valid, objective, booster)


@pytest.mark.parametrize(
    ("objective", "kind"),
    [
        ("binary", lightgbm.LGBMClassifier),
        ("multiclass", lightgbm.LGBMClassifier),
        ("tweedie", lightgbm.LGBMRegressor),
    ],
)
def test_lightgbms_other_classes_are_watched_by_the_stored_score(
    train: Any, valid: Any, objective: str, kind: type[Any]
) -> None:
    in_other_classes(train, valid, objective, kind)


@pytest.mark.slow
@every_one
def test_every_objective_of_lightgbms_ranker(train: Any, valid: Any, objective: str, booster: str) -> None:
    if objective != "multiclass":
        with expect_refusal((objective, booster) == UNDONE):
            in_classes(train, valid, objective, booster)


def in_cv(train: Any, objective: str, booster: str) -> None:
    """One fold, whose second half of the queries is held out."""
    half = int(train.sizes[: len(train.sizes) // 2].sum())
    rows = np.arange(len(train.X))
    data, _ = lightgbm_sets(train, train, objective, free=booster != "dart")
    metrics = METRICS[:3] if booster in ROUNDED else METRICS
    grades = SimpleNamespace(labels=labels_for(objective.partition("+")[0], train))
    found = lightgbm.cv(
        lightgbm_params(objective, booster),
        data,
        ROUNDS,
        folds=[(rows[:half], rows[half:])],
        feval=in_lightgbm.feval(*metrics),
        return_cvbooster=True,
    )
    valid = SimpleNamespace(
        X=train.X[half:], labels=grades.labels[half:], sizes=train.sizes[len(train.sizes) // 2 :]
    )
    curves = {str(metric): found[f"valid {metric}-mean"] for metric in metrics}
    check(curves, found["cvbooster"].boosters[0], valid, lightgbm_scores, last=booster == "dart")


@every_kind
def test_cv_of_lightgbm_reports_the_stored_score(train: Any, objective: str, booster: str) -> None:
    in_cv(train, objective, booster)


@pytest.mark.slow
@every_one
def test_every_objective_in_cv_of_lightgbm(train: Any, objective: str, booster: str) -> None:
    in_cv(train, objective, booster)


@pytest.mark.parametrize("booster", ["gbdt", "dart"])  # a random forest of LightGBM goes on from none
def test_training_that_goes_on_counts_the_scores_before(train: Any, valid: Any, booster: str) -> None:
    params = lightgbm_params("binary", booster)
    data, _ = lightgbm_sets(train, valid, "binary")
    before = lightgbm.train(params, data, 5)
    for hook in ("watch", "feval", "feval with rows"):
        data, held_out = lightgbm_sets(train, valid, "binary", free=hook != "feval with rows")
        watch = in_lightgbm.Watch(*METRICS, patience=None)
        curves: dict[str, Any] = {}
        record = lightgbm.record_evaluation(curves)
        model = lightgbm.train(
            params,
            data,
            4,
            valid_sets=[held_out],
            init_model=before,
            feval=None if hook == "watch" else in_lightgbm.feval(*METRICS[:3]),
            callbacks=[watch] if hook == "watch" else [record],
        )
        assert model.current_iteration() == 9
        reported = curve_of(watch) if hook == "watch" else curves["valid_0"]
        last = {name: values[-1] for name, values in reported.items()}
        expected = means(valid, lightgbm_scores(model, valid.X))
        found = [last[str(metric)] for metric in METRICS if str(metric) in last]
        np.testing.assert_allclose(found, expected[: len(found)], rtol=0, atol=1e-12)


def test_scores_that_a_set_brings_along_are_added(train: Any, valid: Any) -> None:
    start = np.linspace(-1, 1, len(valid.X))
    data = lightgbm.Dataset(
        train.X, label=labels_for("binary", train), group=train.sizes, init_score=np.zeros(len(train.X))
    )
    held_out = lightgbm.Dataset(
        valid.X, label=valid.labels, group=valid.sizes, init_score=start, reference=data
    )
    watch = in_lightgbm.Watch(*METRICS, patience=None)
    model = lightgbm.train(lightgbm_params("binary"), data, 4, valid_sets=[held_out], callbacks=[watch])
    check(curve_of(watch), model, valid, lambda *of: start + lightgbm_scores(*of))


def test_a_watch_lets_go_of_the_rows(train: Any, valid: Any) -> None:
    class Rows(np.ndarray):  # which can be referred to weakly
        pass

    def watched(objective: str) -> tuple[Any, weakref.ref[Any]]:
        watch, X = in_lightgbm.Watch("log_loss", patience=3), valid.X.view(Rows)
        data, _ = lightgbm_sets(train, valid, objective)
        held_out = lightgbm.Dataset(X, label=valid.labels, group=valid.sizes, reference=data)
        lightgbm.train(lightgbm_params(objective), data, 4, valid_sets=[held_out], callbacks=[watch])
        return watch, weakref.ref(X)

    (watch, rows), (_, rows_without_link) = watched("binary"), watched("lambdarank")
    gc.collect()
    assert rows() is rows_without_link() is None
    assert pickle.loads(pickle.dumps(watch)).history == watch.history


@pytest.mark.parametrize("every", [1, 4])
def test_an_experiments_lightgbm_keeps_the_round_of_the_stored_score(
    train: Any, valid: Any, every: int
) -> None:
    ranker = catalog.load("lightgbm").model_validate(
        {"objective": "binary", "relevant": 2, "params": {"num_leaves": 7, "learning_rate": 0.3}}
    )
    learned, held_out = (
        RankingDataset(split.X, judgments_of_split(split), tuple("abcdef"), source="made")
        for split in (train, valid)
    )
    rule = StoppingRule(parse_metric("log_loss"), patience=30, every=every, max_rounds=30)
    for seed in (1, 2):  # the second training gets the data that the first has binned
        model = ranker.fit(
            Training(train=learned, valid=held_out, seed=seed, metrics=METRICS[:2], stopping=rule)
        )
        best = model.best_round
        assert 1 < best < 30
        at_best = [one.value for one in model.history if one.round == best]
        np.testing.assert_allclose(
            at_best, means(valid, model.score(valid.X), METRICS[:2]), rtol=0, atol=1e-12
        )
        curve = {one.round: one.value for one in model.history if one.metric == "log_loss"}
        assert min(curve, key=lambda round_: (curve[round_], round_)) == best


# --- XGBoost ---

XGBOOST_BOOSTERS: dict[str, dict[str, Any]] = {
    "gbtree": {},
    "dart": {"booster": "dart", "rate_drop": 0.3},
    "rf": {"num_parallel_tree": 4, "subsample": 0.7},
    "gblinear": {"booster": "gblinear"},
}
XGBOOST = [
    name
    for name in xgboost_parameters.OBJECTIVES
    if name != xgboost_parameters.XENDCG
    and Version(xgboost.__version__) >= Version(xgboost_parameters._SINCE.get(name, "0"))
]


def xgboost_params(objective: str, booster: str = "gbtree") -> dict[str, Any]:
    grown = {"eta": 0.3, "max_depth": 4, "nthread": 1, "seed": 1, "disable_default_eval_metric": 1}
    own = xgboost_parameters.OBJECTIVES[objective]
    params = {**grown, "objective": objective, **own, **XGBOOST_BOOSTERS[booster]}
    if booster == "gblinear":
        del params["max_depth"]
    return {**params, "num_class": 5} if objective.startswith("multi") else params


def xgboost_matrix(split: Any, labels: Any = None) -> Any:
    return xgboost.DMatrix(split.X, label=split.labels if labels is None else labels, group=split.sizes)


def xgboost_scores(booster: Any, rows: Any, rounds: int = 0) -> Any:
    matrix = rows if isinstance(rows, xgboost.DMatrix) else xgboost.DMatrix(rows)
    scores = booster.predict(matrix, output_margin=True, iteration_range=(0, rounds))
    return expected_grade(booster.predict(matrix, iteration_range=(0, rounds))) if scores.ndim > 1 else scores


_SIX_DECIMALS = 1e-6
"""XGBoost passes what a `custom_metric` reports through text."""
_FLOAT32 = 2e-6
"""DART's running sums, which XGBoost keeps as float32, are rounded otherwise than sums over its trees."""


def in_xgboosts_train(train: Any, valid: Any, objective: str, booster: str) -> None:
    watch = in_xgboost.Watch(*METRICS, patience=None)
    curves: dict[str, Any] = {}
    model = xgboost.train(
        xgboost_params(objective, booster),
        xgboost_matrix(train, labels_for(objective, train)),
        ROUNDS,
        evals=[(xgboost_matrix(valid), "valid")],
        custom_metric=in_xgboost.custom_metric(*METRICS[:2], METRICS[3]),
        callbacks=[watch],
        evals_result=curves,
        verbose_eval=False,
    )
    last, atol = booster in ("dart", "gblinear"), _FLOAT32 if booster == "dart" else 1e-12
    check(curve_of(watch), model, valid, xgboost_scores, last=last, atol=atol)
    by_custom_metric = {name: curves["valid"][name] for name in ("brier", "log_loss", "ndcg@10")}
    check(by_custom_metric, model, valid, xgboost_scores, last=last, atol=_FLOAT32)


@pytest.mark.parametrize(
    ("objective", "booster"),
    [
        ("binary:logistic", "gbtree"),
        ("count:poisson", "rf"),
        ("reg:logistic", "dart"),
        ("reg:tweedie", "gblinear"),
        ("rank:ndcg", "gbtree"),
        ("multi:softprob", "gbtree"),
    ],
)
def test_xgboost_reports_the_stored_score(train: Any, valid: Any, objective: str, booster: str) -> None:
    in_xgboosts_train(train, valid, objective, booster)


@pytest.mark.slow
@pytest.mark.parametrize("booster", XGBOOST_BOOSTERS)
@pytest.mark.parametrize("objective", XGBOOST)
def test_every_objective_of_xgboost(train: Any, valid: Any, objective: str, booster: str) -> None:
    in_xgboosts_train(train, valid, objective, booster)


def in_xgboosts_cv(train: Any, objective: str) -> None:
    folds: list[Any] = []

    class Keeping(xgboost.callback.TrainingCallback):  # type: ignore[misc]  # untyped base
        def after_training(self, model: Any) -> Any:
            folds.extend(model.cvfolds)
            return model

    found = xgboost.cv(
        xgboost_params(objective),
        xgboost_matrix(train, labels_for(objective, train)),
        ROUNDS,
        nfold=2,
        custom_metric=in_xgboost.custom_metric(*METRICS[:2]),
        callbacks=[Keeping()],
        as_pandas=False,
    )
    for round_ in range(1, ROUNDS + 1):
        by_fold = []
        for fold in folds:
            scores = xgboost_scores(fold.bst, fold.dtest, round_)
            by_fold.append(bind(METRICS[:2], judgments_of(fold.dtest)).means(scores))
        reported = [found[f"test-{metric}-mean"][round_ - 1] for metric in METRICS[:2]]
        np.testing.assert_allclose(reported, np.mean(by_fold, axis=0), rtol=0, atol=_SIX_DECIMALS)


@pytest.mark.parametrize(
    "objective",
    [
        "binary:logistic",
        *(pytest.param(name, marks=pytest.mark.slow) for name in XGBOOST if name != "binary:logistic"),
    ],
)
def test_cv_of_xgboost_reports_the_stored_score(train: Any, objective: str) -> None:
    in_xgboosts_cv(train, objective)


@pytest.mark.parametrize(
    ("objective", "kind"),
    [
        ("binary:logistic", xgboost.XGBClassifier),
        ("multi:softprob", xgboost.XGBClassifier),
        ("count:poisson", xgboost.XGBRegressor),
    ],
)
def test_xgboosts_classes_are_watched_by_the_stored_score(
    train: Any, valid: Any, objective: str, kind: type[Any]
) -> None:
    watch = in_xgboost.Watch(*METRICS, patience=None, judgments={"validation_0": judgments_of_split(valid)})
    params = {name: value for name, value in xgboost_params(objective).items() if name != "num_class"}
    model = kind(n_estimators=ROUNDS, callbacks=[watch], **params)
    rows = valid.X, labels_for(objective, valid)
    model.fit(train.X, labels_for(objective, train), eval_set=[rows], verbose=False)
    check(curve_of(watch), model.get_booster(), valid, xgboost_scores)


# --- CatBoost ---


@pytest.mark.parametrize("loss", ["Logloss", "MultiClass", "Poisson"])
def test_a_classifier_of_catboost_is_cut_by_the_stored_score(train: Any, valid: Any, loss: str) -> None:
    catboost = pytest.importorskip("catboost", reason="needs ltr-harness[catboost]")
    from ltr_harness.boosting.catboost import best_round

    kind = catboost.CatBoostRegressor if loss == "Poisson" else catboost.CatBoostClassifier
    quiet = {"thread_count": 1, "verbose": False, "allow_writing_files": False}
    labels = train.labels if loss != "Logloss" else labels_for("binary", train)
    model = kind(iterations=ROUNDS, learning_rate=0.5, depth=4, loss_function=loss, **quiet).fit(
        train.X, labels
    )
    held_out = catboost.Pool(
        valid.X, valid.labels, group_id=np.repeat(np.arange(len(valid.sizes)), valid.sizes)
    )
    history = best_round(model, held_out, *METRICS, threads=1).history
    curve = {str(metric): [at.value for at in history if at.metric == str(metric)] for metric in METRICS}

    def scores(model: Any, X: Any, rounds: int) -> Any:
        predict = catboost.CatBoost.predict
        if loss == "MultiClass":
            return expected_grade(predict(model, X, "Probability", ntree_end=rounds), model.classes_)
        return predict(model, X, "RawFormulaVal", ntree_end=rounds)

    check(curve, model, valid, scores)
