"""Level and power of tests that could be the default, in many worlds: docs/maintainers/statistics-in-depth.md.

    python scripts/default_test.py [--samples 1000] [--queries 20,50,200]

Each world is a distribution of per-query differences with mean 0. Level: how often a test finds a difference there.
Power: how often it finds one of 2.8 standard errors, in the right direction: 80 % where all is normal.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ltr_harness.comparison.stats.cluster_sums import ClusterSums
from ltr_harness.comparison.stats.families import outcomes
from ltr_harness.comparison.stats.method import Method

Floats = NDArray[np.float64]
World = Callable[[np.random.Generator, tuple[int, int]], Floats]
SIZES = (12, 20, 50, 100, 200, 400, 1000)
EFFECT = 2.8  # standard errors
DRAWS = 1000
TRUTHS = (0, 0.5, 1, 2, 4)  # means of worlds whose standard deviation is about 1
COVERED = ("normal", "exponential", "lognormal losses")


def rare_effects(share: float, size: float, noise: float = 0.05) -> World:
    """Differences of which a share is moved by `size`, and the others so far the other way that the mean is 0."""

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
        moved = np.where(rng.random(shape) < share, size, 0.0) - share * size
        return moved + noise * rng.normal(size=shape)

    return draw


def ties(share: float) -> World:
    """Normal differences of which a share is 0."""
    return lambda rng, shape: np.where(rng.random(shape) < share, 0.0, rng.normal(size=shape))


def reciprocal_ranks(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Differences of 1 / rank, where the rank moves by up to a few places."""
    ranks = rng.geometric(0.4, size=(2, *shape))
    return 1 / ranks[0] - 1 / ranks[1]


def successes(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Differences of success@1: 15 % of queries gain it, as many lose it."""
    return rng.choice([-1.0, 0.0, 1.0], p=[0.15, 0.7, 0.15], size=shape)


# the rarest kind of query that a world has, as a share of all; 1 where it has no kinds
WORLDS: dict[str, tuple[World, float]] = {
    "normal": (lambda rng, shape: rng.normal(size=shape), 1),
    "uniform": (lambda rng, shape: rng.uniform(-1, 1, size=shape), 1),
    "t with 3 degrees of freedom": (lambda rng, shape: rng.standard_t(3, size=shape), 1),
    "exponential": (lambda rng, shape: rng.exponential(size=shape) - 1, 1),
    "exponential losses": (lambda rng, shape: 1 - rng.exponential(size=shape), 1),
    "lognormal": (lambda rng, shape: rng.lognormal(sigma=0.7, size=shape) - np.exp(0.245), 1),
    "lognormal losses": (lambda rng, shape: np.exp(0.245) - rng.lognormal(sigma=0.7, size=shape), 1),
    "10 % lose 0.3": (rare_effects(0.1, -0.3), 0.1),
    "10 % gain 0.3": (rare_effects(0.1, 0.3), 0.1),
    "3 % lose 0.5": (rare_effects(0.03, -0.5), 0.03),
    "90 % ties": (ties(0.9), 0.1),
    "98 % ties": (ties(0.98), 0.02),
    "reciprocal ranks": (reciprocal_ranks, 1),
    "success@1": (successes, 0.15),
}


def flips(test: str) -> Callable[[Floats], NDArray[np.bool_]]:
    """Find differences by a test of the harness, each column by itself."""

    def found(d: Floats) -> NDArray[np.bool_]:
        alone = [slice(column, column + 1) for column in range(d.shape[1])]
        method = Method(test, draws=DRAWS)  # type: ignore[arg-type]
        return outcomes(ClusterSums.of(d), method, seeds=(), widths=np.inf, families=alone).p < method.alpha

    return found


def signed_ranks(d: Floats) -> NDArray[np.bool_]:
    """Find differences by Wilcoxon's signed ranks."""
    with np.errstate(all="ignore"):
        p = stats.wilcoxon(d, axis=0, zero_method="wilcox", method="approx").pvalue
    return np.nan_to_num(p, nan=1.0) < 0.05


TESTS: dict[str, Callable[[Floats], NDArray[np.bool_]]] = {
    "sign flips": flips("permutation"),
    "skew-adjusted": flips("skew-adjusted"),
    "t": lambda d: ClusterSums.of(d).t_p < 0.05,
    "signed ranks": signed_ranks,
}


def measure_tests(world: World, n: int, samples: int, seed: int) -> dict[str, tuple[float, float]]:
    """Level and power of each test, in percent."""
    rng = np.random.default_rng(seed)
    spread = float(world(rng, (100_000, 1)).std())
    d = world(rng, (n, samples))
    d = np.where(np.abs(d) < 1e-12, 0.0, d)
    gain = EFFECT * spread / np.sqrt(n)
    differing = d != 0
    moved = np.where(differing, d + gain / differing.mean(), 0.0)
    right = moved.mean(axis=0) > 0
    return {
        name: (100 * float(test(d).mean()), 100 * float((test(moved) & right).mean()))
        for name, test in TESTS.items()
    }


def table(sizes: Sequence[int], samples: int) -> list[str]:
    """Lines of the table: a world and a number of queries in each row."""
    lines = [f"| world | queries | {' | '.join(TESTS)} |", "|---|--:|" + "--:|" * len(TESTS)]
    for number, (name, (world, share)) in enumerate(WORLDS.items()):
        for n in sizes:
            unseen = "\\*" if share < 1 - 0.05 ** (1 / n) else ""
            cells = [
                f"{level:.1f}/{power:.0f}"
                for level, power in measure_tests(world, n, samples, number).values()
            ]
            lines.append(f"| {name}{unseen} | {n:,} | {' | '.join(cells)} |")
            print(lines[-1], file=sys.stderr, flush=True)
    return lines


def miss_rates(world: World, n: int, samples: int) -> tuple[float, float]:
    """Least and most 95 % intervals of the default test that miss, in percent, over several true means."""
    alone = [slice(column, column + 1) for column in range(samples)]
    d = world(np.random.default_rng(n), (n, samples))
    shares = []
    for truth in TRUTHS:
        sample, method = ClusterSums.of(d + truth), Method(draws=DRAWS)
        found = outcomes(sample, method, seeds=(), widths=np.inf, families=alone)
        shares.append(100 * float(((found.low > truth) | (found.high < truth)).mean()))
    return min(shares), max(shares)


def coverage(sizes: Sequence[int], samples: int) -> list[str]:
    """Lines of the table of intervals: a world in each row."""
    lines = [f"| queries | {' | '.join(map(str, sizes))} |", "|---|" + "--:|" * len(sizes)]
    for name in COVERED:
        ends = [miss_rates(WORLDS[name][0], n, samples) for n in sizes]
        lines.append(f"| {name} | {' | '.join(f'{low:.1f} to {high:.1f}' for low, high in ends)} |")
    return lines


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=1000, help="samples of each world (default 1000)")
    parser.add_argument("--queries", default=",".join(map(str, SIZES)), help="numbers of queries")
    parser.add_argument("--coverage", action="store_true", help="how many intervals miss, instead")
    given = parser.parse_args()
    make = coverage if given.coverage else table
    print("\n".join(make([int(n) for n in given.queries.split(",")], given.samples)))


if __name__ == "__main__":
    main()
