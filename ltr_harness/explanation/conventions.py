"""Conventions of a metric in other tools, and their differences in words."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ltr_harness.metrics.core.grammar import parse_metric
from ltr_harness.metrics.core.metric import Metric
from ltr_harness.metrics.core.presets import PRESETS
from ltr_harness.metrics.table import DEFINITIONS

# These ask the question; everything else is a convention of answering it, and another tool may have its own.
_QUESTION = ("k", "relevant", "max_grade", "p", "graded", "b")

_WHY: Mapping[tuple[str, Any], str] = {
    ("gain", "linear"): "a label gains its grade, not 2^grade - 1",
    ("gain", "exp"): "a label gains 2^grade - 1",
    ("gain", "exp_real"): "a label gains 2^grade - 1, fractions too",
    ("discount", "letor"): "rank 2 is not discounted",
    ("discount", "log2"): "rank r is discounted by log2(1 + r)",
    ("ties", "expected"): "equal scores: the mean over their orders",
    ("ties", "stable"): "equal scores keep row order",
    ("ties", "worst"): "equal scores: low labels first",
    ("ties", "best"): "equal scores: high labels first",
    ("ties", "id"): "equal scores: by document id, descending",
    ("empty", "skip"): "no relevant document: the query is left out",
    ("empty", "zero"): "no relevant document counts 0",
    ("empty", "one"): "no relevant document counts 1",
    ("score_precision", "float32"): "scores that float32 cannot tell apart tie",
    ("score_precision", "float64"): "scores keep their full precision",
    ("short_list", "zero"): "a list shorter than K counts 0",
    ("short_list", "truncate"): "a short list is measured as it is",
    ("denominator", "total"): "divided by all relevant documents, R",
    ("denominator", "min_rk"): "divided by min(R, K)",
    ("denominator", "retrieved"): "divided by the relevant documents within K",
    ("stop", "label"): "a label is the probability that its document satisfies",
    ("normalized", True): "divided by what perfect documents would reach",
    ("denominator", "k"): "divided by K, even where the list is shorter",
    ("denominator", "min_kn"): "divided by min(K, n)",
}


def as_measured_by(tool: str, metric: Metric) -> Metric:
    """The question `metric` asks, its cutoff and scale, answered with another tool's conventions.

    Example:
        >>> from ltr_harness.metrics import NDCG
        >>> str(as_measured_by("sklearn", NDCG(k=5, ties="stable")))
        'ndcg(empty=zero,gain=linear)@5'
    """
    return type(metric).like(tool, **_question(metric))


def as_measured_here(metric: Metric) -> Metric:
    """The question `metric` asks, its cutoff and scale, answered with our own conventions.

    Example:
        >>> from ltr_harness.metrics import NDCG
        >>> str(as_measured_here(NDCG(k=5, ties="stable", empty="one", gain="linear")))
        'ndcg@5'
    """
    return type(metric)(**_question(metric))


def _question(metric: Metric) -> dict[str, Any]:
    fields = {field.name: field for field in dataclasses.fields(metric)}
    return {
        name: getattr(metric, name)
        for name in _QUESTION
        if name in fields and getattr(metric, name) != fields[name].default
    }


def differences_in_words(metric: Metric, theirs: Metric) -> tuple[str, ...]:
    """What the other definition does differently, one phrase per choice.

    Example:
        >>> from ltr_harness.metrics import NDCG
        >>> differences_in_words(NDCG(k=5), NDCG(k=5, gain="linear", empty="zero"))
        ('no relevant document counts 0', 'a label gains its grade, not 2^grade - 1')
    """
    return tuple(in_words(name, choice) for name, choice in differing(metric, theirs).items())


def differing(metric: Metric, theirs: Metric) -> dict[str, Any]:
    """The choices of `theirs` that `metric` makes otherwise, by field."""
    return {
        field.name: getattr(theirs, field.name)
        for field in dataclasses.fields(metric)
        if getattr(theirs, field.name) not in (None, getattr(metric, field.name))
    }


def other_definitions(metric: Metric) -> dict[str, Metric]:
    """The question `metric` asks as others define the answer: by a name of its own, or the tool that has it.

    Example:
        >>> from ltr_harness.metrics import MAP
        >>> str(other_definitions(MAP(k=5))["map_retrieved"])
        'map(denominator=retrieved)@5'
    """
    named = {name: parse_metric(definition) for name, definition in DEFINITIONS.items()}
    others = {
        name: dataclasses.replace(metric, **differing(type(one)(), one))
        for name, one in named.items()
        if one.name == metric.name
    }
    tools = {
        tool: as_measured_by(tool, metric) for tool, metrics in PRESETS.items() if metric.name in metrics
    }
    return others | tools


def in_words(name: str, choice: Any) -> str:
    """One choice as a phrase, such as "rank 2 is not discounted"."""
    return _WHY.get((name, choice), f"{name}={choice}")
