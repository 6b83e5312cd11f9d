"""Names found by their hashes, compiled: their numbers, documents that stand twice, and judgments beside a ranking."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness.compiled import compiled

_FACTOR, _START = np.uint64(1099511628211), np.uint64(1469598103934665603)  # FNV's
_BYTE, _HALF = np.uint64(8), np.uint64(32)


@compiled
def _hash(data: NDArray[np.uint8], start: int, end: int) -> np.int64:
    """FNV's, of seven bytes at a time, at least 0; unsigned, for a signed product that overflows is not defined."""
    own = data[start:end]
    value, whole = _START, own.size - own.size % 7
    for i in range(0, whole, 7):
        word = np.uint64(0)
        for j in range(7):
            word = (word << _BYTE) | own[i + j]
        value = (value ^ word) * _FACTOR
        value ^= value >> _HALF
    word = np.uint64(own.size)
    for i in range(whole, own.size):
        word = (word << _BYTE) | own[i]
    value = (value ^ word) * _FACTOR
    return np.int64((value ^ (value >> _HALF)) >> np.uint64(1))


@compiled
def _equal(
    data: NDArray[np.uint8], start: int, end: int, others: NDArray[np.uint8], other: int, other_end: int
) -> bool:
    if end - start != other_end - other:
        return False
    for i in range(end - start):  # noqa: SIM110, compiled code has no generators
        if data[start + i] != others[other + i]:
            return False
    return True


@compiled
def rehash(store: NDArray[np.uint8], ends: NDArray[np.int64], n: int, table: NDArray[np.int64]) -> None:
    """Fill an empty table with the names of a store.

    Shapes: `store` (n_bytes,), `ends` (most_names,), `table` (n_places,).
    """
    table[:] = -1
    mask = table.size - 1
    start = 0
    for name in range(n):
        place = _hash(store, start, ends[name]) & mask
        while table[place] >= 0:
            place = (place + 1) & mask
        table[place] = name
        start = ends[name]


@compiled
def encode(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    names: tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]],
    n_names: int,
    codes: NDArray[np.int64],
) -> int:
    """Each token's name as a number, in the order of their first appearance; returns how many names there are.

    Shapes: `data` (n_bytes,), `starts, ends` (n_rows,), `names` (n_bytes,), `codes` (n_rows,).
    """
    store, store_ends, table = names
    mask = table.size - 1
    for row in range(codes.size):
        start, size = starts[row], ends[row] - starts[row]
        place = _hash(data, start, start + size) & mask
        while table[place] >= 0:
            name = table[place]
            begin = store_ends[name - 1] if name > 0 else 0
            if _equal(data, start, start + size, store, begin, store_ends[name]):
                break
            place = (place + 1) & mask
        if table[place] < 0:
            begin = store_ends[n_names - 1] if n_names > 0 else 0
            for i in range(size):
                store[begin + i] = data[start + i]
            store_ends[n_names] = begin + size
            table[place] = n_names
            n_names += 1
        codes[row] = table[place]
    return n_names


@compiled
def has_twice(
    order: NDArray[np.int64],
    boundaries: NDArray[np.int64],
    packed: NDArray[np.uint8],
    offsets: NDArray[np.int64],
) -> bool:
    """Whether a document stands twice in one query, as far as hashes tell: no is certain.

    Shapes: `order` (n_rows,), `boundaries` (n_queries + 1,), `packed` (n_bytes,), `offsets` (n_rows + 1,).
    """
    table = np.empty(16, dtype=np.int64)
    for query in range(boundaries.size - 1):
        places = 16
        while places < 2 * (boundaries[query + 1] - boundaries[query]):
            places *= 2
        if places > table.size:
            table = np.empty(places, dtype=np.int64)
        table[:places] = 0
        for i in range(boundaries[query], boundaries[query + 1]):
            row = order[i] if order.size > 0 else i
            value = _hash(packed, offsets[row], offsets[row + 1]) | 1
            place = (value >> 8) & (places - 1)
            while table[place] != 0:
                if table[place] == value:
                    return True
                place = (place + 1) & (places - 1)
            table[place] = value
    return False


