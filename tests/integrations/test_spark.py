"""The programs of docs/spark.md on a real Spark of this machine: the values of `evaluate`, to the bit."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ltr_harness import arrow, compare, evaluate

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning"),
]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "spark.md"
METRICS = ["ndcg@10", "mrr@10"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("pyspark", reason="needs pyspark: pip install pyspark")
    if shutil.which("java") is None:
        pytest.skip("needs a Java runtime, such as Debian's default-jre-headless")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    folder = tmp_path_factory.mktemp("spark")
    for part in PAGE.read_text(encoding="utf-8").split('```python title="')[1:]:
        name, _, code = part.partition('"\n')
        (folder / name).write_text(code.partition("```")[0], encoding="utf-8")
    return folder


def make_rows(queries: int, rows: int, seed: int) -> dict[str, np.ndarray]:
    """Queries of skewed lengths whose rows are spread over the file."""
    rng = np.random.default_rng(seed)
    query = np.concatenate([np.arange(queries), (queries * rng.beta(0.7, 2, rows - queries)).astype(int)])
    rng.shuffle(query)
    label = rng.integers(0, 4, rows)
    return {
        "query_id": np.char.add("q", query.astype(str)),
        "label": label,
        "live": (label + rng.normal(size=rows)).round(1),
        "new": (label + rng.normal(size=rows)).round(1),
    }


def session(partitions: int) -> object:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    return builder.config("spark.sql.shuffle.partitions", str(partitions)).getOrCreate()


@pytest.mark.parametrize("partitions", [1, 3, 8])
def test_values_equal_those_of_evaluate(
    folder: Path, partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    import spark_metrics

    rows = make_rows(500, 20_000, partitions)
    pq.write_table(pa.table(rows), folder / f"rows{partitions}.parquet", row_group_size=3_000)
    frame = session(partitions).read.parquet(str(folder / f"rows{partitions}.parquet"))
    results = {}
    for score in ("live", "new"):
        results[score] = arrow.merge([spark_metrics.evaluated(frame, score).toArrow()])
        found = evaluate(rows["label"], rows[score], METRICS, query_ids=rows["query_id"])
        assert arrow.means(results[score]) == dict(found.means)
        order = np.argsort(found.query_ids)
        assert results[score]["query_id"].to_pylist() == found.query_ids[order].tolist()
        for name in METRICS:
            np.testing.assert_array_equal(results[score][name].to_numpy(), found[name].per_query[order])
    assert compare(results, metrics=["ndcg@10"]).n_queries == 500


def test_a_function_per_query_gives_the_same(folder: Path) -> None:
    rows = make_rows(60, 1_000, 0)
    frame = session(2).createDataFrame(pa.table(rows))
    result = "query_id string, rows bigint, n_relevant bigint, `ndcg@10` double"

    def per_query(table: pa.Table) -> pa.Table:
        return pa.Table.from_batches([arrow.per_query(table, "ndcg@10", {"score": "live"})])

    found = arrow.merge([frame.groupBy("query_id").applyInArrow(per_query, result).toArrow()])
    assert arrow.means(found) == dict(
        evaluate(rows["label"], rows["live"], "ndcg@10", query_ids=rows["query_id"]).means
    )


def test_the_programs_run(folder: Path) -> None:
    small, large = make_rows(300, 5_000, 1), make_rows(130_000, 270_000, 2)
    for name, rows in ("small", small), ("large", large):
        pq.write_table(pa.table(rows), folder / f"{name}.parquet")
    metrics = run_program(folder, "spark_metrics.py", "small.parquet")
    expected = evaluate(small["label"], small["live"], METRICS, query_ids=small["query_id"])
    assert f"live {dict(expected.means)}" in metrics
    assert "has the highest mean ndcg@10" in metrics
    moments = run_program(folder, "spark_moments.py", "large.parquet")
    both = [
        evaluate(large["label"], large[s], "ndcg@10", query_ids=large["query_id"]) for s in ("live", "new")
    ]
    pair = compare({"live": both[0], "new": both[1]}, test="t").paired("new")
    assert moments.split()[0] == str(pair.n)
    assert float(moments.partition("difference=")[2].partition(",")[0]) == pytest.approx(pair.difference)


def run_program(folder: Path, program: str, file: str) -> str:
    done = subprocess.run(
        [sys.executable, program, file], cwd=folder, capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    return done.stdout
