"""What comparisons promise and what simulated worlds keep of it: the tables of docs/promises.md and of what bets cost.

Each world says what is true of it; a comparison of a sample of it is right or wrong. Worlds are skewed, sparse,
clustered and lopsided on purpose. A false verdict (or a gate passed in error) counts as said where the line about rare
kinds stands beside it.

    python scripts/promises.py             print the tables
    python scripts/promises.py --write     write them into docs/promises.md and docs/statistics.md
    python scripts/promises.py --times 4   four times as many samples of each world
    python scripts/promises.py --only D2   the worlds whose names hold this
"""

from __future__ import annotations

import argparse
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.signal import lfilter

from ltr_harness.comparison.cheap_labels import chosen_at_random, powered
from ltr_harness.comparison.comparing import compare_systems
from ltr_harness.comparison.over_time import ENOUGH, blocks, how_many, left_open
from ltr_harness.comparison.pairs import SystemResult
from ltr_harness.inspection.slices import query_slices
from ltr_harness.stats.contributions import Contributions, WeightedSum
from ltr_harness.stats.families import mean_intervals, outcomes, rare_kind
from ltr_harness.stats.method import Method, Test
from ltr_harness.stats.seeds import method_difference
from ltr_harness.stats.spread import Spread

DOCS = Path(__file__).parents[1] / "docs"
DEFAULT = Method(test="skew-adjusted", draws=1000)
BETS = Method(test="bounded")
Random = np.random.Generator
Draw = Callable[[Random], tuple[np.ndarray, float]]
Draws = Callable[..., np.ndarray]


@dataclass(frozen=True)
class Sample:
    """What a sample was found to be.

    Attributes:
        wrong: a false verdict, an interval that misses, a gate passed in error; or what else is counted, as a share.
        said: the line about rare kinds stands beside it, or the comparison was refused.
    """

    wrong: float
    said: bool = False


@dataclass(frozen=True)
class World:
    """One row of the table.

    Attributes:
        name: what the world is like.
        counted: what of it, in words.
        sample: one sample of it.
        at_most: the largest share that is promised.
        at_least: the smallest.
        unless_said: where wrong samples may be more, if a line says so beside 99 % of them.
        samples: how many are drawn.
    """

    name: str
    counted: str
    sample: Callable[[Random], Sample]
    at_most: float = 0.065
    at_least: float = -1.0
    unless_said: bool = False
    samples: int = 1000


@dataclass(frozen=True)
class Kept:
    """What became of a promise; `error` is that of the simulation."""

    wrong: float
    error: float
    said: float
    held: bool


def measure(world: World, times: float = 1) -> Kept:
    """Draws samples of a world; the seed is the world's own."""
    rng = np.random.default_rng(zlib.crc32(world.name.encode()))
    n = max(int(world.samples * times), 20)
    drawn = [world.sample(rng) for _ in range(n)]
    shares = np.array([one.wrong for one in drawn], dtype=np.float64)
    wrong = [one for one in drawn if one.wrong > 0]
    said = sum(one.said for one in wrong) / len(wrong) if wrong else 1.0
    share = float(shares.mean())
    within = world.at_least <= share <= world.at_most
    return Kept(share, float(shares.std()) / n**0.5, said, within or (world.unless_said and said >= 0.99))


def difference(
    draw: Draw,
    *,
    method: Method = DEFAULT,
    width: float = 1.0,
) -> Callable[[Random], Sample]:
    """Differences of some models from a baseline: is any verdict false, does any interval miss the truth?

    Args:
        draw: (n, m) differences, and the true mean of each.
        method: of the comparison.
        width: how far apart two values of the metric can be.
    """

    def sample(rng: Random) -> Sample:
        d, truth = draw(rng)
        total = Contributions.of(d)
        found = outcomes(total, method, widths=np.full(d.shape[1], width), seeds=())
        missed = (found.low > truth) | (truth > found.high)
        # a false verdict is one of the wrong direction, or any where the truth is 0; the interval is asked as well
        wrong = missed & (found.p_corrected < method.alpha) if truth == 0 else missed
        family = d.shape[1]
        lines = [rare_kind(len(d), abs(mean), width, method, family=family) for mean in total.mean[wrong]]
        return Sample(bool(wrong.any()), bool(lines) and all(lines))

    return sample


