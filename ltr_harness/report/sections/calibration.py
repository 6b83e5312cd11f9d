"""Do documents win as often as their probabilities say?"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, ndtri, stdtrit

from ltr_harness.data.queries import Bools, Floats, QueryGroups
from ltr_harness.metrics.core.softmax import ProbabilityMetric, log_softmax
from ltr_harness.report import charts
from ltr_harness.report.blocks import Block, Chart, Column, Heading, Paragraph, Table
from ltr_harness.report.data import ReportData, computed_once

N_BINS = 10


@dataclass(frozen=True)
class Bin:
    """Test rows of one model with about equal probabilities, and the interval of their share of winners."""

    model: str
    n_rows: int
    predicted: float
    observed: float
    low: float
    high: float

    @property
    def off(self) -> bool:
        """Whether the prediction is outside the interval."""
        return not (math.isnan(self.low) or self.low <= self.predicted <= self.high)


@computed_once
def calibration(data: ReportData) -> list[Bin]:
    """Each model's first seed; nothing where no metric of probabilities is reported."""
    metric, rows = _reported(data), data.rows
    if metric is None or rows is None:
        return []
    judgments = rows.judgments
    groups = judgments.groups
    share, n_winners = metric.shares(judgments.pool)
    won = share[judgments.pool_rows]
    use = np.repeat(n_winners > 0, groups.sizes)
    if not use.any():
        return []
    found = []
    for model in data.models:
        runs = rows.runs[model][0]
        fitted = [own.t for run in runs for own in run.record.measuring([metric])]
        t = np.repeat(np.repeat(fitted, [len(run.per_query) for run in runs]), groups.sizes)
        p = np.exp(log_softmax(rows.scores(model) / t, groups, 1.0))
        inner = np.unique(np.quantile(p[use], np.linspace(0, 1, N_BINS + 1)[1:-1]))
        which = np.where(use, np.searchsorted(inner, p, side="right"), -1)
        found += [
            binned(model, p, won, which == at, groups, data.comparison.confidence)
            for at in np.unique(which[use]).tolist()
        ]
    return found


def _reported(data: ReportData) -> ProbabilityMetric | None:
    """The first metric of probabilities, whose T is shown."""
    reported = (metric for metric in data.own_metrics.values() if isinstance(metric, ProbabilityMetric))
    return next(reported, None)


def binned(
    model: str,
    p: Floats,  # (n_rows,)
    won: Floats,  # (n_rows,)
    inside: Bools,  # (n_rows,)
    groups: QueryGroups,
    confidence: float,
) -> Bin:
    """The rows inside, with Jeffreys' interval of their share, of as many rows as queries make them worth.

    The worth is that of a simple sample of the same variance, at most the rows there are, less for Student's t: Korn &
    Graubard (1998), with Jeffreys' limits, which hold near 0 and 1 (Brown, Cai & DasGupta 2001).
    """
    counts, gaps = groups.sum(inside, np.int64), groups.sum((won - p) * inside)
    total, n = int(counts.sum()), int(np.count_nonzero(counts))
    predicted, observed = float(p[inside].mean()), float(won[inside].mean())
    if n < 2:
        return Bin(model, total, predicted, observed, math.nan, math.nan)
    left = gaps - gaps.sum() / total * counts
    variance = n / (n - 1) * float(left @ left) / total**2
    worth = min(total, observed * (1 - observed) / variance) if observed * (1 - observed) > 0 else total
    tail = (1 - confidence) / 2
    worth *= float(ndtri(tail) / stdtrit(n - 1, tail)) ** 2
    shape = worth * observed + 0.5, worth * (1 - observed) + 0.5
    low = float(betaincinv(*shape, tail)) if observed > 0 else 0.0
    high = float(betaincinv(*shape, 1 - tail)) if observed < 1 else 1.0
    return Bin(model, total, predicted, observed, low, high)


def section(data: ReportData) -> list[Block]:
    bins, metric = calibration(data), _reported(data)
    if not bins or metric is None:
        return []
    names = list(dict.fromkeys(one.model for one in bins))
    said = []
    for name in names:
        own = [one for one in bins if one.model == name]
        off = f"{sum(one.off for one in own)} of {len(own)} predictions outside their interval"
        of_runs = [record.measuring([metric])[0] for record in data.records_of(name)]
        known = dict.fromkeys(f"{one.t:.4g}" for one in of_runs if one.is_fitted)
        said.append(f"{name}: {off}; T from validation data {', '.join(known) or 'none'}.")
    text = " ".join(said)
    rows = []
    for one in bins:
        low, high = (0.0, 1.0) if math.isnan(one.low) else (one.low, one.high)
        numbers = {"predicted": one.predicted, "observed": one.observed, "low": low, "high": high}
        rows.append({"model": one.model, **{name: round(value, 5) for name, value in numbers.items()}})
    x = charts.quantitative("predicted", title="predicted", axis={"tickCount": 4, "grid": False})
    y = charts.quantitative("observed", title="won", axis={"tickCount": 4})
    shared = {"x": x, "color": charts.model_colour(data, names)}
    about = charts.tooltip("model", predicted=".4f", observed=".4f", low=".4f", high=".4f")
    start, end = {"datum": 0}, {"datum": max(max(one.predicted, one.observed) for one in bins)}
    layers = [
        charts.layer(charts.DASHED, x=start, y=start, x2=end, y2=end),
        charts.layer({"type": "rule"}, **shared, y={**y, "field": "low"}, y2={"field": "high"}),
        charts.layer(charts.dots(34), **shared, y=y, tooltip=about),
    ]
    title = "Share of winners over predicted probability; dashed where both are equal"
    spec = charts.small_multiples(names, rows, {"layer": layers})
    missed = f"{100 * (1 - data.comparison.confidence):.3g} %"
    columns = {
        Column("Model"): lambda one: data.model_name(one.model),
        Column("Rows", "count"): lambda one: one.n_rows,
        Column("Predicted", "metric"): lambda one: one.predicted,
        Column("Observed", "metric"): lambda one: one.observed,
        Column("from", "metric"): lambda one: one.low,
        Column("to", "metric"): lambda one: one.high,
    }
    return [
        Heading("Calibration"),
        Paragraph(
            "Test documents in bins of about as many by predicted probability: the mean prediction, and the share that "
            f"won, with its {data.confidence_label} interval over queries. Each interval alone misses in {missed} of "
            f"cases, so one of ten outside says little. Each model's first seed. {text}"
        ),
        Chart("calibration", title, spec, text),
        Table.of("calibration", "Predicted probability and observed share of winners.", bins, columns),
    ]
