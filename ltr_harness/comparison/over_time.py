"""Queries in time: periods of the calendar as units, models by period and by fold, the folds that share a sign."""

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ltr_harness._util.text import count_of, plural
from ltr_harness.comparison.contrasts import SMALLEST, Paired, Sampling, SystemResult, value_bounds
from ltr_harness.comparison.stats.cluster_sums import TIE, ClusterSums, Floats, UnitCodes, paired_differences
from ltr_harness.comparison.stats.families import mean_intervals
from ltr_harness.comparison.stats.method import Method
from ltr_harness.data.time_folds import DAY, PERIOD, Days, Period, period_for, period_in, periods_of
from ltr_harness.data.times import local_days, moments_of
from ltr_harness.errors import Caution, DataError

FOLD = "fold"
_FEW = 3  # distinct periods from which on there is a course over time
_MOST = 40  # months on an axis
_LONGER = {1: "month", 3: "quarter", 12: "year"}
_NAMED = 5  # models in a sentence
_MANY = 1 / 3  # the share of folds with another sign from which on a verdict has a caution
_DECISIVE = 6  # units, the fewest whose signs can be significant; joined where even they are alike
ENOUGH = 50  # periods that show how alike neighbours are; measured, see docs/maintainers/promises.md
_ALIKE = 0.5  # standard errors


@dataclass(frozen=True)
class PeriodResult:
    """One model in one period, or in the test part of one fold in time, at the primary metric; intervals by itself."""

    unit: str  # day, week, month, quarter, year, or fold
    period: str  # such as 2024-W13; of quarters and years the first month, of a fold the first day
    first_day: str  # with a query, as the last one
    last_day: str
    model: str
    n: int  # queries that model and baseline have a value for, of which the mean and the difference are
    mean: float
    ci_low: float
    ci_high: float
    difference: float  # from the baseline; NaN for itself
    difference_ci_low: float
    difference_ci_high: float


@dataclass(frozen=True)
class FoldSigns:
    """In how many folds in time a model's mean difference from the baseline has the sign of the whole."""

    model: str
    agreeing: int
    folds: int  # with a difference

    def __str__(self) -> str:
        return f"{self.agreeing} of {self.folds}"


def _folds(systems: Sequence[SystemResult], days: Days) -> NDArray[np.str_] | None:
    """Return the fold in time that tests each query, (n_queries,), by its first day; None without several folds."""
    for system in systems:
        names = sorted(system.judgments_fingerprint)
        with suppress(ValueError):  # a name that is no date
            starts = np.array(names, dtype="datetime64[D]")
            fold = np.searchsorted(starts.astype(np.int64), days, side="right") - 1
            if starts.astype(str).tolist() == names and fold.min(initial=0) >= 0 and np.unique(fold).size > 1:
                return np.array(names)[fold]
    return None


def period_results(
    systems: Sequence[SystemResult], baseline: SystemResult, metric: str, method: Method, sampling: Sampling
) -> tuple[PeriodResult, ...]:
    """Return every model in every period, if there are a few, then in every fold in time; oldest first."""
    days = days_of_queries(systems)
    if days is None:
        return ()
    table = _TimeTable.of(systems, baseline, metric, sampling)
    within_periods = sampling
    if method.unit and period_in(method.unit):
        within_periods = sampling._replace(units=None)
    results: list[PeriodResult] = []
    unit, names = _course(days)
    if np.unique(names).size >= _FEW:
        results += table.results(unit, names, days, within_periods, method)
    folds = _folds(systems, days)
    if folds is not None:
        results += table.results(FOLD, folds, days, sampling, method)
    return tuple(results)


def _course(days: Days) -> tuple[str, NDArray[np.str_]]:
    """Return a unit of time of which there are about forty at most, and each query's period, (n_queries,)."""
    period = period_for(days)
    if period != "month":
        return period, periods_of(days, period)
    months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    size = next((size for size in _LONGER if np.ptp(months) < _MOST * size), max(_LONGER))
    return _LONGER[size], (months - months % size).astype("datetime64[M]").astype(np.str_)


