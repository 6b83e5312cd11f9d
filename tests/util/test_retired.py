"""Each retired name is refused with one sentence that says what to do instead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ltr_harness._util.retired import RETIRED, retirement
from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.errors import ConfigError
from ltr_harness.experiments.config import load_experiment
from ltr_harness.monitoring.load import load_monitor_config
from tests.conftest import named_case

SMALL = """\
name: small
data: {reader: synthetic}
stopping: {metric: ndcg@10}
models: {trees: {ranker: lightgbm}}
"""

# what stands in line 5 of an experiment file, and the place and name that the message begins with
IN_EXPERIMENTS = {
    "references": ("references: [{source: a, values: {trees: {mrr: 1}}}]", "5:1: references"),
    "report section published": (
        "report: {sections: [verdict, published]}",
        "5:30: report.sections.1: report section published",
    ),
    "compare.correction": ("compare: {correction: none}", "5:11: compare.correction"),
}


[RUN] = (Path(__file__).parents[1] / "experiments" / "runs" / "frozen" / "v1").glob("lgbm--*")
EXPORT = ["export", "model", str(RUN), "-o", "model", "--to"]

COMMANDS = {
    "data get": ["data", "get", "mq2008"],
    "format ranklib": [*EXPORT, "ranklib"],
    "format solr": [*EXPORT, "solr"],
    "format treelite": [*EXPORT, "treelite"],
    "compare sets": ["compare", "sets", "runs/a", "runs/b", "--weights", "a=1,b=2"],
    "compare labels": ["compare", "labels", "a.run", "b.run", "--qrels", "human.txt", "--cheap", "llm.txt"],
    "compare interleaved": ["compare", "interleaved", "log.csv", "--json"],
    "power --interleaving": ["power", "--interleaving", "--difference", "0.02"],
    "--strata": ["evaluate", "--data", "log.parquet", "--sample", "100", "--strata", "market"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_told_the_cure(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(cli, COMMANDS[name]) == 2
    assert capsys.readouterr().err.endswith(f"rror: {name}: {RETIRED[name]}\n")


def test_an_input_may_be_called_like_a_retired_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sets").mkdir()
    assert run_command(cli, ["compare", "sets"]) == 2
    assert capsys.readouterr().err.startswith("error: sets: contains no run")


OPTIONS = {"--correction": ["compare", "a.csv", "b.csv", "--correction", "none"]}


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_is_told_the_cure(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(cli, OPTIONS[name]) == 2
    assert f"Error: {name}: {RETIRED[name]}\n" in capsys.readouterr().err


@pytest.fixture
def problems_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """The problems of an experiment file in the current folder."""
    monkeypatch.chdir(tmp_path)

    def problems(text: str, name: str = "exp.yaml") -> list[str]:
        Path(name).write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError) as caught:
            load_experiment(Path("exp.yaml"))
        return [str(problem) for problem in caught.value.problems]

    return problems


@pytest.mark.parametrize("name", IN_EXPERIMENTS)
def test_an_experiment_file_is_told_the_line_and_the_cure(
    name: str, problems_of: Callable[..., list[str]]
) -> None:
    line, place = IN_EXPERIMENTS[name]
    assert problems_of(f"{SMALL}{line}\n") == [f"exp.yaml:{place}: {RETIRED[name]}"]


def test_a_base_is_told_its_own_line(problems_of: Callable[..., list[str]]) -> None:
    Path("exp.yaml").write_text("extends: base.yaml\nseeds: [2]\n", encoding="utf-8")
    found = problems_of(f"{SMALL}references: []\n", "base.yaml")
    assert found == [f"base.yaml:5:1: references: {RETIRED['references']}"]


def test_a_monitoring_file_is_told_the_line_and_the_cure(tmp_path: Path) -> None:
    """The default, which every stored config.yaml of version 1 holds, passes."""
    path = tmp_path / "monitor.yaml"
    settings = "columns: {rank: rank}\nmetrics: [mrr]\n"
    path.write_text(settings, encoding="utf-8")
    expected = load_monitor_config(path)
    path.write_text(f"{settings}seed: 0\n", encoding="utf-8")
    assert load_monitor_config(path) == expected
    for value in ("7", "false", "null"):
        path.write_text(f"{settings}seed: {value}\n", encoding="utf-8")
        with pytest.raises(
            ConfigError, match=rf"monitor\.yaml:3:1: monitor seed: {RETIRED['monitor seed']}$"
        ):
            load_monitor_config(path)


def test_the_sentence_is_one_line_with_a_cure() -> None:
    for name in RETIRED:
        with named_case(name):
            sentence = retirement(name)
            assert sentence is not None
            assert "\n" not in sentence
            assert not sentence.endswith(".")
