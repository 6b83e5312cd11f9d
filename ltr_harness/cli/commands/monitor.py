"""`ltr-harness monitor`: production logs against a baseline."""

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ltr_harness._util.text import count_of
from ltr_harness.cli import options
from ltr_harness.cli.output import say

if TYPE_CHECKING:
    from ltr_harness.monitoring.result import Watched

ALERT = 4


@options.examples("""
  ltr-harness monitor configs/monitor_quickstart.yaml -o monitor_report
  ltr-harness monitor monitor.yaml --log prod.parquet --baseline train_eval.parquet -o report
  ltr-harness monitor monitor.yaml --log today/ --baseline runs/mine --history monitor_history

\b
For cron and CI: nothing is printed when all is well (but the verdict on the arms of an A/B test), one line per
alert otherwise.
Exit codes: 0 healthy, 4 alert, 2 configuration or data unfit (nothing was judged), 1 crash.
""")
@click.command("monitor")
@options.config
@click.option(
    "--log",
    type=options.DATA,
    help="Production: Parquet, CSV, Arrow or JSON lines, file, folder or s3:// address.",
)
@click.option("--baseline", type=options.DATA, help="A log, a run of this harness, or an earlier result.")
@options.output("Folder for report.html, tables and per_query.parquet.")
@click.option(
    "--history", type=options.FOLDER, help="Folder of the windows of earlier runs; this run adds its own."
)
@click.option(
    "--dask",
    metavar="[ADDRESS]",
    is_flag=False,
    flag_value="local",
    help="Read the logs on a Dask cluster: local (the default; give it last), or tcp://scheduler:8786.",
)
@options.flag(
    "--confirm-split",
    "Search slices in one half of the queries, and show the other half's numbers beside theirs.",
)
@options.flag("--exit-zero", "Exit code 0 even with alerts, for dashboards.")
@options.flag("--per-query", "Print every query's values.")
@options.overrides
@options.quiet
@options.as_json
def command(
    config: Path,
    output: Path | None,
    confirm_split: bool,
    exit_zero: bool,
    per_query: bool,
    overrides: tuple[str, ...],
    quiet: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Is the ranker in production still as good as its baseline, and if not, where and why?

    CONFIG has the meaning of the columns, the rule from events to relevance, and the limits of alerts.
    """
    from ltr_harness.cli.json_events import Compared, EventStream
    from ltr_harness.monitoring.load import load_monitor_config
    from ltr_harness.monitoring.stages import watch

    stream = EventStream("monitor", quiet) if as_json else None
    with stream or nullcontext():
        halves = ("slices.confirm_split=true",) if confirm_split else ()
        settings = load_monitor_config(config, (*overrides, *halves))
        watched = watch(settings, **given)
        if output is not None:
            from ltr_harness.monitoring.page import write_monitor_report
            from ltr_harness.monitoring.stored import write_provenance, write_tables

            logs = given["log"] or settings.log, given["baseline"] or settings.baseline
            write_tables(watched, output)
            write_provenance(watched, settings, *logs, output)
            write_monitor_report(watched.result, output)
        code = ALERT if watched.result.alerts and not exit_zero else 0
        if stream is not None:
            if output is not None:
                stream.emit(Compared(report=str(output / "report.html")))
            stream.exit_code = code
    if as_json:
        say(watched.result.to_json(), nl=False)
    else:
        _say(watched, output, per_query, quiet)
    return code


def _say(watched: "Watched", output: Path | None, per_query: bool, quiet: bool) -> None:
    """The headline, then a line for each alert, then where and why."""
    import numpy as np

    from ltr_harness.monitoring.page import banner
    from ltr_harness.monitoring.queries import columns_of, mean_of_known

    result = watched.result
    told = not quiet and (bool(result.alerts) or sys.stderr.isatty())
    if told:
        answer = banner(result)
        say(f"{answer.status.text}: {answer.text}", err=True)
    for alert in result.alerts:
        say(str(alert))
    # the plain numbers, where there is nothing to compare or somebody asked
    if per_query or not result.changes:
        queries = watched.production["query_id"]
        metrics = columns_of(watched.production, "metric")
        if per_query:
            say("\t".join(["query", *metrics]))
            for name, *of_query in zip(queries, *metrics.values(), strict=True):
                say("\t".join([str(name), *map(_number, of_query)]))
        for metric, values in metrics.items():
            known, mean = int(np.count_nonzero(~np.isnan(values))), _number(mean_of_known(values))
            say(f"{metric}\t{mean}\tover {known:,} of {count_of(values.size, 'query')}")
        if result.parity is not None:
            say(result.parity.verdict)
    if result.arms is not None and not quiet:
        say(result.arms.verdict)
    if told:
        verdict = result.verdict
        if reasons := " ".join(part for part in (verdict.where, str(verdict.caution or "")) if part):
            say(reasons, err=True)
        if output is not None:
            say(f"report: {output / 'report.html'}", err=True)


def _number(value: float) -> str:
    return "-" if value != value else f"{value:.4f}"
