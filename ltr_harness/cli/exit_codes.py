"""Exit codes of commands, and what stderr says about them."""

import errno
import io
import logging
import os
import re
import sys
import tempfile
import traceback
from collections.abc import Sequence

import click

from ltr_harness._util.retired import retirement
from ltr_harness._util.text import count_of, without_secrets
from ltr_harness._util.user_code import own_line
from ltr_harness.cli.output import LoggedCautions, echo, echo_caution
from ltr_harness.errors import HarnessError, Problem

INTERRUPTED = 130
WITHOUT_DOCSTRINGS = (
    "Python runs without docstrings here (PYTHONOPTIMIZE=2 or -OO), and neither LightGBM nor XGBoost can be "
    "imported so: unset it, or set it to 1"
)


_HOME = re.compile(r"\A((?:[\w.-]+=)?)(~[/\\].*)", re.DOTALL)
"""``~/data`` where shells leave it alone, as in ``--data=~/data`` and between quotes."""


def run_command(command: click.Command, arguments: Sequence[str]) -> int:
    """Run a command and return its exit code: 0 good, 1 failed while running, 2 usage, 3 gate, 4 alert."""
    expanded = [_HOME.sub(lambda found: found[1] + os.path.expanduser(found[2]), one) for one in arguments]
    logged = LoggedCautions(echo_caution)
    logging.getLogger("ltr_harness").addHandler(logged)
    try:
        result = command.main(args=expanded, prog_name="ltr-harness", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as end:
        return end.exit_code
    except (click.Abort, KeyboardInterrupt):
        return _interrupted()
    except click.ClickException as problem:
        if isinstance(problem, click.NoSuchOption):
            problem = _with_retirement(problem)
        usage = io.StringIO()
        problem.show(usage)
        echo(usage.getvalue(), err=True, nl=False)
        return 2
    except BrokenPipeError:
        # the reader of our output has gone (head, less); nothing is left to say, and nobody to say it to
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as problem:
        if not isinstance(problem, HarnessError):
            if came_from_ctrl_c(problem):
                return _interrupted()
            if "LTR_HARNESS_TRACEBACK" in os.environ and not isinstance(problem, OSError):
                raise
        code, problems = as_problems(problem)
        head = "error: " if len(problems) == 1 else "  "
        if len(problems) != 1:
            echo(f"{count_of(sum(one.count for one in problems), 'problem')}:", err=True)
        for one in problems:
            echo(f"{head}{one}", err=True)
        return code
    finally:
        logging.getLogger("ltr_harness").removeHandler(logged)
    return result if isinstance(result, int) else 0


def _with_retirement(problem: click.NoSuchOption) -> click.UsageError:
    """Return the error with the sentence about a retired option, of this command or of several."""
    command = problem.ctx.command_path.partition(" ")[2] if problem.ctx else ""
    for name in (f"{command} {problem.option_name}", problem.option_name):
        if sentence := retirement(name):
            return click.UsageError(f"{name}: {sentence}", problem.ctx)
    return problem


def as_problems(error: Exception) -> tuple[int, Sequence[Problem]]:
    """The exit code of whatever ended a command, and what to say about it."""
    if isinstance(error, HarnessError):
        return error.exit_code, error.problems
    if isinstance(error, click.ClickException):
        return error.exit_code, [Problem("", error.format_message())]
    if _is_lack_of_memory(error):
        cure = "fewer rows, columns or --workers need less"
        return 1, [Problem("", "there is not enough memory", cure=cure)]
    if isinstance(error, OSError):
        full = error.errno == errno.ENOSPC
        cure = "free some space and run the same command again, what finished is kept" if full else ""
        code = 2 if error.errno == errno.ENAMETOOLONG else 1
        return code, [Problem(str(error.filename or ""), str(error.strerror or error), cure=cure)]
    own, found = own_line(error), f"{type(error).__name__}: {error}"
    if sys.flags.optimize > 1 and not own:
        return 2, [Problem("", found, cure=WITHOUT_DOCSTRINGS)]
    whose = "an error in your own code" if own else "this is a defect of ltr-harness, not of your input"
    with tempfile.NamedTemporaryFile(
        "w", prefix="ltr-harness-", suffix=".log", delete=False, encoding="utf-8"
    ) as file:  # for whoever repairs the defect
        file.writelines(map(without_secrets, traceback.format_exception(error)))
    cure = f"{whose}; details: {file.name}"
    return 1, [Problem(own, found if own else f"internal error: {found}", cure=cure)]


_NO_ROOM = re.compile(
    "can't start new thread|failed to map segment from shared object|Cannot allocate memory"
)
"""What Python, the loader of libraries and the system say, which others wrap in errors of their own."""


def _is_lack_of_memory(error: BaseException | None) -> bool:
    if error is None:
        return False
    if isinstance(error, MemoryError) or _NO_ROOM.search(str(error)):
        return True
    return _is_lack_of_memory(error.__cause__ or error.__context__)


def came_from_ctrl_c(error: BaseException | None) -> bool:
    """Also in the middle of an import, where libraries and Python itself wrap it in an error of their own."""
    if error is None or isinstance(error, KeyboardInterrupt | click.Abort):
        return error is not None
    if type(error).__name__ == "SchemaError":  # pydantic's, made of whatever ends the making of a validator
        return "KeyboardInterrupt" in str(error)
    return came_from_ctrl_c(error.__cause__ or error.__context__)


def _interrupted() -> int:
    echo("interrupted; finished runs are kept: run the same command again to resume", err=True)
    return INTERRUPTED
