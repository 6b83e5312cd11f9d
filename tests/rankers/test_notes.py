"""What is said of models that learned little, or might have learned more."""

from __future__ import annotations

from ltr_harness.boosting import StoppingRule
from ltr_harness.metrics import NDCG
from ltr_harness.rankers.adapters import BESIDE_THE_RESULT, training_notes

RULE = StoppingRule(NDCG(k=10), patience=5, max_rounds=30)


def test_nothing_and_next_to_nothing_are_said_beside_the_result() -> None:
    [note] = training_notes(0, 1, 6, 30, RULE)
    assert note.startswith("the model is constant: no split met the requirements")
    [nearly] = training_notes(2, 1, 6, 30, RULE)
    assert nearly == "the model is nearly constant: 2 splits in 1 round"
    assert note.startswith(BESIDE_THE_RESULT)
    assert nearly.startswith(BESIDE_THE_RESULT)
    assert training_notes(90, 15, 20, 30, RULE) == []


def test_a_limit_that_came_before_the_best_round_is_said() -> None:
    [note] = training_notes(90, 28, 30, 30, RULE)
    assert note == "best round 28 of 30, stopped by the limit and not by the metric: more rounds may help"
    [further] = training_notes(90, 40, 42, 30, RULE)  # went on from a model of 12 rounds
    assert further.startswith("best round 40 of 42,")
    assert training_notes(90, 25, 30, 30, RULE) == []  # five rounds without improvement: the rule's own end
    assert training_notes(90, 30, 30, 30, None) == []
