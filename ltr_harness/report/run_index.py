"""The list of a folder's experiments, each beside the previous one on the same question.

Records and `report.json` are read, no table of queries; each unreadable file is a line.
"""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, TypeGuard
from urllib.parse import quote

import numpy as np

from ltr_harness._util.files import UNFINISHED
from ltr_harness._util.json_values import json_text
from ltr_harness._util.number_text import four_decimals
from ltr_harness._util.stored import StoredForm, Versioned, read_stored
from ltr_harness._util.text import count_of
from ltr_harness.comparison.comparison import Outcome
from ltr_harness.errors import DataError
from ltr_harness.experiments.compare.ledger import LEDGER, Looks, digest_of_folds, looks_at
from ltr_harness.experiments.runs import Run, load_run
from ltr_harness.experiments.runs.folder import RECORD, encoded
from ltr_harness.experiments.runs.record import Record, SplitFacts
from ltr_harness.experiments.runs.run import PLAN, planned_runs
from ltr_harness.report import blocks, charts, formats
from ltr_harness.report.blocks import Cell, Column, Heading, Report, Section, Table
from ltr_harness.report.sections.verdict import PILLS

_LAST_SECOND = 253402300799  # of the year 9999, the last of `datetime`: a file may have any time
QuestionKey = tuple[str, str, str]  # test data, metric, definition


@dataclass(frozen=True)
class ListedExperiment:
    """An experiment's folder, as its records and its report describe it."""

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
    def question(self) -> QuestionKey:
        """The values that must be equal for two means to be subtracted."""
        return self.test, self.metric, self.definition


@dataclass(frozen=True)
class ExperimentList:
    """All experiments of a folder, oldest first."""

    folder: str  # that holds their folders
    experiments: tuple[ListedExperiment, ...]
    left_out: tuple[str, ...]  # a line for each thing that is no experiment, or a run that cannot be read


def read_experiments(folder: Path) -> ExperimentList:
    """Return every experiment in a folder, or the one that the folder is."""
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; expected a folder of experiments, such as runs")
    if (folder / PLAN).is_file() or next(folder.glob(f"*/{RECORD}"), None) is not None:
        folder = folder.absolute()
        parent, paths = folder.parent, [folder]
    else:
        parent, paths = folder, sorted(folder.iterdir())
    experiments: list[ListedExperiment] = []
    left_out: list[str] = []
    looks = looks_at(parent)
    for path in paths:
        try:
            experiment = _experiment(path, left_out, looks)
        except DataError as problem:
            left_out.append(str(problem))
        except OSError as problem:
            left_out.append(f"{path}: {problem.strerror}")
        else:
            if experiment is not None:
                experiments.append(experiment)
    if not experiments:
        lines = "".join(f"\n  {line}" for line in left_out)
        raise DataError(f"{folder}: no experiment in it that has runs{lines}")
    experiments.sort(key=lambda experiment: (experiment.written, experiment.folder))
    return ExperimentList(str(parent), tuple(_with_changes(experiments)), tuple(left_out))


def _with_changes(experiments: Sequence[ListedExperiment]) -> list[ListedExperiment]:
    """Return the experiments, oldest first, each with its difference from the previous one on its question."""
    latest: dict[QuestionKey, tuple[str, float]] = {}
    with_changes = []
    for experiment in experiments:
        if experiment.mean is not None:
            mean = experiment.mean
            if experiment.question in latest:
                previous, previous_mean = latest[experiment.question]
                experiment = replace(experiment, previous=previous, change=mean - previous_mean)
            latest[experiment.question] = experiment.folder, mean
        with_changes.append(experiment)
    return with_changes


