"""One model against another: differences, p-values within their family, and the word for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ltr_harness.comparison.result import Entrant, Paired, Verdict
from ltr_harness.stats import paired
from ltr_harness.stats.by_unit import outcomes_by_unit, seeds_by_unit
from ltr_harness.stats.families import Outcome
from ltr_harness.stats.method import Method
from ltr_harness.stats.moments import Floats, moments
from ltr_harness.stats.over_seeds import with_seeds
from ltr_harness.stats.seeds import MethodDifference, method_difference, seed_agreement
from ltr_harness.stats.two_samples import Codes
from ltr_harness.stats.units import unit_means


class Contrast(NamedTuple):
    """One model against another at one metric."""

    model: Entrant
    other: Entrant
    metric: str

    def differences(self) -> Floats:
        """(n_queries,): model minus other, averaged over seeds; NaN where undefined."""
        return paired.paired_differences(self.model.per_query(self.metric), self.other.per_query(self.metric))


def contrast(
    families: Sequence[Sequence[Contrast]],
    directions: Mapping[str, bool],
    method: Method,
    units: Codes | None = None,
) -> tuple[Paired, ...]:
    """All contrasts of all families, one after the other.

    Args:
        families: contrasts whose p-values are corrected together, family by family.
        directions: metric to whether higher is better.
        method: test, correction and intervals.
        units: (n_queries,) codes of the units that queries belong to; None where every query is its own.
    """
    cells = [cell for family in families for cell in family]
    if not cells:
        return ()
    d = np.column_stack([cell.differences() for cell in cells])
    ends = np.cumsum([0, *map(len, families)]).tolist()
    parts = [slice(start, stop) for start, stop in pairwise(ends) if stop > start]
    largest = np.array([largest_difference(*cell) for cell in cells])
    trained = outcomes_by_unit(d, largest, parts, method, units)
    seeds = seeds_by_unit([over_seeds(cell) for cell in cells], d, units)
    outcomes = with_seeds(trained, seeds, parts, method)
    low, high = outcomes.low, outcomes.high
    facts = moments(d)
    p_t = paired.paired_t_p(d) if units is None else unit_means(d, units).p()
    effect = paired.effect_size(d)
    above, ties, below = paired.win_tie_loss(d)
    return tuple(
        Paired(
            model=one.name,
            other=other.name,
            metric=metric,
            n=int(facts.n[j]),
            model_mean=_mean_where(one.per_query(metric), d[:, j]),
            other_mean=_mean_where(other.per_query(metric), d[:, j]),
            difference=float(facts.mean[j]),
            ci_low=float(low[j]),
            ci_high=float(high[j]),
            p=float(outcomes.p[j]),
            p_corrected=float(outcomes.p_corrected[j]),
            p_t=float(p_t[j]),
            effect_size=float(effect[j]),
            wins=int(above[j] if directions[metric] else below[j]),
            ties=int(ties[j]),
            losses=int(below[j] if directions[metric] else above[j]),
            detectable=float(outcomes.detectable[j]),
            seed_agreement=seed_agreement(one.values[metric], other.values[metric]),
            skewness=float(facts.skewness[j]),
            verdict=verdict_of(
                outcomes.p_corrected[j],
                low[j],
                high[j],
                directions[metric],
                method,
                outcomes.p_equivalence[j],
            ),
            relative=_relative(facts.mean[j], other.per_query(metric), d[:, j]),
            p_equivalence=float(outcomes.p_equivalence[j]),
            **({} if seeds[j] is None else _of_the_trained(trained, j)),
        )
        for j, (one, other, metric) in enumerate(cells)
    )


def largest_difference(one: Entrant, other: Entrant, metric: str) -> float:
    """The largest difference that a query could have: as far apart as two of these models' values are anywhere.

    Args:
        one: a model.
        other: another.
        metric: canonical name that both have.
    """
    values = np.concatenate([one.per_query(metric), other.per_query(metric)])
    return float(np.ptp(values[~np.isnan(values)])) if not np.isnan(values).all() else np.inf


def verdict_of(
    p_corrected: float,
    low: float,
    high: float,
    higher_is_better: bool,
    method: Method,
    p_equivalence: float = float("nan"),
) -> Verdict:
    """The word for a difference; NaN anywhere proves nothing.

    With a margin the reader has said what does not matter: a difference proven to lie inside it is
    "equivalent" even where, with thousands of queries, it is significantly different from 0.

    Args:
        p_corrected: within its family.
        low: end of the interval.
        high: the other end.
        higher_is_better: the metric's direction.
        method: level and margin.
        p_equivalence: against the margin; NaN without one.
    """
    inside = method.margin is not None and -method.margin < low and high < method.margin
    if inside and p_equivalence < method.alpha:
        return "equivalent"
    if p_corrected < method.alpha and (low >= 0 or high <= 0):
        return "better" if (low >= 0) == higher_is_better else "worse"
    return "not distinguishable"


def _mean_where(values: Floats, d: Floats) -> float:
    """The mean over the queries that have a difference."""
    same = ~np.isnan(d)
    return float(values[same].mean()) if same.any() else float("nan")


def _relative(difference: float, other: Floats, d: Floats) -> float:
    """The difference as a share of the other's mean over the same queries."""
    mean = abs(_mean_where(other, d))
    return float(difference) / mean if mean > 0 else float("nan")


def over_seeds(cell: Contrast) -> MethodDifference | None:
    """The difference of two methods over queries and seeds; None where nothing is known of seeds."""
    return method_difference(
        cell.model.values[cell.metric],
        cell.other.values[cell.metric],
        one_fixed=not cell.model.seeded,
        other_fixed=not cell.other.seeded,
    )


def _of_the_trained(trained: Outcome, j: int) -> dict[str, float]:
    return {
        "trained_p": float(trained.p[j]),
        "trained_p_corrected": float(trained.p_corrected[j]),
        "trained_ci_low": float(trained.low[j]),
        "trained_ci_high": float(trained.high[j]),
    }
