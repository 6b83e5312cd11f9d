"""Production beside its baseline: the samples of every test and the test itself.

What is known of a query before it is ranked can be taken out of its value (`compare.adjust`): less chance of the mix in
every window. Segments enter by cells, features by broken lines, keys such as query texts by their mean, shrunk. All of
it is learned from the baseline; what that hardly has, such as a new country, moves no value.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from ltr_harness.comparison.stats.cluster_sums import paired_differences
from ltr_harness.comparison.stats.two_samples import Alternative, Estimate, Sample, difference, mean_estimate
from ltr_harness.data.columns import codes_of, with_common_categories
from ltr_harness.data.queries import Array, Floats, Ints
from ltr_harness.errors import Caution, DataError, Problem
from ltr_harness.monitoring.calendar import DaysDiffer, Units, hours_of_week, part_of_season, units_of
from ltr_harness.monitoring.config import MonitorConfig
from ltr_harness.monitoring.queries import column_of, places_of, primary_of
from ltr_harness.monitoring.stats.adjustment import KeyEffects, Regression, dummies, hinges
from ltr_harness.monitoring.stats.several_samples import widen

_BINS = 5  # of a feature; its line breaks between them
_LEAST = 20  # queries of the baseline in a cell that has a mean of its own


@dataclass(frozen=True, eq=False)
class Prediction:
    """What adjusting adds to the uncertainty of a difference, as the baseline's effects are estimates."""

    covariates: Floats  # (n_now, p), of production's queries, less the baseline's means
    precision: Floats  # (p, p), as in `Regression`
    key_noise: float  # variance of the keys' estimated effects in production's mean of the primary metric

    def widen(self, reference: Sample, rows: Array | None) -> Sample:
        """The baseline's sample, as uncertain as its prediction is for (n_rows,) of production's queries."""
        chosen = self.covariates if rows is None else self.covariates[rows]
        if not (chosen.size and reference.values.size):
            return reference
        away = chosen.mean(axis=0)
        centre = reference.values.mean()
        factor = np.sqrt(1 + away @ self.precision @ away)
        return Sample(centre + factor * (reference.values - centre), reference.clusters, reference.strata)


def _keys(now: pd.DataFrame, before: pd.DataFrame, config: MonitorConfig) -> tuple[Ints, Ints, int]:
    """Codes of the recurring keys, and how many there are; a query without one is a key of its own."""
    ours, theirs = with_common_categories(*_both(now, before, "pair_key", str(config.columns.pair_key)))
    size = ours.categories.size
    codes = []
    for category in (ours, theirs):
        own = codes_of(category)
        missing = np.flatnonzero(own < 0)
        own[missing] = size + np.arange(missing.size)
        size += missing.size
        codes.append(own)
    return codes[0], codes[1], size


def _cells(ours: Ints, theirs: Ints) -> tuple[Floats, Floats]:
    counts = np.bincount(theirs)
    kept = np.flatnonzero(counts >= _LEAST)
    shares = counts[kept] / max(int(counts[kept].sum()), 1)
    return dummies(ours, kept, shares), dummies(theirs, kept, shares)


def _feature(ours: Floats, theirs: Floats) -> tuple[Floats, Floats]:
    """Of the mean over a query's rows; missing in a cell of its own."""
    gone = _cells(np.isnan(ours).astype(np.int64), np.isnan(theirs).astype(np.int64))
    known = theirs[~np.isnan(theirs)]
    if known.size < _LEAST or known.min() == known.max():
        return gone
    curves = hinges(ours, known, _BINS), hinges(theirs, known, _BINS)
    return np.hstack([gone[0], curves[0]]), np.hstack([gone[1], curves[1]])


def _both(now: pd.DataFrame, before: pd.DataFrame, column: str, name: str) -> tuple[Any, Any]:
    """A column of both periods, which the baseline must have."""
    ours, theirs = column_of(now, column), column_of(before, column)
    if ours is None or theirs is None:
        found = f"has no column {name!r}"
        raise DataError(Problem("the baseline", found, "what compare.adjust names", "leave it out there"))
    return ours, theirs


