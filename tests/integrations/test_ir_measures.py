"""Our metrics in ir_measures and PyTerrier: the values of `evaluate_runs`, under names of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ltr_harness import evaluate_runs
from ltr_harness.errors import DataError, MetricError, MissingExtraError
from ltr_harness.integrations.ir_measures import measure

pytestmark = pytest.mark.long

ir_measures = pytest.importorskip("ir_measures", reason="needs ir_measures (the extra `oracles`)")

METRICS = ["ndcg@10", "mrr", "map(empty=zero)", "err(max_grade=3)@5", "judged@10"]


@pytest.fixture(scope="module")
def qrels_and_ranking() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Judgments and a ranking with many ties: queries of one side alone, and queries without relevant documents."""
    rng = np.random.default_rng(2)
    pairs = [(query, document) for query in range(30) for document in range(12)]
    judged = pd.DataFrame(pairs, columns=["query_id", "doc_id"]).astype(str)
    judged["relevance"] = rng.integers(0, 4, len(judged)) * (rng.random(len(judged)) < 0.15)
    run = judged.drop(columns="relevance").assign(score=rng.integers(0, 5, len(judged)).astype(float))
    judged, run = judged.sample(frac=0.8, random_state=1), run.sample(frac=0.8, random_state=2)
    return judged[judged["query_id"] != "3"], run[run["query_id"] != "7"]


FORMS: dict[str, Callable[[pd.DataFrame, type], Any]] = {
    "table": lambda table, kind: table,
    "named tuples": lambda table, kind: (kind(*row) for row in table.itertuples(index=False)),
    "dict": lambda table, kind: {
        query: dict(zip(rows["doc_id"], rows.iloc[:, -1].tolist(), strict=True))
        for query, rows in table.groupby("query_id")
    },
}


@pytest.mark.parametrize("form", FORMS)
def test_values_are_those_of_evaluate_runs(
    form: str, qrels_and_ranking: tuple[pd.DataFrame, pd.DataFrame]
) -> None:
    found = evaluate_runs(qrels_and_ranking[0], {"run": qrels_and_ranking[1]}, METRICS, all_queries=True)[
        "run"
    ]
    assert 0 < found["ndcg@10"].n_undefined < found["ndcg@10"].n_queries == 29
    qrels, run = (
        FORMS[form](qrels_and_ranking[0], ir_measures.Qrel),
        FORMS[form](qrels_and_ranking[1], ir_measures.ScoredDoc),
    )
    means, values = ir_measures.calc([measure(name) for name in METRICS], qrels, run)
    assert {str(name) for name in means} == {f"LTR({name})" for name in METRICS}
    for name in METRICS:
        assert means[measure(name)] == pytest.approx(found.means[name], rel=1e-14)
        own = {one.query_id: one.value for one in values if one.measure == measure(name)}
        expected = found[name].per_query
        np.testing.assert_array_equal([own[query] for query in found.query_ids.tolist()], expected)


def test_beside_measures_of_ir_measures(qrels_and_ranking: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    theirs = ir_measures.nDCG @ 10
    same = measure("ndcg(as=ir_measures)@10")
    found = ir_measures.calc_aggregate([theirs, same, measure("ndcg@10")], *qrels_and_ranking)
    assert found[same] == pytest.approx(found[theirs], abs=1e-7)  # they hold scores as float32
    assert abs(found[measure("ndcg@10")] - found[theirs]) > 0.01  # what ties, gain and empty queries change


def test_two_tied_documents_by_hand() -> None:
    qrels, run = {"q": {"a": 0, "b": 1}}, {"q": {"a": 0.5, "b": 0.5}}
    assert measure("mrr").calc_aggregate(qrels, run) == (1 + 1 / 2) / 2
    assert measure("mrr").calc_aggregate({**qrels, "none": {"a": 0}, "lacking": {"a": 1}}, run) == 0.75 / 2


def test_a_ranking_without_rows_is_an_empty_one() -> None:
    qrels = {"q": {"a": 1}, "none": {"a": 0}}
    assert measure("mrr").calc_aggregate(qrels, []) == 0
    none = pd.DataFrame([], columns=["query_id", "doc_id", "score"])
    values = {one.query_id: one.value for one in measure("mrr").iter_calc(qrels, none)}
    assert values["q"] == 0
    assert np.isnan(values["none"])


@pytest.mark.parametrize(
    ("metric", "run", "error", "said"),
    [
        ("nDGC@10", {}, MetricError, "unknown metric 'nDGC'"),
        ("err@5", {}, MetricError, "expected max_grade, as in err(max_grade=4)@5"),
        ("mrr", {"9": {"a": 1.0}}, DataError, "run: has no query of qrels"),
        ("mrr", {"q": {"a": float("nan")}}, DataError, "run: row 1: the score is missing"),
        ("mrr", {"q": {"": 1.0}}, DataError, "the document is missing"),
    ],
)
def test_what_is_refused(metric: str, run: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error) as refused:
        measure(metric).calc_aggregate({"q": {"a": 1}}, run)
    assert said in str(refused.value)


def test_without_ir_measures_the_cure_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ir_measures", None)
    with pytest.raises(MissingExtraError, match="pip install"):
        measure("mrr")


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_an_experiment_of_pyterrier() -> None:
    """Whole and in batches, with a query that no ranking has."""
    pt = pytest.importorskip("pyterrier", reason="needs PyTerrier: pip install python-terrier")
    topics = pd.DataFrame({"qid": ["q1", "q2", "q9"], "query": ["one", "two", "nine"]})
    qrels = pd.DataFrame(
        {"qid": ["q1", "q1", "q2", "q9"], "docno": ["d1", "d2", "d3", "d1"], "label": [0, 1, 1, 1]}
    )
    bm25 = pd.DataFrame(
        {"qid": ["q1", "q1", "q2"], "docno": ["d1", "d2", "d3"], "score": [9.5, 9.5, 3.0], "rank": [0, 1, 0]}
    )
    whole, batches = (
        pt.Experiment(
            [pt.Transformer.from_df(bm25)],
            topics,
            qrels,
            [measure("mrr")],
            ["bm25"],
            batch_size=size,
            filter_by_topics=False,
        )
        for size in (None, 2)
    )
    assert whole["LTR(mrr)"].tolist() == batches["LTR(mrr)"].tolist() == [(0.75 + 1 + 0) / 3]
