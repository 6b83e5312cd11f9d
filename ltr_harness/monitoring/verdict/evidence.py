"""Everything that alerts and verdict look at, and what follows from it for both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ltr_harness.logs.contract import LogFinding
from ltr_harness.monitoring.config import MonitorConfig
from ltr_harness.monitoring.results.answers import (
    Change,
    FeatureDrift,
    LabelTest,
    Presentation,
    Slice,
    Split,
    Window,
)
from ltr_harness.monitoring.results.arms import ArmComparison
from ltr_harness.monitoring.results.parity import Parity


@dataclass(frozen=True)
class Evidence:
    """Everything the verdict looks at."""

    config: MonitorConfig
    change: Change | None
    windows: Sequence[Window]
    splits: Sequence[Split]
    slices: Sequence[Slice]
    drift: Sequence[FeatureDrift]
    labels: Sequence[LabelTest]
    labels_arriving: bool
    presentation: Presentation | None
    warnings: Sequence[LogFinding]
    n_immature: int
    findings: Sequence[LogFinding]
    days_unknown: bool = False
    days_caveat: str = ""
    effective_users: float = float("inf")
    adjusted_for: Sequence[str] = ()
    arms: ArmComparison | None = None
    parity: Parity | None = None

    @property
    def label_alerts(self) -> list[LabelTest]:
        return [test for test in self.labels if test.alert]

    @property
    def broken(self) -> dict[str, FeatureDrift]:
        """Every input that broke; of a feature of items what is at fault in most queries."""
        worst: dict[str, FeatureDrift] = {}
        for f in self.drift:
            if f.broken and (f.column not in worst or f.lacking > worst[f.column].lacking):
                worst[f.column] = f
        return worst

    @property
    def broken_inputs(self) -> list[str]:
        """Every input that broke, and what is wrong with it."""
        return [f"{column} {drift.broken}" for column, drift in self.broken.items()]

    @property
    def page(self) -> bool:
        """Whether the page changed, by its signature, and IPS-DCG does not say that the ranking is worse."""
        seen = self.presentation
        return seen is not None and seen.signature == "page" and not self.ips_fell

    @property
    def ips_stood(self) -> bool:
        """Whether IPS-DCG, which takes the page out, did not fall where positives are spread differently."""
        seen = self.presentation
        return seen is not None and seen.ips is not None and seen.changed and not self.ips_fell

    @property
    def ips_fell(self) -> bool:
        """Whether IPS-DCG fell for certain and, relative to what it was, by at least `min_drop`."""
        seen = self.presentation
        if seen is None or seen.ips is None:
            return False
        matters = -seen.ips.value >= self.config.compare.min_drop * seen.ips_before
        return seen.ips.direction == "fell" and matters

    @property
    def lost_labels(self) -> bool:
        """Whether labels are missing at all ranks alike: then neither clicks nor IPS-DCG, their sum, can tell."""
        seen = self.presentation
        return bool(self.label_alerts) and (seen is None or seen.ips is None or not seen.changed)

    @property
    def outage(self) -> bool:
        """Whether labels are what changed, so that the metric tells nothing of the ranking."""
        seen = self.presentation
        uneven = seen is not None and seen.signature in ("page", "ranking")
        return self.lost_labels and (self.labels_arriving or not (uneven and self.moved))

    @property
    def moved(self) -> bool:
        """Whether some window or the whole period is significantly and noticeably different."""
        overall = self.change is not None and self.change.alert
        return overall or any(w.alert or w.trailing_alert or w.running_alert for w in self.windows)

    def worse(self, difference: float) -> float:
        """How much worse a difference of the primary metric is; negative where it is better."""
        return -difference if self.config.primary.higher_is_better else difference
