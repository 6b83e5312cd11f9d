"""The best round of CatBoost's ranker by our metrics; what CatBoost's own interface cannot do is shown."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ltr_harness import evaluate
from ltr_harness.boosting.catboost import best_round, judgments_of
from ltr_harness.errors import DataError, MetricError, UsageError
from ltr_harness.metrics import MAP, NDCG

catboost = pytest.importorskip("catboost", reason="needs ltr-harness[catboost]")


def pool(split: Any, **more: Any) -> Any:
    query = np.repeat(np.arange(len(split.sizes)), split.sizes)
    return catboost.Pool(split.X, split.labels, group_id=query, **more)


def ranker(train: Any, rounds: int = 30) -> Any:
    model = catboost.CatBoostRanker(
        iterations=rounds,
        learning_rate=0.3,
        depth=4,
        random_seed=1,
        thread_count=1,
        verbose=False,
        allow_writing_files=False,
    )
    return model.fit(pool(train))


def mean(split: Any, scores: Any, metric: str = "ndcg@10", **more: Any) -> float:
    return evaluate(split.labels, scores, group_sizes=split.sizes, metrics=[metric], **more).means[metric]


@pytest.fixture(scope="module")
def model(train: Any) -> Any:
    return ranker(train)


@pytest.mark.long
def test_every_stage_is_measured_and_the_best_one_found(model: Any, valid: Any) -> None:
    best = best_round(model, pool(valid), NDCG(k=10), MAP(), threads=1)
    for metric in ("ndcg@10", "map"):
        expected = [mean(valid, model.predict(valid.X, ntree_end=at), metric) for at in range(1, 31)]
        found = [one.value for one in best.history if one.metric == metric]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
        if metric == "ndcg@10":
            assert best.round == int(np.argmax(expected)) + 1 < 30
            assert best.value == max(found)


@pytest.mark.long
def test_the_rest_is_cut_by_shrink(train: Any, valid: Any) -> None:
    model = ranker(train)
    best = best_round(model, pool(valid), "ndcg@10", threads=1)
    model.shrink(best.round)
    assert model.tree_count_ == best.round
    assert mean(valid, model.predict(valid.X)) == pytest.approx(best.value, abs=1e-12)


@pytest.mark.long
def test_patience_looks_no_further_and_every_at_fewer(model: Any, valid: Any) -> None:
    all_rounds = [one.value for one in best_round(model, pool(valid), "ndcg@10", threads=1).history]
    first = best_round(model, pool(valid), "ndcg@10", patience=3, threads=1)
    assert [one.value for one in first.history] == all_rounds[: first.round + 3]
    assert len(first.history) < 30
    some = best_round(model, pool(valid), "ndcg@10", every=7, threads=1)
    assert [one.round for one in some.history] == [*range(7, 30, 7), 30]
    assert [one.value for one in some.history] == [all_rounds[one.round - 1] for one in some.history]


def test_weights_of_queries_and_given_judgments_count(model: Any, valid: Any) -> None:
    weights = np.random.default_rng(1).uniform(0.5, 2, len(valid.sizes)).astype(np.float32)
    weighted = pool(valid, weight=np.repeat(weights, valid.sizes))
    np.testing.assert_allclose(judgments_of(weighted).query_weights, weights, rtol=1e-12)
    expected = mean(valid, model.predict(valid.X), query_weights=weights.astype(np.float64))
    last = best_round(model, weighted, "ndcg@10", every=30, threads=1)
    assert last.value == pytest.approx(expected, abs=1e-12)
    again = best_round(model, pool(valid), "ndcg@10", every=30, judgments=judgments_of(weighted), threads=1)
    assert again == last
    assert judgments_of(pool(valid)).query_weights is None
    # CatBoost gives these back as ones; when this fails, they can be read
    grouped = pool(valid, group_weight=np.repeat(weights, valid.sizes))
    assert set(grouped.get_weight()) == {1.0}


def test_what_cannot_be_judged_is_refused(model: Any, valid: Any) -> None:
    with pytest.raises(DataError, match=r"no query groups, .* expected catboost\.Pool\(…, group_id="):
        best_round(model, catboost.Pool(valid.X, valid.labels), "ndcg@10")
    with pytest.raises(DataError, match="no query groups"):
        best_round(model, valid.X, "ndcg@10")
    query = np.repeat(np.arange(len(valid.sizes)), valid.sizes)
    with pytest.raises(DataError, match="no labels"):
        best_round(model, catboost.Pool(valid.X, group_id=query), "ndcg@10")
    with pytest.raises(UsageError, match="no trees"):
        best_round(catboost.CatBoostRanker(), pool(valid), "ndcg@10")
    with pytest.raises(MetricError, match="no metrics given"):
        best_round(model, pool(valid))
    with pytest.raises(UsageError, match="patience: found 0"):
        best_round(model, pool(valid), "ndcg@10", patience=0)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Failed to optimize method")  # CatBoost's attempt to compile it
def test_catboost_tells_its_callbacks_and_metrics_nothing_that_a_ranking_metric_needs(
    train: Any, valid: Any
) -> None:
    """When this fails, a release of CatBoost says more: then our metric could stop the training itself."""
    told: set[str] = set()
    given: set[int] = set()

    class Callback:
        def after_iteration(self, info: Any) -> bool:
            told.update(vars(info))
            return True

    class Metric:
        def is_max_optimal(self) -> bool:
            return True

        def get_final_error(self, error: float, weight: float) -> float:
            return error

        def evaluate(self, *arguments: Any) -> tuple[float, float]:
            given.add(len(arguments))
            return 0.5, 1.0

    model = catboost.CatBoostRanker(
        iterations=2, thread_count=1, verbose=False, allow_writing_files=False, eval_metric=Metric()
    )
    model.fit(pool(train), eval_set=pool(valid), callbacks=[Callback()])
    assert told == {"iteration", "metrics"}
    assert given == {3}  # scores, labels, weights


def test_a_metric_given_to_catboost_itself_says_what_to_use(train: Any) -> None:
    model = catboost.CatBoostRanker(
        iterations=2, eval_metric=NDCG(k=10), verbose=False, allow_writing_files=False
    )
    with pytest.raises(
        catboost.CatBoostError, match=r"ndcg@10 is not a function .* best_round\(…\) of ltr_harness"
    ):
        model.fit(pool(train))
