"""The charts' program comes out of the cache as it went in, or is made anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.report import chart_engine


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.delenv("LTR_HARNESS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(chart_engine._ENGINE, "ask", lambda request: b"var vega = 1;\n")
    chart_engine.vega_bundle.cache_clear()
    yield tmp_path / "ltr-harness" / "charts"
    chart_engine.vega_bundle.cache_clear()


def test_it_is_kept_and_found_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert chart_engine.vega_bundle() == "var vega = 1;\n"
    assert len(list(folder.iterdir())) == 1
    chart_engine.vega_bundle.cache_clear()
    monkeypatch.setattr(chart_engine._ENGINE, "ask", lambda request: pytest.fail("bundled again"))
    assert chart_engine.vega_bundle() == "var vega = 1;\n"


@pytest.mark.parametrize("damage", ["", "0000\nalert(1)", "half"])
def test_a_damaged_file_is_not_believed(folder: Path, damage: str) -> None:
    chart_engine.vega_bundle()
    (kept,) = folder.iterdir()
    kept.write_text(damage)
    chart_engine.vega_bundle.cache_clear()
    assert chart_engine.vega_bundle() == "var vega = 1;\n"
    assert kept.read_text().endswith("var vega = 1;\n")


def test_without_a_writable_folder_nothing_is_kept_and_nothing_is_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.parent.mkdir()
    folder.write_text("a file where the folder should be")
    assert chart_engine.vega_bundle() == "var vega = 1;\n"


def test_it_is_in_the_cache_folder_of_all(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LTR_HARNESS_CACHE", "off")
    assert chart_engine.vega_bundle() == "var vega = 1;\n"
    assert list(tmp_path.iterdir()) == []
    chart_engine.vega_bundle.cache_clear()
    monkeypatch.setenv("LTR_HARNESS_CACHE", str(tmp_path / "mine"))
    chart_engine.vega_bundle()
    assert [path.parent.name for path in tmp_path.rglob("vega-*.js")] == ["charts"]
    assert run_command(cli, ["data", "cache", "--clear"]) == 0
    assert list(tmp_path.rglob("vega-*.js")) == []
