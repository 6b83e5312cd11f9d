"""Inputs of a ranker's training: the data, the stopping rule, and facts for checks beforehand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ltr_harness.boosting.stopping import StoppingRule
from ltr_harness.boosting.watching import Measured
from ltr_harness.dataset import RankingDataset
from ltr_harness.errors import Problem, RankerError
from ltr_harness.groups import Judgments
from ltr_harness.metrics import Metric

VALID = "valid"
"""How histories call the split that training is watched on."""


@dataclass(frozen=True, eq=False)
class Workers:
    """A cluster for models that are trained across its workers, and how data gets into a worker's memory.

    Attributes:
        client: a `distributed.Client`.
        load: a worker's address, ``train`` or ``valid``, and its queries from - to, to the future of a
            `RankingDataset` there.
    """

    client: Any
    load: Callable[[str, str, int, int], Any]


@dataclass(frozen=True, kw_only=True)
class Training:
    """Everything a ranker is given to train with.

    Attributes:
        train: what it learns from.
        valid: what it is watched on, and stopped on; None where nothing is.
        seed: of whatever is random.
        threads: the model's share of the machine; part of the record, since some settings depend on it.
        metrics: evaluated on `valid` for the learning curves.
        stopping: when to stop; None trains `rounds` rounds.
        rounds: fixed number of rounds, or, with `stopping`, an upper limit in place of its `max_rounds`.
        progress: called after each evaluated round with the round and the metrics' means on `valid`.
        workers: of a cluster, for `data_parallel` models.

    Raises:
        RankerError: stopping without validation data.
    """

    train: RankingDataset
    valid: RankingDataset | None = None
    seed: int = 0
    threads: int = 1
    metrics: tuple[Metric, ...] = ()
    stopping: StoppingRule | None = None
    rounds: int | None = None
    progress: Callable[[int, Mapping[str, float]], None] | None = None
    workers: Workers | None = None

    def __post_init__(self) -> None:
        if self.stopping is not None and self.valid is None:
            raise RankerError(
                f"stopping on {self.stopping.metric} needs validation data, and there is none; "
                "expected a validation split, or a fixed number of rounds"
            )

    @property
    def max_rounds(self) -> int:
        """Rounds after which training ends at the latest.

        Raises:
            RankerError: neither a rule nor a number of rounds is given, or the number is below 1.
        """
        if self.rounds is not None:
            if self.rounds < 1:
                raise RankerError(Problem("rounds", f"found {self.rounds}", "at least 1"))
            return self.rounds
        if self.stopping is None:
            raise RankerError(
                Problem(
                    "rounds", "not given, and there is no stopping rule", "one of the two", "add `stopping:`"
                )
            )
        return self.stopping.max_rounds

    @property
    def watched(self) -> tuple[Metric, ...]:
        """The metrics of the learning curves, the one that decides first."""
        if self.stopping is None:
            return self.metrics
        return (self.stopping.metric, *(one for one in self.metrics if one != self.stopping.metric))

    def report(self, measured: Sequence[Measured]) -> None:
        """Pass an evaluated round on to `progress`."""
        if self.progress is not None:
            self.progress(measured[0].round, {point.metric: point.value for point in measured})


@dataclass(frozen=True)
class Facts:
    """What a ranker must know of its training data to say beforehand whether it can work.

    Attributes:
        feature_names: as in the data.
        n_rows, n_queries: in the training split.
        largest_query: rows of its largest query.
        max_label: its largest label.
        n_fractional: rows whose label is not an integer.
        has_weights: its queries have weights.
        stopping: training stops early.
        n_blank: queries without a relevant document.
        has_positions: rows know where they were displayed.
        categories: features that are codes of texts.
        judgments: the labels themselves.
    """

    feature_names: tuple[str, ...]
    n_rows: int
    n_queries: int
    largest_query: int
    max_label: float
    n_fractional: int
    has_weights: bool
    stopping: bool
    n_blank: int = 0
    has_positions: bool = False
    categories: tuple[str, ...] = ()
    judgments: Judgments | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, train: RankingDataset, stopping: bool) -> Facts:
        labels = train.labels
        return cls(
            feature_names=train.feature_names,
            n_rows=train.n_rows,
            n_queries=train.n_queries,
            largest_query=int(train.groups.sizes.max()),
            max_label=float(labels.max()),
            n_fractional=int((labels != np.floor(labels)).sum()),
            has_weights=train.judgments.query_weights is not None,
            stopping=stopping,
            n_blank=int(np.count_nonzero(np.maximum.reduceat(labels, train.groups.boundaries[:-1]) <= 0)),
            has_positions=train.positions is not None,
            categories=tuple(train.categories),
            judgments=train.judgments,
        )


def categorical_problems(place: str, names: Sequence[str], facts: Facts) -> list[Problem]:
    """Categorical features (codes without an order) among those that a ranker takes for quantities."""
    return [
        Problem(place, f"feature {name!r} is categorical: its codes have no order", "a feature of numbers")
        for name in names
        if name in facts.categories
    ]
