"""Bytes of TREC's lines to fields, names and numbers, compiled; a block of lines at a time, which stays in cache."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ltr_harness.compiled import compiled

_NEWLINE, _RETURN, _SPACE, _TAB = 10, 13, 32, 9
_MINUS, _POINT, _ZERO, _NINE = 45, 46, 48, 57
_FACTOR, _START = 1099511628211, 1469598103934665603  # FNV's
_EXACT = 2**53
_POWERS = np.array([float(10**power) for power in range(23)])  # all of them exact


@compiled
def split(
    data: NDArray[np.uint8],
    at: int,
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    lines: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> tuple[int, int, int]:
    """Where the fields of the next lines stand; lines end with LF, CRLF or CR.

    Args:
        data: uint8 (n_bytes,).
        at: the first byte of a line.
        starts, ends: int64 (n_rows, n_fields), filled.
        lines: int64 (n_rows,), filled with the number of each row's line, from 1 for the line at `at`.
        counts: int64 (n_rows,), filled with each row's number of fields, further ones included.

    Returns:
        Rows found, which are the lines that are not blank; where the next line begins; lines passed.
    """
    row, line, size = 0, 0, data.size
    most, wanted = starts.shape
    while at < size and row < most:
        line += 1
        field = 0
        while at < size:
            byte = data[at]
            if byte == _NEWLINE:
                break
            if byte == _RETURN and (at + 1 == size or data[at + 1] != _NEWLINE):
                break
            if byte == _SPACE or _TAB <= byte <= _RETURN:
                at += 1
                continue
            begin = at
            while at < size and (
                data[at] > _SPACE or (data[at] != _SPACE and not _TAB <= data[at] <= _RETURN)
            ):
                at += 1
            if field < wanted:
                starts[row, field] = begin
                ends[row, field] = at
            field += 1
        at += 1
        if field > 0:
            lines[row] = line
            counts[row] = field
            row += 1
    return row, at, line


@compiled
def _hash(data: NDArray[np.uint8], start: int, end: int) -> int:
    value = _START
    for i in range(start, end):
        value = (value ^ data[i]) * _FACTOR
    return value ^ (value >> 32)


@compiled
def _equal(a: NDArray[np.uint8], at: int, b: NDArray[np.uint8], other: int, size: int) -> bool:
    for i in range(size):  # noqa: SIM110
        if a[at + i] != b[other + i]:
            return False
    return True


@compiled
def rehash(store: NDArray[np.uint8], ends: NDArray[np.int64], n: int, table: NDArray[np.int64]) -> None:
    """Fill an empty table with the names of a store.

    Args:
        store: uint8 (n_bytes,), one name after the other, with room behind them.
        ends: int64 (most_names,), where each of the `n` names ends.
        n: names.
        table: int64 (n_places,), a power of two; filled; -1 is a free place.
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
    codes: NDArray[np.int32],
) -> int:
    """Each token's name as a number, in the order of their first appearance; returns how many names there are.

    Args:
        data: uint8 (n_bytes,).
        starts, ends: int64 (n_rows,), of the tokens.
        names: store (n_bytes,), ends (most_names,) and table (n_places,) as `rehash` has them, with room for as many
            more as there are tokens.
        n_names: there so far.
        codes: int32 (n_rows,), filled.
    """
    store, store_ends, table = names
    mask = table.size - 1
    for row in range(codes.size):
        start, size = starts[row], ends[row] - starts[row]
        if (
            row > 0
            and size == ends[row - 1] - starts[row - 1]
            and _equal(data, start, data, starts[row - 1], size)
        ):
            codes[row] = codes[row - 1]
            continue
        place = _hash(data, start, start + size) & mask
        while table[place] >= 0:
            name = table[place]
            begin = store_ends[name - 1] if name > 0 else 0
            if store_ends[name] - begin == size and _equal(data, start, store, begin, size):
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
def gather(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    packed: NDArray[np.uint8],
    offsets: NDArray[np.int64],
) -> tuple[int, bool, bool]:
    """Tokens one after the other.

    Args:
        data: uint8 (n_bytes,).
        starts, ends: int64 (n_rows,), of the tokens.
        packed: uint8 (most_bytes,), filled from `offsets[0]` on.
        offsets: int64 (n_rows + 1,), of which the first is given and the others are filled.

    Returns:
        The longest token's bytes, whether one has a NUL byte, and whether all are ASCII.
    """
    longest, with_nul, ascii_only = 0, False, True
    at = offsets[0]
    for row in range(starts.size):
        longest = max(longest, ends[row] - starts[row])
        for i in range(starts[row], ends[row]):
            packed[at] = data[i]
            with_nul |= data[i] == 0
            ascii_only &= data[i] < 128
            at += 1
        offsets[row + 1] = at
    return longest, with_nul, ascii_only


