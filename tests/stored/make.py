"""Makes the folder of the version that is written today: `python tests/stored/make.py`, with the version's last commit.

The YAML files of the version before are taken, and edited by hand first where they name what is gone.
"""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd

from ltr_harness import compare
from ltr_harness._util.stored import SCHEMA_VERSION
from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.experiments.runs import find_runs
from ltr_harness.experiments.training.reproduce import fold_of

HERE = Path(__file__).parent
FILES = ("small.yaml", "monitor.yaml", "monitor_every.yaml")
KEPT = ("report.json", "per_query.parquet", "config.yaml")  # of a result of monitor
PAIR = ("model", "other", "metric", "n", "difference", "ci_low", "ci_high", "p")
ROWS = 40


def main() -> None:
    folder = HERE / f"v{SCHEMA_VERSION}"
    folder.mkdir(exist_ok=True)
    for name in FILES:
        if not (folder / name).exists():
            shutil.copy(HERE / f"v{SCHEMA_VERSION - 1}" / name, folder)
    os.chdir(folder)
    run_command(cli, ["run", "small.yaml"])
    experiment = Path("runs/small/experiment.yaml")  # has the folder that it was made in
    experiment.write_text(experiment.read_text().replace(f"root: {folder}", "root: ."))
    run_command(cli, ["monitor", "monitor.yaml", "-o", "result", "--history", "monitor/history"])
    run_command(cli, ["monitor", "monitor_every.yaml", "-o", "every"])
    for path in (Path("result") / name for name in KEPT):
        _move(path, Path("monitor") / path)
    _move(Path("every/report.json"), Path("monitor/every/report.json"))
    for name in ("result", "every"):
        shutil.rmtree(name)
    Path("expected.json").write_text(json.dumps(expected(Path("runs/small")), indent=1) + "\n")


def _move(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    path.rename(target)


def expected(experiment: Path) -> dict[str, object]:
    """Return what later commits must find in the folder; writes rows.csv, the rows that they score."""
    runs = find_runs(experiment)
    test = fold_of(runs[0]).test
    rows = pd.DataFrame(np.asarray(test.features)[:ROWS], columns=list(test.feature_names))
    rows.to_csv("rows.csv", index=False, float_format="%.9g")
    pair = compare(experiment / "report" / "report.json").paired("xgb")
    [history] = Path("monitor/history").iterdir()
    windows = json.loads(history.read_text())["windows"]
    return {
        "runs": {
            run.path.name: {
                "best_round": run.record.best_round,
                "means": {metric: summary.mean for metric, summary in run.record.metrics.items()},
                "scores": run.score(rows).tolist(),
                "notes": [str(caution) for caution in run.record.training_cautions],
                "n_findings": len(run.record.data_cautions),
            }
            for run in runs
        },
        "pair": {name: getattr(pair, name) for name in PAIR},
        "windows": [{name: window[name] for name in ("number", "n", "mean")} for window in windows],
    }


if __name__ == "__main__":
    main()
