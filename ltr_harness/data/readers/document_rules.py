"""Documents before a ranking is joined: chunks count as their documents, and some documents do not count."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ltr_harness._util.text import count_of, plural, shortened
from ltr_harness.data.arrays import Bools, Ints
from ltr_harness.data.readers.id_lists import documents_and_values, is_list_of_ids
from ltr_harness.data.readers.text_files import located, text_bytes
from ltr_harness.data.readers.trec import Qrels, TrecRun, line_before
from ltr_harness.data.readers.trec_lines import NameColumn
from ltr_harness.errors import Caution, DataError, UsageError

Within = Literal["documents", "chunks"]
Excluded = Mapping[str, frozenset[str]]
"""Query to the documents that count neither in its ranking nor in its judgments."""


@dataclass(frozen=True)
class DocumentRules:
    """Rules for the ids of rankings and judgments before they are joined.

    Attributes:
        documents_of: a text such as "#", what stands before whose last occurrence is a chunk's document; or chunk to
            document, as a mapping or a file of two columns. None where rankings list documents.
        within: a metric's K counts "documents", whose later chunks take no rank, or "chunks", whose later ones take a
            rank and earn nothing.
        exclude: query to documents that do not count, as a mapping, pairs, or a file ``query document``.
        ignore_query_itself: a document whose id is the query's does not count.
    """

    documents_of: Any = None
    within: Within = "documents"
    exclude: Any = None
    ignore_query_itself: bool = False

    def __post_init__(self) -> None:
        if self.within not in ("documents", "chunks"):
            raise UsageError(f"within is {self.within!r}; expected 'documents' or 'chunks'")
        if self.within == "chunks" and self.documents_of is None:
            raise UsageError("within='chunks' without documents_of; expected what a chunk's document is")

    @property
    def folds_chunks(self) -> bool:
        """True where a document may stand several times in a ranking."""
        return self.documents_of is not None

    @property
    def excludes_documents(self) -> bool:
        """True where a document may count nowhere."""
        return self.ignore_query_itself or bool(self._excluded)

    @cached_property
    def text(self) -> str:
        """The rules in words, equal where they are; "" where every listed document counts as itself."""
        texts = []
        if self.folds_chunks:
            chunks = repr(self._documents)
            if not isinstance(self._documents, str):
                chunks = f"a table of {count_of(len(self._documents), 'chunk')} ({_digest(self._documents)})"
            texts.append(f"documents of chunks by {chunks}, K counts {self.within}")
        if self._excluded:
            n = sum(map(len, self._excluded.values()))
            documents = {query: sorted(names) for query, names in self._excluded.items()}
            texts.append(f"without {count_of(n, 'excluded document')} ({_digest(documents)})")
        if self.ignore_query_itself:
            texts.append("without the query itself")
        return "; ".join(texts)

    def judgments(self, qrels: Qrels) -> Qrels:
        """Return judgments without the excluded documents, with a note that counts them."""
        if not self.excludes_documents:
            return qrels
        excluded = self._is_excluded(qrels.queries, _texts(qrels))
        if not excluded.any():
            return qrels
        n, rows = int(np.count_nonzero(excluded)), np.flatnonzero(~excluded)
        if not rows.size:
            raise DataError.at(qrels.path, "all judged documents are excluded", "at least one that counts")
        text = f"{count_of(n, 'judgment')} of excluded documents {plural('is', n)} left out"
        left, codes = np.unique(qrels.queries.codes[rows], return_inverse=True)
        n_lost = qrels.n_queries - left.size
        if n_lost:
            text += f", and with them {count_of(n_lost, 'query')} that {plural('has', n_lost)} no other"
        return replace(
            qrels,
            queries=NameColumn.by_row(qrels.queries.values[left], codes),
            documents=_rows_of(qrels.documents, rows),
            grades=qrels.grades[rows],
            subtopics=None if qrels.subtopics is None else qrels.subtopics.take(rows),
            place=None
            if qrels.place is None
            else lambda row: str(qrels.place and qrels.place(int(rows[row]))),
            cautions=(*qrels.cautions, Caution("excluded-documents", "note", text, place=str(qrels.path))),
        )

    def prepare(self, qrels: Qrels, run: TrecRun) -> tuple[Qrels, TrecRun]:
        """Return the ranking as its documents count, with notes, and the judgments beside it.

        `qrels` are what `judgments` returns. Where K counts chunks, later chunks of judged documents have the grade 0.
        """
        if not (self.folds_chunks or self.excludes_documents):
            return qrels, run
        n_listed, listed = run.scores.size, np.unique(run.queries.codes)
        run = self._without_excluded(run)
        n_excluded = n_listed - run.scores.size
        if self.folds_chunks:
            chunks = _texts(run)
            run = replace(run, documents=_column(self._documents_of_chunks(chunks, run)))
            counts = ~self._is_excluded(run.queries, _texts(run))
            n_excluded += int(np.count_nonzero(~counts))
            qrels, run = self._fold(qrels, _keep(run, counts), chunks[counts])
        if n_excluded:
            if not run.scores.size:
                raise DataError.at(run.path, "all listed documents are excluded", "at least one that counts")
            text = f"{count_of(n_excluded, 'excluded document')} {plural('was', n_excluded)} taken out of its lists"
            n_emptied = listed.size - np.unique(run.queries.codes).size
            if n_emptied:
                text += (
                    f"; {n_emptied:,} {plural('is', n_emptied)} empty now, with the value of an empty ranking"
                )
            run = _with_caution(run, "excluded-documents", text)
        return qrels, run

    def _without_excluded(self, run: TrecRun) -> TrecRun:
        if not self.excludes_documents:
            return run
        excluded = self._is_excluded(run.queries, _texts(run))
        return _keep(run, ~excluded) if excluded.any() else run

    def _fold(self, qrels: Qrels, run: TrecRun, chunks: NDArray[np.str_]) -> tuple[Qrels, TrecRun]:
        """Fold the chunks (n_rows,) of a ranking, whose documents are the run's."""
        query_codes, document_codes = run.queries.codes, run.documents.codes
        # the best chunk of each document comes first; of equal ones, any
        order = np.lexsort((-run.scores, document_codes, query_codes))
        starts = np.ones(order.size, dtype=bool)
        starts[1:] = (np.diff(query_codes[order]) != 0) | (np.diff(document_codes[order]) != 0)
        is_first = np.zeros(order.size, dtype=bool)
        is_first[order[starts]] = True
        later = np.flatnonzero(~is_first)
        counted = (
            f"{count_of(order.size, 'chunk')} of {count_of(int(np.count_nonzero(is_first)), 'document')}"
        )
        if self.within == "documents":
            text = f"{counted}: each document has the rank of its first chunk, and later chunks have none"
            return qrels, _with_caution(_keep(run, is_first), "chunks", text)
        documents = _texts(run)
        names = [f"{chunk} (later chunk {number})" for number, chunk in enumerate(chunks[later].tolist(), 1)]
        column = documents.tolist()
        for row, name in zip(later.tolist(), names, strict=True):
            column[row] = name
        text = f"{counted}: K counts chunks, of which later ones of a document earn nothing"
        folded = _with_caution(replace(run, documents=_column(np.array(column))), "chunks", text)
        return _with_later_chunks(
            qrels, run.queries.values[query_codes[later]], documents[later], names
        ), folded

    def _documents_of_chunks(self, chunks: NDArray[np.str_], run: TrecRun) -> NDArray[np.str_]:
        """Return each chunk's document, (n,)."""
        distinct, codes = np.unique(chunks, return_inverse=True)
        if isinstance(self._documents, str):
            separator = self._documents
            documents = [chunk.rpartition(separator)[0] or chunk for chunk in distinct.tolist()]
            if documents == distinct.tolist() and (line_before(run.queries, run.documents) < 0).all():
                found = f"no id of {run.path} has {separator!r}, such as {shortened(distinct, 2)}"
                raise UsageError.at(
                    "documents_of", found, "what stands between a document and its chunk, or a file"
                )
            return np.array(documents, dtype=np.str_)[codes]
        unknown = [chunk for chunk in distinct.tolist() if chunk not in self._documents]
        if unknown:
            found = f"{count_of(len(unknown), 'id')} of {run.path} {plural('has', len(unknown))} no document"
            raise DataError.at(
                "documents_of",
                f"{found}: {shortened(unknown, 3)}",
                "every id of the ranking",
                "map whole documents to themselves",
            )
        return np.array([self._documents[chunk] for chunk in distinct.tolist()], dtype=np.str_)[codes]

    @cached_property
    def _documents(self) -> str | Mapping[str, str]:
        """A separator, or chunk to document."""
        value = self.documents_of
        if value is None:
            return ""
        if isinstance(value, Mapping):
            return {str(chunk): str(document) for chunk, document in value.items()}
        if isinstance(value, Path) or (isinstance(value, str) and Path(value).is_file()):
            return _read_documents(Path(value))
        if isinstance(value, str) and value:
            return value
        expected = "a separator such as '#', a mapping from chunk to document, or a file of both"
        raise UsageError.at("documents_of", f"is {value!r}", expected)

    @cached_property
    def _excluded(self) -> Excluded:
        value, pairs = self.exclude, []
        if value is None:
            return {}
        if isinstance(value, str | Path):
            (path,) = located([str(value)], Path())
            pairs = list(_pairs_of_file(path, "query document"))
        elif isinstance(value, Mapping):
            for query, documents in value.items():
                cells = documents_and_values(documents, f"exclude[{query!r}]", "qrels")
                pairs += [(str(query), str(document)) for document, _ in cells]
        elif isinstance(value, Iterable):
            for number, row in enumerate(value, 1):
                if not (isinstance(row, tuple) and len(row) == 2 and is_list_of_ids(row)):
                    raise DataError.at(f"exclude: row {number}", f"is {str(row)[:60]!r}", "(query, document)")
                pairs.append((str(row[0]), str(row[1])))
        else:
            raise UsageError.at(
                "exclude", f"is a {type(value).__name__}", "{query: {document}}, pairs or a file"
            )
        excluded: dict[str, set[str]] = {}
        for query, document in pairs:
            excluded.setdefault(query, set()).add(document)
        return {query: frozenset(documents) for query, documents in excluded.items()}

    def _is_excluded(self, column: NameColumn, documents: NDArray[np.str_]) -> Bools:
        """Return which rows (n_rows,) of these queries and documents do not count."""
        codes = column.codes
        excluded = np.zeros(codes.size, dtype=bool)
        if self.ignore_query_itself:
            excluded |= column.values[codes] == documents
        if not self._excluded:
            return excluded
        order = np.argsort(codes, kind="stable")
        bounds = np.searchsorted(codes[order], np.arange(column.values.size + 1))
        for code, query in enumerate(column.values.tolist()):
            if query in self._excluded:
                rows = order[bounds[code] : bounds[code + 1]]
                excluded[rows] |= np.isin(documents[rows], list(self._excluded[query]))
        return excluded


