"""What an A/B test in the log says, as values: its arms, and each one against the control."""

from __future__ import annotations

from dataclasses import dataclass

from ltr_harness.monitoring.results.answers import Interval


@dataclass(frozen=True)
class Arm:
    """One arm.

    Attributes:
        n_queries, n_units: that are compared; units are users where `columns.cluster_id` is given, else queries.
        expected: the share of the units that it was to get.
    """

    name: str
    n_queries: int
    n_units: int
    expected: float


@dataclass(frozen=True)
class ArmDifference:
    """One measure of one arm, against the control.

    Attributes:
        measure: a metric, `queries with <event>`, or a column of `columns.online`: means over queries.
        mean, control: of the arm, and of the control.
        difference: with an interval for all measures and arms at once, and its own p-value, by units; both NaN where
            no two units differ.
        relative: the difference as a share of the control's mean.
        p_corrected: over all measures and arms.
        n_queries: of the arm, with a value.
        verdict: better, worse, higher, lower (of columns, of which nobody says what is good), not distinguishable,
            or too little to tell.
    """

    arm: str
    measure: str
    mean: float
    control: float
    difference: Interval
    relative: float
    p_corrected: float
    n_queries: int
    verdict: str


@dataclass(frozen=True)
class ArmComparison:
    """All arms against the control.

    Attributes:
        unit: what was given an arm at random, in words: a column's name, or query.
        ratio_p: chance of shares as far from the expected ones (chi-squared over units).
        drift_p: chance of shares that differ as much from window to window; NaN in a single window.
        withheld: why there is no verdict; empty where there is one.
        verdict: one sentence.
        notes: what was left out, and what cannot be told.
    """

    column: str
    control: str
    unit: str
    arms: tuple[Arm, ...]
    ratio_p: float
    drift_p: float
    differences: tuple[ArmDifference, ...]
    family: str
    withheld: str
    verdict: str
    notes: tuple[str, ...]

    @property
    def worse(self) -> list[ArmDifference]:
        return [d for d in self.differences if d.verdict == "worse"]
