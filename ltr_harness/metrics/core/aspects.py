"""Grades by subtopic, for the metrics that are sums over them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ltr_harness.errors import MetricError
from ltr_harness.groups import Judgments


def refuse_label_order(metric: str, ties: str) -> None:
    """Refuse to order ties by label: the order by highest grade for any subtopic is neither the worst nor the best."""
    if ties in ("worst", "best"):
        raise MetricError(
            f"{metric}: ties={ties}: which order of equal scores is the {ties} depends on what stands above them; "
            "expected expected, stable or id"
        )


def labels_by_subtopic(judgments: Judgments, metric: str) -> NDArray[np.float64]:
    """float64 (n_subtopics, n_rows): every row's grade by the first, the second, … subtopic of its query.

    Raises:
        MetricError: nobody said what is relevant for which subtopic.
    """
    if judgments.subtopics is None:
        raise MetricError(
            f"{metric} counts the subtopics that documents are relevant for, and these judgments name none; expected "
            "TREC qrels of the form `query subtopic document grade` with more than one subtopic, tables with "
            "`subtopics: [column, …]`, or evaluate(…, subtopics=…)"
        )
    return judgments.subtopics.labels(judgments.groups.n_rows)


def subtopics_of_queries(labels: NDArray[np.float64], judgments: Judgments) -> NDArray[np.int64]:
    """int64 (n_queries,): subtopics for which a document of the query is relevant; others are none of its subtopics.

    Shapes: `labels` (n_subtopics, n_rows).
    """
    relevant = np.maximum.reduceat(labels > 0, judgments.groups.boundaries[:-1], axis=1)
    return np.asarray(relevant.sum(axis=0, dtype=np.int64))
