"""The facts of one split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ltr_harness.dataset import RankingDataset
from ltr_harness.evaluation import evaluate_bound
from ltr_harness.groups import QueryGroups
from ltr_harness.inspection.content import Content
from ltr_harness.inspection.outcomes import are_ids, auc, n_only_relevant, tells_relevant
from ltr_harness.metrics import NDCG, bind
from ltr_harness.splits import shuffled

SAMPLED_QUERIES = 1000
"""Feature by feature NDCG is computed on so many queries, drawn with a fixed seed, and said to be."""


@dataclass(frozen=True)
class FeatureFacts:
    """One feature in one split.

    Attributes:
        low, high, mean: of values that are not missing; NaN if all are.
        ndcg: NDCG@10 of ranking by this feature alone, in the better direction; NaN where nothing is relevant.
        descending: whether the larger value comes first in that direction.
        auc: of telling rows with a label above 0 by it, in its better direction; NaN where all or none have one.
        n_only_relevant: sampled rows in which it is neither 0 nor missing, if all of them have a label above 0 and
            chance does not explain it; else 0.
        tells_relevant: in the sampled rows it is neither 0 nor missing where a label is above 0, and seldom elsewhere.
        varies_in_queries: a query has two values of it.
        like_ids: in the sampled rows it looks like the number of a document.
        constant: one value in all rows.
        duplicate_of: another feature with the same values, or "".
    """

    name: str
    low: float
    high: float
    mean: float
    n_missing: int
    n_zero: int
    ndcg: float
    descending: bool
    auc: float
    n_only_relevant: int
    tells_relevant: bool
    varies_in_queries: bool
    like_ids: bool
    constant: bool
    duplicate_of: str


@dataclass(frozen=True, eq=False)
class SplitCard:
    """One split.

    Attributes:
        grades: label to rows.
        sizes: rows per query, quantiles: 0, 25, 50, 75, 90, 100 %.
        n_without_relevant: queries whose labels are all 0.
        n_one_grade: queries with a relevant document whose labels are all equal: no ranking is better than another.
        n_single: queries of one row.
        n_sorted: queries with several grades whose rows stand in the order of their labels.
        n_several_grades: queries with several grades.
        n_repeated_rows: rows whose features an earlier row of the split has already.
        n_several_rows: queries of two different rows and more; rows without any value but 0 left out.
        n_alike: of those, queries at least half of whose rows other queries of the split have too: what chance, or
            what is being ranked, makes alike.
        n_forced_ties: rows with the same features as another row of the same query, but another label: no model of
            these features can tell them apart.
        random_ndcg: NDCG@10 that random order gives.
        n_sampled: queries that `random_ndcg` and the features' NDCG are computed on.
        content: ranges and hashes.
    """

    name: str
    source: str
    n_queries: int
    n_rows: int
    feature_names: tuple[str, ...]
    grades: Mapping[float, int]
    sizes: tuple[float, ...]
    n_without_relevant: int
    n_one_grade: int
    n_single: int
    n_several_grades: int
    n_sorted: int
    n_repeated_rows: int
    n_several_rows: int
    n_alike: int
    n_forced_ties: int
    random_ndcg: float
    n_sampled: int
    features: tuple[FeatureFacts, ...]
    notes: tuple[str, ...]
    content: Content
    dataset: RankingDataset

    @property
    def n_features(self) -> int:
        return len(self.feature_names)

    @property
    def named_queries(self) -> bool:
        """Whether queries have names; numbers from 0 are only a count."""
        ids = self.dataset.groups.ids
        return not (ids.dtype.kind in "iu" and np.array_equal(ids, np.arange(len(ids))))


def split_card(name: str, dataset: RankingDataset) -> SplitCard:
    """The facts of a split; one pass over the features, and one ranking per feature of a sample of queries."""
    groups, labels = dataset.groups, dataset.labels
    starts = groups.boundaries[:-1]
    best = np.maximum.reduceat(labels, starts)
    worst = np.minimum.reduceat(labels, starts)
    several = best > worst
    values, counts = np.unique(labels, return_counts=True)
    content = Content.of(dataset.features)
    query = np.repeat(np.arange(groups.n_queries), groups.sizes)
    n_alike, n_several_rows = (
        n_alike_queries(content, content.elsewhere(query), groups) if dataset.n_features else (0, 0)
    )
    sample = _sampled(dataset)
    ndcg, descending, random = _single_features(sample)
    outcomes = _outcomes(sample)
    names = dataset.feature_names
    return SplitCard(
        name=name,
        source=dataset.source,
        n_queries=dataset.n_queries,
        n_rows=dataset.n_rows,
        feature_names=names,
        grades=dict(zip(values.tolist(), counts.tolist(), strict=True)),
        sizes=tuple(np.quantile(groups.sizes, (0, 0.25, 0.5, 0.75, 0.9, 1)).tolist()),
        n_without_relevant=int((best == 0).sum()),
        n_one_grade=int((~several & (best > 0)).sum()),
        n_single=int((groups.sizes == 1).sum()),
        n_several_grades=int(several.sum()),
        n_sorted=_n_sorted(labels, starts, several),
        n_repeated_rows=content.n_repeated_rows if names else 0,
        n_several_rows=n_several_rows,
        n_alike=n_alike,
        n_forced_ties=_n_forced_ties(content.rows, labels, groups.sizes) if names else 0,
        random_ndcg=random,
        n_sampled=sample.n_queries,
        features=tuple(
            FeatureFacts(
                names[j],
                float(content.low[j]),
                float(content.high[j]),
                float(content.mean[j]),
                int(content.n_missing[j]),
                int(content.n_zero[j]),
                float(ndcg[j]),
                bool(descending[j]),
                *outcomes[j],
                bool(content.constant[j]),
                names[content.duplicate_of[j]] if content.duplicate_of[j] != j else "",
            )
            for j in range(len(names))
        ),
        notes=dataset.notes,
        content=content,
        dataset=dataset,
    )


def n_alike_queries(content: Content, seen: NDArray[np.bool_], groups: QueryGroups) -> tuple[int, int]:
    """Queries of at least two different rows of which half or more have been seen; and how many could be.

    Shapes: `seen` (n_rows,).
    """
    starts, there = groups.boundaries[:-1], ~content.blank
    lowest = np.minimum.reduceat(np.where(there, content.rows, ~np.uint64(0)), starts)
    several = np.maximum.reduceat(np.where(there, content.rows, np.uint64(0)), starts) > lowest
    n_seen, n_there = (np.add.reduceat(rows, starts, dtype=np.int64) for rows in (seen, there))
    return int(np.count_nonzero(several & (2 * n_seen >= n_there))), int(np.count_nonzero(several))


def _sampled(dataset: RankingDataset) -> RankingDataset:
    best = np.maximum.reduceat(dataset.labels, dataset.groups.boundaries[:-1])
    useful = np.flatnonzero(best > 0)
    if len(useful) == 0:
        useful = np.arange(dataset.n_queries)
    chosen = useful[np.sort(shuffled(len(useful), 1)[:SAMPLED_QUERIES])]
    return dataset.take(chosen.astype(np.int64))


def _single_features(
    sample: RankingDataset,
) -> tuple[NDArray[np.float64], NDArray[np.bool_], float]:
    """NDCG@10 of each feature in its better direction, which that is, and NDCG@10 of random order."""
    labels = sample.labels
    whole_grades = bool(labels.max() <= 31 and np.array_equal(labels, np.floor(labels)))
    # Equal values count as in random order: a constant feature is as good as chance.
    metric = NDCG(k=10, ties="expected", gain="exp" if whole_grades else "linear")
    bound = bind([metric], sample.judgments)

    def mean(scores: NDArray[np.float64]) -> float:
        return evaluate_bound(bound, scores)[metric].mean

    random = mean(np.zeros(sample.n_rows))
    ndcg = np.full(sample.n_features, np.nan)
    descending = np.ones(sample.n_features, dtype=bool)
    for j in range(sample.n_features):
        values = sample.features[:, j].astype(np.float64)
        values[np.isnan(values)] = -np.inf
        up = mean(values)
        values[np.isinf(values)] = np.inf
        down = mean(-values)
        ndcg[j], descending[j] = max(up, down), up >= down
    return ndcg, descending, random


def _outcomes(sample: RankingDataset) -> list[tuple[float, int, bool, bool, bool]]:
    """Of each feature `auc`, `n_only_relevant`, `tells_relevant`, `varies_in_queries` and `like_ids`."""
    relevant, groups = sample.labels > 0, sample.groups
    shares = np.add.reduceat(relevant, groups.boundaries[:-1], dtype=np.float64) / groups.sizes
    starts = groups.boundaries[:-1]
    with np.errstate(divide="ignore"):
        log_share = np.repeat(np.log(shares), groups.sizes)
    facts = []
    for j, name in enumerate(sample.feature_names):
        values = sample.features[:, j].astype(np.float64)
        ranked = np.where(np.isnan(values), -np.inf, values)
        numbers = name not in sample.categories
        facts.append(
            (
                auc(ranked, relevant),
                n_only_relevant(values, relevant, log_share) if numbers else 0,
                numbers and tells_relevant(values, relevant),
                bool((np.maximum.reduceat(ranked, starts) > np.minimum.reduceat(ranked, starts)).any()),
                numbers and are_ids(values, groups.boundaries),
            )
        )
    return facts


def _n_sorted(labels: NDArray[np.float64], starts: NDArray[np.int64], several: NDArray[np.bool_]) -> int:
    """Queries with several grades whose labels never rise from row to row."""
    rises = np.zeros(len(labels), dtype=bool)
    rises[1:] = labels[1:] > labels[:-1]
    rises[starts] = False
    return int((several & ~np.logical_or.reduceat(rises, starts)).sum())


def _n_forced_ties(hashes: NDArray[np.uint64], labels: NDArray[np.float64], sizes: NDArray[np.int64]) -> int:
    query = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((hashes, query))
    new = np.ones(len(order), dtype=bool)
    new[1:] = (hashes[order][1:] != hashes[order][:-1]) | (query[order][1:] != query[order][:-1])
    starts = np.flatnonzero(new)
    best = np.maximum.reduceat(labels[order], starts)
    worst = np.minimum.reduceat(labels[order], starts)
    counts = np.diff(np.append(starts, len(order)))
    return int(counts[best > worst].sum())
