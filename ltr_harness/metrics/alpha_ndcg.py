"""alpha-NDCG: gains that shrink with every document that repeats a subtopic."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ltr_harness._util.compiled import compiled
from ltr_harness.errors import MetricError
from ltr_harness.metrics.core import Floats, Ints, Judgments, Ranking, RowRanker, gains
from ltr_harness.metrics.core.metric import BinaryMetric, Cutoffs, Divisor, ExplainColumns, Prepared, Values
from ltr_harness.metrics.err import expected_utility


@dataclass(frozen=True, kw_only=True)
class AlphaNDCG(BinaryMetric):
    """NDCG for queries with subtopics: each further document about the same subtopic gains less than the one before.

    alpha-DCG@K = sum over ranks r <= K of discount(r) times the sum over subtopics s that the document is relevant for
    of (1 - alpha)^(documents above r that are relevant for s); alpha-NDCG divides it by that of an ideal list. The best
    list is too dear to find (NP-complete), so the ideal takes at each rank the document that adds most, as TREC's
    ndeval does; a ranking can be better than that, by e/(e - 1) = 1.58 at the very most.

    Attributes:
        alpha: how much less a repeated subtopic gains, in (0, 1]; 1: only the first document about it gains anything.
        relevant: the lowest grade for a subtopic that counts as relevant for it; all such grades count alike.
        discount: ``log2`` 1/log2(1 + r), ``letor`` (1, 1, 1/log2 3, …), or a table of factors.
        ties: ``expected``, ``stable`` or ``id``; also which of equally good documents the ideal list takes first: with
            ``id`` by document id, as ndeval, else by the subtopics they are relevant for.

    Source: Clarke, Kolla, Cormack, Vechtomova, Ashkan, Büttcher & MacKinnon 2008.

    When to use: Ambiguous or broad queries with judgments by subtopic, where a list should cover them all and early.

    When not: Without such judgments. As the one number of a graded collection: grades above `relevant` count alike.

    Missed documents: They stand in the ideal list: the value falls.

    Example:
        >>> from ltr_harness import evaluate
        >>> apart = [[1, 0], [1, 0], [0, 1]]  # the second document says again what the first says
        >>> ev = evaluate([1, 1, 1], [3, 2, 1], group_sizes=[3], metrics=["alpha_ndcg"], subtopics=apart)
        >>> round(ev.means["alpha_ndcg"], 6)  # (1 + 1/2 1/log2 3 + 1/2) / (1 + 1/log2 3 + 1/2 1/2)
        0.965195
    """

    alpha: float = 0.5
    discount: Any = "log2"

    name = "alpha_ndcg"
    uses_subtopics = True
    bounds = (0.0, math.e / (math.e - 1.0))
    source = "Clarke et al. 2008"

    def __post_init__(self) -> None:
        named = gains.NAMED_DISCOUNTS
        object.__setattr__(self, "discount", gains.table_text(self.discount, "discount", named, 1))
        super().__post_init__()
        gains.refuse_label_order(self.name, self.ties)
        if not 0 < self.alpha <= 1:
            raise MetricError(f"{self.name}: alpha={self.alpha}; expected a number above 0 and up to 1")

    def prepare(self, judgments: Judgments, cutoffs: Cutoffs) -> Prepared:
        relevant = self._relevant(judgments)
        n_subtopics = gains.subtopics_of_queries(relevant, judgments)
        ideal, discounts = self._ideal(judgments, relevant, cutoffs)

        def values(ranking: Ranking) -> Values:
            gained = self._gained(ranking, relevant, cutoffs, discounts)
            np.divide(gained, ideal, out=gained, where=ideal > 0.0)
            return self.apply_empty(gained, n_subtopics == 0)

        return values

    def row_facts(self, judgments: Judgments) -> ExplainColumns:
        return {"subtopics": self._relevant(judgments).sum(axis=0, dtype=np.int64)}

    def rank_facts(self, n_ranks: int) -> ExplainColumns:
        return {"discount": gains.discounts(self.discount, n_ranks, self.name)}

    def divisor_at(self, judgments: Judgments, ranking: Ranking, cutoffs: Cutoffs) -> Divisor:
        return "ideal alpha-DCG", self._ideal(judgments, self._relevant(judgments), cutoffs)[0][:, 0]

    def _relevant(self, judgments: Judgments) -> Floats:
        """float64 (n_subtopics, n_rows), 1 where a row is relevant for a subtopic of its query and 0 where not."""
        labels = gains.labels_by_subtopic(judgments, self.without_cutoff)
        return np.asarray(labels >= self.relevant, dtype=np.float64)

    def _gained(self, ranking: Ranking, relevant: Floats, cutoffs: Cutoffs, discounts: Floats) -> Values:
        """alpha-DCG: a cascade for each subtopic, whose user is satisfied by a relevant document with chance alpha."""
        by_subtopic = [
            expected_utility(
                self, ranking, ranking.by_value(self.alpha * row_is_relevant), cutoffs, discounts
            )
            for row_is_relevant in relevant
        ]
        return np.asarray(np.sum(by_subtopic, axis=0) / self.alpha)

    def _ideal(self, judgments: Judgments, relevant: Floats, cutoffs: Cutoffs) -> tuple[Values, Floats]:
        """alpha-DCG of the ideal list, and the discounts of the ranks that count."""
        depth = min(judgments.groups.longest, int(cutoffs[-1]))
        discounts_of_ranks = gains.discounts(self.discount, depth, self.name)
        by_row = np.ascontiguousarray(relevant.T)
        if self.ties == "id":
            first = RowRanker(judgments, "id", None).rank(np.zeros(len(by_row)))
        else:
            kind = np.unique(by_row, axis=0, return_inverse=True)[1]
            first = RowRanker(judgments, "stable", None).rank(kind.reshape(-1).astype(np.float64))
        scores = np.zeros(len(by_row))
        _greedily(judgments.groups.boundaries, first.rows, by_row, 1.0 - self.alpha, depth, scores)
        best = RowRanker(judgments, "stable", depth).rank(scores)
        return self._gained(best, relevant, cutoffs, discounts_of_ranks), discounts_of_ranks


@compiled
def _greedily(
    boundaries: Ints, rows: Ints, relevant: Floats, gain_of_repeat: float, depth: int, scores: Floats
) -> None:
    """Score the rows so that each query's next is the one that adds most; where several do, the first of `rows`."""
    n_subtopics = relevant.shape[1]
    gain_of = np.empty(n_subtopics)
    for query in range(boundaries.size - 1):
        start, end = boundaries[query], boundaries[query + 1]
        gain_of[:] = 1.0
        for rank in range(min(end - start, depth)):
            best = -1
            largest_gain = 0.0
            for position in range(start, end):
                row = rows[position]
                if scores[row] == 0.0:
                    gain = 0.0
                    for subtopic in range(n_subtopics):
                        gain += relevant[row, subtopic] * gain_of[subtopic]
                    if gain > largest_gain:
                        best, largest_gain = row, gain
            if best < 0:
                break
            scores[best] = float(end - start - rank)
            for subtopic in range(n_subtopics):
                if relevant[best, subtopic] > 0.0:
                    gain_of[subtopic] *= gain_of_repeat
