"""Document ids in the comments of LETOR rows, in the spellings of other tools: read, or said to be ignored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.readers import letor
from ltr_harness.data.readers.letor import IGNORED, Letor
from ltr_harness.data.readers.lightgbm import LightGbm
from ltr_harness.data.writers import write_dataset
from ltr_harness.errors import Caution
from tests.conftest import named_case

Cli = Callable[..., tuple[int, str, str]]


def read_letor(folder: Path, comments: list[str], queries: str = "1122") -> RankingDataset:
    rows = zip(queries, comments, strict=True)
    text = "# qid:1: rambo\n# qid:2: rocky\n" + "".join(f"0 qid:{q} 1:0.5 {comment}\n" for q, comment in rows)
    (folder / "a.txt").write_text(text)
    return Letor().read(["a.txt"], folder)


def ids(data: RankingDataset) -> list[str] | None:
    found = data.judgments.document_ids
    return None if found is None else found.tolist()


KEYS = ["docid = ", "docid:", "docid=", "DocID : ", "doc_id:", "docno=", "DOCNO = ", "doc:", "document_id = "]


def test_every_key_names_the_document(tmp_path: Path) -> None:
    for key in KEYS:
        with named_case(key):
            data = read_letor(tmp_path, [f"# {key}{name} inc = 1" for name in ("GX-1", "b", "c", "GX-1")])
            assert ids(data) == ["GX-1", "b", "c", "GX-1"]
            assert data.cautions == ()


@pytest.mark.parametrize(
    ("comments", "expected"),
    [
        (["# 7555 Rambo", "#\t1370 Rambo III", "# 7555 Rambo", "# 1369\tRocky"], ["7555", "1370", "7555", "1369"]),
        (["# 1A", "#1B", "# 2A", "# 2B"], ["1A", "1B", "2A", "2B"]),  # RankLib's example
        (["# alpha", "# beta\r", "# alpha", "# beta  "], ["alpha", "beta", "alpha", "beta"]),
    ],
)  # fmt: skip
def test_first_words_that_tell_rows_apart_are_ids(
    tmp_path: Path, comments: list[str], expected: list[str]
) -> None:
    data = read_letor(tmp_path, comments)
    assert ids(data) == expected
    assert data.cautions == (
        Caution(
            "document-ids-from-comments",
            "note",
            f"document ids are the first words of the comments, such as {expected[0]!r}",
        ),
    )


@pytest.mark.parametrize(
    "comments",
    [
        ["# Rambo", "# First Blood", "# Rambo", "# Rocky"],  # titles
        ["# 7555 Rambo", "# 7555 Rambo", "# 7555", "# 1369"],  # twice in a query
        ["# 7555 Rambo", "# 1370", "# 7555", ""],  # not in every row
        ["# 7555 Rambo", "# document 7", "# 7555", "# 1369"],
        ["# 7\0", "# 8", "# 9", "# 10"],
        ["# docs: 1", "# docs: 2", "# do: 3", "# docidx = 4"],
    ],
)
def test_other_comments_are_said_to_be_ignored(tmp_path: Path, comments: list[str]) -> None:
    data = read_letor(tmp_path, comments)
    assert ids(data) is None
    assert data.cautions == (IGNORED,)


def test_only_some_with_a_key(tmp_path: Path) -> None:
    data = read_letor(tmp_path, ["# docid:1", "# 2", "# 3", ""])
    assert ids(data) is None
    assert data.cautions == (
        Caution("ignored-document-ids", "note", "document ids are ignored: only 1 of 4 rows have one"),
    )


def test_rows_without_comments_say_nothing(tmp_path: Path) -> None:
    data = read_letor(tmp_path, ["", "#", "#  ", ""])
    assert (ids(data), data.cautions) == (None, ())


def test_scattered_queries_are_looked_at_whole(tmp_path: Path) -> None:
    text = "0 qid:1 1:1 # 7\n0 qid:2 1:1 # 7\n0 qid:1 1:1 # {}\n"
    for second, expected in (("8", ["7", "8", "7"]), ("7", None)):
        (tmp_path / "a.txt").write_text(text.format(second))
        assert ids(Letor(regroup=True).read(["a.txt"], tmp_path)) == expected


def test_pieces_of_a_file_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letor, "CHUNK", 40)
    for comment, n_ids in (("# {}", 30), ("# docid:{}", 30), ("# x{} y", 30), ("# x y{}", 0)):
        text = "".join(f"0 qid:{i // 3} 1:1 {comment.format(i)}\n" for i in range(30))
        (tmp_path / "a.txt").write_text(text)
        assert len(ids(Letor().read(["a.txt"], tmp_path)) or ()) == n_ids


def test_what_is_read_is_written_with_a_key(tmp_path: Path) -> None:
    data = read_letor(tmp_path, ["# 7555 Rambo", "# 1370 Rambo III", "# 7555 Rambo", "# 1369 Rocky"])
    write_dataset(data, tmp_path / "b.txt")
    again = Letor().read(["b.txt"], tmp_path)
    assert ids(again) == ids(data)
    assert again.cautions == ()


def test_lightgbms_layout_has_comments_too(tmp_path: Path) -> None:
    (tmp_path / "a.query").write_text("2\n")
    (tmp_path / "a").write_text("0 1:1 # docid:x\n1 1:2 # docid:y\n")
    assert ids(LightGbm().read(["a"], tmp_path)) == ["x", "y"]
    (tmp_path / "a").write_text("0 1:1 # 7 x\n1 1:2 # 8 y\n")
    data = LightGbm().read(["a"], tmp_path)
    assert (ids(data), data.cautions) == (None, (IGNORED,))


def test_scores_by_these_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Hello-ltr's judgments, as they are before features are logged, and a table of scores in another order."""
    monkeypatch.chdir(tmp_path)
    Path("judgments.txt").write_text("# qid:1: rambo\n4 qid:1 #\t7555\tRambo\n0 qid:1 #\t1370\tRambo III\n")
    Path("scores.csv").write_text("qid,docid,score\n1,1370,0.1\n1,7555,0.9\n")
    assert (
        run_command(cli, ["evaluate", "--data", "judgments.txt", "--scores", "scores.csv", "-m", "ndcg@1"])
        == 0
    )
    said = capsys.readouterr()
    assert "ndcg@1    1.0000" in said.out
    assert "note: document ids are the first words of the comments, such as '7555'" in said.err
