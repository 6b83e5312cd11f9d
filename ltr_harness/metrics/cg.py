"""CG: cumulative gain."""

from dataclasses import dataclass

from ltr_harness.metrics.core.gains import GainMetric
from ltr_harness.metrics.dcg import CumulatedMetric


@dataclass(frozen=True, kw_only=True)
class CG(GainMetric, CumulatedMetric):
    """Graded relevance of the first K documents, in whatever order: DCG without a discount.

    CG@K = sum over ranks r <= K of gain(label_r). A tie group counts its mean gain at each of its ranks.

    Attributes:
        gain: ``exp`` 2^g - 1 (integer grades; ``exp_real`` any), ``linear`` g, or a table ``{0: 0, 1: 1, 2: 5}``.

    Source: Järvelin & Kekäläinen 2002, whose gain is the grade itself: ``gain=linear``.

    When to use: The first K are shown at once, in no order that matters, and grades differ: `precision` for
        graded labels.

    When not: Where the order within the first K matters: use `dcg`. To average over queries or to compare data
        sets: like DCG it has no upper bound and grows with a query's relevant documents; `ndcg` divides by the best.

    Missed documents: They have no rank: the value stays. It is 0, not undefined, where every relevant document
        was missed.

    Example:
        >>> from ltr_harness import evaluate
        >>> ev = evaluate([3, 2, 0], [3.0, 2.0, 1.0], group_sizes=[3], metrics=["cg@2"])
        >>> ev.means["cg@2"]  # 7 + 3
        10.0
    """

    name = "cg"
    bounds = (0.0, float("inf"))
    source = "Järvelin & Kekäläinen 2002"

    @property
    def is_linear_sum(self) -> bool:
        return bool(self.gain == "linear")
