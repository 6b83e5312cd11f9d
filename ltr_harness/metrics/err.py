"""ERR: how soon a user who reads from the top is satisfied."""

from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np

from ltr_harness._util.compiled import compiled
from ltr_harness.data.arrays import Array
from ltr_harness.errors import MetricError
from ltr_harness.metrics.core import Floats, Ints, Judgments, Lists, Ranking, SwapChange, gains
from ltr_harness.metrics.core.metric import NO_CUTOFF, Cutoffs, ExplainColumns, Metric, Prepared, Values

_LARGEST_TIE_WITHOUT_CUTOFF = 10_000


@dataclass(frozen=True, kw_only=True)
class ERR(Metric):
    """Expectation of 1 / (rank where a user stops) who reads from the top until a document satisfies them.

    ERR@K = sum over ranks r <= K of discount(r) R(g_r) prod over i < r of continuation (1 - R(g_i)), where a document
    of grade g satisfies with probability R(g) = (2^g - 1) / 2^max_grade. The best possible value is below 1.

    Attributes:
        max_grade: the scale's highest grade. A property of the experiment, never of a query: the same list is
            .51 on a scale to 4 and .91 on a scale to 3. Without it the largest label first seen is taken.
        continuation: chance that an unsatisfied user reads on.
        stop: ``exp`` as above, ``linear`` R(g) = g / (max_grade + 1), ``label`` R(g) = g: labels are probabilities, and
            `max_grade` has no effect.
        discount: what it is worth to be satisfied at rank r: ``reciprocal`` 1/r, ``log2`` 1/log2(1 + r), ``letor``
            (1, 1, 1/log2 3, …), ``none`` 1 at every rank, or a table of factors from 0 to 1.

    Source: Chapelle, Metzler, Zhang & Grinspan 2009, which leaves the utility of a rank open.

    When to use: Graded labels and users who stop once they are satisfied: a second perfect document is worth
        far less than the first. Unlike `mrr` it goes on counting after the first hit, a little.

    When not: When users want many results, or when the top of the scale is not fixed: `max_grade` must
        come from the experiment. Where most queries have no document of a high grade, prefer `nerr`.

    Missed documents: They have no rank: the value stays. It is 0, not undefined, where every relevant document
        was missed.

    Example:
        >>> from ltr_harness import evaluate
        >>> metric = "err(max_grade=4)"
        >>> evaluate([4, 4], [2.0, 1.0], group_sizes=[2], metrics=[metric]).means[metric]  # 15/16 + 1/2 1/16 15/16
        0.966796875
    """

    max_grade: float | None = None
    continuation: float = 1
    stop: Literal["exp", "linear", "label"] = "exp"
    discount: Any = "reciprocal"

    name = "err"
    graded = True
    source = "Chapelle et al. 2009"

    def __post_init__(self) -> None:
        object.__setattr__(self, "discount", gains.table_text(self.discount, "discount", gains.UTILITIES, 1))
        super().__post_init__()
        if self.discount not in gains.UTILITIES and max(map(float, self.discount.split("_"))) > 1:
            raise MetricError(f"{self.name}: discount={self.discount}; expected factors from 0 to 1")
        gains.check_max_grade(self.name, self.max_grade)
        if self.stop == "label":
            object.__setattr__(self, "max_grade", None)
        if not 0 < self.continuation <= 1:
            raise MetricError(
                f"{self.name}: continuation={self.continuation}; expected a probability in (0, 1]"
            )

    def with_max_grade(self, max_grade: float | None) -> Self:
        has_scale = self.max_grade is not None or self.stop == "label"
        return self if has_scale else replace(self, max_grade=max_grade)

    def resolved(self, judgments: Judgments) -> Self:
        return gains.freeze_max_grade(self, judgments)

    def prepare(self, judgments: Judgments, cutoffs: Cutoffs) -> Prepared:
        stops = self.stops_of_labels(judgments)
        utilities = self.rank_utilities(judgments, cutoffs)
        is_empty = judgments.count_rows(stops > 0.0) == 0

        def values(ranking: Ranking) -> Values:
            out = expected_utility(
                self, ranking, (ranking.labels, stops), cutoffs, utilities, self.continuation
            )
            return self.apply_empty(out, is_empty)

        return values

    def swap_change(self, judgments: Judgments) -> SwapChange:
        return SwapChange(
            form="cascade",
            worth=self.stop_probabilities(judgments),
            scale=np.ones(judgments.groups.n_queries),
            rank_worth=self.rank_utilities(judgments, np.array([self.cutoff])),
            continuation=float(self.continuation),
        )

    def row_facts(self, judgments: Judgments) -> ExplainColumns:
        return {"satisfies": self.stop_probabilities(judgments)}

    def rank_facts(self, n_ranks: int) -> ExplainColumns:
        heading = "1 / rank" if self.discount == "reciprocal" else "discount"
        return {heading: gains.discounts(self.discount, n_ranks, self.name)}

    def rank_utilities(self, judgments: Judgments, cutoffs: Cutoffs) -> Floats:
        """Return the utility of being satisfied at each rank that counts, float64 (n_ranks,)."""
        return gains.discounts(self.discount, min(judgments.groups.longest, int(cutoffs[-1])), self.name)

    def stop_probabilities(self, judgments: Judgments) -> Floats:
        """float64 (n_rows,), R(g): the chance that each row satisfies."""
        return judgments.of_rows(self.stops_of_labels(judgments))

    def stops_of_labels(self, judgments: Judgments) -> Floats:
        """float64 (n_table,), R(g) for each label of `Judgments.label_table`."""
        labels = judgments.label_table
        if self.stop == "label":
            limit = "1, and stop=label takes labels for probabilities"
            gains.refuse_above(1, judgments, self.without_cutoff, limit, "stop=exp takes grades")
            return labels
        assert self.max_grade is not None  # `resolved` has fixed it
        gains.refuse_above(self.max_grade, judgments, self.without_cutoff)
        if self.stop == "linear":
            return np.asarray(labels / (self.max_grade + 1.0))
        return np.asarray(np.exp2(labels - self.max_grade) - np.exp2(-float(self.max_grade)))


