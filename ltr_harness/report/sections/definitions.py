"""The definition of each metric and of the comparison."""

import dataclasses
import inspect
import re
from collections.abc import Sequence

from ltr_harness._util.text import count_of
from ltr_harness.errors import HarnessError
from ltr_harness.metrics import Metric, parse_metric
from ltr_harness.metrics.core.grammar import MetricName
from ltr_harness.report.blocks import (
    Block,
    Definitions,
    Heading,
    Paragraph,
    Span,
    Text,
    code,
    strong,
    with_code,
)
from ltr_harness.report.data import ReportData


def section(data: ReportData) -> list[Block]:
    introduction = (
        "A metric's name has every choice that is not the default; each definition below has the defaults "
        "too. Values are computed per query in double precision, never rounded, and then averaged over queries."
    )
    metrics, statistics = Definitions(tuple(metric_items(data.metrics))), Definitions(_statistics(data))
    reading = Heading("How to read the statistics", level=3)
    heading = Heading("Definitions", finding=count_of(len(data.metrics), "metric"))
    return [heading, Paragraph(introduction), metrics, reading, statistics]


def metric_items(metrics: Sequence[str]) -> list[tuple[str, tuple[Text, ...]]]:
    """Return each family of these metrics with its definition and its cutoffs."""
    cutoffs: dict[str, list[int | None]] = {}
    for name in metrics:
        base, _, _, k = MetricName.of(name)
        cutoffs.setdefault(base, []).append(k)
    return [(base, _definition(base, ks)) for base, ks in cutoffs.items()]


def _definition(base: str, cutoffs: Sequence[int | None]) -> tuple[Text, ...]:
    """Return the paragraphs about a family: its docstring, conventions, direction and source."""
    depths = _depths(cutoffs)
    try:
        metric = parse_metric(base if cutoffs[0] is None else f"{base}@{cutoffs[0]}")
    except HarnessError:
        return (f"Computed elsewhere, by an unknown definition. At {depths}.",)
    direction = "Higher is better." if metric.higher_is_better else "Lower is better."
    return (
        *map(with_code, prose(inspect.getdoc(type(metric)) or "")),
        (f"At {depths}, with ", *_conventions(metric), "."),
        f"{direction} Source: {metric.source}.",
    )


def _depths(cutoffs: Sequence[int | None]) -> str:
    parts = []
    if numbers := [str(k) for k in cutoffs if k is not None]:
        parts.append(f"K = {', '.join(numbers)}")
    if None in cutoffs:
        parts.append("the whole list")
    return " and ".join(parts)


def _conventions(metric: Metric) -> list[Span | str]:
    """Return every convention with its value, those that differ from the default in bold."""
    choices: list[Span | str] = []
    for field in dataclasses.fields(metric):
        if field.name == "k":
            continue
        value = getattr(metric, field.name)
        value_text = "not set" if value is None else value
        style = code if value == field.default else strong
        choices += [", ", style(f"{field.name} = {value_text}")]
    return choices[1:]


def prose(doc: str) -> list[str]:
    """Return the paragraphs of a docstring before its first section, each on one line."""
    paragraphs = []
    for block in re.split(r"\n\s*\n", doc.strip()):
        if re.match(r"(Args|Attributes|Returns|Raises|Source|Example|Examples|Note|See)\b.*:", block):
            break
        paragraphs.append(" ".join(block.split()))
    return paragraphs


def _statistics(data: ReportData) -> tuple[tuple[str, tuple[Text, ...]], ...]:
    method = data.comparison.method
    label = data.confidence_label
    has_joint = any(map(data.joint, data.metrics))
    joint = ", joint ones of differences all at once within their family" if has_joint else ""
    terms = {
        f"{label} interval": "An estimate of the mean over all queries of this kind: it covers the true mean for "
        f"{label} of such samples of queries. That of a difference, where a model was trained with several seeds, "
        "covers it for such samples of queries and seeds together; with one seed it ignores training randomness. "
        f"Intervals of means hold each by itself{joint}.",
    }
    if data.rivals:
        terms |= {
            "Difference": f"Mean over queries of model minus {data.baseline}, both on the same query, averaged "
            "over seeds first. Its interval is narrower than two separate intervals suggest: queries that are "
            "hard are hard for both.",
            "p": "How often a difference at least this far from 0 would appear if the true one were 0 "
            f"({method.test_text}). It is never 0, and does not measure the size of the difference.",
        }
        if has_joint:
            terms["joint p"] = (
                "The same after allowing for the number of models tested; the primary metric and the others are "
                f"separate families: {data.comparison.family}."
            )
        terms |= {
            "Verdict": f"better or worse: {data.p_label()} below {method.alpha:g}, which is the same as an interval "
            "without 0. equivalent: neither, and the interval lies inside a margin declared beforehand, allowing for "
            "the number of models. not distinguishable: none of these, which is not the same as equal.",
            "Effect": "d_z, mean of the differences over their standard deviation; with thousands of queries "
            "nearly every difference is significant, and d_z shows whether it matters.",
            "Detectable": "The smallest true difference these queries would have shown with 80 % probability, tested "
            "among as many models. "
            "A smaller one may exist unseen.",
        }
    return tuple((term, (text,)) for term, text in terms.items())
