"""What do the models look at, and what does a score cost?"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ltr_harness.report.blocks import Block, Cell, Chart, Column, Details, Heading, Paragraph, Table
from ltr_harness.report.charts import fade, model_colour, placed, small_multiples, spec
from ltr_harness.report.data import ReportData
from ltr_harness.report.formats import metric as metric_text
from ltr_harness.report.formats import percent
from ltr_harness.wording import count_of

if TYPE_CHECKING:
    from ltr_harness.runs import Run
    from ltr_harness.runs.record import Record

DRAWN = 10
"""Features drawn per model, most important first."""

LISTED = 30
"""Features in the table, by their mean share over models."""


class Share(NamedTuple):
    """A feature's part of a model, averaged over the model's runs; both in [0, 1]."""

    gain: float
    split: float


def section(data: ReportData) -> list[Block]:
    shares = {model: by_feature for model in data.models if (by_feature := importance(data.runs_of(model)))}
    costs = {model: cost(data.records_of(model)) for model in data.models if data.records_of(model)}
    if not costs:
        return []
    blocks: list[Block] = [Heading("Features and cost" if shares else "Cost")]
    if shares:
        blocks += [
            Paragraph(
                "A feature's share of the loss that a model's splits took away, averaged over its runs. Features that "
                "say the same thing divide their share between them by chance; a share is not an effect."
            ),
            _importance_chart(data, shares),
            Details("The shares as a table", (_importance_table(data, shares),)),
        ]
    if len(costs) > 1:
        blocks.append(_cost_chart(data, costs))
    return [*blocks, _cost_table(data, costs)]


def importance(runs: Sequence[Run]) -> dict[str, Share]:
    """Feature to its shares, largest gain first; empty where no run stored any."""
    sums: dict[str, list[float]] = {}
    frames = [run.importance for run in runs if getattr(run, "importance", None) is not None]
    for frame in frames:
        assert frame is not None  # looked at a line above
        totals = [max(float(frame[kind].sum()), 1e-300) for kind in ("gain", "split")]
        for feature, gain, split in frame[["feature", "gain", "split"]].itertuples(index=False):
            known = sums.setdefault(str(feature), [0.0, 0.0])
            known[0] += gain / totals[0] / len(frames)
            known[1] += split / totals[1] / len(frames)
    ordered = sorted(sums.items(), key=lambda item: (-item[1][0], item[0]))
    return {feature: Share(*both) for feature, both in ordered}


def _importance_chart(data: ReportData, shares: dict[str, dict[str, Share]]) -> Chart:
    rows: list[dict[str, Any]] = []
    words = []
    for model, by_feature in shares.items():
        first = list(by_feature.items())[:DRAWN]
        rows += [
            {"model": model, "feature": feature, "gain": round(share.gain, 5), "split": round(share.split, 5)}
            for feature, share in first
            if share.split
        ]
        words.append(f"{model}: {', '.join(f'{f} {percent(share.gain)}' for f, share in first[:3])}.")
    names = list(shares)
    panel = {
        "height": {"step": 15},
        "mark": "bar",
        "encoding": {
            "y": {
                "field": "feature",
                "type": "nominal",
                "title": None,
                "sort": {"field": "gain", "op": "max", "order": "descending"},
                "axis": {"labelLimit": 80},
            },
            "x": {
                "field": "gain",
                "type": "quantitative",
                "title": "share of gain",
                "axis": {"format": "%", "tickCount": 3},
            },
            "color": model_colour(data, names),
            "opacity": fade(),
            "tooltip": [
                {"field": "model"},
                {"field": "feature"},
                {"field": "gain", "type": "quantitative", "format": ".1%", "title": "share of gain"},
                {"field": "split", "type": "quantitative", "format": ".1%", "title": "share of splits"},
            ],
        },
    }
    return Chart(
        name="importance",
        title=f"The {DRAWN} features with the largest share of gain, model by model",
        spec=small_multiples(names, rows, panel, each=70, own_y=True),
        text=" ".join(words),
    )


def _importance_table(data: ReportData, shares: dict[str, dict[str, Share]]) -> Table:
    mean: dict[str, float] = {}
    for by_feature in shares.values():
        for feature, share in by_feature.items():
            mean[feature] = mean.get(feature, 0.0) + share.gain / len(shares)
    listed = sorted(mean, key=lambda feature: (-mean[feature], feature))[:LISTED]
    columns = [Column("Feature", "code"), Column("Mean gain", "percent")]
    for model in shares:
        columns += [Column("gain", "percent", group=model), Column("splits", "percent", group=model)]
    rows: list[tuple[Cell, ...]] = []
    for feature in listed:
        row: list[Cell] = [feature, mean[feature]]
        for by_feature in shares.values():
            known = by_feature.get(feature)
            row += [None, None] if known is None else [known.gain, known.split]
        rows.append(tuple(row))
    left = len(mean) - len(listed)
    return Table(
        name="importance",
        caption="Share of gain and of splits per feature"
        + (f"; {count_of(left, 'more feature')}." if left else "."),
        columns=tuple(columns),
        rows=tuple(rows),
    )


# ---- cost -----------------------------------------------------------------------------------------------


class MedianCost(NamedTuple):
    """Medians over a model's runs; None where a model has no such thing."""

    fit_seconds: float | None
    trees: int | None
    leaves: int | None
    microseconds_per_row: float | None
    threads: int


