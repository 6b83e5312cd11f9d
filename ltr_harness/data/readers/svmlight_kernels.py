"""Compiled parser of LETOR and LibSVM text: ``label [qid:id] index:value index:value … # comment``.

Two passes. `survey` counts rows and looks at the first and the last feature of each, so that the matrix is allocated
once; `parse` fills it, and reports an index that does not fit: then `survey` looks at all. `parse` never guesses: what
it does not understand it reports with line and offset, and goes on with the next line.

Numbers come out bit-equal to ``float32(float(text))``, where ``float`` rounds correctly:

- at most 15 or so digits and a small power of ten: one exact integer and one exact power, so a single
  IEEE operation rounds correctly (Clinger 1990);
- otherwise the product carries a relative error below 2**-50, and if both ends of that interval round to
  the same float32, so does the true value;
- otherwise (about one value in a hundred million) the text is left to Python's ``float``.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltr_harness._util.compiled import compiled
from ltr_harness.data.arrays import LONGEST_ID

# What `parse` reports; the words are in letor.py.
(
    LABEL_NOT_A_NUMBER, LABEL_MISSING, LABEL_INFINITE, QID_MISSING, QID_EMPTY, QID_UNEXPECTED,
    ID_WITH_NUL, ID_TOO_LONG, INDEX_NOT_A_NUMBER, INDEX_NEGATIVE, INDEX_TOO_SMALL, INDEX_TOO_LARGE,
    VALUE_NOT_A_NUMBER, VALUE_INFINITE, RETURN_IN_COMMENT, WEIGHT_WRONG,
) = range(16)  # fmt: skip

BEYOND = ("error", "clip", "missing")
"""What becomes of values beyond float32."""
_BEYOND_IS_AN_ERROR, _, _BEYOND_IS_MISSING = range(3)


class ParseCounts(NamedTuple):
    """The counts of `parse`."""

    blocks: int  # runs of equal query ids
    documents: int  # rows with a document id; words, alone: with another comment, with one of a single word
    words: int
    alone: int
    problems: int  # rows with one
    repeats: int  # rows that repeat a feature
    first_repeat: int  # the line of the first of them
    weights: int  # rows with one
    beyond: int  # values beyond float32 that were put in their place


# Columns of hard numbers that are not features.
LABEL, WEIGHT, REPLACED = -1, -3, -2

_EXACT, _CLOSE, _HARD, _MISSING, _INFINITE, _BAD = range(6)

_LOWEST, _HIGHEST = -300, 280
_POWERS = np.array([float(f"1e{power}") for power in range(_LOWEST, _HIGHEST + 1)])
_BELOW, _ABOVE = 1 - 2.0**-50, 1 + 2.0**-50
_LARGEST = float(np.finfo(np.float32).max)
_WIDTH = 64  # bytes: one vector, or a few
_LONGEST_INDEX = 9  # digits; more would not fit the boosters' int32 columns

# Before `=` or `:` in a comment: what follows names the document.
_DOCUMENT_KEYS = np.array([b"docid", b"doc_id", b"docno", b"doc", b"document_id"], dtype="S12").view(np.uint8)
_DOCUMENT_KEYS = _DOCUMENT_KEYS.reshape(-1, 12)

_NEWLINE, _RETURN, _TAB, _SPACE, _HASH, _COLON = 10, 13, 9, 32, 35, 58
_PLUS, _MINUS, _POINT, _NINE, _EQUALS, _UNDERSCORE = 43, 45, 46, 57, 61, 95
_ZERO = np.int64(48)  # a byte less this is an int64 also where the loop is not compiled


@compiled
def survey(data: NDArray[np.uint8], in_full: bool) -> tuple[int, int, int, int, int]:
    """Return lines, rows, smallest and largest feature index (-1: none) and the line of the largest; `data` (n_bytes,).

    Not `in_full`, the first and the last feature of each row are looked at: enough where they ascend, in a tenth of
    the time.
    """
    n_rows = 0
    smallest, largest, largest_line = -1, -1, 0
    line, i, n = 0, 0, len(data)
    while i < n:
        line += 1
        newline = _next(data, i, n, _NEWLINE)
        end = _next(data, i, newline, _HASH)
        i = _skip_blanks(data, i)
        if i < end:
            n_rows += 1
            i = _skip_blanks(data, _token_end(data, i))
            if _starts_with_qid(data, i):
                i = _skip_blanks(data, _token_end(data, i))
            last = i if in_full else end
            while last > i and _is_blank(data[last - 1]):
                last -= 1
            while last > i and not _is_blank(data[last - 1]):
                last -= 1
            colon = _next(data, i, end, _COLON)
            while colon < end:
                index = _index_before(data, colon)
                if index > largest:
                    largest, largest_line = index, line
                if index >= 0 and (smallest < 0 or index < smallest):
                    smallest = index
                colon = _next(data, max(colon + 1, last), end, _COLON)
        i = newline + 1
    return line, n_rows, smallest, largest, largest_line


@compiled
def _index_before(data: NDArray[np.uint8], colon: int) -> int:
    """Return the feature index that ends at a colon; -1 where none does."""
    index, unit, position = 0, 1, colon - 1
    while position >= 0 and _ZERO <= data[position] <= _NINE and colon - position <= _LONGEST_INDEX:
        index += unit * (data[position] - _ZERO)
        unit *= 10
        position -= 1
    is_index = position < colon - 1 and position >= 0 and (data[position] == _SPACE or data[position] == _TAB)
    return index if is_index else -1


@compiled
def _next(data: NDArray[np.uint8], i: int, end: int, byte: int) -> int:
    """Return the place of the next such byte, `end` if there is none; many bytes are compared side by side."""
    while i + _WIDTH <= end:
        block = data[i : i + _WIDTH]
        found = np.uint8(0)
        for j in range(_WIDTH):
            found |= np.uint8(block[j] == byte)
        if found:
            break
        i += _WIDTH
    while i < end and data[i] != byte:
        i += 1
    return i


@compiled
def parse(
    data: NDArray[np.uint8],  # (n_bytes,)
    with_qid: bool,
    first_index: int,
    features: NDArray[np.float32],  # (n_rows, n_features)
    labels: NDArray[np.float64],  # (n_rows,)
    lines: NDArray[np.int64],  # (n_rows,)
    block_rows: NDArray[np.int64],  # (n_rows,)
    block_spans: NDArray[np.int64],  # (n_rows, 2)
    document_spans: NDArray[np.int64],  # (n_rows, 2)
    problems: NDArray[np.int64],  # (n_limit, 3)
    weights: NDArray[np.float64],  # (n_rows,)
    beyond: int,
) -> tuple[ParseCounts, NDArray[np.int64]]:
    """Fill the arrays from the text, and return the hard numbers, int64 (n, 5): row, column, start, end, line.

    Their column may be `LABEL`, `WEIGHT`, or `REPLACED` by a later value.
    """
    n_blocks, n_documents, n_words, n_alone = 0, 0, 0, 0
    n_problems, n_repeats, first_repeat = 0, 0, 0
    n_weights, n_beyond = 0, 0
    # variables: numba compiles a kernel again for each constant that it is called with
    n_hard, label_column, weight_column = int(np.int64(0)), int(np.int64(LABEL)), int(np.int64(WEIGHT))
    hard = np.empty((16, 5), dtype=np.int64)
    n_features = features.shape[1]
    seen = np.full(n_features, -1, dtype=np.int64)  # the last row in which a column was set
    previous_start, previous_end = 0, 0
    line, row, i, n = 0, -1, 0, len(data)
    while i < n:
        line += 1
        i = _skip_blanks(data, i)
        if i >= n:
            break
        if data[i] == _NEWLINE or data[i] == _HASH:
            lone_return = _lone_return(data, i)
            if lone_return >= 0:
                if n_problems < len(problems):
                    problems[n_problems] = line, RETURN_IN_COMMENT, lone_return + 1
                n_problems += 1
            i = _next(data, i, n, _NEWLINE) + 1
            continue
        row += 1
        lines[row] = line
        problem, place = -1, i

        end = i if with_qid else n  # a label may end at the colon before a weight
        while with_qid and end < n and data[end] != _COLON and not _ends_token(data[end]):
            end += 1
        kind, value, i = _number(data[:end], i)
        if kind == _BAD:
            problem = LABEL_NOT_A_NUMBER
        elif kind == _MISSING:
            problem = LABEL_MISSING
        elif kind == _INFINITE:
            problem = LABEL_INFINITE
        else:
            labels[row] = value + 0.0  # -0 becomes 0
            if kind != _EXACT:
                hard, n_hard = _append_hard_number(hard, n_hard, row, label_column, place, i, line)
            if i < n and data[i] == _COLON:
                start = i + 1
                kind, value, i = _number(data, start)
                if kind in (_BAD, _MISSING, _INFINITE) or value < 0:
                    problem = WEIGHT_WRONG
                else:
                    weights[row] = value
                    n_weights += 1
                    if kind != _EXACT:
                        hard, n_hard = _append_hard_number(hard, n_hard, row, weight_column, start, i, line)

        if problem < 0:
            i = _skip_blanks(data, i)
            is_qid = _starts_with_qid(data, i)
            if with_qid:
                place = i
                if not is_qid:
                    problem = QID_MISSING
                else:
                    start = i + 4
                    i = _token_end(data, start)
                    if i == start:
                        problem = QID_EMPTY
                    elif i - start > LONGEST_ID:
                        problem = ID_TOO_LONG
                    elif _has_nul(data, start, i):
                        problem = ID_WITH_NUL
                    elif n_blocks == 0 or not _same(data, previous_start, previous_end, start, i):
                        block_rows[n_blocks] = row
                        block_spans[n_blocks] = start, i
                        n_blocks += 1
                        previous_start, previous_end = start, i
            elif is_qid:
                problem, place = QID_UNEXPECTED, i

        repeated = False
        while problem < 0:
            i = _skip_blanks(data, i)
            if i >= n or data[i] == _NEWLINE:
                break
            if data[i] == _HASH:
                lone_return = _lone_return(data, i)
                if lone_return >= 0:
                    problem, place = RETURN_IN_COMMENT, lone_return + 1
                    break
                is_named, start, end = _document(data, i)
                fits = end - start <= LONGEST_ID
                has_nul = _has_nul(data, start, end)
                if is_named and not fits:
                    problem, place = ID_TOO_LONG, start
                elif is_named and has_nul:
                    problem, place = ID_WITH_NUL, start
                elif end > start and fits and not has_nul:
                    document_spans[row] = start, end
                    if is_named:
                        n_documents += 1
                    else:
                        n_words += 1
                        end = _skip_blanks(data, end)
                        n_alone += end >= n or data[end] == _NEWLINE
                break
            place = i
            index = 0
            while i < n and _ZERO <= data[i] <= _NINE and i - place < _LONGEST_INDEX:
                index = index * 10 + (data[i] - _ZERO)
                i += 1
            if i == place or i >= n or data[i] != _COLON:
                problem = _index_problem(data, place)
                break
            column = index - first_index
            if column < 0:
                problem = INDEX_TOO_SMALL
                break
            if column >= n_features:
                problem = INDEX_TOO_LARGE
                break
            start = i + 1
            kind, value, i = _number(data, start)
            single = np.float32(value)
            if kind == _CLOSE:
                if np.float32(value * _BELOW) != np.float32(value * _ABOVE):
                    kind = _HARD
                elif np.isinf(single):
                    kind = _INFINITE
            if kind == _EXACT and np.isinf(single):
                kind = _INFINITE
            if kind == _BAD:
                problem = VALUE_NOT_A_NUMBER
                break
            if kind == _INFINITE:
                if beyond == _BEYOND_IS_AN_ERROR:
                    problem = VALUE_INFINITE
                    break
                n_beyond += 1
                if beyond == _BEYOND_IS_MISSING:
                    kind = _MISSING
                single = np.float32(_LARGEST if value > 0 else -_LARGEST)
            if seen[column] == row:
                repeated = True
                earlier = n_hard - 1
                while earlier >= 0 and hard[earlier, 0] == row:
                    if hard[earlier, 1] == column:
                        hard[earlier, 1] = REPLACED
                    earlier -= 1
            seen[column] = row
            if kind == _HARD:
                hard, n_hard = _append_hard_number(hard, n_hard, row, column, start, i, line)
            features[row, column] = np.float32(np.nan) if kind == _MISSING else single

        if repeated:
            n_repeats += 1
            if n_repeats == 1:
                first_repeat = line
        if problem >= 0:
            if n_problems < len(problems):
                problems[n_problems] = line, problem, place
            n_problems += 1
        i = _next(data, i, n, _NEWLINE) + 1
    counts = ParseCounts(
        n_blocks, n_documents, n_words, n_alone, n_problems, n_repeats, first_repeat, n_weights, n_beyond
    )
    return counts, hard[:n_hard]


@compiled
def copy_spans(data: NDArray[np.uint8], spans: NDArray[np.int64], out: NDArray[np.uint8]) -> None:
    """Copy the bytes of each span (n_spans, 2) to one row of `out` (n_spans, longest), zeros on entry."""
    for k in range(len(spans)):
        start = spans[k, 0]
        for j in range(spans[k, 1] - start):
            out[k, j] = data[start + j]


@compiled
def _number(data: NDArray[np.uint8], i: int) -> tuple[int, float, int]:
    """Parse the number that starts at i: return how certain it is, its float64 value, and the offset behind it."""
    n = len(data)
    begin = i
    negative = i < n and data[i] == _MINUS
    if negative or (i < n and data[i] == _PLUS):
        i += 1
    mantissa, digits, exponent, seen = 0, 0, 0, 0
    point = False
    while i < n:
        byte = data[i]
        if _ZERO <= byte <= _NINE:
            seen += 1
            if digits < 18:
                mantissa = mantissa * 10 + (byte - _ZERO)
                if mantissa > 0:
                    digits += 1
                if point:
                    exponent -= 1
            elif not point:
                exponent += 1  # digits beyond the 18 that an int64 always holds are dropped
        elif byte == _POINT and not point:
            point = True
        else:
            break
        i += 1
    if seen == 0:
        return _word(data, begin)
    if i < n and (data[i] | 32) == 101:  # e, E
        i += 1
        sign = 1
        if i < n and (data[i] == _MINUS or data[i] == _PLUS):
            sign = -1 if data[i] == _MINUS else 1
            i += 1
        first = i
        power = 0
        while i < n and _ZERO <= data[i] <= _NINE:
            if power < 1_000_000:
                power = power * 10 + (data[i] - _ZERO)
            i += 1
        if i == first:
            return _BAD, 0.0, i
        exponent += sign * power
    if i < n and not _ends_token(data[i]):
        return _BAD, 0.0, i
    if mantissa == 0:
        return _EXACT, -0.0 if negative else 0.0, i
    value = float(mantissa)
    kind = _HARD
    # At most 2**53 implies that no digit was dropped: 18 digits make more.
    if mantissa <= 9007199254740992 and -22 <= exponent <= 22:
        kind = _EXACT
        value = value / _POWERS[-exponent - _LOWEST] if exponent < 0 else value * _POWERS[exponent - _LOWEST]
    elif _LOWEST <= exponent <= _HIGHEST:
        kind = _CLOSE
        value *= _POWERS[exponent - _LOWEST]
    return kind, -value if negative else value, i


@compiled
def _word(data: NDArray[np.uint8], i: int) -> tuple[int, float, int]:
    """Parse a number that is a word: NULL and NaN mean missing, Inf and Infinity infinite."""
    end = _token_end(data, i)
    negative = i < end and data[i] == _MINUS
    if negative or (i < end and data[i] == _PLUS):
        i += 1
    length = end - i
    if length == 3 or length == 4 or length == 8:
        a, b, c = data[i] | 32, data[i + 1] | 32, data[i + 2] | 32
        if length == 3 and a == 110 and b == 97 and c == 110:  # nan
            return _MISSING, 0.0, end
        if length == 4 and a == 110 and b == 117 and c == 108 and data[i + 3] | 32 == 108:  # null
            return _MISSING, 0.0, end
        if length != 4 and a == 105 and b == 110 and c == 102:  # inf, infinity
            return _INFINITE, -np.inf if negative else np.inf, end
    return _BAD, 0.0, end


@compiled
def _index_problem(data: NDArray[np.uint8], begin: int) -> int:
    """Return the reason why the token at `begin` is no ``index:``."""
    i, n = begin, len(data)
    if i < n and data[i] == _MINUS:
        i += 1
    first = i
    while i < n and _ZERO <= data[i] <= _NINE:
        i += 1
    if i == first or i >= n or data[i] != _COLON:
        return INDEX_NOT_A_NUMBER
    return INDEX_NEGATIVE if first > begin else INDEX_TOO_LARGE


@compiled
def _document(data: NDArray[np.uint8], i: int) -> tuple[bool, int, int]:
    """Return whether the comment at i names the document, as in ``# docid = id …``, and the span of its word."""
    start = _skip_blanks(data, i + 1)
    end = start
    while end < len(data) and (_is_letter(data[end]) or data[end] == _UNDERSCORE):
        end += 1
    sign = _skip_blanks(data, end)
    if sign < len(data) and (data[sign] == _EQUALS or data[sign] == _COLON):
        for key in _DOCUMENT_KEYS:
            if _is_key(data, start, end, key):
                start = _skip_blanks(data, sign + 1)
                return True, start, _word_end(data, start)
    return False, start, _word_end(data, start)


