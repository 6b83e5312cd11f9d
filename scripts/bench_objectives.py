"""The gain of a metric as the objective, and the cost of its gradients.

Without --speed: one model for each objective on MQ2008 (five folds), the ClueWeb09 folds, the MSLR sample and three
synthetic sets. A metric stops its own training, the libraries' objectives stop on ndcg@10; the step is the one of
--steps that is best on all validation queries of the set. Test queries alone are shown: the mean, and the difference to
lambdarank with its interval over queries, seeds averaged. docs/maintainers/boosters-benchmarks.md has its output.

With --speed: the gradients of a round on 6,000 queries of 120 rows beside the libraries' own, at one truncation level,
and whole trainings. A round's gradients are the round less a round of squared error, with trees of two leaves.

    python scripts/bench_objectives.py --data ../shared/data
    python scripts/bench_objectives.py --speed
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

METRICS = ("ndcg@10", "ndcg@1", "mrr", "map", "err@10", "precision@5")
LIBRARIES = (
    ("lightgbm", "lambdarank"),
    ("lightgbm", "regression"),
    ("xgboost", "rank:ndcg"),
)
STEP = {"lightgbm": "learning_rate", "xgboost": "eta"}


def objectives() -> Iterator[tuple[str, str, Any, str]]:
    """Yield each objective's name in the table, its ranker, its field, and the metric that stops its training."""
    for ranker, objective in LIBRARIES:
        yield objective, ranker, objective, "ndcg@10"
    for metric in METRICS:
        yield f"lightgbm {metric}", "lightgbm", {"metric": metric}, metric
    for metric in ("ndcg@10", "err@10"):
        yield f"xgboost {metric}", "xgboost", {"metric": metric}, metric


def letor(files: list[Path]) -> Any:
    from ltr_harness.data.readers.letor import Letor

    return Letor().read([str(file) for file in files], files[0].parent)


def sets(data: Path) -> Iterator[tuple[str, str, list[tuple[Any, Any, Any]]]]:
    """Name, preset, and train, validation and test of each fold."""
    parts = [data / "mq2008" / f"S{i}.txt" for i in range(1, 6)]
    yield (
        "MQ2008",
        "small",
        [
            (
                letor([parts[(i + j) % 5] for j in range(3)]),
                letor([parts[(i + 3) % 5]]),
                letor([parts[(i + 4) % 5]]),
            )
            for i in range(5)
        ],
    )
    folds = [letor([data / "clueweb09" / f"Fold{i}.test.txt"]) for i in (1, 2, 3)]
    yield "ClueWeb09", "small", [(folds[i], folds[(i + 1) % 3], folds[(i + 2) % 3]) for i in range(3)]
    sample = letor([data / "mslr_sample" / "test.txt"])
    thirds = [sample.take(np.arange(i, sample.n_queries, 3)) for i in range(3)]
    yield "MSLR sample", "small", [(thirds[i], thirds[(i + 1) % 3], thirds[(i + 2) % 3]) for i in range(3)]
    yield "synthetic", "small", [synthetic(seed) for seed in (31, 32, 33)]


def synthetic(seed: int) -> tuple[Any, Any, Any]:
    from ltr_harness.data.readers.synthetic import Synthetic

    counts = {"train": 400, "valid": 200, "test": 1000}
    reader = Synthetic.model_validate({"n_queries": counts, "n_features": 30, "seed": seed})
    train, valid, test = (reader.read([name], Path()) for name in counts)
    return train, valid, test


def train_and_score(
    fold: tuple[Any, Any, Any], ranker: str, fields: dict[str, Any], stop: str, seed: int
) -> tuple[float, Any]:
    """The metric that stopped training, on validation, and the scores of the test split."""
    from ltr_harness.boosting import StoppingRule
    from ltr_harness.models.ranker import Training
    from ltr_harness.models.table import catalog

    train, valid, test = fold
    rule = StoppingRule(stop, patience=30, max_rounds=300)
    definition = catalog.load(ranker).model_validate(fields)
    model = definition.fit(Training(train=train, valid=valid, seed=seed, stopping=rule))
    best = max(point.value for point in model.history if point.metric == str(stop))
    return best * valid.n_queries, model.score(test.features)


