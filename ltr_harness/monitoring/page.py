"""From a monitoring result to the same pages that compare models: same blocks, same renderers, same charts."""

import json
import math
from pathlib import Path

import ltr_harness.monitoring.limits as limits
from ltr_harness._util.catalog import Catalog
from ltr_harness._util.text import count_of
from ltr_harness.comparison.caution_choice import choose_cautions
from ltr_harness.comparison.stats.two_samples import Estimate
from ltr_harness.monitoring.arms import verdict_sentence
from ltr_harness.monitoring.evidence import CORRECTED
from ltr_harness.monitoring.result import ArmComparison, Change, MonitorResult, marked_estimate, table_of
from ltr_harness.monitoring.windows import timeline
from ltr_harness.report import blocks, html
from ltr_harness.report.blocks import (
    Badge,
    Block,
    Column,
    Heading,
    Paragraph,
    Table,
    Text,
    caution_blocks,
)
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
    blocks.SectionGroup("What changed", "By how much, and when?"): (
        "metrics", "limits", "windows", "over_time", "arms", "online",
    ),
    blocks.SectionGroup("Where and why", "On which queries, and does something other than the ranking explain it?"): (
        "slices", "mix", "drift", "parity", "presentation", "worst",
    ),
    blocks.SectionGroup("Can I trust it?", "Are labels and log fit to be judged, and by which rules was it done?"): (
        "labels", "empty_rules", "log", "definitions",
    ),
}  # fmt: skip
"""Sections of other packages stand in the last."""
catalog = Catalog("monitor section", MONITOR_SECTIONS, "ltr_harness.monitor_sections")


def build_monitor_report(result: MonitorResult) -> blocks.Report:
    """Return the sections with something to show; those of a part that the result lacks are left out."""
    names = [*MONITOR_SECTIONS, *(name for name in catalog.names() if name not in MONITOR_SECTIONS)]
    names = [name for name in names if getattr(result, name, ()) is not None]
    groups = {"verdict": None} | {name: group for group, inside in GROUPS.items() for name in inside}
    sections = (
        blocks.Section(name, tuple(catalog.load(name)(result)), groups.get(name, [*GROUPS][-1]))
        for name in names
    )
    baseline = f"against {result.baseline_kind}" if result.baseline_kind else "no baseline"
    facts: tuple[Text, ...] = (
        (blocks.code(result.primary),),
        count_of(result.n_queries, "query"),
        count_of(result.n_rows, "row"),
        baseline,
    )
    filled = tuple(section for section in sections if section.blocks)
    return blocks.Report(result.name, facts, filled, result.to_json)


def write_monitor_report(result: MonitorResult, folder: str | Path) -> Path:
    """Write ``report.html``, ``report.md`` with its ``charts/`` and ``report.json``; equal inputs give equal bytes."""
    return write_report(build_monitor_report(result), folder, ("html", "md", "json", "svg"))


_MAX_ALERTS = 8
MAX_HEADLINE_WORDS = 20

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
"""The beginning of a headline, by the cause in the verdict; the others are the ranking's own."""


def notebook_html(result: MonitorResult) -> str:
    """Return the verdict for a notebook's cell."""
    return html.render_blocks(verdict_section(result))


def verdict_section(result: MonitorResult) -> list[Block]:
    """Is the ranker still as good as its baseline, and what raised an alert?"""
    verdict = result.verdict
    section_blocks: list[Block] = [banner(result)]
    if len(result.windows) > 1:
        section_blocks.append(timeline(result))
    if result.alerts:
        section_blocks.append(_alert_bullets(result))
    if verdict.where:
        section_blocks.append(Paragraph(verdict.where))
    # those of the log stand in its section, but for defects that the baseline has less often
    in_log_section = {check.caution for check in result.log_checks if check not in result.new_defects}
    cautions = [caution for caution in result.cautions if caution not in in_log_section]
    if verdict.caution is not None:
        cautions.insert(0, verdict.caution)
    if not result.n_alerts("contract"):
        # a new defect without an alert may explain what the metric did: it is not folded behind a notice
        new_defects = {check.caution for check in result.new_defects}
        cautions.sort(key=lambda caution: caution not in new_defects)
    return [*section_blocks, *caution_blocks(choose_cautions(cautions))]


