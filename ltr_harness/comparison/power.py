"""Power: how many queries, users and seeds would show a difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ltr_harness._util.display import Displayed
from ltr_harness._util.text import count_of, plural
from ltr_harness.comparison.caution_choice import ONE_TRAINING
from ltr_harness.comparison.comparison import Comparison
from ltr_harness.comparison.contrasts import Contrast, components_of, spread_of
from ltr_harness.comparison.stats.method import Method
from ltr_harness.comparison.stats.spread import MOST_SEEDS
from ltr_harness.comparison.stats.spread import Spread as Spread
from ltr_harness.errors import Caution, UsageError

FEW = 50  # draws below which the test asks for more than Student's t, as what so few may lack counts
_CURVE = (0.25, 0.5, 1, 2, 4, 8, 16)  # of the draws at hand, for the curve of the detectable difference
_RANGE = 2.0  # from the smallest to the largest number that may be needed, beyond which a plan says both


@dataclass(frozen=True)
class Need:
    """The numbers of draws and seeds that find the difference with one probability; None where no number does."""

    power: float
    detectable: float | None  # the smallest difference that the draws at hand show; None where none are
    draws: int | None  # queries, units, sessions, with the seeds at hand
    queries: int | None  # that those draws bring
    seeds: int | None = None  # of each model, with the draws at hand; None where nothing is known of them
    least_seeds: int | None = None  # fewer are never enough; None where those at hand are
    # seeds, and draws with them: the fewest seeds that ask for no more than twice the draws of endless ones
    both: tuple[int, int] | None = None
    # draws for `test: bounded`, where values have bounds and another test is planned for
    bounded: int | None = None


@dataclass(frozen=True)
class Point:
    """The differences that so many draws detect, at each power."""

    n: int
    detectable: tuple[float, ...]


@dataclass(frozen=True)
class ModelPlan:
    """The numbers of draws and seeds that it takes to find a difference of one model."""

    model: str
    sd: float  # of one draw's difference
    n: int | None  # draws at hand; None where the standard deviation was given
    seeds: tuple[int, ...]  # of each model that varies over seeds; empty where nothing is known of them
    needs: tuple[Need, ...]  # for each power
    curve: tuple[Point, ...]  # of the detectable difference over draws, with the seeds at hand


def spreads(comparison: Comparison) -> dict[str, Spread]:
    """Return the spread of each model's differences from the baseline at the primary metric, where there is any."""
    method, metric = comparison.method, comparison.primary
    if len(comparison.models) < 2:
        raise UsageError.at(
            comparison.baseline,
            "is the only model, and a plan is about differences of two",
            "a second model, or --sd with the standard deviation of the differences per query",
        )
    by_model = {}
    reference = comparison.system(comparison.baseline)
    for model in comparison.ranking:
        if model != comparison.baseline:
            cell = Contrast(comparison.system(model), reference, metric)
            d = comparison.query_differences(model)
            sample, n = comparison.sampling.contributions(d[:, None]), comparison.paired(model).n
            components = components_of(cell, comparison.sampling)
            spread = spread_of(sample, n, components, method, comparison.value_range(metric))
            if spread is not None:
                by_model[model] = spread
    if not by_model:
        raise UsageError(
            f"no model differs from {comparison.baseline} in {metric} by more for one query than for another; "
            "there is no spread to plan from"
        )
    return by_model


def plan(model: str, spread: Spread, difference: float, level: float, powers: Sequence[float]) -> ModelPlan:
    """Plan what finds a difference of this size."""
    if difference < 0:
        spread = spread.mirrored()
    needs = tuple(_need(spread, abs(difference), level, power) for power in powers)
    draws = {need.draws for need in needs if need.draws is not None}
    middle = spread.n or max(draws, default=100)
    grid = sorted({*draws, *(max(round(times * middle), 2) for times in _CURVE)})
    found = [[spread.detectable(n, alpha=level, power=power) for power in powers] for n in grid]
    points = map(Point, grid, map(tuple, found))
    return ModelPlan(
        model=model,
        sd=float(np.sqrt(spread.variance)),
        n=spread.n,
        seeds=() if spread.seeds is None else spread.seeds.seeds,
        needs=needs,
        curve=tuple(point for point in points if np.isfinite(point.detectable).all()),
    )


