"""What would these numbers be in another tool's log?"""

import math
from collections.abc import Sequence
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
from ltr_harness.report.blocks import Block, Cell, Column, Details, Heading, Paragraph, Table, code
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
    shown = [metric for metric in data.metrics if means(data, data.models[0], metric) is not None]
    if not shown:
        return []
    about = (
        *("Tools disagree about queries without relevant documents: ", code("one")),
        *(" counts them as 1 (LightGBM, XGBoost, CatBoost, RankEval), ", code("zero")),
        *(" as 0 (trec_eval, scikit-learn, ranx, RankLib, TF-Ranking), ", code("skip")),
        " leaves them out (gdeval, and the default here). With f their share and m the mean over the "
        "others: skip = m, one = (1 - f) m + f, zero = (1 - f) m. The order of models never changes; "
        "the numbers do, often by more than the models differ.",
    )
    files = formats.file_names(shown)
    first = data.primary if data.primary in shown else shown[0]
    table = _table(data, first, "conventions")
    blocks: list[Block] = [Heading("Other conventions"), Paragraph(about), table]
    if rest := [metric for metric in shown if metric != first]:
        tables = (_table(data, metric, f"conventions_{files[metric]}") for metric in rest)
        blocks.append(Details(f"The other {count_of(len(rest), 'metric')}", tuple(tables)))
    return blocks


def _table(data: ReportData, metric: str, name: str) -> Table:
    share = "Queries without relevant documents among all queries."
    return Table.of(
        name,
        ("Means of ", code(metric), " under the three rules for queries without relevant documents."),
        [row for model in data.models if (row := means(data, model, metric)) is not None],
        {
            Column("Model"): lambda row: data.model_name(row.model),
            Column("skip", "metric"): lambda row: row.skip,
            Column("one", "metric"): lambda row: row.one,
            Column("zero", "metric"): lambda row: row.zero,
            Column("Share f", "percent", hint=share): lambda row: row.share,
        },
    )


def means(data: ReportData, model: str, metric: str) -> Convention | None:
    """The closed forms; None where the metric has no such rule or the share is unknown."""
    own = data.own_metrics.get(metric)
    of_values = own is not None and own.takes_any_label and data.n_empty is None
    rule = None if own is None or of_values else own.empty
    summary = data.comparison.summary(model, metric)
    sampling = data.comparison.sampling
    if rule is None or not data.comparison.higher_is_better[metric]:
        return None
    if rule == "skip":
        undefined = np.isnan(data.comparison.system(model).per_query(metric))
        f, m = float(sampling.means(undefined[:, None].astype(np.float64))[0]), summary.mean
    else:  # the metric does not say their number; the data do, for relevance from grade 1 on
        if data.n_empty is None or "relevant=" in metric:
            return None
        n_relevant = data.comparison.system(data.baseline).query_attributes[LABEL_FACTS[1]]
        f = float(sampling.means((n_relevant == 0)[:, None].astype(np.float64))[0])
        rest = summary.mean - (f if rule == "one" else 0.0)
        m = math.nan if f == 1 else rest / (1 - f)
    if f == 1:
        return Convention(model, metric, math.nan, 1.0, 0.0, 1.0)
    return Convention(model, metric, m, (1 - f) * m + f, (1 - f) * m, f)


class ToolConvention(NamedTuple):
    """One way of computing a metric, and whose way it is."""

    names: tuple[str, ...]  # tools and choices that share it
    metric: Metric
    of_candidates: bool = False  # without what was missed


class Recomputed(NamedTuple):
    """A metric under every convention: means over queries, averaged over seeds."""

    metric: str
    conventions: tuple[ToolConvention, ...]
    means: dict[str, tuple[float, ...]]  # model -> one mean per convention
    refused: tuple[str, ...]  # tools whose convention cannot be applied to these data, and why


def warm_up() -> None:
    """Load the compiled loops that other tools' conventions ask for."""
    judgments = Judgments.checked(np.array([1.0, 0.0]), QueryGroups.from_sizes(np.array([2])))
    for name in ("ndcg@10", "map@10", "mrr@10", "err(max_grade=4)@10"):
        for metric in sorted({one.metric for one in _conventions(parse_metric(name))}, key=str):
            with suppress(MetricError):  # it needs what two bare rows do not have
                Binding([metric], judgments).per_query(np.zeros(2))


@computed_once
def other_tools(data: ReportData) -> tuple[Recomputed, ...]:
    """The metrics at the primary K under other tools' conventions."""
    if data.rows is None:
        return ()
    return recomputed(same_k(data), data.models, data.rows)


