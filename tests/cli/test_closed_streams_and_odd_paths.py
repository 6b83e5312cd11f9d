"""Commands in odd surroundings: closed streams, no docstrings, names of folders with a colon, edited records."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from tests.experiments.training.commands import Command, make_shared_memory_read_only

CONFIG = """
name: e
seeds: [1]
data: {reader: synthetic, n_queries: {train: 20, valid: 10, test: 20}, n_features: 12, max_grade: 4}
metrics: {cutoffs: [3], report: [ndcg], primary: ndcg@3}
models: {chance: {ranker: random}}
report: {formats: [json]}
"""


@pytest.mark.parametrize(
    ("closed", "arguments", "code"),
    [
        (">&-", "list metrics", 0),
        (">&- 2>&- <&-", "list nothing", 2),
    ],
)
@pytest.mark.long
def test_closed_streams_change_no_exit_code(tmp_path: Path, closed: str, arguments: str, code: int) -> None:
    command = f"exec {sys.executable} -m ltr_harness {arguments} {closed}"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert "internal error" not in done.stderr


@pytest.mark.long
def test_a_reader_who_has_gone_is_no_failure() -> None:
    """As `head -1` does it, but before the first line."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ltr_harness", "list", "metrics"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert (process.stderr.read(), process.wait()) == (b"", 0)
    process.stderr.close()


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="mounts")
def test_without_shared_memory_workers_are_refused(tmp_path: Path) -> None:
    (tmp_path / "e.yaml").write_text(CONFIG.replace("seeds: [1]", "seeds: [1, 2]"))
    alone = ["unshare", "--map-root-user", "--mount", "bash", "-c"]
    read_only = "mount -t tmpfs -o ro none /dev/shm"
    tried = subprocess.run([*alone, read_only], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"needs a mount of its own: {tried.stderr}")
    refusal = (
        "error: workers: processes cannot share a lock: Read-only file system; expected shared memory that can be "
        "written (/dev/shm on Linux); --workers 1 needs none\n"
    )
    for workers, expected in (("2", (2, refusal)), ("1", (0, ""))):
        arguments = ["run", tmp_path / "e.yaml", "--runs", tmp_path / "runs", "--quiet", "--workers", workers]
        command = Command(tmp_path / workers, *arguments, prepare=make_shared_memory_read_only)
        code, _, err = command.wait()
        assert (code, err) == expected


def test_a_path_that_is_too_long_is_a_mistake_of_the_caller(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(cli, ["export", "requirements", "x" * 5000]) == 2
    assert "xxx/record.json: File name too long" in capsys.readouterr().err


BROKEN = """
import sys
import click
from ltr_harness.cli.exit_codes import run_command

@click.command()
def broken() -> None:
    raise KeyError("description")  # as of a class that has no docstring

sys.exit(run_command(broken, []))
"""


@pytest.mark.long
def test_without_docstrings_the_cure_is_named() -> None:
    command = [sys.executable, "-OO", "-c", BROKEN]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "PYTHONOPTIMIZE=2" in done.stderr
    assert "internal error" not in done.stderr


@pytest.fixture
def experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("e.yaml").write_text(CONFIG)
    assert run_command(cli, ["run", "e.yaml", "--workers", "1", "--runs", "rdask:2", "--quiet"]) == 0
    return Path("rdask:2") / "e"


@pytest.mark.long
def test_a_folder_with_a_colon_is_no_address(experiment: Path) -> None:
    assert len(list(experiment.glob("*/record.json"))) == 1
    assert run_command(cli, ["report", str(experiment), "-o", "s3:out", "--format", "json"]) == 0


def test_data_in_a_folder_with_a_colon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hdfs:1").mkdir()
    rows = {"query_id": [1, 1, 2, 2], "label": [1, 0, 0, 1], "f": [0.5, 0.1, 0.2, 0.3]}
    pd.DataFrame(rows).to_parquet(tmp_path / "hdfs:1" / "rows.parquet")
    assert run_command(cli, ["data", "describe", "hdfs:1/rows.parquet"]) == 0
    assert run_command(cli, ["data", "convert", "hdfs:1/rows.parquet", "-o", "s3:2/again.parquet"]) == 0
    table = pd.DataFrame({"query_id": range(9), "ndcg@3": [0.1 * at for at in range(9)]})
    for name in "ab":
        table.to_parquet(tmp_path / "hdfs:1" / f"{name}.parquet")
    assert run_command(cli, ["compare", "hdfs:1/a.parquet", "hdfs:1/b.parquet"]) == 0


@pytest.mark.long
def test_a_record_that_names_a_metric_its_tables_lack(
    experiment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = experiment.glob("*/record.json")
    record = json.loads(path.read_text())
    record["metrics"]["map@3"] = record["metrics"]["ndcg@3"]
    path.write_text(json.dumps(record))
    said = (
        f"{path.parent}: record.json names map@3, of which per_query.parquet has no column; remove the folder"
    )
    for arguments in (
        ["report", str(experiment)],
        ["compare", str(experiment), "-m", "map@3"],
        ["show", "worst", str(path.parent), "-m", "map@3"],
    ):
        assert run_command(cli, arguments) == 2
        assert said in capsys.readouterr().err
