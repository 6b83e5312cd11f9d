"""The chart engine: another process, the same pictures; when it dies, only the chart is lost."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ltr_harness.report import chart_engine, charts, html, write_report
from ltr_harness.report.blocks import Chart, Report, Section
from ltr_harness.report.chart_engine import EngineError
from ltr_harness.report.markdown import escape

SPEC = {"mark": "bar", "data": {"values": [{"a": "é", "b": 1}]}, "encoding": {"x": {"field": "a"}}}


@pytest.mark.long
def test_pictures_are_those_of_the_library() -> None:
    for kind in ("svg", "png"):
        here = chart_engine.render_request({"kind": kind, "spec": SPEC})
        assert chart_engine.draw(kind, SPEC) == here
    assert "é" in chart_engine.draw("svg", SPEC).decode()


def test_what_is_no_chart_is_an_error_and_the_next_one_is_drawn() -> None:
    with pytest.raises(EngineError, match=r"^Vega-Lite to SVG conversion failed: TypeError: [^\n]*$"):
        chart_engine.draw("svg", {"mark": {"type": 1}, "data": 3})
    assert chart_engine.draw("svg", SPEC).startswith(b"<svg")


@pytest.mark.long
def test_a_lost_engine_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    chart_engine.warm_up()
    process = chart_engine._ENGINE._process
    assert process is not None
    process.kill()
    process.wait()
    assert chart_engine.draw("svg", SPEC).startswith(b"<svg")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(EngineError, match="the chart engine cannot be started: No such file"):
        chart_engine._Engine().ask({"kind": "svg", "spec": SPEC})


@pytest.mark.long
def test_a_machine_that_was_full_while_it_trained_draws_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory or processes may be short while models train, and not when the charts are drawn."""
    monkeypatch.setattr(chart_engine, "_ENGINE", chart_engine._Engine())
    tries: list[str] = []
    popen = subprocess.Popen

    def raise_full(*given: Any, **options: Any) -> Any:
        tries.append("full")
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", raise_full)
    chart_engine.warm_up()
    monkeypatch.setattr(subprocess, "Popen", popen)
    assert chart_engine.draw("svg", SPEC).startswith(b"<svg")
    monkeypatch.setattr(chart_engine, "_ENGINE", chart_engine._Engine())
    monkeypatch.setattr(subprocess, "Popen", raise_full)
    for _ in range(3):
        with pytest.raises(EngineError, match="cannot be started: Resource temporarily unavailable"):
            chart_engine.draw("svg", SPEC)
    assert tries == ["full"] * 2  # in vain for each chart


@pytest.mark.long
def test_it_dies_alone_of_what_no_xml_may_hold(capfd: pytest.CaptureFixture[str]) -> None:
    values = [{"a": "x\x00y", "b": 1}]
    deadly = {**SPEC, "data": {"values": values}, "encoding": {"x": {"field": "a", "type": "nominal"}}}
    line = json.dumps({"kind": "svg", "spec": deadly}).encode() + b"\n"
    assert chart_engine._ENGINE._answer(line) is None
    assert chart_engine._ENGINE._death == "the chart engine crashes on it"
    assert chart_engine.draw("svg", SPEC).startswith(b"<svg")
    assert capfd.readouterr().err == ""


def test_what_an_engine_dies_of_is_asked_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = chart_engine._Engine(_ready=True, _death="the chart engine crashes on it")
    answers: list[dict[str, str] | None] = [None, {"done": "PHN2Zz4="}, None, None]
    monkeypatch.setattr(engine, "_answer", lambda line: answers.pop(0))
    assert engine.ask({"kind": "svg", "spec": SPEC}) == b"<svg>"
    with pytest.raises(EngineError, match="the chart engine crashes on it"):
        engine.ask({"kind": "svg", "spec": SPEC})
    assert answers == []


