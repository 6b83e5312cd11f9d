"""Human labels of twenty queries beside cheap ones of sixty, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ltr_harness.comparison import Comparison, compare
from ltr_harness.comparison.cheap_labels import (
    CheapLabels,
    GradeAgreement,
    LabelAgreement,
    drawn_queries,
    with_cheap_labels,
)
from ltr_harness.comparison.contrasts import SystemResult
from ltr_harness.errors import NotComparableError, UsageError

HUMAN, ALL = 20, 60
NOTHING = LabelAgreement(0, float("nan"), ())
SIDES = np.where(np.arange(ALL) % 2, 1.0, -1.0)  # of no mean and no skewness
# Means .1 and .2 at standard errors s / sqrt(19): t = 2.27 and 200, p = .035 and next to nothing.
CLOSE, CLEAR = 0.1 + 0.1 * np.sqrt(19) / 2.27 * SIDES, 0.2 + 0.001 * np.sqrt(19) * SIDES


def system(name: str, values: NDArray[np.float64]) -> SystemResult:
    ids = np.array([f"q{at}" for at in range(values.size)])
    return SystemResult(name, ids, {"mrr": values[np.newaxis, :]}, ("1",), {"mrr": True})


def models(n: int, **differences: NDArray[np.float64]) -> list[SystemResult]:
    return [
        system("base", np.full(n, 0.5)),
        *(system(name, 0.5 + d[:n]) for name, d in differences.items()),
    ]


def by_human_labels(**options: object) -> Comparison:
    return compare(*models(HUMAN, close=CLOSE, clear=CLEAR), **options)


def with_labels(comparison: Comparison, **cheap: NDArray[np.float64]) -> CheapLabels:
    return with_cheap_labels(comparison, models(ALL, **cheap), NOTHING)


def test_cheap_labels_that_tell_nothing_leave_the_human_ones() -> None:
    found = with_labels(by_human_labels(), close=np.zeros(ALL), clear=np.zeros(ALL))
    assert (found.metric, found.baseline, found.n_human, found.n_cheap) == ("mrr", "base", 20, 40)
    clear, close = found.pairs
    assert (clear.model, close.model) == ("clear", "close")
    assert (close.weight, close.queries_saved) == (0.0, 0.0)
    assert (close.difference, close.human_difference) == pytest.approx((0.1, 0.1))
    human = by_human_labels().paired("close")
    for field in ("p", "p_corrected", "ci_low", "ci_high", "verdict"):
        assert getattr(close, field) == pytest.approx(getattr(human, field), abs=2e-3) or field == "verdict"
    assert close.verdict == human.verdict
    assert (clear.verdict, clear.human_verdict) == ("better", "better")


def test_intervals_hold_together() -> None:
    """Intervals of two models hold together: 2.433 is the 98.75 % point of Student's t with 19 degrees of freedom."""
    plain = by_human_labels(test="t")
    found = with_labels(plain, close=np.zeros(ALL), clear=np.zeros(ALL))
    close = found.pairs[1]
    assert (close.p, close.p_corrected) == pytest.approx((0.035, 2 * 0.035), abs=1e-3)
    assert (close.ci_low, close.ci_high) == pytest.approx(
        (0.1 - 2.433 * 0.1 / 2.27, 0.1 + 2.433 * 0.1 / 2.27), abs=1e-4
    )


def test_cheap_labels_that_tell_all_add_what_the_other_queries_say() -> None:
    rest = np.where(np.arange(ALL) < HUMAN, CLOSE, CLOSE + 0.08)
    found = with_labels(by_human_labels(), close=rest, clear=CLEAR)
    close = found.pairs[1]
    assert close.weight == pytest.approx(1 / (1 + 20 / 40))
    assert close.difference == pytest.approx(0.1 + 0.08 * 2 / 3)
    assert close.queries_saved == pytest.approx(40, rel=0.1)  # as many as have the cheap labels alone
    worse = with_labels(by_human_labels(), close=-rest, clear=-CLEAR)
    assert worse.pairs[1].difference == pytest.approx(
        close.difference
    )  # cheap labels that say the contrary tell all


def test_what_is_said() -> None:
    said = with_labels(by_human_labels(), close=np.zeros(ALL), clear=np.zeros(ALL)).lines()
    assert said[0].startswith(
        "clear is better than base at mrr by human and cheap labels together: +0.2000 ("
    )
    assert "over 20 queries with human labels and 40 with cheap ones alone, worth 0 more" in said[0]
    assert said[2].startswith("human labels: it cannot be checked that these queries were drawn by chance")
    assert said[3:] == ["no row has both a human and a cheap label"]
    agreement = LabelAgreement(5, 0.5, (GradeAgreement(0.0, 4, 0.75, 0.25), GradeAgreement(1.0, 1, 0.0, 0.0)))
    assert str(agreement) == (
        "cheap and human labels agree with kappa 0.50 over 5 rows; by human grade 0: 75% the same, mean 0.25 (4); "
        "1: 0% the same, mean 0.00 (1)"
    )


