"""`predict` reads the features that the model was trained on, whatever they are called."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ltr_harness import run_experiment
from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("without_report")]


def test_a_feature_that_is_called_as_ids_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{query},{label},{query + label},{label}\n" for query in range(6) for label in (1, 0)]
    (tmp_path / "rows.csv").write_text("query_id,label,bm25,user_id\n" + "".join(rows))
    data = {"reader": "csv", "root": str(tmp_path), "files": "rows.csv", "folds": 3}
    configuration = {
        "name": "e",
        "data": {**data, "features": ["bm25", "user_id"]},
        "metrics": {"cutoffs": [1], "report": ["ndcg"], "primary": "ndcg@1"},
        "report": {"formats": ["json"]},
        "models": {"user": {"ranker": "feature", "feature": "user_id"}},
    }
    result = run_experiment(configuration, runs=tmp_path / "runs", workers=1)
    run = result.runs[0].path
    out = tmp_path / "scores.npy"
    assert run_command(cli, ["predict", str(run), str(tmp_path / "rows.csv"), "-o", str(out)]) == 0
    assert np.load(out).tolist() == [1.0, 0.0] * 6
    capsys.readouterr()


def test_the_query_column_is_the_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{query},{label},{query + label}\n" for query in range(6) for label in (1, 0)]
    (tmp_path / "rows.csv").write_text("visit,stars,bm25\n" + "".join(rows))
    data = {"reader": "csv", "root": str(tmp_path), "files": "rows.csv", "folds": 3, "query": "visit"}
    configuration = {
        "name": "e",
        "data": {**data, "label": "stars"},
        "metrics": {"cutoffs": [1], "report": ["ndcg"], "primary": "ndcg@1"},
        "report": {"formats": ["json"]},
        "models": {"bm25": {"ranker": "feature", "feature": "bm25"}},
    }
    run = run_experiment(configuration, runs=tmp_path / "runs", workers=1).runs[0].path
    new = tmp_path / "new.csv"
    new.write_text("visit,bm25\n7,2.5\n7,1.5\n")  # nobody judged them yet
    capsys.readouterr()
    assert run_command(cli, ["predict", str(run), str(new), "-o", str(tmp_path / "scores.npy")]) == 0
    assert np.load(tmp_path / "scores.npy").tolist() == [2.5, 1.5]
    told = f"note: {new}: query: visit (--column chooses others)"
    assert told in capsys.readouterr().err.splitlines()
    new.write_text("bm25,visitor,depth\n2.5,7,1\n1.5,7,2\n")
    assert run_command(cli, ["predict", str(run), str(new), "-o", str(tmp_path / "scores.npy")]) == 2
    found = "has no column 'visit', which held the query in training (columns: bm25, visitor, depth)"
    cure = "name it with --column, such as --column query=visitor"
    assert f"error: {new}: {found}; {cure}\n" in capsys.readouterr().err
    named = ["--column", "query=visitor"]
    assert run_command(cli, ["predict", str(run), str(new), "-o", str(tmp_path / "scores.npy"), *named]) == 0
