"""The alerts of the evidence, which end in exit code 4, its cautions, and a verdict of three sentences.

The sentences say what moved, where and likely why, and what cannot be told. A cause is named only where it explains a
fifth of the change, for certain, and more than chance would in shuffled data; first comes what explains half. A broken
input is not another kind of query, and no mix.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ltr_harness.errors import SEVERITIES, Caution, Severity
from ltr_harness.monitoring import result
from ltr_harness.monitoring.config import AlertKind, MonitorConfig
from ltr_harness.monitoring.labels import CLICK_BIAS, LABELLED_DOCUMENTS, WITH_RELEVANT
from ltr_harness.monitoring.result import Alert, Change, FeatureDrift, Found, Verdict
from ltr_harness.stats.two_samples import Estimate
from ltr_harness.wording import count_of, p_equals, plural

_EXPLAINS = 0.5  # from this share of the change on, the mix is called the cause
_BESIDE = 0.2  # from this share on, a second cause is named beside the first
_ERRORS = 3  # by so many standard errors, as nobody asked for it
_CHANCE = 0.05
_CONTRAST = 0.05, 0.95  # share of queries at fault, to hold them against the others
_UNTESTED = "whether that is the cause cannot be tested: almost no query is without"
_FEW_USERS = 20


@dataclass(frozen=True, kw_only=True)
class Evidence(Found):
    """Everything that alerts and verdict look at."""

    config: MonitorConfig
    cautions: tuple[Caution, ...] = ()  # of what to change in the configuration
    # whether labels fall off toward the end of the log, as late purchases make them
    labels_arriving: bool = False
    days_unknown: bool = False  # whether nobody can tell how much days differ by themselves
    days_caution: Caution | None = None  # beside an alert, where few days are known
    effective_users: float = float("inf")  # how many users of one size decide

    @property
    def change(self) -> Change | None:
        """Of the metric that alerts; None without a baseline."""
        return self.changes[0] if self.changes else None

    @property
    def adjusted_for(self) -> tuple[str, ...]:
        return self.adjustment.columns if self.adjustment else ()

    @property
    def label_alerts(self) -> list[result.LabelTest]:
        return [test for test in self.labels if test.alert]

    @property
    def broken(self) -> dict[str, FeatureDrift]:
        """Every input that broke; of a feature of items what is at fault in most queries."""
        worst: dict[str, FeatureDrift] = {}
        for f in self.drift:
            if f.broken and (f.column not in worst or f.unmatched_share > worst[f.column].unmatched_share):
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


def alerts_of(evidence: Evidence) -> tuple[list[Alert], list[Caution]]:
    """The alerts, which end in exit code 4, and the cautions: such as a drop that page, IPS-DCG or labels explain."""
    kinds = set(evidence.config.alerts.on)
    if evidence.change is None:
        kinds &= _WITHOUT_BASELINE
    demoted, seen = evidence.page or evidence.ips_stood or evidence.outage, evidence.presentation
    said: list[tuple[Estimate, float, str, str]] = []
    change, size, primary = evidence.change, evidence.config.windows.trailing, evidence.config.primary
    if change is not None and change.alert:
        said.append((change.difference, change.p_corrected, "all of production against the baseline", ""))
    for w in evidence.windows:
        if w.alert and w.change is not None:
            said.append((w.change, w.p_corrected, f"window {w.label}", w.label))
        elif w.trailing_alert and w.trailing is not None:
            said.append((w.trailing, w.trailing_p_corrected, f"{size} windows up to {w.label}", w.label))
        elif w.running_alert and w.running is not None:
            where = f"all windows on record up to {w.label}"
            said.append((w.running, w.running_p_corrected, where, w.label))
    changes = [Alert("change", f"{primary} {by} {_p(p)} {where}", window) for by, p, where, window in said]
    alerts = [] if demoted or "change" not in kinds else [*changes]
    cautions = []
    if changes and not alerts:  # the first, the last and why
        lost = "labels are still arriving" if evidence.labels_arriving else "labels are missing"
        reasons = {"the page changed": evidence.page, "IPS-DCG did not fall": evidence.ips_stood}
        reasons[lost] = evidence.outage
        why = next((why for why, holds in reasons.items() if holds), "change is not in alerts.on")
        cautions.append(Caution("change", "warning", f"{changes[0].text} (no alert: {why})"))
        if len(changes) > 1:
            text = f"likewise in {len(changes) - 1} more, the last one {changes[-1].text}"
            cautions.append(Caution("change", "warning", text))
    if changes and evidence.days_caution is not None:
        cautions.append(evidence.days_caution)
    for kind, text, raised in _lines(evidence, changed=bool(changes)):
        if kind in kinds and raised and not (kind == "slice" and demoted):
            alerts.append(Alert(kind, text))
        else:
            # of the kind that the alert would have been
            cautions.append(Caution(kind, "warning", f"slice {text}" if kind == "slice" else text))
    defects = evidence.new_defects if "contract" in kinds else []
    alerts += [Alert("contract", f"{check.check} {check}") for check in defects]
    cautions += [check.caution for check in evidence.log_checks if check not in defects]
    if seen is not None and seen.changed:
        known = {"page": "the page changed", "ranking": "the ranking or the page changed"}
        what = known.get(seen.signature, "the page may have changed")
        spread = "presentation changed: positives are spread over the ranks differently"
        cautions.append(Caution("presentation", "warning", f"{spread} ({what}); {CLICK_BIAS}"))
    return alerts, cautions


def _lines(evidence: Evidence, *, changed: bool) -> Iterator[tuple[AlertKind, str, bool]]:
    """What is said beside differences of the metric, and whether it is an alert: something may speak against it."""
    config, seen, parity, arms = evidence.config, evidence.presentation, evidence.parity, evidence.arms
    primary, min_drop = config.primary, config.compare.min_drop
    if seen and seen.ips and evidence.ips_fell and not (changed or evidence.lost_labels):
        yield "change", f"ips_dcg {seen.ips} {_p(seen.ips.p)} while {primary} did not fall", True
    for worst in evidence.slices:  # where halves were asked for, the one that did not choose it has the word
        halves, excess = config.slices.confirm_split, worst.confirmed or worst.excess
        sure = worst.confirmed is not None and worst.confirmed.p <= config.slices.alpha
        against = "against" if evidence.change is None else "beyond"
        text = f"{primary} in {worst.predicate} {excess} {against} the rest, share {100 * worst.share:.1f} %"
        if halves:
            text += f" ({'confirmed' if sure else 'not confirmed'} by the other half of the queries)"
        yield "slice", text, evidence.worse(excess.value) >= min_drop and (sure or not halves)
    for what in dict.fromkeys(test.measure for test in evidence.label_alerts):
        tests = [test for test in evidence.label_alerts if test.measure == what]
        first = next((t for t in tests if t.window == "all"), tests[0])
        where = _in_windows([t.window for t in tests if t.window != "all"])
        text = f"{what} {first.before:.3f} -> {first.now:.3f} {_p(first.p_corrected)}{where}"
        yield "label_rate", text, not (evidence.labels_arriving or evidence.ips_stood)
    for text in evidence.broken_inputs:
        yield "input", text, True
    if arms is not None:
        if arms.withheld:
            yield "arm", f"no verdict: {arms.withheld}", True
        metrics = [str(metric) for metric in config.resolved_metrics]
        for d in arms.worse:
            small = d.measure in metrics and abs(d.difference.value) < min_drop
            text = f"{d.measure} {d.difference} {_p(d.p_corrected)} {d.arm} against {arms.control}"
            yield "arm", f"{text}, less than min_drop" if small else text, not small
    # over all of production, or in some windows, of which the worst is said
    if parity is not None and parity.alerts:
        windows = [window.label for window in parity.alerts if window is not parity.whole]
        part = parity.whole if parity.whole.alert else max(parity.alerts, key=lambda w: w.share.value)
        rows = f"{part.share_text} of rows differ from the score of {parity.model}"
        order = f"{100 * part.reordered:.1f} % of queries another order"
        yield "parity", f"{rows}, {order}, {_p(part.p_corrected)}{_in_windows(windows)}", True


def _in_windows(labels: Sequence[str]) -> str:
    return f" in {count_of(len(labels), 'window')}, first {labels[0]}" if labels else ""


def _p(p: float) -> str:
    return p_equals(p).replace(" ", "")


def cause_of(evidence: Evidence) -> tuple[str, str, dict[str, float]]:
    """The cause in a word and a sentence, and where there are two, the part of the change that each explains."""
    change = evidence.change
    assert change is not None
    total = change.difference.value
    first = _composition(evidence, total, _EXPLAINS)
    second = first or _composition(evidence, total, _BESIDE)
    ranking, sentence = _ranking(evidence, alone=second is None)
    said, parts = [first.sentence if first else sentence], {}
    sure = first and abs(first.within.value) >= _ERRORS * first.within.error
    if second and (not first or (sure and _significant(first.within, total, _BESIDE))):
        mix, rest = (second.word, second.part), (ranking, total - second.part)
        parts = dict((mix, rest) if first else (rest, mix))
        named = ", ".join(f"{word} {part:+.4f} ({part / total:.0%})" for word, part in parts.items())
        said = [f"Two causes: {named}.", *said, sentence if first else second.sentence]
    blamed = second.column if second else ""
    for column, worst in evidence.broken.items():
        if column != blamed:  # an input that broke and is not the cause, or not shown to be
            known = _CONTRAST[0] <= worst.unmatched_share <= _CONTRAST[1]
            why = "that does not explain the change" if known else _UNTESTED
            said.append(f"{column} {worst.broken}; {why}.")
    return first.word if first else ranking, " ".join(said), parts


class _Composition(NamedTuple):
    """What another composition of the queries explains, and the change within what both periods have."""

    word: str
    sentence: str
    column: str
    part: float
    within: Estimate


def _composition(evidence: Evidence, total: float, share: float) -> _Composition | None:
    """An input that broke, a segment's mix or a feature's, that explains at least a share of the change."""
    broken = [f for f in evidence.drift if f.broken]
    inputs = [f for f in broken if _explains(f.unmatched, f.unmatched_p, total, share)]
    if inputs:
        worst = max(inputs, key=lambda f: abs(f.unmatched.value))
        text = (
            f"An input broke: {worst.column} {worst.broken}; where the baseline has nothing like it, queries are "
            f"worse than the others, which explains {worst.unmatched.value:+.4f} of {total:+.4f}."
        )
        return _Composition("input", text, worst.column, worst.unmatched.value, worst.within)

    def by_mix(parts: result.SegmentDecomposition | FeatureDrift) -> bool:
        known = parts.column not in evidence.adjusted_for
        return known and _explains(parts.mix, parts.mix_p, total, share)

    segments = [s for s in evidence.decompositions if by_mix(s) and s.column not in evidence.broken]
    features = [f for f in evidence.drift if f.kind == "number" and not f.broken and by_mix(f)]
    best = max(segments, key=lambda s: abs(s.mix.value), default=None)
    if best is not None and (not features or abs(features[0].mix.value) <= abs(best.mix.value)):
        text = (
            f"Mix: the shares of {best.column} changed, which explains {best.mix.value:+.4f} of {total:+.4f} "
            f"(within segments {best.within.value:+.4f})"
        )
        inside = "; segments improved, and the whole fell all the same" if best.simpsons_paradox else ""
        return _Composition("mix", f"{text}{inside}.", best.column, best.mix.value, best.within)
    if not features:
        return None
    first = features[0]
    text = (
        f"Queries changed: {first.name} moved (PSI {first.psi:.2f}), and its mix explains "
        f"{first.mix.value:+.4f} of {total:+.4f}."
    )
    return _Composition("covariate", text, first.column, first.mix.value, first.within)


def _ranking(evidence: Evidence, *, alone: bool) -> tuple[str, str]:
    """The worst segments, or everywhere, and what was looked at before the ranking is suspected."""
    columns = evidence.config.columns
    if not alone:
        where = slices_sentence(evidence) or "It changed about equally everywhere."
        return "slice" if evidence.slices else "everywhere", f"{where} The ranking is the suspect."
    if evidence.slices:
        looked = "No drifted feature explains it"
        if columns.segments:
            neither = "Neither the mix of segments nor a drifted feature explains it"
            looked = neither if columns.features else "The mix of segments does not explain it"
        return "slice", f"{slices_sentence(evidence)} {looked}: the ranking is the first suspect."
    if not (columns.segments or columns.features):
        return "everywhere", "No segments or features were named in which to look for the cause."
    tail = " Not explained by feature drift." if columns.features else ""
    return "everywhere", "It changed about equally everywhere: no segment stands out." + tail


def _explains(part: Estimate, chance: float, total: float, share: float) -> bool:
    return chance <= _CHANCE and _significant(part, total, share)


def _significant(part: Estimate, total: float, share: float) -> bool:
    """Whether a part goes the way of the whole, for certain, and is at least a share of it."""
    same_way = np.sign(part.value) == np.sign(total) != 0
    return bool(same_way and part.direction and abs(part.value) >= share * abs(total))


def slices_sentence(evidence: Evidence) -> str:
    """Where it is worst."""
    said = []
    for s in evidence.slices[:3]:
        moved = f"{s.before:.3f} -> {s.now:.3f}"
        if evidence.change is None:
            moved = f"{s.now:.3f}, {s.excess.value:+.3f} against the rest"
        said.append(f"{s.predicate} ({moved}, {100 * s.share:.1f} % of queries)")
    return f"It is worst in {' and in '.join(said)}." if said else ""


def verdict_of(evidence: Evidence) -> Verdict:
    """The three sentences; what was served is the first suspect where it was not what the model says."""
    verdict = _without_parity(evidence)
    if evidence.parity is None or not evidence.parity.alerts:
        return verdict
    cause = "serving" if verdict.cause in ("none", "healthy", "improved", "everywhere") else verdict.cause
    where = f"{evidence.parity.verdict} {verdict.where}".rstrip()
    return replace(verdict, cause=cause, where=where)


def _without_parity(evidence: Evidence) -> Verdict:
    change, where, caution = evidence.change, slices_sentence(evidence), _general_caution(evidence)
    if change is None:
        what = "Nothing to compare with: no baseline was given."
        if evidence.arms is not None:
            what = "No baseline was given; the arms are compared with each other."
        return Verdict("none", what, where, caution)
    moved = _moved_sentence(evidence, change)
    if evidence.lost_labels:
        return _about_labels(evidence, moved)
    seen = evidence.presentation
    if seen is not None and seen.ips is not None and (seen.changed or evidence.ips_fell):
        return _about_page_with_ips(evidence, seen, moved)
    if evidence.page and (evidence.moved or change.difference.direction):
        where = (
            "Positives at rank 1 are as frequent as before while other ranks moved: the page changed, not "
            "necessarily the ranking."
        )
        text = f"Without propensities the two cannot be told apart: {CLICK_BIAS}."
        return Verdict("presentation", moved, where, _caution(text))
    if evidence.moved:
        cause, where, parts = cause_of(evidence)
        return Verdict(cause, moved, where, caution, parts)
    if evidence.slices:
        return Verdict("slice", moved, where, caution)
    if broken := evidence.broken_inputs:
        return Verdict("input", moved, f"An input broke: {'; '.join(broken)}.", caution)
    if defects := evidence.new_defects:
        where = f"The log itself differs from the baseline's: {defects[0]}."
        return Verdict("contract", moved, where, caution)
    better = change.difference.direction and evidence.worse(change.difference.value) < 0
    return Verdict("improved" if better else "healthy", moved, "", caution)


def _moved_sentence(evidence: Evidence, change: Change) -> str:
    primary, config = evidence.config.primary, evidence.config
    numbers = f"{change.baseline.value:.4f} -> {change.production.value:.4f}, {change.difference}"
    if evidence.adjusted_for:
        numbers += f" adjusted for {', '.join(evidence.adjusted_for)}"
    word = "fell" if change.difference.value < 0 else "rose"
    if change.alert:
        return f"{primary} {word}: {numbers}."
    if hit := [w.label for w in evidence.windows if w.moved]:
        where = f"{len(hit)} of {count_of(len(evidence.windows), 'window')}, first {hit[0]}"
        return f"{primary} moved in {where}; over all: {numbers}."
    if change.below_min_drop:
        least = f"min_drop {config.compare.min_drop:g}"
        return f"{primary} changed significantly, and by less than {least}: {numbers}."
    if change.difference.direction:
        after = f"; over all of production not significant after correction ({p_equals(change.p_corrected)})"
        worse = evidence.worse(change.difference.value) > 0
        return f"{primary} {word}: {numbers}{after if worse else ''}."
    return f"{primary} did not measurably change: {numbers}."


def _about_labels(evidence: Evidence, moved: str) -> Verdict:
    first = (LABELLED_DOCUMENTS, WITH_RELEVANT)
    test = min(
        evidence.label_alerts, key=lambda t: first.index(t.measure) if t.measure in first else len(first)
    )
    rates = f"{test.measure} went from {test.before:.3f} to {test.now:.3f}"
    if evidence.labels_arriving:
        what = f"Labels are still arriving: {rates}, lower in every newer window."
        cure = "The newest windows are immature; set relevance.maturity to leave them out."
        text = f"Whether the ranking changed there cannot be tested yet: {moved}"
        return Verdict("immature", what, cure, _caution(text))
    if not evidence.outage:
        cause, where, parts = "presentation", "The page changed, or the ranking did.", dict[str, float]()
        if not evidence.page:
            cause, where, parts = cause_of(evidence)
        where = f"{where} Fewer labels came in as well: {rates}, not evenly over the ranks."
        return Verdict(cause, moved, where, _caution(f"{_CLICK_BIAS}."), parts)
    where = "Labels, not the ranking, changed; look at the event pipeline first."
    if evidence.config.relevance.chosen == "label" and test.measure != LABELLED_DOCUMENTS:
        where = "Labels were lost, or other documents are retrieved: their order is not what changed."
    text = f"The metric is unreliable meanwhile, up or down: {moved}"
    return Verdict("labels", f"Label outage: {rates}.", where, _caution(text))


def _about_page_with_ips(evidence: Evidence, seen: result.Presentation, moved: str) -> Verdict:
    assert seen.ips is not None
    moved_by = seen.ips.direction or "did not measurably change"
    ips = f"IPS-DCG {moved_by}: {seen.ips_before:.4f} -> {seen.ips_now:.4f}, {seen.ips}"
    caution = _caution(f"{_CLICK_BIAS}; IPS-DCG holds as far as the propensities do.")
    if evidence.ips_fell:
        cause, where, parts = cause_of(evidence) if evidence.moved else ("everywhere", "", {})
        return Verdict(cause, f"The ranking got worse. {ips}. On clicks, {moved}", where, caution, parts)
    small = f" (less than min_drop {evidence.config.compare.min_drop:g} of what it was)"
    ips += small if seen.ips.direction == "fell" else ""
    if evidence.page:
        return Verdict("presentation", f"The page changed. {ips}. On clicks, {moved}", "", caution)
    if seen.ips.direction == "rose":
        return Verdict("improved", f"The ranking got better. {ips}. On clicks, {moved}", "", caution)
    where = "Rank 1 is not shown to be as before: whether the page or the ranking changed is undecided."
    return Verdict("none", f"{ips}. On clicks, {moved}", where, caution)


_CLICK_BIAS = f"{CLICK_BIAS[0].upper()}{CLICK_BIAS[1:]}"


def _caution(text: str, severity: Severity = "warning") -> Caution:
    """The verdict's caution: what cannot be concluded."""
    return Caution("cannot-tell", severity, text)


