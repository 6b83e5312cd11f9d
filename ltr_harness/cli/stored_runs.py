"""What a stored run still answers: its model on any rows, and any metric on its test rows; nothing is trained again."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ltr_harness.cli import data_source
from ltr_harness.cli.rankings import Scored
from ltr_harness.dataset import RankingDataset
from ltr_harness.errors import MetricError, UsageError
from ltr_harness.groups import Judgments
from ltr_harness.metrics import Metric, parse_metric
from ltr_harness.metrics.core.softmax import ProbabilityMetric
from ltr_harness.rankers.ranker import FittedModel
from ltr_harness.runs import Run, load_run
from ltr_harness.runs.record import MetricSummary, Record


def with_model(path: Path, trust: bool) -> Run:
    """A stored run that did not fail."""
    run = load_run(path, trust=trust)
    if run.record.status != "complete":
        raise UsageError(f"{path}: this run failed ({run.record.error}); there is no model")
    return run


def loaded(
    path: Path, trust: bool, data: Path | None, **reader: Any
) -> tuple[Run, FittedModel, RankingDataset]:
    """The run, its model, and the rows to look at with the model's columns: its test split, or those of a file."""
    run = with_model(path, trust)
    if data is None:
        from ltr_harness.experiment.reproduce import fold_of

        return run, run.model, fold_of(run).test
    return run, run.model, run.with_its_columns(data_source.read_files([data], **reader))


def scored(run: Run) -> Scored:
    """The test rows of a run with the scores it gave them."""
    if run.record.status != "complete":
        raise UsageError(f"{run.path}: the run failed and has no scores: {run.record.error}")
    scores = run.score_columns("score")["score"].astype(np.float64)
    return Scored(run.record.model, run.path, run.judgments, scores)


def grade_scale(record: Record) -> float | None:
    """The highest grade that the run was evaluated on; None where no metric of it asked."""
    for name in record.metrics:
        try:
            scale: float | None = getattr(parse_metric(name), "max_grade", None)
        except MetricError:  # a metric of the user's own, which is known by its name alone
            continue
        if scale is not None:
            return scale
    return None


def on_scale_of(record: Record, metrics: Sequence[Metric | str], judgments: Judgments) -> list[Metric]:
    """The metrics, or the primary one, with a highest grade where they ask for one: the run's, or the largest label."""
    scale = grade_scale(record) or max(float(judgments.pool.labels.max()), 1.0)
    return [parse_metric(metric).on_scale(scale) for metric in metrics or [record.primary]]


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
    """The runs by these metrics, those that are not stored computed from the stored scores; and their names."""
    complete = [run for run in runs if run.record.status == "complete"]
    lacking = [metric for metric in wanted if any(_stored(run, metric) is None for run in complete)]
    if not lacking:
        return runs, []
    # one temperature for all runs: one from validation data beside one of 1 would tell equal models apart
    anew = [one for one in lacking if isinstance(one, ProbabilityMetric) and one.temperature is None]
    added: dict[str, None] = {}
    evaluated: list[Run] = []
    for run in runs:
        if run not in complete:
            evaluated.append(run)
            continue
        frame, record = run.per_query, run.record
        facts = frame[[name for name in frame if name not in record.metrics]]
        names = {metric: None if metric in anew else _stored(run, metric) for metric in wanted}
        stored = [*keep, *(name for name in names.values() if name is not None)]
        values = {name: frame[name].to_numpy() for name in stored}
        summaries = {name: record.metrics[name] for name in stored}
        if computed := [metric for metric, name in names.items() if name is None]:
            ranking = scored(run)
            evaluation = ranking.evaluate(on_scale_of(record, computed, ranking.judgments))
            at = {str(query): i for i, query in enumerate(evaluation.query_ids.tolist())}
            order = [at[str(query)] for query in frame["query_id"].tolist()]
            for name in evaluation.metrics:
                values[name] = evaluation[name].per_query[order]
                summaries[name] = MetricSummary.of(evaluation[name])
                added[name] = None
        # one order of metrics whatever was stored: runs of one model must have the same
        columns = {name: values[name] for name in sorted(values)}
        metrics = {name: summaries[name] for name in sorted(values)}
        of_metrics = record.model_copy(update={"metrics": metrics})
        evaluated.append(_Rescored(run.path, of_metrics, computed=facts.assign(**columns)))
    return evaluated, list(added)


def _stored(run: Run, metric: Metric) -> str | None:
    from ltr_harness.comparison.inputs import name_among

    return name_among(list(run.record.metrics), metric)
