"""Our metrics in `mlflow.models.evaluate`, those of `evaluate` for columns of scores and for models; and in autolog."""

from __future__ import annotations

import json
import shutil
import tomllib
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost

from ltr_harness import compare, evaluate
from ltr_harness.boosting.lightgbm import Watch as LightGBMWatch
from ltr_harness.boosting.xgboost import Watch as XGBoostWatch
from ltr_harness.errors import DataError, MetricError, UsageError
from ltr_harness.integrations.mlflow import _table
from ltr_harness.integrations.mlflow_export import export
from tests.conftest import named_case

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore::Warning")]

FROZEN = Path(__file__).parents[1] / "experiments" / "runs" / "frozen" / "v1"
METRICS = ["ndcg@5", "mrr(empty=zero)"]
CONFIG = {"query_id": "qid", "metrics": METRICS}


@pytest.fixture(scope="module")
def mlflow(repository: Path, mlflow_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """MLflow with a store of its own, and the evaluator that pyproject.toml names."""
    pytest.importorskip(
        "matplotlib", reason="mlflow.models.evaluate needs matplotlib, mlflow-skinny lacks it"
    )
    import mlflow as tool
    from mlflow.models.evaluation.evaluator_registry import _model_evaluation_registry as registry

    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    group = "mlflow.model_evaluator"  # as an installation has it, also where this one is older
    for name, value in project["entry-points"][group].items():
        registry.register(name, EntryPoint(name, value, group).load())
    before = tool.get_tracking_uri()
    tool.set_tracking_uri(f"sqlite:///{shutil.copy(mlflow_store, tmp_path_factory.mktemp('mlflow'))}")
    tool.create_experiment("here", artifact_location=tmp_path_factory.mktemp("artifacts").as_uri())
    tool.set_experiment("here")
    yield tool
    tool.set_tracking_uri(before)


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    """40 queries of 1 to 8 rows in any order, with ties; about a quarter have no relevant row."""
    rng = np.random.default_rng(3)
    qid = np.repeat([f"q{number}" for number in range(40)], rng.integers(1, 9, 40))
    frame = pd.DataFrame({"qid": qid, "a": rng.normal(size=qid.size), "b": rng.normal(size=qid.size)})
    label = np.clip(np.round(frame["a"] + rng.normal(size=qid.size)), 0, 3)
    return frame.assign(label=label, score=np.round(frame["a"]) + 0.0).sample(frac=1, random_state=1)


def as_here(rows: pd.DataFrame, scores: Any) -> tuple[dict[str, float], pd.DataFrame]:
    """Return the results of `evaluate`: means and numbers of queries under MLflow's names, and values by query."""
    found = evaluate(rows["label"], scores, METRICS, query_ids=rows["qid"])
    defined = np.isfinite(found["ndcg@5"].per_query).sum()
    assert 0 < defined < 40
    named = {"ndcg_at_5": found.means["ndcg@5"], "mrr.empty-zero": found.means["mrr(empty=zero)"]}
    return {**named, "ndcg_at_5.queries": defined, "mrr.empty-zero.queries": 40}, found.frame()


def test_a_column_of_scores(mlflow: Any, rows: pd.DataFrame) -> None:
    with mlflow.start_run() as run:
        done = mlflow.models.evaluate(
            data=rows, targets="label", predictions="score", model_type="ranker", evaluator_config=CONFIG
        )  # found by the type of the model alone
    means, values = as_here(rows, rows["score"])
    assert done.metrics == means == mlflow.get_run(run.info.run_id).data.metrics
    table = done.artifacts["per_query"].content
    pd.testing.assert_frame_equal(table.set_index("query_id")[METRICS], values)
    better = values.assign(**{"ndcg@5": np.minimum(values["ndcg@5"] + 0.1, 1)})[["ndcg@5"]]
    said = compare({"logged": table[["query_id", "ndcg@5"]], "better": better}, ledger=False)
    assert sorted(said.systems[0].query_ids.tolist()) == sorted(table["query_id"])


def test_a_data_set_of_mlflow_and_columns_of_other_roles(mlflow: Any, rows: pd.DataFrame) -> None:
    weighted = rows.assign(w=rows["qid"].str[1:].astype(float) + 1, doc=np.arange(len(rows)).astype(str))
    data = mlflow.data.from_pandas(weighted, targets="label", predictions="score")
    config = {
        **CONFIG,
        "metrics": "map(ties=id)",
        "weight": "w",
        "document_id": "doc",
        "metric_prefix": "test/",
    }
    with mlflow.start_run():
        done = mlflow.models.evaluate(
            data=data, model_type="ranker", evaluators="ltr_harness", evaluator_config=config
        )
    by_query = weighted.drop_duplicates("qid")
    expected = evaluate(
        weighted["label"],
        weighted["score"],
        ["map(ties=id)"],
        query_ids=weighted["qid"],
        query_weights=by_query["w"],
        document_ids=weighted["doc"],
    )
    assert done.metrics["test/map.ties-id"] == expected.means["map(ties=id)"]
    assert done.artifacts["test/per_query"].content["query_weight"].tolist() == by_query["w"].tolist()


def test_a_model_gets_its_features_alone(mlflow: Any, rows: pd.DataFrame) -> None:
    data = lgb.Dataset(rows[["a", "b"]], rows["label"])
    booster = lgb.train({"verbosity": -1, "num_threads": 1, "min_data_in_leaf": 5}, data, 5)
    features = rows.drop(columns="score")  # with the queries, which LightGBM would refuse
    means, _ = as_here(rows, booster.predict(rows[["a", "b"]]))
    with mlflow.start_run():
        logged = mlflow.lightgbm.log_model(booster, name="model", pip_requirements=["lightgbm"])
        done = mlflow.models.evaluate(
            logged.model_uri, features, targets="label", model_type="ranker", evaluator_config=CONFIG
        )
    assert done.metrics == means
    outputs = {
        "a function": lambda given: given["a"],
        "a column": lambda given: given[["a"]],
        "one of several columns": lambda given: given.assign(score=given["a"]),
        "a column of an array": lambda given: given[["a"]].to_numpy(),
    }
    for model in outputs.values():
        with mlflow.start_run():
            done = mlflow.models.evaluate(
                model,
                features,
                targets="label",
                predictions="score",
                model_type="ranker",
                evaluators=["ltr_harness"],
                evaluator_config={"ltr_harness": CONFIG},
            )
        assert done.metrics == as_here(rows, rows["a"])[0]


def test_a_column_that_the_signature_names_is_handed_over(mlflow: Any, rows: pd.DataFrame) -> None:
    class ByQuery(mlflow.pyfunc.PythonModel):  # type: ignore[misc, name-defined]
        def predict(self, context: Any, model_input: pd.DataFrame, params: Any = None) -> Any:
            return model_input["a"] - model_input.groupby("qid")["a"].transform("mean")

    signature = mlflow.models.infer_signature(rows[["qid", "a"]])
    features = rows.drop(columns="score")
    with mlflow.start_run():
        logged = mlflow.pyfunc.log_model(
            name="model", python_model=ByQuery(), signature=signature, pip_requirements=[]
        )
        done = mlflow.models.evaluate(
            logged.model_uri, features, targets="label", model_type="ranker", evaluator_config=CONFIG
        )
    assert done.metrics == as_here(rows, rows["a"])[0]  # less the same for each row of a query


def test_a_model_that_export_logged(mlflow: Any, tmp_path: Path) -> None:
    runs = shutil.copytree(FROZEN, tmp_path / "v1", ignore=shutil.ignore_patterns("xgb--*"))
    exported = export(runs, uri=mlflow.get_tracking_uri(), experiment="here")
    rows = pd.read_csv(FROZEN / "rows.csv", dtype="float32")
    expected = json.loads((FROZEN / "expected.json").read_text())["models"]["lgbm"]["scores"]
    [model] = exported.models.values()
    rng = np.random.default_rng(0)
    data = rows.assign(label=rng.integers(0, 3, len(rows)), qid=np.arange(len(rows)) // 4)
    with mlflow.start_run():
        done = mlflow.models.evaluate(
            model, data, targets="label", model_type="ranker", evaluator_config=CONFIG
        )
    assert (
        done.metrics["ndcg_at_5"]
        == evaluate(data["label"], expected, METRICS, query_ids=data["qid"]).means["ndcg@5"]
    )


def test_other_types_of_models_are_left_to_others(mlflow: Any, rows: pd.DataFrame) -> None:
    with mlflow.start_run():
        done = mlflow.models.evaluate(
            data=rows,
            targets="label",
            predictions="score",
            model_type="regressor",
            evaluator_config={"log_model_explainability": False},
        )
    assert "root_mean_squared_error" in done.metrics
    assert not any(name.startswith("ndcg") for name in done.metrics)


def with_config(**more: Any) -> dict[str, Any]:
    return {"evaluator_config": {**CONFIG, **more}}


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    (with_config(metric="mrr"), UsageError, "evaluator_config: unknown option 'metric'; did you mean 'metrics'?"),
    (with_config(metrics=[]), UsageError, 'evaluator_config: no metrics; expected such as {"metrics": '),
    (with_config(metrics="ndgc@5"), MetricError, "unknown metric 'ndgc'; did you mean 'ndcg'?"),
    (with_config(metrics="err@5"), MetricError, "expected max_grade, or err(max_grade=3)@5"),
    (with_config(query_id="quid"), DataError, "data: no column 'quid' for query; did you mean 'qid'?"),
    (with_config(weight="a"), DataError, "column 'a': differs within a query"),
    ({"targets": None}, DataError, "targets: no labels"),
    ({"predictions": None}, DataError, "predictions: no scores; expected the name of their column, or a model"),
    ({"score": np.nan}, DataError, "score is NaN in query 'q"),
    ({"score": "high"}, DataError, "column 'score': has the type string; expected numbers"),
    ({"label": -1}, MetricError, "label -1 is not a grade"),
    ({"qid": None}, DataError, "column 'qid': row 0 has no query id"),
    ({"rows": 0, "qid": 1}, DataError, "data: holds no row"),
    ({"model": lambda given: np.zeros((len(given), 2))}, DataError, "the model's output: has the shape ("),
    ({"model": lambda given: given}, DataError, "the model's output: has the columns a, b; expected one"),
    ({"model": lambda given: given["a"] / 0 * 0}, DataError, "score is NaN"),
]  # fmt: skip


def test_what_is_refused(mlflow: Any, rows: pd.DataFrame) -> None:
    with mlflow.start_run():
        for changed, error, said in REFUSED:
            given = {"model_type": "ranker", "evaluators": "ltr_harness", "targets": "label", **with_config()}
            given |= {"predictions": None if "model" in changed else "score"}
            columns = {name: changed[name] for name in ("score", "label", "qid") if name in changed}
            data = rows.drop(columns="score") if "model" in changed else rows.assign(**columns)
            given |= {name: value for name, value in changed.items() if name not in (*columns, "rows")}
            with named_case(said), pytest.raises(error) as refused:
                mlflow.models.evaluate(data=data.head(changed.get("rows", len(data))), **given)
            assert said in str(refused.value)


def test_the_program_of_the_page(mlflow: Any, repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (repository / "docs" / "interop.md").read_text(encoding="utf-8")
    _, _, rest = text.partition('```python title="evaluate_in_mlflow.py"\n')
    exec(rest.partition("```")[0], {})
    assert capsys.readouterr().out == rest.partition("```text\n")[2].partition("```")[0]


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_autolog_logs_what_a_watch_measures(mlflow: Any, rows: pd.DataFrame, library: str) -> None:
    ordered = rows.sort_values("qid")
    judged = {"label": ordered["label"], "group": ordered.groupby("qid").size().to_numpy()}
    flavour = getattr(mlflow, library)
    flavour.autolog(log_models=False, log_datasets=False, silent=True)
    try:
        with mlflow.start_run() as run:
            if library == "xgboost":
                train, valid = (xgboost.DMatrix(ordered[["a", "b"]], **judged) for _ in range(2))
                watch: Any = XGBoostWatch("ndcg@10", data={"valid": valid}, patience=3)
                xgboost.train({"objective": "rank:ndcg", "nthread": 1}, train, 8, callbacks=[watch])
            else:
                train = lgb.Dataset(ordered[["a", "b"]], **judged)
                valid = lgb.Dataset(ordered[["a", "b"]], **judged, reference=train)
                watch = LightGBMWatch("ndcg@10", data={"valid": valid}, patience=3)
                options = {"objective": "lambdarank", "metric": "None", "num_threads": 1, "verbosity": -1}
                lgb.train(options, train, 8, callbacks=[watch])
    finally:
        flavour.autolog(disable=True)
    logged = mlflow.MlflowClient().get_metric_history(run.info.run_id, "valid-ndcg_at_10")
    assert len(watch.history) > 3
    # and once more at the end, for the best round
    assert [one.value for one in logged[: len(watch.history)]] == [one.value for one in watch.history]


class Data:
    """As much of a data set of MLflow as is read of it."""

    targets_name: str | None = None
    predictions_name: str | None = None

    def __init__(self, frame: pd.DataFrame, **others: Any) -> None:
        self.features_data = frame
        self.labels_data, self.predictions_data = np.array([1.0, 0.0, 2.0]), np.array([0.3, 0.2, 0.1])
        vars(self).update(others)


def test_columns_of_one_name_are_not_mixed_up() -> None:
    frame = pd.DataFrame({"targets": ["a", "a", "b"], "predictions": [1.0, 1.0, 2.0]})
    config = {"query_id": "targets", "weight": "predictions"}
    found, columns = _table(Data(frame), None, None, config)
    values = {role: found[name].to_pylist() for role, name in columns.items()}
    assert values == {
        "query": ["a", "a", "b"],
        "weight": [1.0, 1.0, 2.0],
        "label": [1.0, 0.0, 2.0],
        "score": [0.3, 0.2, 0.1],
    }


@pytest.mark.parametrize("role", ["targets", "predictions"])
def test_the_column_of_the_queries_is_no_label_and_no_score(role: str) -> None:
    frame = pd.DataFrame({"qid": [1, 1, 2]})
    with pytest.raises(
        DataError, match=f"{role}: 'qid' is the column of the queries; expected a column of numbers"
    ):
        _table(Data(frame, **{f"{role}_name": "qid"}), None, None, {"query_id": "qid"})


def test_a_column_whose_name_is_half_a_character() -> None:
    frame = pd.DataFrame({"qid": [1, 1, 2]})
    frame.columns = pd.Index(["\ud800"], dtype=object)
    with pytest.raises(DataError, match="data: cannot be read as a table: 'utf-8' codec can't encode"):
        _table(Data(frame), None, None, {"query_id": "\ud800"})
