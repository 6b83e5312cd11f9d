"""Early stopping: one rule for every library, and refusals of a second one beside it."""

import inspect
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from ltr_harness.errors import DataError, Problem, UsageError
from ltr_harness.metrics import Metric


@dataclass(frozen=True)
class StoppingRule:
    """Train until the metric has not improved for `patience` rounds; keep the best round.

    A round improves when its value beats the best so far by more than `min_delta`, in the metric's own
    direction. Ties keep the earlier round: of two models that are equally good, the smaller one.

    An option is added as a field with a default and a description: the section ``stopping:``, its JSON Schema, records
    and identities of runs follow.
    """

    FIRST_OPTIONS: ClassVar[tuple[str, ...]] = ("patience", "min_delta", "every", "max_rounds")
    """The options that every stored identity contains. Later ones are part of it only where they are used."""

    metric: Metric
    patience: int = field(
        default=50, metadata={"description": "Rounds without improvement before training stops.", "ge": 1}
    )
    min_delta: float = field(
        default=0.0,
        metadata={"description": "An improvement is more than this.", "ge": 0, "allow_inf_nan": False},
    )
    # and the last
    every: int = field(default=1, metadata={"description": "Evaluate each n-th round only.", "ge": 1})
    max_rounds: int = field(
        default=2000, metadata={"description": "Train at most this many rounds.", "ge": 1}
    )

    def __post_init__(self) -> None:
        problems = [
            Problem(name, f"found {value!r}", "an integer >= 1")
            for name in ("patience", "every", "max_rounds")
            if not isinstance(value := getattr(self, name), int) or isinstance(value, bool) or value < 1
        ]
        delta = self.min_delta
        if isinstance(delta, bool) or not isinstance(delta, int | float) or not 0 <= delta < math.inf:
            problems.append(Problem("min_delta", f"found {delta!r}", "a number >= 0"))
        UsageError.refuse(problems)

    def used_options(self) -> dict[str, Any]:
        """Return the options by name, for identities and records: a later one only where it is not its default."""
        options = [option for option in fields(self) if option.name != "metric"]
        values = {option.name: getattr(self, option.name) for option in options}
        unused = {
            option.name
            for option in options
            if option.name not in self.FIRST_OPTIONS and values[option.name] == option.default
        }
        return {name: value for name, value in values.items() if name not in unused}


class Stopper:
    """Early stopping of one training by a `StoppingRule`, from the value of each evaluated round."""

    def __init__(self, rule: StoppingRule) -> None:
        self.rule = rule
        self.best_round = 0  # 1-based; 0 before the first update
        self.best_value = math.nan

    def update(self, round_: int, value: float) -> bool:
        """Tell whether training should stop after this round (1-based); rounds that are not evaluated count too."""
        if math.isnan(value):
            raise DataError.at(
                "stopping",
                f"{self.rule.metric} is undefined at round {round_}: no query that counts has a relevant document",
                "at least one",
                "stop on another metric or another set, or give such queries a value: empty=zero",
            )
        if self.rule.metric.higher_is_better:
            improves = value > self.best_value + self.rule.min_delta
        else:
            improves = value < self.best_value - self.rule.min_delta
        if self.best_round == 0 or improves:
            self.best_round, self.best_value = round_, value
        return self.may_stop_after(round_)

    def may_stop_after(self, round_: int) -> bool:
        """Tell whether training should stop after this round unless it improves."""
        return round_ - self.best_round >= self.rule.patience


class StoppingCallback:
    """Base of the harness's callbacks that can end a training."""

    @property
    def stops(self) -> bool:
        """True where this callback can end the training."""
        return True


def callbacks_of_training(library: str) -> list[Any]:
    """Callbacks of the running training, the library's own among them, in no particular order."""
    return list(arguments_of_training(library).get("callbacks") or ())


def arguments_of_training(library: str) -> dict[str, Any]:
    """Arguments of the running training, which no callback is shown, from the frame of `train` or `cv`; else empty."""
    frame = inspect.currentframe()
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package == library and "callbacks" in frame.f_locals:
            return dict(frame.f_locals)
        frame = frame.f_back
    return {}


def arguments_of_evaluation(library: str, data: str) -> dict[str, Any]:
    """Variables of the booster's method that called a hook, which is shown no booster; empty where others called it.

    Args:
        library: its package.
        data: the method's name of the evaluated set.
    """
    frame = inspect.currentframe()
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        variables = frame.f_locals
        kinds = [kind.__name__ for kind in type(variables.get("self")).__mro__]
        if package == library and data in variables and "Booster" in kinds:
            return dict(variables)
        if package not in (library, _OURS):
            return {}
        frame = frame.f_back
    return {}


_OURS = __name__.partition(".")[0]


def set_to_stop_on(argument: str, names: Iterable[str]) -> str:
    """Message about the set to stop on, where none of several is named: a validation set, never the test set."""
    candidates = sets_to_stop_on(names)
    if not candidates:
        return "expected a validation set besides: a test set that training stops on is no test"
    return f"expected {argument}={' or '.join(map(repr, candidates))}"


def sets_to_stop_on(names: Iterable[str]) -> list[str]:
    """Return the names of sets that name neither a training set nor a test set."""
    return [name for name in names if not re.search("test|train|learn|^fit", name, re.IGNORECASE)]


def refuse_second_rule(
    callback: StoppingCallback, callbacks: list[Any], library: str, library_rules: list[str]
) -> None:
    """Refuse a training that another of our callbacks or the library's own early stopping may stop as well."""
    rules = [callback, *(rule for rule in callbacks if isinstance(rule, StoppingCallback) and rule.stops)]
    names = [type(rule).__name__ for rule in dict.fromkeys(rules)]
    if len(names) > 1:
        raise UsageError(
            f"several callbacks stop this training ({', '.join(sorted(names))}), and the first to stop would win; "
            "expected one; Watch(…, patience=None) watches without stopping"
        )
    if library_rules:
        raise UsageError(
            f"{library}'s own early stopping is on as well ({library_rules[0]}), and the first rule to stop would "
            "win; remove it"
        )
