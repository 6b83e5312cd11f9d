"""Every number of a comparison, and looking them up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ltr_harness.catalog import did_you_mean
from ltr_harness.comparison.contrasts import Contrast, contrast
from ltr_harness.comparison.result import Entrant, Paired, Summary, value_bounds
from ltr_harness.errors import UsageError
from ltr_harness.stats.contributions import Codes
from ltr_harness.stats.method import Correction, Method, Test
from ltr_harness.stats.paired import paired_differences


@dataclass(frozen=True, eq=False)
class Compared:
    """The values of a `Comparison`, which documents them; what words and tables are made from."""

    entrants: tuple[Entrant, ...]
    metrics: tuple[str, ...]
    primary: str
    baseline: str
    summaries: tuple[Summary, ...]
    pairs: tuple[Paired, ...]
    method: Method
    families: tuple[str, ...]
    n_queries: int
    n_without_relevant: int
    n_undefined: Mapping[str, int]
    notes: tuple[str, ...] = ()
    units: Codes | None = None

    @property
    def models(self) -> tuple[str, ...]:
        """Names, in the order given."""
        return tuple(entrant.name for entrant in self.entrants)

    @property
    def test(self) -> Test:
        return self.method.test

    @property
    def correction(self) -> Correction:
        return self.method.correction

    @property
    def confidence(self) -> float:
        return self.method.confidence

    @property
    def family(self) -> str:
        """The families of hypotheses, in words.

        Such as ``"3 comparisons: 3 models against lgbm-lambdarank at ndcg@10"``.
        """
        return "; ".join(self.families)

    @property
    def higher_is_better(self) -> Mapping[str, bool]:
        """Metric to direction."""
        return {metric: self.entrants[0].higher_is_better[metric] for metric in self.metrics}

    @property
    def knows_relevant(self) -> bool:
        """Whether the inputs told how many relevant documents each query has."""
        return any("n_relevant" in entrant.query_attributes for entrant in self.entrants)

    def entrant(self, model: str) -> Entrant:
        """One model's per-query values."""
        for entrant in self.entrants:
            if entrant.name == model:
                return entrant
        raise UsageError(f"no model {model!r} in this comparison; {did_you_mean(model, self.models)}")

    def summary(self, model: str, metric: str | None = None) -> Summary:
        """One model at one metric, the primary one if none is named.

        Raises:
            UsageError: no such model or metric.
        """
        name = self._metric(metric)
        self.entrant(model)
        return self._summaries[model, name]

    def paired(self, model: str, metric: str | None = None) -> Paired:
        """One model against the baseline at one metric, the primary one if none is named.

        Raises:
            UsageError: no such model or metric, or the model is the baseline.
        """
        name = self._metric(metric)
        self.entrant(model)
        if model == self.baseline:
            raise UsageError(f"{model} is the baseline: there is nothing to compare it with")
        return self._pairs[model, name]

    def query_differences(self, model: str, metric: str | None = None) -> NDArray[np.float64]:
        """(n_queries,): model minus baseline, query by query in the entrants' order; NaN where undefined."""
        name = self._metric(metric)
        values = self.entrant(model).per_query(name)
        return paired_differences(values, self.entrant(self.baseline).per_query(name))

    def n_independent(self, pair: Paired) -> int:
        """How many draws of chance a pair has: its units, or its queries where each is its own."""
        if self.units is None:
            return pair.n
        defined = ~np.isnan(self.query_differences(pair.model, pair.metric))
        return int(np.unique(self.units[defined]).size)

    def value_range(self, metric: str | None = None) -> float:
        """How far apart two values of a metric can be: the largest difference of a query; infinite if unknown."""
        low, high = value_bounds(self.entrants, self._metric(metric))
        return high - low

    def all_pairs(self, metric: str | None = None) -> tuple[Paired, ...]:
        """Every model against every other at one metric, as one family: n (n - 1) / 2 comparisons.

        The better mean comes first in each pair, so differences have one sign.
        """
        name = self._metric(metric)
        sign = -1 if self.higher_is_better[name] else 1
        means = {entrant.name: sign * self._summaries[entrant.name, name].mean for entrant in self.entrants}
        ordered = sorted(
            self.entrants, key=lambda entrant: (np.isnan(means[entrant.name]), means[entrant.name])
        )
        family = [
            Contrast(one, other, name) for place, one in enumerate(ordered) for other in ordered[place + 1 :]
        ]
        return contrast([family], self.higher_is_better, self.method, self.units)

    @cached_property
    def ranking(self) -> tuple[str, ...]:
        """Models by their mean at the primary metric, best first; equal means in the order given.

        Where models are undefined on different queries, by their difference from the baseline, which is of the same
        queries for both, as the verdict is.
        """
        sign = -1 if self.higher_is_better[self.primary] else 1
        if self.on_other_queries(self.primary):
            differences = {pair.model: pair.difference for pair in self.pairs if pair.metric == self.primary}
            values = {self.baseline: 0.0} | differences
        else:
            values = {model: self.summary(model).mean for model in self.models}
        return tuple(sorted(self.models, key=lambda model: (np.isnan(values[model]), sign * values[model])))

    def on_other_queries(self, metric: str) -> tuple[Paired, ...]:
        """The pairs at a metric of which one model has values for queries where the other has none."""
        return tuple(
            pair
            for pair in self.pairs
            if pair.metric == metric
            and not pair.n == self.summary(pair.model, metric).n == self.summary(pair.other, metric).n
        )

    def _metric(self, metric: str | None) -> str:
        name = self.primary if metric is None else str(metric)
        if name not in self.metrics:
            raise UsageError(f"{name} was not compared; {did_you_mean(name, self.metrics)}")
        return name

    @cached_property
    def _summaries(self) -> dict[tuple[str, str], Summary]:
        return {(summary.model, summary.metric): summary for summary in self.summaries}

    @cached_property
    def _pairs(self) -> dict[tuple[str, str], Paired]:
        return {(pair.model, pair.metric): pair for pair in self.pairs}
