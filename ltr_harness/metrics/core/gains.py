"""Gains of grades, discounts of ranks, the highest grade of the scale, and grades by subtopic."""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import numpy as np

from ltr_harness._util.number_text import plain_number
from ltr_harness._util.text import count_of
from ltr_harness.data.arrays import Bools, Floats, Ints, sealed
from ltr_harness.data.judgments import Judgments
from ltr_harness.errors import MetricError
from ltr_harness.metrics.core.metric import ExplainColumns, Metric

NAMED_GAINS = ("exp", "linear", "exp_real")
EXPONENTIAL_GAINS = ("exp", "exp_real")
NAMED_DISCOUNTS = ("log2", "letor")
UTILITIES = ("reciprocal", *NAMED_DISCOUNTS, "none")

TableLike = str | Mapping[int, float] | Sequence[float]


def table_text(value: TableLike, parameter: str, named: Sequence[str], first: int) -> str:
    """Return a gain or discount as the grammar writes it: a name, or a table's values joined by ``_``."""
    if isinstance(value, str) and value == "exponential":
        value = "exp"
    if isinstance(value, str) and value in named:
        return value
    if isinstance(value, Mapping):
        numbers = _numbers_by_integer(value, parameter, first)
    else:
        parts = value.split("_") if isinstance(value, str) else value
        try:
            numbers = [float(part) for part in parts]
        except (TypeError, ValueError):
            example = f"{{{first}: 0, {first + 1}: 1, {first + 2}: 5}}"
            expected = f"{', '.join(named)}, or a table such as {example}"
            raise MetricError(f"{parameter}={value!r}; expected {expected}") from None
    if not numbers or not all(math.isfinite(number) and number >= 0 for number in numbers):
        raise MetricError(f"{parameter}={value!r}; expected finite values >= 0")
    return "_".join(plain_number(number) for number in numbers)


def _numbers_by_integer(table: Mapping[int, float], parameter: str, first: int) -> list[float]:
    """Return a table's values in the order of its keys, which must be all integers from the first on."""
    keys = range(first, first + len(table))
    if not table or set(table) != set(keys):
        raise MetricError(f"{parameter}={dict(table)!r}; expected a value for every integer from {first} on")
    return [float(table[key]) for key in keys]


def gains_of(judgments: Judgments, gain: str, metric: str) -> Floats:
    """float64 (n_rows,): ``exp`` 2^g - 1 of whole grades, ``exp_real`` of any, ``linear`` g, a table of 0, 1, 2, …"""
    return judgments.of_rows(gain_of_labels(judgments, gain, metric))


def gain_of_labels(judgments: Judgments, gain: str, metric: str) -> Floats:
    """`gains_of` for each label of `Judgments.label_table`, (n_table,)."""
    labels = judgments.label_table
    if gain == "linear":
        return labels
    if gain in EXPONENTIAL_GAINS and judgments.grades is not None:
        return _exponential_gains(judgments.grades.largest)
    if gain != "exp_real":
        names = "gain=linear or gain=exp_real" if gain == "exp" else "gain=linear"
        cure = f"use {names}, or make grades of them (data.grades)"
        _refuse(judgments, labels != np.floor(labels), metric, f": gain={gain} needs integer labels", cure)
    if gain in EXPONENTIAL_GAINS:
        cure = "use gain=linear or map the grades (data.grades)"
        _refuse(judgments, labels > 1000, metric, ": 2^g - 1 overflows", cure)
        return np.asarray(np.exp2(labels) - 1.0)
    table = np.array([float(part) for part in gain.split("_")])
    ends = f": the gain table ends at grade {table.size - 1}"
    _refuse(judgments, labels >= table.size, metric, ends, "add its gain")
    return np.asarray(table[labels.astype(np.int64)])


@cache  # at most 256
def _exponential_gains(largest: int) -> Floats:
    """Return the gains of the grades from 0 on, (largest + 1,)."""
    return sealed(np.exp2(np.arange(largest + 1.0)) - 1.0)


