"""Which experiments does a folder hold, and how did each compare with the one before it on the same question?

Records and `report.json` are read, no table of queries; what cannot be read is a line.
"""

import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import numpy as np

from ltr_harness._util.files import UNFINISHED
from ltr_harness._util.stored import Form, Versioned, read_stored
from ltr_harness._util.text import count_of, four_decimals, json_text
from ltr_harness.comparison.comparison import Outcome
from ltr_harness.errors import DataError
from ltr_harness.experiments.compare.ledger import LEDGER, Looks, digest_of_folds, looks_at
from ltr_harness.experiments.runs import Run, load_run
from ltr_harness.experiments.runs.folder import RECORD, encoded
from ltr_harness.experiments.runs.record import Record
from ltr_harness.experiments.runs.run import PLAN, planned_runs
from ltr_harness.report import blocks, charts, formats
from ltr_harness.report.blocks import Cell, Column, Heading, Report, Section, Table
from ltr_harness.report.sections.verdict import PILLS

_LAST_SECOND = 253402300799  # of the year 9999: a file's time may be anything
Question = tuple[str, str, str]  # test data, metric, definition


@dataclass(frozen=True)
class Experiment:
    """An experiment's folder as far as its records tell."""

    folder: str  # its name in the folder of experiments
    name: str  # as configured
    written: str  # when its last run was, by its file; ISO 8601, UTC
    data: str  # the test data's source
    test: str  # digest of the judgments of all test folds, which is equal where experiments are compared
    metric: str  # the primary one, with its definition and K
    definition: str  # what else fixes that metric: the digest of the user's file that defines it
    higher_is_better: bool
    models: int
    seeds: int
    folds: int
    best: str | None  # the model with the best mean among those with a value for every fold
    mean: float | None  # its mean, over queries and seeds
    low: float | None  # interval of the mean, where these runs have a report that says it
    high: float | None
    previous: str | None  # folder of the experiment before it with the same test data and metric
    change: float | None  # `mean` less that of the previous one
    complete: int  # runs of the plan by what became of them
    failed: int
    missing: int
    size: int  # bytes of the folder
    report: bool  # whether it has a page
    outcome: Outcome | None  # of the comparison in its report, in a word; None without a report of these runs
    headline: str | None  # the same in at most twenty words
    looks: int  # comparisons of distinct sets of models that the test queries decided at the metric

    @property
    def title(self) -> str:
        """Its name, or its folder's where that was renamed or copied: no two have the same."""
        return self.name if encoded(self.name) == self.folder else self.folder

    @property
    def question(self) -> Question:
        """What must be equal for two means to be subtracted."""
        return self.test, self.metric, self.definition


@dataclass(frozen=True)
class Experiments:
    """All experiments of a folder, oldest first."""

    folder: str  # that holds their folders
    experiments: tuple[Experiment, ...]
    left_out: tuple[str, ...]  # a line for each thing that is no experiment, or a run that cannot be read


def read_experiments(folder: Path) -> Experiments:
    """Every experiment in a folder, or the one that the folder is."""
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; expected a folder of experiments, such as runs")
    own = (folder / PLAN).is_file() or next(folder.glob(f"*/{RECORD}"), None) is not None
    if own:
        folder = folder.absolute()
    found: list[Experiment] = []
    left_out: list[str] = []
    looks = looks_at(folder.parent if own else folder)
    for path in [folder] if own else sorted(folder.iterdir()):
        try:
            if (experiment := _experiment(path, left_out, looks)) is not None:
                found.append(experiment)
        except (DataError, OSError) as problem:
            left_out.append(str(problem) if isinstance(problem, DataError) else f"{path}: {problem.strerror}")
    if not found:
        lines = "".join(f"\n  {line}" for line in left_out)
        raise DataError(f"{folder}: no experiment in it that has runs{lines}")
    before: dict[Question, tuple[str, float]] = {}
    told = []
    for one in sorted(found, key=lambda one: (one.written, one.folder)):
        if (mean := one.mean) is not None:
            if last := before.get(one.question):
                one = replace(one, previous=last[0], change=mean - last[1])
            before[one.question] = one.folder, mean
        told.append(one)
    return Experiments(str(folder.parent if own else folder), tuple(told), tuple(left_out))


def _experiment(path: Path, left_out: list[str], looks: Mapping[tuple[str, str], Looks]) -> Experiment | None:
    """The experiment of a folder; None for what may stand beside experiments without a word."""
    if not path.is_dir():
        ours = path.name == LEDGER or path.suffix == ".html"  # such as the page of this list
        if not path.name.startswith(".") and not ours:
            left_out.append(f"{path}: a file, not an experiment")
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
    return _described(path, runs, missing + len(folders) - len(runs), looks)


