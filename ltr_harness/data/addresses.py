"""Addresses of data, such as ``s3://bucket/folder``, and keys in the names of folders.

What stands at an address is copied through pyarrow's file systems and then read as any other file: of every format,
by every reader, with the same digests. A copy counts as long as it has the size and the time of the original.
"""

import atexit
import hashlib
import os
import re
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from ltr_harness._util.escapes import ADDRESSES, without_secrets
from ltr_harness._util.files import CACHE_VARIABLE, cache_folder, temporary_folder, unfinished
from ltr_harness.errors import DataError, MissingExtraError, Problem

COPIES = "copies"
"""The folder of the cache for what was read at addresses."""

_SCHEMES = "s3://, gs://, abfs:// or file://"
_S3 = ("region", "scheme", "endpoint_override", "anonymous")  # what may stand behind the ? of an address
_ENDPOINT = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")  # which pyarrow heeds in some versions only
_SIGN_IN = {
    "s3": "sign in: AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; ?anonymous=true for public buckets",
    "gs": "sign in: `gcloud auth application-default login`, or GOOGLE_APPLICATION_CREDENTIALS",
    "abfs": "sign in: `az login`, or AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET",
}
# What file systems say, what it means, and the cure; None: to sign in as somebody who may.
_REASONS = (
    ("ACCESS_DENIED|status 403|PERMISSION_DENIED|Forbidden|Authorization", "permission denied", None),
    ("OAuth2|Credential|INVALID_ACCESS_KEY|SIGNATURE|ExpiredToken|UNAUTHENTICATED", "not signed in", None),
    ("NETWORK_CONNECTION|TIMEOUT|CURL|resolve host|Transport", "cannot be reached", "is the network there?"),
    ("NO_SUCH_BUCKET|Bucket '.*' not found", "no such bucket", ""),
    ("without .* support|libjvm|libhdfs", "this pyarrow cannot read it", "copy it to a disk first"),
    ("No space left", "there is no room for the copy", f"set {CACHE_VARIABLE} to a folder with more"),
    ("Unrecognized filesystem", f"its kind is none of {_SCHEMES}", "copy it to a disk first"),
)
_PACKAGES = {"hf": "huggingface_hub"}
_TICK_S = 2.0  # within which a further change may show in neither size nor time
_AT_ONCE = 8  # files that are copied side by side


def is_address(place: object) -> bool:
    """Return whether a text is an address, not a path."""
    return isinstance(place, str) and re.match("[A-Za-z][A-Za-z0-9+.-]+://", place) is not None


def local_path(place: str | Path) -> Path:
    """Return a path as it is; of an address a copy of what stands there, up to date.

    Raises:
        DataError: the address cannot be read.
    """
    if not isinstance(place, str) or not is_address(place):
        return Path(place).expanduser()
    from pyarrow import ArrowException, fs

    try:
        system, path = _opened(place)
        return Path(path) if isinstance(system, fs.LocalFileSystem) else _copied(place, system, path)
    except DataError:
        raise
    except ImportError as problem:  # of the kinds that pyarrow opens through another package, such as hf://
        raise _missing_package(place, problem) from None
    except (ArrowException, OSError, ValueError) as problem:
        raise _unreadable(place, problem) from None


def _missing_package(address: str, problem: ImportError) -> MissingExtraError:
    lacking = problem.name or _PACKAGES.get(urlsplit(address).scheme.lower(), "it")
    found = f"needs another package: {_first_line(problem)}"
    return MissingExtraError.at(_without_options(address), found, cure=f"pip install {lacking}")


def _unreadable(address: str, problem: Exception) -> DataError:
    """Return the error of an address, in our words where the reason is a known one."""
    message = _first_line(problem)
    for pattern, found, cure in _REASONS:
        if re.search(pattern, message, re.IGNORECASE):
            if cure is None:
                cures = (how for kind, how in _SIGN_IN.items() if address.lower().startswith(kind))
                cure = next(cures, "")
            return DataError.at(_without_options(address), f"{found} ({message})", cure=cure)
    return DataError.at(_without_options(address), f"cannot be read: {message}")


def _first_line(problem: Exception) -> str:
    """Return the start of an error's message; its type where it has none."""
    return next(iter(str(problem).splitlines()), type(problem).__name__)[:200]


def refuse_secrets(address: str, place: str = "", cure: str = "") -> None:
    """Raises DataError: the address holds a secret, and would be kept or sent on with it."""
    if without_secrets(address) != address:
        found = "has a secret in it, which records would keep"
        raise DataError.at(place or _without_options(address), found, "an address without", cure)


