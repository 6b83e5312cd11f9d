"""The search that chose a tuned model's options."""

import math
import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from ltr_harness._util.text import count_of
from ltr_harness.experiments.config.tune import shown_value
from ltr_harness.experiments.runs.record import STUDIES, StudyRecord, TuningFacts, read_study
from ltr_harness.report import charts, formats
from ltr_harness.report.blocks import Best, Block, Cell, Chart, Column, Details, Heading, Paragraph, Table
from ltr_harness.report.data import ReportData
from ltr_harness.report.sections.training import chosen_value, stopping_metric


class _FoldSearch(NamedTuple):
    """One search of a model; its trials where they are still stored beside the runs."""

    model: str
    fold: str
    facts: TuningFacts
    record: StudyRecord | None
    test: float | None


def section(data: ReportData) -> list[Block]:
    tuned = {model: searches for model in data.models if (searches := _searches(data, model))}
    if not tuned:
        return []
    fold_counts = {search.facts.inner_folds for searches in tuned.values() for search in searches}
    criterion = "by their value on the validation queries, which also chose the number of rounds"
    if fold_counts != {None}:
        counts = ", ".join(str(count) for count in sorted(filter(None, fold_counts)))
        criterion = f"by cross-validation on the training queries ({counts} folds)"
    fold = ", separately in every fold" if any(searches[1:] for searches in tuned.values()) else ""
    protocol = (
        f"The options of {', '.join(tuned)} were chosen{fold} {criterion}. No trial saw a test query: those were "
        "scored once, by the chosen configuration. The value of the best of many trials is optimistic, by luck; "
        "the test mean is not affected."
    )
    n_trials = sum(search.facts.n_trials for searches in tuned.values() for search in searches)
    files = formats.file_names(list(tuned))
    chosen = tuple(
        _chosen_table(model, searches, f"chosen_{files[model]}") for model, searches in tuned.items()
    )
    return [
        Heading(
            "Tuning", finding=f"{count_of(n_trials, 'trial')} of {count_of(len(tuned), 'model')}", asked=True
        ),
        Paragraph(protocol, "lead"),
        _table(data, tuned),
        *_history_charts(data, tuned),
        *_importance_tables(data, tuned),
        Details("Chosen options", chosen, open=True),
    ]


def _searches(data: ReportData, model: str) -> list[_FoldSearch]:
    by_fold: dict[str, _FoldSearch] = {}
    for run in data.runs_of(model):
        fold, facts = run.record.fold, run.record.tuning
        if facts is None or fold in by_fold:
            continue
        record = read_study(run.path.parent / STUDIES / facts.study)
        by_fold[fold] = _FoldSearch(model, fold, facts, record, _test_mean(data, model, fold))
    return list(by_fold.values())


def _test_mean(data: ReportData, model: str, fold: str) -> float | None:
    """Return the mean of a model's test means at the primary metric over the seeds of a fold."""
    means = []
    for record in data.records_of(model):
        summary = record.metrics.get(data.primary)
        if record.fold == fold and summary is not None and summary.mean is not None:
            means.append(summary.mean)
    return statistics.fmean(means) if means else None


def _table(data: ReportData, tuned: dict[str, list[_FoldSearch]]) -> Table:
    searches = [search for model_searches in tuned.values() for search in model_searches]
    budgets = {}
    for model, (first, *_) in tuned.items():
        limits = []
        if first.facts.trials is not None:
            limits.append(count_of(first.facts.trials, "trial"))
        if first.facts.minutes is not None:
            limits.append(f"{first.facts.minutes:g} min")
        budgets[model] = f"{' or '.join(limits)} per fold, {first.facts.sampler} sampler"
    budget = "; ".join(f"{model} {limits}" for model, limits in budgets.items())
    if len(set(budgets.values())) == 1:
        budget = next(iter(budgets.values()))
    metrics = sorted({search.facts.metric for search in searches})
    pruned_hint = "Ended early: below the median of earlier trials at the same round."
    validation = Column(f"Validation {', '.join(metrics)}", "metric", hint="Value of the chosen trial.")
    test = Column(f"Test {data.primary}", "metric", hint="Mean over seeds of the chosen configuration.")
    return Table.of(
        "tuning",
        "Every search: the budget used, and the chosen options.",
        searches,
        {
            Column("Model"): lambda search: data.model_name(search.model),
            Column("Fold"): lambda search: search.fold,
            Column("Trials", "count"): lambda search: search.facts.n_trials,
            Column("Complete", "count"): lambda search: search.facts.n_complete,
            Column("Pruned", "count", hint=pruned_hint): lambda search: search.facts.n_pruned,
            Column("Failed", "count"): lambda search: search.facts.n_failed,
            Column("Time, s", "seconds", hint="Time of all trials."): lambda search: search.facts.seconds,
            Column("Chosen trial", "count", hint="Counted from 0."): lambda search: search.facts.trial,
            validation: lambda search: search.facts.value,
            test: lambda search: search.test,
        },
        footnotes=(f"Budget: {budget}.",),
    )


