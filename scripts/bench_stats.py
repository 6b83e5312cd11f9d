"""The time of a comparison's statistics beside the usual alternatives, on the same arrays.

    python scripts/bench_stats.py [--models 10] [--metrics 7] [--queries 6000] [--draws 10000]

The others are timed on a few pairs and metrics, and scaled to all of them: their time is proportional to
their number. Ratios above 1 mean that ltr_harness is faster.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable

import numpy as np

from ltr_harness.comparison.stats.cluster_sums import ClusterSums
from ltr_harness.comparison.stats.families import mean_intervals, outcomes
from ltr_harness.comparison.stats.method import Method

SAMPLE = 2  # columns on which the others are timed


def seconds(function: Callable[[], object]) -> float:
    """The better of two runs; one if it is long."""
    times: list[float] = []
    while not times or (len(times) < 2 and times[0] < 5):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def numpy_loop(d: np.ndarray, draws: int) -> list[float]:
    """Flip signs as a careful person writes it: one pair at a time, in blocks that fit in memory."""
    found = []
    for column in d.T:
        rng = np.random.default_rng(0)
        reach, count = abs(column.sum()), 0
        for start in range(0, draws, 1000):
            signs = rng.integers(0, 2, size=(min(1000, draws - start), column.size), dtype=np.int8) * 2 - 1
            count += int(np.sum(np.abs(signs @ column) >= reach))
        found.append((count + 1) / (draws + 1))
    return found


def scipy_test(first: np.ndarray, second: np.ndarray, draws: int) -> list[float]:
    from scipy.stats import permutation_test

    def statistic(x: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
        return np.mean(x, axis=axis) - np.mean(y, axis=axis)

    return [
        permutation_test(
            (x, y),
            statistic,
            permutation_type="samples",
            n_resamples=draws,
            batch=200,
            vectorized=True,
            rng=np.random.default_rng(0),
        ).pvalue
        for x, y in zip(first.T, second.T, strict=True)
    ]


def ranx_test(first: np.ndarray, second: np.ndarray, draws: int) -> list[float] | None:
    try:
        from ranx.statistical_tests import fisher_randomization_test
    except ImportError:
        return None
    return [
        fisher_randomization_test(x, y, n_permutations=draws, max_p=0.01, random_seed=0)
        for x, y in zip(first.T, second.T, strict=True)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in (("models", 10), ("metrics", 7), ("queries", 6000), ("draws", 10_000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()

    rng = np.random.default_rng(1)
    query = rng.beta(0.6, 0.6, size=(args.queries, 1, args.metrics))
    values = np.clip(query + rng.normal(0, 0.1, size=(args.queries, args.models, args.metrics)), 0, 1)
    pairs = list(itertools.combinations(range(args.models), 2))
    first, second = (
        np.moveaxis(values[:, [pair[side] for pair in pairs]], 2, 1).reshape(args.queries, -1)
        for side in (0, 1)
    )
    d = first - second  # metric by metric: the pairs of one are a family
    families = [slice(start, start + len(pairs)) for start in range(0, d.shape[1], len(pairs))]
    columns = d.shape[1]
    print(
        f"{args.models} models, {len(pairs)} pairs x {args.metrics} metrics = {columns} columns, "
        f"{args.queries} queries, {args.draws} draws"
    )

    def tested(**options: object) -> Callable[[], object]:
        method = Method(**{"draws": args.draws, **options})
        return lambda: outcomes(
            ClusterSums.of(d), method, families=families, widths=np.ones(columns), seeds=()
        )

    ours = seconds(tested(test="permutation"))
    print(f"\n{'sign flips, all columns':44}{'seconds':>10}{'ratio':>9}")
    print(f"{'ltr_harness':44}{ours:10.2f}{1:9.1f}")

    few = slice(0, SAMPLE)
    rivals: list[tuple[str, Callable[[], object]]] = [
        ("NumPy, one pair at a time", lambda: numpy_loop(d[:, few], args.draws)),
        ("scipy.stats.permutation_test", lambda: scipy_test(first[:, few], second[:, few], args.draws)),
    ]
    ranx_test(first[:, few], second[:, few], 10)  # compiles
    if ranx_test(first[:, few], second[:, few], 10) is None:
        print("ranx is not installed: left out")
    else:
        rivals.append(("ranx Fisher test", lambda: ranx_test(first[:, few], second[:, few], args.draws)))
    for name, function in rivals:
        elapsed = seconds(function) * columns / SAMPLE
        print(f"{name + f' (from {SAMPLE} columns)':44}{elapsed:10.2f}{elapsed / ours:9.1f}")

    print(f"\n{'beside it':44}{'seconds':>10}")
    for name, function in (
        ("skew-adjusted, joint (the default)", tested()),
        ("bootstrap", tested(test="bootstrap")),
        ("t", tested(test="t")),
        ("bounded", tested(test="bounded")),
        (
            "intervals of means",
            lambda: mean_intervals(ClusterSums.of(values.reshape(args.queries, -1)), Method()),
        ),
    ):
        print(f"{name:44}{seconds(function):10.2f}")


if __name__ == "__main__":
    main()
