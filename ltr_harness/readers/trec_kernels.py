"""Bytes of TREC's lines to fields, names and numbers, compiled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ltr_harness.compiled import compiled

SKIPPED, CODED, TEXT, NUMBER, OTHER_NUMBER = range(5)
"""What becomes of a field: nothing, a name that many lines share, one of its own, a number, one in another column."""

GOES_ON, AT_HASH, AT_WRONG = range(3)
"""Why `parse` stopped: its room is used up or the data has ended, a line starts with #, or has other fields."""

_NEWLINE, _RETURN, _SPACE, _TAB = 10, 13, 32, 9
_HASH, _MINUS, _POINT, _NINE = 35, 45, 46, 57
_ZERO = np.int64(48)  # a byte less this is an int64 also where the loop is not compiled
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

    Shapes: `data` (n_bytes,), `starts, ends` (n_rows, n_fields), `lines` (n_rows,), `counts` (n_rows,).

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
def parse(
    data: NDArray[np.uint8],
    first: int,
    row: int,
    last_row: int,
    kinds: NDArray[np.int64],
    more: bool,
    hash_at: int,
    previous: NDArray[np.int64],
    columns: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.uint8], NDArray[np.int32]],
    changes: NDArray[np.int64],
    hard: NDArray[np.int64],
) -> tuple[int, int, int, int, int, int]:
    """Lines to columns, in one pass; lines end with LF, CRLF or CR, and blank ones are passed over.

    Shapes: `data` (n_bytes,), `kinds` (n_fields,), `previous` (n_fields, 2), `columns` (most_rows,),
    `changes` (n_room, 4), `hard` (n_room, 4).

    Returns:
        Why it stopped, the next row, the first byte and number of lines passed, changes, hard numbers.
    """
    numbers, others, packed, offsets = columns
    own = data[first:]  # indices from 0 save a sign check at every access
    size, n_fields = own.size, kinds.size
    at, lines, n_changes, n_hard = 0, 0, 0, 0
    while at < size and row < last_row:
        if n_changes + n_fields > len(changes) or n_hard + n_fields > len(hard):
            break
        begin, field = at, 0
        while at < size:
            byte = own[at]
            if byte <= _SPACE:
                if byte == _NEWLINE or (byte == _RETURN and (at + 1 == size or own[at + 1] != _NEWLINE)):
                    break
                if byte == _SPACE or _TAB <= byte <= _RETURN:
                    at += 1
                    continue
            if field == 0 and byte == _HASH and first + begin != hash_at:
                return AT_HASH, row, first + begin, lines, n_changes, n_hard
            start = at
            kind = kinds[field] if field < n_fields else SKIPPED
            if kind >= NUMBER:
                if byte == _MINUS:
                    at += 1
                whole, digits, places = 0, at, -1
                while at < size and _ZERO <= own[at] <= _NINE:
                    whole = 10 * whole + (own[at] - _ZERO)
                    at += 1
                digits = at - digits
                if at < size and own[at] == _POINT and digits > 0:
                    at += 1
                    places = at
                    while at < size and _ZERO <= own[at] <= _NINE:
                        whole = 10 * whole + (own[at] - _ZERO)
                        at += 1
                    places = at - places
                    digits += places
                plain = 0 < digits <= 18 and places != 0 and whole <= _EXACT
                while at < size and (
                    own[at] > _SPACE or (own[at] != _SPACE and not _TAB <= own[at] <= _RETURN)
                ):
                    plain = False
                    at += 1
                if plain:
                    value = float(whole)
                    if places > 0:
                        value /= _POWERS[places]
                    if byte == _MINUS:
                        value = -value
                    if kind == NUMBER:
                        numbers[row] = value
                    else:
                        others[row] = value
                else:
                    hard[n_hard, 0], hard[n_hard, 1] = field, row
                    hard[n_hard, 2], hard[n_hard, 3] = first + start, first + at
                    n_hard += 1
            elif kind == TEXT:
                end = offsets[row] - at
                while at < size and (
                    own[at] > _SPACE or (own[at] != _SPACE and not _TAB <= own[at] <= _RETURN)
                ):
                    packed[end + at] = own[at]
                    at += 1
                offsets[row + 1] = end + at
            else:
                while at < size and (
                    own[at] > _SPACE or (own[at] != _SPACE and not _TAB <= own[at] <= _RETURN)
                ):
                    at += 1
                if kind == CODED:
                    before = previous[field, 0]
                    same = previous[field, 1] - before == at - start
                    if same:
                        for i in range(at - start):
                            same &= data[before + i] == own[start + i]
                    if not same:
                        changes[n_changes, 0], changes[n_changes, 1] = field, row
                        changes[n_changes, 2], changes[n_changes, 3] = first + start, first + at
                        n_changes += 1
                        previous[field, 0], previous[field, 1] = first + start, first + at
            field += 1
        if field != n_fields and field > 0 and not (more and field > n_fields):
            return AT_WRONG, row, first + begin, lines, n_changes, n_hard
        at += 1
        lines += 1
        row += field > 0
    return GOES_ON, row, first + min(at, size), lines, n_changes, n_hard


@compiled
def gather(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    packed: NDArray[np.uint8],
    offsets: NDArray[np.int64],
) -> tuple[int, bool, bool]:
    """Tokens one after the other.

    Shapes: `data` (n_bytes,), `starts, ends` (n_rows,), `packed` (most_bytes,), `offsets` (n_rows + 1,).

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
def contrary_queries(
    codes: NDArray[np.int64],
    starts: NDArray[np.int64],
    scores: NDArray[np.float64],
    ranks: NDArray[np.float64],
    n_queries: int,
) -> int:
    """Queries in which a row with a lower score has a lower rank; -1 where rows do not stand by query and score.

    Shapes: `codes` (n_blocks,), `starts` (n_blocks + 1,), `scores` (n_rows,), `ranks` (n_rows,).
    """
    if codes.size > n_queries:
        return -1
    contrary = 0
    for block in range(codes.size):
        found = False
        for row in range(starts[block] + 1, starts[block + 1]):
            if not scores[row] <= scores[row - 1]:
                return -1
            found |= scores[row] < scores[row - 1] and ranks[row] < ranks[row - 1]
        contrary += found
    return contrary


@compiled
def widen(
    packed: NDArray[np.uint8], offsets: NDArray[np.int64], rows: NDArray[np.int64], texts: NDArray[np.uint32]
) -> None:
    """ASCII names as NumPy's texts.

    Shapes: `packed` (n_bytes,), `offsets` (n_names + 1,), `rows` (n,), `texts` (n, longest).
    """
    for i in range(rows.size):
        start = offsets[rows[i]]
        for at in range(start, offsets[rows[i] + 1]):
            texts[i, at - start] = packed[at]
