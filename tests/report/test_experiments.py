"""`ltr-harness show runs`: what a folder of experiments holds, what is subtracted, and what is a line."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from ltr_harness.errors import DataError
from ltr_harness.experiments.runs.record import MetricSummary, OwnMetric, Record
from ltr_harness.report import html
from ltr_harness.report.blocks import Link, Table, Trend
from ltr_harness.report.data import stored_data
from ltr_harness.report.run_index import read_experiments, report

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path, make_record: Callable[..., Record]) -> Write:
    """Write a run's record into an experiment's folder, at a minute of the day."""

    def write_run(
        experiment: str,
        model: str = "lgbm",
        mean: float | None = 0.5,
        *,
        minute: int = 0,
        n: int = 200,
        **more: Any,
    ) -> Path:
        metric = more.get("primary", "ndcg@10")
        summary = MetricSummary(
            mean=mean, n_queries=n, n_undefined=0, higher_is_better=more.pop("higher", True)
        )
        record = make_record(model, **{"experiment": experiment, "metrics": {metric: summary}, **more})
        folder = tmp_path / "runs" / experiment / f"{model}--{record.fold}--s{record.seed}"
        folder.mkdir(parents=True)
        path = folder / "record.json"
        path.write_text(record.model_dump_json())
        os.utime(path, (minute * 60, minute * 60))
        return path

    return write_run


def relabel(path: Path, digest: str) -> None:
    """The same run on other judgments."""
    when = path.stat().st_mtime
    record = json.loads(path.read_text())
    record["data"]["test"]["judgments_fingerprint"] = digest
    path.write_text(json.dumps(record))
    os.utime(path, (when, when))


def test_a_mean_is_over_queries_and_seeds_and_the_best_has_every_fold(tmp_path: Path, write: Write) -> None:
    write("a", "x", 0.2, fold="f1", seed=1, n=100)
    write("a", "x", 0.4, fold="f1", seed=2, n=100)
    write("a", "x", 0.6, fold="f2", seed=1, n=300)
    write("a", "x", 0.6, fold="f2", seed=2, n=300)
    write("a", "half", 0.9, fold="f1", seed=1, n=100)  # its other fold is not there
    write("a", "broken", None, fold="f2", seed=1, error="out of memory")
    (one,) = read_experiments(tmp_path / "runs").experiments
    assert (one.best, one.mean) == ("x", pytest.approx((100 * 0.3 + 300 * 0.6) / 400))
    assert (one.models, one.seeds, one.folds) == (3, 2, 2)
    assert (one.complete, one.failed, one.missing) == (5, 1, 0)
    assert (one.low, one.high, one.report) == (None, None, False)


def test_the_best_of_a_loss_is_the_lowest(tmp_path: Path, write: Write) -> None:
    write("a", "x", 0.2, higher=False)
    write("a", "y", 0.1, higher=False)
    assert read_experiments(tmp_path / "runs").experiments[0].best == "y"


def test_only_equal_questions_are_subtracted(tmp_path: Path, write: Write) -> None:
    write("first", mean=0.50, minute=1)
    relabel(write("other-labels", mean=0.90, minute=2), "0" * 64)
    write("other-k", mean=0.80, minute=3, primary="ndcg@5")
    own = OwnMetric(spelling="./mine.py:Mine", sha256="1" * 64)
    write("other-code", mean=0.70, minute=4, own_metrics={"ndcg@10": own})
    write("undefined", mean=None, minute=5)
    write("second", mean=0.53, minute=6)
    write("third", mean=0.51, minute=7)
    listed = read_experiments(tmp_path / "runs")
    assert [one.title for one in listed.experiments] == [
        "first", "other-labels", "other-k", "other-code", "undefined", "second", "third",
    ]  # fmt: skip
    changes = {one.name: (one.previous, one.change) for one in listed.experiments if one.previous}
    assert changes == {"second": ("first", pytest.approx(0.03)), "third": ("second", pytest.approx(-0.02))}
    page = report(listed)
    assert [chart.title for chart in page.charts] == [
        ("Best mean ", page.charts[0].title[1], " on made/test.txt, digest ", page.charts[0].title[3])
    ]  # the one question that several answer
    points = page.charts[0].spec["data"]["values"]
    assert [(point["experiment"], point["mean"]) for point in points] == [
        ("first", 0.50), ("second", 0.53), ("third", 0.51),
    ]  # fmt: skip
    assert "first, 1970-01-01: lgbm 0.5000." in page.charts[0].text
    shown, table = page.tables
    assert [column.label for column in shown.columns] == [
        "Experiment", "Verdict", "Best", "Change", "When (UTC)", "Report",
    ]  # fmt: skip
    assert shown.rows[0] == (
        "third",
        None,
        "lgbm ndcg@10 0.5100",
        pytest.approx(-0.02),
        "1970-01-01 00:07",
        "none",
    )
    assert [row[0] for row in table.rows][:2] == ["third", "second"]  # the newest first
    place = [column.label for column in table.columns].index("Over time")
    assert [row[place] for row in table.rows][:2] == [Trend((0.50, 0.53, 0.51)), Trend((0.50, 0.53))]
    assert Trend((0.50, 0.53, 0.51)).text == "▁█▃"


def test_a_real_experiment_has_the_mean_and_interval_of_its_report(
    experiment_folder: Path, tmp_path: Path
) -> None:
    listed = read_experiments(experiment_folder.parent)
    (one,) = listed.experiments
    data = stored_data([experiment_folder])
    best = data.comparison.summary(data.models[0])
    assert (one.best, one.metric) == (data.models[0], data.primary)
    assert one.mean == pytest.approx(best.mean, abs=1e-12)
    assert (one.low, one.high) == (best.ci_low, best.ci_high)
    assert (one.outcome, one.headline) == data.comparison.headline
    shown, table = report(listed).tables
    assert shown.rows[0][2] == f"{one.best} {one.mean:.4f}"
    assert {"Metric", "Test data", "From"}.isdisjoint(column.label for column in table.columns)  # all equal
    assert table.rows[0][1] == one.headline
    assert one.size == sum(path.stat().st_size for path in experiment_folder.rglob("*") if path.is_file())
    assert read_experiments(experiment_folder).experiments == listed.experiments  # the folder of one
    copy = shutil.copytree(experiment_folder, tmp_path / "runs" / "small")
    # a report of other runs says nothing about these
    plan = json.loads((copy / "plan.json").read_text())
    (copy / "plan.json").write_text(json.dumps({"runs": [*plan["runs"][1:], "gone--all--s1--0"]}))
    (less,) = read_experiments(tmp_path / "runs").experiments
    assert (less.complete, less.missing, less.low) == (one.complete - 1, 1, None)
    assert (less.outcome, less.headline) == (None, None)


def test_what_cannot_be_read_is_a_line(
    tmp_path: Path, write: Write, ltr: Callable[..., tuple[int, str, str]]
) -> None:
    runs = tmp_path / "runs"
    write("good")
    write("good", "cut").write_text('{"status": "comp')
    older = write("old")
    older.write_text(older.read_text().replace('"schema_version":3', '"schema_version":0'))
    write("two", "x")
    write("two", "y", primary="mrr@10")
    write("infinite").write_text(write("finite").read_text().replace('"mean":0.5', '"mean":NaN'))
    (runs / "empty").mkdir()
    (runs / ".unfinished-host-1-00").mkdir()
    (runs / ".unfinished-host-2-00").mkdir()  # what a killed `show runs -o runs/index.html` left
    (runs / ".unfinished-host-2-00" / "index.html").write_text("<")
    (runs / "notes.txt").write_text("")
    (runs / "index.html").write_text("")
    (runs / "good" / "plan.json").write_text('{"runs": 3}')
    (runs / "good" / "report").mkdir()
    (runs / "good" / "report" / "report.json").write_text('{"summaries": [1]}')
    code, out, err = ltr("show", "runs", runs)
    assert (code, err) == (0, "")
    lines = [line.removeprefix(f"{runs}/") for line in out.splitlines() if line.startswith(str(runs))]
    assert lines == [
        ".unfinished-host-1-00: not finished, or being written",
        "empty: no run in it that can be read",
        "good/cut--all--s1: record.json is not JSON (cut short?); run the experiment again",
        "notes.txt: a file, not an experiment",
        "old/lgbm--all--s1: record.json has schema version 0; expected 1 to 3",
        "old: no run in it that can be read",
        "two: its runs have several primary metrics or test data, and no plan.json groups them",
    ]
    table = out.splitlines()[1:5]
    assert [line.split()[0] for line in table] == ["Experiment", "infinite", "good", "finite"]
    assert "good: 1 complete, 1 missing" in out.splitlines()
    assert "none with a value" in table[1]
    assert max(map(len, table)) < 100
    assert "Models x seeds x folds" not in out
    assert "Models x seeds x folds" in ltr("show", "runs", runs, "--verbose")[1]
    with pytest.raises(DataError, match="no such folder; expected a folder of experiments"):
        read_experiments(tmp_path / "nowhere")
    with pytest.raises(DataError, match="no experiment in it that has runs"):
        read_experiments(runs / "empty")


def test_the_page_links_to_reports_and_escapes_names(
    tmp_path: Path, write: Write, hostile_names: list[str], ltr: Callable[..., tuple[int, str, str]]
) -> None:
    names = [name for name in hostile_names if not set("/\0\ud800") & set(name)]
    for at, name in enumerate(names):
        folder = tmp_path / "runs" / name[:60]
        shutil.copytree(write(f"e{at}").parent, folder / "run")
        (folder / "report").mkdir()
        (folder / "report" / "report.html").write_text("")
    code, out, _ = ltr("show", "runs", tmp_path / "runs", "-o", tmp_path / "page of runs.html", "--json")
    assert code == 0
    assert len(json.loads(out)["experiments"]) == 2 * len(names)
    text = (tmp_path / "page of runs.html").read_text()
    assert "<script>alert(1)" not in text
    assert "<img src=x" not in text
    listed = read_experiments(tmp_path / "runs")
    page = report(listed, tmp_path / "page of runs.html")
    table = page.tables[0]
    assert isinstance(table, Table)
    links = [row[-1] for row in table.rows if isinstance(row[-1], Link)]
    assert len(links) == len(names)
    assert all((tmp_path / unquote(link.href)).is_file() for link in links)
    assert not [link.href for link in links if set(":<>\"' ") & set(link.href)]
    assert html.render(page) == text  # the same folder, the same bytes


@pytest.mark.long
def test_two_hundred_runs_are_read_at_once(tmp_path: Path, write: Write) -> None:
    for at in range(200):
        write(f"e{at // 10}", f"m{at}", minute=at)
    began = time.process_time()
    page = report(read_experiments(tmp_path / "runs"))
    assert time.process_time() - began < 1.0  # .1 to .2 as measured
    assert len(page.tables[0].rows) == 20
