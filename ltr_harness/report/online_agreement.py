"""The page of past experiments: does offline predict online?"""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from ltr_harness._util.json_values import json_text
from ltr_harness._util.text import count_of
from ltr_harness.comparison.caution_choice import choose_cautions
from ltr_harness.experiments.compare.errors_in_variables import Interval
from ltr_harness.experiments.compare.online_agreement import PROBABILITY, OnlineAgreement
from ltr_harness.report import blocks, charts
from ltr_harness.report.blocks import (
    Badge,
    Block,
    Cell,
    Column,
    Heading,
    Paragraph,
    Report,
    Section,
    Table,
    caution_blocks,
)

UNDETERMINED = "cannot be told"


def agreement_page(agreement: OnlineAgreement) -> Report:
    """Return the verdict, the table of metrics, a scatter of each, and everything in the JSON."""
    banner = blocks.Banner(Badge("open", "neutral"), "No metric is shown to predict the online difference")
    if agreement.leader is not None:
        comparison_text = (
            f" better than {', '.join(agreement.weaker_metrics)}"
            if 0 < len(agreement.weaker_metrics) <= 3
            else ""
        )
        title = f"{agreement.leader.metric} predicts the online difference{comparison_text}"
        banner = blocks.Banner(Badge("predicts", "good"), title)
    metrics = Table.of(
        "offline_online",
        f"Each metric with {100 * agreement.confidence:g} % intervals. Differences that were measured with the "
        "metric's median standard error; inf: no difference is shown to be enough.",
        agreement.metrics,
        {
            Column("Metric", "code"): attrgetter("metric"),
            Column("Correlation", "number", hint="Correlation of the true effects."): _interval_cell(
                "correlation"
            ),
            Column("of measured", "number", hint="Errors pull it to 0."): attrgetter("naive"),
            Column(
                "Slope", "number", hint="True online effect per unit of the offline metric."
            ): _interval_cell("slope"),
            Column(
                "Same sign", "percent", hint="Experiments whose true effects agree in sign."
            ): _interval_cell("same_signs"),
            Column("Difference", "difference", hint="A typical metric."): attrgetter("difference"),
            Column("P(online > 0)", "percent", hint="Given that difference."): _interval_cell("positive"),
            Column(f"Needed for {PROBABILITY:.0%}", "difference"): _interval_cell("needed"),
        },
    )
    cautions = caution_blocks(choose_cautions(agreement.cautions))
    answer: list[Block] = [banner, Paragraph(agreement.verdict), metrics, *cautions]
    if agreement.pairs:
        higher = "By how much the first metric's correlation is higher, on the same experiments"
        caption = f"{higher}; intervals hold for all pairs."
        columns: dict[Column, Callable[[Any], Cell]] = {
            Column("First", "code"): attrgetter("first"),
            Column("Second", "code"): attrgetter("second"),
            Column("Difference", "difference"): _interval_cell("difference"),
        }
        answer.append(Table.of("offline_online_pairs", caption, agreement.pairs, columns))
    scatter = [Heading("Online over offline"), _scatter_chart(agreement)]
    if any(metric.curve for metric in agreement.metrics):
        scatter.append(_chance_chart(agreement))
    facts = (count_of(len(agreement.experiments), "experiment"), count_of(len(agreement.metrics), "metric"))
    sections = (Section("verdict", tuple(answer)), Section("scatter", tuple(scatter)))
    return Report("Does offline predict online?", facts, sections, lambda: json_text(agreement))


def _interval_cell(name: str) -> Callable[[Any], Cell]:
    """Return the function that gives a record's interval of that name as a cell."""

    def cell(record: Any) -> Cell:
        interval: Interval | None = getattr(record, name)
        return (
            UNDETERMINED if interval is None else blocks.Estimate(interval.value, interval.low, interval.high)
        )

    return cell


def _panel_spec(agreement: OnlineAgreement, rows: list[dict[str, Any]], *layers: Any) -> dict[str, Any]:
    """Return a panel for each metric, on a scale of its own."""
    spec = charts.small_multiples(
        [metric.metric for metric in agreement.metrics], rows, {"layer": list(layers)}
    )
    return {**spec, "resolve": {"axis": {"x": "independent"}, "scale": {"x": "independent"}}}


def _scatter_chart(agreement: OnlineAgreement) -> Block:
    rows: list[dict[str, Any]] = []
    online = list(zip(agreement.experiments, agreement.online, agreement.online_se, strict=True))
    reach = 2 * max(abs(y) + 2 * t for _, y, t in online)
    for metric in agreement.metrics:
        rows += [
            {
                "model": metric.metric, "experiment": name, "x": x, "low": x - 2 * s, "high": x + 2 * s,
                "y": y, "below": y - 2 * t, "above": y + 2 * t,
            }
            for (name, y, t), x, s in zip(online, metric.offline, metric.offline_se, strict=True)
        ]  # fmt: skip
        rows += [
            {
                "model": metric.metric, "line": point.offline, "y": point.online.value,
                "below": max(point.online.low, -reach), "above": min(point.online.high, reach),
            }
            for point in metric.curve
        ]  # fmt: skip
    x = charts.quantitative("x", title="offline difference", axis={"tickCount": 3})
    y = charts.quantitative("y", title="online difference")
    tooltips = charts.tooltip("experiment", x="+.4f", y="+.4f")
    ends, line = {"y": {**y, "field": "below"}, "y2": {"field": "above"}}, {**x, "field": "line"}
    bar = {"type": "rule", "opacity": 0.35, "clip": True}
    layers = (
        charts.layer({"type": "area", "opacity": 0.2, "clip": True}, x=line, **ends),
        charts.layer({"type": "line", "clip": True}, x=line, y=y),
        charts.layer(bar, x=x, **ends),
        charts.layer(bar, y=y, x={**x, "field": "low"}, x2={"field": "high"}),
        charts.layer(charts.dots(30), x=x, y=y, tooltip=tooltips),
    )
    words = (
        f"{metric.metric}: slope {metric.slope or UNDETERMINED}, "
        f"correlation of true effects {metric.correlation or UNDETERMINED}."
        for metric in agreement.metrics
    )
    title = "Each experiment with two standard errors, and the expected online effect with its band"
    return blocks.Chart("offline_online", title, _panel_spec(agreement, rows, *layers), " ".join(words))


def _chance_chart(agreement: OnlineAgreement) -> Block:
    points = [
        (metric.metric, point.offline, point.positive)
        for metric in agreement.metrics
        for point in metric.curve
    ]
    rows = [{"model": name, "x": x, "p": p.value, "low": p.low, "high": p.high} for name, x, p in points]
    x = charts.quantitative("x", title="measured offline difference", axis={"tickCount": 3})
    y = charts.quantitative("p", title="P(online > 0)", axis={"format": "%"}, scale={"domain": [0, 1]})
    ends = {"y": {**y, "field": "low"}, "y2": {"field": "high"}}
    layers = (
        charts.layer({"type": "area", "opacity": 0.2}, x=x, **ends),
        charts.layer({"type": "line"}, x=x, y=y),
        charts.layer(charts.DASHED, y={"datum": PROBABILITY}),
    )
    words = (
        f"{metric.metric}: {point.positive.value:.0%} at {point.offline:+.4g}."
        for metric in agreement.metrics
        for point in metric.curve[:: max(1, len(metric.curve) - 1)]
    )
    title = f"The probability of an online gain, with its band; the dashed line is {PROBABILITY:.0%}"
    return blocks.Chart(
        "offline_online_chance", title, _panel_spec(agreement, rows, *layers), " ".join(words)
    )
