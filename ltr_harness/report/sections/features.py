"""The importance of features in each model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ltr_harness._util.text import count_of
from ltr_harness.experiments.runs import Run
from ltr_harness.experiments.runs.run import IMPORTANCE
from ltr_harness.report import charts, formats
from ltr_harness.report.blocks import Block, Cell, Chart, Column, Details, Heading, Paragraph, Table
from ltr_harness.report.data import ReportData

N_DRAWN = 10  # features drawn per model, most important first
N_LISTED = 30  # features in the table, by their mean share over models


@dataclass(frozen=True)
class Importance:
    """A feature's share of a model."""

    # averaged over the model's runs; both in [0, 1]
    model: str
    feature: str
    gain: float
    split: float


def section(data: ReportData) -> list[Block]:
    shares = {model: importance(model, data.runs_of(model)) for model in data.models}
    shares = {model: model_shares for model, model_shares in shares.items() if model_shares}
    if not shares:
        return []
    return [
        Heading("Features", finding=_finding(shares)),
        Paragraph(
            "A feature's share of the loss reduction by a model's splits, averaged over its runs. Redundant "
            "features divide their share between them by chance; a share is not an effect."
        ),
        _chart(data, shares),
        Details("The shares as a table", (_table(shares),)),
    ]


def _finding(shares: Mapping[str, Mapping[str, Importance]]) -> str:
    """Return the feature with the largest share of the first model's gain."""
    model, model_shares = next(iter(shares.items()))
    first = next(iter(model_shares.values()))
    return f"{first.feature} has {formats.percent(first.gain)} of the gain of {model}"


def _table(shares: Mapping[str, Mapping[str, Importance]]) -> Table:
    """Return the features with the largest mean gain over models."""
    mean_gains: dict[str, float] = {}
    for model_shares in shares.values():
        for feature, share in model_shares.items():
            mean_gains[feature] = mean_gains.get(feature, 0.0) + share.gain / len(shares)
    columns = [Column("Feature", "code"), Column("Mean gain", "percent")]
    for model in shares:
        columns += [Column("gain", "percent", group=model), Column("splits", "percent", group=model)]
    rows: list[tuple[Cell, ...]] = []
    for feature in sorted(mean_gains, key=lambda feature: (-mean_gains[feature], feature))[:N_LISTED]:
        row: list[Cell] = [feature, mean_gains[feature]]
        for model_shares in shares.values():
            if feature in model_shares:
                row += [model_shares[feature].gain, model_shares[feature].split]
            else:
                row += [None, None]
        rows.append(tuple(row))
    caption = "Share of gain and of splits per feature"
    if n_more := len(mean_gains) - len(rows):
        caption += f"; {count_of(n_more, 'more feature')}"
    return Table("importance", f"{caption}.", tuple(columns), tuple(rows))


def _chart(data: ReportData, shares: Mapping[str, Mapping[str, Importance]]) -> Chart:
    bars: list[dict[str, Any]] = []
    descriptions = []
    for model, model_shares in shares.items():
        drawn_shares = list(model_shares.values())[:N_DRAWN]
        bars += [
            {
                "model": model,
                "feature": share.feature,
                "gain": round(share.gain, 5),
                "split": round(share.split, 5),
            }
            for share in drawn_shares
            if share.split
        ]
        largest = ", ".join(f"{share.feature} {formats.percent(share.gain)}" for share in drawn_shares[:3])
        descriptions.append(f"{model}: {largest}.")
    names = list(shares)
    by_gain = {"field": "gain", "op": "max", "order": "descending"}
    y = {"field": "feature", "type": "nominal", "title": None, "sort": by_gain, "axis": {"labelLimit": 80}}
    numbers = {"gain": (".1%", "share of gain"), "split": (".1%", "share of splits")}
    layer = charts.layer(
        "bar",
        y=y,
        x=charts.quantitative("gain", title="share of gain", axis={"format": "%", "tickCount": 3}),
        color=charts.model_colour(data, names),
        opacity=charts.fade(),
        tooltip=charts.tooltip("model", "feature", **numbers),
    )
    spec = charts.small_multiples(names, bars, {"height": {"step": 15}, **layer}, y_axis_width=70)
    title = f"The {N_DRAWN} features with the largest share of gain, model by model"
    return Chart("importance", title, spec, " ".join(descriptions))


def importance(model: str, runs: Sequence[Run]) -> dict[str, Importance]:
    """Return each feature's shares, largest gain first; empty where no run stored any."""
    shares: dict[str, list[float]] = {}  # of gain and of splits
    tables = [run.stored_columns(IMPORTANCE) for run in runs if IMPORTANCE in run.record.files]
    for table in tables:
        total_gain, total_split = (max(float(table[kind].sum()), 1e-300) for kind in ("gain", "split"))
        columns = (table[name].tolist() for name in ("feature", "gain", "split"))
        for feature, gain, split in zip(*columns, strict=True):
            feature_shares = shares.setdefault(str(feature), [0.0, 0.0])
            feature_shares[0] += gain / total_gain / len(tables)
            feature_shares[1] += split / total_split / len(tables)
    ordered = sorted(shares.items(), key=lambda item: (-item[1][0], item[0]))
    return {feature: Importance(model, feature, gain, split) for feature, (gain, split) in ordered}
