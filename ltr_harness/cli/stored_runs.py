"""What a stored run's scores still answer: any metric on its test rows, without training anything again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ltr_harness.cli.rankings import Scored
from ltr_harness.errors import UsageError
from ltr_harness.numbers import none_if_undefined
from ltr_harness.runs import Run

if TYPE_CHECKING:
    import pandas as pd

    from ltr_harness.groups import Judgments
    from ltr_harness.metrics import Metric
    from ltr_harness.runs.record import Record


def scored(run: Run) -> Scored:
    """The test rows of a run with the scores it gave them.

    Raises:
        UsageError: the run failed and has none.
    """
    from ltr_harness.groups import Judgments, QueryGroups

    if run.record.status != "complete":
        raise UsageError(f"{run.path}: the run failed and has no scores: {run.record.error}")
    table = run.test_scores
    groups, order = QueryGroups.from_ids(table["query_id"].to_numpy())
    rows = np.arange(len(table)) if order is None else order
    ids = table["document_id"].to_numpy()[rows] if "document_id" in table else None
    judgments = Judgments.checked(table["label"].to_numpy()[rows], groups, document_ids=ids)
    return Scored(run.record.model, run.path, judgments, table["score"].to_numpy(np.float64)[rows])


def grade_scale(record: Record) -> float | None:
    """The highest grade that the run was evaluated on; None where no metric of it asked."""
    from ltr_harness.errors import MetricError
    from ltr_harness.metrics import parse_metric

    for name in record.metrics:
        try:
            scale: float | None = getattr(parse_metric(name), "max_grade", None)
        except MetricError:  # a metric of the user's own, which is known by its name alone
            continue
        if scale is not None:
            return scale
    return None


def on_scale_of(record: Record, metrics: Sequence[Metric], judgments: Judgments) -> list[Metric]:
    """The metrics with a highest grade where they ask for one: the run's, or the largest label."""
    from ltr_harness.metrics import parse_metric

    scale = grade_scale(record) or max(float(judgments.labels.max()), 1.0)
    return [metric.on_scale(scale) for metric in metrics or [parse_metric(record.primary)]]


@dataclass(frozen=True, eq=False, kw_only=True)
class _Rescored(Run):
    """A run by other metrics than it was evaluated by; to a comparison, a run like any other."""

    computed: pd.DataFrame

    @property
    def per_query(self) -> pd.DataFrame:
        return self.computed


def evaluated_by(
    runs: Sequence[Run], wanted: Sequence[Metric], keep: Sequence[str] = ()
) -> tuple[Sequence[Run], list[str]]:
    """The runs by these metrics, those that are not stored computed from the stored scores; and their names.

    Raises:
        MetricError: the labels are outside a metric's domain, or it needs what is not stored.
    """
    complete = [run for run in runs if run.record.status == "complete"]
    if all(_stored(run.record, metric) for run in complete for metric in wanted):
        return runs, []
    added: dict[str, None] = {}
    evaluated = [_rescored(run, wanted, keep, added) if run in complete else run for run in runs]
    return evaluated, list(added)


def _rescored(run: Run, wanted: Sequence[Metric], keep: Sequence[str], added: dict[str, None]) -> Run:
    from ltr_harness.runs.record import MetricSummary

    frame, record = run.per_query, run.record
    facts = frame[[name for name in frame if name not in record.metrics]]
    stored = [*keep, *(name for metric in wanted if (name := _stored(record, metric)) is not None)]
    values = {name: frame[name].to_numpy() for name in stored}
    summaries = {name: record.metrics[name] for name in stored}
    lacking = [metric for metric in wanted if _stored(record, metric) is None]
    if lacking:
        ranking = scored(run)
        evaluation = ranking.evaluate(on_scale_of(record, lacking, ranking.judgments))
        at = {str(query): i for i, query in enumerate(evaluation.query_ids.tolist())}
        order = [at[str(query)] for query in frame["query_id"].tolist()]
        for name in evaluation.metrics:
            one = evaluation[name]
            values[name] = one.per_query[order]
            summaries[name] = MetricSummary(
                mean=none_if_undefined(one.mean),
                n_queries=one.n_queries,
                n_undefined=one.n_undefined,
                higher_is_better=one.metric.higher_is_better,
            )
            added[name] = None
    # one order of metrics whatever was stored: runs of one model must have the same
    names = sorted(values)
    columns = {name: values[name] for name in names}
    metrics = {name: summaries[name] for name in names}
    return _Rescored(
        run.path, record.model_copy(update={"metrics": metrics}), computed=facts.assign(**columns)
    )


def _stored(record: Record, metric: Metric) -> str | None:
    from ltr_harness.comparison.inputs import name_among

    return name_among(list(record.metrics), metric)
