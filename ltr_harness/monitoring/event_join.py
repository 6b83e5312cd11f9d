"""Which row of a log does each event belong to? By query and item, or by the user's last look at the item.

Both tables may be larger than the memory as text: the events are held as codes of their ids, the log passes by
in batches, in the columns that the join needs. Ids are compared as what they are, never by a hash alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness.monitoring.config import MonitorConfig
from ltr_harness.monitoring.log import Log, open_log
from ltr_harness.monitoring.queries import Category, category_of, plain_column, together
from ltr_harness.monitoring.rule import EventLog, seconds
from ltr_harness.monitoring.times import timestamps

Rows = NDArray[np.int64]
_NEVER = np.iinfo(np.int64).min


def matched(config: MonitorConfig, log: Log, path: str) -> tuple[Category, Rows]:
    """Every event's name and the row of the log it belongs to, -1 for none."""
    join = config.relevance.event_log
    assert join is not None
    events = _Events.read(path, join, config.windows.timezone)
    columns = config.columns
    ours = columns.query_id if join.query_id else columns.cluster_id or ""
    item, time = columns.item_id or "", None if join.query_id else columns.timestamp
    row = np.full(events.name.codes.size, -1, dtype=np.int64)
    seen = np.full(row.size, _NEVER)
    first = 0
    for batch in log.batches([n for n in (ours, item, time) if n], None):
        near = events.near(plain_column(batch[ours], ours))
        keys = _keys(batch[ours], batch[item], events, near)
        if time is None:
            at = _first_match(*keys)
            better = (at >= 0) & (row[near] < 0)
        else:
            shown = timestamps(batch[time], time, config.windows.timezone)
            at = _last_touch(*keys, shown, events.time[near], seconds(join.window))
            when = np.where(at >= 0, shown[at], _NEVER)
            better = (at >= 0) & (when >= seen[near])  # of two looks at one moment, the later row
            seen[near[better]] = when[better]
        row[near[better]] = first + at[better]
        first += batch.num_rows
    return events.name, row


@dataclass(frozen=True, eq=False)
class _Events:
    """The event log in memory: a few codes per event, and each id's text once.

    Attributes:
        name: of each event.
        owner, item: Arrow arrays with a dictionary: the query or the user, and the item.
        time: (n,) nanoseconds UTC; zeros where the join needs none.
    """

    name: Category
    owner: Any
    item: Any
    time: NDArray[np.int64]

    @classmethod
    def read(cls, path: str, join: EventLog, timezone: str) -> _Events:
        owner = join.query_id or join.user or ""
        time = None if join.query_id else join.timestamp
        log = open_log(path, text_columns=[owner, join.item_id])
        names, owners, items, times = [], [], [], []
        for batch in log.batches([n for n in (join.event, owner, join.item_id, time) if n], None):
            names.append(_coded(batch[join.event], join.event))
            owners.append(_coded(batch[owner], owner))
            items.append(_coded(batch[join.item_id], join.item_id))
            times.append(
                timestamps(batch[time], time, timezone) if time else np.zeros(len(batch), dtype=np.int64)
            )
        return cls(category_of(_one(names)), _one(owners), _one(items), np.concatenate(times))

    def near(self, owners: Any) -> Rows:
        """The events of a batch's queries or users."""
        import pyarrow as pa
        import pyarrow.compute as pc

        here = pc.is_in(self.owner.dictionary, value_set=pc.unique(owners.cast(pa.large_string())))
        known = np.append(here.to_numpy(zero_copy_only=False), False)
        return np.flatnonzero(known[self.owner.indices.fill_null(known.size - 1).to_numpy()])


def _coded(column: Any, name: str) -> list[Any]:
    """A column of ids as text once and codes, chunk by chunk."""
    import pyarrow as pa

    chunks: list[Any] = plain_column(column, name).cast(pa.large_string()).dictionary_encode().chunks
    return chunks


def _one(parts: list[list[Any]]) -> Any:
    """The chunks as one array over one dictionary."""
    import pyarrow as pa

    chunked = pa.chunked_array([chunk for chunks in parts for chunk in chunks]).unify_dictionaries()
    found = chunked.combine_chunks()
    return found.chunk(0) if isinstance(found, pa.ChunkedArray) else found


def _keys(owners: Any, items: Any, events: _Events, near: Rows) -> tuple[Rows, Rows]:
    """One number per row and per event, equal where owner and item are; -1 where one of them is missing."""
    import pyarrow as pa

    chosen = pa.array(near)
    pairs = [
        together([category_of(ours), category_of(theirs.take(chosen))])
        for ours, theirs in ((owners, events.owner), (items, events.item))
    ]
    (a, b), (x, y) = pairs
    width = x.names.size + 1

    def key(one: Category, two: Category) -> Rows:
        missing = (one.codes < 0) | (two.codes < 0)
        return np.where(missing, -1, one.codes.astype(np.int64) * width + two.codes)

    return key(a, x), key(b, y)


def _first_match(rows: Rows, wanted: Rows) -> Rows:
    """For each wanted key the first row with it, -1 where there is none."""
    order = np.argsort(rows, kind="stable")
    at = np.minimum(np.searchsorted(rows[order], wanted), rows.size - 1)
    found: Rows = np.where((rows[order][at] == wanted) & (wanted >= 0), order[at], -1)
    return found


def _last_touch(rows: Rows, wanted: Rows, shown: Rows, happened: Rows, window: int) -> Rows:
    """The row of the latest impression of the item by that user before the event, within `window` seconds."""
    import pandas as pd

    impressions = pd.DataFrame({"time": shown, "key": rows, "row": np.arange(rows.size)})
    touched = pd.DataFrame({"time": happened, "key": wanted, "event": np.arange(wanted.size)})
    joined = pd.merge_asof(
        touched.sort_values(["time", "event"], kind="stable"),
        impressions[impressions["key"] >= 0].sort_values(["time", "row"], kind="stable"),
        on="time", by="key", tolerance=window * 10**9,
    )  # fmt: skip
    found = np.full(wanted.size, -1, dtype=np.int64)
    found[joined["event"].to_numpy()] = joined["row"].fillna(-1).to_numpy().astype(np.int64)
    return found
