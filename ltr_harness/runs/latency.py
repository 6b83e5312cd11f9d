"""Latency of scoring, and the best model within a budget of it."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltr_harness.dataset import RankingDataset
from ltr_harness.errors import Problem, UsageError
from ltr_harness.metrics import Metric
from ltr_harness.numbers import none_if_undefined
from ltr_harness.rankers.adapters import TreeModel
from ltr_harness.rankers.ranker import FittedModel
from ltr_harness.runs.insight import quality_by_trees
from ltr_harness.runs.record import Latency

Score = Callable[[NDArray[Any]], Any]

DOCUMENTS = (10, 100, 1000)
"""Lengths of the lists that are looked at."""

TYPICAL = 100
"""The length that first rounds and budgets go by."""

ENOUGH = 100
"""Calls below which nothing is said of one call in a hundred."""

_STEP = (
    4  # of rounds between the cuts of a training's record: all of them cost a third of scoring the split once
)
_SHARE = 0.01  # of a training's seconds that its latencies may take
_LONGEST = 0.5  # seconds, however long the training was
_LEAST = 4  # calls, however little time there is; the first warms up


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` of the values do not exceed (nearest rank).

    Example:
        >>> percentile([40.0, 10.0, 20.0, 30.0], 50), percentile([40.0, 10.0, 20.0, 30.0], 51)
        (20.0, 30.0)
    """
    return sorted(values)[max(math.ceil(len(values) * percent / 100), 1) - 1]


def latency(
    score: Score,
    features: NDArray[np.float32],
    documents: int = TYPICAL,
    *,
    calls: int = 500,
    seconds: float = 1.0,
    least: int = _LEAST,
    budget: float = math.inf,
) -> Latency:
    """Time calls one by one, each with another list drawn from rows (n_rows, n_features); a twentieth more warm up.

    No more calls once `seconds` are over, but always the `least`. Timing ends when so many calls were slower than the
    budget in microseconds that p99 cannot be within.
    """
    draw = np.random.Generator(np.random.Philox(documents))
    warm_up = max(calls // 20, 1)
    taken: list[float] = []
    too_slow = 0
    started = time.perf_counter()
    for call in range(calls + warm_up):
        rows = features[draw.integers(len(features), size=documents)]
        before = time.perf_counter_ns()
        score(rows)
        taken.append((time.perf_counter_ns() - before) / 1000)
        too_slow += call >= warm_up and taken[-1] > budget
        if too_slow > calls // 100 or (call + 1 >= least and time.perf_counter() - started > seconds):
            break
    timed = taken[min(warm_up, len(taken) // _LEAST) :]
    p99 = percentile(timed, 99) if len(timed) >= ENOUGH else None
    return Latency(documents=documents, calls=len(timed), p50=percentile(timed, 50), p99=p99)


def first_rounds(model: FittedModel, rounds: int | None) -> Score:
    """The score function of a model's first rounds; of the whole model where `rounds` is None."""
    if rounds is None or not isinstance(model, TreeModel):
        return model.score
    return partial(model.score_after, rounds=rounds)


def of_training(
    model: TreeModel, alone: TreeModel, split: RankingDataset, metric: Metric, mean: float, seconds: float
) -> list[Latency]:
    """The latencies in a record: every length by the whole model, the typical one by its first rounds too.

    `alone` is the model on one thread, which is timed for a hundredth of the training's seconds, at most half a second.
    """
    last = model.best_round or 0
    if not last:
        return []
    cuts = [last // _STEP**n for n in range(1, last.bit_length()) if last // _STEP**n]
    found = quality_by_trees(model, split, [metric], cuts)
    listed = [(last, documents, mean) for documents in DOCUMENTS]
    listed += [(cut.rounds, TYPICAL, cut.means[0]) for cut in found]
    each = min(_SHARE * seconds, _LONGEST) / len(listed)
    return [
        latency(
            partial(alone.score_after, rounds=rounds), split.features, documents, seconds=each
        ).model_copy(update={"rounds": rounds, "mean": none_if_undefined(value)})
        for rounds, documents, value in listed
    ]


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
