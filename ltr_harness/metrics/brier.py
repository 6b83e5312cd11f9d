"""Brier score: squared error of probabilities inside a query."""

from dataclasses import dataclass

import numpy as np

from ltr_harness.data.arrays import Floats, Ints
from ltr_harness.data.queries import QueryGroups
from ltr_harness.metrics.core.softmax import ProbabilityMetric


@dataclass(frozen=True, kw_only=True)
class Brier(ProbabilityMetric):
    """The squared error of the probabilities of a query's rows: 0 is certainty, 2 is certainty of another winner.

    Brier = sum over the query's rows of (p_i - y_i)^2, with p_i the softmax of scores / T as in `LogLoss`, and y_i the
    row's share of the win: 1 / winners for rows with a label of `relevant` or more, else 0. Queries without a winner
    are undefined.

    Attributes:
        temperature: T, instead of the one with the least log loss on validation data.

    Source: Brier 1950, whose sum over all classes it is; scikit-learn halves it for two classes.

    When to use: Beside `log_loss`, which one sure and wrong prediction can decide: here none counts more than 2.

    When not: Where small probabilities matter, as those of outsiders: 0.001 and 0.0001 are the same to it.

    Missed documents: They have the probability 0 and, if they won, their share: the value falls or rises.

    Example:
        >>> from ltr_harness import evaluate
        >>> ev = evaluate([0, 1, 0], [0.0, 0.6931471805599453, 0.0], group_sizes=[3], metrics=["brier"])
        >>> round(ev.means["brier"], 6)  # (1/4)^2 + (1 - 1/2)^2 + (1/4)^2
        0.375
    """

    name = "brier"
    bounds = (0.0, 2.0)
    source = "Brier 1950"

    def loss(self, log_p: Floats, won: Floats, listed: QueryGroups) -> Floats:
        return listed.sum((np.exp(log_p) - won) ** 2)

    def unlisted_loss(self, n_winners: Ints) -> Floats:
        return 1.0 / n_winners
