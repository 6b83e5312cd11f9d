"""Production beside its baseline: the two samples that every test takes its numbers from, and the test itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ltr_harness.logs.columns import codes_of, together
from ltr_harness.monitoring.analysis.adjustment import Prediction, adjusted_tables
from ltr_harness.monitoring.analysis.days import DaysDiffer, Units, units_of
from ltr_harness.monitoring.analysis.windows import season_of
from ltr_harness.monitoring.config import MonitorConfig
from ltr_harness.monitoring.queries import column_of, places_of, primary_of
from ltr_harness.monitoring.results.answers import Interval
from ltr_harness.stats.between_windows import widened
from ltr_harness.stats.paired import paired_differences
from ltr_harness.stats.two_samples import (
    Alternative,
    Codes,
    Estimate,
    Sample,
    difference,
    mean_estimate,
)

_COMMON = 0.5  # from this share of common query ids on, the baseline is a replay
_OF_THE_SAME_QUERIES = ("common", "times", "strata", "units")  # whatever their values

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Periods:
    """Queries that count on both sides: mature, and with a value of the primary metric.

    Attributes:
        now: production.
        before: the baseline.
        spent: share of every alpha that this run may use; less than 1 where there are more runs to come.
        prediction: of the baseline's part in adjusted values; None where values are as they are.
        places: int64 (n_now,), as `places_of` says of production among the baseline, where that is known already.
    """

    now: pd.DataFrame
    before: pd.DataFrame
    config: MonitorConfig
    spent: float = 1.0
    prediction: Prediction | None = None
    places: NDArray[np.int64] | None = None

    def adjusted(self) -> Periods:
        """With values less what is known of the queries; itself where nothing is, or queries meet themselves.

        Raises:
            DataError: the baseline lacks a column of `compare.adjust`.
        """
        if not self.config.compare.adjust or self.common is not None:
            return self
        now, before, prediction = adjusted_tables(self.now, self.before, self.config)
        adjusted = replace(self, now=now, before=before, prediction=prediction)
        vars(adjusted).update({name: getattr(self, name) for name in _OF_THE_SAME_QUERIES})
        return adjusted

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

    # ---- samples ------------------------------------------------------------------------------------------

    @cached_property
    def clusters(self) -> tuple[Codes, Codes] | tuple[None, None]:
        """Codes of whom each query belongs to, the same coding on both sides."""
        one, two = (column_of(side, "cluster") for side in (self.now, self.before))
        if one is None or two is None:
            return None, None
        one, two = together(one, two)
        return own_clusters(one), own_clusters(two, len(self.now))

    @cached_property
    def values(self) -> tuple[Floats, Floats]:
        """(n_now,) and (n_before,), of the primary metric."""
        return primary_of(self.now), primary_of(self.before)

    @cached_property
    def times(self) -> tuple[NDArray[np.int64] | None, NDArray[np.int64] | None]:
        """(n_now,) and (n_before,), nanoseconds UTC; None without timestamps."""
        return column_of(self.now, "time"), column_of(self.before, "time")

    @property
    def by_weekday(self) -> bool:
        """Whether a season compares Mondays with Mondays."""
        return self.config.windows.season in ("weekday", "hour_of_week")

    @cached_property
    def strata(self) -> tuple[Codes, Codes] | tuple[None, None]:
        """The season: weekdays, where Mondays are to be compared with Mondays, or hours."""
        one, two = self.times
        if self.config.windows.season == "none" or one is None or two is None:
            return None, None
        return season_of(one, self.config.windows), season_of(two, self.config.windows)

    def sample_now(self, values: Floats | None = None, rows: NDArray[Any] | None = None) -> Sample:
        """Production's values, or those of some queries.

        Shapes: `values` (n_now,), `rows` (n_rows,).
        """
        return _sample(self.values[0] if values is None else values, self.clusters[0], self.strata[0], rows)

    def sample_before(self, values: Floats | None = None, rows: NDArray[Any] | None = None) -> Sample:
        """The baseline's values.

        Shapes: `values` (n_before,), `rows` (n_rows,).
        """
        return _sample(self.values[1] if values is None else values, self.clusters[1], self.strata[1], rows)

    @cached_property
    def common(self) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """Where the same queries stand in both periods, if enough of them do to call it a replay."""
        at = self.places
        if at is None:
            at = places_of(self.now["query_id"], self.before["query_id"])
        known = np.flatnonzero(at >= 0)
        if known.size < max(2, _COMMON * min(len(self.now), len(self.before))):
            return None
        return known, at[known]

    def differences(
        self, values: tuple[Floats, Floats] | None = None, pairs: tuple[Codes, Codes] | None = None
    ) -> Sample:
        """Of a replay, how much each query differs from itself.

        Shapes: `values` (n_now,), `pairs` (n_pairs,).
        """
        ours, theirs = self.values if values is None else values
        chosen = self.common if pairs is None else pairs
        assert chosen is not None
        d = paired_differences(ours[chosen[0]], theirs[chosen[1]])
        return _sample(d, _some(self.clusters[0], chosen[0]), None, None)

    @cached_property
    def reference(self) -> Sample:
        """The baseline's values of the primary metric, asked for by every window."""
        return self.sample_before()

    # ---- days that differ ---------------------------------------------------------------------------------

    @cached_property
    def units(self) -> list[Units]:
        """Days, and windows of another size where there are enough: what may differ by itself."""
        now, before = self.times
        return [] if now is None else units_of(now, before, self.config)

    def days_differ(self, ours: Floats, theirs: Floats) -> list[DaysDiffer | None]:
        """For each of `units` how much it differs by itself in some values; None where nobody can tell.

        Shapes: `ours` (n_now,), `theirs` (n_before,).
        """
        now, before = self.sample_now(ours), self.sample_before(theirs)
        return [
            unit.differ(now, _known(ours, None), before, _known(theirs, None), own=at > 0)
            for at, unit in enumerate(self.units)
        ]

    @cached_property
    def primary_days(self) -> list[DaysDiffer | None]:
        """`days_differ` of the primary metric."""
        return self.days_differ(*self.values)

    # ---- the test -----------------------------------------------------------------------------------------

    def compare(
        self,
        values: tuple[Floats, Floats] | None = None,
        rows: NDArray[Any] | None = None,
        alternative: Alternative | None = None,
        days: Sequence[DaysDiffer | None] | None = None,
    ) -> Estimate:
        """Production against the baseline, as all that is known of both asks for.

        The same queries are compared in pairs. Different ones by Welch's t, users together, weekday by weekday where
        a season is set, and with the variance between days in it.

        Args:
            values: float64 (n_now,) and (n_before,), of the primary metric unless given.
            rows: int64 (n_rows,), production's queries; all unless given.
            alternative: the direction in which the primary metric gets worse unless given.
            days: `days_differ` of the values, where they are compared several times.
        """
        side = self.alternative if alternative is None else alternative
        confidence = self.config.compare.confidence
        ours, theirs = self.values if values is None else values
        pairs = self._pairs(rows)
        if pairs is not None:
            return mean_estimate(self.differences((ours, theirs), pairs), confidence, side)
        now = self.sample_now(ours, rows)
        before = self.reference if values is None else self.sample_before(theirs)
        if self.prediction is not None:
            before = self.prediction.widened(before, rows)
        plain = difference(now, before, alternative=side, confidence=confidence)
        if not self.units or np.isnan(plain.error):  # nothing to widen: a side has no value, or one
            return plain
        if days is None:
            days = self.primary_days if values is None else self.days_differ(ours, theirs)
        kept, theirs_kept = _known(ours, rows), None if self.strata[1] is None else _known(theirs, None)
        widest = plain  # of what the units make of it: hours of a day share the day
        for unit, known in zip(self.units, days, strict=True):
            if known is None:
                continue
            if theirs_kept is None:
                share = unit.share_of_now(kept, known.correlation) + known.of_before
            else:
                share = self.share_of(unit, kept, theirs_kept, known.correlation)
            wide = widened(plain, known.variance, share, side, confidence)
            if wide.error > widest.error or widest is plain:
                widest = wide
        return widest

    def share_of(self, unit: Units, rows: Codes, rows_before: Codes, correlation: float) -> float:
        """By how much of the variance between units the difference varies: squared shares of the units, added up.

        Shapes: `rows` (n_rows,), `rows_before` (m_rows,).
        """
        own = unit.share_of_now(rows, correlation)
        if self.strata[0] is None or self.strata[1] is None:
            return own + unit.share_of_before(rows_before, correlation)
        strata, theirs = self.strata[0][rows], self.strata[1][rows_before]
        size = int(max(strata.max(), theirs.max())) + 1
        shares = np.bincount(strata, minlength=size) / rows.size
        weights = shares / np.maximum(np.bincount(theirs, minlength=size), 1)
        return own + unit.share_of_before(rows_before, correlation, weights[theirs])

    @property
    def days_unknown(self) -> bool:
        """Whether nobody can tell how much days differ by themselves, although it may matter."""
        return self.common is None and bool(self.units) and not any(self.primary_days)

    @property
    def effective_users(self) -> float:
        """How many users of one size those of the smaller period are worth; infinite where none are known."""
        if self.clusters[0] is None:
            return float("inf")
        return 1 + min(side.plain[1].freedom for side in (self.sample_now(), self.reference))

    @property
    def days_caveat(self) -> str:
        """What an alarm leaves open, as too few days are known; empty where enough are, or none matter."""
        known = None if self.common is not None or not self.units else self.primary_days[0]
        return "" if known is None else known.caveat

    @cached_property
    def baseline_error(self) -> float:
        """The part of a window's error that is the baseline's, and so the same in every window."""
        if self.common is not None:
            return 0.0
        variance = self.reference.plain[1].variance
        everything = np.arange(len(self.now))
        of_days = [0.0]
        for unit, known in zip(self.units, self.primary_days, strict=True):
            if known is not None:
                alike = known.correlation
                share = self.share_of(unit, everything, np.arange(len(self.before)), alike)
                of_days.append((share - unit.share_of_now(everything, alike)) * known.variance.variance)
        return float(np.sqrt(variance + max(of_days)))

    def _pairs(self, rows: NDArray[Any] | None) -> tuple[Codes, Codes] | None:
        """The queries that both periods have, among some of production's; None where most of those are new."""
        if self.common is None:
            return None
        ours, theirs = self.common
        if rows is None:
            return ours, theirs
        wanted = np.zeros(len(self.now), dtype=bool)
        wanted[rows] = True
        chosen = wanted[ours]
        if np.count_nonzero(chosen) < max(2, _COMMON * rows.size):
            return None
        return ours[chosen], theirs[chosen]


