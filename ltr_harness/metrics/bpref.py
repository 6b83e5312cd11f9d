"""bpref: preferences between judged documents only."""

from dataclasses import dataclass, replace

import numpy as np

from ltr_harness._util.compiled import compiled
from ltr_harness.metrics.core import Bools, Floats, Ints, Judgments, Lists, Ranking
from ltr_harness.metrics.core.metric import NO_CUTOFF, BinaryMetric, Cutoffs, Divisor, Prepared, Values
from ltr_harness.metrics.rbp_residual import judged_rows


@dataclass(frozen=True, kw_only=True)
class BPref(BinaryMetric):
    """Average share of judged non-relevant documents below a relevant one; unjudged documents are passed over.

    bpref = (1/R) * sum over the relevant documents listed of 1 - min(N_above, R) / min(R, N), with N the query's
    judged non-relevant documents and N_above those of them above the document (0 where there are none). Made for
    incomplete judgments; where every document is judged it tells little that AP does not. No cutoff.

    Source: Buckley & Voorhees 2004, in trec_eval's form; ties: exact mean over their orders.

    When to use: Judgments are incomplete: runs retrieve many unjudged documents, and the
        other metrics would count these as not relevant.

    When not: On learning-to-rank files, where every document is judged. As the number that decides: it does
        not see what was not judged, good or bad, and has no K.

    Missed documents: They count in R, or in N where they are not relevant: the value falls or rises.

    Example:
        >>> from ltr_harness import evaluate
        >>> ev = evaluate([1, 0, 1], [3.0, 2.0, 1.0], group_sizes=[3], metrics=["bpref"])
        >>> ev.means["bpref"]  # ((1 - 0/1) + (1 - 1/1)) / 2
        0.5
    """

    name = "bpref"
    takes_cutoff = False
    counts_worthless_rows = True
    source = "Buckley & Voorhees 2004"

    def prepare(self, judgments: Judgments, cutoffs: Cutoffs) -> Prepared:
        is_relevant, n_relevant = self.relevant_rows(judgments)
        is_against = (judged_rows(judgments) > 0.0) & ~is_relevant
        n_against = judgments.groups.count(is_against)

        def values(ranking: Ranking) -> Values:
            out = np.empty((1, n_relevant.size))
            _preferences(ranking.lists, is_relevant, is_against, n_relevant, n_against, out[0])
            return self.apply_empty(out, n_relevant == 0)

        return values

    def contributions(self, judgments: Judgments, ranking: Ranking) -> Floats:
        # a sum over relevant documents: a tie group gives each of its relevant documents the same
        out = np.zeros(ranking.rows.size)
        is_relevant, (n_relevant,) = self.relevant_rows(judgments)
        values_of = self.prepare(judgments, np.array([NO_CUTOFF]))
        before = 0.0
        start = 0
        while start < out.size:
            end = int(ranking.tie_end[start])
            head = replace(ranking, offsets=np.array([0, end]))  # the list down to here
            total = float(np.nan_to_num(values_of(head)[0, 0])) * n_relevant
            relevant = is_relevant[ranking.rows[start:end]]
            out[start:end][relevant] = (total - before) / max(int(relevant.sum()), 1)
            before, start = total, end
        return out

    def divisor_at(self, judgments: Judgments, ranking: Ranking, cutoffs: Cutoffs) -> Divisor:
        return "R", np.maximum(self.relevant_rows(judgments)[1], 1).astype(np.float64)


@compiled
def _preferences(
    lists: Lists, is_relevant: Bools, is_against: Bools, n_relevant: Ints, n_against: Ints, out: Floats
) -> None:
    offsets, rows, tie_end, _ = lists
    for query in range(n_relevant.size):
        first = offsets[query]
        n = offsets[query + 1] - first
        most = n_relevant[query]
        scale = min(most, n_against[query])
        total = 0.0
        above = i = 0
        while i < n:
            end = tie_end[first + i]
            relevant = against = 0
            for j in range(i, end):
                if is_relevant[rows[first + j]]:
                    relevant += 1
                elif is_against[rows[first + j]]:
                    against += 1
            if relevant > 0:
                # a relevant document stands below 0, 1, … or all of its group's `against`, each with equal chance
                counted = 0.0
                for x in range(against + 1):
                    counted += min(above + x, most)
                counted /= against + 1
                total += relevant * (1.0 - counted / scale) if scale > 0 else relevant
            above += against
            i = end
        out[query] = total / max(most, 1)
