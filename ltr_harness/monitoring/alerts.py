"""The alerts of the evidence, which end in exit code 4, its cautions, and why nothing can be decided."""

from collections.abc import Iterator, Sequence, Set
from typing import NamedTuple

import ltr_harness.monitoring.limits as limits
from ltr_harness._util.number_text import p_equals
from ltr_harness._util.text import count_of
from ltr_harness.comparison.stats.two_samples import Estimate
from ltr_harness.errors import Caution
from ltr_harness.monitoring.config import AlertKind
from ltr_harness.monitoring.evidence import CORRECTED, Corrected, Evidence
from ltr_harness.monitoring.labels import CLICK_BIAS
from ltr_harness.monitoring.result import Alert, LabelTest, Slice

_WITHOUT_BASELINE = {"arm", "parity", "limit"}  # compared with the control, the stored model, a number


class AlertCandidate(NamedTuple):
    """A finding that is an alert, or a caution where something speaks against it."""

    kind: AlertKind
    text: str
    is_alert: bool = True
    window: str = ""

    @property
    def alert(self) -> Alert:
        return Alert(self.kind, self.text, self.window)

    @property
    def caution(self) -> Caution:
        """The caution, of the kind that the alert would have been."""
        text = f"slice {self.text}" if self.kind == "slice" else self.text
        return Caution(self.kind, "warning", text)


def alerts_of(evidence: Evidence) -> tuple[list[Alert], list[Caution]]:
    """Return the alerts, which end in exit code 4, and the cautions: such as a drop that page or labels explain."""
    kinds = set(evidence.config.alerts.on)
    if evidence.change is None:
        kinds &= _WITHOUT_BASELINE
    changes = list(_changes(evidence))
    alerts, cautions = _change_findings(changes, evidence, kinds)
    for candidate in _other_candidates(evidence, changed=bool(changes)):
        if candidate.kind in kinds and candidate.is_alert:
            alerts.append(candidate.alert)
        else:
            cautions.append(candidate.caution)
    defects = evidence.new_defects if "contract" in kinds else []
    alerts += [Alert("contract", f"{check.check} {check}") for check in defects]
    cautions += [check.caution for check in evidence.log_checks if check not in defects]
    if evidence.page_moved:
        cautions.append(_presentation_caution(evidence))
    return alerts, cautions


def _change_findings(
    changes: Sequence[AlertCandidate], evidence: Evidence, kinds: Set[AlertKind]
) -> tuple[list[Alert], list[Caution]]:
    """Return the alerts of the primary metric's changes, or the cautions where something speaks against them."""
    if not changes:
        return [], []
    alerts, cautions = [], list[Caution]()
    if evidence.demotion:
        cautions = _demoted_cautions(changes, evidence.demotion)
    elif "change" not in kinds:
        cautions = _demoted_cautions(changes, "change is not in alerts.on")
    else:
        alerts = [candidate.alert for candidate in changes]
    if evidence.days_caution is not None:
        cautions.append(evidence.days_caution)
    return alerts, cautions


def _changes(evidence: Evidence) -> Iterator[AlertCandidate]:
    """Yield the significant, noticeable differences of the primary metric: of the period, then of each window."""
    primary, size = evidence.config.primary, evidence.config.windows.trailing

    def candidate(estimate: Estimate, p: float, place: str, window: str = "") -> AlertCandidate:
        return AlertCandidate("change", f"{primary} {estimate} {_p(p)} {place}", window=window)

    change = evidence.change
    if change is not None and change.alert:
        place = "all of production against the baseline"
        yield candidate(change.difference, change.p_corrected, place)
    for w in evidence.windows:
        if w.alert and w.change is not None:
            yield candidate(w.change, w.p_corrected, f"window {w.label}", w.label)
        elif w.trailing_alert and w.trailing is not None:
            place = f"{size} windows up to {w.label}"
            yield candidate(w.trailing, w.trailing_p_corrected, place, w.label)
        elif w.running_alert and w.running is not None:
            place = f"all windows on record up to {w.label}"
            yield candidate(w.running, w.running_p_corrected, place, w.label)


