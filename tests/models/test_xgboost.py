"""XGBoost: the same trees as a script of the library alone, and every trap refused before training."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xgboost
from packaging.version import Version

from ltr_harness.boosting import StoppingRule
from ltr_harness.boosting.xgboost import XENDCG
from ltr_harness.data.judgments import Judgments
from ltr_harness.errors import DataError, RankerError, TrainingError
from ltr_harness.metrics import ERR, MRR, NDCG, bind
from ltr_harness.models.ranker import Training, TrainingFacts
from ltr_harness.models.xgboost import XGBoostModel, XGBoostRanker
from ltr_harness.models.xgboost_parameters import OWNED, _gbtree_drops, canonical_names
from tests.conftest import named_case

NDCG10 = NDCG(k=10)
SMALL = {"max_depth": 3, "eta": 0.2}
SAMPLED = {**SMALL, "subsample": 0.6, "colsample_bytree": 0.6}
LEAFWISE = {"max_depth": 0, "grow_policy": "lossguide", "max_leaves": 8, "reg_lambda": 2.0, "max_bin": 64}
DEFINITIONS: list[tuple[dict[str, Any], bool]] = [
    ({"objective": "rank:ndcg", "params": SMALL}, False),
    ({"objective": "rank:ndcg", "params": SAMPLED}, True),
    ({"objective": "rank:ndcg", "params": {**LEAFWISE, "lambdarank_pair_method": "mean"}}, True),
    ({"objective": "rank:pairwise", "params": {**SMALL, "tree_method": "exact"}}, False),
    ({"objective": "rank:pairwise", "params": {**SMALL, "tree_method": "approx"}}, True),
    ({"objective": "rank:map", "relevant": 2, "params": SMALL}, False),
]


def train_library(fields: dict[str, Any], train: Any, seed: int, rounds: int) -> Any:
    """Ten lines of the library alone, on a plain DMatrix, with XGBoost's own defaults."""
    labels = train.labels >= fields["relevant"] if "relevant" in fields else train.labels
    data = xgboost.DMatrix(
        train.features, label=labels, group=train.groups.sizes, weight=train.judgments.query_weights
    )
    own = {"objective": fields["objective"], "seed": seed, "nthread": 1, "disable_default_eval_metric": 1}
    return xgboost.train({"tree_method": "hist", **fields["params"], **own}, data, rounds, verbose_eval=False)


def trees(booster: Any) -> list[str]:
    """The trees; features by number, since names are ours."""
    booster = booster.copy()
    booster.feature_names = None
    return list(booster.get_dump(with_stats=True, dump_format="json"))


@pytest.mark.long
@pytest.mark.parametrize(("fields", "weights"), DEFINITIONS)
def test_trees_best_round_and_scores_equal_those_of_the_library_alone(
    fields: dict[str, Any], weights: bool, make_dataset: Any
) -> None:
    train, valid, test = (make_dataset(seed, weights=weights) for seed in (1, 2, 3))
    rule = StoppingRule(NDCG10, patience=3, max_rounds=12)
    training = Training(train=train, valid=valid, seed=5, metrics=(MRR(k=10), NDCG10), stopping=rule)
    model = XGBoostRanker(**fields).fit(training)
    booster = train_library(fields, train, seed=5, rounds=12)
    binding, rows = bind(NDCG10, valid.judgments), xgboost.DMatrix(valid.features)
    curve = [
        float(binding.means(booster.predict(rows, output_margin=True, iteration_range=(0, i)))[0])
        for i in range(1, 13)
    ]
    best = int(np.argmax(curve[: model.rounds_trained])) + 1
    assert model.best_round == best
    assert model.rounds_trained == min(best + 3, 12)
    ours = [point.value for point in model.history if point.metric == "ndcg@10"]
    np.testing.assert_allclose(ours, curve[: model.rounds_trained], rtol=0, atol=1e-12)
    assert trees(model.booster) == trees(booster[:best])
    expected = booster.predict(xgboost.DMatrix(test.features), output_margin=True, iteration_range=(0, best))
    np.testing.assert_array_equal(model.score(test.features), expected.astype(np.float64))


