"""The cache: what it gives is what the files say, always; and it gives it without reading them again."""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
import time
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import pytest

from ltr_harness._util import digests
from ltr_harness._util.files import cache_folder
from ltr_harness.data import cache as kept
from ltr_harness.data.cache import DataCache
from ltr_harness.data.dataset import RankingDataset, fingerprint_dataset
from ltr_harness.data.judgments import RawJudgments
from ltr_harness.data.readers.csv import Csv
from ltr_harness.data.readers.letor import Letor
from ltr_harness.data.readers.lightgbm import LightGbm
from ltr_harness.errors import DataError
from ltr_harness.experiments.training.pool import worker_context

TEXT = "1 qid:1 1:0.5 2:1 # docid = A\n0 qid:1 1:0.25 2:NULL # docid = B\n2 qid:7 1:3 2:4 # docid = C\n"


class Counting(Letor):
    """A reader that tells how often it was asked to read."""

    def read(self, files, root):  # type: ignore[no-untyped-def]
        with open(root / "reads", "a") as stream:
            stream.write("x")
        return super().read(files, root)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "a.txt").write_text(TEXT)
    _let_stamps_age(folder / "a.txt")
    return folder


def _let_stamps_age(path: Path) -> None:
    """As if written a while ago: only then may stamps be believed."""
    time.sleep(0.06)
    assert time.time_ns() - path.stat().st_ctime_ns > 50_000_000


def read_cached(data: Path, folder: Path, *, verify: bool = False) -> RankingDataset:
    return DataCache(folder, verify=verify).read(Counting(), ["a.txt"], data).dataset


def reads(data: Path) -> int:
    return len((data / "reads").read_text())


def entry(folder: Path) -> Path:
    (found,) = (folder / "sets").iterdir()
    return found


def assert_same_data(a: RankingDataset, b: RankingDataset) -> None:
    assert fingerprint_dataset(a) == fingerprint_dataset(b)
    assert (a.source, a.sparse, a.cautions, a.feature_names) == (
        b.source,
        b.sparse,
        b.cautions,
        b.feature_names,
    )
    assert a.query_attributes.keys() == b.query_attributes.keys()
    for name, values in a.query_attributes.items():
        np.testing.assert_array_equal(values, b.query_attributes[name])
        assert values.dtype == b.query_attributes[name].dtype


@pytest.mark.long
def test_the_second_time_nothing_is_read(data: Path, tmp_path: Path) -> None:
    first = read_cached(data, tmp_path / "cache")
    second = read_cached(data, tmp_path / "cache")
    assert reads(data) == 1
    assert_same_data(first, Letor().read(["a.txt"], data))
    assert_same_data(second, first)


@pytest.mark.long
def test_features_are_mapped_and_nobody_can_write_to_them(data: Path, tmp_path: Path) -> None:
    features = read_cached(data, tmp_path / "cache").features
    assert isinstance(features.base, np.memmap)
    assert type(features) is np.ndarray
    with pytest.raises(ValueError, match="read-only"):
        features[0, 0] = 1


def test_fingerprints_come_with_the_entry_and_are_right(data: Path, tmp_path: Path) -> None:
    cold = DataCache(tmp_path / "cache").read(Letor(), ["a.txt"], data)
    warm = DataCache(tmp_path / "cache").read(Letor(), ["a.txt"], data)
    assert warm.known is not None
    assert warm.fingerprints == cold.fingerprints == kept.Fingerprints.of(Letor().read(["a.txt"], data))


