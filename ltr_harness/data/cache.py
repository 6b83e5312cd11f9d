"""Data cache: parsed data as memory-mapped columns on disk, keyed by the content of the files.

An entry is a folder of arrays and one page of facts; whole, or treated as absent, and may be deleted at any time. It is
believed as long as its files carry the stamps (size, times, inode) they had when it was written; a copied or touched
one only if its content still has the fingerprint.
"""

import errno
import hashlib
import inspect
import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from ltr_harness._util.digests import FileDigests, as_page, changed_while_read, read_page, stamp
from ltr_harness._util.files import (
    CACHE_VARIABLE,
    UNFINISHED,
    cache_folder,
    file_digest,
    sources_digest,
    unfinished,
    write_whole,
)
from ltr_harness._util.text import count_of
from ltr_harness._util.user_code import code_digest, installed_version, is_own_module
from ltr_harness.data.addresses import COPIES
from ltr_harness.data.arrays import Array, sealed
from ltr_harness.data.dataset import (
    RankingDataset,
    fingerprint_arrays,
    fingerprint_dataset,
    fingerprint_judgments,
)
from ltr_harness.data.features import Features, SparseFeatures
from ltr_harness.data.judgments import Judgments, MissedDocuments, RawJudgments, Subtopics
from ltr_harness.data.queries import QueryGroups
from ltr_harness.data.readers.reader import Reader
from ltr_harness.errors import Caution

_FORMAT = 2
_PACKAGE = Path(__file__).parent

log = logging.getLogger(__name__)

FACTS = "facts.json"
_SPARSE = ("values", "columns", "starts")  # of features that are sparse
_MAPPED = ("features", "features_values", "features_columns", "document_ids")
_PAIRS = ("rows", "numbers", "grades")  # of subtopics
_MISSED = ("queries", "labels", "document_ids")
_SEVERAL = ("queries", "documents", "grades")
_FACTS = ("feature_names", "source", "sparse", "features_named")
_JUDGED = ("query_weights", "document_ids", "judged")  # of judgments, where they have them
_OF_ROWS = ("positions", "file_rows", "row_weights", "half_lives")  # of the rows, where they have them
_ABANDONED_S = 24 * 3600
_SMALL = 1 << 20  # bytes of features, of which parts are made sooner than written, synchronized and opened


@dataclass(frozen=True)
class Fingerprints:
    """Digests of a dataset's content: everything a ranker sees, and what its evaluation depends on."""

    dataset: str
    judgments: str

    @classmethod
    def of(cls, dataset: RankingDataset) -> Self:
        return cls(fingerprint_dataset(dataset), fingerprint_judgments(dataset.judgments))


def write_entry(folder: Path, dataset: RankingDataset, fingerprints: Fingerprints) -> None:
    """Store a dataset under a name that is not taken, in one step; where that fails, nothing is left behind."""
    for left in folder.parent.glob(f"{UNFINISHED}*"):  # of killed processes, wherever they ran
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > _ABANDONED_S:
                shutil.rmtree(left, ignore_errors=True)
    with unfinished(folder.parent, private=True) as making:
        files = {}
        for name, array in _arrays(dataset).items():
            with open(making / f"{name}.npy", "wb") as written:
                np.save(written, np.ascontiguousarray(array), allow_pickle=False)
                written.flush()
                os.fsync(written.fileno())  # else a power cut could leave a whole folder of empty files
            files[name] = dict(stamp(making / f"{name}.npy"))
        facts = {
            **{name: getattr(dataset, name) for name in _FACTS},
            "cautions": list(map(asdict, dataset.cautions)),
            "attributes": list(dataset.query_attributes),
            "columns": dict(dataset.columns),
            "categories": dict(dataset.categories),
            "fingerprint": fingerprints.dataset,
            "judgments_fingerprint": fingerprints.judgments,
            "attributes_fingerprint": _attributes_fingerprint(dataset),
            "files": files,
        }
        with open(making / FACTS, "w", encoding="utf-8") as stream:
            stream.write(as_page(facts))
            stream.flush()
            os.fsync(stream.fileno())
        if folder.exists():  # damaged, or another process was faster; either way ours is whole
            with unfinished(folder.parent, private=True) as aside, suppress(FileNotFoundError):
                os.rename(folder, aside / "old")
        try:
            os.rename(making, folder)
        except OSError as problem:
            if problem.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise  # else another process was faster since: its is as whole as ours


