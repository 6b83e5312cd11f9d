"""The terminal when a run ends."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from rich.cells import cell_len

from ltr_harness.comparison.contrasts import SystemResult
from ltr_harness.report import ReportData
from ltr_harness.report.terminal import render, show


def test_the_table_fits_80_columns(data: ReportData) -> None:
    text = render(data)
    assert max(map(len, text.splitlines())) <= 80
    pair, summary = data.paired("xgb-ndcg", "ndcg@10"), data.comparison.summary("xgb-ndcg", "ndcg@10")
    assert pair is not None
    (row,) = (line for line in text.splitlines() if line.startswith("xgb-ndcg  "))
    assert row.split() == [
        "xgb-ndcg",
        f"{summary.mean:.4f}",
        f"{summary.ci_low:.4f}",
        f"{summary.ci_high:.4f}",
        f"{pair.difference:+.4f}",
        f"{pair.ci_low:+.4f}",
        f"{pair.ci_high:+.4f}",
        f"{pair.p_corrected:.4f}",
        "·",
    ]
    assert "Queries without relevant documents: 40 of 200." in text
    assert "\x1b" not in text


@pytest.mark.long
def test_hostile_names_stay_inside_the_table(
    make_data: Callable[..., ReportData], make_system: Callable[..., SystemResult], hostile_names: list[str]
) -> None:
    names = [*hostile_names, "\x1b[31mred\x1b[0m", "[bold]b[/bold]", ":smile:"]
    systems = [make_system(name, 0.01 * at, metrics=["ndcg@10"]) for at, name in enumerate(names)]
    data = make_data(systems=systems, draws=200)
    text = render(data)
    assert max(map(cell_len, text.splitlines())) <= 80
    assert "\x1b" not in text
    assert any(line.startswith("x y  ") for line in text.splitlines())  # its line break is a blank
    assert "[bold]b[/bold]" in text
    assert ":smile:" in text
    assert text.replace("\n", "").replace(" ", "").count("l" * 10) >= 1


def test_colour_only_on_a_terminal(data: ReportData, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    coloured, plain, wished_plain = Terminal(), io.StringIO(), Terminal()
    show(data, coloured)
    show(data, plain)
    monkeypatch.setenv("NO_COLOR", "1")
    show(data, wished_plain)
    assert "\x1b[" in coloured.getvalue()
    assert "\x1b" not in plain.getvalue()
    assert wished_plain.getvalue() == plain.getvalue()


def test_a_terminal_without_unicode_gets_ascii(data: ReportData) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    show(data, stream)
    stream.flush()
    assert b"v worse" in raw.getvalue()


@pytest.mark.long
def test_failures_are_named(make_data: Callable[..., ReportData], make_record: Callable[..., object]) -> None:
    text = render(make_data(failures=[make_record("xgb", seed=2, error="label 31 is too large\nmore")]))
    assert "1 run failed (xgb)" in text
    assert "  xgb, fold all, seed 2: label 31 is too large" in text


def test_one_model_has_nothing_to_compare_with(
    make_data: Callable[..., ReportData], make_system: Callable[..., SystemResult]
) -> None:
    text = render(make_data(systems=[make_system("only", 0.1)]))
    assert "change" not in text
    assert text.startswith("only: ndcg@10 0.")
