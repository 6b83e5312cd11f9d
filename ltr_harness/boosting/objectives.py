"""Objectives made of a metric, and the weights of their pairs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, Self, get_args

from ltr_harness.errors import MetricError
from ltr_harness.groups import Judgments
from ltr_harness.metrics import Metric, parse_metric
from ltr_harness.metrics.core.gains import NAMED_DISCOUNTS
from ltr_harness.wording import count_of

Weighting = Literal["swap", "ndcg_loss2++"]


@dataclass(frozen=True, kw_only=True)
class MetricObjective:
    """A metric with `Metric.swap_change` as LambdaMART's objective; `swap_gradients` has the formulas.

    The weighting ``swap`` is by how much the metric changes; ``ndcg_loss2++`` of Wang et al. 2018 (LambdaLoss) adds ten
    times what two rows that far apart would lose at the top: DCG and NDCG alone have it.

    Example:
        >>> from ltr_harness.metrics import ERR
        >>> str(MetricObjective(metric=ERR(k=10, max_grade=4)).metric)
        'err(max_grade=4)@10'
    """

    metric: Metric
    truncation_level: int = 30  # pairs with a row within this many ranks count; the metric's cutoff bounds it
    sigma: float = 1.0  # steepness of the logistic function, > 0
    norm: bool = True  # LightGBM's `lambdarank_norm`: pairs by the distance of their scores, queries by their gradients
    weighting: Weighting = "swap"

    def __post_init__(self) -> None:
        if not self.metric.has_swap_change:
            raise MetricError(
                f"{self.metric} cannot be an objective: it does not say by how much it changes when two rows change "
                "places; expected a metric with `swap_change`, such as ndcg@10, mrr, map or err@10"
            )
        if isinstance(self.truncation_level, bool) or not isinstance(self.truncation_level, int):
            raise MetricError(f"truncation_level={self.truncation_level!r}; expected an integer")
        if self.truncation_level < 1:
            raise MetricError(f"truncation_level={self.truncation_level}; expected at least 1")
        if not (math.isfinite(self.sigma) and self.sigma > 0):
            raise MetricError(f"sigma={self.sigma}; expected a number above 0, such as 1")
        if self.weighting not in get_args(Weighting):
            expected = " or ".join(get_args(Weighting))
            raise MetricError(f"weighting={self.weighting!r}; expected {expected}")
        if self.weighting == "ndcg_loss2++" and getattr(self.metric, "discount", None) not in NAMED_DISCOUNTS:
            raise MetricError(
                f"weighting=ndcg_loss2++ with {self.metric}; expected dcg or ndcg with discount "
                f"{' or '.join(NAMED_DISCOUNTS)}"
            )

    @classmethod
    def of(
        cls, metric: Metric | str, truncation_level: int, sigma: float, norm: bool, weighting: Weighting
    ) -> Self:
        return cls(
            metric=parse_metric(metric),
            truncation_level=truncation_level,
            sigma=sigma,
            norm=norm,
            weighting=weighting,
        )

    def resolved(self, judgments: Judgments) -> Self:
        """The same, with everything fixed that the metric takes from the data."""
        metric = self.metric.resolved(judgments)
        if metric.k is None:  # with one, other parts of the data may have longer queries
            require_order(metric, judgments)
        return replace(self, metric=metric)


def require_order(metric: Metric, judgments: Judgments) -> None:
    """Refuse a resolved metric that no change of order changes in the training queries: nothing could be learned."""
    longest = int(judgments.groups.sizes.max())
    if metric.swap_change(judgments).is_level(longest):
        raise MetricError(
            f"{metric} counts every rank of the longest query ({count_of(longest, 'row')}) alike, so no order is "
            f"better than another; expected a cutoff below {longest}, such as {replace(metric, k=min(10, longest - 1))}"
        )
