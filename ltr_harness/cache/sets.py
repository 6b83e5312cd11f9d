"""Cached reading: a dataset out of the cache if it is there, else read and stored."""

import errno
import hashlib
import inspect
import json
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from ltr_harness import readers
from ltr_harness.cache.entries import (
    FileDigests,
    Fingerprints,
    as_page,
    open_entry,
    read_page,
    storable,
    write_entry,
)
from ltr_harness.dataset import RankingDataset
from ltr_harness.files import CACHE_VARIABLE, cache_folder, file_digest, sources_digest, write_whole
from ltr_harness.own_files import code_digest, installed_version, is_own_module
from ltr_harness.readers.reader import Reader

_FORMAT = 2

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CachedSet:
    """A dataset and what is known about its content."""

    dataset: RankingDataset  # memory-mapped where it comes from the cache
    key: str | None = None  # names the content it was made from and the way; None where that cannot be known
    known: Fingerprints | None = None  # its fingerprints, where they need no computing

    @cached_property
    def fingerprints(self) -> Fingerprints:
        return self.known or Fingerprints.of(self.dataset)


class DataCache:
    """Cache of datasets by content; where it cannot be written, data is read all the same and one warning says so."""

    def __init__(self, folder: Path | str | None = "default", *, verify: bool = False) -> None:
        self._folder = cache_folder() if folder == "default" else None if folder is None else Path(folder)
        self._verify = verify
        self._digests = FileDigests(self._folder and self._folder / "files", verify=verify)
        self._warned = False

    def digest(self, path: Path) -> str:
        """SHA-256 of a file's bytes; remembered while the file is unchanged."""
        return self._digests.of(path)

    def read(self, reader: Reader, files: Sequence[str], root: Path) -> CachedSet:
        """What ``reader.read(files, root)`` gives; a DataError too where a file changes while it is read."""
        code = _code_of(type(reader))
        inputs = () if self._folder is None or code is None else reader.inputs(files, root)
        if not inputs:
            return CachedSet(reader.read(files, root))
        digests = [(path.name, self.digest(path)) for path in inputs]
        # What a reader hides from the configuration may change what it reads all the same.
        options = [reader.model_dump(mode="json"), repr(reader.__pydantic_private__)]
        made_of = [type(reader).__qualname__, code, options, list(files), digests]

        def convert() -> RankingDataset:
            dataset = reader.read(files, root)
            for path in inputs:
                self._digests.check_unchanged(path)
            return dataset

        return self._kept(_key(made_of), convert)

    def derived(
        self, origin: CachedSet, recipe: Sequence[str | int | float], make: Callable[[], RankingDataset]
    ) -> CachedSet:
        """A dataset made from another, such as the training part of a hold-out."""
        if self._folder is None or origin.key is None:
            return CachedSet(make())
        return self._kept(_key([origin.key, list(recipe), _code_digest()]), make)

    def remembered(self, made_of: Sequence[Any], make: Callable[[], Any]) -> Any:
        """A small value that follows from content, such as what the lints say of it; kept as JSON."""
        if self._folder is None:
            return make()
        page = self._folder / "facts" / f"{_key(list(made_of))}.json"
        if not self._verify:
            with suppress(OSError, ValueError, TypeError, KeyError):
                kept = read_page(page)
                if kept is not None:
                    return kept
        value = make()
        try:
            write_whole(page, as_page(value))
        except OSError as problem:
            self._warn(problem)
        return value

    def _kept(self, key: str, make: Callable[[], RankingDataset]) -> CachedSet:
        assert self._folder is not None
        folder = self._folder / "sets" / key
        entry = open_entry(folder, verify=self._verify)
        if entry is None:
            if folder.exists():
                log.warning("%s in the data cache is damaged: the data is read again", folder)
            dataset = make()
            if not storable(dataset):
                return CachedSet(dataset, key)
            fingerprints = Fingerprints.of(dataset)
            try:
                write_entry(folder, dataset, fingerprints)
            except OSError as problem:
                self._warn(problem)
                return CachedSet(dataset, key, fingerprints)
            # The mapped one from here on: what was read is freed, and all processes share one copy.
            entry = open_entry(folder) or (dataset, fingerprints)
        return CachedSet(entry[0], key, entry[1])

    def _warn(self, problem: OSError) -> None:
        if not self._warned:
            self._warned = True
            why = "the disk is full" if problem.errno == errno.ENOSPC else problem.strerror or str(problem)
            again = f"data is read again each time; set {CACHE_VARIABLE} to another folder, or to off"
            log.warning("the data cache %s cannot be written (%s): %s", self._folder, why, again)


def _key(facts: Any) -> str:
    text = json.dumps([_FORMAT, facts], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:40]


@cache
def _code_digest() -> str:
    """The readers' own source: entries made by another version of it are other entries."""
    folder = Path(readers.__file__).parent
    beside = (folder.parent / "relevance", folder.parent / "logs")  # what makes labels of events
    return sources_digest(
        *(file for part in (folder, *beside) for file in sorted(part.rglob("*.py"))),
        folder.parent / "groups.py",
        folder.parent / "splits.py",
    )


@cache
def _code_of(kind: type[Reader]) -> str | None:
    """The source of a reader, one from outside included; None where there is no file of it."""
    digest = hashlib.sha256(_code_digest().encode("ascii"))
    own = Path(readers.__file__).parent
    for base in kind.__mro__:
        if not issubclass(base, Reader):
            continue
        try:
            file = Path(inspect.getsourcefile(base) or "")
            if own not in file.parents:
                module = base.__module__
                if is_own_module(module):
                    code = code_digest(file)
                else:  # what others import goes by the package's version
                    code = f"{file_digest(file)} {installed_version(module)}"
                digest.update(code.encode())
        except (TypeError, OSError):
            return None
    return digest.hexdigest()
