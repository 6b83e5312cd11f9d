"""Coverage of the intervals of `ltr-harness agreement` in simulated worlds: two tables of docs/maintainers/promises.md.

python scripts/agreement_coverage.py              print the tables
python scripts/agreement_coverage.py --write      write them into docs/maintainers/promises.md
python scripts/agreement_coverage.py --samples 50 --experiments 10,20    fewer samples and worlds
"""

from __future__ import annotations

import argparse
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from ltr_harness import agreement
from ltr_harness.errors import DataError
from ltr_harness.experiments.compare.errors_in_variables import Interval
from ltr_harness.experiments.compare.online_agreement import MetricOnline

DOCS = Path(__file__).parents[1] / "docs" / "maintainers" / "promises.md"
MEAN, ONLINE_MEAN = 0.5, 0.3  # of the true effects, whose standard deviations are 1
ERROR, ONLINE_ERROR = 0.5, 0.7  # median standard errors
ALIKE = 0.5  # correlation of the errors of two metrics, and of what is theirs alone
KINDS = (
    "equal errors", "unequal errors", "unequal, heavy tails", "winners alone", "winners, corrected",
    "three in four do nothing",
)  # fmt: skip
NUMBERS = ("correlation", "slope", "same_signs", "positive", "needed")
Task = tuple[int, str, Sequence[float], int]  # experiments, world, true correlation of each metric, samples


def draw_effects(rng: np.random.Generator, n: int, rho: float, kind: str) -> tuple[np.ndarray, ...]:
    """True effects (u, v), measured (x, y) and standard errors (s, t): (n,) each."""
    heavy, winners = "heavy" in kind, "winners" in kind
    size = 12 * n + 100 if winners else n
    spread = 0.0 if kind == KINDS[0] else 0.6
    s, t = (typical * np.exp(spread * rng.normal(size=size)) for typical in (ERROR, ONLINE_ERROR))
    a, b = rng.normal(size=(2, size)) * (np.sqrt(3 / rng.chisquare(5, size=size)) if heavy else 1.0)
    e, f = rng.standard_t(5, size=(2, size)) * 0.6**0.5 if heavy else rng.normal(size=(2, size))
    u, v = MEAN + a, ONLINE_MEAN + rho * a + (1 - rho**2) ** 0.5 * b
    if "nothing" in kind:
        u, v = np.array([2 * a, 2 * (rho * a + (1 - rho**2) ** 0.5 * b)]) * (rng.random(size) >= 0.75)
    x, y = u + s * e, v + t * f
    rows = np.flatnonzero(x > 0)[:n] if winners else np.arange(n)
    return tuple(column[rows] for column in (u, v, x, s, y, t))


@cache
def truth(rho: float, kind: str) -> Callable[[MetricOnline], tuple[float, ...]]:
    """Return the true values of a sample's intervals: for the winners if they are uncorrected, else for all ideas."""
    rng = np.random.default_rng(1)
    ideas = kind if "nothing" in kind else KINDS[2 if "heavy" in kind else 0]
    u, v, *_ = draw_effects(rng, 400_000, rho, kind if kind == KINDS[3] else ideas)
    fixed = float(np.corrcoef(u, v)[0, 1]), rho, float(np.mean(u * v > 0))
    u, v, *_ = draw_effects(rng, 40_000, rho, ideas)
    errors, grid = ERROR * np.exp(np.linspace(-0.9, 0.9, 7)), np.linspace(-2, 12, 113)
    table = []
    for error in errors:  # P(online > 0) at measured differences
        z = (grid[:, None] - u) / error
        density = (1 + z**2 / 3) ** -3 if "heavy" in kind else np.exp(-(z**2) / 2)
        table.append((density * (v > 0)).sum(axis=1) / density.sum(axis=1))

    def true_values(metric: MetricOnline) -> tuple[float, ...]:
        chance = [float(np.interp(metric.error, errors, chances)) for chances in np.transpose(table)]
        needed = np.inf if rho <= 0 else float(np.interp(0.9, np.maximum.accumulate(chance), grid))
        return *fixed, float(np.interp(metric.difference, grid, chance)), needed

    return true_values


def holds(ends: Interval | None, value: float) -> float:
    """Return 1 if the interval holds the value, else 0; NaN where the interval is not given."""
    return np.nan if ends is None else float(ends.low <= value <= ends.high)


def share(held: np.ndarray) -> str:
    """Return the share of the given intervals that hold the truth, and the share given, in percent."""
    given = ~np.isnan(held)
    percentage = f"{100 * held[given].mean():.1f}" if given.sum() >= 0.05 * held.size else "–"
    return percentage if given.all() else f"{percentage} ({100 * given.mean():.0f})"


