"""Slopes, effects of keys and lines that break, against what a reader can check."""

from __future__ import annotations

import numpy as np
import pytest

from ltr_harness.monitoring.stats.adjustment import KeyEffects, Regression, dummies, hinges


def test_the_regression_is_that_of_least_squares() -> None:
    random = np.random.default_rng(1)
    x = random.standard_normal((50, 3))
    y = x @ [0.1, -0.2, 0.0] + 0.5 + 0.1 * random.standard_normal(50)
    fit = Regression.of(y, x)
    expected, squares, *_ = np.linalg.lstsq(np.column_stack([np.ones(50), x]), y, rcond=None)
    assert fit.slopes == pytest.approx(expected[1:])
    assert (fit.residuals**2).mean() == pytest.approx(squares[0] / (50 - 4))
    assert fit.precision == pytest.approx(np.linalg.inv(np.cov(x.T, bias=True)))


def test_columns_that_say_the_same_share_the_slope() -> None:
    x = np.linspace(-1, 1, 20)[:, np.newaxis]
    fit = Regression.of(0.5 + 0.4 * x[:, 0], np.hstack([x, x, 0 * x]))
    assert fit.slopes == pytest.approx([0.2, 0.2, 0.0])
    assert fit.residuals == pytest.approx(np.zeros(20), abs=1e-12)


def test_without_covariates_nothing_is_explained() -> None:
    y = np.array([0.0, 1.0, 0.5])
    fit = Regression.of(y, np.empty((3, 0)))
    assert fit.residuals * np.sqrt(2 / 3) == pytest.approx(y - 0.5)


def test_effects_of_keys_are_shrunk_as_mixed_models_shrink_them() -> None:
    """Variances .04 between keys and .01 within: a mean of n values is believed n / (n + 1 / 4)."""
    random = np.random.default_rng(2)
    keys = random.integers(0, 3000, 20_000)
    truth = 0.2 * random.standard_normal(4000)
    values = 0.5 + truth[keys] + 0.1 * random.standard_normal(keys.size)
    fit = KeyEffects.of(values, keys, 4000)
    n = np.bincount(keys, minlength=4000)
    mean = np.bincount(keys, values - values.mean(), minlength=4000) / np.maximum(n, 1)
    assert fit.effects == pytest.approx(n / (n + 0.25) * mean, abs=0.02)
    assert (fit.effects[3000:] == 0).all()
    new = 0.5 + truth[keys] + 0.1 * random.standard_normal(keys.size)
    # a value is off from its prediction by its noise and by what n values, or the n - 1 others, leave unknown
    assert np.var(new - fit.effects[keys]) == pytest.approx(
        0.01 + 0.01 * np.mean(1 / (n[keys] + 0.25)), rel=0.03
    )
    assert np.var(values - fit.leave_one_out) == pytest.approx(
        0.01 + 0.01 * np.mean(1 / (n[keys] - 1 + 0.25)), rel=0.03
    )


def test_keys_that_do_not_differ_have_no_effects() -> None:
    values = np.tile([0.2, 0.8], 50)
    fit = KeyEffects.of(values, np.repeat(np.arange(50), 2), 50)
    assert not fit.effects.any()
    assert not fit.leave_one_out.any()


def test_a_new_cell_is_as_the_average() -> None:
    columns = dummies(np.array([0, 2, 1, -1]), np.array([0, 2]), np.array([0.25, 0.75]))
    assert columns.tolist() == [[0.75, -0.75], [-0.25, 0.25], [0.0, 0.0], [0.0, 0.0]]


def test_lines_break_at_quantiles_and_nowhere_beyond_the_range() -> None:
    reference = np.arange(101.0)
    columns = hinges(np.array([50.0, 100.0, 101.0, -1.0, np.nan, 1e9]), reference, 2)
    assert columns[0] == pytest.approx([0.0, 0.0 - np.maximum(reference - 50, 0).mean() / 100])
    assert columns[1] == pytest.approx([0.5, 0.5 - np.maximum(reference - 50, 0).mean() / 100])
    assert not columns[2:].any()
    assert hinges(reference, reference, 2).mean(axis=0) == pytest.approx([0, 0], abs=1e-12)


def test_a_single_degree_of_freedom_is_one() -> None:
    """Three values and one slope, which is 0: off by -1/3, 2/3, -1/3, widened by the root of 3 / 1."""
    fit = Regression.of(np.array([0.0, 1.0, 0.0]), np.array([[-1.0], [0.0], [1.0]]))
    assert fit.slopes == pytest.approx([0.0])
    assert fit.residuals == pytest.approx(np.array([-1, 2, -1]) / 3 * np.sqrt(3))


def test_one_key_alone_has_no_effect() -> None:
    fit = KeyEffects.of(np.array([0.0, 0.5, 0.25]), np.array([1, 1, 1]), 3)
    assert (fit.effects.tolist(), fit.leave_one_out.tolist(), fit.noise.tolist()) == (
        [0] * 3,
        [0] * 3,
        [0] * 3,
    )