def test_a_rare_kind_of_query_is_named_where_one_that_was_seen_comes_near() -> None:
    """A kind of 17 % would have to lose 1.1 against +.185: the query that loses .1 is none, one that loses .6 is."""
    lines = {}
    for loss in (0.1, 0.5):
        clear = CLEAR.copy()
        clear[3] = -loss
        human = compare(*models(HUMAN, close=CLOSE, clear=clear))
        found = with_labels(human, close=np.zeros(ALL), clear=np.zeros(ALL))
        assert [pair.verdict for pair in found.pairs] == ["better", "not distinguishable"]
        lines[loss] = [str(one) for one in found.cautions if one.kind == "rare-kind"]
    assert lines[0.1] == []
    assert [line[:43] for line in lines[0.5]] == ["clear: a query type below 17 % of traffic m"]


def test_one_model_alone_has_nothing_to_be_told() -> None:
    found = with_cheap_labels(compare(*models(HUMAN)), models(ALL), NOTHING)
    assert (found.pairs, found.n_human, found.n_cheap) == ((), 20, 40)


def test_queries_without_cheap_labels_are_refused() -> None:
    with pytest.raises(
        NotComparableError, match=r"2 queries of 20 with human labels without any, such as 'q18'"
    ):
        with_cheap_labels(by_human_labels(), models(18, close=CLOSE, clear=CLEAR), NOTHING)


def test_methods_that_this_is_not_known_for_are_named_at_once() -> None:
    comparison = by_human_labels(test="bootstrap", margin=0.1)
    with pytest.raises(UsageError) as raised:
        with_labels(comparison, close=CLOSE, clear=CLEAR)
    assert [problem.place for problem in raised.value.problems] == [
        "test",
        "margin",
    ]


def of_queries(at: NDArray[np.int64], d: NDArray[np.float64]) -> list[SystemResult]:
    """Two models on some of the queries."""
    ids = np.array([f"q{one}" for one in at.tolist()])
    values = {"base": np.full(at.size, 0.5), "new": 0.5 + d[at]}
    return [
        SystemResult(name, ids, {"mrr": own[None]}, ("1",), {"mrr": True}) for name, own in values.items()
    ]


def kinds(at: NDArray[np.int64], d: NDArray[np.float64], c: NDArray[np.float64]) -> tuple[str, set[str]]:
    """The verdict of human labels of some queries and cheap ones of all, and the kinds of its cautions."""
    every = np.arange(c.size)
    found = with_cheap_labels(compare(*of_queries(at, d), draws=1000), of_queries(every, c), NOTHING)
    return found.pairs[0].verdict, {caution.kind for caution in found.cautions}


def test_a_draw_can_be_checked_and_a_choice_cannot() -> None:
    """The queries with the lowest hashes were drawn, all or the first of them; any others may have been chosen."""
    every = [f"q{at}" for at in range(ALL)]
    drawn = drawn_queries(every, HUMAN)
    assert drawn[:12] == drawn_queries(every[::-1], 12)
    at = np.array([every.index(query) for query in drawn])
    d, c = np.random.default_rng(0).normal(0, 0.1, (2, ALL))
    assert "unchecked-draw" not in kinds(at, d, c)[1]
    assert "unchecked-draw" not in kinds(np.sort(at[:12]), d, c)[1]
    assert "unchecked-draw" in kinds(at[1:], d, c)[1]
    assert "unchecked-draw" in kinds(np.arange(HUMAN), d, c)[1]


@pytest.mark.slow
def test_queries_that_were_chosen_where_a_judge_is_wrong_are_said() -> None:
    """Equal models, a judge of correlation .85: labels where it favours the new model least make that one better."""
    rng = np.random.default_rng(4)
    false, refused = 0, 0
    for _ in range(100):
        c = rng.normal(0, 0.085, 500)
        d = c + np.sqrt(0.1**2 - 0.085**2) * rng.normal(size=500)
        chosen = np.argsort(c - d)[:60]
        try:
            verdict, said = kinds(chosen, d, c)
        except NotComparableError:
            refused += 1
            continue
        false += verdict in ("better", "worse")
        assert "unchecked-draw" in said
    assert refused < 10  # by the cheap labels these queries are like the others
    assert false > 80
