"""The mean of all windows on record, looked at after each of them: a sequence that may be watched for ever.

Half of alpha belongs to it, the other half is spent on single windows. Of its half a fifth covers what the baseline
is off by, which no further window makes smaller.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtr

from ltr_harness.monitoring.analysis.past import with_past
from ltr_harness.monitoring.analysis.periods import Periods
from ltr_harness.monitoring.results.answers import Interval, Window
from ltr_harness.monitoring.results.history import PastWindow
from ltr_harness.stats.sequences import always_valid_p, always_valid_reach
from ltr_harness.stats.two_samples import Estimate

OF_ALPHA = 0.5  # the other half is spent on windows, their trailing means and the period
_BASELINE = 0.2  # of that
TIGHTEST = 30  # windows, after which a difference is to be seen soonest
_LEAST = 100  # queries


def with_running(
    windows: list[Window], members: Sequence[NDArray[np.int64]], periods: Periods, past: Sequence[PastWindow]
) -> list[Window]:
    """Windows with the mean of all windows up to each, against the baseline.

    Shapes: `members` (n_queries,).
    """
    earlier = list(past) if periods.common is None else []
    rows, so_far = [], np.zeros(0, dtype=np.int64)
    looks = len(earlier)
    for row, mine in zip(windows, members, strict=True):
        if row.status not in ("tested", "small") or not mine.size:
            rows.append(row)
            continue
        so_far = np.sort(np.concatenate((so_far, mine)))
        looks += 1
        if so_far.size + sum(w.n for w in earlier) < _LEAST or row.status != "tested":
            rows.append(row)
            continue
        estimate = with_past(so_far, earlier, periods) if earlier else periods.compare(rows=so_far)
        running, corrected = _tested(estimate, looks, periods)
        alert = corrected <= periods.config.compare.alpha and periods.matters(running.value)
        rows.append(
            dataclasses.replace(
                row, running=running, running_p_corrected=corrected, running_alert=bool(alert)
            )
        )
    return rows


def _tested(estimate: Estimate, looks: int, periods: Periods) -> tuple[Interval, float]:
    """The difference with an interval that holds at all times, and its p as part of the whole alpha."""
    compare, side = periods.config.compare, periods.alternative
    base = periods.baseline_error
    own = float(np.sqrt(max(estimate.error**2 - base**2, 1e-3 * estimate.error**2)))
    both = side == "change"
    level = OF_ALPHA * compare.alpha
    margin = float(ndtri(1 - level * _BASELINE / (2 if both else 1))) * base
    towards = np.sign(estimate.value) * max(abs(estimate.value) - margin, 0.0)
    if own > 0:
        z = np.array(towards / own)
        z = ndtri(stdtr(estimate.freedom, -np.abs(z))) * -np.sign(z)  # as rare as t is with so few days
    else:
        z = np.array(np.sign(towards) * np.inf)
    information = np.array(float(looks))
    p = float(always_valid_p(z, information, TIGHTEST, level * (1 - _BASELINE), side))
    unsure = 1 - compare.confidence
    wide = float(always_valid_reach(information, TIGHTEST, unsure * (1 - _BASELINE))) * own
    reach = wide + float(ndtri(1 - unsure * _BASELINE / 2)) * base
    interval = Interval(
        estimate.value,
        estimate.value - reach,
        estimate.value + reach,
        p,
        estimate.error,
        estimate.n,
        estimate.freedom,
    )
    return interval, min(1.0, p / (OF_ALPHA * (1 - _BASELINE)))
