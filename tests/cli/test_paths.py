"""Paths as people give them: from home on, mistyped, with a suffix that says something else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from ltr_harness import compare, load_run, run_experiment
from ltr_harness._util.catalog import load_own_file
from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.data.readers.letor import Letor
from ltr_harness.data.readers.scores import read_scores
from ltr_harness.data.readers.trec import read_qrels
from ltr_harness.errors import DataError

Cli = Callable[..., tuple[int, str, str]]

YAML = """\
name: paths
data:
  reader: letor
  root: {root}
  splits:
    train: {train}
    valid: {{holdout: 0.5}}
    test: {test}
metrics: {{cutoffs: [2], report: [ndcg], primary: ndcg@2}}
models: {{random: {{ranker: random}}}}
report: {{formats: [json]}}
"""


@pytest.fixture
def ltr(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    """At home in one folder, standing in another."""
    home, here = tmp_path / "home", tmp_path / "here"
    (home / "data").mkdir(parents=True)
    here.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(here)
    for name, queries in (("train", "abcd"), ("test", "xy")):
        rows = "".join(f"1 qid:{q} 1:1.{ord(q)}\n0 qid:{q} 1:2.{ord(q)}\n" for q in queries)
        (home / "data" / f"{name}.txt").write_text(rows)
    (home / "scores.txt").write_text("1\n0\n1\n0\n")
    (home / "qrels").write_text("x 0 a 1\n")
    (home / "a.run").write_text("x Q0 a 1 1 t\n")

    def run(*arguments: str) -> tuple[int, str, str]:
        code = run_command(cli, list(arguments))
        return code, *capsys.readouterr()

    return run


@pytest.mark.parametrize(
    "arguments",
    [
        ("evaluate", "--data=~/data/test.txt", "--scores", "~/scores.txt", "-m", "ndcg@2"),
        ("evaluate", "--qrels", "~/qrels", "--run=~/a.run", "-m", "ndcg@2"),
        ("compare", "~/scores.txt", "--data", "~/data/test.txt", "-m", "ndcg@2"),
        ("data", "describe", "~/data/test.txt", "train=~/data/train.txt"),
        ("data", "convert", "~/data/test.txt", "-o", "~/out.csv"),
        ("init", "~/data/train.txt", "-o", "~/mine.yaml"),
    ],
)
def test_home_on_the_command_line(ltr: Cli, arguments: tuple[str, ...], tmp_path: Path) -> None:
    code, _, err = ltr(*arguments)
    assert code == 0, err
    assert not list((tmp_path / "here").iterdir())


@pytest.mark.long
@pytest.mark.usefixtures("without_report")
def test_home_in_yaml_and_in_python(ltr: Cli, tmp_path: Path) -> None:
    Path("one.yaml").write_text(YAML.format(root="~/data", train="train.txt", test="~/data/test.txt"))
    [run] = run_experiment("~/../here/one.yaml", runs="~/runs").runs
    assert run.path.is_relative_to(tmp_path / "home" / "runs")
    shown = f"~/runs/paths/{run.path.name}"
    assert load_run(shown).record.model == "random"
    assert compare(shown, metrics=["ndcg@2"]).models == ("random",)
    data = Letor().read(["~/data/test.txt"], Path())
    assert read_scores("~/scores.txt", data.judgments).tolist() == [1, 0, 1, 0]
    assert read_qrels("~/qrels").n_queries == 1
    (tmp_path / "home" / "mine.py").write_text("value = 3\n")
    assert load_own_file("~/mine.py:value") == 3
    code, _, err = ltr("show", "run", shown)
    assert code == 0, err
    assert not (tmp_path / "here" / "~").exists()


def test_a_mistyped_file_is_found_at_its_line(ltr: Cli, tmp_path: Path) -> None:
    for i in range(20):
        (tmp_path / "home" / "data" / f"part{i}.txt").write_text("1 qid:1 1:1\n")
    Path("one.yaml").write_text(YAML.format(root="~/data", train="trian.txt", test="[test.txt, tset.txt]"))
    for command in (("check", "one.yaml"), ("run", "one.yaml")):
        code, _, err = ltr(*command)
        assert code == 2
        folder = tmp_path / "home" / "data"
        assert f"one.yaml:6:12: {folder}/trian.txt: no such file; did you mean 'train.txt'?" in err
        assert f"one.yaml:8:11: {folder}/tset.txt: no such file; did you mean 'test.txt'?" in err
    code, _, err = ltr(
        "run", "one.yaml", "--set", "data.splits.train=trani.txt", "--set", "data.splits.test=test.txt"
    )
    assert code == 2
    assert "--set data.splits.train=trani.txt: " in err


def test_a_name_like_none_is_told_what_is_there(ltr: Cli, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"quux: no such file; .* has test\.txt, train\.txt"):
        Letor().read(["quux"], tmp_path / "home" / "data")


def test_what_is_parquet_under_another_name_has_a_cure_that_works(ltr: Cli, tmp_path: Path) -> None:
    """`--reader parquet` was proposed for scores, and refused beside --qrels."""
    frame = pd.DataFrame({"query_id": list("xxyy"), "row": [0, 1, 0, 1], "score": [1.0, 0, 1, 0]})
    frame.to_parquet("scores.txt")
    code, _, err = ltr("evaluate", "--data", "~/data/test.txt", "--scores", "scores.txt", "-m", "ndcg@2")
    assert code == 2
    assert "scores.txt: is a Parquet file; expected a text file; call it .parquet" in err
    Path("scores.txt").rename("scores.parquet")
    code, _, err = ltr("evaluate", "--data", "~/data/test.txt", "--scores", "scores.parquet", "-m", "ndcg@2")
    assert code == 0, err
