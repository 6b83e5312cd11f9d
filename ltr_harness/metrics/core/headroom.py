"""The range that order can decide: the value of a random order of the candidates, and that of the best one."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import numpy as np

from ltr_harness._util.number_text import four_decimals
from ltr_harness._util.text import count_of
from ltr_harness.data.arrays import Array, Floats, Ints, KeepsArrays
from ltr_harness.data.judgments import Judgments, MissedDocuments
from ltr_harness.errors import Caution, MetricError
from ltr_harness.metrics.core import judged_share
from ltr_harness.metrics.core.binding import BoundOnce
from ltr_harness.metrics.core.metric import Metric
from ltr_harness.metrics.core.ranking import Ties
from ltr_harness.metrics.table import METRICS

REACHED = 0.85
"""From this share of the ceiling on, a random order leaves little to gain."""
CHANGED = 0.05
"""With a smaller share of queries that order can change, there is little to gain."""
_ROUNDING = 1e-9
_MOST_GRADES = 9


LITTLE_TO_GAIN = "little-to-gain"
"""The lint of an experiment's primary metric, which a comparison computes of all its test queries."""


@dataclass(frozen=True)
class MeanHeadroom:
    """Means of a random and of the best order of the candidates, over the same queries."""

    random: float  # mean of a random order
    ceiling: float  # mean of the best order
    # what the best order lacks for want of missed documents; NaN where nobody said which these are, or where some
    # query has no such value
    out_of_reach: float

    def __str__(self) -> str:
        text = f"random order {four_decimals(self.random)}, ceiling {four_decimals(self.ceiling)}"
        unreachable = "" if np.isnan(self.out_of_reach) else four_decimals(self.out_of_reach)
        return f"{text}, retrieval leaves {unreachable} out of reach" if unreachable else text


_COLUMNS = (": random order", ": ceiling", ": all retrieved")
"""What follows the metric's name in the columns of a table of queries."""
JUDGE_COLUMNS = (": by one judge", ": another judge")
"""Likewise, in the columns of `judge_ceiling`."""


@dataclass(frozen=True, eq=False)
class Headroom(KeepsArrays):
    """The values of a random and of the best order of each query's candidates, (n_queries,); NaN where undefined."""

    random: Floats  # mean over all orders of a query's candidates, exact
    ceiling: Floats  # value of the best order of its candidates
    # value of the best order, had every judged document been a candidate; NaN where that is lower, as a longer list's
    # can be by some metrics, and throughout where nobody said which documents were candidates
    with_all_retrieved: Floats

    @property
    def headroom(self) -> Floats:
        """(n_queries,), >= 0: ceiling - random; 0 exactly where no order changes the value."""
        difference = self.ceiling - self.random
        return np.where(difference <= _ROUNDING, 0.0 * difference, difference)

    def means(self, values: Floats, weights: Floats | None = None) -> MeanHeadroom | None:
        """The means over queries for which a ranking has a value (n_queries,), by their weights; None without any."""
        defined = ~np.isnan(values) & ~np.isnan(self.headroom)
        if weights is not None:
            defined &= weights > 0
        if not defined.any():
            return None
        defined_weights = None if weights is None else weights[defined]
        means = (
            float(np.average(values_of_order[defined], weights=defined_weights))
            for values_of_order in vars(self).values()
        )
        random, ceiling, with_all_retrieved = means
        return MeanHeadroom(random, ceiling, with_all_retrieved - ceiling)

    def columns(self, metric: str) -> dict[str, Floats]:
        """The values as columns of a table of queries, by name."""
        return {metric + end: column for end, column in zip(_COLUMNS, vars(self).values(), strict=True)}

    @classmethod
    def of_columns(cls, metric: str, columns: Mapping[str, Array]) -> "Headroom | None":
        """Return the headroom that `columns` stored; None where its columns are missing or no numbers."""
        present_columns = [columns[metric + end] for end in _COLUMNS if metric + end in columns]
        present_columns = [column for column in present_columns if column.dtype.kind in "iuf"]
        return cls(*present_columns) if len(present_columns) == len(_COLUMNS) else None

    def little_to_gain(self, metric: str) -> str:
        """A sentence where order has little to decide, "" where it has much."""
        defined = ~np.isnan(self.headroom)
        if not defined.any():
            return ""
        random, ceiling = self.random[defined].mean(), self.ceiling[defined].mean()
        changed, n = int(np.count_nonzero(self.headroom[defined])), int(np.count_nonzero(defined))
        if random >= REACHED * ceiling > 0:
            return (
                f"{metric} of a random order is {random:.4f}, {random / ceiling:.0%} of the best that these candidates "
                "allow: there is little to gain"
            ).replace("%", " %")
        if changed < CHANGED * n:
            changed_queries = f"order changes {metric} in {changed:,} of {count_of(n, 'query')}"
            return f"{changed_queries}: there is little to gain"
        return ""


WORSE_THAN_RANDOM = "worse-than-random"
"""The caution of a ranking that random order beats."""

_FEWEST_QUERIES = 10
_ERRORS = 3  # standard errors below which a difference is no accident: 1 in 700