@compiled
def plain_numbers(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    values: NDArray[np.float64],
    hard: NDArray[np.int64],
) -> int:
    """Tokens such as ``-12.5`` whose value one operation rounds correctly; the rows of all others, and how many.

    Args:
        data: uint8 (n_bytes,).
        starts, ends: int64 (n_rows,), of the tokens.
        values: float64 (n_rows,), filled.
        hard: int64 (n_rows,), filled with the rows of the others.
    """
    n_hard = 0
    for row in range(starts.size):
        i, end = starts[row], ends[row]
        negative = i < end and data[i] == _MINUS
        if negative:
            i += 1
        whole, digits, places = 0, 0, -1
        first = i
        while i < end:
            byte = data[i]
            if _ZERO <= byte <= _NINE and digits < 18:
                whole = 10 * whole + (byte - _ZERO)
                digits += 1
                if places >= 0:
                    places += 1
            elif byte == _POINT and places < 0 and i > first:
                places = 0
            else:
                break
            i += 1
        if i < end or digits == 0 or places == 0 or whole > _EXACT:
            hard[n_hard] = row
            n_hard += 1
            continue
        value = float(whole)
        if places > 0:
            value /= _POWERS[places]
        values[row] = -value if negative else value
    return n_hard


@compiled
def has_twice(
    order: NDArray[np.int64],
    boundaries: NDArray[np.int64],
    packed: NDArray[np.uint8],
    offsets: NDArray[np.int64],
) -> bool:
    """Whether a document stands twice in one query.

    Args:
        order: int64 (n_rows,), rows query by query; empty where they stand so.
        boundaries: int64 (n_queries + 1,), of the queries in it.
        packed: uint8 (n_bytes,), the rows' documents, as `gather` has them.
        offsets: int64 (n_rows + 1,).
    """
    table = np.empty(16, dtype=np.int64)
    hashes = np.empty(16, dtype=np.int64)
    for query in range(boundaries.size - 1):
        size = boundaries[query + 1] - boundaries[query]
        wanted = 16
        while wanted < 2 * size:
            wanted *= 2
        if wanted > table.size:
            table = np.empty(wanted, dtype=np.int64)
            hashes = np.empty(wanted, dtype=np.int64)
        table[:wanted] = -1
        mask = wanted - 1
        for i in range(boundaries[query], boundaries[query + 1]):
            row = order[i] if order.size > 0 else i
            start, end = offsets[row], offsets[row + 1]
            value = _hash(packed, start, end)
            place = value & mask
            while table[place] >= 0:
                other = table[place]
                if (
                    hashes[place] == value
                    and offsets[other + 1] - offsets[other] == end - start
                    and _equal(packed, start, packed, offsets[other], end - start)
                ):
                    return True
                place = (place + 1) & mask
            table[place] = row
            hashes[place] = value
    return False


