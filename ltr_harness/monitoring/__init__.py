"""Watching a ranker in production: is it still as good as its baseline, and if not, where and why?

The unit of everything is the query, never the row: a log becomes a table of queries once, and every later stage is
arithmetic on that table. docs/architecture.md has the files and their topics.
"""

from typing import TYPE_CHECKING, Any

from ltr_harness.catalog import load_target

if TYPE_CHECKING:
    from ltr_harness.monitoring.config import MonitorConfig as MonitorConfig
    from ltr_harness.monitoring.result import MonitorResult as MonitorResult
    from ltr_harness.monitoring.stages import monitor as monitor

_WHERE = {
    "monitor": "ltr_harness.monitoring.stages",
    "MonitorConfig": "ltr_harness.monitoring.config",
    "MonitorResult": "ltr_harness.monitoring.result",
}
__all__ = ["MonitorConfig", "MonitorResult", "monitor"]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'ltr_harness.monitoring' has no attribute {name!r}")
    return load_target(f"{_WHERE[name]}:{name}")
