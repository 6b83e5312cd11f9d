"""The values a comparison is made of and ends in."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ltr_harness.errors import MetricError
from ltr_harness.own_files import is_own_file

Verdict = Literal["better", "worse", "equivalent", "not distinguishable", "baseline"]

WEIGHT = "query_weight"
"""The query attribute that says how much a query counts in weighted means."""


@lru_cache(maxsize=1024)
def _bounds_of(metric: str) -> tuple[float, float]:
    """The lowest and highest value that a metric of this name can have; infinite where it is not known."""
    from ltr_harness.metrics import parse_metric

    try:
        return (-math.inf, math.inf) if is_own_file(metric) else parse_metric(metric).bounds
    except MetricError:
        return -math.inf, math.inf


@dataclass(frozen=True, eq=False)
class Entrant:
    """One model as a comparison sees it: per-query values of every replicate, folds already pooled.

    Attributes:
        name: the model's name.
        query_ids: (n_queries,) str, unique; ``fold/id`` where several folds are pooled and ids could repeat.
        values: canonical metric name to float64 (n_replicates, n_queries); NaN where undefined.
        replicates: (n_replicates,) what tells the rows apart, such as seeds ``"1"``, ``"2"``.
        deterministic: the seed cannot matter, so one replicate stands for all.
        seeded: one replicate, and another seed would have given another model: a run of a method that is not
            deterministic. Where nothing is known of its training, what is given is all there is.
        higher_is_better: canonical metric name to direction.
        judgments_fingerprint: fold to digest of test labels, groups and ids; empty when unknown.
        query_attributes: name to (n_queries,) values for slices, such as rows per query.
        source: where it came from, for messages.
    """

    name: str
    query_ids: NDArray[np.str_]
    values: Mapping[str, NDArray[np.float64]]
    replicates: tuple[str, ...]
    higher_is_better: Mapping[str, bool]
    deterministic: bool = False
    seeded: bool = False
    judgments_fingerprint: Mapping[str, str] = field(default_factory=dict)
    query_attributes: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    source: str = ""

    def per_query(self, metric: str) -> NDArray[np.float64]:
        """float64 (n_queries,): each query's value averaged over replicates."""
        mean: NDArray[np.float64] = self.values[metric].mean(axis=0)
        return mean

    def take(self, queries: NDArray[np.int64]) -> Entrant:
        """The given queries alone, in the given order.

        Shapes: `queries` (n_kept,).
        """
        return replace(
            self,
            query_ids=self.query_ids[queries],
            values={metric: rows[:, queries] for metric, rows in self.values.items()},
            query_attributes={name: column[queries] for name, column in self.query_attributes.items()},
        )


def value_bounds(entrants: Sequence[Entrant], metric: str) -> tuple[float, float]:
    """The lowest and highest value that a query can have at a metric; infinite where that is not known.

    Values beyond the bounds of a metric of that name are of another metric.
    """
    low, high = _bounds_of(metric)
    rows = [entrant.values[metric] for entrant in entrants]
    within = all(not ((row < low) | (row > high)).any() for row in rows)
    return (low, high) if within else (-math.inf, math.inf)


@dataclass(frozen=True)
class Summary:
    """One model at one metric: a mean never travels without n and an interval."""

    model: str
    metric: str
    mean: float
    ci_low: float
    ci_high: float
    n: int
    n_undefined: int
    sd: float
    minimum: float
    p10: float
    median: float
    p90: float
    share_zero: float
    share_one: float
    n_replicates: int
    seed_sd: float  # NaN with one replicate
    seed_min: float
    seed_max: float


@dataclass(frozen=True)
class Paired:
    """One model against another at one metric, on paired per-query differences `model - other`.

    Differences keep the metric's own sign; wins, losses and the verdict follow the metric's direction, so a
    win is a query on which the model is better, also where lower values are.

    Where a side was trained with several seeds, interval, p-values, detectable difference and verdict are of the two
    methods: of other queries and other seeds together. Else they are of these two models on other queries.
    """

    model: str
    other: str
    metric: str
    n: int  # queries defined for both
    difference: float
    ci_low: float
    ci_high: float
    p: float  # by the chosen test
    p_corrected: float
    p_t: float
    effect_size: float  # d_z
    wins: int
    ties: int
    losses: int
    detectable: float  # smallest difference this query set could have shown at 80 % power
    seed_agreement: float  # share of seed pairs whose mean difference has the sign of the whole; NaN with one
    skewness: float  # of the differences; large with small n means the p-value is optimistic
    verdict: Verdict
    relative: float = math.nan  # difference / |mean of the other|; never shown without the difference
    trained_p: float = (
        math.nan
    )  # with several seeds: of these trained models on other queries; else p is that
    trained_p_corrected: float = math.nan
    trained_ci_low: float = math.nan
    trained_ci_high: float = math.nan
    model_mean: float = math.nan  # over the n queries of the pair, as the difference is
    other_mean: float = math.nan
    p_equivalence: float = math.nan  # two one-sided tests against the margin; NaN without a margin

    @property
    def over_seeds(self) -> bool:
        """Whether the verdict is of two methods: of other queries and other seeds together."""
        return not math.isnan(self.trained_ci_low)