@dataclass(frozen=True, eq=False)
class _TimeTable:
    """Values and differences of all models, which are summarised for any span of time."""

    systems: Sequence[SystemResult]
    baseline: SystemResult
    columns: Floats  # (n_queries, 2 n_systems): values where a difference is defined, then differences
    bounds: Sequence[tuple[float, float]]  # of each column

    @classmethod
    def of(
        cls, systems: Sequence[SystemResult], baseline: SystemResult, metric: str, sampling: Sampling
    ) -> "_TimeTable":
        values = np.column_stack([system.per_query(metric) for system in systems])
        differences = paired_differences(values, baseline.per_query(metric)[:, None])
        columns = np.hstack([np.where(np.isnan(differences), np.nan, values), differences])
        columns[sampling.of_queries(len(columns)) == 0] = np.nan
        bottom, top = value_bounds(systems, metric)
        bounds_of_values = [(bottom, top) for _ in systems]
        bounds_of_differences = [(bottom - top, top - bottom) for _ in systems]
        return cls(systems, baseline, columns, bounds_of_values + bounds_of_differences)

    def results(
        self, unit: str, names: NDArray[np.str_], days: Days, sampling: Sampling, method: Method
    ) -> Iterator[PeriodResult]:
        """Yield every model in every span of time; `names` holds that of each query, (n_queries,)."""
        for name in np.unique(names).tolist():
            inside = np.flatnonzero(names == name)
            sample = sampling.take(inside).contributions(self.columns[inside])
            counts = np.count_nonzero(~np.isnan(self.columns[inside]), axis=0)
            ends = np.array(mean_intervals(sample, method, self.bounds))
            if unit != FOLD:
                ends[:, sample.units < SMALLEST] = math.nan
            estimates = np.vstack([sample.mean, ends]).T.tolist()  # mean, low, high of each column
            dates = days[inside].astype("datetime64[D]")
            span = (str(dates.min()), str(dates.max()))
            for j, system in enumerate(self.systems):
                difference = [math.nan] * 3
                if system is not self.baseline:
                    difference = estimates[j + len(self.systems)]
                yield PeriodResult(unit, name, *span, system.name, int(counts[j]), *estimates[j], *difference)


def sign(difference: float) -> int:
    """Return 1, -1, or 0 for what counts as a tie."""
    if abs(difference) <= TIE:
        return 0
    return 1 if difference > 0 else -1


def fold_signs(
    systems: Sequence[SystemResult],
    baseline: SystemResult,
    metric: str,
    sampling: Sampling = Sampling(),  # noqa: B008  # immutable
) -> tuple[FoldSigns, ...]:
    """Count the signs of every model whose whole difference is not 0; nothing without folds in time."""
    days = days_of_queries(systems)
    folds = None if days is None else _folds(systems, days)
    if folds is None:
        return ()
    counts = []
    for system in systems:
        d = paired_differences(system.per_query(metric), baseline.per_query(metric))
        of_folds = [np.where(folds == name, d, np.nan) for name in np.unique(folds)]
        overall, *means = sampling.means(np.column_stack([d, *of_folds])).tolist()
        signs = [sign(mean) for mean in means if not math.isnan(mean)]
        if signs and sign(overall):
            counts.append(FoldSigns(system.name, signs.count(sign(overall)), len(signs)))
    return tuple(counts)


def signs_sentence(signs: Sequence[FoldSigns]) -> str:
    """State in how many folds the sign agrees, for each model; nothing without folds in time."""
    if not signs:
        return ""
    first, *further = signs[:_NAMED]
    text = f"The sign of the difference agrees in {first} folds"
    if further:
        text += f" for {first.model}" + "".join(f", {counts} for {counts.model}" for counts in further)
    if len(signs) > _NAMED:
        text += f" (and {count_of(len(signs) - _NAMED, 'more model')})"
    return f"{text}."


def signs_cautions(signs: Sequence[FoldSigns], pairs: Sequence[Paired]) -> list[Caution]:
    """Return a caution for each verdict that many folds do not share; `pairs` are those of the primary metric."""
    verdicts = {pair.model: pair.verdict for pair in pairs if pair.verdict in ("better", "worse")}
    return [
        Caution(
            "signs-differ",
            "warning",
            f"{verdicts[counts.model]} over all folds together, but not in {counts.folds - counts.agreeing} of the "
            f"{count_of(counts.folds, 'fold')}",
            "look at each fold under *Over time*",
            counts.model,
        )
        for counts in signs
        if counts.model in verdicts and counts.folds - counts.agreeing >= _MANY * counts.folds
    ]


def in_periods(
    systems: Sequence[SystemResult],
    unit: str | None,
    baseline: str,
    metric: str,
    weights: Floats | None = None,  # (n_queries,)
) -> tuple[list[SystemResult], str | None]:
    """Return the systems with the unit made of each query's day where it is a period, and its name.

    A name is such as ``week`` or ``2 weeks``.
    """
    ordered, days = list(systems), days_of_queries(systems)
    if unit is None or days is None:
        return ordered, unit
    is_attribute = any(unit in system.query_attributes for system in ordered)
    if is_attribute and unit != DAY:
        return ordered, unit
    period_and_number = (period_for(days), None) if unit == PERIOD else period_in(unit)
    if period_and_number is None:
        return ordered, unit
    period, number = period_and_number
    if number is None:  # neighbours that are alike at the metric are joined
        values = differences_or_values(ordered, baseline, metric)
        number = how_many(values, _codes(periods_of(days, period)), weights)
    name = period if number == 1 else count_of(number, period)
    if name != DAY:
        ordered = [_with_blocks(system, period, number, name) for system in ordered]
    return ordered, name