def expected_utility(
    metric: Metric,
    ranking: Ranking,
    stops: tuple[Array, Floats],
    cutoffs: Cutoffs,
    utilities: Floats,
    continuation: float = 1.0,
) -> Values:
    """Return a cascade's gain at every cutoff: the utility of the rank at which a user who reads from the top stops.

    Args:
        metric: whose refusal it is where many documents tie and there is no cutoff.
        ranking: documents in rank order.
        stops: integers (n_listed,) and the float64 (n,) that they point into: the chance that each document satisfies,
            in [0, 1], as with `Ranking.labels`, or from `Ranking.by_value`.
        cutoffs: int64 (n_cutoffs,), ascending.
        utilities: float64 (n_ranks,), of stopping at each rank that counts.
        continuation: chance that an unsatisfied user reads on.
    """
    if cutoffs[-1] == NO_CUTOFF:
        rank = np.arange(ranking.rows.size) - np.repeat(ranking.offsets[:-1], np.diff(ranking.offsets))
        tied_from_here = ranking.tie_end - rank
        largest = int(np.max(tied_from_here, initial=0))
        if largest > _LARGEST_TIE_WITHOUT_CUTOFF:
            groups, row = ranking.judgments.groups, int(ranking.rows[np.argmax(tied_from_here)])
            raise MetricError(
                f"{metric.without_cutoff}: {largest} documents of query {groups.name(groups.query_of(row))!r} tie; the "
                "expectation over their orders without a cutoff is quadratic in them; give a cutoff, such as @100"
            )
    out = np.empty((cutoffs.size, ranking.offsets.size - 1))
    lists = (ranking.offsets, stops[0], ranking.tie_end, ranking.tied)
    _expected_utility(lists, cutoffs, stops[1], utilities, float(continuation), out)
    return out


@compiled
def _expected_utility(
    lists: Lists, cutoffs: Ints, stops: Floats, utilities: Floats, continuation: float, out: Floats
) -> None:
    offsets, rows, tie_end, tied = lists
    for query in range(offsets.size - 1):
        first = offsets[query]
        n = min(offsets[query + 1] - first, cutoffs[-1])
        total = 0.0
        reading = 1.0  # chance that the user gets to this rank
        cutoff = i = 0
        if not tied[query]:  # the general case below, without its questions
            for cutoff in range(cutoffs.size):
                while i < min(n, cutoffs[cutoff]):
                    stop = stops[rows[first + i]]
                    total += reading * stop * utilities[i]
                    reading *= (1.0 - stop) * continuation
                    i += 1
                out[cutoff, query] = total
            continue
        while i < n:
            end = tie_end[first + i]
            if end == i + 1:
                stop = stops[rows[first + i]]
                total += reading * stop * utilities[i]
                reading *= (1.0 - stop) * continuation
                i += 1
                if i == cutoffs[cutoff]:
                    out[cutoff, query] = total
                    cutoff += 1
            else:
                # unsatisfied[j]: mean over subsets of j documents of the group of the product of (1 - R)
                size = end - i
                reach = min(end, n) - i
                unsatisfied = np.empty(reach + 1, dtype=np.float64)
                for j in range(reach + 1):
                    unsatisfied[j] = j == 0
                for t in range(1, size + 1):
                    miss = 1.0 - stops[rows[first + i + t - 1]]
                    for j in range(min(t, reach), 0, -1):
                        unsatisfied[j] = ((t - j) * unsatisfied[j] + j * miss * unsatisfied[j - 1]) / t
                for j in range(reach):
                    total += reading * (unsatisfied[j] - unsatisfied[j + 1]) * utilities[i]
                    reading *= continuation
                    i += 1
                    if i == cutoffs[cutoff]:
                        out[cutoff, query] = total
                        cutoff += 1
                reading *= unsatisfied[reach]
        for beyond in range(cutoff, cutoffs.size):
            out[beyond, query] = total
