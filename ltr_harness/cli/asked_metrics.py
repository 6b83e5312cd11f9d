"""The metrics a command was asked for."""

from __future__ import annotations

import re
from collections.abc import Sequence
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
    """The metrics, each once, and the one that decides where rankings are compared."""

    metrics: list[Metric]
    primary: Metric


def asked(texts: Sequence[str]) -> Asked:
    """The metrics named, the first of which decides; those of the search preset where none is named.

    Raises:
        MetricError: every name that is no metric.
    """
    from ltr_harness.config.presets import DEFAULT_PRESET, PRESETS
    from ltr_harness.metrics import parse_metric

    if not texts:
        preset = PRESETS[DEFAULT_PRESET]
        families = [
            metric for name in preset["report"] for metric in parse_metric(name).at(preset["cutoffs"])
        ]
        return Asked(families, parse_metric(preset["primary"]))
    metrics: list[Metric] = []
    problems: list[Problem] = []
    for text in split(texts):
        try:
            metrics.append(parse_metric(text))
        except MetricError as error:
            problems += error.problems
    if problems:
        raise MetricError(problems)
    return Asked(list(dict.fromkeys(metrics)), metrics[0])
