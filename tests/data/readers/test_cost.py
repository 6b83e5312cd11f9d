"""The cost of a file is known before it is paid: few bytes never take all memory unless an option allows it."""

from __future__ import annotations

import bz2
import functools
import gzip
import lzma
import os
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ltr_harness.data.readers import text_files as cost
from ltr_harness.data.readers.csv import Csv
from ltr_harness.data.readers.letor import Letor
from ltr_harness.data.readers.lightgbm import LightGbm
from ltr_harness.data.readers.parquet import Parquet
from ltr_harness.data.readers.scores import read_scores
from ltr_harness.data.readers.text_files import Bound, memory, text_bytes
from ltr_harness.data.readers.trec import read_qrels
from ltr_harness.errors import DataError, UsageError


def refusal(read: Callable[[], object]) -> str:
    with pytest.raises(DataError) as caught:
        read()
    (problem,) = caught.value.problems
    return str(problem)


# --- the bound -----------------------------------------------------------------------------------------------


def test_a_bound_is_relative_to_the_file_and_to_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(cost.VARIABLE, raising=False)
    monkeypatch.setattr(cost, "memory", lambda: 50e9)
    assert Bound.of_file(20) == Bound(256e6, "enough for a small file")
    assert Bound.of_file(10_000_000) == Bound(1e9, "100 times the file")
    assert Bound.of_file(10_000_000_000) == Bound(50e9, "the memory of this machine")
    assert Bound.of_file(20, meant=True) == Bound(50e9, "the memory of this machine")
    assert Bound.of_file(10_000_000, (3e8, "the room in /tmp")) == Bound(3e8, "the room in /tmp")
    monkeypatch.setattr(cost, "memory", lambda: None)
    assert Bound.of_file(20, meant=True).most == float("inf")


@pytest.mark.parametrize(
    ("text", "most"),
    [("20GB", 20e9), ("1.5 gib", 1.5 * 2**30), ("300000000", 3e8), ("7k", 7e3), ("off", float("inf"))],
)
def test_the_option_that_lifts_it(monkeypatch: pytest.MonkeyPatch, text: str, most: float) -> None:
    monkeypatch.setenv(cost.VARIABLE, text)
    assert Bound.of_file(20).most == most