def by_unit(
    sizes: Callable[[Random], np.ndarray], m: int = 1, skewed: bool = True
) -> Callable[[Random], Sample]:
    """Users who are alike in themselves, of sizes that say nothing of their taste: no difference of the mean."""
    method = Method(draws=1000, unit="user")

    def sample(rng: Random) -> Sample:
        of_users = sizes(rng)
        users = np.repeat(np.arange(of_users.size), of_users)
        taste = rng.normal(size=(of_users.size, m))
        taste = np.exp(taste) - np.exp(0.5) if skewed else taste
        total = Contributions.of(0.03 * taste[users] + rng.normal(0, 0.1, (users.size, m)), users)
        wrong = outcomes(total, method, seeds=(), widths=np.inf).p_corrected < 0.05
        lines = [rare_kind(of_users.size, abs(mean), 1.0, method, family=m) for mean in total.mean[wrong]]
        return Sample(bool(wrong.any()), bool(lines) and all(lines))

    return sample


def by_period(
    periods: int, days: int, alike: float, innovations: Draws = Random.normal, trend: float = 0.0
) -> Callable[[Random], Sample]:
    """Days with effects of their own, one to eight queries each: no difference of the mean.

    Args:
        periods: that are the units unless joined.
        days: in each.
        alike: correlation of the effects of neighbouring days.
        innovations: of the days' effects, (n,), with mean 0 and sd 1.
        trend: how much higher the differences are in the end than in the beginning.
    """
    method = Method(draws=1000, unit="week")

    def sample(rng: Random) -> Sample:
        span = periods * days
        new = 0.1 * (1 - alike**2) ** 0.5 * innovations(rng, size=50 + span)
        effect = lfilter([1.0], [1.0, -alike], new)[50:] + trend * ((np.arange(span) + 0.5) / span - 0.5)
        day = np.repeat(np.arange(span), rng.integers(1, 9, span))
        d = effect[day] + np.where(rng.random(day.size) < 0.3, rng.normal(0, 0.3, day.size), 0.0)
        week, values = day // days, d[:, None]
        every = Contributions.of(values, week)
        left = Contributions.of(values, blocks(week, how_many(values, week)))
        found = outcomes(left, method, seeds=(), widths=np.inf)
        return Sample(bool(found.p_corrected[0] < 0.05), bool(left_open(every, left, "week", "weeks")))

    return sample


def at_the_margin(rng: Random) -> Sample:
    """A gate `< baseline - .02`, and differences that are normal about -.02."""
    found = outcomes(Contributions.of(rng.normal(-0.02, 0.1, (100, 1))), DEFAULT, seeds=(), widths=np.inf)
    return Sample(bool(found.low[0] > -0.02))


def equivalent(n: int) -> Callable[[Random], Sample]:
    """Nine differences of the margin each: is one called equivalent?"""
    method = Method(draws=1000, margin=0.02)

    def sample(rng: Random) -> Sample:
        d = 0.02 + rng.normal(0, 0.07, (n, 9)) + rng.normal(0, 0.07, (n, 1))
        return Sample(
            bool((outcomes(Contributions.of(d), method, seeds=(), widths=np.inf).p_equivalence < 0.05).any())
        )

    return sample


def equivalent_but_for_a_few(rng: Random) -> Sample:
    """D3: a loss of .006, by 1 % of queries that lose .6, and a margin of .005."""
    method = Method(draws=1000, margin=0.005)
    total = Contributions.of(np.where(rng.random((100, 1)) < 0.01, -0.6, rng.normal(0, 0.001, (100, 1))))
    line = rare_kind(100, 0.005 - abs(float(total.mean[0])), 1.0, method)
    return Sample(bool(outcomes(total, method, seeds=(), widths=np.inf).p_equivalence[0] < 0.05), bool(line))


