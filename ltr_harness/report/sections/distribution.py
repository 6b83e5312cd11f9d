"""What does the mean hide: how do per-query values spread?"""

from __future__ import annotations

import numpy as np

from ltr_harness.report.blocks import Block, Chart, Column, Heading, Paragraph, Table
from ltr_harness.report.charts import histogram
from ltr_harness.report.data import ReportData


def section(data: ReportData) -> list[Block]:
    defined = [name for name in data.models if data.summary(name, data.primary).n]
    if not defined:
        return []
    return [
        Heading("Distribution over queries"),
        Paragraph(
            "Two models with the same mean can serve users very differently: look at the share of queries at "
            "zero and at the lower tenth."
        ),
        _table(data, defined),
        _histogram(data, defined),
    ]


def _table(data: ReportData, names: list[str]) -> Table:
    higher = data.higher_is_better(data.primary)
    columns = (
        Column("Model"),
        Column("Mean", "metric", best="max" if higher else "min"),
        Column("sd", "metric"),
        Column("Lowest", "metric"),
        Column("p10", "metric", hint="A tenth of the queries is at or below this value."),
        Column("Median", "metric"),
        Column("p90", "metric", hint="A tenth of the queries is at or above this value."),
        Column("At 0", "percent"),
        Column("At 1", "percent"),
        Column("Queries", "count"),
    )
    rows = []
    for name in names:
        s = data.summary(name, data.primary)
        rows.append(
            (
                data.model_name(name),
                s.mean,
                s.sd,
                s.minimum,
                s.p10,
                s.median,
                s.p90,
                s.share_zero,
                s.share_one,
                s.n,
            )
        )
    return Table(
        name="distribution",
        caption=f"Per-query {data.primary}.",
        columns=columns,
        rows=tuple(rows),
    )


def _histogram(data: ReportData, names: list[str]) -> Chart:
    values = {name: data.entrants[name].per_query(data.primary) for name in names}
    values = {name: v[~np.isnan(v)] for name, v in values.items()}
    low = min(0.0, *(float(v.min()) for v in values.values()))
    high = max(1.0, *(float(v.max()) for v in values.values()))
    edges = np.linspace(low, high, 21)
    words = []
    for name in values:
        s = data.summary(name, data.primary)
        words.append(
            f"{name}: median {s.median:.4f}, {100 * s.share_zero:.1f} % at 0, {100 * s.share_one:.1f} % at 1."
        )
    return Chart(
        name="value_distribution",
        title=f"Per-query {data.primary}, share of queries",
        spec=histogram(data, values, edges, {"title": "value of a query", "axis": {"tickCount": 5}}, ".3f"),
        text=" ".join(words),
    )
