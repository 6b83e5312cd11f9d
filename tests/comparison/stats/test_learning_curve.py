"""The forecast for twice the training queries holds as often as it says, in worlds whose curve is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

from ltr_harness.comparison.stats.learning_curve import learning_curve
from ltr_harness.data.arrays import Floats

SHARES = np.array([0.125, 0.25, 0.5, 1.0])


class World(NamedTuple):
    """The mean at each share of the training queries, and the number of test queries."""

    mean: Callable[[Floats], Floats]
    n_queries: int = 300

    @property
    def gain(self) -> float:
        once, twice = self.mean(np.array([1.0, 2.0]))
        return float(twice - once)

    def sample(self, rng: np.random.Generator, n_draws: int = 5) -> list[Floats]:
        """(n_draws, n_queries) of each share: queries differ in ease and in how much training helps them."""
        ease, factor = rng.normal(0, 0.22, self.n_queries), rng.gamma(1, 1, self.n_queries)
        samples = []
        for share, mean in zip(SHARES, self.mean(SHARES), strict=True):
            n = n_draws if share < 1 else 1
            own = rng.normal(0, 0.08, (n, self.n_queries)) * (0.5 + rng.random(self.n_queries))
            of_draw = rng.normal(0, np.hypot(0.006 * np.sqrt(1 / share - 1), 0.003), (n, 1))
            samples.append(0.6 + ease - (0.6 - mean) * factor + own + of_draw)
        return samples


WORLDS = {
    "power law": World(lambda share: 0.6 - 0.06 * share**-0.5),
    "saturating": World(lambda share: 0.55 - 0.1 * np.exp(-6 * share)),
    "noise only": World(lambda share: 0.5 + 0 * share),
    "drifting": World(lambda share: 0.6 - 0.01 * share**-0.8 - 0.04 * share**-0.15),
    "few queries": World(lambda share: 0.6 - 0.06 * share**-0.5, n_queries=40),
}
"""In the drifting world, the exponent falls from that of a small share to that of a large one."""


def coverage(world: World, n: int) -> tuple[float, float, float]:
    """Return how often the interval holds, the curve is shown to rise, and a gain is claimed."""
    rng = np.random.default_rng(1)
    curves = [learning_curve(SHARES.tolist(), world.sample(rng)) for _ in range(n)]
    holds = np.mean([curve.forecast.low <= world.gain <= curve.forecast.high for curve in curves])
    rises = np.mean([curve.rise.low > 0 for curve in curves])
    return float(holds), float(rises), float(np.mean([curve.forecast.low > 0 for curve in curves]))


@pytest.mark.slow
@pytest.mark.parametrize("name", WORLDS)
def test_the_forecast_holds_in_worlds_with_a_known_curve(name: str) -> None:
    holds, rises, claims = coverage(WORLDS[name], 2000)
    # with few queries, that exponents lie between 0 and 4 keeps the interval from missing as often as it may
    assert 0.90 <= holds <= (0.99 if name == "few queries" else 0.975)
    if name == "power law":
        assert rises >= 0.8  # so often there is an answer
    if name == "noise only":
        assert rises <= 0.05
        assert claims <= 0.05


def test_a_curve_without_noise_is_found_again() -> None:
    ease = np.linspace(-0.3, 0.3, 100)
    mean = 0.6 - 0.06 * SHARES**-0.5
    values = [
        np.stack([ease + value] * (3 if share < 1 else 1)) for share, value in zip(SHARES, mean, strict=True)
    ]
    curve = learning_curve(SHARES.tolist(), values)
    assert curve.means == pytest.approx(mean)
    gain = 0.06 - 0.06 * 2**-0.5
    assert (curve.forecast.estimate, curve.forecast.low, curve.forecast.high) == pytest.approx(
        [gain] * 3, abs=1e-4
    )
    assert curve.rise.estimate == pytest.approx(0.06 * 8**0.5 - 0.06)
    assert curve.fitted == pytest.approx([*mean, mean[-1] + gain], abs=1e-4)
    # a metric whose gain is a fall
    falls = learning_curve(SHARES.tolist(), [-share for share in values], higher_is_better=False)
    assert falls.forecast.estimate == pytest.approx(gain, abs=1e-4)
    assert falls.rise.estimate == pytest.approx(curve.rise.estimate)
    assert falls.fitted == pytest.approx(-curve.fitted)


def test_a_log_curve_gains_as_much_with_each_doubling_and_a_flat_one_nothing() -> None:
    ease = np.linspace(-0.3, 0.3, 100)
    log = learning_curve(SHARES.tolist(), [np.stack([ease + 0.02 * np.log2(share)] * 2) for share in SHARES])
    assert log.forecast.estimate == pytest.approx(0.02, abs=1e-6)
    flat = learning_curve(SHARES.tolist(), [np.stack([ease] * 2) for _ in SHARES])
    assert (flat.forecast.low, flat.forecast.high) == pytest.approx((0, 0), abs=1e-6)


def test_units_and_undefined_queries_count_as_in_every_comparison() -> None:
    rng = np.random.default_rng(3)
    values = WORLDS["power law"].sample(rng)
    twice = [np.repeat(share, 2, axis=1) for share in values]
    units = np.repeat(np.arange(300), 2)
    alone, repeated = (
        learning_curve(SHARES.tolist(), values),
        learning_curve(SHARES.tolist(), twice, units=units),
    )
    assert repeated.forecast.low == pytest.approx(alone.forecast.low, abs=1e-4)
    assert repeated.forecast.high == pytest.approx(alone.forecast.high, abs=1e-4)
    weights = np.concatenate([np.ones(300), np.zeros(20)])
    blank = [np.hstack([share, np.full((len(share), 20), 0.9)]) for share in values]
    weighted = learning_curve(SHARES.tolist(), blank, weights=weights)
    assert weighted.means == pytest.approx(alone.means)
    undefined = [np.hstack([share, np.full((len(share), 20), np.nan)]) for share in values]
    assert learning_curve(SHARES.tolist(), undefined).forecast.high == pytest.approx(
        alone.forecast.high, abs=1e-9
    )


def test_three_shares_are_a_curve_without_a_forecast() -> None:
    values = WORLDS["power law"].sample(np.random.default_rng(4))
    curve = learning_curve(SHARES[1:].tolist(), values[1:])
    assert np.isnan([curve.forecast.estimate, curve.forecast.low, curve.forecast.high]).all()
    assert np.isfinite(curve.low).all()


def test_shares_above_a_half_have_a_forecast_too() -> None:
    shares = np.array([0.6, 0.7, 0.8, 1.0])
    ease, means = np.linspace(-0.3, 0.3, 100), 0.6 - 0.06 * shares**-0.5
    values = [
        np.stack([ease + mean] * (3 if share < 1 else 1)) for share, mean in zip(shares, means, strict=True)
    ]
    curve = learning_curve(shares.tolist(), values)
    assert curve.forecast.estimate == pytest.approx(0.06 - 0.06 * 2**-0.5, abs=1e-4)
    rng = np.random.default_rng(5)
    noisy = [rng.normal(0.5, 0.1, (3 if share < 1 else 1, 100)) for share in shares]
    forecast = learning_curve(shares.tolist(), noisy).forecast
    assert forecast.low <= 0 <= forecast.high


def test_one_query_has_means_and_no_intervals() -> None:
    curve = learning_curve(SHARES.tolist(), [np.full((3 if share < 1 else 1, 1), share) for share in SHARES])
    assert curve.means.tolist() == SHARES.tolist()
    assert np.isnan([*curve.low, *curve.high, curve.rise.low, curve.forecast.estimate, *curve.fitted]).all()
