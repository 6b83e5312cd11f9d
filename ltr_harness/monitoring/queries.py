"""Rows in, one line per query out: the table on which every later stage works."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness.errors import DataError, Problem

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Category:
    """A column of text: a code per query, and the sorted names behind the codes; -1 is missing."""

    codes: NDArray[np.int32]
    names: NDArray[np.str_]

    @classmethod
    def of(cls, values: Sequence[str] | NDArray[Any]) -> Category:
        """Values as codes.

        Args:
            values: (n,), text.
        """
        names, codes = np.unique(np.asarray(values, dtype=np.str_), return_inverse=True)
        return cls(codes.astype(np.int32), names)

    def take(self, rows: NDArray[Any]) -> Category:
        """The given values alone.

        Args:
            rows: (n_kept,), places or truth values.
        """
        return Category(self.codes[rows], self.names)

    def texts(self, missing: str = "(missing)") -> NDArray[np.str_]:
        """The name of every query's value."""
        return np.append(self.names, missing)[self.codes]

    def recoded(self, names: NDArray[np.str_]) -> NDArray[np.int32]:
        """Codes into another, larger list of sorted names.

        Args:
            names: (n_names,), sorted; the category's own among them.
        """
        to = np.append(np.searchsorted(names, self.names), -1).astype(np.int32)
        return to[self.codes]


def together(parts: Sequence[Category]) -> list[Category]:
    """The same categories over one common list of names."""
    names = np.unique(np.concatenate([part.names for part in parts])) if parts else np.empty(0, np.str_)
    return [Category(part.recoded(names), names) for part in parts]


