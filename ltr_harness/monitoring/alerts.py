"""What ends in exit code 4, one line each, what is only said, and the evidence that alerts and verdict share."""

from collections.abc import Sequence
from dataclasses import dataclass

from ltr_harness.logs.contract import LogFinding, alerting
from ltr_harness.monitoring.config import AlertKind, MonitorConfig
from ltr_harness.monitoring.presentation import CAUTION
from ltr_harness.monitoring.values import Alert, Change, FeatureDrift, Found, Interval, LabelTest, Slice
from ltr_harness.wording import count_of, p_equals


@dataclass(frozen=True, kw_only=True)
class Evidence(Found):
    """Everything that alerts and verdict look at."""

    config: MonitorConfig
    notices: tuple[str, ...] = ()  # what to change in the configuration
    # whether labels fall off toward the end of the log, as late purchases make them
    labels_arriving: bool = False
    days_unknown: bool = False  # whether nobody can tell how much days differ by themselves
    days_caveat: str = ""  # what an alarm leaves open, as few days are known
    effective_users: float = float("inf")  # how many users of one size decide

    @property
    def change(self) -> Change | None:
        """Of the metric that alerts; None without a baseline."""
        return self.changes[0] if self.changes else None

    @property
    def warnings(self) -> list[LogFinding]:
        """Of the log, that are more frequent than in the baseline's."""
        production, baseline = (
            tuple(f for f in self.findings if f.log == log) for log in ("production", "baseline")
        )
        return alerting(production, baseline)

    @property
    def adjusted_for(self) -> tuple[str, ...]:
        return self.adjustment.columns if self.adjustment else ()

    @property
    def label_alerts(self) -> list[LabelTest]:
        return [test for test in self.labels if test.alert]

    @property
    def broken(self) -> dict[str, FeatureDrift]:
        """Every input that broke; of a feature of items what is at fault in most queries."""
        worst: dict[str, FeatureDrift] = {}
        for f in self.drift:
            if f.broken and (f.column not in worst or f.lacking > worst[f.column].lacking):
                worst[f.column] = f
        return worst

    @property
    def broken_inputs(self) -> list[str]:
        return [f"{column} {drift.broken}" for column, drift in self.broken.items()]

    @property
    def page(self) -> bool:
        """Whether the page changed, by its signature, and IPS-DCG does not say that the ranking is worse."""
        seen = self.presentation
        return seen is not None and seen.signature == "page" and not self.ips_fell

    @property
    def ips_stood(self) -> bool:
        """Whether IPS-DCG, which takes the page out, did not fall where positives are spread differently."""
        seen = self.presentation
        return seen is not None and seen.ips is not None and seen.changed and not self.ips_fell

    @property
    def ips_fell(self) -> bool:
        """Whether IPS-DCG fell for certain and, relative to what it was, by at least `min_drop`."""
        seen = self.presentation
        if seen is None or seen.ips is None:
            return False
        matters = -seen.ips.value >= self.config.compare.min_drop * seen.ips_before
        return seen.ips.direction == "fell" and matters

    @property
    def lost_labels(self) -> bool:
        """Whether labels are missing at all ranks alike: then neither clicks nor IPS-DCG, their sum, can tell."""
        seen = self.presentation
        return bool(self.label_alerts) and (seen is None or seen.ips is None or not seen.changed)

    @property
    def outage(self) -> bool:
        """Whether labels are what changed, so that the metric tells nothing of the ranking."""
        seen = self.presentation
        uneven = seen is not None and seen.signature in ("page", "ranking")
        return self.lost_labels and (self.labels_arriving or not (uneven and self.moved))

    @property
    def moved(self) -> bool:
        """Whether some window or the whole period is significantly and noticeably different."""
        overall = self.change is not None and self.change.alert
        return overall or any(w.moved for w in self.windows)

    def worse(self, difference: float) -> float:
        """How much worse a difference of the primary metric is; negative where it is better."""
        return -difference if self.config.primary.higher_is_better else difference


_WITHOUT_BASELINE = {"arm", "parity"}  # they are compared with the control, and with the stored model


def alerts_of(evidence: Evidence) -> tuple[list[Alert], list[str]]:
    """What ends in exit code 4, and what is only said: a drop that page, IPS-DCG or labels explain is a notice."""
    lines = _Lines(evidence)
    changes, seen = _change_lines(evidence), evidence.presentation
    lines.add_changes(changes)
    if changes and evidence.days_caveat:
        lines.notices.append(evidence.days_caveat)
    if seen and seen.ips and evidence.ips_fell and not (changes or evidence.lost_labels):
        lines.add(
            "change", f"ips_dcg {seen.ips} {_p(seen.ips.p)} while {evidence.config.primary} did not fall"
        )
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
        known = {"page": "the page changed", "ranking": "the ranking or the page changed"}
        what = known.get(seen.signature, "the page may have changed")
        spread = "presentation changed: positives are spread over the ranks differently"
        lines.notices.append(f"{spread} ({what}); {CAUTION}")
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
        labels = "labels are still arriving" if self._evidence.labels_arriving else "labels are missing"
        reasons = {
            "the page changed": self._evidence.page,
            "IPS-DCG did not fall": self._evidence.ips_stood,
            labels: self._evidence.outage,
        }
        why = next((why for why, holds in reasons.items() if holds), "change is not in alerts.on")
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
    lines.add("parity", text + _in_windows(windows))


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
        where = _in_windows([t.window for t in tests if t.window != "all"])
        lines.append(f"{what} {worst.before:.3f} -> {worst.now:.3f} {_p(worst.p_corrected)}{where}")
    return lines


def _in_windows(labels: Sequence[str]) -> str:
    return f" in {count_of(len(labels), 'window')}, first {labels[0]}" if labels else ""


def _p(p: float) -> str:
    return p_equals(p).replace(" ", "")
