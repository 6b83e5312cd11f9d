"""Shares of queries by chance, by time, by user and by stratum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltr_harness.data.queries import QueryGroups
from ltr_harness.data.splits import divided, divided_by_time, folds
from ltr_harness.errors import DataError

SHARES = {"valid": 0.1, "test": 0.2}


def queries(n: int) -> QueryGroups:
    return QueryGroups.from_sizes([2] * n)


@pytest.mark.long
@given(st.integers(20, 200), st.integers(0, 5), st.integers(1, 7))
def test_every_query_is_in_one_part(n: int, seed: int, n_values: int) -> None:
    values = np.random.default_rng(n).integers(n_values, size=n)
    ways = [divided(queries(n), SHARES, seed), divided(queries(n), SHARES, seed, strata=values)]
    for parts in ways:
        assert sorted(np.concatenate(list(parts.values())).tolist()) == list(range(n))
        assert list(parts) == ["train", "valid", "test"]
        for name, share in SHARES.items():
            assert abs(len(parts[name]) - share * n) <= 1


def test_the_seed_decides_and_nothing_else() -> None:
    parts = divided(queries(12), SHARES, 7)
    assert {name: part.tolist() for name, part in parts.items()} == {
        name: part.tolist() for name, part in divided(queries(12), SHARES, 7).items()
    }
    assert parts["test"].tolist() != divided(queries(12), SHARES, 8)["test"].tolist()


@given(st.integers(0, 20))
def test_strata_get_their_share(seed: int) -> None:
    strata = np.repeat(["de", "en", "fr"], [100, 60, 40])
    parts = divided(queries(200), SHARES, seed, strata=strata)
    for language, n in (("de", 100), ("en", 60), ("fr", 40)):
        for name, share in SHARES.items():
            assert abs((strata[parts[name]] == language).sum() - share * n) <= 1


def test_many_tiny_strata() -> None:
    strata = np.arange(50)
    parts = divided(queries(50), SHARES, 1, strata=strata)
    assert {name: len(part) for name, part in parts.items()} == {"train": 35, "valid": 5, "test": 10}


@pytest.mark.long
@given(st.integers(0, 20), st.integers(8, 30))
def test_users_stay_together(seed: int, n_users: int) -> None:
    users = np.random.default_rng(seed).integers(n_users, size=300)
    parts = divided(queries(300), SHARES, seed, unit_values=users)
    seen = [set(users[part].tolist()) for part in parts.values()]
    assert sum(map(len, seen)) == len(set(users.tolist()))
    largest = np.bincount(users).max()
    for name, share in SHARES.items():
        assert abs(len(parts[name]) - share * 300) <= largest


def test_time_goes_forward_and_is_never_cut_in_two() -> None:
    times = np.array([5, 1, 2, 2, 2, 3, 4, 1, 5, 5])
    parts = divided_by_time(queries(10), {"valid": 0.2, "test": 0.3}, times)
    assert times[parts["train"]].max() < times[parts["valid"]].min()
    assert times[parts["valid"]].max() < times[parts["test"]].min()
    assert parts["test"].tolist() == [0, 8, 9]
    days = np.array([f"2026-01-{day:02}" for day in range(1, 11)])
    assert divided_by_time(queries(10), {"test": 0.2}, days)["test"].tolist() == [8, 9]


def test_what_cannot_be_divided() -> None:
    for shares in ({}, {"test": 1.0}, {"test": 0.5, "valid": 0.5}, {"test": -0.1}, {"train": 0.5}):
        with pytest.raises(DataError, match="expected shares above 0 that add up to less than 1"):
            divided(queries(10), shares, 1)
    with pytest.raises(DataError, match="valid would have no query out of 3"):
        divided(queries(3), SHARES, 1)
    with pytest.raises(DataError, match="test would have no query out of 10"):
        divided_by_time(queries(10), {"test": 0.2}, np.ones(10))
    with pytest.raises(DataError, match="query '1' has no time"):
        divided_by_time(queries(3), {"test": 0.2}, np.array(["a", "", "b"]))
    with pytest.raises(DataError, match="not both"):
        divided(queries(10), SHARES, 1, unit_values=np.ones(10), strata=np.ones(10))


@pytest.mark.long
@given(st.integers(0, 10), st.integers(5, 12))
def test_folds_with_users_and_strata(seed: int, n_values: int) -> None:
    values = np.random.default_rng(seed).integers(n_values, size=100)
    values[:n_values] = np.arange(n_values)
    by_user = folds(queries(100), 5, seed, unit_values=values)
    even = folds(queries(100), 5, seed, strata=values)
    for made in (by_user, even):
        assert sorted(np.concatenate([test for _, _, test in made]).tolist()) == list(range(100))
        for train, valid, test in made:
            assert len({*train.tolist(), *valid.tolist(), *test.tolist()}) == 100
    for train, valid, test in by_user:
        assert not set(values[test].tolist()) & set(values[np.concatenate([train, valid])].tolist())
    for _, _, test in even:
        assert len(test) == 20
        for value in range(n_values):
            assert abs((values[test] == value).sum() - (values == value).sum() / 5) < 1


def test_folds_that_cannot_be_made() -> None:
    with pytest.raises(DataError, match="5 folds of 2 values to keep together"):
        folds(queries(10), 5, 1, unit_values=np.repeat([1, 2], 5))
    with pytest.raises(DataError, match="not both"):
        folds(queries(10), 5, 1, unit_values=np.ones(10), strata=np.ones(10))
