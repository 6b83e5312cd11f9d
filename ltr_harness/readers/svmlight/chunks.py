"""LETOR and LibSVM files cut into pieces of whole lines, surveyed and parsed on all cores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ltr_harness.cores import available_cores
from ltr_harness.errors import DataError, Problem
from ltr_harness.readers.files import release, text_bytes
from ltr_harness.readers.svmlight import kernels

CHUNK = 8 << 20
"""Bytes that one thread parses at a time; what has been parsed leaves memory."""
_MOST_THREADS = 8

LINE_ENDS = r"convert them: `tr '\r' '\n' < FILE`"

_In = TypeVar("_In")
_Out = TypeVar("_Out")


@dataclass(frozen=True, eq=False)
class Chunk:
    """Whole lines of one file, and which rows and lines they are."""

    data: NDArray[np.uint8]
    path: Path
    file: int
    n_lines: int
    n_rows: int
    smallest: int
    largest: int
    largest_line: int
    first_row: int = 0
    first_line: int = 0

    @property
    def rows(self) -> slice:
        return slice(self.first_row, self.first_row + self.n_rows)


def in_full(chunks: Sequence[Chunk]) -> list[Chunk]:
    """The same, every feature of every row looked at."""

    def survey(chunk: Chunk) -> Chunk:
        smallest, largest, largest_line = map(int, kernels.survey(chunk.data)[2:])
        release(chunk.data)
        return replace(chunk, smallest=smallest, largest=largest, largest_line=largest_line)

    return on_all_cores(survey, chunks)


def surveyed(paths: Sequence[Path]) -> list[Chunk]:
    """The files in pieces of whole lines, at least one each, with rows and lines counted.

    Of each row the first and the last feature are looked at; see `in_full`.
    """
    problems: list[Problem] = []
    pieces: list[tuple[int, NDArray[np.uint8]]] = []
    for file, path in enumerate(paths):
        try:
            pieces += [(file, piece) for piece in _cut(_with_newlines(text_bytes(path), path))]
        except DataError as problem:
            problems += problem.problems

    def survey(piece: tuple[int, NDArray[np.uint8]]) -> Chunk:
        file, data = piece
        facts = tuple(map(int, kernels.glance(data)))
        release(data)
        return Chunk(data, paths[file], file, *facts)

    chunks: list[Chunk] = []
    row = line = 0
    for chunk in on_all_cores(survey, pieces):
        if not chunks or chunks[-1].file != chunk.file:
            line = 0
        chunks.append(replace(chunk, first_row=row, first_line=line))
        row, line = row + chunk.n_rows, line + chunk.n_lines
    for file in sorted({chunk.file for chunk in chunks}):
        if not any(chunk.n_rows for chunk in chunks if chunk.file == file):
            problems.append(Problem(str(paths[file]), "has no rows, only blank lines or comments", "rows"))
    if problems:
        raise DataError(problems)
    return chunks


def _with_newlines(data: NDArray[np.uint8], path: Path) -> NDArray[np.uint8]:
    """The text; refused if its lines end with carriage returns alone."""
    first = data[:CHUNK]
    if (first == 13).any() and not (first == 10).any() and np.argmax(first == 13) < len(data) - 1:
        expected = "lines that end with LF or CRLF"
        raise DataError(Problem(str(path), "its lines end with CR alone", expected, LINE_ENDS))
    return data


def _cut(data: NDArray[np.uint8]) -> Iterator[NDArray[np.uint8]]:
    """Pieces of about `CHUNK` bytes that end with a line."""
    start = 3 if data[:3].tobytes() == b"\xef\xbb\xbf" else 0  # a byte order mark
    while True:
        end = start + CHUNK
        while end < len(data):
            newlines = np.flatnonzero(data[end : end + 65536] == 10)
            if newlines.size:
                end += int(newlines[0]) + 1
                break
            end += 65536
        yield data[start:end]
        if end >= len(data):
            return
        start = end


def on_all_cores(task: Callable[[_In], _Out], items: Sequence[_In]) -> list[_Out]:
    """Like `map`; the kernels let other threads run."""
    cores = available_cores()
    if len(items) < 2 or cores < 2:
        return [task(item) for item in items]
    with ThreadPoolExecutor(min(cores, len(items), _MOST_THREADS)) as pool:
        return list(pool.map(task, items))
