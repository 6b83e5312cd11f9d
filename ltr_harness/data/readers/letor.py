"""LETOR files, also called svmlight or SVM-rank: ``2 qid:10 1:0.03 2:0.5 … #docid = GX008-86``."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ltr_harness._util.cores import available_cores
from ltr_harness._util.text import count_of
from ltr_harness.data.arrays import LONGEST_ID, Floats
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.features import BLOCK, Features, SparseFeatures
from ltr_harness.data.readers import svmlight_kernels as kernels
from ltr_harness.data.readers.reader import FileReader, ValueOptions
from ltr_harness.data.readers.rows import (
    SHOWN,
    OfRow,
    Rows,
    assembled,
    bad_rows,
    limited,
    query_ids,
    within_float32,
)
from ltr_harness.data.readers.text_files import Bound, in_words, located, release, text_bytes
from ltr_harness.errors import Caution, DataError, Problem

IGNORED = Caution(
    "ignored-comments",
    "note",
    "comments are ignored: they do not name documents, as `# docid = …` in every row would",
)


CHUNK = 8 << 20
"""Bytes that one thread parses at a time; what has been parsed leaves memory."""
_MOST_THREADS = 8

LINE_ENDS = r"convert them: `tr '\r' '\n' < FILE`"

_In = TypeVar("_In")
_Out = TypeVar("_Out")


@dataclass(frozen=True, eq=False)
class Chunk:
    """Whole lines of one file, with the numbers of their rows and lines."""

    data: NDArray[np.uint8]
    path: Path
    n_lines: int
    n_rows: int
    smallest: int
    largest: int
    largest_line: int
    first_row: int = 0
    first_line: int = 0

    @property
    def rows(self) -> slice:
        """The rows among those of all files."""
        return slice(self.first_row, self.first_row + self.n_rows)


def _survey_chunk(data: NDArray[np.uint8], *, in_full: bool) -> dict[str, Any]:
    """Return the fields of a chunk that its text determines."""
    names = ("n_lines", "n_rows", "smallest", "largest", "largest_line")
    figures = map(int, kernels.survey(data, in_full))
    release(data)
    return dict(zip(names, figures, strict=True))


def survey_files(paths: Sequence[Path]) -> list[Chunk]:
    """Cut files into pieces of whole lines, count their rows, and look at the first and last feature of each row."""
    problems: list[Problem] = []
    pieces: list[tuple[Path, NDArray[np.uint8]]] = []
    for path in paths:
        try:
            pieces += [(path, piece) for piece in _cut(path)]
        except DataError as problem:
            problems += problem.problems

    def survey(piece: tuple[Path, NDArray[np.uint8]]) -> Chunk:
        path, data = piece
        return Chunk(data, path, **_survey_chunk(data, in_full=False))

    chunks = _numbered(on_all_cores(survey, pieces))
    for path, of_file in groupby(chunks, key=lambda chunk: chunk.path):
        if not any(chunk.n_rows for chunk in of_file):
            problems.append(Problem(str(path), "has no rows, only blank lines or comments", "rows"))
    DataError.refuse(problems)
    return chunks


def _numbered(surveyed: Iterable[Chunk]) -> list[Chunk]:
    """Return consecutive chunks with the numbers of their first rows and lines."""
    chunks: list[Chunk] = []
    row = line = 0
    for chunk in surveyed:
        if not chunks or chunks[-1].path != chunk.path:
            line = 0
        chunks.append(replace(chunk, first_row=row, first_line=line))
        row, line = row + chunk.n_rows, line + chunk.n_lines
    return chunks


def _cut(path: Path) -> Iterator[NDArray[np.uint8]]:
    """Yield pieces of about `CHUNK` bytes that end with a line."""
    data = text_bytes(path)
    first = data[:CHUNK]
    if (first == 13).any() and not (first == 10).any() and np.argmax(first == 13) < len(data) - 1:
        expected = "lines that end with LF or CRLF"
        raise DataError.at(path, "its lines end with CR alone", expected, LINE_ENDS)
    start = 3 if data[:3].tobytes() == b"\xef\xbb\xbf" else 0  # a byte order mark
    yield from _pieces(data, start, CHUNK)


def _pieces(data: NDArray[np.uint8], start: int, size: int) -> Iterator[NDArray[np.uint8]]:
    """Yield pieces of about so many bytes that end with a line."""
    while True:
        end = start + size
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


def _cut_further(chunks: Sequence[Chunk], n_rows: int) -> list[Chunk]:
    """Return the chunks in pieces of about so many rows."""
    pieces: list[Chunk] = []
    for chunk in chunks:
        size = max(len(chunk.data) * n_rows // max(chunk.n_rows, 1), 1)
        pieces += [
            Chunk(data, chunk.path, **_survey_chunk(data, in_full=False))
            for data in _pieces(chunk.data, 0, size)
        ]
    return _numbered(pieces)


def on_all_cores(task: Callable[[_In], _Out], items: Sequence[_In]) -> list[_Out]:
    """Map items in threads; the kernels let other threads run."""
    cores = available_cores()
    if len(items) < 2 or cores < 2:
        return [task(item) for item in items]
    with ThreadPoolExecutor(min(cores, len(items), _MOST_THREADS)) as pool:
        return list(pool.map(task, items))


_LABEL = "a finite label, such as 0, 1, 2"

# Kernel code -> what was found ({0} is the token), what was expected, the cure.
_WORDS = {
    kernels.LABEL_NOT_A_NUMBER: ("the label is {0}", _LABEL, ""),
    kernels.LABEL_MISSING: ("the label is {0}", _LABEL, "leave out rows that are not judged"),
    kernels.LABEL_INFINITE: ("the label is {0}", _LABEL, ""),
    kernels.QID_MISSING: (
        "{0} where the query id should be", "qid:… as the second entry of the row",
        "use `reader: lightgbm` if group sizes are in a .query file, or `--qrels` if these are TREC judgments",
    ),
    kernels.QID_EMPTY: ("the query id is empty", "qid: and an id, such as qid:10", ""),
    kernels.QID_UNEXPECTED: ("{0} in a file whose queries are given by sizes", "no query id", "use `reader: letor`"),
    kernels.ID_WITH_NUL: ("the id {0} has a NUL byte", "text", "was the file cut off, or is it no text file?"),
    kernels.ID_TOO_LONG: (
        "the id {0} is too long", f"at most {LONGEST_ID:,} bytes", "is there a line break missing?",
    ),
    kernels.INDEX_NOT_A_NUMBER: ("{0} where a feature should be", "index:value, such as 3:0.5", ""),
    kernels.INDEX_NEGATIVE: ("the feature index of {0} is negative", "an index of 0 or more", ""),
    kernels.INDEX_TOO_SMALL: (
        "the feature index of {0} is 0", "an index of 1 or more", "set `first_index: 0` if features count from 0",
    ),
    kernels.INDEX_TOO_LARGE: ("the feature index of {0} is too large", "", ""),
    kernels.VALUE_NOT_A_NUMBER: (
        "the value of {0} is not a number", "a number such as 0.5 or 1e-3, or NULL for a missing value", "",
    ),
    kernels.VALUE_INFINITE: (
        "the value of {0} is infinite or beyond the range of float32", "a finite number",
        "write NULL where a value is missing, or set `beyond_float32: clip` or `missing`",
    ),
    kernels.RETURN_IN_COMMENT: (
        "{0} after a carriage return in a comment, which hides it", "lines that end with LF or CRLF", LINE_ENDS,
    ),
    kernels.WEIGHT_WRONG: ("the weight of {0} is not a number >= 0", "label:weight, such as 1:0.5", ""),
}  # fmt: skip


def problem_in(chunk: Chunk, line: int, code: int, offset: int, last: int) -> Problem:
    """Return the problem that `parse` reported of a line; `last` is the largest index allowed."""
    found, expected, cure = _WORDS[code]
    text = chunk.data[offset : offset + 200].tobytes().decode("utf-8", "backslashreplace")
    token = re.split(r"[ \t\r\n#]", text, maxsplit=1)[0]
    quoted = repr(token if len(token) <= 40 else token[:40] + "…") if token else "the end of the row"
    place = f"{chunk.path}:{chunk.first_line + line}"
    return Problem(place, found.format(quoted), expected or f"at most {last} (n_features)", cure)


class _Arrays(NamedTuple):
    """The rows of a chunk, to be filled."""

    features: NDArray[np.float32]
    labels: NDArray[np.float64]
    lines: NDArray[np.int64]
    weights: NDArray[np.float64]


class _RowColumns(NamedTuple):
    """The columns of all rows beside their features."""

    labels: NDArray[np.float64]
    lines: NDArray[np.int64]
    weights: NDArray[np.float64]


class _Parsed(NamedTuple):
    chunk: Chunk
    block_starts: NDArray[np.int64]
    block_ids: NDArray[np.str_]
    documents: NDArray[np.str_] | None
    problems: list[Problem]
    counts: kernels.ParseCounts


class _Filled(NamedTuple):
    """All rows, and the index of the first feature."""

    features: Features
    columns: _RowColumns
    parsed: list[_Parsed]
    first_index: int


def _total(parsed: Sequence[_Parsed], name: str) -> int:
    return sum(getattr(part.counts, name) for part in parsed)


class IndexOptions(ValueOptions):
    """Options of rows whose features have an index."""

    n_features: int | None = Field(
        default=None,
        ge=1,
        description="Number of features of LETOR and LibSVM files. Default: what the largest index in a split asks "
        "for. Give it when the last features are 0 throughout the training files and so never occur there.",
    )
    first_index: Literal[0, 1] | None = Field(
        default=None,
        description="Index of the first feature of LETOR and LibSVM files. Default: 0 for files that use an index 0, "
        "else 1.",
    )


def read_svmlight(paths: Sequence[Path], options: IndexOptions, *, with_qid: bool) -> Rows:
    """Parse ``label[:weight] [qid:id] index:value … [# comment]`` rows; without qid, they have no blocks."""
    chunks = survey_files(paths)
    filled = _fill_arrays_with_retry(chunks, with_qid, options)
    features, (labels, lines, weights), parsed, first = filled
    _refuse_bad_lines(parsed)
    n_rows = len(features)
    starts = {chunk.path: chunk.first_row for chunk in reversed(chunks)}  # of each file's first piece
    file_starts = np.array([*(starts[path] for path in paths), n_rows])

    def path_of(row: int) -> Path:
        return paths[int(np.searchsorted(file_starts, row, side="right")) - 1]

    def place(row: int) -> str:
        return f"{path_of(row)}:{lines[row]}"

    documents, words, ignored = _documents(parsed, n_rows)
    block_starts, block_ids = _blocks(parsed)
    n_weights = _total(parsed, "weights")
    if 0 < n_weights < n_rows:
        found = f"only {n_weights:,} of {count_of(n_rows, 'row')} have a weight"
        first_without = int(np.argmax(np.isnan(weights)))
        raise DataError.at(path_of(first_without), found, "label:weight in every row or in none")
    if options.grades is not None:
        labels = _mapped_labels(labels, options, place)
    rows = Rows(
        features=features,
        feature_names=tuple(str(first + column) for column in range(features.shape[1])),
        labels=labels,
        weights=weights if n_weights else None,
        document_ids=documents,
        block_starts=block_starts,
        block_ids=query_ids(block_ids),
        place=place,
        sparse=True,
        cautions=(*_repeats(parsed), *ignored),
        file_starts=file_starts,
    )
    rows = rows.labelled(options, _total(parsed, "beyond"))
    if words is None:
        return rows
    return _with_words(rows, words) if with_qid else rows.with_cautions(IGNORED)


def _fill_arrays_with_retry(chunks: Sequence[Chunk], with_qid: bool, options: IndexOptions) -> _Filled:
    """Fill arrays of the size that a quick look at the text finds, and again after a look at all of it where needed."""
    filled = None
    with suppress(DataError):
        filled = _fill_arrays(chunks, with_qid=with_qid, options=options)
    if filled is not None and not _total(filled.parsed, "problems"):
        return filled
    del filled  # its memory, before the next one's
    # the largest index stands within a row, or a line is bad
    examined = on_all_cores(lambda chunk: replace(chunk, **_survey_chunk(chunk.data, in_full=True)), chunks)
    return _fill_arrays(examined, with_qid=with_qid, options=options)


def _refuse_bad_lines(parsed: Sequence[_Parsed]) -> None:
    n_problems = _total(parsed, "problems")
    if not n_problems:
        return
    listed = [problem for part in parsed for problem in part.problems]
    if n_problems > SHOWN and len({(problem.expected, problem.cure) for problem in listed}) == 1:
        found = f"{listed[0].found} ({n_problems:,} such lines, this is the first)"
        raise DataError(replace(listed[0], found=found))
    raise DataError(limited(listed, n_problems, "bad line"))


def _mapped_labels(labels: Floats, options: IndexOptions, place: OfRow) -> Floats:
    """Return the grades of labels (n_rows,) by `grades`, which have to name all of them."""
    distinct, which = np.unique(labels, return_inverse=True)
    mapped = options.graded(distinct.tolist())[which]
    unknown = bad_rows(
        np.isnan(mapped), place, lambda row: f"the label is {labels[row]:g}", options.mapped_labels
    )
    DataError.refuse(unknown)
    return mapped


def _documents(
    parsed: Sequence[_Parsed], n_rows: int
) -> tuple[NDArray[np.str_] | None, NDArray[np.str_] | None, list[Caution]]:
    """Return document ids that comments name, or their first words, where every row has one; and cautions."""
    # first words count where every row has one that may be an id: it stands alone, or has a digit
    n_named = _total(parsed, "documents")
    if not n_named and not _total(parsed, "words"):
        return None, None, []
    given = [part.documents for part in parsed if part.documents is not None]
    texts = np.concatenate(given) if len(given) == len(parsed) else None
    if n_named == n_rows:
        return texts, None, []
    if n_named:
        text = f"document ids are ignored: only {n_named:,} of {count_of(n_rows, 'row')} have one"
        return None, None, [Caution("ignored-document-ids", "note", text)]
    if texts is not None:
        letters = texts.view(np.uint32).reshape(len(texts), -1)
        digits = (letters >= ord("0")) & (letters <= ord("9"))
        if _total(parsed, "alone") == n_rows or digits.any(axis=1).all():
            return None, texts, []
    return None, None, [IGNORED]


def _with_words(rows: Rows, words: NDArray[np.str_]) -> Rows:
    """Return the rows with comments' first words (n_rows,) as document ids, if no query repeats one; and a caution."""
    sizes = np.diff(np.append(rows.block_starts, len(words)))
    queries = np.repeat(np.unique(rows.block_ids, return_inverse=True)[1], sizes)
    codes = np.unique(words, return_inverse=True)[1]
    pairs = queries * (int(codes.max()) + 1) + codes
    if np.unique(pairs).size < pairs.size:
        return rows.with_cautions(IGNORED)
    text = f"document ids are the first words of the comments, such as {str(words[0])!r}"
    caution = Caution("document-ids-from-comments", "note", text)
    return replace(rows.with_cautions(caution), document_ids=words)


class _Shape(NamedTuple):
    """The size of a matrix of features, and the words for it."""

    n_rows: int
    n_features: int
    first_index: int
    n_bytes: int  # of the text
    bound: Bound
    place: str  # where the largest index stands
    found: str
    cure: str

    @classmethod
    def of(cls, chunks: Sequence[Chunk], options: IndexOptions) -> "_Shape":
        first = options.first_index
        if first is None:
            first = 0 if any(chunk.smallest == 0 for chunk in chunks) else 1
        widest, n_rows = max(chunks, key=lambda chunk: chunk.largest), sum(chunk.n_rows for chunk in chunks)
        if (fixed_n_features := options.n_features) is not None:
            n_features, reason, suspect = fixed_n_features, f"n_features is {fixed_n_features:,}", "that"
        else:
            n_features = max(0, widest.largest + 1 - first)
            reason, suspect = f"the largest feature index is {widest.largest:,}", "that index"
        place = f"{widest.path}:{widest.first_line + widest.largest_line}"
        found = f"{reason}: {count_of(n_rows, 'row')} of {count_of(n_features, 'column')} take"
        cure = f"check whether {suspect} is a typo; features with very large indices need hashing or selection first"
        n_bytes = sum(len(chunk.data) for chunk in chunks)
        bound = Bound.of_file(n_bytes, meant=fixed_n_features is not None)
        return cls(n_rows, n_features, first, n_bytes, bound, place, found, cure)

    @property
    def is_sparse(self) -> bool:
        """True where rows are kept sparse: an array of their features would take many times the text."""
        is_wide = self.row_bytes * self.n_rows > max(_LEAST_SPARSE, _SPARSE * self.n_bytes)
        of_rows = self.row_bytes * min(self.rows_at_once, self.n_rows)
        return is_wide and of_rows + _OF_COLUMN * self.n_features <= self.bound.most

    @property
    def row_bytes(self) -> int:
        """Bytes of a row in an array."""
        return 4 * self.n_features

    @property
    def rows_at_once(self) -> int:
        """Rows of which the features are an array at a time, where rows are kept sparse."""
        return max(BLOCK // max(self.row_bytes, 1), 1)

    def refuse(self) -> None:
        """Raise where an array takes too much memory, as it does with one mistyped index."""
        if not self.is_sparse:
            self.bound.refuse(self.place, self.found, self.needed, self.cure)

    @property
    def needed(self) -> int:
        """Bytes of an array of all rows; beside it, `parse` notes a row for each column."""
        return self.row_bytes * self.n_rows + 8 * self.n_features

    def zeros(self) -> NDArray[np.float32]:
        """Return an array for all rows. Raises DataError: there is not so much memory."""
        try:
            return np.zeros((self.n_rows, self.n_features), dtype=np.float32)
        except MemoryError:
            fits = "a matrix that fits in memory"
            raise DataError.at(self.place, f"{self.found} {in_words(self.needed)}", fits, self.cure) from None


_OF_COLUMN = 1000  # bytes of a column's name, and of what is noted of it from here to the report
_LEAST_SPARSE = 64 << 20  # bytes of an array, below which sparse rows save nothing worth their slower columns
_SPARSE = 8  # times the text; a value that is stored takes 8 bytes, and at least 4 in the text


def _fill_arrays(chunks: Sequence[Chunk], *, with_qid: bool, options: IndexOptions) -> _Filled:
    """Fill arrays from the text, allocated once, as large as the survey says."""
    shape = _Shape.of(chunks, options)
    shape.refuse()
    columns = _RowColumns(
        np.empty(shape.n_rows, dtype=np.float64),
        np.empty(shape.n_rows, dtype=np.int64),
        np.full(shape.n_rows if with_qid else 0, np.nan),
    )

    def parse(chunk: Chunk, features: NDArray[np.float32]) -> _Parsed:
        rows = chunk.rows
        into = _Arrays(features, columns.labels[rows], columns.lines[rows], columns.weights[rows])
        return _parse(chunk, with_qid, shape.first_index, into, options)

    def parse_sparse(chunk: Chunk) -> tuple[_Parsed, SparseFeatures]:
        features = np.zeros((chunk.n_rows, shape.n_features), dtype=np.float32)
        return parse(chunk, features), SparseFeatures.of_array(features)

    if shape.is_sparse:
        pieces = on_all_cores(parse_sparse, _cut_further(chunks, shape.rows_at_once))
        sparse = SparseFeatures.joined([features for _, features in pieces])
        return _Filled(sparse, columns, [parsed for parsed, _ in pieces], shape.first_index)
    array = shape.zeros()
    parsed = on_all_cores(lambda chunk: parse(chunk, array[chunk.rows]), chunks)
    return _Filled(array, columns, parsed, shape.first_index)


def _blocks(parsed: Sequence[_Parsed]) -> tuple[NDArray[np.int64], NDArray[np.str_]]:
    """Return the runs of equal query ids, joined again where a cut went through one."""
    starts, ids = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.str_)]
    last: tuple[Path, str] | None = None
    for part in parsed:
        if len(part.block_ids):
            continues = int(last == (part.chunk.path, str(part.block_ids[0])))
            starts.append(part.block_starts[continues:] + part.chunk.first_row)
            ids.append(part.block_ids[continues:])
            last = part.chunk.path, str(part.block_ids[-1])
    return np.concatenate(starts), np.concatenate(ids)


