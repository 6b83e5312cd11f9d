"""Which experiments does a folder hold, and how did each compare with the one before it on the same question?

Records and `report.json` are read, no table of queries: a folder of hundreds of runs answers at once. What cannot be
read is a line, whatever it is.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from pydantic import BaseModel

from ltr_harness.errors import DataError
from ltr_harness.files import UNFINISHED
from ltr_harness.runs import Run, load_run
from ltr_harness.runs.folder import RECORD, encoded
from ltr_harness.runs.record import Record
from ltr_harness.runs.run import PLAN, planned_runs
from ltr_harness.stored import read_stored

_LAST_SECOND = 253402300799  # of the year 9999: a file's time may be anything


@dataclass(frozen=True)
class Experiment:
    """An experiment's folder as far as its records tell.

    Attributes:
        folder: its name in the folder of experiments.
        name: as configured.
        written: when its last run was, by its file; ISO 8601, UTC.
        data: the test data's source.
        test: digest of the judgments of all test folds; only where it is equal are two experiments compared.
        metric: the primary one, with its definition and K.
        definition: what else fixes that metric: the digest of the user's file that defines it.
        higher_is_better: which end of the metric is good.
        models, seeds, folds: how many of each.
        best: the model with the best mean among those with a value for every fold; None without one.
        mean: its mean, over queries and seeds.
        low, high: interval of the mean in the report of these runs; None where there is no such report.
        previous: the folder of the experiment before it with the same test data and metric; None if it is the first.
        change: `mean` less that of the previous one.
        complete, failed, missing: runs of the plan by what became of them.
        size: bytes of the folder.
        report: whether it has a page.
    """

    folder: str
    name: str
    written: str
    data: str
    test: str
    metric: str
    definition: str
    higher_is_better: bool
    models: int
    seeds: int
    folds: int
    best: str | None
    mean: float | None
    low: float | None
    high: float | None
    previous: str | None
    change: float | None
    complete: int
    failed: int
    missing: int
    size: int
    report: bool

    @property
    def title(self) -> str:
        """Its name, or its folder's where that was renamed or copied: no two have the same."""
        return self.name if encoded(self.name) == self.folder else self.folder

    @property
    def question(self) -> tuple[str, str, str]:
        """What must be equal for two means to be subtracted: test data, metric, definition."""
        return self.test, self.metric, self.definition


@dataclass(frozen=True)
class Experiments:
    """All experiments of a folder, oldest first.

    Attributes:
        folder: that holds their folders.
        experiments: those that could be read.
        left_out: a line for each thing in the folder that is no experiment, or a run that cannot be read.
    """

    folder: str
    experiments: tuple[Experiment, ...]
    left_out: tuple[str, ...]


