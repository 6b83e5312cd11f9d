"""Query sets cut into parts by facts of the queries, such as their market or their number of rows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

PARTS = 4
"""Numbers with more distinct values than this are cut into as many parts of about equally many queries."""

LARGEST = 8
"""Categories shown by name; the rest of them is one part."""

TRAFFIC = ("query_weight", "frequency", "query_frequency", "traffic", "impressions", "searches")
"""Attributes that say how often a query is asked: cut into head and tail."""


@dataclass(frozen=True, eq=False)
class QuerySlice:
    """Some of the queries, chosen by a fact that no model has changed."""

    attribute: str  # the fact, such as rows
    label: str  # its values here, such as "21 to 80"
    queries: NDArray[np.bool_]  # (n_queries,)


def query_slices(attributes: Mapping[str, NDArray[Any]]) -> list[QuerySlice]:
    """The query set cut along each attribute, (n_queries,) values each; what all share or few do cuts nothing."""
    parts = []
    for name, values in attributes.items():
        cut = [(label, queries) for label, queries in _cut(name, np.asarray(values)) if queries.any()]
        if len(cut) > 1:
            parts += [QuerySlice(name, label, queries) for label, queries in cut]
    return parts


def _cut(name: str, values: NDArray[Any]) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    if values.dtype.kind not in "iuf":  # truth values are categories
        yield from _categories(values)
        return
    numbers = values.astype(np.float64)
    missing = np.isnan(numbers)
    if name.removeprefix("data.").lower() in TRAFFIC and np.nansum(numbers) > 0:
        # Head: the most frequent queries that together make half of the traffic.
        traffic = np.where(missing, 0.0, numbers)
        distinct, inverse = np.unique(traffic, return_inverse=True)
        by_value = np.bincount(inverse, traffic)[::-1]
        place = int(np.searchsorted(np.cumsum(by_value), 0.5 * traffic.sum()))
        edge = distinct[::-1][place]
        head = traffic >= edge
        yield f"head, from {edge:g}: half of the traffic", head & ~missing
        yield f"tail, below {edge:g}", ~head & ~missing
    else:
        distinct, counts = np.unique(numbers[~missing], return_counts=True)
        ends = set(range(distinct.size))
        if distinct.size > PARTS:
            # Equal values stay together: a part ends with the value that fills its share of the queries.
            filled = np.cumsum(counts) / counts.sum()
            ends = {*np.searchsorted(filled, np.arange(1, PARTS) / PARTS).tolist(), distinct.size - 1}
        first = 0
        for end in sorted(ends):
            low, high = distinct[first], distinct[end]
            name = f"{low:g}" if low == high else f"{low:g} to {high:g}"
            yield name, (numbers >= low) & (numbers <= high)
            first = end + 1
    if missing.any():
        yield "missing", missing


def _category(value: object) -> str:
    if value is None or value != value:
        return "missing"
    return str(value)


def _categories(values: NDArray[Any]) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    texts = np.array(
        list(map(_category, values.tolist())), dtype=object
    )  # one long text would make all as wide
    names, counts = np.unique(texts, return_counts=True)
    if names.size > max(LARGEST + 1, values.size / 2):
        return
    by_size = names[np.lexsort((names, -counts))]
    named = by_size
    if named.size > LARGEST + 1:
        named = named[:LARGEST]
    for name in named.tolist():
        yield name, texts == name
    rest = ~np.isin(texts, named)
    if rest.any():
        yield f"{by_size.size - named.size} others", rest