def _repeats(parsed: Sequence[_Parsed]) -> Iterator[Caution]:
    for path, parts in groupby(parsed, key=lambda part: part.chunk.path):
        if repeating := [part.counts for part in parts if part.counts.repeats]:
            rows = count_of(sum(counts.repeats for counts in repeating), "row")
            first_line = f"(first in line {repeating[0].first_repeat})"
            text = f"{rows} of {path.name} give a feature more than once {first_line}; the last value counts"
            yield Caution("repeated-features", "note", text)


def _round_hard_numbers(
    chunk: Chunk, hard: NDArray[np.int64], arrays: _Arrays, options: ValueOptions
) -> tuple[list[list[int]], int]:
    """Store the few numbers whose rounding Python decides; return bad lines, and how many numbers are no float32."""
    bad_lines, n_beyond = [], 0
    for row, column, start, end, line in hard.tolist():
        value = float(chunk.data[start:end].tobytes())
        code = None
        if column == kernels.LABEL:
            arrays.labels[row] = value
            if np.isinf(value):
                code = kernels.LABEL_INFINITE
        elif column == kernels.WEIGHT:
            arrays.weights[row] = value
            if np.isinf(value):
                code = kernels.WEIGHT_WRONG
        else:
            single, is_beyond = _as_float32(value, options)
            n_beyond += is_beyond
            if is_beyond and options.beyond_float32 == "error":
                code = kernels.VALUE_INFINITE
            if column >= 0:  # else a later value of the row counts, which makes this one no more right
                arrays.features[row, column] = single
        if code is not None:
            bad_lines.append([line, code, start])
    return bad_lines, n_beyond


