"""The command line: one small file per command, imported when it is asked for."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Sequence

import click

# Name to (module, one line for `ltr-harness --help`): help must not import what commands need.
COMMANDS = {
    "run": ("ltr_harness.cli.commands.run", "Train what is missing, compare, report."),
    "check": ("ltr_harness.cli.commands.check", "Find every problem of an experiment before training."),
    "evaluate": (
        "ltr_harness.cli.commands.evaluate",
        "Metrics for scores from anywhere, TREC runs included.",
    ),
    "explain": ("ltr_harness.cli.commands.explain", "The arithmetic of one query, document by document."),
    "compare": ("ltr_harness.cli.commands.compare", "Compare runs, score files or TREC runs; gates for CI."),
    "power": ("ltr_harness.cli.commands.power", "How many queries, users and seeds find a difference."),
    "monitor": (
        "ltr_harness.cli.commands.monitor",
        "Production logs against a baseline: what moved, where, why.",
    ),
    "predict": ("ltr_harness.cli.commands.predict", "Score new rows with a stored model."),
    "reproduce": ("ltr_harness.cli.commands.reproduce", "Train a stored run again: is everything identical?"),
    "report": ("ltr_harness.cli.commands.report", "Rebuild the report from stored runs."),
    "export": (
        "ltr_harness.cli.commands.export",
        "Stored runs for pip and MLflow: packages, parameters, history.",
    ),
    "data": ("ltr_harness.cli.commands.data", "Look at data, convert, divide and fetch it."),
    "list": ("ltr_harness.cli.commands.names", "List metrics, rankers, readers or report sections."),
    "show": ("ltr_harness.cli.commands.show", "Show a resolved configuration, all experiments, or a run."),
    "init": ("ltr_harness.cli.commands.init", "Write a first experiment file, for your data or made up."),
    "doctor": (
        "ltr_harness.cli.commands.doctor",
        "Is everything here that experiments need, and does it work?",
    ),
    "completion": ("ltr_harness.cli.commands.completion", "Commands and options on the Tab key."),
    "schema": ("ltr_harness.cli.commands.schema", "Print the JSON Schema of experiment files."),
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


class LazyGroup(click.Group):
    """Commands that are imported only when they run or print their help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(COMMANDS[name][0]).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            from ltr_harness.catalog import did_you_mean

            raise click.UsageError(
                f"no command {args[0]!r}; {did_you_mean(args[0], COMMANDS)}", ctx
            ) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="ltr-harness", message="%(prog)s %(version)s")
def cli() -> None:
    """Train and compare LightGBM and XGBoost rankers under one definition of every metric."""


def _open_closed_streams() -> None:
    """Standard streams that the caller closed lead nowhere: else the next file opened would get their output."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
        if getattr(sys, name) is None:
            stream = os.fdopen(number, mode, encoding="utf-8", errors="backslashreplace", closefd=False)
            setattr(sys, name, stream)


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point: deliberate errors become one message on stderr and their exit code, never a traceback."""
    _open_closed_streams()
    from ltr_harness.cli.ctrl_c import answer_outside_imports

    answer_outside_imports()
    from ltr_harness.cli.ending import run_command
    from ltr_harness.cores import let_idle_threads_sleep

    let_idle_threads_sleep()
    os.environ["OMP_DYNAMIC"] = "false"  # or how busy the machine is would decide on the number of threads
    # Loading makes a million objects of which hardly one is garbage: by default they are searched hundreds of times.
    gc.set_threshold(50_000, 20, 100)
    code = run_command(cli, sys.argv[1:] if arguments is None else list(arguments))
    # after everything is said, so that an error message does not wait for worker processes to end
    if pool := sys.modules.get("ltr_harness.experiment.pool"):
        pool.wait_for_shutdowns()
    gc.freeze()  # or all of them are searched once more on the way out, which takes half a second
    sys.exit(code)
