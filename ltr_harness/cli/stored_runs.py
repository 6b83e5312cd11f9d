"""What a stored run still answers: its model on any rows, and any metric on its test rows; nothing is trained again."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ltr_harness.cli import data_source
from ltr_harness.cli.rankings import Scored
from ltr_harness.dataset import RankingDataset
from ltr_harness.errors import MetricError, UsageError
from ltr_harness.groups import Judgments
from ltr_harness.metrics import Metric, parse_metric
from ltr_harness.rankers.ranker import FittedModel
from ltr_harness.runs import Run, load_run
from ltr_harness.runs.record import Record


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


def on_scale_of(record: Record, metrics: Sequence[Metric | str], judgments: Judgments) -> list[Metric]:
    """The metrics, or the primary one, with a highest grade where they ask for one: the run's, or the largest label."""
    scale = grade_scale(record) or max(float(judgments.pool.labels.max()), 1.0)
    return [parse_metric(metric).with_max_grade(scale) for metric in metrics or [record.primary]]
