"""`ltr-harness power`: how many queries, users and seeds would show a difference."""

import dataclasses
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ltr_harness.cli import options
from ltr_harness.cli.output import say_notes, say_page
from ltr_harness.errors import UsageError
from ltr_harness.stats.method import Method

if TYPE_CHECKING:
    from ltr_harness.comparison.power import PowerPlan

_OF_A_VOTE = 1 / 4  # the variance: it is 0 or 1, near one half


@options.examples("""
  ltr-harness power runs/mq2008 --difference 0.005
  ltr-harness power runs/shop --difference 0.005 --unit user_id --power 0.8,0.9 -o plan
  ltr-harness power lastweek/report.json --difference -0.01 --baseline lgbm   # to find a loss
  ltr-harness power old.csv new.csv -m mrr@10 --difference 0.01 --models 4    # four models will be compared
  ltr-harness power --sd 0.1 --difference 0.005             # of differences per query, known from elsewhere
  ltr-harness power --interleaving --difference 0.02        # 52 % of the decided sessions; or with a log of them
  ltr-harness power --ab-test --sd 0.8 --difference 0.01    # sd of a measure over units: units in each arm

\b
A gate "ndcg@10 < baseline - 0.005" takes as many queries as finding a difference of 0.005.
Exit 2: results that must not be compared, or nothing to plan with.
""")
@click.command("power")
@click.argument("inputs", nargs=-1, metavar="[RUNS-OR-SCORES…]")
@click.option(
    "--difference",
    type=float,
    required=True,
    help="The true difference to find, in the metric's unit; below 0 for one downwards.",
)
@click.option("--power", default="0.8", show_default=True, help="Chance of finding it; several by commas.")
@click.option("-m", "--metric", metavar="METRIC", help="Such as ndcg@10.  [default: the one that decides]")
@options.rankings("scores", "run")
@click.option("--baseline", metavar="NAME", help="The model the others are compared with, as in `compare`.")
@options.flag("--common-queries", "The queries that all have.")
@click.option(
    "--models",
    type=options.COUNT,
    metavar="N",
    help="How many models will be compared with the baseline.  [default: as many as here]",
)
@click.option("--sd", type=float, help="Standard deviation of the differences, in place of runs.")
@options.flag("--interleaving", "Sessions of two interleaved rankers; --difference is above one half.")
@options.flag("--ab-test", "Units of an A/B test; --sd is of the measure over units.")
@options.method("test", "correction", "confidence", "unit")
@options.output("Write a page there.")
@click.option("--format", "formats", default="html,md,json,svg", show_default=True, help="What -o writes.")
@options.as_json
def command(
    inputs: tuple[str, ...],
    difference: float,
    power: str,
    sd: float | None,
    interleaving: bool,
    ab_test: bool,
    output: Path | None,
    formats: str,
    as_json: bool,
    **given: Any,
) -> None:
    """How many queries, users and seeds find a difference: for the test that `compare` would use.

    From the per-query differences of stored runs, saved comparisons, tables or scores, or a standard deviation.
    """
    from ltr_harness.report.pages import power_page

    method = options.taken_method(given)
    try:
        powers = list(dict.fromkeys(float(part) for part in power.split(",") if part.strip()))
    except ValueError:
        powers = []
    if not powers or not all(0 < chance < 1 for chance in powers):
        raise UsageError(f"--power {power}; expected probabilities between 0 and 1, such as 0.8,0.9")
    if not (difference and abs(difference) < float("inf")):
        raise UsageError(f"--difference {difference:g}; expected a difference that is not 0, such as 0.005")
    kinds = [name for name, on in (("--interleaving", interleaving), ("--ab-test", ab_test)) if on]
    if len(kinds) > 1:
        raise UsageError("--interleaving and --ab-test; expected one of them")
    if kinds or sd is not None:
        plan = _typed([*kinds, "--sd"][0], inputs, difference, powers, sd, method, given)
    else:  # from differences at hand, compared as `compare` would
        from ltr_harness.cli.compared_inputs import ComparedInputs
        from ltr_harness.comparison.power import planned

        if not inputs:
            raise UsageError("nothing to plan from; expected runs, tables or scores, or --sd")
        taken = ("metric", "baseline", "common_queries", "models")
        metric, baseline, shared, models = (given.pop(name) for name in taken)
        found = ComparedInputs(inputs, [metric] if metric else [], (), given)
        comparison = found.compared(method, baseline, shared, primary_alone=True, ledger=False)
        say_notes([*found.notes, *comparison.notes])
        plan = planned(comparison, difference, powers, models)
    say_page(power_page(plan), as_json, output, [part.strip() for part in formats.split(",")])


def _typed(
    which: str,
    inputs: Sequence[str],
    difference: float,
    powers: Sequence[float],
    sd: float | None,
    method: Method,
    given: dict[str, Any],
) -> "PowerPlan":
    """From a standard deviation, typed or of votes."""
    from ltr_harness.comparison.power import Spread, from_spread, level_text

    models = given.pop("models") or 1
    unused = [name for name, value in given.items() if value] + (["unit"] if method.unit else [])
    if unused or (inputs and which != "--interleaving"):
        what = options.written(unused[0]) if unused else inputs[0]
        raise UsageError(f"{what} with {which}; {which} plans from numbers, without runs")
    level = level_text(method, models)
    of = partial(from_spread, difference=difference, powers=powers, level=method.level(models))
    if which == "--interleaving":
        if sd is not None or len(inputs) > 1 or not abs(difference) < 0.5:
            expected = "a --difference between -0.5 and 0.5, no --sd, and at most one log of sessions"
            raise UsageError(f"--interleaving; expected {expected}")
        about = f"share of the decided sessions above one half, sign test, {level}"
        of_votes = partial(of, "sessions", about=about, draw="decided session")
        if not inputs:
            return of_votes(Spread(variance=_OF_A_VOTE))
        from ltr_harness.comparison.interleaving import interleaved

        # sessions as alike within users as those of the log
        votes = interleaved(Path(inputs[0]), method.confidence)
        decided, effect = sum(votes.wins), votes.design_effect
        if not decided:
            raise UsageError(f"{inputs[0]}: no session is decided; there is nothing to plan from")
        plan, share = of_votes(Spread(variance=effect * _OF_A_VOTE)), decided / (decided + votes.ties)
        takes = [
            f"{need.power:.0%} takes {round(need.draws / share):,} in all"
            for need in plan.plans[0].needs
            if need.draws is not None
        ]
        notes = [f"design effect {effect:.2g}: sessions of one user vote alike"] if effect > 1 else []
        notes.append(f"{share:.0%} of the sessions in {inputs[0]} were decided: {', '.join(takes)}")
        return dataclasses.replace(plan, notes=tuple(notes))
    if sd is None or not 0 < sd < float("inf"):
        found = "is missing" if sd is None else f"{sd:g}"
        raise UsageError(f"{which}: --sd {found}; expected a number above 0")
    about = f"{method.test_text}, {level}"
    if which == "--ab-test":
        # two means with this spread are compared: the variance of their difference is twice that of one
        spread, about = Spread(variance=2 * sd**2), f"difference of two arms, {about}"
        return of("measure", spread, about=about, draw="unit in each arm")
    return of("differences", Spread(variance=sd**2), about=about, draw="query")
