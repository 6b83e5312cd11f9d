"""Log loss and Brier score of the softmax of scores, against scikit-learn and SciPy; the temperature that fits."""

from __future__ import annotations

import dataclasses
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.metrics import log_loss

from ltr_harness import evaluate
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.errors import MetricError
from ltr_harness.metrics import Binding, Brier, LogLoss, parse_metric
from tests.conftest import examples

LARGEST = 36.04365338911715  # -log of the machine epsilon
Races = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]


def races(seed: int, n: int = 300, t: float = 1.0) -> Races:
    """Labels, scores and sizes of races whose winners are drawn by the softmax of scores / t."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 13, n)
    scores = rng.normal(0, 2, sizes.sum())
    labels = np.zeros(scores.size)
    for end, size in zip(np.cumsum(sizes), sizes, strict=True):
        p = softmax(scores[end - size : end] / t)
        labels[end - size + rng.choice(size, p=p)] = 1
    return labels, scores, sizes


@pytest.mark.parametrize("t", [0.3, 1.0, 5.0])
def test_the_values_are_those_of_sklearn_and_scipy(t: float) -> None:
    labels, scores, sizes = races(1, n=15)
    names = [f"log_loss(temperature={t:g})", f"brier(temperature={t:g})"]
    ev = evaluate(labels, scores, names, group_sizes=sizes)
    for query, end in enumerate(np.cumsum(sizes)):
        own = slice(end - sizes[query], end)
        p, winner = softmax(scores[own] / t), int(labels[own].argmax())
        if p.size > 1:
            theirs = log_loss([winner], p[np.newaxis], labels=np.arange(p.size))
            assert ev[names[0]].per_query[query] == pytest.approx(theirs, rel=1e-9, abs=1e-12)
        assert ev[names[1]].per_query[query] == pytest.approx(((p - labels[own]) ** 2).sum(), abs=1e-14)


def test_by_hand() -> None:
    def values(labels: list[float], scores: list[float], **more: object) -> tuple[float, float]:
        ev = evaluate(labels, scores, [LogLoss(), Brier()], group_sizes=[len(labels)], **more)  # type: ignore[arg-type]
        return ev["log_loss"].mean, ev["brier"].mean

    assert values([1], [-3e5]) == (0.0, 0.0)
    assert values([1, 0], [0, 0]) == pytest.approx((math.log(2), 0.5))
    # a dead heat of two of three, all alike: (log 3 + log 3) / 2, and 2 (1/2 - 1/3)^2 + (1/3)^2
    assert values([1, 2, 0], [7, 7, 7]) == pytest.approx((math.log(3), 1 / 18 + 1 / 9))
    assert values([1, 1], [0, math.log(3)]) == pytest.approx(((math.log(4) + math.log(4 / 3)) / 2, 0.125))
    assert np.isnan(values([0, 0.5], [1, 2])).all()  # nobody won
    assert values([-1, 1, -5], [0, 0, 0])[0] == pytest.approx(math.log(3))
    for scores in ([1e300, -1e300], [1.7e308, -1.7e308], [math.inf, 0], [0, -math.inf]):
        assert values([1, 0], scores) == (0.0, 0.0)
        assert values([0, 1], scores) == pytest.approx((LARGEST, 2.0))
    assert values([1, 0], [math.inf, math.inf]) == pytest.approx((math.log(2), 0.5))


def test_missed_documents_have_the_probability_0() -> None:
    groups = QueryGroups.from_sizes([3, 3, 2])
    labels = [0, 0, 1, 1, 0, 1, 1, 0]
    retrieved = np.array([True, True, False, True, True, False, False, False])
    judgments = Judgments.checked(labels, groups, retrieved=retrieved)
    values = Binding([LogLoss(), Brier()], judgments).per_query([0, 0, 5, 5])
    np.testing.assert_allclose(values[0], [LARGEST, (math.log(2) + LARGEST) / 2, LARGEST])
    # the winner missed: 2 (1/2)^2 + 1; one of two: 0 + (1/2)^2 + (1/2)^2; no candidate: 1
    np.testing.assert_allclose(values[1], [1.5, 0.5, 1.0])
    listed = evaluate(labels, [0, 0, 9, 5, 5, 9, 9, 9], ["brier"], group_sizes=[3, 3, 2], retrieved=retrieved)
    np.testing.assert_array_equal(listed["brier"].per_query, values[1])


@examples(80)
@given(
    rows=st.lists(st.tuples(st.integers(-1, 2), st.floats(-1e308, 1e308)), min_size=1, max_size=8),
    shift=st.floats(-5, 5),
)
def test_properties(rows: list[tuple[int, float]], shift: float) -> None:
    labels, scores = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    names = ["log_loss", "brier"]
    values = np.array(list(evaluate(labels, scores, names, group_sizes=[len(rows)]).means.values()))
    if not (labels >= 1).any():
        assert np.isnan(values).all()
        return
    assert 0 <= values[0] <= LARGEST + 1e-12
    assert 0 <= values[1] <= 2 + 1e-12
    small = scores / 1e308
    moved = [
        np.array(list(evaluate(labels, some, names, group_sizes=[len(rows)]).means.values()))
        for some in (small, small + shift)
    ]
    np.testing.assert_allclose(*moved, atol=1e-9)


def test_the_temperature_is_what_scipy_finds() -> None:
    for seed, t in ((1, 0.4), (2, 1.0), (3, 6.0)):
        labels, scores, sizes = races(seed, n=400, t=t)
        judgments = Judgments.checked(labels, QueryGroups.from_sizes(sizes))
        found = LogLoss().best_temperature(judgments, scores)

        is_row = np.arange(sizes.max()) < sizes[:, np.newaxis]
        padded = np.full(is_row.shape, -np.inf)  # a race in each line
        padded[is_row] = scores

        def loss(steepness: float, labels: NDArray[np.float64] = labels, padded: NDArray[np.float64] = padded,
                 is_row: NDArray[np.bool_] = is_row) -> float:  # fmt: skip
            return -float((labels * log_softmax(padded * steepness, axis=1)[is_row]).sum())

        theirs = minimize_scalar(loss, bounds=(1e-3, 50), method="bounded", options={"xatol": 1e-10})
        assert found == pytest.approx(1 / theirs.x, rel=1e-4)
        assert found == pytest.approx(t, rel=0.2)
        # in another unit the same probabilities
        assert LogLoss().best_temperature(judgments, scores * 1e250) == pytest.approx(1e250 * found, rel=1e-9)
        fitted = LogLoss().fitted(found)
        best = Binding([fitted], judgments).means(scores)[0]
        for other in (0.9 * found, 1.1 * found):
            assert best < Binding([LogLoss(temperature=other)], judgments).means(scores)[0]


def test_the_temperature_where_there_is_nothing_to_fit() -> None:
    def t(labels: list[float], scores: list[float], sizes: list[int]) -> float:
        return LogLoss().best_temperature(
            Judgments.checked(labels, QueryGroups.from_sizes(sizes)), np.array(scores)
        )

    assert t([1, 0], [3, 3], [2]) == 1
    assert t([0, 0], [3, 4], [2]) == 1
    assert t([1, 1], [3, 4], [1, 1]) == 1
    assert t([1, 0], [math.inf, 4], [2]) == 1
    assert t([1, 0], [4, 2], [2]) == pytest.approx(2 / 1e4)  # always right: as steep as it gets
    assert t([0, 1], [4, 2], [2]) == pytest.approx(2 / 1e-3)  # never right: all but equal


def test_a_fitted_metric_has_the_name_of_the_metric() -> None:
    fitted = Brier(relevant=2).fitted(3.5)
    assert str(fitted) == "brier(relevant=2)" == str(Brier(relevant=2))
    assert (fitted.t, fitted.is_fitted, Brier().t, Brier().is_fitted) == (3.5, True, 1.0, False)
    assert pickle.loads(pickle.dumps(fitted)).t == 3.5
    assert str(LogLoss(temperature=2)) == "log_loss(temperature=2)"
    assert parse_metric("log_loss(temperature=0.5)").t == 0.5  # type: ignore[attr-defined]
    assert not dataclasses.replace(Brier(), relevant=3).is_fitted
    with pytest.raises(MetricError, match="log_loss: temperature=0; expected a number above 0"):
        LogLoss(temperature=0)
    with pytest.raises(MetricError, match="does not define its change when two rows change places"):
        LogLoss().swap_change(Judgments.checked([1], QueryGroups.from_sizes([1])))
