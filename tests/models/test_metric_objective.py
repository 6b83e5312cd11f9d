"""Rankers that optimise a metric: what the YAML means, what is trained, what is refused before training."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xgboost

from ltr_harness.boosting.lightgbm import objective as lightgbm_objective
from ltr_harness.boosting.stopping import StoppingRule
from ltr_harness.boosting.xgboost import objective as xgboost_objective
from ltr_harness.errors import MetricError, RankerError
from ltr_harness.experiments.config.schema import ModelConfig, model_at
from ltr_harness.metrics import parse_metric
from ltr_harness.models.lightgbm import LightGBMModel, LightGBMRanker
from ltr_harness.models.ranker import Training
from ltr_harness.models.xgboost import XGBoostModel, XGBoostRanker

BOTH = [LightGBMRanker, XGBoostRanker]
MRR = {"metric": "mrr@5", "truncation_level": 20, "sigma": 2.0, "norm": False}


def make_ranker(kind: Any, objective: Any, **more: Any) -> Any:
    return kind.model_validate_json(json.dumps({"objective": objective, **more}), strict=True)


def training(train: Any, **more: Any) -> Training:
    return Training(train=train, **{"rounds": 5, **more})


def test_lightgbm_trains_what_the_script_trains(train: Any) -> None:
    import lightgbm

    model = make_ranker(LightGBMRanker, MRR, params={"num_leaves": 8}).fit(training(train))
    data = lightgbm.Dataset(train.features, label=train.labels, group=train.groups.sizes)
    chosen = {name: value for name, value in MRR.items() if name != "metric"}
    theirs = lightgbm.train(
        {
            "objective": lightgbm_objective("mrr@5", **chosen),
            "num_leaves": 8,
            "verbosity": -1,
            "num_threads": 1,
            "deterministic": True,
            "force_row_wise": True,
        },
        data,
        5,
    )
    np.testing.assert_array_equal(model.score(train.features), theirs.predict(train.features, raw_score=True))
    assert model.params["objective"] == {**MRR, "metric": "mrr@5", "weighting": "swap"}


def test_xgboost_trains_what_the_script_trains(train: Any) -> None:
    model = make_ranker(XGBoostRanker, MRR, params={"max_depth": 3}).fit(training(train))
    data = xgboost.QuantileDMatrix(train.features, label=train.labels, group=train.groups.sizes, max_bin=256)
    chosen = {name: value for name, value in MRR.items() if name != "metric"}
    theirs = xgboost.train(
        {"base_score": 0.0, "max_depth": 3, "nthread": 1, "disable_default_eval_metric": 1, "verbosity": 0},
        data,
        5,
        obj=xgboost_objective("mrr@5", **chosen),
    )
    np.testing.assert_array_equal(
        model.score(train.features), theirs.inplace_predict(train.features, predict_type="margin")
    )
    assert model.params["objective"] == {**MRR, "metric": "mrr@5", "weighting": "swap"}


@pytest.mark.parametrize("kind", BOTH)
def test_it_stops_on_another_metric_and_the_stored_model_is_plain(
    kind: Any, train: Any, valid: Any, tmp_path: Path
) -> None:
    rule = StoppingRule(parse_metric("ndcg@10"), patience=5)
    ranker = make_ranker(kind, {"metric": "err(max_grade=4)@5"}, preset="small")
    model = ranker.fit(training(train, valid=valid, stopping=rule, rounds=40))
    best = max(model.history, key=lambda point: point.value)
    assert {point.metric for point in model.history} == {"ndcg@10"}
    assert model.best_round == best.round
    model.save(tmp_path)
    loaded: Any = {LightGBMRanker: LightGBMModel, XGBoostRanker: XGBoostModel}[kind].load(tmp_path)
    np.testing.assert_array_equal(loaded.score(valid.features), model.score(valid.features))


@pytest.mark.long
@pytest.mark.parametrize("kind", BOTH)
def test_training_goes_on_from_a_stored_model(kind: Any, train: Any, tmp_path: Path) -> None:
    make_ranker(kind, MRR).fit(training(train, rounds=4)).save(tmp_path)
    more = make_ranker(kind, MRR, init_model=str(tmp_path / kind.trained.FILE)).fit(training(train, rounds=3))
    whole = make_ranker(kind, MRR).fit(training(train, rounds=7))
    assert more.best_round == 7
    if kind is XGBoostRanker:
        np.testing.assert_allclose(more.score(train.features), whole.score(train.features), rtol=1e-5)
    else:
        np.testing.assert_allclose(more.score(train.features), whole.score(train.features), rtol=1e-9)


@pytest.mark.parametrize("kind", BOTH)
def test_query_weights_reach_the_gradients(kind: Any, make_dataset: Any) -> None:
    weighted, plain = make_dataset(1, weights=True), make_dataset(1)
    scores = [make_ranker(kind, MRR).fit(training(one)).score(plain.features) for one in (weighted, plain)]
    assert not np.array_equal(*scores)


@pytest.mark.parametrize("kind", BOTH)
def test_a_scale_is_the_experiments(kind: Any, train: Any) -> None:
    ranker = make_ranker(kind, {"metric": "err@5"})
    assert str(ranker.with_max_grade(4).objective) == "err(max_grade=4)@5"
    assert ranker.with_max_grade(4).definition() != ranker.with_max_grade(5).definition()
    with pytest.warns(UserWarning, match="taking the largest label seen"):
        left_open = ranker.fit(training(train)).score(train.features)
    np.testing.assert_array_equal(
        left_open, ranker.with_max_grade(4).fit(training(train)).score(train.features)
    )


@pytest.mark.parametrize("kind", BOTH)
def test_every_choice_belongs_to_the_identity(kind: Any) -> None:
    facts = [
        make_ranker(kind, objective).definition()
        for objective in (
            {"metric": "ndcg@10"},
            {"metric": "ndcg@5"},
            {"metric": "ndcg@10", "sigma": 2.0},
            {"metric": "ndcg@10", "norm": False},
            {"metric": "ndcg@10", "truncation_level": 20},
            {"metric": "ndcg@10", "weighting": "ndcg_loss2++"},
        )
    ]
    assert len({json.dumps(one, sort_keys=True) for one in facts}) == len(facts)


@pytest.mark.parametrize("kind", BOTH)
def test_its_options_can_be_searched(kind: Any) -> None:
    ranker = make_ranker(kind, {"metric": "map"})
    space = ranker.search_space()
    assert {"objective.sigma", "objective.truncation_level"} <= set(space)
    model = ModelConfig(ranker_name="any", ranker=ranker)
    found: Any = model_at(model, {"objective.sigma": 0.5, "objective.truncation_level": 12}).ranker
    assert (found.objective.sigma, found.objective.truncation_level, str(found.objective)) == (0.5, 12, "map")
    with pytest.raises(RankerError, match=r"has no option 'objective\.sigma'"):
        model_at(ModelConfig(ranker_name="any", ranker=kind()), {"objective.sigma": 0.5})


@pytest.mark.parametrize(
    ("options", "place", "words"),
    [
        ({"position_bias": True}, "position_bias", "has no effect with the objective mrr@5"),
        ({"drop_blank": True}, "drop_blank", "has no effect with the objective mrr@5"),
    ],
)
@pytest.mark.parametrize("kind", BOTH)
def test_what_the_library_would_ignore_is_refused(
    kind: Any, options: Any, place: str, words: str, problem_texts: Any
) -> None:
    assert words in problem_texts(make_ranker(kind, MRR, **options).check())[place]


def test_parameters_of_the_libraries_own_objectives_are_refused(problem_texts: Any) -> None:
    found = problem_texts(
        make_ranker(LightGBMRanker, MRR, params={"lambdarank_norm": True, "label_gain": [0, 1, 3]}).check()
    )
    assert "has no effect with the objective {metric: …}" in found["params.lambdarank_norm"]
    assert "has no effect with the objective {metric: …}" in found["params.label_gain"]
    found = problem_texts(
        make_ranker(
            XGBoostRanker, MRR, params={"lambdarank_pair_method": "mean", "ndcg_exp_gain": True}
        ).check()
    )
    assert "has no effect with the objective {metric: …}" in found["params.lambdarank_pair_method"]
    assert "has no effect with the objective {metric: …}" in found["params.ndcg_exp_gain"]


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        ("err(max_grade=2)@5", "is above max_grade"),
        ("ndcg(gain=0_1)@5", "the gain table ends at grade 1"),
        ("map(denominator=retrieved)@5", "its divisor changes with the ranking"),
    ],
)
@pytest.mark.parametrize("kind", BOTH)
def test_labels_that_it_is_not_defined_for_are_refused_before_training(
    kind: Any, metric: str, words: str, facts: Any, problem_texts: Any
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert make_ranker(kind, {"metric": metric}).check() == []
        assert words in problem_texts(make_ranker(kind, {"metric": metric}).check(facts()))["objective"]


@pytest.mark.parametrize("metric", ["recall", "precision", "f1", "success", "cg", "recall@24"])
@pytest.mark.parametrize("kind", BOTH)
def test_a_metric_that_no_order_changes_is_refused_before_training(
    kind: Any, metric: str, facts: Any, problem_texts: Any
) -> None:
    # the longest query has 24 rows, and all of them count the same
    found = problem_texts(make_ranker(kind, {"metric": metric}).check(facts()))["objective"]
    assert "counts every rank of the longest query (24 rows) alike, so no order is better" in found
    assert "expected a cutoff below 24" in found


@pytest.mark.parametrize("metric", ["recall@23", "mrr", "rprec", "map", "success@1", "kendall_tau_distance"])
def test_a_metric_that_some_order_changes_is_not(metric: str, facts: Any) -> None:
    assert make_ranker(LightGBMRanker, {"metric": metric}).check(facts()) == []


@pytest.mark.parametrize("library", [lightgbm_objective, xgboost_objective])
def test_a_script_is_told_likewise(library: Any, train: Any) -> None:
    with pytest.raises(MetricError, match=r"recall counts every rank of the longest query \(24 rows\) alike"):
        library("recall")._objective.resolved(train.judgments)
    assert library("recall@24")._objective.resolved(
        train.judgments
    )  # one worker's lists may be the short ones


@pytest.mark.parametrize("kind", BOTH)
def test_ten_thousand_rows_in_a_query_are_fine(kind: Any, facts: Any) -> None:
    assert make_ranker(kind, MRR).check(facts(largest_query=20_000)) == []
