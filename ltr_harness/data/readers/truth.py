"""Judgments beside the rows, matched by query and document id as text: a judged document that is no row was missed."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from ltr_harness._util.text import count_of, plural, shortened
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.judgments import Judgments, MissedDocuments, OneLabel, RawJudgments, Subtopics
from ltr_harness.data.queries import Bools, Floats, QueryGroups
from ltr_harness.data.readers.catboost import CatBoostPool
from ltr_harness.data.readers.column_names import column_for
from ltr_harness.data.readers.judgment_formats import columns_of, opened_table, qrels_of, table_in_memory
from ltr_harness.data.readers.parquet import Parquet
from ltr_harness.data.readers.reader import Reader, ValueOptions
from ltr_harness.data.readers.rows import OfRow, RowProblems, limited, per_query, query_ids
from ltr_harness.data.readers.table_columns import OpenedTable, Roles, TableColumns, joined
from ltr_harness.data.readers.table_reader import TableReader
from ltr_harness.data.readers.trec import Qrels
from ltr_harness.errors import Caution, DataError, Problem

NoCandidates = Literal["zero", "skip"]
_FIRST = 3  # places that messages name
_COLUMNS = ("queries", "documents", "labels", "judged")  # of every `Truth`


@dataclass(frozen=True, eq=False)
class Truth:
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

    def take(self, rows: NDArray[np.int64]) -> "Truth":
        """Some rows (n,), without their subtopics."""
        columns: dict[str, Any] = {name: getattr(self, name)[rows] for name in _COLUMNS}
        attributes = {name: values[rows] for name, values in self.attributes.items()}
        columns |= {"attributes": attributes, "cautions": self.cautions}
        return Truth(self.source, place=lambda row: self.place(int(rows[row])), **columns)


def read_judgments(
    files: Sequence[str],
    root: Path,
    reader: Reader | None = None,
    columns: Mapping[str, str] | None = None,
    several: OneLabel | None = None,
) -> Truth:
    """The judgments of files: tables, whose columns have the names of the reader's unless told, or qrels."""
    parts, columns = [], columns or {}
    names = [name for names in _said(reader, columns).values() for name in names]
    for path in judgment_files(files, root):
        if opened := opened_table(path, names):
            parts.append(_of_table(opened[0], reader, columns))
        else:
            parts.append(_of_qrels(qrels_of(path, several=several is not None)))
    return _one_each(_together(parts, ", ".join(files)), several)


def judgment_files(files: Sequence[str], root: Path) -> list[Path]:
    """The files themselves; a folder stands for the Parquet files in it."""
    return Parquet().paths(files, root)


def judgments_of(value: Any, reader: Reader | None = None, several: OneLabel | None = None) -> Truth:
    """The judgments in memory, or of a file: a frame, ``{query: {document: grade}}``, or what `evaluate_runs` takes."""
    if isinstance(value, str | Path):
        return read_judgments([str(value)], Path(), reader, several=several)
    table = table_in_memory(value, "judgments")
    if table is not None:
        return _one_each(_of_table(table, reader, {}), several)
    return _one_each(_of_qrels(qrels_of(value, "judgments", several=several is not None)), several)


def reader_of_rows(reader: Reader, files: Sequence[str], root: Path) -> tuple[Reader, bool]:
    """The reader of rows that have judgments beside them, and whether the rows have labels of their own."""
    if not isinstance(reader, TableReader) or isinstance(reader, CatBoostPool):
        return reader, True
    labelled = has_labels(reader, [reader.opened(path) for path in reader.paths(files, root)])
    return reader if labelled else reader.without_labels(), labelled


def has_labels(reader: TableReader, tables: Sequence[OpenedTable]) -> bool:
    """Whether rows have labels, or a column that may be one and must not become a feature."""
    if reader.relevance is not None or any(reader.label in table.columns for table in tables):
        return True
    return reader.features is None and any(column_for("label", table.columns) for table in tables)


