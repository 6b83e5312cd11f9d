"""Texts as categorical features: each booster learns from them, and a stored run knows them again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ltr_harness import run_experiment
from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.data.cache import DataCache, Fingerprints
from ltr_harness.data.readers.csv import Csv
from ltr_harness.data.readers.memory import from_frame
from ltr_harness.data.writers import write_dataset
from ltr_harness.errors import DataError, HarnessError
from ltr_harness.experiments.runs import Run, load_run
from ltr_harness.experiments.training.reproduce import reproduce

# neither the order of the alphabet nor that in which they occur is that of their worth
GRADES = {"rust": 1, "ash": 0, "dune": 2, "clay": 1, "moss": 0, "bone": 2}
BOOSTERS = {
    "lightgbm": {
        "ranker": "lightgbm",
        "rounds": 60,
        "params": {"min_data_in_leaf": 1, "min_data_per_group": 1, "cat_smooth": 0, "cat_l2": 0},
    },
    "xgboost": {"ranker": "xgboost", "rounds": 60},
    "catboost": {
        "ranker": "catboost",
        "rounds": 60,
        "params": {"learning_rate": 0.3, "one_hot_max_size": 10},
    },
}


def _frame(queries: range, colours: tuple[str, ...] = tuple(GRADES)) -> pd.DataFrame:
    rows = [(query, GRADES[colour], 1.0, colour) for query in queries for colour in colours]
    return pd.DataFrame(rows, columns=["query_id", "label", "noise", "colour"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("colours")
    _frame(range(40)).to_csv(folder / "train.csv", index=False)
    _frame(range(40, 50), ("rust", "dune", "bone")).to_csv(folder / "test.csv", index=False)
    return folder


def _configuration(folder: Path, models: dict[str, Any], **options: Any) -> dict[str, Any]:
    return {
        "name": "colours",
        "data": {
            "reader": "csv",
            "root": str(folder),
            "splits": {"all": {"train": "train.csv", "test": "test.csv"}},
            **options,
        },
        "metrics": {"cutoffs": [3], "report": ["ndcg"], "primary": "ndcg@3"},
        "report": {"formats": ["json"]},
        "models": models,
    }


@pytest.fixture(scope="module")
def runs(folder: Path, module_without_report: None) -> dict[str, Run]:
    for package in ("lightgbm", "xgboost", "catboost"):
        pytest.importorskip(package)
    configuration = _configuration(folder, BOOSTERS, categorical=["colour"])
    result = run_experiment(configuration, runs=folder / "runs", workers=1)
    return {run.record.model: run for run in result.runs}


@pytest.mark.long
@pytest.mark.parametrize("model", BOOSTERS)
def test_what_a_text_decides_is_learned(model: str, runs: dict[str, Run]) -> None:
    record = runs[model].record
    assert record.error is None
    assert record.metrics["ndcg@3"].mean == pytest.approx(1.0)
    assert record.categories == {"colour": sorted(GRADES)}
    assert "categories in test.csv: colour" in map(str, record.cautions)


@pytest.mark.long
@pytest.mark.parametrize("model", BOOSTERS)
def test_predict_knows_the_texts_again(model: str, runs: dict[str, Run], tmp_path: Path) -> None:
    new = _frame(range(1), ("rust", "bone", "ash"))[["colour", "noise", "query_id"]]
    strange = pd.DataFrame({"colour": ["never seen", ""], "noise": [1.0, 1.0], "query_id": [0, 0]})
    new = pd.concat([new, strange], ignore_index=True)
    new.to_csv(tmp_path / "new.csv", index=False)
    out = tmp_path / "scores.npy"
    assert (
        run_command(cli, ["predict", str(runs[model].path), str(tmp_path / "new.csv"), "-o", str(out)]) == 0
    )
    rust, bone, ash, unseen, missing = np.load(out)
    assert bone > rust > ash
    assert unseen == missing
    again = load_run(runs[model].path)
    with pytest.warns(UserWarning, match="1 row has a text in 'colour' that training never saw"):
        assert again.score(new[["noise", "colour"]].replace("", None)).tolist() == np.load(out).tolist()
    typed = new.assign(label=0, colour=new["colour"].replace("", None).astype("category"))
    with pytest.warns(UserWarning, match="1 row has a text in 'colour' that training never saw"):
        assert again.score_split(from_frame(typed)).tolist() == np.load(out).tolist()


@pytest.mark.long
def test_a_run_is_reproduced(runs: dict[str, Run]) -> None:
    assert reproduce(runs["lightgbm"].path, threads=runs["lightgbm"].record.threads).identical


def test_a_number_where_training_had_texts_is_refused(runs: dict[str, Run]) -> None:
    frame = _frame(range(1)).assign(colour=1.0)
    with pytest.raises(DataError, match=r"feature 'colour' is a number and in the train split a category"):
        runs["lightgbm"].score_split(from_frame(frame))


def test_a_record_without_categories_is_read(runs: dict[str, Run]) -> None:
    record = runs["lightgbm"].record
    old = json.loads(record.model_dump_json())
    del old["categories"]
    assert type(record).model_validate(old).categories == {}


def test_codes_are_those_of_training(folder: Path) -> None:
    data = _configuration(folder, {"r": {"ranker": "random"}}, categorical=["colour"])["data"]
    (folder / "few.csv").write_text(
        "query_id,label,noise,colour\n1,1,0,dune\n1,0,0,zinc\n1,0,0,\n2,0,0,ash\n"
    )
    from ltr_harness.experiments.config import load_experiment
    from ltr_harness.experiments.training.folds import FoldReader

    data["splits"] = {"all": {"train": "few.csv", "test": "test.csv"}}
    configuration = {**_configuration(folder, {"r": {"ranker": "random"}}), "data": data}
    for _ in range(2):  # read, and from the cache
        fold = FoldReader(load_experiment(configuration).data, DataCache(folder / "cache")).read("all")
        assert fold.train.categories == fold.test.categories == {"colour": ("ash", "dune", "zinc")}
        np.testing.assert_array_equal(fold.train.features[:, 1], [1, 2, np.nan, 0])
        np.testing.assert_array_equal(fold.test.features[:3, 1], [np.nan, 1, np.nan])
        said = "20 rows have a text in 'colour' that training never saw; there it is missing"
        assert said in map(str, fold.test.cautions)


def test_a_frame_of_categories_is_the_same_data_as_the_file(folder: Path) -> None:
    frame = _frame(range(40))
    typed = from_frame(frame.astype({"colour": "category"}))
    read = Csv(categorical=("colour",)).read(["train.csv"], folder)
    assert Fingerprints.of(typed) == Fingerprints.of(read)
    assert typed.categories == {"colour": tuple(sorted(GRADES))}
    plain = from_frame(frame)
    assert (plain.feature_names, plain.categories) == (("noise",), {})


def test_other_texts_are_other_data(tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("query_id,label,c\n1,0,a\n1,1,b\n")
    (tmp_path / "two.csv").write_text("query_id,label,c\n1,0,b\n1,1,c\n")
    reader = Csv(categorical=("c",))
    one, two = (reader.read([name], tmp_path) for name in ("one.csv", "two.csv"))
    assert one.features.tolist() == two.features.tolist()
    assert Fingerprints.of(one) != Fingerprints.of(two)


def test_files_with_texts_of_their_own_are_joined(tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("query_id,label,c\n1,0,b\n1,1,d\n")
    (tmp_path / "two.csv").write_text("query_id,label,c\n2,0,a\n2,1,b\n")
    data = Csv(categorical=("c",)).read(["one.csv", "two.csv"], tmp_path)
    assert data.categories == {"c": ("a", "b", "d")}
    assert data.features.ravel().tolist() == [1, 2, 0, 1]


@pytest.mark.parametrize(
    "model",
    [{"ranker": "feature", "feature": "colour"}, {"ranker": "linear", "weights": {"noise": 1, "colour": 1}}],
)
def test_a_ranker_that_wants_quantities_says_so(folder: Path, model: dict[str, Any]) -> None:
    configuration = _configuration(folder, {"one": model}, categorical=["colour"])
    with pytest.raises(HarnessError, match="feature 'colour' is categorical: its codes have no order"):
        run_experiment(configuration, runs=folder / "none", workers=1)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_texts_are_written_as_texts(form: str, folder: Path, tmp_path: Path) -> None:
    data = Csv(categorical=("colour",)).read(["train.csv"], folder)
    path = tmp_path / f"copy.{form}"
    cautions = write_dataset(data, path, form)
    assert ("categorical=[colour]" in " ".join(map(str, cautions))) == (form == "csv")
    frame = pd.read_csv(path) if form == "csv" else pd.read_parquet(path)
    assert frame["colour"].tolist() == _frame(range(40))["colour"].tolist()


def test_what_is_no_category_is_refused() -> None:
    frame = _frame(range(1)).assign(colour=1.5)
    with pytest.raises(DataError, match="the categorical column 'colour' has the type double"):
        from_frame(frame, categorical=["colour"])


def test_init_proposes_texts_of_few_kinds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = _frame(range(80))
    frame["noise"] = np.random.default_rng(0).normal(size=len(frame))
    frame["words"] = [f"query {query}" for query in frame["query_id"]]  # as many as queries
    frame["day"] = ["2024-01-01", "2024-01-02"] * 240
    frame["user_id"] = ["ann", "bob"] * 240
    frame["price"] = ["low", ""] * 240  # one text, and nothing
    frame.to_csv(tmp_path / "rows.csv", index=False)
    written = tmp_path / "e.yaml"
    assert run_command(cli, ["init", str(tmp_path / "rows.csv"), "-o", str(written)]) == 0
    assert "categories in rows.csv: colour" in capsys.readouterr().out
    assert "  categorical: [colour]\n" in written.read_text()
