"""Inspection of a model on rows it was not trained on: feature importance, reasons, quality by trees, latency."""

import math
import re
import time
import timeit
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ltr_harness._util.json_values import none_if_undefined
from ltr_harness.comparison.stats.cluster_sums import ClusterSums
from ltr_harness.comparison.stats.families import mean_intervals
from ltr_harness.comparison.stats.method import Method
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.features import Features, SparseFeatures
from ltr_harness.errors import DataError, Problem, UsageError
from ltr_harness.experiments.runs.record import Latency
from ltr_harness.metrics import Metric, bind
from ltr_harness.models.ranker import FittedModel
from ltr_harness.models.tree_model import TreeModel

_POINTS = 40


class FeatureEffect(NamedTuple):
    """The loss of a metric without the information of a feature."""

    feature: str
    loss: float  # mean over queries, by shuffling its values; 0 for a feature that the model does not use
    low: float  # low, high: interval of the mean over queries
    high: float


def permutation_importance(
    model: FittedModel, split: RankingDataset, metric: Metric, *, repeats: int = 3
) -> list[FeatureEffect]:
    """Return the loss of a metric when one feature's values are shuffled among all rows, the largest first."""
    binding = bind([metric], split.judgments)
    better = 1.0 if metric.higher_is_better else -1.0
    before = binding.per_query(model.score_split(split))[0]
    used = model.importance("split") > 0 if isinstance(model, TreeModel) else np.ones(split.n_features, bool)
    features = np.array(split.features)
    losses = np.zeros((split.n_queries, split.n_features))
    for column in np.flatnonzero(used).tolist():
        values = features[:, column].copy()
        for repeat in range(repeats):
            rng = np.random.Generator(np.random.Philox(key=[0, column * repeats + repeat]))
            features[:, column] = values[rng.permutation(split.n_rows)]
            losses[:, column] += better * (before - binding.per_query(model.score(features))[0]) / repeats
        features[:, column] = values
    sample = ClusterSums.of(losses)
    numbers = [sample.mean, *mean_intervals(sample, Method())]
    effects = map(FeatureEffect, split.feature_names, *(part.tolist() for part in numbers))
    return sorted(effects, key=lambda effect: -effect.loss)


class Reason(NamedTuple):
    """One feature's part in the difference between two rows' scores."""

    feature: str
    of_a: float  # of_a, of_b: its value in each row
    of_b: float
    difference: float  # what it adds to a's score less what it adds to b's


def score_difference(
    model: FittedModel, split: RankingDataset, query: str, a: int, b: int
) -> tuple[float, float, list[Reason]]:
    """Return both scores of documents a and b (from 0) of a query, and each feature's part in the difference (SHAP)."""
    if not isinstance(model, TreeModel):
        raise DataError("only models of trees divide their scores among features; expected a boosted ranker")
    places = np.flatnonzero(split.groups.ids.astype(str) == str(query))
    if not places.size:
        queries = f"the {split.n_queries:,} of {split.source or 'the data'}"
        raise DataError(f"there is no query {query!r} among {queries}")
    first, size = int(split.groups.boundaries[places[0]]), int(split.groups.sizes[places[0]])
    for row in (a, b):
        if not 0 <= row < size:
            expected = f"expected 0 to {size - 1}" if size else "all of its documents were missed"
            raise DataError(f"query {query!r} has no row {row}; {expected}")
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


class QualityAtRounds(NamedTuple):
    """The metrics of a model's first rounds alone."""

    rounds: int
    means: tuple[float, ...]


def quality_by_trees(
    model: FittedModel, split: RankingDataset, metrics: Sequence[Metric], rounds: Sequence[int] | None = None
) -> list[QualityAtRounds]:
    """Return the metrics' means of the first trees: at 40 numbers of rounds, evenly spaced by factors, unless given."""
    if not isinstance(model, TreeModel) or not model.best_round:
        raise DataError("only models of trees can be cut; expected a boosted ranker")
    if rounds is None:
        last = model.best_round
        spaced = np.geomspace(1, last, _POINTS) if last > _POINTS else np.arange(1, last + 1)
        rounds = np.unique(spaced.round().astype(int)).tolist()
    binding, after = bind(metrics, split.judgments), model.score_after
    return [QualityAtRounds(cut, tuple(binding.means(after(split.features, cut)).tolist())) for cut in rounds]


def microseconds_per_row(model: FittedModel, features: Features, repeats: int = 3) -> float:
    """Return the time to score a row here: the fastest of a few passes over all rows (n_rows, n_features).

    Of sparse features, over the first rows that fit a block.
    """
    if isinstance(features, SparseFeatures):
        _, features = next(features.blocks())
    seconds = timeit.repeat(lambda: model.score(features), repeat=repeats, number=1)
    return 1e6 * min(seconds) / max(len(features), 1)


DOCUMENTS = (10, 100, 1000)  # lengths of the lists that are looked at
TYPICAL = 100  # the length that first rounds and budgets go by
ENOUGH = 100  # calls below which nothing is said of one call in a hundred

