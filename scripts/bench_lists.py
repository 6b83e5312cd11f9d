"""Rankings as lists of ids beside the same as a frame: CPU seconds of `evaluate_runs`, in turns in one process.

Rankings of so many queries, each of so many documents of a million, and judgments of a few of these: as lists and sets
of ids by query, as rows of JSON, as dicts of scores and grades, as a frame of pandas and as a table of Arrow.

    scripts/bench lists [--queries 100000] [--per-query 100] [--turns 3] [--metric ndcg@10]
"""

from __future__ import annotations

import argparse
import gc
import time
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from ltr_harness import evaluate_runs

CORPUS = 1_000_000
FRAME, LISTS = "a frame of pandas", "lists and sets of ids"
JUDGED = 3  # documents of each query, of which the ranking has two


def forms(n_queries: int, per_query: int) -> dict[str, tuple[Any, Any]]:
    """Judgments and ranking in each form."""
    rng = np.random.default_rng(0)
    steps = rng.integers(1, CORPUS // per_query, (n_queries, per_query))
    numbers = rng.permuted(steps.cumsum(axis=1), axis=1)  # different ones, since steps are above 0
    ranking = {f"q{query}": [f"d{number}" for number in row] for query, row in enumerate(numbers.tolist())}
    relevant = {query: {*documents[: JUDGED - 1], "d0"} for query, documents in ranking.items()}
    rows = [
        {"query_id": query, "retrieved": documents, "relevant": sorted(relevant[query])}
        for query, documents in ranking.items()
    ]
    scores = {query: {name: -float(rank) for rank, name in enumerate(row)} for query, row in ranking.items()}
    grades = {query: dict.fromkeys(documents, 1) for query, documents in relevant.items()}
    frames = [
        pd.DataFrame(
            {
                "query_id": np.repeat(list(by_query), [len(values) for values in by_query.values()]),
                "doc_id": [document for values in by_query.values() for document in values],
                value: [number for values in by_query.values() for number in values.values()],
            }
        )
        for value, by_query in (("grade", grades), ("score", scores))
    ]
    tables = [pa.Table.from_pandas(frame, preserve_index=False) for frame in frames]
    return {
        FRAME: (frames[0], {"run": frames[1]}),
        "a table of Arrow": (tables[0], {"run": tables[1]}),
        LISTS: (relevant, {"run": ranking}),
        "rows of JSON": (rows, {"run": rows}),
        "dicts of scores": (grades, {"run": scores}),
    }


def least_seconds(n_queries: int, per_query: int, turns: int, metric: str) -> tuple[dict[str, float], float]:
    """Return the least CPU seconds of each form over some turns, and the metric, which is the same in all."""
    inputs = forms(n_queries, per_query)
    gc.collect()
    seconds: dict[str, list[float]] = {name: [] for name in inputs}
    values = set()
    for _ in range(turns):
        for name, (qrels, runs) in inputs.items():
            began = time.process_time()
            evaluated = evaluate_runs(qrels, runs, [metric])
            seconds[name].append(time.process_time() - began)
            values.add(evaluated["run"].means[metric])
    assert len(values) == 1, values
    return {name: min(times) for name, times in seconds.items()}, values.pop()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--per-query", type=int, default=100)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--metric", default="ndcg@10")
    options = parser.parse_args()
    least, value = least_seconds(options.queries, options.per_query, options.turns, options.metric)
    print(f"{options.queries:,} queries x {options.per_query:,}, {options.metric} {value:.4f}")
    print(f"{'':<24}{'CPU s':>8}{'/ frame':>10}")
    for name, taken in least.items():
        print(f"{name:<24}{taken:8.2f}{taken / least[FRAME]:10.2f}")


if __name__ == "__main__":
    main()
