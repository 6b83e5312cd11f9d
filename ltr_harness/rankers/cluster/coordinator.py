"""When does training across workers stop? One of them evaluates and tells the others.

The first worker holds the complete validation data besides its part of the training data, evaluates on it after
each round, and tells the others whether to go on. If each decided by itself, on the rows it has, they would stop at
different rounds and wait for each other for ever; that is what LightGBM's own stopping does under Dask.

All of this runs on the workers.
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

from ltr_harness.boosting.watching import Measured, Watching, WatchSettings
from ltr_harness.dataset import RankingDataset
from ltr_harness.errors import TrainingError
from ltr_harness.rankers.ranker import VALID

ABANDON = -1
"""In place of a number of rounds: all is lost, give up."""

_verdicts: dict[str, dict[int, int]] = {}  # training -> round -> rounds to keep, 0 to go on
_news = threading.Condition()
_referees: dict[str, Referee] = {}


@dataclass(frozen=True)
class Together:
    """What every worker's callback consults after a round, so that all go on or none does.

    Attributes:
        topic: names this training among all.
        first: the address of the worker that evaluates.
        others: the addresses of those that are told.
        stops: training may end before `max_rounds`.
        every: only each n-th round is evaluated, and the last.
        watches: there is something to evaluate.
    """

    topic: str
    first: str
    others: tuple[str, ...]
    stops: bool
    every: int
    max_rounds: int
    watches: bool

    def verdict(self, attempt: int, rounds: int, score: Callable[[Referee], NDArray[Any]]) -> int | None:
        """The number of rounds to keep if training ends here, else None.

        Args:
            attempt: 1-based count of boosting steps.
            rounds: that the model consists of.
            score: (on the first worker) the validation rows' scores.
        """
        import distributed

        last = attempt == self.max_rounds
        if not self.watches or (attempt % self.every and not last):
            return None
        if distributed.get_worker().address != self.first:
            keep = self._hear(attempt) if self.stops else 0
        else:
            keep = ABANDON
            try:
                if 0 in _verdicts.get(self.topic, {}):
                    raise TrainingError("the command that asked for this model is over")
                keep = _referees[self.topic].judge(attempt, rounds, score, last)
            finally:
                if self.stops:
                    distributed.get_client().run(
                        hear, self.topic, attempt, keep, workers=list(self.others), on_error="ignore"
                    )
        return keep or None

    def _hear(self, attempt: int) -> int:
        with _news:
            _news.wait_for(lambda: {attempt, 0} & _verdicts.get(self.topic, {}).keys())
            heard = _verdicts[self.topic]
            keep = heard.pop(attempt, ABANDON)
            if keep:
                del _verdicts[self.topic]
        if keep == ABANDON:
            raise TrainingError("another worker failed")
        return keep


def hear(topic: str, attempt: int, keep: int) -> None:
    """Take in what the first worker has decided; attempt 0 means from now on."""
    with _news:
        _verdicts.setdefault(topic, {})[attempt] = keep
        _news.notify_all()


class Referee:
    """The first worker's view of a training: the complete validation data, the metrics and the rule.

    Attributes:
        valid: the data.
        matrix: the data in the library's form, if its callback has made one.
        scores: of the first `scored` rounds, if its callback adds them up.
    """

    def __init__(self, together: Together, valid: RankingDataset, metrics: Any, rule: Any) -> None:
        import distributed

        worker = distributed.get_worker()
        spoke = monotonic()

        def on_round(measured: Sequence[Measured]) -> None:
            nonlocal spoke
            if monotonic() - spoke > 0.2:  # a message may cost more than a round
                spoke = monotonic()
                values = {point.metric: point.value for point in measured}
                worker.log_event(together.topic, [measured[0].round, values])

        self.valid = valid
        self.matrix: Any = None
        self.scores: NDArray[np.float64] = np.zeros(valid.n_rows)
        self.scored = 0
        patience, min_delta = (None, 0.0) if rule is None else (rule.patience, rule.min_delta)
        settings = WatchSettings(
            metrics,
            {VALID: valid},
            None,
            patience,
            min_delta,
            together.every,
            {VALID: valid.judgments},
            on_round,
        )
        self.watching = Watching(settings, lambda data: data.judgments)
        # XGBoost keeps its connections by thread: a score in the training's own thread would wait for the others.
        self._elsewhere = ThreadPoolExecutor(1)

    def judge(self, attempt: int, rounds: int, score: Callable[[Referee], NDArray[Any]], last: bool) -> int:
        """Evaluate a round: the number of rounds to keep if training ends with it, else 0."""
        scores = self._elsewhere.submit(score, self).result()
        means = self.watching.bindings[VALID].means(scores)
        stop = self.watching.record(attempt, rounds, {VALID: means.tolist()})
        return self.watching.best_round if stop or last else 0


def appoint(together: Together, valid: RankingDataset, metrics: Any, rule: Any) -> None:
    _referees[together.topic] = Referee(together, valid, metrics, rule)


def dismiss(topic: str) -> tuple[list[tuple[int, str, str, float]], int | None]:
    watching = _referees.pop(topic).watching
    return [tuple(point) for point in watching.history], watching.best_round or None  # type: ignore[misc]
