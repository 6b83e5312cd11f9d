"""The best round of a CatBoost model by the harness's metrics.

    model = CatBoostRanker(iterations=2000, eval_metric=None).fit(train)
    best = best_round(model, valid, NDCG(k=10), MRR(k=10), patience=50)
    model.shrink(best.round)

CatBoost hands its metrics no queries and its callbacks no scores, so nothing can be evaluated while it trains: all
rounds are trained, and the rule is applied to the model's stages afterwards. That costs the rounds after the best
one, and gives the model that stopping would have given: a stage does not depend on those that come later. Train
without `eval_set`, or with ``use_best_model=False``: otherwise CatBoost cuts the model by its own metric first.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ltr_harness.boosting.stopping import Stopper, StoppingRule
from ltr_harness.boosting.watching import BoundMetrics, Measured, distinct_metrics
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.errors import DataError, UsageError
from ltr_harness.metrics import Metric, bind
from ltr_harness.metrics.core.expected_grade import expected_grade

__all__ = ["BestRound", "best_round"]


class BestRound(NamedTuple):
    """The result of `best_round`.

    Attributes:
        round: 1-based number of rounds of the best model, as `shrink` takes it.
        value: the first metric's mean there.
        history: every measurement, up to where the rule would have stopped.
    """

    round: int
    value: float
    history: list[Measured]


def best_round(
    model: Any,
    pool: Any,
    *metrics: Metric | str,
    patience: int | None = None,
    every: int = 1,
    judgments: Judgments | None = None,
    threads: int = -1,
) -> BestRound:
    """The round at which a trained model ranks best, by the first metric and on the rows of a pool.

    Args:
        model: a `CatBoostRanker` or `CatBoost` after `fit`.
        pool: `catboost.Pool` with labels and group ids.
        metrics: values such as ``NDCG(k=10)`` or their names; the first one decides.
        patience: rounds without improvement after which the later ones are not looked at; None looks at all.
        every: look at each `every`-th round, and the last.
        judgments: labels, queries, weights and missed documents, where those of the pool are not meant. CatBoost does
            not give a pool's `group_weight` back: queries that have one need this.
        threads: of CatBoost's prediction.

    Raises:
        MetricError: none, an unknown one, or one given twice.
        UsageError: the model is not trained, a number is out of range, an argument of another kind.
        DataError: a pool without groups or with unusable labels.
    """
    distinct = distinct_metrics(metrics)
    trained = getattr(model, "tree_count_", None)
    if not trained:
        raise UsageError("the model has no trees; expected a CatBoostRanker after fit(…)")
    if judgments is None:
        judgments = judgments_of(pool)
    binding = bind(distinct, judgments)
    rule = StoppingRule(binding.metrics[0], trained if patience is None else patience, every=every)
    stopper = Stopper(rule)
    history = list(itertools.chain(*stages(model, pool, binding, stopper, threads)))
    return BestRound(stopper.best_round, stopper.best_value, history)


def stages(
    model: Any, data: Any, bound: BoundMetrics, stopper: Stopper | None, threads: int, before: int = 0
) -> Iterator[list[Measured]]:
    """Measurements of the rule's rounds and the last, to where it stops; the first `before` rounds are left out."""
    from catboost import CatBoost

    every = 1 if stopper is None else stopper.rule.every
    grades = grades_of(model)
    kind = "Probability" if grades else "RawFormulaVal"
    # not the model's own method: a classifier's would say classes
    staged = CatBoost.staged_predict(model, data, kind, eval_period=every, thread_count=threads)
    for number, found in enumerate(staged, start=1):
        round_ = min(number * every, model.tree_count_)
        if round_ <= before:
            continue
        scores = expected_grade(found, grades) if grades else found
        means = bound.means(scores).tolist()
        yield [Measured(round_, "valid", name, value) for name, value in zip(bound.names, means, strict=True)]
        if stopper is not None and stopper.update(round_, means[0]):
            return


def grades_of(model: Any) -> list[Any]:
    """The grades of a model of classes; none where a row has one score, as in binary classification."""
    return list(model.classes_) if isinstance(model.get_scale_and_bias()[1], list) else []


def judgments_of(pool: Any) -> Judgments:
    """Labels, queries and query weights, the means of rows' `weight`, of a `catboost.Pool`; no `group_weight`."""
    hashes = getattr(pool, "get_group_id_hash", lambda: None)()
    if hashes is None or not len(hashes):
        raise DataError(
            "the Pool has no query groups, and a ranking metric is a mean over queries; "
            "expected catboost.Pool(…, group_id=query_of_each_row)"
        )
    if not pool.has_label():
        raise DataError("the Pool has no labels; expected catboost.Pool(…, label=…, group_id=…)")
    groups, _ = QueryGroups.from_ids(hashes)  # contiguous: CatBoost refuses others
    weights = np.asarray(pool.get_weight(), dtype=np.float64)
    per_query = groups.sum(weights) / groups.sizes if weights.size else None
    if per_query is not None and np.all(per_query == 1.0):
        per_query = None
    return Judgments.checked(pool.get_label(), groups, query_weights=per_query)
