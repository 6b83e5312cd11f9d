"""Missed documents in stored runs: kept, read back, and counted by whatever a report computes of stored scores."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ltr_harness import evaluate, run_experiment
from ltr_harness._util.files import file_digest
from ltr_harness.errors import DataError
from ltr_harness.experiments.runs import Run, load_run
from ltr_harness.experiments.runs.run import MISSED
from ltr_harness.metrics import bind, parse_metric
from ltr_harness.metrics.evaluation import evaluate_bound
from ltr_harness.metrics.explain import explain_mean
from ltr_harness.report import ReportData, build_report
from ltr_harness.report.blocks import Table
from ltr_harness.report.data import stored_data
from ltr_harness.report.sections import queries
from ltr_harness.report.sections.conventions import other_tools

from .test_rows import open_queries  # type: ignore[import-not-found]

pytestmark = pytest.mark.long

NAMES = ["ndcg@5", "map@5", "recall@5", "mrr@5", "precision@5"]


def two_stages(seed: int) -> pd.DataFrame:
    """Sixty queries of up to eleven judged documents; of every seventh query the retriever found none."""
    rng = np.random.default_rng(seed)
    rows = []
    for query in range(60):
        for document in range(rng.integers(3, 12)):
            found = int(query % 7 > 0 and rng.random() < 0.7)
            feature = round(rng.normal(), 1)
            label = int(np.clip(np.round(feature + rng.normal()), 0, 3))
            rows.append((query, f"d{document}", label, found, feature if found else np.nan))
    return pd.DataFrame(rows, columns=["query_id", "document_id", "label", "found", "feature"])


def experiment(folder: Path, **data: object) -> dict[str, object]:
    for seed, name in enumerate(("train", "valid", "test")):
        two_stages(seed).to_csv(folder / f"{name}.csv", index=False)
    return {
        "name": "two",
        "seeds": [1],
        "data": {
            "reader": "csv",
            "root": str(folder),
            "splits": {name: f"{name}.csv" for name in ("train", "valid", "test")},
            **data,
        },
        "metrics": {
            "cutoffs": [5],
            "report": ["ndcg", "map", "recall", "mrr", "precision"],
            "primary": "ndcg@5",
        },
        "report": {"formats": ["json"]},
        "models": {
            "feature": {"ranker": "feature", "feature": "feature"},
            "lgbm": {"ranker": "lightgbm", "rounds": 5, "params": {"num_leaves": 4}},
        },
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("two")
    run_experiment(experiment(place, retrieved="found"), runs=place)
    return place


@pytest.fixture(scope="module")
def data(folder: Path) -> ReportData:
    return stored_data([folder / "two"])


def run_of(folder: Path, model: str = "feature") -> Run:
    return load_run(next((folder / "two").glob(f"{model}--*")))


def test_a_run_keeps_what_was_missed(folder: Path) -> None:
    run, test = run_of(folder), two_stages(2)
    judgments, missed = run.judgments, test[test["found"] == 0]
    assert judgments.missed is not None
    assert judgments.groups.ids.tolist() == list(range(60))
    assert judgments.groups.sizes[::7].sum() == 0  # queries without candidates are there
    names = ["query_id", "document_id", "label"]
    pd.testing.assert_frame_equal(
        pd.read_parquet(run.path / MISSED)[names], missed[names].reset_index(drop=True), check_dtype=False
    )
    values = evaluate_bound(bind(NAMES, judgments), run.test_scores["score"].to_numpy())
    for name in NAMES:
        np.testing.assert_array_equal(values[name].per_query, run.per_query[name])
    assert (
        run.per_query["ndcg@5"].iloc[::7].eq(0).sum()
        == (missed.groupby("query_id")["label"].max()[list(range(0, 60, 7))] > 0).sum()
    )


def test_reports_count_what_was_missed(data: ReportData) -> None:
    rows = data.rows
    assert rows is not None
    for model in data.models:
        found = rows.per_query(model, [parse_metric(name) for name in NAMES])
        for name, values in zip(NAMES, found, strict=True):
            np.testing.assert_allclose(
                values, data.comparison.system(model).per_query(name), rtol=0, atol=1e-15
            )
    tables = {table.name for table in build_report(data).tables}
    assert {"ties", "precision_recall", "tools"} <= tables


@pytest.mark.parametrize(
    "tool", ["lightgbm", "xgboost", "catboost", "sklearn", "trec_eval", "letor", "ranklib", "ranx"]
)
def test_tools_that_are_given_rows_alone_do_not_know_what_was_missed(data: ReportData, tool: str) -> None:
    test, rows = two_stages(2), data.rows
    assert rows is not None
    first = next(one for one in other_tools(data) if one.metric == "ndcg@5")
    (at,) = (i for i, one in enumerate(first.conventions) if tool in one.names)
    found = test["found"].to_numpy() == 1
    scores = np.full(len(test), -np.inf)
    scores[found] = rows.scores("lgbm")
    asked = {
        "query_ids": test["query_id"],
        "metrics": [f"ndcg(as={tool})@5"],
        "document_ids": test["document_id"],
    }
    if tool in ("trec_eval", "ranx"):
        expected = evaluate(test["label"], scores, retrieved=found, **asked)
    else:
        alone = {name: value[found] if name != "metrics" else value for name, value in asked.items()}
        expected = evaluate(test["label"][found], scores[found], **alone)
    assert first.means["lgbm"][at] == pytest.approx(next(iter(expected.means.values())), abs=1e-12)
    explained = explain_mean(parse_metric("ndcg@5"), rows.judgments, rows.scores("lgbm"))
    (preset,) = (one for one in explained.presets if one.tool == tool)
    assert preset.value == pytest.approx(first.means["lgbm"][at], abs=1e-12)
    assert ("given the candidates alone" in preset.reason) == (tool not in ("trec_eval", "ranx"))
    assert explained.counts[tool] == (
        60 if tool in ("trec_eval", "ranx") else int((rows.judgments.groups.sizes > 0).sum())
    )


def test_the_tables_say_which_tools_do_not(data: ReportData) -> None:
    words = next(table for table in build_report(data).tables if table.name == "tools_words")
    said = {str(row[0]): str(row[2]) for row in words.rows}
    assert "given the candidates alone" in said["lightgbm"]
    assert "given the candidates alone" not in said["gdeval"]


def test_lists_of_changed_queries_end_with_what_was_missed(data: ReportData) -> None:
    test = two_stages(2)
    tables = {
        re.split("[:,]", query.summary.partition(") ")[2])[0]: query.blocks[0]
        for query in open_queries(queries.section(data))
    }
    assert len(tables) > 4
    for query, table in tables.items():
        missed = test[(test["query_id"] == int(query)) & (test["found"] == 0)]
        relevant = missed[missed["label"] > 0].sort_values("label", ascending=False, kind="stable")
        words = [f"{one.document_id} (label {one.label})" for one in relevant.itertuples()]
        words += [f"{len(missed) - len(relevant)} more"] if len(missed) > len(relevant) else []
        assert isinstance(table, Table)
        assert table.footnotes == ((f"Missed: {', '.join(words)}.",) if words else ())


def test_a_damaged_table_is_scored_again(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = run_of(folder).path / MISSED
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(DataError, match=r"missed.parquet: not the file its record.json describes"):
        _ = run_of(folder).judgments
    run_experiment(experiment(folder, retrieved="found"), runs=folder)
    assert "missed.parquet; it is scored again" in caplog.text
    assert path.read_bytes() == whole


def test_a_table_about_other_queries_is_refused(folder: Path, tmp_path: Path) -> None:
    run = run_of(folder)
    for name in run.record.files:
        (tmp_path / name).write_bytes((run.path / name).read_bytes())
    pd.DataFrame({"query_id": [999], "label": [1.0]}).to_parquet(tmp_path / MISSED)
    record = run.record.model_copy(
        update={"files": {**run.record.files, MISSED: file_digest(tmp_path / MISSED)}}
    )
    (tmp_path / "record.json").write_text(record.model_dump_json())
    with pytest.raises(
        DataError, match=r"missed.parquet: query 999 is not in per_query.parquet; run the experiment"
    ):
        _ = load_run(tmp_path).judgments


def test_scored_again_without_judgments_nothing_was_missed(tmp_path: Path) -> None:
    config = experiment(tmp_path)
    for seed, name in enumerate(("train", "valid", "test")):
        rows = two_stages(seed)
        rows["query_id"] = name + rows["query_id"].astype(str)
        rows[rows["found"] == 1].drop(columns="found").to_csv(tmp_path / f"{name}.csv", index=False)
    rows[["query_id", "document_id", "label"]].to_csv(tmp_path / "truth.csv", index=False)
    config["models"] = {"lgbm": config["models"]["lgbm"]}  # type: ignore[index]
    judged = {**config, "data": {**config["data"], "judgments": {"test": "truth.csv"}}}  # type: ignore[dict-item]
    run_experiment(judged, runs=tmp_path)
    before = run_of(tmp_path, "lgbm")
    assert before.judgments.missed is not None
    run_experiment(config, runs=tmp_path)
    after = run_of(tmp_path, "lgbm")
    assert after.path == before.path  # scored again, not trained
    assert MISSED not in after.record.files
    assert after.judgments.missed is None
    assert after.record.metrics["ndcg@5"].mean > before.record.metrics["ndcg@5"].mean
