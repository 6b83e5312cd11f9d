"""Spearman: correlation of the order by score with the order by label."""

from dataclasses import dataclass

import numpy as np

from ltr_harness.metrics.core import Floats, Judgments, Ranking, SwapChange
from ltr_harness.metrics.core.concordance import LabelOrder
from ltr_harness.metrics.core.metric import Cutoffs, Divisor, ExplainColumns, Metric, Prepared, Values
from ltr_harness.metrics.dcg import cumulated


@dataclass(frozen=True, kw_only=True)
class Spearman(Metric):
    """Correlation of the order by score with the order by label: 1 agrees, -1 is reversed, 0 is chance.

    rho = Pearson's correlation of the documents' ranks by score with their ranks by label, in which equal labels
    share the mean of their ranks: sum over ranks r of (m(label_r) - (n+1)/2) ((n+1)/2 - r), divided by
    sqrt(sum of (m - (n+1)/2)^2 * n (n^2 - 1) / 12), with m the mean rank of a label from the lowest up. Without
    equal labels it is 1 - 6 sum of d^2 / (n (n^2 - 1)), d the difference of a document's two ranks.

    Where labels are equal the best order stays below 1. Queries whose labels are all equal are undefined.

    Source: Spearman 1904; equal labels: Kendall 1948; equal scores: exact mean over their orders, where Pearson's
    correlation of shared ranks (scipy) is larger in size and has no value for a constant model.

    When to use: To compare whole orders with labels of many grades, such as another model's scores or watch times;
        a document far from its place costs the square of the distance.

    When not: As a page's quality: it has no K, and the bottom counts as much as the top; see `tau_ap`. With few
        grades: `kendall_tau_distance(normalized=true)` has no pairs of equal labels in it.

    Missed documents: They tie below the last candidate: the value falls or rises.

    Example:
        >>> from ltr_harness import evaluate
        >>> ev = evaluate([2, 0, 1], [3.0, 2.0, 1.0], group_sizes=[3], metrics=["spearman"])
        >>> ev.means["spearman"]  # 1 - 6 (0 + 1 + 1) / (3 * 8)
        0.5
    """

    name = "spearman"
    graded = True
    bounds = (-1.0, 1.0)
    takes_cutoff = False
    uses_whole_order = True
    takes_any_label = True
    source = "Spearman 1904"

    def prepare(self, judgments: Judgments, cutoffs: Cutoffs) -> Prepared:
        centred, spread = self._label_ranks(judgments)
        # what is added to every rank changes no sum: the distances from the mean rank add up to 0
        down = -np.arange(1.0, judgments.groups.longest + 1)

        def values(ranking: Ranking) -> Values:
            out = cumulated(ranking, cutoffs, centred, down)
            out /= np.where(spread > 0.0, spread, 1.0)
            return self.apply_empty(np.clip(out, -1.0, 1.0, out=out), spread == 0.0)

        return values

    def swap_change(self, judgments: Judgments) -> SwapChange:
        centred, spread = self._label_ranks(judgments)
        return SwapChange(
            form="sum",
            worth=centred,
            scale=np.divide(1.0, spread, out=np.zeros(spread.size), where=spread > 0.0),
            rank_worth=-np.arange(1.0, judgments.groups.longest + 1),
        )

    def row_facts(self, judgments: Judgments) -> ExplainColumns:
        return {"rank by label - mean": self._label_ranks(judgments)[0]}

    def contributions(self, judgments: Judgments, ranking: Ranking) -> Floats:
        centred, _ = self._label_ranks(judgments)
        n = ranking.rows.size
        down = (n + 1) / 2.0 - np.arange(1.0, n + 1)
        summed = cumulated(ranking, np.arange(1, n + 1), centred, down)[:, 0]
        return np.diff(summed, prepend=0.0)

    def divisor_at(self, judgments: Judgments, ranking: Ranking, cutoffs: Cutoffs) -> Divisor:
        return "spread of both ranks", self._label_ranks(judgments)[1]

    def _label_ranks(self, judgments: Judgments) -> tuple[Floats, Floats]:
        """Each row's mean rank by label less the query's mean rank, and what each query's sum is divided by."""
        groups = judgments.groups
        n_better, n_worse = (LabelOrder.of(sign * judgments.labels, groups).n_better for sign in (1.0, -1.0))
        centred = (n_worse - n_better) / 2.0
        n = groups.sizes.astype(np.float64)
        squares = groups.sum(centred * centred)
        return centred, np.sqrt(squares * n * (n * n - 1.0) / 12.0)