_STEP = 4  # between the rounds at which a training's record cuts: all cost a third of scoring the split once
_SHARE = 0.01  # of a training's seconds that its latencies may take
_LONGEST = 0.5  # seconds, however long the training was
_LEAST = 4  # calls, however little time there is; the first warms up


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that at least `percent` of the values do not exceed (nearest rank)."""
    return sorted(values)[max(math.ceil(len(values) * percent / 100), 1) - 1]


def latency(
    score: Callable[[Features], Any],
    features: Features,
    documents: int = TYPICAL,
    *,
    calls: int = 500,
    seconds: float = 1.0,
    least: int = _LEAST,
    budget: float = math.inf,
) -> Latency:
    """Time calls on lists of rows (n_rows, n_features), until `seconds` are over, or p99 is known or out of reach."""
    draw = np.random.Generator(np.random.Philox(documents))
    warm_up = max(calls // 20, 1)
    microseconds: list[float] = []
    too_slow = 0
    started = time.perf_counter()
    for call in range(calls + warm_up):
        rows = np.asarray(features[draw.integers(len(features), size=documents)])
        before = time.perf_counter_ns()
        score(rows)
        microseconds.append((time.perf_counter_ns() - before) / 1000)
        too_slow += call >= warm_up and microseconds[-1] > budget
        if too_slow > calls // 100 or (call + 1 >= least and time.perf_counter() - started > seconds):
            break
    timed = microseconds[min(warm_up, len(microseconds) // _LEAST) :]
    p99 = percentile(timed, 99) if len(timed) >= ENOUGH else None
    return Latency(documents=documents, calls=len(timed), p50=percentile(timed, 50), p99=p99)


def first_rounds(model: FittedModel, rounds: int | None) -> Callable[[Features], Any]:
    """Return the score function of a model's first rounds; of the whole model where `rounds` is None."""
    if rounds is None or not isinstance(model, TreeModel):
        return model.score
    return partial(model.score_after, rounds=rounds)


def training_latencies(
    model: TreeModel,
    single_threaded: TreeModel,
    split: RankingDataset,
    metric: Metric,
    mean: float,
    seconds: float,
) -> list[Latency]:
    """Return a record's latencies: all lengths by the model on one thread, the typical by its first rounds too."""
    last = model.best_round or 0
    if not last:
        return []
    cuts = [last // _STEP**n for n in range(1, last.bit_length()) if last // _STEP**n]
    first = quality_by_trees(model, split, [metric], cuts)
    listed = [(last, documents, mean) for documents in DOCUMENTS]
    listed += [(cut.rounds, TYPICAL, cut.means[0]) for cut in first]
    seconds_each = min(_SHARE * seconds, _LONGEST) / len(listed)
    latencies = []
    for rounds, documents, value in listed:
        measured = latency(
            partial(single_threaded.score_after, rounds=rounds),
            split.features,
            documents,
            seconds=seconds_each,
        )
        latencies.append(measured.model_copy(update={"rounds": rounds, "mean": none_if_undefined(value)}))
    return latencies


_MICROSECONDS = {"us": 1.0, "µs": 1.0, "μs": 1.0, "ms": 1000.0, "s": 1_000_000.0}
_NUMBER = r"[0-9]+\.?[0-9]*|\.[0-9]+"
_BUDGET = re.compile(rf"({_NUMBER}) ?({'|'.join(_MICROSECONDS)})")


class BudgetCandidate(NamedTuple):
    """A model, or its first rounds alone."""

    run: int  # its place among the runs
    rounds: int | None  # how many; None for a model without rounds
    mean: float  # of the metric that decides


def parse_budget(text: str) -> float:
    """Return the microseconds of a number with its unit."""
    match = _BUDGET.fullmatch(text.strip())
    if match is None or not (budget := float(match[1]) * _MICROSECONDS[match[2]]):
        found = "has no unit" if re.fullmatch(_NUMBER, text.strip()) else "is not a budget"
        expected = "a time above 0 in us, ms or s, such as 800us, 5ms or 0.2s"
        raise UsageError(Problem(f"--budget {text}", found, expected))
    return budget


def best_first(candidates: Sequence[BudgetCandidate], higher_is_better: bool) -> list[BudgetCandidate]:
    """Return the candidates with a mean, the best first; of equal ones that with fewer rounds."""
    sign = -1.0 if higher_is_better else 1.0
    defined = [candidate for candidate in candidates if not math.isnan(candidate.mean)]
    return sorted(
        defined, key=lambda candidate: (sign * candidate.mean, candidate.rounds or 0, candidate.run)
    )


def best_within(
    ordered: Sequence[BudgetCandidate], timed: Callable[[BudgetCandidate], Latency], budget: float
) -> BudgetCandidate | None:
    """Return the first of ordered candidates whose p99 is within the budget in microseconds, or None."""
    too_slow: dict[int, int] = {}  # by run, the rounds beyond which nothing is timed
    for candidate in ordered:
        rounds = candidate.rounds or 0
        if rounds < too_slow.get(candidate.run, rounds + 1):
            measured = timed(candidate)
            if measured.p99 is not None and measured.p99 <= budget:
                return candidate
            too_slow[candidate.run] = rounds
    return None
