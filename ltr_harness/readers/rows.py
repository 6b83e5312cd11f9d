"""Rows of files, grouped into queries: what readers give to make a dataset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness.dataset import RankingDataset
from ltr_harness.errors import DataError, Problem
from ltr_harness.groups import Judgments, QueryGroups
from ltr_harness.subtopics import Subtopics
from ltr_harness.wording import count_of, plural

SHOWN = 20
"""How many problems of one kind are listed before the rest is only counted."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows in file order, each value checked, queries not yet."""

    features: NDArray[np.float32]  # (n_rows, n_features)
    labels: NDArray[np.float64]  # (n_rows,), finite and >= 0
    # (n_blocks,), first row of each run of rows with one query id; a new file always starts a new run
    block_starts: NDArray[np.int64]
    block_ids: NDArray[Any]  # (n_blocks,), the query ids
    place: Callable[[int], str]  # row number to ``"file:line"``, for messages
    feature_names: tuple[str, ...]
    weights: NDArray[np.float64] | None = None  # (n_rows,) or None; a query's weight is the mean of its rows'
    positions: NDArray[np.int32] | None = None  # (n_rows,)
    document_ids: NDArray[Any] | None = None  # (n_rows,)
    # name to (n_rows,) values that must be the same in all rows of a query
    attributes: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    sparse: bool = False
    notes: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    judged: NDArray[np.bool_] | None = None  # (n_rows,), or None where somebody judged every row
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # (n_rows, n_subtopics), the rows' grades by subtopic; None where nobody said them
    subtopics: NDArray[np.float64] | None = None
    # first row of each file, and the end of the last
    file_starts: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))


def assembled(rows: Rows, source: str, *, regroup: bool) -> RankingDataset:
    """The dataset that rows make. Raises DataError: scattered queries, or an attribute that differs within a query."""
    groups, order, notes = _grouped(rows, regroup)

    def ordered(values: Any) -> Any:
        return values if values is None or order is None else values[order]

    starts = groups.boundaries[:-1]
    weights = ordered(rows.weights)
    pairs = None if rows.subtopics is None else Subtopics.of_matrix(rows.subtopics, rows.labels.size)
    judgments = Judgments.checked(
        ordered(rows.labels),
        groups,
        query_weights=None if weights is None else _means(weights, starts, groups.sizes),
        document_ids=ordered(rows.document_ids),
        judged=ordered(rows.judged),
        subtopics=pairs if pairs is None or order is None else pairs.take(order),
    )
    attributes = {
        name: _per_query(
            name, ordered(values), groups, lambda row: rows.place(row if order is None else int(order[row]))
        )
        for name, values in rows.attributes.items()
    }
    return RankingDataset(
        ordered(rows.features),
        judgments,
        rows.feature_names,
        ordered(rows.positions),
        attributes,
        source,
        rows.sparse,
        rows.notes + notes,
        order,
        rows.columns,
        rows.categories,
    )


def repeated(names: Iterable[str]) -> list[str]:
    """The names that come more than once, sorted."""
    return sorted(name for name, times in Counter(names).items() if times > 1)


def query_ids(texts: NDArray[np.str_]) -> NDArray[Any]:
    """Query ids as int64 where every one is a plain integer that fits, else as the text they are.

    Shapes: `texts` (n,).

    Example:
        >>> query_ids(np.array(["10", "-2"])), query_ids(np.array(["10", "007"]))
        (array([10, -2]), array(['10', '007'], dtype='<U3'))
    """
    try:
        numbers = texts.astype(np.int64)
    except (ValueError, OverflowError):
        return texts
    # "007" and "7" are two names: only text that an integer would print as may become one.
    return numbers if np.array_equal(numbers.astype(texts.dtype), texts) else texts


def blocks_of(ids: NDArray[Any], file_starts: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Starts and ids of the runs of equal query ids in rows; no run spans two files. Shapes: `ids` (n_rows,)."""
    new = np.ones(len(ids), dtype=bool)
    new[1:] = ids[1:] != ids[:-1]
    new[list(file_starts)] = True
    starts = np.flatnonzero(new).astype(np.int64)
    return starts, ids[starts]


def limited(
    problems: Sequence[Problem], total: int | None = None, noun: str = "such row", where: str = ""
) -> list[Problem]:
    """The problems, with a last line that counts those beyond the ones listed."""
    listed = list(problems[:SHOWN])
    if total is None:
        total = sum(problem.count for problem in problems)
    left = total - sum(problem.count for problem in listed)
    if left > 0:
        listed.append(Problem("", f"and {left:,} more {plural(noun, left)}{where}", count=left))
    return listed


def _grouped(rows: Rows, regroup: bool) -> tuple[QueryGroups, NDArray[np.int64] | None, tuple[str, ...]]:
    starts, ids = rows.block_starts, rows.block_ids
    boundaries = np.append(starts, len(rows.labels)).astype(np.int64)
    _, first, which = np.unique(ids, return_index=True, return_inverse=True)
    if len(first) == len(ids):
        return QueryGroups(boundaries, ids), None, ()
    again = np.flatnonzero(first[which] != np.arange(len(ids)))
    n_scattered = len(np.unique(which[again]))
    share = f"{n_scattered:,} of {count_of(len(first), 'query')}"
    if not regroup:
        block = again[0]
        raise DataError(
            Problem(
                rows.place(int(starts[block])),
                f"query {str(ids[block])!r} is not contiguous; its first row is at "
                f"{rows.place(int(starts[first[which[block]]]))}"
                + (f" ({share} are scattered)" if n_scattered > 1 else ""),
                "all rows of a query together",
                "sort the rows by query, or set `regroup: true`",
            )
        )
    groups, order = QueryGroups.from_ids(np.repeat(ids, np.diff(boundaries)))
    note = f"{share} were scattered and have been regrouped (regroup: true)"
    return groups, order, (note,)


def _per_query(
    name: str, values: NDArray[Any], groups: QueryGroups, place: Callable[[int], str]
) -> NDArray[Any]:
    starts = groups.boundaries[:-1]
    firsts = values[starts]
    differs = values != np.repeat(firsts, groups.sizes)
    if values.dtype.kind == "f":
        differs &= ~(np.isnan(values) & np.isnan(np.repeat(firsts, groups.sizes)))
    bad = np.flatnonzero(differs)
    if bad.size:
        row = int(bad[0])
        query = groups.query_of(row)
        raise DataError(
            Problem(
                place(row),
                f"attribute {name!r} is {values[row]!s} here and {firsts[query]!s} in the first row of query "
                f"{groups.name(query)!r} ({count_of(bad.size, 'such row')})",
                "one value for all rows of a query",
                "an attribute describes the query; make it a feature if it describes the document",
            )
        )
    return firsts


def _means(
    values: NDArray[np.float64], starts: NDArray[np.int64], sizes: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Mean of each query's rows; exactly their value where all are equal, which a rounded sum would miss."""
    equal = np.minimum.reduceat(values, starts) == np.maximum.reduceat(values, starts)
    means: NDArray[np.float64] = np.where(equal, values[starts], np.add.reduceat(values, starts) / sizes)
    return means
