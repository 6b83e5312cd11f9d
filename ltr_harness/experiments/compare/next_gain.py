"""From the runs of a study to its answers: what are feature groups worth, and what would more training queries gain?"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Literal

import numpy as np

from ltr_harness._util.stored import TrainingQueries
from ltr_harness.comparison.comparing import compare_systems
from ltr_harness.comparison.comparison import Comparison
from ltr_harness.comparison.contrasts import Paired
from ltr_harness.comparison.stats.learning_curve import FEWEST_SHARES, GainEstimate, learning_curve
from ltr_harness.comparison.stats.method import Method
from ltr_harness.errors import HarnessError
from ltr_harness.experiments.compare.compare import compare
from ltr_harness.experiments.compare.from_runs import systems_from_runs
from ltr_harness.experiments.config.schema import ModelOptions
from ltr_harness.experiments.runs import Run
from ltr_harness.experiments.runs.run import PER_QUERY
from ltr_harness.experiments.runs.serving_cost import TYPICAL
from ltr_harness.metrics.core.judge_ceiling import judge_columns
from ltr_harness.models.selection import FeatureSelection

Worth = Literal["removable", "needed", "undecided"]
Outlook = Literal["forecast", "flat", "too noisy", "too few shares"]


@dataclass(frozen=True)
class GroupWorth:
    """A model without a feature group, or without several together, against the whole one."""

    groups: tuple[str, ...]
    without: Paired
    only: Paired | None  # the model of this group alone against the whole one
    verdict: Worth
    largest_loss: float  # the worse end of the interval, 0 or more
    cost: float | None  # in the user's own unit
    latency_share: (
        float | None
    )  # share of the whole model's latency that goes with the group; below 0 where it grows
    features: tuple[str, ...]  # of the groups, of those that the whole model learns from


@dataclass(frozen=True)
class CurvePoint:
    """The mean of a model that was trained on a share of the training queries."""

    share: float
    queries: float  # of each training, on average over folds
    draws: int
    mean: float
    ci_low: float
    ci_high: float


@dataclass(frozen=True)
class QueriesWorth:
    """The learning curve over training queries, with the gain of twice as many."""

    outlook: Outlook
    points: tuple[CurvePoint, ...]
    rise: GainEstimate  # from the smallest share to the whole
    gain: GainEstimate  # of twice the training queries
    fitted: tuple[float, ...]  # at the shares and at twice the whole


@dataclass(frozen=True)
class LabelCeiling:
    """The ceiling that judges' disagreement sets: another judge's grades as a ranking, by one judge's grades.

    Of documents with several judgments alone, and so are the values of the models. A model can be above it, as it
    learns from many judgments, and another judge has one.
    """

    metric: str
    n_queries: int  # with such documents, and a value
    mean: float
    ci_low: float
    ci_high: float
    family: str
    models: tuple[Paired, ...]  # every tested model against another judge


@dataclass(frozen=True)
class NextGain:
    """The answers of a study about one model."""

    model: str
    metric: str
    n_queries: int
    family: str  # of the comparisons of feature groups; "" without any
    groups: tuple[GroupWorth, ...]
    together: GroupWorth | None  # all groups that can go one by one, left out together
    queries: QueriesWorth | None
    higher_is_better: bool
    labels: LabelCeiling | None = None  # None where no test document has several judgments


def next_gains(runs: Sequence[Run], studied: Mapping[str, ModelOptions], method: Method) -> list[NextGain]:
    """Return the answers for each studied model whose runs are finished; `studied` has the variants by name."""
    answers = _answers(runs, studied, method)
    if not answers:
        return []
    labels = _label_ceiling([run for run in runs if run.record.model not in studied], method)
    return [replace(answer, labels=labels) for answer in answers]


def _answers(runs: Sequence[Run], studied: Mapping[str, ModelOptions], method: Method) -> list[NextGain]:
    """Return the answers but for the labels."""
    by_model: dict[str, list[Run]] = {}
    for run in runs:
        if run.record.status == "complete":
            by_model.setdefault(run.record.model, []).append(run)
    answers = []
    for name in dict.fromkeys(options.variant.of for options in studied.values() if options.variant):
        variants = {
            variant: options
            for variant, options in studied.items()
            if options.variant is not None and options.variant.of == name and variant in by_model
        }
        if name in by_model and variants:
            answers.append(_next_gain(name, by_model, variants, method))
    return answers


def removable_groups(
    runs: Sequence[Run], studied: Mapping[str, ModelOptions], method: Method
) -> dict[str, list[str]]:
    """Return for each studied model the variants that lack one group without a loss beyond the margin.

    Sets of groups that were left out together are not looked at, so that a later call finds the same.
    """
    single = {
        name: options
        for name, options in studied.items()
        if options.variant is not None
        and len(options.variant.without) < 2
        and options.training_queries is None
    }
    return {
        answer.model: [entry.without.model for entry in answer.groups if entry.verdict == "removable"]
        for answer in _answers(runs, single, method)
    }


def _next_gain(
    name: str, runs: Mapping[str, Sequence[Run]], variants: Mapping[str, ModelOptions], method: Method
) -> NextGain:
    metric = runs[name][0].record.primary
    on_shares = {
        variant: options.training_queries
        for variant, options in variants.items()
        if options.training_queries is not None
    }
    of_groups = [variant for variant in variants if variant not in on_shares]
    comparison = _comparison(name, of_groups, runs, metric, method)
    worths = [] if comparison is None else _group_worths(comparison, variants, runs)
    queries = None
    if on_shares:
        queries = _queries_worth(name, on_shares, runs, metric, method)
    summary = runs[name][0].record.metrics[metric]
    return NextGain(
        model=name,
        metric=metric,
        n_queries=summary.n_queries if comparison is None else comparison.n_queries,
        family="" if comparison is None else comparison.families[0],
        groups=tuple(entry for entry in worths if len(entry.groups) == 1),
        together=next((entry for entry in worths if len(entry.groups) > 1), None),
        queries=queries,
        higher_is_better=summary.higher_is_better,
    )


def _comparison(
    name: str, variants: Sequence[str], runs: Mapping[str, Sequence[Run]], metric: str, method: Method
) -> Comparison | None:
    """Return the variants of a model against the whole one; None where they cannot be compared."""
    if not variants:
        return None
    members = [run for model in (name, *variants) for run in runs[model]]
    try:
        return compare(*members, metrics=[metric], baseline=name, ledger=False, **asdict(method))
    except HarnessError:  # a fold of the whole model, or of all variants, has failed
        return None


def _group_worths(
    comparison: Comparison, variants: Mapping[str, ModelOptions], runs: Mapping[str, Sequence[Run]]
) -> list[GroupWorth]:
    """Return each feature group of a comparison, and those that were left out together, in their order."""
    pairs = {pair.model: pair for pair in comparison.pairs}
    only = {
        options.variant.only: pairs[name]
        for name, options in variants.items()
        if options.variant is not None and options.variant.only is not None and name in pairs
    }
    sign = 1 if comparison.higher_is_better[comparison.primary] else -1
    worths = []
    for name, options in variants.items():
        variant = options.variant
        if variant is None or not variant.without or name not in pairs:
            continue
        pair = pairs[name]
        largest_loss = max(0.0, -pair.ci_low if sign > 0 else pair.ci_high)
        worths.append(
            GroupWorth(
                groups=variant.without,
                without=pair,
                only=only.get(variant.without[0]) if len(variant.without) == 1 else None,
                verdict=_verdict(pair, largest_loss, comparison.method.margin),
                largest_loss=largest_loss,
                cost=variant.cost,
                latency_share=_latency_share(runs[comparison.baseline], runs[name]),
                features=_features_without(runs[name][0], runs[comparison.baseline][0]),
            )
        )
    return worths


def _features_without(fewer: Run, all_features: Run) -> tuple[str, ...]:
    """Return the features that a model learns from and another one lacks."""
    lacking, left_out = (
        FeatureSelection(
            config.get("features") and tuple(config["features"]), tuple(config.get("exclude") or ())
        ).left_out(all_features.record.features)
        for config in (fewer.record.config, all_features.record.config)
    )
    return tuple(feature for feature in lacking if feature not in left_out)


def shared_feature_lines(groups: Mapping[str, Sequence[str]]) -> list[str]:
    """Return a line for every two feature groups that share features; `groups` has their features."""
    lines = []
    for first, second in combinations(groups, 2):
        if shared := [feature for feature in groups[first] if feature in groups[second]]:
            lines.append(
                f"groups {first} and {second} share {', '.join(shared)}: the worth of both counts it"
            )
    return lines


def _verdict(pair: Paired, largest_loss: float, margin: float | None) -> Worth:
    if margin is not None and largest_loss <= margin:
        return "removable"
    return "needed" if pair.verdict == "worse" else "undecided"


def _latency_share(all_features: Sequence[Run], fewer: Sequence[Run]) -> float | None:
    """Return the share of a model's median latency that it saves without a group; None where it was not timed."""
    before, after = _latency(all_features), _latency(fewer)
    return None if not before or after is None else 1 - after / before


