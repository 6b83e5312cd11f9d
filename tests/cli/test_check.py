"""`ltr-harness check` says what the metrics cannot be trusted with."""

from __future__ import annotations

from pathlib import Path

import pytest

from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command

SHORT_LISTS = """
name: short
seeds: [1]
data:
  reader: synthetic
  n_queries: {train: 20, valid: 10, test: 20}
  n_features: 12
  min_rows: 5
  max_rows: 8
metrics: {cutoffs: [3, 10], report: [ndcg, mrr], primary: ndcg@10}
models:
  a: {ranker: feature, feature: match_1}
  b: {ranker: random}
report: {formats: [json]}
"""


def test_cautions_are_printed_once_and_fail_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "short.yaml"
    config.write_text(SHORT_LISTS)
    assert run_command(cli, ["check", str(config), "--runs", str(tmp_path)]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("caution: ")]
    assert len(set(lines)) == len(lines)
    (large,) = (line for line in lines if "median list length" in line)
    assert large.startswith("caution: ndcg@10, mrr@10: the cutoff is above the median list length, ")


@pytest.mark.parametrize(
    ("metric", "said"), [("ndcg", True), ("ndcg@10000000", True), ("mrr@3", False), ("ndcg@3", False)]
)
def test_stopping_on_whole_lists_beside_a_cutoff_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], metric: str, said: bool
) -> None:
    config = tmp_path / "short.yaml"
    config.write_text(SHORT_LISTS.replace("primary: ndcg@10", "primary: ndcg@3"))
    rule = f"stopping={{metric: {metric}, patience: 3, max_rounds: 9}}"
    assert run_command(cli, ["check", str(config), "--runs", str(tmp_path), "--set", rule]) == 0
    out = capsys.readouterr().out
    assert (
        f"caution: stopping.metric: {metric} looks at whole lists, up to 8 documents, and ndcg@3 decides"
        in out
    ) == said


def test_a_stopping_metric_that_ties_leave_without_a_value_has_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "short.yaml"
    config.write_text(SHORT_LISTS)
    rule = "stopping={metric: map_retrieved@3, patience: 3, max_rounds: 9}"
    assert run_command(cli, ["check", str(config), "--runs", str(tmp_path), "--set", rule]) == 2
    err = capsys.readouterr().err
    assert "stopping.metric: map(denominator=retrieved): documents of query" in err
    assert "the first rounds tie many rows" in err


@pytest.mark.long
def test_another_comparison_makes_no_run_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "short.yaml"
    config.write_text(SHORT_LISTS)
    assert run_command(cli, ["run", str(config), "--runs", str(tmp_path), "--workers", "1"]) == 0
    stored = {path.name for path in (tmp_path / "short").glob("*--*")}
    config.write_text(SHORT_LISTS + "compare: {test: permutation, draws: 200}\n")
    assert run_command(cli, ["check", str(config), "--runs", str(tmp_path)]) == 0
    assert "done: 2 of 2 runs" in capsys.readouterr().out
    verbose = ["run", str(config), "--runs", str(tmp_path), "--workers", "1", "--verbose"]
    assert run_command(cli, verbose) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "sign-flip test (200 draws, seed 0), 95 % intervals" in out
    assert {path.name for path in (tmp_path / "short").glob("*--*")} == stored


@pytest.mark.long
def test_an_objective_that_does_not_look_at_what_decides_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "short.yaml"
    config.write_text(SHORT_LISTS)
    models = "models={top: {ranker: lightgbm, rounds: 3, params: {lambdarank_truncation_level: 2}}}"
    command = [
        "check",
        str(config),
        "--runs",
        str(tmp_path),
        "--set",
        models,
        "--set",
        "compare.baseline=top",
    ]
    assert run_command(cli, command) == 0
    assert (
        "caution: models.top: params.lambdarank_truncation_level is 2: pairs of rows below rank 2 are "
        "ignored, and ndcg@10 counts 10 ranks\n"
    ) in capsys.readouterr().out


FOLDS = """
name: folds
seeds: [1]
data: {reader: csv, query: q, label: y, root: ., files: [rows.csv], folds: 3}
metrics: {cutoffs: [3], report: [ndcg], primary: ndcg@3}
models:
  a: {ranker: feature, feature: f}
  b: {ranker: random}
"""


def test_the_features_come_first_and_the_splits_of_all_folds_are_a_line_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"q{row // 4},{row % 4 == row // 4 % 4:d},{row * 7 % 31}" for row in range(80)]
    (tmp_path / "rows.csv").write_text("\n".join(["q,y,f", *rows]))
    config = tmp_path / "folds.yaml"
    config.write_text(FOLDS)
    assert run_command(cli, ["check", str(config), "--runs", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [
        "1 feature: f",
        "train of each of 3 folds: 6 to 7 queries, 24 to 28 rows, 1 feature",
        "valid of each of 3 folds: 6 to 7 queries, 24 to 28 rows, 1 feature",
        "test of each of 3 folds: 6 to 7 queries, 24 to 28 rows, 1 feature",
    ]
    assert lines[4].startswith("memory: about 0.3 GB")
    assert "mapped" not in lines[4]
    assert "to train: 6 of 6 runs" in lines
