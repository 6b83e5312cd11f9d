"""The duration of a call for a list of documents: percentiles by hand, and the timed calls of real boosters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.readers.memory import from_arrays
from ltr_harness.experiments.runs.serving_cost import (
    latency,
    percentile,
    quality_by_trees,
    training_latencies,
)
from ltr_harness.metrics import parse_metric
from ltr_harness.models.ranker import Training
from ltr_harness.models.table import catalog
from ltr_harness.models.tree_model import TreeModel

NDCG = parse_metric("ndcg@10")
ROWS = np.arange(60, dtype=np.float32).reshape(20, 3)


@pytest.mark.parametrize(
    ("n", "percent", "expected"),
    [(100, 50, 50), (100, 99, 99), (101, 50, 51), (200, 99, 198), (1, 99, 1), (2, 50, 1), (3, 50, 2)],
)
def test_percentiles_are_values_that_occurred(n: int, percent: int, expected: int) -> None:
    shuffled = np.random.default_rng(n).permutation(np.arange(1.0, n + 1)).tolist()
    assert percentile(shuffled, percent) == expected


class Lists:
    """Scores nothing, and keeps what it was called with."""

    def __init__(self) -> None:
        self.seen: list[NDArray[np.float32]] = []

    def __call__(self, rows: NDArray[np.float32]) -> None:
        self.seen.append(rows)


def test_every_call_has_another_list_of_real_rows() -> None:
    lists = Lists()
    found = latency(lists, ROWS, 7, calls=100)
    assert (found.documents, found.calls, len(lists.seen)) == (7, 100, 105)
    assert all(rows.shape == (7, 3) and rows.dtype == np.float32 for rows in lists.seen)
    assert all(rows.flags.c_contiguous for rows in lists.seen)
    assert {tuple(row) for rows in lists.seen for row in rows} == {tuple(row) for row in ROWS}
    assert len({rows.tobytes() for rows in lists.seen}) == len(lists.seen)
    assert found.p99 is not None
    assert 0 <= found.p50 <= found.p99


def test_lists_may_be_longer_than_the_data() -> None:
    lists = Lists()
    latency(lists, ROWS, 1000, calls=1)
    assert lists.seen[0].shape == (1000, 3)


def test_fewer_than_a_hundred_calls_say_nothing_of_one_in_a_hundred() -> None:
    assert latency(Lists(), ROWS, calls=99).p99 is None
    assert latency(Lists(), ROWS, calls=100).p99 is not None


def test_time_ends_it_but_not_before_some_calls() -> None:
    lists = Lists()
    assert latency(lists, ROWS, seconds=0.0).calls == 3  # and one that warmed up
    assert len(lists.seen) == 4
    assert latency(Lists(), ROWS, seconds=0.0, least=120).calls >= 90


def test_a_budget_that_is_out_of_reach_ends_it() -> None:
    lists = Lists()
    found = latency(lists, ROWS, calls=300, budget=0.0)
    assert len(lists.seen) == 15 + 4  # four of three hundred are more than one in a hundred
    assert found.p99 is None
    within = latency(Lists(), ROWS, calls=300, budget=1e12)
    assert (within.calls, within.p99 is None) == (300, False)


def made_up(seed: int, n_queries: int) -> RankingDataset:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(3, 9, n_queries)
    features = rng.normal(size=(int(sizes.sum()), 4))
    labels = np.clip(np.round(features[:, 0] + 1), 0, 2)
    return from_arrays(features, labels, group_sizes=sizes)


@pytest.mark.parametrize("name", ["lightgbm", "xgboost"])
def test_what_a_training_keeps(name: str) -> None:
    params: dict[str, Any] = {"max_depth": 2} | ({"min_data_in_leaf": 2} if name == "lightgbm" else {})
    training = Training(
        train=made_up(1, 30), valid=None, seed=1, threads=1, metrics=(NDCG,), stopping=None, rounds=18
    )
    model = catalog.load(name)(params=params).fit(training)
    assert isinstance(model, TreeModel)
    test = made_up(2, 10)
    found = training_latencies(model, model, test, NDCG, 0.5, 0.0)
    assert [(one.rounds, one.documents) for one in found] == [
        (18, 10),
        (18, 100),
        (18, 1000),
        (4, 100),
        (1, 100),
    ]
    assert [one.mean for one in found[:3]] == [0.5, 0.5, 0.5]
    all_cuts = {cut.rounds: cut.means[0] for cut in quality_by_trees(model, test, [NDCG])}
    assert [one.mean for one in found[3:]] == [all_cuts[4], all_cuts[1]]
    assert all(one.calls == 3 and one.p50 > 0 and one.p99 is None for one in found)