def own_mean(draw: Callable[[Random], np.ndarray], truth: float) -> Callable[[Random], Sample]:
    """The interval of a model's own mean, of values from 0 to 1: does it miss?"""

    def sample(rng: Random) -> Sample:
        low, high = mean_intervals(Contributions.of(draw(rng)[:, None]), DEFAULT, [(0.0, 1.0)])
        return Sample(not low[0] <= truth <= high[0])

    return sample


def any_letters(draw: Callable[[Random], np.ndarray]) -> Callable[[Random], Sample]:
    """Equal models: are there two letters?"""

    def sample(rng: Random) -> Sample:
        values = draw(rng)
        ids = np.array([str(at) for at in range(len(values))])
        systems = [
            SystemResult(str(at), ids, {"mrr": column[None]}, ("1",), {"mrr": True})
            for at, column in enumerate(values.T)
        ]
        found = compare_systems(systems, ["mrr"], method=DEFAULT).letters()
        return Sample(len(set(found.groups.values())) > 1)

    return sample


def any_slice(draw: Draw) -> Callable[[Random], Sample]:
    """Two models that differ in no part: is a part called different?"""

    def sample(rng: Random) -> Sample:
        d, _ = draw(rng)
        facts = {"country": rng.choice(list("abcd"), len(d)), "rows": rng.integers(5, 100, len(d))}
        parts = query_slices(facts)
        columns = np.concatenate([np.where(part.queries[:, None], d, np.nan) for part in parts], axis=1)
        total = Contributions.of(columns)
        wrong = outcomes(total, DEFAULT, seeds=(), widths=np.inf).p_corrected < 0.05
        lines = [
            rare_kind(int(n), abs(mean), 1.0, DEFAULT, family=columns.shape[1])
            for n, mean in zip(total.units[wrong], total.mean[wrong], strict=True)
        ]
        return Sample(bool(wrong.any()), bool(lines) and all(lines))

    return sample


def found_at_detectable(n: int, m: int) -> Callable[[Random], Sample]:
    """One of m differences is as large as a sample of n queries says it must be: is it found in another sample?"""
    method = Method(draws=4000)

    def sample(rng: Random) -> Sample:
        first, second = (_normal(n, m)(rng)[0] for _ in range(2))
        spread = Spread(float(first[:, 0].var(ddof=1)))
        second[:, 0] += spread.detectable(n, alpha=method.level(m), power=0.8)
        return Sample(
            bool(outcomes(Contributions.of(second), method, seeds=(), widths=np.inf).p_corrected[0] < 0.05)
        )

    return sample


def holm_beyond_joint(draw: Draw) -> Callable[[Random], Sample]:
    """Three of nine models differ: by how much is the share larger that Holm's correction of the same test finds?"""
    method = Method(draws=4000)

    def sample(rng: Random) -> Sample:
        d = draw(rng)[0]
        d[:, :3] += 3.5 * np.sqrt(2 / len(d))
        total = Contributions.of(d)
        found = outcomes(total, method, seeds=(), widths=np.inf)
        order = np.argsort(found.p)
        steps = np.maximum.accumulate(found.p[order] * np.arange(9, 0, -1)) < 0.05
        joint = found.p_corrected < 0.05
        return Sample((np.count_nonzero(order[steps] < 3) - np.count_nonzero(joint[:3])) / 3)

    return sample


def near_one(n: int, method: Method = DEFAULT) -> Callable[[Random], Sample]:
    """D2: NDCG near 1; 3 % of queries fall by .5 and the others gain what makes the mean 0."""

    def draw(rng: Random) -> tuple[np.ndarray, float]:
        falls = rng.random((n, 1)) < 0.03
        return np.where(falls, -0.5, 0.015 / 0.97), 0.0

    return difference(draw, method=method)


def non_inferior(method: Method) -> Callable[[Random], Sample]:
    """D3: a true loss of .006, by 1 % of queries that lose .6, and a margin of .005."""

    def sample(rng: Random) -> Sample:
        d = np.where(rng.random((100, 1)) < 0.01, -0.6, rng.normal(0, 0.001, (100, 1)))
        total = Contributions.of(d)
        found = outcomes(total, method, widths=np.array([1.0]), seeds=())
        passed = bool(found.low[0] > -0.005)
        line = rare_kind(100, float(total.mean[0]) + 0.005, 1.0, method)
        return Sample(passed, bool(line))

    return sample


