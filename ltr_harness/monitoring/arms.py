"""Arms of an A/B test: every measure of every arm against the control, by the unit that got the arm.

A unit (a user, or a query where nobody is known) is in one arm; measures are means over queries, their chance that of
units. No verdict is given on arms of other shares than announced: what broke those may have moved the measures.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from ltr_harness._util.catalog import did_you_mean
from ltr_harness._util.number_text import p_equals
from ltr_harness._util.text import count_of, plural
from ltr_harness.comparison.caution_choice import choose_cautions
from ltr_harness.comparison.stats.cluster_sums import ClusterSums, LinearCombination
from ltr_harness.comparison.stats.families import FamilyResults, furthest_against, outcomes, rare_kind
from ltr_harness.comparison.stats.method import Method
from ltr_harness.comparison.stats.reference import (
    hall_transform,
    inverse_hall_transform,
    normal_of_t,
    t_of_normal,
)
from ltr_harness.comparison.stats.two_samples import Estimate, always_valid_p, always_valid_reach
from ltr_harness.data.arrays import Floats, Ints
from ltr_harness.data.columns import codes_of
from ltr_harness.errors import Caution, DataError, Problem
from ltr_harness.monitoring.calendar import Cut
from ltr_harness.monitoring.config import Arms, MonitorConfig
from ltr_harness.monitoring.periods import cluster_codes
from ltr_harness.monitoring.queries import column_of, columns_of
from ltr_harness.monitoring.result import Arm, ArmComparison, ArmDifference, MonitorResult, table_of
from ltr_harness.monitoring.stats.several_samples import same_shares_p, sample_ratio_p
from ltr_harness.monitoring.windows import TIGHTEST_LOOK
from ltr_harness.report.blocks import (
    Badge,
    Block,
    Column,
    Heading,
    Paragraph,
    Tone,
    caution_blocks,
)

_MIN_SHARES_P = 0.001  # chance of shares as odd as these, below which nothing is said of the arms
_MAX_IN_SEVERAL_ARMS = 0.01  # of the units in several arms, from which on an arm is nobody's


def verdict_sentence(differences: Sequence[ArmDifference], control: str, family: str) -> str:
    """Return the verdict, arm by arm: the first measure with its numbers, then the others that stand out."""
    sentences = []
    for arm in dict.fromkeys(d.arm for d in differences):
        first, *other_measures = (d for d in differences if d.arm == arm)
        relation = _RELATIONS.get(first.verdict, "is not distinguishable from")
        text = f"{arm} {relation} {control} at {first.measure}"
        if not np.isnan(first.p_corrected):
            text += f": {first.difference}, {p_equals(first.p_corrected)} after {family}"
        if other_measures:
            rest = _other_measures(other_measures)
            text += f". {rest[:1].upper()}{rest[1:]}"
        sentences.append(f"{text}.")
    return " ".join(sentences)


_RELATIONS = {
    "better": "is better than",
    "worse": "is worse than",
    "too little to tell": "has too little data to tell it from",
}


def _other_measures(differences: Sequence[ArmDifference]) -> str:
    """Return the measures that stand out, by their verdict."""
    phrases = []
    for verdict in ("better", "worse", "higher", "lower"):
        names = [f"{d.measure} ({d.difference.value:+.4f})" for d in differences if d.verdict == verdict]
        if names:
            phrases.append(f"{verdict} at {', '.join(names)}")
    return "; ".join(phrases) or "no other measure stands out"


def units_in_words(unit: str) -> str:
    return "queries" if unit == "query" else f"values of {unit}"


_MAX_ARMS = 20  # arms: a column with more is no arm
_MIN_UNITS = 10  # units of an arm, below which nothing is said
_MAX_SKEWNESS = 0.3  # skewness of a difference, likewise: of 300 v 30 users 27 % of experiments were wrong
_MAX_SIGN_UNITS = 10_000  # so many have their own sign in the draws


@dataclass(frozen=True, eq=False)
class _AssignedQueries:
    """The queries that are compared, the arm of each, and whose it is."""

    names: list[str]  # of the arms, the control first
    rows: Ints  # (n,) which queries
    arm: Ints  # (n,) codes; of arms into `names`
    unit: Ints
    window: Ints
    several: tuple[int, int]  # units that are in several arms, and all units
    cautions: list[Caution]  # of what was left out


@dataclass(frozen=True, eq=False)
class _Measure:
    """One column of numbers per query."""

    name: str
    values: Floats
    verdicts: tuple[str, str]  # for a lower and a higher mean
    width: float  # how far apart two of its values can be; infinite where it has no bounds


def compare_arms(production: pd.DataFrame, cut: Cut, rule: Arms, config: MonitorConfig) -> ArmComparison:
    """Compare every arm with the control."""
    assigned = _assigned_queries(production, cut, rule)
    unit = config.columns.cluster_id or "query"
    names = assigned.names
    shares = np.array([rule.shares.get(name, 1.0) for name in names])
    shares /= shares.sum()
    arms = []
    for code, (name, share) in enumerate(zip(names, shares.tolist(), strict=True)):
        units = assigned.unit[assigned.arm == code]
        arms.append(Arm(name, units.size, np.unique(units).size, share))
    in_time = np.argsort(assigned.window, kind="stable")
    first = in_time[np.unique(assigned.unit[in_time], return_index=True)[1]]  # query of each unit
    ratio_p = sample_ratio_p(np.bincount(assigned.arm[first], minlength=len(names)), shares)
    drift_p = same_shares_p(assigned.arm[first], assigned.window[first])
    unit_words = units_in_words(unit)
    reason = _reason_to_withhold(arms, assigned.several, unit_words, ratio_p, drift_p)
    measures = _measures(production, config)
    differences, family = _test_measures(measures, assigned, config)
    verdict = verdict_sentence(differences, names[0], family)
    if reason:
        verdict = f"No verdict on the arms: {reason}."
        differences = [replace(difference, verdict="withheld") for difference in differences]
    cautions = [*assigned.cautions, *_rare_kinds(differences, measures, arms, assigned, config)]
    undecided = dict.fromkeys(d.measure for d in differences if np.isnan(d.difference.p))
    if undecided:
        text = f"too few {unit_words} to compare the arms by {', '.join(undecided)}"
        cautions.append(Caution("few-units", "warning", text))
    return ArmComparison(
        column=rule.column,
        control=names[0],
        unit=unit,
        arms=tuple(arms),
        sample_ratio_p=ratio_p,
        same_shares_p=drift_p,
        differences=tuple(differences),
        family=family,
        withheld=reason,
        verdict=verdict,
        cautions=tuple(cautions),
    )


def _rare_kinds(
    differences: Sequence[ArmDifference],
    measures: Sequence[_Measure],
    arms: Sequence[Arm],
    assigned: _AssignedQueries,
    config: MonitorConfig,
) -> list[Caution]:
    """Return a caution for the verdicts that a kind of unit, absent from an arm, could change."""
    by_name = {measure.name: measure for measure in measures}
    units = {arm.name: arm.n_units for arm in arms}
    method = Method("skew-adjusted", confidence=config.compare.confidence, unit=config.columns.cluster_id)
    places: dict[str, list[str]] = {}
    for d in differences:
        if d.verdict not in ("better", "worse", "higher", "lower"):
            continue
        n, measure = min(units[d.arm], arms[0].n_units), by_name[d.measure]
        furthest = _furthest_against(d, measure.values, assigned)
        gap, m = abs(d.difference.value), len(differences)
        text = rare_kind(n, gap, measure.width, method, family=m, furthest=furthest)
        if text:
            places.setdefault(text, []).append(f"{d.measure} of {d.arm}")
    return [Caution("rare-kind", "note", text, place=", ".join(names)) for text, names in places.items()]


def _reason_to_withhold(
    arms: Sequence[Arm], units_in_several: tuple[int, int], unit_words: str, ratio_p: float, drift_p: float
) -> str:
    """Return why there is no verdict on the arms; empty where there is one."""
    (in_several, n_all), total = units_in_several, sum(arm.n_units for arm in arms)
    if in_several > _MAX_IN_SEVERAL_ARMS * n_all:
        return (
            f"{in_several:,} of {n_all:,} {unit_words} are in several arms; if every query was given an arm, leave "
            "out columns.cluster_id"
        )
    if not total:
        return "no query is old enough for its labels"
    if ratio_p < _MIN_SHARES_P:
        off = max(arms, key=lambda arm: abs(arm.n_units / total - arm.expected))
        return (
            f"{off.name} has {off.n_units:,} of {total:,} {unit_words}, {100 * off.n_units / total:.2f} %, where "
            f"{100 * off.expected:.2f} % were expected ({p_equals(ratio_p)}): the assignment or the log is broken"
        )
    if drift_p < _MIN_SHARES_P:
        changing = f"the arms' shares change from window to window ({p_equals(drift_p)})"
        return f"{changing}, and windows differ: judge each stage of the rollout by itself"
    return ""


def _assigned_queries(production: pd.DataFrame, cut: Cut, arms: Arms) -> _AssignedQueries:
    """Return the queries of windows that hold all arms, without units that are in several."""
    category, cluster = column_of(production, "arm"), column_of(production, "cluster")
    names = _arm_names(category, arms)
    code_of_name = {name: code for code, name in enumerate(names)}
    arm: Ints = np.array([*(code_of_name[name] for name in category.categories), -1])[codes_of(category)]
    unit: Ints = np.arange(len(production)) if cluster is None else cluster_codes(cluster).astype(np.int64)
    cautions = []
    if nobody := int((arm < 0).sum()):
        text = f"{count_of(nobody, 'query')} without an arm {plural('is', nobody)} left out"
        cautions.append(Caution("no-arm", "note", text))
    rows = np.flatnonzero((arm >= 0) & cut.mature)
    seen = np.zeros((len(cut), len(names)), dtype=bool)  # which window holds which arm
    seen[cut.codes[rows], arm[rows]] = True
    has_all_arms = np.logical_and.reduce(seen, axis=1)
    if rows.size and not has_all_arms.any():
        found, expected = f"no window holds all of {', '.join(names)}", "arms that run at the same time"
        cure = "compare logs of two periods with --baseline"
        raise DataError(Problem(f"arms.column {arms.column!r}", found, expected, cure))
    if lacking := int((seen.any(axis=1) & ~has_all_arms).sum()):
        text = f"{count_of(lacking, 'window')} without all arms {plural('is', lacking)} left out"
        cautions.append(Caution("window-without-all-arms", "note", text))
    if "time" not in production:
        text = "without columns.timestamp whether arms ran at the same time is not checked"
        cautions.append(Caution("no-times", "warning", text))
    rows = rows[has_all_arms[cut.codes[rows]]]
    unit = np.unique(unit[rows], return_inverse=True)[1]
    in_arm = np.zeros((int(unit.max(initial=-1)) + 1, len(names)), dtype=bool)  # which unit is in which arm
    in_arm[unit, arm[rows]] = True
    n_arms = in_arm.sum(axis=1)
    units_in_several = int((n_arms > 1).sum()), n_arms.size
    if units_in_several[0]:
        text = f"{units_in_several[0]:,} of {units_in_several[1]:,} units are in several arms, and left out"
        cautions.append(Caution("unit-in-several-arms", "note", text))
    is_in_one_arm = n_arms[unit] == 1
    rows = rows[is_in_one_arm]
    return _AssignedQueries(
        names, rows, arm[rows], unit[is_in_one_arm], cut.codes[rows], units_in_several, cautions
    )


def _arm_names(category: pd.Categorical, arms: Arms) -> list[str]:
    """Return the names of the arms, the control first."""
    names = [str(name) for name in category.categories]
    DataError.refuse(_arm_problems(names, arms))
    return [arms.control, *(name for name in names if name != arms.control)]


def _arm_problems(names: Sequence[str], arms: Arms) -> list[Problem]:
    """Check that the column has the control, other arms, not too many, and each with a share."""
    place = f"arms.column {arms.column!r}"
    if len(names) > _MAX_ARMS:
        return [Problem(place, f"has {count_of(len(names), 'value')}", f"at most {_MAX_ARMS} arms")]
    expected = "" if names else "a name in it"
    problems = [
        Problem(place, f"has no arm {name!r}", expected, did_you_mean(name, names))
        for name in list(arms.shares) or [arms.control]
        if name not in names
    ]
    listed = ", ".join(map(repr, names))
    if not problems and len(names) < 2:
        return [Problem(place, f"has one arm, {listed}", "the control and at least one other")]
    for name in names:
        if arms.shares and name not in arms.shares:
            found = f"has an arm {name!r} without a share"
            problems.append(Problem(place, found, f"a share for each of {listed}"))
    return problems


_MORE_IS_BETTER, _LESS_IS_BETTER, _NEITHER_IS_BETTER = (
    ("worse", "better"),
    ("better", "worse"),
    ("lower", "higher"),
)


def _measures(production: pd.DataFrame, config: MonitorConfig) -> list[_Measure]:
    metrics, rule = columns_of(production, "metric").items(), config.relevance
    measures = []
    for metric, (name, values) in zip(config.resolved_metrics, metrics, strict=True):
        verdicts = _MORE_IS_BETTER if metric.higher_is_better else _LESS_IS_BETTER
        measures.append(_Measure(name, values, verdicts, metric.bounds[1] - metric.bounds[0]))
    events = columns_of(production, "event") if rule.from_events else {}
    for name, n in events.items():
        verdicts = _LESS_IS_BETTER if name in rule.negative else _MORE_IS_BETTER
        measures.append(_Measure(f"queries with {name}", (n > 0).astype(np.float64), verdicts, 1.0))
    online = columns_of(production, "online").items()
    return measures + [_Measure(name, values, _NEITHER_IS_BETTER, np.inf) for name, values in online]


def _test_measures(
    measures: Sequence[_Measure], assigned: _AssignedQueries, config: MonitorConfig
) -> tuple[list[ArmDifference], str]:
    """Test every measure of every arm as one family, and return the family in words as well."""
    columns = [(arm, measure) for arm in assigned.names[1:] for measure in measures]
    contrast = _contrast_with_control(measures, assigned)
    testable = np.flatnonzero(
        (contrast.units >= _MIN_UNITS)
        & (contrast.error > 0)
        & (_skewness_of_alike_arms(contrast) <= _MAX_SKEWNESS)
    )
    tested = []
    tests = count_of(testable.size, "test")
    if config.compare.correct == "sequence":
        if testable.size:
            tested.append((testable, _results_at_all_looks(contrast.columns(testable), assigned, config)))
        family = f"Bonferroni over {tests}, for all looks (asymptotically)"
    else:
        method = Method("skew-adjusted", confidence=config.compare.confidence)
        widths = np.array([measure.width for _, measure in columns])[testable]
        tested.append((testable, outcomes(contrast.columns(testable), method, seeds=(), widths=widths)))
        family = f"joint correction over {tests}"
    results = FamilyResults.assembled(len(columns), tested)
    differences = [
        _arm_difference(arm, measure, column, contrast, results, config)
        for column, (arm, measure) in enumerate(columns)
    ]
    return differences, family


def _contrast_with_control(measures: Sequence[_Measure], assigned: _AssignedQueries) -> LinearCombination:
    """Return the mean of every measure in every arm, less that in the control: a column each, arm by arm."""
    n_arms, control, group = len(assigned.names) - 1, assigned.arm == 0, _unit_groups(assigned)
    values = np.tile(np.column_stack([m.values[assigned.rows] for m in measures]), n_arms)
    arm_of_column = np.repeat(np.arange(1, n_arms + 1), len(measures))
    arm_values = np.where(assigned.arm[~control, None] == arm_of_column, values[~control], np.nan)
    return LinearCombination(
        (ClusterSums.of(arm_values, group[~control]), ClusterSums.of(values[control], group[control])),
        (1.0, -1.0),
    )


def _arm_difference(
    arm: str,
    measure: _Measure,
    column: int,
    contrast: LinearCombination,
    results: FamilyResults,
    config: MonitorConfig,
) -> ArmDifference:
    """Return the difference that is one column of the contrast, with its results in the family."""
    value, low, high, p, error, df, p_corrected = (
        float(numbers[column])
        for numbers in (
            contrast.mean,
            results.low,
            results.high,
            results.p,
            contrast.error,
            contrast.df,
            results.p_corrected,
        )
    )
    mean, control_mean = (float(part.mean[column]) for part in contrast.parts)
    n, n_control = (int(part.n[column]) for part in contrast.parts)
    return ArmDifference(
        arm=arm,
        measure=measure.name,
        mean=mean,
        control=control_mean,
        difference=Estimate(value, low, high, p, error, n + n_control, df),
        relative=value / control_mean if control_mean else float("nan"),
        p_corrected=p_corrected,
        n_queries=n,
        verdict=_verdict(measure, value, p_corrected, config),
    )


def _verdict(measure: _Measure, difference: float, p_corrected: float, config: MonitorConfig) -> str:
    if np.isnan(p_corrected):
        return "too little to tell"
    if p_corrected >= config.compare.alpha:
        return "not distinguishable"
    lower, higher = measure.verdicts
    return higher if difference > 0 else lower


def _furthest_against(d: ArmDifference, values: Floats, assigned: _AssignedQueries) -> float:
    """Return how far a query of either arm is from its arm's mean, against the difference of the arms."""
    compared_values = values[assigned.rows]
    control = compared_values[assigned.arm == 0] - d.control
    arm = compared_values[assigned.arm == assigned.names.index(d.arm)] - d.mean
    return max(furthest_against(d.difference.value, arm), furthest_against(-d.difference.value, control))


