"""The harness's metrics and folds in scikit-learn: `cross_val_score`, `GridSearchCV` and whatever takes a scorer.

search = GridSearchCV(XGBRanker(), {"max_depth": [3, 6]}, scoring=scorer("ndcg@10"), cv=QueryKFold(5))
search.fit(X, y)  # X has a column qid
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness._util.text import count_of
from ltr_harness.data.alignment import refuse_unaligned
from ltr_harness.data.arrays import as_column
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.data.splits import fold_parts
from ltr_harness.errors import DataError, MissingExtraError, UsageError
from ltr_harness.metrics import Metric, bind, parse_metric
from ltr_harness.metrics.evaluation import evaluate, evaluate_bound
from ltr_harness.models.sklearn import scores_by

try:
    from sklearn.model_selection import BaseCrossValidator
    from sklearn.utils.metadata_routing import MetadataRequest
except ModuleNotFoundError:
    found = "ltr_harness.sklearn needs scikit-learn"
    raise MissingExtraError(f"{found}; install with: pip install scikit-learn") from None

__all__ = ["QueryKFold", "flaml_metric", "scorer"]

_ROUTED = "qid=… or groups=… by metadata routing: sklearn.set_config(enable_metadata_routing=True)"


def scorer(metric: Metric | str, column: str | int = "qid", judgments: Judgments | None = None) -> Scorer:
    """The metric as the `scoring` of `cross_val_score`, `GridSearchCV` and their like.

    A fold with labels and predictions alone would be ranked as one query. So the queries come with it, by metadata
    routing or in a column of X, which the estimator must then leave out, as `XGBRanker` does. Where
    `error_score` is left as it is, scikit-learn turns any refusal into NaN with a warning.

    Args:
        metric: a value such as ``NDCG(k=10)``, or its name.
        column: of X, that holds each row's query where no `qid` or `groups` are routed: its name, or its number in
            an array.
        judgments: of all queries, by the ids that `qid` has, where some judged documents were missed: they count in
            the queries of each fold. Queries without candidates have no row and are in no fold.

    Returns:
        A callable ``(estimator, X, y, qid=None, groups=None)``: the mean over the queries of what the estimator
        ranks, higher is better (a metric of which less is better is negated). A classifier of numeric grades ranks as
        the experiment file's ``ranker: sklearn`` does: by the decision function of two classes, or, without one, the
        probability of the higher; of more classes by the expected grade. All others rank by ``predict``. It can be
        pickled and copied.

    Raises:
        MetricError: an unknown metric.
        UsageError: (when scoring) the rows of each query are not given, or a classifier of three and more grades gives
            no probabilities.
        DataError: (when scoring) the metric is undefined for every query, or judgments do not fit the fold.

    Example:
        >>> import numpy as np
        >>> from ltr_harness import QueryGroups
        >>> class FirstFeature:
        ...     def predict(self, X):
        ...         return X[:, 0]
        >>> X = np.array([[0.3], [0.2], [0.1], [0.9]])
        >>> scorer("mrr")(FirstFeature(), X, np.array([0, 1, 0, 1]), qid=[7, 7, 8, 8])
        0.75

        With one more document of query 8, relevant and not retrieved:

        >>> pool = Judgments.checked(
        ...     [0, 1, 0, 1, 1], QueryGroups.from_sizes([2, 3], ids=[7, 8]), retrieved=[True] * 4 + [False]
        ... )
        >>> scorer("recall", judgments=pool)(FirstFeature(), X, np.array([0, 1, 0, 1]), qid=[7, 7, 8, 8])
        0.75
    """
    return Scorer(parse_metric(metric), column, judgments)


@dataclass(repr=False, eq=False)
class Scorer:
    """The result of `scorer`."""

    metric: Metric
    column: str | int
    judgments: Judgments | None = None

    def __call__(self, estimator: Any, X: Any, y: Any, qid: Any = None, groups: Any = None) -> float:
        given = qid if qid is not None else groups
        refuse_unaligned({"X": X, "y": y, "the queries": given})
        queries, scores = (
            _queries(X, given, self.column, _ROUTED),
            scores_by(_method(estimator), estimator, X),
        )
        if self.judgments is None:
            evaluation = evaluate(y, scores, query_ids=queries, metrics=[self.metric])
        else:
            judgments, order = _of_fold(self.judgments, queries, y)
            evaluation = evaluate_bound(bind(self.metric, judgments), as_column(scores, "predictions")[order])
        mean = evaluation[self.metric].mean
        if np.isnan(mean):
            raise DataError(
                f"{self.metric} is undefined for every query of the fold; expected at least one relevant document, "
                "or a value for such queries: empty=zero"
            )
        return mean if self.metric.higher_is_better else -mean

    def __repr__(self) -> str:
        return f"scorer({str(self.metric)!r})"

    def get_metadata_routing(self) -> MetadataRequest:
        """Request `qid` and `groups` from scikit-learn wherever they are given."""
        request = MetadataRequest(owner=self)
        for name in ("qid", "groups"):
            request.score.add_request(param=name, alias=True)
        return request


def flaml_metric(metric: Metric | str) -> FlamlMetric:
    """The metric as the `metric` of FLAML's ``AutoML.fit(task="rank", groups=…)``.

    FLAML minimises: it is given the negated mean, and the mean itself under the metric's name.

    Args:
        metric: a value such as ``NDCG(k=10)``, or its name.

    Raises:
        MetricError: an unknown metric.
        UsageError: (while searching) FLAML was given no groups.
    """
    return FlamlMetric(scorer(metric))


@dataclass(repr=False, eq=False)
class FlamlMetric:
    """The result of `flaml_metric`."""

    scorer: Scorer

    def __call__(self, X_val: Any, y_val: Any, estimator: Any, *others: Any) -> tuple[float, Any]:
        # labels, X_train, y_train, weight_val, weight_train, config, groups_val, groups_train
        groups = others[6] if len(others) > 6 else None
        value = self.scorer(estimator, X_val, y_val, groups=groups)
        sign = 1 if self.scorer.metric.higher_is_better else -1
        return -value, {str(self.scorer.metric): sign * value}


class QueryKFold(BaseCrossValidator):  # type: ignore[misc]  # untyped base
    """Cross-validation that divides no query: the folds of the experiment file's ``folds:``.

    Every query is tested once, in the fold in which an experiment of the same number and seed tests it. An
    experiment sets one part more aside to stop on; here it belongs to the training rows.

    Args:
        n_splits: number of folds, at least 2.
        seed: integer >= 0.
        column: of X, that holds each row's query where no `groups` are given: its name, or its number.

    Raises:
        UsageError: (when splitting) the rows of each query are not given, or fewer than 2 folds.
        DataError: (when splitting) fewer queries than folds.

    Example:
        >>> import numpy as np
        >>> X, queries = np.zeros((6, 1)), ["a", "a", "b", "c", "c", "d"]
        >>> [test.tolist() for _, test in QueryKFold(2).split(X, groups=queries)]
        [[3, 4, 5], [0, 1, 2]]
    """

    # scikit-learn's way to say that groups are asked for unless the user says otherwise
    __metadata_request__split = {"groups": True}  # noqa: RUF012

    def __init__(self, n_splits: int = 5, *, seed: int = 0, column: str | int = "qid") -> None:
        self.n_splits = n_splits
        self.seed = seed
        self.column = column

    def split(
        self, X: Any, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Training and test rows of each fold, int64, each sorted.

        Args:
            X: the rows.
            y: not looked at.
            groups: (n_rows,) each row's query; None where X has the column.
        """
        refuse_unaligned({"X": X, "groups": groups})
        queries, order = QueryGroups.from_ids(_queries(X, groups, self.column, "groups=…"))
        if self.n_splits < 2:
            raise UsageError(f"n_splits is {self.n_splits}; expected at least 2")
        n, folds = queries.n_queries, count_of(self.n_splits, "fold")
        if n < self.n_splits:
            raise DataError(f"{folds} of {count_of(n, 'query')}; expected at least one query per fold")
        query = np.repeat(np.arange(n), queries.sizes)
        if order is not None:
            query[order] = query.copy()
        for part in fold_parts(n, self.n_splits, self.seed):
            tested = np.isin(query, part)
            yield np.flatnonzero(~tested), np.flatnonzero(tested)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds.

        Args:
            X: not looked at.
            y: not looked at.
            groups: not looked at.
        """
        return self.n_splits


def _method(estimator: Any) -> str:
    """The method whose scores rank rows: a predicted class has few values, and many rows tie."""
    grades = getattr(estimator, "classes_", None)
    if not isinstance(grades, np.ndarray) or grades.dtype.kind not in "biuf":
        return "predict"
    if len(grades) == 2 and hasattr(estimator, "decision_function"):
        return "decision_function"
    if not hasattr(estimator, "predict_proba"):
        found = f"{type(estimator).__name__} gives no probabilities"
        needs = f"an expected grade of {len(grades)} grades needs them"
        raise UsageError(
            f"{found}, and {needs}; expected a classifier with predict_proba, a regressor or a ranker"
        )
    return "predict_proba"


def _of_fold(judgments: Judgments, queries: Any, labels: Any) -> tuple[Judgments, NDArray[np.int64]]:
    """The judgments of a fold's queries, found by their ids, and the order of its rows in them."""
    groups, order = QueryGroups.from_ids(queries)
    order = np.arange(groups.n_rows) if order is None else order
    number = {query: row for row, query in enumerate(judgments.groups.ids.tolist())}
    unknown = [query for query in groups.ids.tolist() if query not in number]
    if unknown:
        raise DataError(
            f"the judgments have no query {unknown[0]!r} ({count_of(len(unknown), 'such query')}); expected those of "
            "every query of the fold, by the same ids"
        )
    of_fold = judgments.take(np.array([number[query] for query in groups.ids.tolist()], dtype=np.int64))
    same = of_fold.groups.sizes == groups.sizes
    if same.all():
        fold_labels = as_column(labels, "labels")[order].astype(np.float32)
        same = ~groups.any(of_fold.labels.astype(np.float32) != fold_labels)
    if not same.all():
        raise DataError(
            f"query {groups.name(int(np.argmin(same)))!r} has other rows or labels in the judgments than in the fold "
            f"({count_of(int((~same).sum()), 'such query')}); expected the fold's rows, in their order, as candidates"
        )
    return of_fold, order


def _queries(X: Any, given: Any, column: str | int, besides: str) -> Any:
    """Each row's query: what was given, or a column of X."""
    if given is not None:
        return given
    if isinstance(column, str):
        if column in getattr(X, "columns", ()):
            return np.asarray(X[column])
        expected = f"a column {column!r} in X"
    else:
        if getattr(X, "ndim", 0) == 2 and not hasattr(X, "columns"):
            return np.asarray(X[:, column])
        expected = f"an array X with a column {column}"
    raise UsageError(
        "the rows of each query are not given, and all rows would count as one; "
        f"expected {expected}, or {besides}; `column=` names another column, of an array by its number"
    )
