"""Execution of a task: fit, score, evaluate, write the run folder whole."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness.config.experiment import ModelConfig
from ltr_harness.dataset import RankingDataset
from ltr_harness.errors import HarnessError, TrainingError
from ltr_harness.evaluation import Evaluation, evaluate_bound
from ltr_harness.experiment.folds import Fold
from ltr_harness.experiment.job import Job, Task, config_of, ranker_definition, stopping_definition
from ltr_harness.experiment.read import reading_of
from ltr_harness.files import unfinished
from ltr_harness.metrics import bind
from ltr_harness.numbers import none_if_undefined
from ltr_harness.rankers.adapters import TreeModel
from ltr_harness.rankers.ranker import FittedModel, Training, Workers
from ltr_harness.runs.folder import LOG, finish, replace_files
from ltr_harness.runs.identity import environment, installed_requirements
from ltr_harness.runs.latency import of_training
from ltr_harness.runs.record import Latency, MetricSummary, OwnMetric, Record, StoppingFacts
from ltr_harness.runs.run import HISTORY, IMPORTANCE, PER_QUERY, TEST_SCORES, Run, load_run

if TYPE_CHECKING:
    import pyarrow as pa


def history_table(fitted: FittedModel) -> pa.Table:
    """The learning curve."""
    import pyarrow as pa

    points = fitted.history
    return pa.table(
        {
            "round": pa.array([point.round for point in points], pa.int64()),
            "split": pa.array([point.data for point in points], pa.string()),
            "metric": pa.array([point.metric for point in points], pa.string()),
            "value": pa.array([point.value for point in points], pa.float64()),
        }
    )


def scores_table(test: RankingDataset, scores: NDArray[np.float64]) -> pa.Table:
    """Every test row with its label and score.

    Shapes: `scores` (n_rows,).
    """
    import pyarrow as pa

    sizes = test.groups.sizes
    first_row = np.repeat(test.groups.boundaries[:-1], sizes)
    columns = {
        "query_id": pa.array(np.repeat(test.groups.ids, sizes)),
        "row": pa.array(np.arange(test.n_rows) - first_row),
        "label": pa.array(test.labels),
        "score": pa.array(scores),
    }
    if test.judgments.document_ids is not None:
        columns["document_id"] = pa.array(test.judgments.document_ids)
    return pa.table(columns)


def per_query_table(test: RankingDataset, evaluation: Evaluation) -> pa.Table:
    """Every test query with its values, and what reports slice by."""
    import pyarrow as pa

    relevant = np.add.reduceat(test.labels > 0, test.groups.boundaries[:-1], dtype=np.int64)
    columns = {
        "query_id": pa.array(test.groups.ids),
        "rows": pa.array(test.groups.sizes),
        "n_relevant": pa.array(relevant),
    }
    # What reports slice by. A name that is taken gets the data's own mark instead of replacing what stands there.
    attributes = dict(test.query_attributes)
    if test.judgments.query_weights is not None:
        attributes.setdefault("query_weight", test.judgments.query_weights)
    for name, values in attributes.items():
        free = name not in columns and name not in evaluation.metrics
        columns[name if free else f"data.{name}"] = pa.array(values)
    # NaN stays NaN: "undefined" is a value here, not a missing one
    columns |= {name: pa.array(evaluation[name].per_query, from_pandas=False) for name in evaluation.metrics}
    return pa.table(columns)


def importance_table(train: RankingDataset, fitted: TreeModel) -> pa.Table:
    """What each feature was worth to the trees."""
    import pyarrow as pa

    return pa.table(
        {
            "feature": pa.array(list(train.feature_names)),
            "gain": pa.array(fitted.importance("gain")),
            "split": pa.array(fitted.importance("split")),
        }
    )


def write_table(path: Path, table: pa.Table) -> None:
    """Write a table as the folders of runs keep it."""
    import pyarrow.parquet as parquet

    # Scores are all but incompressible, and reading them back plainly is six times as fast.
    packed = [name for name in table.column_names if name != "score"]
    compression = {name: "SNAPPY" if name in packed else "NONE" for name in table.column_names}
    parquet.write_table(table, path, use_dictionary=packed, compression=compression)


OnRound = Callable[[int, Mapping[str, float]], None]


_Trained = tuple[
    FittedModel, NDArray[np.float64], Evaluation, Mapping[str, float]
]  # with its scores, and seconds


def execute(
    task: Task,
    job: Job,
    fold: Fold,
    on_round: OnRound | None = None,
    *,
    workers: Workers | None = None,
    failure: TrainingError | None = None,
) -> Run:
    """Train and evaluate, or evaluate again what is trained; a failure becomes a run that says so.

    Raises:
        TrainingError: `failure`, where there is a trained run that it must not replace.
    """
    if task.state == "score again":
        if failure is not None:
            raise failure
        return _score_again(task, job, fold)
    if failure is None and task.choice is not None and task.choice.error:
        failure = TrainingError(task.choice.error)
    config = config_of(job.experiment, task.model, task.choice)
    record = _planned_facts(task, job, fold, config)
    with unfinished(task.folder.parent) as folder:
        started = time.perf_counter()
        try:
            if failure is not None:
                raise failure
            training = Training(
                train=fold.train,
                valid=fold.valid,
                seed=task.seed,
                threads=job.threads,
                metrics=job.metrics,
                stopping=job.stopping,
                rounds=config.rounds,
                progress=on_round,
                workers=workers,
            )
            trained = _trained(config, training, job, fold)
        except Exception as problem:
            # one model's failure, whatever it is, must not cost the others; the log keeps what a developer needs
            record |= _failed(problem, folder, time.perf_counter() - started)
        else:
            record |= _written(trained, folder, task, job, fold)
        finish(folder, task.folder, Record(**record))
    return load_run(task.folder)


def _planned_facts(task: Task, job: Job, fold: Fold, config: ModelConfig) -> dict[str, Any]:
    """What a record says before anything is trained."""
    return {
        "experiment": job.experiment.name,
        "model": task.model,
        "ranker": config.ranker_name,
        "objective": config.objective,
        "fold": fold.name,
        "seed": task.seed,
        "deterministic": not task.seed_matters,
        "identity": task.identity,
        "config": ranker_definition(config),
        "rounds": config.rounds,
        "point": None if config.point is None else config.point.model_dump(),
        "threads": job.threads,
        "features": list(fold.train.feature_names),
        "categories": {name: list(texts) for name, texts in fold.train.categories.items()},
        "stopping": None,
        "environment": environment(),
        "packages": installed_requirements(("ltr-harness", *config.ranker.packages)),
        **_evaluation_facts(task, job, fold),
    }


def _evaluation_facts(task: Task, job: Job, fold: Fold) -> dict[str, Any]:
    """What a record says that scoring again may change."""
    return {
        "evaluation_identity": task.evaluation_identity,
        "reading": reading_of(job.experiment.data, fold.name),
        "tuning": None if task.choice is None else task.choice.facts,
        "data": dict(fold.facts),
        "findings": list(job.findings.get(fold.name, ())),
        "primary": str(job.primary),
        "own_metrics": _own_metrics(job),
    }


def _trained(config: ModelConfig, training: Training, job: Job, fold: Fold) -> _Trained:
    started = time.perf_counter()
    fitted = config.ranker.fit(training)
    trained = time.perf_counter()
    scores = fitted.score_split(fold.test)
    scored = time.perf_counter()
    evaluation = evaluate_bound(bind(job.metrics, fold.test.judgments), scores)
    seconds = {
        "fit": trained - started,
        "score": scored - trained,
        "evaluate": time.perf_counter() - scored,
    }
    return fitted, scores, evaluation, seconds


def _written(trained: _Trained, folder: Path, task: Task, job: Job, fold: Fold) -> dict[str, Any]:
    """The files of a trained model; what its record says of it."""
    fitted, scores, evaluation, seconds = trained
    fitted.save(folder)
    write_table(folder / HISTORY, history_table(fitted))
    write_table(folder / TEST_SCORES, scores_table(fold.test, scores))
    write_table(folder / PER_QUERY, per_query_table(fold.test, evaluation))
    if isinstance(fitted, TreeModel):
        write_table(folder / IMPORTANCE, importance_table(fold.train, fitted))
    (folder / LOG).write_text(_log(task, job, fitted, evaluation), encoding="utf-8")
    rule = job.stopping if fitted.best_round is not None else None
    return {
        "status": "complete",
        "params": dict(fitted.params),
        "metrics": _summaries(evaluation),
        "stopping": None if rule is None else StoppingFacts(**stopping_definition(rule)),
        "best_round": fitted.best_round,
        "rounds_trained": fitted.rounds_trained,
        "notes": [*fold.test.notes, *fitted.notes],
        "n_leaves": fitted.n_leaves if isinstance(fitted, TreeModel) else None,
        "learned": dict(fitted.learned),
        "seconds": seconds,
        "latency": _latency(fitted, folder, task, job, fold, evaluation, seconds["fit"]),
    }


def _latency(
    fitted: FittedModel,
    folder: Path,
    task: Task,
    job: Job,
    fold: Fold,
    evaluation: Evaluation,
    seconds: float,
) -> list[Latency]:
    """Of the stored model; one seed's stands for all, whose models are about as large."""
    if task.seed != job.experiment.seeds[0] or not isinstance(fitted, TreeModel):
        return []
    mean = evaluation[str(job.primary)].mean
    return of_training(fitted, fitted.load(folder, 1), fold.test, job.primary, mean, seconds)


