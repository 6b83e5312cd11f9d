"""Probabilities inside a query: the softmax of scores / T against the winners, and the T that fits best."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self, TypeVar

import numpy as np

from ltr_harness.data.arrays import Floats, Ints
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.errors import MetricError
from ltr_harness.metrics.core.metric import BinaryMetric, Cutoffs, Metric, Prepared, Values
from ltr_harness.metrics.core.ranking import Ranking

M = TypeVar("M", bound=Metric)

TEMPERATURE: Final = "temperature"
"""What a model's `learned` has its temperatures under, by the metric's name."""

LEAST = float(np.finfo(np.float64).eps)
"""Probability that smaller ones count as, as scikit-learn has it."""

_FLATTEST, _STEEPEST = 1e-3, 1e4
"""Bounds of 1/T, for scores that are at most 1 apart within a query."""


@dataclass(frozen=True, kw_only=True)
class ProbabilityMetric(BinaryMetric):
    """Base of the scores of probabilities.

    Attributes:
        temperature: T; None takes the one fitted on validation data, and 1 where none was.
    """

    temperature: float | None = None

    higher_is_better = False
    takes_cutoff = False
    takes_any_label = True
    depends_on_size = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.temperature is not None and not self.temperature > 0:
            raise MetricError(f"{self.name}: temperature={self.temperature}; expected a number above 0")

    def fitted(self, temperature: float) -> Self:
        """The same metric, by the same name, with a T from validation data."""
        metric = replace(self)
        object.__setattr__(metric, "_fitted", temperature)
        return metric

    @property
    def is_fitted(self) -> bool:
        """True where T is from validation data."""
        return hasattr(self, "_fitted")

    @property
    def takes_fitted(self) -> bool:
        """True where T comes from validation data where there is some, because none is given by name."""
        return self.temperature is None

    @property
    def t(self) -> float:
        """T as it is used."""
        fitted: float = getattr(self, "_fitted", 1.0)
        return fitted if self.temperature is None else self.temperature

    def shares(self, judgments: Judgments) -> tuple[Floats, Ints]:
        """Each row's share of its query's win, (n_rows,), and how many winners each query has, (n_queries,)."""
        is_winner, n_winners = self.relevant_rows(judgments)
        return is_winner / np.repeat(np.maximum(n_winners, 1), judgments.groups.sizes), n_winners

    def prepare(self, judgments: Judgments, cutoffs: Cutoffs) -> Prepared:
        share, n_winners = self.shares(judgments)

        def values(ranking: Ranking) -> Values:
            listed = QueryGroups(ranking.offsets, judgments.groups.ids)
            log_p = log_softmax(ranking.scores[ranking.rows], listed, self.t)
            won = share[ranking.rows]
            out = self.loss(log_p, won, listed)
            # a document without a rank has the probability 0
            absent = n_winners - listed.sum(won > 0, np.int64)
            out += absent / np.maximum(n_winners, 1) * self.unlisted_loss(np.maximum(n_winners, 1))
            return self.apply_empty(out[np.newaxis, :], n_winners == 0)

        return values

    def loss(self, log_p: Floats, won: Floats, listed: QueryGroups) -> Floats:
        """(n_queries,) loss of the listed rows, from log probabilities and shares of the win (n_listed,)."""
        raise NotImplementedError

    def unlisted_loss(self, n_winners: Ints) -> Floats | float:
        """(n_queries,) loss of a win by a document without a rank, as a share of one."""
        raise NotImplementedError

    def best_temperature(self, judgments: Judgments, scores: Floats) -> float:
        """The T with the least log loss, convex in 1/T, of scores (n_rows,); 1 where none differ beside a winner."""
        groups = judgments.groups
        share, n_winners = self.shares(judgments)
        low, high = groups.min(scores), groups.max(scores)
        with np.errstate(over="ignore", invalid="ignore"):
            usable = (n_winners > 0) & np.isfinite(high - low)
        used_groups, rows = groups.take(np.flatnonzero(usable))
        if not rows.size or not (scale := float((high - low)[usable].max())) > 0:
            return 1.0
        z = (scores[rows] - np.repeat(high[usable], used_groups.sizes)) / scale
        won = share[rows]
        weights = None if judgments.query_weights is None else judgments.query_weights[usable]

        def slope(steepness: float) -> float:
            p = np.exp(log_softmax(z, used_groups, 1.0 / steepness))
            return float(np.average(used_groups.sum((p - won) * z), weights=weights))

        low_end, high_end = _FLATTEST, _STEEPEST
        for _ in range(60):  # halves of 16 powers of e, down to the last bit
            middle = math.sqrt(low_end * high_end)
            low_end, high_end = (middle, high_end) if slope(middle) <= 0 else (low_end, middle)
        return scale / math.sqrt(low_end * high_end)


def with_learned(metrics: Sequence[M], learned: Mapping[str, Any]) -> list[M]:
    """Return the metrics by which a model that learned this is measured: those of probabilities at its temperatures."""
    return [_at_temperature(learned.get(TEMPERATURE, {}), metric) for metric in metrics]


def _at_temperature(temperatures: Mapping[str, float], metric: M) -> M:
    if not isinstance(metric, ProbabilityMetric) or not metric.takes_fitted:
        return metric
    # log loss decides every T, so metrics of the same winners share one, whichever of them was reported
    parameters = str(metric).partition("(")[2]
    same_winners = {name: t for name, t in temperatures.items() if name.partition("(")[2] == parameters}
    if not same_winners:
        return replace(metric)
    return metric.fitted(same_winners.get(str(metric), next(iter(same_winners.values()))))


def log_softmax(scores: Floats, groups: QueryGroups, t: float) -> Floats:
    """(n_rows,) log of each row's probability in its query, for scores (n_rows,) of any size."""
    top = np.repeat(groups.max(scores), groups.sizes)
    with np.errstate(over="ignore", invalid="ignore"):
        z = np.where(scores == top, 0.0, (scores - top) / t)
    return np.asarray(z - np.repeat(np.log(np.maximum(groups.sum(np.exp(z)), 1.0)), groups.sizes))
