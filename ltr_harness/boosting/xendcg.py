"""The XE-NDCG objective on plain arrays: what LightGBM calls rank_xendcg, for any booster that takes gradients.

Bruch, "An Alternative Cross Entropy Loss for Learning-to-Rank" (WWW 2021). Of one query with labels y and
scores s, rho = softmax(s), and every round draws gamma_i from [0, 1):

    phi_i = 2**y_i - gamma_i,   p_i = phi_i / sum(phi),   loss = - sum_i p_i log(rho_i)
    g1_i  = rho_i - p_i                                  the exact gradient
    g2_i  = rho_i (sum_j a_j - a_i),  a_j = g1_j / (1 - rho_j)
    g3_i  = rho_i (sum_j c_j - c_i),  c_j = g2_j / (1 - rho_j)
    gradient = g1 + g2 + g3,   hessian_i = rho_i (1 - rho_i)

The second and third term are the next ones of the Neumann series of the Newton step, of which boosting could
otherwise take only the diagonal. The hessians of a query sum to less than 1, which is what to compare
`min_child_weight` or `min_sum_hessian_in_leaf` with.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ltr_harness.compiled import compiled

_SMALLEST_REST = 1e-12  # of 1 - rho: a row that has all the probability would divide by zero
_SMALLEST_HESSIAN = 1e-16
_WEYL = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_BITS_30, _BITS_27, _BITS_31, _BITS_11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)


def draw_gammas(seed: int, round_: int, n_rows: int) -> NDArray[np.float64]:
    """Random numbers of [0, 1), one per row, that depend on the seed, the round (from 0) and the row alone.

    A generator with a state would make them depend on what was drawn before: on threads, on how often training
    was interrupted, on the rounds that somebody else's data took.

    Example:
        >>> draw_gammas(1, 0, 3).round(6).tolist()
        [0.693512, 0.971767, 0.426569]
        >>> bool((draw_gammas(1, 0, 5)[:3] == draw_gammas(1, 0, 3)).all())
        True
    """
    mask = (1 << 64) - 1
    return _draw(np.uint64(seed & mask), np.uint64(round_ & mask), n_rows)


@compiled
def _draw(seed: np.uint64, round_: np.uint64, n_rows: int) -> NDArray[np.float64]:
    start = _mixed(_mixed(seed + _WEYL) + (round_ + np.uint64(1)) * _WEYL)
    gammas = np.empty(n_rows)
    counter = start
    for row in range(n_rows):
        counter += _WEYL
        gammas[row] = np.float64(_mixed(counter) >> _BITS_11) * 2.0**-53
    return gammas


@compiled
def _mixed(bits: np.uint64) -> np.uint64:
    """Every bit of the input moves every bit of the output (the finaliser of SplitMix64)."""
    bits = (bits ^ (bits >> _BITS_30)) * _MIX_1
    bits = (bits ^ (bits >> _BITS_27)) * _MIX_2
    return bits ^ (bits >> _BITS_31)


def xendcg_worth(labels: NDArray[np.floating]) -> NDArray[np.float64]:
    """2**label, float64 (n_rows,), fractions of labels (n_rows,) cut off as LightGBM does."""
    return np.exp2(np.trunc(labels.astype(np.float64)))


@compiled
def xendcg_gradients(
    scores: NDArray[np.floating],  # (n_rows,), raw
    worth: NDArray[np.float64],  # (n_rows,), from `xendcg_worth`
    boundaries: NDArray[np.int64],  # (n_queries + 1,), first row of each query and the end of the last
    weights: NDArray[np.float64],  # (n_queries,); both results are multiplied by the query's
    gammas: NDArray[np.float64],  # (n_rows,), this round's draw
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Gradient and hessian of every row, float32 as both libraries keep them."""
    gradient = np.zeros(scores.size, dtype=np.float32)
    hessian = np.zeros(scores.size, dtype=np.float32)
    widest = 0
    for query in range(boundaries.size - 1):
        widest = max(widest, boundaries[query + 1] - boundaries[query])
    rho, rest, term, total = np.empty(widest), np.empty(widest), np.empty(widest), np.empty(widest)
    for query in range(boundaries.size - 1):
        first = boundaries[query]
        n = boundaries[query + 1] - first
        if n < 2:
            continue  # alone, a row has nothing to be ranked against
        highest = np.float64(scores[first])
        for i in range(1, n):
            highest = max(highest, np.float64(scores[first + i]))
        mass = 0.0
        phis = 0.0
        for i in range(n):
            rho[i] = np.exp(np.float64(scores[first + i]) - highest)
            mass += rho[i]
            term[i] = worth[first + i] - gammas[first + i]
            phis += term[i]
        scale = 1.0 / max(1e-15, phis)
        a_sum = 0.0
        for i in range(n):
            rho[i] /= mass
            rest[i] = 1.0 / max(1.0 - rho[i], _SMALLEST_REST)
            total[i] = rho[i] - term[i] * scale
            term[i] = total[i] * rest[i]
            a_sum += term[i]
        c_sum = 0.0
        for i in range(n):
            second = rho[i] * (a_sum - term[i])
            total[i] += second
            term[i] = second * rest[i]
            c_sum += term[i]
        for i in range(n):
            total[i] += rho[i] * (c_sum - term[i])
            gradient[first + i] = weights[query] * total[i]
            hessian[first + i] = weights[query] * max(rho[i] * (1.0 - rho[i]), _SMALLEST_HESSIAN)
    return gradient, hessian
