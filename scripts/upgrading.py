"""Numbers and verdicts of stored runs that another version changes: the table of docs/maintainers/upgrading.md.

    git worktree add ../before 0f26e8e0
    python scripts/upgrading.py ../before tests/stored/v1/runs/small tests/stored/v2/runs/small runs/quickstart …

Every experiment is compared by that version and by this one: all seeds and one, with and without a margin, against the
worst model, and as a table with made-up traffic. Each row counts what differs.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ltr_harness import compare
from ltr_harness.comparison import Comparison, parse_gate, slice_results
from ltr_harness.experiments.runs import find_runs

Facts = dict[str, Any]
ROOT = Path(__file__).resolve().parents[1]
MARGIN = 0.05
DECIDED = ("better", "worse")


def facts(comparison: Comparison) -> Facts:
    """Return what a comparison says: pairs, letters, slices, gates."""
    pairs = {}
    for metric in comparison.metrics:
        for model in comparison.models:
            if model != comparison.baseline:
                pair = comparison.paired(model, metric)
                width = pair.ci_high - pair.ci_low
                numbers = {"p": pair.p_corrected, "width": width, "detectable": pair.detectable}
                pairs[f"{model} {metric}"] = {"verdict": pair.verdict, **numbers}
    letters = comparison.letters()
    groups = {model: set(group) for model, group in letters.groups.items()}
    verdicts = {}
    for pair in comparison.all_pairs():
        differ = not groups[pair.model] & groups[pair.other]
        verdicts[" ".join(sorted((pair.model, pair.other)))] = [differ, pair.verdict in DECIDED]
    slices = {
        f"{result.model} {result.attribute} {result.label}": result.verdict
        for result in slice_results(comparison)
    }
    texts = {
        "significant": f"{comparison.primary} < baseline and significant",
        "margin": f"{comparison.primary} < baseline - {MARGIN}",
    }
    gates = {name: not parse_gate(text).failures(comparison) for name, text in texts.items()}
    return {"pairs": pairs, "apart": verdicts, "slices": slices, "gates": gates}


def with_traffic(comparison: Comparison) -> dict[str, pd.DataFrame]:
    """Return the values of all models as tables whose queries have weights: 1,000 over a rank drawn by chance."""
    n = comparison.n_queries
    weights = 1000 / (1 + np.random.default_rng(0).permutation(n))
    tables = {}
    for system in comparison.systems:
        values = {comparison.primary: system.per_query(comparison.primary)}
        tables[system.name] = pd.DataFrame({"query_id": system.query_ids, **values, "query_weight": weights})
    return tables


def variants(folder: Path, tests: Sequence[str]) -> Facts:
    """Return the facts of one experiment's comparisons, by how they are made."""
    runs = find_runs(folder)
    baseline = compare(folder / "report" / "report.json").baseline
    first = min(run.record.seed for run in runs)
    seeds = {"seeds": runs, "one seed": [run for run in runs if run.record.seed == first]}
    results: Facts = {}
    for test in tests:
        options: dict[str, Any] = {"baseline": baseline, "ledger": False, **({"test": test} if test else {})}
        for name, chosen_runs in seeds.items():
            if len({run.record.model for run in chosen_runs}) < len({run.record.model for run in runs}):
                continue
            results[f"{test} {name}"] = facts(compare(*chosen_runs, **options))
            results[f"{test} {name}, margin"] = facts(compare(*chosen_runs, margin=MARGIN, **options))
        everything = compare(*runs, **options)
        results[f"{test} traffic"] = facts(compare(with_traffic(everything), **options))
        results[f"{test} far"] = facts(compare(*runs, **{**options, "baseline": everything.ranking[-1]}))
    return results


def of_version(checkout: Path, folders: Sequence[Path], tests: Sequence[str]) -> dict[str, Facts]:
    """Return the facts that the package of a checkout has of each folder."""
    command = [sys.executable, __file__, "--facts", *tests, "--", str(checkout), *map(str, folders)]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    found: dict[str, Facts] = json.loads(done.stdout)
    return found


Both = tuple[str, Facts, Facts]  # a variant's name, and its facts before and now


def counts_row(which: str, cells: Iterable[tuple[Any, Any]], differs: Callable[[Any, Any], bool]) -> str:
    """Return a row: how many of the cells differ."""
    pairs = list(cells)
    return f"| {which} | {sum(differs(*cell) for cell in pairs):,} of {len(pairs):,} |"


