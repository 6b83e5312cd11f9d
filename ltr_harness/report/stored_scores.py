"""The test rows behind a comparison: labels once, scores model by model, read from run folders on first use."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ltr_harness._util.text import count_of
from ltr_harness.comparison.contrasts import SystemResult
from ltr_harness.data.arrays import Floats, Ints
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.errors import DataError, MetricError
from ltr_harness.experiments.runs import Run
from ltr_harness.experiments.runs.run import PER_QUERY, TEST_SCORES
from ltr_harness.metrics import Binding, Metric


@dataclass(frozen=True, eq=False)
class TestRows:
    """Rows of all folds in one order, that of the folds and their files."""

    __test__ = False  # its name is about test data, not about pytest

    judgments: Judgments  # the labels of every row, and which rows form a query
    positions: Mapping[str, int]  # query id, as the comparison calls it, to its place in the judgments
    order: Ints  # (n_queries,), for each query of the comparison its place in the judgments
    runs: Mapping[str, Sequence[Sequence[Run]]]  # model to the runs of each of its replicates, fold by fold

    # for several sections: the scores of each model's first replicate, and bound metrics
    _first_scores: dict[str, Floats] = field(default_factory=dict)
    _bindings: dict[tuple[Metric, ...], Binding] = field(default_factory=dict)

    def scores(self, model: str, replicate: int = 0) -> Floats:
        """Return the scores that one training of the model gave to every row, float64 (n_rows,)."""
        if replicate == 0 and model in self._first_scores:
            return self._first_scores[model]
        parts = [run.score_columns("score")["score"] for run in self.runs[model][replicate]]
        scores, n = np.concatenate(parts).astype(np.float64, copy=False), self.judgments.groups.n_rows
        if scores.size != n:
            counts = f"{count_of(scores.size, 'stored score')} for {count_of(n, 'test row')}"
            raise DataError(f"{model}: {counts}; run the experiment again to restore them")
        if replicate == 0:
            self._first_scores[model] = scores
        return scores

    def per_query(self, model: str, metrics: Sequence[Metric]) -> Floats:
        """Return the values of metrics in the comparison's order of queries, averaged over replicates.

        Shape (n_metrics, n_queries).
        """
        binding = self._binding(tuple(metrics))
        replicates = [
            binding.per_query(self.scores(model, replicate)) for replicate in range(len(self.runs[model]))
        ]
        return np.asarray(np.mean(replicates, axis=0)[:, self.order])

    def per_query_of(
        self, models: Sequence[str], metrics: Sequence[Metric]
    ) -> tuple[dict[str, Floats], dict[Metric, str]]:
        """Return each model's `per_query` of the metrics that can be computed, and why the others cannot."""
        refused = self._refused_on_rows(metrics)
        means: dict[str, dict[Metric, Floats]] = {}
        for model in models:
            replicates = []
            for replicate in range(len(self.runs[model])):
                replicates.append(self._values(self.scores(model, replicate), metrics, refused))
            means[model] = {
                metric: np.mean([values[metric] for values in replicates], axis=0)
                for metric in metrics
                if metric not in refused
            }
        possible_metrics = [metric for metric in metrics if metric not in refused]
        if not possible_metrics:
            return {}, refused
        per_query = {
            model: np.stack([values[metric] for metric in possible_metrics])[:, self.order]
            for model, values in means.items()
        }
        return per_query, refused

    def _values(
        self, scores: Floats, metrics: Sequence[Metric], refused: dict[Metric, str]
    ) -> dict[Metric, Floats]:
        """Return the (n_queries,) values of each metric that is not refused; adds those that refuse these scores."""
        while possible_metrics := tuple(metric for metric in metrics if metric not in refused):
            try:
                return dict(
                    zip(possible_metrics, self._binding(possible_metrics).per_query(scores), strict=True)
                )
            except MetricError:  # scores that tie where a convention makes something random of it
                reasons = self._refused_on_scores(scores, possible_metrics)
                if not reasons:
                    raise
                refused |= reasons
        return {}

    def _refused_on_rows(self, metrics: Sequence[Metric]) -> dict[Metric, str]:
        """Return the metrics that cannot be computed on these rows, and why."""
        first = np.flatnonzero(self.judgments.groups.has_rows)[:1]
        one_query = self.judgments.take(first)  # shows whether a metric's inputs are present
        reasons = _reasons(metrics, lambda metric: Binding([metric], one_query))
        possible_metrics = tuple(metric for metric in metrics if metric not in reasons)
        try:
            self._binding(possible_metrics)
        except MetricError:  # that of some metric, for the labels of all queries
            reasons |= _reasons(possible_metrics, lambda metric: self._binding((metric,)))
        return reasons

    def _refused_on_scores(self, scores: Floats, metrics: tuple[Metric, ...]) -> dict[Metric, str]:
        """Return the metrics that cannot be computed from these scores, and why."""
        binding = self._binding(metrics)
        suspected_metrics = binding.refused_metrics(scores)
        suspects = [
            metric
            for metric, resolved in zip(metrics, binding.metrics, strict=True)
            if resolved in suspected_metrics
        ]
        return _reasons(suspects, lambda metric: self._binding((metric,)).per_query(scores))

    def rows_of(self, query_id: str) -> slice:
        """Return the rows of a query."""
        boundaries, position = self.judgments.groups.boundaries, self.positions[query_id]
        return slice(int(boundaries[position]), int(boundaries[position + 1]))

    def missed_of(self, query_id: str) -> list[tuple[str, float]]:
        """Return name and label of the documents of a query that were missed, best label first."""
        missed = self.judgments.take(np.array([self.positions[query_id]])).missed
        if missed is None:
            return []
        names = ["a document"] * missed.labels.size
        if missed.document_ids is not None:
            names = [str(document_id) for document_id in missed.document_ids]
        return sorted(zip(names, missed.labels.tolist(), strict=True), key=lambda pair: -pair[1])

    def _binding(self, metrics: tuple[Metric, ...]) -> Binding:
        if metrics not in self._bindings:
            self._bindings[metrics] = Binding(metrics, self.judgments)
        return self._bindings[metrics]


