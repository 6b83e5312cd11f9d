"""Promises of every ranker, and the two rankers that need no library."""

from __future__ import annotations

import ast
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from packaging.version import Version
from pydantic import ValidationError

from ltr_harness.boosting import StoppingRule
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.errors import DataError, RankerError
from ltr_harness.metrics import NDCG
from ltr_harness.models.feature import FeatureRanker
from ltr_harness.models.random import RandomRanker
from ltr_harness.models.ranker import Training
from ltr_harness.models.table import RANKERS, catalog

DEFINITIONS: list[tuple[str, dict[str, Any]]] = [
    ("feature", {"feature": "bm25"}),
    ("random", {}),
    ("lightgbm", {"objective": "lambdarank", "params": {"num_leaves": 7}}),
    ("lightgbm", {"objective": "rank_xendcg", "params": {"num_leaves": 7}}),
    ("lightgbm", {"objective": "regression", "params": {"num_leaves": 7}}),
    ("xgboost", {"objective": "rank:ndcg", "params": {"max_depth": 3}}),
    ("xgboost", {"objective": "rank:pairwise", "params": {"max_depth": 3}}),
    ("xgboost", {"objective": "rank:map", "relevant": 2, "params": {"max_depth": 3}}),
]
every_ranker = pytest.mark.parametrize(("name", "fields"), DEFINITIONS, ids=lambda value: str(value))


def test_every_file_that_defines_a_ranker_is_in_the_table() -> None:
    import ltr_harness.models as package

    folder = Path(package.__path__[0])
    shared = {"BoostedRanker", "DataParallelRanker", "StoredRanker"}  # what several rankers are made of
    for file in sorted(folder.glob("*.py")):
        for node in ast.parse(file.read_text()).body:
            bases = [getattr(base, "id", "") for base in getattr(node, "bases", [])]
            if isinstance(node, ast.ClassDef) and {"Ranker", *shared} & set(bases):
                if node.name in shared:
                    continue
                target = f"ltr_harness.models.{file.stem}:{node.name}"
                assert target in RANKERS.values(), f'add to RANKERS: "{file.stem}": "{target}"'


def test_an_unknown_ranker_is_an_error() -> None:
    with pytest.raises(RankerError, match=r"unknown ranker 'lightgmb'; did you mean 'lightgbm'\?"):
        catalog.load("lightgmb", RankerError)


@every_ranker
def test_features_of_another_width_and_missing_models_are_errors(
    name: str, fields: dict[str, Any], train: Any, tmp_path: Path
) -> None:
    ranker = catalog.load(name)(**fields)
    if name != "random":
        model = ranker.fit(Training(train=train, rounds=2))
        with pytest.raises(DataError, match=r"features have shape \(3, 5\); expected \(n_rows, 6\)"):
            model.score(np.zeros((3, 5)))
    with pytest.raises(DataError, match="no such file"):
        ranker.load(tmp_path)


def test_definitions_are_strict_values() -> None:
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        RandomRanker(seed=3)  # type: ignore[call-arg]
    with pytest.raises(ValidationError, match="Input should be a valid string"):
        catalog.load("lightgbm")(objective=None)  # in LightGBM's params, None trains regression
    with pytest.raises(ValidationError, match="Input should be a valid string"):
        catalog.load("xgboost")(objective=None)
    with pytest.raises(ValidationError, match="frozen"):
        FeatureRanker(feature=1).feature = 2  # type: ignore[misc]


def test_random_scores_depend_on_seed_and_row_alone(train: RankingDataset) -> None:
    model, other = (RandomRanker().fit(Training(train=train, seed=seed)) for seed in (1, 2))
    scores = model.score(train.features)
    np.testing.assert_array_equal(model.score(train.features[:10]), scores[:10])
    assert not np.array_equal(other.score(train.features), scores)
    assert scores[:2].tolist() == [0.0668020093396563, 0.07901298235490295]  # the same on every machine


def test_a_feature_ranks_by_its_value(train: RankingDataset) -> None:
    for name, column in (("age", 4), (6, 5), ("6", 5)):
        model = FeatureRanker(feature=name).fit(Training(train=train))
        np.testing.assert_array_equal(model.score(train.features), train.features[:, column])
    inverted = FeatureRanker(feature="age", ascending=True).fit(Training(train=train))
    np.testing.assert_array_equal(inverted.score(train.features), -train.features[:, 4])


def test_a_missing_feature_value_ranks_last_and_is_noted(train: RankingDataset) -> None:
    features = train.features.copy()
    features[[0, 7], 0] = np.nan
    holed = RankingDataset(features, train.judgments, train.feature_names)
    for ascending in (False, True):
        model = FeatureRanker(feature="bm25", ascending=ascending).fit(Training(train=holed))
        assert np.isneginf(model.score(features)).nonzero()[0].tolist() == [0, 7]
        assert tuple(map(str, model.cautions)) == (
            "feature bm25 is missing in 2 training rows; missing values rank last",
        )


def test_an_unknown_feature_is_an_error_that_lists_them(train: RankingDataset) -> None:
    with pytest.raises(RankerError, match=r"feature: the data has no feature 'bm52'; did you mean 'bm25'\?"):
        FeatureRanker(feature="bm52").fit(Training(train=train))


def test_training_needs_an_end_and_validation_data_to_stop_on(train: RankingDataset) -> None:
    with pytest.raises(RankerError, match=r"stopping on ndcg@10 needs validation data"):
        Training(train=train, stopping=StoppingRule(NDCG(k=10)))
    for ranker in (catalog.load("lightgbm")(), catalog.load("xgboost")()):
        with pytest.raises(RankerError, match="rounds: not given, and there is no stopping rule"):
            ranker.fit(Training(train=train))
        with pytest.raises(RankerError, match="rounds: found 0; expected at least 1"):
            ranker.fit(Training(train=train, rounds=0))


def test_which_models_a_seed_can_move() -> None:
    def seed_matters(name: str, **fields: Any) -> bool:
        return bool(catalog.load(name)(**fields).seed_matters)

    assert seed_matters("random")
    assert not seed_matters("feature", feature=1)
    assert not seed_matters("lightgbm")
    assert seed_matters("lightgbm", objective="rank_xendcg")
    assert not seed_matters("lightgbm", params={"bagging_fraction": 0.5})  # no effect while bagging_freq is 0
    assert seed_matters("lightgbm", params={"subsample": 0.5, "subsample_freq": 1})
    assert seed_matters("lightgbm", params={"colsample_bytree": 0.5})
    assert seed_matters("lightgbm", params={"extra_trees": True})
    assert seed_matters("lightgbm", params={"data_sample_strategy": "goss"})
    assert not seed_matters("xgboost")
    # seeded by the round's number before 3.4; test_xgboost.py compares with models of two seeds
    by_seed = Version(version("xgboost")) >= Version("3.4")
    assert seed_matters("xgboost", params={"lambdarank_pair_method": "mean"}) == by_seed
    assert seed_matters("xgboost", params={"subsample": 0.5})
    assert seed_matters("xgboost", params={"colsample_bynode": 0.5})
