"""Precision at each level of recall."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ltr_harness._util.compiled import compiled
from ltr_harness._util.number_text import plain_number
from ltr_harness.data.arrays import Bools, Floats, Ints
from ltr_harness.metrics.core.metric import BinaryMetric
from ltr_harness.metrics.core.ranking import Ranking, RowRanker
from ltr_harness.metrics.map import MAP
from ltr_harness.report import charts, formats
from ltr_harness.report.blocks import Block, Chart, Column, Heading, Paragraph, Table
from ltr_harness.report.data import ReportData
from ltr_harness.report.sections.verdict import near_models
from ltr_harness.report.stored_scores import TestRows

LEVELS = np.arange(11) / 10  # of recall

_ROUNDING = 1e-9  # far above what sums of hits lose, far below one document of any list


class PrecisionRecall(NamedTuple):
    """One model's curve."""

    precision: Floats  # (11,), at each of `LEVELS`
    ap: float  # mean average precision of whole lists


def curves(models: Sequence[str], rows: TestRows, relevant: float) -> dict[str, PrecisionRecall]:
    """Return each model's curve, averaged over its replicates; empty where no query has a relevant document."""
    judgments, pool = rows.judgments, rows.judgments.pool
    is_relevant = pool.labels >= relevant
    if not is_relevant.any():
        return {}
    metric = MAP(relevant=relevant)
    ranker = RowRanker(judgments, metric.ties, None)
    average_precision = metric.prepare(pool, np.array([metric.cutoff]))
    by_model = {}
    for model in models:
        precisions, averages = [], []
        for replicate in range(len(rows.runs[model])):
            ranking = ranker.rank(rows.scores(model, replicate))
            if judgments.missed is not None:
                ranking = ranking.pool_rows(judgments)
            precisions.append(interpolated_precision(ranking, is_relevant))
            averages.append(average_precision(ranking))
        ap = np.mean(averages, axis=0)[:, rows.order]
        by_model[model] = PrecisionRecall(np.mean(precisions, axis=0), float(np.nanmean(ap)))
    return by_model


def interpolated_precision(ranking: Ranking, is_relevant: Bools) -> Floats:
    """Return the best precision at each recall or a higher one, mean over queries and orders of ties, float64 (11,).

    It is 0 at a recall out of reach.
    """
    n_relevant = ranking.judgments.groups.sum(is_relevant, np.int64)
    totals = np.zeros(LEVELS.size)
    hits = is_relevant[ranking.rows].astype(np.float64)
    _add_interpolated(ranking.offsets, ranking.tie_end, n_relevant, hits, LEVELS - _ROUNDING, totals)
    return totals / np.count_nonzero(n_relevant)


@compiled
def _add_interpolated(
    offsets: Ints, tie_end: Ints, n_relevant: Ints, hits: Floats, levels: Floats, totals: Floats
) -> None:
    """Add each query's precisions to `totals` (11,); `hits` (n_listed,) become those expected up to each rank."""
    for query in range(n_relevant.size):
        first, last = offsets[query], offsets[query + 1]
        expected_hits, start = 0.0, first
        while start < last:  # a group of ties, of which each place has the same share
            end = first + tie_end[start]
            share = 0.0
            for row in range(start, end):
                share += hits[row]
            for row in range(start, end):
                expected_hits += share / (end - start)
                hits[row] = expected_hits
            start = end
        best, level = 0.0, levels.size - 1
        for row in range(last - 1, first - 1, -1):
            recall = min(hits[row] / max(n_relevant[query], 1), 1.0)
            while level >= 0 and levels[level] > recall:  # reached below, or nowhere
                totals[level] += best
                level -= 1
            best = max(best, hits[row] / (row - first + 1))
        if n_relevant[query]:
            totals[: level + 1] += best


_PRECISION_RECALL_METRICS = ("map", "precision", "recall", "f1", "rprec", "bpref")
"""Metrics of precision or recall; without one of them in the report, the section is left out."""


