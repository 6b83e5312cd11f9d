"""Does offline predict online? Past A/B tests, with the offline difference of each metric and the online one."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pydantic import AliasPath, BaseModel, Field

from ltr_harness._util.catalog import did_you_mean
from ltr_harness._util.display import Displayed
from ltr_harness._util.stored import NewerVersionError, StoredForm, Versioned, read_stored
from ltr_harness._util.text import count_of, shortened
from ltr_harness.data.addresses import local_path
from ltr_harness.data.arrays import Bools, Floats
from ltr_harness.data.columns import category_of, is_numeric, numbers_of, texts_of, values_shown
from ltr_harness.data.logs.log import Log, open_log
from ltr_harness.errors import Caution, DataError, MetricError, Problem, UsageError, all_of
from ltr_harness.experiments.compare.compare import compare
from ltr_harness.experiments.compare.errors_in_variables import (
    Interval,
    TrueEffects,
    correlation_differences,
    variation_p,
)
from ltr_harness.experiments.compare.inputs import read_inputs
from ltr_harness.metrics import parse_metric
from ltr_harness.metrics.core.grammar import as_list

NAME, ONLINE, SUFFIX = "experiment", "online", "_se"
BASELINE, CANDIDATE, MONITOR, ARM = "baseline", "candidate", "monitor", "arm"
_TEXTS = (NAME, BASELINE, CANDIDATE, MONITOR, ARM)
PROBABILITY = 0.9
_FEWEST, _FEWEST_WINNERS, _MOST = 8, 20, 2000  # experiments
_COMMON = 0.95  # of the experiments: beyond their differences, the needed one would be a guess about tails
_OPEN = 0.9  # of its whole scale, from which on an interval says nothing
_ALIKE = 0.5  # correlation of errors that is tried
_TOO_ALIKE = 1e-4  # chance of so little variation
_RULE = re.compile(
    r"\s*(?P<metric>.+?)\s*>\s*(?P<number>[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?)(?P<se>\s*se)?\s*", re.I
)


@dataclass(frozen=True)
class At:
    """The meaning of an offline difference: the expected true online effect, and its probability of being above 0."""

    offline: float
    online: Interval  # expected at this true offline effect
    positive: Interval  # given this measured difference


@dataclass(frozen=True)
class MetricOnline:
    """The prediction of online differences by a metric's offline ones; None for numbers that the data leave open."""

    metric: str
    correlation: Interval | None  # of true effects
    naive: float  # of the measured differences
    slope: Interval | None
    same_signs: Interval | None
    difference: float  # for which `positive` is: the root of the mean square of the measured ones
    positive: Interval | None  # probability of an online effect above 0, given that difference
    needed: Interval | None  # the offline difference from which on that probability is .9, if it was measured
    error: float  # median standard error, with which those differences are measured
    corrected: bool  # for the rule by which experiments were tested
    offline: tuple[float, ...]
    offline_se: tuple[float, ...]
    curve: tuple[At, ...]


@dataclass(frozen=True)
class MetricPair:
    """The difference of two metrics' correlations: how much closer the first follows the online effect."""

    first: str
    second: str
    difference: Interval


@dataclass(frozen=True)
class OnlineAgreement(Displayed):
    """All metrics, the highest correlation first; `str` is the verdict."""

    experiments: tuple[str, ...]
    online: tuple[float, ...]
    online_se: tuple[float, ...]
    confidence: float
    metrics: tuple[MetricOnline, ...]
    pairs: tuple[MetricPair, ...]  # with joint intervals
    verdict: str
    cautions: tuple[Caution, ...]

    def __repr__(self) -> str:
        return self.verdict

    @property
    def leader(self) -> MetricOnline | None:
        """The first metric that is shown to predict the online difference."""
        return next(
            (metric for metric in self.metrics if metric.correlation and metric.correlation.low > 0), None
        )

    @property
    def weaker_metrics(self) -> list[str]:
        """Metrics that are shown to predict it less well than the leader."""
        leader = self.leader.metric if self.leader else None
        return [pair.second for pair in self.pairs if pair.first == leader and pair.difference.low > 0]


