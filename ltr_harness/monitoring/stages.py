"""All stages in order: a configuration and logs in, a result out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import ltr_harness.monitoring.change as change
import ltr_harness.monitoring.inputs as inputs
import ltr_harness.monitoring.labels as labels
import ltr_harness.monitoring.limits as limits
import ltr_harness.monitoring.queries as queries
import ltr_harness.monitoring.slices as slices
import ltr_harness.monitoring.stored as stored
import ltr_harness.monitoring.windows as windows
from ltr_harness._util.text import count_of, plural
from ltr_harness.data.addresses import local_path
from ltr_harness.data.arrays import Bools, Ints
from ltr_harness.data.logs.contract import LogCheck
from ltr_harness.data.relevance.propensities import estimated
from ltr_harness.data.relevance.rule_in_words import describe
from ltr_harness.errors import Caution, DataError, Problem, UsageError
from ltr_harness.metrics import Metric
from ltr_harness.metrics.table import METRICS
from ltr_harness.monitoring.alerts import alerts_of, undecided_of
from ltr_harness.monitoring.arms import compare_arms
from ltr_harness.monitoring.calendar import Cut, cut, hours_of_week
from ltr_harness.monitoring.config import PLACES, MonitorConfig, needs_whole_grades
from ltr_harness.monitoring.evidence import Evidence
from ltr_harness.monitoring.inputs import ComparedColumn, compared_columns, feature_drift, gain_shares
from ltr_harness.monitoring.load import load_monitor_config
from ltr_harness.monitoring.parity import compare_served_scores, feature_columns
from ltr_harness.monitoring.periods import Periods
from ltr_harness.monitoring.reading import read_log
from ltr_harness.monitoring.result import (
    Adjustment,
    FeatureDrift,
    Findings,
    LabelTest,
    MonitorResult,
    OverTime,
    Presentation,
    SearchedColumn,
    Slice,
    Watched,
    WherePart,
)
from ltr_harness.monitoring.verdict import verdict_of


def monitor(
    config: str | Path | Mapping[str, Any] | MonitorConfig,
    *,
    log: Any = None,
    baseline: Any = None,
    history: str | Path | None = None,
    dask: Any = None,
    overrides: Sequence[str] = (),
) -> MonitorResult:
    """Is the ranker in production still as good as its baseline, and if not, where and why?

    Args:
        config: the monitoring file, or its content.
        log: production, as a table or the path of one, where it is not the configuration's.
        baseline: what it is compared with, likewise; also a run's folder, or that of an earlier result.
        history: the folder in which earlier runs left their results.
        dask: ``"local"``, a scheduler's address, or a ``distributed.Client``, whose workers read the logs.
        overrides: of keys of the file, such as ``["windows.size=1d"]``.

    Raises:
        UsageError: no log, or a configuration that does not fit it.
        DataError: logs that break their contract; all problems at once.

    Example:
        >>> import pandas as pd
        >>> log = pd.DataFrame({"query_id": list("aab"), "rank": [1, 2, 1], "relevance": [0, 1, 1]})
        >>> result = monitor({"columns": {"rank": "rank"}, "metrics": ["mrr"]}, log=log)
        >>> result.windows[0].means["mrr"], result.healthy
        (0.75, True)
    """
    settings = config if isinstance(config, MonitorConfig) else load_monitor_config(config, overrides)
    return watch(settings, log, baseline, history, dask).result


def watch(
    settings: MonitorConfig,
    log: Any = None,
    baseline: Any = None,
    history: str | Path | None = None,
    dask: Any = None,
) -> Watched:
    """Run `monitor`, and return the table of queries beside its result."""
    log = settings.log if log is None else log
    baseline = settings.baseline if baseline is None else baseline
    history = settings.history if history is None else history
    if log is None:
        raise UsageError("no log given; expected `log:` in the configuration, or --log")
    _refuse_unfit_models(settings)
    settings = _with_propensities(settings)
    production, log_checks, orphans = read_log(log, settings, "production", dask)
    before, kind, checks_before = _read_baseline(baseline, settings, dask)
    folder = None if history is None else Path(history).expanduser()
    return run_stages(production, before, settings, log_checks + checks_before, kind, folder, orphans)


def _refuse_unfit_models(settings: MonitorConfig) -> None:
    """Refuse models without importance or features before logs are read, which may take long."""
    if settings.drift.model is not None:
        gain_shares(Path(settings.drift.model))
    if settings.parity is not None:
        feature_columns(settings.parity)


def _with_propensities(settings: MonitorConfig) -> MonitorConfig:
    """Return the configuration with the propensities that its experiments measured."""
    if settings.propensity is not None:
        settings = settings.model_copy(update={"propensity": estimated(settings.propensity)})
    rule = settings.relevance
    if rule.propensity is not None:
        rule = rule.model_copy(update={"propensity": estimated(rule.propensity)})
        settings = settings.model_copy(update={"relevance": rule})
    return settings


def _read_baseline(
    source: Any, settings: MonitorConfig, dask: Any
) -> tuple[pd.DataFrame | None, str | None, tuple[LogCheck, ...]]:
    """Return the baseline's queries, what it is in words, and its checks; nothing without a source."""
    if source is None:
        return None, None, ()
    if isinstance(source, str | Path):
        path = local_path(source)
        if stored.is_result(path):
            return stored.stored_result(path, settings), "an earlier result of monitor", ()
        if stored.is_run(path):
            return stored.stored_run(path, settings), "a run of this harness", ()
    without_arms = settings.model_copy(update={"arms": None, "parity": None})  # they are production's
    table, log_checks, _ = read_log(source, without_arms, "baseline", dask)
    return table, "a log", log_checks