def _described(
    path: Path, runs: Sequence[Run], missing: int, looks: Mapping[tuple[str, str], Looks]
) -> Experiment:
    records = [run.record for run in runs]
    first = records[0]
    own = first.own_metrics.get(first.primary)
    tests = {record.fold: record.data["test"] for record in records if "test" in record.data}
    for record in records:
        ours, theirs = tests.get(record.fold), record.data.get("test")
        if record.primary != first.primary or (ours and theirs and ours.judged_by != theirs.judged_by):
            found = "its runs have several primary metrics or test data"
            raise DataError(f"{path}: {found}, and no {PLAN} groups them")
    means = _means(records, len(tests))
    higher = next((m.higher_is_better for r in records if (m := r.metrics.get(r.primary))), True)
    best = (max if higher else min)(means, key=means.__getitem__) if means else None
    complete = [record for record in records if record.status == "complete"]
    reported = _Report(summaries=[], runs=[])
    with suppress(OSError, ValueError):
        stored = read_stored(_Report, path / "report", "report.json")
        identities = sorted(str(run.get("evaluation_identity")) for run in stored.runs)
        if identities == sorted(record.evaluation_identity for record in complete):  # of these very runs
            reported = stored
    summaries = (one for one in reported.summaries if one.get("metric") == first.primary)
    summary = next((one for one in summaries if one.get("model") == best), {})
    low, high = summary.get("ci_low"), summary.get("ci_high")
    if not all(isinstance(end, float | int) and math.isfinite(end) for end in (low, high)):
        low = high = None
    last = min(max(0, *((run.path / RECORD).stat().st_mtime for run in runs)), _LAST_SECOND)
    digest = digest_of_folds({fold: test.judged_by for fold, test in tests.items()})
    sources = list(dict.fromkeys(test.source for test in tests.values()))
    return Experiment(
        folder=path.name or str(path),
        name=first.experiment,
        written=datetime.fromtimestamp(last, UTC).isoformat(timespec="seconds"),
        data=sources[0] + (f" and {len(sources) - 1} more" if sources[1:] else "") if sources else "",
        test=digest,
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
        complete=len(complete),
        failed=sum(record.status == "failed" for record in records),
        missing=missing,
        size=_size(path),
        report=(path / "report" / "report.html").is_file(),
        outcome=reported.outcome,
        headline=reported.headline,
        looks=looks.get((digest, first.primary), Looks(0, 0)).comparisons,
    )


def _means(records: Sequence[Record], n_folds: int) -> dict[str, float]:
    """Model to its mean over queries and seeds, of the models that have a value for every fold."""
    values: dict[str, dict[str, list[tuple[float, int]]]] = {}
    for record in records:
        summary = record.metrics.get(record.primary) if record.status == "complete" else None
        if summary is None or summary.mean is None or not math.isfinite(summary.mean):
            continue
        if (n := summary.n_queries - summary.n_undefined) > 0:
            values.setdefault(record.model, {}).setdefault(record.fold, []).append((summary.mean, n))
    averages = {}
    for model, folds in values.items():
        if len(folds) == n_folds:
            means = [np.mean([mean for mean, _ in seeds]) for seeds in folds.values()]
            averages[model] = float(np.average(means, weights=[seeds[0][1] for seeds in folds.values()]))
    return averages


class _Report(Versioned, extra="ignore"):
    """The part of ``report.json`` that is read here."""

    form: ClassVar[Form] = "report"
    summaries: list[dict[str, Any]]
    runs: list[dict[str, Any]]
    outcome: Outcome | None = None
    headline: str | None = None


