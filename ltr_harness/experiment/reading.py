"""Data section of a record: how a run's data was read, and how to read it again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ltr_harness.config import DataConfig, data_mapping, load_data, stored_tree
from ltr_harness.errors import ConfigError, Problem, UsageError
from ltr_harness.own_files import admitted
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

    Raises:
        UsageError: nobody says where the data is, this version does not understand the record, or the reader is from
            a file and the run is not trusted.
    """
    record, beside = run.record, run.path.resolve().parent / "experiment.yaml"
    if not record.reading and not beside.is_file():
        raise UsageError(f"{beside}: no such file; expected the experiment's configuration beside its runs")
    section = record.reading or _data_section(beside)
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
    section = {**section, "root": str((root or run.path).resolve())}
    if isinstance(section.get("reader"), str):
        section["reader"] = admitted(section["reader"], run.path, run.trust)
    return load_data(section)


def _data_section(configuration: Path) -> dict[str, Any]:
    """How an experiment reads its data; only that is looked at, because the rest may have changed since."""
    node = stored_tree(configuration).mapping.get("data")
    section = None if node is None else node.plain()
    return section if isinstance(section, dict) else {}


def _root(configuration: Path) -> Path | None:
    """Where an experiment's data was."""
    try:
        return Path(_data_section(configuration)["root"])
    except (ConfigError, KeyError, TypeError):
        return None
