"""Give up an Optuna trial by the harness's metrics, while its model trains.

Watch(ndcg, data={"valid": valid}, on_round=prune(trial, ndcg))                     # both libraries
lightgbm.train(…, feval=feval(ndcg), callbacks=[prune(trial, ndcg)])                # LightGBM, without Watch
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ltr_harness.boosting.watching import Measured
from ltr_harness.errors import UsageError
from ltr_harness.metrics import Metric, parse_metric

__all__ = ["prune"]


def prune(trial: Any, metric: Metric | str, data: str | None = None) -> Prune:
    """A callback that reports each round to an Optuna trial, and ends it where the study's pruner decides so.

    Args:
        trial: of `study.optimize`'s objective.
        metric: what the study optimises; among those that are watched or given to `feval`.
        data: name of the set; needed when there are several.

    Returns:
        A callable for the `on_round` of `Watch`, and for the `callbacks` of `lightgbm.train` and `lightgbm.cv`.
        It raises ``optuna.TrialPruned``.

    Raises:
        MetricError: an unknown metric.
        UsageError: the study goes the other way; (while training) the metric is not measured, or on several sets.
    """
    parsed = parse_metric(metric)
    study = getattr(trial, "study", None)  # a FixedTrial has none
    wanted = "MAXIMIZE" if parsed.higher_is_better else "MINIMIZE"
    if study is not None and study.direction.name != wanted:
        raise UsageError(
            f"the study has the wrong direction: {parsed} is better when it is "
            f"{'higher' if parsed.higher_is_better else 'lower'}; "
            f"expected optuna.create_study(direction={wanted.lower()!r})"
        )
    return Prune(trial, parsed, data)


class Prune:
    """The result of `prune`."""

    def __init__(self, trial: Any, metric: Metric, data: str | None) -> None:
        self._trial = trial
        self._metric = metric
        self._data = data

    def __call__(self, told: Any) -> None:
        if hasattr(told, "evaluation_result_list"):  # LightGBM's callback environment
            measured: Sequence[Measured] = [
                Measured(told.iteration + 1, str(row[0]), str(row[1]), float(row[2]))
                for row in told.evaluation_result_list
            ]
        else:
            measured = told
        own = [one for one in measured if one.metric == str(self._metric)]
        matching = [one for one in own if self._data in (None, one.data)]
        if len(matching) != 1:
            listed = ", ".join(f"{one.metric} on {one.data}" for one in measured) or "nothing"
            raise UsageError(
                f"prune: {self._metric} is {'measured on several sets' if matching else 'not among the metrics'} "
                f"({listed}); expected {'data=… to name one' if matching else 'the metric of Watch or feval'}"
            )
        self._trial.report(matching[0].value, matching[0].round)
        if self._trial.should_prune():
            import optuna

            raise optuna.TrialPruned(f"round {matching[0].round}: {self._metric} is {matching[0].value:.4f}")
