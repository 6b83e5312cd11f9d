"""Metrics named on the command line."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from ltr_harness.errors import Caution, MetricError, all_of
from ltr_harness.metrics import Metric, parse_metric
from ltr_harness.metrics.core.grammar import other_name, tool_of_name


def split(texts: Sequence[str]) -> list[str]:
    """Commas between metrics, not those between a metric's parameters."""
    return [part.strip() for text in texts for part in re.split(r",(?![^()]*\))", text) if part.strip()]


class NamedMetrics(NamedTuple):
    """The metrics, each once, the one that decides where rankings are compared, and how they were typed."""

    metrics: list[Metric]
    primary: Metric
    typed: Mapping[Metric, str]

    def names(self, evaluated: Sequence[Metric]) -> dict[str, str]:
        """Canonical name to the name that was typed, where they differ."""
        pairs = zip(self.metrics, map(str, evaluated), strict=True)
        return {name: text for metric, name in pairs if (text := self.typed.get(metric, name)) != name}


def tools_named(typed: Sequence[str]) -> tuple[Caution, ...]:
    """For each name that is another tool's, what it stands for."""
    return tuple(other_name(text, parse_metric(text)) for text in typed if tool_of_name(text) is not None)


def parsed(texts: Sequence[str], relevant: float | None = None) -> NamedMetrics:
    """The metrics named, the first of which decides; those of the search preset where none is named."""
    typed, primary = split(texts), 0
    if texts:
        metrics: list[Metric] = all_of([partial(parse_metric, text) for text in typed], MetricError)
    else:
        from ltr_harness.experiments.config.expand import DEFAULT_PRESET, PRESETS

        preset, primary = PRESETS[DEFAULT_PRESET], -1
        metrics = [metric for name in preset["report"] for metric in parse_metric(name).at(preset["cutoffs"])]
        metrics.append(parse_metric(preset["primary"]))
    if relevant is not None:
        metrics = [with_relevant(metric, relevant) for metric in metrics]
    as_typed = dict(zip(metrics, typed, strict=False))
    return NamedMetrics(list(dict.fromkeys(metrics)), metrics[primary], as_typed)


def with_relevant(metric: Metric, grade: float) -> Metric:
    """The metric counting documents as relevant from this grade on, if it asks that and says no grade itself."""
    if getattr(metric, "relevant", None) != 1:
        return metric
    return dataclasses.replace(metric, relevant=grade)  # type: ignore[call-arg]
