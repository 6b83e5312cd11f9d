"""The ceiling that judges' disagreement sets: what another judge's grades, as a ranking, are worth by one judge's."""

from dataclasses import dataclass, replace

import numpy as np

from ltr_harness.data.arrays import Bools, Floats, Ints, KeepsArrays
from ltr_harness.data.judgments import Judgments, RawJudgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.errors import MetricError
from ltr_harness.metrics.core.binding import BoundOnce
from ltr_harness.metrics.core.headroom import JUDGE_COLUMNS, is_best_by_label
from ltr_harness.metrics.core.metric import Metric

MOST_JUDGES = 10
"""Judgments of a document that count, the first ones; each judge takes two evaluations of the test queries."""


@dataclass(frozen=True, eq=False)
class JudgeValues(KeepsArrays):
    """Values by one judge's grades, the mean over judges, (n_queries,); NaN where no document has several judgments."""

    ranking: Floats  # of a ranking of the documents with several judgments
    # of the same documents by another judge's grades, the mean over all orders of equal grades
    another_judge: Floats

    def columns(self, metric: str) -> dict[str, Floats]:
        """Return the values as columns of a table of queries, by name."""
        return dict(zip(judge_columns(metric), (self.ranking, self.another_judge), strict=True))


def judge_columns(metric: str) -> tuple[str, str]:
    """Return the names of the columns of a ranking and of another judge."""
    by_one_judge, another_judge = JUDGE_COLUMNS
    return metric + by_one_judge, metric + another_judge


def judge_values(
    metric: Metric, judgments: Judgments, raw: RawJudgments, scores: Floats
) -> JudgeValues | None:
    """Return the values of a ranking and of another judge by single judges, on documents with several judgments.

    The first judge is the first judgment of each document, the second one the second, and so on; after a document's
    last one comes its first again. Each judge in turn grades the documents, and the next one ranks them. None for
    metrics whose best order is not by label, and where a judge's grades are none that the metric takes.

    Args:
        metric: a resolved one.
        judgments: the candidates and missed documents; missed ones have no rank.
        raw: their judgments.
        scores: (n_rows,) of the candidates.
    """
    if not is_best_by_label(metric):
        return None
    pool = judgments.pool
    judged_rows = pool.groups.boundaries[raw.queries] + raw.documents
    by_row = np.argsort(judged_rows, kind="stable")
    rows, first, counts = np.unique(judged_rows[by_row], return_index=True, return_counts=True)
    repeated = counts > 1
    rows, first, counts = rows[repeated], first[repeated], np.minimum(counts[repeated], MOST_JUDGES)
    if not rows.size:
        undefined = np.full(pool.groups.n_queries, np.nan)
        return JudgeValues(undefined, undefined)
    documents, retrieved, pool_scores = _documents(judgments, rows, scores)
    grades, exact = raw.grades[by_row], replace(metric, ties="expected")
    rounds = []
    try:
        for judge in range(int(counts.max())):
            labels, other_grades = grades[first + judge % counts], grades[first + (judge + 1) % counts]
            by_judge = replace(documents, labels=labels, judged=None)
            rounds.append(
                [
                    BoundOnce([metric], by_judge).per_query(pool_scores, retrieved)[0],
                    BoundOnce([exact], by_judge).per_query(other_grades, retrieved)[0],
                ]
            )
    except MetricError:  # a grade beyond the scale of the labels
        return None
    values = np.array(rounds)  # (n_judges, 2, n_queries)
    values[:, :, documents.groups.sizes == 0] = np.nan
    defined = ~np.isnan(values).any(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        ranking, another_judge = np.where(defined, values, 0.0).sum(axis=0) / defined.sum(axis=0)
    return JudgeValues(ranking, another_judge)


def _documents(judgments: Judgments, rows: Ints, scores: Floats) -> tuple[Judgments, Bools, Floats]:
    """Return some rows of the pool, whether each is a candidate, and their scores."""
    pool = judgments.pool
    chosen = np.zeros(pool.groups.n_rows, dtype=bool)
    chosen[rows] = True
    groups = QueryGroups.from_counts(pool.groups.count(chosen), pool.groups.ids)
    is_candidate, pool_scores = np.zeros(chosen.size, dtype=bool), np.zeros(chosen.size)
    is_candidate[judgments.pool_rows], pool_scores[judgments.pool_rows] = True, scores
    return pool.with_rows(rows, groups), is_candidate[rows], pool_scores[rows]
