"""Find the metric that a user means among those that are compared."""

from collections.abc import Sequence
from typing import Any

from ltr_harness.comparison.comparability import FOREIGN
from ltr_harness.comparison.contrasts import SystemResult
from ltr_harness.errors import MetricError
from ltr_harness.metrics.core.grammar import MetricName, parse_metric


def resolve_metric(metric: Any, systems: Sequence[SystemResult]) -> str:
    """The canonical name, among those evaluated, of a metric that the user named: ``err(max_grade=4)`` of ``err``."""
    available = list(dict.fromkeys(name for system in systems for name in system.values))
    return name_among(available, metric) or str(parse_metric(metric))


def name_among(available: Sequence[str], metric: Any) -> str | None:
    """The evaluated metric that the user's name stands for, in full; None where there is none."""
    if str(metric) in available:
        return str(metric)
    foreign = FOREIGN + str(metric)
    try:
        name = str(parse_metric(metric))
    except MetricError:
        if foreign in available:
            return foreign
        raise
    if name in available:
        return name
    if foreign in available:
        return foreign
    requested, parsed = MetricName.of(name), {other: MetricName.of(other) for other in available}
    same = {other: its for other, its in parsed.items() if (its.name, its.k) == (requested.name, requested.k)}
    fuller = [other for other, its in same.items() if its.parameters >= requested.parameters]
    return fuller[0] if len(fuller) == 1 else None