def _experiment(
    path: Path, left_out: list[str], looks: Mapping[tuple[str, str], Looks]
) -> ListedExperiment | None:
    """Return the experiment of a folder; None, with a line in `left_out` where it matters, for another thing."""
    if path.name.startswith(".") or not path.is_dir():
        if line := _left_out_line(path):
            left_out.append(line)
        return None
    folders, n_missing = planned_runs(path)
    runs = []
    for run_folder in folders:
        try:
            runs.append(load_run(run_folder))
        except DataError as problem:
            left_out.append(str(problem))
    if not runs:
        raise DataError(f"{path}: no run in it that can be read")
    return _listed_experiment(path, runs, n_missing + len(folders) - len(runs), looks)


def _left_out_line(path: Path) -> str:
    """Return the reason why a path is no experiment; "" for what belongs beside experiments."""
    if path.is_dir():
        is_unfinished = path.name.startswith(UNFINISHED)
        is_page = any(path.glob("*.html"))  # half made
        return f"{path}: not finished, or being written" if is_unfinished and not is_page else ""
    is_expected = path.name == LEDGER or path.suffix == ".html"  # such as the page of this list
    return "" if is_expected or path.name.startswith(".") else f"{path}: a file, not an experiment"


def _listed_experiment(
    path: Path, runs: Sequence[Run], n_missing: int, looks: Mapping[tuple[str, str], Looks]
) -> ListedExperiment:
    """Return the experiment of a folder's runs, without the one before it."""
    records = [run.record for run in runs]
    first = records[0]
    tests = _test_splits(path, records)
    digest = digest_of_folds({fold: test.judged_by for fold, test in tests.items()})
    own_metric = first.own_metrics.get(first.primary)
    higher_is_better = _higher_is_better(records)
    best, mean = _best_mean(_means(records, len(tests)), higher_is_better)
    complete = [record for record in records if record.status == "complete"]
    stored = _stored_report(path, complete)
    low, high = _interval_of(stored, first.primary, best)
    return ListedExperiment(
        folder=path.name or str(path),
        name=first.experiment,
        written=_last_written(runs),
        data=_sources(tests),
        test=digest,
        metric=first.primary,
        definition=own_metric.sha256 if own_metric else "",
        higher_is_better=higher_is_better,
        models=len({record.model for record in records}),
        seeds=len({record.seed for record in records}),
        folds=len({record.fold for record in records}),
        best=best,
        mean=mean,
        low=low,
        high=high,
        previous=None,
        change=None,
        complete=len(complete),
        failed=sum(record.status == "failed" for record in records),
        missing=n_missing,
        size=_folder_size(path),
        report=(path / "report" / "report.html").is_file(),
        outcome=stored.outcome,
        headline=stored.headline,
        looks=looks.get((digest, first.primary), Looks(0, 0)).comparisons,
    )


def _test_splits(path: Path, records: Sequence[Record]) -> dict[str, SplitFacts]:
    """Return the test data of each fold; refuses runs of several primary metrics or test data."""
    tests = {record.fold: record.data["test"] for record in records if "test" in record.data}
    for record in records:
        test = record.data.get("test")
        is_other_data = test is not None and test.judged_by != tests[record.fold].judged_by
        if is_other_data or record.primary != records[0].primary:
            problem = "its runs have several primary metrics or test data"
            raise DataError(f"{path}: {problem}, and no {PLAN} groups them")
    return tests


def _sources(tests: Mapping[str, SplitFacts]) -> str:
    sources = list(dict.fromkeys(test.source for test in tests.values()))
    if len(sources) > 1:
        return f"{sources[0]} and {len(sources) - 1} more"
    return "".join(sources)


def _higher_is_better(records: Sequence[Record]) -> bool:
    for record in records:
        if summary := record.metrics.get(record.primary):
            return summary.higher_is_better
    return True


def _last_written(runs: Sequence[Run]) -> str:
    """Return the time of the last run, by its file."""
    times = [(run.path / RECORD).stat().st_mtime for run in runs]
    last = min(max(0, *times), _LAST_SECOND)
    return datetime.fromtimestamp(last, UTC).isoformat(timespec="seconds")


