"""All stages in order: a configuration and logs in, a result out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness.errors import DataError, Problem, UsageError
from ltr_harness.metrics import METRICS
from ltr_harness.monitoring.analysis import change, label_health, window_tests
from ltr_harness.monitoring.analysis.cusum import with_cusum
from ltr_harness.monitoring.analysis.drift import feature_drift, gain_shares
from ltr_harness.monitoring.analysis.periods import Periods
from ltr_harness.monitoring.analysis.presentation import presentation
from ltr_harness.monitoring.analysis.running import with_running
from ltr_harness.monitoring.analysis.slices import slices
from ltr_harness.monitoring.analysis.summaries import (
    conventions,
    list_lengths,
    online,
    stray_queries,
    worst_queries,
)
from ltr_harness.monitoring.analysis.windows import Cut, cut
from ltr_harness.monitoring.config import COUNTING_METRICS, PLACES, MonitorConfig, needs_whole_grades
from ltr_harness.monitoring.load import load_monitor_config
from ltr_harness.monitoring.log.contract import Finding, alerting
from ltr_harness.monitoring.log.reading import read_log
from ltr_harness.monitoring.queries import QueryTable
from ltr_harness.monitoring.relevance.attribution import describe
from ltr_harness.monitoring.relevance.propensities import estimated
from ltr_harness.monitoring.results.baselines import is_result, is_run, stored_result, stored_run
from ltr_harness.monitoring.results.history import append_history, history_key, read_history
from ltr_harness.monitoring.results.result import MonitorResult
from ltr_harness.monitoring.verdict.alerts import alerts_of
from ltr_harness.monitoring.verdict.evidence import Evidence
from ltr_harness.monitoring.verdict.verdict import verdict_of
from ltr_harness.wording import count_of, plural


@dataclass(frozen=True, eq=False)
class Watched:
    """A result and the tables it was made from.

    Attributes:
        result: what was found.
        config: under which configuration.
        production, baseline: query by query; no baseline is None.
    """

    result: MonitorResult
    config: MonitorConfig
    production: QueryTable
    baseline: QueryTable | None


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
        config: a file, a mapping of the same form, or a configuration already read.
        log: production; a path, a pandas or an Arrow table; the configured one unless given.
        baseline: likewise, or a run folder, or the folder of an earlier result.
        history: folder of earlier runs' windows, which this one joins.
        dask: read the logs on a Dask cluster: ``local``, a scheduler's address, or a `distributed.Client`. The
            result is the same, to the bit; every log must hold each query's rows together.
        overrides: ``a.b=v`` texts.

    Raises:
        ConfigError: the configuration; DataError: the logs break the contract; NotComparableError: production
            and baseline are measured differently. All problems at once.

    Example:
        >>> import pandas as pd
        >>> log = pd.DataFrame({"query_id": list("aab"), "rank": [1, 2, 1], "relevance": [0, 1, 1]})
        >>> found = monitor({"columns": {"rank": "rank"}, "metrics": ["mrr"]}, log=log)
        >>> found.windows[0].means["mrr"], found.healthy
        (0.75, True)
    """
    return watch(config, log=log, baseline=baseline, history=history, dask=dask, overrides=overrides).result


def watch(
    config: str | Path | Mapping[str, Any] | MonitorConfig,
    *,
    log: Any = None,
    baseline: Any = None,
    history: str | Path | None = None,
    dask: Any = None,
    overrides: Sequence[str] = (),
) -> Watched:
    """`monitor`, with the per-query tables kept for the files.

    Args:
        config: a file, its values, or a configuration.
        log: production; the configuration's if None.
        baseline: the configuration's if None.
        history: folder of earlier runs' windows.
        dask: a cluster that reads the logs.
        overrides: ``a.b=value``, each replaces a value of the configuration.
    """
    settings = config if isinstance(config, MonitorConfig) else load_monitor_config(config, overrides)
    log = settings.log if log is None else log
    baseline = settings.baseline if baseline is None else baseline
    history = settings.history if history is None else history
    if log is None:
        raise UsageError("no log given; expected `log:` in the configuration, or --log")
    if settings.drift.model is not None:
        gain_shares(Path(settings.drift.model))  # refused before logs are read, which may take long
    if settings.propensity is not None:
        settings = settings.model_copy(update={"propensity": estimated(settings.propensity)})
    production, findings, orphans = read_log(log, settings, "production", dask)
    before, kind = None, None
    if baseline is not None:
        before, kind, more = _baseline(baseline, settings, dask)
        findings += more
    folder = None if history is None else Path(history).expanduser()
    return analysed(production, before, settings, findings, kind, folder, orphans)


