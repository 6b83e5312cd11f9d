"""Small examples of internals, which a reader can check by hand."""

import pytest

from ltr_harness.boosting.stopping import Stopper, StoppingRule, set_to_stop_on
from ltr_harness.boosting.swap_gradients import MetricObjective
from ltr_harness.boosting.xgboost_metrics import draw_gammas
from ltr_harness.errors import UsageError
from ltr_harness.metrics import ERR, NDCG
from ltr_harness.metrics.core.expected_grade import expected_grade


def test_stopping_rule() -> None:
    with pytest.raises(UsageError, match=r"^patience: found 0; expected an integer >= 1$"):
        StoppingRule(NDCG(k=10), patience=0)


def test_stopper() -> None:
    stopper = Stopper(StoppingRule(NDCG(k=10), patience=2))
    assert [stopper.update(round_, value) for round_, value in [(1, 0.5), (2, 0.7), (3, 0.7), (4, 0.6)]] == [
        False,
        False,
        False,
        True,
    ]
    assert (stopper.best_round, stopper.best_value) == (2, 0.7)


def test_set_to_stop_on() -> None:
    assert set_to_stop_on("stop_on", ["train", "test", "validation"]) == "expected stop_on='validation'"
    assert set_to_stop_on("stop_on", ["learn", "fit", "dtrain", "dev"]) == "expected stop_on='dev'"


def test_metric_objective() -> None:
    assert str(MetricObjective(metric=ERR(k=10, max_grade=4)).metric) == "err(max_grade=4)@10"


def test_expected_grade() -> None:
    assert expected_grade([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5]]).tolist() == [0.75, 1.5]


def test_draw_gammas() -> None:
    assert draw_gammas(1, 0, 3).round(6).tolist() == [0.693512, 0.971767, 0.426569]
    assert bool((draw_gammas(1, 0, 5)[:3] == draw_gammas(1, 0, 3)).all())
