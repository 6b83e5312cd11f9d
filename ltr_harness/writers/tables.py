"""CSV, TSV, Parquet and Arrow tables of datasets, one named column for everything they hold."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness.dataset import RankingDataset
from ltr_harness.errors import DataError
from ltr_harness.files import Temporary, bare_name, opened_for_writing
from ltr_harness.wording import count_of, csv_cell, printable

UNJUDGED = -1


def labels_to_write(dataset: RankingDataset) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """float64 (n_rows,), `UNJUDGED` for documents that nobody judged, and what to say of it."""
    judged = dataset.judgments.judged
    if judged is None:
        return dataset.labels, ()
    note = f"documents that nobody judged have the label {UNJUDGED}"
    note += f": read it with the option unjudged={UNJUDGED}"
    return np.where(judged, dataset.labels, UNJUDGED), (note,)


def write_table(dataset: RankingDataset, path: Path, temporary: Temporary, form: str) -> list[str]:
    """Write ``query_id``, ``label``, the features by name, and where there are any ``weight``, ``position``,
    ``document_id`` and the attributes by name.

    Raises DataError: two columns would have one name.
    """
    table = arrow_table(dataset, path)
    target = temporary(path)
    notes = list(labels_to_write(dataset)[1])
    if form == "parquet":
        from pyarrow import parquet

        parquet.write_table(table, target, compression="zstd")
    elif form == "arrow":
        from pyarrow import feather

        feather.write_feather(table, target, compression="uncompressed")
    else:
        notes += _write_csv(table, target, path)
    roles = ("weight", "position", "document_id")
    options = [f"{role}={role}" for role in roles if role in table.column_names]
    if dataset.query_attributes:
        options.append(f"attributes=[{', '.join(dataset.query_attributes)}]")
    if dataset.categories and form not in ("parquet", "arrow"):  # whose columns have types
        options.append(f"categorical=[{', '.join(dataset.categories)}]")
    if options:
        notes.append(f"read it with the options {' '.join(options)}")
    return notes


def arrow_table(dataset: RankingDataset, path: Path) -> Any:
    """The dataset as a `pyarrow.Table`."""
    import pyarrow

    sizes, judgments = dataset.groups.sizes, dataset.judgments
    labels, _ = labels_to_write(dataset)
    whole = bool(np.array_equal(labels, np.floor(labels)) and labels.max() < 2**53)
    columns: list[tuple[str, Any]] = [
        ("query_id", np.repeat(dataset.groups.ids, sizes)),
        ("label", labels.astype(np.int64) if whole else labels),
    ]
    if judgments.query_weights is not None:
        columns.append(("weight", np.repeat(judgments.query_weights, sizes)))
    if dataset.positions is not None:
        columns.append(("position", dataset.positions))
    if judgments.document_ids is not None:
        columns.append(("document_id", judgments.document_ids))
    columns += [(name, np.repeat(values, sizes)) for name, values in dataset.query_attributes.items()]
    columns += [
        (name, _texts(dataset, j) if name in dataset.categories else dataset.features[:, j])
        for j, name in enumerate(dataset.feature_names)
    ]
    names = [name for name, _ in columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError.at(path, f"two columns would be called {twice[0]!r}", "different names")
    arrays = [
        pyarrow.array(np.ascontiguousarray(values), from_pandas=True)  # NaN is null
        if isinstance(values, np.ndarray)
        else values
        for _, values in columns
    ]
    return pyarrow.table(arrays, names=names)


def _texts(dataset: RankingDataset, column: int) -> Any:
    """The texts of a categorical feature, as Arrow's dictionary."""
    import pyarrow

    codes = dataset.features[:, column]
    places = pyarrow.array(np.nan_to_num(codes).astype(np.int32), mask=np.isnan(codes))
    texts = dataset.categories[dataset.feature_names[column]]
    return pyarrow.DictionaryArray.from_arrays(places, pyarrow.array(texts, pyarrow.string()))


def _write_csv(table: Any, target: Path, path: Path) -> list[str]:
    """Returns a note where texts were changed for good."""
    from pyarrow import array, csv, string, types

    table = table.rename_columns([csv_cell(name) for name in table.column_names])
    changed = 0
    for at, column in enumerate(table.schema):
        if types.is_dictionary(column.type) or types.is_string(column.type):
            packed = table[at].combine_chunks().dictionary_encode()
            texts = packed.dictionary.to_pylist()
            changed += sum(text != printable(text) for text in texts)
            cells = array(map(csv_cell, texts), string())
            table = table.set_column(at, column.name, cells.take(packed.indices))
    separator = "\t" if bare_name(path.name.lower()).endswith((".tsv", ".tab")) else ","
    with opened_for_writing(target, path.name) as stream:
        csv.write_csv(table, stream, csv.WriteOptions(delimiter=separator))
    if not changed:
        return []
    return [f"control characters in {count_of(changed, 'text')} are escapes now; Parquet keeps them"]
