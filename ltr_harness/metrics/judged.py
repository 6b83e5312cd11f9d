"""Judged: the share of judged documents."""

from dataclasses import dataclass

import numpy as np

from ltr_harness.errors import MetricError
from ltr_harness.metrics.core import Judgments, Ranking
from ltr_harness.metrics.core.metric import Cutoffs, Divisor, Metric, Prepared, Values
from ltr_harness.metrics.dcg import cumulated
from ltr_harness.metrics.rbp_residual import judged_rows


@dataclass(frozen=True, kw_only=True)
class Judged(Metric):
    """The share of judged documents among the first K: where it is low, every other metric is a guess.

    Judged@K = judged documents in the first K / min(K, n). Learning-to-rank files judge every document, so it is
    1 there; runs over a collection are where it matters. Defined for every query that lists a document.

    Source: the ``judged@k`` of ir-measures and TREC track overviews.

    When to use: Before believing any other number on runs over a collection, above all for a new kind of
        system whose documents the judges have never seen.

    When not: To choose between models: a high share means a reliable number, not a good one.

    Missed documents: They have no rank: the value stays, and is 0 where nothing was retrieved.

    Example:
        >>> from ltr_harness import evaluate
        >>> evaluate([1, 0], [2.0, 1.0], group_sizes=[2], judged=[True, False], metrics=["judged"]).means["judged"]
        0.5
    """

    name = "judged"
    graded = False
    diagnostic = True
    takes_any_label = True
    source = "TREC track overviews"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ties in ("worst", "best"):
            raise MetricError(
                f"judged: ties={self.ties} orders by label, which has no meaning here; expected expected, stable or id"
            )

    def prepare(self, judgments: Judgments, cutoffs: Cutoffs) -> Prepared:
        judged = judged_rows(judgments)
        factors = np.ones(min(judgments.groups.longest, int(cutoffs[-1])))

        def values(ranking: Ranking) -> Values:
            listed = np.diff(ranking.offsets)
            out = cumulated(ranking, cutoffs, judged, factors)
            out /= np.maximum(np.minimum(listed[np.newaxis, :], cutoffs[:, np.newaxis]), 1)
            return self.apply_empty(np.minimum(out, 1.0), listed == 0)

        return values

    def divisor_at(self, judgments: Judgments, ranking: Ranking, cutoffs: Cutoffs) -> Divisor:
        return "min(K, n)", np.maximum(np.minimum(ranking.rows.size, cutoffs), 1).astype(np.float64)
