"""Training of a task, whose run folder is written whole."""

import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness._util.files import unfinished
from ltr_harness._util.text import without_secrets
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.errors import Caution, HarnessError, TrainingError
from ltr_harness.experiments.config.schema import ModelConfig
from ltr_harness.experiments.inspection.lints import beside_lints
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
from ltr_harness.experiments.runs.serving_cost import of_training
from ltr_harness.experiments.training.folds import Fold, reading_of
from ltr_harness.experiments.training.job import Job, Task, revised_definition
from ltr_harness.metrics import Metric, bind
from ltr_harness.metrics.core import judged_share
from ltr_harness.metrics.core.softmax import TEMPERATURE, ProbabilityMetric, with_learned
from ltr_harness.metrics.evaluation import Evaluation, evaluate_bound
from ltr_harness.models.ranker import FittedModel, Part, Training, Workers
from ltr_harness.models.tree_model import TreeModel

if TYPE_CHECKING:
    from ltr_harness.experiments.training.progress import Progress


def per_query_columns(
    test: RankingDataset, evaluation: Evaluation, primary: str | None = None
) -> dict[str, Any]:
    """Every test query with its values, what reports slice by, and what order can do to one metric."""
    columns = {
        "query_id": test.groups.ids,
        "rows": test.groups.sizes,
        **({"n_relevant": test.judgments.n_relevant} if test.judgments.lowest == 0 else {}),
    }
    # What reports slice by. A name that is taken gets the data's own mark instead of replacing what stands there.
    attributes = dict(test.query_attributes)
    if test.judgments.query_weights is not None:
        attributes.setdefault("query_weight", test.judgments.query_weights)
    for name, values in attributes.items():
        free = name not in columns and name not in evaluation.metrics
        columns[name if free else f"data.{name}"] = values
    headroom = evaluation.headroom(primary)
    if headroom is not None:
        columns |= headroom.columns(str(evaluation[primary or evaluation.metrics[0]].metric))
    name = str(evaluation[primary or evaluation.metrics[0]].metric)
    if name in evaluation.judged_shares:
        columns |= judged_share.columns(name, evaluation.judged_shares[name])
    # NaN stays NaN, as in every array: "undefined" is a value here, not a missing one
    return columns | {name: evaluation[name].per_query for name in evaluation.metrics}


def _write_evaluation(
    folder: Path, test: RankingDataset, scores: NDArray[np.float64], evaluation: Evaluation, primary: str
) -> None:
    """Test rows with label and score (n_rows,), missed documents, test queries with their values."""
    sizes, ids = test.groups.sizes, test.judgments.document_ids
    columns = {
        "query_id": np.repeat(test.groups.ids, sizes),
        "row": np.arange(test.n_rows) - np.repeat(test.groups.boundaries[:-1], sizes),
        "label": test.labels,
        "score": scores,
    }
    write_table(folder / TEST_SCORES, columns if ids is None else {**columns, "document_id": ids})
    write_table(folder / PER_QUERY, per_query_columns(test, evaluation, primary))
    if (missed := test.judgments.missed) is not None:
        columns = {"query_id": test.groups.ids[missed.queries], "label": missed.labels}
        ids = missed.document_ids
        write_table(folder / MISSED, columns if ids is None else {**columns, "document_id": ids})


def write_table(path: Path, columns: Mapping[str, Any]) -> None:
    """Write a table as the folders of runs keep it."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    # Scores are all but incompressible, and reading them back plainly is six times as fast.
    packed = [name for name in columns if name != "score"]
    compression = {name: "SNAPPY" if name in packed else "NONE" for name in columns}
    parquet.write_table(pa.table(columns), path, use_dictionary=packed, compression=compression)


OnRound = Callable[[int, Mapping[str, float]], None]


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
    config = job.config_of(task)
    record = _planned_facts(task, job, fold, config)
    with unfinished(task.folder.parent) as folder:
        started = time.perf_counter()
        try:
            if failure is not None:
                raise failure
            made_of = {name: load_run(path) for name, path in task.parts.items()}
            facts = set(PartRecord.model_fields)
            record["parts"] = {name: run.record.model_dump(include=facts) for name, run in made_of.items()}
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
                parts={name: _part(name, run, job) for name, run in made_of.items()},
            )
            fitted = config.ranker.fit(training)
            _refuse_other_cautions(fitted)
            seconds = {"fit": time.perf_counter() - started}
            learned = with_temperatures(fitted.learned, fitted, job.metrics, fold.valid, config.temperatures)
            evaluated = _evaluated(fitted, learned, job, fold, seconds) if "test" in fold.splits else None
        except Exception as problem:
            # one model's failure, whatever it is, must not cost the others; the log keeps what a developer needs
            text = message_of(problem)
            trace = "" if isinstance(problem, HarnessError) else without_secrets(traceback.format_exc())
            (folder / LOG).write_text(f"failed: {text}\n{trace}", encoding="utf-8")
            seconds = {"fit": time.perf_counter() - started}
            record |= {"status": "failed", "error": text, "seconds": seconds, "params": {}, "metrics": {}}
            record |= {"best_round": None, "rounds_trained": None}
        else:
            if evaluated is not None:
                _write_evaluation(folder, fold.test, *evaluated, str(job.primary))
            evaluation = evaluated and evaluated[1]
            record |= _written(fitted, learned, evaluation, seconds, folder, task, job, fold)
        finish(folder, task.folder, Record(**record))
    return load_run(task.folder)


def _refuse_other_cautions(fitted: FittedModel) -> None:
    """Raise a TrainingError where a ranker of the user's own gives texts, or anything else, for cautions."""
    cautions: Sequence[object] = fitted.cautions
    for caution in cautions:
        if not isinstance(caution, Caution):
            found = f"cautions of the model hold {type(caution).__name__} {caution!r:.40}"
            expected = 'ltr_harness.errors.Caution, such as Caution("few-rows", "warning", "12 rows")'
            raise TrainingError.at(type(fitted).__name__, found, expected)