@compiled
def _is_key(data: NDArray[np.uint8], start: int, end: int, key: NDArray[np.uint8]) -> bool:
    """Return whether a word is the key, in letters of either case."""
    for j in range(len(key)):
        if key[j] == 0 or start + j >= end:
            return key[j] == 0 and start + j == end
        if (data[start + j] | 32 if _is_letter(data[start + j]) else data[start + j]) != key[j]:
            return False
    return start + len(key) == end


@compiled
def _lone_return(data: NDArray[np.uint8], i: int) -> int:
    """Return the place of a comment's carriage return that ends no line and hides what follows; -1 without one."""
    while i < len(data) and data[i] != _NEWLINE:
        if data[i] == _RETURN and i + 1 < len(data) and data[i + 1] != _NEWLINE and data[i + 1] != _RETURN:
            return i
        i += 1
    return -1


@compiled
def _is_letter(byte: int) -> bool:
    return 97 <= (byte | 32) <= 122


@compiled
def _word_end(data: NDArray[np.uint8], i: int) -> int:
    """Return the end of a word in a comment, which may have a #."""
    while i < len(data) and not _is_blank(data[i]) and data[i] != _NEWLINE:
        i += 1
    return i


@compiled
def _starts_with_qid(data: NDArray[np.uint8], i: int) -> bool:
    return (
        i + 4 <= len(data)
        and data[i] == 113
        and data[i + 1] == 105
        and data[i + 2] == 100
        and data[i + 3] == _COLON
    )


