"""Quality against the cost of training and scoring."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ltr_harness._util.number_text import number_text
from ltr_harness._util.text import count_of
from ltr_harness.comparison.latency import ModelLatency, Percentile
from ltr_harness.experiments.runs.record import Record
from ltr_harness.experiments.runs.serving_cost import DOCUMENTS, ENOUGH, TYPICAL
from ltr_harness.report import charts
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
)
from ltr_harness.report.data import ReportData


def section(data: ReportData) -> list[Block]:
    costs = [cost(model, records) for model in data.models if (records := data.records_of(model))]
    blocks = [*_cost_blocks(data, costs), *_latency_blocks(data)]
    if not blocks:
        return []
    finding = _finding(costs) if costs else _latency_finding(data.latencies)
    return [Heading("Cost", finding=finding), *blocks]


def _cost_blocks(data: ReportData, costs: Sequence["Cost"]) -> list[Block]:
    """Return the cost of training and scoring; nothing where no model has runs."""
    if not costs:
        return []
    fit_hint = "Evaluation of every round on validation data included."
    score_hint = "One pass over the test rows in one call."
    table = Table.of(
        "cost",
        "Cost of training and scoring, medians over folds and seeds.",
        costs,
        {
            Column("Model"): lambda model_cost: data.model_name(model_cost.model),
            Column(data.primary, "metric", best=data.best(data.primary)): lambda model_cost: data.mean(
                model_cost.model
            ),
            Column("Fit, s", "seconds", hint=fit_hint): lambda model_cost: model_cost.fit_seconds,
            Column("Trees", "count"): lambda model_cost: model_cost.trees,
            Column("Leaves", "count", hint="Leaves of all trees."): lambda model_cost: model_cost.leaves,
            Column("Score, µs per row", "number", hint=score_hint): lambda model_cost: (
                model_cost.microseconds_per_row
            ),
            Column("Threads", "count"): lambda model_cost: model_cost.threads,
        },
        footnotes=("Times depend on this machine and its load; trees and leaves do not.",),
    )
    blocks: list[Block] = [table]
    times = {
        model_cost.model: serving(model_cost.model, data.records_of(model_cost.model)) for model_cost in costs
    }
    times = {model: model_times for model, model_times in times.items() if model_times}
    if times:
        blocks.append(_serving_table(data, times))
    if points := front(data):
        blocks += _front_blocks(data, points)
    return blocks


def _finding(costs: Sequence["Cost"]) -> str:
    """Return the shortest and the longest time of training, and the microseconds that a row takes to score."""
    findings = []
    for name, unit, values in (
        ("fit", "s", [cost.fit_seconds for cost in costs]),
        ("score", "µs per row", [cost.microseconds_per_row for cost in costs]),
    ):
        known_values = sorted(value for value in values if value is not None)
        if known_values:
            low, high = (number_text(value, "seconds") for value in (known_values[0], known_values[-1]))
            span = low if low == high else f"{low} to {high}"
            findings.append(f"{name} {span} {unit}")
    return "; ".join(findings) or count_of(len(costs), "model")


_VERDICT_TONES: dict[str, Tone] = {
    "worth it": "good",
    "not worth it": "bad",
    "trade-off": "neutral",
    "undecided": "muted",
}


def _latency_blocks(data: ReportData) -> list[Block]:
    """Return quality against the latency that was given, with the models that are worth theirs."""
    if not data.latencies:
        return []
    points = [(model_latency.p50.value, data.mean(model_latency.model)) for model_latency in data.latencies]
    marks = pareto_front(points, data.comparison.higher_is_better[data.primary])
    on_front = {model_latency.model: mark for model_latency, mark in zip(data.latencies, marks, strict=True)}
    interval = f"[{data.joint()}CI]"
    front_hint = "On the front, no other model has as low a p50 and as good a mean."
    depth: dict[Column, Callable[[ModelLatency], Cell]] = {}
    if any(model_latency.documents is not None for model_latency in data.latencies):
        hint = "Mean number of documents that a query's ranking lists."
        depth[Column("Documents", "number", hint=hint)] = lambda model_latency: model_latency.documents
    table = Table.of(
        "latency",
        f"Quality against latency: milliseconds per query, over {count_of(data.latencies[0].n_queries, 'query')}.",
        data.latencies,
        {
            Column("Model"): lambda model_latency: data.model_name(model_latency.model),
            Column(data.primary, "metric", best=data.best(data.primary)): lambda model_latency: data.mean(
                model_latency.model
            ),
            **depth,
            Column("p50, ms [CI]", "seconds"): lambda model_latency: _percentile_cell(model_latency.p50),
            Column("p95, ms [CI]", "seconds"): lambda model_latency: _percentile_cell(model_latency.p95),
            Column(f"Mean difference, ms {interval}", "number"): _time_cell,
            Column("Verdict"): _verdict_cell,
            Column("Pareto", hint=front_hint): lambda model_latency: _pareto_badge(
                on_front[model_latency.model]
            ),
        },
        footnotes=(
            "Intervals of p50 and p95 are exact for independent queries, those of differences are by the test of the "
            "comparison. Worth it: better and not shown to be slower, or equivalent and faster.",
        ),
    )
    lines = [Paragraph(line) for line in _verdict_lines(data)]
    return [table, *lines]


def _percentile_cell(percentile: Percentile) -> Estimate:
    return Estimate(percentile.value, percentile.low, percentile.high)


def _time_cell(model_latency: ModelLatency) -> Cell:
    return None if model_latency.difference is None else Estimate.of(model_latency.difference)


def _verdict_cell(model_latency: ModelLatency) -> Cell:
    if model_latency.verdict is None:
        return "baseline"
    return Badge(model_latency.verdict, _VERDICT_TONES[model_latency.verdict])


def _latency_finding(latencies: Sequence[ModelLatency]) -> str:
    low, high = (
        number_text(end(model_latency.p95.value for model_latency in latencies), "seconds")
        for end in (min, max)
    )
    return f"p95 {low} to {high} ms"


def latency_lines(data: ReportData) -> list[str]:
    """Return the percentiles of every model, then whether each is worth its latency; nothing without latencies."""
    if not data.latencies:
        return []
    times = [
        f"{model_latency.model} p50 {_percentile_text(model_latency.p50)}, p95 {_percentile_text(model_latency.p95)}"
        for model_latency in data.latencies
    ]
    return [f"Latency, ms: {'; '.join(times)}.", *_verdict_lines(data)]


def _percentile_text(percentile: Percentile) -> str:
    ends = (percentile.low, percentile.value, percentile.high)
    low, value, high = (number_text(end, "seconds") for end in ends)
    return f"{value} ({low} to {high})"


_SPEED = {"better": "faster", "worse": "slower", "not distinguishable": "not shown to be slower or faster"}
_QUALITY = {"not distinguishable": "not shown to be better or worse"}


def _verdict_lines(data: ReportData) -> list[str]:
    """Return a sentence for every model but the baseline."""
    lines = []
    for model_latency in data.latencies:
        time = model_latency.difference
        if time is None:
            continue
        quality = data.comparison.paired(model_latency.model)
        words = f"{_QUALITY.get(quality.verdict, quality.verdict)} and {_SPEED[time.verdict]}"
        by = f"by {time.difference:+.2f} ms a query ({time.ci_low:+.2f} to {time.ci_high:+.2f})"
        line = f"Beside {data.baseline}, {model_latency.model} is {words}, {by}: {model_latency.verdict}"
        if model_latency.verdict == "trade-off":
            price = abs(time.difference / quality.difference) / 100
            line += f", {number_text(price, 'seconds')} ms for each 0.01 of {data.primary}"
        lines.append(f"{line}.")
    return lines


def _serving_table(data: ReportData, times: Mapping[str, Sequence["Serving"]]) -> Table:
    columns = [Column("Model")]
    for documents in DOCUMENTS:
        group = count_of(documents, "document")
        columns += [Column("p50, µs", "seconds", group=group), Column("p99, µs", "seconds", group=group)]
    rows: list[tuple[Cell, ...]] = []
    for model, model_times in times.items():
        row: list[Cell] = [data.model_name(model)]
        for timing in model_times:
            row += [timing.p50, timing.p99]
        rows.append(tuple(row))
    note = (
        "Timed right after training by the library that trained the model, with the first of the seeds. Other "
        "load on the machine hardly moves medians, but it moves p99, which is left out where fewer than "
        f"{ENOUGH} calls were timed. On an idle machine: ltr-harness show trees RUN."
    )
    caption = "Microseconds per query, by the number of documents; one thread."
    return Table("serving", caption, tuple(columns), tuple(rows), footnotes=(note,))


@dataclass(frozen=True)
class Cost:
    """Cost of a model's training and scoring."""

    # medians; None where a model has no such thing
    model: str
    fit_seconds: float | None
    trees: int | None
    leaves: int | None
    microseconds_per_row: float | None
    threads: int


