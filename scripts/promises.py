"""The promises of comparisons measured in simulated worlds: docs/maintainers/promises.md, and the costs of bets.

The truth of each world is known. A promise names its range: how many queries (users, days), and which worlds. It is
kept in each of them or not made. Outside the range nothing is promised, and the measured rate stands there. Where the
first samples of a world say that a promise is not kept, four times as many decide.

    python scripts/promises.py             print the tables
    python scripts/promises.py --write     write them into docs/maintainers/promises.md
    python scripts/promises.py --times 4   four times as many samples of each world
    python scripts/promises.py --only gate the promises whose names hold this
"""

from __future__ import annotations

import argparse
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from default_test import WORLDS as SHAPES
from scipy.signal import lfilter

from ltr_harness._util.text import count_of, plural
from ltr_harness.comparison import across_data_sets, compare
from ltr_harness.comparison.cheap_labels import chosen_at_random, powered
from ltr_harness.comparison.comparison import Comparison
from ltr_harness.comparison.contrasts import SystemResult, detectable_difference, spread_of
from ltr_harness.comparison.over_time import ENOUGH, blocks, how_many
from ltr_harness.comparison.slices import slice_results
from ltr_harness.comparison.stats.cluster_sums import ClusterSums, LinearCombination
from ltr_harness.comparison.stats.families import mean_intervals, outcomes
from ltr_harness.comparison.stats.method import Method, Test
from ltr_harness.comparison.stats.seeds import method_difference

DOCS = Path(__file__).parents[1] / "docs"
DEFAULT = Method(draws=1000)
BETS = Method(test="bounded")
ARMS = Method(test="skew-adjusted", draws=1000)  # of an experiment's arms
FAR = (0.0, 0.5, 1.0, 2.0, 4.0)
Floats = np.ndarray
Random = np.random.Generator
Draw = Callable[[Random, tuple[int, int]], Floats]
# what is counted of one sample: whether it is wrong, or a share; the float is how far the truth lies from 0, in sd
Sample = Callable[[Random, float], float]


@dataclass(frozen=True)
class World:
    """One row of a table.

    Attributes:
        name: what the world is like.
        units: how many queries, or users, or periods, a sample has.
        sample: what is counted of one of them.
        rarest: the share of the rarest kind of query, which `units` are counted of.
    """

    name: str
    units: int
    sample: Sample
    rarest: float = 1.0


@dataclass(frozen=True)
class Promise:
    """One table: what is promised, where, and the worlds inside and outside the range.

    Attributes:
        name: its heading.
        counted: what of the samples, in words.
        where: which worlds, in words.
        worlds: the rows.
        fewest: units of the rarest kind, on average, from which on it is promised.
        at_most: the largest share that is promised.
        at_least: the smallest.
        far: the truths of each world, in standard deviations.
        samples: how many are drawn of each world.
        unit: what `units` are, one of them.
    """

    name: str
    counted: str
    where: str
    worlds: tuple[World, ...]
    fewest: int = 20
    at_most: float = 0.065
    at_least: float = -1.0
    far: tuple[float, ...] = (0.0,)
    samples: int = 500
    unit: str = "query"

    def holds_in(self, world: World) -> bool:
        """Return whether a world is in the range."""
        return round(world.units * world.rarest, 9) >= self.fewest

    def is_kept(self, share: float, noise: float = 0.0) -> bool:
        """Return whether a measured share is one that is promised."""
        return self.at_least - noise <= share <= self.at_most + noise

    def measure(self, world: World, far: float, times: float = 1) -> float:
        """The share counted of a world's samples; the random numbers are its own."""
        rng = np.random.default_rng(zlib.crc32(f"{self.name}/{world.name}/{world.units}/{far}".encode()))
        first = max(round(self.samples * times), 16)  # of which one may be wrong
        drawn = [world.sample(rng, far) for _ in range(first)]
        if self.holds_in(world) and not self.is_kept(float(np.mean(drawn))):
            drawn += [world.sample(rng, far) for _ in range(3 * first)]
        return float(np.mean(drawn))

    @property
    def sentence(self) -> str:
        """The promise and its worlds, in words."""
        counted = self.counted[0].upper() + self.counted[1:]
        return f"{counted}: {self.bound}, from {count_of(self.fewest, self.unit)} on. Worlds: {self.where}."

    @property
    def bound(self) -> str:
        """The shares that are promised."""
        if self.at_least < 0:
            return f"at most {100 * self.at_most:.3g} %"
        return f"{100 * self.at_least:.3g} to {100 * self.at_most:.3g} %"


# --- one sample ---


