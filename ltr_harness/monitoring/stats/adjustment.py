"""Adjustment for the mix: values less their prediction from the baseline, and a difference by its causes."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from ltr_harness.comparison.stats.cluster_sums import Floats, UnitCodes
from ltr_harness.comparison.stats.two_samples import Estimate, Influence, Sample, difference_of_means
from ltr_harness.monitoring.stats.drift import bin_edges
from ltr_harness.monitoring.stats.several_samples import between_window_variance

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
        """Fit values, (n,), on covariates, (n, p)."""
        n, mean = values.size, float(values.mean())
        x = covariates - covariates.mean(axis=0)
        precision = np.linalg.pinv(x.T @ x / n, rcond=_SMALLEST, hermitian=True)
        slopes = precision @ (x.T @ (values - mean) / n)
        rank = int(np.linalg.matrix_rank(precision)) if precision.size else 0
        widening = np.sqrt(n / max(n - 1 - rank, 1))
        return cls(slopes, precision, mean, (values - mean - x @ slopes) * widening)


@dataclass(frozen=True, eq=False)
class KeyEffects:
    """The effects of keys (a query's text) on the values, estimated from a baseline."""

    effects: Floats  # (n_keys,), each key's mean beyond the overall one, shrunk; 0 of unknown keys
    leave_one_out: (
        Floats  # (n,), for each of the baseline's values its key's effect by the other values of the key
    )
    noise: Floats  # (n_keys,), variance of the effects' estimates

    @classmethod
    def of(cls, values: Floats, keys: UnitCodes, size: int) -> Self:
        """Compute the best linear predictions from values, (n,), and the codes of their keys."""
        deviations = values - values.mean()
        n = np.bincount(keys, minlength=size).astype(np.float64)
        total = np.bincount(keys, deviations, minlength=size)
        # codes without gaps, as they are windows to the estimator of variances
        between_keys = between_window_variance(Sample(values), np.unique(keys, return_inverse=True)[1])
        key_variance = 0.0 if between_keys is None else between_keys.variance
        if key_variance <= 0:
            return cls(np.zeros(size), np.zeros(values.size), np.zeros(size))
        degrees_of_freedom = max(float((n[n > 0] - 1).sum()), 1.0)
        means = total / np.maximum(n, 1)
        within_variance = float(((deviations - means[keys]) ** 2).sum()) / degrees_of_freedom
        ratio = within_variance / key_variance
        leave_one_out = (total[keys] - deviations) / np.maximum(n[keys] - 1 + ratio, 1e-12)
        shrinkage = n / np.maximum(n + ratio, 1e-12)
        return cls(shrinkage * means, leave_one_out, shrinkage**2 * within_variance / np.maximum(n, 1))


def dummies(codes: UnitCodes, categories: UnitCodes, shares: Floats) -> Floats:
    """Return columns of 1 and 0 less the baseline's shares, (n, p); codes of no category are as the baseline's mean."""
    columns: Floats = (codes[:, np.newaxis] == categories).astype(np.float64)
    in_category = columns.any(axis=1)
    columns[in_category] -= shares
    return columns


def hinges(values: Floats, reference: Floats, bins: int) -> Floats:
    """Return columns whose sums are lines that break at the reference's quantiles, less its means, (n, 1 + breaks)."""
    breaks = bin_edges(reference, bins)
    scale = reference.max() - reference.min()

    def lines(x: Floats) -> Floats:
        return np.asarray(np.maximum(x[:, np.newaxis] - np.append(reference.min(), breaks), 0) / scale)

    inside = (values >= reference.min()) & (values <= reference.max())  # NaN is not
    columns = np.zeros((values.size, 1 + breaks.size))
    columns[inside] = lines(values[inside]) - lines(reference).mean(axis=0)
    return columns


@dataclass(frozen=True, kw_only=True)
class DifferenceParts:
    """A difference of means divided by cells (segments, or bins of a feature): within + mix + unmatched."""

    within: Estimate  # what comes from changes inside the cells that both sides have
    mix: Estimate  # what comes from changed shares of these cells
    unmatched: Estimate  # what comes from cells that one side lacks or that were set apart
    # p-value: how often the mix would be as large if the values had been shuffled among the queries of each side
    mix_p: float
    unmatched_share: float  # share of one side in cells that are unmatched


@dataclass(frozen=True, eq=False, kw_only=True)
class Decomposition(DifferenceParts):
    """The parts of the difference between two periods' samples, with the counts and means by cell."""

    total: Estimate  # difference of the means
    unmatched_p: float  # as `mix_p`
    adjusted: float  # the mean that `now` would have in the common cells with the shares of `before`
    counts: Floats  # (2, cells) queries of now and before
    means: Floats  # (2, cells), NaN where a cell is empty


def decompose(
    now: Sample,
    now_cells: UnitCodes,
    before: Sample,
    before_cells: UnitCodes,
    confidence: float = 0.95,
    excluded: NDArray[np.bool_] | None = None,
) -> Decomposition:
    """Split a difference into within, mix and unmatched.

    Over the cells that both sides have, with their shares w and means m: mix = sum (w1 - w0) (m0 + m1) / 2. A cell that
    one side lacks, or that is `excluded`, is no mix: nobody knows what the lacking side's mean would be there.
    """
    codes, samples = (now_cells, before_cells), (now, before)
    size = int(max(cells.max(initial=0) for cells in codes)) + 1
    counts = np.array([np.bincount(cells, minlength=size) for cells in codes], dtype=np.float64)
    codes_and_samples = zip(codes, samples, strict=True)
    with np.errstate(invalid="ignore", divide="ignore"):  # NaN where a side has no query
        means = (
            np.array([np.bincount(cells, s.values, minlength=size) for cells, s in codes_and_samples])
            / counts
        )
    n = now.values.size + before.values.size
    total = now.unweighted_mean[0] - before.unweighted_mean[0]
    all_influence = [sample.values - sample.unweighted_mean[0] for sample in samples]

    def estimate(value: float, influences: list[Floats]) -> Estimate:
        # `difference_of_means` subtracts the other side
        a, b = (Influence.of(i, s.clusters) for i, s in zip(influences, samples, strict=True))
        return difference_of_means(value, a, b, confidence=confidence, n=n)

    common: NDArray[np.bool_] = np.all(counts > 0, axis=0)
    if excluded is not None:
        common[: excluded.size] &= ~excluded[: common.size]
    if not common.any():
        undefined = Estimate(float("nan"), n=n)
        return Decomposition(
            total=estimate(total, all_influence),
            within=undefined,
            mix=undefined,
            unmatched=undefined,
            mix_p=1.0,
            unmatched_p=1.0,
            unmatched_share=1.0,
            adjusted=float("nan"),
            counts=counts,
            means=means,
        )
    common_counts, common_means = np.where(common, counts, 0.0), np.where(common, means, 0.0)
    n_common = common_counts.sum(axis=1)
    shares = common_counts / n_common[:, np.newaxis]
    share_change, average_means = shares[0] - shares[1], common_means.mean(axis=0)
    # each query's influence on the common cells' mean and on the mix, and its weights in the mix and the rest
    of_common, of_mix, mix_weights, rest_weights = [], [], [], []
    for side, sign in enumerate((1.0, -1.0)):
        cells, values = codes[side], samples[side].values
        in_common: NDArray[np.bool_] = common[cells]
        scale = values.size / n_common[side]  # queries of common cells stand for all of them
        by_share = average_means - float((shares[side] * average_means).sum())
        by_mean = sign * share_change / 2 / np.where(shares[side] > 0, shares[side], 1.0)
        of_common.append(scale * in_common * (values - (shares[side] * common_means[side]).sum()))
        of_mix.append(
            scale * in_common * (by_share[cells] + by_mean[cells] * (values - common_means[side][cells]))
        )
        mix_weights.append(in_common * share_change[cells] / 2 / np.maximum(common_counts[side], 1.0)[cells])
        rest = np.where(in_common, -(values.size - n_common[side]) / n_common[side], 1.0)
        rest_weights.append(sign * (rest / values.size))
    mix = float((share_change * average_means).sum())
    mean_in_common = (shares * common_means).sum(axis=1)
    difference_in_common = float(mean_in_common[0] - mean_in_common[1])
    unmatched = total - difference_in_common
    return Decomposition(
        total=estimate(total, all_influence),
        within=estimate(difference_in_common - mix, list(map(np.subtract, of_common, of_mix))),
        mix=estimate(mix, of_mix),
        unmatched=estimate(unmatched, list(map(np.subtract, all_influence, of_common))),
        mix_p=_shuffled_p(mix, mix_weights, samples),
        unmatched_p=_shuffled_p(unmatched, rest_weights, samples),
        unmatched_share=float(1 - n_common[0] / now.values.size),
        adjusted=float((shares[1] * common_means[0]).sum()),
        counts=counts,
        means=means,
    )


def _shuffled_p(value: float, weights: list[Floats], samples: tuple[Sample, Sample]) -> float:
    """Return the p of sum(weights * values) under shuffling, or under flips of clusters' signs if that is larger."""
    expected = variance = 0.0
    for weight, sample in zip(weights, samples, strict=True):
        deviations = sample.values - sample.unweighted_mean[0]
        weight_deviations = weight - weight.mean()
        expected += float(weight.sum()) * sample.unweighted_mean[0]
        shuffled = float((weight_deviations**2).sum() * (deviations**2).sum()) / max(deviations.size - 1, 1)
        flipped = 0.0
        if sample.clusters is not None:
            flipped = float((np.bincount(sample.clusters, weight_deviations * deviations) ** 2).sum())
        variance += max(shuffled, flipped)
    if variance <= 0:
        return 1.0 if abs(value - expected) <= 1e-12 else 0.0
    return float(2 * ndtr(-abs(value - expected) / np.sqrt(variance)))
