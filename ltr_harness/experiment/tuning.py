"""Tuning: trials run here or in processes until every budget is used up; each trains at a point of the space."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ltr_harness.boosting.stopping import Stopper, StoppingRule
from ltr_harness.config.experiment import Holdout, ModelConfig
from ltr_harness.config.point import model_at
from ltr_harness.config.search import TuneConfig
from ltr_harness.dataset import RankingDataset
from ltr_harness.errors import DataError, HarnessError, TrainingError
from ltr_harness.experiment.folds import Fold
from ltr_harness.experiment.job import Job, SerializedJob, Study
from ltr_harness.experiment.pool import (
    new_pool,
    shutdown_in_background,
    terminate,
    wait_for_start,
    worker_context,
)
from ltr_harness.experiment.search import AskedTrial, Search, ShouldPrune, opened
from ltr_harness.metrics import Metric, bind
from ltr_harness.rankers.ranker import FittedModel, Training
from ltr_harness.runs.record import Trial
from ltr_harness.splits import folds

if TYPE_CHECKING:
    from ltr_harness.experiment.progress import Progress


CHECKPOINTS = 25
"""How often, at most, a trial asks whether it may go on: asking every round costs as much as a small tree."""

_Judged = tuple[float, dict[str, Any]]  # value; best round and rounds trained, where there is one training


class Pruned(Exception):  # noqa: N818 - it is none
    """Ends a training that is not worth going on with; no error."""

    def __init__(self, value: float) -> None:
        super().__init__(value)
        self.value = value


class PruningCallback:
    """Follows a training's validation history, in full precision, and asks now and then whether to go on.

    It follows the very rule that stops training, so what is compared between trials at a step is the value of the
    model that each would keep. What decides is the first value of every round: no name is looked for.
    """

    def __init__(
        self, metric: Metric, rule: StoppingRule | None, rounds: int, should_prune: ShouldPrune
    ) -> None:
        self._stopper = Stopper(rule or StoppingRule(metric))
        self._keeps_best = rule is not None
        self._should_prune = should_prune
        self._rounds = rounds
        self._step = max(1, -(-rounds // CHECKPOINTS))
        self._due = self._step

    def __call__(self, number: int, values: Mapping[str, float]) -> None:
        now = next(iter(values.values()))
        self._stopper.update(number, now)
        value = self._stopper.best_value if self._keeps_best else now
        while number >= self._due:
            step, self._due = self._due, self._due + self._step
            if self._should_prune(step, value):
                raise Pruned(value)

    def finished(self, value: float) -> None:
        """Training has ended by itself: later trials are held against the model it kept, at every later step."""
        for step in range(self._due, self._rounds + 1, self._step):
            self._should_prune(step, value)


def run_trial(job: Job, model: str, asked: AskedTrial, fold: Fold, should_prune: ShouldPrune) -> Trial:
    """Train and judge one point; nothing here sees the fold's test split."""
    started = time.perf_counter()

    def over(
        status: Literal["complete", "pruned", "failed"], value: float | None = None, **more: Any
    ) -> Trial:
        seconds = time.perf_counter() - started
        point = dict(asked.point)
        return Trial(number=asked.number, status=status, point=point, value=value, seconds=seconds, **more)

    try:
        config = model_at(job.experiment.models[model], asked.point)
        judge = _on_validation if _tune(job).inner_folds is None else _on_inner_folds
        value, rounds = judge(job, config, fold, should_prune)
        if np.isnan(value):
            raise DataError(f"{job.decisive} is undefined: no query that counts has a relevant document")
    except Pruned as pruned:
        return over("pruned", value=pruned.value)
    except Exception as problem:
        # one point's failure, whatever it is, must not cost the others
        text = str(problem) if isinstance(problem, HarnessError) else f"{type(problem).__name__}: {problem}"
        return over("failed", error=text)
    return over("complete", value=value, **rounds)


def _tune(job: Job) -> TuneConfig:
    assert job.experiment.tune is not None  # nothing else makes trials
    return job.experiment.tune


def _on_validation(job: Job, config: ModelConfig, fold: Fold, should_prune: ShouldPrune) -> _Judged:
    assert fold.valid is not None  # checked where the experiment was built
    rounds = config.rounds or (1 if job.stopping is None else job.stopping.max_rounds)
    callback = PruningCallback(job.decisive, job.stopping, rounds, should_prune)
    fitted = _fitted(job, config, fold.train, fold.valid, callback)
    value = float(bind([job.decisive], fold.valid.judgments).means(fitted.score_split(fold.valid))[0])
    if fitted.history:
        callback.finished(value)
    return value, {"best_round": fitted.best_round, "rounds_trained": fitted.rounds_trained}


def _on_inner_folds(job: Job, config: ModelConfig, fold: Fold, should_prune: ShouldPrune) -> _Judged:
    values: list[np.ndarray[Any, np.dtype[np.float64]]] = []
    value = 0.0
    for number, (train, held) in enumerate(_inner_folds(job, fold.train), start=1):
        fitted = _fitted(job, config, train, held, None)
        values.append(bind([job.decisive], held.judgments).per_query(fitted.score_split(held))[0])
        value = _mean(np.concatenate(values))
        if number < (_tune(job).inner_folds or 0) and should_prune(number, value):
            raise Pruned(value)
    return value, {}


def _fitted(
    job: Job,
    config: ModelConfig,
    train: RankingDataset,
    valid: RankingDataset,
    callback: PruningCallback | None,
) -> FittedModel:
    return config.ranker.fit(
        Training(
            train=train,
            valid=valid,
            seed=_tune(job).seed,
            threads=job.threads,
            metrics=(job.decisive,),
            stopping=job.stopping,
            rounds=config.rounds,
            progress=callback,
        )
    )


def _inner_folds(job: Job, train: RankingDataset) -> Iterator[tuple[RankingDataset, RankingDataset]]:
    """The training queries in inner folds: each part once held out from the others."""
    tune, data = _tune(job), job.experiment.data
    assert tune.inner_folds is not None
    together = data.fold_together or next(
        (
            how.together
            for split in data.splits.values()
            for how in (split.valid, split.test)
            if isinstance(how, Holdout) and how.together
        ),
        None,
    )
    unit = None if together is None else train.query_attributes[together]
    for one, two, held in folds(train.groups, tune.inner_folds, tune.seed, together=unit):
        yield train.take(np.sort(np.concatenate([one, two]))), train.take(held)


def _mean(values: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if defined.size else float("nan")


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
            stack.enter_context(opened(study, settings, job.stopping, restart=job.force)) for study in studies
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
