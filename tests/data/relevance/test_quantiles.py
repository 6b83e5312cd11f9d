"""Grades by quantile within queries: pandas as oracle, ties, missing numbers, any order and any cut of the files."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltr_harness import run_experiment
from ltr_harness.data.readers.csv import Csv
from ltr_harness.data.readers.memory import from_frame
from ltr_harness.data.readers.parquet import Parquet
from ltr_harness.data.relevance.labels import quantile_grades
from ltr_harness.data.relevance.rule import Relevance
from ltr_harness.errors import ConfigError, DataError
from ltr_harness.experiments.config import load_data
from ltr_harness.monitoring import monitor

RULE: dict[str, Any] = {"mode": "quantiles", "column": "ret", "bins": 5, "within": "query"}
queries = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([-1.5, -0.0, 0.0, 0.25, 3.0]) | st.floats(-9, 9)),
    min_size=1,
    max_size=40,
)


@given(queries, st.integers(2, 31))
def test_grades_are_those_of_pandas_ranks(rows: list[tuple[int, float]], bins: int) -> None:
    frame = pd.DataFrame(rows, columns=["q", "ret"])
    by_query = frame.groupby("q").ret
    below = by_query.rank(method="min").astype(int) - 1
    expected = bins * below // by_query.transform("size")
    grades = quantile_grades(frame.ret.to_numpy(), frame.q.to_numpy(), bins)
    assert grades.tolist() == expected.tolist()
    assert grades.min() == 0
    assert grades.max() <= bins - 1
    # no rounding: the order is the same
    assert (quantile_grades(4 * frame.ret.to_numpy(), frame.q.to_numpy(), bins) == grades).all()


@pytest.mark.parametrize("bins", [2, 5, 10])
def test_without_ties_equal_parts_are_those_of_qcut(bins: int) -> None:
    rng = np.random.default_rng(bins)
    values = rng.permutation(bins * 12).astype(float)
    expected = pd.qcut(values, bins, labels=False)
    assert quantile_grades(values, np.zeros(values.size, np.int64), bins).tolist() == expected.tolist()


FRAME = pd.DataFrame(
    {
        "query_id": [1] * 5 + [2] * 3,
        "ret": [0.1, -0.2, 0.1, 0.5, 0.9, -1, 2, 2],
        "x": np.arange(8.0),
    }
)
GRADES = [1, 0, 1, 3, 4, 0, 1, 1]


def test_every_reader_and_every_cut_of_the_files(tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "a.csv", index=False)
    FRAME.to_parquet(tmp_path / "a.parquet", row_group_size=2)
    for name, rows in (("b", FRAME[:3]), ("c", FRAME[3:])):
        rows.to_parquet(tmp_path / f"{name}.parquet")
    made = [
        from_frame(FRAME, relevance=RULE),
        Csv(relevance=RULE).read(["a.csv"], tmp_path),
        Parquet(relevance=RULE).read(["a.parquet"], tmp_path),
        Parquet(relevance=RULE, regroup=True).read(["b.parquet", "c.parquet"], tmp_path),
    ]
    for data in made:
        assert data.labels.tolist() == GRADES
        assert data.feature_names == ("x",)
        assert (
            data.cautions[0].text
            == "labels by `relevance`: grades 0 to 4 by the quantile of ret within the query"
        )
    shuffled = FRAME.sample(frac=1, random_state=3)
    data = from_frame(shuffled, relevance=RULE, regroup=True)
    at = dict(zip(FRAME.x, GRADES, strict=True))
    assert data.labels.tolist() == [at[x] for x in data.features[:, 0].tolist()]


def test_missing_numbers_are_what_unlabelled_says() -> None:
    frame = FRAME.assign(ret=FRAME.ret.where(FRAME.x != 3))
    with pytest.raises(DataError, match="numbers are missing or not finite, and quantiles are of numbers"):
        from_frame(frame, relevance=RULE)
    zero = from_frame(frame, relevance={**RULE, "unlabelled": "zero"})
    assert zero.labels.tolist() == [1, 0, 1, 0, 3, 0, 1, 1]
    assert zero.judgments.judged is None
    ignored = from_frame(frame, relevance={**RULE, "unlabelled": "ignore"})
    assert ignored.labels.tolist() == zero.labels.tolist()
    assert ignored.judgments.judged is not None
    assert np.flatnonzero(~ignored.judgments.judged).tolist() == [3]
    with pytest.raises(DataError, match="numbers are missing or not finite"):
        from_frame(FRAME.assign(ret=np.inf), relevance={**RULE, "unlabelled": "zero"})


def test_missed_documents_are_ranked_with_the_candidates() -> None:
    data = from_frame(
        FRAME.assign(found=[1, 1, 1, 1, 0, 1, 1, 1]), relevance=RULE, retrieved="found", features=["x"]
    )
    assert data.labels.tolist() == [1, 0, 1, 3, 0, 1, 1]
    assert data.judgments.missed is not None
    assert data.judgments.missed.labels.tolist() == [4]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"bins": 1}, "data.relevance.bins is 1; expected an integer >= 2 and <= 31"),
        ({"bins": 32}, "data.relevance.bins is 32; expected an integer >= 2 and <= 31"),
        ({"bins": None}, "mode quantiles without bins; expected such as bins: 5"),
        ({"within": "all"}, "data.relevance.within is 'all'; expected 'query'"),
        ({"mode": "label"}, "bins or within with mode label; expected mode quantiles"),
        ({"max_grade": 7}, "max_grade with mode quantiles; expected none: the highest grade is bins - 1"),
        ({"label": "x"}, "unknown key 'column' in data.relevance"),
    ],
)
def test_messages(changed: dict[str, Any], message: str, tmp_path: Path) -> None:
    data = {"reader": "csv", "root": str(tmp_path), "files": ["a.csv"], "folds": 3}
    with pytest.raises(ConfigError) as caught:
        load_data({**data, "relevance": {**RULE, **changed}})
    assert message in str(caught.value)


def test_a_column_of_text_is_named(tmp_path: Path) -> None:
    FRAME.assign(ret="high").to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(DataError, match="ret"):
        Csv(relevance=RULE).read(["a.csv"], tmp_path)
    with pytest.raises(DataError, match="column 'ret'"):
        from_frame(FRAME.assign(ret="high"), relevance=RULE)


def test_monitor_refuses_the_mode() -> None:
    log = pd.DataFrame({"query_id": [1], "item_id": [2], "rank": [1], "ret": [0.5]})
    config = {"columns": {"rank": "rank"}, "metrics": ["ndcg@1"], "relevance": RULE}
    with pytest.raises(ConfigError, match="mode quantiles: a log has only shown documents"):
        monitor(config, log=log, baseline=log)


def test_the_rule_is_the_same_however_it_is_written() -> None:
    rules = [Relevance(**RULE), Relevance(mode="quantiles", label="ret", bins=5)]
    assert rules[0].definition == rules[1].definition
    assert rules[0].definition != Relevance(**{**RULE, "bins": 4}).definition
    assert Relevance(**rules[0].model_dump()) == rules[0]
    assert [rule.scale for rule in rules] == [4, 4]
    assert not {"bins", "within"} & Relevance(label="x").definition.keys()


@pytest.mark.long
@pytest.mark.usefixtures("without_report")
def test_an_experiment_ranks_returns(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"query_id": np.arange(60).repeat(10), "a": rng.normal(size=600)})
    frame["ret"] = (frame.a + rng.normal(size=600)) / 20
    frame.to_parquet(tmp_path / "rows.parquet")
    data = {"reader": "parquet", "root": str(tmp_path), "files": ["rows.parquet"], "folds": 3}
    config = {
        "name": "returns",
        "data": {**data, "relevance": RULE},
        "metrics": {"report": ["ndcg"], "cutoffs": [3], "primary": "ndcg@3"},
        "stopping": None,
        "models": {
            "a": {"ranker": "feature", "feature": "a"},
            "trees": {"ranker": "lightgbm", "rounds": 5, "params": {"num_leaves": 4}},
        },
    }
    result = run_experiment(config, runs=tmp_path / "runs")
    assert {run.record.model: run.record.status for run in result.runs} == {
        "a": "complete",
        "trees": "complete",
    }
    assert "quantile of ret within the query" in "".join(
        path.read_text() for path in (tmp_path / "runs").rglob("record.json")
    )
