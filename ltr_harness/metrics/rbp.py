"""RBP: what a user who may stop after every document takes home."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from ltr_harness.errors import MetricError
from ltr_harness.metrics.core import Floats, Judgments
from ltr_harness.metrics.core.gains import check_max_grade, freeze_max_grade
from ltr_harness.metrics.core.metric import BinaryMetric, ExplainColumns
from ltr_harness.metrics.dcg import CumulatedMetric


@dataclass(frozen=True, kw_only=True)
class RBP(CumulatedMetric, BinaryMetric):
    """Relevance that a user meets who goes on to the next document with probability p.

    RBP@K = (1 - p) * sum over ranks r <= K of utility(label_r) * p^(r-1): expected utility over the expected
    number of documents looked at, 1 / (1 - p). Not normalised: n relevant documents in a list of n give 1 - p^n, and
    `rbp_residual` is the most that the unseen rest can add. Small p looks at the top alone; try several.

    Attributes:
        p: persistence, in (0, 1); must be given.
        graded: utility is min(label / max_grade, 1) instead of 1 from `relevant` on.
        max_grade: the scale's highest grade, for ``graded=true``.

    Source: Moffat & Zobel 2008; ties: exact mean over their orders.

    When to use: To model the patience of users, instead of cutting at K: persistence 0.5 is a user who
        hardly scrolls, 0.95 one who reads pages. Works with binary and graded labels; report several
        values of p.

    When not: To compare data sets: a query with few relevant documents cannot come near 1. With short lists
        and a large p, where `rbp_residual` is larger than the differences of interest.

    Missed documents: They have no rank: the value stays. It is 0, not undefined, where every relevant document
        was missed.

    Example:
        >>> from ltr_harness import evaluate
        >>> ev = evaluate([1, 0, 1], [3.0, 2.0, 1.0], group_sizes=[3], metrics=["rbp(p=0.5)"])
        >>> ev.means["rbp(p=0.5)"]  # 1/2 (1 + 1/4)
        0.625
    """

    p: float | None = None
    graded: bool = False  # type: ignore[misc]  # here it is the user's choice
    max_grade: float | None = None

    name = "rbp"
    source = "Moffat & Zobel 2008"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.p is None:
            raise MetricError(f"{self.name} needs its persistence: {self.name}(p=0.8)")
        if not 0 < self.p < 1:
            raise MetricError(f"{self.name}: p={self.p}; expected a probability between 0 and 1, such as 0.8")
        check_max_grade(self.name, self.max_grade)
        if self.graded and self.relevant != 1:
            raise MetricError(
                f"{self.name}: graded=true has no threshold; leave out relevant={self.relevant}"
            )
        if self.max_grade is not None and not self.graded:
            raise MetricError(f"{self.name}: max_grade means nothing without graded=true")

    def with_max_grade(self, max_grade: float | None) -> Self:
        needs_scale = self.graded and self.max_grade is None
        return replace(self, max_grade=max_grade) if needs_scale else self

    def resolved(self, judgments: Judgments) -> Self:
        return freeze_max_grade(self, judgments)

    def row_facts(self, judgments: Judgments) -> ExplainColumns:
        return {"utility": self.gains(judgments)}

    def rank_facts(self, n_ranks: int) -> ExplainColumns:
        return {"weight": self.factors(n_ranks)}

    def factors(self, n_ranks: int) -> Floats:
        assert self.p is not None
        return np.asarray((1.0 - self.p) * np.power(float(self.p), np.arange(n_ranks)))

    def gain_of_labels(self, judgments: Judgments) -> Floats:
        if not self.graded:
            return (judgments.label_table >= self.relevant).astype(np.float64)
        assert self.max_grade is not None  # `resolved` has fixed it
        return np.minimum(judgments.label_table / self.max_grade, 1.0)
