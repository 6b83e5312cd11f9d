"""Published figures, and what the same metric says of the models here, by their source's definition and by ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ltr_harness.comparison.result import Entrant, Summary
from ltr_harness.comparison.summaries import summarise
from ltr_harness.config.references import Reference
from ltr_harness.errors import MetricError
from ltr_harness.explanation import as_measured_here, differing
from ltr_harness.metrics import Metric
from ltr_harness.report.numbers.test_rows import TestRows
from ltr_harness.stats.method import Method
from ltr_harness.stats.two_samples import Codes

_HARDLY_MATTERS = {"empty", "ties", "score_precision"}


class Published(NamedTuple):
    """One printed figure beside what is measured here; what cannot be said is None.

    The interval is that of `mean`, moved by `published`: of other queries, for these models.
    """

    reference: int  # place among the experiment's references
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
    """What the figure would be without queries that have no relevant document, where that is all that differs."""
    reason: str  # why there is no mean


def beside_published(
    references: Sequence[Reference],
    models: Sequence[str],
    rows: TestRows | None,
    method: Method,
    units: Codes | None,
) -> tuple[Published, ...]:
    """Every printed figure of a model that finished, in the order of the file.

    Shapes: `units` (n_queries,).
    """
    figures = [
        (at, model, reference.measured(metric), printed)
        for at, reference in enumerate(references)
        for model, by_metric in reference.values.items()
        if model in models
        for metric, printed in by_metric.items()
    ]
    if rows is None:
        why = "the models' scores of the test rows are not at hand"
        return tuple(_row(figure, {}, {figure[2]: why}) for figure in figures)
    asked = list(
        dict.fromkeys(one for _, _, metric, _ in figures for one in (metric, as_measured_here(metric)))
    )
    refused = rows.refusals(asked)
    possible = [metric for metric in asked if metric not in refused]
    if possible:
        try:
            summaries = _summaries(models, possible, rows, method, units)
        except MetricError:  # scores that tie where a convention makes something random of it
            refused |= rows.refused_scores(models, possible)
            possible = [metric for metric in possible if metric not in refused]
            summaries = _summaries(models, possible, rows, method, units)
    else:
        summaries = {}
    return tuple(_row(figure, summaries, refused) for figure in figures)


_Summaries = Mapping[tuple[str, Metric], Summary]


def _summaries(
    models: Sequence[str], metrics: Sequence[Metric], rows: TestRows, method: Method, units: Codes | None
) -> _Summaries:
    names = [str(metric) for metric in metrics]
    ids = np.array(list(rows.positions))[rows.order]
    entrants = [
        Entrant(
            name=model,
            query_ids=ids,
            values={
                name: values[None] for name, values in zip(names, rows.per_query(model, metrics), strict=True)
            },
            replicates=("",),
            higher_is_better={
                name: metric.higher_is_better for name, metric in zip(names, metrics, strict=True)
            },
        )
        for model in models
    ]
    by_name = dict(zip(names, metrics, strict=True))
    return {(one.model, by_name[one.metric]): one for one in summarise(entrants, names, method, units)}


def _row(
    figure: tuple[int, str, Metric, float], summaries: _Summaries, refused: Mapping[Metric, str]
) -> Published:
    at, model, metric, printed = figure
    own = as_measured_here(metric)
    theirs, ours = summaries.get((model, metric)), summaries.get((model, own))
    share = None if ours is None else ours.n_undefined / (ours.n + ours.n_undefined)
    if theirs is not None and theirs.n == 0:
        theirs, reason = None, "no test query has a value"
    else:
        reason = refused.get(metric, "")
    return Published(
        reference=at,
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
    """The mean over the others, of a mean that counts queries without relevant documents as 0 or 1.

    Example:
        >>> from ltr_harness.metrics import NDCG
        >>> round(_without_empty(0.5274, NDCG(k=10, empty="one", ties="stable"), NDCG(k=10), 0.03), 4)
        0.5128
    """
    differs = differing(own, metric)
    if not share or share == 1 or "empty" not in differs or not differs.keys() <= _HARDLY_MATTERS:
        return None
    return (printed - share * (metric.empty == "one")) / (1 - share)
