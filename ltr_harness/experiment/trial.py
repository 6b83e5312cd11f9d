"""One trial: train a model at a point of its search space, and what it is worth on data that is not test data."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ltr_harness.boosting.stopping import Stopper, StoppingRule
from ltr_harness.config.experiment import Experiment, Holdout, ModelConfig
from ltr_harness.config.point import model_at
from ltr_harness.dataset import RankingDataset
from ltr_harness.errors import DataError, HarnessError
from ltr_harness.experiment.folds import Fold
from ltr_harness.metrics import Metric, bind
from ltr_harness.rankers.ranker import FittedModel, Training
from ltr_harness.splits import folds

CHECKPOINTS = 25
"""How often, at most, a trial asks whether it may go on: asking every round costs as much as a small tree."""

Report = Callable[[int, float], bool]
"""Told a step and the best value so far; True ends the trial."""


@dataclass(frozen=True)
class Outcome:
    """What became of a trial; see `ltr_harness.runs.study.Trial`."""

    status: Literal["complete", "pruned", "failed"]
    value: float | None
    seconds: float
    best_round: int | None = None
    rounds_trained: int | None = None
    error: str | None = None


class Pruned(Exception):  # noqa: N818 - it is none
    """Ends a training that is not worth going on with; no error."""

    def __init__(self, value: float) -> None:
        super().__init__(value)
        self.value = value


class Monitor:
    """Hears a training's validation history, in full precision, and asks now and then whether to go on.

    It follows the very rule that stops training, so what is compared between trials at a step is the value of the
    model that each would keep. What decides is the first value of every round: no name is looked for.

    Args:
        metric: what decides.
        rule: what stops training; None where a fixed number of rounds is trained and the last one counts.
        rounds: at most this many are trained.
        report: is asked.
    """

    def __init__(self, metric: Metric, rule: StoppingRule | None, rounds: int, report: Report) -> None:
        self._stopper = Stopper(rule or StoppingRule(metric))
        self._keeps_best = rule is not None
        self._report = report
        self._rounds = rounds
        self._step = max(1, -(-rounds // CHECKPOINTS))
        self._due = self._step

    def __call__(self, number: int, values: Mapping[str, float]) -> None:
        now = next(iter(values.values()))
        self._stopper.update(number, now)
        value = self._stopper.best_value if self._keeps_best else now
        while number >= self._due:
            step, self._due = self._due, self._due + self._step
            if self._report(step, value):
                raise Pruned(value)

    def finished(self, value: float) -> None:
        """Training has ended by itself: later trials are held against the model it kept, at every later step."""
        for step in range(self._due, self._rounds + 1, self._step):
            self._report(step, value)


def run_trial(
    experiment: Experiment,
    model: str,
    point: Mapping[str, Any],
    fold: Fold,
    metric: Metric,
    rule: StoppingRule | None,
    threads: int,
    report: Report,
) -> Outcome:
    """Train and judge one point; nothing here sees the fold's test split.

    Args:
        experiment: resolved; its `tune` section says how a trial is judged.
        model: the model that is tuned.
        point: option to value.
        fold: the data.
        metric: what decides.
        rule: what stops training.
        threads: to train with.
        report: told of steps: rounds, or inner folds.
    """
    assert experiment.tune is not None
    started = time.perf_counter()

    def over(status: Literal["complete", "pruned", "failed"], **more: Any) -> Outcome:
        return Outcome(status=status, seconds=time.perf_counter() - started, **{"value": None, **more})

    try:
        config = model_at(experiment.models[model], point)
        seed = experiment.tune.seed
        if experiment.tune.inner_folds is None:
            assert fold.valid is not None  # checked where the experiment was built
            rounds = config.rounds or (1 if rule is None else rule.max_rounds)
            monitor = Monitor(metric, rule, rounds, report)
            fitted = _fitted(config, fold.train, fold.valid, metric, rule, seed, threads, monitor)
            value = float(bind([metric], fold.valid.judgments).means(fitted.score_split(fold.valid))[0])
            if fitted.history:
                monitor.finished(value)
            at = {"best_round": fitted.best_round, "rounds_trained": fitted.rounds_trained}
        else:
            value, at = 0.0, {}
            values: list[np.ndarray[Any, np.dtype[np.float64]]] = []
            for number, (train, held) in enumerate(_inner(experiment, fold.train), start=1):
                fitted = _fitted(config, train, held, metric, rule, seed, threads, None)
                values.append(bind([metric], held.judgments).per_query(fitted.score_split(held))[0])
                value = _mean(np.concatenate(values))
                if number < experiment.tune.inner_folds and report(number, value):
                    raise Pruned(value)
        if np.isnan(value):
            raise DataError(f"{metric} is undefined: no query that counts has a relevant document")
    except Pruned as pruned:
        return over("pruned", value=pruned.value)
    except Exception as problem:
        # one point's failure, whatever it is, must not cost the others
        said = str(problem) if isinstance(problem, HarnessError) else f"{type(problem).__name__}: {problem}"
        return over("failed", error=said)
    return over("complete", value=value, **at)


def _fitted(
    config: ModelConfig,
    train: RankingDataset,
    valid: RankingDataset,
    metric: Metric,
    rule: StoppingRule | None,
    seed: int,
    threads: int,
    monitor: Monitor | None,
) -> FittedModel:
    return config.ranker.fit(
        Training(
            train=train,
            valid=valid,
            seed=seed,
            threads=threads,
            metrics=(metric,),
            stopping=rule,
            rounds=config.rounds,
            progress=monitor,
        )
    )


def _inner(experiment: Experiment, train: RankingDataset) -> Iterator[tuple[RankingDataset, RankingDataset]]:
    """The training queries divided anew: each part once held out from the others."""
    assert experiment.tune is not None
    assert experiment.tune.inner_folds is not None
    together = experiment.data.fold_together or next(
        (
            how.together
            for split in experiment.data.splits.values()
            for how in (split.valid, split.test)
            if isinstance(how, Holdout) and how.together
        ),
        None,
    )
    unit = None if together is None else train.query_attributes[together]
    for one, two, held in folds(
        train.groups, experiment.tune.inner_folds, experiment.tune.seed, together=unit
    ):
        yield train.take(np.sort(np.concatenate([one, two]))), train.take(held)


def _mean(values: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if defined.size else float("nan")
