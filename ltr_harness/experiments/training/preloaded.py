"""Preload of the process that workers are forked from."""

import atexit
import gc
import importlib
import os
import shutil
import sys
from contextlib import suppress
from types import TracebackType

from ltr_harness.experiments.training.pool import SOCKETS, WITHOUT_SKLEARN


def _report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """A copy that begins while its owner ends finds the owner's semaphores and pipes gone: the owner has said why."""
    if not issubclass(kind, FileNotFoundError | ConnectionError | EOFError):
        sys.__excepthook__(kind, error, trace)


sys.excepthook = _report  # what multiprocessing calls where a copy cannot begin

_owner, _sockets = os.getppid(), os.environ.pop(SOCKETS, "")


@atexit.register
def _clear() -> None:
    """A killed owner leaves its folder of sockets."""
    if _sockets and os.getppid() != _owner:
        shutil.rmtree(_sockets, ignore_errors=True)


MODULES = (
    "ltr_harness.experiments.training.workers",
    "ltr_harness.boosting.lightgbm",
    "ltr_harness.boosting.xgboost",
    "ltr_harness.models.lightgbm",
    "ltr_harness.models.xgboost",
    "ltr_harness.models.xgboost_matrices",
    "lightgbm",
    "xgboost",
    "pyarrow.pandas_compat",
    "pyarrow.parquet",
)
EXPERIMENT = {
    "name": "preloaded",
    "data": {"reader": "synthetic"},
    "stopping": {"metric": "ndcg@10"},
    "models": {"lightgbm": {"ranker": "lightgbm"}, "xgboost": {"ranker": "xgboost"}},
}
"""Loaded once, it leaves the validators of the configuration, which take .2 s to build."""

without_sklearn = bool(os.environ.pop(WITHOUT_SKLEARN, ""))
if without_sklearn:
    sys.modules["sklearn"] = None  # type: ignore[assignment]  # Python's own way to refuse an import

gc.disable()
# what cannot be loaded fails again in the worker that needs it, where the failure is told
with suppress(Exception):
    for module in MODULES:
        importlib.import_module(module)
    from ltr_harness.experiments.config import load_experiment
    from ltr_harness.experiments.runs.identity import environment, installed_requirements
    from ltr_harness.metrics.evaluation import evaluate

    load_experiment(EXPERIMENT, check_rankers=False)
    environment()
    for library in ("lightgbm", "xgboost"):
        installed_requirements(("ltr-harness", library))
    metrics = ["ndcg@10", "mrr@10", "err(max_grade=4)@10", "map@10"]
    evaluate([0, 1] * 40, [0.5] * 80, group_sizes=[80], metrics=metrics).headroom()  # a long query of ties
    # as LightGBM calls it for each array; the first call reads the entry points of all packages
    importlib.import_module("narwhals.dependencies").is_into_dataframe(None)
if without_sklearn:
    del sys.modules["sklearn"]  # whoever asks for it from now on gets it
gc.freeze()  # what is loaded stays: nobody need look through it, and the copies go on sharing its memory
gc.enable()
