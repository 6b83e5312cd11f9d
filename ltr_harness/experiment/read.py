"""Reading an experiment: the configuration resolved, data read, the scale of grades fixed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ltr_harness.boosting.stopping import StoppingRule
from ltr_harness.cache import DataCache
from ltr_harness.config import Experiment, load_experiment
from ltr_harness.config.load import settings
from ltr_harness.cores import sensible_workers, threads_of
from ltr_harness.errors import DataError, Problem, UsageError
from ltr_harness.experiment.cluster import Cluster, across_all
from ltr_harness.experiment.definitions import other_files
from ltr_harness.experiment.folds import FoldReader, largest_label
from ltr_harness.experiment.job import Job
from ltr_harness.runs.folder import encoded


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
        workers = _workers_for(experiment, reader)
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


def _workers_for(experiment: Experiment, reader: FoldReader) -> int:
    n_runs = len(reader.names()) * sum(
        len(experiment.seeds) if model.ranker.seed_matters else 1 for model in experiment.models.values()
    )
    largest = max(reader.read(name).train.features.size for name in reader.names())
    return sensible_workers(n_runs, largest)