def cost(model: str, records: Sequence[Record]) -> Cost:
    """Return the medians of a model's costs over its runs."""
    per_row = [
        1e6 * record.seconds["score"] / record.data["test"].n_rows
        for record in records
        if "score" in record.seconds and "test" in record.data and record.data["test"].n_rows
    ]
    fit = [record.seconds["fit"] for record in records if "fit" in record.seconds]
    trees = [record.best_round for record in records if record.best_round is not None]
    leaves = [record.n_leaves for record in records if record.n_leaves is not None]
    return Cost(
        model,
        fit_seconds=_median(fit),
        trees=_median_count(trees),
        leaves=_median_count(leaves),
        microseconds_per_row=_median(per_row),
        threads=max(record.threads for record in records),
    )


def _median(values: Sequence[float]) -> float | None:
    """Return the median; None without any value."""
    return statistics.median(values) if values else None


def _median_count(counts: Sequence[int]) -> int | None:
    """Return the median, of two in the middle the lower; None without any count."""
    return statistics.median_low(counts) if counts else None


@dataclass(frozen=True)
class Serving:
    """Microseconds of one call that scores a list of documents, on one thread."""

    model: str
    documents: int
    p50: float
    p99: float | None  # None where too few were timed


@dataclass(frozen=True)
class FirstRounds:
    """A model's first rounds alone: the primary metric's mean, microseconds for 100 documents."""

    model: str
    rounds: int
    mean: float  # over all folds' queries; NaN where it is undefined
    p50: float
    on_front: bool  # no other is both as cheap and as good


