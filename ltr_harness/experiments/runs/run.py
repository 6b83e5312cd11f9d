"""A finished run, read back from its folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from ltr_harness._util.cores import available_cores
from ltr_harness._util.digests import sha256
from ltr_harness._util.display import Displayed
from ltr_harness._util.files import file_digest, stored_file
from ltr_harness._util.stored import Stored, read_stored, refuse_twice, stored_content, validated
from ltr_harness._util.text import count_of, plural
from ltr_harness._util.user_code import resolve_trusted, trusting
from ltr_harness.data.arrays import number_matrix
from ltr_harness.data.columns import array_of
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.data.readers.rows import check_alignment, with_categories, with_columns
from ltr_harness.errors import DataError
from ltr_harness.experiments.runs.folder import RECORD
from ltr_harness.experiments.runs.record import Record
from ltr_harness.experiments.runs.scoring import (
    ignored_columns,
    is_frame,
    is_sparse,
    matrix_cautions,
    rows_of_frame,
    scores_of_sparse,
    scoring_cautions,
    warn_of,
)
from ltr_harness.metrics.core.headroom import is_computed_column

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from ltr_harness.models.ranker import FittedModel, Ranker

PER_QUERY = "per_query.parquet"
TEST_SCORES = "test_scores.parquet"
MISSED = "missed.parquet"
HISTORY = "history.parquet"
IMPORTANCE = "importance.parquet"
RANGES = "ranges.parquet"
PLAN = "plan.json"

_RESTORE = "run the experiment again to restore it"

_NEEDED = {
    PER_QUERY: ("query_id",),
    TEST_SCORES: ("query_id", "label", "score"),
    MISSED: ("query_id", "label"),
    HISTORY: ("round", "split", "metric", "value"),
    IMPORTANCE: ("feature", "gain", "split"),
    RANGES: ("feature", "low", "high"),
}
_NUMBERS = {
    PER_QUERY: ("rows", "n_relevant"),
    TEST_SCORES: ("row", "label", "score"),
    MISSED: ("label",),
    HISTORY: ("round", "value"),
    IMPORTANCE: ("gain", "split"),
    RANGES: ("low", "high"),
}


@dataclass(frozen=True, eq=False)
class Run(Displayed):
    """One model, one fold, one seed: the record of its training, its scores, and the model itself.

    Attributes:
        path: the run folder.
        record: identity, configuration, data digests, versions, timing, best round, metric means, status.
        trust: whether code that the folder names or holds, a ranker from a file or a pickle, may be executed.
        record_digest: SHA-256 of the file that the record was read from; empty where it was read from none.
    """

    path: Path
    record: Record
    trust: bool = False
    record_digest: str = ""

    @property
    def per_query(self) -> pd.DataFrame:
        """One row per test query: query_id, rows, n_relevant, and a column per metric (NaN if undefined)."""
        return self._table(PER_QUERY)

    @property
    def test_scores(self) -> pd.DataFrame:
        """One row per test row: query_id, row, label, score."""
        return self._table(TEST_SCORES)

    def score_columns(self, *names: str) -> dict[str, NDArray[Any]]:
        """Return the stored ones of these columns of `test_scores`: repeated ids cost ten times as much as numbers."""
        table = self._arrow(TEST_SCORES, names)
        return {name: array_of(table[name]) for name in table.column_names}

    def stored_columns(self, name: str) -> dict[str, NDArray[Any]]:
        """Return the columns of a stored table, such as `PER_QUERY`, as its frame has them."""
        table = self._stored_table(name)
        return {column: array_of(table[column]) for column in table.column_names}

    @cached_property
    def judgments(self) -> Judgments:
        """The labels of the test rows and, where the data name them, of the missed documents."""
        queries, stored = self.stored_columns(PER_QUERY), self.score_columns("label", "document_id")
        labels, documents = stored["label"], stored.get("document_id")
        ids, sizes = queries["query_id"], queries["rows"].astype(np.int64)
        if MISSED not in self.record.files:
            groups = QueryGroups.from_sizes(sizes, ids)
            return Judgments.checked(labels, groups, document_ids=documents, recurring=True)
        missed = self._table(MISSED)
        place = {query: number for number, query in enumerate(ids.tolist())}
        try:
            missed_queries = np.array([place[query] for query in missed["query_id"].tolist()], dtype=np.int64)
        except KeyError as query:
            found = f"query {query} is not in {PER_QUERY}"
            raise DataError(f"{self.path / MISSED}: {found}; {_RESTORE}") from None
        query_of_row = np.concatenate((np.repeat(np.arange(ids.size), np.maximum(sizes, 0)), missed_queries))
        order = np.argsort(query_of_row, kind="stable")
        if documents is not None and "document_id" in missed:
            documents = np.concatenate((documents, missed["document_id"].to_numpy()))[order]
        else:
            documents = None
        return Judgments.checked(
            np.concatenate((labels, missed["label"].to_numpy()))[order],
            QueryGroups.from_sizes(np.bincount(query_of_row, minlength=ids.size), ids),
            document_ids=documents,
            retrieved=order < labels.size,
            recurring=True,
        )

    @property
    def history(self) -> pd.DataFrame:
        """One row per evaluated round, split and metric: round (from 1), split, metric, value."""
        return self._table(HISTORY)

    @property
    def importance(self) -> pd.DataFrame | None:
        """One row per feature: feature, gain (the loss its splits took away), split (how many); None without trees."""
        return self._table(IMPORTANCE) if IMPORTANCE in self.record.files else None

    @property
    def ranges(self) -> pd.DataFrame | None:
        """One row per numeric feature: feature, low and high in training, NaN where all are missing.

        None in runs of earlier versions.
        """
        return self._table(RANGES) if RANGES in self.record.files else None

    @cached_property
    def model(self) -> FittedModel:
        """The stored model, cut to its best round.

        Raises:
            UsageError: its ranker is from a file, or a pickle, which is not executed unless the run is trusted.
        """
        return self.model_on()

    @property
    def model_files(self) -> list[str]:
        """The names of the files that the model is stored in."""
        return [name for name in self.record.files if name.startswith("model.")]

    def load_model_as(self, ranker: type[Ranker], threads: int | None = None) -> FittedModel:
        """Load the stored model by a class that the caller has, whatever the record names."""
        for name in self.model_files:
            self._intact(name)
        return ranker.load(self.path, threads or min(self.record.threads, available_cores()))

    def model_on(self, threads: int | None = None) -> FittedModel:
        """Load the stored model to score on so many threads; by default the run's, of those that this machine has.

        Raises:
            UsageError: as for `model`.
        """
        from ltr_harness.models.table import catalog

        rankers = [*(part.ranker for part in self.record.parts.values()), self.record.ranker]
        classes = [catalog.load(resolve_trusted(name, self.path, self.trust)) for name in rankers]
        with trusting(self.trust, self.path):
            return self.load_model_as(classes[-1], threads)

    def score(self, features: ArrayLike | pd.DataFrame) -> NDArray[np.float64]:
        """Score rows with the stored model.

        Args:
            features: a frame of pandas, Polars or Arrow, whose columns are found by name: others are left out with a
                warning, and those that were text in training are text. Or an array or a sparse matrix of SciPy
                (n_rows, n_features) in the order of `record.features`, NaN for missing; texts are places in
                `record.categories`, and what a sparse matrix leaves out is 0.

        Returns:
            float64 (n_rows,), higher ranks first.

        Raises:
            DataError: a frame lacks a feature, or an array has another number of columns.
        """
        if is_sparse(features):
            return scores_of_sparse(features, self._score_array)
        if not is_frame(features) or not self.record.features:
            matrix = self._matrix(features)
            warn_of(matrix_cautions(matrix, self.record, self.ranges))
            return self.model.score(matrix)
        rows = rows_of_frame(features, self.record)
        if rows is None:
            return self._score_array(np.empty((0, len(self.record.features)), np.float32))
        rows = self.with_model_columns(rows)
        warn_of(scoring_cautions(rows, self.record, self.ranges))
        return self.model.score(rows.features)

    def _score_array(self, features: Any) -> NDArray[np.float64]:
        return self.model.score(self._matrix(features))

    def _matrix(self, features: Any) -> NDArray[np.float32]:
        """Rows whose columns have the order of training."""
        n_wanted = self.record.data["train"].n_features
        numbers = number_matrix(features, f"expected shape (n_rows, {n_wanted})")
        matrix = np.asarray(numbers, dtype=np.float32)
        if matrix.ndim != 2 or matrix.shape[1] != n_wanted:
            raise DataError(
                f"features of shape {matrix.shape}; {self.record.model} was trained on {count_of(n_wanted, 'column')}: "
                f"expected shape (n_rows, {n_wanted})"
            )
        return matrix

    def score_split(self, split: RankingDataset, threads: int | None = None) -> NDArray[np.float64]:
        """Score a dataset's rows: its columns are found by name, in whatever order they are.

        Args:
            split: the rows; their labels are not looked at.
            threads: for scoring; as many as trained the model unless given.

        Returns:
            float64 (n_rows,), higher ranks first, in the dataset's row order; ``scores[split.file_order]`` are in that
            of its files, where scattered queries were brought together.

        Raises:
            DataError: a feature that the model was trained on is missing; or, in a format that only numbers its
                features, there is one that training never saw.
        """
        model = self.model if threads is None else self.model_on(threads)
        rows = self.with_model_columns(split)
        # what reading them left to say is in the dataset
        warn_of(
            caution
            for caution in scoring_cautions(rows, self.record, self.ranges)
            if caution not in split.cautions
        )
        return model.score_split(rows)

    def with_model_columns(self, split: RankingDataset) -> RankingDataset:
        """Return the dataset with the columns of the model's training data, in their order.

        Raises:
            DataError: as for `score_split`.
        """
        names = tuple(self.record.features)
        categories = self._categories
        if not names or (split.feature_names == names and split.categories == categories):
            return split
        if not split.sparse:  # tables name their columns: those that the model does not know are left out
            model_columns = [name for name in split.feature_names if name in set(names)]
            other_columns = [name for name in split.feature_names if name not in set(names)]
            left_out = ignored_columns(other_columns, self.record.model, split.source)
            split = replace(with_columns(split, tuple(model_columns)), cautions=(*split.cautions, *left_out))
        none = np.empty((0, len(names)), np.float32)
        trained_on = RankingDataset(none, split.judgments, names, categories=categories)
        check_alignment({"train": trained_on, "new": split})
        return with_categories(with_columns(split, names), categories)

    @property
    def _categories(self) -> dict[str, tuple[str, ...]]:
        return {name: tuple(texts) for name, texts in self.record.categories.items()}

    @cached_property
    def _read(self) -> dict[str, pa.Table]:
        """The tables that were read so far, by file name."""
        return {}

    def _table(self, name: str) -> pd.DataFrame:
        """Return a frame of the caller's own: changes to it are none of the run's."""
        frame: pd.DataFrame = self._stored_table(name).to_pandas(use_threads=False, ignore_metadata=True)
        return frame

    def _stored_table(self, name: str) -> pa.Table:
        """Return a stored table, read once."""
        if name not in self._read:
            table = self._arrow(name)
            if name == PER_QUERY:
                self._refuse_lacking_metrics(table)
            if name == IMPORTANCE:
                self._refuse_importance(table)
            self._read[name] = table
        return self._read[name]

    def _refuse_lacking_metrics(self, table: pa.Table) -> None:
        lacking = [metric for metric in self.record.metrics if metric not in table.column_names]
        if lacking:
            found = f"{RECORD} names {', '.join(lacking)}, of which {PER_QUERY} has no column"
            raise DataError(f"{self.path}: {found}; remove the folder and run the experiment again")

    def _refuse_importance(self, table: pa.Table) -> None:
        numbers = np.array([array_of(table[kind]) for kind in ("gain", "split")], dtype=np.float64)
        if not ((numbers >= 0) & (numbers < 1e300)).all():
            found = "has a gain or a split that is not a finite number from 0 on"
            raise DataError(f"{self.path / IMPORTANCE}: {found}; {_RESTORE}")

    def _arrow(self, name: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Return a stored table, or some of its columns, with the numbers that it must have."""
        import pyarrow.compute as compute
        import pyarrow.parquet as parquet

        if name in (PER_QUERY, TEST_SCORES):
            self.require_test()
        self._intact(name)
        try:
            file = parquet.ParquetFile((self.path / name).absolute())
            refuse_twice(file.schema_arrow.names)
            fields = {field.name: field.type for field in file.schema_arrow}
            self._refuse_fields(name, fields)
            names = None if columns is None else [requested for requested in columns if requested in fields]
            # a run's files are small and many: threads and the search for a data set in a folder cost more than reading
            table = file.read(columns=names, use_threads=False)
            ids = table["query_id"] if "query_id" in table.column_names else None
            if ids is not None and compute.any(compute.is_null(ids, nan_is_null=True)).as_py():
                raise ValueError("its column query_id has an empty place")
            return table
        except (ValueError, OSError, pa.ArrowException) as problem:
            reason = (str(problem).strip() or type(problem).__name__).splitlines()[0]
            raise DataError(f"{self.path / name}: cannot be read ({reason}); {_RESTORE}") from None

    def _refuse_fields(self, name: str, fields: Mapping[str, pa.DataType]) -> None:
        """Raise a ValueError where a stored table lacks a column, or where a column of numbers has none."""
        numbers = [*_NUMBERS[name], *filter(is_computed_column, fields)]
        if name == PER_QUERY:
            numbers += self.record.metrics
        for column in numbers:
            kind = fields.get(column, pa.float64())
            if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
                raise ValueError(f"its column {column} holds {kind}, not numbers")
        if lacking := {*_NEEDED[name]} - {*fields}:
            raise ValueError(f"it has no column {min(lacking)}")

    def require_test(self) -> None:
        """Raise a DataError where the model was trained on all rows, and none was left to test it on."""
        if self.record.data.keys() == {"train"}:
            found, cure = "was trained on all rows and has no test queries", "name labelled rows with --data"
            raise DataError.at(self.path, found, cure=f"where a command takes it, {cure}")

    def _intact(self, name: str) -> None:
        path = self.path / name
        try:
            digest = file_digest(stored_file(self.path, name))
        except OSError as problem:
            raise DataError(f"{path}: {problem.strerror}; {_RESTORE}") from None
        if digest != self.record.files.get(name):
            raise DataError(f"{path}: not the file its {RECORD} describes (changed or cut short); {_RESTORE}")

    def __repr__(self) -> str:
        return f"Run({self.record.model!r}, fold={self.record.fold!r}, seed={self.record.seed}, {self.path})"


