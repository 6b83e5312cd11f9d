"""Group AUC: whether a relevant document stands above one that is not, query by query."""

from dataclasses import dataclass

import numpy as np

from ltr_harness.metrics.core import Floats, Judgments, Ranking, SwapChange
from ltr_harness.metrics.core.concordance import LabelOrder
from ltr_harness.metrics.core.metric import BinaryMetric, Cutoffs, Divisor, Prepared, Values


@dataclass(frozen=True, kw_only=True)
class GAUC(BinaryMetric):
    """Probability that a relevant document of a query stands above one that is not: 1/2 is chance.

    AUC = pairs of a relevant and another document in the right order / all such pairs, a pair of equal scores counting
    one half; GAUC is its mean over queries. Queries of relevant documents alone, or without any, have no such pair and
    are undefined.

    GAUC as Zhu et al. have it weights users by their impressions, and RecBole by their relevant documents: give those
    numbers as `query_weights` and the mean is theirs.

    Source: Zhu et al. 2017 (GAUC); AUC as a share of pairs: Hanley & McNeil 1982.

    When to use: Clicks or purchases per user or request, where the score serves a ranking: an AUC over all rows also
        counts pairs of different users, which no list ever holds.

    When not: As a page's quality: it has no K, and a pair at the bottom counts as much as one at the top; a
        thousand easy rows at the end lift it towards 1.

    Missed documents: They tie below the last candidate: the value falls or rises.

    Example:
        >>> from ltr_harness import evaluate
        >>> ev = evaluate([0, 1, 0, 0], [4.0, 3.0, 2.0, 1.0], group_sizes=[4], metrics=["gauc"])
        >>> round(ev.means["gauc"], 6)  # above two of three
        0.666667
    """

    name = "gauc"
    takes_cutoff = False
    uses_whole_order = True
    takes_any_label = True
    source = "Zhu et al. 2017"

    def prepare(self, judgments: Judgments, cutoffs: Cutoffs) -> Prepared:
        order = self._order(judgments)
        pairs = order.pairs

        def values(ranking: Ranking) -> Values:
            share = order.concordant(ranking)[:1] / np.maximum(pairs, 1)
            return self.apply_empty(share, pairs == 0)

        return values

    def swap_change(self, judgments: Judgments) -> SwapChange:
        # the sum of the relevant documents' ranks says how many pairs are in the right order
        pairs = self._order(judgments).pairs
        return SwapChange(
            form="sum",
            worth=self.relevant_rows(judgments)[0].astype(np.float64),
            scale=np.divide(1.0, pairs, out=np.zeros(pairs.size), where=pairs > 0),
            rank_worth=-np.arange(1.0, judgments.groups.longest + 1),
        )

    def contributions(self, judgments: Judgments, ranking: Ranking) -> Floats:
        above = self._order(judgments).above(ranking)
        return above.better + above.better_tied / 2.0

    def divisor_at(self, judgments: Judgments, ranking: Ranking, cutoffs: Cutoffs) -> Divisor:
        pairs = self._order(judgments).pairs
        return "pairs of a relevant and another document", pairs.astype(np.float64)

    def _order(self, judgments: Judgments) -> LabelOrder:
        return LabelOrder.of(self.relevant_rows(judgments)[0].astype(np.float64), judgments.groups)
