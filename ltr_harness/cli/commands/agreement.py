"""`ltr-harness agreement`: does offline predict online?"""

import sys
from pathlib import Path
from typing import Any

import click

from ltr_harness._util.escapes import printable
from ltr_harness.cli import options
from ltr_harness.cli.metric_names import split
from ltr_harness.cli.output import print_report, progress_line


@options.examples("""
  ltr-harness agreement experiments.csv
  ltr-harness agreement experiments.csv -m ndcg@10,mrr@3 -o does_offline_predict
  ltr-harness agreement experiments.csv --tested-if "ndcg@10 > 0.002"    # or "ndcg@10 > 2 se"
  ltr-harness agreement experiments.parquet --measure purchases --json

\b
FILE has a row for each experiment (CSV, Parquet, Arrow or JSON lines):
  experiment,online,online_se,ndcg@10,ndcg@10_se,mrr@3,mrr@3_se
  new features,0.012,0.004,0.006,0.002,0.011,0.003
In place of typed numbers it may name folders, from FILE's own on:
  experiment,baseline,candidate,monitor,arm
  new features,runs/jan/old-s1,runs/jan/new-s1,monitor/jan,new
Differences above 0 are improvements. Exit 2: fewer than 8 experiments, or a value that cannot be used.
Agreement of judges and assessors: `data agreement`.
""")
@click.command("agreement")
@click.argument("file", type=options.DATA)
@options.metrics
@click.option("--measure", help="Of the arms in monitor's results.  [default: the first]")
@click.option(
    "--tested-if",
    metavar="RULE",
    help="By which experiments were tested online, such as 'ndcg@10 > 0.002'; numbers of that metric are corrected.",
)
@options.method("confidence")
@options.output("Write a page there.")
@options.verbose
@options.as_json
def command(
    file: Path, metrics: tuple[str, ...], output: Path | None, verbose: bool, as_json: bool, **given: Any
) -> None:
    """Do offline metrics predict what A/B tests measured?

    FILE holds past experiments: offline differences of one or more metrics and the online difference, all with standard
    errors.
    """
    from ltr_harness.experiments.compare.online_agreement import judge_by_experiments
    from ltr_harness.report.online_agreement import agreement_page

    confidence = options.pop_method(given).confidence
    is_interactive = sys.stderr.isatty()

    def progress(line: str) -> None:
        if is_interactive:
            progress_line(f"{printable(line)[:70]:70}")

    found = judge_by_experiments(file, split(metrics), confidence=confidence, progress=progress, **given)
    if is_interactive:
        progress_line(f"{'':70}\r")
    print_report(agreement_page(found), as_json, output, ("html", "md", "json", "svg"), verbose=verbose)
