"""Whether the scores that were served are the model's, as values."""

from __future__ import annotations

from dataclasses import dataclass

from ltr_harness.monitoring.results.answers import Interval


@dataclass(frozen=True)
class ParityWindow:
    """The scores of one window, or of all of production.

    Attributes:
        n_queries, n_rows: with a logged score.
        share: of the rows, those served another score than the model's; its interval and p-value, of more than
            `Parity.max_share`, go by queries (users, where they are known).
        largest, typical: difference of scores, the largest and the median over queries with such rows of their largest.
        reordered: share of the queries that the model would have ordered otherwise.
        effect: what the primary metric has by the logged scores less what it would have by the model's; a mean over
            queries.
        incomplete, incomplete_others: share of rows without some feature, of those that differ and of the others.
    """

    label: str
    n_queries: int
    n_rows: int
    share: Interval
    largest: float
    typical: float
    reordered: float
    effect: float
    incomplete: float
    incomplete_others: float
    p_corrected: float = float("nan")
    alert: bool = False

    @property
    def share_text(self) -> str:
        share = self.share
        if share.low != share.low:
            return f"{100 * share.value:.1f} %"
        return f"{100 * share.value:.1f} % [{100 * share.low:.1f} %, {100 * share.high:.1f} %]"


@dataclass(frozen=True)
class ParityExample:
    """A query, and its row of which the scores differ most."""

    query: str
    window: str
    logged: float
    model: float


@dataclass(frozen=True)
class ParityFeature:
    """A watched feature that is missing more, or less, in queries with rows that differ: share of their rows."""

    name: str
    missing: float
    missing_others: float


@dataclass(frozen=True)
class Parity:
    """The logged scores beside those of the model for the logged features.

    Attributes:
        model: its run.
        tolerance, max_share: as configured.
        n_unscored: rows without a logged score.
        whole: all windows together.
        examples: the first queries with rows that differ.
        verdict: one sentence.
    """

    model: str
    tolerance: float
    max_share: float
    n_unscored: int
    whole: ParityWindow
    windows: tuple[ParityWindow, ...]
    features: tuple[ParityFeature, ...]
    examples: tuple[ParityExample, ...]
    verdict: str

    @property
    def alerts(self) -> list[ParityWindow]:
        return [window for window in (self.whole, *self.windows) if window.alert]
