"""How many queries, users and seeds would show a difference, from what a comparison knows of these models?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ltr_harness.comparison.comparison import Comparison
from ltr_harness.errors import Problem, UsageError
from ltr_harness.stats.contributions import Contributions
from ltr_harness.stats.method import Method
from ltr_harness.stats.power import MOST_SEEDS, Spread
from ltr_harness.stats.seeds import variance_components
from ltr_harness.wording import count_of, plural

_CURVE = (0.25, 0.5, 1, 2, 4, 8, 16)
"""Of the draws at hand, for the curve of the detectable difference."""

_RANGE = 2.0
"""From the smallest to the largest number that may be needed, beyond which a plan says both."""

FEW = 50
"""Draws below which the test asks for more than Student's t, as what so few may lack counts."""


@dataclass(frozen=True)
class Need:
    """What finds the difference with one probability; None where no number does.

    Attributes:
        power: the probability.
        detectable: the smallest difference that the draws at hand show; None where none are.
        draws: queries, units, sessions, with the seeds at hand.
        queries: that those draws bring.
        seeds: of each model, with the draws at hand; None also where nothing is known of seeds.
        least_seeds: below which no number of draws is enough; None where those at hand are enough.
        bounded: draws for `test: bounded`, where values have bounds and it is not the test that is planned for.
        both: seeds, and draws with them: the fewest seeds that ask for no more than twice the draws of endless ones;
            None where those at hand are enough.
    """

    power: float
    detectable: float | None
    draws: int | None
    queries: int | None
    seeds: int | None = None
    least_seeds: int | None = None
    both: tuple[int, int] | None = None
    bounded: int | None = None


@dataclass(frozen=True)
class Point:
    """What so many draws detect, at each power."""

    n: int
    detectable: tuple[float, ...]


@dataclass(frozen=True)
class ModelPlan:
    """What it takes to find a difference of one model.

    Attributes:
        model: its name.
        sd: of one draw's difference, queries or units or sessions.
        n: draws at hand; None where the standard deviation was given.
        seeds: of each model that varies over seeds; empty where nothing is known of them.
        needs: for each power.
        curve: of the detectable difference over draws, with the seeds at hand.
    """

    model: str
    sd: float
    n: int | None
    seeds: tuple[int, ...]
    needs: tuple[Need, ...]
    curve: tuple[Point, ...]


def spreads(comparison: Comparison) -> dict[str, Spread]:
    """Of each model's differences from the baseline at the primary metric, those that have any spread.

    Raises:
        UsageError: there is no other model.
    """
    method, metric = comparison.method, comparison.primary
    if len(comparison.models) < 2:
        raise UsageError(
            Problem(
                comparison.baseline,
                "is the only model, and a plan is about differences of two",
                "a second model, or --sd with the standard deviation of the differences per query",
            )
        )
    by_model = {}
    reference = comparison.entrant(comparison.baseline)
    for model in comparison.ranking:
        if model == comparison.baseline:
            continue
        one, d = comparison.entrant(model), comparison.query_differences(model)
        seeds = variance_components(
            one.values[metric],
            reference.values[metric],
            one_fixed=not one.seeded,
            other_fixed=not reference.seeded,
        )
        sample = Contributions.of(d[:, None], comparison.units)
        n, error, off = int(sample.units[0]), float(sample.error[0]), sample.off[sample.counts[:, 0] > 0, 0]
        if n > 1 and error > 0:
            by_model[model] = Spread(
                variance=error**2 * n,
                n=n,
                freedom=None if comparison.units is None else float(sample.freedom[0]),
                skewness=float(sample.lean[0]) * n**0.5,
                adjusted=method.test == "skew-adjusted",
                differing=np.count_nonzero(sample.sums) / n,
                mean=float(sample.mean[0]),
                kurtosis=float((off**4).mean() / (off**2).mean() ** 2),
                width=comparison.value_range(metric) if sample.even else np.inf,
                strict=method.test == "bounded",
                queries_per_draw=float(sample.n[0]) / n,
                seeds=seeds,
            )
    if not by_model:
        raise UsageError(
            f"no model differs from {comparison.baseline} in {metric} by more for one query than for another; "
            "there is no spread to plan with"
        )
    return by_model


