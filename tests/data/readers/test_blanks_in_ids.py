"""Judgments and rankings whose ids have blanks, and repetitions of a judgment: one line says it, with the cure."""

from __future__ import annotations

from pathlib import Path

import pytest

from ltr_harness.data.readers.judgment_formats import qrels_of, run_of
from ltr_harness.data.readers.trec import SEVERAL_CURE, read_qrels, read_run
from ltr_harness.data.readers.truth import read_judgments
from ltr_harness.errors import DataError

N = 60


def write_text(folder: Path, text: str) -> Path:
    (folder / "file.txt").write_text(text)
    return folder / "file.txt"


def lines(separator: str, *, document: str = "doc {}", query: str = "q1", tag: str = "mine") -> str:
    """A ranking of many documents."""
    rows = ([query, "Q0", document.format(at), str(at + 1), f"{9 - at / 9:.3f}", tag] for at in range(N))
    return "".join(separator.join(row) + "\n" for row in rows)


@pytest.mark.parametrize("separator", ["\t", " "])
@pytest.mark.parametrize(("document", "query"), [("doc {}", "q1"), ("d{}", "new york"), ("a b {}", "q1")])
def test_a_run_with_blanks_in_ids(tmp_path: Path, separator: str, document: str, query: str) -> None:
    with pytest.raises(DataError) as caught:
        read_run(write_text(tmp_path, lines(separator, document=document, query=query)))
    [problem] = caught.value.problems
    assert "blank" in str(problem)
    assert "`_`" in problem.cure


@pytest.mark.parametrize("separator", ["\t", " "])
def test_blanks_in_the_tag_are_read(tmp_path: Path, separator: str) -> None:
    run = read_run(write_text(tmp_path, lines(separator, document="d{}", tag="my best run")))
    assert run.scores.size == N
    assert run.documents.values.tolist()[:2] == ["d0", "d1"]


def test_a_run_of_tabs_and_blanks_is_read(tmp_path: Path) -> None:
    run = read_run(write_text(tmp_path, "q1 Q0\td1 1\t2.5 mine\nq1\tQ0\td2\t2\t1.5\tmine\n"))
    assert run.documents.values.tolist() == ["d1", "d2"]


@pytest.mark.parametrize("separator", ["\t", " "])
def test_qrels_with_blanks_in_ids(tmp_path: Path, separator: str) -> None:
    text = "".join(separator.join(("q1", "0", f"doc {at}", "1")) + "\n" for at in range(N))
    with pytest.raises(DataError) as caught:
        read_qrels(write_text(tmp_path, text))
    [problem] = caught.value.problems
    assert "blank" in str(problem)
    assert "`_`" in problem.cure


def test_equal_repetitions_are_one_line(tmp_path: Path) -> None:
    text = "".join(f"q1 0 d{at} 1\n" for at in range(N)) * 2
    for read in (read_qrels, qrels_of, lambda path: read_judgments([str(path)], tmp_path)):
        with pytest.raises(DataError) as caught:
            read(write_text(tmp_path, text))
        [problem] = caught.value.problems
        assert "(60 such rows)" in problem.found
        assert problem.cure == f"the values are equal: keep one of each, as `sort -u` does, or {SEVERAL_CURE}"


def test_repetitions_in_memory_are_one_line() -> None:
    with pytest.raises(DataError) as caught:
        qrels_of([("q", f"d{at}", 1) for at in range(N)] * 2, "qrels")
    [problem] = caught.value.problems
    assert problem.found.endswith("already (60 such rows)")
    with pytest.raises(DataError) as caught:
        run_of([("q", "d", 1.0), ("q", "d", 2.0)], "run")
    [problem] = caught.value.problems
    assert problem.cure.startswith(
        "keep one of them, or count a document at its first chunk with documents_of"
    )
