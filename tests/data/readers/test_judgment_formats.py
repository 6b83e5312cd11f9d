"""Judgments and rankings of other tools: told by what they are, read to the same rows, refused with their place."""

from __future__ import annotations

import contextlib
import functools
import gzip
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltr_harness.data.readers import text_files as cost
from ltr_harness.data.readers.judgment_formats import qrels_of, run_of
from ltr_harness.data.readers.judgment_objects import is_single_source
from ltr_harness.data.readers.trec import Qrels, TrecRun
from ltr_harness.errors import DataError, UsageError
from tests.conftest import named_case

Write = Callable[..., Path]

GRADES = {"q1": {"d1": 2, "d2": 0, "d 3": -1}, "ü": {"d1": 1}}
SCORES = {"q1": {"d2": 0.1, "d1": -2.5}, "ü": {"d9": 3.0}}


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(text: str | bytes, name: str) -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write_file


def as_dict(table: Qrels | TrecRun) -> dict[str, dict[str, float]]:
    every = np.arange(table.queries.codes.size)
    values = table.grades if isinstance(table, Qrels) else table.scores
    found: dict[str, dict[str, float]] = {}
    for query, document, value in zip(
        table.queries.values_at(every).tolist(),
        table.documents.values_at(every).tolist(),
        values.tolist(),
        strict=True,
    ):
        found.setdefault(query, {})[document] = value
    return found


def rows(nested: dict[str, dict[str, Any]]) -> list[tuple[str, str, Any]]:
    return [(query, document, value) for query, inner in nested.items() for document, value in inner.items()]


def frame(nested: dict[str, dict[str, Any]], *names: str) -> pd.DataFrame:
    return pd.DataFrame(rows(nested), columns=list(names))


# --- in memory


def duckdb_relation(table: pd.DataFrame) -> Any:
    duckdb = pytest.importorskip("duckdb", reason="needs duckdb (the extra `test`)")
    return duckdb.from_arrow(pa.Table.from_pandas(table))


def polars_frame(table: pd.DataFrame) -> Any:
    polars = pytest.importorskip("polars", reason="needs polars (the extra `test`)")
    return polars.from_pandas(table)


TABLES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda table: table,
    "pyarrow": pa.Table.from_pandas,
    "polars": polars_frame,
    "polars lazy": lambda table: polars_frame(table).lazy(),
    "duckdb": duckdb_relation,
}


NAMES = [
    ("qid", "docno", "label"),  # PyTerrier
    ("query_id", "doc_id", "relevance"),  # ir_measures, ir_datasets
    ("q_id", "doc_id", "score"),  # ranx
    ("query-id", "corpus-id", "score"),  # BEIR, MTEB
    ("Query Text", "Doc ID", "Rating"),  # Quepid
    ("queryId", "docId", "judgement"),
]


@pytest.mark.parametrize(
    ("library", "names"),
    [*((library, NAMES[0]) for library in TABLES), *(("pandas", names) for names in NAMES[1:])],
)
def test_tables_of_any_library_under_the_usual_names(library: str, names: tuple[str, str, str]) -> None:
    found = qrels_of(TABLES[library](frame(GRADES, *names)))
    assert as_dict(found) == GRADES
    assert found.grades.dtype == np.int64
    assert found.form == f"{library} table ({', '.join(names)})"


@pytest.mark.parametrize("library", TABLES)
def test_rankings_in_tables(library: str) -> None:
    table = frame(SCORES, "qid", "docno", "score").assign(docid=[7, 8, 9], rank=[0, 1, 0], query="some words")
    assert as_dict(run_of(TABLES[library](table))) == SCORES  # PyTerrier's docid is a number of its own
    by_rank = run_of(TABLES[library](table.drop(columns="score")))
    assert as_dict(by_rank) == {"q1": {"d2": 0, "d1": -1}, "ü": {"d9": 0}}
    assert by_rank.form == f"{library} table (qid, docno, rank: the first is the best)"


def test_an_index_that_names_queries_is_a_column() -> None:
    assert as_dict(qrels_of(frame(GRADES, "qid", "docno", "label").set_index("qid"))) == GRADES
    assert as_dict(qrels_of(frame(GRADES, "qid", "docno", "label").set_index(["qid", "docno"]))) == GRADES


