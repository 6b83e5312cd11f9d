"""What ends in exit code 4, one line each, and what is only said."""

from __future__ import annotations

from ltr_harness.monitoring.analysis.presentation import CAUTION
from ltr_harness.monitoring.config import AlertKind
from ltr_harness.monitoring.results.answers import Alert, Interval, Slice
from ltr_harness.monitoring.verdict.evidence import Evidence
from ltr_harness.wording import count_of

_WITHOUT_BASELINE = {"arm", "parity"}  # they are compared with the control, and with the stored model


def alerts_of(evidence: Evidence) -> tuple[list[Alert], list[str]]:
    """What ends in exit code 4, and what is only said.

    A drop that the page explains is a notice; so is one that IPS-DCG does not confirm. Where labels are
    missing, the label alert speaks, and an alleged change of the metric is a notice.
    """
    lines = _Lines(evidence)
    changes, seen = _change_lines(evidence), evidence.presentation
    lines.add_changes(changes)
    if changes and evidence.days_caveat:
        lines.notices.append(evidence.days_caveat)
    if (
        seen is not None
        and seen.ips is not None
        and evidence.ips_fell
        and not (changes or evidence.lost_labels)
    ):
        text = f"ips_dcg {seen.ips} {_p(seen.ips.p)} while {evidence.config.primary} did not fall"
        lines.add("change", text)
    for worst in evidence.slices:
        lines.add_slice(worst)
    for text in _label_lines(evidence):
        lines.add("label_rate", text, but=evidence.labels_arriving or evidence.ips_stood)
    for text in evidence.broken_inputs:
        lines.add("input", text)
    _add_arms(lines, evidence)
    _add_parity(lines, evidence)
    for finding in evidence.warnings:
        lines.add("contract", f"{finding.check} {finding}")
    if seen is not None and seen.changed:
        what = {"page": "the page changed", "ranking": "the ranking or the page changed"}.get(
            seen.signature, "the page may have changed"
        )
        lines.notices.append(
            f"presentation changed: positives are spread over the ranks differently ({what}); {CAUTION}"
        )
    return lines.alerts, lines.notices


class _Lines:
    """Alerts and notices as they are gathered: the configuration says which kinds alert, if there is a baseline."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._kinds = set(evidence.config.alerts.on)
        if evidence.change is None:
            self._kinds &= _WITHOUT_BASELINE
        self._demoted = evidence.page or evidence.ips_stood or evidence.outage
        self.alerts: list[Alert] = []
        self.notices: list[str] = []

    def add(self, kind: AlertKind, text: str, *, but: bool = False) -> None:
        """An alert; a notice where its kind is none, `but` something speaks against it."""
        if kind in self._kinds and not but:
            self.alerts.append(Alert(kind, text))
        else:
            self.notices.append(text)

    def add_changes(self, changes: list[Alert]) -> None:
        """Differences of the metric; where they are no alerts, the first, the last and why."""
        if "change" in self._kinds and not self._demoted:
            self.alerts += changes
            return
        why = (
            "the page changed"
            if self._evidence.page
            else "IPS-DCG did not fall"
            if self._evidence.ips_stood
            else "change is not in alerts.on"
            if not self._evidence.outage
            else "labels are still arriving"
            if self._evidence.labels_arriving
            else "labels are missing"
        )
        if changes:
            self.notices.append(f"{changes[0].text} (no alert: {why})")
        if len(changes) > 1:
            self.notices.append(f"likewise in {len(changes) - 1} more, the last one {changes[-1].text}")

    def add_slice(self, worst: Slice) -> None:
        """A segment; where halves were asked for, the one that did not choose it has the word."""
        config = self._evidence.config
        excess = worst.confirmed or worst.excess
        sure = worst.confirmed is not None and worst.confirmed.p <= config.slices.alpha
        matters = self._evidence.worse(excess.value) >= config.compare.min_drop
        matters &= sure or not config.slices.confirm_split
        against = "against" if self._evidence.change is None else "beyond"
        text = f"{config.primary} in {worst.predicate} {excess} {against} the rest, share {100 * worst.share:.1f} %"
        if config.slices.confirm_split:
            text += f" ({'confirmed' if sure else 'not confirmed'} by the other half of the queries)"
        if matters and "slice" in self._kinds and not self._demoted:
            self.alerts.append(Alert("slice", text))
        else:
            self.notices.append(f"slice {text}")


def _add_arms(lines: _Lines, evidence: Evidence) -> None:
    """Arms that are worse than the control, by `min_drop` at least in a metric; or why nothing is said of them."""
    arms = evidence.arms
    if arms is None:
        return
    if arms.withheld:
        lines.add("arm", f"no verdict: {arms.withheld}")
    metrics = [str(metric) for metric in evidence.config.resolved_metrics]
    for d in arms.worse:
        small = d.measure in metrics and abs(d.difference.value) < evidence.config.compare.min_drop
        text = f"{d.measure} {d.difference} {_p(d.p_corrected)} {d.arm} against {arms.control}"
        lines.add("arm", f"{text}, less than min_drop" if small else text, but=small)


def _add_parity(lines: _Lines, evidence: Evidence) -> None:
    """Other scores than the model's: over all of production, or in the worst window where only some are at fault."""
    parity = evidence.parity
    if parity is None or not parity.alerts:
        return
    windows = [window.label for window in parity.alerts if window is not parity.whole]
    worst = parity.whole if parity.whole.alert else max(parity.alerts, key=lambda w: w.share.value)
    text = (
        f"{worst.share_text} of rows have another score than by {parity.model}, {100 * worst.reordered:.1f} % of "
        f"queries another order, {_p(worst.p_corrected)}"
    )
    lines.add(
        "parity", f"{text} in {count_of(len(windows), 'window')}, first {windows[0]}" if windows else text
    )


def _change_lines(evidence: Evidence) -> list[Alert]:
    lines, primary = [], evidence.config.primary

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
