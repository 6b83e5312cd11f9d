"""Did metrics, segments, features and labels move in the windows that raised the alert? A small chart of each.

A row of data is a window, and a column a panel: with hundreds of windows, that is a third of a row for each point.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ltr_harness._util.text import count_of, none_if_undefined
from ltr_harness.monitoring.labels import WITH_RELEVANT
from ltr_harness.monitoring.result import MonitorResult, Window
from ltr_harness.monitoring.windows import status
from ltr_harness.report import charts
from ltr_harness.report.blocks import Block, Chart, Heading, Paragraph

_DOTTED = 60  # windows; more have a line alone, which a browser draws a hundred times as fast
_ROOM = 44  # pixels of a vertical axis


@dataclass(frozen=True, kw_only=True)
class _Panel:
    """One quantity in every window."""

    name: str
    values: Sequence[float]  # NaN where a window has none
    baseline: float = float("nan")
    limits: Sequence[float] = ()  # one for each window, in place of the baseline
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
        of_metric = {w.label for w in result.windows if status(w, result).text == "alert"}
        of_labels = _windows_of_labels(result)
        kinds = ["of a metric"] * bool(of_metric) + ["of a label rate"] * bool(of_labels)
        windows = tuple(w for w in result.windows if w.label in of_metric | of_labels)
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
        drawn, words = _spec(family, marks, result.windows), _in_words(family, marks, result.windows)
        blocks.append(Chart(f"{family.name}_over_time", title, drawn, words))
    if result.over_time.features and not _features(result):
        blocks.append(Paragraph("No window has queries enough for the drift of features.", "note"))
    return blocks


def _families(result: MonitorResult) -> list[_Family]:
    line = ", the dashed line is the baseline" if result.changes else ""
    segments, features = _segments(result), _features(result)
    worst = count_of(len(segments), "worst segment")
    drifted = count_of(len(features), "most drifted feature")
    return [
        _Family(
            name="metrics",
            title=f"Each metric by window{line}",
            panels=_metrics(result),
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
            panels=_labels(result),
            colour=charts.PALETTE[3],
            from_zero=True,
        ),
    ]


def _with_values(panels: Iterable[_Panel]) -> list[_Panel]:
    """The panels in which there is something to draw."""
    return [panel for panel in panels if not all(map(math.isnan, panel.values))]


def _metrics(result: MonitorResult) -> list[_Panel]:
    before = {change.metric: change.baseline.value for change in result.changes}
    means = {name: [w.means[name] for w in result.windows] for name in result.metrics}
    return _with_values(
        _Panel(name=name, values=values, baseline=before.get(name, float("nan")))
        for name, values in means.items()
    )


def _segments(result: MonitorResult) -> list[_Panel]:
    return _with_values(
        _Panel(name=s.predicate, values=s.means, baseline=s.before, n_queries=s.n_queries)
        for s in result.over_time.segments
    )


def _features(result: MonitorResult) -> list[_Panel]:
    return _with_values(
        _Panel(name=f.name, values=f.psi, limits=f.psi_thresholds) for f in result.over_time.features
    )


def _windows_of_labels(result: MonitorResult, measure: str = "") -> set[str]:
    """Labels of the windows whose labels raised an alert, of one measure or of any."""
    if not result.n_alerts("label_rate"):
        return set()
    return {test.window for test in result.labels if test.alert and measure in ("", test.measure)} - {"all"}


def _labels(result: MonitorResult) -> list[_Panel]:
    """Rates of labels, and how many queries there are."""
    tested = {(test.measure, test.window): test for test in result.labels}
    rates = {WITH_RELEVANT: [w.relevant_share for w in result.windows]}
    for measure in dict.fromkeys(test.measure for test in result.labels):
        tests = [tested.get((measure, w.label)) for w in result.windows]
        rates.setdefault(measure, [float("nan") if test is None else test.now for test in tests])
    before = {test.measure: test.before for test in result.labels}
    panels = [
        _Panel(
            name=measure,
            values=values,
            baseline=before.get(measure, float("nan")),
            alerts=len(_windows_of_labels(result, measure)),
        )
        for measure, values in rates.items()
    ]
    return _with_values([*panels, _Panel(name="queries", values=[w.n_queries for w in result.windows])])


def _spec(family: _Family, marks: _Marks, windows: Sequence[Window]) -> dict[str, Any]:
    """A chart of each panel, the windows that raised an alert as bands."""
    panels = family.panels
    about = [
        {"key": str(at), "model": panel.name, "baseline": none_if_undefined(_rounded(panel.baseline))}
        for at, panel in enumerate(panels)
    ]
    limited = any(panel.limits for panel in panels)
    layers = _layers(
        family, marks, with_dots=len(windows) <= _DOTTED, line="limit" if limited else "baseline"
    )
    room = 0 if family.shared else _ROOM
    spec = charts.small_multiples([panel.name for panel in panels], about, {"layer": layers}, own_y=room)
    found = {"data": spec["data"], "key": "key", "fields": ["model", "place", "baseline"]}
    calculate = {
        "line": "datum['line' + datum.key]" if limited else "datum.baseline",
        # a scale needs numbers: where there is nothing to compare with, an unseen line lies on the other
        "beside": "isValid(datum.line) ? datum.line : datum.value",
        "n": "isValid(datum['n' + datum.key]) ? datum['n' + datum.key] : datum.queries",
    }
    transform = [
        {"fold": [row["key"] for row in about]},
        {"lookup": "key", "from": found},
        *({"calculate": formula, "as": name} for name, formula in calculate.items()),
    ]
    return {**spec, "data": {"values": _rows(panels, windows)}, "transform": transform}


def _layers(family: _Family, marks: _Marks, *, with_dots: bool, line: str) -> list[dict[str, Any]]:
    """Bands, the line to compare with, and the values."""
    axis: dict[str, Any] = {"minExtent": _ROOM - 10, "tickCount": 4, "labelFlush": True}
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
    """A row for each window; a panel's columns end in its number."""
    rows = []
    for number, w in enumerate(windows):
        middle = (w.start_ns + w.end_ns) // 2 // 10**6
        row: dict[str, Any] = {"at": middle, "window": w.label, "queries": w.n_defined}
        for at, panel in enumerate(panels):
            row[str(at)] = none_if_undefined(_rounded(panel.values[number]))
            if panel.limits:
                row[f"line{at}"] = none_if_undefined(_rounded(panel.limits[number]))
            if panel.n_queries:
                row[f"n{at}"] = panel.n_queries[number]
        rows.append(row)
    return rows


