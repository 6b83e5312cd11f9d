"""Gains and losses on each part of the query set."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from ltr_harness.comparison.slices import SMALLEST, SliceResult, slice_results_at, with_rare_kinds
from ltr_harness.report import formats
from ltr_harness.report.blocks import (
    Badge,
    Block,
    Cell,
    Column,
    Estimate,
    Heading,
    Paragraph,
    Table,
    TwoForms,
)
from ltr_harness.report.data import ReportData, at_each_metric, same_k
from ltr_harness.report.sections.verdict import verdict_badge, verdict_mark

LABELS = {"rows": "documents per query", "n_relevant": "relevant documents", "query_weight": "traffic"}
"""The titles of the harness's own attributes; those of the data keep their names."""


def section(data: ReportData) -> list[Block]:
    """Return the slices at the primary metric, and on the page at all others of its K."""

    _, *other_metrics = same_k(data)
    # at the primary metric those that the whole report has
    results_at = {data.primary: data.slices} | slice_results_at(other_metrics, data.comparison)

    def answer(metric: str, suffix: str) -> list[Block]:
        results = results_at[metric]
        if not any(result.n for result in results):
            return []
        complete = _table(data, results, metric, suffix)
        forms = TwoForms(tuple(_matrix(data, results, metric, suffix)), (complete,))
        return [*_rare_kind_warning(data, results, metric), forms]

    answers = at_each_metric(data, answer)
    if not answers:
        return []
    tested = [result for result in data.slices if result.n >= SMALLEST]
    n_different = sum(_contradicts_verdict(data, result, data.primary) for result in tested)
    finding = f"none of {len(tested):,} differs from the verdict"
    if n_different:
        finding = f"{n_different:,} of {len(tested):,} differ from the verdict"
    heading = Heading("Slices", finding=finding, matters=n_different > 0)
    introduction = Paragraph(
        f"The paired differences within parts of the query set. Intervals and p-values of the {len(tested)} are joint "
        f"at {data.confidence_label} confidence, so a part may be picked out after looking. "
        "*Not distinguishable* usually means too few queries, not equality."
    )
    return [heading, introduction, *answers]


def _contradicts_verdict(data: ReportData, result: SliceResult, metric: str) -> bool:
    """Return True where a part has a verdict that all queries together do not have."""
    overall = data.comparison.paired(result.model, metric).verdict
    return result.n >= SMALLEST and result.verdict in ("better", "worse") and result.verdict != overall


def _rare_kind_warning(data: ReportData, results: Sequence[SliceResult], metric: str) -> list[Block]:
    """Return a warning of verdicts that a rare kind of query, absent from a small part, could reverse."""
    names = [
        f"{result.model} on {_attribute(result)} {result.label}"
        for result in with_rare_kinds(data.comparison, results, metric)
    ]
    if not names:
        return []
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    warning = "Verdicts on few queries, which a query type that is missing here could flip"
    return [Paragraph(f"{warning}: {'; '.join(names[:5])}{more}.")]


def _attribute(result: SliceResult) -> str:
    return LABELS.get(result.attribute, result.attribute)


