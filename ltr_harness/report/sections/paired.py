"""By how much does each model differ from the baseline, query by query?"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ltr_harness.comparison.result import Paired
from ltr_harness.numbers import none_if_undefined
from ltr_harness.report.blocks import (
    Badge,
    Block,
    Cell,
    Chart,
    Column,
    Details,
    Estimate,
    Heading,
    Paragraph,
    Table,
    code,
)
from ltr_harness.report.charts import (
    BY_PLACE,
    fade,
    histogram,
    intervals,
    model_colour,
    placed,
    spec,
)
from ltr_harness.report.data import ReportData
from ltr_harness.report.formats import difference as difference_text
from ltr_harness.report.formats import interval
from ltr_harness.report.metric_names import file_names
from ltr_harness.report.sections.verdict import TONES, corrected_label
from ltr_harness.wording import count_of

FAR = 4
"""Models that lie this many times further out than the widest interval around 0 reaches stand at the chart's edge."""


def section(data: ReportData) -> list[Block]:
    if not data.rivals:
        return []
    blocks: list[Block] = [
        Heading("Paired differences"),
        Paragraph(
            (
                "Every query is scored by both models; what counts is the difference on that query, model minus "
                f"{data.baseline}. Seeds are averaged per query first.",
            )
        ),
    ]
    compared = [name for name in data.rivals if not math.isnan(data.comparison.paired(name).difference)]
    if compared:
        blocks += [_interval_chart(data, compared), _table(data, data.primary, "paired")]
        blocks.append(_distribution(data, compared))
    else:
        blocks.append(_table(data, data.primary, "paired"))
    others = [metric for metric in data.metrics if metric != data.primary]
    if others:
        files = file_names(others)
        tables = tuple(_table(data, metric, f"paired_{files[metric]}") for metric in others)
        blocks.append(Details(f"The other {count_of(len(others), 'metric')}", tables))
    return blocks


def _table(data: ReportData, metric: str, name: str) -> Table:
    label = data.confidence_label
    comparison = data.comparison
    columns = (
        Column("Model"),
        Column(f"Difference [{label} interval]", "difference", hint="Mean of the per-query differences."),
        Column("Relative", "relative", hint="The difference as a share of the baseline's mean."),
        Column("Verdict"),
        Column("p", "p", hint=f"{comparison.method.test_text}."),
        Column(corrected_label(comparison.correction), "p", hint="Corrected for testing several models."),
        Column("p (t)", "p", hint="Paired t-test, beside the chosen test."),
        Column("Effect", "number", hint="d_z: mean of the differences over their standard deviation."),
        Column(
            "Win / tie / loss", "tally", hint="Queries on which the model is better, equal to 1e-9, worse."
        ),
        Column("Detectable", "metric", hint="Smallest difference these queries show with 80 % probability."),
    )
    rows: list[tuple[Cell, ...]] = []
    for model in data.rivals:
        pair = comparison.paired(model, metric)
        rows.append(
            (
                data.model_name(model),
                Estimate(pair.difference, pair.ci_low, pair.ci_high),
                pair.relative,
                Badge(pair.verdict, TONES[pair.verdict]),
                pair.p,
                pair.p_corrected,
                pair.p_t,
                pair.effect_size,
                f"{pair.wins:,} / {pair.ties:,} / {pair.losses:,}",
                pair.detectable,
            )
        )
    return Table(
        name=name,
        caption=("Against ", code(data.baseline), " at ", code(metric), "."),
        columns=columns,
        rows=tuple(rows),
        notes=(
            "A difference smaller than the detectable one may exist and these queries would probably not show it.",
        ),
    )


def _interval_rows(pairs: list[Paired], low: float, high: float) -> list[dict[str, Any]]:
    """An interval each; an arrow in place of one far outside of what is shown."""
    rows = []
    for pair in pairs:
        row: dict[str, Any] = {
            "model": pair.model,
            "difference": round(pair.difference, 6),
            "low": none_if_undefined(round(pair.ci_low, 6)),
            "high": none_if_undefined(round(pair.ci_high, 6)),
            "verdict": pair.verdict,
        }
        if pair.difference < low:
            row |= {"left": low, "beyond": f"◂ {difference_text(pair.difference)}"}
        elif pair.difference > high:
            row |= {"right": high, "beyond": f"{difference_text(pair.difference)} ▸"}
        rows.append(row)
    return rows


