"""Data at addresses, on a real S3 server of this machine: the same numbers as from files, and each refusal once."""

from __future__ import annotations

import gzip
import json
import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pyarrow.fs as fs
import pytest

from ltr_harness import run_experiment
from ltr_harness._util.files import cache_folder
from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.data.addresses import COPIES, local_path
from ltr_harness.data.logs.log import files_of, open_log
from ltr_harness.data.readers.lightgbm import LightGbm
from ltr_harness.data.readers.parquet import Parquet
from ltr_harness.errors import ConfigError, DataError
from ltr_harness.experiments.config.load import load_experiment
from ltr_harness.monitoring.load import load_monitor_config
from ltr_harness.monitoring.synthetic import SyntheticLog

pytestmark = pytest.mark.long

SAID = ("evaluate", "--per-query", "--json")
Json = Callable[..., Any]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The endpoint of an S3 server, which this process's environment names."""
    reason = "needs an S3 server: pip install 'moto[s3]' flask flask-cors"
    moto = pytest.importorskip("moto.server", reason=reason, exc_type=ImportError)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    running = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    endpoint = "http://{}:{}".format(*running.get_host_and_port())
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_ENDPOINT_URL", endpoint)
        environment.setenv("AWS_ACCESS_KEY_ID", "somebody")
        environment.setenv("AWS_SECRET_ACCESS_KEY", "something")
        environment.setenv("AWS_EC2_METADATA_DISABLED", "true")
        store(allow_bucket_creation=True).create_dir("rows")
        yield endpoint
    running.stop()


def store(**options: bool) -> fs.S3FileSystem:
    """The server's content, seen by its owner."""
    return fs.S3FileSystem(endpoint_override=os.environ["AWS_ENDPOINT_URL"], **options)


def upload(key: str, content: bytes) -> str:
    with store().open_output_stream(key, compression=None) as stream:
        stream.write(content)
    return f"s3://{key}"


def put_all(folder: Path, key: str) -> str:
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            upload(f"{key}/{file.relative_to(folder).as_posix()}", file.read_bytes())
    return f"s3://{key}"