def _covariates(now: pd.DataFrame, before: pd.DataFrame, config: MonitorConfig) -> tuple[Floats, Floats]:
    """Return the columns that segments and features of `compare.adjust` are: (n_now, p) and (n_before, p)."""
    blocks = [(np.empty((len(now), 0)), np.empty((len(before), 0)))]
    for column in config.compare.adjust:
        if column in config.columns.segments:
            category, category_before = with_common_categories(
                *_both(now, before, f"segment:{column}", column)
            )
            size = category.categories.size
            blocks.append(_cells(codes_of(category, size), codes_of(category_before, size)))
        elif column != config.columns.pair_key:
            blocks.append(_feature(*_both(now, before, f"feature:{column}:mean", column)))
    of_now, of_before = zip(*blocks, strict=True)
    return np.concatenate(of_now, axis=1), np.concatenate(of_before, axis=1)


_COMMON = 0.5  # from this share of common query ids on, the baseline is a replay
_OF_THE_SAME_QUERIES = ("common", "times", "strata", "units")  # whatever their values


@dataclass(frozen=True, eq=False)
class Periods:
    """Queries that count on both sides: mature, and with a value of the primary metric."""

    now: pd.DataFrame
    before: pd.DataFrame
    config: MonitorConfig
    # share of every alpha that this run may use; less than 1 where there are more runs to come
    spent: float = 1.0
    # of the baseline's part in adjusted values; None where values are as they are
    prediction: Prediction | None = None
    # (n_now,), as `places_of` says of production among the baseline, where that is known already
    places: Ints | None = None

    def adjusted(self) -> "Periods":
        """With values less what `compare.adjust` says of them; itself where it is empty, or queries meet themselves.

        Queries of one key are a cluster then.
        """
        if not self.config.compare.adjust or self.common is not None:
            return self
        now, before = self.now, self.before
        covariates, covariates_before = _covariates(now, before, self.config)
        keys = None
        if self.config.columns.pair_key in self.config.compare.adjust:
            keys = _keys(now, before, self.config)
        adjusted_now, adjusted_before, noise = dict[str, Any](), dict[str, Any](), []
        for column in (name for name in now.columns if name.startswith("metric:")):
            values, reference = column_of(now, column), column_of(before, column).copy()
            known = ~np.isnan(reference)
            if not known.any():  # a metric that the baseline has for no query
                continue
            fit = Regression.of(reference[known], covariates_before[known])
            adjusted = values - covariates @ fit.slopes
            reference[known] = fit.mean + fit.residuals
            if keys is not None:
                key, key_before, size = keys
                effects = KeyEffects.of(reference[known], key_before[known], size)
                reference[known] -= effects.leave_one_out
                adjusted -= effects.effects[key]
                shares = np.bincount(key, minlength=size) / key.size
                noise.append(float(shares**2 @ effects.noise))
            adjusted_now[column], adjusted_before[column] = adjusted, reference
        if keys is not None:
            adjusted_now["cluster"], adjusted_before["cluster"] = now["pair_key"], before["pair_key"]
        precision = Regression.of(primary_of(before), covariates_before).precision
        prediction = Prediction(covariates, precision, noise[0] if noise else 0.0)
        now, before = now.assign(**adjusted_now), before.assign(**adjusted_before)
        periods = replace(self, now=now, before=before, prediction=prediction)
        vars(periods).update({name: getattr(self, name) for name in _OF_THE_SAME_QUERIES})
        return periods

    def some(self, rows: Ints) -> "Periods":
        """(n_rows,) of production's queries against the whole baseline."""
        places = None if self.places is None else self.places[rows]
        return Periods(self.now.iloc[rows], self.before, self.config, self.spent, places=places)

    @property
    def sign(self) -> float:
        """1 where higher values of the primary metric are better, else -1."""
        return 1.0 if self.config.primary.higher_is_better else -1.0

    @property
    def alternative(self) -> Alternative:
        """The direction in which the metric gets worse, or either."""
        if self.config.compare.alternative == "change":
            return "change"
        return "drop" if self.sign > 0 else "rise"

    def matters(self, difference: float) -> bool:
        """Whether a difference is of the direction and size that an alert needs."""
        least = self.config.compare.min_drop
        if self.alternative == "change":
            return abs(difference) >= least
        if self.alternative == "rise":
            return difference >= least
        return -difference >= least

    @cached_property
    def clusters(self) -> tuple[Ints, Ints] | tuple[None, None]:
        """Codes of whom each query belongs to, the same coding on both sides."""
        one, two = (column_of(side, "cluster") for side in (self.now, self.before))
        if one is None or two is None:
            return None, None
        one, two = with_common_categories(one, two)
        return own_clusters(one), own_clusters(two, len(self.now))

    @cached_property
    def values(self) -> tuple[Floats, Floats]:
        """(n_now,) and (n_before,), of the primary metric."""
        return primary_of(self.now), primary_of(self.before)

    @cached_property
    def times(self) -> tuple[Ints | None, Ints | None]:
        """(n_now,) and (n_before,), nanoseconds UTC; None without timestamps."""
        return column_of(self.now, "time"), column_of(self.before, "time")

    @cached_property
    def strata(self) -> tuple[Ints, Ints] | tuple[None, None]:
        """The season: weekdays, where Mondays are to be compared with Mondays, or hours."""
        (one, two), windows = self.times, self.config.windows
        if windows.season == "none" or one is None or two is None:
            return None, None
        one, two = (hours_of_week(time, windows.timezone) for time in (one, two))
        return part_of_season(one, windows.season), part_of_season(two, windows.season)

    def sample_now(self, values: Floats | None = None, rows: Array | None = None) -> Sample:
        """Production's defined values, or those of some queries."""
        return self._sample(0, values, rows)

    def sample_before(self, values: Floats | None = None) -> Sample:
        """The baseline's defined values."""
        return self._sample(1, values)

    def _sample(self, side: int, values: Floats | None, rows: Array | None = None) -> Sample:
        values = self.values[side] if values is None else values
        keep, clusters, strata = _known(values, rows), self.clusters[side], self.strata[side]
        if keep.size == values.size:
            return Sample(values, clusters, strata)
        return Sample(values[keep], _some(clusters, keep), _some(strata, keep))

    @cached_property
    def common(self) -> tuple[Ints, Ints] | None:
        """Where the same queries stand in both periods, if enough of them do to call it a replay."""
        at = self.places
        if at is None:
            at = places_of(self.now["query_id"], self.before["query_id"])
        known = np.flatnonzero(at >= 0)
        if known.size < max(2, _COMMON * min(len(self.now), len(self.before))):
            return None
        return known, at[known]

    def differences(
        self, values: tuple[Floats, Floats] | None = None, pairs: tuple[Ints, Ints] | None = None
    ) -> Sample:
        """Of a replay, how much each query differs from itself."""
        ours, theirs = self.values if values is None else values
        chosen = self.common if pairs is None else pairs
        assert chosen is not None
        d = paired_differences(ours[chosen[0]], theirs[chosen[1]])
        known = ~np.isnan(d)
        return Sample(d[known], _some(self.clusters[0], chosen[0][known]))

    @cached_property
    def reference(self) -> Sample:
        """The baseline's values of the primary metric, asked for by every window."""
        return self.sample_before()

    @cached_property
    def units(self) -> list[Units]:
        """Days, and windows of another size where there are enough: what may differ by itself."""
        return units_of(*self.times, self.config)

    def days_differ(self, ours: Floats, theirs: Floats) -> list[DaysDiffer]:
        """How much each of `units` of which that is known differs by itself in (n_now,), (n_before,) values."""
        now, before = self.sample_now(ours), self.sample_before(theirs)
        rows, rows_before = _known(ours, None), _known(theirs, None)
        found = (
            unit.differ(now, rows, before, rows_before, own=at > 0) for at, unit in enumerate(self.units)
        )
        return [days for days in found if days is not None]

    @cached_property
    def primary_days(self) -> list[DaysDiffer]:
        """`days_differ` of the primary metric."""
        return self.days_differ(*self.values)

    def compare(
        self,
        values: tuple[Floats, Floats] | None = None,
        rows: Array | None = None,
        alternative: Alternative | None = None,
        days: Sequence[DaysDiffer] | None = None,
    ) -> Estimate:
        """Production against the baseline: the same queries in pairs, others by Welch's t with the days' variance.

        Unless given, (n_now,) and (n_before,) values are the primary metric's, (n_rows,) rows all of production's, the
        alternative is that it gets worse; `days` are `days_differ` of values that are compared several times.
        """
        side = self.alternative if alternative is None else alternative
        now_values, before_values = self.values if values is None else values
        pairs = self._pairs(rows)
        if pairs is not None:
            sample = self.differences((now_values, before_values), pairs)
            return mean_estimate(sample, self.config.confidence, side)
        now = self.sample_now(now_values, rows)
        before = self.reference if values is None else self.sample_before(before_values)
        if self.prediction is not None:
            before = self.prediction.widen(before, rows)
        plain = difference(now, before, alternative=side, confidence=self.config.confidence)
        if not self.units or np.isnan(plain.error):  # nothing to widen: a side has no value, or one
            return plain
        if days is None and values is None:
            days = self.primary_days
        elif days is None:
            days = self.days_differ(now_values, before_values)
        return self._widest(plain, days, _known(now_values, rows), _known(before_values, None), side)

    def _pairs(self, rows: Array | None) -> tuple[Ints, Ints] | None:
        """Return where the queries of (n_rows,) stand in both periods; None where most of them are new."""
        if self.common is None or rows is None:
            return self.common
        chosen = np.isin(self.common[0], rows)
        if np.count_nonzero(chosen) < max(2, _COMMON * rows.size):
            return None
        return self.common[0][chosen], self.common[1][chosen]

    def _widest(
        self, plain: Estimate, days: Sequence[DaysDiffer], rows: Ints, rows_before: Ints, side: Alternative
    ) -> Estimate:
        """Return the widest of what the units make of an estimate: hours of a day share the day."""
        wide = [
            widen(
                plain,
                known.variance,
                self._unit_share(known, rows, rows_before),
                side,
                self.config.confidence,
            )
            for known in days
        ]
        return max(wide, key=lambda estimate: estimate.error, default=plain)

    def _unit_share(self, days: DaysDiffer, rows: Ints, rows_before: Ints) -> float:
        """`share_of`, with the whole baseline where nothing is stratified."""
        if self.strata[1] is None:
            return days.share_of_now(rows) + days.of_before
        return self.share_of(days, rows, rows_before)

    def share_of(self, days: DaysDiffer, rows: Ints, rows_before: Ints) -> float:
        """By how much of the variance between units the difference of (n_rows,) and (m_rows,) queries varies."""
        own = days.share_of_now(rows)
        if self.strata[0] is None or self.strata[1] is None:
            return own + days.share_of_before(rows_before)
        strata, theirs = self.strata[0][rows], self.strata[1][rows_before]
        size = int(max(strata.max(), theirs.max())) + 1
        shares = np.bincount(strata, minlength=size) / rows.size
        weights = shares / np.maximum(np.bincount(theirs, minlength=size), 1)
        return own + days.share_of_before(rows_before, weights[theirs])

    @property
    def days_unknown(self) -> bool:
        """Whether nobody can tell how much days differ by themselves, although it may matter."""
        return self.common is None and bool(self.units) and not self.primary_days

    @property
    def effective_users(self) -> float:
        """How many users of one size those of the smaller period are worth; infinite where none are known."""
        if self.clusters[0] is None:
            return float("inf")
        return 1 + min(side.unweighted_mean[1].df for side in (self.sample_now(), self.reference))

    @property
    def days_caution(self) -> Caution | None:
        """The caution beside an alert where too few days are known; None where enough are, or none matter."""
        known = () if self.common is not None else self.primary_days
        return next((days.caution for days in known if days.units is self.units[0]), None)

    @cached_property
    def baseline_error(self) -> float:
        """The part of a window's error that is the baseline's, and so the same in every window."""
        if self.common is not None:
            return 0.0
        everything = np.arange(len(self.now))
        of_days = [0.0]
        for known in self.primary_days:
            share = self.share_of(known, everything, np.arange(len(self.before)))
            of_days.append((share - known.share_of_now(everything)) * known.variance.variance)
        return float(np.sqrt(self.reference.unweighted_mean[1].variance + max(of_days)))


def _known(values: Floats, rows: Array | None) -> Ints:
    keep = np.arange(values.size) if rows is None else rows
    return np.asarray(keep[~np.isnan(values[keep])])


def _some(codes: Ints | None, rows: Ints) -> Ints | None:
    return None if codes is None else codes[rows]


def own_clusters(category: pd.Categorical, offset: int = 0) -> Ints:
    """(n,) codes of whom each query belongs to; a query of nobody known is a cluster of its own."""
    codes = codes_of(category)
    missing = np.flatnonzero(codes < 0)
    codes[missing] = category.categories.size + offset + missing
    return codes


def mean_of(sample: Sample, config: MonitorConfig) -> Estimate:
    """The mean with its interval; no test asks whether it is 0."""
    return replace(mean_estimate(sample, config.confidence), p=float("nan"))
