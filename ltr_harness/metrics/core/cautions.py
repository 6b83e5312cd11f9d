"""Cautions on metrics that this data cannot support, given before anybody believes a number."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ltr_harness._util.number_text import plain_number
from ltr_harness._util.text import count_of
from ltr_harness.data.arrays import Bools
from ltr_harness.data.judgments import Judgments
from ltr_harness.errors import Caution, Severity
from ltr_harness.metrics.core.gains import EXPONENTIAL_GAINS, gains_of
from ltr_harness.metrics.core.metric import BinaryMetric, Metric
from ltr_harness.metrics.rbp import RBP

MANY_GRADES = 5
LARGE_CUTOFF = 20
STEEP_GAIN = 31.0  # what grade 5 gains over grade 1


def cautions(
    metrics: Sequence[Metric], judgments: Judgments, retrieved: Bools | None = None
) -> list[Caution]:
    """Return all cautions on these metrics for these judgments, in a fixed order; their places are metrics.

    `retrieved` (n_rows,) has the rows that a ranking lists; None where it lists all.
    """
    return [
        *_fine_grades(judgments),
        *steep_gain(metrics, judgments),
        *_large_cutoff(metrics, judgments),
        *_saturation(metrics, judgments),
        *below_threshold(metrics, judgments),
        *_collapsed_grades(metrics, judgments),
        *_residual(metrics, judgments),
        *_unjudged(judgments, retrieved),
    ]


def _caution_of_metrics(
    kind: str, severity: Severity, metrics: Sequence[Metric], text: str, cure: str = ""
) -> Caution:
    return Caution(kind, severity, text, cure, place=", ".join(map(str, metrics)))


def _fine_grades(judgments: Judgments) -> Iterator[Caution]:
    grades = judgments.distinct_labels
    if grades.size > MANY_GRADES and grades[0] >= 0:
        found = f"{grades.size} distinct grades, {plain_number(grades[0])} to {plain_number(grades[-1])}"
        yield Caution(
            "fine-grades",
            "note",
            f"the labels have {found}; people rarely agree on more than {MANY_GRADES}, so small differences between "
            "neighbouring grades are noise",
        )


def steep_gain(metrics: Sequence[Metric], judgments: Judgments) -> Iterator[Caution]:
    """Yield the caution that exponential gain leaves little but the top grades to count, if there is cause."""
    steep = [metric for metric in metrics if getattr(metric, "gain", None) in EXPONENTIAL_GAINS]
    grades = judgments.distinct_labels
    if not steep or not (grades > 0.0).any():
        return
    labels = judgments.compact_labels
    positive = np.exp2(labels[labels > 0].astype(np.float64)) - 1.0
    ratio = positive.max() / np.median(positive)
    if grades.size <= MANY_GRADES and ratio <= STEEP_GAIN:
        return
    first: Any = steep[0]
    gain, groups = gains_of(judgments, first.gain, first.name), judgments.groups
    query_of_row = np.repeat(np.arange(groups.n_queries), groups.sizes)
    sorted_gains = gain[np.lexsort((-gain, query_of_row))]
    discounted_gains = sorted_gains / np.log2(np.arange(gain.size) - groups.boundaries[query_of_row] + 2.0)
    share = float(
        discounted_gains[sorted_gains == gain.max()].sum() / discounted_gains.sum()
    )  # of ideal DCG over whole lists
    yield _caution_of_metrics(
        "steep-gain",
        "warning",
        steep,
        f"with exponential gain the largest gain is {ratio:,.0f} times the median positive one, and documents of the "
        f"top grade, {plain_number(grades[-1])}, make up {share:.0%} of all ideal DCG; little "
        "else counts",
        "consider gain=linear, a gain table, or fewer grades",
    )


def _large_cutoff(metrics: Sequence[Metric], judgments: Judgments) -> Iterator[Caution]:
    median = float(np.median(judgments.groups.sizes))
    for k in sorted({metric.k for metric in metrics if metric.k is not None}):
        if k <= median and k <= LARGE_CUTOFF:
            continue
        text = (
            f"the cutoff is above the median list length, {plain_number(median)} documents, so it mostly sees "
            "whole lists"
            if k > median
            else f"few users look at {k} documents, and a large cutoff blurs what happens at the top"
        )
        at_k = [metric for metric in metrics if metric.k == k]
        yield _caution_of_metrics("large-cutoff", "note", at_k, text, "compare at a smaller K")


def _saturation(metrics: Sequence[Metric], judgments: Judgments) -> Iterator[Caution]:
    saturating = [metric for metric in metrics if isinstance(metric, BinaryMetric) and metric.saturates]
    for relevant in sorted({metric.relevant for metric in saturating}):
        share = float((judgments.compact_labels >= relevant).mean())
        if share > 0.5:
            yield _caution_of_metrics(
                "saturation",
                "warning",
                [metric for metric in saturating if metric.relevant == relevant],
                f"{share:.0%} of the documents have a label of {plain_number(relevant)} or more, so almost any ranking "
                "starts with a relevant document",
                "raise relevant",
            )


def below_threshold(metrics: Sequence[Metric], judgments: Judgments) -> Iterator[Caution]:
    """Yield cautions on labels above 0 that metrics of binary relevance count as not relevant."""
    binary = [
        m
        for m in metrics
        if isinstance(m, BinaryMetric) and not (m.diagnostic or m.graded or m.uses_subtopics)
    ]
    if not binary:
        return
    grades = judgments.distinct_labels
    if not ((grades > 0) & (grades < 1)).any() or grades[0] < 0:
        return
    for relevant in sorted({metric.relevant for metric in binary}):
        labels = judgments.labels
        below = (labels > 0) & (labels < relevant)
        n_below = int(np.count_nonzero(below))
        if not n_below:
            continue
        highest, first = plain_number(labels[below].max()), binary[0].name
        yield _caution_of_metrics(
            "labels-below-threshold",
            "note",
            [metric for metric in binary if metric.relevant == relevant],
            f"a document is relevant from the label {plain_number(relevant)} on: {n_below:,} of "
            f"{count_of(labels.size, 'label')} lie above 0 and below that, up to {highest}, and count as not relevant",
            f"another threshold is set as in `{first}(relevant=0.5)`",
        )


def _collapsed_grades(metrics: Sequence[Metric], judgments: Judgments) -> Iterator[Caution]:
    grades = judgments.distinct_labels
    binary = [m for m in metrics if isinstance(m, BinaryMetric) and not m.diagnostic and not m.graded]
    for relevant in sorted({metric.relevant for metric in binary}):
        relevant_grades = grades[grades >= relevant]
        if relevant_grades.size >= 2:
            lowest, highest = plain_number(relevant_grades[0]), plain_number(relevant_grades[-1])
            yield _caution_of_metrics(
                "collapsed-grades",
                "note",
                [metric for metric in binary if metric.relevant == relevant],
                f"counts all grades from {lowest} to {highest} alike",
                "the graded metrics tell them apart",
            )


def _residual(metrics: Sequence[Metric], judgments: Judgments) -> Iterator[Caution]:
    """Yield cautions on the residual of RBP: p^n of a list whose n documents are looked at, listed and judged."""
    for metric in metrics:
        if not isinstance(metric, RBP) or metric.diagnostic or metric.p is None:
            continue
        sizes = judgments.groups.sizes
        looked_at = sizes if metric.k is None else np.minimum(sizes, metric.k)
        left = float(np.power(float(metric.p), looked_at).mean())
        yield _caution_of_metrics(
            "residual",
            "warning",
            [metric],
            f"documents below the last one counted could still add up to {left:.4f} to its mean (rbp_residual has it "
            "per query); rankings closer than that are not told apart",
        )


def _unjudged(judgments: Judgments, retrieved: Bools | None) -> Iterator[Caution]:
    """The share of the ranked documents: others are there because they are judged."""
    if judgments.judged is None:
        return
    judged = judgments.judged if retrieved is None else judgments.judged[retrieved]
    if not judged.all():
        noun = "document" if retrieved is None else "ranked document"
        of_all = f"{np.count_nonzero(~judged):,} of {count_of(judged.size, noun)}"
        yield Caution(
            "unjudged-documents",
            "note",
            f"{of_all} are unjudged; "
            "every metric but bpref counts them as not relevant, and the ideal list has judged documents alone",
        )
