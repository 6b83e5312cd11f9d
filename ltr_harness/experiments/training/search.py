"""Search with Optuna, which goes on after a kill as if nothing had happened; trials run here or in processes.

Optuna keeps the trials, in a journal or an SQLite file. Every question is put to a sampler of its own, seeded by the
number of trials asked for so far: what comes next depends on the trials before it and on nothing else, so a search that
was killed and goes on tries what an undisturbed one would have tried. A trial that was cut off is tried again.
"""

import hashlib
import json
import logging
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ltr_harness._util.files import write_stored
from ltr_harness._util.text import count_of
from ltr_harness.errors import Caution, HarnessError, TrainingError, optional_module
from ltr_harness.experiments.config.tune import Range, TuneConfig
from ltr_harness.experiments.runs.identity import package_versions
from ltr_harness.experiments.runs.record import STUDY, StudyRecord, Trial, read_study, used_up
from ltr_harness.experiments.training.job import Job, SentJob, received_job
from ltr_harness.experiments.training.pool import new_pool, started, worker_context
from ltr_harness.experiments.training.trials import ShouldPrune, run_trial

if TYPE_CHECKING:
    import optuna

    from ltr_harness.experiments.training.progress import Progress


FILES = {"journal": "journal.log", "sqlite": "study.db"}
LOCK = "lock"


def repair_journal(journal: Path) -> None:
    """Remove what a kill or a power cut left, a lock, half a line, foreign bytes: lost trials are found again."""
    lock = journal.with_name(f"{journal.name}.lock")
    if lock.is_symlink() or lock.exists():
        lock.unlink()
    if journal.is_file():
        *lines, rest = journal.read_bytes().split(b"\n")
        entries = list(takewhile(_is_entry, lines))
        if rest or len(entries) < len(lines):
            os.truncate(journal, sum(len(line) + 1 for line in entries))


def _is_entry(line: bytes) -> bool:
    entry = None
    with suppress(ValueError, RecursionError):
        entry = json.loads(line)
    return isinstance(entry, dict) and isinstance(entry.get("op_code"), int) and "worker_id" in entry


log = logging.getLogger(__name__)

WARM_UP_TRIALS = 5
"""Trials that the median is taken of before it ends any."""
_LONGEST = 1000  # characters of an error: SQLite's storage takes 2,046
KEPT = ("value", "best_round", "rounds_trained", "error", "seconds")
"""What Optuna keeps of a trial's outcome besides its own."""
KILLS = 3
"""Times that a point may take its process down before it counts as failed."""


@dataclass(frozen=True)
class AskedTrial:
    """A trial that is to be made."""

    id: int  # id, number: Optuna's
    number: int
    point: Mapping[str, Any]  # option to value

    def pruning(self, job: Job, study: StudyRecord) -> ShouldPrune:
        """Return the function that decides after each step, in whatever process, whether the trial is pruned."""
        tune, folder = job.tune, job.folder_of(study)
        if tune.pruner == "none":
            return lambda step, value: False
        import optuna

        warm_up = job.stopping.patience if job.stopping is not None and tune.inner_folds is None else 0
        pruner = optuna.pruners.MedianPruner(WARM_UP_TRIALS, warm_up)
        storage = _storages.get(folder) or _storage(folder, tune)
        watched = optuna.load_study(study_name=str(study), storage=storage, pruner=pruner)
        trial = optuna.trial.Trial(watched, self.id)

        def should_prune(step: int, value: float) -> bool:
            trial.report(value, step)
            return trial.should_prune()

        return should_prune