def open_entry(folder: Path, *, verify: bool = False) -> tuple[RankingDataset, Fingerprints] | None:
    """Return the stored dataset; None where there is none, or one that cannot be trusted."""
    try:
        facts = read_page(folder / FACTS)
        if facts is None:
            return None
        same = all(stamp(folder / f"{name}.npy") == stored for name, stored in facts["files"].items())
        dataset = _opened(folder, facts)
        fingerprints = Fingerprints(facts["fingerprint"], facts["judgments_fingerprint"])
        if verify or not same:
            present = Fingerprints.of(dataset), _attributes_fingerprint(dataset)
            if present != (fingerprints, facts["attributes_fingerprint"]):
                return None
            if not same:
                facts["files"] = {name: dict(stamp(folder / f"{name}.npy")) for name in facts["files"]}
                with suppress(OSError):  # else it is compared again the next time
                    write_whole(folder / FACTS, as_page(facts))
        with suppress(OSError):
            os.utime(folder / FACTS)  # when it was last used, for whoever makes room
    except Exception:  # damaged: NumPy lets whatever its parser of headers meets pass
        return None
    return dataset, fingerprints


def _arrays(dataset: RankingDataset) -> dict[str, Array]:
    judgments, missed = dataset.judgments, dataset.judgments.missed
    optional = {
        **{name: getattr(judgments, name) for name in _JUDGED},
        **{name: getattr(dataset, name) for name in _OF_ROWS},
        **{f"subtopic_{name}": getattr(judgments.subtopics, name, None) for name in _PAIRS},
        **{f"missed_{name}": getattr(missed, name, None) for name in _MISSED},
        **{f"several_{name}": getattr(dataset.raw_judgments, name, None) for name in _SEVERAL},
        **{f"missed_subtopic_{name}": getattr(missed and missed.subtopics, name, None) for name in _PAIRS},
    }
    features: dict[str, Array]
    if isinstance(dataset.features, SparseFeatures):
        features = {f"features_{name}": getattr(dataset.features, name) for name in _SPARSE}
    else:
        features = {"features": dataset.features}
    return {
        **features,
        "labels": judgments.labels,
        "boundaries": judgments.groups.boundaries,
        "ids": judgments.groups.ids,
        **{name: array for name, array in optional.items() if array is not None},
        **{f"attribute{i}": values for i, values in enumerate(dataset.query_attributes.values())},
    }


def _stored_columns(folder: Path, names: Iterable[str]) -> dict[str, Array]:
    # One name at a time, in the way NumPy itself checks sizes against the header.
    columns: dict[str, Array] = {}
    for name in names:
        mode: Literal["r"] | None = "r" if name in _MAPPED else None
        stored = np.load(folder / f"{name}.npy", mmap_mode=mode, allow_pickle=False)
        if mode is None:
            sealed(stored)
        columns[name] = np.asarray(stored)  # a plain array: libraries treat np.memmap as something else
    return columns


