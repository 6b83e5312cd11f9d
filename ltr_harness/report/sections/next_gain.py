"""The next gain: which feature groups are worth their cost, and what more training queries would gain."""

from collections.abc import Callable, Sequence
from typing import Any

from ltr_harness._util.text import count_of
from ltr_harness.comparison.contrasts import Paired
from ltr_harness.comparison.stats.learning_curve import FEWEST_SHARES, GainEstimate
from ltr_harness.experiments.compare.next_gain import (
    CurvePoint,
    GroupWorth,
    LabelCeiling,
    NextGain,
    QueriesWorth,
    shared_feature_lines,
)
from ltr_harness.experiments.inspection.agreement import agreement_lines
from ltr_harness.report import charts, formats
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
    Tone,
    axis_of,
)
from ltr_harness.report.data import ReportData

_MOST_NAMED = 3  # groups that the first line names; the table has all
_TONES: dict[str, Tone] = {"removable": "good", "needed": "neutral", "undecided": "muted"}


def section(data: ReportData) -> list[Block]:
    if not data.next_gains:
        return []
    answers = [Paragraph(line, "lead") for line in answer_lines(data.next_gains)]
    heading = Heading("Where the next gain is", finding=_finding(data.next_gains), matters=True)
    blocks: list[Block] = [heading, *answers, *_left_to_win(data), *_label_noise(data)]
    files = formats.file_names([gain.model for gain in data.next_gains])
    for gain in data.next_gains:
        suffix = ""
        if len(data.next_gains) > 1:
            suffix = f"_{files[gain.model]}"
            blocks.append(Heading(gain.model, 3))
        blocks += _group_blocks(data, gain, suffix)
        blocks += _query_blocks(data, gain, suffix)
    return blocks


def answer_lines(gains: Sequence[NextGain]) -> list[str]:
    """Return the answer of each studied model as a sentence, after its name where there are several."""
    lines = []
    for gain in gains:
        name = f"{gain.model}: " if len(gains) > 1 else ""
        lines.append(f"{name}{answer(gain)}")
    return lines


def answer(gain: NextGain) -> str:
    """Return a study's answer: twice the queries, groups that are needed and can go, and the ceiling of the labels."""
    parts = []
    if gain.queries is not None:
        parts.append(_outlook_text(gain.queries))
    needed = sorted(
        (group_worth for group_worth in gain.groups if group_worth.verdict == "needed"),
        key=lambda group_worth: -group_worth.largest_loss,
    )
    for group_worth in needed[:_MOST_NAMED]:
        low, high = (
            formats.difference(group_worth.without.ci_low),
            formats.difference(group_worth.without.ci_high),
        )
        parts.append(f"without {group_worth.groups[0]} features: {low} to {high}")
    if gain.groups:
        parts.append(_removable_text(gain))
    if gain.labels is not None:
        parts.append(_labels_text(gain.model, gain.labels))
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def _outlook_text(queries: QueriesWorth) -> str:
    """Return the forecast for twice the training queries, or the reason that there is none."""
    head = "twice the training queries"
    if queries.outlook == "forecast":
        return f"{head}: {_range(queries.gain)}"
    if queries.outlook == "flat":
        return f"{head}: {_range(queries.gain)}, the curve is flat"
    if queries.outlook == "too few shares":
        return f"{head}: no forecast from fewer than {FEWEST_SHARES - 1} shares below the whole"
    smallest = formats.percent(queries.points[0].share)
    return f"{head}: too noisy to tell (from {smallest} of the queries to all: {_range(queries.rise)})"


def _labels_text(model: str, labels: LabelCeiling) -> str:
    """Return the ceiling that judges' disagreement sets, and the model's distance to it."""
    text = f"the ceiling of these labels is {_ceiling_text(labels)}"
    for pair in labels.models:
        if pair.model == model:
            text += (
                f", the model {formats.difference(pair.ci_low)} to {formats.difference(pair.ci_high)} from it"
            )
    return text


def _range(interval: GainEstimate) -> str:
    return f"{formats.difference(interval.low)} to {formats.difference(interval.high)}"


