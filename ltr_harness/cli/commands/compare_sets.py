"""`ltr-harness compare-sets`: the same models on several data sets."""

from pathlib import Path
from typing import Any

import click

from ltr_harness.cli import options
from ltr_harness.cli.output import echo_cautions, print_report
from ltr_harness.errors import UsageError


@options.examples("""
  ltr-harness compare-sets runs/mq2008 runs/web -m ndcg@10
  ltr-harness compare-sets runs/mq2008 runs/web --weights mq2008=1,web=2 -o page
""")
@click.command("compare-sets", cls=options.Command, advanced=options.ADVANCED)
@options.inputs("RUNS…", required=True)
@options.metrics
@options.baseline
@options.common_queries
@options.method(omitted="weights")
@click.option("--weights", metavar="NAME=N,…", help="Of the data sets in the average.  [default: equal]")
@options.no_ledger
@options.output("Write a report there.")
@options.verbose
@options.as_json
def command(
    inputs: tuple[str, ...],
    metrics: tuple[str, ...],
    baseline: str | None,
    common_queries: bool,
    weights: str | None,
    no_ledger: bool,
    output: Path | None,
    verbose: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Compare the same models on several data sets.

    Each of RUNS is a data set: an experiment's folder, or a saved comparison (report.json). Verdicts are about the
    average and about each set.
    """
    from ltr_harness.cli.commands.compare_inputs import ComparedInputs, expanded
    from ltr_harness.comparison.data_sets import across_data_sets
    from ltr_harness.experiments.compare.inputs import label_of
    from ltr_harness.report.pages import data_sets_page

    method = options.pop_method(given)
    weight_of_set = None if weights is None else _weights(weights)
    paths, cautions = expanded(inputs)
    labels = [label_of(path if path.is_dir() else path.parent) for path in paths]
    comparisons = {}
    for path, label in zip(paths, labels, strict=True):
        data_set = ComparedInputs.from_runs([str(path)], metrics)
        name = label if labels.count(label) == 1 else str(path)
        comparisons[name] = data_set.compared(
            method, baseline, common_queries, primary_alone=True, ledger=not no_ledger
        )
        cautions += data_set.cautions
    comparison = across_data_sets(comparisons, weight_of_set)
    print_report(data_sets_page(comparison), as_json, output, ("html", "md", "json"), verbose=verbose)
    echo_cautions(cautions)


def _weights(text: str) -> dict[str, float]:
    """Return the weight of each data set that ``NAME=N,…`` names."""
    weights = {}
    for part in text.split(","):
        name, _, number = part.rpartition("=")
        try:
            weights[name.strip()] = float(number)
        except ValueError:
            name = ""
        if not name.strip():
            expected = "expected NAME=NUMBER for each data set, such as mq2008=1,web=2"
            raise UsageError(f"--weights {text}; {expected}")
    return weights
