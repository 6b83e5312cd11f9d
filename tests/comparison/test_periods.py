"""Periods as units: neighbours that are alike are joined, and what that leaves open is said."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from scipy.signal import lfilter

from ltr_harness.comparison import Comparison, compare
from ltr_harness.comparison.over_time import are_neighbours_alike, autocorrelation, blocks, how_many
from ltr_harness.comparison.slices import slice_results
from ltr_harness.comparison.stats.cluster_sums import ClusterSums
from ltr_harness.errors import UsageError


def of_days(span: int, correlation: float, unit: str, seed: int = 3, models: int = 1) -> Comparison:
    """Five queries a day; what the new models change depends on the day, and on the day before."""
    rng = np.random.default_rng(seed)
    day = np.repeat(np.arange(span), 5)
    dates = pd.date_range("2023-11-20", periods=span).strftime("%Y-%m-%d").to_numpy()[day]
    facts = {
        "query_id": [f"q{at:04}" for at in range(day.size)],
        "day": dates,
        "lang": np.resize(["de", "en"], day.size),
    }
    old = rng.uniform(0.3, 0.7, day.size)
    tables = {"old": pd.DataFrame({**facts, "mrr": old})}
    for model in range(models):
        effect = np.zeros(span)
        for at in range(1, span):
            effect[at] = correlation * effect[at - 1] + (1 - correlation**2) ** 0.5 * rng.normal()
        change = 0.05 * effect[day] + 0.02 * rng.normal(size=day.size)
        tables[f"new{model}"] = pd.DataFrame({**facts, "mrr": old + change})
        correlation = 0.0  # of the further ones
    return compare(tables, unit=unit)


def test_neighbouring_weeks_that_are_alike_are_joined_and_the_note_says_so() -> None:
    found = of_days(280, 0.9, "week")
    d = found.query_differences("new0")[:, None]
    weeks = np.arange(1400) // 35
    r = autocorrelation(ClusterSums.of(d, weeks))
    assert found.method.unit == "4 weeks"
    assert np.array_equal(found.units, weeks // 4)
    assert any(
        note.startswith(
            f"neighbouring weeks have an autocorrelation of {r:.2f}, so tests and intervals go by 4 weeks: "
            "10 of 140 queries"
        )
        for note in map(str, found.cautions)
    )
    assert (
        "4 weeks: with only 10 units, intervals and p-values are approximate; evaluate queries of more units"
        in [*map(str, found.cautions)]
    )
    assert not any(
        "day" in note for note in map(str, found.cautions)
    )  # the column is no metric, and not ignored
    assert "sign-flip test by 4 weeks p" in found.verdict
    pair, plain = found.paired("new0"), of_days(280, 0.9, "1 week").paired("new0")
    assert pair.ci_high - pair.ci_low > 1.3 * (plain.ci_high - plain.ci_low)
    assert pair.p_t == pytest.approx(float(ClusterSums.of(d, weeks // 4).t_p[0]))


def test_weeks_that_are_not_alike_stay_as_they_are() -> None:
    found = of_days(700, 0.0, "week", seed=3)
    assert found.method.unit == "week"
    assert np.unique(found.units).size == 100
    assert not any("autocorrelation" in note or "alike" in note for note in map(str, found.cautions))


def test_the_model_whose_neighbours_are_most_alike_decides_for_all() -> None:
    days = np.arange(40)
    like, unlike = np.where(days // 8 % 2, 1.0, -1.0), np.sin(3 * days)
    assert how_many(unlike[:, None], days) == 1
    assert how_many(np.stack([unlike, like], axis=1), days) == how_many(like[:, None], days) == 8
    assert of_days(280, 0.9, "week", models=3).method.unit == "4 weeks"
    assert of_days(280, 0.0, "week", seed=5, models=3).method.unit == "week"


@pytest.mark.parametrize(
    ("span", "correlation", "unit", "note"),
    [
        (
            280,
            0.9,
            "week",
            "week: 40 are too few to show how much neighbouring weeks are alike, so intervals may",
        ),
        (100, 0.8, "day", "32 days: neighbours still have an autocorrelation of 0."),
        (100, 0.8, "2 days", "2 days: neighbours still have an autocorrelation of 0."),
    ],
)
def test_what_joining_leaves_open_is_said(span: int, correlation: float, unit: str, note: str) -> None:
    found = of_days(span, correlation, unit)
    (said,) = [one for one in map(str, found.cautions) if one.startswith(note)]
    assert "a longer test span" in said


def test_a_few_periods_that_are_alike_are_joined_until_they_can_make_no_verdict() -> None:
    found = of_days(19 * 7, 0.95, "week")
    assert found.method.unit == "4 weeks"
    assert np.unique(found.units).size == 4
    notes = [*map(str, found.cautions)]
    assert any("4 weeks: with only 4 units" in note for note in notes)
    assert any("no difference can be significant" in note for note in notes)


def test_a_number_of_periods_may_be_named() -> None:
    assert np.unique(of_days(280, 0.9, "5 weeks").units).size == 8
    with pytest.raises(UsageError, match="no query has an attribute '2 fortnights'"):
        of_days(280, 0.9, "2 fortnights")


@pytest.mark.parametrize("unit", ["week", "day"])
def test_slices_and_letters_go_by_the_joined_units_and_days_are_no_slices(unit: str) -> None:
    found = of_days(280 if unit == "week" else 100, 0.9, unit)
    assert found.method.unit not in (None, unit)
    parts = slice_results(found)
    assert {one.attribute for one in parts} == {"lang"}
    d = np.where(np.arange(found.n_queries) % 2, np.nan, found.query_differences("new0"))[:, None]
    (part,) = [one for one in parts if one.label == "de"]
    assert part.difference == pytest.approx(float(ClusterSums.of(d, found.units).mean[0]))
    assert found.n_independent_units(found.paired("new0")) == np.unique(found.units).size


def test_the_autocorrelation_by_hand() -> None:
    values = np.array([1.0, 2.0, 4.0, 1.0])
    off = values - 2
    r = (off[1:] * off[:-1]).sum() / (off**2).sum() + 1 / 4
    assert autocorrelation(ClusterSums.of(values[:, None])) == pytest.approx(r)
    two = np.stack([values, values[[0, 2, 1, 3]]], axis=1)
    assert autocorrelation(ClusterSums.of(two)) == max(
        autocorrelation(ClusterSums.of(column[:, None])) for column in two.T
    )
    assert not are_neighbours_alike(ClusterSums.of(np.full((30, 1), 0.5)))
    assert autocorrelation(ClusterSums.of(np.full((30, 1), 0.5))) == -1


def test_blocks_are_whole_and_the_last_takes_what_is_left() -> None:
    periods = np.repeat(np.arange(11), 2)
    assert np.bincount(blocks(periods, 4)).tolist() == [8, 14]
    assert blocks(periods, 50).max() == 0
    assert how_many(np.zeros((22, 1)), periods) == 1


def test_periods_are_joined_from_half_a_standard_error_on_until_nothing_correlates() -> None:
    """Pairs of days with one sign, of G: r = (G / 2 - (G / 2 - 1)) / G + 1 / G = 2 / G, beside half of 1 / sqrt(G)."""

    def pairs(days: int) -> int:
        return how_many(np.resize([1.0, 1.0, -1.0, -1.0], days)[:, None], np.arange(days))

    assert pairs(12) == 2  # 2 / 12 > .5 / 12**.5; of the pairs, r = -5 / 6 + 1 / 6
    assert pairs(16) == 1  # 2 / 16 = .5 / 4

    def rising(days: int) -> int:
        return how_many(np.arange(days, dtype=float)[:, None], np.arange(days))

    assert rising(48) == 16  # 24, 12, 6 units rise, too; 3 cannot make a verdict
    assert rising(20) == 4  # as 5 cannot


def of_one_world(rng: np.random.Generator, span: int, correlation: float, drift: np.ndarray) -> Comparison:
    """30 to 50 queries a day; the new model changes nothing on average: sd .03 over days, .15 over queries of a day."""
    effect = (
        lfilter(
            [1.0],
            [1.0, -correlation],
            rng.normal(0, 0.03 * (1 - correlation**2) ** 0.5, 50 + span),
        )[50:]
        + drift
    )
    day = np.repeat(np.arange(span), rng.integers(30, 51, span))
    old = rng.uniform(0.3, 0.7, day.size)
    dates = pd.date_range("2023-11-20", periods=span).strftime("%Y-%m-%d").to_numpy()[day]
    facts = {"query_id": np.arange(day.size), "day": dates}
    new = old + effect[day] + rng.normal(0, 0.15, day.size)
    tables = {"old": pd.DataFrame({**facts, "mrr": old}), "new": pd.DataFrame({**facts, "mrr": new})}
    return compare(tables, unit="day", test="permutation", draws=1000)


def trend(span: int) -> np.ndarray:
    return np.linspace(-0.06, 0.06, span)


def weekdays(span: int) -> np.ndarray:
    weekend = np.arange(span) % 7 > 4
    return 0.07 * (weekend.mean() - weekend)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("correlation", "drift"),
    [
        pytest.param(0.8, np.zeros, id="alike by .8"),
        pytest.param(0.5, np.zeros, id="alike by .5"),
        pytest.param(0.0, np.zeros, id="independent"),
        pytest.param(0.0, trend, id="trend"),
        pytest.param(0.0, weekdays, id="weekdays"),
    ],
)
def test_fifty_to_eighty_days_make_few_false_verdicts(
    correlation: float, drift: Callable[[int], np.ndarray]
) -> None:
    """At most 7 %: joined to ten units or more, days alike by .8 made 14 to 24 %."""
    rng = np.random.default_rng(5)
    false = []
    for span in (50, 60, 80):
        for _ in range(200):
            pair = of_one_world(rng, span, correlation, drift(span)).paired("new")
            false.append(pair.verdict in ("better", "worse"))
    assert np.mean(false) <= 0.07
