"""What moved, where, likely why, and what cannot be told: three sentences."""

from __future__ import annotations

from dataclasses import replace

from ltr_harness.monitoring.analysis.label_health import LABELLED_DOCUMENTS, WITH_RELEVANT
from ltr_harness.monitoring.analysis.presentation import CAUTION
from ltr_harness.monitoring.results.answers import LabelTest, Presentation, Verdict
from ltr_harness.monitoring.verdict.cause import Cause, cause_of, slices_sentence
from ltr_harness.monitoring.verdict.evidence import Evidence
from ltr_harness.wording import count_of, plural

_FEW_USERS = 20


def verdict_of(evidence: Evidence) -> Verdict:
    """The three sentences; what was served is the first suspect where it was not what the model says."""
    verdict = _without_parity(evidence)
    if evidence.parity is None or not evidence.parity.alerts:
        return verdict
    cause = "serving" if verdict.cause in ("none", "healthy", "improved", "everywhere") else verdict.cause
    where = f"{evidence.parity.verdict} {verdict.where}".rstrip()
    return replace(verdict, cause=cause, where=where)


def _without_parity(evidence: Evidence) -> Verdict:
    change, config = evidence.change, evidence.config
    primary = str(config.primary)
    if change is None:
        return Verdict(
            "none",
            "Nothing to compare with: no baseline was given."
            if evidence.arms is None
            else "No baseline was given; the arms are compared with each other.",
            slices_sentence(evidence),
            _untold(evidence),
        )
    moved = _moved_sentence(evidence, primary)
    if evidence.lost_labels:
        return _about_labels(evidence, moved)
    seen = evidence.presentation
    if seen is not None and seen.ips is not None and (seen.changed or evidence.ips_fell):
        return _about_page_with_ips(evidence, seen, moved)
    if evidence.page and (evidence.moved or change.difference.direction):
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
        cause, where, parts = cause_of(evidence)
        return Verdict(cause, moved, where, _untold(evidence), parts)
    if evidence.slices:
        return Verdict("slice", moved, slices_sentence(evidence), _untold(evidence))
    if evidence.broken:
        return Verdict(
            "input", moved, f"An input broke: {'; '.join(evidence.broken_inputs)}.", _untold(evidence)
        )
    if evidence.warnings:
        return Verdict(
            "contract",
            moved,
            f"The log itself is not as the baseline's: {evidence.warnings[0]}.",
            _untold(evidence),
        )
    better = change.difference.direction and evidence.worse(change.difference.value) < 0
    return Verdict("improved" if better else "healthy", moved, "", _untold(evidence))


def _moved_sentence(evidence: Evidence, primary: str) -> str:
    change = evidence.change
    assert change is not None
    numbers = f"{change.baseline.value:.4f} -> {change.production.value:.4f}, {change.difference}"
    if evidence.adjusted_for:
        numbers += f" adjusted for {', '.join(evidence.adjusted_for)}"
    word = "fell" if change.difference.value < 0 else "rose"
    if change.alert:
        return f"{primary} {word}: {numbers}."
    hit = [w.label for w in evidence.windows if w.alert or w.trailing_alert or w.running_alert]
    if hit:
        return (
            f"{primary} moved in {len(hit)} of {count_of(len(evidence.windows), 'window')}, "
            f"first {hit[0]}; over all: {numbers}."
        )
    if change.below_min_drop:
        return (
            f"{primary} changed significantly, and by less than min_drop "
            f"{evidence.config.compare.min_drop:g}: {numbers}."
        )
    if change.difference.direction:
        after = f"; over all of production not significant after correction (p = {change.p_corrected:.4f})"
        worse = evidence.worse(change.difference.value) > 0
        return f"{primary} {word}: {numbers}{after if worse else ''}."
    return f"{primary} did not measurably change: {numbers}."


def _about_labels(evidence: Evidence, moved: str) -> Verdict:
    first = (LABELLED_DOCUMENTS, WITH_RELEVANT)
    test = min(evidence.label_alerts, key=lambda t: first.index(t.what) if t.what in first else len(first))
    rates = f"{test.what} went from {test.before:.3f} to {test.now:.3f}"
    if evidence.labels_arriving:
        return Verdict(
            "immature",
            f"Labels are still arriving: {rates}, less with every newer window.",
            "The newest windows are immature; set relevance.maturity to leave them out.",
            f"Whether the ranking changed there cannot be told yet: {moved}",
        )
    if not evidence.outage:
        unknown = Cause("presentation", "The page changed, or the ranking did.", {})
        cause, where, parts = unknown if evidence.page else cause_of(evidence)
        return Verdict(
            cause,
            moved,
            f"{where} Fewer labels came in as well: {rates}, not evenly over the ranks.",
            f"{CAUTION[0].upper()}{CAUTION[1:]}.",
            parts,
        )
    return Verdict(
        "labels",
        f"Label outage: {rates}.",
        _where_labels_went(evidence, test),
        f"What the metric did meanwhile cannot be trusted, up or down: {moved}",
    )


def _where_labels_went(evidence: Evidence, test: LabelTest) -> str:
    if evidence.config.relevance.chosen == "label" and test.what != LABELLED_DOCUMENTS:
        return "Labels were lost, or other documents are retrieved: their order is not what changed."
    return "Labels, not the ranking, changed; look at the event pipeline first."


def _about_page_with_ips(evidence: Evidence, seen: Presentation, moved: str) -> Verdict:
    assert seen.ips is not None
    moved_by = seen.ips.direction or "did not measurably change"
    ips = f"IPS-DCG {moved_by}: {seen.ips_before:.4f} -> {seen.ips_now:.4f}, {seen.ips}"
    untold = f"{CAUTION[0].upper()}{CAUTION[1:]}; IPS-DCG holds as far as the propensities do."
    if evidence.ips_fell:
        cause, where, parts = cause_of(evidence) if evidence.moved else Cause("everywhere", "", {})
        return Verdict(cause, f"The ranking got worse. {ips}. On clicks, {moved}", where, untold, parts)
    small = f" (less than min_drop {evidence.config.compare.min_drop:g} of what it was)"
    ips += small if seen.ips.direction == "fell" else ""
    if evidence.page:
        return Verdict("presentation", f"The page changed. {ips}. On clicks, {moved}", "", untold)
    if seen.ips.direction == "rose":
        return Verdict("improved", f"The ranking got better. {ips}. On clicks, {moved}", "", untold)
    where = "Rank 1 is not shown to be as before: whether the page or the ranking changed cannot be told."
    return Verdict("none", f"{ips}. On clicks, {moved}", where, untold)


def _untold(evidence: Evidence) -> str:
    said = []
    if evidence.n_immature:
        said.append(
            f"{count_of(evidence.n_immature, 'query')} {plural('is', evidence.n_immature)} left out, too young "
            f"for labels"
        )
    if evidence.change is not None and "different queries" in evidence.change.method:
        said.append("the periods hold different queries, a weaker test than scoring the same ones twice")
    if evidence.days_unknown:
        said.append(
            "how much days differ by themselves is not known, and ordinary differences count as change"
        )
    if evidence.effective_users < _FEW_USERS:
        said.append(
            f"few users decide: together they are worth about {evidence.effective_users:.0f} of one size"
        )
    if evidence.config.relevance.from_events:
        said.append(CAUTION)
    small = [w for w in evidence.windows if w.status == "small"]
    if small:
        said.append(f"{count_of(len(small), 'window')} {plural('is', len(small))} too small to be tested")
    text = "; ".join(said)
    return f"{text[:1].upper()}{text[1:]}." if text else ""
