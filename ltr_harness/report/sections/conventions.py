"""The same metrics by the conventions of other tools."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ltr_harness._util.text import count_of
from ltr_harness.comparison.comparability import LABEL_FACTS
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.errors import MetricError
from ltr_harness.metrics import Binding, Metric, parse_metric
from ltr_harness.metrics.core.gains import EXPONENTIAL_GAINS
from ltr_harness.metrics.core.presets import OF_CANDIDATES
from ltr_harness.metrics.explain import differences_in_words, other_definitions
from ltr_harness.report import formats
from ltr_harness.report.blocks import Block, Cell, Column, Details, Heading, Paragraph, Table, TwoForms, code
from ltr_harness.report.data import ReportData, computed_once, same_k
from ltr_harness.report.stored_scores import TestRows


@dataclass(frozen=True)
class Convention:
    """A model's mean by each rule for queries without relevant documents, and their share."""

    model: str
    metric: str
    skip: float
    one: float
    zero: float
    share: float


def section(data: ReportData) -> list[Block]:
    metrics = [metric for metric in data.metrics if means(data, data.models[0], metric) is not None]
    if not metrics:
        return []
    introduction = (
        *("Tools disagree about queries without relevant documents: ", code("one")),
        *(" counts them as 1 (LightGBM, XGBoost, CatBoost, RankEval), ", code("zero")),
        *(" as 0 (trec_eval, scikit-learn, ranx, RankLib, TF-Ranking), ", code("skip")),
        " leaves them out (gdeval, and the default here). With f their share and m the mean over the "
        "others: skip = m, one = (1 - f) m + f, zero = (1 - f) m. The order of models never changes; "
        "the numbers do, often by more than the models differ.",
    )
    files = formats.file_names(metrics)
    first = data.primary if data.primary in metrics else metrics[0]
    table = _table(data, first, "conventions")
    row = means(data, data.models[0], first)
    assert row is not None
    finding = f"{first} of {row.model} from {formats.metric(row.zero)} to {formats.metric(row.one)}"
    if not row.share:
        finding = "every query has a relevant document"
    blocks: list[Block] = [Heading("Other conventions", finding=finding), Paragraph(introduction), table]
    if other_metrics := [metric for metric in metrics if metric != first]:
        tables = tuple(_table(data, metric, f"conventions_{files[metric]}") for metric in other_metrics)
        summary = f"The other {count_of(len(other_metrics), 'metric')}"
        page_table = _table_of_metrics(data, other_metrics)
        blocks.append(TwoForms((Details(summary, (page_table,)),), (Details(summary, tables),)))
    return blocks


def _table(data: ReportData, metric: str, name: str) -> Table:
    share_hint = "Queries without relevant documents among all queries."
    return Table.of(
        name,
        ("Means of ", code(metric), " under the three rules for queries without relevant documents."),
        [row for model in data.models if (row := means(data, model, metric)) is not None],
        {
            Column("Model"): lambda row: data.model_name(row.model),
            Column("skip", "metric"): lambda row: row.skip,
            Column("one", "metric"): lambda row: row.one,
            Column("zero", "metric"): lambda row: row.zero,
            Column("Share f", "percent", hint=share_hint): lambda row: row.share,
        },
    )


def _table_of_metrics(data: ReportData, metrics: Sequence[str]) -> Table:
    """Return the means of the contenders and the baseline at several metrics as one table, for the page."""
    shown_models = [name for name in data.models if name in (*data.contenders, data.baseline)]
    return Table.of(
        "conventions_others",
        "Means of the other metrics under the three rules for queries without relevant documents.",
        [
            row
            for metric in metrics
            for name in shown_models
            if (row := means(data, name, metric)) is not None
        ],
        {
            Column("Metric"): lambda row: row.metric,
            Column("Model"): lambda row: data.model_name(row.model),
            Column("skip", "metric"): lambda row: row.skip,
            Column("one", "metric"): lambda row: row.one,
            Column("zero", "metric"): lambda row: row.zero,
        },
        sortable=False,
    )


def means(data: ReportData, model: str, metric: str) -> Convention | None:
    """Return the closed forms; None where the metric has no such rule or the share is unknown."""
    rule = _rule(data, metric)
    if rule is None:
        return None
    share = _share_without_relevant(data, model, metric, rule)
    if share is None:
        return None
    if share == 1:
        return Convention(model, metric, math.nan, 1.0, 0.0, 1.0)
    mean_of_others = data.comparison.summary(model, metric).mean
    if rule == "one":
        mean_of_others = (mean_of_others - share) / (1 - share)
    elif rule == "zero":
        mean_of_others = mean_of_others / (1 - share)
    mean_as_one, mean_as_zero = (1 - share) * mean_of_others + share, (1 - share) * mean_of_others
    return Convention(model, metric, mean_of_others, mean_as_one, mean_as_zero, share)