def _interval_chart(data: ReportData, compared: list[str]) -> Chart:
    pairs = [data.comparison.paired(name) for name in compared]
    low, high = _shown(pairs)
    rows = _interval_rows(pairs, low, high)
    y = {"field": "model", "type": "nominal", "sort": BY_PLACE, "title": None}
    x: dict[str, Any] = {
        "type": "quantitative",
        "title": "difference to the baseline",
        "axis": {"format": "+.3f", "tickCount": 7},
    }
    if low > -math.inf:
        x["scale"] = {"domain": [low, high], "nice": False}
    layers = intervals(data, compared, y, x, [{"field": "model"}, {"field": "verdict"}], size=80)
    beyond = [
        {
            "transform": [{"filter": f"isValid(datum.{side})"}],
            "mark": {"type": "text", "align": side, "fontSize": 11},
            "encoding": {
                "y": y,
                "x": {**x, "field": side},
                "text": {"field": "beyond"},
                "color": model_colour(data, compared),
                "opacity": fade(),
                "tooltip": layers[0]["encoding"]["tooltip"],
            },
        }
        for side in ("left", "right")
        if any(side in row for row in rows)
    ]
    if beyond:
        layers = [{**layer, "transform": [{"filter": "!isValid(datum.beyond)"}]} for layer in layers]
    body = {
        "width": "container",
        "height": 26 * len(rows),
        "autosize": {"type": "fit-x", "contains": "padding"},
        "data": {"values": placed(rows, compared)},
        "layer": [
            {
                "data": {"values": [{"zero": 0}]},
                "mark": {"type": "rule", "strokeDash": [4, 3], "clip": True},
                "encoding": {"x": {"field": "zero", "type": "quantitative"}},
            },
            *layers,
            *beyond,
        ],
    }
    return Chart(
        name="paired_differences",
        title=f"Difference in {data.primary} to {data.baseline} with {data.confidence_label} intervals; "
        "an interval across the dashed line means the sign is open"
        + ("; arrows point to models far outside" if beyond else ""),
        spec=spec(body),
        text=" ".join(
            f"{pair.model}: {difference_text(pair.difference)} {interval(pair.ci_low, pair.ci_high, signed=True)}, "
            f"{pair.verdict}."
            for pair in pairs
        ),
    )


def _shown(pairs: list[Paired]) -> tuple[float, float]:
    """Ends of the axis: infinite, or such that a far-off model does not squeeze those whose sign is open.

    A random baseline lies a hundred times further away than good models lie from each other, and it is these
    that the eye has to tell apart.
    """
    near = [pair for pair in pairs if pair.ci_low <= 0 <= pair.ci_high]
    reach = max((max(-pair.ci_low, pair.ci_high) for pair in near), default=math.inf)
    shown = [pair for pair in pairs if abs(pair.difference) <= FAR * reach]
    if reach in (0, math.inf) or len(shown) == len(pairs):
        return -math.inf, math.inf
    ends = [end for pair in shown for end in (pair.ci_low, pair.ci_high) if not math.isnan(end)]
    room = 0.15 * (max(ends) - min(ends))
    return round(min(ends) - room, 6), round(max(ends) + room, 6)


def _distribution(data: ReportData, compared: list[str]) -> Chart:
    """Histogram of the per-query differences: a mean can hide a few large losses."""
    differences = {
        name: d[~np.isnan(d)] for name in compared for d in [data.comparison.query_differences(name)]
    }
    widest = max(float(np.abs(d).max()) for d in differences.values()) or 1.0
    unit = 10.0 ** math.floor(math.log10(widest))
    reach = unit * math.ceil(widest / unit)  # a round number, so that the axis has round labels
    edges = np.linspace(-reach, reach, 22)  # 21 bins, so that ties share one in the middle
    words = []
    for name, d in differences.items():
        p10, median, p90 = np.quantile(d, [0.1, 0.5, 0.9])
        words.append(
            f"{name}: 10 % of the queries lose more than {difference_text(float(p10))}, the median is "
            f"{difference_text(float(median))}, 10 % gain more than {difference_text(float(p90))}."
        )
    axis = {"format": "+.2~f", "values": [-reach, -reach / 2, 0, reach / 2, reach]}
    return Chart(
        name="difference_distribution",
        title=f"Per-query differences to {data.baseline} at {data.primary}",
        spec=histogram(
            data, differences, edges, {"title": "difference to the baseline", "axis": axis}, "+.3f"
        ),
        text=" ".join(words),
    )
