"""A mean moved: did the parts get worse, or are there only more of the worse parts?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ltr_harness.stats.moments import Floats
from ltr_harness.stats.two_samples import Codes, Estimate, Influence, Sample, between


@dataclass(frozen=True, eq=False)
class Decomposition:
    """A difference of means over cells (segments, or bins of a feature), one sample against another.

    Attributes:
        total: difference of the means.
        within: the part that comes from changes inside the cells.
        mix: the part that comes from changed shares of the cells; total = within + mix exactly.
        adjusted: the mean that `one` would have with the shares of `other`.
        counts: (2, cells) queries of one and other.
        means: (2, cells), NaN where a cell is empty.
    """

    total: Estimate
    within: Estimate
    mix: Estimate
    adjusted: float
    counts: Floats
    means: Floats


def decompose(
    one: Sample, one_cells: Codes, other: Sample, other_cells: Codes, confidence: float = 0.95
) -> Decomposition:
    """Split a difference into within and mix.

    With shares w and means m of the cells, 1 for `one` and 0 for `other`:
    mix = sum (w1 - w0) (m0 + m1) / 2 and within = sum (w0 + w1) / 2 (m1 - m0). A cell that only one side has
    is all mix. Intervals follow from each query's influence, clusters and shared users included.

    Args:
        one: values of one side, with their clusters.
        one_cells, other_cells: codes >= 0, the same coding.
        other: values of the other side.
        confidence: of the intervals.

    Example:
        Shares .7/.3 become .4/.6 at means .85/.65: all of the drop is mix.

        >>> values = lambda shares: Sample(np.repeat([0.85, 0.65], shares))
        >>> cells = lambda shares: np.repeat([0, 1], shares)
        >>> d = decompose(values([40, 60]), cells([40, 60]), values([70, 30]), cells([70, 30]))
        >>> round(d.total.value, 4), round(d.mix.value, 4), abs(round(d.within.value, 4))
        (-0.06, -0.06, 0.0)
    """
    size = int(max(one_cells.max(initial=0), other_cells.max(initial=0))) + 1
    cells, samples = (one_cells, other_cells), (one, other)
    counts = np.array([np.bincount(c, minlength=size) for c in cells], dtype=np.float64)
    sums = np.array([np.bincount(c, s.values, minlength=size) for c, s in zip(cells, samples, strict=True)])
    with np.errstate(invalid="ignore", divide="ignore"):
        means = sums / counts
    shares = counts / counts.sum(axis=1, keepdims=True)
    known = np.where(np.isnan(means), means[::-1], means)  # an empty cell takes the other side's mean
    known = np.where(np.isnan(known), 0.0, known)
    middle = known.mean(axis=0)
    moved = shares[0] - shares[1]
    mix = float((moved * middle).sum())
    total = one.plain[0] - other.plain[0]

    mix_influence, all_influence = [], []
    for side, sign in ((0, 1.0), (1, -1.0)):
        c, values = cells[side], samples[side].values
        by_share = middle - float((shares[side] * middle).sum())
        by_mean = moved / 2 / np.where(shares[side] > 0, shares[side], 1.0)
        mix_influence.append(sign * by_share[c] + by_mean[c] * (values - known[side][c]))
        all_influence.append(sign * (values - samples[side].plain[0]))

    def estimate(value: float, influences: list[Floats]) -> Estimate:
        # `between` subtracts the other side, so its influence changes sign
        a = Influence.of(influences[0], one.clusters)
        b = Influence.of(-influences[1], other.clusters)
        return between(value, a, b, confidence=confidence, n=one.values.size + other.values.size)

    return Decomposition(
        total=estimate(total, all_influence),
        within=estimate(total - mix, [a - m for a, m in zip(all_influence, mix_influence, strict=True)]),
        mix=estimate(mix, mix_influence),
        adjusted=float((shares[1] * known[0]).sum()),
        counts=counts,
        means=means,
    )