@cache
def spread(shape: str) -> float:
    """The standard deviation of a shape's differences."""
    return float(SHAPES[shape][0](np.random.default_rng(0), (1_000_000, 1)).std())


def of_shape(shape: str) -> Draw:
    """Differences with mean 0 and standard deviation 1."""

    def draw(rng: Random, size: tuple[int, int]) -> Floats:
        d = SHAPES[shape][0](rng, size) / spread(shape)
        return np.where(np.abs(d) < 1e-12, 0.0, d)

    return draw


def half_shared(rng: Random, size: tuple[int, int]) -> Floats:
    """Normal differences of models from a baseline that is as noisy as they are."""
    return (rng.normal(size=size) + rng.normal(size=(size[0], 1))) / 2**0.5


def misses(
    estimate: ClusterSums | LinearCombination,
    truth: float,
    method: Method = DEFAULT,
    width: float = np.inf,
) -> float:
    """Return 1 where an interval of the family misses the truth (a false verdict where that is 0), else 0."""
    found = outcomes(estimate, method, seeds=(), widths=width)
    return float(((found.low > truth) | (found.high < truth)).any())


def of_queries(draw: Draw, n: int, models: int = 1) -> Sample:
    """Differences of some models from a baseline."""

    def sample(rng: Random, far: float) -> float:
        return misses(ClusterSums.of(draw(rng, (n, models)) + far), far)

    return sample


def of_users(sizes: Callable[[Random], Floats], taste: Draw, models: int = 1, share: float = 0.09) -> Sample:
    """Users of sizes that say nothing of their taste, which has a share of the variance of their queries."""

    def sample(rng: Random, far: float) -> float:
        of_user = sizes(rng)
        user = np.repeat(np.arange(of_user.size), of_user)
        d = share**0.5 * taste(rng, (of_user.size, models))[user]
        d += (1 - share) ** 0.5 * rng.normal(size=(user.size, models))
        return misses(ClusterSums.of(d + far, user), far, replace(DEFAULT, unit="user"))

    return sample


def of_periods(
    periods: int, days: int, correlation: float, innovations: Draw, trend: float = 0.0, weekend: float = 0.0
) -> Sample:
    """Days with effects of their own, one to eight queries each.

    Args:
        periods: that are the units unless joined.
        days: in each.
        correlation: of the effects of neighbouring days.
        innovations: of the days' effects.
        trend: how much higher the differences are in the end than in the beginning.
        weekend: how much higher they are on Saturday and Sunday.
    """

    def sample(rng: Random, far: float) -> float:
        span = np.arange(periods * days)
        new = 0.1 * (1 - correlation**2) ** 0.5 * innovations(rng, (50 + span.size, 1))[:, 0]
        weekly = np.where(span % 7 > 4, weekend, 0.0)
        effect = lfilter([1.0], [1.0, -correlation], new)[50:] + trend * ((span + 0.5) / span.size - 0.5)
        effect += weekly - weekly.mean()
        day = np.repeat(span, rng.integers(1, 9, span.size))
        d = effect[day] + np.where(rng.random(day.size) < 0.3, rng.normal(0, 0.3, day.size), 0.0)
        period, truth = day // days, 0.2 * far
        number = how_many(d[:, None], period)
        left = ClusterSums.of(d[:, None] + truth, blocks(period, number))
        return misses(left, truth, replace(DEFAULT, unit="week"))

    return sample


def compare_values(values: Floats, **attributes: Floats) -> Comparison:
    """A comparison of models with (n, models) values of one metric, the first of which is the baseline."""
    ids = np.array([f"q{number}" for number in range(len(values))])
    systems = [
        SystemResult(
            f"m{number}", ids, {"mrr": column[None]}, ("1",), {"mrr": True}, query_attributes=attributes
        )
        for number, column in enumerate(values.T)
    ]
    return compare(*systems, draws=DEFAULT.draws)


def any_letters(draw: Callable[[Random], Floats]) -> Sample:
    """Equal models: are there two letters?"""

    def sample(rng: Random, far: float) -> float:
        return float(len({*compare_values(draw(rng)).letters().groups.values()}) > 1)

    return sample


def any_slice(draw: Draw, n: int) -> Sample:
    """Three models that differ in no part: is a part called different?"""

    def sample(rng: Random, far: float) -> float:
        d = 0.1 * draw(rng, (n, 3))
        d[:, 0] = 0
        found = compare_values(0.5 + d, country=rng.choice(list("abcd"), n), rows=rng.integers(5, 100, n))
        return float(any(part.verdict in ("better", "worse") for part in slice_results(found)))

    return sample


