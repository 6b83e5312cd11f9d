"""On which parts of the query set does a model gain or lose?"""

from collections.abc import Sequence
from dataclasses import replace

from ltr_harness.comparison.slices import SMALLEST, SliceResult, slice_results, with_rare_kinds
from ltr_harness.report.blocks import Badge, Block, Column, Estimate, Heading, Paragraph, Table
from ltr_harness.report.data import ReportData, at_each_metric
from ltr_harness.report.sections.verdict import marked, near, near_models, verdict_badge

LABELS = {"rows": "documents per query", "n_relevant": "relevant documents", "query_weight": "traffic"}
"""What the harness's own attributes are called; those of the data keep their names."""


def section(data: ReportData) -> list[Block]:
    """At the primary metric, and on the page at all others of its K."""

    def answer(metric: str, end: str) -> list[Block]:
        # at the primary metric those that the whole report has
        results = data.slices if metric == data.primary else slice_results(data.comparison, metric)
        if not any(result.n for result in results):
            return []
        return [*_shaky(data, results, metric), _table(data, results, metric, end)]

    answers = at_each_metric(data, answer)
    if not answers:
        return []
    tested = [result for result in data.slices if result.n >= SMALLEST]
    apart = sum(_apart(data, result, data.primary) for result in tested)
    differ = f"{apart:,} of {len(tested):,} differ from the verdict" if apart else ""
    heading = Heading("Slices", finding=differ or f"none of {len(tested):,} differs", matters=bool(apart))
    about = Paragraph(
        f"The paired differences within parts of the query set. Intervals and p-values of the {len(tested)} are joint "
        f"at {data.confidence_label} confidence, so a part may be picked out after looking. "
        "A part that is not distinguishable is small more often than equal."
    )
    return [heading, about, *answers]


def _apart(data: ReportData, result: SliceResult, metric: str) -> bool:
    """Whether a part has a verdict that all queries together do not have."""
    overall = data.comparison.paired(result.model, metric).verdict
    return result.n >= SMALLEST and result.verdict in ("better", "worse") and result.verdict != overall


def _shaky(data: ReportData, results: Sequence[SliceResult], metric: str) -> list[Block]:
    """Which verdicts a rare kind of query, of which a part may hold none, could reverse."""
    names = [
        f"{result.model} on {LABELS.get(result.attribute, result.attribute)} {result.label}"
        for result in with_rare_kinds(data.comparison, results, metric)
    ]
    if not names:
        return []
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    said = "These verdicts rest on few queries: a rare kind of query, absent from them, could reverse the verdict"
    return [Paragraph(f"{said}: {'; '.join(names[:5])}{more}.")]


def _table(data: ReportData, results: Sequence[SliceResult], metric: str, end: str) -> Table:
    """Parts that contradict the verdict first, then model by model by the size of the difference."""

    def order(result: SliceResult) -> tuple[bool, bool, int, float]:
        small, place = result.n < SMALLEST, data.rivals.index(result.model)
        return small, not _apart(data, result, metric), place, 0.0 if small else -abs(result.difference)

    def verdict(result: SliceResult) -> Badge:
        return verdict_badge(result.verdict) if result.n >= SMALLEST else Badge("too few queries", "muted")

    close = near_models(data)
    axis = near([result for result in results if result.n >= SMALLEST and result.model in close])
    joint = "joint " if sum(result.n >= SMALLEST for result in results) > 1 else ""
    difference = Column(f"Difference [{joint}{data.confidence_label} CI]", "difference", axis=axis)
    return Table.of(
        f"slices{end}",
        f"Parts of the query set at {data.weighted}{metric}, against {data.baseline}.",
        sorted(results, key=order),
        {
            Column("Model"): lambda result: data.model_name(result.model),
            Column("Attribute"): lambda result: LABELS.get(result.attribute, result.attribute),
            Column("Part"): lambda result: result.label,
            Column("Queries", "count", hint="Queries of this part with a value."): lambda result: result.n,
            Column("Verdict"): verdict,
            difference: lambda result: replace(Estimate.of(result), mark=marked(result.verdict)),
            Column(f"{joint}p", "p"): lambda result: result.p,
        },
    )
