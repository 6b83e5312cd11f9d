"""`--json`: every line on stderr is an event of the published schema, however the command ends."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest
import yaml

from ltr_harness.cli import cli
from ltr_harness.cli.events import Event, EventStream, schema
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.runs import load_run

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
def test_a_run_from_began_to_ended(config: Path, capsys: pytest.CaptureFixture[str], workers: int) -> None:
    assert run_command(cli, ["run", str(config), "--json", "--workers", str(workers)]) == 0
    captured = capsys.readouterr()
    found = events(captured.err)
    assert kinds(found)[0] == "began"
    assert found[0]["schema_version"] == 1
    assert kinds(found)[-3:] == ["reporting", "reported", "ended"]
    assert found[-1]["exit_code"] == 0
    assert [event["time"] for event in found] == sorted(event["time"] for event in found)

    [planned] = [event for event in found if event["event"] == "planned"]
    assert {(run["model"], run["state"]) for run in planned["runs"]} == {
        ("xgb", "train"),
        ("random", "train"),
    }
    names = {run["model"]: run["run"] for run in planned["runs"]}
    for model, name in names.items():
        own = [event for event in found if event.get("run") == name]
        assert kinds(own)[0] == "started"
        assert kinds(own)[-1] == "finished"
        record = load_run(Path(planned["folder"]) / name).record
        assert own[-1]["metrics"] == {key: one.mean for key, one in record.metrics.items()}
        assert own[-1]["best_round"] == record.best_round, model
    history = load_run(Path(planned["folder"]) / names["xgb"]).history
    stored = {
        number: dict(zip(rows["metric"], rows["value"], strict=True))
        for number, rows in history.groupby("round")
    }
    rounds = {event["round"]: event["values"] for event in found if event["event"] == "round"}
    if workers == 1:
        assert rounds == stored
    else:  # a worker's last words are not waited for
        assert rounds.items() <= stored.items()

    assert json.loads(captured.out)["verdict"]  # stdout is report.json, and nothing else
    assert json.loads(Path(found[-2]["report"]).with_name("report.json").read_text()) == json.loads(
        captured.out
    )


def test_a_model_that_fails_says_why_and_the_end_says_1(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = config.with_name("own.py")
    own.write_text(
        "from ltr_harness.rankers.random import RandomRanker\n"
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
    assert found[-1] == found[-1] | {"event": "ended", "exit_code": 1}
    [failed] = [event for event in found if event.get("status") == "failed"]
    assert "no luck" in failed["error"]


def test_problems_are_events_one_by_one(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text(
        config.read_text().replace("max_depth", "max_dpeth").replace("ranker: random", "ranker: randm")
    )
    assert run_command(cli, ["run", str(config), "--json"]) == 2
    captured = capsys.readouterr()
    found = events(captured.err)
    problems = [event for event in found if event["event"] == "problem"]
    assert len(problems) == 2
    assert any("max_depth" in problem["cure"] for problem in problems)
    assert all(problem["place"].startswith(f"{config}:") for problem in problems)
    assert kinds(found)[-1] == "ended"
    assert found[-1]["exit_code"] == 2
    assert captured.out == ""


def test_quiet_leaves_problems_and_the_end(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text(config.read_text().replace("ranker: random", "ranker: randm"))
    assert run_command(cli, ["run", str(config), "--json", "--quiet"]) == 2
    assert kinds(events(capsys.readouterr().err)) == ["problem", "ended"]


def test_a_dry_run_trains_nothing(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(cli, ["run", str(config), "--json", "--dry-run"]) == 0
    found = events(capsys.readouterr().err)
    assert kinds(found) == ["began", "said", "planned", "ended"]


def test_ctrl_c_ends_the_stream_with_its_exit_code(config: Path) -> None:
    config.write_text(
        config.read_text()
        .replace("max_rounds: 6", "max_rounds: 1000000")
        .replace("patience: 3", "patience: 999999")
    )
    # a background job of a shell is started deaf to Ctrl-C
    listening = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    listening += "from ltr_harness.cli import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", listening, "run", str(config), "--json", "--workers", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            lines = []
            for line in process.stderr:
                lines.append(line)
                if '"round"' in line:
                    process.send_signal(signal.SIGINT)
                    break
            _, rest = process.communicate(timeout=120)
        finally:
            process.kill()
    found = events("".join(lines) + rest)
    assert found[-1] == found[-1] | {"event": "ended", "exit_code": 130}
    assert process.returncode == 130


def test_warnings_and_defects_are_events(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import click

    monkeypatch.delenv("LTR_HARNESS_TRACEBACK", raising=False)

    def broken() -> None:
        with EventStream("run", quiet=False):
            logging.getLogger("ltr_harness.cache").warning("no space for %s", "the cache")
            raise ZeroDivisionError("seven")

    assert run_command(click.command()(broken), []) == 1
    found = events(capsys.readouterr().err)
    assert kinds(found) == ["began", "said", "problem", "ended"]
    assert found[1]["text"] == "no space for the cache"
    assert found[2]["found"] == "internal error: ZeroDivisionError: seven"
    Path(found[2]["cure"].rpartition("details: ")[2]).unlink()
    assert not logging.getLogger("ltr_harness").handlers


def test_the_monitor_tells_its_alerts_and_its_exit_code(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    usual = ["monitor", str(repository / "configs" / "monitor_quickstart.yaml"), "--json"]
    code = run_command(cli, [*usual, "-o", str(tmp_path / "out")])
    captured = capsys.readouterr()
    found = events(captured.err)
    alerts = json.loads(captured.out)["alerts"]
    assert kinds(found) == ["began", *["alerted"] * len(alerts), "said", "reported", "ended"]
    assert [(one["kind"], one["text"]) for one in found if one["event"] == "alerted"] == [
        (one["kind"], one["text"]) for one in alerts
    ]
    assert found[-1]["exit_code"] == code == (4 if alerts else 0)

    assert run_command(cli, [*usual, "--log", str(tmp_path / "none.parquet")]) == 2
    assert kinds(events(capsys.readouterr().err)) == ["began", "problem", "ended"]


def test_what_is_undefined_is_null() -> None:
    from ltr_harness.cli.events import Round

    line = Round(run="r", round=1, values={"ndcg@5": float("nan")}).model_dump_json()
    assert json.loads(line)["values"] == {"ndcg@5": None}
    VALIDATOR.validate(json.loads(line))
