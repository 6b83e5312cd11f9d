"""A verdict of three sentences: what moved, where and likely why, and what cannot be told.

A cause is named only where it explains a fifth of the change, for certain, and more than chance would in shuffled data;
first comes what explains half. A broken input is not another kind of query, and no mix.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

import ltr_harness.monitoring.limits as limits
from ltr_harness._util.number_text import p_equals
from ltr_harness._util.text import count_of, plural
from ltr_harness.comparison.stats.two_samples import Estimate
from ltr_harness.errors import SEVERITIES, Caution, Severity
from ltr_harness.monitoring.alerts import label_alerts
from ltr_harness.monitoring.evidence import CORRECTED, Corrected, Evidence
from ltr_harness.monitoring.labels import CLICK_BIAS, LABELLED_DOCUMENTS, WITH_RELEVANT
from ltr_harness.monitoring.result import Change, FeatureDrift, SegmentDecomposition, Verdict
from ltr_harness.monitoring.slices import unsearched_sentences

_MIN_CAUSE_SHARE = 0.5  # from this share of the change on, the mix is called the cause
_MIN_SECOND_SHARE = 0.2  # from this share on, a second cause is named beside the first
_MIN_ERRORS = 3  # by so many standard errors, as nobody asked for it
_MAX_CHANCE = 0.05
_TESTABLE_SHARES = 0.05, 0.95  # share of queries at fault, to hold them against the others
_UNTESTED = "whether that is the cause cannot be tested: almost no query is without"
_MIN_USERS = 20
_UNCLEAR = "unclear"
_ALSO_RANKING = "a worse ranking below rank 1 does this too"


def cause_of(evidence: Evidence) -> tuple[str, str, dict[str, float]]:
    """Return the cause in a word and a sentence, and of two causes the part of the change that each explains."""
    total = evidence.difference.value
    first = _composition(evidence, total, _MIN_CAUSE_SHARE)
    second = first or _composition(evidence, total, _MIN_SECOND_SHARE)
    if second is None:
        word, sentence = _only_ranking(evidence)
        return word, " ".join([sentence, *_broken_besides(evidence, "")]), {}
    ranking, sentence = _ranking_beside(evidence)
    if first is None:
        parts = {ranking: total - second.part, second.word: second.part}
        sentences = [_two_causes(parts, total), sentence, second.sentence]
        return ranking, " ".join([*sentences, *_broken_besides(evidence, second.column)]), parts
    parts, sentences = {}, [first.sentence]
    sure = abs(first.within.value) >= _MIN_ERRORS * first.within.error
    if sure and _significant(first.within, total, _MIN_SECOND_SHARE):
        parts = {first.word: first.part, ranking: total - first.part}
        sentences = [_two_causes(parts, total), first.sentence, sentence]
    return first.word, " ".join([*sentences, *_broken_besides(evidence, first.column)]), parts


def _two_causes(parts: Mapping[str, float], total: float) -> str:
    named = ", ".join(f"{word} {part:+.4f} ({part / total:.0%})" for word, part in parts.items())
    return f"Two causes: {named}."


def _broken_besides(evidence: Evidence, blamed: str) -> list[str]:
    """Return sentences on inputs that broke and are not the cause, or not shown to be."""
    sentences = []
    for column, worst in evidence.broken_inputs.items():
        if column == blamed:
            continue
        testable = _TESTABLE_SHARES[0] <= worst.unmatched_share <= _TESTABLE_SHARES[1]
        reason = "that does not explain the change" if testable else _UNTESTED
        sentences.append(f"{column} {worst.broken}; {reason}.")
    return sentences


class _Composition(NamedTuple):
    """The part of a change that another composition of the queries explains, and the change within common cells."""

    word: str
    sentence: str
    column: str
    part: float
    within: Estimate


def _composition(evidence: Evidence, total: float, share: float) -> _Composition | None:
    """Return an input that broke, a segment's mix or a feature's, that explains at least a share of the change."""
    candidates = [
        f for f in evidence.drift if f.broken and _explains(f.unmatched, f.unmatched_p, total, share)
    ]
    if candidates:
        return _broken_input(max(candidates, key=lambda f: abs(f.unmatched.value)), total)
    return _largest_mix(evidence, total, share)


def _largest_mix(evidence: Evidence, total: float, share: float) -> _Composition | None:
    """Return the segment's mix, or a feature's, that explains most, and at least a share of the change."""

    def by_mix(parts: SegmentDecomposition | FeatureDrift) -> bool:
        is_free = parts.column not in evidence.adjusted_for
        return is_free and _explains(parts.mix, parts.mix_p, total, share)

    segments = [s for s in evidence.decompositions if by_mix(s) and s.column not in evidence.broken_inputs]
    features = [f for f in evidence.drift if f.kind == "number" and not f.broken and by_mix(f)]
    best = max(segments, key=lambda s: abs(s.mix.value), default=None)
    if features and (best is None or abs(features[0].mix.value) > abs(best.mix.value)):
        return _other_queries(features[0], total)
    return None if best is None else _other_mix(best, total)


def _broken_input(worst: FeatureDrift, total: float) -> _Composition:
    text = (
        f"An input broke: {worst.column} {worst.broken}; where the baseline has nothing like it, queries are "
        f"worse than the others, which explains {worst.unmatched.value:+.4f} of {total:+.4f}."
    )
    return _Composition("input", text, worst.column, worst.unmatched.value, worst.within)


def _other_mix(segment: SegmentDecomposition, total: float) -> _Composition:
    text = (
        f"Mix: the shares of {segment.column} changed, which explains {segment.mix.value:+.4f} of {total:+.4f} "
        f"(within segments {segment.within.value:+.4f})"
    )
    if segment.simpsons_paradox:
        text += "; segments improved, and the whole fell all the same"
    return _Composition("mix", f"{text}.", segment.column, segment.mix.value, segment.within)


def _other_queries(feature: FeatureDrift, total: float) -> _Composition:
    text = (
        f"Queries changed: {feature.name} moved (PSI {feature.psi:.2f}), and its mix explains "
        f"{feature.mix.value:+.4f} of {total:+.4f}."
    )
    return _Composition("covariate", text, feature.column, feature.mix.value, feature.within)


def _ranking_beside(evidence: Evidence) -> tuple[str, str]:
    """Return where the ranking is worst, as the cause beside another one, in a word and a sentence."""
    if evidence.slices:
        return "slice", f"{slice_sentence(evidence)} The ranking is the suspect."
    return "everywhere", f"{_no_segment_sentence(evidence)} The ranking is the suspect."


def _only_ranking(evidence: Evidence) -> tuple[str, str]:
    """Return where the ranking is worst, and what was looked at before it is suspected."""
    columns = evidence.config.columns
    if evidence.slices:
        exclusion = "No drifted feature explains it"
        if columns.segments:
            neither = "Neither the mix of segments nor a drifted feature explains it"
            exclusion = neither if columns.features else "The mix of segments does not explain it"
        return "slice", f"{slice_sentence(evidence)} {exclusion}: the ranking is the first suspect."
    if not (columns.segments or columns.features):
        return "everywhere", "No segments or features were named in which to look for the cause."
    tail = " Not explained by feature drift." if columns.features else ""
    return "everywhere", _no_segment_sentence(evidence) + tail


def _no_segment_sentence(evidence: Evidence) -> str:
    """Return how many segments were tested without one that stands out, and which ones could not be tested."""
    n = evidence.n_slice_candidates
    sentence = f"No segment stands out among {n:,} that were tested." if n else "No segment was tested."
    return " ".join([sentence, *unsearched_sentences(evidence.searched)])


def _explains(part: Estimate, chance: float, total: float, share: float) -> bool:
    return chance <= _MAX_CHANCE and _significant(part, total, share)


def _significant(part: Estimate, total: float, share: float) -> bool:
    """Return whether a part goes the way of the whole, for certain, and is at least a share of it."""
    same_way = np.sign(part.value) == np.sign(total) != 0
    return bool(same_way and part.direction and abs(part.value) >= share * abs(total))


def slice_sentence(evidence: Evidence) -> str:
    """Return a sentence on the worst segments; empty where none stands out."""
    phrases = []
    for s in evidence.slices[:3]:
        moved = f"{s.before:.3f} -> {s.now:.3f}"
        if evidence.change is None:
            moved = f"{s.now:.3f}, {s.excess.value:+.3f} against the rest"
        phrases.append(f"{s.predicate} ({moved}, {100 * s.share:.1f} % of queries)")
    return f"It is worst in {' and in '.join(phrases)}." if phrases else ""


def verdict_of(evidence: Evidence, undecided: str = "") -> Verdict:
    """Return the three sentences; scores that were not the model's are the first suspect."""
    verdict = _with_limits(evidence, _without_parity(evidence))
    if undecided:
        cause = _UNCLEAR if verdict.cause in ("none", "healthy", "improved") else verdict.cause
        sentence = f"{verdict.where} Undecided: {undecided}.".lstrip()
        verdict = replace(verdict, cause=cause, where=sentence)
    if evidence.parity is None or not evidence.parity.alerts:
        return verdict
    cause = "serving" if verdict.cause in ("none", "healthy", "improved", "everywhere") else verdict.cause
    sentence = f"{evidence.parity.verdict} {verdict.where}".rstrip()
    return replace(verdict, cause=cause, where=sentence)


