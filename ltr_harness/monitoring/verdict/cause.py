"""Likely why: an input that broke, the mix of queries, a segment, or everywhere alike.

A cause is named only where it explains half of the change, for certain, and more than chance would in shuffled data.
What both periods cannot be compared in explains nothing: a broken input is not another kind of query.
"""

from __future__ import annotations

import numpy as np

from ltr_harness.monitoring.results.answers import FeatureDrift, Interval, Split
from ltr_harness.monitoring.verdict.evidence import Evidence

_EXPLAINS = 0.5  # from this share of the change on, the mix is called the cause
_CHANCE = 0.05
_CONTRAST = 0.05, 0.95  # share of queries at fault, to hold them against the others


def cause_of(evidence: Evidence) -> tuple[str, str]:
    """A word and a sentence."""
    change = evidence.change
    assert change is not None
    total = change.difference.value
    cause, sentence, named = _named(evidence, total)
    beside = [_beside(worst) for column, worst in evidence.broken.items() if column != named]
    return cause, " ".join([sentence, *beside])


def _named(evidence: Evidence, total: float) -> tuple[str, str, str]:
    """The cause, its sentence, and the column that it blames."""
    inputs = [f for f in evidence.drift if f.broken and _explains(f.unmatched, f.unmatched_chance, total)]
    if inputs:
        worst = max(inputs, key=lambda f: abs(f.unmatched.value))
        return "input", _input_sentence(worst, total), worst.column
    splits = [
        s
        for s in evidence.splits
        if _explains(s.mix, s.mix_chance, total)
        and not _broken(evidence, s.column)
        and s.column not in evidence.adjusted_for
    ]
    features = [
        f
        for f in evidence.drift
        if f.kind == "number"
        and not f.broken
        and f.column not in evidence.adjusted_for
        and _explains(f.mix, f.mix_chance, total)
    ]
    best = max(splits, key=lambda s: abs(s.mix.value), default=None)
    if best is not None and (not features or abs(features[0].mix.value) <= abs(best.mix.value)):
        return "mix", _mix_sentence(best, total), best.column
    if features:
        first = features[0]
        text = (
            f"Queries changed: {first.name} moved (PSI {first.psi:.2f}), and its mix explains "
            f"{first.mix.value:+.4f} of {total:+.4f}."
        )
        return "covariate", text, first.column
    columns = evidence.config.columns
    if evidence.slices:
        looked = (
            "Neither the mix of segments nor a drifted feature explains it"
            if columns.segments and columns.features
            else "The mix of segments does not explain it"
            if columns.segments
            else "No drifted feature explains it"
        )
        return "slice", f"{slices_sentence(evidence)} {looked}: the ranking is the first suspect.", ""
    if not (columns.segments or columns.features):
        return "everywhere", "No segments or features were named in which to look for the cause.", ""
    tail = " Not explained by feature drift." if columns.features else ""
    return "everywhere", "It changed about equally everywhere: no segment stands out." + tail, ""


def _broken(evidence: Evidence, column: str) -> bool:
    return column in evidence.broken


def _explains(part: Interval, chance: float, total: float) -> bool:
    same_way = np.sign(part.value) == np.sign(total) != 0
    return bool(
        same_way and part.direction and chance <= _CHANCE and abs(part.value) >= _EXPLAINS * abs(total)
    )


def _input_sentence(worst: FeatureDrift, total: float) -> str:
    return (
        f"An input broke: {worst.column} {worst.broken}; where the baseline has nothing like it, queries are worse "
        f"than the others, which explains {worst.unmatched.value:+.4f} of {total:+.4f}."
    )


def _mix_sentence(best: Split, total: float) -> str:
    text = (
        f"Mix: the shares of {best.column} changed, which explains {best.mix.value:+.4f} of "
        f"{total:+.4f} (within segments {best.within.value:+.4f})"
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
