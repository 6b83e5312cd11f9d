"""Texts and their numbers, from bytes: without Arrow, which takes a tenth of a second to load."""

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness._util.compiled import compiled

CategoryCodes = NDArray[np.int32]
TextBytes = NDArray[np.uint8]
Offsets = NDArray[np.int64]
Slots = NDArray[np.uint64]

# A slot holds the upper half of a text's hash and the text's number, so that most looks touch one place in memory.
_NUMBER = np.uint64(0xFFFFFFFF)
_FREE = np.uint64(0xFFFFFFFFFFFFFFFF)


class TextNumbers:
    """Texts and their numbers 0, 1, 2 …, in the order in which they first come; missing and empty ones have -1.

    Arrow's own dictionaries live as long as a batch; joining batch after batch to millions of ids by rebuilding
    them would cost a pass over all ids for every batch. Here a lookup costs the same however many ids are known.
    Ids are compared letter by letter, never by their hash alone.
    """

    def __init__(self) -> None:
        self.n = 0
        self._letters: TextBytes = np.empty(1 << 16, dtype=np.uint8)
        # text i: letters[offsets[i]:offsets[i + 1]]
        self._offsets: Offsets = np.zeros(1 << 11, dtype=np.int64)
        self._hashes = np.empty(1 << 11, dtype=np.uint64)
        self._table: Slots = np.full(1 << 12, _FREE)

    def texts(self) -> list[str]:
        """Every text, by number."""
        return [value.decode() for value in self.values()]

    def values(self) -> list[bytes]:
        """Every text's letters, by number."""
        offsets = self._offsets[: self.n + 1].tolist()
        letters = self._letters[: offsets[-1]].tobytes()
        return [letters[start:end] for start, end in itertools.pairwise(offsets)]

    def numbered(self, data: TextBytes, starts: Offsets, ends: Offsets, *, new: bool = True) -> CategoryCodes:
        """Return the number of every text, given in some bytes from its start (n,) to its end (n,)."""
        if new:
            # room for so many more; each array doubles, so that growing costs a fixed share of filling
            n, used = self.n + starts.size, int(self._offsets[self.n] + (ends - starts).sum())
            if used > self._letters.size:
                self._letters = _grown(self._letters, used)
            if n >= self._hashes.size:
                self._offsets, self._hashes = _grown(self._offsets, n + 1), _grown(self._hashes, n + 1)
            if 2 * n > self._table.size:
                self._table = np.full(1 << (4 * n - 1).bit_length(), _FREE)
                _fill(self._hashes, self._table, self.n)
        codes = np.empty(starts.size, dtype=np.int32)
        lookup_table = (self._letters, self._offsets, self._hashes, self._table)
        self.n = _look_up(data, starts, ends, lookup_table, self.n, new, codes)
        return codes


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
def _eight(letters: TextBytes, position: np.uint64) -> np.uint64:
    """Eight letters as one number: machine code reads them at once."""
    word = np.uint64(letters[position])
    for i in range(1, 8):
        word |= np.uint64(letters[position + np.uint64(i)]) << np.uint64(8 * i)
    return word


@compiled
def _hash(letters: TextBytes, position: np.uint64, end: np.uint64) -> np.uint64:
    """FNV-1a, eight letters a step, and a finish that spreads it over all bits."""
    value = np.uint64(14695981039346656037)
    while position + np.uint64(8) <= end:
        value = (value ^ _eight(letters, position)) * np.uint64(0x9E3779B97F4A7C15)
        value ^= value >> np.uint64(32)
        position += np.uint64(8)
    while position < end:
        value = (value ^ np.uint64(letters[position])) * np.uint64(1099511628211)
        position += np.uint64(1)
    value = (value ^ (value >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    return value ^ (value >> np.uint64(29))


@compiled
def hash_each(data: TextBytes, ends: Offsets, hashes: NDArray[np.uint64]) -> None:
    for number in range(hashes.size):
        hashes[number] = _hash(data, np.uint64(ends[number]), np.uint64(ends[number + 1]))


@compiled
def _same(
    letters: TextBytes,
    position: np.uint64,
    other_letters: TextBytes,
    other_position: np.uint64,
    length: np.uint64,
) -> bool:
    end = position + length
    while position + np.uint64(8) <= end:
        if _eight(letters, position) != _eight(other_letters, other_position):
            return False
        position += np.uint64(8)
        other_position += np.uint64(8)
    while position < end:
        if letters[position] != other_letters[other_position]:
            return False
        position += np.uint64(1)
        other_position += np.uint64(1)
    return True


@compiled
def _look_up(
    data: TextBytes,
    starts: Offsets,
    ends: Offsets,
    lookup_table: tuple[TextBytes, Offsets, NDArray[np.uint64], Slots],
    n: int,
    new: bool,
    codes: CategoryCodes,
) -> int:
    """Fill in the numbers of texts, with `new` those of new texts too; return the number of texts then stored."""
    letters, offsets, hashes, table = lookup_table
    mask = np.uint64(table.size - 1)
    for index in range(starts.size):
        begin, end = np.uint64(starts[index]), np.uint64(ends[index])
        length = end - begin
        codes[index] = -1
        if begin == end:
            continue
        hashed = _hash(data, begin, end)
        slot = hashed & mask
        while table[slot] != _FREE:
            if (table[slot] ^ hashed) <= _NUMBER:
                number = np.int64(table[slot] & _NUMBER)
                offset = np.uint64(offsets[number])
                as_long = np.uint64(offsets[number + 1]) - offset == length
                if as_long and _same(data, begin, letters, offset, length):
                    codes[index] = number
                    break
            slot = (slot + np.uint64(1)) & mask
        if new and codes[index] < 0:
            offset = np.uint64(offsets[n])
            for i in range(length):
                letters[offset + np.uint64(i)] = data[begin + np.uint64(i)]
            offsets[n + 1] = offset + length
            hashes[n] = hashed
            table[slot] = (hashed & ~_NUMBER) | np.uint64(n)
            codes[index] = n
            n += 1
    return n