def sign_against_random(random: Floats, values: Floats) -> int:
    """-1 where a ranking's values (n_queries,) are below those of random order beyond chance, 1 above, else 0."""
    differences = values - random
    differences = differences[~np.isnan(differences)]
    if differences.size < _FEWEST_QUERIES:
        return 0
    mean, standard_error = differences.mean(), differences.std(ddof=1) / np.sqrt(differences.size)
    return int(np.sign(mean)) if abs(mean) > _ERRORS * standard_error + _ROUNDING else 0


def worse_than_random(metric: str, random: Floats, values: Floats, place: str = "") -> Caution:
    """The caution that a ranking's values (n_queries,) are below those of random order (n_queries,)."""
    defined = ~np.isnan(values - random)
    text = f"{metric} is {values[defined].mean():.4f}, and a random order of the candidates has "
    text += f"{random[defined].mean():.4f}"
    return Caution(WORSE_THAN_RANDOM, "warning", text, "check whether labels or scores are reversed", place)


def is_computed_column(name: str) -> bool:
    """Tell whether a column of a table of queries was computed with a metric, and is no fact to cut queries by."""
    return name.endswith(_COLUMNS + JUDGE_COLUMNS) or judged_share.is_column(name)


_headroom_cache: WeakKeyDictionary[Judgments, dict[Metric, Headroom | None]] = WeakKeyDictionary()


def headroom(metric: Metric, judgments: Judgments) -> Headroom | None:
    """Random order and ceiling of a resolved metric, computed once for the same judgments.

    None for metrics whose best order is not by label, diagnostics, and where the expectation is refused.
    """
    if not is_best_by_label(metric):
        return None
    headroom_of_metric = _headroom_cache.setdefault(judgments, {})
    if metric in headroom_of_metric:
        return headroom_of_metric[metric]

    def values(ties: Ties, rows_of: Judgments, scores: Array) -> Floats:
        row: Floats = BoundOnce([replace(metric, ties=ties)], rows_of).per_query(scores)[0]
        return row

    headroom_of_metric[metric] = None
    distinct, place = _distinct_queries(judgments)
    with suppress(MetricError):
        random = values("expected", distinct, np.zeros(distinct.groups.n_rows))
        ceiling = values("stable", distinct, distinct.compact_labels)
        with_all_retrieved = np.full_like(ceiling, np.nan)
        if distinct.missed is not None:
            pool = distinct.pool
            longer = values("stable", pool, pool.compact_labels) if distinct.missed.queries.size else ceiling
            with_all_retrieved = np.where(longer < ceiling - _ROUNDING, np.nan, longer)
        headroom_of_metric[metric] = Headroom(random[place], ceiling[place], with_all_retrieved[place])
    return headroom_of_metric[metric]


def _distinct_queries(judgments: Judgments) -> tuple[Judgments, Ints]:
    """Return the first query of each content, and the place of every query's content among these, (n_queries,).

    Queries with equal numbers of each grade, of judged rows and of missed documents have the same values in every
    order by label: with one judged document in a thousand, nearly all of them.
    """
    every = np.arange(judgments.groups.n_queries)
    content, n_contents = np.zeros_like(every), 1
    for numbers in _numbers_of_grades(judgments):
        largest = int(numbers.max())
        n_contents *= largest + 1
        if n_contents > 2**62:  # no integer has them all
            return judgments, every
        content = content * (largest + 1) + numbers
    _, first, place = np.unique(content, return_index=True, return_inverse=True)
    if n_contents == 1 or first.size == every.size:
        return judgments, every
    return judgments.take(first), place


def _numbers_of_grades(judgments: Judgments) -> Iterator[Ints]:
    """Yield (n_queries,) the rows of each grade, those judged, and the missed documents of each grade.

    Nothing where there are many grades: hardly two queries have equal numbers then.
    """
    missed = (
        MissedDocuments(np.empty(0, np.int64), np.empty(0)) if judgments.missed is None else judgments.missed
    )
    missed_grades = np.unique(missed.labels)
    if judgments.grades is None or max(judgments.grades.largest, missed_grades.size) > _MOST_GRADES:
        return
    for grade in judgments.label_table:
        yield judgments.count_rows(judgments.label_table == grade)
    if judgments.judged is not None:
        yield judgments.groups.count(judgments.judged)
    for grade in missed_grades:
        yield np.bincount(missed.queries[missed.labels == grade], minlength=judgments.groups.n_queries)


def is_best_by_label(metric: Metric) -> bool:
    """Tell whether no order has a higher value than that by descending label."""
    kind = type(metric)
    if METRICS.get(metric.name) != f"{kind.__module__}:{kind.__qualname__}":
        return False
    if metric.uses_whole_order or metric.uses_subtopics or metric.diagnostic or not metric.higher_is_better:
        return False
    for choice, falls in (("gain", False), ("discount", True)):
        with suppress(ValueError):  # it has a name: all such gains rise, and all such discounts fall
            table = [float(part) for part in getattr(metric, choice, "").split("_")]
            if table != sorted(table, reverse=falls):
                return False
    return True