def agreement(
    experiments: Any,
    *,
    metrics: Sequence[str] = (),
    measure: str | None = None,
    tested_if: str | None = None,
    confidence: float = 0.95,
) -> OnlineAgreement:
    """Does a metric's offline difference predict the online difference? Past experiments, each measured both times.

    The true effects of experiments, offline and online, are drawn from a population; both are measured with known
    errors (see `stats.errors_in_variables`). Differences above 0 are improvements on both sides.

    Args:
        experiments: a table (pandas, Polars, Arrow, or its file) with a row for each experiment: ``experiment`` (its
            name), ``online`` and ``online_se`` (difference and standard error), and for each metric two more such as
            ``ndcg@10`` and ``ndcg@10_se``. In their place ``baseline`` and ``candidate`` may hold run folders, and
            ``monitor`` (with ``arm``) the folder of ``monitor -o``.
        metrics: those to judge; without them all that the table has, or all that the runs share.
        measure: of the arms in ``monitor``; without it their first.
        tested_if: the rule by which experiments were chosen for a test, such as ``ndcg@10 > 0.002`` or
            ``ndcg@10 > 2 se``; the numbers of that metric are then about all ideas, tested or not.
        confidence: of every interval.

    Raises:
        DataError: fewer than 8 experiments, or a column or value that cannot be used.

    Example:
        >>> import pandas as pd
        >>> past = pd.DataFrame({"experiment": list("abcdefghij"), "online": [1, 3, -1, 2, 0, 4, -2, 2, 5, -1]})
        >>> past["map"] = [0.01, 0.02, 0.0, 0.02, -0.01, 0.03, -0.02, 0.01, 0.04, 0.0]
        >>> found = agreement(past.assign(online_se=0.8, map_se=0.005))
        >>> print(found.metrics[0].correlation.low > 0.5, found.metrics[0].needed.value < 0.02)
        True True

    Source: W. A. Fuller, "Measurement error models" (1987); A. Peysakhovich, D. Eckles, "Learning causal effects from
    many randomized experiments" (2018).
    """
    return judge_by_experiments(experiments, metrics, measure, tested_if, confidence)


def judge_by_experiments(
    experiments: Any,
    metrics: Sequence[str],
    measure: str | None,
    tested_if: str | None,
    confidence: float,
    progress: Callable[[str], None] = lambda _: None,
) -> OnlineAgreement:
    """Return the result of `agreement`; `progress` gets a line for each metric, once in each of two passes."""
    if not 0.5 <= confidence < 1:
        raise UsageError(f"confidence {confidence:g}; expected a number from 0.5 to below 1, such as 0.95")
    path = local_path(experiments) if isinstance(experiments, str | Path) else None
    log = open_log(path or experiments, None if path else "experiments", _TEXTS)
    folder = path.parent if path else Path()
    names, online, differences_by_metric = _read_past_experiments(log, folder, metrics, measure)
    thresholds: dict[str, Floats] = {}
    if tested_if is not None:
        thresholds = _thresholds(tested_if, names, differences_by_metric)
    effects: dict[str, TrueEffects] = {}
    dependent: dict[str, TrueEffects] = {}  # as if the errors of both sides correlated
    for number, (name, (differences, errors)) in enumerate(differences_by_metric.items(), start=1):
        progress(f"{number:,} of {count_of(len(differences_by_metric), 'metric')}: {name}")
        threshold = thresholds.get(name)
        effects[name] = TrueEffects.of(differences, errors, online[0], online[1], threshold)
        dependent[name] = TrueEffects.of(differences, errors, online[0], online[1], threshold, _ALIKE)
    DataError.refuse(
        _refusal(f"{log.name}: {name}", metric_effects)
        for name, metric_effects in effects.items()
        if not metric_effects.reliable
    )
    order = sorted(effects, key=lambda name: -effects[name].interval(effects[name].correlation).value)
    results: list[MetricOnline] = []
    for number, name in enumerate(order, start=1):
        progress(f"{number:,} of {count_of(len(order), 'metric')} with intervals: {name}")
        is_corrected = name in thresholds
        results.append(
            _metric_result(
                name, differences_by_metric[name], online[0], effects[name], confidence, is_corrected
            )
        )
    cautions = (
        *_cautions(results, tested_if),
        *_population_cautions(results, effects),
        *_error_cautions(results, dependent, confidence),
    )
    result = OnlineAgreement(
        experiments=names,
        online=tuple(online[0].tolist()),
        online_se=tuple(online[1].tolist()),
        confidence=confidence,
        metrics=tuple(results),
        pairs=_compare_metrics(order, effects, confidence),
        verdict="",
        cautions=cautions,
    )
    return replace(result, verdict=_verdict(result))


