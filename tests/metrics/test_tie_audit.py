"""The share of a metric that ties decide: by hand, and on data that has none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.errors import MetricError
from ltr_harness.metrics import tie_audit
from ltr_harness.metrics.core import binding
from ltr_harness.metrics.core.binding import BoundOnce


def make_judgments(labels: list[float], sizes: list[int]) -> Judgments:
    return Judgments.checked(labels, QueryGroups.from_sizes(sizes))


def test_interval_by_hand() -> None:
    # first query: all three tie; second: no tie; third: tied documents are all alike; fourth: nothing relevant
    judgments = make_judgments([0, 0, 1, 1, 0, 1, 1, 0, 0], [3, 2, 2, 2])
    audit = tie_audit("mrr", judgments, [1, 1, 1, 2, 1, 5, 5, 3, 3])
    np.testing.assert_array_equal(audit.low, [1 / 3, 1, 1, np.nan])
    np.testing.assert_array_equal(audit.high, [1, 1, 1, np.nan])
    assert audit.mean == pytest.approx(((1 + 1 / 2 + 1 / 3) / 3 + 2) / 3)
    assert audit.mean_low == pytest.approx((1 / 3 + 2) / 3)
    assert audit.mean_high == 1.0
    assert audit.share_touched == pytest.approx(1 / 3)
    assert audit.share_tied_positions == pytest.approx(7 / 9)
    assert str(audit) == (
        "mrr 0.8704, from 0.7778 to 1.0000 over the orders of equal scores, which touch 33.3% of the queries; "
        "77.8% of the positions are tied"
    )


def test_only_positions_within_the_cutoff_count() -> None:
    judgments = make_judgments([1, 0, 0, 0, 0], [5])
    audit = tie_audit("ndcg@2", judgments, [3, 2, 2, 1, 1])
    assert audit.share_tied_positions == 0.5
    assert audit.share_touched == 0.0
    assert "50.0% of the top-2 positions are tied" in str(audit)


def test_lower_is_better_has_its_interval_the_right_way_round() -> None:
    audit = tie_audit("kendall_tau_distance", make_judgments([1, 0, 0], [3]), [1, 1, 1])
    assert (audit.mean_low, audit.mean, audit.mean_high) == (0.0, 1.0, 2.0)
    assert (audit.low.tolist(), audit.high.tolist()) == ([0.0], [2.0])


def test_rows_of_different_queries_never_tie() -> None:
    assert tie_audit("mrr", make_judgments([1, 1], [1, 1]), [5, 5]).share_tied_positions == 0.0


def test_where_nothing_was_retrieved_nothing_ties() -> None:
    audit = tie_audit("mrr", make_judgments([1, 0], [2]), [1, 1], retrieved=[False, False])
    assert audit.share_tied_positions == 0.0


def test_without_ties_nothing_is_touched() -> None:
    rng = np.random.default_rng(0)
    judgments = make_judgments(rng.integers(0, 3, 200).astype(float).tolist(), [20] * 10)
    for name in ("ndcg@5", "map", "err(max_grade=2)@10", "rprec", "tau_ap"):
        audit = tie_audit(name, judgments, rng.permutation(200))
        assert audit.mean_low == audit.mean_high == pytest.approx(audit.mean, abs=1e-15)
        assert audit.share_touched == audit.share_tied_positions == 0.0


def test_a_constant_model_is_all_ties() -> None:
    audit = tie_audit("ndcg(ties=stable)@5", make_judgments([1, 0, 0, 1, 0, 0], [3, 3]), np.zeros(6))
    assert audit.share_touched == audit.share_tied_positions == 1.0
    assert audit.mean == 1.0  # the boosters' rule, on rows sorted by label
    assert audit.mean_low == 0.5
    assert audit.mean_high == 1.0


def test_rows_that_were_not_retrieved_hold_no_position() -> None:
    judgments = make_judgments([1, 0, 1, 0], [4])
    audit = tie_audit("map", judgments, [2, 1, 0, 0], retrieved=[True, True, False, False])
    assert audit.share_tied_positions == 0.0
    assert audit.mean_low == audit.mean_high == 0.5


def test_scores_close_in_float32_tie_for_a_metric_of_that_precision() -> None:
    judgments = make_judgments([1, 0], [2])
    scores = [1.0, 1.0 + 1e-9]
    assert tie_audit("mrr", judgments, scores).share_tied_positions == 0.0
    assert tie_audit("mrr(score_precision=float32)", judgments, scores).share_tied_positions == 1.0


def test_nothing_defined_has_no_share() -> None:
    audit = tie_audit("mrr", make_judgments([0, 0], [2]), [1, 1])
    assert np.isnan(audit.share_touched)
    assert np.isnan(audit.mean)


def test_a_metric_without_worst_and_best_is_refused() -> None:
    with pytest.raises(MetricError, match="judged: ties=worst orders by label, which has no meaning here"):
        tie_audit("judged", make_judgments([1, 0], [2]), [1, 1])
    with pytest.raises(MetricError, match="judged: ties=worst orders by label, which has no meaning here"):
        tie_audit("judged", make_judgments([1, 0], [2]), [2, 1])


def test_nothing_is_evaluated_thrice_where_nothing_ties(monkeypatch: pytest.MonkeyPatch) -> None:
    bound: list[int] = []
    real = BoundOnce

    def count_bindings(metrics: Any, judgments: Any) -> Any:
        bound.append(len(metrics))
        return real(metrics, judgments)

    monkeypatch.setattr(binding, "BoundOnce", count_bindings)
    apart = tie_audit("ndcg", make_judgments([1, 0, 2], [3]), [1, 2, 3])
    assert apart.low.tolist() == apart.high.tolist()
    tie_audit("ndcg", make_judgments([1, 0, 2], [3]), [1, 2, 2])
    assert bound == [1, 3]