def own_mean(draw: Callable[[Random], Floats], truth: float) -> Sample:
    """The interval of a model's own mean, of values from 0 to 1: does it miss?"""

    def sample(rng: Random, far: float) -> float:
        (low,), (high,) = mean_intervals(ClusterSums.of(draw(rng)[:, None]), DEFAULT, [(0.0, 1.0)])
        return float(not low <= truth <= high)

    return sample


def at_the_margin(draw: Draw, n: int, method: Method = DEFAULT) -> Sample:
    """A gate `< baseline - m` whose model loses m: does it pass?"""

    def sample(rng: Random, far: float) -> float:
        d = np.clip(0.05 * (draw(rng, (n, 1)) - far), -1, 1)
        found = outcomes(ClusterSums.of(d), method, seeds=(), widths=1.0)
        return float(found.low[0] > -0.05 * far)

    return sample


def equivalence_sample(draw: Draw, n: int, models: int = 1) -> Sample:
    """Differences of the margin each: is one called equivalent?"""

    def sample(rng: Random, far: float) -> float:
        total = ClusterSums.of(draw(rng, (n, models)) + far)
        found = outcomes(total, replace(DEFAULT, margin=far), seeds=(), widths=np.inf)
        return float((found.p_equivalence < DEFAULT.alpha).any())

    return sample


def of_sets(draw: Draw, sizes: tuple[int, ...]) -> Sample:
    """Two models on several data sets, equal on each: is one better or worse on average?"""

    def sample(rng: Random, far: float) -> float:
        each = {}
        for number, n in enumerate(sizes):
            values = 0.5 + np.clip(0.1 * draw(rng, (n, 2)), -0.5, 0.5)
            values[:, 0] = rng.uniform(0.4999, 0.5001)
            each[str(number)] = compare_values(values)
        average = across_data_sets(each).models
        return float(
            any(
                difference.average and difference.average.verdict in ("better", "worse")
                for difference in average
            )
        )

    return sample


def ranks(draw: Draw, sizes: tuple[int, ...]) -> Sample:
    """Five equal models on several data sets: is any left out of those that may be best?"""

    def sample(rng: Random, far: float) -> float:
        each = {str(number): compare_values(0.1 * draw(rng, (n, 5))) for number, n in enumerate(sizes)}
        return float(any(model.first_rank > 1 for model in across_data_sets(each).models))

    return sample


def cheap_label_sample(differing: float, hardest: bool = False) -> Sample:
    """Cheap labels of 2,000 queries beside human ones of 100, drawn by chance or where the judge sees a loss."""

    def sample(rng: Random, far: float) -> float:
        differs = rng.random(2000) < differing
        c = np.where(differs, rng.normal(0.3, 0.2, 2000), 0.0)
        d = np.where(differs, c + rng.normal(0, 0.1, 2000), 0.0)
        order = np.argsort(-c + rng.normal(0, 0.05, 2000)) if hardest else rng.permutation(2000)
        chosen, rest = order[:100], order[100:]
        random = chosen_at_random(c[chosen, None], c[rest, None], DEFAULT)
        if hardest:
            return float(random)
        found = powered(d[chosen, None], c[chosen, None], c[rest, None])
        return float(not random or misses(found.total, 0.3 * differing))

    return sample


def of_seeds(r: int, spreads: tuple[float, float], collapse: float = 0.0) -> Sample:
    """Two methods alike on average, trained with r seeds each; a training of the first may collapse."""

    def sample(rng: Random, far: float) -> float:
        query = 0.2 * rng.normal(size=100)
        sides = []
        for sd, fails in zip(spreads, (collapse, 0.0), strict=True):
            luck = sd * rng.normal(size=(r, 1)) - 0.8 * ((rng.random((r, 1)) < fails) - fails)
            sides.append(query + luck + 0.1 * rng.normal(size=(r, 100)))
        d = (sides[0].mean(axis=0) - sides[1].mean(axis=0))[:, None]
        found = outcomes(ClusterSums.of(d), DEFAULT, seeds=[method_difference(*sides)], widths=np.inf)
        return float(found.p_corrected[0] < DEFAULT.alpha)

    return sample


def of_arms(n: int, sd: float, n_other: int, sd_other: float) -> Sample:
    """Two arms of an experiment whose users' lognormal values spread unlike around one mean."""

    def sample(rng: Random, far: float) -> float:
        first, second = (
            np.exp(spread * rng.normal(size=(size, 1)) - spread**2 / 2)
            for size, spread in ((n, sd), (n_other, sd_other))
        )
        contrast = LinearCombination((ClusterSums.of(first), ClusterSums.of(second)), (1.0, -1.0))
        return misses(contrast, 0.0, ARMS)

    return sample


