"""Which arm of an A/B test is better: every measure of every arm against the control, by the unit that got the arm.

Everything stands on the table of queries that the other questions are asked of. A unit (a user, or a query where nobody
is known) is in one arm; measures are means over queries, whose chance is that of units. No verdict is given on arms
that do not have the shares they were to have: what broke the shares may have moved the measures, too.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri

from ltr_harness.catalog import did_you_mean
from ltr_harness.errors import DataError, Problem
from ltr_harness.logs.columns import codes_of
from ltr_harness.monitoring.analysis.arm_words import sentence, units_in_words, withheld
from ltr_harness.monitoring.analysis.periods import own_clusters
from ltr_harness.monitoring.analysis.running import TIGHTEST
from ltr_harness.monitoring.analysis.windows import Cut
from ltr_harness.monitoring.config import Arms, MonitorConfig
from ltr_harness.monitoring.queries import column_of, columns_of
from ltr_harness.monitoring.results.answers import Interval
from ltr_harness.monitoring.results.arms import Arm, ArmComparison, ArmDifference
from ltr_harness.stats.corrections import bonferroni, holm
from ltr_harness.stats.sequences import always_valid_p, always_valid_reach
from ltr_harness.stats.several_samples import same_shares_p, sample_ratio_p
from ltr_harness.stats.units import UnitMeans, unit_means, units_apart
from ltr_harness.wording import count_of, plural

_AT_MOST = 20  # arms: a column with more is no arm
_LOPSIDED = (
    0.2  # skewness of a difference, beyond which 95 % intervals cover less than 93.5 % (simulated in tests)
)
_UNITS = 10  # of an arm, likewise

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class _Assigned:
    """The queries that are compared, the arm of each, and whose it is.

    Attributes:
        names: of the arms, the control first.
        rows: (n,) which queries.
        arm, unit, window: (n,) codes; of arms into `names`.
        several: units that are in several arms, and all units.
        notes: what was left out.
    """

    names: list[str]
    rows: Codes
    arm: Codes
    unit: Codes
    window: Codes
    several: tuple[int, int]
    notes: list[str]

    def units_of(self, arm: int) -> int:
        return int(np.unique(self.unit[self.arm == arm]).size)

    @property
    def first(self) -> NDArray[np.int64]:
        """One query of each unit: the one that comes first in time."""
        order = np.argsort(self.window, kind="stable")
        return order[np.unique(self.unit[order], return_index=True)[1]]


def compared_arms(
    production: pd.DataFrame, cut: Cut, config: MonitorConfig, spent: float
) -> ArmComparison | None:
    """Every arm against the control; None where no arms are configured.

    Raises:
        DataError: an arm that was announced and is not there, or is there and was not announced; fewer than two;
            arms that were never shown in the same window.
    """
    if config.arms is None:
        return None
    assigned = _assigned(production, cut, config.arms)
    unit = config.columns.cluster_id or "query"
    names = assigned.names
    shares = np.array([config.arms.shares.get(name, 1.0) for name in names])
    shares /= shares.sum()
    arms = [
        Arm(name, int((assigned.arm == at).sum()), assigned.units_of(at), float(shares[at]))
        for at, name in enumerate(names)
    ]
    first = assigned.first
    ratio_p = sample_ratio_p(np.bincount(assigned.arm[first], minlength=len(names)), shares)
    drift_p = same_shares_p(assigned.arm[first], assigned.window[first])
    why = withheld(arms, assigned.several, unit, ratio_p, drift_p)
    tested = _differences(production, assigned, config)
    tests = sum(not np.isnan(one.difference.p) for one, _ in tested)
    family = f"{config.compare.correct.capitalize()} over {count_of(tests, 'test')}"
    differences = _corrected(tested, config, spent, bool(why))
    few = dict.fromkeys(one.measure for one, _ in tested if np.isnan(one.difference.p))
    if few:
        assigned.notes.append(
            f"too few {units_in_words(unit)} decide {', '.join(few)} to tell the arms apart: wait for more, give the "
            "smaller arm a larger share, or cap the largest values"
        )
    return ArmComparison(
        column=config.arms.column,
        control=names[0],
        unit=unit,
        arms=tuple(arms),
        ratio_p=ratio_p,
        drift_p=drift_p,
        differences=tuple(differences),
        family=family,
        withheld=why,
        verdict=f"No verdict on the arms: {why}." if why else sentence(differences, names[0], family),
        notes=tuple(assigned.notes),
    )


def _assigned(production: pd.DataFrame, cut: Cut, arms: Arms) -> _Assigned:
    category = column_of(production, "arm")
    names = _names(category, arms)
    place = {name: at for at, name in enumerate(names)}
    arm: Codes = np.array([*(place[name] for name in category.categories), -1])[codes_of(category)]
    cluster = column_of(production, "cluster")
    unit: Codes = np.arange(len(production))
    if cluster is not None:
        unit = own_clusters(cluster).astype(np.int64)
    notes = []
    known = arm >= 0
    if not known.all():
        nobody = int((~known).sum())
        notes.append(f"{count_of(nobody, 'query')} without an arm {plural('is', nobody)} left out")
    rows = np.flatnonzero(known & cut.mature)
    counts = np.zeros((len(cut), len(names)), dtype=np.int64)
    np.add.at(counts, (cut.codes[rows], arm[rows]), 1)
    together: NDArray[np.bool_] = np.logical_and.reduce(counts > 0, axis=1)
    if rows.size and not together.any():
        raise DataError(
            Problem(
                f"arms.column {arms.column!r}",
                f"no window holds all of {', '.join(names)}",
                "arms that are shown at the same time",
                "compare logs of two periods with --baseline",
            )
        )
    lacking = int(((counts > 0).any(axis=1) & ~together).sum())
    if lacking:
        notes.append(f"{count_of(lacking, 'window')} without all arms {plural('is', lacking)} left out")
    if "time" not in production:
        notes.append("without columns.timestamp nobody can tell whether the arms were shown at the same time")
    rows = rows[together[cut.codes[rows]]]
    return _of_one_arm(_Assigned(names, rows, arm[rows], unit[rows], cut.codes[rows], (0, 0), notes))


def _names(category: pd.Categorical, arms: Arms) -> list[str]:
    """The arms, the control first.

    Raises:
        DataError: they are not those that the configuration says.
    """
    names = [str(name) for name in category.categories]
    place, wanted = f"arms.column {arms.column!r}", list(arms.shares) or [arms.control]
    listed = ", ".join(map(repr, names[:_AT_MOST])) + (", …" if len(names) > _AT_MOST else "")
    problems = [
        Problem(place, f"has no arm {name!r}", "" if names else "a name in it", did_you_mean(name, names))
        for name in wanted
        if name not in names
    ]
    if len(names) > _AT_MOST:
        problems = [Problem(place, f"has {count_of(len(names), 'value')}", f"at most {_AT_MOST} arms")]
    elif not problems and len(names) < 2:
        problems.append(Problem(place, f"has one arm, {listed}", "the control and at least one other"))
    elif arms.shares:
        problems += [
            Problem(place, f"has an arm {name!r} without a share", f"a share for each of {listed}")
            for name in names
            if name not in arms.shares
        ]
    if problems:
        raise DataError(problems)
    return [arms.control, *(name for name in names if name != arms.control)]


def _of_one_arm(all_of_them: _Assigned) -> _Assigned:
    """Without units that are in several arms."""
    unit = np.unique(all_of_them.unit, return_inverse=True)[1]
    n = int(unit.max(initial=-1)) + 1
    low, high = np.full(n, len(all_of_them.names)), np.full(n, -1)
    np.minimum.at(low, unit, all_of_them.arm)
    np.maximum.at(high, unit, all_of_them.arm)
    several = low != high
    if several.any():
        all_of_them.notes.append(f"{int(several.sum()):,} of {n:,} units are in several arms, and left out")
    kept = ~several[unit]
    return dataclasses.replace(
        all_of_them,
        rows=all_of_them.rows[kept],
        arm=all_of_them.arm[kept],
        unit=unit[kept],
        window=all_of_them.window[kept],
        several=(int(several.sum()), n),
    )


@dataclass(frozen=True, eq=False)
class _Measure:
    """One column of numbers per query; good is 1 where more of it is better, -1 where less is, 0 where nobody says."""

    name: str
    values: Floats
    good: int


def _measures(production: pd.DataFrame, config: MonitorConfig) -> list[_Measure]:
    measures = [
        _Measure(name, values, 1 if metric.higher_is_better else -1)
        for metric, (name, values) in zip(
            config.resolved_metrics, columns_of(production, "metric").items(), strict=True
        )
    ]
    if config.relevance.from_events:
        measures += [
            _Measure(
                f"queries with {name}",
                (n > 0).astype(np.float64),
                -1 if name in config.relevance.negative else 1,
            )
            for name, n in columns_of(production, "event").items()
        ]
    return measures + [_Measure(name, v, 0) for name, v in columns_of(production, "online").items()]


def _differences(
    production: pd.DataFrame, assigned: _Assigned, config: MonitorConfig
) -> list[tuple[ArmDifference, int]]:
    """Of every arm and measure, before correction, with what is good."""
    measures = _measures(production, config)
    values = np.column_stack([m.values[assigned.rows] for m in measures])
    means: list[UnitMeans] = []
    defined = []
    for at in range(len(assigned.names)):
        own = assigned.arm == at
        units = np.unique(assigned.unit[own], return_inverse=True)[1]
        means.append(unit_means(values[own], units))
        defined.append((~np.isnan(values[own])).sum(axis=0))
    looks = np.unique(assigned.window).size
    tested = []
    for at, name in enumerate(assigned.names[1:], start=1):
        apart = units_apart(means[at], means[0])
        for j, measure in enumerate(measures):
            control = float(means[0].mean[j])
            difference = _difference(apart, j, int(defined[at][j] + defined[0][j]), looks, config)
            one = ArmDifference(
                arm=name,
                measure=measure.name,
                mean=float(means[at].mean[j]),
                control=control,
                difference=difference,
                relative=difference.value / control if control else float("nan"),
                p_corrected=float("nan"),
                n_queries=int(defined[at][j]),
                verdict="",
            )
            tested.append((one, measure.good))
    return tested


def _difference(apart: UnitMeans, j: int, n: int, looks: int, config: MonitorConfig) -> Interval:
    """One difference; without interval and p where too few units decide it, as t would be wrong."""
    value, error, freedom = float(apart.mean[j]), float(apart.error[j]), float(apart.freedom[j])
    if not (abs(apart.skewness[j]) <= _LOPSIDED and apart.units[j] >= _UNITS and error > 0):
        return Interval(value, n=n)
    p = apart.p()[j]
    low, high = (float(ends[j]) for ends in apart.interval(config.compare.confidence, adjusted=False))
    if config.compare.correct == "sequence":
        seen = np.array(float(looks))
        p = always_valid_p(ndtri(p / 2), seen, TIGHTEST, config.compare.alpha, "change")
        reach = float(always_valid_reach(seen, TIGHTEST, 1 - config.compare.confidence)) * error
        low, high = value - reach, value + reach
    return Interval(value, low, high, float(p), error, n, freedom)


def _corrected(
    tested: list[tuple[ArmDifference, int]], config: MonitorConfig, spent: float, no_verdict: bool
) -> list[ArmDifference]:
    """With p-values over all arms and measures, and a word each."""
    correct = holm if config.compare.correct == "holm" else bonferroni
    share = spent if config.compare.correct == "spending" else 1.0  # a sequence holds at all looks already
    p = np.minimum(correct([one.difference.p for one, _ in tested]) / share, 1.0)
    done = []
    for (one, good), corrected in zip(tested, p.tolist(), strict=True):
        word = "not distinguishable"
        if np.isnan(corrected):
            word = "too little to tell"
        elif corrected <= config.compare.alpha:
            up = one.difference.value > 0
            word = ("higher" if up else "lower") if not good else "better" if up == (good > 0) else "worse"
        done.append(
            dataclasses.replace(one, p_corrected=corrected, verdict="withheld" if no_verdict else word)
        )
    return done
