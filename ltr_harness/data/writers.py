"""Writers: ranking data in every format that readers take; what is read back has the same values."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ltr_harness._util.escapes import printable
from ltr_harness._util.files import Temporary, bare_name, opened_for_writing, whole_files
from ltr_harness._util.tables import csv_cell
from ltr_harness._util.text import count_of, plural
from ltr_harness.data.arrays import Array, Bools, Floats
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.judgments import Judgments
from ltr_harness.errors import Caution, DataError

FORMATS = ("letor", "lightgbm", "csv", "parquet", "arrow", "qrels")
_SUFFIXES = {
    ".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow", ".txt":
    "letor", ".letor": "letor", ".svm": "letor", ".qrels": "qrels",
}  # fmt: skip
_UNJUDGED = -1
_BLOCK = 1 << 20  # values written together


def format_of(path: Path) -> str | None:
    """The format that a file's name asks for; None where it asks for none."""
    return _SUFFIXES.get(Path(bare_name(path.name.lower())).suffix)


def write_dataset(dataset: RankingDataset, path: Path, form: str | None = None) -> list[Caution]:
    """Write a dataset, all of its files or none; cautions about what the format cannot hold."""
    form = form or format_of(path)
    if form not in FORMATS:
        found = "has no suffix that names its format" if form is None else f"unknown format {form!r}"
        raise DataError.at(path, found, f"one of {', '.join(FORMATS)}")
    if dataset.half_lives is not None:
        found = "weights that halve with age, which cannot be written to a file"
        expected = "no `weight: {half_life: …}` where rows are written, but where they are learned from"
        raise DataError.at(path, found, expected)
    if form == "qrels":
        with whole_files(path) as temporary:
            return _write_qrels(dataset.judgments.pool, path, temporary)
    is_text = form in ("letor", "lightgbm")
    judgments = dataset.judgments if is_text else dataset.judgments.pool
    cautions: list[Caution] = []
    labels = judgments.labels
    if judgments.judged is not None:
        labels = np.where(judgments.judged, labels, _UNJUDGED)
        text = f"documents that are not judged have the label {_UNJUDGED}"
        cure = f"read it with the option unjudged={_UNJUDGED}"
        cautions.append(Caution("unjudged-documents", "note", text, cure))
    if n := int(np.count_nonzero(~judgments.groups.has_rows)):
        text = f"{count_of(n, 'query')} without documents to write {plural('is', n)} left out"
        cautions.append(Caution("queries-without-documents", "note", text))
    with whole_files(path) as temporary:
        write = _write_svmlight if is_text else _write_table
        return cautions + write(dataset, labels, path, temporary, form)


def _write_qrels(judgments: Judgments, path: Path, temporary: Temporary) -> list[Caution]:
    """TREC's judgments: of every query each judged document, missed ones too."""
    labels, documents, queries = judgments.labels, judgments.document_ids, judgments.groups.ids
    if documents is None:
        raise DataError.at(path, "qrels name documents, and the data have no document ids")
    if fractions := int(np.count_nonzero(labels % 1)):
        found = f"{count_of(fractions, 'label')} with a fraction"
        raise DataError.at(path, found, "grades: qrels have integers")
    _refuse(path, "query id", map(str, queries.tolist()))
    _refuse(path, "document id", map(str, documents.tolist()))
    judged = slice(None) if judgments.judged is None else judgments.judged
    columns = (np.repeat(queries, judgments.groups.sizes), documents, labels.astype(np.int64))
    rows = zip(*(column[judged].tolist() for column in columns), strict=True)
    text = "".join(f"{query} 0 {document} {grade}\n" for query, document, grade in rows)
    with opened_for_writing(temporary(path), path.name) as stream:
        stream.write(text.encode("utf-8"))
    return [_left_out("qrels hold the judgments alone, without features")]


def _write_svmlight(
    dataset: RankingDataset, labels: Floats, path: Path, temporary: Temporary, form: str
) -> list[Caution]:
    """LETOR rows, or LightGBM's layout: the same rows without query ids, with sizes beside them."""
    with_qid = form == "letor"
    first, cautions = _write_feature_names(dataset, path, temporary)
    if dataset.categories:
        coded = ", ".join(dataset.categories)
        text = f"texts are written as codes, from 0 in the order of the texts: {coded}"
        cautions.append(Caution("coded-texts", "note", text))
    if with_qid:
        documents = dataset.judgments.document_ids
        _refuse(path, "query id", map(str, dataset.groups.ids[dataset.groups.has_rows].tolist()))
        if documents is not None:
            _refuse(path, "document id", map(str, documents.tolist()), comment=True)
    else:
        _write_companions(dataset, path, temporary)
    with opened_for_writing(temporary(path), path.name) as stream:
        for text in _blocks(dataset, labels, first, with_qid):
            stream.write(text.encode("utf-8"))
    left_out = _without_place(dataset, with_qid)
    if left_out:
        cautions.append(_left_out(f"{', '.join(left_out)} have no place in this format and are left out"))
    return cautions


