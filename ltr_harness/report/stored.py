"""A report over runs that are already on disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ltr_harness.comparison import compare
from ltr_harness.errors import DataError
from ltr_harness.report import ReportData, write_report
from ltr_harness.runs import find_runs


def report_stored_runs(
    folders: Sequence[Path], output: Path | None, formats: Sequence[str], baseline: str | None
) -> tuple[ReportData, Path]:
    """Compare the runs in these folders and write their report.

    Args:
        folders: run folders, or experiments' folders.
        output: where to write; by default ``report`` in the experiment's folder, which must then be one.
        formats: of html, md, json, tex, svg.
        baseline: a model's name; by default what the experiment declares, else the first model.

    Raises:
        DataError: no runs there.
        NotComparableError: the runs answer different questions; all differences are listed.
    """
    found = [run for folder in folders for run in find_runs(folder)]
    runs = [run for run in found if run.record.status == "complete"]
    if not runs:
        raise DataError(f"no finished runs in {', '.join(map(str, folders))}")
    experiment_yaml = None
    if len(folders) == 1 and (folders[0] / "experiment.yaml").is_file():
        from ltr_harness.config import load_experiment

        text = folders[0] / "experiment.yaml"
        experiment_yaml = text.read_text(encoding="utf-8")
        experiment = load_experiment(text)
        settings = experiment.compare
        # In the order of the configuration, as `run` has them: colours and bytes of the report follow it.
        place = {model: number for number, model in enumerate(experiment.models)}
        runs.sort(key=lambda run: place.get(run.record.model, len(place)))
        finished = {run.record.model for run in runs}
        comparison = compare(
            *runs,
            baseline=baseline or (settings.baseline if settings.baseline in finished else None),
            test=settings.test,
            correction=settings.correction,
            confidence=settings.confidence,
            seed=settings.seed,
        )
    else:
        comparison = compare(*runs, baseline=baseline)
    if output is None:
        if len(folders) > 1:
            raise DataError("several folders: say where to write with -o DIR")
        output = folders[0] / "report"
    title = runs[0].record.experiment
    failures = [run.record for run in found if run.record.status == "failed"]
    data = ReportData(comparison, runs, failures, experiment_yaml, title)
    return data, write_report(data, output, formats)
