"""Progress of a running experiment as events on stderr, for programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from ltr_harness.cli import events
from ltr_harness.cli.event_stream import EventStream
from ltr_harness.experiment.check import each_once
from ltr_harness.experiment.job import Job, Plan, Study, Task
from ltr_harness.experiment.progress import Progress
from ltr_harness.runs import Run
from ltr_harness.runs.record import Trial


class JsonProgress(EventStream, Progress):
    """A running experiment as events."""

    def planned(self, job: Job, plan: Plan) -> None:
        self.emit(
            events.Planned(
                folder=str(job.folder),
                threads=job.threads,
                searches=[
                    events.PlannedSearch(
                        search=study.folder.name,
                        model=study.model,
                        fold=study.fold,
                        trials=study.n_trials,
                        over=study.choice is not None,
                    )
                    for study in plan.studies
                ],
                runs=[
                    events.PlannedRun(
                        run=task.folder.name,
                        model=task.model,
                        fold=task.fold,
                        seed=task.seed,
                        state=task.state,
                    )
                    for task in plan.tasks
                ],
                findings=[events.DataFinding(**asdict(finding)) for finding in each_once(job.findings)],
            )
        )

    def tried(self, study: Study, trial: Trial) -> None:
        self.emit(
            events.Tried(
                search=study.folder.name,
                trial=trial.number,
                status=trial.status,
                error=trial.error,
                options=trial.point,
                value=trial.value,
                seconds=trial.seconds,
            )
        )

    def started(self, task: Task) -> None:
        self.emit(events.Started(run=task.folder.name))

    def round(self, task: Task, number: int, values: Mapping[str, float]) -> None:
        self.emit(events.Round(run=task.folder.name, round=number, values=dict(values)))

    def lost(self, task: Task) -> None:
        self.emit(events.Lost(run=task.folder.name))

    def finished(self, task: Task, run: Run) -> None:
        record = run.record
        self.emit(
            events.Finished(
                run=task.folder.name,
                status=record.status,
                error=record.error,
                best_round=record.best_round,
                rounds_trained=record.rounds_trained,
                metrics={name: summary.mean for name, summary in record.metrics.items()},
                seconds=record.seconds,
            )
        )

    def reporting(self) -> None:
        self.emit(events.Reporting())

    def reported(self, report: Path) -> None:
        """The report is written."""
        self.emit(events.Reported(report=str(report)))