@pytest.fixture
def little_address_space(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Limit the address space as `ulimit -v` does on many clusters, with an engine that has not been started."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_AS)
    monkeypatch.setattr(chart_engine, "_ENGINE", chart_engine._Engine())
    resource.setrlimit(resource.RLIMIT_AS, (48_000_000_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.long
@pytest.mark.usefixtures("little_address_space")
def test_without_room_for_the_engine_the_report_has_descriptions(
    report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("LTR_HARNESS_CACHE", str(tmp_path / "nothing-kept"))
    chart_engine.vega_bundle.cache_clear()
    page = write_report(report, tmp_path)
    why = "the chart engine reserves about 100 GB of address space, and ulimit -v allows 48 GB"
    html, markdown = page.read_text(), (tmp_path / "report.md").read_text()
    assert f"Descriptions stand in place of the charts: {why}." in html
    assert html.count("<script>") == 1
    (chart,) = (one for one in report.charts if one.name == "paired_differences")
    assert f"> Not drawn: {why}. {escape(chart.text)}" in markdown
    assert "](charts/" not in markdown
    assert not list(tmp_path.glob("charts/*"))
    assert (tmp_path / "report.json").exists()
    assert caplog.messages == [
        f"report.html has descriptions instead of charts: {why}",
        "6 of 6 charts not drawn (difference_over_k, paired_differences, difference_distribution, "
        f"value_distribution, learning_curves, pareto_front): {why}",
    ]


def test_without_the_engine_there_is_one_note(
    report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(chart_engine, "_ENGINE", chart_engine._Engine())
    monkeypatch.setattr(chart_engine, "find_spec", lambda name: None)
    chart_engine.vega_bundle.cache_clear()
    page = write_report(report, tmp_path, ["html", "md", "svg"])
    why = "vl-convert-python is not installed; pip install vl-convert-python"
    assert caplog.messages == [f"report.html has descriptions instead of charts: {why}"]
    assert f"Descriptions stand in place of the charts: {why}." in page.read_text()
    assert f"> Not drawn: {why}." in (tmp_path / "report.md").read_text()
    assert not list(tmp_path.glob("charts/*"))


def test_ctrl_c_waits_for_no_chart_that_nobody_has_begun(
    report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine with other work it took a minute; found by killing commands for an hour."""
    drawn = []

    def draw_slowly(chart: Chart) -> str:
        time.sleep(0.2)
        drawn.append(chart.name)
        return "<svg/>"

    def interrupt(built: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(charts, "svg", draw_slowly)
    monkeypatch.setattr(html, "render", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_report(report, tmp_path, ["html", "svg"])
    assert len(drawn) <= 1 < len(report.charts)


@pytest.mark.long
def test_one_chart_that_cannot_be_drawn_costs_that_chart(
    report: Report, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken = Chart("broken", "A chart", {"mark": {"type": 1}, "data": 3}, "what it shows")
    drawn = next(section for section in report.sections if section.charts)
    with_broken = dataclasses.replace(report, sections=(drawn, Section("more", (broken,))))
    write_report(with_broken, tmp_path, ["md", "svg"])
    text = (tmp_path / "report.md").read_text()
    assert "*A chart*\n\n> Not drawn: Vega-Lite to SVG conversion failed: " in text
    assert text.rstrip().endswith("what it shows")
    assert len(list(tmp_path.glob("charts/*.svg"))) == len(drawn.charts)
    (said,) = caplog.messages
    assert said.startswith(f"1 of {len(drawn.charts) + 1} charts not drawn (broken): Vega-Lite to SVG")


@pytest.mark.long
def test_it_ends_with_its_process_however_that_ends(tmp_path: Path) -> None:
    script = (
        "from ltr_harness.report import chart_engine as engine; "
        "engine.draw('svg', {'mark': 'point', 'data': {'values': []}}); "
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


@pytest.mark.long
def test_whose_asker_was_killed_ends_without_a_word() -> None:
    request = json.dumps({"kind": "svg", "spec": SPEC}).encode() + b"\n"
    process = subprocess.Popen(
        [sys.executable, "-P", chart_engine.__file__],
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