def _write_feature_names(
    dataset: RankingDataset, path: Path, temporary: Temporary
) -> tuple[int, list[Caution]]:
    """Return the number of the first feature; names that are not numbers get a file of their own, and a caution."""
    numbered = [str(j) for j in range(dataset.n_features + 1)]
    names = list(dataset.feature_names)
    if names == numbered[:-1]:
        return 0, []
    if names == numbered[1:]:
        return 1, []
    companion = path.with_name(path.name + ".features")
    temporary(companion).write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    text = f"features are numbered from 1; their names are in {companion.name}"
    return 1, [Caution("numbered-features", "note", text)]


def _write_companions(dataset: RankingDataset, path: Path, temporary: Temporary) -> None:
    """Write the files that LightGBM reads beside the rows: sizes of queries, weights and positions."""
    sizes, weights = dataset.groups.sizes, dataset.weights_of_rows()
    companions = {".query": sizes[sizes > 0], ".weight": weights, ".position": dataset.positions}
    for suffix, values in companions.items():
        if values is not None:
            lines = "".join(f"{value}\n" for value in values.tolist())
            temporary(path.with_name(path.name + suffix)).write_text(lines, encoding="ascii")


def _without_place(dataset: RankingDataset, with_qid: bool) -> list[str]:
    """Return the parts of a dataset that LETOR's rows, or LightGBM's files, cannot hold."""
    judgments = dataset.judgments
    is_present = {
        "attributes": bool(dataset.query_attributes),
        "missed documents": judgments.missed is not None and judgments.missed.labels.size > 0,
        "subtopics": judgments.subtopics is not None,
    }
    if with_qid:
        is_present |= {
            "positions": dataset.positions is not None,
            "weights": judgments.query_weights is not None,
        }
    else:
        is_present |= {"query ids": True, "document ids": judgments.document_ids is not None}
    return [part for part, present in is_present.items() if present]


def _left_out(text: str) -> Caution:
    return Caution("left-out-of-the-file", "note", text)


def _refuse(path: Path, noun: str, ids: Iterable[str], *, comment: bool = False) -> None:
    signs, named_signs = ("\0", " and NUL bytes") if comment else ("\0#", ", # and NUL bytes")
    bad = [text for text in dict.fromkeys(ids) if text.split() != [text] or not set(signs).isdisjoint(text)]
    if bad:
        found = f"{noun} {bad[0]!r} ({len(bad):,} such)"
        expected = f"ids without spaces{named_signs}"
        raise DataError.at(path, found, expected, "write csv or parquet instead")


