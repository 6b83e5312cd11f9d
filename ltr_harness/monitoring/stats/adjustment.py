"""Adjustment for the mix: values less what the baseline's queries tell of them, and a difference by its causes."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from ltr_harness.comparison.stats.cluster_sums import Floats, UnitCodes
from ltr_harness.comparison.stats.two_samples import Estimate, Influence, Sample, difference_of_means
from ltr_harness.monitoring.stats.drift import bin_edges
from ltr_harness.monitoring.stats.several_samples import variance_between

_SMALLEST = 1e-8  # relative size of a direction in which covariates do not differ


@dataclass(frozen=True, eq=False)
class Regression:
    """Least squares of values on covariates that are centred at their means."""

    slopes: Floats  # (p,), 0 in directions in which the covariates do not differ
    precision: Floats  # (p, p), inverse of the covariates' covariance
    mean: float  # of the values
    residuals: Floats  # (n,), widened by sqrt(n / (n - p)) to the spread of new values around the true slopes

    @classmethod
    def of(cls, values: Floats, covariates: Floats) -> Self:
        """The fit of (n,) values on (n, p) covariates."""
        n, mean = values.size, float(values.mean())
        x = covariates - covariates.mean(axis=0)
        precision = np.linalg.pinv(x.T @ x / n, rcond=_SMALLEST, hermitian=True)
        slopes = precision @ (x.T @ (values - mean) / n)
        rank = int(np.linalg.matrix_rank(precision)) if precision.size else 0
        widening = np.sqrt(n / max(n - 1 - rank, 1))
        return cls(slopes, precision, mean, (values - mean - x @ slopes) * widening)


@dataclass(frozen=True, eq=False)
class KeyEffects:
    """What values of one key (a query's text) have in common, as far as a baseline tells."""

    effects: Floats  # (n_keys,), each key's mean beyond the overall one, shrunk; 0 of unknown keys
    of_others: Floats  # (n,), for each of the baseline's values the effect as its key's other values tell it
    noise: Floats  # (n_keys,), variance of the effects' estimates

    @classmethod
    def of(cls, values: Floats, keys: UnitCodes, size: int) -> Self:
        """Best linear predictions from (n,) values and the codes of their keys."""
        off = values - values.mean()
        n = np.bincount(keys, minlength=size).astype(np.float64)
        total = np.bincount(keys, off, minlength=size)
        # codes without gaps, as they are windows to the estimator of variances
        difference_of_means = variance_between(Sample(values), np.unique(keys, return_inverse=True)[1])
        spread = 0.0 if difference_of_means is None else difference_of_means.variance
        if spread <= 0:
            return cls(np.zeros(size), np.zeros(values.size), np.zeros(size))
        freedom = max(float((n[n > 0] - 1).sum()), 1.0)
        means = total / np.maximum(n, 1)
        within = float(((off - means[keys]) ** 2).sum()) / freedom
        ratio = within / spread
        others = (total[keys] - off) / np.maximum(n[keys] - 1 + ratio, 1e-12)
        weight = n / np.maximum(n + ratio, 1e-12)
        return cls(weight * means, others, weight**2 * within / np.maximum(n, 1))


def dummies(codes: UnitCodes, kept: UnitCodes, shares: Floats) -> Floats:
    """(n, p) columns of 1 and 0, less the baseline's shares; cells that are not kept are as the baseline on average."""
    columns: Floats = (codes[:, np.newaxis] == kept).astype(np.float64)
    known = columns.any(axis=1)
    columns[known] -= shares
    return columns


def hinges(values: Floats, reference: Floats, bins: int) -> Floats:
    """(n, 1 + breaks) columns whose sums are the lines that break at the reference's quantiles, less its means."""
    breaks = bin_edges(reference, bins)
    scale = reference.max() - reference.min()

    def lines(x: Floats) -> Floats:
        return np.asarray(np.maximum(x[:, np.newaxis] - np.append(reference.min(), breaks), 0) / scale)

    inside = (values >= reference.min()) & (values <= reference.max())  # NaN is not
    columns = np.zeros((values.size, 1 + breaks.size))
    columns[inside] = lines(values[inside]) - lines(reference).mean(axis=0)
    return columns


@dataclass(frozen=True, kw_only=True)
class Parts:
    """A difference of means divided by cells (segments, or bins of a feature): within + mix + unmatched."""

    within: Estimate  # what comes from changes inside the cells that both sides have
    mix: Estimate  # what comes from changed shares of these cells
    unmatched: Estimate  # what comes from cells that one side lacks or that were set apart
    # p-value: how often the mix would be as large if the values had been shuffled among the queries of each side
    mix_p: float
    unmatched_share: float  # share of one side in cells that are unmatched


@dataclass(frozen=True, eq=False, kw_only=True)
class Decomposition(Parts):
    """The parts of one sample's difference to another, and what they were made of."""

    total: Estimate  # difference of the means
    unmatched_p: float  # as `mix_p`
    adjusted: float  # the mean that `one` would have in the common cells with the shares of `other`
    counts: Floats  # (2, cells) queries of one and other
    means: Floats  # (2, cells), NaN where a cell is empty


def decompose(
    one: Sample,
    one_cells: UnitCodes,
    other: Sample,
    other_cells: UnitCodes,
    confidence: float = 0.95,
    apart: NDArray[np.bool_] | None = None,
) -> Decomposition:
    """Split a difference into within, mix and what cannot be matched.

    Over the cells that both sides have, with their shares w and means m: mix = sum (w1 - w0) (m0 + m1) / 2. A cell that
    one side lacks, or that is set `apart`, is no mix: nobody knows what the lacking side's mean would be there.
    """
    codes, samples = (one_cells, other_cells), (one, other)
    size = int(max(cells.max(initial=0) for cells in codes)) + 1
    counts = np.array([np.bincount(cells, minlength=size) for cells in codes], dtype=np.float64)
    weighed = zip(codes, samples, strict=True)
    with np.errstate(invalid="ignore", divide="ignore"):  # NaN where a side has no query
        means = np.array([np.bincount(cells, s.values, minlength=size) for cells, s in weighed]) / counts
    n = one.values.size + other.values.size
    total = one.unweighted_mean[0] - other.unweighted_mean[0]
    all_influence = [sample.values - sample.unweighted_mean[0] for sample in samples]

    def estimate(value: float, influences: list[Floats]) -> Estimate:
        # `between` subtracts the other side
        a, b = (Influence.of(i, s.clusters) for i, s in zip(influences, samples, strict=True))
        return difference_of_means(value, a, b, confidence=confidence, n=n)

    common: NDArray[np.bool_] = np.all(counts > 0, axis=0)
    if apart is not None:
        common[: apart.size] &= ~apart[: common.size]
    if not common.any():
        nothing = Estimate(float("nan"), n=n)
        return Decomposition(
            total=estimate(total, all_influence),
            within=nothing,
            mix=nothing,
            unmatched=nothing,
            mix_p=1.0,
            unmatched_p=1.0,
            unmatched_share=1.0,
            adjusted=float("nan"),
            counts=counts,
            means=means,
        )
    counted, at = np.where(common, counts, 0.0), np.where(common, means, 0.0)
    known = counted.sum(axis=1)
    shares = counted / known[:, np.newaxis]
    moved, middle = shares[0] - shares[1], at.mean(axis=0)
    # each query's influence on the common cells' mean and on the mix, and its weights in the mix and the rest
    of_common, of_mix, mix_weights, rest_weights = [], [], [], []
    for side, sign in enumerate((1.0, -1.0)):
        cells, values = codes[side], samples[side].values
        here: NDArray[np.bool_] = common[cells]
        scale = values.size / known[side]  # queries of common cells stand for all of them
        by_share = middle - float((shares[side] * middle).sum())
        by_mean = sign * moved / 2 / np.where(shares[side] > 0, shares[side], 1.0)
        of_common.append(scale * here * (values - (shares[side] * at[side]).sum()))
        of_mix.append(scale * here * (by_share[cells] + by_mean[cells] * (values - at[side][cells])))
        mix_weights.append(here * moved[cells] / 2 / np.maximum(counted[side], 1.0)[cells])
        rest = np.where(here, -(values.size - known[side]) / known[side], 1.0)
        rest_weights.append(sign * (rest / values.size))
    mix = float((moved * middle).sum())
    centre = (shares * at).sum(axis=1)
    between_common = float(centre[0] - centre[1])
    unmatched = total - between_common
    return Decomposition(
        total=estimate(total, all_influence),
        within=estimate(between_common - mix, list(map(np.subtract, of_common, of_mix))),
        mix=estimate(mix, of_mix),
        unmatched=estimate(unmatched, list(map(np.subtract, all_influence, of_common))),
        mix_p=_chance(mix, mix_weights, samples),
        unmatched_p=_chance(unmatched, rest_weights, samples),
        unmatched_share=float(1 - known[0] / one.values.size),
        adjusted=float((shares[1] * at[0]).sum()),
        counts=counts,
        means=means,
    )


def _chance(value: float, weights: list[Floats], samples: tuple[Sample, Sample]) -> float:
    """How often sum(weights * values) would be as large in shuffled data or with clusters' signs flipped, if more."""
    expected = variance = 0.0
    for weight, sample in zip(weights, samples, strict=True):
        off = sample.values - sample.unweighted_mean[0]
        uneven = weight - weight.mean()
        expected += float(weight.sum()) * sample.unweighted_mean[0]
        shuffled = float((uneven**2).sum() * (off**2).sum()) / max(off.size - 1, 1)
        flipped = 0.0
        if sample.clusters is not None:
            flipped = float((np.bincount(sample.clusters, uneven * off) ** 2).sum())
        variance += max(shuffled, flipped)
    if variance <= 0:
        return 1.0 if abs(value - expected) <= 1e-12 else 0.0
    return float(2 * ndtr(-abs(value - expected) / np.sqrt(variance)))