def _rule(data: ReportData, metric: str) -> str | None:
    """Return the metric's rule for queries without relevant documents; None where it has none."""
    definition = data.own_metrics.get(metric)
    if definition is None or not data.comparison.higher_is_better[metric]:
        return None
    if definition.takes_any_label and data.n_empty is None:
        return None
    return definition.empty


def _share_without_relevant(data: ReportData, model: str, metric: str, rule: str) -> float | None:
    if rule == "skip":
        is_empty = np.isnan(data.comparison.system(model).per_query(metric))
    else:  # the metric does not say their number; the data do, for relevance from grade 1 on
        if data.n_empty is None or "relevant=" in metric:
            return None
        is_empty = data.comparison.system(data.baseline).query_attributes[LABEL_FACTS[1]] == 0
    return float(data.comparison.sampling.means(is_empty[:, None].astype(np.float64))[0])


class ToolConvention(NamedTuple):
    """One way to compute a metric, and the tools that compute it so."""

    names: tuple[str, ...]  # tools and choices that share it
    metric: Metric
    of_candidates: bool = False  # without the missed documents


class Recomputed(NamedTuple):
    """A metric under every convention: means over queries, averaged over seeds."""

    metric: str
    conventions: tuple[ToolConvention, ...]
    means: dict[str, tuple[float, ...]]  # model -> one mean per convention
    refused: tuple[str, ...]  # tools whose convention cannot be applied to these data, and why


def warm_up() -> None:
    """Load the compiled loops that other tools' conventions need."""
    judgments = Judgments.checked(np.array([1.0, 0.0]), QueryGroups.from_sizes(np.array([2])))
    for name in ("ndcg@10", "map@10", "mrr@10", "err(max_grade=4)@10"):
        metrics = {convention.metric for convention in _conventions(parse_metric(name))}
        for metric in sorted(metrics, key=str):
            with suppress(MetricError):  # it needs what two bare rows do not have
                Binding([metric], judgments).per_query(np.zeros(2))


@computed_once
def other_tools(data: ReportData) -> tuple[Recomputed, ...]:
    """Return the metrics at the primary K under other tools' conventions."""
    if data.rows is None:
        return ()
    return recompute(same_k(data), data.models, data.rows)


def recompute(names: Sequence[str], models: Sequence[str], rows: TestRows) -> tuple[Recomputed, ...]:
    """Return the metrics of these names that other tools compute too, by every convention that the rows allow."""
    missed = rows.judgments.missed
    has_missed = missed is not None and missed.queries.size > 0
    conventions = _conventions_by_name(names, has_missed)
    values: dict[str, dict[ToolConvention, float]] = {model: {} for model in models}
    refused: dict[ToolConvention, str] = {}
    every = [
        convention for conventions_of_metric in conventions.values() for convention in conventions_of_metric
    ]
    for of_candidates in sorted({convention.of_candidates for convention in every}):
        chosen = [convention for convention in every if convention.of_candidates == of_candidates]
        means_by_model, reasons = _means_by_convention(chosen, models, rows, of_candidates=of_candidates)
        refused |= reasons
        for model, model_means in means_by_model.items():
            values[model] |= model_means
    metrics = (
        _recomputed_metric(name, conventions_of_metric, values, refused)
        for name, conventions_of_metric in conventions.items()
    )
    return tuple(metric for metric in metrics if metric is not None)


def _conventions_by_name(names: Sequence[str], has_missed: bool) -> dict[str, tuple[ToolConvention, ...]]:
    """Return the conventions of each of these metrics that has several."""
    conventions = {}
    for name in names:
        with suppress(MetricError):  # a metric from outside has no conventions that we know
            conventions_of_metric = _conventions(parse_metric(name), has_missed)
            if len(conventions_of_metric) > 1:
                conventions[name] = conventions_of_metric
    return conventions


def _recomputed_metric(
    name: str,
    conventions: Sequence[ToolConvention],
    values: Mapping[str, Mapping[ToolConvention, float]],
    refused: Mapping[ToolConvention, str],
) -> Recomputed | None:
    """Return a metric under those of its conventions that were not refused; None without ours or without another."""
    computed_conventions = tuple(convention for convention in conventions if convention not in refused)
    if len(computed_conventions) < 2 or computed_conventions[0] != conventions[0]:
        return None
    means_by_model = {
        model: tuple(model_means[convention] for convention in computed_conventions)
        for model, model_means in values.items()
    }
    reasons = tuple(
        f"{', '.join(convention.names)}: {refused[convention]}"
        for convention in conventions
        if convention in refused
    )
    return Recomputed(name, computed_conventions, means_by_model, reasons)