def _runs(marked: Sequence[Window]) -> list[tuple[Window, Window]]:
    """The first and the last window of each run of neighbours."""
    runs: list[tuple[Window, Window]] = []
    for window in marked:
        if runs and runs[-1][1].end_ns == window.start_ns:
            runs[-1] = runs[-1][0], window
        else:
            runs.append((window, window))
    return runs


def _in_words(family: _Family, marks: _Marks, windows: Sequence[Window]) -> str:
    """Which windows are marked, and of each panel what it does there and elsewhere."""
    sentences, marked = [], marks.windows
    if marked:
        some = f"{len(marked)} of {count_of(len(windows), 'window')}"
        sentences.append(f"{some} {marks.raised}, from {marked[0].label} to {marked[-1].label}.")
    labels = {w.label for w in marked}
    for panel in family.panels:
        points = [(w.label, value) for w, value in zip(windows, panel.values, strict=True) if value == value]
        inside = [value for label, value in points if label in labels]
        outside = [value for label, value in points if label not in labels]
        words = []
        if panel.baseline == panel.baseline:
            words.append(f"{_number(panel.baseline)} in the baseline")
        if inside:
            words.append(f"{_range(inside)} where the alert was raised")
        if outside:
            words.append(f"{_range(outside)} in {'the others' if inside else 'the windows'}")
        if panel.limits:
            above = sum(value > limit for value, limit in zip(panel.values, panel.limits, strict=True))
            words.append(f"above its limit in {above} of {count_of(len(points), 'window')}")
        if panel.alerts:
            words.append(f"an alert of its own in {count_of(panel.alerts, 'window')}")
        sentences.append(f"{panel.name}: {', '.join(words)}.")
    return " ".join(sentences)


def _range(values: Sequence[float]) -> str:
    low, high = _number(min(values)), _number(max(values))
    return low if low == high else f"{low} to {high}"


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")


def _number(value: float) -> str:
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