def _need(spread: Spread, difference: float, alpha: float, power: float) -> Need:
    """Return what finds the difference with one probability."""
    draws = spread.needed(difference, alpha=alpha, power=power)
    queries = None if draws is None else round(draws * spread.queries_per_draw)
    detectable = None
    if spread.n is not None:
        least = spread.detectable(spread.n, alpha=alpha, power=power)
        detectable = None if least == np.inf else least
    bounded = None
    if np.isfinite(spread.width) and not spread.strict:
        bounded = replace(spread, strict=True).needed(difference, alpha=alpha, power=power)
    need = Need(power, detectable, draws, queries, bounded=bounded)
    if spread.seeds is None or spread.n is None:
        return need
    need = replace(need, seeds=spread.seeds_needed(difference, spread.n, alpha=alpha, power=power))
    if draws is not None:
        return need
    least_seeds = spread.seeds_needed(difference, alpha=alpha, power=power)
    seeds_and_draws = _seeds_and_draws(spread, difference, alpha, power)
    return replace(need, least_seeds=least_seeds, both=seeds_and_draws)


def _seeds_and_draws(spread: Spread, difference: float, alpha: float, power: float) -> tuple[int, int] | None:
    """Return seeds and draws that find the difference together, with draws at most twice those of endless seeds."""
    endless = spread.needed(difference, alpha=alpha, power=power, seeds=MOST_SEEDS)
    if endless is None:
        return None
    seeds = spread.seeds_needed(difference, 2 * endless, alpha=alpha, power=power)
    if seeds is None:
        return None
    draws = spread.needed(difference, alpha=alpha, power=power, seeds=seeds)
    return None if draws is None else (seeds, draws)


@dataclass(frozen=True)
class PowerPlan(Displayed):
    """The answer for every model, and the question."""

    difference: float  # that should be found; its sign is the metric's own
    about: str  # what is tested and how, in words
    level: float  # of the test's first step, for this many models
    plans: tuple[ModelPlan, ...]  # one for each contender: a model that has not been shown to differ, or all
    draw: str = "query"  # what chance draws as a whole, such as "unit in each arm"
    unit: str | None = None  # the attribute whose values are drawn instead, such as "user_id"
    cautions: tuple[Caution, ...] = ()
    left_out: tuple[str, ...] = ()  # models that already differ, for which nothing more is needed

    def __repr__(self) -> str:
        return "\n".join(self.said(plan, need) for plan in self.plans for need in plan.needs)

    def said(self, plan: ModelPlan, need: Need) -> str:
        """Return one sentence: what finds the difference with one probability."""
        seeds = " and ".join(str(count) for count in dict.fromkeys(plan.seeds))
        if need.draws is None:
            text = self._unreachable(need, seeds or "these")
        else:
            text = self._reachable(plan, need, need.draws, seeds)
        return f"{plan.model}: with {need.power:.0%} probability {text}."

    def _unreachable(self, need: Need, seeds: str) -> str:
        """Return what is needed beside more draws."""
        text = f"it cannot be found with {seeds} seeds, at any number of {self.drawn()}"
        if need.least_seeds is not None:
            text += f": {need.least_seeds} seeds of each model are needed"
        if need.both is None:
            return text
        seeds_with_draws, draws = need.both
        if seeds_with_draws == need.least_seeds:
            return f"{text}, and {self.drawn(draws)}"
        return f"{text} at least; {seeds_with_draws} seeds and {self.drawn(draws)} do"

    def _reachable(self, plan: ModelPlan, need: Need, draws: int, seeds: str) -> str:
        """Return how many draws it takes, and what does instead."""
        text = f"it takes {self.drawn(draws)}"
        if need.queries != draws:
            text += f", some {count_of(need.queries or 0, 'query')}"
        if seeds:
            text += f", with {seeds} seeds"
        if need.seeds is not None and plan.n is not None and draws > plan.n:
            text += f"; or {need.seeds} seeds of each model with the {self.drawn(plan.n)} at hand"
        if need.bounded is not None:
            text += f"; the strict test, bounded, takes {self.drawn(need.bounded)}"
        return text

    def drawn(self, count: int | None = None) -> str:
        """The word for draws, with their number if there is one."""
        if self.unit is not None:
            return self.unit if count is None else f"{count:,} of {self.unit}"
        head, _, tail = self.draw.partition(" in ")
        words = plural(head, 2) if count is None else count_of(count, head)
        return f"{words} in {tail}" if tail else words