def _alert_bullets(result: MonitorResult) -> blocks.Bullets:
    """Return a line for each alert, and one for all windows of a kind: they are red in the chart above."""
    by_window = [
        [alert for alert in result.alerts if alert.window and alert.kind == kind]
        for kind in ("change", "limit")
    ]
    counted = [alerts for alerts in by_window if len(alerts) > 1]
    listed = [alert for alert in result.alerts if not any(alert in alerts for alerts in counted)]
    lines: list[Text] = [(blocks.strong(alert.kind), f" {alert.text}") for alert in listed[:_MAX_ALERTS]]
    if len(listed) > _MAX_ALERTS:
        lines.append(f"… and {count_of(len(listed) - _MAX_ALERTS, 'more alert')}, in the sections below")
    for alerts in counted:
        n_windows = len({alert.window for alert in alerts})
        span = f"from {alerts[0].window} to {alerts[-1].window}"
        text = f" in {n_windows} of {count_of(len(result.windows), 'window')}, {span}"
        lines.append((blocks.strong(alerts[0].kind), text))
    return blocks.Bullets(tuple(lines))


def banner(result: MonitorResult) -> blocks.Banner:
    """Return the status and the headline, with the worst segment in it where the headline stays short."""
    text = _headline(result)
    cause = _CAUSES.get(result.verdict.cause)
    unknown = result.undecided and result.verdict.cause == "unclear"  # nothing is shown to have changed
    if cause and not unknown:
        text = f"{cause}: {text}"
    if result.n_alerts("slice"):
        longer = f"{text}, worst in {result.slices[0].predicate}"
        if len(longer.split()) <= MAX_HEADLINE_WORDS:
            text = longer
    return blocks.Banner(_status(result), text)


def _status(result: MonitorResult) -> Badge:
    """Return the number of alerts, undecided, or healthy; another word where there is no baseline."""
    if result.alerts:
        return Badge(count_of(len(result.alerts), "alert"), "bad")
    if result.undecided:
        return Badge("undecided", "neutral")
    if result.changes:
        return Badge("healthy", "good")
    return Badge("within limits", "good") if result.limits else Badge("no baseline", "neutral")


def _headline(result: MonitorResult) -> str:
    """Return what the primary metric did; or the metric without the page, where that decides; or a missed limit."""
    if result.n_alerts("limit") and not result.n_alerts("change"):
        return limits.headline(result.limits)
    if result.changes:
        return _corrected_headline(result) or _change_headline(result, result.changes[0])
    if result.arms is not None:
        return _arms_headline(result.arms)
    queries = count_of(sum(window.n_defined for window in result.windows), "query")
    mean = f"{result.primary} has a mean of {result.mean(result.primary):.4f} over {queries}"
    relations = [limits.relation(limit) for limit in result.limits if limit.metric == result.primary]
    return ", ".join([mean, *relations])


def _arms_headline(arms: ArmComparison) -> str:
    if arms.withheld or not arms.differences:
        return f"No verdict on the arms of {arms.column}"
    first = (arms.worse or arms.differences)[0]
    return verdict_sentence([first], arms.control, arms.family).partition(" [")[0].rstrip(".")


def _corrected_headline(result: MonitorResult) -> str:
    """Return what the metric without the page did, where that decides; empty elsewhere."""
    seen = result.presentation
    if seen is None:
        return ""
    if seen.ips is not None and seen.changed and seen.ips.direction == "rose":
        return f"IPS-DCG {_difference(seen.ips, result, one_sided=True)}"
    moved = result.changes[0].alert or any(window.moved for window in result.windows)
    if seen.ips_normalised is None or (moved and result.verdict.cause == "unclear"):
        return ""
    if CORRECTED.lower() not in result.verdict.what.lower():
        return ""
    text = f"{CORRECTED} {_difference(seen.ips_normalised, result, one_sided=True)}"
    if result.healthy and seen.ips_normalised.direction == "fell":
        return f"{text}, less than min_drop"
    return text


