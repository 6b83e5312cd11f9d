"""When Ctrl-C is answered: at once, but for Python's own bookkeeping of imports, a good part of a command's start.

There `KeyboardInterrupt` is lost, in the callback that forgets a module's lock, or leaves a lock behind, for which
whoever imports in another thread waits for ever.
"""

from __future__ import annotations

import _thread
import signal
import threading
from types import FrameType

_BOOKKEEPING = "<frozen importlib._bootstrap>"
_SECONDS = 0.01

_waiting = False


def answer_outside_imports() -> None:
    """Answer Ctrl-C so from now on, where Python would by itself: nobody else answers it or wants it ignored."""
    main = threading.current_thread() is threading.main_thread()
    if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _answer)


def _answer(number: int, frame: FrameType | None) -> None:
    global _waiting
    if _waiting:
        return
    if frame is not None and frame.f_code.co_filename == _BOOKKEEPING:
        _waiting = True
        timer = threading.Timer(_SECONDS, _ask_again)
        timer.daemon = True
        timer.start()
    else:
        signal.default_int_handler(number, frame)


def _ask_again() -> None:
    global _waiting
    _waiting = False
    _thread.interrupt_main()
