"""A run folder: written whole or not at all."""

import hashlib
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from ltr_harness._util.escapes import without_secrets
from ltr_harness._util.files import file_digest, stored_file, unfinished
from ltr_harness._util.stored import LARGEST, read_stored
from ltr_harness.errors import TrainingError
from ltr_harness.experiments.runs.record import Record

RECORD = "record.json"
LOG = "log.txt"


def folder_name(model: str, fold: str, seed: int, identity: str) -> str:
    """Return ``<model>--<fold>--s<seed>--<identity>``, percent-encoded; of the identity twelve digits."""
    return f"{encoded(model)}--{encoded(fold)}--s{seed}--{identity[:12]}"


def encoded(name: str) -> str:
    """Return a name as part of a path: only letters, digits, ``_ . -``; long names are cut and made unique."""
    text = quote(name, safe="").replace("~", "%7E")
    if text.startswith("."):
        text = text.replace(".", "%2E")
    if len(text) > 80:
        text = f"{text[:60]}-{hashlib.sha256(name.encode()).hexdigest()[:12]}"
    return text


def finish(folder: Path, target: Path, record: Record) -> Path:
    """Turn a filled folder into a run, unless another process finished it: digests, everything onto disk, a rename."""
    digests = {path.name: file_digest(path) for path in sorted(folder.iterdir()) if path.name != RECORD}
    _write_record(folder, record, digests)
    _to_disk(*folder.iterdir(), folder)
    if not try_rename(folder, target):
        existing = read_record(target)
        if existing is not None and existing.status == "complete" and record.status == "failed":
            return target
        if existing is None or existing.status == "failed" or damaged_files(target, existing):
            with unfinished(target.parent) as aside:
                with suppress(FileNotFoundError):  # another process is replacing it too
                    target.rename(aside / "replaced")
                try_rename(folder, target)
    _fsync(target.parent)
    return target


def receive(files: Mapping[str, bytes], target: Path) -> Path:
    """Turn the files of a run that was made elsewhere into a run here."""
    with unfinished(target.parent) as folder:
        for name, content in files.items():
            (folder / name).write_bytes(content)
        record = read_record(folder)
        if record is None or damaged_files(folder, record):
            raise TrainingError(
                f"{target.name}: was damaged on its way from the worker; run the command again"
            )
        return finish(folder, target, record)


def replace_files(target: Path, write: Callable[[Path], None], record: Record) -> None:
    """Give a finished run new versions of some files, its record last: killed half-way, they are written again."""
    with unfinished(target.parent) as folder:
        write(folder)
        changed = sorted(path.name for path in folder.iterdir())
        digests = {name: file_digest(folder / name) for name in changed}
        _write_record(folder, record, {**record.files, **digests})
        _to_disk(*folder.iterdir())
        for name in (*changed, RECORD):
            (folder / name).replace(target / name)
    _fsync(target)


def _write_record(folder: Path, record: Record, digests: Mapping[str, str]) -> None:
    text = without_secrets(record.model_copy(update={"files": digests}).model_dump_json(indent=2))
    content = f"{text}\n".encode()
    if len(content) > LARGEST:
        expected = f"at most {LARGEST >> 20} MiB: fewer features, or shorter names of features and categories"
        raise TrainingError.at(record.model, f"its record has {len(content) >> 20:,} MiB", expected)
    (folder / RECORD).write_bytes(content)


def read_record(folder: Path) -> Record | None:
    """Return the record of a run folder; None where there is none that can be read."""
    try:
        return read_stored(Record, folder, RECORD)
    except (OSError, ValueError):
        return None


def damaged_files(folder: Path, record: Record) -> list[str]:
    """Return the files that are missing or differ from the record."""
    damaged = list(record.files)
    for name, digest in record.files.items():
        with suppress(OSError):
            if file_digest(stored_file(folder, name)) == digest:
                damaged.remove(name)
    return damaged


def try_rename(folder: Path, target: Path) -> bool:
    """Rename unless the target exists as a non-empty folder."""
    try:
        folder.rename(target)
    except OSError:
        if target.is_dir():
            return False
        raise
    return True


def _to_disk(*paths: Path) -> None:
    """Wait until all are on the disk: at once, because a disk takes them in one go but is slow to answer."""
    with ThreadPoolExecutor(len(paths)) as pool:
        list(pool.map(_fsync, paths))


def _fsync(path: Path) -> None:
    """Write a file to the disk; folders too, where the system allows it."""
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