def found_at_detectable(draw: Draw, n: int, models: int = 1) -> Sample:
    """A gain as large as a sample says it must be to be found in 80 %: is it found in another sample?"""

    def sample(rng: Random, far: float) -> float:
        size = np.nan
        while np.isnan(size):
            first = ClusterSums.of(draw(rng, (n, 1)))
            facts = spread_of(first, n, None, DEFAULT, np.inf)
            size = detectable_difference(facts, n, DEFAULT.level(models), np.inf, True)
        d = draw(rng, (n, models))
        differs = d[:, 0] != 0
        d[differs, 0] += size / max(float(np.mean(first.sums != 0)), 1 / n)
        found = outcomes(ClusterSums.of(d), DEFAULT, seeds=(), widths=np.inf)
        return float(found.p_corrected[0] < DEFAULT.alpha and found.low[0] > 0)

    return sample


def holm_beyond_joint(draw: Draw) -> Sample:
    """Three of nine models differ: by how much is the share larger that Holm's correction of the same test finds?"""

    def sample(rng: Random, far: float) -> float:
        d = draw(rng, (100, 9))
        d[:, :3] += 3.5 / len(d) ** 0.5
        found = outcomes(ClusterSums.of(d), replace(DEFAULT, draws=4000), seeds=(), widths=np.inf)
        order = np.argsort(found.p)
        steps = np.maximum.accumulate(found.p[order] * np.arange(9, 0, -1)) < 0.05
        joint = found.p_corrected < 0.05
        return float(np.count_nonzero(order[steps] < 3) - np.count_nonzero(joint[:3])) / 3

    return sample


def by_bets(draw: Draw, n: int, models: int = 1) -> Sample:
    """Differences of a metric from 0 to 1, compared strictly."""

    def sample(rng: Random, far: float) -> float:
        d = np.clip(0.1 * draw(rng, (n, models)), -1, 1)
        return misses(ClusterSums.of(d), 0.0, BETS, 1.0)

    return sample


# --- the worlds ---


def promises() -> Iterator[Promise]:
    """Every table, in the order of the page."""
    yield from _of_one_set()
    yield from _of_families()
    yield from _of_units()
    yield from _of_time()
    yield from _of_margins()
    yield from _of_several_sets()
    yield from _of_others()
    yield from _of_power()
    yield from _of_bets()


def _of_one_set() -> Iterator[Promise]:
    def worlds(sizes: dict[str, tuple[int, ...]]) -> tuple[World, ...]:
        return tuple(
            World(shape, n, of_queries(of_shape(shape), n), SHAPES[shape][1])
            for shape, numbers in sizes.items()
            for n in numbers
        )

    yield Promise(
        "One difference",
        "intervals that miss",
        "differences without long tails",
        worlds(
            {
                "normal": (12, 20, 50, 200),
                "t with 3 degrees of freedom": (12, 20, 50, 200),
                "reciprocal ranks": (20, 50),
                "success@1": (20, 200),
                "90 % ties": (50, 200),
                "10 % gain 0.3": (20, 50, 200),
                "10 % lose 0.3": (20, 50, 200),
                "3 % lose 0.5": (20, 200, 700),
            }
        ),
        far=FAR,
        samples=1000,
    )
    yield Promise(
        "One difference with long tails",
        "intervals that miss",
        "exponential and lognormal differences (sd of the logarithm .7), to either side",
        worlds(
            {
                "exponential": (12, 20, 50, 100, 200),
                "exponential losses": (100,),
                "lognormal": (12, 20, 50, 100, 200),
                "lognormal losses": (100,),
            }
        ),
        fewest=100,
        far=FAR,
    )
    yield Promise(
        "Means of models",
        "intervals that miss",
        "values from 0 to 1",
        (
            World("beta(4, 2)", 20, own_mean(lambda rng: rng.beta(4, 2, 20), 2 / 3)),
            World("beta(.5, 3)", 20, own_mean(lambda rng: rng.beta(0.5, 3, 20), 1 / 7)),
            World("reciprocal ranks", 20, own_mean(lambda rng: 1 / rng.geometric(0.5, 20), np.log(2))),
            World(
                "3 % are .5 and the others 1",
                40,
                own_mean(lambda rng: np.where(rng.random(40) < 0.03, 0.5, 1.0), 0.985),
            ),
        ),
        samples=1000,
    )


