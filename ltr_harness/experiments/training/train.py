"""Training of a task, whose run folder is written whole."""

import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness._util.escapes import without_secrets
from ltr_harness._util.files import unfinished
from ltr_harness.boosting.watching import Measured
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.features import column_ranges
from ltr_harness.errors import Caution, HarnessError, TrainingError
from ltr_harness.experiments.inspection.lints import cautions_beside_lints
from ltr_harness.experiments.runs.folder import LOG, finish, replace_files
from ltr_harness.experiments.runs.identity import environment, installed_requirements
from ltr_harness.experiments.runs.record import (
    Latency,
    MetricSummary,
    OwnMetric,
    PartRecord,
    Record,
    StoppingFacts,
)
from ltr_harness.experiments.runs.run import (
    HISTORY,
    IMPORTANCE,
    MISSED,
    PER_QUERY,
    RANGES,
    TEST_SCORES,
    Run,
    load_run,
)
from ltr_harness.experiments.runs.serving_cost import training_latencies
from ltr_harness.experiments.training.folds import Fold, reading_of
from ltr_harness.experiments.training.job import Job, Task, revised_definition
from ltr_harness.metrics import Metric, bind
from ltr_harness.metrics.core import judged_share
from ltr_harness.metrics.core.judge_ceiling import judge_values
from ltr_harness.metrics.core.softmax import TEMPERATURE, ProbabilityMetric, with_learned
from ltr_harness.metrics.evaluation import Evaluation, evaluate_bound
from ltr_harness.models.ranker import BlendPart, FittedModel, Training, Workers
from ltr_harness.models.tree_model import TreeModel

if TYPE_CHECKING:
    from ltr_harness.experiments.training.progress import Progress


def per_query_columns(
    test: RankingDataset, evaluation: Evaluation, primary: str | None = None
) -> dict[str, Any]:
    """Return a table of the test queries: their values, what reports slice by, and what order can do to one metric."""
    decisive = evaluation[primary or evaluation.metrics[0]]
    name = str(decisive.metric)
    columns: dict[str, Any] = {"query_id": test.groups.ids, "rows": test.groups.sizes}
    if test.judgments.lowest == 0:
        columns["n_relevant"] = test.judgments.n_relevant
    # What reports slice by. A name that is taken gets the data's own mark instead of replacing what stands there.
    attributes = dict(test.query_attributes)
    if test.judgments.query_weights is not None:
        attributes.setdefault("query_weight", test.judgments.query_weights)
    for attribute, values in attributes.items():
        is_taken = attribute in columns or attribute in evaluation.metrics
        column = f"data.{attribute}" if is_taken else attribute
        columns[column] = values
    headroom = evaluation.headroom(primary)
    if headroom is not None:
        columns |= headroom.columns(name)
    if name in evaluation.judged_shares:
        columns |= judged_share.columns(name, evaluation.judged_shares[name])
    # NaN stays NaN, as in every array: "undefined" is a value here, not a missing one
    return columns | {metric: evaluation[metric].per_query for metric in evaluation.metrics}


def write_table(path: Path, columns: Mapping[str, Any]) -> None:
    """Write a table as the folders of runs keep it."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    # Scores are all but incompressible, and reading them back plainly is six times as fast.
    packed = [name for name in columns if name != "score"]
    compression = dict.fromkeys(columns, "NONE") | dict.fromkeys(packed, "SNAPPY")
    parquet.write_table(pa.table(columns), path, use_dictionary=packed, compression=compression)


OnRound = Callable[[int, Mapping[str, float]], None]


@dataclass(frozen=True, eq=False)
class _Evaluated:
    """The test rows' scores (n_rows,), their evaluation, and the seconds that both took."""

    scores: NDArray[np.float64]
    evaluation: Evaluation
    seconds: Mapping[str, float]

    def write(self, folder: Path, test: RankingDataset, primary: str) -> None:
        """Write test rows with label and score, missed documents, and test queries with their values."""
        sizes, ids = test.groups.sizes, test.judgments.document_ids
        rows = {
            "query_id": np.repeat(test.groups.ids, sizes),
            "row": np.arange(test.n_rows) - np.repeat(test.groups.boundaries[:-1], sizes),
            "label": test.labels,
            "score": self.scores,
        }
        if ids is not None:
            rows["document_id"] = ids
        write_table(folder / TEST_SCORES, rows)
        write_table(
            folder / PER_QUERY,
            per_query_columns(test, self.evaluation, primary) | self._by_judges(test, primary),
        )
        missed = test.judgments.missed
        if missed is None:
            return
        documents: dict[str, Any] = {"query_id": test.groups.ids[missed.queries], "label": missed.labels}
        if missed.document_ids is not None:
            documents["document_id"] = missed.document_ids
        write_table(folder / MISSED, documents)

    def _by_judges(self, test: RankingDataset, primary: str) -> dict[str, Any]:
        """Return the columns of the primary metric by single judges, where documents have several judgments."""
        if test.raw_judgments is None:
            return {}
        metric = self.evaluation[primary].metric
        found = judge_values(metric, test.judgments, test.raw_judgments, self.scores)
        return {} if found is None else found.columns(str(metric))


