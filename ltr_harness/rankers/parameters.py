"""Checks of a library's parameters that are the same for every library."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from ltr_harness.catalog import did_you_mean
from ltr_harness.errors import Problem

Question = ParamSpec("Question")
Answer = TypeVar("Answer")

_REMEMBERED = 10_000  # answers of each library


def name_problems(
    params: Mapping[str, Any],
    library: str,
    canonical: Mapping[str, str],
    owned: Mapping[str, str],
    without_effect: Callable[[str, Any], str | None],
) -> list[Problem]:
    """Parameters that are unknown, set elsewhere, given twice, empty, or without effect.

    `canonical` maps every name that the library accepts to the one it stands for, `owned` a canonical name to the place
    where it is set, and `without_effect` gives the reason why a value would be ignored, or None.
    """
    problems = []
    first: dict[str, str] = {}
    for name, value in params.items():
        place = f"params.{name}"
        if name not in canonical:
            settable = [known for known in canonical if canonical[known] not in owned]
            cure = _closest(name, settable)
            problems.append(
                Problem(place, f"{library} has no parameter {name!r} and would ignore it", cure=cure)
            )
            continue
        meaning = canonical[name]
        alias = name if name == meaning else f"{name} (another name for {meaning})"
        if meaning in owned:
            problems.append(Problem(place, f"{alias} cannot be set here", cure=owned[meaning]))
        elif meaning in first:
            problems.append(Problem(place, f"{alias} is given a second time", f"only {first[meaning]}"))
        elif value is None:
            problems.append(Problem(place, f"{alias} has no value", "a value, or the line left out"))
        elif reason := without_effect(meaning, value):
            problems.append(
                Problem(place, f"{alias} has no effect {reason}", cure="leave it out, or change that")
            )
        first.setdefault(meaning, name)
    return problems


def remembered(ask: Callable[Question, Answer]) -> Callable[Question, Answer]:
    """Cache of a library's answers: one takes milliseconds, and every fold and training asks the same."""
    answers: dict[bytes, Answer] = {}

    @wraps(ask)
    def answer(*args: Question.args, **kwargs: Question.kwargs) -> Answer:
        try:
            question = pickle.dumps((args, kwargs))  # 1, True and "1" are three
        except (pickle.PicklingError, AttributeError, TypeError):  # nothing that a library could take
            return ask(*args, **kwargs)
        if question not in answers:
            if len(answers) == _REMEMBERED:
                answers.clear()
            answers[question] = ask(*args, **kwargs)
        return answers[question]

    return answer


def culprits(
    params: Mapping[str, Any], always: set[str], refusal: Callable[[Mapping[str, Any]], str | None]
) -> list[Problem]:
    """Rejected parameters, each with the library's message; those in `always` accompany each of the others."""
    message = refusal(params)
    if message is None:
        return []
    frame = {name: value for name, value in params.items() if name in always}
    of_frame = refusal(frame)
    if of_frame is not None:
        place = f"params.{next(iter(frame))}" if len(frame) == 1 else "params"
        return [Problem(place, f"{frame} is refused: {of_frame}")]
    problems = []
    for name, value in params.items():
        if name not in always:
            alone = refusal({**frame, name: value})
            if alone is not None:
                problems.append(Problem(f"params.{name}", f"{value!r} is refused: {alone}"))
    return problems or [Problem("params", f"refused together: {message}")]


def as_number(value: Any, default: float) -> float:
    """A parameter as a number; the default for one that is none, which is refused elsewhere."""
    try:
        return float(default if value is None else value)
    except (TypeError, ValueError):
        return default


def is_on(value: Any) -> bool:
    """Whether a library would read the value as yes."""
    return str(value).lower() in ("true", "+", "1")


def _closest(name: str, known: list[str]) -> str:
    """The closest name alone: a hundred known ones would bury it."""
    suggestion, _, _ = did_you_mean(name, known).partition(" (known: ")
    return suggestion if suggestion.startswith("did you mean") else "see the library's documentation"
