"""Event logs: a list of names per row, or a table of events that is joined to the rows."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ltr_harness._util.catalog import did_you_mean
from ltr_harness._util.compiled import compiled
from ltr_harness.data.arrays import Ints
from ltr_harness.data.columns import Ids, category_of, decoded, is_text, utf8
from ltr_harness.data.computable import is_list, large_list
from ltr_harness.data.logs.contract import Contract
from ltr_harness.data.logs.log import Log, open_log
from ltr_harness.data.logs.settings import ListColumns, seconds
from ltr_harness.data.logs.ubi import ACTION, OBJECT, TIME, ubi_events
from ltr_harness.data.relevance.rule import EventLog, Relevance
from ltr_harness.data.text_numbers import CategoryCodes
from ltr_harness.data.times import timestamps
from ltr_harness.errors import DataError, Problem

_NEVER = np.iinfo(np.int64).min
_UNTIMED = np.empty(0, dtype=np.int64)


def match_events(
    join: EventLog, columns: ListColumns, timezone: str, log: Log, source: Any
) -> tuple[list[str], CategoryCodes, Ints, Ints]:
    """Return the events' names; and of every event, its name's number, its row (-1 for none), and its time.

    Events are sorted by owner (query or user), item and time. Each row of the log leaves its mark at the first event
    that could be its own; at the end every event takes the best mark at or before itself.
    """
    names, owners, items = Ids(), Ids(), Ids()
    event, owner, item, happened = _read_events(join, timezone, source, names, owners, items)
    is_by_time = not join.query_id  # else times only say when orphans happened
    order = np.arange(owner.size)
    if is_by_time and not np.all(happened[1:] >= happened[:-1]):
        order = np.argsort(happened, kind="stable")
    order, _ = _sort_stably(order, item, items.n)
    order, starts = _sort_stably(order, owner, owners.n)
    event, item = event[order], item[order]
    if happened.size:
        happened = happened[order]
    time = happened if is_by_time else _UNTIMED
    row, seen = np.full(order.size, -1, dtype=np.int64), np.full(time.size, _NEVER)
    del owner, order  # the memory, before the log is read
    first = 0
    for owner_codes, item_codes, moments in _impressions(join, columns, timezone, log, owners, items):
        _mark_impressions(owner_codes, item_codes, moments, first, starts, item, time, row, seen)
        first += owner_codes.size
    _assign_events(starts, item, time, seconds(join.window) * 10**9, row, seen)
    return names.texts(), event, row, happened


def _read_events(
    join: EventLog, timezone: str, source: Any, names: Ids, owners: Ids, items: Ids
) -> tuple[CategoryCodes, CategoryCodes, CategoryCodes, Ints]:
    """Return the numbers of every event's name, owner and item, and its time, empty where none is configured."""
    owner, time = join.query_id or join.user or "", join.timestamp
    log = open_log(source, text_columns=[join.event, owner, join.item_id])
    parts: list[tuple[CategoryCodes, CategoryCodes, CategoryCodes, Ints]] = []
    for batch in log.batches([name for name in (join.event, owner, join.item_id, time) if name], None):
        event_codes = names.add(batch[join.event], join.event)
        owner_codes = owners.add(batch[owner], owner)
        item_codes = items.add(batch[join.item_id], join.item_id)
        moments = timestamps(batch[time], time, timezone) if time else _UNTIMED
        parts.append((event_codes, owner_codes, item_codes, moments))
    event, owners_of, items_of, moments = (np.concatenate(column) for column in zip(*parts, strict=True))
    return event, owners_of, items_of, moments


def _impressions(
    join: EventLog, columns: ListColumns, timezone: str, log: Log, owners: Ids, items: Ids
) -> Iterator[tuple[CategoryCodes, CategoryCodes, Ints]]:
    """Yield the owners, items and times of the log's rows, batch by batch; -1 for those without an event."""
    owner, time, item = columns.query_id, None, columns.item_id or ""
    if not join.query_id:
        owner, time = columns.cluster_id or "", columns.timestamp
    for batch in log.batches([name for name in (owner, item, time) if name], None):
        moments = timestamps(batch[time], time, timezone) if time else _UNTIMED
        yield owners.find(batch[owner], owner), items.find(batch[item], item), moments


