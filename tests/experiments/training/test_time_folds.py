"""Folds in time from a configuration to the report."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from ltr_harness import run_experiment
from ltr_harness.boosting.stopping import StoppingRule
from ltr_harness.data.cache import DataCache
from ltr_harness.data.readers.memory import from_frame
from ltr_harness.errors import DataError
from ltr_harness.experiments.config import load_data, load_experiment
from ltr_harness.experiments.runs import find_runs
from ltr_harness.experiments.training import trials
from ltr_harness.experiments.training.folds import Fold, FoldReader, with_files
from ltr_harness.experiments.training.job import Job
from ltr_harness.metrics import parse_metric
from ltr_harness.models.ranker import Training
from ltr_harness.workflow import read

Cli = Callable[..., tuple[int, str, str]]


def rows() -> pd.DataFrame:
    """Two queries of three documents on every day of 2023 and 2024; one feature tells, the others do not."""
    rng = np.random.default_rng(1)
    days = pd.date_range("2023-01-01", "2024-12-31", freq="D")
    n = 2 * len(days)
    label = rng.integers(0, 3, 3 * n)
    return pd.DataFrame(
        {
            "query_id": np.repeat(np.arange(n), 3),
            "when": np.repeat(np.repeat(days.strftime("%Y-%m-%d"), 2), 3),
            "label": label,
            "tells": label + rng.normal(0, 1, 3 * n),
            "noise": rng.normal(size=3 * n),
        }
    )


@cache
def rows_in_csv() -> str:
    return rows().to_csv(index=False)


def config(folder: Path, **folds: Any) -> Path:
    (folder / "rows.csv").write_text(rows_in_csv())
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
    # a quarter has 91 or 92 days of two queries with three documents
    assert "test of each of 3 folds: 182 to 184 queries, 546 to 552 rows" in out
    assert (
        "fold 2024-04-01: train" in ltr("run", config(tmp_path), "--dry-run", "--runs", tmp_path / "runs")[1]
    )


@pytest.mark.long
def test_a_run_is_pooled_over_folds_and_goes_by_period(ltr: Cli, tmp_path: Path) -> None:
    path = config(tmp_path, gap="2 weeks", label_horizon="10 days")
    code, out, err = ltr("run", path, "--runs", tmp_path / "runs", "--workers", "1", "--verbose")
    assert code == 0, err
    runs = find_runs(tmp_path / "runs" / "walk")
    assert {run.record.fold for run in runs} == {"2024-04-01", "2024-07-01", "2024-10-01"}
    for run in runs:
        table = run.per_query
        first = run.record.fold
        assert table["day"].min() == first
        assert table["day"].max() < str(pd.Timestamp(first) + pd.DateOffset(months=3))
    said = " ".join((out + err).split())
    assert re.search("tests and intervals go by (week: 40|2 weeks: 20|4 weeks: 10) of", said)
    assert "week: 40 are too few to show how much neighbouring weeks are alike" in said
    sentence = "The sign of the difference agrees in 3 of 3 folds."
    assert sentence in " ".join(out.split())
    page = (tmp_path / "runs" / "walk" / "report" / "report.html").read_text()
    assert sentence in page
    assert 'id="table-folds"' in page
    again = ltr("compare", tmp_path / "runs" / "walk", "--unit", "month", "--verbose")
    printed = " ".join((again[1] + again[2]).split())
    assert re.search("go by (month: 9|2 months: 4) of", printed), printed
    assert re.search("month: with only 9 units|of 2 months no p-value", printed), printed


@pytest.mark.long
@pytest.mark.usefixtures("without_report")
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
        ({"gap": "2 years"}, "too short for a fold; expected 2 years + 1 month + 2 years + 3 months"),
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
    from ltr_harness.experiments.config import load_experiment, resolved_yaml

    experiment = load_experiment(config(tmp_path, gap="2 weeks"))
    assert experiment.compare.unit == "period"  # type: ignore[attr-defined]
    assert load_experiment(yaml.safe_load(resolved_yaml(experiment))) == experiment
    assert read(config(tmp_path), runs=tmp_path / "runs").reader.names()[-1] == "2024-10-01"


SPOILT: dict[str, tuple[Callable[[pd.Series], Any], str]] = {
    "two in a query": (lambda when: when.where(when.index != 7, "2024-05-05"), "query"),
    "numbers": (lambda when: pd.to_datetime(when).astype("int64"), "which may be seconds"),
    "none": (lambda when: when.where(when.index // 3 != 3, ""), "query '3' has no when (1 such)"),
    "mixed zones": (
        lambda when: (when + "T05:00:00").where(when.index // 3 != 3, "2023-01-02T05:00:00+02:00"),
        "have no time zone",
    ),
    "text": (lambda when: when.where(when.index // 3 != 3, "soon"), "text that is not a time"),
}


@pytest.mark.parametrize("spoilt", SPOILT)
def test_times_in_a_file_that_are_none(ltr: Cli, tmp_path: Path, spoilt: str) -> None:
    path, table = config(tmp_path), rows()
    change, message = SPOILT[spoilt]
    table["when"] = change(table["when"])
    table.to_csv(tmp_path / "rows.csv", index=False)
    code, _, err = ltr("check", path)
    assert code == 2
    said = " ".join(err.split())
    assert message in said
    assert "when" in said


@pytest.mark.parametrize("kind", ["csv", "text", "date", "timestamp", "zone"])
def test_every_reader_with_columns_has_times(tmp_path: Path, kind: str) -> None:
    table = rows()
    if kind != "csv":
        when = pd.to_datetime(table["when"])
        made = {"text": table["when"], "date": when.dt.date, "timestamp": when + pd.Timedelta("23h")}
        table["when"] = made[kind] if kind in made else when.dt.tz_localize("Europe/Berlin")
        table.to_parquet(tmp_path / "rows.parquet")
    else:
        (tmp_path / "rows.csv").write_text(rows_in_csv())
    file = "rows.csv" if kind == "csv" else "rows.parquet"
    folds = {"by_time": "when", "test": "3 months", "valid": "1 month", "gap": "2 weeks", "at_most": 2}
    if kind == "zone":
        folds["time_zone"] = "Europe/Berlin"
    data = {
        "reader": file.partition(".")[2],
        "root": str(tmp_path),
        "files": [file],
        "attributes": ["when"],
        "folds": folds,
    }
    reader = FoldReader(load_data(data), DataCache(None))
    assert reader.names() == ["2024-07-01", "2024-10-01"]
    fold = reader.read("2024-10-01")
    assert fold.test.groups.ids.tolist() == list(range(2 * 639, 2 * 731))  # of October to December
    assert fold.train.n_queries == 2 * 580  # up to August 2


@pytest.mark.long
def test_a_frame_in_python_has_times(tmp_path: Path) -> None:
    def experiment(table: pd.DataFrame) -> dict[str, Any]:
        dataset = from_frame(table, query="query_id", attributes=["when"])
        folds = {"by_time": "when", "test": "3 months", "valid": "1 month", "at_most": 2}
        return {
            "name": "frame",
            "data": {"files": dataset, "folds": folds},
            "metrics": {"cutoffs": [3], "report": ["ndcg"], "primary": "ndcg@3"},
            "stopping": None,
            "models": {"tells": {"ranker": "feature", "feature": "tells"}, "random": {"ranker": "random"}},
            "report": {"formats": ["json"]},
        }

    table = rows()
    result = run_experiment(experiment(table), runs=tmp_path)
    assert {run.record.fold for run in result.runs} == {"2024-07-01", "2024-10-01"}
    comparison = result.comparison
    assert comparison is not None
    assert comparison.n_queries <= 2 * 184
    times = table.assign(when=pd.to_datetime(table["when"]))
    job = read(with_files(experiment(times), tmp_path), runs=tmp_path)
    assert job.reader.names() == ["2024-07-01", "2024-10-01"]


def days_in(part: Any) -> np.ndarray[tuple[int], np.dtype[np.datetime64]]:
    return np.asarray(part.query_attributes["day"].astype("datetime64[D]"))


@pytest.mark.parametrize("inner", [None, 4])
def test_no_trial_has_a_query_of_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inner: int | None
) -> None:
    path = config(tmp_path, gap="2 weeks")
    tuned = yaml.safe_load(path.read_text())
    tuned["tune"] = {"trials": 1, "models": {"xgb": {"params.max_depth": [2, 3]}}}
    if inner is not None:
        tuned["tune"]["inner_folds"] = inner
    experiment = load_experiment(tuned)
    reader = FoldReader(experiment.data, DataCache(None))
    metric = parse_metric("ndcg@3")
    rule = StoppingRule(metric, patience=3, max_rounds=8)
    job = Job(experiment, reader, tmp_path, (metric,), metric, rule, threads=1)
    trained: list[Training] = []

    def remember_training(**given: Any) -> Training:
        trained.append(Training(**given))
        return trained[-1]

    monkeypatch.setattr(trials, "Training", remember_training)
    fold = reader.read("2024-04-01")  # the oldest: 2024-02-18 is its first day of validation, after a gap
    blind = Fold(fold.name, {"train": fold.train, "valid": fold.splits["valid"]}, fold.facts)
    trial = trials.run_trial(job, "xgb", 0, {"params.max_depth": 2}, blind, lambda step, value: False)
    assert trial.status == "complete", trial.error
    assert len(trained) == (inner or 1)
    for one in trained:
        assert one.valid is not None
        past, later = days_in(one.train), days_in(one.valid)
        assert past.max() + np.timedelta64(14, "D") < later.min()
        last = "2024-03-17" if inner is None else "2024-02-03"
        assert later.max() <= np.datetime64(last)
    if inner is not None:
        held = np.concatenate([days_in(one.valid) for one in trained])
        assert np.unique(held).size == 319  # four fifths of the 399 days, each once
        assert held.size == 2 * 319


def test_tuning_needs_days_to_judge_by(ltr: Cli, tmp_path: Path) -> None:
    path = config(tmp_path, valid=None)
    tuned = yaml.safe_load(path.read_text())
    tuned |= {"stopping": None, "tune": {"trials": 1, "models": {"xgb": {"params.max_depth": [2, 3]}}}}
    tuned["models"]["xgb"]["rounds"] = 5
    path.write_text(yaml.safe_dump(tuned))
    code, _, err = ltr("check", path)
    assert code == 2
    assert "data.folds has no validation data, on which tune could choose" in " ".join(err.split())
    tuned["tune"]["inner_folds"] = 3
    path.write_text(yaml.safe_dump(tuned))
    assert ltr("check", path)[0] == 0


@pytest.mark.parametrize("dated", [True, False])
def test_queries_without_candidates_have_the_time_of_their_judgments(tmp_path: Path, dated: bool) -> None:
    table = rows().assign(document_id=lambda one: one.index % 3)
    missed = 2 * 700  # a query of December 2024
    table[table.query_id != missed].drop(columns="label").to_parquet(tmp_path / "rows.parquet")
    truth = table[["query_id", "document_id", "label", *(["when"] if dated else [])]]
    truth.to_parquet(tmp_path / "truth.parquet")
    data: dict[str, Any] = {
        "reader": "parquet",
        "root": str(tmp_path),
        "files": ["rows.parquet"],
        "judgments": "truth.parquet",
        "attributes": ["when"],
        "folds": {"by_time": "when", "test": "3 months", "valid": "1 month", "at_most": 2},
    }

    def tested(**more: Any) -> Any:
        return FoldReader(load_data({**data, **more}), DataCache(None)).read("2024-10-01").test

    if dated:
        part = tested()
        assert part.groups.ids[~part.groups.has_rows].tolist() == [missed]
        assert part.n_queries == 184
    else:
        with pytest.raises(DataError, match=r"1 query without candidates has no when.*no_candidates: skip"):
            tested()
    assert tested(no_candidates="skip").n_queries == 183


@pytest.mark.parametrize("when", ["2024-11-11", "", "2024-11-12"])
def test_missed_documents_stand_beside_candidates_in_time(tmp_path: Path, when: str) -> None:
    """`retrieved:` marks missed rows; a query of nothing else has the time of its missed rows."""
    table = rows().assign(document_id=lambda one: one.index % 3, found=1)
    last = table.query_id == 2 * 700
    table.loc[last, "found"] = 0
    table.loc[last, "when"] = when
    table.to_csv(tmp_path / "rows.csv", index=False)
    data = {
        "reader": "csv",
        "root": str(tmp_path),
        "files": ["rows.csv"],
        "retrieved": "found",
        "attributes": ["when"],
        "folds": {"by_time": "when", "test": "3 months", "valid": "1 month", "at_most": 1},
    }
    reader = FoldReader(load_data(data), DataCache(None))
    if not when:
        with pytest.raises(DataError, match=r"1 query without candidates has no when"):
            reader.names()
        return
    part = reader.read("2024-10-01").test
    (at,) = np.flatnonzero(~part.groups.has_rows)
    assert part.query_attributes["day"][at] == when