def load_run(path: str | Path, *, trust: bool = False) -> Run:
    """Read a run folder.

    Args:
        path: the folder.
        trust: execute the code that it names or holds, where its ranker is from a file or its model a pickle.

    Raises:
        DataError: no such folder, no record in it, or a record of another schema.

    Returns:
        The run; its tables and its model are read when first asked for, and checked against their digests.
    """
    folder = Path(path).expanduser()
    if not folder.is_dir():
        raise DataError(f"{folder}: no such run folder")
    try:
        content = stored_content(folder, RECORD)
        return Run(folder, validated(Record, content), trust, sha256(content))
    except FileNotFoundError:
        reason = f"has no {RECORD}; expected a run folder written by `ltr-harness run`"
    except OSError as problem:
        reason = f"{RECORD} {problem.strerror}; expected a run folder written by `ltr-harness run`"
    except ValueError as problem:
        reason = f"{RECORD} does not hold what a record must ({problem}); run the experiment again"
        if str(problem).startswith("has schema version"):
            reason = f"{RECORD} {problem}"
        if str(problem).startswith("Invalid JSON"):
            reason = f"{RECORD} is not JSON (cut short?); run the experiment again"
    raise DataError(f"{folder}: {reason}")


def find_runs(folder: Path) -> list[Run]:
    """Return the runs of a folder: itself; those of an experiment's last plan; or all in it, in order of name."""
    if (folder / RECORD).exists():
        return [load_run(folder)]
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; expected a run folder or an experiment's folder of runs")
    return [load_run(path) for path in planned_runs(folder)[0]]