def test_the_value_at_the_best_round_is_that_of_the_loaded_model(
    train: Any, valid: Any, tmp_path: Path
) -> None:
    rule = StoppingRule(NDCG10, patience=3, max_rounds=20)
    model = XGBoostRanker(params=SAMPLED).fit(
        Training(train=train, valid=valid, seed=1, metrics=(ERR(k=10, max_grade=4),), stopping=rule)
    )
    model.save(tmp_path)
    loaded = XGBoostModel.load(tmp_path)
    at_best = [point.value for point in model.history if point.round == model.best_round]
    again = bind((NDCG10, ERR(k=10, max_grade=4)), valid.judgments).means(loaded.score(valid.features))
    np.testing.assert_allclose(at_best, again, rtol=0, atol=1e-9)
    assert (loaded.booster.best_iteration, loaded.booster.best_score) == (
        (model.best_round or 0) - 1,
        at_best[0],
    )


@pytest.mark.long
def test_threads_do_not_move_a_tree_and_seeds_only_where_they_matter(train: Any) -> None:
    def fitted(seed: int, threads: int, params: dict[str, Any]) -> list[str]:
        ranker = XGBoostRanker(params=params)
        return trees(ranker.fit(Training(train=train, seed=seed, threads=threads, rounds=4)).booster)

    for params in (SMALL, SAMPLED, {**SMALL, "lambdarank_pair_method": "mean"}):
        assert fitted(1, 1, params) == fitted(1, 2, params)
        assert (fitted(1, 1, params) != fitted(2, 1, params)) == XGBoostRanker(params=params).seed_matters


def test_params_say_everything_that_shapes_the_ranking(train: Any) -> None:
    model = XGBoostRanker(params=SMALL).fit(Training(train=train, seed=7, threads=2, rounds=2))
    assert dict(model.params) == {
        "objective": "rank:ndcg",
        "tree_method": "hist",
        "lambdarank_pair_method": "topk",
        "lambdarank_num_pair_per_sample": 32,
        "lambdarank_normalization": True,
        "lambdarank_score_normalization": True,
        "lambdarank_unbiased": False,
        "ndcg_exp_gain": True,
        **SMALL,
        "disable_default_eval_metric": True,
        "seed": 7,
        "nthread": 2,
        "verbosity": 0,
    }
    mean = XGBoostRanker(objective="rank:pairwise", params={"lambdarank_pair_method": "mean"})
    params = mean.fit(Training(train=train, rounds=1)).params
    assert params["lambdarank_num_pair_per_sample"] == 1
    assert "ndcg_exp_gain" not in params


@pytest.mark.long
def test_rounds_every_and_progress(train: Any, valid: Any) -> None:
    seen: list[tuple[int, list[str]]] = []
    model = XGBoostRanker(params=SMALL).fit(
        Training(
            train=train,
            valid=valid,
            rounds=11,
            metrics=(MRR(), NDCG10),
            stopping=StoppingRule(NDCG10, patience=100, every=4),
            progress=lambda round_, means: seen.append((round_, list(means))),
        )
    )
    assert seen == [(round_, ["ndcg@10", "mrr"]) for round_ in (4, 8, 11)]
    assert model.rounds_trained == 11
    fixed = XGBoostRanker(params=SMALL).fit(Training(train=train, valid=valid, rounds=11, metrics=(MRR(),)))
    assert (fixed.best_round, fixed.rounds_trained, len(fixed.history)) == (11, 11, 11)
    blind = XGBoostRanker(params=SMALL).fit(Training(train=train, rounds=11))
    assert (blind.best_round, blind.rounds_trained, list(blind.history)) == (11, 11, [])


def test_feature_names_are_readable(train: Any) -> None:
    model = XGBoostRanker(params=SMALL).fit(Training(train=train, rounds=3))
    assert model.booster.feature_names == ["bm25", "clicks_30d_", "title_match", "a_b", "age", "6"]
    assert "bm25" in model.booster.get_score()


