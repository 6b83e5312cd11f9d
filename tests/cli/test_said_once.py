"""Messages about options that do not count, and about the runs of each plan, in place of lines that mislead."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command

STORED = Path(__file__).parents[1] / "stored" / "v1" / "runs" / "small"
Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ltr(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(STORED, "small")

    def run(*arguments: str) -> tuple[int, str, str]:
        code = run_command(cli, list(arguments))
        out, err = capsys.readouterr()
        return code, " ".join(out.split()), " ".join(err.split())

    return run


def plan(*names: str) -> None:
    """Write the plan of an interrupted experiment that was started with another option."""
    file = Path("small/plan.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), "runs": list(names)}))


OTHERS = "4 runs of other plans are there too (lgbm: 2, xgb: 2)"
CURE = "run the experiment again to finish it, or name run folders one by one"


@pytest.mark.parametrize(
    ("command", "what"),
    [
        (["report", "small"], "no finished runs"),
        (["compare", "small", "--no-ledger"], "contains no run"),
    ],
)
def test_a_plan_of_which_nothing_is_there(ltr: Cli, command: list[str], what: str) -> None:
    plan("lgbm--all--s1--000000000000", "lgbm--all--s2--000000000000")
    code, _, err = ltr(*command)
    assert code == 2
    assert (
        f"small: {what}: its last plan (plan.json) has 2 runs, of which 0 are there; {OTHERS}; {CURE}" in err
    )


def test_a_plan_of_which_some_is_there(ltr: Cli) -> None:
    runs = sorted(path.name for path in Path("small").glob("*--*"))
    plan(*runs[:2], "xgb--all--s1--000000000000")
    code, out, _ = ltr("report", "small", "-o", "out", "--format", "json")
    assert code == 0
    assert (
        "its last plan (plan.json) has 3 runs, of which 2 are there; 2 runs of other plans are there too (xgb: 2)"
        in out
    )
    assert "unfinished-plan" in Path("out/report.json").read_text()


def test_a_whole_plan_says_nothing(ltr: Cli) -> None:
    code, out, _ = ltr("report", "small", "-o", "out", "--format", "json")
    assert code == 0
    assert "plan.json" not in out


@pytest.mark.parametrize("other", ["a.csv", "./a.csv"])
def test_an_input_given_twice(ltr: Cli, other: str) -> None:
    Path("a.csv").write_text("query_id,mrr\n1,0.5\n2,0.4\n3,0.2\n")
    code, out, err = ltr("compare", "a.csv", other)
    assert code == 0
    assert "a.csv was given 2 times and counts once" in out + err


def test_a_run_given_twice(ltr: Cli) -> None:
    run = next(str(path) for path in Path("small").glob("lgbm--*"))
    code, out, err = ltr("compare", run, run, "--no-ledger")
    assert code == 0
    assert f"{run} was given 2 times and counts once" in out + err


@pytest.mark.parametrize("command", ["check", "run --dry-run"])
def test_stopping_on_another_depth_than_the_deciding_one(ltr: Cli, command: str) -> None:
    Path("e.yaml").write_text(
        "name: depth\n"
        "data: {reader: synthetic, n_queries: {train: 60, valid: 30, test: 30}, min_rows: 20}\n"
        "metrics: {report: [ndcg], cutoffs: [10], primary: ndcg@10}\n"
        "stopping: {metric: ndcg, patience: 5}\n"
        "models: {lgbm: {ranker: lightgbm, objective: lambdarank}}\n"
    )
    code, out, err = ltr(*command.split()[:1], "e.yaml", *command.split()[1:])
    assert code == 0, err
    assert "caution: stopping.metric: ndcg looks at whole lists" in out + err
