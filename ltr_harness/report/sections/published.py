"""Do we reproduce what others have published?"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ltr_harness.comparison.pairs import Summary, SystemResult, summarise
from ltr_harness.config.experiment import Reference
from ltr_harness.explanation import as_measured_here, differences_in_words, differing
from ltr_harness.metrics import Metric
from ltr_harness.report.blocks import Block, Cell, Column, Estimate, Heading, Paragraph, Table, Text, code
from ltr_harness.report.data import ReportData, computed_once

_HARDLY_MATTERS = {"empty", "ties", "score_precision"}


@dataclass(frozen=True)
class PublishedFigure:
    """A published figure beside ours, by its source's conventions and by our definition."""

    # the interval is that of `mean`, moved by `published`: of other queries, for these models
    source: str
    data: str | None
    model: str
    metric: str  # by its source's definition
    published: float
    mean: float | None
    difference: float | None  # mean - published
    ci_low: float | None
    ci_high: float | None
    own_metric: str  # by ours
    own_mean: float | None
    share_empty: float | None  # of the test queries
    published_without_empty: float | None
    reason: str  # why there is no mean


@computed_once
def by_reference(data: ReportData) -> list[list[PublishedFigure]]:
    """For each of the experiment's references every printed figure of a model that finished."""
    printed = [
        [
            (model, reference.measured(metric), figure)
            for model, by_metric in reference.values.items()
            if model in data.models
            for metric, figure in by_metric.items()
        ]
        for reference in data.references
    ]
    metrics = [metric for figures in printed for _, metric, _ in figures]
    summaries, refused = _summaries(data, metrics) if metrics else ({}, {})
    return [
        [_row(reference, figure, summaries, refused) for figure in figures]
        for reference, figures in zip(data.references, printed, strict=True)
    ]


def published(data: ReportData) -> tuple[PublishedFigure, ...]:
    """All of them, in the order of the file."""
    return tuple(figure for figures in by_reference(data) for figure in figures)


_Summaries = Mapping[tuple[str, Metric], Summary]


def _summaries(data: ReportData, metrics: Sequence[Metric]) -> tuple[_Summaries, Mapping[Metric, str]]:
    """Every model at these metrics by their source's definition and by ours; and why some are refused."""
    rows = data.rows
    if rows is None:
        return {}, dict.fromkeys(metrics, "the models' scores of the test rows are not available")
    asked = list(dict.fromkeys(one for metric in metrics for one in (metric, as_measured_here(metric))))
    per_query, refused = rows.per_query_of(data.models, asked)
    names = {metric: str(metric) for metric in asked if metric not in refused}
    if not names:
        return {}, refused
    ids = np.array(list(rows.positions))[rows.order]
    systems = [
        SystemResult(
            name=model,
            query_ids=ids,
            values={name: values[None] for name, values in zip(names.values(), found, strict=True)},
            replicates=("",),
            higher_is_better={name: metric.higher_is_better for metric, name in names.items()},
        )
        for model, found in per_query.items()
    ]
    found = summarise(systems, list(names.values()), data.comparison.method, data.comparison.units)
    by_name = {name: metric for metric, name in names.items()}
    return {(one.model, by_name[one.metric]): one for one in found}, refused


def _row(
    reference: Reference,
    figure: tuple[str, Metric, float],
    summaries: _Summaries,
    refused: Mapping[Metric, str],
) -> PublishedFigure:
    model, metric, printed = figure
    own = as_measured_here(metric)
    theirs, ours = summaries.get((model, metric)), summaries.get((model, own))
    share = None if ours is None else ours.n_undefined / (ours.n + ours.n_undefined)
    reason = refused.get(metric, "")
    if theirs is not None and theirs.n == 0:
        theirs, reason = None, "no test query has a value"
    return PublishedFigure(
        source=reference.source,
        data=reference.data,
        model=model,
        metric=str(metric),
        published=printed,
        mean=None if theirs is None else theirs.mean,
        difference=None if theirs is None else theirs.mean - printed,
        ci_low=None if theirs is None else theirs.ci_low - printed,
        ci_high=None if theirs is None else theirs.ci_high - printed,
        own_metric=str(own),
        own_mean=None if ours is None else ours.mean,
        share_empty=share,
        published_without_empty=_without_empty(printed, metric, own, share),
        reason=reason,
    )


