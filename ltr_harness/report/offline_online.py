"""Does offline predict online? The page of past experiments."""

from typing import Any

from ltr_harness.comparison.offline_online import PROBABILITY, OnlineAgreement
from ltr_harness.report import blocks, charts
from ltr_harness.report.blocks import Badge, Block, Cell, Column, Heading, Paragraph, Report, Section, Table
from ltr_harness.stats.errors_in_variables import Interval
from ltr_harness.wording import count_of, json_text

OPEN = "cannot be told"


def agreement_page(found: OnlineAgreement) -> Report:
    """The verdict, the table of metrics, a scatter of each, and everything in the JSON."""
    answer: list[Block] = [
        _banner(found),
        Paragraph(found.verdict),
        _metrics(found),
        *(Paragraph(note, "note") for note in found.notes),
    ]
    if found.pairs:
        answer.append(_pairs(found))
    scatter: list[Block] = [Heading("Online over offline"), _scatter(found), _chances(found)]
    sections = (Section("verdict", tuple(answer)), Section("scatter", tuple(scatter)))
    facts = (count_of(len(found.experiments), "experiment"), count_of(len(found.metrics), "metric"))
    return Report("Does offline predict online?", facts, sections, lambda: json_text(found))


def _banner(found: OnlineAgreement) -> blocks.Banner:
    if found.leader is None:
        return blocks.Banner(Badge("open", "neutral"), "No metric is shown to predict the online difference")
    than = f" better than {', '.join(found.behind)}" if 0 < len(found.behind) <= 3 else ""
    return blocks.Banner(
        Badge("predicts", "good"), f"{found.leader.metric} predicts the online difference{than}"
    )


def _cell(ends: Interval | None) -> Cell:
    return OPEN if ends is None else blocks.Estimate(ends.value, ends.low, ends.high)


def _metrics(found: OnlineAgreement) -> Table:
    return Table.of(
        "offline_online",
        f"Each metric with {100 * found.confidence:g} % intervals. Differences that were measured with the metric's "
        "median standard error; inf: no difference is shown to be enough.",
        found.metrics,
        {
            Column("Metric", "code"): lambda one: one.metric,
            Column("Correlation", "number", hint="Of true effects, offline and online."): lambda one: _cell(
                one.correlation
            ),
            Column("of measured", "number", hint="Errors pull it to 0."): lambda one: one.naive,
            Column("Slope", "number", hint="Of the true online effect over the offline one."): lambda one: (
                _cell(one.slope)
            ),
            Column("Same sign", "percent", hint="Of the true effects of an experiment."): lambda one: _cell(
                one.same_signs
            ),
            Column("Difference", "difference", hint="A typical one."): lambda one: one.difference,
            Column("P(online > 0)", "percent", hint="Given that difference."): lambda one: _cell(
                one.positive
            ),
            Column(f"Needed for {PROBABILITY:.0%}", "difference"): lambda one: _cell(one.needed),
        },
    )


def _pairs(found: OnlineAgreement) -> Table:
    return Table.of(
        "offline_online_pairs",
        "By how much the first metric's correlation is higher, on the same experiments; intervals hold for all pairs.",
        found.pairs,
        {
            Column("First", "code"): lambda pair: pair.first,
            Column("Second", "code"): lambda pair: pair.second,
            Column("Difference", "difference"): lambda pair: _cell(pair.difference),
        },
    )


def _scatter(found: OnlineAgreement) -> blocks.Chart:
    rows: list[dict[str, Any]] = []
    reach = 2 * max(abs(y) + 2 * t for y, t in zip(found.online, found.online_se, strict=True))
    for one in found.metrics:
        points = zip(
            found.experiments, one.offline, one.offline_se, found.online, found.online_se, strict=True
        )
        rows += [
            {
                "model": one.metric, "experiment": name, "x": x, "low": x - 2 * s, "high": x + 2 * s,
                "y": y, "below": y - 2 * t, "above": y + 2 * t,
            }
            for name, x, s, y, t in points
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
    ends = {"y": {**y, "field": "below"}, "y2": {"field": "above"}}
    line = {**x, "field": "line"}
    bar = {"type": "rule", "opacity": 0.35, "clip": True}
    panel = {
        "layer": [
            charts.layer({"type": "area", "opacity": 0.2, "clip": True}, x=line, **ends),
            charts.layer({"type": "line", "clip": True}, x=line, y=y),
            charts.layer(bar, x=x, **ends),
            charts.layer(bar, y=y, x={**x, "field": "low"}, x2={"field": "high"}),
            charts.layer({"type": "point", "filled": True, "size": 30}, x=x, y=y, tooltip=told),
        ]
    }
    return blocks.Chart(
        name="offline_online",
        title="Each experiment with two standard errors, and the expected online effect with its band",
        spec=_own_x(charts.small_multiples([one.metric for one in found.metrics], rows, panel)),
        text=" ".join(
            f"{one.metric}: slope {one.slope or OPEN}, correlation of true effects {one.correlation or OPEN}."
            for one in found.metrics
        ),
    )


def _chances(found: OnlineAgreement) -> blocks.Chart:
    rows = [
        {
            "model": one.metric, "x": at.offline, "p": at.positive.value, "low": at.positive.low,
            "high": at.positive.high,
        }
        for one in found.metrics
        for at in one.curve
    ]  # fmt: skip
    x = charts.quantitative("x", title="measured offline difference", axis={"tickCount": 3})
    y = charts.quantitative(
        "p", title="P(online > 0)", axis={"format": "%", "tickCount": 3}, scale={"domain": [0, 1]}
    )
    panel = {
        "layer": [
            charts.layer(
                {"type": "area", "opacity": 0.2}, x=x, y={**y, "field": "low"}, y2={"field": "high"}
            ),
            charts.layer({"type": "line"}, x=x, y=y),
            charts.layer({"type": "rule", "strokeDash": [4, 3]}, y={"datum": PROBABILITY}),
        ]
    }
    return blocks.Chart(
        name="offline_online_chance",
        title=f"The probability of an online gain, with its band; the dashed line is {PROBABILITY:.0%}",
        spec=_own_x(charts.small_multiples([one.metric for one in found.metrics], rows, panel)),
        text=" ".join(
            f"{one.metric}: {at.positive.value:.0%} at {at.offline:+.4g}."
            for one in found.metrics
            for at in (one.curve[0], one.curve[-1])
        ),
    )


def _own_x(spec: dict[str, Any]) -> dict[str, Any]:
    """Metrics differ in scale."""
    return {**spec, "resolve": {"axis": {"x": "independent"}, "scale": {"x": "independent"}}}