@pytest.mark.long
def test_map_learns_from_the_threshold_and_is_judged_by_the_grades(
    train: Any, valid: Any, problem_texts: Any
) -> None:
    # XGBoost's rank:map takes only binary labels
    at_three = XGBoostRanker(objective="rank:map", relevant=3, params=SMALL)
    model = at_three.fit(Training(train=train, valid=valid, metrics=(NDCG10,), rounds=5))
    assert model.params["relevant"] == 3
    assert model.history[-1].value == bind(NDCG10, valid.judgments).means(model.score(valid.features))[0]
    binary = replace(train, judgments=Judgments((train.labels >= 3) * 1.0, train.groups))
    same = XGBoostRanker(objective="rank:map", relevant=1, params=SMALL).fit(Training(train=binary, rounds=5))
    assert trees(model.booster) == trees(same.booster)
    assert (
        "rank:map has only relevant and not"
        in problem_texts(XGBoostRanker(objective="rank:map").check())["relevant"]
    )
    with pytest.raises(RankerError, match="no training label reaches 5; expected at most 4"):
        XGBoostRanker(objective="rank:map", relevant=5).fit(Training(train=train, rounds=1))
    assert (
        "every document would be"
        in problem_texts(XGBoostRanker(objective="rank:map", relevant=0).check())["relevant"]
    )
    assert (
        "no effect with the objective rank:ndcg"
        in problem_texts(XGBoostRanker(relevant=1).check())["relevant"]
    )


def test_every_name_for_what_we_own_is_refused(problem_texts: Any) -> None:
    owned = [name for name, meaning in canonical_names().items() if meaning in OWNED]
    assert {"n_jobs", "random_state", "n_estimators", "early_stopping_rounds", "eval_metric"} <= set(owned)
    problems = XGBoostRanker(params=dict.fromkeys(owned, 1)).check()
    assert [problem.place for problem in problems] == [f"params.{name}" for name in owned]
    assert all("cannot be set here; " in str(problem) for problem in problems)
    assert problem_texts(problems)["params.random_state"] == (
        "params.random_state: random_state (another name for seed) cannot be set here; set it under `seeds:`"
    )


LET_THROUGH = sorted(name for name, meaning in canonical_names().items() if meaning not in OWNED)


def test_the_installed_xgboost_takes_every_parameter_we_let_through(facts: Any) -> None:
    for name in LET_THROUGH:
        with named_case(name):
            given: dict[str, Any] = {
                "booster": "gbtree",
                "device": "cpu",
                "grow_policy": "lossguide",
                "interaction_constraints": [["bm25", "age"]],
                "lambdarank_pair_method": "mean",
                "max_bin": 16,
                "monotone_constraints": [1, 0, 0, 0, 0, -1],
                "sampling_method": "uniform",
                "tree_method": "approx",
            }
            value = given.get(name, 1)
            problems = XGBoostRanker(params={name: value}).check(facts(stopping=False))
            if problems:  # refused by our own table, with a reason
                assert [problem.place for problem in problems] == [f"params.{name}"]
                found = str(problems[0])
                assert "has no effect" in found or re.search(
                    rf"XGBoost 2[.\d]+ has no {name}; expected XGBoost [23]", found
                )


def test_a_parameter_newer_than_the_installed_version_says_since_when(facts: Any) -> None:
    problems = XGBoostRanker(params={"lambdarank_score_normalization": False}).check(facts())
    if Version(xgboost.__version__) < Version("3.0"):
        assert list(map(str, problems)) == [
            f"params.lambdarank_score_normalization: XGBoost {xgboost.__version__} has no "
            "lambdarank_score_normalization; expected XGBoost 3.0 or newer; pip install 'xgboost>=3.0', or leave it out"
        ]
    else:
        assert problems == []


def test_names_that_xgboost_would_ignore_are_refused_with_the_closest(problem_texts: Any) -> None:
    text = problem_texts(
        XGBoostRanker(params={"max_dept": 7, "lambdarank_diff_normalization": 1, "sketch_eps": 0.1}).check()
    )
    assert text["params.max_dept"].endswith("and would ignore it; did you mean 'max_depth'?")
    assert text["params.lambdarank_diff_normalization"].endswith("did you mean 'lambdarank_normalization'?")
    assert "would ignore it" in text["params.sketch_eps"]


# versions in which DART is a booster of its own read over all its parameters beside another
WITHOUT_DROPPING = "without booster: dart" if _gbtree_drops() is False else "without rate_drop or one_drop"


