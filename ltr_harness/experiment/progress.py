"""Progress listener of a running experiment; this one is silent."""

from __future__ import annotations

from collections.abc import Mapping

from ltr_harness.experiment.job import Job
from ltr_harness.experiment.studies import Study
from ltr_harness.experiment.task import Plan, Task
from ltr_harness.report import ReportData
from ltr_harness.runs import Run
from ltr_harness.runs.study import Trial


class Progress:
    """Listener to a running experiment; override what is of interest."""

    def planned(self, job: Job, plan: Plan) -> None:
        """The tasks are listed; nothing has been trained yet."""

    def tuning(self, study: Study) -> None:
        """A search for a model's options begins, or goes on; `planned` follows once all of them have ended."""

    def tried(self, study: Study, trial: Trial) -> None:
        """One of its trials is over."""

    def started(self, task: Task) -> None:
        """A task begins."""

    def round(self, task: Task, number: int, values: Mapping[str, float]) -> None:
        """A boosting round has been evaluated."""

    def lost(self, task: Task) -> None:
        """The worker that trained it has died; the task starts again."""

    def finished(self, task: Task, run: Run) -> None:
        """A task is over; `run.record.status` says how it ended."""

    def reporting(self) -> None:
        """All runs are there; comparison and report begin."""

    def compared(self, data: ReportData) -> None:
        """The comparison stands; its report is written next."""
