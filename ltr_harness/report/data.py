"""What a report is made from, and the look-ups its sections share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ltr_harness.comparison.comparable import LABEL_FACTS
from ltr_harness.comparison.result import Paired, Summary
from ltr_harness.metrics.core.grammar import MetricName
from ltr_harness.report.blocks import ModelName
from ltr_harness.runs.record import Record

if TYPE_CHECKING:
    from ltr_harness.comparison import Comparison
    from ltr_harness.comparison.letters import Letters
    from ltr_harness.comparison.result import Entrant
    from ltr_harness.comparison.slices import SliceResult
    from ltr_harness.config.references import Reference
    from ltr_harness.metrics import TieAudit
    from ltr_harness.report.numbers.other_tools import Recomputed
    from ltr_harness.report.numbers.published import Published
    from ltr_harness.report.numbers.test_rows import TestRows
    from ltr_harness.runs import Run


@dataclass(frozen=True, eq=False)
class ReportData:
    """Everything a report may speak about.

    Attributes:
        comparison: which models, how good, how sure.
        runs: the finished runs behind it; empty when scores came from elsewhere.
        failures: records of the runs that failed.
        experiment_yaml: the resolved configuration, or None without one.
        title: what the reader calls this comparison.
        references: published figures of the models.
        sections: names of those to show, in this order; None for all.
    """

    comparison: Comparison
    runs: Sequence[Run]
    failures: Sequence[Record]
    experiment_yaml: str | None
    title: str
    references: tuple[Reference, ...] = ()
    sections: tuple[str, ...] | None = None

    def _repr_html_(self) -> str:
        from html import escape

        lost = "".join(
            f"<p>failed: {escape(f'{one.model}, fold {one.fold}, seed {one.seed}: {one.error}')}</p>"
            for one in self.failures
        )
        return self.comparison._repr_html_() + lost

    @property
    def primary(self) -> str:
        return self.comparison.primary

    @property
    def baseline(self) -> str:
        return self.comparison.baseline

    @cached_property
    def entrants(self) -> Mapping[str, Entrant]:
        return {entrant.name: entrant for entrant in self.comparison.entrants}

    @cached_property
    def colours(self) -> Mapping[str, int]:
        """Model to colour number, in the order of the comparison, so that charts and tables agree."""
        return {entrant.name: number for number, entrant in enumerate(self.comparison.entrants)}

    @property
    def models(self) -> tuple[str, ...]:
        """Model names, best first by the primary metric; those without a value last."""
        return self.comparison.ranking

    @cached_property
    def rivals(self) -> tuple[str, ...]:
        """All models but the baseline, best first."""
        return tuple(name for name in self.models if name != self.baseline)

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """Metric names, family by family, cutoffs ascending; those without a cutoff where they stand."""
        order: dict[str, list[tuple[int, str]]] = {}
        for metric in self.comparison.metrics:
            base, _, _, k = MetricName.of(metric)
            order.setdefault(base, []).append((0 if k is None else k, metric))
        return tuple(metric for names in order.values() for _, metric in sorted(names))

    @cached_property
    def families(self) -> dict[str, dict[int, str]]:
        """Metric family to {cutoff: metric name}, cutoffs ascending; only metrics that have one."""
        cutoffs: dict[str, dict[int, str]] = {}
        for metric in self.metrics:
            base, _, _, k = MetricName.of(metric)
            if k is not None:
                cutoffs.setdefault(base, {})[k] = metric
        return {base: dict(sorted(by_k.items())) for base, by_k in cutoffs.items()}

    def summary(self, model: str, metric: str) -> Summary:
        return self.comparison.summary(model, metric)

    def paired(self, model: str, metric: str) -> Paired | None:
        """The model against the baseline; None for the baseline itself."""
        return None if model == self.baseline else self.comparison.paired(model, metric)

    def higher_is_better(self, metric: str) -> bool:
        return self.comparison.higher_is_better[metric]

    def model_name(self, name: str) -> ModelName:
        return ModelName(name, self.colours[name], "baseline" if name == self.baseline else "")

    @cached_property
    def ordered_runs(self) -> tuple[Run, ...]:
        """The finished runs in a stable order: as the models are, then fold, then seed."""
        place = {name: number for number, name in enumerate(self.models)}

        def order(run: Run) -> tuple[int, str, str, int]:
            record = run.record
            return (place.get(record.model, len(place)), record.model, record.fold, record.seed)

        return tuple(sorted(self.runs, key=order))

    @cached_property
    def records(self) -> tuple[Record, ...]:
        """Records of the finished runs, in the same order."""
        return tuple(run.record for run in self.ordered_runs)

    def runs_of(self, model: str) -> tuple[Run, ...]:
        """The runs behind a model, which is called after its experiment too where two have its name."""
        source = self.entrants[model].source  # a model from elsewhere may have a run's name
        return tuple(
            run
            for run in self.ordered_runs
            if source in ("", run.record.experiment)
            and model in (run.record.model, f"{run.record.experiment}/{run.record.model}")
        )

    def records_of(self, model: str) -> tuple[Record, ...]:
        return tuple(run.record for run in self.runs_of(model))

    @cached_property
    def rows(self) -> TestRows | None:
        """The test rows with every model's scores; None where the runs did not store them."""
        from ltr_harness.report.numbers.test_rows import read_test_rows

        return read_test_rows([self.entrants[name] for name in self.models], self.runs_of)

    # What several sections and the JSON say, computed once.

    @cached_property
    def slices(self) -> tuple[SliceResult, ...]:
        """Every model against the baseline on parts of the query set."""
        from ltr_harness.comparison.slices import slice_results

        return slice_results(self.comparison)

    @cached_property
    def letters(self) -> Letters:
        """Which models differ from each other at the primary metric."""
        return self.comparison.letters()

    @cached_property
    def other_tools(self) -> tuple[Recomputed, ...]:
        """The metrics at the primary K under other tools' conventions."""
        from ltr_harness.report.numbers.other_tools import recomputed

        if self.rows is None:
            return ()
        k = MetricName.of(self.primary).k
        at_k = [name for name in self.metrics if MetricName.of(name).k == k and name != self.primary]
        return recomputed([self.primary, *at_k], self.models, self.rows)

    @cached_property
    def published(self) -> tuple[Published, ...]:
        """Every printed figure beside what is measured here, by its source's conventions and by ours."""
        from ltr_harness.report.numbers.published import beside_published

        if not self.references:
            return ()
        comparison = self.comparison
        return beside_published(self.references, self.models, self.rows, comparison.method, comparison.units)

    @cached_property
    def tie_audits(self) -> Mapping[str, TieAudit]:
        """Model to what the order of equal scores decides."""
        from ltr_harness.report.numbers.ties import tie_audits

        return {} if self.rows is None else tie_audits(self.primary, self.models, self.rows)

    @property
    def confidence_label(self) -> str:
        return f"{self.comparison.method.percent} %"

    @property
    def n_queries(self) -> int:
        return self.comparison.n_queries

    @property
    def n_undefined(self) -> int:
        """Queries without a value at the primary metric."""
        return self.comparison.n_undefined[self.primary]

    @property
    def n_empty(self) -> int | None:
        """Queries without relevant documents; None where the inputs do not tell."""
        known = LABEL_FACTS[1] in self.comparison.entrant(self.baseline).query_attributes
        return self.comparison.n_without_relevant if known else None

    @property
    def n_defined(self) -> int:
        return self.n_queries - self.n_undefined