def _digest(table: Mapping[str, Any]) -> str:
    return sha256(repr(sorted(table.items())).encode("utf-8", "surrogatepass")).hexdigest()[:8]


def _read_documents(path: Path) -> dict[str, str]:
    """Return chunk to document, of a file. Raises DataError: a chunk is of two documents."""
    document_of: dict[str, str] = {}
    for chunk, document in _pairs_of_file(path, "chunk document"):
        if document_of.setdefault(chunk, document) != document:
            found = f"chunk {chunk!r} is of {document_of[chunk]!r} and of {document!r}"
            raise DataError.at(path, found, "one document for each chunk")
    return document_of


def _pairs_of_file(path: Path, fields: str) -> Iterable[tuple[str, str]]:
    """Yield the two texts of each line of a file."""
    text = text_bytes(path).tobytes().decode("utf-8", "backslashreplace")
    for number, line in enumerate(text.splitlines(), 1):
        cells = line.split("\t") if "\t" in line else line.split()
        if not line.strip():
            continue
        if len(cells) != 2:
            raise DataError.at(f"{path}:{number}", f"has {count_of(len(cells), 'field')}", f"two: `{fields}`")
        yield cells[0].strip(), cells[1].strip()


def _with_later_chunks(
    qrels: Qrels, queries: NDArray[np.str_], documents: NDArray[np.str_], names: Sequence[str]
) -> Qrels:
    """Return judgments with the grade 0 for the later chunks, by their names, of judged documents (n_later,)."""
    code_of = {query: code for code, query in enumerate(qrels.queries.values.tolist())}
    is_judged = qrels.grades >= 0
    judged = set(zip(qrels.queries.codes[is_judged].tolist(), _texts(qrels)[is_judged].tolist(), strict=True))
    codes = [code_of.get(query, -1) for query in queries.tolist()]
    pairs = zip(codes, documents.tolist(), strict=True)
    added = [row for row, pair in enumerate(pairs) if pair in judged]
    if not added:
        return qrels
    all_codes = np.concatenate([qrels.queries.codes, np.array(codes)[added]])
    all_names = np.array([*_texts(qrels).tolist(), *(names[row] for row in added)])
    n = qrels.grades.size
    lines = np.concatenate([np.arange(n), np.full(len(added), -1)])
    return replace(
        qrels,
        queries=NameColumn.by_row(qrels.queries.values, all_codes),
        documents=_column(all_names),
        grades=np.concatenate([qrels.grades, np.zeros(len(added), qrels.grades.dtype)]),
        subtopics=None if qrels.subtopics is None else qrels.subtopics.take(lines),
        place=None,
    )


def _texts(table: Qrels | TrecRun) -> NDArray[np.str_]:
    """Return the document of each row, (n_rows,)."""
    n_rows = table.grades.size if isinstance(table, Qrels) else table.scores.size
    return table.documents.values_at(np.arange(n_rows))


def _column(texts: NDArray[np.str_]) -> NameColumn:
    names, codes = np.unique(texts, return_inverse=True)
    return NameColumn.by_row(names, codes)


def _keep(run: TrecRun, counts: Bools) -> TrecRun:
    rows = np.flatnonzero(counts)
    return replace(
        run,
        queries=_rows_of(run.queries, rows),
        documents=_rows_of(run.documents, rows),
        scores=run.scores[rows],
    )


def _rows_of(column: Any, rows: Ints) -> NameColumn:
    """Return some rows of a column; names that no row is left of stay, as queries of empty lists do."""
    return NameColumn.by_row(column.values, column.codes[rows])


def _with_caution(run: TrecRun, kind: str, text: str) -> TrecRun:
    return replace(run, cautions=(*run.cautions, Caution(kind, "note", text, place=str(run.path))))
