"""Training of one model across the workers of a Dask cluster, for LightGBM and XGBoost.

The training queries are cut into one part for each worker; a query is never divided. The first worker also holds the
complete validation data, evaluates on it after each round, and tells the others whether to go on. If each decided by
itself, on the rows it has, they would stop at different rounds and wait for each other for ever; that is what
LightGBM's own stopping does under Dask.
"""

import threading
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any

import numpy as np

from ltr_harness._util.text import count_of
from ltr_harness.boosting.stopping import StoppingRule
from ltr_harness.boosting.watching import Measured, Watching, watch_by_rule
from ltr_harness.data.arrays import Array, Floats
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.queries import QueryGroups
from ltr_harness.errors import Caution, TrainingError, optional_module
from ltr_harness.metrics import Metric
from ltr_harness.models.ranker import VALID, Training, Workers
from ltr_harness.models.tree_model import TrainedBooster

ABORT = -1
"""In place of a number of rounds: end with an error."""
ALL_ROUNDS = 0
"""In place of a round: a decision that holds from now on."""
_EXTENSION = "ltr-harness"
Scored = Callable[["Session"], Array]
"""Scores the validation rows (n_rows,)."""


@dataclass(frozen=True)
class SharedStopping:
    """Stopping that every worker's callback consults after a round, so that all go on or none does."""

    topic: str  # names this training among all
    addresses: tuple[str, ...]  # of the workers, the one that evaluates first
    stops: bool  # training may end before `max_rounds`
    every: int  # each n-th round is evaluated, and the last
    max_rounds: int
    watches: bool  # there is something to evaluate

    def rounds_to_keep(self, attempt: int, rounds: int, score: Scored) -> int | None:
        """The rounds to keep if training ends here, else None; the first worker scores the validation rows."""
        import distributed

        last = attempt == self.max_rounds
        if not self.watches or (attempt % self.every and not last):
            return None
        worker = distributed.get_worker()
        session = _session(worker, self.topic)
        evaluates, *other_addresses = self.addresses
        if worker.address != evaluates:
            keep = session.wait_for(attempt) if self.stops else 0
            if keep:
                _sessions(worker).pop(self.topic)
            return keep or None
        keep = ABORT
        try:
            keep = session.decide(attempt, rounds, score, last)
        finally:
            if self.stops:
                arguments = {"workers": other_addresses, "on_error": "ignore"}
                distributed.get_client().run(publish, self.topic, attempt, keep, **arguments)
        return keep or None


class Session:
    """One training on one worker: what was decided about its rounds, and on the first worker how it is evaluated."""

    valid: RankingDataset  # valid, watching: on the first worker, as `register` says
    watching: Watching

    def __init__(self) -> None:
        self.decisions: dict[int, int] = {}  # round -> rounds to keep, 0 to go on
        self.changed = threading.Condition()
        self.matrix: Any = None  # the data in the library's form, if its callback has made one
        self.scores: Floats = np.zeros(0)  # of the first `scored` rounds
        self.scored = 0
        # XGBoost keeps its connections by thread: a score in the training's own thread would wait for the others.
        self._scoring = ThreadPoolExecutor(1)

    def wait_for(self, attempt: int) -> int:
        """The rounds to keep, 0 to go on, as soon as the first worker has decided."""
        with self.changed:
            self.changed.wait_for(lambda: {attempt, ALL_ROUNDS} & self.decisions.keys())
            keep = self.decisions.pop(attempt, ABORT)
        if keep == ABORT:
            raise TrainingError("another worker failed")
        return keep

    def decide(self, attempt: int, rounds: int, score: Scored, last: bool) -> int:
        """Evaluate a round by the validation rows' scores (n_rows,): the rounds to keep if it is the last, else 0."""
        if ALL_ROUNDS in self.decisions:
            raise TrainingError("the command of this model has ended")
        scores = self._scoring.submit(score, self).result()
        stop = self.watching.record(attempt, rounds, {VALID: self.watching.means(VALID, scores)})
        return (self.watching.best_round or 0) if stop or last else 0


def register(topic: str, valid: RankingDataset, metrics: Sequence[Metric], rule: StoppingRule | None) -> None:
    """Make this worker the one that evaluates, by the first metric."""
    import distributed

    worker = distributed.get_worker()
    reported = monotonic()

    def on_round(measured: Sequence[Measured]) -> None:
        nonlocal reported
        if monotonic() - reported > 0.2:  # a message may cost more than a round
            reported = monotonic()
            values = {point.metric: point.value for point in measured}
            worker.log_event(topic, [measured[0].round, values])

    session = _session(worker, topic)
    session.valid, session.scores = valid, np.zeros(valid.n_rows)
    sets: dict[str, Any] = {"data": {VALID: valid}, "judgments": {VALID: valid.judgments}}
    session.watching = watch_by_rule(Watching, rule, metrics, **sets, on_round=on_round)
    session.watching.begin()


