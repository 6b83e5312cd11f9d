"""CatBoost under the harness's rules."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from ltr_harness.boosting import StoppingRule
from ltr_harness.boosting.stopping import Stopper
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.errors import DataError, MissingExtraError, RankerError
from ltr_harness.metrics import MRR, NDCG, bind
from ltr_harness.models.catboost import OWNED, CatBoostModel, CatBoostRanker, _names
from ltr_harness.models.ranker import Training, TrainingFacts

catboost = pytest.importorskip("catboost", reason="the extra `catboost` is not installed")
SMALL = {"depth": 3, "learning_rate": 0.2}
RULE = StoppingRule(NDCG(k=10), patience=4, max_rounds=25)


@pytest.mark.long
def test_the_library_alone_stopped_by_hand_gives_the_same_model(train: Any, valid: Any, test: Any) -> None:
    model = CatBoostRanker(objective="QueryRMSE", params=SMALL).fit(
        Training(train=train, valid=valid, seed=3, stopping=RULE, metrics=(MRR(),))
    )
    pool = catboost.Pool(
        train.features, label=train.labels, group_id=np.repeat(np.arange(train.n_queries), train.groups.sizes)
    )
    params = {
        "loss_function": "QueryRMSE",
        "random_seed": 3,
        "thread_count": 1,
        "logging_level": "Silent",
        **SMALL,
    }
    alone = catboost.CatBoost({**params, "iterations": 25, "allow_writing_files": False}).fit(pool)
    binding, stopper = bind([NDCG(k=10)], valid.judgments), Stopper(RULE)
    for round_ in range(1, 26):
        scores = alone.predict(valid.features, prediction_type="RawFormulaVal", ntree_end=round_)
        if stopper.update(round_, float(binding.means(scores)[0])):
            break
    assert model.best_round == stopper.best_round
    expected = alone.predict(test.features, prediction_type="RawFormulaVal", ntree_end=stopper.best_round)
    np.testing.assert_array_equal(model.score(test.features), expected)


@pytest.mark.parametrize("grown", ["Depthwise", "Lossguide"])
def test_trees_that_cannot_be_cut_are_refused_before_training(train: Any, valid: Any, grown: str) -> None:
    ranker = CatBoostRanker(objective="QueryRMSE", params={**SMALL, "grow_policy": grown})
    [problem] = ranker.check(TrainingFacts.of(train, stopping=True))
    assert problem.place == "params.grow_policy"
    assert "cannot go back to the best round" in str(problem)
    with pytest.raises(RankerError, match=f"found {grown}: CatBoost cuts models of symmetric trees alone"):
        ranker.fit(Training(train=train, valid=valid, stopping=RULE))
    assert ranker.check(TrainingFacts.of(train, stopping=False)) == []
    assert ranker.fit(Training(train=train, rounds=3)).best_round == 3
    symmetric = CatBoostRanker(params={"grow_policy": "SymmetricTree"})
    assert symmetric.check(TrainingFacts.of(train, stopping=True)) == []


def test_query_weights_count(train: Any) -> None:
    def scores(weights: Any) -> Any:
        data = replace(train, judgments=Judgments.checked(train.labels, train.groups, query_weights=weights))
        ranker = CatBoostRanker(objective="QueryRMSE", params=SMALL)
        return ranker.fit(Training(train=data, rounds=5)).score(train.features)

    n = train.n_queries
    np.testing.assert_allclose(scores(np.ones(n)), scores(None))
    assert not np.allclose(scores(np.linspace(0.1, 3, n)), scores(None))


def test_the_model_tells_what_it_looks_at(train: Any, test: Any) -> None:
    for params in (SMALL, {**SMALL, "grow_policy": "Lossguide"}):
        model = CatBoostRanker(objective="QueryRMSE", params=params, exclude=["age"]).fit(
            Training(train=train, rounds=6)
        )
        splits = model.importance("split")
        assert splits.shape == model.importance("gain").shape == (train.n_features,)
        assert splits[4] == 0
        assert splits.sum() > 0
        assert model.n_leaves > 6
        shares = model.contributions(test.features[:20])
        np.testing.assert_allclose(shares.sum(axis=1), model.score(test.features[:20]), atol=1e-6)
        np.testing.assert_array_equal(model.score_after(test.features, 6), model.score(test.features))


@pytest.fixture(scope="module")
def shop_data() -> Any:
    """A hundred queries whose relevance is a matter of a shop's number, of two digits: no threshold finds it."""
    rng = np.random.default_rng(0)
    groups = QueryGroups.from_sizes(np.full(100, 20))
    shop, kind = rng.integers(0, 40, groups.n_rows), rng.integers(0, 6, groups.n_rows)
    noise = rng.normal(size=groups.n_rows)
    features = np.column_stack([noise, shop, kind]).astype(np.float32)
    features[::50, 2] = np.nan
    good = rng.random(40) < 0.3
    return RankingDataset(
        features, Judgments.checked(good[shop].astype(float), groups), ("noise", "shop", "kind")
    )


