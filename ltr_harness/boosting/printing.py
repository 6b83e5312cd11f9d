"""Printed progress of a watched training."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ltr_harness.boosting.measured import Measured
from ltr_harness.errors import UsageError
from ltr_harness.printable import printable

_WIDTH = 24


class Printing:
    """Interactive progress: a line every so many rounds, or one line on stderr that is kept up to date."""

    def __init__(self, every: int | None, progress: bool) -> None:
        if every is not None and (isinstance(every, bool) or not isinstance(every, int) or every < 1):
            raise UsageError(f"print_every: found {every!r}; expected an integer >= 1, or None")
        if not isinstance(progress, bool):
            raise UsageError(f"progress: found {progress!r}; expected True or False")
        self.every = every
        self.progress = progress
        self._shown = 0

    def show(self, round_: int, rounds: int | None, measured: Sequence[Measured]) -> None:
        """Print a round's measurements (1-based), where `rounds` is the largest number of rounds, if known."""
        if self.every is not None and round_ % self.every == 0:
            values = "\t".join(f"{printable(one.data)}'s {one.metric}: {one.value:g}" for one in measured)
            print(f"[{round_}]\t{values}", flush=True)
        if self.progress:
            first = measured[0]
            filled = 0 if rounds is None else _WIDTH * round_ // rounds
            bar = "" if rounds is None else f"[{'#' * filled}{'.' * (_WIDTH - filled)}] "
            of = "" if rounds is None else f" of {rounds:,}"
            text = f"{bar}round {round_:,}{of}, {printable(first.data)}'s {first.metric} {first.value:.4f}"
            sys.stderr.write(f"\r{text}{' ' * (self._shown - len(text))}")
            sys.stderr.flush()
            self._shown = len(text)

    def end(self) -> None:
        """The training is over."""
        if self._shown:
            sys.stderr.write("\n")
            self._shown = 0