def rows(n_queries: int = 40, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    query = np.repeat(np.arange(n_queries), 5)
    good = rng.normal(size=query.size)
    grade = np.clip(np.round(good + rng.normal(size=query.size)), 0, 3).astype(int)
    day = np.where(query < n_queries // 2, "2024-01-01", "2024-01-02")
    other = rng.normal(size=query.size)
    return pd.DataFrame({"query_id": query, "label": grade, "bm25": good, "price": other, "day": day})


def write_partitioned(table: pd.DataFrame, folder: Path) -> Path:
    for day, part in table.groupby("day"):
        (folder / f"day={day}").mkdir(parents=True)
        part.drop(columns="day").to_parquet(folder / f"day={day}" / "part-0.parquet")
    (folder / "_SUCCESS").touch()
    return folder


@pytest.fixture
def run_json(capsys: pytest.CaptureFixture[str]) -> Json:
    """A function that runs a command and returns the JSON that it prints."""

    def run(*arguments: object) -> Any:
        code = run_command(cli, [str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert code == 0, err
        return json.loads(out)

    return run


def test_evaluate_is_the_same_to_the_bit(server: str, tmp_path: Path, run_json: Json) -> None:
    table = rows()
    table.to_parquet(tmp_path / "one.parquet")
    table.drop(columns="day").to_csv(tmp_path / "one.csv.gz", index=False)
    text = "".join(f"{row.label} qid:{row.query_id} 1:{row.bm25}\n" for row in table.itertuples())
    (tmp_path / "one.txt.gz").write_bytes(gzip.compress(text.encode()))
    pd.DataFrame({"score": table.bm25.round(1)}).to_csv(tmp_path / "scores.csv", index=False)
    there = put_all(tmp_path, "rows/several")
    put_all(write_partitioned(table, tmp_path / "parts"), "rows/several/parts")
    scores = ("--scores", tmp_path / "scores.csv")
    expected = run_json(*SAID, "--data", tmp_path / "one.parquet", *scores)["rankings"]
    for data in ("one.parquet", "one.csv.gz", "one.txt.gz", "parts"):
        document = run_json(*SAID, "--data", f"{there}/{data}", *scores)
        assert document["rankings"] == expected
        assert document["judgments"] == f"{there}/{data}"
    remote = run_json(*SAID, "--data", f"{there}/parts", "--scores", f"{there}/scores.csv")["rankings"]
    assert remote[0]["file"] == f"{there}/scores.csv"
    assert [one["per_query"] for one in remote] == [one["per_query"] for one in expected]


def test_an_experiment_reads_addresses(server: str, tmp_path: Path) -> None:
    found, records = {}, {}
    local = {
        part: write_partitioned(rows(seed=seed), tmp_path / part)
        for seed, part in enumerate(("train", "test"))
    }
    remote = {part: put_all(folder, f"rows/experiment/{part}") for part, folder in local.items()}
    for name, splits in (("here", local), ("there", remote)):
        named = {part: str(place) for part, place in splits.items()}
        config = {
            "name": name,
            "data": {
                "reader": "parquet",
                "splits": named | {"valid": {"holdout": 0.3}},
                "attributes": ["day"],
            },
            "stopping": {"metric": "ndcg@10", "max_rounds": 5},
            "report": {"formats": ["json"]},
            "models": {
                "lgbm": {"ranker": "lightgbm", "objective": "lambdarank", "preset": "small"},
                "price": {"ranker": "feature", "feature": "price"},
            },
        }
        result = run_experiment(config, runs=tmp_path / "runs")
        found[name] = result.comparison.query_differences("price")
        records[name] = [run.record for run in result.runs]
    assert np.array_equal(found["here"], found["there"], equal_nan=True)
    assert np.nanmax(np.abs(found["here"])) > 0
    assert [one.identity for one in records["there"]] == [one.identity for one in records["here"]]
    facts = {name: of[0].data["train"].files for name, of in records.items()}
    days = [f"{remote['train']}/day=2024-01-0{day}/part-0.parquet" for day in (1, 2)]
    assert [*facts["there"]] == days
    assert [*facts["there"].values()] == [*facts["here"].values()]


def test_a_log_is_monitored_at_its_address(server: str, tmp_path: Path, run_json: Json) -> None:
    table = SyntheticLog(days=3, queries_per_day=50, users=40).table()
    pa.dataset.write_dataset(
        table,
        tmp_path / "log",
        format="parquet",
        partitioning=pa.dataset.partitioning(pa.schema([("country", pa.string())]), flavor="hive"),
    )
    there = put_all(tmp_path / "log", "rows/log")
    config = {
        "columns": {"query_id": "request_id", "item_id": "sku", "rank": "position", "segments": ["country"]},
        "relevance": {"events": {"click": 1, "buy": 4}},
        "metrics": ["ndcg@10"],
    }
    documents = []
    for log in (str(tmp_path / "log"), there):
        (tmp_path / "monitor.yaml").write_text(json.dumps({**config, "log": log}))
        documents.append(
            run_json("monitor", tmp_path / "monitor.yaml", "-q", "--json", "-o", tmp_path / "out")
        )
    digests = [document.pop("production_sha256") for document in documents]
    assert digests[0] == digests[1]
    assert documents[0]["windows"] == documents[1]["windows"]
    provenance = json.loads((tmp_path / "out" / "provenance.json").read_text())
    assert all(name.startswith(there) for name in provenance["files"]["log"])
    assert open_log(there).columns == open_log(tmp_path / "log").columns


def test_a_copy_is_kept_as_long_as_the_original_stands(server: str) -> None:
    first, second = (upload(f"rows/kept/{name}.csv", b"a,b\n1,2\n") for name in "ab")
    upload("rows/kept/_temporary/c.csv", b"x")
    folder = local_path("s3://rows/kept")
    assert folder.is_relative_to(cache_folder() / COPIES)
    assert sorted(file.name for file in folder.rglob("*")) == ["a.csv", "b.csv"]
    before = {file.name: file.stat() for file in folder.iterdir()}
    assert local_path("s3://rows/kept") == folder
    assert {file.name: file.stat().st_ino for file in folder.iterdir()} == {
        name: seen.st_ino for name, seen in before.items()
    }
    time.sleep(1.1)  # the clock of S3 ticks in seconds
    upload(first.removeprefix("s3://"), b"a,b\n1,3\n")  # as long as before
    store().delete_file(second.removeprefix("s3://"))
    assert [file.read_bytes() for file in local_path("s3://rows/kept").iterdir()] == [b"a,b\n1,3\n"]


def test_without_a_cache_the_copy_goes_with_the_process(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    address = upload("rows/once/a.csv", b"a\n1\n")
    monkeypatch.setenv("LTR_HARNESS_CACHE", "off")
    assert local_path(address).read_bytes() == b"a\n1\n"
    assert local_path(address).is_relative_to(tempfile.gettempdir())
    upload("rows/once/b.csv", b"a\n2\n")
    folder = local_path("s3://rows/once")
    assert [file.name for file in files_of(folder)] == ["a.csv", "b.csv"]
    assert sum(len(table) for table in open_log(str(folder)).batches(["a"], None)) == 2


def test_a_file_of_this_machine_may_be_an_address(tmp_path: Path) -> None:
    assert local_path(tmp_path.as_uri()) == tmp_path


def test_nobody_else_may_read_it(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server checks permissions from here on; somebody without any is refused by it."""
    boto3, requests = pytest.importorskip("boto3"), pytest.importorskip("requests")
    address = upload("rows/private/a.csv", b"a\n1\n")
    people = boto3.client("iam", endpoint_url=server, region_name="us-east-1")
    people.create_user(UserName="guest")
    key = people.create_access_key(UserName="guest")["AccessKey"]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key["AccessKeyId"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", key["SecretAccessKey"])
    requests.post(f"{server}/moto-api/reset-auth", data=b"0")
    try:
        with pytest.raises(DataError) as caught:
            local_path(address)
    finally:
        requests.post(f"{server}/moto-api/reset-auth", data=b"inf")
    found = str(caught.value)
    assert found.startswith(f"{address}: permission denied (")
    assert found.endswith(
        "; sign in: AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; ?anonymous=true for public buckets"
    )
    assert found.count("denied") == 1


REFUSED = {
    "s3://rows/nothing": "s3://rows/nothing: no such file or folder",
    "s3://nowhere/nothing": "s3://nowhere/nothing: no such bucket",
    "s3://rows/../../evil": "s3://rows/../../evil: has '..' in it; expected an address from the bucket down",
    "s3://rows/x?token=abc": "s3://rows/x: has a secret in it, which records would keep; expected an address without",
    "s3://me:secret@rows/x": "s3://…@rows/x: has a secret in it, which records would keep; expected an address without",
    "s3://rows/x?regoin=a": "s3://rows/x: has the option 'regoin'; expected one of region, scheme, endpoint_override",
    "s3://[rows/x": "s3://[rows/x: cannot be read: Invalid IPv6 URL",
    "s3://rows/x?endpoint_override=http://127.0.0.1:9": "s3://rows/x: cannot be reached (When getting information",
    "gs://anonymous@rows/x?endpoint_override=127.0.0.1:9&scheme=http": "gs://anonymous@rows/x: cannot be reached (",
    "ftp://rows/x": "ftp://rows/x: its kind is none of s3://, gs://, abfs:// or file:// (Unrecognized",
}


@pytest.mark.parametrize("address", REFUSED)
def test_what_cannot_be_read_is_refused_once(server: str, address: str, tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(DataError) as caught:
        Parquet().read([address], tmp_path)
    assert time.monotonic() - started < 60
    assert str(caught.value).startswith(REFUSED[address])
    assert len(caught.value.problems) == 1
    assert "secret@" not in str(caught.value)
    assert "abc" not in str(caught.value)


def test_where_an_address_is_no_path(server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    address = upload("rows/plain/rank.train", b"1 1:2\n0 1:1\n")
    upload("rows/plain/rank.train.query", b"2\n")
    with pytest.raises(DataError) as caught:
        LightGbm().read([address], tmp_path)
    assert str(caught.value) == (
        f"{address}: is an address, and other files belong to it; expected a path; copy the folder to a disk first"
    )
    config = {
        "name": "x",
        "data": {"reader": "csv", "root": "s3://rows", "splits": {"train": "a", "test": "b"}},
    }
    with pytest.raises(ConfigError, match="'s3://rows' is an address; expected a path of this machine"):
        load_experiment({**config, "models": {"a": {"ranker": "feature", "feature": "f"}}})
    with pytest.raises(
        ConfigError, match="'s3://rows/history' is an address; expected a path of this machine"
    ):
        load_monitor_config(
            {"columns": {"query_id": "q"}, "history": "s3://rows/history", "metrics": ["ndcg@10"]}
        )
    assert run_command(cli, ["predict", "runs/x", address, "-o", "s3://rows/scores.csv"]) == 2
    assert "s3://rows/scores.csv: is an address; expected a path of this machine" in capsys.readouterr().err