def discounts(discount: str, n_ranks: int, metric: str) -> Floats:
    """float64 (n_ranks,), the discount of ranks 1, 2, … as a factor.

    ``log2`` is 1 / log2(1 + rank); ``letor`` leaves ranks 1 and 2 whole and then divides by log2(rank);
    ``reciprocal`` is 1 / rank, ``none`` 1; a table names the factors of ranks 1, 2, … and must reach as far as ranks
    are counted.
    """
    if discount == "log2":
        return np.asarray(1.0 / np.log2(np.arange(2.0, n_ranks + 2.0)))
    ranks = np.arange(1, n_ranks + 1, dtype=np.float64)
    if discount == "letor":
        return np.asarray(1.0 / np.log2(np.maximum(ranks, 2.0)))
    if discount == "reciprocal":
        return np.asarray(1.0 / ranks)
    if discount == "none":
        return np.ones(n_ranks)
    factors = np.array([float(part) for part in discount.split("_")])
    if factors.size < n_ranks:
        raise MetricError(
            f"{metric}: the discount table ends at rank {factors.size}; expected a factor for every rank up to "
            f"{n_ranks}, or a smaller cutoff"
        )
    return factors[:n_ranks]


def _refuse(
    judgments: Judgments, bad: Bools, metric: str, reason: str, cure: str, position: str = ""
) -> None:
    """Refuse labels that are bad (n_table,), if any row has one, naming the query of the first."""
    if not bad.any():
        return
    rows = np.flatnonzero(judgments.of_rows(bad))
    if rows.size:
        row, groups = int(rows[0]), judgments.groups
        raise MetricError(
            f"{metric}: label {judgments.labels[row]:g} in query {groups.name(groups.query_of(row))!r}{position} "
            f"({count_of(rows.size, 'such row')}){reason}; {cure}"
        )


@dataclass(frozen=True, kw_only=True)
class GainMetric(Metric):
    """A metric of graded labels, each of which is worth its gain."""

    gain: Any = "exp"

    graded = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "gain", table_text(self.gain, "gain", NAMED_GAINS, 0))
        super().__post_init__()

    def gain_of_labels(self, judgments: Judgments) -> Floats:
        """Return the gain of each label of `Judgments.label_table`, (n_table,)."""
        return gain_of_labels(judgments, self.gain, self.name)

    def gains(self, judgments: Judgments) -> Floats:
        """Return the gain of each row, (n_rows,)."""
        return judgments.of_rows(self.gain_of_labels(judgments))

    def row_facts(self, judgments: Judgments) -> ExplainColumns:
        return {"gain": self.gains(judgments)}


M = TypeVar("M", bound=Metric)


def check_max_grade(metric: str, max_grade: float | None) -> None:
    """Refuse a scale that ends at or below 0."""
    if max_grade is not None and not max_grade > 0:
        raise MetricError(f"{metric}: max_grade={max_grade}; expected a grade above 0")


def freeze_max_grade(metric: M, judgments: Judgments) -> M:
    """The metric on a scale; where it asks for one and has none, the largest label ends it, with a notice."""
    if metric.with_max_grade(1.0) == metric:
        return metric
    largest = max(float(judgments.labels.max()), 1.0)
    frozen = metric.with_max_grade(largest)
    warnings.warn(
        f"{metric} has no max_grade: taking the largest label seen, {plain_number(largest)}, from here on "
        f"({frozen}); set max_grade to the scale's highest grade",
        stacklevel=4,
    )
    return frozen


def refuse_above(
    max_grade: float,
    judgments: Judgments,
    metric: str,
    limit: str = "max_grade",
    cure: str = "set max_grade to the scale's highest grade",
) -> None:
    """Refuse labels above the scale's highest grade, naming the query."""
    _refuse(judgments, judgments.label_table > max_grade, metric, "", cure, f" is above {limit}")


def refuse_label_order(metric: str, ties: str) -> None:
    """Refuse to order ties by label: the order by highest grade for any subtopic is neither the worst nor the best."""
    if ties in ("worst", "best"):
        raise MetricError(
            f"{metric}: ties={ties}: which order of equal scores is the {ties} depends on what stands above them; "
            "expected expected, stable or id"
        )


def labels_by_subtopic(judgments: Judgments, metric: str) -> Floats:
    """float64 (n_subtopics, n_rows): every row's grade by the first, the second, … subtopic of its query."""
    if judgments.subtopics is None:
        raise MetricError(
            f"{metric} counts the subtopics that documents are relevant for, and these judgments name none; expected "
            "TREC qrels of the form `query subtopic document grade` with more than one subtopic, tables with "
            "`subtopics: [column, …]`, or evaluate(…, subtopics=…)"
        )
    return judgments.subtopics.labels(judgments.groups.n_rows)


def subtopics_of_queries(labels: Floats, judgments: Judgments) -> Ints:
    """Subtopics of each query that have a relevant document, int64 (n_queries,), from labels (n_subtopics, n_rows)."""
    relevant = np.maximum.reduceat(labels > 0, judgments.groups.boundaries[:-1], axis=1)
    return np.asarray(relevant.sum(axis=0, dtype=np.int64))
