"""Searches made: which trials run where and when, until every budget is used up. `search` knows what to try next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from typing import Any

from ltr_harness.boosting.stopping import StoppingRule
from ltr_harness.config import as_mapping, load_experiment
from ltr_harness.config.experiment import Experiment
from ltr_harness.errors import TrainingError
from ltr_harness.experiment.facts import other_than, refuse_changed
from ltr_harness.experiment.folds import Fold, FoldReader
from ltr_harness.experiment.pool import let_go, new_pool, stop, wait_for_start, worker_context
from ltr_harness.experiment.progress import Progress
from ltr_harness.experiment.search import Asked, Search, opened
from ltr_harness.experiment.studies import Study
from ltr_harness.experiment.task import Plan
from ltr_harness.experiment.trial import Outcome, run_trial


def tune(
    plan: Plan,
    experiment: Experiment,
    reader: FoldReader,
    *,
    threads: int,
    workers: int,
    progress: Progress,
    anew: bool = False,
) -> None:
    """Use up the budgets of all open searches; what they found is in their folders.

    A search tries one point after the other unless `tune.parallel` says otherwise, so what it finds does not depend on
    the number of workers: those work on different searches.

    Args:
        plan: of the experiment.
        experiment: resolved.
        reader: its data.
        threads: of a trial.
        workers: processes; 1 trains in this one.
        progress: told of every trial.
        anew: forget the trials there are.

    Raises:
        MissingExtraError: Optuna is not installed.
        TrainingError: a worker died.
    """
    tune_ = experiment.tune
    assert tune_ is not None
    with ExitStack() as stack:
        searches = [
            stack.enter_context(opened(study, tune_, plan.stopping, anew=anew)) for study in plan.open_studies
        ]
        workers = min(workers, len(searches) * tune_.parallel)
        pool = (
            stack.enter_context(_pool(workers, experiment, plan, threads))
            if workers > 1
            else _Here(experiment, plan, reader, threads)
        )
        for search in searches:
            progress.tuning(search.study)
        for search, asked, outcome in _trials(searches, tune_.parallel, pool, workers):
            progress.tried(search.study, search.tell(asked, outcome))


def _trials(
    searches: Sequence[Search], parallel: int, pool: Executor, workers: int
) -> Iterator[tuple[Search, Asked, Outcome]]:
    running: dict[Future[Outcome], tuple[Search, Asked]] = {}
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


class _Here(Executor):
    """This process, as if it were a pool: a trial is over when it is handed in."""

    def __init__(self, experiment: Experiment, plan: Plan, reader: FoldReader, threads: int) -> None:
        self._parts = (experiment, plan.stopping, reader, threads)

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(_run(*self._parts, *args))
        return future


_worker: tuple[Experiment, StoppingRule | None, FoldReader, int] | None = None
_changed: list[str] = []


@contextmanager
def _pool(workers: int, experiment: Experiment, plan: Plan, threads: int) -> Iterator[Executor]:
    settings = (as_mapping(experiment), plan.stopping, threads, plan.files)
    pool = new_pool(workers, worker_context(), _start, settings)
    try:
        wait_for_start([pool])
        yield pool
    except BaseException:  # Ctrl-C, or a defect
        stop(pool)
        raise
    finally:
        let_go(pool)


def _start(
    settings: Mapping[str, Any], stopping: StoppingRule | None, threads: int, files: Mapping[str, str]
) -> None:
    global _worker, _changed
    _changed = other_than(files)
    if not _changed:
        experiment = load_experiment(settings, check_rankers=False)
        _worker = (experiment, stopping, FoldReader(experiment.data), threads)


def _try(study: Study, asked: Asked) -> Outcome:
    refuse_changed(_changed)
    assert _worker is not None
    return _run(*_worker, study, asked)


def _run(
    experiment: Experiment,
    stopping: StoppingRule | None,
    reader: FoldReader,
    threads: int,
    study: Study,
    asked: Asked,
) -> Outcome:
    fold: Fold = reader.read(study.fold)
    assert experiment.tune is not None
    with asked.reports(study, experiment.tune, stopping) as report:
        return run_trial(experiment, study.model, asked.point, fold, study.metric, stopping, threads, report)
