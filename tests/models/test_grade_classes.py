"""McRank: the grades as classes, the expected grade as the score."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest
import xgboost

from ltr_harness.boosting.lightgbm import Watch as WatchLightGBM
from ltr_harness.boosting.lightgbm import feval
from ltr_harness.boosting.stopping import StoppingRule
from ltr_harness.boosting.xgboost import Watch as WatchXGBoost
from ltr_harness.boosting.xgboost import custom_metric
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.errors import DataError, MetricError
from ltr_harness.metrics import NDCG, bind
from ltr_harness.metrics.core.expected_grade import expected_grade
from ltr_harness.models.ranker import Training, TrainingFacts
from ltr_harness.models.table import catalog
from ltr_harness.models.tree_model import TreeModel

RULE = StoppingRule(NDCG(k=10), patience=5, max_rounds=20)
EACH = [
    pytest.param("lightgbm", "multiclass", {"num_leaves": 5, "min_data_in_leaf": 5}, id="lightgbm"),
    pytest.param("xgboost", "multi:softprob", {"max_depth": 3}, id="xgboost"),
    pytest.param("catboost", "MultiClass", {"depth": 3}, id="catboost"),
]
each = pytest.mark.parametrize(("ranker", "objective", "params"), EACH)


@pytest.fixture(autouse=True)
def _installed(request: pytest.FixtureRequest) -> None:
    if "catboost" in request.node.callspec.id if hasattr(request.node, "callspec") else False:
        pytest.importorskip("catboost", reason="the extra `catboost` is not installed")


def make_ranker(ranker: str, objective: str, params: Any = None, **more: Any) -> Any:
    fields = {"objective": objective, "params": params or {}, **more}
    return catalog.load(ranker).model_validate_json(json.dumps(fields), strict=True)


def relabel(data: Any, labels: Any) -> Any:
    return replace(data, judgments=Judgments.checked(labels, data.groups))


def plain_scores(ranker: str, folder: Path, features: Any) -> Any:
    """As anybody scores with the stored file: probabilities times grades."""
    if ranker == "lightgbm":
        shares = lightgbm.Booster(model_file=folder / "model.txt").predict(features)
    elif ranker == "xgboost":
        shares = xgboost.Booster(model_file=folder / "model.ubj").inplace_predict(features)
    else:
        import catboost

        model = catboost.CatBoost().load_model(str(folder / "model.cbm"))
        return model.predict(features, prediction_type="Probability") @ model.classes_.astype(float)
    return shares @ np.arange(shares.shape[1])


def test_the_grade_to_expect_by_hand() -> None:
    assert expected_grade([[0.2, 0.3, 0.5]]).tolist() == [pytest.approx(0.3 + 2 * 0.5)]
    assert expected_grade([[0.25, 0.75]], [0, 4]).tolist() == [3.0]


@pytest.mark.parametrize("values", [[[1.0, 2.0]], [[np.nan, 1.0]], [[0.5, 0.5], [0.5, 0.6]]])
def test_predictions_that_are_no_probabilities_are_refused(values: Any) -> None:
    with pytest.raises(MetricError, match="expected one score per row, or the probabilities of the grades"):
        expected_grade(values)


@each
def test_it_stops_on_the_score_that_the_stored_model_has_in_the_plain_library(
    ranker: str, objective: str, params: Any, train: Any, valid: Any, tmp_path: Path
) -> None:
    model = make_ranker(ranker, objective, params).fit(Training(train=train, valid=valid, stopping=RULE))
    model.save(tmp_path)
    scores = plain_scores(ranker, tmp_path, valid.features)
    np.testing.assert_allclose(model.score(valid.features), scores, atol=1e-6)
    assert 0 <= scores.min() < scores.max() <= train.labels.max()
    best = max(point.value for point in model.history)
    kept = bind([NDCG(k=10)], valid.judgments).means(model.score(valid.features))[0]
    assert kept == pytest.approx(best, abs=1e-9)
    assert model.best_round == next(one.round for one in model.history if one.value == best)


@each
def test_rounds_are_counted_and_not_trees(
    ranker: str, objective: str, params: Any, train: Any, tmp_path: Path
) -> None:
    model = make_ranker(ranker, objective, params).fit(Training(train=train, rounds=4))
    assert model.best_round == model.rounds_trained == 4
    two = make_ranker(ranker, objective, params).fit(Training(train=train, rounds=2))
    np.testing.assert_allclose(model.score_after(train.features, 2), two.score(train.features), atol=1e-6)
    model.save(tmp_path)
    assert catalog.load(ranker).load(tmp_path).best_round == 4


@each
def test_a_grade_that_no_training_row_has_is_next_to_impossible(
    ranker: str, objective: str, params: Any, train: Any, capfd: Any
) -> None:
    gap = relabel(train, np.where(train.labels == 1, 0, train.labels))
    scores = make_ranker(ranker, objective, params).fit(Training(train=gap, rounds=15)).score(gap.features)
    without = relabel(gap, np.unique(gap.labels, return_inverse=True)[1])
    worth = np.unique(gap.labels)
    narrow = make_ranker(ranker, objective, params).fit(Training(train=without, rounds=15))
    assert 0 <= scores.min() < scores.max() <= worth.max()
    order = np.corrcoef(scores, narrow.score(gap.features))[0, 1]
    assert order > 0.95, "the same rows are good ones"
    assert capfd.readouterr() == ("", ""), "the library has nothing to say"


@each
def test_query_weights_count(ranker: str, objective: str, params: Any, make_dataset: Any) -> None:
    weighted, plain = make_dataset(1, weights=True), make_dataset(1)
    scores = [
        make_ranker(ranker, objective, params).fit(Training(train=one, rounds=3)).score(plain.features)
        for one in (weighted, plain)
    ]
    assert not np.allclose(*scores)
    # a query of weight 2 is a query that stands there twice
    n = plain.n_queries
    double = replace(
        plain, judgments=Judgments.checked(plain.labels, plain.groups, query_weights=np.full(n, 2.0))
    )
    rows = np.r_[0 : plain.n_rows, 0 : plain.n_rows]
    groups = QueryGroups.from_sizes(np.tile(plain.groups.sizes, 2))
    twice = replace(
        plain, features=plain.features[rows], judgments=Judgments.checked(plain.labels[rows], groups)
    )
    if (
        ranker == "xgboost"
    ):  # whose hessians alone bound a leaf; LightGBM counts rows, CatBoost's bins see them
        # every value may cut: the bins of weighted rows are others than those of repeated ones, from 3.4 on
        exact = make_ranker(ranker, objective, {**params, "tree_method": "exact"})
        a, b = (exact.fit(Training(train=one, rounds=3)) for one in (double, twice))
        np.testing.assert_allclose(a.score(plain.features), b.score(plain.features), atol=1e-4)


REFUSED = [
    ({"monotone": {"bm25": 1}}, "monotone", "it would bind the trees of each grade"),
    ({"init_model": "model.txt"}, "init_model", "only a model of the same grades can be gone on from"),
    ({"drop_blank": True}, "drop_blank", "has no effect"),
]


@each
@pytest.mark.parametrize(("fields", "place", "words"), REFUSED)
def test_what_it_cannot_have_is_refused(
    ranker: str, objective: str, params: Any, fields: Any, place: str, words: str
) -> None:
    problems = make_ranker(ranker, objective, params, **fields).check()
    assert any(one.place == place and words in str(one) for one in problems), problems


@pytest.mark.parametrize(("ranker", "objective", "params"), EACH[:2])
def test_what_boosters_across_workers_and_with_positions_cannot_have(
    ranker: str, objective: str, params: Any, problem_texts: Any
) -> None:
    found = problem_texts(make_ranker(ranker, objective, params, data_parallel=2).check())
    assert "across workers a row has one score" in found["data_parallel"]
    found = problem_texts(make_ranker(ranker, objective, params, position_bias=True).check())
    assert "no effect with the objective" in found["position_bias"]
    found = problem_texts(make_ranker(ranker, objective, {"num_class": 3}).check())
    assert "it is counted from the training labels" in found["params.num_class"]
    found = problem_texts(
        make_ranker(ranker, objective, {"monotone_constraints": [1, 0, 0, 0, 0, 0]}).check()
    )
    assert "it would bind the trees of each grade" in found["monotone"]


LABELS = [
    (0.5, "found 1 fractional label; expected integer labels"),
    (32, "the largest training label is 32; expected grades from 0 to at most 31"),
    (None, "all training labels are 2: "),
]


@each
@pytest.mark.parametrize(("odd", "words"), LABELS)
def test_labels_that_are_no_classes_are_refused(
    ranker: str, objective: str, params: Any, odd: float | None, words: str, train: Any, problem_texts: Any
) -> None:
    labels = np.full(train.n_rows, 2.0) if odd is None else np.r_[odd, train.labels[1:]]
    facts = TrainingFacts.of(relabel(train, labels), stopping=False)
    found = problem_texts(make_ranker(ranker, objective, params).check(facts))
    assert words in found["objective"]


@each
def test_its_score_is_not_divided_among_features(
    ranker: str, objective: str, params: Any, train: Any
) -> None:
    model: TreeModel = make_ranker(ranker, objective, params).fit(Training(train=train, rounds=2))
    with pytest.raises(DataError, match="cannot be divided among features; `ltr-harness show importance`"):
        model.contributions(train.features[:2])
    assert model.n_leaves > 0
    assert model.importance("gain").sum() > 0
    assert model.importance("split").sum() > 0


@pytest.mark.parametrize(("ranker", "objective", "params"), EACH[:2])
def test_it_shares_bins_with_other_objectives(ranker: str, objective: str, params: Any, train: Any) -> None:
    first = make_ranker(ranker, objective, params).fit(Training(train=train, rounds=3)).score(train.features)
    other = "regression" if ranker == "lightgbm" else "reg:squarederror"
    make_ranker(ranker, other, params).fit(Training(train=train, rounds=3))
    again = make_ranker(ranker, objective, params).fit(Training(train=train, rounds=3)).score(train.features)
    np.testing.assert_array_equal(first, again)


def test_a_script_may_watch_a_model_of_classes(train: Any, valid: Any) -> None:
    quiet = {"verbosity": -1, "metric": "None", "num_threads": 1}
    data = lightgbm.Dataset(train.features, train.labels, group=train.groups.sizes, params=quiet)
    held = lightgbm.Dataset(valid.features, valid.labels, group=valid.groups.sizes, reference=data)
    watch = WatchLightGBM(NDCG(k=10), data={"held": held}, patience=None)
    curves: dict[str, Any] = {}
    lightgbm.train(
        {"objective": "multiclass", "num_class": 5, **quiet},
        data,
        3,
        valid_sets=[held],
        valid_names=["fed"],
        feval=feval("ndcg@10"),
        callbacks=[watch, lightgbm.record_evaluation(curves)],
    )
    assert curves["fed"]["ndcg@10"] == [one.value for one in watch.history]

    matrices = [xgboost.DMatrix(one.features, one.labels, group=one.groups.sizes) for one in (train, valid)]
    watching = WatchXGBoost(NDCG(k=10), data={"valid": matrices[1]}, patience=None)
    log: dict[str, Any] = {}
    booster = xgboost.train(
        {"objective": "multi:softprob", "num_class": 5, "disable_default_eval_metric": 1, "nthread": 1},
        matrices[0],
        3,
        evals=[(matrices[1], "fed")],
        custom_metric=custom_metric("ndcg@10"),
        callbacks=[watching],
        evals_result=log,
        verbose_eval=False,
    )
    values = [one.value for one in watching.history]
    np.testing.assert_allclose(log["fed"]["ndcg@10"], values, atol=1e-6)
    scores = booster.predict(matrices[1]) @ np.arange(5)
    assert bind([NDCG(k=10)], valid.judgments).means(scores)[0] == pytest.approx(values[-1], abs=1e-6)


def test_a_catboost_classifier_is_judged_by_its_probabilities(train: Any, valid: Any) -> None:
    catboost = pytest.importorskip("catboost", reason="the extra `catboost` is not installed")
    from ltr_harness.boosting.catboost import best_round

    pools = [
        catboost.Pool(
            one.features, one.labels, group_id=np.repeat(np.arange(one.n_queries), one.groups.sizes)
        )
        for one in (train, valid)
    ]
    model = catboost.CatBoostClassifier(
        iterations=6, depth=3, loss_function="MultiClass", logging_level="Silent", allow_writing_files=False
    ).fit(pools[0])
    best = best_round(model, pools[1], "ndcg@10")
    scores = model.predict_proba(valid.features) @ model.classes_.astype(float)
    assert bind([NDCG(k=10)], valid.judgments).means(scores)[0] == pytest.approx(best.history[-1].value)
