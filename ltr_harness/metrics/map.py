"""MAP: precision at every relevant document, averaged."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ltr_harness._util.compiled import compiled
from ltr_harness.errors import MetricError
from ltr_harness.metrics.core import Bools, Floats, Ints, Judgments, Lists, Ranking, SwapChange
from ltr_harness.metrics.core.metric import NO_CUTOFF, BinaryMetric, Cutoffs, Divisor, Prepared, Values
from ltr_harness.metrics.dcg import cumulated


@dataclass(frozen=True, kw_only=True)
class MAP(BinaryMetric):
    """Average of the precision at each relevant document's rank: higher where they fill the top.

    AP@K = (1/D) sum over ranks r <= K that hold a relevant document of (relevant documents in the top r) / r;
    MAP is its mean.

    Attributes:
        denominator: D. ``min_rk`` min(R, K) with R the query's relevant documents, so that 1 can be reached (as
            LightGBM, XGBoost and CatBoost have it); ``total`` R (trec_eval); ``retrieved`` the relevant documents
            within K. The same ranking gave .78, and .14 with ``total``.

    Source: Buckley & Voorhees 2000; as an area: Manning, Raghavan & Schütze 2008, chapter 8; expectation under ties:
        McSherry & Najork 2008.

    When to use: Relevant or not, and all the relevant documents matter: recall-oriented search such as
        patents, law and medicine, and shelves of recommendations at a K.

    When not: With graded labels: it collapses them; see `q` and `ndcg`. To compare numbers across papers
        before knowing D: it changes them several times over.

    Missed documents: They count in R: the value falls. With ``denominator=retrieved`` it stays.

    Example:
        >>> from ltr_harness import evaluate
        >>> ev = evaluate([1, 0, 1, 1, 1], [5, 4, 3, 2, 1], group_sizes=[5], metrics=["map@3"])
        >>> round(ev.means["map@3"], 6)  # (1/1 + 2/3) / 3
        0.555556
    """

    denominator: Literal["min_rk", "total", "retrieved"] = "min_rk"

    name = "map"
    source = "Buckley & Voorhees 2000"

    def prepare(self, judgments: Judgments, cutoffs: Cutoffs) -> Prepared:
        is_relevant, n_relevant = self.relevant_labels(judgments)
        relevance, is_empty = is_relevant.astype(np.float64), n_relevant == 0
        all_ranks = np.ones(min(judgments.groups.longest, int(cutoffs[-1])))
        at_least_one = self._divisor(n_relevant, cutoffs)

        def values(ranking: Ranking) -> Values:
            out = np.empty(at_least_one.shape)
            straddled = _average_precision(ranking.label_lists, cutoffs, is_relevant, relevance, out)
            if self.denominator == "retrieved":
                if straddled >= 0:
                    raise MetricError(
                        f"{self.without_cutoff}: documents of query {judgments.groups.name(straddled)!r} tie across "
                        "the cutoff, which makes the number of relevant documents retrieved, its divisor, random; "
                        "choose ties=stable, worst, best or id"
                    )
                hits = cumulated(ranking, cutoffs, relevance, all_ranks, by_label=True)
                out /= np.maximum(hits, 1.0)
            else:
                out /= at_least_one
            return self.apply_empty(out, is_empty)

        return values

    def _divisor(self, n_relevant: Ints, cutoffs: Cutoffs) -> Floats:
        """float64 (n_cutoffs, n_queries), at least 1."""
        reached = cutoffs if self.denominator == "min_rk" else np.full_like(cutoffs, NO_CUTOFF)
        divisor = np.minimum(n_relevant[np.newaxis, :], reached[:, np.newaxis])
        return np.maximum(divisor, 1).astype(np.float64)

    def swap_change(self, judgments: Judgments) -> SwapChange:
        if self.denominator == "retrieved":
            raise MetricError(
                f"{self} cannot be an objective: its divisor changes with the ranking; expected "
                "denominator=min_rk or total"
            )
        is_relevant, n_relevant = self.relevant_rows(judgments)
        return SwapChange(
            form="precision",
            worth=is_relevant.astype(np.float64),
            scale=1.0 / self._divisor(n_relevant, np.array([self.cutoff]))[0],
            rank_worth=1.0 / np.arange(1, self.n_counted_ranks(judgments) + 1),
        )

    def divisor_at(self, judgments: Judgments, ranking: Ranking, cutoffs: Cutoffs) -> Divisor:
        is_relevant, (relevant,) = self.relevant_rows(judgments)
        if self.denominator == "min_rk":
            return "min(R, K)", np.minimum(cutoffs, relevant).astype(np.float64)
        if self.denominator == "total":
            return "R", np.full(cutoffs.size, float(relevant))
        factors = np.ones(is_relevant.size)
        return "relevant documents within K", cumulated(
            ranking, cutoffs, is_relevant.astype(np.float64), factors
        )[:, 0]


@compiled
def _average_precision(
    lists: Lists, cutoffs: Ints, is_relevant: Bools, relevance: Floats, out: Floats
) -> int:
    """Expected sum of precisions; returns a query with a mixed tie across a cutoff, or -1."""
    offsets, rows, tie_end, tied = lists
    straddled = -1
    for query in range(offsets.size - 1):
        first = offsets[query]
        n = min(offsets[query + 1] - first, cutoffs[-1])
        total = 0.0
        before = 0.0  # relevant documents above the tie group; integers would be converted at each rank
        cutoff = i = 0
        if not tied[query]:  # the general case below, without its divisions
            for cutoff in range(cutoffs.size):
                while i < min(n, cutoffs[cutoff]):
                    hit = relevance[rows[first + i]]
                    before += hit
                    i += 1
                    total += hit * before / i
                out[cutoff, query] = total
            continue
        while i < n:
            start = i
            end = tie_end[first + i]
            size = end - start
            relevant = 0
            for j in range(start, end):
                relevant += is_relevant[rows[first + j]]
            share = relevant / size
            relevant_before = (relevant - 1) / (size - 1) if size > 1 else 0.0
            while i < end and i < n:
                total += share * (before + 1 + (i - start) * relevant_before) / (i + 1)
                i += 1
                if i == cutoffs[cutoff]:
                    out[cutoff, query] = total
                    cutoff += 1
                    if i < end and 0 < relevant < size:
                        straddled = query
            before += relevant
        for beyond in range(cutoff, cutoffs.size):
            out[beyond, query] = total
    return straddled
