"""Promises of intervals and verdicts on arms, in worlds that were not made to keep them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from ltr_harness.monitoring.arms import compare_arms
from ltr_harness.monitoring.calendar import cut
from ltr_harness.monitoring.config import MonitorConfig
from ltr_harness.monitoring.load import load_monitor_config
from ltr_harness.monitoring.result import ArmComparison

Floats = NDArray[np.float64]
DAY = 86_400 * 10**9
START = int(np.datetime64("2026-01-05", "ns").astype(np.int64))

SIZES: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "ten": lambda random, users: np.full(users, 10.0),
    "geometric": lambda random, users: random.geometric(0.1, users).astype(np.float64),
    "lognormal": lambda random, users: np.ceil(random.lognormal(1, 1.2, users)),
    "pareto": lambda random, users: np.minimum(np.ceil(random.pareto(1.5, users) + 1), 500),
}
"""Queries of a user: alike, or a few users with most of them."""


def click(random: np.random.Generator, user: NDArray[np.int64]) -> Floats:
    """Some users click always and some never: correlation 1/3."""
    return (random.random(user.size) < random.beta(0.6, 1.4, user[-1] + 1)[user]).astype(np.float64)


def purchases(random: np.random.Generator, user: NDArray[np.int64]) -> Floats:
    """One query in a hundred, by users who like to buy."""
    return (random.random(user.size) < random.beta(0.5, 49.5, user[-1] + 1)[user]).astype(np.float64)


def dwell_times(random: np.random.Generator, user: NDArray[np.int64]) -> Floats:
    """Lognormal within users who differ by as much; six in ten queries have none."""
    stayed = np.exp(0.7 * random.standard_normal(user[-1] + 1)[user] + random.standard_normal(user.size))
    return np.where(random.random(user.size) < 0.6, np.nan, stayed)


def revenue(random: np.random.Generator, user: NDArray[np.int64]) -> Floats:
    """Nothing in 19 of 20 queries, and lognormal in one."""
    return (random.random(user.size) < 0.05) * np.exp(1.2 * random.standard_normal(user.size))


MEASURES = {f.__name__: f for f in (click, purchases, dwell_times, revenue)}


def compared_arms(
    random: np.random.Generator, size: str, users: int, shares: dict[str, float]
) -> ArmComparison:
    """An experiment in which the arm changes nothing."""
    user = np.repeat(np.arange(users), SIZES[size](random, users).astype(np.int64))
    arm = random.choice(len(shares), users, p=list(shares.values()))[user]
    table = pd.DataFrame({"metric:ndcg@10": 0.5 + 0.1 * random.standard_normal(user.size)})
    table["cluster"] = pd.Categorical.from_codes(user, np.arange(users).astype(str))
    table["arm"] = pd.Categorical.from_codes(arm, list(shares))
    for name, values in MEASURES.items():
        table[f"online:{name}"] = values(random, user)
    config = arm_config(shares, cluster_id="user", online=list(MEASURES))
    found = compare_arms(table, cut(None, len(table), config), config.arms, config)
    assert found is not None
    return found


def arm_config(shares: dict[str, float], correct: str = "bonferroni", **columns: Any) -> MonitorConfig:
    return load_monitor_config(
        {
            "columns": {"rank": "rank", **columns},
            "metrics": ["ndcg@10"],
            "arms": {"column": "variant", "control": "A", "shares": shares},
            "compare": {"correct": correct},
        }
    )


RUNS = 300


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("users", "share"), [(200, 0.5), (2000, 0.5), (3000, 0.9), (10_000, 0.9)])
def test_the_intervals_of_an_experiment_cover(size: str, users: int, share: float) -> None:
    """All of an experiment's intervals at once in 95 % of experiments; and which have one: refusing is no way out."""
    random, covered, told = np.random.default_rng(users), [], set()
    for _ in range(RUNS if users < 10_000 else RUNS // 4):
        known = [d for d in compared_arms(random, size, users, {"A": share, "B": 1 - share}).differences
                 if not np.isnan(d.difference.p)]  # fmt: skip
        told |= {d.measure for d in known}
        covered.append(all(d.difference.low <= 0 <= d.difference.high for d in known))
    assert np.mean(covered) >= 0.935 - 3 * (0.05 * 0.95 / len(covered)) ** 0.5
    assert {"ndcg@10", "click"} <= told
    if share == 0.5 or (users == 10_000 and size != "pareto"):
        assert {"buy", "dwell"} <= told


WORLDS: dict[str, Callable[[np.random.Generator], tuple[Floats, Floats]]] = {
    "unlike spread, 60 v 60": lambda random: (
        np.exp(random.normal(-0.045, 0.3, 60)),
        np.exp(random.normal(-0.5, 1.0, 60)),
    ),
    "unlike spread, 100 v 100": lambda random: (
        np.exp(random.normal(-0.045, 0.3, 100)),
        np.exp(random.normal(-0.5, 1.0, 100)),
    ),
    "exponential, 100 v 20": lambda random: (random.exponential(size=100), random.exponential(size=20)),
    "one buyer in 100, 9,000 v 1,000": lambda random: (
        (random.random(9000) < 0.01).astype(np.float64),
        (random.random(1000) < 0.01).astype(np.float64),
    ),
}
"""Control and arm of equal means."""


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
def test_arms_of_unlike_spread(world: str) -> None:
    """1,000 experiments: at most 6.5 % false verdicts, and twice the noise; a line about rare kinds beside each.

    Version 0.2.0 told 8.7 and 9.8 % false ones where spreads are unlike, without a line.
    """
    random, wrong = np.random.default_rng(8), 0
    for _ in range(1000):
        control, other = WORLDS[world](random)
        config = arm_config({"A": control.size, "B": other.size}, online=["value"])
        table = pd.DataFrame({"online:value": np.concatenate((control, other)), "metric:ndcg@10": 0.5})
        table["arm"] = pd.Categorical.from_codes(np.repeat([0, 1], [control.size, other.size]), ["A", "B"])
        found = compare_arms(table, cut(None, len(table), config), config.arms, config)
        assert found is not None
        _, d = found.differences
        outside = d.difference.low > 0 or d.difference.high < 0
        assert (d.verdict in ("higher", "lower")) == outside
        if d.verdict not in ("not distinguishable", "too little to tell"):
            wrong += 1
            assert any("A kind of" in caution.text for caution in found.cautions)
    assert wrong / 1000 <= 0.08


@pytest.mark.slow
@pytest.mark.parametrize(("size", "users"), [("ten", 300), ("lognormal", 1500), ("pareto", 3000)])
def test_false_verdicts_are_at_most_alpha(size: str, users: int) -> None:
    """Five measures of two arms with a tenth each: ten tests, one family."""
    random = np.random.default_rng(users + 1)
    shares = {"A": 0.8, "B": 0.1, "C": 0.1}
    wrong = 0
    for _ in range(RUNS):
        found = compared_arms(random, size, users, shares)
        wrong += any(d.verdict in ("higher", "lower", "better", "worse") for d in found.differences)
    assert wrong <= RUNS * 0.05 + 3 * (RUNS * 0.05 * 0.95) ** 0.5


@pytest.mark.slow
def test_a_sequence_is_wrong_at_no_look() -> None:
    """Forty days of 60 queries, read after every day: in at most 5 % of experiments is any of the verdicts false."""
    equal = {"A": 1.0, "B": 1.0}
    sequence, fixed = (arm_config(equal, how, timestamp="ts") for how in ("sequence", "bonferroni"))
    random = np.random.default_rng(5)
    days = np.repeat(np.arange(40), 60)
    wrong = {"sequence": 0, "bonferroni": 0}
    for _ in range(RUNS // 2):
        table = pd.DataFrame(
            {"metric:ndcg@10": random.exponential(size=days.size), "time": START + days * DAY}
        )
        table["arm"] = pd.Categorical.from_codes(random.choice(2, days.size), ["A", "B"])
        for config in (sequence, fixed):
            verdicts = set()
            for day in range(1, 41):
                now = table.iloc[: 60 * day]
                found = compare_arms(now, cut(now["time"].to_numpy(), len(now), config), config.arms, config)
                assert found is not None
                verdicts |= {d.verdict for d in found.differences}
            wrong[config.compare.correct] += not verdicts <= {
                "not distinguishable",
                "too little to tell",
                "withheld",
            }
    assert wrong["sequence"] <= RUNS / 2 * 0.05 + 3 * (RUNS / 2 * 0.05 * 0.95) ** 0.5
    assert wrong["bonferroni"] > 3 * RUNS / 2 * 0.05  # what looking every day does without it
