"""Our metrics in the libraries' own Dask interfaces, on a real cluster of two processes."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ltr_harness import evaluate
from ltr_harness.boosting.lightgbm import eval_metric
from ltr_harness.boosting.lightgbm import objective as lightgbm_objective
from ltr_harness.errors import UsageError
from ltr_harness.experiments.training.dask import Cluster, local_cluster
from ltr_harness.metrics import MAP, MRR, NDCG, LogLoss
from ltr_harness.models import lightgbm_parameters, xgboost_parameters

pytest.importorskip("dask", reason="needs ltr-harness[dask]")
pytest.importorskip("distributed", reason="needs ltr-harness[dask]")
pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]

METRICS = (NDCG(k=10), MRR(k=5), MAP(), LogLoss())

# of each kind of link; the others in the slow sweep
_LIGHTGBM = ["lambdarank", "binary"]
_XGBOOST = ["rank:ndcg", "binary:logistic"]
_OTHERS = ["reg:quantileerror", "reg:expectileerror", "multi:softprob"]  # with a parameter of their own
_SLOW_LIGHTGBM = [name for name in lightgbm_parameters.OBJECTIVES if name not in (*_LIGHTGBM, "multiclass")]
_SLOW_XGBOOST = [name for name in xgboost_parameters.POINTWISE if name not in (*_XGBOOST, *_OTHERS)]


def each_objective(quick: list[str], slow: list[str]) -> Any:
    return pytest.mark.parametrize(
        "objective", [*quick, *(pytest.param(name, marks=pytest.mark.slow) for name in slow)]
    )


def with_labels(split: Any, objective: str) -> Any:
    """The split with labels that the objective takes."""
    if objective.startswith(("lambdarank", "rank")):
        return split
    shares = ("binary", "cross_entropy", "reg:logistic")
    labels = split.labels > 1 if objective.startswith(shares) else split.labels + 1
    return SimpleNamespace(X=split.X, labels=labels.astype(float), sizes=split.sizes)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with local_cluster(2) as started:
        yield started


def halves(split: Any) -> list[tuple[slice, slice]]:
    """Rows and queries of two parts that divide no query: what both libraries ask for."""
    middle = len(split.sizes) // 2
    row = int(split.sizes[:middle].sum())
    return [(slice(0, row), slice(0, middle)), (slice(row, None), slice(middle, None))]


def parts(split: Any) -> tuple[Any, Any, Any]:
    """X, labels and group sizes in two partitions each."""
    import dask.array as da

    def dask_array(column: Any, which: int) -> Any:
        pieces = [column[part[which]] for part in halves(split)]
        return da.concatenate([da.from_array(piece, chunks=piece.shape) for piece in pieces])

    return dask_array(split.X, 0), dask_array(split.labels, 0), dask_array(split.sizes, 1)


def means(split: Any, scores: Any, rows: slice = slice(None), queries: slice = slice(None)) -> list[float]:
    found = evaluate(split.labels[rows], scores[rows], group_sizes=split.sizes[queries], metrics=METRICS)
    return [found.means[str(metric)] for metric in METRICS]


@each_objective(_LIGHTGBM, _SLOW_LIGHTGBM)
def test_lightgbm_reports_our_metrics_of_one_workers_part(
    cluster: Cluster, train: Any, valid: Any, objective: str
) -> None:
    import lightgbm

    X, labels, sizes = parts(with_labels(train, objective))
    X_valid, labels_valid, sizes_valid = parts(valid)
    ranker = lightgbm.DaskLGBMRanker(
        objective=objective,
        n_estimators=4,
        num_leaves=7,
        min_child_samples=5,
        metric="None",
        verbosity=-1,
        client=cluster.client,
    ).fit(
        X,
        labels,
        group=sizes,
        eval_set=[(X_valid, labels_valid)],
        eval_group=[sizes_valid],
        eval_metric=eval_metric(*METRICS),
    )
    scores = ranker.to_local().predict(valid.X, raw_score=True)
    reported = [ranker.evals_result_["valid_0"][str(metric)][-1] for metric in METRICS]
    # Dask may give both parts to one worker
    seen = [means(valid, scores), *(means(valid, scores, *part) for part in halves(valid))]
    assert any(np.allclose(reported, values, rtol=0, atol=1e-12) for values in seen)


def test_a_watch_is_refused_before_lightgbm_divides_a_training(
    cluster: Cluster, train: Any, valid: Any
) -> None:
    """Each machine would stop in a round of its own, and the others wait for it at a socket."""
    import dask.array as da
    import lightgbm

    from ltr_harness.boosting.lightgbm import Watch

    workers = list(cluster.client.scheduler_info()["workers"])

    def placed_array(split: Any, column: str, which: int) -> Any:
        """A part on each worker: Dask by itself may give one of them both."""
        pieces = [getattr(split, column)[part[which]] for part in halves(split)]
        parts = [cluster.client.scatter(one, workers=[at]) for one, at in zip(pieces, workers, strict=True)]
        arrays = zip(parts, pieces, strict=True)
        return da.concatenate([da.from_delayed(part, one.shape, one.dtype) for part, one in arrays])

    ranker = lightgbm.DaskLGBMRanker(n_estimators=4, metric="None", verbosity=-1, client=cluster.client)
    with pytest.raises(UsageError, match=r"Watch: this training is divided among 2 machines.*eval_metric"):
        ranker.fit(
            placed_array(train, "X", 0),
            placed_array(train, "labels", 0),
            group=placed_array(train, "sizes", 1),
            eval_set=[(placed_array(valid, "X", 0), placed_array(valid, "labels", 0))],
            eval_group=[placed_array(valid, "sizes", 1)],
            callbacks=[Watch("ndcg@10", patience=2)],
        )


def qid_parts(split: Any) -> tuple[Any, Any, Any]:
    """X, labels and query ids in two partitions that divide no query."""
    import dask.array as da

    X, labels, _ = parts(split)
    query = np.repeat(np.arange(len(split.sizes)), split.sizes)
    pieces = [query[rows] for rows, _ in halves(split)]
    return X, labels, da.concatenate([da.from_array(piece, chunks=piece.shape) for piece in pieces])


@each_objective(_XGBOOST, _SLOW_XGBOOST)
def test_xgboost_evaluates_and_stops_on_all_workers_queries(
    cluster: Cluster, train: Any, valid: Any, objective: str
) -> None:
    import xgboost
    from xgboost import dask as across

    from ltr_harness.boosting.xgboost import Watch, custom_metric

    X, labels, qid = qid_parts(with_labels(train, objective))
    X_valid, labels_valid, qid_valid = qid_parts(valid)
    data = across.DaskDMatrix(cluster.client, X, labels, qid=qid)
    held_out = across.DaskDMatrix(cluster.client, X_valid, labels_valid, qid=qid_valid)
    trained = across.train(
        cluster.client,
        {"objective": objective, "disable_default_eval_metric": 1, "eta": 0.3, "max_depth": 4},
        data,
        num_boost_round=60,
        evals=[(held_out, "valid")],
        callbacks=[Watch(*METRICS, patience=5)],
        verbose_eval=False,
    )
    booster, curves = trained["booster"], trained["history"]["valid"]
    best = booster.num_boosted_rounds()
    assert best == booster.best_iteration + 1 == int(np.argmax(curves["ndcg@10"])) + 1
    assert len(curves["ndcg@10"]) == best + 5 < 60
    at_best = [curves[str(metric)][best - 1] for metric in METRICS]
    scores = booster.predict(xgboost.DMatrix(valid.X), output_margin=True)
    np.testing.assert_allclose(at_best, means(valid, scores), rtol=0, atol=1e-12)
    again = across.train(
        cluster.client,
        {"objective": objective, "disable_default_eval_metric": 1, "eta": 0.3, "max_depth": 4},
        data,
        num_boost_round=3,
        evals=[(held_out, "valid")],
        custom_metric=custom_metric(*METRICS),
        verbose_eval=False,
    )
    scores = again["booster"].predict(xgboost.DMatrix(valid.X), output_margin=True)
    last = [again["history"]["valid"][str(metric)][-1] for metric in METRICS]
    np.testing.assert_allclose(last, means(valid, scores), rtol=0, atol=1e-6)  # XGBoost's six decimals


def test_xgboosts_ranker_takes_a_watch(cluster: Cluster, train: Any, valid: Any) -> None:
    from xgboost import dask as across

    from ltr_harness.boosting.xgboost import Watch

    X, labels, qid = qid_parts(train)
    X_valid, labels_valid, qid_valid = qid_parts(valid)
    ranker = across.DaskXGBRanker(
        objective="rank:ndcg",
        disable_default_eval_metric=1,
        n_estimators=40,
        learning_rate=0.3,
        max_depth=4,
        allow_group_split=True,  # the parts divide no query
        callbacks=[Watch(*METRICS, patience=5)],
    )
    ranker.client = cluster.client
    ranker.fit(X, labels, qid=qid, eval_set=[(X_valid, labels_valid)], eval_qid=[qid_valid])
    curve = ranker.evals_result()["validation_0"]["ndcg@10"]
    scores = ranker.get_booster().inplace_predict(valid.X, predict_type="margin")
    assert max(curve) == pytest.approx(means(valid, scores)[0], abs=1e-12)
    assert len(curve) < 40


def test_a_metric_is_the_objective_of_lightgbms_workers(cluster: Cluster, train: Any) -> None:
    import lightgbm

    X, labels, sizes = parts(train)
    objective = lightgbm_objective(MRR(), threads=1)
    ranker = lightgbm.DaskLGBMRanker(
        objective=objective,
        n_estimators=10,
        num_leaves=7,
        min_child_samples=5,
        metric="None",
        verbosity=-1,
        client=cluster.client,
    ).fit(X, labels, group=sizes)
    untrained = means(train, np.zeros(len(train.X)))
    assert means(train, ranker.to_local().predict(train.X))[1] > untrained[1] + 0.1


def test_a_metric_is_the_objective_of_xgboosts_workers(cluster: Cluster, train: Any) -> None:
    import xgboost
    from xgboost import dask as across

    from ltr_harness.boosting.xgboost import objective

    X, labels, queries = qid_parts(train)
    matrix = across.DaskQuantileDMatrix(cluster.client, X, labels, qid=queries)
    params = {"base_score": 0.0, "disable_default_eval_metric": 1, "max_depth": 3, "nthread": 1}
    mrr = objective(MRR(), threads=1)
    booster = across.train(cluster.client, params, matrix, 10, obj=mrr)["booster"]
    ranker = across.DaskXGBRanker(
        callbacks=[mrr], n_estimators=10, max_depth=3, base_score=0.0, allow_group_split=True
    )
    ranker.client = cluster.client
    ranker.fit(X, labels, qid=queries)
    untrained = means(train, np.zeros(len(train.X)))
    data = xgboost.DMatrix(train.X)
    for trained in (booster, ranker.get_booster()):
        assert means(train, trained.predict(data, output_margin=True))[1] > untrained[1] + 0.1
