"""Stopping callbacks: the one that stops a training, and refusals of a second one beside it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any

from ltr_harness.errors import UsageError


class StoppingCallback:
    """Base of the harness's callbacks that can end a training."""

    @property
    def stops(self) -> bool:
        """Whether this one ends it."""
        return True


def callbacks_of_training(library: str) -> list[Any]:
    """Callbacks of the running training, the library's own among them, in no particular order."""
    return list(arguments_of_training(library).get("callbacks") or ())


def arguments_of_training(library: str) -> dict[str, Any]:
    """Arguments of the running training, as the library keeps them; empty outside of one.

    Neither library shows a callback the others, nor XGBoost its evaluation sets. Both keep them, in `train` and
    in `cv`, under the names of their public arguments, so they are read from the frame that called.
    """
    frame = inspect.currentframe()
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package == library and "callbacks" in frame.f_locals:
            return dict(frame.f_locals)
        frame = frame.f_back
    return {}


def set_to_stop_on(argument: str, names: Iterable[str]) -> str:
    """Message about the set to stop on, where none of several is named: a validation set, never the test set.

    Example:
        >>> set_to_stop_on("stop_on", ["train", "test", "validation"])
        "expected stop_on='validation'"
    """
    others = [name for name in names if not re.search("test|train", name, re.IGNORECASE)]
    if not others:
        return "expected a validation set besides: a test set that training stops on is no test"
    return f"expected {argument}={' or '.join(map(repr, others))}"


def refuse_second_rule_of_ours(own: StoppingCallback, callbacks: list[Any]) -> None:
    """Refuse a training that more than one of our callbacks may stop."""
    rules = [own, *(one for one in callbacks if isinstance(one, StoppingCallback) and one.stops)]
    names = [type(one).__name__ for one in dict.fromkeys(rules)]
    if len(names) > 1:
        raise UsageError(
            f"several callbacks stop this training ({', '.join(sorted(names))}), and the first to give up would win; "
            "expected one; Watch(…, patience=None) watches without stopping"
        )


def refuse_rule_of_library(library: str, their_rule: str) -> None:
    """Refuse the library's own early stopping, which was found beside ours."""
    raise UsageError(
        f"{library}'s own early stopping is on as well ({their_rule}), and the first rule to give up would win; "
        "expected it left out"
    )