def _without_empty(printed: float, metric: Metric, own: Metric, share: float | None) -> float | None:
    """The mean over the others, of a mean that counts queries without relevant documents as 0 or 1."""
    differs = differing(own, metric)
    if not share or share == 1 or "empty" not in differs or not differs.keys() <= _HARDLY_MATTERS:
        return None
    return (printed - share * (metric.empty == "one")) / (1 - share)


HEADING = "Beside published numbers"


def section(data: ReportData) -> list[Block]:
    if not published(data):
        return []
    blocks: list[Block] = [
        Heading(HEADING),
        Paragraph(
            "The models here, evaluated as the publication evaluated, beside its figures. The interval, "
            f"{data.confidence_label}, is that of the mean here over samples of queries. On the same test queries both "
            "numbers share much of that error, so a difference within the interval may still be one between the models."
        ),
    ]
    for at, (reference, rows) in enumerate(zip(data.references, by_reference(data), strict=True)):
        if rows:
            blocks.append(_table(data, at, reference, rows))
        if known := [row for row in rows if row.published_without_empty is not None]:
            row = known[-1]  # the deepest cutoff
            counted = "1" if "empty=one" in row.metric else "0"
            said = f"{row.published:.4f} with queries that have no relevant document at {counted} is about"
            share = f"they are {100 * (row.share_empty or 0.0):.1f} % of the test queries here"
            blocks.append(Paragraph(f"{said} {row.published_without_empty:.4f} without them: {share}."))
    return blocks


def _table(data: ReportData, at: int, reference: Reference, rows: Sequence[PublishedFigure]) -> Table:
    def difference(row: PublishedFigure) -> Cell:
        return None if row.difference is None else Estimate(row.difference, row.ci_low, row.ci_high)

    here = "The mean of the stored scores under the publication's conventions."
    ours = "The same scores, the same cutoff, this harness's conventions."
    columns: dict[Column, Callable[[PublishedFigure], Cell]] = {
        Column("Model"): lambda row: data.model_name(row.model),
        Column("Metric", "code"): lambda row: row.metric,
        Column("Published", "metric"): lambda row: row.published,
        Column("Here", "metric", hint=here): lambda row: row.mean,
        Column("Here less published", "difference", hint="With the interval of the mean here."): difference,
        Column("Here, our definition", "metric", hint=ours): lambda row: row.own_mean,
    }
    if any(row.published_without_empty is not None for row in rows):
        label = "Published, about, without queries that have nothing relevant"
        hint = "The published figure over the queries with relevant documents, if their share is as here."
        columns[Column(label, "metric", hint=hint)] = lambda row: row.published_without_empty
    notes: list[Text] = [] if reference.note is None else [reference.note]
    by_words: dict[str, list[str]] = {}
    for metric in dict.fromkeys(name for figures in reference.values.values() for name in figures):
        theirs = reference.measured(metric)
        words = "; ".join(differences_in_words(as_measured_here(theirs), theirs))
        whole = theirs.with_cutoff(None) if theirs.takes_cutoff else theirs
        by_words.setdefault(words, []).append(str(whole))
    for words, names in by_words.items():
        if words:
            notes.append((code(", ".join(dict.fromkeys(names))), f" differs from this definition: {words}."))
    notes += [f"Not computed: {reason}." for reason in dict.fromkeys(row.reason for row in rows) if reason]
    if absent := [model for model in reference.values if model not in data.models]:
        notes.append(f"No finished run here: {', '.join(absent)}.")
    said = f"{reference.source}{f': {reference.data}' if reference.data else ''}."
    return Table.of(f"published_{at + 1}", said, rows, columns, notes=tuple(notes), sortable=False)