def compare_objectives(options: argparse.Namespace) -> None:
    from ltr_harness import compare, evaluate
    from ltr_harness.metrics import parse_metric

    for name, preset, folds in sets(options.data):
        if options.only and not any(name.startswith(prefix) for prefix in options.only):
            continue
        labels = np.concatenate([test.labels for _, _, test in folds])
        sizes = np.concatenate([test.groups.sizes for _, _, test in folds])
        scale = {metric: parse_metric(metric).with_max_grade(float(labels.max())) for metric in METRICS}
        bound_metrics = list(scale.values())
        evaluations: dict[str, list[Any]] = {}
        began = time.perf_counter()
        for title, ranker, objective, stop in objectives():
            by_step = []
            for step in options.steps:
                fields = {"objective": objective, "preset": preset, "params": {STEP[ranker]: step}}
                if isinstance(objective, dict):
                    fields["objective"] = {"metric": scale[stop]}
                runs = [
                    [train_and_score(fold, ranker, fields, scale[stop], seed) for fold in folds]
                    for seed in options.seeds
                ]
                reached = sum(value for run in runs for value, _ in run)
                by_step.append((reached, [np.concatenate([scores for _, scores in run]) for run in runs]))
            _, chosen = max(by_step, key=lambda pair: pair[0])
            evaluations[title] = [
                evaluate(labels, scores, group_sizes=sizes, metrics=bound_metrics) for scores in chosen
            ]
        print(
            f"\n### {name}, {sizes.size} test queries, seeds {options.seeds} ({time.perf_counter() - began:.0f} s)"
        )
        print("| objective | " + " | ".join(METRICS) + " |\n|---" + "|---" * len(METRICS) + "|")
        comparisons = [
            compare(evaluations, metrics=[metric], baseline="lambdarank", draws=2000)
            for metric in bound_metrics
        ]
        for title in evaluations:
            cells = [cell(comparison, title) for comparison in comparisons]
            print(f"| {title} | " + " | ".join(cells) + " |", flush=True)


def cell(comparison: Any, model: str) -> str:
    if model == comparison.baseline:
        other = comparison.paired(next(system.name for system in comparison.systems if system.name != model))
        return f"{other.other_mean:.4f}"
    pair = comparison.paired(model)
    # of these trained models on other queries: what so few seeds tell of the method is wider than any difference
    low, high = (
        (pair.trained_ci_low, pair.trained_ci_high) if pair.includes_seeds else (pair.ci_low, pair.ci_high)
    )
    return f"{pair.model_mean:.4f} ({pair.difference:+.4f}, {low:+.4f} to {high:+.4f})"


# --- what it costs ---


def lists(n_queries: int, rows: int, n_features: int) -> tuple[Any, Any, Any, Any]:
    """Features, labels 0 to 4 in web search's proportions, rows per query, and scores to begin with."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n_queries * rows, n_features), dtype=np.float32)
    noise = 2 * rng.standard_normal(len(X), dtype=np.float32)
    value = X[:, :5].sum(axis=1) + noise
    labels = np.searchsorted(np.quantile(value, [0.515, 0.84, 0.974, 0.992]), value).astype(np.float64)
    return X, labels, np.full(n_queries, rows), (X[:, 0] + rng.standard_normal(len(X))).astype(np.float64)


def seconds(steps: dict[str, Any], rounds: int) -> dict[str, float]:
    """The lower quartile of each step's time; steps take turns, so that other work slows all of them."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds + 1):
        for name, step in steps.items():
            began = time.perf_counter()
            step()
            times[name].append(time.perf_counter() - began)
    return {name: float(np.quantile(samples[1:], 0.25)) for name, samples in times.items()}


