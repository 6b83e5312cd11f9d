"""`ltr-harness reproduce`: train a stored run again and say whether everything is identical."""

from pathlib import Path

import click

from ltr_harness._util.text import count_of
from ltr_harness.cli import options
from ltr_harness.cli.output import say, say_json


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

    found = reproduce(run, threads=threads, data_root=data_root, trust=trust)
    code = 0 if found.identical else 1
    if as_json:
        say_json(found.as_dict())
        return code
    if found.identical:
        say(f"identical: model file, {count_of(found.n_scores, 'test score')} and every metric")
    else:
        say("not identical:")
        say(f"  model file: {'the same' if found.same_model else 'differs'}")
        scores = f"all {found.n_scores:,} the same"
        if found.n_other_scores:
            most = f"by at most {found.largest_difference:.3g}"
            scores = f"{found.n_other_scores:,} of {found.n_scores:,} differ, {most}"
        say(f"  test scores: {scores}")
        if found.best_rounds[0] != found.best_rounds[1]:
            say(f"  best round: {found.best_rounds[0]} then, {found.best_rounds[1]} now")
        for name, (before, now) in found.metrics.items():
            say(f"  {name}: {_mean(before)} then, {_mean(now)} now")
    if found.reasons:
        say("changed since:")
        for reason in found.reasons:
            say(f"  {reason}")
    elif not found.identical:
        cure = "see docs/boosters.md for settings that do not repeat"
        say(f"no recorded input has changed: data, versions and threads are the same; {cure}")
    return code


def _mean(value: float | None) -> str:
    return "undefined" if value is None else repr(value)
