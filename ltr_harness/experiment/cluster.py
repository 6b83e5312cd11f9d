"""A Dask cluster that this process may use: one that runs somewhere, or processes of this machine."""

from __future__ import annotations

import atexit
import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from ltr_harness.config.experiment import Experiment, ModelConfig
from ltr_harness.cores import available_cores
from ltr_harness.errors import MAIN_GUARD, MissingExtraError, Problem, UsageError
from ltr_harness.experiment.pool import isolated, worker_context
from ltr_harness.rankers.boosted import DataParallelRanker

CONNECT_WITHIN = 10
"""Seconds a scheduler has to answer."""
FIRST_WORKER_WITHIN = 60
"""Seconds the first worker has to appear."""

_LOCAL = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "5s",
}
"""Dask's settings of a local cluster. By default two idle workers take a tenth of a core, to watch themselves."""


@dataclass(frozen=True, eq=False)
class Cluster:
    """A connected cluster."""

    client: Any
    threads: int  # of each run: what the smallest worker has
    n_workers: int  # when it was connected; workers that come later are used too


@contextmanager
def chosen_cluster(workers: int | str | None, dask: str | None) -> Iterator[Cluster | None]:
    """The cluster that ``dask:N`` workers or a scheduler's address asks for; None where neither does.

    Raises:
        UsageError: both are given, or `workers` is neither a number nor ``dask:N``; see also below.
    """
    n_local = local_size(workers) if isinstance(workers, str) else None
    if dask is not None and isinstance(workers, str):
        raise UsageError(f"both --dask {dask} and --workers {workers} are given; expected one of the two")
    if dask is not None:
        with cluster_at(dask) as cluster:
            yield cluster
    elif n_local is not None:
        with local_cluster(n_local) as cluster:
            yield cluster
    else:
        yield None


def local_size(workers: str) -> int:
    """N of ``dask:N``.

    Example:
        >>> local_size("dask:4")
        4

    Raises:
        UsageError: anything else.
    """
    head, _, number = workers.partition(":")
    if head != "dask" or not (number.isascii() and number.isdigit()) or int(number) < 1:
        raise UsageError(
            f"workers {workers!r}; expected a number >= 1, or dask:N for a local Dask cluster of N"
        )
    return int(number)


def across_all(experiment: Experiment, cluster: Cluster) -> Experiment:
    """The experiment with the number of workers said wherever a model is to be trained across all of them."""
    models = {
        name: config.model_copy(update={"ranker": config.ranker.across(cluster.n_workers)})
        if isinstance(config.ranker, DataParallelRanker)
        else config
        for name, config in experiment.models.items()
    }
    return experiment.model_copy(update={"models": models})


def refuse_without_cluster(experiment: Experiment, cluster: Cluster | None) -> None:
    """Raises UsageError where models are to be trained across workers that are not there."""
    problems = [
        Problem(
            f"models.{name}.data_parallel",
            "needs a Dask cluster",
            cure="add --dask ADDRESS or --workers dask:N",
        )
        for name, config in experiment.models.items()
        if cluster is None and is_data_parallel(config)
    ]
    if problems:
        raise UsageError(problems)


def is_data_parallel(config: ModelConfig) -> bool:
    """Whether a model is trained across the cluster's workers instead of on one of them."""
    return isinstance(config.ranker, DataParallelRanker) and bool(config.ranker.data_parallel)


@contextmanager
def cluster_at(address: str) -> Iterator[Cluster]:
    """The cluster whose scheduler is at an address such as ``tcp://host:8786``, or in a scheduler file.

    Raises:
        MissingExtraError: Dask is not installed.
        UsageError: no scheduler answers there, or it has no workers.
    """
    distributed = load_distributed()
    where = {"scheduler_file": address} if Path(address).is_file() else {"address": address}
    try:
        client = distributed.Client(**where, timeout=CONNECT_WITHIN)
    except (OSError, ValueError) as problem:  # a TimeoutError is an OSError
        raise UsageError(
            f"--dask {address}: no Dask scheduler answers there ({_first_line(problem)}); expected an address "
            "such as tcp://host:8786, or a scheduler file"
        ) from None
    with client:
        yield _connected(client, address)


@contextmanager
def local_cluster(n_workers: int) -> Iterator[Cluster]:
    """A cluster of so many processes on this machine, gone at the end.

    Raises:
        MissingExtraError: Dask is not installed.
        UsageError: the processes cannot be started.
    """
    distributed = load_distributed()
    # until the end: a worker that dies is replaced
    with isolated(), _local_settings(), _loop_without_interrupts() as loop:
        try:
            processes = distributed.LocalCluster(
                loop=loop,
                n_workers=n_workers,
                threads_per_worker=max(1, available_cores() // n_workers),
                dashboard_address="127.0.0.1:0",  # whichever port is free
                silence_logs=logging.CRITICAL,  # a lost worker is told of here
            )
        except (RuntimeError, OSError) as problem:
            raise UsageError(
                f"--workers dask:{n_workers}: cannot be started ({_first_line(problem)}); {MAIN_GUARD}"
            ) from None
        except KeyboardInterrupt:  # half a cluster cannot be closed; its processes end with this one
            atexit.unregister(distributed.deploy.spec.close_clusters)
            loop.asyncio_loop.set_exception_handler(lambda *_: None)  # nor say what did not get ready
            raise
        with processes, distributed.Client(processes) as client:
            yield _connected(client, f"dask:{n_workers}", n_workers)


@contextmanager
def _local_settings() -> Iterator[None]:
    """Processes that Dask starts within are, where the platform can, copies of one that has loaded everything."""
    import dask

    settings: dict[str, Any] = dict(_LOCAL)
    if sys.platform == "linux":
        worker_context("distributed")
        settings["distributed.worker.multiprocessing-method"] = "forkserver"
    with dask.config.set(settings):
        yield


@contextmanager
def _loop_without_interrupts() -> Iterator[Any]:
    """An event loop in a thread without Ctrl-C: processes inherit that from the thread that starts them.

    Ctrl-C is for this process alone, which ends the others; they would each print a traceback of their own.
    """
    from distributed.utils import LoopRunner

    runner = LoopRunner(asynchronous=False)
    mask = getattr(signal, "pthread_sigmask", None)  # not on Windows
    if mask:
        resource_tracker.ensure_running()  # started later, by that thread, it would unblock them again
    before = mask(signal.SIG_BLOCK, {signal.SIGINT}) if mask else None
    try:
        runner.start()  # the thread begins with the mask of this one
    finally:
        if mask:
            mask(signal.SIG_SETMASK, before)
    try:
        yield runner.loop
    finally:
        runner.stop()


def load_distributed() -> Any:
    """The package `distributed`.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import distributed
    except ImportError:
        raise MissingExtraError(
            Problem("", "a cluster needs the package distributed", cure="pip install 'ltr-harness[dask]'")
        ) from None
    return distributed


def _connected(client: Any, name: str, n_workers: int = 1) -> Cluster:
    try:
        client.wait_for_workers(n_workers, timeout=FIRST_WORKER_WITHIN)
    except TimeoutError:
        raise UsageError(
            f"--dask {name}: the scheduler has no worker after {FIRST_WORKER_WITHIN} s; expected at least one"
        ) from None
    threads = client.nthreads()
    return Cluster(client, min(threads.values()), len(threads))


def _first_line(problem: BaseException) -> str:
    return (str(problem) or type(problem).__name__).splitlines()[0]