def rows(variants: Sequence[Both]) -> list[str]:
    """Return the rows of the table."""

    def pairs(*kinds: str) -> list[tuple[Facts, Facts]]:
        chosen = [(old, now) for name, old, now in variants if name.strip() in kinds]
        return [(old["pairs"][key], now["pairs"][key]) for old, now in chosen for key in old["pairs"]]

    def cells(part: str, *kinds: str) -> list[tuple[Any, Any]]:
        chosen = [(old[part], now[part]) for name, old, now in variants if name.strip() in kinds]
        return [(old[key], now[key]) for old, now in chosen for key in old.keys() & now.keys()]

    def other(old: Any, now: Any) -> bool:
        return bool(old != now)

    def other_verdict(old: Facts, now: Facts) -> bool:
        return bool(old["verdict"] != now["verdict"])

    default, skewed = pairs("seeds", "one seed"), pairs("skew-adjusted seeds", "skew-adjusted one seed")
    lines = [
        counts_row("verdict, default test", default, other_verdict),
        counts_row("verdict, `test: skew-adjusted`", skewed, other_verdict),
        *ratios("p, default test", default, "p"),
        *ratios("width of the interval, default test", default, "width"),
        *ratios("width of the interval, `test: skew-adjusted`", skewed, "width"),
        *ratios("the same, against the worst model", pairs("skew-adjusted far"), "width"),
        *ratios("detectable difference", default, "detectable"),
        counts_row(
            "detectable difference, now none", default, lambda old, now: math.isnan(now["detectable"])
        ),
    ]
    for kind in ("seeds", "one seed"):
        letters = cells("apart", kind)
        lines += [
            counts_row(f"two models' letters, {kind}", letters, lambda old, now: old[0] != now[0]),
            counts_row(
                f"letters against `all_pairs`, before, {kind}", letters, lambda old, now: old[0] != old[1]
            ),
            counts_row(
                f"letters against `all_pairs`, now, {kind}", letters, lambda old, now: now[0] != now[1]
            ),
            counts_row(f"verdict on a slice, {kind}", cells("slices", kind), other),
        ]
    margin = pairs("seeds, margin", "one seed, margin")
    lines += [
        counts_row(
            f"*equivalent* to *better* or *worse*, margin {MARGIN}",
            margin,
            lambda old, now: old["verdict"] == "equivalent" and now["verdict"] in DECIDED,
        ),
        counts_row(
            "*equivalent* to *not distinguishable*",
            margin,
            lambda old, now: (old["verdict"], now["verdict"]) == ("equivalent", "not distinguishable"),
        ),
        counts_row("verdict of queries with weights", pairs("traffic"), other_verdict),
        counts_row("gate at a margin", cells("gates", "seeds", "one seed"), other),
        counts_row("gate with a margin set", cells("gates", "seeds, margin", "one seed, margin"), other),
    ]
    return lines


def ratios(which: str, cells: Iterable[tuple[Facts, Facts]], number: str) -> list[str]:
    """Return a row: a number now over the one before, the median and the range of the middle nine tenths."""
    quotients = [now[number] / old[number] for old, now in cells if old[number] and np.isfinite(old[number])]
    ratio = np.array([quotient for quotient in quotients if np.isfinite(quotient)])
    if not ratio.size:
        return []
    low, middle, high = np.quantile(ratio, [0.05, 0.5, 0.95])
    return [f"| {which} | {middle:.2f} times ({low:.2f} to {high:.2f}) of {ratio.size:,} |"]


def main() -> None:
    """Print the table, or one version's facts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path, help="a checkout of the version before")
    parser.add_argument("folders", type=Path, nargs="+", help="folders of experiments with stored runs")
    parser.add_argument("--facts", nargs="*", help=argparse.SUPPRESS)
    given = parser.parse_args()
    folders = [folder.resolve() for folder in given.folders]
    if given.facts is not None:
        found = {str(folder): variants(folder, given.facts) for folder in folders}
        print(json.dumps(found))
        return
    old = of_version(given.before.resolve(), folders, ["", "skew-adjusted"])
    now = of_version(ROOT, folders, ["", "skew-adjusted"])
    variant_facts = [
        (name, of_old, now[folder][name])
        for folder, all_old in old.items()
        for name, of_old in all_old.items()
    ]
    print("\n".join(["| differs | stored comparisons |", "|---|--:|", *rows(variant_facts)]))


if __name__ == "__main__":
    main()