def data_sets(draw: Callable[[Random], list[np.ndarray]], width: float = 1.0) -> Callable[[Random], Sample]:
    """D4: the average over data sets, each with a mean of 0."""

    def sample(rng: Random) -> Sample:
        parts = draw(rng)
        total = WeightedSum(tuple(map(Contributions.of, parts)), (1 / len(parts),) * len(parts))
        found = outcomes(total, DEFAULT, seeds=(), widths=np.inf)
        wrong = bool((found.p_corrected < 0.05).any())
        line = rare_kind(
            min(map(len, parts)), float(np.abs(total.mean).max()), width, DEFAULT, family=parts[0].shape[1]
        )
        return Sample(wrong, bool(line))

    return sample


def ranks(
    noise: Callable[[Random, tuple[int, int]], np.ndarray], sizes: tuple[int, ...]
) -> Callable[[Random], Sample]:
    """D5: five equal models; is any left out of those that may be best?"""

    def sample(rng: Random) -> Sample:
        one, other = np.triu_indices(5, 1)
        parts = []
        for n in sizes:
            values = noise(rng, (n, 5))
            parts.append(values[:, one] - values[:, other])
        total = WeightedSum(tuple(map(Contributions.of, parts)), (1 / len(parts),) * len(parts))
        found = outcomes(total, DEFAULT, seeds=(), widths=np.inf)
        wrong = found.p_corrected < 0.05
        lines = [rare_kind(min(sizes), abs(mean), 1.0, DEFAULT, family=10) for mean in total.mean[wrong]]
        return Sample(bool(wrong.any()), bool(lines) and all(lines))

    return sample


def cheap(rare: float, hardest: bool) -> Callable[[Random], Sample]:
    """D6: cheap labels of 2,000 queries beside human ones of 100, where few queries differ."""

    def sample(rng: Random) -> Sample:
        differs = rng.random(2000) < rare
        c = np.where(differs, rng.normal(0.3, 0.2, 2000), 0.0)
        d = np.where(differs, c + rng.normal(0, 0.1, 2000), 0.0)
        truth = 0.3 * rare
        chosen = np.argsort(-c + rng.normal(0, 0.05, 2000))[:100] if hardest else rng.permutation(2000)[:100]
        rest = np.setdiff1d(np.arange(2000), chosen)
        if not chosen_at_random(c[chosen, None], c[rest, None], DEFAULT):
            return Sample(hardest is False, True)
        found = powered(d[chosen, None], c[chosen, None], c[rest, None])
        ends = outcomes(found.total, DEFAULT, seeds=(), widths=np.inf)
        wrong = not ends.low[0] <= truth <= ends.high[0]
        line = rare_kind(100, abs(float(found.total.mean[0])), 1.0, DEFAULT)
        return Sample(wrong, bool(line))

    return sample


def seeds(r: int, spread: tuple[float, float], collapse: float = 0.0) -> Callable[[Random], Sample]:
    """Two methods alike on average, trained with r seeds each; a training may collapse."""

    def sample(rng: Random) -> Sample:
        query = rng.normal(size=100)
        sides = []
        for sd in spread:
            of_seed = sd * rng.normal(size=(r, 1)) - 0.8 * (rng.random((r, 1)) < collapse)
            sides.append(0.2 * query + of_seed + 0.1 * rng.normal(size=(r, 100)))
        if collapse:  # the other method is as good on average, without collapses
            sides[1] = (
                0.2 * query
                + spread[1] * rng.normal(size=(r, 1))
                - 0.8 * collapse
                + 0.1 * rng.normal(size=(r, 100))
            )
        d = (sides[0].mean(axis=0) - sides[1].mean(axis=0))[:, None]
        methods = method_difference(*sides)
        found = outcomes(Contributions.of(d), DEFAULT, seeds=[methods], widths=np.inf)
        return Sample(bool(found.p_corrected[0] < 0.05))

    return sample


