"""From "these trained models" to "these methods": what was tested over queries, over queries and seeds together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ltr_harness.stats.families import OF_THE_MEAN, Outcome, corrected, of_one_sign
from ltr_harness.stats.method import Method
from ltr_harness.stats.moments import Floats
from ltr_harness.stats.seeds import MethodDifference


def with_seeds(
    trained: Outcome,
    differences: Sequence[MethodDifference | None],
    families: Sequence[slice],
    method: Method,
) -> Outcome:
    """What holds for other queries and other seeds; where nothing is known of seeds, what was tested.

    A difference of methods has to be one of the trained models, too, so of each two p-values the larger counts, and of
    two intervals the hull: what the query level knows of lopsided differences is kept, and no interval is narrower for
    being about more. The correction is the method's; max-T, whose draws know no seeds, leaves it to Bonferroni.
    Wilcoxon's and the sign test ask about most queries and not about means: their p-values stay what they are.

    Args:
        trained: of the trained models, over queries.
        differences: (m,) of the methods; None where no side has two seeds.
        families: which columns are corrected together.
        method: test, correction, confidence, margin.
    """
    if not any(differences):
        return trained
    p, p_corrected = trained.p.copy(), trained.p_corrected.copy()
    p_equivalence = trained.p_equivalence.copy()
    low, high, detectable = trained.low.copy(), trained.high.copy(), trained.detectable.copy()
    for family in families:
        own = differences[family]
        size = int(np.count_nonzero(~np.isnan(trained.p[family])))
        level = method.level(size)
        confidence = 1 - level if method.simultaneous else method.confidence
        ends = [_ends(one, confidence) for one in own]
        low[family] = np.fmin(low[family], [one[0] for one in ends])
        high[family] = np.fmax(high[family], [one[1] for one in ends])
        detectable[family] = np.fmax(
            detectable[family], [np.nan if one is None else one.detectable(level) for one in own]
        )
        if method.test in OF_THE_MEAN:
            of_methods = np.array([np.nan if one is None else one.p() for one in own])
            p[family] = np.where(np.isnan(p[family]), np.nan, np.fmax(p[family], of_methods))
            p_corrected[family] = (
                np.fmax(p_corrected[family], np.minimum(of_methods * size, 1.0))
                if method.correction == "max-t"
                else corrected(p[family], method)
            )
        if method.margin is not None:
            p_equivalence[family] = _equivalence(p_equivalence[family], own, size, method)
    if method.simultaneous and method.test in OF_THE_MEAN:
        low, high = of_one_sign(low, high, p_corrected < method.alpha)
    return replace(
        trained,
        p=p,
        p_corrected=p_corrected,
        p_equivalence=p_equivalence,
        low=low,
        high=high,
        detectable=detectable,
    )


def _ends(one: MethodDifference | None, confidence: float) -> tuple[float, float]:
    return (np.nan, np.nan) if one is None else one.interval(confidence)


def _equivalence(
    p: Floats, differences: Sequence[MethodDifference | None], size: int, method: Method
) -> Floats:
    """The larger of the p-values over queries and those over seeds as well, each of two sides at half the level."""
    assert method.margin is not None
    times = 2 if method.correction == "none" else 2 * size
    own = [
        np.nan if one is None else min(times * one.p_equivalence(method.margin), 1.0) for one in differences
    ]
    larger: Floats = np.fmax(p, own)
    return larger