def _latency(runs: Sequence[Run]) -> float | None:
    """Return the median microseconds of a call with the typical number of documents, with all rounds."""
    times = [
        timing.p50
        for run in runs
        for timing in run.record.latency
        if timing.documents == TYPICAL and timing.rounds in (None, run.record.best_round)
    ]
    return float(np.median(times)) if times else None


def _queries_worth(
    name: str,
    on_shares: Mapping[str, TrainingQueries],
    runs: Mapping[str, Sequence[Run]],
    metric: str,
    method: Method,
) -> QueriesWorth | None:
    """Return the learning curve of a model from those of its variants that all folds have."""
    # of its verdicts nothing is used: it aligns queries, and has their units and weights
    aligning = Method(confidence=method.confidence, unit=method.unit, weights=method.weights, test="t")
    comparison = _comparison(name, list(on_shares), runs, metric, aligning)
    if comparison is None:
        return None
    by_share: dict[float, list[str]] = {}
    for variant in comparison.models:
        share = 1.0 if variant == name else on_shares[variant].share
        by_share.setdefault(share, []).append(variant)
    shares = sorted(by_share)
    values = [
        np.stack([comparison.system(variant).per_query(metric) for variant in by_share[share]])
        for share in shares
    ]
    curve = learning_curve(
        shares,
        values,
        units=comparison.units,
        weights=comparison.weights,
        confidence=method.confidence,
        higher_is_better=comparison.higher_is_better[metric],
    )
    points = []
    for share, mean, low, high in zip(shares, curve.means, curve.low, curve.high, strict=True):
        sizes = [run.record.data["train"].n_queries for variant in by_share[share] for run in runs[variant]]
        queries = float(np.mean(sizes))
        points.append(CurvePoint(share, queries, len(by_share[share]), float(mean), float(low), float(high)))
    outlook = _outlook(len(shares), curve.rise, curve.forecast, method.margin)
    return QueriesWorth(outlook, tuple(points), curve.rise, curve.forecast, tuple(curve.fitted.tolist()))