class Search:
    """An open search: the only one that asks and tells, whoever makes the trials."""

    def __init__(self, job: Job, study: StudyRecord) -> None:
        self.study = study
        self.folder = job.folder_of(study)
        self._tune = tune = job.tune
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)  # it announces every study
        self._optuna = optuna.create_study(
            storage=_storage(self.folder, tune),
            study_name=str(study),
            direction="maximize" if study.higher_is_better else "minimize",
            pruner=optuna.pruners.NopPruner(),
            load_if_exists=True,
        )
        self._running: dict[int, optuna.Trial] = {}
        self._space = {option: _distribution(values) for option, values in tune.space(study.model).items()}

    @property
    def n_running(self) -> int:
        return len(self._running)

    @property
    def used_up(self) -> bool:
        """True where the budget pays for no further trial."""
        over = self._over()
        seconds = sum(trial.user_attrs["seconds"] for trial in over)
        return used_up(len(over) + len(self._running), seconds, self._tune.trials, self._tune.minutes)

    def ask(self) -> AskedTrial:
        """The next trial."""
        import optuna

        n_asked = len(self._over()) + len(self._running)
        digest = hashlib.sha256(f"{self._tune.seed} {n_asked}".encode()).digest()
        seed, liar = int.from_bytes(digest[:4], "big") >> 1, self._tune.parallel > 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            self._optuna.sampler = (
                optuna.samplers.RandomSampler(seed)
                if self._tune.sampler == "random"
                else optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=liar)
            )
        trial = self._optuna.ask(self._space)
        self._running[trial.number] = trial
        return AskedTrial(trial._trial_id, trial.number, dict(trial.params))

    def tell(self, asked_trial: AskedTrial, outcome: Trial) -> Trial:
        """Take in what became of a trial, and write it down."""
        from optuna.trial import TrialState

        trial = self._running.pop(asked_trial.number)
        stored_trial = outcome.model_copy(update={"error": outcome.error and outcome.error[:_LONGEST]})
        for name in KEPT:
            trial.set_user_attr(name, getattr(stored_trial, name))
        if outcome.status == "complete":
            self._optuna.tell(trial, outcome.value)
        else:
            ending = TrialState.PRUNED if outcome.status == "pruned" else TrialState.FAIL
            self._optuna.tell(trial, state=ending)
        record = self.write()
        return next(
            recorded
            for recorded, stored_trial in zip(record.trials, self._over(), strict=True)
            if stored_trial.number == asked_trial.number
        )

    def write(self) -> StudyRecord:
        """Put what has been tried beside Optuna's storage, for those who read it without Optuna."""
        trials = []
        for number, frozen_trial in enumerate(self._over()):
            fields: dict[str, Any] = {name: frozen_trial.user_attrs.get(name) for name in KEPT}
            fields["status"] = _STATUS.get(frozen_trial.state.name, "failed")
            trials.append(Trial(number=number, point=frozen_trial.params, **fields))
        importance = self._importance() if self.used_up else {}
        record = self.study.model_copy(
            update={
                "trials": trials,
                "importance": importance,
                "environment": package_versions(("ltr-harness", "optuna")),
            }
        )
        write_stored(self.folder / STUDY, f"{record.model_dump_json(indent=2)}\n".encode())
        return record

    def _importance(self) -> dict[str, float]:
        """Return the options' shares in the value, by PED-ANOVA: how far better trials' values are from all."""
        import optuna

        with suppress(ValueError, RuntimeError), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # too few trials, values that are all the same, "experimental"
            evaluator = optuna.importance.PedAnovaImportanceEvaluator()
            shares = optuna.importance.get_param_importances(self._optuna, evaluator=evaluator)
            return {option: float(share) for option, share in shares.items()}
        return {}

    def _over(self) -> "list[optuna.trial.FrozenTrial]":
        """Trials that came to an end of their own, in the order in which they began."""
        return [
            trial
            for trial in self._optuna.get_trials(deepcopy=False)
            if trial.state.is_finished() and "seconds" in (user_attributes := trial.user_attrs)
            if "killed" not in user_attributes or user_attributes.get("error")
        ]

    def clear_up(self) -> None:
        """Close the trials that killed processes left running, which will not go on."""
        trials = self._optuna.get_trials(deepcopy=False)
        killed = [trial.params for trial in trials if "killed" in trial.user_attrs]
        for trial in trials:
            if not trial.state.is_finished():
                attributes: dict[str, Any] = {"killed": True}
                if killed.count(trial.params) + 1 >= KILLS:
                    error = f"its process was killed {KILLS} times in training, perhaps for lack of memory"
                    attributes |= {"seconds": 0.0, "error": error}
                self._fail(trial, attributes)

    def killed(self) -> None:
        """The process that made the running trials is gone: they are left for `clear_up`, which counts that."""
        self._running.clear()

    def interrupted(self) -> None:
        """Trials still running are given up: they are tried again another time."""
        for trial in self._running.values():
            self._fail(trial, {"interrupted": True})
        self._running.clear()

    def _fail(self, trial: Any, attributes: Mapping[str, Any]) -> None:
        from optuna.trial import TrialState

        for name, value in attributes.items():
            self._optuna._storage.set_trial_user_attr(trial._trial_id, name, value)
        self._optuna.tell(trial.number, state=TrialState.FAIL)


_STATUS = {"COMPLETE": "complete", "PRUNED": "pruned"}


@contextmanager
def opened(job: Job, study: StudyRecord, *, restart: bool = False) -> Iterator[Search]:
    """A search, with the trials it has; another process that wants it too is refused until this one has ended."""
    require_optuna()
    from filelock import FileLock, Timeout

    folder = job.folder_of(study)
    folder.mkdir(parents=True, exist_ok=True)
    for path in (folder / name for name in (LOCK, *FILES.values())):
        if path.is_symlink() or (path.exists() and not path.is_file()):
            path.unlink()  # else what it leads to would be cut, or a pipe waited for
    try:  # a lock of the operating system's: it ends with the process, however that ends
        lock = FileLock(folder / LOCK, timeout=0).acquire()
    except Timeout:
        raise TrainingError(
            f"{study} is being tuned by another process in {folder}; run the same command again when that has ended"
        ) from None
    with lock:
        if restart:
            for path in folder.iterdir():
                if path.name != LOCK:
                    path.unlink()
        search = _resumed(job, study)
        try:
            yield search
        finally:
            search.interrupted()
            _close(_storages.pop(folder))


