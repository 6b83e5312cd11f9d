"""Help, reading an experiment and saving a comparison load no library that they do not need."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ltr_harness.cli import COMMANDS

# One process, where each step finds what the earlier ones have loaded.
STEPS = """
import sys

def print_loaded(step, *names):
    print(step, *sorted({*names} & sys.modules.keys()))

from ltr_harness.cli import cli

context = cli.make_context("ltr-harness", ["list"])
for name in cli.list_commands(context):
    command = cli.get_command(context, name)
    command.get_help(command.make_context(name, [], parent=context, resilient_parsing=True))
    print_loaded(name, "pandas", "pyarrow", "pydantic", "scipy", "lightgbm", "xgboost")

from ltr_harness.experiments.config import load_experiment

experiment = {
    "name": "x",
    "data": {"reader": "synthetic"},
    "stopping": {"metric": "ndcg@10"},
    "models": {"trees": {"ranker": "lightgbm"}, "others": {"ranker": "xgboost"}},
}
load_experiment(experiment, check_rankers=False)
print_loaded("read", "lightgbm", "xgboost", "pandas", "pyarrow", "altair")

import numpy as np
from ltr_harness.comparison.contrasts import SystemResult
from ltr_harness.experiments.compare.saved import _table_of

values = {"mrr": np.array([[1.0], [0.5]])}
system = SystemResult(
    name="a", query_ids=np.array(["q"]), values=values, replicates=("1", "2"), higher_is_better={"mrr": True}
)
assert _table_of(system, ["mrr"], set()).num_rows == 2
print_loaded("saved", "pandas")
"""


@pytest.mark.long
def test_nothing_slow_is_loaded_before_it_is_needed() -> None:
    done = subprocess.run([sys.executable, "-c", STEPS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    commands = [name for group in COMMANDS.values() for name in group]
    assert done.stdout.splitlines() == [*commands, "read", "saved"]
