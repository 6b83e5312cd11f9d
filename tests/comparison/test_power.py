"""Plans by hand: whose spread is planned with, what is said of each need, and the points of the curve."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from ltr_harness.comparison import compare
from ltr_harness.comparison.power import (
    ModelPlan,
    Need,
    PowerPlan,
    Spread,
    level_text,
    plan,
    plan_power,
    spreads,
)
from ltr_harness.comparison.stats.method import Method
from ltr_harness.errors import Caution, UsageError


def tables(**models: list[float]) -> dict[str, pd.DataFrame]:
    return {name: pd.DataFrame({"query_id": list("abcd")[: len(d)], "mrr": d}) for name, d in models.items()}


@pytest.mark.parametrize(
    ("need", "said"),
    [
        (Need(0.8, None, 1250, 1250), "takes 1,250 queries, with 3 and 5 seeds."),
        (
            Need(0.9, None, 401, 401, seeds=12),
            "takes 401 queries, with 3 and 5 seeds; or 12 seeds of each model with the 400 queries at hand.",
        ),
        (Need(0.8, None, 400, 400, seeds=2), "takes 400 queries, with 3 and 5 seeds."),
        (Need(0.8, None, None, None), "cannot be found with 3 and 5 seeds, at any number of queries."),
        (
            Need(0.8, None, None, None, least_seeds=6),
            "cannot be found with 3 and 5 seeds, at any number of queries: 6 seeds of each model are needed.",
        ),
        (
            Need(0.8, None, None, None, least_seeds=6, both=(6, 900)),
            "cannot be found with 3 and 5 seeds, at any number of queries: 6 seeds of each model are needed, and 900 "
            "queries.",
        ),
        (
            Need(0.8, None, None, None, least_seeds=6, both=(7, 900)),
            "cannot be found with 3 and 5 seeds, at any number of queries: 6 seeds of each model are needed at least; "
            "7 seeds and 900 queries do.",
        ),
    ],
)
def test_what_is_said_of_seeds_and_queries(need: Need, said: str) -> None:
    model = ModelPlan("new", 0.1, 400, (3, 5), (need,), ())
    answer = PowerPlan(0.01, "mrr", 0.05, (model,))
    assert answer.said(model, need) == f"new: with {need.power:.0%} probability it {said}"


def test_what_is_said_of_units_and_arms() -> None:
    model = ModelPlan("new", 0.1, 400, (), (), ())
    users = PowerPlan(0.01, "mrr", 0.05, (model,), unit="user_id")
    assert users.said(model, Need(0.8, None, 40, 1)).endswith("it takes 40 of user_id, some 1 query.")
    assert users.said(model, Need(0.8, None, None, None)).endswith(
        "it cannot be found with these seeds, at any number of user_id."
    )
    arms = PowerPlan(0.01, "mrr", 0.05, (model,), draw="unit in each arm")
    assert [arms.drawn(), arms.drawn(1), arms.drawn(2000)] == [
        "units in each arm",
        "1 unit in each arm",
        "2,000 units in each arm",
    ]


def test_whose_differences_have_a_spread() -> None:
    old = [0.25, 0.5, 0.75, 1.0]
    comparison = compare(tables(old=old, same=old, new=[0.5, 0.5, 1.0, 1.0]), test="t")
    found = spreads(comparison)
    assert list(found) == ["new"]
    assert (found["new"].n, found["new"].df, found["new"].queries_per_draw) == (4, None, 1.0)
    assert found["new"].variance == pytest.approx(4 * 0.125**2 / 3)  # 1/4 0 1/4 0 about 1/8
    assert not found["new"].adjusted
    for models, said in (
        (tables(old=old), "is the only model"),
        (tables(old=old, same=old), "no model differs from old in mrr"),
        (tables(old=[0.5], new=[1.0]), "no model differs from old in mrr"),  # by one query nobody knows
    ):
        with pytest.raises(UsageError, match=said):
            spreads(compare(models, test="t"))


def test_two_queries_of_two_users() -> None:
    given = {
        name: table.assign(user_id=["x", "y"])
        for name, table in tables(old=[0.25, 0.5], new=[0.5, 0.5]).items()
    }
    found = spreads(compare(given, unit="user_id"))["new"]
    assert (found.n, found.df, found.queries_per_draw) == (2, 1.0, 1.0)
    assert found.variance == pytest.approx(2 * 0.125**2)


def test_what_is_needed_and_the_curve_around_it() -> None:
    found = plan("new", Spread(variance=0.01), 0.005, 0.05, [0.8, 0.9])
    assert (found.sd, found.n, found.seeds) == (pytest.approx(0.1), None, ())
    assert [(need.draws, need.queries, need.detectable, need.seeds) for need in found.needs] == [
        (3142, 3142, None, None),
        (4205, 4205, None, None),
    ]
    assert [point.n for point in found.curve] == [1051, 2102, 3142, 4205, 8410, 16820, 33640, 67280]
    by_n: dict[int, Any] = {point.n: point.detectable for point in found.curve}
    assert by_n[3142][0] == pytest.approx(0.005, rel=1e-3)
    assert by_n[4205][1] == pytest.approx(0.005, rel=1e-3)
    known = plan("new", Spread(variance=0.01, n=6, queries_per_draw=2.5), 0.1, 0.05, [0.8])
    assert [point.n for point in known.curve][:2] == [2, 3]  # a quarter of six, and never one alone
    assert known.needs[0].draws is not None
    assert known.needs[0].queries == round(2.5 * known.needs[0].draws)
    assert known.needs[0].detectable == Spread(variance=0.01, n=6).detectable(6, alpha=0.05, power=0.8)


def test_the_level_is_that_of_the_first_step() -> None:
    assert level_text(Method(), 1) == "level 5 %"
    for test in ("permutation", "t", "bounded"):
        assert level_text(Method(test=test), 2) == "level 5 %, corrected for 2 comparisons"  # type: ignore[arg-type]


def test_a_few_queries_that_differ_are_said() -> None:
    old = np.linspace(0, 0.5, 60)
    given = {
        name: pd.DataFrame({"query_id": np.arange(60).astype(str), "mrr": values})
        for name, values in (("old", old), ("new", old + np.where(np.arange(60) < 3, 0.5, 0.0)))
    }
    found = plan_power(compare(given, test="t"), 0.2, [0.8])
    text = "3 of 60 queries differ, so the spread is rough, and 80% may take 72 to 456"
    assert found.cautions == (Caution("rough-spread", "warning", text, "plan from more queries", "new"),)
    need = found.plans[0].needs[0]
    assert need.draws == pytest.approx(
        7.85 * 19, rel=0.06
    )  # (1.96 + .84)**2 (1 / .05 - 1): they gain .5 or nothing
    assert found.level == 0.05
    assert plan_power(compare(given, test="t"), 0.01, [0.8], models=5).level == 0.01
    many = {
        name: pd.DataFrame({"query_id": np.arange(400).astype(str), "mrr": values})
        for name, values in (("old", np.full(400, 0.5)), ("new", 0.5 + 0.1 * np.sin(np.arange(400))))
    }
    assert plan_power(compare(many), 0.02, [0.8]).cautions == ()


def test_the_strict_test_has_its_own_number() -> None:
    """Half-widths of 1.3 to 2.5 times those of t take their square in queries, and more where n is small."""
    rng = np.random.default_rng(4)
    given = {
        name: pd.DataFrame({"query_id": np.arange(500).astype(str), "mrr": values})
        for name, values in (
            ("old", np.full(500, 0.5)),
            ("new", 0.5 + rng.normal(0, 0.15, 500).clip(-0.5, 0.5)),
        )
    }
    found = plan_power(compare(given), 0.02, [0.8])
    need = found.plans[0].needs[0]
    assert need.draws is not None
    assert need.bounded is not None
    assert 1.5 < need.bounded / need.draws < 2.5
    assert found.said(found.plans[0], need).endswith(
        f"; the strict test, bounded, takes {need.bounded:,} queries."
    )
    strict = plan_power(compare(given, test="bounded"), 0.02, [0.8]).plans[0].needs[0]
    assert (strict.draws, strict.bounded) == (need.bounded, None)
