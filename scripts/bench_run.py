"""The whole of `ltr-harness run` against a straight script that trains the same models with the libraries alone.

The straight script knows what the harness knows and found out (parameters, seeds, folds, and how many rounds each
model was trained for), loads the files with scikit-learn, trains each model for exactly as many rounds with the
library's built-in ndcg@10 evaluated on the validation part after each, and scores the test part. It writes nothing,
compares nothing, reports nothing. Both are whole processes, run in turn, with the same number of threads; the
harness starts without any run and with warm caches (compiled metrics, parsed data).

    scripts/bench run --root /path/to/mq2008 [--runs 3] [--threads 1] [--fourth]

With --threads the script trains with as many; with --fourth both also train XGBoost's rank:pairwise.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
CONFIG = REPOSITORY / "configs" / "mq2008.yaml"
FOURTH = (
    "models.xgb-pairwise={ranker: xgboost, objective: 'rank:pairwise', params: {eta: 0.05, max_depth: 4, "
    "min_child_weight: 1.0, lambda: 5.0, subsample: 0.9, colsample_bytree: 0.7}}"
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", type=Path, default=REPOSITORY.parent / "shared" / "data" / "mq2008")
    parser.add_argument("--runs", type=int, default=3, help="pairs of runs (default 3)")
    parser.add_argument("--threads", type=int, help="of the straight script; default: as many as cores")
    parser.add_argument("--fourth", action="store_true", help="train a fourth boosted model")
    parser.add_argument("--straight", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.straight:
        train_straight(json.loads(arguments.straight.read_text()))
        return
    if not arguments.root.is_dir():
        sys.exit(f"{arguments.root}: no such folder; say where MQ2008 is with --root")
    with tempfile.TemporaryDirectory() as scratch:
        job = Path(scratch) / "job.json"
        first = Path(scratch) / "first"
        overrides = [f"data.root={arguments.root.resolve()}", *([FOURTH] if arguments.fourth else [])]
        harness(overrides, first)
        job.write_text(json.dumps(straight_job(overrides, first, arguments.threads)))
        harness_seconds, straight_seconds = [], []
        for i in range(arguments.runs):
            folder = Path(scratch) / f"runs{i}"
            harness_seconds.append(time_action(lambda folder=folder: harness(overrides, folder)))
            straight_seconds.append(time_action(lambda: run_straight(job)))
            ratio = harness_seconds[-1] / straight_seconds[-1]
            print(
                f"harness {harness_seconds[-1]:6.1f} s   straight script {straight_seconds[-1]:6.1f} s   {ratio:.3f}"
            )
        print(f"{run_straight(job).strip()}, the same in both")
        pairs = [h / s for h, s in zip(harness_seconds, straight_seconds, strict=True)]
        target = 0.6 if arguments.fourth and arguments.threads == 1 else 1.1
        print(
            f"ratio harness / straight script: median {statistics.median(pairs):.3f} (wanted: at most {target})"
        )


def time_action(action: object) -> float:
    started = time.perf_counter()
    action()  # type: ignore[operator]
    return time.perf_counter() - started


def harness_command(overrides: list[str], runs: Path) -> list[str]:
    command = [sys.executable, "-m", "ltr_harness", "run", str(CONFIG), "--runs", str(runs), "--quiet"]
    for override in overrides:
        command += ["--set", override]
    return command


def harness(overrides: list[str], runs: Path) -> None:
    subprocess.run(harness_command(overrides, runs), check=True, capture_output=True)


def run_straight(job: Path) -> str:
    command = [sys.executable, __file__, "--straight", str(job)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def straight_job(overrides: list[str], runs: Path, threads: int | None) -> dict[str, object]:
    """Return the job of the straight script, from the same configuration and the runs it led to."""
    from ltr_harness._util.cores import available_cores
    from ltr_harness.experiments.config import load_experiment
    from ltr_harness.experiments.runs import find_runs

    experiment = load_experiment(CONFIG, overrides)
    trainings = [
        {
            "library": run.record.ranker,
            "objective": run.record.objective,
            "params": run.record.config["params"],
            "seed": run.record.seed,
            "fold": run.record.fold,
            "rounds": run.record.rounds_trained,
        }
        for run in find_runs(runs / experiment.name)
        if run.record.ranker in ("lightgbm", "xgboost")
    ]
    folds = {
        name: [list(part) for part in (s.train, s.valid, s.test)]
        for name, s in experiment.data.splits.items()
    }
    return {
        "root": str(experiment.data.root),
        "folds": folds,
        "trainings": trainings,
        "threads": threads or available_cores(),
    }


def train_straight(job: dict) -> None:  # type: ignore[type-arg]
    import lightgbm
    import numpy as np
    import xgboost
    from sklearn.datasets import load_svmlight_file

    parts: dict[str, tuple] = {}  # type: ignore[type-arg]

    def load(names: list[str]) -> tuple:  # type: ignore[type-arg]
        for name in names:
            if name not in parts:
                x, y, qid = load_svmlight_file(f"{job['root']}/{name}", query_id=True, dtype=np.float32)
                first = np.flatnonzero(np.r_[True, qid[1:] != qid[:-1]])
                parts[name] = (x.toarray(), y, np.diff(np.r_[first, qid.size]))
        return tuple(np.concatenate([parts[name][i] for name in names]) for i in range(3))

    for fold, (train_files, valid_files, test_files) in job["folds"].items():
        x, y, sizes = load(train_files)
        xv, yv, sizes_v = load(valid_files)
        xt, _, _ = load(test_files)
        for training in job["trainings"]:
            if training["fold"] != fold:
                continue
            params = training["params"] | {"objective": training["objective"], "seed": training["seed"]}
            if training["library"] == "lightgbm":
                params |= {"metric": "ndcg", "eval_at": [10], "num_threads": job["threads"], "verbosity": -1}
                train = lightgbm.Dataset(x, y, group=sizes)
                valid = lightgbm.Dataset(xv, yv, group=sizes_v, reference=train)
                lightgbm.train(params, train, training["rounds"], valid_sets=[valid]).predict(xt)
            else:
                params |= {"eval_metric": "ndcg@10", "nthread": job["threads"], "tree_method": "hist"}
                dtrain = xgboost.QuantileDMatrix(x, y, group=sizes)
                dvalid = xgboost.DMatrix(xv, yv, group=sizes_v)
                booster = xgboost.train(
                    params, dtrain, training["rounds"], evals=[(dvalid, "valid")], verbose_eval=False
                )
                booster.predict(xgboost.DMatrix(xt))
    rounds = sum(training["rounds"] for training in job["trainings"])
    print(f"{len(job['trainings'])} trainings, {rounds} rounds")


if __name__ == "__main__":
    main()