def run_stages(
    production: pd.DataFrame,
    baseline: pd.DataFrame | None,
    config: MonitorConfig,
    log_checks: tuple[LogCheck, ...] = (),
    baseline_kind: str | None = None,
    history: Path | None = None,
    orphans: Ints | None = None,
) -> Watched:
    """Run every stage after the logs have been read; (n_orphans,) `orphans` as in `LogRead`."""
    time = queries.column_of(production, "time")
    if history is not None:
        config = config.over_all_runs()
    if config.windows.season != "none" and time is not None and baseline is not None:
        _refuse_season_without_times(baseline, config)
    whole_cut = cut(time, len(production), config)
    past = [] if history is None else _past_windows(history, whole_cut, config)
    orphan_counts = labels.orphans_by_window(orphans, whole_cut, config)
    rows = windows.window_rows(production, whole_cut, orphan_counts, config)
    alpha_share = windows.share_to_spend(rows, past, config)
    shares = windows.shares_of_windows(rows, past, config)
    evidence = Evidence(
        config=config,
        log_checks=(*log_checks, *labels.stray_queries(production, whole_cut)),
        n_immature=whole_cut.n_immature,
        windows=tuple(rows),
        limits=limits.check_limits(production, whole_cut, config, shares, alpha_share),
    )
    counted = np.flatnonzero(whole_cut.mature & ~np.isnan(queries.primary_of(production)))
    logs = {"production": production}
    if baseline is None:
        evidence = _without_baseline(evidence, production, whole_cut, counted)
    else:
        compared = _compared_queries(production, baseline, whole_cut, counted, past, config, alpha_share)
        evidence = _against_baseline(evidence, compared, whole_cut)
        logs["baseline"] = baseline
        baseline_kind = baseline_kind or "a log"
    if config.arms is not None:
        arms = compare_arms(production, whole_cut, config.arms, config)
        evidence = replace(evidence, arms=arms)
    if config.parity is not None:
        parity = compare_served_scores(production, whole_cut, config.parity, config, alpha_share)
        evidence = replace(evidence, parity=parity)
    rules, lengths = labels.empty_rules(logs), labels.list_lengths(logs)
    evidence = replace(evidence, empty_rules=rules, list_lengths=lengths)
    result = _result(production, baseline, baseline_kind, evidence)
    if history is not None and time is not None:
        stored.append_history(history, stored.history_key(config), evidence.windows, whole_cut.until)
    return Watched(result, config, production)


def _past_windows(history: Path, cut: Cut, config: MonitorConfig) -> list[stored.PastWindow]:
    """Read the windows of earlier runs that lie before production's."""
    past = stored.read_history(history, stored.history_key(config))
    return [w for w in past if w.number < cut.number[0]]


def _refuse_season_without_times(baseline: pd.DataFrame, config: MonitorConfig) -> None:
    if "time" not in baseline:
        season = f"windows.season {config.windows.season}"
        raise UsageError(f"{season} needs a baseline with timestamps; set season: none")


def _without_baseline(evidence: Evidence, production: pd.DataFrame, cut: Cut, counted: Ints) -> Evidence:
    """Compare slices of production's (n_counted,) queries with the rest: there is nothing else to test."""
    now = queries.queries_of(production, counted)
    periods = Periods(now, now.iloc[:0], evidence.config)
    worst_slices, n_candidates, searched = list[Slice](), 0, tuple[SearchedColumn, ...]()
    if len(now):
        worst_slices, n_candidates = slices.find_slices(periods)
        searched = slices.searched_columns(periods)
    return replace(
        evidence,
        worst_queries=tuple(slices.worst_queries(production, counted, None)),
        online=change.online(production, None, evidence.windows),
        slices=tuple(worst_slices),
        n_slice_candidates=n_candidates,
        searched=searched,
        over_time=_over_time(cut.members_of(counted), periods, periods, worst_slices),
    )


