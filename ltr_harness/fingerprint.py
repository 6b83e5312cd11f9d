"""Content digests: two things with one fingerprint are the same thing, whatever file or machine they came from.

All digests are SHA-256 in hexadecimal. They see values, not memory: strides, byte order, the bits of a NaN,
the width of a text column and whether an id is stored as int32, int64 or text make no difference.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

_ABSENT = b"absent;"


class _Groups(Protocol):
    @property
    def boundaries(self) -> NDArray[np.int64]: ...
    @property
    def ids(self) -> NDArray[Any]: ...


class _Judgments(Protocol):
    # Protocols, not imports: fingerprints stand below the things they are taken of.
    @property
    def labels(self) -> NDArray[np.float64]: ...
    @property
    def groups(self) -> _Groups: ...
    @property
    def query_weights(self) -> NDArray[np.float64] | None: ...
    @property
    def judged(self) -> NDArray[np.bool_] | None: ...
    @property
    def document_ids(self) -> NDArray[Any] | None: ...
    @property
    def subtopics(self) -> Any: ...


class _Dataset(Protocol):
    @property
    def features(self) -> NDArray[np.float32]: ...
    @property
    def judgments(self) -> Any: ...
    @property
    def feature_names(self) -> tuple[str, ...]: ...
    @property
    def positions(self) -> NDArray[np.int32] | None: ...
    @property
    def categories(self) -> Mapping[str, tuple[str, ...]]: ...


def fingerprint_arrays(*arrays: NDArray[Any] | None) -> str:
    """Digest of a sequence of arrays: their order, element types, shapes and values; None is a value too.

    Text (NumPy ``str`` or ``object``) counts by its UTF-8 content. Everything else counts by its
    little-endian bytes in C order, so ``int32`` and ``int64`` differ here; ids, which should not,
    are digested as text by `fingerprint_judgments`.

    Example:
        >>> import numpy as np
        >>> fingerprint_arrays(np.array([1, 2])) == fingerprint_arrays(np.array([1, 9, 2, 9])[::2])
        True
        >>> fingerprint_arrays(np.array(["a", "b"])) == fingerprint_arrays(np.array(["ab", ""]))
        False
    """
    digest = hashlib.sha256()
    for array in arrays:
        if array is None:
            digest.update(_ABSENT)
        elif array.dtype.kind in "OUT":
            _update_text(digest, array)
        else:
            _update_values(digest, array)
    return digest.hexdigest()


def fingerprint_judgments(judgments: _Judgments) -> str:
    """Digest of what a test set asks: labels, query boundaries, query ids, query weights and which rows
    were judged, and subtopics.

    Equal for every model that is measured on the same judged queries, whatever features it sees.
    """
    pairs = judgments.subtopics
    return fingerprint_arrays(
        judgments.labels,
        judgments.groups.boundaries,
        _as_text(judgments.groups.ids),
        judgments.query_weights,
        judgments.judged,
        # nothing without them: older data keep their digests
        *(() if pairs is None else (pairs.rows, pairs.numbers, pairs.grades)),
    )


def fingerprint_dataset(dataset: _Dataset) -> str:
    """Digest of a whole split: judgments, features, their names and categories, positions, document ids."""
    documents = dataset.judgments.document_ids
    header = fingerprint_arrays(
        np.array(dataset.feature_names, dtype=object),
        dataset.positions,
        None if documents is None else _as_text(documents),
    )
    joined = header + fingerprint_judgments(dataset.judgments) + fingerprint_arrays(dataset.features)
    for name, texts in dataset.categories.items():  # nothing without them: older data keep their digests
        joined += fingerprint_arrays(np.array([name, *texts], dtype=object))
    return hashlib.sha256(joined.encode("ascii")).hexdigest()


def sources_digest(*files: Path) -> str:
    """SHA-256 of source files, one after the other: what a version of the code makes is not another's."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _as_text(ids: NDArray[Any]) -> NDArray[Any]:
    return ids if ids.dtype.kind == "U" else np.array([str(value) for value in ids.tolist()], dtype=object)


def _update_text(digest: hashlib._Hash, array: NDArray[Any]) -> None:
    values = [str(value).encode("utf-8", "surrogatepass") for value in array.ravel(order="C").tolist()]
    digest.update(f"text{array.shape};".encode("ascii"))
    # Lengths first: the same letters cut at other places are other values.
    digest.update(np.fromiter(map(len, values), dtype="<i8", count=len(values)).tobytes())
    digest.update(b"".join(values))


def _update_values(digest: hashlib._Hash, array: NDArray[Any]) -> None:
    portable = array.dtype.newbyteorder("<")
    digest.update(f"{portable.str}{array.shape};".encode("ascii"))
    flat = array.reshape(1) if array.ndim == 0 else array
    step = max(1, (1 << 20) // max(1, flat[:1].size))  # in blocks: never a second copy of it all
    for start in range(0, len(flat), step):
        block = np.ascontiguousarray(flat[start : start + step], dtype=portable)
        if block.dtype.kind == "f" and (missing := np.isnan(block)).any():
            block = np.where(missing, portable.type("nan"), block)  # there are many NaN; they mean one thing
        digest.update(block.reshape(-1).view(np.uint8).data)