def publish(topic: str, attempt: int, keep: int, dask_worker: Any) -> None:
    """Give this worker a decision: rounds to keep, 0 to go on, or `ABORT`; `ALL_ROUNDS` means from now on."""
    session = _session(dask_worker, topic)
    with session.changed:
        session.decisions[attempt] = keep
        session.changed.notify_all()


def result(topic: str) -> tuple[list[tuple[int, str, str, float]], int | None]:
    """The learning curve and the best round, from the worker that evaluated; its session ends."""
    import distributed

    watching = _sessions(distributed.get_worker()).pop(topic).watching
    return [tuple(point) for point in watching.history], watching.best_round  # type: ignore[misc]


def _session(worker: Any, topic: str) -> Session:
    return _sessions(worker).setdefault(topic, Session())


def _sessions(worker: Any) -> dict[str, Session]:
    sessions: dict[str, Session] = worker.extensions.setdefault(_EXTENSION, {})
    return sessions


QueryRange = tuple[int, int]

WORKERS_WITHIN = 60
"""Seconds that as many workers as a model needs have to appear, also after one was lost."""
NOTICED_WITHIN = 5
"""Seconds in which the scheduler notices that a worker is gone."""
ATTEMPTS = 2
"""A lost worker costs what was trained of the model; it starts again this often."""


@dataclass(frozen=True, eq=False)
class WorkerArrays:
    """Training data in the workers' memories: Dask arrays with one chunk for each worker."""

    client: Any
    stopping: SharedStopping
    features: Any
    labels: Any
    queries: Any  # each row's query, counted from 0; non-decreasing
    sizes: Any  # each query's rows
    weights: Any  # of rows; None where queries have none


Prepare = Callable[[RankingDataset], RankingDataset]
Train = Callable[[WorkerArrays], Any]  # gives the booster


def cut(groups: QueryGroups, n_parts: int) -> list[QueryRange]:
    """Return the range of queries of each part: as nearly equal in rows as whole queries allow, and none empty."""
    with_rows = np.flatnonzero(groups.has_rows)
    if with_rows.size < n_parts:
        raise TrainingError(
            f"{count_of(with_rows.size, 'training query')} cannot be divided among {count_of(n_parts, 'worker')}"
        )
    ends = groups.boundaries[with_rows + 1]
    edges = [0]
    for part in range(1, n_parts):
        target_row = groups.n_rows * part / n_parts
        nearest = int(np.argmin(np.abs(ends - target_row))) + 1
        edges.append(min(max(nearest, edges[-1] + 1), with_rows.size - (n_parts - part)))
    starts = [0, *with_rows[edges[1:]].tolist()]
    return list(zip(starts, [*starts[1:], groups.n_queries], strict=True))


def train_across(n_parts: int, training: Training, prepared: Prepare, train: Train) -> TrainedBooster:
    """Train one model across workers, each of which prepares its own rows first."""
    workers = training.workers
    if workers is None:
        found = f"this model is trained across {count_of(n_parts, 'worker')}, and there is no cluster"
        raise TrainingError(f"{found}; expected --dask ADDRESS or --workers dask:{n_parts}")
    optional_module("dask.array", "data_parallel needs Dask's arrays", "dask")
    parts = cut(training.train.groups, n_parts)
    for _ in range(ATTEMPTS):
        try:
            workers.client.wait_for_workers(n_parts, timeout=WORKERS_WITHIN)
        except TimeoutError:
            raise TrainingError(
                f"this model needs {count_of(n_parts, 'worker')} at once, and the cluster has "
                f"{len(workers.client.nthreads())} after {WORKERS_WITHIN} s"
            ) from None
        shares = dict(zip(sorted(workers.client.nthreads())[:n_parts], parts, strict=True))
        if trained := _attempt(workers, shares, training, prepared, train):
            text = (
                f"trained across {count_of(n_parts, 'worker')} on parts of the training queries: bins and sums of "
                "gradients are put together from the parts, so trees differ from those of a single machine"
            )
            return trained._replace(cautions=(Caution("trained-across-workers", "note", text),))
    raise TrainingError(
        f"a worker was lost (killed, or out of memory) in each of {ATTEMPTS} attempts; expected workers with more "
        "memory, or more of them"
    )


