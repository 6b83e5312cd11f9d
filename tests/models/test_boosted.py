"""The fields that all boosted rankers share, in each library that has them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest
import xgboost

from ltr_harness.boosting import StoppingRule
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.errors import RankerError
from ltr_harness.metrics import NDCG
from ltr_harness.models.catboost import CatBoostRanker
from ltr_harness.models.lightgbm import LightGBMRanker
from ltr_harness.models.objectives import CATBOOST, METRIC
from ltr_harness.models.presets import PRESETS
from ltr_harness.models.ranker import Training, TrainingFacts
from ltr_harness.models.tree_model import TreeModel, by_position
from ltr_harness.models.xgboost import XGBoostRanker

LGBM = {"num_leaves": 7, "min_data_in_leaf": 5}
XGB = {"max_depth": 3}
BOTH = [(LightGBMRanker, LGBM), (XGBoostRanker, XGB)]
each = pytest.mark.parametrize(("kind", "params"), BOTH, ids=["lightgbm", "xgboost"])
RULE = StoppingRule(NDCG(k=10), patience=3, max_rounds=10)


def scores(ranker: Any, train: Any, rounds: int = 8, **training: Any) -> Any:
    return ranker.fit(Training(train=train, rounds=rounds, **training)).score(train.features)


def facts_of(data: RankingDataset) -> TrainingFacts:
    return TrainingFacts.of(data, stopping=False)


class TestPresets:
    # of the other pointwise objectives, which ask for other labels, see test_pointwise.py
    @pytest.mark.parametrize(
        ("library", "objective"),
        [
            key
            for key in PRESETS
            if key[0] != "catboost"
            and key[1].startswith(("lambdarank", "rank", "multi", "regression", "reg:squarederror", METRIC))
        ],
    )
    def test_each_is_taken_by_its_library_and_makes_the_seed_matter(
        self, library: str, objective: str, train: Any
    ) -> None:
        kind = LightGBMRanker if library == "lightgbm" else XGBoostRanker
        more: dict[str, Any] = {"relevant": 2} if objective == "rank:map" else {}
        more["objective"] = {"metric": "err(max_grade=4)@10"} if objective == METRIC else objective
        for name in PRESETS[library, objective]:
            ranker = kind(preset=name, **more)
            assert ranker.check(replace(facts_of(train), n_rows=10_000, n_queries=500)) == []
            assert ranker.seed_matters
        small = kind(preset="small", **more)
        model = small.fit(Training(train=train, rounds=5))
        assert np.ptp(model.score(train.features)) > 0
        assert not any("constant" in note for note in map(str, model.cautions))
        assert small.fit(Training(train=train, rounds=1)).params == model.params

    def test_params_win_under_any_alias_and_the_record_has_what_was_used(self, train: Any) -> None:
        ranker = LightGBMRanker(preset="small", params={"eta": 0.3})
        assert ranker.library_params()["eta"] == 0.3
        assert "learning_rate" not in ranker.library_params()
        assert ranker.definition()["params"]["num_leaves"] == 7
        assert ranker.fit(Training(train=train, rounds=2)).params["lambdarank_truncation_level"] == 20

    def test_an_unknown_one_is_an_error(self, problem_texts: Any) -> None:
        assert problem_texts(XGBoostRanker(preset="smal").check())["preset"] == (
            "preset: unknown preset 'smal'; did you mean 'small'? (known: small, web)"
        )


class TestObjectivesByOtherNames:
    @pytest.mark.parametrize(
        ("kind", "objective", "meant"),
        [
            (XGBoostRanker, "lambdarank", "rank:ndcg"),
            (XGBoostRanker, "LambdaMART", "rank:ndcg"),
            (XGBoostRanker, "pairwise", "rank:pairwise"),
            (XGBoostRanker, "map", "rank:map"),
            (XGBoostRanker, "xe_ndcg", "rank_xendcg"),
            (LightGBMRanker, "lambdamart", "lambdarank"),
            (LightGBMRanker, "rank:ndcg", "lambdarank"),
            (LightGBMRanker, "xendcg", "rank_xendcg"),
            (LightGBMRanker, "rmse", "regression"),
            (CatBoostRanker, "lambdamart", "YetiRank"),
            (CatBoostRanker, "rank:pairwise", "PairLogit"),
        ],
    )
    def test_what_they_are_called_here_is_said(
        self, kind: Any, objective: str, meant: str, problem_texts: Any
    ) -> None:
        if kind is CatBoostRanker:
            pytest.importorskip("catboost")
        assert problem_texts(kind(objective=objective).check())["objective"].startswith(
            f"objective: unknown objective {objective!r}; did you mean {meant!r}? (known: "
        )

    @pytest.mark.parametrize(
        ("kind", "objective"),
        [
            (LightGBMRanker, "ndcg@10"),
            (LightGBMRanker, "map"),
            (XGBoostRanker, "err"),
            (CatBoostRanker, "mrr@5"),
        ],
    )
    def test_a_metric_is_told_how_to_be_one(self, kind: Any, objective: str, problem_texts: Any) -> None:
        if kind is CatBoostRanker:
            pytest.importorskip("catboost")
        assert problem_texts(kind(objective=objective).check())["objective"].startswith(
            f"objective: {objective!r} is a metric; expected {{metric: {objective}}}, or one of "
        )

    @pytest.mark.parametrize("kind", [LightGBMRanker, XGBoostRanker, CatBoostRanker])
    def test_nothing_is_said_of_what_depends_on_an_unknown_one(
        self, kind: Any, problem_texts: Any, facts: Any
    ) -> None:
        """It was followed by "unknown preset 'small'; known: " and nothing."""
        if kind is CatBoostRanker:
            pytest.importorskip("catboost")
        ranker = kind(objective="lambdaloss", preset="small", drop_blank=True)
        assert (
            list(problem_texts(ranker.check())) == list(problem_texts(ranker.check(facts()))) == ["objective"]
        )


class TestFeatures:
    @each
    def test_left_out_features_are_never_split_on(self, kind: Any, params: Any, train: Any) -> None:
        for fields, used in (
            ({"features": ["bm25", "age"]}, {0, 4}),
            ({"exclude": ["bm25", "age", 6]}, {1, 2, 3}),
        ):
            model: TreeModel = kind(params=params, **fields).fit(Training(train=train, rounds=8))
            assert set(np.flatnonzero(model.importance("split"))) <= used
            assert f"learned from {len(used)} of 6 features" in map(str, model.cautions)
            changed = train.features.copy()
            changed[:, [column for column in range(6) if column not in used]] += 7
            np.testing.assert_array_equal(model.score(changed), model.score(train.features))

    def test_xgboost_draws_columns_among_those_that_are_left(self, train: Any) -> None:
        ranker = XGBoostRanker(params={**XGB, "colsample_bynode": 0.2}, features=["bm25"])
        trees = ranker.fit(Training(train=train, rounds=10)).booster.get_dump()  # type: ignore[attr-defined]
        assert all("bm25" in tree for tree in trees)  # drawn from six, five trees of six would be empty

    @each
    def test_unknown_ones_are_errors_each_in_its_field(
        self, kind: Any, params: Any, train: Any, problem_texts: Any
    ) -> None:
        found = kind(exclude=["bm52"], categorical=["aga"], monotone={"bm25 ": 1}).check(facts_of(train))
        assert set(problem_texts(found)) == {"exclude", "categorical", "monotone"}
        assert problem_texts(found)["exclude"].startswith(
            "exclude: the data has no feature 'bm52'; did you mean 'bm25'?"
        )
        assert "features" in problem_texts(kind(features=[]).check(facts_of(train)))
        assert "exclude" in problem_texts(kind(features=["age"], exclude=["bm25"]).check(facts_of(train)))

    def test_codes_without_an_order_are_named_in_the_order_given(self) -> None:
        names = [f"shop{n}" for n in (7, 3, 9, 1, 8, 2)]
        found = LightGBMRanker(categorical=names, monotone=dict.fromkeys(names, 1)).check()
        assert [one.found for one in found] == [
            f"feature '{name}' is categorical: its codes have no order" for name in names
        ]

    @each
    def test_monotone_features_never_lower_the_score(self, kind: Any, params: Any, train: Any) -> None:
        for sign in (1, -1):
            model = kind(params=params, monotone={"clicks[30d]": sign}).fit(Training(train=train, rounds=10))
            rows = np.repeat(train.features[:20], 15, axis=0)
            rows[:, 1] = np.tile(np.linspace(-3, 3, 15), 20)
            steps = np.diff(model.score(rows).reshape(20, 15), axis=1)
            assert (sign * steps >= -1e-6).all()

    @pytest.mark.long
    @each
    def test_categories_are_split_by_membership(self, kind: Any, params: Any) -> None:
        rng = np.random.default_rng(0)
        groups = QueryGroups.from_sizes(np.full(80, 20))
        codes = rng.integers(0, 8, groups.n_rows)
        features = np.column_stack([codes, rng.normal(size=groups.n_rows)]).astype(np.float32)
        labels = np.isin(codes, [1, 4, 6]).astype(float)  # no threshold separates them
        data = RankingDataset(features, Judgments.checked(labels, groups), ("kind", "noise"))
        one_split = {"num_leaves": 2} if kind is LightGBMRanker else {"max_depth": 1}
        more = (
            {"min_data_per_group": 1, "cat_smooth": 1} if kind is LightGBMRanker else {"max_cat_to_onehot": 1}
        )
        ranker = kind(params={**one_split, **more}, categorical=["kind"])
        assert ranker.check(facts_of(data)) == []
        assert np.unique(scores(ranker, data, rounds=1)[labels == 1]).size == 1
        model = ranker.fit(Training(train=data, valid=data, stopping=RULE))
        assert max(point.value for point in model.history) == 1.0
        broken = replace(data, features=features + np.float32(0.5))
        with pytest.raises(RankerError, match=r"categorical: feature 'kind' holds .*expected codes 0, 1, 2"):
            ranker.fit(Training(train=broken, rounds=1))

    @each
    def test_missing_values_are_no_zeros(self, kind: Any, params: Any, train: Any) -> None:
        holed = train.features.copy()
        holed[(train.labels > 2) & (np.arange(len(holed)) % 2 == 0), 0] = (
            np.nan
        )  # being missing means something
        model = kind(params=params).fit(Training(train=replace(train, features=holed), rounds=8))
        assert np.isfinite(model.score(holed)).all()
        zeros = np.nan_to_num(holed, nan=0.0)
        assert not np.array_equal(model.score(holed), model.score(zeros))


class TestBlankQueries:
    @each
    def test_they_are_dropped_and_reported_or_kept_and_reported(
        self, kind: Any, params: Any, train: Any, problem_texts: Any
    ) -> None:
        blank = train.labels.copy()
        for query in range(10):
            blank[train.groups.boundaries[query] : train.groups.boundaries[query + 1]] = 0
        data = replace(train, judgments=Judgments.checked(blank, train.groups))
        n_without_relevant = facts_of(data).n_without_relevant
        dropping, keeping = (
            kind(objective="rank_xendcg", params=params, drop_blank=drop).fit(Training(train=data, rounds=5))
            for drop in (True, False)
        )
        share = f"{n_without_relevant} of 80 training queries have no relevant document"
        assert f"{share} and are left out of training (drop_blank)" in map(str, dropping.cautions)
        assert f"{share}: rank_xendcg learns noise from them; `drop_blank: true` leaves them out" in map(
            str, keeping.cautions
        )
        kept = np.flatnonzero(np.maximum.reduceat(blank, data.groups.boundaries[:-1]) > 0)
        alone = kind(objective="rank_xendcg", params=params).fit(Training(train=data.take(kept), rounds=5))
        np.testing.assert_array_equal(dropping.score(train.features), alone.score(train.features))
        assert not np.array_equal(keeping.score(train.features), alone.score(train.features))
        assert "drop_blank" in problem_texts(kind(drop_blank=True).check())


class TestPositionBias:
    def clicked(self, train: RankingDataset) -> RankingDataset:
        """Clicks fall off with the position, which is shuffled against the row order."""
        rng = np.random.default_rng(1)
        positions = np.concatenate([rng.permutation(size) for size in train.groups.sizes]).astype(np.int32)
        seen = rng.random(train.n_rows) < 1 / (1 + positions)
        return replace(
            train, judgments=Judgments.checked((train.labels > 0) & seen, train.groups), positions=positions
        )

    @pytest.mark.long
    @each
    def test_learned_biases_fall_with_the_position(self, kind: Any, params: Any, make_dataset: Any) -> None:
        data = self.clicked(make_dataset(5, n_queries=400))
        ranker = kind(params=params, position_bias=True)
        assert ranker.check(facts_of(data)) == []
        model = ranker.fit(Training(train=data, rounds=10))
        [(_, table)] = model.learned["position_bias"].items()
        better = [table[str(at)][0] for at in range(8)]
        assert better[0] == max(better)
        assert better[0] > better[3] > better[7]
        assert not np.array_equal(model.score(data.features), scores(kind(params=params), data, rounds=10))

    def test_xgboost_gets_the_rows_in_displayed_order(self, train: Any) -> None:
        data = self.clicked(train)
        shown = by_position(data)
        for first, end in zip(data.groups.boundaries, data.groups.boundaries[1:], strict=False):
            assert shown.positions is not None
            assert shown.positions[first:end].tolist() == list(range(end - first))
        ranker = XGBoostRanker(params=XGB, position_bias=True)
        np.testing.assert_array_equal(scores(ranker, data), scores(ranker, shown)[np.argsort(_order(data))])

    def test_lightgbm_with_its_own_api_learns_the_same(self, train: Any) -> None:
        data = self.clicked(train)
        params = {**LGBM, "lambdarank_position_bias_regularization": 0.5}
        model = LightGBMRanker(params=params, position_bias=True).fit(Training(train=data, rounds=5))
        alone = lightgbm.train(
            {**model.params, "num_threads": 1},
            lightgbm.Dataset(
                data.features, label=data.labels, group=data.groups.sizes, position=data.positions
            ),
            5,
        )
        np.testing.assert_array_equal(
            alone.predict(data.features, raw_score=True), model.score(data.features)
        )

    @each
    def test_without_positions_it_is_an_error(
        self, kind: Any, params: Any, train: Any, problem_texts: Any
    ) -> None:
        found = problem_texts(kind(position_bias=True).check(facts_of(train)))
        assert "the training data has no display positions" in found["position_bias"]
        found = problem_texts(kind(objective="rank_xendcg", position_bias=True).check())
        assert "no effect with the objective rank_xendcg" in found["position_bias"]


def _order(data: RankingDataset) -> Any:
    return np.lexsort((data.positions, np.repeat(np.arange(data.n_queries), data.groups.sizes)))


class TestGoingOn:
    @pytest.mark.long
    @each
    def test_training_goes_on_from_a_model(
        self, kind: Any, params: Any, train: Any, valid: Any, tmp_path: Path
    ) -> None:
        first = kind(params=params).fit(Training(train=train, rounds=6))
        first.save(tmp_path)
        ranker = kind(params=params, init_model=tmp_path)
        assert ranker.check(facts_of(train)) == []
        more = ranker.fit(Training(train=train, rounds=4))
        whole = kind(params=params).fit(Training(train=train, rounds=10))
        assert more.best_round == 10
        np.testing.assert_allclose(more.score(train.features), whole.score(train.features), atol=1e-5)
        assert any("rounds count from its first tree" in note for note in map(str, more.cautions))
        stopped = ranker.fit(Training(train=train, valid=valid, stopping=RULE))
        assert stopped.history[0].round == 7
        assert stopped.best_round is not None

    @each
    def test_its_content_is_part_of_the_identity(
        self, kind: Any, params: Any, train: Any, tmp_path: Path
    ) -> None:
        digests = []
        for rounds in (2, 3):
            kind(params=params).fit(Training(train=train, rounds=rounds)).save(tmp_path)
            digests.append(kind(params=params, init_model=tmp_path).definition()["inputs"])
        assert digests[0] != digests[1]

    @each
    def test_a_missing_one_is_an_error(
        self, kind: Any, params: Any, tmp_path: Path, problem_texts: Any
    ) -> None:
        assert "no such file" in problem_texts(kind(init_model=tmp_path / "none").check())["init_model"]


class TestSharedBins:
    @pytest.mark.long
    @each
    def test_the_second_training_bins_nothing_and_grows_the_same_trees(
        self, kind: Any, params: Any, make_dataset: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sampled = (
            {"bagging_fraction": 0.7, "bagging_freq": 1} if kind is LightGBMRanker else {"subsample": 0.7}
        )
        train, valid = make_dataset(11), make_dataset(12)
        library, name = (lightgbm, "Dataset") if kind is LightGBMRanker else (xgboost, "QuantileDMatrix")
        made: list[int] = []
        made_by = getattr(library, name)
        real = made_by.__init__

        def counted(self: Any, *arguments: Any, **named: Any) -> None:
            if len(arguments[0]) > 4:  # or it is a question of `check`
                made.append(1)
            real(self, *arguments, **named)

        def fitted(more: Any = None, seed: int = 1, **splits: Any) -> Any:
            given = {"train": train, "valid": valid, **splits}
            model = kind(params={**params, **sampled, **(more or {})}).fit(
                Training(**given, seed=seed, stopping=RULE)
            )
            return model.score(train.features)

        fresh = {seed: fitted(seed=seed, train=make_dataset(11), valid=make_dataset(12)) for seed in (1, 2)}
        monkeypatch.setattr(made_by, "__init__", counted)
        first = fitted()
        n = len(made)
        assert n > 0
        again, other, slower = fitted(), fitted(seed=2), fitted({"learning_rate": 0.05})
        assert len(made) == n, "seeds and learning rates share the bins"
        np.testing.assert_array_equal(first, fresh[1])
        np.testing.assert_array_equal(again, fresh[1])
        np.testing.assert_array_equal(other, fresh[2])
        assert not np.array_equal(slower, first)
        coarse = fitted({"max_bin": 8})
        assert len(made) > n, "another max_bin is another binning"
        assert not np.array_equal(coarse, first)

    @pytest.mark.long
    def test_bins_go_when_their_data_go(self, make_dataset: Any) -> None:
        import gc

        from ltr_harness.models.tree_model import _last

        data = make_dataset(13)
        for kind, params in BOTH:
            kind(params=params).fit(Training(train=data, rounds=1))
            assert list(_last[kind.library]) == [data]
        del data
        gc.collect()
        # another test of the session may still have data that a third library was given
        assert [list(_last[kind.library]) for kind, _ in BOTH] == [[], []]


def test_the_documentation_names_every_ranking_option_of_the_installed_libraries(repository: Path) -> None:
    pages = repository / "docs" / "maintainers"
    page = (pages / "boosters-benchmarks.md").read_text(encoding="utf-8")
    table = page.partition("## Every ranking option")[2].partition("\n## ")[0]
    known = set(lightgbm.basic._ConfigAliases._get_all_param_aliases())
    said = re.compile(r"rank|label_gain|sigmoid|query|position_bias|objective_seed|eval_at")
    data = xgboost.DMatrix(np.eye(4), label=[0, 1, 0, 1], group=[2, 2])
    booster = xgboost.Booster({"objective": "rank:ndcg"}, [data])
    booster.update(data, 0)
    parameters = json.loads(booster.save_config())["learner"]["objective"]["lambdarank_param"]
    options = {name for name in known if said.search(name)} | set(parameters)
    assert len(options) > 10
    assert {name for name in options if f"`{name}`" not in table} == set()
    for loss in CATBOOST:
        assert f"`{loss}`" in table
