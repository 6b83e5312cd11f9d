"""The answer of a monitoring run in one line: its status and a headline of at most twenty words."""

import math

from ltr_harness.monitoring.arms import sentence
from ltr_harness.monitoring.result import ArmComparison, MonitorResult
from ltr_harness.report.blocks import Badge, Banner
from ltr_harness.stats.two_samples import Estimate
from ltr_harness.wording import count_of

WORDS = 20

_CAUSES = {
    "labels": "Label outage",
    "immature": "Labels are still arriving",
    "presentation": "The page changed",
    "serving": "Served scores differ from the model's",
    "input": "An input broke",
    "contract": "The log has new defects",
    "mix": "The mix of queries changed",
    "covariate": "The queries changed",
}
"""What a headline begins with, by the cause in the verdict; the others are the ranking's own."""


def banner(result: MonitorResult) -> Banner:
    """Alerts and their number, or healthy; neither where there is no baseline."""
    status = Badge("healthy", "good") if result.changes else Badge("no baseline", "neutral")
    if result.alerts:
        status = Badge(count_of(len(result.alerts), "alert"), "bad")
    cause = _CAUSES.get(result.verdict.cause)
    text = f"{cause}: {_moved(result)}" if cause else _moved(result)
    where = f", worst in {result.slices[0].predicate}" if result.n_alerts("slice") else ""
    return Banner(status, text + where if len((text + where).split()) <= WORDS else text)


def _moved(result: MonitorResult) -> str:
    """What the primary metric did; IPS-DCG in its place where clicks alone cannot tell."""
    if not result.changes:
        if result.arms is not None:
            return _arms(result.arms, result)
        queries = count_of(sum(window.n_defined for window in result.windows), "query")
        return f"{result.primary} has a mean of {result.mean(result.primary):.4f} over {queries}"
    change, seen = result.changes[0], result.presentation
    if seen is not None and seen.ips is not None and (seen.changed or seen.ips.direction == "fell"):
        return f"IPS-DCG {_difference(seen.ips, result)}"
    moved = [window.label for window in result.windows if window.moved]
    if moved and not change.alert:
        windows = count_of(len(result.windows), "window")
        return f"{result.primary} moved in {len(moved)} of {windows}, first {moved[0]}"
    text = f"{result.primary} {_difference(change.difference, result)}"
    if change.below_min_drop:
        return f"{text}, less than min_drop {result.min_drop:g}"
    worse = change.difference.direction == ("fell" if result.higher_is_better else "rose")
    return f"{text}, not significant after correction" if worse and not change.alert else text


def _difference(change: Estimate, result: MonitorResult) -> str:
    """What moved, by how much in that direction; the interval in brackets where it has ends."""
    by, low, high, sign = f"{change.direction} by", change.low, change.high, ""
    if not change.direction:
        by, sign = "did not measurably change:", "+"
    elif change.direction == "fell":
        low, high = -high, -low
    value = abs(change.value) if change.direction else change.value
    ends = f" ({100 * result.confidence:g} % CI {low:{sign}z.4f} to {high:{sign}z.4f})"
    return f"{by} {value:{sign}z.4f}{ends if math.isfinite(low + high) else ''}"


def _arms(arms: ArmComparison, result: MonitorResult) -> str:
    """A measure in which an arm is worse, or the first arm's first one."""
    if arms.withheld or not arms.differences:
        return f"No verdict on the arms of {arms.column}"
    first = (arms.worse or arms.differences)[0]
    return sentence([first], arms.control, arms.family).partition(" [")[0].rstrip(".")
