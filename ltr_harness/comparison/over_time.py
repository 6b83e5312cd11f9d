"""Queries in time: periods of the calendar as units, models by period and by fold, the folds that share a sign."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ltr_harness._util.text import count_of, plural
from ltr_harness.comparison.contrasts import SMALLEST, Paired, Sampling, SystemResult, value_bounds
from ltr_harness.comparison.stats.cluster_sums import TIE, ClusterSums, Codes, Floats, paired_differences
from ltr_harness.comparison.stats.families import mean_intervals
from ltr_harness.comparison.stats.method import Method
from ltr_harness.data.time_folds import DAY, PERIOD, Days, period_for, period_in, periods_of
from ltr_harness.data.times import local_days, moments_of
from ltr_harness.errors import Caution, DataError

FOLD = "fold"
_FEW = 3  # distinct periods from which on there is a course over time
_MOST = 40  # months on an axis
_LONGER = {1: "month", 3: "quarter", 12: "year"}
_NAMED = 5  # models in a sentence
_MANY = 1 / 3  # the share of folds with another sign from which on a verdict has a caution
_DECISIVE = 6  # units, the fewest whose signs can be significant; joined where even they are alike
ENOUGH = 50  # periods that show how alike neighbours are; measured, see docs/promises.md
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
    """(n_queries,): the fold in time that tests each query, by its first day; None without several such folds."""
    for one in systems:
        names = sorted(one.judgments_fingerprint)
        with suppress(ValueError):  # a name that is no date
            starts = np.array(names, dtype="datetime64[D]")
            at = np.searchsorted(starts.astype(np.int64), days, side="right") - 1
            if starts.astype(str).tolist() == names and at.min(initial=0) >= 0 and np.unique(at).size > 1:
                return np.array(names)[at]
    return None


def period_results(
    systems: Sequence[SystemResult], baseline: SystemResult, metric: str, method: Method, sampling: Sampling
) -> tuple[PeriodResult, ...]:
    """Every model in every period, if there are a few, then in every fold in time; oldest first."""
    days, rows = days_of_queries(systems), []
    if days is None:
        return ()
    bottom, top = value_bounds(systems, metric)
    bounds = [(bottom, top)] * len(systems) + [(bottom - top, top - bottom)] * len(systems)
    own, base = np.column_stack([one.per_query(metric) for one in systems]), baseline.per_query(metric)
    differences = paired_differences(own, base[:, None])
    columns = np.hstack([np.where(np.isnan(differences), np.nan, own), differences])
    weights = sampling.of_queries(len(columns))
    columns[weights == 0] = np.nan
    period = period_for(days)  # of which there are about forty at most
    course: tuple[str, NDArray[np.str_]] = period, periods_of(days, period)
    if period == "month":
        months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
        size = next((size for size in _LONGER if np.ptp(months) < _MOST * size), max(_LONGER))
        course = _LONGER[size], (months - months % size).astype("datetime64[M]").astype(np.str_)
    for unit, names in (course, (FOLD, _folds(systems, days))):
        if names is None or (unit != FOLD and np.unique(names).size < _FEW):
            continue
        within = sampling
        if unit != FOLD and method.unit and period_in(method.unit):
            within = sampling._replace(units=None)
        for name in np.unique(names).tolist():
            inside = np.flatnonzero(names == name)
            sample = within.take(inside).contributions(columns[inside])
            counts = np.count_nonzero(~np.isnan(columns[inside]), axis=0)
            ends = np.array(mean_intervals(sample, method, bounds))
            if unit != FOLD:
                ends[:, sample.units < SMALLEST] = math.nan
            found = np.vstack([sample.mean, ends]).T.tolist()
            dates = days[inside].astype("datetime64[D]")
            for at, one in enumerate(systems):
                apart = [math.nan] * 3 if one is baseline else found[at + len(systems)]
                span = (str(dates.min()), str(dates.max()))
                rows.append(PeriodResult(unit, name, *span, one.name, int(counts[at]), *found[at], *apart))
    return tuple(rows)


def sign(difference: float) -> int:
    """1, -1, or 0 for what counts as a tie."""
    return 0 if abs(difference) <= TIE else 1 if difference > 0 else -1


def fold_signs(
    systems: Sequence[SystemResult],
    baseline: SystemResult,
    metric: str,
    sampling: Sampling = Sampling(),  # noqa: B008  # immutable
) -> tuple[FoldSigns, ...]:
    """Of every model whose whole difference is not 0; nothing without folds in time."""
    days, found = days_of_queries(systems), []
    folds = None if days is None else _folds(systems, days)
    if folds is None:
        return ()
    for one in systems:
        d = paired_differences(one.per_query(metric), baseline.per_query(metric))
        of_folds = [np.where(folds == name, d, np.nan) for name in np.unique(folds)]
        whole, *means = sampling.means(np.column_stack([d, *of_folds])).tolist()
        signs = [sign(mean) for mean in means if not math.isnan(mean)]
        if signs and sign(whole):
            found.append(FoldSigns(one.name, signs.count(sign(whole)), len(signs)))
    return tuple(found)


def signs_sentence(signs: Sequence[FoldSigns]) -> str:
    """In how many folds the sign agrees, for each model; nothing without folds in time."""
    if not signs:
        return ""
    first, *others = signs[:_NAMED]
    named = f" for {first.model}" + "".join(f", {one} for {one.model}" for one in others)
    more = f" (and {count_of(len(signs) - _NAMED, 'more model')})" if len(signs) > _NAMED else ""
    return f"The sign of the difference agrees in {first} folds{named if others else ''}{more}."


def signs_cautions(signs: Sequence[FoldSigns], pairs: Sequence[Paired]) -> list[Caution]:
    """Return a caution for each verdict that many folds do not share; `pairs` are those of the primary metric."""
    verdicts = {pair.model: pair.verdict for pair in pairs if pair.verdict in ("better", "worse")}
    return [
        Caution(
            "signs-differ",
            "warning",
            f"{one.model} is {verdicts[one.model]} over all folds together, and the sign does not agree in "
            f"{one.folds - one.agreeing} of {one.folds} of them: the next one may differ, too",
        )
        for one in signs
        if one.model in verdicts and one.folds - one.agreeing >= _MANY * one.folds
    ]


def in_periods(
    systems: Sequence[SystemResult],
    unit: str | None,
    baseline: str,
    metric: str,
    weights: Floats | None = None,  # (n_queries,)
) -> tuple[list[SystemResult], str | None]:
    """With the unit made of each query's day where it is a period; and its name, such as ``week`` or ``2 weeks``."""
    ordered, days = list(systems), days_of_queries(systems)
    if unit is None or days is None or (unit != DAY and any(unit in one.query_attributes for one in ordered)):
        return ordered, unit
    made = (period_for(days), None) if unit == PERIOD else period_in(unit)
    if made is None:
        return ordered, unit
    period, number = made
    # neighbours that are alike at the metric are joined, unless the unit says how many
    values = compared(ordered, baseline, metric)
    number = number or how_many(values, _codes(periods_of(days, period)), weights)
    name = period if number == 1 else count_of(number, period)
    if name == DAY:
        return ordered, name
    for at, one in enumerate(ordered):
        own = days_of_queries([one])
        if own is not None:
            names, codes = np.unique(periods_of(own, period), return_inverse=True)
            block = blocks(np.arange(names.size), number)
            texts = names[np.searchsorted(block, block)][codes.reshape(-1)]  # the first period's name
            ordered[at] = replace(one, query_attributes={**one.query_attributes, name: texts})
    return ordered, name