def arms(n: int, sd: float, n_other: int, sd_other: float) -> Callable[[Random], Sample]:
    """D8: two arms of an experiment whose users' lognormal values spread unlike around one mean."""

    def sample(rng: Random) -> Sample:
        one, other = (
            np.exp(spread * rng.normal(size=(size, 1)) - spread**2 / 2)
            for size, spread in ((n, sd), (n_other, sd_other))
        )
        apart = WeightedSum((Contributions.of(one), Contributions.of(other)), (1.0, -1.0))
        wrong = bool(outcomes(apart, DEFAULT, seeds=(), widths=np.inf).p_corrected[0] < 0.05)
        line = rare_kind(min(n, n_other), abs(float(apart.mean[0])), np.inf, DEFAULT)
        return Sample(wrong, wrong and bool(line))

    return sample


def _normal(n: int, m: int) -> Draw:
    return lambda rng: (rng.normal(size=(n, m)) + rng.normal(size=(n, 1)), 0.0)


def _lognormal(n: int, m: int, sd: float = 0.6) -> Draw:
    centre = np.exp(sd**2 / 2)
    return lambda rng: (0.1 * (np.exp(sd * rng.normal(size=(n, m))) - centre), 0.0)


def _rare_losses(n: int, m: int) -> Draw:
    def draw(rng: Random) -> tuple[np.ndarray, float]:
        return np.where(rng.random((n, m)) < 0.04, -0.48, 0.02), 0.0

    return draw


def _ties(n: int, share: float) -> Draw:
    return lambda rng: (np.where(rng.random((n, 1)) < share, 0.0, rng.normal(0, 0.2, (n, 1))), 0.0)


def _mostly_ties(rng: Random, size: tuple[int, int]) -> np.ndarray:
    return np.where(rng.random(size) < 0.9, 0.0, rng.random(size))


def _heavy(rng: Random, size: tuple[int, int]) -> np.ndarray:
    return 0.05 * np.exp(rng.normal(size=size))


def _independent(rng: Random) -> tuple[np.ndarray, float]:
    return rng.normal(0, 2**0.5, (100, 9)), 0.0


def _variants(rng: Random) -> np.ndarray:
    """Eight variants of one model and two rankers of another kind."""
    own = [rng.normal(0, 0.005, (100, 8)), rng.normal(0, 0.15, (100, 2))]
    return rng.normal(0.5, 0.2, (100, 1)) + np.concatenate(own, axis=1)


def _sparse(rng: Random) -> np.ndarray:
    return np.where(rng.random((60, 6)) < 0.1, rng.random((60, 6)), 0.5)


def _exponential(rng: Random, size: int) -> np.ndarray:
    return rng.exponential(size=size) - 1


def _one_in_five(rng: Random, size: int) -> np.ndarray:
    return np.where(rng.random(size) < 0.2, rng.normal(0, 5**0.5, size), 0.0)


def _clipped(draw: Draw) -> Draw:
    def clipped(rng: Random) -> tuple[np.ndarray, float]:
        d, truth = draw(rng)
        return np.clip(d, -1, 1), truth

    return clipped


def worlds() -> Iterator[World]:
    """Every row, in the order of the table."""
    yield from _of_one_set()
    yield from _of_time()
    yield from _of_gates()
    yield from _of_several_sets()
    yield from _of_seeds()
    yield from _of_power()
    yield from _of_bets()


