"""`ltr-harness data` and the lints of `ltr-harness check`, as a user sees them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ltr_harness.cli import cli
from ltr_harness.cli.ending import run_command


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    capsys.readouterr()
    code = run_command(cli, [str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two sound LETOR files: 30 and 20 queries of 6 rows."""
    draws = np.random.default_rng(3)
    for name, n in (("train", 30), ("test", 20)):
        rows = []
        for query in range(n):
            for _ in range(6):
                values = " ".join(f"{i}:{value:.4f}" for i, value in enumerate(draws.normal(size=3), 1))
                rows.append(f"{draws.integers(3)} qid:{name}{query} {values}\n")
        (tmp_path / f"{name}.txt").write_text("".join(rows))
    return tmp_path


def test_describe_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(
        capsys,
        "data",
        "describe",
        folder / "train.txt",
        f"judge={folder / 'test.txt'}",
        "-o",
        folder / "card",
    )
    assert code == 0
    assert "train.txt       30        180         3  6 / 6 / 6" in out
    assert "\njudge " in out
    assert "nothing suspicious found" in out
    assert err.splitlines() == [f"wrote {folder}/card/data_card.html", f"wrote {folder}/card/data_card.md"]


def test_describe_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "data", "describe", folder / "train.txt", "--json")
    assert code == 0
    facts = json.loads(out)
    assert facts["splits"][0]["n_rows"] == 180
    assert sum(facts["splits"][0]["grades"].values()) == 180
    assert facts["findings"] == []


def test_describe_an_experiment_and_wrong_options(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(
        capsys, "data", "describe", "configs/quickstart.yaml", "--set", "data.n_queries.train=20"
    )
    assert code == 0
    assert "train       20" in out
    file = folder / "train.txt"
    assert run(capsys, "data", "describe", file, "--option", "n_feature=3")[2] == (
        "error: --option: letor has no option 'n_feature'; did you mean 'n_features'? (known: first_index, "
        "n_features, regroup)\n"
    )
    assert "NAME=VALUE, such as n_features=136" in run(capsys, "data", "describe", file, "--option", "x")[2]
    assert (
        "n_features: Input should be" in run(capsys, "data", "describe", file, "--option", "n_features=x")[2]
    )
    assert (
        "unknown reader 'leter'; did you mean 'letor'?"
        in run(capsys, "data", "describe", file, "--reader", "leter")[2]
    )
    code, _, err = run(capsys, "data", "descibe")
    assert code == 2
    assert "did you mean 'describe'?" in err


def test_check_finds_what_is_planted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = folder / "x.yaml"
    config.write_text(
        "name: x\ndata:\n  reader: letor\n  splits: {train: train.txt, test: test.txt}\n"
        "metrics: {report: [ndcg], cutoffs: [50], primary: ndcg@50}\nmodels: {one: {ranker: feature, feature: 1}}\n"
    )
    code, out, _ = run(capsys, "check", config)
    assert code == 0
    assert "no problems found" in out
    assert "ndcg@50: the cutoff is above the median list length, 6 rows" in out
    text = (folder / "test.txt").read_text()
    leaked = "\n".join(f"{line} 4:{line[0]}" for line in text.splitlines())
    (folder / "test.txt").write_text(leaked)
    (folder / "train.txt").write_text(leaked)
    code, out, _ = run(capsys, "check", config)
    assert code == 2
    lines = out.splitlines()
    assert any(line.startswith("error: train and test: 20 queries are in both") for line in lines)
    assert any(line.startswith("error: test: feature 4 alone ranks with NDCG@10 of 1.0000") for line in lines)
    assert lines[-1] == "primary ndcg@50; 3 errors in the data, see above"
