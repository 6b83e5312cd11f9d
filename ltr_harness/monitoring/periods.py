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
from ltr_harness.data.arrays import Array, Floats, Ints
from ltr_harness.data.columns import codes_of, with_common_categories
from ltr_harness.errors import Caution, DataError, Problem
from ltr_harness.monitoring.calendar import Units, UnitVariation, hours_of_week, part_of_season, units_of
from ltr_harness.monitoring.config import MonitorConfig
from ltr_harness.monitoring.queries import column_of, places_of, primary_of
from ltr_harness.monitoring.stats.adjustment import KeyEffects, Regression, dummies, hinges
from ltr_harness.monitoring.stats.several_samples import widen

_BINS = 5  # of a feature; its line breaks between them
_MIN_CELL_QUERIES = 20  # queries of the baseline in a cell that has a mean of its own


@dataclass(frozen=True, eq=False)
class Prediction:
    """The uncertainty that adjusting adds to a difference, as the baseline's effects are estimates."""

    covariates: Floats  # (n_now, p), of production's queries, less the baseline's means
    precision: Floats  # (p, p), as in `Regression`
    key_noise: float  # variance of the keys' estimated effects in production's mean of the primary metric

    def widen(self, reference: Sample, rows: Array | None) -> Sample:
        """Return the baseline's sample, as uncertain as its prediction is for production's queries, (n_rows,)."""
        chosen = self.covariates if rows is None else self.covariates[rows]
        if not (chosen.size and reference.values.size):
            return reference
        offset = chosen.mean(axis=0)
        centre = reference.values.mean()
        factor = np.sqrt(1 + offset @ self.precision @ offset)
        return Sample(centre + factor * (reference.values - centre), reference.clusters, reference.strata)


def _key_codes(now: pd.DataFrame, before: pd.DataFrame, config: MonitorConfig) -> tuple[Ints, Ints, int]:
    """Return the codes of recurring keys, and their number; a query without one is a key of its own."""
    keys_now, keys_before = with_common_categories(
        *_required_columns(now, before, "pair_key", str(config.columns.pair_key))
    )
    size = keys_now.categories.size
    codes_of_periods = []
    for category in (keys_now, keys_before):
        codes = codes_of(category)
        missing = np.flatnonzero(codes < 0)
        codes[missing] = size + np.arange(missing.size)
        size += missing.size
        codes_of_periods.append(codes)
    return codes_of_periods[0], codes_of_periods[1], size


def _cell_columns(codes_now: Ints, codes_before: Ints) -> tuple[Floats, Floats]:
    counts = np.bincount(codes_before)
    categories = np.flatnonzero(counts >= _MIN_CELL_QUERIES)
    shares = counts[categories] / max(int(counts[categories].sum()), 1)
    return dummies(codes_now, categories, shares), dummies(codes_before, categories, shares)


def _feature_columns(now: Floats, before: Floats) -> tuple[Floats, Floats]:
    """Return the columns of a feature's mean over a query's rows; missing means are a cell of their own."""
    missing = _cell_columns(np.isnan(now).astype(np.int64), np.isnan(before).astype(np.int64))
    reference = before[~np.isnan(before)]
    if reference.size < _MIN_CELL_QUERIES or reference.min() == reference.max():
        return missing
    curves = hinges(now, reference, _BINS), hinges(before, reference, _BINS)
    return np.hstack([missing[0], curves[0]]), np.hstack([missing[1], curves[1]])


def _required_columns(now: pd.DataFrame, before: pd.DataFrame, column: str, name: str) -> tuple[Any, Any]:
    """Return a column of both periods, which the baseline must have."""
    values_now, values_before = column_of(now, column), column_of(before, column)
    if values_now is None or values_before is None:
        found = f"has no column {name!r}"
        raise DataError(Problem("the baseline", found, "what compare.adjust names", "leave it out there"))
    return values_now, values_before


