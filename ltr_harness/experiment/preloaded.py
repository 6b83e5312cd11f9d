"""What every worker needs in memory. The process that workers are forked from imports this module once.

Importing the boosters and loading the compiled metrics takes longer than a small model trains. Nothing here may
start a thread: a forked child has none of its parent's, and OpenMP would wait for them for ever.
"""

from __future__ import annotations

import gc
import importlib
import sys
from contextlib import suppress
from types import TracebackType

MODULES = (
    "ltr_harness.experiment.workers",
    "ltr_harness.boosting.lightgbm",
    "ltr_harness.boosting.xgboost",
    "ltr_harness.rankers.lightgbm.ranker",
    "ltr_harness.rankers.xgboost.ranker",
    "lightgbm",
    "xgboost",
    "pyarrow.parquet",
)


def _report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """A copy that begins while its owner ends finds the owner's semaphores and pipes gone: the owner has said why."""
    if not issubclass(kind, FileNotFoundError | ConnectionError | EOFError):
        sys.__excepthook__(kind, error, trace)


sys.excepthook = _report  # what multiprocessing calls where a copy cannot begin

gc.disable()
# What cannot be loaded here fails again in the worker that needs it, where the failure is told.
with suppress(Exception):
    for module in MODULES:
        importlib.import_module(module)
    from ltr_harness.evaluation import evaluate

    evaluate(
        [0, 1], [0.5, 0.1], group_sizes=[2], metrics=["ndcg@10", "mrr@10", "err(max_grade=4)@10", "map@10"]
    )
gc.freeze()  # what is loaded stays: nobody need look through it, and the copies go on sharing its memory
gc.enable()
