"""Documents that nobody judged, values that no float32 holds, and weights in rows: the same options in every format."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from ltr_harness import run_experiment
from ltr_harness.comparison import compare
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.known_sets import SETS
from ltr_harness.data.readers.csv import Csv
from ltr_harness.data.readers.letor import Letor
from ltr_harness.data.readers.lightgbm import LightGbm
from ltr_harness.data.readers.memory import from_frame
from ltr_harness.data.readers.parquet import Parquet
from ltr_harness.errors import Caution, DataError, MetricError, UsageError
from ltr_harness.metrics import bind, parse_metric
from ltr_harness.metrics.evaluation import evaluate_bound
from tests.conftest import named_case, reports_left_out

LARGEST = float(np.finfo(np.float32).max)
LABELS = [2, -1, 0, -1, -1]
QUERIES = ["a", "a", "a", "b", "b"]


def write_formats(folder: Path, values: list[str], labels: list[Any]) -> None:
    """The same rows in every format: one feature."""
    rows = list(zip(labels, QUERIES, values, strict=True))
    (folder / "rows.txt").write_text(
        "".join(f"{label} qid:{query} 1:{value}\n" for label, query, value in rows)
    )
    (folder / "rows").write_text("".join(f"{label} 1:{value}\n" for label, _, value in rows))
    (folder / "table").write_text("".join(f"{label},{value}\n" for label, _, value in rows))
    for name in ("rows", "table"):
        (folder / f"{name}.query").write_text("3\n2\n")
    (folder / "rows.csv").write_text(
        "query_id,label,1\n" + "".join(f"{query},{label},{value}\n" for label, query, value in rows)
    )
    pq.write_table(
        pa.table({"query_id": QUERIES, "label": labels, "1": [float(value) for value in values]}),
        folder / "rows.parquet",
    )


READERS: dict[str, type] = {
    "rows.txt": Letor,
    "rows": LightGbm,
    "table": LightGbm,
    "rows.csv": Csv,
    "rows.parquet": Parquet,
}


def read_file(folder: Path, file: str, **options: Any) -> RankingDataset:
    data: RankingDataset = READERS[file](**options).read([file], folder)
    return data


@pytest.mark.parametrize("file", READERS)
def test_documents_that_nobody_judged(tmp_path: Path, file: str) -> None:
    write_formats(tmp_path, ["5", "4", "3", "2", "1"], LABELS)
    as_values = read_file(tmp_path, file)
    assert as_values.labels.tolist() == LABELS
    with pytest.raises(MetricError, match=r"ndcg@2: label -1 is not a grade.*`unjudged: -1` marks"):
        bind(["ndcg@2", "gauc"], as_values.judgments)
    data = read_file(tmp_path, file, unjudged=-1)
    assert data.labels.tolist() == [2, 0, 0, 0, 0]
    assert data.judgments.judged is not None
    assert data.judgments.judged.tolist() == [True, False, True, False, False]
    assert data.cautions == (
        Caution("unjudged-documents", "note", "3 of 5 documents are not judged (unjudged: -1)"),
    )
    learned = data.training_rows()
    assert learned.labels.tolist() == [2, 0]
    assert learned.features[:, 0].tolist() == [5, 3]
    assert learned.groups.ids.tolist() == data.groups.ids[:1].tolist()
    assert learned.groups.sizes.tolist() == [2]
    assert learned.judgments.judged is None
    assert learned.cautions[-1].text == "training ignores 3 documents that are not judged"
    # judged@2 of a: of its first two one is judged; bpref knows one judged non-relevant document, below the relevant
    found = evaluate_bound(
        bind([parse_metric("judged@2"), parse_metric("bpref")], data.judgments), data.features[:, 0]
    )
    assert found["judged@2"].per_query.tolist() == [0.5, 0.0]
    assert found["bpref"].per_query[0] == 1.0


def test_where_everything_is_judged_nothing_changes(tmp_path: Path) -> None:
    write_formats(tmp_path, ["5", "4", "3", "2", "1"], [2, 1, 0, 1, 0])
    data = read_file(tmp_path, "rows.txt", unjudged=-1)
    assert data.judgments.judged is None
    assert data.training_rows() is data
    write_formats(tmp_path, ["5", "4", "3", "2", "1"], [-2, -1, 0, 1, 0])
    assert read_file(tmp_path, "rows.txt", unjudged=-1).labels.tolist() == [-2, 0, 0, 1, 0]
    write_formats(tmp_path, ["5", "4", "3", "2", "1"], [-1] * 5)
    with pytest.raises(DataError, match=r"rows\.txt: no document is judged"):
        read_file(tmp_path, "rows.txt", unjudged=-1).training_rows()


def test_a_grade_may_mean_that_nobody_judged(tmp_path: Path) -> None:
    write_formats(tmp_path, ["5", "4", "3", "2", "1"], [9, 1, 0, 1, 0])
    data = read_file(tmp_path, "rows.txt", unjudged=9)
    assert data.labels.tolist() == [0, 1, 0, 1, 0]
    assert data.cautions == (
        Caution("unjudged-documents", "note", "1 of 5 documents is not judged (unjudged: 9)"),
    )


@pytest.mark.parametrize("file", READERS)
def test_fewer_grades_are_what_labels_stand_for(tmp_path: Path, file: str) -> None:
    write_formats(tmp_path, ["5", "4", "3", "2", "1"], [-1, 0, 2, 3, 4])
    fewer = {-1: 0, 0: 0, 2: 1, 3: 1, 4: 1.5}
    data = read_file(tmp_path, file, grades=fewer)
    assert data.labels.tolist() == [0, 0, 1, 1, 1.5]
    assert data.cautions == (
        Caution("mapped-labels", "note", "labels by `grades`: -1 is 0, 0 is 0, 2 is 1, 3 is 1, 4 is 1.5"),
    )
    del fewer[4]
    with pytest.raises(DataError, match=r"4.*; expected one of -1, 0, 2, 3, as `grades` maps them") as caught:
        read_file(tmp_path, file, grades=fewer)
    (problem,) = caught.value.problems
    assert re.search(r":(5|6)$|row 5$", problem.place), "the row is named"
    del fewer[-1]
    data = read_file(tmp_path, file, grades={**fewer, "4.0": 2}, unjudged=-1)
    assert data.labels.tolist() == [0, 0, 1, 1, 2]
    assert data.judgments.judged is not None
    assert data.judgments.judged.tolist() == [False, True, True, True, True]


@pytest.mark.parametrize("file", ["table", "rows.csv", "rows.parquet"])
def test_words_are_grades(tmp_path: Path, file: str) -> None:
    write_formats(tmp_path, ["5", "4", "3", "2", "1"], ["bad", "very good", "2", "fair", "bad"])
    words = {"bad": 0, "fair": 1, "2": 2, "very good": 3}
    assert read_file(tmp_path, file, grades=words).labels.tolist() == [0, 3, 2, 1, 0]
    del words["fair"], words["2"]
    with pytest.raises(
        DataError,
        match=r"column 'label' contains '2', 'fair' \(2 rows, this is the first\); expected one of bad, very good",
    ) as caught:
        read_file(tmp_path, file, grades=words)
    assert len(caught.value.problems) == 1


RANGES = [
    {"0-1.9": 0, "2-3.9": 1, "4 - 5": 2},
    {"<2": 0, "2-<4": 1, ">=4": 2},
    {"bins": [2, 4]},
    {"-1-1.9": 0, "2": 1, "3.1": 1, ">=4": 2},
]


def test_ranges_of_labels_are_grades(tmp_path: Path) -> None:
    write_formats(tmp_path, ["5", "4", "3", "2", "1"], [0, 1.9, 2, 3.1, 4])
    for file in READERS:
        for grades in RANGES:
            with named_case((file, grades)):
                data = read_file(tmp_path, file, grades=grades)
                assert data.labels.tolist() == [0, 0, 1, 1, 2]
        refusal = r"1\.9.*; expected one of 0-1, 2-4, as `grades` maps them"
        with named_case(file), pytest.raises(DataError, match=refusal):
            read_file(tmp_path, file, grades={"0-1": 0, "2-4": 1})


def test_bins_say_what_they_are(tmp_path: Path) -> None:
    write_formats(tmp_path, ["5", "4", "3", "2", "1"], [0, 1, 2, 3, 4])
    data = read_file(tmp_path, "rows.csv", grades={"bins": [2, 4]})
    assert data.cautions == (
        Caution("mapped-labels", "note", "labels by `grades`: <2 is 0, 2-<4 is 1, >=4 is 2"),
    )
    assert Csv(grades={"bins": [2, 4]}) == Csv(grades={"<2": 0, "2-<4": 1, ">=4": 2})


def test_frames_of_categories_and_of_numbers_with_gaps_are_mapped() -> None:
    frame = pd.DataFrame({"query_id": [1, 1], "x": [0.5, 1.0], "label": pd.Categorical(["no", "yes"])})
    assert from_frame(frame, grades={"no": 0, "yes": 1}).labels.tolist() == [0, 1]
    frame["label"] = [True, False]
    assert from_frame(frame, grades={0: 0, 1: 3}).labels.tolist() == [3, 0]
    frame["label"] = [1.0, np.nan]
    with pytest.raises(DataError, match=r"row 2: column 'label' is empty; expected one of 1"):
        from_frame(frame, grades={1: 1})
    frame["label"] = pd.to_datetime(["2026-01-01", "2026-01-02"])
    with pytest.raises(DataError, match=r"column 'label' has the type timestamp.*; expected labels"):
        from_frame(frame, grades={1: 1})


REFUSED_GRADES = [
    ({"grades": {}}, "at least one label"),
    ({"grades": {"1": 0, "1.0": 1}}, "1 and 1.0 are the same number"),
    ({"grades": {"0-2": 0, "2-4": 1}}, "0-2 and 2-4 both hold 2"),
    ({"grades": {"bins": [4, 2]}}, "each of the bins above the one before"),
    ({"grades": {"bins": []}}, "bins is not a list of numbers"),
    ({"grades": {"bins": ["a"]}}, "bins is not a list of numbers"),
    ({"grades": {"bad": -1}}, "greater than or equal to 0"),
    ({"grades": {"-1": 0}, "unjudged": -1}, "grades names -1, which unjudged marks as not judged"),
    ({"grades": {"3": 9}, "unjudged": 9}, "grades names 9, which unjudged"),
]


def test_grades_that_cannot_be_meant() -> None:
    for options, said in REFUSED_GRADES:
        with named_case(said), pytest.raises(ValidationError, match=said):
            Csv(**options)


@pytest.mark.long
def test_grades_hold_for_every_split_are_stored_and_are_other_data(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for name in ("train", "test"):
        worth = rng.normal(size=80)
        words = np.array(["bad", "fair", "good"])[np.digitize(worth, [0, 1])]
        rows = pd.DataFrame({"query_id": np.repeat(np.arange(10), 8), "label": words, "x": worth})
        rows["query_id"] += 100 * (name == "test")
        rows.to_csv(tmp_path / f"{name}.csv", index=False)
    (tmp_path / "e.yaml").write_text(
        "name: e\ndata:\n  reader: csv\n  grades: {bad: 0, fair: 1, good: 2}\n"
        "  splits: {train: train.csv, test: test.csv}\nstopping: null\n"
        "models: {x: {ranker: feature, feature: x}, r: {ranker: random}}\nreport: {formats: [md]}\n"
    )
    how: Any = {"runs": tmp_path / "runs", "accept": ["leaking-feature"]}
    found = run_experiment(tmp_path / "e.yaml", **how)
    assert found.report_path is not None
    page = found.report_path.with_suffix(".md").read_text()
    said = "bad is 0, fair is 1, good is 2"
    assert f"alike in all splits: {said}." in page
    with reports_left_out():
        again = run_experiment(tmp_path / "e.yaml", overrides=["data.grades.good=1"], **how)
    assert again.reused == 0
    with pytest.raises(UsageError, match="the test data differ from those of x: same queries, other labels"):
        compare([found.runs[0].path, again.runs[1].path])


def test_experiments_learn_from_judged_documents_alone(tmp_path: Path) -> None:
    from ltr_harness.experiments.config import load_experiment
    from ltr_harness.experiments.training.folds import FoldReader

    write_formats(tmp_path, ["5", "4", "3", "2", "1"], LABELS)
    data: dict[str, Any] = {"reader": "letor", "root": str(tmp_path), "unjudged": -1}
    (tmp_path / "test.txt").write_bytes((tmp_path / "rows.txt").read_bytes())
    data["splits"] = {"train": "rows.txt", "test": "test.txt"}
    experiment = load_experiment({"name": "e", "data": data, "models": {"r": {"ranker": "random"}}})
    fold = FoldReader(experiment.data).read("all")
    assert fold.train.labels.tolist() == [2, 0]
    assert fold.facts["train"].n_rows == 2
    assert fold.test.labels.tolist() == [2, 0, 0, 0, 0]
    assert "training ignores 3 documents that are not judged" in map(str, fold.train.cautions)


HUGE = ["1e137", "-inf", "1", "-3.5e38", "1.7976931348623157e+400"]


@pytest.mark.parametrize("file", READERS)
def test_values_that_no_float32_holds(tmp_path: Path, file: str) -> None:
    write_formats(tmp_path, HUGE, [1, 0, 1, 0, 0])
    with pytest.raises(DataError, match="float32") as caught:
        read_file(tmp_path, file)
    by_line = file in ("rows", "rows.txt")
    assert len(caught.value.problems) == (4 if by_line else 1)
    assert by_line or "contains 1e+137, -inf, -3.5e+38, … (4 rows, this is the first)" in str(caught.value)
    clipped = read_file(tmp_path, file, beyond_float32="clip")
    assert clipped.features[:, 0].tolist() == [LARGEST, -LARGEST, 1, -LARGEST, LARGEST]
    assert clipped.cautions == (
        Caution(
            "values-beyond-float32",
            "note",
            "4 values beyond float32 are clipped to its range (beyond_float32: clip)",
        ),
    )
    missing = read_file(tmp_path, file, beyond_float32="missing")
    np.testing.assert_array_equal(missing.features[:, 0], [np.nan, np.nan, 1, np.nan, np.nan])
    assert missing.cautions == (
        Caution(
            "values-beyond-float32",
            "note",
            "4 values beyond float32 are taken as missing (beyond_float32: missing)",
        ),
    )
    write_formats(tmp_path, ["1", "2", "3", "4", "5e99"], [1, 0, 1, 0, 0])
    assert tuple(map(str, read_file(tmp_path, file, beyond_float32="clip").cautions)) == (
        "1 value beyond float32 is clipped to its range (beyond_float32: clip)",
    )
    write_formats(tmp_path, ["1", "2", "3", "4", "5"], [1, 0, 1, 0, 0])
    assert read_file(tmp_path, file, beyond_float32="clip").cautions == ()


def test_a_value_beyond_float32_that_a_later_one_replaces(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1 qid:1 1:1e39 1:7\n0 qid:1 1:1e400 1:8\n0 qid:1 1:9 1:-1e400\n")
    data = Letor(beyond_float32="clip").read(["a.txt"], tmp_path)
    assert data.features[:, 0].tolist() == [7, 8, -LARGEST]


def test_istella_as_published(tmp_path: Path) -> None:
    """Sample rows on the pages of those who publish it hold 120:1e137."""
    for name in ("istella", "istella-s", "istella-x"):
        options = {key: value for key, value in SETS[name].reader.items() if key != "reader"}
        (tmp_path / "a.txt").write_text("1 qid:1 119:1 120:1e137\n")
        assert Letor(**options).read(["a.txt"], tmp_path).features[0, 119] == np.float32(LARGEST)


def test_weights_of_rows_as_xgboost_has_them(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1:2 qid:1 1:1\n0:4 qid:1 1:2\n2:0.5 qid:2 1:3\n")
    data = Letor().read(["a.txt"], tmp_path)
    assert data.labels.tolist() == [1, 0, 2]
    assert data.judgments.query_weights is not None
    assert data.judgments.query_weights.tolist() == [(2 + 4) / 2, 0.5]
    assert data.row_weights is not None
    assert data.row_weights.tolist() == [2, 4, 0.5]
    (tmp_path / "a.txt").write_text(
        "1:1.00000005960464477539062500 qid:1 1:1\n"
    )  # Python decides its last bit
    weights = Letor().read(["a.txt"], tmp_path).judgments.query_weights
    assert weights is not None
    assert weights.tolist() == [float("1.00000005960464477539062500")]
    (tmp_path / "a.txt").write_text("1:2 qid:1 1:1\n0 qid:1 1:2\n")
    with pytest.raises(
        DataError, match=r"a\.txt: only 1 of 2 rows have a weight; expected label:weight in every"
    ):
        Letor().read(["a.txt"], tmp_path)


def test_without_query_ids_a_colon_in_the_label_is_a_label_that_is_missing(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1:0.5 2:0.5\n")
    (tmp_path / "a.query").write_text("1\n")
    with pytest.raises(DataError, match=r"a:1: the label is '1:0\.5'"):
        LightGbm().read(["a"], tmp_path)


def test_xgboost_reads_the_same_weights(tmp_path: Path) -> None:
    import xgboost

    text = "1:2 qid:1 1:1\n0:4 qid:1 1:2\n2:0.5 qid:2 1:3\n"
    (tmp_path / "a.txt").write_text(text)
    with xgboost.config_context(verbosity=0):  # it warns that its text loader will go
        theirs = xgboost.DMatrix(f"{tmp_path}/a.txt?format=libsvm")
    assert theirs.get_weight().tolist() == [2, 4, 0.5]
    assert theirs.get_label().tolist() == Letor().read(["a.txt"], tmp_path).labels.tolist()
