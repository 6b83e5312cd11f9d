"""LETOR files, also called svmlight or SVM-rank: ``2 qid:10 1:0.03 2:0.5 … #docid = GX008-86``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from ltr_harness.dataset import RankingDataset
from ltr_harness.readers.files import located
from ltr_harness.readers.reader import FileReader
from ltr_harness.readers.rows import assembled
from ltr_harness.readers.svmlight import read_svmlight
from ltr_harness.readers.values import ValueOptions


class Letor(FileReader, ValueOptions):
    """Text rows ``label qid:id index:value … # comment``, dense or sparse, plain or compressed (gzip, zstd, bzip2, xz).

    As LETOR 3/4, MSLR-WEB10K/30K, Istella, Yahoo LTRC and ClueWeb09 publish them. Features that a row leaves
    out are 0.0; ``NULL`` and ``nan`` are missing values (NaN). Feature indices may be unsorted; of an index
    that a row repeats the last value counts, and a note says so. Document ids come from comments ``# docid = ID`` or
    ``# docid:ID`` (also ``doc_id``, ``docno``, ``doc``) where every row has one; else from the first words of the
    comments, as in ``# 7555 Rambo``, where every row has one that stands alone or has a digit, none twice in a query.
    Rows may begin with ``label:weight``, as XGBoost's do; a query's weight is the mean of its rows'.
    """

    n_features: int | None = Field(
        default=None,
        ge=1,
        description="Number of features. Default: what the largest index in a split asks for. Give it when the "
        "last features are 0 throughout the training files and so never occur there.",
    )
    first_index: Literal[0, 1] | None = Field(
        default=None,
        description="Index of the first feature. Default: 0 for files that use an index 0, else 1.",
    )

    def read(self, files: Sequence[str], root: Path) -> RankingDataset:
        rows = read_svmlight(
            located(files, root),
            self,
            n_features=self.n_features,
            first_index=self.first_index,
            with_qid=True,
        )
        return assembled(rows, ", ".join(files), regroup=self.regroup)
