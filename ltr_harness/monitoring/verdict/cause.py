"""Likely why: an input that broke, the mix of queries, a segment, or everywhere alike; two of them with their shares.

A cause is named only where it explains a fifth of the change, for certain, and more than chance would in shuffled
data; first comes what explains half. What both periods cannot be compared in explains nothing: a broken input is not
another kind of query.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ltr_harness.monitoring.results.answers import FeatureDrift, Interval, Split
from ltr_harness.monitoring.verdict.evidence import Evidence

_EXPLAINS = 0.5  # from this share of the change on, the mix is called the cause
_BESIDE = 0.2  # from this share on, a second cause is named beside the first
_ERRORS = 3  # by so many standard errors, as nobody asked for it
_CHANCE = 0.05
_CONTRAST = 0.05, 0.95  # share of queries at fault, to hold them against the others


class Cause(NamedTuple):
    """A word, a sentence, and where there are two causes, the part of the change that each explains."""

    word: str
    sentence: str
    parts: dict[str, float]


def cause_of(evidence: Evidence) -> Cause:
    """The cause, or the two."""
    change = evidence.change
    assert change is not None
    total = change.difference.value
    first = _composition(evidence, total, _EXPLAINS)
    second = first or _composition(evidence, total, _BESIDE)
    ranking, sentence = _ranking(evidence, alone=second is None)
    said, parts = [first.sentence if first else sentence], {}
    if second and (not first or _beyond_doubt(first.within, total)):
        mix, rest = (second.word, second.part), (ranking, total - second.part)
        parts = dict((mix, rest) if first else (rest, mix))
        named = ", ".join(f"{word} {part:+.4f} ({part / total:.0%})" for word, part in parts.items())
        said = [f"Two causes: {named}.", *said, sentence if first else second.sentence]
    blamed = second.column if second else ""
    said += [_beside(worst) for column, worst in evidence.broken.items() if column != blamed]
    return Cause(first.word if first else ranking, " ".join(said), parts)


class _Composition(NamedTuple):
    """What another composition of the queries explains, and the change within what both periods have."""

    word: str
    sentence: str
    column: str
    part: float
    within: Interval


def _composition(evidence: Evidence, total: float, share: float) -> _Composition | None:
    """An input that broke, a segment's mix or a feature's, that explains at least a share of the change."""
    inputs = [
        f for f in evidence.drift if f.broken and _explains(f.unmatched, f.unmatched_chance, total, share)
    ]
    if inputs:
        worst = max(inputs, key=lambda f: abs(f.unmatched.value))
        return _Composition(
            "input", _input_sentence(worst, total), worst.column, worst.unmatched.value, worst.within
        )
    splits = [
        s
        for s in evidence.splits
        if _explains(s.mix, s.mix_chance, total, share)
        and not _broken(evidence, s.column)
        and s.column not in evidence.adjusted_for
    ]
    features = [
        f
        for f in evidence.drift
        if f.kind == "number"
        and not f.broken
        and f.column not in evidence.adjusted_for
        and _explains(f.mix, f.mix_chance, total, share)
    ]
    best = max(splits, key=lambda s: abs(s.mix.value), default=None)
    if best is not None and (not features or abs(features[0].mix.value) <= abs(best.mix.value)):
        return _Composition("mix", _mix_sentence(best, total), best.column, best.mix.value, best.within)
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
        looked = (
            "Neither the mix of segments nor a drifted feature explains it"
            if columns.segments and columns.features
            else "The mix of segments does not explain it"
            if columns.segments
            else "No drifted feature explains it"
        )
        return "slice", f"{slices_sentence(evidence)} {looked}: the ranking is the first suspect."
    if not (columns.segments or columns.features):
        return "everywhere", "No segments or features were named in which to look for the cause."
    tail = " Not explained by feature drift." if columns.features else ""
    return "everywhere", "It changed about equally everywhere: no segment stands out." + tail


def _broken(evidence: Evidence, column: str) -> bool:
    return column in evidence.broken


def _explains(part: Interval, chance: float, total: float, share: float = _EXPLAINS) -> bool:
    return chance <= _CHANCE and _significant(part, total, share)


def _significant(part: Interval, total: float, share: float) -> bool:
    """Whether a part goes the way of the whole, for certain, and is at least a share of it."""
    same_way = np.sign(part.value) == np.sign(total) != 0
    return bool(same_way and part.direction and abs(part.value) >= share * abs(total))


def _beyond_doubt(part: Interval, total: float) -> bool:
    return _significant(part, total, _BESIDE) and abs(part.value) >= _ERRORS * part.error


def _input_sentence(worst: FeatureDrift, total: float) -> str:
    return (
        f"An input broke: {worst.column} {worst.broken}; where the baseline has nothing like it, queries are worse "
        f"than the others, which explains {worst.unmatched.value:+.4f} of {total:+.4f}."
    )


def _mix_sentence(best: Split, total: float) -> str:
    text = (
        f"Mix: the shares of {best.column} changed, which explains {best.mix.value:+.4f} of {total:+.4f} "
        f"(within segments {best.within.value:+.4f})"
    )
    if best.improved_inside:
        text += "; segments improved, and the whole fell all the same"
    return text + "."


def _beside(drift: FeatureDrift) -> str:
    """What is said of an input that broke and is not the cause, or not shown to be."""
    least, most = _CONTRAST
    if least <= drift.lacking <= most:
        said = "that does not explain the change"
    else:
        said = "whether that is the cause cannot be told, as next to no query is without"
    return f"{drift.column} {drift.broken}; {said}."


def slices_sentence(evidence: Evidence) -> str:
    """Where it is worst."""
    if not evidence.slices:
        return ""
    alone = evidence.change is None
    said = [
        f"{s.predicate} ("
        + (
            f"{s.now:.3f}, {s.excess.value:+.3f} against the rest"
            if alone
            else f"{s.before:.3f} -> {s.now:.3f}"
        )
        + f", {100 * s.share:.1f} % of queries)"
        for s in evidence.slices[:3]
    ]
    return f"It is worst in {' and in '.join(said)}."