def _of_families() -> Iterator[Promise]:
    shapes: dict[str, tuple[Draw, float]] = {
        "normal": (of_shape("normal"), 1.0),
        "normal, half of the noise shared": (half_shared, 1.0),
        "90 % ties": (of_shape("90 % ties"), 0.1),
    }
    yield Promise(
        "Nine models at once",
        "samples in which one of nine intervals misses",
        "differences without long tails",
        tuple(
            World(name, n, of_queries(draw, n, 9), rarest)
            for name, (draw, rarest) in shapes.items()
            for n in (20, 50, 200)
        ),
        far=FAR,
        samples=1000,
    )
    hard = {"exponential": (200, 2000), "lognormal": (50, 200, 2000), "10 % lose 0.3": (20, 200, 2000)}
    yield Promise(
        "Nine models with long tails or rare kinds",
        "samples in which one of nine intervals misses",
        "exponential and lognormal differences, and losses of one query in ten",
        tuple(
            World(shape, n, of_queries(of_shape(shape), n, 9)) for shape, sizes in hard.items() for n in sizes
        ),
        fewest=2000,
        far=FAR,
    )

    def variants(rng: Random) -> Floats:
        """Eight variants of one model and two rankers of another kind."""
        differences = [rng.normal(0, 0.005, (100, 8)), rng.normal(0, 0.15, (100, 2))]
        return rng.normal(0.5, 0.2, (100, 1)) + np.concatenate(differences, axis=1)

    def sparse(n: int) -> Callable[[Random], Floats]:
        return lambda rng: np.where(rng.random((n, 6)) < 0.1, rng.random((n, 6)), 0.5)

    yield Promise(
        "Letters",
        "samples of equal models with two letters",
        "differences without long tails",
        (
            World("eight variants of one model and two other rankers", 100, any_letters(variants)),
            World("six models, 90 % of the values alike", 60, any_letters(sparse(60)), 0.1),
            World("six models, 90 % of the values alike", 200, any_letters(sparse(200)), 0.1),
        ),
        samples=200,
    )
    yield Promise(
        "Slices",
        "samples in which a part of equal models differs",
        "7 parts of a few queries to all, differences without long tails and without rare kinds",
        (
            World("normal", 200, any_slice(of_shape("normal"), 200)),
            World("reciprocal ranks", 200, any_slice(of_shape("reciprocal ranks"), 200)),
            World("10 % lose 0.3", 200, any_slice(of_shape("10 % lose 0.3"), 200), 0.1 / 7),
            World("3 % lose 0.5", 200, any_slice(of_shape("3 % lose 0.5"), 200), 0.03 / 7),
        ),
        samples=200,
    )


def _of_units() -> Iterator[Promise]:
    def ten_each(n: int) -> Callable[[Random], Floats]:
        return lambda rng: np.full(n, 10)

    def pareto_sizes(n: int) -> Callable[[Random], Floats]:
        return lambda rng: np.minimum((rng.pareto(1.2, size=n) + 1).astype(int), 80)

    def mostly_zero(rng: Random, size: tuple[int, int]) -> Floats:
        """Four users in five have no taste."""
        return np.where(rng.random(size) < 0.8, 0.0, rng.normal(0, 5**0.5, size))

    normal, tailed = of_shape("normal"), of_shape("lognormal")
    yield Promise(
        "Units: users",
        "intervals that miss, of nine one or more",
        "normal effects of users",
        (
            World("of ten queries each", 10, of_users(ten_each(10), normal)),
            World("of ten queries each", 20, of_users(ten_each(20), normal)),
            World("of ten queries each", 60, of_users(ten_each(60), normal)),
            World("of ten queries each, nine models", 60, of_users(ten_each(60), normal, 9)),
            World("of 1 to 80 queries", 60, of_users(pareto_sizes(60), normal)),
            World("of 1 to 80 queries, nine models", 60, of_users(pareto_sizes(60), normal, 9)),
            World("of 1 to 80 queries", 200, of_users(pareto_sizes(200), normal)),
            World(
                "of ten alike queries, four in five users at 0",
                40,
                of_users(ten_each(40), mostly_zero, 1, 1.0),
                0.2,
            ),
            World(
                "of ten alike queries, four in five users at 0",
                200,
                of_users(ten_each(200), mostly_zero, 1, 1.0),
                0.2,
            ),
        ),
        far=FAR,
        unit="user",
        samples=1000,
    )
    yield Promise(
        "Units: users with long tails",
        "intervals that miss",
        "lognormal effects of users",
        (
            World("of ten queries each", 20, of_users(ten_each(20), tailed)),
            World("of ten queries each", 100, of_users(ten_each(100), tailed)),
            World("of 1 to 80 queries", 200, of_users(pareto_sizes(200), tailed)),
        ),
        fewest=100,
        far=FAR,
        unit="user",
    )
    yield Promise(
        "Units: users with long tails, nine models",
        "samples in which one of nine intervals misses",
        "lognormal effects of users",
        (
            World("of 1 to 80 queries", 60, of_users(pareto_sizes(60), tailed, 9)),
            World("of 1 to 80 queries", 200, of_users(pareto_sizes(200), tailed, 9)),
            World("of 1 to 80 queries", 1000, of_users(pareto_sizes(1000), tailed, 9)),
            World("of 1 to 80 queries", 5000, of_users(pareto_sizes(5000), tailed, 9)),
        ),
        fewest=5000,
        unit="user",
    )


