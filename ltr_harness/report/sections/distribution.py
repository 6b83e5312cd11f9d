"""What does the mean hide: how do per-query values spread?"""

import numpy as np

from ltr_harness.report import charts, formats
from ltr_harness.report.blocks import Block, Chart, Choice, Column, Heading, Paragraph, Table
from ltr_harness.report.data import ReportData, same_k


def section(data: ReportData) -> list[Block]:
    """At the primary metric, and on the page at all others of its K."""
    files = formats.file_names(same_k(data))
    answers = []
    for metric in files:
        names = [name for name in data.models if data.summary(name, metric).n]
        if names:
            end = "" if metric == data.primary else f"_{files[metric]}"
            answers.append((metric, (_table(data, names, metric, end), _histogram(data, names, metric, end))))
    if not answers or answers[0][0] != data.primary:
        return []
    return [
        Heading("Distribution over queries"),
        Paragraph(
            "Two models with the same mean can serve users very differently: look at the share of queries at "
            "zero and at the lower tenth."
        ),
        *([Choice("Metric", tuple(answers))] if answers[1:] else answers[0][1]),
    ]


def _table(data: ReportData, names: list[str], metric: str, end: str) -> Table:
    tenth = "A tenth of the queries is at or {} this value."
    return Table.of(
        f"distribution{end}",
        f"Per-query {metric}.",
        [data.summary(name, metric) for name in names],
        {
            Column("Model"): lambda s: data.model_name(s.model),
            Column("Mean", "metric", best=data.best(metric)): lambda s: s.mean,
            Column("sd", "metric"): lambda s: s.sd,
            Column("Lowest", "metric"): lambda s: s.minimum,
            Column("p10", "metric", hint=tenth.format("below")): lambda s: s.p10,
            Column("Median", "metric"): lambda s: s.median,
            Column("p90", "metric", hint=tenth.format("above")): lambda s: s.p90,
            Column("At 0", "percent"): lambda s: s.share_zero,
            Column("At 1", "percent"): lambda s: s.share_one,
            Column("Queries", "count"): lambda s: s.n,
        },
    )


def _histogram(data: ReportData, names: list[str], metric: str, end: str) -> Chart:
    values = {name: data.entrants[name].per_query(metric) for name in names}
    values = {name: v[~np.isnan(v)] for name, v in values.items()}
    low = min(0.0, *(float(v.min()) for v in values.values()))
    high = max(1.0, *(float(v.max()) for v in values.values()))
    edges = np.linspace(low, high, 21)
    words = [
        f"{s.model}: median {s.median:.4f}, {100 * s.share_zero:.1f} % at 0, {100 * s.share_one:.1f} % at 1."
        for s in (data.summary(name, metric) for name in names)
    ]
    x = {"title": "value of a query", "axis": {"tickCount": 5}}
    return Chart(
        name=f"value_distribution{end}",
        title=f"Per-query {metric}, share of queries",
        spec=charts.histogram(data, values, edges, x, ".3f"),
        text=" ".join(words),
    )