def _matrix(data: ReportData, results: Sequence[SliceResult], metric: str, suffix: str) -> list[Block]:
    """Return parts down and models across, and a line for those that are worse in every part."""
    by_part: dict[tuple[str, str], dict[str, SliceResult]] = {}
    for result in results:
        by_part.setdefault((_attribute(result), result.label), {})[result.model] = result
    worse_everywhere = [name for name in data.rivals if _is_worse_everywhere(data, results, name, metric)]
    model_names = [name for name in data.rivals if name not in worse_everywhere] or list(data.rivals)

    def order(part: tuple[str, str]) -> tuple[bool, bool, float]:
        results_of_part = [by_part[part][name] for name in model_names]
        contradicts = any(_contradicts_verdict(data, result, metric) for result in results_of_part)
        tested = [abs(result.difference) for result in results_of_part if result.n >= SMALLEST]
        return not tested, not contradicts, -max(tested, default=0.0)

    def difference(part: tuple[str, str], name: str) -> Estimate | None:
        result = by_part[part][name]
        if result.n < SMALLEST:
            return None
        return replace(Estimate.of(result), mark=verdict_mark(result.verdict))

    def attribute_and_label(part: tuple[str, str]) -> str:
        return f"{part[0]}: {part[1]}"

    def n_queries(part: tuple[str, str]) -> int:
        return max(result.n for result in by_part[part].values())

    columns: dict[Column, Callable[[tuple[str, str]], Cell]] = {
        Column("Part"): attribute_and_label,
        Column("Queries", "count", hint="Queries of this part with a value."): n_queries,
    }
    for name in model_names:
        columns[Column(name, "difference", hint=f"{name} minus {data.baseline}")] = partial(
            difference, name=name
        )
    note = f"▲ better, ▼ worse than {data.baseline}; – fewer than {SMALLEST} queries."
    joint = _joint(results)
    table = Table.of(
        f"slices{suffix}",
        f"Difference in {data.weighted}{metric} to {data.baseline} on parts of the query set, with "
        f"{joint}{data.confidence_label} intervals.",
        sorted(by_part, key=order),
        columns,
        footnotes=(note,),
        ten_rows=True,
    )
    if not worse_everywhere or model_names == list(data.rivals):
        return [table]
    sentences = [_range_in_words(results, name) for name in worse_everywhere]
    return [table, Paragraph(f"Worse, and behind in every part: {'; '.join(sentences)}.")]


def _is_worse_everywhere(data: ReportData, results: Sequence[SliceResult], name: str, metric: str) -> bool:
    """Return True where a model is worse over all queries, and no part has a difference in its favour."""
    if data.comparison.paired(name, metric).verdict != "worse":
        return False
    sign = 1.0 if data.comparison.higher_is_better[metric] else -1.0
    tested = [result for result in results if result.model == name and result.n >= SMALLEST]
    return all(sign * result.difference < 0 for result in tested)


def _range_in_words(results: Sequence[SliceResult], name: str) -> str:
    """Return the smallest and the largest difference of a model over the parts."""
    differences = [result.difference for result in results if result.model == name and result.n >= SMALLEST]
    if not differences:
        return name
    least, most = sorted((min(differences), max(differences)), key=abs)
    return f"{name} by {formats.difference(least)} to {formats.difference(most)}"


def _joint(results: Sequence[SliceResult]) -> str:
    return "joint " if sum(result.n >= SMALLEST for result in results) > 1 else ""


def _table(data: ReportData, results: Sequence[SliceResult], metric: str, suffix: str) -> Table:
    """Return the table of parts: those that contradict the verdict first, then by model and size of the difference."""

    def order(result: SliceResult) -> tuple[bool, bool, int, float]:
        is_small = result.n < SMALLEST
        is_agreeing = not _contradicts_verdict(data, result, metric)
        size = 0.0 if is_small else abs(result.difference)
        return is_small, is_agreeing, data.rivals.index(result.model), -size

    def verdict(result: SliceResult) -> Badge:
        return verdict_badge(result.verdict) if result.n >= SMALLEST else Badge("too few queries", "muted")

    joint = _joint(results)
    difference = Column(f"Difference [{joint}{data.confidence_label} CI]", "difference")
    return Table.of(
        f"slices{suffix}",
        f"Parts of the query set at {data.weighted}{metric}, against {data.baseline}.",
        sorted(results, key=order),
        {
            Column("Model"): lambda result: data.model_name(result.model),
            Column("Attribute"): _attribute,
            Column("Part"): lambda result: result.label,
            Column("Queries", "count", hint="Queries of this part with a value."): lambda result: result.n,
            Column("Verdict"): verdict,
            difference: lambda result: replace(Estimate.of(result), mark=verdict_mark(result.verdict)),
            Column(f"{joint}p", "p"): lambda result: result.p,
        },
    )
