"""How a command ends: the exit code, and what stderr says about it."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
import traceback
from collections.abc import Sequence

import click

from ltr_harness.errors import HarnessError

INTERRUPTED = 130


def run_command(command: click.Command, arguments: Sequence[str]) -> int:
    """Run a command and return its exit code: 0 good, 1 failed while running, 2 usage, 3 gate, 4 alert."""
    try:
        result = command.main(args=list(arguments), prog_name="ltr-harness", standalone_mode=False)
        sys.stdout.flush()
    except HarnessError as problem:
        say_problems(problem)
        return problem.exit_code
    except click.exceptions.Exit as ending:
        return ending.exit_code
    except click.Abort:
        return _interrupted()
    except KeyboardInterrupt:
        return _interrupted()
    except click.ClickException as problem:
        problem.show()
        return 2
    except BrokenPipeError:
        # the reader of our output has gone (head, less); nothing is left to say, and nobody to say it to
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as problem:
        place = f"{problem.filename}: " if problem.filename else ""
        cure = (
            "; free some space and run the same command again, what finished is kept"
            if problem.errno == errno.ENOSPC
            else ""
        )
        click.echo(f"error: {place}{problem.strerror or problem}{cure}", err=True)
        return 1
    except Exception as problem:
        if "LTR_HARNESS_TRACEBACK" in os.environ:
            raise
        click.echo(f"internal error: {type(problem).__name__}: {problem}", err=True)
        click.echo(
            f"this is a defect of ltr-harness, not of your input; details: {_kept_traceback()}", err=True
        )
        return 1
    return result if isinstance(result, int) else 0


def say_problems(error: HarnessError) -> None:
    """Every problem on a line of its own."""
    count = len(error.problems)
    if count == 1:
        click.echo(f"error: {error.problems[0]}", err=True)
        return
    click.echo(f"{count} problems:", err=True)
    for problem in error.problems:
        click.echo(f"  {problem}", err=True)


def _kept_traceback() -> str:
    """Where the traceback is, for whoever mends the defect."""
    with tempfile.NamedTemporaryFile(
        "w", prefix="ltr-harness-", suffix=".log", delete=False, encoding="utf-8"
    ) as file:
        file.write(traceback.format_exc())
    return file.name


def _interrupted() -> int:
    click.echo("interrupted; finished runs are kept: the same command goes on from there", err=True)
    return INTERRUPTED