def _attempt(
    workers: Workers, shares: dict[str, QueryRange], training: Training, prepared: Prepare, train: Train
) -> TrainedBooster | None:
    """Train with a share of the queries at each address; None where a worker was lost, and all is void."""
    client = workers.client
    stopping = SharedStopping(
        topic=f"ltr-harness-across-{uuid.uuid4().hex[:12]}",
        addresses=tuple(shares),
        stops=training.stopping is not None,
        every=1 if training.stopping is None else training.stopping.every,
        max_rounds=training.max_rounds,
        watches=training.valid is not None and bool(training.watched_metrics),
    )
    messages: deque[tuple[int, dict[str, float]]] = deque()
    client.subscribe_topic(stopping.topic, lambda event: messages.append(event[1]))

    times = training.train.half_lives
    newest = None if times is None else float(times.max())
    evaluator = _pinned_to(stopping.addresses[0])

    def work() -> TrainedBooster:
        columns = []  # each worker prepares its rows
        for address, (first, end) in shares.items():
            rows = workers.load(address, "train", first, end)
            columns.append(client.submit(_columns, rows, prepared, first, newest, **_pinned_to(address)))
        if stopping.watches and training.valid is not None:
            valid = workers.load(stopping.addresses[0], "valid", 0, training.valid.n_queries)
            watching = (training.watched_metrics, training.stopping)
            client.submit(register, stopping.topic, valid, *watching, **evaluator).result()
        booster = train(_arrays_of_workers(client, stopping, columns, training))
        if not stopping.watches:
            return TrainedBooster(booster, [])
        history, best = client.submit(result, stopping.topic, **evaluator).result()
        return TrainedBooster(booster, [Measured(*point) for point in history], best)

    def forward() -> None:
        while messages:
            number, values = messages.popleft()
            if training.progress is not None:
                training.progress(number, values)

    try:
        return _supervised(client, stopping, work, forward)
    finally:
        client.unsubscribe_topic(stopping.topic)


def _supervised(
    client: Any, stopping: SharedStopping, work: Callable[[], TrainedBooster], forward: Callable[[], None]
) -> TrainedBooster | None:
    """Run `work` in a thread, and restart all workers when one is lost: the libraries do not notice it every time."""
    import distributed

    topic, addresses = stopping.topic, stopping.addresses
    earlier_futures = set(client.futures)
    outcome: Future[TrainedBooster] = Future()

    def do() -> None:
        try:
            outcome.set_result(work())
        except BaseException as problem:
            outcome.set_exception(problem)

    threading.Thread(target=do, daemon=True).start()
    try:
        while not outcome.done() and not _is_worker_lost(client, addresses):
            wait([outcome], timeout=0.5)
            forward()
        if outcome.done() and outcome.exception() is None:
            return outcome.result()
        # who dies takes the others' connections with it, so their errors may come first
        noticed_until = monotonic() + NOTICED_WITHIN
        while not _is_worker_lost(client, addresses) and monotonic() < noticed_until:
            sleep(0.5)
        if not _is_worker_lost(client, addresses):
            return outcome.result()  # which raises
    except BaseException:
        client.run(publish, topic, ALL_ROUNDS, ABORT, on_error="ignore")
        raise
    client.run(publish, topic, ALL_ROUNDS, ABORT, on_error="ignore")
    remaining = sorted(set(addresses) & set(client.nthreads()))
    with suppress(ValueError, TimeoutError):  # without nannies they cannot be restarted
        client.restart_workers(remaining, timeout=WORKERS_WITHIN, raise_for_error=False)
    client.cancel([distributed.Future(key, client) for key in set(client.futures) - earlier_futures])
    return None


def _is_worker_lost(client: Any, addresses: Sequence[str]) -> bool:
    return not set(client.nthreads()).issuperset(addresses)


def _arrays_of_workers(
    client: Any, stopping: SharedStopping, columns: list[Any], training: Training
) -> WorkerArrays:
    """Return the rows that the workers prepared, as arrays; nothing but their sizes comes here."""
    import dask.array
    from dask import delayed

    sizes = [
        client.submit(_n_rows_and_queries, columns_of_worker, **_pinned_to(address))
        for columns_of_worker, address in zip(columns, stopping.addresses, strict=True)
    ]
    shapes = client.gather(sizes)

    def array(name: str, dtype: Any, per_query: bool = False, width: int | None = None) -> Any:
        pieces = []
        for columns_of_worker, address, (n_rows, n_queries) in zip(
            columns, stopping.addresses, shapes, strict=True
        ):
            piece = client.submit(dict.__getitem__, columns_of_worker, name, **_pinned_to(address))
            length = n_queries if per_query else n_rows
            shape = (length,) if width is None else (length, width)
            pieces.append(dask.array.from_delayed(delayed(piece), shape=shape, dtype=dtype))
        return dask.array.concatenate(pieces)

    weighted = training.train.weights_of_rows() is not None
    return WorkerArrays(
        client,
        stopping,
        array("features", np.float32, width=training.train.n_features),
        array("labels", np.float64),
        array("queries", np.uint32),
        array("sizes", np.int64, per_query=True),
        array("weights", np.float64) if weighted else None,
    )


def _n_rows_and_queries(columns: Mapping[str, Any]) -> tuple[int, int]:
    return len(columns["labels"]), len(columns["sizes"])


def _pinned_to(address: str) -> dict[str, Any]:
    return {"workers": [address], "allow_other_workers": False, "pure": False}


# --- what happens on the workers ---


def _columns(rows: RankingDataset, prepared: Prepare, first: int, newest: float | None) -> dict[str, Any]:
    part = prepared(rows)
    sizes = part.groups.sizes
    return {
        "features": np.asarray(part.features),
        "labels": part.labels,
        "queries": np.repeat(np.arange(first, first + part.n_queries, dtype=np.uint32), sizes),
        "sizes": sizes[part.groups.has_rows],
        "weights": part.weights_of_rows(newest),
    }
