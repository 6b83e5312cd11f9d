"""Archives: only what is wanted comes out, nothing lands elsewhere, and bombs do not go off."""

from __future__ import annotations

import io
import os
import random
import tarfile
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from ltr_harness.errors import DataError
from ltr_harness.known_sets.fetch import unpack

WANTED = ("Fold1/train.txt", "Fold1/test.txt")


def packed(path: Path, members: Mapping[str, bytes]) -> Path:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members.items():
                archive.writestr(name, content)
    else:
        with tarfile.open(path, "w:" + path.suffix.removeprefix(".").replace("tar", "")) as tar:
            for name, content in members.items():
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return path


def everything(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.gz", "a.bz2", "a.xz"])
def test_wanted_files_come_out_wherever_they_are(tmp_path: Path, name: str) -> None:
    members = {
        "MSLR/Fold1/train.txt": b"train",
        "MSLR/Fold1/test.txt": b"test",
        "MSLR/readme.txt": b"x",
        "__MACOSX/MSLR/Fold1/train.txt": b"x",
        "MSLR/Fold1/big_train.txt": b"x",
    }
    unpack(packed(tmp_path / name, members), tmp_path / "out", WANTED)
    assert everything(tmp_path / "out") == ["Fold1/test.txt", "Fold1/train.txt"]
    assert (tmp_path / "out" / "Fold1" / "train.txt").read_bytes() == b"train"


def test_one_folder_of_an_archive_that_holds_the_names_several_times(tmp_path: Path) -> None:
    members = {f"OHSUMED/{kind}/Fold1/train.txt": kind.encode() for kind in ("NULL", "QueryLevelNorm", "Min")}
    unpack(packed(tmp_path / "a.zip", members), tmp_path / "out", WANTED, "QueryLevelNorm")
    assert (tmp_path / "out" / "Fold1" / "train.txt").read_bytes() == b"QueryLevelNorm"


@pytest.mark.parametrize("name", ["a.zip", "a.tar"])
@pytest.mark.parametrize("path", ["../../Fold1/train.txt", "/tmp/Fold1/train.txt", "x/../../Fold1/train.txt"])
def test_no_path_escapes(tmp_path: Path, name: str, path: str) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    unpack(packed(inside / name, {path: b"x"}), inside / "out", WANTED)
    assert everything(inside) == [name, "out/Fold1/train.txt"]
    assert everything(tmp_path) == [f"inside/{name}", "inside/out/Fold1/train.txt"]


def test_links_are_no_files(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE):
            info = tarfile.TarInfo("Fold1/train.txt")
            info.type, info.linkname = kind, str(tmp_path / "secret")
            tar.addfile(info)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        entry = zipfile.ZipInfo("Fold1/train.txt")
        entry.external_attr = 0o120777 << 16
        archive.writestr(entry, str(tmp_path / "secret"))
    for name in ("a.tar", "a.zip"):
        assert unpack(tmp_path / name, tmp_path / "out", WANTED) == []
    assert everything(tmp_path / "out") == []


def test_a_folder_that_is_a_link_is_not_followed_by_a_member(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        link = tarfile.TarInfo("Fold1")
        link.type, link.linkname = tarfile.SYMTYPE, "/tmp"
        tar.addfile(link)
        info = tarfile.TarInfo("Fold1/train.txt")
        info.size = 1
        tar.addfile(info, io.BytesIO(b"x"))
    unpack(tmp_path / "a.tar", tmp_path / "out", WANTED)
    assert not (tmp_path / "out" / "Fold1").is_symlink()


@pytest.mark.long
@pytest.mark.parametrize("name", ["a.zip", "a.gz"])
def test_bombs(tmp_path: Path, name: str) -> None:
    bomb = packed(tmp_path / name, {"Fold1/test.txt": b"1", "Fold1/train.txt": bytes(30 << 20)})
    with pytest.raises(
        DataError, match=r"Fold1/train\.txt: unpacks to more than 100 times the archive's size"
    ):
        unpack(bomb, tmp_path / "out", WANTED)
    assert everything(tmp_path / "out") == [], "nothing is kept of a suspicious archive"


def test_archives_that_are_none(tmp_path: Path) -> None:
    good = packed(tmp_path / "good.zip", {"Fold1/train.txt": os.urandom(5000)}).read_bytes()
    (tmp_path / "bad.zip").write_bytes(good[:100] + b"xx" + good[102:])
    (tmp_path / "text.zip").write_text("hello")
    (tmp_path / "old.rar").write_bytes(b"Rar!\x1a\x07\x00")
    tar = packed(tmp_path / "good.gz", {"Fold1/train.txt": os.urandom(50_000)}).read_bytes()
    (tmp_path / "cut.gz").write_bytes(tar[:20_000])
    for name, message in {
        "bad.zip": "the archive is damaged or locked",
        "text.zip": "is not an archive; expected a .zip",
        "old.rar": "is a RAR archive; expected its files; unpack it with unrar",
        "cut.gz": "the archive is damaged or locked",
        "absent.zip": "no such file; expected an archive",
    }.items():
        with pytest.raises(DataError, match=message):
            unpack(tmp_path / name, tmp_path / "out", WANTED)
    assert everything(tmp_path / "out") == []


def tar_of(path: Path, *headers: tarfile.TarInfo, content: bytes = b"x") -> Path:
    with tarfile.open(path, "w:" + ("gz" if path.suffix == ".gz" else "")) as tar:
        for header in headers:
            header.size = len(content)
            tar.addfile(header, io.BytesIO(content))
    return path


def with_pax(path: Path, **fields: str) -> Path:
    header = tarfile.TarInfo("Fold1/train.txt")
    header.pax_headers = {key.replace("__", "."): value for key, value in fields.items()}
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        header.size = 1
        tar.addfile(header, io.BytesIO(b"x"))
    return path


@pytest.mark.parametrize(
    "fields",
    [
        {"GNU__sparse__major": "1", "GNU__sparse__minor": "0", "GNU__sparse__realsize": "many"},
        {"GNU__sparse__map": "0,1,two"},
        {"GNU__sparse__major": "1", "GNU__sparse__minor": "0"},
    ],
    ids=str,
)
def test_headers_that_lie_are_a_damaged_archive(tmp_path: Path, fields: dict[str, str]) -> None:
    archive = with_pax(tmp_path / "a.tar", **fields)
    with pytest.raises(DataError, match=r"the archive is damaged or locked|is not an archive"):
        unpack(archive, tmp_path / "out", WANTED)
    assert everything(tmp_path / "out") == []


def test_names_that_are_not_utf_8(tmp_path: Path) -> None:
    name = b"Fold1/\xff\xfe.txt".decode("utf-8", "surrogateescape")
    headers = [tarfile.TarInfo(name), tarfile.TarInfo("Fold1/train.txt")]
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.GNU_FORMAT) as tar:
        for header in headers:
            header.size = 1
            tar.addfile(header, io.BytesIO(b"x"))
    unpack(tmp_path / "a.tar", tmp_path / "out", WANTED)
    assert everything(tmp_path / "out") == ["Fold1/train.txt"]
    good = packed(tmp_path / "a.zip", {"Fold1/tr\u00e4in.txt": b"x"}).read_bytes()
    (tmp_path / "a.zip").write_bytes(good.replace("\u00e4".encode(), b"\xff\xfe"))
    with pytest.raises(DataError, match="the archive is damaged or locked"):
        unpack(tmp_path / "a.zip", tmp_path / "out", WANTED)


@pytest.mark.long
def test_what_is_passed_over_counts_too(tmp_path: Path) -> None:
    """Passing over a member of a compressed tar unpacks it."""
    bomb = packed(tmp_path / "a.gz", {"readme.txt": bytes(30 << 20), "Fold1/train.txt": b"x"})
    with pytest.raises(DataError, match=r"readme\.txt: unpacks to more than 100 times the archive's size"):
        unpack(bomb, tmp_path / "out", WANTED)


def test_a_header_as_long_as_a_file(tmp_path: Path) -> None:
    header = tarfile.TarInfo("././@LongLink")
    header.type = tarfile.GNUTYPE_LONGNAME
    archive = tar_of(tmp_path / "a.gz", header, tarfile.TarInfo("x"), content=b"n" * (2 << 20))
    with pytest.raises(DataError, match=r"the archive is damaged or locked \(a header of 2,097,152 bytes\)"):
        unpack(archive, tmp_path / "out", WANTED)


@pytest.mark.long
def test_a_damaged_archive_is_a_message_whatever_is_damaged(tmp_path: Path) -> None:
    """Bytes changed anywhere: the file comes out as it was packed, or a message says that it cannot."""
    content = os.urandom(2000)
    for suffix in ("zip", "tar", "gz", "bz2", "xz"):
        good = packed(tmp_path / f"good.{suffix}", {"Fold1/train.txt": content}).read_bytes()
        draw = random.Random(suffix)
        for trial in range(60):
            bad = bytearray(good)
            for _ in range(draw.choice([1, 3])):
                bad[draw.randrange(len(bad))] = draw.randrange(256)
            path = tmp_path / f"bad.{suffix}"
            path.write_bytes(bad)
            out = tmp_path / f"{suffix}{trial}"
            with suppress(DataError):
                unpack(path, out, WANTED)


def test_a_file_that_is_there_twice(tmp_path: Path) -> None:
    archive = packed(tmp_path / "a.zip", {"a/Fold1/train.txt": b"1", "b/Fold1/train.txt": b"2"})
    with pytest.raises(
        DataError, match=r"b/Fold1/train\.txt: is a second Fold1/train\.txt; expected one of each"
    ):
        unpack(archive, tmp_path / "out", WANTED)