def _opened(folder: Path, facts: Mapping[str, Any]) -> RankingDataset:
    columns = _stored_columns(folder, facts["files"])

    def parts(kind: str, names: Sequence[str]) -> dict[str, Any]:
        """Return the arrays of a part; none where the entry lacks it, as older ones lack missed documents."""
        if f"{kind}_{names[0]}" not in columns:
            return {}
        return {name: columns.get(f"{kind}_{name}") for name in names}

    def subtopics(kind: str) -> Subtopics | None:
        return Subtopics(**pairs) if (pairs := parts(kind, _PAIRS)) else None

    missed, raw_judgments = parts("missed", _MISSED), parts("several", _SEVERAL)
    judged: dict[str, Any] = {name: columns.get(name) for name in _JUDGED}
    of_rows: dict[str, Any] = {name: columns.get(name) for name in _OF_ROWS}
    judgments = Judgments(
        columns["labels"],
        QueryGroups(columns["boundaries"], columns["ids"]),
        **judged,
        subtopics=subtopics("subtopic"),
        missed=MissedDocuments(**missed, subtopics=subtopics("missed_subtopic")) if missed else None,
    )
    features: Features
    if "features" in columns:
        features = columns["features"]
    else:
        features = SparseFeatures(**parts("features", _SPARSE), n_features=len(facts["feature_names"]))
    return RankingDataset(
        features,
        judgments,
        query_attributes={name: columns[f"attribute{i}"] for i, name in enumerate(facts["attributes"])},
        feature_names=tuple(facts["feature_names"]),
        source=facts["source"],
        sparse=facts["sparse"],
        features_named=facts["features_named"],
        cautions=tuple(Caution(**caution) for caution in facts["cautions"]),
        columns=facts["columns"],
        categories={name: tuple(texts) for name, texts in facts["categories"].items()},
        raw_judgments=RawJudgments(**raw_judgments) if raw_judgments else None,
        **of_rows,
    )


def _attributes_fingerprint(dataset: RankingDataset) -> str:
    """Return the fingerprint of the arrays that the fingerprints of the content leave out."""
    raw_judgments = [
        getattr(dataset.raw_judgments, name) for name in _SEVERAL if dataset.raw_judgments is not None
    ]
    return fingerprint_arrays(dataset.file_rows, *dataset.query_attributes.values(), *raw_judgments)


@dataclass(frozen=True)
class KeptEntry:
    """Stored dataset."""

    folder: Path
    title: str  # what it was made from
    size: int  # bytes on disk
    used: float  # when it was last opened, seconds since 1970


def kept_entries(folder: Path) -> list[KeptEntry]:
    """The entries of a cache, the last used first; unfinished and damaged ones too: they take room as well."""
    entries = []
    with suppress(OSError):
        for entry in (folder / "sets").iterdir():
            with suppress(OSError):
                files = [file.stat() for file in entry.iterdir() if file.is_file()]
                page = entry / FACTS  # which reading an entry touches
                touched = page if page.is_file() else entry
                size = sum(file.st_size for file in files)
                entries.append(KeptEntry(entry, _title(page), size, touched.stat().st_mtime))
    return sorted(entries, key=lambda entry: -entry.used)


def remove_entries(folder: Path, entries: Sequence[KeptEntry], *, everything: bool = False) -> None:
    """Remove entries; each disappears in one step, and who has it mapped keeps it."""
    if entries:
        with unfinished(folder / "sets", private=True) as aside:
            for number, entry in enumerate(entries):
                with suppress(FileNotFoundError):  # another process was faster
                    os.rename(entry.folder, aside / str(number))
    if everything:
        for name in ("files", "facts", "finished", "charts", "answers", COPIES):
            shutil.rmtree(folder / name, ignore_errors=True)


