"""Everything that alerts and verdict look at, and what it shows: did the metric move, or the page, or the labels?

Clicks depend on the page. Where propensities are known, the self-normalised IPS-DCG decides: IPS-DCG per unit of
weighted gain, how high the gains stand, which lost clicks do not move.
"""

from dataclasses import dataclass
from typing import NamedTuple

from ltr_harness.comparison.stats.two_samples import Estimate
from ltr_harness.errors import Caution
from ltr_harness.monitoring.config import MonitorConfig
from ltr_harness.monitoring.result import Change, FeatureDrift, Findings, LabelTest

CORRECTED = "self-normalised IPS-DCG"
_UNEXPECTED_FALL_ALPHA = 0.01  # p of a fall without the page, where neither the metric nor the page has moved
_MAX_UNEVENNESS = 0.5  # of the loss: by so little rank 1 may have lost more or less than the others


class Corrected(NamedTuple):
    """The metric without the page, and the fall of it that matters."""

    change: Estimate
    before: float
    now: float
    least: float  # `min_drop` of what it was
    gain: Estimate  # change of IPS-DCG itself: more of it is a better ranking, also where it lies deeper

    @property
    def gained(self) -> bool:
        return self.gain.direction == "rose"

    @property
    def fell(self) -> bool:
        """True where it fell for certain and noticeably."""
        return not self.gained and self.change.direction == "fell" and -self.change.value >= self.least

    @property
    def is_open(self) -> bool:
        """True where a fall that matters is neither shown nor excluded."""
        return not (self.gained or self.fell or self.change.low > -self.least)

    @property
    def fall_excluded(self) -> bool:
        """True where a fall that matters is excluded."""
        return not (self.fell or self.is_open)


@dataclass(frozen=True, kw_only=True)
class Evidence(Findings):
    """Everything that alerts and verdict look at."""

    config: MonitorConfig
    cautions: tuple[Caution, ...] = ()  # of what to change in the configuration
    # whether labels fall off toward the end of the log, as late purchases make them
    labels_arriving: bool = False
    days_unknown: bool = False  # whether nobody can tell how much days differ by themselves
    days_caution: Caution | None = None  # beside an alert, where few days are known
    effective_users: float = float("inf")  # how many users of one size decide

    @property
    def change(self) -> Change | None:
        """The change of the metric that alerts, over all of production; None without a baseline."""
        return self.changes[0] if self.changes else None

    @property
    def difference(self) -> Estimate:
        """The primary metric's difference in the windows whose cause is looked for."""
        if self.examined is not None:
            return self.examined.difference
        assert self.change is not None
        return self.change.difference

    @property
    def adjusted_for(self) -> tuple[str, ...]:
        return self.adjustment.columns if self.adjustment else ()

    @property
    def label_alerts(self) -> list[LabelTest]:
        return [test for test in self.labels if test.alert]

    @property
    def broken_inputs(self) -> dict[str, FeatureDrift]:
        """The worst drift of every input that broke; of a feature of items the statistic at fault in most queries."""
        worst: dict[str, FeatureDrift] = {}
        for f in self.drift:
            if f.broken and (f.column not in worst or f.unmatched_share > worst[f.column].unmatched_share):
                worst[f.column] = f
        return worst

    @property
    def broken_input_texts(self) -> list[str]:
        return [f"{column} {drift.broken}" for column, drift in self.broken_inputs.items()]

    @property
    def page_moved(self) -> bool:
        """True where positives are spread over the ranks differently, as by another page or another ranking."""
        return self.presentation is not None and self.presentation.changed

    @property
    def corrected(self) -> Corrected | None:
        """The metric without the page; None without propensities."""
        seen = self.presentation
        if seen is None or seen.ips is None or seen.ips_normalised is None:
            return None
        before = seen.ips_normalised_before
        least = self.config.compare.min_drop * before
        return Corrected(seen.ips_normalised, before, seen.ips_normalised_now, least, seen.ips)

    @property
    def ips_fell(self) -> bool:
        """True where the ranking is worse, whatever the page and the number of clicks."""
        if self.corrected is None or not self.corrected.fell:
            return False
        return self.page_moved or self.moved or self.corrected.change.p <= _UNEXPECTED_FALL_ALPHA

    @property
    def ips_fall_excluded(self) -> bool:
        """True where the page moved, and the ranking without it did not get noticeably worse."""
        return self.page_moved and self.corrected is not None and self.corrected.fall_excluded

    @property
    def page_or_ranking(self) -> bool:
        """True where the metric moved, and nobody can tell whether the page or the ranking is behind it."""
        if not (self.moved and self.page_moved):
            return False
        if self.corrected is not None:
            return self.corrected.is_open
        with_the_metric = "fell" if self.loss(self.difference.value) > 0 else "rose"
        return self.rank_1 != with_the_metric

    @property
    def rank_1(self) -> str:
        """The direction in which the positives at rank 1, which all users look at, measurably changed; or empty."""
        return self.presentation.rank_1_change.direction if self.presentation is not None else ""

    @property
    def gain_fell(self) -> bool:
        """True where fewer gains came in, apart from those that the page explains."""
        seen = self.presentation
        return seen is not None and seen.ips is not None and seen.ips.direction == "fell"

    @property
    def lost_labels(self) -> bool:
        """True where labels are missing, and no page is shown to be the reason."""
        if not self.label_alerts:
            return False
        if self.corrected is None or not self.page_moved:
            return True
        return self.gain_fell and not self.ips_fell

    @property
    def even_loss(self) -> bool:
        """True where labels were lost at all ranks alike, as a pipeline loses them and a ranking does not."""
        seen = self.presentation
        if seen is None:
            return True  # labels do not come from ranks
        if seen.rank_1_against_rest is None:
            return seen.signature in ("none", "proportional")
        most = _MAX_UNEVENNESS * abs(seen.positives_change)
        return max(-seen.rank_1_against_rest.low, seen.rank_1_against_rest.high) <= most

    @property
    def outage(self) -> bool:
        """True where the labels changed, so that the metric tells nothing of the ranking."""
        return self.lost_labels and (self.labels_arriving or self.even_loss)

    @property
    def moved(self) -> bool:
        """True where some window or the whole period is significantly and noticeably different."""
        overall = self.change is not None and self.change.alert
        return overall or any(w.moved for w in self.windows)

    @property
    def demotion(self) -> str:
        """The reason why a difference of the metric is no alert; empty where nothing speaks against it."""
        if self.ips_fall_excluded:
            return "corrected for the page, the ranking did not get worse"
        if not self.outage:
            return ""
        return "labels are still arriving" if self.labels_arriving else "labels are missing"

    def loss(self, difference: float) -> float:
        """Return the loss that a difference of the primary metric is; negative where the metric got better."""
        return -difference if self.config.primary.higher_is_better else difference
