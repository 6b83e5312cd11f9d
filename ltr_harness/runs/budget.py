"""Latency budget: the best of the models that answer in time."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ltr_harness.errors import Problem, UsageError
from ltr_harness.runs.record import Latency

_MICROSECONDS = {"us": 1.0, "µs": 1.0, "μs": 1.0, "ms": 1000.0, "s": 1_000_000.0}
_BUDGET = re.compile(rf"([0-9]+\.?[0-9]*|\.[0-9]+) ?({'|'.join(_MICROSECONDS)})")


class Candidate(NamedTuple):
    """A model, or its first rounds alone."""

    run: int  # its place among the runs
    rounds: int | None  # how many; None for a model without rounds
    mean: float  # of the metric that decides


def parse_budget(text: str) -> float:
    """Microseconds, from a number with its unit.

    Raises:
        UsageError: it is no time above 0 with a unit.

    Example:
        >>> parse_budget("800us"), parse_budget("5ms"), parse_budget("0.2 s")
        (800.0, 5000.0, 200000.0)
    """
    match = _BUDGET.fullmatch(text.strip())
    if match is None or not (budget := float(match[1]) * _MICROSECONDS[match[2]]):
        found = (
            "has no unit" if re.fullmatch(r"[0-9]+\.?[0-9]*|\.[0-9]+", text.strip()) else "is not a budget"
        )
        raise UsageError(
            Problem(f"--budget {text}", found, "a time above 0 in us, ms or s, such as 800us, 5ms or 0.2s")
        )
    return budget


def best_first(candidates: Sequence[Candidate], higher_is_better: bool) -> list[Candidate]:
    """The candidates with a mean, the best first; of equal ones that with fewer rounds."""
    sign = -1.0 if higher_is_better else 1.0
    defined = [one for one in candidates if not math.isnan(one.mean)]
    return sorted(defined, key=lambda one: (sign * one.mean, one.rounds or 0, one.run))


def best_within(
    ordered: Sequence[Candidate], timed: Callable[[Candidate], Latency], budget: float
) -> Candidate | None:
    """The first of ordered candidates whose p99 is within the budget in microseconds; None where there is none.

    More rounds of a model take longer: those of which fewer were too slow are not timed.
    """
    too_slow: dict[int, int] = {}
    for one in ordered:
        rounds = one.rounds or 0
        if rounds < too_slow.get(one.run, rounds + 1):
            found = timed(one)
            if found.p99 is not None and found.p99 <= budget:
                return one
            too_slow[one.run] = rounds
    return None
