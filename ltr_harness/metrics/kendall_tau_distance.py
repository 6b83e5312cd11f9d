"""Kendall tau distance: pairs of documents in the wrong order."""

from dataclasses import dataclass

import numpy as np

from ltr_harness.metrics.core import Floats, Judgments, Ranking, SwapChange
from ltr_harness.metrics.core.concordance import LabelOrder
from ltr_harness.metrics.core.metric import Cutoffs, Divisor, Metric, Prepared, Values


@dataclass(frozen=True, kw_only=True)
class KendallTauDistance(Metric):
    """Pairs of documents in the wrong order: 0 is the ideal order, lower is better.

    Distance = pairs with different labels whose better document is scored below the worse one; a pair tied in score
    counts one half. A pair at the bottom weighs as much as one at the top, so fewer inversions may still be the
    worse list for a user: a diagnostic, not a goal. Queries whose labels are all equal have no such pair and are
    undefined.

    Attributes:
        normalized: divide by the number of pairs with different labels, so that queries of any length compare.

    Source: Kendall 1938.

    When to use: To see how much two orders differ as a whole, for instance before and after a change of a
        feature.

    When not: As a goal or as what stops training: a list with fewer inversions may have its first
        relevant document further down. Seven documents: 1000111 has 9 inversions and a reciprocal rank of 1,
        0011110 has 8 and 1/3.

    Missed documents: They tie below the last candidate, each pair with one counts: the value rises.

    Example:
        >>> from ltr_harness import evaluate
        >>> labels, scores = [1, 0, 0, 0, 1, 1, 1], [7, 6, 5, 4, 3, 2, 1]
        >>> ev = evaluate(labels, scores, group_sizes=[7], metrics=["kendall_tau_distance"])
        >>> ev.means["kendall_tau_distance"]  # three relevant documents below three others each
        9.0
    """

    normalized: bool = False

    name = "kendall_tau_distance"
    higher_is_better = False
    graded = True
    bounds = (0.0, float("inf"))
    takes_cutoff = False
    uses_whole_order = True
    takes_any_label = True
    source = "Kendall 1938"

    @property
    def counts(self) -> bool:
        return not self.normalized

    def swap_change(self, judgments: Judgments) -> SwapChange:
        # a sum over pairs: a pair weighs what it counts, whatever its exchange does to the rows between
        pairs = LabelOrder.of(judgments.labels, judgments.groups).pairs
        scale = 1.0 / np.maximum(pairs, 1) if self.normalized else np.ones(pairs.size)
        return SwapChange(form="pairs", worth=judgments.labels, scale=scale)

    def contributions(self, judgments: Judgments, ranking: Ranking) -> Floats:
        above = LabelOrder.of(judgments.labels, judgments.groups).above(ranking)
        return above.worse + above.worse_tied / 2.0

    def divisor_at(self, judgments: Judgments, ranking: Ranking, cutoffs: Cutoffs) -> Divisor | None:
        if not self.normalized:
            return None
        pairs = LabelOrder.of(judgments.labels, judgments.groups).pairs
        return "pairs with different labels", np.maximum(pairs, 1).astype(np.float64)

    def prepare(self, judgments: Judgments, cutoffs: Cutoffs) -> Prepared:
        order = LabelOrder.of(judgments.labels, judgments.groups)
        pairs = order.pairs

        def values(ranking: Ranking) -> Values:
            inversions = pairs - order.concordant(ranking)[:1]
            if self.normalized:
                inversions /= np.maximum(pairs, 1)
            return self.apply_empty(inversions, pairs == 0)

        return values
