"""The metrics: one file each, one line in `table.METRICS` and `__init__.pyi` each.

A class is imported when its name is first asked for, so editors and type checkers read the stub.
"""

from typing import Any

from ltr_harness.metrics.core.binding import Binding, TieAudit, bind, tie_audit
from ltr_harness.metrics.core.custom import function_metric
from ltr_harness.metrics.core.grammar import parse_metric
from ltr_harness.metrics.core.metric import Metric
from ltr_harness.metrics.table import ALIASES, METRICS, catalog

_CLASSES = {target.rpartition(":")[2]: name for name, target in METRICS.items()}

__all__ = [
    "ALIASES",
    "METRICS",
    "Binding",
    "Metric",
    "TieAudit",
    "bind",
    "catalog",
    "function_metric",
    "parse_metric",
    "tie_audit",
    *sorted(_CLASSES),
]


def __getattr__(name: str) -> Any:
    if name not in _CLASSES:
        raise AttributeError(f"module 'ltr_harness.metrics' has no attribute {name!r}")
    return catalog.load(_CLASSES[name])


def __dir__() -> list[str]:
    return sorted(__all__)
