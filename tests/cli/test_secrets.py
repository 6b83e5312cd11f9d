"""Secrets in addresses are neither printed nor stored, whichever option, key or variable they come by."""

from __future__ import annotations

import gzip
import json
import logging
import re
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
import yaml

from ltr_harness import run_experiment
from ltr_harness._util.escapes import printable, without_secrets
from ltr_harness.cli import cli
from ltr_harness.data.addresses import local_path
from ltr_harness.errors import ConfigError, DataError
from ltr_harness.experiments.runs import load_run
from ltr_harness.monitoring.load import load_monitor_config

Cli = Callable[..., tuple[int, str, str]]
PLANTED = "PLANTED"
ADDRESSES = [
    f"s3://KEY:AB/{PLANTED}+x=@bucket/rows",
    f"s3://KEY:12/{PLANTED}@bucket/rows",
    f"s3://rows/x?endpoint_override=http://user:{PLANTED}@127.0.0.1:9",
    f"s3://rows/x?endpoint_override=http%3A%2F%2Fuser%3A{PLANTED}%40127.0.0.1:9",
    f"s3://rows/x?endpoint_override=user:{PLANTED}@127.0.0.1:9&scheme=http",
    f"s3://rows/x#secret={PLANTED}",
    f"gs://user:{PLANTED}@rows/x",
    f"abfs://container:{PLANTED}@account.dfs.core.windows.net/x",
    f"https://account.blob.core.windows.net/x?sv=1&sig={PLANTED}",
    f"https://{PLANTED}@host/x",
    f"postgresql+psycopg://user:1/{PLANTED}@127.0.0.1:1/db",
    f"tcp://user:{PLANTED}@127.0.0.1:9",
]
PUBLIC = [
    "s3://rows/day=2024-01-01/at@12:30",
    "s3://rows/x#1",
    "gs://anonymous@rows/x?endpoint_override=127.0.0.1:9&scheme=http",
    "abfs://container@account.dfs.core.windows.net/x",
    "https://github.com/owner/name@v1",
    "https://host/@owner/name:3",
    "http://host:8080/mail@host",
    "tcp://[::1]:8786",
    "sqlite:///mlflow.db",
    "file:///rows/a:b@c",
    "./mine.py:Mine",
    "compare(a, b): see c@d",
]
FOR_US = {"LTR_HARNESS_CACHE", "XDG_CACHE_HOME", "LTR_HARNESS_READ_LIMIT"}
CONFIG = {
    "name": "x",
    "data": {"reader": "synthetic", "splits": {"train": "train", "test": "test"}},
    "seeds": [1],
    "models": {"chance": {"ranker": "random"}, "bad": {"ranker": "./mine.py:Mine"}},
    "compare": {"baseline": "chance"},
    "report": {"formats": ["html", "json", "md"]},
}
MINE = f"""
from ltr_harness.models.random import RandomRanker
class Mine(RandomRanker):
    def fit(self, training):
        raise ConnectionError("no answer from {ADDRESSES[-2]}")
"""


def variables(repository: Path) -> set[str]:
    """Every environment variable that the package reads, and those in which its libraries expect secrets."""
    texts = [file.read_text(encoding="utf-8") for file in (repository / "ltr_harness").rglob("*.py")]
    names = (re.findall('"([A-Z][A-Z0-9]*_[A-Z0-9_]+|TERM)"', text) for text in texts if "environ" in text)
    theirs = {"AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AZURE_CLIENT_SECRET", "HF_TOKEN"}
    return theirs.union({"MLFLOW_TRACKING_URI", "MLFLOW_TRACKING_PASSWORD"}, *names) - FOR_US


def refuse_planted(folder: Path) -> None:
    """No file's name or content has it."""
    for path in folder.rglob("*"):
        assert PLANTED not in str(path.relative_to(folder))
        assert not path.is_file() or PLANTED.encode() not in path.read_bytes(), path