def _baseline(source: Any, config: MonitorConfig, dask: Any) -> tuple[QueryTable, str, tuple[Finding, ...]]:
    if isinstance(source, str | Path):
        path = Path(source).expanduser()
        if is_result(path):
            return stored_result(path, config), "an earlier result of monitor", ()
        if is_run(path):
            return stored_run(path, config), "a run of this harness", ()
    table, findings, _ = read_log(source, config, "baseline", dask)
    return table, "a log", findings


def analysed(
    production: QueryTable,
    baseline: QueryTable | None,
    config: MonitorConfig,
    findings: tuple[Finding, ...] = (),
    baseline_kind: str | None = None,
    history: Path | None = None,
    orphans: NDArray[np.int64] | None = None,
) -> Watched:
    """Every stage after the logs have been read; `orphans` as in `LogRead`.

    Args:
        production: its queries.
        baseline: its queries; None without one.
        config: the monitor's configuration.
        findings: of both logs' checks.
        baseline_kind: what the baseline was made from.
        history: folder of earlier runs' windows.
        orphans: int64 (n_orphans,), as in `LogRead`.
    """
    if (
        production.time is not None
        and baseline is not None
        and config.windows.season != "none"
        and baseline.time is None
    ):
        raise UsageError(
            f"windows.season {config.windows.season} needs a baseline with timestamps; set season: none"
        )
    whole_cut = cut(production.time, len(production), config)
    key = history_key(config.definition(), config.windows.size, config.windows.timezone)
    past = (
        [] if history is None else [w for w in read_history(history, key) if w.number < whole_cut.number[0]]
    )
    lost = label_health.orphans_by_window(orphans, whole_cut, config)
    findings += stray_queries(production, whole_cut)
    windows = window_tests.window_rows(production, whole_cut, lost, config)
    counted = np.flatnonzero(whole_cut.mature & ~np.isnan(production.primary))
    if baseline is None:
        found = _alone(production, counted, config)
    else:
        found = _compared(production, baseline, counted, whole_cut, windows, past, config)
        windows = found.pop("windows")
    notices: list[str] = found.pop("notices")
    notices += _about_the_rule(config)
    arriving = label_health.still_arriving(found["labels"], whole_cut)
    warned = alerting(
        tuple(f for f in findings if f.log == "production"), tuple(f for f in findings if f.log == "baseline")
    )
    changes = found.pop("changes")
    evidence = Evidence(
        config=config,
        change=changes[0] if changes else None,
        windows=windows,
        splits=found["splits"],
        slices=found["slices"],
        drift=found["drift"],
        labels=found["labels"],
        labels_arriving=arriving,
        presentation=found["presentation"],
        warnings=warned,
        n_immature=whole_cut.n_immature,
        findings=findings,
        days_unknown=found.pop("days_unknown"),
    )
    alerts, more = alerts_of(evidence)
    cusum_level = found["cusum_level"]
    over = [w.label for w in windows if w.cusum > cusum_level]
    if over:
        more.append(f"cusum: small drops have been adding up since before {over[0]}")
    result = MonitorResult(
        name=config.name,
        metrics=production.metrics,
        definition=config.definition(),
        relevance=describe(config.relevance),
        config_sha256=config.digest(),
        production_sha256=production.digest(),
        baseline_sha256=None if baseline is None else baseline.digest(),
        n_queries=len(production),
        n_rows=production.n_rows,
        n_immature=evidence.n_immature,
        baseline_kind=baseline_kind if baseline is None or baseline_kind else "a log",
        alternative=config.compare.alternative,
        confidence=config.compare.confidence,
        alpha=config.compare.alpha,
        min_drop=config.compare.min_drop,
        higher_is_better=config.primary.higher_is_better,
        alerts=tuple(alerts),
        notices=(*notices, *more),
        verdict=verdict_of(evidence),
        findings=findings,
        conventions=conventions(production, baseline),
        list_lengths=list_lengths(production, baseline),
        online=online(production, baseline, windows),
        changes=tuple(changes),
        windows=tuple(windows),
        season=config.windows.season,
        config=config.model_dump(mode="json", exclude=PLACES),
        **_frozen(found),
    )
    if history is not None and production.time is not None:
        append_history(history, key, windows, whole_cut.until)
    return Watched(result, config, production, baseline)


def _about_the_rule(config: MonitorConfig) -> list[str]:
    """What a reader of these grades should know."""
    said = []
    rule, metrics = config.relevance, config.resolved_metrics
    unmoved = [m for m in metrics if m.name in METRICS and m.name not in COUNTING_METRICS]
    if rule.unseen != "zero" and len(unmoved) == len(metrics):
        said.append(
            f"unseen: {rule.unseen} moves none of {', '.join(map(str, metrics))}: rows without an event at the end "
            "of a list add nothing to them"
        )
    if rule.chosen == "sum" and needs_whole_grades(config.primary):
        said.append(
            "relevance counts events and the gain is exponential: three events gain 7; mode: max stays on the scale"
        )
    return said