def test_dicts_and_rows() -> None:
    assert as_dict(qrels_of(GRADES)) == GRADES
    assert as_dict(run_of(rows(SCORES))) == SCORES
    assert as_dict(run_of(iter(rows(SCORES)))) == SCORES
    listed = [{"query_id": q, "doc_id": d, "relevance": v} for q, d, v in rows(GRADES)]
    assert as_dict(qrels_of(listed)) == GRADES
    numbers = {7: {np.int64(1): np.float32(0.5), 2: True}}
    assert as_dict(run_of(numbers)) == {"7": {"1": 0.5, "2": 1.0}}


@pytest.mark.long
def test_tuples_of_ir_measures_and_ir_datasets() -> None:
    ir_measures = pytest.importorskip("ir_measures", reason="needs ir-measures (the extra `oracles`)")
    qrels = [ir_measures.Qrel(*row) for row in rows(GRADES)]
    assert as_dict(qrels_of(qrels)) == as_dict(qrels_of(iter(qrels))) == GRADES
    assert qrels_of(qrels).form == "ir_measures Qrel tuples (query_id, doc_id, relevance)"
    scored = run_of([ir_measures.ScoredDoc(*row) for row in rows(SCORES)])
    assert as_dict(scored) == SCORES
    assert scored.form == "ir_measures ScoredDoc tuples (query_id, doc_id, score)"
    formats = pytest.importorskip("ir_datasets.formats", reason="needs ir-datasets (the extra `oracles`)")
    of_datasets = [formats.TrecQrel(query, document, grade, "0") for query, document, grade in rows(GRADES)]
    assert as_dict(qrels_of(of_datasets)) == GRADES


@pytest.mark.long
def test_a_data_set_of_ir_datasets(tmp_path: Path) -> None:
    ir_datasets = pytest.importorskip("ir_datasets", reason="needs ir-datasets (the extra `oracles`)")
    (tmp_path / "qrels").write_text("q1 0 d1 2\nq1 0 d2 0\n")
    data = ir_datasets.create_dataset(qrels_trec=str(tmp_path / "qrels"))
    assert as_dict(qrels_of(data)) == as_dict(qrels_of(data.qrels_iter())) == {"q1": {"d1": 2, "d2": 0}}
    assert as_dict(qrels_of(data.qrels_dict())) == {"q1": {"d1": 2, "d2": 0}}


@pytest.mark.slow  # ranx compiles for half a minute
def test_objects_and_files_of_ranx(tmp_path: Path) -> None:
    ranx = pytest.importorskip("ranx", reason="needs ranx (the extra `oracles`)", exc_type=ImportError)
    judged = {
        query: {document: abs(grade) for document, grade in inner.items()} for query, inner in GRADES.items()
    }
    qrels, run = ranx.Qrels(judged), ranx.Run(SCORES, name="mine")
    assert as_dict(qrels_of(qrels)) == judged
    assert (as_dict(run_of(run)), run_of(run).tag, run_of(run).form) == (SCORES, "mine", "ranx Run")
    with pytest.raises(DataError, match="qrels: is a ranx Run; expected ranx Qrels"):
        qrels_of(run)
    for suffix in ("json", "parquet"):
        qrels.save(str(tmp_path / f"qrels.{suffix}"))
        assert as_dict(qrels_of(tmp_path / f"qrels.{suffix}")) == judged
    for suffix in ("json", "parquet", "lz4"):
        run.save(str(tmp_path / f"run.{suffix}"))
        assert as_dict(run_of(tmp_path / f"run.{suffix}")) == SCORES


def test_judgments_of_opensearch(write: Write) -> None:
    judged = [
        {
            "query": query,
            "ratings": [{"docId": document, "rating": f"{grade}.000"} for document, grade in inner.items()],
        }
        for query, inner in GRADES.items()
    ]
    request = {"name": "imported", "type": "IMPORT_JUDGMENT", "judgmentRatings": judged}
    answer = {"took": 1, "hits": {"total": {"value": 1}, "hits": [{"_source": request}]}}
    for value in (
        request,
        answer,
        judged,
        write(json.dumps(request), "a.json"),
        write(json.dumps(judged), "b"),
    ):
        found = qrels_of(value)
        assert as_dict(found) == GRADES
        assert found.form.endswith("judgments of OpenSearch's Search Relevance Workbench")
    fractions = {"judgmentRatings": [{"query": "red dress", "ratings": [{"docId": "B07", "rating": "0.9"}]}]}
    assert as_dict(qrels_of(fractions)) == {"red dress": {"B07": 0.9}}
    with pytest.raises(DataError, match="qrels: a rating cannot be read: KeyError 'docId'; expected"):
        qrels_of({"judgmentRatings": [{"query": "q", "ratings": [{"rating": "1"}]}]})


