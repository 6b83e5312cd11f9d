"""Models by period of the calendar and by fold in time, and in how many folds a difference keeps its sign."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ltr_harness.comparison.pairs import SMALLEST, Entrant, Paired, value_bounds
from ltr_harness.comparison.periods import days_of_queries
from ltr_harness.stats.contributions import TIE, Codes, Contributions, paired_differences
from ltr_harness.stats.families import mean_intervals
from ltr_harness.stats.method import Method
from ltr_harness.time_folds import Days, period_for, period_in, periods_of
from ltr_harness.wording import count_of

FOLD = "fold"
_FEW = 3  # distinct periods from which on there is a course over time
_MOST = 40  # months on an axis
_LONGER = {1: "month", 3: "quarter", 12: "year"}
_NAMED = 5  # models in a sentence
_MANY = 1 / 3  # the share of folds with another sign from which on a verdict has a note


@dataclass(frozen=True)
class InTime:
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


def _periods(days: Days) -> tuple[str, NDArray[np.str_]]:
    """The unit that makes about forty of them at most, and the (n_queries,) names."""
    period = period_for(days)
    if period != "month":
        return period, periods_of(days, period)
    months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    size = next((size for size in _LONGER if np.ptp(months) < _MOST * size), max(_LONGER))
    return _LONGER[size], (months - months % size).astype("datetime64[M]").astype(np.str_)


def _folds(entrants: Sequence[Entrant], days: Days) -> NDArray[np.str_] | None:
    """(n_queries,): the fold in time that tests each query, by its first day; None without several such folds."""
    for one in entrants:
        names = sorted(one.judgments_fingerprint)
        with suppress(ValueError):  # a name that is no date
            starts = np.array(names, dtype="datetime64[D]")
            at = np.searchsorted(starts.astype(np.int64), days, side="right") - 1
            if starts.astype(str).tolist() == names and at.min(initial=0) >= 0 and np.unique(at).size > 1:
                return np.array(names)[at]
    return None


def in_time(
    entrants: Sequence[Entrant], baseline: Entrant, metric: str, method: Method, units: Codes | None
) -> tuple[InTime, ...]:
    """Every model in every period, if there are a few, then in every fold in time; oldest first."""
    days, rows = days_of_queries(entrants), []
    if days is None:
        return ()
    bottom, top = value_bounds(entrants, metric)
    bounds = [(bottom, top)] * len(entrants) + [(bottom - top, top - bottom)] * len(entrants)
    own, base = np.column_stack([one.per_query(metric) for one in entrants]), baseline.per_query(metric)
    differences = paired_differences(own, base[:, None])
    columns = np.hstack([np.where(np.isnan(differences), np.nan, own), differences])
    for unit, names in (_periods(days), (FOLD, _folds(entrants, days))):
        if names is None or (unit != FOLD and np.unique(names).size < _FEW):
            continue
        codes = None if unit != FOLD and method.unit and period_in(method.unit) else units
        for name in np.unique(names).tolist():
            inside = np.flatnonzero(names == name)
            sample = Contributions.of(columns[inside], None if codes is None else codes[inside])
            ends = np.array(mean_intervals(sample, method, bounds))
            if unit != FOLD:
                ends[:, sample.units < SMALLEST] = math.nan
            found = np.vstack([sample.mean, ends]).T.tolist()
            dates = days[inside].astype("datetime64[D]")
            for at, one in enumerate(entrants):
                apart = [math.nan] * 3 if one is baseline else found[at + len(entrants)]
                span = (str(dates.min()), str(dates.max()))
                rows.append(InTime(unit, name, *span, one.name, int(sample.n[at]), *found[at], *apart))
    return tuple(rows)


def sign(difference: float) -> int:
    """1, -1, or 0 for what counts as a tie."""
    return 0 if abs(difference) <= TIE else 1 if difference > 0 else -1


def fold_signs(entrants: Sequence[Entrant], baseline: Entrant, metric: str) -> tuple[FoldSigns, ...]:
    """Of every model whose whole difference is not 0; nothing without folds in time."""
    days, found = days_of_queries(entrants), []
    folds = None if days is None else _folds(entrants, days)
    if folds is None:
        return ()
    for one in entrants:
        d = paired_differences(one.per_query(metric), baseline.per_query(metric))
        known = ~np.isnan(d)
        means = [float(d[known & (folds == name)].mean()) for name in np.unique(folds[known])]
        whole = sign(float(d[known].mean())) if means else 0
        if whole:
            found.append(FoldSigns(one.name, sum(sign(mean) == whole for mean in means), len(means)))
    return tuple(found)


def signs_sentence(signs: Sequence[FoldSigns]) -> str:
    """In how many folds the sign agrees, for each model; nothing without folds in time."""
    if not signs:
        return ""
    first, *others = signs[:_NAMED]
    named = f" for {first.model}" + "".join(f", {one} for {one.model}" for one in others)
    more = f" (and {count_of(len(signs) - _NAMED, 'more model')})" if len(signs) > _NAMED else ""
    return f"The sign of the difference agrees in {first} folds{named if others else ''}{more}."


def signs_notes(signs: Sequence[FoldSigns], pairs: Sequence[Paired]) -> list[str]:
    """Cautions beside verdicts that many folds do not share; `pairs` are those of the primary metric."""
    verdicts = {pair.model: pair.verdict for pair in pairs if pair.verdict in ("better", "worse")}
    return [
        f"{one.model} is {verdicts[one.model]} over all folds together, and the sign does not agree in "
        f"{one.folds - one.agreeing} of {one.folds} of them: the next one may differ, too"
        for one in signs
        if one.model in verdicts and one.folds - one.agreeing >= _MANY * one.folds
    ]
