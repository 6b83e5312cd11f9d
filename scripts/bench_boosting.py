"""The cost of metrics per boosting round: none, the library's own NDCG (and MAP), and ours; and the cost of XE-NDCG.

Every variant trains its own booster on the same data; rounds are interleaved, so that a busy machine slows
all of them alike, and lower quartiles are compared. Wall and CPU time are both printed: on a shared machine
believe the CPU time of one thread.

    python scripts/bench_boosting.py            # MSLR-WEB30K's validation shape; about 2 GB of memory
    python scripts/bench_boosting.py --small    # a quick look
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

CUTOFFS = (1, 3, 5, 10)
OURS = [f"{name}@{k}" for name in ("ndcg", "mrr", "err(max_grade=4)", "map") for k in CUTOFFS]
Step = Callable[[int], None]


def make_split(n_queries: int, rows: int, n_features: int, seed: int) -> tuple[Any, Any, Any]:
    """Features, labels 0 to 4 in web search's proportions, rows per query."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_queries * rows, n_features), dtype=np.float32)
    relevance = X[:, :5].sum(axis=1) + 2 * rng.standard_normal(len(X), dtype=np.float32)
    labels = np.searchsorted(np.quantile(relevance, [0.515, 0.84, 0.974, 0.992]), relevance).astype(
        np.float64
    )
    return X, labels, np.full(n_queries, rows)


def lightgbm_variants(train: Any, valid: Any, threads: int) -> dict[str, tuple[Step, Step]]:
    """For each variant, one boosting step and one evaluation."""
    import lightgbm
    from lightgbm.callback import CallbackEnv
    from lightgbm.sklearn import _EvalFunctionWrapper

    from ltr_harness.boosting.lightgbm import Watch, eval_metric, feval

    params = {"objective": "lambdarank", "num_leaves": 63, "num_threads": threads, "verbosity": -1, "seed": 1}
    (X, y, sizes), (Xv, yv, sizes_v) = train, valid
    data = lightgbm.Dataset(X, label=y, group=sizes, params={"verbosity": -1}).construct()
    held_out = lightgbm.Dataset(Xv, label=yv, group=sizes_v, reference=data).construct()

    def booster(metric: Any) -> Any:
        model = lightgbm.Booster({**params, "metric": metric, "eval_at": list(CUTOFFS)}, data)
        return model.add_valid(held_out, "valid")

    silent, ndcg_only, watched = booster("None"), booster("ndcg"), booster("None")
    with_feval, ranker = booster("None"), booster("None")
    ours, scikit_learn = feval(*OURS), _EvalFunctionWrapper(eval_metric(*OURS))  # as LGBMRanker calls it
    ndcg_and_map = booster(["ndcg", "map"])
    watch = Watch(*OURS, data={"valid": held_out}, patience=10**6)

    def evaluate_ours(i: int) -> None:
        watch(CallbackEnv(watched, params, i, 0, 10**6, []))

    return {
        "no metric": (lambda i: silent.update() and None, lambda i: None),
        "built-in ndcg": (lambda i: ndcg_only.update() and None, lambda i: ndcg_only.eval_valid() and None),
        "built-in ndcg + map": (
            lambda i: ndcg_and_map.update() and None,
            lambda i: ndcg_and_map.eval_valid() and None,
        ),
        "ours": (lambda i: watched.update() and None, evaluate_ours),
        "ours, feval": (
            lambda i: with_feval.update() and None,
            lambda i: with_feval.eval_valid(ours) and None,
        ),
        "ours, LGBMRanker": (
            lambda i: ranker.update() and None,
            lambda i: ranker.eval_valid(scikit_learn) and None,
        ),
    }


def xgboost_variants(train: Any, valid: Any, threads: int) -> dict[str, tuple[Step, Step]]:
    """For each variant, one boosting step and one evaluation."""
    import xgboost

    from ltr_harness.boosting.xgboost import Watch

    params = {
        "objective": "rank:ndcg",
        "tree_method": "hist",
        "max_depth": 6,
        "nthread": threads,
        "verbosity": 0,
    }
    (X, y, sizes), (Xv, yv, sizes_v) = train, valid
    data = xgboost.QuantileDMatrix(X, label=y, group=sizes, nthread=threads)

    def booster(labels: Any = yv, **more: Any) -> tuple[Any, Any]:
        held_out = xgboost.DMatrix(Xv, label=labels, group=sizes_v, nthread=threads)
        return xgboost.Booster(
            {**params, "disable_default_eval_metric": 1, **more}, [data, held_out]
        ), held_out

    silent, silent_valid = booster()
    ndcg_only, ndcg_valid = booster(eval_metric=[f"ndcg@{k}" for k in CUTOFFS])
    # XGBoost's map takes binary labels alone
    ndcg_and_map, both_valid = booster(
        (yv > 0).astype(float), eval_metric=[f"{name}@{k}" for name in ("ndcg", "map") for k in CUTOFFS]
    )
    watched, watched_valid = booster()
    watch = Watch(*OURS, data={"valid": watched_valid}, patience=10**6)
    watch.before_training(watched)
    # XGBRanker makes its evaluation sets QuantileDMatrix
    ranker_valid = xgboost.QuantileDMatrix(Xv, label=yv, group=sizes_v, ref=data, nthread=threads)
    ranker = xgboost.Booster({**params, "disable_default_eval_metric": 1}, [data, ranker_valid])
    in_ranker = Watch(*OURS, data={"valid": ranker_valid}, patience=10**6)
    in_ranker.before_training(ranker)
    return {
        "no metric": (
            lambda i: silent.update(data, i),
            lambda i: silent.eval_set([(silent_valid, "valid")], i) and None,
        ),
        "built-in ndcg": (
            lambda i: ndcg_only.update(data, i),
            lambda i: ndcg_only.eval_set([(ndcg_valid, "valid")], i) and None,
        ),
        "built-in ndcg + map": (
            lambda i: ndcg_and_map.update(data, i),
            lambda i: ndcg_and_map.eval_set([(both_valid, "valid")], i) and None,
        ),
        "ours": (lambda i: watched.update(data, i), lambda i: watch.after_iteration(watched, i, {}) and None),
        "ours, XGBRanker": (
            lambda i: ranker.update(data, i),
            lambda i: in_ranker.after_iteration(ranker, i, {}) and None,
        ),
    }