def lightgbm_steps(data: Any, threads: int, options: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    import lightgbm

    from ltr_harness.boosting.lightgbm import objective

    X, labels, sizes, start = data
    quiet = {
        "verbosity": -1,
        "num_threads": threads,
        "num_leaves": 2,
        "learning_rate": 1e-6,
        "metric": "None",
    }

    def booster(**more: Any) -> Any:
        return lightgbm.Booster(
            {**quiet, **more},
            lightgbm.Dataset(X[:, :1], labels, group=sizes, init_score=start, params=quiet),
        )

    steps = {
        "round": booster(objective="regression", boost_from_average=False).update,
        "lambdarank": booster(objective="lambdarank", lambdarank_truncation_level=options.top).update,
    }
    for metric in options.metrics:
        ours, model = (
            objective(metric, truncation_level=options.top, threads=threads),
            booster(objective="none"),
        )
        steps[metric] = lambda model=model, ours=ours: model.update(fobj=ours)
    return "lambdarank", steps


def xgboost_steps(data: Any, threads: int, options: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    import xgboost

    from ltr_harness.boosting.xgboost import objective

    X, labels, sizes, start = data
    quiet = {
        "verbosity": 0,
        "nthread": threads,
        "max_depth": 1,
        "eta": 1e-6,
        "disable_default_eval_metric": 1,
    }
    pairs = {"lambdarank_pair_method": "topk", "lambdarank_num_pair_per_sample": options.top}

    def step(params: Any, ours: Any = None) -> Any:
        grouped = {} if params["objective"] == "reg:squarederror" and ours is None else {"group": sizes}
        matrix = xgboost.QuantileDMatrix(X[:, :1], labels, base_margin=start, nthread=threads, **grouped)
        booster = xgboost.Booster({**quiet, **params}, [matrix])
        rounds = iter(range(10**6))
        return lambda: booster.update(matrix, next(rounds), fobj=ours)

    squared = {"objective": "reg:squarederror", "base_score": 0.0}
    steps = {"round": step(squared), "rank:ndcg": step({"objective": "rank:ndcg", **pairs})}
    for metric in options.metrics:
        steps[metric] = step(squared, objective(metric, truncation_level=options.top, threads=threads))
    return "rank:ndcg", steps


def speed(options: argparse.Namespace) -> None:
    data = lists(options.queries, 120, 10)
    for threads in (1, 2):
        for make_steps in (lightgbm_steps, xgboost_steps):
            reference, steps = make_steps(data, threads, options)
            step_seconds = seconds(steps, options.rounds)
            base = step_seconds.pop("round")
            library = step_seconds[reference] - base
            for name, value in step_seconds.items():
                print(
                    f"{threads} thread(s): {name:22}{1000 * (value - base):8.1f} ms, {(value - base) / library:.2f} of "
                    f"{reference}'s",
                    flush=True,
                )
    for threads in (1, 2):
        step_seconds = compare_training_times(data, threads, options)
        print(f"{threads} thread(s), a training of {options.whole} rounds: {step_seconds}", flush=True)


def compare_training_times(data: tuple[Any, Any, Any, Any], threads: int, options: argparse.Namespace) -> str:
    import lightgbm
    import xgboost

    from ltr_harness.boosting import lightgbm as for_lightgbm
    from ltr_harness.boosting import xgboost as for_xgboost

    X, labels, sizes, _ = data
    quiet = {"verbosity": -1, "num_threads": threads, "metric": "None"}
    dataset = lightgbm.Dataset(X, labels, group=sizes, params=quiet, free_raw_data=False).construct()
    matrix = xgboost.QuantileDMatrix(X, labels, group=sizes, nthread=threads)
    top, silent = options.top, {"verbosity": 0, "nthread": threads, "disable_default_eval_metric": 1}

    def timed(train: Any) -> float:
        began = time.perf_counter()
        train()
        return time.perf_counter() - began

    def trees(objective: Any, **more: Any) -> float:
        return timed(
            lambda: lightgbm.train({**quiet, "objective": objective, **more}, dataset, options.whole)
        )

    def boosted(obj: Any = None, **more: Any) -> float:
        return timed(lambda: xgboost.train({**silent, **more}, matrix, options.whole, obj=obj))

    ours_lightgbm = trees(for_lightgbm.objective("ndcg", truncation_level=top, threads=threads))
    theirs_lightgbm = trees("lambdarank", lambdarank_truncation_level=top)
    ours_xgboost = boosted(
        for_xgboost.objective("ndcg", truncation_level=top, threads=threads), base_score=0.0
    )
    theirs_xgboost = boosted(objective="rank:ndcg", lambdarank_num_pair_per_sample=top)
    return (
        f"LightGBM {ours_lightgbm:.1f} s, {ours_lightgbm / theirs_lightgbm:.2f} of lambdarank's; "
        f"XGBoost {ours_xgboost:.1f} s, {ours_xgboost / theirs_xgboost:.2f} of rank:ndcg's"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--steps", type=float, nargs="+", default=[0.05, 0.1])
    parser.add_argument("--only", nargs="+", default=[], metavar="SET", help="how the sets' names begin")
    parser.add_argument("--queries", type=int, default=6000, help="of 120 rows each, for --speed")
    parser.add_argument("--rounds", type=int, default=10, help="that are timed, for --speed")
    parser.add_argument("--whole", type=int, default=100, help="rounds of a whole training, for --speed")
    parser.add_argument("--top", type=int, default=30, help="truncation level, for --speed")
    parser.add_argument("--metrics", nargs="+", default=["ndcg", "mrr", "map", "err(max_grade=4)"])
    options = parser.parse_args()
    (speed if options.speed else compare_objectives)(options)


if __name__ == "__main__":
    main()
