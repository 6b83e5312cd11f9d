"""Event logs: a list of names per row, or a table of events that is joined to the rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ltr_harness.catalog import did_you_mean
from ltr_harness.compiled import compiled
from ltr_harness.errors import DataError, Problem
from ltr_harness.logs.columns import category_of, plain_column, timestamps, utf8
from ltr_harness.logs.contract import Contract
from ltr_harness.logs.log import Log, open_log
from ltr_harness.logs.settings import ListColumns, seconds
from ltr_harness.logs.ubi import ACTION, OBJECT, TIME, ubi_events
from ltr_harness.relevance.rule import EventLog, Relevance

Codes = NDArray[np.int32]
Letters = NDArray[np.uint8]
Offsets = NDArray[np.int64]
Slots = NDArray[np.uint64]

# A slot holds the upper half of a text's hash and the text's number, so that most looks touch one place in memory.
_NUMBER = np.uint64(0xFFFFFFFF)
_FREE = np.uint64(0xFFFFFFFFFFFFFFFF)


class Ids:
    """Texts and their numbers 0, 1, 2 …, in the order in which they first come; missing and empty ones have -1.

    Arrow's own dictionaries live as long as a batch; joining batch after batch to millions of ids by rebuilding
    them would cost a pass over all ids for every batch. Here a lookup costs the same however many ids are known.
    Ids are compared letter by letter, never by their hash alone.

    Example:
        >>> import pyarrow as pa
        >>> ids = Ids()
        >>> ids.add(pa.chunked_array([["b", None, "a"], ["b", ""]]), "sku").tolist()
        [0, -1, 1, 0, -1]
        >>> ids.find(pa.chunked_array([["a", "c"]]), "sku").tolist(), ids.texts()
        ([1, -1], ['b', 'a'])
    """

    def __init__(self) -> None:
        self.n = 0
        self._letters: Letters = np.empty(1 << 16, dtype=np.uint8)
        self._offsets: Offsets = np.zeros(
            1 << 11, dtype=np.int64
        )  # text i: letters[offsets[i]:offsets[i + 1]]
        self._hashes = np.empty(1 << 11, dtype=np.uint64)
        self._table: Slots = np.full(1 << 12, _FREE)

    def add(self, column: Any, name: str) -> Codes:
        """The number of every value of an Arrow column; new texts get new numbers.

        Raises DataError: a column of lists, structures and the like.
        """
        return self._numbers(column, name, new=True)

    def find(self, column: Any, name: str) -> Codes:
        """The number of every value of an Arrow column; texts that were never added count as missing.

        Raises DataError: a column of lists, structures and the like.
        """
        return self._numbers(column, name, new=False)

    def texts(self) -> list[str]:
        """Every text, by number."""
        letters, offsets = self._letters.tobytes(), self._offsets[: self.n + 1].tolist()
        return [letters[a:b].decode() for a, b in itertools.pairwise(offsets)]

    def _numbers(self, column: Any, name: str, *, new: bool) -> Codes:
        import pyarrow as pa

        codes = np.empty(len(column), dtype=np.int32)
        at = 0
        words, of_words = None, np.empty(0, dtype=np.int32)
        for chunk in column.chunks:
            if not pa.types.is_dictionary(chunk.type):
                chunk = plain_column(chunk, name).dictionary_encode()
            if words is None or not chunk.dictionary.equals(words):  # a file repeats it chunk after chunk
                words = chunk.dictionary
                texts = plain_column(words, name).cast(pa.large_string()).fill_null("")
                of_words = np.append(self._looked_up(texts, new), np.int32(-1))
            indices = chunk.indices.cast(pa.int64()).fill_null(len(words)).to_numpy()
            codes[at : at + len(chunk)] = of_words[indices]
            at += len(chunk)
        return codes

    def _looked_up(self, texts: Any, new: bool) -> Codes:
        _, offsets, letters = texts.buffers()
        ends = np.frombuffer(offsets, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
        data = np.frombuffer(b"" if letters is None else letters, dtype=np.uint8)
        if new:
            self._make_room(len(texts), int(ends[-1] - ends[0]))
        codes = np.empty(len(texts), dtype=np.int32)
        self.n = _look_up(
            data, ends, self._letters, self._offsets, self._hashes, self._table, self.n, new, codes
        )
        return codes

    def _make_room(self, texts: int, letters: int) -> None:
        """For so many more; each array doubles, so that growing costs a fixed share of filling."""
        n, used = self.n + texts, int(self._offsets[self.n]) + letters
        if used > self._letters.size:
            self._letters = _grown(self._letters, used)
        if n >= self._hashes.size:
            self._offsets, self._hashes = _grown(self._offsets, n + 1), _grown(self._hashes, n + 1)
        if 2 * n > self._table.size:
            self._table = np.full(1 << (4 * n - 1).bit_length(), _FREE)
            _fill(self._hashes, self._table, self.n)


def _grown(array: NDArray[Any], least: int) -> Any:
    larger = np.empty(max(least, 2 * array.size), dtype=array.dtype)
    larger[: array.size] = array
    return larger


@compiled
def _fill(hashes: NDArray[np.uint64], table: Slots, n: int) -> None:
    """Put the first `n` texts into an empty table."""
    mask = np.uint64(table.size - 1)
    for number in range(n):
        slot = hashes[number] & mask
        while table[slot] != _FREE:
            slot = (slot + np.uint64(1)) & mask
        table[slot] = (hashes[number] & ~_NUMBER) | np.uint64(number)


@compiled
def _eight(letters: Letters, at: np.uint64) -> np.uint64:
    """Eight letters as one number: machine code reads them at once."""
    word = np.uint64(letters[at])
    for i in range(1, 8):
        word |= np.uint64(letters[at + np.uint64(i)]) << np.uint64(8 * i)
    return word


@compiled
def _hash(letters: Letters, at: np.uint64, end: np.uint64) -> np.uint64:
    """FNV-1a, eight letters a step, and a finish that spreads it over all bits."""
    value = np.uint64(14695981039346656037)
    while at + np.uint64(8) <= end:
        value = (value ^ _eight(letters, at)) * np.uint64(0x9E3779B97F4A7C15)
        value ^= value >> np.uint64(32)
        at += np.uint64(8)
    while at < end:
        value = (value ^ np.uint64(letters[at])) * np.uint64(1099511628211)
        at += np.uint64(1)
    value = (value ^ (value >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    return value ^ (value >> np.uint64(29))


@compiled
def _same(one: Letters, at: np.uint64, other: Letters, there: np.uint64, length: np.uint64) -> bool:
    end = at + length
    while at + np.uint64(8) <= end:
        if _eight(one, at) != _eight(other, there):
            return False
        at += np.uint64(8)
        there += np.uint64(8)
    while at < end:
        if one[at] != other[there]:
            return False
        at += np.uint64(1)
        there += np.uint64(1)
    return True


@compiled
def _look_up(
    data: Letters,
    ends: Offsets,
    letters: Letters,
    offsets: Offsets,
    hashes: NDArray[np.uint64],
    table: Slots,
    n: int,
    new: bool,
    codes: Codes,
) -> int:
    """Fill in the numbers of texts; with `new`, number those that are not known. How many are known then."""
    mask = np.uint64(table.size - 1)
    for at in range(ends.size - 1):
        begin, end = np.uint64(ends[at]), np.uint64(ends[at + 1])
        length = end - begin
        codes[at] = -1
        if begin == end:
            continue
        hashed = _hash(data, begin, end)
        slot = hashed & mask
        while table[slot] != _FREE:
            if (table[slot] ^ hashed) <= _NUMBER:
                number = np.int64(table[slot] & _NUMBER)
                there = np.uint64(offsets[number])
                if np.uint64(offsets[number + 1]) - there == length and _same(
                    data, begin, letters, there, length
                ):
                    codes[at] = number
                    break
            slot = (slot + np.uint64(1)) & mask
        if new and codes[at] < 0:
            there = np.uint64(offsets[n])
            for i in range(length):
                letters[there + np.uint64(i)] = data[begin + np.uint64(i)]
            offsets[n + 1] = there + length
            hashes[n] = hashed
            table[slot] = (hashed & ~_NUMBER) | np.uint64(n)
            codes[at] = n
            n += 1
    return n


Rows = NDArray[np.int64]
_NEVER = np.iinfo(np.int64).min
_UNTIMED = np.empty(0, dtype=np.int64)


def matched(
    join: EventLog, columns: ListColumns, timezone: str, log: Log, source: Any
) -> tuple[list[str], Codes, Rows, Rows]:
    """The events' names; and of every event, in no particular order, its name's number, its row, and its time.

    The events are held as numbers of their ids, sorted by owner (the query or the user), item and time; the log
    passes by in batches. Each of its rows looks for the first event that could be its own and leaves its mark
    there; at the end every event takes the best mark at or before itself. So each row and each event is touched a
    fixed number of times, whatever their order, and however often a user saw an item.

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
    """Event log in memory: a few numbers per event, and each id's text once.

    `names` are those of the events, `name` (n,) is each event's, `happened` (n,) its nanoseconds UTC or empty.
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
        in_order = by_time.size == 0 or bool(np.all(by_time[1:] >= by_time[:-1]))
        order = np.arange(owner.size) if in_order else np.argsort(by_time, kind="stable")
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


Counts = dict[str, NDArray[np.int32]]


def counts_of_lists(column: Any, column_name: str, names: Iterable[str], contract: Contract) -> Counts:
    """How often each event stands in each row's list; lists, or text such as ``click,buy``.

    Raises DataError: another type of column.
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

    Raises DataError: with the name that was probably meant.
    """
    strange = [name.strip("'") for name in unknown]
    problems = [
        Problem(place, f"event {name!r} never happens", cure=did_you_mean(name, strange))
        for name in names
        if strange and not happened.get(name)
    ]
    if problems:
        raise DataError(problems)
