"""Agreement of several judgments of a document: Krippendorff's alpha and the share of equal grades, by slice."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ltr_harness._util.json_values import none_if_undefined
from ltr_harness._util.number_text import four_decimals
from ltr_harness._util.text import count_of
from ltr_harness.comparison.query_slices import QuerySlice, query_slices
from ltr_harness.data.dataset import RankingDataset


@dataclass(frozen=True)
class JudgmentAgreement:
    """Agreement on the documents of some of the queries."""

    attribute: str  # what the queries share, such as market; "" for all queries
    label: str
    n_documents: int  # judged several times
    n_judgments: int  # of those documents
    # equal to nominal: None without such a document; alpha is None, too, where all grades are equal
    equal: float | None  # share of equal grades among the pairs of judgments of a document
    ordinal: float | None  # Krippendorff's alpha of grades in their order
    nominal: float | None  # Krippendorff's alpha of grades as names


def alphas(documents: NDArray[np.int64], grades: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return the share of equal pairs, ordinal and nominal alpha, NaN where undefined, of documents judged repeatedly.

    Alpha is 1 - D_o / D_e: the disagreement of two judgments of a document, over that of any two judgments. It is 1
    where all agree, and 0 where they agree as by chance. A document of m judgments counts m times, whoever judged;
    missing judgments need no care. The disagreement of two grades is 1 if they differ (nominal), and the square of the
    number of judgments between them (ordinal), which is the squared difference of their mid-ranks. So the ordinal D_o
    is the variance within documents, and D_e the variance of all judgments (half of the disagreement, both).

    Source: Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011); "Content Analysis" (4th ed., 2019), 12.3.

    Shapes: `documents` and `grades` (n_judgments,).
    """
    _, document, sizes = np.unique(documents, return_inverse=True, return_counts=True)
    _, grade, counts = np.unique(grades, return_inverse=True, return_counts=True)
    n = grade.size
    ranks = (np.cumsum(counts) - counts / 2)[grade]
    squared_residuals = (ranks - (np.bincount(document, ranks) / sizes)[document]) ** 2
    _, cell, n_equal = np.unique(document * counts.size + grade, return_index=True, return_counts=True)
    pairs = sizes * (sizes - 1)
    equal = np.bincount(document[cell], n_equal * (n_equal - 1.0), sizes.size)
    share = float(equal.sum() / pairs.sum()) if n else np.nan
    if counts.size < 2:
        return share, np.nan, np.nan
    observed = (np.bincount(document, squared_residuals) * sizes / (sizes - 1)).sum() / n
    expected = ((ranks - ranks.mean()) ** 2).sum() / (n - 1)
    differ = ((pairs - equal) / (sizes - 1)).sum() / n
    by_chance = (n**2 - (counts.astype(np.float64) ** 2).sum()) / (n * (n - 1))
    return share, float(1 - observed / expected), float(1 - differ / by_chance)


def agreement(dataset: RankingDataset) -> tuple[JudgmentAgreement, ...]:
    """Return the agreement of all queries, then of each slice; none where documents have one judgment by definition."""
    raw = dataset.raw_judgments
    if raw is None:
        return ()
    pairs = raw.queries * (raw.documents.max(initial=0) + 1) + raw.documents
    _, document, sizes = np.unique(pairs, return_inverse=True, return_counts=True)
    is_repeated = (sizes > 1)[document]
    everything = QuerySlice("", "", np.ones(dataset.n_queries, dtype=bool))

    def agreement_of(part: QuerySlice) -> JudgmentAgreement:
        chosen = is_repeated & part.queries[raw.queries]
        statistics = map(none_if_undefined, alphas(document[chosen], raw.grades[chosen]))
        return JudgmentAgreement(
            part.attribute, part.label, np.unique(document[chosen]).size, int(chosen.sum()), *statistics
        )

    return tuple(map(agreement_of, [everything, *query_slices(dataset.query_attributes)]))


def agreement_lines(agreements: Sequence[JudgmentAgreement]) -> list[str]:
    """Return a line of all queries and one for each attribute; none where documents have one judgment by definition."""
    if not agreements:
        return []
    overall, *parts = agreements
    if overall.equal is None:
        return ["agreement: no document has several judgments"]
    alpha = "is undefined, because all grades are equal"
    if overall.ordinal is not None:
        alpha = f"{four_decimals(overall.ordinal)} (nominal {four_decimals(overall.nominal)})"
    judged = f"{count_of(overall.n_documents, 'document')} with {overall.n_judgments:,} judgments"
    equal = f"{overall.equal:.1%} of the pairs have equal grades"
    lines = [f"agreement on {judged}: {equal}; Krippendorff's alpha {alpha}"]
    for attribute in dict.fromkeys(part.attribute for part in parts):
        texts = [
            f"{part.label} {four_decimals(part.ordinal)}" for part in parts if part.attribute == attribute
        ]
        lines.append(f"alpha by {attribute}: {', '.join(texts)}")
    return lines
