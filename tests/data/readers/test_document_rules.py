"""Chunks count as their documents, and excluded documents count nowhere: by hand, and by the rules of other tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from ltr_harness import compare, evaluate_runs
from ltr_harness.cli import cli
from ltr_harness.data.readers import document_rules
from ltr_harness.errors import DataError, NotComparableError, UsageError
from tests.conftest import examples, named_case

RELEVANT = {"q1": {"d1", "d3"}, "q2": {"d1"}}
CHUNKS = {"q1": ["d2#1", "d2#2", "d1#1", "d1#2", "d3#0"], "q2": ["d9#0", "d9#4", "d1#0", "d4"]}
OF_CHUNK = {chunk: chunk.partition("#")[0] for ids in CHUNKS.values() for chunk in ids}


def means(
    qrels: Any, run: Any, metrics: tuple[str, ...] = ("mrr", "recall@2"), **options: Any
) -> list[float]:
    (evaluation,) = evaluate_runs(qrels, run, list(metrics), **options).values()
    return [float(evaluation.means[metric]) for metric in metrics]


def notes(qrels: Any, run: Any, **options: Any) -> str:
    return str(evaluate_runs(qrels, run, ["mrr"], **options))


def test_a_document_counts_at_its_first_chunk(tmp_path: Path) -> None:
    """Documents: d2, d1, d3 and d9, d1, d4."""
    file = tmp_path / "chunks.tsv"
    file.write_text("".join(f"{chunk}\t{document}\n" for chunk, document in OF_CHUNK.items()))
    for documents_of in ("#", OF_CHUNK, file, str(file)):
        assert means(RELEVANT, CHUNKS, documents_of=documents_of) == [0.5, 0.75]
    assert "9 chunks of 6 documents" in notes(RELEVANT, CHUNKS, documents_of="#")


def test_k_counts_chunks_where_asked() -> None:
    """d1 is at rank 3 of either list; its later chunk earns nothing."""
    assert means(RELEVANT, CHUNKS, documents_of="#", within="chunks") == pytest.approx([1 / 3, 0])
    (recall,) = means(RELEVANT, CHUNKS, metrics=("recall@3",), documents_of="#", within="chunks")
    assert recall == 0.75
    (judged,) = means(RELEVANT, CHUNKS, metrics=("judged@4",), documents_of="#", within="chunks")
    assert judged == (2 / 4 + 1 / 4) / 2  # both chunks of d1, for q2 one


def test_the_text_is_split_where_it_stands_last() -> None:
    assert means({"q": {"page#intro"}}, {"q": ["page#intro#2", "page#3"]}, documents_of="#") == [1, 1]


def test_ids_that_repeat_are_one_document_and_refused_without_a_word() -> None:
    lists = {"q1": ["d2", "d2", "d1"], "q2": ["d1", "d1"]}
    assert means(RELEVANT, lists, documents_of="#") == [0.75, 0.75]
    with pytest.raises(DataError, match="count a document at its first chunk with documents_of='#'"):
        evaluate_runs(RELEVANT, lists, ["mrr"])


@pytest.mark.long
@examples(60)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=15, unique=True))
def test_max_passage_as_pyserini_has_it(chunks: list[tuple[int, int]]) -> None:
    """Pyserini's rule: keep the first hit of each document and number the ranks anew."""
    listed = [f"d{document}#{passage}" for document, passage in chunks]
    first = list(dict.fromkeys(f"d{document}" for document, _ in chunks))
    grades = {"q": {"d0": 2, "d1": 1, "d3": 1}}
    metrics = ("ndcg@3", "map", "mrr", "recall@2")
    assert means(grades, {"q": listed}, metrics=metrics, documents_of="#") == means(
        grades, {"q": first}, metrics=metrics
    )
    # K chunks: a later chunk takes the place that any other document would take
    filled = [
        document if at == listed_documents.index(document) else f"filler {at}"
        for listed_documents in [[chunk.partition("#")[0] for chunk in listed]]
        for at, document in enumerate(listed_documents)
    ]
    within = means(grades, {"q": listed}, metrics=metrics, documents_of="#", within="chunks")
    assert within == means(grades, {"q": filled}, metrics=metrics)


def test_folded_lists_are_worth_what_pytrec_eval_says() -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval")
    rng = np.random.default_rng(3)
    grades = {f"q{q}": {f"d{d}": int(rng.integers(0, 3)) for d in range(12)} for q in range(8)}
    scores = {
        query: {f"d{rng.integers(0, 16)}#{at}": float(rng.normal()) for at in range(30)} for query in grades
    }
    folded: dict[str, dict[str, float]] = {}
    for query, chunks in scores.items():
        for chunk, score in chunks.items():
            document = chunk.partition("#")[0]
            folded.setdefault(query, {})
            folded[query][document] = max(score, folded[query].get(document, -np.inf))
    names = ("ndcg_cut_10", "map", "recip_rank")
    theirs = pytrec_eval.RelevanceEvaluator(grades, {"ndcg_cut", "map", "recip_rank"}).evaluate(folded)
    found = means(grades, scores, metrics=names, documents_of="#")
    expected = [np.mean([values[name] for values in theirs.values()]) for name in names]
    assert found == pytest.approx(expected, abs=1e-9)


