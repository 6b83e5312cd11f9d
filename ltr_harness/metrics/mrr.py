"""MRR: how far down the first relevant document is."""

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from ltr_harness._util.compiled import compiled
from ltr_harness.metrics.core import Bools, Floats, Ints, Judgments, Lists, Ranking, SwapChange
from ltr_harness.metrics.core.metric import BinaryMetric, Cutoffs, ExplainColumns, Prepared, Values


@dataclass(frozen=True, kw_only=True)
class FirstHitMetric(BinaryMetric):
    """The base of MRR and success: the value of the rank of the first relevant document, 0 beyond the cutoff."""

    saturates = True

    @abstractmethod
    def hit_values(self, n_ranks: int) -> Floats:
        """Return the value of a first hit at each rank, float64 (n_ranks,)."""
        raise NotImplementedError

    def prepare(self, judgments: Judgments, cutoffs: Cutoffs) -> Prepared:
        is_relevant, n_relevant = self.relevant_labels(judgments)
        is_empty = n_relevant == 0
        hit_values = self.hit_values(min(judgments.groups.longest, int(cutoffs[-1])))

        def values(ranking: Ranking) -> Values:
            out = np.empty((cutoffs.size, n_relevant.size))
            _first_hit(ranking.label_lists, cutoffs, is_relevant, hit_values, out)
            return self.apply_empty(out, is_empty)

        return values

    def swap_change(self, judgments: Judgments) -> SwapChange:
        is_relevant, _ = self.relevant_rows(judgments)
        return SwapChange(
            form="first hit",
            worth=is_relevant.astype(np.float64),
            scale=np.ones(judgments.groups.n_queries),
            rank_worth=self.hit_values(self.n_counted_ranks(judgments)),
        )


@dataclass(frozen=True, kw_only=True)
class MRR(FirstHitMetric):
    """Reciprocal rank of the first relevant document: 1 at rank 1, 1/2 at rank 2, 0 if none within K.

    RR@K = 1 / (rank of the first document with label >= relevant), 0 where that rank exceeds K; MRR is its mean.

    Blind to everything after the first hit, and close to 1 for every model when most documents are relevant:
    raise `relevant` then.

    Source: Voorhees 1999; expectation under ties: McSherry & Najork 2008.

    When to use: One right answer, or one that is enough: known-item and navigational search, question
        answering, the first passage for a language model. Look at its distribution too: a mean hides many
        queries without any hit. Where every query has a relevant document, it is 1 over the harmonic mean of
        the first hits' ranks.

    When not: When users want several results: it is blind after the first hit. When most documents are
        relevant. As the only number: half of it is decided by whether rank 1 or rank 2 is hit, and no
        median brings the rest back.

    Missed documents: They have no rank: the value stays. It is 0, not undefined, where every relevant document
        was missed.

    Example:
        >>> from ltr_harness import evaluate
        >>> ev = evaluate([0, 1, 1, 0, 0, 1], [3, 2, 1, 3, 2, 1], group_sizes=[3, 3], metrics=["mrr"])
        >>> round(ev.means["mrr"], 6)  # (1/2 + 1/3) / 2
        0.416667
    """

    name = "mrr"
    source = "Voorhees 1999"

    def hit_values(self, n_ranks: int) -> Floats:
        return np.asarray(1.0 / np.arange(1, n_ranks + 1))

    def rank_facts(self, n_ranks: int) -> ExplainColumns:
        return {"1 / rank": self.hit_values(n_ranks)}


@compiled
def _first_hit(lists: Lists, cutoffs: Ints, is_relevant: Bools, hit_values: Floats, out: Floats) -> None:
    offsets, rows, tie_end, tied = lists
    for query in range(offsets.size - 1):
        first = offsets[query]
        n = min(offsets[query + 1] - first, hit_values.size)
        total = 0.0
        cutoff = i = 0
        if not tied[query]:
            while i < n and not is_relevant[rows[first + i]]:
                i += 1
            for cutoff in range(cutoffs.size):
                out[cutoff, query] = hit_values[i] if i < min(n, cutoffs[cutoff]) else 0.0
            continue
        hit = False
        while i < n and not hit:
            start = i
            end = tie_end[first + i]
            hits = 0
            for j in range(start, end):
                hits += is_relevant[rows[first + j]]
            hit = hits > 0
            # chance that the group's first hit is its document j: C(size-j, hits-1) / C(size, hits)
            size = end - start
            chance = hits / size
            while i < end and i < n:
                total += chance * hit_values[i]
                rest = size - 1 - (i - start)
                chance = chance * (rest - hits + 1) / rest if rest > 0 else 0.0
                i += 1
                if i == cutoffs[cutoff]:
                    out[cutoff, query] = min(
                        total, 1.0
                    )  # chances add up to at most 1; rounding may say otherwise
                    cutoff += 1
        for beyond in range(cutoff, cutoffs.size):
            out[beyond, query] = min(total, 1.0)
