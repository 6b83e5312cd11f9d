"""nERR: ERR as a share of what the ideal order would reach."""

from dataclasses import dataclass, replace

import numpy as np

from ltr_harness.metrics.core import Judgments, Ranking, RowRanker, SwapChange
from ltr_harness.metrics.core.metric import Cutoffs, Divisor, Prepared, Values
from ltr_harness.metrics.err import ERR, expected_utility


@dataclass(frozen=True, kw_only=True)
class NERR(ERR):
    """ERR as a share of the highest that these labels allow: 1 is the ideal order.

    nERR@K = ERR@K / ERR@K of the query's documents sorted by label, with R(g) as `ERR` has it. A query whose best
    document is of a low grade counts as much as one with a perfect document, which plain ERR does not do.

    Attributes:
        max_grade: the scale's highest grade; a property of the experiment, never of a query.
        continuation: chance that an unsatisfied user reads on.
        stop: ``exp`` R(g) = (2^g - 1) / 2^max_grade; ``linear`` R(g) = g / (max_grade + 1), as NTCIR has it;
            ``label`` R(g) = g.
        discount: what it is worth to be satisfied at rank r, as `ERR` has it.

    Source: Chapelle et al. 2009; the normalisation: NTCIR (Sakai 2014); ties: exact mean over their orders.

    When to use: As `err`, where queries differ in how good their best document is and each should count alike.

    When not: To tell whether users are satisfied at all: a query with only poor rows, ideally ordered, is
        1.

    Missed documents: They stand in the ideal list: the value falls.

    Example:
        >>> from ltr_harness import evaluate
        >>> metric = "nerr(max_grade=1)"
        >>> evaluate([0, 1], [2.0, 1.0], group_sizes=[2], metrics=[metric]).means[metric]  # (1/2 1/2) / (1/2)
        0.5
    """

    name = "nerr"
    source = "Chapelle et al. 2009; Sakai 2014"

    def prepare(self, judgments: Judgments, cutoffs: Cutoffs) -> Prepared:
        ideal = self._ideal(judgments, cutoffs)
        attained = super().prepare(judgments, cutoffs)

        def values(ranking: Ranking) -> Values:
            out = attained(ranking)  # where nothing is relevant, it is what `empty` says
            np.divide(out, ideal, out=out, where=ideal > 0.0)
            return np.minimum(out, 1.0, out=out)  # the ratio is at most 1; rounding may say otherwise

        return values

    def _ideal(self, judgments: Judgments, cutoffs: Cutoffs) -> Values:
        # equal labels are interchangeable, so any order of ties is the ideal one: `stable` is the cheapest
        best = RowRanker(judgments, "stable", int(cutoffs[-1])).rank(judgments.labels)
        stops, utilities = self.stops_of_labels(judgments), self.rank_utilities(judgments, cutoffs)
        return expected_utility(self, best, (best.labels, stops), cutoffs, utilities, self.continuation)

    def swap_change(self, judgments: Judgments) -> SwapChange:
        ideal = self._ideal(judgments, np.array([self.cutoff]))[0]
        scale = np.divide(1.0, ideal, out=np.zeros(ideal.size), where=ideal > 0.0)
        return replace(super().swap_change(judgments), scale=scale)

    def divisor_at(self, judgments: Judgments, ranking: Ranking, cutoffs: Cutoffs) -> Divisor:
        return "ideal ERR", self._ideal(judgments, cutoffs)[:, 0]