def _size(path: Path) -> int:
    """Of all files below; what vanishes meanwhile or cannot be entered is left out."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_size
    return total


_TREND = 20  # experiments that a trend shows at most
SHORT = 8  # hex digits of a fingerprint that are shown


def report(listed: Experiments, page: Path | None = None) -> Report:
    """The page, with everything in its JSON."""
    series: dict[Question, list[Experiment]] = {}
    for one in listed.experiments:
        if one.mean is not None:
            series.setdefault(one.question, []).append(one)
    charts = [_chart(group, at) for at, group in enumerate(series.values()) if len(group) > 1]
    sections = [Section("experiments", (Heading("Experiments"), _table(listed, page, series)))]
    if charts:
        sections.append(Section("over_time", (Heading("Over time"), *charts)))
    if listed.left_out:
        sections.append(Section("not_read", (Heading("Not read"), blocks.Bullets(listed.left_out))))
    runs = sum(one.complete + one.failed for one in listed.experiments)
    facts = (count_of(len(listed.experiments), "experiment"), count_of(runs, "run"))
    return Report(f"Experiments of {listed.folder}", facts, tuple(sections), lambda: json_text(listed))


def _table(listed: Experiments, page: Path | None, series: Mapping[Question, list[Experiment]]) -> Table:
    """What is the same for all is in the caption, and in a column where it is not."""
    titles = {one.folder: one.title for one in listed.experiments}
    several = len({one.question for one in listed.experiments}) > 1
    last = listed.experiments[-1]
    judged = "Its source, and the digest of its judgments: queries, labels and weights."
    decided = "Distinct sets of models that these test queries decided about."
    apart = "Means of other test data or another metric cannot be compared: no difference is shown there."

    def title(one: Experiment) -> Cell:
        if page is None or not one.report:
            return one.title
        target = Path(listed.folder) / one.folder / "report" / "report.html"
        address = os.path.relpath(target, page.parent).replace(os.sep, "/")
        return blocks.Link(one.title, quote(os.fsencode(address)))  # with bytes of a name that are no text

    def runs(one: Experiment) -> str:
        counts = ((one.complete, "complete"), (one.failed, "failed"), (one.missing, "missing"))
        return ", ".join(f"{number} {word}" for number, word in counts if number)

    def trend(one: Experiment) -> Cell:
        """Of the same question, up to this one."""
        group = series.get(one.question, [])
        until = group[: group.index(one) + 1] if one in group else []
        means = tuple(each.mean for each in until[-_TREND:] if each.mean is not None)
        return blocks.Trend(means) if means[1:] else None

    told = {
        Column("Metric"): lambda one: one.metric,
        Column("Test data", hint=judged): lambda one: f"{one.data} {one.test[:SHORT]}",
        Column("From"): lambda one: "first of its kind" if one.previous is None else titles[one.previous],
    }
    about = f"at {last.metric} on {last.data} {last.test[:SHORT]}, and the difference from the previous experiment"
    if several:
        about = "and the difference from the previous experiment with the same test data and metric"
    return Table.of(
        "experiments",
        f"Newest first: the best model's mean, with the interval of its report, {about}.",
        tuple(reversed(listed.experiments)),
        {
            Column("Experiment"): title,
            Column("Verdict"): lambda one: PILLS[one.outcome] if one.outcome else None,
            Column("Result"): lambda one: one.headline or "no report",
            Column("Best model"): lambda one: one.best or "none with a value",
            Column("Mean", "metric"): lambda one: (
                None if one.mean is None else blocks.Estimate(one.mean, one.low, one.high)
            ),
            Column("Over time", hint="The best mean of each experiment on the same question."): trend,
            Column("Difference", "difference"): lambda one: one.change,
            **(told if several else {}),
            Column("Written (UTC)", "tally"): lambda one: one.written[:16].replace("T", " "),
            Column("Models x seeds x folds", "tally"): lambda o: f"{o.models} x {o.seeds} x {o.folds}",
            Column("Comparisons", "tally", hint=decided): lambda one: one.looks,
            Column("Runs"): runs,
            Column("MB", "number"): lambda one: one.size / 1e6,
        },
        footnotes=(apart,) if several else (),
    )


def _chart(group: list[Experiment], at: int) -> blocks.Chart:
    """One metric on one set of judgments; names stand in data alone, as in every chart."""
    rows = []
    for one in group:
        numbers = {"mean": one.mean, "low": one.low, "high": one.high}
        rows.append({"experiment": one.title, "model": one.best, "at": one.written, **numbers})
    scale = {"type": "utc", "padding": 24}
    x = {**charts.TIME_AXIS, "title": "written (UTC)", "scale": scale, "axis": {"tickCount": 6}}
    y = charts.quantitative("mean", title="mean", scale={"zero": False}, axis={"format": ".3f"})
    told = charts.tooltip("experiment", "model", mean=".4f", low=".4f", high=".4f")
    look = {"color": charts.colour_of(at), "clip": True}
    ends = {"y": {**y, "field": "low"}, "y2": {"field": "high"}}
    layers = [
        {"params": [charts.ZOOM_X], **charts.layer({**look, "type": "line", "opacity": 0.4}, x=x, y=y)},
        {
            "transform": [{"filter": "isValid(datum.low)"}],
            **charts.layer({**look, "type": "rule", "strokeWidth": 2}, x=x, **ends, tooltip=told),
        },
        charts.layer(charts.dots(70, **look), x=x, y=y, tooltip=told),
    ]
    first = group[0]
    metric, digest = blocks.code(first.metric), blocks.code(first.test[:SHORT])
    words = (
        f"{one.title}, {one.written[:10]}: {one.best} {four_decimals(one.mean)} "
        f"{formats.interval(one.low, one.high)}".rstrip()
        for one in group
    )
    title = ("Best mean ", metric, f" on {first.data}, digest ", digest)
    spec = charts.wide(rows, 200, layer=layers)
    return blocks.Chart(f"over_time_{at + 1}", title, spec, ". ".join(words) + ".")
