"""Slices as other tools look for them, each defect with a test that ours has none of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ltr_harness.monitoring.result import MonitorResult

pytestmark = pytest.mark.long

Table = Callable[..., pd.DataFrame]
Analyse = Callable[..., MonitorResult]


def quality(random: np.random.Generator, n: int, mean: float = 0.75, spread: float = 0.15) -> Any:
    return np.clip(mean + spread * random.standard_normal(n), 0, 1)


# ---- Giskard: a rank that is off by one, and a crash where nothing is significant -------------------------


@pytest.mark.parametrize("runs", [10, pytest.param(100, marks=pytest.mark.slow)])
def test_twenty_slices_of_nothing_are_reported_as_nothing(
    runs: int, query_table: Table, analyse: Analyse
) -> None:
    random = np.random.default_rng(11)
    reported = 0
    for _ in range(runs):
        sides = [
            query_table(
                quality(random, 3000), segments={"c": random.integers(0, 20, 3000).astype(str)}, prefix=p
            )
            for p in "nb"
        ]
        found = analyse(*sides)
        assert found.n_slice_candidates == 20
        reported += bool(found.slices)
    assert reported <= 0.1 * runs  # not 38 of 100


# ---- SliceFinder: the wrong tail, an order of threads, a standard deviation for a variance -----------------


def test_slices_look_at_the_tail_of_a_drop(query_table: Table, analyse: Analyse) -> None:
    random = np.random.default_rng(2)
    where = {"c": random.choice(list("AB"), 4000)}
    values = quality(random, 4000, 0.7, 0.1)
    better = np.where(where["c"] == "A", np.minimum(values + 0.1, 1), values)
    found = analyse(query_table(better, segments=where), query_table(values, segments=where, prefix="b"))
    assert found.slices == ()  # neither the one that improved nor the one that did not change
    assert found.healthy
    alone = analyse(query_table(better, segments=where), None)
    assert [s.predicate for s in alone.slices] == ["c=B"]  # without a baseline the better half is never named


def test_slices_do_not_depend_on_the_order_of_anything(query_table: Table, analyse: Analyse) -> None:
    random = np.random.default_rng(12)
    where = [{name: random.choice(list("xyz"), 4000) for name in "abcd"} for _ in range(2)]
    values = [quality(random, 4000) for _ in range(2)]
    values[0] = (
        values[0] - 0.1 * (where[0]["b"] == "y") - 0.12 * ((where[0]["a"] == "x") & (where[0]["d"] == "z"))
    )
    seen = set()
    for order in ("abcd", "dcba", "bdac"):
        rows = random.permutation(4000)
        now, before = (
            query_table(v[rows], segments={name: w[name][rows] for name in order}, ids=rows.astype(str))
            for v, w in zip(values, where, strict=True)
        )
        found = analyse(now, before, columns={"rank": "rank", "segments": list(order)})
        seen.add(
            tuple(
                (frozenset(s.predicate.split(" & ")), round(s.excess.value, 12), round(s.p_corrected, 12))
                for s in found.slices
            )
        )
    assert len(seen) == 1
    assert {part for predicate, *_ in seen.pop() for part in predicate} == {"b=y", "a=x", "d=z"}


def test_the_error_of_an_excess_is_that_of_four_means(query_table: Table, analyse: Analyse) -> None:
    random = np.random.default_rng(13)
    inside = [random.random(1500) < 0.3 for _ in range(2)]
    values = [
        np.where(inside[0], quality(random, 1500, 0.5, 0.2), quality(random, 1500)),
        quality(random, 1500),
    ]
    now, before = (
        query_table(v, segments={"c": np.where(i, "in", "out")}, prefix=p)
        for v, i, p in zip(values, inside, "nb", strict=True)
    )
    found = analyse(now, before).slices[0]
    assert found.predicate == "c=in"
    parts = [v[i == side] for v, i in zip(values, inside, strict=True) for side in (True, False)]
    mean = [part.mean() for part in parts]
    assert found.excess.value == pytest.approx((mean[0] - mean[1]) - (mean[2] - mean[3]), abs=1e-12)
    assert found.excess.error == pytest.approx(
        sum(part.var(ddof=1) / part.size for part in parts) ** 0.5, rel=1e-9
    )


# ---- SliceLine: a score without control of its errors ------------------------------------------------------


@pytest.mark.parametrize(("runs", "tried"), [(10, 7), pytest.param(100, 20, marks=pytest.mark.slow)])
def test_a_small_slice_is_found_without_crying_wolf(
    runs: int, tried: int, query_table: Table, analyse: Analyse
) -> None:
    """-.08 on a tenth of the traffic, n = 2000: found in nearly every run, and in null runs rarely anything."""
    random = np.random.default_rng(3)
    hits = wolf = 0
    for run in range(runs):
        where = [
            {
                "c": np.where(random.random(2000) < 0.1, "Z", random.choice(list("ABCDE"), 2000)),
                "d": random.choice(list("xy"), 2000),
            }
            for _ in range(2)
        ]
        values = [quality(random, 2000) for _ in range(2)]
        before = query_table(values[1], segments=where[1], prefix="b")
        wolf += bool(analyse(query_table(values[0], segments=where[0]), before).slices)
        if run < tried:
            dropped = values[0] - 0.08 * (where[0]["c"] == "Z")
            found = analyse(query_table(dropped, segments=where[0]), before).slices
            hits += [s.predicate for s in found] == ["c=Z"]
    assert hits >= 0.85 * tried
    assert wolf <= 0.1 * runs  # not 60 of 100
