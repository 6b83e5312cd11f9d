"""RBP's residual: the part that unjudged documents leave open."""

from dataclasses import dataclass

import numpy as np

from ltr_harness.metrics.core import Floats, Judgments, Ranking
from ltr_harness.metrics.core.metric import Cutoffs, Prepared, Values
from ltr_harness.metrics.dcg import cumulated
from ltr_harness.metrics.rbp import RBP


@dataclass(frozen=True, kw_only=True)
class RBPResidual(RBP):
    """Gain of RBP if every document that was not looked at, or not judged, were perfect.

    residual@K = 1 - sum over judged ranks r <= K of (1 - p) p^(r-1), which is p^n when the n documents looked at
    are all judged. RBP lies in [RBP, RBP + residual]; two systems closer than that cannot be told apart.

    Attributes:
        p: persistence, in (0, 1); must be given.

    Source: Moffat & Zobel 2008.

    When to use: Beside every `rbp`, with the same p: how much of the number is not known.

    When not: To choose between models: it does not depend on the order of the judged documents.

    Missed documents: They have no rank: the value stays. It is defined, too, where every relevant document was missed.

    Example:
        >>> from ltr_harness import evaluate
        >>> ev = evaluate([1, 0, 1], [3.0, 2.0, 1.0], group_sizes=[3], metrics=["rbp_residual(p=0.5)"])
        >>> ev.means["rbp_residual(p=0.5)"]  # (1/2)^3
        0.125
    """

    name = "rbp_residual"
    higher_is_better = False
    diagnostic = True
    counts_worthless_rows = True

    def prepare(self, judgments: Judgments, cutoffs: Cutoffs) -> Prepared:
        gain, weight = self.gain_and_discount(judgments, cutoffs)
        is_empty = judgments.count_rows(gain > 0.0) == 0
        judged = judged_rows(judgments)

        def values(ranking: Ranking) -> Values:
            seen = cumulated(ranking, cutoffs, judged, weight)
            return self.apply_empty(np.maximum(1.0 - seen, 0.0), is_empty)

        return values


def judged_rows(judgments: Judgments) -> Floats:
    """float64 (n_rows,), 1 where the row is judged."""
    if judgments.judged is None:
        return np.ones(judgments.groups.n_rows)
    return judgments.judged.astype(np.float64)
