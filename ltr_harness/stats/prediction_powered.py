"""Cheap labels for many queries beside human ones for some: a mean of the human, sharper for what the cheap tell.

With d the difference of a query by human labels and c the one by cheap labels, n queries that have both and M that
have the cheap alone, the estimate is mean(d) + lambda (mean of c over the M - mean of c over the n): the error of the n
queries in c is theirs in d as well, as far as the two go together. It is a sum of two independent means, of the n
queries' d - lambda c and the others' lambda c, and is tested as such. lambda = cov(d, c) / ((1 + n / M) var(c)) has the
least variance; 0 where the cheap labels tell nothing.

Source: A. Angelopoulos, J. Duchi, T. Zrnic, "PPI++: Efficient prediction-powered inference" (2023).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ltr_harness.stats.contributions import Contributions, WeightedSum
from ltr_harness.stats.families import outcomes
from ltr_harness.stats.method import Method
from ltr_harness.stats.moments import Floats

FEW = 100
"""Human-labelled queries below which ties decide whether cheap labels count."""

TIED = 0.8
"""The share of such queries without a difference above which they do not."""

RANDOM = 0.01
"""Level of the test that the human-labelled queries are a random part of all."""


@dataclass(frozen=True, eq=False)
class Powered:
    """Means by human and cheap labels.

    Attributes:
        total: the estimate, (m,) columns.
        weight: (m,) lambda.
        worth: (m,) how many human-labelled queries would say as much.
        too_few: (m,) whether the human labels alone count, for too few queries that differ.
    """

    total: WeightedSum
    weight: Floats
    worth: Floats
    too_few: np.ndarray


def powered(human: Floats, cheap: Floats, rest: Floats) -> Powered:
    """The means of the human differences over all queries of this kind, with what the cheap ones add.

    Where a human difference is undefined the mean is one of the queries that have it: the query counts by its influence
    on that, which is 0.

    Args:
        human: (n, m) by human labels; NaN where undefined.
        cheap: (n, m) of the same queries by cheap labels; NaN where undefined.
        rest: (M, m) of the queries that have the cheap labels alone.

    Example:
        Cheap values that say all there is: the spread of the mean is that of all 6 queries.

        >>> column = np.array([[0.0], [1.0], [2.0]])
        >>> both = powered(column, column, column + 3)
        >>> both.total.mean.tolist(), both.weight.tolist()
        ([2.5], [0.5])
    """
    n, m = len(human), len(rest)
    defined = ~np.isnan(human)
    k = np.maximum(defined.sum(axis=0), 1)
    mean = np.where(defined, human, 0.0).sum(axis=0) / k
    influence = np.where(defined, (human - mean) * (n / k), 0.0)
    centre = np.nan_to_num(np.nanmean(np.concatenate([cheap, rest]), axis=0))
    near, far = np.nan_to_num(cheap - centre), np.nan_to_num(rest - centre)
    off = near - near.mean(axis=0)
    spread = (off**2).sum(axis=0)
    ties = (np.where(defined, human, 0.0) == 0).mean(axis=0)
    too_few = (n < FEW) & (ties > TIED)
    usable = (spread > 0) & (m > 1) & ~too_few
    with np.errstate(invalid="ignore", divide="ignore"):
        weight = np.where(usable, (influence * off).sum(axis=0) / spread / (1 + n / max(m, 1)), 0.0)
    alone = Contributions.of(np.where(k > 2, mean + influence, np.nan))
    first = Contributions.of(np.where(k > 2, mean + influence - weight * near, np.nan))
    second = Contributions.of(weight * far if m > 1 else np.zeros((2, human.shape[1])))
    total = WeightedSum((first, second), (1.0, 1.0))
    with np.errstate(invalid="ignore", divide="ignore"):
        worth = np.where(total.error > 0, n * (alone.error / total.error) ** 2, np.inf)
    return Powered(total, weight, worth, too_few)


def chosen_at_random(cheap: Floats, rest: Floats, method: Method) -> bool:
    """Whether the human-labelled queries look like a random part of all, by their cheap differences."""
    apart = WeightedSum((Contributions.of(cheap), Contributions.of(rest)), (1.0, -1.0))
    family = replace(method, test="skew-adjusted", correction="joint", margin=None, unit=None)
    p = outcomes(apart, family).p_corrected
    return not bool((p < RANDOM).any())