def serving(model: str, records: Sequence[Record]) -> list[Serving]:
    """Return the times of the whole model for each length of list, medians over folds."""
    whole_models = (
        [timing for timing in record.latency if timing.rounds == record.best_round]
        for record in _timed_records(records)
    )
    by_length = []
    for folds in zip(*whole_models, strict=False):
        p50 = statistics.median(timing.p50 for timing in folds)
        known_p99 = [timing.p99 for timing in folds if timing.p99 is not None]
        by_length.append(Serving(model, folds[0].documents, p50, _median(known_p99)))
    return by_length


def first_rounds(model: str, records: Sequence[Record]) -> list[FirstRounds]:
    """Return the whole model, then fewer and fewer rounds, as many cuts as all folds have; medians over folds."""
    timed_records = _timed_records(records)
    summaries = [record.metrics[record.primary] for record in timed_records]
    n_defined = [summary.n_queries - summary.n_undefined for summary in summaries]
    typical_timings = (
        [timing for timing in record.latency if timing.documents == TYPICAL] for record in timed_records
    )
    cuts = []
    for folds in zip(*typical_timings, strict=False):
        mean = _mean_over_folds([timing.mean for timing in folds], n_defined)
        rounds = statistics.median_low(timing.rounds or 0 for timing in folds)
        p50 = statistics.median(timing.p50 for timing in folds)
        cuts.append(FirstRounds(model, rounds, mean, p50, on_front=False))
    return cuts


def _mean_over_folds(means: Sequence[float | None], n_queries: Sequence[int]) -> float:
    """Return the mean over the queries of all folds that have one; NaN where none has."""
    defined = [(mean, n) for mean, n in zip(means, n_queries, strict=True) if mean is not None]
    total = sum(n for _, n in defined)
    return sum(mean * n for mean, n in defined) / total if total else math.nan


def _timed_records(records: Sequence[Record]) -> list[Record]:
    """Return the records of the first seed that was timed."""
    timed_records = [record for record in records if record.latency]
    first = min((record.seed for record in timed_records), default=None)
    return [record for record in timed_records if record.seed == first]


def front(data: ReportData) -> list[FirstRounds]:
    """Return every model's cuts whose quality is by the primary metric of this comparison, the front marked."""
    cuts = [
        cut
        for model in data.models
        if {record.primary for record in data.records_of(model)} == {data.primary}
        for cut in first_rounds(model, data.records_of(model))
        if not math.isnan(cut.mean)
    ]
    higher = data.comparison.higher_is_better[data.primary]
    marks = pareto_front([(cut.p50, cut.mean) for cut in cuts], higher)
    return [replace(cut, on_front=on_front) for cut, on_front in zip(cuts, marks, strict=True)]


def pareto_front(points: Sequence[tuple[float, float]], higher_is_better: bool = True) -> list[bool]:
    """Return which points (cost, quality) are on the front: no other costs no more, is no worse, and better in one."""
    sign = 1.0 if higher_is_better else -1.0
    oriented_points = [(cost, sign * quality) for cost, quality in points]
    return [
        all(
            other > cost or better < good or (other, better) == (cost, good)
            for other, better in oriented_points
        )
        for cost, good in oriented_points
    ]


def _pareto_badge(on_front: bool) -> Badge:
    return Badge("front", "good") if on_front else Badge("dominated", "muted")


_FRONT_HEIGHT, _NAME_HEIGHT = 240, 14  # pixels


