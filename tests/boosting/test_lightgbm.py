"""Our metrics and our stopping inside lightgbm.train; each test of a trap says what LightGBM alone would do."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest

from ltr_harness.boosting.lightgbm import Watch, eval_metric, feval, stop_early
from ltr_harness.boosting.lightgbm_metrics import judgments_of, rows
from ltr_harness.boosting.stopping import StoppingRule
from ltr_harness.boosting.watching import watch_by_rule
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.errors import DataError, MetricError, UsageError
from ltr_harness.metrics import ERR, MAP, MRR, NDCG, bind

PARAMS: dict[str, Any] = {
    "objective": "lambdarank",
    "metric": "None",
    "num_leaves": 15,
    "learning_rate": 0.3,
    "min_data_in_leaf": 5,
    "num_threads": 1,
    "verbosity": -1,
    "seed": 1,
    "deterministic": True,
    "force_row_wise": True,
}


def dataset(split: Any, reference: Any = None, weight: Any = None) -> Any:
    return lightgbm.Dataset(
        split.X,
        label=split.labels,
        group=split.sizes,
        reference=reference,
        weight=weight,
        free_raw_data=False,
    )


def means(split: Any, scores: Any, *metrics: Any) -> Any:
    return bind(metrics, Judgments.checked(split.labels, QueryGroups.from_sizes(split.sizes))).means(scores)


class Recorder:
    """Every round's results, whoever stops training: it runs before any early stopping."""

    order = 5
    before_iteration = False

    def __init__(self) -> None:
        self.values: dict[tuple[str, str], list[float]] = {}

    def __call__(self, env: Any) -> None:
        for data, metric, value, *_ in env.evaluation_result_list:
            self.values.setdefault((data, str(metric)), []).append(value)


def fit(
    train: Any, valid: Any, *callbacks: Any, rounds: int = 60, metrics: Any = (), **overrides: Any
) -> Any:
    data = dataset(train)
    return lightgbm.train(
        {**PARAMS, **overrides},
        data,
        num_boost_round=rounds,
        valid_sets=[dataset(valid, data)],
        valid_names=["valid"],
        feval=feval(*metrics) if metrics else None,
        callbacks=list(callbacks),
    )


def test_reported_values_are_those_of_the_metrics_on_the_models_scores(train: Any, valid: Any) -> None:
    curve: dict[str, Any] = {}
    metrics = (NDCG(k=10), MRR(k=5), ERR(k=10, max_grade=4), MAP())
    booster = fit(train, valid, lightgbm.record_evaluation(curve), rounds=7, metrics=metrics)
    for round_ in range(1, 8):
        expected = means(valid, booster.predict(valid.X, num_iteration=round_), *metrics)
        np.testing.assert_allclose(
            [curve["valid"][str(m)][round_ - 1] for m in metrics], expected, atol=1e-12
        )


def test_stops_where_the_metric_is_best_and_keeps_that_model(train: Any, valid: Any, tmp_path: Path) -> None:
    recorder = Recorder()
    stop = stop_early("ndcg@10", patience=8)
    booster = fit(train, valid, recorder, stop, metrics=("ndcg@10", "mrr@10"))
    curve = recorder.values[("valid", "ndcg@10")]
    best = int(np.argmax(curve)) + 1
    assert 1 < best < len(curve) == best + 8 < 60
    assert booster.best_iteration == stop.best_round == best
    assert booster.best_score["valid"]["ndcg@10"] == stop.best_value == max(curve)
    assert booster.num_trees() == best
    booster.save_model(tmp_path / "model.txt")
    loaded = lightgbm.Booster(model_file=tmp_path / "model.txt")
    assert loaded.num_trees() == best
    assert means(valid, loaded.predict(valid.X), "ndcg@10")[0] == pytest.approx(max(curve), abs=1e-12)


@pytest.mark.long
def test_training_that_ends_before_patience_keeps_the_best_round_too(train: Any, valid: Any) -> None:
    recorder = Recorder()
    booster = fit(train, valid, recorder, stop_early("ndcg@10", patience=1000), metrics=("ndcg@10",))
    curve = recorder.values[("valid", "ndcg@10")]
    assert len(curve) == 60
    assert booster.num_trees() == booster.best_iteration == np.argmax(curve) + 1 < 60


