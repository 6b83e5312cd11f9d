"""Inspection of a model: permutation importance, reasons for an order, quality by number of trees.

Functions of a model and labelled rows; nothing is trained. The rows should be ones that the model was not trained
on: the test split, or new ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltr_harness.dataset import RankingDataset
from ltr_harness.errors import DataError
from ltr_harness.metrics import Metric, bind
from ltr_harness.rankers.adapters import TreeModel
from ltr_harness.rankers.ranker import FittedModel
from ltr_harness.stats.contributions import Contributions
from ltr_harness.stats.families import mean_intervals
from ltr_harness.stats.method import Method

_POINTS = 40


class FeatureEffect(NamedTuple):
    """What a metric loses when a feature says nothing any more."""

    feature: str
    # mean over queries of the metric's value less its value with the feature shuffled; 0 for a feature that the
    # model does not use
    loss: float
    low: float  # low, high: interval of the mean over queries
    high: float


def permutation_importance(
    model: FittedModel,
    split: RankingDataset,
    metric: Metric,
    *,
    repeats: int = 3,
    seed: int = 0,
    confidence: float = 0.95,
) -> list[FeatureEffect]:
    """The loss of a metric when one feature's values are shuffled among all rows, the largest first.

    Features that say the same thing stand in for each other, so that each alone seems to matter little. The intervals
    are over queries, of the mean over `repeats` shuffles.
    """
    binding = bind([metric], split.judgments)
    better = 1.0 if metric.higher_is_better else -1.0
    before = binding.per_query(model.score(split.features))[0]
    used = (
        model.importance("split") > 0
        if isinstance(model, TreeModel)
        else np.ones(split.n_features, dtype=bool)
    )
    features = np.array(split.features)
    losses = np.zeros((split.n_queries, split.n_features))
    for column in np.flatnonzero(used).tolist():
        kept = features[:, column].copy()
        for repeat in range(repeats):
            rng = np.random.Generator(np.random.Philox(key=[seed, column * repeats + repeat]))
            features[:, column] = kept[rng.permutation(split.n_rows)]
            losses[:, column] += better * (before - binding.per_query(model.score(features))[0]) / repeats
        features[:, column] = kept
    sample = Contributions.of(losses)
    ends = mean_intervals(sample, Method(confidence=confidence))
    effects = [
        FeatureEffect(name, *facts)
        for name, *facts in zip(
            split.feature_names, *(part.tolist() for part in (sample.mean, *ends)), strict=True
        )
    ]
    return sorted(effects, key=lambda effect: -effect.loss)


class Reason(NamedTuple):
    """One feature's part in the difference between two rows' scores."""

    feature: str
    of_a: float  # of_a, of_b: its value in each row
    of_b: float
    difference: float  # what it adds to a's score less what it adds to b's


def why(
    model: FittedModel, split: RankingDataset, query: str, a: int, b: int
) -> tuple[float, float, list[Reason]]:
    """Both scores of documents a and b of a query, and what each feature adds to their difference, the largest first.

    The differences are those of SHAP values (`TreeModel.contributions`) and sum to the difference of the scores;
    features that make no difference are left out. Documents are numbered from 0 in their query.

    Raises:
        DataError: the model has no trees, or there is no such query or row.
    """
    if not isinstance(model, TreeModel):
        raise DataError("only models of trees divide their scores among features; expected a boosted ranker")
    places = np.flatnonzero(split.groups.ids.astype(str) == str(query))
    if not places.size:
        raise DataError(
            f"there is no query {query!r} among the {split.n_queries:,} of {split.source or 'the data'}"
        )
    first, size = int(split.groups.boundaries[places[0]]), int(split.groups.sizes[places[0]])
    for row in (a, b):
        if not 0 <= row < size:
            raise DataError(f"query {query!r} has no row {row}; expected 0 to {size - 1}")
    rows = np.ascontiguousarray(split.features[[first + a, first + b]])
    shares = model.contributions(rows)
    score_a, score_b = model.score(rows).tolist()
    difference = shares[0, :-1] - shares[1, :-1]
    reasons = [
        Reason(name, float(rows[0, column]), float(rows[1, column]), float(difference[column]))
        for column, name in enumerate(split.feature_names)
        if difference[column] != 0
    ]
    return score_a, score_b, sorted(reasons, key=lambda reason: -abs(reason.difference))


class FirstRounds(NamedTuple):
    """The model's first rounds alone."""

    rounds: int
    means: tuple[float, ...]


def quality_by_trees(
    model: FittedModel,
    split: RankingDataset,
    metrics: Sequence[Metric],
    rounds: Sequence[int] | None = None,
) -> list[FirstRounds]:
    """The metrics' means of the first trees alone.

    Unless given, 40 numbers of rounds, evenly spaced on a logarithmic scale; all where there are no more.

    Raises:
        DataError: the model has no trees.
    """
    if not isinstance(model, TreeModel) or not model.best_round:
        raise DataError("only models of trees can be cut; expected a boosted ranker")
    if rounds is None:
        last = model.best_round
        spaced = np.geomspace(1, last, _POINTS) if last > _POINTS else np.arange(1, last + 1)
        rounds = np.unique(spaced.round().astype(int)).tolist()
    binding = bind(metrics, split.judgments)
    return [
        FirstRounds(cut, tuple(binding.means(model.score_after(split.features, cut)).tolist()))
        for cut in rounds
    ]


def microseconds_per_row(model: FittedModel, features: NDArray[np.float32], repeats: int = 3) -> float:
    """Time to score a row on this machine: the fastest of a few passes over all rows (n_rows, n_features)."""
    import time

    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        model.score(features)
        seconds.append(time.perf_counter() - started)
    return 1e6 * min(seconds) / max(len(features), 1)