def _demoted_cautions(changes: Sequence[AlertCandidate], reason: str) -> list[Caution]:
    """Return cautions with the first change, the last one and the reason."""
    cautions = [Caution("change", "warning", f"{changes[0].text} (no alert: {reason})")]
    if len(changes) > 1:
        text = f"the same in {len(changes) - 1} more, the last of them {changes[-1].text}"
        cautions.append(Caution("change", "warning", text))
    return cautions


def _presentation_caution(evidence: Evidence) -> Caution:
    seen = evidence.presentation
    assert seen is not None
    explanations = {
        "page": "the page changed, or the ranking below rank 1",
        "ranking": "the ranking or the page changed",
    }
    explanation = explanations.get(seen.signature, "the page may have changed")
    spread = "positives are spread over the ranks differently"
    return Caution("presentation", "warning", f"{spread} ({explanation}); {CLICK_BIAS}")


def _other_candidates(evidence: Evidence, *, changed: bool) -> Iterator[AlertCandidate]:
    """Yield the findings beside differences of the metric."""
    yield from _corrected_candidates(evidence, changed=changed)
    yield from _slice_candidates(evidence)
    yield from _label_candidates(evidence)
    for text in evidence.broken_input_texts:
        yield AlertCandidate("input", text)
    yield from _arm_candidates(evidence)
    yield from _parity_candidates(evidence)
    for limit in evidence.limits:
        for text, window in limits.alert_lines(limit):
            yield AlertCandidate("limit", text, window=window)
        for text in limits.caution_texts(limit):
            yield AlertCandidate("limit", text, is_alert=False)


def _corrected_candidates(evidence: Evidence, *, changed: bool) -> Iterator[AlertCandidate]:
    """Yield the fall of the metric without the page, where the metric itself did not fall."""
    corrected = evidence.corrected
    if corrected is None or not evidence.ips_fell or changed or evidence.lost_labels:
        return
    text = f"{CORRECTED} {corrected.change} {_p(corrected.change.p)}"
    yield AlertCandidate("change", f"{text} while {evidence.config.primary} did not fall")


def _slice_candidates(evidence: Evidence) -> Iterator[AlertCandidate]:
    """Yield the segments that stand out; with `confirm_split`, the half that did not choose a segment decides."""
    config = evidence.config
    for segment in evidence.slices:
        excess, confirmed = segment.excess, True
        if config.slices.confirm_split:
            excess = segment.confirmed or segment.excess
            confirmed = segment.confirmed is not None and segment.confirmed.p <= config.slices.alpha
        matters = evidence.loss(excess.value) >= config.compare.min_drop
        is_alert = matters and confirmed and not evidence.demotion
        yield AlertCandidate("slice", _slice_text(segment, excess, evidence, confirmed=confirmed), is_alert)


def _slice_text(segment: Slice, excess: Estimate, evidence: Evidence, *, confirmed: bool) -> str:
    against = "against" if evidence.change is None else "beyond"
    text = f"{evidence.config.primary} in {segment.predicate} {excess} {against} the rest"
    text += f", share {100 * segment.share:.1f} %"
    if evidence.examined is not None:
        text += f" of {count_of(len(evidence.examined.windows), 'window')}"
    if evidence.config.slices.confirm_split:
        result = "confirmed" if confirmed else "not confirmed"
        text += f" ({result} by the other half of the queries)"
    return text


def _label_candidates(evidence: Evidence) -> Iterator[AlertCandidate]:
    explained = evidence.ips_fall_excluded and not evidence.gain_fell
    for tests in label_alerts(evidence).values():
        test = next((label_test for label_test in tests if label_test.window == "all"), tests[0])
        windows = _in_windows([label_test.window for label_test in tests if label_test.window != "all"])
        text = f"{test.measure} {test.before:.3f} -> {test.now:.3f} {_p(test.p_corrected)}{windows}"
        yield AlertCandidate("label_rate", text, not (evidence.labels_arriving or explained))


def label_alerts(evidence: Evidence) -> dict[str, list[LabelTest]]:
    """Return the label tests with an alert, by their measure."""
    by_measure: dict[str, list[LabelTest]] = {}
    for test in evidence.label_alerts:
        by_measure.setdefault(test.measure, []).append(test)
    return by_measure