class TestCategories:
    FIELDS: ClassVar[dict[str, Any]] = {
        "objective": "QueryRMSE",
        "params": {"depth": 2},
        "categorical": ["shop", "kind"],
    }

    @pytest.mark.long
    def test_they_are_no_numbers(self, shop_data: Any) -> None:
        ranker = CatBoostRanker(**self.FIELDS)
        assert ranker.check(TrainingFacts.of(shop_data, stopping=True)) == []
        rule = replace(RULE, max_rounds=10)
        model = ranker.fit(Training(train=shop_data, valid=shop_data, stopping=rule))
        assert max(point.value for point in model.history) == 1.0
        numbers = CatBoostRanker(objective="QueryRMSE", params={"depth": 2})
        curve = numbers.fit(Training(train=shop_data, valid=shop_data, stopping=rule)).history
        assert max(point.value for point in curve) < 0.9

    def test_the_library_alone_gives_the_same_model(self, shop_data: Any) -> None:
        pandas = pytest.importorskip("pandas")
        table = pandas.DataFrame(shop_data.features, columns=list(shop_data.feature_names))
        for name in ("shop", "kind"):
            table[name] = table[name].fillna(-1).astype(int).astype(str)
        pool = catboost.Pool(
            table,
            label=shop_data.labels,
            group_id=np.repeat(np.arange(100), 20),
            cat_features=["shop", "kind"],
        )
        params = {"loss_function": "QueryRMSE", "depth": 2, "random_seed": 3, "thread_count": 1}
        alone = catboost.CatBoost(
            {**params, "iterations": 6, "logging_level": "Silent", "allow_writing_files": False}
        ).fit(pool)
        model = CatBoostRanker(**self.FIELDS).fit(Training(train=shop_data, rounds=6, seed=3))
        expected = alone.predict(pool, prediction_type="RawFormulaVal")
        np.testing.assert_array_equal(model.score(shop_data.features), expected)

    def test_the_stored_model_scores_and_explains_the_same(self, shop_data: Any, tmp_path: Path) -> None:
        files = []
        for threads in (1, 2):
            model = CatBoostRanker(**self.FIELDS).fit(Training(train=shop_data, rounds=6, threads=threads))
            files.append((tmp_path / model.save(tmp_path)).read_bytes())
        assert files[0] == files[1]
        loaded = CatBoostModel.load(tmp_path)
        scores = model.score(shop_data.features)
        np.testing.assert_array_equal(loaded.score(shop_data.features), scores)
        shares = loaded.contributions(shop_data.features[:50])
        np.testing.assert_allclose(shares.sum(axis=1), scores[:50], atol=1e-6)
        noise, shop, kind = loaded.importance("split")
        assert shop > noise + kind  # a splitting of statistics is one of the feature they are about
        assert noise + shop + kind >= 6
        unseen = shop_data.features[:5].copy()
        unseen[:, 1] = 99
        assert np.isfinite(loaded.score(unseen)).all()

    def test_values_that_are_no_codes_are_refused(self, shop_data: Any) -> None:
        broken = replace(shop_data, features=shop_data.features + np.float32(0.5))
        with pytest.raises(RankerError, match=r"categorical: feature 'shop' holds .*expected codes 0, 1, 2"):
            CatBoostRanker(**self.FIELDS).fit(Training(train=broken, rounds=1))


