"""What a report is made from when the runs are on disk: an experiment's, or any that may be compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from ltr_harness.comparison import Comparison, compare
from ltr_harness.config import Outline, read_outline
from ltr_harness.errors import DataError
from ltr_harness.rankers.adapters import BESIDE_THE_RESULT
from ltr_harness.report.data import ReportData
from ltr_harness.runs import Run, find_runs
from ltr_harness.runs.record import Record
from ltr_harness.wording import count_of


def experiment_data(
    experiment: Outline, runs_read: Sequence[Run], baseline: str | None = None
) -> ReportData | None:
    """The comparison that an experiment's `compare:` section describes; None if no run has finished."""
    runs = [run for run in runs_read if run.record.status == "complete"]
    if not runs:
        return None
    settings = experiment.compare
    declared = baseline or settings.baseline
    finished = {run.record.model for run in runs}
    comparison = compare(
        *runs_read,
        # a name that is no model at all is left to `compare`, which lists those there are
        baseline=None if declared in experiment.models and declared not in finished else declared,
        **asdict(settings.method),
    )
    if comparison.baseline != declared:
        said = f"the baseline {declared} has no finished run; {comparison.baseline} stands in for it"
        comparison = replace(comparison, notes=(said, *comparison.notes))
    if settings.outdated:
        comparison = replace(comparison, notes=(settings.outdated, *comparison.notes))
    comparison = _with_warnings(comparison, runs)
    failures = [run.record for run in runs_read if run.record.status == "failed"]
    return ReportData(
        comparison,
        runs,
        failures,
        experiment.text,
        experiment.name,
        experiment.references,
        experiment.sections,
    )


def stored_data(folders: Sequence[Path], baseline: str | None = None) -> ReportData:
    """The comparison of the runs in these folders.

    Raises:
        DataError: no runs there.
        NotComparableError: the runs answer different questions; all differences are listed.
    """
    runs_read = [run for folder in folders for run in find_runs(folder)]
    runs = [run for run in runs_read if run.record.status == "complete"]
    if not runs:
        raise DataError(f"no finished runs in {', '.join(map(str, folders))}")
    configuration = folders[0] / "experiment.yaml"
    if len(folders) == 1 and configuration.exists():
        data = experiment_data(read_outline(configuration), runs_read, baseline)
        assert data is not None
        return data
    failures = [run.record for run in runs_read if run.record.status == "failed"]
    comparison = _with_warnings(compare(*runs_read, baseline=baseline), runs)
    return ReportData(comparison, runs, failures, None, runs[0].record.experiment)


def _with_warnings(comparison: Comparison, runs: Sequence[Run]) -> Comparison:
    """What must stand beside the numbers and not in an appendix: suspicious data, a model that learned nothing."""
    findings = dict.fromkeys(finding for run in runs for finding in run.record.findings)
    notes = [str(finding) for finding in findings if finding.severity != "note"]
    said: dict[str, list[Record]] = {}
    for run in runs:
        for note in run.record.notes:
            if note.startswith(BESIDE_THE_RESULT):
                said.setdefault(note, []).append(run.record)
    for note, records in said.items():
        models = ", ".join(dict.fromkeys(record.model for record in records))
        where = (
            f"{count_of(len(records), 'run')}"
            if len(records) > 1
            else f"{records[0].fold}, seed {records[0].seed}"
        )
        notes.append(f"{models}: {note} ({where})")
    return replace(comparison, notes=(*notes, *comparison.notes))
