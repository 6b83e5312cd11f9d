"""Success: did the user see anything relevant at all."""

from dataclasses import dataclass

import numpy as np

from ltr_harness.data.arrays import Floats
from ltr_harness.metrics.mrr import FirstHitMetric


@dataclass(frozen=True, kw_only=True)
class Success(FirstHitMetric):
    """Presence of a relevant document among the first K: 1 or 0 per query.

    Success@K, also hit rate or hit@K. With ties, the chance that they fall so.

    Source: trec_eval's ``success``; as the top-k accuracy of passage retrieval: Karpukhin et al. 2020; expectation
        under ties: McSherry & Najork 2008.

    When to use: A page either helps or does not: does any of the first K documents help? Easy to explain, and
        the share of queries without a hit is what support tickets are about.

    When not: To tell good models apart: it is coarse, needs many queries, and is near 1 where most documents
        are relevant.

    Missed documents: They have no rank: the value stays. It is 0, not undefined, where every relevant document
        was missed.

    Example:
        >>> from ltr_harness import evaluate
        >>> ev = evaluate([0, 1, 1, 0], [2.0, 1.0, 2.0, 1.0], group_sizes=[2, 2], metrics=["success@1"])
        >>> ev.means["success@1"]
        0.5
    """

    name = "success"
    source = "trec_eval (success)"

    def hit_values(self, n_ranks: int) -> Floats:
        return np.ones(n_ranks)
