"""Our metrics against the built-in metrics of the boosters and against evaluation libraries, on the same arrays.

    scripts/bench metrics [--quick] [--queries 6000 30000]

Everyone ranks the same rows with one thread: queries of skewed size (about 120 rows on average), grades 0 to 4
in shares .515/.325/.134/.018/.008, no ties. The contenders take turns; printed is the lower quartile of their CPU
time per evaluation and its ratio to ours, so that a busy machine moves a table little.

How each is measured:
  ltr_harness   Binding.means: check of the scores, ranking, per-query values and means; judgments bound before.
  floor         a compiled loop that finds each query's best score and nothing else.
  LightGBM      Booster.eval_valid on a Dataset whose init_score holds the scores: nothing is predicted, only the
                metric runs (the same call with metric "None" is the row below it; nothing is subtracted).
  XGBoost       Booster.eval on a DMatrix whose base_margin holds the scores, without a tree (the same call without
                a metric is the row below it; nothing is subtracted). XGBoost sees the scores as float32.
  pytrec_eval, ranx, ir-measures, scikit-learn
                where installed, each in a process of its own with one thread, with data in its own form and
                again with the conversion from arrays; scikit-learn, which has no queries of different length,
                query by query on a sample of them, scaled.
  first call    evaluate() of the sixteen in a fresh process, wall time from before `import ltr_harness`, with an
                empty compile cache and again with the cache the first one left; CPU time of the whole process.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

CUTOFFS = (1, 3, 5, 10)
METRICS = [f"{name}@{k}" for name in ("ndcg", "mrr", "err(max_grade=4)", "map") for k in CUTOFFS]
SAMPLE = 300  # queries on which scikit-learn is timed
ALONE, MISSED = "  ndcg@10 alone", "  ndcg@10, as many missed documents as candidates"
FLOOR = "floor: each query's best score"
Array = NDArray[Any]
Call = Callable[[], object]


def web_search(n_queries: int) -> tuple[Array, Array, Array]:
    """Group sizes, grades and scores of a set like a web-search one."""
    rng = np.random.default_rng(7)
    sizes = np.clip(rng.lognormal(np.log(94), 0.7, n_queries), 1, 1500).astype(np.int64)
    grades = rng.choice(5, size=sizes.sum(), p=[0.515, 0.325, 0.134, 0.018, 0.008]).astype(float)
    scores = rng.normal(size=grades.size) + 0.5 * grades
    return sizes, grades, np.float64(np.float32(scores))


def ours(sizes: Array, grades: Array, scores: Array) -> dict[str, Call]:
    from ltr_harness.data.judgments import Judgments, MissedDocuments
    from ltr_harness.data.queries import QueryGroups
    from ltr_harness.metrics import bind
    from ltr_harness.metrics.evaluation import evaluate

    judgments = Judgments.checked(grades, QueryGroups.from_sizes(sizes))
    sixteen = bind(METRICS, judgments)
    stable = bind([metric.replace("@", "(ties=stable)@").replace(")(", ",") for metric in METRICS], judgments)
    ndcg = bind("ndcg@10", judgments)
    missed = MissedDocuments(np.repeat(np.arange(sizes.size), sizes), grades)
    with_missed = bind("ndcg@10", replace(judgments, missed=missed))
    return {
        "ltr_harness ndcg mrr err map @1,3,5,10": lambda: sixteen.means(scores),
        "  the same, ties=stable": lambda: stable.means(scores),
        ALONE: lambda: ndcg.means(scores),
        MISSED: lambda: with_missed.means(scores),
        "  the sixteen from bare arrays, evaluate()": lambda: evaluate(
            grades, scores, group_sizes=sizes, metrics=METRICS
        ),
        FLOOR: lambda: floor(sizes, scores),
    }


_floor: list[Callable[..., None]] = []


def floor(sizes: Array, scores: Array) -> Array:
    if not _floor:
        import numba

        def loop(scores: Array, boundaries: Array, best: Array) -> None:
            for query in range(best.size):
                query_scores = scores[boundaries[query] : boundaries[query + 1]]
                top = query_scores[0]
                for i in range(1, query_scores.size):
                    if query_scores[i] > top:
                        top = query_scores[i]
                best[query] = top

        _floor.append(numba.njit(loop))
    best = np.empty(sizes.size)
    _floor[0](scores, np.concatenate(([0], np.cumsum(sizes))), best)
    return best


def lightgbm(sizes: Array, grades: Array, scores: Array) -> dict[str, Call]:
    import lightgbm as lgb

    def call(metric: str, cutoffs: tuple[int, ...]) -> Call:
        params = {
            "objective": "lambdarank",
            "metric": metric,
            "eval_at": list(cutoffs),
            "num_threads": 1,
            "verbosity": -1,
            "min_data_in_leaf": 1,
        }
        train = lgb.Dataset(np.arange(20.0).reshape(-1, 1), [0, 1] * 10, group=[20], params=params)
        feature = np.arange(grades.size, dtype=float).reshape(-1, 1) % 7
        valid = lgb.Dataset(feature, grades, group=sizes, init_score=scores, reference=train, params=params)
        booster = lgb.Booster(params, train)
        booster.add_valid(valid, "valid")
        return booster.eval_valid

    return {
        "LightGBM built-in ndcg@10": call("ndcg", (10,)),
        "LightGBM built-in ndcg@1,3,5,10": call("ndcg", CUTOFFS),
        "  the same call without a metric": call("None", CUTOFFS),
    }


def xgboost(sizes: Array, grades: Array, scores: Array) -> dict[str, Call]:
    import xgboost as xgb

    data = xgb.DMatrix(np.zeros((grades.size, 1)), grades, base_margin=scores, group=sizes, nthread=1)

    def call(cutoffs: tuple[int, ...]) -> Call:
        params = {
            "objective": "rank:ndcg",
            "nthread": 1,
            "disable_default_eval_metric": True,
            "eval_metric": [f"ndcg@{k}" for k in cutoffs],
        }
        booster = xgb.Booster(params, [data])
        return lambda: booster.eval(data)

    return {
        "XGBoost built-in ndcg@10": call((10,)),
        "XGBoost built-in ndcg@1,3,5,10": call(CUTOFFS),
        "  the same call without a metric ": call(()),
    }


def agreement(sizes: Array, grades: Array, scores: Array) -> str:
    """Return the three values of ndcg@10 with empty queries counted as 1, as the boosters do."""
    from ltr_harness.metrics.evaluation import evaluate

    name = "ndcg(empty=one,ties=stable)@10"
    mine = evaluate(grades, scores, group_sizes=sizes, metrics=[name]).means[name]
    lgb_says = lightgbm(sizes, grades, scores)["LightGBM built-in ndcg@10"]()[0][2]  # type: ignore[index]
    xgb_says = str(xgboost(sizes, grades, scores)["XGBoost built-in ndcg@10"]()).rpartition(":")[2]
    values = {"ltr_harness": mine, "LightGBM": lgb_says, "XGBoost": float(xgb_says)}
    return "ndcg@10, empty queries as 1: " + ", ".join(f"{who} {value:.9f}" for who, value in values.items())


def in_turns(calls: Mapping[str, Call], rounds: int) -> dict[str, float]:
    """Return the lower quartile of CPU seconds of each call; the calls take turns."""
    for call in calls.values():
        call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.process_time()
            call()
            times[name].append(time.process_time() - start)
    return {name: float(np.percentile(seconds, 25)) for name, seconds in times.items()}


# --- evaluation libraries, each in a process of its own ---------------------------------------------------------


def as_dicts(sizes: Array, grades: Array, scores: Array) -> tuple[dict[str, Any], dict[str, Any]]:
    qrels, run = {}, {}
    starts = np.concatenate(([0], np.cumsum(sizes)))
    names = [f"d{i}" for i in range(int(sizes.max()))]
    integer_grades = grades.astype(int)
    for query in range(sizes.size):
        rows = slice(starts[query], starts[query + 1])
        qrels[f"q{query}"] = dict(zip(names, integer_grades[rows].tolist(), strict=False))
        run[f"q{query}"] = dict(zip(names, scores[rows].tolist(), strict=False))
    return qrels, run


def pytrec_eval(sizes: Array, grades: Array, scores: Array) -> dict[str, Call]:
    import pytrec_eval as tool

    measures = {"ndcg_cut.1,3,5,10", "map_cut.1,3,5,10", "recip_rank"}

    def converted() -> Call:
        qrels, run = as_dicts(sizes, grades, scores)
        evaluator = tool.RelevanceEvaluator(qrels, measures)
        return lambda: evaluator.evaluate(run)

    return {
        "pytrec_eval ndcg map @1,3,5,10, recip_rank": converted(),
        "  with conversion": lambda: converted()(),
    }


def ranx(sizes: Array, grades: Array, scores: Array) -> dict[str, Call]:
    import ranx as tool

    metrics = [f"{name}@{k}" for name in ("ndcg_burges", "mrr", "map") for k in CUTOFFS]

    def converted() -> Call:
        qrels, run = as_dicts(sizes, grades, scores)
        own_qrels, own_run = tool.Qrels(qrels), tool.Run(run)
        return lambda: tool.evaluate(own_qrels, own_run, metrics, threads=1)

    return {"ranx ndcg mrr map @1,3,5,10": converted(), "  with conversion": lambda: converted()()}


def ir_measures(sizes: Array, grades: Array, scores: Array) -> dict[str, Call]:
    import ir_measures as tool

    measures = [tool.parse_measure(f"{name}@{k}") for name in ("nDCG", "AP") for k in CUTOFFS] + [tool.RR]

    def converted() -> Call:
        qrels, run = as_dicts(sizes, grades, scores)
        evaluator = tool.evaluator(measures, qrels)
        return lambda: evaluator.calc_aggregate(run)

    return {"ir-measures nDCG AP @1,3,5,10, RR": converted(), "  with conversion": lambda: converted()()}


def sklearn(sizes: Array, grades: Array, scores: Array) -> dict[str, Call]:
    from sklearn.metrics import ndcg_score

    starts = np.concatenate(([0], np.cumsum(sizes)))
    sample = [query for query in range(sizes.size) if sizes[query] > 1][:SAMPLE]
    gains = 2.0**grades - 1
    queries = [slice(starts[query], starts[query + 1]) for query in sample]

    def loop() -> None:
        for rows in queries:
            ndcg_score(gains[np.newaxis, rows], scores[np.newaxis, rows], k=10, ignore_ties=True)

    return {"scikit-learn ndcg_score k=10, query by query": loop}


LIBRARIES = {"pytrec_eval": pytrec_eval, "ranx": ranx, "ir_measures": ir_measures, "sklearn": sklearn}
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"
)


def in_own_process(library: str, n_queries: int, rounds: int) -> dict[str, float] | str:
    """Seconds by row of the table, or why there are none."""
    if importlib.util.find_spec(library) is None:
        return "not installed"
    done = subprocess.run(
        [
            sys.executable,
            __file__,
            "--library",
            library,
            "--queries",
            str(n_queries),
            "--rounds",
            str(rounds),
        ],
        env={**os.environ, **ONE_THREAD},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return "failed: " + (done.stderr.strip().splitlines() or ["no message"])[-1]
    times: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    if library == "sklearn":
        return {name: seconds * n_queries / SAMPLE for name, seconds in times.items()}
    return times


FIRST_CALL = """
import time
start = time.perf_counter()
import ltr_harness
ltr_harness.evaluate([3, 2, 0, 1, 0], [.5, .9, .1, .2, .3], group_sizes=[3, 2], metrics={metrics!r})
print(time.perf_counter() - start, time.process_time())
"""


def first_call(cache: str) -> tuple[float, float]:
    """Wall seconds from before the import, and CPU seconds of the whole process."""
    done = subprocess.run(
        [sys.executable, "-c", FIRST_CALL.format(metrics=METRICS)],
        env={**os.environ, "NUMBA_CACHE_DIR": cache},
        capture_output=True,
        text=True,
        check=True,
    )
    wall, cpu = map(float, done.stdout.split())
    return wall, cpu


def table(times: Mapping[str, float], base: float) -> None:
    for name, seconds in times.items():
        print(f"{name:48}{seconds * 1e3:12.3f}{seconds / base:10.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="6,000 queries, few rounds")
    parser.add_argument("--queries", type=int, nargs="+", default=[6000, 30000])
    parser.add_argument("--rounds", type=int, help="evaluations of each contender")
    parser.add_argument("--library", choices=sorted(LIBRARIES), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.library:
        data = web_search(arguments.queries[0])
        print(json.dumps(in_turns(LIBRARIES[arguments.library](*data), arguments.rounds)))
        return
    rounds = arguments.rounds or (9 if arguments.quick else 41)
    for n_queries in arguments.queries[:1] if arguments.quick else arguments.queries:
        data = web_search(n_queries)
        print(f"\n{n_queries:,} queries, {data[1].size:,} rows; one thread; {rounds} rounds in turns")
        print(agreement(*data))
        print(f"\n{'':48}{'ms (CPU)':>12}{'ratio':>10}")
        times = in_turns({**ours(*data), **lightgbm(*data), **xgboost(*data)}, rounds)
        base = next(iter(times.values()))
        table(times, base)
        print(f"as many missed documents as candidates: {times[MISSED] / times[ALONE]:.2f} of ndcg@10 alone")
        for library in LIBRARIES:
            found = in_own_process(library, n_queries, 2 if arguments.quick else 5)
            if isinstance(found, str):
                print(f"{library:48}{found:>12}")
            else:
                table(found, base)
        print(
            f"\nours is {times['LightGBM built-in ndcg@10'] / base:.1f} times as fast as LightGBM's ndcg@10 alone, "
            f"{times['XGBoost built-in ndcg@1,3,5,10'] / base:.1f} times as XGBoost's at four cutoffs; "
            f"the floor is {base / times[FLOOR]:.1f} times below ours"
        )
    with tempfile.TemporaryDirectory() as cache:
        for state, repeats in (("empty", 1), ("warm", 3)):
            wall, cpu = min(first_call(cache) for _ in range(repeats))
            print(f"first call in a fresh process, compile cache {state}: {wall:.2f} s ({cpu:.2f} s of CPU)")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