def plan(model: str, spread: Spread, difference: float, level: float, powers: Sequence[float]) -> ModelPlan:
    """What finds a difference of this size."""
    if difference < 0:
        spread = spread.mirrored()
    needs = tuple(_need(spread, abs(difference), level, power) for power in powers)
    draws = {need.draws for need in needs if need.draws is not None}
    middle = spread.n or max(draws, default=100)
    grid = sorted({*draws, *(max(round(times * middle), 2) for times in _CURVE)})
    points = [
        Point(n, tuple(spread.detectable(n, alpha=level, power=power) for power in powers)) for n in grid
    ]
    return ModelPlan(
        model=model,
        sd=float(np.sqrt(spread.variance)),
        n=spread.n,
        seeds=() if spread.seeds is None else spread.seeds.seeds,
        needs=needs,
        curve=tuple(point for point in points if np.isfinite(point.detectable).all()),
    )


def _need(spread: Spread, difference: float, alpha: float, power: float) -> Need:
    draws = spread.needed(difference, alpha=alpha, power=power)
    queries = None if draws is None else round(draws * spread.queries_per_draw)
    detectable = None if spread.n is None else spread.detectable(spread.n, alpha=alpha, power=power)
    detectable = None if detectable == np.inf else detectable
    bounded = None
    if np.isfinite(spread.width) and not spread.strict:
        bounded = replace(spread, strict=True).needed(difference, alpha=alpha, power=power)
    if spread.seeds is None or spread.n is None:
        return Need(power, detectable, draws, queries, bounded=bounded)
    least, both = None, None
    if draws is None:
        least = spread.seeds_needed(difference, alpha=alpha, power=power)
        endless = spread.needed(difference, alpha=alpha, power=power, seeds=MOST_SEEDS)
        if endless is not None:
            seeds = spread.seeds_needed(difference, 2 * endless, alpha=alpha, power=power)
            needed = (
                None if seeds is None else spread.needed(difference, alpha=alpha, power=power, seeds=seeds)
            )
            both = None if seeds is None or needed is None else (seeds, needed)
    return Need(
        power,
        detectable,
        draws,
        queries,
        seeds=spread.seeds_needed(difference, spread.n, alpha=alpha, power=power),
        least_seeds=least,
        both=both,
        bounded=bounded,
    )


@dataclass(frozen=True)
class PowerPlan:
    """The answer for every model, and the question.

    Attributes:
        difference: that should be found; its sign is the metric's own.
        about: what is tested and how, in words.
        level: of the test's first step, for this many models.
        plans: one for each model.
        draw: what chance draws as a whole: ``"query"``, ``"decided session"``, ``"unit in each arm"``.
        unit: the attribute whose values are drawn instead, such as ``"user_id"``.
        notes: what a reader must know.
    """

    difference: float
    about: str
    level: float
    plans: tuple[ModelPlan, ...]
    draw: str = "query"
    unit: str | None = None
    notes: tuple[str, ...] = ()

    def said(self, plan: ModelPlan, need: Need) -> str:
        """One sentence: what finds the difference with one probability."""
        head = f"{plan.model}: with {need.power:.0%} probability"
        seeds = " and ".join(str(count) for count in dict.fromkeys(plan.seeds))
        if need.draws is None:
            text = f"{head} it cannot be found with {seeds or 'these'} seeds, at any number of {self.drawn()}"
            if need.least_seeds is not None:
                text += f": {need.least_seeds} seeds of each model are needed"
            if need.both is not None and need.both[0] == need.least_seeds:
                text += f", and {self.drawn(need.both[1])}"
            elif need.both is not None:
                text += f" at least; {need.both[0]} seeds and {self.drawn(need.both[1])} do"
            return text + "."
        text = f"{head} it takes {self.drawn(need.draws)}"
        if need.queries != need.draws:
            text += f", some {count_of(need.queries or 0, 'query')}"
        text += f", with {seeds} seeds" if seeds else ""
        if need.seeds is not None and plan.n is not None and need.draws > plan.n:
            text += f"; or {need.seeds} seeds of each model with the {self.drawn(plan.n)} at hand"
        if need.bounded is not None:
            text += f"; the strict test (`test: bounded`) takes {self.drawn(need.bounded)}"
        return text + "."

    def drawn(self, count: int | None = None) -> str:
        """The word for draws, with their number if there is one."""
        if self.unit is not None:
            return self.unit if count is None else f"{count:,} of {self.unit}"
        head, _, tail = self.draw.partition(" in ")
        words = plural(head, 2) if count is None else count_of(count, head)
        return f"{words} in {tail}" if tail else words


