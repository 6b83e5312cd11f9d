"""Log loss: how well probabilities inside a query foretell its winner."""

from dataclasses import dataclass

import numpy as np

from ltr_harness.data.arrays import Floats, Ints
from ltr_harness.data.queries import QueryGroups
from ltr_harness.metrics.core.softmax import LEAST, ProbabilityMetric


@dataclass(frozen=True, kw_only=True)
class LogLoss(ProbabilityMetric):
    """Negative logarithm of the winner's probability among a query's rows: 0 is certainty, log n is all rows alike.

    p_i = exp(s_i / T) / sum over the query's rows of exp(s_j / T); log loss = -sum over winners of log(p_i) / winners.
    A winner has a label of `relevant` or more; several, as in a dead heat, share the win alike. A probability below
    2.2e-16 counts as that, so no query counts more than 36.04. Queries without a winner are undefined.

    Each trained model has a T of its own, which has the least log loss on validation data; it is in the run's record
    (`learned`), and every command measures the run with it. T is 1 without validation data, in `evaluate`, for files of
    scores, and in what stops training or judges trials of a search.

    Attributes:
        temperature: T, instead of one from validation data.

    Source: conditional logit, McFadden 1974; the logarithmic score, Good 1952; T: Guo et al. 2017.

    When to use: Races, auctions and choices, where the probability itself is used: to bet, to bid, to price.

    When not: Where only the order is used: a model with the better order can have the worse probabilities. For several
        independent labels of a query: they are not shares of one win.

    Missed documents: They have the probability 0: the value rises, by up to 36.04 where the winner was missed.

    Example:
        >>> from ltr_harness import evaluate
        >>> ev = evaluate([0, 1, 0], [0.0, 0.6931471805599453, 0.0], group_sizes=[3], metrics=["log_loss"])
        >>> round(ev.means["log_loss"], 6)  # -log(2 / (1 + 2 + 1))
        0.693147
    """

    name = "log_loss"
    bounds = (0.0, -float(np.log(LEAST)))
    source = "McFadden 1974; Good 1952"

    def loss(self, log_p: Floats, won: Floats, listed: QueryGroups) -> Floats:
        return listed.sum(won * -np.maximum(log_p, np.log(LEAST)))

    def unlisted_loss(self, n_winners: Ints) -> float:
        return -float(np.log(LEAST))
