"""The distribution of each metric over queries."""

from functools import partial

import numpy as np

from ltr_harness.report import charts, formats
from ltr_harness.report.blocks import Block, Chart, Column, Heading, Paragraph, Table
from ltr_harness.report.data import ReportData, at_each_metric


def section(data: ReportData) -> list[Block]:
    """Return the distributions at the primary metric, and on the page at all others of its K."""
    introduction = (
        "Two models with the same mean can serve users very differently: look at the share of queries at "
        "zero and at the lower tenth."
    )
    answers = at_each_metric(data, partial(_spread, data))
    if not answers:
        return []
    return [Heading("Distribution over queries", finding=_finding(data)), Paragraph(introduction), *answers]


def _finding(data: ReportData) -> str:
    """Return the value of the worst tenth of the queries by the best model, and by the baseline beside it."""
    best = data.models[0]
    finding = f"a tenth of the queries below {formats.metric(data.comparison.summary(best).p10)}"
    if best != data.baseline:
        finding += f" ({best}), {formats.metric(data.comparison.summary(data.baseline).p10)} (baseline)"
    return finding


def _spread(data: ReportData, metric: str, suffix: str) -> list[Block]:
    """Return a table and a histogram; nothing where no query has a value."""
    summaries = [summary for name in data.models if (summary := data.comparison.summary(name, metric)).n]
    if not summaries:
        return []
    caption = f"Per-query {metric}."
    if data.weighted:
        caption += " The mean is weighted, all else counts each query once."
    tenth = "A tenth of the queries is at or {} this value."
    table = Table.of(
        f"distribution{suffix}",
        caption,
        summaries,
        {
            Column("Model"): lambda summary: data.model_name(summary.model),
            Column("Mean", "metric", best=data.best(metric)): lambda summary: summary.mean,
            Column("sd", "metric"): lambda summary: summary.sd,
            Column("Lowest", "metric"): lambda summary: summary.minimum,
            Column("p10", "metric", hint=tenth.format("below")): lambda summary: summary.p10,
            Column("Median", "metric"): lambda summary: summary.median,
            Column("p90", "metric", hint=tenth.format("above")): lambda summary: summary.p90,
            Column("At 0", "percent"): lambda summary: summary.share_zero,
            Column("At 1", "percent"): lambda summary: summary.share_one,
            Column("Queries", "count"): lambda summary: summary.n,
        },
    )
    values = {summary.model: data.comparison.system(summary.model).per_query(metric) for summary in summaries}
    is_counted = data.comparison.sampling.of_queries(data.comparison.n_queries) > 0
    values = {
        name: model_values[is_counted & ~np.isnan(model_values)] for name, model_values in values.items()
    }
    low = min(0.0, *(float(model_values.min()) for model_values in values.values()))
    high = max(1.0, *(float(model_values.max()) for model_values in values.values()))
    x = {"title": "value of a query", "axis": {"tickCount": 5}}
    spec = charts.histogram(data, values, np.linspace(low, high, 21), x, ".3f")
    words = (
        f"{summary.model}: median {summary.median:.4f}, {100 * summary.share_zero:.1f} % at 0, "
        f"{100 * summary.share_one:.1f} % at 1."
        for summary in summaries
    )
    title = f"Per-query {metric}, share of queries"
    return [table, Chart(f"value_distribution{suffix}", title, spec, " ".join(words))]