def _with_limits(evidence: Evidence, verdict: Verdict) -> Verdict:
    """Add the metrics that lie below their limits to the verdict."""
    below = limits.alert_sentence(evidence.limits)
    if not below:
        return verdict
    cause = "limit" if verdict.cause in ("none", "healthy", "improved") else verdict.cause
    return replace(verdict, cause=cause, where=f"{below} {verdict.where}".rstrip())


def _without_parity(evidence: Evidence) -> Verdict:
    change, caution = evidence.change, _general_caution(evidence)
    if change is None:
        return Verdict("none", _no_baseline(evidence), slice_sentence(evidence), caution)
    moved = _moved_sentence(evidence, change)
    if evidence.lost_labels:
        return _about_labels(evidence, moved)
    if evidence.corrected is not None and (evidence.page_moved or evidence.ips_fell):
        return _about_page_with_ips(evidence, evidence.corrected, moved)
    without_propensities = evidence.page_moved and evidence.rank_1 != "rose" and not evidence.moved
    if evidence.page_or_ranking or without_propensities:
        return Verdict(_UNCLEAR, moved, _page_or_ranking(evidence), _caution(f"{_CLICK_BIAS}."))
    if evidence.moved:
        cause, sentence, parts = cause_of(evidence)
        return Verdict(cause, moved, sentence, caution, parts)
    return _about_the_rest(evidence, change, moved, caution)


