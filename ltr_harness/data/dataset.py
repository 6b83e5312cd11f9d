"""Features and judgments of one split, which rankers are trained on and scored with, and fingerprints of content."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness._util.display import Displayed
from ltr_harness._util.text import count_of, named
from ltr_harness.data.arrays import Floats, Ints, KeepsArrays
from ltr_harness.data.features import Features, SparseFeatures, rows_of
from ltr_harness.data.judgments import Judgments, RawJudgments, Subtopics
from ltr_harness.data.queries import QueryGroups, as_slice
from ltr_harness.errors import Caution, DataError


@dataclass(frozen=True, eq=False)
class RankingDataset(Displayed, KeepsArrays):
    """Rows with features, in query groups, with what each row is worth; arrays are read-only.

    Attributes:
        features: float32 (n_rows, n_features), C order; NaN means missing. May be memory-mapped, or `SparseFeatures`,
            which `numpy.asarray` makes an array. Without a column where the files have ids and grades alone, which is
            enough to measure scores.
        judgments: labels, queries, query weights, document ids.
        feature_names: the file's own ids ("1", "2", …) or column names, one per column of `features`.
        positions: int32 (n_rows,) display positions, or None.
        query_attributes: name to (n_queries,) values, for slices.
        source: how messages call this split, such as ``"mq2008/S1.txt"``.
        sparse: a feature that a row leaves out means 0.0 (LETOR, LibSVM), so missing columns can be added.
        cautions: changes and omissions in reading, for the report.
        file_rows: int64 (n_rows,), the row of the files, from 0, that each row was; None where rows stand as in the
            files, which is so unless scattered queries were brought together or documents were missed.
        columns: role to the column that has it in the files, such as ``{"query": "search_id"}``; empty where
            columns have no names. Roles ``time`` and ``user`` are those of columns that are called so.
        categories: name of each categorical feature that was text to its texts; the features hold places in them.
        raw_judgments: the judgments that labels were made of, where documents have several; else None.
        row_weights: float64 (n_rows,), finite and >= 0, where weights differ within a query, whose own weight is then
            their mean; else None.
        half_lives: float64 (n_rows,), when each row was, counted in half-lives of its weight in training, from any
            point in time on; None where weights do not depend on age.
        features_named: whether the features were named one by one (`features:`), and so are all meant.
    """

    features: Features
    judgments: Judgments
    feature_names: tuple[str, ...]
    positions: NDArray[np.int32] | None = None
    query_attributes: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    source: str = ""
    sparse: bool = False
    cautions: tuple[Caution, ...] = ()
    file_rows: NDArray[np.int64] | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    raw_judgments: RawJudgments | None = None
    row_weights: NDArray[np.float64] | None = None
    half_lives: NDArray[np.float64] | None = None
    features_named: bool = False

    def __repr__(self) -> str:
        size = f"{count_of(self.n_queries, 'query')}, {count_of(self.n_rows, 'row')}"
        summary = f"{self.source}: {size}, {named('feature', self.feature_names)}"
        return "\n".join([summary, *map(str, self.cautions)])

    @property
    def groups(self) -> QueryGroups:
        return self.judgments.groups

    @property
    def labels(self) -> NDArray[np.float64]:
        return self.judgments.labels

    @property
    def n_queries(self) -> int:
        return self.groups.n_queries

    @property
    def n_rows(self) -> int:
        return self.groups.n_rows

    @property
    def n_features(self) -> int:
        return len(self.feature_names)

    @property
    def file_order(self) -> NDArray[np.int64] | None:
        """int64 (n_rows,): ``labels[file_order]`` are the labels in the order of the files; None where `labels` are."""
        return None if self.file_rows is None else np.argsort(self.file_rows, kind="stable")

    def weights_of_rows(self, newest: float | None = None) -> NDArray[np.float64] | None:
        """The training weight of each row: its own, else its query's; halved with each half-life of its age.

        Args:
            newest: the largest of the training's `half_lives`, where these rows are a part of it.

        Returns:
            float64 (n_rows,); None where neither rows nor queries have weights.
        """
        weights, of_queries = self.row_weights, self.judgments.query_weights
        if weights is None and of_queries is not None:
            weights = np.repeat(of_queries, self.groups.sizes)
        if self.half_lives is None:
            return weights
        if newest is None:
            newest = float(self.half_lives.max())
        halved = 0.5 ** (newest - self.half_lives)
        return np.asarray(halved if weights is None else weights * halved)

    def weights_of_queries(self) -> NDArray[np.float64] | None:
        """The training weight of each query: the mean of its rows'; in metrics, it is `judgments.query_weights`.

        Returns:
            float64 (n_queries,); None where neither rows nor queries have weights.
        """
        weights = self.weights_of_rows()
        return None if weights is None else self.groups.mean(weights)

    def optional_fields(self, rows: NDArray[np.int64]) -> dict[str, Any]:
        """Return the optional columns of some rows, by field.

        Args:
            rows: int64 (n_kept,).
        """
        names = ("positions", "file_rows", "row_weights", "half_lives")
        columns = {name: getattr(self, name) for name in names}
        chosen = {name: values[rows] for name, values in columns.items() if values is not None}
        return dict.fromkeys(names) | chosen

    def training_rows(self) -> "RankingDataset":
        """The judged documents of queries with candidates: unjudged ones are nothing to learn from."""
        judgments, groups = self.judgments, self.groups
        judged = np.ones(self.n_rows, dtype=bool) if judgments.judged is None else judgments.judged
        if judged.all() and groups.has_rows.all():
            return self
        rows = np.flatnonzero(judged)
        if not rows.size:
            expected = "judged documents to learn from"
            raise DataError.at(self.source, "no document is judged", expected)
        sizes = groups.sum(judged, np.int64)
        learned = judgments.with_rows(rows, QueryGroups.from_counts(sizes, groups.ids))
        cautions = list(self.cautions)
        if n := self.n_rows - rows.size:
            text = f"training ignores {count_of(n, 'document')} that are not judged"
            cautions.append(Caution("unjudged-documents", "note", text))
        if n := int(np.count_nonzero(~groups.has_rows)):
            text = f"training ignores {count_of(n, 'query')} without candidates"
            cautions.append(Caution("queries-without-candidates", "note", text))
        optional = self.optional_fields(rows)
        if self.file_rows is None:
            optional["file_rows"] = rows
        candidates = replace(
            self,
            features=rows_of(self.features, rows),
            judgments=replace(learned, judged=None),
            cautions=tuple(cautions),
            **optional,
        )
        return candidates.take(np.flatnonzero(sizes))

    def take(self, queries: NDArray[np.int64], source: str | None = None) -> "RankingDataset":
        """The given queries alone; a query is never split. Features of neighbouring queries are not copied.

        Args:
            queries: int64 (n_kept,), numbers of queries in the order wanted.
            source: what messages call the result; the set's own source if None.
        """
        _, rows = self.groups.take(queries)
        return replace(
            self,
            features=rows_of(self.features, as_slice(rows)),
            judgments=self.judgments.take(queries),
            query_attributes={name: values[queries] for name, values in self.query_attributes.items()},
            source=self.source if source is None else source,
            raw_judgments=None if self.raw_judgments is None else self.raw_judgments.take(queries),
            **self.optional_fields(rows),
        )


# All digests are SHA-256 in hexadecimal. They see values, not memory: strides, byte order, the bits of a NaN, the width
# of a text column and whether an id is stored as int32, int64 or text make no difference.


def fingerprint_arrays(*arrays: NDArray[Any] | SparseFeatures | None) -> str:
    """Digest of a sequence of arrays: their order, element types, shapes and values; None is a value too.

    Text (NumPy ``str`` or ``object``) counts by its UTF-8 content. Everything else counts by its
    little-endian bytes in C order, so ``int32`` and ``int64`` differ here; ids, which should not,
    are digested as text by `fingerprint_judgments`. Sparse features count as the array that they stand for.
    """
    digest = hashlib.sha256()
    for array in arrays:
        if array is None:
            digest.update(b"absent;")
        elif isinstance(array, np.ndarray) and array.dtype.kind in "OUT":
            values = [
                str(value).encode("utf-8", "surrogatepass") for value in array.ravel(order="C").tolist()
            ]
            digest.update(f"text{array.shape};".encode("ascii"))
            # Lengths first: the same letters cut at other places are other values.
            digest.update(np.fromiter(map(len, values), dtype="<i8", count=len(values)).tobytes())
            digest.update(b"".join(values))
        else:
            portable = array.dtype.newbyteorder("<")
            digest.update(f"{portable.str}{array.shape};".encode("ascii"))
            flat = array
            if isinstance(array, np.ndarray) and array.ndim == 0:
                flat = array.reshape(1)
            step = max(1, (1 << 20) // max(1, flat[:1].size))  # in blocks: never a second copy of it all
            for start in range(0, len(flat), step):
                block = np.ascontiguousarray(flat[start : start + step], dtype=portable)
                if block.dtype.kind == "f" and (missing := np.isnan(block)).any():
                    block = np.where(missing, portable.type("nan"), block)  # many NaN mean one thing
                digest.update(block.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def fingerprint_judgments(judgments: Judgments) -> str:
    """Digest of a test set's judgments: labels, boundaries, ids and weights of queries, judged and missed documents, …

    Equal for every model that is measured on the same judged queries, whatever features it sees.
    """
    arrays: list[NDArray[Any] | None] = [
        judgments.labels,
        judgments.groups.boundaries,
        _as_text(judgments.groups.ids),
        judgments.query_weights,
        judgments.judged,
    ]
    # nothing where there are none: older data keep their digests
    if judgments.subtopics is not None:
        arrays += _subtopic_arrays(judgments.subtopics)
    missed = judgments.missed
    if missed is not None:
        ids = None if missed.document_ids is None else _as_text(missed.document_ids)
        arrays += [np.array("missed"), missed.queries, missed.labels, ids]
        if missed.subtopics is not None:
            arrays += _subtopic_arrays(missed.subtopics)
    return fingerprint_arrays(*arrays)


def _subtopic_arrays(subtopics: Subtopics) -> tuple[Ints, Ints, Floats]:
    return subtopics.rows, subtopics.numbers, subtopics.grades


def fingerprint_truth(judgments: Judgments) -> str:
    """Digest of queries, their weights and relevant documents, in any order and whatever the candidates.

    "" where nobody said which documents were candidates, documents have no ids, or labels are by subtopic.
    """
    pool = judgments.pool
    if judgments.missed is None or pool.document_ids is None or pool.subtopics is not None:
        return ""
    queries = _as_text(pool.groups.ids).astype(str)
    order = np.argsort(queries, kind="stable")
    rows = np.flatnonzero(pool.labels > 0)
    query = queries[np.searchsorted(pool.groups.boundaries, rows, side="right") - 1]
    documents = _as_text(pool.document_ids[rows]).astype(str)
    by_document = np.lexsort((documents, query))
    weights = pool.query_weights
    return fingerprint_arrays(
        queries[order],
        None if weights is None else weights[order],
        query[by_document],
        documents[by_document],
        pool.labels[rows][by_document],
    )


def fingerprint_dataset(dataset: RankingDataset) -> str:
    """Digest of a whole split: judgments, features, their names and categories, positions, document ids, weights."""
    documents = dataset.judgments.document_ids
    header = fingerprint_arrays(
        np.array(dataset.feature_names, dtype=object),
        dataset.positions,
        None if documents is None else _as_text(documents),
    )
    joined = header + fingerprint_judgments(dataset.judgments) + fingerprint_arrays(dataset.features)
    for name, texts in dataset.categories.items():  # nothing without them: older data keep their digests
        joined += fingerprint_arrays(np.array([name, *texts], dtype=object))
    if not (dataset.row_weights is None and dataset.half_lives is None):
        joined += fingerprint_arrays(dataset.weights_of_rows())
    return hashlib.sha256(joined.encode("ascii")).hexdigest()


def _as_text(ids: NDArray[Any]) -> NDArray[Any]:
    return ids if ids.dtype.kind == "U" else np.array([str(value) for value in ids.tolist()], dtype=object)


def values_by_query(dataset: RankingDataset, name: str) -> NDArray[Any] | None:
    """Return the values (n_queries,) of an attribute, or of a column that is the query or a part of it.

    None where neither has the name.
    """
    if name in dataset.query_attributes:
        return dataset.query_attributes[name]
    key = dataset.columns.get("query", "").split(", ")
    if name not in key:
        return None
    if len(key) == 1:
        return dataset.groups.ids
    parts = [str(query).split("/", len(key) - 1)[key.index(name)] for query in dataset.groups.ids.tolist()]
    return np.array(parts)
