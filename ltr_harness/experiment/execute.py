"""One task made real: fit, score, evaluate, write the run folder whole."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness.atomic import unfinished
from ltr_harness.config.experiment import Experiment
from ltr_harness.dataset import RankingDataset
from ltr_harness.errors import HarnessError, TrainingError
from ltr_harness.evaluation import Evaluation, evaluate_bound
from ltr_harness.experiment.facts import ranker_facts, stopping_facts
from ltr_harness.experiment.folds import Fold
from ltr_harness.experiment.reading import reading_of
from ltr_harness.experiment.task import Plan, Task
from ltr_harness.metrics import bind
from ltr_harness.rankers.boosted import TreeModel
from ltr_harness.rankers.ranker import FittedModel, Training, Workers
from ltr_harness.runs.folder import LOG, finish, replace_files
from ltr_harness.runs.identity import environment
from ltr_harness.runs.packages import stood_on
from ltr_harness.runs.record import MetricSummary, OwnMetric, Record, StoppingFacts
from ltr_harness.runs.run import HISTORY, IMPORTANCE, PER_QUERY, TEST_SCORES, Run, load_run

if TYPE_CHECKING:
    import pyarrow as pa

OnRound = Callable[[int, Mapping[str, float]], None]


def execute(
    task: Task,
    experiment: Experiment,
    plan: Plan,
    fold: Fold,
    threads: int,
    on_round: OnRound | None = None,
    *,
    workers: Workers | None = None,
    failure: TrainingError | None = None,
) -> Run:
    """Train and evaluate, or evaluate again what is trained; a failure becomes a run that says so.

    Args:
        task: what.
        experiment, plan: what it is part of.
        fold: the data.
        threads: to train with.
        on_round: told of each evaluated round.
        workers: of a cluster, for models trained across them.
        failure: what became of it already: nothing is trained, and the run says so.

    Raises:
        TrainingError: `failure`, where there is a trained run that it must not replace.
    """
    if task.state == "score again":
        if failure is not None:
            raise failure
        return _score_again(task, experiment, plan, fold)
    config = plan.config(experiment, task.model, task.fold)
    choice = plan.choices.get((task.model, task.fold))
    if choice is not None and choice.error:
        failure = failure or TrainingError(choice.error)
    record: dict[str, Any] = {
        "experiment": experiment.name,
        "model": task.model,
        "ranker": config.ranker_name,
        "objective": getattr(config.ranker, "objective", None),
        "fold": fold.name,
        "seed": task.seed,
        "deterministic": not task.seed_matters,
        "identity": task.identity,
        "evaluation_identity": task.evaluation_identity,
        "config": ranker_facts(config),
        "rounds": config.rounds,
        "point": None if config.point is None else config.point.model_dump(),
        "reading": reading_of(experiment.data, fold.name),
        "tuning": None if choice is None else choice.facts,
        "threads": threads,
        "data": dict(fold.facts),
        "findings": list(plan.findings.get(fold.name, ())),
        "features": list(fold.train.feature_names),
        "categories": {name: list(texts) for name, texts in fold.train.categories.items()},
        "primary": str(plan.primary),
        "own_metrics": _own_metrics(plan),
        "stopping": None,
        "environment": environment(),
        "packages": stood_on(("ltr-harness", *config.ranker.packages)),
    }
    with unfinished(task.folder.parent) as folder:
        started = time.perf_counter()
        try:
            if failure is not None:
                raise failure
            fitted = config.ranker.fit(
                Training(
                    train=fold.train,
                    valid=fold.valid,
                    seed=task.seed,
                    threads=threads,
                    metrics=plan.metrics,
                    stopping=plan.stopping,
                    rounds=config.rounds,
                    progress=on_round,
                    workers=workers,
                )
            )
            trained = time.perf_counter()
            scores = fitted.score_split(fold.test)
            scored = time.perf_counter()
            evaluation = evaluate_bound(bind(plan.metrics, fold.test.judgments), scores)
        except Exception as problem:
            # one model's failure, whatever it is, must not cost the others; the log keeps what a developer needs
            said = (
                str(problem) if isinstance(problem, HarnessError) else f"{type(problem).__name__}: {problem}"
            )
            record |= _nothing_trained(said, time.perf_counter() - started)
            trace = "" if isinstance(problem, HarnessError) else traceback.format_exc()
            (folder / LOG).write_text(f"failed: {said}\n{trace}", encoding="utf-8")
            finish(folder, task.folder, Record(**record))
            return load_run(task.folder)
        fitted.save(folder)
        _write_table(folder / HISTORY, _history_table(fitted))
        _write_table(folder / TEST_SCORES, _scores_table(fold.test, scores))
        _write_table(folder / PER_QUERY, _per_query_table(fold.test, evaluation))
        if isinstance(fitted, TreeModel):
            _write_table(folder / IMPORTANCE, _importance_table(fold.train, fitted))
        rule = plan.stopping if fitted.best_round is not None else None
        record |= {
            "status": "complete",
            "params": dict(fitted.params),
            "metrics": _summaries(evaluation),
            "stopping": None if rule is None else StoppingFacts(**stopping_facts(rule)),
            "best_round": fitted.best_round,
            "rounds_trained": fitted.rounds_trained,
            "notes": [*fold.test.notes, *fitted.notes],
            "n_leaves": fitted.n_leaves if isinstance(fitted, TreeModel) else None,
            "learned": dict(fitted.learned),
            "seconds": {
                "fit": trained - started,
                "score": scored - trained,
                "evaluate": time.perf_counter() - scored,
            },
        }
        (folder / LOG).write_text(_log(task, plan, fitted, evaluation), encoding="utf-8")
        finish(folder, task.folder, Record(**record))
    return load_run(task.folder)


def _score_again(task: Task, experiment: Experiment, plan: Plan, fold: Fold) -> Run:
    """New metrics, or new test data, for a model that is trained already."""
    run = load_run(task.folder)
    started = time.perf_counter()
    config = plan.config(experiment, task.model, task.fold)
    scores = run.loaded_by(type(config.ranker)).score_split(fold.test)
    scored = time.perf_counter()
    evaluation = evaluate_bound(bind(plan.metrics, fold.test.judgments), scores)

    def write(folder: Path) -> None:
        _write_table(folder / TEST_SCORES, _scores_table(fold.test, scores))
        _write_table(folder / PER_QUERY, _per_query_table(fold.test, evaluation))

    seconds = {"score": scored - started, "evaluate": time.perf_counter() - scored}
    choice = plan.choices.get((task.model, task.fold))
    record = run.record.model_copy(
        update={
            "evaluation_identity": task.evaluation_identity,
            "tuning": None if choice is None else choice.facts,
            "data": dict(fold.facts),
            "findings": list(plan.findings.get(fold.name, ())),
            "reading": reading_of(experiment.data, fold.name),
            "metrics": _summaries(evaluation),
            "primary": str(plan.primary),
            "own_metrics": _own_metrics(plan),
            "seconds": {**run.record.seconds, **seconds},
        }
    )
    replace_files(task.folder, write, record)
    return load_run(task.folder)


def _nothing_trained(error: str, seconds: float) -> dict[str, Any]:
    return {
        "status": "failed",
        "error": error,
        "params": {},
        "metrics": {},
        "best_round": None,
        "rounds_trained": None,
        "seconds": {"fit": seconds},
    }


def _summaries(evaluation: Evaluation) -> dict[str, MetricSummary]:
    return {
        name: MetricSummary(
            mean=None if np.isnan(evaluation[name].mean) else evaluation[name].mean,
            n_queries=evaluation[name].n_queries,
            n_undefined=evaluation[name].n_undefined,
            higher_is_better=evaluation[name].metric.higher_is_better,
        )
        for name in evaluation.metrics
    }


def _own_metrics(plan: Plan) -> dict[str, OwnMetric]:
    used = [*plan.metrics, *([plan.stopping.metric] if plan.stopping else [])]
    return {
        str(metric): OwnMetric(spelling=metric.spelling, sha256=metric.digest)
        for metric in used
        if metric.digest is not None and metric.spelling != str(metric)
    }


def _log(task: Task, plan: Plan, fitted: FittedModel, evaluation: Evaluation) -> str:
    lines = [str(task), *(f"note: {note}" for note in fitted.notes)]
    watched = str(plan.stopping.metric if plan.stopping else plan.primary)
    lines += [
        f"round {point.round}: {point.data} {point.metric} {point.value!r}"
        for point in fitted.history
        if point.metric == watched
    ]
    if fitted.best_round is not None:
        lines.append(f"best round {fitted.best_round} of {fitted.rounds_trained} trained")
    lines += [f"test {evaluation[name]}" for name in evaluation.metrics]
    return "\n".join(lines) + "\n"


def _history_table(fitted: FittedModel) -> pa.Table:
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


def _scores_table(test: RankingDataset, scores: NDArray[np.float64]) -> pa.Table:
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


def _per_query_table(test: RankingDataset, evaluation: Evaluation) -> pa.Table:
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


def _importance_table(train: RankingDataset, fitted: TreeModel) -> pa.Table:
    import pyarrow as pa

    return pa.table(
        {
            "feature": pa.array(list(train.feature_names)),
            "gain": pa.array(fitted.importance("gain")),
            "split": pa.array(fitted.importance("split")),
        }
    )


def _write_table(path: Path, table: pa.Table) -> None:
    import pyarrow.parquet as parquet

    # Scores are all but incompressible, and reading them back plainly is six times as fast.
    packed = [name for name in table.column_names if name != "score"]
    compression = {name: "SNAPPY" if name in packed else "NONE" for name in table.column_names}
    parquet.write_table(table, path, use_dictionary=packed, compression=compression)