def section(data: ReportData) -> list[Block]:
    relevant = _relevant_grade(data)
    if relevant is None or data.rows is None:
        return []
    by_model = curves(data.models, data.rows, relevant)
    if not by_model:
        return []
    area = Column("AP", "metric", best="max", hint="Mean average precision of whole lists.")
    columns = (Column("Model"), area, *(Column(f"at {level:.1f}", "metric") for level in LEVELS[::2]))
    rows = tuple(
        (data.model_name(name), curve.ap, *curve.precision[::2].tolist()) for name, curve in by_model.items()
    )
    return [
        Heading("Precision and recall", finding=_finding(data, by_model)),
        Paragraph(
            "At each level of recall the best precision at that recall or a higher one, query by query over whole "
            "lists, and then the mean over queries (eleven points; Manning, Raghavan & Schütze 2008, chapter 8). "
            "The area under a query's curve, without interpolation, is its average precision: the mean of the "
            f"precisions at its relevant documents. Relevant is a grade of {plain_number(relevant)} and above."
        ),
        Table("precision_recall", "Precision at levels of recall, and the area.", columns, rows),
        _chart(data, by_model),
    ]


def _finding(data: ReportData, by_model: Mapping[str, PrecisionRecall]) -> str:
    """Return the best mean average precision, and the baseline's beside it."""
    best = max(by_model, key=lambda name: by_model[name].ap)
    finding = f"AP {formats.metric(by_model[best].ap)} ({best})"
    if best != data.baseline:
        finding += f", {formats.metric(by_model[data.baseline].ap)} (baseline)"
    return finding


def _relevant_grade(data: ReportData) -> float | None:
    """Return the lowest relevant grade of the first metric of precision or recall; None without such a metric."""
    for metric in data.own_metrics.values():
        if metric.name in _PRECISION_RECALL_METRICS and isinstance(metric, BinaryMetric):
            return metric.relevant
    return None


def _chart(data: ReportData, by_model: Mapping[str, PrecisionRecall]) -> Chart:
    """Return one panel: each model's precision minus the baseline's, or the only model's precision itself."""
    title, axis_title = "Precision", "precision"
    names, subtracted = [data.baseline], np.zeros(LEVELS.size)
    if data.rivals:
        title, axis_title = f"Precision minus {data.baseline}'s", "difference in precision"
        names = near_models(data) or names
        subtracted = by_model[data.baseline].precision
    points = []
    for name in names:
        for level, precision, base in zip(LEVELS, by_model[name].precision, subtracted, strict=True):
            numbers = {"precision": round(float(precision), 5), "shown": round(float(precision - base), 5)}
            points.append({"model": name, "recall": float(level), **numbers})
    x = charts.quantitative("recall", title="recall", axis={"tickCount": 5, "grid": False})
    y = charts.quantitative("shown", title=axis_title)
    shared = {"x": x, "y": y, "color": charts.model_colour(data, names), "opacity": charts.fade()}
    dash = charts.model_dash(data, names)
    tooltip = [*charts.tooltip("model"), charts.quantitative("recall")]
    tooltip += charts.tooltip(precision=".4f", shown="+.4f")
    layers = [
        charts.layer(charts.DASHED, y={"datum": 0}),
        charts.layer({"type": "line", "strokeWidth": 1.75}, **shared, **dash, detail={"field": "model"}),
        charts.layer(charts.dots(34), **shared, tooltip=tooltip),
    ]
    descriptions = [
        f"{name}: AP {formats.metric(curve.ap)}; precision {formats.metric(curve.precision[0])} at recall 0, "
        f"{formats.metric(curve.precision[5])} at one half, {formats.metric(curve.precision[10])} at 1."
        for name, curve in by_model.items()
    ]
    title += " over recall, interpolated at eleven points, mean over queries"
    spec = charts.wide(charts.with_places(points, names), 180, autosize=charts.FIT, layer=layers)
    return Chart("precision_recall", title, spec, " ".join(descriptions))
