"""Cautions about models that learned little, or might have learned more."""

from __future__ import annotations

from ltr_harness.boosting import StoppingRule
from ltr_harness.metrics import NDCG
from ltr_harness.models.tree_model import training_cautions

RULE = StoppingRule(NDCG(k=10), patience=5, max_rounds=30)


def test_nothing_and_next_to_nothing_are_said_beside_the_result() -> None:
    [constant] = training_cautions(0, 1, 6, 30, RULE)
    assert (constant.kind, constant.severity) == ("constant-model", "warning")
    assert constant.text.startswith("the model is constant: no split met the requirements")
    [nearly] = training_cautions(2, 1, 6, 30, RULE)
    assert (nearly.kind, nearly.severity) == ("nearly-constant-model", "warning")
    assert nearly.text == "the model is nearly constant: 2 splits in 1 round"
    assert training_cautions(90, 15, 20, 30, RULE) == []


def test_a_limit_that_came_before_the_best_round_is_said() -> None:
    [limit] = training_cautions(90, 28, 30, 30, RULE)
    assert (limit.kind, limit.severity, limit.cure) == ("stopped-by-limit", "note", "more rounds may help")
    assert limit.text == "best round 28 of 30, stopped by the limit, not by the metric"
    [further] = training_cautions(90, 40, 42, 30, RULE)  # went on from a model of 12 rounds
    assert further.text.startswith("best round 40 of 42,")
    assert (
        training_cautions(90, 25, 30, 30, RULE) == []
    )  # five rounds without improvement: the rule's own end
    assert training_cautions(90, 30, 30, 30, None) == []
