"""Our own metrics pass the suite that we offer to others; and the suite fails where it should."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from ltr_harness.metrics import NDCG, Metric, Precision, function_metric, parse_metric
from ltr_harness.metrics.table import METRICS
from ltr_harness.testing import MetricSuite
from tests.conftest import named_case


class TestNDCG(MetricSuite):
    metric = "ndcg@5"


FRACTIONS = (0, 0, 0.5, 1.25, 7)
RETURNS = (0, -0.03, 0.01, 0.25, -0.5)
RISES = {"never_falls_with_k": True}
HAS_NO_IDEAL = {"ideal_is_best": False}
OF_SIZES = {"only_order_matters": False, "ideal_is_best": False, "ties_matter": False}

FACTS: list[tuple[str, dict[str, Any]]] = [
    ("ndcg(gain=linear)", {"grades": FRACTIONS}),
    ("ndcg(gain=exp_real)@5", {"grades": FRACTIONS}),
    ("cg@5", RISES),
    ("dcg@5", RISES),
    ("err(max_grade=4)@5", RISES),
    ("err(stop=label)@5", {"grades": (0, 0, 0.25, 0.75, 1), "never_falls_with_k": True}),
    ("nerr(max_grade=4,stop=linear)@5", {}),
    ("err(discount=log2,max_grade=4)@5", RISES),
    ("pfound(max_grade=4)@5", RISES),
    ("rbp(p=0.8)@5", RISES),
    ("rbp(graded=true,max_grade=4,p=0.95)", RISES),
    ("rbp_residual(p=0.8)@5", HAS_NO_IDEAL),
    ("q@5", {}),
    ("mrr@5", RISES),
    ("map@5", {}),
    ("map(denominator=total)@5", RISES),
    ("precision@5", {"settles_with_k": False}),
    ("precision(denominator=min_kn)@5", {}),
    ("recall@5", RISES),
    ("f1@5", {"settles_with_k": False}),
    ("success@2", RISES),
    ("rprec", {}),
    ("bpref", {}),
    ("kendall_tau_distance", {}),
    ("kendall_tau_distance(normalized=true)", {}),
    ("tau_ap", {}),
    ("tau_ap(walk=labels)", {}),
    ("spearman", {}),
    ("gauc", {}),
    ("gauc(relevant=2)", {}),
    ("mean_label@5", {"grades": RETURNS, "needs_relevant": False}),
    (
        "mean_label(minus=bottom)@5",
        {"grades": (0, -3, 1.5, 250, -0.5), "needs_relevant": False, "top_only": False},
    ),
    ("log_loss", OF_SIZES),
    ("brier(temperature=0.5)", OF_SIZES),
    ("spearman", {"grades": RETURNS}),
    ("gauc(relevant=0.1)", {"grades": RETURNS}),
    ("alpha_ndcg@5", HAS_NO_IDEAL),
    ("alpha_ndcg(alpha=1,relevant=2)", HAS_NO_IDEAL),
    ("err_ia(max_grade=4)@5", {"ideal_is_best": False, "never_falls_with_k": True}),
    ("err_ia(as=ndeval,ties=expected)@5", {"ideal_is_best": False, "settles_with_k": False}),
    ("judged@5", {"ideal_is_best": False, "needs_relevant": False}),
    ("n_relevant", {"ideal_is_best": False, "needs_relevant": False}),
    ("ndcg(ties=id)@5", {}),
    ("map(ties=worst)@5", {}),
]
"""Metrics, and what of the suite does not hold for them."""


@pytest.mark.parametrize(("metric", "facts"), FACTS, ids=[metric for metric, _ in FACTS])
def test_every_test_of_the_suite(metric: str, facts: dict[str, Any]) -> None:
    suite = type("Suite", (MetricSuite,), {"metric": metric, **facts})()
    for name in dir(suite):
        if name.startswith("test_"):
            with named_case(name):
                getattr(suite, name)()


def label_on_top(labels: Any, scores: Any) -> float:
    return float(labels[scores == scores.max()].mean()) if labels.any() else float("nan")


class TestFunction(MetricSuite):
    metric = function_metric(label_on_top, higher_is_better=True)


def test_every_metric_of_the_table_stands_here() -> None:
    assert set(METRICS) == {parse_metric(metric).name for metric, _ in FACTS} | {TestNDCG().made().name}


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