@compiled
def _sort_stably(order: Ints, codes: CategoryCodes, n_codes: int) -> tuple[Ints, Ints]:
    """Return the stable order by code, the missing first, and the beginning of each code, from -1 on."""
    starts = np.zeros(n_codes + 2, dtype=np.int64)
    for code in codes:
        starts[code + 2] += 1
    for index in range(1, starts.size):
        starts[index] += starts[index - 1]
    free = starts.copy()
    sorted_order = np.empty_like(order)
    for event in order:
        code = codes[event] + 1
        sorted_order[free[code]] = event
        free[code] += 1
    return sorted_order, starts


@compiled
def _mark_impressions(
    owners: CategoryCodes,
    items: CategoryCodes,
    shown_times: Ints,
    first: int,
    starts: Ints,
    item: CategoryCodes,
    time: Ints,
    row: Ints,
    seen: Ints,
) -> None:
    """Leave each impression's mark at the first event of its owner and item that did not happen before it."""
    timed = time.size > 0
    for impression in range(owners.size):
        owner, item_code = owners[impression], items[impression]
        if owner < 0 or item_code < 0 or (timed and shown_times[impression] == _NEVER):
            continue
        low, high = starts[owner + 1], starts[owner + 2]
        end = high
        while low < high:
            middle = (low + high) // 2
            earlier = timed and item[middle] == item_code and time[middle] < shown_times[impression]
            if item[middle] < item_code or earlier:
                low = middle + 1
            else:
                high = middle
        if low == end or item[low] != item_code:
            continue
        if timed:
            if shown_times[impression] >= seen[low]:  # of two looks at one moment, the later row
                seen[low] = shown_times[impression]
                row[low] = first + impression
        elif row[low] < 0:
            row[low] = first + impression


@compiled
def _assign_events(starts: Ints, item: CategoryCodes, time: Ints, window: int, row: Ints, seen: Ints) -> None:
    """Assign every event the latest mark at or before it, unless that is too long ago."""
    timed = time.size > 0
    for owner in range(starts.size - 2):
        mark, mark_time = -1, _NEVER
        for event in range(starts[owner + 1], starts[owner + 2]):
            if event == starts[owner + 1] or item[event] != item[event - 1]:
                mark, mark_time = -1, _NEVER
            if row[event] >= 0:
                mark = row[event]
                if timed:
                    mark_time = seen[event]
            in_time = mark >= 0 and (not timed or time[event] - mark_time <= window)
            row[event] = mark if in_time else -1


EventCounts = dict[str, NDArray[np.int32]]


