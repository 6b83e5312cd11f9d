"""The form in which a stream takes text."""

import os
from contextlib import suppress
from typing import NamedTuple, Self, TextIO


class TextForm(NamedTuple):
    """Width, colours and encoding of what is printed to a stream."""

    width: int  # in columns: as wide as a terminal, 80 elsewhere
    coloured: bool
    encoding: str

    @classmethod
    def of(cls, stream: TextIO) -> Self:
        terminal = stream.isatty()
        coloured = terminal and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        width = 80
        if terminal:
            with suppress(OSError):
                width = max(72, os.get_terminal_size(stream.fileno()).columns)
        return cls(width, coloured, getattr(stream, "encoding", None) or "utf-8")