def _covariates(now: pd.DataFrame, before: pd.DataFrame, config: MonitorConfig) -> tuple[Floats, Floats]:
    """Return the columns that segments and features of `compare.adjust` are: (n_now, p) and (n_before, p)."""
    blocks = [(np.empty((len(now), 0)), np.empty((len(before), 0)))]
    for column in config.compare.adjust:
        if column in config.columns.segments:
            category, category_before = with_common_categories(
                *_required_columns(now, before, f"segment:{column}", column)
            )
            size = category.categories.size
            blocks.append(_cell_columns(codes_of(category, size), codes_of(category_before, size)))
        elif column != config.columns.pair_key:
            blocks.append(_feature_columns(*_required_columns(now, before, f"feature:{column}:mean", column)))
    columns_now, columns_before = zip(*blocks, strict=True)
    return np.concatenate(columns_now, axis=1), np.concatenate(columns_before, axis=1)


def _subtract_key_effects(now: Floats, before: Floats, keys: tuple[Ints, Ints, int]) -> float:
    """Subtract the effects of keys from values, (n_now,) and (n_before,), in place.

    Returns:
        The variance of the effects' estimates in the mean of `now`.
    """
    key, key_before, size = keys
    is_defined = ~np.isnan(before)
    effects = KeyEffects.of(before[is_defined], key_before[is_defined], size)
    before[is_defined] -= effects.leave_one_out
    now -= effects.effects[key]
    shares = np.bincount(key, minlength=size) / key.size
    return float(shares**2 @ effects.noise)


