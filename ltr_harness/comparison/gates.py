"""Conditions a comparison must not meet: ``--fail-if "ndcg@10 < baseline"``; `FORM` is their grammar.

With ``baseline - NUMBER`` a gate fails unless the whole interval of the difference lies on the other side; with ``and
significant`` only if it lies on this one. A mean that is undefined fails.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ltr_harness._util.catalog import did_you_mean
from ltr_harness._util.text import p_equals
from ltr_harness.comparison.cautions import absence_text
from ltr_harness.comparison.comparability import FOREIGN
from ltr_harness.comparison.comparison import Comparison, joint_word
from ltr_harness.comparison.metric_names import resolve_metric
from ltr_harness.errors import Caution, MetricError, UsageError
from ltr_harness.metrics import Metric, parse_metric

FORM = "METRIC [of MODEL] (<|<=|>|>=) (baseline [(+|-) NUMBER]|NUMBER) [and significant], such as 'ndcg@10 < baseline'"

_GATE = re.compile(
    r"\s*(?P<metric>.+?)(?:\s+of\s+(?P<model>.+?))?\s*(?P<sign><=|>=|<|>)\s*(?P<limit>\S.*?)"
    r"(?P<significant>\s+and\s+significant)?\s*"
)
_LIMIT = re.compile(r"(?P<baseline>baseline)(?:\s*(?P<direction>[+-])\s*(?P<margin>[^\s+-].*))?")
_SIGNS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


@dataclass(frozen=True)
class Gate:
    """One condition."""

    text: str  # as written
    metric: Metric
    sign: str  # <, <=, > or >=
    limit: float | None  # the number, or None for the baseline
    model: str | None = None  # the one model it is about; None for all
    significant: bool = False  # whether chance must be ruled out
    margin: float | None = None  # where it begins, from the baseline; None where means are compared

    def failures(self, comparison: Comparison) -> list[str]:
        """One line per model that meets the condition; empty where the gate is passed."""
        name = resolve_metric(self.metric, comparison.systems)
        if name not in comparison.metrics:
            foreign = [metric for metric in comparison.metrics if metric.startswith(FOREIGN)]
            cure = (
                f"a gate needs a definition, and {foreign[0]} has none here: --convention TOOL gives it one"
                if foreign
                else did_you_mean(name, comparison.metrics)
            )
            raise UsageError.at(f"gate {self.text!r}", f"{name} was not compared", cure=cure)
        lines = [self._failure(comparison, name, model) for model in self._models(comparison)]
        return [line for line in lines if line]

    def cautions(self, comparison: Comparison) -> list[Caution]:
        """Return that few documents are judged, and the models that a rare kind of query could make fail."""
        few_judged = [*comparison.few_judged]
        if self.limit is not None or self.significant or self.failures(comparison):
            return few_judged  # what passes unless something is shown shows nothing that could be turned
        name = resolve_metric(self.metric, comparison.systems)
        cautions = few_judged
        for model in self._models(comparison):
            pair = comparison.paired(model, name)
            text = absence_text(comparison, pair, len(comparison.models) - 1, margin=self.margin or 0.0)
            cautions += [Caution("rare-kind", "warning", text, place=model)] if text else []
        return cautions

    def _models(self, comparison: Comparison) -> Sequence[str]:
        place = f"gate {self.text!r}"
        if self.model is not None and self.model not in comparison.models:
            cure = did_you_mean(self.model, comparison.models)
            raise UsageError.at(place, f"no model {self.model!r} in this comparison", cure=cure)
        if self.limit is None and self.model == comparison.baseline:
            raise UsageError.at(place, f"{self.model} is the baseline itself", "another model, or a number")
        if self.limit is None and len(comparison.models) == 1:
            found = "nothing but the baseline is compared"
            raise UsageError.at(place, found, "a second model, or a number")
        if self.model is not None:
            return [self.model]
        return [name for name in comparison.models if self.limit is not None or name != comparison.baseline]

    def _failure(self, comparison: Comparison, metric: str, model: str) -> str:
        own = comparison.summary(model, metric)
        other = None if self.limit is not None else comparison.summary(comparison.baseline, metric)
        against = f"{self.sign} " + (f"{self.limit:g}" if other is None else f"baseline {other.model}")
        if self.margin is not None:
            against += f" {'-' if math.copysign(1, self.margin) < 0 else '+'} {abs(self.margin):g}"
        if own.n == 0 or (other is not None and other.n == 0):
            return f"{model}: {metric} is undefined for every query, so {against} cannot be checked"
        met = _SIGNS[self.sign]
        if self.limit is not None:
            far = own.ci_high if self.sign.startswith("<") else own.ci_low
            failed = met(own.mean, self.limit) and (not self.significant or met(far, self.limit))
            interval = f" (interval {own.ci_low:.4f} to {own.ci_high:.4f})" * self.significant
            return f"{model}: {metric} {own.mean:.4f} {against}{interval}" if failed else ""
        pair = comparison.paired(model, metric)
        if pair.n == 0:
            return f"{model}: no query has a value of {metric} for both, so {against} cannot be checked"
        if self.margin is not None:
            # a difference that may lie beyond it, or must, where that has to be significant
            near, far = (pair.ci_low, pair.ci_high)[:: 1 if self.sign.startswith("<") else -1]
            if pair.ties == pair.n > 1:  # what queries absent from these could have, the caution tells
                near = far = 0.0
            shown = met(far, self.margin)
            if not (shown if self.significant else math.isnan(near) or met(near, self.margin)):
                return ""
            how = "is shown" if shown else "cannot be excluded"
            joint, percent = joint_word(comparison, metric), comparison.method.percent
            interval = f"{joint}{percent} % interval {pair.ci_low:+.4f} to {pair.ci_high:+.4f}"
            if math.isnan(near):
                interval = f"no interval, n = {pair.n}"
            return (
                f"{model}: {metric} {against} {how}: {pair.model_mean:.4f} against {pair.other_mean:.4f}, "
                f"difference {pair.difference:+.4f} ({interval})"
            )
        # on the queries both have: what the difference in the table is, too
        failed = met(pair.difference, 0.0) and (not self.significant or pair.is_significant)
        p = joint_word(comparison, metric) + p_equals(pair.p_corrected)
        head = f"{model}: {metric} {pair.model_mean:.4f} {against} {pair.other_mean:.4f}"
        within = comparison.is_within_margin(pair) and not self.significant
        but = "; within the margin, but this gate looks at the means alone" * within
        return f"{head} (difference {pair.difference:+.4f}, {p}{but})" if failed else ""


def parse_gate(text: str) -> Gate:
    """The condition a text stands for."""
    form = _GATE.fullmatch(text)
    if form is None:
        raise UsageError.at(f"gate {text!r}", "cannot be read", FORM)
    limit = margin = None
    relative = _LIMIT.fullmatch(form["limit"])
    if relative is None:
        limit = _number(text, form["limit"])
    elif relative["margin"] is not None:
        margin = math.copysign(_number(text, relative["margin"]), 1 if relative["direction"] == "+" else -1)
        if math.isinf(margin):
            expected = "a number in the metric's unit, such as 0.005"
            raise UsageError.at(f"gate {text!r}", "an infinite margin", expected)
    try:
        metric = parse_metric(form["metric"])
    except MetricError as error:
        raise MetricError([replace(problem, place=f"gate {text!r}") for problem in error.problems]) from None
    significant = form["significant"] is not None
    return Gate(text.strip(), metric, form["sign"], limit, form["model"], significant, margin)


def _number(gate: str, text: str) -> float:
    try:
        number = float(text.replace("_", "?"))  # Python would take 1_000 for a number
    except ValueError:
        found = f"{text!r} is neither 'baseline' nor a number"
        raise UsageError.at(f"gate {gate!r}", found, FORM) from None
    if math.isnan(number):
        raise UsageError.at(f"gate {gate!r}", "NaN cannot be compared", "a number")
    return number
