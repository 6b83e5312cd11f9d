"""Training of one model across the workers of a Dask cluster, for LightGBM and XGBoost.

The training queries are cut into one part for each worker; a query is never divided. `coordinator` says who stops
training, and when.
"""

from __future__ import annotations

import threading
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any

import numpy as np

from ltr_harness.boosting.watching import Measured
from ltr_harness.dataset import RankingDataset
from ltr_harness.errors import MissingExtraError, Problem, TrainingError
from ltr_harness.groups import QueryGroups
from ltr_harness.rankers.cluster.coordinator import (
    ABORT,
    ALL_ROUNDS,
    SharedStopping,
    publish,
    register,
    result,
)
from ltr_harness.rankers.training import Training, Workers
from ltr_harness.wording import count_of

Queries = tuple[int, int]

WORKERS_WITHIN = 60
"""Seconds that as many workers as a model needs have to appear, also after one was lost."""
NOTICED_WITHIN = 5
"""Seconds in which the scheduler notices that a worker is gone."""
ATTEMPTS = 2
"""A lost worker costs what was trained of the model; it starts again this often."""


class _WorkerLostError(Exception):
    """A worker died; everything of this training is void."""


@dataclass(frozen=True, eq=False)
class Parts:
    """Training data in the workers' memories: Dask arrays with one chunk for each worker."""

    client: Any
    features: Any
    labels: Any
    queries: Any  # each row's query, counted from 0; non-decreasing
    sizes: Any  # each query's rows
    weights: Any  # each row's query weight; None where queries have none


@dataclass(frozen=True)
class Trained:
    """A trained model with all its rounds, the learning curve, and the round to keep."""

    model: Any
    history: Sequence[Measured]
    best_round: int | None


def cut(groups: QueryGroups, n_parts: int) -> list[Queries]:
    """Queries from - to of each part; parts have as nearly the same number of rows as whole queries allow.

    Example:
        >>> cut(QueryGroups.from_sizes([5, 1, 1, 1, 8]), 2)
        [(0, 4), (4, 5)]
    """
    if groups.n_queries < n_parts:
        raise TrainingError(
            f"{count_of(groups.n_queries, 'training query')} cannot be divided among {count_of(n_parts, 'worker')}"
        )
    ends = groups.boundaries[1:]
    edges = [0]
    for part in range(1, n_parts):
        wanted = groups.n_rows * part / n_parts
        nearest = int(np.argmin(np.abs(ends - wanted))) + 1
        edges.append(min(max(nearest, edges[-1] + 1), groups.n_queries - (n_parts - part)))
    return list(zip(edges, [*edges[1:], groups.n_queries], strict=True))


def train_across(
    n_parts: int,
    training: Training,
    prepared: Callable[[RankingDataset], RankingDataset],
    train: Callable[[Parts, SharedStopping], Any],
) -> Trained:
    """Train one model across workers, each of which prepares its own rows first."""
    workers = training.workers
    if workers is None:
        raise TrainingError(
            f"this model is trained across {count_of(n_parts, 'worker')}, and there is no cluster; expected "
            "--dask ADDRESS or "
            f"--workers dask:{n_parts}"
        )
    try:
        import dask.array  # noqa: F401
    except ImportError:
        raise MissingExtraError(
            Problem("", "data_parallel needs Dask's arrays", cure="pip install 'ltr-harness[dask]'")
        ) from None
    parts = cut(training.train.groups, n_parts)
    for _ in range(ATTEMPTS):
        addresses = _addresses(workers.client, n_parts)
        try:
            return _attempt(workers, addresses, parts, training, prepared, train)
        except _WorkerLostError:
            continue
    raise TrainingError(
        f"a worker was lost (killed, or out of memory) in each of {ATTEMPTS} attempts; expected workers with more "
        "memory, or more of them"
    )


def _addresses(client: Any, n_parts: int) -> list[str]:
    try:
        client.wait_for_workers(n_parts, timeout=WORKERS_WITHIN)
    except TimeoutError:
        raise TrainingError(
            f"this model needs {count_of(n_parts, 'worker')} at once, and the cluster has "
            f"{len(client.nthreads())} after "
            f"{WORKERS_WITHIN} s"
        ) from None
    return sorted(client.nthreads())[:n_parts]


