"""Progress of a running experiment as events on stderr, for programs."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ltr_harness.cli import events
from ltr_harness.cli.events import EventStream, taken
from ltr_harness.experiment.check import each_once
from ltr_harness.experiment.job import Job, Task, choice_of
from ltr_harness.experiment.progress import Progress
from ltr_harness.runs import Run
from ltr_harness.runs.record import StudyRecord, Trial


class JsonProgress(EventStream, Progress):
    """A running experiment as events."""

    def planned(self, job: Job) -> None:
        self._job = job
        searches = [
            events.PlannedSearch(
                search=job.folder_of(study).name,
                trials=len(job.trials_of(study)),
                over=choice_of(job, study) is not None,
                **taken(study, "model", "fold"),
            )
            for study in job.studies
        ]
        of_tasks = ((task.folder.name, taken(task, "model", "fold", "seed", "state")) for task in job.tasks)
        runs = [events.PlannedRun(run=run, **about) for run, about in of_tasks]
        findings = [events.DataFinding(**asdict(finding)) for finding in each_once(job.findings)]
        plan: dict[str, Any] = {"searches": searches, "runs": runs, "findings": findings}
        self.emit(events.Planned(folder=str(job.folder), threads=job.threads, **plan))

    def tried(self, study: StudyRecord, trial: Trial) -> None:
        search, outcome = self._job.folder_of(study).name, taken(trial, "status", "error", "value", "seconds")
        self.emit(events.Tried(search=search, trial=trial.number, options=trial.point, **outcome))

    def started(self, task: Task) -> None:
        self.emit(events.Started(run=task.folder.name))

    def round(self, task: Task, number: int, values: Mapping[str, float]) -> None:
        self.emit(events.Round(run=task.folder.name, round=number, values=dict(values)))

    def lost(self, task: Task) -> None:
        self.emit(events.Lost(run=task.folder.name))

    def finished(self, task: Task, run: Run) -> None:
        means = {name: summary.mean for name, summary in run.record.metrics.items()}
        outcome = taken(run.record, "status", "error", "best_round", "rounds_trained", "seconds")
        self.emit(events.Finished(run=task.folder.name, metrics=means, **outcome))

    def reporting(self) -> None:
        self.emit(events.Reporting())

    def reported(self, report: Path) -> None:
        """The report is written."""
        self.emit(events.Reported(report=str(report)))
