"""LightGBM: the same trees as a script of the library alone, and every trap refused before training."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest
from packaging.version import Version

from ltr_harness.boosting import StoppingRule
from ltr_harness.errors import DataError, RankerError, TrainingError
from ltr_harness.metrics import ERR, MRR, NDCG, bind
from ltr_harness.models.lightgbm import LightGBMModel, LightGBMRanker
from ltr_harness.models.lightgbm_parameters import OBJECTIVES, OWNED, canonical_names
from ltr_harness.models.ranker import Training

NDCG10 = NDCG(k=10)
SMALL = {"num_leaves": 7, "learning_rate": 0.2}
SAMPLED = {**SMALL, "bagging_fraction": 0.6, "bagging_freq": 1, "feature_fraction": 0.6}
DEFINITIONS: list[tuple[str, dict[str, Any], bool]] = [
    ("lambdarank", SMALL, False),
    ("lambdarank", {**SAMPLED, "lambdarank_truncation_level": 5, "min_child_samples": 10}, True),
    ("rank_xendcg", {**SMALL, "reg_lambda": 1.0}, True),
    ("regression", SMALL, False),
]
"""An objective, its parameters, and whether queries have weights."""


ALONE = {"metric": "None", "verbosity": -1, "num_threads": 1, "deterministic": True, "force_row_wise": True}


def library_data(train: Any) -> Any:
    rows = train.judgments.query_weights
    weight = None if rows is None else np.repeat(rows, train.groups.sizes)
    return lightgbm.Dataset(
        train.features, label=train.labels, group=train.groups.sizes, weight=weight, params=ALONE
    )


def train_library(objective: str, params: dict[str, Any], data: Any, seed: int, rounds: int) -> Any:
    """The library alone."""
    own = {"objective": objective, "seed": seed, **ALONE}
    return lightgbm.train({**params, **own}, data, num_boost_round=rounds)


def trees(booster: Any) -> str:
    return str(booster.model_to_string()).partition("Tree=0")[2].partition("end of trees")[0]


@pytest.mark.long
@pytest.mark.parametrize(("objective", "params", "weights"), DEFINITIONS)
def test_trees_best_round_and_scores_equal_those_of_the_library_alone(
    objective: str, params: dict[str, Any], weights: bool, make_dataset: Any
) -> None:
    train, valid, test = (make_dataset(seed, weights=weights) for seed in (1, 2, 3))
    rule = StoppingRule(NDCG10, patience=3, max_rounds=15)
    training = Training(train=train, valid=valid, seed=5, metrics=(MRR(k=10), NDCG10), stopping=rule)
    model = LightGBMRanker(objective=objective, params=params).fit(training)
    booster = train_library(objective, params, library_data(train), seed=5, rounds=15)
    binding = bind(NDCG10, valid.judgments)
    curve = [float(binding.means(booster.predict(valid.features, num_iteration=i))[0]) for i in range(1, 16)]
    best = int(np.argmax(curve[: model.rounds_trained])) + 1
    assert model.best_round == best
    assert model.rounds_trained == min(best + 3, 15)
    ours = [point.value for point in model.history if point.metric == "ndcg@10"]
    np.testing.assert_allclose(ours, curve[: model.rounds_trained], rtol=0, atol=1e-12)
    alone = train_library(objective, params, library_data(train), seed=5, rounds=best)
    assert trees(model.booster) == trees(alone)
    np.testing.assert_array_equal(
        model.score(test.features), booster.predict(test.features, num_iteration=best, raw_score=True)
    )
    assert model.n_leaves == sum(tree["num_leaves"] for tree in alone.dump_model()["tree_info"])


def test_the_value_at_the_best_round_is_that_of_the_loaded_model(
    train: Any, valid: Any, tmp_path: Path
) -> None:
    rule = StoppingRule(NDCG10, patience=3, max_rounds=20)
    model = LightGBMRanker(params=SAMPLED).fit(
        Training(train=train, valid=valid, seed=1, metrics=(ERR(k=10, max_grade=4),), stopping=rule)
    )
    model.save(tmp_path)
    loaded = LightGBMModel.load(tmp_path)
    at_best = [point.value for point in model.history if point.round == model.best_round]
    again = bind((NDCG10, ERR(k=10, max_grade=4)), valid.judgments).means(loaded.score(valid.features))
    np.testing.assert_allclose(at_best, again, rtol=0, atol=1e-9)


@pytest.mark.long
def test_threads_do_not_move_a_tree_and_seeds_only_where_they_matter(train: Any) -> None:
    def fitted(seed: int, threads: int, **fields: Any) -> str:
        ranker = LightGBMRanker(**fields)
        return trees(ranker.fit(Training(train=train, seed=seed, threads=threads, rounds=4)).booster)

    for fields in ({"params": SMALL}, {"params": SAMPLED}, {"objective": "rank_xendcg", "params": SMALL}):
        assert fitted(1, 1, **fields) == fitted(1, 2, **fields)
        assert (fitted(1, 1, **fields) != fitted(2, 1, **fields)) == LightGBMRanker(**fields).seed_matters


def test_params_say_everything_that_shapes_the_ranking(train: Any) -> None:
    model = LightGBMRanker(params=SMALL).fit(Training(train=train, seed=7, threads=2, rounds=2))
    assert dict(model.params) == {
        "objective": "lambdarank",
        "lambdarank_truncation_level": 30,
        "lambdarank_norm": True,
        "sigmoid": 1.0,
        **SMALL,
        "metric": "None",
        "seed": 7,
        "data_random_seed": 1,
        "num_threads": 2,
        "deterministic": True,
        "force_row_wise": True,
        "verbosity": -1,
    }


@pytest.mark.long
def test_rounds_every_and_progress(train: Any, valid: Any) -> None:
    seen: list[tuple[int, list[str]]] = []
    model = LightGBMRanker(params=SMALL).fit(
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
    fixed = LightGBMRanker(params=SMALL).fit(Training(train=train, valid=valid, rounds=11, metrics=(MRR(),)))
    assert (fixed.best_round, fixed.rounds_trained, len(fixed.history)) == (11, 11, 11)
    blind = LightGBMRanker(params=SMALL).fit(Training(train=train, rounds=11))
    assert (blind.best_round, blind.rounds_trained, list(blind.history)) == (11, 11, [])


def test_feature_names_are_readable(train: Any) -> None:
    model = LightGBMRanker(params=SMALL).fit(Training(train=train, rounds=2))
    assert model.booster.feature_name() == ["bm25", "clicks_30d_", "title_match", "a_b", "age", "6"]


def test_every_name_lightgbm_knows_for_what_we_own_is_refused(problem_texts: Any) -> None:
    names = canonical_names()
    newer = {"early_stopping_min_delta"} if Version(lightgbm.__version__) < Version("4.4") else set()
    assert set(OWNED) - newer <= set(names), "LightGBM no longer has a parameter that we own"
    owned = [name for name, meaning in names.items() if meaning in OWNED]
    assert {"n_jobs", "random_state", "num_iterations", "early_stopping_rounds", "metrics", "app"} <= set(
        owned
    )
    problems = LightGBMRanker(params=dict.fromkeys(owned, 1)).check()
    assert [problem.place for problem in problems] == [f"params.{name}" for name in owned]
    assert all("cannot be set here; " in str(problem) for problem in problems)
    assert problem_texts(problems)["params.n_jobs"] == (
        "params.n_jobs: n_jobs (another name for num_threads) cannot be set here; "
        "the harness divides the machine's cores among the workers"
    )


# Values that would move the trees if the parameter were read.
EXTREMES: dict[str, Any] = {
    "alpha": 0.1,
    "boost_from_average": False,
    "cat_l2": 99.0,
    "drop_rate": 0.9,
    "fair_c": 9.0,
    "label_gain": [0, 1, 2, 3, 90],
    "lambdarank_norm": False,
    "lambdarank_position_bias_regularization": 3.0,
    "lambdarank_truncation_level": 1,
    "linear_lambda": 3.0,
    "monotone_penalty": 3.0,
    "num_grad_quant_bins": 16,
    "reg_sqrt": True,
    "scale_pos_weight": 9.0,
    "sigmoid": 9.0,
    "top_rate": 0.5,
    "tweedie_variance_power": 1.9,
    "xgboost_dart_mode": True,
    "bagging_by_query": True,
    "bagging_freq": 1,
    "bagging_fraction": 0.5,
}


@pytest.mark.long
@pytest.mark.parametrize("objective", [name for name in OBJECTIVES if name != "multiclass"])
def test_a_parameter_is_refused_as_without_effect_exactly_when_it_moves_no_tree(
    objective: str, train: Any, facts: Any, problem_texts: Any
) -> None:
    # labels that it takes, and with a median other than 0, from which some begin
    shares = objective.startswith(("binary", "cross"))
    labels = np.minimum(train.labels, 1) if shares else train.labels + (not objective.startswith("lambda"))
    train = replace(train, judgments=replace(train.judgments, labels=labels))
    data = library_data(train)
    base = trees(train_library(objective, SMALL, data, seed=1, rounds=2))
    for name, value in EXTREMES.items():
        moves = trees(train_library(objective, {**SMALL, name: value}, data, seed=1, rounds=2)) != base
        text = problem_texts(LightGBMRanker(objective=objective, params={name: value}).check(facts())).get(
            f"params.{name}", ""
        )
        assert ("has no effect" in text) != moves, (name, text)


def test_names_that_lightgbm_would_ignore_are_refused_with_the_closest(problem_texts: Any) -> None:
    text = problem_texts(LightGBMRanker(params={"num_leavs": 7, "gamma_ray": 1}).check())
    assert text["params.num_leavs"].endswith("and would ignore it; did you mean 'num_leaves'?")
    assert text["params.gamma_ray"].endswith(
        "LightGBM has no parameter 'gamma_ray' and would ignore it; see the library's documentation"
    )


@pytest.mark.parametrize(
    ("params", "place", "text"),
    [
        ({"num_leaves": 31.5}, "num_leaves", 'should be of type int, got "31.5"'),
        ({"max_depth": "deep"}, "max_depth", 'should be of type int, got "deep"'),
        ({"num_leaves": 1}, "num_leaves", "1 is refused: it requires num_leaves > 1"),
        ({"eta": -1}, "eta", "it requires learning_rate > 0.0"),
        ({"boosting": "gdbt"}, "boosting", "Unknown boosting type gdbt"),
        ({"extra_trees": "perhaps"}, "extra_trees", 'got "perhaps"'),
        ({"num_leaves": None}, "num_leaves", "num_leaves has no value"),
        ({"eta": 0.1, "learning_rate": 0.2}, "learning_rate", "given a second time; expected only eta"),
        (
            {"monotone_constraints": [1, 0]},
            "monotone_constraints",
            "n_features == monotone_constraints length",
        ),
        (
            {"monotone_constraints": [1, 0, 0, 0, 0, 0], "mc_method": "advanzed"},
            "monotone_constraints_method",
            "did you mean 'advanced'",
        ),
        ({"device": "gpu"}, "device", "No OpenCL device found"),
        (
            {"bagging_fraction": 0.9, "bagging_freq": 1, "device": "gpu"},
            "device",
            "'gpu' is refused: No OpenCL device found",
        ),
        ({"num_leaves": {"a": 1}}, "num_leaves", "Unknown type of parameter:num_leaves"),
    ],
)
def test_values_that_lightgbm_rejects_or_misreads_are_refused(
    params: dict[str, Any], place: str, text: str, facts: Any, problem_texts: Any, capfd: Any
) -> None:
    problems = problem_texts(LightGBMRanker(params=params).check(facts()))
    assert list(problems) == [f"params.{place}"]
    assert text in problems[f"params.{place}"]
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""


def test_all_problems_come_at_once(facts: Any) -> None:
    params = {"seed": 1, "num_leavs": 3, "max_depth": "x", "min_data_in_leaf": -1, "top_rate": 0.1}
    problems = LightGBMRanker(params=params).check(facts(max_label=40))
    assert sorted(problem.place for problem in problems) == [
        "objective",
        "params.max_depth",
        "params.min_data_in_leaf",
        "params.num_leavs",
        "params.seed",
        "params.top_rate",
    ]


@pytest.mark.parametrize("objective", ["lambdarnk", "LambdaRank", "None", "", "rank:ndcg", "binary:logistic"])
def test_any_other_objective_is_refused(objective: str, problem_texts: Any) -> None:
    # LightGBM trains regression on None, and classification on grades if told to
    assert problem_texts(LightGBMRanker(objective=objective).check())["objective"].startswith(
        f"objective: unknown objective {objective!r}; "
    )


class TestLimitsOfTheData:
    def test_labels_above_the_gain_table(self, facts: Any, problem_texts: Any) -> None:
        def problem(**fields: Any) -> str | None:
            return problem_texts(LightGBMRanker(**fields).check(facts(max_label=31.0))).get("objective")

        assert problem() == (
            "objective: the largest training label is 31, and lambdarank has gains for 0 to 30; give "
            "params.label_gain with 32 values, map the labels to fewer with data.grades, or use objective: rank_xendcg"
        )
        assert problem(params={"label_gain": list(range(32))}) is None
        assert problem(params={"label_gain": ",".join(map(str, range(32)))}) is None
        assert "gains for 0 to 3;" in (problem(params={"label_gain": [0, 1, 3, 7]}) or "")
        assert problem(objective="rank_xendcg") is None
        assert problem(objective="regression") is None

    @pytest.mark.parametrize(("objective", "does"), [("lambdarank", "refuses"), ("rank_xendcg", "truncates")])
    def test_fractional_labels(self, objective: str, does: str, facts: Any, problem_texts: Any) -> None:
        text = problem_texts(LightGBMRanker(objective=objective).check(facts(n_fractional=3)))["objective"]
        assert f"{objective} {does} fractional labels; found 3 such training labels" in text
        assert not LightGBMRanker(objective="regression").check(facts(n_fractional=3))

    def test_more_than_ten_thousand_rows_in_a_query(
        self, make_dataset: Any, facts: Any, problem_texts: Any
    ) -> None:
        text = problem_texts(LightGBMRanker().check(facts(largest_query=10_001)))["objective"]
        assert "a training query has 10001 rows, and lambdarank takes at most 10000" in text
        assert not LightGBMRanker().check(facts(largest_query=10_000))
        assert not LightGBMRanker(objective="rank_xendcg").check(facts(largest_query=10_001))

    def test_leaves_no_split_can_have(self, train: Any, facts: Any, problem_texts: Any) -> None:
        with pytest.raises(RankerError, match="cannot be split into two leaves of 9999 rows"):
            LightGBMRanker(params={"min_data": 9999}).fit(Training(train=train, rounds=2))
        xendcg = LightGBMRanker(objective="rank_xendcg", params={"min_sum_hessian": 100})
        assert (
            "the model would be constant"
            in problem_texts(xendcg.check(facts(n_queries=80)))["params.min_sum_hessian_in_leaf"]
        )
        assert not xendcg.check(facts(n_queries=500))

    def test_dart_cannot_stop_early(self, facts: Any, problem_texts: Any) -> None:
        dart = LightGBMRanker(params={"boosting_type": "dart", "drop_rate": 0.2})
        assert "dart rescales earlier trees" in problem_texts(dart.check(facts()))["params.boosting"]
        assert not dart.check(facts(stopping=False))


def test_a_constant_model_is_reported(train: Any) -> None:
    model = LightGBMRanker(params={"min_sum_hessian": 1e6}).fit(Training(train=train, rounds=20))
    assert np.ptp(model.score(train.features)) == 0
    assert len(model.cautions) == 1
    assert model.cautions[0].text.startswith("the model is constant")


def test_training_that_the_limit_ended_is_reported(train: Any) -> None:
    rule = StoppingRule(NDCG10, patience=50, max_rounds=3)
    [caution] = LightGBMRanker(params=SMALL).fit(Training(train=train, valid=train, stopping=rule)).cautions
    assert str(caution) == "best round 3 of 3, stopped by the limit, not by the metric; more rounds may help"


@pytest.mark.long
def test_settings_that_depend_on_threads_are_reported(train: Any) -> None:
    by_query = LightGBMRanker(params={**SAMPLED, "bagging_by_query": True})
    assert any(
        "another model in every run" in note
        for note in map(str, by_query.fit(Training(train=train, threads=2, rounds=2)).cautions)
    )
    assert not by_query.fit(Training(train=train, threads=1, rounds=2)).cautions


@pytest.mark.parametrize(
    ("params", "matter"),
    [
        ({}, False),
        (SAMPLED, False),
        ({"boosting": "dart"}, False),
        ({"bagging_by_query": True}, False),  # nothing is bagged
        ({**SAMPLED, "bagging_by_query": True}, True),
        ({"boosting": "goss"}, True),
        ({"data_sample_strategy": "goss"}, True),
        ({"use_quantized_grad": True}, True),
        ({"linear_trees": True}, True),
    ],
)
def test_which_models_the_number_of_threads_can_move(params: dict[str, Any], matter: bool) -> None:
    ranker = LightGBMRanker(params=params)
    assert ranker.threads_matter == matter
    assert bool(ranker.cautions(threads=2)) == matter


@pytest.mark.long
@pytest.mark.parametrize(
    "fields",
    [
        {"params": {"data_sample_strategy": "goss", "learning_rate": 0.5}},  # samples after 1/rate rounds
        {"params": {"use_quantized_grad": True}},
        {"objective": "regression", "params": {"linear_tree": True}},
    ],
)
def test_threads_really_move_what_is_said_to_be_moved_and_nothing_else_does(
    fields: dict[str, Any], make_dataset: Any
) -> None:
    # measured: should a release make these repeat on any number of threads, the caution is no longer due
    data = make_dataset(5, n_queries=300)

    def scores(threads: int) -> Any:
        model = LightGBMRanker(**fields).fit(Training(train=data, seed=1, threads=threads, rounds=4))
        return model.score(data.features)

    assert LightGBMRanker(**fields).threads_matter
    of_two = scores(2)
    np.testing.assert_array_equal(scores(2), of_two)
    assert not np.array_equal(scores(1), of_two)


@pytest.mark.long
def test_bagging_by_query_repeats_with_one_thread(make_dataset: Any) -> None:
    data = make_dataset(5)
    ranker = LightGBMRanker(params={**SAMPLED, "bagging_by_query": True})
    first, second = (ranker.fit(Training(train=data, seed=1, threads=1, rounds=5)) for _ in range(2))
    np.testing.assert_array_equal(first.score(data.features), second.score(data.features))
    assert not ranker.cautions(threads=1)
    [said] = ranker.cautions(threads=2)
    assert (said.kind, said.severity) == ("not-deterministic", "warning")
    assert str(said) == (
        "bagging_by_query with several threads (here 2) gives another model in every run; one thread repeats"
    )


def test_a_failure_of_the_library_is_a_training_error_in_its_words(train: Any, monkeypatch: Any) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise lightgbm.basic.LightGBMError("Check failed: (num_data) > (0) at /src/dataset.cpp, line 3 .\n")

    monkeypatch.setattr(lightgbm, "train", fail)
    with pytest.raises(TrainingError, match=r"^LightGBM: it requires num_data > 0$"):
        LightGBMRanker().fit(Training(train=train, rounds=2))

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(lightgbm, "train", interrupt)
    with pytest.raises(KeyboardInterrupt):
        LightGBMRanker().fit(Training(train=train, rounds=2))


def test_an_unreadable_model_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "model.txt").write_text("not a model")
    with pytest.raises(DataError, match=r"model\.txt: LightGBM cannot read it"):
        LightGBMModel.load(tmp_path)


@pytest.mark.long
@pytest.mark.skipif(lightgbm.__version__.startswith("4.3."), reason="4.3 prints while it loads")
def test_threads_that_load_models_leave_what_is_printed(train: Any, tmp_path: Path) -> None:
    """A web server's threads load models at once; what the process prints afterwards must not be lost."""
    LightGBMRanker(objective="regression").fit(Training(train=train, rounds=2)).save(tmp_path)
    stream, interval = sys.stdout, sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(LightGBMModel.load, [tmp_path] * 60))
        assert sys.stdout is stream
    finally:
        sys.setswitchinterval(interval)
        sys.stdout = stream


@pytest.mark.long
def test_real_data_trains_as_the_library_alone_does(shared_data: Path) -> None:
    from ltr_harness.data.readers.lightgbm import LightGbm

    folder = shared_data / "lightgbm_lambdarank"
    train, test = (LightGbm(n_features=301).read([f"rank.{name}"], folder) for name in ("train", "test"))
    rule = StoppingRule(NDCG10, patience=3, max_rounds=12)
    params = {"num_leaves": 15, "learning_rate": 0.1}
    training = Training(train=train, valid=test, seed=1, stopping=rule)
    model = LightGBMRanker(params=params).fit(training)
    assert trees(model.booster) == trees(
        train_library("lambdarank", params, library_data(train), seed=1, rounds=model.best_round or 0)
    )
    assert model.history[(model.best_round or 0) - 1].value > 0.6
