"""Print the CPU seconds of a command and of every process below it, once all of them have ended.

    python scripts/cpu_seconds.py COMMAND ...

The command's output is left out. A process that its parent does not wait for, as the server from which workers are
forked, becomes a child of this one (on Linux) and counts as well.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import sys

PR_SET_CHILD_SUBREAPER = 36


def main() -> int:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
    signal.alarm(60)  # a process that stays for longer would make the figure a fiction
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(used.ru_utime + used.ru_stime)
    return code


if __name__ == "__main__":
    sys.exit(main())
