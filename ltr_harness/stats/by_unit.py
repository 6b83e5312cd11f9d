"""Families of comparisons where queries belong together: whole units are flipped, and errors go by units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ltr_harness.stats import corrections
from ltr_harness.stats.families import Outcome, corrected, of_one_sign, outcomes
from ltr_harness.stats.method import Method
from ltr_harness.stats.moments import Floats, moments
from ltr_harness.stats.seeds import MethodDifference
from ltr_harness.stats.two_samples import Codes
from ltr_harness.stats.units import unit_means, unit_totals


def outcomes_by_unit(
    d: Floats, largest: Floats, families: Sequence[slice], method: Method, units: Codes | None
) -> Outcome:
    """Tests all columns and corrects family by family, as `families.outcomes` does where every query is its own unit.

    Sign flips are those of the units' totals. Intervals are mean +- t error with the cluster-robust error and its own
    degrees of freedom; under max-T, where all have one critical value, they are those of the totals.

    Args:
        d: (n, m) paired differences; NaN where undefined.
        largest: (m,) the largest difference that a query could have, and so the mean of a unit; infinite where unknown.
        families: which columns are corrected together.
        method: test, correction, intervals, margin.
        units: (n,) codes of whom each query belongs to; None where every query is its own.
    """
    if units is None:
        return outcomes(d, largest, families, method)
    means = unit_means(d, units)
    by_totals = outcomes(unit_totals(d, units), largest, families, replace(method, unit=None, margin=None))
    p, p_corrected = by_totals.p, by_totals.p_corrected
    if method.test == "t":
        p = means.p()
        p_corrected = np.concatenate([corrected(p[family], method) for family in families])
    level = np.empty_like(p)
    for family in families:
        level[family] = method.level(int(np.count_nonzero(~np.isnan(means.mean[family]))))
    low, high = by_totals.low, by_totals.high
    if method.correction != "max-t":
        confidence = 1 - level if method.simultaneous else method.confidence
        low, high = means.interval(confidence, adjusted=method.interval == "skew-adjusted")
    if method.simultaneous:
        low, high = of_one_sign(low, high, p_corrected < method.alpha)
    p_equivalence = np.full_like(p, np.nan)
    if method.margin is not None:
        sides = np.minimum(2 * means.equivalence_p(method.margin), 1.0)
        correct = corrections.holm if method.correction == "max-t" else lambda own: corrected(own, method)
        p_equivalence = np.concatenate([correct(sides[family]) for family in families])
    return Outcome(p, p_corrected, p_equivalence, low, high, means.detectable(level))


def seeds_by_unit(
    differences: Sequence[MethodDifference | None], d: Floats, units: Codes | None
) -> list[MethodDifference | None]:
    """Differences of methods with the units' variance in place of the queries'.

    What seeds add to the variance stays as it is. The degrees of freedom are the fewer of the two.

    Args:
        differences: (m,) over queries and seeds; None where nothing is known of seeds.
        d: (n, m) differences averaged over seeds; NaN where undefined.
        units: (n,) codes of whom each query belongs to; None where every query is its own.
    """
    if units is None or not any(differences):
        return list(differences)
    means, by_query = unit_means(d, units), moments(d).standard_error ** 2
    return [
        None
        if one is None
        else replace(
            one,
            standard_error=float(
                np.sqrt(means.error[j] ** 2 + max(one.standard_error**2 - by_query[j], 0.0))
            ),
            freedom=float(min(means.freedom[j], one.freedom)),
        )
        for j, one in enumerate(differences)
    ]
