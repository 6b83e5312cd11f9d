"""Watching a ranker in production: is it still as good as its baseline, and if not, where and why?

The unit of everything is the query, never the row: a log becomes a table of queries once (`queries`), and
every later stage is arithmetic on that table. One stage, one file; the folders in the order in which they run:

=================  =====================================================================================
config, load       what the configuration file may say, and how it is read
log/               a log's batches (`ltr_harness.logs`), ranked and with the grades of the rule of relevance
                   (`ltr_harness.relevance`), to queries; on a cluster: partitions
queries            the table of queries, and its form on disk
analysis/          production beside its baseline: difference, within/mix split, window by window, slices,
                   drift of features, health of labels, clicks by rank; adjusted for what is
                   known of the queries; the arms of an A/B test
verdict/           what ends in exit code 4; three sentences
results/           what each stage found, as values, JSON and tables; what later runs need to know of it
report/            the pages: one file per section
stages             all of it in order
synthetic          logs with a planted truth
=================  =====================================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ltr_harness.monitoring.config import MonitorConfig as MonitorConfig
    from ltr_harness.monitoring.results.result import MonitorResult as MonitorResult
    from ltr_harness.monitoring.stages import monitor as monitor

_WHERE = {
    "monitor": "ltr_harness.monitoring.stages",
    "MonitorConfig": "ltr_harness.monitoring.config",
    "MonitorResult": "ltr_harness.monitoring.results.result",
}
__all__ = ["MonitorConfig", "MonitorResult", "monitor"]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'ltr_harness.monitoring' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_WHERE[name]), name)
