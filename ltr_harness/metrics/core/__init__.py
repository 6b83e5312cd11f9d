"""What all metrics share: the interface, names and parameters, binding to judgments, ranking rows, gains."""

from ltr_harness.groups import Judgments
from ltr_harness.metrics.core.ranking import Ranking, RowRanker
from ltr_harness.metrics.core.swap_change import SwapChange

__all__ = ["Judgments", "Ranking", "RowRanker", "SwapChange"]
