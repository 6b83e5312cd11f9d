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
from ltr_harness._util.text import count_of
from ltr_harness.data.columns import plain_column
from ltr_harness.data.logs.log import files_of, open_log
from ltr_harness.data.logs.settings import ConfigSection, NonEmptyText
from ltr_harness.data.times import NO_MOMENT, timestamps
from ltr_harness.errors import DataError, Problem

QUERY, ACTION, OBJECT, POSITION, TIME = "query_id", "action_name", "object_id", "position", "timestamp"
"""Columns of what is made of the documents, beside the documents' own."""

_ENGINE_QUERY = "query"
_SHOWN = 20  # names of actions in a message
_HITS = ("query_response_hit_ids", "query_response_object_ids", "query_response_objects_ids")
_OBJECTS = ("event_attributes.object.object_id", "event_attributes.object.internal_id", OBJECT)
_ORDINALS = ("event_attributes.position.ordinal", "event_attributes.position.ordinal.index", POSITION)


class Ubi(ConfigSection):
    """Log and baseline are exports of User Behavior Insights: both indexes in one file or folder, NDJSON or Parquet."""

    impressions: Literal["hits", "events"] = Field(
        description="What was shown: `query_response_hit_ids`, in their order (hits), or what events with "
        "`impression_event` and a position say (events).",
    )
    impression_event: NonEmptyText = Field(
        default="impression", description="The action name of such events."
    )
    first_position: Literal[0, 1] = Field(
        default=1, description="What `event_attributes.position.ordinal` counts from."
    )


def _shown_by_events(events: pd.DataFrame, queries: pd.DataFrame, event: str) -> pd.DataFrame:
    """Return the events that tell what was shown, with what is known of their queries and not of them."""
    shown_rows = events[(events[ACTION] == event) & events[OBJECT].notna()]
    query_rows = queries.drop(columns=[OBJECT, TIME]).drop_duplicates(QUERY)
    known_columns = [name for name in shown_rows if shown_rows[name].notna().any()]
    added_columns = [name for name in query_rows if name == QUERY or name not in known_columns]
    replaced_columns = [name for name in added_columns if name in shown_rows and name != QUERY]
    shown_rows = shown_rows.drop(columns=replaced_columns)
    return shown_rows.merge(query_rows[added_columns], on=QUERY, how="left")


def impressions_and_events(path: Path, settings: Ubi, names: Sequence[str], timezone: str) -> tuple[Any, Any]:
    """Return a `pyarrow.Table` with a row per object shown, and one with a row per event that counts.

    Impressions have `query_id`, `object_id`, `position` from 1 and `timestamp`, and whatever the documents say of the
    query, such as `client_id`, `user_query` and `query_attributes.device`; events `query_id`, `object_id`,
    `action_name` and `timestamp`. Responses to one query id, such as pages, follow each other in time, and an object
    counts where it was shown first.
    """
    tables = _tables(path, timezone)
    events = pd.concat([_events(table) for table in tables], ignore_index=True)
    queries = pd.concat([_hits(table) for table in tables], ignore_index=True)
    shown_rows = queries[queries[OBJECT].notna()]
    if settings.impressions == "events":
        shown_rows = _shown_by_events(events, queries, settings.impression_event)
    shown_rows = shown_rows.sort_values(TIME, kind="stable").drop_duplicates([QUERY, OBJECT])
    position = shown_rows.groupby(QUERY, sort=False, dropna=False).cumcount() + 1
    if settings.impressions == "events":
        position = shown_rows[POSITION] + (1 - settings.first_position)
        if settings.first_position and (position == 0).any():
            found = f"{count_of(int((position == 0).sum()), 'impression')} with the ordinal 0"
            raise DataError.at(path, found, "ordinals from 1", "set ubi.first_position: 0")
    shown_rows = shown_rows.assign(position=position)
    if not len(shown_rows):
        found, cure = f"holds no query with {_HITS[0]}", "set ubi.impressions: events"
        if settings.impressions == "events":
            found = f"holds no event {settings.impression_event!r} with an object_id"
            cure = did_you_mean(settings.impression_event, events[ACTION].value_counts().index[:_SHOWN])
        raise DataError.at(path, found, "what was shown", cure)
    # a large log is read in batches of whole queries
    shown_rows = shown_rows.sort_values(QUERY, kind="stable")
    empty = {name for name in shown_rows if shown_rows[name].isna().all()} - {QUERY, OBJECT, POSITION, TIME}
    impressions = pa.Table.from_pandas(shown_rows.drop(columns=[*empty]), preserve_index=False)
    return impressions, _select_events(path, events, names)


