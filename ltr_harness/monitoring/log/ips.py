"""What clicks are worth once the page is divided out: gains over the probability that the user looked there."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ltr_harness.groups import Judgments
from ltr_harness.logs.batch import THREADS
from ltr_harness.metrics import Binding
from ltr_harness.metrics.core.gains import gains_of
from ltr_harness.metrics.dcg import DCG
from ltr_harness.monitoring.config import MonitorConfig

Floats = NDArray[np.float64]


def ips_dcg(
    judgments: Judgments, scores: Floats, propensity: Floats | None, config: MonitorConfig
) -> dict[str, Floats]:
    """IPS-DCG: DCG of gains divided by the probability that the user looked there, unbiased for DCG.

    Shapes: `scores` (n_rows,), `propensity` (n_rows,).
    """
    if propensity is None:
        return {}
    gain = getattr(config.primary, "gain", "linear")
    weighted = gains_of(judgments, gain, str(config.primary)) / propensity
    start = judgments.groups.boundaries[:-1]
    metric = DCG(k=config.primary.k, gain="linear")
    binding = Binding([metric], Judgments(weighted, judgments.groups), THREADS)
    ips = binding.per_query(scores)[0]
    return {
        "ips": np.where(np.isnan(ips), 0.0, ips),  # a query without clicks has gained nothing
        "ips_weight": np.add.reduceat(weighted, start),
        "ips_squares": np.add.reduceat(weighted**2, start),
    }
