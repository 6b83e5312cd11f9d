"""The chart engine, in a process of its own: it keeps Python's lock while it draws, and pages are made meanwhile.

It is started once, by `warm_up` or the first request, and ends with this process. It is foreign machine code that
aborts its process where it meets what it did not expect: so it never works in this one. A chart on which it dies is
tried once more in a new engine, and then given up.
"""

from __future__ import annotations

import atexit
import base64
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ltr_harness.report import engine_process

VEGALITE_VERSION = "6.4"


class EngineError(Exception):
    """The engine cannot do what was asked; the text says why."""


def warm_up() -> None:
    """Start the engine, which takes half a second of another core."""
    with suppress(EngineError):  # who asks for a chart is told
        _ENGINE.start()


def draw(kind: str, spec: Mapping[str, Any]) -> bytes:
    """A Vega-Lite chart as ``svg`` (UTF-8) or ``png`` (twice as sharp as it is large).

    Raises:
        EngineError: it is no Vega-Lite chart, or the engine cannot draw it here.
    """
    return _ENGINE.ask({"kind": kind, "spec": spec})


def javascript() -> str:
    """Vega, Vega-Lite and their loader as one script.

    Raises:
        EngineError: the engine cannot work here.
    """
    return _ENGINE.ask({"kind": "javascript"}).decode()


class _Engine:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._ready = False
        self._death = self._cannot_work = ""

    def start(self) -> None:
        with self._lock:
            self._started()

    def ask(self, request: Mapping[str, Any]) -> bytes:
        line = json.dumps(request).encode() + b"\n"
        with self._lock:
            answer = self._answer(line) or self._answer(line)
            if answer is None:
                if not self._ready:
                    self._cannot_work = self._death
                raise EngineError(self._death)
        if "error" in answer:
            raise EngineError(" ".join(answer["error"].partition("\n    at ")[0].split()))
        return base64.b64decode(answer["done"])

    def _answer(self, line: bytes) -> dict[str, str] | None:
        """What the engine says; None where it dies instead."""
        process = self._started()
        answer = None if self._ready else _said(process, b"")  # the first line says that it is ready
        if self._ready or (answer is not None and "error" not in answer):
            self._ready = True
            answer = _said(process, line)
        if answer is None:
            _end(process, self._owner)
            self._process = None
            self._death = f"the chart engine {'dies of it' if self._ready else _ended(process)}"
        return answer

    def _started(self) -> subprocess.Popen[bytes]:
        # a forked process must not talk into its parent's conversation
        if self._owner != os.getpid():
            self._owner, self._process = os.getpid(), None
        if self._cannot_work:
            raise EngineError(self._cannot_work)
        if self._process is None:
            self._ready = False
            try:
                self._process = subprocess.Popen(
                    # -P: this folder has an html.py, which is not the library's
                    [sys.executable or "", "-P", engine_process.__file__, VEGALITE_VERSION],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,  # what it says when it dies is for its makers
                    start_new_session=True,  # Ctrl-C is for us; the engine ends when nobody can ask any more
                )
            except OSError as problem:
                self._cannot_work = f"the chart engine cannot be started: {problem.strerror or problem}"
                raise EngineError(self._cannot_work) from None
            atexit.register(_end, self._process, self._owner)
        return self._process


def _said(process: subprocess.Popen[bytes], line: bytes) -> dict[str, str] | None:
    """The next line of the engine after it was given one; None if it is gone."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(line)
        process.stdin.flush()
        answer = process.stdout.readline()
    except OSError:
        return None
    parsed: dict[str, str] | None = json.loads(answer) if answer.endswith(b"\n") else None
    return parsed


def _ended(process: subprocess.Popen[bytes]) -> str:
    """How it ended before it was ready, and the usual reason."""
    code = process.returncode
    ended = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return ended
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    if most == resource.RLIM_INFINITY:
        return ended
    return f"reserves about 100 GB of address space, and ulimit -v allows {most / 1e9:,.0f} GB"


def _end(process: subprocess.Popen[bytes], owner: int) -> None:
    if owner == os.getpid():
        process.kill()
        process.communicate()


_ENGINE = _Engine()
