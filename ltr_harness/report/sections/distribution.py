"""What does the mean hide: how do per-query values spread?"""

from functools import partial

import numpy as np

from ltr_harness.report import charts
from ltr_harness.report.blocks import Block, Chart, Column, Heading, Paragraph, Table
from ltr_harness.report.data import ReportData, at_each_metric


def section(data: ReportData) -> list[Block]:
    """At the primary metric, and on the page at all others of its K."""
    about = (
        "Two models with the same mean can serve users very differently: look at the share of queries at "
        "zero and at the lower tenth."
    )
    answers = at_each_metric(data, partial(_spread, data))
    return [Heading("Distribution over queries"), Paragraph(about), *answers] if answers else []


def _spread(data: ReportData, metric: str, end: str) -> list[Block]:
    """A table and a histogram; nothing where no query has a value."""
    summaries = [one for name in data.models if (one := data.comparison.summary(name, metric)).n]
    if not summaries:
        return []
    tenth = "A tenth of the queries is at or {} this value."
    table = Table.of(
        f"distribution{end}",
        f"Per-query {metric}."
        + (" The mean is weighted, all else counts each query once." if data.weighted else ""),
        summaries,
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
    values = {s.model: data.comparison.system(s.model).per_query(metric) for s in summaries}
    counts = data.comparison.sampling.of_queries(data.comparison.n_queries) > 0
    values = {name: v[counts & ~np.isnan(v)] for name, v in values.items()}
    low = min(0.0, *(float(v.min()) for v in values.values()))
    high = max(1.0, *(float(v.max()) for v in values.values()))
    x = {"title": "value of a query", "axis": {"tickCount": 5}}
    spec = charts.histogram(data, values, np.linspace(low, high, 21), x, ".3f")
    words = (
        f"{s.model}: median {s.median:.4f}, {100 * s.share_zero:.1f} % at 0, {100 * s.share_one:.1f} % at 1."
        for s in summaries
    )
    title = f"Per-query {metric}, share of queries"
    return [table, Chart(f"value_distribution{end}", title, spec, " ".join(words))]