def _failed(problem: Exception, folder: Path, seconds: float) -> dict[str, Any]:
    """The log of a failure; what the record says of it."""
    ours = isinstance(problem, HarnessError)
    text = str(problem) if ours else f"{type(problem).__name__}: {problem}"
    trace = "" if ours else traceback.format_exc()
    (folder / LOG).write_text(f"failed: {text}\n{trace}", encoding="utf-8")
    return {
        "status": "failed",
        "error": text,
        "params": {},
        "metrics": {},
        "best_round": None,
        "rounds_trained": None,
        "seconds": {"fit": seconds},
    }


def _score_again(task: Task, job: Job, fold: Fold) -> Run:
    """New metrics, or new test data, for a model that is trained already."""
    run = load_run(task.folder)
    started = time.perf_counter()
    config = config_of(job.experiment, task.model, task.choice)
    fitted = run.loaded_by(type(config.ranker))
    scores = fitted.score_split(fold.test)
    scored = time.perf_counter()
    evaluation = evaluate_bound(bind(job.metrics, fold.test.judgments), scores)

    def write(folder: Path) -> None:
        write_table(folder / TEST_SCORES, scores_table(fold.test, scores))
        write_table(folder / PER_QUERY, per_query_table(fold.test, evaluation))

    seconds = {"score": scored - started, "evaluate": time.perf_counter() - scored}
    took = run.record.seconds["fit"]
    record = run.record.model_copy(
        update={
            **_evaluation_facts(task, job, fold),
            "metrics": _summaries(evaluation),
            "seconds": {**run.record.seconds, **seconds},
            "latency": _latency(fitted, task.folder, task, job, fold, evaluation, took),
        }
    )
    replace_files(task.folder, write, record)
    return load_run(task.folder)


