"""`ltr-harness monitor`: production logs against a baseline."""

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ltr_harness._util.text import count_of
from ltr_harness.cli import options
from ltr_harness.cli.output import echo

if TYPE_CHECKING:
    from ltr_harness.monitoring.config import MonitorConfig
    from ltr_harness.monitoring.result import MonitorResult, Watched

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

    events = EventStream("monitor", quiet) if as_json else None
    with events or nullcontext():
        halves = ("slices.confirm_split=true",) if confirm_split else ()
        settings = load_monitor_config(config, (*overrides, *halves))
        watched = watch(settings, **given)
        if output is not None:
            logs = given["log"] or settings.log, given["baseline"] or settings.baseline
            _write_folder(watched, settings, logs, output)
        code = ALERT if watched.result.alerts and not exit_zero else 0
        if events is not None:
            events.exit_code = code
            if output is not None:
                events.emit(Compared(report=str(output / "report.html")))
    if as_json:
        echo(watched.result.to_json(), nl=False)
    else:
        _print_result(watched, output, per_query, quiet)
    return code


def _write_folder(
    watched: "Watched",
    settings: "MonitorConfig",
    logs: tuple[Any, Any],  # of production and of the baseline
    output: Path,
) -> None:
    """Write the tables, the origin of the data and the report."""
    from ltr_harness.monitoring.page import write_monitor_report
    from ltr_harness.monitoring.stored import write_provenance, write_tables

    write_tables(watched, output)
    write_provenance(watched, settings, *logs, output)
    write_monitor_report(watched.result, output)


def _print_result(watched: "Watched", output: Path | None, per_query: bool, quiet: bool) -> None:
    """Print the headline, then a line for each alert, then where and why."""
    from ltr_harness.monitoring.page import banner

    result = watched.result
    with_headline = not quiet and (bool(result.alerts) or sys.stderr.isatty())
    if with_headline:
        headline = banner(result)
        echo(f"{headline.status.text}: {headline.text}", err=True)
    for alert in result.alerts:
        echo(str(alert))
    # the plain numbers, where there is nothing to compare or the user wants them
    if per_query or not result.changes:
        _print_metrics(watched, per_query)
    if result.arms is not None and not quiet:
        echo(result.arms.verdict)
    if with_headline:
        _print_reasons(result, output)


def _print_reasons(result: "MonitorResult", output: Path | None) -> None:
    """Print where and why, and where the report is."""
    reasons = [part for part in (result.verdict.where, str(result.verdict.caution or "")) if part]
    if reasons:
        echo(" ".join(reasons), err=True)
    if output is not None:
        echo(f"report: {output / 'report.html'}", err=True)


def _print_metrics(watched: "Watched", per_query: bool) -> None:
    """Print the mean of each metric, behind the values of each query where they are wanted."""
    import numpy as np

    from ltr_harness.monitoring.queries import columns_of, mean_of_defined

    metrics = columns_of(watched.production, "metric")
    if per_query:
        echo("\t".join(["query", *metrics]))
        for name, *values in zip(watched.production["query_id"], *metrics.values(), strict=True):
            echo("\t".join([str(name), *map(_number, values)]))
    for metric, values in metrics.items():
        n_defined, mean = int(np.count_nonzero(~np.isnan(values))), _number(mean_of_defined(values))
        echo(f"{metric}\t{mean}\tover {n_defined:,} of {count_of(values.size, 'query')}")
    if watched.result.parity is not None:
        echo(watched.result.parity.verdict)


def _number(value: float) -> str:
    return "-" if value != value else f"{value:.4f}"
