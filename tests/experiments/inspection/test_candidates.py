"""Candidates and missed documents in data cards and lints: what was missed is relevant, too, and has no row."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ltr_harness.comparison.contrasts import SystemResult
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.experiments.inspection import data_card, lint, split_card
from ltr_harness.experiments.inspection.candidates import candidate_recall, recall_lines
from ltr_harness.experiments.training.train import per_query_columns
from ltr_harness.metrics import bind, parse_metric
from ltr_harness.metrics.evaluation import evaluate_bound
from ltr_harness.report import html, markdown
from ltr_harness.report.pages import card_page, card_text

# Query a: grades 2, 0 and a missed 1; b: a missed 3 alone; c: an unjudged candidate, grade 0 and a missed 0;
# d: grade 1, and a missed 0.
LABELS = [2, 0, 1, 3, 0, 0, 0, 1, 0]
SHOWN = [1, 1, 0, 0, 1, 1, 0, 1, 0]
JUDGED = [1, 1, 1, 1, 0, 1, 1, 1, 1]
SIZES = [3, 1, 3, 2]


def make_dataset(
    labels: Any = LABELS, sizes: Any = SIZES, shown: Any = SHOWN, judged: Any = None, **attributes: Any
) -> RankingDataset:
    judgments = Judgments.checked(
        labels,
        QueryGroups.from_sizes(sizes, [f"q{at}" for at in range(len(sizes))]),
        judged=None if judged is None else np.array(judged, dtype=bool),
        retrieved=None if shown is None else np.array(shown, dtype=bool),
    )
    n_rows = judgments.groups.n_rows
    features = np.random.default_rng(0).normal(size=(n_rows, 3)).astype(np.float32)
    features[:, 1] = np.arange(n_rows) + 7
    columns = {name: np.array(values) for name, values in attributes.items()}
    return RankingDataset(features, judgments, ("1", "2", "3"), query_attributes=columns, source="x")


def test_candidate_recall_by_hand() -> None:
    whole, us, de = candidate_recall(make_dataset(judged=JUDGED, market=["us", "us", "de", "us"]))
    # of the relevant documents a has 1 of 2, b 0 of 1, d 1 of 1; c has none
    assert whole.mean == (1 / 2 + 0 + 1) / 3
    assert whole.total == 2 / 4
    assert (whole.n_queries, whole.n_without_candidates) == (4, 1)
    assert (whole.n_judged, whole.n_missed) == (8, 4), "the unjudged candidate is not among them"
    assert (us.attribute, us.label, us.mean, us.n_queries, us.n_judged) == ("market", "us", whole.mean, 3, 6)
    assert (de.label, de.mean, de.total, de.n_relevant, de.n_missed) == ("de", None, None, 0, 1)


def test_recall_lines() -> None:
    assert recall_lines(candidate_recall(make_dataset(judged=JUDGED, market=["us", "us", "de", "us"]))) == [
        "candidate recall 0.5000, the mean over queries; 0.5000 of 4 relevant documents; 4 of 8 judged documents were "
        "missed (50.0%), 1 query (25.0%) has no candidate",
        "candidate recall by market: us 0.5000, de –",
    ]
    assert recall_lines(candidate_recall(make_dataset(shown=None))) == []


@pytest.mark.long
@given(st.integers(0, 10_000), st.booleans())
def test_every_fact_of_a_split_with_missed_documents(seed: int, unjudged: bool) -> None:
    """Queries without candidates stand anywhere; the facts are those counted query by query."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, rng.integers(1, 9))
    labels = rng.integers(0, 3, sizes.sum()) * (rng.random(sizes.sum()) < 0.5)
    shown = rng.random(sizes.sum()) < rng.choice([0.1, 0.5, 1.0])
    shown[rng.integers(sizes.sum())] = True
    judged = (labels > 0) | (rng.random(sizes.sum()) < 0.7) if unjudged else None
    data = make_dataset(labels, sizes, shown, judged, half=rng.integers(0, 2, len(sizes)).astype(str))
    both = data_card({"train": data, "test": data})
    card = both.splits[1]

    ends = np.cumsum(sizes)[:-1]
    queries = list(zip(np.split(labels, ends), np.split(shown, ends), strict=True))
    relevant = [int((own > 0).sum()) for own, _ in queries]
    recalls = [(own[there] > 0).sum() / n for (own, there), n in zip(queries, relevant, strict=True) if n]
    several = [len(set(own[there].tolist())) > 1 for own, there in queries]
    assert card.n_without_relevant == relevant.count(0)
    assert card.n_several_grades == sum(several)
    assert card.n_sorted == sum(
        more and bool((np.diff(own[there]) <= 0).all())
        for (own, there), more in zip(queries, several, strict=True)
    )
    assert card.n_one_grade == sum(
        bool(there.any()) and not more and n > 0
        for (_, there), more, n in zip(queries, several, relevant, strict=True)
    )
    assert card.n_single == sum(there.sum() == 1 for _, there in queries)
    assert card.sizes[0] == min(there.sum() for _, there in queries)
    whole = card.candidates[0]
    assert whole.mean == (pytest.approx(np.mean(recalls)) if recalls else None)
    assert whole.n_without_candidates == sum(not there.any() for _, there in queries)
    counted = np.ones(labels.size, dtype=bool) if judged is None else judged
    assert (whole.n_judged, whole.n_missed) == (counted.sum(), (counted & ~shown).sum())
    for attribute in {part.attribute for part in card.candidates[1:]}:
        parts = [part for part in card.candidates if part.attribute == attribute]
        for count in ("n_queries", "n_without_candidates", "n_judged", "n_missed", "n_relevant", "n_found"):
            assert sum(getattr(part, count) for part in parts) == getattr(whole, count)

    cautions = lint(both)
    json.dumps(both.facts(), allow_nan=False)
    assert "nan" not in card_text(both, cautions).lower()
    assert not [one for one in cautions if "nan" in one.text]