@compiled
def judged_lines(
    codes: NDArray[np.int64],
    judged: tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]],
    query: NDArray[np.int32],
    listed: tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]],
    lines: NDArray[np.int32],
) -> None:
    """The judgment of each listed document for its query.

    Args:
        codes: int64 (n_judged,), queries of the judgments.
        judged: their documents: packed (n_bytes,), offsets (n_names + 1,) and (n_judged,) which name; the last is
            empty where each has its own.
        query: int32 (n_rows,), the query of each listed document, in the same numbers; -1 for none of them.
        listed: their documents: packed (n_bytes,), offsets (n_names + 1,) and (n_rows,) which name, likewise.
        lines: int32 (n_rows,), filled; -1 where there is no judgment.
    """
    packed, offsets, at = judged
    places = 16
    while places < 2 * codes.size:
        places *= 2
    table = np.full(places, -1, dtype=np.int64)
    hashes = np.empty(places, dtype=np.int64)
    for line in range(codes.size):
        name = at[line] if at.size > 0 else line
        value = _hash(packed, offsets[name], offsets[name + 1]) ^ (codes[line] * _FACTOR)
        place = value & (places - 1)
        while table[place] >= 0:
            place = (place + 1) & (places - 1)
        table[place] = line
        hashes[place] = value
    packed_listed, offsets_listed, at_listed = listed
    for row in range(query.size):
        lines[row] = -1
        if query[row] < 0:
            continue
        name = at_listed[row] if at_listed.size > 0 else row
        start, end = offsets_listed[name], offsets_listed[name + 1]
        value = _hash(packed_listed, start, end) ^ (query[row] * _FACTOR)
        place = value & (places - 1)
        while table[place] >= 0:
            line = table[place]
            if hashes[place] == value and codes[line] == query[row]:
                other = at[line] if at.size > 0 else line
                if offsets[other + 1] - offsets[other] == end - start and _equal(
                    packed, offsets[other], packed_listed, start, end - start
                ):
                    lines[row] = line
                    break
            place = (place + 1) & (places - 1)


@compiled
def arrange(
    listed: tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.bool_], NDArray[np.float64]],
    judged: tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.float64]],
    starts: NDArray[np.int64],
    rows: NDArray[np.int32],
    grades: NDArray[np.float64],
    scores: NDArray[np.float64],
) -> None:
    """Rows query by query: what is listed, in its order, then what is judged and not listed.

    Args:
        listed: (n_listed,) each: a document's query, its judgment or -1, whether it counts, its score.
        judged: (n_judged,) each: a judgment's query, whether it counts although not listed, its grade.
        starts: int64 (n_queries,), where each query begins; used up.
        rows: (n_rows,), filled: a listed document's number, or -1 - that of a judgment.
        grades: float64 (n_rows,), filled; -1 where there is no judgment.
        scores: float64 (n_rows,), filled; 0 where a document is not listed.
    """
    query, line, is_listed, given = listed
    codes, is_unlisted, graded = judged
    for row in range(query.size):
        if is_listed[row]:
            at = starts[query[row]]
            starts[query[row]] += 1
            rows[at] = row
            grades[at] = graded[line[row]] if line[row] >= 0 else -1.0
            scores[at] = given[row]
    for number in range(codes.size):
        if is_unlisted[number]:
            at = starts[codes[number]]
            starts[codes[number]] += 1
            rows[at] = -1 - number
            grades[at] = graded[number]
            scores[at] = 0.0


@compiled
def contrary_queries(
    codes: NDArray[np.int64], scores: NDArray[np.float64], ranks: NDArray[np.float64], n_queries: int
) -> int:
    """Queries in which a row with a lower score has a lower rank; -1 where rows do not stand by query and score.

    Args:
        codes: int64 (n_rows,), of the queries.
        scores: float64 (n_rows,).
        ranks: float64 (n_rows,).
        n_queries: different codes.
    """
    seen = np.zeros(n_queries, dtype=np.bool_)
    contrary = 0
    counted = False
    for row in range(codes.size):
        if row == 0 or codes[row] != codes[row - 1]:
            if seen[codes[row]]:
                return -1
            seen[codes[row]] = True
            counted = False
            continue
        if not scores[row] <= scores[row - 1]:
            return -1
        if scores[row] < scores[row - 1] and ranks[row] < ranks[row - 1] and not counted:
            counted = True
            contrary += 1
    return contrary


@compiled
def widen(
    packed: NDArray[np.uint8], offsets: NDArray[np.int64], rows: NDArray[np.int64], texts: NDArray[np.uint32]
) -> None:
    """ASCII names as NumPy's texts.

    Args:
        packed: uint8 (n_bytes,), names, as `gather` has them.
        offsets: int64 (n_names + 1,).
        rows: int64 (n,), which of them.
        texts: uint32 (n, longest), of zeros, filled.
    """
    for i in range(rows.size):
        start = offsets[rows[i]]
        for at in range(start, offsets[rows[i] + 1]):
            texts[i, at - start] = packed[at]