def compared(systems: Sequence[SystemResult], baseline: str, metric: str) -> Floats:
    """(n_queries, m): what models differ by from the baseline; its own values where it is alone."""
    values = {one.name: one.per_query(metric) for one in systems}
    base = values.pop(baseline)
    return np.column_stack([paired_differences(own, base) for own in values.values()] or [base])


def neighbours(
    systems: Sequence[SystemResult],
    unit: str,
    values: Floats,  # (n_queries, m), what is compared
    sampling: Sampling,  # with units
) -> tuple[str, Caution | None]:
    """How alike neighbouring periods are where some were joined, "" else; and a caution of what that leaves open."""
    made, days = period_in(unit), days_of_queries(systems)
    if made is None or days is None:
        return "", None
    period, number = made
    every = sampling._replace(units=_codes(periods_of(days, period))).contributions(values)
    left = sampling.contributions(values)
    r = autocorrelation(every)
    text = ""
    if number is not None and r > 0:
        text = f"neighbouring {plural(period, 2)} have an autocorrelation of {r:.2f}: "
    return text, left_open(every, left, period, unit)


def left_open(every: ClusterSums, left: ClusterSums, period: str, unit: str) -> Caution | None:
    """What makes intervals too narrow: neighbouring units `left` that are alike, or too few periods to show it."""
    n = len(every.sums)
    if alike(left):
        neighbours = "neighbours still" if len(left.sums) < n else "neighbours"
        found = f"{neighbours} have an autocorrelation of {autocorrelation(left):.2f}"
        text, cure = f"{found}: intervals are likely too narrow", "a longer test span or longer periods help"
        return Caution("periods-correlate", "warning", text, cure, unit)
    if n < ENOUGH:
        found = f"{n} are too few to show how much neighbouring {plural(period, 2)} are alike"
        text, cure = f"{found}: intervals may be too narrow", "a longer test span tells"
        return Caution("few-periods", "warning", text, cure, period)
    return None


