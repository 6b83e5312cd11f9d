"""Defects found in other tools, each with a test that ours has none of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ltr_harness.monitoring import monitor
from ltr_harness.monitoring.queries import QueryTable
from ltr_harness.monitoring.result import MonitorResult
from ltr_harness.stats.corrections import bh

Table = Callable[..., QueryTable]
Analyse = Callable[..., MonitorResult]


def means(config: dict[str, Any], rows: pd.DataFrame) -> dict[str, float]:
    return dict(monitor(config, log=rows).windows[0].means)


def test_tied_scores_do_not_share_rank_one() -> None:
    rows = pd.DataFrame({"query_id": "q", "s": [0.5, 0.5, 0.1], "relevance": [1, 1, 0]})
    found = means({"columns": {"score": "s"}, "metrics": ["ndcg@1", "ndcg@3", "map"]}, rows)
    assert found == {"ndcg@1": 1.0, "ndcg@3": 1.0, "map": 1.0}  # not 2.0, 1.226 and 1.5


def test_the_value_at_one_is_labelled_one() -> None:
    rows = pd.DataFrame({"query_id": "q", "rank": [1, 2], "relevance": [0, 1]})
    found = means({"columns": {"rank": "rank"}, "metrics": ["ndcg@1", "ndcg@2"]}, rows)
    assert found == {"ndcg@1": 0.0, "ndcg@2": pytest.approx(1 / np.log2(3))}


def test_new_types_of_pandas_are_read() -> None:
    rows = pd.DataFrame(
        {
            "query_id": pd.array(["q"], dtype="string"),
            "rank": pd.array([1], dtype="Int64"),
            "relevance": [True],
        }
    )
    assert means({"columns": {"rank": "rank"}, "metrics": ["mrr"]}, rows) == {"mrr": 1.0}


def test_benjamini_hochberg_with_nothing_significant() -> None:
    assert bh([0.9, 0.5, 0.7]).tolist() == pytest.approx([0.9, 0.9, 0.9])
    assert bh([]).tolist() == []
    random = np.random.default_rng(1)
    reported = sum(bool((bh(random.random(20)) <= 0.05).any()) for _ in range(2000))
    assert reported <= 0.065 * 2000  # a rank of argsort() + 1 reports in 38 % of runs


def test_slices_look_at_the_tail_of_a_drop(query_table: Table, analyse: Analyse) -> None:
    random = np.random.default_rng(2)
    where = {"c": random.choice(list("AB"), 4000)}
    values = np.clip(0.7 + 0.1 * random.standard_normal(4000), 0, 1)
    better = np.where(where["c"] == "A", np.minimum(values + 0.1, 1), values)
    found = analyse(query_table(better, segments=where), query_table(values, segments=where, prefix="b"))
    assert found.slices == ()  # neither the one that improved nor the one that did not change
    assert found.healthy
    again = analyse(query_table(better, segments=where), query_table(values, segments=where, prefix="b"))
    assert again.document == found.document  # and in the same order every time


def test_a_small_slice_is_found_without_crying_wolf(query_table: Table, analyse: Analyse) -> None:
    """-.08 on a tenth of the traffic, n = 2000: 20/20, and rarely anything under the null."""
    random = np.random.default_rng(3)
    hits = wolf = 0
    for _ in range(20):
        where = [
            {"c": random.choice(list("ABCDE"), 4000), "d": random.choice(list("xy"), 4000)} for _ in range(2)
        ]
        where = [{**w, "c": np.where(random.random(4000) < 0.1, "Z", w["c"])} for w in where]
        values = [np.clip(0.75 + 0.15 * random.standard_normal(4000), 0, 1) for _ in range(2)]
        before = query_table(values[1], segments=where[1], prefix="b")
        wolf += bool(analyse(query_table(values[0], segments=where[0]), before).slices)
        dropped = values[0] - 0.08 * (where[0]["c"] == "Z")
        hits += [s.predicate for s in analyse(query_table(dropped, segments=where[0]), before).slices] == [
            "c=Z"
        ]
    assert hits >= 18
    assert wolf <= 3


def test_improvement_never_counts_as_harm(query_table: Table, analyse: Analyse) -> None:
    random = np.random.default_rng(4)
    day = np.repeat(np.arange(10), 300)
    before = np.clip(0.6 + 0.1 * random.standard_normal(day.size), 0, 1)
    found = analyse(query_table(before + 0.1, days=day), query_table(before, days=day, prefix="b"))
    assert found.healthy


def test_k_is_not_lowered_to_the_longest_list() -> None:
    rows = pd.DataFrame({"query_id": "q", "rank": [1, 2], "relevance": [0, 1]})
    assert means({"columns": {"rank": "rank"}, "metrics": ["precision@10"]}, rows) == {"precision@10": 0.1}


def test_average_precision_divides_by_what_is_relevant() -> None:
    rows = pd.DataFrame({"query_id": "q", "rank": range(1, 6), "relevance": [1, 0, 1, 1, 1]})
    found = means({"columns": {"rank": "rank"}, "metrics": ["map@3"]}, rows)
    assert found["map@3"] == pytest.approx((1 + 2 / 3) / 3)  # min(R, 3), not the two found


def test_per_query_values_are_never_rounded(tmp_path: Path) -> None:
    rows = pd.DataFrame(
        {
            "query_id": np.repeat(["a", "b", "c"], 3),
            "rank": [1, 2, 3] * 3,
            "relevance": [0, 1, 0, 0, 0, 1, 1, 0, 1],
        }
    )
    found = means({"columns": {"rank": "rank"}, "metrics": ["mrr"]}, rows)
    assert found["mrr"] == (1 / 2 + 1 / 3 + 1) / 3


def test_ndcg_of_graded_events_stays_at_most_one() -> None:
    random = np.random.default_rng(5)
    rows = pd.DataFrame(
        {
            "query_id": np.repeat(np.arange(200), 8),
            "rank": np.tile(np.arange(1, 9), 200),
            "click": random.poisson(2, 1600),
            "buy": random.poisson(0.2, 1600),
        }
    )
    found = monitor(
        {"columns": {"rank": "rank"}, "relevance": {"events": {"click": 1, "buy": 4}}, "metrics": ["ndcg@5"]},
        log=rows,
    )
    assert found.windows[0].interval.high <= 1.0
    assert found.windows[0].p90 <= 1.0


def test_reciprocal_rank_takes_the_first_relevant_row_not_the_best() -> None:
    rows = pd.DataFrame(
        {"query_id": ["q"] * 3 + ["e"] * 2, "rank": [1, 2, 3, 1, 2], "relevance": [1, 0, 4, 0, 0]}
    )
    found = monitor({"columns": {"rank": "rank"}, "metrics": ["mrr"]}, log=rows)
    assert found.windows[0].means["mrr"] == 1.0
    assert found.windows[0].n_defined == 1  # the query without a relevant row is no 1, and no 0 either


def test_a_query_without_relevant_rows_is_never_perfect_by_default() -> None:
    rows = pd.DataFrame({"query_id": ["q", "q", "e", "e"], "rank": [1, 2, 1, 2], "relevance": [0, 1, 0, 0]})
    found = monitor({"columns": {"rank": "rank"}, "metrics": ["ndcg@2"]}, log=rows)
    c = found.conventions[0]
    value = 1 / np.log2(3)
    assert (c.skip, c.zero, c.one) == (
        pytest.approx(value),
        pytest.approx(value / 2),
        pytest.approx(value / 2 + 0.5),
    )


def test_row_order_decides_nothing_among_tied_items() -> None:
    rows = pd.DataFrame({"query_id": "q", "s": 1.0, "relevance": [3, 0, 0, 1]})
    config = {"columns": {"score": "s"}, "metrics": ["ndcg@2"]}
    assert (
        len(
            {
                means(config, rows.iloc[list(order)])["ndcg@2"]
                for order in ([0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2])
            }
        )
        == 1
    )
