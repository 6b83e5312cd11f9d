"""Users, not queries: `compare(unit=…)` and `--unit`, from where units come from to what is said of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from ltr_harness.comparison import Comparison, compare
from ltr_harness.comparison.cautions import FEW
from ltr_harness.comparison.contrasts import SystemResult
from ltr_harness.comparison.slices import slice_results
from ltr_harness.comparison.stats.cluster_sums import ClusterSums
from ltr_harness.errors import ConfigError, NotComparableError, UsageError


def tables(n_units: int = 40, seed: int = 1) -> dict[str, pd.DataFrame]:
    """Ten queries of each user; what the new model changes depends on the user more than on the query."""
    rng = np.random.default_rng(seed)
    user = np.repeat(np.arange(n_units), 10)
    old = rng.uniform(0.3, 0.7, user.size)
    change = 0.01 + 0.05 * rng.normal(size=n_units)[user] + 0.05 * rng.normal(size=user.size)
    ids = [f"q{at}" for at in range(user.size)]
    return {
        name: pd.DataFrame({"query_id": ids, "user_id": [f"u{one}" for one in user], "mrr": values})
        for name, values in (("old", old), ("new", old + change), ("near", old + change / 2))
    }


@pytest.fixture(scope="module")
def by_user() -> Comparison:
    return compare(tables(), unit="user_id")


@pytest.mark.long
def test_interval_and_test_go_by_the_user_and_the_mean_by_the_query(by_user: Comparison) -> None:
    by_query = compare(tables())
    pair, plain = by_user.paired("new"), by_query.paired("new")
    assert (pair.difference, pair.n) == (pytest.approx(plain.difference), plain.n)
    assert pair.ci_high - pair.ci_low > 1.8 * (plain.ci_high - plain.ci_low)
    assert pair.p > 5 * plain.p
    assert pair.detectable > 1.8 * plain.detectable
    d = by_user.query_differences("new")[:, None]
    assert pair.p_t == pytest.approx(float(ClusterSums.of(d, by_user.units).t_p[0]))
    assert by_user.summary("old").ci_low != by_query.summary("old").ci_low
    assert by_user.letters().groups["new"] == by_user.letters().groups["old"]
    assert by_query.letters().groups["new"] != by_query.letters().groups["old"]


def test_units_sizes_and_design_effect_are_said(by_user: Comparison) -> None:
    note = next(note for note in map(str, by_user.cautions) if "design effect" in note)
    assert note.startswith("tests and intervals go by user_id: 40 of 10 queries; design effect ")
    assert "sign-flip test by user_id joint p = " in by_user.verdict
    assert by_user.method.describe().startswith("sign-flip test by user_id (10,000 draws")
    assert not any("ignored" in note for note in map(str, by_user.cautions))


def test_design_effects_are_one_number_or_a_range() -> None:
    every = tables()
    noise = np.random.default_rng(3).normal(size=len(every["old"]))
    every["other"] = every["old"].assign(mrr=every["old"]["mrr"] + 0.05 * noise)
    for rivals in (["new"], ["new", "other"]):
        found = compare({name: every[name] for name in ["old", *rivals]}, unit="user_id")
        differences = np.column_stack([found.query_differences(model) for model in rivals])
        effects = sorted(ClusterSums.of(differences, found.units).design_effect)
        said = " to ".join(f"{effect:.2g}" for effect in effects)
        assert any(note.endswith(f"; design effect {said}") for note in map(str, found.cautions))


@pytest.mark.parametrize(("n_units", "few"), [(2 * FEW - 1, True), (2 * FEW, False)])
def test_few_units_are_said_to_be_few(n_units: int, few: bool) -> None:
    notes = [*map(str, compare(tables(n_units), unit="user_id").cautions)]
    assert any(f"only {n_units} units" in note for note in notes) == few


@pytest.mark.long
@pytest.mark.parametrize("options", [{"test": "t"}, {}, {"margin": 0.015}, {"test": "permutation"}])
def test_every_method_that_knows_units_gives_wider_intervals(options: dict[str, Any]) -> None:
    pair = compare(tables(), unit="user_id", **options).paired("new")
    plain = compare(tables(), **options).paired("new")
    assert pair.ci_high - pair.ci_low > 1.8 * (plain.ci_high - plain.ci_low)
    assert pair.p_corrected > plain.p_corrected
    if "margin" in options:
        assert pair.p_equivalence > plain.p_equivalence


@pytest.mark.parametrize(("option", "value"), [("test", "bounded"), ("test", "bootstrap")])
def test_what_knows_no_units_is_refused(option: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"{option}: {value} with unit 'user_id'; expected {option} "):
        compare(tables(), unit="user_id", **{option: value})
    with pytest.raises(ConfigError, match="unit"):
        compare(tables(), unit="")


@pytest.mark.long
def test_slices_go_by_the_user_and_are_not_cut_by_it() -> None:
    given = {name: table.assign(lang=["de", "en"] * 200) for name, table in tables().items()}
    by_user = compare(given, unit="user_id")
    by_query = compare({name: table.drop(columns="user_id") for name, table in given.items()})
    found = {(one.model, one.label): one for one in slice_results(by_user)}
    plain = {(one.model, one.label): one for one in slice_results(by_query)}
    assert {one.attribute for one in slice_results(by_user)} == {"lang"}
    assert found.keys() == plain.keys()
    for key, one in found.items():
        assert one.ci_high - one.ci_low > 1.2 * (plain[key].ci_high - plain[key].ci_low)


def test_a_query_may_be_undefined() -> None:
    given = tables()
    given["new"].loc[:24, "mrr"] = np.nan
    pair = compare(given, unit="user_id").paired("new")
    assert pair.n == 375
    assert pair.ci_low < pair.difference < pair.ci_high


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        (
            lambda t: t.drop(columns="user_id"),
            UsageError,
            "unit 'user_id': no query has an attribute 'user_id'",
        ),
        (
            lambda t: t.assign(user_id="one"),
            UsageError,
            "all queries have the same; expected at least two units",
        ),
        (
            lambda t: t.assign(user_id=t.user_id.where(t.index != 3)),
            UsageError,
            "1 query without one, 'q3' first; expected one for each query",
        ),
    ],
)
def test_units_that_are_not_there_are_refused(change: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error) as caught:
        compare({name: change(table) for name, table in tables().items()}, unit="user_id")
    assert said in str(caught.value)


def test_one_table_may_name_the_units_and_two_may_not_differ() -> None:
    given = tables()
    given["new"] = given["new"].drop(columns="user_id")
    assert compare(given, unit="user_id").units is not None
    given = tables()
    given["new"].loc[0, "user_id"] = "u9"
    with pytest.raises(NotComparableError, match="query 'q0' is of u9 for new and of u0 for old"):
        compare(given, unit="user_id")


def test_a_few_large_units_are_warned_about() -> None:
    rng = np.random.default_rng(4)
    user = np.repeat(np.arange(100), [400, *[2] * 99])
    old = rng.uniform(0.3, 0.7, user.size)
    ids = np.arange(user.size).astype(str)
    shift = 0.05 * rng.normal(size=100)[user]
    systems = [
        SystemResult(
            name, ids, {"mrr": values[None]}, ("1",), {"mrr": True}, query_attributes={"user_id": user}
        )
        for name, values in (("old", old), ("new", old + shift))
    ]
    notes = [*map(str, compare(systems, unit="user_id").cautions)]
    (said,) = [note for note in notes if "count as" in note]
    assert said.startswith("user_id: the largest unit has 67% of the queries, so the 100 units count as ")
    assert not any("count as" in note for note in map(str, compare(tables(), unit="user_id").cautions))
