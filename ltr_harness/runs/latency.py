"""What does ranking one query cost? Microseconds of one call for a list of documents, on one thread of this process.

A call is what a search engine would do in Python: a float32 array in, scores out, nothing else. Lists are rows of the
data drawn anew for every call. The garbage collector and whatever else the machine does stay in the times.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness.dataset import RankingDataset
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
