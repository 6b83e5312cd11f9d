"""`ltr-harness data agreement`: is a judge to be trusted?"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ltr_harness.cli import options
from ltr_harness.cli.output import print_report
from ltr_harness.errors import UsageError


@options.examples("""
  ltr-harness data agreement human.qrels llm.qrels
  ltr-harness data agreement human.qrels llm=gpt.csv other.json --run old.run --run new.run -m ndcg@10
  ltr-harness data agreement votes.csv --judge-column annotator --slices queries.csv -o judges
  ltr-harness data agreement human.qrels llm.qrels --run a.json --run b.json --difference 0.01 --json

\b
Intervals are over queries. With several --run, of which the first is the baseline, both labels of the documents
that both judged decide between them. Exit 2: nothing in common, or judgments that cannot be read.
Past A/B tests: `agreement`. Several judgments of training data: `data describe`.
""")
@click.command("agreement")
@click.argument("human", type=options.DATA)
@click.argument("judges", nargs=-1, metavar="[JUDGE]...", type=options.DATA)
@click.option(
    "--judge-column",
    metavar="COLUMN",
    help="HUMAN is a table of all judgments, with the judge in this column; the first row's is the human.",
)
@options.file("--run", "Ranking: TREC, MS MARCO, MTEB, CSV, Parquet, JSON, …; several times.", multiple=True)
@click.option("-m", "--metric", default="ndcg@10", show_default=True, help="That decides between rankings.")
@options.several
@options.file("--slices", "Table with query_id and facts of the queries, such as their market.")
@click.option(
    "--difference",
    type=float,
    metavar="D",
    help="That human labels should find, for how many it takes.  [default: what they measured]",
)
@options.documents_of
@options.method("confidence")
@options.output("Write a page there.")
@options.verbose
@options.as_json
def command(
    human: Path,
    judges: tuple[Path, ...],
    run: tuple[Path, ...],
    output: Path | None,
    verbose: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Compare judges with a human: agreement, and the decision.

    HUMAN and each JUDGE are judgments of the same documents in any form that --qrels takes; JUDGE may be NAME=FILE.
    """
    from ltr_harness.experiments.compare.judge_agreement import judge_agreement
    from ltr_harness.report.judge_agreement import judge_page

    confidence = options.pop_method(given).confidence
    found = judge_agreement(
        human,
        _named_files(judges, human) or None,
        runs=[str(path) for path in run] or None,
        confidence=confidence,
        **given,
    )
    print_report(judge_page(found), as_json, output, ("html", "md", "json"), verbose=verbose)


def _named_files(paths: Sequence[Path], human: Path) -> dict[str, Path]:
    """Return the judges' files by name: the given one, else the file's."""
    from ltr_harness._util.files import stem_of

    files: dict[str, Path] = {}
    for path in paths:
        name, file = options.named_file(path)
        name = name or stem_of(file)
        if name in files or file == human:
            raise UsageError(
                f"{path} is given twice, or has the name of another; expected NAME=FILE for each judge"
            )
        files[name] = file
    return files
