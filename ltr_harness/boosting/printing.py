"""What does a watched training say while it runs?"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ltr_harness.boosting.measured import Measured
from ltr_harness.errors import UsageError
from ltr_harness.printable import printable

_WIDTH = 24


class Printing:
    """A line every so many rounds, as LightGBM's `log_evaluation` has it, or one that is written over.

    Args:
        every: print the rounds that this number divides; None prints none.
        progress: keep one line up to date on stderr, with a bar where the number of rounds is known.

    Raises:
        UsageError: an argument of another kind.
    """

    def __init__(self, every: int | None, progress: bool) -> None:
        if every is not None and (isinstance(every, bool) or not isinstance(every, int) or every < 1):
            raise UsageError(f"print_every: found {every!r}; expected an integer >= 1, or None")
        if not isinstance(progress, bool):
            raise UsageError(f"progress: found {progress!r}; expected True or False")
        self.every = every
        self.progress = progress
        self._shown = 0

    def show(self, round_: int, rounds: int | None, measured: Sequence[Measured]) -> None:
        """Say what a round was measured at.

        Args:
            round_: 1-based.
            rounds: after which training ends at the latest; None where nobody knows.
            measured: of all sets.
        """
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