def _history_charts(data: ReportData, tuned: dict[str, list[_FoldSearch]]) -> list[Chart]:
    """Return each complete trial's value, and the best so far: a line that is still rising wants more budget."""
    rows: list[dict[str, Any]] = []
    descriptions = []
    for model, searches in tuned.items():
        for search in searches:
            if search.record is None:
                continue
            rows += _trial_rows(model, search, search.record)
            best = f"best value {search.facts.value:.4f} at trial {search.facts.trial}"
            descriptions.append(f"{model}, {search.fold}: {best}.")
    if not rows:
        return []
    names = [name for name in data.models if any(row["model"] == name for row in rows)]
    x = charts.quantitative("trial", title="trial", axis={"tickCount": 4, "grid": False})
    y: dict[str, Any] = {"title": None, "scale": {"zero": False}}
    steps = {"type": "line", "interpolate": "step-after", "strokeWidth": 1.3, "clip": True}
    folds, best_so_far = {"field": "fold", "type": "nominal"}, charts.quantitative("best", **y)
    line = charts.layer(steps, y=best_so_far, detail=folds, opacity=charts.fade(0.8))
    trials = charts.layer(
        charts.dots(16, clip=True),
        y=charts.quantitative("value", **y),
        opacity=charts.fade(0.45),
        tooltip=charts.tooltip("model", "fold", "trial", value=".4f"),
    )
    panel = {
        "height": charts.PANEL["height"] + 20,
        "encoding": {"x": x, "color": charts.model_colour(data, names)},
        "layer": [{"params": [charts.zoom("x", "y")], **line}, trials],
    }
    title = "Validation value of every complete trial; a line is the best so far in one fold"
    return [
        Chart("tuning_history", title, charts.small_multiples(names, rows, panel), " ".join(descriptions))
    ]


def _trial_rows(model: str, search: _FoldSearch, record: StudyRecord) -> list[dict[str, Any]]:
    better = max if record.higher_is_better else min
    rows = []
    best: float | None = None
    for trial in record.trials_within(search.facts.trials, search.facts.minutes):
        if trial.status == "complete" and trial.value is not None:
            best = trial.value if best is None else better(best, trial.value)
            point = {"model": model, "fold": search.fold, "trial": trial.number}
            rows.append({**point, "value": round(trial.value, 5), "best": round(best, 5)})
    return rows


def _importance_tables(data: ReportData, tuned: dict[str, list[_FoldSearch]]) -> list[Table]:
    rows: list[tuple[Cell, ...]] = []
    for model, searches in tuned.items():
        shares: dict[str, list[float]] = {}
        for search in searches:
            if search.record is not None:
                for option, share in search.record.importance.items():
                    shares.setdefault(option, []).append(share)
        ordered = sorted(shares.items(), key=lambda pair: -statistics.fmean(pair[1]))
        rows += [(data.model_name(model), option, statistics.fmean(values)) for option, values in ordered]
    if not rows:
        return []
    measure = "each one's share in setting better trials apart (PED-ANOVA), mean over folds"
    columns = (Column("Model"), Column("Option", "code"), Column("Share", "percent"))
    return [Table("tuning_importance", f"Importance of the options: {measure}.", columns, tuple(rows))]


def _chosen_table(model: str, searches: Sequence[_FoldSearch], name: str) -> Table:
    def value_text(value: Any) -> str:
        return f"{value:.4g}" if isinstance(value, float) else shown_value(value)

    options = list(dict.fromkeys(option for search in searches for option in search.facts.chosen))
    columns = (Column("Option", "code"), *(Column(search.fold, "code") for search in searches))
    rows = [
        (option, *(value_text(search.facts.chosen.get(option)) for search in searches)) for option in options
    ]
    return Table(name, f"Options chosen for {model}.", columns, tuple(rows), sortable=False)


def sweep(data: ReportData) -> list[Block]:
    """Each point of a sweep, and the point that validation data choose."""
    # swept model to its points: name to the options that differ
    swept: dict[str, dict[str, Mapping[str, Any]]] = {}
    for model in data.models:
        point = next((record.point for record in data.records_of(model) if record.point), None)
        if point is not None:
            swept.setdefault(point.of, {})[model] = point.at
    if not swept:
        return []
    introduction = (
        "Every point was trained and evaluated on the test queries. The best of many test means is "
        "optimistic, by luck: choose a point by its validation value, or let `tune` choose."
    )
    files = formats.file_names(list(swept))
    tables = (_sweep_table(data, model, points, f"sweep_{files[model]}") for model, points in swept.items())
    n_points = sum(map(len, swept.values()))
    heading = Heading("Sweep", finding=f"{count_of(n_points, 'point')} of {', '.join(swept)}", asked=True)
    return [heading, Paragraph(introduction, "warning"), *tables]


def _sweep_table(data: ReportData, swept: str, points: Mapping[str, Mapping[str, Any]], name: str) -> Table:
    options = list(dict.fromkeys(option for option_values in points.values() for option in option_values))
    values = dict.fromkeys(points, math.nan)
    for model in points:
        values_of_runs = (chosen_value(run, data.primary) for run in data.runs_of(model))
        if chosen := [value for value in values_of_runs if value is not None]:
            values[model] = math.fsum(chosen) / len(chosen)
    watched_metric = stopping_metric(data.records_of(next(iter(points)))[0], data.primary)
    higher = data.comparison.higher_is_better.get(watched_metric, True)
    best: Best = "max" if higher else "min"
    validation = Column(f"Validation {watched_metric}", "metric", best=best, hint="At the chosen round.")

    def swept_to(option: str, model: str) -> str:
        return shown_value(points[model][option])

    sign = -1.0 if higher else 1.0

    def order(model: str) -> tuple[bool, float]:
        return math.isnan(values[model]), sign * values[model]

    return Table.of(
        name,
        f"Points of {swept}, best on validation data first; means over folds and seeds.",
        sorted(points, key=order),
        {
            Column("Model"): data.model_name,
            **{Column(option, "code"): partial(swept_to, option) for option in options},
            validation: values.__getitem__,
            Column(f"Test {data.primary}", "metric", best=data.best(data.primary)): data.mean,
        },
    )