def _of_one_set() -> Iterator[World]:
    false = "false verdicts"
    yield World("symmetric differences, 20 queries", false, difference(_normal(20, 1)))
    yield World("symmetric differences, nine models, 60 queries", false, difference(_normal(60, 9)))
    yield World("moderately skewed (lognormal, sd .6), 50 queries", false, difference(_lognormal(50, 1)))
    yield World("the same, nine models", false, difference(_lognormal(50, 9)), unless_said=True)
    yield World(
        "D1: heavily skewed (lognormal, sd 1), 50 queries",
        false,
        difference(_lognormal(50, 1, 1.0)),
        unless_said=True,
    )
    yield World(
        "D1: 4 % of 50 queries lose .48, the others gain .02",
        false,
        difference(_rare_losses(50, 1)),
        unless_said=True,
    )
    yield World(
        "the same, nine models, 100 queries", false, difference(_rare_losses(100, 9)), unless_said=True
    )
    equal, unlike = (
        lambda rng: np.full(20, 10),
        lambda rng: np.minimum((rng.pareto(1.2, size=60) + 1).astype(int), 80),
    )
    yield World("20 users of ten queries each, skewed", false, by_unit(equal), unless_said=True)
    yield World("D1: 60 users of very unlike size", false, by_unit(unlike, skewed=False))
    yield World("D1: the same, nine models", false, by_unit(unlike, 9, skewed=False))
    yield World("D1: the same, nine models, skewed", false, by_unit(unlike, 9), unless_said=True)
    for n in (20, 30, 60):
        yield World(f"D2: NDCG near 1, 3 % fall by .5, {n} queries", false, near_one(n), unless_said=True)
    for share in (0.8, 0.9, 0.95):
        yield World(f"{100 * share:.0f} % of 200 queries tie", false, difference(_ties(200, share)))
    yield World("letters: eight variants and two other rankers", "two letters", any_letters(_variants))
    yield World("letters: six models, 90 % ties", "two letters", any_letters(_sparse), unless_said=True)
    yield World("slices: 14 parts, symmetric, 200 queries", false, any_slice(_normal(200, 2)))
    yield World(
        "slices: 14 parts, 4 % lose .48, 200 queries",
        false,
        any_slice(_rare_losses(200, 2)),
        unless_said=True,
    )
    missed = "intervals that miss"
    yield World("mean of 20 values of beta(4, 2)", missed, own_mean(lambda rng: rng.beta(4, 2, 20), 2 / 3))
    yield World(
        "mean of 40 values, 3 % of .5 and the others 1",
        missed,
        own_mean(lambda rng: np.where(rng.random(40) < 0.03, 0.5, 1.0), 0.985),
    )


def _of_time() -> Iterator[World]:
    kinds: tuple[tuple[str, int, float, Draws, float], ...] = (
        ("weeks", 7, 0.0, Random.normal, 0.0),
        ("weeks with a trend", 7, 0.0, Random.normal, 0.1),
        ("weeks, skewed", 7, 0.0, _exponential, 0.0),
        ("weeks, days alike by .8", 7, 0.8, Random.normal, 0.0),
        ("weeks, days alike by .8, skewed", 7, 0.8, _exponential, 0.0),
        ("weeks, days alike by .8, one in five moves", 7, 0.8, _one_in_five, 0.0),
        ("days alike by .5", 1, 0.5, Random.normal, 0.0),
        ("days alike by .5, skewed", 1, 0.5, _exponential, 0.0),
        ("days alike by .5, with a trend", 1, 0.5, Random.normal, 0.1),
        ("days alike by .8", 1, 0.8, Random.normal, 0.0),
        ("days alike by .8, skewed", 1, 0.8, _exponential, 0.0),
    )
    for name, *rest in kinds:
        for periods in (20, 40, 50, 80, 100):
            sample, few = by_period(periods, *rest), periods < ENOUGH
            yield World(f"time: {periods} {name}", "false verdicts", sample, 0.075, unless_said=few)


def _of_gates() -> Iterator[World]:
    yield World(
        "D3: gate at a margin of .005, 1 % lose .6, 100 queries",
        "gates passed in error",
        non_inferior(DEFAULT),
        at_most=0.025,
        unless_said=True,
    )
    yield World(
        "D3: the same gate, `bounded`",
        "gates passed in error",
        non_inferior(BETS),
        at_most=0.025,
        samples=200,
    )
    yield World(
        "D3: equivalence at a margin of .005, 1 % lose .6, 100 queries",
        "called equivalent",
        equivalent_but_for_a_few,
        at_most=0.05,
        unless_said=True,
    )
    yield World(
        "gate at a margin that is the true loss, symmetric, 100 queries",
        "gates passed in error",
        at_the_margin,
        at_most=0.0325,
    )
    yield World(
        "nine models at the margin of equivalence, 400 queries", "any called equivalent", equivalent(400)
    )


