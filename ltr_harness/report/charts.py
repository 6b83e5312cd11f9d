"""The parts that all charts share: schema, colours, the selection of models, and themes.

Names of models and metrics stand in data only. Vega-Lite turns titles of axes, lists to sort by and domains
of colours into program text, where a name could break the chart: those are words and numbers of ours.
"""

import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness._util.json_values import none_if_undefined
from ltr_harness.comparison.contrasts import Estimated
from ltr_harness.report import chart_engine
from ltr_harness.report.blocks import OURS, Chart
from ltr_harness.report.data import ReportData

SPEC = {
    "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
    "params": [{"name": "picked", "value": []}],
}
"""The beginning of every spec; `picked` is the models the reader selected, on this page in every chart at once."""

PALETTE = ("#4269d0", "#e0820b", "#8957c7", "#2f9fc4", "#d0559c", "#8c6a4f", "#a08a00")
"""Seven hues apart for common colour blindness, legible on white and on near-black; beyond seven, lines are dashed.

Neither red nor green is among them: those are for verdicts.
"""

BASELINE = "#737b84"
"""The grey of the baseline, whose number is 0."""

BAD = "#cf4338"
"""The colour of what raised an alert, legible on white and on near-black."""

PANEL = {"width": 190, "height": 120}
"""Size of one small multiple; the page decides how many fit beside each other."""


def colour_of(number: int) -> str:
    """Return the colour of a model by its number: grey for the baseline, then the hues again and again."""
    return BASELINE if number == 0 else PALETTE[(number - 1) % len(PALETTE)]


_DASHES = ([1, 0], [6, 3], [2, 2])
"""Solid for the first seven models beside the baseline, then two kinds of dashes."""


