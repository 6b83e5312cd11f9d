"""Our gradients beside those of lambdarank, rank:ndcg, rank:map and rank:pairwise, read off the libraries' trees."""

from __future__ import annotations

import json
from typing import Any

import lightgbm
import numpy as np
import pytest
import xgboost
from numpy.typing import NDArray

from ltr_harness.boosting.lightgbm import objective as lightgbm_objective
from ltr_harness.boosting.swap_gradients import Gradients, MetricObjective
from ltr_harness.boosting.xgboost import objective as xgboost_objective
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.data.readers.letor import Letor
from ltr_harness.data.readers.lightgbm import LightGbm
from ltr_harness.metrics import parse_metric

pytestmark = pytest.mark.long

SIZES = np.array([7, 1, 9, 6])
RNG = np.random.default_rng(5)
GRADES = RNG.integers(0, 4, SIZES.sum()).astype(float)
SCORES = RNG.normal(size=SIZES.sum()).round(1)  # with ties
Pair = tuple[NDArray[np.float64], NDArray[np.float64]]
SLOW = 2.0**-60  # a power of two, so that dividing by it is exact
# Each splits five neighbouring rows from the others (LightGBM judges by its hessian that a single row may be none)
WINDOWS = (np.arange(SIZES.sum()) - np.arange(SIZES.sum())[:, None]) % SIZES.sum() < 5


def of_lightgbm(labels: Any, weight: Any = None, **params: Any) -> Pair:
    """Rows split off by a tree have the leaf -g / (h + ridge); two ridges tell the sums g and h of each window.

    One booster grows all trees, each on the one window that counts, and so slowly that no score moves.
    """
    quiet = {"verbosity": -1, "num_threads": 1, "min_data_in_bin": 1, "min_data_in_leaf": 0}
    grown = {"num_leaves": 2, "min_sum_hessian_in_leaf": 0.0, "learning_rate": SLOW}
    columns = WINDOWS.T.astype(float)
    data = lightgbm.Dataset(columns, labels, group=SIZES, init_score=SCORES, weight=weight, params=quiet)
    booster = lightgbm.Booster({**quiet, **grown, "objective": "lambdarank", **params}, data)
    inside = np.ones((1, len(WINDOWS)))

    def leaf(window: int, ridge: float) -> float:
        counting = [float(one == window) for one in range(len(WINDOWS))]
        booster.reset_parameter({"feature_contri": counting, "lambda_l2": ridge})
        booster.update()
        tree = booster.num_trees() - 1
        return float(booster.predict(inside, raw_score=True, start_iteration=tree, num_iteration=1)[0]) / SLOW

    return gradients_of_leaves([(leaf(window, 0.01), leaf(window, 1.0)) for window in range(len(WINDOWS))])


def of_xgboost(labels: Any, objective: str, weight: Any = None, **params: Any) -> Pair:
    """A tree says the sum h of each of its leaves, which are -g / (h + ridge)."""
    grown = {"max_depth": 1, "min_child_weight": 0.0, "eta": 1.0, "lambda": 0.01, "nthread": 1}
    sums = []
    for window in WINDOWS:
        column = window.astype(float)[:, None]
        data = xgboost.DMatrix(column, labels, group=SIZES, base_margin=SCORES, weight=weight, nthread=1)
        booster = xgboost.Booster({**grown, "objective": objective, "verbosity": 0, **params}, [data])
        booster.update(data, 0)
        (tree,) = booster.get_dump(with_stats=True, dump_format="json")
        root = json.loads(tree)  # without children where the window has no gradient
        inside = [one for one in root.get("children", []) if one["nodeid"] == root["no"]]
        sums.append([(-one["leaf"] * (one["cover"] + 0.01), one["cover"]) for one in inside] or [(0.0, 0.0)])
    gradient, hessian = np.concatenate(sums).T
    return gradient, hessian


def gradients_of_leaves(leaves: list[tuple[float, float]]) -> Pair:
    near, far = np.array(leaves).T  # -g / (h + .01) and -g / (h + 1)
    split = near != far  # a window without any gradient is not split off
    hessian = np.where(split, (far - 0.01 * near) / np.where(split, near - far, 1.0), 0.0)
    return -near * (hessian + 0.01), hessian


def our_gradients(metric: str, labels: Any, weights: Any = None, **chosen: Any) -> Pair:
    judgments = Judgments.checked(labels, QueryGroups.from_sizes(SIZES), query_weights=weights)
    objective = MetricObjective(metric=parse_metric(metric), **chosen)
    gradient, hessian = Gradients(objective, judgments).at_scores(SCORES)
    return gradient.astype(float), hessian.astype(float)


