"""A report rebuilt from run folders is the report that the run wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ltr_harness import run_experiment
from ltr_harness.errors import UsageError
from ltr_harness.report.stored import report_stored_runs

SMALL: dict[str, Any] = {
    "name": "small",
    "seeds": [1, 2],
    "data": {
        "reader": "synthetic",
        "n_queries": {"train": 20, "valid": 10, "test": 30},
        "n_features": 12,
        "max_grade": 4,
    },
    "metrics": {"cutoffs": [3, 10], "report": ["ndcg", "err"], "primary": "ndcg@10"},
    "stopping": {"metric": "ndcg@10", "patience": 3, "max_rounds": 4},
    # Not in alphabetical order: folders are found in another order than the models are declared.
    "models": {"z-random": {"ranker": "random"}, "a-feature": {"ranker": "feature", "feature": "match_1"}},
}


@pytest.fixture(scope="module")
def experiment_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("runs")
    run_experiment(SMALL, runs=runs)
    return runs / "small"


def test_rebuilding_gives_the_same_bytes(experiment_folder: Path, tmp_path: Path) -> None:
    first = experiment_folder / "report"
    _, path = report_stored_runs([experiment_folder], tmp_path, ["html", "md", "json", "tex", "svg"], None)
    assert path == tmp_path / "report.html"
    names = sorted(str(p.relative_to(first)) for p in first.rglob("*") if p.is_file())
    assert names == sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file())
    for name in names:
        assert (first / name).read_bytes() == (tmp_path / name).read_bytes(), name


def test_another_baseline(experiment_folder: Path, tmp_path: Path) -> None:
    report_stored_runs([experiment_folder], tmp_path, ["json"], "a-feature")
    assert json.loads((tmp_path / "report.json").read_text())["baseline"] == "a-feature"


def test_single_runs_need_a_place_to_write_to(experiment_folder: Path) -> None:
    folders = sorted(experiment_folder.glob("*--s1--*"))
    with pytest.raises(UsageError, match="say where to write with -o DIR"):
        report_stored_runs(folders, None, ["json"], None)


def test_an_unknown_baseline_is_told(experiment_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no model 'a-featur' .*did you mean 'a-feature'"):
        report_stored_runs([experiment_folder], tmp_path, ["json"], "a-featur")
    assert list(tmp_path.iterdir()) == []
