"""Biases learned from display positions, from a data file to the report."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ltr_harness import run_experiment
from ltr_harness.report import ReportData, build_report
from ltr_harness.report.sections.feedback import biases, position_bias


def clicks(seed: int, n_queries: int) -> pd.DataFrame:
    """Ten rows a query, displayed in random order; a relevant document is clicked the less the lower it stands."""
    rng = np.random.default_rng(seed)
    n = 10 * n_queries
    frame = pd.DataFrame({"query_id": np.repeat(np.arange(n_queries), 10), "f": rng.normal(size=n)})
    frame["g"] = rng.normal(size=n)
    frame["shown"] = np.concatenate([rng.permutation(10) for _ in range(n_queries)])
    relevant = rng.random(n) < 1 / (1 + np.exp(-2 * frame.f))
    frame["label"] = (relevant & (rng.random(n) < 1 / (1 + frame.shown))).astype(int)
    return frame


@pytest.fixture(scope="module")
def biased(tmp_path_factory: pytest.TempPathFactory) -> ReportData:
    root = tmp_path_factory.mktemp("clicks")
    for name, seed, n in (("train", 1, 300), ("test", 2, 40)):
        clicks(seed, n).to_csv(root / f"{name}.csv", index=False)
    splits = {"train": "train.csv", "valid": {"holdout": 0.2, "seed": 1}, "test": "test.csv"}
    result = run_experiment(
        {
            "name": "clicks",
            "data": {"reader": "csv", "root": str(root), "position": "shown", "splits": splits},
            "metrics": {"cutoffs": [5], "report": ["mrr"], "primary": "mrr@5"},
            "stopping": {"metric": "mrr@5", "patience": 5, "max_rounds": 15},
            "report": {"formats": ["json"]},
            "models": {
                "plain": {"ranker": "lightgbm"},
                "lgbm": {
                    "ranker": "lightgbm",
                    "position_bias": True,
                    "params": {"lambdarank_position_bias_regularization": 0.1},
                },
                "xgb": {"ranker": "xgboost", "position_bias": True, "params": {"max_depth": 3}},
            },
        },
        runs=Path(root) / "runs",
    )
    assert not result.failures, [run.record.error for run in result.failures]
    assert result.report is not None
    return result.report


@pytest.mark.long
def test_both_libraries_find_that_lower_places_are_clicked_less(biased: ReportData) -> None:
    assert biases(biased.records_of("plain")) == {}
    for model in ("lgbm", "xgb"):
        found = biases(biased.records_of(model))
        assert found["0"][0] > found["2"][0] > found["8"][0]


@pytest.mark.long
def test_the_report_has_them_side_by_side(biased: ReportData) -> None:
    table = {table.name: table for table in build_report(biased).tables}["position_bias"]
    groups = [column.group for column in table.columns]
    assert sorted(groups) == ["", "lgbm", "xgb", "xgb"]
    assert [row[0] for row in table.rows] == [str(at) for at in range(10)]
    assert table.rows[0][groups.index("lgbm")] == biases(biased.records_of("lgbm"))["0"][0]


def test_it_is_silent_where_nothing_was_learned(data: ReportData) -> None:
    assert position_bias(data) == []
