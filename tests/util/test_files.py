"""Files that are there whole or not at all, with the rights the umask gives, and nothing left over."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ltr_harness._util import files
from ltr_harness._util.files import file_digest, sweep_unfinished, unfinished, whole_files, write_whole


@pytest.fixture
def strict_umask() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


def rights(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("strict_umask")
def test_files_and_folders_are_as_private_as_their_owner_wants(tmp_path: Path) -> None:
    write_whole(tmp_path / "a.txt", "text")
    with whole_files(tmp_path / "b.txt") as temporary:
        temporary(tmp_path / "b.txt").write_text("text")
    with unfinished(tmp_path) as folder:
        folder.rename(tmp_path / "c")
    assert [rights(tmp_path / name) for name in ("a.txt", "b.txt", "c")] == [0o600, 0o600, 0o700]
    os.umask(0o022)
    write_whole(tmp_path / "a.txt", "text")
    with unfinished(tmp_path, private=True) as folder:
        assert rights(folder) == 0o700
    assert rights(tmp_path / "a.txt") == 0o644


def test_an_error_leaves_the_older_file_and_nothing_else(tmp_path: Path) -> None:
    write_whole(tmp_path / "a.txt", "old")

    def interrupt() -> None:
        with whole_files(tmp_path / "a.txt") as temporary:
            temporary(tmp_path / "a.txt").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    assert (tmp_path / "a.txt").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_an_error_names_the_file_and_not_the_hidden_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "a.txt", tmp_path / ("long" * 100)):
        with pytest.raises(OSError, match=r".") as caught:
            write_whole(path, "text")
        assert files.UNFINISHED not in str(caught.value)


def test_a_pipe_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[str] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_text()))
    reader.start()
    write_whole(pipe, "text")
    reader.join(timeout=10)
    assert found == ["text"]
    assert pipe.is_fifo()


@pytest.fixture
def unfinished_folder(tmp_path: Path) -> Path:
    """Return the folder that a process left which was killed while it wrote."""
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom ltr_harness._util.files import whole_files\n"
        "path = Path(sys.argv[1])\nwith whole_files(path) as temporary:\n"
        " temporary(path).write_text('half')\n os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "a.txt")], check=False)
    assert done.returncode == -9
    (left,) = tmp_path.iterdir()
    assert (left / "a.txt").read_text() == "half"
    return left


@pytest.mark.long
def test_what_a_killed_process_left_goes_with_the_next_that_writes_there(unfinished_folder: Path) -> None:
    files._swept.cache_clear()
    write_whole(unfinished_folder.parent / "b.txt", "text")
    assert [path.name for path in unfinished_folder.parent.iterdir()] == ["b.txt"]


def test_what_a_killed_process_left_is_swept_and_what_a_living_one_fills_is_not(tmp_path: Path) -> None:
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom ltr_harness._util.files import unfinished\n"
        "with unfinished(Path(sys.argv[1])) as folder:\n print(folder, flush=True)\n time.sleep(60)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=tmp_path.parent
    )
    assert process.stdout is not None
    left = Path(process.stdout.readline().strip())
    try:
        assert sweep_unfinished(tmp_path) == 0
        assert left.is_dir()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert left.is_dir()
    assert sweep_unfinished(tmp_path) == 1
    assert not left.exists()


def test_folders_of_processes_with_one_number(tmp_path: Path) -> None:
    """In containers with one name, every command is process 1: what another left is swept, what it fills is not."""
    files._swept.cache_clear()
    left = tmp_path / f".unfinished-{socket.gethostname()}-{os.getpid()}-abcd1234"
    left.mkdir()
    with unfinished(tmp_path) as own:
        (own / "a").write_text("half")
        assert not left.exists()
        assert sweep_unfinished(tmp_path) == 0
        assert list(tmp_path.iterdir()) == [own]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_swept_before_it_is_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = files._lock
    swept: list[Path] = []

    def lock_too_late(folder: Path, *, wait: bool) -> int | None:
        if wait and not swept:
            swept.append(folder)
            assert sweep_unfinished(tmp_path) == 1
        return lock(folder, wait=wait)

    monkeypatch.setattr(files, "_lock", lock_too_late)
    with unfinished(tmp_path) as folder:
        assert folder != swept[0]
        assert list(tmp_path.iterdir()) == [folder]


def test_file_digest_is_sha256sum(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    assert file_digest(tmp_path / "a") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_windows_is_not_asked_whether_a_process_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = tmp_path / f".unfinished-{socket.gethostname()}-999999999-00"
    left.mkdir()
    with monkeypatch.context() as there:
        there.setattr(sys, "platform", "win32")
        there.setattr(os, "kill", lambda *_: pytest.fail("signal 0 is Ctrl-C there"))
        assert sweep_unfinished(tmp_path) == 0
    assert sweep_unfinished(tmp_path) == 1