def _removable_text(gain: NextGain) -> str:
    """Return the words on the groups that can go, together where they were left out together."""
    removable = [group_worth.groups[0] for group_worth in gain.groups if group_worth.verdict == "removable"]
    names = " and ".join(removable)
    if not removable:
        return "no feature group is shown to be removable"
    if len(removable) == 1:
        return f"{names} features can go"
    joint_worth = gain.together
    if joint_worth is not None and joint_worth.verdict == "removable":
        return f"{' and '.join(joint_worth.groups)} features can go together"
    if joint_worth is None:
        return f"{names} features can each go; leaving out several was not tried"
    loss = f"the loss could be up to {formats.metric(joint_worth.largest_loss)}"
    return f"{' and '.join(joint_worth.groups)} features can each go, not together: {loss}"


def _finding(gains: Sequence[NextGain]) -> str:
    worths = [group_worth for gain in gains for group_worth in gain.groups]
    n_removable = sum(group_worth.verdict == "removable" for group_worth in worths)
    parts = []
    if worths:
        parts.append(f"{n_removable} of {count_of(len(worths), 'feature group')} can go")
    with_queries = [gain.queries for gain in gains if gain.queries is not None]
    n_rising = sum(queries.outlook == "forecast" and queries.gain.low > 0 for queries in with_queries)
    if with_queries:
        parts.append("more queries help" if n_rising else "more queries: no gain is shown")
    return "; ".join(parts)


def _left_to_win(data: ReportData) -> list[Block]:
    """Return the line on what the studied models, random order and the best order reach."""
    lines = []
    for gain in data.next_gains:
        headroom = data.comparison.headroom.get(gain.model)
        if headroom is not None:
            mean = f"{gain.model} {formats.metric(data.mean(gain.model))}"
            lines.append(
                f"{mean}, {headroom}; {formats.percent(headroom.share)} of what order can gain is won"
            )
    return [Paragraph(f"Left to win at {data.primary}: {'; '.join(lines)}.")] if lines else []


def _label_noise(data: ReportData) -> list[Block]:
    """Return how far judges of the test documents agree, and the ceiling that it sets, where documents have several."""
    tests = [record.data["test"] for record in data.records if "test" in record.data]
    agreements = tests[0].agreement if tests else ()
    if not agreements or agreements[0].equal is None:
        return []
    limit = "where judges differ, better labels are the gain, and no model can be right"
    line = Paragraph(f"Labels: {agreement_lines(agreements)[0]}; {limit}.")
    labels = data.next_gains[0].labels
    return [line] if labels is None else [line, _ceiling_table(labels)]


def _ceiling_table(labels: LabelCeiling) -> Table:
    """Return every tested model beside another judge."""
    axis = axis_of(end for pair in labels.models for end in (pair.ci_low, pair.ci_high))
    columns: dict[Column, Callable[[Paired], Cell]] = {
        Column("Model"): lambda pair: pair.model,
        Column(f"{labels.metric} by one judge", "metric"): lambda pair: pair.model_mean,
        Column(
            f"Against another judge {_interval_label(labels.family)}", "difference", axis=axis
        ): Estimate.of,
    }
    note = (
        f"{labels.family}. Documents with several judgments alone, over {count_of(labels.n_queries, 'query')}: one "
        "judgment of each grades them, another one ranks them. A model can be above: it learns from many judgments."
    )
    caption = f"The ceiling that judges' disagreement sets: {_ceiling_text(labels)}."
    return Table.of("label_ceiling", caption, labels.models, columns, footnotes=(note,))


def _ceiling_text(labels: LabelCeiling) -> str:
    low, high = formats.metric(labels.ci_low), formats.metric(labels.ci_high)
    return f"{labels.metric} {formats.metric(labels.mean)} ({low} to {high})"


def _group_blocks(data: ReportData, gain: NextGain, suffix: str) -> list[Block]:
    if not gain.groups:
        return []
    worths = [*gain.groups]
    if gain.together is not None:
        worths.append(gain.together)
    blocks: list[Block] = [_group_table(data, gain, worths, suffix), _bars(data, gain, worths, suffix)]
    if gain.together is not None:
        text = (
            "Groups that can go one by one need not be removable together: two copies of one signal each are, and not "
            "both. So the model was trained again without all of them. They were chosen on these test queries; other "
            "queries would confirm it."
        )
        blocks.append(Paragraph(text, "note"))
    return blocks


