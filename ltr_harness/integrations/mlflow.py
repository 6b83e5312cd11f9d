"""MLflow's evaluator `ltr_harness`: `mlflow.models.evaluate` finds it by its entry point."""

import os
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ltr_harness._util.catalog import did_you_mean
from ltr_harness._util.files import temporary_folder
from ltr_harness._util.text import count_of
from ltr_harness.errors import DataError, Problem, UsageError
from ltr_harness.metrics import parse_metric
from ltr_harness.metrics.arrow import means, per_query
from ltr_harness.metrics.core.grammar import as_list

__all__ = ["RankingEvaluator"]

_ROLES = ("document_id", "weight", "judged", "retrieved")
_COLUMNS = {"query_id": "query", **dict(zip(_ROLES, _ROLES, strict=True))}  # option to role
_OPTIONS = ("metrics", "max_grade", "metric_prefix", *_COLUMNS)
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
        """Whether rankings are meant: by the type of model, or by an option that only this evaluator has."""
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
        problems = [
            Problem(_CONFIG, f"unknown option {key!r}", cure=did_you_mean(str(key), _OPTIONS))
            for key in evaluator_config
            if key not in _OPTIONS
        ]
        if not evaluator_config.get("metrics"):
            problems.append(Problem(_CONFIG, "no metrics", 'such as {"metrics": ["ndcg@10", "mrr"]}'))
        UsageError.refuse(problems)
        prefix = evaluator_config.get("metric_prefix") or ""
        asked = [parse_metric(metric) for metric in as_list(evaluator_config["metrics"])]
        table, columns = _table(dataset, model, predictions, evaluator_config)
        found = per_query(table, asked, columns, max_grade=evaluator_config.get("max_grade"))
        logged, averages = {}, means(found)
        for name, legal in legal_names(averages).items():
            logged[f"{prefix}{legal}"] = averages[name]
            logged[f"{prefix}{legal}.queries"] = float(np.isfinite(found[name].to_numpy()).sum())
        mlflow.log_metrics(logged, run_id=run_id)
        inside, name = os.path.split(f"{prefix}per_query.parquet")
        with temporary_folder() as folder:
            pq.write_table(pa.Table.from_batches([found]), folder / name)
            mlflow.log_artifact(str(folder / name), inside or None, run_id=run_id)
        artifact = ParquetEvaluationArtifact(uri=mlflow.get_artifact_uri(f"{prefix}per_query.parquet"))
        return EvaluationResult(logged, {f"{prefix}per_query": artifact}, run_id)


def _table(
    dataset: Any, model: Any, predictions: str | None, config: Mapping[str, Any]
) -> tuple[pa.Table, dict[str, str]]:
    """Columns of queries, labels, scores and what the options name, and what each of them is."""
    frame, labels, scores = dataset.features_data, dataset.labels_data, dataset.predictions_data
    if not hasattr(frame, "columns"):
        raise DataError.at("data", f"is a {type(frame).__name__}", "a table with a column of queries")
    known = frame.columns.tolist()
    roles = {role: config.get(option) for option, role in _COLUMNS.items()}
    roles["query"] = roles["query"] or "query_id"
    own = {role: name for role, name in roles.items() if name is not None}
    problems = [
        Problem("data", f"no column {name!r} for {role}", cure=did_you_mean(str(name), map(str, known)))
        for role, name in own.items()
        if known.count(name) != 1
    ]
    columns = {role: str(name) for role, name in own.items()}
    others = {"targets": dataset.targets_name, "predictions": None if model else dataset.predictions_name}
    problems += [
        Problem(role, f"{name!r} is the column of the queries", "a column of numbers")
        for role, name in others.items()
        if name is not None and str(name) == columns["query"]
    ]
    if labels is None:
        problems.append(Problem("targets", "no labels", "the name of their column"))
    if scores is None and model is None:
        problems.append(Problem("predictions", "no scores", "the name of their column, or a model"))
    if not len(frame):
        problems.append(Problem("data", "holds no row", "a row for each document"))
    DataError.refuse(problems)
    for role, name in (
        ("label", dataset.targets_name or "targets"),
        ("score", _OUTPUT if model is not None else dataset.predictions_name or "predictions"),
    ):
        taken, name = set(columns.values()), str(name)
        columns[role] = name if name not in taken else f"{name} ({role})"
    if model is not None:
        signature = getattr(getattr(model, "metadata", None), "signature", None)
        inputs = getattr(signature, "inputs", None)
        wanted = () if inputs is None else inputs.input_names()
        scores = model.predict(frame.drop(columns=[name for name in own.values() if name not in wanted]))
        if hasattr(scores, "columns"):
            names = scores.columns.tolist()
            chosen = names[0] if len(names) == 1 else predictions
            if names.count(chosen) != 1:
                found = f"has the columns {', '.join(map(str, names))}"
                raise DataError.at(_OUTPUT, found, "one column, or predictions= the name of one")
            scores = scores[chosen]
        scores = np.asarray(scores)
        if scores.size != len(frame):
            found = f"has the shape {scores.shape} for {count_of(len(frame), 'row')}"
            raise DataError.at(_OUTPUT, found, "a score for each row")
        scores = scores.reshape(-1)
    values = {str(name): frame[name] for name in own.values()}
    values |= {columns["label"]: labels, columns["score"]: scores}
    try:
        return pa.table({name: pa.array(one, from_pandas=True) for name, one in values.items()}), columns
    except (pa.ArrowException, UnicodeEncodeError) as problem:
        raise DataError.at("data", f"cannot be read as a table: {problem}") from None
