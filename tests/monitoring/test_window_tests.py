"""The state of a window, its trailing mean and the family of tests, on tables small enough to add up by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ltr_harness.comparison.stats.betting import bounded_means
from ltr_harness.comparison.stats.cluster_sums import ClusterSums
from ltr_harness.comparison.stats.two_samples import Estimate
from ltr_harness.monitoring.calendar import cut
from ltr_harness.monitoring.config import MonitorConfig
from ltr_harness.monitoring.load import load_monitor_config
from ltr_harness.monitoring.periods import Periods
from ltr_harness.monitoring.queries import primary_of, queries_of
from ltr_harness.monitoring.result import Change, Window
from ltr_harness.monitoring.stored import PastWindow
from ltr_harness.monitoring.windows import (
    RUNNING_SHARE_OF_ALPHA,
    _bounded_interval,
    compare_windows,
    correct_p_values,
    last_look,
    window_rows,
)

Table = Callable[..., pd.DataFrame]

NAN = float("nan")
BEFORE = [0.4, 0.6, 0.4, 0.6]


def config(**sections: Any) -> MonitorConfig:
    columns = {"rank": "rank", "timestamp": "ts"}
    return load_monitor_config({"columns": columns, "metrics": ["ndcg@10"], **sections})


def rows_of(table: pd.DataFrame, settings: MonitorConfig) -> list[Window]:
    whole = cut(table["time"].to_numpy(), len(table), settings)
    return window_rows(table, whole, [None] * len(whole), settings)


# ---- the state of a window --------------------------------------------------------------------------------


def test_the_state_of_a_window(query_table: Table) -> None:
    table = query_table(
        [0, 0, 0.25, 0.5, 1, NAN, NAN],
        days=[0, 0, 0, 0, 0, 0, 1],
        cluster=["a", "a", "b", "c", "c", "d", "d"],
        relevant=np.array([False, False, False, True, True, True, True]),
    )
    online = [1.0, 2, 3, 4, 5, NAN, NAN]
    table = table.assign(n_items=range(1, 8), **{"event:click": range(7), "online:dwell": online})
    full, empty = rows_of(table, config(windows={"min_queries": 5}))
    assert (full.n_queries, full.n_defined, full.n_clusters) == (6, 5, 3)
    assert (full.means["ndcg@10"], full.interval.value) == pytest.approx((0.35, 0.35))
    assert (full.share_zero, full.share_one) == (0.4, 0.2)
    assert [full.p10, full.p50, full.p90] == pytest.approx([0, 0.25, 0.5 + 0.6 * 0.5])
    assert (full.items_per_query, full.relevant_share, full.event_rates) == (3.5, 0.5, {"click": 2.5})
    assert (full.online, full.immature_share, full.hours, full.status) == ({"dwell": 3}, 0, 24, "untested")
    assert full.hours_of_week == {"0": 5}
    assert (empty.n_queries, empty.n_defined, empty.n_clusters, empty.status) == (1, 0, 0, "small")
    state = [empty.share_zero, empty.share_one, empty.p10, empty.p50, empty.p90, empty.interval.value]
    assert np.isnan(state).all()
    alone = rows_of(table.drop(columns="cluster"), config(windows={"min_queries": 6}))[0]
    assert (alone.n_clusters, alone.status) == (5, "small")


def betting_interval(values: np.ndarray, confidence: float) -> tuple[float, float]:
    bounds = np.zeros(1), np.ones(1)
    _, _, low, high = bounded_means(ClusterSums.of(values[:, None]), *bounds, 1 - confidence, 0)
    return float(low[0]), float(high[0])


def test_only_values_at_an_end_of_the_scale_get_a_bounded_interval() -> None:
    settings = config()
    confidence = settings.compare.confidence
    for end in (0.0, 1.0):
        values = np.repeat([end, 0.5], [30, 14])
        assert _bounded_interval(values, settings) == betting_interval(values, confidence)
        assert _bounded_interval(np.repeat([end, 0.5], [30, 15]), settings) is None
    assert _bounded_interval(np.ones(1), settings) == betting_interval(np.ones(1), confidence)
    assert _bounded_interval(np.full(3, 1 + 1e-12), settings) == betting_interval(np.ones(3), confidence)
    assert _bounded_interval(np.full(30, 2.0), settings) == betting_interval(
        np.ones(30), confidence
    )  # a metric beyond its bounds
    assert _bounded_interval(np.ones(0), settings) is None
    assert _bounded_interval(np.ones(20_001), settings) is None


# ---- trailing windows -------------------------------------------------------------------------------------


def past_window(number: int, mean: float = 0.8) -> PastWindow:
    return PastWindow(number, 4, mean, 0.1, 1.0, 0, {})


def compared_windows(
    table: pd.DataFrame,
    before: pd.DataFrame,
    earlier: Sequence[int] = (),
    maturity: str = "0s",
    **windows: Any,
) -> list[Window]:
    """Windows beside the baseline; `earlier` are those of earlier runs, counted from the first of this one."""
    settings = config(windows=windows, relevance={"events": {"click": 1}, "maturity": maturity})
    whole = cut(table["time"].to_numpy(), len(table), settings)
    counted = np.flatnonzero(whole.mature & ~np.isnan(table["metric:ndcg@10"]))
    known = queries_of(before, ~np.isnan(primary_of(before)))
    periods = Periods(table.take(counted), known, settings)
    rows = window_rows(table, whole, [None] * len(whole), settings)
    known = [past_window(int(whole.number[0]) + at) for at in earlier]
    return compare_windows(rows, whole, counted, periods, known)


def trailing(*tables: Any, **options: Any) -> list[Estimate | None]:
    return [w.trailing for w in compared_windows(*tables, **options)]


def values_and_counts(found: Sequence[Estimate | None]) -> list[Any]:
    """Difference and number of queries."""
    return [None if t is None else (pytest.approx(t.value), t.n) for t in found]


def test_a_window_with_queries_enough_is_tested(query_table: Table) -> None:
    table = query_table([0.1, 0.3, 0.2, 0.6, 0.8], days=[0, 0, 1, 2, 2])
    found = compared_windows(table, query_table(BEFORE, prefix="b"), trailing=0, min_queries=2)
    assert [w.status for w in found] == ["tested", "small", "tested"]
    assert values_and_counts([w.change for w in found]) == [(-0.3, 6), None, (0.2, 6)]
    assert [w.adjusted for w in found] == [None] * 3


def test_a_wrong_clock_takes_no_trailing_mean_away(query_table: Table) -> None:
    """One query of long ago, and thirty on each of two days: the second day still has its trailing mean."""
    table = query_table(np.repeat([0.9, 0.2, 0.4], [1, 30, 30]), days=np.repeat([-1000, 0, 1], [1, 30, 30]))
    found = compared_windows(table, query_table(BEFORE, prefix="b"), trailing=2, min_queries=1)
    assert [w.status for w in found] == ["stray", "tested", "tested"]
    assert values_and_counts([w.trailing for w in found]) == [None, None, (-0.2, 64)]


def test_a_trailing_mean_is_of_neighbours_with_queries_enough(query_table: Table) -> None:
    """Two queries a day, four of the baseline with a mean of 0.5; nothing was logged on the third day."""
    days = [0, 0, 1, 1, 3, 3, 4, 4]
    table = query_table([0.1, 0.3, 0.2, 0.4, 0.6, 0.8, 0.5, 0.9], days=days)
    before = query_table(BEFORE, prefix="b")
    neighbours = [None, (-0.25, 8), None, (0.2, 8)]
    assert (
        values_and_counts(trailing(table, before, trailing=2, min_queries=4)) == neighbours
    )  # exactly four are enough
    assert values_and_counts(trailing(table, before, trailing=2, min_queries=5)) == [None] * 4
    assert values_and_counts(trailing(table, before, trailing=1, min_queries=2)) == [None] * 4
    assert values_and_counts(trailing(table, before, trailing=0, min_queries=2)) == [None] * 4
    three = [None, (-0.25, 8), (0.0, 8), (0.2, 8)]
    assert values_and_counts(trailing(table, before, trailing=3, min_queries=4)) == three
    lacking = table.assign(**{"metric:ndcg@10": table["metric:ndcg@10"].where(np.arange(8) != 3)})
    assert values_and_counts(trailing(lacking, before, trailing=2, min_queries=3))[1] == (-0.3, 7)


def test_a_window_with_young_labels_is_in_no_trailing_mean(query_table: Table) -> None:
    """The log ends at 18:00 of the third day: six hours before, one of its queries is old enough and one is not."""
    hours = np.array([0, 0, 24, 24, 50, 66])
    table = query_table([0.1, 0.3, 0.2, 0.4, 0.9, 0.9], days=hours // 24)
    table = table.assign(time=table["time"] + hours % 24 * 3600 * 10**9)
    before = query_table(BEFORE, prefix="b")
    found = trailing(table, before, maturity="6h", trailing=2, min_queries=2)
    assert values_and_counts(found) == [None, (-0.25, 8), None]


def test_windows_of_earlier_runs_stand_before_the_first_one(query_table: Table) -> None:
    """Four earlier queries with a mean of 0.8 join two of today; the window before them is too long ago."""
    table = query_table([0.1, 0.3, 0.2, 0.4], days=[0, 0, 1, 1])
    before = query_table(BEFORE, prefix="b")
    own = (-0.25, 8)
    joined = ((2 * 0.2 + 4 * 0.8) / 6 - 0.5, 10)
    assert values_and_counts(trailing(table, before, [-2, -1], trailing=2, min_queries=2)) == [joined, own]
    assert values_and_counts(trailing(table, before, [0, 1], trailing=2, min_queries=2)) == [
        None,
        own,
    ]  # today's own days
    assert values_and_counts(trailing(table, before, [-1], trailing=2, min_queries=3)) == [None, own]
    both = [((2 * 0.2 + 8 * 0.8) / 10 - 0.5, 14), ((4 * 0.25 + 4 * 0.8) / 8 - 0.5, 12)]
    assert values_and_counts(trailing(table, before, [-2, -1], trailing=3, min_queries=2)) == both


def test_a_replay_meets_itself_and_no_earlier_run(query_table: Table) -> None:
    table = query_table([0.1, 0.3, 0.2, 0.4], days=[0, 0, 1, 1])
    found = trailing(table, query_table(BEFORE), [-1], trailing=2, min_queries=2)
    assert values_and_counts(found) == [(-0.3, 2), (-0.25, 4)]


# ---- the family -------------------------------------------------------------------------------------------


def window(
    number: int, own: Estimate | None, trail: Estimate | None = None, status: str = "tested"
) -> Window:
    return Window(
        f"day {number}", number, 0, 1, 24.0, 9, 9, 9, {}, Estimate(0.5), None, 0.0, 0.0, NAN, NAN, NAN, 10.0, 1.0,
        {}, None, 0.0, {}, status, change=own, trailing=trail,
    )  # fmt: skip


def difference(value: float, p: float) -> Estimate:
    return Estimate(value, p=p)


def family(
    query_table: Table,
    whole: Estimate,
    windows: list[Window],
    earlier: Sequence[PastWindow] = (),
    **compare: Any,
) -> tuple[Change, list[Window], str]:
    table = query_table([0.5])
    periods = Periods(table, table, config(compare={"min_drop": 0.01, **compare}))
    return correct_p_values(Change("ndcg@10", whole, whole, whole, 0.0, ""), windows, periods, earlier)


def test_the_period_its_windows_and_their_trailing_means_are_one_family(query_table: Table) -> None:
    """The period's p twice, the others' three times once it is passed, else six times; alpha is .05, .01 matters."""
    windows = [
        window(1, difference(-0.02, 0.016)),
        window(2, difference(-0.02, 0.017), difference(-0.01, 0.008)),
    ]
    change, rows, words = family(query_table, difference(-0.03, 0.025), windows)
    assert (change.p_corrected, change.alert, change.below_min_drop) == (0.05, True, False)
    assert [w.p_corrected for w in rows] == pytest.approx([0.048, 0.051])
    assert [w.alert for w in rows] == [True, False]
    assert [w.trailing_p_corrected for w in rows] == pytest.approx([NAN, 0.024], nan_ok=True)
    assert [w.trailing_alert for w in rows] == [False, True]
    assert words.startswith(
        "4 tests: the whole period, its windows and their trailing means; the period at half"
    )
    change, rows, _ = family(query_table, difference(-0.03, 0.026), windows)
    assert (change.p_corrected, change.alert) == (0.052, False)
    assert [w.p_corrected for w in rows] == pytest.approx([0.096, 0.102])
    assert [w.trailing_alert for w in rows] == [False, True]


def test_a_single_window_is_the_whole_period(query_table: Table) -> None:
    """It is not tested twice; and a small drop, or a rise, is no alert however significant."""
    windows = [window(1, difference(-0.02, 0.01)), window(2, None, status="small")]
    change, rows, words = family(query_table, difference(-0.02, 0.01), windows)
    assert (change.p_corrected, change.alert) == (0.01, True)
    assert np.isnan([w.p_corrected for w in rows]).all()
    assert not any(w.alert or w.trailing_alert for w in rows)
    assert words.startswith("1 tests: ")
    small = family(query_table, difference(-0.009, 0.01), windows)[0]
    assert (small.alert, small.below_min_drop) == (False, True)
    edge = family(query_table, difference(-0.02, 0.05), windows)[0]
    assert (edge.alert, edge.below_min_drop) == (True, False)
    chance = family(query_table, difference(-0.02, 0.06), windows)[0]
    assert (chance.alert, chance.below_min_drop) == (False, False)
    rows = family(
        query_table, difference(-0.02, 0.01), [window(at, difference(-0.009, 0.001)) for at in (1, 2)]
    )[1]
    assert [w.alert for w in rows] == [False, False]


def test_later_windows_have_less_to_spend(query_table: Table) -> None:
    """Windows 2 and 3 on record; a stray one before them and a young one after them count for nothing."""
    windows = [
        window(-900, None, status="stray"),
        window(11, difference(-0.02, 0.0001)),
        window(12, difference(-0.02, 0.0002), difference(-0.02, 0.0003)),
        window(13, None, status="immature"),
    ]
    change, rows, words = family(
        query_table, difference(-0.02, 0.0004), windows, [past_window(10)], correct="sequence"
    )
    factor = 3 * np.pi**2 / 6 / (1 - RUNNING_SHARE_OF_ALPHA)
    assert change.p_corrected == pytest.approx(0.0004 * factor * 9)
    assert [w.p_corrected for w in rows[1:3]] == pytest.approx([0.0001 * factor * 4, 0.0002 * factor * 9])
    assert rows[2].trailing_p_corrected == pytest.approx(0.0003 * factor * 9)
    assert "window 3 on record, of as many as may come" in words
    assert last_look([window(at, None) for at in (1, 2, 4)], []) == 4
    assert "the mean of all windows on record" in words
    young = [window(at, None, status="immature") for at in (5, 7, 8)]
    assert "window 4 on record" in family(query_table, difference(0.0, 0.5), young, correct="sequence")[2]
