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
    study_direction = "MAXIMIZE" if parsed.higher_is_better else "MINIMIZE"
    if study is not None and study.direction.name != study_direction:
        better = "higher" if parsed.higher_is_better else "lower"
        raise UsageError(
            f"the study has the wrong direction: {parsed} is better when it is {better}; "
            f"expected optuna.create_study(direction={study_direction.lower()!r})"
        )
    return Prune(trial, parsed, data)


class Prune:
    """The result of `prune`."""

    def __init__(self, trial: Any, metric: Metric, data: str | None) -> None:
        self._trial = trial
        self._metric = metric
        self._data = data

    def __call__(self, measured: Any) -> None:
        """Report a round's `Measured`, or what LightGBM's callback environment has of it."""
        if hasattr(measured, "evaluation_result_list"):
            measurement = self._measurement_to_report(_measured_by_lightgbm(measured))
        else:
            measurement = self._measurement_to_report(measured)
        self._trial.report(measurement.value, measurement.round)
        if self._trial.should_prune():
            import optuna

            raise optuna.TrialPruned(f"round {measurement.round}: {self._metric} is {measurement.value:.4f}")

    def _measurement_to_report(self, measured: Sequence[Measured]) -> Measured:
        """Return the metric's one value, on the set that was named where there are several."""
        matching = [
            measurement
            for measurement in measured
            if measurement.metric == str(self._metric) and self._data in (None, measurement.data)
        ]
        if len(matching) == 1:
            return matching[0]
        found, expected = "not among the metrics", "the metric of Watch or feval"
        if matching:
            found, expected = "measured on several sets", "data=… to name one"
        listing = ", ".join(f"{m.metric} on {m.data}" for m in measured) or "nothing"
        raise UsageError(f"prune: {self._metric} is {found} ({listing}); expected {expected}")


def _measured_by_lightgbm(env: Any) -> list[Measured]:
    return [
        Measured(env.iteration + 1, str(row[0]), str(row[1]), float(row[2]))
        for row in env.evaluation_result_list
    ]
