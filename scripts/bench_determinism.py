"""Settings that give the same model again, and with another number of threads: digests of scores, side by side.

Every setting is trained twice with the most threads, and once with each other number; "same" means that all
training scores are the same to the bit. docs/maintainers/boosters-benchmarks.md has its output.

    python scripts/bench_determinism.py
    python scripts/bench_determinism.py --queries 3000 --rounds 50 --threads 1 2 4 8
"""

from __future__ import annotations

import argparse
import hashlib
import time
from typing import Any

import numpy as np

from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.models.ranker import Training
from ltr_harness.models.table import catalog

BAGGED = {"bagging_fraction": 0.8, "bagging_freq": 1}
SETTINGS: list[tuple[str, str, dict[str, Any]]] = [
    ("lambdarank, defaults", "lightgbm", {}),
    ("lambdarank, preset web", "lightgbm", {"preset": "web"}),
    ("rank_xendcg", "lightgbm", {"objective": "rank_xendcg"}),
    ("rank_xendcg, preset web", "lightgbm", {"objective": "rank_xendcg", "preset": "web"}),
    ("extra_trees", "lightgbm", {"params": {"extra_trees": True}}),
    ("feature_fraction_bynode", "lightgbm", {"params": {"feature_fraction_bynode": 0.5}}),
    ("dart", "lightgbm", {"params": {"boosting": "dart"}}),
    ("linear_tree", "lightgbm", {"objective": "regression", "params": {"linear_tree": True}}),
    ("bagging_by_query", "lightgbm", {"params": {**BAGGED, "bagging_by_query": True}}),
    ("goss", "lightgbm", {"params": {"data_sample_strategy": "goss"}}),
    ("use_quantized_grad", "lightgbm", {"params": {"use_quantized_grad": True}}),
    ("rank:ndcg, defaults", "xgboost", {}),
    ("rank:ndcg, preset web", "xgboost", {"preset": "web"}),
    (
        "rank:pairwise, mean",
        "xgboost",
        {"objective": "rank:pairwise", "params": {"lambdarank_pair_method": "mean"}},
    ),
    ("rank_xendcg, preset web", "xgboost", {"objective": "rank_xendcg", "preset": "web"}),
    ("approx", "xgboost", {"params": {"tree_method": "approx"}}),
    ("exact", "xgboost", {"params": {"tree_method": "exact", "max_depth": 4}}),
    ("dart", "xgboost", {"params": {"booster": "dart", "rate_drop": 0.2}}),
    ("YetiRank, preset small", "catboost", {"objective": "YetiRank", "preset": "small"}),
    ("QueryRMSE, preset small", "catboost", {"objective": "QueryRMSE", "preset": "small"}),
    ("PairLogit, preset small", "catboost", {"objective": "PairLogit", "preset": "small"}),
]


def synthetic_dataset(n_queries: int) -> RankingDataset:
    rng = np.random.default_rng(0)
    groups = QueryGroups.from_sizes(rng.integers(20, 100, n_queries))
    features = rng.normal(size=(groups.n_rows, 40)).astype(np.float32)
    relevance = features[:, :5].sum(axis=1) + 2 * rng.normal(size=groups.n_rows)
    labels = np.searchsorted(np.quantile(relevance, [0.5, 0.8, 0.95, 0.99]), relevance)
    return RankingDataset(
        features, Judgments.checked(labels, groups), tuple(f"f{i}" for i in range(features.shape[1]))
    )


def digest(name: str, fields: dict[str, Any], data: RankingDataset, threads: int, rounds: int) -> str:
    model = catalog.load(name)(**fields).fit(Training(train=data, seed=1, threads=threads, rounds=rounds))
    return hashlib.sha256(model.score(data.features).tobytes()).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queries", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--repeats", type=int, default=3, help="trainings with the most threads")
    options = parser.parse_args()
    data = synthetic_dataset(options.queries)
    most = max(options.threads)
    print(
        f"{data.n_queries:,} queries, {data.n_rows:,} rows, {options.rounds} rounds, threads {options.threads}\n"
    )
    print(f"{'library':10}{'setting':28}{'again':>10}{'threads':>10}   the ranker says")
    for title, name, fields in SETTINGS:
        started = time.perf_counter()
        repeated_digests = {digest(name, fields, data, most, options.rounds) for _ in range(options.repeats)}
        all_digests = {
            digest(name, fields, data, threads, options.rounds) for threads in options.threads
        } | repeated_digests
        says = "threads matter" if catalog.load(name)(**fields).threads_matter else "-"
        print(
            f"{name:10}{title:28}{'same' if len(repeated_digests) == 1 else 'differs':>10}"
            f"{'same' if len(all_digests) == 1 else 'differs':>10}   {says:16}{time.perf_counter() - started:6.1f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
