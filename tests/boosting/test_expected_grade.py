"""Probabilities of grades as one score for each row."""

from __future__ import annotations

import numpy as np
import pytest

from ltr_harness.boosting.watching import one_per_row
from ltr_harness.errors import MetricError
from ltr_harness.metrics.core.expected_grade import expected_grade


def test_the_sum_of_grade_times_probability() -> None:
    probabilities = np.array([[0.5, 0.25, 0.25], [0.0, 0.0, 1.0]])
    assert one_per_row(probabilities).tolist() == [0.75, 2.0]
    assert expected_grade(probabilities, [0, 1, 4]).tolist() == [1.25, 4.0]
    margins = np.array([0.5, -3.0])
    assert one_per_row(margins) is margins
    assert expected_grade([[0.5, 0.4995]]).tolist() == [0.4995]  # float32 sums are no closer


def test_what_does_not_sum_to_one_is_no_probability() -> None:
    with pytest.raises(
        MetricError, match=r"a row has 2 predictions that sum to 0\.75; expected one score per row"
    ):
        one_per_row(np.array([[0.5, 0.5], [0.5, 0.25], [0.5, 0.4]]))