_MIN_REPLAY_SHARE = 0.5  # from this share of common query ids on, the baseline is a replay
_UNADJUSTED = ("common", "times", "strata", "units")  # whatever their values


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

    def adjust(self) -> "Periods":
        """Return the periods with adjusted values; the same ones without `compare.adjust`, or where queries recur.

        Queries of one key are a cluster then.
        """
        if not self.config.compare.adjust or self.common is not None:
            return self
        now, before = self.now, self.before
        covariates, covariates_before = _covariates(now, before, self.config)
        by_keys = self.config.columns.pair_key in self.config.compare.adjust
        keys = _key_codes(now, before, self.config) if by_keys else None
        adjusted_now, adjusted_before, noise = dict[str, Any](), dict[str, Any](), list[float]()
        for column in (name for name in now.columns if name.startswith("metric:")):
            values, reference = column_of(now, column), column_of(before, column).copy()
            is_defined = ~np.isnan(reference)
            if not is_defined.any():  # a metric that the baseline has for no query
                continue
            fit = Regression.of(reference[is_defined], covariates_before[is_defined])
            adjusted = values - covariates @ fit.slopes
            reference[is_defined] = fit.mean + fit.residuals
            if keys is not None:
                noise.append(_subtract_key_effects(adjusted, reference, keys))
            adjusted_now[column], adjusted_before[column] = adjusted, reference
        if by_keys:
            adjusted_now["cluster"], adjusted_before["cluster"] = now["pair_key"], before["pair_key"]
        precision = Regression.of(primary_of(before), covariates_before).precision
        prediction = Prediction(covariates, precision, noise[0] if noise else 0.0)
        now, before = now.assign(**adjusted_now), before.assign(**adjusted_before)
        periods = replace(self, now=now, before=before, prediction=prediction)
        vars(periods).update({name: getattr(self, name) for name in _UNADJUSTED})
        return periods

    def with_queries(self, rows: Ints) -> "Periods":
        """Return the periods with some of production's queries, (n_rows,), and the whole baseline."""
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
        """Return whether a difference is of the direction and size that an alert needs."""
        least = self.config.compare.min_drop
        if self.alternative == "change":
            return abs(difference) >= least
        if self.alternative == "rise":
            return difference >= least
        return -difference >= least

    @cached_property
    def clusters(self) -> tuple[Ints, Ints] | tuple[None, None]:
        """The codes of whom each query belongs to, the same coding on both sides."""
        clusters_now, clusters_before = (column_of(side, "cluster") for side in (self.now, self.before))
        if clusters_now is None or clusters_before is None:
            return None, None
        clusters_now, clusters_before = with_common_categories(clusters_now, clusters_before)
        return cluster_codes(clusters_now), cluster_codes(clusters_before, len(self.now))

    @cached_property
    def values(self) -> tuple[Floats, Floats]:
        """The values of the primary metric, (n_now,) and (n_before,)."""
        return primary_of(self.now), primary_of(self.before)

    @cached_property
    def times(self) -> tuple[Ints | None, Ints | None]:
        """The times in nanoseconds UTC, (n_now,) and (n_before,); None without timestamps."""
        return column_of(self.now, "time"), column_of(self.before, "time")

    @cached_property
    def strata(self) -> tuple[Ints, Ints] | tuple[None, None]:
        """The season: weekdays, where Mondays are to be compared with Mondays, or hours."""
        (now, before), windows = self.times, self.config.windows
        if windows.season == "none" or now is None or before is None:
            return None, None
        now, before = (hours_of_week(time, windows.timezone) for time in (now, before))
        return part_of_season(now, windows.season), part_of_season(before, windows.season)

    def sample_now(self, values: Floats | None = None, rows: Array | None = None) -> Sample:
        """Return production's defined values, or those of some queries."""
        return self._sample(0, values, rows)

    def sample_before(self, values: Floats | None = None) -> Sample:
        """Return the baseline's defined values."""
        return self._sample(1, values)

    def _sample(self, side: int, values: Floats | None, rows: Array | None = None) -> Sample:
        values = self.values[side] if values is None else values
        keep, clusters, strata = _defined_rows(values, rows), self.clusters[side], self.strata[side]
        if keep.size == values.size:
            return Sample(values, clusters, strata)
        return Sample(values[keep], _select_codes(clusters, keep), _select_codes(strata, keep))

    @cached_property
    def common(self) -> tuple[Ints, Ints] | None:
        """The places of the same queries in both periods, if they are enough to call it a replay."""
        positions = self.places
        if positions is None:
            positions = places_of(self.now["query_id"], self.before["query_id"])
        rows = np.flatnonzero(positions >= 0)
        if rows.size < max(2, _MIN_REPLAY_SHARE * min(len(self.now), len(self.before))):
            return None
        return rows, positions[rows]

    def differences(
        self, values: tuple[Floats, Floats] | None = None, pairs: tuple[Ints, Ints] | None = None
    ) -> Sample:
        """Return the difference of each query of a replay to itself."""
        values_now, values_before = self.values if values is None else values
        chosen = self.common if pairs is None else pairs
        assert chosen is not None
        differences = paired_differences(values_now[chosen[0]], values_before[chosen[1]])
        is_defined = ~np.isnan(differences)
        return Sample(differences[is_defined], _select_codes(self.clusters[0], chosen[0][is_defined]))

    @cached_property
    def reference(self) -> Sample:
        """The baseline's values of the primary metric, which every window needs."""
        return self.sample_before()

    @cached_property
    def units(self) -> list[Units]:
        """Days, and windows of another size where there are enough: what may differ by itself."""
        return units_of(*self.times, self.config)

    def unit_variations(self, values_now: Floats, values_before: Floats) -> list[UnitVariation]:
        """Estimate how much each of `units` varies by itself in values, (n_now,) and (n_before,), where possible."""
        now, before = self.sample_now(values_now), self.sample_before(values_before)
        rows, rows_before = _defined_rows(values_now, None), _defined_rows(values_before, None)
        variations = (
            unit.estimate_variation(now, rows, before, rows_before, is_window=number > 0)
            for number, unit in enumerate(self.units)
        )
        return [variation for variation in variations if variation is not None]

    @cached_property
    def primary_variations(self) -> list[UnitVariation]:
        """`unit_variations` of the primary metric."""
        return self.unit_variations(*self.values)

    def compare(
        self,
        values: tuple[Floats, Floats] | None = None,
        rows: Array | None = None,
        alternative: Alternative | None = None,
        variations: Sequence[UnitVariation] | None = None,
    ) -> Estimate:
        """Compare production with the baseline: the same queries in pairs, others by Welch's t with days' variance.

        Unless given, (n_now,) and (n_before,) values are the primary metric's, (n_rows,) rows all of production's, the
        alternative is that it gets worse; `variations` are `unit_variations` of values that are compared several times.
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
        estimate = difference(now, before, alternative=side, confidence=self.config.confidence)
        if not self.units or np.isnan(estimate.error):  # nothing to widen: a side has no value, or one
            return estimate
        if variations is None and values is None:
            variations = self.primary_variations
        elif variations is None:
            variations = self.unit_variations(now_values, before_values)
        return self._widest(estimate, variations, _defined_rows(now_values, rows), side)

    def _pairs(self, rows: Array | None) -> tuple[Ints, Ints] | None:
        """Return the places of queries, (n_rows,), in both periods; None where most of them are new."""
        if self.common is None or rows is None:
            return self.common
        chosen = np.isin(self.common[0], rows)
        if np.count_nonzero(chosen) < max(2, _MIN_REPLAY_SHARE * rows.size):
            return None
        return self.common[0][chosen], self.common[1][chosen]

    def _widest(
        self, estimate: Estimate, variations: Sequence[UnitVariation], rows: Ints, side: Alternative
    ) -> Estimate:
        """Return the estimate widened by the units that widen it most: hours of a day share the day."""
        wide = [
            widen(
                estimate,
                variation.variance,
                self._unit_share(variation, rows),
                side,
                self.config.confidence,
            )
            for variation in variations
        ]
        return max(wide, key=lambda candidate: candidate.error, default=estimate)

    def _unit_share(self, variation: UnitVariation, rows: Ints) -> float:
        """Return `share_of`, with the whole baseline where nothing is stratified."""
        if self.strata[1] is None:
            return variation.share_of_now(rows) + variation.whole_baseline_share
        return self.share_of(variation, rows, variation.rows_before)

    def share_of(self, variation: UnitVariation, rows: Ints, rows_before: Ints) -> float:
        """Return the share of the variance between units in the difference of (n_rows,) and (m_rows,) queries."""
        share_now = variation.share_of_now(rows)
        if self.strata[0] is None or self.strata[1] is None:
            return share_now + variation.share_of_before(rows_before)
        strata_now, strata_before = self.strata[0][rows], self.strata[1][rows_before]
        size = int(max(strata_now.max(), strata_before.max())) + 1
        shares = np.bincount(strata_now, minlength=size) / rows.size
        weights = shares / np.maximum(np.bincount(strata_before, minlength=size), 1)
        return share_now + variation.share_of_before(rows_before, weights[strata_before])

    @property
    def days_unknown(self) -> bool:
        """True where nobody can tell how much days vary by themselves, although it may matter."""
        return self.common is None and bool(self.units) and not self.primary_variations

    @property
    def effective_users(self) -> float:
        """The effective number of users of the smaller period; infinite where none are known."""
        if self.clusters[0] is None:
            return float("inf")
        return 1 + min(side.unweighted_mean[1].df for side in (self.sample_now(), self.reference))

    @property
    def days_caution(self) -> Caution | None:
        """The caution beside an alert where too few days are known; None where enough are, or none matter."""
        variations = () if self.common is not None else self.primary_variations
        return next((variation.caution for variation in variations if variation.units is self.units[0]), None)

    @cached_property
    def baseline_error(self) -> float:
        """The part of a window's error that is the baseline's, and so the same in every window."""
        if self.common is not None:
            return 0.0
        all_rows = np.arange(len(self.now))
        variances = [0.0]
        for variation in self.primary_variations:
            share = self.share_of(variation, all_rows, np.arange(len(self.before)))
            variances.append((share - variation.share_of_now(all_rows)) * variation.variance.variance)
        return float(np.sqrt(self.reference.unweighted_mean[1].variance + max(variances)))


def _defined_rows(values: Floats, rows: Array | None) -> Ints:
    keep = np.arange(values.size) if rows is None else rows
    return np.asarray(keep[~np.isnan(values[keep])])


def _select_codes(codes: Ints | None, rows: Ints) -> Ints | None:
    return None if codes is None else codes[rows]


def cluster_codes(category: pd.Categorical, offset: int = 0) -> Ints:
    """Return the codes of whom each query belongs to, (n,); a query of nobody known is a cluster of its own."""
    codes = codes_of(category)
    missing = np.flatnonzero(codes < 0)
    codes[missing] = category.categories.size + offset + missing
    return codes


def mean_of(sample: Sample, config: MonitorConfig) -> Estimate:
    """Return the mean with its interval; no test asks whether it is 0."""
    return replace(mean_estimate(sample, config.confidence), p=float("nan"))
