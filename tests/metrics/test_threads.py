"""Splitting the queries over threads changes no bit."""

from __future__ import annotations

import numpy as np
import pytest

from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.errors import DataError, MetricError
from ltr_harness.metrics import bind
from ltr_harness.metrics.core import binding
from tests.conftest import named_case

METRICS = [
    "ndcg@10",
    "mrr@5",
    "err(max_grade=4)@10",
    "map",
    "ndcg(ties=stable)@3",
    "ndcg(score_precision=float32)@5",
]


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "_ROWS_PER_THREAD", 100)


def make_judgments(sizes: list[int], **also: object) -> Judgments:
    labels = np.random.default_rng(3).integers(0, 5, size=sum(sizes))
    return Judgments.checked(labels, QueryGroups.from_sizes(sizes), **also)  # type: ignore[arg-type]


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("sizes", [[40, 1, 200, 7, 90] * 4, [2000, 1, 1], [1, 1, 2000, 300], [1] * 1000])
@pytest.mark.parametrize("decimals", [0, 9])  # with and without ties
def test_values_are_the_same_bit_for_bit(sizes: list[int], decimals: int) -> None:
    weights = np.arange(1.0, len(sizes) + 1)
    judgments = make_judgments(sizes, query_weights=weights)
    scores = np.random.default_rng(4).normal(size=sum(sizes)).round(decimals)
    shown = np.random.default_rng(5).random(sum(sizes)) < 0.5
    alone = bind(METRICS, judgments)
    values, of_shown, means = alone.per_query(scores), alone.per_query(scores, shown), alone.means(scores)
    for threads in (2, 3, 7):
        with named_case(threads):
            together = bind(METRICS, judgments, threads)
            assert together._parts
            assert np.array_equal(values, together.per_query(scores), equal_nan=True)
            assert means.tolist() == together.means(scores).tolist()
            assert np.array_equal(of_shown, together.per_query(scores, shown), equal_nan=True)


@pytest.mark.usefixtures("small_parts")
def test_a_refusal_says_the_same_as_on_one_thread() -> None:
    judgments = make_judgments([150] * 4)
    said = []
    for threads in (1, 3):
        with pytest.raises(MetricError) as refused:
            bind("err(max_grade=3)@10", judgments, threads)
        said.append(str(refused.value))
    assert said[0] == said[1]


@pytest.mark.usefixtures("small_parts")
def test_scores_are_checked_as_a_whole() -> None:
    scores = np.zeros(600)
    scores[[200, 500]] = np.nan
    with pytest.raises(DataError, match=r"query '1', its row 50 \(2 such rows\)"):
        bind("ndcg@10", make_judgments([150] * 4), 3).means(scores)


def test_one_thread_and_few_rows_stay_together() -> None:
    assert not bind("ndcg@10", make_judgments([150] * 4), 8)._parts
    assert not bind("ndcg@10", make_judgments([150] * 4))._parts
