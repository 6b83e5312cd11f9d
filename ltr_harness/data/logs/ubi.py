"""User Behavior Insights: the documents of `ubi_queries` and `ubi_events` as impressions and an event log.

Written for version 1.3.0 of the schemas at https://github.com/o19s/ubi, as the plugins of OpenSearch and Elasticsearch
fill them; fields of earlier versions are read, too.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from ltr_harness._util.catalog import did_you_mean
from ltr_harness.data.columns import plain_column
from ltr_harness.data.logs.log import files_of, open_log
from ltr_harness.data.logs.settings import Name, Part
from ltr_harness.data.times import NO_MOMENT, timestamps
from ltr_harness.errors import DataError, Problem

QUERY, ACTION, OBJECT, POSITION, TIME = "query_id", "action_name", "object_id", "position", "timestamp"
"""Columns of what is made of the documents, beside the documents' own."""

_ENGINE_QUERY = "query"
_SHOWN = 20  # names of actions in a message
_HITS = ("query_response_hit_ids", "query_response_object_ids", "query_response_objects_ids")
_OBJECTS = ("event_attributes.object.object_id", "event_attributes.object.internal_id", OBJECT)
_ORDINALS = ("event_attributes.position.ordinal", "event_attributes.position.ordinal.index", POSITION)


class Ubi(Part):
    """Log and baseline are exports of User Behavior Insights: both indexes in one file or folder, NDJSON or Parquet."""

    impressions: Literal["hits", "events"] = Field(
        description="What was shown: `query_response_hit_ids`, in their order (hits), or what events with "
        "`impression_event` and a position say (events).",
    )
    impression_event: Name = Field(default="impression", description="The action name of such events.")
    first_position: Literal[0, 1] = Field(
        default=1, description="What `event_attributes.position.ordinal` counts from."
    )


def impressions_and_events(path: Path, settings: Ubi, names: Sequence[str], timezone: str) -> tuple[Any, Any]:
    """A `pyarrow.Table` with a row per object shown, and one with a row per event that counts.

    Impressions have `query_id`, `object_id`, `position` from 1 and `timestamp`, and whatever the documents say of the
    query, such as `client_id`, `user_query` and `query_attributes.device`; events `query_id`, `object_id`,
    `action_name` and `timestamp`. Responses to one query id, such as pages, follow each other in time, and an object
    counts where it was shown first.
    """
    tables = _tables(path, timezone)
    events = pd.concat([_events(table) for table in tables], ignore_index=True)
    queries = pd.concat([_hits(table) for table in tables], ignore_index=True)
    shown = queries[queries[OBJECT].notna()]
    if settings.impressions == "events":
        shown = events[(events[ACTION] == settings.impression_event) & events[OBJECT].notna()]
        about = queries.drop(columns=[OBJECT, TIME]).drop_duplicates(QUERY)
        more = [name for name in about if name == QUERY or name not in shown or shown[name].isna().all()]
        shown = shown.drop(columns=[name for name in more if name in shown and name != QUERY])
        shown = shown.merge(about[more], on=QUERY, how="left")
    shown = shown.sort_values(TIME, kind="stable").drop_duplicates([QUERY, OBJECT])
    position = shown.groupby(QUERY, sort=False, dropna=False).cumcount() + 1
    if settings.impressions == "events":
        position = shown[POSITION] + (1 - settings.first_position)
    shown = shown.assign(position=position)
    if not len(shown):
        found, cure = f"holds no query with {_HITS[0]}", "set ubi.impressions: events"
        if settings.impressions == "events":
            found = f"holds no event {settings.impression_event!r} with an object_id"
            cure = did_you_mean(settings.impression_event, events[ACTION].value_counts().index[:_SHOWN])
        raise DataError.at(path, found, "what was shown", cure)
    shown = shown.sort_values(QUERY, kind="stable")  # a large log is read in batches of whole queries
    empty = {name for name in shown if shown[name].isna().all()} - {QUERY, OBJECT, POSITION, TIME}
    impressions = pa.Table.from_pandas(shown.drop(columns=[*empty]), preserve_index=False)
    return impressions, _counted(path, events, names)


