"""The first lines: alerts on the page, demoted ones, and slices that half of the queries must confirm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ltr_harness.monitoring import monitor
from ltr_harness.monitoring.page import build_monitor_report
from ltr_harness.monitoring.result import MonitorResult
from ltr_harness.monitoring.synthetic import SyntheticLog
from ltr_harness.report.blocks import Badge, Bullets, Table

Queries = Callable[..., pd.DataFrame]
Analyse = Callable[..., MonitorResult]


@pytest.mark.long
def test_windows_are_counted_and_the_slice_is_named(quickstart_result: MonitorResult) -> None:
    verdict = build_monitor_report(quickstart_result).sections[0].blocks
    bullets = next(block for block in verdict if isinstance(block, Bullets))
    said = ["".join(part if isinstance(part, str) else part.text for part in item) for item in bullets.items]
    assert [line.split()[0] for line in said] == ["change", "slice", "change"]
    assert "all of production" in said[0]
    assert "country=D" in said[1]
    assert said[2] == "change in 7 of 14 windows, from 2026-01-26 to 2026-02-01"
    assert [a.window for a in quickstart_result.alerts] == [
        "",
        *(f"2026-01-{d}" for d in range(26, 32)),
        "2026-02-01",
        "",
    ]


@pytest.mark.long
def test_the_verdict_says_why(quickstart_result: MonitorResult) -> None:
    assert quickstart_result.verdict.where.endswith(
        "Neither the mix of segments nor a drifted feature explains it: the ranking is the first suspect."
    )


def test_an_improvement_is_called_one(query_table: Queries, analyse: Analyse) -> None:
    random = np.random.default_rng(1)
    values = random.beta(8, 2, (2, 2000))
    better = analyse(query_table(np.minimum(values[0] + 0.05, 1)), query_table(values[1], prefix="b"))
    assert better.verdict.cause == "improved"
    assert better.verdict.what.startswith("ndcg@10 rose: ")
    assert better.healthy


@pytest.mark.long
def test_a_changed_page_is_told_in_two_notices_not_in_one_per_window() -> None:
    clicks: dict[str, Any] = {
        "columns": {"query_id": "request_id", "rank": "position", "timestamp": "ts"},
        "relevance": {"events": {"click": 1}},
        "metrics": ["ndcg@10"],
        "propensity": {"column": "examination"},
        "compare": {"min_drop": 0.03},
    }
    plain: dict[str, Any] = {"days": 8, "queries_per_day": 500, "items": 10}
    page = SyntheticLog(seed=2, start="2026-01-19", examination=0.5, **plain)
    told = monitor(clicks, log=page, baseline=SyntheticLog(seed=1, **plain))
    assert told.healthy
    about = [caution.text for caution in told.cautions if caution.kind == "change"]
    assert len(about) == 2
    why = "corrected for the page, the ranking did not get worse"
    assert about[0].endswith(f"all of production against the baseline (no alert: {why})")
    assert "the same in" in about[1]
    page_of = {section.name: section.blocks for section in build_monitor_report(told).sections}
    badges = [
        cell.text
        for name in ("verdict", "windows")
        for table in page_of[name]
        if isinstance(table, Table)
        for row in table.rows
        for cell in row
        if isinstance(cell, Badge)
    ]
    assert "caution" in badges
    assert "alert" not in badges  # nothing is called one that did not raise one


def slice_tables(seed: int, query_table: Queries, drop: float) -> tuple[pd.DataFrame, pd.DataFrame]:
    random = np.random.default_rng(seed)
    tables = []
    for side in range(2):
        country = random.choice(list("ABCD"), 4000)
        values = 0.7 + 0.1 * random.standard_normal(4000) - drop * ((country == "D") & (side == 0))
        tables.append(query_table(values, segments={"country": country}, prefix="nb"[side]))
    return tables[0], tables[1]


def test_the_half_that_did_not_choose_the_slice_has_the_word(query_table: Queries, analyse: Analyse) -> None:
    seen = analyse(*slice_tables(1, query_table, 0.05), slices={"confirm_split": True})
    (line,) = (alert.text for alert in seen.alerts if alert.kind == "slice")
    confirmed = seen.slices[0].confirmed
    assert confirmed is not None
    assert str(confirmed) in line
    assert line.endswith("(confirmed by the other half of the queries)")


def test_what_the_other_half_does_not_confirm_is_no_alert(query_table: Queries, analyse: Analyse) -> None:
    """The slice is bad in one half only: the searching one."""
    import zlib

    now, before = slice_tables(2, query_table, 0.0)
    country = now["segment:country"].astype(str)
    searched = np.array([zlib.crc32(str(name).encode()) & 1 == 1 for name in now["query_id"]])
    values = now["metric:ndcg@10"] - 0.05 * ((country == "D") & searched)
    half = query_table(values, segments={"country": country}, prefix="n")
    seen = analyse(half, before, slices={"confirm_split": True})
    assert [s.predicate for s in seen.slices] == ["country=D"]
    assert not any(alert.kind == "slice" for alert in seen.alerts)
    assert any("not confirmed by the other half of the queries" in caution.text for caution in seen.cautions)
    whole = analyse(half, before)
    assert any(alert.kind == "slice" for alert in whole.alerts)


def test_without_a_baseline_the_worst_slice_has_no_before(query_table: Queries, analyse: Analyse) -> None:
    now, _ = slice_tables(3, query_table, 0.1)
    found = analyse(now, None)
    assert found.healthy
    (line,) = (caution.text for caution in found.cautions if "country=D" in caution.text)
    slice_ = found.slices[0]
    assert found.verdict.cause == "none"
    assert found.verdict.where == (
        f"It is worst in country=D ({slice_.now:.3f}, {slice_.excess.value:+.3f} against the rest, "
        f"{100 * slice_.share:.1f} % of queries)."
    )
    assert line.startswith("slice ndcg@10 in country=D -0.")
    assert "against the rest" in line
    (table,) = (
        block
        for section in build_monitor_report(found).sections
        for block in section.blocks
        if isinstance(block, Table) and block.name == "slices"
    )
    assert [c.label for c in table.columns][:5] == [
        "Slice",
        "Excess [90 % interval]",
        "Queries",
        "Share",
        "Now",
    ]
    assert "is below the rest's" in table.caption
    texts = [str(block) for section in build_monitor_report(found).sections for block in section.blocks]
    assert not any("nan ->" in text for text in [found.verdict.text, *texts])


def test_the_headline_counts_the_whole_and_the_alert_a_part(query_table: Queries, analyse: Analyse) -> None:
    """A slice fell, the whole fell as well but not beyond correction: that is no "no alert"."""
    random = np.random.default_rng(8)
    day = np.repeat(np.arange(10), 400)
    tables = []
    for side in range(2):
        country = random.choice(list("ABCD"), 4000)
        values = 0.7 + 0.3 * random.standard_normal(4000) - 0.09 * ((country == "D") & (side == 0))
        tables.append(query_table(values, days=day, segments={"country": country}, prefix="nb"[side]))
    found = analyse(*tables, compare={"correct": "sequence"})
    change = found.changes[0]
    assert [alert.kind for alert in found.alerts] == ["slice"]
    assert change.difference.high < 0
    assert change.p_corrected > 0.05
    assert found.verdict.what == (
        f"ndcg@10 fell: {change.baseline.value:.4f} -> {change.production.value:.4f}, {change.difference}; "
        f"over all of production not significant after correction (p = {change.p_corrected:.4f})."
    )
    assert "country=D" in found.verdict.where


def test_too_small_to_matter_over_all_is_no_promise_about_the_parts(
    query_table: Queries, analyse: Analyse
) -> None:
    now, before = slice_tables(4, query_table, 0.035)
    found = analyse(now, before)
    assert found.changes[0].below_min_drop
    assert [alert.kind for alert in found.alerts] == ["slice"]
    assert "no alert" not in found.verdict.text
    assert "less than min_drop 0.01" in found.verdict.what


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 12))]
)
def test_a_verdict_never_denies_an_alert(seed: int, query_table: Queries, analyse: Analyse) -> None:
    random = np.random.default_rng(seed)
    tables = []
    drop, inside = random.choice([0.0, 0.012, 0.03], 2)
    for side in range(2):
        country = random.choice(list("ABCD"), 3000)
        values = (
            0.7 + 0.2 * random.standard_normal(3000) - (side == 0) * (drop + 3 * inside * (country == "D"))
        )
        day = np.repeat(np.arange(6), 500)
        tables.append(query_table(values, days=day, segments={"country": country}, prefix="nb"[side]))
    found = analyse(*tables)
    if found.alerts:
        assert found.verdict.cause not in ("healthy", "improved", "none")
        assert "no alert" not in found.verdict.text
    else:
        assert found.exit_code == 0
    change = found.changes[0].difference
    word = "fell" if change.high < 0 else "rose" if change.low > 0 else None
    if word and not found.verdict.what.startswith("ndcg@10 moved in"):
        assert f" {word}" in found.verdict.what or "changed significantly" in found.verdict.what