@pytest.fixture
def ltr_with_secrets(
    ltr: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Cli:
    """The command line in an empty folder; neither it nor logs nor files may have what was planted."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    caplog.set_level(logging.DEBUG)

    def run(*arguments: str) -> tuple[int, str, str]:
        code, out, err = ltr(*arguments)
        assert PLANTED not in f"{out}{err}{caplog.text}", (arguments, out, err)
        refuse_planted(tmp_path)
        return code, out, err

    return run


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_secret_is_left_out(address: str) -> None:
    for text in (address, f"'{address}', or x", json.dumps({"a": [address], "b": "c@d"}), str(Path(address))):
        assert PLANTED not in without_secrets(text)
        assert without_secrets(without_secrets(text)) == without_secrets(text)
    compact = json.dumps({"a": address, "b": "c@d"}, separators=(",", ":"))
    assert json.loads(printable(compact)) == {"a": without_secrets(address), "b": "c@d"}


@pytest.mark.parametrize("address", PUBLIC)
def test_nothing_else_is_left_out(address: str) -> None:
    assert without_secrets(f"at {address}, or x") == f"at {address}, or x"


def test_a_long_text_takes_no_long_time() -> None:
    started = time.process_time()
    for text in (
        f":/{'a' * 10**6}",
        f"{'a' * 10**6}:/",
        "a://" * 10**5,
        f"x://a{':a@' * 10**5}",
        "?a=b" * 10**5,
    ):
        without_secrets(text)
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    "address", [one for one in ADDRESSES if not one.startswith(("https", "post", "tcp"))]
)
def test_data_at_an_address_with_a_secret_is_refused(address: str) -> None:
    with pytest.raises(DataError, match="has a secret in it, which records would keep") as caught:
        local_path(address)
    assert PLANTED not in str(caught.value)


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_configuration_with_a_secret_is_refused_with_its_line(
    ltr_with_secrets: Cli, address: str, tmp_path: Path
) -> None:
    quoted = json.dumps(address)
    found = "has a secret in it, which records would keep; expected an address without; sign in by the environment\n"
    Path(tmp_path.parent / "x.yaml").write_text(f"name: x\ndata:\n  root: {quoted}\n")
    assert ltr_with_secrets("check", "../x.yaml") == (2, "", f"error: ../x.yaml:3:9: {found}")
    code, _, err = ltr_with_secrets("check", "../x.yaml", "--set", f"data.root={quoted}")
    assert code == 2
    assert re.search(r"--set data\.root=.*: has a secret in it", err)
    for config in ({"name": address}, {"name": "x", "models": {address: {"ranker": "random"}}}):
        with pytest.raises(ConfigError, match="has a secret in it") as caught:
            run_experiment(config, runs=tmp_path)
        assert PLANTED not in str(caught.value)
    with pytest.raises(ConfigError, match=r"columns\.query_id has a secret in it"):
        load_monitor_config({"columns": {"query_id": address}, "metrics": ["ndcg@10"]})


def commands(
    group: click.Group, above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, (*above, name))
        else:
            yield (*above, name), command


@pytest.mark.long
def test_every_option_of_every_command_keeps_it(ltr_with_secrets: Cli) -> None:
    """One option at a time holds an address; what else is required does not exist."""
    seen = 0
    for words, command in commands(cli):
        typed = [one for one in command.params if not (isinstance(one, click.Option) and one.is_flag)]
        for param in typed:
            required = [one for one in typed if one.required and one is not param]
            for address in (ADDRESSES[0], f"name={ADDRESSES[2]}", ADDRESSES[-2]):
                arguments = [*words]
                for one, value in ((param, address), *((other, "1") for other in required)):
                    arguments += [value] if isinstance(one, click.Argument) else [one.opts[-1], value]
                ltr_with_secrets(*arguments)
                seen += 1
    assert seen > 300


@pytest.mark.long
def test_a_run_stores_and_prints_no_variable_and_no_error_with_it(
    ltr_with_secrets: Cli, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", None)
    folder = tmp_path.parent / f"{tmp_path.name}-config"
    folder.mkdir()
    (folder / "mine.py").write_text(MINE)
    (folder / "x.yaml").write_text(yaml.safe_dump(CONFIG))
    names = variables(repository)
    assert {"AWS_ENDPOINT_URL", "OMP_NUM_THREADS", "TERM"} <= names
    for name in names:
        monkeypatch.setenv(name, ADDRESSES[-2])
    code, _, err = ltr_with_secrets("run", str(folder / "x.yaml"))
    assert code == 1
    assert "ConnectionError: no answer from postgresql+psycopg://…@127.0.0.1:1/db" in err
    [failed] = tmp_path.glob("runs/x/bad--*")
    assert (
        load_run(failed).record.error
        == "ConnectionError: no answer from postgresql+psycopg://…@127.0.0.1:1/db"
    )
    assert (tmp_path / "runs" / "x" / "report" / "report.html").is_file()
    assert ltr_with_secrets("show", "runs", "runs/x")[0] == 0


@pytest.mark.parametrize("name", sorted(FOR_US))
def test_a_variable_that_we_read_is_refused(
    ltr_with_secrets: Cli, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LTR_HARNESS_CACHE", raising=False)
    monkeypatch.setenv(name, ADDRESSES[0])
    Path("rows.csv.gz").write_bytes(gzip.compress(b"query_id,label,f\n1,1,2\n"))
    code, _, err = ltr_with_secrets("data", "describe", "rows.csv.gz")
    assert code != 0
    assert name in err


@pytest.fixture(scope="module")
def finished_folder(tmp_path_factory: pytest.TempPathFactory, module_without_report: None) -> Path:
    models = {"chance": {"ranker": "random"}}
    config = {**CONFIG, "models": models, "report": {"formats": ["json"]}}
    return run_experiment(config, runs=tmp_path_factory.mktemp("finished")).folder


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_mlflow_is_told_the_password_and_nobody_else(ltr_with_secrets: Cli, finished_folder: Path) -> None:
    pytest.importorskip("mlflow")
    with socket.socket() as nobody:  # bound, and not listened to
        nobody.bind(("127.0.0.1", 0))
        there = f"127.0.0.1:{nobody.getsockname()[1]}"
        started = time.monotonic()
        for scheme, password in (("http", PLANTED), ("http", f"AB/{PLANTED}"), ("https", PLANTED)):
            code, _, err = ltr_with_secrets(
                "export", "mlflow", str(finished_folder), "--to", f"{scheme}://u:{password}@{there}"
            )
            assert code == 1
            assert err.startswith(f"error: {scheme}://…@{there}: no MLflow server answers (")
        assert time.monotonic() - started < 60
    for store in (f"postgresql://u:{PLANTED}@{there}/x", f"postgresql://u:a {PLANTED}@{there}/x"):
        code, _, err = ltr_with_secrets("export", "mlflow", str(finished_folder), "--to", store)
        assert code == 1
        assert err.startswith(f"error: postgresql://…@{there}/x: MLflow: ")
    code, _, err = ltr_with_secrets(
        "export", "mlflow", str(finished_folder), "--to", f"other://u:a {PLANTED}@{there}"
    )
    assert (code, err.count("other://…@")) == (1, 2)


@pytest.mark.long
def test_dask_takes_no_password(ltr_with_secrets: Cli) -> None:
    Path("x.yaml").write_text(yaml.safe_dump({**CONFIG, "models": {"chance": {"ranker": "random"}}}))
    code, _, err = ltr_with_secrets("run", "x.yaml", "--quiet", "--dask", ADDRESSES[-1])
    assert (code, err.partition(";")[0]) == (2, "error: --dask: has a secret in it, which records would keep")