@dataclass(frozen=True, eq=False)
class _Trained:
    """A task's model."""

    task: Task
    job: Job
    fold: Fold
    fitted: FittedModel
    learned: Mapping[str, Any]  # by the model, with the temperatures of metrics
    evaluated: _Evaluated | None  # None where no rows are left to test on
    seconds: Mapping[str, float]  # without those of the evaluation

    def write_evaluation(self, folder: Path) -> None:
        if self.evaluated is not None:
            self.evaluated.write(folder, self.fold.test, str(self.job.primary))

    def write(self, folder: Path) -> None:
        """Write the model, its learning curves, importances and log, and the evaluation."""
        self.write_evaluation(folder)
        self.fitted.save(folder)
        write_table(folder / HISTORY, _history_columns(self.fitted.history))
        if isinstance(self.fitted, TreeModel):
            columns = {kind: self.fitted.importance(kind) for kind in ("gain", "split")}
            write_table(folder / IMPORTANCE, {"feature": list(self.fold.train.feature_names), **columns})
        write_table(folder / RANGES, _range_columns(self.fold.train))
        (folder / LOG).write_text(without_secrets("\n".join(self._log())) + "\n", encoding="utf-8")

    def _log(self) -> Iterator[str]:
        yield str(self.task)
        yield from (f"{caution.severity}: {caution}" for caution in self.fitted.cautions)
        for point in self.fitted.history:
            if point.metric == str(self.job.decision_metric):
                yield f"round {point.round}: {point.data} {point.metric} {point.value!r}"
        if self.fitted.best_round is not None:
            yield f"best round {self.fitted.best_round} of {self.fitted.rounds_trained} trained"
        if self.evaluated is not None:
            evaluation = self.evaluated.evaluation
            yield from (f"test {evaluation[name]}" for name in evaluation.metrics)

    def facts(self, folder: Path) -> dict[str, Any]:
        """Return what the record says of the model, which is stored in the folder, and of its evaluation."""
        fitted, job, fold = self.fitted, self.job, self.fold
        uses_validation = fitted.best_round is not None or job.config_of(self.task).ranker.needs_valid
        cautions = [
            *job.cautions.get(fold.name, ()),
            *cautions_beside_lints(fold.splits.get("test", fold.train).cautions),
            *fitted.cautions,
        ]
        stopping = None
        if uses_validation and job.stopping is not None:
            stopping = StoppingFacts.of(job.stopping)
        n_leaves = fitted.n_leaves if isinstance(fitted, TreeModel) else None
        return {
            "status": "complete",
            "params": dict(fitted.params),
            "stopping": stopping,
            "best_round": fitted.best_round,
            "rounds_trained": fitted.rounds_trained,
            "cautions": cautions,
            "n_leaves": n_leaves,
            **self.results(folder),
        }

    def results(self, folder: Path) -> dict[str, Any]:
        """Return what the record says of the evaluation, and of the time that everything took."""
        if self.evaluated is None:
            return {"metrics": {}, "learned": self.learned, "seconds": self.seconds, "latency": []}
        evaluation = self.evaluated.evaluation
        return {
            "metrics": {name: MetricSummary.of(evaluation[name]) for name in evaluation.metrics},
            "learned": self.learned,
            "seconds": {**self.seconds, **self.evaluated.seconds},
            "latency": self._latency(folder, evaluation),
        }

    def _latency(self, folder: Path, evaluation: Evaluation) -> list[Latency]:
        """Time a stored model of trees; of several seeds, whose models are about as large, one."""
        if self.task.seed != self.job.experiment.seeds[0] or not isinstance(self.fitted, TreeModel):
            return []
        value, stored = evaluation[str(self.job.primary)], self.fitted.load(folder, 1)
        return training_latencies(
            self.fitted, stored, self.fold.test, value.metric, value.mean, self.seconds["fit"]
        )


