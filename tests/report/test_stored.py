"""A report rebuilt from run folders is the report that the run wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ltr_harness import run_experiment
from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.comparison import Method
from ltr_harness.errors import UsageError
from ltr_harness.report import write_report
from ltr_harness.report.data import stored_data

from .conftest import SMALL  # type: ignore[import-not-found]

JSON = {"report": {"formats": ["json"]}}


@pytest.mark.long
def test_rebuilding_gives_the_same_bytes(experiment_folder: Path, tmp_path: Path) -> None:
    first = experiment_folder / "report"
    path = write_report(stored_data([experiment_folder]), tmp_path)
    assert path == tmp_path / "report.html"
    names = sorted(str(p.relative_to(first)) for p in first.rglob("*") if p.is_file())
    assert names == sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file())
    for name in names:
        assert (first / name).read_bytes() == (tmp_path / name).read_bytes(), name


@pytest.mark.long
def test_another_baseline(experiment_folder: Path, tmp_path: Path) -> None:
    write_report(stored_data([experiment_folder], "a-feature"), tmp_path, ["json"])
    assert json.loads((tmp_path / "report.json").read_text())["baseline"] == "a-feature"


@pytest.mark.long
def test_the_comparison_is_made_as_the_configuration_says(tmp_path: Path) -> None:
    asked = {"test": "bootstrap", "confidence": 0.9, "margin": 0.9}
    config = SMALL | JSON | {"compare": {"baseline": "a-feature", "draws": 300, "seed": 5, **asked}}
    config["models"] = {name: SMALL["models"][name] for name in ("z-random", "a-feature")}
    method = run_experiment(config, runs=tmp_path).comparison.method
    assert method == Method(**asked, draws=300, seed=5, weights="none")  # the data has none
    stored = stored_data([tmp_path / "small"]).comparison
    pair = stored.paired("z-random")
    assert (pair.verdict, stored.is_within_margin(pair)) == ("worse", True)


def test_single_runs_need_a_place_to_write_to(
    experiment_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = sorted(experiment_folder.glob("*--s1--*"))
    assert run_command(cli, ["report", *map(str, folders)]) == 2
    assert "name the report's folder with -o DIR" in capsys.readouterr().err


def test_an_unknown_baseline_is_told(experiment_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no model 'a-featur' .*did you mean 'a-feature'"):
        stored_data([experiment_folder], "a-featur")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_runs_of_an_earlier_configuration_are_not_part_of_the_experiment(tmp_path: Path) -> None:
    untrained = SMALL | JSON | {"models": {name: SMALL["models"][name] for name in ("z-random", "a-feature")}}
    run_experiment(untrained, runs=tmp_path)
    run_experiment(untrained | {"seeds": [2, 3]}, runs=tmp_path)
    data = stored_data([tmp_path / "small"])
    assert sorted({run.record.seed for run in data.runs if run.record.model == "z-random"}) == [2, 3]
    assert len(list((tmp_path / "small").glob("z-random--*"))) == 3


@pytest.mark.long
def test_a_model_that_learned_nothing_is_said_beside_the_result(tmp_path: Path) -> None:
    result = run_experiment(
        {
            "name": "constant",
            "data": {
                "reader": "synthetic",
                "n_queries": {"train": 40, "valid": 20, "test": 20},
                "n_features": 12,
            },
            "stopping": {"metric": "ndcg@10", "patience": 3, "max_rounds": 10},
            "models": {
                "good": {"ranker": "lightgbm", "preset": "small"},
                "flat": {"ranker": "lightgbm", "params": {"min_sum_hessian_in_leaf": 1000}},
            },
            "report": {"formats": ["html"]},
        },
        runs=tmp_path,
    )
    assert result.comparison is not None
    [note] = [note for note in map(str, result.comparison.cautions) if note.startswith("flat")]
    assert note.startswith("flat: the model is constant: no split met the requirements")
    assert result.report_path is not None
    assert "flat: the model is constant" in result.report_path.read_text()
