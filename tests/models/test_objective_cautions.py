"""Cautions of `check` about an objective that does not look at the metric that decides."""

from __future__ import annotations

from typing import Any

import pytest

from ltr_harness.metrics import parse_metric
from ltr_harness.models.catboost import CatBoostRanker
from ltr_harness.models.lightgbm import LightGBMRanker
from ltr_harness.models.xgboost import XGBoostRanker


def cautions(kind: Any, primary: str, max_grade: float = 2, **fields: Any) -> list[str]:
    found = kind.model_validate(fields).cautions_for_metric(parse_metric(primary), max_grade)
    return [str(caution) for caution in found]


TOP_5 = "is 5: pairs of rows below rank 5 are ignored, and"


@pytest.mark.parametrize(
    ("kind", "fields", "option"),
    [
        (
            LightGBMRanker,
            {"params": {"lambdarank_truncation_level": 5}},
            "params.lambdarank_truncation_level",
        ),
        (
            XGBoostRanker,
            {"objective": "rank:pairwise", "params": {"lambdarank_num_pair_per_sample": 5}},
            "params.lambdarank_num_pair_per_sample",
        ),
        (
            XGBoostRanker,
            {"objective": {"metric": "mrr", "truncation_level": 5}},
            "objective.truncation_level",
        ),
    ],
)
def test_a_truncation_level_above_which_the_metric_decides(kind: Any, fields: Any, option: str) -> None:
    assert cautions(kind, "ndcg@50", **fields) == [f"{option} {TOP_5} ndcg@50 counts 50 ranks"]
    assert cautions(kind, "ndcg@5", **fields) == []


def test_a_truncation_level_below_the_objectives_own_cutoff() -> None:
    objective = {"metric": "ndcg@50", "truncation_level": 5}
    assert cautions(LightGBMRanker, "ndcg@5", objective=objective) == [
        f"objective.truncation_level {TOP_5} the metric it optimises, @50, counts 50 ranks"
    ]


def test_an_objective_that_ends_above_what_decides() -> None:
    assert cautions(LightGBMRanker, "ndcg@10", objective={"metric": "ndcg@1"}) == [
        "the objective ends at rank 1, and ndcg@10 decides"
    ]
    assert cautions(LightGBMRanker, "ndcg@10", objective={"metric": "ndcg"}) == []


@pytest.mark.parametrize(
    ("kind", "fields", "primary", "gains"),
    [
        (LightGBMRanker, {}, "ndcg(gain=linear)@10", ("0, 1, 3", "0, 1, 2")),
        (LightGBMRanker, {"params": {"label_gain": [0, 1, 10]}}, "ndcg@10", ("0, 1, 10", "0, 1, 3")),
        (LightGBMRanker, {"params": {"label_gain": "0,1,10"}}, "ndcg@10", ("0, 1, 10", "0, 1, 3")),
        (XGBoostRanker, {"params": {"ndcg_exp_gain": False}}, "ndcg@10", ("0, 1, 2", "0, 1, 3")),
        (XGBoostRanker, {"objective": {"metric": "dcg(gain=0_1_9)@10"}}, "ndcg@10", ("0, 1, 9", "0, 1, 3")),
        (
            CatBoostRanker,
            {"objective": {"metric": "ndcg(gain=linear)@10"}},
            "ndcg@10",
            ("0, 1, 2", "0, 1, 3"),
        ),
    ],
)
def test_gains_that_the_metric_does_not_have(kind: Any, fields: Any, primary: str, gains: Any) -> None:
    (found,) = cautions(kind, primary, **fields)
    assert found == (
        f"the objective's gains of grades 0 to 2 are {gains[0]}, those of {primary} {gains[1]}: another metric"
    )


@pytest.mark.parametrize(
    ("kind", "fields", "primary"),
    [
        (LightGBMRanker, {}, "ndcg@10"),
        (LightGBMRanker, {"params": {"label_gain": [0, 2, 6]}}, "ndcg@10"),  # the same up to a factor
        (LightGBMRanker, {}, "mrr@10"),
        (LightGBMRanker, {"objective": "rank_xendcg"}, "ndcg(gain=linear)@100"),
        (LightGBMRanker, {"objective": "regression"}, "ndcg(gain=linear)@100"),
        (XGBoostRanker, {}, "ndcg@10"),
        (XGBoostRanker, {"params": {"lambdarank_pair_method": "mean"}}, "ndcg@100"),
        (XGBoostRanker, {"objective": "rank:map", "relevant": 1}, "ndcg(gain=linear)@10"),
        (CatBoostRanker, {}, "ndcg@100"),
        (CatBoostRanker, {"objective": {"metric": "ndcg@100"}}, "ndcg@100"),
    ],
)
def test_nothing_is_said_where_there_is_nothing_to_say(kind: Any, fields: Any, primary: str) -> None:
    assert cautions(kind, primary, **fields) == []


def test_binary_labels_have_the_same_gains() -> None:
    assert cautions(LightGBMRanker, "ndcg(gain=linear)@10", max_grade=1) == []
