"""The input of a report, and the look-ups that its sections share."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property, wraps
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from ltr_harness._util.display import Displayed
from ltr_harness._util.text import count_of
from ltr_harness.comparison.comparability import LABEL_FACTS
from ltr_harness.comparison.comparison import Comparison, n_weightless
from ltr_harness.comparison.contrasts import Letters, Paired
from ltr_harness.comparison.latency import ModelLatency
from ltr_harness.comparison.main_table import interval_heading, joint_word
from ltr_harness.comparison.slices import SliceResult, slice_results
from ltr_harness.errors import Caution, DataError, HarnessError, Problem
from ltr_harness.experiments.compare.compare import compare
from ltr_harness.experiments.compare.next_gain import NextGain, next_gains
from ltr_harness.experiments.runs import Run, find_runs
from ltr_harness.experiments.runs.record import Record
from ltr_harness.experiments.runs.run import OTHER_PLANS, plan_in_words
from ltr_harness.metrics import Metric, parse_metric
from ltr_harness.metrics.core.grammar import MetricName
from ltr_harness.metrics.core.headroom import LITTLE_TO_GAIN
from ltr_harness.report.blocks import Best, Block, Choice, ModelName
from ltr_harness.report.formats import file_names
from ltr_harness.report.stored_scores import TestRows, read_test_rows

if TYPE_CHECKING:
    from ltr_harness.experiments.config import Outline

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class ReportData(Displayed):
    """Everything that a report may mention."""

    comparison: Comparison  # which models, how good, how sure
    runs: Sequence[Run]  # the finished ones behind it; empty when scores came from elsewhere
    failures: Sequence[Record]
    experiment_yaml: str | None  # the resolved configuration
    title: str  # what the reader calls this comparison
    sections: tuple[str, ...] | None = None  # names of those to show, in this order; None for all
    next_gains: tuple[NextGain, ...] = ()  # of the models that are studied
    latencies: tuple[ModelLatency, ...] = ()  # of all models, best first, where they were given

    @property
    def primary(self) -> str:
        return self.comparison.primary

    @property
    def baseline(self) -> str:
        return self.comparison.baseline

    @property
    def models(self) -> tuple[str, ...]:
        """Best first by the primary metric; those without a value last."""
        return self.comparison.ranking

    @cached_property
    def rivals(self) -> tuple[str, ...]:
        """All models but the baseline, best first."""
        return tuple(name for name in self.models if name != self.baseline)

    @cached_property
    def contenders(self) -> tuple[str, ...]:
        """The rivals that are not worse than the baseline, best first; all of them where each is worse."""
        not_worse = tuple(name for name in self.rivals if self.comparison.paired(name).verdict != "worse")
        return not_worse or self.rivals

    def joint(self, metric: str | None = None) -> str:
        """Return "joint ", to stand before a noun, where several models are compared; "" for a single comparison."""
        return joint_word(self.comparison, metric)

    def p_label(self, metric: str | None = None) -> str:
        """Return the heading of p-values at a metric, `joint p` where they are of several comparisons together."""
        return f"{self.joint(metric)}p"

    def interval_label(self, metric: str | None = None) -> str:
        """Return the heading of intervals of differences at a metric."""
        return interval_heading(self.comparison, metric)

    @property
    def weighted(self) -> str:
        """The word "weighted ", to stand before a noun, where queries have weights; "" where each counts once."""
        return "weighted " if self.comparison.weights is not None else ""

    @cached_property
    def colours(self) -> Mapping[str, int]:
        """Model to colour number, so that charts and tables agree: 0 for the baseline, then as they are compared."""
        rivals = [name for name in self.comparison.models if name != self.baseline]
        return {name: number for number, name in enumerate([self.baseline, *rivals])}

    @property
    def confidence_label(self) -> str:
        return f"{self.comparison.method.percent} %"

    @property
    def n_undefined(self) -> int:
        """Queries without a value at the primary metric."""
        return self.comparison.n_undefined[self.primary]

    @property
    def n_defined(self) -> int:
        """Queries that count, and have a value for all models."""
        values = [self.comparison.system(name).per_query(self.primary) for name in self.models]
        undefined = np.isnan(values).any(axis=0)
        return int(np.count_nonzero(~undefined & (self.comparison.sampling.of_queries(undefined.size) > 0)))

    @property
    def n_weightless(self) -> int:
        """Queries of weight 0."""
        return n_weightless(self.comparison)

    @property
    def n_empty(self) -> int | None:
        """Queries without relevant documents; None where the inputs do not say."""
        is_known = LABEL_FACTS[1] in self.comparison.system(self.baseline).query_attributes
        return self.comparison.n_without_relevant if is_known else None

    @cached_property
    def over_seeds(self) -> bool:
        """True where a verdict at the primary metric is over queries and seeds together."""
        return any(self.comparison.paired(name).includes_seeds for name in self.rivals)

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """Metric names, family by family, cutoffs ascending; those without a cutoff where they stand."""
        order: dict[str, list[tuple[int, str]]] = {}
        for metric in self.comparison.metrics:
            base, _, _, k = MetricName.of(metric)
            cutoff = 0 if k is None else k
            order.setdefault(base, []).append((cutoff, metric))
        return tuple(metric for names in order.values() for _, metric in sorted(names))

    @cached_property
    def own_metrics(self) -> dict[str, Metric]:
        """Metrics that the harness defines, by their name; scores may come with numbers of a metric from outside."""
        definitions = {}
        for name in self.metrics:
            with suppress(HarnessError):
                definitions[name] = parse_metric(name)
        return definitions

    def paired(self, model: str, metric: str) -> Paired | None:
        """Return the model against the baseline; None for the baseline itself."""
        return None if model == self.baseline else self.comparison.paired(model, metric)

    def best(self, metric: str) -> Best:
        """Return the good end of a column of the metric."""
        return "max" if self.comparison.higher_is_better[metric] else "min"

    def mean(self, model: str) -> float:
        """Return a model's mean at the primary metric."""
        return self.comparison.summary(model).mean

    def model_name(self, name: str) -> ModelName:
        return ModelName(name, self.colours[name], "baseline" if name == self.baseline else "")

    @cached_property
    def ordered_runs(self) -> tuple[Run, ...]:
        """The finished runs in a stable order: by model, best first, then by fold and seed."""
        rank = {name: number for number, name in enumerate(self.models)}
        by_seed = sorted(self.runs, key=attrgetter("record.model", "record.fold", "record.seed"))
        return tuple(sorted(by_seed, key=lambda run: rank.get(run.record.model, len(rank))))

    @cached_property
    def records(self) -> tuple[Record, ...]:
        """Records of the finished runs, in the same order."""
        return tuple(run.record for run in self.ordered_runs)

    def runs_of(self, model: str) -> tuple[Run, ...]:
        """Return the runs of a model; its name begins with its experiment where two experiments have that model."""
        source = self.comparison.system(model).source  # a model from elsewhere may have a run's name
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
        return read_test_rows([*map(self.comparison.system, self.models)], self.runs_of)

    @cached_property
    def slices(self) -> tuple[SliceResult, ...]:
        """Every model against the baseline on parts of the query set."""
        return slice_results(self.comparison)

    @cached_property
    def letters(self) -> Letters:
        """The letters of the models at the primary metric: models that share one are not shown to differ."""
        return self.comparison.letters()


