"""MLflow's evaluator `ltr_harness`: `mlflow.models.evaluate` finds it by its entry point."""

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ltr_harness._util.catalog import did_you_mean
from ltr_harness._util.files import temporary_folder
from ltr_harness._util.text import count_of
from ltr_harness.errors import DataError, Problem, UsageError
from ltr_harness.metrics import parse_metric
from ltr_harness.metrics.arrow import means, per_query
from ltr_harness.metrics.core.grammar import as_list

__all__ = ["RankingEvaluator"]

_ROLES = ("document_id", "weight", "judged", "retrieved")  # of columns, and the options that name them
_OPTIONS = ("metrics", "max_grade", "metric_prefix", "query_id", *_ROLES)
_CONFIG, _OUTPUT = "evaluator_config", "the model's output"


class RankingEvaluator:
    """Means and per-query values of any of our metrics, for a model's scores or for a column of scores.

    ``mlflow.models.evaluate(…, model_type="ranker", evaluators="ltr_harness", evaluator_config={…})`` takes these
    options: ``metrics``, one or more; ``query_id``, the column of the queries (else of that name); ``document_id``,
    ``weight``, ``judged`` and ``retrieved``, columns as in `ltr_harness.arrow.per_query`; ``max_grade``;
    ``metric_prefix``, before each name in MLflow. A model is not given these columns unless its signature names them.

    It has the two methods of MLflow's `ModelEvaluator`, and is no subclass, whose import alone takes seconds.
    """

    def can_evaluate(self, *, model_type: str, evaluator_config: Mapping[str, Any], **_: Any) -> bool:
        """Return True for rankings: by the type of model, or by an option that only this evaluator has."""
        return model_type == "ranker" or "query_id" in (evaluator_config or {})

    def evaluate(
        self,
        *,
        dataset: Any,
        run_id: str,
        evaluator_config: Mapping[str, Any],
        model: Any = None,
        predictions: str | None = None,
        **others: Any,
    ) -> Any:
        """Log a mean and the number of its queries for each metric, and the table of per-query values.

        Args:
            dataset: MLflow's own, with columns and targets, and with predictions unless there is a model.
            run_id: the run that gets them.
            evaluator_config: the options.
            model: what predicts a score for each row, or None.
            predictions: the column of the model's output that has the scores, where it has several.
            others: what MLflow hands to every evaluator besides.

        Raises:
            DataError, UsageError: what is missing or is not as it should be, all of one kind at once.

        Returns:
            MLflow's `EvaluationResult`; its artifact ``per_query`` is a table that `compare` takes.
        """
        import mlflow
        from mlflow.models.evaluation.artifacts import ParquetEvaluationArtifact
        from mlflow.models.evaluation.base import EvaluationResult

        from ltr_harness.integrations.mlflow_export import legal_names

        if others.get("extra_metrics") or others.get("custom_artifacts"):
            left = "extra_metrics and custom_artifacts are left to MLflow's own evaluators"
            warnings.warn(f"evaluator ltr_harness: {left}", stacklevel=2)
        _refuse_options(evaluator_config)
        prefix = evaluator_config.get("metric_prefix") or ""
        metrics = [parse_metric(metric) for metric in as_list(evaluator_config["metrics"])]
        table, columns = _table(dataset, model, predictions, evaluator_config)
        values = per_query(table, metrics, columns, max_grade=evaluator_config.get("max_grade"))
        logged, averages = {}, means(values)
        for name, legal in legal_names(averages).items():
            logged[f"{prefix}{legal}"] = averages[name]
            logged[f"{prefix}{legal}.queries"] = float(np.isfinite(values[name].to_numpy()).sum())
        mlflow.log_metrics(logged, run_id=run_id)
        inside, name = os.path.split(f"{prefix}per_query.parquet")
        with temporary_folder() as folder:
            pq.write_table(pa.Table.from_batches([values]), folder / name)
            mlflow.log_artifact(str(folder / name), inside or None, run_id=run_id)
        artifact = ParquetEvaluationArtifact(uri=mlflow.get_artifact_uri(f"{prefix}per_query.parquet"))
        return EvaluationResult(logged, {f"{prefix}per_query": artifact}, run_id)


