"""Sizes of drift by hand, and from where on they are more than chance."""

from __future__ import annotations

from math import inf, log

import numpy as np
import pytest
from scipy import stats

from ltr_harness.monitoring.stats.drift import (
    bin_codes,
    bin_edges,
    distances,
    jensen_shannon,
    psi,
    psi_threshold,
)


def test_psi_by_hand() -> None:
    found = psi(np.array([30.0, 10.0]), np.array([10.0, 10.0]))  # shares 3/4, 1/4 against 1/2, 1/2
    assert found == pytest.approx(0.25 * log(1.5) - 0.25 * log(0.5))
    assert psi(np.array([10.0, 0.0]), np.array([5.0, 5.0])) == pytest.approx(
        0.5 * log(2) + (1e-4 - 0.5) * log(1e-4 / 0.5)  # an empty bin counts as a share of 1e-4
    )
    assert psi(np.zeros(2), np.zeros(2)) == 0.0


def test_jensen_shannon_by_hand() -> None:
    # shares 1, 0 and 1/2, 1/2; their middle is 3/4, 1/4
    by_hand = (log(4 / 3) + (log(2 / 3) + log(2)) / 2) / 2 / log(2)
    assert jensen_shannon(np.array([4.0, 0.0]), np.array([7.0, 7.0])) == pytest.approx(by_hand)
    assert jensen_shannon(np.zeros(2), np.zeros(2)) == 0.0


def test_a_value_on_an_edge_is_in_the_bin_above_it() -> None:
    assert bin_codes(np.array([0.9, 1.0, 1.1, 2.0]), np.array([1.0, 2.0])).tolist() == [0, 1, 1, 2]


def test_nothing_known_makes_one_bin_and_no_distance() -> None:
    unknown = np.full(3, np.nan)
    assert bin_edges(unknown, 4).tolist() == []
    assert bin_codes(np.array([-1.0, 1.0, np.nan]), bin_edges(unknown, 4)).tolist() == [0, 0, 1]
    for pair in ((unknown, np.ones(2)), (np.ones(2), unknown)):
        assert np.isnan(distances(*pair)).all()


def test_infinite_values_are_carried_infinitely_far_or_not_at_all() -> None:
    ends = np.array([-inf, -inf, inf, inf])
    assert distances(np.append(ends, [1.0, 2.0]), np.append(ends, [2.0, 4.0]))[2] == pytest.approx(
        (1 + 2) / 6
    )
    assert distances(np.array([1.0, 2.0, inf]), np.array([1.0, 2.0, 3.0]))[2] == inf
    assert distances(np.array([1.0, 2.0]), np.array([-inf, 2.0]))[2] == inf


def test_shares_of_independent_values_count_for_their_own_side() -> None:
    one, other = np.arange(100.0), np.arange(60.0) + 20
    largest, p, _ = distances(one, other, (0.5, 0.25))  # as of 50 values and 15
    assert largest == pytest.approx(0.2)
    assert p == pytest.approx(stats.kstwobign.sf(0.2 * np.sqrt(50 * 15 / (50 + 15))))


def test_the_threshold_of_psi_by_hand() -> None:
    at = 16.9190  # of chi-square with nine degrees of freedom, 5 % lie above
    assert psi_threshold(100, 100, 10, 0.05) == pytest.approx(at * (1 / 100 + 1 / 100), rel=1e-5)
    assert psi_threshold(50, 200, 10, 0.05) == pytest.approx(at * (1 / 50 + 1 / 200), rel=1e-5)
    assert psi_threshold(10_000, 10_000, 10, 0.05) == 0.1  # chance does less than what matters
    assert psi_threshold(10_000, 10_000, 10, 0.05, floor=0.2) == 0.2
    assert psi_threshold(1, 1, 2, 0.05) == pytest.approx(3.84146 * 2, rel=1e-5)
    for n, m, bins in ((0, 9, 10), (9, 0, 10), (9, 9, 1)):
        assert psi_threshold(n, m, bins, 0.05) == inf


def test_how_often_psi_exceeds_the_customary_threshold_by_chance() -> None:
    random = np.random.default_rng(0)
    one, other = random.multinomial(100, np.full(10, 0.1), (2, 2000)).astype(float)
    found = np.array([psi(a, b) for a, b in zip(one, other, strict=True)])
    assert stats.chi2.sf(0.1 / (1 / 100 + 1 / 100), 9) == pytest.approx(0.84, abs=0.01)
    assert np.mean(found > 0.1) == pytest.approx(0.84, abs=0.03)
    assert np.mean(found > psi_threshold(100, 100, 10, 0.05)) == pytest.approx(0.05, abs=0.03)