# --- files


def test_files_are_told_by_what_is_in_them(write: Write, tmp_path: Path) -> None:
    plain = {"1": {"a": 1, "b": 0}}
    beir = "query-id\tcorpus-id\tscore\n1\ta\t1\n1\tb\t0\n"
    lines = "".join(f'{{"query-id": "1", "corpus-id": "{d}", "score": {g}}}\n' for d, g in plain["1"].items())
    files = {
        "tab-separated table (query-id, corpus-id, score)": write(beir, "test.tsv"),
        "JSON, list of dicts (query-id, corpus-id, score)": write(lines, "test.jsonl"),
        "JSON, dict {query: {document: grade}}": write(json.dumps(plain), "qrels.json"),
        "comma-separated table (query, docid, rating)": write(
            "query,docid,rating\n1,a,1\n1,b,0\n", "quepid.csv"
        ),
        "semicolon-separated table (qid, docno, label)": write("qid;docno;label\n1;a;1\n1;b;0\n", "semi.csv"),
        "NTCIR qrels (query document L2)": write("1 a L1\n1 b L0\n", "ntcir"),
        "qrels of three columns": write("1 a 1\n1 b 0\n", "three"),
        "TREC qrels": write("1 0 a 1\n1 0 b 0\n", "trec"),
        "Parquet or Arrow table (q_id, doc_id, score)": tmp_path / "ranx.parquet",
    }
    pq.write_table(pa.Table.from_pandas(frame(plain, "q_id", "doc_id", "score")), tmp_path / "ranx.parquet")
    for form, path in files.items():
        assert (qrels_of(path).form, as_dict(qrels_of(path))) == (form, plain)
        if path.suffix != ".parquet":
            packed = write(gzip.compress(path.read_bytes()), f"{path.name}.gz")
            assert as_dict(qrels_of(str(packed))) == plain


def test_marks_of_byte_order_comments_and_other_line_ends(write: Write) -> None:
    plain = {"1": {"a": 1, "b": 0}}
    for text in (
        "\ufeffquery,docid,rating\r\n1,a,1\r\n1,b,0\r\n",
        '\ufeff{"1": {"a": 1, "b": 0}}',
        "# judged in May\n1 a L1\n1 b L0\n",
        "\n\n1 a 1\n1 b 0\n",
        '"query","docid","rating"\n"1","a",1\n"1","b",0\n',
    ):
        assert as_dict(qrels_of(write(text, "file"))) == plain, text
    with pytest.raises(DataError, match=r"cut: the gzip file ends too early \(truncated\)"):
        qrels_of(write(gzip.compress(b"1 0 a 1\n" * 9)[:-9], "cut"))


def test_rankings_in_files(write: Write) -> None:
    marco = run_of(write("1\ta\t1\n1\tb\t2\n", "marco.tsv"))
    assert (marco.form, as_dict(marco)) == ("MS MARCO run (query document rank)", {"1": {"a": -1, "b": -2}})
    terrier = run_of(write("qid,docid,docno,rank,score\n1,10,a,0,12.5\n1,11,b,1,3\n", "res.csv"))
    assert as_dict(terrier) == {"1": {"a": 12.5, "b": 3.0}}
    trec = run_of(write("1 Q0 a 1 2.5 mine\n", "trec"))
    assert (trec.form, trec.tag) == ("TREC run", "mine")


def as_ranx_packs(content: bytes) -> bytes:
    pack = functools.partial(pa.compress, codec="lz4", asbytes=True)
    return bytes(pack(pack(content)))


def test_lz4_files_as_ranx_writes_them(write: Write) -> None:
    cbor2 = pytest.importorskip("cbor2", reason="needs cbor2 (comes with ranx, the extra `oracles`)")
    packed = as_ranx_packs(cbor2.dumps(SCORES))
    assert as_dict(run_of(write(packed, "run.lz4"))) == SCORES
    with pytest.raises(
        DataError, match=r"cut.lz4: the lz4 file ends too early \(truncated\); copy or download"
    ):
        run_of(write(packed[:-9], "cut.lz4"))
    with pytest.raises(DataError, match=r"hit.lz4: the lz4 file is damaged \("):
        run_of(write(packed[:20] + b"\xff" * 9 + packed[29:], "hit.lz4"))
    with pytest.raises(DataError, match=r"list.lz4: holds a list; expected \{query: \{document: score\}\}"):
        run_of(write(as_ranx_packs(cbor2.dumps([1])), "list.lz4"))