def _stored_report(path: Path, complete: Sequence[Record]) -> "_ReportExcerpt":
    """Return the folder's report; an empty one where it has none, or one of other runs."""
    with suppress(OSError, ValueError):
        stored = read_stored(_ReportExcerpt, path / "report", "report.json")
        identities = sorted(str(run.get("evaluation_identity")) for run in stored.runs)
        if identities == sorted(record.evaluation_identity for record in complete):
            return stored
    return _ReportExcerpt(summaries=[], runs=[])


def _interval_of(
    stored: "_ReportExcerpt", metric: str, model: str | None
) -> tuple[float, float] | tuple[None, None]:
    """Return the interval of a model's mean in a report; None twice where it has none."""
    for summary in stored.summaries:
        if summary.get("metric") == metric and summary.get("model") == model:
            low, high = summary.get("ci_low"), summary.get("ci_high")
            return (low, high) if _is_finite(low) and _is_finite(high) else (None, None)
    return None, None


def _is_finite(value: object) -> TypeGuard[float]:
    return isinstance(value, float | int) and math.isfinite(value)


def _means(records: Sequence[Record], n_folds: int) -> dict[str, float]:
    """Return the mean over queries and seeds of each model that has a value for every fold."""
    values: dict[str, dict[str, list[tuple[float, int]]]] = {}
    for record in records:
        if record.status != "complete" or (summary := record.metrics.get(record.primary)) is None:
            continue
        n = summary.n_queries - summary.n_undefined
        if summary.mean is not None and math.isfinite(summary.mean) and n > 0:
            values.setdefault(record.model, {}).setdefault(record.fold, []).append((summary.mean, n))
    return {model: _mean_of(folds) for model, folds in values.items() if len(folds) == n_folds}


def _best_mean(means: Mapping[str, float], higher_is_better: bool) -> tuple[str, float] | tuple[None, None]:
    """Return the model with the best mean, and that mean; None twice where no model has one."""
    if not means:
        return None, None
    choose = max if higher_is_better else min
    model = choose(means, key=means.__getitem__)
    return model, means[model]


def _mean_of(folds: Mapping[str, Sequence[tuple[float, int]]]) -> float:
    """Return the mean over folds, by their number of queries, of the means over seeds."""
    means = [np.mean([mean for mean, _ in seeds]) for seeds in folds.values()]
    n_queries = [seeds[0][1] for seeds in folds.values()]
    return float(np.average(means, weights=n_queries))


class _ReportExcerpt(Versioned, extra="ignore"):
    """The part of ``report.json`` that is read here."""

    form: ClassVar[StoredForm] = "report"
    summaries: list[dict[str, Any]]
    runs: list[dict[str, Any]]
    outcome: Outcome | None = None
    headline: str | None = None


