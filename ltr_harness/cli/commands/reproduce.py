"""`ltr-harness reproduce`: train a stored run again and say whether everything is identical."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ltr_harness._util.text import count_of
from ltr_harness.cli import options
from ltr_harness.cli.output import echo, echo_json

if TYPE_CHECKING:
    from ltr_harness.experiments.training.reproduce import Reproduction


@options.examples("""
  ltr-harness reproduce runs/quickstart/xgb-ndcg--all--s1--0123456789ab
  ltr-harness reproduce RUN --threads 1
  ltr-harness reproduce RUN --data-root /new/place/of/the/data

\b
Exit codes: 0 identical, 1 not identical or training failed, 2 the run or its data cannot be used.
""")
@click.command("reproduce")
@options.run
@click.option("--threads", type=options.COUNT, help="Another number of threads than the run's.")
@click.option("--data-root", type=options.PATH, help="Where the data is now, if it has moved.")
@options.trust
@options.as_json
def command(run: Path, threads: int | None, data_root: Path | None, trust: bool, as_json: bool) -> int:
    """Train a stored run again and check that everything is identical.

    RUN is a run folder. It is trained as its record has it; model file, test scores and metric means are compared
    to the bit, and where they differ, the changes since are listed. Nothing stored is touched.
    """
    from ltr_harness.experiments.training.reproduce import reproduce

    reproduction = reproduce(run, threads=threads, data_root=data_root, trust=trust)
    if as_json:
        echo_json(reproduction.as_dict())
    else:
        _print_reproduction(reproduction)
    return 0 if reproduction.identical else 1


def _print_reproduction(reproduction: "Reproduction") -> None:
    if reproduction.identical:
        scores = count_of(reproduction.n_scores, "test score")
        echo(f"identical: model file, {scores} and every metric")
    else:
        _print_differences(reproduction)
    if reproduction.reasons:
        echo("changed since:")
        for reason in reproduction.reasons:
            echo(f"  {reason}")
    elif not reproduction.identical:
        cure = "see docs/boosters.md for settings that do not repeat"
        echo(f"no recorded input has changed: data, versions and threads are the same; {cure}")


def _print_differences(reproduction: "Reproduction") -> None:
    """Print the model file, scores, rounds and metrics side by side."""
    echo("not identical:")
    model_file = "the same" if reproduction.same_model else "differs"
    echo(f"  model file: {model_file}")
    scores = f"all {reproduction.n_scores:,} the same"
    if reproduction.n_other_scores:
        largest = f"by at most {reproduction.largest_difference:.3g}"
        scores = f"{reproduction.n_other_scores:,} of {reproduction.n_scores:,} differ, {largest}"
    echo(f"  test scores: {scores}")
    before, now = reproduction.best_rounds
    if before != now:
        echo(f"  best round: {before} then, {now} now")
    for name, (mean_before, mean_now) in reproduction.metrics.items():
        echo(f"  {name}: {_mean(mean_before)} then, {_mean(mean_now)} now")


def _mean(value: float | None) -> str:
    return "undefined" if value is None else repr(value)