def model_dash(data: ReportData, names: Sequence[str]) -> dict[str, Any]:
    """Return the channel that sets models of one hue apart; none where every hue is there once."""
    rounds = [max(data.colours[name] - 1, 0) // len(PALETTE) for name in names]
    if not any(rounds):
        return {}
    dashes = [_DASHES[min(number, len(_DASHES) - 1)] for number in rounds]
    scale = {"domain": list(range(len(names))), "range": dashes}
    return {"strokeDash": {"field": "place", "type": "nominal", "scale": scale, "legend": None}}


def wide(rows: Sequence[Mapping[str, Any]], height: int, **body: Any) -> dict[str, Any]:
    """Return a complete spec as wide as the page."""
    return {**SPEC, "width": "container", "height": height, "data": {"values": rows}, **body}


FIT = {"type": "fit-x", "contains": "padding"}
"""`autosize` of a wide chart whose names stand beside its axis or points."""


_LEGEND_CHARACTERS = 46  # of names beside each other in a legend on a narrow page


def fade(opacity: float = 1.0, faded_opacity: float = 0.1) -> dict[str, Any]:
    """Return the opacity of a mark: models that are not picked fade once some are."""
    test = "!length(picked) || indexof(picked, datum.model) >= 0"
    return {"condition": {"test": test, "value": opacity}, "value": faded_opacity}


def model_colour(data: ReportData, names: Sequence[str]) -> dict[str, Any]:
    """Return the colour by the models' places, the same in every chart and table; beside names it needs no legend."""
    colours = [colour_of(data.colours[name]) for name in names]
    scale = {"domain": list(range(len(names))), "range": colours}
    return {"field": "place", "type": "nominal", "scale": scale, "legend": None}


def named_colour(data: ReportData, names: Sequence[str]) -> dict[str, Any]:
    """Return the same colours with a legend of the models' names, for lines without names beside them."""
    columns = max(1, _LEGEND_CHARACTERS // (5 + min(36, max(map(len, names), default=0))))
    colour = model_colour(data, names)
    return {
        "field": "model",
        "type": "nominal",
        "title": None,
        "sort": BY_PLACE,
        "scale": {"range": colour["scale"]["range"]},
        "legend": {"orient": "top", "columns": columns, "symbolOpacity": 1},
    }


def by_colour(field: str, n: int, **more: Any) -> dict[str, Any]:
    """Return the colour by the `n` values of a field, with a legend above."""
    colours = {"range": [PALETTE[number % len(PALETTE)] for number in range(n)]}
    legend = {"orient": "top", "direction": "horizontal"}
    return {"field": field, "type": "nominal", "title": None, "scale": colours, "legend": legend, **more}


def with_places(rows: list[dict[str, Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows with the place of their model, to sort by."""
    place = {name: number for number, name in enumerate(names)}
    return [{**row, "place": place[row["model"]]} for row in rows]


def difference(pair: Estimated) -> dict[str, Any]:
    """Return a row's difference with the ends of its interval."""
    low, high = (none_if_undefined(round(end, 6)) for end in (pair.ci_low, pair.ci_high))
    return {"difference": round(pair.difference, 6), "low": low, "high": high}


def quantitative(field: str, **more: Any) -> dict[str, Any]:
    """Return a channel of numbers."""
    return {"field": field, "type": "quantitative", **more}


def tooltip(*words: str, **numbers: str | tuple[str, str]) -> list[dict[str, Any]]:
    """Return fields as they are, then numbers, each in its format or in a pair of format and title."""
    channels: list[dict[str, Any]] = [{"field": field} for field in words]
    for field, number_format in numbers.items():
        if isinstance(number_format, str):
            channels.append(quantitative(field, format=number_format))
        else:
            format_only, title = number_format
            channels.append(quantitative(field, format=format_only, title=title))
    return channels


DASHED = {"type": "rule", "strokeDash": [4, 3]}
"""The mark of a line to compare with, such as that of no difference."""


def dots(size: int, **more: Any) -> dict[str, Any]:
    """Return the mark of filled points."""
    return {"type": "point", "filled": True, "size": size, **more}


def layer(mark: Mapping[str, Any] | str, **channels: Any) -> dict[str, Any]:
    return {"mark": mark, "encoding": channels}


BY_PLACE = {"field": "place", "op": "min"}


def small_multiples(
    names: Sequence[str], rows: list[dict[str, Any]], panel: Mapping[str, Any], *, y_axis_width: int = 0
) -> dict[str, Any]:
    """Return one panel per model, in the order of the names, all on the same scales.

    `y_axis_width` is that of a vertical axis of its own for each panel; 0 for one axis that all share.
    """
    panels = len({row["model"] for row in rows})
    header = {"labelLimit": PANEL["width"] + y_axis_width, "labelFontWeight": 600, "labelAnchor": "start"}
    by_model = {"field": "model", "type": "nominal", "sort": BY_PLACE, "title": None, "header": header}
    scales = {"y": "independent"} if y_axis_width else {}
    return {
        **SPEC,
        "usermeta": {"panels": panels, "labels": 0, "each": y_axis_width},
        "data": {"values": with_places(rows, names)},
        "facet": by_model,
        "columns": 3,
        "resolve": {"axis": {"x": "independent"}, "scale": scales},
        "spec": {**PANEL, **panel},
    }


def zoom(*channels: str) -> dict[str, Any]:
    """Return the parameter that zooms with Ctrl (or Cmd) and the wheel, pans by mouse, and resets on a double click."""
    return {
        "name": "zoom",
        "select": {
            "type": "interval",
            "encodings": list(channels),
            "zoom": "wheel![event.ctrlKey || event.metaKey]",
            "translate": "[pointerdown[event.pointerType === 'mouse'], window:pointerup] > window:pointermove!",
            "clear": "dblclick",
        },
        "bind": "scales",
    }


ZOOM_X = zoom("x")

TIME_AXIS = {
    "field": "at",
    "type": "temporal",
    "scale": {"type": "utc"},
    "title": None,
    "axis": {"grid": False, "tickCount": 6},
}
"""The horizontal axis of charts over time; `at` is in milliseconds since 1970."""


def histogram(
    data: ReportData, values: Mapping[str, NDArray[np.float64]], edges: Any, x: Mapping[str, Any], number: str
) -> dict[str, Any]:
    """Return a panel per model: the share of queries in each bin of its `values` (n_queries,)."""
    names = list(values)
    rows: list[dict[str, Any]] = []
    for name, model_values in values.items():
        counts = np.histogram(model_values, bins=edges)[0]
        lows = [round(float(low), 4) for low, count in zip(edges, counts, strict=False) if count]
        rows.append(
            {"model": name, "n": model_values.size, "from": lows, "count": counts[counts > 0].tolist()}
        )
    step = float(edges[1] - edges[0])
    panel = {
        "params": [ZOOM_X],
        # a list for each model, which is a fifth of a row for each bin
        "transform": [
            {"flatten": ["from", "count"]},
            {"calculate": f"datum.from + {step!r}", "as": "to"},
            {"calculate": "datum.count / datum.n", "as": "share"},
        ],
        "mark": {"type": "bar", "binSpacing": 1, "clip": True},
        "encoding": {
            # without the step, for each of which a tick and a label would be made
            "x": quantitative("from", bin="binned", **x),
            "x2": {"field": "to"},
            "y": quantitative("share", title="queries", axis={"format": "%", "tickCount": 3}),
            "color": model_colour(data, names),
            "opacity": fade(),
            "tooltip": tooltip("model", **{"from": number, "to": number}, share=(".1%", "queries")),
        },
    }
    return small_multiples(names, rows, panel)


def theme(ink: str, muted: str, line: str, background: str) -> dict[str, Any]:
    """Return a Vega configuration in four colours."""
    label = {"labelColor": muted, "titleColor": muted, "labelFontSize": 11, "titleFontSize": 11}
    label |= {"titleFontWeight": 500, "labelLimit": 220}
    lines = dict.fromkeys(("gridColor", "domainColor", "tickColor"), line)
    return {
        "background": background,
        "font": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif",
        "view": {"stroke": None},
        "axis": {**label, **lines, "titlePadding": 8},
        # numbers are short, and a limit has each of them measured once more
        "axisQuantitative": {"labelLimit": 0},
        "legend": {**label, "symbolLimit": 0},
        "header": {"labelColor": ink, "labelFontSize": 12},
        "rule": {"color": muted},
        "text": {"color": ink},
    }


def file_spec(chart_spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec for a picture on its own: light, of a fixed width, without what only works on a page."""
    picture_spec = {**_without_zoom(chart_spec), "config": theme("#1b1f24", "#57606a", "#e3e6ea", "white")}
    if picture_spec.get("width") == "container":
        picture_spec["width"] = 560
    return picture_spec


def _without_zoom(value: Any) -> Any:
    """Return a part of a spec without zoom and its clipping, whose regions have other numbers in every picture."""
    if isinstance(value, Mapping):
        parts = {key: _without_zoom(part) for key, part in value.items() if key != "clip"}
        if "params" in parts:
            parts["params"] = [param for param in parts["params"] if param["name"] != "zoom"]
        return parts
    return [_without_zoom(part) for part in value] if isinstance(value, list) else value


_PNG_HEADER = 33  # bytes of a PNG's signature and its first chunk, after which text may stand


def svg(chart: Chart) -> str:
    """Return a picture on its own as SVG text, light, marked as ours."""
    return f"{chart_engine.draw('svg', file_spec(chart.spec)).decode()}\n<!-- {OURS} -->\n"


def png(chart: Chart) -> bytes:
    """Return the same in pixels, twice as sharp as it is large, marked as ours by a chunk that viewers ignore."""
    pixels = chart_engine.draw("png", file_spec(chart.spec))
    content = b"tEXtSoftware\0" + OURS.encode("latin-1")
    mark = struct.pack(">I", len(content) - 4) + content + struct.pack(">I", zlib.crc32(content))
    return pixels[:_PNG_HEADER] + mark + pixels[_PNG_HEADER:]