def test_excluded_documents_count_nowhere(tmp_path: Path) -> None:
    """BRIGHT takes them out of the ranking; here out of the judgments as well."""
    file = tmp_path / "excluded.txt"
    file.write_text("q1 d2\nq1 d3\n")
    forms = [{"q1": ["d2", "d3"]}, {"q1": {"d2": 1, "d3": 1}}, [("q1", "d2"), ("q1", "d3")], file, str(file)]
    lists = {"q1": ["d2", "d4", "d1"], "q2": ["d1", "d2"]}
    for exclude in forms:
        assert means(RELEVANT, lists, exclude=exclude) == [0.75, 1]
    found = notes(RELEVANT, lists, exclude=file)
    assert "1 excluded document was taken out of its lists" in found
    assert "1 judgment of excluded documents is left out" in found


def test_bright_and_beir_leave_out_the_same_documents() -> None:
    """Their loops, by hand: `del scores[doc]` for excluded ids, `pop` for the document that is the query."""
    rng = np.random.default_rng(5)
    queries = [f"x{at}" for at in range(6)]
    grades = {
        query: {f"x{d}": int(rng.integers(0, 2)) for d in range(20) if f"x{d}" != query} for query in queries
    }
    scores = {query: {f"x{d}": float(rng.normal()) for d in range(20)} for query in queries}
    excluded = {query: [f"x{d}" for d in rng.choice(np.arange(10, 20), 3)] for query in queries}
    bright = {
        query: {d: s for d, s in row.items() if d not in excluded[query]} for query, row in scores.items()
    }
    kept = {
        query: {d: g for d, g in row.items() if d not in excluded[query]} for query, row in grades.items()
    }
    metrics = ("ndcg@5", "map")
    assert means(grades, scores, metrics=metrics, exclude=excluded) == means(kept, bright, metrics=metrics)
    beir = {query: {d: s for d, s in row.items() if d != query} for query, row in scores.items()}
    found = means(grades, scores, metrics=metrics, ignore_query_itself=True)
    assert found == means(grades, beir, metrics=metrics)


def test_a_query_of_which_every_judgment_is_excluded_is_left_out() -> None:
    found = notes(RELEVANT, CHUNKS, documents_of="#", exclude={"q2": ["d1"]})
    assert "and with them 1 query that has no other" in found
    with pytest.raises(DataError, match="all judged documents are excluded"):
        evaluate_runs({"q2": ["d1"]}, CHUNKS, ["mrr"], documents_of="#", exclude={"q2": ["d1"]})


def test_a_file_of_chunks_skips_nothing_and_contradicts_itself_nowhere(tmp_path: Path) -> None:
    file = tmp_path / "chunks.tsv"
    file.write_text("#1\ta\n#2\tb\n#1\ta\n")
    assert means({"q": {"b"}}, {"q": ["#1", "#2"]}, documents_of=file) == [0.5, 1]
    file.write_text("#1\ta\n#2\tb\n#1\tb\n")
    with pytest.raises(
        DataError, match="chunk '#1' is of 'a' and of 'b'; expected one document for each chunk"
    ):
        evaluate_runs({"q": {"b"}}, {"q": ["#1", "#2"]}, ["mrr"], documents_of=file)


