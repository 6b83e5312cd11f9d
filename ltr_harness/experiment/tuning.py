"""Tuning: trials of all searches run here or in processes until every budget is used up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from ltr_harness.errors import TrainingError
from ltr_harness.experiment.job import Job, SerializedJob, Study
from ltr_harness.experiment.pool import (
    new_pool,
    shutdown_in_background,
    terminate,
    wait_for_start,
    worker_context,
)
from ltr_harness.experiment.search import AskedTrial, Search, opened
from ltr_harness.experiment.trial import run_trial
from ltr_harness.runs.record import Trial

if TYPE_CHECKING:
    from ltr_harness.experiment.progress import Progress


def tune(job: Job, studies: Sequence[Study], progress: Progress) -> None:
    """Use up the budgets of open searches; what they found is in their folders.

    A search tries one point after the other unless `tune.parallel` says otherwise, so what it finds does not depend on
    the number of workers: those work on different searches.

    Raises:
        MissingExtraError: Optuna is not installed.
        TrainingError: a worker died.
    """
    settings = job.experiment.tune
    assert settings is not None
    with ExitStack() as stack:
        searches = [
            stack.enter_context(opened(study, settings, job.stopping, anew=job.force)) for study in studies
        ]
        workers = 1 if job.cluster else min(job.workers, len(searches) * settings.parallel)
        pool = stack.enter_context(_process_pool(job, workers)) if workers > 1 else _ThisProcess(job)
        for search in searches:
            progress.tuning(search.study)
        for search, asked, outcome in _trials(searches, settings.parallel, pool, workers):
            progress.tried(search.study, search.tell(asked, outcome))


def _trials(
    searches: Sequence[Search], parallel: int, pool: Executor, workers: int
) -> Iterator[tuple[Search, AskedTrial, Trial]]:
    running: dict[Future[Trial], tuple[Search, AskedTrial]] = {}
    try:
        while True:
            while len(running) < workers:
                ready = [one for one in searches if one.n_running < parallel and not one.used_up]
                if not ready:
                    break
                search = min(ready, key=lambda one: one.n_running)
                asked = search.ask()
                running[pool.submit(_try, search.study, asked)] = (search, asked)
            if not running:
                return
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                search, asked = running.pop(future)
                yield search, asked, future.result()
    except BrokenProcessPool:
        lost = ", ".join(sorted({str(search.study) for search, _ in running.values()}))
        for search, _ in running.values():
            search.killed()
        raise TrainingError(
            f"a worker process died while tuning {lost} (killed, or out of memory); finished trials are kept: run the "
            "same command again, with fewer --workers if memory was short"
        ) from None


class _ThisProcess(Executor):
    """This process, as if it were a pool: a trial is over when it is handed in."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(_run(self._job, *args))
        return future


@contextmanager
def _process_pool(job: Job, workers: int) -> Iterator[Executor]:
    pool = new_pool(workers, worker_context(), _initialize, (job.serialized(),))
    try:
        wait_for_start([pool])
        yield pool
    except BaseException:  # Ctrl-C, or a defect
        terminate(pool)
        raise
    finally:
        shutdown_in_background(pool)


_job: SerializedJob


def _initialize(job: SerializedJob) -> None:
    global _job
    _job = job


def _try(study: Study, asked: AskedTrial) -> Trial:
    return _run(_job.loaded, study, asked)


def _run(job: Job, study: Study, asked: AskedTrial) -> Trial:
    assert job.experiment.tune is not None
    with asked.pruning(study, job.experiment.tune, job.stopping) as should_prune:
        return run_trial(job, study.model, asked, job.reader.read(study.fold), should_prune)