def _no_baseline(evidence: Evidence) -> str:
    if evidence.limits:
        held = [limits.sentence(limit) for limit in evidence.limits if not limit.whole.alert]
        return " ".join(["No baseline was given.", *held])
    if evidence.arms is not None:
        return "No baseline was given; the arms are compared with each other."
    return "Nothing to compare with: no baseline was given."


def _page_or_ranking(evidence: Evidence) -> str:
    seen = evidence.presentation
    finding = "Positives are spread over the ranks differently"
    if seen is not None and seen.signature == "page":
        finding = "Positives at rank 1 are as frequent as before while other ranks moved"
    explanation = "another page does this, and so does a worse ranking below rank 1"
    return f"{finding}: {explanation}. Without propensities the two cannot be told apart."


def _about_the_rest(evidence: Evidence, change: Change, moved: str, caution: Caution | None) -> Verdict:
    """Return the verdict where the metric has not noticeably moved."""
    if evidence.slices:
        return Verdict("slice", moved, slice_sentence(evidence), caution)
    if texts := evidence.broken_input_texts:
        return Verdict("input", moved, f"An input broke: {'; '.join(texts)}.", caution)
    if defects := evidence.new_defects:
        sentence = f"The log itself differs from the baseline's: {defects[0]}."
        return Verdict("contract", moved, sentence, caution)
    better = change.difference.direction and evidence.loss(change.difference.value) < 0
    return Verdict("improved" if better else "healthy", moved, "", caution)