@pytest.mark.parametrize(
    "content",
    [
        b"\xa1\x61q\xa1\x61d\xfb\x3f",  # {"q": {"d": and two of a number's eight bytes
        b"\x81" * 200_000 + b"\x00",  # lists in lists
        b"\xc0\x61x",  # tag 0, a date, of "x"
        b"\xd8\x23\x61[",  # tag 35, a regular expression, of "["
        b"",
    ],
)
def test_cbor_that_is_none(write: Write, content: bytes) -> None:
    pytest.importorskip("cbor2", reason="needs cbor2 (comes with ranx, the extra `oracles`)")
    with pytest.raises(
        DataError, match=r"a.lz4: (cannot be read as an lz4 file of ranx: |the file is empty)"
    ):
        run_of(write(as_ranx_packs(content), "a.lz4"))


@pytest.mark.parametrize("small", [1_000_000, 30_000_000], ids=["unpacked", "as objects"])
def test_lz4_that_unpacks_without_end(write: Write, monkeypatch: pytest.MonkeyPatch, small: int) -> None:
    """A list of four million empty lists: 4 MB, and 20 times as much as objects, of a file of less than 1 kB."""
    pytest.importorskip("cbor2", reason="needs cbor2 (comes with ranx, the extra `oracles`)")
    bomb = write(as_ranx_packs(b"\x9a" + (4_000_000).to_bytes(4, "big") + b"\x80" * 4_000_000), "a.lz4")
    assert bomb.stat().st_size < 1_000
    monkeypatch.setattr(cost, "SMALL", small)
    found = "unpacked, the file has more than" if small == 1_000_000 else "its values take 80.0 MB;"
    with pytest.raises(DataError, match=f"a.lz4: {found}.*LTR_HARNESS_READ_LIMIT"):
        run_of(bomb)