def _change_headline(result: MonitorResult, change: Change) -> str:
    """Return what the primary metric did, in the windows that raised the alert or over all of production."""
    windows = count_of(len(result.windows), "window")
    if (part := result.examined) is not None:
        difference_text = _difference(part.difference, result)
        return f"{result.primary} {difference_text} in {len(part.windows)} of {windows}"
    moved = [window.label for window in result.windows if window.moved]
    if moved and not change.alert:
        return f"{result.primary} moved in {len(moved)} of {windows}, first {moved[0]}"
    text = f"{result.primary} {_difference(change.difference, result)}"
    if change.below_min_drop:
        return f"{text}, less than min_drop {result.min_drop:g}"
    worse = "fell" if result.higher_is_better else "rose"
    if change.difference.direction != worse or change.alert:
        return text
    most = max(abs(change.difference.low), abs(change.difference.high))
    if result.healthy and most < result.min_drop:
        return f"{text}, less than min_drop {result.min_drop:g}"
    return f"{text}, not significant after correction"


def _difference(change: Estimate, result: MonitorResult, *, one_sided: bool = False) -> str:
    """Return the direction and the size of a change, with the interval in brackets where it has ends."""
    if not change.direction:
        text, sign = f"did not measurably change: {change.value:+z.4f}", "+"
        low, high = change.low, change.high
    else:
        text, sign = f"{change.direction} by {abs(change.value):z.4f}", ""
        low, high = change.low, change.high
        if change.direction == "fell":
            low, high = -high, -low
    if not math.isfinite(low + high):
        return text
    name = result.one_sided_name if one_sided else result.test_name
    return f"{text} ({name.replace('interval', 'CI')} {low:{sign}z.4f} to {high:{sign}z.4f})"


_TEST_INTERVAL_HINT = (
    "The test's own: of a one-sided test each end is a bound, and an alert's interval leaves out 0."
)


def metrics_section(result: MonitorResult) -> list[Block]:
    """Did a metric change, over all of production?"""
    if not result.changes:
        return [Heading("Metrics", matters=True), _means_table(result)]
    first = result.changes[0]
    axis = blocks.axis_of(end for c in result.changes for end in (c.difference.low, c.difference.high))
    difference = Column(f"Difference [{result.test_name}]", "difference", hint=_TEST_INTERVAL_HINT, axis=axis)
    uncorrected = "One test, uncorrected; of the primary metric's, the corrected one decides."
    queries = Column("Queries", "count"), lambda c: c.production.n
    same_queries = len({c.production.n for c in result.changes}) == 1
    table = table_of(
        "changes",
        f"All mature queries against the baseline, {result.baseline_kind}; the first metric raises alerts.",
        result.changes,
        (Column("Metric", "code"), "metric"),
        (Column("Verdict"), lambda c: _change_badge(result) if c is first else None),
        (Column("Baseline", "metric"), lambda c: c.baseline.value),
        (Column("Production", "metric"), lambda c: c.production.value),
        (difference, lambda c: marked_estimate(c.difference, alert=c.alert)),
        (Column("Relative", "relative"), "relative"),
        (Column("p", "p", hint=uncorrected), lambda c: c.difference.p),
        (Column("p corrected", "p", hint=result.family), lambda c: c.p_corrected if c is first else None),
        None if same_queries else queries,
        footnotes=(f"{first.method}. {result.family}.",),
        sortable=False,
    )
    changed = sum(bool(change.difference.direction) for change in result.changes)
    finding = f"{changed} of {len(result.changes)} changed"
    return [Heading("Metrics", finding=finding, matters=first.alert), table]


def _change_badge(result: MonitorResult) -> Badge:
    """Return the badge of the primary metric's change."""
    if result.changes[0].alert:
        return result.raised
    if result.changes[0].below_min_drop:
        return Badge("too small to matter", "neutral")
    return Badge("no alert", "good")


def _means_table(result: MonitorResult) -> Table:
    n = sum(w.n_defined for w in result.windows)
    return table_of(
        "means",
        "Production; no baseline was given.",
        result.metrics,
        (Column("Metric", "code"), str),
        (Column("Mean", "metric"), result.mean),
        (Column("Queries", "count"), lambda _: n),
        sortable=False,
    )


_INTERVAL_DEFINITION = (
    "t over clusters (users) where there are any, over queries otherwise; never over rows. Beside a one-sided test, "
    "each end is a separate bound."
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
        ("interval", (_INTERVAL_DEFINITION,)),
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