def _folder_size(path: Path) -> int:
    """Return the bytes of all files below; a file that vanishes meanwhile or cannot be read is left out."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_size
    return total


_TREND = 20  # experiments that a trend shows at most
DIGEST_LENGTH = 8  # hex digits of a fingerprint that are shown


def report(experiment_list: ExperimentList, page: Path | None = None) -> Report:
    """Return the page, with everything in its JSON."""
    series: dict[QuestionKey, list[ListedExperiment]] = {}
    for experiment in experiment_list.experiments:
        if experiment.mean is not None:
            series.setdefault(experiment.question, []).append(experiment)
    charts = [_chart(group, number) for number, group in enumerate(series.values()) if len(group) > 1]
    content: list[blocks.Block] = [Heading("Experiments"), _table(experiment_list, page)]
    if incomplete := _incomplete(experiment_list):
        content.append(blocks.Bullets(tuple(incomplete)))
    content.append(blocks.Details("More about each experiment", (_further_table(experiment_list, series),)))
    sections = [Section("experiments", tuple(content))]
    if charts:
        sections.append(Section("over_time", (Heading("Over time"), *charts)))
    if experiment_list.left_out:
        sections.append(Section("not_read", (Heading("Not read"), blocks.Bullets(experiment_list.left_out))))
    n_runs = sum(experiment.complete + experiment.failed for experiment in experiment_list.experiments)
    facts = (count_of(len(experiment_list.experiments), "experiment"), count_of(n_runs, "run"))
    return Report(
        f"Experiments of {experiment_list.folder}", facts, tuple(sections), lambda: json_text(experiment_list)
    )


def _table(experiment_list: ExperimentList, page: Path | None) -> Table:
    """Return the table of all experiments: how each ended, its best model, and the way to its report."""
    has_several_questions = _has_several_questions(experiment_list)

    def best(experiment: ListedExperiment) -> str:
        if experiment.mean is None:
            return "none with a value"
        metric = f"{experiment.metric} " if has_several_questions else ""
        return f"{experiment.best} {metric}{four_decimals(experiment.mean)}"

    last = experiment_list.experiments[-1]
    scope = f"at {last.metric} on {last.data} {last.test[:DIGEST_LENGTH]}, and its change from the previous experiment"
    footnotes: tuple[str, ...] = ()
    if has_several_questions:
        scope = "and its change from the previous experiment with the same test data and metric"
        footnotes = (
            "Means of other test data or another metric cannot be compared: no change is shown there.",
        )
    return Table.of(
        "experiments",
        f"Newest first: the best model's mean {scope}.",
        tuple(reversed(experiment_list.experiments)),
        {
            Column("Experiment"): lambda experiment: experiment.title,
            Column("Verdict"): lambda experiment: PILLS[experiment.outcome] if experiment.outcome else None,
            Column("Best"): best,
            Column("Change", "difference"): lambda experiment: experiment.change,
            Column("When (UTC)", "tally"): lambda experiment: experiment.written[:16].replace("T", " "),
            Column("Report"): lambda experiment: _link(experiment, experiment_list, page),
        },
        footnotes=footnotes,
    )


def _has_several_questions(experiment_list: ExperimentList) -> bool:
    return len({experiment.question for experiment in experiment_list.experiments}) > 1


def _incomplete(experiment_list: ExperimentList) -> list[str]:
    """Return a line for each experiment with runs that failed or are missing."""
    return [
        f"{experiment.title}: {_run_counts(experiment)}"
        for experiment in reversed(experiment_list.experiments)
        if experiment.failed or experiment.missing
    ]


def _further_table(
    experiment_list: ExperimentList, series: Mapping[QuestionKey, list[ListedExperiment]]
) -> Table:
    """Return the table of everything else: what all experiments have in common has no column."""
    columns: dict[Column, Callable[[ListedExperiment], Cell]] = {
        Column("Experiment"): lambda experiment: experiment.title,
        Column("Result"): lambda experiment: experiment.headline or "no report",
        Column("Mean", "metric"): _mean_cell,
        Column("Over time", hint="The best mean of each experiment on the same question."): (
            lambda experiment: _trend(experiment, series.get(experiment.question, []))
        ),
    }
    if _has_several_questions(experiment_list):
        columns |= _question_columns(experiment_list)
    n_decided = "Distinct sets of models that these test queries decided about."
    columns |= {
        Column("Models x seeds x folds", "tally"): (
            lambda experiment: f"{experiment.models} x {experiment.seeds} x {experiment.folds}"
        ),
        Column("Comparisons", "tally", hint=n_decided): lambda experiment: experiment.looks,
        Column("Runs"): _run_counts,
        Column("MB", "number"): lambda experiment: experiment.size / 1e6,
    }
    return Table.of(
        "experiments_further",
        "The result of each, its best mean with the interval of its report, and its size.",
        tuple(reversed(experiment_list.experiments)),
        columns,
    )


def _question_columns(experiment_list: ExperimentList) -> dict[Column, Callable[[ListedExperiment], Cell]]:
    """Return the columns that distinguish experiments on several questions."""
    titles = {experiment.folder: experiment.title for experiment in experiment_list.experiments}

    def previous(experiment: ListedExperiment) -> str:
        return "first of its kind" if experiment.previous is None else titles[experiment.previous]

    source = "Its source, and the digest of its judgments: queries, labels and weights."
    return {
        Column("Metric"): lambda experiment: experiment.metric,
        Column("Test data", hint=source): lambda experiment: (
            f"{experiment.data} {experiment.test[:DIGEST_LENGTH]}"
        ),
        Column("From"): previous,
    }


def _link(experiment: ListedExperiment, experiment_list: ExperimentList, page: Path | None) -> Cell:
    """Return the link to a report; its folder where there is no page that could link."""
    if not experiment.report:
        return "none"
    folder = Path(experiment_list.folder) / experiment.folder / "report"
    if page is None:
        return str(folder)
    address = os.path.relpath(folder / "report.html", page.parent).replace(os.sep, "/")
    return blocks.Link("report", quote(os.fsencode(address)))  # with bytes of a name that are no text


def _mean_cell(experiment: ListedExperiment) -> Cell:
    if experiment.mean is None:
        return None
    return blocks.Estimate(experiment.mean, experiment.low, experiment.high)


def _run_counts(experiment: ListedExperiment) -> str:
    counts = {"complete": experiment.complete, "failed": experiment.failed, "missing": experiment.missing}
    return ", ".join(f"{number} {status}" for status, number in counts.items() if number)


def _trend(experiment: ListedExperiment, group: Sequence[ListedExperiment]) -> Cell:
    """Return the means of the experiments on one question up to this one."""
    if experiment not in group:
        return None
    earlier = group[: group.index(experiment) + 1]
    means = tuple(
        earlier_experiment.mean
        for earlier_experiment in earlier[-_TREND:]
        if earlier_experiment.mean is not None
    )
    return blocks.Trend(means) if len(means) > 1 else None


def _chart(group: Sequence[ListedExperiment], number: int) -> blocks.Chart:
    """Return the chart of one metric on one set of judgments; names stand in data alone, as in every chart."""
    rows = [
        {
            "experiment": experiment.title,
            "model": experiment.best,
            "at": experiment.written,
            "mean": experiment.mean,
            "low": experiment.low,
            "high": experiment.high,
        }
        for experiment in group
    ]
    scale = {"type": "utc", "padding": 24}
    x = {**charts.TIME_AXIS, "title": "written (UTC)", "scale": scale, "axis": {"tickCount": 6}}
    y = charts.quantitative("mean", title="mean", scale={"zero": False}, axis={"format": ".3f"})
    tooltip = charts.tooltip("experiment", "model", mean=".4f", low=".4f", high=".4f")
    look = {"color": charts.PALETTE[number % len(charts.PALETTE)], "clip": True}
    ends = {"y": {**y, "field": "low"}, "y2": {"field": "high"}}
    layers = [
        {"params": [charts.ZOOM_X], **charts.layer({**look, "type": "line", "opacity": 0.4}, x=x, y=y)},
        {
            "transform": [{"filter": "isValid(datum.low)"}],
            **charts.layer({**look, "type": "rule", "strokeWidth": 2}, x=x, **ends, tooltip=tooltip),
        },
        charts.layer(charts.dots(70, **look), x=x, y=y, tooltip=tooltip),
    ]
    first = group[0]
    metric, digest = blocks.code(first.metric), blocks.code(first.test[:DIGEST_LENGTH])
    title = ("Best mean ", metric, f" on {first.data}, digest ", digest)
    description = ". ".join(map(_mean_in_words, group)) + "."
    return blocks.Chart(f"over_time_{number + 1}", title, charts.wide(rows, 200, layer=layers), description)


def _mean_in_words(experiment: ListedExperiment) -> str:
    interval = formats.interval(experiment.low, experiment.high)
    mean = f"{experiment.best} {four_decimals(experiment.mean)} {interval}"
    return f"{experiment.title}, {experiment.written[:10]}: {mean}".rstrip()
