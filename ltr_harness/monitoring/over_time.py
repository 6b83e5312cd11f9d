"""Did metrics, segments, features and labels move in the windows that raised the alert? A small chart of each.

A row of data is a window, and a column a panel: with hundreds of windows, that is a third of a row for each point.
"""

import math
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Any

from ltr_harness._util.json_values import none_if_undefined
from ltr_harness._util.text import count_of
from ltr_harness.monitoring.labels import WITH_RELEVANT
from ltr_harness.monitoring.result import MonitorResult, Window
from ltr_harness.monitoring.windows import status
from ltr_harness.report import charts
from ltr_harness.report.blocks import Block, Chart, Heading, Paragraph

_MAX_DOTTED_WINDOWS = 60  # windows; more have a line alone, which a browser draws a hundred times as fast
_AXIS_WIDTH = 44  # pixels of a vertical axis


@dataclass(frozen=True, kw_only=True)
class _Panel:
    """One quantity in every window."""

    name: str
    values: Sequence[float]  # NaN where a window has none
    baseline: float = float("nan")
    thresholds: Sequence[float] = ()  # one for each window, in place of the baseline
    limit: float = float("nan")  # of `alerts.below`
    n_queries: Sequence[int] = ()  # behind each value, where they are not the window's
    alerts: int = 0  # windows with an alert of its own


@dataclass(frozen=True, kw_only=True)
class _Family:
    """Panels that belong together."""

    name: str
    title: str
    panels: Sequence[_Panel]
    colour: str
    from_zero: bool = False
    shared: bool = False  # one vertical scale for all


@dataclass(frozen=True)
class _Marks:
    """The windows that raised an alert, and which."""

    windows: tuple[Window, ...]
    raised: str

    @classmethod
    def of(cls, result: MonitorResult) -> "_Marks":
        metric_windows = {w.label for w in result.windows if status(w, result).text == "alert"}
        label_windows = _windows_of_labels(result)
        kinds = []
        if metric_windows:
            kinds.append("of a metric")
        if label_windows:
            kinds.append("of a label rate")
        windows = tuple(w for w in result.windows if w.label in metric_windows | label_windows)
        return cls(windows, f"raised an alert {' or '.join(kinds)}")


def section(result: MonitorResult) -> list[Block]:
    if len(result.windows) < 2:
        return []
    marks = _Marks.of(result)
    finding = f"{len(marks.windows)} of {count_of(len(result.windows), 'window')} marked"
    blocks: list[Block] = [Heading("Over time", finding=finding, matters=len(marks.windows) > 0)]
    for family in _families(result):
        if not family.panels:
            continue
        title = f"{family.title}; red bands {marks.raised}" if marks.windows else family.title
        spec = _spec(family, marks, result.windows)
        blocks.append(
            Chart(f"{family.name}_over_time", title, spec, _description(family, marks, result.windows))
        )
    if result.over_time.features and not _feature_panels(result):
        blocks.append(Paragraph("No window has queries enough for the drift of features.", "note"))
    return blocks


def _families(result: MonitorResult) -> list[_Family]:
    line = ", the dashed line is the baseline" if result.changes else ""
    segments, features = _segment_panels(result), _feature_panels(result)
    lines = f"{line}, the dotted line is the limit" if result.limits else line
    worst = count_of(len(segments), "worst segment")
    drifted = count_of(len(features), "most drifted feature")
    return [
        _Family(
            name="metrics",
            title=f"Each metric by window{lines}",
            panels=_metric_panels(result),
            colour=charts.PALETTE[0],
        ),
        _Family(
            name="segments",
            title=f"{result.primary} of the {worst} by window, on one scale{line}",
            panels=segments,
            colour=charts.PALETTE[2],
            shared=True,
        ),
        _Family(
            name="features",
            title=f"PSI of the {drifted} by window, drift above the dashed line",
            panels=features,
            colour=charts.PALETTE[4],
            from_zero=True,
        ),
        _Family(
            name="labels",
            title=f"Labels and volume by window{line}",
            panels=_label_panels(result),
            colour=charts.PALETTE[3],
            from_zero=True,
        ),
    ]


def _with_values(panels: Iterable[_Panel]) -> list[_Panel]:
    """Return the panels that have something to draw."""
    return [panel for panel in panels if not all(map(math.isnan, panel.values))]


def _metric_panels(result: MonitorResult) -> list[_Panel]:
    baselines = {change.metric: change.baseline.value for change in result.changes}
    limits = {limit.metric: limit.limit for limit in result.limits}
    undefined = float("nan")
    return _with_values(
        _Panel(
            name=metric,
            values=[w.means[metric] for w in result.windows],
            baseline=baselines.get(metric, undefined),
            limit=limits.get(metric, undefined),
        )
        for metric in result.metrics
    )


def _segment_panels(result: MonitorResult) -> list[_Panel]:
    return _with_values(
        _Panel(name=s.predicate, values=s.means, baseline=s.before, n_queries=s.n_queries)
        for s in result.over_time.segments
    )


