"""One log to a table of queries: batch by batch in this process, or piece by piece on the workers of a cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ltr_harness.errors import MAIN_GUARD, DataError, MissingExtraError, Problem, UsageError, install_line
from ltr_harness.logs.contract import Contract, LogFinding
from ltr_harness.logs.log import BATCH_ROWS, Log, first_run, last_run, open_log
from ltr_harness.logs.ubi import Ubi, impressions_and_events
from ltr_harness.monitoring.config import MonitorConfig
from ltr_harness.monitoring.queries import columns_of, concatenated
from ltr_harness.monitoring.rows import evaluated, text_columns, wanted_columns
from ltr_harness.monitoring.served_scores import refuse_unlogged
from ltr_harness.monitoring.synthetic import SyntheticLog
from ltr_harness.relevance.events import JoinedEvents, refuse_unknown_events
from ltr_harness.relevance.rule import EventLog


class LogRead(NamedTuple):
    """One log, read: its queries, what its checks found, and when events without an impression happened."""

    table: pd.DataFrame
    findings: tuple[LogFinding, ...]
    orphans: NDArray[np.int64] | None


def read_log(source: Any, config: MonitorConfig, which: str, dask: Any = None) -> LogRead:
    """One log, checked and evaluated."""
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
    """Impressions, events, and a configuration that joins them."""
    if not isinstance(source, str | Path):
        found, cure = f"is a {type(source).__name__}", "leave out ubi for tables"
        raise DataError(Problem("log", found, "with ubi, a path of its documents", cure))
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


LOCAL = "local"
_SCHEDULER_WITHIN, _WORKER_WITHIN = 10, 60  # seconds


def on_workers(
    log: Log, config: MonitorConfig, contract: Contract, events: JoinedEvents | None, cluster: Any
) -> list[pd.DataFrame]:
    """The log's queries, part by part. Each query's rows must stand together in the log."""
    import pyarrow as pa

    with _client(cluster) as client:
        from distributed import KilledWorker, as_completed

        futures, first = [], 0
        for piece, n in log.pieces(BATCH_ROWS):
            mine = None if events is None else events.of(first, n)
            futures.append(client.submit(_piece, piece, config, contract.empty(), mine, first, pure=False))
            first += n
        place = {future.key: at for at, future in enumerate(futures)}
        answers: list[Any] = [None] * len(futures)
        try:
            for future, answer in as_completed(futures, with_results=True):
                answers[place[future.key]] = answer
                future.release()  # its memory on the worker
        except KilledWorker as problem:
            cure = "give them more memory, or the log in smaller files or row groups"
            found = f"workers died while reading it: {problem}"
            raise UsageError(Problem(log.name, found, cure=cure)) from None
    parts, edges = [], []
    for theirs, part, ends in answers:
        contract.add(theirs)
        parts += part
        edges += ends
    if edges:
        contract.first_row = None
        rest = evaluated(pa.concat_tables(edges), config, contract)
        parts += [] if rest is None else [rest]
    return parts


def _piece(
    log: Log, config: MonitorConfig, contract: Contract, events: JoinedEvents | None, first_row: int
) -> tuple[Contract, list[pd.DataFrame], list[Any]]:
    """What a worker does: the piece's whole queries evaluated, its first and last query's rows untouched."""
    import pyarrow as pa

    query = config.columns.query_id
    contract.first_row = first_row
    parts: list[pd.DataFrame] = []
    edges: list[Any] = []

    def edge(table: Any) -> None:
        if table.num_rows:  # a copy: a slice would travel with all that it was cut from
            edges.append(table.take(pa.array(range(table.num_rows))))

    def whole(table: Any) -> None:
        part = evaluated(table, config, contract) if table.num_rows else None
        parts.extend([] if part is None else [part])

    held, row = None, 0
    for batch in log.batches(wanted_columns(config), query, in_memory=BATCH_ROWS):
        table = batch if events is None else events.beside(batch, row)
        row += batch.num_rows
        if held is None:
            end = first_run(table, query)
            edge(table.slice(0, end))
            contract.first_row = first_row + end
            held = table.slice(end)
            continue
        whole(held)
        held = table
    if held is not None:
        begin = last_run(held, query)
        whole(held.slice(0, begin))
        edge(held.slice(begin))
    return contract, parts, edges


@contextmanager
def _client(cluster: Any) -> Iterator[Any]:
    """A connection to the cluster; a local one is started and stopped."""
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        needed = Problem("", "a cluster needs the package distributed", cure=install_line("dask"))
        raise MissingExtraError(needed) from None
    import logging

    if isinstance(cluster, Client):
        with cluster.as_current():
            yield cluster
    elif cluster == LOCAL:
        try:
            started = LocalCluster(
                threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=logging.ERROR
            )
        except (RuntimeError, OSError) as problem:
            found = f"cannot be started: {problem}"
            raise UsageError(Problem(f"--dask {LOCAL}", found, cure=MAIN_GUARD)) from None
        with started, Client(started, set_as_default=False) as client, client.as_current():
            yield client
    else:
        try:
            client = Client(cluster, timeout=_SCHEDULER_WITHIN, set_as_default=False)
        except (OSError, ValueError, TypeError) as problem:
            expected = f"{LOCAL}, or an address such as tcp://scheduler:8786"
            raise UsageError(
                Problem(f"--dask {cluster}", f"no scheduler answers: {problem}", expected)
            ) from None
        with client, client.as_current():
            try:
                client.wait_for_workers(1, timeout=_WORKER_WITHIN)
            except TimeoutError:
                raise UsageError(Problem(f"--dask {cluster}", "the scheduler has no workers")) from None
            yield client
