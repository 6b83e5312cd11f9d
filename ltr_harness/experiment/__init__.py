"""Experiments: plan, train what is missing, compare, report."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ltr_harness.experiment.experiment import ExperimentResult as ExperimentResult
    from ltr_harness.experiment.experiment import run_experiment as run_experiment

__all__ = ["ExperimentResult", "run_experiment"]


def __getattr__(name: str) -> Any:
    # Workers need this package too, but neither comparison nor report.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ltr_harness.experiment import experiment

    return getattr(experiment, name)