def _arm_candidates(evidence: Evidence) -> Iterator[AlertCandidate]:
    arms, min_drop = evidence.arms, evidence.config.compare.min_drop
    if arms is None:
        return
    if arms.withheld:
        yield AlertCandidate("arm", f"no verdict: {arms.withheld}")
    metrics = [str(metric) for metric in evidence.config.resolved_metrics]
    for d in arms.worse:
        small = d.measure in metrics and abs(d.difference.value) < min_drop
        text = f"{d.measure} {d.difference} {_p(d.p_corrected)} {d.arm} against {arms.control}"
        yield AlertCandidate("arm", f"{text}, less than min_drop" if small else text, not small)


def _parity_candidates(evidence: Evidence) -> Iterator[AlertCandidate]:
    """Yield the alert of served scores, over all of production or in some windows, with the worst one's numbers."""
    parity = evidence.parity
    if parity is None or not parity.alerts:
        return
    windows = [window.label for window in parity.alerts if window is not parity.whole]
    part = parity.whole if parity.whole.alert else max(parity.alerts, key=lambda w: w.share.value)
    rows = f"{part.share_text} of rows differ from the score of {parity.model}"
    order = f"{100 * part.reordered:.1f} % of queries another order"
    yield AlertCandidate("parity", f"{rows}, {order}, {_p(part.p_corrected)}{_in_windows(windows)}")


def _in_windows(labels: Sequence[str]) -> str:
    return f" in {count_of(len(labels), 'window')}, first {labels[0]}" if labels else ""


def _p(p: float) -> str:
    return p_equals(p).replace(" ", "")


def undecided_of(evidence: Evidence, alerts: Sequence[Alert]) -> str:
    """Return why a loss is neither shown nor excluded and what would decide it; empty where that is decided."""
    if alerts:
        return ""
    return _undecided_change(evidence) or limits.open_question(evidence.limits)


def _undecided_change(evidence: Evidence) -> str:
    """Return why the metric's change against the baseline is undecided; empty where it is decided."""
    if evidence.change is None:
        return ""
    if evidence.outage and evidence.labels_arriving:
        return "labels are still arriving; relevance.maturity leaves out the windows that lack them"
    if evidence.ips_fell and not evidence.lost_labels:
        return f"{CORRECTED} fell, and change is not in alerts.on"
    if evidence.moved and not evidence.demotion:
        return f"{evidence.config.primary} moved, and change is not in alerts.on"
    corrected = evidence.corrected
    if corrected is not None and (evidence.page_moved or corrected.change.direction == "fell"):
        return _undecided_corrected(corrected, evidence.config.compare.min_drop)
    return _undecided_metric(evidence)


def _undecided_corrected(corrected: Corrected, min_drop: float) -> str:
    """Return why the change of the metric without the page is undecided; empty where a fall is excluded."""
    if corrected.fall_excluded:
        return ""
    change = corrected.change
    text = (
        f"{CORRECTED} changed by {change}, and a fall of min_drop {min_drop:g} of what it was is not excluded"
    )
    return f"{text}; {_more_queries((change.high - change.low) / 2, corrected.least)}"


def _undecided_metric(evidence: Evidence) -> str:
    """Return why the metric's own change is undecided, where the page moved or the metric measurably fell."""
    change, min_drop, primary = evidence.change, evidence.config.compare.min_drop, evidence.config.primary
    assert change is not None
    difference = change.difference
    if evidence.page_moved and evidence.rank_1 != "rose":
        return "the page may have changed, or the ranking; propensity: would tell the page from the ranking"
    fell = bool(difference.direction) and evidence.loss(difference.value) > 0
    worst = max(evidence.loss(difference.low), evidence.loss(difference.high))
    if not fell or change.below_min_drop or worst < min_drop:
        return ""
    text = f"{primary} changed by {difference}, and a fall of min_drop {min_drop:g} is not excluded"
    return f"{text}; {_more_queries((difference.high - difference.low) / 2, min_drop)}"


def _more_queries(reach: float, least: float) -> str:
    """Return how many times as many queries would narrow the interval down to a fall that matters."""
    if not 0 < least < reach < float("inf"):
        return "more queries would decide it"
    return f"about {max(2.0, (reach / least) ** 2):,.0f} times as many queries would decide it"