def _thresholds(tested_if: str, names: Sequence[str], measured: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return the number (n,) that each experiment's difference had to exceed to be tested, by the rule's metric."""
    place, parts = f"--tested-if {tested_if!r}", _RULE.fullmatch(tested_if)
    if parts is None:
        raise UsageError(f"{place}; expected such as 'ndcg@10 > 0.002' or 'ndcg@10 > 2 se'")
    metric, number = parts["metric"], float(parts["number"])
    if metric not in measured:
        raise UsageError(f"{place}: no metric {metric!r}; {did_you_mean(metric, measured)}")
    differences, errors = measured[metric]
    n = differences.size
    if n < _FEWEST_WINNERS:
        raise DataError.at(place, count_of(n, "experiment"), f"at least {_FEWEST_WINNERS}")
    threshold = number * errors if parts["se"] else np.full(n, number)
    untested = [name for name, failed in zip(names, differences <= threshold, strict=True) if failed]
    if untested:
        found = (
            f"{count_of(len(untested), 'experiment')} would not have been tested: {shortened(untested, 5)}"
        )
        raise DataError.at(place, found, "a rule that all of them meet")
    return {metric: threshold}


def _compare_metrics(
    order: Sequence[str], effects: Mapping[str, TrueEffects], confidence: float
) -> tuple[MetricPair, ...]:
    """Return the differences of the correlations of all pairs of metrics, with joint intervals."""
    couples = list(combinations(order, 2))
    joint_confidence = 1 - (1 - confidence) / max(1, len(couples))
    differences = correlation_differences([effects[name] for name in order], joint_confidence)
    return tuple(
        MetricPair(*couple, difference) for couple, difference in zip(couples, differences, strict=True)
    )


def _refusal(place: str, effects: TrueEffects) -> Problem:
    """Return the problem that no interval can be computed, with its reason."""
    if effects.mostly_nothing:
        found = "differs from 0 in so few experiments that no interval can be computed"
        return Problem(place, found, "more experiments that do something", "-m chooses other metrics")
    found = f"lies so close to one line with {ONLINE} that no interval can be computed"
    return Problem(place, found, "standard errors of 5 % and more of how differences vary")


def _metric_result(
    name: str, measured: Floats, online: Floats, effects: TrueEffects, confidence: float, corrected: bool
) -> MetricOnline:
    offline, errors = measured
    interval = partial(effects.interval, confidence=confidence)
    typical, error = float(np.sqrt(np.mean(offline**2))), float(np.median(errors))
    correlation = _unless_open(interval(effects.correlation), 2)
    are_winners = not corrected and float(offline.min()) > 0  # whose errors are above 0 on average
    holds = not are_winners and not effects.mostly_nothing  # the intervals besides correlation and slope
    slope = positive = same_signs = needed = None
    curve: list[At] = []
    if correlation and not are_winners:
        slope = interval(effects.slope)
    if holds:
        positive = _unless_open(interval(effects.positive(typical, error)), 1)
        low, high = min(0.0, float(offline.min())), max(0.0, float(offline.max()))
        for difference in np.linspace(low, high, 25).tolist():
            expected, chance = effects.online_at(difference), effects.positive(difference, error)
            curve.append(At(difference, interval(expected), interval(chance)))
    if holds and correlation:
        same_signs = _unless_open(effects.same_signs(confidence), 1)
    if correlation and positive:
        # as far as differences were measured: an end beyond them bounds nothing
        reach = float(np.quantile(np.abs(offline), _COMMON))
        needed = _clip_interval(interval(effects.needed(PROBABILITY, error)), reach)
    return MetricOnline(
        metric=name,
        correlation=correlation,
        naive=float(np.corrcoef(offline, online)[0, 1]) if online.std() > 0 else float("nan"),
        slope=slope,
        same_signs=same_signs,
        difference=typical,
        positive=positive,
        needed=needed,
        error=error,
        corrected=corrected,
        offline=tuple(offline.tolist()),
        offline_se=tuple(errors.tolist()),
        curve=tuple(curve),
    )


def _unless_open(interval: Interval, scale: float) -> Interval | None:
    """Return the interval, or None where it is nearly as wide as its scale."""
    return interval if interval.high - interval.low < _OPEN * scale else None


def _clip_interval(interval: Interval, reach: float) -> Interval:
    """Return the interval with infinity for what lies further than `reach` from 0."""
    value, low, high = math.copysign(math.inf, interval.value), -math.inf, math.inf
    if abs(interval.value) <= reach:
        value = interval.value
    if interval.low >= -reach:
        low = min(interval.low, reach)
    if interval.high <= reach:
        high = max(interval.high, -reach)
    return Interval(value, low, high)


def _verdict(agreement: OnlineAgreement) -> str:
    """Return the sentences about what the intervals show, and no more."""
    texts: list[str] = []  # of the metrics with an interval
    predictors: list[str] = []  # of those that are shown to predict
    for metric in agreement.metrics:
        if metric.correlation is not None:
            texts.append(f"{metric.metric} (correlation of true effects {metric.correlation})")
            if metric.correlation.low > 0:
                predictors.append(texts[-1])
    if agreement.leader is None:
        if not texts:
            return "No metric is shown to predict the online difference."
        return f"No metric is shown to predict the online difference: {texts[0]} has the highest."
    verb = "predicts" if len(predictors) == 1 else "predict"
    sentences = [f"{', '.join(predictors)} {verb} the online difference."]
    best, weaker = agreement.leader.metric, agreement.weaker_metrics
    if weaker:
        sentences.append(f"{best} predicts it better than {', '.join(weaker)}.")
    undecided = [metric.metric for metric in agreement.metrics if metric.metric not in (best, *weaker)]
    if undecided:
        sentences.append(f"Whether {best} predicts it better than {', '.join(undecided)} is open.")
    return " ".join(sentences)


def _cautions(results: Sequence[MetricOnline], tested_if: str | None) -> Iterator[Caution]:
    n = len(results[0].offline)
    for result in results:
        if result.correlation is None:
            text = (
                f"{count_of(n, 'experiment')} with these standard errors leave the correlation of true effects open; "
                "numbers that depend on it are left out"
            )
            yield Caution("open-correlation", "warning", text, place=result.metric)
        if tested_if is None and min(result.offline) > 0:
            text = (
                "every experiment was better offline, as if winners alone were tested. Their errors are above 0 on "
                "average, and only a correlation among winners is given"
            )
            cure = f"--tested-if '{result.metric} > 0' corrects for that rule"
            yield Caution("winners-alone", "warning", text, cure, result.metric)
    if tested_if is None:
        yield Caution("tested-ideas", "note", "the numbers are about ideas like those that were tested")
        return
    rule = next(result.metric for result in results if result.corrected)
    text = f"corrected for tests of experiments with {tested_if} alone"
    yield Caution("corrected-selection", "note", text, place=rule)
    if names := ", ".join(result.metric for result in results if not result.corrected):
        text = "not corrected for that rule; the numbers are about tested experiments"
        yield Caution("uncorrected-selection", "warning", text, place=names)


def _population_cautions(
    results: Sequence[MetricOnline], effects_by_metric: Mapping[str, TrueEffects]
) -> Iterator[Caution]:
    """Yield the cautions on experiments that mostly do nothing."""
    for result in results:
        effects = effects_by_metric[result.metric]
        if effects.mostly_nothing:
            share = effects.interval(effects.nothing).value
            text = (
                f"as if about {100 * share:.0f} % of the experiments did nothing, which makes these differences "
                "likelier than effects of one kind do. Correlation and slope are those of the others; further numbers "
                "have no interval that holds then"
            )
            yield Caution("mostly-nothing", "note", text, place=result.metric)


def _error_cautions(
    results: Sequence[MetricOnline], dependent: Mapping[str, TrueEffects], confidence: float
) -> Iterator[Caution]:
    """Yield the cautions on the correlation that would be found had both sides measured the same users."""
    for result in results:
        if result.correlation is None:
            continue
        effects = dependent[result.metric]
        other = effects.interval(effects.correlation, confidence)
        text = "the errors of both sides are taken as independent"
        if effects.reliable:
            text += f". If they correlated by {_ALIKE:g}, as those of the same users may, the correlation of true "
            text += f"effects would be {other}"
        if result.correlation.low <= 0 or (effects.reliable and other.low > 0):
            yield Caution("independent-errors", "note", text, place=result.metric)
            continue
        text += "; it is shown to be above 0 by independent errors alone"
        cure = "measure offline on queries of other users or days than online"
        yield Caution("independent-errors", "warning", text, cure, result.metric)


def _text_columns(log: Log) -> list[str]:
    """Return the columns that name results of monitor, an arm of them, and runs."""
    columns = []
    if MONITOR in log.columns:
        columns.append(MONITOR)
        if ARM in log.columns:
            columns.append(ARM)
    if CANDIDATE in log.columns:
        columns += [BASELINE, CANDIDATE]
    return columns


def _read_past_experiments(
    log: Log, folder: Path, requested_metrics: Sequence[str], measure: str | None
) -> tuple[tuple[str, ...], Floats, dict[str, Floats]]:
    """Return the experiments' names, and (2, n) differences and standard errors: online, and of each metric.

    Runs and results of monitor that the table names are read as well; their paths are relative to `folder`.
    """
    metrics = _metrics_of_table(log, requested_metrics)
    text_columns = _text_columns(log)
    measured = metrics if MONITOR in text_columns else [ONLINE, *metrics]
    number_columns = [column for name in measured for column in (name, name + SUFFIX)]
    table = log.read([NAME, *text_columns, *number_columns])
    names = texts_of(category_of(table[NAME], NAME)).tolist()
    _refuse_names(log.name, names)
    texts = {name: [str(cell or "") for cell in values_shown(table[name])] for name in text_columns}
    columns = _numbers_of_table(log.name, table, measured)
    if MONITOR in texts:
        folders = [folder / path for path in texts[MONITOR]]
        columns = {ONLINE: _read_online(names, folders, texts.get(ARM), measure), **columns}
    if CANDIDATE in texts:
        pairs = [(folder / a, folder / b) for a, b in zip(texts[BASELINE], texts[CANDIDATE], strict=True)]
        columns |= _read_offline(names, pairs, requested_metrics)
    _refuse_unusable_numbers(log.name, names, columns)
    return tuple(names), columns.pop(ONLINE), columns


def _metrics_of_table(log: Log, requested_metrics: Sequence[str]) -> list[str]:
    """Return the metrics whose differences are columns of the table; none where it names runs."""
    values = [name for name in log.columns if name not in (*_TEXTS, ONLINE) and not name.endswith(SUFFIX)]
    error_columns = {name.removesuffix(SUFFIX): name for name in log.columns if name.endswith(SUFFIX)}
    DataError.refuse(
        Problem(f"{log.name}: {column}", f"has no column {name!r}", "", did_you_mean(name, values))
        for name, column in error_columns.items()
        if name not in values and name != ONLINE
    )
    if CANDIDATE in log.columns:
        return []
    metrics = list(requested_metrics) or [name for name in values if name in error_columns]
    if not metrics:
        expected = f"two columns for each, such as ndcg@10 and ndcg@10_se, or {BASELINE} and {CANDIDATE}"
        raise DataError.at(log.name, "has no metric", expected)
    return metrics


def _numbers_of_table(table_name: str, table: Any, measured: Sequence[str]) -> dict[str, Floats]:
    """Return the differences and standard errors (2, n) that are columns of the table."""
    names = [column for name in measured for column in (name, name + SUFFIX)]
    wordy = [name for name in names if not is_numeric(table[name].type)]
    DataError.refuse(
        Problem(f"{table_name}: column {name!r}", "holds text", "numbers alone") for name in wordy
    )
    numbers = {name: numbers_of(table[name], name) for name in names}
    return {name: np.array([numbers[name], numbers[name + SUFFIX]]) for name in measured}


def _refuse_names(table_name: str, names: Sequence[str]) -> None:
    """Raise a DataError for experiments without a name, listed twice, too many or too few."""
    place, n = f"{table_name}: {NAME}", len(names)
    if "(missing)" in names:
        raise DataError.at(place, "is empty in some rows", "a name for each experiment")
    repeated = sorted(name for name, times in Counter(names).items() if times > 1)
    if repeated:
        raise DataError.at(place, f"has {shortened(repeated, 5)} twice", "one row for each experiment")
    if n > _MOST:
        raise DataError.at(table_name, f"has {n:,} experiments", f"at most {_MOST:,}")
    if n < _FEWEST:
        found = f"has {count_of(n, 'experiment')}"
        expected = (
            f"at least {_FEWEST}; with 20, a true correlation of 0.8 is typically told to within 0.45 to 1, "
            "with 50 to within 0.55 to 0.95"
        )
        raise DataError.at(table_name, found, expected)


def _read_online(
    names: Sequence[str], folders: Sequence[Path], arms: Sequence[str] | None, measure: str | None
) -> Floats:
    """Return the online differences and standard errors (2, n) that results of monitor hold."""
    if arms is None:
        arms = ["" for _ in names]
    experiments = zip(names, folders, arms, strict=True)
    rows = all_of(
        partial(_difference_of_monitor, name, path, arm, measure) for name, path, arm in experiments
    )
    return np.array(rows).T


def _read_offline(
    names: Sequence[str], pairs: Sequence[tuple[Path, Path]], requested_metrics: Sequence[str]
) -> dict[str, Floats]:
    """Return the differences and standard errors (2, n) of each metric that all pairs of run folders have."""
    rows = all_of((partial(_difference_of_runs, *pair, requested_metrics) for pair in pairs), UsageError)
    first = rows[0]
    shared = [metric for metric in first if all(metric in row for row in rows)]
    if not shared:
        other = next(name for name, row in zip(names, rows, strict=True) if not set(row) & set(first))
        place = f"experiments {names[0]} and {other}"
        raise DataError.at(place, "have no metric at one K in common", "one", "-m names it")
    return {metric: np.array([row[metric] for row in rows]).T for metric in shared}


def _refuse_unusable_numbers(table_name: str, names: Sequence[str], columns: Mapping[str, Floats]) -> None:
    """Raise a DataError for cells that are no difference or no standard error, and for differences that do not vary."""
    problems: list[Problem] = []
    for column, (differences, errors) in columns.items():
        are_differences = np.abs(differences) < 1e100
        are_errors = (errors > 1e-100) & (errors < 1e100)
        expected = "a standard error above 0"
        problems += _cell_problems(table_name, names, column, differences, are_differences, "a number")
        problems += _cell_problems(table_name, names, column + SUFFIX, errors, are_errors, expected)
        if problems:
            continue  # a variation is that of numbers
        place = f"{table_name}: {column}"
        if np.ptp(differences) == 0:
            found = f"all differences are {differences[0]:g}"
            problems.append(Problem(place, found, "differences that vary"))
        elif variation_p(differences, errors) < _TOO_ALIKE:
            found = f"its differences vary less than {column}{SUFFIX} allows"
            problems.append(Problem(place, found, "their standard errors"))
    DataError.refuse(problems)


def _cell_problems(
    table_name: str, names: Sequence[str], column: str, numbers: Floats, usable: Bools, expected: str
) -> list[Problem]:
    """Return a problem for each of the first five unusable cells of a column."""
    problems = []
    for row in np.flatnonzero(~usable)[:5]:
        found = "no value" if np.isnan(numbers[row]) else f"{numbers[row]:g}"
        problems.append(Problem(f"{table_name}: experiment {names[row]}, {column}", found, expected))
    return problems


def _difference_of_runs(
    baseline: Path, candidate: Path, requested_metrics: Sequence[str]
) -> dict[str, tuple[float, float]]:
    """Return difference and standard error of each metric, above 0 where the candidate is better."""
    # each folder by itself: else its runs keep the names of their models, which may be alike
    sides = {"baseline": read_inputs([baseline]).systems, "candidate": read_inputs([candidate]).systems}
    UsageError.refuse(
        Problem(str(folder), f"holds {count_of(len(models), 'model')}", "one")
        for folder, models in zip((baseline, candidate), sides.values(), strict=True)
        if len(models) != 1
    )
    comparison = compare(
        {name: system for name, (system,) in sides.items()},
        metrics=list(requested_metrics) or None,
        ledger=False,
    )
    differences = {}
    for metric in comparison.metrics:
        sign = 1 if comparison.higher_is_better[metric] else -1
        sample = comparison.sampling.contributions(comparison.query_differences("candidate", metric)[:, None])
        differences[metric] = (sign * float(sample.mean[0]), float(sample.error[0]))
    return differences


class _StoredArmDifference(BaseModel):
    arm: str
    measure: str
    value: float = Field(validation_alias=AliasPath("difference", "value"))
    error: float | None = Field(validation_alias=AliasPath("difference", "error"))


class _Monitored(Versioned, extra="ignore"):
    """The part of monitor's ``report.json`` that is read here."""

    form: ClassVar[StoredForm] = "monitor"
    differences: list[_StoredArmDifference] = Field([], validation_alias=AliasPath("arms", "differences"))
    negative: str | list[str] = Field([], validation_alias=AliasPath("config", "relevance", "negative"))


def _difference_of_monitor(name: str, folder: Path, arm: str, measure: str | None) -> tuple[float, float]:
    """Return difference and standard error of a measure of an arm, above 0 where the arm is better."""
    place = f"experiment {name}: {folder}"
    try:
        monitored = read_stored(_Monitored, folder, "report.json")
    except NewerVersionError as problem:
        raise DataError.at(f"{place}/report.json", str(problem)) from None
    except (OSError, ValueError) as problem:
        raise DataError.at(place, f"is not a stored result of monitor: {problem}") from None
    difference = _difference_of(place, monitored.differences, arm, measure)
    sign = 1 if _more_is_better(difference.measure, as_list(monitored.negative)) else -1
    return sign * difference.value, difference.error or float("nan")


def _difference_of(
    place: str, differences: Sequence[_StoredArmDifference], arm: str, measure: str | None
) -> _StoredArmDifference:
    """Return the difference of a measure, the first unless given, of an arm; DataError where it is not one."""
    if not differences:
        raise DataError.at(place, "has no arms", "a result of monitor with arms: in its configuration")
    requested_measure = measure or differences[0].measure
    matches = [
        difference
        for difference in differences
        if difference.measure == requested_measure and arm in ("", difference.arm)
    ]
    if len(matches) != 1:
        measures = shortened(list(dict.fromkeys(difference.measure for difference in differences)), 8)
        arms = shortened(list(dict.fromkeys(difference.arm for difference in differences)), 5)
        found = f"has {count_of(len(matches), 'difference')} of {requested_measure!r} for arm {arm or 'any'}"
        cure = f"its measures are {measures}, its arms {arms}; column {ARM!r} names one"
        raise DataError.at(place, found, "one", cure)
    return matches[0]


def _more_is_better(measure: str, negative: Sequence[str]) -> bool:
    """Return whether larger values of a metric or a rate are better; of other columns they are."""
    try:
        return parse_metric(measure).higher_is_better
    except MetricError:
        return measure not in [f"queries with {event}" for event in negative]