def test_training_goes_on_from_a_model(train: Any, valid: Any, tmp_path: Path) -> None:
    plain = {"objective": "QueryRMSE", "params": SMALL}
    first = CatBoostRanker(**plain).fit(Training(train=train, rounds=6))
    first.save(tmp_path)
    ranker = CatBoostRanker(**plain, init_model=tmp_path)
    assert ranker.check(TrainingFacts.of(train, stopping=True)) == []
    more = ranker.fit(Training(train=train, rounds=4))
    assert more.best_round == 10
    assert isinstance(more, CatBoostModel)
    np.testing.assert_allclose(
        more.score_after(train.features, 6), first.score(train.features), rtol=0, atol=1e-9
    )
    assert not np.array_equal(more.score(train.features), first.score(train.features))
    assert any("rounds count from its first tree" in note for note in map(str, more.cautions))
    stopped = ranker.fit(Training(train=train, valid=valid, stopping=RULE))
    assert stopped.history[0].round == 7
    assert (stopped.best_round or 0) >= 7
    value = next(point.value for point in stopped.history if point.round == stopped.best_round)
    at_best = bind([NDCG(k=10)], valid.judgments).means(stopped.score(valid.features))[0]
    np.testing.assert_allclose(value, at_best, rtol=0, atol=1e-12)
    (tmp_path / "model.cbm").write_text("not a model")
    with pytest.raises(DataError, match=r"model\.cbm: CatBoost cannot read it"):
        ranker.fit(Training(train=train, rounds=1))


def test_every_name_for_what_we_own_is_refused(problem_texts: Any) -> None:
    owned = [name for name, meaning in _names(catboost).items() if meaning in OWNED]
    assert {"iterations", "n_estimators", "random_state", "thread_count", "eval_metric", "od_type"} <= set(
        owned
    )
    problems = CatBoostRanker(params=dict.fromkeys(owned, 1)).check()
    assert [problem.place for problem in problems] == [f"params.{name}" for name in owned]
    assert problem_texts(problems)["params.random_state"] == (
        "params.random_state: random_state (another name for random_seed) cannot be set here; set it under `seeds:`"
    )


@pytest.mark.parametrize(
    ("fields", "place", "text"),
    [
        ({"objective": "YetiRnk"}, "objective", "did you mean 'YetiRank'?"),
        (
            {"params": {"dept": 3}},
            "params.dept",
            "CatBoost has no parameter 'dept' and would ignore it; did you mean",
        ),
        ({"params": {"depth": 3, "max_depth": 4}}, "params.max_depth", "is given a second time"),
        ({"params": {"depth": 99}}, "params", "refused: "),
        ({"params": {"task_type": "GPU"}}, "params", "refused: "),
        ({"init_model": "nowhere"}, "init_model", "no such file"),
        ({"position_bias": True}, "position_bias", "not available with CatBoost"),
        ({"preset": "tiny"}, "preset", "unknown preset 'tiny'"),
    ],
)
def test_what_catboost_would_refuse_or_ignore_is_found_before_training(
    fields: dict[str, Any], place: str, text: str, problem_texts: Any
) -> None:
    assert text in problem_texts(CatBoostRanker(**fields).check())[place]


def test_without_the_package_the_cure_is_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "catboost", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'catboost>=1.2.9'"):
        CatBoostRanker().check()


def test_an_unreadable_model_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "model.cbm").write_text("not a model")
    with pytest.raises(DataError, match=r"model\.cbm: CatBoost cannot read it"):
        CatBoostModel.load(tmp_path)
