"""Models and scores of stored runs, applied to other rows and metrics; nothing is trained again."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ltr_harness.cli import data_source
from ltr_harness.cli.rankings import ScoredRanking
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.judgments import Judgments
from ltr_harness.errors import Caution, MetricError, UsageError
from ltr_harness.experiments.runs import Run, load_run
from ltr_harness.experiments.runs.record import Record
from ltr_harness.metrics import Metric, parse_metric
from ltr_harness.metrics.core.softmax import ProbabilityMetric
from ltr_harness.models.ranker import FittedModel


def with_model(path: Path, trust: bool) -> Run:
    """Return a stored run that has a model. Raises UsageError if it failed."""
    run = load_run(path, trust=trust)
    if run.record.status != "complete":
        raise UsageError(f"{path}: this run failed ({run.record.error}); there is no model")
    return run


def loaded(
    path: Path, trust: bool, data: Path | None, **reader: Any
) -> tuple[Run, FittedModel, RankingDataset]:
    """Return the run, its model, and rows with the model's columns: its test split, or those of a file."""
    run = with_model(path, trust)
    if data is None:
        from ltr_harness.experiments.training.reproduce import fold_of

        return run, run.model, fold_of(run).test
    return run, run.model, run.with_model_columns(data_source.read_files([data], **reader))


def scored(run: Run) -> ScoredRanking:
    """Return the ranking of a run's test rows by its stored scores."""
    if run.record.status != "complete":
        raise UsageError(f"{run.path}: the run failed and has no scores: {run.record.error}")
    scores = run.score_columns("score")["score"].astype(np.float64)
    return ScoredRanking(run.record.model, run.path, run.judgments, scores)


def grade_scale(record: Record) -> float | None:
    """Return the highest grade that the run was evaluated on; None where none of its metrics has one."""
    for name in record.metrics:
        try:
            scale: float | None = getattr(parse_metric(name), "max_grade", None)
        except MetricError:  # a metric of the user's own, of which the record has the name alone
            continue
        if scale is not None:
            return scale
    return None


def on_scale_of(
    record: Record, metrics: Sequence[Metric | str], judgments: Judgments, compared: Sequence[Record] = ()
) -> list[Metric]:
    """Return the metrics, or the primary one, as the run is measured by them: with its highest grade and temperature.

    Without a highest grade of the run's, the largest label takes its place. A temperature is left out unless all runs
    that it is `compared` with have one.
    """
    scale = grade_scale(record) or max(float(judgments.pool.labels.max()), 1.0)
    scaled = [parse_metric(metric).with_max_grade(scale) for metric in metrics or [record.primary]]
    for i, metric in enumerate(scaled):
        if all_have_temperature(compared, metric):
            scaled[i] = record.measuring([metric])[0]
    return scaled


def all_have_temperature(records: Sequence[Record], metric: Metric) -> bool:
    """Return True unless the metric takes a temperature from validation data that a run does not have.

    T from validation data beside one of 1 would tell equal models apart.
    """
    for record in records:
        for fitted in record.measuring([metric]):
            if isinstance(fitted, ProbabilityMetric) and fitted.takes_fitted and not fitted.is_fitted:
                return False
    return True


def default_temperature_notes(metrics: Sequence[Metric], runs: str) -> list[Caution]:
    """Return the caution on metrics of probabilities whose temperature not all have from validation data."""
    names = [
        str(metric) for metric in metrics if isinstance(metric, ProbabilityMetric) and metric.takes_fitted
    ]
    if not names:
        return []
    return [Caution("temperature", "note", f"temperature 1 for {runs}", place=", ".join(names))]


def temperature_notes(metrics: Sequence[Metric]) -> list[Caution]:
    """Return a note for each metric with a temperature that a run has from validation data."""
    return [
        Caution("temperature", "note", f"T = {metric.t:.6g}, from validation data", place=str(metric))
        for metric in metrics
        if isinstance(metric, ProbabilityMetric) and metric.is_fitted
    ]
