"""Pointwise objectives: the library's own trees, the raw margin as the score, our metric to stop on, and refusals."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest
import xgboost

from ltr_harness.boosting.stopping import StoppingRule
from ltr_harness.data.judgments import Judgments
from ltr_harness.metrics import NDCG, LogLoss, Metric, bind
from ltr_harness.models.objectives import _REFUSED, BINARY, CATBOOST
from ltr_harness.models.presets import PRESETS, SPACES
from ltr_harness.models.ranker import Training, TrainingFacts
from ltr_harness.models.table import catalog
from tests.conftest import named_case

RULE = StoppingRule(NDCG(k=10), patience=2, max_rounds=6)
SHARES = {"cross_entropy", "cross_entropy_lambda", "reg:logistic", "CrossEntropy"}
POSITIVE = {"gamma", "reg:gamma", "RMSPE"}
COUNTS = {"poisson", "tweedie", "count:poisson", "reg:tweedie", "Poisson", "Tweedie:variance_power=1.5"}


def listed_by_xgboost() -> set[str]:
    """The objectives of the installed version, as its refusal of another has them."""
    data = xgboost.DMatrix(np.eye(2), label=[0, 1])
    with pytest.raises(xgboost.core.XGBoostError) as refusal:
        xgboost.train({"objective": "none"}, data, 1)
    return set(re.findall(r"candidate: (\S+)", str(refusal.value)))


LISTED = listed_by_xgboost()
LATER = {"reg:expectileerror"} - LISTED
LIGHTGBM = """
    regression regression_l1 huber fair quantile mape poisson gamma tweedie binary cross_entropy
    cross_entropy_lambda"""
XGBOOST = """
    reg:squarederror reg:squaredlogerror reg:absoluteerror reg:pseudohubererror reg:quantileerror reg:gamma
    reg:tweedie reg:logistic count:poisson binary:logistic binary:logitraw binary:hinge reg:expectileerror"""
OF_CATBOOST = """
    RMSE MAE MAPE RMSPE LogCosh Huber:delta=1 Lq:q=3 Quantile:alpha=0.7 GroupQuantile:alpha=0.7 LogLinQuantile
    Expectile:alpha=0.3 Poisson Tweedie:variance_power=1.5 Logloss Focal:focal_alpha=0.3;focal_gamma=2
    CrossEntropy"""
SMALL = {"lightgbm": {"num_leaves": 6}, "xgboost": {"max_depth": 3}, "catboost": {"depth": 3}}
OBJECTIVES = {
    library: [objective for objective in text.split() if objective not in LATER]
    for library, text in (("lightgbm", LIGHTGBM), ("xgboost", XGBOOST), ("catboost", OF_CATBOOST))
}
ALL = [
    pytest.param(library, objective, id=f"{library}-{objective}")
    for library, objectives in OBJECTIVES.items()
    for objective in objectives
]
each = pytest.mark.parametrize(("library", "objective"), ALL)
each_library = pytest.mark.parametrize("library", OBJECTIVES)


@pytest.fixture(autouse=True)
def _installed(request: pytest.FixtureRequest) -> None:
    if "catboost" in request.node.name:
        pytest.importorskip("catboost", reason="the extra `catboost` is not installed")


def is_binary(objective: str) -> bool:
    return objective.partition(":")[0] in BINARY or objective in BINARY


def make_ranker(library: str, objective: str, **more: Any) -> Any:
    fields = {"objective": objective, "params": SMALL[library], **more}
    if is_binary(objective):
        fields.setdefault("relevant", 2)
    return catalog.load(library).model_validate_json(json.dumps(fields), strict=True)


def with_labels(data: Any, objective: str) -> Any:
    """The data with labels that the objective takes: grades, and for two kinds something made of them."""
    labels = (
        data.labels / 4 if objective in SHARES else data.labels + 1 if objective in POSITIVE else data.labels
    )
    judged = Judgments.checked(labels, data.groups, query_weights=data.judgments.query_weights)
    return replace(data, judgments=judged)


def train_library(library: str, objective: str, data: Any, rounds: int, params: Any = None) -> Any:
    """The library by itself on 0 and 1 where it asks for those: a model, and its raw scores by rounds."""
    labels = (data.labels >= 2).astype(float) if is_binary(objective) else data.labels
    weights = np.repeat(data.judgments.query_weights, data.groups.sizes)
    given = SMALL[library] | (params or {})
    if library == "lightgbm":
        quiet = {"verbosity": -1, "num_threads": 1, "seed": 0, "deterministic": True, "force_row_wise": True}
        set_ = lightgbm.Dataset(data.features, labels, weight=weights, params=quiet)
        booster = lightgbm.train({"objective": objective, **given, **quiet}, set_, rounds)
        return booster, lambda X, n: booster.predict(X, raw_score=True, num_iteration=n)
    if library == "xgboost":
        set_ = xgboost.QuantileDMatrix(data.features, labels, weight=weights)
        shares = {"reg:quantileerror": "quantile_alpha", "reg:expectileerror": "expectile_alpha"}
        quantile = {shares[objective]: 0.5} if objective in shares else {}
        params = {"objective": objective, "nthread": 1, "verbosity": 0, **quantile, **given}
        params["disable_default_eval_metric"] = 1  # that of reg:pseudohubererror fails in 2.0.0
        booster = xgboost.train(params, set_, rounds)
        return booster, lambda X, n: booster.inplace_predict(X, predict_type="margin", iteration_range=(0, n))
    import catboost

    groups = {"group_id": np.repeat(range(data.n_queries), data.groups.sizes)}
    groups["group_weight" if objective.startswith("Group") else "weight"] = weights
    pool = catboost.Pool(data.features, labels, **groups)
    quiet = {"thread_count": 1, "random_seed": 0, "allow_writing_files": False, "logging_level": "Silent"}
    model = catboost.CatBoost({"loss_function": objective, "iterations": rounds, **given, **quiet}).fit(pool)
    return model, lambda X, n: model.predict(X, prediction_type="RawFormulaVal", ntree_end=n)


def trees(library: str, model: Any, folder: Path) -> Any:
    """Every tree of a model, to the bit, and what is added to their sum."""
    if library == "lightgbm":
        return model.model_to_string().partition("Tree=0")[2].partition("end of trees")[0]
    if library == "xgboost":
        model.feature_names = None
        config = json.loads(model.save_config())["learner"]["learner_model_param"]["base_score"]
        return [config, *model.get_dump(dump_format="json", with_stats=True)]
    model.save_model(str(folder / "model.json"), format="json")
    content = json.loads((folder / "model.json").read_text())
    return content["oblivious_trees"], content["scale_and_bias"]


# what is minimised by one objective of each library, and maximised by all
LOWER = [("lightgbm", "binary"), ("xgboost", "binary:logistic"), ("catboost", "Logloss")]


@pytest.mark.parametrize(
    ("library", "objective", "metric"),
    [
        *(pytest.param(*one.values, NDCG(k=10), id=one.id) for one in ALL),
        *(pytest.param(*one, LogLoss(), id=f"{one[0]}-{one[1]}-log_loss") for one in LOWER),
    ],
)
def test_trees_are_the_librarys_own_and_the_score_is_its_margin(
    library: str, objective: str, metric: Metric, make_dataset: Any, tmp_path: Path
) -> None:
    train, valid = with_labels(make_dataset(1, weights=True), objective), make_dataset(2, weights=True)
    ranker = make_ranker(library, objective)
    assert ranker.check(TrainingFacts.of(train, stopping=True)) == []
    rule = replace(RULE, metric=metric)
    model = ranker.fit(Training(train=train, valid=valid, stopping=rule, metrics=(metric,)))
    _, scores = train_library(library, objective, train, RULE.max_rounds)
    # it stops where our metric of the grades is best, evaluated on the margin of each stage
    binding = bind([metric], valid.judgments)
    seen = [point.value for point in model.history]  # to where patience runs out
    curve = [float(binding.means(scores(valid.features, n))[0]) for n in range(1, len(seen) + 1)]
    assert seen == pytest.approx(curve, abs=1e-12)
    best = max(seen) if metric.higher_is_better else min(seen)
    assert model.best_round == 1 + seen.index(best)
    assert len(seen) == min(model.best_round + RULE.patience, RULE.max_rounds)
    assert np.ptp(model.score(valid.features)) > 0
    np.testing.assert_array_equal(model.score(valid.features), scores(valid.features, model.best_round))
    theirs, _ = train_library(library, objective, train, model.best_round)
    assert trees(library, model.booster, tmp_path) == trees(library, theirs, tmp_path)
    # the stored model scores the same, and so do the shares of features together
    model.save(tmp_path)
    loaded = catalog.load(library).load(tmp_path)
    np.testing.assert_array_equal(loaded.score(valid.features), model.score(valid.features))
    shares = loaded.contributions(valid.features[:20])
    np.testing.assert_allclose(shares.sum(axis=1), model.score(valid.features[:20]), atol=2e-5)


@each
def test_presets_and_search_spaces_are_there(library: str, objective: str, train: Any) -> None:
    data = with_labels(train, objective)
    for preset in ("small", "web"):
        ranker = make_ranker(library, objective, preset=preset, params={})
        assert ranker.check(TrainingFacts.of(data, stopping=True)) == []
        assert ranker.seed_matters
        assert ranker.search_space() == SPACES[library, ranker.loss]
    assert {"small", "web"} == PRESETS[library, ranker.loss].keys()
    model = make_ranker(library, objective, preset="small", params={}).fit(Training(train=data, rounds=2))
    assert np.ptp(model.score(data.features)) > 0
    assert not any("constant" in note for note in map(str, model.cautions))


@each
def test_training_goes_on_from_a_model(library: str, objective: str, train: Any, tmp_path: Path) -> None:
    data = with_labels(train, objective)
    first = make_ranker(library, objective).fit(Training(train=data, rounds=2))
    first.save(tmp_path)
    more = make_ranker(library, objective, init_model=str(tmp_path)).fit(Training(train=data, rounds=1))
    assert more.booster.num_trees() == 3 if library == "lightgbm" else more.best_round == 3
    before = more.score_after(data.features, 2)
    np.testing.assert_allclose(before, first.score(data.features), rtol=0, atol=1e-6)


# the leaves of these are set after their trees, by rules that would undo the constraint
NOT_MONOTONE = {
    "regression_l1": "Cannot use ``monotone_constraints`` in regression_l1 objective",
    "quantile": "Cannot use ``monotone_constraints`` in quantile objective",
    "mape": "Cannot use ``monotone_constraints`` in mape objective",
    "LogCosh": "Monotone constraints are unsupported for Exact leaves estimation method",
}


@each
def test_a_monotone_feature_never_lowers_the_score_or_is_refused(
    library: str, objective: str, train: Any
) -> None:
    data = with_labels(train, objective)
    ranker = make_ranker(library, objective, monotone={"bm25": 1})
    problems = ranker.check(TrainingFacts.of(data, stopping=False))
    if objective in NOT_MONOTONE:
        assert NOT_MONOTONE[objective] in str(problems[0])
        return
    assert problems == []
    model = ranker.fit(Training(train=data, rounds=3))
    steps = np.repeat(data.features[:20], 9, axis=0)
    steps[:, 0] = np.tile(np.linspace(-3, 3, 9), 20)
    assert (np.diff(model.score(steps).reshape(20, 9), axis=1) >= 0).all()


@each_library
def test_what_has_no_meaning_for_it_is_refused(library: str, problem_texts: Any) -> None:
    unbiased = "is not available with CatBoost" if library == "catboost" else "no effect"
    for objective in OBJECTIVES[library]:
        with named_case(objective):
            fields = {} if is_binary(objective) else {"relevant": 1}
            ranker = make_ranker(library, objective, position_bias=True, drop_blank=True, **fields)
            found = problem_texts(ranker.check())
            assert "has no effect" in found["drop_blank"]
            assert unbiased in found["position_bias"]
            if fields:
                assert f"has no effect with the objective {ranker.loss}; leave it out" in found["relevant"]


class TestRelevant:
    def test_the_target_is_1_from_the_grade_on_and_evaluation_keeps_the_grades(
        self, train: Any, valid: Any
    ) -> None:
        for library, objective in (
            ("lightgbm", "binary"),
            ("xgboost", "binary:logistic"),
            ("catboost", "Logloss"),
        ):
            model = make_ranker(library, objective, relevant=3).fit(
                Training(train=train, valid=valid, rounds=4, metrics=(NDCG(k=10),))
            )
            # another grade is another target, also where the library's data are shared
            other = make_ranker(library, objective, relevant=2).fit(
                Training(train=train, valid=valid, rounds=4)
            )
            assert not np.array_equal(model.score(train.features), other.score(train.features))
            assert model.params["relevant"] == 3
            expected = bind([NDCG(k=10)], valid.judgments).means(model.score(valid.features))[0]
            assert model.history[-1].value == pytest.approx(expected, abs=1e-12)
            binary = replace(train, judgments=replace(train.judgments, labels=(train.labels >= 3) * 1.0))
            same = make_ranker(library, objective, relevant=1).fit(Training(train=binary, rounds=4))
            np.testing.assert_array_equal(model.score(train.features), same.score(train.features))

    @pytest.mark.parametrize(
        ("library", "objective"), [case for case in ALL if is_binary(str(case.values[1]))]
    )
    def test_it_has_to_be_given_and_to_tell_rows_apart(
        self, library: str, objective: str, facts: Any, problem_texts: Any, train: Any
    ) -> None:
        def problem(relevant: int | None) -> str:
            return str(
                problem_texts(make_ranker(library, objective, relevant=relevant).check(facts())).get(
                    "relevant"
                )
            )

        loss = make_ranker(library, objective).loss
        assert problem(None) == (
            f"relevant: not given: {loss} has only relevant and not relevant; expected the lowest label that "
            "counts as relevant in training, such as relevant: 1"
        )
        assert "found 0: every document would be relevant; expected at least 1" in problem(0)
        assert "no training label reaches 5; expected at most 4" in problem(5)
        assert problem(4) == "None"
        all_good = TrainingFacts.of(
            replace(train, judgments=Judgments(train.labels + 2, train.groups)), stopping=False
        )
        text = problem_texts(make_ranker(library, objective).check(all_good))["relevant"]
        assert "every training label reaches 2; expected more than 2, the smallest label" in text

    def test_definitions_of_earlier_runs_are_what_they_were(self) -> None:
        pytest.importorskip("catboost", reason="the extra `catboost` is not installed")
        named = {library: set(catalog.load(library)().definition()) for library in SMALL}
        assert {library for library in named if "relevant" in named[library]} == {"xgboost"}
        assert "data_parallel" not in named["lightgbm"] | named["xgboost"]
        assert make_ranker("lightgbm", "binary").definition()["relevant"] == 2


LABELS = [
    (SHARES, [0, 2], "training labels are from 0 to 2; expected labels from 0 to 1, not all 0"),
    (SHARES, [0, 0], "training labels are from 0 to 0; expected labels from 0 to 1, not all 0"),
    (COUNTS, [-1, 2], "training labels are from -1 to 2; expected labels of at least 0, not all 0"),
    (COUNTS, [0, 0], "training labels are from 0 to 0; expected labels of at least 0, not all 0"),
    (POSITIVE, [0, 2], "training labels are from 0 to 2; expected labels above 0"),
    ({"reg:squaredlogerror"}, [-1, 2], "training labels are from -1 to 2; expected labels above -1"),
]


@each_library
def test_labels_outside_its_domain_are_refused_before_training(
    library: str, train: Any, problem_texts: Any
) -> None:
    for objectives, ends, words in LABELS:
        labels = np.resize(np.asarray(ends, dtype=float), train.n_rows)
        facts = replace(
            TrainingFacts.of(train, stopping=False),
            judgments=Judgments(labels, train.groups),
            max_label=max(ends),
        )
        for objective in OBJECTIVES[library]:
            with named_case((objective, ends)):
                text = problem_texts(make_ranker(library, objective).check(facts)).get("objective", "")
                assert (words in text) == (objective in objectives)
                if text:
                    assert text.endswith("; map them with data.grades, or use squared error")


OTHER = [
    ("lightgbm", "binary", "alpha"),
    ("lightgbm", "regression", "scale_pos_weight"),
    ("lightgbm", "huber", "fair_c"),
    ("lightgbm", "poisson", "tweedie_variance_power"),
    ("lightgbm", "cross_entropy", "pos_bagging_fraction"),
    ("xgboost", "reg:squarederror", "huber_slope"),
    ("xgboost", "binary:hinge", "scale_pos_weight"),
    ("xgboost", "binary:logistic", "ndcg_exp_gain"),
    ("xgboost", "reg:tweedie", "quantile_alpha"),
]


@pytest.mark.parametrize(("library", "objective", "name"), OTHER)
def test_parameters_of_other_losses_are_refused(
    library: str, objective: str, name: str, problem_texts: Any
) -> None:
    found = problem_texts(make_ranker(library, objective, params={name: 0.5}).check())[f"params.{name}"]
    assert f"{name} has no effect with the objective {objective}; leave it out" in found


OWN = [
    ("lightgbm", "huber", {"alpha": 0.5}),
    ("lightgbm", "quantile", {"alpha": 0.5}),
    ("lightgbm", "fair", {"fair_c": 5.0}),
    ("lightgbm", "poisson", {"poisson_max_delta_step": 2.0}),
    ("lightgbm", "tweedie", {"tweedie_variance_power": 1.9}),
    ("lightgbm", "binary", {"scale_pos_weight": 9.0}),
    ("lightgbm", "binary", {"is_unbalance": True}),
    ("lightgbm", "binary", {"sigmoid": 2.0}),
    ("lightgbm", "binary", {"pos_bagging_fraction": 0.5, "neg_bagging_fraction": 0.9, "bagging_freq": 1}),
    ("xgboost", "reg:pseudohubererror", {"huber_slope": 3.0}),
    ("xgboost", "reg:quantileerror", {"quantile_alpha": 0.9}),
    ("xgboost", "reg:tweedie", {"tweedie_variance_power": 1.9}),
    ("xgboost", "count:poisson", {"max_delta_step": 0.1}),
    ("xgboost", "binary:logistic", {"scale_pos_weight": 9.0}),
    ("xgboost", "binary:logitraw", {"scale_pos_weight": 9.0}),
    ("catboost", "Logloss", {"scale_pos_weight": 9.0}),
    ("catboost", "Logloss", {"auto_class_weights": "Balanced"}),
]


@pytest.mark.parametrize(("library", "objective", "params"), OWN)
def test_parameters_of_its_own_loss_are_taken_and_move_trees(
    library: str, objective: str, params: Any, make_dataset: Any, tmp_path: Path
) -> None:
    data = make_dataset(1, weights=True)
    ranker = make_ranker(library, objective, params={**SMALL[library], **params})
    assert ranker.check(TrainingFacts.of(data, stopping=True)) == []
    model = ranker.fit(Training(train=data, rounds=3)).booster
    theirs, _ = train_library(library, objective, data, 3, params)
    plain, _ = train_library(library, objective, data, 3)
    assert trees(library, model, tmp_path) == trees(library, theirs, tmp_path)
    assert trees(library, model, tmp_path) != trees(library, plain, tmp_path)
    if "pos_bagging_fraction" in params:
        assert ranker.seed_matters


def test_parameters_of_the_losses_are_in_the_record_at_the_librarys_defaults(train: Any) -> None:
    params = make_ranker("lightgbm", "binary").fit(Training(train=train, rounds=1)).params
    assert {name: params[name] for name in ("sigmoid", "is_unbalance", "scale_pos_weight", "relevant")} == {
        "sigmoid": 1.0,
        "is_unbalance": False,
        "scale_pos_weight": 1.0,
        "relevant": 2,
    }
    assert (
        make_ranker("xgboost", "count:poisson").fit(Training(train=train, rounds=1)).params["max_delta_step"]
        == 0.7
    )
    # whatever else is written out is a default, or trees would not be the library's own above


@pytest.mark.parametrize(
    ("params", "place", "words"),
    [
        ({"pos_bagging_fraction": 0.5}, "pos_bagging_fraction", "while bagging_freq is 0"),
        (
            {"pos_bagging_fraction": 0.5, "bagging_fraction": 0.5, "bagging_freq": 1},
            "bagging_fraction",
            "beside neg_bagging_fraction and pos_bagging_fraction",
        ),
        ({"bagging_freq": 1}, "bagging_freq", "without bagging_fraction"),
        ({"is_unbalance": True, "scale_pos_weight": 2.0}, "", "is_unbalance and scale_pos_weight"),
    ],
)
def test_what_lightgbms_binary_would_ignore_or_refuse(
    params: Any, place: str, words: str, problem_texts: Any
) -> None:
    found = problem_texts(make_ranker("lightgbm", "binary", params=params).check())
    assert words in found[f"params.{place}" if place else "params"]


def test_several_quantiles_are_several_scores(problem_texts: Any) -> None:
    for value in ([0.1, 0.5], "[0.1,0.5]"):
        for kind in {"quantile", "expectile"} - {objective[4:-5] for objective in LATER}:
            found = problem_texts(
                make_ranker("xgboost", f"reg:{kind}error", params={f"{kind}_alpha": value}).check()
            )
            assert "would give a row several scores; expected one number" in found[f"params.{kind}_alpha"]


@pytest.mark.parametrize(
    ("library", "objective", "words"),
    [
        ("lightgbm", "multiclassova", "multiclassova is not available: each grade's trees are trained alone"),
        ("xgboost", "survival:cox", "survival:cox is not available: its labels are times until an event"),
        (
            "catboost",
            "MultiQuantile:alpha=0.1,0.5",
            "MultiQuantile is not available: it predicts several numbers",
        ),
        ("catboost", "QueryCrossEntropy", "CatBoost trains it on a GPU alone"),
        ("catboost", "StochasticFilter", "it cuts lists and does not order them"),
        ("lightgbm", "mse", "did you mean 'regression'?"),
        ("lightgbm", "mae", "did you mean 'regression_l1'?"),
        ("lightgbm", "l1", "did you mean 'regression_l1'?"),
        ("lightgbm", "xentropy", "did you mean 'cross_entropy'?"),
        ("lightgbm", "count:poisson", "did you mean 'poisson'?"),
        ("lightgbm", "Logloss", "did you mean 'binary'?"),
        ("xgboost", "reg:linear", "did you mean 'reg:squarederror'?"),
        ("xgboost", "mae", "did you mean 'reg:absoluteerror'?"),
        ("xgboost", "binary", "did you mean 'binary:logistic'?"),
        ("xgboost", "multi:softmax", "did you mean 'multi:softprob'?"),
        ("xgboost", "tweedie", "did you mean 'reg:tweedie'?"),
        ("catboost", "mae", "did you mean 'MAE'?"),
        ("catboost", "binary:logistic", "did you mean 'Logloss'?"),
        ("catboost", "cross_entropy", "did you mean 'CrossEntropy'?"),
    ],
)
def test_other_names_and_what_no_ranker_can_have(
    library: str, objective: str, words: str, problem_texts: Any
) -> None:
    assert words in problem_texts(make_ranker(library, objective, params={}).check())["objective"]


def test_every_objective_that_the_installed_xgboost_lists_is_taken_or_refused() -> None:
    assert len(LISTED) > 15
    otherwise = {"multi:softmax", "reg:linear"}  # did you mean …?
    taken = set(catalog.load("xgboost").objectives) - {"rank_xendcg"} - LATER
    assert LISTED - otherwise == taken | (LISTED & _REFUSED.keys())


@pytest.mark.skipif(not LATER, reason="the installed XGBoost has all objectives")
@pytest.mark.parametrize("objective", sorted(LATER))
def test_an_objective_newer_than_the_installed_version_says_since_when(
    objective: str, problem_texts: Any
) -> None:
    found = problem_texts(make_ranker("xgboost", objective).check())
    assert re.fullmatch(
        rf"objective: XGBoost {re.escape(xgboost.__version__)} has no {objective}; expected XGBoost 3.3 or newer; "
        r"pip install 'xgboost>=3.3', or choose another",
        found["objective"],
    )
    assert list(found) == ["objective"]


def test_every_objective_that_the_installed_catboost_lists_is_taken_or_refused() -> None:
    catboost = pytest.importorskip("catboost", reason="the extra `catboost` is not installed")

    def refusal(loss: str) -> str:
        quiet = {"iterations": 1, "allow_writing_files": False, "logging_level": "Silent"}
        pool = catboost.Pool(np.eye(8), [0, 1] * 4, group_id=[0] * 4 + [1] * 4)
        with pytest.raises(catboost.CatBoostError) as found:
            catboost.CatBoost({"loss_function": loss, **quiet}).fit(pool)
        return str(found.value)

    listed = set(re.findall(r"'(\w+)'", refusal("Nope").partition("Valid options")[2]))
    assert listed >= CATBOOST.keys()
    yours = {
        "PythonUserDefinedPerObject",
        "PythonUserDefinedMultiTarget",
        "UserPerObjMetric",
        "UserQuerywiseMetric",
    }
    for loss in listed - CATBOOST.keys() - _REFUSED.keys() - yours - {"Combination"}:  # the last: of others
        assert "Unknown loss function" in refusal(loss)  # a metric


def test_the_installed_lightgbm_has_the_objective() -> None:
    for objective in [*LIGHTGBM.split(), "multiclass", "multiclassova"]:
        with named_case(objective):
            data = lightgbm.Dataset(np.eye(4), [1.0, 1.0, 1.0, 1.0], params={"verbosity": -1})
            lightgbm.Booster(
                {"objective": objective, "num_class": 2 if "multi" in objective else 1, "verbosity": -1}, data
            )
