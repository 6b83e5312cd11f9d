"""CSV that a command writes: no formula in a spreadsheet, no control character, and the same ids when it is read."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from ltr_harness._util.tables import csv_cell
from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.data.readers.csv import Csv
from ltr_harness.experiments.compare.tables import read_table

Run = Callable[..., str]

IDS = ["=cmd|'/c calc'!A0", "@SUM(1)", "+1", "-1.5e3", "-x", "'=y", "''@z", "'a", "12"]
WRITTEN = ["'=cmd|'/c calc'!A0", "'@SUM(1)", "+1", "-1.5e3", "'-x", "''=y", "'''@z", "'a", "12"]

CONFIG = """
name: e
seeds: [1]
data: {reader: csv, files: rows.csv, folds: 3, query: query, document_id: doc}
metrics: {cutoffs: [2], report: [ndcg], primary: ndcg@2}
models: {best: {ranker: feature, feature: f}}
"""


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """A command in a folder with rows whose ids are `IDS`: what it printed."""
    monkeypatch.chdir(tmp_path)
    with Path("rows.csv").open("w", newline="") as file:
        rows = [[label, csv_cell(name), csv_cell(f"={label}"), label] for name in IDS for label in (0, 1)]
        csv.writer(file).writerows([["label", "query", "doc", "f"], *rows])

    def run(*arguments: str, code: int = 0) -> str:
        found = run_command(cli, list(arguments))
        out, err = capsys.readouterr()
        assert found == code, err
        return out

    return run


def cells(text: str, column: str, separator: str = ",") -> list[str]:
    return [row[column] for row in csv.DictReader(text.splitlines(), delimiter=separator)]


def test_what_is_a_formula_gets_an_apostrophe_and_a_number_stays() -> None:
    assert [csv_cell(name) for name in IDS] == WRITTEN
    assert csv_cell("\t=1") == "\\t=1"
    assert csv_cell("\r\x1b[2J") == "\\r\\x1b[2J"


def test_tables_of_per_query_values(run: Run) -> None:
    Path("scores.txt").write_text("0\n1\n" * len(IDS))
    data = ("--data", "rows.csv", "--column", "query=query", "--scores", "scores.txt", "-m", "ndcg@2")
    Path("a.csv").write_text(run("evaluate", *data, "--per-query", "--format", "csv"))
    assert cells(Path("a.csv").read_text(), "query_id") == sorted(
        WRITTEN, key=lambda cell: WRITTEN.index(cell)
    )
    assert read_table(Path("a.csv"))["query_id"].tolist() == IDS
    Path("@scores.txt").write_text("0\n1\n" * len(IDS))
    assert cells(run("evaluate", *data, "--scores", "@scores.txt", "--format", "csv"), "ranking") == [
        "scores",
        "'@scores",
    ]


@pytest.mark.parametrize("file", ["new.csv", "new.tsv"])
def test_converted_data(run: Run, file: str) -> None:
    run("data", "convert", "rows.csv", "--column", "query=query", "--column", "document_id=doc", "-o", file)
    separator = "," if file == "new.csv" else "\t"
    assert cells(Path(file).read_text(), "query_id", separator)[::2] == WRITTEN
    read = Csv(document_id="document_id").read([file], Path())
    assert read.groups.ids.tolist() == IDS
    assert set(read.judgments.document_ids.tolist()) == {"=0", "=1"}


def test_control_characters_in_converted_data(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    Path("odd.csv").write_text('label,query,f\n1,"a\nb\x1b",1\n0,"a\nb\x1b",2\n')
    assert run_command(cli, ["data", "convert", "odd.csv", "--column", "query=query", "-o", "n.csv"]) == 0
    assert "control characters in 1 text are escapes now; Parquet keeps them" in "".join(capsys.readouterr())
    assert cells(Path("n.csv").read_text(), "query_id") == ["a\\nb\\x1b"] * 2


@pytest.mark.long
@pytest.mark.usefixtures("without_report")
def test_predicted_scores(run: Run) -> None:
    Path("e.yaml").write_text(CONFIG)
    run("run", "e.yaml", "--workers", "1")
    made = min(Path("runs/e").glob("best*"))
    run(
        "predict",
        str(made),
        "rows.csv",
        "--column",
        "query=query",
        "--column",
        "document_id=doc",
        "-o",
        "p.csv",
    )
    assert cells(Path("p.csv").read_text(), "query_id")[::2] == WRITTEN
    assert cells(Path("p.csv").read_text(), "document_id")[:2] == ["'=0", "'=1"]
    data = ("--data", "rows.csv", "--column", "query=query", "--column", "document_id=doc")
    assert "1.0000" in run("evaluate", *data, "--scores", "p.csv", "-m", "ndcg@2")


@pytest.mark.long
def test_tables_of_the_monitor(run: Run) -> None:
    """Queries of one language become bad, and the column of languages is called as a formula begins."""
    for name, relevant in (("before.csv", (1, 1)), ("now.csv", (1, 2))):
        rows = [[q, rank, int(rank == relevant[q % 2]), "ab"[q % 2]] for q in range(400) for rank in (1, 2)]
        with Path(name).open("w", newline="") as file:
            csv.writer(file).writerows([["query_id", "rank", "relevance", "=lang"], *rows])
    config = {
        "columns": {"rank": "rank", "segments": ["=lang"]},
        "metrics": ["mrr"],
        "slices": {"max_predicates": 1, "min_queries": 50},
    }
    Path("m.yaml").write_text(yaml.safe_dump(config))
    run("monitor", "m.yaml", "--log", "now.csv", "--baseline", "before.csv", "-o", "out", code=4)
    assert cells(Path("out/slices.csv").read_text(), "slice") == ["'=lang=b"]