@dataclass(frozen=True, eq=False)
class _ComparedQueries:
    """Production and baseline, and the queries of both that are compared."""

    production: pd.DataFrame
    baseline: pd.DataFrame
    periods: Periods
    counted: Ints  # (n_now,), rows of production
    is_kept: Bools  # (n_production,), mature and not apart, with a value or without
    places: Ints  # (n_production,), rows of the baseline with the same query, or -1
    past: Sequence[stored.PastWindow]
    cautions: Sequence[Caution]


def _compared_queries(
    production: pd.DataFrame,
    baseline: pd.DataFrame,
    cut: Cut,
    counted: Ints,
    past: Sequence[stored.PastWindow],
    config: MonitorConfig,
    alpha_share: float,
) -> _ComparedQueries:
    """Choose the queries that are compared, among production's (n_counted,); refuse periods that cannot be."""
    # once: of millions that takes a while
    places = queries.places_of(production["query_id"], baseline["query_id"])
    has_value = ~np.isnan(queries.primary_of(baseline))
    before = queries.queries_of(queries.without_pages(baseline), has_value)
    among_kept = np.append(np.where(has_value, np.cumsum(has_value) - 1, -1), -1)

    def periods_of(rows: Ints) -> Periods:
        now = queries.queries_of(queries.without_pages(production), rows)
        return Periods(now, before, config, alpha_share, places=among_kept[places[rows]])

    periods = periods_of(counted)
    excluded_weekdays, cautions = _excluded_weekdays(periods)
    is_kept = cut.mature & ~np.isin(cut.weekday, excluded_weekdays)
    if excluded_weekdays.size:
        counted = counted[is_kept[counted]]
        past = [w for w in past if not {int(hour) // 24 for hour in w.hours} & {*excluded_weekdays.tolist()}]
        if not counted.size:
            raise UsageError(str(cautions[0]))
        periods = periods_of(counted)
    if config.windows.season == "none" and (
        advice := change.season_advice(baseline, config.windows.timezone)
    ):
        cautions.append(advice)
    _refuse_few_queries(periods, production, baseline, cut)
    _refuse_other_seasons(periods)
    return _ComparedQueries(production, baseline, periods, counted, is_kept, places, past, cautions)


def _against_baseline(evidence: Evidence, compared: _ComparedQueries, cut: Cut) -> Evidence:
    """Compare production with its baseline: how much, when, where and why."""
    production, baseline, periods = compared.production, compared.baseline, compared.periods
    counted, is_kept, places, past = compared.counted, compared.is_kept, compared.places, compared.past
    config, alpha_share = periods.config, periods.spent
    tested = periods.adjust()
    members = cut.members_of(counted)
    rows = windows.compare_windows([*evidence.windows], cut, counted, tested, past)
    if config.compare.correct == "sequence":
        rows = windows.add_running_means(rows, members, tested, past)
    changes = change.changes(periods, tested)
    changes[0], rows, family = windows.correct_p_values(changes[0], rows, tested, past)
    chosen = windows.windows_to_examine(rows, members, tested)
    columns = compared_columns(periods)
    where_part, part, rows_of_part = _where_and_why(columns, periods, tested), periods, counted
    whole_period, examined = None, None
    if chosen:
        in_chosen = np.flatnonzero(np.isin(cut.codes[counted], chosen))
        part, rows_of_part, whole_period = periods.with_queries(in_chosen), counted[in_chosen], where_part
        where_part = _where_and_why(compared_columns(part), part, part.adjust())
        examined = windows.examine_windows([rows[window] for window in chosen], in_chosen, tested)
    all_mature = Periods(queries.queries_of(production, is_kept), baseline, config, places=places[is_kept])
    label_tests = labels.label_tests(
        Periods(production, baseline, config, alpha_share, places=places), cut, np.flatnonzero(is_kept)
    )
    page = None
    if config.relevance.from_events or config.propensity is not None:
        moved = changes[0].alert or any(w.moved for w in rows)
        page_windows = _windows_of_page(moved, chosen, label_tests, cut)
        page = _presentation(all_mature, cut.codes[is_kept], page_windows)
    is_uneven = page is not None and page.is_uneven
    return replace(
        evidence,
        windows=tuple(rows),
        **vars(where_part),
        examined=examined,
        whole=whole_period,
        over_time=_over_time(members, periods, part, where_part.slices, columns, where_part.drift),
        worst_queries=tuple(slices.worst_queries(production, rows_of_part, part)),
        family=f"{config.compare.correct.capitalize()} over {family}",
        changes=tuple(changes),
        labels=tuple(label_tests),
        labels_arriving=labels.still_arriving(label_tests, cut) and not is_uneven,
        presentation=page,
        paired_by_key=change.paired_by_key(periods),
        adjustment=change.adjustment(periods, changes[0].difference),
        online=change.online(production, all_mature, rows, alpha_share),
        cautions=tuple(compared.cautions),
        days_unknown=tested.days_unknown,
        days_caution=tested.days_caution,
        effective_users=tested.effective_users,
    )


def _windows_of_page(moved: bool, chosen: list[int], tests: Sequence[LabelTest], cut: Cut) -> list[int]:
    """Return the windows in which positives are counted by rank; none where they are in all of production."""
    if moved and not chosen:  # all of it fell
        return []
    # of lost labels not the metric's: windows that it chose are those in which more was lost at rank 1
    return labels.windows_of_alerts(tests, cut) if any(test.alert for test in tests) else chosen


def _presentation(mature: Periods, windows_of_queries: Ints, chosen: Sequence[int]) -> Presentation:
    """Return the positives by rank in the chosen windows; without any, in all of production."""
    if chosen:
        mature = mature.with_queries(np.flatnonzero(np.isin(windows_of_queries, chosen)))
    return labels.presentation(mature)


def _over_time(
    members: Sequence[Ints],
    periods: Periods,
    part: Periods,
    worst: Sequence[Slice],
    columns: Sequence[ComparedColumn] = (),
    drift: Sequence[FeatureDrift] = (),
) -> OverTime:
    """Return the worst of a part of production in every window, whose (n_queries,) queries are its `members`."""
    if len(members) < 2 or not len(periods.now):
        return OverTime()
    return OverTime(
        slices.segments_over_time(periods, part, worst, members),
        inputs.features_over_time(columns, drift, members, periods),
    )


def _where_and_why(columns: Sequence[ComparedColumn], periods: Periods, tested: Periods) -> WherePart:
    """Search places and causes in every feature and segment; `tested` are the periods as they are tested."""
    worst, candidates = slices.find_slices(tested)
    return WherePart(
        decompositions=tuple(change.decompositions(columns, periods)),
        slices=tuple(worst),
        n_slice_candidates=candidates,
        searched=slices.searched_columns(tested),
        drift=tuple(feature_drift(columns, periods)),
    )


# weekdays of a baseline that lacks the others on purpose, and not because it is short
_MIN_PATTERN_WEEKDAYS = 5
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def _excluded_weekdays(periods: Periods) -> tuple[Ints, list[Caution]]:
    """Return the weekdays of production that are not compared, and the caution on those that the baseline lacks."""
    now, before = periods.times
    no_days = np.empty(0, dtype=np.int64)
    season, timezone = periods.config.windows.season, periods.config.windows.timezone
    mondays_with_mondays = season in ("weekday", "hour_of_week")
    if now is None or before is None or periods.common is not None or mondays_with_mondays:
        return no_days, []
    weekdays_now, weekdays_before = (np.unique(hours_of_week(side, timezone) // 24) for side in (now, before))
    lacking = np.setdiff1d(weekdays_now, weekdays_before)
    if not lacking.size:
        return no_days, []
    excluded_days, effect = no_days, "ordinary differences on these days count as change"
    if weekdays_before.size >= _MIN_PATTERN_WEEKDAYS:
        excluded_days, effect = lacking, "these days are shown but not compared"
    names = ", ".join(_WEEKDAYS[day] for day in lacking)
    text, cure = f"the baseline has no {names}, so {effect}", "use a baseline of whole weeks"
    return excluded_days, [Caution("weekday-missing", "warning", text, cure)]


def _refuse_few_queries(periods: Periods, production: pd.DataFrame, baseline: pd.DataFrame, cut: Cut) -> None:
    """Refuse a period with too few queries that have a value."""
    least, problems = periods.config.windows.min_queries, []
    sides = ("production", periods.now, production), ("the baseline", periods.before, baseline)
    for place, with_value, table in sides:
        n = len(with_value)
        if n >= least:
            continue
        n_without = int((~table["has_relevant"]).sum())
        counts = f"{len(table):,} in all, {n_without:,} without a relevant document"
        if place == "production" and cut.n_immature:
            counts += f", {cut.n_immature:,} too young for their labels"
        found = f"{count_of(n, 'query')} {plural('has', n)} a value of {periods.config.primary} ({counts})"
        cure = "lower windows.min_queries to compare anyway"
        problems.append(Problem(place, found, f"at least {least:,}", cure))
    DataError.refuse(problems)


_MAX_LISTED = 7  # parts of a season


def _refuse_other_seasons(periods: Periods) -> None:
    """Refuse a baseline without queries in some part of the season that production has."""
    now, before = periods.strata
    if now is None or before is None:
        return
    season = periods.config.windows.season
    lacking = np.setdiff1d(now, before).tolist()
    if not lacking:
        return
    names = [_name_of_season(part, season) for part in lacking]
    listed = ", ".join(names[:_MAX_LISTED])
    if len(names) > _MAX_LISTED:
        listed += f" and {len(names) - _MAX_LISTED} more"
    periods_of_season = "days" if season == "hour" else "weeks"
    found = f"windows.season {season}: the baseline has no {listed}"
    raise UsageError(f"{found}; expected whole {periods_of_season}, or season: none")


def _name_of_season(part: int, season: str) -> str:
    if season == "weekday":
        return _WEEKDAYS[part]
    if season == "hour":
        return f"{part:02d}:00"
    return f"{_WEEKDAYS[part // 24]} {part % 24:02d}:00"


def _result(
    production: pd.DataFrame, baseline: pd.DataFrame | None, baseline_kind: str | None, evidence: Evidence
) -> MonitorResult:
    """Return all findings and settings, with the alerts and the verdict."""
    config = evidence.config
    alerts, cautions = alerts_of(evidence)
    undecided = undecided_of(evidence, alerts)
    return MonitorResult(
        **{field.name: getattr(evidence, field.name) for field in fields(Findings)},
        name=config.name,
        metrics=tuple(queries.columns_of(production, "metric")),
        definition=config.definition(),
        relevance=describe(config.relevance),
        config_sha256=config.digest(),
        production_sha256=queries.digest(production),
        baseline_sha256=None if baseline is None else queries.digest(baseline),
        n_queries=len(production),
        n_rows=int(queries.column_of(production, "n_items").sum(dtype=np.int64)),
        baseline_kind=baseline_kind,
        **config.compare.model_dump(include={"alternative", "alpha", "min_drop"}),
        confidence=config.confidence,
        higher_is_better=config.primary.higher_is_better,
        season=config.windows.season,
        alerts=tuple(alerts),
        cautions=(*evidence.cautions, *_advice(evidence), *cautions),
        verdict=verdict_of(evidence, undecided),
        undecided=undecided,
        config=config.model_dump(mode="json", exclude=PLACES),
    )


def _advice(evidence: Evidence) -> list[Caution]:
    """Return how much adjusting helped, and settings without an effect or with an unwanted one."""
    cautions, config = [], evidence.config
    if evidence.adjustment is not None:
        cautions.append(_adjustment_caution(evidence.adjustment, config))
    elif config.compare.adjust:
        reason = "the same queries are compared in pairs" if evidence.changes else "there is no baseline"
        cautions.append(
            Caution("adjust-without-effect", "note", f"compare.adjust has no effect, because {reason}")
        )
    rule, metrics = config.relevance, config.resolved_metrics
    if rule.unseen != "zero" and not any(map(_is_moved_by_unseen, metrics)):
        names = ", ".join(map(str, metrics))
        adds = "rows without an event at the end of a list add nothing to them"
        text = f"unseen: {rule.unseen} has no effect on {names}, because {adds}"
        cautions.append(Caution("unseen-without-effect", "note", text))
    if rule.chosen == "sum" and needs_whole_grades(config.primary):
        counts = "relevance counts events and the gain is exponential, so three events gain 7"
        cautions.append(
            Caution("gain-of-counts", "warning", counts, "use mode: max, which stays on the scale")
        )
    return cautions


def _adjustment_caution(adjustment: Adjustment, config: MonitorConfig) -> Caution:
    removed = adjustment.variance_removed
    direction = "less" if removed >= 0 else "more"
    text = (
        f"differences are adjusted for {', '.join(adjustment.columns)} ({abs(removed):.0%} {direction} variance): none "
        f"holds what another mix of them explains; the plain difference of {config.primary} is {adjustment.unadjusted}"
    )
    return Caution("adjusted", "note", text)


def _is_moved_by_unseen(metric: Metric) -> bool:
    """Return whether rows without an event at a list's end may change the metric: a user's own metric may."""
    return metric.name not in METRICS or metric.counts_worthless_rows or metric.uses_whole_order