def _with_blocks(system: SystemResult, period: Period, number: int, name: str) -> SystemResult:
    """Return the system with the attribute `name`: the first of each query's block of `number` periods."""
    days = days_of_queries([system])
    if days is None:
        return system
    names, codes = np.unique(periods_of(days, period), return_inverse=True)
    block = blocks(np.arange(names.size), number)
    texts = names[np.searchsorted(block, block)][codes.reshape(-1)]
    return replace(system, query_attributes={**system.query_attributes, name: texts})


def differences_or_values(systems: Sequence[SystemResult], baseline: str, metric: str) -> Floats:
    """(n_queries, m): what models differ by from the baseline; its own values where it is alone."""
    values = {system.name: system.per_query(metric) for system in systems}
    base = values.pop(baseline)
    return np.column_stack(
        [paired_differences(model_values, base) for model_values in values.values()] or [base]
    )


def neighbours(
    systems: Sequence[SystemResult],
    unit: str,
    values: Floats,  # (n_queries, m), what is compared
    sampling: Sampling,  # with units
) -> tuple[str, Caution | None]:
    """Describe how alike joined periods are, "" where there are none; and return a caution of what that leaves open."""
    period_and_number, days = period_in(unit), days_of_queries(systems)
    if period_and_number is None or days is None:
        return "", None
    period, number = period_and_number
    every = sampling._replace(units=_codes(periods_of(days, period))).contributions(values)
    left = sampling.contributions(values)
    r = autocorrelation(every)
    text = ""
    if number is not None and r > 0:
        text = f"neighbouring {plural(period, 2)} have an autocorrelation of {r:.2f}, so "
    return text, left_open(every, left, period, unit)


def left_open(every: ClusterSums, left: ClusterSums, period: str, unit: str) -> Caution | None:
    """Return a caution of narrow intervals: neighbouring units `left` are alike, or too few periods show it."""
    n = len(every.sums)
    if are_neighbours_alike(left):
        neighbours = "neighbours still" if len(left.sums) < n else "neighbours"
        found = f"{neighbours} have an autocorrelation of {autocorrelation(left):.2f}"
        text, cure = (
            f"{found}, so intervals are likely too narrow",
            "use a longer test span or longer periods",
        )
        return Caution("periods-correlate", "warning", text, cure, unit)
    if n < ENOUGH:
        found = f"{n} are too few to show how much neighbouring {plural(period, 2)} are alike"
        text, cure = f"{found}, so intervals may be too narrow", "use a longer test span"
        return Caution("few-periods", "warning", text, cure, period)
    return None


def days_of_queries(systems: Sequence[SystemResult]) -> Days | None:
    """The day of each query, of the first that knows it; None where none does, or a column of that name is no date."""
    for system in systems:
        values = system.query_attributes.get(DAY)
        if values is not None and values.dtype.kind in "UMO":
            with suppress(DataError):  # no dates
                return local_days(moments_of(values, DAY, "UTC", str), "UTC")
    return None


def _codes(names: NDArray[np.str_]) -> UnitCodes:
    """(n,), in order of time as in that of their names."""
    return np.asarray(np.unique(names, return_inverse=True)[1].reshape(-1))


def autocorrelation(sample: ClusterSums) -> float:
    """Return the largest autocorrelation of the columns' residuals, units in order of time; -1 if none varies."""
    squares = (sample.residuals**2).sum(axis=0)
    products = (sample.residuals[1:] * sample.residuals[:-1]).sum(axis=0)
    # of G independent units it is 1/G too low on average
    of_columns = products[squares > 0] / squares[squares > 0] + 1 / len(sample.residuals)
    return float(of_columns.max(initial=-1.0))


def are_neighbours_alike(sample: ClusterSums) -> bool:
    """Return whether the autocorrelation is at least half a standard error above 0."""
    return bool(autocorrelation(sample) > _ALIKE / len(sample.residuals) ** 0.5)


def blocks(periods: UnitCodes, number: int) -> UnitCodes:
    """Codes of so many neighbouring periods each; what is left over belongs to the last."""
    n = int(periods.max(initial=0)) + 1
    return np.asarray(np.minimum(periods // number, max(n // number, 1) - 1))


def how_many(values: Floats, periods: UnitCodes, weights: Floats | None = None) -> int:
    """Return how many neighbouring periods, (n,) from 0 on, of (n, m) values with (n,) weights make a unit.

    Neighbours that are alike are joined pairwise, on until no correlation is left: few units show little of it.
    """
    number, sample = 1, ClusterSums.of(values, periods, weights)
    if not are_neighbours_alike(sample):
        return number
    while len(sample.sums) >= _DECISIVE and autocorrelation(sample) > 0:
        number *= 2
        sample = ClusterSums.of(values, blocks(periods, number), weights)
    return number
