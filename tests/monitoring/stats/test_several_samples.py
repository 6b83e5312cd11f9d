"""Shares of several groups against Pearson's chi-squared."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ltr_harness.monitoring.stats.several_samples import same_shares_p, sample_ratio_p


def test_the_sample_ratio_is_pearsons() -> None:
    counts, shares = np.array([480, 310, 210]), np.array([0.5, 0.3, 0.2])
    assert sample_ratio_p(counts, shares) == pytest.approx(stats.chisquare(counts, 1000 * shares).pvalue)
    assert sample_ratio_p(np.array([9, 1]), np.array([0.9, 0.1])) == 1.0
    assert np.isnan(sample_ratio_p(np.array([0, 0]), np.array([0.5, 0.5])))


def test_the_same_shares_at_all_places() -> None:
    table = np.array([[40, 60], [50, 50], [70, 30]])
    places, groups = (np.repeat(codes.reshape(-1), table.reshape(-1)) for codes in np.indices(table.shape))
    p = stats.chi2_contingency(table, correction=False).pvalue
    assert same_shares_p(groups, places) == pytest.approx(p)
    with_a_small_place = np.append(groups, [0, 1, 1]), np.append(places, [3, 3, 3])
    assert same_shares_p(*with_a_small_place) == pytest.approx(p)
    assert np.isnan(same_shares_p(groups, np.zeros_like(groups)))
    assert np.isnan(same_shares_p(groups[:0], places[:0]))
