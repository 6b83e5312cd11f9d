"""Periods as units: days, weeks or months made of each query's day, joined where neighbours are alike."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ltr_harness.comparison.pairs import Entrant
from ltr_harness.stats.contributions import Codes, Contributions, Floats, paired_differences
from ltr_harness.time_folds import DAY, PERIOD, Days, period_for, period_in, periods_of
from ltr_harness.wording import count_of, plural

FEWEST = 10  # units that are left at least
ENOUGH = 50  # periods that show how alike neighbours are; measured, see docs/promises.md
_ALIKE = 0.5  # standard errors


def in_periods(
    entrants: Sequence[Entrant], unit: str | None, baseline: str, metric: str
) -> tuple[list[Entrant], str | None]:
    """With the unit made of each query's day where it is a period; and its name, such as ``week`` or ``2 weeks``."""
    ordered, days = list(entrants), days_of_queries(entrants)
    if unit is None or days is None or (unit != DAY and any(unit in one.query_attributes for one in ordered)):
        return ordered, unit
    made = (period_for(days), None) if unit == PERIOD else period_in(unit)
    if made is None:
        return ordered, unit
    period, number = made
    # neighbours that are alike at the metric are joined, unless the unit says how many
    number = number or how_many(compared(ordered, baseline, metric), _codes(periods_of(days, period)))
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


def compared(entrants: Sequence[Entrant], baseline: str, metric: str) -> Floats:
    """(n_queries, m): what models differ by from the baseline; its own values where it is alone."""
    values = {one.name: one.per_query(metric) for one in entrants}
    base = values.pop(baseline)
    return np.column_stack([paired_differences(own, base) for own in values.values()] or [base])


def neighbours(
    entrants: Sequence[Entrant],
    unit: str,
    values: Floats,  # (n_queries, m), what is compared
    units: Codes,  # (n_queries,)
) -> tuple[str, str]:
    """How alike neighbouring periods are where some were joined, and what that leaves open; "" if nothing is said."""
    made, days = period_in(unit), days_of_queries(entrants)
    if made is None or days is None:
        return "", ""
    period, number = made
    every, left = Contributions.of(values, _codes(periods_of(days, period))), Contributions.of(values, units)
    r = autocorrelation(every)
    said = f"neighbouring {plural(period, 2)} have an autocorrelation of {r:.2f}: "
    return said * (number is not None and r > 0), left_open(every, left, period, unit)


def left_open(every: Contributions, left: Contributions, period: str, unit: str) -> str:
    """What makes intervals too narrow: neighbouring units `left` that are alike, or too few periods to show it."""
    n = len(every.sums)
    if alike(left):
        found = f"neighbours {'still ' * (len(left.sums) < n)}have an autocorrelation of {autocorrelation(left):.2f}"
        return f"{unit}: {found}: intervals are likely too narrow; a longer test span or longer periods help"
    if n < ENOUGH:
        found = f"{n} are too few to show how much neighbouring {plural(period, 2)} are alike"
        return f"{period}: {found}: intervals may be too narrow; a longer test span tells"
    return ""


def days_of_queries(entrants: Sequence[Entrant]) -> Days | None:
    """The day of each query, of the first that knows it; None where none does, or a column of that name is no date."""
    for one in entrants:
        values = one.query_attributes.get(DAY)
        if values is None or values.dtype.kind not in "UMO":
            continue
        try:
            days = values.astype("datetime64[D]")
        except (ValueError, TypeError):
            continue
        if not np.isnat(days).any():
            return np.asarray(days.astype(np.int64))
    return None


def _codes(names: np.typing.NDArray[np.str_]) -> Codes:
    """(n,), in order of time as in that of their names."""
    return np.asarray(np.unique(names, return_inverse=True)[1].reshape(-1))


def autocorrelation(sample: Contributions) -> float:
    """Of what neighbouring units, in order of time, add beyond the mean: the largest column's; -1 if none varies."""
    squares = (sample.off**2).sum(axis=0)
    products = (sample.off[1:] * sample.off[:-1]).sum(axis=0)
    # of G independent units it is 1/G too low on average
    of_columns = products[squares > 0] / squares[squares > 0] + 1 / len(sample.off)
    return float(of_columns.max(initial=-1.0))


def alike(sample: Contributions) -> bool:
    """Whether the autocorrelation is at least half a standard error above 0."""
    return bool(autocorrelation(sample) > _ALIKE / len(sample.off) ** 0.5)


def blocks(periods: Codes, number: int) -> Codes:
    """Codes of so many neighbouring periods each; what is left over belongs to the last."""
    n = int(periods.max(initial=0)) + 1
    return np.asarray(np.minimum(periods // number, max(n // number, 1) - 1))


def how_many(values: Floats, periods: Codes) -> int:
    """How many neighbouring periods, (n,) from 0 on, of (n, m) values make a unit: doubled while they correlate."""
    number = 1
    while True:
        sample = Contributions.of(values, blocks(periods, number))
        if len(sample.sums) < 2 * FEWEST or autocorrelation(sample) <= 0:
            return number
        number *= 2
