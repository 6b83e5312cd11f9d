"""NDCG: how close the list comes to the best list these labels allow."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ltr_harness._util.compiled import compiled
from ltr_harness.metrics.core import Bools, Floats, Ints, Judgments, Ranking, RowRanker, SwapChange
from ltr_harness.metrics.core.metric import NO_CUTOFF, Cutoffs, Divisor, Prepared, Values
from ltr_harness.metrics.dcg import DCG, cumulated


@dataclass(frozen=True, kw_only=True)
class NDCG(DCG):
    """DCG as a share of that of the best order: 1 is the ideal order, whatever the query.

    NDCG@K = DCG@K / IDCG@K, with DCG@K = sum over ranks r <= K of gain(label_r) * discount(r) and IDCG@K
    the DCG@K of the query's documents sorted by label. Both stop at the list's end when it is shorter than K.

    Queries without any positive gain are undefined (0/0) and follow `empty`. Numbers for different K answer
    different questions and are never comparable.

    Attributes:
        gain: ``exp`` 2^g - 1 (integer labels; ``exp_real`` any), ``linear`` g, or a table ``{0: 0, 1: 1, 2: 5}``.
        discount: ``log2`` 1/log2(1 + r), ``letor`` (1, 1, 1/log2 3, …), or a table of factors.
        ideal: ``pool`` sorts all documents of the query; ``shown`` leaves out those scored -inf, which is how
            documents that were never shown are marked, from both lists.
        short_list: ``zero`` gives 0 to queries with fewer than K documents, as LETOR 4.0's script does.

    Source: Järvelin & Kekäläinen 2002; the exponential gain: Burges et al. 2005; ties: McSherry & Najork 2008;
        what a discount must be: Wang et al. 2013.

    When to use: Graded labels and a list read from the top: the usual choice for search, at the K that
        users see. It assumes that very relevant documents are worth much more than slightly relevant ones,
        that a document is worth less the further down it stands, and that every document has a label. LambdaMART
        and similar methods optimise a smooth stand-in of it.

    When not: To compare different K: the ideal changes with K, so a larger K can score higher although
        the list got no better. With many fine grades, where exponential gain leaves only the top grade to
        count: prefer linear gain, a table, or fewer grades. For lists of a hundred: split them, or
        measure what is seen.

    Missed documents: They stand in the ideal list: the value falls. With ``ideal=shown`` it stays.

    Example:
        >>> from ltr_harness import evaluate
        >>> ev = evaluate([0, 0, 1, 1, 1], [5, 4, 3, 2, 1], group_sizes=[5], metrics=["ndcg@3"])
        >>> round(ev.means["ndcg@3"], 6)  # (1/log2 4) / (1/log2 2 + 1/log2 3 + 1/log2 4)
        0.234639
    """

    ideal: Literal["pool", "shown"] = "pool"
    short_list: Literal["truncate", "zero"] = "truncate"

    name = "ndcg"
    bounds = (0.0, 1.0)
    source = "Järvelin & Kekäläinen 2002; Burges et al. 2005"

    @property
    def is_linear_sum(self) -> bool:
        return False  # it divides by an ideal

    def prepare(self, judgments: Judgments, cutoffs: Cutoffs) -> Prepared:
        gain, factor = self.gain_and_discount(judgments, cutoffs)

        def apply_conventions(out: Values, nothing: Bools) -> Values:
            if self.short_list == "zero":
                at_k = cutoffs[:, np.newaxis]
                out[(judgments.groups.sizes < at_k) & (at_k != NO_CUTOFF)] = 0.0
            return self.apply_empty(out, nothing)

        if self.ideal == "shown":
            row_gain = judgments.of_rows(gain)
            by_gain = RowRanker(judgments, "stable", int(cutoffs[-1]))

            def shown_values(ranking: Ranking) -> Values:
                shown_gain = np.where(ranking.scores == -np.inf, 0.0, row_gain)
                ideal = cumulated(by_gain.rank(shown_gain), cutoffs, shown_gain, factor)
                out = cumulated(ranking, cutoffs, shown_gain, factor, ideal=_positive(ideal))
                return apply_conventions(out, ideal[-1] <= 0.0)

            return shown_values
        pool_ideal, is_empty = _pool_ideal(judgments, gain, cutoffs, factor)

        def pool_values(ranking: Ranking) -> Values:
            out = cumulated(ranking, cutoffs, gain, factor, by_label=True, ideal=pool_ideal)
            return apply_conventions(out, is_empty)

        return pool_values

    def divisor_at(self, judgments: Judgments, ranking: Ranking, cutoffs: Cutoffs) -> Divisor:
        label_gain, factor = self.gain_and_discount(judgments, cutoffs)
        gain = judgments.of_rows(label_gain)
        if self.ideal == "shown":
            gain = np.where(ranking.scores == -np.inf, 0.0, gain)
        best = RowRanker(judgments, "stable", None).rank(gain)
        return "ideal DCG", cumulated(best, cutoffs, gain, factor)[:, 0]

    def swap_change(self, judgments: Judgments) -> SwapChange:
        change = super().swap_change(judgments)
        ideal = RowRanker(judgments, "stable", self.n_counted_ranks(judgments)).rank(change.worth)
        best = cumulated(ideal, np.array([self.cutoff]), change.worth, change.rank_worth)[0]
        scale = np.divide(1.0, best, out=np.zeros(best.size), where=best > 0.0)
        if self.short_list == "zero" and self.k is not None:
            scale[judgments.groups.sizes < self.k] = 0.0
        return replace(change, scale=scale)


def _pool_ideal(judgments: Judgments, gain: Floats, cutoffs: Cutoffs, factor: Floats) -> tuple[Values, Bools]:
    """Return the DCG of each query's best order at every cutoff as a divisor, and the queries without gain.

    For the gain of each label (n_table,).
    """
    if judgments.grades is None:
        best = RowRanker(judgments, "stable", int(cutoffs[-1])).rank(gain)
        return _positive(cumulated(best, cutoffs, gain, factor)), judgments.count_rows(gain > 0.0) == 0
    # the same from how often each grade occurs in a query
    out = np.empty((cutoffs.size, judgments.groups.n_queries))
    is_empty = np.empty(judgments.groups.n_queries, dtype=bool)
    _count(judgments.groups.boundaries, judgments.grades.of_row, gain, cutoffs, factor, out, is_empty)
    return out, is_empty


def _positive(ideal: Values) -> Values:
    """The ideal DCG as a divisor: where it is 0, so is every DCG."""
    return np.where(ideal > 0.0, ideal, 1.0)


@compiled
def _count(
    boundaries: Ints,
    grade: NDArray[np.uint8],
    gain: Floats,  # (n_grades,)
    cutoffs: Ints,
    factor: Floats,
    out: Floats,  # (n_cutoffs, n_queries)
    is_empty: Bools,  # (n_queries,)
) -> None:
    # grades by their gain, the largest first
    order = np.empty(gain.size, dtype=np.int64)
    for label in range(gain.size):
        place = label
        while place > 0 and gain[order[place - 1]] < gain[label]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = label
    # most rows have one grade, and adding to the count that was just stored waits for it: four take turns
    parts = np.empty((4, gain.size), dtype=np.int64)
    counts = np.empty(gain.size, dtype=np.int64)
    for query in range(boundaries.size - 1):
        parts[:] = 0
        for row in range(boundaries[query], boundaries[query + 1]):
            parts[row & 3, grade[row]] += 1
        is_empty[query] = True
        for label in range(counts.size):
            counts[label] = 0
            for part in range(4):
                counts[label] += parts[part, label]
            is_empty[query] &= counts[label] == 0 or gain[label] <= 0.0
        n = min(boundaries[query + 1] - boundaries[query], factor.size, cutoffs[-1])
        total, cutoff, i, place = 0.0, 0, 0, 0
        while i < n:
            best = order[place]
            if counts[best] == 0:
                place += 1
                continue
            counts[best] -= 1
            total += gain[best] * factor[i]
            i += 1
            if i == cutoffs[cutoff]:
                out[cutoff, query] = total if total > 0.0 else 1.0
                cutoff += 1
        for beyond in range(cutoff, cutoffs.size):
            out[beyond, query] = total if total > 0.0 else 1.0
