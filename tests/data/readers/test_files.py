"""Names of files that are not there, and what is there instead."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ltr_harness.data.readers.text_files import located, text_bytes
from ltr_harness.errors import DataError


def test_what_is_missing_and_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("x")
    (tmp_path / "sub").mkdir()
    (tmp_path / ".hidden").write_text("x")
    with pytest.raises(DataError) as caught:
        located(["train.tx", "train.txt", "sub", "other/a.txt", "train.txt"], tmp_path)
    assert str(caught.value).splitlines() == [
        f"{tmp_path}/train.tx: no such file; did you mean 'train.txt'?",
        f"{tmp_path}/sub: is a folder; expected a file; the folder has nothing in it",
        f"{tmp_path}/other/a.txt: no such file; there is no folder {tmp_path}/other; {tmp_path} has sub/, train.txt",
        f"{tmp_path}/train.txt: is listed twice in one split; expected each file once",
    ]


def test_a_folder_is_listed_as_far_as_twelve_names(tmp_path: Path) -> None:
    for i in range(13):
        if i == 12:
            with pytest.raises(DataError, match=r"has 00\.txt, .*, 11\.txt$"):
                located(["x"], tmp_path)
        (tmp_path / f"{i:02}.txt").write_text("x")
    with pytest.raises(DataError, match=r", 11\.txt and 1 more$"):
        located(["x"], tmp_path)


def test_long_folders_are_cut_short(tmp_path: Path) -> None:
    for i in range(30):
        (tmp_path / f"{i:02}.txt").write_text("x")
    with pytest.raises(DataError, match=r"has 00\.txt, .*, 11\.txt and 18 more$"):
        located(["x"], tmp_path)


def test_no_file_at_all(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no file is given for this split; expected at least one file"):
        located([], tmp_path)


def test_absolute_names_are_taken_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    assert located([str(tmp_path / "a")], Path("/nowhere")) == [tmp_path / "a"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_pipes_are_refused_before_they_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="is a pipe or a device; expected a file on a disk"):
        located(["pipe"], tmp_path)


def test_an_unreadable_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        text_bytes(tmp_path)
