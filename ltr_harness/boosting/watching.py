"""What was measured at which round: the part of a watched training that knows no library."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from ltr_harness.boosting.callbacks import StoppingCallback
from ltr_harness.boosting.stopping import Stopper, StoppingRule
from ltr_harness.catalog import did_you_mean
from ltr_harness.errors import MetricError, UsageError
from ltr_harness.groups import Judgments
from ltr_harness.metrics import Binding, Metric, bind, parse_metric

T = TypeVar("T")


class Measured(NamedTuple):
    """One point of a learning curve: a metric's mean on one set after `round` rounds (1-based)."""

    round: int
    data: str
    metric: str
    value: float


OnRound = Callable[[Sequence[Measured]], None]


class WatchSettings:
    """What both libraries' `Watch` are asked for, checked once.

    Raises:
        UsageError: nothing to watch, a set to stop on that is not watched or is missing among several, a
            number out of range, an argument of another kind.
    """

    def __init__(
        self,
        metrics: Iterable[Metric | str],
        data: Mapping[str, Any],
        stop_on: str | None,
        patience: int | None,
        min_delta: float,
        every: int,
        judgments: Mapping[str, Judgments] | None,
        on_round: OnRound | None,
    ) -> None:
        self.metrics = distinct_metrics(metrics)
        self.data = _by_name("data", data)
        self.judgments = {} if judgments is None else _by_name("judgments", judgments)
        if on_round is not None and not callable(on_round):
            raise UsageError(f"on_round is a {type(on_round).__name__}; expected a function of measurements")
        self.on_round = on_round
        if not self.data:
            raise UsageError("data is empty; expected at least one named set, such as data={'valid': valid}")
        strangers = [name for name in self.judgments if name not in self.data]
        if strangers:
            raise UsageError(
                f"judgments for {strangers[0]!r}, which is not a watched set; {did_you_mean(strangers[0], self.data)}"
            )
        # Without a rule every round counts and none is best; the rule still checks `every`.
        self.rule = StoppingRule(self.metrics[0], 1 if patience is None else patience, min_delta, every)
        self.stops = patience is not None
        self.stop_on = _stopping_set(list(self.data), stop_on) if self.stops else ""


class Watching:
    """One training as it is watched: history, best round, and whether to stop.

    Attributes:
        history: every measurement, in order.
        best_round: 1-based number of rounds of the best model; 0 without a stopping rule.
        best_value: the stopping metric's value there.
    """

    def __init__(self, settings: WatchSettings, judgments_of: Callable[[Any], Judgments]) -> None:
        self._settings = settings
        self.bindings = bind_all(
            settings.metrics,
            {
                name: settings.judgments.get(name) or judgments_of(data)
                for name, data in settings.data.items()
            },
        )
        self.history: list[Measured] = []
        self.best: list[Measured] = []
        self.best_round = 0
        self._stopper = Stopper(settings.rule)
        self._rounds = 0

    @property
    def best_value(self) -> float:
        return self._stopper.best_value

    def is_due(self, attempt: int, last: bool = False) -> bool:
        """Whether this round is evaluated."""
        return last or attempt % self._settings.rule.every == 0

    def record(self, attempt: int, rounds: int, values: Mapping[str, Sequence[float]]) -> bool:
        """Take in a round's values; True when training should stop.

        Args:
            attempt: 1-based count of boosting steps tried; patience counts these.
            rounds: rounds the model consists of. LightGBM's may be fewer: a step that finds no split adds
                nothing, and a count of steps would then cut the model at the wrong tree.
            values: for each set, the metrics' means.
        """
        measured = [
            Measured(rounds, name, metric, float(value))
            for name, means in values.items()
            for metric, value in zip(self.bindings[name].names, means, strict=True)
        ]
        if rounds > self._rounds:
            self.history += measured
            self._rounds = rounds
            if self._settings.on_round is not None:
                self._settings.on_round(measured)
        if not self._settings.stops:
            return False
        before = self._stopper.best_round
        stop = self._stopper.update(attempt, float(values[self._settings.stop_on][0]))
        if self._stopper.best_round != before:
            self.best_round, self.best = rounds, measured
        return stop


class WatchedTraining(StoppingCallback):
    """What both libraries' `Watch` let you read: the state of the training last watched."""

    _settings: WatchSettings
    _watching: Watching | None = None

    @property
    def stops(self) -> bool:
        return self._settings.stops

    @property
    def history(self) -> list[Measured]:
        """Every measurement of the last training, in full precision."""
        return [] if self._watching is None else self._watching.history

    @property
    def best_round(self) -> int | None:
        """1-based number of rounds of the best model; None before training or without stopping."""
        return None if self._watching is None or not self._watching.best_round else self._watching.best_round

    @property
    def best_value(self) -> float | None:
        """The first metric's value at the best round."""
        return None if self.best_round is None or self._watching is None else self._watching.best_value


def distinct_metrics(metrics: Iterable[Metric | str]) -> tuple[Metric, ...]:
    """The metrics, by value or by name, each once.

    Raises:
        MetricError: none given, an unknown name, or one given twice.
    """
    parsed = tuple(parse_metric(metric) for metric in metrics)
    if not parsed:
        raise MetricError("no metrics given; expected at least one, such as NDCG(k=10)")
    twice = sorted({str(metric) for metric in parsed if parsed.count(metric) > 1})
    if twice:
        raise MetricError(f"given more than once: {', '.join(twice)}")
    return parsed


def bind_all(metrics: Sequence[Metric], judgments: Mapping[str, Judgments]) -> dict[str, Binding]:
    """Bind to every set; what a metric takes from data, it takes from the first and keeps for the others."""
    bindings: dict[str, Binding] = {}
    for name, judged in judgments.items():
        bindings[name] = bind(metrics, judged)
        metrics = bindings[name].metrics
    return bindings


def _by_name(argument: str, given: Mapping[str, T]) -> dict[str, T]:
    """A copy of what was given by the sets' names."""
    if not isinstance(given, Mapping):
        raise UsageError(
            f"{argument} is a {type(given).__name__}; expected named sets, such as {argument}={{'valid': …}}"
        )
    for name in given:
        if not isinstance(name, str):
            raise UsageError(f"{argument} names a set {name!r}; expected text, such as 'valid'")
    return dict(given)


def _stopping_set(names: list[str], stop_on: str | None) -> str:
    if stop_on is None:
        if len(names) > 1:
            raise UsageError(
                f"several sets are watched ({', '.join(names)}) and none is named to stop on; "
                f"expected stop_on={names[0]!r} or another of them"
            )
        return names[0]
    if not isinstance(stop_on, str):
        raise UsageError(f"stop_on is a {type(stop_on).__name__}; expected the name of a watched set")
    if stop_on not in names:
        raise UsageError(f"stop_on={stop_on!r} is not a watched set; {did_you_mean(stop_on, names)}")
    return stop_on