def _part(name: str, run: Run, job: Job) -> Part:
    """What a run has trained, for a model that is made of it; a TrainingError where it failed."""
    if run.record.status == "failed":
        raise TrainingError(f"part {name!r} failed: {run.record.error}")
    config = job.experiment.models[name]
    return Part(config.ranker_name, run.load_model_as(type(config.ranker)), run.path / run.model_files[0])


def run_here(tasks: Sequence[Task], job: Job, progress: "Progress") -> Iterator[tuple[Task, Run]]:
    """One after the other, in this process."""
    for task in tasks:
        progress.started(task)
        yield task, execute(task, job, job.reader.read(task.fold), partial(progress.round, task))


def _planned_facts(task: Task, job: Job, fold: Fold, config: ModelConfig) -> dict[str, Any]:
    """What a record says before anything is trained."""
    used = [config.ranker, *(job.experiment.models[name].ranker for name in task.parts)]
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
        "point": None if config.point is None else config.point.model_dump(),
        "threads": job.threads,
        "features": list(fold.train.feature_names),
        "categories": {name: list(texts) for name, texts in fold.train.categories.items()},
        "stopping": None,
        "cautions": list(job.cautions.get(fold.name, ())),
        "environment": environment(),
        "packages": installed_requirements(("ltr-harness", *(one for made in used for one in made.packages))),
        **_evaluation_facts(task, job, fold),
    }


def _evaluation_facts(task: Task, job: Job, fold: Fold) -> dict[str, Any]:
    """What a record says that scoring again may change."""
    used = [*job.metrics, *([job.stopping.metric] if job.stopping else [])]
    return {
        "evaluation_identity": task.evaluation_identity,
        "reading": reading_of(job.experiment.data, fold.name),
        "tuning": None if isinstance(task.choice, str) else task.choice,
        "data": dict(fold.facts),
        "primary": str(job.primary),
        "own_metrics": {
            str(metric): OwnMetric(spelling=metric.spelling, sha256=metric.digest)
            for metric in used
            if metric.digest is not None and metric.spelling != str(metric)
        },
    }


def _evaluated(
    fitted: FittedModel, learned: Mapping[str, Any], job: Job, fold: Fold, seconds: dict[str, float]
) -> tuple[NDArray[np.float64], Evaluation]:
    """The test rows' scores (n_rows,) and what they are worth; `seconds` gets what both took."""
    metrics = with_learned(job.metrics, learned)
    started = time.perf_counter()
    scores = fitted.score_split(fold.test)
    scored = time.perf_counter()
    evaluation = evaluate_bound(bind(metrics, fold.test.judgments), scores)
    seconds |= {"score": scored - started, "evaluate": time.perf_counter() - scored}
    return scores, evaluation


def with_temperatures(
    learned: Mapping[str, Any],
    fitted: FittedModel,
    metrics: Sequence[Metric],
    valid: RankingDataset | None,
    given: Mapping[str, float] = {},
) -> dict[str, Any]:
    """What a model learned, with T for each metric of probabilities: its own, or the best on validation data.

    Without validation data, those `given` take the place of fitted ones.
    """
    known = {**learned.get(TEMPERATURE, {}), **(given if valid is None else {})}
    wanted = [one for one in metrics if isinstance(one, ProbabilityMetric) and one.takes_fitted]
    lacking = [one for one in wanted if str(one) not in known]
    if lacking and valid is not None:
        scores = fitted.score_split(valid)
        known |= {str(one): one.best_temperature(valid.judgments, scores) for one in lacking}
    return {**learned, TEMPERATURE: known} if known else dict(learned)


