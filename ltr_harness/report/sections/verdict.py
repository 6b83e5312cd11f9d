"""The verdict: the best model, its gain and the gain's interval."""

import math
from collections.abc import Sequence
from dataclasses import replace

from ltr_harness._util.text import count_of, plural
from ltr_harness.comparison.comparison import Comparison, Outcome
from ltr_harness.comparison.contrasts import Estimated
from ltr_harness.comparison.headroom import headroom_lines
from ltr_harness.comparison.main_table import MainColumn, columns_of, corrected_p, tally_text, values_of
from ltr_harness.comparison.over_time import signs_sentence
from ltr_harness.errors import labelled
from ltr_harness.metrics.core import judged_share
from ltr_harness.metrics.core.grammar import MetricName
from ltr_harness.report import blocks, charts
from ltr_harness.report.blocks import Badge, Block, Cell, Column, Details, ModelName, Paragraph, Table, Tone
from ltr_harness.report.data import ReportData

TONES: dict[str, Tone] = {"better": "good", "worse": "bad", "baseline": "muted"}


def verdict_badge(verdict: str) -> Badge:
    return Badge(verdict, TONES.get(verdict, "neutral"))


def corrected_p_column(data: ReportData, metric: str | None = None) -> Column:
    """Return the column of p-values at a metric."""
    return page_column(corrected_p(data.comparison, metric))


PILLS: dict[Outcome, Badge] = {
    "better": Badge("better", "good"),
    "worse": Badge("worse", "bad"),
    "equivalent": Badge("equivalent", "neutral"),
    "no clear winner": Badge("undecided", "neutral"),
    "one model": Badge("one model", "neutral"),
    "nothing to compare": Badge("no result", "neutral"),
}

FAR = 4
"""A model that lies this many times further out than a usual interval around 0 stands at the axis' edge."""


def section(data: ReportData) -> list[Block]:
    comparison = data.comparison
    outcome, text = comparison.headline
    content: list[Block] = [blocks.Banner(PILLS[outcome], text)]
    if comparison.seeds_caution is not None:
        content.append(Paragraph(f"{comparison.seeds_caution}.", "note"))
    if data.failures:
        content.append(Paragraph(failures_sentence(data), "warning"))
    content.append(fixed_k_table(data))
    content += _headroom_chart(data)
    content += [Paragraph(line) for line in headroom_lines(comparison.headroom.values(), data.primary)]
    if comparison.judged:
        line = judged_share.in_words(MetricName.of(data.primary).k, comparison.judged)
        content.append(Paragraph(f"{line[:1].upper()}{line[1:]}."))
    if signs := signs_sentence(comparison.fold_signs):
        content.append(Paragraph(signs))
    if comparison.cheap_label_lines:
        content.append(blocks.Bullets(comparison.cheap_label_lines))
    below, folded = comparison.chosen_cautions
    if below is not None:
        folded_text = comparison.chosen_cautions.folded_text
        more = f" ({folded_text} under Method)" if folded_text else ""
        content.append(Paragraph(f"{labelled(below)}{more}", "note"))
    details: list[Block] = [Paragraph(comparison.verdict), Paragraph(queries_sentence(data))]
    if folded:
        details.append(blocks.Bullets(tuple(map(labelled, folded))))
    method = f"{data.weighted}means with {data.confidence_label} intervals over queries".capitalize()
    if comparison.families:
        over = "queries and seeds" if data.over_seeds else "queries"
        test = f"{comparison.method.test_text} over {over}{comparison.method.weights_text}"
        method = f"Method: {test}, {data.joint()}{data.confidence_label} intervals of differences"
        method_text = comparison.method.describe()
        method_text = f"{method_text[:1].upper()}{method_text[1:]}; {comparison.families[0]}."
        if data.over_seeds:
            method_text += " With several seeds, differences are judged over queries and seeds together."
        details.append(Paragraph(method_text))
    return [*content, Details(method, tuple(details))]


_HEADROOM_PARTS = {
    "random order": "#a3abb3",
    "reached": "#4269d0",
    "up to the ceiling": "#a9bcec",
    "out of reach": "#e0a48f",
}
"""The parts of a bar, and their colours."""


def _headroom_chart(data: ReportData) -> list[Block]:
    """Return a bar a model from 0 to the best order of all judged documents, where candidates differ."""
    headroom = data.comparison.headroom
    if len({round(item.ceiling, 9) for item in headroom.values()}) < 2:
        return []
    rows, descriptions = [], []
    for name, item in headroom.items():
        mean = data.mean(name)
        ends = [0.0, item.random, mean, item.ceiling]
        if not math.isnan(item.out_of_reach):
            ends.append(item.ceiling + item.out_of_reach)
        for part, start, end in zip(_HEADROOM_PARTS, ends, ends[1:], strict=False):
            rows.append({"model": name, "part": part, "from": round(start, 6), "to": round(end, 6)})
        descriptions.append(f"{name}: {mean:.4f} reached; {item}.")
    names = list(headroom)
    colour = {
        "field": "part",
        "type": "nominal",
        "title": None,
        "scale": {"domain": list(_HEADROOM_PARTS), "range": list(_HEADROOM_PARTS.values())},
        "legend": {"orient": "top", "columns": 2},
    }
    bars = charts.layer(
        "bar",
        y={"field": "model", "type": "nominal", "sort": charts.BY_PLACE, "title": None},
        x=charts.quantitative("from", title="mean over queries", axis={"tickCount": 6}),
        x2={"field": "to"},
        color=colour,
        opacity=charts.fade(),
        tooltip=charts.tooltip("model", "part", **{"from": ".4f", "to": ".4f"}),
    )
    spec = charts.wide(charts.with_places(rows, names), 30 * len(names), autosize=charts.FIT, **bars)
    title = f"{data.primary} of a random order, of the model, of the best order of its candidates, and of all judged"
    return [blocks.Chart("headroom", title, spec, " ".join(descriptions))]


