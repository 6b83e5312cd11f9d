"""Are the presets as good as the libraries' defaults, on sets they were not chosen on?

Trains each objective with the preset and with the library's defaults on synthetic sets of the shape of a web set
(136 features), stopping on validation NDCG@10, and compares NDCG@10 on the test queries of all seeds together. Other
values are tried with --try; look at those on --split valid, and choose before the test queries are looked at.
What is trained is kept in a file and not trained again. docs/maintainers/boosters-benchmarks.md has its output.

    python scripts/bench_presets.py --seeds 21 22
    python scripts/bench_presets.py --split valid --seeds 11 12 --only lightgbm:lambdarank --try '{"num_leaves": 15}'
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ltr_harness.boosting import StoppingRule
from ltr_harness.comparison.stats.cluster_sums import ClusterSums
from ltr_harness.comparison.stats.families import mean_intervals
from ltr_harness.comparison.stats.method import Method
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.readers.synthetic import Synthetic
from ltr_harness.metrics import NDCG, bind
from ltr_harness.models.ranker import Training
from ltr_harness.models.table import catalog

OBJECTIVES = (
    "lightgbm:lambdarank",
    "lightgbm:rank_xendcg",
    "xgboost:rank:ndcg",
    "xgboost:rank:pairwise",
    "xgboost:rank_xendcg",
)
NDCG10 = NDCG(k=10)


def splits_of(seed: int, queries: int) -> dict[str, RankingDataset]:
    counts = {"train": queries, "valid": 1000, "test": 1000}
    reader = Synthetic.model_validate({"n_queries": counts, "n_features": 136, "seed": seed})
    return {name: reader.read([name], Path()) for name in counts}


def variants(options: argparse.Namespace) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Ranker, how the table calls it, and its fields; the library's defaults first."""
    for name in options.only:
        ranker, _, objective = name.partition(":")
        yield ranker, "defaults", {"objective": objective}
        extra_params = [json.loads(text) for text in options.tried]
        for params in extra_params or [{}]:
            title = f"{options.preset}{' with ' + json.dumps(params) if params else ''}"
            yield ranker, title, {"objective": objective, "preset": options.preset, "params": params}


def measure_ranker(
    splits: dict[str, RankingDataset], ranker: str, fields: dict[str, Any], patience: int
) -> dict[str, Any]:
    """The kept round, and NDCG@10 of every validation and test query."""
    rule = StoppingRule(NDCG10, patience=patience, max_rounds=2000)
    model = catalog.load(ranker)(**fields).fit(
        Training(train=splits["train"], valid=splits["valid"], seed=1, stopping=rule)
    )
    values = {
        name: bind(NDCG10, splits[name].judgments).per_query(model.score(splits[name].features))[0].tolist()
        for name in ("valid", "test")
    }
    return {"rounds": model.best_round, **values}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[21, 22], help="one set for each")
    parser.add_argument("--queries", type=int, default=2000, help="training queries of a set")
    parser.add_argument("--preset", default="web")
    parser.add_argument("--patience", type=int, default=50)
    parser.add_argument("--only", nargs="+", choices=OBJECTIVES, default=OBJECTIVES, metavar="OBJECTIVE")
    parser.add_argument("--try", dest="tried", action="append", default=[], metavar="JSON", help="params")
    parser.add_argument("--split", choices=["valid", "test"], default="test")
    parser.add_argument("--kept", type=Path, default=Path("bench_presets.jsonl"), help="file of results")
    options = parser.parse_args()
    results = {}
    if options.kept.is_file():
        results = {line["key"]: line for line in map(json.loads, options.kept.read_text().splitlines())}
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for seed in options.seeds:
        splits: dict[str, RankingDataset] = {}
        for ranker, title, fields in variants(options):
            resolved = catalog.load(ranker)(**fields).definition()
            key = json.dumps([options.queries, seed, options.patience, ranker, resolved], default=str)
            if key not in results:
                splits = splits or splits_of(seed, options.queries)
                results[key] = {"key": key, **measure_ranker(splits, ranker, fields, options.patience)}
                with options.kept.open("a") as file:
                    file.write(json.dumps(results[key]) + "\n")
            found.setdefault((f"{ranker} {fields['objective']}", title), []).append(results[key])
    print(f"NDCG@10 on {options.split}, seeds {options.seeds}, {options.queries:,} training queries each")
    for (name, title), runs in found.items():
        values = np.concatenate([run[options.split] for run in runs])
        change = values - np.concatenate([run[options.split] for run in found[name, "defaults"]])
        ((low,), (high,)) = mean_intervals(ClusterSums.of(change[:, None]), Method())
        print(
            f"{name:24}{title:12} {np.nanmean(values):.4f}  {np.nanmean(change):+.4f} ({low:+.4f} to {high:+.4f}), "
            f"n = {np.isfinite(change).sum():,}, rounds {[run['rounds'] for run in runs]}"
        )


if __name__ == "__main__":
    main()