def _sample(
    values: Floats, clusters: Codes | None, strata: Codes | None, rows: NDArray[Any] | None
) -> Sample:
    """Without undefined values, of the given rows."""
    keep = _known(values, rows)
    if keep.size == values.size:
        return Sample(values, clusters, strata)
    return Sample(values[keep], _some(clusters, keep), _some(strata, keep))


def _known(values: Floats, rows: NDArray[Any] | None) -> Codes:
    keep = np.arange(values.size) if rows is None else rows
    known: Codes = keep[~np.isnan(values[keep])]
    return known


def _some(codes: Codes | None, rows: Codes) -> Codes | None:
    return None if codes is None else codes[rows]


def own_clusters(category: pd.Categorical, offset: int = 0) -> Codes:
    """(n,) codes of whom each query belongs to; a query of nobody known is a cluster of its own."""
    codes = codes_of(category)
    missing = np.flatnonzero(codes < 0)
    codes[missing] = category.categories.size + offset + missing
    return codes


def interval(estimate: Estimate) -> Interval:
    """A tested difference."""
    return Interval(
        estimate.value, estimate.low, estimate.high, estimate.p, estimate.error, estimate.n, estimate.freedom
    )


def of_mean(estimate: Estimate) -> Interval:
    """A mean: nobody asks whether it is 0."""
    nan = float("nan")
    return Interval(
        estimate.value, estimate.low, estimate.high, nan, estimate.error, estimate.n, estimate.freedom
    )