def _resumed(job: Job, study: StudyRecord) -> Search:
    from sqlalchemy.exc import OperationalError

    folder, name = job.folder_of(study), FILES[job.tune.storage]
    repair_journal(folder / FILES["journal"])
    record = read_study(folder)

    def begin() -> tuple[Search, int]:
        search = Search(job, study)
        search.clear_up()
        return search, len(search.write().trials)  # a kill may have come between a trial's end and this

    try:
        search, n_trials = begin()
    except (OSError, OperationalError, HarnessError):  # a full disk, somebody else's lock: that passes
        raise
    except Exception as problem:  # whatever Optuna and its database make of a damaged file
        (folder / name).replace(folder / f"{name}.damaged")
        log.warning(
            Caution("damaged-file", "warning", f"{folder / name} is damaged ({problem}): it is set aside")
        )
        search, n_trials = begin()
    n_lost = 0 if record is None else len(record.trials) - n_trials
    if n_lost > 0:
        text = f"{count_of(n_lost, 'trial')} lost from {name} and repeated"
        log.warning(Caution("lost-trials", "note", text, place=str(folder)))
    return search


def require_optuna() -> None:
    """Raises MissingExtraError where Optuna is not installed."""
    optional_module("optuna", "`tune` needs the package optuna", "tune")


_storages: dict[Path, Any] = {}
"""Of the searches' folders that this process works on: what has been read is not read again for each trial."""


def _storage(folder: Path, tune: TuneConfig) -> Any:
    import optuna
    from optuna.storages.journal import JournalFileBackend

    path = folder / FILES[tune.storage]
    _storages[folder] = (
        optuna.storages.JournalStorage(JournalFileBackend(str(path)))
        if tune.storage == "journal"
        else optuna.storages.RDBStorage(f"sqlite:///{path}")
    )
    return _storages[folder]


def _close(storage: Any) -> None:
    """Close the connections of a database, which would stay open until they are collected as garbage."""
    storage.remove_session()
    engine = getattr(storage, "engine", None)
    if engine is not None:
        engine.dispose()


def _distribution(values: Any) -> Any:
    from optuna import distributions

    if not isinstance(values, Range):
        return distributions.CategoricalDistribution(values)
    number: Any = int if values.is_integer else float
    kind: Any = distributions.IntDistribution if values.is_integer else distributions.FloatDistribution
    step = {} if values.step is None else {"step": number(values.step)}
    return kind(number(values.low), number(values.high), log=values.log, **step)


def tune(job: Job, progress: "Progress") -> None:
    """Use up the budgets of open searches; what a search finds does not depend on the number of workers."""
    with ExitStack() as stack:
        searches = [stack.enter_context(opened(job, study, restart=job.force)) for study in job.open_studies]
        workers = 1 if job.cluster else min(job.workers, len(searches) * job.tune.parallel)
        pool = new_pool(workers, worker_context()) if workers > 1 else None
        if pool is not None:
            stack.enter_context(started([pool]))
        for search in searches:
            progress.tuning(search.study)
        for search, asked_trial, outcome in _trials(job, searches, pool, workers):
            progress.trial_ended(search.study, search.tell(asked_trial, outcome))


def _next_search(searches: Sequence[Search], parallel: int) -> Search | None:
    """Return the search with the fewest running trials among those that may run another."""
    ready = [search for search in searches if search.n_running < parallel and not search.used_up]
    return min(ready, key=lambda search: search.n_running, default=None)


def _trials(
    job: Job, searches: Sequence[Search], pool: Executor | None, workers: int
) -> Iterator[tuple[Search, AskedTrial, Trial]]:
    running: dict[Future[Trial], tuple[Search, AskedTrial]] = {}
    sent_job = job.sent_job()
    try:
        while True:
            while len(running) < workers:
                search = _next_search(searches, job.tune.parallel)
                if search is None:
                    break
                asked_trial = search.ask()
                future: Future[Trial] = Future()
                if pool is None:
                    future.set_result(_run(job, search.study, asked_trial))
                else:
                    future = pool.submit(_run_in_worker, sent_job, search.study, asked_trial)
                running[future] = (search, asked_trial)
            if not running:
                return
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                search, asked_trial = running.pop(future)
                yield search, asked_trial, future.result()
    except BrokenProcessPool:
        names = ", ".join(sorted({str(search.study) for search, _ in running.values()}))
        for search, _ in running.values():
            search.killed()
        raise TrainingError(
            f"a worker process died while tuning {names} (killed, or out of memory); finished trials are kept: run the "
            "same command again, with fewer --workers if memory was short"
        ) from None


def _run_in_worker(sent_job: SentJob, study: StudyRecord, asked_trial: AskedTrial) -> Trial:
    return _run(received_job(sent_job), study, asked_trial)


def _run(job: Job, study: StudyRecord, asked_trial: AskedTrial) -> Trial:
    fold, should_prune = job.fold_of(study.model, study.fold), asked_trial.pruning(job, study)
    return run_trial(job, study.model, asked_trial.number, asked_trial.point, fold, should_prune)
