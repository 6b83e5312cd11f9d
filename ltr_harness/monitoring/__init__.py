"""Watching a ranker in production: is it still as good as its baseline, and if not, where and why?

The unit of everything is the query, never the row: a log becomes a table of queries once, and every later stage is
arithmetic on that table. A file for each topic holds what is computed, and in ``section(result)`` what the page shows:

==================================  ====================================================================
config, load                        what the configuration file may say, and how it is read
reading                             a log, batch by batch or on a cluster, to queries with their metrics
queries                             the table of queries, and its form on disk
calendar, periods                   windows of time; production beside its baseline, and the test
windows, change, slices, inputs,    the topics: when, how much, where and why
labels
arms, parity, summaries             what needs no baseline
result                              what each topic found, and all of it together, as JSON
verdict, page, stored               exit code 4 and three sentences, the report, the folder and history
stages                              all of it in order
synthetic                           logs with a planted truth
==================================  ====================================================================
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