@dataclass(frozen=True, eq=False)
class QueryTable:
    """One log, query by query, in order of query id.

    Attributes:
        ids: (n,) text.
        metrics: canonical names; the first is the one that alerts.
        values: float64 (n_metrics, n), NaN where undefined.
        n_items: (n,) rows of the query.
        relevant: (n,) whether any row is relevant.
        events: event to (n,) how often it happened in the query.
        by_rank: float32 (n, depth), the grade at rank 1 … depth, NaN where nothing was shown.
        time: int64 (n,) nanoseconds since 1970 UTC of the query's first row; None without timestamps.
        cluster, pair_key: see `Columns`; None where there is none.
        segments: column to category.
        features: column:mean, :max and :std of the rows of a query, and the share :missing, to (n,) values.
        online: column to (n,) mean over the query's rows.
        ips: (n,) IPS-DCG, ips_weight the sum of gain/propensity and ips_squares of its square; None without
            propensities.
    """

    ids: NDArray[Any]
    metrics: tuple[str, ...]
    values: Floats
    n_items: NDArray[np.int32]
    relevant: NDArray[np.bool_]
    events: Mapping[str, NDArray[np.int32]]
    by_rank: NDArray[np.float32]
    time: NDArray[np.int64] | None = None
    cluster: Category | None = None
    pair_key: Category | None = None
    segments: Mapping[str, Category] | None = None
    features: Mapping[str, Floats] | None = None
    online: Mapping[str, Floats] | None = None
    ips: Floats | None = None
    ips_weight: Floats | None = None
    ips_squares: Floats | None = None

    def __len__(self) -> int:
        return int(self.n_items.size)

    @property
    def primary(self) -> Floats:
        """The values of the metric that alerts."""
        column: Floats = self.values[0]
        return column

    @property
    def n_rows(self) -> int:
        return int(self.n_items.sum(dtype=np.int64))

    def take(self, rows: NDArray[Any]) -> QueryTable:
        """The given queries, by index or truth value; the table itself where that is all of them.

        Args:
            rows: (n_kept,), places or truth values.
        """
        if rows.size == len(self) and (
            rows.all() if rows.dtype == np.bool_ else np.array_equal(rows, np.arange(rows.size))
        ):
            return self
        return replace(
            self,
            ids=self.ids[rows],
            values=self.values[:, rows],
            n_items=self.n_items[rows],
            relevant=self.relevant[rows],
            events={name: counts[rows] for name, counts in self.events.items()},
            by_rank=self.by_rank[rows],
            time=None if self.time is None else self.time[rows],
            cluster=None if self.cluster is None else self.cluster.take(rows),
            pair_key=None if self.pair_key is None else self.pair_key.take(rows),
            segments=None if self.segments is None else {k: v.take(rows) for k, v in self.segments.items()},
            features=None if self.features is None else {k: v[rows] for k, v in self.features.items()},
            online=None if self.online is None else {k: v[rows] for k, v in self.online.items()},
            ips=None if self.ips is None else self.ips[rows],
            ips_weight=None if self.ips_weight is None else self.ips_weight[rows],
            ips_squares=None if self.ips_squares is None else self.ips_squares[rows],
        )

    def defined(self) -> QueryTable:
        """The queries with a value of the primary metric."""
        keep = ~np.isnan(self.primary)
        return self if keep.all() else self.take(keep)

    def without_pages(self) -> QueryTable:
        """Without what only label health and presentation look at: a large table is copied more than once."""
        return replace(
            self,
            events={},
            by_rank=self.by_rank[:, :0],
            online={},
            ips=None,
            ips_weight=None,
            ips_squares=None,
        )

    @classmethod
    def concatenated(cls, parts: list[QueryTable]) -> QueryTable:
        """The tables below each other, in order of query id; `parts` is emptied on the way, to save memory."""
        if len(parts) == 1:
            return parts[0]
        columns = [dict(vars(part)) for part in parts]
        parts.clear()
        names = [field.name for field in fields(cls)]
        table = cls(**{n: _joined([c.pop(n) for c in columns], axis=int(n == "values")) for n in names})
        order = _text_order(table.ids)
        return table if np.array_equal(order, np.arange(order.size)) else table.take(order)

    def digest(self) -> str:
        """SHA-256 of everything in the table: the same queries, whatever file, row order or batches."""
        from ltr_harness.fingerprint import fingerprint_arrays

        categories = [self.cluster, self.pair_key, *(self.segments or {}).values()]
        return fingerprint_arrays(
            *_letters(self.ids),
            np.array(self.metrics, dtype=object),
            self.values,
            self.n_items,
            self.by_rank,
            self.time,
            *self.events.values(),
            *(self.features or {}).values(),
            *(self.online or {}).values(),
            *(part for c in categories if c is not None for part in (c.codes, *_letters(c.names))),
            self.ips,
        )

    # ---- on disk ----------------------------------------------------------------------------------------

    def to_arrow(self) -> Any:
        """A `pyarrow.Table` that `from_arrow` reads back."""
        import pyarrow as pa

        columns: dict[str, Any] = {"query_id": pa.array(self.ids, pa.string())}
        columns |= {name: pa.array(values) for name, values in zip(self.metrics, self.values, strict=True)}
        columns |= {"n_items": pa.array(self.n_items), "has_relevant": pa.array(self.relevant)}
        flat = pa.array(self.by_rank.reshape(-1))
        columns["grade_by_rank"] = pa.FixedSizeListArray.from_arrays(flat, self.by_rank.shape[1])
        if self.time is not None:
            columns["time"] = pa.array(self.time).cast(pa.timestamp("ns", "UTC"))
        for name in ("cluster", "pair_key"):
            category = getattr(self, name)
            if category is not None:
                columns[name] = _arrow_category(category)
        columns |= {f"event:{name}": pa.array(counts) for name, counts in self.events.items()}
        columns |= {f"segment:{name}": _arrow_category(c) for name, c in (self.segments or {}).items()}
        columns |= {f"feature:{name}": pa.array(values) for name, values in (self.features or {}).items()}
        columns |= {f"online:{name}": pa.array(values) for name, values in (self.online or {}).items()}
        for name in ("ips", "ips_weight", "ips_squares"):
            if getattr(self, name) is not None:
                columns[name] = pa.array(getattr(self, name))
        return pa.table(columns)

    @classmethod
    def from_arrow(cls, table: Any, metrics: Sequence[str]) -> QueryTable:
        """What `to_arrow` wrote."""

        def numbers(name: str) -> NDArray[Any] | None:
            return table[name].to_numpy() if name in table.column_names else None

        def with_prefix(prefix: str) -> dict[str, str]:
            return {n.removeprefix(prefix): n for n in table.column_names if n.startswith(prefix)}

        by_rank = table["grade_by_rank"].combine_chunks()
        if hasattr(by_rank, "chunks"):
            by_rank = by_rank.chunk(0)
        return cls(
            ids=_ids(table["query_id"]),
            metrics=tuple(metrics),
            values=np.vstack([table[name].to_numpy() for name in metrics]),
            n_items=table["n_items"].to_numpy(),
            relevant=table["has_relevant"].to_numpy(),
            events={name: table[column].to_numpy() for name, column in with_prefix("event:").items()},
            by_rank=by_rank.flatten().to_numpy(zero_copy_only=False).reshape(len(table), -1),
            time=None if "time" not in table.column_names else table["time"].cast("int64").to_numpy(),
            cluster=_from_arrow(table, "cluster"),
            pair_key=_from_arrow(table, "pair_key"),
            segments={n: c for n, k in with_prefix("segment:").items() if (c := _from_arrow(table, k))},
            features={name: table[column].to_numpy() for name, column in with_prefix("feature:").items()},
            online={name: table[column].to_numpy() for name, column in with_prefix("online:").items()},
            ips=numbers("ips"),
            ips_weight=numbers("ips_weight"),
            ips_squares=numbers("ips_squares"),
        )


