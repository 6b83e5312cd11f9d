"""Exit codes of commands, and their errors on stderr."""

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

from ltr_harness._util.escapes import without_secrets
from ltr_harness._util.retired import retirement
from ltr_harness._util.text import count_of
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
    expanded = [_HOME.sub(_expand_home, argument) for argument in arguments]
    handler = LoggedCautions(echo_caution)
    logging.getLogger("ltr_harness").addHandler(handler)
    try:
        result = command.main(args=expanded, prog_name="ltr-harness", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as end:
        return end.exit_code
    except (click.Abort, KeyboardInterrupt):
        return _interrupted()
    except click.ClickException as problem:
        _print_usage_error(problem)
        return 2
    except BrokenPipeError:
        # the reader of our output has gone (head, less): nobody is left to print to
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except HarnessError as problem:
        return _print_problems(problem)
    except Exception as problem:
        if came_from_ctrl_c(problem):
            return _interrupted()
        if "LTR_HARNESS_TRACEBACK" in os.environ and not isinstance(problem, OSError):
            raise
        return _print_problems(problem)
    finally:
        logging.getLogger("ltr_harness").removeHandler(handler)
    return result if isinstance(result, int) else 0


def _expand_home(match: re.Match[str]) -> str:
    option, path = match.groups()
    return option + os.path.expanduser(path)


def _print_usage_error(problem: click.ClickException) -> None:
    if isinstance(problem, click.NoSuchOption):
        problem = _with_retirement(problem)
    usage = io.StringIO()
    problem.show(usage)
    echo(usage.getvalue(), err=True, nl=False)


def _print_problems(error: Exception) -> int:
    """Print the problems of an error on stderr, and return the exit code."""
    code, problems = as_problems(error)
    if len(problems) == 1:
        echo(f"error: {problems[0]}", err=True)
        return code
    echo(f"{count_of(sum(problem.count for problem in problems), 'problem')}:", err=True)
    for problem in problems:
        echo(f"  {problem}", err=True)
    return code


def _with_retirement(problem: click.NoSuchOption) -> click.UsageError:
    """Return the error with the sentence about a retired option, of this command or of several."""
    command = problem.ctx.command_path.partition(" ")[2] if problem.ctx else ""
    for name in (f"{command} {problem.option_name}", problem.option_name):
        if sentence := retirement(name):
            return click.UsageError(f"{name}: {sentence}", problem.ctx)
    return problem


def as_problems(error: Exception) -> tuple[int, Sequence[Problem]]:
    """Return the exit code of an error that ended a command, and its problems."""
    if isinstance(error, HarnessError):
        return error.exit_code, error.problems
    if isinstance(error, click.ClickException):
        return error.exit_code, [Problem("", error.format_message())]
    if _is_lack_of_memory(error):
        cure = "fewer rows, columns or --workers need less"
        return 1, [Problem("", "there is not enough memory", cure=cure)]
    if isinstance(error, OSError):
        return _file_problem(error)
    user_line = own_line(error)
    if sys.flags.optimize > 1 and not user_line:
        return 2, [Problem("", f"{type(error).__name__}: {error}", cure=WITHOUT_DOCSTRINGS)]
    return 1, [_defect(error, user_line)]


def _file_problem(error: OSError) -> tuple[int, Sequence[Problem]]:
    cure = ""
    if error.errno == errno.ENOSPC:
        cure = "free some space and run the same command again, what finished is kept"
    code = 2 if error.errno == errno.ENAMETOOLONG else 1
    return code, [Problem(str(error.filename or ""), str(error.strerror or error), cure=cure)]


def _defect(error: Exception, user_line: str) -> Problem:
    """Return the problem of an unexpected error, whose traceback is written to a file for whoever repairs it."""
    with tempfile.NamedTemporaryFile(
        "w", prefix="ltr-harness-", suffix=".log", delete=False, encoding="utf-8"
    ) as file:
        file.writelines(map(without_secrets, traceback.format_exception(error)))
    found = f"{type(error).__name__}: {error}"
    if user_line:
        return Problem(user_line, found, cure=f"an error in your own code; details: {file.name}")
    cure = f"this is a defect of ltr-harness, not of your input; details: {file.name}"
    return Problem("", f"internal error: {found}", cure=cure)


_NO_ROOM = re.compile(
    "can't start new thread|failed to map segment from shared object|Cannot allocate memory"
)
"""Messages of Python, of the loader of libraries and of the system, which others wrap in errors of their own."""


def _is_lack_of_memory(error: BaseException | None) -> bool:
    if error is None:
        return False
    if isinstance(error, MemoryError) or _NO_ROOM.search(str(error)):
        return True
    return _is_lack_of_memory(error.__cause__ or error.__context__)


def came_from_ctrl_c(error: BaseException | None) -> bool:
    """Return True for Ctrl-C, also during an import, where libraries and Python itself wrap it in other errors."""
    if error is None or isinstance(error, KeyboardInterrupt | click.Abort):
        return error is not None
    if type(error).__name__ == "SchemaError":  # pydantic's, made of whatever ends the making of a validator
        return "KeyboardInterrupt" in str(error)
    return came_from_ctrl_c(error.__cause__ or error.__context__)


def _interrupted() -> int:
    echo("interrupted; finished runs are kept: run the same command again to resume", err=True)
    return INTERRUPTED
