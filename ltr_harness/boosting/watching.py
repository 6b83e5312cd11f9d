"""Evaluation log of a watched training, its printed progress, and scores from probabilities of grades."""

from __future__ import annotations

import sys
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from ltr_harness._util.catalog import did_you_mean
from ltr_harness._util.escapes import printable
from ltr_harness._util.text import count_of
from ltr_harness.boosting.stopping import (
    Stopper,
    StoppingCallback,
    StoppingRule,
    set_to_stop_on,
    sets_to_stop_on,
)
from ltr_harness.data.judgments import Judgments
from ltr_harness.errors import DataError, MetricError, UsageError
from ltr_harness.metrics import Binding, Metric, bind, parse_metric
from ltr_harness.metrics.core.expected_grade import expected_grade


class Measured(NamedTuple):
    """One point of a learning curve: a metric's mean on one set after `round` rounds (1-based)."""

    round: int
    data: str
    metric: str
    value: float


def one_per_row(predictions: Any) -> Any:
    """Scores (n_rows,): a column as it is, probabilities of grades (n_rows, n_grades) as the expected grade."""
    return expected_grade(predictions) if np.ndim(predictions) == 2 else predictions


_WIDTH = 24


class Printing:
    """Interactive progress: a line every so many rounds, or one line on stderr that is kept up to date."""

    def __init__(self, every: int | None, progress: bool) -> None:
        if every is not None and (isinstance(every, bool) or not isinstance(every, int) or every < 1):
            raise UsageError(f"print_every: found {every!r}; expected an integer >= 1, or None")
        if not isinstance(progress, bool):
            raise UsageError(f"progress: found {progress!r}; expected True or False")
        self.every = every
        self.progress = progress
        self._shown = 0

    def show(self, round_: int, rounds: int | None, measured: Sequence[Measured]) -> None:
        """Print a round's measurements (1-based), where `rounds` is the largest number of rounds, if known."""
        if self.every is not None and round_ % self.every == 0:
            values = "\t".join(
                f"{printable(measurement.data)}'s {measurement.metric}: {measurement.value:g}"
                for measurement in measured
            )
            print(f"[{round_}]\t{values}", flush=True)
        if self.progress:
            first = measured[0]
            bar, total = "", ""
            if rounds is not None:
                done = "".ljust(_WIDTH * round_ // rounds, "#")
                bar, total = f"[{done.ljust(_WIDTH, '.')}] ", f" of {rounds:,}"
            text = f"{bar}round {round_:,}{total}, {printable(first.data)}'s {first.metric} {first.value:.4f}"
            sys.stderr.write(f"\r{text.ljust(self._shown)}")  # blanks cover the end of a longer line before
            sys.stderr.flush()
            self._shown = len(text)

    def end(self) -> None:
        """The training is over."""
        if self._shown:
            sys.stderr.write("\n")
            self._shown = 0


T = TypeVar("T")
W = TypeVar("W", bound="Watching")


class BoundMetrics(Protocol):
    """Metrics bound to one set's judgments."""

    @property
    def names(self) -> tuple[str, ...]:
        """The metrics' names."""

    def means(self, scores: Any, /) -> NDArray[np.float64]:
        """Means of scores (n_rows,) in the judgments' row order, float64 (n_metrics,)."""


RoundListener = Callable[[Sequence[Measured]], None]

_LONGEST_BLOCK = 0.1
"""Seconds that a round may wait for its evaluation: progress is no later than that."""


class Watching(StoppingCallback):
    """Base of both libraries' `Watch`: arguments, and the evaluation log of the training last watched."""

    _kind: ClassVar[type[Any]] = object  # of the library's data
    _kind_name: ClassVar[str] = "data"
    _evaluates_blocks = False

    def __init__(
        self,
        *metrics: Metric | str,
        data: Mapping[str, Any] | None = None,
        stop_on: str | None = None,
        patience: int | None = 50,
        min_delta: float = 0.0,
        every: int = 1,
        judgments: Mapping[str, Judgments] | None = None,
        on_round: RoundListener | None = None,
        print_every: int | None = None,
        progress: bool = False,
    ) -> None:
        super().__init__()
        self._metrics = distinct_metrics(metrics)
        self._given = None if data is None else _by_name("data", data)
        self._judgments = {} if judgments is None else _by_name("judgments", judgments)
        if on_round is not None and not callable(on_round):
            raise UsageError(f"on_round is a {type(on_round).__name__}; expected a function of measurements")
        self._on_round = on_round
        self._printing = Printing(print_every, progress)
        self._max_rounds: int | None = None
        # `every` is checked also where nothing stops
        rule = StoppingRule(self._metrics[0], 1 if patience is None else patience, min_delta, every)
        self._every = rule.every
        self._asked_to_stop_on = stop_on
        self._stop_on = ""
        self._data: dict[str, Any] = {}
        if self._given == {}:
            raise UsageError("data is empty; expected at least one named set, such as data={'valid': valid}")
        self._rule = None if patience is None else rule
        if self._given:
            self._choose(self._given, list(self._given))
        self._forget()

    def _forget(self) -> None:
        """Empty the evaluation log."""
        self.history: list[Measured] = []
        self._bindings: Mapping[str, BoundMetrics] = {}
        self._stopper = None if self._rule is None else Stopper(self._rule)
        self._best_round = self._rounds = 0
        self._block: list[tuple[int, int, Mapping[str, NDArray[Any]]]] = []
        self._block_began = time.monotonic()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def __getstate__(self) -> dict[str, Any]:
        packed = self._given
        if packed:
            packed = {name: self._packed(data) for name, data in packed.items()}
        return {**self.__dict__, "_given": packed, "_data": {}, "_bindings": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self._given is not None:
            self._given = {name: self._kind(**arguments) for name, arguments in self._given.items()}

    def _choose(self, sets: Mapping[str, Any], to_stop_on: list[str]) -> None:
        """Watch these sets, and stop on one of `to_stop_on`."""
        for name in self._judgments:
            if name not in sets:
                found = f"judgments for {name!r}, which is not a watched set"
                raise UsageError(f"{found}; {did_you_mean(name, sets)}")
        for name, data in sets.items():
            if not isinstance(data, self._kind):
                found = f"data[{name!r}] is a {type(data).__name__}"
                raise UsageError(f"{found}; expected {self._kind_name} with groups")
        self._data = dict(sets)
        self._stop_on = self._named_set(to_stop_on) if self.stops else ""

    def _named_set(self, to_stop_on: list[str]) -> str:
        """Return the set that the caller named to stop on, or the only one."""
        name = self._asked_to_stop_on
        if name is None:
            if len(to_stop_on) > 1:
                found = f"several sets are watched ({', '.join(to_stop_on)}) and none is named to stop on"
                raise UsageError(f"{found}; {set_to_stop_on('stop_on', to_stop_on)}")
            return to_stop_on[0]
        if not isinstance(name, str):
            raise UsageError(f"stop_on is a {type(name).__name__}; expected the name of a watched set")
        if name not in to_stop_on:
            candidates = sets_to_stop_on(to_stop_on) or to_stop_on
            raise UsageError(f"stop_on={name!r} is not a watched set; {did_you_mean(name, candidates)}")
        return name

    @staticmethod
    def _packed(data: Any, /) -> dict[str, Any]:
        """Arguments of `_kind` that make the same set, which can be pickled."""
        raise NotImplementedError

    @staticmethod
    def _judged(data: Any, /) -> Judgments:
        """The judgments that come with a set."""
        raise NotImplementedError

    @property
    def stops(self) -> bool:
        return self._rule is not None

    @property
    def best_round(self) -> int | None:
        """1-based number of rounds of the best model; None before training or without stopping."""
        return self._best_round or None

    @property
    def best_value(self) -> float | None:
        """The first metric's value at the best round."""
        return None if self._stopper is None or not self._best_round else self._stopper.best_value

    def _choose_offered(self, library: str, sets: Mapping[str, Any], training_set: Any) -> None:
        """Without data of its own it watches the training's evaluation sets."""
        if self._given is not None:
            self._data = dict(self._given)
            if self.stops and self._data[self._stop_on] is training_set:
                raise UsageError(
                    f"Watch: {self._stop_on!r} is the training set; expected a validation set to stop on: "
                    "a model rarely stops improving on the rows it learns from"
                )
            return
        names = [name for name, data in sets.items() if data is not training_set]
        if not names:
            raise UsageError(
                f"there is nothing to watch: Watch was given no data, and {library} no evaluation set but "
                "the training set; expected Watch(…, data={'valid': valid}) or an evaluation set"
            )
        self._choose(sets, names)

    def begin(self) -> None:
        """A training begins: what does not depend on scores is computed once."""
        self._forget()
        self._bindings = self._bound()

    def _bound(self) -> Mapping[str, BoundMetrics]:
        """The metrics bound to each set; what one takes from data, it takes from the first and keeps for the others."""
        metrics = self._metrics
        bindings = {}
        for name, data in self._data.items():
            bindings[name] = bind(metrics, self._judgments.get(name) or self._judged(data))
            metrics = bindings[name].metrics
        return bindings

    def means(self, name: str, scores: NDArray[Any]) -> list[float]:
        """The metrics' means on a set, from scores (n_rows,) in the judgments' row order."""
        return list(self._bindings[name].means(scores).tolist())

    def evaluate(self, attempt: int, rounds: int, scores: Mapping[str, NDArray[Any]]) -> bool:
        """Evaluate each set's scores (n_rows,) after so many steps; True when training should stop.

        In blocks, steps wait until the last of them could end training: evaluated one after the other, they find their
        data in the processor's caches, which every round of training fills with its own.
        """
        self._block.append((attempt, rounds, scores))
        may_stop = self._stopper is not None and self._stopper.may_stop_after(attempt)
        seconds = time.monotonic() - self._block_began
        if self._evaluates_blocks and self.history and not may_stop and seconds < _LONGEST_BLOCK:
            return False
        return self.evaluate_block()

    def evaluate_block(self) -> bool:
        """Evaluate the steps that wait for it; True when training should stop."""
        stop = False
        for attempt, rounds, scores in self._block:
            stop = self.record(attempt, rounds, {name: self.means(name, scores[name]) for name in scores})
        self._block, self._block_began = [], time.monotonic()
        return stop

    def record(self, attempt: int, rounds: int, values: Mapping[str, Sequence[float]]) -> bool:
        """Add the values after so many steps, of which the model has `rounds`; True when training should stop."""
        measured = [
            Measured(rounds, name, metric, float(value))
            for name, means in values.items()
            for metric, value in zip(self._bindings[name].names, means, strict=True)
        ]
        before = self.history[-len(measured) :] if rounds == self._rounds else []
        # a step without a tree changes no model but LightGBM's DART, which then has other scores after as many rounds
        if rounds > self._rounds or not _equal(measured, before):
            del self.history[len(self.history) - len(before) :]
            self.history += measured
            self._rounds = rounds
            self._tell(measured)
        if self._stopper is None:
            return False
        best_before = self._stopper.best_round
        stop = self._stopper.update(attempt, float(values[self._stop_on][0]))
        if self._stopper.best_round != best_before:
            self._best_round = rounds
        return stop

    def _tell(self, measured: Sequence[Measured]) -> None:
        if self._on_round is not None:
            self._on_round(measured)
        self._printing.show(measured[0].round, self._max_rounds, measured)

    def _is_due(self, attempt: int, last: bool = False) -> bool:
        return last or attempt % self._every == 0


def _equal(first: Sequence[Measured], second: Sequence[Measured]) -> bool:
    """Tell whether two rounds have the same values; undefined values are equal."""
    first_values = [measurement.value for measurement in first]
    second_values = [measurement.value for measurement in second]
    return np.array_equal(first_values, second_values, equal_nan=True)


def watch_by_rule(kind: type[W], rule: StoppingRule | None, metrics: Sequence[Metric], **options: Any) -> W:
    """Return a watch that stops by a rule with all its options; without one it watches every round.

    It is for trainings that no other callback follows, so it evaluates in blocks.

    Args:
        kind: of the watch.
        rule: goes by the first of the metrics.
        metrics: to watch.
        options: further arguments of the watch.
    """
    if rule is None:
        watch = kind(*metrics, patience=None, **options)
    else:
        watch = kind(*metrics, patience=rule.patience, min_delta=rule.min_delta, every=rule.every, **options)
        watch._rule = rule  # with the options that a watch has no argument for
        watch._forget()
    watch._evaluates_blocks = True
    return watch


class OncePerSet(Generic[T]):
    """Cache of what is computed once for each data set, until the set goes or one of its fields has other values."""

    def __init__(self, at_most: int | None = None) -> None:
        self._at_most = at_most  # sets that are held; the one that was not used for longest makes room
        self._kept: dict[int, tuple[Any, tuple[NDArray[Any], ...], T]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, data: Any, make: Callable[[], T], *fields: Any) -> T:
        key = id(data)
        entry = self._kept.pop(key, None)
        # by value, because an array may be filled again
        if entry is None or not all(map(np.array_equal, fields, entry[1])):
            holds = data if self._at_most else weakref.ref(data, lambda _: self._kept.pop(key, None))
            entry = (holds, tuple(map(np.array, fields)), make())
        self._kept[key] = entry
        if self._at_most and len(self._kept) > self._at_most:
            del self._kept[next(iter(self._kept))]
        return entry[2]


JudgmentsArg = Judgments | Sequence[Judgments] | None
"""Judgments of one or several sets that a library evaluates."""


def judgments_of_sets(judgments: JudgmentsArg) -> tuple[Judgments, ...]:
    """The judgments of each set; none where the library's own are meant."""
    arguments = () if judgments is None else judgments
    per_set = (arguments,) if isinstance(arguments, Judgments) else tuple(arguments)
    if unknown_types := [type(judged).__name__ for judged in per_set if not isinstance(judged, Judgments)]:
        raise UsageError(f"judgments has a {unknown_types[0]}; expected Judgments of each evaluated set")
    return per_set


def match_judgments(given: Sequence[Judgments], library_judgments: Judgments) -> Judgments:
    """Return the given judgments with the rows and labels of a library's set, which has no name; its own if none."""
    if not given:
        return library_judgments
    matches = [
        candidate
        for candidate in given  # the library has no queries without rows, and labels as float32
        if np.array_equal(candidate.groups.sizes[candidate.groups.has_rows], library_judgments.groups.sizes)
        and np.array_equal(candidate.labels.astype(np.float32), library_judgments.labels)
    ]
    if len(matches) != 1:
        n_given = f"{len(given)} judgments" if len(given) > 1 else "judgments"
        sizes = [
            f"{count_of(int(candidate.groups.has_rows.sum()), 'query')} with {count_of(candidate.groups.n_rows, 'row')}"
            for candidate in (library_judgments, *given)
        ]
        raise DataError(
            f"the {n_given} given are of {' and '.join(sizes[1:])}, but a set of {sizes[0]} is evaluated, whose rows "
            f"and labels match {len(matches) or 'none'}; expected exactly one for every evaluated set, with its "
            "rows in the same order (parts that a library draws itself, as its cv does, have none)"
        )
    return matches[0]


class MetricsPerSet:
    """Base of the callables that libraries evaluate: metrics, resolved by the first set, and bound once to each."""

    at_most: int | None = None

    def __init__(self, metrics: tuple[Metric, ...], judgments: JudgmentsArg = None) -> None:
        self._metrics, self._judgments = metrics, judgments_of_sets(judgments)
        self._bound: OncePerSet[Any] = OncePerSet(self.at_most)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._metrics, self._judgments)

    def _bind(self, judgments: Judgments) -> Binding:
        binding = bind(self._metrics, match_judgments(self._judgments, judgments))
        self._metrics = binding.metrics
        return binding


def distinct_metrics(metrics: Iterable[Metric | str]) -> tuple[Metric, ...]:
    """The metrics, by value or by name, each once."""
    parsed = tuple(parse_metric(metric) for metric in metrics)
    if not parsed:
        raise MetricError("no metrics given; expected at least one, such as NDCG(k=10)")
    twice = sorted({str(metric) for metric in parsed if parsed.count(metric) > 1})
    if twice:
        raise MetricError(f"given more than once: {', '.join(twice)}")
    return parsed


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
