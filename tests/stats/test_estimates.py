"""What Student's t says of an estimate, with one degree of freedom, where it is Cauchy's distribution."""

from __future__ import annotations

import pytest

from ltr_harness.stats.estimates import MeanEstimate, weighted_sum
from ltr_harness.stats.paired import SMALLEST_P


def test_p_by_hand() -> None:
    assert MeanEstimate(1, 1, 1, 0).p() == pytest.approx(0.5)
    assert MeanEstimate(-1, 1, 1, 0.5).p(adjusted=False) == pytest.approx(0.5)
    assert MeanEstimate(1, 1, 1, 0.5).p() != pytest.approx(0.5)
    assert [MeanEstimate(0, error, 1, 0).p() for error in (0, 1)] == [1.0, 1.0]
    assert MeanEstimate(0.1, 0, 1, 0).p() == SMALLEST_P  # of no error at all


def test_interval_by_hand() -> None:
    """Half of the distribution lies within one error."""
    for lean, adjusted in ((0.0, True), (0.5, False)):
        assert MeanEstimate(3, 0.25, 1, lean).interval(0.5, adjusted) == pytest.approx((2.75, 3.25))
    low, high = MeanEstimate(3, 0.25, 1, 0.5).interval(0.5)
    assert high - 3 > 3 - low


def test_parts_of_no_error_have_a_sum_of_none() -> None:
    parts = [MeanEstimate(0.25, 0, 3, 0.5), MeanEstimate(0.75, 0, 4, 0.5)]
    assert weighted_sum(parts, [0.5, 0.5]) == MeanEstimate(0.5, 0, 7, 0)


def test_skewness_of_a_sum_is_of_third_moments() -> None:
    """Of two alike the lean is 1 / sqrt(2) of one's; the other way round it is none."""
    one, mirrored = MeanEstimate(0.5, 0.1, 9, 0.2), MeanEstimate(0.5, 0.1, 9, -0.2)
    assert weighted_sum([one, one], [0.5, 0.5]).lean == pytest.approx(0.2 / 2**0.5)
    assert weighted_sum([one, mirrored], [0.5, 0.5]).lean == pytest.approx(0)
    assert weighted_sum([one, one], [1, -1]).lean == pytest.approx(0)
