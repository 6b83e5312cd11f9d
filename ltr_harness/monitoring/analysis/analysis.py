"""Every question of the analysis asked of one production log, with a baseline or alone; the answers in one value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ltr_harness.errors import DataError, Problem, UsageError
from ltr_harness.monitoring.analysis import change, label_health, window_tests
from ltr_harness.monitoring.analysis.cusum import with_cusum
from ltr_harness.monitoring.analysis.drift import feature_drift
from ltr_harness.monitoring.analysis.periods import Periods
from ltr_harness.monitoring.analysis.presentation import presentation
from ltr_harness.monitoring.analysis.running import with_running
from ltr_harness.monitoring.analysis.slices import slices
from ltr_harness.monitoring.analysis.summaries import online, worst_queries
from ltr_harness.monitoring.analysis.windows import Cut, weekday_of
from ltr_harness.monitoring.config import MonitorConfig
from ltr_harness.monitoring.queries import places_of, primary_of, queries_of, with_value, without_pages
from ltr_harness.monitoring.results.answers import (
    Adjustment,
    Change,
    FeatureDrift,
    Interval,
    LabelTest,
    Presentation,
    Slice,
    Split,
    Window,
)
from ltr_harness.monitoring.results.arms import ArmComparison
from ltr_harness.monitoring.results.history import PastWindow
from ltr_harness.monitoring.results.parity import Parity
from ltr_harness.monitoring.results.summaries import Online, WorstQuery
from ltr_harness.wording import count_of, plural


@dataclass(frozen=True)
class Analysis:
    """The answers of all stages; without a baseline most of them are empty.

    Attributes:
        windows: of production, in order of time.
        worst: queries to read.
        family: the tests that were corrected together, in words.
        changes: of every metric; the first one raises alerts.
        splits: of the first metric's change, by segment.
        slices, n_slice_candidates: the segments behind a drop, and how many were looked at.
        drift: of features and segments.
        labels: tests of label rates.
        presentation: clicks by rank; None without clicks.
        keyed: the change over recurring keys; None without them.
        adjustment: what was taken out of the values before they were tested; None where nothing was.
        cusum_level: what healthy windows' cumulated drops rarely reach.
        online: what users did, before and now.
        arms: of an A/B test; None where there is none.
        parity: served scores against the model's; None where nobody asked.
        notices: what to change in the configuration.
        days_unknown: whether nobody can tell how much days differ by themselves.
        days_caveat: what an alarm leaves open, as few days are known.
        effective_users: how many users of one size decide.
    """

    windows: tuple[Window, ...]
    worst: tuple[WorstQuery, ...]
    family: str = "nothing was tested over time"
    changes: tuple[Change, ...] = ()
    splits: tuple[Split, ...] = ()
    slices: tuple[Slice, ...] = ()
    n_slice_candidates: int = 0
    drift: tuple[FeatureDrift, ...] = ()
    labels: tuple[LabelTest, ...] = ()
    presentation: Presentation | None = None
    keyed: Interval | None = None
    adjustment: Adjustment | None = None
    cusum_level: float = float("nan")
    online: tuple[Online, ...] = ()
    arms: ArmComparison | None = None
    parity: Parity | None = None
    notices: tuple[str, ...] = ()
    days_unknown: bool = False
    days_caveat: str = ""
    effective_users: float = float("inf")


def alone(
    production: pd.DataFrame, counted: NDArray[np.int64], windows: Sequence[Window], config: MonitorConfig
) -> Analysis:
    """Without a baseline: slices against the rest, nothing else to test.

    Shapes: `counted` (n_counted,).
    """
    now = queries_of(production, counted)
    worst_slices, candidates = (
        slices(Periods(now, now.iloc[:0], config), before_exists=False) if len(now) else ([], 0)
    )
    return Analysis(
        windows=tuple(windows),
        worst=tuple(worst_queries(production, counted, None)),
        online=online(production, None, windows),
        slices=tuple(worst_slices),
        n_slice_candidates=candidates,
    )


def compared(
    production: pd.DataFrame,
    baseline: pd.DataFrame,
    cut: Cut,
    counted: NDArray[np.int64],
    windows: list[Window],
    past: Sequence[PastWindow],
    config: MonitorConfig,
) -> Analysis:
    """Production against its baseline.

    Shapes: `counted` (n_counted,).

    Raises:
        DataError: too few queries on a side; UsageError: the baseline lacks a part of the season.
    """
    spent = window_tests.share_to_spend(windows, past, config)
    now, before = queries_of(without_pages(production), counted), with_value(without_pages(baseline))
    places = places_of(production["query_id"], baseline["query_id"])  # once: of millions that takes a while
    has_value = ~np.isnan(primary_of(baseline))
    among_kept = np.append(np.where(has_value, np.cumsum(has_value) - 1, -1), -1)
    periods = Periods(now, before, config, spent, places=among_kept[places[counted]])
    apart, notices = _weekdays_apart(periods)
    kept = cut.mature & ~np.isin(cut.weekday, apart)
    if apart.size:
        counted, past = counted[kept[counted]], [w for w in past if not w.weekdays & {*apart.tolist()}]
        if not counted.size:
            raise UsageError(notices[0])
        now = queries_of(without_pages(production), counted)
        periods = Periods(now, before, config, spent, places=among_kept[places[counted]])
    _refuse_too_few(periods, production, baseline, cut)
    _refuse_other_seasons(periods)
    tested = periods.adjusted()
    rows = window_tests.compared_windows(windows, cut, counted, tested, past)
    if config.compare.correct == "sequence":
        rows = with_running(rows, window_tests.members_of(cut, counted), tested, past)
    changes = change.changes(periods, tested)
    changes[0], rows, family = window_tests.corrected(changes[0], rows, tested, past)
    rows, level = with_cusum(rows, tested, past)
    advice = change.season_advice(baseline, config.windows.timezone)
    if config.windows.season == "none" and advice is not None:
        notices.append(advice)
    whole = Periods(production, baseline, config, spent, places=places)
    every = Periods(queries_of(production, kept), baseline, config, places=places[kept])
    clicks = config.relevance.from_events or config.propensity is not None
    worst_slices, candidates = slices(tested)
    return Analysis(
        windows=tuple(rows),
        worst=tuple(worst_queries(production, counted, periods)),
        family=f"{config.compare.correct.capitalize()} over {family}",
        changes=tuple(changes),
        splits=tuple(change.splits(periods)),
        slices=tuple(worst_slices),
        n_slice_candidates=candidates,
        drift=tuple(feature_drift(periods)),
        labels=tuple(label_health.label_tests(whole, cut, np.flatnonzero(kept))),
        presentation=presentation(every) if clicks else None,
        keyed=change.paired_by_key(periods),
        adjustment=change.adjustment(periods, changes[0].difference),
        cusum_level=level,
        online=online(production, every, rows, spent),
        notices=tuple(notices),
        days_unknown=tested.days_unknown,
        days_caveat=tested.days_caveat,
        effective_users=tested.effective_users,
    )


_A_PATTERN = 5  # weekdays of a baseline that lacks the others on purpose, and not because it is short
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def _weekdays_apart(periods: Periods) -> tuple[NDArray[np.int64], list[str]]:
    """Weekdays of production that are not compared, as the baseline lacks them; and what is said of those it lacks."""
    now, before = periods.times
    nothing = np.empty(0, dtype=np.int64)
    if now is None or before is None or periods.common is not None or periods.by_weekday:
        return nothing, []
    ours, theirs = (np.unique(weekday_of(side, periods.config.windows.timezone)) for side in (now, before))
    lacking = np.setdiff1d(ours, theirs)
    if not lacking.size:
        return nothing, []
    long = theirs.size >= _A_PATTERN
    then = (
        "these days are shown and not compared"
        if long
        else "how these days differ by themselves counts as change"
    )
    names = ", ".join(_WEEKDAYS[day] for day in lacking)
    notice = f"the baseline has no {names}: {then}; expected a baseline of whole weeks"
    return lacking if long else nothing, [notice]


def _refuse_other_seasons(periods: Periods) -> None:
    """Of each part of the season that production has, the baseline must have something to compare it with."""
    now, before = periods.strata
    if now is None or before is None:
        return
    season = periods.config.windows.season
    lacking = sorted(set(np.unique(now).tolist()) - set(np.unique(before).tolist()))
    if not lacking:
        return
    names = [_part_in_words(part, season) for part in lacking]
    more = f" and {len(names) - 7} more" if len(names) > 7 else ""
    whole = "days" if season == "hour" else "weeks"
    raise UsageError(
        f"windows.season {season}: the baseline has no {', '.join(names[:7])}{more}; "
        f"expected whole {whole}, or season: none"
    )


def _part_in_words(part: int, season: str) -> str:
    if season == "weekday":
        return _WEEKDAYS[part]
    hour = f"{part % 24:02d}:00"
    return hour if season == "hour" else f"{_WEEKDAYS[part // 24]} {hour}"


def _refuse_too_few(periods: Periods, production: pd.DataFrame, baseline: pd.DataFrame, cut: Cut) -> None:
    least = periods.config.windows.min_queries
    problems = []
    for which, table, whole in (
        ("production", periods.now, production),
        ("the baseline", periods.before, baseline),
    ):
        if len(table) >= least:
            continue
        why = f"{len(whole):,} in all, {int((~whole['has_relevant']).sum()):,} without a relevant document"
        if which == "production" and cut.n_immature:
            why += f", {cut.n_immature:,} too young for their labels"
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
