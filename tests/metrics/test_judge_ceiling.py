"""The ceiling that judges' disagreement sets: by hand, over ties, and its interval in a simulated world."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from ltr_harness.comparison.stats.cluster_sums import ClusterSums
from ltr_harness.comparison.stats.families import mean_intervals
from ltr_harness.comparison.stats.method import Method
from ltr_harness.data import from_frame
from ltr_harness.data.arrays import Floats
from ltr_harness.data.judgments import Judgments, RawJudgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.metrics import parse_metric
from ltr_harness.metrics.core.headroom import is_computed_column
from ltr_harness.metrics.core.judge_ceiling import MOST_JUDGES, JudgeValues, judge_values


def values_of(
    metric: str,
    votes: dict[str, dict[str, list[float]]],
    ranking: dict[str, list[str]],
) -> JudgeValues | None:
    """The values of a ranking, best first, by the votes: query to document to the grade of each judge."""
    order = [(query, document) for query, documents in ranking.items() for document in documents]
    scores = np.array([-place for documents in ranking.values() for place in range(len(documents))], float)
    # the judges one after the other, as their files lie
    rows = [
        (judge, query, document, grade)
        for query, documents in votes.items()
        for document, grades in documents.items()
        for judge, grade in enumerate(grades)
    ]
    truth = pd.DataFrame(sorted(rows), columns=["judge", "query_id", "document_id", "grade"])
    frame = pd.DataFrame(order, columns=["query_id", "document_id"]).assign(x=0.0)
    data = from_frame(frame, judgments=truth.drop(columns="judge"), several="majority")
    assert data.raw_judgments is not None
    resolved = parse_metric(metric).resolved(data.judgments.pool)
    return judge_values(resolved, data.judgments, data.raw_judgments, scores)


def test_two_judges_by_hand() -> None:
    votes = {
        # each prefers another document: the ranking by the one ties the others
        "q": {"a": [1.0, 0.0], "b": [0.0, 1.0], "c": [0.0, 0.0]},
        # d has one judgment and is left out, for the ranking as for the judge
        "r": {"d": [1.0], "e": [1.0, 1.0], "f": [0.0, 0.0]},
        "s": {"g": [1.0], "h": [0.0]},
    }
    found = values_of("mrr", votes, {"q": ["a", "b", "c"], "r": ["f", "d", "e"], "s": ["g", "h"]})
    assert found is not None
    # by either judge the other's first document is irrelevant, and the relevant one ties for places 2 and 3
    np.testing.assert_allclose(found.another_judge, [(1 / 2 + 1 / 3) / 2, 1.0, np.nan], rtol=1e-14)
    # a is first: 1 by the first judge, b second: 1/2 by the second one
    np.testing.assert_allclose(found.ranking, [(1 + 1 / 2) / 2, 1 / 2, np.nan], rtol=1e-14)


def test_a_query_without_such_a_document_has_no_value_whatever_the_metric_gives_an_empty_one() -> None:
    votes = {"q": {"a": [1.0, 1.0], "b": [0.0, 0.0]}, "s": {"g": [1.0], "h": [0.0]}}
    found = values_of("mrr(empty=zero)", votes, {"q": ["a", "b"], "s": ["g", "h"]})
    assert found is not None
    np.testing.assert_equal(found.another_judge, [1.0, np.nan])
    np.testing.assert_equal(found.ranking, [1.0, np.nan])


def test_judges_take_turns_where_documents_have_different_numbers_of_judgments() -> None:
    found = values_of("mrr", {"q": {"a": [1.0, 0.0, 1.0], "b": [0.0, 1.0]}}, {"q": ["a", "b"]})
    assert found is not None
    # graded 1, 0 and ranked by 0, 1; graded 0, 1 and ranked by 1, 0; graded 1, 0 and ranked by 1, 1, a tie
    np.testing.assert_allclose(found.another_judge, [(1 / 2 + 1 / 2 + (1 + 1 / 2) / 2) / 3], rtol=1e-14)
    np.testing.assert_allclose(found.ranking, [(1 + 1 / 2 + 1) / 3], rtol=1e-14)


def test_missed_documents_are_relevant_and_have_no_rank() -> None:
    votes = {
        "q": {"m": [1.0, 1.0], "a": [1.0, 0.0], "b": [0.0, 1.0]},
        "p": {"x": [0.0, 0.0], "z": [0.0, 0.0]},
    }
    found = values_of("recall@1", votes, {"p": ["x"], "q": ["a", "b"]})
    assert found is not None
    # of query q, m and a are relevant by the first judge, m and b by the second; the other's favourite is neither
    assert found.another_judge.tolist()[1] == 0
    assert found.ranking.tolist()[1] == (1 / 2 + 0) / 2


def test_a_metric_of_another_tie_rule_has_exact_ties_for_the_judge_alone() -> None:
    votes = {"q": {"a": [1.0, 0.0], "b": [0.0, 1.0], "c": [0.0, 0.0]}}
    found = values_of("mrr(ties=worst)", votes, {"q": ["a", "b", "c"]})
    assert found is not None
    assert found.another_judge[0] == pytest.approx(5 / 12)


def test_what_has_no_ceiling() -> None:
    votes = {"q": {"a": [1.0, 0.0], "b": [0.0, 1.0]}}
    assert values_of("brier", votes, {"q": ["a", "b"]}) is None, "its best order is not by label"
    # the majority of 0, 3 is 0: no metric on the scale of the labels takes a 3
    assert values_of("err(max_grade=2)", {"q": {"a": [0.0, 3.0], "b": [1.0, 2.0]}}, {"q": ["a", "b"]}) is None
    undefined = values_of("mrr", {"q": {"a": [1.0], "b": [0.0, 0.0]}, "r": {"c": [1.0]}}, {"r": ["c"]})
    assert undefined is not None
    assert np.isnan(undefined.another_judge).all()


def test_the_first_judgments_of_a_document_count() -> None:
    many = [1.0, 0.0] * MOST_JUDGES
    few = {"q": {"a": many[:MOST_JUDGES], "b": [0.0, 1.0]}}
    more = {"q": {"a": many[:MOST_JUDGES] + [1.0] * 5, "b": [0.0, 1.0]}}
    first, second = (values_of("mrr", votes, {"q": ["b", "a"]}) for votes in (few, more))
    assert first is not None
    assert second is not None
    assert first.ranking.tolist() == second.ranking.tolist()
    assert first.another_judge.tolist() == second.another_judge.tolist()


def test_its_columns_are_no_facts_to_cut_queries_by() -> None:
    columns = JudgeValues(np.array([0.5]), np.array([0.7])).columns("ndcg@10")
    assert all(map(is_computed_column, columns))
    assert columns == {"ndcg@10: by one judge": 0.5, "ndcg@10: another judge": 0.7}


def sampled(n_queries: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """The (n_queries,) values of a model and of another judge, where two judges see one utility with noise."""
    n = 8
    utility = rng.normal(size=n_queries * n) + np.repeat(rng.normal(size=n_queries), n)
    grades = np.clip(np.round(utility + 0.7 * rng.normal(size=(2, utility.size))), 0, 3)
    judgments = Judgments.checked(grades.min(axis=0), QueryGroups.from_sizes([n] * n_queries))
    places, queries = np.tile(np.arange(n), n_queries), np.repeat(np.arange(n_queries), n)
    raw = RawJudgments(np.repeat(queries, 2), np.repeat(places, 2), grades.T.reshape(-1))
    scores = utility + 0.5 * rng.normal(size=utility.size)
    found = judge_values(parse_metric("ndcg@5"), judgments, raw, scores)
    assert found is not None
    return found.ranking, found.another_judge


@pytest.mark.long
@pytest.mark.parametrize(
    ("n_samples", "n_of_truth"), [(200, 20_000), pytest.param(400, 100_000, marks=pytest.mark.slow)]
)
def test_its_interval_and_that_of_the_distance_hold_in_a_simulated_world(
    n_samples: int, n_of_truth: int
) -> None:
    rng = np.random.default_rng(7)
    model, judge = (float(np.nanmean(values)) for values in sampled(n_of_truth, rng))
    assert model - judge > 0.01, "the model learned the utility, of which a judge sees one noisy grade"
    of_model, of_judge = np.array([sampled(80, rng) for _ in range(n_samples)]).transpose(1, 2, 0)
    for values, truth in ((of_judge, judge), (of_model - of_judge, model - judge)):
        low, high = mean_intervals(ClusterSums.of(values), Method(test="t"))
        assert 0.92 < np.mean((low <= truth) & (truth <= high)) < 0.98
