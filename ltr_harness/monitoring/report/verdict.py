"""What moved, where, and why: the first screen."""

from __future__ import annotations

from ltr_harness.monitoring.results.answers import Change, Interval
from ltr_harness.monitoring.results.result import MonitorResult
from ltr_harness.report.blocks import (
    Badge,
    Block,
    Bullets,
    Cell,
    Column,
    Estimate,
    Heading,
    Paragraph,
    Table,
    Text,
    strong,
)
from ltr_harness.wording import count_of

_SHOWN = 8


def section(result: MonitorResult) -> list[Block]:
    verdict = result.verdict
    blocks: list[Block] = [Heading("Verdict"), Paragraph(verdict.what, "lead")]
    if verdict.where:
        blocks.append(Paragraph(verdict.where))
    if result.alerts:
        blocks.append(_alerts(result))
    if verdict.untold:
        blocks.append(Paragraph(verdict.untold, "note"))
    if result.changes:
        blocks.append(_changes(result))
    else:
        blocks.append(_means(result))
    blocks.append(_conventions(result))
    blocks += [Paragraph(f"Notice: {notice}.", "note") for notice in result.notices]
    return blocks


def _alerts(result: MonitorResult) -> Bullets:
    """One line each, but for windows: they are red in the chart below, and here only counted."""
    windows = [alert for alert in result.alerts if alert.window]
    counted = windows if len(windows) > 1 else []
    shown = [alert for alert in result.alerts if alert not in counted]
    lines: list[Text] = [(strong(alert.kind), f" {alert.text}") for alert in shown[:_SHOWN]]
    if len(shown) > _SHOWN:
        lines.append(f"… and {count_of(len(shown) - _SHOWN, 'more alert')}, in the sections below")
    if counted:
        first, last = counted[0].window, counted[-1].window
        lines.append(
            (
                strong("change"),
                f" in {len(counted)} of {count_of(len(result.windows), 'window')}, from {first} to {last}",
            )
        )
    return Bullets(tuple(lines))


def estimate(interval: Interval | None) -> Estimate | None:
    """A cell with its interval."""
    return None if interval is None else Estimate(interval.value, interval.low, interval.high)


def raised(result: MonitorResult) -> Badge:
    """Of a difference that is significant and large: an alert, unless something else explains it."""
    demoted = not any(alert.kind == "change" for alert in result.alerts)
    return Badge("notice", "neutral") if demoted else Badge("alert", "bad")


def label(result: MonitorResult) -> str:
    return f"{100 * result.confidence:g} %"


def _changes(result: MonitorResult) -> Table:
    columns = (
        Column("Metric", "code"),
        Column("Baseline", "metric"),
        Column("Production", "metric"),
        Column(f"Difference [{label(result)} interval]", "difference"),
        Column("Relative", "relative"),
        Column("p", "p", hint="One test, uncorrected; of the primary metric's, the corrected one decides."),
        Column("p corrected", "p", hint=result.family),
        Column("Queries", "count"),
        Column("Verdict"),
    )
    return Table(
        "changes",
        f"All mature queries against the baseline, {result.baseline_kind}; the first metric raises alerts.",
        columns,
        tuple(_row(change, at == 0, result) for at, change in enumerate(result.changes)),
        notes=(f"{result.changes[0].method}. {result.family}.",),
        sortable=False,
    )


def _row(change: Change, primary: bool, result: MonitorResult) -> tuple[Cell, ...]:
    word = (
        raised(result)
        if change.alert
        else Badge("too small to matter", "neutral")
        if change.below_min_drop
        else Badge("no alert", "good")
    )
    return (
        change.metric,
        change.baseline.value,
        change.production.value,
        estimate(change.difference),
        change.relative,
        change.difference.p,
        change.p_corrected if primary else None,
        change.production.n,
        word if primary else None,
    )


def _means(result: MonitorResult) -> Table:
    n = sum(w.n_defined for w in result.windows)

    def mean(metric: str) -> float:
        known = [w for w in result.windows if w.means[metric] == w.means[metric]]
        total = sum(w.n_defined for w in known)
        return sum(w.means[metric] * w.n_defined for w in known) / total if total else float("nan")

    return Table(
        "means",
        "Production; nothing was given to compare it with.",
        (Column("Metric", "code"), Column("Mean", "metric"), Column("Queries", "count")),
        tuple((metric, mean(metric), n) for metric in result.metrics),
        sortable=False,
    )


def _conventions(result: MonitorResult) -> Table:
    rows = tuple(
        (c.log, c.n_queries, c.n_without_relevant, c.skip, c.zero, c.one) for c in result.conventions
    )
    return Table(
        "conventions",
        f"{result.primary} under each rule for queries without a relevant document; lost labels raise the last column.",
        (
            Column("Log"),
            Column("Queries", "count"),
            Column("Without relevant document", "count"),
            Column("left out", "metric"),
            Column("count 0", "metric"),
            Column("count 1", "metric", hint="What LightGBM and XGBoost report."),
        ),
        rows,
        sortable=False,
    )
