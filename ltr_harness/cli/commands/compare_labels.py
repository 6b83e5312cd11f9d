"""`ltr-harness compare-labels`: by human labels of some queries, and cheap labels of many more."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ltr_harness._util.text import count_of
from ltr_harness.cli import options
from ltr_harness.cli.output import echo, echo_cautions, echo_json, print_comparison
from ltr_harness.cli.rankings import RankingSource, queries_of
from ltr_harness.errors import Caution, UsageError

_OF_THE_DRAW = ("cheap", "sample", "as_json", "reader_name", "reader_options")


@options.examples("""
  ltr-harness compare-labels --cheap llm.txt --sample 200 > queries_to_label.txt
  ltr-harness compare-labels a.run b.run --qrels human.txt --cheap llm.txt -m ndcg@10
  ltr-harness compare-labels old.txt new.txt --data human.txt --cheap llm.txt
""")
@click.command("compare-labels", cls=options.Command, advanced=options.ADVANCED - {"sample"})
@options.inputs("SCORES…")
@options.file(
    "--cheap",
    "Labels of a language model or of clicks for the queries of --data or --qrels and many more, in the same form; "
    "scores are of its rows.",
    required=True,
)
@click.option(
    "--sample",
    type=options.COUNT,
    metavar="N",
    help="Print N queries of --cheap, drawn by a hash of their ids: those to label by hand.",
)
@options.metrics
@options.rankings("scores", "run")
@options.baseline
@options.common_queries
@options.method()
@options.output("Write a report there.")
@options.summary
@options.verbose
@options.as_json
def command(
    inputs: tuple[str, ...],
    cheap: Path,
    sample: int | None,
    metrics: tuple[str, ...],
    baseline: str | None,
    common_queries: bool,
    output: Path | None,
    summary: Path | None,
    verbose: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Compare by human labels, with cheap labels of more queries.

    SCORES are files of scores for --data, or TREC runs for --qrels, which have the human labels. Means and verdicts
    are those of the human labels; the estimate with both stands beside them. It holds for human labels of queries that
    were drawn by chance, as --sample does.
    """
    method, source = options.pop_method(given), RankingSource(**given)
    if sample is not None:
        _print_draw(cheap, sample, source, as_json)
        return
    if not inputs:
        raise UsageError("SCORES: nothing to compare; expected files of scores, or runs")
    if source.data is None and source.qrels is None:
        raise UsageError(
            "--cheap without --data or --qrels; stored runs and tables have values of the queries that they were "
            "tested on alone: `predict` scores more queries with a stored run, for --data"
        )
    from ltr_harness.cli.ci_files import append_summary
    from ltr_harness.cli.commands.compare_inputs import ComparedInputs
    from ltr_harness.comparison.caution_choice import CHEAP_LABELS
    from ltr_harness.comparison.cheap_labels import with_cheap_labels
    from ltr_harness.report.writing import write_report

    compared = ComparedInputs.from_rankings(inputs, metrics, source, cheap_labels=cheap)
    comparison = compared.compared(method, baseline, common_queries)
    assert compared.cheap is not None  # of cheap labels
    powered = with_cheap_labels(comparison, *compared.cheap)
    results = (Caution(CHEAP_LABELS, "note", line) for line in powered.lines())
    comparison = replace(comparison, cautions=(*results, *comparison.cautions))
    data = compared.report_data(comparison)
    print_comparison(data, as_json, {"cheap_labels": powered}, verbose=verbose)
    if output is not None:
        echo(f"report: {write_report(data, output)}", err=as_json)
    if summary is not None:
        append_summary(summary, data)
    echo_cautions(compared.cautions)


def _print_draw(cheap: Path, n: int, source: RankingSource, as_json: bool) -> None:
    """Print the queries to label."""
    context = click.get_current_context()
    for name in context.params:
        typed = context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if typed and name not in _OF_THE_DRAW:
            found = "SCORES" if name == "inputs" else options.option_name(name)
            raise UsageError(f"{found} with --sample; expected --cheap alone, whose queries are drawn")
    from ltr_harness.comparison.cheap_labels import drawn_queries

    queries = queries_of(cheap, source)
    if n >= len(queries):
        raise UsageError(
            f"--sample {n}: {cheap} has {count_of(len(queries), 'query')}; expected fewer than it has"
        )
    drawn = drawn_queries(queries, n)
    if as_json:
        echo_json({"queries": drawn, "of": len(queries)})
        return
    for query in drawn:
        echo(query)
