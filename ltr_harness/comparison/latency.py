"""Quality against latency: percentiles of the milliseconds per query, and whether the slower model is worth it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.special import bdtr, betaincinv, stdtrit

from ltr_harness.comparison.comparing import compare_systems
from ltr_harness.comparison.comparison import Comparison
from ltr_harness.comparison.contrasts import Paired, Sampling
from ltr_harness.comparison.stats.cluster_sums import effective_number
from ltr_harness.data.arrays import Floats

MILLISECONDS = "latency_ms"
"""The latency's name where it is compared like a metric."""

LatencyVerdict = Literal["worth it", "not worth it", "trade-off", "undecided"]


@dataclass(frozen=True)
class Percentile:
    """A percentile and the ends of its interval; None where too few queries lie beyond an end."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class ModelLatency:
    """The milliseconds per query of one model."""

    model: str
    n_queries: int
    documents: float | None  # mean number that a query's ranking lists; None where it is not known
    p50: Percentile
    p95: Percentile
    difference: Paired | None  # mean milliseconds against the baseline, whose own is None: "better" is faster
    verdict: LatencyVerdict | None  # likewise


def model_latencies(
    comparison: Comparison,
    milliseconds: Mapping[str, Mapping[str, float]],
    documents: Mapping[str, float] | None = None,
) -> list[ModelLatency]:
    """Return the latency of every compared model, the best model first.

    Args:
        comparison: of quality.
        milliseconds: model to query to its latency, of all compared models and queries.
        documents: model to the mean number of documents in its rankings, where it is known.

    Example:
        >>> from ltr_harness import compare, evaluate
        >>> labels, sizes = [1, 0, 0, 1], [2, 2]
        >>> small = evaluate(labels, [1, 2, 2, 1], ["mrr"], group_sizes=sizes)
        >>> large = evaluate(labels, [2, 1, 1, 2], ["mrr"], group_sizes=sizes)
        >>> times = {"small": {"0": 8.0, "1": 9.0}, "large": {"0": 30.0, "1": 41.0}}
        >>> for one in model_latencies(compare({"small": small, "large": large}), times):
        ...     print(one.model, one.p50.value, one.p95.value, one.verdict)
        large 30.0 41.0 undecided
        small 8.0 9.0 None
    """
    systems = []
    for name in comparison.models:
        system = comparison.system(name)
        values = np.array([milliseconds[name][query] for query in system.query_ids.tolist()])
        systems.append(
            replace(
                system,
                values={MILLISECONDS: values[None]},
                replicates=("1",),
                higher_is_better={MILLISECONDS: False},
                deterministic=True,
                seeded=False,
            )
        )
    # a latency has no bounds, and the margin is of the metric
    test = "permutation" if comparison.method.test == "bounded" else comparison.method.test
    method = replace(comparison.method, test=test, margin=None)
    of_time = compare_systems(systems, primary=MILLISECONDS, baseline=comparison.baseline, method=method)
    latencies = []
    for name in comparison.ranking:
        values = of_time.system(name).per_query(MILLISECONDS)
        difference = verdict = None
        if name != comparison.baseline:
            difference = of_time.paired(name)
            verdict = _verdict(comparison.paired(name), difference)
        p50, p95 = (_percentile(values, share, method.alpha, of_time.sampling) for share in (0.5, 0.95))
        depth = (documents or {}).get(name)
        latencies.append(ModelLatency(name, values.size, depth, p50, p95, difference, verdict))
    return latencies


def _percentile(values: Floats, share: float, alpha: float, sampling: Sampling) -> Percentile:
    """Return a percentile of (n_queries,) values, and its interval under the units and weights of the comparison."""
    if sampling.units is None and sampling.weights is None:
        return _percentile_of_queries(values, share, alpha)
    return _percentile_of_units(values, share, alpha, sampling)


def _percentile_of_queries(values: Floats, share: float, alpha: float) -> Percentile:
    """Return a percentile of independent queries, with the order statistics that enclose it at this level.

    As many values lie below the true percentile as a binomial variable says, whatever the distribution: David &
    Nagaraja, "Order Statistics" (3rd ed., 2003), 7.1.
    """
    ordered = np.sort(values)
    n = ordered.size
    at_most = bdtr(np.arange(n + 1.0), n, share)
    low, high = int(np.searchsorted(at_most, alpha / 2)), int(np.searchsorted(at_most, 1 - alpha / 2)) + 1
    return Percentile(
        float(np.quantile(ordered, share, method="inverted_cdf")),
        float(ordered[low - 1]) if low >= 1 else None,
        float(ordered[high - 1]) if high <= n else None,
    )


def _percentile_of_units(values: Floats, share: float, alpha: float, sampling: Sampling) -> Percentile:
    """Return a percentile of queries that belong together or have weights.

    Its interval inverts that of the share of values up to it: as many independent queries as have the error of that
    share count as binomial (Korn & Graubard 1998), at most as many as the weights leave (Kish).
    """
    order = np.argsort(values, kind="stable")
    weights = sampling.of_queries(values.size)
    shares = np.cumsum(weights[order]) / weights.sum()

    def value_at(place: float) -> float:
        return float(values[order[np.searchsorted(shares, place * (1 - 1e-12))]])

    value = value_at(share)
    up_to = sampling.contributions((values <= value).astype(np.float64)[:, None])
    n = effective_number(weights)
    if up_to.error[0] > 0:
        wider = stdtrit(values.size - 1, 1 - alpha / 2) / stdtrit(up_to.df[0], 1 - alpha / 2)
        n = min(n, share * (1 - share) / float(up_to.error[0]) ** 2 * float(wider) ** 2)
    below = share * n
    low, high = betaincinv(below, n - below + 1, alpha / 2), betaincinv(below + 1, n - below, 1 - alpha / 2)
    return Percentile(
        value,
        value_at(float(low)) if (1 - share) ** n <= alpha / 2 else None,
        value_at(float(high)) if share**n <= alpha / 2 else None,
    )


def _verdict(quality: Paired, time: Paired) -> LatencyVerdict:
    """Return whether a model is worth its latency: better or as good for no more time, worse or as good for more."""
    faster, slower = time.verdict == "better", time.verdict == "worse"
    if (quality.verdict == "better" and not slower) or (quality.verdict == "equivalent" and faster):
        return "worth it"
    if (quality.verdict == "worse" and not faster) or (quality.verdict == "equivalent" and slower):
        return "not worth it"
    if quality.verdict in ("better", "worse"):
        return "trade-off"
    return "undecided"
