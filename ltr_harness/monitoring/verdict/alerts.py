"""What ends in exit code 4, one line each, and what is only said."""

from __future__ import annotations

from ltr_harness.monitoring.analysis.presentation import CAUTION
from ltr_harness.monitoring.results.answers import Alert, Interval
from ltr_harness.monitoring.verdict.evidence import Evidence
from ltr_harness.wording import count_of


def alerts_of(evidence: Evidence) -> tuple[list[Alert], list[str]]:
    """What ends in exit code 4, and what is only said.

    A drop that the page explains is a notice; so is one that IPS-DCG does not confirm. Where labels are
    missing, the label alert speaks, and an alleged change of the metric is a notice.
    """
    config = evidence.config
    primary = str(config.primary)
    alerts: list[Alert] = []
    notices: list[str] = []
    on = config.alerts.on
    lines = _change_lines(evidence, primary)
    demoted = evidence.page or (evidence.labels_arriving and bool(evidence.label_alerts))
    if lines and ("change" not in on or demoted):
        why = (
            "the page changed"
            if evidence.page
            else "labels are still arriving"
            if demoted
            else "change is not in alerts.on"
        )
        notices.append(f"{lines[0].text} (no alert: {why})")
        if len(lines) > 1:
            notices.append(f"likewise in {len(lines) - 1} more, the last one {lines[-1].text}")
    else:
        alerts += lines
    seen = evidence.presentation
    if (
        seen is not None
        and seen.ips is not None
        and evidence.ips_fell
        and not lines
        and not evidence.lost_labels
    ):
        line = f"ips_dcg {seen.ips} {_p(seen.ips.p)} while {primary} did not fall"
        if "change" in on:
            alerts.append(Alert("change", line))
        else:
            notices.append(line)
    for found in evidence.slices:
        # Where halves were asked for, the one that did not choose the slice has the word.
        excess = found.confirmed or found.excess
        sure = found.confirmed is not None and found.confirmed.p <= config.slices.alpha
        matters = evidence.worse(excess.value) >= config.compare.min_drop
        matters &= sure or not config.slices.confirm_split
        against = "against" if evidence.change is None else "beyond"
        line = f"{primary} in {found.predicate} {excess} {against} the rest, share {100 * found.share:.1f} %"
        if config.slices.confirm_split:
            line += f" ({'confirmed' if sure else 'not confirmed'} by the other half of the queries)"
        if matters and "slice" in on and not demoted:
            alerts.append(Alert("slice", line))
        else:
            notices.append(f"slice {line}")
    page_confirmed = seen is not None and seen.ips is not None and evidence.page
    if "label_rate" in on and not evidence.labels_arriving and not page_confirmed:
        alerts += [Alert("label_rate", line) for line in _label_lines(evidence)]
    else:
        notices += _label_lines(evidence)
    for line in evidence.broken_inputs:
        if "input" in on:
            alerts.append(Alert("input", line))
        else:
            notices.append(line)
    for finding in evidence.warnings:
        line = f"{finding.check} {finding}"
        if "contract" in on:
            alerts.append(Alert("contract", line))
        else:
            notices.append(line)
    if seen is not None and seen.changed:
        what = {"page": "the page changed", "ranking": "the ranking or the page changed"}.get(
            seen.signature, "the page may have changed"
        )
        notices.append(
            f"presentation changed: positives are spread over the ranks differently ({what}); {CAUTION}"
        )
    return alerts, notices


def _change_lines(evidence: Evidence, primary: str) -> list[Alert]:
    lines = []

    def add(difference: Interval, p: float, where: str, window: str = "") -> None:
        lines.append(Alert("change", f"{primary} {difference} {_p(p)} {where}", window))

    change = evidence.change
    if change is not None and change.alert:
        add(change.difference, change.p_corrected, "all of production against the baseline")
    for w in evidence.windows:
        if w.alert and w.change is not None:
            add(w.change, w.p_corrected, f"window {w.label}", w.label)
        elif w.trailing_alert and w.trailing is not None:
            size = evidence.config.windows.trailing
            add(w.trailing, w.trailing_p_corrected, f"{size} windows up to {w.label}", w.label)
        elif w.running_alert and w.running is not None:
            add(w.running, w.running_p_corrected, f"all windows on record up to {w.label}", w.label)
    return lines


def _label_lines(evidence: Evidence) -> list[str]:
    lines = []
    for what in dict.fromkeys(test.what for test in evidence.label_alerts):
        tests = [test for test in evidence.label_alerts if test.what == what]
        worst = next((t for t in tests if t.window == "all"), tests[0])
        windows = [t.window for t in tests if t.window != "all"]
        where = "" if not windows else f" in {count_of(len(windows), 'window')}, first {windows[0]}"
        lines.append(f"{what} {worst.before:.3f} -> {worst.now:.3f} {_p(worst.p_corrected)}{where}")
    return lines


def _p(p: float) -> str:
    return "p<0.0001" if p < 1e-4 else f"p={p:.4f}"