def _group_table(data: ReportData, gain: NextGain, worths: Sequence[GroupWorth], suffix: str) -> Table:
    axis = axis_of(
        end for group_worth in worths for end in (group_worth.without.ci_low, group_worth.without.ci_high)
    )
    margin = data.comparison.method.margin
    label = _interval_label(gain.family)
    columns: dict[Column, Callable[[GroupWorth], Cell]] = {
        Column("Feature group"): _group_name,
        Column(f"Without it {label}", "difference", axis=axis): lambda group_worth: Estimate.of(
            group_worth.without
        ),
        Column("Loss at most", "metric", hint="The worse end of the interval."): lambda group_worth: (
            group_worth.largest_loss
        ),
        Column("Verdict"): lambda group_worth: Badge(group_worth.verdict, _TONES[group_worth.verdict]),
        Column(f"It alone {label}", "difference"): _alone,
    }
    if any(group_worth.cost is not None for group_worth in worths):
        columns[Column("Cost", "number", hint="As given in the study.")] = lambda group_worth: (
            group_worth.cost
        )
    if any(group_worth.latency_share is not None for group_worth in worths):
        hint = "Share of the model's time to score 100 documents that goes with the group; without its computation."
        columns[Column("Latency", "percent", hint=hint)] = lambda group_worth: group_worth.latency_share
    rule = "no margin is given, so none is called removable: `compare: {margin: …}`"
    if margin is not None:
        rule = f"removable: the whole interval of the loss lies within the margin of {margin:g}"
    shared_lines = shared_feature_lines(
        {group_worth.groups[0]: group_worth.features for group_worth in gain.groups}
    )
    return Table.of(
        f"feature_groups{suffix}",
        f"{gain.model} trained again without each feature group and with it alone, against the whole at {gain.metric}.",
        worths,
        columns,
        footnotes=(f"{gain.family}; {rule}.", *(f"{line}." for line in shared_lines)),
    )


def _interval_label(family: str) -> str:
    """Return the heading of intervals, which are joint over a family of several comparisons."""
    return "[joint CI]" if family.startswith("joint") else "[CI]"


def _group_name(group_worth: GroupWorth) -> str:
    return " + ".join(group_worth.groups)


def _alone(group_worth: GroupWorth) -> Cell:
    return None if group_worth.only is None else Estimate.of(group_worth.only)


def _bars(data: ReportData, gain: NextGain, worths: Sequence[GroupWorth], suffix: str) -> Chart:
    """Return a bar for each group, the difference without it, with the interval as a whisker."""
    rows = [
        {
            "group": _group_name(group_worth),
            "verdict": group_worth.verdict,
            "place": place,
            **charts.difference(group_worth.without),
        }
        for place, group_worth in enumerate(worths)
    ]
    y = {
        "field": "group",
        "type": "nominal",
        "title": None,
        "sort": charts.BY_PLACE,
        "axis": {"labelLimit": 110},
    }
    axis = {"format": "+.3~f", "tickCount": 4}
    x = charts.quantitative("difference", title=None, axis=axis)
    tooltip = charts.tooltip("group", "verdict", difference="+.4f", low="+.4f", high="+.4f")
    colour = {"value": charts.colour_of(data.colours[gain.model])}
    layers = [
        charts.layer({"type": "bar", "opacity": 0.55}, x=x, y=y, color=colour, tooltip=tooltip),
        charts.layer(
            {"type": "rule", "strokeWidth": 1.6}, x={**x, "field": "low"}, x2={"field": "high"}, y=y
        ),
    ]
    margin = data.comparison.method.margin
    if margin is not None:
        limit = -margin if gain.higher_is_better else margin
        layers.append(charts.layer(charts.DASHED, x={"datum": limit}))
    spec = charts.wide(rows, 40, layer=layers) | {"height": {"step": 26}}
    title = f"Difference in {gain.metric} without each feature group"
    if margin is not None:
        title += "; beyond the dashed line a loss matters"
    texts = []
    for group_worth in worths:
        difference = formats.cell_text(Estimate.of(group_worth.without), "difference")
        texts.append(f"{_group_name(group_worth)}: {difference}, {group_worth.verdict}.")
    return Chart(f"feature_groups{suffix}", title, spec, " ".join(texts))