def _title(page: Path) -> str:
    try:
        facts = json.loads(json.loads(page.read_text(encoding="utf-8"))["facts"])
        n_features = len(facts["feature_names"])
        return f"{facts['source'] or 'no name'} ({count_of(n_features, 'feature')})"
    except (OSError, ValueError, KeyError, TypeError):
        return "unfinished or damaged"


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
        if folder == "default":
            self._folder = cache_folder()
        else:
            self._folder = None if folder is None else Path(folder)
        self._verify = verify
        self._digests = FileDigests(self._folder, verify=verify)
        self.inputs: dict[Path, str] = {}  # the files that were read, with their digests from before that
        self._warned = False

    def digest(self, path: Path) -> str:
        """SHA-256 of a file, hashed once while its stamp is the same; DataError: unreadable, or changed meanwhile."""
        digest = self._digests.digest(path)
        self.inputs.setdefault(path, digest)
        return digest

    def read(self, reader: Reader, files: Sequence[str], root: Path) -> CachedSet:
        """Return the result of ``reader.read(files, root)``. Raises DataError: a file changes while it is read."""
        code = _code_of(type(reader))
        inputs = () if self._folder is None or code is None else reader.inputs(files, root)
        if not inputs:
            return CachedSet(reader.read(files, root))
        # folders such as day=1 say something of the rows in them
        keys = ["".join(f"{part}/" for part in path.parts[:-1] if "=" in part) for path in inputs]
        digests = [(key + path.name, self.digest(path)) for key, path in zip(keys, inputs, strict=True)]
        # What a reader hides from the configuration may change what it reads all the same.
        options = [reader.model_dump(mode="json"), repr(reader.__pydantic_private__)]
        made_of = [type(reader).__qualname__, code, options, list(files), digests]

        def convert() -> RankingDataset:
            dataset = reader.read(files, root)
            for path in (given.resolve() for given in inputs):
                if not self._digests.is_unchanged(path):
                    raise changed_while_read(path)
            return dataset

        return self._stored_set(_key(made_of), convert)

    def derived(
        self, origin: CachedSet, recipe: Sequence[str | int | float], make: Callable[[], RankingDataset]
    ) -> CachedSet:
        """A dataset made from another, such as the training part of a hold-out; of a small one it is made each time."""
        if self._folder is None or origin.key is None:
            return CachedSet(make())
        key = _key([origin.key, list(recipe), _code_digest()])
        if origin.dataset.features.nbytes < _SMALL:
            return CachedSet(make(), key)
        return self._stored_set(key, make)

    def cached_value(self, made_of: Sequence[Any], make: Callable[[], Any]) -> Any:
        """Return a small value that follows from content, such as the lints' results; it is cached as JSON."""
        if self._folder is None:
            return make()
        page = self._folder / "facts" / f"{_key(list(made_of))}.json"
        if not self._verify:
            with suppress(OSError, ValueError, TypeError, KeyError):
                cached = read_page(page)
                if cached is not None:
                    return cached
        value = make()
        try:
            write_whole(page, as_page(value))
        except OSError as problem:
            self._warn(problem)
        return value

    def _stored_set(self, key: str, make: Callable[[], RankingDataset]) -> CachedSet:
        assert self._folder is not None
        folder = self._folder / "sets" / key
        entry = open_entry(folder, verify=self._verify)
        if entry is None and folder.exists():  # perhaps another process has put it there since
            entry = open_entry(folder, verify=self._verify)
            if entry is None:
                text = f"{folder} in the data cache is damaged: the data is read again"
                log.warning(Caution("damaged-file", "note", text))
        if entry is None:
            dataset = make()
            if any(array.dtype.kind == "O" for array in _arrays(dataset).values()):  # Python's objects
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
            reason = "the disk is full" if problem.errno == errno.ENOSPC else problem.strerror or str(problem)
            text = f"the data cache {self._folder} cannot be written ({reason}): data is read again each time"
            cure = f"set {CACHE_VARIABLE} to another folder, or to off"
            log.warning(Caution("uncached-data", "note", text, cure))


def _key(facts: Any) -> str:
    text = json.dumps([_FORMAT, facts], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:40]


@cache
def _code_digest() -> str:
    """The source of everything about data: entries made by another version of it are other entries."""
    return sources_digest(*sorted(_PACKAGE.rglob("*.py")))


@cache
def _code_of(kind: type[Reader]) -> str | None:
    """The source of a reader, one from outside included; None where there is no file of it."""
    digest = hashlib.sha256(_code_digest().encode("ascii"))
    for base in kind.__mro__:
        if not issubclass(base, Reader):
            continue
        try:
            file = Path(inspect.getsourcefile(base) or "")
            if _PACKAGE / "readers" not in file.parents:
                if is_own_module(base.__module__):
                    digest.update(code_digest(file).encode())
                else:  # what it imports goes by the package's version
                    version = installed_version(base.__module__)
                    digest.update(f"{file_digest(file)} {version}".encode())
        except (TypeError, OSError):
            return None
    return digest.hexdigest()
