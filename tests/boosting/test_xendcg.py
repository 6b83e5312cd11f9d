"""XE-NDCG: its arithmetic by hand, LightGBM's own as the proof, and its life inside xgboost.train."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import lightgbm
import numpy as np
import pytest
import xgboost

from ltr_harness.boosting.xgboost import XENDCG, Watch, custom_metric
from ltr_harness.boosting.xgboost_metrics import draw_gammas, xendcg_gradients, xendcg_worth
from ltr_harness.data.arrays import sealed
from ltr_harness.data.queries import QueryGroups
from ltr_harness.errors import DataError

PARAMS: dict[str, Any] = {
    "tree_method": "hist",
    "disable_default_eval_metric": 1,
    "base_score": 0.0,
    "max_depth": 4,
    "eta": 0.3,
    "nthread": 1,
    "seed": 1,
    "verbosity": 0,
}


def matrix(split: Any, **more: Any) -> Any:
    return xgboost.DMatrix(split.X, label=split.labels, group=split.sizes, nthread=1, **more)


def train_xgboost(train: Any, rounds: int, *, seed: int = 1, params: Any = None, **more: Any) -> Any:
    objective = XENDCG(seed=seed)
    data = matrix(train, **more)
    return xgboost.train({**PARAMS, **(params or {})}, data, rounds, obj=objective, callbacks=[objective])


def margins(booster: Any, split: Any, **more: Any) -> Any:
    return booster.predict(matrix(split), output_margin=True, **more)


def by_hand(s: Any, y: Any, gamma: Any) -> tuple[Any, Any]:
    """The formulas as they stand at the top of the module, in NumPy, for one query."""
    rho = np.exp(s) / np.exp(s).sum()
    phi = 2.0**y - gamma
    g1 = rho - phi / phi.sum()
    a = g1 / (1 - rho)
    g2 = rho * (a.sum() - a)
    c = g2 / (1 - rho)
    g3 = rho * (c.sum() - c)
    return g1 + g2 + g3, rho * (1 - rho)


def splitmix(bits: int) -> int:
    mask = (1 << 64) - 1
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & mask
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & mask
    return bits ^ (bits >> 31)


class TestGammas:
    @pytest.mark.long
    def test_they_are_what_the_generator_says(self) -> None:
        mask, weyl = (1 << 64) - 1, 0x9E3779B97F4A7C15
        for seed, round_ in ((0, 0), (1, 7), (-3, 2), (2**31, 10**6)):
            start = splitmix((splitmix((seed + weyl) & mask) + (round_ + 1) * weyl) & mask)
            expected = [(splitmix((start + (row + 1) * weyl) & mask) >> 11) * 2.0**-53 for row in range(4)]
            assert draw_gammas(seed, round_, 4).tolist() == expected

    def test_they_are_uniform_and_unrelated_between_seeds_rounds_and_rows(self) -> None:
        draws = np.array([draw_gammas(seed, round_, 20_000) for seed in (1, 2) for round_ in (0, 1, 2)])
        assert draws.min() >= 0
        assert draws.max() < 1
        np.testing.assert_allclose(draws.mean(axis=1), 0.5, atol=4 * np.sqrt(1 / 12 / 20_000))
        assert np.abs(np.corrcoef(draws) - np.eye(6)).max() < 4 / np.sqrt(20_000)
        assert abs(np.corrcoef(draws[0, 1:], draws[0, :-1])[0, 1]) < 4 / np.sqrt(20_000)


def gradients(scores: Any, labels: Any, sizes: Any, weights: Any, gammas: Any) -> Any:
    """Gradients and hessians from arrays that are read-only where those of a training are."""
    boundaries = QueryGroups.from_sizes(sizes).boundaries
    return xendcg_gradients(scores, xendcg_worth(labels), boundaries, sealed(np.array(weights)), gammas)


@pytest.mark.long
def test_gradients_are_the_formulas_times_the_querys_weight(train: Any) -> None:
    rng = np.random.default_rng(0)
    groups = QueryGroups.from_sizes(train.sizes)
    scores, gammas = rng.normal(size=groups.n_rows), rng.uniform(size=groups.n_rows)
    weights = rng.uniform(0.1, 3, groups.n_queries)
    gradient, hessian = gradients(scores, train.labels, train.sizes, weights, gammas)
    for query, (first, end) in enumerate(zip(groups.boundaries, groups.boundaries[1:], strict=False)):
        rows = slice(first, end)
        if end - first == 1:
            assert gradient[first] == hessian[first] == 0
            continue
        g, h = by_hand(scores[rows], np.floor(train.labels[rows]), gammas[rows])
        np.testing.assert_allclose(gradient[rows], weights[query] * g, rtol=2e-6, atol=1e-7)
        np.testing.assert_allclose(hessian[rows], weights[query] * h, rtol=2e-6)


def test_two_rows_by_hand() -> None:
    # s = 0, 0; y = 1, 0; gamma = 0: rho = 1/2, p = 2/3, 1/3; g1 = -1/6, 1/6; a = -1/3, 1/3; g2 = 1/6, -1/6;
    # c = 1/3, -1/3; g3 = -1/6, 1/6
    gradient, hessian = gradients(np.zeros(2), np.array([1.9, 0.0]), [2], [1.0], np.zeros(2))
    np.testing.assert_allclose(gradient, [-1 / 6, 1 / 6], rtol=1e-6)
    np.testing.assert_allclose(hessian, [1 / 4, 1 / 4], rtol=1e-6)


def test_three_rows_of_unlike_shares_are_the_formulas() -> None:
    scores, labels, gammas = (
        np.array([0.0, 0.5, -1.0]),
        np.array([1.0, 0.0, 3.0]),
        np.array([0.25, 0.5, 0.75]),
    )
    found = gradients(scores, labels, [3], [2.0], gammas)
    for one, expected in zip(found, by_hand(scores, labels, gammas), strict=True):
        np.testing.assert_allclose(one, 2 * expected, rtol=2e-6)


@pytest.mark.parametrize("scale", [1e2, 1e5, 1e300])
def test_extreme_scores_give_finite_numbers(scale: float) -> None:
    scores = scale * np.array([1.0, 0.5, -1.0, 0.0, 0.0])
    gradient, hessian = gradients(scores, np.array([0, 4, 2, 1, 0.0]), [3, 2], np.ones(2), np.full(5, 0.5))
    assert np.isfinite(gradient).all()
    assert (hessian > 0).all()


@pytest.mark.long
def test_with_lightgbms_own_generator_it_is_lightgbms_rank_xendcg(train: Any) -> None:
    params = {
        "num_leaves": 15,
        "min_data_in_leaf": 5,
        "learning_rate": 0.1,
        "objective_seed": 7,
        "verbosity": -1,
        "num_threads": 1,
        "deterministic": True,
        "force_row_wise": True,
        "metric": "None",
    }
    weights = np.linspace(0.5, 2.0, len(train.sizes))
    for query_weights in (None, weights):
        groups = QueryGroups.from_sizes(train.sizes)
        of_rows = None if query_weights is None else np.repeat(query_weights, train.sizes)
        states = [7 + query for query in range(groups.n_queries)]

        def gammas(states: Any = states) -> Any:
            drawn = []
            for query, size in enumerate(train.sizes):
                for _ in range(size if size > 1 else 0):  # LightGBM draws nothing for a single row
                    states[query] = (214013 * states[query] + 2531011) % 2**32
                    drawn.append(((states[query] >> 16) & 0x7FFF) / 32768)
                if size == 1:
                    drawn.append(0.0)
            return np.array(drawn)

        def objective(scores: Any, _: Any, groups: Any = groups, weights: Any = query_weights) -> Any:
            ones = np.ones(groups.n_queries) if weights is None else weights
            return gradients(scores, train.labels, train.sizes, ones, gammas())

        def data(of_rows: Any = of_rows) -> Any:
            return lightgbm.Dataset(
                train.X, label=train.labels, group=train.sizes, weight=of_rows, params=params
            )

        native = lightgbm.train({**params, "objective": "rank_xendcg"}, data(), 50)
        ours = lightgbm.train({**params, "objective": objective}, data(), 50)
        expected = native.predict(train.X, raw_score=True)
        assert np.ptp(expected) > 1
        np.testing.assert_allclose(ours.predict(train.X, raw_score=True), expected, rtol=0, atol=1e-6)


class TestInXGBoost:
    @pytest.mark.long
    def test_it_learns_what_lightgbms_does(self, train: Any, valid: Any) -> None:
        watch = Watch("ndcg@10", data={"valid": matrix(valid)}, patience=10)
        objective = XENDCG(seed=1)
        booster = xgboost.train(
            {**PARAMS, "eta": 0.1}, matrix(train), 100, obj=objective, callbacks=[objective, watch]
        )
        assert booster.num_boosted_rounds() == watch.best_round
        assert (watch.best_value or 0) > 0.65  # a random order has 0.45

    def test_the_seed_decides_and_threads_do_not(self, train: Any) -> None:
        base = margins(train_xgboost(train, 8), train)
        np.testing.assert_array_equal(margins(train_xgboost(train, 8), train), base)
        np.testing.assert_array_equal(margins(train_xgboost(train, 8, params={"nthread": 2}), train), base)
        assert not np.array_equal(margins(train_xgboost(train, 8, seed=2), train), base)

    def test_continued_training_is_the_training_that_was_not_interrupted(self, train: Any) -> None:
        whole = train_xgboost(train, 8)
        objective = XENDCG(seed=1)
        half = train_xgboost(train, 4)
        rest = xgboost.train(PARAMS, matrix(train), 4, obj=objective, callbacks=[objective], xgb_model=half)
        np.testing.assert_allclose(margins(rest, train), margins(whole, train), rtol=1e-6)

    def test_one_object_serves_one_training_after_another(self, train: Any) -> None:
        objective, data = XENDCG(seed=1), matrix(train)
        first, second = (
            xgboost.train(PARAMS, data, 5, obj=objective, callbacks=[objective]) for _ in range(2)
        )
        np.testing.assert_array_equal(margins(first, train), margins(second, train))

    def test_alone_it_counts_the_rounds_itself(self, train: Any) -> None:
        alone = xgboost.train(PARAMS, matrix(train), 5, obj=XENDCG(seed=1))
        np.testing.assert_array_equal(margins(alone, train), margins(train_xgboost(train, 5), train))

    def test_sampled_rows_do_not_change_the_draw(self, train: Any) -> None:
        seen: list[Any] = []

        class Spy(XENDCG):
            def __call__(self, scores: Any, data: Any) -> Any:
                result = super().__call__(scores, data)
                seen.append(result[0])
                return result

        for share in (1.0, 0.5):
            spy = Spy(seed=3)
            xgboost.train({**PARAMS, "subsample": share}, matrix(train), 1, obj=spy, callbacks=[spy])
        np.testing.assert_array_equal(seen[0], seen[1])

    def test_query_weights_count(self, train: Any) -> None:
        n = len(train.sizes)
        plain = margins(train_xgboost(train, 5), train)
        even = margins(train_xgboost(train, 5, weight=np.ones(n)), train)
        np.testing.assert_array_equal(even, plain)
        weights = np.linspace(0, 2, n)
        scores = plain.astype(np.float32)
        unweighted, weighted = (
            XENDCG(seed=1)(scores, matrix(train, weight=given)) for given in (None, weights)
        )
        for ours, expected in zip(weighted, unweighted, strict=True):
            np.testing.assert_allclose(ours, expected * np.repeat(weights, train.sizes), rtol=1e-6)

    @pytest.mark.long
    def test_cross_validation_takes_it_too(self, train: Any) -> None:
        objective = XENDCG(seed=1)
        curves = xgboost.cv(
            PARAMS,
            matrix(train),
            8,
            nfold=3,
            obj=objective,
            custom_metric=custom_metric("ndcg@10"),
            callbacks=[objective],
            as_pandas=False,
        )
        assert len(curves["test-ndcg@10-mean"]) == 8
        assert max(curves["test-ndcg@10-mean"][1:]) > curves["test-ndcg@10-mean"][0]

    def test_no_groups_is_an_error(self, train: Any) -> None:
        data = xgboost.DMatrix(train.X, label=train.labels)
        with pytest.raises(DataError, match="has no query groups"):
            xgboost.train(PARAMS, data, 1, obj=XENDCG())


@pytest.mark.parametrize("again", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_and_a_pickle_train_the_same(train: Any, again: Any) -> None:
    objective = XENDCG(seed=3)
    models = []
    for one in (objective, again(objective)):  # the second copy is of an object that was used
        booster = xgboost.train(PARAMS, matrix(train), 3, obj=one, callbacks=[one])
        models.append(booster.save_raw("json"))
    assert models[0] == models[1]
