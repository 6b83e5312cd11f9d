"""`ltr-harness predict`: scores of new rows from a stored model."""

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ltr_harness._util.files import whole_files
from ltr_harness._util.tables import csv_cell
from ltr_harness._util.text import count_of, shortened
from ltr_harness.cli import data_source, options
from ltr_harness.cli.output import echo, echo_cautions
from ltr_harness.errors import DataError, UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ltr_harness.data.dataset import RankingDataset
    from ltr_harness.data.readers.table_reader import TableReader
    from ltr_harness.experiments.runs.record import Record

_SUFFIXES = (".parquet", ".csv", ".tsv", ".npy", ".txt", ".run")


@options.examples("""
  ltr-harness predict RUN new.txt -o scores.parquet
  ltr-harness predict RUN rows.csv --column query=session -o scores.csv
  ltr-harness predict RUN rows.parquet -o model.run        (a TREC run; needs document ids)
  ltr-harness evaluate --data new.txt --scores scores.parquet
""")
@click.command("predict")
@options.run
@click.argument("data", type=options.DATA)
@options.output(f"Where to write: {', '.join(_SUFFIXES)}.", options.FILE, required=True, metavar="FILE")
@options.reader
@click.option("--threads", type=options.COUNT, help="For scoring.  [default: the run's]")
@options.trust
def command(run: Path, data: Path, output: Path, threads: int | None, trust: bool, **reader: Any) -> None:
    """Score the rows of DATA with a stored model.

    RUN is a run folder. Features are found by name, or by number in LETOR files. Tables name each row by
    query_id, row within the query and document_id where there is one; .npy and .txt hold one score per row, in the
    order of the file.
    """
    from ltr_harness.cli.stored_runs import with_model
    from ltr_harness.experiments.runs.scoring import scoring_cautions

    if output.suffix not in _SUFFIXES:
        raise UsageError(f"{output}: unknown file type; expected one of {', '.join(_SUFFIXES)}")
    stored = with_model(run, trust)
    split = _read(data, stored.record, **reader)
    if output.suffix == ".run":
        _refuse_ids_for_run(data, split, output)
    model = stored.model_on(threads)  # before all else, as it may need code that is not trusted
    rows = stored.with_model_columns(split)
    echo_cautions(scoring_cautions(rows, stored.record, stored.ranges))
    scores = model.score_split(rows)
    with whole_files(output) as temporary:
        _write(temporary(output), split, scores, stored.record.model)
    echo(f"{count_of(split.n_rows, 'score')} of {count_of(split.n_queries, 'query')}: {output}", err=True)


def _refuse_ids_for_run(data: Path, split: "RankingDataset", output: Path) -> None:
    """Raise an error for rows without document ids, and for ids with blanks, which part the fields of a TREC run."""
    documents = split.judgments.document_ids
    if documents is None:
        raise UsageError(f"{output}: a TREC run names documents, and {data} has no document ids")
    for noun, ids in (("query", split.groups.ids), ("document", documents)):
        bad = [name for name in dict.fromkeys(map(str, ids.tolist())) if name.split() != [name]]
        if bad:
            has_one = f"{noun} {bad[0]!r} has one ({len(bad):,} such)"
            found = f"the fields of a TREC run end with blanks, and {has_one}"
            raise DataError.at(output, found, "ids without blanks", "write .csv or .parquet instead")


def _read(
    data: Path, record: "Record", reader_name: str | None, reader_options: Sequence[str]
) -> "RankingDataset":
    """Return the rows; in a table they need no labels, and the model's features are read, whatever they are called."""
    from ltr_harness.data.cache import DataCache
    from ltr_harness.data.readers.table_reader import TableReader

    reader = data_source.made_reader(reader_name or data_source.guessed_reader(data), reader_options)
    reader = data_source.with_columns(reader, data, record.reading)
    if isinstance(reader, TableReader) and data.is_file():
        columns = reader.opened(data).columns
        if not set(reader.query_columns) <= set(columns):
            raise _absent_query(record.reading.get("query") or reader.query, columns, data)
        reader = _with_model_features(reader, columns, record, data)
        if not reader.categorical:
            categories = tuple(name for name in record.categories if name in columns)
            reader = reader.model_copy(update={"categorical": categories})
        if reader.label not in columns:
            return reader.without_labels().read([str(data)], Path())
    return DataCache().read(reader, [str(data)], Path()).dataset


