"""F1: precision and recall in one number."""

from dataclasses import dataclass
from typing import Literal

from ltr_harness.metrics.core import Ints
from ltr_harness.metrics.core.metric import Cutoffs
from ltr_harness.metrics.precision import HitsMetric, rows_looked_at


@dataclass(frozen=True, kw_only=True)
class F1(HitsMetric):
    """Harmonic mean of precision and recall of the first K documents.

    F1@K = 2 P R / (P + R) = 2 (relevant documents in the first K) / (K + R): linear in the hits, which is why its
    expectation under ties is exact too.

    Attributes:
        denominator: what its precision divides by: ``k``, or ``min_kn`` where the list is shorter.

    Source: van Rijsbergen 1979.

    When to use: One number for precision and recall at K, where both matter alike and order within K does
        not.

    When not: Where one of the two matters more, or where order does: it hides which of the two moved.

    Missed documents: They count in R, which recall divides by: the value falls.

    Example:
        >>> from ltr_harness import evaluate
        >>> ev = evaluate([1, 0, 1], [3.0, 2.0, 1.0], group_sizes=[3], metrics=["f1@2"])
        >>> ev.means["f1@2"]  # P = R = 1/2
        0.5
    """

    denominator: Literal["k", "min_kn"] = "k"

    name = "f1"
    counts_worthless_rows = True
    multiple = 2.0
    divisor_name = "(K + R) / 2"
    source = "van Rijsbergen 1979"

    def divisor(self, lengths: Ints, n_relevant: Ints, cutoffs: Cutoffs) -> Ints:
        return rows_looked_at(lengths, cutoffs, self.denominator) + n_relevant