def counts_of_lists(column: Any, column_name: str, names: Iterable[str], contract: Contract) -> EventCounts:
    """Count each event in each row's list; lists, or text such as ``click,buy``."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0)
    array = decoded(array)
    if is_list(array.type):
        array = large_list(array)
    if is_text(array.type):
        array = utf8(array.cast(pa.large_string()), column_name)
        array = pc.split_pattern_regex(pc.replace_substring_regex(array, r"[\[\]'\" ]", ""), "[,|;]")
    if not is_list(array.type):
        raise DataError.at(f"column {column_name!r}", f"has the type {array.type}", "a list of event names")
    row = pc.list_parent_indices(array).to_numpy()
    event = category_of(pc.list_flatten(array), column_name)
    counts: EventCounts = {}
    for name, index in zip(names, event.categories.get_indexer(pd.Index(names)), strict=True):
        rows = row[event.codes == index] if index >= 0 else row[:0]
        counts[name] = np.bincount(rows, minlength=len(array)).astype(np.int32)
    unknown = np.append(~event.categories.isin(names), False)[event.codes]  # the last is missing
    contract.totals["events"] += int((event.codes >= 0).sum())
    contract.check("unknown-event", unknown, lambda index: repr(str(event.categories[event.codes[index]])))
    return counts


@dataclass(frozen=True, eq=False)
class JoinedEvents:
    """Joined event log: the row of the log that each event belongs to. Eight bytes an event, whatever its size."""

    names: tuple[str, ...]  # the events that the rule of relevance counts
    # (n,) of each event that has a row: row, counted from the log's first, times the number of names, plus the index
    # into `names`; in increasing order
    cell: NDArray[np.int64]
    # (m,) when those without a row happened; None where the event log has no times
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
    ) -> "JoinedEvents | None":
        """Join the configured event log to a log, both read in batches; None where there is none."""
        join = rule.event_log
        if join is None:
            return None
        names = rule.event_names
        source = join.path if source is None else source
        if join.ubi:
            join = join.model_copy(update={"event": ACTION, "item_id": OBJECT, "timestamp": TIME})
            source = ubi_events(Path(source), names, timezone) if isinstance(source, str) else source
        event_names, event, row, time = match_events(join, columns, timezone, log, source)
        numbers = {name: number for number, name in enumerate(names)}
        to_ours = np.array([*(numbers.get(name, -1) for name in event_names), -1])
        code = to_ours[event]
        contract.totals["events"] += row.size
        event_names.append("")  # of none, whose number is -1
        contract.check("unknown-event", code < 0, lambda index: repr(event_names[event[index]]))
        contract.count("orphan-event", int((row < 0).sum()))
        cell = (row * len(names) + code)[(code >= 0) & (row >= 0)]
        cell.sort()
        return cls(names, cell, time[row < 0] if time.size else None)

    def of_rows(self, first: int, n: int) -> "JoinedEvents":
        """Return the events of `n` rows from row `first` on, which becomes row 0."""
        width = len(self.names)
        low, high = np.searchsorted(self.cell, [first * width, (first + n) * width])
        return JoinedEvents(self.names, self.cell[low:high] - first * width)

    def add_counts(self, table: Any, first: int) -> Any:
        """Return a batch of the log, from row `first` on, with a column of counts for every event."""
        n, width = table.num_rows, len(self.names)
        counts = np.bincount(self.of_rows(first, n).cell, minlength=n * width).astype(np.int32)
        for number, name in enumerate(self.names):
            table = table.append_column(counts_column(name), pa.array(counts[number::width]))
        return table


def counts_column(event: str) -> str:
    """Return the name of the column with a joined event's counts."""
    return f"event of the event log: {event}"


def refuse_unknown_events(names: Iterable[str], happened: dict[str, int], contract: Contract) -> None:
    """Refuse events that never happened while unknown ones did: they are misspelt."""
    unknown = (check.examples for check in contract.log_checks if check.check == "unknown-event")
    unknown_names = [name.strip("'") for examples in unknown for name in examples]
    never = [name for name in names if unknown_names and not happened.get(name)]
    cures = {name: did_you_mean(name, unknown_names) for name in never}
    DataError.refuse(Problem(contract.place, f"event {n!r} never happens", cure=cures[n]) for n in never)


_SHOWN = 20  # classes


def refuse_unknown_classes(rule: Relevance, contract: Contract) -> None:
    """Refuse positive classes if none of them occurs while others do: they are misspelt; a few may be rare."""
    if rule.chosen != "match":
        return
    never = [name for name in rule.positive if name not in contract.classes]
    contract.totals["classes"] += len(rule.positive)
    unknown_classes = sorted(contract.classes.difference(rule.positive))[:_SHOWN]
    if unknown_classes and len(never) == len(rule.positive):
        location = f"in {rule.prediction} or {rule.label}"
        cures = {name: did_you_mean(name, unknown_classes) for name in never}
        DataError.refuse(
            Problem(contract.place, f"class {n!r} never occurs {location}", cure=cures[n]) for n in never
        )
    contract.count("absent-class", len(never), map(repr, never))
