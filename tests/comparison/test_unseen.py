"""Warnings of what the queries lack: said where they could turn a verdict round, and only there."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from ltr_harness.comparison import Comparison, compare
from ltr_harness.comparison.rare import rare_difference
from ltr_harness.comparison.unseen import lopsided


def against_base(d: np.ndarray, **options: object) -> Comparison:
    """A model whose differences are these, beside a baseline whose values lie in 0 … 1."""
    base = np.linspace(0, 1, d.size)
    tables = {
        name: pd.DataFrame({"query_id": np.arange(d.size).astype(str), "mrr": values})
        for name, values in (("base", base), ("new", base + d))
    }
    return compare(tables, **options)


def test_how_far_rare_queries_would_have_to_differ() -> None:
    assert rare_difference(50, 0.03, 1.0, 0.05) == pytest.approx(0.03 / (1 - 0.05 ** (1 / 50)))
    assert np.isnan(rare_difference(50, 0.07, 1.0, 0.05))  # further than any query could
    assert rare_difference(1, 0.25, 0.6, 0.5) == 0.5  # a kind of less than half the queries
    assert np.isnan(rare_difference(1, 0.25, 0.5, 0.5))  # just out of reach
    assert np.isnan(rare_difference(0, 0.25, np.inf, 0.5))
    assert (lopsided(100, 2.0), lopsided(101, 2.0)) == (True, False)  # 25 times 4


def test_small_losses_of_all_queries_prove_nothing_until_they_are_many() -> None:
    noise = np.random.default_rng(0).normal(0, 0.005, 400)
    few, many = against_base(noise[:50] - 0.03), against_base(noise - 0.03)
    assert few.paired("new").verdict == "not distinguishable"
    assert any(
        note.startswith(
            "new: no verdict from 50 queries that nearly all differ in one direction: a rare kind"
        )
        for note in few.notes
    )
    assert (many.paired("new").verdict, many.notes) == ("worse", ())
    plain = against_base(noise[:50] - 0.03, test="permutation")
    assert plain.paired("new").verdict == "worse"  # means what it meant


@pytest.mark.long
def test_a_verdict_that_rare_queries_could_turn_round_says_so() -> None:
    noise = np.random.default_rng(1).normal(0, 0.1, 1000)
    shaky, firm = against_base(noise[:60] - 0.045), against_base(noise - 0.045)
    assert (shaky.paired("new").verdict, firm.paired("new").verdict) == ("worse", "worse")
    (note,) = shaky.notes
    assert note.startswith(
        "new: 60 queries may hold none of a kind that is rarer than 1 in 21; were such queries to differ"
    )
    assert firm.notes == ()
    judged = against_base(noise[:60] - 0.045, margin=0.01)  # a margin has no say in what is worse
    assert judged.paired("new").verdict == "worse"
    assert judged.notes == shaky.notes


@pytest.mark.parametrize(("models", "names"), [(3, "a, b, c: 60"), (4, "a, b, c and 1 more: 60")])
def test_three_shaky_models_are_named_and_the_others_counted(models: int, names: str) -> None:
    d = np.random.default_rng(1).normal(0, 0.1, 60) - 0.06
    values = {"base": np.linspace(0, 1, 60)}
    values |= {name: values["base"] + d - 0.001 * at for at, name in enumerate("abcd"[:models])}
    query = np.arange(60).astype(str)
    found = compare({name: pd.DataFrame({"query_id": query, "mrr": own}) for name, own in values.items()})
    (note,) = found.notes
    assert note.startswith(f"{names} queries may hold none")


def test_lopsided_differences_are_said_whatever_the_verdict() -> None:
    d = np.r_[np.full(58, -0.01), 0.9, 0.8]
    assert any("lopsided" in note and "not for what they lack" in note for note in against_base(d).notes)
    assert any("too optimistic" in note for note in against_base(d, test="t").notes)


def test_a_model_without_values_keeps_no_other_from_being_shaky() -> None:
    base, query = np.linspace(0, 1, 60), np.arange(60).astype(str)
    worse = base + np.random.default_rng(1).normal(0, 0.1, 60) - 0.06
    values = {"base": base, "none": np.full(60, np.nan), "worse": worse}
    found = compare({name: pd.DataFrame({"query_id": query, "mrr": own}) for name, own in values.items()})
    assert any(note.startswith("worse: 60 queries may hold none") for note in found.notes)


def test_what_is_left_of_the_margin_is_what_rare_queries_could_use_up() -> None:
    """Equivalent within .02 at a difference of .005: .015 is left, of 60 queries divided by 1 - .05 ** (1 / 60)."""
    found = against_base(np.tile([0.006, 0.004], 30), margin=0.02, test="t", interval="t")
    assert found.paired("new").verdict == "equivalent"
    (note,) = (note for note in found.notes if note.startswith("new: 60 queries may hold none"))
    least = 0.015 / (1 - 0.05 ** (1 / 60))
    assert f"were such queries to differ by {least:.2g} the other way, the verdict would not hold" in note
