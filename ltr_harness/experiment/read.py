"""Reading an experiment and its data, from files, from memory, or again from a run's record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ltr_harness.boosting.stopping import StoppingRule
from ltr_harness.cache import DataCache
from ltr_harness.config import DataConfig, Experiment, data_mapping, load_data, load_experiment, stored_tree
from ltr_harness.config.load import settings
from ltr_harness.cores import sensible_workers, threads_of
from ltr_harness.dataset import RankingDataset
from ltr_harness.errors import ConfigError, DataError, Problem, UsageError
from ltr_harness.experiment.cluster import Cluster, across_all
from ltr_harness.experiment.folds import FoldReader, largest_label
from ltr_harness.experiment.job import Job, other_files
from ltr_harness.fingerprint import fingerprint_arrays, fingerprint_dataset
from ltr_harness.own_files import admitted
from ltr_harness.runs import Run
from ltr_harness.runs.folder import encoded
from ltr_harness.writers import write_dataset


def read(
    config: str | Path | Mapping[str, Any],
    *,
    overrides: Sequence[str] = (),
    runs: str | Path = "runs",
    force: bool = False,
    verify: bool = False,
    workers: int | None = 1,
    cluster: Cluster | None = None,
) -> Job:
    """Read an experiment and its data.

    Raises:
        UsageError: the configuration or the data are wrong.
    """
    if workers is not None and workers < 1:
        raise UsageError(f"workers={workers}; expected at least 1")
    source = config if isinstance(config, Mapping) else Path(config)
    experiment = load_experiment(source, overrides)
    _refuse_missing(experiment, source, overrides)
    reader = FoldReader(experiment.data, DataCache(verify=verify))
    if cluster is not None:
        experiment, workers = across_all(experiment, cluster), cluster.n_workers
    elif workers is None:
        n_runs = len(reader.names()) * sum(
            len(experiment.seeds) if model.ranker.seed_matters else 1 for model in experiment.models.values()
        )
        largest = max(reader.read(name).train.features.size for name in reader.names())
        workers = sensible_workers(n_runs, largest)
    scale = experiment.data.max_grade
    if scale is None:
        scale = largest_label(reader.read(name) for name in reader.names())
    models = {name: model.on_scale(scale) for name, model in experiment.models.items()}
    experiment = experiment.model_copy(update={"models": models})
    wanted = experiment.stopping
    stopping = None
    if wanted is not None:
        stopping = StoppingRule(
            wanted.metric.on_scale(scale), wanted.patience, wanted.min_delta, wanted.every, wanted.max_rounds
        )
    return Job(
        experiment=experiment,
        reader=reader,
        folder=Path(runs).expanduser() / encoded(experiment.name),
        metrics=tuple(metric.on_scale(scale) for metric in experiment.metrics.metrics),
        primary=experiment.metrics.primary.on_scale(scale),
        stopping=stopping,
        threads=threads_of(workers) if cluster is None else cluster.threads,
        workers=workers,
        cluster=cluster,
        force=force,
        files=other_files(experiment),
    )


def _refuse_missing(
    experiment: Experiment, source: Path | Mapping[str, Any], overrides: Sequence[str]
) -> None:
    """Refuse files that are not there, at the line of the configuration that names them."""
    data = experiment.data
    named = {
        f"data.splits.{fold}.{part}": getattr(split, part)
        for fold, split in data.splits.items()
        for part in ("train", "valid", "test")
    }
    problems: list[Problem] = []
    for key, files in {**named, "data.files": data.files}.items():
        if not isinstance(files, tuple):  # a hold-out, or nothing
            continue
        try:
            data.reader.inputs(files, data.root)
        except DataError as error:
            origins = {setting.path: setting.origin for setting in settings(source, overrides)}
            place = origins.get(key, "")
            problems += [replace(one, place=f"{place}: {one.place}".lstrip(": ")) for one in error.problems]
    if problems:
        raise DataError(list(dict.fromkeys(problems)))


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
