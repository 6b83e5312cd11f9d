"""AP correlation: agreement of two orders that cares most about the top."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ltr_harness.metrics.core import Floats, Judgments, Ranking
from ltr_harness.metrics.core.concordance import LabelOrder
from ltr_harness.metrics.core.metric import Cutoffs, Metric, Prepared, Values


@dataclass(frozen=True, kw_only=True)
class TauAP(Metric):
    """Agreement of the order by score with that by label, the top counting most: 1 agrees, -1 is reversed.

    Walking down one order, every document below the first asks which share of the documents above it belongs there:
    tau = 2 * mean of those shares - 1. A pair tied in label is in nobody's right order.

    By score:  2/(n-1) * sum over ranks r > 1 of (rows above r with a greater label) / (r - 1) - 1.
    By label:  2/m * sum over the m documents with a greater label somewhere of (those of them above it) / (all of
    them) - 1; the ideal order is 1 whatever ties the labels have.

    Queries whose labels are all equal are undefined.

    Attributes:
        walk: ``both`` is their mean, tau_ap,b, which treats labels as one observer and scores as another;
            ``scores`` is Yilmaz's tau_ap, with equal scores Urbano & Marrero's tau_ap,a; ``labels`` the other
            half.

    Source: Yilmaz, Aslam & Robertson 2008; ties in label: tau_ap,b of Urbano & Marrero 2017; ties in score: exact
    mean over their orders.

    When to use: To compare whole orders where mistakes at the top matter most: a model against another
        model's order, or systems ranked by two metrics.

    When not: As a page's quality: it has no K, and treats labels as an order without distances.

    Missed documents: They tie below the last candidate: the value falls or rises.

    Example:
        >>> from ltr_harness import evaluate
        >>> ev = evaluate([2, 0, 1], [3.0, 2.0, 1.0], group_sizes=[3], metrics=["tau_ap(walk=scores)"])
        >>> ev.means["tau_ap(walk=scores)"]  # 2/2 (1/1 + 1/2) - 1
        0.5
    """

    walk: Literal["both", "scores", "labels"] = "both"

    name = "tau_ap"
    graded = True
    bounds = (-1.0, 1.0)
    takes_cutoff = False
    uses_whole_order = True
    takes_any_label = True
    source = "Yilmaz et al. 2008; Urbano & Marrero 2017"

    def contributions(self, judgments: Judgments, ranking: Ranking) -> Floats:
        # 2 * mean of shares - 1 is the mean of 2 * share - 1: a document gives 1 if all is right, -1 if nothing is
        order = LabelOrder.of(judgments.labels, judgments.groups)
        above = order.above(ranking)
        rank = np.arange(ranking.rows.size)  # from 0, so it is also how many rows stand above
        earlier = rank - above.start
        size = ranking.tie_end - above.start
        chance = np.divide(earlier, size - 1, out=np.zeros(rank.size), where=size > 1)
        mean_better = above.of_group(above.better) + chance * above.of_group(above.better_tied)
        down_scores = np.divide(mean_better, rank, out=np.full(rank.size, 0.5), where=rank > 0)
        n_better = order.n_better[ranking.rows]
        better_above = above.better + above.better_tied / 2.0
        down_labels = np.divide(better_above, n_better, out=np.full(rank.size, 0.5), where=n_better > 0)
        by_scores = (2.0 * down_scores - 1.0) / max(rank.size - 1, 1)
        by_labels = (2.0 * down_labels - 1.0) / max(np.count_nonzero(n_better), 1)
        return np.asarray(self._chosen(by_scores, by_labels))

    def _chosen(self, by_scores: Floats, by_labels: Floats) -> Floats:
        """Return the values of the walk that was chosen: of one order, or the mean of both."""
        if self.walk == "scores":
            return by_scores
        if self.walk == "labels":
            return by_labels
        return (by_scores + by_labels) / 2.0

    def prepare(self, judgments: Judgments, cutoffs: Cutoffs) -> Prepared:
        order = LabelOrder.of(judgments.labels, judgments.groups)
        groups = judgments.groups
        below_some = groups.count(order.n_better > 0)
        below_first = groups.sizes - 1

        def values(ranking: Ranking) -> Values:
            _, by_rank, by_label = order.concordant(ranking)
            down_scores = 2.0 * by_rank / np.maximum(below_first, 1) - 1.0
            down_labels = 2.0 * by_label / np.maximum(below_some, 1) - 1.0
            chosen = self._chosen(down_scores, down_labels)
            return self.apply_empty(np.clip(chosen, -1.0, 1.0)[np.newaxis, :], below_some == 0)

        return values
