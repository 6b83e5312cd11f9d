"""Ctrl-C at any moment of a start, which is imports in two threads: it is never lost, and leaves no lock behind."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from pydantic_core import SchemaError, SchemaValidator, core_schema

from ltr_harness import cli
from ltr_harness.cli.exit_codes import came_from_ctrl_c

INTERRUPTED_IMPORTS = """
import _imp, _thread, importlib, signal, sys, threading, time
from ltr_harness import cli

signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the tests run in the background
cli._SECONDS = ASKED_AFTER
cli.answer_ctrl_c()
lost = []
sys.unraisablehook = lost.append  # what Python prints as ignored
names = ["colorsys", "wave", "netrc", "cmd", "sched", "timeit", "tabnanny", "pyclbr"]
ready = threading.Semaphore(0)

def beside():
    while True:
        sys.modules.pop("plistlib", None)
        import plistlib

def press():
    for number in range(10):
        ready.acquire()
        time.sleep(number % 5 / 2500)
        _thread.interrupt_main()

for work in (beside, press):
    threading.Thread(target=work, daemon=True).start()
answered = left = 0
for _ in range(10):
    try:
        ready.release()
        while not lost:
            for name in names:
                sys.modules.pop(name, None)
            for name in names:
                importlib.import_module(name)
    except KeyboardInterrupt:
        answered += 1
    try:
        while True:
            _imp.release_lock()
            left += 1
    except RuntimeError:  # it is not held by this thread
        pass
    if lost:
        break
print(answered, left, len(lost))
"""


IGNORED = """
import ctypes, signal, sys, time
from ltr_harness import cli

signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the tests run in the background
cli.answer_ctrl_c()

@ctypes.CFUNCTYPE(None)
def callback():
    if presses:
        presses.pop()
        signal.raise_signal(signal.SIGINT)

class Deleted:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

class Read:
    def __init__(self, text):
        self.text = text

    def __del__(self):
        assert False, self.text

Read("before")
for begin in (callback, Deleted):
    presses = [1, 2, 3]  # also where the next one comes in a callback
    try:
        begin()
        until = time.monotonic() + 20
        while time.monotonic() < until:
            callback()
    except KeyboardInterrupt:
        print("answered")

@ctypes.CFUNCTYPE(None)
def defect():
    raise ValueError("said as before")

defect()
Read("after")
"""


BEFORE_A_WAIT = """
import signal, threading
from ltr_harness import cli

signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the tests run in the background
cli.answer_ctrl_c()
released = threading.Event()
exec(compile("signal.raise_signal(signal.SIGINT)", cli._IMPORTS, "exec"))
try:
    released.wait()
except KeyboardInterrupt:
    print("answered")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="nothing ends a wait there")
def test_ctrl_c_in_an_import_ends_the_wait_that_follows() -> None:
    done = subprocess.run(
        [sys.executable, "-c", BEFORE_A_WAIT], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "answered\n"


AT_THE_START = """
import signal, sys
from ltr_harness import cli

signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the tests run in the background

class CtrlC:
    def find_spec(self, name, path=None, target=None):
        if name == "ltr_harness.cli.exit_codes":
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, CtrlC())
cli.main(["--version"])
"""


class Interrupted:
    def __call__(self, value: object) -> object:
        return value

    def __repr__(self) -> str:
        raise KeyboardInterrupt


def test_ctrl_c_while_pydantic_makes_a_validator_is_no_defect() -> None:
    schema = core_schema.no_info_plain_validator_function(Interrupted())
    with pytest.raises(SchemaError) as ctrl_c:
        SchemaValidator(core_schema.union_schema([schema]))
    with pytest.raises(SchemaError) as defect:
        SchemaValidator(core_schema.is_instance_schema(cls=3))
    assert came_from_ctrl_c(ctrl_c.value)
    assert not came_from_ctrl_c(defect.value)


@pytest.mark.long
@pytest.mark.parametrize("seconds", [cli._SECONDS, 0.0])  # on a busy machine it is over at once
def test_ctrl_c_while_modules_are_imported_is_neither_lost_nor_leaves_a_lock(seconds: float) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", INTERRUPTED_IMPORTS.replace("ASKED_AFTER", str(seconds))],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout == "10 0 0\n"


def test_ctrl_c_before_the_command_begins_ends_it_in_silence() -> None:
    done = subprocess.run(
        [sys.executable, "-c", AT_THE_START], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_ctrl_c_where_python_ignores_it_is_answered_a_little_later() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IGNORED], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout == "answered\nanswered\n"
    assert "KeyboardInterrupt" not in done.stderr
    assert "ValueError: said as before" in done.stderr
    assert "AssertionError: before" in done.stderr
    assert "AssertionError: after" not in done.stderr


def test_who_ignores_ctrl_c_or_answers_it_goes_on_doing_so() -> None:
    before, ignored = signal.getsignal(signal.SIGINT), sys.unraisablehook
    try:
        for given in (signal.SIG_IGN, lambda number, frame: None, cli.CtrlC(print)):
            signal.signal(signal.SIGINT, given)
            cli.answer_ctrl_c()
            assert signal.getsignal(signal.SIGINT) is given
            assert sys.unraisablehook is ignored
        signal.signal(signal.SIGINT, signal.default_int_handler)
        cli.answer_ctrl_c()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
        sys.unraisablehook = ignored