def _absent_query(query: str | Sequence[str], columns: Sequence[str], data: Path) -> DataError:
    """Return the error that the table lacks the column of the run's queries, with the option that names it."""
    name = query if isinstance(query, str) else ", ".join(query)
    (closest,) = difflib.get_close_matches(name, columns, n=1, cutoff=0)
    found = f"has no column {name!r}, which held the query in training (columns: {shortened(columns, 8)})"
    return DataError.at(data, found, cure=f"name it with --column, such as --column query={closest}")


def _with_model_features(
    reader: "TableReader", columns: Sequence[str], record: "Record", data: Path
) -> "TableReader":
    """Return a reader of the model's features, if the table has all of them; others are a caution on stderr."""
    from ltr_harness.data.readers.column_names import columns_named
    from ltr_harness.experiments.runs.scoring import ignored_columns

    features = tuple(record.features)
    if reader.features is not None or not features or not set(features) <= set(columns):
        return reader
    reader = reader.model_copy(update={"features": features})
    used = {*features, *reader.roles(), *reader.no_features(), "document_id"}
    ignored = columns_named([name for name in columns if name not in used], columns)
    echo_cautions(ignored_columns(ignored, record.model, str(data)))
    return reader


def _write(path: Path, split: "RankingDataset", scores: "NDArray[np.float64]", model: str) -> None:
    """Write the scores, in the order in which the data's file has the rows."""
    import numpy as np

    order = np.arange(split.n_rows) if split.file_order is None else split.file_order
    if path.suffix == ".npy":
        np.save(path, scores[order])
    elif path.suffix == ".txt":
        path.write_text("".join(f"{score!r}\n" for score in scores[order].tolist()))
    elif path.suffix == ".run":
        _write_run(path, split, scores, tag="_".join(model.split()))
    else:
        _write_table(path, split, scores, order)


def _rows_in_queries(split: "RankingDataset") -> "NDArray[np.int64]":
    """Return the place of each row in its query, from 0."""
    import numpy as np

    groups = split.groups
    return np.arange(split.n_rows) - np.repeat(groups.boundaries[:-1], groups.sizes)


def _write_run(path: Path, split: "RankingDataset", scores: "NDArray[np.float64]", tag: str) -> None:
    """Write a TREC run, each query from its highest score."""
    import numpy as np

    documents = split.judgments.document_ids
    assert documents is not None  # or they would have been refused before scoring
    sizes = split.groups.sizes
    order = np.lexsort((-scores, np.repeat(np.arange(split.n_queries), sizes)))
    queries, ranks = np.repeat(split.groups.ids, sizes)[order], _rows_in_queries(split) + 1
    rows = zip(queries, documents[order], ranks, scores[order].tolist(), strict=True)
    path.write_text(
        "".join(f"{query} Q0 {name} {rank} {score!r} {tag}\n" for query, name, rank, score in rows)
    )


def _write_table(
    path: Path, split: "RankingDataset", scores: "NDArray[np.float64]", order: "NDArray[np.int64]"
) -> None:
    import numpy as np
    import pandas as pd

    columns = {"query_id": np.repeat(split.groups.ids, split.groups.sizes), "row": _rows_in_queries(split)}
    documents = split.judgments.document_ids
    if documents is not None:
        columns["document_id"] = documents
    frame = pd.DataFrame({**columns, "score": scores}).iloc[order]
    if path.suffix == ".parquet":
        frame.to_parquet(path, index=False)
        return
    names = frame.columns.drop(["row", "score"])
    frame[names] = frame[names].map(lambda name: csv_cell(name) if isinstance(name, str) else name)
    frame.to_csv(path, index=False, sep="," if path.suffix == ".csv" else "\t")
