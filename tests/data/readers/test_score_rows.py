"""Tables of scores: rows are matched by what the table calls them, or refused; never by an order nobody promised."""

from __future__ import annotations

import itertools
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.data.readers.csv import Csv
from ltr_harness.data.readers.scores import read_scores
from ltr_harness.errors import DataError
from tests.conftest import examples, named_case

Cli = Callable[..., tuple[int, str, str]]

DATA = "query_id,document_id,label,bm25\n7,a,2,1\n7,b,0,2\n7,c,1,3\n9,a,0,4\n9,b,1,5\n"
SCORES = [0.5, 0.25, -1.0, 3.0, 1e-3]
SHUFFLED = "{},{},score\n9,b,0.001\n7,c,-1\n7,a,0.5\n9,a,3\n7,b,0.25\n"

NAMES = [
    ("query_id", "document_id"),
    ("qid", "docno"),
    ("qid", "doc_id"),
    ("search_id", "doc"),
    ("Query-ID", "corpus-id"),
    ("srch_id", "sku"),
    ("session_id", "item_id"),
    ("impression_id", "item_id"),
]


def judgments(*, documents: bool = True) -> Judgments:
    ids = ["a", "b", "c", "a", "b"] if documents else None
    return Judgments.checked(
        [2, 0, 1, 0, 1], QueryGroups.from_sizes([3, 2], np.array([7, 9])), document_ids=ids
    )


def read_score_rows(
    folder: Path, text: str, columns: Mapping[str, str] | None = None, *, documents: bool = True
) -> list[float]:
    (folder / "score.csv").write_text(text)
    return read_scores(folder / "score.csv", judgments(documents=documents), columns=columns).tolist()


def refusal(folder: Path, text: str, *, documents: bool = True) -> str:
    with pytest.raises(DataError) as error:
        read_score_rows(folder, text, documents=documents)
    [problem] = error.value.problems
    return str(problem).replace(f"{folder}/", "")


@pytest.mark.parametrize(("query", "document"), NAMES)
def test_a_shuffled_table_is_matched_by_its_ids_whatever_they_are_called(
    tmp_path: Path, query: str, document: str
) -> None:
    assert read_score_rows(tmp_path, SHUFFLED.format(query, document)) == SCORES


def test_what_the_datas_columns_are_called_goes_before_the_usual_names(tmp_path: Path) -> None:
    said = {"query": "request", "document_id": "offer"}
    assert read_score_rows(tmp_path, SHUFFLED.format("request", "offer"), said) == SCORES
    # a column with a usual name that means something else
    with_both = SHUFFLED.format("request", "offer").replace("request", "qid,doc,request", 1)
    with_both = re.sub(r"^(?=[79],)", "0,x,", with_both, flags=re.M)
    assert read_score_rows(tmp_path, with_both, said) == SCORES
    assert read_score_rows(tmp_path, SHUFFLED.format("qid", "docno"), said) == SCORES


def test_the_query_may_have_a_documents_usual_name(tmp_path: Path) -> None:
    """Items like a given one: the query is an item too."""
    text = SHUFFLED.format("item_id", "doc")
    assert read_score_rows(tmp_path, text, {"query": "item_id", "document_id": "doc"}) == SCORES
    assert read_score_rows(tmp_path, SHUFFLED.format("item_id", "sku"), {"query": "item_id"}) == SCORES


IN_ORDER = "{},{},score\n7,a,0.5\n7,b,0.25\n7,c,-1\n9,a,3\n9,b,0.001\n"


@pytest.mark.parametrize("text", [SHUFFLED, IN_ORDER])
def test_documents_that_the_data_does_not_know_are_no_order(tmp_path: Path, text: str) -> None:
    for query, document in NAMES:
        said = refusal(tmp_path, text.format(query, document), documents=False)
        assert said.startswith(
            f"score.csv: names its rows by {query} and {document}, and the data has no document ids; expected "
            "document ids in the data too, or a column row, counted from 0 within the query; "
        )


