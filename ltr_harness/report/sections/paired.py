"""Each model's difference from the baseline, query by query."""

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from ltr_harness._util.text import count_of
from ltr_harness.report import blocks, charts, formats
from ltr_harness.report.blocks import Block, Chart, Column, Estimate, Heading, Paragraph, Table
from ltr_harness.report.data import ReportData
from ltr_harness.report.sections.verdict import corrected_p_column, near_axis, verdict_badge


def section(data: ReportData) -> list[Block]:
    if not data.rivals:
        return []
    introduction = (
        "Every query is scored by both models, and the difference on that query counts: model minus "
        f"{data.baseline}. Seeds are averaged per query first."
    )
    content: list[Block] = [Heading("Paired differences", finding=_finding(data)), Paragraph(introduction)]
    table = _table(data, data.primary, "paired")
    compared = [name for name in data.rivals if not math.isnan(data.comparison.paired(name).difference)]
    if compared:
        content += [_interval_chart(data, compared), table, _distribution(data, compared)]
    else:
        content.append(table)
    effect_hint = "d_z: mean of the differences over their standard deviation."
    detectable_hint = "Smallest difference these queries show with 80 % probability."
    smaller = "A difference smaller than the detectable one may exist and"
    joint = {corrected_p_column(data): lambda pair: pair.p_corrected} if data.joint() else {}
    tests = Table.of(
        "paired_tests",
        ("Tests against ", blocks.code(data.baseline), " at ", blocks.code(data.primary), "."),
        [data.comparison.paired(model) for model in data.rivals],
        {
            Column("Model"): lambda pair: data.model_name(pair.model),
            Column("p", "p", hint=f"{data.comparison.method.test_text}."): lambda pair: pair.p,
            **joint,
            Column("p (t)", "p", hint="Paired t-test, beside the chosen test."): lambda pair: pair.p_t,
            Column("Effect", "number", hint=effect_hint): lambda pair: pair.effect_size,
            Column("Detectable", "metric", hint=detectable_hint): lambda pair: pair.detectable,
        },
        footnotes=(f"{smaller} these queries would probably not show it.",),
    )
    content.append(blocks.Details("Uncorrected p, t-test, effect size and detectable difference", (tests,)))
    other_metrics = [metric for metric in data.metrics if metric != data.primary]
    if other_metrics:
        files = formats.file_names(other_metrics)
        tables = tuple(_table(data, metric, f"paired_{files[metric]}") for metric in other_metrics)
        summary = f"The other {count_of(len(other_metrics), 'metric')}"
        page_table = _table_of_metrics(data, other_metrics)
        content.append(
            blocks.TwoForms((blocks.Details(summary, (page_table,)),), (blocks.Details(summary, tables),))
        )
    return content


def _finding(data: ReportData) -> str:
    """Return how many models differ, and the difference that could have been shown of the best one that does not."""
    pairs = [data.comparison.paired(name) for name in data.rivals]
    n_different = sum(pair.verdict in ("better", "worse") for pair in pairs)
    verb = "differ" if n_different > 1 else "differs"
    finding = f"{n_different or 'none'} of {count_of(len(pairs), 'model')} {verb}"
    detectable = [
        pair.detectable
        for pair in pairs
        if pair.verdict not in ("better", "worse") and not math.isnan(pair.detectable)
    ]
    if detectable:
        finding += f"; {formats.metric(detectable[0])} could have been shown"
    return finding


def _table_of_metrics(data: ReportData, metrics: Sequence[str]) -> Table:
    """Return the contenders at several metrics as one table, for the page."""
    joint = next((word for metric in metrics if (word := data.joint(metric))), "")
    return Table.of(
        "paired_others",
        ("Contenders against ", blocks.code(data.baseline), f" at the other {data.weighted}metrics."),
        [data.comparison.paired(model, metric) for metric in metrics for model in data.contenders],
        {
            Column("Metric"): lambda pair: pair.metric,
            Column("Model"): lambda pair: data.model_name(pair.model),
            Column("Verdict"): lambda pair: verdict_badge(pair.verdict),
            Column(f"Difference [{joint}{data.confidence_label} CI]", "difference"): Estimate.of,
            Column("Relative", "relative"): lambda pair: pair.relative,
            Column("Win / tie / loss", "tally"): lambda pair: (
                f"{pair.wins:,} / {pair.ties:,} / {pair.losses:,}"
            ),
            Column(f"{joint}p", "p"): lambda pair: pair.p_corrected,
        },
    )


