"""`ltr-harness power`: how many queries, users and seeds would show a difference."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ltr_harness.cli import options
from ltr_harness.cli.output import echo_caution, echo_cautions, print_report
from ltr_harness.cli.rankings import RankingSource
from ltr_harness.comparison.stats.method import Method
from ltr_harness.errors import UsageError

if TYPE_CHECKING:
    from ltr_harness.comparison.comparison import Comparison
    from ltr_harness.comparison.power import PowerPlan


@options.examples("""
  ltr-harness power runs/mq2008 --difference 0.005
  ltr-harness power runs/shop --difference 0.005 --unit user_id --power 0.8,0.9 -o plan
  ltr-harness power lastweek/report.json --difference -0.01 --baseline lgbm   # to find a loss
  ltr-harness power old.csv new.csv -m mrr@10 --difference 0.01 --models 4    # four models will be compared
  ltr-harness power --sd 0.1 --difference 0.005             # of differences per query, known from elsewhere
  ltr-harness power --ab-test --sd 0.8 --difference 0.01    # sd of a measure over units: units in each arm

\b
A gate "ndcg@10 < baseline - 0.005" takes as many queries as finding a difference of 0.005.
Exit 2: results that must not be compared, or nothing to plan with.
""")
@click.command("power")
@options.inputs("[RUNS-OR-SCORES…]")
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
@options.flag("--ab-test", "Units of an A/B test; --sd is of the measure over units.")
@options.method("test", "confidence", "unit", "weights")
@options.output("Write a page there.")
@click.option("--format", "formats", default="html,md,json,svg", show_default=True, help="What -o writes.")
@options.verbose
@options.as_json
def command(
    inputs: tuple[str, ...],
    difference: float,
    power: str,
    metric: str | None,
    baseline: str | None,
    common_queries: bool,
    models: int | None,
    sd: float | None,
    ab_test: bool,
    output: Path | None,
    formats: str,
    verbose: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Plan how many queries, users and seeds find a difference, by the test that `compare` would use.

    From the per-query differences of stored runs, saved comparisons, tables or scores, or a standard deviation.
    """
    from ltr_harness.comparison.power import plan_power
    from ltr_harness.report.pages import power_page

    method, source = options.pop_method(given), RankingSource(**given)
    powers = _parse_powers(power)
    if difference == 0 or not math.isfinite(difference):
        raise UsageError(f"--difference {difference:g}; expected a difference that is not 0, such as 0.005")
    if ab_test or sd is not None:
        about_runs = {"metric": metric, "baseline": baseline, "common_queries": common_queries}
        about_runs |= {**vars(source), "unit": method.unit, "weights": method.weights}
        option = "--ab-test" if ab_test else "--sd"
        _refuse_runs(inputs, about_runs, option)
        plan = _plan_from_sd(_checked_sd(sd, option), ab_test, difference, powers, method, models or 1)
    else:
        metrics = [metric] if metric else []
        comparison = _compare_inputs(inputs, metrics, source, method, baseline, common_queries, verbose)
        plan = plan_power(comparison, difference, powers, models)
    print_report(
        power_page(plan), as_json, output, [part.strip() for part in formats.split(",")], verbose=verbose
    )


def _parse_powers(text: str) -> list[float]:
    """Return the probabilities, each once."""
    try:
        powers = list(dict.fromkeys(float(part) for part in text.split(",") if part.strip()))
    except ValueError:
        powers = []
    if not powers or not all(0 < chance < 1 for chance in powers):
        raise UsageError(f"--power {text}; expected probabilities between 0 and 1, such as 0.8,0.9")
    return powers


def _refuse_runs(inputs: Sequence[str], about_runs: Mapping[str, Any], option: str) -> None:
    """Raise a UsageError for runs, and for options about them, beside a standard deviation."""
    unused = [*inputs, *(options.option_name(name) for name, value in about_runs.items() if value)]
    if unused:
        raise UsageError(f"{unused[0]} with {option}; {option} plans from numbers, without runs")


def _checked_sd(sd: float | None, option: str) -> float:
    if sd is None:
        raise UsageError(f"{option}: --sd is missing; expected a number above 0")
    if not 0 < sd < math.inf:
        raise UsageError(f"{option}: --sd {sd:g}; expected a number above 0")
    return sd


def _compare_inputs(
    inputs: Sequence[str],
    metrics: Sequence[str],
    source: RankingSource,
    method: Method,
    baseline: str | None,
    common_queries: bool,
    verbose: bool,
) -> "Comparison":
    """Compare runs, tables or scores as `compare` would, and print a caution, or all."""
    from ltr_harness.cli.commands.compare_inputs import ComparedInputs
    from ltr_harness.comparison.caution_choice import ONE_TRAINING, choose_cautions

    if not inputs:
        raise UsageError("nothing to plan from; expected runs, tables or scores, or --sd")
    compared = ComparedInputs.of(inputs, metrics, source)
    comparison = compared.compared(method, baseline, common_queries, primary_alone=True, ledger=False)
    # the plan has its own caution about single trainings
    echo_cautions(compared.cautions)
    cautions = [caution for caution in comparison.cautions if caution.kind != ONE_TRAINING]
    below, folded = choose_cautions(cautions, comparison.losers)
    if below is not None:
        echo_caution(below)
    if verbose:
        echo_cautions(folded)
    return comparison


def _plan_from_sd(
    sd: float, ab_test: bool, difference: float, powers: Sequence[float], method: Method, models: int
) -> "PowerPlan":
    """Plan from a standard deviation: of differences per query, or of the measure of an A/B test."""
    from ltr_harness.comparison.power import Spread, from_spread, level_text

    if ab_test:
        method = _method_for_arms(method)
    test, level = f"{method.test_text}, {level_text(method, models)}", method.level(models)
    if ab_test:
        # two means with this spread are compared: the variance of their difference is twice that of one
        spread, test = Spread(variance=2 * sd**2), f"difference of two arms, {test}"
        return from_spread("measure", spread, difference, powers, test, level, "unit in each arm")
    return from_spread("differences", Spread(variance=sd**2), difference, powers, test, level, "query")


def _method_for_arms(method: Method) -> Method:
    """Return the method that compares arms. Raises UsageError if another test was named."""
    if click.get_current_context().get_parameter_source("test") is click.core.ParameterSource.COMMANDLINE:
        raise UsageError(f"--test {method.test} with --ab-test; arms are compared by test skew-adjusted")
    return replace(method, test="skew-adjusted")
