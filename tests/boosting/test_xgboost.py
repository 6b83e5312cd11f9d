"""Our metrics and our stopping inside xgboost.train; each test of a trap says what XGBoost alone would do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xgboost

from ltr_harness.boosting.stopping import StoppingRule
from ltr_harness.boosting.watching import watch_by_rule
from ltr_harness.boosting.xgboost import XENDCG, Watch, custom_metric, judgments_of, objective
from ltr_harness.boosting.xgboost_metrics import AcrossWorkers, packed_matrix
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.errors import DataError, MetricError, UsageError
from ltr_harness.metrics import MAP, MRR, NDCG, bind

PARAMS: dict[str, Any] = {
    "objective": "rank:ndcg",
    "tree_method": "hist",
    "disable_default_eval_metric": 1,
    "max_depth": 4,
    "eta": 0.3,
    "nthread": 1,
    "seed": 1,
    "verbosity": 0,
}


def matrix(split: Any, **more: Any) -> Any:
    return xgboost.DMatrix(split.X, label=split.labels, group=split.sizes, **more)


def means(split: Any, scores: Any, *metrics: Any) -> Any:
    return bind(metrics, Judgments.checked(split.labels, QueryGroups.from_sizes(split.sizes))).means(scores)


def fit(train: Any, valid: Any, rounds: int = 60, **given: Any) -> Any:
    params = {**PARAMS, **given.pop("params", {})}
    watch = Watch(*given.pop("metrics", ("ndcg@10", "mrr@10")), data={"valid": matrix(valid)}, **given)
    return xgboost.train(params, matrix(train), rounds, callbacks=[watch], verbose_eval=False), watch


def curve(watch: Any, metric: str, data: str = "valid") -> list[float]:
    return [p.value for p in watch.history if p.metric == metric and p.data == data]


def test_history_is_exact_and_is_the_metric_on_the_models_scores(train: Any, valid: Any) -> None:
    booster, watch = fit(
        train, valid, rounds=7, patience=None, metrics=("ndcg@10", "err(max_grade=4)@5", "map")
    )
    for round_ in range(1, 8):
        scores = booster.predict(matrix(valid), output_margin=True, iteration_range=(0, round_))
        expected = means(valid, scores, "ndcg@10", "err(max_grade=4)@5", "map")
        assert [p.value for p in watch.history if p.round == round_] == expected.tolist()


@pytest.mark.long
def test_stops_where_the_metric_is_best_and_keeps_that_model(train: Any, valid: Any, tmp_path: Path) -> None:
    booster, watch = fit(train, valid, patience=8)
    values = curve(watch, "ndcg@10")
    best = int(np.argmax(values)) + 1
    assert 1 < best < len(values) == best + 8 < 60
    assert (watch.best_round, watch.best_value) == (best, max(values))
    assert (booster.best_iteration, booster.best_score) == (best - 1, max(values))
    booster.save_model(tmp_path / "model.ubj")
    loaded = xgboost.Booster(model_file=tmp_path / "model.ubj")
    assert (loaded.best_iteration, loaded.best_score) == (best - 1, max(values))
    for model in (booster, loaded):
        # Booster.predict of a model that is not cut would use all trees, whatever best_iteration says
        assert model.num_boosted_rounds() == best
        assert means(valid, model.predict(matrix(valid)), "ndcg@10")[0] == pytest.approx(
            max(values), abs=1e-9
        )
        assert means(valid, model.inplace_predict(valid.X), "ndcg@10")[0] == pytest.approx(
            max(values), abs=1e-9
        )


@pytest.mark.long
def test_training_that_ends_before_patience_keeps_the_best_round_too(train: Any, valid: Any) -> None:
    booster, watch = fit(train, valid, patience=1000)
    values = curve(watch, "ndcg@10")
    assert len(values) == 60
    assert booster.num_boosted_rounds() == watch.best_round == np.argmax(values) + 1 < 60


@pytest.mark.long
@pytest.mark.parametrize("metric", ["mrr@10", "err(max_grade=4)@10"])
def test_a_rising_metric_of_any_name_is_maximised(train: Any, metric: str) -> None:
    # XGBoost's own EarlyStopping minimises what is not called ndcg, map, auc or pre, and keeps round 0
    _, watch = fit(train, train, metrics=(metric,), patience=20)
    assert watch.best_round == int(np.argmax(curve(watch, metric))) + 1 > 1
    assert watch.best_value == max(curve(watch, metric))


def test_smaller_steps_than_six_decimals_count(train: Any, valid: Any) -> None:
    plain = xgboost.train(
        PARAMS,
        matrix(train),
        5,
        evals=[(matrix(valid), "valid")],
        custom_metric=custom_metric("ndcg@10"),
        evals_result=(through_text := {}),
        verbose_eval=False,
    )
    _, watch = fit(train, valid, rounds=5, patience=None)
    assert plain.num_boosted_rounds() == 5
    exact = curve(watch, "ndcg@10")
    assert through_text["valid"]["ndcg@10"] == [pytest.approx(value, abs=6e-7) for value in exact]
    assert through_text["valid"]["ndcg@10"] != exact


@pytest.mark.long
def test_xgboosts_own_metrics_and_sets_beside_ours_do_not_decide(train: Any, valid: Any) -> None:
    held_out, data = matrix(valid), matrix(train)
    watch = Watch("mrr@10", data={"valid": held_out}, patience=10)
    params = {**PARAMS, "disable_default_eval_metric": 0}
    evals = [(held_out, "valid"), (data, "train")]
    beside = xgboost.train(params, data, 60, evals=evals, callbacks=[watch], verbose_eval=False)
    alone, _ = fit(train, valid, metrics=("mrr@10",), patience=10)
    assert beside.best_iteration == alone.best_iteration
    assert beside.num_boosted_rounds() == alone.num_boosted_rounds()


@pytest.mark.long
def test_one_object_serves_two_trainings(train: Any, valid: Any) -> None:
    # XGBoost's own callback keeps its state, and the second model has no best_iteration
    watch = Watch("ndcg@10", data={"valid": matrix(valid)}, patience=8)
    first = xgboost.train(PARAMS, matrix(train), 60, callbacks=[watch], verbose_eval=False)
    history = list(watch.history)
    again = xgboost.train(PARAMS, matrix(train), 60, callbacks=[watch], verbose_eval=False)
    assert watch.history == history
    assert again.save_raw() == first.save_raw()


@pytest.mark.long
def test_every_saves_the_other_rounds_and_evaluates_the_last(train: Any, valid: Any) -> None:
    seen: list[int] = []
    booster, watch = fit(
        train, valid, rounds=23, every=5, patience=1000, on_round=lambda points: seen.append(points[0].round)
    )
    rounds = sorted({point.round for point in watch.history})
    assert rounds == seen == [5, 10, 15, 20, 23]
    assert booster.num_boosted_rounds() == watch.best_round in rounds
    full = curve(fit(train, valid, rounds=23, patience=None)[1], "ndcg@10")
    assert curve(watch, "ndcg@10") == [full[round_ - 1] for round_ in rounds]


@pytest.mark.parametrize(("patience", "every"), [(5, 1), (4, 3), (50, 1)])
def test_in_blocks_rounds_are_evaluated_and_kept_as_one_by_one(
    train: Any, valid: Any, patience: int, every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ltr_harness.boosting.watching._LONGEST_BLOCK", np.inf)
    metrics, heard = [NDCG(k=10), MRR()], []
    rule = StoppingRule(metrics[0], patience, every=every)
    first, one_by_one = fit(train, valid, 20, metrics=metrics, patience=patience, every=every)
    blocks = watch_by_rule(Watch, rule, metrics, data={"valid": matrix(valid)}, on_round=heard.append)
    second = xgboost.train(PARAMS, matrix(train), 20, callbacks=[blocks], verbose_eval=False)
    assert blocks.history == one_by_one.history == [point for measured in heard for point in measured]
    assert blocks.best_round == one_by_one.best_round == second.num_boosted_rounds()
    assert second.save_raw("json") == first.save_raw("json")


def test_without_patience_all_rounds_are_kept(train: Any, valid: Any) -> None:
    booster, watch = fit(train, valid, rounds=30, patience=None)
    assert (booster.num_boosted_rounds(), watch.best_round, watch.best_value) == (30, None, None)


def test_continued_training_counts_from_the_first_model(train: Any, valid: Any) -> None:
    first = xgboost.train(PARAMS, matrix(train), 3)
    watch = Watch("ndcg@10", data={"valid": matrix(valid)}, patience=1000)
    booster = xgboost.train(PARAMS, matrix(train), 20, xgb_model=first, callbacks=[watch], verbose_eval=False)
    assert [point.round for point in watch.history] == list(range(4, 24))
    assert booster.num_boosted_rounds() == watch.best_round == booster.best_iteration + 1
    assert means(valid, booster.predict(matrix(valid)), "ndcg@10")[0] == pytest.approx(
        watch.best_value, abs=1e-9
    )


def test_attributes_and_feature_names_survive_the_cut(train: Any, valid: Any) -> None:
    class Labelled(xgboost.callback.TrainingCallback):
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            model.set_attr(owner="search team")
            return False

    names = ["bm25", "clicks", "c", "d", "e", "f"]
    watch = Watch("ndcg@10", data={"valid": matrix(valid, feature_names=names)}, patience=5)
    booster = xgboost.train(
        PARAMS, matrix(train, feature_names=names), 60, callbacks=[Labelled(), watch], verbose_eval=False
    )
    assert booster.num_boosted_rounds() < len(watch.history)
    assert booster.attr("owner") == "search team"
    assert booster.feature_names == names


def test_a_set_with_other_features_is_refused_in_its_first_round(train: Any, valid: Any) -> None:
    data = matrix(train, feature_names=list("abcdef"))
    watch = Watch("ndcg@10", data={"valid": matrix(valid, feature_names=list("bacdef"))})
    with pytest.raises(ValueError, match="feature_names mismatch"):
        xgboost.train(PARAMS, data, 1, callbacks=[watch], verbose_eval=False)


@pytest.mark.parametrize(
    ("kind", "reason"), [("dart", "DART rescales"), ("gblinear", "no rounds to return to")]
)
def test_models_that_cannot_go_back_are_refused(train: Any, valid: Any, kind: str, reason: str) -> None:
    params = {**PARAMS, "booster": kind, "tree_method": "auto", "verbosity": 0}
    with pytest.raises(UsageError, match=reason):
        fit(train, valid, params=params)
    if kind == "dart":
        with pytest.raises(UsageError, match=reason):
            fit(train, valid, params={**params, "rate_drop": 0.5})
        booster, _ = fit(train, valid, rounds=3, params=params, patience=None)
        assert booster.num_boosted_rounds() == 3


class TestAnotherRuleBesideOurs:
    """The first rule to give up would win: with EarlyStopping(3) beside patience=30, 5 rounds."""

    def fit(self, train: Any, valid: Any, *rules: Any, reverse: bool = False, **given: Any) -> Any:
        held_out = matrix(valid)
        return xgboost.train(
            {**PARAMS, "disable_default_eval_metric": 0},
            matrix(train),
            60,
            evals=[(held_out, "valid")],
            callbacks=list(rules[::-1] if reverse else rules),
            verbose_eval=False,
            **given,
        )

    @pytest.mark.parametrize("reverse", [False, True])
    def test_a_callback_is_refused_in_either_order(self, train: Any, valid: Any, reverse: bool) -> None:
        watch = Watch("ndcg@10", data={"valid": matrix(valid)}, patience=30)
        with pytest.raises(
            UsageError,
            match=r"XGBoost's own early stopping is on as well \(EarlyStopping, 3 rounds\).*remove it",
        ):
            self.fit(train, valid, watch, xgboost.callback.EarlyStopping(rounds=3), reverse=reverse)

    def test_the_argument_of_train_and_of_the_scikit_learn_interface_too(
        self, train: Any, valid: Any
    ) -> None:
        watch = Watch("ndcg@10", data={"valid": matrix(valid)}, patience=30)
        with pytest.raises(UsageError, match="XGBoost's own early stopping is on as well"):
            self.fit(train, valid, watch, early_stopping_rounds=3)
        ranker = xgboost.XGBRanker(n_estimators=5, early_stopping_rounds=3, callbacks=[watch], **PARAMS)
        with pytest.raises(UsageError, match="XGBoost's own early stopping is on as well"):
            ranker.fit(
                train.X,
                train.labels,
                group=train.sizes,
                eval_set=[(valid.X, valid.labels)],
                eval_group=[valid.sizes],
                verbose=False,
            )

    @pytest.mark.parametrize("reverse", [False, True])
    def test_cross_validation_has_no_place_for_watch(self, train: Any, reverse: bool) -> None:
        rules = [Watch("ndcg@10", data={"valid": matrix(train)}), xgboost.callback.EarlyStopping(rounds=3)]
        with pytest.raises(UsageError, match=r"Watch is for xgboost\.train"):
            xgboost.cv(PARAMS, matrix(train), 3, callbacks=rules[::-1] if reverse else rules)
        with pytest.raises(UsageError, match=r"Watch is for xgboost\.train"):
            xgboost.cv(PARAMS, matrix(train), 3, callbacks=rules[:1], early_stopping_rounds=3)

    def test_two_of_our_own_are_refused(self, train: Any, valid: Any) -> None:
        rules = [Watch(metric, data={"valid": matrix(valid)}) for metric in ("ndcg@10", "mrr@10")]
        with pytest.raises(UsageError, match=r"several callbacks stop this training .*expected one"):
            self.fit(train, valid, *rules)

    def test_watching_without_stopping_leaves_xgboosts_rule_alone(self, train: Any, valid: Any) -> None:
        watch = Watch("ndcg@10", data={"valid": matrix(valid)}, patience=None)
        watched = self.fit(train, valid, watch, xgboost.callback.EarlyStopping(rounds=3))
        alone = self.fit(train, valid, xgboost.callback.EarlyStopping(rounds=3))
        assert watched.num_boosted_rounds() == alone.num_boosted_rounds() < 60


def test_missing_groups_are_an_error(train: Any) -> None:
    # XGBoost alone trains on one giant query
    blind = xgboost.DMatrix(train.X, label=train.labels)
    with pytest.raises(DataError, match="would silently treat all rows as one query"):
        xgboost.train(PARAMS, matrix(train), 3, callbacks=[Watch("ndcg@10", data={"valid": blind})])
    with pytest.raises(DataError, match="would silently treat all rows as one query"):
        custom_metric("ndcg@10")(train.X[:, 0], blind)


def test_a_set_of_one_row_has_labels_and_queries() -> None:
    judgments = judgments_of(xgboost.DMatrix(np.ones((1, 1)), label=[2], group=[1]))
    assert (judgments.labels.tolist(), judgments.groups.sizes.tolist()) == ([2], [1])


@pytest.mark.parametrize("weights", [None, [3.0, 1.0, 5.0]])
def test_one_worker_alone_has_the_mean_over_its_queries(weights: list[float] | None) -> None:
    # reciprocal ranks 1 and 1/2; the third query has none, and counts nowhere
    data = xgboost.DMatrix(np.zeros((6, 1)), label=[1, 0, 1, 0, 0, 0], group=[2, 2, 2], weight=weights)
    found = AcrossWorkers([MRR()], data).means(np.array([2, 1, 1, 2, 1, 2], np.float32))
    assert found.tolist() == [0.75 if weights is None else (3 * 1 + 1 * 0.5) / 4]
    nowhere = xgboost.DMatrix(np.zeros((2, 1)), label=[0, 0], group=[2])
    assert np.isnan(AcrossWorkers([MRR()], nowhere).means(np.zeros(2, np.float32))).all()


def test_what_is_packed_makes_the_same_matrix() -> None:
    rows = np.arange(6.0).reshape(3, 2)
    bare = packed_matrix(xgboost.DMatrix(rows, label=[1, 0, 2], group=[2, 1]))
    assert (bare["weight"], bare["base_margin"]) == (None, None)
    full = xgboost.DMatrix(
        rows,
        label=[1, 0, 2],
        group=[2, 1],
        weight=[3, 0.5],
        base_margin=[0.25, 0, 1],
        feature_names=["a", "b"],
    )
    again = xgboost.DMatrix(**packed_matrix(full))
    assert again.get_data().toarray().tolist() == rows.tolist()
    assert (again.get_label().tolist(), again.get_uint_info("group_ptr").tolist()) == ([1, 0, 2], [0, 2, 3])
    assert (again.get_weight().tolist(), again.get_base_margin().tolist()) == ([3, 0.5], [0.25, 0, 1])
    assert again.feature_names == ["a", "b"]


def test_group_weights_are_query_weights(train: Any) -> None:
    weights = np.random.default_rng(0).uniform(0.1, 3, len(train.sizes))
    data = matrix(train, weight=weights)
    np.testing.assert_allclose(judgments_of(data).query_weights, weights, rtol=1e-6)
    [(_, mean)] = custom_metric("ndcg@10")(train.X[:, 0], data)
    per_query = bind("ndcg@10", judgments_of(data)).per_query(train.X[:, 0])[0]
    defined = ~np.isnan(per_query)
    assert mean == pytest.approx(np.average(per_query[defined], weights=weights[defined]), abs=1e-7)


@pytest.mark.long
def test_custom_metric_with_xgboosts_own_early_stopping_finds_our_round(train: Any, valid: Any) -> None:
    stop = xgboost.callback.EarlyStopping(
        rounds=8, metric_name="mrr@10", data_name="valid", maximize=True, save_best=True
    )
    booster = xgboost.train(
        PARAMS,
        matrix(train),
        60,
        evals=[(matrix(valid), "valid")],
        custom_metric=custom_metric(NDCG(k=10), MRR(k=10), MAP()),
        callbacks=[stop],
        verbose_eval=False,
    )
    ours, _ = fit(train, valid, metrics=("mrr@10",), patience=8)
    assert booster.best_iteration == ours.best_iteration


def test_a_stop_on_a_set_without_relevant_rows_is_an_error(train: Any, valid: Any) -> None:
    # XGBoost's own early stopping takes NaN for the best value for ever and keeps round 0
    blank = type(valid)(valid.X, np.zeros_like(valid.labels), valid.sizes)
    with pytest.raises(DataError, match="undefined at round 1"):
        fit(train, blank)


@pytest.mark.long
def test_label_sorted_rows_and_a_nearly_constant_start_do_not_stop_training(train: Any, valid: Any) -> None:
    # file-order ties give an untrained model NDCG 1 on such rows, and XGBoost keeps round 0
    order = np.lexsort((-valid.labels, np.repeat(np.arange(len(valid.sizes)), valid.sizes)))
    ordered = type(valid)(valid.X[order], valid.labels[order], valid.sizes)
    best = fit(train, valid, patience=8)[1].best_round
    assert fit(train, ordered, patience=8)[1].best_round == best > 1


@pytest.mark.long
def test_several_sets_need_one_to_stop_on(train: Any, valid: Any) -> None:
    data = matrix(train)
    sets = {"learn": data, "valid": matrix(valid)}
    with pytest.raises(UsageError, match=r"several sets .*learn, valid.* expected stop_on="):
        Watch("ndcg@10", data=sets)
    with pytest.raises(UsageError, match="'learn' is the training set"):
        xgboost.train(PARAMS, data, 60, callbacks=[Watch("ndcg@10", data=sets, stop_on="learn")])
    watch = Watch("ndcg@10", data=sets, stop_on="valid", patience=8)
    xgboost.train(PARAMS, data, 60, callbacks=[watch], verbose_eval=False)
    assert watch.best_round == fit(train, valid, patience=8)[1].best_round
    assert len(curve(watch, "ndcg@10", "learn")) == len(curve(watch, "ndcg@10"))


def test_a_matrix_with_other_labels_is_judged_again() -> None:
    matrix = xgboost.DMatrix(np.zeros((4, 1)), label=[0, 1, 0, 1], group=[2, 2])
    scores = np.array([0.2, 0.1, 0.2, 0.1], np.float32)
    metric = custom_metric("mrr")
    gradients, entropy = objective("mrr"), XENDCG(seed=1)
    assert metric(scores, matrix) == [("mrr", 0.5)]
    before = gradients(scores, matrix)[0].copy(), entropy(scores, matrix)[0].copy()
    matrix.set_label([1, 0, 0, 1])
    assert metric(scores, matrix) == [("mrr", 0.75)]
    after = gradients(scores, matrix)[0], entropy(scores, matrix)[0]
    for found, fresh, first in zip(after, (objective("mrr"), XENDCG(seed=1)), before, strict=True):
        np.testing.assert_array_equal(found, fresh(scores, matrix)[0])
        assert not np.array_equal(found, first)
    matrix.set_weight([3, 1])
    assert metric(scores, matrix) == [("mrr", (3 * 1 + 1 * 0.5) / 4)]


def test_misuse_is_said_at_once(train: Any) -> None:
    with pytest.raises(MetricError, match="at least one"):
        custom_metric()
    with pytest.raises(UsageError, match=r"expected an xgboost\.DMatrix"):
        Watch("ndcg@10", data={"valid": train.X})
    with pytest.raises(UsageError, match=r"Watch is for xgboost\.train"):
        xgboost.cv(PARAMS, matrix(train), 3, callbacks=[Watch("ndcg@10", data={"valid": matrix(train)})])
    with pytest.raises(UsageError, match=r"data is a DMatrix; expected named sets, .*data=\{'valid': …\}"):
        Watch("ndcg@10", data=matrix(train))


def test_a_name_that_xgboost_cannot_print_is_refused() -> None:
    from ltr_harness.metrics import Metric

    class Spaced(Metric):
        name = "a b"

    with pytest.raises(MetricError, match="cannot print these names: 'a b'"):
        custom_metric(Spaced())


@pytest.mark.long
def test_prediction_in_each_round_adds_only_the_new_trees(train: Any, valid: Any) -> None:
    """Scores of one matrix are kept between rounds; without that, round 400 would cost 400 times round 1."""
    import time

    big = type(valid)(np.tile(valid.X, (20, 1)), np.tile(valid.labels, 20), np.tile(valid.sizes, 20))
    held_out = matrix(big)
    seconds: list[float] = []

    class Timed(xgboost.callback.TrainingCallback):
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            start = time.process_time()
            model.predict(held_out, output_margin=True)
            seconds.append(time.process_time() - start)
            return False

    booster = xgboost.train(PARAMS, matrix(train), 100, callbacks=[Timed()], verbose_eval=False)
    start = time.process_time()
    booster.predict(matrix(big), output_margin=True)
    all_trees = time.process_time() - start
    assert np.quantile(seconds[50:], 0.25) < all_trees / 5