def test_rows_that_carry_their_labels_need_no_names(tmp_path: Path) -> None:
    text = "qid,docno,label,score\n7,a,2,0.5\n7,b,0,0.25\n7,c,1,-1\n9,a,0,3\n9,b,1,0.001\n"
    assert read_score_rows(tmp_path, text, documents=False) == SCORES


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("impression,offer", "has the columns impression, offer: say which is the query"),
        ("x,docno", "has the columns x, docno: say which is the query"),
        ("qid,offer", "has the column offer with qid: say which is the document"),
    ],
)
@pytest.mark.parametrize("documents", [True, False])
def test_columns_that_could_be_ids_and_are_not_used_are_refused(
    tmp_path: Path, columns: str, said: str, documents: bool
) -> None:
    for text in (SHUFFLED, IN_ORDER):
        assert (
            refusal(tmp_path, text.format(*columns.split(",")), documents=documents)
            == f"score.csv: {said}; expected query_id, and document_id or row, which counts from 0 within the query; "
            f"call the {'query' if 'query' in said else 'document'}'s column "
            f"{'query_id' if 'query' in said else 'document_id'}, or leave out other columns if the rows stand in "
            "the order of the data"
        )


def with_column(name: str, cells: list[object], *, queries: bool) -> str:
    rows = zip([7, 7, 7, 9, 9], cells, SCORES, strict=True)
    lines = [f"{'qid,' if queries else ''}{name},score"]
    return (
        "\n".join([*lines, *(f"{f'{q},' if queries else ''}{cell},{score}" for q, cell, score in rows)])
        + "\n"
    )


NAMELESS_COLUMNS = [
    ("", [0, 1, 2, 3, 4]),  # pandas' index
    ("index", [1, 2, 3, 4, 5]),
    ("model", ["lgbm"] * 5),
    ("bm25", [0.5, 1.25, 0.75, 2.5, 3.0]),
    ("rank", [1, 2, 3, 1, 2]),
    ("comment", ["new", "", "", "", "old"]),
]


def test_columns_that_name_nothing_are_no_reason_to_refuse(tmp_path: Path) -> None:
    for (name, cells), queries in itertools.product(NAMELESS_COLUMNS, [True, False]):
        with named_case((name, queries)):
            assert read_score_rows(tmp_path, with_column(name, cells, queries=queries)) == SCORES


def test_within_queries_a_column_names_rows_only_if_it_tells_them_apart(tmp_path: Path) -> None:
    assert read_score_rows(tmp_path, with_column("n_clicks", [3, 0, 0, 1, 0], queries=True)) == SCORES
    assert read_score_rows(tmp_path, with_column("nth", [0, 1, 2, 0, 1], queries=True)) == SCORES
    assert "the column n_clicks with qid" in refusal(
        tmp_path, with_column("n_clicks", [3, 0, 1, 1, 0], queries=True)
    )


def test_row_is_used_where_documents_repeat_within_a_query(tmp_path: Path) -> None:
    twice = Judgments.checked(
        [2, 0, 1, 0, 1],
        QueryGroups.from_sizes([3, 2], np.array([7, 9])),
        document_ids=["a", "a", "c", "a", "b"],
        recurring=True,  # as logs have it
    )
    text = "query_id,row,document_id,score\n9,1,b,0.001\n7,2,c,-1\n7,0,a,0.5\n9,0,a,3\n7,1,a,0.25\n"
    (tmp_path / "score.csv").write_text(text)
    assert read_scores(tmp_path / "score.csv", twice).tolist() == SCORES


