"""What all runs of an experiment have in common, passed whole from reading to the report and to every worker."""

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
    """An experiment whose data is read.

    Attributes:
        experiment: the resolved configuration.
        reader: its data.
        folder: where its run folders are.
        metrics, primary, stopping: with the scale of grades fixed.
        threads: of each training; part of the identity of those that they can move.
        workers: processes that train side by side.
        cluster: where training takes place instead.
        force: train everything again, searches included.
        files: those besides the data that models, metrics and code come from, and their digests.
        findings: fold to what the data lints say of it; empty before the check.
    """

    experiment: Experiment
    reader: FoldReader
    folder: Path
    metrics: tuple[Metric, ...]
    primary: Metric
    stopping: StoppingRule | None
    threads: int
    workers: int = 1
    cluster: Cluster | None = None
    force: bool = False
    files: Mapping[str, str] = field(default_factory=dict)
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
    """A job as plain values: classes from a user's own file cannot be pickled.

    Attributes:
        settings: the experiment.
        rest: the other fields by name.
    """

    settings: Mapping[str, Any]
    rest: Mapping[str, Any]

    @cached_property
    def loaded(self) -> Job:
        """The job in this process, which reads the data itself; made when the first task asks for it.

        Raises:
            UsageError: a file that the plan was made with has changed since, or is not here.
        """
        refuse_changed(self.rest["files"])  # what it would train is not what the plan says
        experiment = load_experiment(self.settings, check_rankers=False)
        return Job(experiment, FoldReader(experiment.data), **self.rest)