def _joined(parts: list[Any], axis: int = 0) -> Any:
    """One field of several tables, end to end."""
    first = parts[0]
    if first is None or isinstance(first, tuple):
        return first
    if isinstance(first, Category):
        coded = together(parts)
        return Category(np.concatenate([category.codes for category in coded]), coded[0].names)
    if isinstance(first, Mapping):
        return {key: _joined([column.pop(key) for column in parts]) for key in list(first)}
    return np.concatenate(parts, axis=axis)


def _letters(texts: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Lengths and bytes of texts: what identifies them, without a Python object each."""
    import pyarrow as pa

    _, offsets, letters = pa.array(texts, pa.large_string()).buffers()
    ends = np.frombuffer(offsets, np.int64)[: texts.size + 1]
    return np.diff(ends), None if letters is None else np.frombuffer(letters, np.uint8)[: ends[-1]]


def _arrow_category(category: Category) -> Any:
    import pyarrow as pa

    codes = pa.array(category.codes, mask=category.codes < 0)
    return pa.DictionaryArray.from_arrays(codes, pa.array(category.names.tolist(), pa.string()))


def _from_arrow(table: Any, name: str) -> Category | None:
    return category_of(table[name]) if name in table.column_names else None


def category_of(column: Any, name: str = "") -> Category:
    """A category from an Arrow column of text, numbers or truth values; null and empty text are missing.

    Raises:
        DataError: lists, structures and the like.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    chunked = pa.chunked_array([column]) if isinstance(column, pa.Array) else column
    if pa.types.is_dictionary(chunked.type) and _has_name(chunked.type.value_type):
        encoded = chunked.unify_dictionaries().combine_chunks()
    else:
        encoded = plain_column(chunked, name).combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.chunk(0)
    texts = utf8(encoded.dictionary.cast(pa.string()), name)
    codes = encoded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
    used = np.zeros(len(texts) + 1, dtype=bool)
    used[codes] = True  # a file's dictionary may name more than this batch holds
    used[:-1] &= texts.is_valid().to_numpy(zero_copy_only=False)
    used[:-1] &= pc.not_equal(texts, "").fill_null(False).to_numpy(zero_copy_only=False)  # CSV's missing
    kept = pa.array(np.flatnonzero(used[:-1]))
    order = pc.sort_indices(texts.take(kept))
    at = kept.take(order)
    names = np.asarray(texts.take(at).to_numpy(zero_copy_only=False), dtype=np.str_)
    if (names[1:] == names[:-1]).any():  # a dictionary that repeats itself
        return category_of(chunked.cast(chunked.type.value_type), name)
    rank = np.full(len(texts) + 1, -1, dtype=np.int32)
    rank[at.to_numpy()] = np.arange(names.size, dtype=np.int32)
    return Category(rank[codes], names)


def utf8(texts: Any, name: str) -> Any:
    """An Arrow column of text whose bytes are text.

    Raises:
        DataError: bytes that are not; Arrow itself does not look.
    """
    import pyarrow as pa

    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        raise DataError(
            Problem(f"column {name!r}", "holds bytes that are not UTF-8", "text in UTF-8", "encode it again")
        ) from None
    return texts


def plain_column(column: Any, name: str) -> Any:
    """An Arrow column whose values have a name; dictionaries undone.

    Raises:
        DataError: lists, structures and the like.
    """
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not _has_name(column.type):
        raise DataError(Problem(f"column {name!r}", f"has the type {column.type}", "text or integers"))
    return column


def _has_name(kind: Any) -> bool:
    """Whether values of an Arrow type are text, numbers or the like, and can be written down."""
    import pyarrow as pa

    return not (pa.types.is_nested(kind) or pa.types.is_binary(kind))


def _ids(column: Any) -> NDArray[Any]:
    return np.asarray(column.to_numpy(), dtype=object)


def _text_order(ids: NDArray[Any]) -> NDArray[np.int64]:
    import pyarrow as pa
    import pyarrow.compute as pc

    order: NDArray[np.int64] = pc.sort_indices(pa.array(ids, pa.string())).to_numpy().astype(np.int64)
    return order