@pytest.mark.parametrize("name", ["rate_drop", "one_drop"])
def test_dropping_trees_without_dart_is_refused_or_is_dart(
    name: str, train: Any, facts: Any, problem_texts: Any
) -> None:
    ranker = XGBoostRanker(params={**SMALL, name: 1})
    plain = trees(train_library({"objective": "rank:ndcg", "params": SMALL}, train, 1, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # XGBoost may say that it is not used
        dropped = trees(train_library({"objective": "rank:ndcg", "params": {**SMALL, name: 1}}, train, 1, 4))
    refusal = problem_texts(ranker.check(facts(stopping=False))).get(f"params.{name}")
    if dropped == plain:
        assert f"{name} has no effect without booster: dart" in refusal
        return
    assert refusal is None
    assert ranker.seed_matters
    # later trees change earlier ones, whatever the booster is called
    cut = problem_texts(ranker.check(facts()))[f"params.{name}"]
    assert "dart rescales earlier trees" in cut
    assert cut.endswith(f"or leave out {name}")


@pytest.mark.parametrize("objective", ["rank:ndcg", "rank:pairwise", "rank:map"])
@pytest.mark.parametrize("method", ["mean", "topk"])
def test_the_seed_of_pairs_matters_where_the_installed_version_draws_by_it(
    objective: str, method: str, train: Any
) -> None:
    fields = {"objective": objective, "params": {**SMALL, "lambdarank_pair_method": method}}
    if objective == "rank:map":
        fields["relevant"] = 2
    models = [XGBoostRanker(**fields).fit(Training(train=train, seed=seed, rounds=6)) for seed in (1, 2)]
    scores = [model.score(train.features) for model in models]
    assert XGBoostRanker(**fields).seed_matters == (not np.array_equal(*scores))


@pytest.mark.parametrize("params", [{"min_child_weight": 1e9}, {"gamma": 1e9}, {"max_depth": 1, "eta": 0.0}])
def test_settings_that_stop_a_small_trial_from_learning_do_not_hide_the_seed(params: dict[str, Any]) -> None:
    pairs = {"lambdarank_pair_method": "mean"}
    assert XGBoostRanker(params={**pairs, **params}).seed_matters == XGBoostRanker(params=pairs).seed_matters


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"params": {"lambdarank_bias_norm": 2.0}}, "without lambdarank_unbiased: true"),
        ({"params": {"skip_drop": 0.5}}, WITHOUT_DROPPING),
        ({"params": {"scale_pos_weight": 3}}, "with the objective rank:ndcg"),
        (
            {"objective": "rank:pairwise", "params": {"ndcg_exp_gain": False}},
            "with the objective rank:pairwise",
        ),
        ({"params": {"tree_method": "exact", "max_bin": 16}}, "with tree_method: exact"),
    ],
)
def test_parameters_without_effect_are_refused_and_really_have_none(
    fields: dict[str, Any], reason: str, train: Any, problem_texts: Any
) -> None:
    name = list(fields["params"])[-1]
    assert (
        f"{name} has no effect {reason}" in problem_texts(XGBoostRanker(**fields).check())[f"params.{name}"]
    )
    if "ndcg_exp_gain" in fields["params"] and Version(xgboost.__version__) < Version("2.1"):
        with pytest.raises(
            xgboost.core.XGBoostError, match="NDCG gain can not be set for the pairwise objective"
        ):
            train_library(fields, train, 1, 4)
        return
    fields = {"objective": "rank:ndcg", **fields}
    without = {**fields, "params": {k: v for k, v in fields["params"].items() if k != name}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # XGBoost may say so too
        assert trees(train_library(fields, train, 1, 4)) == trees(train_library(without, train, 1, 4))


@pytest.mark.parametrize(
    ("params", "place", "text"),
    [
        ({"max_depth": "deep"}, "max_depth", "expect int but value='deep'"),
        ({"max_depth": 6.5}, "max_depth", "expect int but value='6.5'"),
        ({"subsample": 5}, "subsample", "5 is refused: value 5 for Parameter subsample exceed bound [0,1]"),
        ({"eta": -1}, "eta", "should be greater equal to 0"),
        ({"grow_policy": "leafwise"}, "grow_policy", "valid values are: {'depthwise', 'lossguide'}"),
        ({"max_leaves": None}, "max_leaves", "max_leaves has no value"),
        ({"eta": 0.1, "learning_rate": 0.2}, "learning_rate", "given a second time; expected only eta"),
        ({"interaction_constraints": [["bm25", "nix"]]}, "interaction_constraints", "not a subset"),
        ({"device": "cuda"}, "device", "No visible GPU"),
        ({"booster": "gblinear"}, "booster", "gblinear has no trees"),
    ],
)
def test_values_that_xgboost_rejects_or_misreads_are_refused(
    params: dict[str, Any], place: str, text: str, facts: Any, problem_texts: Any, capfd: Any
) -> None:
    problems = problem_texts(XGBoostRanker(params=params).check(facts()))
    assert list(problems) == [f"params.{place}"]
    assert text in problems[f"params.{place}"]
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""


def test_a_missing_gpu_is_refused_after_a_silent_training_too(facts: Any, problem_texts: Any) -> None:
    data = xgboost.DMatrix(np.arange(4.0)[:, None], label=[0, 1, 0, 1])
    xgboost.Booster({"verbosity": 0}, [data]).update(data, 0)  # silent from here on, also for others
    assert list(problem_texts(XGBoostRanker(params={"device": "cuda"}).check(facts()))) == ["params.device"]


@pytest.mark.parametrize(
    "objective", ["rank:NDCG", "rank_ndcg", "None", "", "lambdarank", "reg:linear", "{metric: …}"]
)
def test_any_other_objective_is_refused(objective: str, problem_texts: Any) -> None:
    assert problem_texts(XGBoostRanker(objective=objective).check())["objective"].startswith(
        f"objective: unknown objective {objective!r}; "
    )


class TestLimitsOfTheData:
    @pytest.mark.parametrize("changed", [{"max_label": 32.0}, {"n_fractional": 3}])
    def test_exponential_gain(self, changed: dict[str, Any], facts: Any, problem_texts: Any) -> None:
        text = problem_texts(XGBoostRanker().check(facts(**changed)))["objective"]
        assert "rank:ndcg with exponential gain" in text
        assert "set params.ndcg_exp_gain: false" in text
        assert not XGBoostRanker(params={"ndcg_exp_gain": False}).check(facts(**changed))
        assert not XGBoostRanker(objective="rank:pairwise").check(facts(**changed))
        assert not XGBoostRanker().check(facts(max_label=31.0))

    @pytest.mark.parametrize("fields", [{"params": {"ndcg_exp_gain": False}}, {"objective": "rank:pairwise"}])
    def test_what_check_lets_through_trains(self, fields: dict[str, Any], train: Any) -> None:
        odd = replace(train, judgments=Judgments(train.labels * 12.25, train.groups))
        assert XGBoostRanker(**fields).fit(Training(train=odd, rounds=2)).best_round == 2

    def test_xendcg_counts_its_leaves_in_queries(self, train: Any, facts: Any, problem_texts: Any) -> None:
        heavy = XGBoostRanker(objective="rank_xendcg", params={"min_child_weight": 100})
        assert (
            "80 training queries cannot be split into two leaves of 100 each: the model would be constant"
            in problem_texts(heavy.check(facts()))["params.min_child_weight"]
        )
        assert not heavy.check(facts(n_queries=500))
        small = XGBoostRanker(objective="rank_xendcg")
        assert not small.check(facts())
        assert np.ptp(small.fit(Training(train=train, rounds=3)).score(train.features)) > 0
        text = problem_texts(small.check(facts(n_fractional=3)))["objective"]
        assert "rank_xendcg truncates fractional labels; found 3 such training labels" in text
        for name in ("lambdarank_pair_method", "lambdarank_unbiased", "ndcg_exp_gain"):
            given = XGBoostRanker(objective="rank_xendcg", params={name: "topk"}).check()
            assert (
                f"{name} has no effect with the objective rank_xendcg"
                in problem_texts(given)[f"params.{name}"]
            )

    def test_xendcg_is_the_objective_that_is_usable_alone(self, train: Any) -> None:
        model = XGBoostRanker(objective="rank_xendcg", params={"max_depth": 3, "subsample": 0.7}).fit(
            Training(train=train, seed=5, rounds=6)
        )
        data = xgboost.DMatrix(train.features, label=train.labels, group=train.groups.sizes)
        params = {
            "max_depth": 3,
            "subsample": 0.7,
            "base_score": 0.0,
            "seed": 5,
            "tree_method": "hist",
            "nthread": 1,
        }
        alone = xgboost.train(params, data, 6, obj=XENDCG(seed=5))
        np.testing.assert_array_equal(alone.predict(data, output_margin=True), model.score(train.features))
        assert model.params["objective"] == "rank_xendcg"

    def test_dart_cannot_stop_early(self, train: Any, facts: Any, problem_texts: Any) -> None:
        dart = XGBoostRanker(params={"booster": "dart", "rate_drop": 0.2})
        assert "dart rescales earlier trees" in problem_texts(dart.check(facts()))["params.booster"]
        assert dart.fit(Training(train=train, rounds=3)).best_round == 3


def test_a_constant_model_is_reported(train: Any) -> None:
    model = XGBoostRanker(params={"min_child_weight": 1e6}).fit(Training(train=train, rounds=5))
    assert np.ptp(model.score(train.features)) == 0
    assert model.cautions[0].text.startswith("the model is constant")


def test_a_failure_of_the_library_is_a_training_error_in_its_words(train: Any, monkeypatch: Any) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise xgboost.core.XGBoostError(
            "[10:44:01] /src/map.h:394: Check failed: is_binary: only binary labels.\nStack trace:\n  [bt] (0) x"
        )

    monkeypatch.setattr(xgboost, "train", fail)
    with pytest.raises(TrainingError, match=r"^XGBoost: only binary labels\.$"):
        XGBoostRanker().fit(Training(train=train, rounds=2))

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(xgboost, "train", interrupt)
    with pytest.raises(KeyboardInterrupt):
        XGBoostRanker().fit(Training(train=train, rounds=2))


def test_an_unreadable_model_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "model.ubj").write_bytes(b"not a model")
    with pytest.raises(DataError, match=r"model\.ubj: XGBoost cannot read it"):
        XGBoostModel.load(tmp_path)