def objective_variants(train: Any, threads: int) -> dict[str, tuple[Step, Step]]:
    """XGBoost's own rank:ndcg against XE-NDCG from here, rounds without any evaluation."""
    import xgboost

    from ltr_harness.boosting.xgboost import XENDCG

    X, y, sizes = train
    data = xgboost.QuantileDMatrix(X, label=y, group=sizes, nthread=threads)
    params = {"tree_method": "hist", "max_depth": 6, "nthread": threads, "verbosity": 0, "base_score": 0.0}
    builtin = xgboost.Booster({**params, "objective": "rank:ndcg"}, [data])
    ours = xgboost.Booster(params, [data])
    objective = XENDCG(seed=1)
    return {
        "rank:ndcg": (lambda i: builtin.update(data, i), lambda i: None),
        "rank_xendcg (ours)": (lambda i: ours.update(data, i, fobj=objective), lambda i: None),
    }


def measure(variants: dict[str, tuple[Step, Step]], rounds: int) -> dict[str, Any]:
    """Lower quartiles: variant to (wall of a round, wall of its evaluation, CPU of both), milliseconds."""
    seconds: dict[str, list[tuple[float, float, float, float]]] = {name: [] for name in variants}
    for i in range(rounds + 2):
        for name, (update, evaluate) in variants.items():
            wall, cpu = time.perf_counter(), time.process_time()
            update(i)
            wall_update, cpu_update = time.perf_counter(), time.process_time()
            evaluate(i)
            wall_end, cpu_end = time.perf_counter(), time.process_time()
            if i >= 2:  # the first rounds compile, bin and allocate
                seconds[name].append(
                    (wall_end - wall, wall_end - wall_update, cpu_end - cpu, cpu_end - cpu_update)
                )
    return {name: 1000 * np.quantile(times, 0.25, axis=0) for name, times in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="a tenth of the queries and fewer rounds")
    parser.add_argument("--rounds", type=int, help="rounds per variant (default 20, small 10)")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument(
        "--library", choices=["lightgbm", "xgboost"], nargs="+", default=["lightgbm", "xgboost"]
    )
    options = parser.parse_args()
    rounds = options.rounds or (10 if options.small else 20)
    n_queries = 600 if options.small else 6000
    train, valid = make_split(n_queries // 4, 120, 136, seed=1), make_split(n_queries, 120, 136, seed=2)
    print(
        f"validation {n_queries:,} queries x 120 rows x 136 features, training {n_queries // 4:,} queries; "
        f"{rounds} interleaved rounds, lower quartiles\n"
        f"built-in: ndcg at {CUTOFFS}; ours: ndcg, mrr, err, map at {CUTOFFS}, {len(OURS)} metrics in all"
    )
    columns = ["round ms", "evaluation ms", "of built-in", "CPU: round", "evaluation", "of built-in"]
    heading = " " * 24 + "".join(f"{column:>15}" for column in columns)
    makers = {"lightgbm": lightgbm_variants, "xgboost": xgboost_variants}
    for library in options.library:
        for threads in options.threads:
            print(f"\n{library}, {threads} thread{'s' if threads > 1 else ''}\n{heading}")
            times = measure(makers[library](train, valid, threads), rounds)
            builtin = times["built-in ndcg"]
            for name, (wall, wall_eval, cpu, cpu_eval) in times.items():
                print(
                    f"  {name:22}{wall:15.1f}{wall_eval:15.1f}{wall_eval / builtin[1]:15.2f}"
                    f"{cpu:15.1f}{cpu_eval:15.1f}{cpu_eval / builtin[3]:15.2f}"
                )
            ours = times["ours"]
            none = times["no metric"]
            print(
                f"  metric part alone (evaluation less that of no metric), ours against built-in: "
                f"{(ours[1] - none[1]) / (builtin[1] - none[1]):.2f} of the wall time, "
                f"{(ours[3] - none[3]) / (builtin[3] - none[3]):.2f} of the CPU time"
            )
            print(
                f"  ours against built-in, whole round: {ours[0] / builtin[0]:.2f} of the wall time, "
                f"{ours[2] / builtin[2]:.2f} of the CPU time"
            )

    if "xgboost" in options.library:
        for threads in options.threads:
            times = measure(objective_variants(train, threads), rounds)
            builtin, ours = times["rank:ndcg"], times["rank_xendcg (ours)"]
            print(
                f"\nxgboost objectives, {threads} thread{'s' if threads > 1 else ''}, a round without evaluation: "
                f"rank:ndcg {builtin[0]:.1f} ms, ours rank_xendcg {ours[0]:.1f} ms: {ours[0] / builtin[0]:.2f} of the "
                f"wall time, {ours[2] / builtin[2]:.2f} of the CPU time"
            )


if __name__ == "__main__":
    main()
