"""What moved, where, likely why, and what cannot be told: three sentences and the alerts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ltr_harness.monitoring.config import MonitorConfig
from ltr_harness.monitoring.contract import Finding
from ltr_harness.monitoring.label_health import WITH_RELEVANT
from ltr_harness.monitoring.presentation import CAUTION
from ltr_harness.monitoring.result import (
    Alert,
    Change,
    FeatureDrift,
    Interval,
    LabelTest,
    Presentation,
    Slice,
    Split,
    Verdict,
    Window,
)

_EXPLAINS = 0.5  # from this share of the change on, the mix is called the cause


@dataclass(frozen=True)
class Evidence:
    """Everything the verdict looks at."""

    config: MonitorConfig
    change: Change | None
    windows: Sequence[Window]
    splits: Sequence[Split]
    slices: Sequence[Slice]
    drift: Sequence[FeatureDrift]
    labels: Sequence[LabelTest]
    labels_arriving: bool
    presentation: Presentation | None
    warnings: Sequence[Finding]
    n_immature: int
    findings: Sequence[Finding]

    @property
    def label_alerts(self) -> list[LabelTest]:
        return [test for test in self.labels if test.alert]

    @property
    def page(self) -> bool:
        """Whether the page, and not the ranking, explains what moved."""
        seen = self.presentation
        if seen is None:
            return False
        if seen.ips is not None:
            return seen.changed and not self.ips_fell
        return seen.signature == "page"

    @property
    def ips_fell(self) -> bool:
        """Whether IPS-DCG fell for certain and, relative to what it was, by at least `min_drop`."""
        seen = self.presentation
        if seen is None or seen.ips is None:
            return False
        return seen.ips.high < 0 and -seen.ips.value >= self.config.compare.min_drop * seen.ips_before

    @property
    def moved(self) -> bool:
        """Whether some window or the whole period is significantly and noticeably different."""
        overall = self.change is not None and self.change.alert
        return overall or any(w.alert or w.trailing_alert for w in self.windows)


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
        notices += [f"{line} (no alert: {why})" for line in lines]
    else:
        alerts += [Alert("change", line) for line in lines]
    seen = evidence.presentation
    if seen is not None and seen.ips is not None and evidence.ips_fell and not lines:
        line = f"ips_dcg {_interval(seen.ips)} {_p(seen.ips.p)} while {primary} did not fall"
        (alerts if "change" in on else notices).append(Alert("change", line) if "change" in on else line)  # type: ignore[arg-type]
    for found in evidence.slices:
        matters = _worse(found.excess.value, config) >= config.compare.min_drop
        line = (
            f"{primary} in {found.predicate} {_interval(found.excess)} beyond the rest, share "
            f"{100 * found.share:.1f} %"
        )
        if matters and "slice" in on and not demoted:
            alerts.append(Alert("slice", line))
        else:
            notices.append(f"slice {line}")
    alerts_labels, notices_labels = _label_lines(evidence)
    if "label_rate" in on and not (
        evidence.labels_arriving or (seen and seen.ips is not None and evidence.page)
    ):
        alerts += [Alert("label_rate", line) for line in alerts_labels]
        notices += notices_labels
    else:
        notices += alerts_labels + notices_labels
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


def _change_lines(evidence: Evidence, primary: str) -> list[str]:
    lines = []
    change = evidence.change
    if change is not None and change.alert:
        lines.append(
            f"{primary} {_interval(change.difference)} {_p(change.p_corrected)} all of production "
            f"against the baseline"
        )
    for w in evidence.windows:
        if w.alert and w.change is not None:
            lines.append(f"{primary} {_interval(w.change)} {_p(w.p_corrected)} window {w.label}")
        elif w.trailing_alert and w.trailing is not None:
            size = evidence.config.windows.trailing
            lines.append(
                f"{primary} {_interval(w.trailing)} {_p(w.trailing_p_corrected)} {size} windows up to {w.label}"
            )
    return lines


def _label_lines(evidence: Evidence) -> tuple[list[str], list[str]]:
    lines = []
    for what in dict.fromkeys(test.what for test in evidence.label_alerts):
        tests = [test for test in evidence.label_alerts if test.what == what]
        worst = next((t for t in tests if t.window == "all"), tests[0])
        windows = [t.window for t in tests if t.window != "all"]
        where = "" if not windows else f" in {len(windows)} windows, first {windows[0]}"
        lines.append(f"{what} {worst.before:.3f} -> {worst.now:.3f} {_p(worst.p_corrected)}{where}")
    return lines, []


def verdict_of(evidence: Evidence, alerts: Sequence[Alert]) -> Verdict:
    """The three sentences."""
    change, config = evidence.change, evidence.config
    primary = str(config.primary)
    if change is None:
        return Verdict(
            "none",
            "Nothing to compare with: no baseline was given.",
            _slices_sentence(evidence),
            _untold(evidence),
        )
    moved = _moved_sentence(evidence, primary)
    if evidence.label_alerts and not (
        evidence.presentation is not None and evidence.presentation.ips is not None
    ):
        return _about_labels(evidence, moved)
    seen = evidence.presentation
    if seen is not None and seen.ips is not None and (seen.changed or evidence.ips_fell):
        return _about_page_with_ips(evidence, seen, moved)
    if evidence.page and (evidence.moved or _significant(change)):
        return Verdict(
            "presentation",
            moved,
            (
                "Positives at rank 1 are as frequent as before while other ranks moved: the page "
                "changed, not necessarily the ranking."
            ),
            f"Without propensities the two cannot be told apart: {CAUTION}.",
        )
    if evidence.moved:
        cause, where = _cause(evidence)
        return Verdict(cause, moved, where, _untold(evidence))
    if evidence.slices:
        return Verdict("slice", moved, _slices_sentence(evidence), _untold(evidence))
    if evidence.warnings:
        return Verdict(
            "contract",
            moved,
            f"The log itself is not as the baseline's: {evidence.warnings[0]}.",
            _untold(evidence),
        )
    better = _significant(change) and _worse(change.difference.value, config) < 0
    return Verdict("improved" if better else "healthy", moved, "", _untold(evidence))


def _moved_sentence(evidence: Evidence, primary: str) -> str:
    change = evidence.change
    assert change is not None
    numbers = f"{change.baseline.value:.4f} -> {change.production.value:.4f}, {_interval(change.difference)}"
    if change.alert:
        word = "fell" if change.difference.value < 0 else "rose"
        return f"{primary} {word}: {numbers}."
    hit = [w.label for w in evidence.windows if w.alert or w.trailing_alert]
    if hit:
        return f"{primary} moved in {len(hit)} of {len(evidence.windows)} windows, first {hit[0]}; over all: {numbers}."
    if change.below_min_drop:
        return (
            f"{primary} changed significantly, and by less than min_drop "
            f"{evidence.config.compare.min_drop:g}: {numbers}; no alert."
        )
    if _significant(change):
        return f"{primary} changed: {numbers}."
    return f"{primary} did not measurably change: {numbers}."


def _about_labels(evidence: Evidence, moved: str) -> Verdict:
    test = next((t for t in evidence.label_alerts if t.what == WITH_RELEVANT), evidence.label_alerts[0])
    rates = f"{test.what} went from {test.before:.3f} to {test.now:.3f}"
    if evidence.labels_arriving:
        return Verdict(
            "immature",
            f"Labels are still arriving: {rates}, less with every newer window.",
            "The newest windows are immature; set relevance.maturity to leave them out.",
            f"Whether the ranking changed there cannot be told yet: {moved}",
        )
    seen = evidence.presentation
    if seen is not None and seen.signature in ("page", "ranking") and evidence.moved:
        cause, where = (
            ("presentation", "The page changed, or the ranking did")
            if seen.signature == "page"
            else _cause(evidence)
        )
        return Verdict(
            cause,
            moved,
            f"{where} Fewer labels came in as well: {rates}, not evenly over the ranks.",
            f"{CAUTION[0].upper()}{CAUTION[1:]}.",
        )
    return Verdict(
        "labels",
        f"Label outage: {rates}.",
        "Labels, not the ranking, changed; look at the event pipeline first.",
        f"What the metric did meanwhile cannot be trusted, up or down: {moved}",
    )


def _about_page_with_ips(evidence: Evidence, seen: Presentation, moved: str) -> Verdict:
    assert seen.ips is not None
    ips = f"IPS-DCG {seen.ips_before:.4f} -> {seen.ips_now:.4f}, {_interval(seen.ips)}"
    untold = f"{CAUTION[0].upper()}{CAUTION[1:]}; IPS-DCG holds as far as the propensities do."
    if evidence.ips_fell:
        cause, where = _cause(evidence) if evidence.moved else ("everywhere", "")
        return Verdict(cause, f"The ranking got worse by {ips}. On clicks, {moved}", where, untold)
    return Verdict(
        "presentation",
        f"The page changed and the ranking did not measurably: {ips}. On clicks, {moved}",
        "",
        untold,
    )


def _cause(evidence: Evidence) -> tuple[str, str]:
    """Mix, a segment, a feature, or everywhere."""
    change = evidence.change
    assert change is not None
    total = change.difference.value
    best: Split | None = None
    for split in evidence.splits:
        if _explains(split.mix, total) and (best is None or abs(split.mix.value) > abs(best.mix.value)):
            best = split
    features = [f for f in evidence.drift if f.kind == "number" and _explains(f.mix, total)]
    if best is not None and (not features or abs(features[0].mix.value) <= abs(best.mix.value)):
        text = (
            f"Mix: the shares of {best.column} changed, which explains {best.mix.value:+.4f} of "
            f"{total:+.4f} (within segments {best.within.value:+.4f})"
        )
        if best.improved_inside:
            text += "; segments improved, and the whole fell all the same"
        return "mix", text + "."
    if features:
        first = features[0]
        return (
            "covariate",
            (
                f"Queries changed: {first.name} moved (PSI {first.psi:.2f}), and its mix explains "
                f"{first.mix.value:+.4f} of {total:+.4f}."
            ),
        )
    if evidence.slices:
        return "slice", _slices_sentence(evidence)
    columns = evidence.config.columns
    if not (columns.segments or columns.features):
        return "everywhere", "No segments or features were named in which to look for the cause."
    tail = " Not explained by feature drift." if columns.features else ""
    return "everywhere", "It changed about equally everywhere: no segment stands out." + tail


def _explains(mix: Interval, total: float) -> bool:
    same_way = np.sign(mix.value) == np.sign(total) != 0
    excludes_zero = mix.low > 0 or mix.high < 0
    return bool(same_way and excludes_zero and abs(mix.value) >= _EXPLAINS * abs(total))


def _slices_sentence(evidence: Evidence) -> str:
    if not evidence.slices:
        return ""
    said = [
        f"{s.predicate} ({s.before:.3f} -> {s.now:.3f}, {100 * s.share:.1f} % of queries)"
        for s in evidence.slices[:3]
    ]
    return f"It is worst in {' and in '.join(said)}."


def _untold(evidence: Evidence) -> str:
    said = []
    if evidence.n_immature:
        said.append(f"{evidence.n_immature:,} queries are too young for their labels and were left out")
    if evidence.change is not None and "different queries" in evidence.change.method:
        said.append("the periods hold different queries, a weaker test than scoring the same ones twice")
    if evidence.config.relevance.from_events:
        said.append(CAUTION)
    small = [w for w in evidence.windows if w.status == "small"]
    if small:
        said.append(f"{len(small)} windows are too small to be tested")
    text = "; ".join(said)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _significant(change: Change) -> bool:
    difference = change.difference
    return bool(difference.low > 0 or difference.high < 0)


def _worse(difference: float, config: MonitorConfig) -> float:
    return -difference if config.primary.higher_is_better else difference


def _interval(found: Interval) -> str:
    return f"{found.value:+.4f} [{found.low:+.4f}, {found.high:+.4f}]"


def _p(p: float) -> str:
    return "p<0.0001" if p < 1e-4 else f"p={p:.4f}"
