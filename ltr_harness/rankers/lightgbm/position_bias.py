"""Position biases that LightGBM learned, read from its log: it writes them nowhere else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

_ROW = re.compile(r"^\[LightGBM\] \[Debug\]\s+(\d+)\s+(-?[\d.]+(?:e[+-]?\d+)?|-?nan|-?inf)\s*$")


class _Listener:
    """Keeps the last bias said of each position."""

    def __init__(self) -> None:
        self.biases: dict[int, float] = {}

    def info(self, message: str) -> None:
        for line in message.splitlines():
            if row := _ROW.match(line):
                self.biases[int(row[1])] = float(row[2])

    def warning(self, message: str) -> None:
        pass  # LightGBM's warnings are not shown elsewhere either: what is wrong is found before training


@contextmanager
def position_biases(wanted: bool) -> Iterator[dict[int, float]]:
    """Position to its bias after the last round trained within; LightGBM must run with verbosity 2.

    The bias is added to a row's score during training, and left out when the model scores.
    """
    if not wanted:
        yield {}
        return
    import lightgbm
    from lightgbm import basic

    listener = _Listener()
    before = (basic._LOGGER, basic._INFO_METHOD_NAME, basic._WARNING_METHOD_NAME)
    lightgbm.register_logger(listener)
    try:
        yield listener.biases
    finally:
        basic._LOGGER, basic._INFO_METHOD_NAME, basic._WARNING_METHOD_NAME = before
