"""Our metrics and folds in scikit-learn, with the rankers that people search with it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ltr_harness import evaluate
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.data.splits import folds
from ltr_harness.errors import DataError, MetricError, UsageError
from ltr_harness.metrics import MRR, NDCG

sklearn = pytest.importorskip("sklearn", reason="needs scikit-learn")
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier  # noqa: E402
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, cross_val_score  # noqa: E402
from sklearn.naive_bayes import GaussianNB  # noqa: E402

from ltr_harness.sklearn import QueryKFold, flaml_metric, scorer  # noqa: E402


@pytest.fixture(scope="module")
def rows() -> tuple[pd.DataFrame, Any, Any]:
    """X without and labels, queries of each row, contiguous."""
    rng = np.random.default_rng(7)
    sizes = rng.integers(1, 12, 40)
    X = rng.normal(size=(sizes.sum(), 4))
    labels = np.clip(np.round(X[:, 0] + rng.normal(size=len(X))), 0, 3)
    return pd.DataFrame(X).add_prefix("f"), labels, np.repeat(np.arange(40) * 3, sizes)


@pytest.fixture
def routing() -> Iterator[None]:
    with sklearn.config_context(enable_metadata_routing=True):
        yield


class WithoutQid(Ridge):  # type: ignore[misc]
    """A pointwise ranker that leaves the column out, as XGBRanker does."""

    def fit(self, X: Any, y: Any) -> Any:
        return super().fit(X.drop(columns="qid"), y)

    def predict(self, X: Any) -> Any:
        return super().predict(X.drop(columns="qid"))


def by_hand(X: Any, labels: Any, queries: Any, metric: str, n: int = 4, seed: int = 2) -> list[float]:
    groups, _ = QueryGroups.from_ids(queries)
    names, found = np.asarray(groups.ids), []
    for train, valid, test in folds(groups, n, seed):
        learned = np.isin(queries, names[np.concatenate([train, valid])])
        tested = np.isin(queries, names[test])
        model = Ridge().fit(X[learned], labels[learned])
        scores = model.predict(X[tested])
        found.append(
            evaluate(labels[tested], scores, query_ids=queries[tested], metrics=[metric]).means[metric]
        )
    return found


@pytest.mark.long
def test_scores_and_folds_are_evaluates_and_the_experiments(rows: Any) -> None:
    X, labels, queries = rows
    found = cross_val_score(
        WithoutQid(), X.assign(qid=queries), labels, scoring=scorer(NDCG(k=5)), cv=QueryKFold(4, seed=2)
    )
    np.testing.assert_allclose(found, by_hand(X, labels, queries, "ndcg@5"), rtol=0, atol=1e-12)


@pytest.mark.long
def test_groups_come_by_metadata_routing(rows: Any, routing: None) -> None:
    X, labels, queries = rows
    expected = by_hand(X, labels, queries, "mrr")
    for params in ({"groups": queries}, {"groups": queries, "qid": queries}):
        found = cross_val_score(
            Ridge(), X, labels, scoring=scorer(MRR()), cv=QueryKFold(4, seed=2), params=params
        )
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    search = GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, scoring=scorer(MRR()), cv=QueryKFold(4, seed=2))
    search.fit(X, labels, groups=queries)
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"][1], np.mean(expected), rtol=0, atol=1e-12
    )


def test_rows_of_a_query_may_be_anywhere(rows: Any) -> None:
    X, labels, queries = rows
    order = np.random.default_rng(1).permutation(len(X))
    table = X.assign(qid=queries).iloc[order]
    for train, test in QueryKFold(3).split(table):
        assert not set(table.qid.iloc[train]) & set(table.qid.iloc[test])
        assert sorted([*train, *test]) == list(range(len(X)))
    model = WithoutQid().fit(X.assign(qid=queries), labels)
    in_order = scorer("ndcg@5")(model, X.assign(qid=queries), labels)
    assert scorer("ndcg@5")(model, table, labels[order]) == pytest.approx(in_order, abs=1e-12)


def test_folds_count_what_was_missed_of_their_queries(rows: Any) -> None:
    X, labels, queries = rows
    rng = np.random.default_rng(5)
    pool = pd.DataFrame({"query": queries, "label": labels, "row": np.arange(len(X))})
    missed = pd.DataFrame({"query": rng.choice(np.unique(queries), 60), "label": 3.0, "row": -1})
    pool = pd.concat([pool, missed, pd.DataFrame({"query": [999], "label": [1.0], "row": [-1]})])
    groups, order = QueryGroups.from_ids(pool["query"].to_numpy())
    pool = pool if order is None else pool.iloc[order]
    shown = pool["row"].to_numpy() >= 0
    judgments = Judgments.checked(pool["label"], groups, retrieved=shown)
    table = X.assign(qid=queries)
    found = cross_val_score(
        WithoutQid(),
        table,
        labels,
        scoring=scorer("ndcg@5", judgments=judgments),
        cv=QueryKFold(4, seed=2),
        error_score="raise",
    )
    expected = []
    for learned, tested in QueryKFold(4, seed=2).split(table):
        model = WithoutQid().fit(table.iloc[learned], labels[learned])
        scores = dict(zip(tested.tolist(), model.predict(table.iloc[tested]), strict=True))
        part = pool[pool["query"].isin(queries[tested])]
        expected.append(
            evaluate(
                part["label"],
                [scores.get(row, 0.0) for row in part["row"]],
                query_ids=part["query"],
                retrieved=(part["row"] >= 0).to_numpy(),
                metrics=["ndcg@5"],
            ).means["ndcg@5"]
        )
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    model = WithoutQid().fit(table, labels)
    counting = scorer("ndcg@5", judgments=judgments)
    assert counting(model, table, labels) == pickle.loads(pickle.dumps(counting))(model, table, labels)
    by_rows = np.argsort(queries % 7, kind="stable")  # rows of a query stay in their order
    assert counting(model, table.iloc[by_rows], labels[by_rows]) == pytest.approx(
        counting(model, table, labels), abs=1e-12
    )
    with pytest.raises(DataError, match=r"the judgments have no query 1 \(1 such query\)"):
        counting(model, table.assign(qid=np.where(queries == 3, 1, queries)), labels)
    with pytest.raises(DataError, match="query '0' has other rows or labels"):
        counting(model, table, labels + 1)


@pytest.mark.long
@pytest.mark.parametrize("search_class", [GridSearchCV, RandomizedSearchCV])
def test_searches_of_xgboosts_ranker(rows: Any, search_class: Any) -> None:
    import xgboost

    X, labels, queries = rows
    table = X.assign(qid=queries)
    ranker = xgboost.XGBRanker(n_estimators=3, n_jobs=1, disable_default_eval_metric=1)
    options = {"n_iter": 2, "random_state": 0} if search_class is RandomizedSearchCV else {}
    search = search_class(
        ranker,
        {"max_depth": [1, 3]},
        scoring=scorer("ndcg@5"),
        cv=QueryKFold(3),
        error_score="raise",
        **options,
    )
    search.fit(table, labels)
    for at, depth in enumerate(search.cv_results_["param_max_depth"]):
        expected = []
        for train, test in QueryKFold(3).split(table):
            twin = sklearn.base.clone(ranker).set_params(max_depth=int(depth))
            scores = twin.fit(table.iloc[train], labels[train]).predict(table.iloc[test])
            found = evaluate(labels[test], scores, query_ids=queries[test], metrics=["ndcg@5"])
            expected.append(found.means["ndcg@5"])
        assert search.cv_results_["mean_test_score"][at] == pytest.approx(np.mean(expected), abs=1e-12)


@pytest.mark.long
@pytest.mark.usefixtures("routing")
def test_lightgbms_ranker_with_sizes_made_of_ids(rows: Any) -> None:
    import lightgbm

    class Ranker(lightgbm.LGBMRanker):  # type: ignore[misc]
        def fit(self, X: Any, y: Any, qid: Any = None) -> Any:
            return super().fit(X, y, group=QueryGroups.from_ids(qid)[0].sizes)

    X, labels, queries = rows
    ranker = Ranker(n_estimators=3, n_jobs=1, verbosity=-1, min_child_samples=2).set_fit_request(qid=True)
    found = cross_val_score(
        ranker,
        X,
        labels,
        scoring=scorer("ndcg@5"),
        cv=QueryKFold(3),
        params={"qid": queries, "groups": queries},
        error_score="raise",
    )
    assert found.shape == (3,)
    assert np.isfinite(found).all()


def test_an_array_holds_the_queries_by_number_and_polars_by_name(rows: Any) -> None:
    X, labels, queries = rows
    array = np.column_stack([queries, X.to_numpy()])

    class Second:
        def predict(self, X: Any) -> Any:
            return np.asarray(X)[:, 1]

    expected = evaluate(labels, array[:, 1], query_ids=queries, metrics=["mrr"]).means["mrr"]
    assert scorer("mrr", column=0)(Second(), array, labels) == pytest.approx(expected, abs=1e-12)
    polars = pytest.importorskip("polars", reason="needs Polars")
    frame = polars.DataFrame(array, schema=["query", "f0", "f1", "f2", "f3"])
    assert scorer("mrr", column="query")(Second(), frame, labels) == pytest.approx(expected, abs=1e-12)
    assert len(list(QueryKFold(3, column="query").split(frame))) == 3


def test_without_queries_nothing_is_scored_or_divided(rows: Any) -> None:
    X, labels, _ = rows
    model = Ridge().fit(X, labels)
    words = (
        "the rows of each query are not given, and all rows would count as one; expected a column 'qid' in X"
    )
    with pytest.raises(UsageError, match=f"{words}, or qid=… or groups=… by metadata routing"):
        scorer("ndcg@5")(model, X, labels)
    with pytest.raises(UsageError, match=f"{words}, or groups=…"):
        next(QueryKFold().split(X))
    with pytest.raises(UsageError, match="expected an array X with a column 0"):
        scorer("ndcg@5", column=0)(model, X, labels)
    with pytest.raises(UsageError, match="the rows of each query are not given"):
        cross_val_score(Ridge(), X, labels, scoring=scorer("ndcg@5"), cv=3, error_score="raise")
    with pytest.warns(
        UserWarning, match=r"set to nan(.|\n)*are not given.*`column=` names another column, of an array"
    ):
        assert np.isnan(cross_val_score(Ridge(), X, labels, scoring=scorer("ndcg@5"), cv=3)).all()


def test_what_cannot_be_divided_or_has_no_mean_is_refused(rows: Any) -> None:
    X, labels, queries = rows
    for n, kind, words in [(1, UsageError, "at least 2"), (41, DataError, "41 folds of 40 queries")]:
        with pytest.raises(kind, match=words):
            next(QueryKFold(n).split(X, groups=queries))
    with pytest.raises(DataError, match=r"ndcg@5 is undefined for every query of the fold; .*empty=zero"):
        scorer("ndcg@5")(Ridge().fit(X, labels), X, np.zeros(len(X)), qid=queries)


def test_less_is_better_is_negated(rows: Any) -> None:
    from ltr_harness.metrics import function_metric

    def rank_of_best(labels: Any, scores: Any) -> float:
        return float((scores > scores[labels.argmax()]).sum())

    X, labels, queries = rows
    model = Ridge().fit(X, labels)
    down = function_metric(rank_of_best, higher_is_better=False)
    expected = evaluate(labels, model.predict(X), query_ids=queries, metrics=[down]).means["rank_of_best"]
    assert scorer(down)(model, X, labels, qid=queries) == -expected < 0


def test_copies_pickles_and_names() -> None:
    one = pickle.loads(pickle.dumps(scorer("NDCG@10", column="query")))
    assert (one.metric, one.column, repr(one)) == (NDCG(k=10), "query", "scorer('ndcg@10')")
    assert (
        repr(sklearn.base.clone(QueryKFold(3, seed=4), safe=False))
        == "QueryKFold(column='qid', n_splits=3, seed=4)"
    )


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_flaml_searches_by_the_metric(rows: Any) -> None:
    automl = pytest.importorskip("flaml.automl.automl", reason="needs flaml")
    X, labels, queries = rows
    seen: list[tuple[float, float]] = []
    metric = flaml_metric("ndcg@5")

    def check_metric(*given: Any) -> Any:
        loss, logged = metric(*given)
        X_val, y_val, estimator, groups = *given[:3], given[9]
        found = evaluate(y_val, estimator.predict(X_val), query_ids=groups, metrics=["ndcg@5"]).means[
            "ndcg@5"
        ]
        seen.append((logged["ndcg@5"], found))
        assert loss == -found
        return loss, logged

    search = automl.AutoML()
    search.fit(
        X_train=X.to_numpy(),
        y_train=labels.astype(int),
        groups=queries,
        task="rank",
        metric=check_metric,
        estimator_list=["lgbm"],
        max_iter=2,
        time_budget=20,
        verbose=0,
        n_jobs=1,
    )
    assert seen
    assert all(one == other for one, other in seen)
    with pytest.raises(UsageError, match="the rows of each query are not given"):
        metric(X, labels, Ridge().fit(X, labels), None, X, labels, None, None, {}, None, None)


def test_a_metric_is_no_scorer_and_says_what_is(rows: Any) -> None:
    X, labels, _ = rows
    plain = sklearn.metrics.make_scorer(NDCG(k=10))
    words = r"expected ltr_harness\.sklearn\.scorer\('ndcg@10'\) in scikit-learn"
    with pytest.raises(MetricError, match=words):
        cross_val_score(Ridge(), X, labels, scoring=plain)
    with pytest.raises(MetricError, match=words):
        GridSearchCV(Ridge(), {"alpha": [1.0]}, scoring=plain, error_score="raise").fit(X, labels)
    with pytest.raises(MetricError, match=words):
        plain(Ridge().fit(X, labels), X, labels)
    assert not hasattr(NDCG(), "__name__")


def test_a_metric_is_no_function_either(tmp_path: Path, monkeypatch: Any) -> None:
    from ltr_harness.metrics import function_metric, parse_metric

    with pytest.raises(MetricError, match="is not a function"):
        function_metric(NDCG(k=10), higher_is_better=True)  # type: ignore[arg-type]
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("from ltr_harness.metrics import NDCG\nmine = NDCG(k=3)\n")
    with pytest.raises(MetricError, match="expected a subclass of Metric, or a function"):
        parse_metric("./mine.py:mine")


@pytest.mark.parametrize("of", ["two classes", "two classes without a decision function", "four classes"])
def test_classifiers_rank_as_the_ranker_of_experiments_does(rows: Any, of: str) -> None:
    X, labels, queries = rows
    target = labels if of == "four classes" else (labels >= 1).astype(int)
    model = GaussianNB() if of.endswith("function") else LogisticRegression(max_iter=300)
    model.fit(X, target)
    scores = {
        "two classes": lambda: model.decision_function(X),
        "two classes without a decision function": lambda: model.predict_proba(X)[:, 1],
        "four classes": lambda: model.predict_proba(X) @ [0, 1, 2, 3],
    }[of]()
    expected = evaluate(labels, scores, ["ndcg@5"], query_ids=queries).means["ndcg@5"]
    found = scorer("ndcg@5")(model, X, labels, qid=queries)
    assert found == pytest.approx(expected, abs=1e-12)
    by_class = evaluate(labels, model.predict(X), ["ndcg@5"], query_ids=queries).means["ndcg@5"]
    assert found > by_class + 0.01


def test_a_classifier_of_many_grades_needs_probabilities(rows: Any) -> None:
    X, labels, queries = rows
    model = RidgeClassifier().fit(X, labels)
    with pytest.raises(
        UsageError, match="RidgeClassifier gives no probabilities, and an expected grade of 4 grades"
    ):
        scorer("ndcg@5")(model, X, labels, qid=queries)