@pytest.mark.parametrize("objective", ["lambdarank", "poisson"])
@pytest.mark.parametrize(("patience", "every"), [(5, 1), (4, 3), (50, 1)])
def test_in_blocks_rounds_are_evaluated_and_kept_as_one_by_one(
    train: Any, valid: Any, objective: str, patience: int, every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ltr_harness.boosting.watching._LONGEST_BLOCK", np.inf)
    metrics, heard = [NDCG(k=10), MRR()], []
    rule = StoppingRule(metrics[0], patience, every=every)
    data = dataset(train)
    one_by_one = Watch(*metrics, data={"valid": dataset(valid, data)}, patience=patience, every=every)
    first = lightgbm.train({**PARAMS, "objective": objective}, data, 20, callbacks=[one_by_one])
    data = dataset(train)
    blocks = watch_by_rule(Watch, rule, metrics, data={"valid": dataset(valid, data)}, on_round=heard.append)
    second = lightgbm.train({**PARAMS, "objective": objective}, data, 20, callbacks=[blocks])
    assert blocks.history == one_by_one.history == [point for measured in heard for point in measured]
    assert blocks.best_round == one_by_one.best_round == second.current_iteration()
    assert second.model_to_string() == first.model_to_string()


def test_stopping_looks_at_each_nth_round_and_the_last(train: Any, valid: Any) -> None:
    recorder = Recorder()
    stop = stop_early("ndcg@10", patience=1000, every=7)
    booster = fit(train, valid, recorder, stop, metrics=("ndcg@10",))
    curve = recorder.values[("valid", "ndcg@10")]
    best = max([*range(7, 60, 7), 60], key=lambda round_: curve[round_ - 1])
    assert curve[best - 1] < max(curve), "the best round of all is among those looked at"
    assert (stop.best_round, stop.best_value, booster.num_trees()) == (best, curve[best - 1], best)


@pytest.mark.long
def test_one_callback_serves_two_trainings(train: Any, valid: Any) -> None:
    stop = stop_early("ndcg@10", patience=5)
    fit(train, valid, stop, metrics=("ndcg@10",))
    first_best = stop.best_value
    # on these labels no round comes near the first training's best, which must be forgotten
    harder = type(valid)(valid.X, np.random.default_rng(0).permutation(valid.labels), valid.sizes)
    again = fit(train, harder, stop, metrics=("ndcg@10",))
    fresh = fit(train, harder, stop_early("ndcg@10", patience=5), metrics=("ndcg@10",))
    assert stop.best_value < first_best
    assert again.best_iteration == fresh.best_iteration == stop.best_round
    assert again.best_score == fresh.best_score


def test_builtin_metrics_left_on_do_not_decide(train: Any, valid: Any) -> None:
    # LightGBM alone stops as soon as any of them, or with first_metric_only the built-in, stops improving
    alone = fit(train, valid, stop_early("mrr@10", patience=10), metrics=("mrr@10",))
    beside = fit(
        train,
        valid,
        stop_early("mrr@10", patience=10),
        metrics=("mrr@10",),
        metric="ndcg",
        eval_at=[10, 5, 1],
    )
    assert beside.best_iteration == alone.best_iteration > 1


@pytest.mark.parametrize("metric", [None, "", "ndcg"])
def test_a_builtin_of_the_same_name_is_refused(train: Any, valid: Any, metric: Any) -> None:
    with pytest.raises(UsageError, match=r"ndcg@3 is reported twice .* metric='None'"):
        fit(train, valid, stop_early("ndcg@3"), metrics=("ndcg@3",), metric=metric)


def test_a_builtin_of_the_same_name_cannot_stand_in_for_ours(train: Any, valid: Any) -> None:
    with pytest.raises(UsageError, match="LightGBM's own ndcg@3 is another definition"):
        fit(train, valid, stop_early("ndcg@3"), metric="ndcg")
    data = dataset(train)
    watch = Watch("ndcg@3", data={"valid": dataset(valid, data)})
    with pytest.raises(UsageError, match=r"ndcg@3 is reported twice"):
        lightgbm.train({**PARAMS, "metric": "ndcg"}, data, 5, callbacks=[watch])


def test_a_metric_that_is_not_reported_is_an_error_with_the_cure(train: Any, valid: Any) -> None:
    with pytest.raises(
        UsageError, match=r"err\(max_grade=4\)@10 is not among .* \(ndcg@10\); expected feval="
    ):
        fit(train, valid, stop_early(ERR(k=10, max_grade=4)), metrics=("ndcg@10",))


def test_err_without_max_grade_is_found_under_the_name_it_gets(train: Any, valid: Any) -> None:
    with pytest.warns(UserWarning, match="no max_grade"):
        booster = fit(train, valid, stop_early(ERR(k=10), patience=5), metrics=(ERR(k=10),))
    assert list(booster.best_score["valid"]) == ["err(max_grade=4)@10"]


class TestSeveralSets:
    def fit(self, train: Any, valid: Any, stop: Any, names: Any = ("learn", "a", "b")) -> Any:
        data = dataset(train)
        return lightgbm.train(
            PARAMS,
            data,
            num_boost_round=60,
            valid_sets=[data, dataset(valid, data), dataset(train, data)],
            valid_names=list(names),
            feval=feval("ndcg@10"),
            callbacks=[stop],
        )

    @pytest.mark.long
    def test_the_named_set_decides(self, train: Any, valid: Any) -> None:
        alone = fit(train, valid, stop_early("ndcg@10", patience=8), metrics=("ndcg@10",))
        beside = self.fit(train, valid, stop_early("ndcg@10", data="a", patience=8))
        assert beside.best_iteration == alone.best_iteration
        # a copy of the training rows improves longer
        assert self.fit(train, valid, stop_early("ndcg@10", data="b", patience=8)).best_iteration != (
            alone.best_iteration
        )

    def test_none_named_is_an_error_that_lists_them(self, train: Any, valid: Any) -> None:
        with pytest.raises(UsageError, match=r"several validation sets \(a, b\); expected data='a'"):
            self.fit(train, valid, stop_early("ndcg@10"))

    def test_an_unknown_or_the_training_set_is_an_error(self, train: Any, valid: Any) -> None:
        with pytest.raises(UsageError, match=r"'learn' is not a validation set.*known: a, b"):
            self.fit(train, valid, stop_early("ndcg@10", data="learn"))

    @pytest.mark.long
    def test_the_training_set_does_not_count_under_any_name(self, train: Any, valid: Any) -> None:
        data = dataset(train)
        booster = lightgbm.train(
            PARAMS,
            data,
            num_boost_round=60,
            valid_sets=[dataset(valid, data), data],
            valid_names=["held out", "valid"],
            feval=feval("ndcg@10"),
            callbacks=[stop_early("ndcg@10", patience=8)],
        )
        alone = fit(train, valid, stop_early("ndcg@10", patience=8), metrics=("ndcg@10",))
        assert booster.best_iteration == alone.best_iteration

    def test_only_the_training_set_is_an_error(self, train: Any) -> None:
        data = dataset(train)
        with pytest.raises(UsageError, match="no validation set is evaluated"):
            lightgbm.train(
                PARAMS, data, 5, valid_sets=[data], feval=feval("ndcg@10"), callbacks=[stop_early("ndcg@10")]
            )

    def test_two_sets_of_one_name_are_an_error(self, train: Any, valid: Any) -> None:
        with pytest.raises(UsageError, match=r"reported twice .* distinct names"):
            self.fit(train, valid, stop_early("ndcg@10", data="a"), names=("learn", "a", "a"))


def test_the_results_of_each_set_name_its_own_metrics() -> None:
    pairs = QueryGroups.from_sizes([2])
    with pytest.warns(UserWarning, match="no max_grade"):
        bindings = [bind(["err@2"], Judgments.checked([0, grade], pairs)) for grade in (1, 4)]
    for scores in ([0.2, 0.1], [0.1, 0.2]):
        results = [rows(binding, np.array(scores))[0] for binding in bindings]
        assert [(str(name), name.metric) for name, _, _ in results] == [
            ("err(max_grade=1)@2", ERR(k=2, max_grade=1)),
            ("err(max_grade=4)@2", ERR(k=2, max_grade=4)),
        ]
        # the relevant document stops (2^g - 1) / 2^g of the users at its rank
        rank = 1 + int(scores[0] > scores[1])
        assert [value for _, value, _ in results] == pytest.approx([1 / 2 / rank, 15 / 16 / rank])


@pytest.mark.parametrize("alias", ["boosting", "boosting_type", "boost"])
def test_dart_is_refused_with_the_reason(train: Any, valid: Any, alias: str) -> None:
    # LightGBM alone switches early stopping off with a warning
    with pytest.raises(UsageError, match="DART rescales earlier trees"):
        fit(train, valid, stop_early("ndcg@10"), metrics=("ndcg@10",), **{alias: "dart"})
    data = dataset(train)
    watch = Watch("ndcg@10", data={"valid": dataset(valid, data)})
    with pytest.raises(UsageError, match="DART rescales earlier trees"):
        lightgbm.train({**PARAMS, alias: "dart"}, data, 5, callbacks=[watch])


@pytest.mark.parametrize(
    "alias", ["early_stopping_round", "early_stopping_rounds", "early_stopping", "n_iter_no_change"]
)
def test_lightgbms_own_early_stopping_beside_ours_is_refused(train: Any, valid: Any, alias: str) -> None:
    with pytest.raises(
        UsageError, match=r"LightGBM's own early stopping is on as well \(early_stopping_round=5\)"
    ):
        fit(train, valid, stop_early("ndcg@10"), metrics=("ndcg@10",), **{alias: 5})


class TestAnotherRuleBesideOurs:
    """The first rule to give up would win: with lgb.early_stopping(5) beside patience=30, 4 trees instead of 24."""

    def callbacks(self, *rules: Any, reverse: bool) -> list[Any]:
        return list(rules[::-1] if reverse else rules)

    @pytest.mark.parametrize("reverse", [False, True])
    @pytest.mark.parametrize("rounds", [1, 60])
    def test_a_callback_is_refused_in_either_order(
        self, train: Any, valid: Any, reverse: bool, rounds: int
    ) -> None:
        rules = self.callbacks(
            stop_early("ndcg@10", patience=30), lightgbm.early_stopping(5, verbose=False), reverse=reverse
        )
        with pytest.raises(
            UsageError,
            match=r"LightGBM's own early stopping is on as well \(early_stopping\(5\)\).*remove it",
        ):
            fit(train, valid, *rules, rounds=rounds, metrics=("ndcg@10",))

    @pytest.mark.parametrize("reverse", [False, True])
    def test_watch_refuses_it_too(self, train: Any, valid: Any, reverse: bool) -> None:
        data = dataset(train)
        held_out = dataset(valid, data)
        watch = Watch("ndcg@10", data={"valid": held_out})
        rules = self.callbacks(watch, lightgbm.early_stopping(5, verbose=False), reverse=reverse)
        with pytest.raises(UsageError, match=r"early_stopping\(5\)"):
            lightgbm.train({**PARAMS, "metric": "ndcg"}, data, 5, valid_sets=[held_out], callbacks=rules)

    @pytest.mark.parametrize("reverse", [False, True])
    @pytest.mark.parametrize("alias", ["callback", "early_stopping_rounds"])
    def test_cross_validation_refuses_it_too(self, train: Any, reverse: bool, alias: str) -> None:
        rules = [stop_early("ndcg@10", patience=30)]
        params = dict(PARAMS)
        if alias == "callback":
            rules = self.callbacks(*rules, lightgbm.early_stopping(5, verbose=False), reverse=reverse)
        else:
            params[alias] = 5
        with pytest.raises(UsageError, match="LightGBM's own early stopping is on as well"):
            lightgbm.cv(
                params,
                dataset(train),
                num_boost_round=40,
                nfold=2,
                stratified=False,
                feval=feval("ndcg@10"),
                callbacks=rules,
            )

    def test_the_scikit_learn_interface_refuses_it_too(self, train: Any, valid: Any) -> None:
        ranker = lightgbm.LGBMRanker(n_estimators=5, **PARAMS)
        with pytest.raises(UsageError, match=r"early_stopping\(5\)"):
            ranker.fit(
                train.X,
                train.labels,
                group=train.sizes,
                callbacks=[
                    lightgbm.early_stopping(5, verbose=False),
                    Watch("ndcg@10", data={"valid": dataset(valid)}),
                ],
            )

    @pytest.mark.parametrize("reverse", [False, True])
    def test_two_of_our_own_are_refused(self, train: Any, valid: Any, reverse: bool) -> None:
        rules = self.callbacks(stop_early("ndcg@10"), stop_early("mrr@10", patience=5), reverse=reverse)
        with pytest.raises(UsageError, match=r"several callbacks stop this training .*expected one"):
            fit(train, valid, *rules, metrics=("ndcg@10", "mrr@10"))
        data = dataset(train)
        held_out = dataset(valid, data)
        rules = self.callbacks(
            Watch("ndcg@10", data={"valid": held_out}), stop_early("mrr@10"), reverse=reverse
        )
        with pytest.raises(UsageError, match="several callbacks stop this training"):
            lightgbm.train(PARAMS, data, 5, valid_sets=[held_out], feval=feval("mrr@10"), callbacks=rules)

    @pytest.mark.long
    def test_what_stops_nothing_may_stand_beside(self, train: Any, valid: Any) -> None:
        idle = lightgbm.early_stopping(0, verbose=False)
        booster = fit(train, valid, stop_early("ndcg@10", patience=8), idle, metrics=("ndcg@10",))
        alone = fit(train, valid, stop_early("ndcg@10", patience=8), metrics=("ndcg@10",))
        assert booster.best_iteration == alone.best_iteration
        data = dataset(train)
        held_out = dataset(valid, data)
        watch = Watch("mrr@10", data={"valid": held_out}, patience=None)
        stop = stop_early("ndcg@10", patience=8)
        watched = lightgbm.train(
            PARAMS, data, 60, valid_sets=[held_out], feval=feval("ndcg@10"), callbacks=[watch, stop]
        )
        assert watched.best_iteration == alone.best_iteration


def test_missing_groups_are_an_error(train: Any) -> None:
    data = lightgbm.Dataset(train.X, label=train.labels)
    with pytest.raises(DataError, match="no query groups"):
        lightgbm.train(
            {**PARAMS, "objective": "regression"}, data, 3, valid_sets=[data], feval=feval("ndcg@10")
        )


def test_a_set_of_one_row_has_labels_and_queries() -> None:
    data = lightgbm.Dataset(np.ones((1, 1)), label=[2], group=[1], params={"verbosity": -1}).construct()
    judgments = judgments_of(data)
    assert (judgments.labels.tolist(), judgments.groups.sizes.tolist()) == ([2], [1])


def test_a_query_weighs_the_mean_of_its_rows(train: Any) -> None:
    rows = np.random.default_rng(0).uniform(0.1, 3, len(train.labels))
    data = dataset(train, weight=rows).construct()
    expected = [part.mean() for part in np.split(rows.astype(np.float32), np.cumsum(train.sizes)[:-1])]
    np.testing.assert_allclose(judgments_of(data).query_weights, expected, rtol=1e-6)
    (_, mean, _), *_ = feval("ndcg@10")(train.X[:, 0], data)
    per_query = bind("ndcg@10", judgments_of(data)).per_query(train.X[:, 0])[0]
    defined = ~np.isnan(per_query)
    assert mean == pytest.approx(
        np.average(per_query[defined], weights=np.array(expected)[defined]), abs=1e-7
    )


@pytest.mark.long
def test_the_boosters_score_buffer_is_only_read(train: Any) -> None:
    data = dataset(train).construct()
    scores = np.linspace(0, 1, len(train.labels))
    scores.setflags(write=False)
    metric = feval("ndcg@10")
    assert metric(scores, data) == metric(scores.copy(), data)


def test_a_dataset_is_bound_once_until_its_labels_change(train: Any, monkeypatch: Any) -> None:
    from ltr_harness.boosting import watching as ours

    calls = []
    monkeypatch.setattr(ours, "bind", lambda *given: calls.append(given) or bind(*given))
    data, metric = dataset(train).construct(), feval("ndcg@10")
    scores = train.X[:, 0]
    before = metric(scores, data)
    assert metric(scores, data) == before
    assert len(calls) == 1
    data.set_label(train.labels[::-1].copy())
    assert metric(scores, data) != before
    assert len(calls) == 2


def test_the_four_arrays_of_sixteen_sets_are_bound_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from ltr_harness.boosting import watching as ours

    bound: list[float] = []

    def counted(metrics: Any, judgments: Judgments) -> Any:
        bound.append(float(judgments.labels[0]))
        return bind(metrics, judgments)

    monkeypatch.setattr(ours, "bind", counted)
    metric = eval_metric("mrr")
    sets = [(np.array([float(number), 0.0]), np.array([2])) for number in range(1, 18)]

    def ask(numbers: Any) -> list[float]:
        bound.clear()
        for number in numbers:
            labels, sizes = sets[number - 1]
            metric(labels, np.array([0.0, 1.0]), None, sizes)
        return list(bound)

    assert ask(range(1, 17)) == list(range(1, 17))
    assert ask(range(1, 17)) == []
    assert ask([1, 17]) == [17]  # in the place of the second, which was not used for longest
    assert ask([1, 3, 17, 2]) == [2]


def test_misuse_is_said_at_once() -> None:
    with pytest.raises(MetricError, match="at least one"):
        feval()
    with pytest.raises(MetricError, match="more than once: ndcg@10"):
        feval("ndcg@10", NDCG(k=10))
    with pytest.raises(UsageError, match="data is empty"):
        Watch("ndcg@10", data={})
    with pytest.raises(UsageError, match=r"expected a lightgbm\.Dataset"):
        Watch("ndcg@10", data={"valid": np.zeros(3)})


def test_arguments_of_another_kind_are_named(train: Any, valid: Any) -> None:
    data = dataset(valid)
    with pytest.raises(UsageError, match=r"data is a Dataset; expected named sets, .*data=\{'valid': …\}"):
        Watch("ndcg@10", data=data)
    with pytest.raises(UsageError, match=r"data names a set 1; expected text, such as 'valid'"):
        Watch("ndcg@10", data={1: data})
    with pytest.raises(UsageError, match=r"stop_on is a Dataset; expected the name of a watched set"):
        Watch("ndcg@10", data={"valid": data}, stop_on=data)
    with pytest.raises(UsageError, match=r"judgments is a Judgments; expected .*judgments=\{'valid': …\}"):
        Watch("ndcg@10", data={"valid": data}, judgments=judgments_of(data.construct()))
    with pytest.raises(UsageError, match=r"on_round is a int; expected a function"):
        Watch("ndcg@10", data={"valid": data}, on_round=5)
    with pytest.raises(UsageError, match=r"data is a Dataset; expected the name of a validation set"):
        stop_early("ndcg@10", data=data)


def test_a_stop_on_a_set_without_relevant_rows_is_an_error(train: Any, valid: Any) -> None:
    # LightGBM's own early stopping takes NaN for the best value for ever and keeps round 1
    blank = type(valid)(valid.X, np.zeros_like(valid.labels), valid.sizes)
    with pytest.raises(DataError, match="undefined at round 1"):
        fit(train, blank, stop_early("ndcg@10"), metrics=("ndcg@10",))


def test_label_sorted_rows_and_a_nearly_constant_start_do_not_stop_training(train: Any, valid: Any) -> None:
    # file-order ties give an untrained model NDCG 1 on such rows, and LightGBM keeps round 1
    order = np.lexsort((-valid.labels, np.repeat(np.arange(len(valid.sizes)), valid.sizes)))
    ordered = type(valid)(valid.X[order], valid.labels[order], valid.sizes)
    watched = fit(train, valid, stop_early("ndcg@10", patience=8), metrics=("ndcg@10",))
    assert (
        fit(train, ordered, stop_early("ndcg@10", patience=8), metrics=("ndcg@10",)).best_iteration
        == watched.best_iteration
        > 1
    )


@pytest.mark.long
def test_another_boosters_label_gain_does_not_reach_our_values(train: Any, valid: Any) -> None:
    # label_gain is one table per process inside LightGBM: making another booster changes the built-in NDCG
    recorder, undisturbed = Recorder(), Recorder()
    fit(train, valid, undisturbed, rounds=6, metrics=("ndcg@10",), label_gain=[0, 1, 2, 3, 4])

    def disturb(env: Any) -> None:
        other = dataset(train)
        lightgbm.Booster({**PARAMS, "label_gain": [0, 9, 9, 9, 100]}, other)

    fit(train, valid, disturb, recorder, rounds=6, metrics=("ndcg@10",), label_gain=[0, 1, 2, 3, 4])
    assert recorder.values == undisturbed.values


@pytest.mark.long
def test_cross_validation_stops_on_our_metric(train: Any) -> None:
    result = lightgbm.cv(
        PARAMS,
        dataset(train),
        num_boost_round=40,
        nfold=3,
        stratified=False,
        feval=feval("ndcg@10"),
        callbacks=[stop_early("ndcg@10", patience=5)],
    )
    curve = result["valid ndcg@10-mean"]
    assert len(curve) == np.argmax(curve) + 1


class TestWatch:
    def fit(self, train: Any, valid: Any, rounds: int = 60, listed: bool = False, **given: Any) -> Any:
        data = dataset(train)
        held_out = dataset(valid, data)
        params = {**PARAMS, **given.pop("params", {})}
        watch = Watch(*given.pop("metrics", ("ndcg@10", "mrr@10")), data={"valid": held_out}, **given)
        booster = lightgbm.train(
            params, data, rounds, valid_sets=[held_out] if listed else None, callbacks=[watch]
        )
        return booster, watch

    @pytest.mark.long
    @pytest.mark.parametrize("listed", [False, True])
    def test_does_what_feval_and_stop_early_do(self, train: Any, valid: Any, listed: bool) -> None:
        recorder = Recorder()
        other = fit(train, valid, recorder, stop_early("ndcg@10", patience=8), metrics=("ndcg@10", "mrr@10"))
        booster, watch = self.fit(train, valid, patience=8, listed=listed)
        assert booster.model_to_string() == other.model_to_string()
        assert (watch.best_round, watch.best_value) == (
            booster.best_iteration,
            max(recorder.values["valid", "ndcg@10"]),
        )
        assert dict(booster.best_score["valid"]) == dict(other.best_score["valid"])
        for metric in ("ndcg@10", "mrr@10"):
            ours = [point.value for point in watch.history if point.metric == metric]
            assert ours == recorder.values["valid", metric]

    @pytest.mark.long
    def test_every_saves_the_other_rounds_and_evaluates_the_last(self, train: Any, valid: Any) -> None:
        seen: list[int] = []
        booster, watch = self.fit(
            train,
            valid,
            rounds=23,
            every=5,
            patience=1000,
            on_round=lambda points: seen.append(points[0].round),
        )
        rounds = sorted({point.round for point in watch.history})
        assert rounds == seen == [5, 10, 15, 20, 23]
        assert booster.num_trees() == watch.best_round in rounds
        full = {
            p.round: p.value
            for p in self.fit(train, valid, rounds=23, patience=None)[1].history
            if p.metric == "ndcg@10"
        }
        assert {p.round: p.value for p in watch.history if p.metric == "ndcg@10"} == {
            r: full[r] for r in rounds
        }

    @pytest.mark.long
    def test_without_patience_all_rounds_are_kept(self, train: Any, valid: Any) -> None:
        booster, watch = self.fit(train, valid, rounds=30, patience=None)
        assert (booster.num_trees(), watch.best_round, watch.best_value) == (30, None, None)
        assert len(watch.history) == 60

    @pytest.mark.long
    def test_one_object_serves_two_trainings(self, train: Any, valid: Any) -> None:
        data = dataset(train)
        watch = Watch("ndcg@10", data={"valid": dataset(valid, data)}, patience=8)
        first = lightgbm.train(PARAMS, data, 60, callbacks=[watch])
        history = list(watch.history)
        again = lightgbm.train(PARAMS, data, 60, callbacks=[watch])
        assert again.model_to_string() == first.model_to_string()
        assert watch.history == history

    @pytest.mark.long
    def test_the_best_round_counts_trees_and_not_steps_that_found_no_split(
        self, train: Any, valid: Any
    ) -> None:
        # with bagging, a step may add no tree; LightGBM's own early stopping then cuts at a wrong one
        params = {
            "bagging_fraction": 0.3,
            "bagging_freq": 1,
            "min_sum_hessian_in_leaf": 12.0,
            "num_leaves": 3,
        }
        booster, watch = self.fit(train, valid, rounds=80, patience=1000, params=params)
        last = watch.history[-1].round
        assert last < 80, "the setting no longer produces empty steps"
        assert booster.num_trees() == watch.best_round
        assert means(valid, booster.predict(valid.X), "ndcg@10")[0] == pytest.approx(
            watch.best_value, abs=1e-12
        )
        rounds = [point.round for point in watch.history if point.metric == "ndcg@10"]
        assert rounds == sorted(set(rounds))
        stop = stop_early("ndcg@10", patience=1000)
        other = fit(train, valid, stop, rounds=80, metrics=("ndcg@10",), **params)
        assert other.num_trees() == booster.num_trees()

    @pytest.mark.long
    @pytest.mark.parametrize("listed", [False, True])
    def test_continued_training_counts_from_the_first_model(
        self, train: Any, valid: Any, listed: bool
    ) -> None:
        first = lightgbm.train(PARAMS, dataset(train), 3)
        data = dataset(train)
        held_out = dataset(valid, data)
        watch = Watch("ndcg@10", data={"valid": held_out}, patience=1000)
        booster = lightgbm.train(
            PARAMS, data, 20, init_model=first, valid_sets=[held_out] if listed else None, callbacks=[watch]
        )
        rounds = [point.round for point in watch.history]
        assert rounds == list(range(4, 24))
        assert booster.num_trees() == watch.best_round == booster.best_iteration
        assert means(valid, booster.predict(valid.X), "ndcg@10")[0] == pytest.approx(
            watch.best_value, abs=1e-9
        )

    def test_several_sets_need_one_to_stop_on_and_the_training_set_is_none(
        self, train: Any, valid: Any
    ) -> None:
        data = dataset(train)
        sets = {"learn": data, "valid": dataset(valid, data)}
        with pytest.raises(UsageError, match=r"several sets .*learn, valid.* expected stop_on="):
            Watch("ndcg@10", data=sets)
        with pytest.raises(UsageError, match="did you mean 'valid'"):
            Watch("ndcg@10", data=sets, stop_on="vaild")
        with pytest.raises(UsageError, match="'learn' is the training set"):
            lightgbm.train(PARAMS, data, 5, callbacks=[Watch("ndcg@10", data=sets, stop_on="learn")])
        watch = Watch("ndcg@10", data=sets, stop_on="valid", patience=8)
        booster = lightgbm.train(PARAMS, data, 60, callbacks=[watch])
        alone, _ = self.fit(train, valid, patience=8)
        assert booster.best_iteration == alone.best_iteration
        on_train = [p.value for p in watch.history if p.data == "learn" and p.round == watch.best_round]
        assert on_train[0] == pytest.approx(means(train, booster.predict(train.X), "ndcg@10")[0], abs=1e-12)

    def test_no_warning_escapes(self, train: Any, valid: Any, capfd: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.fit(train, valid, rounds=5)
        captured = capfd.readouterr()
        assert captured.out == captured.err == ""
