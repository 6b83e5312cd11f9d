"""An option of the stopping rule is a field of one class: the configuration, identities and records follow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ltr_harness.boosting.stopping import StoppingRule
from ltr_harness.experiments.runs.record import StoppingFacts
from ltr_harness.experiments.training.pool import worker_context
from ltr_harness.experiments.training.progress import Progress
from ltr_harness.metrics import NDCG
from ltr_harness.workflow import run_experiment

EXPERIMENT: dict[str, Any] = {
    "name": "x",
    "data": {
        "reader": "synthetic",
        "splits": {"train": "train", "valid": "valid", "test": "test"},
        "n_queries": {"train": 40, "valid": 20, "test": 24},
        "n_features": 12,
        "seed": 3,
    },
    "metrics": {"report": ["ndcg"], "cutoffs": [10], "primary": "ndcg@10"},
    "stopping": {"metric": "ndcg@10", "patience": 3, "max_rounds": 9},
    "models": {
        "gbm": {"ranker": "lightgbm", "params": {"min_data_in_leaf": 1}},
        "lin": {"ranker": "linear", "weights": {"match_1": 1}},
    },
    "report": {"formats": ["json"]},
}

# The package's own file with one more option, and three lines that obey it, before anything else has read the class.
WITH_TARGET = '''
import os, sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

for name in [name for name in sys.modules if name.partition(".")[0] == "ltr_harness"]:
    del sys.modules[name]
from ltr_harness.boosting import stopping

source = Path(stopping.__file__).read_text()
for before, after in [
    (
        "    def __post_init__(self)",
        """    target: float | None = field(
        default=None, metadata={"description": "Stop once the metric is as high.", "ge": 0}
    )

    def __post_init__(self)""",
    ),
    (
        "        return self.may_stop_after(round_)",
        """        if self.rule.target is not None and value >= self.rule.target:
            return True
        return self.may_stop_after(round_)""",
    ),
]:
    assert source.count(before) == 1
    source = source.replace(before, after)
exec(compile(source, stopping.__file__, "exec"), vars(stopping))

from ltr_harness import workflow
from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command

workflow._TrainingPlan.is_tested = False  # as `reports_left_out`
os.chdir(folder)
before = set(Path("runs/x").iterdir())
with open("printed", "w") as printed, redirect_stdout(printed), redirect_stderr(printed):
    for command in ("check x.yaml", "run x.yaml --workers 1 --set stopping.target=0.01"):
        assert run_command(cli, command.split()) == 0
    (added,) = (path for path in Path("runs/x").glob("gbm--*") if path not in before)
    assert run_command(cli, ["reproduce", str(added)]) == 0
'''


def printed_with_target(folder: Path) -> str:
    """The output of `check`, of `run` with a target, and of `reproduce` of the run that it adds.

    They run in a copy of a process that has loaded the libraries, and load the package again.
    """
    process = worker_context().Process(target=exec, args=(WITH_TARGET, {"folder": folder}))
    process.start()
    process.join(120)
    assert process.exitcode == 0  # else a traceback is on stderr, or an error in the file
    return (folder / "printed").read_text()


def records(runs: Path) -> dict[str, dict[str, Any]]:
    return {path.parent.name: json.loads(path.read_text()) for path in runs.glob("x/*/record.json")}


@pytest.mark.long
@pytest.mark.usefixtures("without_report")
def test_a_new_option_is_a_change_of_one_class_and_leaves_runs_that_do_not_use_it(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(yaml.safe_dump(EXPERIMENT))
    runs = tmp_path / "runs"
    run_experiment(EXPERIMENT, runs=runs, workers=1, progress=Progress())
    before = records(runs)
    printed = printed_with_target(tmp_path)
    assert "done: 2 of 2 runs" in printed
    now = records(runs)
    (added,) = now.keys() - before.keys()  # the linear model is the same run
    assert {name: now[name] for name in before} == before
    assert now[added]["model"] == "gbm"
    assert now[added]["stopping"] == {
        "metric": "ndcg@10",
        "on": "valid",
        "patience": 3,
        "min_delta": 0.0,
        "every": 1,
        "max_rounds": 9,
        "target": 0.01,
    }
    assert now[added]["rounds_trained"] == 1
    # and trained again by the same rule
    assert "identical: model file" in printed


def test_a_record_without_an_option_has_its_default() -> None:
    stored = {"metric": "ndcg@10", "on": "valid", "patience": 3, "every": 1, "max_rounds": 9}
    assert StoppingFacts(**stored).rule(NDCG(k=10)) == StoppingRule(NDCG(k=10), patience=3, max_rounds=9)


def test_a_stored_rule_is_the_rule() -> None:
    rule = StoppingRule(NDCG(k=5), patience=7, min_delta=0.001, every=2, max_rounds=90)
    assert StoppingFacts.of(rule).rule(rule.metric) == rule