def _outlook(n_shares: int, rise: GainEstimate, gain: GainEstimate, margin: float | None) -> Outlook:
    """Return whether there is a forecast: the curve rises, or it is flat within the margin."""
    if n_shares < FEWEST_SHARES:
        return "too few shares"
    if margin is not None and -margin <= gain.low and gain.high <= margin:
        return "flat"
    return "forecast" if rise.low > 0 else "too noisy"


def _label_ceiling(runs: Sequence[Run], method: Method) -> LabelCeiling | None:
    """Return what another judge reaches, and the models beside it; None where runs have no values by single judges."""
    finished = [run for run in runs if run.record.status == "complete"]
    metric = finished[0].record.primary
    by_one_judge, another_judge = judge_columns(metric)
    if any(another_judge not in run.stored_columns(PER_QUERY) for run in finished):
        return None
    summary = finished[0].record.metrics[metric]
    columns = dict.fromkeys((by_one_judge, another_judge), summary)
    read_as_metrics = [
        replace(run, record=run.record.model_copy(update={"metrics": columns, "primary": by_one_judge}))
        for run in finished
    ]
    direction = {metric: summary.higher_is_better}
    try:
        found, _, _ = systems_from_runs(read_as_metrics)
        models = [
            replace(model, values={metric: model.values[by_one_judge]}, higher_is_better=direction)
            for model in found
        ]
        names = [model.name for model in models]
        name = "another judge" if "another judge" not in names else "another judge (labels)"
        values = {metric: found[0].values[another_judge][:1]}
        judge = replace(
            models[0], name=name, values=values, replicates=("1",), deterministic=True, seeded=False
        )
        comparison = compare_systems([judge, *models], primary=metric, baseline=name, method=method)
    except HarnessError:  # a fold of every model has failed
        return None
    ceiling = comparison.summary(name)
    if not ceiling.n:
        return None
    return LabelCeiling(
        metric=metric,
        n_queries=ceiling.n,
        mean=ceiling.mean,
        ci_low=ceiling.ci_low,
        ci_high=ceiling.ci_high,
        family=comparison.families[0],
        models=comparison.pairs,
    )
