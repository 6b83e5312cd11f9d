"""What would users have liked, had they looked at every row alike?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ltr_harness.errors import MetricError
from ltr_harness.metrics import parse_metric
from ltr_harness.relevance.propensities import effective_size
from ltr_harness.relevance.rule import Relevance
from ltr_harness.report.blocks import Block, Cell, Column, Heading, Paragraph, Table
from ltr_harness.report.data import ReportData


def section(data: ReportData) -> list[Block]:
    """Silent unless labels estimate relevance (`relevance: {mode: ips}`, `doubly_robust`)."""
    rules = [
        Relevance.model_validate(r.reading["relevance"]) for r in data.records if r.reading.get("relevance")
    ]
    if not rules or not rules[0].estimates or data.rows is None:
        return []
    rule, labels = rules[0], data.rows.judgments.labels
    sums = [name for name in data.metrics if _adds_up(name)]
    if not sums:
        text = (
            "Labels are estimates, and no metric of this report is a sum of labels: its means are not unbiased for "
            "what they would be on true labels. Add dcg(gain=linear,empty=zero)."
        )
        return [Heading("Partial feedback"), Paragraph(text, "warning")]
    per_query = float(labels.sum()) / data.rows.judgments.groups.n_queries
    rows: list[tuple[Cell, ...]] = []
    for model in data.models:
        means = [data.summary(model, name).mean for name in sums]
        normalised = [mean / per_query if per_query else None for mean in means]
        rows.append(
            (data.model_name(model), *(cell for pair in zip(means, normalised, strict=True) for cell in pair))
        )
    columns = [Column("Model")]
    for name in sums:
        columns += [Column(name, "metric"), Column("self-normalised", "metric")]
    return [
        Heading("Partial feedback"),
        Paragraph(
            "Labels are what happened over the probability of a look, so means of sums of labels are unbiased for "
            "what users would have liked where the probabilities are right and not clipped. Self-normalised: over the "
            "mean sum of a query's labels, which varies less and is the same for all models. Models are compared on "
            "the documents that were shown; of others nothing is known." + _weights(rule, labels)
        ),
        Table(
            name="partial_feedback",
            caption="Sums of labels, as estimated from what users did.",
            columns=tuple(columns),
            rows=tuple(rows),
        ),
    ]


def _adds_up(name: str) -> bool:
    try:
        return parse_metric(name).adds_up
    except MetricError:  # from outside
        return False


def _weights(rule: Relevance, labels: NDArray[np.float64]) -> str:
    """How much the weighted labels say; the doubly robust ones hold predictions beside them."""
    if rule.chosen != "ips" or rule.propensity is None or not labels.any():
        return ""
    clip = rule.propensity.clip
    at_clip = np.isclose(labels[:, None] * clip, [*rule.events.values()]).any(axis=1) & (labels > 0)
    share = float(labels[at_clip].sum() / labels.sum())
    return (
        f" The {int(np.count_nonzero(labels)):,} documents with an event weigh as much as "
        f"{effective_size(labels):,.1f} of one weight; {share:.0%} of the weight is at the clip of {clip:g}."
    )
