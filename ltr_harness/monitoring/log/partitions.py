"""A log beyond one machine: the same computation over pieces of it, on the workers of a Dask cluster.

A worker reads its piece, checks and evaluates it, and hands back one line per query. A query may begin in one
piece and end in the next; so the rows of a piece's first and last query come back as they are, and are put
together and evaluated here. What arrives is what one process would have computed, to the bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pandas as pd

from ltr_harness.errors import MAIN_GUARD, MissingExtraError, Problem, UsageError
from ltr_harness.logs.contract import Contract
from ltr_harness.logs.log import BATCH_ROWS, Log, first_run, last_run
from ltr_harness.monitoring.config import MonitorConfig
from ltr_harness.monitoring.log.rows import evaluated, wanted_columns
from ltr_harness.relevance.events import JoinedEvents

LOCAL = "local"
_SCHEDULER_WITHIN, _WORKER_WITHIN = 10, 60  # seconds


def on_workers(
    log: Log, config: MonitorConfig, contract: Contract, events: JoinedEvents | None, cluster: Any
) -> list[pd.DataFrame]:
    """The log's queries, part by part. Each query's rows must stand together in the log.

    Raises:
        DataError: what a worker cannot read.
        UsageError: nobody answers at the address, or workers die.
    """
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
            raise UsageError(
                Problem(
                    log.name,
                    f"workers died while reading it: {problem}",
                    cure="give them more memory, or the log in smaller files or row groups",
                )
            ) from None
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
            end = first_run(table[query])
            edge(table.slice(0, end))
            contract.first_row = first_row + end
            held = table.slice(end)
            continue
        whole(held)
        held = table
    if held is not None:
        begin = last_run(held[query])
        whole(held.slice(0, begin))
        edge(held.slice(begin))
    return contract, parts, edges


@contextmanager
def _client(cluster: Any) -> Iterator[Any]:
    """A connection to the cluster; a local one is started and stopped."""
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise MissingExtraError(
            Problem("", "a cluster needs the package distributed", cure="pip install 'ltr-harness[dask]'")
        ) from None
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
            raise UsageError(
                Problem(f"--dask {LOCAL}", f"cannot be started: {problem}", cure=MAIN_GUARD)
            ) from None
        with started, Client(started, set_as_default=False) as client, client.as_current():
            yield client
    else:
        try:
            client = Client(cluster, timeout=_SCHEDULER_WITHIN, set_as_default=False)
        except (OSError, ValueError, TypeError) as problem:
            raise UsageError(
                Problem(
                    f"--dask {cluster}",
                    f"no scheduler answers: {problem}",
                    f"{LOCAL}, or an address such as tcp://scheduler:8786",
                )
            ) from None
        with client, client.as_current():
            try:
                client.wait_for_workers(1, timeout=_WORKER_WITHIN)
            except TimeoutError:
                raise UsageError(Problem(f"--dask {cluster}", "the scheduler has no workers")) from None
            yield client
