"""Which number has this id? Texts get numbers in the order in which they first come, batch after batch.

Arrow's own dictionaries live as long as a batch; joining batch after batch to millions of ids by rebuilding them
would cost a pass over all ids for every batch. Here a lookup costs the same however many ids are known. Ids are
compared letter by letter, never by their hash alone.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness.compiled import compiled
from ltr_harness.logs.columns import plain_column

Codes = NDArray[np.int32]
Letters = NDArray[np.uint8]
Offsets = NDArray[np.int64]
Slots = NDArray[np.uint64]

# A slot holds the upper half of a text's hash and the text's number, so that most looks touch one place in memory.
_NUMBER = np.uint64(0xFFFFFFFF)
_FREE = np.uint64(0xFFFFFFFFFFFFFFFF)


class Ids:
    """Texts and their numbers 0, 1, 2 …; missing and empty ones have the number -1.

    Example:
        >>> import pyarrow as pa
        >>> ids = Ids()
        >>> ids.add(pa.chunked_array([["b", None, "a"], ["b", ""]]), "sku").tolist()
        [0, -1, 1, 0, -1]
        >>> ids.find(pa.chunked_array([["a", "c"]]), "sku").tolist(), ids.texts()
        ([1, -1], ['b', 'a'])
    """

    def __init__(self) -> None:
        self.n = 0
        self._letters: Letters = np.empty(1 << 16, dtype=np.uint8)
        self._offsets: Offsets = np.zeros(
            1 << 11, dtype=np.int64
        )  # text i: letters[offsets[i]:offsets[i + 1]]
        self._hashes = np.empty(1 << 11, dtype=np.uint64)
        self._table: Slots = np.full(1 << 12, _FREE)

    def add(self, column: Any, name: str) -> Codes:
        """The number of every value of an Arrow column; new texts get new numbers.

        Raises:
            DataError: a column of lists, structures and the like.
        """
        return self._numbers(column, name, new=True)

    def find(self, column: Any, name: str) -> Codes:
        """The number of every value of an Arrow column; texts that were never added count as missing.

        Raises:
            DataError: a column of lists, structures and the like.
        """
        return self._numbers(column, name, new=False)

    def texts(self) -> list[str]:
        """Every text, by number."""
        letters, offsets = self._letters.tobytes(), self._offsets[: self.n + 1].tolist()
        return [letters[a:b].decode() for a, b in itertools.pairwise(offsets)]

    def _numbers(self, column: Any, name: str, *, new: bool) -> Codes:
        import pyarrow as pa

        codes = np.empty(len(column), dtype=np.int32)
        at = 0
        words, of_words = None, np.empty(0, dtype=np.int32)
        for chunk in column.chunks:
            if not pa.types.is_dictionary(chunk.type):
                chunk = plain_column(chunk, name).dictionary_encode()
            if words is None or not chunk.dictionary.equals(words):  # a file repeats it chunk after chunk
                words = chunk.dictionary
                texts = plain_column(words, name).cast(pa.large_string()).fill_null("")
                of_words = np.append(self._looked_up(texts, new), np.int32(-1))
            indices = chunk.indices.cast(pa.int64()).fill_null(len(words)).to_numpy()
            codes[at : at + len(chunk)] = of_words[indices]
            at += len(chunk)
        return codes

    def _looked_up(self, texts: Any, new: bool) -> Codes:
        _, offsets, letters = texts.buffers()
        ends = np.frombuffer(offsets, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
        data = np.frombuffer(b"" if letters is None else letters, dtype=np.uint8)
        if new:
            self._make_room(len(texts), int(ends[-1] - ends[0]))
        codes = np.empty(len(texts), dtype=np.int32)
        self.n = _look_up(
            data, ends, self._letters, self._offsets, self._hashes, self._table, self.n, new, codes
        )
        return codes

    def _make_room(self, texts: int, letters: int) -> None:
        """For so many more; each array doubles, so that growing costs a fixed share of filling."""
        n, used = self.n + texts, int(self._offsets[self.n]) + letters
        if used > self._letters.size:
            self._letters = _grown(self._letters, used)
        if n >= self._hashes.size:
            self._offsets, self._hashes = _grown(self._offsets, n + 1), _grown(self._hashes, n + 1)
        if 2 * n > self._table.size:
            self._table = np.full(1 << (4 * n - 1).bit_length(), _FREE)
            _fill(self._hashes, self._table, self.n)


def _grown(array: NDArray[Any], least: int) -> Any:
    larger = np.empty(max(least, 2 * array.size), dtype=array.dtype)
    larger[: array.size] = array
    return larger


@compiled
def _fill(hashes: NDArray[np.uint64], table: Slots, n: int) -> None:
    """Put the first `n` texts into an empty table."""
    mask = np.uint64(table.size - 1)
    for number in range(n):
        slot = hashes[number] & mask
        while table[slot] != _FREE:
            slot = (slot + np.uint64(1)) & mask
        table[slot] = (hashes[number] & ~_NUMBER) | np.uint64(number)


@compiled
def _eight(letters: Letters, at: np.uint64) -> np.uint64:
    """Eight letters as one number: machine code reads them at once."""
    word = np.uint64(letters[at])
    for i in range(1, 8):
        word |= np.uint64(letters[at + np.uint64(i)]) << np.uint64(8 * i)
    return word


@compiled
def _hash(letters: Letters, at: np.uint64, end: np.uint64) -> np.uint64:
    """FNV-1a, eight letters a step, and a finish that spreads it over all bits."""
    value = np.uint64(14695981039346656037)
    while at + np.uint64(8) <= end:
        value = (value ^ _eight(letters, at)) * np.uint64(0x9E3779B97F4A7C15)
        value ^= value >> np.uint64(32)
        at += np.uint64(8)
    while at < end:
        value = (value ^ np.uint64(letters[at])) * np.uint64(1099511628211)
        at += np.uint64(1)
    value = (value ^ (value >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    return value ^ (value >> np.uint64(29))


@compiled
def _same(one: Letters, at: np.uint64, other: Letters, there: np.uint64, length: np.uint64) -> bool:
    end = at + length
    while at + np.uint64(8) <= end:
        if _eight(one, at) != _eight(other, there):
            return False
        at += np.uint64(8)
        there += np.uint64(8)
    while at < end:
        if one[at] != other[there]:
            return False
        at += np.uint64(1)
        there += np.uint64(1)
    return True


@compiled
def _look_up(
    data: Letters,
    ends: Offsets,
    letters: Letters,
    offsets: Offsets,
    hashes: NDArray[np.uint64],
    table: Slots,
    n: int,
    new: bool,
    codes: Codes,
) -> int:
    """Fill in the numbers of texts; with `new`, number those that are not known. How many are known then."""
    mask = np.uint64(table.size - 1)
    for at in range(ends.size - 1):
        begin, end = np.uint64(ends[at]), np.uint64(ends[at + 1])
        length = end - begin
        codes[at] = -1
        if begin == end:
            continue
        hashed = _hash(data, begin, end)
        slot = hashed & mask
        while table[slot] != _FREE:
            if (table[slot] ^ hashed) <= _NUMBER:
                number = np.int64(table[slot] & _NUMBER)
                there = np.uint64(offsets[number])
                if np.uint64(offsets[number + 1]) - there == length and _same(
                    data, begin, letters, there, length
                ):
                    codes[at] = number
                    break
            slot = (slot + np.uint64(1)) & mask
        if new and codes[at] < 0:
            there = np.uint64(offsets[n])
            for i in range(length):
                letters[there + np.uint64(i)] = data[begin + np.uint64(i)]
            offsets[n + 1] = there + length
            hashes[n] = hashed
            table[slot] = (hashed & ~_NUMBER) | np.uint64(n)
            codes[at] = n
            n += 1
    return n
