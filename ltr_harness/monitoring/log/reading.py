"""One log to a table of queries: batch by batch in this process, or piece by piece on the workers of a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ltr_harness.errors import DataError, Problem
from ltr_harness.logs.contract import Contract, LogFinding
from ltr_harness.logs.log import Log, open_log
from ltr_harness.logs.ubi import Ubi, impressions_and_events
from ltr_harness.monitoring.config import MonitorConfig
from ltr_harness.monitoring.log.parity import refuse_unlogged
from ltr_harness.monitoring.log.rows import evaluated, text_columns, wanted_columns
from ltr_harness.monitoring.queries import columns_of, concatenated
from ltr_harness.monitoring.synthetic import SyntheticLog
from ltr_harness.relevance.events import JoinedEvents, refuse_unknown_events
from ltr_harness.relevance.rule import EventLog


class LogRead(NamedTuple):
    """One log, read: its queries, what its checks found, and when events without an impression happened."""

    table: pd.DataFrame
    findings: tuple[LogFinding, ...]
    orphans: NDArray[np.int64] | None


def read_log(source: Any, config: MonitorConfig, which: str, dask: Any = None) -> LogRead:
    """One log, checked and evaluated.

    Raises:
        DataError: every error of the contract.
    """
    name = str(source) if isinstance(source, str | Path) else f"{which} log"
    join = config.relevance.event_log
    happened = join.baseline_path if join and which == "baseline" else None
    if isinstance(source, SyntheticLog):
        source = source.table()
    elif config.ubi is not None:
        source, happened, config = _from_ubi(source, config, config.ubi)
    log = open_log(source, name, text_columns(config))
    if config.parity is not None:
        refuse_unlogged(config.parity, log.columns, name)
    log.refuse_missing(wanted_columns(config))
    contract = Contract(which, name)
    events = JoinedEvents.read(
        config.relevance,
        config.columns,
        config.windows.timezone,
        log,
        contract,
        source=happened,
    )
    if dask is None:
        parts = list(_in_batches(log, config, contract, events))
    else:
        from ltr_harness.monitoring.log.partitions import on_workers

        parts = on_workers(log, config, contract, events, dask)
    contract.raise_errors()
    table = concatenated(parts)
    ids = table["query_id"].to_numpy()
    scattered = np.flatnonzero(ids[1:] == ids[:-1])
    contract.count("query_scattered", scattered.size, tuple(repr(str(q)) for q in ids[scattered[:3]]))
    contract.raise_errors()
    if config.relevance.list_column or join:
        counts = {event: int(n.sum()) for event, n in columns_of(table, "event").items()}
        strange = [e for f in contract.findings if f.check == "unknown_event" for e in f.examples]
        refuse_unknown_events(config.relevance.event_names, counts, strange, name)
    return LogRead(table, contract.findings, None if events is None else events.orphans)


def _from_ubi(source: Any, config: MonitorConfig, ubi: Ubi) -> tuple[Any, Any, MonitorConfig]:
    """Impressions, events, and a configuration that joins them.

    Raises:
        DataError: a table instead of a path; nothing was shown, or nothing happened.
    """
    if not isinstance(source, str | Path):
        found = f"is a {type(source).__name__}"
        raise DataError(
            Problem("log", found, "with ubi, a path of its documents", "leave out ubi for tables")
        )
    path, zone = Path(source).expanduser(), config.windows.timezone
    shown, events = impressions_and_events(path, ubi, config.relevance.event_names, zone)
    joined = config.relevance.model_copy(update={"event_log": EventLog(path=str(path), ubi=True)})
    return shown, events, config.model_copy(update={"relevance": joined})


def _in_batches(
    log: Log, config: MonitorConfig, contract: Contract, events: JoinedEvents | None
) -> Iterator[pd.DataFrame]:
    row = 0
    for batch in log.batches(wanted_columns(config), config.columns.query_id):
        table = batch if events is None else events.beside(batch, row)
        row += batch.num_rows
        part = evaluated(table, config, contract)
        if part is not None:
            yield part
