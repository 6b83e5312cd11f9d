"""`ltr-harness data agreement`, and `--several` for judgments of rankings."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Cli = Callable[..., tuple[int, str, str]]

HUMAN = "".join(
    f"q{n} 0 {document} {grade}\n"
    for n in range(40)
    for document, grade in (("a", 2), ("b", n % 2), ("c", 0))
)
JUDGE = HUMAN.replace("c 0", "c 1")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "human.qrels").write_text(HUMAN)
    (tmp_path / "llm.qrels").write_text(JUDGE)
    for name, order in (("old", "bca"), ("new", "abc")):
        lists = {f"q{n}": list(order) for n in range(40)}
        (tmp_path / f"{name}.json").write_text(json.dumps(lists))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_judges_beside_a_human(folder: Path, ltr: Cli) -> None:
    code, _, err = ltr("data", "agreement", "human.qrels", "llm.qrels", "twin=human.qrels")
    assert code == 2
    assert "is given twice" in err  # the human is no judge
    code, out, err = ltr(
        "data", "agreement", "human.qrels", "gpt=llm.qrels", "--run", "old.json", "--run", "new.json", "-m", "ndcg@2",
        "-o", "judges",
    )  # fmt: skip
    assert code == 0, err
    lines = out.splitlines()
    assert lines[0] == "The decision by gpt is the same."
    assert lines[2].startswith("gpt agrees with human at kappa 0.")
    assert " on 120 documents of 40 queries; it is milder by 0.33 (" in lines[2]
    assert any(
        line.startswith("The decision by gpt is that by human at ndcg@2 over 40 queries; ") for line in lines
    )
    assert (folder / "judges" / "report.html").exists()
    stored = json.loads(ltr("data", "agreement", "human.qrels", "llm.qrels", "--json")[1])
    (judge,) = stored["judges"]
    assert judge["overall"]["n_documents"] == 120
    assert judge["overall"]["bias"]["value"] == pytest.approx(1 / 3)
    assert judge["decision"] is None


def test_one_file_of_several_judges(folder: Path, ltr: Cli) -> None:
    rows = ["query_id,doc_id,grade,annotator"]
    for name, text in (("ann", HUMAN), ("bob", JUDGE)):
        rows += [
            f"{query},{document},{grade},{name}"
            for query, _, document, grade in map(str.split, text.splitlines())
        ]
    (folder / "votes.csv").write_text("\n".join(rows) + "\n")
    code, out, err = ltr("data", "agreement", "votes.csv", "--judge-column", "annotator")
    assert code == 0, err
    assert "bob agrees with ann at kappa 0." in out
    code, _, err = ltr("data", "agreement", "votes.csv", "--judge-column", "rater")
    assert code == 2
    assert "has no column 'rater'; its columns: query_id, doc_id, grade, annotator" in err


def test_bad_input_is_refused(folder: Path, ltr: Cli) -> None:
    (folder / "other.qrels").write_text("x 0 y 1\n")
    code, _, err = ltr("data", "agreement", "human.qrels", "other.qrels")
    assert code == 2
    assert "other.qrels: judges no document that human.qrels judges" in err
    code, _, err = ltr("data", "agreement", "human.qrels")
    assert code == 2
    assert "no judge" in err


def test_several_judgments_of_rankings(folder: Path, ltr: Cli) -> None:
    (folder / "twice.qrels").write_text(HUMAN + JUDGE)
    code, _, err = ltr("evaluate", "--qrels", "twice.qrels", "--run", "old.json", "-m", "ndcg@2")
    assert code == 2
    assert "--several majority" in err
    code, _, err = ltr(
        "evaluate",
        "--qrels",
        "twice.qrels",
        "--run",
        "old.json",
        "-m",
        "ndcg(gain=linear)@2",
        "--several",
        "mean",
    )
    assert code == 0, err
    assert "120 documents of 120 have several judgments: their label is the mean grade (several: mean)" in err
    code, _, err = ltr(
        "compare", "old.json", "new.json", "--qrels", "twice.qrels", "-m", "ndcg@2", "--several", "max"
    )
    assert code == 0, err
    code, _, err = ltr("evaluate", "--data", "rows.txt", "--scores", "s.txt", "--several", "max")
    assert code == 2
    assert "--several goes with --qrels" in err