def execute(
    task: Task,
    job: Job,
    fold: Fold,
    on_round: OnRound | None = None,
    *,
    workers: Workers | None = None,
    failure: TrainingError | None = None,
) -> Run:
    """Train and evaluate, or evaluate again what is trained; a failure becomes a run, or is raised beside one."""
    if task.state == "score again":
        if failure is not None:
            raise failure
        return _score_again(task, job, fold)
    if failure is None and isinstance(task.choice, str):
        failure = TrainingError(task.choice)
    record = _planned_facts(task, job, fold)
    with unfinished(task.folder.parent) as folder:
        started = time.perf_counter()
        try:
            if failure is not None:
                raise failure
            parts = {name: load_run(path) for name, path in task.parts.items()}
            facts = set(PartRecord.model_fields)
            record["parts"] = {name: run.record.model_dump(include=facts) for name, run in parts.items()}
            trained = _train(task, job, fold, parts, on_round, workers)
        except Exception as problem:
            # one model's failure, whatever it is, must not cost the others; the log keeps what a developer needs
            record |= _failed_facts(problem, time.perf_counter() - started)
            trace = "" if isinstance(problem, HarnessError) else without_secrets(traceback.format_exc())
            (folder / LOG).write_text(f"failed: {record['error']}\n{trace}", encoding="utf-8")
        else:
            trained.write(folder)
            record |= trained.facts(folder)
        finish(folder, task.folder, Record(**record))
    return load_run(task.folder)


def _train(
    task: Task,
    job: Job,
    fold: Fold,
    parts: Mapping[str, Run],
    on_round: OnRound | None,
    workers: Workers | None,
) -> _Trained:
    config = job.config_of(task)
    started = time.perf_counter()
    training = Training(
        train=fold.train,
        valid=fold.valid,
        seed=task.seed,
        threads=job.threads,
        metrics=job.metrics,
        stopping=job.stopping_of(config),
        rounds=config.rounds,
        progress=on_round,
        workers=workers,
        decision_metric=job.decision_metric,
        parts={name: _part(name, run, job) for name, run in parts.items()},
    )
    fitted = config.ranker.fit_to(training)
    _refuse_other_cautions(fitted)
    seconds = {"fit": time.perf_counter() - started}
    learned = with_temperatures(fitted.learned, fitted, job.metrics, fold.valid, config.temperatures)
    return _Trained(task, job, fold, fitted, learned, _evaluate(fitted, learned, job, fold), seconds)


def _failed_facts(problem: Exception, seconds: float) -> dict[str, Any]:
    return {
        "status": "failed",
        "error": message_of(problem),
        "seconds": {"fit": seconds},
        "params": {},
        "metrics": {},
        "best_round": None,
        "rounds_trained": None,
    }


def _refuse_other_cautions(fitted: FittedModel) -> None:
    """Raise a TrainingError where a ranker of the user's own gives texts, or anything else, for cautions."""
    cautions: Sequence[object] = fitted.cautions
    for caution in cautions:
        if not isinstance(caution, Caution):
            found = f"cautions of the model hold {type(caution).__name__} {caution!r:.40}"
            expected = 'ltr_harness.errors.Caution, such as Caution("few-rows", "warning", "12 rows")'
            raise TrainingError.at(type(fitted).__name__, found, expected)


def _part(name: str, run: Run, job: Job) -> BlendPart:
    """Return the model of a run, for a model that is made of it; a TrainingError where it failed."""
    if run.record.status == "failed":
        raise TrainingError(f"part {name!r} failed: {run.record.error}")
    config = job.experiment.models[name]
    return BlendPart(
        config.ranker_name, run.load_model_as(type(config.ranker)), run.path / run.model_files[0]
    )


def run_here(tasks: Sequence[Task], job: Job, progress: "Progress") -> Iterator[tuple[Task, Run]]:
    """One after the other, in this process."""
    for task in tasks:
        progress.started(task)
        yield task, execute(task, job, job.fold_of(task.model, task.fold), partial(progress.round, task))


def _planned_facts(task: Task, job: Job, fold: Fold) -> dict[str, Any]:
    """Return what a record says before anything is trained."""
    config = job.config_of(task)
    rankers = [config.ranker, *(job.experiment.models[name].ranker for name in task.parts)]
    packages = [package for ranker in rankers for package in ranker.packages]
    point = None if config.point is None else config.point.model_dump()
    return {
        "experiment": job.experiment.name,
        "model": task.model,
        "ranker": config.ranker_name,
        "objective": config.objective,
        "fold": fold.name,
        "seed": task.seed,
        "deterministic": not task.seed_matters,
        "identity": task.identity,
        "config": revised_definition(job, config),
        "rounds": config.rounds,
        "point": point,
        "training_queries": config.training_queries,
        "threads": job.threads,
        "features": list(fold.train.feature_names),
        "categories": {name: list(texts) for name, texts in fold.train.categories.items()},
        "stopping": None,
        "cautions": list(job.cautions.get(fold.name, ())),
        "environment": environment(),
        "packages": installed_requirements(("ltr-harness", *packages)),
        **_evaluation_facts(task, job, fold),
    }


