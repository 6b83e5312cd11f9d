"""Every ranker of ours, and one of a user's own, keeps what RankerSuite asks of any."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from ltr_harness.models.feature import FeatureRanker
from ltr_harness.models.ranker import FittedModel, Training
from ltr_harness.testing import RankerSuite
from ltr_harness.testing.ranker_suite import ranking_data

pytestmark = pytest.mark.long

SAMPLED = {"num_leaves": 5, "min_data_in_leaf": 5, "bagging_fraction": 0.7, "bagging_freq": 1}
XGB = {"max_depth": 3, "subsample": 0.7}


class _ThreadsOfAnother(RankerSuite):
    """Its library gets the number of threads where that of another class here does, which is cheaper to ask."""

    test_it_keeps_to_its_threads = None  # type: ignore[assignment]


class TestFeature(RankerSuite):
    ranker = "feature"
    fields: ClassVar[dict[str, Any]] = {"feature": "one"}


class TestLinear(RankerSuite):
    ranker = "linear"
    fields: ClassVar[dict[str, Any]] = {"weights": {"one": 1.0, "two": -0.5}, "standardise": True}


class TestPosition(RankerSuite):
    ranker = "position"
    scores_features = False


class TestRandom(RankerSuite):
    ranker = "random"
    by_row = False


class TestScores(RankerSuite):
    ranker = "scores"
    scores_features = False

    @pytest.fixture(autouse=True)
    def _file(self, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
        test = ranking_data(3)
        path = tmp_path_factory.mktemp("scores") / "neural.npy"
        np.save(path, np.random.default_rng(0).normal(size=test.n_rows))
        monkeypatch.setattr(type(self), "fields", {"file": path})


class TestLambdarank(RankerSuite):
    ranker = "lightgbm"
    fields: ClassVar[dict[str, Any]] = {"params": {"num_leaves": 5, "min_data_in_leaf": 5}}


class TestSampledLambdarank(_ThreadsOfAnother):
    ranker = "lightgbm"
    fields: ClassVar[dict[str, Any]] = {"params": SAMPLED, "exclude": ["four"], "monotone": {"one": 1}}


class TestLightGBMXendcg(_ThreadsOfAnother):
    ranker = "lightgbm"
    fields: ClassVar[dict[str, Any]] = {"objective": "rank_xendcg", "params": SAMPLED, "drop_blank": True}


class TestLightGBMSmall(_ThreadsOfAnother):
    ranker = "lightgbm"
    fields: ClassVar[dict[str, Any]] = {"objective": "regression", "preset": "small"}


class TestXGBoostNDCG(RankerSuite):
    ranker = "xgboost"
    fields: ClassVar[dict[str, Any]] = {"params": {"max_depth": 3}}


class TestXGBoostSmall(_ThreadsOfAnother):
    ranker = "xgboost"
    fields: ClassVar[dict[str, Any]] = {"objective": "rank:pairwise", "preset": "small", "exclude": ["three"]}


class TestXGBoostMap(_ThreadsOfAnother):
    ranker = "xgboost"
    fields: ClassVar[dict[str, Any]] = {"objective": "rank:map", "relevant": 1, "params": XGB}


class TestXGBoostXendcg(RankerSuite):
    ranker = "xgboost"
    fields: ClassVar[dict[str, Any]] = {"objective": "rank_xendcg", "params": XGB, "drop_blank": True}


class TestLightGBMClasses(_ThreadsOfAnother):
    ranker = "lightgbm"
    fields: ClassVar[dict[str, Any]] = {"objective": "multiclass", "params": SAMPLED, "exclude": ["four"]}


class TestXGBoostClasses(_ThreadsOfAnother):
    ranker = "xgboost"
    fields: ClassVar[dict[str, Any]] = {"objective": "multi:softprob", "params": XGB, "exclude": ["four"]}


class _Sklearn(RankerSuite):
    ranker = "sklearn"

    @pytest.fixture(autouse=True)
    def _installed(self) -> None:
        pytest.importorskip("sklearn", reason="the extra `sklearn` is not installed")


class TestSklearnForest(_Sklearn, _ThreadsOfAnother):
    fields: ClassVar[dict[str, Any]] = {
        "estimator": ["sklearn.impute.SimpleImputer", "sklearn.ensemble.RandomForestRegressor"],
        "params": {"randomforestregressor__n_estimators": 10},
    }


class TestSklearnMargin(_Sklearn):
    fields: ClassVar[dict[str, Any]] = {
        "estimator": "sklearn.linear_model.LogisticRegression",
        "params": {"random_state": 0},
        "relevant": 1,
    }


class TestSklearnClasses(_Sklearn):
    fields: ClassVar[dict[str, Any]] = {
        "estimator": "sklearn.ensemble.ExtraTreesClassifier",
        "params": {"n_estimators": 5, "max_depth": 4},
    }


class TestSklearnOfLightGBM(_Sklearn):
    fields: ClassVar[dict[str, Any]] = {
        "estimator": "lightgbm.LGBMClassifier",
        "params": {"n_estimators": 5, "subsample": 0.5, "subsample_freq": 1, "verbose": -1},
    }


class TestLightGBMBinary(_ThreadsOfAnother):
    ranker = "lightgbm"
    fields: ClassVar[dict[str, Any]] = {"objective": "binary", "relevant": 1, "params": SAMPLED}


class TestXGBoostLogistic(_ThreadsOfAnother):
    ranker = "xgboost"
    fields: ClassVar[dict[str, Any]] = {"objective": "binary:logistic", "relevant": 1, "params": XGB}


class _CatBoost(RankerSuite):
    ranker = "catboost"

    @pytest.fixture(autouse=True)
    def _installed(self) -> None:
        pytest.importorskip("catboost", reason="the extra `catboost` is not installed")


class TestYetiRank(_CatBoost, _ThreadsOfAnother):
    fields: ClassVar[dict[str, Any]] = {"objective": "YetiRank", "params": {"depth": 3}}


class TestLogloss(_CatBoost):
    fields: ClassVar[dict[str, Any]] = {"objective": "Logloss", "relevant": 1, "params": {"depth": 3}}


class TestQueryRMSE(_CatBoost, _ThreadsOfAnother):
    fields: ClassVar[dict[str, Any]] = {"objective": "QueryRMSE", "preset": "small", "exclude": ["four"]}


class TestPairLogit(_CatBoost, _ThreadsOfAnother):
    fields: ClassVar[dict[str, Any]] = {
        "objective": "PairLogit",
        "params": {"depth": 3},
        "monotone": {"one": 1},
    }


class TestCatBoostClasses(_CatBoost, _ThreadsOfAnother):
    fields: ClassVar[dict[str, Any]] = {
        "objective": "MultiClass",
        "params": {"depth": 3},
        "exclude": ["four"],
    }


OWN = '''
import json
from dataclasses import dataclass
import numpy as np
from ltr_harness.models import FittedModel, Ranker

class Sum(Ranker):
    """Adds the features up."""
    sign: float = 1.0
    def check(self, facts=None): return []
    @property
    def seed_matters(self): return False
    def fit(self, training): return Model(sign=self.sign)
    @classmethod
    def load(cls, folder, threads=None): return Model.load(folder, threads)

@dataclass(frozen=True, eq=False, kw_only=True)
class Model(FittedModel):
    sign: float
    def score(self, features): return self.sign * np.asarray(features, np.float64).sum(axis=1)
    def save(self, folder):
        (folder / "model.json").write_text(json.dumps(self.sign))
        return "model.json"
    @classmethod
    def load(cls, folder, threads=None): return cls(sign=json.loads((folder / "model.json").read_text()))
'''


class TestOwn(RankerSuite):
    fields: ClassVar[dict[str, Any]] = {"sign": -1.0}

    @pytest.fixture(autouse=True)
    def _file(self, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
        path: Path = tmp_path_factory.mktemp("own") / "my_ranker.py"
        path.write_text(OWN)
        monkeypatch.setattr(type(self), "ranker", f"{path}:Sum", raising=False)


def _be_busy() -> None:
    end = time.thread_time() + 0.05
    while time.thread_time() < end:
        pass


class _Greedy(FeatureRanker):
    """Takes two threads, whatever it is given. Both are busy for as long, and so they are on a busy machine."""

    def fit(self, training: Training) -> FittedModel:
        with ThreadPoolExecutor(1) as other:
            twin = other.submit(_be_busy)
            _be_busy()
            twin.result()
        return super().fit(training)


def test_a_ranker_that_takes_more_threads_than_it_is_given_is_found_out() -> None:
    class Suite(RankerSuite):
        ranker = _Greedy
        fields: ClassVar[dict[str, Any]] = {"feature": "one"}

    with pytest.raises(AssertionError, match="with one thread, it used"):
        Suite().test_it_keeps_to_its_threads()
