"""Preload of the process that workers are forked from."""

import atexit
import gc
import os
import shutil
import sys
from types import TracebackType

from ltr_harness.experiment.pool import SOCKETS, load_all


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


gc.disable()
load_all()
gc.freeze()  # what is loaded stays: nobody need look through it, and the copies go on sharing its memory
gc.enable()