def _moved_sentence(evidence: Evidence, change: Change) -> str:
    primary, min_drop = evidence.config.primary, evidence.config.compare.min_drop
    numbers = f"{change.baseline.value:.4f} -> {change.production.value:.4f}, {change.difference}"
    if evidence.adjusted_for:
        numbers += f" adjusted for {', '.join(evidence.adjusted_for)}"
    n_windows, part = count_of(len(evidence.windows), "window"), evidence.examined
    if part is not None:
        part_numbers = f"{part.baseline:.4f} -> {part.production:.4f}, {part.difference}"
        place = f"{len(part.windows)} of {n_windows}, first {part.windows[0]}"
        return f"{primary} {_direction(part.difference)} in {place}: {part_numbers}; over all of production: {numbers}."
    if change.alert:
        return f"{primary} {_direction(change.difference)}: {numbers}."
    if moved := [w.label for w in evidence.windows if w.moved]:
        place = f"{len(moved)} of {n_windows}, first {moved[0]}"
        return f"{primary} moved in {place}; over all of production: {numbers}."
    if change.below_min_drop:
        return f"{primary} changed significantly, and by less than min_drop {min_drop:g}: {numbers}."
    if not change.difference.direction:
        return f"{primary} did not measurably change: {numbers}."
    if evidence.loss(change.difference.value) > 0:
        numbers += (
            f"; over all of production not significant after correction ({p_equals(change.p_corrected)})"
        )
    return f"{primary} {_direction(change.difference)}: {numbers}."


def _direction(difference: Estimate) -> str:
    return "fell" if difference.value < 0 else "rose"


def _about_labels(evidence: Evidence, moved: str) -> Verdict:
    first = (LABELLED_DOCUMENTS, WITH_RELEVANT)
    by_measure = label_alerts(evidence)
    measure = min(by_measure, key=lambda name: first.index(name) if name in first else len(first))
    rates = _rates(evidence, measure)
    if evidence.labels_arriving:
        sentence = f"Labels are still arriving: {measure} went {rates}, lower in every newer window."
        cure = "The newest windows are immature; set relevance.maturity to leave them out."
        text = f"Whether the ranking changed there cannot be tested yet: {moved}"
        return Verdict("immature", sentence, cure, _caution(text))
    if not evidence.outage:
        return _about_uneven_labels(evidence, moved, f"{measure} fell {rates}")
    advice = "Labels, not the ranking, changed; look at the event pipeline first."
    if evidence.config.relevance.chosen == "label" and measure != LABELLED_DOCUMENTS:
        advice = "Labels were lost, or other documents are retrieved: their order is not what changed."
    text = f"The metric is unreliable meanwhile, up or down: {moved}"
    return Verdict("labels", f"Label outage: {measure} went {rates}.", advice, _caution(text))


def _rates(evidence: Evidence, measure: str) -> str:
    """Return from where to where a rate of labels went, in the worst window where some windows alone are at fault."""
    tests = label_alerts(evidence)[measure]
    windows = [test for test in tests if test.window != "all"]
    of_all = [test for test in tests if test.window == "all"]
    tested = sum(test.measure == measure and test.window != "all" for test in evidence.labels)
    if of_all and 2 * len(windows) >= tested:
        return f"from {of_all[0].before:.3f} to {of_all[0].now:.3f}"
    worst = min(windows or of_all, key=lambda test: test.now)
    place = "" if worst.window == "all" else f" in {worst.window}"
    return f"from {worst.before:.3f} to {worst.now:.3f}{place}"