def _name_offsets(ends: Sequence[float], means: Sequence[float]) -> list[float]:
    """Return how far below its end each model's name stands at the right edge, so that none overlap, in pixels.

    Args:
        ends: the mean of each whole model, at whose height its name stands.
        means: those of all points, whose lowest and highest are the ends of the axis.
    """
    low, high = min(means), max(means)
    per_unit = _FRONT_HEIGHT / (high - low) if high > low else 0.0
    heights = [(high - end) * per_unit for end in ends]
    places = dict.fromkeys(range(len(ends)), 0.0)
    last_place = -math.inf
    for number in sorted(places, key=heights.__getitem__):
        last_place = places[number] = max(heights[number], last_place + _NAME_HEIGHT)
    return [round(places[number] - heights[number], 1) for number in range(len(ends))]


def _front_blocks(data: ReportData, points: Sequence[FirstRounds]) -> list[Block]:
    whole_models: dict[str, FirstRounds] = {}  # each model's first
    for cut in points:
        whole_models.setdefault(cut.model, cut)
    rows = []
    for cut in points:
        values = {"rounds": cut.rounds, "p50": round(cut.p50, 1), "mean": round(cut.mean, 6)}
        flags = {"whole": cut is whole_models[cut.model], "front": cut.on_front}
        rows.append({"model": cut.model, **values, **flags})
    names = list(whole_models)
    title = f"microseconds per query of {TYPICAL} documents"
    axis = {"tickCount": 4, "format": "~g", "grid": False}
    scale = {"type": "log", "nice": False, "padding": 12}
    x = charts.quantitative("p50", title=title, scale=scale, axis=axis)
    y = charts.quantitative("mean", title=None, scale={"zero": False})
    name_offsets = _name_offsets([cut.mean for cut in whole_models.values()], [cut.mean for cut in points])
    for row in rows:
        row["offset"] = name_offsets[names.index(str(row["model"]))]
    tooltips = charts.tooltip("model", rounds=",", p50=(",.3~r", "µs per query"), mean=".4f")
    colour, opacity = charts.model_colour(data, names), charts.fade()
    front_line = {"type": "line", "interpolate": "step-after", "strokeDash": [4, 3], "color": "#8a9099"}
    # from cheap to dear: of few rounds one may have taken longer than more of them, by chance
    line, order = {"type": "line", "strokeWidth": 1}, charts.quantitative("p50")
    filled = {"condition": {"test": "datum.front", "value": 1}, "value": 0}
    name_mark = {"type": "text", "align": "left", "dx": 10, "dy": {"expr": "datum.offset"}, "limit": 120}
    # the metric's name stands in data: titles of axes become program text
    metric_mark = {"type": "text", "align": "left", "baseline": "bottom", "dy": -9, "dx": -30, "fontSize": 11}
    metric_name = charts.layer(metric_mark, x={"value": 0}, y={"value": 0}, text={"field": "metric"})
    name = {"condition": {"test": "datum.whole", "field": "model"}, "value": ""}
    layers = [
        {"data": {"values": [{"metric": data.primary}]}, **metric_name},
        {"transform": [{"filter": "datum.front"}], "mark": front_line},
        charts.layer(
            line, **charts.model_dash(data, names), color=colour, opacity=charts.fade(0.5), order=order
        ),
        # one layer, not one for each kind: a layer of a kind that there is none of has no scale
        charts.layer(
            charts.dots(60), fill=colour, stroke=colour, fillOpacity=filled, opacity=opacity, tooltip=tooltips
        ),
        charts.layer(name_mark, x={"value": "width"}, text=name, color=colour, opacity=opacity),
    ]
    rows = charts.with_places(rows, names)
    cheapest_first = sorted((cut for cut in points if cut.on_front), key=lambda cut: cut.p50)
    named = [f"{cut.model} with {count_of(cut.rounds, 'round')}" for cut in cheapest_first]
    chart = Chart(
        "pareto_front",
        f"{data.primary} over the cost of a query, by each model's first rounds alone; filled and dashed: the "
        "front, where nothing else is as cheap and as good",
        charts.wide(rows, _FRONT_HEIGHT, autosize=charts.FIT, encoding={"x": x, "y": y}, layer=layers),
        f"On the front, from the cheapest: {'; '.join(named)}.",
    )
    pareto = "On the front, no other cut of any model is as cheap and as good."
    table = Table.of(
        "pareto_front",
        f"Each model's first rounds alone: microseconds per query of {TYPICAL} documents (p50), one thread.",
        points,
        {
            Column("Model"): lambda cut: data.model_name(cut.model),
            Column("Rounds", "count"): lambda cut: cut.rounds,
            Column(data.primary, "metric"): lambda cut: cut.mean,
            Column("p50, µs", "seconds"): lambda cut: cut.p50,
            Column("Pareto", hint=pareto): lambda cut: _pareto_badge(cut.on_front),
        },
    )
    return [chart, Details("The cuts as a table", (table,))]
