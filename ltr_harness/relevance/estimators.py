"""Labels that estimate relevance where users looked at some ranks more than at others: partial feedback.

What happened to a row is its relevance if somebody looked, and nothing otherwise. Divided by the probability of a look,
it is its relevance on average: every sum of labels, each times what its rank is worth, is then unbiased.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ltr_harness.logs.batch import LogRows
from ltr_harness.logs.contract import Contract
from ltr_harness.relevance.propensities import examination
from ltr_harness.relevance.rule import Relevance
from ltr_harness.wording import count_of

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

FOLDS = 5
_CHUNK = 1 << 16
_RIDGE = 1.0  # of standardised features: as much as one row


def inverse_propensity(gains: Floats, looked: Floats, clip: float) -> Floats:
    """What happened, over the probability of a look: y = g / max(p, clip).

    Unbiased for relevance where p >= clip. Where it is less, y is too small on average, by p / clip, and varies less.

    Source: T. Joachims, A. Swaminathan, T. Schnabel, WSDM 2017. Shapes: `gains` (n_rows,), `looked` (n_rows,).

    Example:
        >>> inverse_propensity(np.array([1.0, 0.0, 4.0]), np.array([1.0, 0.5, 0.25]), 0.5).tolist()
        [1.0, 0.0, 8.0]
    """
    return gains / np.maximum(looked, clip)


def doubly_robust(gains: Floats, looked: Floats, predicted: Floats, clip: float) -> Floats:
    """A prediction, corrected by what happened: y = r + (g - p r) / max(p, clip).

    Unbiased where the probabilities are right and not clipped, and also where the prediction is right. Where p >= clip
    it is `inverse_propensity`; where less, the prediction stands in for what clipping takes away, so the clip can be
    high and labels vary little. With p <= max(p, clip) and r >= 0 no label is below 0.

    Source: H. Oosterhuis, TOIS 2023. Shapes: `gains` (n_rows,), `looked` (n_rows,), `predicted` (n_rows,).

    Example:
        >>> gains, looked = np.array([1.0, 0.0, 0.0]), np.array([0.5, 0.5, 0.1])
        >>> doubly_robust(gains, looked, np.array([0.5, 0.5, 0.5]), 0.2).tolist()  # 0.5 + (0 - 0.05) / 0.2
        [2.0, 0.0, 0.25]
    """
    divisor = np.maximum(looked, clip)
    return predicted * (1 - looked / divisor) + gains / divisor


def cross_fitted(gains: Floats, looked: Floats, queries: Codes, features: NDArray[np.float32]) -> Floats:
    """Relevance predicted from features, for each query by a regression on the queries of the other folds.

    Ridge regression of what happened on p * (1, z, z**2), z the standardised features: what happens is relevance times
    the probability of a look, so the coefficients are those of relevance. Missing values count as the mean. Float64
    (n_rows,), within 0 and the largest gain. Shapes: `gains` (n_rows,), `looked` (n_rows,), `queries` (n_rows,),
    `features` (n_rows, n_features).
    """
    mean = np.nan_to_num(np.nanmean(features, axis=0, dtype=np.float64)) if features.size else np.zeros(0)
    spread = np.nan_to_num(np.nanstd(features, axis=0, dtype=np.float64)) if features.size else np.zeros(0)
    chunks = [slice(at, at + _CHUNK) for at in range(0, gains.size, _CHUNK)]

    def design(rows: slice) -> Floats:
        z = np.nan_to_num((features[rows] - mean) / np.where(spread > 0, spread, 1.0))
        return np.column_stack((np.ones(len(z)), z, z**2))

    folds, n = queries % FOLDS, 1 + 2 * features.shape[1]
    squares, products = np.zeros((FOLDS, n, n)), np.zeros((FOLDS, n))
    for rows in chunks:
        seen = design(rows) * looked[rows, None]
        for fold in range(FOLDS):
            mine = folds[rows] == fold
            squares[fold] += seen[mine].T @ seen[mine]
            products[fold] += seen[mine].T @ gains[rows][mine]
    coefficients = np.stack(
        [
            np.linalg.solve(
                np.delete(squares, fold, axis=0).sum(axis=0) + _RIDGE * np.eye(n),
                np.delete(products, fold, axis=0).sum(axis=0),
            )
            for fold in range(FOLDS)
        ]
    )
    predicted = np.concatenate([(design(rows) * coefficients[folds[rows]]).sum(axis=1) for rows in chunks])
    within: Floats = np.clip(predicted, 0.0, gains.max(initial=0.0))
    return within


def estimated_labels(
    gains: Floats,
    rows: LogRows,
    ranks: Codes,
    rule: Relevance,
    contract: Contract,
    model: tuple[Codes, NDArray[np.float32]] | None = None,
) -> tuple[Floats, Floats | None]:
    """Labels by the rule's estimator, and the weight of what happened; gains as they are under another rule.

    Shapes: `gains` (n_rows,), `ranks` (n_rows,), `model` (n_rows,).
    """
    if not rule.estimates or rule.propensity is None:
        return gains, None
    if not rule.propensity.column and not contract.check("never_shown", ranks < 1, rows.name):
        return gains, None
    looked = examination(rows, ranks, rule.propensity, contract)
    if looked is None:
        return gains, None
    clip = rule.propensity.clip
    weights = np.where(gains > 0, 1 / np.maximum(looked, clip), 0.0)
    if model is None:
        return inverse_propensity(gains, looked, clip), weights
    return doubly_robust(gains, looked, cross_fitted(gains, looked, *model), clip), weights


def effective_size(weights: Floats) -> float:
    """How many equally weighted rows the weighted ones are worth: (sum w)^2 / sum w^2. Shapes: `weights` (n,).

    Example:
        >>> effective_size(np.array([1.0, 1.0, 2.0]))  # 16 / 6
        2.6666666666666665
    """
    squares = float(np.square(weights).sum())
    return float(weights.sum()) ** 2 / squares if squares else 0.0


def weight_note(weights: Floats, clip: float) -> str:
    """How much the weighted rows say, in words. Shapes: `weights` (n_rows,)."""
    n, total = int(np.count_nonzero(weights)), float(weights.sum())
    clipped = float(weights[weights >= 1 / clip].sum()) / total if total else 0.0
    return (
        f"relevance: {count_of(n, 'document')} with events weigh as much as {effective_size(weights):,.1f} that were "
        f"looked at alike; {clipped:.0%} of the weight is at the clip of {clip:g}"
    )
