"""ERR-IA: how soon users who mean different things by one query are satisfied."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from ltr_harness.errors import MetricError
from ltr_harness.metrics.core import Floats, Judgments, Ranking, gains
from ltr_harness.metrics.core.metric import Cutoffs, Divisor, ExplainColumns, Metric, Prepared, Values
from ltr_harness.metrics.err import ERR, expected_utility

_RANKS = 10_000
"""So far a list of nothing but perfect documents is read where there is no cutoff: nobody is left long before."""


@dataclass(frozen=True, kw_only=True)
class ERRIA(ERR):
    """Intent-aware ERR: its average over the query's subtopics, whichever of them a user meant.

    ERR-IA@K = the mean of ERR@K over the query's subtopics, each as likely as the others, with R(g) of the document's
    grade for that subtopic. A subtopic for which no document is relevant is none.

    Attributes:
        max_grade: the scale's highest grade; a property of the experiment, never of a query.
        continuation: chance that an unsatisfied user reads on.
        stop: ``exp`` R(g) = (2^g - 1) / 2^max_grade; ``linear`` R(g) = g / (max_grade + 1); ``label``
            R(g) = g.
        discount: what it is worth to be satisfied at rank r, as `ERR` has it.
        relevant: from this grade on documents satisfy alike, R = 1/2, and below not at all, so that `max_grade` says
            nothing; None: by their grades.
        normalized: divided by what K documents of the highest grade for every subtopic would reach, as TREC's ndeval
            does, so that a list may come near 1.

    Source: Chapelle et al. 2009; Agrawal, Gollapudi, Halverson & Ieong 2009 for the mean over intents; Clarke,
        Craswell, Soboroff & Ashkan 2011 for its kin. Queries as TREC's diversity task has them.

    When to use: Ambiguous or broad queries with judgments by subtopic, where a user wants one good document for
        what they meant.

    When not: Without such judgments. Where subtopics are not equally likely: all count once here.

    Missed documents: A subtopic whose relevant documents were all missed counts in the mean: the value falls.

    Example:
        >>> from ltr_harness import evaluate
        >>> apart = [[1, 0], [1, 0], [0, 1]]  # the second document says again what the first says
        >>> ev = evaluate([1, 1, 1], [3, 2, 1], group_sizes=[3], metrics=["err_ia(max_grade=1)"], subtopics=apart)
        >>> round(float(ev["err_ia(max_grade=1)"].mean), 6)  # (1/2 + 1/2 1/2 1/2 + 1/3 1/2) / 2
        0.395833
    """

    relevant: float | None = None
    normalized: bool = False

    name = "err_ia"
    uses_subtopics = True
    source = "Chapelle et al. 2009; Agrawal et al. 2009"
    swap_change = Metric.swap_change

    def __post_init__(self) -> None:
        super().__post_init__()
        gains.refuse_label_order(self.name, self.ties)
        if self.relevant is not None and not self.relevant > 0:
            raise MetricError(f"{self.name}: relevant={self.relevant}; expected a grade above 0")

    def with_max_grade(self, max_grade: float | None) -> Self:
        return self if self.relevant is not None else super().with_max_grade(max_grade)

    def prepare(self, judgments: Judgments, cutoffs: Cutoffs) -> Prepared:
        stops = self._stops(judgments)
        utilities = self.rank_utilities(judgments, cutoffs)
        n_subtopics = gains.subtopics_of_queries(stops, judgments)
        divisor = np.maximum(n_subtopics, 1) * self._ceiling(cutoffs)[:, np.newaxis]

        def values(ranking: Ranking) -> Values:
            by_subtopic = (
                expected_utility(
                    self, ranking, ranking.by_value(subtopic_stops), cutoffs, utilities, self.continuation
                )
                for subtopic_stops in stops
            )
            return self.apply_empty(np.sum(list(by_subtopic), axis=0) / divisor, n_subtopics == 0)

        return values

    def row_facts(self, judgments: Judgments) -> ExplainColumns:
        return {"subtopics": np.count_nonzero(self._stops(judgments), axis=0)}

    def divisor_at(self, judgments: Judgments, ranking: Ranking, cutoffs: Cutoffs) -> Divisor:
        n_subtopics = gains.subtopics_of_queries(self._stops(judgments), judgments)
        text = "subtopics x best possible" if self.normalized else "subtopics"
        return text, n_subtopics[0] * self._ceiling(cutoffs)

    def _stops(self, judgments: Judgments) -> Floats:
        """float64 (n_subtopics, n_rows), the chance that each row satisfies who meant each subtopic."""
        labels = gains.labels_by_subtopic(judgments, self.without_cutoff)
        metric = self
        if self.relevant is not None:
            labels = (labels >= self.relevant).astype(np.float64)
            metric = replace(self, relevant=None, max_grade=1, stop="exp")
        return np.array(
            [
                metric.stop_probabilities(replace(judgments, labels=subtopic_labels))
                for subtopic_labels in labels
            ]
        )

    def _ceiling(self, cutoffs: Cutoffs) -> Floats:
        """float64 (n_cutoffs,), what `normalized` divides by."""
        if not self.normalized:
            return np.ones(cutoffs.size)
        if self.relevant is not None:
            best = 0.5
        elif self.stop == "label":
            best = 1.0
        else:
            assert self.max_grade is not None  # `resolved` has fixed it
            linear = self.stop == "linear"
            best = self.max_grade / (self.max_grade + 1.0) if linear else 1.0 - 2.0**-self.max_grade
        n_ranks = int(min(cutoffs[-1], _RANKS))
        left = ((1.0 - best) * self.continuation) ** np.arange(n_ranks)
        reached = np.cumsum(gains.discounts(self.discount, n_ranks, self.name) * best * left)
        return np.asarray(reached[np.minimum(cutoffs, n_ranks) - 1])
