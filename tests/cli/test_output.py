"""Whatever data, names of files and records hold: no command passes a control character on to the terminal."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command

Cli = Callable[..., tuple[int, str]]

ESC = "\x1b]0;owned\x07"
EVIL = f"{ESC}\x9b2J\u202e"
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\ufffe]")

CONFIG = r"""
name: e
seeds: [1]
data:
  reader: csv
  files: rows.csv
  folds: 3
  query: query
  attributes: ["country\x1b[1m"]
metrics: {cutoffs: [2], report: [ndcg], primary: ndcg@2}
models:
  best: {ranker: feature, feature: "f1\x1b[31m"}
  chance: {ranker: random}
"""


@pytest.fixture
def ltr(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    """A command in a folder of hostile files: its exit code, and all it printed."""
    monkeypatch.chdir(tmp_path)
    n = 24
    countries = [f"x{EVIL}", "y\x1f\ufffe"]
    rows = [
        f'{label},"q{q}{ESC}","{countries[q % 2]}",{label + q / 100:.2f},{q}\n'
        for q in range(n)
        for label in (2, 1, 0)
    ]
    head = "label,query,country\x1b[1m,f1\x1b[31m,f2\n"
    Path("rows.csv").write_text(head + "".join(rows))
    Path("scores.txt").write_text("".join(f"{label}\n" for _ in range(n) for label in (2, 0, 1)))
    Path(f"scores{ESC}.txt").write_text(Path("scores.txt").read_text())
    Path("qrels").write_text(
        "".join(f"q{q}{ESC} 0 d{label} {label}\n" for q in range(n) for label in range(3))
    )
    Path("a.run").write_text(
        "".join(f"q{q}{ESC} Q0 d{label} 0 {label} tag{EVIL}\n" for q in range(n) for label in range(3))
    )
    Path("e.yaml").write_text(CONFIG)

    def run(*arguments: str) -> tuple[int, str]:
        code = run_command(cli, list(arguments))
        out, err = capsys.readouterr()
        assert "internal error" not in err
        assert not OBEYED.findall(out + err)
        return code, out + err

    return run


CSV = ("--data", "rows.csv", "--column", "query=query")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("evaluate", *CSV, "--scores", "scores.txt", "--per-query"), 0),
        (("evaluate", *CSV, "--scores", "scores.txt", "--per-query", "--format", "csv"), 0),
        (("evaluate", *CSV, "--scores", "scores.txt", "--per-query", "--format", "json"), 0),
        (("evaluate", *CSV, "--scores", "scores.txt", "--scores", f"scores{ESC}.txt"), 0),
        (("evaluate", "--qrels", "qrels", "--run", "a.run", "-q", "--format", "trec_eval"), 0),
        (("evaluate", "--qrels", "qrels", "--run", "a.run", "--format", "csv"), 0),
        (("explain", "ndcg@2", "--query", f"q1{ESC}", "--qrels", "qrels", "--run", "a.run"), 0),
        (("compare", "--data", "rows.csv", "--column", "query=query", "scores.txt", f"scores{ESC}.txt"), 0),
        (("data", "describe", "rows.csv", "--column", "query=query"), 0),
        (("data", "describe", "rows.csv", "--column", f"query={ESC}"), 2),
        (("data", "describe", f"missing{EVIL}"), 2),
        (("init", "rows.csv", "-o", f"mine{ESC}.yaml", "--accept", "leaking-feature"), 0),
        (("check", f"missing{ESC}.yaml"), 2),
        (("show", "run", f"missing{EVIL}"), 2),
        (("evaluate", f"--{EVIL}"), 2),
        ((f"evaluate{EVIL}",), 2),
    ],
    ids=lambda value: None if isinstance(value, int) else " ".join(map(repr, value))[:60],
)
def test_commands_show_control_characters(ltr: Cli, arguments: tuple[str, ...], expected: int) -> None:
    code, said = ltr(*arguments)
    assert code == expected, said


@pytest.mark.long
@pytest.mark.parametrize(
    "arguments",
    [
        ("compare", *CSV, "-m", "ndcg@2"),
        ("compare", *CSV, "-m", "ndcg@2", "--json"),
        ("evaluate", *CSV, "-m", "ndcg@2"),
        ("evaluate", *CSV, "-m", "ndcg@2", "--format", "csv"),
        ("check", "::error::x.yaml"),
    ],
    ids=" ".join,
)
def test_names_are_no_commands_of_github_actions(ltr: Cli, arguments: tuple[str, ...]) -> None:
    """Its runner obeys ``::name::`` at the start of a line, after blanks too, and ``##[name]`` anywhere."""
    names = "::error::x.txt", "##[error]x.txt", f"{'long' * 18} ::error::.txt"
    for name in names:
        Path(name).write_text(Path("scores.txt").read_text())
    if arguments[0] == "compare":
        arguments += names
    elif arguments[0] == "evaluate":
        arguments += tuple(word for name in names for word in ("--scores", name))
    code, said = ltr(*arguments)
    assert code == 2 * (arguments[0] == "check"), said
    assert "error" in said
    assert [line for line in said.splitlines() if line.lstrip().startswith("::") or "##[" in line] == []


@pytest.mark.long
def test_a_whole_experiment(ltr: Cli, tmp_path: Path) -> None:
    for arguments in (
        ("check", "e.yaml"),
        ("run", "e.yaml", "--workers", "1"),
        ("show", "config", "e.yaml"),
        ("run", "e.yaml", "--workers", "1", "--json"),
        ("compare", "runs/e"),
    ):
        code, said = ltr(*arguments)
        assert code == 0, said
    for folder in Path("runs/e").glob("*--*"):
        assert ltr("show", "run", str(folder))[0] == 0
        code, said = ltr("show", "worst", str(folder))
        assert code == 0
        assert len({len(line) for line in said.splitlines()}) == 1  # what a terminal shows, escapes spelt out
    for path in sorted((tmp_path / "runs" / "e" / "report").rglob("*")):
        if path.suffix in (".html", ".md", ".tex", ".svg", ".json"):
            text = path.read_text(encoding="utf-8")
            inside = (
                text[: text.index("<script>")] if path.suffix == ".html" else text
            )  # not Vega's own program
            assert not OBEYED.findall(inside), path
    shown = (tmp_path / "runs" / "e" / "report" / "report.html").read_text()
    assert ": x\\x1b]0;owned\\x07\\u009b2J\\u202e</th>" in shown
    assert ": y\\x1f\\ufffe</th>" in shown
    document = json.loads((tmp_path / "runs" / "e" / "report" / "report.json").read_text())
    assert f"x{EVIL}" in {found["label"] for found in document["slices"]}


PRINTS = {
    "cli/output.py": "say, and a line that is written again and again",
    "cli/json_events.py": "JSON lines",
    "report/chart_engine.py": "talks to its parent",
    "boosting/watching.py": "what a script asks `Watch` to print, escaped there",
    "experiments/config/json_schema.py": "the published schema",
    "monitoring/load.py": "the published schema",
}


@pytest.mark.long
def test_nothing_else_prints(repository: Path) -> None:
    """A new `print` or `click.echo` would pass foreign text by."""
    package = repository / "ltr_harness"
    prints = ("print", "click.echo", "click.secho", "sys.stdout.write", "sys.stderr.write")
    calls = re.compile("|".join(rf"\b{re.escape(name)}\(" for name in prints))
    found = set()
    for path in package.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if calls.search(text) else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func) in prints:
                found.add(path.relative_to(package).as_posix())
    assert found - PRINTS.keys() == set()