def planned_runs(folder: Path) -> tuple[list[Path], int]:
    """Return the run folders of an experiment's folder, see `find_runs`, and how many of its plan are lacking."""
    folders = {path.parent.name: path.parent for path in sorted(folder.glob(f"*/{RECORD}"))}
    try:
        names = list(dict.fromkeys(read_stored(_Plan, folder, PLAN).runs))
    except (OSError, ValueError):
        names = list(folders)
    planned = [folders[name] for name in names if name in folders]
    return planned, len(names) - len(planned)


def plan_in_words(folder: Path) -> str:
    """Return the text about lacking runs of an experiment's last plan, and about its others; "" where none lacks."""
    planned, n_lacking = planned_runs(folder)
    if not n_lacking:
        return ""
    n = count_of(len(planned) + n_lacking, "run")
    found = f"its last plan ({PLAN}) has {n}, of which {len(planned):,} {plural('is', len(planned))} there"
    names = {path.parent.name for path in folder.glob(f"*/{RECORD}")} - {path.name for path in planned}
    if not names:
        return found
    models = Counter(name.partition("--")[0] for name in sorted(names))
    counts = ", ".join(f"{model}: {count:,}" for model, count in models.items())
    return f"{found}; {count_of(len(names), 'run')} of other plans {plural('is', len(names))} there too ({counts})"


OTHER_PLANS = "run the experiment again to finish it, or name run folders one by one"
"""The cure where a plan lacks runs."""


def plan_document(names: Sequence[str]) -> bytes:
    """Return the plan of an experiment's folder: which run folders, in which order, it stands for."""
    return f"{_Plan(runs=list(names)).model_dump_json(indent=2)}\n".encode()


class _Plan(Stored):
    runs: list[str]