def plan_power(
    comparison: Comparison, difference: float, powers: Sequence[float], models: int | None = None
) -> PowerPlan:
    """Plan how many queries and seeds it takes to find a difference, by a comparison's own spread and test.

    Models that already differ are left out, unless all do. Its cautions are what the plan does not know, and what else
    is needed where the draws at hand hardly tell the spread.

    Args:
        comparison: of models like those that will be compared.
        difference: that should be found at the primary metric; its sign is the metric's own.
        powers: probabilities of finding it, such as ``[0.8, 0.9]``.
        models: that will be compared with the baseline; None for as many as the comparison has.

    Raises:
        UsageError: one model alone, or models without any difference.
    """
    by_model, method = spreads(comparison), comparison.method
    left_out = [model for model in by_model if comparison.paired(model).is_significant]
    if len(left_out) == len(by_model):
        left_out = []
    by_model = {model: spread for model, spread in by_model.items() if model not in left_out}
    family = models or len(comparison.models) - 1
    level = method.level(family)
    plans = tuple(plan(model, spread, difference, level, powers) for model, spread in by_model.items())
    cautions = [*_unknown_seeds(comparison, by_model), *_few_draws(plans, method)]
    for model_plan in plans:
        cautions += _rough_spread(model_plan, by_model[model_plan.model], difference, level, method)
    test = f"{method.test_text}{method.weights_text}"
    return PowerPlan(
        difference=difference,
        about=f"{comparison.primary} against {comparison.baseline}, {test}, {level_text(method, family)}",
        level=level,
        plans=plans,
        unit=method.unit,
        cautions=tuple(cautions),
        left_out=tuple(left_out),
    )


def _unknown_seeds(comparison: Comparison, by_model: Mapping[str, Spread]) -> list[Caution]:
    """Return a caution for models whose variance over seeds, or the baseline's, is unknown."""
    seeded = {system.name for system in comparison.systems if system.seeded}
    models = [
        model
        for model, spread in by_model.items()
        if spread.seeds is None and {model, comparison.baseline} & seeded
    ]
    if not models:
        return []
    text = "trained with one seed, so the plan is for these trained models and not for their methods"
    return [Caution(ONE_TRAINING, "warning", text, "plan from runs with three seeds", ", ".join(models))]


def _few_draws(plans: Sequence[ModelPlan], method: Method) -> list[Caution]:
    """Return a caution for models whose plan has so few draws that the test may find less."""
    models = [plan.model for plan in plans if any((need.draws or FEW) < FEW for need in plan.needs)]
    if not models:
        return []
    text = f"with fewer than {FEW} {_draws(method)} the test may detect less than planned"
    return [Caution("few-queries", "warning", text, place=", ".join(models))]


def _rough_spread(
    model_plan: ModelPlan, spread: Spread, difference: float, level: float, method: Method
) -> list[Caution]:
    """Return a caution where the spread is known so roughly that the plan may be far off."""
    need = model_plan.needs[0]
    ends = list(spread.extremes())
    if difference <= 0:
        ends = [end.mirrored() for end in ends]
    least, most = (end.needed(abs(difference), alpha=level, power=need.power) for end in ends)
    if need.draws is None or least is None or (most is not None and most <= _RANGE * least):
        return []
    most_text = "more than any number" if most is None else f"{most:,}"
    text = (
        f"{round(spread.differing * (spread.n or 0)):,} of {spread.n:,} {_draws(method)} differ, so the spread is "
        f"rough, and {need.power:.0%} may take {least:,} to {most_text}"
    )
    return [Caution("rough-spread", "warning", text, "plan from more queries", model_plan.model)]


def _draws(method: Method) -> str:
    return method.unit or "queries"


def from_spread(
    name: str,
    spread: Spread,
    difference: float,
    powers: Sequence[float],
    question: str,
    level: float,
    draw: str,
) -> PowerPlan:
    """The plan for a spread that is known from elsewhere."""
    return PowerPlan(difference, question, level, (plan(name, spread, difference, level, powers),), draw)


def level_text(method: Method, family: int) -> str:
    """The level of the test, and for how many models it is corrected, in words."""
    text = f"level {100 * method.alpha:.3g} %"
    return text if family < 2 else f"{text}, corrected for {family} comparisons"