def _blocks(dataset: RankingDataset, labels: Floats, first: int, with_qid: bool) -> Iterator[str]:
    grades = list(map(_grade_text, labels.tolist()))
    keys = [f"{first + j}:" for j in range(dataset.n_features)]
    queries = np.repeat(np.arange(dataset.n_queries), dataset.groups.sizes)
    names = dataset.groups.ids.tolist()
    ids = [f" qid:{name} " for name in names] if with_qid else [" " for _ in names]
    documents = dataset.judgments.document_ids if with_qid else None
    step = max(1, _BLOCK // max(1, dataset.n_features))
    for start in range(0, dataset.n_rows, step):
        block = dataset.features[start : start + step]
        # the shortest texts that mean exactly these numbers; ``nan`` where one is missing
        values = iter(pa.array(np.ascontiguousarray(block).ravel()).cast(pa.string()).to_pylist())
        rows = []
        for i in range(len(block)):
            pairs = " ".join([key + next(values) for key in keys])
            rows.append(f"{grades[start + i]}{ids[queries[start + i]]}{pairs}")
        if documents is not None:
            block_documents = documents[start : start + step]
            rows = [f"{row} # docid = {name}" for row, name in zip(rows, block_documents, strict=True)]
        yield "\n".join(rows) + "\n"


def _grade_text(value: float) -> str:
    """Return whole numbers without a point, others as Python prints them, which is exact."""
    return str(int(value)) if value == int(value) else repr(value)


def _write_table(
    dataset: RankingDataset, labels: Floats, path: Path, temporary: Temporary, form: str
) -> list[Caution]:
    """A CSV, TSV, Parquet or Arrow table with one named column for everything that the dataset holds."""
    table = _arrow_table(dataset, labels, path)
    target = temporary(path)
    cautions = []
    if form == "parquet":
        from pyarrow import parquet

        parquet.write_table(table, target, compression="zstd")
    elif form == "arrow":
        from pyarrow import feather

        feather.write_feather(table, target, compression="uncompressed")
    else:
        cautions = _write_csv(table, target, path)
    roles = ("weight", "position", "document_id", "retrieved")
    options = [f"{role}={role}" for role in roles if role in table.column_names]
    if names := subtopic_columns(dataset):
        options.append(f"subtopics=[{', '.join(names)}]")
    if dataset.query_attributes:
        options.append(f"attributes=[{', '.join(dataset.query_attributes)}]")
    if dataset.categories and form not in ("parquet", "arrow"):  # whose columns have types
        options.append(f"categorical=[{', '.join(dataset.categories)}]")
    if options:
        cautions.append(reader_options(options))
    return cautions


def reader_options(options: Iterable[str]) -> Caution:
    """Return what is to be given to the reader of a file that was written."""
    return Caution("reader-options", "note", f"read it with the options {' '.join(options)}")


def subtopic_columns(dataset: RankingDataset) -> tuple[str, ...]:
    """The columns of a table that have the rows' grades by subtopic."""
    pairs = dataset.judgments.pool.subtopics
    n = 0 if pairs is None else int(pairs.numbers.max(initial=0)) + 1
    return tuple(f"subtopic_{i + 1}" for i in range(n))


def _arrow_table(dataset: RankingDataset, labels: Floats, path: Path) -> Any:
    is_missed = np.ones(dataset.judgments.pool.groups.n_rows, dtype=bool)
    is_missed[dataset.judgments.pool_rows] = False
    columns = [*_row_columns(dataset, labels, is_missed), *_feature_columns(dataset, is_missed)]
    names = [name for name, _ in columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError.at(path, f"two columns would be called {twice[0]!r}", "different names")
    return pa.table([_as_arrow(values) for _, values in columns], names=names)


def _row_columns(dataset: RankingDataset, labels: Floats, is_missed: Bools) -> Iterator[tuple[str, Any]]:
    """Yield the name and the values (n_rows,) of each column but features."""
    judgments = dataset.judgments.pool
    sizes = judgments.groups.sizes
    yield "query_id", np.repeat(dataset.groups.ids, sizes)
    is_whole = bool(np.array_equal(labels, np.floor(labels)) and labels.max() < 2**53)
    label_column = labels.astype(np.int64) if is_whole else labels
    yield "label", label_column
    if judgments.query_weights is not None:
        weights = np.repeat(judgments.query_weights, sizes)
        if dataset.row_weights is not None:
            weights[dataset.judgments.pool_rows] = dataset.row_weights
        yield "weight", weights
    if dataset.positions is not None:
        yield "position", _of_candidates(dataset.positions, is_missed)
    if judgments.document_ids is not None:
        yield "document_id", judgments.document_ids
    if dataset.judgments.missed is not None:
        yield "retrieved", (~is_missed).astype(np.int64)
    if judgments.subtopics is not None:
        yield from zip(subtopic_columns(dataset), judgments.subtopics.labels(is_missed.size), strict=True)
    for name, values in dataset.query_attributes.items():
        yield name, np.repeat(values, sizes)


def _feature_columns(dataset: RankingDataset, is_missed: Bools) -> Iterator[tuple[str, Any]]:
    for j, name in enumerate(dataset.feature_names):
        values = _of_candidates(dataset.features[:, j], is_missed)
        texts = dataset.categories.get(name)
        if texts:
            values = pa.DictionaryArray.from_arrays(values.cast(pa.int32()), pa.array(texts, pa.string()))
        yield name, values


def _of_candidates(values: Array, is_missed: Bools) -> Any:
    """Return the values of candidates as a column (n_rows,), null for missed documents and for NaN."""
    column = np.zeros(is_missed.size, dtype=values.dtype)
    column[~is_missed] = values
    return pa.array(column, mask=is_missed, from_pandas=True)


def _as_arrow(values: Any) -> Any:
    """Return an array as Arrow has it, NaN as null."""
    if isinstance(values, np.ndarray):
        return pa.array(np.ascontiguousarray(values), from_pandas=True)
    return values


def _write_csv(table: Any, target: Path, path: Path) -> list[Caution]:
    """Return a caution where texts were changed for good."""
    from pyarrow import csv

    table = table.rename_columns([csv_cell(name) for name in table.column_names])
    changed = 0
    for index, column in enumerate(table.schema):
        if pa.types.is_dictionary(column.type) or pa.types.is_string(column.type):
            packed = table[index].combine_chunks().dictionary_encode()
            texts = packed.dictionary.to_pylist()
            changed += sum(text != printable(text) for text in texts)
            cells = pa.array(map(csv_cell, texts), pa.string())
            table = table.set_column(index, column.name, cells.take(packed.indices))
    separator = "\t" if bare_name(path.name.lower()).endswith((".tsv", ".tab")) else ","
    with opened_for_writing(target, path.name) as stream:
        csv.write_csv(table, stream, csv.WriteOptions(delimiter=separator))
    if not changed:
        return []
    text = f"control characters in {count_of(changed, 'text')} are escapes now; Parquet keeps them"
    return [Caution("escaped-characters", "note", text)]
