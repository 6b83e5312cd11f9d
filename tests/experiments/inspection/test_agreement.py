"""Agreement of several judgments: by hand, and against the package krippendorff."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.judgments import RawJudgments
from ltr_harness.data.readers.memory import from_arrays
from ltr_harness.experiments.inspection import data_card, lint
from ltr_harness.experiments.inspection.agreement import agreement, agreement_lines, alphas
from ltr_harness.report import markdown
from ltr_harness.report.pages import card_page, card_text

DOCUMENTS = np.array([0, 0, 1, 1, 1, 2, 2])
GRADES = np.array([0.0, 1, 2, 2, 1, 0, 0])


def test_alphas_by_hand() -> None:
    equal, ordinal, nominal = alphas(DOCUMENTS, GRADES)
    assert equal == (0 + 1 + 1) / (1 + 3 + 1)
    # three 0, two 1, two 2: mid-ranks 1.5, 4, 6
    within = 2 * (2.5**2 / 2) + 3 * ((2 / 3) ** 2 + (2 / 3) ** 2 + (4 / 3) ** 2) / 2 + 2 * 0
    mean = (3 * 1.5 + 2 * 4 + 2 * 6) / 7
    around = (3 * (1.5 - mean) ** 2 + 2 * (4 - mean) ** 2 + 2 * (6 - mean) ** 2) / 6
    assert ordinal == pytest.approx(1 - within / 7 / around, rel=1e-14)
    # ordered pairs that differ: 2 of document 0, 4 of 1, which have 1 and 2 others each; 42 pairs by chance, 10 equal
    assert nominal == pytest.approx(1 - (2 / 1 + 4 / 2) / 7 / ((49 - 9 - 4 - 4) / 42), rel=1e-14)


def test_all_equal_and_none() -> None:
    equal, *undefined = alphas(np.array([4, 4, 9, 9]), np.full(4, 2.0))
    assert equal == 1
    assert np.isnan(undefined).all(), "nothing varies: there is no agreement by chance to compare with"
    assert np.isnan(alphas(np.array([], dtype=np.int64), np.array([]))).all()


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=30), st.randoms())
def test_names_of_documents_size_of_grades_and_order_of_judgments_do_not_matter(
    pairs: list[tuple[int, int]], random: Any
) -> None:
    often = [
        (document, grade) for document, grade in pairs if sum(document == other for other, _ in pairs) > 1
    ]
    shuffled = random.sample(often, len(often))
    found = alphas(np.array([d for d, _ in often], dtype=int), np.array([float(g) for _, g in often]))
    again = alphas(
        np.array([-7 * d for d, _ in shuffled], dtype=int), np.array([2.0**g for _, g in shuffled])
    )
    np.testing.assert_allclose(again, found, rtol=0, atol=1e-12)
    assert not max(found) > 1


@pytest.mark.parametrize("missing", [0.0, 0.3, 0.8])
@pytest.mark.parametrize("n_judges", [1, 2, 5])
def test_alpha_as_the_package_computes_it(n_judges: int, missing: float) -> None:
    krippendorff = pytest.importorskip("krippendorff", reason="needs krippendorff (the extra `oracles`)")
    rng = np.random.default_rng(int(10 * missing) + n_judges)
    n_compared = 0
    for n_grades in (1, 2, 3, 5, 40) * 6:
        truth = rng.integers(0, n_grades, rng.integers(1, 60))
        table = np.where(
            rng.random((n_judges, truth.size)) < 0.5, truth, rng.integers(0, n_grades, truth.size)
        )
        table = np.where(rng.random(table.shape) < missing, np.nan, table * 0.5)
        documents, grades = judged_again(table)
        _, *found = alphas(documents, grades)
        if np.unique(grades).size < 2:
            assert np.isnan(found).all()
            continue
        levels = ("ordinal", "nominal")
        expected = [krippendorff.alpha(table, level_of_measurement=level) for level in levels]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
        n_compared += 1
    assert (n_compared > 10) == (n_judges > 1)


def judged_again(table: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Document and grade of every judgment of a document that has another: the others are no pairs."""
    judge, document = np.nonzero(~np.isnan(table))
    again = np.bincount(document, minlength=table.shape[1])[document] > 1
    return document[again], table[judge, document][again]


