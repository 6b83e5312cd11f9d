"""Scores from elsewhere find their rows, and what does not fit is refused."""

from __future__ import annotations

import bz2
import gzip
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.data.readers.scores import read_scores
from ltr_harness.errors import Caution, DataError
from tests.conftest import named_case

LABELS = [2, 0, 1, 0, 1]
SCORES = [0.5, 0.25, -1.0, 3.0, 1e-3]


def judgments(documents: list[str] | None = None, ids: Any = (7, 9)) -> Judgments:
    return Judgments.checked(
        LABELS, QueryGroups.from_sizes([3, 2], np.array(ids)), document_ids=documents, recurring=True
    )


def write_file(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


NUMBERS = "".join(f"{score}\n" for score in SCORES)
BY_ROW = "query_id,row,score\n" + "9,1,0.001\n7,2,-1\n7,0,0.5\n9,0,3\n7,1,0.25\n"
BY_DOCUMENT = (
    "score\tdocument_id\tquery_id\textra\n"
    + "0.001\tb\t9\t\n-1\tc\t7\tx\n0.5\ta\t7\t\n3\ta\t9\t\n0.25\tb\t7\t\n"
)
IN_ORDER = "query_id,label,score\n7,2,0.5\n7,0,0.25\n7,1,-1\n9,0,3\n9,1,0.001\n"


FORMS = [
    ("s.txt", NUMBERS),
    ("s", NUMBERS.replace("\n", "\r\n").rstrip()),
    ("s.gz", gzip.compress(NUMBERS.encode(), mtime=0)),
    ("s.csv", BY_ROW),
    ("s.csv.gz", gzip.compress(BY_ROW.encode(), mtime=0)),
    ("s.csv.zst", bytes(pa.compress(BY_ROW.encode(), "zstd", asbytes=True))),
    ("s.csv.bz2", bz2.compress(BY_ROW.encode())),
    ("s.txt.xz", lzma.compress(NUMBERS.encode())),
    ("s.tsv", BY_DOCUMENT),
    ("s.csv", IN_ORDER),
    ("s.csv", "score\n" + NUMBERS),
]


def test_every_form_gives_the_same_scores(tmp_path: Path) -> None:
    for name, text in FORMS:
        with named_case(name):
            found = read_scores(write_file(tmp_path, name, text), judgments(["a", "b", "c", "a", "b"]))
            assert found.tolist() == SCORES


@pytest.mark.parametrize(
    ("table", "by"),
    [
        ("query_id,row,rank\n9,1,2\n7,2,3\n7,0,1\n9,0,1\n7,1,2\n", "rank"),
        ("query_id,document_id,Position\n7,a,1\n7,b,2\n7,c,3\n9,a,1\n9,b,2\n", "Position"),
        ("query_id,label,pos\n7,2,1\n7,0,2\n7,1,3\n9,0,1\n9,1,2\n", "pos"),
        ("query_id,row,Ranks\n9,1,2\n7,2,3\n7,0,1\n9,0,1\n7,1,2\n", "Ranks"),
        ("query_id,row,rank_shown\n9,1,2\n7,2,3\n7,0,1\n9,0,1\n7,1,2\n", "rank_shown"),
        ("position,rank\n5,1\n5,2\n5,3\n5,1\n5,2\n", "rank"),  # where users saw it is not where it stands
        ("query_id,row,rank,score\n9,1,2,-2\n7,2,1,-3\n7,0,2,-1\n9,0,2,-1\n7,1,7,-2\n", "score"),
    ],
)
def test_ranks_in_the_place_of_scores(tmp_path: Path, table: str, by: str) -> None:
    cautions: list[Caution] = []
    path = write_file(tmp_path, "s.csv", table)
    found = read_scores(path, judgments(["a", "b", "c", "a", "b"]), cautions=cautions)
    assert found.tolist() == [-1, -2, -3, -1, -2]
    said = f"{path} has no column 'score': {by!r} ranks its rows, 1 being the best"
    assert [*map(str, cautions)] == [said] * (by != "score")


def test_parquet_and_numpy(tmp_path: Path) -> None:
    table = {"query_id": [9, 7, 7, 9, 7], "row": [1, 2, 0, 0, 1], "score": [1e-3, -1.0, 0.5, 3.0, 0.25]}
    parquet.write_table(pa.table(table), tmp_path / "s.parquet")
    assert read_scores(tmp_path / "s.parquet", judgments()).tolist() == SCORES
    np.save(tmp_path / "s.npy", np.array(SCORES, dtype=np.float32))
    np.testing.assert_allclose(read_scores(tmp_path / "s.npy", judgments()), SCORES, rtol=1e-7)


def test_ids_are_text(tmp_path: Path) -> None:
    path = write_file(tmp_path, "s.csv", BY_ROW.replace("\n7,", "\n007,"))
    assert read_scores(path, judgments(ids=["007", "9"])).tolist() == SCORES


UNFIT = [
    ("s.txt", "1\n2\n3\n4\n", "4 scores for 5 rows in 2 queries; expected one score per row"),
    ("s.txt", "1\n2\n", "one per query? every document of a query has its own score"),
    (
        "s.txt",
        "1\n2\nx\n4\n5\n",
        "s.txt:3: the score is 'x'; expected a number: every document needs a score",
    ),
    ("s.txt", "1\n2\n\n4\nnan\n", "s.txt:5: the score is 'nan'"),
    (
        "s.txt",
        "7 1\n7 2\n7 3\n9 1\n9 2\n",
        "s.txt:1: the line has 2 fields, like all 5; expected `score`",
    ),
    ("s.txt", "", "s.txt: the file is empty"),
    ("s.csv", "query_id,scores\n7,1\n", "has no column 'score'; did you mean 'scores'?"),
    ("s.csv", "query_id,scores,rank\n7,1,1\n", "has no column 'score'; did you mean 'scores'?"),
    (
        "s.csv",
        BY_ROW.replace("score", "rank"),
        "s.csv:2: the rank is missing or no rank; expected an integer from 1 to 10^9, 1 for the best",
    ),
    ("s.csv", BY_ROW.replace("9,0,3\n", ""), "1 of 5 rows have no score, first in query '9', its row 0"),
    ("s.csv", BY_ROW + "7,0,1\n", "s.csv:7: query '7', row 0 has a score already"),
    ("s.csv", BY_ROW + "7,3,1\n", "s.csv:7: query '7', row 3 is not a row of the data"),
    ("s.csv", BY_ROW + "8,0,1\n", "s.csv:7: query '8', row 0 is not a row of the data"),
    ("s.csv", BY_ROW.replace("9,0,3", "9,-1,3"), "s.csv:5: query '9', row -1 is not a row of the data"),
    ("s.csv", BY_ROW.replace("9,0,3", "9,0,"), "s.csv:5: the score is missing or NaN"),
    ("s.csv", BY_ROW.replace("9,0,3", "9,0,three"), "s.csv:5: column 'score' contains 'three'"),
    (
        "s.tsv",
        BY_DOCUMENT.replace("3\ta\t9", "3\tz\t9"),
        "query '9', document z is not a row of the data",
    ),
    (
        "s.csv",
        IN_ORDER.replace("9,0,3", "7,0,3"),
        "s.csv:5: query '7' where the data has '9' (1 such row)",
    ),
    ("s.csv", IN_ORDER.replace("9,0,3", "9,1,3"), "s.csv:5: label 1 where the data has 0 (1 such row)"),
    ("s.npy", b"nothing", "s.npy: cannot be read as an array"),
    ("s.parquet", b"nothing", "s.parquet: is not a Parquet file"),
]


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    for name, text, said in UNFIT:
        with named_case(said):
            with pytest.raises(DataError) as error:
                read_scores(write_file(tmp_path, name, text), judgments(["a", "b", "c", "a", "b"]))
            assert said in str(error.value)


def test_arrays_that_are_no_scores_are_refused(tmp_path: Path) -> None:
    for array, said in (
        (np.zeros((5, 1)), "holds float64 of shape (5, 1)"),
        (np.array(list("abcde")), "holds <U1 of shape (5,)"),
        (np.array([1.0, np.nan, 0.0, 0.0, 0.0]), "s.npy: row 2: the score is NaN"),
    ):
        np.save(tmp_path / "s.npy", array)
        with pytest.raises(DataError) as error:
            read_scores(tmp_path / "s.npy", judgments())
        assert said in str(error.value)


def test_a_document_id_that_repeats_names_no_row(tmp_path: Path) -> None:
    path = write_file(tmp_path, "s.tsv", BY_DOCUMENT)
    with pytest.raises(DataError, match="document 'a' comes more than once in query '7' of the data"):
        read_scores(path, judgments(["a", "a", "c", "a", "b"]))


def test_all_kinds_of_misfits_come_at_once(tmp_path: Path) -> None:
    path = write_file(tmp_path, "s.csv", "query_id,row,score\n7,0,1\n7,0,2\n8,0,1\n")
    with pytest.raises(DataError) as error:
        read_scores(path, judgments())
    texts = [str(problem) for problem in error.value.problems]
    assert len(texts) == 3
    assert "4 of 5 rows have no score" in texts[2]


@pytest.mark.long
def test_an_array_with_any_one_byte_of_another_value(tmp_path: Path) -> None:
    """Its header is a text that NumPy reads as Python."""
    np.save(tmp_path / "whole.npy", np.array(SCORES))
    content = (tmp_path / "whole.npy").read_bytes()
    told = 0
    for at in range(128):
        for other in (0, content[at] ^ 1, ord("(")):
            (tmp_path / "s.npy").write_bytes(content[:at] + bytes([other]) + content[at + 1 :])
            try:
                assert len(read_scores(tmp_path / "s.npy", judgments())) == len(SCORES)
            except DataError:
                told += 1
    assert told > 100


def test_a_table_without_a_header_says_so(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"s\.csv: the first row has values, not names: 0\.5; expected a header"
    ):
        read_scores(write_file(tmp_path, "s.csv", NUMBERS), judgments())
