"""Our metrics in LightGBM's scikit-learn classes, in its cross-validation and in what else takes a metric."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import lightgbm
import numpy as np
import pytest

from ltr_harness import evaluate
from ltr_harness.boosting.lightgbm import eval_metric, feval, objective, stop_early
from ltr_harness.boosting.lightgbm_metrics import EvalMetric
from ltr_harness.errors import UsageError
from ltr_harness.metrics import ERR, MAP, MRR, NDCG

from .conftest import evaluation_arguments

sklearn = pytest.importorskip("sklearn", reason="needs scikit-learn")

METRICS = (NDCG(k=10), MRR(k=5), ERR(k=10, max_grade=4), MAP())
OPTIONS: dict[str, Any] = {
    "metric": "None",
    "n_estimators": 6,
    "num_leaves": 15,
    "min_child_samples": 5,
    "n_jobs": 1,
    "verbosity": -1,
}


def expected(split: Any, scores: Any, **more: Any) -> list[float]:
    found = evaluate(split.labels, scores, group_sizes=split.sizes, metrics=METRICS, **more)
    return [found.means[str(metric)] for metric in METRICS]


def fit(train: Any, valid: Any, metric: Any, **more: Any) -> Any:
    return lightgbm.LGBMRanker(**OPTIONS).fit(
        train.X,
        train.labels,
        group=train.sizes,
        **evaluation_arguments(valid),
        eval_group=[valid.sizes],
        eval_metric=metric,
        **more,
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_rankers_report_what_evaluate_says(train: Any, valid: Any, weighted: bool) -> None:
    curve: dict[str, Any] = {}
    per_query = np.random.default_rng(5).uniform(0.5, 2, len(valid.sizes)).astype(np.float32)
    more: dict[str, Any] = {"eval_sample_weight": [np.repeat(per_query, valid.sizes)]} if weighted else {}
    ranker = fit(train, valid, eval_metric(*METRICS), callbacks=[lightgbm.record_evaluation(curve)], **more)
    for round_ in range(1, 7):
        scores = ranker.predict(valid.X, num_iteration=round_)
        means = expected(valid, scores, query_weights=per_query.astype(np.float64) if weighted else None)
        found = [curve["valid_0"][str(metric)][round_ - 1] for metric in METRICS]
        np.testing.assert_allclose(found, means, rtol=0, atol=1e-12)
    assert ranker.evals_result_ == curve


def test_several_sets_in_one_fit_and_one_object_for_several_fits(train: Any, valid: Any) -> None:
    metric = eval_metric(*METRICS)
    for first, second in [(train, valid), (valid, train)]:
        ranker = lightgbm.LGBMRanker(**OPTIONS).fit(
            train.X,
            train.labels,
            group=train.sizes,
            **evaluation_arguments(first, second),
            eval_group=[first.sizes, second.sizes],
            eval_metric=metric,
        )
        last = {name: [values[str(m)][-1] for m in METRICS] for name, values in ranker.evals_result_.items()}
        held_out = "valid_1" if second is valid else "valid_0"
        assert set(last) == {"training", held_out}
        np.testing.assert_allclose(last["training"], expected(train, ranker.predict(train.X)), atol=1e-12)
        np.testing.assert_allclose(last[held_out], expected(valid, ranker.predict(valid.X)), atol=1e-12)


def test_judgments_are_bound_once_per_set_and_not_kept_without_end(monkeypatch: Any) -> None:
    from ltr_harness.boosting import watching

    bound: list[int] = []

    def counting(metrics: Any, judgments: Any) -> Any:
        bound.append(judgments.labels.size)
        return real(metrics, judgments)

    real = watching.bind
    monkeypatch.setattr(watching, "bind", counting)
    metric = eval_metric("mrr")
    sets = [(np.array([0, 1], np.float32), np.array([2])) for _ in range(40)]
    for labels, group in sets:
        for _ in range(3):
            assert metric(labels, np.array([0.2, 0.1]), None, group) == [("mrr", 0.5, True)]
    assert len(bound) == 40
    assert len(metric._bound) == 16
    changed = np.array([1, 0], np.float32)
    assert metric(changed, np.array([0.2, 0.1]), None, sets[-1][1]) == [("mrr", 1.0, True)]


def test_arrays_that_are_filled_again_are_judged_again() -> None:
    labels, group, weights = np.array([1, 0, 0, 1], np.float32), np.array([2, 2]), np.ones(4)
    scores = np.array([0.2, 0.1, 0.2, 0.1])
    metric, gradients = eval_metric("mrr"), objective("mrr")
    assert metric(labels, scores, weights, group) == [("mrr", 0.75, True)]
    first = gradients(labels, scores, weights, group)[0].copy()
    labels[:] = [0, 1, 0, 1]
    assert metric(labels, scores, weights, group) == [("mrr", 0.5, True)]
    again = gradients(labels, scores, weights, group)[0]
    np.testing.assert_array_equal(again, objective("mrr")(labels, scores, weights, group)[0])
    assert not np.array_equal(again, first)
    labels[:], weights[:] = [1, 0, 0, 1], [3, 3, 1, 1]
    assert metric(labels, scores, weights, group) == [("mrr", (3 * 1 + 1 * 0.5) / 4, True)]
    group[:] = [1, 3]
    second = (1 / 2 + 1 / 3) / 2  # its relevant row ties for ranks 2 and 3
    mean = (3 * 1 + 5 / 3 * second) / (3 + 5 / 3)
    assert metric(labels, scores, weights, group) == [("mrr", pytest.approx(mean), True)]


def test_stops_early_on_our_metric(train: Any, valid: Any) -> None:
    stop = stop_early(NDCG(k=10), patience=3)
    ranker = lightgbm.LGBMRanker(**{**OPTIONS, "n_estimators": 200}).fit(
        train.X,
        train.labels,
        group=train.sizes,
        **evaluation_arguments(valid),
        eval_group=[valid.sizes],
        eval_metric=eval_metric(*METRICS),
        callbacks=[stop],
    )
    assert ranker.best_iteration_ == stop.best_round == ranker.booster_.num_trees() < 100
    assert stop.best_value == pytest.approx(expected(valid, ranker.predict(valid.X))[0], abs=1e-12)


def test_each_kind_of_metric_in_the_others_place_is_refused_with_the_right_name(
    train: Any, valid: Any
) -> None:
    with pytest.raises(UsageError, match=r"expected LGBMRanker\.fit\(eval_metric=eval_metric\(…\)\)"):
        fit(train, valid, feval("ndcg@10"))
    data = lightgbm.Dataset(train.X, train.labels, group=train.sizes)
    with pytest.raises(UsageError, match=r"lightgbm\.train and lightgbm\.cv take feval=feval\(…\)"):
        lightgbm.train(
            {"objective": "lambdarank", "metric": "None", "verbosity": -1, "num_threads": 1},
            data,
            2,
            valid_sets=[data],
            feval=eval_metric("ndcg@10"),
        )
    with pytest.raises(UsageError, match=r"expected LGBMRanker\.fit\(…, eval_group=…\)"):
        lightgbm.LGBMRegressor(n_estimators=2, verbosity=-1, n_jobs=1).fit(
            train.X, train.labels, **evaluation_arguments(valid), eval_metric=eval_metric("ndcg@10")
        )


@pytest.mark.parametrize("again", [copy.deepcopy, copy.copy, lambda one: pickle.loads(pickle.dumps(one))])
def test_both_can_be_copied_and_pickled_before_and_after_use(train: Any, again: Any) -> None:
    scores = np.linspace(1, 0, len(train.labels))
    labels, group = train.labels.astype(np.float32), np.asarray(train.sizes)
    data = lightgbm.Dataset(train.X, train.labels, group=train.sizes).construct()
    for one, arguments in [
        (eval_metric(*METRICS), (labels, scores, None, group)),
        (feval(*METRICS), (scores, data)),
    ]:
        before = again(one)(*arguments)
        assert before == one(*arguments) == again(one)(*arguments)
        np.testing.assert_allclose([row[1] for row in before], expected(train, scores), atol=1e-12)


@pytest.mark.long
def test_stop_early_can_be_copied_and_pickled_before_and_after_use(train: Any, valid: Any) -> None:
    def fit_with(stop: Any) -> tuple[int, int, float]:
        ranker = fit(train, valid, eval_metric(*METRICS), callbacks=[stop])
        return ranker.best_iteration_, stop.best_round, stop.best_value

    stop = stop_early(METRICS[0], patience=2)
    before = pickle.loads(pickle.dumps(stop))
    expected = fit_with(stop)
    after = pickle.loads(pickle.dumps(stop))
    assert (after.best_round, after.best_value) == expected[1:]
    assert fit_with(before) == fit_with(after) == fit_with(copy.deepcopy(stop)) == expected


def test_err_keeps_the_grade_of_its_first_set_in_a_copy(train: Any) -> None:
    metric = eval_metric("err@10")
    top = np.array([0, 4, 1], np.float32)
    with pytest.warns(UserWarning, match="err@10 has no max_grade"):
        metric(top, np.array([3.0, 2, 1]), None, np.array([3]))
    name = pickle.loads(pickle.dumps(metric))(top / 4, np.array([3.0, 2, 1]), None, np.array([3]))[0][0]
    assert name == "err(max_grade=4)@10"


@pytest.mark.long
def test_cross_validation_by_queries(train: Any) -> None:
    from sklearn.model_selection import GroupKFold

    data = lightgbm.Dataset(train.X, train.labels, group=train.sizes, free_raw_data=False)
    curves = lightgbm.cv(
        {
            "objective": "lambdarank",
            "metric": "None",
            "verbosity": -1,
            "num_threads": 1,
            "min_data_in_leaf": 5,
        },
        data,
        4,
        folds=GroupKFold(3),
        feval=feval(*METRICS),
        return_cvbooster=True,
    )
    query = np.repeat(np.arange(len(train.sizes)), train.sizes)
    folds = GroupKFold(3).split(train.X, train.labels, query)
    means = []
    for (_, rows), booster in zip(folds, curves["cvbooster"].boosters, strict=True):
        found = evaluate(
            train.labels[rows], booster.predict(train.X[rows]), query_ids=query[rows], metrics=METRICS
        )
        means.append([found.means[str(metric)] for metric in METRICS])
    last = [curves[f"valid {metric}-mean"][-1] for metric in METRICS]
    np.testing.assert_allclose(last, np.mean(means, axis=0), rtol=0, atol=1e-12)


def test_booster_eval_and_log_evaluation(train: Any, valid: Any) -> None:
    lines: list[str] = []

    class Log:
        def info(self, text: str) -> None:
            lines.append(text)

        warning = info

    data = lightgbm.Dataset(train.X, train.labels, group=train.sizes)
    held_out = lightgbm.Dataset(valid.X, valid.labels, group=valid.sizes, reference=data)
    lightgbm.register_logger(Log())
    try:
        booster = lightgbm.train(
            {"objective": "lambdarank", "metric": "None", "verbosity": 1, "num_threads": 1},
            data,
            4,
            valid_sets=[held_out],
            feval=feval(*METRICS),
            callbacks=[lightgbm.log_evaluation(2)],
            keep_training_booster=True,
        )
    finally:
        lightgbm.register_logger(_Logging())
    value = expected(valid, booster.predict(valid.X))[0]
    assert next(line for line in lines if line.startswith("[4]")).startswith(
        f"[4]\tvalid_0's ndcg@10: {value:g}"
    )
    results = booster.eval(held_out, "valid", feval=feval(*METRICS))
    np.testing.assert_allclose(
        [row[2] for row in results], expected(valid, booster.predict(valid.X)), rtol=0, atol=1e-12
    )


class _Logging:
    """LightGBM's own default: print."""

    def info(self, text: str) -> None:
        print(text)

    def warning(self, text: str) -> None:
        import warnings

        warnings.warn(text, stacklevel=3)


def test_a_search_clones_and_ships_what_it_is_given(train: Any, valid: Any) -> None:
    twin = sklearn.base.clone(eval_metric(*METRICS), safe=False)
    assert isinstance(twin, EvalMetric)
    assert fit(train, valid, twin).evals_result_ == fit(train, valid, eval_metric(*METRICS)).evals_result_
