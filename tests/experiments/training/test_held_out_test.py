"""One file for everything: an experiment divides it as `ltr-harness data split` does."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.data.readers.csv import Csv
from ltr_harness.errors import ConfigError
from ltr_harness.experiments.config import load_experiment, resolved_yaml
from ltr_harness.experiments.training.folds import FoldReader

WAYS: dict[str, dict[str, Any]] = {
    "by_time": {"by_time": "day"},
    "together": {"together": "user"},
    "stratify": {"stratify": "user"},
    "by chance": {"seed": 3},
}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    rows = "".join(f"q{q},{d},{q}.{d},{39 - q},u{q % 7}\n" for q in range(40) for d in (0, 1))
    (tmp_path / "log.csv").write_text("query_id,label,f,day,user\n" + rows)
    return tmp_path


def configuration(log: Path, **sides: Any) -> dict[str, Any]:
    return {
        "name": "one file",
        "data": {
            "reader": "csv",
            "root": str(log),
            "attributes": ["day", "user"],
            "splits": {"train": "log.csv", **sides},
        },
        "stopping": {"metric": "ndcg@10"} if "valid" in sides else None,
        "report": {"formats": ["json"]},
        "models": {"random": {"ranker": "random"}},
    }


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("valid", [None, 0.2])
def test_the_same_queries_as_by_the_command(log: Path, way: str, valid: float | None) -> None:
    how = WAYS[way]
    sides: dict[str, Any] = {"test": {"holdout": 0.25, **how}}
    if valid is not None:
        sides["valid"] = {"holdout": valid, **how}
    fold = FoldReader(load_experiment(configuration(log, **sides)).data).read("all")
    option, value = next(iter(how.items()))
    command = ["data", "split", str(log / "log.csv"), "-o", str(log / "parts"), "--test", "0.25"]
    command += ["--valid", str(valid)] if valid is not None else []
    said = [f"--{option.replace('_', '-')}", str(value)]
    assert run_command(cli, [*command, *said, "--column", "attributes=[day, user]"]) == 0
    for side in ("train", *reversed(sides)):
        part = Csv(attributes=("day", "user")).read([f"parts/{side}.csv"], log)
        assert sorted(fold.splits[side].groups.ids.tolist()) == sorted(part.groups.ids.tolist()), side
    assert fold.test.source == "log.csv (held out)"
    if way == "by_time":
        days = [fold.splits[side].query_attributes["day"] for side in ("train", *reversed(sides))]
        assert all(one.max() < later.min() for one, later in pairwise(days))


def test_it_is_kept_in_the_configuration(log: Path, tmp_path: Path) -> None:
    experiment = load_experiment(configuration(log, test={"holdout": 0.2, "by_time": "day"}))
    (tmp_path / "again.yaml").write_text(resolved_yaml(experiment))
    assert load_experiment(tmp_path / "again.yaml").data.splits == experiment.data.splits


def test_two_ways_at_once_are_refused(log: Path) -> None:
    sides = {"valid": {"holdout": 0.2}, "test": {"holdout": 0.2, "by_time": "day"}}
    with pytest.raises(
        ConfigError, match="valid and test are held out in different ways; expected the same by_time"
    ):
        load_experiment(configuration(log, **sides))
