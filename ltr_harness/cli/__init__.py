"""The command line: one small file per command, imported when it is asked for."""

import _thread
import gc
import importlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import click

from ltr_harness._util.retired import retirement

# Modules of `commands` under the headings of `ltr-harness --help`, with their lines there: it imports none of them.
COMMANDS = {
    "Experiments": {
        "init": "Write a first experiment file, for your or made-up data.",
        "check": "Find every problem of an experiment before training.",
        "run": "Train what is missing, compare, report.",
        "report": "Rebuild the report from stored runs.",
        "reproduce": "Train a stored run again: is everything identical?",
    },
    "Measure": {
        "evaluate": "Metrics for scores from any source, TREC runs included.",
        "compare": "Compare runs, score files or TREC runs; gates for CI.",
        "compare-sets": "Compare the same models on several data sets.",
        "compare-labels": "Compare by human labels, with cheap labels of more queries.",
        "power": "How many queries, users and seeds find a difference.",
        "agreement": "Do offline metrics predict what A/B tests measured?",
        "explain": "The arithmetic of one query, document by document.",
    },
    "Models": {
        "show": "Show stored runs, their models, or a resolved configuration.",
        "predict": "Score new rows with a stored model.",
        "export": "Models for search engines and MLflow, requirements for pip.",
    },
    "Production": {"monitor": "Production logs against a baseline: what changed, and why."},
    "Data": {"data": "Describe, convert and split data; compare judges."},
    "Setup": {
        "doctor": "Check the installation.",
        "list": "List metrics, rankers, readers or report sections.",
        "schema": "Print the JSON Schema of experiment files.",
        "completion": "Complete commands and options with the Tab key.",
    },
}

EPILOG = """\b
Examples:
  ltr-harness run configs/quickstart.yaml
  ltr-harness run configs/mq2008.yaml --set data.root=/data/mq2008 --workers 2
  ltr-harness check my_experiment.yaml
  ltr-harness report runs/quickstart
  ltr-harness evaluate --qrels qrels.txt --run my.run -m ndcg@10

\b
Exit codes: 0 good; 1 something failed while running (what finished is kept);
2 usage, configuration or data is wrong, nothing was run; 3 a gate failed;
4 monitor raised an alert.
"""


# Names of other tools for what a command does.
OTHER_NAMES = {
    "train": "run", "fit": "run", "eval": "evaluate", "test": "evaluate", "score": "predict", "diff": "compare",
    "serve": "predict",
}  # fmt: skip


class SuggestingGroup(click.Group):
    """Commands in the order of their declaration; the error of an unknown name proposes the nearest."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        outer = ctx.command_path.split()[1:]
        try:
            found = super().resolve_command(ctx, args)
        except click.UsageError:
            from ltr_harness._util.catalog import did_you_mean

            name = " ".join([*outer, args[0]])
            if sentence := retirement(name):
                raise click.UsageError(f"{name}: {sentence}", ctx) from None
            meant = OTHER_NAMES.get(name)
            cure = f"did you mean {meant!r}?" if meant else did_you_mean(args[0], self.list_commands(ctx))
            raise click.UsageError(f"no command {name!r}; {cure}", ctx) from None
        # the word behind a command was once a command too, unless it is the name of an input
        name = " ".join([*outer, *args[:2]])
        if (sentence := retirement(name)) and not (ctx.resilient_parsing or os.path.exists(args[1])):
            raise click.UsageError(f"{name}: {sentence}", ctx)
        return found

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the first example of each command, where the group has none of its own."""
        examples = [command.epilog.splitlines()[2] for command in self.commands.values() if command.epilog]
        self.epilog = self.epilog or "\n".join(["\b\nExamples:", *examples])
        super().format_epilog(ctx, formatter)


class LazyGroup(SuggestingGroup):
    """Commands that are imported only when they run or print their help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for group in COMMANDS.values() for name in group]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in self.list_commands(ctx):
            return None
        module = f"ltr_harness.cli.commands.{name.replace('-', '_')}"
        command: click.Command = importlib.import_module(module).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self.list_commands(ctx)))
        for heading, group in COMMANDS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), line) for name, line in group.items()])


@click.group(
    cls=LazyGroup,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="ltr-harness", message="%(prog)s %(version)s")
def cli() -> None:
    """Train and compare LightGBM and XGBoost rankers under one definition of every metric."""


_IMPORTS = "<frozen importlib._bootstrap>"
_SECONDS = 0.01


def answer_ctrl_c() -> None:
    """Answer Ctrl-C so from now on, where Python would by itself: nobody else answers it or wants it ignored."""
    main = threading.current_thread() is threading.main_thread()
    if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        answer = CtrlC(sys.unraisablehook)
        sys.unraisablehook = answer.if_ignored
        signal.signal(signal.SIGINT, answer)


class CtrlC:
    """Raises `KeyboardInterrupt`, and a little later where it would be lost or do harm.

    That is in this file, in Python's own bookkeeping of imports, a good part of a command's start, where it may leave
    a lock behind for which whoever imports in another thread waits for ever, and in what Python ignores errors of:
    `__del__`, and a library's callbacks, such as the boosters' for their messages.

    What an object asserts when it goes is not printed after Ctrl-C: XGBoost's iterators over data do so where it came
    while they were read.
    """

    def __init__(self, ignore: Callable[[Any], Any]) -> None:
        self._ignore = ignore
        self._waiting = self._pressed = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self._pressed = True
        if frame is not None and frame.f_code.co_filename in (_IMPORTS, __file__):
            self._come_later()
        elif not self._waiting:
            signal.default_int_handler(number, frame)

    def if_ignored(self, ignored: Any) -> None:
        """For `sys.unraisablehook`."""
        if isinstance(ignored.exc_value, KeyboardInterrupt):
            self._come_later()
        elif not (self._pressed and isinstance(ignored.exc_value, AssertionError)):
            self._ignore(ignored)

    def _come_later(self) -> None:
        if not self._waiting:
            self._waiting = True
            _thread.start_new_thread(self._ask_again, ())  # `threading` would wait here for its start

    def _ask_again(self) -> None:
        time.sleep(_SECONDS)
        self._waiting = False
        main = threading.main_thread().ident
        if main is None or sys.platform == "win32":
            _thread.interrupt_main()
        else:  # as a signal it also ends a wait, such as that for a worker, which may have begun meanwhile
            signal.pthread_kill(main, signal.SIGINT)


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point: deliberate errors become one message on stderr and their exit code, never a traceback."""
    # standard streams that the caller closed lead nowhere: else the next file opened would get their output
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
        if getattr(sys, name) is None:
            stream = os.fdopen(number, mode, encoding="utf-8", errors="backslashreplace", closefd=False)
            setattr(sys, name, stream)
    answer_ctrl_c()
    try:
        from ltr_harness._util.cores import let_idle_threads_sleep
        from ltr_harness.cli.exit_codes import run_command
    except KeyboardInterrupt:  # nothing has begun
        sys.exit(128 + signal.SIGINT)

    let_idle_threads_sleep()
    os.environ["OMP_DYNAMIC"] = "false"  # or how busy the machine is would decide on the number of threads
    # Loading makes a million objects of which hardly one is garbage: by default they are searched hundreds of times.
    gc.set_threshold(50_000, 20, 100)
    code = run_command(cli, sys.argv[1:] if arguments is None else list(arguments))
    # after everything is said, so that an error message does not wait for worker processes to end
    if pool := sys.modules.get("ltr_harness.experiments.training.pool"):
        pool.wait_for_shutdowns()
    gc.freeze()  # or all of them are searched once more on the way out, which takes half a second
    sys.exit(code)
