"""DCG: discounted cumulative gain."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ltr_harness._util.compiled import compiled_elementwise
from ltr_harness.metrics.core import Floats, Ints, Judgments, Lists, Ranking, SwapChange
from ltr_harness.metrics.core.gains import NAMED_DISCOUNTS, GainMetric, discounts, table_text
from ltr_harness.metrics.core.metric import Cutoffs, ExplainColumns, Metric, Prepared, Values


@dataclass(frozen=True, kw_only=True)
class CumulatedMetric(Metric):
    """Base of the metrics that add up gains, each times what its rank counts: 1 unless said otherwise."""

    @abstractmethod
    def gain_of_labels(self, judgments: Judgments) -> Floats:
        """float64 (n_table,), what rows of each label of `Judgments.label_table` are worth."""

    def gains(self, judgments: Judgments) -> Floats:
        """float64 (n_rows,), what each row is worth."""
        return judgments.of_rows(self.gain_of_labels(judgments))

    def factors(self, n_ranks: int) -> Floats:
        """float64 (n_ranks,), what ranks 1, 2, … count."""
        return np.ones(n_ranks)

    def prepare(self, judgments: Judgments, cutoffs: Cutoffs) -> Prepared:
        gain, factor = self.gain_and_discount(judgments, cutoffs)
        is_empty = judgments.count_rows(gain > 0.0) == 0

        def values(ranking: Ranking) -> Values:
            return self.apply_empty(cumulated(ranking, cutoffs, gain, factor, by_label=True), is_empty)

        return values

    def swap_change(self, judgments: Judgments) -> SwapChange:
        return SwapChange(
            form="sum",
            worth=self.gains(judgments),
            scale=np.ones(judgments.groups.n_queries),
            rank_worth=self.factors(self.n_counted_ranks(judgments)),
        )

    def gain_and_discount(self, judgments: Judgments, cutoffs: Cutoffs) -> tuple[Floats, Floats]:
        """The gain of each label, and the discount of each rank that counts."""
        factors = self.factors(min(judgments.groups.longest, int(cutoffs[-1])))
        return self.gain_of_labels(judgments), factors


@dataclass(frozen=True, kw_only=True)
class DCG(GainMetric, CumulatedMetric):
    """Graded relevance of the list, each rank worth less than the one above it.

    DCG@K = sum over ranks r <= K of gain(label_r) * discount(r).

    Not comparable between queries (it grows with their number of relevant documents), so its mean is rarely what
    one wants; `NDCG` divides by the best value the query allows.

    Attributes:
        gain: ``exp`` 2^g - 1 (integer labels; ``exp_real`` any), ``linear`` g, or a table ``{0: 0, 1: 1, 2: 5}``.
        discount: ``log2`` 1/log2(1 + r), ``letor`` (1, 1, 1/log2 3, …), or a table of factors.

    Source: Järvelin & Kekäläinen 2002; the exponential gain: Burges et al. 2005.

    When to use: To see what NDCG divides, or where the amount of relevance delivered is itself the point.

    When not: To average over queries, or to compare data sets: it has no upper bound and grows with a
        query's relevant documents. Use `ndcg`.

    Missed documents: They have no rank: the value stays. It is 0, not undefined, where every relevant document
        was missed.

    Example:
        >>> from ltr_harness import evaluate
        >>> ev = evaluate([3, 2, 0], [3.0, 2.0, 1.0], group_sizes=[3], metrics=["dcg@2"])
        >>> round(ev.means["dcg@2"], 4)  # 7 + 3 / log2(3)
        8.8928
    """

    discount: Any = "log2"

    name = "dcg"
    bounds = (0.0, float("inf"))
    source = "Järvelin & Kekäläinen 2002"

    def __post_init__(self) -> None:
        object.__setattr__(self, "discount", table_text(self.discount, "discount", NAMED_DISCOUNTS, 1))
        super().__post_init__()

    @property
    def is_linear_sum(self) -> bool:
        return bool(self.gain == "linear")

    def factors(self, n_ranks: int) -> Floats:
        return discounts(self.discount, n_ranks, self.name)

    def swap_change(self, judgments: Judgments) -> SwapChange:
        change = super().swap_change(judgments)
        if self.discount not in NAMED_DISCOUNTS:
            return change
        return replace(change, distance_worth=self.factors(judgments.groups.longest + 1))

    def rank_facts(self, n_ranks: int) -> ExplainColumns:
        return {"discount": self.factors(n_ranks)}


_NO_IDEAL = np.empty((0, 0))


def cumulated(
    ranking: Ranking,
    cutoffs: Cutoffs,
    gain: Floats,
    factor: Floats,
    *,
    by_label: bool = False,
    ideal: Values = _NO_IDEAL,
) -> Values:
    """Expected DCG at every cutoff: a tie group contributes its mean gain at each of its ranks.

    Args:
        ranking: documents in rank order.
        cutoffs: int64 (n_cutoffs,), ascending.
        gain: float64 (n_rows,), or (n_table,) `by_label`.
        factor: float64 (n_ranks,), the discount of each rank that counts.
        by_label: the gain is that of each label of `Judgments.label_table`.
        ideal: float64 (n_cutoffs, n_queries), the divisors of a share, which is at most 1; none by default.
    """
    out = np.empty((cutoffs.size, ranking.offsets.size - 1))
    _cumulate(ranking.label_lists if by_label else ranking.lists, cutoffs, gain, factor, ideal, out)
    return out


@compiled_elementwise
def _cumulate(lists: Lists, cutoffs: Ints, gain: Floats, factor: Floats, ideal: Floats, out: Floats) -> None:
    offsets, rows, tie_end, tied = lists
    for query in range(offsets.size - 1):
        first = offsets[query]
        n = min(offsets[query + 1] - first, factor.size, cutoffs[-1])
        total = 0.0
        cutoff = i = 0
        if not tied[query]:  # the general case below, without its questions
            for cutoff in range(cutoffs.size):
                while i < min(n, cutoffs[cutoff]):
                    total += gain[rows[first + i]] * factor[i]
                    i += 1
                out[cutoff, query] = total
            cutoff += 1
        while i < n and cutoff < cutoffs.size:
            end = tie_end[first + i]
            mean_gain = 0.0
            for j in range(i, end):
                mean_gain += gain[rows[first + j]]
            mean_gain /= end - i
            while i < end and i < n:
                total += mean_gain * factor[i]
                i += 1
                if i == cutoffs[cutoff]:
                    out[cutoff, query] = total
                    cutoff += 1
        for beyond in range(cutoff, cutoffs.size):
            out[beyond, query] = total
    for cutoff in range(ideal.shape[0]):
        shares, divisors = out[cutoff], ideal[cutoff]
        for query in range(shares.size):
            shares[query] = min(shares[query] / divisors[query], 1.0)  # rounding may have it above 1
