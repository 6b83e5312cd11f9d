"""Compiled loops over the bytes of TREC's files: lines in fields, numbers, hashes of names, joins."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness._util.compiled import compiled

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
def _in_token(byte: int) -> bool:
    """Return whether a byte is no white space."""
    return byte > _SPACE or (byte != _SPACE and not _TAB <= byte <= _RETURN)


@compiled
def split(
    data: NDArray[np.uint8],  # (n_bytes,)
    position: int,
    starts: NDArray[np.int64],  # (n_rows, n_fields)
    ends: NDArray[np.int64],  # (n_rows, n_fields)
    lines: NDArray[np.int64],  # (n_rows,)
    counts: NDArray[np.int64],  # (n_rows,)
) -> tuple[int, int, int]:
    """Find the fields of the next lines; return the rows, the beginning of the next line, and the lines passed."""
    row, line, size = 0, 0, data.size
    most, n_fields = starts.shape
    while position < size and row < most:
        line += 1
        field = 0
        while position < size:
            byte = data[position]
            if byte == _NEWLINE:
                break
            if byte == _RETURN and (position + 1 == size or data[position + 1] != _NEWLINE):
                break
            if byte == _SPACE or _TAB <= byte <= _RETURN:
                position += 1
                continue
            begin = position
            while position < size and _in_token(data[position]):
                position += 1
            if field < n_fields:
                starts[row, field] = begin
                ends[row, field] = position
            field += 1
        position += 1
        if field > 0:
            lines[row] = line
            counts[row] = field
            row += 1
    return row, position, line


@compiled
def parse(
    data: NDArray[np.uint8],  # (n_bytes,)
    first: int,
    row: int,
    last_row: int,
    kinds: NDArray[np.int64],  # (n_fields,)
    more: bool,
    hash_at: int,
    previous: NDArray[np.int64],  # (n_fields, 2)
    columns: tuple[NDArray[Any], ...],  # (most_rows,): two of numbers, packed names, where they begin
    changes: NDArray[np.int64],  # (n_room, 4)
    hard: NDArray[np.int64],  # (n_room, 4)
) -> tuple[int, int, int, int, int, int]:
    """Parse lines into columns; return why it stopped, the next row and byte, lines, changes and hard numbers."""
    numbers, other_numbers, packed, offsets = columns
    rest = data[first:]  # indices from 0 save a sign check at every access
    size, n_fields = rest.size, kinds.size
    position, lines, n_changes, n_hard = 0, 0, 0, 0
    while position < size and row < last_row:
        if n_changes + n_fields > len(changes) or n_hard + n_fields > len(hard):
            break
        begin, field = position, 0
        while position < size:
            byte = rest[position]
            if byte <= _SPACE:
                if byte == _NEWLINE or (
                    byte == _RETURN and (position + 1 == size or rest[position + 1] != _NEWLINE)
                ):
                    break
                if byte == _SPACE or _TAB <= byte <= _RETURN:
                    position += 1
                    continue
            if field == 0 and byte == _HASH and first + begin != hash_at:
                return AT_HASH, row, first + begin, lines, n_changes, n_hard
            start = position
            kind = kinds[field] if field < n_fields else SKIPPED
            if kind >= NUMBER:
                if byte == _MINUS:
                    position += 1
                mantissa, digits, places = 0, position, -1
                while position < size and _ZERO <= rest[position] <= _NINE:
                    mantissa = 10 * mantissa + (rest[position] - _ZERO)
                    position += 1
                digits = position - digits
                if position < size and rest[position] == _POINT and digits > 0:
                    position += 1
                    places = position
                    while position < size and _ZERO <= rest[position] <= _NINE:
                        mantissa = 10 * mantissa + (rest[position] - _ZERO)
                        position += 1
                    places = position - places
                    digits += places
                is_simple = 0 < digits <= 18 and places != 0 and mantissa <= _EXACT
                while position < size and _in_token(rest[position]):
                    is_simple = False
                    position += 1
                if is_simple:
                    value = float(mantissa)
                    if places > 0:
                        value /= _POWERS[places]
                    if byte == _MINUS:
                        value = -value
                    if kind == NUMBER:
                        numbers[row] = value
                    else:
                        other_numbers[row] = value
                else:
                    hard[n_hard, 0], hard[n_hard, 1] = field, row
                    hard[n_hard, 2], hard[n_hard, 3] = first + start, first + position
                    n_hard += 1
            elif kind == TEXT:
                end = offsets[row] - position
                while position < size and _in_token(rest[position]):
                    packed[end + position] = rest[position]
                    position += 1
                offsets[row + 1] = end + position
            elif kind == CODED:
                before, before_end = previous[field, 0], previous[field, 1]  # most rows repeat the name
                while position < size and before < before_end and rest[position] == data[before]:
                    position += 1
                    before += 1
                if before < before_end or (position < size and _in_token(rest[position])):
                    while position < size and _in_token(rest[position]):
                        position += 1
                    changes[n_changes, 0], changes[n_changes, 1] = field, row
                    changes[n_changes, 2], changes[n_changes, 3] = first + start, first + position
                    n_changes += 1
                    previous[field, 0], previous[field, 1] = first + start, first + position
            else:
                while position < size and _in_token(rest[position]):
                    position += 1
            field += 1
        if field != n_fields and field > 0 and not (more and field > n_fields):
            return AT_WRONG, row, first + begin, lines, n_changes, n_hard
        position += 1
        lines += 1
        row += field > 0
    return GOES_ON, row, first + min(position, size), lines, n_changes, n_hard


@compiled
def gather(
    data: NDArray[np.uint8],  # (n_bytes,)
    starts: NDArray[np.int64],  # (n_rows,)
    ends: NDArray[np.int64],  # (n_rows,)
    packed: NDArray[np.uint8],  # (most_bytes,)
    offsets: NDArray[np.int64],  # (n_rows + 1,)
) -> None:
    """Copy tokens one after the other."""
    position = offsets[0]
    for row in range(starts.size):
        for i in range(starts[row], ends[row]):
            packed[position] = data[i]
            position += 1
        offsets[row + 1] = position


@compiled
def longest(offsets: NDArray[np.int64]) -> int:
    """Return the bytes of the longest name, from where each begins (n_rows + 1,)."""
    most = 0
    for row in range(offsets.size - 1):
        most = max(most, offsets[row + 1] - offsets[row])
    return most


@compiled
def contrary_queries(
    codes: NDArray[np.int64],  # (n_blocks,)
    starts: NDArray[np.int64],  # (n_blocks + 1,)
    scores: NDArray[np.float64],  # (n_rows,)
    ranks: NDArray[np.float64],  # (n_rows,)
    n_queries: int,
) -> int:
    """Count the queries in which a row with a lower score has a lower rank; -1 unless rows are by query and score."""
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
    """Write ASCII names, packed at their offsets (n_names + 1,), of rows (n,) as NumPy's texts (n, longest)."""
    for i in range(rows.size):
        start = offsets[rows[i]]
        for position in range(start, offsets[rows[i] + 1]):
            texts[i, position - start] = packed[position]