def cost(records: Sequence[Record]) -> MedianCost:
    per_row = [
        1e6 * record.seconds["score"] / record.data["test"].n_rows
        for record in records
        if "score" in record.seconds and "test" in record.data and record.data["test"].n_rows
    ]
    fit = [record.seconds["fit"] for record in records if "fit" in record.seconds]
    trees = [record.best_round for record in records if record.best_round is not None]
    leaves = [record.n_leaves for record in records if record.n_leaves is not None]
    return MedianCost(
        statistics.median(fit) if fit else None,
        statistics.median_low(trees) if trees else None,
        statistics.median_low(leaves) if leaves else None,
        statistics.median(per_row) if per_row else None,
        max(record.threads for record in records),
    )


def _cost_table(data: ReportData, costs: dict[str, MedianCost]) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (
            data.model_name(model),
            data.summary(model, data.primary).mean,
            one.fit_seconds,
            one.trees,
            one.leaves,
            one.microseconds_per_row,
            one.threads,
        )
        for model, one in costs.items()
    ]
    return Table(
        name="cost",
        caption="What training and scoring cost, medians over folds and seeds.",
        columns=(
            Column("Model"),
            Column(data.primary, "metric", best="max" if data.higher_is_better(data.primary) else "min"),
            Column("Fit, s", "seconds", hint="Evaluation of every round on validation data included."),
            Column("Trees", "count"),
            Column("Leaves", "count", hint="Of all trees together."),
            Column("Score, µs per row", "number", hint="One pass over the test rows in one call."),
            Column("Threads", "count"),
        ),
        rows=tuple(rows),
        notes=("Times are of this machine and what else it did meanwhile; trees and leaves are not.",),
    )


def _cost_rows(data: ReportData, costs: dict[str, MedianCost]) -> tuple[list[dict[str, Any]], list[str]]:
    """A point each, and the same in words."""
    rows: list[dict[str, Any]] = []
    words = []
    for model, cost in costs.items():
        micro, summary = cost.microseconds_per_row, data.summary(model, data.primary)
        if not micro or summary.mean != summary.mean:
            continue
        rows.append(
            {
                "model": model,
                "cost": round(micro, 4),
                "mean": round(summary.mean, 6),
                "low": round(summary.ci_low, 6) if summary.ci_low == summary.ci_low else None,
                "high": round(summary.ci_high, 6) if summary.ci_high == summary.ci_high else None,
            }
        )
        words.append(f"{model}: {micro:.2f} µs per row, {metric_text(summary.mean)}.")
    return rows, words


def _cost_chart(data: ReportData, costs: dict[str, MedianCost]) -> Chart:
    rows, words = _cost_rows(data, costs)
    names = [str(row["model"]) for row in rows]
    x = {
        "field": "cost",
        "type": "quantitative",
        "title": "microseconds per row",
        "scale": {"type": "log", "nice": False, "padding": 30},
        "axis": {"tickCount": 4, "format": "~g", "grid": False},
    }
    y = {"type": "quantitative", "title": None, "scale": {"zero": False}}
    colour = model_colour(data, names)
    tooltip = [
        {"field": "model"},
        {"field": "cost", "type": "quantitative", "format": ".3~g", "title": "µs per row"},
        {"field": "mean", "type": "quantitative", "format": ".4f"},
    ]
    body: dict[str, Any] = {
        "width": "container",
        "height": 220,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "data": {"values": placed(rows, names)},
        "encoding": {"x": x, "color": colour},
        "layer": [
            {
                "mark": {"type": "rule", "strokeWidth": 1.5},
                "encoding": {"y": {**y, "field": "low"}, "y2": {"field": "high"}, "opacity": fade(0.5)},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 70},
                "encoding": {"y": {**y, "field": "mean"}, "opacity": fade(), "tooltip": tooltip},
            },
            *(  # names above and below in turn: neighbours are often close
                {
                    "transform": [{"filter": f"datum.place % 2 === {odd}"}],
                    "mark": {"type": "text", "align": "left", "dx": 7, "dy": dy, "limit": 180},
                    "encoding": {"y": {**y, "field": "mean"}, "text": {"field": "model"}, "opacity": fade()},
                }
                for odd, dy in ((0, -9), (1, 11))
            ),
        ],
    }
    return Chart(
        name="cost",
        title=f"{data.primary} with {data.confidence_label} intervals over the cost of scoring a row",
        spec=spec(body),
        text=" ".join(words),
    )
