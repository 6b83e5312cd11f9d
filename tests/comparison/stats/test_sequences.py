"""Tests that may be repeated for ever: what they promise, over as many looks as anybody takes."""

from __future__ import annotations

import numpy as np
import pytest

from ltr_harness.comparison.stats.two_samples import Alternative, always_valid_p, always_valid_reach


@pytest.mark.long
@pytest.mark.parametrize(
    ("series", "looks"), [(400, 1000), pytest.param(4000, 10_000, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("alternative", ["drop", "change"])
def test_healthy_series_are_hardly_ever_called_wrong(series: int, looks: int, alternative: str) -> None:
    """With a single test at every look it is many of them. Values are skewed, and their variance estimated."""
    random = np.random.default_rng(1)
    total, squares, n = np.zeros(series), np.zeros(series), 0
    ever, naive, outside = (np.zeros(series, dtype=bool) for _ in range(3))
    for look in range(1, looks + 1):
        batch = 1 - random.exponential(size=(series, 100 if look == 1 else 5))
        total, squares, n = total + batch.sum(axis=1), squares + (batch**2).sum(axis=1), n + batch.shape[1]
        error = np.sqrt((squares / n - (total / n) ** 2) / n)
        z = total / n / error
        information = np.full(series, float(n))
        ever |= always_valid_p(z, information, 3000, alternative=alternative) <= 0.05  # type: ignore[arg-type]
        outside |= np.abs(z) > always_valid_reach(information, 3000)
        naive |= np.abs(z) > 1.96
    margin = 2.4 * np.sqrt(0.05 * 0.95 / series)
    assert ever.mean() <= 0.05 + margin
    assert outside.mean() <= 0.05 + margin
    assert naive.mean() >= 0.3


def test_interval_and_p_agree() -> None:
    information = np.array([1.0, 10.0, 30.0, 500.0])
    reach = always_valid_reach(information, 30, 0.05)
    assert always_valid_p(-reach, information, 30, 0.05, "change") == pytest.approx(0.05)
    assert always_valid_p(reach, information, 30, 0.05, "drop") == pytest.approx(1.0)


def test_it_is_tightest_where_it_is_asked_to_be() -> None:
    """As the width of the interval of a mean whose error falls with the root of the information."""
    information = np.arange(1.0, 400.0)
    for tightest in (20.0, 100.0):
        others = [always_valid_reach(np.array([tightest]), other)[0] for other in information]
        assert information[int(np.argmin(others))] == pytest.approx(tightest, abs=1)


@pytest.mark.parametrize("alternative", ["drop", "rise", "change"])
def test_next_to_no_difference_has_a_p_of_one(alternative: Alternative) -> None:
    """The boundary's formula goes on growing with the information: half of sqrt(1 + r) is 12 here."""
    z = np.array([-0.01, 0.0, 0.01])
    assert always_valid_p(z, np.full(3, 3000.0), 30, 0.05, alternative).tolist() == [1.0] * 3
