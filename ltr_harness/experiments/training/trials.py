"""Trials of a search: a point is trained, and judged on validation data alone."""

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from ltr_harness.boosting.stopping import Stopper, StoppingRule
from ltr_harness.data.arrays import Ints
from ltr_harness.data.splits import folds
from ltr_harness.data.time_folds import DAY
from ltr_harness.errors import DataError
from ltr_harness.experiments.config.schema import Holdout, ModelConfig, TimeFoldsConfig, model_at
from ltr_harness.experiments.runs.record import Trial
from ltr_harness.experiments.training.folds import Fold
from ltr_harness.experiments.training.job import Job
from ltr_harness.metrics import Metric, bind
from ltr_harness.models.ranker import Training

if TYPE_CHECKING:
    pass
from ltr_harness.experiments.training.train import message_of

ShouldPrune = Callable[[int, float], bool]
"""Told a step and the best value so far; True ends the trial."""

CHECKPOINTS = 25
"""How often, at most, a trial asks whether it may go on: asking every round costs as much as a small tree."""


class Pruned(Exception):  # noqa: N818 - it is none
    """Ends a training that is not worth going on with; no error."""

    def __init__(self, value: float) -> None:
        super().__init__(value)
        self.value = value


class PruningCallback:
    """Asks now and then whether to go on, with the value of the model that the rule which stops training would keep."""

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
        now = next(iter(values.values()))  # the first decides: no name is looked for
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


def run_trial(
    job: Job, model: str, number: int, point: Mapping[str, Any], fold: Fold, should_prune: ShouldPrune
) -> Trial:
    """Train and judge one point; nothing here sees the fold's test split."""
    started = time.perf_counter()

    def over(
        status: Literal["complete", "pruned", "failed"], value: float | None = None, **more: Any
    ) -> Trial:
        seconds = time.perf_counter() - started
        return Trial(number=number, status=status, point=dict(point), value=value, seconds=seconds, **more)

    try:
        config = model_at(job.experiment.models[model], point)
        value, rounds = _judged(job, config, fold, should_prune)
        if np.isnan(value):
            raise DataError(
                f"{job.decision_metric} is undefined: no query that counts has a relevant document"
            )
    except Pruned as pruned:
        return over("pruned", value=pruned.value)
    except Exception as problem:
        # one point's failure, whatever it is, must not cost the others
        return over("failed", error=message_of(problem))
    return over("complete", value=value, **rounds)


def _judged(
    job: Job, config: ModelConfig, fold: Fold, should_prune: ShouldPrune
) -> tuple[float, dict[str, Any]]:
    """Return the value on validation data, with the rounds of the training; or on inner folds, which are several."""
    rule = job.stopping_of(config)
    training = partial(
        Training,
        seed=job.tune.seed,
        threads=job.threads,
        metrics=(job.decision_metric,),
        stopping=rule,
        rounds=config.rounds,
        decision_metric=job.decision_metric,
    )
    if job.tune.inner_folds is None:
        assert fold.valid is not None  # checked where the experiment was built
        rounds = config.rounds
        if not rounds:
            rounds = 1 if rule is None else rule.max_rounds
        callback = PruningCallback(job.decision_metric, rule, rounds, should_prune)
        fitted = config.ranker.fit_to(training(train=fold.train, valid=fold.valid, progress=callback))
        value = float(
            bind([job.decision_metric], fold.valid.judgments).means(fitted.score_split(fold.valid))[0]
        )
        if fitted.history:
            callback.finished(value)
        return value, {"best_round": fitted.best_round, "rounds_trained": fitted.rounds_trained}
    values: list[NDArray[np.float64]] = []
    inner_folds = _inner_folds(job, fold, job.tune.inner_folds)
    for number, (trained_queries, held_queries) in enumerate(inner_folds, start=1):
        held = fold.train.take(held_queries)
        fitted = config.ranker.fit_to(training(train=fold.train.take(trained_queries), valid=held))
        values.append(bind([job.decision_metric], held.judgments).per_query(fitted.score_split(held))[0])
        defined = np.concatenate(values)
        defined = defined[~np.isnan(defined)]
        value = float(defined.mean()) if defined.size else float("nan")
        if number < job.tune.inner_folds and should_prune(number, value):
            raise Pruned(value)
    return value, {}


def _inner_folds(job: Job, fold: Fold, n: int) -> Iterable[tuple[Ints, Ints]]:
    """Divide the training queries: each part is once held out from the others, or from the past alone."""
    data, train = job.experiment.data, fold.train
    if isinstance(data.folds, TimeFoldsConfig):
        days = train.query_attributes[DAY].astype("datetime64[D]").astype(np.int64)
        return data.folds.rule.inner(days, n)
    sides = [side for split in data.splits.values() for side in (split.valid, split.test)]
    named = [side.together for side in sides if isinstance(side, Holdout) and side.together]
    unit_column = data.fold_together or next(iter(named), None)
    unit = None if unit_column is None else train.query_attributes[unit_column]
    parts = folds(train.groups, n, job.tune.seed, unit_values=unit)
    return ((np.sort(np.concatenate([first, second])), held_out) for first, second, held_out in parts)
