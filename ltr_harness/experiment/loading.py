"""Modules that every worker needs, imported and compiled before the first one starts.

Importing the boosters and loading the compiled metrics takes longer than a small model trains. Nothing here may
start a thread: a forked child has none of its parent's, and OpenMP would wait for them for ever.
"""

from __future__ import annotations

import importlib
from contextlib import suppress

MODULES = (
    "ltr_harness.experiment.workers",
    "ltr_harness.boosting.lightgbm",
    "ltr_harness.boosting.xgboost",
    "ltr_harness.rankers.lightgbm",
    "ltr_harness.rankers.xgboost",
    "lightgbm",
    "xgboost",
    "pyarrow.parquet",
)


def load_all() -> None:
    """Whatever of it cannot be loaded here fails again in the worker that needs it, where the failure is told."""
    with suppress(Exception):
        for module in MODULES:
            importlib.import_module(module)
        from ltr_harness.evaluation import evaluate

        metrics = ["ndcg@10", "mrr@10", "err(max_grade=4)@10", "map@10"]
        evaluate([0, 1], [0.5, 0.1], group_sizes=[2], metrics=metrics)
