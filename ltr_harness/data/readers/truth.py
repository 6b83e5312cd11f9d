"""Judgments beside the rows, matched by query and document id as text: a judged document that is no row was missed."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ltr_harness._util.text import count_of, plural, shortened
from ltr_harness.data.arrays import Bools, Floats
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.judgments import Judgments, MissedDocuments, OneLabel, RawJudgments, Subtopics
from ltr_harness.data.queries import QueryGroups
from ltr_harness.data.readers.catboost import CatBoostPool
from ltr_harness.data.readers.column_names import column_for
from ltr_harness.data.readers.judgment_formats import opened_table, qrels_of
from ltr_harness.data.readers.judgment_objects import table_in_memory
from ltr_harness.data.readers.parquet import Parquet
from ltr_harness.data.readers.reader import Reader, ValueOptions
from ltr_harness.data.readers.rows import OfRow, RowProblems, limited, per_query, query_ids
from ltr_harness.data.readers.table_columns import OpenedTable, Roles, TableColumns, joined
from ltr_harness.data.readers.table_reader import TableReader
from ltr_harness.data.readers.trec import Qrels
from ltr_harness.data.readers.trec_lines import NameColumn
from ltr_harness.data.readers.unchecked_rows import columns_of
from ltr_harness.errors import Caution, DataError, Problem

NoCandidates = Literal["zero", "skip"]
_FIRST = 3  # places that messages name
_COLUMNS = ("queries", "documents", "labels", "judged")  # of every `Truth`


@dataclass(frozen=True, eq=False)
class JudgmentTable:
    """Judgments of documents, one a row."""

    source: str
    queries: NDArray[np.str_]  # (n,), ids as text
    documents: NDArray[np.str_]  # (n,), ids as text
    labels: NDArray[np.float64]  # (n,), 0 where nobody judged
    judged: NDArray[np.bool_]  # (n,)
    place: OfRow
    subtopics: Subtopics | None = None  # of the rows
    by_column: bool = False  # whether columns number the subtopics, as in the rows of a table
    # (n,) values each: what the rows say of their query, and its weight as ``None``
    attributes: Mapping[str | None, NDArray[Any]] = field(default_factory=dict)
    cautions: tuple[Caution, ...] = ()
    # int64 and float64 (n_judgments,): the row and the grade of each judgment, where rows are made of several
    several: tuple[NDArray[np.int64], NDArray[np.float64]] | None = None

    def take(self, rows: NDArray[np.int64]) -> "JudgmentTable":
        """Return some rows (n,), without their subtopics."""
        columns: dict[str, Any] = {name: getattr(self, name)[rows] for name in _COLUMNS}
        attributes = {name: values[rows] for name, values in self.attributes.items()}
        columns |= {"attributes": attributes, "cautions": self.cautions}
        return JudgmentTable(self.source, place=lambda row: self.place(int(rows[row])), **columns)


def read_judgments(
    files: Sequence[str],
    root: Path,
    reader: Reader | None = None,
    columns: Mapping[str, str] | None = None,
    label_rule: OneLabel | None = None,
) -> JudgmentTable:
    """Return the judgments of files: qrels, or tables, whose columns are named by `columns` or else by the reader."""
    parts, columns = [], columns or {}
    names = [name for names in _configured_columns(reader, columns).values() for name in names]
    for path in judgment_files(files, root):
        if opened := opened_table(path, names):
            parts.append(_of_table(opened[0], reader, columns))
        else:
            parts.append(_of_qrels(qrels_of(path, allow_repeats=label_rule is not None)))
    return _merge_repeats(_concatenate(parts, ", ".join(files)), label_rule)


def qrels_by_rule(value: Any, label_rule: OneLabel | None, source: str = "qrels") -> Qrels:
    """Return judgments in any form of `evaluate_runs`; several of a document become one by the rule."""
    qrels = qrels_of(value, source, allow_repeats=label_rule is not None)
    truth = _merge_repeats(_of_qrels(qrels), label_rule) if label_rule is not None else None
    if truth is None or truth.several is None:
        return qrels
    (queries,), query_names = _encode_ids(truth.queries)
    (documents,), document_names = _encode_ids(truth.documents)
    return replace(
        qrels,
        queries=NameColumn.by_row(query_names, queries),
        documents=NameColumn.by_row(document_names, documents),
        grades=np.where(truth.judged, truth.labels, -1.0),
        place=truth.place,
        cautions=truth.cautions,
    )


def judgment_files(files: Sequence[str], root: Path) -> list[Path]:
    """Return the paths of the files; a folder stands for the Parquet files in it."""
    return Parquet().paths(files, root)


def judgments_of(
    value: Any, reader: Reader | None = None, label_rule: OneLabel | None = None
) -> JudgmentTable:
    """Return judgments of memory or a file: a frame, ``{query: {document: grade}}``, or a form of `evaluate_runs`."""
    if isinstance(value, str | Path):
        return read_judgments([str(value)], Path(), reader, label_rule=label_rule)
    table = table_in_memory(value, "judgments")
    if table is not None:
        return _merge_repeats(_of_table(table, reader, {}), label_rule)
    return _merge_repeats(
        _of_qrels(qrels_of(value, "judgments", allow_repeats=label_rule is not None)), label_rule
    )


def reader_of_rows(reader: Reader, files: Sequence[str], root: Path) -> tuple[Reader, bool]:
    """Return the reader of rows that have judgments beside them, and whether the rows have labels of their own."""
    if not isinstance(reader, TableReader) or isinstance(reader, CatBoostPool):
        return reader, True
    labelled = has_labels(reader, [reader.opened(path) for path in reader.paths(files, root)])
    if not labelled:
        reader = reader.without_labels()
    return reader, labelled


def has_labels(reader: TableReader, tables: Sequence[OpenedTable]) -> bool:
    """Return whether rows have labels, or a column that may be one and must not become a feature."""
    if reader.relevance is not None or any(reader.label in table.columns for table in tables):
        return True
    return reader.features is None and any(column_for("label", table.columns) for table in tables)


def with_judgments(
    dataset: RankingDataset,
    truth: JudgmentTable,
    *,
    labelled: bool = True,
    no_candidates: NoCandidates = "zero",
    queries_of_other_splits: NDArray[np.str_] | None = None,
) -> RankingDataset:
    """Return the dataset with its missed documents, and, where its rows have no labels, with the judgments' labels.

    `queries_of_other_splits` are the queries of the other splits, as text: with them, judged queries of no split are
    left out.
    """
    judgments, groups = dataset.judgments, dataset.groups
    document_ids = _ids_to_match(dataset)
    added = queries_of_other_splits is None and no_candidates == "zero"
    match = _Join(dataset, truth, as_text(document_ids), added=added)
    labels, judged = judgments.labels, judgments.judged
    cautions = [*dataset.cautions, *truth.cautions, *match.cautions(no_candidates, queries_of_other_splits)]
    if labelled:
        _refuse_contradictions(match)
    else:
        labels, judged = match.labels()
        cautions.append(match.labels_caution())
    subtopics = match.subtopics()
    documents = truth.documents[match.missed]
    sizes = np.pad(groups.sizes, (0, match.ids.size - groups.n_queries))
    return replace(
        dataset,
        judgments=Judgments(
            labels,
            QueryGroups.from_counts(sizes, match.ids),
            match.weights(judgments.query_weights),
            document_ids,
            None if judged is None or judged.all() else judged,
            subtopics,
            MissedDocuments(
                match.number[match.missed],
                truth.labels[match.missed],
                query_ids(documents) if document_ids.dtype.kind in "iu" else documents,
                None if truth.subtopics is None else truth.subtopics.take(match.missed),
            ),
        ),
        query_attributes={name: match.attribute(name) for name in dataset.query_attributes},
        cautions=tuple(cautions),
        raw_judgments=match.raw_judgments,
    )


def _ids_to_match(dataset: RankingDataset) -> NDArray[Any]:
    """Return the documents (n_rows,) of rows; raise where they have none, or know already what was missed."""
    if dataset.judgments.missed is not None:
        found = "`retrieved` and judgments both say what was missed"
        raise DataError.at(dataset.source, found, "one of them")
    if dataset.judgments.document_ids is None:
        found = "its rows have no document ids, by which judgments find them"
        raise DataError.at(dataset.source, found, cure="name the column with `document_id:`")
    return dataset.judgments.document_ids


def with_candidates(dataset: RankingDataset) -> RankingDataset:
    """Return the dataset without the queries that have no row, and with a caution that counts them."""
    has_candidates = dataset.groups.has_rows
    if has_candidates.all():
        return dataset
    n = int(np.count_nonzero(~has_candidates))
    text = f"{count_of(n, 'query')} without candidates {plural('is', n)} left out (no_candidates: skip)"
    candidates = dataset.take(np.flatnonzero(has_candidates))
    return replace(
        candidates, cautions=(*candidates.cautions, Caution("queries-without-candidates", "note", text))
    )


class _Join:
    """The join of rows and judgments: each row's judgment, and judgments without a row.

    Judged queries without rows become queries of the dataset if `added`.
    """

    def __init__(
        self, dataset: RankingDataset, truth: JudgmentTable, documents: NDArray[np.str_], *, added: bool
    ) -> None:
        import pandas as pd  # most rankings are read without it

        groups = dataset.groups
        (row_queries, judged_queries), names = _encode_ids(groups.ids, truth.queries)
        (row_documents, judged_documents), document_names = _encode_ids(documents, truth.documents)
        unmatched = np.setdiff1d(judged_queries[truth.judged], row_queries)
        ids, new_queries = groups.ids, unmatched[:0]
        if added and unmatched.size:
            new_ids = query_ids(names[unmatched])
            if ids.dtype.kind not in "iu" or new_ids.dtype.kind == "U":  # integers where both are
                ids, new_ids = as_text(ids), names[unmatched]
            order = np.argsort(new_ids)
            ids, new_queries = np.concatenate((ids, new_ids[order])), unmatched[order]
        n_queries, n_documents = row_queries.size, document_names.size
        number_of_code = np.full(names.size, -1)
        number_of_code[row_queries] = np.arange(n_queries)
        number_of_code[new_queries] = n_queries + np.arange(new_queries.size)
        number = number_of_code[judged_queries]
        used = np.flatnonzero(number >= 0)
        judged_pairs = pd.Index(number[used] * n_documents + judged_documents[used])  # each once
        row_pairs = pd.Index(np.repeat(np.arange(n_queries), groups.sizes) * n_documents + row_documents)
        judgment_of_row = judged_pairs.get_indexer(row_pairs)
        rows = np.flatnonzero(judgment_of_row >= 0)
        if not rows.size:
            first_row = f"query {groups.name(0)!r}, document {str(documents[0])!r}"
            found = f"{truth.source} judges none of its rows, the first of which is {first_row}"
            first_judgment = f"query {str(truth.queries[0])!r}, document {str(truth.documents[0])!r}"
            expected = f"the same ids in both; it begins with {first_judgment}"
            cure = "name the split that they are of, as in `judgments: {test: …}`"
            raise DataError.at(dataset.source, found, expected, cure)
        lines = used[judgment_of_row[rows]]
        is_missed = truth.judged & (number >= 0)
        is_missed[lines] = False
        missed = np.flatnonzero(is_missed)
        missed = missed[np.lexsort((truth.documents[missed], number[missed]))]
        self.dataset, self.truth, self.documents = dataset, truth, documents
        self.ids = ids  # (n_queries,), of the dataset's queries and those that are added to them
        self.number = number  # (n,), of each judgment's query; -1 where it is left out
        # (n_matched,), those that are judged, and their judgments
        self.rows, self.lines = rows, lines
        self.missed = missed  # (n_missed,), judgments of other documents, by query
        self.unmatched_queries = names[unmatched]  # queries that are judged and have no row

    def _by_query(self, judgments: NDArray[np.int64], first_query: int = 0) -> NDArray[np.int64]:
        """Return the places of those of some judgments (n,) that are of queries from this number on, query by query."""
        used = np.flatnonzero(self.number[judgments] >= first_query)
        return used[np.argsort(self.number[judgments[used]], kind="stable")]

    @property
    def raw_judgments(self) -> RawJudgments | None:
        """The judgments that labels were made of, those of the dataset's queries, query by query."""
        if self.truth.several is None:
            return None
        row, grades = self.truth.several
        used = self._by_query(row)
        return RawJudgments(self.number[row[used]], self._pool_places()[row[used]], grades[used])

    def _pool_places(self) -> NDArray[np.int64]:
        """(n,): each judgment's row among the candidates and then the missed documents of its query; 0 if left out."""
        groups, places = self.dataset.groups, np.zeros(self.number.size, dtype=np.int64)
        places[self.lines] = self.rows - groups.boundaries[self.number[self.lines]]
        sizes = np.pad(groups.sizes, (0, self.ids.size - groups.n_queries))
        queries = self.number[self.missed]  # ascending
        n_before = np.arange(queries.size) - np.searchsorted(queries, queries)
        places[self.missed] = sizes[queries] + n_before
        return places

    def cautions(
        self, no_candidates: NoCandidates, queries_of_other_splits: NDArray[np.str_] | None
    ) -> list[Caution]:
        """Return how much was missed, and which judged queries have no row."""
        text = f"every judged document is a candidate: nothing was missed ({self.truth.source})"
        if n := self.missed.size:
            n_queries = np.unique(self.number[self.missed]).size
            count = f"{count_of(n, 'judged document')} of {count_of(n_queries, 'query')}"
            text = f"{count} {plural('was', n)} missed ({self.truth.source})"
        cautions = [Caution("missed-documents", "note", text)]
        unmatched = self.unmatched_queries
        if queries_of_other_splits is not None:
            unmatched = np.setdiff1d(unmatched, queries_of_other_splits)
        if n := unmatched.size:
            fate = "the value 0" if no_candidates == "zero" else f"{plural('is', n)} left out"
            kind = "queries-without-candidates"
            outcome = f"{plural('has', n)} no candidate and {fate} (no_candidates: {no_candidates})"
            if queries_of_other_splits is not None:
                kind = "queries-without-split"
                cure = "`judgments: {train: …, test: …}` says whose they are"
                examples = shortened(unmatched, 3)
                outcome = f"{plural('is', n)} of no split and counted nowhere, such as {examples}: {cure}"
            share = n / np.unique(self.truth.queries[self.truth.judged]).size
            cautions.append(Caution(kind, "note", f"{n:,} of the judged queries ({share:.1%}) {outcome}"))
        return cautions

    def labels(self) -> tuple[Floats, Bools]:
        """Return the judgments' labels of rows (n_rows,), 0 where there is none, and which rows are judged."""
        n_rows = self.dataset.n_rows
        labels, judged = np.zeros(n_rows), np.ones(n_rows, dtype=bool)
        labels[self.rows], judged[self.rows] = self.truth.labels[self.lines], self.truth.judged[self.lines]
        return labels, judged

    def labels_caution(self) -> Caution:
        """Return the caution that labels are those of the judgments, with the rows that have none."""
        text = "labels are those of the judgments"
        n_rows = self.dataset.n_rows
        n = n_rows - self.rows.size
        if n:
            share = f"{n:,} of {count_of(n_rows, 'candidate')} ({n / n_rows:.1%})"
            text += f"; {share} {plural('is', n)} not in them and {plural('has', n)} label 0"
        return Caution("labels-of-judgments", "note", text)

    def subtopics(self) -> Subtopics | None:
        """Return the rows' grades by subtopic: those of the rows themselves, else those of the judgments."""
        row_grades = self.dataset.judgments.subtopics
        if row_grades is not None and not self.truth.by_column:
            found = f"the rows have columns of subtopics, and {self.truth.source} has not"
            raise DataError.at(self.dataset.source, found, "the columns of `subtopics` in the judgments too")
        if row_grades is not None or self.truth.subtopics is None:
            return row_grades
        line = np.full(self.dataset.n_rows, -1)
        line[self.rows] = self.lines
        return self.truth.subtopics.take(line)

    def _values_of_added(self, name: str | None) -> NDArray[Any] | None:
        """Return the values (n_added,) of an attribute, or of the weight (None), for added queries; None without it."""
        if name not in self.truth.attributes:
            return None
        values = self.truth.attributes[name]
        first_added = self.dataset.n_queries
        rows = self._by_query(np.arange(self.number.size), first_added)
        groups = QueryGroups.from_sizes(np.bincount(self.number[rows] - first_added), self.ids[first_added:])
        label = "weight" if name is None else name
        return per_query(label, values[rows], groups, lambda row: self.truth.place(int(rows[row])))

    def attribute(self, name: str) -> NDArray[Any]:
        """Return an attribute (n_queries,), whose values for added queries come from the judgments or are missing."""
        values = self.dataset.query_attributes[name]
        n = self.ids.size - values.size
        if not n:
            return values
        added = self._values_of_added(name)
        is_number = values.dtype.kind in "iuf"
        if added is None:
            added = np.full(n, np.nan if is_number else "")
        if is_number and added.dtype.kind in "iuf":
            return np.concatenate((values, added))
        if values.dtype.kind == "b":  # as in tables with empty cells
            values = np.where(values, "true", "false")
        return np.concatenate((as_text(values), as_text(added)))

    def weights(self, values: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
        """Return the weights (n_queries,), those of added queries from the judgments."""
        if values is None or self.ids.size == values.size:
            return values
        added = self._values_of_added(None)
        if added is None:
            n = count_of(self.ids.size - values.size, "judged query")
            found = f"queries have weights, but {n} without candidates have none"
            cure = "or leave them out with `no_candidates: skip`"
            raise DataError.at(self.dataset.source, found, "the column of `weight` in the judgments", cure)
        return np.concatenate((values, added))


def _refuse_contradictions(match: _Join) -> None:
    """Raise if rows have other labels than the judgments of their documents."""
    dataset, truth, rows = match.dataset, match.truth, match.rows
    row_labels, judged = dataset.labels[rows], np.ones(rows.size, dtype=bool)
    if dataset.judgments.judged is not None:
        judged = dataset.judgments.judged[rows]
    judged_labels, counted = truth.labels[match.lines], truth.judged[match.lines]
    bad = np.flatnonzero((row_labels != judged_labels) | (counted & ~judged))
    problems: list[Problem] = []
    for index in bad[:_FIRST].tolist():
        judgment = f"label {judged_labels[index]:g}" if counted[index] else "not judged"
        row_label = f"label {row_labels[index]:g}" if judged[index] else "not judged"
        row, query = int(rows[index]), dataset.groups.name(dataset.groups.query_of(int(rows[index])))
        document = f"document {str(match.documents[row])!r} of query {query!r}"
        found = f"{document}: {judgment} here, {row_label} in {dataset.source}"
        cure = "" if problems else "leave the column of labels out of the rows, if the judgments are right"
        place = truth.place(int(match.lines[index]))
        problems.append(Problem(place, found, "one label for each document of a query", cure))
    DataError.refuse(limited(problems, bad.size, "such document"))


def _encode_ids(*columns: NDArray[Any]) -> tuple[list[NDArray[np.int64]], NDArray[np.str_]]:
    """Return codes for the ids of several columns (n,), in the order of their first appearance, and the texts."""
    # as columns of a table, because pyarrow until 20 makes no large texts of NumPy's
    large = (pa.table({"id": as_text(each)})["id"].cast(pa.large_string()) for each in columns)
    texts = pa.chunked_array([chunk for each in large for chunk in each.chunks], pa.large_string())
    encoded = texts.combine_chunks().dictionary_encode()
    codes = encoded.indices.to_numpy().astype(np.int64)
    names = np.asarray(encoded.dictionary.to_numpy(zero_copy_only=False), dtype=np.str_)
    return np.split(codes, list(accumulate(map(len, columns)))[:-1]), names


def as_text(ids: NDArray[Any]) -> NDArray[np.str_]:
    """Return ids (n,) as text."""
    if ids.dtype.kind in "iuU":
        return ids.astype(np.str_)
    return np.array([str(value) for value in ids.tolist()], dtype=np.str_)


def _configured_columns(reader: Reader | None, columns: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the columns that the configuration or the reader names, by their role."""
    columns_of_role: dict[str, tuple[str, ...]] = {}
    if isinstance(reader, TableReader):
        columns_of_role = {"query": reader.query_columns, "label": (reader.label,)}
        if reader.document_id is not None:
            columns_of_role["document_id"] = (reader.document_id,)
    return {**columns_of_role, **{role: (name,) for role, name in columns.items()}}


def _of_table(table: OpenedTable, reader: Reader | None, columns: Mapping[str, str]) -> JudgmentTable:
    """Return the judgments of a table by the reader's rules for labels, with its attributes, weights and subtopics."""
    options = reader if isinstance(reader, ValueOptions) else ValueOptions()
    roles = _roles_in(table, reader, columns)
    rows = joined([TableColumns(table, roles, options)])
    labels = rows.labels
    assert rows.document_ids is not None
    judged = np.ones(labels.size, dtype=bool)
    if options.unjudged is not None:
        judged = labels != options.unjudged
    sizes = np.diff(np.append(rows.block_starts, labels.size))
    values_by_name: dict[str | None, NDArray[Any]] = dict(rows.attributes.items())
    if rows.weights is not None:
        values_by_name[None] = rows.weights
    return JudgmentTable(
        str(table.path),
        np.repeat(as_text(rows.block_ids), sizes),
        rows.document_ids,
        np.where(judged, labels, 0.0),
        judged,
        rows.place,
        None if rows.subtopics is None else Subtopics.of_matrix(rows.subtopics, labels.size),
        bool(roles.subtopics),
        values_by_name,
    )


def _roles_in(table: OpenedTable, reader: Reader | None, columns: Mapping[str, str]) -> Roles:
    """Return the columns of a table of judgments: those that are named, or the reader's, or as their names say."""
    names_of_qrels = {"query": "query", "document_id": "document", "label": "grade"}
    named = {
        names_of_qrels[role]: "/".join(names)
        for role, names in _configured_columns(reader, columns).items()
        if role in columns or {*names} <= {*table.columns}
    }
    absent = [name for name in columns.values() if name not in table.columns]
    if absent:
        found = f"has no column {absent[0]!r}, which judgments names"
        raise DataError.at(table.path, found, cure=f"its columns: {shortened(table.columns, 8)}")
    found_columns = columns_of(table, "qrels", named)
    table_reader = reader if isinstance(reader, TableReader) else Parquet()
    query: Sequence[str] = (found_columns["query"],)
    if "query" not in columns and found_columns["query"] == "/".join(table_reader.query_columns):
        query = table_reader.query_columns
    return Roles(
        label=found_columns["grade"],
        document_id=found_columns["document"],
        weight=table_reader.weight_column if table_reader.weight_column in table.columns else None,
        attributes=[name for name in table_reader.attributes if name in table.columns],
        subtopics=table_reader.subtopics if {*table_reader.subtopics} <= {*table.columns} else (),
        query=query,
    )


def _of_qrels(qrels: Qrels) -> JudgmentTable:
    rows = np.arange(qrels.grades.size)
    return JudgmentTable(
        str(qrels.path),
        qrels.queries.values_at(rows),
        qrels.documents.values_at(rows),
        np.maximum(qrels.grades, 0).astype(np.float64),
        qrels.grades >= 0,
        qrels.place or (lambda row: str(qrels.path)),
        qrels.subtopics,
        cautions=tuple(replace(caution, place=qrels.path.name) for caution in qrels.cautions),
    )


def _concatenate(parts: Sequence[JudgmentTable], source: str) -> JudgmentTable:
    """Return the judgments of all files as one table."""
    if len(parts) == 1:
        return replace(parts[0], source=source)
    if any(part.subtopics is not None for part in parts):
        found = "judgments by subtopic in several files"
        raise DataError.at(source, found, "one file: each numbers its subtopics by itself")
    starts = [0, *accumulate(part.labels.size for part in parts)]

    def place(row: int) -> str:
        number = bisect_right(starts, row) - 1
        return parts[number].place(row - starts[number])

    columns: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS
    }
    shared = [name for name in parts[0].attributes if all(name in part.attributes for part in parts)]
    attributes = {name: np.concatenate([part.attributes[name] for part in parts]) for name in shared}
    cautions = tuple(caution for part in parts for caution in part.cautions)
    return JudgmentTable(source, place=place, attributes=attributes, cautions=cautions, **columns)


def _merge_repeats(truth: JudgmentTable, label_rule: OneLabel | None) -> JudgmentTable:
    """Return the judgments, one for each document of a query: several are merged by the rule, without one refused."""
    (queries,), _ = _encode_ids(truth.queries)
    (documents,), names = _encode_ids(truth.documents)
    _, first, pair = np.unique(queries * names.size + documents, return_index=True, return_inverse=True)
    is_repeat = first[pair] != np.arange(pair.size)
    if label_rule is None or not is_repeat.any():

        def describe_repeat(row: int) -> str:
            document, query = str(truth.documents[row]), str(truth.queries[row])
            return f"document {document!r} of query {query!r} is judged at {truth.place(int(first[pair[row]]))} already"

        expected = "each document once per query, or `judgments: {files: …, several: majority}`"
        problems = RowProblems()
        before = np.where(is_repeat, first[pair], -1)
        problems.report_repeats(before, truth.place, describe_repeat, expected, truth.labels)
        problems.finish()
        return truth
    if truth.subtopics is not None:
        found = "documents have several judgments, each with grades by subtopic"
        raise DataError.at(truth.source, found, "one judgment of each document")
    pair, grades = pair[truth.judged], truth.labels[truth.judged]
    documents_judged, labels = merge_labels(pair, grades, label_rule)
    label, judged = np.zeros(first.size), np.zeros(first.size, dtype=bool)
    label[documents_judged], judged[documents_judged] = labels, True
    n = int(np.count_nonzero(np.bincount(pair) > 1))
    finding = f"{count_of(n, 'document')} of {first.size:,} {plural('has', n)} several judgments"
    text = f"{finding}: their label is {_RULES[label_rule]} (several: {label_rule})"
    cautions = (*truth.cautions, Caution("several-labels", "note", text))
    return replace(truth.take(first), labels=label, judged=judged, cautions=cautions, several=(pair, grades))


_RULES = {
    "majority": "the most frequent grade, of equals the lowest",
    "mean": "the mean grade",
    "max": "the highest grade",
    "median": "the median grade, the mean of the two in the middle",
}


def merge_labels(
    documents: NDArray[np.int64], grades: NDArray[np.float64], rule: OneLabel
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return each document, ascending, and the one label of its judgments.

    Shapes: `documents`, `grades` (n_judgments,).
    """
    import pandas as pd

    table = pd.DataFrame({"document": documents, "grade": grades})
    if rule == "majority":
        sizes = table.groupby(["document", "grade"], as_index=False).size()
        by_frequency = sizes.sort_values(["document", "size", "grade"], ascending=[True, False, True])
        labels = by_frequency.drop_duplicates("document").set_index("document")["grade"]
    else:
        labels = table.groupby("document")["grade"].agg(rule)
    return labels.index.to_numpy(), labels.to_numpy()
