"""Search with Optuna, which goes on after a kill as if nothing had happened.

Optuna keeps the trials, in a journal or an SQLite file. Every question is put to a sampler of its own, seeded by the
number of trials asked for so far: what comes next depends on the trials before it and on nothing else, so a search that
was killed and goes on tries what an undisturbed one would have tried. A trial that was cut off is tried again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ltr_harness.boosting.stopping import StoppingRule
from ltr_harness.config.search import TuneConfig
from ltr_harness.config.space import Range
from ltr_harness.errors import HarnessError, MissingExtraError, Problem, TrainingError
from ltr_harness.experiment.job import Study
from ltr_harness.files import write_stored
from ltr_harness.runs.identity import package_versions
from ltr_harness.runs.record import STUDY, StudyRecord, Trial, read_study, used_up
from ltr_harness.wording import count_of

if TYPE_CHECKING:
    import optuna


FILES = {"journal": "journal.log", "sqlite": "study.db"}
LOCK = "lock"


@contextmanager
def locked(study: Study) -> Iterator[None]:
    """A lock of the operating system's on the search's folder; it ends with the process, however that ends.

    Raises:
        TrainingError: another process has it.
    """
    from filelock import FileLock, Timeout

    try:
        with FileLock(study.folder / LOCK, timeout=0):
            yield
    except Timeout:
        raise TrainingError(
            f"{study} is being tuned by another process in {study.folder}; run the same command again once that "
            "has ended"
        ) from None


def repair_journal(journal: Path) -> None:
    """What a process that was killed or a power cut left: a lock that nobody holds, half a line, foreign bytes.

    What comes next depends on the trials before it alone, so those that stood behind are found again.
    """
    lock = journal.with_name(f"{journal.name}.lock")
    if lock.is_symlink() or lock.exists():
        lock.unlink()
    if journal.is_file():
        *lines, rest = journal.read_bytes().split(b"\n")
        whole = list(takewhile(_is_entry, lines))
        if rest or len(whole) < len(lines):
            os.truncate(journal, sum(len(line) + 1 for line in whole))


def _is_entry(line: bytes) -> bool:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(entry, dict) and isinstance(entry.get("op_code"), int) and "worker_id" in entry


def is_damage(problem: Exception) -> bool:
    """Not a full disk, a lock of somebody else's or a folder that cannot be read: those pass."""
    from sqlalchemy.exc import OperationalError

    return not isinstance(problem, OSError | OperationalError | HarnessError)


log = logging.getLogger(__name__)

WARM_UP_TRIALS = 5
"""Trials that the median is taken of before it ends any."""
_LONGEST = 1000  # characters of an error: SQLite's storage takes 2,046
KILLS = 3
"""Times that a point may take its process down before it counts as failed."""


ShouldPrune = Callable[[int, float], bool]
"""Told a step and the best value so far; True ends the trial."""


@dataclass(frozen=True)
class AskedTrial:
    """A trial that is to be made."""

    id: int  # id, number: Optuna's
    number: int
    point: Mapping[str, Any]  # option to value

    @contextmanager
    def pruning(self, study: Study, tune: TuneConfig, stopping: StoppingRule | None) -> Iterator[ShouldPrune]:
        """What the trial is asked after a step, in whatever process it runs."""
        if tune.pruner == "none":
            yield lambda step, value: False
            return
        import optuna

        warm_up = stopping.patience if stopping is not None and tune.inner_folds is None else 0
        pruner = optuna.pruners.MedianPruner(WARM_UP_TRIALS, warm_up)
        storage = _storages.get(study.folder) or _storage(study, tune)
        watched = optuna.load_study(study_name=str(study), storage=storage, pruner=pruner)
        trial = optuna.trial.Trial(watched, self.id)

        def should_prune(step: int, value: float) -> bool:
            trial.report(value, step)
            return trial.should_prune()

        yield should_prune


