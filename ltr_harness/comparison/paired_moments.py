"""Comparison of rankings by moments alone, where there are too many queries to keep their values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ltr_harness._util.catalog import did_you_mean
from ltr_harness._util.display import Displayed
from ltr_harness._util.text import count_of
from ltr_harness.comparison.contrasts import Difference, bounds_of, differences_of
from ltr_harness.comparison.stats.cluster_sums import Floats, paired_differences
from ltr_harness.comparison.stats.families import by_t, rare_share
from ltr_harness.comparison.stats.method import Method
from ltr_harness.data.arrays import KeepsArrays
from ltr_harness.data.columns import numbers_of
from ltr_harness.errors import DataError, NotComparableError, UsageError
from ltr_harness.metrics import parse_metric
from ltr_harness.metrics.arrow import QUERY, WEIGHT, metrics_in

LEAST = 100_000  # queries from which on flips of signs add nothing to Student's t
_MERGED = "compare() on the merged results"
_MOST_SKEWED = 0.1  # skewness of a mean; beyond it either tail is off by more than a third of the level


@dataclass(frozen=True, eq=False, repr=False)
class PairedMoments(Displayed, KeepsArrays):
    """Moments of several models' values over the same queries; those of other queries are added with ``+``.

    A query counts where every model has a value. Differences within 1e-9 are ties, as everywhere.

    Attributes:
        models: the models, the baseline first.
        metrics: canonical names.
        n: int64 (n_metrics,), queries.
        mean: float64 (n_metrics, n_models), means; from the second model on of the difference to the first.
        squares: float64 (n_metrics, n_models), sums of squared deviations from these means.
        cubes: float64 (n_metrics, n_models), sums of their cubes.

    Example:
        >>> import pyarrow as pa
        >>> a = pa.table({"query_id": [1, 2], "mrr": [0.5, 1.0]})
        >>> b = pa.table({"query_id": [1, 2], "mrr": [1.0, 1.0]})
        >>> both = PairedMoments.of({"live": a, "new": b})
        >>> both.mean.tolist(), both.squares.tolist(), (both + both).n.tolist()
        ([[0.75, 0.25]], [[0.125, 0.125]], [4])
    """

    models: tuple[str, ...]
    metrics: tuple[str, ...]
    n: np.ndarray[Any, np.dtype[np.int64]]
    mean: Floats
    squares: Floats
    cubes: Floats

    @classmethod
    def of(cls, results: Mapping[str, pa.RecordBatch | pa.Table]) -> PairedMoments:
        """The moments of one part's queries.

        Args:
            results: model to what `ltr_harness.arrow.per_query` gave for it, of the same queries in one order.

        Raises:
            UsageError: weighted queries, whose values have to be kept.
            NotComparableError: other queries, another order of them, or other metrics.
        """
        (name, first), *further = results.items()
        if WEIGHT in first.schema.names:
            raise UsageError(f"weighted queries have no moments here; expected {_MERGED}")
        for other, table in further:
            if table.schema.names != first.schema.names or not table[QUERY].equals(first[QUERY]):
                found = f"{other} has other queries, another order of them or other metrics than {name}"
                raise NotComparableError(f"{found}; expected results of the same batch")
        metrics = tuple(metrics_in(first))
        n, mean, sums = [], [], []
        for metric in metrics:
            values = np.stack([numbers_of(table[metric], metric) for table in results.values()])
            values = values[:, ~np.isnan(values).any(axis=0)]
            values[1:] = paired_differences(values[1:], values[0])
            n.append(values.shape[1])
            mean.append(values.mean(axis=1) if n[-1] else np.zeros(len(results)))
            residuals = values - mean[-1][:, None]
            sums.append([(residuals**2).sum(axis=1), (residuals**3).sum(axis=1)])
        return cls(tuple(results), metrics, np.array(n), np.array(mean), *np.array(sums).swapaxes(0, 1))

    def __repr__(self) -> str:
        baseline, *models = self.models
        lines = []
        for j, metric in enumerate(self.metrics):
            differences = [
                f"{model} {difference:+z.4f}"
                for model, difference in zip(models, self.mean[j, 1:], strict=True)
            ]
            queries = count_of(int(self.n[j]), "query")
            means = ", ".join([f"{baseline} {self.mean[j, 0]:z.4f}", *differences])
            lines.append(f"{metric}: {means} over {queries}")
        return "\n".join(lines)

    def __add__(self, other: PairedMoments) -> PairedMoments:
        if (self.models, self.metrics) != (other.models, other.metrics):
            found = f"{', '.join(other.models)} by {', '.join(other.metrics)}"
            expected = f"{', '.join(self.models)} by {', '.join(self.metrics)}"
            raise NotComparableError(f"moments of {found}; expected {expected}, as on the left")
        n = self.n + other.n
        shift = other.mean - self.mean
        own_share, other_share = (moments.n[:, None] / np.maximum(n, 1)[:, None] for moments in (self, other))
        squares = self.squares + other.squares + shift**2 * other_share * self.n[:, None]
        cubes = (
            self.cubes + other.cubes + shift**3 * other_share * self.n[:, None] * (own_share - other_share)
        )
        cubes += 3 * shift * (own_share * other.squares - other_share * self.squares)
        return PairedMoments(self.models, self.metrics, n, self.mean + shift * other_share, squares, cubes)

    def compare(
        self, metric: str | None = None, *, confidence: float = 0.95, margin: float | None = None
    ) -> dict[str, Difference]:
        """Each model's difference to the first by Student's t, which so many queries make as good as any test.

        Args:
            metric: one of the metrics; the first if none is named.
            confidence: of a family's intervals, by Bonferroni.
            margin: the largest difference that does not matter, in the metric's unit: adds the verdict `equivalent`.

        Returns:
            Model to difference, interval, p-values and verdict.

        Raises:
            DataError: fewer than 100,000 queries, a difference that rests on about 100 of them or fewer, or a verdict
                that a kind of query which is absent could undo.
            UsageError: fewer than two models, no such metric.
        """
        if len(self.models) < 2:
            raise UsageError(f"{len(self.models)} of 2 models; expected at least two results to compare")
        method = Method("t", confidence, margin)
        name = self.metrics[0] if metric is None else str(parse_metric(metric))
        if name not in self.metrics:
            raise UsageError(f"{name} was not evaluated; {did_you_mean(name, self.metrics)}")
        j = self.metrics.index(name)
        n = int(self.n[j])
        if n < LEAST:
            found = f"{n:,} queries: too few to judge their skewness by moments"
            raise DataError(f"{found}; expected {LEAST:,} or more, or {_MERGED}")
        models, mean, squares = self.models[1:], self.mean[j, 1:], self.squares[j, 1:]
        with np.errstate(invalid="ignore", divide="ignore"):
            skewness = np.abs(self.cubes[j, 1:]) / squares**1.5  # of the mean
        for model, value in zip(models, skewness, strict=True):
            if value > _MOST_SKEWED:
                found = f"the difference rests on few of {n:,} queries (skewness of its mean {value:.2f})"
                raise DataError(f"{model}: {found}; expected at most {_MOST_SKEWED:g}, or {_MERGED}")
        df = np.full(len(models), n - 1.0)
        tested = by_t(mean, np.sqrt(squares / (n - 1) / n), df, method)
        higher = parse_metric(name).higher_is_better
        results = differences_of(mean, tested, [higher for _ in models], method)
        differences = dict(zip(models, results, strict=True))
        _refuse_too_small(differences, n, name, method)
        return differences


def _refuse_too_small(differences: Mapping[str, Difference], n: int, metric: str, method: Method) -> None:
    """Raises DataError: a verdict that a kind of query which is absent from `n` could undo."""
    low, high = bounds_of(metric)
    width = high - low
    least = rare_share(n, method.level(len(differences))) * width
    if np.isinf(width):
        return
    for model, result in differences.items():
        room = abs(result.difference)
        if result.verdict == "equivalent":
            room = (method.margin or 0.0) - room
        if result.verdict in ("better", "worse", "equivalent") and room < least:
            found = f"the verdict {result.verdict!r} rests on {room:.2g}"
            kind = f"a query type that is missing from {n:,} could flip"
            raise DataError(f"{model}: {found}, which {kind}; expected {least:.2g} or more, or {_MERGED}")