@pytest.mark.parametrize("text", ["much", "-1", "20 GB per file", "1e9"])
def test_an_option_that_is_no_size(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(cost.VARIABLE, text)
    with pytest.raises(
        UsageError, match=r"LTR_HARNESS_READ_LIMIT: found .*; expected a size, such as 20GB, or"
    ):
        Bound.of_file(20)


def test_the_memory_is_what_this_process_may_take() -> None:
    found = memory()
    assert found is not None
    assert 1e8 < found <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


# --- feature indices -----------------------------------------------------------------------------------------


def test_twenty_bytes_do_not_ask_for_ten_gigabytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("1 qid:1 999999999:1\n")
    assert refusal(lambda: Letor().read(["a.txt"], tmp_path)) == (
        f"{tmp_path}/a.txt:1: the largest feature index is 999,999,999: 1 row of 999,999,999 columns take 12.0 GB; "
        "expected at most 256.0 MB: enough for a small file; check whether that index is a typo; features with very "
        "large indices need hashing or selection first; if it is meant, set LTR_HARNESS_READ_LIMIT to a size, such "
        "as 20GB, or to off"
    )
    (tmp_path / "a.txt").write_text("1 qid:1 99999:1\n")
    monkeypatch.setattr(cost, "SMALL", 100_000)
    assert "take 1.2 MB; expected at most 100.0 kB" in refusal(lambda: Letor().read(["a.txt"], tmp_path))
    assert Letor(n_features=99_999).read(["a.txt"], tmp_path).n_features == 99_999  # said in so many words
    monkeypatch.setenv(cost.VARIABLE, "2MB")
    assert Letor().read(["a.txt"], tmp_path).n_features == 99_999


def test_a_number_of_features_that_no_machine_holds(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1 1:1\n" * 4000)
    (tmp_path / "a.txt.query").write_text("4000\n")
    said = refusal(lambda: LightGbm(n_features=500_000_000).read(["a.txt"], tmp_path))
    assert "a.txt:1: n_features is 500,000,000: 4,000 rows of 500,000,000 columns take 8,004.0 GB" in said
    assert "the memory of this machine; check whether that is a typo" in said


# --- ids ----------------------------------------------------------------------------------------------------


def test_an_id_of_a_thousand_bytes_is_the_longest(tmp_path: Path) -> None:
    for n, fits in ((1000, True), (1001, False)):
        (tmp_path / "a.txt").write_text(f"1 qid:1 1:1 # docid = b\n0 qid:1 1:1 # docid = {'a' * n}\n")
        (tmp_path / "b.txt").write_text(f"1 qid:{'q' * n} 1:1\n")
        (tmp_path / "a.csv").write_text(f"query_id,label,d,f\n1,0,x,1\n1,0,{'a' * n},1\n")
        (tmp_path / "b.csv").write_text(f"query_id,label,f\n{'q' * n},0,1\n")
        table = {"query_id": [1, 1], "label": [0, 1], "f": [1, 2], "lang": ["x" * n] * 2}
        pq.write_table(pa.table(table), tmp_path / "a.parquet")
        reads: dict[str, Callable[[], object]] = {
            f"a.txt:2: the id '{'a' * 40}…' is too long; expected at most 1,000 bytes": lambda: Letor().read(
                ["a.txt"], tmp_path
            ),
            f"b.txt:1: the id 'qid:{'q' * 36}…' is too long": lambda: Letor().read(["b.txt"], tmp_path),
            f"a.csv:3: column 'd' contains '{'a' * 60}…' (1,001 characters); expected a document id": lambda: (
                Csv(document_id="d").read(["a.csv"], tmp_path)
            ),
            f"b.csv:2: column 'query_id' contains '{'q' * 60}…' (1,001 characters)": lambda: Csv().read(
                ["b.csv"], tmp_path
            ),
            f"a.parquet: row 1: column 'lang' contains '{'x' * 60}…'": lambda: Parquet(
                attributes=("lang",)
            ).read(["a.parquet"], tmp_path),
        }
        for said, read in reads.items():
            if fits:
                read()
            else:
                with pytest.raises(DataError) as caught:
                    read()
                assert str(caught.value).startswith(f"{tmp_path}/{said}")


def test_one_long_id_does_not_make_all_of_them_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy keeps texts as wide as the longest of them."""
    monkeypatch.setattr(cost, "SMALL", 100_000)
    monkeypatch.setattr(cost, "TIMES", 10)
    long, n = "x" * 900, 200
    (tmp_path / "a.txt").write_text(
        f"1 qid:1 1:1 # docid = {long}\n" + "".join(f"1 qid:1 1:1 # docid = d{i}\n" for i in range(n - 1))
    )
    (tmp_path / "a.csv").write_text(
        f"query_id,label,d,f\n1,0,{long},1\n" + "".join(f"1,0,d{i},1\n" for i in range(n - 1))
    )
    (tmp_path / "qrels").write_text(f"1 0 {long} 1\n" + "".join(f"1 0 d{i} 0\n" for i in range(n - 1)))
    needed = 4 * 900 * n
    said = f"take {needed / 1e3:.1f} kB; expected at most 100.0 kB"
    assert said in refusal(lambda: Letor().read(["a.txt"], tmp_path))
    assert said in refusal(lambda: Csv(document_id="d").read(["a.csv"], tmp_path))
    assert said in refusal(lambda: read_qrels(tmp_path / "qrels"))
    monkeypatch.setenv(cost.VARIABLE, str(needed))
    assert Letor().read(["a.txt"], tmp_path).n_rows == n
    assert Csv(document_id="d").read(["a.csv"], tmp_path).n_rows == n
    assert read_qrels(tmp_path / "qrels").documents.values.size == n


# --- tables -------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_few_bytes_of_parquet_that_stand_for_very_many_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = 200_000
    same = {"query_id": pa.repeat(7, n), "label": pa.repeat(1, n), "f": pa.repeat(0.5, n)}
    pq.write_table(pa.table(same), tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").stat().st_size < 5_000
    monkeypatch.setattr(cost, "SMALL", 1_000_000)
    said = refusal(lambda: Parquet().read(["a.parquet"], tmp_path))
    assert "a.parquet: 200,000 rows of 3 columns take 4.0 MB; expected at most 1.0 MB" in said
    monkeypatch.setattr(cost, "SMALL", 5_000_000)
    assert Parquet().read(["a.parquet"], tmp_path).n_rows == n


def test_an_arrow_file_that_is_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    n = 100_000
    same = pa.table({"query_id": pa.repeat(7, n), "label": pa.repeat(1, n), "f": pa.repeat(0.5, n)})
    with pa.ipc.new_file(
        tmp_path / "a.arrow", same.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")
    ) as file:
        file.write_table(same)
    monkeypatch.setattr(cost, "SMALL", 1_000_000)
    monkeypatch.setattr(cost, "TIMES", 1)
    said = refusal(lambda: Parquet().read(["a.arrow"], tmp_path))
    assert "a.arrow: unpacked, the file has more than 2.4 MB; expected at most 1.0 MB" in said


@pytest.mark.long
def test_wide_tables_take_time_in_proportion(tmp_path: Path) -> None:
    """20,000 columns took 9 seconds of a processor until here: each name was looked for among all others."""
    names = tuple(f"f{i}" for i in range(10_000))
    (tmp_path / "a.csv").write_text(
        f"query_id,label,{','.join(names)}\n1,1,{','.join(['0.5'] * len(names))}\n"
    )
    started = time.process_time()
    reader = Csv(features=names)
    features, _ = reader._feature_columns([reader.opened(tmp_path / "a.csv")])
    assert time.process_time() - started < 0.5  # such a search would take two
    assert features == names


# --- compressed files ----------------------------------------------------------------------------------------

PACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": lambda text: bytes(pa.compress(text, "zstd", asbytes=True)),
}


@functools.cache
def packed_ones(kind: str) -> bytes:
    """A byte, four million times."""
    return PACK[kind](b"1" * 4_000_000)


@pytest.mark.long
@pytest.mark.parametrize("kind", PACK)
@pytest.mark.parametrize("in_memory", [1 << 30, 100])
def test_what_unpacks_without_end_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, in_memory: int
) -> None:
    from ltr_harness.data.readers import text_files as files

    bomb = tmp_path / "a"
    bomb.write_bytes(packed_ones(kind))
    monkeypatch.setattr(files, "_IN_MEMORY", in_memory)
    monkeypatch.setattr(cost, "SMALL", 2_000_000)
    assert refusal(lambda: text_bytes(bomb)).startswith(f"{bomb}: unpacked, the file has more than 2.")
    monkeypatch.setenv(cost.VARIABLE, "4MB")
    assert len(text_bytes(bomb)) == 4_000_000


def test_the_room_on_the_disk_is_a_bound_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil

    (tmp_path / "a.gz").write_bytes(gzip.compress(b"1\n" * 100_000))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 10, 1000))  # type: ignore[attr-defined]
    assert "expected at most 1.0 kB: the room in" in refusal(lambda: text_bytes(tmp_path / "a.gz"))


# --- files that are none -------------------------------------------------------------------------------------


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_files_of_the_kernel(tmp_path: Path) -> None:
    from ltr_harness.data.judgments import Judgments
    from ltr_harness.data.queries import QueryGroups

    judgments = Judgments.checked([1.0], QueryGroups.from_sizes([1]))
    for read in (
        lambda: Letor().read(["/proc/self/status"], tmp_path),
        lambda: Csv().read(["/proc/self/status"], tmp_path),
        lambda: LightGbm().read(["/proc/self/status"], tmp_path),
        lambda: read_qrels("/proc/self/status"),
        lambda: read_scores("/proc/self/status", judgments),
    ):
        assert refusal(read) == (
            "/proc/self/status: has no known size; expected a file on a disk; copy it to one first"
        )
    assert "/proc/self/status: is not a Parquet file" in refusal(
        lambda: Parquet().read(["/proc/self/status"], tmp_path)
    )


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_refused_by_whoever_would_wait_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    said = f"{tmp_path}/pipe: is a pipe or a device; expected a file on a disk; write what comes out of it to one first"
    assert refusal(lambda: text_bytes(tmp_path / "pipe")) == said
    assert refusal(lambda: Csv().opened(tmp_path / "pipe")) == said
    assert refusal(lambda: Parquet().opened(tmp_path / "pipe")) == said