def _of_time() -> Iterator[Promise]:
    normal, tailed = of_shape("normal"), of_shape("exponential")

    def one_in_five(rng: Random, size: tuple[int, int]) -> Floats:
        return np.where(rng.random(size) < 0.2, rng.normal(0, 5**0.5, size), 0.0)

    kinds: dict[str, tuple[int, float, Draw, float, float]] = {
        "weeks": (7, 0.0, normal, 0.0, 0.0),
        "weeks with a trend": (7, 0.0, normal, 0.1, 0.0),
        "weeks, days alike by .8": (7, 0.8, normal, 0.0, 0.0),
        "weeks, days alike by .8, long tails": (7, 0.8, tailed, 0.0, 0.0),
        "weeks, days alike by .8, one in five moves": (7, 0.8, one_in_five, 0.0, 0.0),
        "days with a weekly pattern": (1, 0.0, normal, 0.0, 0.1),
        "days alike by .5": (1, 0.5, normal, 0.0, 0.0),
        "days alike by .5, with a trend": (1, 0.5, normal, 0.1, 0.0),
        "days alike by .5, long tails": (1, 0.5, tailed, 0.0, 0.0),
        "days alike by .8": (1, 0.8, normal, 0.0, 0.0),
        "days alike by .8, long tails": (1, 0.8, tailed, 0.0, 0.0),
    }
    yield Promise(
        "Units: days and weeks",
        "false verdicts",
        "neighbouring days that are alike by up to .8, a trend, a weekly pattern",
        tuple(
            World(name, periods, of_periods(periods, *kind))
            for name, kind in kinds.items()
            for periods in ((20, 50) if name.startswith("weeks") else (20, 50, 80))
        ),
        fewest=ENOUGH,
        at_most=0.075,
        unit="period",
    )


def _of_margins() -> Iterator[Promise]:
    normal, losses = of_shape("normal"), of_shape("lognormal losses")
    rare = of_shape("10 % lose 0.3")
    yield Promise(
        "Gates at the margin",
        "samples in which a model passes whose loss is the margin",
        "margins of .1, 1 and 3 standard deviations, differences without long tails or rare losses",
        tuple(World("normal", n, at_the_margin(normal, n)) for n in (12, 20, 50, 200)),
        at_most=0.0325,
        far=(0.1, 1.0, 3.0),
        samples=1000,
    )
    yield Promise(
        "Gates where losses have long tails or are rare",
        "samples in which a model passes whose loss is the margin",
        "the same margins",
        (
            *(World("lognormal losses", n, at_the_margin(losses, n)) for n in (20, 50, 100, 400, 5000)),
            *(World("10 % lose 0.3", n, at_the_margin(rare, n)) for n in (20, 200, 5000)),
        ),
        fewest=5000,
        at_most=0.0325,
        far=(0.1, 1.0, 3.0),
    )
    yield Promise(
        "Equivalence at the margin",
        "samples in which a difference of the margin is called equivalent, of nine one or more",
        "margins of .1, .5 and 2 standard deviations",
        (
            World("normal", 20, equivalence_sample(normal, 20)),
            World("normal", 200, equivalence_sample(normal, 200)),
            World("normal, nine models", 50, equivalence_sample(half_shared, 50, 9)),
            World("normal, nine models", 400, equivalence_sample(half_shared, 400, 9)),
        ),
        far=(0.1, 0.5, 2.0),
        samples=1000,
    )


def _of_several_sets() -> Iterator[Promise]:
    def draw_lognormal(rng: Random, size: tuple[int, int]) -> Floats:
        return of_shape("lognormal")(rng, size)

    normal, ties, rare = of_shape("normal"), of_shape("90 % ties"), of_shape("10 % gain 0.3")
    yield Promise(
        "Several data sets",
        "samples in which equal models differ on average, or one is left out of those that may be best",
        "queries of the smallest data set, differences without long tails",
        (
            World("one difference, 20 + 500 queries, normal", 20, of_sets(normal, (20, 500))),
            World("one difference, 30 + 100 queries, 90 % ties", 30, of_sets(ties, (30, 100)), 0.1),
            World("one difference, 25 + 200 queries, 10 % gain 0.3", 25, of_sets(rare, (25, 200)), 0.1),
            World("five models, 50 + 50 queries, normal", 50, ranks(normal, (50, 50))),
            World("five models, 50 + 50 queries, lognormal", 50, ranks(draw_lognormal, (50, 50)), 0.2),
            World("five models, 100 + 200 queries, 90 % ties", 100, ranks(ties, (100, 200)), 0.1),
            World("five models, 200 + 200 queries, 90 % ties", 200, ranks(ties, (200, 200)), 0.1),
        ),
        samples=200,
    )