def _feature_panels(result: MonitorResult) -> list[_Panel]:
    return _with_values(
        _Panel(name=f.name, values=f.psi, thresholds=f.psi_thresholds) for f in result.over_time.features
    )


def _windows_of_labels(result: MonitorResult, measure: str = "") -> set[str]:
    """Labels of the windows whose labels raised an alert, of one measure or of any."""
    if not result.n_alerts("label_rate"):
        return set()
    return {test.window for test in result.labels if test.alert and measure in ("", test.measure)} - {"all"}


def _label_panels(result: MonitorResult) -> list[_Panel]:
    """Return a panel for each label rate, and one for the number of queries."""
    baselines = {test.measure: test.before for test in result.labels}
    panels = [
        _Panel(
            name=measure,
            values=rates,
            baseline=baselines.get(measure, float("nan")),
            alerts=len(_windows_of_labels(result, measure)),
        )
        for measure, rates in _label_rates(result).items()
    ]
    return _with_values([*panels, _Panel(name="queries", values=[w.n_queries for w in result.windows])])


def _label_rates(result: MonitorResult) -> dict[str, list[float]]:
    """Return every window's value of each measure of labels, NaN where it was not tested."""
    tested = {(test.measure, test.window): test.now for test in result.labels}
    rates = {WITH_RELEVANT: [w.relevant_share for w in result.windows]}
    for measure in dict.fromkeys(test.measure for test in result.labels):
        of_windows = [tested.get((measure, w.label), float("nan")) for w in result.windows]
        rates.setdefault(measure, of_windows)
    return rates


def _spec(family: _Family, marks: _Marks, windows: Sequence[Window]) -> dict[str, Any]:
    """Return a chart of each panel, the windows that raised an alert as bands."""
    panels = family.panels
    limited = any(panel.limit == panel.limit for panel in panels)
    panel_facts = [_panel_facts(number, panel, limited=limited) for number, panel in enumerate(panels)]
    line_name, line = "baseline", "datum.baseline"
    if any(panel.thresholds for panel in panels):
        line_name, line = "limit", "datum['line' + datum.key]"
    layers = _layers(family, marks, with_dots=len(windows) <= _MAX_DOTTED_WINDOWS, line=line_name)
    fields = ["model", "place", "baseline"]
    if limited:
        layers += _limit_layers()
        fields.append("limit")
    room = 0 if family.shared else _AXIS_WIDTH
    spec = charts.small_multiples(
        [panel.name for panel in panels], panel_facts, {"layer": layers}, y_axis_width=room
    )
    lookup = {"data": spec["data"], "key": "key", "fields": fields}
    calculate = {
        "line": line,
        # a scale needs numbers: where there is nothing to compare with, an unseen line lies on the other
        "beside": "isValid(datum.line) ? datum.line : datum.value",
        "n": "isValid(datum['n' + datum.key]) ? datum['n' + datum.key] : datum.queries",
    }
    transform = [
        {"fold": [row["key"] for row in panel_facts]},
        {"lookup": "key", "from": lookup},
        *({"calculate": formula, "as": name} for name, formula in calculate.items()),
    ]
    return {**spec, "data": {"values": _rows(panels, windows)}, "transform": transform}


def _panel_facts(number: int, panel: _Panel, *, limited: bool) -> dict[str, Any]:
    """Return what is drawn in a panel beside its values; with the limit where some panel has one."""
    facts = {"key": str(number), "model": panel.name, "baseline": none_if_undefined(_rounded(panel.baseline))}
    if limited:
        facts["limit"] = none_if_undefined(_rounded(panel.limit))
    return facts


def _limit_layers() -> list[dict[str, Any]]:
    """Return a line at each panel's limit, and its name at the line's left end."""
    summary = [
        {"op": op, "field": field, "as": f"{op}_{field}"}
        for op, field in (("min", "limit"), ("max", "value"))
    ]
    one_per_panel = [
        {"filter": "isValid(datum.limit)"},
        {"aggregate": summary, "groupby": ["model"]},
        {"calculate": "'limit ' + format(datum.min_limit, '.4~g')", "as": "name"},
    ]
    y = charts.quantitative("min_limit", title=None)
    line = charts.layer({"type": "rule", "color": charts.BAD, "strokeDash": [1, 3]}, y=y)
    layers = [{"transform": one_per_panel, **line}]
    # a name above a line at the upper edge would push the panel's title up, one below the lower edge hides the axis
    for test, baseline, dy in (
        ("datum.min_limit < datum.max_value", "bottom", -1),
        ("datum.min_limit >= datum.max_value", "top", 2),
    ):
        name = {"type": "text", "color": charts.BAD, "align": "left", "baseline": baseline, "dx": 2, "dy": dy}
        label = charts.layer(name, x={"value": 0}, y=y, text={"field": "name"})
        layers.append({"transform": [*one_per_panel, {"filter": test}], **label})
    return layers