def test_json_whose_values_take_too_much(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = write(gzip.compress(b"[" + b"{}," * 1_000_000 + b"{}]"), "a.json.gz")
    monkeypatch.setattr(cost, "SMALL", 10_000_000)
    with pytest.raises(DataError, match=r"its values take 30.0 MB; expected at most 10.0 MB"):
        run_of(bomb)


# --- what is refused


NO_JUDGMENTS = [
    ({}, "qrels: has no rows (read as dict {query: {document: grade}}); expected at least one row"),
    ({"q": {"d": None}}, "qrels['q']['d']: the grade is missing or no number; expected a finite number"),
    ({"q": {"d": float("nan")}}, "qrels['q']['d']: the grade is missing or no number"),
    ({"q": {"d": np.inf}}, "qrels['q']['d']: the grade is inf"),
    ({"q": {"d": 10**400}}, "qrels['q']['d']: the grade is inf"),
    ({"q": {"d": 1j}}, "qrels['q']['d']: the grade is missing or no number"),
    ({"q": {"d": "2"}}, "qrels['q']['d']: the grade is missing or no number"),
    ({"q": {"": 1}}, "qrels['q']['']: the document is missing; expected an id"),
    ({None: {"d": 1}}, "qrels[None]['d']: the query is missing; expected an id"),
    ({1.5: {"d": 1}}, "qrels: a query is 1.5, a float; expected ids: text or integers"),
    ({"q": {"a\0": 1}}, "the document is 'a\\x00', with a NUL byte; expected an id"),
    ({"q": {"x" * 1001: 1}}, "x…', 1,001 characters long; expected an id"),
    ({"q": {"\ud800": 1}}, "qrels: an id is not Unicode text (a lone surrogate); expected text"),
    (
        {"q": 3},
        "qrels['q']: holds int instead of documents; expected a set of ids, or {document: grade}",
    ),
    (
        {1: {"d": 1}, "1": {"d": 2}},
        "qrels['1']['d']: document 'd' is judged for query '1' at qrels[1]['d'] already",
    ),
    ([("q", "d")], "qrels: row 1: is \"('q', 'd')\"; expected (query, document, grade)"),
    (
        [("q", "d", 1), ("q", "d", 1)],
        "qrels: row 2: document 'd' is judged for query 'q' at qrels: row 1 already",
    ),
    (
        pd.DataFrame({"qid": ["q"], "text": ["d"], "label": [1]}),
        "qrels: no column is the document (columns: 'qid', 'text', 'label'); expected such as document: docno,",
    ),
    (
        pd.DataFrame({"qid": [1.5], "docno": ["d"], "label": [1]}),
        "qrels: column 'qid' has the type double; expected ids: text or integers",
    ),
    (
        pd.DataFrame({"qid": ["q"], "docno": ["d"], "label": ["relevant"]}),
        f"qrels: column 'label' has the type {pa.array(pd.Series(['relevant'])).type}; expected numbers",
    ),
    (
        pd.DataFrame({"qid": ["q", None], "docno": ["d", "e"], "label": [1, np.nan]}),
        "qrels: row 2: the query is missing; expected an id",
    ),
    (pd.DataFrame({"qid": [], "docno": [], "label": []}), "qrels: has no rows"),
    (
        [{"query": "q", "doc": "d", "grade": 1}, {"query": "q", "doc": "e", "grade": "high"}],
        "qrels: its rows are not alike: ",
    ),
    (
        pd.DataFrame({"qid": ["q", 2], "docno": ["d", "e"], "label": [1, 2]}),
        "qrels: cannot be read as a table: ",
    ),
]


def test_what_is_no_judgment_is_refused_with_its_place() -> None:
    for value, said in NO_JUDGMENTS:
        with named_case(said):
            with pytest.raises(DataError) as error:
                qrels_of(value)
            assert said in str(error.value)


MTEB = {"mteb_model_meta": {"model_name": "org/model", "revision": "1"}}


def test_predictions_of_mteb(write: Write) -> None:
    several = {**MTEB, "en": {"test": {"q1": SCORES["q1"]}}, "de": {"test": {"ü": SCORES["ü"]}, "dev": {}}}
    for found in (run_of(several), run_of(write(json.dumps(several), "Task_predictions.json"))):
        assert as_dict(found) == SCORES
        assert found.tag == "org/model"
        assert found.form.endswith("predictions of MTEB ['en']['test'], ['de']['test']")
    assert run_of({"mteb_model_meta": None, "en": {"test": SCORES}}).tag == ""


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (
            {"en": {"dev": SCORES, "test": SCORES}},
            "run: query 'q1' stands in ['en']['dev'] and in ['en']['test']; expected each query in one subset and "
            """split; take one of them, as jq '.["en"]["test"]' does""",
        ),
        (
            {"en": {"test": [0, 1, 1]}},
            "run['en']['test']: is not a ranking of MTEB; expected {'mteb_model_meta': …, ",
        ),
        ({"en": {"test": {"q1": 3}}}, "run['en']['test']: is not a ranking of MTEB"),
        ({"en": [0, 1]}, "run['en']: is not a ranking of MTEB"),
        (
            {"en": {"test": {"q1": {"d1": float("nan")}}}},
            "run['q1']['d1']: the score is missing or no number",
        ),
        ({"en": {"test": {}}}, "run: has no rows (read as predictions of MTEB)"),
        ({}, "run: has no rows (read as predictions of MTEB)"),
    ],
)
def test_what_is_no_ranking_of_mteb(parts: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError) as error:
        run_of({**MTEB, **parts})
    assert said in str(error.value)
    with pytest.raises(DataError, match="holds predictions of MTEB, which are a ranking; expected judgments"):
        qrels_of({**MTEB, **parts})


def test_scores_that_are_no_numbers() -> None:
    with pytest.raises(DataError) as error:
        run_of({"q": {"a": 1.0, "b": float("nan"), "c": None}})
    assert [problem.place for problem in error.value.problems] == ["run['q']['b']", "run['q']['c']"]
    assert "the score is missing or no number; expected a number: every document needs a score" in str(
        error.value
    )
    assert as_dict(run_of({"q": {"a": np.inf, "b": -np.inf}})) == {"q": {"a": np.inf, "b": -np.inf}}


