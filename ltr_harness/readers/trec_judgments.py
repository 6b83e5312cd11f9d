"""Judgments of many rows that nobody judged: what most metrics do not ask for is made when somebody does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness.groups import Grades, Judgments, QueryGroups
from ltr_harness.subtopics import Subtopics


def judgments_of(
    labels: NDArray[Any],
    judged: NDArray[np.bool_],
    groups: QueryGroups,
    subtopics: Subtopics | None,
    names: Callable[[NDArray[np.int64]], NDArray[np.str_]],
) -> Judgments:
    """Judgments whose rows get labels of eight bytes, and names, when somebody asks for them.

    Shapes: `labels` (n_rows,), `judged` (n_rows,), `names` (n,).
    """
    return _Compact(labels, groups, judged=judged, subtopics=subtopics, names=names)


@dataclass(frozen=True, eq=False)
class _Compact(Judgments):
    """See `judgments_of`."""

    names: Callable[[NDArray[np.int64]], NDArray[np.str_]] = field(kw_only=True)
    _given: NDArray[Any] = field(init=False)  # labels, as narrow as they came

    def __post_init__(self) -> None:
        del self.__dict__["document_ids"]
        self.__dict__["_given"] = self.__dict__.pop("labels")

    @cached_property  # type: ignore[misc]  # read only, as the field is
    def labels(self) -> NDArray[np.float64]:
        return self._given.astype(np.float64, copy=False)

    @cached_property
    def grades(self) -> Grades | None:
        """See `Judgments`."""
        return Grades.of(self._given)

    @cached_property  # type: ignore[misc]  # read only, as the field is
    def document_ids(self) -> NDArray[Any] | None:
        return self.documents_of(np.arange(self.groups.n_rows))

    def documents_of(self, rows: NDArray[np.int64]) -> NDArray[Any] | None:
        """See `Judgments`; of the others no name is made.

        Shapes: `rows` (n,).
        """
        return self.names(rows)

    def take(self, queries: NDArray[np.int64]) -> Judgments:
        """The given queries alone, their labels and documents as late.

        Shapes: `queries` (n_kept,).
        """
        some = Judgments(self._given, self.groups, self.query_weights, None, self.judged, self.subtopics)
        taken, rows = some.take(queries), self.groups.take(queries)[1]
        return _Compact(**vars(taken), names=partial(of_some, self.names, rows))


def of_some(
    names: Callable[[NDArray[np.int64]], NDArray[np.str_]],
    some: NDArray[np.int64],
    rows: NDArray[np.int64],
) -> NDArray[np.str_]:
    """The names of some of the rows whose names are known.

    Shapes: `names` (n,), `some` (n_some,), `rows` (n,).
    """
    return names(some[rows])