def _summaries(evaluation: Evaluation) -> dict[str, MetricSummary]:
    return {
        name: MetricSummary(
            mean=none_if_undefined(evaluation[name].mean),
            n_queries=evaluation[name].n_queries,
            n_undefined=evaluation[name].n_undefined,
            higher_is_better=evaluation[name].metric.higher_is_better,
        )
        for name in evaluation.metrics
    }


def _own_metrics(job: Job) -> dict[str, OwnMetric]:
    used = [*job.metrics, *([job.stopping.metric] if job.stopping else [])]
    return {
        str(metric): OwnMetric(spelling=metric.spelling, sha256=metric.digest)
        for metric in used
        if metric.digest is not None and metric.spelling != str(metric)
    }


def _log(task: Task, job: Job, fitted: FittedModel, evaluation: Evaluation) -> str:
    lines = [str(task), *(f"note: {note}" for note in fitted.notes)]
    lines += [
        f"round {point.round}: {point.data} {point.metric} {point.value!r}"
        for point in fitted.history
        if point.metric == str(job.decisive)
    ]
    if fitted.best_round is not None:
        lines.append(f"best round {fitted.best_round} of {fitted.rounds_trained} trained")
    lines += [f"test {evaluation[name]}" for name in evaluation.metrics]
    return "\n".join(lines) + "\n"