@pytest.mark.parametrize("value", [3, None, object(), 2.5], ids=lambda value: type(value).__name__)
def test_what_looks_like_nothing_names_the_forms_there_are(value: Any) -> None:
    with pytest.raises(
        UsageError, match=r"qrels: cannot tell what a builtins\.\w+ is; expected a file, a dict"
    ):
        qrels_of(value)


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        (
            '{"q": {"a": 1, "a": 2}}',
            "a.json",
            "a.json: cannot be read as JSON: 'a' stands twice in one object",
        ),
        ('{"q": {"a": 1', "b.json", "b.json: cannot be read as JSON: Expecting"),
        (
            "1,2,3\n",
            "c.csv",
            "c.csv: no column is the query or the document or the grade (columns: '1', '2', '3')",
        ),
        ("query,docid,rating\nq,a,1\nq,a,2\n", "d.csv", "d.csv:3: document 'a' is judged for query 'q' at"),
        ("query,docid,rating\nq,a,x\n", "e.csv", "e.csv:2"),
        ("query,docid,rating\nq,a,\n", "f.csv", "f.csv:2: the grade is missing or no number"),
        ("1 a L1\n1 b 0\n", "g", "g:2: the level is '0'; expected a level of relevance, such as L0, L1, L2"),
        (
            "1 a L1\n1 b L²\n",
            "l",
            "l:2: the level is 'L²'; expected a level of relevance, such as L0, L1, L2",
        ),
        ("1 a L1\n1 b L٢\n", "m", "m:2: the level is 'L٢'; expected a level of relevance"),
        ("1 a 1\n1 b .5\n", "h", "h:2: the grade is '.5'; expected an integer"),
    ],
)
def test_bad_files_are_refused_with_file_and_line(write: Write, text: str, name: str, said: str) -> None:
    with pytest.raises(DataError) as error:
        qrels_of(write(text, name))
    assert said in str(error.value)


def test_ranks_of_ms_marco_start_at_one(write: Write) -> None:
    with pytest.raises(DataError, match=r"m:2: the rank is '0'; expected a rank: an integer, 1 for the best"):
        run_of(write("1 a 1\n1 b 0\n", "m"))
    with pytest.raises(DataError, match=r"n:1: the rank is '2\.5'"):
        run_of(write("1 a 2.5\n", "n"))


IDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=5)


@given(
    st.dictionaries(
        IDS, st.dictionaries(IDS, st.integers(-1, 5), min_size=1, max_size=3), min_size=1, max_size=4
    )
)
@pytest.mark.long
def test_hostile_ids_come_through_whole(nested: dict[str, dict[str, int]]) -> None:
    for form in (nested, rows(nested), pa.Table.from_pandas(frame(nested, "qid", "docno", "label"))):
        assert as_dict(qrels_of(form)) == nested


PIECES = [
    b"\0",
    b"\xff",
    b'"',
    b"{",
    b"}",
    b"[",
    b",",
    b"\t",
    b"\n",
    b"\r",
    b"null",
    b"NaN",
    b"1e999",
    b"L",
    b"9" * 400,
]
WHOLE = [
    b'{"q1": {"d1": 1, "d2": 0}}',
    b'[{"query": "a", "ratings": [{"docId": "x", "rating": "1"}]}]',
    b'{"query-id": "1", "corpus-id": "a", "score": 1}\n{"query-id": "1", "corpus-id": "b", "score": 0}\n',
    b"query-id\tcorpus-id\tscore\n1\ta\t1\n",
    b'query,docid,rating\nq,"a,b",1\n',
    b"1 a L1\n1 b L0\n",
    b"1 Q0 a 1 2.5 t\n",
    b"1 a 1\n",
    b"\x04\x22\x4d\x18",
    b"PAR1",
]


@given(
    st.sampled_from(WHOLE),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 3), st.sampled_from(PIECES)), max_size=4),
)
@pytest.mark.long
def test_damaged_files_are_read_or_refused(whole: bytes, changes: list[tuple[int, int, bytes]]) -> None:
    for at, cut, piece in changes:
        whole = whole[:at] + piece + whole[at + cut :]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(whole)
        for read in (qrels_of, run_of):
            with contextlib.suppress(UsageError):
                read(path)


def test_one_or_several() -> None:
    for one in (SCORES, rows(SCORES), frame(SCORES, "qid", "docno", "score"), "a.run", Path("a.run")):
        assert is_single_source(one)
    for several in ({"a": SCORES}, {"a": "a.run"}, [SCORES, SCORES], ["a.run", "b.run"], [rows(SCORES)]):
        assert not is_single_source(several)
