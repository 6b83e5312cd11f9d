"""The cache lists its entries, and room is made without harm to whoever is reading."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.data.cache import FACTS, DataCache, kept_entries, remove_entries
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.readers.letor import Letor

DAY = 86_400


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two files, read through a cache, whose folder this is."""
    (tmp_path / "old.txt").write_text("1 qid:1 1:0.5 2:1\n")
    (tmp_path / "new.txt").write_text("0 qid:1 1:0.25\n1 qid:1 1:2\n")
    for name in ("old.txt", "new.txt"):
        read_cached(tmp_path, name)
    mark_used(tmp_path / "cache", "old.txt", days=40)
    return tmp_path / "cache"


def read_cached(data: Path, name: str) -> RankingDataset:
    return DataCache(data / "cache").read(Letor(), [name], data).dataset


def mark_used(cache: Path, name: str, days: float) -> None:
    (entry,) = (entry for entry in kept_entries(cache) if name in entry.title)
    os.utime(entry.folder / FACTS, (time.time(), time.time() - days * DAY))


def titles(cache: Path) -> list[str]:
    return [entry.title for entry in kept_entries(cache)]


def test_the_last_used_comes_first_and_reading_is_use(folder: Path) -> None:
    assert titles(folder) == ["new.txt (1 feature)", "old.txt (2 features)"]
    size = sum(file.stat().st_size for file in kept_entries(folder)[0].folder.iterdir())
    assert kept_entries(folder)[0].size == size
    mark_used(folder, "new.txt", days=1)
    read_cached(folder.parent, "old.txt")
    assert titles(folder) == ["old.txt (2 features)", "new.txt (1 feature)"]


def test_use_does_not_make_an_entry_look_changed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_cached(folder.parent, "old.txt")
    monkeypatch.setattr("ltr_harness.data.cache.Fingerprints.of", lambda _: pytest.fail("hashed again"))
    read_cached(folder.parent, "old.txt")


def test_what_is_removed_is_read_again_and_readers_keep_what_they_have(folder: Path) -> None:
    held = read_cached(folder.parent, "old.txt")
    remove_entries(folder, kept_entries(folder), everything=True)
    assert kept_entries(folder) == []
    assert not (folder / "files").exists()
    np.testing.assert_array_equal(held.features, [[0.5, 1]])
    np.testing.assert_array_equal(read_cached(folder.parent, "old.txt").features, [[0.5, 1]])
    assert titles(folder) == ["old.txt (2 features)"]


def test_entries_that_are_gone_or_damaged(folder: Path) -> None:
    entries = kept_entries(folder)
    remove_entries(folder, entries[:1])
    remove_entries(folder, entries)  # one of them again
    assert titles(folder) == []
    (folder / "sets" / ".new-left").mkdir()
    (folder / "sets" / ".new-left" / "features.npy").write_bytes(b"x" * 10)
    assert titles(folder) == ["unfinished or damaged"]
    assert kept_entries(folder.parent / "nowhere") == []


def test_the_command(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_cache(*arguments: str) -> list[str]:
        capsys.readouterr()
        code = run_command(cli, ["data", "cache", *arguments])
        captured = capsys.readouterr()
        return [str(code), *(captured.out or captured.err).splitlines()]

    monkeypatch.setenv("LTR_HARNESS_CACHE", str(folder))
    code, new, old, total = run_cache()
    assert (code, new.split()[2:]) == ("0", ["today", "new.txt", "(1", "feature)"])
    assert old.endswith("40 days ago  old.txt (2 features)")
    assert total.startswith("2 entries, ")
    assert run_cache("--unused", "30")[1].startswith("removed 1 of 2 entries, ")
    assert titles(folder) == ["new.txt (1 feature)"]
    assert run_cache("--unused", "30", "--clear") == [
        "2",
        "error: --clear and --unused; expected one of them",
    ]
    assert run_cache("--clear")[1].startswith("removed 1 of 1 entry, ")
    assert run_cache()[1:] == [f"0 entries, 0 B: {folder}"]
    monkeypatch.setenv("LTR_HARNESS_CACHE", "off")
    assert run_cache()[1] == "the data cache is off (LTR_HARNESS_CACHE=off)"