def _general_caution(evidence: Evidence) -> Caution | None:
    """The verdict's caution where the metric decides, as severe as the worst of its parts."""
    parts: list[tuple[Severity, str]] = []
    if n := evidence.n_immature:
        parts.append(("note", f"{count_of(n, 'query')} {plural('is', n)} left out, too young for labels"))
    if evidence.change is not None and "different queries" in evidence.change.method:
        text = "the periods hold different queries, a weaker test than scoring the same ones twice"
        parts.append(("note", text))
    if evidence.days_unknown:
        text = "day-to-day variation is unknown, so ordinary differences count as change"
        parts.append(("warning", text))
    if evidence.effective_users < _FEW_USERS:
        users = f"{evidence.effective_users:.0f} of one size"
        parts.append(("warning", f"few users decide: together they are worth about {users}"))
    if evidence.config.relevance.from_events:
        parts.append(("warning", CLICK_BIAS))
    if small := sum(w.status == "small" for w in evidence.windows):
        few = f"fewer than {evidence.config.windows.min_queries} queries"
        windows = f"{count_of(small, 'window')} {plural('is', small)} not tested, with {few}"
        parts.append(("note", f"{windows}: a longer windows.size tests more of them"))
    if not parts:
        return None
    text = "; ".join(text for _, text in parts)
    worst = min((severity for severity, _ in parts), key=SEVERITIES.index)
    return _caution(f"{text[:1].upper()}{text[1:]}.", worst)
