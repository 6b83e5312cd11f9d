"""The harness's metrics in LightGBM's terms: judgments out of a Dataset, results with the metric in them."""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltr_harness.errors import DataError
from ltr_harness.groups import Judgments, QueryGroups
from ltr_harness.metrics import Binding, Metric, bind


def judgments_of(dataset: Any) -> Judgments:
    """Labels, queries and query weights of a `lightgbm.Dataset`.

    A query weighs the mean of its rows' weights, as LightGBM's own metrics have it.

    Raises:
        DataError: the Dataset has no labels or no groups, or they do not fit together.
    """
    labels, sizes, weights = dataset.get_label(), dataset.get_group(), dataset.get_weight()
    if labels is None or len(labels) == 0:
        raise DataError("the Dataset has no labels; expected lightgbm.Dataset(…, label=…, group=…)")
    if sizes is None or len(sizes) == 0:
        raise DataError(
            "the Dataset has no query groups, and a ranking metric is a mean over queries; "
            "expected lightgbm.Dataset(…, group=rows_of_each_query)"
        )
    groups = QueryGroups.from_sizes(sizes)
    query_weights = None
    if weights is not None:
        row_weights = np.asarray(weights, dtype=np.float64)
        query_weights = np.add.reduceat(row_weights, groups.boundaries[:-1]) / groups.sizes
    return Judgments.checked(labels, groups, query_weights=query_weights)


class MetricName(str):
    """A metric's name in LightGBM's results that still knows the metric: LightGBM's own names do not."""

    metric: Metric

    @classmethod
    def of(cls, metric: Metric) -> MetricName:
        name = cls(metric)
        name.metric = metric
        return name


Row = tuple[MetricName, float, bool]


class Feval:
    """What `feval` returns."""

    def __init__(self, metrics: tuple[Metric, ...]) -> None:
        self._metrics = metrics
        self._bound: weakref.WeakKeyDictionary[Any, _Bound] = weakref.WeakKeyDictionary()

    def __call__(self, scores: NDArray[np.float64], dataset: Any) -> list[Row]:
        # LightGBM owns `scores` and overwrites it in the next round: it is read here, never kept or written.
        return rows(self._binding(dataset), scores)

    def _binding(self, dataset: Any) -> Binding:
        fields = (dataset.get_label(), dataset.get_group(), dataset.get_weight())
        known = self._bound.get(dataset)
        # LightGBM returns the same arrays until someone sets others
        if known is None or any(now is not then for now, then in zip(fields, known.fields, strict=True)):
            binding = bind(self._metrics, judgments_of(dataset))
            self._metrics = binding.metrics
            known = self._bound[dataset] = _Bound(fields, binding)
        return known.binding


class _Bound(NamedTuple):
    fields: tuple[Any, Any, Any]
    binding: Binding


def rows(binding: Binding, scores: NDArray[np.float64]) -> list[Row]:
    """What LightGBM's `feval` returns.

    Args:
        binding: metrics and judgments.
        scores: float64 (n_rows,), raw.
    """
    means = binding.means(scores)
    return [
        (MetricName.of(metric), float(mean), metric.higher_is_better)
        for metric, mean in zip(binding.metrics, means, strict=True)
    ]