def _refuse_options(config: Mapping[str, Any]) -> None:
    """Raise a UsageError for unknown options, and for none that names metrics."""
    problems = [
        Problem(_CONFIG, f"unknown option {key!r}", cure=did_you_mean(str(key), _OPTIONS))
        for key in config
        if key not in _OPTIONS
    ]
    if not config.get("metrics"):
        problems.append(Problem(_CONFIG, "no metrics", 'such as {"metrics": ["ndcg@10", "mrr"]}'))
    UsageError.refuse(problems)


def _table(
    dataset: Any, model: Any, predictions: str | None, config: Mapping[str, Any]
) -> tuple[pa.Table, dict[str, str]]:
    """Return the columns of queries, labels, scores and what the options name, and the column of each role."""
    frame = dataset.features_data
    if not hasattr(frame, "columns"):
        raise DataError.at("data", f"is a {type(frame).__name__}", "a table with a column of queries")
    column_of = _named_columns(config)
    _refuse_data(dataset, model, column_of)
    columns = {role: str(name) for role, name in column_of.items()}
    columns["label"] = _free_name(str(dataset.targets_name or "targets"), "label", columns)
    score_name = _OUTPUT if model is not None else str(dataset.predictions_name or "predictions")
    columns["score"] = _free_name(score_name, "score", columns)
    scores = dataset.predictions_data
    if model is not None:
        scores = _model_scores(model, frame, list(column_of.values()), predictions)
    values = {str(name): frame[name] for name in column_of.values()}
    values |= {columns["label"]: dataset.labels_data, columns["score"]: scores}
    try:
        arrays = {name: pa.array(column, from_pandas=True) for name, column in values.items()}
        return pa.table(arrays), columns
    except (pa.ArrowException, UnicodeEncodeError) as problem:
        raise DataError.at("data", f"cannot be read as a table: {problem}") from None


def _named_columns(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the column of each role that the options name, and that of the queries."""
    columns = {"query": config.get("query_id") or "query_id"}
    return columns | {role: config[role] for role in _ROLES if config.get(role) is not None}


def _free_name(name: str, role: str, columns: Mapping[str, str]) -> str:
    """Return the name of a column, with its role where another column has that name."""
    return f"{name} ({role})" if name in columns.values() else name


def _refuse_data(dataset: Any, model: Any, column_of: Mapping[str, Any]) -> None:
    """Raise a DataError for each column that is not there, and for labels and scores that are missing."""
    names = dataset.features_data.columns.tolist()
    problems = [
        Problem("data", f"no column {name!r} for {role}", cure=did_you_mean(str(name), map(str, names)))
        for role, name in column_of.items()
        if names.count(name) != 1
    ]
    numbers = {"targets": dataset.targets_name}
    if not model:
        numbers["predictions"] = dataset.predictions_name
    for place, name in numbers.items():
        if name is not None and str(name) == str(column_of["query"]):
            problems.append(Problem(place, f"{name!r} is the column of the queries", "a column of numbers"))
    if dataset.labels_data is None:
        problems.append(Problem("targets", "no labels", "the name of their column"))
    if dataset.predictions_data is None and model is None:
        problems.append(Problem("predictions", "no scores", "the name of their column, or a model"))
    if not len(dataset.features_data):
        problems.append(Problem("data", "holds no row", "a row for each document"))
    DataError.refuse(problems)


def _model_scores(model: Any, frame: Any, named: Sequence[Any], predictions: str | None) -> NDArray[Any]:
    """Return the model's scores of the rows; it gets the columns that options name only if its signature has them."""
    signature = getattr(getattr(model, "metadata", None), "signature", None)
    inputs = getattr(signature, "inputs", None)
    input_names = () if inputs is None else inputs.input_names()
    scores = model.predict(frame.drop(columns=[name for name in named if name not in input_names]))
    if hasattr(scores, "columns"):
        names = scores.columns.tolist()
        score_column = names[0] if len(names) == 1 else predictions
        if names.count(score_column) != 1:
            found = f"has the columns {', '.join(map(str, names))}"
            raise DataError.at(_OUTPUT, found, "one column, or predictions= the name of one")
        scores = scores[score_column]
    scores = np.asarray(scores)
    if scores.size != len(frame):
        found = f"has the shape {scores.shape} for {count_of(len(frame), 'row')}"
        raise DataError.at(_OUTPUT, found, "a score for each row")
    return scores.reshape(-1)