class Search:
    """An open search: the only one that asks and tells, whoever makes the trials."""

    def __init__(self, study: Study, tune: TuneConfig) -> None:
        self.study = study
        self._tune = tune
        self._optuna = _study(study, tune)
        self._running: dict[int, optuna.Trial] = {}
        self._space = {option: _distribution(values) for option, values in tune.space(study.model).items()}

    @property
    def n_running(self) -> int:
        return len(self._running)

    @property
    def used_up(self) -> bool:
        """Whether the budget pays for no further trial."""
        over = self._over()
        seconds = sum(trial.user_attrs["seconds"] for trial in over)
        return used_up(len(over) + len(self._running), seconds, self._tune.trials, self._tune.minutes)

    def ask(self) -> AskedTrial:
        """The next trial."""
        n_asked = len(self._over()) + len(self._running)
        text = f"{self._tune.seed} {n_asked}".encode()
        self._optuna.sampler = _sampler(
            self._tune, int.from_bytes(hashlib.sha256(text).digest()[:4], "big") >> 1
        )
        trial = self._optuna.ask(self._space)
        self._running[trial.number] = trial
        return AskedTrial(trial._trial_id, trial.number, dict(trial.params))

    def tell(self, asked: AskedTrial, outcome: Trial) -> Trial:
        """Take in what became of a trial, and write it down."""
        from optuna.trial import TrialState

        trial = self._running.pop(asked.number)
        kept = outcome.model_copy(update={"error": outcome.error and outcome.error[:_LONGEST]})
        for name in ("value", "best_round", "rounds_trained", "error", "seconds"):
            trial.set_user_attr(name, getattr(kept, name))
        if outcome.status == "complete":
            self._optuna.tell(trial, outcome.value)
        else:
            ending = TrialState.PRUNED if outcome.status == "pruned" else TrialState.FAIL
            self._optuna.tell(trial, state=ending)
        record = self.write()
        return next(
            one for one, kept in zip(record.trials, self._over(), strict=True) if kept.number == asked.number
        )

    def write(self) -> StudyRecord:
        """Put what has been tried beside Optuna's storage, for those who read it without Optuna."""
        record = self.record()
        write_stored(self.study.folder / STUDY, f"{record.model_dump_json(indent=2)}\n".encode())
        return record

    def record(self) -> StudyRecord:
        """Everything that has been tried."""
        over = self._over()
        return StudyRecord(
            model=self.study.model,
            fold=self.study.fold,
            identity=self.study.identity,
            metric=str(self.study.metric),
            higher_is_better=self.study.metric.higher_is_better,
            space=self._tune.plain_space(self.study.model),
            sampler=self._tune.sampler,
            pruner=self._tune.pruner,
            inner_folds=self._tune.inner_folds,
            seed=self._tune.seed,
            trials=[_as_trial(number, trial) for number, trial in enumerate(over)],
            importance=self._importance() if self.used_up else {},
            environment=package_versions(("ltr-harness", "optuna")),
        )

    def _importance(self) -> dict[str, float]:
        """Which options decide the value, by PED-ANOVA: how far the better trials' values are from all trials'."""
        import optuna

        with suppress(ValueError, RuntimeError), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # too few trials, values that are all the same, "experimental"
            evaluator = optuna.importance.PedAnovaImportanceEvaluator()
            shares = optuna.importance.get_param_importances(self._optuna, evaluator=evaluator)
            return {option: float(share) for option, share in shares.items()}
        return {}

    def _over(self) -> list[optuna.trial.FrozenTrial]:
        """Trials that came to an end of their own, in the order in which they began."""

        def over(trial: optuna.trial.FrozenTrial) -> bool:
            attributes = trial.user_attrs
            own = "killed" not in attributes or attributes.get("error")
            return trial.state.is_finished() and "seconds" in attributes and bool(own)

        return [trial for trial in self._optuna.get_trials(deepcopy=False) if over(trial)]

    def clear_up(self) -> None:
        """What killed processes left running will not go on."""
        from optuna.trial import TrialState

        trials = self._optuna.get_trials(deepcopy=False)
        killed = [trial.params for trial in trials if "killed" in trial.user_attrs]
        for trial in trials:
            if not trial.state.is_finished():
                attributes: dict[str, Any] = {"killed": True}
                if killed.count(trial.params) + 1 >= KILLS:
                    said = f"its process was killed {KILLS} times while it was training, for want of memory perhaps"
                    attributes |= {"seconds": 0.0, "error": said}
                self._end(trial._trial_id, trial.number, attributes, TrialState.FAIL)

    def killed(self) -> None:
        """The process that made the running trials is gone: they are left for `clear_up`, which counts that."""
        self._running.clear()

    def interrupted(self) -> None:
        """Trials still running are given up: they are tried again another time."""
        from optuna.trial import TrialState

        for trial in self._running.values():
            self._end(trial._trial_id, trial.number, {"interrupted": True}, TrialState.FAIL)
        self._running.clear()

    def _end(self, id_: int, number: int, attributes: Mapping[str, Any], state: Any) -> None:
        for name, value in attributes.items():
            self._optuna._storage.set_trial_user_attr(id_, name, value)
        self._optuna.tell(number, state=state)