def _skewness_of_alike_arms(contrast: LinearCombination) -> Floats:
    """Return the skewness of each difference, (m,), if both arms had like units: an arm of few may lack rare ones."""
    n = np.array([part.units for part in contrast.parts], dtype=np.float64)
    parts = list(zip(contrast.parts, n, strict=True))
    with np.errstate(invalid="ignore", divide="ignore"):
        variance = sum(part.error**2 * n_units**2 for part, n_units in parts) / n.sum(axis=0)
        cumulant = sum(part.third_cumulant * n_units**3 for part, n_units in parts) / n.sum(axis=0)
        variance_of_difference = variance * (1 / n).sum(axis=0)
        skewness = cumulant * (1 / n[0] ** 2 - 1 / n[1] ** 2) / variance_of_difference**1.5
    return np.asarray(np.abs(skewness))


def _unit_groups(assigned: _AssignedQueries) -> Ints:
    """Return each query's unit, (n,); of very many, units of one arm are joined at random, and stay independent."""
    unit = np.unique(assigned.unit, return_inverse=True)[1]
    most, n = _MAX_SIGN_UNITS // len(assigned.names), int(unit.max(initial=-1)) + 1
    if n <= _MAX_SIGN_UNITS:
        return unit
    joined = np.random.Generator(np.random.PCG64(0)).permutation(n) % most
    return joined[unit] + most * assigned.arm


