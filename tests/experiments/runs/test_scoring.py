"""Rows for a stored model: frames by name, arrays by place, sparse matrices in blocks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_matrix

from ltr_harness import run_experiment
from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.data import from_arrays, from_frame
from ltr_harness.errors import DataError
from ltr_harness.experiments.runs import Run, scoring

FEATURES = ["bm25", "visits", "age"]
TABLES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "lazy": lambda frame: pl.from_pandas(frame).lazy(),
    "arrow": lambda frame: pl.from_pandas(frame).to_arrow(),
}


def rows_of(seed: int, n_queries: int = 40) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    n = 10 * n_queries
    frame = pd.DataFrame(draw.normal(size=(n, 3)) * [1, 100, 10], columns=FEATURES)
    frame.insert(0, "query_id", np.repeat(np.arange(n_queries), 10))
    frame["colour"] = draw.choice(["red", "green", "blue"], n)
    shift = frame.colour.map({"red": 0.0, "green": 0.5, "blue": 1.0})
    frame["label"] = (frame.bm25 + frame.visits / 200 + shift + draw.normal(size=n) > 1).astype(int)
    return frame


def trained_on(folder: Path, **columns: Any) -> Run:
    train, test = (from_frame(rows_of(seed), **columns) for seed in (1, 2))
    model = {"ranker": "lightgbm", "objective": "lambdarank", "rounds": 20}
    config = {"name": "scored", "data": {"train": train, "test": test}, "models": {"lgbm": model}}
    (run,) = run_experiment(config, runs=folder).runs
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, module_without_report: None) -> Run:
    return trained_on(tmp_path_factory.mktemp("numbers"), features=FEATURES)


@pytest.fixture(scope="module")
def with_texts(tmp_path_factory: pytest.TempPathFactory, module_without_report: None) -> Run:
    return trained_on(tmp_path_factory.mktemp("texts"), features=FEATURES, categorical=["colour"])


@pytest.fixture(scope="module")
def scores(run: Run) -> NDArray[np.float64]:
    return run.test_scores["score"].to_numpy()


@pytest.mark.parametrize("kind", TABLES)
def test_columns_of_a_frame_are_found_by_name(run: Run, scores: NDArray[np.float64], kind: str) -> None:
    frame = TABLES[kind](rows_of(2)[["age", "bm25", "visits"]])
    assert run.score(frame).tolist() == scores.tolist()


@pytest.mark.parametrize("kind", TABLES)
def test_further_columns_are_left_out_with_a_warning(
    run: Run, scores: NDArray[np.float64], kind: str
) -> None:
    found = "frame: ignored 3 columns that lgbm was not trained on: query_id, colour, label"
    with pytest.warns(UserWarning, match=found) as caught:
        assert run.score(TABLES[kind](rows_of(2))).tolist() == scores.tolist()
    assert [one.filename for one in caught] == [__file__]


@pytest.mark.parametrize("kind", TABLES)
def test_a_frame_without_a_feature_is_refused_by_its_name(run: Run, kind: str) -> None:
    found = "frame: lacks 2 features .visits, age.; expected every feature that lgbm was trained on"
    with pytest.raises(DataError, match=found):
        run.score(TABLES[kind](rows_of(2)[["bm25", "label"]]))


def test_what_arrow_cannot_hold_may_stand_beside_the_features(run: Run, scores: NDArray[np.float64]) -> None:
    frame = rows_of(2)[FEATURES].assign(note=[{1, "b"} if at % 2 else 3 for at in range(400)])
    with pytest.warns(UserWarning, match="ignored 1 column .* note"):
        assert run.score(frame).tolist() == scores.tolist()


def test_a_frame_without_rows_has_no_scores(run: Run) -> None:
    assert run.score(rows_of(2)[FEATURES][:0]).shape == (0,)


@pytest.mark.usefixtures("without_report")
def test_a_feature_may_have_the_name_of_ids_elsewhere(tmp_path: Path) -> None:
    train, test = rows_of(1), rows_of(2)
    sets = [
        from_arrays(
            frame[FEATURES].to_numpy(),
            frame["label"],
            query_ids=frame["query_id"],
            feature_names=["document_id", "visits", "age"],
        )
        for frame in (train, test)
    ]
    model = {"ranker": "lightgbm", "objective": "lambdarank", "rounds": 5}
    data = {"train": sets[0], "test": sets[1]}
    (run,) = run_experiment({"name": "names", "data": data, "models": {"lgbm": model}}, runs=tmp_path).runs
    frame = test[["age", "visits", "bm25"]].rename(columns={"bm25": "document_id"})
    assert run.score(frame).tolist() == run.test_scores["score"].tolist()


def test_texts_are_those_of_training_and_unseen_ones_are_said(with_texts: Run) -> None:
    frame = rows_of(2)[["colour", *FEATURES]]
    scores = with_texts.test_scores["score"].tolist()
    assert with_texts.score(frame).tolist() == scores
    assert with_texts.score(pl.from_pandas(frame)).tolist() == scores
    found = "1 row has a text in 'colour' that training never saw"
    with pytest.warns(UserWarning, match=found):
        with_texts.score(frame.assign(colour=["pink", *frame.colour[1:]]))
    with pytest.raises(DataError, match="lacks the feature colour"):
        with_texts.score(frame[FEATURES])


@pytest.mark.parametrize("form", [csr_matrix, coo_array])
def test_sparse_matrices_are_scored_in_blocks(run: Run, form: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.where(rows_of(2)[FEATURES] > 0, rows_of(2)[FEATURES], 0)
    monkeypatch.setattr(scoring, "BLOCK", 8 * 3 * 7)
    assert run.score(form(rows)).tolist() == run.score(rows).tolist()
    assert run.score(form((0, 3))).shape == (0,)
    for n_rows in (0, 5):
        with pytest.raises(DataError, match=r"lgbm was trained on 3 columns: expected shape \(n_rows, 3\)"):
            run.score(form((n_rows, 4)))


@pytest.mark.parametrize(
    ("features", "found"),
    [
        (np.ones((2, 4)), r"features of shape \(2, 4\); lgbm was trained on 3 columns"),
        (np.ones(3), r"features of shape \(3,\)"),
        (np.ones((1, 2, 3)), r"features of shape \(1, 2, 3\)"),
        (coo_array(np.ones(3)), r"features of shape \(3,\)"),
        ([[1, 2, 3], [1, 2]], "features are not numbers"),
        ({"bm25": [1.0]}, "features are not numbers"),
        (pd.Series([1.0, 2.0, 3.0]), r"features of shape \(3,\)"),
    ],
)
def test_arrays_of_other_shapes_are_refused(run: Run, features: Any, found: str) -> None:
    with pytest.raises(DataError, match=found):
        run.score(features)


def test_a_model_by_itself_takes_no_columns_by_place(run: Run) -> None:
    with pytest.raises(DataError, match=r"`Run.score` finds columns by name; .to_numpy\(\)"):
        run.model.score(rows_of(2)[["age", "bm25", "visits"]])
    with pytest.raises(DataError, match=r"features are a sparse matrix; .* such as .toarray\(\) gives"):
        run.model.score(csr_matrix(np.ones((2, 3))))


def test_a_sparse_matrix_is_no_array_of_another_shape() -> None:
    """Its size is no reason to refuse it: tests/data/test_features.py."""
    with pytest.raises(DataError, match=r"features have shape \(3,\)"):
        from_arrays(coo_array(np.ones(3)), np.zeros(3), group_sizes=[3])


def test_a_feature_that_is_missing_throughout_is_said(run: Run) -> None:
    frame = rows_of(2)[FEATURES].assign(visits=np.nan)
    found = "the feature visits is missing in all 400 rows; check whether that is intended"
    for rows in (frame, frame.to_numpy()):
        with pytest.warns(UserWarning, match=found):
            run.score(rows)
    of_one_query = frame[:5]
    assert run.score(of_one_query).shape == (5,)
    split = from_frame(rows_of(2).assign(visits=np.nan), features=FEATURES)
    with pytest.warns(UserWarning, match=found):
        run.score_split(split)


def test_columns_of_a_dataset_that_the_model_does_not_know_are_said(run: Run) -> None:
    split = from_frame(rows_of(2).assign(price=1.5), features=[*FEATURES, "price"])
    with pytest.warns(UserWarning, match="frame: ignored 1 column that lgbm was not trained on: price"):
        run.score_split(split)


def test_predict_says_what_it_read_past(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows_of(2).assign(visits=np.nan, price=1.5).to_parquet(tmp_path / "new.parquet")
    command = ["predict", str(run.path), str(tmp_path / "new.parquet"), "-o", str(tmp_path / "s.npy")]
    assert run_command(cli, command) == 0
    err = capsys.readouterr().err
    assert "ignored 2 columns that lgbm was not trained on: colour, price" in err
    assert "the feature visits is missing in all 400 rows; check whether that is intended" in err


def test_values_in_other_units_are_said(
    run: Run, with_texts: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ranges = run.ranges
    assert ranges is not None
    training = rows_of(1)[FEATURES].astype(np.float32)
    assert ranges["feature"].tolist() == FEATURES
    np.testing.assert_array_equal(ranges[["low", "high"]], np.column_stack([training.min(), training.max()]))
    assert with_texts.ranges["feature"].tolist() == FEATURES  # type: ignore[index]
    rows = rows_of(2)
    run.score(rows[FEATURES])  # warnings are errors
    other = rows.assign(age=rows.age * 1000)
    said = "values of the feature age exceed 10 times their range in training"
    with pytest.warns(UserWarning, match=said):
        run.score(other[FEATURES])
    with pytest.warns(UserWarning, match=said):
        run.score(other[FEATURES].to_numpy())
    other.to_csv(tmp_path / "other.csv", index=False)
    code = run_command(
        cli, ["predict", str(run.path), str(tmp_path / "other.csv"), "-o", str(tmp_path / "scores.csv")]
    )
    assert (code, said in " ".join(capsys.readouterr().err.split())) == (0, True)
