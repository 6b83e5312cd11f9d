"""How a run's data was read: what its record keeps of the configuration, and the way back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from ltr_harness.config import DataConfig, data_mapping, load_experiment
from ltr_harness.errors import Problem, UsageError
from ltr_harness.runs import Run


def reading_of(data: DataConfig, fold: str) -> dict[str, Any]:
    """The data section of a configuration without its root, which is a place on one machine, and other folds."""
    kept = data_mapping(data)
    del kept["root"]
    if "splits" in kept:
        kept["splits"] = {fold: kept["splits"][fold]}
    return kept


def data_of(run: Run, data_root: Path | None) -> DataConfig:
    """How the run's data is read, by its record; by the configuration beside it if the record is too old to say.

    Args:
        run: only its record is looked at, and the configuration beside its folder for where the data was.
        data_root: where the data is now.

    Raises:
        UsageError: nobody says where the data is, or this version does not understand the record.
    """
    record, beside = run.record, run.path.resolve().parent / "experiment.yaml"
    if not record.reading:
        if not beside.is_file():
            raise UsageError(
                f"{beside}: no such file; expected the experiment's configuration beside its runs"
            )
        overrides = () if data_root is None else (f"data.root={data_root.resolve()}",)
        return load_experiment(beside, overrides, check_rankers=False).data  # other models' files may be gone
    root = data_root or _root(beside)
    if root is None and any(facts.files for facts in record.data.values()):
        raise UsageError(
            Problem(
                str(run.path),
                "its record names the data files but not the folder they are in",
                "the experiment's configuration beside the run, or the folder",
                "say where they are with --data-root",
            )
        )
    section = {**record.reading, "root": str((root or run.path).resolve())}
    return load_experiment(
        {"name": "record", "data": section, "models": {"none": {"ranker": "random"}}}, check_rankers=False
    ).data


def _root(configuration: Path) -> Path | None:
    """Where an experiment's data was; only that is read, because the rest may have changed since."""
    try:
        return Path(yaml.safe_load(configuration.read_text(encoding="utf-8"))["data"]["root"])
    except (OSError, ValueError, yaml.YAMLError, KeyError, TypeError):
        return None
