"""What a stored run still answers: its model on any rows, and any metric on its test rows; nothing is trained again."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ltr_harness.cli import data_source
from ltr_harness.cli.rankings import Scored
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.judgments import Judgments
from ltr_harness.errors import Caution, MetricError, UsageError
from ltr_harness.experiments.runs import Run, load_run
from ltr_harness.experiments.runs.record import Record
from ltr_harness.metrics import Metric, parse_metric
from ltr_harness.metrics.core.softmax import ProbabilityMetric
from ltr_harness.models.ranker import FittedModel


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
        from ltr_harness.experiments.training.reproduce import fold_of

        return run, run.model, fold_of(run).test
    return run, run.model, run.with_model_columns(data_source.read_files([data], **reader))


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


def on_scale_of(
    record: Record, metrics: Sequence[Metric | str], judgments: Judgments, beside: Sequence[Record] = ()
) -> list[Metric]:
    """The metrics, or the primary one, as the run is measured by them: with its highest grade, and what it learned.

    Without a highest grade of the run's, the largest label takes its place; what runs `beside` it did not learn is left
    out.
    """
    scale = grade_scale(record) or max(float(judgments.pool.labels.max()), 1.0)
    scaled = [parse_metric(metric).with_max_grade(scale) for metric in metrics or [record.primary]]
    return [record.measuring([one])[0] if learned_by_all(beside, one) else one for one in scaled]


def learned_by_all(records: Sequence[Record], metric: Metric) -> bool:
    """Whether all runs learned what the metric takes from a model.

    T from validation data beside one of 1 would tell equal models apart.
    """
    measured = (own for record in records for own in record.measuring([metric]))
    return all(own.is_fitted for own in measured if isinstance(own, ProbabilityMetric) and own.takes_fitted)


def without_valid(metrics: Sequence[Metric], whose: str) -> list[Caution]:
    """The caution on metrics of probabilities whose temperature not all have from validation data."""
    names = [str(one) for one in metrics if isinstance(one, ProbabilityMetric) and one.takes_fitted]
    text = f"temperature 1 for {whose}"
    return [Caution("temperature", "note", text, place=", ".join(names))] if names else []


def learned_notes(metrics: Sequence[Metric]) -> list[Caution]:
    """What a run learned for the metrics that it is measured by."""
    return [
        Caution("temperature", "note", f"T = {one.t:.6g}, from validation data", place=str(one))
        for one in metrics
        if isinstance(one, ProbabilityMetric) and one.is_fitted
    ]
