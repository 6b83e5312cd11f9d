"""Small examples of internals, which a reader can check by hand."""

from ltr_harness.boosting.stopping import StoppingRule
from ltr_harness.experiments.training.dask import local_size
from ltr_harness.experiments.training.progress import LiveRun, TimeLeft, duration
from ltr_harness.metrics import NDCG


def test_local_size() -> None:
    assert local_size("dask:4") == 4


def test_live_run_round() -> None:
    rule = StoppingRule(NDCG(k=10), patience=20, max_rounds=100)
    run = LiveRun("[1/2] xgb", rule, "ndcg@10", now=0.0)
    run.round(30, {"ndcg@10": 0.81}, now=5.0)
    run.round(40, {"ndcg@10": 0.8}, now=12.0)
    assert str(run) == (
        "[1/2] xgb: round 40, ndcg@10 0.8000, best 0.8100 at 30, patience 10 of 20, 12 s, 3 to 18 s left"
    )


def test_duration() -> None:
    assert (duration(0.4), duration(48), duration(199), duration(8000)) == (
        "1 s",
        "48 s",
        "3 min",
        "2 h 13 min",
    )


def test_time_left() -> None:
    assert [str(left) for left in (TimeLeft(199, 2), TimeLeft(0, 5), TimeLeft(0, 0))] == [
        "about 3 min; no estimate yet for 2 runs",
        "no estimate yet",
        "",
    ]