def _evaluation_facts(task: Task, job: Job, fold: Fold) -> dict[str, Any]:
    """Return what a record says that scoring again may change."""
    metrics = list(job.metrics)
    if job.stopping is not None:
        metrics.append(job.stopping.metric)
    tuning = None if isinstance(task.choice, str) else task.choice
    return {
        "evaluation_identity": task.evaluation_identity,
        "reading": reading_of(job.experiment.data, fold.name),
        "tuning": tuning,
        "data": dict(fold.facts),
        "primary": str(job.primary),
        "own_metrics": {
            str(metric): OwnMetric(spelling=metric.spelling, sha256=metric.digest)
            for metric in metrics
            if metric.digest is not None and metric.spelling != str(metric)
        },
    }


def _evaluate(fitted: FittedModel, learned: Mapping[str, Any], job: Job, fold: Fold) -> _Evaluated | None:
    """Evaluate a model on the test queries of a fold, if it has any."""
    if "test" not in fold.splits:
        return None
    started = time.perf_counter()
    scores = fitted.score_split(fold.test)
    scored = time.perf_counter()
    metrics = with_learned(job.metrics, learned)
    evaluation = evaluate_bound(bind(metrics, fold.test.judgments), scores)
    seconds = {"score": scored - started, "evaluate": time.perf_counter() - scored}
    return _Evaluated(scores, evaluation, seconds)


def with_temperatures(
    learned: Mapping[str, Any],
    fitted: FittedModel,
    metrics: Sequence[Metric],
    valid: RankingDataset | None,
    given: Mapping[str, float] = {},
) -> dict[str, Any]:
    """Return a model's learned values with T for each metric of probabilities: its own, or the best on valid data.

    Without validation data, those `given` take the place of fitted ones.
    """
    temperatures = dict(learned.get(TEMPERATURE, {}))
    if valid is None:
        temperatures |= given
    probability_metrics = [metric for metric in metrics if isinstance(metric, ProbabilityMetric)]
    fitted_metrics = [metric for metric in probability_metrics if metric.takes_fitted]
    missing = [metric for metric in fitted_metrics if str(metric) not in temperatures]
    if missing and valid is not None:
        scores = fitted.score_split(valid)
        temperatures |= {str(metric): metric.best_temperature(valid.judgments, scores) for metric in missing}
    if not temperatures:
        return dict(learned)
    return {**learned, TEMPERATURE: temperatures}


def _history_columns(history: Sequence[Measured]) -> dict[str, NDArray[Any]]:
    """Return the table of the learning curves."""
    return {
        "round": np.array([point.round for point in history], np.int64),
        "split": np.array([point.data for point in history], np.str_),
        "metric": np.array([point.metric for point in history], np.str_),
        "value": np.array([point.value for point in history], np.float64),
    }


def _range_columns(train: RankingDataset) -> dict[str, Any]:
    """Return the lowest and highest value of each feature that is a number."""
    numeric = [column for column, name in enumerate(train.feature_names) if name not in train.categories]
    low, high = column_ranges(train.features)
    return {
        "feature": [train.feature_names[column] for column in numeric],
        "low": low[numeric].astype(np.float64),
        "high": high[numeric].astype(np.float64),
    }


def _score_again(task: Task, job: Job, fold: Fold) -> Run:
    """Compute new metrics, or those of new test data, for a model that is trained already."""
    run, config = load_run(task.folder), job.config_of(task)
    fitted = run.load_model_as(type(config.ranker))
    learned = with_temperatures(run.record.learned, fitted, job.metrics, fold.valid, config.temperatures)
    evaluated = _evaluate(fitted, learned, job, fold)
    trained = _Trained(task, job, fold, fitted, learned, evaluated, run.record.seconds)
    if evaluated is None:
        facts: dict[str, Any] = {"evaluation_identity": task.evaluation_identity, "learned": learned}
    else:
        facts = {
            **_evaluation_facts(task, job, fold),
            **trained.results(task.folder),
            "cautions": [*job.cautions.get(fold.name, ()), *run.record.training_cautions],
            "files": {name: digest for name, digest in run.record.files.items() if name != MISSED},
        }
    replace_files(task.folder, trained.write_evaluation, run.record.model_copy(update=facts))
    return load_run(task.folder)


def message_of(problem: Exception) -> str:
    """Return a failure's text in records: only errors of others need their kind."""
    text = str(problem) if isinstance(problem, HarnessError) else f"{type(problem).__name__}: {problem}"
    return without_secrets(text)
