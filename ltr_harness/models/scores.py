"""Any other system in the same table, by the scores it gave: a neural ranker, yesterday's production, a TREC run."""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from ltr_harness._util.files import bare_name, suffix_of
from ltr_harness._util.text import count_of
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.readers.scores import read_scores
from ltr_harness.data.readers.trec import read_run
from ltr_harness.errors import DataError, Problem, UsageError
from ltr_harness.models.ranker import FittedModel, StoredRanker, Training, TrainingFacts, model_file

_TREC = (".run", ".trec")
_KNOWN = (".npy", ".csv", ".tsv", ".tab", ".parquet", ".pq", ".arrow", ".txt", ".scores", *_TREC)


@dataclass(frozen=True, eq=False, kw_only=True)
class ScoresModel(FittedModel):
    """A table of scores; the run keeps a copy, so that it can be read when the original is gone."""

    STEM: ClassVar[str] = "model.scores"
    file: Path

    def score(self, features: ArrayLike) -> NDArray[np.float64]:
        raise DataError(
            "scores from a file belong to its own rows and not to features; expected a ranker that is trained"
        )

    def score_split(self, split: RankingDataset) -> NDArray[np.float64]:
        return _scores(self.file, split)

    def save(self, folder: Path) -> str:
        name = self.STEM + Path(bare_name(self.file.name)).suffix + suffix_of(self.file.name)
        shutil.copyfile(self.file, Path(folder) / name)
        return name

    @classmethod
    def load(cls, folder: Path, threads: int | None = None) -> Self:
        files = sorted(Path(folder).glob(f"{cls.STEM}*"))
        return cls(file=model_file(folder, files[0].name if files else cls.STEM))


class ScoresRanker(StoredRanker):
    """Scores of another system, from a file; rows are found by query and document id, or query and row.

    Every test row must have a score. Rows of queries that are not in the test split are passed over, so one file
    can serve all folds.
    """

    trained = ScoresModel
    learns: ClassVar[bool] = False
    seed_matters: ClassVar[bool] = False

    file: Path = Field(
        description="Table (.parquet, .arrow, .csv, .tsv) with score or rank, query_id and document_id, by these or "
        "the data's own names, or row (from 0 within the query) instead of document_id; .npy or one number per line, "
        "in the order of the test files; or a TREC run (.run, .trec)."
    )

    def inputs(self) -> tuple[Path, ...]:
        return (self.file,)

    def check(self, facts: TrainingFacts | None = None) -> list[Problem]:
        if not self.file.is_file():
            return [Problem("file", f"{self.file}: no such file", f"one of {', '.join(_KNOWN)}")]
        return []

    def check_scoring(self, test: RankingDataset) -> list[Problem]:
        try:
            _scores(self.file, test)
        except UsageError as error:
            return [
                replace(problem, place="file", found=f"{problem.place}: {problem.found}".removeprefix(": "))
                for problem in error.problems
            ]
        return []

    def fit(self, training: Training) -> ScoresModel:
        self.require(training)
        return ScoresModel(file=self.file, params={"file": self.file.name})


def _scores(file: Path, split: RankingDataset) -> NDArray[np.float64]:
    documents, order = split.judgments.document_ids, split.file_order
    if not bare_name(file.name).endswith(_TREC):
        return read_scores(file, split.judgments, file_order=order, columns=split.columns, other_queries=True)
    if documents is None:
        raise DataError.at(
            file,
            "a TREC run names documents, and the data has no document ids",
            "data with document ids, or a table with query_id, row and score",
        )
    run = read_run(file)
    every = np.arange(run.scores.size)
    named = zip(run.queries.values_at(every).tolist(), run.documents.values_at(every).tolist(), strict=True)
    score_of = dict(zip(named, run.scores.tolist(), strict=True))
    ids = np.repeat(split.groups.ids.astype(str), split.groups.sizes).tolist()
    keys = list(zip(ids, documents.astype(str).tolist(), strict=True))
    rows_without_score = [row for row, key in enumerate(keys) if key not in score_of]
    if rows_without_score:
        query, document = keys[rows_without_score[0]]
        raise DataError.at(
            file,
            f"{len(rows_without_score):,} of {count_of(split.n_rows, 'row')} have no score, first in query {query!r}: "
            f"{document!r}",
            "a score for every row: leaving rows out would change every metric",
        )
    return np.array([score_of[key] for key in keys])
