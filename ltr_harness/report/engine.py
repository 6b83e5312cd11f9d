"""The chart engine, in a process of its own: it keeps Python's lock while it draws, and pages are made meanwhile.

It is started once, by `warm_up` or the first request, and ends with this process. Where it cannot start or dies,
this process draws; the pictures are the same.
"""

from __future__ import annotations

import atexit
import base64
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Any

from ltr_harness.report import engine_process

VEGALITE_VERSION = "6.4"


def warm_up() -> None:
    """Start the engine, which takes half a second of another core."""
    _ENGINE.start()


def draw(kind: str, spec: Mapping[str, Any]) -> bytes:
    """A Vega-Lite chart as ``svg`` (UTF-8) or ``png`` (twice as sharp as it is large).

    Raises:
        ValueError: it is no Vega-Lite chart.
    """
    return _ENGINE.ask({"kind": kind, "spec": spec})


def javascript() -> str:
    """Vega, Vega-Lite and their loader as one script."""
    return _ENGINE.ask({"kind": "javascript"}).decode()


class _Engine:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._cannot_start = False

    def start(self) -> None:
        with self._lock:
            self._running()

    def ask(self, request: Mapping[str, Any]) -> bytes:
        with self._lock:
            line = self._line(request)
        if not line:
            return engine_process.answer(request, VEGALITE_VERSION)
        found = json.loads(line)
        if "error" in found:
            raise ValueError(found["error"])
        return base64.b64decode(found["done"])

    def _line(self, request: Mapping[str, Any]) -> bytes:
        """What the process says; nothing where there is none."""
        process = self._running()
        if process is None or process.stdin is None or process.stdout is None:
            return b""
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            return process.stdout.readline()
        except OSError:
            return b""

    def _running(self) -> subprocess.Popen[bytes] | None:
        # a forked process must not talk into its parent's conversation
        if self._owner != os.getpid():
            self._owner, self._process = os.getpid(), None
        if self._process is None and not self._cannot_start:
            try:
                self._process = subprocess.Popen(
                    # -P: this folder has an html.py, which is not the library's
                    [sys.executable or "", "-P", engine_process.__file__, VEGALITE_VERSION],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    start_new_session=True,  # Ctrl-C is for us; the engine ends when nobody can ask any more
                )
            except OSError:
                self._cannot_start = True
                return None
            atexit.register(_end, self._process, self._owner)
        return self._process


def _end(process: subprocess.Popen[bytes], owner: int) -> None:
    if owner == os.getpid():
        process.kill()
        process.communicate()


_ENGINE = _Engine()
