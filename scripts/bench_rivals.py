"""Classifiers, regressors and blends beside a ranker's objective, and the cost of its depth.

Without --depth: the models of configs/rivals.yaml on MQ2008 (five folds) and on three synthetic sets (short lists, long
lists, noisy labels), each on the same queries. Test queries alone are shown: the mean of ndcg@10, and the difference to
lambdarank with the comparison's interval.

With --depth: lambdarank and rank:ndcg by the depth of their pairs (5, 10, 30, 100) on the same sets, with the time of a
round. Models take turns, so that other work slows all of them. docs/maintainers/boosters-benchmarks.md has its output.

    python scripts/bench_rivals.py --data ../shared/data
    python scripts/bench_rivals.py --data ../shared/data --depth
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

RIVALS = Path(__file__).resolve().parent.parent / "configs" / "rivals.yaml"
DEPTHS = (5, 10, 30, 100)
BASELINE = {False: "lambdarank", True: "lambdarank 30"}


def sets(data: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name, and the `data` section of an experiment."""
    parts = [f"S{i}.txt" for i in range(1, 6)]
    folds = {
        f"fold{i + 1}": {
            "train": [parts[(i + j) % 5] for j in range(3)],
            "valid": parts[(i + 3) % 5],
            "test": parts[(i + 4) % 5],
        }
        for i in range(5)
    }
    yield "MQ2008", {"root": str((data / "mq2008").resolve()), "reader": "letor", "splits": folds}
    counts = {"train": 400, "valid": 200, "test": 1000}
    for seed, more in (
        (41, {"n_features": 20, "max_rows": 40}),
        (42, {"n_features": 30, "max_rows": 400}),
        (43, {"n_features": 60, "noise": 2.0}),
    ):
        yield f"synthetic {seed}", {"reader": "synthetic", "n_queries": counts, "seed": seed, **more}


def depths() -> dict[str, Any]:
    """Models by the depth of their pairs."""
    option = {
        "lambdarank": ("lightgbm", "lambdarank_truncation_level"),
        "rank:ndcg": ("xgboost", "lambdarank_num_pair_per_sample"),
    }
    return {
        f"{objective} {depth}": {
            "ranker": ranker,
            "objective": objective,
            "preset": "small",
            "params": {name: depth},
        }
        for objective, (ranker, name) in option.items()
        for depth in DEPTHS
    }


def run_and_print(name: str, experiment: dict[str, Any], folder: Path, by_depth: bool) -> None:
    """Run an experiment and print its table."""
    from ltr_harness import run_experiment

    named = {**experiment, "name": name.replace(" ", "-")}
    result = run_experiment(named, runs=folder / "runs", on_failure="keep")
    comparison = result.comparison
    assert comparison is not None, "no model finished"
    print(f"\n### {name}, {comparison.n_queries:,} test queries\n")
    print(
        "| model | ndcg@10 | difference, 95 % interval | verdict | milliseconds a round |\n|---|---|---|---|---|"
    )
    for model in comparison.ranking:
        records = [run.record for run in result.runs if run.record.model == model]
        rounds = sum(record.rounds_trained or 0 for record in records)
        time = f"{1000 * sum(record.seconds['fit'] for record in records) / rounds:.1f}" if rounds else ""
        mean = comparison.summary(model).mean
        cells = ["", "baseline"]
        if model != comparison.baseline:
            pair = comparison.paired(model)
            cells = [f"{pair.difference:+.4f} ({pair.ci_low:+.4f} to {pair.ci_high:+.4f})", pair.verdict]
        print(f"| {model} | {mean:.4f} | {' | '.join(cells)} | {time if by_depth else ''} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--depth", action="store_true")
    parser.add_argument("--only", nargs="*", default=())
    options = parser.parse_args()
    rivals = yaml.safe_load(RIVALS.read_text(encoding="utf-8"))
    for name, data in sets(options.data):
        if options.only and not any(name.startswith(prefix) for prefix in options.only):
            continue
        models = depths() if options.depth else dict(rivals["models"])
        if name == "MQ2008" and not options.depth:  # its grades end at 2, and its features have numbers
            models = {
                model: {**fields, **({"relevant": 1} if "relevant" in fields else {})}
                | ({"feature": 39} if "feature" in fields else {})
                for model, fields in models.items()
            }
        experiment = {
            **rivals,
            "data": data,
            "models": models,
            "compare": {"baseline": BASELINE[options.depth]},
            "report": {"formats": ["json"]},
        }
        with tempfile.TemporaryDirectory() as folder:
            run_and_print(name, experiment, Path(folder), options.depth)


if __name__ == "__main__":
    main()