_FACTOR, _START = np.uint64(1099511628211), np.uint64(1469598103934665603)  # FNV's
_FOUR, _EIGHT, _HALF = np.uint64(4), np.uint64(8), np.uint64(32)


@compiled
def _four(data: NDArray[np.uint8], position: np.uint64) -> np.uint64:
    """Return four bytes as one number: machine code reads them at once."""
    word = np.uint64(data[position])
    for i in range(1, 4):
        word |= np.uint64(data[position + np.uint64(i)]) << np.uint64(8 * i)
    return word


@compiled
def _hash(data: NDArray[np.uint8], start: int, end: int) -> np.int64:
    """Return FNV's hash, of eight bytes at a time, at least 0; unsigned, as signed overflow is not defined."""
    position, last = np.uint64(start), np.uint64(end)
    value = (_START ^ (last - position)) * _FACTOR  # so that no letter undoes another size
    while position + _EIGHT <= last:
        word = _four(data, position) | (_four(data, position + _FOUR) << _HALF)
        value = (value ^ word) * _FACTOR
        value ^= value >> _HALF
        position += _EIGHT
    word = np.uint64(0)
    if position + _FOUR <= last:  # the last four bytes may be partly the same
        word = _four(data, position) | (_four(data, last - _FOUR) << _HALF)
        position = last
    while position < last:
        word = (word << _EIGHT) | data[position]
        position += np.uint64(1)
    value = (value ^ word) * _FACTOR
    return np.int64((value ^ (value >> _HALF)) >> np.uint64(1))


