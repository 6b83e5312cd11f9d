"""Early stopping of training across workers: one of them evaluates and tells the others.

The first worker holds the complete validation data besides its part of the training data, evaluates on it after
each round, and tells the others whether to go on. If each decided by itself, on the rows it has, they would stop at
different rounds and wait for each other for ever; that is what LightGBM's own stopping does under Dask.

All of this runs on the workers. What belongs to one training, its `Session`, is kept by the Dask worker.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness.boosting.stopping import StoppingRule
from ltr_harness.boosting.watching import Measured, Watching
from ltr_harness.dataset import RankingDataset
from ltr_harness.errors import TrainingError
from ltr_harness.metrics import Metric
from ltr_harness.rankers.training import VALID

ABORT = -1
"""In place of a number of rounds: end with an error."""
ALL_ROUNDS = 0
"""In place of a round: a decision that holds from now on."""
_EXTENSION = "ltr-harness"


@dataclass(frozen=True)
class SharedStopping:
    """Stopping that every worker's callback consults after a round, so that all go on or none does."""

    topic: str  # names this training among all
    first: str  # address of the worker that evaluates
    others: tuple[str, ...]  # addresses of the remaining ones
    stops: bool  # training may end before `max_rounds`
    every: int  # each n-th round is evaluated, and the last
    max_rounds: int
    watches: bool  # there is something to evaluate

    def rounds_to_keep(
        self, attempt: int, rounds: int, score: Callable[[Coordinator], NDArray[Any]]
    ) -> int | None:
        """The rounds to keep if training ends here, else None; the first worker scores the validation rows."""
        import distributed

        last = attempt == self.max_rounds
        if not self.watches or (attempt % self.every and not last):
            return None
        worker = distributed.get_worker()
        session = _session(worker, self.topic)
        if worker.address != self.first:
            keep = session.wait_for(attempt) if self.stops else 0
            if keep:
                _sessions(worker).pop(self.topic)
            return keep or None
        keep = ABORT
        try:
            keep = session.decide(attempt, rounds, score, last)
        finally:
            if self.stops:
                distributed.get_client().run(
                    publish, self.topic, attempt, keep, workers=list(self.others), on_error="ignore"
                )
        return keep or None


class Session:
    """One training on one worker: what was decided about its rounds, and on the first worker who decides."""

    def __init__(self) -> None:
        self.coordinator: Coordinator | None = None
        self._decisions: dict[int, int] = {}  # round -> rounds to keep, 0 to go on
        self._changed = threading.Condition()

    def publish(self, attempt: int, keep: int) -> None:
        """Receive the decision about a round."""
        with self._changed:
            self._decisions[attempt] = keep
            self._changed.notify_all()

    def wait_for(self, attempt: int) -> int:
        """The rounds to keep, 0 to go on, as soon as the first worker has decided."""
        with self._changed:
            self._changed.wait_for(lambda: {attempt, ALL_ROUNDS} & self._decisions.keys())
            keep = self._decisions.pop(attempt, ABORT)
        if keep == ABORT:
            raise TrainingError("another worker failed")
        return keep

    def decide(
        self, attempt: int, rounds: int, score: Callable[[Coordinator], NDArray[Any]], last: bool
    ) -> int:
        """The rounds to keep, 0 to go on."""
        if ALL_ROUNDS in self._decisions:
            raise TrainingError("the command that asked for this model is over")
        assert self.coordinator is not None  # registered before training began
        return self.coordinator.decide(attempt, rounds, score, last)


class Coordinator:
    """The first worker's view of a training: the complete validation data, the metrics and the rule."""

    def __init__(
        self,
        stopping: SharedStopping,
        valid: RankingDataset,
        metrics: Sequence[Metric],
        rule: StoppingRule | None,
    ) -> None:
        import distributed

        worker = distributed.get_worker()
        reported = monotonic()

        def on_round(measured: Sequence[Measured]) -> None:
            nonlocal reported
            if monotonic() - reported > 0.2:  # a message may cost more than a round
                reported = monotonic()
                values = {point.metric: point.value for point in measured}
                worker.log_event(stopping.topic, [measured[0].round, values])

        self.valid = valid
        self.matrix: Any = None  # the data in the library's form, if its callback has made one
        self.scores: NDArray[np.float64] = np.zeros(valid.n_rows)  # of the first `scored` rounds
        self.scored = 0
        self.watching = Watching.by_rule(metrics, {VALID: valid}, rule, {VALID: valid.judgments}, on_round)
        self.watching.begin()
        # XGBoost keeps its connections by thread: a score in the training's own thread would wait for the others.
        self._scoring = ThreadPoolExecutor(1)

    def decide(
        self, attempt: int, rounds: int, score: Callable[[Coordinator], NDArray[Any]], last: bool
    ) -> int:
        """Evaluate a round by the validation rows' scores (n_rows,): the rounds to keep if it is the last, else 0."""
        scores = self._scoring.submit(score, self).result()
        stop = self.watching.record(attempt, rounds, {VALID: self.watching.means(VALID, scores)})
        return (self.watching.best_round or 0) if stop or last else 0


def register(
    stopping: SharedStopping, valid: RankingDataset, metrics: Sequence[Metric], rule: StoppingRule | None
) -> None:
    """Make this worker the one that evaluates, by the first metric."""
    import distributed

    session = _session(distributed.get_worker(), stopping.topic)
    session.coordinator = Coordinator(stopping, valid, metrics, rule)


def publish(topic: str, attempt: int, keep: int, dask_worker: Any) -> None:
    """Give this worker a decision: rounds to keep, 0 to go on, or `ABORT`; `ALL_ROUNDS` means from now on."""
    _session(dask_worker, topic).publish(attempt, keep)


def result(topic: str) -> tuple[list[tuple[int, str, str, float]], int | None]:
    """The learning curve and the best round, from the worker that evaluated; its session ends."""
    import distributed

    coordinator = _sessions(distributed.get_worker()).pop(topic).coordinator
    assert coordinator is not None  # it is asked of the first worker alone
    watching = coordinator.watching
    return [tuple(point) for point in watching.history], watching.best_round  # type: ignore[misc]


def _session(worker: Any, topic: str) -> Session:
    return _sessions(worker).setdefault(topic, Session())


def _sessions(worker: Any) -> dict[str, Session]:
    sessions: dict[str, Session] = worker.extensions.setdefault(_EXTENSION, {})
    return sessions
