"""Returns and races from training to the report: labels below 0, and probabilities with a fitted temperature."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ltr_harness import evaluate, run_experiment
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.readers.memory import from_arrays
from ltr_harness.errors import UsageError
from ltr_harness.experiments.runs import find_runs
from ltr_harness.experiments.runs.record import Record
from ltr_harness.metrics.log_loss import LogLoss
from tests.conftest import reports_left_out

pytestmark = pytest.mark.long
MODELS: dict[str, Any] = {
    "first": {"ranker": "feature", "feature": "0"},
    "trees": {"ranker": "lightgbm", "objective": "regression", "params": {"num_leaves": 5}},
}


def make_dataset(seed: int, n: int, race: bool) -> RankingDataset:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(4, 12, n)
    X = rng.normal(size=(sizes.sum(), 3))
    worth = X[:, 0] + rng.gumbel(size=len(X))
    labels = 0.01 * worth - 0.005
    if race:
        best = np.repeat(np.maximum.reduceat(worth, np.cumsum(sizes) - sizes), sizes)
        labels = (worth == best).astype(float)
    return from_arrays(X, labels, group_sizes=sizes)


def config(race: bool, **more: Any) -> dict[str, Any]:
    parts = {
        name: make_dataset(seed, n, race)
        for seed, (name, n) in enumerate({"train": 150, "valid": 90, "test": 120}.items())
    }
    return {
        "name": "made",
        "data": parts,
        "stopping": {"metric": "spearman", "max_rounds": 15},
        "models": MODELS,
        "report": {"formats": ["md", "json"]},
        **more,
    }


def test_returns(tmp_path: Path) -> None:
    metrics: dict[str, Any] = {"report": ["mean_label(minus=bottom)", "spearman", "gauc"], "cutoffs": [3]}
    metrics["primary"] = "mean_label(minus=bottom)@3"
    result = run_experiment(config(False, metrics=metrics), runs=tmp_path)
    assert result.comparison is not None
    runs = [run for run in find_runs(tmp_path / "made") if run.record.model == "first"]
    test = make_dataset(2, 120, False)
    ev = evaluate(test.labels, test.features[:, 0], [metrics["primary"]], group_sizes=test.groups.sizes)
    assert runs[0].record.metrics[metrics["primary"]].mean == ev.means[metrics["primary"]]
    text = next(tmp_path.rglob("report.md")).read_text()
    assert "NDCG" not in text
    assert "queries without relevant" not in text.lower()
    with pytest.raises(UsageError, match=r"ndcg@3: label -0\.\d+ is not a grade, in query"):
        run_experiment(
            config(False, metrics={"report": ["ndcg"], "cutoffs": [3], "primary": "ndcg@3"}), runs=tmp_path
        )


def test_races(tmp_path: Path) -> None:
    fixed = "log_loss(temperature=1)"
    metrics: dict[str, Any] = {
        "report": ["log_loss", "brier", fixed, "mrr"],
        "cutoffs": [3],
        "primary": "log_loss",
    }
    with reports_left_out():
        first = {**metrics, "report": ["mrr", fixed], "primary": fixed}
        run_experiment(config(True, metrics=first), runs=tmp_path)
    before = {run.record.model: run.record for run in find_runs(tmp_path / "made")}
    assert len(before) == 2
    assert all("temperature" not in record.learned for record in before.values())
    run_experiment(config(True, metrics=metrics), runs=tmp_path)  # scores again, with new metrics
    report = next(tmp_path.rglob("report.json"))
    bins = json.loads(report.read_text())["calibration"]
    assert {one["model"] for one in bins} == set(MODELS)
    assert sum(one["n_rows"] * (one["model"] == "first") for one in bins) == make_dataset(2, 120, True).n_rows
    assert all(one["low"] < one["observed"] < one["high"] for one in bins)
    assert (
        "of 10 predictions outside their interval; T from validation data"
        in report.with_name("report.md").read_text()
    )
    valid, test = make_dataset(1, 90, True), make_dataset(2, 120, True)
    for run in find_runs(tmp_path / "made"):
        record = run.record
        assert record.seconds["fit"] == before[record.model].seconds["fit"]
        t = LogLoss().best_temperature(valid.judgments, run.score_split(valid))
        assert record.learned["temperature"] == {"log_loss": t, "brier": t}
        names = [f"log_loss(temperature={t!r})", f"brier(temperature={t!r})", fixed]
        ev = evaluate(test.labels, run.score_split(test), names, group_sizes=test.groups.sizes)
        for name, mean in zip(("log_loss", "brier", fixed), ev.means.values(), strict=True):
            assert record.metrics[name].mean == pytest.approx(mean, rel=1e-12)
        if record.model == "first":  # whose scores are the log of the odds
            assert t == pytest.approx(1, abs=0.3)
        for wrong in ({"log_loss": 0.0}, {"log_loss": "1"}, [1.0]):
            with pytest.raises(ValueError, match="temperature is not a number above 0 for each metric"):
                Record.model_validate(
                    {**json.loads(record.model_dump_json()), "learned": {"temperature": wrong}}
                )


def test_equal_models_stay_equal_where_one_has_no_fitted_temperature(
    tmp_path: Path, ltr: Callable[..., tuple[int, str, str]]
) -> None:
    """One experiment reports log_loss with T from validation data, the other does not: both are measured with T = 1."""
    for name, primary in ("with", "log_loss"), ("without", "mrr@3"):
        metrics = {"report": [primary], "cutoffs": [3], "primary": primary}
        models = {name: MODELS["trees"]}
        alone = {"name": name, "metrics": metrics, "models": models, "report": {"formats": ["json"]}}
        run_experiment(config(True, **alone), runs=tmp_path)
    (fitted,) = find_runs(tmp_path / "with")
    code, out, err = ltr("compare", tmp_path / "with", tmp_path / "without", "-m", "log_loss", "--json")
    assert code == 0
    found = json.loads(out)
    means = {one["model"]: one["mean"] for one in found["summaries"]}
    assert means["with"] == means["without"] != fitted.record.metrics["log_loss"].mean
    assert "log_loss: temperature 1 for all runs" in err + "".join(one["text"] for one in found["cautions"])