def _as_trial(number: int, trial: optuna.trial.FrozenTrial) -> Trial:
    attributes = trial.user_attrs
    return Trial(
        number=number,
        status=_STATUS.get(trial.state.name, "failed"),
        point=trial.params,
        value=attributes.get("value"),
        best_round=attributes.get("best_round"),
        rounds_trained=attributes.get("rounds_trained"),
        seconds=attributes["seconds"],
        error=attributes.get("error"),
    )


_STATUS: dict[str, Literal["complete", "pruned"]] = {"COMPLETE": "complete", "PRUNED": "pruned"}


@contextmanager
def opened(
    study: Study, tune: TuneConfig, stopping: StoppingRule | None, *, restart: bool = False
) -> Iterator[Search]:
    """A search, with the trials it has; another process that wants it too is refused until this one has ended.

    Raises:
        MissingExtraError: Optuna is not installed.
        TrainingError: another process is making it.
    """
    require_optuna()
    study.folder.mkdir(parents=True, exist_ok=True)
    for path in (study.folder / name for name in (LOCK, *FILES.values())):
        if path.is_symlink() or (path.exists() and not path.is_file()):
            path.unlink()  # else what it leads to would be cut, or a pipe waited for
    with locked(study):
        if restart:
            for path in study.folder.iterdir():
                if path.name != LOCK:
                    path.unlink()
        repair_journal(study.folder / FILES["journal"])
        try:
            search = _resumed(study, tune)
        except Exception as problem:  # whatever Optuna and its database make of a damaged file
            if not is_damage(problem):
                raise
            path = study.folder / FILES[tune.storage]
            path.replace(path.with_name(f"{path.name}.damaged"))
            log.warning("%s is damaged (%s): it is put aside", path, problem)
            search = _resumed(study, tune)
        try:
            yield search
        finally:
            search.interrupted()
            del _storages[study.folder]


def _resumed(study: Study, tune: TuneConfig) -> Search:
    known = read_study(study.folder)
    search = Search(study, tune)
    search.clear_up()
    record = search.write()  # a kill may have come between a trial's end and this
    lost = 0 if known is None else len(known.trials) - len(record.trials)
    if lost > 0:
        log.warning(
            "%s: %s lost from %s: made again", study.folder, count_of(lost, "trial"), FILES[tune.storage]
        )
    return search


def require_optuna() -> None:
    """Raises MissingExtraError where Optuna is not installed."""
    try:
        import optuna  # noqa: F401
    except ImportError:
        raise MissingExtraError(
            Problem("", "`tune` needs the package optuna", cure="pip install 'ltr-harness[tune]'")
        ) from None


def _study(study: Study, tune: TuneConfig) -> optuna.Study:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)  # it announces every study
    return optuna.create_study(
        storage=_storage(study, tune),
        study_name=str(study),
        direction="maximize" if study.metric.higher_is_better else "minimize",
        pruner=optuna.pruners.NopPruner(),
        load_if_exists=True,
    )


_storages: dict[Path, Any] = {}
"""Of the searches' folders that this process works on: what has been read is not read again for each trial."""


def _storage(study: Study, tune: TuneConfig) -> Any:
    """Optuna's storage, read again."""
    import optuna
    from optuna.storages.journal import JournalFileBackend

    path = study.folder / FILES[tune.storage]
    _storages[study.folder] = (
        optuna.storages.JournalStorage(JournalFileBackend(str(path)))
        if tune.storage == "journal"
        else optuna.storages.RDBStorage(f"sqlite:///{path}")
    )
    return _storages[study.folder]


def _sampler(tune: TuneConfig, seed: int) -> optuna.samplers.BaseSampler:
    import optuna

    if tune.sampler == "random":
        return optuna.samplers.RandomSampler(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=tune.parallel > 1)


def _distribution(values: Any) -> Any:
    from optuna import distributions

    if not isinstance(values, Range):
        return distributions.CategoricalDistribution(values)
    if values.whole:
        return distributions.IntDistribution(
            int(values.low), int(values.high), log=values.log, step=int(values.step or 1)
        )
    return distributions.FloatDistribution(
        float(values.low),
        float(values.high),
        log=values.log,
        step=None if values.step is None else float(values.step),
    )
