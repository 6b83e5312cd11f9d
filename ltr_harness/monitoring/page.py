"""From a monitoring result to the same pages that compare models: same blocks, same renderers, same charts."""

import json
import math
from pathlib import Path

import ltr_harness.monitoring.limits as limits
from ltr_harness._util.catalog import Catalog
from ltr_harness._util.text import count_of
from ltr_harness.comparison.stats.two_samples import Estimate
from ltr_harness.monitoring.arms import sentence
from ltr_harness.monitoring.evidence import CORRECTED
from ltr_harness.monitoring.result import MonitorResult, drawn, table_of
from ltr_harness.monitoring.windows import timeline
from ltr_harness.report import blocks
from ltr_harness.report.blocks import Badge, Block, Column, Heading, Paragraph, Table, Text
from ltr_harness.report.sections.definitions import metric_items
from ltr_harness.report.writing import write_report

MONITOR_SECTIONS = {
    "verdict": "ltr_harness.monitoring.page:verdict_section",
    "metrics": "ltr_harness.monitoring.page:metrics_section",
    "limits": "ltr_harness.monitoring.limits:section",
    "windows": "ltr_harness.monitoring.windows:section",
    "over_time": "ltr_harness.monitoring.over_time:section",
    "arms": "ltr_harness.monitoring.arms:section",
    "online": "ltr_harness.monitoring.change:online_section",
    "slices": "ltr_harness.monitoring.slices:section",
    "mix": "ltr_harness.monitoring.change:section",
    "drift": "ltr_harness.monitoring.inputs:section",
    "parity": "ltr_harness.monitoring.parity:section",
    "presentation": "ltr_harness.monitoring.labels:presentation_section",
    "worst": "ltr_harness.monitoring.slices:worst_section",
    "labels": "ltr_harness.monitoring.labels:section",
    "empty_rules": "ltr_harness.monitoring.labels:empty_rules_section",
    "log": "ltr_harness.monitoring.labels:log_section",
    "definitions": "ltr_harness.monitoring.page:definitions_section",
}
GROUPS = {
    blocks.Group("What changed", "By how much, and when?"): (
        "metrics", "limits", "windows", "over_time", "arms", "online",
    ),
    blocks.Group("Where and why", "On which queries, and does something other than the ranking explain it?"): (
        "slices", "mix", "drift", "parity", "presentation", "worst",
    ),
    blocks.Group("Can I trust it?", "Are labels and log fit to be judged, and by which rules was it done?"): (
        "labels", "empty_rules", "log", "definitions",
    ),
}  # fmt: skip
"""Sections of other packages stand in the last."""
catalog = Catalog("monitor section", MONITOR_SECTIONS, "ltr_harness.monitor_sections")


def build_monitor_report(result: MonitorResult) -> blocks.Report:
    """Every section's answer; silent ones are left out, and those of a part that the result has not."""
    names = [*MONITOR_SECTIONS, *(name for name in catalog.names() if name not in MONITOR_SECTIONS)]
    names = [name for name in names if getattr(result, name, ()) is not None]
    groups = {"verdict": None} | {name: group for group, inside in GROUPS.items() for name in inside}
    sections = (
        blocks.Section(name, tuple(catalog.load(name)(result)), groups.get(name, [*GROUPS][-1]))
        for name in names
    )
    facts: tuple[Text, ...] = (
        (blocks.code(result.primary),),
        count_of(result.n_queries, "query"),
        count_of(result.n_rows, "row"),
        f"against {result.baseline_kind}" if result.baseline_kind else "no baseline",
    )
    kept = tuple(section for section in sections if section.blocks)
    return blocks.Report(result.name, facts, kept, result.to_json)


def write_monitor_report(result: MonitorResult, folder: str | Path) -> Path:
    """``report.html``, ``report.md`` with its ``charts/`` and ``report.json``; equal inputs give equal bytes."""
    return write_report(build_monitor_report(result), folder, ("html", "md", "json", "svg"))


_SHOWN = 8
WORDS = 20

_CAUSES = {
    "labels": "Label outage",
    "immature": "Labels are still arriving",
    "presentation": "The page changed",
    "serving": "Served scores differ from the model's",
    "input": "An input broke",
    "contract": "The log has new defects",
    "mix": "The mix of queries changed",
    "covariate": "The queries changed",
    "unclear": "Page or ranking",
}
"""What a headline begins with, by the cause in the verdict; the others are the ranking's own."""


