"""Watching a ranker in production: is it still as good as its baseline, and if not, where and why?

The unit of everything is the query, never the row: a log becomes a table of queries once (`queries`), and
every later stage is arithmetic on that table. One stage, one file, in the order in which they run:

=====================  =====================================================================================
config, rule, load     what the configuration file may say, and how it is read
log, reading           Parquet, CSV or Arrow in batches cut at query boundaries
partitions             the same on the workers of a Dask cluster
batch, ranks           one batch in canonical order; at which rank each row stood
rows                   the batch, checked, ranked and evaluated by `ltr_harness.metrics`
contract               is the log fit to be judged: keys, ranks, scores, grades, timestamps
attribution            from clicks and purchases to relevance, by a rule that is part of the definition
events, grades, times  where events, grades and moments come from in a batch
event_join, ids        which row each event of an event log belongs to; a number for every id
queries                the table of queries, and its form on disk
baselines              what production is compared with: a log, a run, an earlier result
periods                production beside its baseline, as samples for the tests
label_health           did the labels change rather than the ranking?
windows                days, hours or weeks in the user's time zone
change                 production against the baseline: difference, within/mix split, paired estimates
window_tests           the same window by window, trailing means, one family of tests, CUSUM
slices                 where: the segments whose change stands out
drift                  which feature moved, and whether that explains the drop
propensities           how likely each rank is looked at, measured in experiments
presentation, ips      clicks by rank, IPS-DCG: page or ranking?
interleaving           which of two rankers wins the sessions, where users saw both in one list
summaries              means by rule, lengths of lists, queries to read
evidence               what alerts and verdict look at
alerts, verdict        what ends in exit code 4; three sentences
history                what later runs need to know of this one
stages                 all of it in order
answers, result        what each stage found, as values; all of it together, and as JSON
files                  the tables beside the report
synthetic              logs with a planted truth
=====================  =====================================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
    import importlib

    return getattr(importlib.import_module(_WHERE[name]), name)