def data(several: RawJudgments | None) -> RankingDataset:
    """Queries a and b of two documents each, in markets us and de."""
    made = from_arrays(np.arange(8.0).reshape(4, 2), [0, 2, 0, 1], query_ids=["a", "a", "b", "b"])
    return replace(made, raw_judgments=several, query_attributes={"market": np.array(["us", "de"])})


# document 7 of query a as 0 of `DOCUMENTS`, and so on; 3 of query b has one judgment alone
SEVERAL = RawJudgments(
    np.array([0, 0, 0, 0, 0, 1, 1, 1]), np.array([7, 7, 5, 5, 5, 9, 9, 3]), np.array([*GRADES, 2.0])
)


def test_agreement_by_slice() -> None:
    whole, de, us = agreement(data(SEVERAL))
    assert (whole.equal, whole.ordinal, whole.nominal) == alphas(DOCUMENTS, GRADES)
    assert (whole.n_documents, whole.n_judgments) == (3, 7), "one judgment agrees with no other"
    assert (us.attribute, us.label, us.n_documents, us.equal) == ("market", "us", 2, 1 / 4)
    assert us.ordinal == alphas(DOCUMENTS[:5], GRADES[:5])[1]
    assert (de.label, de.n_documents, de.equal, de.ordinal, de.nominal) == ("de", 1, 1.0, None, None)
    swapped = data(SEVERAL).take(np.array([1, 0]))
    assert agreement(swapped)[0] == whole
    assert {one.label: one for one in agreement(swapped)[1:]} == {"us": us, "de": de}
    assert agreement(data(SEVERAL).take(np.array([1])))[0].n_documents == 1


def test_agreement_lines() -> None:
    _, ordinal, nominal = alphas(DOCUMENTS, GRADES)
    assert agreement_lines(agreement(data(SEVERAL))) == [
        "agreement on 3 documents with 7 judgments: 40.0% of the pairs have equal grades; Krippendorff's alpha "
        f"{ordinal:.4f} (nominal {nominal:.4f})",
        f"alpha by market: de –, us {alphas(DOCUMENTS[:5], GRADES[:5])[1]:.4f}",
    ]
    equal = RawJudgments(np.array([0, 0]), np.array([1, 1]), np.array([2.0, 2.0]))
    assert agreement_lines(agreement(data(equal))[:1]) == [
        "agreement on 1 document with 2 judgments: 100.0% of the pairs have equal grades; Krippendorff's alpha is "
        "undefined, because all grades are equal"
    ]
    alone = RawJudgments(np.array([0, 1]), np.array([1, 2]), np.array([2.0, 1.0]))
    assert agreement_lines(agreement(data(alone))) == ["agreement: no document has several judgments"]
    assert agreement_lines(agreement(data(None))) == []


def test_the_card_shows_agreement_where_documents_have_several_judgments() -> None:
    card = data_card({"test": data(SEVERAL)})
    text = markdown.render(card_page(card, lint(card), "Data"))
    _, ordinal, nominal = alphas(DOCUMENTS, GRADES)
    assert f"| test | all | 3 | 7 | 40.0 % | {ordinal:.4f} | {nominal:.4f} |" in text
    assert "| test | market de | 1 | 2 | 100.0 % |" in text
    assert "Labels that judges disagree on bound what any metric can tell" in text
    assert "test: agreement on 3 documents with 7 judgments" in card_text(card, [])
    first = card.facts()["splits"][0]["agreement"][0]
    assert first["ordinal"] == ordinal
    assert not math.isnan(first["nominal"])
    of_a = data_card({"test": data(SEVERAL.take(np.array([0])))})
    assert "| test | market us | 2 |" in markdown.render(card_page(of_a, [], "Data"))
    assert "market de" not in markdown.render(card_page(of_a, [], "Data"))
    none = data_card({"test": data(None)})
    assert "greement" not in markdown.render(card_page(none, [], "Data")) + card_text(none, [])
    assert "agreement" not in none.facts()["splits"][0]