def with_judgments(
    dataset: RankingDataset,
    truth: Truth,
    *,
    labelled: bool = True,
    no_candidates: NoCandidates = "zero",
    elsewhere: NDArray[np.str_] | None = None,
) -> RankingDataset:
    """The dataset with what was missed, and, where its rows have no labels, with the judgments' labels.

    `elsewhere` are the queries, as text, that the other splits have: the judged queries of no split are left out then.
    """
    judgments, groups = dataset.judgments, dataset.groups
    document_ids = _ids_to_match(dataset)
    added = elsewhere is None and no_candidates == "zero"
    match = _Match(dataset, truth, as_text(document_ids), added=added)
    labels, judged = judgments.labels, judgments.judged
    cautions = [*dataset.cautions, *truth.cautions, *match.cautions(no_candidates, elsewhere)]
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
    """The dataset without the queries that have no row, and a caution that counts them."""
    there = dataset.groups.has_rows
    if there.all():
        return dataset
    n = int(np.count_nonzero(~there))
    text = f"{count_of(n, 'query')} without candidates {plural('is', n)} left out (no_candidates: skip)"
    kept = dataset.take(np.flatnonzero(there))
    return replace(kept, cautions=(*kept.cautions, Caution("queries-without-candidates", "note", text)))


class _Match:
    """Which judgment each row has, and which judgments no row has, in any order; queries without rows are `added`."""

    def __init__(
        self, dataset: RankingDataset, truth: Truth, documents: NDArray[np.str_], *, added: bool
    ) -> None:
        groups = dataset.groups
        (own, theirs), names = _coded(groups.ids, truth.queries)
        (named, asked), distinct = _coded(documents, truth.documents)
        strays = np.setdiff1d(theirs[truth.judged], own)
        ids, new = groups.ids, strays
        if not added:
            new = strays[:0]
        if new.size:
            others = query_ids(names[new])
            if ids.dtype.kind not in "iu" or others.dtype.kind == "U":  # integers where both are
                ids, others = as_text(ids), names[new]
            order = np.argsort(others)
            ids, new = np.concatenate((ids, others[order])), new[order]
        number_of = np.full(names.size, -1)
        number_of[own], number_of[new] = np.arange(own.size), own.size + np.arange(new.size)
        number = number_of[theirs]
        used = np.flatnonzero(number >= 0)
        judged = pd.Index(number[used] * distinct.size + asked[used])  # each once
        listed = pd.Index(np.repeat(np.arange(own.size), groups.sizes) * distinct.size + named)
        at = judged.get_indexer(listed)
        rows = np.flatnonzero(at >= 0)
        if not rows.size:
            said = f"query {groups.name(0)!r}, document {str(documents[0])!r}"
            found = f"{truth.source} judges none of its rows, the first of which is {said}"
            said = f"query {str(truth.queries[0])!r}, document {str(truth.documents[0])!r}"
            cure = "name the split that they are of, as in `judgments: {test: …}`"
            raise DataError.at(dataset.source, found, f"the same ids in both; it begins with {said}", cure)
        lines = used[at[rows]]
        is_missed = truth.judged & (number >= 0)
        is_missed[lines] = False
        missed = np.flatnonzero(is_missed)
        missed = missed[np.lexsort((truth.documents[missed], number[missed]))]
        self.dataset, self.truth, self.documents = dataset, truth, documents
        self.ids = ids  # (n_queries,), of the dataset's queries and those that are added to them
        self.number = number  # (n,), of each judgment's query; -1 where it is not there
        # (n_matched,), those that are judged, and their judgments
        self.rows, self.lines = rows, lines
        self.missed = missed  # (n_missed,), judgments of other documents, by query
        self.strays = names[strays]  # queries that are judged and have no row

    def _by_query(self, of: NDArray[np.int64], first: int = 0) -> NDArray[np.int64]:
        """Which of some judgments (n,) are of queries from this number on, query by query."""
        used = np.flatnonzero(self.number[of] >= first)
        return used[np.argsort(self.number[of[used]], kind="stable")]

    @property
    def raw_judgments(self) -> RawJudgments | None:
        """The judgments that labels were made of, those of the dataset's queries, query by query."""
        if self.truth.several is None:
            return None
        row, grades = self.truth.several
        used = self._by_query(row)
        return RawJudgments(self.number[row[used]], row[used], grades[used])

    def cautions(self, no_candidates: NoCandidates, elsewhere: NDArray[np.str_] | None) -> list[Caution]:
        """Return how much was missed, and which judged queries have no row."""
        text = f"every judged document is a candidate: nothing was missed ({self.truth.source})"
        if n := self.missed.size:
            of = f"{count_of(n, 'judged document')} of {count_of(np.unique(self.number[self.missed]).size, 'query')}"
            text = f"{of} {plural('was', n)} missed ({self.truth.source})"
        cautions = [Caution("missed-documents", "note", text)]
        strays = self.strays if elsewhere is None else np.setdiff1d(self.strays, elsewhere)
        if n := strays.size:
            fate = "the value 0" if no_candidates == "zero" else f"{plural('is', n)} left out"
            kind = "queries-without-candidates"
            said = f"{plural('has', n)} no candidate and {fate} (no_candidates: {no_candidates})"
            if elsewhere is not None:
                kind = "queries-without-split"
                cure = "`judgments: {train: …, test: …}` says whose they are"
                said = f"{plural('is', n)} of no split and counted nowhere, such as {shortened(strays, 3)}: {cure}"
            share = n / np.unique(self.truth.queries[self.truth.judged]).size
            cautions.append(Caution(kind, "note", f"{n:,} of the judged queries ({share:.1%}) {said}"))
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
        """Return the rows' grades by subtopic, their own where they have some."""
        own = self.dataset.judgments.subtopics
        if own is not None and not self.truth.by_column:
            found = f"the rows have columns of subtopics, and {self.truth.source} has not"
            raise DataError.at(self.dataset.source, found, "the columns of `subtopics` in the judgments too")
        if own is not None or self.truth.subtopics is None:
            return own
        line = np.full(self.dataset.n_rows, -1)
        line[self.rows] = self.lines
        return self.truth.subtopics.take(line)

    def _added(self, name: str | None) -> NDArray[Any] | None:
        """What the judgments say of each added query (n_added,), as the first of its rows has it; None if nothing."""
        if name not in self.truth.attributes:
            return None
        values = self.truth.attributes[name]
        first_added = self.dataset.n_queries
        rows = self._by_query(np.arange(self.number.size), first_added)
        groups = QueryGroups.from_sizes(np.bincount(self.number[rows] - first_added), self.ids[first_added:])
        called = "weight" if name is None else name
        return per_query(called, values[rows], groups, lambda row: self.truth.place(int(rows[row])))

    def attribute(self, name: str) -> NDArray[Any]:
        """Values of an attribute (n_queries,): of added queries the judgments' own, or missing ones."""
        values = self.dataset.query_attributes[name]
        n = self.ids.size - values.size
        if not n:
            return values
        own = self._added(name)
        is_number = values.dtype.kind in "iuf"
        if own is None:
            own = np.full(n, np.nan if is_number else "")
        if is_number and own.dtype.kind in "iuf":
            return np.concatenate((values, own))
        if values.dtype.kind == "b":  # as in tables with empty cells
            values = np.where(values, "true", "false")
        return np.concatenate((as_text(values), as_text(own)))

    def weights(self, values: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
        """Weights (n_queries,), of added queries the judgments' own."""
        if values is None or self.ids.size == values.size:
            return values
        own = self._added(None)
        if own is None:
            n = count_of(self.ids.size - values.size, "judged query")
            found = f"queries have weights, and nothing says those of {n} without candidates"
            cure = "or leave them out with `no_candidates: skip`"
            raise DataError.at(self.dataset.source, found, "the column of `weight` in the judgments", cure)
        return np.concatenate((values, own))


def _refuse_contradictions(match: _Match) -> None:
    """Raise if rows have other labels than the judgments of their documents."""
    dataset, truth, rows = match.dataset, match.truth, match.rows
    own, judged = dataset.labels[rows], np.ones(rows.size, dtype=bool)
    if dataset.judgments.judged is not None:
        judged = dataset.judgments.judged[rows]
    other, counted = truth.labels[match.lines], truth.judged[match.lines]
    bad = np.flatnonzero((own != other) | (counted & ~judged))
    problems: list[Problem] = []
    for at in bad[:_FIRST].tolist():
        here = f"label {other[at]:g}" if counted[at] else "not judged"
        there = f"label {own[at]:g}" if judged[at] else "not judged"
        row, query = int(rows[at]), dataset.groups.name(dataset.groups.query_of(int(rows[at])))
        found = f"document {str(match.documents[row])!r} of query {query!r}: {here} here, {there} in {dataset.source}"
        cure = "" if problems else "leave the column of labels out of the rows, if the judgments are right"
        place = truth.place(int(match.lines[at]))
        problems.append(Problem(place, found, "one label for each document of a query", cure))
    DataError.refuse(limited(problems, bad.size, "such document"))


def _coded(*columns: NDArray[Any]) -> tuple[list[NDArray[np.int64]], NDArray[np.str_]]:
    """Numbers for the ids of several columns (n,), the same for the same text, in the order they come; the texts."""
    # as columns of a table, because pyarrow until 20 makes no large texts of NumPy's
    large = (pa.table({"id": as_text(each)})["id"].cast(pa.large_string()) for each in columns)
    texts = pa.chunked_array([chunk for each in large for chunk in each.chunks], pa.large_string())
    encoded = texts.combine_chunks().dictionary_encode()
    codes = encoded.indices.to_numpy().astype(np.int64)
    names = np.asarray(encoded.dictionary.to_numpy(zero_copy_only=False), dtype=np.str_)
    return np.split(codes, list(accumulate(map(len, columns)))[:-1]), names


def as_text(ids: NDArray[Any]) -> NDArray[np.str_]:
    """Ids (n,) as text."""
    if ids.dtype.kind in "iuU":
        return ids.astype(np.str_)
    return np.array([str(value) for value in ids.tolist()], dtype=np.str_)


def _said(reader: Reader | None, columns: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Role to the columns that configuration or reader name for it."""
    said: dict[str, tuple[str, ...]] = {}
    if isinstance(reader, TableReader):
        said = {"query": reader.query_columns, "label": (reader.label,)}
        if reader.document_id is not None:
            said["document_id"] = (reader.document_id,)
    return {**said, **{role: (name,) for role, name in columns.items()}}


def _of_table(table: OpenedTable, reader: Reader | None, columns: Mapping[str, str]) -> Truth:
    """The judgments of a table, by the reader's rules for labels; attributes, weight, subtopics where it has them."""
    options = reader if isinstance(reader, ValueOptions) else ValueOptions()
    roles = _roles_in(table, reader, columns)
    rows = joined([TableColumns(table, roles, options)])
    labels = rows.labels
    assert rows.document_ids is not None
    judged = np.ones(labels.size, dtype=bool)
    if options.unjudged is not None:
        judged = labels != options.unjudged
    sizes = np.diff(np.append(rows.block_starts, labels.size))
    others: dict[str | None, NDArray[Any]] = dict(rows.attributes.items())
    if rows.weights is not None:
        others[None] = rows.weights
    return Truth(
        str(table.path),
        np.repeat(as_text(rows.block_ids), sizes),
        rows.document_ids,
        np.where(judged, labels, 0.0),
        judged,
        rows.place,
        None if rows.subtopics is None else Subtopics.of_matrix(rows.subtopics, labels.size),
        bool(roles.subtopics),
        others,
    )


def _roles_in(table: OpenedTable, reader: Reader | None, columns: Mapping[str, str]) -> Roles:
    """Return the columns of a table of judgments: those that are named, or the reader's, or as their names say."""
    names_of_qrels = {"query": "query", "document_id": "document", "label": "grade"}
    named = {
        names_of_qrels[role]: "/".join(names)
        for role, names in _said(reader, columns).items()
        if role in columns or {*names} <= {*table.columns}
    }
    absent = [name for name in columns.values() if name not in table.columns]
    if absent:
        found = f"has no column {absent[0]!r}, which judgments names"
        raise DataError.at(table.path, found, cure=f"its columns: {shortened(table.columns, 8)}")
    found_columns = columns_of(table, "qrels", named)
    like = reader if isinstance(reader, TableReader) else Parquet()
    query: Sequence[str] = (found_columns["query"],)
    if "query" not in columns and found_columns["query"] == "/".join(like.query_columns):
        query = like.query_columns
    return Roles(
        label=found_columns["grade"],
        document_id=found_columns["document"],
        weight=like.weight_column if like.weight_column in table.columns else None,
        attributes=[name for name in like.attributes if name in table.columns],
        subtopics=like.subtopics if {*like.subtopics} <= {*table.columns} else (),
        query=query,
    )


def _of_qrels(qrels: Qrels) -> Truth:
    every = np.arange(qrels.grades.size)
    return Truth(
        str(qrels.path),
        qrels.queries.of(every),
        qrels.documents.of(every),
        np.maximum(qrels.grades, 0).astype(np.float64),
        qrels.grades >= 0,
        qrels.place or (lambda row: str(qrels.path)),
        qrels.subtopics,
        cautions=tuple(replace(one, place=qrels.path.name) for one in qrels.cautions),
    )


def _together(parts: Sequence[Truth], source: str) -> Truth:
    """The judgments of all files."""
    if len(parts) == 1:
        return replace(parts[0], source=source)
    if any(part.subtopics is not None for part in parts):
        found = "judgments by subtopic in several files"
        raise DataError.at(source, found, "one file: each numbers its subtopics by itself")
    starts = [0, *accumulate(part.labels.size for part in parts)]

    def place(row: int) -> str:
        at = bisect_right(starts, row) - 1
        return parts[at].place(row - starts[at])

    columns: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS
    }
    shared = [name for name in parts[0].attributes if all(name in part.attributes for part in parts)]
    attributes = {name: np.concatenate([part.attributes[name] for part in parts]) for name in shared}
    cautions = tuple(caution for part in parts for caution in part.cautions)
    return Truth(source, place=place, attributes=attributes, cautions=cautions, **columns)


def _one_each(truth: Truth, several: OneLabel | None) -> Truth:
    """The judgments, one for each document of a query: of several by the rule, without one refused."""
    (queries,), _ = _coded(truth.queries)
    (documents,), names = _coded(truth.documents)
    _, first, pair = np.unique(queries * names.size + documents, return_index=True, return_inverse=True)
    again = first[pair] != np.arange(pair.size)
    if several is None or not again.any():

        def judged_already(row: int) -> str:
            document, query = str(truth.documents[row]), str(truth.queries[row])
            return f"document {document!r} of query {query!r} is judged at {truth.place(int(first[pair[row]]))} already"

        expected = "each document once per query, or `judgments: {files: …, several: majority}`"
        problems = RowProblems()
        before = np.where(again, first[pair], -1)
        problems.report_repeats(before, truth.place, judged_already, expected, truth.labels)
        problems.finish()
        return truth
    if truth.subtopics is not None:
        found = "documents have several judgments, each with grades by subtopic"
        raise DataError.at(truth.source, found, "one judgment of each document")
    pair, grades = pair[truth.judged], truth.labels[truth.judged]
    of, labels = one_label_each(pair, grades, several)
    label, judged = np.zeros(first.size), np.zeros(first.size, dtype=bool)
    label[of], judged[of] = labels, True
    n = int(np.count_nonzero(np.bincount(pair) > 1))
    said = f"{count_of(n, 'document')} of {first.size:,} {plural('has', n)} several judgments"
    text = f"{said}: their label is {_RULES[several]} (several: {several})"
    cautions = (*truth.cautions, Caution("several-labels", "note", text))
    return replace(truth.take(first), labels=label, judged=judged, cautions=cautions, several=(pair, grades))


_RULES = {
    "majority": "the most frequent grade, of equals the lowest",
    "mean": "the mean grade",
    "max": "the highest grade",
    "median": "the median grade, the mean of the two in the middle",
}


def one_label_each(
    documents: NDArray[np.int64], grades: NDArray[np.float64], rule: OneLabel
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Each document, ascending, and the one label of its judgments. Shapes: `documents`, `grades` (n_judgments,)."""
    table = pd.DataFrame({"document": documents, "grade": grades})
    if rule == "majority":
        sizes = table.groupby(["document", "grade"], as_index=False).size()
        depends_on_size = sizes.sort_values(["document", "size", "grade"], ascending=[True, False, True])
        one = depends_on_size.drop_duplicates("document").set_index("document")["grade"]
    else:
        one = table.groupby("document")["grade"].agg(rule)
    return one.index.to_numpy(), one.to_numpy()
