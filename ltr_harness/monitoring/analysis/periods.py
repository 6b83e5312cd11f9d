"""Production beside its baseline: the two samples that every test takes its numbers from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness.monitoring.analysis.windows import THURSDAY, local_days
from ltr_harness.monitoring.config import MonitorConfig
from ltr_harness.monitoring.queries import Category, QueryTable, together
from ltr_harness.monitoring.results.answers import Interval
from ltr_harness.stats.two_samples import Alternative, Codes, Estimate, Sample

_COMMON = 0.5  # from this share of common query ids on, the baseline is a replay

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Periods:
    """Queries that count on both sides: mature, and with a value of the primary metric.

    Attributes:
        now: production.
        before: the baseline.
    """

    now: QueryTable
    before: QueryTable
    config: MonitorConfig

    @property
    def higher_is_better(self) -> bool:
        return self.config.primary.higher_is_better

    @property
    def alternative(self) -> Alternative:
        """The direction in which the metric gets worse, or either."""
        if self.config.compare.alternative == "change":
            return "change"
        return "drop" if self.higher_is_better else "rise"

    def matters(self, difference: float) -> bool:
        """Whether a difference is of the direction and size that an alert needs."""
        if self.config.compare.alternative == "change":
            return abs(difference) >= self.config.compare.min_drop
        worse = -difference if self.higher_is_better else difference
        return worse >= self.config.compare.min_drop

    @cached_property
    def clusters(self) -> tuple[Codes, Codes] | tuple[None, None]:
        """Codes of whom each query belongs to, the same coding on both sides."""
        if self.now.cluster is None or self.before.cluster is None:
            return None, None
        one, two = together([self.now.cluster, self.before.cluster])
        size = one.names.size
        return _own_if_missing(one, size, 0), _own_if_missing(two, size, len(self.now))

    @cached_property
    def strata(self) -> tuple[Codes, Codes] | tuple[None, None]:
        """Weekdays, where Mondays are to be compared with Mondays."""
        if self.config.windows.season == "none" or self.now.time is None or self.before.time is None:
            return None, None
        zone = self.config.windows.timezone
        return (local_days(self.now.time, zone) + THURSDAY) % 7, (
            local_days(self.before.time, zone) + THURSDAY
        ) % 7

    def sample_now(self, values: Floats | None = None, rows: NDArray[Any] | None = None) -> Sample:
        """Production's values (of the primary metric unless given), or those of some queries.

        Args:
            values: float64 (n_queries,).
            rows: (n_kept,), places or truth values of the queries; all if None.
        """
        return _sample(self.now.primary if values is None else values, self.clusters[0], self.strata[0], rows)

    def sample_before(self, values: Floats | None = None, rows: NDArray[Any] | None = None) -> Sample:
        """The baseline's values.

        Args:
            values: float64 (n_queries,); those of the primary metric if None.
            rows: (n_kept,), places or truth values of the queries; all if None.
        """
        return _sample(
            self.before.primary if values is None else values, self.clusters[1], self.strata[1], rows
        )

    @cached_property
    def common(self) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """Where the same queries stand in both periods, if enough of them do to call it a replay."""
        import pandas as pd

        ours, theirs = pd.Index(self.now.ids), pd.Index(self.before.ids)
        at = theirs.get_indexer(ours)
        known = np.flatnonzero(at >= 0)
        if known.size < max(2, _COMMON * min(len(ours), len(theirs))):
            return None
        return known, at[known].astype(np.int64)

    @cached_property
    def reference(self) -> Sample:
        """The baseline's values of the primary metric, asked for by every window."""
        return self.sample_before()


def _sample(
    values: Floats, clusters: Codes | None, strata: Codes | None, rows: NDArray[Any] | None
) -> Sample:
    """Without undefined values, of the given rows."""
    keep = np.arange(values.size) if rows is None else rows
    keep = keep[~np.isnan(values[keep])]
    if keep.size == values.size:
        return Sample(values, clusters, strata)
    return Sample(
        values[keep], None if clusters is None else clusters[keep], None if strata is None else strata[keep]
    )


def own_clusters(category: Category | None) -> Codes | None:
    """Codes of one period alone."""
    return None if category is None else _own_if_missing(category, category.names.size, 0)


def _own_if_missing(category: Category, size: int, offset: int) -> Codes:
    """A query of nobody known is a cluster of its own."""
    codes = category.codes.astype(np.int64)
    missing = np.flatnonzero(codes < 0)
    codes[missing] = size + offset + missing
    return codes


def interval(estimate: Estimate) -> Interval:
    """A tested difference."""
    return Interval(estimate.value, estimate.low, estimate.high, estimate.p, estimate.error, estimate.n)


def of_mean(estimate: Estimate) -> Interval:
    """A mean: nobody asks whether it is 0."""
    return Interval(estimate.value, estimate.low, estimate.high, float("nan"), estimate.error, estimate.n)