@pytest.mark.long
def test_on_real_data_xendcg_is_as_good_as_lightgbms_own(shared_data: Path) -> None:
    from ltr_harness.comparison.stats.cluster_sums import ClusterSums
    from ltr_harness.comparison.stats.families import mean_intervals
    from ltr_harness.comparison.stats.method import Method
    from ltr_harness.data.readers.lightgbm import LightGbm
    from ltr_harness.models.lightgbm import LightGBMRanker

    folder = shared_data / "lightgbm_lambdarank"
    train, test = (LightGbm().read([f"rank.{split}"], folder) for split in ("train", "test"))
    binding = bind([NDCG(k=10)], test.judgments)
    ours, theirs = (
        binding.per_query(ranker.fit(Training(train=train, seed=1, rounds=40)).score(test.features))[0]
        for ranker in (
            XGBoostRanker(objective="rank_xendcg", preset="small"),
            LightGBMRanker(objective="rank_xendcg", preset="small"),
        )
    )
    ((low,), (high,)) = mean_intervals(ClusterSums.of((ours - theirs)[:, None]), Method())
    assert low < 0 < high
    assert abs(np.nanmean(ours) - np.nanmean(theirs)) < 0.03
    assert np.nanmean(ours) > 0.68  # without learning it is about 0.59