def _layers(family: _Family, marks: _Marks, *, with_dots: bool, line: str) -> list[dict[str, Any]]:
    """Return the bands, the line to compare with, and the values."""
    axis: dict[str, Any] = {"minExtent": _AXIS_WIDTH - 10, "tickCount": 4, "labelFlush": True}
    scale = {"zero": family.from_zero, "nice": 4}  # both ends have a label, and panels one height
    y = charts.quantitative("value", title=None, scale=scale, axis=axis)
    x = {**charts.TIME_AXIS, "axis": {"grid": False, "tickCount": 4}}
    bands = [
        {"at": first.start_ns // 10**6, "to": last.end_ns // 10**6} for first, last in _runs(marks.windows)
    ]
    band = charts.layer({"type": "rect", "color": charts.BAD, "opacity": 0.18}, x=x, x2={"field": "to"})
    dashed = {"type": "line", "color": charts.PALETTE[1], "strokeDash": [4, 3], "strokeWidth": 1}
    compared = {"condition": {"test": "isValid(datum.line)", "value": 1}, "value": 0}
    # round ends show a window between two without a value
    drawn = {"type": "line", "color": family.colour, "strokeWidth": 1.4, "strokeCap": "round"}
    form = ",.4~f"
    tooltip = charts.tooltip("model", "window", value=form, line=(form, line), n=(",", "queries"))
    layers = [
        charts.layer(dashed, x=x, y={**y, "field": "beside"}, opacity=compared),
        charts.layer(drawn, x=x, y=y),
    ]
    if bands:
        layers.insert(0, {"data": {"values": bands}, **band})
    if with_dots:
        layers.append(charts.layer(charts.dots(18, color=family.colour), x=x, y=y, tooltip=tooltip))
    return layers


def _rows(panels: Sequence[_Panel], windows: Sequence[Window]) -> list[dict[str, Any]]:
    """Return a row for each window; a panel's columns end in its number."""
    rows = []
    for number, w in enumerate(windows):
        middle = (w.start_ns + w.end_ns) // 2 // 10**6
        row: dict[str, Any] = {"at": middle, "window": w.label, "queries": w.n_defined}
        for panel_number, panel in enumerate(panels):
            row[str(panel_number)] = none_if_undefined(_rounded(panel.values[number]))
            if panel.thresholds:
                row[f"line{panel_number}"] = none_if_undefined(_rounded(panel.thresholds[number]))
            if panel.n_queries:
                row[f"n{panel_number}"] = panel.n_queries[number]
        rows.append(row)
    return rows


def _runs(marked: Sequence[Window]) -> list[tuple[Window, Window]]:
    """Return the first and the last window of each run of neighbours."""
    runs: list[tuple[Window, Window]] = []
    for window in marked:
        if runs and runs[-1][1].end_ns == window.start_ns:
            runs[-1] = runs[-1][0], window
        else:
            runs.append((window, window))
    return runs


def _description(family: _Family, marks: _Marks, windows: Sequence[Window]) -> str:
    """Return which windows are marked, and a sentence for each panel."""
    sentences, marked = [], marks.windows
    if marked:
        share = f"{len(marked)} of {count_of(len(windows), 'window')}"
        sentences.append(f"{share} {marks.raised}, from {marked[0].label} to {marked[-1].label}.")
    labels = [w.label for w in windows]
    marked_labels = {w.label for w in marked}
    sentences += [_panel_sentence(panel, labels, marked_labels) for panel in family.panels]
    return " ".join(sentences)


def _panel_sentence(panel: _Panel, labels: Sequence[str], marked: Set[str]) -> str:
    """Return the values in the marked windows and in the others."""
    points = [(label, value) for label, value in zip(labels, panel.values, strict=True) if value == value]
    inside = [value for label, value in points if label in marked]
    outside = [value for label, value in points if label not in marked]
    phrases = []
    if panel.baseline == panel.baseline:
        phrases.append(f"{_number(panel.baseline)} in the baseline")
    if inside:
        phrases.append(f"{_range(inside)} where the alert was raised")
    if outside:
        windows = "the others" if inside else "the windows"
        phrases.append(f"{_range(outside)} in {windows}")
    phrases += _crossings(panel, count_of(len(points), "window"))
    return f"{panel.name}: {', '.join(phrases)}."


def _crossings(panel: _Panel, windows: str) -> list[str]:
    """Return in how many of the windows the values are above thresholds, below a limit or an alert."""
    phrases = []
    if panel.thresholds:
        above = sum(value > top for value, top in zip(panel.values, panel.thresholds, strict=True))
        phrases.append(f"above its limit in {above} of {windows}")
    if panel.limit == panel.limit:
        below = sum(value < panel.limit for value in panel.values)  # NaN is not
        phrases.append(f"below its limit {panel.limit:g} in {below} of {windows}")
    if panel.alerts:
        phrases.append(f"its own alerts in {count_of(panel.alerts, 'window')}")
    return phrases


def _range(values: Sequence[float]) -> str:
    low, high = _number(min(values)), _number(max(values))
    return low if low == high else f"{low} to {high}"


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")


def _number(value: float) -> str:
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
