"""CatBoost under the harness's rules."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ltr_harness.boosting import StoppingRule
from ltr_harness.boosting.stopping import Stopper
from ltr_harness.errors import DataError, MissingExtraError
from ltr_harness.groups import Judgments
from ltr_harness.metrics import MRR, NDCG, bind
from ltr_harness.rankers import Training
from ltr_harness.rankers.catboost import OWNED, CatBoostModel, CatBoostRanker, _names

catboost = pytest.importorskip("catboost", reason="the extra `catboost` is not installed")
SMALL = {"depth": 3, "learning_rate": 0.2}
RULE = StoppingRule(NDCG(k=10), patience=4, max_rounds=25)


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


def test_every_name_for_what_we_own_is_refused(said: Any) -> None:
    owned = [name for name, meaning in _names().items() if meaning in OWNED]
    assert {"iterations", "n_estimators", "random_state", "thread_count", "eval_metric", "od_type"} <= set(
        owned
    )
    problems = CatBoostRanker(params=dict.fromkeys(owned, 1)).check()
    assert [problem.place for problem in problems] == [f"params.{name}" for name in owned]
    assert said(problems)["params.random_state"] == (
        "params.random_state: random_state (another name for random_seed) is not set here; say it under `seeds:`"
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
        ({"categorical": ["age"]}, "categorical", "not available with CatBoost"),
        ({"position_bias": True}, "position_bias", "not available with CatBoost"),
        ({"preset": "tiny"}, "preset", "unknown preset 'tiny'"),
    ],
)
def test_what_catboost_would_refuse_or_ignore_is_found_before_training(
    fields: dict[str, Any], place: str, text: str, said: Any
) -> None:
    assert text in said(CatBoostRanker(**fields).check())[place]


def test_without_the_package_the_cure_is_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "catboost", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'ltr-harness\[catboost\]'"):
        CatBoostRanker().check()


def test_an_unreadable_model_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "model.cbm").write_text("not a model")
    with pytest.raises(DataError, match=r"model\.cbm: CatBoost cannot read it"):
        CatBoostModel.load(tmp_path)
