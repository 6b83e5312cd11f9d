"""`ltr-harness predict`: scores of new rows from a stored model."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ltr_harness._util.files import whole_files
from ltr_harness._util.text import count_of, csv_cell
from ltr_harness.cli import data_source, options
from ltr_harness.cli.output import say, say_cautions
from ltr_harness.errors import DataError, UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ltr_harness.data.dataset import RankingDataset
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
        raise UsageError(f"{output}: unknown kind of file; expected one of {', '.join(_SUFFIXES)}")
    stored = with_model(run, trust)
    split = _read(data, stored.record, **reader)
    documents = split.judgments.document_ids
    if output.suffix == ".run":  # which names documents, in fields between blanks
        if documents is None:
            raise UsageError(f"{output}: a TREC run names documents, and {data} has no document ids")
        for what, ids in (("query", split.groups.ids), ("document", documents)):
            bad = [name for name in dict.fromkeys(map(str, ids.tolist())) if name.split() != [name]]
            if bad:
                has_one = f"{what} {bad[0]!r} has one ({len(bad):,} such)"
                found = f"the fields of a TREC run end with blanks, and {has_one}"
                raise DataError.at(output, found, "ids without blanks", "write .csv or .parquet instead")
    model = stored.model_on(threads)  # before all else, as it may need code that is not trusted
    rows = stored.with_model_columns(split)
    say_cautions(scoring_cautions(rows, stored.record, stored.ranges))
    scores = model.score_split(rows)
    with whole_files(output) as temporary:
        _write(temporary(output), split, scores, stored.record.model)
    say(f"{count_of(split.n_rows, 'score')} of {count_of(split.n_queries, 'query')}: {output}", err=True)


def _read(
    data: Path, record: "Record", reader_name: str | None, reader_options: Sequence[str]
) -> "RankingDataset":
    """The rows; in a table they need no labels, and the model's features are read, whatever they are called."""
    from ltr_harness.data.cache import DataCache
    from ltr_harness.data.readers.column_names import columns_named
    from ltr_harness.data.readers.table_reader import TableReader
    from ltr_harness.experiments.runs.scoring import ignored_columns

    reader = data_source.made_reader(reader_name or data_source.guessed_reader(data), reader_options)
    reader = data_source.with_columns(reader, data, record.reading)
    if isinstance(reader, TableReader) and data.is_file():
        columns, features = reader.opened(data).columns, tuple(record.features)
        if reader.features is None and features and set(features) <= set(columns):
            reader = reader.model_copy(update={"features": features})
            used = {*features, *reader.roles(), *reader.no_features(), "document_id"}
            others = columns_named([name for name in columns if name not in used], columns)
            say_cautions(ignored_columns(others, record.model, str(data)))
        if not reader.categorical:
            texts = tuple(name for name in record.categories if name in columns)
            reader = reader.model_copy(update={"categorical": texts})
        if reader.label not in columns:
            return reader.without_labels().read([str(data)], Path())
    return DataCache().read(reader, [str(data)], Path()).dataset


def _write(path: Path, split: "RankingDataset", scores: "NDArray[np.float64]", model: str) -> None:
    """The scores, in the order in which the data's file has the rows."""
    import numpy as np

    order = np.arange(split.n_rows) if split.file_order is None else split.file_order
    if path.suffix == ".npy":
        np.save(path, scores[order])
        return
    if path.suffix == ".txt":
        path.write_text("".join(f"{score!r}\n" for score in scores[order].tolist()))
        return
    sizes, documents = split.groups.sizes, split.judgments.document_ids
    queries = np.repeat(split.groups.ids, sizes)
    within = np.arange(split.n_rows) - np.repeat(split.groups.boundaries[:-1], sizes)
    if path.suffix == ".run":
        assert documents is not None  # asked before scoring
        order = np.lexsort((-scores, np.repeat(np.arange(split.n_queries), sizes)))
        tag = "_".join(model.split())
        rows = zip(queries[order], documents[order], within + 1, scores[order].tolist(), strict=True)
        lines = (f"{query} Q0 {name} {rank} {score!r} {tag}\n" for query, name, rank, score in rows)
        path.write_text("".join(lines))
        return
    import pandas as pd

    columns = {"query_id": queries, "row": within}
    if documents is not None:
        columns["document_id"] = documents
    frame = pd.DataFrame({**columns, "score": scores}).iloc[order]
    if path.suffix == ".parquet":
        frame.to_parquet(path, index=False)
    else:
        names = frame.columns.drop(["row", "score"])
        frame[names] = frame[names].map(lambda name: csv_cell(name) if isinstance(name, str) else name)
        frame.to_csv(path, index=False, sep="," if path.suffix == ".csv" else "\t")
