"""By how much a metric changes when two rows of a ranking change places: what an objective weighs pairs by.

Every metric here is one of five forms, and each form knows all changes after one pass over a query. In what follows
a row at rank a stands above one at rank b, `x` is what a row is worth and D(r) what rank r counts, 0 beyond the cutoff.

    sum         Σ x_r D(r)                       |x_a - x_b| |D(a) - D(b)|
    first hit   D(rank of the first x > 0)       |D(first rank afterwards) - D(first rank)|
    precision   Σ over x_r > 0 of B(r) D(r)      B(r) = Σ over t <= r of (1 + blend x_t) over x_t > 0; prefix sums
    cascade     Σ x_r D(r) Π over t < r (1 - x_t) prefix sums and the ratio (1 - x_b) / (1 - x_a)
    pairs       Σ over pairs of 1                1: such a metric is a sum over pairs already
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from ltr_harness.data.arrays import KeepsArrays

SwapForm = Literal["sum", "first hit", "precision", "cascade", "pairs", "own"]
SwapFunction = Callable[[int, NDArray[np.int64], int], NDArray[np.float64]]
"""From a query's number, its rows in rank order (n,) and a number of ranks m to float64 (m, n): by how much the
query's value changes when the rows at ranks a + 1 <= m and b + 1 > a + 1 change places. Signs and places with b <= a
are not looked at."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SwapChange(KeepsArrays):
    """The change of a metric when two rows of a ranking change places, for one set of judgments.

    Attributes:
        form: one of the forms above, or ``own`` with a function.
        worth: float64 (n_rows,), what a row is worth to the metric; of two rows the better one is worth more, and two
            that are worth the same are interchangeable.
        scale: float64 (n_queries,), by which each query's sum is multiplied; 0 where the query has no value.
        rank_worth: D of ranks 1, 2, …: float64 (n_ranks,), 0 beyond it; with `per_query` one after the other for each
            query, (n_rows,).
        per_query: see `rank_worth`.
        depth: int64 (n_queries,), ranks that count; None where `rank_worth` says it.
        blend: of ``precision``, how much worth counts beside the mere number of relevant rows.
        continuation: of ``cascade``, the chance to go on from rank to rank.
        distance_worth: D(1), D(2), … without cutoff, for weights that go by how far two rows stand apart; only of DCG.
        function: of ``own``.

    Example:
        Precision at 2 of one query with three rows: swapping ranks 2 and 3 moves it by 1/2.

        >>> relevant = np.array([1.0, 0.0, 1.0])
        >>> change = SwapChange(form="sum", worth=relevant, scale=np.array([0.5]), rank_worth=np.ones(2))
        >>> change.depth is None
        True
    """

    form: SwapForm
    worth: NDArray[np.float64]
    scale: NDArray[np.float64]
    rank_worth: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    per_query: bool = False
    depth: NDArray[np.int64] | None = None
    blend: float = 0.0
    continuation: float = 1.0
    distance_worth: NDArray[np.float64] | None = None
    function: SwapFunction | None = None

    def with_rows(self, rows: NDArray[np.int64]) -> Self:
        """The change of lists of these rows alone, the first of each query's, which become rows 0, 1, 2, …

        Args:
            rows: int64 (n_kept,), ascending.
        """
        function_of_all = self.function
        of_kept: SwapFunction | None = None
        if function_of_all is not None:

            def of_kept(query: int, ranked: NDArray[np.int64], n_top: int) -> NDArray[np.float64]:
                return function_of_all(query, rows[ranked], n_top)

        return replace(
            self,
            worth=self.worth[rows],
            rank_worth=self.rank_worth[rows] if self.per_query else self.rank_worth,
            function=of_kept,
        )

    def changes_nothing(self, longest: int) -> bool:
        """Tell whether all ranks of the longest query count the same, so that no swap changes anything.

        Args:
            longest: its rows.
        """
        counted = self.rank_worth[:longest]
        return (
            self.form in ("sum", "first hit")
            and not self.per_query
            and self.depth is None
            and counted.size == longest > 1
            and bool(np.all(counted == counted[0]))
        )