def _parse(chunk: Chunk, with_qid: bool, first_index: int, arrays: _Arrays, options: ValueOptions) -> _Parsed:
    # np.empty costs no memory until it is written, so rows are a fair bound for runs of queries.
    block_rows = np.empty(chunk.n_rows, dtype=np.int64)
    block_spans = np.empty((chunk.n_rows, 2), dtype=np.int64)
    document_spans = np.empty((chunk.n_rows, 2), dtype=np.int64)
    bad = np.empty((SHOWN, 3), dtype=np.int64)
    outputs = (*arrays[:3], block_rows, block_spans, document_spans, bad, arrays.weights)
    beyond = kernels.BEYOND.index(options.beyond_float32)
    counts, hard = kernels.parse(chunk.data, with_qid, first_index, *outputs, beyond)
    last = first_index + arrays.features.shape[1] - 1
    bad_lines = bad[: min(counts.problems, SHOWN)].tolist()
    late_lines, n_beyond = _round_hard_numbers(chunk, hard, arrays, options)
    bad_lines += late_lines
    bad_lines.sort(key=itemgetter(0))
    arrays.lines[:] += chunk.first_line
    complete = counts.problems == 0 and chunk.n_rows in (counts.documents, counts.words)
    parsed = _Parsed(
        chunk,
        block_rows[: counts.blocks].copy(),
        _texts(chunk, block_spans[: counts.blocks]),
        _texts(chunk, document_spans) if complete else None,
        [problem_in(chunk, line, code, offset, last) for line, code, offset in bad_lines],
        counts._replace(
            problems=counts.problems + len(late_lines),
            first_repeat=chunk.first_line + counts.first_repeat,
            beyond=counts.beyond + n_beyond,
        ),
    )
    release(chunk.data)
    return parsed


