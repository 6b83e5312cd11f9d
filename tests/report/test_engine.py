"""The chart engine: another process, the same pictures, and drawing goes on without it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ltr_harness.report import engine, engine_process

SPEC = {"mark": "bar", "data": {"values": [{"a": "é", "b": 1}]}, "encoding": {"x": {"field": "a"}}}


def test_pictures_are_those_of_the_library() -> None:
    for kind in ("svg", "png"):
        here = engine_process.answer({"kind": kind, "spec": SPEC}, engine.VEGALITE_VERSION)
        assert engine.draw(kind, SPEC) == here
    assert "é" in engine.draw("svg", SPEC).decode()


def test_what_is_no_chart_is_an_error_and_the_next_one_is_drawn() -> None:
    with pytest.raises(ValueError, match="Vega"):
        engine.draw("svg", {"mark": {"type": 1}, "data": 3})
    assert engine.draw("svg", SPEC).startswith(b"<svg")


def test_a_lost_engine_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = engine._Engine()
    mine.start()
    assert mine._process is not None
    mine._process.kill()
    mine._process.wait()
    assert mine.ask({"kind": "svg", "spec": SPEC}).startswith(b"<svg")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert engine._Engine().ask({"kind": "svg", "spec": SPEC}).startswith(b"<svg")


def test_it_ends_with_its_process_however_that_ends(tmp_path: Path) -> None:
    script = (
        "from ltr_harness.report import engine; engine.draw('svg', {'mark': 'point', 'data': {'values': []}}); "
        "print(engine._ENGINE._process.pid, flush=True); import os; os.kill(os.getpid(), 9)"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    pid = int(found.stdout)
    assert found.stderr == ""
    for _ in range(100):
        stat = Path(f"/proc/{pid}/stat")
        try:
            if stat.read_text().rsplit(")", 1)[1].split()[0] == "Z":  # ended; nobody has asked how
                return
        except OSError:
            return
        subprocess.run(["sleep", "0.05"], check=True)
    pytest.fail("the engine outlived the process that asked")


def test_whose_asker_was_killed_ends_without_a_word() -> None:
    request = json.dumps({"kind": "svg", "spec": SPEC}).encode() + b"\n"
    process = subprocess.Popen(
        [sys.executable, "-P", engine_process.__file__, engine.VEGALITE_VERSION],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    process.stdin.write(request)
    process.stdin.close()
    assert process.wait(timeout=60) == 0
    assert process.stderr.read() == b""
    process.stderr.close()
