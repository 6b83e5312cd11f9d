"""The test rows behind a comparison: labels once, scores model by model, read from the run folders when asked for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ltr_harness._util.text import count_of
from ltr_harness.comparison.contrasts import SystemResult
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import Floats, Ints, QueryGroups
from ltr_harness.errors import DataError, MetricError
from ltr_harness.experiments.runs import Run
from ltr_harness.experiments.runs.run import TEST_SCORES
from ltr_harness.metrics import Binding, Metric


@dataclass(frozen=True, eq=False)
class TestRows:
    """Rows of all folds in one order, that of the folds and their files."""

    __test__ = False  # its name is about test data, not about pytest

    judgments: Judgments  # the labels of every row, and which rows form a query
    positions: Mapping[str, int]  # query id, as the comparison calls it, to its place in the judgments
    order: Ints  # (n_queries,), for each query of the comparison its place in the judgments
    runs: Mapping[str, Sequence[Sequence[Run]]]  # model to the runs of each of its replicates, fold by fold

    # what several sections ask for: the scores of each model's first replicate, and metrics that are bound
    _first: dict[str, Floats] = field(default_factory=dict)
    _bindings: dict[tuple[Metric, ...], Binding] = field(default_factory=dict)

    def scores(self, model: str, replicate: int = 0) -> Floats:
        """float64 (n_rows,), what one training of the model gave every row; refuses files that are about others."""
        if replicate == 0 and model in self._first:
            return self._first[model]
        parts = [run.score_columns("score")["score"] for run in self.runs[model][replicate]]
        scores, n = np.concatenate(parts).astype(np.float64, copy=False), self.judgments.groups.n_rows
        if scores.size != n:
            found = f"{count_of(scores.size, 'stored score')} for {count_of(n, 'test row')}"
            raise DataError(f"{model}: {found}; run the experiment again to restore them")
        if replicate == 0:
            self._first[model] = scores
        return scores

    def per_query(self, model: str, metrics: Sequence[Metric]) -> Floats:
        """(n_metrics, n_queries) in the comparison's order of queries, averaged over the model's replicates."""
        binding = self._bound(tuple(metrics))
        replicates = [binding.per_query(self.scores(model, at)) for at in range(len(self.runs[model]))]
        return np.asarray(np.mean(replicates, axis=0)[:, self.order])

    def per_query_of(
        self, models: Sequence[str], metrics: Sequence[Metric]
    ) -> tuple[dict[str, Floats], dict[Metric, str]]:
        """Each model's `per_query` of the metrics that can be computed, and why the others cannot."""
        refused = self._refused(metrics)
        possible = tuple(metric for metric in metrics if metric not in refused)
        means: dict[str, Floats] = {}
        if not possible:
            return {}, refused
        for model in models:
            replicates: list[Floats] = []
            for at in range(len(self.runs[model])):
                scores = self.scores(model, at)
                try:
                    replicates.append(self._bound(possible).per_query(scores))
                    continue
                except MetricError:  # scores that tie where a convention makes something random of it
                    refused |= self._refused_with(scores, possible)
                kept = [place for place, metric in enumerate(possible) if metric not in refused]
                possible = tuple(possible[place] for place in kept)
                if not possible:
                    return {}, refused
                means = {known: values[kept] for known, values in means.items()}
                replicates = [values[kept] for values in replicates]
                replicates.append(self._bound(possible).per_query(scores))
            means[model] = np.mean(replicates, axis=0)
        return {model: values[:, self.order] for model, values in means.items()}, refused

    def _refused(self, metrics: Sequence[Metric]) -> dict[Metric, str]:
        """The metrics that cannot be computed on these rows, and why."""
        first = np.flatnonzero(self.judgments.groups.has_rows)[:1]
        one_query = self.judgments.take(first)  # tells whether what a metric needs is there
        reasons = _reasons(metrics, lambda metric: Binding([metric], one_query))
        possible = tuple(metric for metric in metrics if metric not in reasons)
        try:
            self._bound(possible)
        except MetricError:  # that of some metric, for the labels of all queries
            reasons |= _reasons(possible, lambda metric: self._bound((metric,)))
        return reasons

    def _refused_with(self, scores: Floats, metrics: tuple[Metric, ...]) -> dict[Metric, str]:
        binding = self._bound(metrics)
        suspected, both = binding.refused_metrics(scores), zip(metrics, binding.metrics, strict=True)
        asked = [metric for metric, resolved in both if resolved in suspected]
        return _reasons(asked, lambda metric: self._bound((metric,)).per_query(scores))

    def rows_of(self, query_id: str) -> slice:
        """Where the rows of a query are."""
        boundaries, at = self.judgments.groups.boundaries, self.positions[query_id]
        return slice(int(boundaries[at]), int(boundaries[at + 1]))

    def missed_of(self, query_id: str) -> list[tuple[str, float]]:
        """Name and label of the documents of a query that were missed, best label first."""
        part = self.judgments.take(np.array([self.positions[query_id]])).missed
        if part is None:
            return []
        ids = part.document_ids
        named = ["a document" if ids is None else str(ids[at]) for at in range(part.labels.size)]
        return sorted(zip(named, part.labels.tolist(), strict=True), key=lambda one: -one[1])

    def _bound(self, metrics: tuple[Metric, ...]) -> Binding:
        if metrics not in self._bindings:
            self._bindings[metrics] = Binding(metrics, self.judgments)
        return self._bindings[metrics]


