"""Calibration: how often documents win beside the probabilities that models gave them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, ndtri, stdtrit

from ltr_harness.data.arrays import Bools, Floats
from ltr_harness.data.queries import QueryGroups
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
    def is_miscalibrated(self) -> bool:
        """True where the prediction is outside the interval."""
        return not (math.isnan(self.low) or self.low <= self.predicted <= self.high)


@computed_once
def calibration(data: ReportData) -> list[Bin]:
    """Return the bins of each model's first seed; nothing where no metric of probabilities is reported."""
    metric, rows = _probability_metric(data), data.rows
    if metric is None or rows is None:
        return []
    judgments = rows.judgments
    groups = judgments.groups
    share, n_winners = metric.shares(judgments.pool)
    won = share[judgments.pool_rows]
    is_used = np.repeat(n_winners > 0, groups.sizes)
    if not is_used.any():
        return []
    bins = []
    for model in data.models:
        runs = rows.runs[model][0]
        temperatures = [fitted.t for run in runs for fitted in run.record.measuring([metric])]
        t = np.repeat(np.repeat(temperatures, [run.judgments.groups.n_queries for run in runs]), groups.sizes)
        p = np.exp(log_softmax(rows.scores(model) / t, groups, 1.0))
        inner_edges = np.unique(np.quantile(p[is_used], np.linspace(0, 1, N_BINS + 1)[1:-1]))
        bin_of_row = np.where(is_used, np.searchsorted(inner_edges, p, side="right"), -1)
        for number in np.unique(bin_of_row[is_used]).tolist():
            inside = bin_of_row == number
            bins.append(make_bin(model, p, won, inside, groups, data.comparison.confidence))
    return bins


def _probability_metric(data: ReportData) -> ProbabilityMetric | None:
    """Return the first metric of probabilities, whose T is shown."""
    probability_metrics = (
        metric for metric in data.own_metrics.values() if isinstance(metric, ProbabilityMetric)
    )
    return next(probability_metrics, None)


def make_bin(
    model: str,
    p: Floats,  # (n_rows,)
    won: Floats,  # (n_rows,)
    inside: Bools,  # (n_rows,)
    groups: QueryGroups,
    confidence: float,
) -> Bin:
    """Return the bin of the rows inside, with Jeffreys' interval of their share at the effective number of rows.

    That is the size of a simple sample of the same variance, at most the number of rows, less for Student's t: Korn &
    Graubard (1998), with Jeffreys' limits, which hold near 0 and 1 (Brown, Cai & DasGupta 2001).
    """
    counts, gaps = groups.sum(inside, np.int64), groups.sum((won - p) * inside)
    total, n = int(counts.sum()), int(np.count_nonzero(counts))
    predicted, observed = float(p[inside].mean()), float(won[inside].mean())
    if n < 2:
        return Bin(model, total, predicted, observed, math.nan, math.nan)
    residuals = gaps - gaps.sum() / total * counts
    variance = n / (n - 1) * float(residuals @ residuals) / total**2
    n_effective = min(total, observed * (1 - observed) / variance) if observed * (1 - observed) > 0 else total
    tail = (1 - confidence) / 2
    n_effective *= float(ndtri(tail) / stdtrit(n - 1, tail)) ** 2
    shape = n_effective * observed + 0.5, n_effective * (1 - observed) + 0.5
    low = float(betaincinv(*shape, tail)) if observed > 0 else 0.0
    high = float(betaincinv(*shape, 1 - tail)) if observed < 1 else 1.0
    return Bin(model, total, predicted, observed, low, high)


def section(data: ReportData) -> list[Block]:
    bins, metric = calibration(data), _probability_metric(data)
    if not bins or metric is None:
        return []
    summary = " ".join(_summaries(data, bins, metric))
    n_outside = sum(bin_.is_miscalibrated for bin_ in bins)
    missed = f"{100 * (1 - data.comparison.confidence):.3g} %"
    columns = {
        Column("Model"): lambda bin_: data.model_name(bin_.model),
        Column("Rows", "count"): lambda bin_: bin_.n_rows,
        Column("Predicted", "metric"): lambda bin_: bin_.predicted,
        Column("Observed", "metric"): lambda bin_: bin_.observed,
        Column("from", "metric"): lambda bin_: bin_.low,
        Column("to", "metric"): lambda bin_: bin_.high,
    }
    return [
        Heading(
            "Calibration",
            finding=f"{n_outside} of {len(bins)} predictions outside their interval",
            asked=True,
        ),
        Paragraph(
            "Test documents in bins of about as many by predicted probability: the mean prediction, and the share that "
            f"won, with its {data.confidence_label} interval over queries. Each interval alone misses in {missed} of "
            f"cases, so one of ten outside says little. Each model's first seed. {summary}"
        ),
        _chart(data, bins, summary),
        Table.of(
            "calibration",
            "Predicted probability and observed share of winners.",
            bins,
            columns,
            ten_rows=True,
        ),
    ]


def _summaries(data: ReportData, bins: Sequence[Bin], metric: ProbabilityMetric) -> list[str]:
    """Return for each model how many of its predictions are outside their interval, and its temperatures."""
    sentences = []
    for name in dict.fromkeys(bin_.model for bin_ in bins):
        miscalibrated = [bin_.is_miscalibrated for bin_ in bins if bin_.model == name]
        definitions = (record.measuring([metric])[0] for record in data.records_of(name))
        temperatures = dict.fromkeys(f"{fitted.t:.4g}" for fitted in definitions if fitted.is_fitted)
        sentences.append(
            f"{name}: {sum(miscalibrated)} of {len(miscalibrated)} predictions outside their interval; "
            f"T from validation data {', '.join(temperatures) or 'none'}."
        )
    return sentences


def _chart(data: ReportData, bins: Sequence[Bin], description: str) -> Chart:
    """Return a panel for each model; where an interval is unknown, it is drawn from 0 to 1."""
    names = list(dict.fromkeys(bin_.model for bin_ in bins))
    rows = []
    for bin_ in bins:
        low, high = (0.0, 1.0) if math.isnan(bin_.low) else (bin_.low, bin_.high)
        numbers = {"predicted": bin_.predicted, "observed": bin_.observed, "low": low, "high": high}
        rows.append({"model": bin_.model, **{name: round(value, 5) for name, value in numbers.items()}})
    x = charts.quantitative("predicted", title="predicted", axis={"tickCount": 4, "grid": False})
    y = charts.quantitative("observed", title="won", axis={"tickCount": 4})
    shared = {"x": x, "color": charts.model_colour(data, names)}
    tooltip = charts.tooltip("model", predicted=".4f", observed=".4f", low=".4f", high=".4f")
    start, end = {"datum": 0}, {"datum": max(max(bin_.predicted, bin_.observed) for bin_ in bins)}
    layers = [
        charts.layer(charts.DASHED, x=start, y=start, x2=end, y2=end),
        charts.layer({"type": "rule"}, **shared, y={**y, "field": "low"}, y2={"field": "high"}),
        charts.layer(charts.dots(34), **shared, y=y, tooltip=tooltip),
    ]
    title = "Share of winners over predicted probability; dashed where both are equal"
    return Chart("calibration", title, charts.small_multiples(names, rows, {"layer": layers}), description)
