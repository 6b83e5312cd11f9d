"""Small examples of internals, which a reader can check by hand."""

import numpy as np

from ltr_harness.monitoring.calendar import share_of_variance


def test_share_of_variance() -> None:
    """Two days that are .5 alike are worth one and a third."""
    assert share_of_variance(np.array([0.5, 0.5]), 0.5) == 0.75
