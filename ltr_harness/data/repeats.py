"""Repeated documents: rows of a query whose document an earlier row of it has."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness._util.compiled import compiled
from ltr_harness.data.arrays import read_only


def row_before(ids: NDArray[Any], boundaries: NDArray[np.int64]) -> NDArray[np.int64]:
    """The last row before it of its query with a row's id, -1 where none has it. Shapes: `ids`, result (n_rows,)."""
    texts = ids.astype(np.str_) if ids.dtype.kind == "O" else ids
    column = np.ascontiguousarray(texts)
    if column.dtype.itemsize % 4:
        column = column.astype(np.int64 if column.dtype.kind in "biu" else np.str_)
    if not column.size:
        return np.empty(0, dtype=np.int64)
    words = column.view(np.uint32).reshape(column.size, -1)
    before: NDArray[np.int64] = _rows_before(read_only(words), read_only(boundaries))
    return before


@compiled
def _rows_before(
    words: NDArray[np.uint32],  # (n_rows, n_words)
    boundaries: NDArray[np.int64],  # (n_queries + 1,)
) -> NDArray[np.int64]:
    """`row_before` of ids as words: a table of hashes for each query."""
    n_rows, n_words = words.shape
    before = np.full(n_rows, -1, dtype=np.int64)
    table = np.empty(16, dtype=np.int64)
    for query in range(boundaries.size - 1):
        places = 16
        while places < 2 * (boundaries[query + 1] - boundaries[query]):
            places *= 2
        if places > table.size:
            table = np.empty(places, dtype=np.int64)
        table[:places] = -1
        for row in range(boundaries[query], boundaries[query + 1]):
            value = 2166136261  # FNV's, of 32 bits: products fit 64
            for index in range(n_words):
                value = ((value ^ int(words[row, index])) * 16777619) & 0xFFFFFFFF
            place = (value ^ (value >> 15)) & (places - 1)
            while table[place] >= 0:
                other, same = table[place], True
                for index in range(n_words):
                    if words[row, index] != words[other, index]:
                        same = False
                        break
                if same:
                    before[row] = other
                    break
                place = (place + 1) & (places - 1)
            table[place] = row
    return before
