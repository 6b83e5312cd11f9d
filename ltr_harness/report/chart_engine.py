"""The chart engine, machine code that keeps Python's lock and may abort, in a process of its own.

A chart on which it dies is tried once more in a new engine, and then given up. That process runs this very file, which
so imports nothing of the package at its top.
"""

import atexit
import base64
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from typing import Any

VEGALITE_VERSION = "6.4"


class EngineError(Exception):
    """A failure of the chart engine, with its reason as text."""


class MissingEngineError(EngineError):
    """The chart engine is not installed."""

    def __init__(self) -> None:
        super().__init__("vl-convert-python is not installed; pip install vl-convert-python")


def warm_up() -> None:
    """Start the engine, which takes half a second of another core."""
    with suppress(EngineError):  # raised again for the first chart
        _ENGINE.start()


def draw(kind: str, spec: Mapping[str, Any]) -> bytes:
    """Return a Vega-Lite chart as ``svg`` (UTF-8) or ``png`` (twice as sharp as it is large); raises `EngineError`."""
    return _ENGINE.ask({"kind": kind, "spec": spec})


@dataclass
class _Engine:
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _process: subprocess.Popen[bytes] | None = None
    _owner: int = 0
    _ready: bool = False
    _death: str = ""
    _cannot_work: str = ""

    def start(self) -> None:
        with self._lock:
            self._running_process()

    def ask(self, request: Mapping[str, Any]) -> bytes:
        line = json.dumps(request).encode() + b"\n"
        with self._lock:
            if self._cannot_work:
                raise EngineError(self._cannot_work)
            try:
                answer = self._answer(line) or self._answer(line)
            except MissingEngineError:
                raise
            except EngineError as problem:
                self._cannot_work = str(problem)
                raise
            if answer is None:
                if not self._ready:
                    self._cannot_work = self._death
                raise EngineError(self._death)
        if "error" in answer:
            raise EngineError(" ".join(answer["error"].partition("\n    at ")[0].split()))
        return base64.b64decode(answer["done"])

    def _answer(self, line: bytes) -> dict[str, str] | None:
        """Return the engine's answer to a request; None where the engine dies instead."""
        process = self._running_process()
        answer = None if self._ready else _exchange_line(process, b"")  # the first line says that it is ready
        if self._ready or (answer is not None and "error" not in answer):
            self._ready = True
            answer = _exchange_line(process, line)
        if answer is None:
            _kill(process, self._owner)
            self._process = None
            problem = "crashes on it" if self._ready else _start_failure(process)
            self._death = f"the chart engine {problem}"
        return answer

    def _running_process(self) -> subprocess.Popen[bytes]:
        # a forked process must not use its parent's pipes
        if self._owner != os.getpid():
            self._owner, self._process = os.getpid(), None
        if self._process is None:
            if find_spec("vl_convert") is None:
                raise MissingEngineError
            self._ready = False
            try:
                self._process = subprocess.Popen(
                    # -P: this folder has an html.py, which is not the library's
                    [sys.executable or "", "-P", __file__],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,  # what it prints in a crash is for its developers
                    start_new_session=True,  # Ctrl-C reaches us alone; the engine ends with its input
                )
            except OSError as problem:
                message = f"the chart engine cannot be started: {problem.strerror or problem}"
                raise EngineError(message) from None
            atexit.register(_kill, self._process, self._owner)
        return self._process


def _exchange_line(process: subprocess.Popen[bytes], line: bytes) -> dict[str, str] | None:
    """Send the engine a line and return its next one; None if the engine is gone."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(line)
        process.stdin.flush()
        answer = process.stdout.readline()
    except OSError:
        return None
    return dict(json.loads(answer)) if answer.endswith(b"\n") else None


def _start_failure(process: subprocess.Popen[bytes]) -> str:
    """Return how an engine that was never ready ended, or the usual reason for it."""
    exit_code = process.returncode
    exit_text = (
        f"was ended by {signal.Signals(-exit_code).name}"
        if exit_code < 0
        else f"ended with exit code {exit_code}"
    )
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return exit_text
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return exit_text
    return f"reserves about 100 GB of address space, and ulimit -v allows {limit / 1e9:,.0f} GB"


def _kill(process: subprocess.Popen[bytes], owner: int) -> None:
    if owner == os.getpid():
        process.kill()
        process.communicate()


_ENGINE = _Engine()


@cache
def vega_bundle() -> str:
    """Return Vega, Vega-Lite and their loader as one script, cached in a file: bundling takes almost two seconds."""
    from importlib.metadata import version

    from ltr_harness._util.files import cache_folder, write_whole

    if find_spec("vl_convert") is None:
        raise MissingEngineError
    folder, path = cache_folder(), None
    if folder is not None:
        path = folder / "charts" / f"vega-{VEGALITE_VERSION}-{version('vl-convert-python')}.js"
        with suppress(OSError, UnicodeDecodeError):
            digest, _, script = path.read_text(encoding="utf-8").partition("\n")
            if hashlib.sha256(script.encode()).hexdigest() == digest:
                return script
    script = _ENGINE.ask({"kind": "javascript"}).decode()
    # The HTML parser ends a script at this text wherever it stands; in JavaScript strings both mean the same.
    script = re.sub(r"</(script)", r"<\\/\1", script, flags=re.IGNORECASE).replace("<!--", r"<\!--")
    if path is not None:
        with suppress(OSError):  # read-only or full disk: the next run bundles again
            write_whole(path, f"{hashlib.sha256(script.encode()).hexdigest()}\n{script}")
    return script


def render_request(request: Mapping[str, Any]) -> bytes:
    """Return the requested picture or script: svg, png or javascript."""
    import vl_convert

    if request["kind"] == "png":
        return bytes(vl_convert.vegalite_to_png(request["spec"], vl_version=VEGALITE_VERSION, scale=2))
    if request["kind"] == "svg":
        return str(vl_convert.vegalite_to_svg(request["spec"], vl_version=VEGALITE_VERSION)).encode()
    # its stub asks for a snippet
    return str(vl_convert.javascript_bundle(vl_version=VEGALITE_VERSION)).encode()  # type: ignore[call-arg]


def serve() -> None:
    """Run as the engine: say that it is ready, then answer standard input until that ends."""
    # Whatever the engine prints must not stand between the answers.
    answers, sys.stdout = sys.stdout, sys.stderr

    def send(reply: Mapping[str, str]) -> None:
        try:
            print(json.dumps(reply), file=answers, flush=True)
        except BrokenPipeError:  # the process that asked was killed
            os._exit(0)

    try:
        # everything is loaded by this
        render_request({"kind": "svg", "spec": {"mark": "point", "data": {"values": []}}})
    except Exception as problem:
        send({"error": f"the chart engine does not work: {problem}"})
        return
    send({})
    for line in sys.stdin:
        try:
            send({"done": base64.b64encode(render_request(json.loads(line))).decode()})
        except ValueError as problem:
            send({"error": str(problem)})


if __name__ == "__main__":
    serve()
