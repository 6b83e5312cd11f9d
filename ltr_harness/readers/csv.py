"""Comma- or tab-separated files with a header row."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from ltr_harness.compression import bare_name
from ltr_harness.readers.delimited import Delimited
from ltr_harness.readers.tables import TableReader


class Csv(TableReader):
    r"""Text tables with named columns, plain or compressed (gzip, zstd, bzip2, xz).

    An empty cell, ``NULL``, ``NA`` or ``NaN`` in a feature is a missing value. Query ids are taken as they are
    written, so ``7`` and ``007`` are two queries.
    """

    separator: str | None = Field(
        default=None,
        min_length=1,
        max_length=1,
        description=r"Character between fields. Default: a tab for files called *.tsv, else a comma.",
    )

    def opened(self, path: Path) -> Delimited:
        is_tsv = bare_name(path.name).endswith((".tsv", ".tab"))
        return Delimited(path, self.separator or ("\t" if is_tsv else ","))