def _of_several_sets() -> Iterator[World]:
    false = "false verdicts"
    yield World(
        "D4: two data sets, rare gains",
        false,
        data_sets(lambda rng: [np.where(rng.random((n, 1)) < 0.04, 0.48, -0.02) for n in (25, 200)]),
        unless_said=True,
    )
    yield World(
        "two data sets far apart in size, symmetric",
        false,
        data_sets(lambda rng: [rng.normal(size=(n, 3)) for n in (20, 500)]),
    )
    yield World(
        "D5: five equal models, 90 % ties, 100 + 200 queries",
        "a model left out of the best",
        ranks(_mostly_ties, (100, 200)),
        samples=500,
    )
    yield World(
        "D5: five equal models, lognormal, 50 + 50 queries",
        "a model left out of the best",
        ranks(_heavy, (50, 50)),
        samples=500,
    )
    yield World(
        "D6: cheap labels, 20 % of queries differ", "intervals that miss", cheap(0.2, False), unless_said=True
    )
    yield World(
        "D6: cheap labels, 5 % of queries differ", "intervals that miss", cheap(0.05, False), unless_said=True
    )
    yield World("D6: human labels of the hardest queries", "not refused", cheap(0.2, True), at_most=0.01)
    yield World("D8: arms of 60 and 200 users of unlike spread, lognormal", false, arms(60, 1.0, 200, 0.3))
    for n, sd, sd_other in ((20, 0.5, 1.0), (60, 0.5, 1.0), (60, 0.5, 1.5), (200, 0.5, 1.5)):
        name = f"D8: arms of {n} users, lognormal, sd {sd:g} and {sd_other:g}"
        yield World(name, false, arms(n, sd, n, sd_other), unless_said=True)


def _of_seeds() -> Iterator[World]:
    false = "false verdicts"
    for r in (2, 3, 5, 10):
        yield World(f"{r} seeds each, alike", false, seeds(r, (0.05, 0.05)))
    for r in (2, 3, 5, 10):
        yield World(f"{r} seeds each of unlike spread", false, seeds(r, (0.02, 0.2)))
    yield World(
        "2 seeds each, one model spreads as its queries do, the other not", false, seeds(2, (0.001, 0.05))
    )
    yield World(
        "3 seeds each, one training in ten collapses",
        false,
        seeds(3, (0.02, 0.02), collapse=0.1),
        unless_said=True,
    )


def _of_power() -> Iterator[World]:
    for n, m in ((50, 1), (100, 1), (100, 9)):
        name = f"a difference as large as `detectable` says, {n} queries, {m} model{'s' * (m > 1)}"
        yield World(
            name,
            "found",
            found_at_detectable(n, m),
            at_least=0.77,
            at_most=0.83,
            samples=1000 if m == 1 else 400,
        )
    for kind, draw in (("half of the variance shared", _normal(100, 9)), ("independent", _independent)):
        yield World(
            f"three of nine models differ, {kind}, 100 queries",
            "found by Holm, not by `joint`",
            holm_beyond_joint(draw),
            at_most=0.02,
            samples=250,
        )


def _of_bets() -> Iterator[World]:
    """Every skewed world once more: strictly."""
    for n in (20, 100, 400):
        skewed = {
            "lognormal, sd .6": _lognormal(n, 1),
            "lognormal, sd 1": _lognormal(n, 1, 1.0),
            "4 % lose .48": _rare_losses(n, 1),
            "95 % ties": _ties(n, 0.95),
            "nine models, 4 % lose .48": _rare_losses(n, 9),
        }
        for kind, draw in skewed.items():
            yield World(
                f"`bounded`: {kind}, {n} queries",
                "false verdicts",
                difference(_clipped(draw), method=BETS),
                at_most=0.055,
                samples=200,
            )
        yield World(
            f"`bounded`: NDCG near 1, 3 % fall by .5, {n} queries",
            "false verdicts",
            near_one(n, BETS),
            at_most=0.055,
            samples=200,
        )


