"""How often the intervals of `ltr-harness agreement` hold the truth, in simulated worlds: a table of docs/promises.md.

python scripts/agreement_coverage.py              print the table
python scripts/agreement_coverage.py --write      write it into docs/promises.md
python scripts/agreement_coverage.py --samples 400 --experiments 10,20    fewer worlds
"""

from __future__ import annotations

import argparse
import zlib
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from ltr_harness.stats.errors_in_variables import Interval, TrueEffects

DOCS = Path(__file__).parents[1] / "docs" / "promises.md"
MEAN, ONLINE_MEAN = 0.5, 0.3  # of the true effects, whose standard deviations are 1
ERROR, ONLINE_ERROR = 0.5, 0.7  # median standard errors
AT = 1.0  # the measured offline difference that is asked about
KINDS = ("equal errors", "unequal errors", "unequal, heavy tails", "winners alone", "winners, corrected")
NAMES = ("correlation", "slope", "same sign", "P(online > 0)", "needed")


def drawn(rng: np.random.Generator, n: int, rho: float, kind: str) -> tuple[np.ndarray, ...]:
    """True effects (u, v), measured (x, y) and standard errors (s, t): (n,) each."""
    heavy, winners = "heavy" in kind, "winners" in kind
    size = 12 * n + 100 if winners else n
    spread = 0.0 if kind == KINDS[0] else 0.6
    s, t = (typical * np.exp(spread * rng.normal(size=size)) for typical in (ERROR, ONLINE_ERROR))
    a, b = rng.normal(size=(2, size)) * (np.sqrt(3 / rng.chisquare(5, size=size)) if heavy else 1.0)
    e, f = rng.standard_t(5, size=(2, size)) * 0.6**0.5 if heavy else rng.normal(size=(2, size))
    u, v = MEAN + a, ONLINE_MEAN + rho * a + (1 - rho**2) ** 0.5 * b
    x, y = u + s * e, v + t * f
    kept = np.flatnonzero(x > 0)[:n] if winners else np.arange(n)
    return tuple(column[kept] for column in (u, v, x, s, y, t))


def truth(rho: float, kind: str) -> tuple[float, ...]:
    """What the intervals are about, of all ideas: by a large sample where effects have heavy tails."""
    rng = np.random.default_rng(1)
    population = KINDS[2] if "heavy" in kind else KINDS[0]
    u, v, *_ = drawn(rng, 1_000_000, rho, population)
    grid = np.linspace(-1, 12, 131)
    z = (grid[:, None] - u[None, :40_000]) / ERROR
    density = (1 + z**2 / 3) ** -3 if "heavy" in kind else np.exp(-(z**2) / 2)
    chance = (density * (v[:40_000] > 0)).sum(axis=1) / density.sum(axis=1)
    needed = np.inf if rho <= 0 else float(np.interp(0.9, chance, grid))
    return rho, rho, float(np.mean(u * v > 0)), float(np.interp(AT, grid, chance)), needed


def cell(task: tuple[int, float, str, int]) -> str:
    """One row: the coverage of each interval, the naive correlation and how many correlations are given."""
    n, rho, kind, samples = task
    rng = np.random.default_rng(zlib.crc32(f"{n} {rho} {kind}".encode()))
    true = np.array(truth(rho, kind))
    held, naive, given, width = (
        np.zeros((samples, 5)),
        np.zeros(samples),
        np.zeros(samples),
        np.zeros(samples),
    )
    for sample in range(samples):
        _, _, x, s, y, t = drawn(rng, n, rho, kind)
        effects = TrueEffects.of(x, s, y, t, np.zeros(n) if kind == KINDS[4] else None)
        ends: list[Interval] = [
            effects.interval(effects.correlation),
            effects.interval(effects.slope),
            effects.same_signs(),
            effects.interval(effects.positive(AT, ERROR)),
            effects.interval(effects.needed(0.9, ERROR)),
        ]
        held[sample] = [one.low <= value <= one.high for one, value in zip(ends, true, strict=True)]
        naive[sample] = np.corrcoef(x, y)[0, 1]
        width[sample] = ends[0].high - ends[0].low
        given[sample] = width[sample] < 1.6
    shares = " | ".join(f"{100 * share:.1f}" for share in held.mean(axis=0))
    about = f"{naive.mean():.2f} | {np.median(width):.2f} | {100 * given.mean():.0f}"
    return f"| {n} | {kind} | {rho:g} | {about} | {shares} |"


def tasks(samples: int, experiments: list[int]) -> Iterator[tuple[int, float, str, int]]:
    for n in experiments:
        for kind in KINDS:
            for rho in (0.0, 0.3, 0.8, 1.0):
                yield n, rho, kind, samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=400)
    parser.add_argument("--experiments", default="10,20,50,200")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    head = ["experiments", "world", "true", "naive", "width", "given %", *NAMES]
    lines = [f"| {' | '.join(head)} |", "|--:|---|" + "--:|" * (len(head) - 2)]
    print("\n".join(lines), flush=True)
    with ProcessPoolExecutor(2) as pool:
        for line in pool.map(cell, tasks(given.samples, [int(n) for n in given.experiments.split(",")])):
            print(line, flush=True)
            lines.append(line)
    if given.write:
        before, _, rest = DOCS.read_text(encoding="utf-8").partition("<!-- agreement -->\n")
        after = rest.partition("<!-- end of agreement -->")[2]
        table = "\n".join(lines)
        DOCS.write_text(
            f"{before}<!-- agreement -->\n\n{table}\n\n<!-- end of agreement -->{after}", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