def _means_by_convention(
    conventions: Sequence[ToolConvention], models: Sequence[str], rows: TestRows, *, of_candidates: bool
) -> tuple[dict[str, dict[ToolConvention, float]], dict[ToolConvention, str]]:
    """Return each model's mean by each convention, and why the other conventions cannot be applied to these rows."""
    metrics = list(dict.fromkeys(convention.metric for convention in conventions))
    if of_candidates:  # the same rows for a tool that knows nothing of missed documents
        rows = replace(rows, judgments=replace(rows.judgments, missed=None), _bindings={})
    per_query, reasons = rows.per_query_of(models, metrics)
    computed_metrics = [metric for metric in metrics if metric not in reasons]
    means: dict[str, dict[ToolConvention, float]] = {}
    for model, values in per_query.items():
        if of_candidates:  # a query without candidates is none to the tool
            values[:, ~rows.judgments.groups.has_rows[rows.order]] = np.nan
        n_defined, totals = (~np.isnan(values)).sum(axis=1), np.nansum(values, axis=1)
        undefined = np.full(n_defined.size, np.nan)
        averages = np.divide(totals, n_defined, where=n_defined > 0, out=undefined)
        mean_by_metric = dict(zip(computed_metrics, averages.tolist(), strict=True))
        means[model] = {
            convention: mean_by_metric[convention.metric]
            for convention in conventions
            if convention.metric in mean_by_metric
        }
    refused = {
        convention: reasons[convention.metric] for convention in conventions if convention.metric in reasons
    }
    return means, refused


def _conventions(metric: Metric, has_missed: bool = False) -> tuple[ToolConvention, ...]:
    """Return our own, frequent single choices, then the tools'; equal definitions are one with several names."""
    names: dict[tuple[Metric, bool], list[str]] = {(metric, False): ["here"]}
    if getattr(metric, "gain", None) in EXPONENTIAL_GAINS:
        linear = replace(metric, gain="linear")  # type: ignore[call-arg]
        names.setdefault((linear, False), []).append("linear gain")
    for tool, definition in other_definitions(metric).items():
        of_candidates = has_missed and tool in OF_CANDIDATES
        names.setdefault((definition, of_candidates), []).append(tool)
    return tuple(
        ToolConvention(tuple(tools), definition, of_candidates)
        for (definition, of_candidates), tools in names.items()
    )


def tools(data: ReportData) -> list[Block]:
    """The values that other tools print for these scores."""
    metrics = other_tools(data)
    if not metrics:
        return []
    files = formats.file_names([metric.metric for metric in metrics])
    first, *other_metrics = metrics
    introduction = (
        "Each column evaluates the stored scores again, all seeds of them, under one tool's conventions: look up "
        "the number of a log here before suspecting the model. Below, the tool's differences."
    )
    of_best = first.means[data.models[0]]
    low, high = formats.metric(min(of_best)), formats.metric(max(of_best))
    finding = f"{first.metric} of {data.models[0]} from {low} to {high}"
    heading = Heading("The same numbers in other tools", finding=finding)
    blocks: list[Block] = [heading, Paragraph(introduction), *_tool_tables(data, first, "tools")]
    if other_metrics:
        tables: list[Block] = []
        for metric in other_metrics:
            tables += _tool_tables(data, metric, f"tools_{files[metric.metric]}")
        blocks.append(Details(f"The other {count_of(len(other_metrics), 'metric')} at this K", tuple(tables)))
    return blocks


def _tool_tables(data: ReportData, metric: Recomputed, name: str) -> tuple[Table, Table]:
    """Return a metric's means under every convention, and in words how the others differ from ours."""
    columns = [Column("Model")]
    for convention in metric.conventions:
        columns.append(Column(", ".join(convention.names), "metric", hint=str(convention.metric)))
    rows: list[tuple[Cell, ...]] = [(data.model_name(model), *metric.means[model]) for model in data.models]
    footnotes: tuple[str, ...] = ()
    if metric.refused:
        footnotes = (f"Not computed: {'; '.join(dict.fromkeys(metric.refused))}",)
    caption = ("Mean ", code(metric.metric), " under other conventions.")
    numbers = Table(name, caption, tuple(columns), tuple(rows), footnotes=footnotes)
    ours, *other_conventions = metric.conventions
    descriptions = tuple(
        (", ".join(other.names), str(other.metric), _difference_in_words(ours, other))
        for other in other_conventions
    )
    caption = ("How the others differ from ", code(metric.metric), ".")
    headings = (Column("Convention"), Column("In full", "code"), Column("What differs"))
    return numbers, Table(f"{name}_words", caption, headings, descriptions, sortable=False)


def _difference_in_words(ours: ToolConvention, other: ToolConvention) -> str:
    differences = [*differences_in_words(ours.metric, other.metric)]
    if other.of_candidates:
        differences.append("given the candidates alone")
    return "; ".join(differences)