def table(times: float, only: str = "") -> tuple[str, bool]:
    """The table as Markdown, and whether every promise was kept."""
    rows = [
        "| world | counted | promised | measured | error | said beside them | |",
        "|---|---|--:|--:|--:|--:|---|",
    ]
    whole = True
    for world in worlds():
        if only not in world.name:
            continue
        kept = measure(world, times)
        whole &= kept.held
        promised = f"at most {100 * world.at_most:.3g} %" if world.at_least < 0 else _between(world)
        said = f"{100 * kept.said:.0f} %" if kept.wrong and world.unless_said else ""
        rows.append(
            f"| {world.name} | {world.counted} | {promised}{', or said' * world.unless_said} | "
            f"{100 * kept.wrong:.1f} % | {100 * kept.error:.1f} | {said} | "
            f"{'kept' if kept.held else '**not kept**'} |"
        )
        print(rows[-1], flush=True)
    return "\n".join(rows), whole


def _between(world: World) -> str:
    return f"{100 * world.at_least:.3g} to {100 * world.at_most:.3g} %"


def cost_of_bets(n: int, sd: float, samples: int = 20) -> float:
    """Half-width of the interval by bets over that by t, for normal differences of a metric from 0 to 1."""
    rng = np.random.default_rng(n)
    ratios = []
    for _ in range(samples):
        total = Contributions.of(np.clip(rng.normal(0, sd, (n, 1)), -1, 1))
        bets, t = (
            outcomes(total, Method(test=test), widths=np.ones(1), seeds=()) for test in ("bounded", "t")
        )
        ratios.append(float((bets.high - bets.low)[0] / (t.high - t.low)[0]))
    return float(np.mean(ratios))


def missed_losers(n: int, test: Test, samples: int = 200) -> float:
    """Share of intervals that miss the mean of -.006 where 1 % of queries lose .6 and the others nothing."""
    rng = np.random.default_rng(n)
    missed = 0
    for _ in range(samples):
        total = Contributions.of(np.where(rng.random((n, 1)) < 0.01, -0.6, 0.0))
        found = outcomes(total, Method(test=test, draws=1000), widths=np.ones(1), seeds=())
        missed += not found.low[0] <= -0.006 <= found.high[0]
    return missed / samples


def costs() -> str:
    """What `bounded` costs and what it buys, as Markdown."""
    rows = [
        "| queries | sd .05 | sd .15 | 1 % of losers: `bounded` misses | the default misses |",
        "|--:|--:|--:|--:|--:|",
    ]
    for n in (50, 200, 1000, 5000):
        strict, usual = (missed_losers(n, test) for test in ("bounded", "skew-adjusted"))
        wide = " | ".join(f"{cost_of_bets(n, sd):.1f}" for sd in (0.05, 0.15))
        rows.append(f"| {n:,} | {wide} | {100 * strict:.1f} % | {100 * usual:.1f} % |")
        print(rows[-1], flush=True)
    return "\n".join(rows)


def write(page: Path, mark: str, text: str) -> None:
    """Puts a table between its marks."""
    head, opened, rest = page.read_text(encoding="utf-8").partition(f"<!-- {mark} -->\n")
    if not opened:
        raise SystemExit(f"{page}: no line <!-- {mark} -->")
    rest = rest.partition("<!-- end -->")[2]
    page.write_text(f"{head}{opened}\n{text}\n\n<!-- end -->{rest}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=float, default=1.0, help="so many times the samples of each world")
    parser.add_argument("--only", default="", help="worlds whose names hold this")
    parser.add_argument("--write", action="store_true", help="write the tables into the pages")
    options = parser.parse_args()
    if options.write and options.only:
        parser.error("--write writes all worlds, not --only some")
    text, whole = table(options.times, options.only)
    if not options.only:
        bets = costs()
    if options.write:
        write(DOCS / "promises.md", "table", text)
        write(DOCS / "statistics.md", "cost of bets", bets)
    if not whole:
        raise SystemExit("a promise was not kept")


if __name__ == "__main__":
    main()