def _about_uneven_labels(evidence: Evidence, moved: str, fewer: str) -> Verdict:
    """Return the verdict on fewer labels that are not shown to be lost at all ranks alike."""
    seen = evidence.presentation
    may_be_even = seen is not None and seen.rank_1_against_rest is not None and not seen.is_uneven
    ranks = "whether evenly over the ranks cannot be told" if may_be_even else "not evenly over the ranks"
    sentence = f"{fewer[:1].upper()}{fewer[1:]}, {ranks}: {_ALSO_RANKING}."
    if may_be_even or not evidence.moved or evidence.page_or_ranking:
        return Verdict(_UNCLEAR, moved, sentence, _caution(f"{_CLICK_BIAS}."))
    cause, ranking_sentence, parts = cause_of(evidence)
    return Verdict(cause, moved, f"{ranking_sentence} {sentence}", _caution(f"{_CLICK_BIAS}."), parts)


def _about_page_with_ips(evidence: Evidence, corrected: Corrected, moved: str) -> Verdict:
    direction = corrected.change.direction
    numbers = f"{corrected.before:.4f} -> {corrected.now:.4f}, {corrected.change}"
    ips = f"{CORRECTED[:1].upper()}{CORRECTED[1:]} {direction or 'did not measurably change'}: {numbers}"
    caution = _caution(f"{_CLICK_BIAS}; {CORRECTED} holds as far as the propensities do.")
    if corrected.fell:
        cause, sentence, parts = cause_of(evidence) if evidence.moved else ("everywhere", "", {})
        return Verdict(cause, f"The ranking got worse. {ips}. On clicks, {moved}", sentence, caution, parts)
    least = f"min_drop {evidence.config.compare.min_drop:g} of what it was"
    if direction == "fell":
        ips += f" (less than {least})"
    if corrected.is_open:
        sentence = f"Whether the page or the ranking changed cannot be told: that does not exclude a fall of {least}."
        return Verdict(_UNCLEAR, f"{moved} {ips}.", sentence, caution)
    if corrected.gained and evidence.presentation is not None:
        seen = evidence.presentation
        ips = f"IPS-DCG rose: {seen.ips_before:.4f} -> {seen.ips_now:.4f}, {corrected.gain}"
    if corrected.gained or direction == "rose":
        return Verdict("improved", f"The ranking got better. {ips}. On clicks, {moved}", "", caution)
    sentence = f"The ranking did not get worse by {least}."
    return Verdict("presentation", f"The page changed. {ips}. On clicks, {moved}", sentence, caution)


_CLICK_BIAS = f"{CLICK_BIAS[0].upper()}{CLICK_BIAS[1:]}"


def _caution(text: str, severity: Severity = "warning") -> Caution:
    """Return the verdict's caution: what cannot be concluded."""
    return Caution("cannot-tell", severity, text)


def _general_caution(evidence: Evidence) -> Caution | None:
    """Return the verdict's caution where the metric decides, as severe as the worst of its parts."""
    parts: list[tuple[Severity, str]] = []
    if n := evidence.n_immature:
        parts.append(
            (
                "note",
                f"{count_of(n, 'query')} {plural('is', n)} left out because labels are still arriving",
            )
        )
    if evidence.change is not None and "different queries" in evidence.change.method:
        text = "the periods hold different queries, which is a weaker test than scoring the same ones twice"
        parts.append(("note", text))
    if evidence.days_unknown:
        text = "day-to-day variation is unknown, so ordinary day-to-day differences may raise alerts"
        parts.append(("warning", text))
    if evidence.effective_users < _MIN_USERS:
        users = f"{evidence.effective_users:.0f} of one size"
        parts.append(
            ("warning", f"a few users have most of the queries; together they count as about {users}")
        )
    if evidence.config.relevance.from_events:
        parts.append(("warning", CLICK_BIAS))
    if small := sum(w.status == "small" for w in evidence.windows):
        few = f"fewer than {evidence.config.windows.min_queries} queries"
        windows = f"{count_of(small, 'window')} {plural('is', small)} not tested, with {few}"
        parts.append(("note", f"{windows} (a longer windows.size tests more of them)"))
    if not parts:
        return None
    text = "; ".join(text for _, text in parts)
    worst = min((severity for severity, _ in parts), key=SEVERITIES.index)
    return _caution(f"{text[:1].upper()}{text[1:]}.", worst)