def _opened(address: str) -> tuple[Any, str]:
    """The file system of an address, which gives up soon where nobody answers, and the path in it."""
    from pyarrow import fs

    parts = urlsplit(address, allow_fragments=False)
    requested = dict(parse_qsl(parts.query, keep_blank_values=True))
    refuse_secrets(address, cure=_SIGN_IN.get(parts.scheme, ""))
    if parts.scheme != "s3":
        if parts.scheme == "gs":
            separator = "&" if parts.query else "?"
            address = f"{address}{separator}retry_limit_seconds=10"
        opened: tuple[Any, str] = fs.FileSystem.from_uri(address)
        return opened
    if odd := sorted(requested.keys() - {*_S3}):
        raise DataError.at(
            _without_options(address), f"has the option {odd[0]!r}", f"one of {', '.join(_S3)}"
        )
    options: dict[str, Any] = {
        **requested,
        "anonymous": requested.get("anonymous", "").lower() in ("true", "1"),
    }
    options.setdefault("endpoint_override", next(filter(None, map(os.environ.get, _ENDPOINT)), None))
    placed = options["endpoint_override"] or {"AWS_REGION", "AWS_DEFAULT_REGION"} & os.environ.keys()
    if not placed and "region" not in requested:
        options["region"] = fs.resolve_s3_region(parts.netloc)
    options |= {"connect_timeout": 5, "request_timeout": 15}
    system = fs.S3FileSystem(**options, retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=3))
    return system, f"{parts.netloc}{unquote(parts.path)}".rstrip("/")


def _copied(address: str, system: Any, path: str) -> Path:
    """Return the path of a copy that is up to date, in a folder of the cache that is this address's own."""
    if ".." in PurePosixPath(path).parts:  # the copy would lie outside of its folder
        raise DataError.at(_without_options(address), "has '..' in it", "an address from the bucket down")
    remote_files = _remote_files(address, system, path)
    top = _folder_of_copies(address)
    files = {top / file.path: file for file in remote_files}
    stale = {target: file for target, file in files.items() if _stamp(target) != (file.size, file.mtime_ns)}
    if stale:
        _fetch(system, stale, top.parent)
    for old in (top / path).rglob("*"):
        if old not in files and old.is_file():
            old.unlink(missing_ok=True)
    return top / path


def _remote_files(address: str, system: Any, path: str) -> list[Any]:
    """Return the files at an address, but for those that Spark and others write beside theirs, such as _SUCCESS."""
    from pyarrow import fs

    entry = system.get_file_info(path)
    if entry.type == fs.FileType.NotFound:
        bucket = system.get_file_info(path.partition("/")[0]).type
        lacking = "bucket" if bucket == fs.FileType.NotFound else "file or folder"
        raise DataError.at(_without_options(address), f"no such {lacking}")
    entries = [entry] if entry.is_file else system.get_file_info(fs.FileSelector(path, recursive=True))
    files = []
    for file in entries:
        parts = PurePosixPath(file.path).relative_to(path).parts
        if file.is_file and not any(part.startswith((".", "_")) for part in parts):
            files.append(file)
    if not files:
        raise DataError.at(_without_options(address), "holds no file")
    return files


def _folder_of_copies(address: str) -> Path:
    """Return the folder of an address, whose name stands for the address in messages from now on."""
    scheme = urlsplit(address).scheme
    cache = cache_folder()
    copies = _temporary() if cache is None else cache.absolute() / COPIES
    folder = copies / hashlib.sha256(address.encode()).hexdigest()[:16] / scheme
    ADDRESSES[f"{folder}{os.sep}"] = f"{scheme}://"
    return folder


def _fetch(system: Any, files: Mapping[Path, Any], folder: Path) -> None:
    """Copy files to their targets by way of `folder`, each one whole or not at all."""
    newest = max(file.mtime_ns for file in files.values()) / 1e9
    time.sleep(min(_TICK_S, max(0.0, newest + _TICK_S - time.time())))
    with unfinished(folder) as making, ThreadPoolExecutor(_AT_ONCE) as threads:
        parts = [making / str(number) for number in range(len(files))]
        list(threads.map(partial(_copy, system), files.values(), parts))
        for part, target in zip(parts, files, strict=True):
            target.parent.mkdir(parents=True, exist_ok=True)
            part.replace(target)


def _stamp(path: Path) -> tuple[int, int] | None:
    """A file's size and time of change; None where there is no file."""
    return (path.stat().st_size, path.stat().st_mtime_ns) if path.is_file() else None


def _copy(system: Any, file: Any, target: Path) -> None:
    from pyarrow import fs

    fs.copy_files(file.path, str(target), system, fs.LocalFileSystem(), use_threads=False)
    os.utime(target, ns=(file.mtime_ns, file.mtime_ns))
    if target.stat().st_size != file.size:
        raise DataError.at(file.path, "changed while it was copied", cure="run again when it is written")


@cache
def _temporary() -> Path:
    """A folder that goes with this process."""
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(temporary_folder())


def _without_options(address: str) -> str:
    """Return an address without options and secrets."""
    return re.sub("[?].*|#[^=]*=.*", "", without_secrets(address))


def partition_keys(folder: Path, file: Path) -> dict[str, str | None]:
    """Return the keys in the names of the folders from one down to a file, as ``day=2024-01-01/part-0.parquet``."""
    keys: dict[str, str | None] = {}
    for part in file.relative_to(folder).parts[:-1]:
        key, equals, value = part.partition("=")
        if equals:
            keys[key] = None if value == "__HIVE_DEFAULT_PARTITION__" else unquote(value)
    return keys


def refuse_stored_keys(file: Path | str, keys: Iterable[str], columns: Iterable[str]) -> None:
    """Raises DataError: the file holds a key of its folders as a column, so that a row has two values of it."""
    repeats = sorted({*keys} & {*columns})
    cure = f"write the files without it, or rename the folders {repeats[0]}=…" if repeats else ""
    DataError.refuse(
        Problem(str(file), f"has the column {key!r}, which is also a key of its folder", "it once", cure)
        for key in repeats
    )
