"""All stages in order: a configuration and logs in, a result out."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ltr_harness.errors import UsageError
from ltr_harness.logs.contract import LogFinding, alerting
from ltr_harness.metrics import METRICS
from ltr_harness.monitoring.analysis import label_health, window_tests
from ltr_harness.monitoring.analysis.analysis import Analysis, alone, compared
from ltr_harness.monitoring.analysis.arms import compared_arms
from ltr_harness.monitoring.analysis.drift import gain_shares
from ltr_harness.monitoring.analysis.parity import served_scores
from ltr_harness.monitoring.analysis.summaries import (
    conventions,
    list_lengths,
    stray_queries,
)
from ltr_harness.monitoring.analysis.windows import Cut, cut
from ltr_harness.monitoring.config import COUNTING_METRICS, PLACES, MonitorConfig, needs_whole_grades
from ltr_harness.monitoring.load import load_monitor_config
from ltr_harness.monitoring.log.parity import feature_columns
from ltr_harness.monitoring.log.reading import read_log
from ltr_harness.monitoring.queries import column_of, columns_of, digest, primary_of
from ltr_harness.monitoring.results.baselines import is_result, is_run, stored_result, stored_run
from ltr_harness.monitoring.results.history import append_history, history_key, read_history
from ltr_harness.monitoring.results.result import MonitorResult
from ltr_harness.monitoring.verdict.alerts import alerts_of
from ltr_harness.monitoring.verdict.evidence import Evidence
from ltr_harness.monitoring.verdict.verdict import verdict_of
from ltr_harness.relevance.attribution import describe
from ltr_harness.relevance.propensities import estimated


@dataclass(frozen=True, eq=False)
class Watched:
    """A result and the tables it was made from.

    Attributes:
        result: all answers.
        config: under which configuration.
        production, baseline: query by query; no baseline is None.
    """

    result: MonitorResult
    config: MonitorConfig
    production: pd.DataFrame
    baseline: pd.DataFrame | None


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

    Raises:
        ConfigError: the configuration; DataError: the logs break the contract; NotComparableError: production
            and baseline are measured differently. All problems at once.

    Example:
        >>> import pandas as pd
        >>> log = pd.DataFrame({"query_id": list("aab"), "rank": [1, 2, 1], "relevance": [0, 1, 1]})
        >>> result = monitor({"columns": {"rank": "rank"}, "metrics": ["mrr"]}, log=log)
        >>> result.windows[0].means["mrr"], result.healthy
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
    """`monitor`, with the per-query tables kept for the files."""
    settings = config if isinstance(config, MonitorConfig) else load_monitor_config(config, overrides)
    log = settings.log if log is None else log
    baseline = settings.baseline if baseline is None else baseline
    history = settings.history if history is None else history
    if log is None:
        raise UsageError("no log given; expected `log:` in the configuration, or --log")
    if settings.drift.model is not None:
        gain_shares(Path(settings.drift.model))  # refused before logs are read, which may take long
    if settings.parity is not None:
        feature_columns(settings.parity)  # likewise
    if settings.propensity is not None:
        settings = settings.model_copy(update={"propensity": estimated(settings.propensity)})
    rule = settings.relevance
    if rule.propensity is not None:
        rule = rule.model_copy(update={"propensity": estimated(rule.propensity)})
        settings = settings.model_copy(update={"relevance": rule})
    production, findings, orphans = read_log(log, settings, "production", dask)
    before, kind = None, None
    if baseline is not None:
        before, kind, more = _baseline(baseline, settings, dask)
        findings += more
    folder = None if history is None else Path(history).expanduser()
    return analysed(production, before, settings, findings, kind, folder, orphans)


def _baseline(
    source: Any, config: MonitorConfig, dask: Any
) -> tuple[pd.DataFrame, str, tuple[LogFinding, ...]]:
    if isinstance(source, str | Path):
        path = Path(source).expanduser()
        if is_result(path):
            return stored_result(path, config), "an earlier result of monitor", ()
        if is_run(path):
            return stored_run(path, config), "a run of this harness", ()
    plain = config.model_copy(update={"arms": None, "parity": None})  # they are production's
    table, findings, _ = read_log(source, plain, "baseline", dask)
    return table, "a log", findings


def analysed(
    production: pd.DataFrame,
    baseline: pd.DataFrame | None,
    config: MonitorConfig,
    findings: tuple[LogFinding, ...] = (),
    baseline_kind: str | None = None,
    history: Path | None = None,
    orphans: NDArray[np.int64] | None = None,
) -> Watched:
    """Every stage after the logs have been read; `orphans` as in `LogRead`.

    Shapes: `orphans` (n_orphans,).
    """
    time = column_of(production, "time")
    seasonal = config.windows.season != "none" and time is not None
    if seasonal and baseline is not None and "time" not in baseline:
        raise UsageError(
            f"windows.season {config.windows.season} needs a baseline with timestamps; set season: none"
        )
    whole_cut = cut(time, len(production), config)
    key = history_key(
        config.definition(), config.windows.size, config.windows.timezone, config.compare.adjust
    )
    past = (
        [] if history is None else [w for w in read_history(history, key) if w.number < whole_cut.number[0]]
    )
    lost = label_health.orphans_by_window(orphans, whole_cut, config)
    findings += stray_queries(production, whole_cut)
    windows = window_tests.window_rows(production, whole_cut, lost, config)
    counted = np.flatnonzero(whole_cut.mature & ~np.isnan(primary_of(production)))
    if baseline is None:
        analysis = alone(production, counted, windows, config)
    else:
        analysis = compared(production, baseline, whole_cut, counted, windows, past, config)
        baseline_kind = baseline_kind or "a log"
    spent = window_tests.share_to_spend(windows, past, config)
    analysis = dataclasses.replace(
        analysis,
        arms=compared_arms(production, whole_cut, config, spent),
        parity=served_scores(production, whole_cut, config, spent),
    )
    result = _result(
        production, baseline, baseline_kind, analysis, _evidence(analysis, whole_cut, findings, config)
    )
    if history is not None and time is not None:
        append_history(history, key, analysis.windows, whole_cut.until)
    return Watched(result, config, production, baseline)


def _evidence(
    analysis: Analysis, whole_cut: Cut, findings: tuple[LogFinding, ...], config: MonitorConfig
) -> Evidence:
    ours, theirs = (tuple(f for f in findings if f.log == log) for log in ("production", "baseline"))
    return Evidence(
        config=config,
        change=analysis.changes[0] if analysis.changes else None,
        windows=analysis.windows,
        splits=analysis.splits,
        slices=analysis.slices,
        drift=analysis.drift,
        labels=analysis.labels,
        labels_arriving=label_health.still_arriving(analysis.labels, whole_cut),
        presentation=analysis.presentation,
        warnings=alerting(ours, theirs),
        n_immature=whole_cut.n_immature,
        findings=findings,
        days_unknown=analysis.days_unknown,
        days_caveat=analysis.days_caveat,
        effective_users=analysis.effective_users,
        adjusted_for=analysis.adjustment.columns if analysis.adjustment else (),
        arms=analysis.arms,
        parity=analysis.parity,
    )


def _result(
    production: pd.DataFrame,
    baseline: pd.DataFrame | None,
    baseline_kind: str | None,
    analysis: Analysis,
    evidence: Evidence,
) -> MonitorResult:
    """What was found beside what was asked, with alerts and the verdict."""
    config = evidence.config
    alerts, notices = alerts_of(evidence)
    over = [w.label for w in analysis.windows if w.cusum > analysis.cusum_level]
    if over:
        notices.append(f"cusum: small drops have been adding up since before {over[0]}")
    return MonitorResult(
        name=config.name,
        metrics=tuple(columns_of(production, "metric")),
        definition=config.definition(),
        relevance=describe(config.relevance),
        config_sha256=config.digest(),
        production_sha256=digest(production),
        baseline_sha256=None if baseline is None else digest(baseline),
        n_queries=len(production),
        n_rows=int(column_of(production, "n_items").sum(dtype=np.int64)),
        n_immature=evidence.n_immature,
        baseline_kind=baseline_kind,
        alternative=config.compare.alternative,
        confidence=config.compare.confidence,
        alpha=config.compare.alpha,
        min_drop=config.compare.min_drop,
        higher_is_better=config.primary.higher_is_better,
        alerts=tuple(alerts),
        notices=(
            *analysis.notices,
            *_about_adjusting(analysis, config),
            *_about_the_rule(config),
            *notices,
        ),
        verdict=verdict_of(evidence),
        findings=tuple(evidence.findings),
        conventions=conventions(production, baseline),
        list_lengths=list_lengths(production, baseline),
        changes=analysis.changes,
        windows=analysis.windows,
        splits=analysis.splits,
        slices=analysis.slices,
        n_slice_candidates=analysis.n_slice_candidates,
        drift=analysis.drift,
        labels=analysis.labels,
        online=analysis.online,
        arms=analysis.arms,
        parity=analysis.parity,
        presentation=analysis.presentation,
        keyed=analysis.keyed,
        adjustment=analysis.adjustment,
        worst=analysis.worst,
        cusum_level=analysis.cusum_level,
        family=analysis.family,
        season=config.windows.season,
        config=config.model_dump(mode="json", exclude=PLACES),
    )


def _about_adjusting(analysis: Analysis, config: MonitorConfig) -> list[str]:
    """How much it helped, and what would have been said without."""
    done = analysis.adjustment
    if not config.compare.adjust:
        return []
    if done is None:
        why = "the same queries are compared in pairs" if analysis.changes else "there is no baseline"
        return [f"compare.adjust changes nothing: {why}"]
    gone = done.variance_removed
    much = f"{abs(gone):.0%} {'less' if gone >= 0 else 'more'} variance"
    return [
        f"differences are adjusted for {', '.join(done.columns)} ({much}): none holds what another mix of them "
        f"explains; the plain difference of {config.primary} is {done.plain}"
    ]


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