def test_no_rule_looks_at_no_document(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of documents are made on request: runs of millions of lines have no use for them."""
    monkeypatch.setattr(document_rules, "_texts", lambda table: pytest.fail("names were made"))
    assert means(RELEVANT, {"q1": ["d2", "d1"], "q2": ["d1"]}) == [0.75, 0.75]


def test_rankings_under_other_rules_are_not_compared() -> None:
    """The documents that K counts, and those left out, are part of a metric's meaning."""
    folded = evaluate_runs(RELEVANT, {"a": CHUNKS}, ["mrr"], documents_of="#")["a"]
    within = evaluate_runs(RELEVANT, {"b": CHUNKS}, ["mrr"], documents_of="#", within="chunks")["b"]
    excluded = evaluate_runs(RELEVANT, {"c": CHUNKS}, ["mrr"], documents_of="#", exclude={"q1": ["d2"]})["c"]
    for other in (within, excluded):
        with pytest.raises(NotComparableError):
            compare({"a": folded, "b": other}, metrics=["mrr"])
    alike = evaluate_runs(RELEVANT, {"b": CHUNKS}, ["mrr"], documents_of="#")["b"]
    assert compare({"a": folded, "b": alike}, metrics=["mrr"]).n_queries == 2


@pytest.mark.usefixtures("empty_pictures")
def test_a_saved_comparison_keeps_the_rules(tmp_path: Path) -> None:
    """The frozen baseline of a gate is not compared with what was counted otherwise."""
    files: dict[str, Any] = {"gold.json": RELEVANT, "old.json": CHUNKS, "new.json": CHUNKS}
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps({query: list(ids) for query, ids in content.items()}))
    old, new, qrels = (str(tmp_path / name) for name in ("old.json", "new.json", "gold.json"))
    base = ["--qrels", qrels, "-m", "mrr", "--documents-of", "#", "-o", str(tmp_path / "base")]
    saved = CliRunner().invoke(cli, ["compare", old, *base])
    assert saved.exit_code == 0, saved.output
    with_baseline = [
        "compare",
        str(tmp_path / "base"),
        new,
        "--qrels",
        qrels,
        "-m",
        "mrr",
        "--documents-of",
        "#",
    ]
    alike = CliRunner().invoke(cli, with_baseline, standalone_mode=False)
    assert alike.exception is None, alike.output
    other = CliRunner().invoke(cli, [*with_baseline, "--within", "chunks"], standalone_mode=False)
    assert "other documents count" in str(other.exception)


REFUSED_RULES = [
    ({"documents_of": "::"}, UsageError, "no id of run has '::'"),
    ({"documents_of": 5}, UsageError, "documents_of: is 5"),
    ({"documents_of": ""}, UsageError, "documents_of: is ''"),
    ({"documents_of": {"d2#1": "d2"}}, DataError, "8 ids of run have no document: d1#0"),
    ({"within": "chunks"}, UsageError, "within='chunks' without documents_of"),
    ({"within": "words", "documents_of": "#"}, UsageError, "expected 'documents' or 'chunks'"),
    ({"documents_of": "#", "exclude": 3}, UsageError, "exclude: is a int"),
    ({"documents_of": "#", "exclude": ["q1 d2"]}, DataError, "exclude: row 1: is 'q1 d2'"),
    ({"documents_of": "#", "exclude": {"q1": "d2"}}, DataError, "exclude['q1']: holds str"),
    ({"documents_of": "#", "exclude": "nowhere.txt"}, DataError, "nowhere.txt"),
]


def test_rules_that_cannot_be() -> None:
    for options, error, message in REFUSED_RULES:
        with named_case(message):
            with pytest.raises(error) as caught:
                evaluate_runs(RELEVANT, CHUNKS, ["mrr"], **options)
            assert message in str(caught.value)


def test_the_commands_have_the_rules(tmp_path: Path) -> None:
    run, qrels, excluded = tmp_path / "new.jsonl", tmp_path / "gold.jsonl", tmp_path / "excluded.txt"
    run.write_text(
        '{"query_id": "q1", "retrieved": ["d2#1", "d2#2", "d1#1"]}\n{"query_id": "q2", "retrieved": ["d1"]}\n'
    )
    qrels.write_text('{"query_id": "q1", "relevant": ["d1"]}\n{"query_id": "q2", "relevant": ["d1"]}\n')
    excluded.write_text("q1 d2\n")
    files = ["--qrels", str(qrels), "--run", str(run), "-m", "mrr", "--documents-of", "#"]
    for options, mean in (
        ([], "0.7500"),
        (["--within", "chunks"], "0.6667"),
        (["--exclude", str(excluded)], "1.0000"),
    ):
        found = CliRunner().invoke(cli, ["evaluate", *files, *options])
        assert found.exit_code == 0, found.output
        assert f"mrr    {mean}" in found.output
    other = tmp_path / "old.jsonl"
    other.write_text(run.read_text().replace("d1#1", "d7#1"))
    arguments = ["compare", str(other), str(run), "--qrels", str(qrels), "-m", "mrr", "--documents-of", "#"]
    gate = CliRunner().invoke(cli, [*arguments, "--fail-if", "judged@2 of new < 0.8"], standalone_mode=False)
    assert "new: judged@2 0.7500 < 0.8" in str(gate.exception)


def test_options_of_rankings_without_them_are_refused(tmp_path: Path) -> None:
    data = tmp_path / "data.csv"
    data.write_text("query_id,label,f\nq,1,2\n")
    found = CliRunner().invoke(
        cli,
        ["evaluate", "--data", str(data), "--scores", str(data), "--documents-of", "#"],
        standalone_mode=False,
    )
    assert "--documents-of with --data; --documents-of goes with --qrels" in str(found.exception)
