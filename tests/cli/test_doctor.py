"""`doctor` looks at the real machine, and says what to do where something is wrong."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from ltr_harness.cli import COMMANDS, cli
from ltr_harness.cli.commands import doctor
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.experiments.runs import identity
from ltr_harness.report import chart_engine


@pytest.mark.long
def test_a_sound_installation_has_nothing_that_failed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(cli, ["doctor", "--json"]) == 0
    found = {diagnosis["what"]: diagnosis for diagnosis in json.loads(capsys.readouterr().out)}
    assert {"versions", "cores", "lightgbm", "xgboost", "data cache", "worker processes"} <= found.keys()
    assert "trains lambdarank" in found["lightgbm"]["found"]
    assert "failed" not in {diagnosis["status"] for diagnosis in found.values()}


def test_what_fails_is_a_line_and_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        doctor, "_trains", lambda *_: (_ for _ in ()).throw(OSError("libgomp.so.1: cannot open"))
    )
    assert run_command(cli, ["doctor"]) == 1
    said = capsys.readouterr().out
    assert "failed  lightgbm: OSError: libgomp.so.1: cannot open; install ltr-harness again" in said
    assert "ok      charts" in said  # the rest is looked at all the same


def test_a_light_installation_has_notes_and_nothing_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = ("lightgbm", "vl_convert")
    for module in (doctor, chart_engine):
        monkeypatch.setattr(module, "find_spec", lambda name: None if name in absent else find_spec(name))
    monkeypatch.setattr(chart_engine, "_ENGINE", chart_engine._Engine())
    assert str(doctor._trains("lightgbm", "lambdarank")) == (
        "note    lightgbm: not installed: rankings are evaluated and compared, not trained; pip install lightgbm"
    )
    assert str(doctor._charts()).startswith("note    charts: not installed (vl-convert-python); pip install ")


def test_a_missing_extra_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    there = doctor._version
    monkeypatch.setattr(
        doctor, "_version", lambda name: "not installed" if name == "catboost" else there(name)
    )
    assert next(str(diagnosis) for diagnosis in doctor._extras()) == (
        "note    extra catboost: not installed (catboost); pip install 'catboost>=1.2.9'"
    )


def test_the_xgboost_without_gpu_libraries_is_xgboost(monkeypatch: pytest.MonkeyPatch) -> None:
    there = identity.metadata

    def find_metadata(name: str) -> Any:
        if name == "xgboost":
            raise PackageNotFoundError(name)
        return {"Version": "3.4.1"} if name == "xgboost-cpu" else there(name)

    monkeypatch.setattr(identity, "metadata", find_metadata)
    monkeypatch.setattr(identity, "_metadata", identity._metadata.__wrapped__)
    assert ", xgboost 3.4.1, " in str(next(doctor.examined()))
    assert doctor._trains("xgboost", "rank:ndcg").found.startswith("3.4.1 trains rank:ndcg")


def test_a_folder_that_cannot_be_written_is_noted(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    diagnosis = doctor._writable("data cache", file / "inside", "")
    assert (diagnosis.status, diagnosis.cure) == ("note", "nothing can be kept there")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_ask_the_program_itself(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(cli, ["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"_LTR_HARNESS_COMPLETE={shell}_complete" in script
    assert "ltr-harness" in script


@pytest.mark.long
def test_bash_completes_commands_and_options(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_LTR_HARNESS_COMPLETE", "bash_complete")

    def completions(words: str, at: int) -> list[str]:
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(at))
        with pytest.raises(SystemExit, match=r"^0$"):
            run_command(cli, [])
        return [line.partition(",")[2] for line in capsys.readouterr().out.splitlines()]

    assert completions("ltr-harness mo", 1) == ["monitor"]
    assert completions("ltr-harness run --wo", 2) == ["--workers"]
    assert completions("ltr-harness compare", 1) == ["compare", "compare-sets", "compare-labels"]
    assert completions("ltr-harness compare se", 2) == ["se"]  # files that begin so
    assert completions("ltr-harness compare sets --conv", 3) == ["--convention"]
    assert completions("ltr-harness compare-sets --we", 2) == ["--weights"]
    assert set(completions("ltr-harness ", 1)) == {name for group in COMMANDS.values() for name in group}