def _as_float32(value: float, options: ValueOptions) -> tuple[np.float32, bool]:
    """Return a feature's value as it is stored, and whether float32 cannot hold it."""
    with np.errstate(over="ignore", under="ignore"):
        single = np.array([value], dtype=np.float32)
    n_beyond = within_float32(single, options.beyond_float32)
    return single[0], n_beyond > 0


def _texts(chunk: Chunk, spans: NDArray[np.int64]) -> NDArray[np.str_]:
    if len(spans) == 0:
        return np.empty(0, dtype=np.str_)
    longest = int((spans[:, 1] - spans[:, 0]).max())
    found = f"an id has {longest:,} bytes, so that {len(spans):,} ids take"  # all are as wide as the longest
    Bound.of_file(len(chunk.data)).refuse(str(chunk.path), found, 4 * longest * len(spans))
    letters = np.zeros((len(spans), longest), dtype=np.uint8)
    kernels.copy_spans(chunk.data, spans, letters)
    # backslashreplace keeps ids in other encodings apart, where "replace" would make them one.
    return np.char.decode(letters.view(f"S{longest}")[:, 0], "utf-8", "backslashreplace")


class Letor(IndexOptions, FileReader, ValueOptions):
    """Text rows ``label qid:id index:value … # comment``, dense or sparse, plain or compressed (gzip, zstd, bzip2, xz).

    As LETOR 3/4, MSLR-WEB10K/30K, Istella, Yahoo LTRC and ClueWeb09 publish them. Features that a row leaves
    out are 0.0; ``NULL`` and ``nan`` are missing values (NaN). Feature indices may be unsorted; of an index
    that a row repeats the last value counts, and a caution says so. Document ids come from comments ``# docid = ID`` or
    ``# docid:ID`` (also ``doc_id``, ``docno``, ``doc``) where every row has one; else from the first words of the
    comments, as in ``# 7555 Rambo``, where every row has one that stands alone or has a digit, none twice in a query.
    Rows may begin with ``label:weight``, as XGBoost's do; a query's weight is the mean of its rows'.
    """

    def read(self, files: Sequence[str], root: Path) -> RankingDataset:
        rows = read_svmlight(located(files, root), self, with_qid=True)
        return assembled(rows, ", ".join(files), regroup=self.regroup)