def ubi_events(path: Path, names: Sequence[str], timezone: str) -> Any:
    """A `pyarrow.Table` with `query_id`, `object_id`, `action_name` and `timestamp` of the events that count."""
    tables = _tables(path, timezone)
    return _counted(path, pd.concat([_events(table) for table in tables], ignore_index=True), names)


def _tables(path: Path, timezone: str) -> list[Any]:
    """Each file's documents with ids as text and times in UTC; columns that are not there are null."""
    files, tables = files_of(path), []
    for file in [f for f in files if f.stat().st_size] or files:
        log = open_log(file, text_columns=[QUERY, OBJECT, ACTION])
        table = log.read(log.columns)
        for name in (QUERY, ACTION, TIME):
            if name not in table.column_names:
                table = table.append_column(name, pa.nulls(len(table)))
        moments = table[TIME]
        if pa.types.is_integer(moments.type):  # version 1.0 has milliseconds
            moments = moments.cast(pa.timestamp("ms", "UTC"))
        moments = timestamps(moments, TIME, timezone)
        times = pa.array(moments, mask=moments == NO_MOMENT).cast(pa.timestamp("ns", "UTC"))
        table = table.set_column(table.column_names.index(TIME), TIME, times)
        for name in (QUERY, ACTION):
            text = plain_column(table[name], name).cast(pa.string())
            table = table.set_column(table.column_names.index(name), name, text)
        tables.append(table)
    return tables


def _counted(path: Path, events: pd.DataFrame, names: Sequence[str]) -> Any:
    happened = list(events[ACTION].value_counts().index)
    cures = {name: did_you_mean(name, happened[:_SHOWN]) for name in names if name not in happened}
    told = [n for n, cure in cures.items() if len(cures) == len(names) or cure.startswith("did you mean")]
    DataError.refuse(Problem(str(path), f"holds no event {n!r}", "what users did", cures[n]) for n in told)
    known = events.loc[events[ACTION].isin(names), [QUERY, OBJECT, ACTION, TIME]]
    return pa.Table.from_pandas(known, preserve_index=False)


def _events(table: Any) -> pd.DataFrame:
    events = table.filter(table[ACTION].is_valid())
    documents = _plain(events).drop(columns=[OBJECT, POSITION], errors="ignore")
    documents[OBJECT] = _first(events, _OBJECTS, pa.string())
    documents[POSITION] = _first(events, _ORDINALS, pa.float64())
    return documents


def _hits(table: Any) -> pd.DataFrame:
    """Documents without an action: a row for each hit, and one without an object for a query without hits."""
    queries = table.filter(table[ACTION].is_null())
    hits = pa.nulls(len(queries), pa.list_(pa.string()))
    for name in (name for name in _HITS if name in queries.column_names):
        if queries[name].null_count == len(queries):
            continue
        try:
            hits = queries[name].combine_chunks().cast(hits.type)
        except pa.ArrowException:
            what = f"has the type {queries[name].type}"
            raise DataError.at(f"column {name!r}", what, "a list of ids") from None
        break
    parents = pc.list_parent_indices(hits).to_numpy()
    empty = np.setdiff1d(np.arange(len(hits)), parents)
    objects = pa.concat_arrays([pc.list_flatten(hits), pa.nulls(empty.size, pa.string())])
    documents = _plain(queries).take(np.append(parents, empty)).drop(columns=[OBJECT], errors="ignore")
    return documents.assign(**{OBJECT: objects.to_pandas().to_numpy()})


def _plain(table: Any) -> pd.DataFrame:
    """Columns that hold one value each; the engine's own query, which may be long, is no column of its hits."""
    fields = [field for field in table.schema if not pa.types.is_nested(field.type)]
    return pd.DataFrame(table.select([f.name for f in fields if f.name != _ENGINE_QUERY]).to_pandas())


def _first(table: Any, names: Sequence[str], kind: Any) -> Any:
    """The first of these columns that has a value, row by row."""
    columns = [pa.nulls(len(table), kind)]
    for name in names:
        if name in table.column_names:
            try:
                columns.append(plain_column(table[name], name).cast(kind))
            except pa.ArrowInvalid:
                found = "holds text that is not a number"
                raise DataError.at(f"column {name!r}", found, "positions such as 3") from None
    return pc.coalesce(*columns).to_pandas().to_numpy()
