"""Which row of a log does each event belong to? By query and item, or by the user's last look at the item.

Both tables may be larger than the memory as text: the events are held as numbers of their ids, sorted by owner
(the query or the user), item and time; the log passes by in batches, in the columns that the join needs. Each of
its rows looks for the first event that could be its own and leaves its mark there; at the end every event takes
the best mark at or before itself. So each row and each event is touched a fixed number of times, whatever
their order, and however often a user saw an item.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness.compiled import compiled
from ltr_harness.logs.log import Log, open_log
from ltr_harness.logs.settings import ListColumns, seconds
from ltr_harness.logs.times import timestamps
from ltr_harness.relevance.ids import Codes, Ids
from ltr_harness.relevance.rule import EventLog

Rows = NDArray[np.int64]
_NEVER = np.iinfo(np.int64).min
_UNTIMED = np.empty(0, dtype=np.int64)


def matched(
    join: EventLog, columns: ListColumns, timezone: str, log: Log, source: Any
) -> tuple[list[str], Codes, Rows, Rows]:
    """The events' names; and of every event, in no particular order, its name's number, its row, and its time.

    The number is -1 where the name is missing, the row where no impression is the event's. The times are empty
    where the event log has none.
    """
    events = _Events(source, join, timezone)
    owner = columns.query_id if join.query_id else columns.cluster_id or ""
    item, time = columns.item_id or "", None if join.query_id else columns.timestamp
    first = 0
    for batch in log.batches([n for n in (owner, item, time) if n], None):
        shown = timestamps(batch[time], time, timezone) if time else _UNTIMED
        events.note((batch[owner], owner), (batch[item], item), shown, first)
        first += batch.num_rows
    return events.names.texts(), events.name, events.rows(seconds(join.window) * 10**9), events.happened


class _Events:
    """The event log in memory: a few numbers per event, and each id's text once.

    Attributes:
        names: of the events that there are.
        name: (n,) of each event.
        happened: (n,) nanoseconds UTC; empty where the event log has no times.
    """

    def __init__(self, source: Any, join: EventLog, timezone: str) -> None:
        self.names, self._owners, self._items = Ids(), Ids(), Ids()
        owner_column = join.query_id or join.user or ""
        time_column = join.timestamp
        log = open_log(source, text_columns=[join.event, owner_column, join.item_id])
        wanted = [n for n in (join.event, owner_column, join.item_id, time_column) if n]
        parts: list[tuple[Codes, Codes, Codes, Rows]] = []
        for batch in log.batches(wanted, None):
            parts.append(
                (
                    self.names.add(batch[join.event], join.event),
                    self._owners.add(batch[owner_column], owner_column),
                    self._items.add(batch[join.item_id], join.item_id),
                    timestamps(batch[time_column], time_column, timezone) if time_column else _UNTIMED,
                )
            )
        name, owner, item, time = (np.concatenate(column) for column in zip(*parts, strict=True))
        parts.clear()  # the memory, before the sorting needs it
        by_time = _UNTIMED if join.query_id else time  # with a query id, times only say when orphans happened
        order = _earliest_first(by_time, owner.size)
        order, _ = _stably(order, item, self._items.n)
        order, self._starts = _stably(order, owner, self._owners.n)
        self.name, self._item = name[order], item[order]
        self.happened = time[order] if time.size else time
        self._time = self.happened if by_time.size else by_time
        self._row = np.full(order.size, -1, dtype=np.int64)
        self._shown = np.full(by_time.size, _NEVER)

    def note(self, owners: tuple[Any, str], items: tuple[Any, str], shown: Rows, first: int) -> None:
        """A batch of the log passes by: columns with their names; its first row is the log's row `first`."""
        _note(
            self._owners.find(*owners),
            self._items.find(*items),
            shown,
            first,
            self._starts,
            self._item,
            self._time,
            self._row,
            self._shown,
        )

    def rows(self, window: int) -> Rows:
        """The row of every event, once the whole log has passed by."""
        _settle(self._starts, self._item, self._time, window, self._row, self._shown)
        return self._row


def _earliest_first(time: Rows, n: int) -> Rows:
    """The order of time; that of the file where there is no time."""
    if time.size == 0 or bool(np.all(time[1:] >= time[:-1])):
        return np.arange(n)
    return np.argsort(time, kind="stable")


@compiled
def _stably(order: Rows, codes: Codes, n_codes: int) -> tuple[Rows, Rows]:
    """The order by code, equal codes as they were, the missing first; and where each code begins, from -1 on."""
    starts = np.zeros(n_codes + 2, dtype=np.int64)
    for code in codes:
        starts[code + 2] += 1
    for at in range(1, starts.size):
        starts[at] += starts[at - 1]
    free = starts.copy()
    sorted_order = np.empty_like(order)
    for event in order:
        code = codes[event] + 1
        sorted_order[free[code]] = event
        free[code] += 1
    return sorted_order, starts


@compiled
def _note(
    owners: Codes,
    items: Codes,
    shown: Rows,
    first: int,
    starts: Rows,
    item: Codes,
    time: Rows,
    row: Rows,
    seen: Rows,
) -> None:
    """Leave each impression's mark at the first event of its owner and item that did not happen before it."""
    timed = time.size > 0
    for at in range(owners.size):
        owner, wanted = owners[at], items[at]
        if owner < 0 or wanted < 0 or (timed and shown[at] == _NEVER):
            continue
        low, high = starts[owner + 1], starts[owner + 2]
        end = high
        while low < high:
            middle = (low + high) // 2
            earlier = timed and item[middle] == wanted and time[middle] < shown[at]
            if item[middle] < wanted or earlier:
                low = middle + 1
            else:
                high = middle
        if low == end or item[low] != wanted:
            continue
        if timed:
            if shown[at] >= seen[low]:  # of two looks at one moment, the later row
                seen[low] = shown[at]
                row[low] = first + at
        elif row[low] < 0:
            row[low] = first + at


@compiled
def _settle(starts: Rows, item: Codes, time: Rows, window: int, row: Rows, seen: Rows) -> None:
    """Every event takes the latest mark at or before itself, unless that is too long ago."""
    timed = time.size > 0
    for owner in range(starts.size - 2):
        best, when = -1, _NEVER
        for at in range(starts[owner + 1], starts[owner + 2]):
            if at == starts[owner + 1] or item[at] != item[at - 1]:
                best, when = -1, _NEVER
            if row[at] >= 0:
                best = row[at]
                if timed:
                    when = seen[at]
            in_time = best >= 0 and (not timed or time[at] - when <= window)
            row[at] = best if in_time else -1
