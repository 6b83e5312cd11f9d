"""The difference of two periods, divided and by season, on tables small enough to add up by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from ltr_harness.comparison.stats.two_samples import Sample
from ltr_harness.monitoring.change import (
    _decomposition,
    _season_p,
    adjustment,
    changes,
    decompositions,
    paired_by_key,
    season_advice,
)
from ltr_harness.monitoring.inputs import compared_columns, segment_column
from ltr_harness.monitoring.load import load_monitor_config
from ltr_harness.monitoring.periods import Periods
from ltr_harness.monitoring.stats.adjustment import decompose

Table = Callable[..., pd.DataFrame]

START = int(np.datetime64("2026-01-05", "ns").astype(np.int64))  # a Monday
HOUR = 3600 * 10**9


def periods(now: pd.DataFrame, before: pd.DataFrame, **sections: Any) -> Periods:
    columns = {"rank": "rank", "segments": ["country"], "features": ["age"]}
    if "time" in now:
        columns["timestamp"] = "ts"
    config = load_monitor_config({"columns": columns, "metrics": ["ndcg@10"], **sections})
    return Periods(now, before, config)


# ---- the difference ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("season", ["none", "weekday"])
def test_the_method_names_the_season(season: str, query_table: Table) -> None:
    now = query_table([0.1, 0.3, 0.2, 0.4], days=[0, 0, 1, 1])
    before = query_table([0.4, 0.6, 0.4, 0.6], days=[0, 0, 1, 1], prefix="b")
    found = periods(now, before, windows={"season": season})
    method = changes(found, found)[0].method
    parts = ["Welch's t over different queries", *(["weekday by weekday"] if season == "weekday" else [])]
    assert method == ", ".join(parts + [str(known) for known in found.primary_variations])


def test_every_metric_has_its_own_difference(query_table: Table) -> None:
    """Means .25 after .5 and .4 after 0: the first halved, and of the second nobody can say by how much."""
    now, before = query_table([0.1, 0.4]), query_table([0.4, 0.6, 0.5], prefix="b")
    now, before = now.assign(**{"metric:mrr": [0.2, 0.6]}), before.assign(**{"metric:mrr": [0.0, 0.0, 0.0]})
    answers = {}
    for alternative in ("drop", "change"):
        found = periods(now, before, metrics=["ndcg@10", "mrr"], compare={"alternative": alternative})
        answers[alternative] = changes(found, found)
    first, second = answers["drop"]
    assert (first.production.value, first.baseline.value) == pytest.approx((0.25, 0.5))
    assert (first.difference.value, first.relative) == pytest.approx((-0.25, -0.5))
    assert (second.production.value, second.baseline.value) == pytest.approx((0.4, 0.0))
    assert second.difference.value == pytest.approx(0.4)
    assert np.isnan(second.relative)
    for metric, one_sided in enumerate((first, second)):
        p = one_sided.difference.p
        assert answers["change"][metric].difference.p == pytest.approx(2 * min(p, 1 - p))
    assert first.difference.p < 0.5 < second.difference.p


def test_what_adjusting_removed_of_the_variance(query_table: Table) -> None:
    """An error of half the size is a quarter of the variance."""
    now, before = query_table([0.1, 0.4, 0.3]), query_table([0.4, 0.6, 0.5], prefix="b")
    found = periods(now, before, compare={"adjust": ["country"]})
    plain = found.compare()
    halved = adjustment(found, replace(plain, error=plain.error / 2))
    assert halved is not None
    assert (halved.variance_removed, halved.unadjusted, halved.columns) == (
        pytest.approx(0.75),
        plain,
        ("country",),
    )
    assert adjustment(periods(now, before), plain) is None
    assert adjustment(periods(now, now, compare={"adjust": ["country"]}), plain) is None  # a replay
    flat = periods(
        query_table([0.5] * 2), query_table([0.5] * 2, prefix="b"), compare={"adjust": ["country"]}
    )
    still = adjustment(flat, plain)
    assert still is not None
    assert np.isnan(still.variance_removed)


def keys(codes: list[int], names: Sequence[str]) -> pd.Categorical:
    return pd.Categorical.from_codes(codes, list(names))


def test_keys_are_compared_with_themselves(query_table: Table) -> None:
    """Key a has .2 after .5, key b .4 after .6; c, d and the queries without a key have no partner."""
    now = query_table([0.1, 0.3, 0.4, 0.9, 0.9]).assign(pair_key=keys([0, 0, 1, 2, -1], "abc"))
    before = query_table([0.5, 0.5, 0.7, 0.1, 0.1], prefix="b").assign(pair_key=keys([0, 1, 1, 2, -1], "abd"))
    found = paired_by_key(periods(now, before))
    assert found is not None
    assert (found.value, found.n) == (pytest.approx(-0.25), 2)
    assert found.p == pytest.approx(scipy.stats.ttest_1samp([-0.3, -0.2], 0, alternative="less").pvalue)
    assert paired_by_key(periods(now.take([0, 1, 3]), before)) is None  # one key is no sample
    assert paired_by_key(periods(now.drop(columns="pair_key"), before)) is None
    assert paired_by_key(periods(now, before.drop(columns="pair_key"))) is None


# ---- divided by segments ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("segments", "features", "m"), [(1, 0, 1), (1, 1, 2), (2, 1, 3)])
def test_a_split_pays_for_every_input_looked_at(
    segments: int, features: int, m: int, query_table: Table
) -> None:
    random = np.random.default_rng(0)
    tables = []
    for n, share, prefix in ((300, 0.4, "q"), (200, 0.45, "b")):
        country = np.where(random.uniform(size=n) < share, "de", "fr")
        tables.append(
            query_table(
                np.where(country == "de", 0.48, 0.52) + random.normal(0, 0.3, n),
                segments=dict.fromkeys(("country", "place")[:segments], country),
                features={name: np.ones(n) for name in ("age",)[:features]},
                prefix=prefix,
            )
        )
    found = periods(*tables, columns={"rank": "rank", "segments": ["country", "place"], "features": ["age"]})
    alone = segment_column("country", found, 0.01 / m).parts.mix_p
    assert 0.01 < alone < 1 / 3
    split = decompositions(compared_columns(found), found)[0]
    assert split.mix_p == pytest.approx(m * alone)
    assert {cell.value for cell in split.cells} == {"de", "fr"}


def test_a_segment_missing_more_often_is_set_apart(query_table: Table) -> None:
    """Missing for 12 of 100 queries after 5: p = .038 is above a third of .05 and below a third of .2."""
    values = np.tile([0.2, 0.6], 50)
    country, before = (keys([-1] * n + [0] * (100 - n), ["de"]) for n in (12, 5))
    features = {"age": np.ones(100), "price": np.ones(100)}
    tables = [
        query_table(values, features=features, prefix=prefix).assign(**{"segment:country": column})
        for prefix, column in (("q", country), ("b", before))
    ]
    lacking = {}
    for alpha in (0.05, 0.2):
        found = periods(
            tables[0],
            tables[1],
            drift={"alpha": alpha},
            columns={"rank": "rank", "segments": ["country"], "features": ["age", "price"]},
        )
        lacking[alpha] = decompositions(compared_columns(found), found)[0].unmatched_share
    assert lacking == {0.05: pytest.approx(0), 0.2: pytest.approx(0.12)}


def test_a_split_shows_the_twenty_largest_cells(query_table: Table) -> None:
    cells = np.repeat(np.arange(22), np.arange(1, 23))
    parts = decompose(Sample(cells / 22), cells, Sample(cells / 22), cells)
    table = query_table([0.5])
    split = _decomposition("country", parts, [f"c{at}" for at in range(22)], periods(table, table), 1)
    assert [cell.value for cell in split.cells] == [f"c{at}" for at in range(21, 1, -1)]


def test_both_cells_improved_and_the_whole_fell(query_table: Table) -> None:
    """Shares .3, .6, .1 after .6, .3, .1; twelve queries are enough to say that a cell improved, four are not."""
    counts, counts_before = np.array([12, 24, 4]), np.array([24, 12, 4])
    cells, cells_before = np.repeat(np.arange(3), counts), np.repeat(np.arange(3), counts_before)
    parts = decompose(
        Sample(np.array([0.875, 0.5, 0.125])[cells]),
        cells,
        Sample(np.array([0.75, 0.25, 0.5])[cells_before]),
        cells_before,
    )
    table = query_table([0.5])
    names = ["a", "b", "c", "(missing)"]
    found = periods(table, table, slices={"min_queries": 12})
    split = _decomposition("country", parts, names, found, 1)
    assert [astuple(cell) for cell in split.cells] == [
        ("a", pytest.approx(0.6), pytest.approx(0.3), pytest.approx(0.75), pytest.approx(0.875)),
        ("b", pytest.approx(0.3), pytest.approx(0.6), pytest.approx(0.25), pytest.approx(0.5)),
        ("c", pytest.approx(0.1), pytest.approx(0.1), pytest.approx(0.5), pytest.approx(0.125)),
    ]

    def shows_paradox(total: float, least: int = 12) -> bool:
        moved = replace(parts, total=replace(parts.total, value=total))
        found = periods(table, table, slices={"min_queries": least})
        return _decomposition("country", moved, names, found, 1).simpsons_paradox

    assert _decomposition("country", replace(parts, mix_p=0.6), names, found, 2).mix_p == 1.0
    assert shows_paradox(-0.1)
    assert not shows_paradox(0.0)
    assert not shows_paradox(0.1)
    assert not shows_paradox(-0.1, least=13)  # of no cell can anything be said
    same = replace(parts, total=replace(parts.total, value=-0.1), means=parts.means[[1, 1]])
    assert not _decomposition("country", same, names, found, 1).simpsons_paradox
    lower = periods(table, table, metrics=["kendall_tau_distance"], slices={"min_queries": 12})
    worse = replace(parts, total=replace(parts.total, value=0.1), means=parts.means[::-1])
    assert _decomposition("country", worse, names, lower, 1).simpsons_paradox
    assert not _decomposition("country", worse, names, found, 1).simpsons_paradox


# ---- the season -------------------------------------------------------------------------------------------


def by_hour(
    query_table: Table, mean: Callable[[int, int], float], days: int, hours: list[int]
) -> pd.DataFrame:
    """Ten queries in each of some hours of each day."""
    cells = [(day, hour) for day in range(days) for hour in hours]
    table = query_table(np.repeat([mean(*cell) for cell in cells], 10))
    times = [START + (24 * day + hour) * HOUR for day, hour in cells]
    return table.assign(time=np.repeat(np.array(times, dtype=np.int64), 10))


def test_hours_are_compared_within_their_day() -> None:
    """Two hours of each day are a paired t test, whatever the days are like; three differences say too little."""
    morning, evening = np.array([1.0, 5, 2, 9]), np.array([1.5, 5.25, 2.75, 9.25])
    means = np.ravel([morning, evening], order="F")
    days, parts = np.repeat(np.arange(4), 20), np.tile(np.repeat([0, 1], 10), 4)
    expected = scipy.stats.ttest_rel(morning, evening).pvalue
    values = np.repeat(means, 10)
    assert _season_p(values, parts, days, within_days=True) == pytest.approx(expected)
    assert np.isnan(_season_p(values[:60], parts[:60], days[:60], within_days=True))
    assert np.isnan(_season_p(values[:0], parts[:0], days[:0]))
    assert np.isnan(
        _season_p(np.repeat([1.0, 2, 1, 2, 1, 2], 10), np.arange(60) // 10 % 2, np.arange(60) // 10)
    )
    three = np.array([1.0, 2, 3, 5, 6, 8, 20, 21, 25])
    days = np.repeat(np.arange(9), 10)
    expected = scipy.stats.f_oneway(three[::3], three[1::3], three[2::3]).pvalue
    assert _season_p(np.repeat(three, 10), days % 3, days) == pytest.approx(expected)


def test_the_season_that_a_metric_shows(query_table: Table) -> None:
    noise = np.random.default_rng(0).normal(0, 0.01, (28, 24))

    def advice(mean: Callable[[int, int], float], days: int, hours: list[int]) -> str:
        table = by_hour(query_table, lambda d, h: mean(d, h) + noise[d, h], days, hours)
        return str(season_advice(table, "UTC"))

    assert advice(lambda day, hour: 0.1 * (day % 7), 28, [12]) == (
        "the metric depends on the day of the week; "
        "windows.season: weekday would compare Mondays with Mondays"
    )
    assert advice(lambda day, hour: 0.1 * (hour > 12), 8, [3, 15]) == (
        "the metric depends on the hour of the day; windows.season: hour would compare mornings with mornings"
    )
    assert advice(lambda day, hour: 0.1 * (day % 7) + 0.1 * (hour > 12), 28, [3, 15]) == (
        "the metric depends on the day of the week and the hour of the day; "
        "windows.season: hour_of_week would compare like with like"
    )
    assert "depends on the hour of the day;" in advice(lambda day, hour: 0.1 * (hour > 12), 28, [3, 15])
    assert "the day of the week;" in advice(lambda day, hour: 0.1 * (day % 7 == 1), 28, [0])
    assert advice(lambda day, hour: 0.5, 28, [3, 15]) == "None"
    assert season_advice(query_table([0.5, 0.6]), "UTC") is None