def recomputed(names: Sequence[str], models: Sequence[str], rows: TestRows) -> tuple[Recomputed, ...]:
    """Return the metrics of these names that other tools compute too, by every convention that the rows allow."""
    missed = rows.judgments.missed
    has_missed = missed is not None and missed.queries.size > 0
    conventions: dict[str, tuple[ToolConvention, ...]] = {}
    for name in names:
        with suppress(MetricError):  # a metric from outside has no conventions that we know
            conventions[name] = _conventions(parse_metric(name), has_missed)
    with_others = [one for of_metric in conventions.values() if len(of_metric) > 1 for one in of_metric]
    means: dict[str, dict[ToolConvention, float]] = {model: {} for model in models}
    refused: dict[ToolConvention, str] = {}
    for of_candidates in (False, True):
        chosen = [convention for convention in with_others if convention.of_candidates == of_candidates]
        values, reasons = _means_by(chosen, models, rows, of_candidates=of_candidates)
        refused |= reasons
        for model, of_model in values.items():
            means[model] |= of_model
    results = []
    for name, of_metric in conventions.items():
        computed = tuple(convention for convention in of_metric if convention not in refused)
        if len(computed) > 1 and computed[0] == of_metric[0]:
            by_model = {model: tuple(values[one] for one in computed) for model, values in means.items()}
            reasons_in_words = tuple(
                f"{', '.join(convention.names)}: {refused[convention]}"
                for convention in of_metric
                if convention in refused
            )
            results.append(Recomputed(name, computed, by_model, reasons_in_words))
    return tuple(results)


def _means_by(
    conventions: Sequence[ToolConvention], models: Sequence[str], rows: TestRows, *, of_candidates: bool
) -> tuple[dict[str, dict[ToolConvention, float]], dict[ToolConvention, str]]:
    """Return each model's mean by each convention, and why the other conventions cannot be applied to these rows."""
    metrics = list(dict.fromkeys(convention.metric for convention in conventions))
    if of_candidates:  # the same rows for a tool that knows nothing of missed documents
        rows = replace(rows, judgments=replace(rows.judgments, missed=None), _bindings={})
    per_query, reasons = rows.per_query_of(models, metrics)
    computed = [metric for metric in metrics if metric not in reasons]
    means: dict[str, dict[ToolConvention, float]] = {}
    for model, values in per_query.items():
        if of_candidates:  # a query without candidates is none to the tool
            values[:, ~rows.judgments.groups.has_rows[rows.order]] = np.nan
        n_defined, totals = (~np.isnan(values)).sum(axis=1), np.nansum(values, axis=1)
        undefined = np.full(n_defined.size, np.nan)
        averages = np.divide(totals, n_defined, where=n_defined > 0, out=undefined)
        by_metric = dict(zip(computed, averages.tolist(), strict=True))
        means[model] = {one: by_metric[one.metric] for one in conventions if one.metric in by_metric}
    refused = {one: reasons[one.metric] for one in conventions if one.metric in reasons}
    return means, refused


def _conventions(own: Metric, missed: bool = False) -> tuple[ToolConvention, ...]:
    """Our own, single choices that people ask for, then the tools; equal definitions share a place."""
    named: dict[tuple[Metric, bool], list[str]] = {(own, False): ["here"]}
    if getattr(own, "gain", None) in EXPONENTIAL_GAINS:
        linear = replace(own, gain="linear")  # type: ignore[call-arg]
        named.setdefault((linear, False), []).append("linear gain")
    for name, metric in other_definitions(own).items():
        named.setdefault((metric, missed and name in OF_CANDIDATES), []).append(name)
    return tuple(ToolConvention(tuple(names), *way) for way, names in named.items())


def tools(data: ReportData) -> list[Block]:
    """What would another tool print for these very scores?"""
    tools = other_tools(data)
    if not tools:
        return []
    files = formats.file_names([one.metric for one in tools])
    names = ["tools", *(f"tools_{files[one.metric]}" for one in tools[1:])]
    tables: list[Block] = []
    for one, name in zip(tools, names, strict=True):
        caption = ("Mean ", code(one.metric), " under other conventions.")
        ways = (Column(", ".join(way.names), "metric", hint=str(way.metric)) for way in one.conventions)
        rows: list[tuple[Cell, ...]] = [(data.model_name(model), *one.means[model]) for model in data.models]
        footnotes = (f"Not computed: {'; '.join(dict.fromkeys(one.refused))}",) if one.refused else ()
        tables.append(Table(name, caption, (Column("Model"), *ways), tuple(rows), footnotes=footnotes))
        own, *others = one.conventions
        told = []
        for other in others:
            differs = [*differences_in_words(own.metric, other.metric)]
            differs += ["given the candidates alone"] if other.of_candidates else []
            told.append((", ".join(other.names), str(other.metric), "; ".join(differs)))
        caption = ("How the others differ from ", code(one.metric), ".")
        columns = (Column("Convention"), Column("In full", "code"), Column("What differs"))
        tables.append(Table(f"{name}_words", caption, columns, tuple(told), sortable=False))
    about = (
        "Each column evaluates the stored scores again, all seeds of them, under one tool's conventions: look up "
        "the number of a log here before suspecting the model. Below, the tool's differences."
    )
    blocks: list[Block] = [Heading("The same numbers in other tools"), Paragraph(about), *tables[:2]]
    if rest := tuple(tables[2:]):
        blocks.append(Details(f"The other {count_of(len(tools) - 1, 'metric')} at this K", rest))
    return blocks
