"""How commands print: results to stdout, messages to stderr, and foreign text shown instead of obeyed."""

from __future__ import annotations

import logging
import sys

import click

from ltr_harness.wording import printable, without_commands

_ASCII = str.maketrans({"–": "-", "…": "..."})


class Notes(logging.Handler):
    """What the harness warns of, as lines on stderr."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        say(f"note: {record.getMessage()}", err=True)


def say(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print, also where the terminal knows no more than ASCII."""
    stream = sys.stderr if err else sys.stdout
    shown = without_commands(printable(text, lines=True))
    encoding = stream.encoding or "utf-8"
    try:
        shown.encode(encoding)
    except UnicodeEncodeError:
        shown = shown.translate(_ASCII).encode(encoding, "backslashreplace").decode(encoding)
    try:
        click.echo(shown, err=err, nl=nl)
    except BrokenPipeError:  # the reader has gone (head, less): the command ends well; click would say 1
        if not err:
            raise click.exceptions.Exit(0) from None