@compiled
def _same(data: NDArray[np.uint8], start: int, end: int, other_start: int, other_end: int) -> bool:
    if end - start != other_end - other_start:
        return False
    for j in range(end - start):  # noqa: SIM110, compiled code has no generators
        if data[start + j] != data[other_start + j]:
            return False
    return True


@compiled
def _has_nul(data: NDArray[np.uint8], start: int, end: int) -> bool:
    """Return whether there is a NUL byte: NumPy's texts lose those at their end, which would make two ids one."""
    for j in range(start, end):  # noqa: SIM110, compiled code has no generators
        if data[j] == 0:
            return True
    return False


@compiled
def _append_hard_number(
    hard: NDArray[np.int64], used: int, row: int, column: int, start: int, end: int, line: int
) -> tuple[NDArray[np.int64], int]:
    """Return the hard numbers with one more, in an array with room for it."""
    if used == len(hard):
        hard = np.concatenate((hard, np.empty_like(hard)))
    hard[used] = row, column, start, end, line
    return hard, used + 1


@compiled
def _is_blank(byte: int) -> bool:
    return byte in (_SPACE, _TAB, _RETURN)


@compiled
def _ends_token(byte: int) -> bool:
    return byte in (_SPACE, _NEWLINE, _RETURN, _TAB, _HASH)


@compiled
def _skip_blanks(data: NDArray[np.uint8], i: int) -> int:
    while i < len(data) and _is_blank(data[i]):
        i += 1
    return i


@compiled
def _token_end(data: NDArray[np.uint8], i: int) -> int:
    while i < len(data) and not _ends_token(data[i]):
        i += 1
    return i
