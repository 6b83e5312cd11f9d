"""Estimates from users' clicks: the position bias that a model learned, and sums of estimated labels."""

from collections.abc import Sequence

import numpy as np

from ltr_harness._util.text import count_of
from ltr_harness.data.arrays import Floats
from ltr_harness.data.relevance.propensities import effective_size
from ltr_harness.data.relevance.rule import Relevance
from ltr_harness.experiments.runs.record import Record
from ltr_harness.report.blocks import Block, Cell, Column, Heading, Paragraph, Table
from ltr_harness.report.data import ReportData


def partial_feedback(data: ReportData) -> list[Block]:
    """Self-normalised sums of labels, for labels that estimate relevance from clicks."""
    settings = [rule for record in data.records if (rule := record.reading.get("relevance"))]
    if not settings or data.rows is None:
        return []
    rule, labels = Relevance.model_validate(settings[0]), data.rows.judgments.labels
    if not rule.estimates:
        return []
    sums = [name for name, metric in data.own_metrics.items() if metric.is_linear_sum]
    if not sums:
        text = (
            "Labels are estimates, and no metric of this report is a sum of labels: its means are biased "
            "estimates of those on true labels. Add dcg(gain=linear,empty=zero)."
        )
        heading = Heading("Partial feedback", finding="every mean here is biased", matters=True)
        return [heading, Paragraph(text, "warning")]
    per_query = float(labels.sum()) / data.rows.judgments.groups.n_queries
    return [
        Heading("Partial feedback", finding=f"unbiased: {', '.join(sums[:3])}"),
        Paragraph(
            "Labels are event weights divided by the probability of examination (inverse propensity scoring). Means "
            "of sums of labels are unbiased where the probabilities are right and not clipped. Self-normalised: over "
            "the mean sum of a query's labels, which varies less and is the same for all models. Models are compared "
            f"on the documents that were shown, not on others.{_weights_in_words(rule, labels)}"
        ),
        _sum_table(data, sums, per_query),
    ]


def _weights_in_words(rule: Relevance, labels: Floats) -> str:
    """Return a sentence on the effective number of events; "" for doubly robust labels, which hold predictions too."""
    if rule.chosen != "ips" or rule.propensity is None or not labels.any():
        return ""
    clip = rule.propensity.clip
    at_clip = np.isclose(labels[:, None] * clip, [*rule.events.values()]).any(axis=1) & (labels > 0)
    share = float(labels[at_clip].sum() / labels.sum())
    return (
        f" The {int(np.count_nonzero(labels)):,} documents with an event weigh as much as "
        f"{effective_size(labels):,.1f} of one weight; {share:.0%} of the weight is at the clip of {clip:g}."
    )


def _sum_table(data: ReportData, metrics: Sequence[str], per_query: float) -> Table:
    """Return the means of metrics that are sums of labels, and as shares of the mean sum of a query's labels."""
    columns = [Column("Model")]
    for name in metrics:
        columns += [Column(name, "metric"), Column("self-normalised", "metric")]
    rows: list[tuple[Cell, ...]] = []
    for model in data.models:
        row: list[Cell] = [data.model_name(model)]
        for name in metrics:
            mean = data.comparison.summary(model, name).mean
            self_normalised = mean / per_query if per_query else None
            row += [mean, self_normalised]
        rows.append(tuple(row))
    caption = "Sums of labels, estimated from user events."
    return Table("partial_feedback", caption, tuple(columns), tuple(rows))


def position_bias(data: ReportData) -> list[Block]:
    """The position bias that a model learned from clicks."""
    by_model = {
        model: model_biases for model in data.models if (model_biases := biases(data.records_of(model)))
    }
    if not by_model:
        return []
    columns: list[Column] = [Column("Position")]
    unknown: dict[str, tuple[None, ...]] = {}  # for positions that a model has not seen
    for model, model_biases in by_model.items():
        if len(next(iter(model_biases.values()))) == 1:
            columns.append(Column("bias factor", "number", group=model))
            unknown[model] = (None,)
        else:
            columns += [Column("ti+", "number", group=model), Column("tj-", "number", group=model)]
            unknown[model] = (None, None)
    rows: list[tuple[Cell, ...]] = []
    for position in sorted(
        {position for model_biases in by_model.values() for position in model_biases}, key=int
    ):
        row: list[Cell] = [position]
        for model, model_biases in by_model.items():
            row += model_biases.get(position, unknown[model])
        rows.append(tuple(row))
    finding = f"{count_of(len(rows), 'position')}, by {', '.join(by_model)}"
    caption = "Learned bias by display position, as the data count positions (XGBoost: rank from 0)."
    return [
        Heading("Position bias", finding=finding),
        Paragraph(
            "The effect of a document's display position as training estimated it, and left out of the model; "
            "after the last trained round, averaged over runs. LightGBM's bias factor was added to scores in training: "
            "the higher, the more a place alone attracts clicks. XGBoost's ti+ and tj- are relative to the first "
            "place, for the clicked and the not clicked document of a pair."
        ),
        Table("position_bias", caption, tuple(columns), tuple(rows)),
    ]


def biases(records: Sequence[Record]) -> dict[str, tuple[float, ...]]:
    """Return the biases of each position, averaged over the runs that have it."""
    by_position: dict[str, list[Sequence[float | None]]] = {}
    tables = [pair for record in records for pair in record.learned.get("position_bias", {}).items()]
    for kind, table in tables:
        if kind == tables[0][0]:
            for position, values in table.items():
                by_position.setdefault(position, []).append(values)
    return {
        position: tuple(np.array(values, dtype=np.float64).mean(axis=0).tolist())
        for position, values in by_position.items()
    }