def test_the_rows_of_a_card_are_the_candidates() -> None:
    """Single features are measured by the candidates' ideal list: one that knows the labels has an NDCG of 1."""
    data = make_dataset([2, 1, 0, 3] * 12, [4] * 12, [1, 1, 1, 0] * 12)
    data = replace(data, features=np.column_stack((data.labels, data.features[:, 1:])).astype(np.float32))
    alone = make_dataset([2, 1, 0] * 12, [3] * 12, None)
    card, without = split_card("train", data), split_card("train", alone)
    assert card.features[0].ndcg == 1
    assert card.features[1].ndcg == without.features[1].ndcg
    assert (card.random_ndcg, card.grades) == (without.random_ndcg, without.grades)
    assert {"leaking-feature"} <= {one.kind for one in lint(data_card({"train": data}))}


def lint_lines(data: RankingDataset) -> dict[str, str]:
    return {one.kind: f"{one.severity}: {one.text}; {one.cure}" for one in lint(data_card({"test": data}))}


def test_a_query_whose_truth_was_missed_is_not_without_relevant_documents() -> None:
    labels, sizes = [1, 0, 1, 0] * 10, [2] * 20
    assert "without-relevant-documents" not in lint_lines(make_dataset(labels, sizes, [0, 1, 1, 1] * 10))
    assert "without-relevant-documents" not in lint_lines(make_dataset(labels, sizes, [0, 0, 1, 1] * 10))
    barren = lint_lines(make_dataset([0, 0, 1, 0] * 10, sizes, [0, 1, 1, 1] * 10))
    assert barren["without-relevant-documents"].startswith("note: 10 of 20 queries (50%) have no relevant")


def test_lints_of_labels_with_missed_documents() -> None:
    all_missed = lint_lines(make_dataset([1, 0, 0] * 9, [3] * 9, [0, 1, 1] * 9))
    assert all_missed == {
        "nothing-relevant": "error: no candidate is relevant, because retrieval missed all relevant documents; "
        "check the retrieval, and that both sides spell document ids alike"
    }
    steep = lint_lines(make_dataset([1, 0, 9] * 9, [3] * 9, [1, 1, 0] * 9))["steep-gain"]
    assert steep.startswith("warning: with exponential gain grade 9 (9 documents) weighs 511 times as much")
    equal = lint_lines(make_dataset([1, 1, 0] * 9, [3] * 9, [1, 1, 0] * 9))["one-grade"]
    assert equal.startswith("error: all candidates have the same label")
    single = lint_lines(make_dataset([1, 1, 0, 1] * 9, [2] * 18, [1, 0, 1, 1] * 9))["single-document-queries"]
    assert single == "note: 9 of 18 queries have a single document; every order of them is equally good"
    perfect = lint_lines(make_dataset([1, 0, 1] * 9, [1, 2] * 9, None))["single-document-queries"]
    assert perfect.endswith("they are always ranked perfectly and lift every mean")


def test_the_card_shows_candidate_recall_where_candidates_are_known() -> None:
    card = data_card({"test": make_dataset(market=["us", "us", "de", "us"])})
    page = card_page(card, lint(card), "Data")
    text = markdown.render(page)
    assert "| test | 4 | 25.0 % | 9 | 44.4 % | 4 | 0.5000 | 0.5000 |" in text
    assert "| test | market | us | 3 | 33.3 % | 6 | 50.0 % | 4 | 0.5000 | 0.5000 |" in text
    assert "Candidate recall by slice" in html.render(page)
    assert "test: candidate recall 0.5000, the mean over queries; 0.5000 of 4 relevant" in card_text(card, [])
    (split,) = card.facts()["splits"]
    assert split["candidates"][0]["n_found"] == 2
    plain = data_card({"test": make_dataset(shown=None, market=["us", "us", "de", "us"])})
    assert "andidate" not in markdown.render(card_page(plain, lint(plain), "Data")) + card_text(plain, [])
    assert "candidates" not in plain.facts()["splits"][0]


def test_relevant_documents_of_a_query_include_missed_ones() -> None:
    data = make_dataset()
    expected = [2, 1, 0, 1]
    evaluation = evaluate_bound(
        bind(parse_metric("ndcg@10"), data.judgments), np.arange(data.n_rows, dtype=float)
    )
    table: dict[str, NDArray[Any]] = per_query_columns(data, evaluation)
    assert table["n_relevant"].tolist() == expected
    assert table["rows"].tolist() == [2, 0, 2, 1]
    assert SystemResult.of("a", [evaluation]).query_attributes["n_relevant"].tolist() == expected
