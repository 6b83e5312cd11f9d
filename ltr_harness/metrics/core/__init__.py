"""The parts that all metrics share: the interface, names and parameters, binding to judgments, ranking rows, gains."""

from ltr_harness.data.arrays import Bools, Floats, Ints
from ltr_harness.data.judgments import Judgments
from ltr_harness.metrics.core.ranking import Lists, Ranking, RowRanker
from ltr_harness.metrics.core.swap_change import SwapChange

__all__ = ["Bools", "Floats", "Ints", "Judgments", "Lists", "Ranking", "RowRanker", "SwapChange"]
