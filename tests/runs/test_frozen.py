"""Run folders as versions of the record's schema left them: today's code loads, scores and compares them all.

A folder of ``frozen/`` is never changed. Another schema version gets another folder, and these tests run on each.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xgboost
from packaging.version import Version

from ltr_harness import load_run
from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.comparison import compare
from ltr_harness.errors import DataError
from ltr_harness.evaluation import evaluate
from ltr_harness.experiment.reproduce import fold_of, reproduce
from ltr_harness.runs import Run, find_runs
from ltr_harness.runs.folder import damaged_files
from ltr_harness.runs.record import SCHEMA_VERSION

FROZEN = Path(__file__).parent / "frozen"
VERSIONS = sorted(path.name for path in FROZEN.iterdir() if path.is_dir())


@pytest.fixture(params=VERSIONS)
def folder(request: pytest.FixtureRequest) -> Path:
    return FROZEN / str(request.param)


@pytest.fixture
def expected(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "expected.json").read_text())
    return found


@pytest.fixture
def runs(folder: Path) -> dict[str, Run]:
    return {run.record.model: run for run in find_runs(folder)}


def test_every_schema_version_has_its_folder() -> None:
    assert [f"v{version}" for version in range(1, SCHEMA_VERSION + 1)] == VERSIONS


def test_records_load_and_every_file_is_what_they_say(runs: dict[str, Run], expected: dict[str, Any]) -> None:
    assert set(runs) == set(expected["models"])
    assert {run.record.ranker for run in runs.values()} >= {"lightgbm", "xgboost"}
    for name, run in runs.items():
        assert damaged_files(run.path, run.record) == []
        assert run.record.status == "complete"
        assert run.record.best_round == expected["models"][name]["best_round"]
        means = {metric: summary.mean for metric, summary in run.record.metrics.items()}
        assert means == expected["models"][name]["means"]


def test_models_score_rows_as_they_did(folder: Path, runs: dict[str, Run], expected: dict[str, Any]) -> None:
    rows = pd.read_csv(folder / "rows.csv", dtype=np.float32)
    for name, run in runs.items():
        assert run.record.features == list(rows)
        if run.record.ranker == "xgboost" and Version(xgboost.__version__) < Version("3.1"):
            with pytest.raises(
                DataError, match=r"model.ubj: is of XGBoost 3.1 or newer.* expected XGBoost 3.1"
            ):
                run.score(rows)
            continue
        scores = run.score(rows)
        np.testing.assert_allclose(scores, expected["models"][name]["scores"], rtol=1e-6, atol=1e-7)
        stored = run.test_scores["score"].to_numpy()[: len(rows)]
        np.testing.assert_allclose(scores, stored, rtol=1e-6, atol=1e-7)


def test_stored_scores_have_the_stored_values(runs: dict[str, Run]) -> None:
    for run in runs.values():
        table = run.test_scores
        found = evaluate(
            table["label"], table["score"], query_ids=table["query_id"], metrics=list(run.record.metrics)
        )
        for metric, summary in run.record.metrics.items():
            np.testing.assert_allclose(found[metric].per_query, run.per_query[metric], rtol=1e-12)
            assert found.means[metric] == pytest.approx(summary.mean, rel=1e-12)
            assert found[metric].n_undefined == summary.n_undefined


def test_history_ends_in_the_best_round(runs: dict[str, Run]) -> None:
    for run in runs.values():
        rule = run.record.stopping
        assert rule is not None
        watched = run.history[run.history["metric"] == rule.metric]
        assert watched["round"].tolist() == list(range(1, len(watched) + 1))
        assert watched["round"].iloc[watched["value"].argmax()] == run.record.best_round
        assert run.importance is not None
        assert run.importance["feature"].tolist() == run.record.features


def test_they_compare_as_they_did(runs: dict[str, Run], expected: dict[str, Any]) -> None:
    """By the default of when they were stored: sign flips, with the intervals that belong to the t test today."""
    wanted = expected["pair"]
    flips, t = (
        compare(*runs.values(), baseline=wanted["other"], test=test, ledger=False).paired(wanted["model"])
        for test in ("permutation", "t")
    )
    for name, value in wanted.items():
        now = getattr(t if name.startswith("ci_") else flips, name)
        assert now == (value if isinstance(value, str) else pytest.approx(value, abs=1e-9)), name


def test_the_data_are_made_again_to_the_byte(runs: dict[str, Run]) -> None:
    for run in runs.values():
        fold = fold_of(run)
        for split, facts in run.record.data.items():
            assert fold.facts[split].fingerprint == facts.fingerprint, split


@pytest.mark.long
def test_training_again_gives_the_same_or_says_what_changed(runs: dict[str, Run]) -> None:
    for run in runs.values():
        found = reproduce(run.path, threads=1)
        assert found.identical or found.reasons
        for name, (before, now) in found.metrics.items():
            assert now == pytest.approx(before, abs=0.02), name


@pytest.mark.long
def test_the_report_is_made_from_them(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a copy: nothing is ever written beside what is frozen."""
    copy = tmp_path / "runs"
    shutil.copytree(folder, copy)
    assert run_command(cli, ["report", str(copy), "--format", "json,md"]) == 0
    assert "distinguishable" in capsys.readouterr().out
    document = json.loads((copy / "report" / "report.json").read_text())
    assert {run["model"] for run in document["runs"]} == {run.record.model for run in find_runs(folder)}
    assert (document["test"], document["correction"]) == ("permutation", "joint")
    assert document["notes"][0] == "compare: correction 'holm' is 'joint' now"


def test_a_record_from_tomorrow_says_so(folder: Path, tmp_path: Path) -> None:
    from ltr_harness.errors import DataError

    [first, *_] = [path for path in folder.iterdir() if path.is_dir()]
    shutil.copytree(first, tmp_path / "run")
    record = json.loads((first / "record.json").read_text())
    (tmp_path / "run" / "record.json").write_text(
        json.dumps({**record, "schema_version": SCHEMA_VERSION + 1})
    )
    with pytest.raises(DataError, match=f"schema version {SCHEMA_VERSION + 1}; this version reads"):
        load_run(tmp_path / "run")
