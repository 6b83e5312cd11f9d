"""How much precision does each step of recall cost?"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltr_harness.metrics.core.metric import BinaryMetric
from ltr_harness.metrics.core.ranking import Ranking, RowRanker
from ltr_harness.metrics.map import MAP
from ltr_harness.report import charts, formats
from ltr_harness.report.blocks import Block, Chart, Column, Heading, Paragraph, Table
from ltr_harness.report.data import ReportData
from ltr_harness.report.sections.verdict import near_models
from ltr_harness.report.test_rows import TestRows
from ltr_harness.wording import plain_number

LEVELS = np.arange(11) / 10  # of recall

_ROUNDING = 1e-9  # far above what sums of hits lose, far below one document of any list


class PrecisionRecall(NamedTuple):
    """One model's curve."""

    precision: NDArray[np.float64]  # (11,), at each of `LEVELS`
    ap: float  # mean average precision of whole lists


def curves(models: Sequence[str], rows: TestRows, relevant: float) -> dict[str, PrecisionRecall]:
    """Each model's curve, averaged over its replicates; empty where no query has a relevant document."""
    judgments, pool = rows.judgments, rows.judgments.pool
    is_relevant = pool.labels >= relevant
    if not is_relevant.any():
        return {}
    metric = MAP(relevant=relevant)
    ranker = RowRanker(judgments, metric.ties, None)
    average_precision = metric.prepare(pool, np.array([metric.cutoff]))
    by_model = {}
    for model in models:
        whole = (ranker.rank(rows.scores(model, at)) for at in range(len(rows.runs[model])))
        rankings = whole if judgments.missed is None else (one.in_pool(judgments) for one in whole)
        found = [(interpolated(one, is_relevant), average_precision(one)) for one in rankings]
        precision, ap = (np.mean(values, axis=0) for values in zip(*found, strict=True))
        by_model[model] = PrecisionRecall(precision, float(np.nanmean(ap[:, rows.order])))
    return by_model


def interpolated(ranking: Ranking, is_relevant: NDArray[np.bool_]) -> NDArray[np.float64]:
    """float64 (11,): best precision at this recall or higher, 0 out of reach; mean over queries and orders of ties."""
    n_relevant = ranking.judgments.groups.sum(is_relevant, np.int64)
    starts, sizes = ranking.offsets[:-1], np.diff(ranking.offsets)
    query = np.repeat(np.arange(sizes.size), sizes)
    rank = np.arange(ranking.rows.size) - starts[query] + 1.0
    group = np.cumsum(np.concatenate(([0], np.diff(ranking.tie_end + starts[query]) > 0)))
    share = np.bincount(group, is_relevant[ranking.rows]) / np.bincount(group)
    hits = np.cumsum(share[group])
    some = sizes > 0
    before = np.zeros(sizes.size)
    before[some] = (hits - share[group])[starts[some]]
    hits -= before[query]
    recall = np.minimum(hits / np.maximum(n_relevant, 1)[query], 1.0)
    # queries two apart, so that one search and one running maximum serve all of them
    best = np.maximum.accumulate((hits / rank - 2.0 * query)[::-1])[::-1] + 2.0 * query
    queries = np.flatnonzero(n_relevant)
    wanted = 2.0 * queries[:, np.newaxis] + LEVELS - _ROUNDING
    at = np.searchsorted(recall + 2.0 * query, wanted)
    reached = at < ranking.offsets[queries + 1][:, np.newaxis]
    return np.asarray(np.where(reached, best[np.minimum(at, best.size - 1)], 0.0).mean(axis=0))


_ABOUT = ("map", "precision", "recall", "f1", "rprec", "bpref")
"""Metrics that ask for precision or recall; who looks at none of them is not shown the two against each other."""


def section(data: ReportData) -> list[Block]:
    asked = (metric for metric in data.own_metrics.values() if metric.name in _ABOUT)
    relevant = next((metric.relevant for metric in asked if isinstance(metric, BinaryMetric)), None)
    if relevant is None or data.rows is None:
        return []
    drawn = curves(data.models, data.rows, relevant)
    if not drawn:
        return []
    area = Column("AP", "metric", best="max", hint="Mean average precision of whole lists.")
    columns = (Column("Model"), area, *(Column(f"at {level:.1f}", "metric") for level in LEVELS[::2]))
    rows = [(data.model_name(name), one.ap, *one.precision[::2].tolist()) for name, one in drawn.items()]
    # one panel: each model's precision minus the baseline's, or the only model's precision itself
    base, names = drawn[data.baseline], near_models(data) or [data.baseline]
    other = base.precision if data.rivals else np.zeros(LEVELS.size)
    points = []
    for name in names:
        for level, own, its in zip(LEVELS, drawn[name].precision, other, strict=True):
            found = {"precision": round(float(own), 5), "shown": round(float(own - its), 5)}
            points.append({"model": name, "recall": float(level), **found})
    x = charts.quantitative("recall", title="recall", axis={"tickCount": 5, "grid": False})
    y = charts.quantitative("shown", title="difference in precision" if data.rivals else "precision")
    shared = {"x": x, "y": y, "color": charts.model_colour(data, names), "opacity": charts.fade()}
    numbers = charts.tooltip(precision=".4f", shown="+.4f")
    about = [*charts.tooltip("model"), charts.quantitative("recall"), *numbers]
    layers = [
        charts.layer(charts.DASHED, y={"datum": 0}),
        charts.layer({"type": "line", "strokeWidth": 1.75}, **shared, detail={"field": "model"}),
        charts.layer(charts.dots(34), **shared, tooltip=about),
    ]
    words = [
        f"{name}: AP {formats.metric(one.ap)}; precision {formats.metric(one.precision[0])} at recall 0, "
        f"{formats.metric(one.precision[5])} at one half, {formats.metric(one.precision[10])} at 1."
        for name, one in drawn.items()
    ]
    title = f"Precision minus {data.baseline}'s" if data.rivals else "Precision"
    title += " over recall, interpolated at eleven points, mean over queries"
    spec = charts.wide(charts.placed(points, names), 180, autosize=charts.FIT, layer=layers)
    return [
        Heading("Precision and recall"),
        Paragraph(
            "At each level of recall the best precision at that recall or a higher one, query by query over whole "
            "lists, and then the mean over queries (eleven points; Manning, Raghavan & Schütze 2008, chapter 8). "
            "The area under a query's curve, without interpolation, is its average precision: the mean of the "
            f"precisions at its relevant documents. Relevant is a grade of {plain_number(relevant)} and above."
        ),
        Table("precision_recall", "Precision at levels of recall, and the area.", columns, tuple(rows)),
        Chart("precision_recall", title, spec, " ".join(words)),
    ]
