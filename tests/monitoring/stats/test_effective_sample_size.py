"""The number of independent values that clustered ones are worth: by hand, at both ends, and by simulation."""

from __future__ import annotations

import numpy as np
import pytest

from ltr_harness.monitoring.stats.drift import distances, effective_sample_size


def test_both_ends() -> None:
    users = np.repeat(np.arange(50), 4)
    random = np.random.default_rng(0)
    assert effective_sample_size(random.integers(0, 5, 200), 5, None) == 200
    assert effective_sample_size(random.integers(0, 5, 50)[users], 5, users) == pytest.approx(
        50 * 49 / 50
    )  # n / (4 units / (units - 1))
    assert effective_sample_size(np.zeros(200, dtype=np.int64), 1, users) == 200  # nothing varies
    assert (
        effective_sample_size(random.integers(0, 5, 9), 5, np.zeros(9, dtype=np.int64)) == 1
    )  # one user says one thing
    assert effective_sample_size(random.integers(0, 5, 200), 5, np.arange(200)) == pytest.approx(
        200 * 199 / 200
    )


def test_by_hand_for_one_threshold() -> None:
    # users a (1, 1), b (1, 0), c (0, 0): share 1/2, off by +1, 0, -1
    effect = (1 + 0 + 1) * 3 / 2 / (6 * 0.25)
    assert effective_sample_size(
        np.array([0, 0, 0, 1, 1, 1]), 2, np.array([0, 0, 1, 1, 2, 2])
    ) == pytest.approx(6 / effect)


def test_many_categories_cost_no_memory() -> None:
    random = np.random.default_rng(1)
    codes = random.integers(0, 10_000, 300_000)
    assert effective_sample_size(codes, 10_000, np.arange(300_000) // 2) == pytest.approx(300_000, rel=0.03)


def test_gaps_in_the_clusters_codes_count_for_nothing() -> None:
    random = np.random.default_rng(2)
    codes, users = random.integers(0, 3, 60), np.repeat(np.arange(20), 3)
    assert effective_sample_size(codes, 3, users * 7 + 5) == pytest.approx(
        effective_sample_size(codes, 3, users)
    )


def test_a_share_of_independent_values_makes_p_larger() -> None:
    random = np.random.default_rng(3)
    one, other = random.standard_normal(400), random.standard_normal(400) + 0.1
    whole, half = distances(one, other), distances(one, other, (0.5, 0.5))
    assert whole[::2] == half[::2]
    assert half[1] > whole[1]


def by_definition(codes: np.ndarray, size: int, users: np.ndarray) -> float:
    """One threshold after the other, one user after the other."""
    n, many = codes.size, np.unique(users).size
    effects = []
    for threshold in range(1, size):
        below = codes < threshold
        share = below.mean()
        if 0 < share < 1:
            off = [(below[users == user] - share).sum() for user in np.unique(users)]
            effects.append(sum(x**2 for x in off) * many / (many - 1) / (n * share * (1 - share)))
    return n / max(1.0, float(np.mean(effects)))


@pytest.mark.parametrize("users", [2, 3, 25])
@pytest.mark.parametrize(("least", "size"), [(0, 2), (2, 5), (0, 12)])
def test_by_definition(least: int, size: int, users: int) -> None:
    random = np.random.default_rng(size)
    of_user = random.integers(0, users, 60)
    codes = np.clip(
        random.integers(least, size, users)[of_user] + random.integers(-1, 2, 60), least, size - 1
    )
    assert effective_sample_size(codes, size, of_user) == pytest.approx(by_definition(codes, size, of_user))


def test_no_values_are_worth_more_than_they_are_many() -> None:
    codes, users = (
        np.tile([0, 1], 10),
        np.repeat(np.arange(10), 2),
    )  # each user says one of each: no spread at all
    assert effective_sample_size(codes, 2, users) == 20
    nothing = np.array([], dtype=np.int64)
    assert effective_sample_size(nothing, 5, nothing) == 0