def verdict_section(result: MonitorResult) -> list[Block]:
    """The answer, its picture, and what raised an alert."""
    verdict = result.verdict
    shown: list[Block] = [banner(result)]
    if len(result.windows) > 1:
        shown.append(timeline(result))
    if result.alerts:
        # one line each, but for windows: they are red in the chart below, and here only counted
        by_kind = [
            [alert for alert in result.alerts if alert.window and alert.kind == kind]
            for kind in ("change", "limit")
        ]
        counted = [alerts for alerts in by_kind if len(alerts) > 1]
        listed = [alert for alert in result.alerts if not any(alert in alerts for alerts in counted)]
        lines: list[Text] = [(blocks.strong(alert.kind), f" {alert.text}") for alert in listed[:_SHOWN]]
        if len(listed) > _SHOWN:
            lines.append(f"… and {count_of(len(listed) - _SHOWN, 'more alert')}, in the sections below")
        for alerts in counted:
            found = {alert.window for alert in alerts}
            where = f"{len(found)} of {count_of(len(result.windows), 'window')}"
            where += f", from {alerts[0].window} to {alerts[-1].window}"
            lines.append((blocks.strong(alerts[0].kind), f" in {where}"))
        shown.append(blocks.Bullets(tuple(lines)))
    if verdict.where:
        shown.append(Paragraph(verdict.where))
    if verdict.caution is not None:
        shown.append(Paragraph(str(verdict.caution), "note"))
    # those of the log stand in its section, but for defects that the baseline has less often
    in_the_log = {check.caution for check in result.log_checks if check not in result.new_defects}
    for caution in result.cautions:
        if caution not in in_the_log:
            end = "" if str(caution).endswith("?") else "."
            shown.append(Paragraph(f"Caution: {caution}{end}", "note"))
    return shown


def banner(result: MonitorResult) -> blocks.Banner:
    """Alerts and their number, healthy, or undecided; none of them where there is no baseline."""
    status = Badge("healthy", "good") if result.changes else Badge("no baseline", "neutral")
    if result.limits and not result.changes:
        status = Badge("within limits", "good")
    if result.alerts:
        status = Badge(count_of(len(result.alerts), "alert"), "bad")
    elif result.undecided:
        status = Badge("undecided", "neutral")
    cause = _CAUSES.get(result.verdict.cause)
    if result.undecided and result.verdict.cause == "unclear":
        cause = None  # nothing is shown to have changed
    text = f"{cause}: {_moved(result)}" if cause else _moved(result)
    where = f", worst in {result.slices[0].predicate}" if result.n_alerts("slice") else ""
    return blocks.Banner(status, text + where if len((text + where).split()) <= WORDS else text)


def _moved(result: MonitorResult) -> str:
    """What the primary metric did; or the metric without the page, where that decides; or which limit was missed."""
    if result.n_alerts("limit") and not result.n_alerts("change"):
        return limits.headline(result.limits)
    if not result.changes:
        if (arms := result.arms) is not None:
            if arms.withheld or not arms.differences:
                return f"No verdict on the arms of {arms.column}"
            first = (arms.worse or arms.differences)[0]
            return sentence([first], arms.control, arms.family).partition(" [")[0].rstrip(".")
        queries = count_of(sum(window.n_defined for window in result.windows), "query")
        mean = f"{result.primary} has a mean of {result.mean(result.primary):.4f} over {queries}"
        of_primary = [limits.relation(limit) for limit in result.limits if limit.metric == result.primary]
        return ", ".join([mean, *of_primary])
    change, seen = result.changes[0], result.presentation
    moved = [window.label for window in result.windows if window.moved]
    open_though_moved = result.verdict.cause == "unclear" and (moved or change.alert)
    corrected = None if seen is None or open_though_moved else seen.ips_normalised
    if seen is not None and seen.ips is not None and seen.changed and seen.ips.direction == "rose":
        return f"IPS-DCG {_difference(seen.ips, result, one_sided=True)}"
    excluded = not (result.alerts or result.undecided)  # a fall of min_drop
    if corrected is not None and CORRECTED.lower() in result.verdict.what.lower():
        text = f"{CORRECTED} {_difference(corrected, result, one_sided=True)}"
        return f"{text}, less than min_drop" if excluded and corrected.direction == "fell" else text
    windows = count_of(len(result.windows), "window")
    if (part := result.examined) is not None:
        by = _difference(part.difference, result)
        return f"{result.primary} {by} in {len(part.windows)} of {windows}"
    if moved and not change.alert:
        return f"{result.primary} moved in {len(moved)} of {windows}, first {moved[0]}"
    text = f"{result.primary} {_difference(change.difference, result)}"
    if change.below_min_drop:
        return f"{text}, less than min_drop {result.min_drop:g}"
    worse = change.difference.direction == ("fell" if result.higher_is_better else "rose")
    most = max(abs(change.difference.low), abs(change.difference.high))
    if worse and excluded and most < result.min_drop:
        return f"{text}, less than min_drop {result.min_drop:g}"
    return f"{text}, not significant after correction" if worse and not change.alert else text