def _reasons(metrics: Sequence[Metric], attempt: Callable[[Metric], object]) -> dict[Metric, str]:
    """Return the metrics with which an attempt fails, and why."""
    reasons = {}
    for metric in metrics:
        try:
            attempt(metric)
        except MetricError as problem:
            reasons[metric] = str(problem)
    return reasons


def read_test_rows(
    systems: Sequence[SystemResult], runs_of: Callable[[str], Sequence[Run]]
) -> TestRows | None:
    """Return the rows of every model's runs; None where a run lacks scores or sizes, or a query is in several folds."""
    runs: dict[str, list[list[Run]]] = {}  # of each replicate in the order of their folds
    for system in systems:
        replicates = _replicates(system, runs_of(system.name))
        if replicates is None:
            return None
        runs[system.name] = replicates
    reference_runs = next(iter(runs.values()))[0]
    if any("rows" not in run.stored_columns(PER_QUERY) for run in reference_runs):
        return None
    if any(system.judgments_fingerprint != systems[0].judgments_fingerprint for system in systems):
        return None  # two retrievers' candidates
    query_ids: list[Any] = systems[0].query_ids.tolist()
    names = _query_names(reference_runs, query_ids)
    if len(set(names)) < len(names):  # several folds test a query: it has scores of each one's models
        return None
    positions = {name: position for position, name in enumerate(names)}
    judgments = _concatenate([run.judgments for run in reference_runs])
    order = np.array([positions[query_id] for query_id in query_ids])
    return TestRows(judgments, positions, order, runs)


def _replicates(system: SystemResult, runs: Sequence[Run]) -> list[list[Run]] | None:
    """Return the runs of each replicate in the order of their folds; None where scores are missing or folds differ."""
    if any(TEST_SCORES not in run.record.files for run in runs):
        return None
    by_seed = [
        {run.record.fold: run for run in runs if str(run.record.seed) == seed} for seed in system.replicates
    ]
    if len(set(map(frozenset, by_seed))) != 1 or not by_seed[0]:
        return None
    return [[folds[fold] for fold in sorted(folds)] for folds in by_seed]


def _query_names(runs: Sequence[Run], query_ids: Sequence[Any]) -> list[str]:
    """Return the comparison's names of the queries of all folds; a pooled query is called after its fold too."""
    compared_ids = set(query_ids)
    names = []
    for run in runs:
        for query_id in run.stored_columns(PER_QUERY)["query_id"].tolist():
            pooled_name = f"{run.record.fold}/{query_id}"
            names.append(pooled_name if pooled_name in compared_ids else str(query_id))
    return names


def _concatenate(parts: Sequence[Judgments]) -> Judgments:
    """Return the judgments of several folds as those of one set of queries."""
    document_ids = [ids for part in parts if (ids := part.pool.document_ids) is not None]
    candidates = [np.isin(np.arange(part.pool.groups.n_rows), part.pool_rows) for part in parts]
    return Judgments.checked(
        np.concatenate([part.pool.labels for part in parts]),
        QueryGroups.from_sizes(np.concatenate([part.pool.groups.sizes for part in parts])),
        document_ids=np.concatenate(document_ids) if len(document_ids) == len(parts) else None,
        retrieved=None if all(part.missed is None for part in parts) else np.concatenate(candidates),
        recurring=True,
    )