def same_k(data: ReportData) -> list[str]:
    """Return the primary metric, then the others of its K, which a page offers instead."""
    k = MetricName.of(data.primary).k
    return list(
        dict.fromkeys([data.primary, *(metric for metric in data.metrics if MetricName.of(metric).k == k)])
    )


def at_each_metric(data: ReportData, blocks_at: Callable[[str, str], Sequence[Block]]) -> list[Block]:
    """Return blocks at the primary metric, and on the page a choice of all others of its K; none where it has none.

    `blocks_at` gets the metric, and the suffix of the names of its tables and charts.
    """
    blocks = {}
    for metric, name in file_names(same_k(data)).items():
        suffix = "" if metric == data.primary else f"_{name}"
        blocks[metric] = tuple(blocks_at(metric, suffix))
    if not blocks[data.primary]:
        return []
    options = tuple((metric, metric_blocks) for metric, metric_blocks in blocks.items() if metric_blocks)
    return [Choice("Metric", options)] if len(options) > 1 else [*blocks[data.primary]]


def computed_once(compute: Callable[[ReportData], T]) -> Callable[[ReportData], T]:
    """Cache a function whose value several sections and the JSON need: computed once for each report."""
    values: WeakKeyDictionary[ReportData, T] = WeakKeyDictionary()  # a report is not kept alive by its values

    @wraps(compute)
    def cached(data: ReportData) -> T:
        if data not in values:
            values[data] = compute(data)
        return values[data]

    return cached


