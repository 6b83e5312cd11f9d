"""Days that differ: what is estimated, by hand and by simulation, and what a test with it promises."""

from __future__ import annotations

import numpy as np
import pytest

from ltr_harness.comparison.stats.cluster_sums import Floats, UnitCodes
from ltr_harness.comparison.stats.two_samples import Estimate, Sample, difference
from ltr_harness.monitoring.stats.several_samples import (
    WindowVariance,
    between_window_variance,
    variance_of_neighbours,
    widen,
)


def days(random: np.random.Generator, n_days: int, n: int, shock: float) -> tuple[Floats, UnitCodes]:
    day = np.repeat(np.arange(n_days), n)
    return 0.8 + shock * random.standard_normal(n_days)[day] + 0.15 * random.standard_normal(day.size), day


def test_by_hand() -> None:
    """Days of 2, 2 and 4 queries around their mean .5: r = -.2, 0, .1; N = 8."""
    values = np.array([0.2, 0.4, 0.4, 0.6, 0.5, 0.7, 0.5, 0.7])
    day = np.array([0, 0, 1, 1, 2, 2, 2, 2])
    found = between_window_variance(Sample(values), day)
    assert found is not None
    r, n = np.array([-0.2, 0.0, 0.1]), np.array([2, 2, 4])
    sampling = np.array([0.02 / 2, 0.02 / 2, 0.04 / 3 / 4])  # of each day's mean
    scale = (n * (1 - 2 * n / 8 + (n**2).sum() / 64)).sum()
    assert found.mean_square == pytest.approx((n * r**2).sum() / scale)
    assert found.variance == pytest.approx(((n * r**2).sum() - (n * sampling * (1 - n / 8)).sum()) / scale)
    assert (found.df, found.n) == (pytest.approx(2.0), 3)


@pytest.mark.long
@pytest.mark.parametrize("shock", [0.0, 0.01, 0.03])
@pytest.mark.parametrize("estimate", [between_window_variance, variance_of_neighbours])
def test_the_variance_is_found_on_average(estimate: object, shock: float) -> None:
    random = np.random.default_rng(1)
    found = [
        estimate(Sample(values), day) for values, day in (days(random, 20, 200, shock) for _ in range(300))
    ]  # type: ignore[operator]
    sampling = 0.15**2 / 200
    raw = np.mean([f.mean_square for f in found]) - sampling
    assert raw == pytest.approx(shock**2, abs=0.06 * (shock**2 + sampling))
    assert min(f.variance for f in found) >= 0


def test_a_season_is_no_variance_of_days() -> None:
    random = np.random.default_rng(2)
    values, day = days(random, 28, 200, 0.0)
    values = values - 0.1 * (day % 7 >= 5)
    plain = between_window_variance(Sample(values), day)
    seasonal = between_window_variance(Sample(values, strata=day % 7), day)
    assert plain is not None
    assert seasonal is not None
    assert plain.variance == pytest.approx(0.1**2 * 2 / 7 * 5 / 7 * 28 / 27, rel=0.1)
    assert seasonal.variance < 1e-4
    assert (plain.df, seasonal.df) == (pytest.approx(27), pytest.approx(21))


def test_users_who_come_every_day_are_no_variance_of_days() -> None:
    random = np.random.default_rng(3)
    found = []
    for _ in range(50):
        day = np.repeat(np.arange(10), 200)
        user = random.integers(0, 100, day.size)
        values = 0.8 + 0.1 * random.standard_normal(100)[user] + 0.05 * random.standard_normal(day.size)
        variance = between_window_variance(Sample(values, user), day)
        assert variance is not None
        found.append(variance.variance)
    assert np.mean(found) < 0.02**2 / 2


def test_a_lasting_change_moves_one_neighbour() -> None:
    random = np.random.default_rng(4)
    values, day = days(random, 60, 300, 0.0)
    dropped = values - 0.04 * (day >= 30)
    quiet, changed = (variance_of_neighbours(Sample(v), day) for v in (values, dropped))
    around = between_window_variance(Sample(dropped), day)
    assert quiet is not None
    assert changed is not None
    assert around is not None
    assert changed.mean_square - quiet.mean_square == pytest.approx(0.04**2 / 2 / 59, rel=0.7)
    assert around.variance == pytest.approx(0.02**2, rel=0.35)


def test_too_few_windows_say_nothing() -> None:
    values, day = days(np.random.default_rng(5), 2, 50, 0.01)
    assert between_window_variance(Sample(values), day) is None
    assert between_window_variance(Sample(values[:50]), day[:50]) is None
    week, weekdays = days(np.random.default_rng(6), 7, 50, 0.01)
    assert between_window_variance(Sample(week, strata=weekdays), weekdays) is None  # each weekday once
    assert variance_of_neighbours(Sample(values), day) is None


def test_widened_by_hand() -> None:
    plain = Estimate(-0.03, -0.05, -0.01, 0.01, 0.01, 100, 98.0)
    between = WindowVariance(0.0003, 0.00035, 6.0, 7)
    wide = widen(plain, between, 1 + 1 / 7, "drop")
    variance = 0.0001 + 8 / 7 * 0.0003
    assert wide.error == pytest.approx(np.sqrt(variance))
    assert wide.df == pytest.approx(variance**2 / ((8 / 7 * 0.00035) ** 2 / 6 + 0.0001**2 / 98))
    assert wide.p > plain.p
    assert (wide.low + wide.high) / 2 == pytest.approx(-0.03)
    assert widen(plain, between, 0.0) == plain
    quiet = widen(plain, WindowVariance(0.0, 0.0004, 6.0, 7), 8 / 7, "drop")
    assert (quiet.error, quiet.df) == (pytest.approx(np.sqrt(8 / 7 * 0.0004)), pytest.approx(6, abs=0.1))


@pytest.mark.long
@pytest.mark.parametrize("runs", [60, pytest.param(2000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("n_days", [5, 14, 28])
@pytest.mark.parametrize("shock", [0.0, 0.01, 0.05])
def test_a_new_day_is_called_a_change_as_often_as_promised(runs: int, n_days: int, shock: float) -> None:
    """At most 5 % whatever the shocks are; without them in the test, up to nearly always."""
    random = np.random.default_rng([7, n_days])
    called = naive = 0
    for _ in range(runs):
        before, day = days(random, n_days, 200, shock)
        now, _ = days(random, 1, 200, shock)
        plain = difference(Sample(now), Sample(before), alternative="change")
        between = between_window_variance(Sample(before), day)
        assert between is not None
        called += widen(plain, between, 1 + 1 / n_days).p <= 0.05
        naive += plain.p <= 0.05
    assert called <= 0.06 * runs + 2 * np.sqrt(0.05 * 0.95 * runs)
    if shock == 0.05:
        assert naive >= 0.4 * runs
