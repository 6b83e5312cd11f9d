"""Reader base classes: options of the experiment file, and one way to read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field

from ltr_harness.dataset import RankingDataset
from ltr_harness.readers.files import located


class Reader(BaseModel, ABC):
    """Turns the files of one split into a `RankingDataset`.

    The fields of a subclass are its options under ``data:`` in the experiment file; their descriptions are
    the documentation and the JSON Schema.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    default_splits: ClassVar[Mapping[str, tuple[str, ...]] | None] = None
    """Split name to files, for a reader that needs no ``splits:`` in the experiment file."""

    @abstractmethod
    def read(self, files: Sequence[str], root: Path) -> RankingDataset:
        """The rows of one split: all the files, one after the other.

        Args:
            files: names as they stand in the experiment file.
            root: the folder they are relative to.

        Raises:
            DataError: every problem found, each with file and line (or row, or query).
        """

    def inputs(self, files: Sequence[str], root: Path) -> tuple[Path, ...]:
        """Every file that `read` would open, companions included: what a record keeps digests of.

        Raises:
            DataError: a file does not exist.
        """
        return ()


class FileReader(Reader):
    """A reader of files on disk, whose queries may stand in the file in pieces."""

    regroup: bool = Field(
        default=False,
        description="Bring the rows of a query together where they are scattered over a file or over several "
        "files of a split. When false, scattered queries are an error.",
    )

    def paths(self, files: Sequence[str], root: Path) -> list[Path]:
        """The files to read, in order.

        Raises:
            DataError: a file does not exist.
        """
        return located(files, root)

    def inputs(self, files: Sequence[str], root: Path) -> tuple[Path, ...]:
        return tuple(self.paths(files, root))
