"""Scattered queries that were brought together: scores are in the order of the file, on the way in and out."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltr_harness import evaluate, load_run, run_experiment
from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.data.cache import DataCache
from ltr_harness.data.readers.letor import Letor
from ltr_harness.data.readers.memory import from_arrays
from ltr_harness.data.readers.scores import read_scores
from ltr_harness.metrics import bind, parse_metric
from ltr_harness.metrics.evaluation import evaluate_bound

Cli = Callable[..., tuple[int, str, str]]

# each query's relevant document first, one query's row after the other's
SCATTERED = "1 qid:a 1:1\n1 qid:b 1:1\n0 qid:a 1:2\n0 qid:b 1:2\n"
SCORES = [1.0, 1.0, 0.0, 0.0]


@pytest.fixture
def ltr(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    monkeypatch.chdir(tmp_path)
    Path("d.txt").write_text(SCATTERED)
    Path("train.txt").write_text("1 qid:x 1:5\n0 qid:x 1:6\n0 qid:y 1:7\n1 qid:y 1:8\n")
    Path("s.txt").write_text("1\n1\n0\n0\n")
    np.save("s.npy", np.array(SCORES))
    Path("s.csv").write_text("score\n1\n1\n0\n0\n")
    Path("named.csv").write_text("query_id,score\na,1\nb,1\na,0\nb,0\n")
    Path("labels.tsv").write_text("qid\tlabel\tscore\na\t1\t1\nb\t1\t1\na\t0\t0\nb\t0\t0\n")
    Path("rows.csv").write_text("query_id,row,score\nb,1,0\na,1,0\nb,0,1\na,0,1\n")

    def run(*arguments: str) -> tuple[int, str, str]:
        code = run_command(cli, list(arguments))
        return code, *capsys.readouterr()

    return run


FILES = ["s.txt", "s.npy", "s.csv", "named.csv", "labels.tsv", "rows.csv"]


@pytest.mark.parametrize("file", FILES)
def test_scores_are_in_the_order_of_the_file(ltr: Cli, file: str) -> None:
    data = ("--data", "d.txt", "--reader-option", "regroup=true", "--scores", file)
    code, out, _ = ltr("evaluate", *data, "-m", "ndcg@2", "--per-query")
    assert code == 0
    # both queries, the mean, three quantiles; .8155 with the second and third score exchanged
    assert out.count("1.0000") == 7  # the ceiling among them
    for query in "ab":
        code, out, _ = ltr("explain", "ndcg@2", "--query", query, *data)
        assert (code, out.splitlines()[0]) == (0, f"{file.split('.')[0]}, query {query}: ndcg@2 = 1.0000")
    code, out, _ = ltr(
        "compare", file, "--data", "d.txt", "--reader-option", "regroup=true", "-m", "ndcg@2", "--json"
    )
    assert code == 0
    assert '"mean": 1.0' in out


def test_queries_out_of_the_files_order_are_refused(ltr: Cli) -> None:
    Path("grouped.csv").write_text("query_id,score\na,1\na,0\nb,1\nb,0\n")
    data = ("--data", "d.txt", "--reader-option", "regroup=true", "--scores", "grouped.csv")
    code, _, err = ltr("evaluate", *data)
    assert code == 2
    assert "grouped.csv:3: query 'a' where the data has 'b' (2 such rows)" in err
    assert "a second column that names the row" in err


@pytest.mark.long
@pytest.mark.usefixtures("without_report")
def test_the_scores_ranker_reads_as_evaluate_does_and_predict_writes_it_back(
    ltr: Cli, tmp_path: Path
) -> None:
    theirs = {file: {"ranker": "scores", "file": str(tmp_path / file)} for file in FILES}
    result = run_experiment(
        {
            "name": "files",
            "data": {
                "reader": "letor",
                "regroup": True,
                "root": str(tmp_path),
                "splits": {"train": "train.txt", "test": "d.txt"},
            },
            "metrics": {"cutoffs": [2], "report": ["ndcg"], "primary": "ndcg@2"},
            "report": {"formats": ["json"]},
            "models": {**theirs, "upside-down": {"ranker": "feature", "feature": "1"}},
        },
        runs=tmp_path / "runs",
        workers=1,
    )
    assert not result.failures
    *of_files, other = result.runs
    assert [run.record.model for run in of_files] == FILES
    for run in of_files:
        assert run.record.metrics["ndcg@2"].mean == 1.0
        assert run.test_scores["query_id"].tolist() == list("aabb")
        assert run.test_scores["score"].tolist() == [1, 0, 1, 0]
    for suffix in ("txt", "npy", "csv", "parquet"):
        code, _, err = ltr(
            "predict", str(other.path), "d.txt", "--reader-option", "regroup=true", "-o", f"out.{suffix}"
        )
        assert code == 0, err
    assert Path("out.txt").read_text().split() == ["1.0", "1.0", "2.0", "2.0"]  # the feature, as in the file
    assert np.load("out.npy").tolist() == [1, 1, 2, 2]
    for table in (pd.read_csv("out.csv"), parquet.read_table("out.parquet").to_pandas()):
        assert table["query_id"].tolist() == list("abab")
        assert table["row"].tolist() == [0, 0, 1, 1]
        assert table["score"].tolist() == [1, 1, 2, 2]


@pytest.mark.long
@pytest.mark.usefixtures("without_report")
def test_a_stored_score_does_not_outlive_another_order_of_the_file(ltr: Cli, tmp_path: Path) -> None:
    """The same queries with the same rows, in another order of the file: one score per line means others now."""
    document = {
        "name": "order",
        "data": {
            "reader": "letor",
            "regroup": True,
            "root": str(tmp_path),
            "splits": {"train": "train.txt", "test": "d.txt"},
        },
        "metrics": {"cutoffs": [2], "report": ["ndcg"], "primary": "ndcg@2"},
        "report": {"formats": ["json"]},
        "models": {"theirs": {"ranker": "scores", "file": str(tmp_path / "s.txt")}},
    }

    def value() -> float | None:
        [run] = run_experiment(document, runs=tmp_path / "runs", workers=1).runs
        return load_run(run.path).record.metrics["ndcg@2"].mean

    assert value() == 1.0
    Path("d.txt").write_text("1 qid:a 1:1\n0 qid:a 1:2\n1 qid:b 1:1\n0 qid:b 1:2\n")
    assert value() == pytest.approx((1 + 1 / np.log2(3)) / 2)  # a: both 1, tied; b: both 0, tied


@pytest.mark.long
@pytest.mark.usefixtures("without_report")
def test_a_run_cannot_hold_ids_with_blanks(ltr: Cli, tmp_path: Path) -> None:
    """It would be read back as another query, document, rank and score."""
    document = {
        "name": "blanks",
        "data": {
            "reader": "letor",
            "root": str(tmp_path),
            "splits": {"train": "train.txt", "test": "other.txt"},
        },
        "metrics": {"cutoffs": [2], "report": ["ndcg"], "primary": "ndcg@2"},
        "report": {"formats": ["json"]},
        "models": {"random": {"ranker": "random"}},
    }
    Path("other.txt").write_text("1 qid:z 1:1\n0 qid:z 1:3\n")
    [run] = run_experiment(document, runs=tmp_path / "runs", workers=1).runs
    Path("new.csv").write_text("query_id,document_id,1\nred shoes,a,1\nred shoes,b,2\n")
    code, _, err = ltr("predict", str(run.path), "new.csv", "-o", "out.run")
    assert (code, Path("out.run").exists()) == (2, False)
    assert "out.run: the fields of a TREC run end with blanks, and query 'red shoes' has one (1 such)" in err
    Path("new.csv").write_text("query_id,document_id,1\nred,a,1\nred,b,2\n")
    assert ltr("predict", str(run.path), "new.csv", "-o", "out.run")[0] == 0
    assert Path("out.run").read_text().startswith("red Q0 ")


def test_the_order_survives_the_cache_and_a_choice_of_queries(tmp_path: Path) -> None:
    (tmp_path / "d.txt").write_text("0 qid:a 1:0\n0 qid:b 1:1\n0 qid:c 1:2\n0 qid:b 1:3\n0 qid:a 1:4\n")
    cache = DataCache(tmp_path / "cache")
    for _ in range(2):  # read, and from the cache
        data = cache.read(Letor(regroup=True), ["d.txt"], tmp_path).dataset
        assert data.file_rows is not None
        assert data.file_rows.tolist() == [0, 4, 1, 3, 2]
        assert data.features[data.file_order, 0].tolist() == [0, 1, 2, 3, 4]
    part = data.take(np.array([0, 1]))  # a and b: rows 0, 1, 3 and 4 of the file
    (tmp_path / "part.txt").write_text("0\n1\n3\n4\n")
    found = read_scores(tmp_path / "part.txt", part.judgments, file_order=part.file_order)
    assert found.tolist() == part.features[:, 0].tolist()


@pytest.mark.long
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.floats(-5, 5)), min_size=1, max_size=30))
def test_any_order_of_rows_gives_what_evaluate_gives(rows: list[tuple[int, int, float]]) -> None:
    queries, labels, scores = (np.array(column) for column in zip(*rows, strict=True))
    data = from_arrays(labels[:, None], labels, query_ids=queries, regroup=True)
    order = np.arange(len(rows)) if data.file_order is None else data.file_order
    np.testing.assert_array_equal(np.asarray(data.groups.ids).repeat(data.groups.sizes)[order], queries)
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder, "s.npy"), scores)
        ours = read_scores(Path(folder, "s.npy"), data.judgments, file_order=data.file_order)
    metric = parse_metric("ndcg@3")
    expected = evaluate(labels, scores, query_ids=queries, metrics=[metric])[metric].per_query
    np.testing.assert_array_equal(
        evaluate_bound(bind([metric], data.judgments), ours)[metric].per_query, expected
    )
