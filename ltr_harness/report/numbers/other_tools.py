"""Means under other tools' conventions: what they would print for these very scores."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from ltr_harness.errors import MetricError
from ltr_harness.explanation import other_definitions
from ltr_harness.groups import Judgments, QueryGroups
from ltr_harness.metrics import Binding, Metric, parse_metric
from ltr_harness.metrics.core.gains import EXPONENTIAL_GAINS
from ltr_harness.report.numbers.test_rows import TestRows


class ToolConvention(NamedTuple):
    """One way of computing a metric, and whose way it is."""

    names: tuple[str, ...]  # tools and choices that share it
    metric: Metric


class Recomputed(NamedTuple):
    """A metric under every convention: means over queries, averaged over seeds."""

    metric: str
    conventions: tuple[ToolConvention, ...]
    means: dict[str, tuple[float, ...]]  # model -> one mean per convention
    refused: tuple[str, ...]  # tools whose convention cannot be applied to these data, and why


def warm_up() -> None:
    """Load the compiled loops that other tools' conventions ask for."""
    judgments = Judgments.checked(np.array([1.0, 0.0]), QueryGroups.from_sizes(np.array([2])))
    for name in ("ndcg@10", "map@10", "mrr@10", "err(max_grade=4)@10"):
        metrics = {one.metric for one in _conventions(parse_metric(name))}
        for metric in sorted(metrics, key=str):
            with suppress(MetricError):  # it needs what two bare rows do not have
                Binding([metric], judgments).per_query(np.zeros(2))


def recomputed(names: Sequence[str], models: Sequence[str], rows: TestRows) -> tuple[Recomputed, ...]:
    """The metrics of these names under every tool's conventions that these rows allow."""
    asked = {}
    for name in names:
        try:
            asked[name] = _conventions(parse_metric(name))
        except MetricError:  # a metric from outside has no conventions that we know
            continue
    refused = rows.refusals(
        list(dict.fromkeys(one.metric for conventions in asked.values() for one in conventions))
    )
    plans = _plans(asked, refused)
    metrics = _metrics_of(plans)
    try:
        per_query = {model: rows.per_query(model, metrics) for model in models} if metrics else {}
    except MetricError:  # scores that tie where a convention makes something random of it
        refused |= rows.refused_scores(models, metrics)
        plans = _plans(asked, refused)
        metrics = _metrics_of(plans)
        per_query = {model: rows.per_query(model, metrics) for model in models} if metrics else {}
    if not metrics:
        return ()
    means: dict[str, dict[Metric, float]] = {}
    for model, values in per_query.items():
        defined = (~np.isnan(values)).sum(axis=1)
        sums = np.nansum(values, axis=1)
        means[model] = {
            metric: float(total / n) if n else float("nan")
            for metric, total, n in zip(metrics, sums, defined, strict=True)
        }
    return tuple(
        Recomputed(
            name,
            conventions,
            {
                model: tuple(by_metric[one.metric] for one in conventions)
                for model, by_metric in means.items()
            },
            reasons,
        )
        for name, conventions, reasons in plans
    )


_Plan = tuple[str, tuple[ToolConvention, ...], tuple[str, ...]]


def _plans(asked: Mapping[str, tuple[ToolConvention, ...]], refused: Mapping[Metric, str]) -> list[_Plan]:
    """For each metric that other tools compute too: the conventions that are possible, and why others are not."""
    plans = []
    for name, conventions in asked.items():
        possible = tuple(one for one in conventions if one.metric not in refused)
        if len(possible) > 1 and possible[0] == conventions[0]:
            reasons = tuple(
                f"{', '.join(one.names)}: {refused[one.metric]}" for one in conventions if one not in possible
            )
            plans.append((name, possible, reasons))
    return plans


def _metrics_of(plans: Sequence[_Plan]) -> list[Metric]:
    return list(dict.fromkeys(one.metric for _, conventions, _ in plans for one in conventions))


def _conventions(own: Metric) -> tuple[ToolConvention, ...]:
    """Our own, single choices that people ask for, then the tools; equal definitions share a place."""
    named: dict[Metric, list[str]] = {own: ["here"]}
    if getattr(own, "gain", None) in EXPONENTIAL_GAINS:
        named.setdefault(dataclasses.replace(own, gain="linear"), []).append("linear gain")  # type: ignore[call-arg]
    for name, metric in other_definitions(own).items():
        named.setdefault(metric, []).append(name)
    return tuple(ToolConvention(tuple(names), metric) for metric, names in named.items())
