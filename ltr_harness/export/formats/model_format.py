"""What a form of models is: how one is written, and what the engine that reads the file computes from it."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ltr_harness.errors import MissingExtraError, Problem, UsageError
from ltr_harness.export.forest import Forest
from ltr_harness.rankers.ranker import FittedModel

Scores = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""From float64 (n_rows, n_features), NaN for missing, to float64 (n_rows,)."""


class ModelFormat(ABC):
    """One form. Its two halves know nothing of each other, so that the second can find the first in the wrong."""

    name: ClassVar[str]

    rules: ClassVar[tuple[str, ...]]
    """How the engine evaluates, in plain lines: thresholds, comparison, missing values, arithmetic."""

    takes_categories: ClassVar[bool] = False
    """Whether it has splits on categories; if not, models that have some are refused before `write`."""

    versions: str = ""
    """Of the engine, whose rules `read` follows, such as "before 3.2"; empty where all read alike."""

    def for_engine(self, version: str) -> Self:
        """The form as a version of its engine reads it.

        Raises:
            UsageError: all versions read it alike, or this is no version.
        """
        raise UsageError(
            Problem("--engine-version", f"all versions read the form {self.name} alike", cure="leave it out")
        )

    @abstractmethod
    def write(self, forest: Forest, model: FittedModel, path: Path) -> None:
        """Write the file, and beside it, in the same folder, what the engine wants besides.

        Args:
            forest: the model's trees.
            model: the same, with the library's own object, for forms that the library writes.
            path: of the file; whatever else is written stands beside it.

        Raises:
            DataError: the form has no place for something that the model needs.
        """

    @abstractmethod
    def read(self, path: Path, feature_names: Sequence[str]) -> Scores:
        """What the engine computes from the written file alone.

        Args:
            path: of the file.
            feature_names: of the columns that are handed to the result, as in the data.

        Raises:
            DataError: the engine would not read it.
        """


def package(name: str, extra: str | None = None) -> Any:
    """A library that a form needs, imported now.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        extra = extra or name
        cure = f"pip install 'ltr-harness[{extra}]'"
        raise MissingExtraError(Problem(f"--to {extra}", f"needs the package {name}", cure=cure)) from None
