"""`--json`: every line on stderr is an event of the published schema, however the command ends."""

from __future__ import annotations

import json
import logging
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import jsonschema
import pytest
import yaml

from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.cli.json_events import Event, EventStream, Finished, schema
from ltr_harness.cli.json_progress import JsonProgress
from ltr_harness.errors import Caution
from ltr_harness.experiments.runs import load_run
from tests.experiments.training.commands import Command

pytestmark = pytest.mark.long

SMALL: dict[str, Any] = {
    "name": "events",
    "data": {"reader": "synthetic", "n_queries": {"train": 30, "valid": 20, "test": 20}, "n_features": 12},
    "metrics": {"cutoffs": [5], "report": ["ndcg", "mrr"], "primary": "ndcg@5"},
    "stopping": {"metric": "ndcg@5", "patience": 3, "max_rounds": 6},
    "models": {"xgb": {"ranker": "xgboost", "params": {"max_depth": 2}}, "random": {"ranker": "random"}},
    "report": {"formats": ["json"]},
}

VALIDATOR = jsonschema.Draft202012Validator(
    schema(), format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
)


def events(text: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in text.splitlines()]
    for event in found:
        VALIDATOR.validate(event)
    return found


def kinds(found: list[dict[str, Any]]) -> list[str]:
    return [event["event"] for event in found]


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "events.yaml"
    path.write_text(yaml.safe_dump(SMALL, sort_keys=False))
    return path


