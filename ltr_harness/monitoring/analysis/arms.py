"""Which arm of an A/B test is better: every measure of every arm against the control, by the unit that got the arm.

Everything stands on the table of queries that the other questions are asked of. A unit (a user, or a query where nobody
is known) is in one arm; measures are means over queries, whose chance is that of units. No verdict is given on arms
that do not have the shares they were to have: what broke the shares may have moved the measures, too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from ltr_harness.catalog import did_you_mean
from ltr_harness.comparison.cautions import rare_kind
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
from ltr_harness.stats.contributions import Contributions, WeightedSum
from ltr_harness.stats.families import Outcome, outcomes
from ltr_harness.stats.method import Method
from ltr_harness.stats.reference import hall, normal_of_t, t_of_normal, unhall
from ltr_harness.stats.sequences import always_valid_p, always_valid_reach
from ltr_harness.stats.several_samples import same_shares_p, sample_ratio_p
from ltr_harness.wording import count_of, plural

_AT_MOST = 20  # arms: a column with more is no arm
_LEAST = 10  # units of an arm, below which nothing is said
_LOPSIDED = (
    0.3  # skewness of a difference, likewise: of 300 v 30 users 27 % of experiments had a false verdict
)
_UNITS = 10_000  # so many have their own sign in the draws

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
    measures = _measures(production, config)
    differences, family = _tested(measures, assigned, config, spent)
    if why:
        differences = [dataclasses.replace(one, verdict="withheld") for one in differences]
    assigned.notes.extend(_unseen(differences, measures, arms, config))
    few = dict.fromkeys(one.measure for one in differences if np.isnan(one.difference.p))
    if few:
        assigned.notes.append(
            f"too few {units_in_words(unit)} decide {', '.join(few)} to tell the arms apart"
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
    """One column of numbers per query.

    Attributes:
        good: 1 where more of it is better, -1 where less is, 0 where nobody says.
        width: how far apart two of its values can be; infinite where it has no bounds.
    """

    name: str
    values: Floats
    good: int
    width: float

    def word(self, higher: bool) -> str:
        if not self.good:
            return "higher" if higher else "lower"
        return "better" if higher == (self.good > 0) else "worse"


def _measures(production: pd.DataFrame, config: MonitorConfig) -> list[_Measure]:
    measures = [
        _Measure(name, values, 1 if metric.higher_is_better else -1, metric.bounds[1] - metric.bounds[0])
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
                1.0,
            )
            for name, n in columns_of(production, "event").items()
        ]
    return measures + [_Measure(name, v, 0, np.inf) for name, v in columns_of(production, "online").items()]


def _tested(
    measures: Sequence[_Measure], assigned: _Assigned, config: MonitorConfig, spent: float
) -> tuple[list[ArmDifference], str]:
    """Every measure of every arm as one family, and the family in words."""
    values = np.column_stack([m.values[assigned.rows] for m in measures])
    columns = [(arm, measure) for arm in assigned.names[1:] for measure in measures]
    of_arm = np.repeat(np.arange(1, len(assigned.names)), len(measures))
    values, group, control = np.tile(values, len(assigned.names) - 1), _groups(assigned), assigned.arm == 0
    ours = np.where(assigned.arm[~control, None] == of_arm, values[~control], np.nan)
    apart = WeightedSum(
        (Contributions.of(ours, group[~control]), Contributions.of(values[control], group[control])),
        (1.0, -1.0),
    )
    known = np.flatnonzero((apart.units >= _LEAST) & (apart.error > 0) & (_lopsided(apart) <= _LOPSIDED))
    found = Outcome.unknown(len(columns))
    tests = count_of(known.size, "test")
    if config.compare.correct in ("spending", "sequence"):
        found.put(known, _at_all_looks(apart.columns(known), assigned, config, spent))
        family = f"Bonferroni over {tests}, for all looks (asymptotically)"
    else:
        found.put(known, outcomes(apart.columns(known), Method(confidence=config.compare.confidence)))
        family = f"joint correction over {tests}"
    mean, before = (part.mean for part in apart.parts)
    n, n_before = (part.n.astype(np.int64) for part in apart.parts)
    differences = []
    for j, (arm, measure) in enumerate(columns):
        word = "too little to tell"
        if not np.isnan(found.p[j]):
            significant = found.p_corrected[j] < config.compare.alpha
            word = measure.word(bool(apart.mean[j] > 0)) if significant else "not distinguishable"
        differences.append(
            ArmDifference(
                arm=arm,
                measure=measure.name,
                mean=float(mean[j]),
                control=float(before[j]),
                difference=Interval(
                    float(apart.mean[j]),
                    float(found.low[j]),
                    float(found.high[j]),
                    float(found.p[j]),
                    float(apart.error[j]),
                    int(n[j] + n_before[j]),
                    float(apart.freedom[j]),
                ),
                relative=float(apart.mean[j] / before[j]) if before[j] else float("nan"),
                p_corrected=float(found.p_corrected[j]),
                n_queries=int(n[j]),
                verdict=word,
            )
        )
    return differences, family


def _lopsided(apart: WeightedSum) -> Floats:
    """(m,): skewness of the difference if the units of both arms were alike; an arm of few may lack the rare ones."""
    n = np.array([part.units for part in apart.parts], dtype=np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        variance = sum(part.error**2 * own**2 for part, own in zip(apart.parts, n, strict=True)) / n.sum(
            axis=0
        )
        third = sum(part.third * own**3 for part, own in zip(apart.parts, n, strict=True)) / n.sum(axis=0)
        lean = third * (1 / n[0] ** 2 - 1 / n[1] ** 2) / (variance * (1 / n).sum(axis=0)) ** 1.5
    return np.asarray(np.abs(lean))


def _groups(assigned: _Assigned) -> Codes:
    """(n,): whose each query is; of very many units those of one arm are joined by chance, and stay independent."""
    unit = np.unique(assigned.unit, return_inverse=True)[1]
    most, n = _UNITS // len(assigned.names), int(unit.max(initial=-1)) + 1
    if n <= _UNITS:
        return unit
    joined = np.random.Generator(np.random.PCG64(0)).permutation(n) % most
    return joined[unit] + most * assigned.arm


def _at_all_looks(apart: WeightedSum, assigned: _Assigned, config: MonitorConfig, spent: float) -> Outcome:
    """p-values and intervals that may be looked at after every window, for large numbers of units."""
    m, level = apart.mean.size, 1 - config.compare.confidence
    z = normal_of_t(hall(apart.mean / apart.error, apart.lean), apart.freedom)
    if config.compare.correct == "sequence":
        looks = np.array(float(np.unique(assigned.window).size))
        p = always_valid_p(z, looks, TIGHTEST, config.compare.alpha / m, "change")
        critical, p_corrected = always_valid_reach(looks, TIGHTEST, level / m), m * p
    else:
        p = 2 * ndtr(-z)
        critical, p_corrected = np.array(ndtri(1 - level * spent / (2 * m))), m * p / spent
    reach = t_of_normal(critical, apart.freedom)
    low, high = (apart.mean - unhall(side * reach, apart.lean) * apart.error for side in (1, -1))
    nothing = np.full(m, np.nan)
    return Outcome(p, np.minimum(p_corrected, 1.0), nothing, low, high, nothing)


def _unseen(
    differences: Sequence[ArmDifference],
    measures: Sequence[_Measure],
    arms: Sequence[Arm],
    config: MonitorConfig,
) -> list[str]:
    """One line for the verdicts that a kind of unit, absent from an arm, could change."""
    width = {measure.name: measure.width for measure in measures}
    units = {arm.name: arm.n_units for arm in arms}
    method = Method(confidence=config.compare.confidence, unit=config.columns.cluster_id)
    lines: dict[str, list[str]] = {}
    for one in differences:
        if one.verdict in ("better", "worse", "higher", "lower"):
            n = min(units[one.arm], arms[0].n_units)
            line = rare_kind(
                n, abs(one.difference.value), width[one.measure], method, family=len(differences)
            )
            lines.setdefault(line, []).append(f"{one.measure} of {one.arm}")
    return [f"{', '.join(names)}: {line.removesuffix('.')}" for line, names in lines.items() if line]
