"""Metrics from outside stop training, fill the report and its comparison, and belong to the identity of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ltr_harness import compare, evaluate, load_run, parse_metric, run_experiment
from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.experiments.runs import find_runs

pytestmark = pytest.mark.long

OWN = '''
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ltr_harness.metrics.core.metric import Metric


@dataclass(frozen=True, kw_only=True)
class TopLabel(Metric):
    """The mean label of the first K rows."""

    name: ClassVar[str] = "top_label"
    graded: ClassVar[bool] = True
    bounds: ClassVar[tuple[float, float]] = (0.0, float("inf"))

    def prepare(self, judgments, cutoffs):
        def values(ranking):
            out = np.empty((cutoffs.size, judgments.groups.n_queries))
            for query, (start, end) in enumerate(zip(ranking.offsets[:-1], ranking.offsets[1:])):
                labels = judgments.labels[ranking.rows[start:end]]
                out[:, query] = [labels[:k].mean() for k in cutoffs]
            return out

        return values


def spread(labels, scores):
    return float(np.ptp(labels[scores >= np.median(scores)]))
'''

CONFIG: dict[str, Any] = {
    "name": "own",
    "seeds": [1],
    "data": {
        "reader": "synthetic",
        "n_queries": {"train": 40, "valid": 20, "test": 30},
        "n_features": 12,
        "max_grade": 4,
    },
    "metrics": {
        "cutoffs": [3],
        "report": ["./own.py:TopLabel", "./own.py:spread(higher_is_better=false)", "ndcg"],
        "primary": "./own.py:TopLabel@3",
    },
    "stopping": {"metric": "./own.py:TopLabel@3", "patience": 3, "max_rounds": 8},
    "models": {
        "lgbm": {"ranker": "lightgbm", "objective": "lambdarank", "params": {"num_leaves": 5}},
        "xgb": {"ranker": "xgboost", "objective": "rank:ndcg", "params": {"max_depth": 2}},
        "random": {"ranker": "random"},
    },
    "report": {"formats": ["md", "json"]},
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(OWN)
    return tmp_path


def own_runs(folder: Path) -> dict[str, Any]:
    return {run.record.model: run for run in find_runs(folder / "runs" / "own")}


def test_they_work_from_boosting_to_the_report(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run_experiment(CONFIG, runs=folder / "runs")
    runs = own_runs(folder)
    for name in ("lgbm", "xgb"):
        run = runs[name]
        assert run.record.primary == "top_label@3"
        history = run.history.query("split == 'valid' and metric == 'top_label@3'")
        best = history.sort_values(["value", "round"], ascending=[False, True]).iloc[0]
        assert run.record.best_round == best["round"]  # it is what training stopped on
        scores = run.test_scores
        metric = parse_metric("./own.py:TopLabel@3")
        again = evaluate(scores["label"], scores["score"], query_ids=scores["query_id"], metrics=[metric])
        np.testing.assert_array_equal(run.per_query["top_label@3"], again[metric].per_query)
        assert np.isfinite(run.per_query["spread"]).all()
    assert result.comparison is not None
    assert result.comparison.primary == "top_label@3"
    page = (folder / "runs" / "own" / "report" / "report.md").read_text()
    assert "top_label@3" in page
    assert "spread" in page
    comparison = compare(*runs.values(), metrics=["spread"])
    assert list(comparison.metrics) == ["spread"]
    capsys.readouterr()
    (query, *_) = runs["lgbm"].per_query["query_id"].tolist()
    assert (
        run_command(cli, ["explain", "./own.py:TopLabel@3", "--query", str(query), str(runs["lgbm"].path)])
        == 0
    )
    assert f"query {query}: top_label@3 = " in capsys.readouterr().out


@pytest.mark.usefixtures("without_report")
def test_the_digest_of_their_code_is_in_the_identity(folder: Path) -> None:
    config = CONFIG | {"models": {"lgbm": CONFIG["models"]["lgbm"]}}
    run_experiment(config, runs=folder / "runs")
    (before,) = own_runs(folder).values()
    first = before.path
    (folder / "own.py").write_text(OWN.replace("labels[:k].mean()", "labels[:k].max()"))
    run_experiment(config, runs=folder / "runs")
    paths = {run.path for run in find_runs(folder / "runs" / "own")}
    (second,) = paths - {first} or {first}
    assert second != first  # it stopped on another metric, so it is another model
    assert load_run(second).record.identity != json.loads((first / "record.json").read_text())["identity"]
