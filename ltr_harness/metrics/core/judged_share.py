"""The share of judged documents among those that a metric looks at: the others count as not relevant."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ltr_harness.data.arrays import Array, Floats
from ltr_harness.data.judgments import Judgments
from ltr_harness.errors import Caution
from ltr_harness.metrics.core.metric import Metric
from ltr_harness.metrics.judged import Judged

FEW_JUDGED = "few-judged"
NEARLY_NONE = 0.02
"""Below this share a metric tells next to nothing; lists with one known answer in ten have more."""
APART = 0.2
"""Shares that are further apart than this make a difference of judgments out of one of rankings."""

_COLUMN = ": judged"
"""What follows the metric's name in the column of a table of queries."""


def judged_metrics(metrics: Sequence[Metric], judgments: Judgments) -> list[Judged]:
    """`Judged` at each cutoff of the metrics; none where all documents are judged, or nobody said which are."""
    if judgments.judged is None or judgments.judged.all():
        return []
    return [Judged(k=k) for k in _cutoffs(metrics)]


def judged_shares(
    metrics: Sequence[Metric], judgments: Judgments, values: NDArray[np.float64]
) -> dict[str, Floats]:
    """Each metric's name to (n_queries,) shares of judged documents among the first K; none where nobody said them.

    `values` (n_cutoffs, n_queries) are those of `judged_metrics`.
    """
    if judgments.judged is None:
        return {}
    of_cutoff, every = dict(zip(_cutoffs(metrics), values, strict=False)), np.ones(judgments.groups.n_queries)
    return {str(metric): of_cutoff.get(metric.k, every) for metric in metrics if not metric.diagnostic}


def _cutoffs(metrics: Sequence[Metric]) -> list[int | None]:
    return list(dict.fromkeys(metric.k for metric in metrics if not metric.diagnostic))


def columns(metric: str, shares: Floats) -> dict[str, Floats]:
    """The shares (n_queries,) as a column of a table of queries, by name."""
    return {metric + _COLUMN: shares}


def of_columns(metric: str, table: Mapping[str, Array]) -> Floats | None:
    """Return the shares that `columns` stored; None where the table lacks their column, or it has no numbers."""
    column = table.get(metric + _COLUMN)
    return column if column is not None and column.dtype.kind == "f" else None


def metric_of(column: str) -> str:
    """Return the metric of a column of shares."""
    return column.removesuffix(_COLUMN)


def is_column(name: str) -> bool:
    """Tell whether a column of a table of queries has such shares, and is no fact to cut the queries by."""
    return name.endswith(_COLUMN)


def looked_at(k: int | None) -> str:
    """Return the noun phrase for the documents whose share it is."""
    return "the ranked documents" if k is None else f"the first {k:,}"


def lines(shares: Mapping[str, Mapping[str, float]], cutoffs: Mapping[str, int | None]) -> list[str]:
    """Return every ranking's shares, a line for each number of documents that metrics look at.

    Args:
        shares: ranking to metric to the mean share.
        cutoffs: metric to its K.
    """
    by_cutoff: dict[int | None, dict[str, float]] = {}
    for ranking, by_metric in shares.items():
        for metric, share in by_metric.items():
            by_cutoff.setdefault(cutoffs[metric], {}).setdefault(ranking, share)
    return [in_words(k, by_ranking) for k, by_ranking in by_cutoff.items() if min(by_ranking.values()) < 1]


def in_words(k: int | None, shares: Mapping[str, float]) -> str:
    """The share of every ranking, by its name, in one line."""
    texts = [f"{name} {share:.0%}".lstrip() for name, share in shares.items()]
    return f"judged of {looked_at(k)}: {', '.join(texts)}".replace("%", " %")


def few_judged(metric: str, k: int | None, shares: Mapping[str, float]) -> Iterable[Caution]:
    """A caution where next to nothing of a ranking is judged, or much more of one than of another."""
    if not shares:
        return
    low, high = min(shares.values()), max(shares.values())
    if low >= NEARLY_NONE and high - low <= APART:
        return
    text = "unjudged documents count as not relevant"
    if low < NEARLY_NONE:
        text = f"{text}, so {metric} tells next to nothing where none is judged"
    else:
        text = f"{text}, so a difference at {metric} is one of judgments too"
    cure = "judge the documents that are not; bpref looks at judged ones alone"
    yield Caution(FEW_JUDGED, "warning", f"{in_words(k, shares)}; {text}", cure, place=metric)


def mean_share(shares: Floats, weights: Floats | None = None) -> float:
    """The mean over queries (n_queries,), by their weights."""
    defined = ~np.isnan(shares)
    if weights is not None:
        defined &= weights > 0
    if not defined.any():
        return float("nan")
    return float(np.average(shares[defined], weights=None if weights is None else weights[defined]))
