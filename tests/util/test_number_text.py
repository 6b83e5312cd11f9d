"""Intervals have one form in sentences, and numbers that round to zero have no sign of minus."""

from __future__ import annotations

import pytest

from ltr_harness._util.number_text import interval_text
from ltr_harness.comparison.contrasts import Difference


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (0.001, 0.011, "+0.0010 to +0.0110"),
        (-0.0025, 0.0078, "-0.0025 to +0.0078"),
        (-0.00001, 1.0, "+0.0000 to +1.0000"),
    ],
)
def test_intervals_of_differences(low: float, high: float, text: str) -> None:
    assert interval_text(low, high) == text


def test_intervals_of_means_have_no_signs() -> None:
    assert interval_text(0.8798, 0.9038, "") == "0.8798 to 0.9038"


def test_a_difference_prints_its_interval_as_sentences_do() -> None:
    difference = Difference(0.006, 0.001, 0.011, 0.02, 0.02, "better")
    assert repr(difference) == "+0.0060 (+0.0010 to +0.0110), p = 0.0200"
