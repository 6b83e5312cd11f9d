"""The highest grade of the scale: a property of the experiment, fixed once, never taken from a query."""

from __future__ import annotations

import warnings
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ltr_harness.errors import MetricError
from ltr_harness.groups import Judgments
from ltr_harness.metrics.core.metric import Metric
from ltr_harness.numbers import plain_number
from ltr_harness.wording import count_of

M = TypeVar("M", bound=Metric)


def check_max_grade(metric: str, max_grade: float | None) -> None:
    """Refuse a scale that ends at or below 0."""
    if max_grade is not None and not max_grade > 0:
        raise MetricError(f"{metric}: max_grade={max_grade}; expected a grade above 0")


def freeze_max_grade(metric: M, judgments: Judgments) -> M:
    """The metric on a scale; where it asks for one and has none, the largest label ends it, with a notice."""
    largest = max(float(judgments.labels.max()), 1.0)
    frozen = metric.on_scale(largest)
    if frozen == metric:
        return metric
    warnings.warn(
        f"{metric} has no max_grade: taking the largest label seen, {plain_number(largest)}, from here on "
        f"({frozen}); name max_grade to say which scale the labels are on",
        stacklevel=4,
    )
    return frozen


def refuse_above(
    max_grade: float,
    judgments: Judgments,
    metric: str,
    limit: str = "max_grade",
    cure: str = "set max_grade to the scale's highest grade",
) -> None:
    """Refuse labels above the scale's highest grade, naming the query."""
    too_large: NDArray[np.bool_] = judgments.labels > max_grade
    if too_large.any():
        row = int(np.flatnonzero(too_large)[0])
        groups = judgments.groups
        raise MetricError(
            f"{metric}: label {judgments.labels[row]:g} in query {groups.name(groups.query_of(row))!r} is above "
            f"{limit} ({count_of(int(too_large.sum()), 'such row')}); {cure}"
        )