@compiled
def arrange(
    listed: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]],
    counts: NDArray[np.bool_],
    listed_names: tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]],
    judged: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]],
    judged_names: tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]],
    judged_only: bool,
    kept: NDArray[np.bool_],
    sizes: NDArray[np.int64],
    columns: tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.bool_], NDArray[np.float64]],
    sources: tuple[NDArray[np.int32], NDArray[np.int32]],
) -> int:
    """Rows query by query: what is listed, in its order, then what is judged and not listed.

    Shapes: `listed` (n_queries + 1,), `counts` (n_listed,), `listed_names` (n_bytes,), `judged` (n_queries + 1,),
    `judged_names` (n_bytes,), `kept` (n_queries,), `sizes` (n_queries,), `columns` (most_rows,),
    `sources` (most_rows,).

    Returns:
        How many rows there are.
    """
    first_block, blocks, starts, given = listed
    packed, offsets, at = listed_names
    first_judged, by_query, grades = judged
    judged_packed, judged_offsets, judged_at = judged_names
    labels, is_judged, is_listed, scores = columns
    rows, lines = sources
    most = 0
    for query in range(sizes.size):
        most = max(most, first_judged[query + 1] - first_judged[query])
    places = 16
    while places < 2 * most:
        places *= 2
    table = np.empty(places, dtype=np.int64)
    hashes = np.zeros(places, dtype=np.int64)
    taken = np.empty(most, dtype=np.bool_)
    n = 0
    for query in range(sizes.size):
        sizes[query] = 0
        if not kept[query]:
            continue
        begin, first, size = n, first_judged[query], first_judged[query + 1] - first_judged[query]
        places = 16
        while places < 2 * size:
            places *= 2
        hashes[:places] = 0
        for i in range(size):
            line = by_query[first + i]
            name = judged_at[line] if judged_at.size > 0 else line
            value = _hash(judged_packed, judged_offsets[name], judged_offsets[name + 1]) | 1
            place = (value >> 8) & (places - 1)
            while hashes[place] != 0:
                place = (place + 1) & (places - 1)
            hashes[place] = value
            table[place] = i
            taken[i] = False
        for block in range(first_block[query], first_block[query + 1]):
            for row in range(starts[blocks[block]], starts[blocks[block] + 1]):
                if counts.size > 0 and not counts[row]:
                    continue
                name = at[row] if at.size > 0 else row
                start, end = offsets[name], offsets[name + 1]
                value = _hash(packed, start, end) | 1
                place = (value >> 8) & (places - 1)
                judgment = -1
                while hashes[place] != 0:
                    if hashes[place] == value:
                        line = by_query[first + table[place]]
                        other = judged_at[line] if judged_at.size > 0 else line
                        if _equal(
                            judged_packed,
                            judged_offsets[other],
                            judged_offsets[other + 1],
                            packed,
                            start,
                            end,
                        ):
                            judgment = line
                            break
                    place = (place + 1) & (places - 1)
                if judgment < 0:
                    if judged_only:
                        continue
                else:
                    if judged_only and grades[judgment] < 0:
                        continue
                    taken[table[place]] = True
                    labels[n] = max(grades[judgment], 0)
                    is_judged[n] = grades[judgment] >= 0
                is_listed[n] = True
                if scores.size > 0:
                    scores[n] = given[row]
                if rows.size > 0:
                    rows[n] = row
                if lines.size > 0:
                    lines[n] = judgment
                n += 1
        for i in range(size):
            if not taken[i]:
                line = by_query[first + i]
                labels[n] = max(grades[line], 0)
                is_judged[n] = grades[line] >= 0
                if rows.size > 0:
                    rows[n] = -1 - line
                if lines.size > 0:
                    lines[n] = line
                n += 1
        sizes[query] = n - begin
    return n