def days_of_queries(systems: Sequence[SystemResult]) -> Days | None:
    """The day of each query, of the first that knows it; None where none does, or a column of that name is no date."""
    for one in systems:
        values = one.query_attributes.get(DAY)
        if values is not None and values.dtype.kind in "UMO":
            with suppress(DataError):  # no dates
                return local_days(moments_of(values, DAY, "UTC", str), "UTC")
    return None


def _codes(names: NDArray[np.str_]) -> Codes:
    """(n,), in order of time as in that of their names."""
    return np.asarray(np.unique(names, return_inverse=True)[1].reshape(-1))


def autocorrelation(sample: ClusterSums) -> float:
    """Of what neighbouring units, in order of time, add beyond the mean: the largest column's; -1 if none varies."""
    squares = (sample.residuals**2).sum(axis=0)
    products = (sample.residuals[1:] * sample.residuals[:-1]).sum(axis=0)
    # of G independent units it is 1/G too low on average
    of_columns = products[squares > 0] / squares[squares > 0] + 1 / len(sample.residuals)
    return float(of_columns.max(initial=-1.0))


def alike(sample: ClusterSums) -> bool:
    """Whether the autocorrelation is at least half a standard error above 0."""
    return bool(autocorrelation(sample) > _ALIKE / len(sample.residuals) ** 0.5)


def blocks(periods: Codes, number: int) -> Codes:
    """Codes of so many neighbouring periods each; what is left over belongs to the last."""
    n = int(periods.max(initial=0)) + 1
    return np.asarray(np.minimum(periods // number, max(n // number, 1) - 1))


def how_many(values: Floats, periods: Codes, weights: Floats | None = None) -> int:
    """How many neighbouring periods, (n,) from 0 on, of (n, m) values with (n,) weights make a unit.

    Neighbours that are alike are joined pairwise, on until no correlation is left: few units show little of it.
    """
    number, sample = 1, ClusterSums.of(values, periods, weights)
    if not alike(sample):
        return number
    while len(sample.sums) >= _DECISIVE and autocorrelation(sample) > 0:
        number *= 2
        sample = ClusterSums.of(values, blocks(periods, number), weights)
    return number
