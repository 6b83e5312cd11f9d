"""`evaluate_runs`: other tools' judgments and rankings, the numbers those tools print, ready for `compare`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ltr_harness
from ltr_harness import compare, evaluate_runs
from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.errors import DataError, UsageError

Nested = dict[str, dict[str, float]]

QRELS = {"q1": {"d1": 2, "d2": 0, "d3": 1}, "q2": {"d1": 1, "d4": 0}, "q3": {"d1": 0}}
RUN = {"q1": {"d2": 3.0, "d1": 2.0, "d9": 2.0}, "q2": {"d4": 1.0, "d1": 0.5}, "q9": {"d1": 1.0}}


@pytest.fixture(scope="module")
def qrels_and_runs() -> tuple[dict[str, dict[str, int]], dict[str, Nested]]:
    """30 queries, unjudged and unlisted documents, equal scores; one run lacks a query."""
    rng = np.random.default_rng(7)
    qrels, first, second = {}, {}, {}
    for query in map(str, range(30)):
        documents = [f"d{number}" for number in rng.permutation(40)]
        qrels[query] = {document: int(rng.integers(0, 3)) for document in documents[:20]}
        first[query] = {document: float(rng.integers(0, 9)) / 8 for document in documents[10:35]}
        second[query] = {document: float(rng.normal()) for document in documents[5:30]}
    del second["3"]
    return qrels, {"first": first, "second": second}


def test_by_hand() -> None:
    ev = evaluate_runs(QRELS, RUN, ["recall@2", "mrr(ties=id)"])
    assert list(ev) == ["run"]
    # q1: d2, then d9 before d1 by id, descending: of d1 and d3 none within 2; q2: d4, d1; q3 has no run, q9 no judgment
    assert ev["run"].query_ids.tolist() == ["q1", "q2"]
    assert ev["run"]["mrr(ties=id)"].per_query.tolist() == [1 / 3, 1 / 2]
    assert ev["run"]["recall@2"].per_query.tolist() == [0.25, 1.0]  # d1 and d9 tie for rank 2
    assert ev.recognised == (
        "qrels: dict {query: {document: grade}}: 3 queries, 6 judgments",
        "run: dict {query: {document: score}}: 3 queries, 6 rows",
    )
    assert [note.partition(":")[2] for note in map(str, ev.cautions)] == [
        " 1 of its 3 queries are not in the qrels and are left out: q9",
        " 1 of the 3 queries of the qrels are not in the run and are left out (--all-queries counts them): q3",
    ]
    assert evaluate_runs(QRELS, RUN, "mrr(empty=zero)", all_queries=True)["run"].query_ids.size == 3


def test_the_numbers_are_pytrec_evals(
    qrels_and_runs: tuple[dict[str, dict[str, int]], dict[str, Nested]],
) -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval", reason="needs pytrec-eval-terrier (the extra `oracles`)")
    qrels, runs = qrels_and_runs
    theirs = {
        "ndcg_cut_5": "ndcg_cut.5",
        "map": "map",
        "recip_rank": "recip_rank",
        "bpref": "bpref",
        "P_5": "P.5",
    }
    ours = {
        "ndcg_cut_5": "ndcg(as=pytrec_eval)@5",
        "map": "map(as=pytrec_eval)",
        "recip_rank": "mrr(as=pytrec_eval)",
        "bpref": "bpref(as=pytrec_eval)",
        "P_5": "precision(as=pytrec_eval)@5",
    }
    ev = evaluate_runs(qrels, runs, list(ours.values()))
    for name, run in runs.items():
        found = pytrec_eval.RelevanceEvaluator(qrels, set(theirs.values())).evaluate(run)
        queries = ev[name].query_ids.tolist()
        assert set(queries) == set(found)
        for measure, metric in ours.items():
            expected = [found[query][measure] for query in queries]
            np.testing.assert_allclose(ev[name][metric].per_query, expected, rtol=0, atol=1e-12)


def test_the_numbers_are_ir_measures(
    qrels_and_runs: tuple[dict[str, dict[str, int]], dict[str, Nested]],
) -> None:
    ir_measures = pytest.importorskip("ir_measures", reason="needs ir-measures (the extra `oracles`)")
    qrels, runs = qrels_and_runs
    rows = [ir_measures.Qrel(q, d, grade) for q, inner in qrels.items() for d, grade in inner.items()]
    scored = [
        ir_measures.ScoredDoc(q, d, score) for q, inner in runs["first"].items() for d, score in inner.items()
    ]
    measures = [ir_measures.nDCG @ 10, ir_measures.AP, ir_measures.RR]
    expected = ir_measures.calc_aggregate(measures, rows, scored)
    ev = evaluate_runs(
        rows, scored, ["ndcg(as=ir_measures)@10", "map(as=ir_measures)", "mrr(as=ir_measures)"]
    )
    found = [ev["run"][metric].mean for metric in ev.metrics]
    np.testing.assert_allclose(found, [expected[one] for one in measures], rtol=0, atol=1e-12)


def test_every_form_gives_the_same_numbers(
    qrels_and_runs: tuple[dict[str, dict[str, int]], dict[str, Nested]], tmp_path: Path
) -> None:
    qrels, runs = qrels_and_runs
    judged = [(q, d, grade) for q, inner in qrels.items() for d, grade in inner.items()]
    ranked = [(q, d, score) for q, inner in runs["first"].items() for d, score in inner.items()]
    (tmp_path / "qrels.txt").write_text("".join(f"{q} 0 {d} {grade}\n" for q, d, grade in judged))
    (tmp_path / "a.run").write_text("".join(f"{q} Q0 {d} 1 {score!r} mine\n" for q, d, score in ranked))
    frames = (
        pd.DataFrame(judged, columns=["qid", "docno", "label"]),
        pd.DataFrame(ranked, columns=["qid", "docno", "score"]),
    )
    metrics = ["ndcg@10", "err(max_grade=2)@10", "map(as=trec_eval)"]
    means = [
        {metric: ev[metric].mean for metric in ev.metrics}
        for pair in (
            (qrels, runs["first"]),
            (judged, ranked),
            frames,
            (tmp_path / "qrels.txt", tmp_path / "a.run"),
        )
        for ev in evaluate_runs(*pair, metrics).values()
    ]
    assert len(means) == 4
    assert all(one == means[0] for one in means)


def test_whose_metric_it_is_is_said() -> None:
    ev = evaluate_runs(QRELS, RUN, ["P_2", "mrr"])
    assert ev.metrics[0] == "precision(empty=zero,ties=id)@2"
    assert ev["run"].means["P_2"] == ev["run"]["precision(as=trec_eval)@2"].mean
    assert str(ev.cautions[0]) == "P_2 of trec_eval is precision(empty=zero,ties=id)@2"
    assert len(ev.cautions) == 3  # and the two of queries


def test_names(tmp_path: Path) -> None:
    (tmp_path / "a.run").write_text("q1 Q0 d1 1 1.0 mine\n")
    (tmp_path / "b.run").write_text("q1 Q0 d2 1 1.0 mine\n")
    table = pd.DataFrame({"qid": ["q1"], "docno": ["d1"], "score": [1.0]})

    def names(runs: object) -> list[str]:
        return list(evaluate_runs(QRELS, runs, "mrr"))

    assert names(tmp_path / "a.run") == ["mine"]
    assert names([tmp_path / "a.run", tmp_path / "b.run"]) == ["a", "b"]  # one tag for both
    assert names([RUN, table]) == ["run 1", "run 2"]
    assert names({"bm25": RUN, 7: tmp_path / "a.run"}) == ["bm25", "7"]
    with pytest.raises(UsageError, match="no run to evaluate"):
        names([])


def test_names_that_are_one_as_text_are_refused() -> None:
    with pytest.raises(UsageError) as refused:
        evaluate_runs(QRELS, {1: RUN, "1": RUN, "2": RUN}, ["mrr"])
    found = "runs['1']: several runs have this name as text; expected a different name for each run"
    assert str(refused.value) == found


def test_problems_of_all_runs_come_at_once() -> None:
    bad = {"a": {"q1": {"d1": float("nan")}}, "b": {"q1": {"": 1.0}}, "c": RUN}
    with pytest.raises(DataError) as error:
        evaluate_runs(QRELS, bad, "mrr")
    assert [problem.place for problem in error.value.problems] == ["a['q1']['d1']", "b['q1']['']"]
    with pytest.raises(
        DataError, match="run: has no query of qrels: its queries are 8, those of the qrels q1, q2, q3"
    ):
        evaluate_runs(QRELS, {"8": {"d1": 1.0}}, "mrr")


@pytest.mark.long
def test_real_grades_and_the_scale() -> None:
    implicit = {"q1": {"d1": 0.25, "d2": 1.5}}
    ev = evaluate_runs(implicit, {"q1": {"d1": 2.0, "d2": 1.0}}, ["ndcg(gain=linear)", "err"])["run"]
    discount = 1 / np.log2(3)
    assert ev["ndcg(gain=linear)"].mean == pytest.approx(
        (0.25 + 1.5 * discount) / (1.5 + 0.25 * discount), abs=1e-15
    )
    ev = evaluate_runs(QRELS, RUN, "err@10")
    assert ev.metrics == ("err(max_grade=2)@10",)
    assert str(ev.cautions[0]) == "max_grade is 2, the largest grade of qrels; max_grade=… sets another"
    assert evaluate_runs(QRELS, RUN, "err@10", max_grade=4).metrics == ("err(max_grade=4)@10",)


def test_what_it_shows() -> None:
    ev = evaluate_runs(QRELS, {"a": RUN, "b": RUN}, ["mrr", "recall@2"])
    assert str(ev).splitlines()[:6] == [
        "run     mrr  recall@2  queries",
        "a    0.4583    0.6250        2",
        "b    0.4583    0.6250        2",
        "judged of the ranked documents: a 83 %, b 83 %",
        "judged of the first 2: a 88 %, b 88 %",  # ties in expectation
        "qrels: dict {query: {document: grade}}: 3 queries, 6 judgments",
    ]
    assert ev.frame().loc["a", "mrr"] == ev["a"].means["mrr"]
    assert "<table" in ev._repr_html_()
    assert "dict {query: {document: grade}}" in ev._repr_html_()
    skipped = evaluate_runs(QRELS, RUN, ["mrr", "mrr(empty=zero)"], all_queries=True)
    assert "2 to 3 of 3" in str(skipped)


# --- compare


def test_runs_are_compared_whatever_they_bring_along(
    qrels_and_runs: tuple[dict[str, dict[str, int]], dict[str, Nested]],
) -> None:
    """Their pools differ by what nobody judged; the judgments are the same, and so they may be compared."""
    qrels, runs = qrels_and_runs
    runs = {**runs, "first": {query: run for query, run in runs["first"].items() if query != "3"}}
    ev = evaluate_runs(qrels, runs, ["ndcg@10"])
    assert ev["first"].judgments_fingerprint == ev["second"].judgments_fingerprint
    result = compare(ev, draws=100)
    assert result.models == ("first", "second")
    assert (
        compare(runs, qrels=qrels, metrics=["ndcg@10"], draws=100).paired("second").p
        == result.paired("second").p
    )
    pair = compare(runs["first"], runs["second"], qrels=qrels, metrics="ndcg@10", baseline="run 2", draws=100)
    assert pair.paired("run 1").difference == -result.paired("second").difference
    assert "first: dict {query: {document: score}}: 29 queries, 725 rows" in [*map(str, result.cautions)]
    assert "rows" not in result.systems[0].query_attributes
    with pytest.raises(UsageError, match="compare with qrels and without metrics"):
        compare(runs, qrels=qrels)


def test_a_ranking_without_judgments_has_a_cure() -> None:
    with pytest.raises(
        UsageError, match=r"cannot compare 'float' .*a ranking needs its judgments: compare\(…, qrels=…\)"
    ):
        compare(RUN)
    table = pd.DataFrame({"qid": ["q1"], "docno": ["d1"], "score": [1.0]})
    with pytest.raises(
        DataError, match=r"no column is a metric .*; a ranking needs its judgments: --qrels FILE"
    ):
        compare(table)


@pytest.mark.long
def test_the_command_reads_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("test.tsv").write_text("query-id\tcorpus-id\tscore\n1\ta\t1\n1\tb\t0\n")
    Path("marco.tsv").write_text("1\tb\t1\n1\ta\t2\n")
    Path("res.csv").write_text("qid,docno,score\n1,a,2.5\n1,b,1\n")
    command = "evaluate --qrels test.tsv --run marco.tsv --run res.csv -m mrr --format csv"
    assert run_command(cli, command.split()) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [
        "ranking,metric,mean,n_queries,n_undefined",
        "marco,mrr,0.5,1,0",
        "res,mrr,1.0,1,0",
    ]
    assert printed.err.splitlines() == [
        "note: test.tsv: tab-separated table (query-id, corpus-id, score): 1 query, 2 judgments",
        "note: marco: MS MARCO run (query document rank): 1 query, 2 rows",
        "note: res: comma-separated table (qid, docno, score): 1 query, 2 rows",
    ]
    assert run_command(cli, ["compare", "marco.tsv", "res.csv", "--qrels", "test.tsv", "-m", "mrr"]) == 0
    assert (
        run_command(cli, ["explain", "mrr", "--query", "1", "--qrels", "test.tsv", "--run", "marco.tsv"]) == 0
    )


def test_it_is_public(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "evaluate_runs" in ltr_harness.__all__
    read: Callable[..., object] = ltr_harness.evaluate_runs
    assert read is evaluate_runs