def test_the_schema_is_published(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(cli, ["schema", "events"]) == 0
    published = json.loads(capsys.readouterr().out)
    assert published == schema()
    jsonschema.Draft202012Validator.check_schema(published)
    kinds_of = [kind for kind in published["$defs"].values() if "event" in kind["properties"]]
    assert len(kinds_of) == len(get_args(Event))
    for kind in kinds_of:
        assert kind["description"]
        assert {"event", "time"} <= set(kind["required"])


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_from_its_start_to_its_end(
    config: Path, capsys: pytest.CaptureFixture[str], workers: int
) -> None:
    assert run_command(cli, ["run", str(config), "--json", "--workers", str(workers)]) == 0
    captured = capsys.readouterr()
    command, *of_runs, compared, done = events(captured.err)
    assert command == command | {"event": "started", "schema_version": 2, "command": "run", "run": None}
    assert (compared["event"], done["event"], done["exit_code"]) == ("compared", "done", 0)
    times = [event["time"] for event in (command, *of_runs, compared, done)]
    assert times == sorted(times)

    started = {event["model"]: event for event in of_runs if event["event"] == "started"}
    finished = {event["run"]: event for event in of_runs if event["event"] == "finished"}
    assert set(started) == {"xgb", "random"}
    assert len(of_runs) == 4
    for model, event in started.items():
        assert event == event | {"command": "run", "fold": "all", "seed": 1}
        assert of_runs.index(event) < of_runs.index(finished[event["run"]])
        record = load_run(Path(compared["report"]).parents[1] / event["run"]).record
        over = finished[event["run"]]
        assert over["metrics"] == {key: one.mean for key, one in record.metrics.items()}
        assert (over["best_round"], over["rounds_trained"]) == (record.best_round, record.rounds_trained), (
            model
        )
        assert over["seconds"] == record.seconds

    assert json.loads(captured.out)["verdict"]  # stdout is report.json, and nothing else
    stored = Path(compared["report"]).with_name("report.json").read_text()
    assert json.loads(stored) == json.loads(captured.out)


def test_a_model_that_fails_says_why_and_the_end_says_1(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = config.with_name("own.py")
    own.write_text(
        "from ltr_harness.models.random import RandomRanker\n"
        "class Bad(RandomRanker):\n"
        "    def fit(self, training): raise RuntimeError('no luck')\n"
    )
    config.write_text(
        yaml.safe_dump(
            {**SMALL, "models": {"random": {"ranker": "random"}, "bad": {"ranker": "./own.py:Bad"}}}
        )
    )
    assert run_command(cli, ["run", str(config), "--json", "--workers", "1"]) == 1
    found = events(capsys.readouterr().err)
    assert found[-1] == found[-1] | {"event": "done", "exit_code": 1}
    [failed] = [event for event in found if event["event"] == "failed"]
    [started] = [event for event in found if event.get("model") == "bad"]
    assert (failed["run"], failed["place"]) == (started["run"], "bad, seed 1")
    assert "no luck" in failed["found"]


def test_problems_are_events_one_by_one(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text(
        config.read_text().replace("max_depth", "max_dpeth").replace("ranker: random", "ranker: randm")
    )
    assert run_command(cli, ["run", str(config), "--json"]) == 2
    captured = capsys.readouterr()
    found = events(captured.err)
    problems = [event for event in found if event["event"] == "failed"]
    assert len(problems) == 2
    assert any("max_depth" in problem["cure"] for problem in problems)
    assert all(problem["place"].startswith(f"{config}:") for problem in problems)
    assert {problem["run"] for problem in problems} == {None}
    assert kinds(found)[-1] == "done"
    assert found[-1]["exit_code"] == 2
    assert captured.out == ""


def test_quiet_leaves_failures_and_the_end(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text(config.read_text().replace("ranker: random", "ranker: randm"))
    assert run_command(cli, ["run", str(config), "--json", "--quiet"]) == 2
    assert kinds(events(capsys.readouterr().err)) == ["failed", "done"]


def test_a_dry_run_trains_nothing(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(cli, ["run", str(config), "--json", "--dry-run"]) == 0
    found = events(capsys.readouterr().err)
    assert kinds(found) == ["started", "done"]


def test_ctrl_c_ends_the_stream_with_its_exit_code(config: Path) -> None:
    config.write_text(
        config.read_text()
        .replace("max_rounds: 6", "max_rounds: 1000000")
        .replace("patience: 3", "patience: 999999")
    )
    command = Command(config.parent / "streams", "run", config, "--json", "--workers", "1")
    try:
        command.wait_until(lambda: '"model":"xgb"' in command.stderr)
        command.send(signal.SIGINT)
        exit_code, _, stderr = command.wait()
    finally:
        command.process.kill()
    found = events(stderr)
    assert found[-1] == found[-1] | {"event": "done", "exit_code": 130}
    assert exit_code == 130


def test_warnings_are_cautions_at_the_end_and_defects_are_failures(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import click

    monkeypatch.delenv("LTR_HARNESS_TRACEBACK", raising=False)

    damaged = Caution("damaged-file", "note", "a.parquet is damaged", "it is read again")

    def fail() -> None:
        with EventStream("run", quiet=False):
            for what in ("the cache", "the report", "the cache"):
                logging.getLogger("ltr_harness.data.cache").warning("no space for %s", what)
            logging.getLogger("ltr_harness.data.cache").warning(damaged)
            raise ZeroDivisionError("seven")

    assert run_command(click.command()(fail), []) == 1
    found = events(capsys.readouterr().err)
    assert kinds(found) == ["started", "failed", "done"]
    assert [Caution(**one) for one in found[2]["cautions"]] == [
        Caution("logged", "warning", "no space for the cache"),
        Caution("logged", "warning", "no space for the report"),
        damaged,
    ]
    assert found[1]["found"] == "internal error: ZeroDivisionError: seven"
    Path(found[1]["cure"].rpartition("details: ")[2]).unlink()
    assert not logging.getLogger("ltr_harness").handlers


def test_a_lost_worker_and_a_failed_trial_are_cautions(capsys: pytest.CaptureFixture[str]) -> None:
    task: Any = "lgbm, seed 1"
    study: Any = "lgbm"
    trial: Any = SimpleNamespace(status="failed", number=3, error="no luck")
    with JsonProgress("run", quiet=False) as progress:
        progress.worker_lost(task)
        progress.trial_ended(study, trial)
        progress.trial_ended(study, SimpleNamespace(**{**vars(trial), "status": "complete"}))  # type: ignore[arg-type]
    cautions = [Caution(**one) for one in events(capsys.readouterr().err)[-1]["cautions"]]
    assert [one.kind for one in cautions] == ["lost-worker", "failed-trial"]
    assert [str(one) for one in cautions] == [
        "lgbm, seed 1: its worker died (killed, or out of memory); it starts again",
        "tuning lgbm: trial 3 FAILED: no luck",
    ]


@pytest.mark.usefixtures("empty_pictures")
def test_the_monitor_tells_its_report_and_its_exit_code(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    usual = ["monitor", str(repository / "configs" / "monitor_quickstart.yaml"), "--json"]
    code = run_command(cli, [*usual, "-o", str(tmp_path / "out")])
    captured = capsys.readouterr()
    found = events(captured.err)
    alerts = json.loads(captured.out)["alerts"]
    assert kinds(found) == ["started", "compared", "done"]
    assert (found[0]["command"], found[1]["report"]) == ("monitor", str(tmp_path / "out" / "report.html"))
    assert found[-1]["exit_code"] == code == (4 if alerts else 0)

    assert run_command(cli, [*usual, "--log", str(tmp_path / "none.parquet")]) == 2
    assert kinds(events(capsys.readouterr().err)) == ["started", "failed", "done"]


def test_what_is_undefined_is_null() -> None:
    undefined: dict[str, Any] = {
        "best_round": None,
        "rounds_trained": None,
        "metrics": {"ndcg@5": float("nan")},
    }
    line = json.loads(Finished(run="r", seconds={}, **undefined).model_dump_json())
    assert line["metrics"] == {"ndcg@5": None}
    VALIDATOR.validate(line)
