"""The metrics a command was asked for."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from ltr_harness.errors import MetricError, Problem

if TYPE_CHECKING:
    from ltr_harness.metrics import Metric

option = click.option(
    "-m",
    "--metric",
    "metrics",
    multiple=True,
    metavar="METRIC",
    help="Such as ndcg@10, or ndcg(as=trec_eval)@10; several times, or separated by commas. The first decides.",
)


def split(texts: Sequence[str]) -> list[str]:
    """Commas between metrics, not those between a metric's parameters.

    Example:
        >>> split(["ndcg@10,mrr", "rbp(graded=true,p=0.8)"])
        ['ndcg@10', 'mrr', 'rbp(graded=true,p=0.8)']
    """
    return [part.strip() for text in texts for part in re.split(r",(?![^()]*\))", text) if part.strip()]


class Asked(NamedTuple):
    """The metrics, each once, the one that decides where rankings are compared, and how they were typed."""

    metrics: list[Metric]
    primary: Metric
    typed: Mapping[Metric, str]

    def names(self, evaluated: Sequence[Metric]) -> dict[str, str]:
        """Canonical name to the name that was typed, where they differ."""
        pairs = zip(self.metrics, map(str, evaluated), strict=True)
        return {name: text for metric, name in pairs if (text := self.typed.get(metric, name)) != name}


def tools_named(typed: Sequence[str]) -> tuple[str, ...]:
    """For each name that is another tool's, what it stands for.

    Example:
        >>> tools_named(["P_5", "mrr"])
        ('P_5 of trec_eval is precision(empty=zero,ties=id)@5',)
    """
    from ltr_harness.metrics import parse_metric
    from ltr_harness.metrics.core.grammar import whose, with_tool

    return tuple(f"{with_tool(text)} is {parse_metric(text)}" for text in typed if whose(text) is not None)


def asked(texts: Sequence[str], relevant: float | None = None) -> Asked:
    """The metrics named, the first of which decides; those of the search preset where none is named.

    Raises:
        MetricError: every name that is no metric.
    """
    from ltr_harness.metrics import parse_metric

    if not texts:
        from ltr_harness.config.presets import DEFAULT_PRESET, PRESETS

        preset = PRESETS[DEFAULT_PRESET]
        families = [
            metric for name in preset["report"] for metric in parse_metric(name).at(preset["cutoffs"])
        ]
        return _from_grade([*families, parse_metric(preset["primary"])], relevant, [], primary=-1)
    metrics: list[Metric] = []
    problems: list[Problem] = []
    typed = split(texts)
    for text in typed:
        try:
            metrics.append(parse_metric(text))
        except MetricError as error:
            problems += error.problems
    if problems:
        raise MetricError(problems)
    return _from_grade(metrics, relevant, typed, primary=0)


def _from_grade(
    metrics: Sequence[Metric], relevant: float | None, typed: Sequence[str], primary: int
) -> Asked:
    if relevant is not None:
        metrics = [with_relevant(metric, relevant) for metric in metrics]
    texts = dict(zip(metrics, typed, strict=True)) if typed else {}
    return Asked(list(dict.fromkeys(metrics)), metrics[primary], texts)


def with_relevant(metric: Metric, grade: float) -> Metric:
    """The metric counting documents as relevant from this grade on, if it asks that and says no grade itself.

    Example:
        >>> from ltr_harness.metrics import MRR, NDCG
        >>> str(with_relevant(MRR(), 2)), str(with_relevant(MRR(relevant=3), 2)), str(with_relevant(NDCG(), 2))
        ('mrr(relevant=2)', 'mrr(relevant=3)', 'ndcg')
    """
    if getattr(metric, "relevant", None) != 1:
        return metric
    return dataclasses.replace(metric, relevant=grade)  # type: ignore[call-arg]
