"""Events that are not columns: a list of names per row, or a long table of their own to be joined."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ltr_harness.catalog import did_you_mean
from ltr_harness.errors import DataError, Problem
from ltr_harness.logs.columns import category_of, utf8
from ltr_harness.logs.contract import Contract
from ltr_harness.logs.log import Log
from ltr_harness.logs.settings import ListColumns
from ltr_harness.logs.ubi import ACTION, OBJECT, TIME, ubi_events
from ltr_harness.relevance.event_join import matched
from ltr_harness.relevance.rule import Relevance

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
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    if pa.types.is_fixed_size_list(array.type):
        array = array.cast(pa.list_(array.type.value_type))
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        utf8(array, column_name)
        array = pc.split_pattern_regex(pc.replace_substring_regex(array, r"[\[\]'\" ]", ""), "[,|;]")
    if not (pa.types.is_list(array.type) or pa.types.is_large_list(array.type)):
        raise DataError(
            Problem(f"column {column_name!r}", f"has the type {array.type}", "a list of event names")
        )
    row = pc.list_parent_indices(array).to_numpy()
    event = category_of(pc.list_flatten(array), column_name)
    counts: Counts = {}
    for name, at in zip(names, event.categories.get_indexer(pd.Index(names)), strict=True):
        rows = row[event.codes == at] if at >= 0 else row[:0]
        counts[name] = np.bincount(rows, minlength=len(array)).astype(np.int32)
    unknown = np.append(~event.categories.isin(names), False)[event.codes]  # the last is missing
    contract.totals["events"] += int((event.codes >= 0).sum())
    contract.check("unknown_event", unknown, lambda at: repr(str(event.categories[event.codes[at]])))
    return counts


@dataclass(frozen=True, eq=False)
class JoinedEvents:
    """The event log, joined: which row of the log each event belongs to. Eight bytes an event, whatever its size.

    Attributes:
        names: the events that the rule of relevance counts.
        cell: (n,) of each event that has a row: row, counted from the log's first, times the number of names,
            plus the index into `names`; in increasing order.
        orphans: (m,) when those without a row happened; None where the event log has no times.
    """

    names: tuple[str, ...]
    cell: NDArray[np.int64]
    orphans: NDArray[np.int64] | None = None

    @classmethod
    def read(
        cls,
        rule: Relevance,
        columns: ListColumns,
        timezone: str,
        log: Log,
        contract: Contract,
        *,
        source: Any = None,
    ) -> JoinedEvents | None:
        """Join the configured event log to a log; None where there is none.

        Both are read in batches, the log only in the columns that the join needs. Unknown events and orphans
        (events without an impression) are counted.
        """
        join = rule.event_log
        if join is None:
            return None
        names = rule.event_names
        source = join.path if source is None else source
        if join.ubi:
            join = join.model_copy(update={"event": ACTION, "item_id": OBJECT, "timestamp": TIME})
            source = ubi_events(Path(source), names, timezone) if isinstance(source, str) else source
        event_names, event, row, time = matched(join, columns, timezone, log, source)
        to_ours = np.array([names.index(n) if n in names else -1 for n in event_names] + [-1])
        code = to_ours[event]
        contract.totals["events"] += row.size
        contract.check(
            "unknown_event", code < 0, lambda at: repr(event_names[event[at]] if event[at] >= 0 else "")
        )
        contract.count("orphan_event", int((row < 0).sum()))
        cell = (row * len(names) + code)[(code >= 0) & (row >= 0)]
        cell.sort()
        return cls(names, cell, time[row < 0] if time.size else None)

    def of(self, first: int, n: int) -> JoinedEvents:
        """Those of `n` rows from row `first` on, which is 0 in the answer."""
        width = len(self.names)
        low, high = np.searchsorted(self.cell, [first * width, (first + n) * width])
        return JoinedEvents(self.names, self.cell[low:high] - first * width)

    def beside(self, table: Any, first: int) -> Any:
        """A batch of the log, from row `first` on, with a column of counts for every event."""
        import pyarrow as pa

        n, width = table.num_rows, len(self.names)
        counts = np.bincount(self.of(first, n).cell, minlength=n * width).astype(np.int32)
        for at, name in enumerate(self.names):
            table = table.append_column(counts_column(name), pa.array(counts[at::width]))
        return table


def counts_column(event: str) -> str:
    """The column in which a joined event's counts stand."""
    return f"event of the event log: {event}"


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
