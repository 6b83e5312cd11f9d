"""The bins of the section *Calibration*: by hand, and how often their intervals hold in a calibrated world."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta, norm, t

from ltr_harness.data.queries import QueryGroups
from ltr_harness.metrics.core.softmax import log_softmax
from ltr_harness.report.sections.calibration import Bin, make_bin


def test_by_hand() -> None:
    groups = QueryGroups.from_sizes([2, 2, 2])
    p, won = np.array([0.5, 0.5, 0.2, 0.8, 0.4, 0.6]), np.array([1.0, 0, 0, 1, 0, 1])
    inside = np.array([True, True, False, True, False, True])
    found = make_bin("m", p, won, inside, groups, 0.95)
    # sums of won - p: 0, 0.2, 0.4 over 2, 1, 1 rows; less 0.15 a row: -0.3, 0.05, 0.25
    variance = 3 / 2 * (0.3**2 + 0.05**2 + 0.25**2) / 4**2
    worth = min(4, 0.75 * 0.25 / variance) * (norm.ppf(0.025) / t.ppf(0.025, 2)) ** 2
    ends = beta.ppf([0.025, 0.975], 0.75 * worth + 0.5, 0.25 * worth + 0.5)
    assert found == Bin("m", 4, *map(pytest.approx, (0.6, 0.75, *ends)))  # type: ignore[arg-type]
    assert not found.is_miscalibrated
    alone = make_bin("m", p, won, inside & (np.arange(6) < 2), groups, 0.95)
    assert np.isnan(alone.low)
    assert not alone.is_miscalibrated


def test_intervals_hold_as_often_as_promised_where_probabilities_are_true() -> None:
    rng = np.random.default_rng(4)
    groups = QueryGroups.from_sizes(np.full(300, 8))
    held = []
    for _ in range(150):
        scores = rng.normal(size=2400)
        p = np.exp(log_softmax(scores, groups, 1.0))
        drawn = (scores + rng.gumbel(size=2400)).reshape(300, 8)
        won = (drawn == drawn.max(axis=1, keepdims=True)).ravel().astype(float)
        which = np.searchsorted(np.quantile(p, np.linspace(0, 1, 6)[1:-1]), p)
        held += [not make_bin("m", p, won, which == at, groups, 0.9).is_miscalibrated for at in range(5)]
        # and of half the odds the highest bin is found out
        if len(held) <= 50:
            flat = np.exp(log_softmax(scores, groups, 3.0))
            assert make_bin("m", flat, won, which == 4, groups, 0.9).is_miscalibrated
    assert np.mean(held) == pytest.approx(0.9, abs=0.03)


@pytest.mark.parametrize(("queries", "rows", "spread"), [(150, 9, 1.5), (60, 20, 2.5), (40, 5, 0.5)])
def test_intervals_hold_where_hardly_any_document_of_a_bin_wins(
    queries: int, rows: int, spread: float
) -> None:
    rng = np.random.default_rng(0)
    held = np.zeros(10)
    for _ in range(60):
        groups = QueryGroups.from_sizes(rng.integers(max(2, rows - 4), rows + 5, queries))
        scores = spread * rng.gamma(1, 1, groups.n_rows)
        p = np.exp(log_softmax(scores, groups, 1.0))
        drawn = scores + rng.gumbel(size=groups.n_rows)
        won = (drawn == np.repeat(groups.max(drawn), groups.sizes)).astype(float)
        which = np.searchsorted(np.quantile(p, np.linspace(0, 1, 11)[1:-1]), p, side="right")
        for at in range(10):
            one = make_bin("m", p, won, which == at, groups, 0.95)
            assert 0 <= one.low <= one.observed <= one.high <= 1
            held[at] += not one.is_miscalibrated
    assert held.min() >= 60 * 0.88
    assert held.mean() >= 60 * 0.93