def fixed_k_table(data: ReportData) -> Table:
    """Return the main table: every model at the primary metric and its K, with its difference drawn."""
    comparison = data.comparison
    columns = columns_of(comparison, "page")
    headings = [Column("Model")]
    for column in columns:
        axis = None
        if column.format == "difference" and column.has_interval:
            axis = near_axis([comparison.paired(name) for name in data.rivals])
        headings.append(replace(page_column(column), axis=axis))
    rows = []
    for name in data.models:
        # the column of verdicts says which is the baseline
        model = ModelName(name, data.colours[name])
        rows.append((model, *(_main_cell(comparison, column, name) for column in columns)))
    caption = f"Models at {data.primary}"
    if data.rivals:
        caption += f", against {data.baseline}"
    return Table("fixed_k", caption, tuple(headings), tuple(rows))


def page_column(column: MainColumn) -> Column:
    """Return a column of the main table as one of a block."""
    heading = f"{column.heading} [{column.interval}]" if column.interval else column.heading
    number_format = "text" if column.format == "verdict" else column.format
    return Column(heading, number_format, best=column.best, hint=column.hint)


def _main_cell(comparison: Comparison, column: MainColumn, model: str) -> Cell:
    values = values_of(comparison, column, model)
    if values is None:
        return None
    if column.format == "verdict":
        return verdict_badge(values[0])
    if column.format == "tally":
        return tally_text(values)
    if not column.has_interval:
        number: float = values[0]
        return number
    mark = verdict_mark(comparison.paired(model).verdict) if column.record == "pairs" else ""
    value, low, high = values
    return blocks.Estimate(value, low, high, mark)


def verdict_mark(verdict: str) -> blocks.Mark:
    """Return the mark that colours a difference: none where its sign is open."""
    if verdict == "better":
        return "better"
    return "worse" if verdict == "worse" else ""


def near_axis(pairs: Sequence[Estimated]) -> tuple[float, float] | None:
    """Return an axis with 0 on it, on which no far-off model and no endless interval squeezes those left open.

    A usual interval decides what is far: an end beyond that is drawn up to the axis' edge.
    """
    reaches = sorted(max(-pair.ci_low, pair.ci_high) for pair in pairs if pair.ci_low <= 0 <= pair.ci_high)
    usual_reach = reaches[(len(reaches) - 1) // 2] if reaches else math.inf
    farthest = FAR * (usual_reach or math.inf)
    ends = []
    for pair in pairs:
        if abs(pair.difference) <= farthest:
            ends += [
                max(pair.ci_low, pair.difference - farthest),
                min(pair.ci_high, pair.difference + farthest),
            ]
    return blocks.axis_of(ends)


def near_models(data: ReportData) -> list[str]:
    """Return the rivals that a chart of differences can show beside each other, best first."""
    low, high = near_axis([data.comparison.paired(name) for name in data.rivals]) or (-math.inf, math.inf)
    return [name for name in data.rivals if low <= data.comparison.paired(name).difference <= high]


def queries_sentence(data: ReportData) -> str:
    """Return a sentence on the queries without a value, and on those of weight 0."""
    undefined, n, metric = data.n_undefined, data.comparison.n_queries, data.primary
    sentence, weightless = _undefined_sentence(undefined, n, data.n_empty, metric), data.n_weightless
    if weightless:
        sentence += f" {count_of(weightless, 'query')} {plural('has', weightless)} weight 0."
    return sentence


def _undefined_sentence(undefined: int, n: int, empty: int | None, metric: str) -> str:
    """Return a sentence on the queries at which a metric is undefined, and on those without relevant documents."""
    if not undefined and not empty:
        return f"Every one of the {count_of(n, 'query')} has a value of {metric}."
    if empty is None:
        return f"{metric} is undefined for {undefined:,} of {count_of(n, 'query')}, left out of its mean."
    empty_text = f"Queries without relevant documents: {empty:,} of {n:,}. {metric}"
    if undefined and empty == undefined:
        return f"{empty_text} is undefined there; they are left out of its mean."
    if undefined:
        return f"{empty_text} is undefined for {count_of(undefined, 'query')}, left out of its mean."
    return f"{empty_text} has a value there; they are counted in its mean."


def failures_sentence(data: ReportData) -> str:
    models = sorted({record.model for record in data.failures})
    return (
        f"{count_of(len(data.failures), 'run')} failed ({', '.join(models)}); see Failures. Means cover "
        "the finished runs."
    )