def _reasons(metrics: Sequence[Metric], attempt: Callable[[Metric], object]) -> dict[Metric, str]:
    """The metrics with which an attempt fails, and why."""
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
    """The rows of every model's runs; None where a run lacks scores or sizes, or a query is in several folds."""
    runs: dict[str, list[list[Run]]] = {}  # of each replicate in the order of their folds
    for system in systems:
        own = runs_of(system.name)
        if any(TEST_SCORES not in run.record.files for run in own):
            return None
        seeds = [
            {run.record.fold: run for run in own if str(run.record.seed) == one} for one in system.replicates
        ]
        if len(set(map(frozenset, seeds))) != 1 or not seeds[0]:
            return None
        runs[system.name] = [[folds[fold] for fold in sorted(folds)] for folds in seeds]
    reference = next(iter(runs.values()))[0]
    if any("rows" not in run.per_query for run in reference):
        return None
    if any(one.judgments_fingerprint != systems[0].judgments_fingerprint for one in systems):
        return None  # two retrievers' candidates
    names = []
    ids: list[Any] = systems[0].query_ids.tolist()
    known = set(ids)
    for run in reference:
        for query in run.per_query["query_id"].tolist():
            pooled = f"{run.record.fold}/{query}"
            names.append(pooled if pooled in known else str(query))
    if len(set(names)) < len(names):  # several folds test a query: it has scores of each one's models
        return None
    judgments = _joined([run.judgments for run in reference])
    positions = {name: at for at, name in enumerate(names)}
    return TestRows(judgments, positions, np.array([positions[query] for query in ids]), runs)


def _joined(parts: Sequence[Judgments]) -> Judgments:
    """The judgments of several folds as those of one set of queries."""
    documents = [ids for part in parts if (ids := part.pool.document_ids) is not None]
    candidates = [np.isin(np.arange(part.pool.groups.n_rows), part.pool_rows) for part in parts]
    return Judgments.checked(
        np.concatenate([part.pool.labels for part in parts]),
        QueryGroups.from_sizes(np.concatenate([part.pool.groups.sizes for part in parts])),
        document_ids=np.concatenate(documents) if len(documents) == len(parts) else None,
        retrieved=None if all(part.missed is None for part in parts) else np.concatenate(candidates),
        recurring=True,
    )