def _results_at_all_looks(
    contrast: LinearCombination, assigned: _AssignedQueries, config: MonitorConfig
) -> FamilyResults:
    """Return p-values and intervals that may be looked at after every window, for large numbers of units."""
    m, level = contrast.mean.size, 1 - config.compare.confidence
    z = normal_of_t(hall_transform(contrast.mean / contrast.error, contrast.skewness), contrast.df)
    looks = np.array(float(np.unique(assigned.window).size))
    p = always_valid_p(z, looks, TIGHTEST_LOOK, config.compare.alpha / m, "change")
    reach = t_of_normal(always_valid_reach(looks, TIGHTEST_LOOK, level / m), contrast.df)
    low, high = (
        contrast.mean - inverse_hall_transform(side * reach, contrast.skewness) * contrast.error
        for side in (1, -1)
    )
    undefined = np.full(m, np.nan)
    return FamilyResults(p, np.minimum(m * p, 1.0), undefined, low, high)


_TONES: dict[str, Tone] = {"better": "good", "worse": "bad", "withheld": "bad"}


def section(result: MonitorResult) -> list[Block]:
    arms = result.arms
    assert arms is not None
    family = f"{arms.family[:1].upper()}{arms.family[1:]}"
    confidence = result.config["compare"]["confidence"]
    differences = table_of(
        "arms",
        f"Every arm of {arms.column} against {arms.control}: means over queries.",
        arms.differences,
        (Column("Arm", "code"), "arm"),
        (Column("Measure", "code"), "measure"),
        (Column(arms.control, "metric"), "control"),
        (Column("Mean", "metric"), "mean"),
        (Column(f"Difference [{100 * confidence:g} % interval]", "difference"), "difference"),
        (Column("Relative", "relative"), "relative"),
        (Column("p", "p", hint="One test, uncorrected."), lambda d: d.difference.p),
        (Column("p corrected", "p", hint=arms.family), "p_corrected"),
        (Column("Queries", "count"), "n_queries"),
        (Column("Verdict"), lambda d: Badge(d.verdict, _TONES.get(d.verdict, "neutral"))),
        footnotes=(
            f"The skewness-adjusted sign-flip test, by {arms.unit}. {family}: p corrected and the intervals hold for "
            "all measures of all arms.",
        ),
    )
    total = sum(arm.n_units for arm in arms.arms)
    units = f"{units_in_words(arms.unit)}: assigned to an arm."
    shares = table_of(
        "arm_shares",
        "Assignment to the arms; below p = .001 there is no verdict.",
        arms.arms,
        (Column("Arm", "code"), "name"),
        (Column("Queries", "count"), "n_queries"),
        (Column("Units", "count", hint=units), "n_units"),
        (Column("Share", "percent"), lambda arm: arm.n_units / total if total else None),
        (Column("Expected", "percent"), "expected"),
        footnotes=(
            f"Chi-squared of these shares: {p_equals(arms.sample_ratio_p)}; of the same shares in all windows: "
            f"{p_equals(arms.same_shares_p)}.",
        ),
        sortable=False,
    )
    finding = "no verdict" if arms.withheld else f"{len(arms.worse)} of {len(arms.differences)} are worse"
    return [
        Heading("Arms", finding=finding, matters=bool(result.n_alerts("arm")) or not result.changes),
        Paragraph(arms.verdict, "warning" if arms.withheld else "lead"),
        differences,
        shares,
        *caution_blocks(choose_cautions(arms.cautions)),
    ]