def read_experiments(folder: Path) -> Experiments:
    """Every experiment in a folder, or the one that the folder is.

    Raises:
        DataError: no such folder, or no experiment in it.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; expected a folder of experiments, such as runs")
    own = (folder / PLAN).is_file() or next(folder.glob(f"*/{RECORD}"), None) is not None
    if own:
        folder = folder.absolute()
    found: list[Experiment] = []
    left_out: list[str] = []
    for path in [folder] if own else sorted(folder.iterdir()):
        try:
            experiment = _experiment(path, left_out)
        except (DataError, OSError) as problem:
            left_out.append(str(problem) if isinstance(problem, DataError) else f"{path}: {problem.strerror}")
            continue
        if experiment is not None:
            found.append(experiment)
    if not found:
        lines = "".join(f"\n  {line}" for line in left_out)
        raise DataError(f"{folder}: no experiment in it that has runs{lines}")
    return Experiments(str(folder.parent if own else folder), _with_changes(found), tuple(left_out))


def _experiment(path: Path, left_out: list[str]) -> Experiment | None:
    """The experiment of a folder; None for what may stand beside experiments without a word."""
    if not path.is_dir():
        if not path.name.startswith(".") and path.suffix != ".html":  # such as the page of this list
            left_out.append(f"{path}: a file, no experiment")
        return None
    if path.name.startswith("."):
        if path.name.startswith(UNFINISHED) and not any(path.glob("*.html")):  # or the page, half made
            left_out.append(f"{path}: not finished, or being written")
        return None
    folders, missing = planned_runs(path)
    runs = []
    for one in folders:
        try:
            runs.append(load_run(one))
        except DataError as problem:
            left_out.append(str(problem))
    if not runs:
        raise DataError(f"{path}: no run in it that can be read")
    return _described(path, runs, missing + len(folders) - len(runs))


def _described(path: Path, runs: Sequence[Run], missing: int) -> Experiment:
    records = [run.record for run in runs]
    first = records[0]
    own = first.own_metrics.get(first.primary)
    tests = {record.fold: record.data["test"] for record in records if "test" in record.data}
    for record in records:
        ours, theirs = tests.get(record.fold), record.data.get("test")
        if record.primary != first.primary or (
            ours and theirs and ours.judgments_fingerprint != theirs.judgments_fingerprint
        ):
            raise DataError(
                f"{path}: its runs have several primary metrics or test data, and no {PLAN} says which belong together"
            )
    means = _means(records, len(tests))
    higher = next((m.higher_is_better for r in records if (m := r.metrics.get(r.primary))), True)
    best = (max if higher else min)(means, key=means.__getitem__) if means else None
    low, high = (None, None) if best is None else _interval(path, records, best, first.primary)
    sources = list(dict.fromkeys(test.source for test in tests.values()))
    return Experiment(
        folder=path.name or str(path),
        name=first.experiment,
        written=_written(runs),
        data=sources[0] + (f" and {len(sources) - 1} more" if sources[1:] else "") if sources else "",
        test=_digest({fold: test.judgments_fingerprint for fold, test in tests.items()}),
        metric=first.primary,
        definition=own.sha256 if own else "",
        higher_is_better=higher,
        models=len({record.model for record in records}),
        seeds=len({record.seed for record in records}),
        folds=len({record.fold for record in records}),
        best=best,
        mean=None if best is None else means[best],
        low=low,
        high=high,
        previous=None,
        change=None,
        complete=sum(record.status == "complete" for record in records),
        failed=sum(record.status == "failed" for record in records),
        missing=missing,
        size=sum(_sizes(path)),
        report=(path / "report" / "report.html").is_file(),
    )


def _means(records: Sequence[Record], n_folds: int) -> dict[str, float]:
    """Model to its mean over queries and seeds, of the models that have a value for every fold."""
    values: dict[str, dict[str, list[tuple[float, int]]]] = {}
    for record in records:
        summary = record.metrics.get(record.primary)
        mean = None if summary is None else summary.mean
        n = 0 if summary is None else summary.n_queries - summary.n_undefined
        if record.status == "complete" and mean is not None and math.isfinite(mean) and n > 0:
            values.setdefault(record.model, {}).setdefault(record.fold, []).append((mean, n))
    return {
        model: float(
            np.average(
                [np.mean([mean for mean, _ in seeds]) for seeds in folds.values()],
                weights=[seeds[0][1] for seeds in folds.values()],
            )
        )
        for model, folds in values.items()
        if len(folds) == n_folds
    }


class _Summary(BaseModel):
    model: str
    metric: str
    ci_low: float | None
    ci_high: float | None


class _ReportedRun(BaseModel):
    evaluation_identity: str


class _Report(BaseModel):
    """What is read of ``report.json``."""

    summaries: list[_Summary]
    runs: list[_ReportedRun]


def _interval(
    path: Path, records: Sequence[Record], model: str, metric: str
) -> tuple[float | None, float | None]:
    """Of a model's mean, as the report has it, where it is a report of these very runs."""
    try:
        report = read_stored(_Report, path / "report", "report.json")
    except (OSError, ValueError):
        return None, None
    complete = sorted(record.evaluation_identity for record in records if record.status == "complete")
    if sorted(run.evaluation_identity for run in report.runs) != complete:
        return None, None
    ends = ((s.ci_low, s.ci_high) for s in report.summaries if (s.model, s.metric) == (model, metric))
    low, high = next(ends, (None, None))
    known = low is not None and high is not None and math.isfinite(high - low)
    return (low, high) if known else (None, None)


def _with_changes(found: Sequence[Experiment]) -> tuple[Experiment, ...]:
    before: dict[tuple[str, str, str], Experiment] = {}
    told = []
    for one in sorted(found, key=lambda one: (one.written, one.folder)):
        last = before.get(one.question)
        if one.mean is not None:
            if last is not None and last.mean is not None:
                one = replace(one, previous=last.folder, change=one.mean - last.mean)
            before[one.question] = one
        told.append(one)
    return tuple(told)


def _digest(folds: Mapping[str, str]) -> str:
    """One fold's own digest, or one over all of them."""
    if len(folds) == 1:
        return next(iter(folds.values()))
    return hashlib.sha256(
        "\n".join(sorted(f"{fold} {one}" for fold, one in folds.items())).encode()
    ).hexdigest()


def _written(runs: Sequence[Run]) -> str:
    last = max((run.path / RECORD).stat().st_mtime for run in runs)
    return datetime.fromtimestamp(min(max(last, 0), _LAST_SECOND), UTC).isoformat(timespec="seconds")


def _sizes(path: Path) -> Iterator[int]:
    """Of all files below; what vanishes meanwhile or cannot be entered is left out."""
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                yield os.lstat(os.path.join(folder, name)).st_size
            except OSError:
                continue
