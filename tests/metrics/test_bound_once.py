"""Metrics bound for one evaluation, some queries at a time: the same values as bound whole, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.errors import DataError, MetricError
from ltr_harness.metrics import parse_metric, tie_audit
from ltr_harness.metrics.core import binding
from ltr_harness.metrics.core.binding import Binding, BoundOnce, slices_of
from tests.conftest import examples

METRICS = [
    parse_metric(name)
    for name in (
        "ndcg@3",
        "map",
        "mrr@2",
        "err(max_grade=3)",
        "bpref",
        "kendall_tau_distance",
        "mean_label(minus=bottom)@3",
        "ndcg(ties=id)@2",
    )
]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "_ROWS_AT_ONCE", 10)


def make_judgments(seed: int, n_queries: int) -> tuple[Judgments, Any, Any]:
    rng = np.random.default_rng(seed)
    groups = QueryGroups.from_sizes(rng.integers(1, 25, n_queries))
    n = groups.n_rows
    labels, judged = rng.integers(0, 4, n), rng.random(n) < 0.8
    weights = rng.uniform(0.1, 2, n_queries) if seed % 2 else None
    ids = np.array([f"d{i}" for i in rng.permutation(n)])
    judgments = Judgments.checked(
        np.where(judged, labels, 0), groups, judged=judged, query_weights=weights, document_ids=ids
    )
    return judgments, rng.integers(0, 9, n).astype(float), rng.random(n) < 0.9


@pytest.mark.long
@examples(50)
@given(seed=st.integers(0, 10**6), n_queries=st.integers(1, 12))
def test_values_are_those_of_all_queries_bound_at_once(seed: int, n_queries: int) -> None:
    judgments, scores, retrieved = make_judgments(seed, n_queries)
    whole, once = Binding(METRICS, judgments), BoundOnce(METRICS, judgments)
    for listed in (None, retrieved):
        values = once.per_query(scores, listed)
        np.testing.assert_array_equal(values, whole.per_query(scores, listed))
        np.testing.assert_array_equal(once.means_of(values), whole.means_of(values))
    assert once.names == whole.names


@pytest.mark.long
@given(seed=st.integers(0, 10**6), n_queries=st.integers(1, 12))
def test_slices_are_whole_queries_once_each(seed: int, n_queries: int) -> None:
    judgments, scores, retrieved = make_judgments(seed, n_queries)
    parts = list(slices_of(judgments, scores, retrieved))
    assert np.concatenate([part.labels for _, part, _, _ in parts]).tolist() == judgments.labels.tolist()
    assert np.concatenate([own for _, _, own, _ in parts]).tolist() == scores.tolist()
    assert np.concatenate([listed for _, _, _, listed in parts]).tolist() == retrieved.tolist()  # type: ignore[arg-type]
    assert [queries.stop for queries, _, _, _ in parts][-1] == n_queries
    for _, part, own, _ in parts:
        assert part.labels.size == own.size
        assert part.groups.n_queries == 1 or len(parts) == 1 or part.labels.size <= 10


def test_shares_of_ties_are_of_all_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    judgments, scores, retrieved = make_judgments(3, 40)
    sliced = tie_audit("ndcg@5", judgments, scores, retrieved)
    monkeypatch.setattr(binding, "_ROWS_AT_ONCE", 10**6)
    whole = tie_audit("ndcg@5", judgments, scores, retrieved)
    assert (sliced.share_tied_positions, sliced.share_touched) == (
        whole.share_tied_positions,
        whole.share_touched,
    )
    np.testing.assert_array_equal(sliced.low, whole.low)


def test_what_is_refused_is_refused_as_of_all_queries() -> None:
    judgments, scores, _ = make_judgments(2, 40)
    with pytest.raises(DataError, match=f"{judgments.labels.size - 1} scores for"):
        BoundOnce(METRICS, judgments).per_query(scores[1:])
    with pytest.raises(DataError, match="NaN"):
        BoundOnce(METRICS, judgments).per_query(np.where(scores == 3, np.nan, scores))
    narrow = [parse_metric("err(max_grade=2)")]
    said = []
    for kind in (Binding, BoundOnce):
        with pytest.raises(MetricError) as error:
            kind(narrow, judgments).per_query(scores)
        said.append(str(error.value))
    assert said[0] == said[1]