def _difference(change: Estimate, result: MonitorResult, *, one_sided: bool = False) -> str:
    """What moved, by how much in that direction; the interval in brackets where it has ends."""
    by, low, high, sign = f"{change.direction} by", change.low, change.high, ""
    if not change.direction:
        by, sign = "did not measurably change:", "+"
    elif change.direction == "fell":
        low, high = -high, -low
    value = abs(change.value) if change.direction else change.value
    name = result.one_sided_name if one_sided else result.test_name
    ends = f" ({name.replace('interval', 'CI')} {low:{sign}z.4f} to {high:{sign}z.4f})"
    return f"{by} {value:{sign}z.4f}{ends if math.isfinite(low + high) else ''}"


_OF_THE_TEST = (
    "The test's own: of a one-sided test each end is a bound, and an alert's interval leaves out 0."
)


def metrics_section(result: MonitorResult) -> list[Block]:
    """Every metric, over all of production."""
    if not result.changes:
        n = sum(w.n_defined for w in result.windows)
        means = table_of(
            "means",
            "Production; no baseline was given.",
            result.metrics,
            (Column("Metric", "code"), str),
            (Column("Mean", "metric"), result.mean),
            (Column("Queries", "count"), lambda _: n),
            sortable=False,
        )
        return [Heading("Metrics", matters=True), means]
    first = result.changes[0]
    quiet = Badge("too small to matter", "neutral") if first.below_min_drop else Badge("no alert", "good")
    word = result.raised if first.alert else quiet
    axis = blocks.axis_of(end for c in result.changes for end in (c.difference.low, c.difference.high))
    difference = Column(f"Difference [{result.test_name}]", "difference", hint=_OF_THE_TEST, axis=axis)
    uncorrected = "One test, uncorrected; of the primary metric's, the corrected one decides."
    table = table_of(
        "changes",
        f"All mature queries against the baseline, {result.baseline_kind}; the first metric raises alerts.",
        result.changes,
        (Column("Metric", "code"), "metric"),
        (Column("Verdict"), lambda c: word if c is first else None),
        (Column("Baseline", "metric"), lambda c: c.baseline.value),
        (Column("Production", "metric"), lambda c: c.production.value),
        (difference, lambda c: drawn(c.difference, alert=c.alert)),
        (Column("Relative", "relative"), "relative"),
        (Column("p", "p", hint=uncorrected), lambda c: c.difference.p),
        (Column("p corrected", "p", hint=result.family), lambda c: c.p_corrected if c is first else None),
        (Column("Queries", "count"), lambda c: c.production.n)
        if len({c.production.n for c in result.changes}) > 1
        else None,
        footnotes=(f"{first.method}. {result.family}.",),
        sortable=False,
    )
    changed = sum(bool(change.difference.direction) for change in result.changes)
    finding = f"{changed} of {len(result.changes)} changed"
    return [Heading("Metrics", finding=finding, matters=first.alert), table]


_INTERVAL = (
    "t over clusters (users) where there are any, over queries otherwise; never over rows. Beside a one-sided test, "
    "each end is a bound of its own."
)
_SEASONS = {
    "weekday": "Compared with the same weekday of the baseline.",
    "hour": "Compared with the same hour of the baseline's days.",
    "hour_of_week": "Compared with the same hour of the same weekday of the baseline.",
}


def definitions_section(result: MonitorResult) -> list[Block]:
    matters = f"a {result.alternative} of at least {result.min_drop:g}"
    items: list[tuple[str, tuple[Text, ...]]] = [
        ("relevance", (f"{result.relevance}.",)),
        *metric_items(result.metrics),
        ("alert", (f"Corrected p at most {result.alpha:g} and {matters}. {result.family}.",)),
        ("interval", (_INTERVAL,)),
        ("season", (_SEASONS.get(result.season, "None: all times of the baseline count alike."),)),
    ]
    digests = [("configuration", result.config_sha256), ("production", result.production_sha256)]
    if result.baseline_sha256:
        digests.append(("baseline", result.baseline_sha256))
    same = "The same queries under the same configuration give this page byte for byte, whatever the order of rows, "
    resolved = blocks.Code(json.dumps(result.config, indent=1, ensure_ascii=False), "json")
    caption, columns = "SHA-256 of the input, query by query.", (Column("What"), Column("Digest", "code"))
    return [
        Heading("Definitions"),
        blocks.Definitions(tuple(items)),
        Paragraph(f"{same}columns or batches."),
        Table("digests", caption, columns, tuple(digests), sortable=False),
        blocks.Details("Resolved configuration", (resolved,)),
    ]