def test_a_file_of_the_same_size_and_time_but_other_content_is_another_file(
    data: Path, tmp_path: Path
) -> None:
    read_cached(data, tmp_path / "cache")
    before = (data / "a.txt").stat()
    (data / "a.txt").write_text(TEXT.replace("0.25", "0.75"))
    os.utime(data / "a.txt", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert read_cached(data, tmp_path / "cache").features[1, 0] == 0.75


def test_a_file_that_replaced_another(data: Path, tmp_path: Path) -> None:
    read_cached(data, tmp_path / "cache")
    (data / "b.txt").write_text(TEXT.replace("0.25", "0.75"))
    os.replace(data / "b.txt", data / "a.txt")
    assert read_cached(data, tmp_path / "cache").features[1, 0] == 0.75


@pytest.mark.parametrize("age_ns", [10_000_000, 1_500_000_000])
def test_a_file_written_a_moment_ago_is_not_remembered(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, age_ns: int
) -> None:
    """Two writes within one tick of the file system's clock look alike; some clocks tick in whole seconds."""
    second = 1_000_000_000
    now = 1_800_000_000 * second + age_ns
    written = now - age_ns + (0 if age_ns > second else 1)
    same_stamp = {"size": 99, "mtime_ns": written, "ctime_ns": written, "inode": 1, "device": 1}
    monkeypatch.setattr(digests, "stamp", lambda path: same_stamp)
    monkeypatch.setattr(time, "time_ns", lambda: now)
    for value in (3, 4):
        (data / "a.txt").write_text(TEXT.replace("0.25", f"{value}"))
        assert read_cached(data, tmp_path / "cache").features[1, 0] == value


def test_equal_content_elsewhere_is_the_same_entry(data: Path, tmp_path: Path) -> None:
    read_cached(data, tmp_path / "cache")
    shutil.copytree(data, tmp_path / "copy")
    read_cached(tmp_path / "copy", tmp_path / "cache")
    assert reads(tmp_path / "copy") == 1  # the one that was copied
    entry(tmp_path / "cache")


def test_other_options_other_entry(data: Path, tmp_path: Path) -> None:
    cache = DataCache(tmp_path / "cache")
    assert cache.read(Letor(), ["a.txt"], data).dataset.n_features == 2
    assert cache.read(Letor(n_features=5), ["a.txt"], data).dataset.n_features == 5


def test_a_reader_without_labels_is_another_reader(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("query_id,label,f\nq,1,2\n")
    cache = DataCache(tmp_path / "cache")
    assert cache.read(Csv(), ["a.csv"], tmp_path).dataset.labels.tolist() == [1]
    assert cache.read(Csv(features=("f",)).without_labels(), ["a.csv"], tmp_path).dataset.labels.tolist() == [
        0
    ]
    assert cache.read(Csv(features=("f",)), ["a.csv"], tmp_path).dataset.labels.tolist() == [1]


def test_companions_belong_to_the_key(tmp_path: Path) -> None:
    cache = DataCache(tmp_path / "cache")
    (tmp_path / "rank").write_text("1 1:1\n0 1:2\n")
    (tmp_path / "rank.query").write_text("2\n")
    assert cache.read(LightGbm(), ["rank"], tmp_path).dataset.n_queries == 1
    (tmp_path / "rank.query").write_text("1\n1\n")
    assert cache.read(LightGbm(), ["rank"], tmp_path).dataset.n_queries == 2
    (tmp_path / "rank.weight").write_text("1\n3\n")
    weights = cache.read(LightGbm(), ["rank"], tmp_path).dataset.judgments.query_weights
    assert weights is not None
    assert weights.tolist() == [1, 3]


def test_every_column_survives(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        "query_id,label,f,w,p,d,lang,year\nq1,1,0.5,2,1,x,de,2001\nq1,0,,2,2,y,de,2001\nq2,2,1,1,1,z,en,2002\n"
    )
    reader = Csv(weight="w", position="p", document_id="d", attributes=("lang", "year"))
    for _ in range(2):
        found = DataCache(tmp_path / "cache").read(reader, ["a.csv"], tmp_path).dataset
        assert_same_data(found, reader.read(["a.csv"], tmp_path))
        assert found.query_attributes["lang"].tolist() == ["de", "en"]


class JudgedAgain(Counting):
    """A reader of data in which a document has several judgments."""

    def read(self, files, root):  # type: ignore[no-untyped-def]
        several = RawJudgments(np.array([0, 0, 1]), np.array([4, 4, 9]), np.array([1.0, 2.0, 2.0]))
        return replace(super().read(files, root), raw_judgments=several)


def test_several_judgments_survive_and_are_verified(data: Path, tmp_path: Path) -> None:
    def grades(verify: bool = False) -> list[float]:
        cached = DataCache(tmp_path / "cache", verify=verify).read(JudgedAgain(), ["a.txt"], data)
        several = cached.dataset.raw_judgments
        assert several is not None
        assert (several.queries.tolist(), several.documents.tolist()) == ([0, 0, 1], [4, 4, 9])
        return several.grades.tolist()

    assert grades() == grades() == [1, 2, 2]
    assert reads(data) == 1
    np.save(entry(tmp_path / "cache") / "several_grades.npy", np.array([1.0, 2.0, 3.0]))
    assert grades(verify=True) == [1, 2, 2]
    assert reads(data) == 2
    assert read_cached(data, tmp_path / "other").raw_judgments is None


# --- what cannot be trusted ----------------------------------------------------------------------------------


def _truncate(folder: Path) -> None:
    with open(folder / "features.npy", "r+b") as stream:
        stream.truncate(130)


def _flip(folder: Path) -> None:
    with open(folder / "features.npy", "r+b") as stream:
        stream.seek(-1, os.SEEK_END)
        last = stream.read(1)[0]
        stream.seek(-1, os.SEEK_END)
        stream.write(bytes([last ^ 1]))


def _flip_label(folder: Path) -> None:
    labels = np.load(folder / "labels.npy")
    labels[0] = 2
    np.save(folder / "labels.npy", labels)


def _falsify_facts(folder: Path) -> None:
    facts = json.loads((folder / "facts.json").read_text())
    facts["facts"] = facts["facts"].replace('"a.txt"', '"b.txt"')
    (folder / "facts.json").write_text(json.dumps(facts))


def _pickle(folder: Path) -> None:
    np.save(folder / "ids.npy", np.array([{}, {}], dtype=object), allow_pickle=True)


DAMAGE = {
    "truncated": _truncate,
    "flipped bit": _flip,
    "other label": _flip_label,
    "no features": lambda folder: (folder / "features.npy").unlink(),
    "no facts": lambda folder: (folder / "facts.json").unlink(),
    "half the facts": lambda folder: (folder / "facts.json").write_text('{"facts": "'),
    "edited facts": _falsify_facts,
    "facts of another kind": lambda folder: (folder / "facts.json").write_text("[]"),
    "not an array": lambda folder: (folder / "labels.npy").write_text("hello"),
    "empty array file": lambda folder: (folder / "labels.npy").write_bytes(b""),
    "a pickle": _pickle,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_entry_is_made_again(  # type: ignore[no-untyped-def]
    data: Path, tmp_path: Path, damage, caplog: pytest.LogCaptureFixture
) -> None:
    read_cached(data, tmp_path / "cache")
    damage(entry(tmp_path / "cache"))
    caplog.clear()
    assert_same_data(read_cached(data, tmp_path / "cache"), Letor().read(["a.txt"], data))
    assert reads(data) == 2
    folder = entry(tmp_path / "cache")
    assert caplog.messages == [f"{folder} in the data cache is damaged: the data is read again"]
    read_cached(data, tmp_path / "cache")
    assert reads(data) == 2, "the new entry is whole"


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Reading `.npy`")
def test_whatever_bit_of_a_header_is_damaged(data: Path, tmp_path: Path) -> None:
    read_cached(data, tmp_path / "cache")
    folder = entry(tmp_path / "cache")
    expected = Letor().read(["a.txt"], data)
    for name, step in (("features.npy", 1), ("labels.npy", 8), ("ids.npy", 8)):  # headers of one kind
        whole = (folder / name).read_bytes()
        for at in range(0, 128, step):
            damaged = bytearray(whole)
            damaged[at] ^= 1 << at % 8
            (folder / name).write_bytes(damaged)
            found = kept.open_entry(folder)
            if found is not None:  # a blank became another one
                assert_same_data(found[0], expected)
        (folder / name).write_bytes(whole)


def test_a_copied_cache_is_checked_by_content_once_and_used(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_cached(data, tmp_path / "cache")
    shutil.copytree(tmp_path / "cache", tmp_path / "moved")
    hashed = []

    def count_and_fingerprint(dataset: RankingDataset) -> str:
        hashed.append(dataset)
        return fingerprint_dataset(dataset)

    monkeypatch.setattr(kept, "fingerprint_dataset", count_and_fingerprint)
    for _ in range(3):
        assert_same_data(read_cached(data, tmp_path / "moved"), Letor().read(["a.txt"], data))
    assert reads(data) == 1
    assert len(hashed) == 1


def test_rot_under_the_same_stamp_is_found_by_verify(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_cached(data, tmp_path / "cache")
    _flip(entry(tmp_path / "cache"))
    facts = json.loads(json.loads((entry(tmp_path / "cache") / "facts.json").read_text())["facts"])
    stamp = kept.stamp
    monkeypatch.setattr(kept, "stamp", lambda path: facts["files"].get(path.stem) or stamp(path))
    read_cached(data, tmp_path / "cache")
    assert reads(data) == 1
    read_cached(data, tmp_path / "cache", verify=True)
    assert reads(data) == 2


def test_verify_hashes_files_whatever_is_remembered(data: Path, tmp_path: Path) -> None:
    read_cached(data, tmp_path / "cache")
    (note,) = (tmp_path / "cache" / "files").iterdir()
    kept = json.loads(note.read_text())
    (data / "a.txt").write_text(TEXT.replace("0.25", "0.75"))
    _let_stamps_age(data / "a.txt")
    now = (data / "a.txt").stat()
    kept["stamp"] |= {"mtime_ns": now.st_mtime_ns, "ctime_ns": now.st_ctime_ns, "inode": now.st_ino}
    note.write_text(json.dumps(kept))  # what a lying file system would make of it
    assert read_cached(data, tmp_path / "cache").features[1, 0] == 0.25
    assert read_cached(data, tmp_path / "cache", verify=True).features[1, 0] == 0.75


@pytest.mark.long
def test_a_file_that_changes_while_it_is_read(data: Path, tmp_path: Path) -> None:
    class Slow(Letor):
        def read(self, files, root):  # type: ignore[no-untyped-def]
            found = super().read(files, root)
            (root / "a.txt").write_text(TEXT + TEXT.replace("qid:", "qid:9"))
            return found

    with pytest.raises(DataError, match=r"a\.txt: changed while it was being read; run again"):
        DataCache(tmp_path / "cache").read(Slow(), ["a.txt"], data)
    assert not (tmp_path / "cache" / "sets").exists()


def test_broken_files_are_not_kept(data: Path, tmp_path: Path) -> None:
    (data / "a.txt").write_text("x qid:1 1:1\n")
    for _ in range(2):
        with pytest.raises(DataError, match=r"a\.txt:1: the label is 'x'"):
            DataCache(tmp_path / "cache").read(Letor(), ["a.txt"], data)


# --- a disk that says no -------------------------------------------------------------------------------------


def test_a_full_disk_is_said_once_and_data_is_read(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def raise_disk_full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "save", raise_disk_full)
    cache = DataCache(tmp_path / "cache")
    with caplog.at_level(logging.WARNING):
        for n in (2, 3):
            assert cache.read(Letor(n_features=n), ["a.txt"], data).dataset.n_features == n
    (record,) = caplog.records
    assert record.getMessage() == (
        f"the data cache {tmp_path / 'cache'} cannot be written (the disk is full): data is read again each time; "
        "set LTR_HARNESS_CACHE to another folder, or to off"
    )
    assert list((tmp_path / "cache" / "sets").iterdir()) == []


def test_a_folder_that_cannot_be_made(data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("in the way")
    with caplog.at_level(logging.WARNING):
        assert_same_data(read_cached(data, tmp_path / "file" / "cache"), Letor().read(["a.txt"], data))
    assert "cannot be written (Not a directory)" in caplog.text


def test_without_a_cache(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LTR_HARNESS_CACHE", "off")
    assert cache_folder() is None
    cached = DataCache().read(Letor(), ["a.txt"], data)
    assert cached.key is None
    assert cached.fingerprints.dataset == fingerprint_dataset(cached.dataset)


def test_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LTR_HARNESS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "ltr-harness"


# --- processes -----------------------------------------------------------------------------------------------

PROGRAM = """
import os, time
from ltr_harness.data import cache as kept
from ltr_harness.data.cache import DataCache
from ltr_harness.data.readers.letor import Letor
Letor().read(["a.txt"], data)  # what reading loads is loaded once, and all begin together
others = []
while len(others) < 2 and 0 not in others:
    others.append(os.fork())
found = DataCache(shared).read(Letor(), ["a.txt"], data)
written.send(found.fingerprints.dataset)  # in one piece beside the others'
if 0 in others:
    os._exit(0)
assert not any([os.waitpid(other, 0)[1] for other in others])
kept.Fingerprints.of(found.dataset)
def hang(*_): written.send("half"); time.sleep(60)
kept._attributes_fingerprint = hang
DataCache(alone).read(Letor(), ["a.txt"], data)
"""


@pytest.mark.long
def test_several_at_once_agree_and_a_killed_writer_leaves_nothing_that_is_believed(
    data: Path, tmp_path: Path
) -> None:
    shared, cache = tmp_path / "shared", tmp_path / "cache"
    context = worker_context()
    said, written = context.Pipe(duplex=False)
    names = {"data": data, "shared": shared, "alone": cache, "written": written}
    process: BaseProcess = context.Process(target=exec, args=(PROGRAM, names))
    process.start()
    written.close()  # so that `recv` ends where the process does
    read = fingerprint_dataset(Letor().read(["a.txt"], data))
    assert [said.recv() for _ in range(4)] == [*[read] * 3, "half"]
    process.kill()
    process.join()
    said.close()
    entry(shared)
    (left,) = (cache / "sets").iterdir()
    assert (left / "features.npy").exists()
    assert_same_data(read_cached(data, cache), Letor().read(["a.txt"], data))
    assert not left.exists()
    left = left.with_name(".unfinished-another_machine-7-0123")
    left.mkdir()
    DataCache(cache).read(Letor(n_features=8), ["a.txt"], data)
    assert left.exists(), "nobody here knows whether that process still lives"
    long_ago = time.time() - 2 * 24 * 3600
    os.utime(left, (long_ago, long_ago))
    DataCache(cache).read(Letor(n_features=9), ["a.txt"], data)
    assert not left.exists()


def test_an_entry_written_meanwhile_is_not_called_damaged(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    open_entry = kept.open_entry

    def absent_then_written(folder: Path, *, verify: bool = False) -> object:
        found = open_entry(folder, verify=verify)
        monkeypatch.setattr(kept, "open_entry", open_entry)
        assert found is None
        read_cached(data, tmp_path / "cache")
        return found

    monkeypatch.setattr(kept, "open_entry", absent_then_written)
    assert_same_data(read_cached(data, tmp_path / "cache"), Letor().read(["a.txt"], data))
    assert caplog.text == ""
    assert reads(data) == 1


@pytest.mark.parametrize("before", ["nothing", "another entry"])
@pytest.mark.parametrize("meanwhile", ["written", "taken away"])
def test_another_process_may_be_faster_at_any_moment(
    before: str, meanwhile: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = Letor().read(["a.txt"], data)
    folder, rename = tmp_path / "sets" / "key", os.rename
    folder.parent.mkdir()
    fingerprints = kept.Fingerprints.of(dataset)
    if before == "another entry":
        kept.write_entry(folder, dataset, fingerprints)

    def rename_too_late(source: Path, target: Path) -> None:
        monkeypatch.setattr(os, "rename", rename)
        if meanwhile == "written":
            kept.write_entry(folder, dataset, fingerprints)
        else:
            shutil.rmtree(folder, ignore_errors=True)
        os.rename(source, target)

    monkeypatch.setattr(os, "rename", rename_too_late)
    kept.write_entry(folder, dataset, fingerprints)
    assert [path.name for path in folder.parent.iterdir()] == ["key"]
    found = kept.open_entry(folder, verify=True)
    assert found is not None
    assert found[1] == fingerprints


# --- what is made from a set ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("small", "times"), [(0, 1), (2**20, 2)])
def test_parts_of_a_set_are_kept_unless_they_are_small(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: int, times: int
) -> None:
    monkeypatch.setattr(kept, "_SMALL", small)
    made = 0

    def part(cache: DataCache, queries: list[int]) -> RankingDataset:
        whole = cache.read(Letor(), ["a.txt"], data)

        def make() -> RankingDataset:
            nonlocal made
            made += 1
            return whole.dataset.take(np.array(queries))

        return cache.derived(whole, ["take", *queries], make).dataset

    for _ in range(2):
        cache = DataCache(tmp_path / "cache")
        assert part(cache, [1]).groups.ids.tolist() == [7]
        assert part(cache, [0]).groups.ids.tolist() == [1]
    assert made == 2 * times


def test_neighbouring_queries_are_taken_without_a_copy(data: Path) -> None:
    whole = Letor().read(["a.txt"], data)
    assert np.shares_memory(whole.take(np.array([1])).features, whole.features)
    assert not np.shares_memory(whole.take(np.array([1, 0])).features, whole.features)
    assert whole.take(np.array([1, 0])).features[:, 0].tolist() == [3, 0.5, 0.25]