@compiled
def _equal(
    data: NDArray[np.uint8], start: int, end: int, other_data: NDArray[np.uint8], other: int, other_end: int
) -> bool:
    if end - start != other_end - other:
        return False
    for i in range(end - start):  # noqa: SIM110, compiled code has no generators
        if data[start + i] != other_data[other + i]:
            return False
    return True


@compiled
def has_twice(
    order: NDArray[np.int64],  # (n_rows,)
    boundaries: NDArray[np.int64],  # (n_queries + 1,)
    packed: NDArray[np.uint8],  # (n_bytes,)
    offsets: NDArray[np.int64],  # (n_rows + 1,)
) -> bool:
    """Return whether a document stands twice in one query, as far as hashes tell: no is certain."""
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
    listed: tuple[NDArray[Any], ...],  # first block of a query (n_queries + 1,), blocks, their rows, scores
    counts: NDArray[np.bool_],  # (n_listed,)
    listed_names: tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]],  # (n_bytes,)
    judged: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]],  # (n_queries + 1,)
    judged_names: tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]],  # (n_bytes,)
    judged_only: bool,
    included: NDArray[np.bool_],  # (n_queries,)
    sizes: NDArray[np.int64],  # (n_queries,)
    columns: tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.bool_], NDArray[np.float64]],  # (most_rows,)
    sources: tuple[NDArray[np.int32], NDArray[np.int32]],  # (most_rows,)
) -> int:
    """Fill rows query by query, the listed ones in their order, then judged ones not listed; return their number."""
    first_block, blocks, starts, run_scores = listed
    packed, offsets, name_of_row = listed_names
    first_judged, by_query, grades = judged
    judged_packed, judged_offsets, name_of_line = judged_names
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
    is_matched = np.empty(most, dtype=np.bool_)
    n = 0
    for query in range(sizes.size):
        sizes[query] = 0
        if not included[query]:
            continue
        begin, first, size = n, first_judged[query], first_judged[query + 1] - first_judged[query]
        places = 16
        while places < 2 * size:
            places *= 2
        hashes[:places] = 0
        for i in range(size):
            line = by_query[first + i]
            name = name_of_line[line] if name_of_line.size > 0 else line
            value = _hash(judged_packed, judged_offsets[name], judged_offsets[name + 1]) | 1
            place = (value >> 8) & (places - 1)
            while hashes[place] != 0:
                place = (place + 1) & (places - 1)
            hashes[place] = value
            table[place] = i
            is_matched[i] = False
        for block in range(first_block[query], first_block[query + 1]):
            for row in range(starts[blocks[block]], starts[blocks[block] + 1]):
                if counts.size > 0 and not counts[row]:
                    continue
                name = name_of_row[row] if name_of_row.size > 0 else row
                start, end = offsets[name], offsets[name + 1]
                value = _hash(packed, start, end) | 1
                place = (value >> 8) & (places - 1)
                judgment = -1
                while hashes[place] != 0:
                    if hashes[place] == value:
                        line = by_query[first + table[place]]
                        other = name_of_line[line] if name_of_line.size > 0 else line
                        begins, ends = judged_offsets[other], judged_offsets[other + 1]
                        if _equal(judged_packed, begins, ends, packed, start, end):
                            judgment = line
                            break
                    place = (place + 1) & (places - 1)
                if judgment < 0:
                    if judged_only:
                        continue
                else:
                    if judged_only and grades[judgment] < 0:
                        continue
                    is_matched[table[place]] = True
                    labels[n] = max(grades[judgment], 0)
                    is_judged[n] = grades[judgment] >= 0
                is_listed[n] = True
                if scores.size > 0:
                    scores[n] = run_scores[row]
                if rows.size > 0:
                    rows[n] = row
                if lines.size > 0:
                    lines[n] = judgment
                n += 1
        for i in range(size):
            if not is_matched[i]:
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
