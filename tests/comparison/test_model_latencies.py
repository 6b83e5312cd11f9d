"""Latency beside quality: exact intervals of percentiles, and whether the slower model is worth it."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from ltr_harness import compare, evaluate
from ltr_harness.comparison.comparison import Comparison
from ltr_harness.comparison.contrasts import Sampling
from ltr_harness.comparison.latency import ModelLatency, Percentile, _percentile, model_latencies
from ltr_harness.data.arrays import Floats

N = 60


def quality(gap: float, seed: int = 0, margin: float | None = None) -> Comparison:
    """A comparison of `live` and `new`, whose reciprocal rank is higher where the gap is above 0."""
    rng = np.random.default_rng(seed)
    labels, sizes = np.tile([1, 0, 0, 0, 0], N), [5] * N
    noise = rng.normal(size=5 * N)
    live = evaluate(labels, 0.7 * labels + noise, ["mrr"], group_sizes=sizes)
    new = evaluate(labels, (0.7 + gap) * labels + noise, ["mrr"], group_sizes=sizes)
    return compare({"live": live, "new": new}, margin=margin)


def times(comparison: Comparison, new: float, spread: float = 1.0) -> dict[str, ModelLatency]:
    """The latencies where `live` takes about 20 ms, and `new` so many more."""
    rng = np.random.default_rng(1)
    queries = [str(query) for query in range(N)]
    common = rng.exponential(5, N)
    milliseconds = {
        "live": dict(zip(queries, 20 + common, strict=True)),
        "new": dict(zip(queries, 20 + new + common + spread * rng.normal(size=N), strict=True)),
    }
    return {one.model: one for one in model_latencies(comparison, milliseconds)}


@pytest.mark.parametrize(
    ("gap", "new", "margin", "quality_verdict", "time_verdict", "worth"),
    [
        (2.0, 9.0, None, "better", "worse", "trade-off"),
        (2.0, 0.0, None, "better", "not distinguishable", "worth it"),
        (2.0, -9.0, None, "better", "better", "worth it"),
        (-2.0, 9.0, None, "worse", "worse", "not worth it"),
        (-2.0, 0.0, None, "worse", "not distinguishable", "not worth it"),
        (-2.0, -9.0, None, "worse", "better", "trade-off"),
        (0.0, -9.0, 0.1, "equivalent", "better", "worth it"),
        (0.0, 9.0, 0.1, "equivalent", "worse", "not worth it"),
        (0.0, 0.0, 0.1, "equivalent", "not distinguishable", "undecided"),
        (0.1, 9.0, None, "not distinguishable", "worse", "undecided"),
    ],
)
def test_what_a_latency_is_worth(
    gap: float, new: float, margin: float | None, quality_verdict: str, time_verdict: str, worth: str
) -> None:
    comparison = quality(gap, margin=margin)
    assert comparison.paired("new").verdict == quality_verdict
    found = times(comparison, new)
    difference = found["new"].difference
    assert difference is not None
    assert (difference.verdict, found["new"].verdict) == (time_verdict, worth)
    assert difference.ci_low <= new <= difference.ci_high
    assert (found["live"].difference, found["live"].verdict) == (None, None)


def test_the_difference_is_that_of_the_comparisons_own_test() -> None:
    comparison = quality(2.0, margin=0.1)
    queries = [str(query) for query in range(N)]
    rng = np.random.default_rng(3)
    new, live = rng.exponential(9, N), rng.exponential(5, N)
    milliseconds = {
        name: dict(zip(queries, values, strict=True)) for name, values in (("live", live), ("new", new))
    }
    _, found = sorted(model_latencies(comparison, milliseconds), key=lambda one: one.model)
    assert found.difference is not None
    tables = {
        name: pd.DataFrame({"query_id": queries, "dcg@10": values})
        for name, values in (("live", live), ("new", new))
    }
    same = compare(tables).paired("new")
    assert found.difference.difference == pytest.approx((new - live).mean())
    assert (found.difference.ci_low, found.difference.ci_high) == pytest.approx((same.ci_low, same.ci_high))


def test_percentiles_and_their_order_statistics_by_hand() -> None:
    comparison = quality(2.0)
    queries = [str(query) for query in range(N)]
    rng = np.random.default_rng(2)
    shuffled = rng.permutation(np.arange(1.0, N + 1))
    milliseconds = {name: dict(zip(queries, shuffled, strict=True)) for name in ("live", "new")}
    found = model_latencies(comparison, milliseconds)[0]
    # of 1 to 60: the 30th; and of 60 the 57th is the first that 95 % are not above
    assert (found.p50.value, found.p95.value) == (30, 57)
    for percentile, share in ((found.p50, 0.5), (found.p95, 0.95)):
        assert percentile.low is not None
        below, above = binom.cdf(percentile.low - 1, N, share), 0.0
        if percentile.high is not None:
            above = binom.sf(percentile.high - 1, N, share)
        assert below <= 0.025 < binom.cdf(percentile.low, N, share)
        assert above <= 0.025
    assert found.p95.high is None, (
        "the largest of 60 is below the 95th percentile in 0.95**60 = 4.6 % of samples"
    )


def test_the_intervals_of_percentiles_hold_for_latencies_with_a_long_tail() -> None:
    rng = np.random.default_rng(4)
    held = np.zeros(2)
    for _ in range(400):
        values = rng.pareto(2, 200)
        for number, share in enumerate((0.5, 0.95)):
            percentile = _percentile(values, share, 0.05, Sampling())
            truth = (1 - share) ** -0.5 - 1
            assert percentile.low is not None
            assert percentile.high is not None
            held[number] += percentile.low <= truth <= percentile.high
    assert (held / 400 > 0.93).all(), held / 400


def test_more_confidence_makes_wider_intervals() -> None:
    labels, n = np.tile([1, 0], 500), 500
    evaluation = evaluate(labels, labels, ["mrr"], group_sizes=[2] * n)
    values = np.random.default_rng(5).exponential(10, n)
    milliseconds = {"one": {str(query): value for query, value in enumerate(values)}}
    widths = []
    for confidence in (0.8, 0.95, 0.99):
        (found,) = model_latencies(compare({"one": evaluation}, confidence=confidence), milliseconds)
        assert found.p95.low is not None
        assert found.p95.high is not None
        widths.append(found.p95.high - found.p95.low)
    assert all(narrow < wide for narrow, wide in pairwise(widths))
    assert not math.isnan(widths[0])


@pytest.mark.long
@pytest.mark.parametrize(("n_units", "size", "weighted"), [(60, 5, False), (60, 5, True), (200, 1, True)])
def test_the_intervals_of_percentiles_hold_for_queries_of_units_and_of_weights(
    n_units: int, size: int, weighted: bool
) -> None:
    rng = np.random.default_rng(6)
    units = np.repeat(np.arange(n_units), size) if size > 1 else None

    def sample(n: int) -> Floats:
        """(n * size,): skewed latencies, half of whose variance on the log scale is between units."""
        return np.exp(rng.normal(size=(n, 1)) + rng.normal(size=(n, size))).ravel()

    shares, held = (0.5, 0.95), np.zeros(2)
    truths = np.quantile(sample(200_000), shares)
    for _ in range(120):
        values = sample(n_units)
        sampling = Sampling(units, rng.exponential(size=values.size) if weighted else None)
        for number, (share, truth) in enumerate(zip(shares, truths, strict=True)):
            percentile = _percentile(values, share, 0.05, sampling)
            low = 0.0 if percentile.low is None else percentile.low
            high = np.inf if percentile.high is None else percentile.high
            held[number] += low <= truth <= high
    assert (held / 120 > 0.92).all(), held / 120


def test_units_and_weights_of_the_comparison_reach_the_percentiles() -> None:
    n = 200
    values = np.repeat(np.random.default_rng(7).exponential(10, n // 10), 10)  # one latency for each user
    frame = pd.DataFrame(
        {
            "query_id": np.arange(n).astype(str),
            "mrr": 1.0,
            "user": np.arange(n) // 10,
            "times": 1 + (values < 5) * 9.0,
        }
    )
    milliseconds = {"one": dict(zip(frame.query_id, values, strict=True))}

    def median(**method: str) -> Percentile:
        (found,) = model_latencies(compare({"one": frame}, **method), milliseconds)
        return found.p50

    of_queries, of_users, weighted = median(), median(unit="user"), median(weights="times")
    assert of_users.value == of_queries.value == np.quantile(values, 0.5, method="inverted_cdf")
    assert of_users.low < of_queries.low < of_queries.high < of_users.high
    assert weighted.value == np.quantile(
        np.repeat(values, frame.times.astype(int)), 0.5, method="inverted_cdf"
    )