def _query_blocks(data: ReportData, gain: NextGain, suffix: str) -> list[Block]:
    queries = gain.queries
    if queries is None:
        return []
    return [
        _curve(data, gain, queries, suffix),
        Details("The learning curve as a table", (_curve_table(gain, queries, suffix),)),
    ]


def _curve(data: ReportData, gain: NextGain, queries: QueriesWorth, suffix: str) -> Chart:
    """Return the means over the number of training queries, and where twice the queries lead."""
    rows: list[dict[str, Any]] = [
        {
            "queries": point.queries,
            "mean": point.mean,
            "low": point.ci_low,
            "high": point.ci_high,
            "part": "measured",
        }
        for point in queries.points
    ]
    last = queries.points[-1]
    if queries.outlook in ("forecast", "flat"):
        sign = 1 if gain.higher_is_better else -1
        ends = sorted(last.mean + sign * end for end in (queries.gain.low, queries.gain.high))
        middle = last.mean + sign * queries.gain.estimate
        rows.append({"queries": last.queries, "mean": last.mean, "part": "forecast"})
        rows.append(
            {"queries": 2 * last.queries, "mean": middle, "low": ends[0], "high": ends[1], "part": "forecast"}
        )
    rows = [{key: _rounded(value) for key, value in row.items()} for row in rows]
    x = charts.quantitative(
        "queries",
        title="training queries",
        scale={"type": "log", "nice": False},
        axis={"grid": False, "tickCount": 4},
    )
    y = charts.quantitative("mean", title=None, scale={"zero": False}, axis={"minExtent": 44, "tickCount": 5})
    colour = {"value": charts.colour_of(data.colours[gain.model])}
    measured, forecast = ({"filter": f"datum.part === '{part}'"} for part in ("measured", "forecast"))
    tooltip = charts.tooltip("part", queries=",.0f", mean=".4f", low=".4f", high=".4f")
    band = {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": colour}
    layers = [
        {"transform": [measured], **charts.layer({"type": "area", "opacity": 0.16}, **band)},
        {
            "transform": [measured],
            **charts.layer({"type": "line", "strokeWidth": 1.6}, x=x, y=y, color=colour),
        },
        {
            "transform": [forecast],
            **charts.layer(
                {"type": "line", "strokeWidth": 1.6, "strokeDash": [4, 3]}, x=x, y=y, color=colour
            ),
        },
        {
            "transform": [forecast, {"filter": "isValid(datum.low)"}],
            **charts.layer({"type": "rule", "strokeWidth": 2}, **band),
        },
        charts.layer(charts.dots(30), x=x, y=y, color=colour, tooltip=tooltip),
    ]
    title = (
        f"{gain.metric} of {gain.model} by the number of training queries, with {data.confidence_label} bands"
    )
    texts = [f"{point.queries:,.0f} queries: {formats.metric(point.mean)}." for point in queries.points]
    if len(rows) > len(queries.points):
        title += "; dashed: the forecast"
    sentence = _outlook_text(queries)
    text = f"{' '.join(texts)} {sentence[0].upper()}{sentence[1:]}."
    return Chart(f"learning_curve{suffix}", title, charts.wide(rows, 190, layer=layers), text)


def _rounded(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else value


def _curve_table(gain: NextGain, queries: QueriesWorth, suffix: str) -> Table:
    def mean(point: CurvePoint) -> Cell:
        return Estimate(point.mean, point.ci_low, point.ci_high)

    return Table.of(
        f"learning_curve{suffix}",
        f"{gain.model} trained on random shares of the training queries.",
        queries.points,
        {
            Column("Share", "percent"): lambda point: point.share,
            Column("Training queries", "count", hint="Mean over the folds."): lambda point: point.queries,
            Column("Draws", "count"): lambda point: point.draws,
            Column(f"{gain.metric} [CI]", "metric"): mean,
        },
        footnotes=("Intervals are over other test queries and other draws of training queries.",),
    )
