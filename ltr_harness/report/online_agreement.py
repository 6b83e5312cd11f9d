"""Does offline predict online? The page of past experiments."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from ltr_harness._util.text import count_of, json_text
from ltr_harness.experiments.compare.errors_in_variables import Interval
from ltr_harness.experiments.compare.online_agreement import PROBABILITY, OnlineAgreement
from ltr_harness.report import blocks, charts
from ltr_harness.report.blocks import Badge, Block, Cell, Column, Heading, Paragraph, Report, Section, Table

OPEN = "cannot be told"


def agreement_page(found: OnlineAgreement) -> Report:
    """The verdict, the table of metrics, a scatter of each, and everything in the JSON."""
    banner = blocks.Banner(Badge("open", "neutral"), "No metric is shown to predict the online difference")
    if found.leader is not None:
        than = f" better than {', '.join(found.weaker_metrics)}" if 0 < len(found.weaker_metrics) <= 3 else ""
        title = f"{found.leader.metric} predicts the online difference{than}"
        banner = blocks.Banner(Badge("predicts", "good"), title)
    metrics = Table.of(
        "offline_online",
        f"Each metric with {100 * found.confidence:g} % intervals. Differences that were measured with the metric's "
        "median standard error; inf: no difference is shown to be enough.",
        found.metrics,
        {
            Column("Metric", "code"): attrgetter("metric"),
            Column("Correlation", "number", hint="Of true effects."): _ends("correlation"),
            Column("of measured", "number", hint="Errors pull it to 0."): attrgetter("naive"),
            Column("Slope", "number", hint="Of the true online effect over the offline one."): _ends("slope"),
            Column("Same sign", "percent", hint="Of the true effects of an experiment."): _ends("same_signs"),
            Column("Difference", "difference", hint="A typical one."): attrgetter("difference"),
            Column("P(online > 0)", "percent", hint="Given that difference."): _ends("positive"),
            Column(f"Needed for {PROBABILITY:.0%}", "difference"): _ends("needed"),
        },
    )
    cautions = (Paragraph(str(caution), "note") for caution in found.cautions)
    answer: list[Block] = [banner, Paragraph(found.verdict), metrics, *cautions]
    if found.pairs:
        higher = "By how much the first metric's correlation is higher, on the same experiments"
        said = f"{higher}; intervals hold for all pairs."
        columns: dict[Column, Callable[[Any], Cell]] = {
            Column("First", "code"): attrgetter("first"),
            Column("Second", "code"): attrgetter("second"),
            Column("Difference", "difference"): _ends("difference"),
        }
        answer.append(Table.of("offline_online_pairs", said, found.pairs, columns))
    scatter = [Heading("Online over offline"), _scatter(found)]
    scatter += [_chances(found)] if any(one.curve for one in found.metrics) else []
    facts = (count_of(len(found.experiments), "experiment"), count_of(len(found.metrics), "metric"))
    sections = (Section("verdict", tuple(answer)), Section("scatter", tuple(scatter)))
    return Report("Does offline predict online?", facts, sections, lambda: json_text(found))


def _ends(name: str) -> Callable[[Any], Cell]:
    """The interval of that name as a cell."""

    def cell(record: Any) -> Cell:
        ends: Interval | None = getattr(record, name)
        return OPEN if ends is None else blocks.Estimate(ends.value, ends.low, ends.high)

    return cell


def _panels(found: OnlineAgreement, rows: list[dict[str, Any]], *layers: Any) -> dict[str, Any]:
    """One of each metric; they differ in scale."""
    spec = charts.small_multiples([one.metric for one in found.metrics], rows, {"layer": list(layers)})
    return {**spec, "resolve": {"axis": {"x": "independent"}, "scale": {"x": "independent"}}}


def _scatter(found: OnlineAgreement) -> Block:
    rows: list[dict[str, Any]] = []
    online = list(zip(found.experiments, found.online, found.online_se, strict=True))
    reach = 2 * max(abs(y) + 2 * t for _, y, t in online)
    for one in found.metrics:
        rows += [
            {
                "model": one.metric, "experiment": name, "x": x, "low": x - 2 * s, "high": x + 2 * s,
                "y": y, "below": y - 2 * t, "above": y + 2 * t,
            }
            for (name, y, t), x, s in zip(online, one.offline, one.offline_se, strict=True)
        ]  # fmt: skip
        rows += [
            {
                "model": one.metric, "line": at.offline, "y": at.online.value,
                "below": max(at.online.low, -reach), "above": min(at.online.high, reach),
            }
            for at in one.curve
        ]  # fmt: skip
    x = charts.quantitative("x", title="offline difference", axis={"tickCount": 3})
    y = charts.quantitative("y", title="online difference")
    told = charts.tooltip("experiment", x="+.4f", y="+.4f")
    ends, line = {"y": {**y, "field": "below"}, "y2": {"field": "above"}}, {**x, "field": "line"}
    bar = {"type": "rule", "opacity": 0.35, "clip": True}
    layers = (
        charts.layer({"type": "area", "opacity": 0.2, "clip": True}, x=line, **ends),
        charts.layer({"type": "line", "clip": True}, x=line, y=y),
        charts.layer(bar, x=x, **ends),
        charts.layer(bar, y=y, x={**x, "field": "low"}, x2={"field": "high"}),
        charts.layer(charts.dots(30), x=x, y=y, tooltip=told),
    )
    words = (
        f"{one.metric}: slope {one.slope or OPEN}, correlation of true effects {one.correlation or OPEN}."
        for one in found.metrics
    )
    title = "Each experiment with two standard errors, and the expected online effect with its band"
    return blocks.Chart("offline_online", title, _panels(found, rows, *layers), " ".join(words))


def _chances(found: OnlineAgreement) -> Block:
    points = [(one.metric, at.offline, at.positive) for one in found.metrics for at in one.curve]
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
        f"{one.metric}: {at.positive.value:.0%} at {at.offline:+.4g}."
        for one in found.metrics
        for at in one.curve[:: max(1, len(one.curve) - 1)]
    )
    title = f"The probability of an online gain, with its band; the dashed line is {PROBABILITY:.0%}"
    return blocks.Chart("offline_online_chance", title, _panels(found, rows, *layers), " ".join(words))
