"""The bins of the section *Calibration*: by hand, and how often their intervals hold in a calibrated world."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import stdtrit

from ltr_harness.groups import QueryGroups
from ltr_harness.metrics.core.softmax import log_softmax
from ltr_harness.report.sections.calibration import Bin, binned


def test_by_hand() -> None:
    groups = QueryGroups.from_sizes([2, 2, 2])
    p, won = np.array([0.5, 0.5, 0.2, 0.8, 0.4, 0.6]), np.array([1.0, 0, 0, 1, 0, 1])
    inside = np.array([True, True, False, True, False, True])
    found = binned("m", p, won, inside, groups, 0.95)
    # sums of won - p: 0, 0.2, 0.4 over 2, 1, 1 rows; less 0.15 a row: -0.3, 0.05, 0.25
    error = np.sqrt(3 / 2 * (0.3**2 + 0.05**2 + 0.25**2)) / 4
    reach = stdtrit(2, 0.975) * error
    assert found == Bin("m", 4, *map(pytest.approx, (0.6, 0.75, 0.75 - reach, 0.75 + reach)))  # type: ignore[arg-type]
    assert not found.off
    alone = binned("m", p, won, inside & (np.arange(6) < 2), groups, 0.95)
    assert np.isnan(alone.low)
    assert not alone.off


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
        held += [not binned("m", p, won, which == at, groups, 0.9).off for at in range(5)]
        # and of half the odds the highest bin is found out
        if len(held) <= 50:
            flat = np.exp(log_softmax(scores, groups, 3.0))
            assert binned("m", flat, won, which == 4, groups, 0.9).off
    assert np.mean(held) == pytest.approx(0.9, abs=0.03)
