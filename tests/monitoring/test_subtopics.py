"""A log whose rows have grades by subtopic is watched by what measures them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from ltr_harness import evaluate
from ltr_harness.data.logs.contract import Contract
from ltr_harness.errors import DataError, MetricError
from ltr_harness.monitoring import monitor
from ltr_harness.monitoring.load import load_monitor_config
from ltr_harness.monitoring.queries import columns_of
from ltr_harness.monitoring.reading import query_table

METRICS = ["alpha_ndcg@5", "err_ia(relevant=1)@5"]
SETTINGS: dict[str, Any] = {
    "columns": {"query_id": "query", "score": "score", "subtopics": ["s1", "s2"]},
    "relevance": {"mode": "label", "label": "label"},
    "metrics": METRICS,
}


def log(noise: float, seed: int = 1, n: int = 250) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    grades = (random.random((n * 8, 2)) < 0.3).astype(float)
    return pd.DataFrame(
        {
            "query": np.repeat(np.arange(n) + 1000 * seed, 8),
            "score": grades.sum(axis=1) + noise * random.normal(size=n * 8),
            "label": grades.max(axis=1),
            "s1": grades[:, 0],
            "s2": grades[:, 1],
        }
    )


@pytest.mark.long
def test_a_worse_week_is_seen() -> None:
    good, bad = log(0.1), log(3.0, seed=2)
    verdict = monitor(SETTINGS, log=bad, baseline=good).verdict
    expected = [
        evaluate(
            week.label, week.score, query_ids=week["query"], metrics=METRICS, subtopics=week[["s1", "s2"]]
        )
        for week in (good, bad)
    ]
    before, after = (one.means[METRICS[0]] for one in expected)
    assert verdict.what.startswith(f"alpha_ndcg@5 fell: {before:.4f} -> {after:.4f}, ")


def test_rows_that_nobody_judged_take_their_subtopics_along() -> None:
    pa = pytest.importorskip("pyarrow")
    week = log(0.1, n=20)
    week["label"] = week.label.where(np.arange(len(week)) % 3 > 0)  # a third without
    settings = {**SETTINGS, "relevance": {"mode": "label", "label": "label", "unlabelled": "ignore"}}
    config = load_monitor_config(settings)
    frame = query_table(pa.table(week), config, Contract("production", "log"))
    assert frame is not None
    kept = week[week.label.notna()]
    expected = evaluate(
        kept.label, kept.score, query_ids=kept["query"], metrics=METRICS, subtopics=kept[["s1", "s2"]]
    )
    for metric in METRICS:
        np.testing.assert_array_equal(columns_of(frame, "metric")[metric], expected[metric].per_query)


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"s1": -1.0}, DataError, "2,000 of 2,000 grades are missing, negative or not finite"),
        ({"s2": np.nan}, DataError, "2,000 of 2,000 grades are missing, negative or not finite"),
    ],
)
def test_grades_that_are_none(change: dict[str, float], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        monitor(SETTINGS, log=log(0.1).assign(**change))


def test_columns_that_nobody_named() -> None:
    with pytest.raises(
        MetricError, match=r"these judgments name none; expected .*`subtopics: \[column, …\]`"
    ):
        monitor({**SETTINGS, "columns": {"query_id": "query", "score": "score"}}, log=log(0.1))
    lacking = {**SETTINGS["columns"], "subtopics": ["s1", "s9"]}
    with pytest.raises(DataError, match="has no column 's9'"):
        monitor({**SETTINGS, "columns": lacking}, log=log(0.1))
