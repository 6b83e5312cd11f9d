"""Events that are not columns: a list of names per row, or a long table of their own to be joined."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness.catalog import did_you_mean
from ltr_harness.errors import DataError, Problem
from ltr_harness.monitoring.config import Columns, MonitorConfig
from ltr_harness.monitoring.contract import Contract
from ltr_harness.monitoring.queries import Category, category_of, together
from ltr_harness.monitoring.rule import EventLog, seconds
from ltr_harness.monitoring.times import timestamps

Counts = dict[str, NDArray[np.int32]]


def counts_of_lists(column: Any, column_name: str, names: Iterable[str], contract: Contract) -> Counts:
    """How often each event stands in each row's list; lists, or text such as ``click,buy``.

    Raises:
        DataError: another type of column.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0)
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        array = pc.split_pattern_regex(pc.replace_substring_regex(array, r"[\[\]'\" ]", ""), "[,|;]")
    if not (pa.types.is_list(array.type) or pa.types.is_large_list(array.type)):
        raise DataError(
            Problem(f"column {column_name!r}", f"has the type {array.type}", "a list of event names")
        )
    row = pc.list_parent_indices(array).to_numpy()
    event = category_of(pc.list_flatten(array))
    counts: Counts = {}
    known = np.zeros(event.names.size + 1, dtype=bool)
    known[event.names.size] = True  # missing
    for name in names:
        at = np.searchsorted(event.names, name)
        found = at < event.names.size and event.names[at] == name
        rows = row[event.codes == at] if found else row[:0]
        counts[name] = np.bincount(rows, minlength=len(array)).astype(np.int32)
        if found:
            known[at] = True
    known |= np.append(event.names == "", True)
    unknown = ~known[event.codes]
    contract.totals["events"] += int((event.codes >= 0).sum())
    contract.check("unknown_event", unknown, lambda at: repr(str(event.names[event.codes[at]])))
    return counts


@dataclass(frozen=True, eq=False)
class EventCounts:
    """A long table of events, ready to be joined to the rows of a log."""

    config: EventLog
    columns: Columns
    timezone: str
    table: Any

    @classmethod
    def read(cls, config: MonitorConfig) -> EventCounts | None:
        """The configured event log; None where there is none."""
        from ltr_harness.monitoring.log import open_log

        log = config.relevance.event_log
        if log is None:
            return None
        opened = open_log(
            log.path, text_columns=[name for name in (log.query_id, log.item_id, log.user) if name]
        )
        needed = [
            log.event,
            log.item_id,
            log.query_id,
            log.user,
            log.timestamp if log.query_id is None else None,
        ]
        names = [name for name in needed if name]
        import pyarrow as pa

        batches = list(opened.batches(names, names[0], in_memory=1 << 60))
        return cls(log, config.columns, config.windows.timezone, pa.concat_tables(batches))

    def of_rows(self, table: Any, names: Iterable[str], contract: Contract) -> Counts:
        """How often each event happened to each row; events without an impression are counted as orphans."""
        names = tuple(names)
        event = category_of(self.table[self.config.event])
        known = np.isin(event.names, names)
        known_event = np.append(known, False)[event.codes]
        row = self._by_query(table) if self.config.query_id else self._last_touch(table)
        contract.totals["events"] += len(self.table)
        contract.check(
            "unknown_event",
            ~known_event,
            lambda at: repr(str(event.names[event.codes[at]]) if event.codes[at] >= 0 else ""),
        )
        contract.count("orphan_event", int((row < 0).sum()))
        counts: Counts = {}
        for name in names:
            at = int(np.searchsorted(event.names, name))
            mine = (
                (event.codes == at) & (row >= 0)
                if at < event.names.size and event.names[at] == name
                else np.zeros(row.size, bool)
            )
            counts[name] = np.bincount(row[mine], minlength=table.num_rows).astype(np.int32)
        return counts

    def _by_query(self, table: Any) -> NDArray[np.int64]:
        """The row of each event by query and item; -1 for orphans."""
        rows = self._keys(
            table, self.columns.query_id, self.columns.item_id or "", self.config.query_id or ""
        )
        return _first_match(*rows)

    def _keys(
        self, table: Any, first: str, item: str, event_first: str
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        pairs = []
        for ours, theirs in ((first, event_first), (item, self.config.item_id)):
            pairs.append(together([category_of(table[ours]), category_of(self.table[theirs])]))
        (a, b), (x, y) = pairs
        width = x.names.size + 1

        def key(one: Category, two: Category) -> NDArray[np.int64]:
            missing = (one.codes < 0) | (two.codes < 0)
            return np.where(missing, -1, one.codes.astype(np.int64) * width + two.codes)

        return key(a, x), key(b, y)

    def _last_touch(self, table: Any) -> NDArray[np.int64]:
        """The row of the latest impression of the item by that user before the event, within the window."""
        import pandas as pd

        ours, theirs = self._keys(
            table, self.columns.cluster_id or "", self.columns.item_id or "", self.config.user or ""
        )
        shown = pd.DataFrame(
            {
                "time": timestamps(
                    table[self.columns.timestamp], self.columns.timestamp or "", self.timezone
                ),
                "key": ours,
                "row": np.arange(table.num_rows),
            }
        ).sort_values(["time", "row"], kind="stable")
        happened = pd.DataFrame(
            {
                "time": timestamps(
                    self.table[self.config.timestamp], self.config.timestamp or "", self.timezone
                ),
                "key": theirs,
                "event": np.arange(len(self.table)),
            }
        ).sort_values(["time", "event"], kind="stable")
        joined = pd.merge_asof(
            happened, shown[shown["key"] >= 0], on="time", by="key",
            tolerance=seconds(self.config.window) * 10**9,
        )  # fmt: skip
        found = np.full(len(self.table), -1, dtype=np.int64)
        found[joined["event"].to_numpy()] = joined["row"].fillna(-1).to_numpy().astype(np.int64)
        return found


def _first_match(rows: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each wanted key the first row with it, -1 where there is none."""
    order = np.argsort(rows, kind="stable")
    at = np.minimum(np.searchsorted(rows[order], wanted), rows.size - 1)
    found: NDArray[np.int64] = np.where((rows[order][at] == wanted) & (wanted >= 0), order[at], -1)
    return found


def refuse_unknown_events(
    names: Iterable[str], happened: dict[str, int], unknown: Iterable[str], place: str
) -> None:
    """An event that never happened while others with strange names did is a misspelt one.

    Raises:
        DataError: with the name that was probably meant.
    """
    strange = [name.strip("'") for name in unknown]
    problems = [
        Problem(place, f"event {name!r} never happens", cure=did_you_mean(name, strange))
        for name in names
        if strange and not happened.get(name)
    ]
    if problems:
        raise DataError(problems)