def _of_others() -> Iterator[Promise]:
    yield Promise(
        "Cheap labels",
        "intervals that miss",
        "human labels drawn by chance",
        (
            World("all queries differ", 100, cheap_label_sample(1.0)),
            World("20 % of queries differ", 100, cheap_label_sample(0.2), 0.2),
            World("5 % of queries differ", 100, cheap_label_sample(0.05), 0.05),
        ),
    )
    yield Promise(
        "Cheap labels of a choice",
        "samples that pass the check of chance",
        "human labels where the judge sees the largest losses",
        (World("20 % of queries differ", 100, cheap_label_sample(0.2, hardest=True)),),
        at_most=0.01,
        samples=200,
    )
    spreads = (
        (20, 0.5, 20, 1.0),
        (60, 0.5, 60, 1.0),
        (60, 0.5, 60, 1.5),
        (60, 1.0, 200, 0.3),
        (200, 0.5, 200, 1.0),
        (200, 0.5, 200, 1.5),
        (1000, 0.5, 1000, 1.5),
    )
    yield Promise(
        "Arms of an experiment",
        "false verdicts",
        "lognormal values per user, whose logarithms have standard deviations of up to 1.5",
        tuple(
            World(f"{n:,} of sd {sd:g} and {other:,} of sd {sd_other:g}", n, of_arms(n, sd, other, sd_other))
            for n, sd, other, sd_other in spreads
        ),
        fewest=200,
        unit="user",
    )
    same_mean = tuple(
        World(f"{kind}, {r} each", r, of_seeds(r, spreads))
        for kind, spreads in (
            ("alike", (0.05, 0.05)),
            ("of unlike spread", (0.02, 0.2)),
            ("that spread as queries do, and such that hardly do", (0.001, 0.05)),
        )
        for r in (2, 3, 5, 10)
    )
    collapse = tuple(
        World(f"of which one in ten collapses, {r} each", r, of_seeds(r, (0.02, 0.02), 0.1), 0.1)
        for r in (3, 10)
    )
    yield Promise(
        "Training seeds",
        "false verdicts on methods",
        "100 queries, and luck that is normal",
        (*same_mean, *collapse),
        fewest=2,
        unit="seed",
    )


def _of_power() -> Iterator[Promise]:
    sizes = {
        "normal": (20, 100, 400),
        "t with 3 degrees of freedom": (100, 400),
        "10 % lose 0.3": (100, 600),
        "10 % gain 0.3": (100, 600),
        "90 % ties": (600,),
    }
    yield Promise(
        "What could have been shown",
        "gains of the size of `detectable` that are found",
        "one model or nine",
        (
            World("normal, nine models", 100, found_at_detectable(half_shared, 100, 9)),
            *(
                World(shape, n, found_at_detectable(of_shape(shape), n), SHAPES[shape][1])
                for shape, numbers in sizes.items()
                for n in numbers
            ),
        ),
        at_least=0.77,
        at_most=0.83,
        fewest=50,
        samples=1000,
    )
    yield Promise(
        "The joint test beside Holm's correction",
        "points more that Holm's correction finds",
        "three of nine models differ",
        (
            World("half of the noise shared", 100, holm_beyond_joint(half_shared)),
            World("independent", 100, holm_beyond_joint(of_shape("normal"))),
        ),
        at_most=0.02,
        samples=250,
    )


def _of_bets() -> Iterator[Promise]:
    def gate(rng: Random, far: float) -> float:
        """A loss of a standard deviation, and a gate there: 10 % of the queries make it up."""
        return at_the_margin(of_shape("10 % lose 0.3"), 100, BETS)(rng, 1.0)

    shapes = ("normal", "lognormal", "lognormal losses", "10 % lose 0.3", "3 % lose 0.5", "98 % ties")
    yield Promise(
        "`test: bounded`",
        "false verdicts, and gates passed in error",
        "all worlds",
        (
            *(World(shape, n, by_bets(of_shape(shape), n)) for shape in shapes for n in (20, 100, 400)),
            World("3 % lose 0.5, nine models", 100, by_bets(of_shape("3 % lose 0.5"), 100, 9)),
            World("a gate at the margin, 10 % lose 0.3", 100, gate),
        ),
        fewest=1,
        at_most=0.055,
        samples=200,
    )


