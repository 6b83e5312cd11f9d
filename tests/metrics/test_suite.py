"""Our own metrics pass the suite that we offer to others; and the suite fails where it should."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from ltr_harness.metrics import NDCG, Metric, Precision, function_metric
from ltr_harness.metrics.table import METRICS
from ltr_harness.testing import MetricSuite


class TestNDCG(MetricSuite):
    metric = "ndcg@5"


class TestNDCGLinear(MetricSuite):
    metric = "ndcg(gain=linear)"
    grades = (0, 0, 0.5, 1.25, 7)


class TestNDCGOfFractions(MetricSuite):
    metric = "ndcg(gain=exp_real)@5"
    grades = (0, 0, 0.5, 1.25, 7)


class TestCG(MetricSuite):
    metric = "cg@5"
    never_falls_with_k = True


class TestDCG(MetricSuite):
    metric = "dcg@5"
    never_falls_with_k = True


class TestERR(MetricSuite):
    metric = "err(max_grade=4)@5"
    never_falls_with_k = True


class TestERROfProbabilities(MetricSuite):
    metric = "err(stop=label)@5"
    grades = (0, 0, 0.25, 0.75, 1)
    never_falls_with_k = True


class TestNERR(MetricSuite):
    metric = "nerr(max_grade=4,stop=linear)@5"


class TestERRWithAnotherUtility(MetricSuite):
    metric = "err(discount=log2,max_grade=4)@5"
    never_falls_with_k = True


class TestPFound(MetricSuite):
    metric = "pfound(max_grade=4)@5"
    never_falls_with_k = True


class TestRBP(MetricSuite):
    metric = "rbp(p=0.8)@5"
    never_falls_with_k = True


class TestRBPGraded(MetricSuite):
    metric = "rbp(graded=true,max_grade=4,p=0.95)"
    never_falls_with_k = True


class TestRBPResidual(MetricSuite):
    metric = "rbp_residual(p=0.8)@5"
    ideal_is_best = False


class TestQ(MetricSuite):
    metric = "q@5"


class TestMRR(MetricSuite):
    metric = "mrr@5"
    never_falls_with_k = True


class TestMAP(MetricSuite):
    metric = "map@5"


class TestMAPTotal(MetricSuite):
    metric = "map(denominator=total)@5"
    never_falls_with_k = True


class TestPrecision(MetricSuite):
    metric = "precision@5"
    settles_with_k = False


class TestPrecisionOfShortLists(MetricSuite):
    metric = "precision(denominator=min_kn)@5"


class TestRecall(MetricSuite):
    metric = "recall@5"
    never_falls_with_k = True


class TestF1(MetricSuite):
    metric = "f1@5"
    settles_with_k = False


class TestSuccess(MetricSuite):
    metric = "success@2"
    never_falls_with_k = True


class TestRPrec(MetricSuite):
    metric = "rprec"


class TestBPref(MetricSuite):
    metric = "bpref"


class TestKendallTauDistance(MetricSuite):
    metric = "kendall_tau_distance"


class TestKendallTauDistanceNormalized(MetricSuite):
    metric = "kendall_tau_distance(normalized=true)"


class TestTauAP(MetricSuite):
    metric = "tau_ap"


class TestTauAPLabels(MetricSuite):
    metric = "tau_ap(walk=labels)"


class TestSpearman(MetricSuite):
    metric = "spearman"


class TestGAUC(MetricSuite):
    metric = "gauc"


class TestGAUCFromAGradeOn(MetricSuite):
    metric = "gauc(relevant=2)"


class TestMeanLabel(MetricSuite):
    metric = "mean_label@5"
    grades = (0, -0.03, 0.01, 0.25, -0.5)
    needs_relevant = False


class TestMeanLabelSpread(MetricSuite):
    metric = "mean_label(minus=bottom)@5"
    grades = (0, -3, 1.5, 250, -0.5)
    needs_relevant = False
    top_only = False


class TestLogLoss(MetricSuite):
    metric = "log_loss"
    only_order_matters = False
    ideal_is_best = False
    ties_matter = False


class TestBrier(MetricSuite):
    metric = "brier(temperature=0.5)"
    only_order_matters = False
    ideal_is_best = False
    ties_matter = False


class TestSpearmanOfReturns(MetricSuite):
    metric = "spearman"
    grades = (0, -0.03, 0.01, 0.25, -0.5)


class TestGAUCOfReturns(MetricSuite):
    metric = "gauc(relevant=0.1)"
    grades = (0, -0.03, 0.01, 0.25, -0.5)


class TestAlphaNDCG(MetricSuite):
    metric = "alpha_ndcg@5"
    ideal_is_best = False


class TestAlphaNDCGOnceOnly(MetricSuite):
    metric = "alpha_ndcg(alpha=1,relevant=2)"
    ideal_is_best = False


class TestERRIA(MetricSuite):
    metric = "err_ia(max_grade=4)@5"
    ideal_is_best = False
    never_falls_with_k = True


class TestERRIANormalized(MetricSuite):
    metric = "err_ia(as=ndeval,ties=expected)@5"
    ideal_is_best = False
    settles_with_k = False


class TestJudged(MetricSuite):
    metric = "judged@5"
    ideal_is_best = False
    needs_relevant = False


class TestNRelevant(MetricSuite):
    metric = "n_relevant"
    ideal_is_best = False
    needs_relevant = False


class TestOrderByDocumentId(MetricSuite):
    metric = "ndcg(ties=id)@5"


class TestWorstOrder(MetricSuite):
    metric = "map(ties=worst)@5"


def label_on_top(labels: Any, scores: Any) -> float:
    return float(labels[scores == scores.max()].mean()) if labels.any() else float("nan")


class TestFunction(MetricSuite):
    metric = function_metric(label_on_top, higher_is_better=True)


def test_every_metric_of_the_table_has_a_class_here() -> None:
    suites = [
        value for value in globals().values() if isinstance(value, type) and issubclass(value, MetricSuite)
    ]
    tested = {suite().made().name for suite in suites if suite is not MetricSuite}
    assert set(METRICS) <= tested


# The suite must fail on a metric that is wrong in the way each test is about.


@dataclass(frozen=True, kw_only=True)
class Upside(NDCG):
    """Says that lower is better."""

    name: ClassVar[str] = "upside"
    higher_is_better: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class Unbounded(Precision):
    name: ClassVar[str] = "unbounded"
    bounds: ClassVar[tuple[float, float]] = (0.0, 0.5)


@dataclass(frozen=True, kw_only=True)
class Sloppy(Metric):
    """Looks at the first row listed, whatever ties with it, and never minds empty queries."""

    name: ClassVar[str] = "sloppy"
    graded: ClassVar[bool] = True
    bounds: ClassVar[tuple[float, float]] = (0.0, 4.0)
    source: ClassVar[str] = "a mistake"

    def prepare(self, judgments: Any, cutoffs: Any) -> Any:
        return lambda ranking: np.tile(
            judgments.labels[ranking.rows[ranking.offsets[:-1]]], (cutoffs.size, 1)
        )


@dataclass(frozen=True, kw_only=True)
class Whole(Precision):
    """Sees past its cutoff."""

    name: ClassVar[str] = "whole"

    def prepare(self, judgments: Any, cutoffs: Any) -> Any:
        starts = judgments.groups.boundaries[:-1]
        return lambda ranking: np.add.reduceat(judgments.labels * ranking.scores, starts)[np.newaxis, :]


@dataclass(frozen=True, kw_only=True)
class Undivided(Precision):
    """Says how many relevant rows come and go, and not by how much precision moves."""

    name: ClassVar[str] = "undivided"

    def swap_change(self, judgments: Any) -> Any:
        return replace(super().swap_change(judgments), scale=np.ones(judgments.groups.n_queries))


def by_first_score(labels: Any, scores: Any) -> float:
    return float(scores[0])


@pytest.mark.parametrize(
    ("metric", "test"),
    [
        (Upside(k=5), "test_the_ideal_order_is_best"),
        (Upside(k=5), "test_its_name_reads_back"),
        (Unbounded(k=1), "test_values_are_within_the_bounds"),
        (Sloppy(k=1), "test_expected_ties_are_the_mean_over_all_orders"),
        (Sloppy(k=1), "test_queries_without_relevant_rows_follow_empty"),
        (Whole(k=3), "test_the_order_below_the_cutoff_does_not_matter"),
        (Undivided(k=3), "test_changes_of_swaps_are_what_swapping_does"),
        (Precision(k=3), "test_cutoffs_beyond_the_list_change_nothing"),
        (Precision(k=3), "test_a_larger_cutoff_never_lowers_the_value"),
        (function_metric(by_first_score, higher_is_better=True), "test_row_order_changes_no_bit"),
        (function_metric(by_first_score, higher_is_better=True), "test_only_the_order_of_scores_matters"),
    ],
    ids=str,
)
def test_the_suite_fails_where_it_should(metric: Metric, test: str) -> None:
    class Suite(MetricSuite):
        pass

    Suite.metric = metric
    Suite.never_falls_with_k = True
    with pytest.raises((AssertionError, ValueError)):
        getattr(Suite(), test)()
