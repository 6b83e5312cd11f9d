"""What is said of the arms of an A/B test, and why nothing is."""

from __future__ import annotations

from collections.abc import Sequence

from ltr_harness.comparison.sentence import p_text
from ltr_harness.monitoring.results.arms import Arm, ArmDifference

_BROKEN = 0.001  # chance of shares as odd as these, below which nothing is said of the arms
_SEVERAL = 0.01  # of the units in several arms, from which on an arm is nobody's


def withheld(arms: Sequence[Arm], several: tuple[int, int], unit: str, ratio_p: float, drift_p: float) -> str:
    """Why there is no verdict; empty where there is one."""
    whose = units_in_words(unit)
    if several[0] > _SEVERAL * several[1]:
        return (
            f"{several[0]:,} of {several[1]:,} {whose} are in several arms; if every query was given an arm, leave "
            "out columns.cluster_id"
        )
    total = sum(arm.n_units for arm in arms)
    if not total:
        return "no query is old enough for its labels"
    if ratio_p < _BROKEN:
        off = max(arms, key=lambda arm: abs(arm.n_units / total - arm.expected))
        return (
            f"{off.name} has {off.n_units:,} of {total:,} {whose}, {100 * off.n_units / total:.2f} %, where "
            f"{100 * off.expected:.2f} % were expected ({p_of(ratio_p)}): the assignment or the log is broken"
        )
    if drift_p < _BROKEN:
        return (
            f"the arms' shares change from window to window ({p_of(drift_p)}), and windows differ: judge each stage of "
            "the rollout by itself"
        )
    return ""


def sentence(differences: Sequence[ArmDifference], control: str, family: str) -> str:
    """The verdict, arm by arm: the first measure with its numbers, then the others that stand out."""
    said = []
    for arm in dict.fromkeys(d.arm for d in differences):
        first, *others = (d for d in differences if d.arm == arm)
        how = {
            "better": "is better than",
            "worse": "is worse than",
            "too little to tell": "has too little data to tell it from",
        }.get(first.verdict, "is not distinguishable from")
        numbers = "" if first.p_corrected != first.p_corrected else f": {first.difference}"
        numbers += "" if not numbers else f", {p_of(first.p_corrected)} after {family}"
        words = []
        for word in ("better", "worse", "higher", "lower"):
            names = [f"{d.measure} ({d.difference.value:+.4f})" for d in others if d.verdict == word]
            words += [f"{word} at {', '.join(names)}"] if names else []
        rest = "; ".join(words) or ("no other measure stands out" if others else "")
        said.append(
            f"{arm} {how} {control} at {first.measure}{numbers}{'. ' if rest else ''}{rest[:1].upper()}{rest[1:]}."
        )
    return " ".join(said)


def units_in_words(unit: str) -> str:
    return "queries" if unit == "query" else f"values of {unit}"


def p_of(p: float) -> str:
    return f"p = {p_text(p)}".replace("= <", "< ")
