"""Folds in time from a configuration to the report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from ltr_harness.experiment.experiment import read
from ltr_harness.runs import find_runs

Cli = Callable[..., tuple[int, str, str]]


def rows(seed: int = 1) -> pd.DataFrame:
    """Two queries of six documents on every day of 2023 and 2024; one feature tells, the others do not."""
    rng = np.random.default_rng(seed)
    days = pd.date_range("2023-01-01", "2024-12-31", freq="D")
    n = 2 * len(days)
    label = rng.integers(0, 3, 6 * n)
    return pd.DataFrame(
        {
            "query_id": np.repeat(np.arange(n), 6),
            "when": np.repeat(np.repeat(days.strftime("%Y-%m-%d"), 2), 6),
            "label": label,
            "tells": label + rng.normal(0, 1, 6 * n),
            "noise": rng.normal(size=6 * n),
        }
    )


def config(folder: Path, **folds: Any) -> Path:
    rows().to_csv(folder / "rows.csv", index=False)
    experiment = {
        "name": "walk",
        "data": {
            "reader": "csv",
            "root": str(folder),
            "files": ["rows.csv"],
            "attributes": ["when"],
            "folds": {"by_time": "when", "test": "3 months", "valid": "1 month", "at_most": 3, **folds},
        },
        "metrics": {"cutoffs": [3], "report": ["ndcg"], "primary": "ndcg@3"},
        "stopping": {"metric": "ndcg@3", "patience": 3, "max_rounds": 8},
        "models": {"random": {"ranker": "random"}, "xgb": {"ranker": "xgboost", "params": {"max_depth": 2}}},
        "report": {"formats": ["json", "html"]},
    }
    path = folder / "walk.yaml"
    path.write_text(yaml.safe_dump(experiment, sort_keys=False))
    return path


def test_check_prints_the_boundaries(ltr: Cli, tmp_path: Path) -> None:
    code, out, err = ltr("check", config(tmp_path, gap="2 weeks"))
    assert code == 0, err
    assert (
        "fold 2024-10-01: train 2023-01-01 to 2024-08-02, valid 2024-08-17 to 2024-09-16, "
        "test 2024-10-01 to 2024-12-31" in out
    )
    assert "2024-10-01 test: 184 queries, 1,104 rows" in out
    assert (
        "fold 2024-04-01: train" in ltr("run", config(tmp_path), "--dry-run", "--runs", tmp_path / "runs")[1]
    )


@pytest.mark.long
def test_a_run_is_pooled_over_folds_and_goes_by_period(ltr: Cli, tmp_path: Path) -> None:
    path = config(tmp_path, gap="2 weeks", label_horizon="10 days")
    code, out, err = ltr("run", path, "--runs", tmp_path / "runs", "--workers", "1")
    assert code == 0, err
    runs = find_runs(tmp_path / "runs" / "walk")
    assert {run.record.fold for run in runs} == {"2024-04-01", "2024-07-01", "2024-10-01"}
    for run in runs:
        table = run.per_query
        first = run.record.fold
        assert table["day"].min() == first
        assert table["day"].max() < str(pd.Timestamp(first) + pd.DateOffset(months=3))
    assert "tests and intervals go by week: 40 of" in " ".join((out + err).split())
    again = ltr("compare", tmp_path / "runs" / "walk", "--unit", "month")
    assert "go by month: 9 of" in " ".join((again[1] + again[2]).split())
    assert "month: 9 units are few" in " ".join((again[1] + again[2]).split())


@pytest.mark.long
def test_the_final_model_is_of_the_newest_window(ltr: Cli, tmp_path: Path) -> None:
    path = config(tmp_path, train="6 months", at_most=1)
    code, out, err = ltr("run", path, "--runs", tmp_path / "runs", "--workers", "1", "--final", "xgb")
    assert code == 0, err
    assert "all 368 queries" in out  # of July to December


@pytest.mark.parametrize(
    ("folds", "message"),
    [
        (
            {"valid": None},
            "data.folds has no validation data, on which stopping could choose the number of rounds",
        ),
        ({"test": "a while"}, "a number of days, weeks, months, quarters or years, such as 3 months"),
        ({"by_time": "date"}, "has no query attribute 'date'; known: when"),
        ({"label_horizon": "30 days"}, "there is no gap, and labels look 30 days ahead"),
        ({"test": "3 years"}, "2023-01-01 to 2024-12-31 is too short for a fold"),
        ({"time_zone": "Berlin"}, "did you mean 'Europe/Berlin'?"),
        ({"tests": "1 month"}, "unknown key 'tests'"),
    ],
)
def test_what_is_refused(ltr: Cli, tmp_path: Path, folds: dict[str, Any], message: str) -> None:
    code, _, err = ltr("check", config(tmp_path, **folds))
    assert code == 2
    assert message in " ".join(err.split())


def test_a_query_has_one_time(ltr: Cli, tmp_path: Path) -> None:
    path = config(tmp_path)
    table = rows()
    table.loc[7, "when"] = "2024-05-05"
    table.to_csv(tmp_path / "rows.csv", index=False)
    code, _, err = ltr("check", path)
    assert code == 2
    assert "when" in err
    assert "query" in err


def test_the_configuration_is_read_back(tmp_path: Path) -> None:
    from ltr_harness.config import load_experiment, resolved_yaml

    experiment = load_experiment(config(tmp_path, gap="2 weeks"))
    assert experiment.compare.unit == "period"  # type: ignore[attr-defined]
    assert load_experiment(yaml.safe_load(resolved_yaml(experiment))) == experiment
    assert read(config(tmp_path), runs=tmp_path / "runs").reader.names()[-1] == "2024-10-01"
