"""A search in the report, on the terminal and in the event stream."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from ltr_harness import run_experiment
from ltr_harness.cli import cli
from ltr_harness.experiments.runs.record import STUDIES, read_study
from ltr_harness.report.blocks import Chart, Details, ModelName, Paragraph, Table, plain_text
from ltr_harness.report.charts import file_spec
from ltr_harness.report.sections.tuning import section
from ltr_harness.workflow import ExperimentResult

pytest.importorskip("optuna", reason="needs the extra `tune`")
pytestmark = [pytest.mark.long, pytest.mark.usefixtures("one_core")]

CONFIG: dict[str, Any] = {
    "name": "tuned",
    "seeds": [1, 2],
    "data": {"reader": "synthetic", "n_queries": {"train": 60, "valid": 30, "test": 40}, "n_features": 12},
    "metrics": {"cutoffs": [10], "report": ["ndcg"], "primary": "ndcg@10"},
    "stopping": {"metric": "ndcg@10", "patience": 2, "max_rounds": 5},
    "models": {
        "lgb": {"ranker": "lightgbm", "params": {"bagging_fraction": 0.8, "bagging_freq": 1}},
        "xgb": {"ranker": "xgboost", "params": {"subsample": 0.8}},
    },
    "tune": {
        "trials": 8,
        "models": {
            "lgb": {
                "params.num_leaves": {"low": 3, "high": 31},
                "params.learning_rate": {"low": 0.01, "high": 0.5, "log": True},
            }
        },
    },
    "report": {"formats": ["json"]},
}
QUICK = CONFIG | {"seeds": [1], "tune": CONFIG["tune"] | {"trials": 3}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def result(folder: Path, one_core: None) -> ExperimentResult:
    return run_experiment(CONFIG | {"report": {"formats": ["html"]}}, runs=folder)


def blocks(result: ExperimentResult) -> dict[str, Any]:
    assert result.report is not None
    found = section(result.report)
    named = {block.name: block for block in found if isinstance(block, Table | Chart)}
    details = {one.name: one for block in found if isinstance(block, Details) for one in block.blocks}  # type: ignore[union-attr]
    (lead,) = [block for block in found if isinstance(block, Paragraph)]
    return {**named, **details, "lead": plain_text(lead.text)}


def test_it_says_that_no_trial_saw_a_test_query(result: ExperimentResult) -> None:
    lead = blocks(result)["lead"]
    assert lead.startswith(
        "The options of lgb were chosen by their value on the validation queries, which also chose the number of "
        "rounds. No trial saw a test query: those were scored once, by the chosen configuration."
    )


def test_the_search_and_what_it_chose(result: ExperimentResult) -> None:
    table = blocks(result)["tuning"]
    (row,) = table.rows
    facts = next(run.record.tuning for run in result.runs if run.record.tuning is not None)
    assert isinstance(row[0], ModelName)
    assert row[1:4] == ("all", 8, facts.n_complete)
    assert row[4:6] == (facts.n_pruned, facts.n_failed)
    assert row[7:9] == (facts.trial, facts.value)
    means = [run.record.metrics["ndcg@10"].mean for run in result.runs if run.record.model == "lgb"]
    assert row[9] == pytest.approx(sum(mean or 0 for mean in means) / 2)
    assert table.footnotes == ("Budget: 8 trials per fold, tpe sampler.",)
    chosen = blocks(result)["chosen_lgb"]
    assert [line[0] for line in chosen.rows] == ["params.num_leaves", "params.learning_rate"]
    assert chosen.rows[0][1] == str(facts.chosen["params.num_leaves"])


def test_the_history_is_every_complete_trial_and_the_best_so_far(
    result: ExperimentResult, chart_schema: Any
) -> None:
    chart = blocks(result)["tuning_history"]
    chart_schema.validate(file_spec(chart.spec))
    record = next(run.record for run in result.runs if run.record.tuning is not None)
    assert record.tuning is not None
    study = read_study(result.folder / STUDIES / record.tuning.study)
    assert study is not None
    complete = [trial for trial in study.trials if trial.status == "complete"]
    drawn = chart.spec["data"]["values"]
    assert [row["trial"] for row in drawn] == [trial.number for trial in complete]
    best = 0.0
    for row, trial in zip(drawn, complete, strict=True):
        best = max(best, trial.value or 0)
        assert (row["value"], row["best"]) == pytest.approx((trial.value, best), abs=1e-5)
    assert f"best value {record.tuning.value:.4f} at trial {record.tuning.trial}" in chart.text


def test_importance_is_of_both_options_and_adds_up(result: ExperimentResult) -> None:
    table = blocks(result)["tuning_importance"]
    shares = {row[1]: row[2] for row in table.rows}
    assert set(shares) == {"params.num_leaves", "params.learning_rate"}
    assert sum(shares.values()) == pytest.approx(1.0)
    assert list(shares.values()) == sorted(shares.values(), reverse=True)


def test_pages_have_it_and_runs_that_were_moved_still_say_by_what_budget(
    result: ExperimentResult, tmp_path: Path
) -> None:
    page = (result.folder / "report" / "report.html").read_text(encoding="utf-8")
    assert "No trial saw a test query" in page
    assert "tuning_history" in page
    assert result.comparison is not None
    assert any("lgb by 8 trials" in note for note in map(str, result.comparison.cautions))
    (result.folder / STUDIES).rename(tmp_path / "gone")
    try:
        names = set(blocks(result))
    finally:
        (tmp_path / "gone").rename(result.folder / STUDIES)
    assert names == {"lead", "tuning", "chosen_lgb"}


def test_without_tuning_the_report_is_silent_about_it(folder: Path) -> None:
    plain_one = {**CONFIG, "name": "plain", "tune": None, "models": {"chance": {"ranker": "random"}}}
    found = run_experiment(plain_one, runs=folder).report
    assert found is not None
    assert section(found) == []


def run_cli(*arguments: str) -> tuple[str, str]:
    done = CliRunner().invoke(cli, list(arguments), standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    assert done.return_value == 0
    return done.stdout, done.stderr


def test_the_plan_comes_first_and_progress_says_what_is_found(tmp_path: Path) -> None:
    file = tmp_path / "tuned.yaml"
    file.write_text(yaml.safe_dump(QUICK, sort_keys=False))
    arguments = ["run", str(file), "--runs", str(tmp_path / "runs"), "--workers", "1"]
    out, err = run_cli(*arguments, "--dry-run")
    assert [line.partition("  ")[0] for line in out.splitlines()] == ["tune", "train"]
    assert "lgb: 0 trials done" in out
    assert "1 search to make, besides 1 run; the runs of these models follow: lgb" in err
    out, _ = run_cli("check", str(file), "--runs", str(tmp_path / "runs"))
    assert "tune: lgb: 0 trials done" in out
    out, err = run_cli(*arguments, "--verbose")
    lines = err.splitlines()
    assert lines[1].startswith("12 features: match_1, ")
    assert lines[2].startswith("1 search to make")
    assert lines[3].startswith("tuning lgb: trial 0, ndcg@10 0.")
    assert any(line.startswith("2 runs: 2 to train") for line in lines)
    assert "tuned on validation data" in " ".join(out.split())
    out, err = run_cli(*arguments, "--dry-run")
    assert [line.partition("  ")[0] for line in out.splitlines()] == ["done", "done"]


def test_a_search_has_the_events_of_its_final_run(tmp_path: Path) -> None:
    file = tmp_path / "tuned.yaml"
    models = {"lgb": CONFIG["models"]["lgb"]}
    file.write_text(yaml.safe_dump({**QUICK, "models": models}, sort_keys=False))
    _, err = run_cli("run", str(file), "--runs", str(tmp_path / "runs"), "--workers", "1", "--json")
    events = [json.loads(line) for line in err.splitlines()]
    assert [event["event"] for event in events] == ["started", "started", "finished", "compared", "done"]
    assert events[1]["model"] == "lgb"
