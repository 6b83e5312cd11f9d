"""Learning-to-rank evaluation around LightGBM and XGBoost: one definition of a metric everywhere."""

from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from ltr_harness.comparison import Comparison as Comparison
    from ltr_harness.comparison import compare as compare
    from ltr_harness.comparison.evaluated_runs import evaluate_runs as evaluate_runs
    from ltr_harness.comparison.offline_online import agreement as agreement
    from ltr_harness.evaluation import Evaluation as Evaluation
    from ltr_harness.evaluation import evaluate as evaluate
    from ltr_harness.experiment import ExperimentResult as ExperimentResult
    from ltr_harness.experiment import run_experiment as run_experiment
    from ltr_harness.metrics import parse_metric as parse_metric
    from ltr_harness.runs import Run as Run
    from ltr_harness.runs import load_run as load_run

# Imported on first use: `import ltr_harness` must not pay for boosters, pandas or the compiler.
_LAZY = {
    "Comparison": "ltr_harness.comparison",
    "Evaluation": "ltr_harness.evaluation",
    "ExperimentResult": "ltr_harness.experiment",
    "Run": "ltr_harness.runs",
    "agreement": "ltr_harness.comparison.offline_online",
    "compare": "ltr_harness.comparison",
    "evaluate": "ltr_harness.evaluation",
    "evaluate_runs": "ltr_harness.comparison.evaluated_runs",
    "load_run": "ltr_harness.runs",
    "parse_metric": "ltr_harness.metrics",
    "run_experiment": "ltr_harness.experiment",
}

__all__ = [*sorted(_LAZY), "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'ltr_harness' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
