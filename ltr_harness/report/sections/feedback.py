"""What would users have liked, had they looked at every row alike?"""

from collections.abc import Sequence

import numpy as np

from ltr_harness.data.relevance.propensities import effective_size
from ltr_harness.data.relevance.rule import Relevance
from ltr_harness.experiments.runs.record import Record
from ltr_harness.report.blocks import Block, Cell, Column, Heading, Paragraph, Table
from ltr_harness.report.data import ReportData


def partial_feedback(data: ReportData) -> list[Block]:
    """What would users have liked, had they looked at every row alike, where labels estimate relevance?"""
    given = (record.reading.get("relevance") for record in data.records)
    rules = [Relevance.model_validate(rule) for rule in given if rule]
    if not rules or not rules[0].estimates or data.rows is None:
        return []
    rule, labels = rules[0], data.rows.judgments.labels
    sums = [name for name, metric in data.own_metrics.items() if metric.is_linear_sum]
    if not sums:
        text = (
            "Labels are estimates, and no metric of this report is a sum of labels: its means are biased "
            "estimates of those on true labels. Add dcg(gain=linear,empty=zero)."
        )
        return [Heading("Partial feedback"), Paragraph(text, "warning")]
    weights = ""  # of doubly robust labels nothing: they hold predictions beside the weighted ones
    if rule.chosen == "ips" and rule.propensity is not None and labels.any():
        clip = rule.propensity.clip
        at_clip = np.isclose(labels[:, None] * clip, [*rule.events.values()]).any(axis=1) & (labels > 0)
        share = float(labels[at_clip].sum() / labels.sum())
        weights = (
            f" The {int(np.count_nonzero(labels)):,} documents with an event weigh as much as "
            f"{effective_size(labels):,.1f} of one weight; {share:.0%} of the weight is at the clip of {clip:g}."
        )
    per_query = float(labels.sum()) / data.rows.judgments.groups.n_queries
    rows: list[tuple[Cell, ...]] = []
    for model in data.models:
        row: list[Cell] = [data.model_name(model)]
        for name in sums:
            mean = data.comparison.summary(model, name).mean
            row += [mean, mean / per_query if per_query else None]
        rows.append(tuple(row))
    columns = [Column("Model")]
    for name in sums:
        columns += [Column(name, "metric"), Column("self-normalised", "metric")]
    return [
        Heading("Partial feedback"),
        Paragraph(
            "Labels are event weights divided by the probability of examination (inverse propensity scoring). Means "
            "of sums of labels are unbiased where the probabilities are right and not clipped. Self-normalised: over "
            "the mean sum of a query's labels, which varies less and is the same for all models. Models are compared "
            f"on the documents that were shown, not on others.{weights}"
        ),
        Table("partial_feedback", "Sums of labels, estimated from user events.", tuple(columns), tuple(rows)),
    ]


def position_bias(data: ReportData) -> list[Block]:
    """How much did the place of a row count, where labels are clicks and a model learned biases?"""
    learned_by = {model: learned for model in data.models if (learned := biases(data.records_of(model)))}
    if not learned_by:
        return []
    positions = sorted({at for learned in learned_by.values() for at in learned}, key=int)
    columns: list[Column] = [Column("Position")]
    kinds = {model: len(next(iter(learned.values()))) for model, learned in learned_by.items()}
    for model, n in kinds.items():
        labels = ("bias factor",) if n == 1 else ("ti+", "tj-")
        columns += [Column(label, "number", group=model) for label in labels]
    rows: list[tuple[Cell, ...]] = []
    for at in positions:
        row: list[Cell] = [at]
        for model, learned in learned_by.items():
            row += learned.get(at, (None,) * kinds[model])
        rows.append(tuple(row))
    said = "Learned bias by display position, as the data count positions (XGBoost: rank from 0)."
    return [
        Heading("Position bias"),
        Paragraph(
            "The effect of a document's display position as training estimated it, and left out of the model; "
            "after the last trained round, averaged over runs. LightGBM's bias factor was added to scores in training: "
            "the higher, the more a place alone attracts clicks. XGBoost's ti+ and tj- are relative to the first "
            "place, for the clicked and the not clicked document of a pair."
        ),
        Table("position_bias", said, tuple(columns), tuple(rows)),
    ]


def biases(records: Sequence[Record]) -> dict[str, tuple[float, ...]]:
    """Position to its biases, averaged over the runs that have it."""
    by_position: dict[str, list[Sequence[float | None]]] = {}
    tables = [one for record in records for one in record.learned.get("position_bias", {}).items()]
    for what, table in tables:
        if what == tables[0][0]:
            for at, values in table.items():
                by_position.setdefault(at, []).append(values)
    return {
        at: tuple(np.array(values, dtype=np.float64).mean(axis=0).tolist())
        for at, values in by_position.items()
    }
