"""One model against another: differences, p-values within their family, and the word for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ltr_harness.comparison.result import Entrant, Paired, Verdict, value_bounds
from ltr_harness.stats import paired
from ltr_harness.stats.contributions import Codes, Contributions
from ltr_harness.stats.families import Outcome, outcomes
from ltr_harness.stats.method import Method
from ltr_harness.stats.moments import Floats, moments
from ltr_harness.stats.seeds import MethodDifference, method_difference, seed_agreement


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

    Shapes: `units` (n_queries,).
    """
    cells = [cell for family in families for cell in family]
    if not cells:
        return ()
    d = np.column_stack([cell.differences() for cell in cells])
    ends = np.cumsum([0, *map(len, families)]).tolist()
    parts = [slice(start, stop) for start, stop in pairwise(ends) if stop > start]
    sample = Contributions.of(d, units)
    bounds = {metric: value_bounds([cell.model for cell in cells], metric) for metric in directions}
    ranges = np.array([bounds[cell.metric][1] - bounds[cell.metric][0] for cell in cells])
    seeds = [over_seeds(cell, sample, j) for j, cell in enumerate(cells)]
    found = outcomes(sample, method, families=parts, seeds=seeds, ranges=ranges)
    trained = outcomes(sample, method, families=parts, ranges=ranges) if any(seeds) else found
    facts = moments(d)
    p_t = sample.t_p
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
            ci_low=float(found.low[j]),
            ci_high=float(found.high[j]),
            p=float(found.p[j]),
            p_corrected=float(found.p_corrected[j]),
            p_t=float(p_t[j]),
            effect_size=float(effect[j]),
            wins=int(above[j] if directions[metric] else below[j]),
            ties=int(ties[j]),
            losses=int(below[j] if directions[metric] else above[j]),
            detectable=float(found.detectable[j]),
            seed_agreement=seed_agreement(one.values[metric], other.values[metric]),
            skewness=float(facts.skewness[j]),
            verdict=verdict_of(
                facts.mean[j], found.p_corrected[j], found.p_equivalence[j], directions[metric], method
            ),
            relative=_relative(facts.mean[j], other.per_query(metric), d[:, j]),
            p_equivalence=float(found.p_equivalence[j]),
            **({} if seeds[j] is None else _of_the_trained(trained, j)),
        )
        for j, (one, other, metric) in enumerate(cells)
    )


def verdict_of(
    difference: float, p_corrected: float, p_equivalence: float, higher_is_better: bool, method: Method
) -> Verdict:
    """The word for a difference, whose direction is the sign of the estimate; NaN proves nothing.

    With a margin the reader has said what does not matter: a difference proven to lie inside it is
    "equivalent" even where, with thousands of queries, it is significantly different from 0.
    """
    if p_equivalence < method.alpha:
        return "equivalent"
    if p_corrected < method.alpha and difference:
        return "better" if (difference > 0) == higher_is_better else "worse"
    return "not distinguishable"


def _mean_where(values: Floats, d: Floats) -> float:
    """The mean over the queries that have a difference."""
    same = ~np.isnan(d)
    return float(values[same].mean()) if same.any() else float("nan")


def _relative(difference: float, other: Floats, d: Floats) -> float:
    """The difference as a share of the other's mean over the same queries."""
    mean = abs(_mean_where(other, d))
    return float(difference) / mean if mean > 0 else float("nan")


def over_seeds(cell: Contrast, sample: Contributions, j: int) -> MethodDifference | None:
    """The difference of two methods over queries and seeds; None where nothing is known of seeds.

    Where queries belong together, the units' variance stands in place of the queries'.
    """
    one = method_difference(
        cell.model.values[cell.metric],
        cell.other.values[cell.metric],
        one_fixed=not cell.model.seeded,
        other_fixed=not cell.other.seeded,
    )
    if one is None or sample.even:
        return one
    by_query = float(moments(cell.differences()).standard_error) ** 2
    return replace(
        one,
        standard_error=float(np.sqrt(sample.error[j] ** 2 + max(one.standard_error**2 - by_query, 0.0))),
        freedom=float(min(sample.freedom[j], one.freedom)),
    )


def _of_the_trained(trained: Outcome, j: int) -> dict[str, float]:
    return {
        "trained_p": float(trained.p[j]),
        "trained_p_corrected": float(trained.p_corrected[j]),
        "trained_ci_low": float(trained.low[j]),
        "trained_ci_high": float(trained.high[j]),
    }