def ubi_events(path: Path, names: Sequence[str], timezone: str) -> Any:
    """Return a `pyarrow.Table` with `query_id`, `object_id`, `action_name` and `timestamp` of counted events."""
    tables = _tables(path, timezone)
    return _select_events(path, pd.concat([_events(table) for table in tables], ignore_index=True), names)


def _tables(path: Path, timezone: str) -> list[Any]:
    """Return each file's documents with ids as text and times in UTC; absent columns are null."""
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
        moments = timestamps(_with_milliseconds(moments), TIME, timezone)
        times = pa.array(moments, mask=moments == NO_MOMENT).cast(pa.timestamp("ns", "UTC"))
        table = table.set_column(table.column_names.index(TIME), TIME, times)
        for name in (QUERY, ACTION):
            text = plain_column(table[name], name).cast(pa.string())
            table = table.set_column(table.column_names.index(name), name, text)
        tables.append(table)
    return tables


def _with_milliseconds(moments: Any) -> Any:
    """Return times in which those that are milliseconds among texts, as where clients of two versions log, are ISO."""
    if not pa.types.is_string(moments.type):
        return moments
    is_number = pc.match_substring_regex(moments, "^[0-9]{12,14}$")
    if not pc.any(is_number).as_py():
        return moments
    numbers = pc.if_else(is_number, moments, None).cast(pa.int64()).cast(pa.timestamp("ms"))
    return pc.coalesce(pc.strftime(numbers, "%Y-%m-%dT%H:%M:%SZ"), moments)


def _select_events(path: Path, events: pd.DataFrame, names: Sequence[str]) -> Any:
    action_names = list(events[ACTION].value_counts().index)
    cures = {name: did_you_mean(name, action_names[:_SHOWN]) for name in names if name not in action_names}
    absent_events = [
        n for n, cure in cures.items() if len(cures) == len(names) or cure.startswith("did you mean")
    ]
    DataError.refuse(
        Problem(str(path), f"holds no event {n!r}", "what users did", cures[n]) for n in absent_events
    )
    counted = events.loc[events[ACTION].isin(names), [QUERY, OBJECT, ACTION, TIME]]
    return pa.Table.from_pandas(counted, preserve_index=False)


def _events(table: Any) -> pd.DataFrame:
    events = table.filter(table[ACTION].is_valid())
    documents = _flat_columns(events).drop(columns=[OBJECT, POSITION], errors="ignore")
    documents[OBJECT] = _first(events, _OBJECTS, pa.string())
    documents[POSITION] = _first(events, _ORDINALS, pa.float64())
    return documents


def _hits(table: Any) -> pd.DataFrame:
    """Return documents without an action: a row for each hit, and one without an object for a query without hits."""
    queries = table.filter(table[ACTION].is_null())
    hits = pa.nulls(len(queries), pa.list_(pa.string()))
    for name in (name for name in _HITS if name in queries.column_names):
        if queries[name].null_count == len(queries):
            continue
        try:
            hits = queries[name].combine_chunks().cast(hits.type)
        except pa.ArrowException:
            found = f"has the type {queries[name].type}"
            raise DataError.at(f"column {name!r}", found, "a list of ids") from None
        break
    parents = pc.list_parent_indices(hits).to_numpy()
    empty = np.setdiff1d(np.arange(len(hits)), parents)
    objects = pa.concat_arrays([pc.list_flatten(hits), pa.nulls(empty.size, pa.string())])
    documents = _flat_columns(queries).take(np.append(parents, empty)).drop(columns=[OBJECT], errors="ignore")
    return documents.assign(**{OBJECT: objects.to_pandas().to_numpy()})


def _flat_columns(table: Any) -> pd.DataFrame:
    """Return the columns of single values, without the engine's query, which may be long."""
    fields = [field for field in table.schema if not pa.types.is_nested(field.type)]
    return pd.DataFrame(table.select([f.name for f in fields if f.name != _ENGINE_QUERY]).to_pandas())


def _first(table: Any, names: Sequence[str], kind: Any) -> Any:
    """Return the value of the first of these columns that has one, row by row."""
    columns = [pa.nulls(len(table), kind)]
    for name in names:
        if name in table.column_names:
            try:
                columns.append(plain_column(table[name], name).cast(kind))
            except pa.ArrowInvalid:
                found = "holds text that is not a number"
                raise DataError.at(f"column {name!r}", found, "positions such as 3") from None
    return pc.coalesce(*columns).to_pandas().to_numpy()
