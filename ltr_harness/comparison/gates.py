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
from ltr_harness._util.number_text import interval_text, p_equals
from ltr_harness.comparison.cautions import absence_text
from ltr_harness.comparison.comparability import FOREIGN
from ltr_harness.comparison.comparison import Comparison
from ltr_harness.comparison.contrasts import Paired, Summary
from ltr_harness.comparison.main_table import joint_word
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
            if text:
                cautions.append(Caution("rare-kind", "warning", text, place=model))
        return cautions

    def not_excluded(self, comparison: Comparison) -> str:
        """State the largest loss that a passed gate leaves possible; "" where it is not about significance alone."""
        if not self.significant or self.limit is not None or self.margin is not None:
            return ""
        name = resolve_metric(self.metric, comparison.systems)
        pairs = [comparison.paired(model, name) for model in self._models(comparison)]
        ends = [self._ends(pair)[0] for pair in pairs]
        possible = [end for end in ends if math.isfinite(end) and _SIGNS[self.sign](end, 0.0)]
        if not possible:
            return ""
        return f"a difference of {max(possible, key=abs):+.4f} is not excluded"

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
        """Return the line for a model that meets the condition; "" for one that does not."""
        summary = comparison.summary(model, metric)
        summaries = [summary]
        if self.limit is None:
            summaries.append(comparison.summary(comparison.baseline, metric))
        if any(each.n == 0 for each in summaries):
            condition = self._condition(comparison)
            return f"{model}: {metric} is undefined for every query, so {condition} cannot be checked"
        if self.limit is not None:
            return self._failure_at_number(comparison, summary, self.limit)
        pair = comparison.paired(model, metric)
        if pair.n == 0:
            condition = self._condition(comparison)
            return f"{model}: no query has a value of {metric} for both, so {condition} cannot be checked"
        if self.margin is not None:
            return self._failure_at_margin(comparison, pair, self.margin)
        return self._failure_at_baseline(comparison, pair)

    def _condition(self, comparison: Comparison) -> str:
        """Return the sign and what is on its right, such as ``< baseline lgbm - 0.005``."""
        if self.limit is not None:
            return f"{self.sign} {self.limit:g}"
        text = f"{self.sign} baseline {comparison.baseline}"
        if self.margin is None:
            return text
        direction = "-" if math.copysign(1, self.margin) < 0 else "+"
        return f"{text} {direction} {abs(self.margin):g}"

    def _ends(self, interval: Summary | Paired) -> tuple[float, float]:
        """Return the end of an interval that meets the condition first, and the one that meets it last."""
        if self.sign in ("<", "<="):
            return interval.ci_low, interval.ci_high
        return interval.ci_high, interval.ci_low

    def _failure_at_number(self, comparison: Comparison, summary: Summary, limit: float) -> str:
        is_met = _SIGNS[self.sign]
        _, last = self._ends(summary)
        if not is_met(summary.mean, limit) or (self.significant and not is_met(last, limit)):
            return ""
        line = f"{summary.model}: {summary.metric} {summary.mean:.4f} {self._condition(comparison)}"
        if self.significant:
            line += f" (interval {interval_text(summary.ci_low, summary.ci_high, '')})"
        return line

    def _failure_at_margin(self, comparison: Comparison, pair: Paired, margin: float) -> str:
        """Return the line where the difference may lie beyond the margin, or must, if it has to be significant."""
        is_met = _SIGNS[self.sign]
        first, last = self._ends(pair)
        if pair.ties == pair.n > 1:  # what queries absent from these could have, the caution tells
            first = last = 0.0
        is_shown = is_met(last, margin)
        is_possible = math.isnan(first) or is_met(first, margin)
        failed = is_shown if self.significant else is_possible
        if not failed:
            return ""
        certainty = "is shown" if is_shown else "cannot be excluded"
        joint, percent = joint_word(comparison, pair.metric), comparison.method.percent
        interval = f"{joint}{percent} % interval {interval_text(pair.ci_low, pair.ci_high)}"
        if math.isnan(first):
            interval = f"no interval, n = {pair.n}"
        return (
            f"{pair.model}: {pair.metric} {self._condition(comparison)} {certainty}: {pair.model_mean:.4f} against "
            f"{pair.other_mean:.4f}, difference {pair.difference:+.4f} ({interval})"
        )

    def _failure_at_baseline(self, comparison: Comparison, pair: Paired) -> str:
        """Return the line where the means are on the wrong sides of each other."""
        # on the queries that both have, as the difference in the table is
        if not _SIGNS[self.sign](pair.difference, 0.0) or (self.significant and not pair.is_significant):
            return ""
        p_value = joint_word(comparison, pair.metric) + p_equals(pair.p_corrected)
        details = f"difference {pair.difference:+.4f}, {p_value}"
        if comparison.is_within_margin(pair) and not self.significant:
            details += "; within the margin, but this gate looks at the means alone"
        condition = self._condition(comparison)
        return (
            f"{pair.model}: {pair.metric} {pair.model_mean:.4f} {condition} {pair.other_mean:.4f} ({details})"
        )


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