def _frozen(found: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}


def _alone(production: QueryTable, counted: NDArray[np.int64], config: MonitorConfig) -> dict[str, Any]:
    """Without a baseline: slices against the rest, nothing else to test."""
    now = production.take(counted)
    nobody = now.take(np.empty(0, dtype=np.int64))
    found, candidates = slices(Periods(now, nobody, config), before_exists=False) if len(now) else ([], 0)
    return {
        "changes": [], "splits": [], "slices": found, "n_slice_candidates": candidates, "drift": [], "labels": [],
        "presentation": None, "keyed": None, "cusum_level": float("nan"), "family": "nothing was tested over time",
        "worst": worst_queries(production, counted, None), "notices": [], "days_unknown": False,
    }  # fmt: skip


def _compared(
    production: QueryTable, baseline: QueryTable, counted: NDArray[np.int64], whole_cut: Cut, windows: list[Any],
    past: Sequence[Any], config: MonitorConfig,
) -> dict[str, Any]:  # fmt: skip
    spent = window_tests.share_to_spend(windows, past, config)
    periods = Periods(
        production.without_pages().take(counted), baseline.without_pages().defined(), config, spent
    )
    _refuse_too_few(periods, production, baseline, whole_cut)
    _refuse_other_seasons(periods)
    notices = []
    rows = window_tests.compared_windows(windows, whole_cut, counted, periods, past)
    if config.compare.correct == "sequence":
        rows = with_running(rows, window_tests.members_of(whole_cut, counted), periods, past)
    changes = change.changes(periods)
    changes[0], rows, family = window_tests.corrected(changes[0], rows, periods, past)
    rows, level = with_cusum(rows, periods, past)
    advice = change.season_advice(baseline, config.windows.timezone)
    if config.windows.season == "none" and advice is not None:
        notices.append(advice)
    mature = np.flatnonzero(whole_cut.mature)
    every = Periods(production.take(mature), baseline, config)
    clicks = config.relevance.from_events or config.propensity is not None
    found_slices, candidates = slices(periods)
    return {
        "windows": rows,
        "changes": changes,
        "splits": change.splits(periods),
        "slices": found_slices,
        "n_slice_candidates": candidates,
        "drift": feature_drift(periods),
        "labels": label_health.label_tests(production, whole_cut, baseline, config, spent),
        "presentation": presentation(every) if clicks else None,
        "keyed": change.paired_by_key(periods),
        "worst": worst_queries(production, counted, periods),
        "cusum_level": level,
        "family": f"{config.compare.correct.capitalize()} over {family}",
        "notices": notices,
        "days_unknown": periods.days_unknown,
    }


_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def _refuse_other_seasons(periods: Periods) -> None:
    """Of each part of the season that production has, the baseline must have something to compare it with."""
    now, before = periods.strata
    if now is None or before is None:
        return
    season = periods.config.windows.season
    lacking = sorted(set(np.unique(now).tolist()) - set(np.unique(before).tolist()))
    if not lacking:
        return
    names = [
        _WEEKDAYS[part] if season == "weekday" else f"{part:02d}:00" if season == "hour"
        else f"{_WEEKDAYS[part // 24]} {part % 24:02d}:00" for part in lacking
    ]  # fmt: skip
    more = f" and {len(names) - 7} more" if len(names) > 7 else ""
    whole = "days" if season == "hour" else "weeks"
    raise UsageError(
        f"windows.season {season}: the baseline has no {', '.join(names[:7])}{more}; "
        f"expected whole {whole}, or season: none"
    )


def _refuse_too_few(periods: Periods, production: QueryTable, baseline: QueryTable, whole_cut: Cut) -> None:
    least = periods.config.windows.min_queries
    problems = []
    for which, table, whole in (
        ("production", periods.now, production),
        ("the baseline", periods.before, baseline),
    ):
        if len(table) >= least:
            continue
        why = f"{len(whole):,} in all, {int((~whole.relevant).sum()):,} without a relevant document"
        if which == "production" and whole_cut.n_immature:
            why += f", {whole_cut.n_immature:,} too young for their labels"
        problems.append(
            Problem(
                which,
                f"{count_of(len(table), 'query')} {plural('has', len(table))} a value of "
                f"{periods.config.primary} ({why})",
                f"at least {least:,}",
                "lower windows.min_queries to compare all the same",
            )
        )
    if problems:
        raise DataError(problems)
