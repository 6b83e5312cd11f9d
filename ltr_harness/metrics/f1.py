"""F1: precision and recall in one number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ltr_harness.metrics.core.hits import HitsMetric, rows_looked_at


@dataclass(frozen=True, kw_only=True)
class F1(HitsMetric):
    """How well the first K documents and the relevant documents coincide: the harmonic mean of precision and recall.

    F1@K = 2 P R / (P + R) = 2 (relevant documents in the first K) / (K + R): linear in the hits, which is why its
    expectation under ties is exact too.

    Attributes:
        denominator: what its precision divides by: ``k``, or ``min_kn`` where the list is shorter.

    Source: van Rijsbergen 1979.

    When to use: One number for precision and recall at K, where both matter alike and order within K does
        not.

    When not: Where one of the two matters more, or where order does: it hides which of the two moved.

    Example:
        >>> from ltr_harness import evaluate
        >>> ev = evaluate([1, 0, 1], [3.0, 2.0, 1.0], group_sizes=[3], metrics=["f1@2"])
        >>> ev.means["f1@2"]  # P = R = 1/2
        0.5
    """

    denominator: Literal["k", "min_kn"] = "k"

    name: ClassVar[str] = "f1"
    multiple: ClassVar[float] = 2.0
    divisor_name: ClassVar[str] = "(K + R) / 2"
    source: ClassVar[str] = "van Rijsbergen 1979"

    def divisor(
        self, lengths: NDArray[np.int64], n_relevant: NDArray[np.int64], cutoffs: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        return rows_looked_at(lengths, cutoffs, self.denominator) + n_relevant