def assert_same(found: Pair, expected: Pair, factor: float = 1.0) -> None:
    gradient, hessian = expected
    assert np.count_nonzero(gradient) > 15
    np.testing.assert_allclose(found[0], WINDOWS @ gradient, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(found[1], factor * (WINDOWS @ hessian), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("norm", [True, False])
@pytest.mark.parametrize("sigma", [1.0, 2.0])
def test_ndcg_is_lambdarank(norm: bool, sigma: float) -> None:
    theirs = of_lightgbm(GRADES, lambdarank_norm=norm, sigmoid=sigma)
    assert_same(theirs, our_gradients("ndcg", GRADES, norm=norm, sigma=sigma))


def test_gain_tables_and_truncation_are_lambdaranks() -> None:
    gains = [0, 1, 5, 6]
    theirs = of_lightgbm(GRADES, label_gain=gains, lambdarank_truncation_level=9)
    assert_same(theirs, our_gradients("ndcg(gain=0_1_5_6)", GRADES, truncation_level=9))


def test_lambdaranks_ideal_ends_at_its_truncation_level_and_its_discount_does_not() -> None:
    theirs = of_lightgbm(GRADES, lambdarank_truncation_level=3, lambdarank_norm=False)[0]
    mine = our_gradients("ndcg", GRADES, truncation_level=3, norm=False)[0]
    judgments = Judgments.checked(GRADES, QueryGroups.from_sizes(SIZES))
    cut, whole = (parse_metric(metric).swap_change(judgments).scale for metric in ("ndcg@3", "ndcg"))
    assert (cut > whole).any()
    np.testing.assert_allclose(theirs, WINDOWS @ (mine * np.repeat(cut / whole, SIZES)), rtol=1e-3, atol=1e-5)


def test_weights_of_queries_multiply_as_lambdaranks_do() -> None:
    weights = np.array([2.0, 1.0, 1.5, 0.5])
    theirs = of_lightgbm(GRADES, weight=np.repeat(weights, SIZES))
    assert_same(theirs, our_gradients("ndcg", GRADES, weights))


PAIRS = {"lambdarank_pair_method": "topk", "lambdarank_num_pair_per_sample": 32}


@pytest.mark.parametrize("norm", [True, False])
def test_ndcg_is_rank_ndcg_with_half_its_hessian(norm: bool) -> None:
    chosen = {**PAIRS, "lambdarank_normalization": norm, "lambdarank_score_normalization": norm}
    assert_same(of_xgboost(GRADES, "rank:ndcg", **chosen), our_gradients("ndcg", GRADES, norm=norm), 2.0)
    linear = of_xgboost(GRADES, "rank:ndcg", ndcg_exp_gain=False, **chosen)
    assert_same(linear, our_gradients("ndcg(gain=linear)", GRADES, norm=norm), 2.0)


@pytest.mark.parametrize("norm", [True, False])
def test_map_is_rank_map(norm: bool) -> None:
    binary = (GRADES > 1).astype(float)
    chosen = {**PAIRS, "lambdarank_normalization": norm, "lambdarank_score_normalization": norm}
    theirs = of_xgboost(binary, "rank:map", **chosen)
    assert_same(theirs, our_gradients("map(denominator=total)", binary, norm=norm), 2.0)


def test_kendall_is_rank_pairwise() -> None:
    chosen = {**PAIRS, "lambdarank_normalization": False, "lambdarank_score_normalization": False}
    assert_same(
        of_xgboost(GRADES, "rank:pairwise", **chosen),
        our_gradients("kendall_tau_distance", GRADES, norm=False),
        2.0,
    )


def test_xgboost_divides_weights_by_their_mean() -> None:
    weights = np.array([2.0, 1.0, 1.5, 0.5])
    theirs = of_xgboost(GRADES, "rank:ndcg", weight=weights, **PAIRS)
    assert_same(theirs, our_gradients("ndcg", GRADES, weights / weights.mean()), 2.0)


@pytest.fixture(scope="module")
def example(shared_data: Any) -> Any:
    return LightGbm().read(["rank.train"], shared_data / "lightgbm_lambdarank")


@pytest.fixture(scope="module")
def mq2008(shared_data: Any) -> Any:
    return Letor().read(["S1.txt"], shared_data / "mq2008")


@pytest.mark.parametrize(("name", "rounds"), [("example", 4), ("mq2008", 2)])
def test_models_are_lambdaranks_until_its_table_of_the_sigmoid_decides_a_split(
    name: str, rounds: int, request: pytest.FixtureRequest
) -> None:
    data = request.getfixturevalue(name)
    quiet = {
        "verbosity": -1,
        "num_threads": 1,
        "deterministic": True,
        "force_row_wise": True,
        "metric": "None",
    }

    def scores(objective: Any, **params: Any) -> Any:
        rows = lightgbm.Dataset(data.features, data.labels, group=data.groups.sizes, params=quiet)
        booster = lightgbm.train({**quiet, "objective": objective, **params}, rows, rounds)
        return booster.predict(data.features, raw_score=True)

    theirs = scores("lambdarank", lambdarank_truncation_level=200)
    mine = scores(lightgbm_objective("ndcg", truncation_level=200))
    np.testing.assert_allclose(mine, theirs, atol=2e-3)
    assert np.ptp(theirs) > 0.1


@pytest.mark.parametrize("name", ["example", "mq2008"])
def test_models_are_rank_ndcgs_with_half_of_what_its_hessian_is_compared_with(
    name: str, request: pytest.FixtureRequest
) -> None:
    data = request.getfixturevalue(name)
    matrix = xgboost.DMatrix(data.features, data.labels, group=data.groups.sizes, nthread=1)
    quiet = {
        "verbosity": 0,
        "nthread": 1,
        "disable_default_eval_metric": 1,
        "max_depth": 4,
        "base_score": 0.0,
    }
    own = {"objective": "rank:ndcg", "lambdarank_num_pair_per_sample": 200}
    whole = {"eta": 0.3, "lambda": 1.0, "min_child_weight": 1.0}
    half = {option: value / 2 for option, value in whole.items()}
    theirs = xgboost.train({**quiet, **own, **whole}, matrix, 8)
    mine = xgboost.train({**quiet, **half}, matrix, 8, obj=xgboost_objective("ndcg", truncation_level=200))
    found, expected = (booster.predict(matrix, output_margin=True) for booster in (mine, theirs))
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert np.ptp(expected) > 0.1
