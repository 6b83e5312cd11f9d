"""What do the models look at?"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ltr_harness._util.text import count_of
from ltr_harness.experiments.runs import Run
from ltr_harness.report import charts, formats
from ltr_harness.report.blocks import Block, Cell, Chart, Column, Details, Heading, Paragraph, Table
from ltr_harness.report.data import ReportData

DRAWN = 10  # features drawn per model, most important first
LISTED = 30  # features in the table, by their mean share over models


@dataclass(frozen=True)
class Importance:
    """A feature's share of a model."""

    # averaged over the model's runs; both in [0, 1]
    model: str
    feature: str
    gain: float
    split: float


def section(data: ReportData) -> list[Block]:
    shares = {model: found for model in data.models if (found := importance(model, data.runs_of(model)))}
    if not shares:
        return []
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
        known = (by_feature.get(feature) for by_feature in shares.values())
        both = ((None, None) if share is None else (share.gain, share.split) for share in known)
        rows.append((feature, mean[feature], *itertools.chain.from_iterable(both)))
    more = f"; {count_of(len(mean) - len(listed), 'more feature')}" * (len(mean) > len(listed))
    caption = f"Share of gain and of splits per feature{more}."
    table = Table("importance", caption, tuple(columns), tuple(rows))
    bars: list[dict[str, Any]] = []
    words = []
    for model, by_feature in shares.items():
        first = list(by_feature.items())[:DRAWN]
        bars += [
            {"model": model, "feature": feature, "gain": round(share.gain, 5), "split": round(share.split, 5)}
            for feature, share in first
            if share.split
        ]
        words.append(f"{model}: {', '.join(f'{f} {formats.percent(share.gain)}' for f, share in first[:3])}.")
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
    spec = charts.small_multiples(names, bars, {"height": {"step": 15}, **layer}, own_y=70)
    title = f"The {DRAWN} features with the largest share of gain, model by model"
    return [
        Heading("Features"),
        Paragraph(
            "A feature's share of the loss reduction by a model's splits, averaged over its runs. Redundant "
            "features divide their share between them by chance; a share is not an effect."
        ),
        Chart("importance", title, spec, " ".join(words)),
        Details("The shares as a table", (table,)),
    ]


def importance(model: str, runs: Sequence[Run]) -> dict[str, Importance]:
    """Feature to its shares, largest gain first; empty where no run stored any."""
    sums: dict[str, list[float]] = {}
    frames = [frame for run in runs if (frame := getattr(run, "importance", None)) is not None]
    for frame in frames:
        totals = [max(float(frame[kind].sum()), 1e-300) for kind in ("gain", "split")]
        for feature, gain, split in frame[["feature", "gain", "split"]].itertuples(index=False):
            known = sums.setdefault(str(feature), [0.0, 0.0])
            known[0] += gain / totals[0] / len(frames)
            known[1] += split / totals[1] / len(frames)
    ordered = sorted(sums.items(), key=lambda item: (-item[1][0], item[0]))
    return {feature: Importance(model, feature, *both) for feature, both in ordered}
