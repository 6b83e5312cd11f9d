"""Progress of a running experiment as events on stderr, for programs."""

from ltr_harness.cli.json_events import EventStream, Failed, Finished, Started
from ltr_harness.experiments.runs import Run
from ltr_harness.experiments.runs.record import StudyRecord, Trial
from ltr_harness.experiments.training.job import Job, Task
from ltr_harness.experiments.training.progress import Progress, failed_trial, lost_worker, shown_cautions


class JsonProgress(EventStream, Progress):
    """A running experiment as events."""

    def planned(self, job: Job) -> None:
        for caution in shown_cautions(job):
            self.caution(caution)

    def trial_ended(self, study: StudyRecord, trial: Trial) -> None:
        if trial.status == "failed":
            self.caution(failed_trial(study, trial))

    def started(self, task: Task) -> None:
        self.emit(
            Started(
                command=self.command, run=task.folder.name, model=task.model, fold=task.fold, seed=task.seed
            )
        )

    def worker_lost(self, task: Task) -> None:
        self.caution(lost_worker(task))

    def finished(self, task: Task, run: Run) -> None:
        record = run.record
        if record.status == "failed":
            self.emit(Failed(run=task.folder.name, place=str(task), found=record.error or ""))
            return
        self.emit(
            Finished(
                run=task.folder.name,
                best_round=record.best_round,
                rounds_trained=record.rounds_trained,
                metrics={name: summary.mean for name, summary in record.metrics.items()},
                seconds=record.seconds,
            )
        )