def _attempt(
    workers: Workers,
    addresses: list[str],
    parts: list[Queries],
    training: Training,
    prepared: Callable[[RankingDataset], RankingDataset],
    train: Callable[[Parts, SharedStopping], Any],
) -> Trained:
    client = workers.client
    stopping = SharedStopping(
        topic=f"ltr-harness-across-{uuid.uuid4().hex[:12]}",
        first=addresses[0],
        others=tuple(addresses[1:]),
        stops=training.stopping is not None,
        every=1 if training.stopping is None else training.stopping.every,
        max_rounds=training.max_rounds,
        watches=training.valid is not None and bool(training.watched),
    )
    messages: deque[tuple[int, dict[str, float]]] = deque()
    client.subscribe_topic(stopping.topic, lambda event: messages.append(event[1]))

    def work() -> Trained:
        loaded = [
            workers.load(address, "train", *part) for address, part in zip(addresses, parts, strict=True)
        ]
        if stopping.watches and training.valid is not None:
            valid = workers.load(addresses[0], "valid", 0, training.valid.n_queries)
            asked = (training.watched, training.stopping)
            client.submit(register, stopping, valid, *asked, **_pinned_to(addresses[0])).result()
        model = train(_parts(client, addresses, parts, loaded, training, prepared), stopping)
        if not stopping.watches:
            return Trained(model, [], None)
        history, best = client.submit(result, stopping.topic, **_pinned_to(addresses[0])).result()
        return Trained(model, [Measured(*point) for point in history], best)

    def forward() -> None:
        while messages:
            number, values = messages.popleft()
            if training.progress is not None:
                training.progress(number, values)

    try:
        return _supervised(client, addresses, stopping.topic, work, forward)
    finally:
        client.unsubscribe_topic(stopping.topic)


def _supervised(
    client: Any, addresses: list[str], topic: str, work: Callable[[], Trained], forward: Callable[[], None]
) -> Trained:
    """Run `work` in a thread of its own, and restart all workers when one is lost (`_WorkerLostError`).

    Neither library notices every lost connection, so the other workers, and `work`, might wait for ever.
    """
    import distributed

    known = set(client.futures)
    outcome: Future[Trained] = Future()

    def do() -> None:
        try:
            outcome.set_result(work())
        except BaseException as problem:
            outcome.set_exception(problem)

    threading.Thread(target=do, daemon=True).start()
    try:
        while not outcome.done() and not _gone(client, addresses):
            wait([outcome], timeout=0.5)
            forward()
        if outcome.done() and outcome.exception() is None:
            return outcome.result()
        # who dies takes the others' connections with it, so their errors may come first
        noticed_until = monotonic() + NOTICED_WITHIN
        while not _gone(client, addresses) and monotonic() < noticed_until:
            sleep(0.5)
        if not _gone(client, addresses):
            return outcome.result()  # which raises
    except BaseException:
        client.run(publish, topic, ALL_ROUNDS, ABORT, on_error="ignore")
        raise
    client.run(publish, topic, ALL_ROUNDS, ABORT, on_error="ignore")
    left = sorted(set(addresses) & set(client.nthreads()))
    with suppress(ValueError, TimeoutError):  # without nannies they cannot be restarted
        client.restart_workers(left, timeout=WORKERS_WITHIN, raise_for_error=False)
    client.cancel([distributed.Future(key, client) for key in set(client.futures) - known])
    raise _WorkerLostError


def _gone(client: Any, addresses: list[str]) -> bool:
    return not set(client.nthreads()).issuperset(addresses)


def _parts(
    client: Any,
    addresses: list[str],
    parts: list[Queries],
    loaded: list[Any],
    training: Training,
    prepared: Callable[[RankingDataset], RankingDataset],
) -> Parts:
    """Each worker prepares its rows; nothing but their number comes here."""
    import dask.array
    from dask import delayed

    columns = [
        client.submit(_columns, rows, prepared, first, **_pinned_to(address))
        for rows, (first, _), address in zip(loaded, parts, addresses, strict=True)
    ]
    shapes = client.gather(
        [client.submit(_shape, one, **_pinned_to(at)) for one, at in zip(columns, addresses, strict=True)]
    )

    def array(name: str, dtype: Any, per_query: bool = False, width: int | None = None) -> Any:
        pieces = []
        for one, address, (n_rows, n_queries) in zip(columns, addresses, shapes, strict=True):
            piece = client.submit(dict.__getitem__, one, name, **_pinned_to(address))
            length = n_queries if per_query else n_rows
            shape = (length,) if width is None else (length, width)
            pieces.append(dask.array.from_delayed(delayed(piece), shape=shape, dtype=dtype))
        return dask.array.concatenate(pieces)

    weighted = training.train.judgments.query_weights is not None
    return Parts(
        client,
        array("features", np.float32, width=training.train.n_features),
        array("labels", np.float64),
        array("queries", np.uint32),
        array("sizes", np.int64, per_query=True),
        array("weights", np.float64) if weighted else None,
    )


def _pinned_to(address: str) -> dict[str, Any]:
    return {"workers": [address], "allow_other_workers": False, "pure": False}


# --- what happens on the workers ---


def _columns(
    rows: RankingDataset, prepared: Callable[[RankingDataset], RankingDataset], first: int
) -> dict[str, Any]:
    part = prepared(rows)
    sizes, weights = part.groups.sizes, part.judgments.query_weights
    return {
        "features": part.features,
        "labels": part.labels,
        "queries": np.repeat(np.arange(first, first + part.n_queries, dtype=np.uint32), sizes),
        "sizes": sizes,
        "weights": None if weights is None else np.repeat(weights, sizes),
    }


def _shape(columns: dict[str, Any]) -> tuple[int, int]:
    return len(columns["labels"]), len(columns["sizes"])
