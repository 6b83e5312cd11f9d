"""Weights that halve with age, from a configuration to trees: in folds in time, and in training rows alone."""

from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import pytest

from ltr_harness import run_experiment
from ltr_harness.errors import ConfigError, DataError
from ltr_harness.experiments.config import load_data
from ltr_harness.experiments.training.folds import FoldReader
from ltr_harness.models.dask import _columns


@pytest.fixture
def data(tmp_path: Path) -> dict[str, Any]:
    rng = np.random.default_rng(4)
    n = 120
    day = pd.date_range("2023-01-01", periods=n).repeat(6).strftime("%Y-%m-%d")
    frame = pd.DataFrame({"query_id": np.arange(n).repeat(6), "day": day})
    frame[["a", "b"]] = rng.normal(size=(6 * n, 2)).round(3)
    frame["label"] = (frame.a + rng.normal(size=6 * n) > 0.5).astype(int)
    frame.to_parquet(tmp_path / "rows.parquet")
    return {
        "reader": "parquet",
        "root": str(tmp_path),
        "files": ["rows.parquet"],
        "attributes": ["day"],
        "weight": {"half_life": "10 days", "by": "day"},
        "folds": {"by_time": "day", "test": "2 weeks", "valid": "1 week", "at_most": 2},
    }


def test_each_fold_counts_back_from_the_end_of_its_training_part(data: dict[str, Any]) -> None:
    reader, plain = FoldReader(load_data(data)), FoldReader(load_data({**data, "weight": None}))
    ends = []
    for name in reader.names():
        fold, other = reader.read(name), plain.read(name)
        days = pd.to_datetime(fold.train.query_attributes["day"])
        ends.append(days.max())
        expected = 0.5 ** ((days.max() - days).days.to_numpy() / 10)
        np.testing.assert_allclose(fold.train.weights_of_queries(), expected, rtol=1e-9)  # type: ignore[arg-type]
        assert all(part.judgments.query_weights is None for part in fold.splits.values())
        for side in ("valid", "test"):
            assert fold.facts[side].judgments_fingerprint == other.facts[side].judgments_fingerprint
        assert fold.facts["train"].fingerprint != other.facts["train"].fingerprint
        parts = [
            _columns(fold.train.take(queries), lambda part: part, 0, float(fold.train.half_lives.max()))  # type: ignore[union-attr]
            for queries in np.array_split(np.arange(fold.train.n_queries), 2)
        ]
        weights = np.concatenate([part["weights"] for part in parts])
        np.testing.assert_array_equal(weights, fold.train.weights_of_rows())
    assert ends[0] < ends[1]


@pytest.mark.long
@pytest.mark.usefixtures("without_report")
def test_a_run_grows_the_trees_of_lightgbm_with_these_weights(data: dict[str, Any], tmp_path: Path) -> None:
    config = {
        "name": "aged",
        "data": {**data, "folds": {**data["folds"], "at_most": 1}},
        "metrics": {"report": ["ndcg"], "cutoffs": [5], "primary": "ndcg@5"},
        "stopping": None,
        "models": {
            "aged": {"ranker": "lightgbm", "rounds": 5, "params": {"num_leaves": 4}},
            "queries": {"ranker": "xgboost", "rounds": 2},
        },
        "seeds": [3],
    }
    run_experiment(config, runs=tmp_path / "runs")
    [model] = (tmp_path / "runs").rglob("model.txt")
    frame = pd.read_parquet(tmp_path / "rows.parquet")
    fold = FoldReader(load_data(config["data"])).time_folds[0].parts["train"]  # type: ignore[arg-type]
    rows = frame[(frame.day >= str(fold.begin)) & (frame.day < str(fold.end))]
    ages = (pd.to_datetime(rows.day).max() - pd.to_datetime(rows.day)).dt.days
    train = lightgbm.Dataset(
        rows[["a", "b"]].to_numpy(np.float32),
        rows.label,
        group=np.full(len(rows) // 6, 6),
        weight=0.5 ** (ages / 10),
    )
    own = {"objective": "lambdarank", "num_leaves": 4, "seed": 3, "verbosity": -1, "num_threads": 1}
    booster = lightgbm.train({**own, "deterministic": True, "force_row_wise": True}, train, 5)
    trees = [
        text.partition("Tree=0")[2].partition("end of trees")[0]
        for text in (booster.model_to_string(), model.read_text())
    ]
    assert trees[0] == trees[1]


def test_a_part_without_weight_is_refused(data: dict[str, Any], tmp_path: Path) -> None:
    frame = pd.read_parquet(tmp_path / "rows.parquet")
    frame.assign(w=(frame.query_id < 110).astype(int)).to_parquet(tmp_path / "rows.parquet")
    split = {"train": "rows.parquet", "test": {"holdout": 0.05, "by_time": "day"}}
    section = {key: value for key, value in data.items() if key not in ("folds", "files")}
    reader = FoldReader(load_data({**section, "weight": "w", "splits": split}))
    with pytest.raises(
        DataError, match=r"\(held out\): all weights are 0; expected at least one above 0 in each"
    ):
        reader.read("all")


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ({"half_life": "10 days"}, "data: weight.half_life without times; expected `by:`"),
        (
            {"half_life": "0 days", "by": "day"},
            "data.weight.half_life is '0 days'; expected a number of days",
        ),
        ({"halflife": "3 days"}, "half_life"),
    ],
)
def test_messages(data: dict[str, Any], weight: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_data({**data, "weight": weight})
    assert message in str(caught.value)
