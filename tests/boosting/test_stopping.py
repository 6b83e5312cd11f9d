"""The stopping rule by itself: direction, ties, patience, min_delta, NaN."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltr_harness.boosting import Stopper, StoppingRule
from ltr_harness.errors import DataError, UsageError
from ltr_harness.metrics import NDCG, Metric


@dataclass(frozen=True, kw_only=True)
class Misses(Metric):
    """A metric of which less is better."""

    name: ClassVar[str] = "misses"
    higher_is_better: ClassVar[bool] = False
    graded: ClassVar[bool] = False
    source: ClassVar[str] = "this test"


def run(values: list[float], **settings: float) -> tuple[int, int, float]:
    """Rounds run, best round, best value."""
    stopper = Stopper(StoppingRule(settings.pop("metric", NDCG(k=10)), **settings))
    for round_, value in enumerate(values, start=1):
        if stopper.update(round_, value):
            break
    return round_, stopper.best_round, stopper.best_value


def test_a_rising_metric_never_stops() -> None:
    assert run([i / 1000 for i in range(1000)], patience=1) == (1000, 1000, 0.999)


def test_a_falling_metric_stops_after_patience_and_keeps_the_first_round() -> None:
    assert run([1.0, 0.9, 0.8, 0.7, 0.6], patience=3) == (4, 1, 1.0)


def test_lower_is_better_where_the_metric_says_so() -> None:
    assert run([0.9, 0.5, 0.7, 0.8, 0.1], metric=Misses(), patience=2) == (4, 2, 0.5)


def test_a_tie_keeps_the_earlier_round() -> None:
    assert run([0.5, 0.7, 0.7, 0.7], patience=2) == (4, 2, 0.7)


def test_min_delta_compares_with_the_best_and_not_with_the_previous_round() -> None:
    # each step gains 0.04, less than 0.1; against the best, the third step's 0.12 counts
    assert run([0.50, 0.54, 0.58, 0.62], patience=10, min_delta=0.1) == (4, 4, 0.62)
    assert run([0.50, 0.60], patience=10, min_delta=0.125)[1] == 1
    assert run([0.50, 0.75], patience=10, min_delta=0.25)[1] == 1  # a gain of exactly min_delta is none


def test_patience_counts_rounds_and_not_evaluations() -> None:
    stopper = Stopper(StoppingRule(NDCG(k=10), patience=10, every=4))
    assert [stopper.update(round_, 0.5) for round_ in (4, 8, 12, 16)] == [False, False, False, True]
    assert stopper.best_round == 4


@pytest.mark.parametrize("at", [1, 2])
def test_an_undefined_mean_is_an_error_that_says_what_to_do(at: int) -> None:
    stopper = Stopper(StoppingRule(NDCG(k=10)))
    if at == 2:
        stopper.update(1, 0.5)
    with pytest.raises(DataError, match=r"ndcg@10 is undefined at round .*no query that counts .*empty=zero"):
        stopper.update(at, math.nan)


def test_every_number_out_of_range_is_named_at_once() -> None:
    with pytest.raises(UsageError) as raised:
        StoppingRule(NDCG(k=10), patience=0, min_delta=-1, every=1.5, max_rounds=True)  # type: ignore[arg-type]
    assert [problem.place for problem in raised.value.problems] == [
        "patience",
        "every",
        "max_rounds",
        "min_delta",
    ]


def test_the_ends_of_what_each_number_may_be() -> None:
    StoppingRule(NDCG(k=10), patience=1, min_delta=0, every=1, max_rounds=1)
    for number in (math.inf, math.nan, -1e-300, True):
        with pytest.raises(UsageError, match=r"min_delta: found .*; expected a number >= 0"):
            StoppingRule(NDCG(k=10), min_delta=number)
    with pytest.raises(UsageError, match="max_rounds: found 0; expected an integer >= 1"):
        StoppingRule(NDCG(k=10), max_rounds=0)


@pytest.mark.long
@given(
    st.lists(st.floats(-1, 1, allow_nan=False), min_size=1, max_size=60),
    st.integers(1, 20),
    st.sampled_from([NDCG(k=10), Misses()]),
)
def test_without_min_delta_the_best_round_is_the_first_best_of_all_seen(
    values: list[float], patience: int, metric: Metric
) -> None:
    rounds, best_round, best_value = run(values, patience=patience, metric=metric)
    seen = values[:rounds]
    assert best_value == (max(seen) if metric.higher_is_better else min(seen))
    assert best_round == seen.index(best_value) + 1
    assert rounds == len(values) or rounds - best_round == patience