def experiment_data(
    experiment: "Outline",
    text: str,  # the whole configuration as YAML
    runs_read: Sequence[Run],
    baseline: str | None = None,
    *,
    ledger: bool = True,
) -> ReportData | None:
    """Return the comparison that an experiment's `compare:` section describes; None if no run has finished."""
    studied = experiment.studied
    compared_runs = [run for run in runs_read if run.record.model not in studied]
    finished = {run.record.model for run in compared_runs if run.record.status == "complete"}
    if not finished:
        return None
    settings = experiment.compare
    declared = baseline or settings.baseline
    comparison = compare(
        *compared_runs,
        # `compare` refuses a name that is no model, and lists the models
        baseline=None if declared in experiment.models and declared not in finished else declared,
        ledger=ledger and settings.ledger,
        **asdict(settings.method),
    )
    cautions = []
    if experiment.left_out:
        text = f"experiment.yaml has parts that no longer exist and are left out: {', '.join(experiment.left_out)}"
        cautions.append(Caution("left-out-section", "note", text))
    if comparison.baseline != declared:
        text = f"the baseline {declared} has no finished run, so {comparison.baseline} is used"
        cautions.append(Caution("baseline-missing", "warning", text))
    return replace(
        _report_data(comparison, compared_runs, cautions, runs_read),
        next_gains=tuple(next_gains(runs_read, studied, settings.method)),
        experiment_yaml=text,
        title=experiment.name,
        sections=experiment.report.sections,
    )


def stored_data(folders: Sequence[Path], baseline: str | None = None, *, ledger: bool = True) -> ReportData:
    """Return the comparison of the runs in these folders, which must have one question."""
    runs_read = [run for folder in folders for run in find_runs(folder)]
    plans = {folder: text for folder in folders if folder.is_dir() and (text := plan_in_words(folder))}
    _refuse_unfinished(folders, runs_read, plans)
    configuration = folders[0] / "experiment.yaml"
    if len(folders) == 1 and configuration.exists():
        from ltr_harness.experiments.config import read_outline

        outline, text = read_outline(configuration), configuration.read_text(encoding="utf-8-sig")
        data = experiment_data(outline, text, runs_read, baseline, ledger=ledger)
        assert data is not None
    else:
        data = _report_data(compare(*runs_read, baseline=baseline, ledger=ledger), runs_read)
    cautions = [
        Caution("unfinished-plan", "warning", text, OTHER_PLANS, place=str(folder))
        for folder, text in plans.items()
    ]
    comparison = replace(data.comparison, cautions=(*cautions, *data.comparison.cautions))
    return replace(data, comparison=comparison)


def _refuse_unfinished(folders: Sequence[Path], runs_read: Sequence[Run], plans: Mapping[Path, str]) -> None:
    if any(run.record.status == "complete" for run in runs_read):
        return
    DataError.refuse(
        Problem(str(folder), f"no finished runs: {text}", cure=OTHER_PLANS) for folder, text in plans.items()
    )
    raise DataError(f"no finished runs in {', '.join(map(str, folders))}")


def _report_data(
    comparison: Comparison,
    runs_read: Sequence[Run],
    cautions: Sequence[Caution] = (),
    trained: Sequence[Run] = (),  # those of a study among them, which fail as well
) -> ReportData:
    """Return the report of a comparison of runs, with the cautions of their data and training beside its numbers."""
    runs = [run for run in runs_read if run.record.status == "complete"]
    cautions_of_data = dict.fromkeys(
        caution
        for run in runs
        for caution in run.record.data_cautions
        # the comparison has a caution of its own on how little there is to gain
        if caution.severity != "note" and caution.kind != LITTLE_TO_GAIN
    )
    # one that stands before the numbers is the first, also where programs read them
    leading = () if comparison.seeds_caution is None else (comparison.seeds_caution,)
    below = [caution for caution in comparison.cautions if caution not in leading]
    all_cautions = (*leading, *cautions_of_data, *_training_cautions(runs), *cautions, *below)
    failures = [run.record for run in trained or runs_read if run.record.status == "failed"]
    comparison = replace(comparison, cautions=all_cautions)
    return ReportData(comparison, runs, failures, None, title_of(comparison, runs))


def title_of(comparison: Comparison, runs: Sequence[Run]) -> str:
    """Return the names of the experiments, that of the best model first."""
    experiments = dict.fromkeys(run.record.experiment for run in runs)
    sources = [comparison.system(name).source for name in comparison.ranking]
    return ", ".join(dict.fromkeys([*(name for name in sources if name in experiments), *experiments]))


def _training_cautions(runs: Sequence[Run]) -> list[Caution]:
    """Return each caution of training once, with the models and the number of runs that it concerns."""
    by_caution: dict[Caution, list[Record]] = {}
    for run in runs:
        for caution in run.record.training_cautions:
            if caution.severity != "note":
                by_caution.setdefault(caution, []).append(run.record)
    cautions = []
    for caution, records in by_caution.items():
        models = ", ".join(dict.fromkeys(record.model for record in records))
        runs_text = count_of(len(records), "run")
        if len(records) == 1:
            runs_text = f"{records[0].fold}, seed {records[0].seed}"
        text = f"{caution} ({runs_text})"
        cautions.append(Caution(caution.kind, caution.severity, text, place=models))
    return cautions
