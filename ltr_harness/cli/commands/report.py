"""`ltr-harness report`: rebuild the report from stored runs."""

from pathlib import Path

import click

from ltr_harness.cli import options
from ltr_harness.cli.output import echo


@options.examples("""
  ltr-harness report runs/quickstart
  ltr-harness report runs/quickstart -o /tmp/out --format html,md
  ltr-harness report runs/a/lgbm--all--s1--* runs/b/xgb--all--s1--*
""")
@click.command("report")
@click.argument("runs", nargs=-1, required=True, type=options.PATH)
@options.output("Folder to write to.")
@click.option(
    "--format", "formats", default="html,md,json,tex,svg", show_default=True, help="What to write; png too."
)
@click.option("--baseline", help="The model the others are compared with.")
@options.no_ledger
@options.verbose
def command(
    runs: tuple[Path, ...],
    output: Path | None,
    formats: str,
    baseline: str | None,
    no_ledger: bool,
    verbose: bool,
) -> None:
    """Rebuild the report from stored runs; nothing is trained.

    RUNS are run folders or experiments' folders. Runs that must not be compared (another K, definition,
    test data) are refused with the reasons, exit 2.
    """
    import threading

    from ltr_harness.errors import UsageError
    from ltr_harness.report.data import stored_data
    from ltr_harness.report.terminal import show
    from ltr_harness.report.writing import warm_up, write_report

    if output is None and len(runs) > 1:
        raise UsageError("several folders; name the report's folder with -o DIR")
    format_names = [part.strip() for part in formats.split(",")]
    if "svg" in format_names or "png" in format_names:
        # while the statistics are computed
        threading.Thread(target=warm_up, args=(format_names,), daemon=True).start()
    data = stored_data(runs, baseline, ledger=not no_ledger)
    path = write_report(data, output or runs[0] / "report", format_names)
    show(data, verbose=verbose)
    echo(f"report: {path}")