def _table(data: ReportData, metric: str, name: str) -> Table:
    mean_hint = "Mean of the per-query differences."
    share_hint = "The difference as a share of the baseline's mean."
    tally_hint = "Queries on which the model is better, equal to 1e-9, worse."
    unweighted = " (unweighted)" if data.weighted else ""
    return Table.of(
        name,
        ("Against ", blocks.code(data.baseline), " at ", f"{data.weighted}", blocks.code(metric), "."),
        [data.comparison.paired(model, metric) for model in data.rivals],
        {
            Column("Model"): lambda pair: data.model_name(pair.model),
            Column("Verdict"): lambda pair: verdict_badge(pair.verdict),
            Column(f"Difference [{data.interval_label(metric)}]", "difference", hint=mean_hint): Estimate.of,
            Column("Relative", "relative", hint=share_hint): lambda pair: pair.relative,
            Column(f"Win / tie / loss{unweighted}", "tally", hint=tally_hint): lambda pair: (
                f"{pair.wins:,} / {pair.ties:,} / {pair.losses:,}"
            ),
            corrected_p_column(data, metric): lambda pair: pair.p_corrected,
        },
    )


def _interval_chart(data: ReportData, compared: list[str]) -> Chart:
    """Return a chart of an interval each; an arrow in place of one far outside of what is shown."""
    pairs = [data.comparison.paired(name) for name in compared]
    low, high = near_axis(pairs) or (-math.inf, math.inf)
    rows = []
    for pair in pairs:
        row = {"model": pair.model, "verdict": pair.verdict, **charts.difference(pair)}
        if pair.difference < low:
            row |= {"left": low, "beyond": f"◂ {formats.difference(pair.difference)}"}
        elif pair.difference > high:
            row |= {"right": high, "beyond": f"{formats.difference(pair.difference)} ▸"}
        rows.append(row)
    title = (
        f"Difference in {data.primary} to {data.baseline} with {data.joint()}{data.confidence_label} intervals; "
        "an interval across the dashed line means the sign is open"
    )
    if any("beyond" in row for row in rows):
        layers = _layers(data, compared, rows, domain=[low, high])
        title += "; arrows point to models far outside"
    else:
        layers = _layers(data, compared, rows, domain=None)
    descriptions = []
    for pair in pairs:
        interval = formats.interval(pair.ci_low, pair.ci_high, "difference")
        descriptions.append(
            f"{pair.model}: {formats.difference(pair.difference)} {interval}, {pair.verdict}."
        )
    spec = charts.wide(charts.with_places(rows, compared), 26 * len(rows), autosize=charts.FIT, layer=layers)
    return Chart("paired_differences", title, spec, " ".join(descriptions))


def _layers(
    data: ReportData, compared: list[str], rows: list[dict[str, Any]], domain: list[float] | None
) -> list[dict[str, Any]]:
    """Return the dashed zero, intervals and means, and the arrows of those outside the domain where there is one."""
    axis = {"format": "+.3f", "tickCount": 7}
    x: dict[str, Any] = {"type": "quantitative", "title": "difference to the baseline", "axis": axis}
    if domain is not None:
        x["scale"] = {"domain": domain, "nice": False}
    y = {"field": "model", "type": "nominal", "sort": charts.BY_PLACE, "title": None}
    tooltip = charts.tooltip("model", "verdict", difference="+.4f", low="+.4f", high="+.4f")
    shared = {"y": y, "color": charts.model_colour(data, compared), "tooltip": tooltip}
    ends = {"x": {**x, "field": "low"}, "x2": {"field": "high"}, "opacity": charts.fade(0.7)}
    middle = {"x": {**x, "field": "difference"}, "opacity": charts.fade()}
    rule = {"type": "rule", "strokeWidth": 2.5, "clip": True}
    intervals = {"params": [charts.ZOOM_X], **charts.layer(rule, **shared, **ends)}
    means = charts.layer(charts.dots(80, clip=True), **shared, **middle)
    arrows = []
    if domain is not None:
        within_domain = [{"filter": "!isValid(datum.beyond)"}]
        intervals, means = {**intervals, "transform": within_domain}, {**means, "transform": within_domain}
        arrows = [_arrows(side, x, shared) for side in ("left", "right") if any(side in row for row in rows)]
    zero = charts.layer({**charts.DASHED, "clip": True}, x=charts.quantitative("zero"))
    return [{"data": {"values": [{"zero": 0}]}, **zero}, intervals, means, *arrows]