def one_metric(task: Task) -> str:
    """A row: the mean naive correlation, and how often the interval of each number holds the truth."""
    n, kind, (rho,), samples = task
    rng = np.random.default_rng(zlib.crc32(f"{n} {rho} {kind}".encode()))
    held, naive = np.full((samples, len(NUMBERS)), np.nan), np.full(samples, np.nan)
    for sample in range(samples):
        _, _, x, s, y, t = draw_effects(rng, n, rho, kind)
        past = pd.DataFrame({"experiment": np.arange(n), "online": y, "online_se": t, "m": x, "m_se": s})
        try:
            (metric,) = agreement(past, tested_if="m > 0" if kind == KINDS[4] else None).metrics
        except DataError:  # refused
            continue
        naive[sample] = metric.naive
        true = truth(rho, kind)(metric)
        held[sample] = [
            holds(getattr(metric, name), value) for name, value in zip(NUMBERS, true, strict=True)
        ]
    if np.isnan(naive).all():
        return f"| {n} | {kind} | {rho:g} | refused |" + " |" * len(NUMBERS)
    shares = " | ".join(share(column) for column in held.T)
    return f"| {n} | {kind} | {rho:g} | {np.nanmean(naive):.2f} | {shares} |"


def two_metrics(task: Task) -> str:
    """A row: how often the interval of the difference of two correlations holds it, or shows one to be higher."""
    n, kind, rhos, samples = task
    rng = np.random.default_rng(zlib.crc32(f"{n} {rhos} {kind}".encode()))
    factor = np.linalg.cholesky([[1, ALIKE], [ALIKE, 1]])
    held, separated = np.full((2, samples), np.nan)
    for sample in range(samples):
        _, v, _, s, y, t = draw_effects(rng, n, 0.0, kind)
        effects, error = factor @ rng.normal(size=(2, 2, n))
        past = pd.DataFrame({"experiment": np.arange(n), "online": y, "online_se": t})
        for name, rho, e, f in zip("ab", rhos, effects, error, strict=True):
            past[name] = MEAN + rho * (v - ONLINE_MEAN) + (1 - rho**2) ** 0.5 * e + s * f
            past[f"{name}_se"] = s
        try:
            (pair,) = agreement(past).pairs
        except DataError:
            continue
        true = rhos[0] - rhos[1] if pair.first == "a" else rhos[1] - rhos[0]
        held[sample], separated[sample] = holds(pair.difference, true), pair.difference.low > 0
    return (
        f"| {n} | {kind} | {rhos[0]:g} and {rhos[1]:g} | {share(held)} | {100 * np.nanmean(separated):.0f} |"
    )


def table(head: Sequence[str], row: Callable[[Task], str], tasks: Sequence[Task]) -> str:
    lines = [f"| {' | '.join(head)} |", "|--:|---|" + "--:|" * (len(head) - 2)]
    print("\n".join(lines), flush=True)
    with ProcessPoolExecutor(2) as pool:
        for line in pool.map(row, tasks):
            print(line, flush=True)
            lines.append(line)
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--experiments", default="10,20,50,200")
    parser.add_argument(
        "--worlds", default="", help="those of the first table whose name has this, and no more"
    )
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    many, samples = [int(n) for n in given.experiments.split(",")], given.samples
    head = [
        "experiments",
        "world",
        "true",
        "naive",
        "correlation",
        "slope",
        "same sign",
        "P(online > 0)",
        "needed",
    ]
    kinds = [kind for kind in KINDS if given.worlds in kind]
    tasks = [(n, kind, (rho,), samples) for n in many for kind in kinds for rho in (0.0, 0.3, 0.8, 1.0)]
    singles = table(head, one_metric, tasks)
    if given.worlds:
        return
    pairs = [(0.3, 0.3), (0.8, 0.8), (0.8, 0.3), (1.0, 0.8)]
    tasks = [(n, KINDS[1], rhos, samples) for n in many for rhos in pairs]
    differences = table(["experiments", "world", "true", "difference", "shown %"], two_metrics, tasks)
    if given.write:
        before, _, rest = DOCS.read_text(encoding="utf-8").partition("<!-- agreement -->\n")
        after = rest.partition("<!-- end of agreement -->")[2]
        tables = f"<!-- agreement -->\n\n{singles}\n\n{differences}\n\n<!-- end of agreement -->"
        DOCS.write_text(before + tables + after, encoding="utf-8")


if __name__ == "__main__":
    main()