def _written(
    fitted: FittedModel,
    learned: Mapping[str, Any],
    evaluation: Evaluation | None,
    seconds: dict[str, float],
    folder: Path,
    task: Task,
    job: Job,
    fold: Fold,
) -> dict[str, Any]:
    """The further files of a trained model; what its record says of it."""
    fitted.save(folder)
    rounds, splits, metrics, values = zip(*fitted.history, strict=True) if fitted.history else [()] * 4
    history = {
        "round": np.array(rounds, np.int64),
        "split": np.array(splits, np.str_),
        "metric": np.array(metrics, np.str_),
        "value": np.array(values, np.float64),
    }
    write_table(folder / HISTORY, history)
    if isinstance(fitted, TreeModel):
        worth = {"gain": fitted.importance("gain"), "split": fitted.importance("split")}
        write_table(folder / IMPORTANCE, {"feature": list(fold.train.feature_names), **worth})
    write_table(folder / RANGES, _ranges(fold.train))
    lines = [str(task), *(f"{one.severity}: {one}" for one in fitted.cautions)]
    lines += [
        f"round {point.round}: {point.data} {point.metric} {point.value!r}"
        for point in fitted.history
        if point.metric == str(job.decision_metric)
    ]
    if fitted.best_round is not None:
        lines.append(f"best round {fitted.best_round} of {fitted.rounds_trained} trained")
    if evaluation is not None:
        lines += [f"test {evaluation[name]}" for name in evaluation.metrics]
    (folder / LOG).write_text(without_secrets("\n".join(lines)) + "\n", encoding="utf-8")
    decides = fitted.best_round is not None or job.config_of(task).ranker.needs_valid
    rule = job.stopping if decides else None
    return {
        "status": "complete",
        "params": dict(fitted.params),
        "stopping": None if rule is None else StoppingFacts.of(rule),
        "best_round": fitted.best_round,
        "rounds_trained": fitted.rounds_trained,
        "cautions": [
            *job.cautions.get(fold.name, ()),
            *beside_lints(fold.splits.get("test", fold.train).cautions),
            *fitted.cautions,
        ],
        "n_leaves": fitted.n_leaves if isinstance(fitted, TreeModel) else None,
        **_results(fitted, learned, evaluation, seconds, folder, task, job, fold),
    }


def _ranges(train: RankingDataset) -> dict[str, Any]:
    """The lowest and highest value of each feature that is a number."""
    numeric = [at for at, name in enumerate(train.feature_names) if name not in train.categories]
    return {
        "feature": [train.feature_names[at] for at in numeric],
        "low": np.fmin.reduce(train.features, axis=0)[numeric].astype(np.float64),
        "high": np.fmax.reduce(train.features, axis=0)[numeric].astype(np.float64),
    }


def _results(
    fitted: FittedModel,
    learned: Mapping[str, Any],
    evaluation: Evaluation | None,
    seconds: dict[str, float],
    folder: Path,
    task: Task,
    job: Job,
    fold: Fold,
) -> dict[str, Any]:
    """What a record says of a stored model's evaluation, and of the time that it took."""
    results = {} if evaluation is None else {name: evaluation[name] for name in evaluation.metrics}
    latency: list[Latency] = []
    # one seed's stands for all, whose models are about as large
    if evaluation is not None and task.seed == job.experiment.seeds[0] and isinstance(fitted, TreeModel):
        value, alone = evaluation[str(job.primary)], fitted.load(folder, 1)
        latency = of_training(fitted, alone, fold.test, value.metric, value.mean, seconds["fit"])
    return {
        "metrics": {name: MetricSummary.of(values) for name, values in results.items()},
        "learned": learned,
        "seconds": seconds,
        "latency": latency,
    }


def _score_again(task: Task, job: Job, fold: Fold) -> Run:
    """New metrics, or new test data, for a model that is trained already."""
    run, config = load_run(task.folder), job.config_of(task)
    fitted = run.load_model_as(type(config.ranker))
    seconds = dict(run.record.seconds)
    learned = with_temperatures(run.record.learned, fitted, job.metrics, fold.valid, config.temperatures)
    if "test" not in fold.splits:
        facts = {"evaluation_identity": task.evaluation_identity, "learned": learned}
        replace_files(task.folder, lambda folder: None, run.record.model_copy(update=facts))
        return load_run(task.folder)
    scores, evaluation = _evaluated(fitted, learned, job, fold, seconds)
    record = run.record.model_copy(
        update={
            **_evaluation_facts(task, job, fold),
            **_results(fitted, learned, evaluation, seconds, task.folder, task, job, fold),
            "cautions": [*job.cautions.get(fold.name, ()), *run.record.training_cautions],
            "files": {name: digest for name, digest in run.record.files.items() if name != MISSED},
        }
    )
    write = partial(
        _write_evaluation, test=fold.test, scores=scores, evaluation=evaluation, primary=str(job.primary)
    )
    replace_files(task.folder, write, record)
    return load_run(task.folder)


def message_of(problem: Exception) -> str:
    """What records say of a failure: only others' errors need their kind."""
    text = str(problem) if isinstance(problem, HarnessError) else f"{type(problem).__name__}: {problem}"
    return without_secrets(text)
