"""Which rule stops this training? One: of two, the first to give up would win, whatever the other says."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any

from ltr_harness.errors import UsageError


class StoppingCallback:
    """Base of our callbacks that can end a training."""

    @property
    def stops(self) -> bool:
        """Whether it does."""
        return True


def callbacks_of_training(library: str) -> list[Any]:
    """The callbacks of the training that is running, those included that the library made of its arguments.

    Args:
        library: name of its package.

    Returns:
        In no particular order; empty outside of a training.
    """
    return list(arguments_of_training(library).get("callbacks") or ())


def arguments_of_training(library: str) -> dict[str, Any]:
    """What the training that is running was called with, as the library keeps it; empty outside of one.

    Neither library shows a callback the others, nor XGBoost its evaluation sets. Both keep them, in `train` and
    in `cv`, under the names of their public arguments, so they are read from the frame that called.

    Args:
        library: name of its package.
    """
    frame = inspect.currentframe()
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package == library and "callbacks" in frame.f_locals:
            return dict(frame.f_locals)
        frame = frame.f_back
    return {}


def set_to_stop_on(argument: str, names: Iterable[str]) -> str:
    """What to expect where none of several sets is named to stop on: a validation set, never the test set.

    Args:
        argument: that names it.
        names: of the sets.

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
