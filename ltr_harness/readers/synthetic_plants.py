"""What the synthetic set can be given on request, to see whether a tool finds it.

Each plant draws from a stream of its own: asking for one changes nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from ltr_harness.readers.draws import Draws

# Streams 0, 1 and 2 are the splits themselves.
_LEAK, _CLICKS, _MARKETS, _COPIES = 10, 20, 30, 40


class Clicks(BaseModel):
    """Clicks instead of judgments, as a log has them: what was shown low was hardly seen."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    position_bias: float = Field(
        default=0.8,
        ge=0.0,
        le=1.0,
        description="A row at position p is seen with probability 1 - b + b / p; 0: all rows are seen.",
    )
    noise: float = Field(
        default=0.05,
        ge=0.0,
        le=0.5,
        description="Chance that a seen document of grade 0 is clicked, and that one of the highest grade is not.",
    )


@dataclass(frozen=True, eq=False)
class SyntheticRows:
    """One split: rows, and queries of `sizes` rows each."""

    features: NDArray[np.float32]
    labels: NDArray[np.float64]
    sizes: NDArray[np.int64]
    ids: NDArray[np.int64]
    intents: NDArray[np.str_]
    markets: NDArray[np.int64]
    positions: NDArray[np.int32]

    @property
    def starts(self) -> NDArray[np.int64]:
        starts: NDArray[np.int64] = np.cumsum(self.sizes) - self.sizes
        return starts


def markets(n_queries: int, n_markets: int, seed: int, code: int) -> NDArray[np.int64]:
    """The market of each query, 0 to n_markets - 1; each is half as large as the one before."""
    share = Draws(seed, _MARKETS + code).uniform(n_queries)
    market_of = np.zeros(n_queries, dtype=np.int64)
    for i in range(1, n_markets):
        market_of += share < 1 / (1 << i)
    return market_of


def leaking_feature(
    labels: NDArray[np.float64], strength: float, seed: int, code: int
) -> NDArray[np.float32]:
    """The label itself at strength 1, noise at strength 0.

    Shapes: `labels` (n_rows,).
    """
    noise = Draws(seed, _LEAK + code).normal(len(labels))
    return (strength * labels + (1 - strength) * noise).astype(np.float32)


def clicked(
    labels: NDArray[np.float64],
    shown_by: NDArray[np.float32],
    sizes: NDArray[np.int64],
    clicks: Clicks,
    seed: int,
    code: int,
) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Clicks (0 or 1) on rows that were shown in the order of one feature and chance, and the positions, from 1.

    Shapes: `labels` (n_rows,), `shown_by` (n_rows,), `sizes` (n_queries,).
    """
    draws = Draws(seed, _CLICKS + code)
    n = len(labels)
    query = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((-(shown_by.astype(np.float64) + draws.normal(n)), query))
    starts = np.cumsum(sizes) - sizes
    positions = np.empty(n, dtype=np.int32)
    positions[order] = np.arange(n) - np.repeat(starts, sizes) + 1
    seen = draws.uniform(n) < 1 - clicks.position_bias + clicks.position_bias / positions
    attraction = ((np.int64(1) << labels.astype(np.int64)) - 1) / 15
    liked = draws.uniform(n) < clicks.noise + (1 - 2 * clicks.noise) * attraction
    return (seen & liked).astype(np.float64), positions


def with_copies(
    parts: SyntheticRows, other: SyntheticRows, share: float, seed: int, code: int
) -> SyntheticRows:
    """A share of the queries replaced by queries of another split, under the ids they had."""
    chosen = Draws(seed, _COPIES + code).uniform(len(parts.sizes)) < share
    rows = []
    n_own = len(parts.labels)
    starts, others = parts.starts, other.starts
    sizes = parts.sizes.copy()
    for q in range(len(sizes)):
        if chosen[q]:
            k = q % len(other.sizes)
            sizes[q] = other.sizes[k]
            rows.append(n_own + np.arange(others[k], others[k] + other.sizes[k]))
        else:
            rows.append(np.arange(starts[q], starts[q] + sizes[q]))
    which = np.concatenate(rows)
    source = np.where(chosen, np.arange(len(sizes)) % len(other.sizes), 0)
    return SyntheticRows(
        np.concatenate([parts.features, other.features])[which],
        np.concatenate([parts.labels, other.labels])[which],
        sizes,
        parts.ids,
        np.where(chosen, other.intents[source], parts.intents),
        np.where(chosen, other.markets[source], parts.markets),
        np.concatenate([parts.positions, other.positions])[which],
    )