def _arrows(side: str, x: dict[str, Any], shared: dict[str, Any]) -> dict[str, Any]:
    return {
        "transform": [{"filter": f"isValid(datum.{side})"}],
        **charts.layer(
            {"type": "text", "align": side, "fontSize": 11},
            **shared,
            x={**x, "field": side},
            text={"field": "beyond"},
            opacity=charts.fade(),
        ),
    }


def _distribution(data: ReportData, compared: list[str]) -> Chart:
    """Return a histogram of the per-query differences: a mean can hide a few large losses."""
    differences = {}
    for name in compared:
        model_differences = data.comparison.query_differences(name)
        differences[name] = model_differences[~np.isnan(model_differences)]
    widest = max(float(np.abs(model_differences).max()) for model_differences in differences.values()) or 1.0
    unit = 10.0 ** math.floor(math.log10(widest))
    reach = unit * math.ceil(widest / unit)  # a round number, so that the axis has round labels
    edges = np.linspace(-reach, reach, 22)  # 21 bins, so that ties share one in the middle
    descriptions = []
    for name, model_differences in differences.items():
        p10, median, p90 = np.quantile(model_differences, [0.1, 0.5, 0.9])
        descriptions.append(
            f"{name}: 10 % of the differences are below {formats.difference(float(p10))}, the median is "
            f"{formats.difference(float(median))}, 10 % are above {formats.difference(float(p90))}."
        )
    axis = {"format": "+.2~f", "values": [-reach, -reach / 2, 0, reach / 2, reach]}
    x = {"title": "difference to the baseline", "axis": axis}
    unweighted = ", each query once" if data.weighted else ""
    title = f"Per-query differences to {data.baseline} at {data.primary}{unweighted}"
    spec = charts.histogram(data, differences, edges, x, "+.3f")
    return Chart("difference_distribution", title, spec, " ".join(descriptions))


def pairs(data: ReportData) -> list[Block]:
    """The difference of each pair of models."""
    if len(data.rivals) < 2:  # the verdict is on the only pair
        return []
    letters = data.letters
    if not all(letters.groups.values()):
        return []
    models = [model for model in data.models if model in letters.groups]
    has_long_letters = any(len(letter) > 1 for group in letters.groups.values() for letter in group)
    separator = " " if has_long_letters else ""
    n_pairs = len(models) * (len(models) - 1) // 2
    groups = [set(letters.groups[model]) for model in models]
    n_different = sum(first.isdisjoint(second) for first, second in combinations(groups, 2))
    test = data.comparison.method.test_text
    if any(pair.includes_seeds for pair in data.comparison.all_pairs()):
        test += " over queries and seeds"
    return [
        Heading("All pairs", finding=f"{n_different} of {n_pairs} differ"),
        Paragraph(
            f"Models that share a letter are not shown to differ at {data.primary}: {test} on the paired "
            f"differences of all {n_pairs} pairs, joint at {data.confidence_label} confidence, over at "
            f"least {count_of(letters.n, 'query')} each. Sharing a letter does not prove equality."
        ),
        Table.of(
            "all_pairs",
            f"Letters at {data.primary}; two models without a common one differ.",
            models,
            {
                Column("Model"): data.model_name,
                Column(data.primary, "metric"): data.mean,
                Column("Letters"): lambda model: separator.join(letters.groups[model]),
            },
        ),
    ]