def planned(
    comparison: Comparison, difference: float, powers: Sequence[float], models: int | None = None
) -> PowerPlan:
    """What a comparison's differences say, for its own test.

    Raises:
        UsageError: there is no other model or no spread.
    """
    by_model, method = spreads(comparison), comparison.method
    family = models or len(comparison.models) - 1
    plans = tuple(
        plan(model, spread, difference, method.level(family), powers) for model, spread in by_model.items()
    )
    few = [one.model for one in plans if any((need.draws or FEW) < FEW for need in one.needs)]
    return PowerPlan(
        difference=difference,
        about=f"{comparison.primary} against {comparison.baseline}, {method.test_text}, {level_text(method, family)}",
        level=method.level(family),
        plans=plans,
        unit=method.unit,
        notes=(*_notes(comparison, by_model, few), *_ranges(plans, by_model, difference, method, family)),
    )


def _ranges(
    plans: Sequence[ModelPlan],
    by_model: Mapping[str, Spread],
    difference: float,
    method: Method,
    family: int,
) -> list[str]:
    """What else is needed, where the draws at hand hardly tell the spread."""
    drawn, notes = method.unit or "queries", []
    for one in plans:
        spread, need = by_model[one.model], one.needs[0]
        few, many = (
            (end if difference > 0 else end.mirrored()).needed(
                abs(difference), alpha=method.level(family), power=need.power
            )
            for end in spread.extremes()
        )
        if need.draws is not None and few is not None and (many is None or many > _RANGE * few):
            most = "more than any number" if many is None else f"{many:,}"
            notes.append(
                f"{one.model}: {round(spread.differing * (spread.n or 0)):,} of {spread.n:,} {drawn} differ and tell "
                f"the spread roughly: {need.power:.0%} may take {few:,} to {most}"
            )
    return notes


def from_spread(
    name: str, spread: Spread, difference: float, powers: Sequence[float], about: str, level: float, draw: str
) -> PowerPlan:
    """The plan for a spread that is known from elsewhere."""
    return PowerPlan(difference, about, level, (plan(name, spread, difference, level, powers),), draw)


def level_text(method: Method, family: int) -> str:
    """The level of the first step among so many models, in words."""
    text = f"level {100 * method.level(family):.3g} %"
    if family < 2 or method.correction == "none":
        return text
    return f"{text} (of {family} comparisons, by Bonferroni; the joint draws ask for less)"


def _notes(comparison: Comparison, by_model: Mapping[str, Spread], few: Sequence[str]) -> list[str]:
    """What the plan does not know."""
    notes = []
    alone = [
        model
        for model, spread in by_model.items()
        if spread.seeds is None
        and any(comparison.entrant(one).seeded for one in (model, comparison.baseline))
    ]
    if alone:
        notes.append(
            f"{', '.join(alone)}: trained with one seed; what seeds add is unknown, and the plan is about these "
            "trained models"
        )
    drawn = comparison.method.unit or "queries"
    if few:
        notes.append(
            f"{', '.join(few)}: with fewer than {FEW} {drawn} the test may find less than is planned"
        )
    return notes
