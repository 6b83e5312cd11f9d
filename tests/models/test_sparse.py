"""A sparse matrix and its array train the same models, in which what is not stored is 0, in both libraries."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from ltr_harness import from_arrays, run_experiment
from ltr_harness.data import features as module
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.features import SparseFeatures
from ltr_harness.data.readers.text_files import VARIABLE
from ltr_harness.errors import DataError
from ltr_harness.experiments.runs import Run
from ltr_harness.experiments.training.check import memory_estimate
from ltr_harness.metrics import NDCG
from ltr_harness.models.boosted import BoostedRanker
from ltr_harness.models.feature import FeatureRanker
from ltr_harness.models.lightgbm import LightGBMRanker
from ltr_harness.models.linear import LinearRanker
from ltr_harness.models.ranker import Training
from ltr_harness.models.trees.formats.dump import Dump
from ltr_harness.models.trees.verification import export_model
from ltr_harness.models.xgboost import XGBoostRanker

N_FEATURES = 30
N_ROWS = 300


def rows(seed: int) -> NDArray[np.float32]:
    draw = np.random.default_rng(seed)
    dense = np.zeros((N_ROWS, N_FEATURES), dtype=np.float32)
    is_filled = draw.random(dense.shape) < 0.1
    dense[is_filled] = draw.normal(1, 1, size=is_filled.sum())
    dense[draw.random(dense.shape) < 0.01] = np.nan
    return dense


def dataset(seed: int, make: Any = np.asarray, **given: Any) -> RankingDataset:
    dense, draw = rows(seed), np.random.default_rng(seed + 100)
    # 0 is worth more than half of the values: whoever takes it for missing learns something else
    worth = np.nan_to_num(dense[:, :10], nan=-1.0).sum(axis=1) + draw.normal(0, 0.5, size=N_ROWS)
    labels = np.clip(np.round(worth), 0, 3)
    return from_arrays(make(dense), labels, group_sizes=[20] * (N_ROWS // 20), **given)


def trained(
    ranker: BoostedRanker, make: Any, folder: Path, **given: Any
) -> tuple[bytes, NDArray[np.float64]]:
    """Return the model's file and its scores of the validation rows."""
    valid = dataset(2, make)
    training = Training(train=dataset(1, make, **given), valid=valid, seed=1, threads=1, rounds=5)
    model = ranker.fit_to(training)
    folder.mkdir()
    return (folder / model.save(folder)).read_bytes(), model.score_split(valid)


WEIGHTS = np.random.default_rng(5).random(N_ROWS)


