"""Job: everything that the runs of an experiment share, passed whole from reading to the report and to workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from ltr_harness.boosting.stopping import StoppingRule
from ltr_harness.config import as_mapping, load_experiment
from ltr_harness.config.experiment import Experiment
from ltr_harness.experiment.cluster import Cluster
from ltr_harness.experiment.definitions import refuse_changed
from ltr_harness.experiment.folds import Fold, FoldReader
from ltr_harness.inspection import Finding
from ltr_harness.metrics import Metric


@dataclass(frozen=True, eq=False)
class Job:
    """An experiment whose data is read."""

    experiment: Experiment
    reader: FoldReader
    folder: Path
    metrics: tuple[Metric, ...]  # this, primary and stopping: with the scale of grades fixed
    primary: Metric
    stopping: StoppingRule | None
    threads: int  # of each training; part of the identity of those that they can move
    workers: int = 1  # processes that train side by side
    cluster: Cluster | None = None  # where training takes place instead
    force: bool = False  # train everything again, searches included
    # those besides the data that models, metrics and code come from, and their digests
    files: Mapping[str, str] = field(default_factory=dict)
    # fold to what the data lints say of it; empty before the check
    findings: Mapping[str, tuple[Finding, ...]] = field(default_factory=dict)

    @property
    def decisive(self) -> Metric:
        """What decides on validation data: the stopping rule's metric, else the primary one."""
        return self.primary if self.stopping is None else self.stopping.metric

    @property
    def folds(self) -> list[Fold]:
        return [self.reader.read(name) for name in self.reader.names()]

    def serialized(self) -> SerializedJob:
        """What another process needs to train; the cluster is this process's own."""
        rest = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in _LOADED}
        return SerializedJob(as_mapping(self.experiment), rest)


_LOADED = ("experiment", "reader", "cluster")


@dataclass(frozen=True)
class SerializedJob:
    """A job as plain values: classes from a user's own file cannot be pickled."""

    settings: Mapping[str, Any]  # the experiment
    rest: Mapping[str, Any]  # the other fields by name

    @cached_property
    def loaded(self) -> Job:
        """The job in this process, which reads the data itself; made when the first task asks for it.

        Raises:
            UsageError: a file that the plan was made with has changed since, or is not here.
        """
        refuse_changed(self.rest["files"])  # what it would train is not what the plan says
        experiment = load_experiment(self.settings, check_rankers=False)
        return Job(experiment, FoldReader(experiment.data), **self.rest)