def test_squared_error_weighs_the_rows_of_weighted_queries(make_dataset: Any) -> None:
    train = make_dataset(1, weights=True)
    ranker = XGBoostRanker(objective="reg:squarederror", params={"max_depth": 3})
    assert ranker.check(TrainingFacts.of(train, stopping=False)) == []
    scores = ranker.fit(Training(train=train, rounds=5)).score(train.features)
    weights = np.repeat(train.judgments.query_weights, train.groups.sizes)
    data = xgboost.QuantileDMatrix(train.features, label=train.labels, weight=weights, max_bin=256)
    theirs = xgboost.train({"max_depth": 3, "nthread": 1, "verbosity": 0}, data, 5)
    np.testing.assert_array_equal(scores, theirs.inplace_predict(train.features, predict_type="margin"))
    unweighted = ranker.fit(Training(train=make_dataset(1), rounds=5)).score(train.features)
    assert not np.array_equal(scores, unweighted)


def test_what_position_bias_sets_is_not_given_beside_it(problem_texts: Any) -> None:
    found = problem_texts(XGBoostRanker(params={"lambdarank_unbiased": True}, position_bias=True).check())
    assert "cannot be combined with position_bias" in found["params.lambdarank_unbiased"]


def test_pair_parameters_mean_nothing_to_squared_error(problem_texts: Any) -> None:
    params = {"lambdarank_pair_method": "mean"}
    found = problem_texts(
        XGBoostRanker(objective="reg:squarederror", params=params, position_bias=True).check()
    )
    assert "has no effect with the objective reg:squarederror" in found["params.lambdarank_pair_method"]
    assert "has no effect with the objective reg:squarederror" in found["position_bias"]