@pytest.mark.parametrize(
    ("ranker", "given"),
    [
        (LightGBMRanker(), {}),
        (LightGBMRanker(), {"weights": WEIGHTS}),
        (LightGBMRanker(exclude=(1, 7)), {}),
        (LightGBMRanker(objective="regression", params={"zero_as_missing": True}), {}),
        (XGBoostRanker(), {}),
        (XGBoostRanker(), {"weights": WEIGHTS}),
        (XGBoostRanker(exclude=(1, 7)), {}),
        (XGBoostRanker(params={"tree_method": "exact"}), {}),
        (XGBoostRanker(objective="reg:squarederror", monotone={"3": 1}), {}),
        (XGBoostRanker(position_bias=True), {"positions": np.tile(np.arange(20), N_ROWS // 20)}),
    ],
    ids=repr,
)
def test_the_same_trees_to_the_byte(
    ranker: BoostedRanker, given: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BLOCK", 4 * N_FEATURES * 130)
    of_array, of_matrix = (
        trained(ranker, make, tmp_path / make.__name__, **given) for make in (np.asarray, csr_matrix)
    )
    assert of_array[0] == of_matrix[0]
    assert of_array[1].std() > 0.1
    np.testing.assert_array_equal(of_array[1], of_matrix[1])


def test_xgboost_alone_would_take_what_is_not_stored_for_missing() -> None:
    """Why it is given arrays: the same model scores a matrix of SciPy otherwise."""
    import xgboost

    valid = dataset(2, csr_matrix)
    model = XGBoostRanker().fit_to(Training(train=dataset(1, csr_matrix), seed=1, threads=1, rounds=5))
    assert isinstance(valid.features, SparseFeatures)
    of_matrix = model.booster.predict(  # type: ignore[attr-defined]
        xgboost.DMatrix(valid.features.csr), output_margin=True, validate_features=False
    )
    assert np.abs(of_matrix - model.score_split(valid)).max() > 0.1


@pytest.mark.parametrize("ranker", [LinearRanker(weights={"3": 1.0, "4": -0.5}), FeatureRanker(feature="3")])
def test_rankers_that_take_arrays_are_given_arrays(ranker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = [
        ranker.fit_to(Training(train=dataset(1, make), valid=dataset(2, make))).score_split(dataset(2, make))
        for make in (np.asarray, csr_matrix)
    ]
    np.testing.assert_array_equal(scores[0], scores[1])
    monkeypatch.setenv(VARIABLE, "20kB")
    with pytest.raises(
        DataError, match=r"a sparse matrix of 300 rows and 30 columns becomes dense, which takes 36\.0 kB"
    ):
        ranker.fit_to(Training(train=dataset(1, csr_matrix)))


def config_of(make: Any, *rankers: str) -> dict[str, Any]:
    options = {"linear": {"weights": {"3": 1.0}}}
    return {
        "name": "sparse",
        "data": {"train": dataset(1, make), "valid": dataset(2, make), "test": dataset(3, make)},
        "metrics": {"primary": "ndcg@10"},
        "stopping": {"metric": "ndcg@10", "patience": 2, "max_rounds": 4},
        "models": {name: {"ranker": name, **options.get(name, {})} for name in rankers},
        "seeds": [1],
    }


def run_of(make: Any, folder: Path) -> list[Run]:
    return list(run_experiment(config_of(make, "lightgbm", "xgboost", "linear"), runs=folder).runs)


@pytest.mark.long
@pytest.mark.usefixtures("without_report")
def test_an_experiment_has_the_same_numbers_and_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", 4 * N_FEATURES * 130)
    of_array, of_matrix = (run_of(make, tmp_path / make.__name__) for make in (np.asarray, csr_matrix))
    for one, other in zip(of_array, of_matrix, strict=True):
        assert one.record.identity == other.record.identity
        assert (one.record.data, one.record.metrics) == (other.record.data, other.record.metrics)
        assert one.test_scores.equals(other.test_scores)
        assert (one.ranges is None) == (other.ranges is None)
        assert one.ranges is None or one.ranges.equals(other.ranges)
        matrix = csr_matrix(rows(3))
        expected = other.test_scores["score"].to_numpy()
        np.testing.assert_array_equal(other.score(matrix), expected)
        np.testing.assert_array_equal(other.score(rows(3)), expected)
        np.testing.assert_array_equal(other.score_split(dataset(3, csr_matrix)), expected)


@pytest.mark.parametrize("ranker", [LightGBMRanker(), XGBoostRanker()], ids=repr)
def test_exports_are_verified_on_what_the_data_mean(ranker: BoostedRanker, tmp_path: Path) -> None:
    found = []
    for make in (np.asarray, csr_matrix):
        data = dataset(1, make)
        model = ranker.fit_to(Training(train=data, seed=1, threads=1, rounds=5))
        found.append(export_model(model, data, NDCG(k=10), Dump(), tmp_path / make.__name__))
    assert found[0] == found[1]
    assert found[0].n_missing == np.isnan(rows(1)).sum()


def test_memory_is_that_of_the_values_that_lightgbm_bins() -> None:
    splits = {name: dataset(seed, csr_matrix) for seed, name in enumerate(("train", "valid", "test"), 1)}
    fold = SimpleNamespace(splits=splits, train=splits["train"], valid=splits["valid"])
    of_models = {
        name: SimpleNamespace(ranker=ranker)
        for name, ranker in (("l", LightGBMRanker()), ("x", XGBoostRanker()))
    }
    for names, n_binned in (("l", N_STORED), ("x", N_CELLS), ("lx", N_STORED + N_CELLS)):
        models = {name: of_models[name] for name in names}
        job: Any = SimpleNamespace(experiment=SimpleNamespace(models=models), folds=[fold], workers=1)
        plain_matrix = 8 * N_ROWS * N_FEATURES if "x" in names else 0
        assert memory_estimate(job).own == 300e6 + 1.3 * (n_binned + plain_matrix)
        assert memory_estimate(job).mapped == sum(split.features.nbytes for split in splits.values())


N_STORED, N_CELLS = sum(np.count_nonzero(rows(seed)) for seed in (1, 2)), 2 * N_ROWS * N_FEATURES
