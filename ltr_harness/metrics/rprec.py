"""R-precision: precision where a perfect list would have everything."""

from dataclasses import dataclass

import numpy as np

from ltr_harness._util.compiled import compiled
from ltr_harness.metrics.core import Bools, Floats, Ints, Judgments, Lists, Ranking, SwapChange
from ltr_harness.metrics.core.metric import BinaryMetric, Cutoffs, Divisor, Prepared, Values
from ltr_harness.metrics.dcg import cumulated


@dataclass(frozen=True, kw_only=True)
class RPrec(BinaryMetric):
    """Precision at R, the number of the query's relevant documents, where precision and recall are equal.

    R-precision = (relevant documents in the first R) / R. Every query has its own cutoff, so there is no K.

    Source: Buckley & Voorhees 2000; expectation under ties: McSherry & Najork 2008.

    When to use: Binary labels with very different numbers of relevant documents per query, and no natural K.

    When not: Where only a page is seen: for a query with 500 relevant documents it looks at 500.

    Missed documents: They count in R, which is cutoff and divisor: the value falls or rises.

    Example:
        >>> from ltr_harness import evaluate
        >>> ev = evaluate([1, 0, 1], [3.0, 2.0, 1.0], group_sizes=[3], metrics=["rprec"])
        >>> ev.means["rprec"]  # R = 2, one of the first two
        0.5
    """

    name = "rprec"
    takes_cutoff = False
    source = "Buckley & Voorhees 2000"

    def prepare(self, judgments: Judgments, cutoffs: Cutoffs) -> Prepared:
        is_relevant, n_relevant = self.relevant_rows(judgments)

        def values(ranking: Ranking) -> Values:
            out = np.empty((1, n_relevant.size))
            _r_precision(ranking.lists, is_relevant, n_relevant, out[0])
            return self.apply_empty(np.minimum(out, 1.0), n_relevant == 0)

        return values

    def swap_change(self, judgments: Judgments) -> SwapChange:
        is_relevant, n_relevant = self.relevant_rows(judgments)
        return SwapChange(
            form="sum",
            worth=is_relevant.astype(np.float64),
            scale=1.0 / np.maximum(n_relevant, 1),
            rank_worth=np.ones(max(int(n_relevant.max()), 1)),
            depth=n_relevant,
        )

    def contributions(self, judgments: Judgments, ranking: Ranking) -> Floats:
        is_relevant, (n_relevant,) = self.relevant_rows(judgments)
        ranks = np.arange(1, ranking.rows.size + 1)
        hits = cumulated(ranking, ranks, is_relevant.astype(np.float64), np.ones(ranks.size))[:, 0]
        return np.where(ranks <= n_relevant, np.diff(hits, prepend=0.0), 0.0)

    def divisor_at(self, judgments: Judgments, ranking: Ranking, cutoffs: Cutoffs) -> Divisor:
        return "R", np.maximum(self.relevant_rows(judgments)[1], 1).astype(np.float64)


@compiled
def _r_precision(lists: Lists, is_relevant: Bools, n_relevant: Ints, out: Floats) -> None:
    offsets, rows, tie_end, _ = lists
    for query in range(n_relevant.size):
        first = offsets[query]
        n = min(offsets[query + 1] - first, n_relevant[query])
        hits = 0.0
        i = 0
        while i < n:
            end = tie_end[first + i]
            relevant = 0
            for j in range(i, end):
                if is_relevant[rows[first + j]]:
                    relevant += 1
            hits += relevant * (min(end, n) - i) / (end - i)
            i = end
        out[query] = hits / max(n_relevant[query], 1)
