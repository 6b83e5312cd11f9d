"""Spellings of version 0.2: they work for one more version, and a note on stderr has the new one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Cli = Callable[..., tuple[int, str, str]]

ROWS = ("evaluate", "--data", "rows.csv", "--scores", "rows.csv")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("query_id,grade,score\n7,2,1\n7,0,2\n9,1,2\n9,0,1\n")
    Path("llm.qrels").write_text("".join(f"{query} 0 a 1\n{query} 0 b 0\n" for query in (7, 8, 9)))
    for name, scores in (("x", (2, 1)), ("y", (1, 2))):
        lines = [
            f"{query} Q0 {item} 1 {s} {name}\n"
            for query in (7, 8, 9)
            for item, s in zip("ab", scores, strict=True)
        ]
        Path(f"{name}.run").write_text("".join(lines))
    return tmp_path


@pytest.mark.parametrize(
    ("old", "new", "note"),
    [
        (
            (*ROWS, "--set", "label=grade", "-m", "mrr", "--reader-option", "regroup=true"),
            (*ROWS, "--column", "label=grade", "-m", "mrr", "--reader-option", "regroup=true"),
            "--set is now --column label=grade; the next version takes --set for experiment files alone",
        ),
        (
            ("data", "describe", "rows.csv", "--set", "query=query_id", "--set", "label=grade"),
            ("data", "describe", "rows.csv", "--column", "query=query_id", "--column", "label=grade"),
            "--set is now --column query=query_id --column label=grade; the next version takes --set for experiment "
            "files alone",
        ),
        (
            (*ROWS, "--column", "label=grade", "-m", "mrr", "-q"),
            (*ROWS, "--column", "label=grade", "-m", "mrr", "--per-query"),
            "-q is now --per-query; the next version takes -q with --format trec_eval alone",
        ),
    ],
)
def test_an_old_spelling_does_the_same_with_a_note(
    ltr: Cli, files: Path, old: tuple[str, ...], new: tuple[str, ...], note: str
) -> None:
    code, out, err = ltr(*new)
    assert note not in err
    assert ltr(*old) == (code, out, f"note: {note}\n{err}")


def test_with_the_format_of_trec_eval_q_stays(ltr: Cli, files: Path) -> None:
    given = ("evaluate", "--qrels", "llm.qrels", "--run", "x.run", "--format", "trec_eval", "-m", "map")
    code, out, err = ltr(*given, "-q")
    assert (code, out, err) == ltr(*given, "--per-query")
    assert (code, len(out.splitlines()), err) == (0, 4, "")  # three queries and all


def test_columns_are_those_of_files(ltr: Cli, files: Path) -> None:
    """An experiment file has its own: a value of it is changed by --set."""
    Path("mine.yaml").write_text("name: mine\n")
    code, _, err = ltr("data", "describe", "mine.yaml", "--column", "label=grade")
    assert (code, "mine.yaml with --reader or --column, which are about data files" in err) == (2, True)