def test_tables_of_every_kind(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text(SHUFFLED.format("qid", "docno"))
    frame = pd.read_csv(tmp_path / "s.csv")
    frame.to_parquet(tmp_path / "s.parquet")
    frame.to_feather(tmp_path / "s.arrow")
    with pa.CompressedOutputStream(str(tmp_path / "s.tsv.zst"), "zstd") as stream:
        stream.write(frame.to_csv(sep="\t", index=False).encode())
    for name in ("s.parquet", "s.arrow", "s.tsv.zst"):
        assert read_scores(tmp_path / name, judgments()).tolist() == SCORES
    lists = frame.assign(qid=[[1]] * 5)
    lists.to_parquet(tmp_path / "lists.parquet")
    with pytest.raises(DataError, match="column 'qid' has the type list"):
        read_scores(tmp_path / "lists.parquet", judgments())


@pytest.mark.long
@examples(30)
@given(st.permutations(range(5)), st.sampled_from(NAMES))
def test_every_order_of_the_rows_gives_the_same_scores(order: list[int], names: tuple[str, str]) -> None:
    head, *lines = IN_ORDER.splitlines()
    with tempfile.TemporaryDirectory() as folder:
        text = "\n".join([head.format(*names), *(lines[i] for i in order)])
        assert read_score_rows(Path(folder), text) == SCORES


# --- as the user sees it ---


@pytest.fixture
def ltr(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = run_command(cli, list(arguments))
        return code, *capsys.readouterr()

    return run


@pytest.mark.long
def test_names_said_with_set_count_for_the_scores_too(ltr: Cli) -> None:
    Path("data.csv").write_text(DATA.replace("query_id,document_id", "request,offer"))
    Path("score.csv").write_text(SHUFFLED.format("request", "offer"))
    Path("order.txt").write_text("".join(f"{score}\n" for score in SCORES))
    said = ("--column", "query=request", "--column", "document_id=offer")
    for command in (("evaluate", "-m", "ndcg@2"), ("explain", "ndcg@2", "--query", "7")):
        by_id = ltr(*command, "--data", "data.csv", *said, "--scores", "score.csv")
        in_order = ltr(*command, "--data", "data.csv", *said, "--scores", "order.txt")
        assert by_id[0] == in_order[0] == 0
        assert by_id[1] == in_order[1].replace("order,", "score,").replace("order:", "score:")


def test_a_column_document_id_that_nobody_named_names_the_documents(ltr: Cli) -> None:
    Path("data.csv").write_text(DATA)
    Path("score.csv").write_text(SHUFFLED.format("query_id", "document_id"))
    code, out, _ = ltr("evaluate", "--data", "data.csv", "--scores", "score.csv", "-m", "ndcg@2", "--json")
    assert code == 0
    # query 7: gains 3, 0 of ideal 3, 1; query 9: the relevant document is second
    expected = (3 / (3 + 1 / np.log2(3)) + 1 / np.log2(3)) / 2
    assert f'"mean": {expected:.12f}' in out


@pytest.mark.parametrize(
    ("text", "expected", "features"),
    [
        (DATA, list("abcab"), ("bm25",)),
        (DATA.replace(",a,", ",1,").replace(",b,", ",2,").replace(",c,", ",3,"), list("12312"), ("bm25",)),
        (DATA.replace("7,a", "7,"), None, ("bm25",)),  # not every row has one
    ],
)
def test_the_documents_of_a_table(
    tmp_path: Path, text: str, expected: list[str] | None, features: tuple[str, ...]
) -> None:
    (tmp_path / "data.csv").write_text(text)
    data = Csv().read(["data.csv"], tmp_path)
    found = data.judgments.document_ids
    assert (None if found is None else found.tolist()) == expected
    assert data.feature_names == features
    assert data.columns.get("document_id") == ("document_id" if expected else None)


def test_a_column_document_id_with_another_role_keeps_it(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("query_id,document_id,label\n7,1,2\n7,2,0\n")
    data = Csv(features=("document_id",)).read(["data.csv"], tmp_path)
    assert data.judgments.document_ids is None
    assert data.feature_names == ("document_id",)