# --- the pages ---


def table(promise: Promise, times: float = 1) -> tuple[str, bool]:
    """A promise's heading, sentence and table as Markdown, and whether it was kept."""
    is_single = len(promise.far) == 1
    heads = ["measured"] if is_single else [f"{far:g} sd" for far in promise.far]
    lines = [
        f"### {promise.name}",
        f"{promise.sentence} {max(round(promise.samples * times), 20):,} samples each.",
        "",
        f"| world | {plural(promise.unit, 2)} | {' | '.join(heads)} | promised |",
        f"|---|--:|{'--:|' * len(heads)}---|",
    ]
    lines.insert(1, "")
    all_kept = True
    for world in promise.worlds:
        shares = [promise.measure(world, far, times) for far in promise.far]
        promised = promise.holds_in(world)
        all_kept &= not promised or all(map(promise.is_kept, shares))
        cells = " | ".join(f"{100 * share:.1f}" for share in shares)
        word = promise.bound if promised else "nothing"
        lines.append(f"| {world.name} | {world.units:,} | {cells} | {word} |")
        print(lines[-1], flush=True)
    return "\n".join(lines), all_kept


def cost_of_bets(n: int, sd: float, samples: int = 20) -> float:
    """Half-width of the interval by bets over that by t, for normal differences of a metric from 0 to 1."""
    rng = np.random.default_rng(n)
    ratios = []
    for _ in range(samples):
        total = ClusterSums.of(np.clip(rng.normal(0, sd, (n, 1)), -1, 1))
        bets, t = (
            outcomes(total, Method(test=test), widths=np.ones(1), seeds=()) for test in ("bounded", "t")
        )
        ratios.append(float((bets.high - bets.low)[0] / (t.high - t.low)[0]))
    return float(np.mean(ratios))


def missed_losers(n: int, test: Test, samples: int = 200) -> float:
    """Share of intervals that miss the mean of -.006 where 1 % of queries lose .6 and the others vary by .01."""
    rng = np.random.default_rng(n)
    missed = 0
    for _ in range(samples):
        total = ClusterSums.of(np.where(rng.random((n, 1)) < 0.01, -0.6, rng.normal(0, 0.01, (n, 1))))
        found = outcomes(total, Method(test=test, draws=1000), widths=np.ones(1), seeds=())
        missed += not found.low[0] <= -0.006 <= found.high[0]
    return missed / samples


def costs() -> str:
    """Return the costs and the gains of `bounded` as a Markdown table."""
    rows = [
        "| queries | sd .05 | sd .15 | 1 % of losers: `bounded` misses | the default misses |",
        "|--:|--:|--:|--:|--:|",
    ]
    for n in (50, 200, 1000, 5000):
        strict, usual = (missed_losers(n, test) for test in ("bounded", DEFAULT.test))
        wide = " | ".join(f"{cost_of_bets(n, sd):.1f}" for sd in (0.05, 0.15))
        rows.append(f"| {n:,} | {wide} | {100 * strict:.1f} % | {100 * usual:.1f} % |")
        print(rows[-1], flush=True)
    return "\n".join(rows)


def write(page: Path, mark: str, text: str) -> None:
    """Put a table between its marks."""
    head, opened, rest = page.read_text(encoding="utf-8").partition(f"<!-- {mark} -->\n")
    if not opened:
        raise SystemExit(f"{page}: no line <!-- {mark} -->")
    rest = rest.partition("<!-- end -->")[2]
    page.write_text(f"{head}{opened}\n{text}\n\n<!-- end -->{rest}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=float, default=1.0, help="so many times the samples of each world")
    parser.add_argument("--only", default="", help="promises whose names hold this")
    parser.add_argument("--write", action="store_true", help="write the tables into the pages")
    options = parser.parse_args()
    if options.write and options.only:
        parser.error("--write writes all promises, not --only some")
    tables, failed_names = [], []
    for promise in promises():
        if options.only not in promise.name:
            continue
        print(f"\n{promise.name}: {promise.sentence}", flush=True)
        text, holds = table(promise, options.times)
        tables.append(text)
        failed_names += [] if holds else [promise.name]
    bets = "" if options.only else costs()
    if failed_names:
        raise SystemExit(f"not kept, and nothing is written: {', '.join(failed_names)}")
    if options.write:
        write(DOCS / "maintainers" / "promises.md", "table", "\n\n".join(tables))
        write(DOCS / "maintainers" / "promises.md", "cost of bets", bets)


if __name__ == "__main__":
    main()
