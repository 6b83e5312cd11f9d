"""`ltr-harness report`: rebuild the report from stored runs."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(
    "report",
    epilog="""\b
Examples:
  ltr-harness report runs/quickstart
  ltr-harness report runs/quickstart -o /tmp/out --format html,md
  ltr-harness report runs/a/lgbm--all--s1--* runs/b/xgb--all--s1--*
""",
)
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path, file_okay=False), help="Folder to write to.")
@click.option("--format", "formats", default="html,md,json,tex,svg", show_default=True, help="What to write.")
@click.option("--baseline", help="The model the others are compared with.")
def command(runs: tuple[Path, ...], output: Path | None, formats: str, baseline: str | None) -> int:
    """Rebuild the report from stored runs; nothing is trained.

    RUNS are run folders or experiments' folders. Runs that must not be compared (another K, definition,
    test data) are refused with the reasons, exit 2.
    """
    from ltr_harness.report.stored import report_stored_runs
    from ltr_harness.report.terminal import show

    data, path = report_stored_runs(runs, output, [part.strip() for part in formats.split(",")], baseline)
    show(data)
    click.echo(f"report: {path}")
    return 0
