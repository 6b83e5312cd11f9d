"""Data sets in memory in a configuration, instead of the names of files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ltr_harness.dataset import RankingDataset
from ltr_harness.errors import DataError, Problem
from ltr_harness.fingerprint import fingerprint_arrays, fingerprint_dataset
from ltr_harness.runs.folder import encoded
from ltr_harness.writers import write_dataset

FOLDER = "data"


def with_files(config: Any, runs: str | Path) -> Any:
    """The configuration with the data sets in it written as files, once, beside the experiment's runs.

    So everything that reads an experiment again can: another process, `reproduce`, the report.

    Raises:
        DataError: the sets do not have the same columns.
    """
    data = config.get("data") if isinstance(config, Mapping) else None
    if not isinstance(data, Mapping):
        return config
    sets = {key: value for key, value in data.items() if isinstance(value, RankingDataset)}
    if not sets:
        return config
    _refuse_other_columns(sets)
    folder = Path(runs).expanduser().resolve() / encoded(str(config.get("name"))) / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    names = {key: _written(one, folder) for key, one in sets.items()}
    first = next(iter(sets.values()))
    roles = {
        "weight": first.judgments.query_weights is not None,
        "position": first.positions is not None,
        "document_id": first.judgments.document_ids is not None,
    }
    section: dict[str, Any] = {
        "reader": "parquet",
        "root": str(folder),
        "features": list(first.feature_names),
        **{role: role for role, there in roles.items() if there},
    }
    if first.query_attributes:
        section["attributes"] = list(first.query_attributes)
    rest = {key: value for key, value in data.items() if key not in sets}
    if "files" in names:
        section["files"] = [names.pop("files")]
    splits = {key: rest.pop(key) for key in ("train", "valid", "test") if key in rest} | names
    if splits:
        section["splits"] = splits
    return {**config, "data": {**section, **rest}}


def _written(dataset: RankingDataset, folder: Path) -> str:
    """The file's name, which is its content's: what is there already is not written again."""
    content = fingerprint_dataset(dataset) + fingerprint_arrays(
        *(np.array([name, *map(str, values)]) for name, values in dataset.query_attributes.items())
    )
    name = f"{fingerprint_arrays(np.array([content]))[:16]}.parquet"
    if not (folder / name).is_file():
        write_dataset(dataset, folder / name)
    return name


def _refuse_other_columns(sets: Mapping[str, RankingDataset]) -> None:
    (first, one), *others = sets.items()
    for name, other in others:
        if other.feature_names != one.feature_names:
            raise DataError(
                Problem(
                    f"data.{name}",
                    f"its features are other ones than those of data.{first}",
                    "the same names in the same order",
                )
            )
