"""The record of a watched training, without a library: its sets, its rounds, the best one, and who hears of it."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

from ltr_harness.boosting.stopping import StoppingRule
from ltr_harness.boosting.watching import Measured, Watching, watch_by_rule
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.errors import MetricError, UsageError
from ltr_harness.metrics import MRR

FEATURES = object()  # the library's data, at which nobody looks here
JUDGMENTS = {"valid": Judgments.checked(np.array([1.0, 0.0]), QueryGroups.from_sizes([2]))}


class Word(NamedTuple):
    text: str


class Words(Watching):
    """A watch of data that are words, which are pickled in capitals."""

    _kind = Word

    @staticmethod
    def _packed(data: Word, /) -> dict[str, str]:
        return {"text": data.text.upper()}


def watching(**chosen: Any) -> Watching:
    one = Watching("mrr", data={"valid": FEATURES}, judgments=JUDGMENTS, **chosen)
    one.begin()
    return one


def test_the_best_round_is_that_of_the_best_value() -> None:
    one = watching(patience=2)
    assert one.best_round is None
    assert one.best_value is None
    assert [
        one.record(k, k, {"valid": [value]}) for k, value in enumerate([0.2, 0.5, 0.4, 0.3], start=1)
    ] == [
        False,
        False,
        False,
        True,
    ]
    assert (one.best_round, one.best_value) == (2, 0.5)
    assert one.history == [
        Measured(k, "valid", "mrr", v) for k, v in enumerate([0.2, 0.5, 0.4, 0.3], start=1)
    ]


def test_a_step_that_adds_no_tree_is_neither_measured_again_nor_a_round() -> None:
    one = watching(patience=3)
    steps = [
        one.record(attempt, rounds, {"valid": [0.5]}) for attempt, rounds in [(1, 1), (2, 1), (3, 2), (4, 2)]
    ]
    assert steps == [False, False, False, True]  # patience counts steps
    assert [measured.round for measured in one.history] == [1, 2]
    assert one.best_round == 1
    better = watching()
    for attempt, rounds, value in [(1, 1, 0.5), (2, 1, 0.5), (3, 2, 0.75)]:
        better.record(attempt, rounds, {"valid": [value]})
    assert better.best_round == 2  # of the third step


def test_a_new_training_begins_with_nothing_measured() -> None:
    one = watching()
    one.record(1, 1, {"valid": [0.5]})
    one.begin()
    assert (one.history, one.best_round, one.best_value) == ([], None, None)
    one.record(1, 1, {"valid": [0.25]})
    assert (one.best_round, one.best_value) == (1, 0.25)


def test_means_are_those_of_the_set() -> None:
    assert watching().means("valid", np.array([0.0, 1.0])) == [0.5]


def test_who_asks_to_be_told_is_told_of_each_round_and_what_cannot_be_told_is_refused() -> None:
    told: list[Sequence[Measured]] = []
    one = watching(on_round=told.append)
    one.record(1, 1, {"valid": [0.5]})
    one.record(2, 1, {"valid": [0.5]})
    assert told == [[Measured(1, "valid", "mrr", 0.5)]]
    with pytest.raises(UsageError, match="on_round is a int; expected a function of measurements"):
        watching(on_round=3)


def test_every_third_round_and_the_last_are_due() -> None:
    one = watching(every=3)
    assert [attempt for attempt in range(1, 8) if one._is_due(attempt)] == [3, 6]
    assert one._is_due(7, last=True)
    assert all(watching()._is_due(attempt) for attempt in (1, 2, 3))


@pytest.mark.parametrize("rule", [StoppingRule(MRR(), patience=2, every=3), None])
def test_a_rule_is_taken_over_and_without_one_every_round_is_watched(rule: StoppingRule | None) -> None:
    one = watch_by_rule(Watching, rule, [MRR()], data={"valid": FEATURES}, judgments=JUDGMENTS)
    one.begin()
    assert one.stops is (rule is not None)
    assert [one._is_due(attempt) for attempt in (1, 2, 3)] == [rule is None, rule is None, True]
    assert [one.record(k, k, {"valid": [0.5]}) for k in (1, 2, 3)] == [False, False, rule is not None]


def test_a_block_ends_with_the_round_that_could_end_training(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = np.array([2.0, 1.0]), np.array([1.0, 2.0])  # the relevant row first: 1, second: 1/2
    scores = [second, second, first, second, second, second, second]
    options: dict[str, Any] = {"data": {"valid": FEATURES}, "judgments": JUDGMENTS}
    monkeypatch.setattr("ltr_harness.boosting.watching._LONGEST_BLOCK", np.inf)
    one = watch_by_rule(Watching, StoppingRule(MRR(), patience=3), [MRR()], **options)
    one.begin()
    stops, evaluated = [], []
    for round_, of_round in enumerate(scores, start=1):
        stops.append(one.evaluate(round_, round_, {"valid": of_round}))
        evaluated.append(len(one.history))
        if stops[-1]:
            break
    # patience could run out in round 1 + 3, and once round 3 is the best so far in round 3 + 3
    assert evaluated == [1, 1, 1, 4, 4, 6]
    assert stops == [False, False, False, False, False, True]
    assert [measured.value for measured in one.history] == [0.5, 0.5, 1.0, 0.5, 0.5, 0.5]
    assert one.best_round == 3


def test_a_block_ends_where_its_first_round_has_waited_long_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"data": {"valid": FEATURES}, "judgments": JUDGMENTS}
    one = watch_by_rule(Watching, None, [MRR()], **options)
    one.begin()
    evaluated = []
    for round_, longest in enumerate([np.inf, np.inf, 0.0, np.inf], start=1):
        monkeypatch.setattr("ltr_harness.boosting.watching._LONGEST_BLOCK", longest)
        assert not one.evaluate(round_, round_, {"valid": np.array([2.0, 1.0])})
        evaluated.append(len(one.history))
    assert evaluated == [1, 1, 3, 3]
    assert not one.evaluate_block()
    assert [measured.round for measured in one.history] == [1, 2, 3, 4]


def test_sets_that_are_given_come_before_those_a_training_offers() -> None:
    own = watching()
    own._choose_offered("a library", {"other": FEATURES}, None)
    assert list(own._data) == ["valid"]
    training_set = object()
    offered = Watching("mrr", judgments=JUDGMENTS)
    offered._choose_offered("a library", {"train": training_set, "valid": FEATURES}, training_set)
    assert (list(offered._data), offered._stop_on) == (
        ["train", "valid"],
        "valid",
    )  # and not on the training set
    with pytest.raises(UsageError, match="no evaluation set but the training set"):
        Watching("mrr")._choose_offered("a library", {"train": training_set}, training_set)


def test_what_is_pickled_takes_its_sets_along() -> None:
    assert pickle.loads(pickle.dumps(Watching("mrr")))._given is None
    packed = pickle.dumps(Words("mrr", data={"valid": Word("features")}, judgments=JUDGMENTS))
    assert b"FEATURES" in packed
    again = pickle.loads(packed)
    assert (again._given, again._data, again.history) == ({"valid": Word("FEATURES")}, {}, [])


def test_a_value_that_belongs_to_no_metric_is_not_dropped() -> None:
    with pytest.raises(ValueError, match="longer"):
        watching().record(1, 1, {"valid": [0.5, 0.25]})


@pytest.mark.parametrize("names", [["train", "test", "validation"], ["Test_2024", "validation", "training"]])
def test_the_test_set_is_never_proposed_to_stop_on(names: list[str]) -> None:
    with pytest.raises(UsageError, match=r"none is named to stop on; expected stop_on='validation'$"):
        Watching("mrr", data=dict.fromkeys(names, FEATURES))
    with pytest.raises(UsageError, match=r"\(train, test\) .* expected a validation set besides"):
        Watching("mrr", data=dict.fromkeys(["train", "test"], FEATURES))


def test_of_several_sets_one_is_named_to_stop_on() -> None:
    sets = {"one": FEATURES, "other": FEATURES}
    judgments = dict.fromkeys(sets, JUDGMENTS["valid"])
    stops = Watching("mrr", data=sets, judgments=judgments, stop_on="other", patience=1)
    stops.begin()
    rounds = [{"one": [0.5], "other": [0.75]}, {"one": [0.75], "other": [0.5]}]
    assert [stops.record(at, at, values) for at, values in enumerate(rounds, start=1)] == [False, True]
    assert (stops.best_round, stops.best_value) == (1, 0.75)
    with pytest.raises(
        UsageError,
        match=r"several sets are watched \(one, other\) and none is named to stop on; "
        "expected stop_on='one' or 'other'",
    ):
        Watching("mrr", data=sets)
    with pytest.raises(UsageError, match="stop_on is a int; expected the name of a watched set"):
        Watching("mrr", data=sets, stop_on=2)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="stop_on='an other' is not a watched set; did you mean 'other'"):
        Watching("mrr", data=sets, stop_on="an other")
    Watching("mrr", data=sets, patience=None)  # stops on none


def test_a_metric_given_twice_is_refused() -> None:
    with pytest.raises(MetricError, match=r"given more than once: mrr$"):
        Watching("mrr", "map", MRR())
