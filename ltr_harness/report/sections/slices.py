"""Gains and losses on each part of the query set."""

from collections.abc import Sequence
from dataclasses import replace

from ltr_harness.comparison.slices import SMALLEST, SliceResult, slice_results, with_rare_kinds
from ltr_harness.report.blocks import Badge, Block, Column, Estimate, Heading, Paragraph, Table
from ltr_harness.report.data import ReportData, at_each_metric
from ltr_harness.report.sections.verdict import near_axis, near_models, verdict_badge, verdict_mark

LABELS = {"rows": "documents per query", "n_relevant": "relevant documents", "query_weight": "traffic"}
"""The titles of the harness's own attributes; those of the data keep their names."""


def section(data: ReportData) -> list[Block]:
    """Return the slices at the primary metric, and on the page at all others of its K."""

    def answer(metric: str, suffix: str) -> list[Block]:
        # at the primary metric those that the whole report has
        results = data.slices if metric == data.primary else slice_results(data.comparison, metric)
        if not any(result.n for result in results):
            return []
        return [*_rare_kind_warning(data, results, metric), _table(data, results, metric, suffix)]

    answers = at_each_metric(data, answer)
    if not answers:
        return []
    tested = [result for result in data.slices if result.n >= SMALLEST]
    n_different = sum(_contradicts_verdict(data, result, data.primary) for result in tested)
    finding = f"none of {len(tested):,} differs"
    if n_different:
        finding = f"{n_different:,} of {len(tested):,} differ from the verdict"
    heading = Heading("Slices", finding=finding, matters=n_different > 0)
    introduction = Paragraph(
        f"The paired differences within parts of the query set. Intervals and p-values of the {len(tested)} are joint "
        f"at {data.confidence_label} confidence, so a part may be picked out after looking. "
        "A part that is not distinguishable is small more often than equal."
    )
    return [heading, introduction, *answers]


def _contradicts_verdict(data: ReportData, result: SliceResult, metric: str) -> bool:
    """Return True where a part has a verdict that all queries together do not have."""
    overall = data.comparison.paired(result.model, metric).verdict
    return result.n >= SMALLEST and result.verdict in ("better", "worse") and result.verdict != overall


def _rare_kind_warning(data: ReportData, results: Sequence[SliceResult], metric: str) -> list[Block]:
    """Return a warning of verdicts that a rare kind of query, absent from a small part, could reverse."""
    names = [
        f"{result.model} on {LABELS.get(result.attribute, result.attribute)} {result.label}"
        for result in with_rare_kinds(data.comparison, results, metric)
    ]
    if not names:
        return []
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    warning = "These verdicts rest on few queries: a rare kind of query, absent from them, could reverse the verdict"
    return [Paragraph(f"{warning}: {'; '.join(names[:5])}{more}.")]


def _table(data: ReportData, results: Sequence[SliceResult], metric: str, suffix: str) -> Table:
    """Return the table of parts: those that contradict the verdict first, then by model and size of the difference."""

    def order(result: SliceResult) -> tuple[bool, bool, int, float]:
        is_small = result.n < SMALLEST
        is_agreeing = not _contradicts_verdict(data, result, metric)
        size = 0.0 if is_small else abs(result.difference)
        return is_small, is_agreeing, data.rivals.index(result.model), -size

    def verdict(result: SliceResult) -> Badge:
        return verdict_badge(result.verdict) if result.n >= SMALLEST else Badge("too few queries", "muted")

    near_names = near_models(data)
    axis = near_axis([result for result in results if result.n >= SMALLEST and result.model in near_names])
    joint = "joint " if sum(result.n >= SMALLEST for result in results) > 1 else ""
    difference = Column(f"Difference [{joint}{data.confidence_label} CI]", "difference", axis=axis)
    return Table.of(
        f"slices{suffix}",
        f"Parts of the query set at {data.weighted}{metric}, against {data.baseline}.",
        sorted(results, key=order),
        {
            Column("Model"): lambda result: data.model_name(result.model),
            Column("Attribute"): lambda result: LABELS.get(result.attribute, result.attribute),
            Column("Part"): lambda result: result.label,
            Column("Queries", "count", hint="Queries of this part with a value."): lambda result: result.n,
            Column("Verdict"): verdict,
            difference: lambda result: replace(Estimate.of(result), mark=verdict_mark(result.verdict)),
            Column(f"{joint}p", "p"): lambda result: result.p,
        },
    )
