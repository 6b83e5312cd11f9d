"""The memory that `check` predicts, by arithmetic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.experiments.training import check as memory
from ltr_harness.experiments.training.check import memory_estimate
from ltr_harness.workflow import prepare, read


@pytest.mark.long
def test_mapped_data_is_what_the_splits_hold_and_own_memory_grows_with_the_libraries(
    small_config: dict[str, Any], tmp_path: Path
) -> None:
    job = prepare(read(small_config, runs=tmp_path, workers=2))
    fold = job.reader.read("all")
    both = memory_estimate(job)
    assert both.mapped == sum(part.n_rows * part.n_features * 4 for part in fold.splits.values())
    train, valid = (fold.splits[part].features.size for part in ("train", "valid"))
    assert both.own == 300e6 + 1.3 * (2 * (train + valid) + 8 * valid)
    small_config["models"] = {"lgbm": small_config["models"]["lgbm"]}
    alone = prepare(read(small_config, runs=tmp_path, workers=2))
    assert memory_estimate(alone).own == 300e6 + 1.3 * (train + valid)


@pytest.mark.long
def test_check_warns_where_it_is_too_little(
    small_config: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(small_config))
    monkeypatch.setattr(memory, "_available", lambda: 1e8)
    assert run_command(cli, ["check", str(path), "--runs", str(tmp_path / "runs")]) == 0
    said = capsys.readouterr().out
    assert "memory: about 0.3 GB" in said
    assert "0.1 GB available" in said
    assert "caution: memory: more than is available; fewer --workers need less" in said
